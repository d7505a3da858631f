//! What the driver is, as ADBC asks for it: names and versions, by numbers of its own.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::constants::ADBC_VERSION_1_1_0;
use adbc_core::error::{Error, Result, Status};
use adbc_core::options::InfoCode;
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchIterator, StringArray, UInt32Array,
    UnionArray, new_empty_array,
};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{ArrowError, DataType};

use super::session::Batches;

/// Kinds of values, by their numbers in the union of ADBC.
const TEXT: i8 = 0;
const BOOLEAN: i8 = 1;
const INTEGER: i8 = 2;

/// What is known, by its number.
enum Known {
    Text(&'static str),
    Boolean(bool),
    Integer(i64),
}

const ALL: [(InfoCode, Known); 8] = [
    (InfoCode::VendorName, Known::Text("ZipfDB")),
    (
        InfoCode::VendorVersion,
        Known::Text(env!("CARGO_PKG_VERSION")),
    ),
    (InfoCode::VendorArrowVersion, Known::Text("59")),
    (InfoCode::DriverName, Known::Text("ADBC driver of ZipfDB")),
    (
        InfoCode::DriverVersion,
        Known::Text(env!("CARGO_PKG_VERSION")),
    ),
    (InfoCode::DriverArrowVersion, Known::Text("59")),
    (
        InfoCode::DriverAdbcVersion,
        Known::Integer(ADBC_VERSION_1_1_0 as i64),
    ),
    (InfoCode::VendorSql, Known::Boolean(true)),
];

/// What is asked for, or all.
pub(crate) fn info(codes: Option<HashSet<InfoCode>>) -> Result<Batches> {
    let is_wanted = |code: &InfoCode| codes.as_ref().is_none_or(|codes| codes.contains(code));
    let known = ALL.iter().filter(|(code, _)| is_wanted(code));
    let batch = batch(known)
        .map_err(|error| Error::with_message_and_status(error.to_string(), Status::Internal))?;
    let schema = batch.schema();
    Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
}

fn batch<'a>(
    known: impl Iterator<Item = &'a (InfoCode, Known)>,
) -> std::result::Result<RecordBatch, ArrowError> {
    let (mut names, mut kinds, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let (mut texts, mut booleans, mut integers) = (Vec::new(), Vec::new(), Vec::new());
    for (code, value) in known {
        names.push(u32::from(code));
        match value {
            Known::Text(text) => {
                kinds.push(TEXT);
                places.push(texts.len() as i32);
                texts.push(*text);
            }
            Known::Boolean(value) => {
                kinds.push(BOOLEAN);
                places.push(booleans.len() as i32);
                booleans.push(*value);
            }
            Known::Integer(number) => {
                kinds.push(INTEGER);
                places.push(integers.len() as i32);
                integers.push(*number);
            }
        }
    }
    let DataType::Union(fields, _) = GET_INFO_SCHEMA.field(1).data_type() else {
        return Err(ArrowError::SchemaError("values are no union".to_owned()));
    };
    let children = fields.iter().map(|(kind, field)| match kind {
        TEXT => Arc::new(StringArray::from(texts.clone())) as ArrayRef,
        BOOLEAN => Arc::new(BooleanArray::from(booleans.clone())),
        INTEGER => Arc::new(Int64Array::from(integers.clone())),
        _ => new_empty_array(field.data_type()),
    });
    let values = UnionArray::try_new(
        fields.clone(),
        ScalarBuffer::from(kinds),
        Some(ScalarBuffer::from(places)),
        children.collect(),
    )?;
    let columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(names)), Arc::new(values)];
    RecordBatch::try_new(GET_INFO_SCHEMA.clone(), columns)
}
