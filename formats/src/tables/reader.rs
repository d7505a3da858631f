//! Tables to records: a record for each row.
//!
//! Invariant: damaged files are damage, also where the libraries that decode them panic.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};

use super::arrays::{is_known, value};
use super::messages;
use crate::error::{Damage, Error, Failure};
use crate::format::Format;
use crate::member::MemberRecords;
use crate::options::ReadOptions;
use crate::roles::{Roles, take_roles};

/// Rows of a batch at most.
#[cfg(feature = "parquet")]
const BATCH_ROWS: usize = 8192;

/// Bytes of a batch, about.
#[cfg(feature = "parquet")]
const BATCH_BYTES: u64 = 8 << 20;

/// Batches of a table.
struct Batches {
    schema: Arc<Schema>,
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
}

/// Reads a table, which is written to a temporary file first unless it is a file itself.
pub(crate) fn read(
    format: Format,
    source: Box<dyn Read + '_>,
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let mut source = source;
    let mut file = match &options.directory {
        Some(directory) => tempfile::tempfile_in(directory),
        None => tempfile::tempfile(),
    }
    .map_err(Error::from)?;
    std::io::copy(&mut source, &mut file)?;
    file.rewind().map_err(Error::from)?;
    read_file(format, file, options, target)
}

/// Reads a table from a file.
fn read_file(
    format: Format,
    file: File,
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let mut own = None;
    let roles = Roles::of(options, &mut own);
    let mut batches = guarded(|| open(format, file, options.limits.unpacked_bytes))?;
    let names: Vec<Arc<str>> = (batches.schema.fields().iter())
        .map(|field| field.name().as_str().into())
        .collect();
    for field in batches.schema.fields() {
        if !is_known(field.data_type()) {
            let reason = format!(
                "its column `{}` is of the type {}, which cannot be read; hint: write the file without it, or as text",
                field.name(),
                field.data_type()
            );
            return Err(Damage::whole(reason).into());
        }
    }
    let mut number = 0;
    while let Some(batch) = guarded(|| batches.batches.next().transpose())? {
        for row in 0..batch.num_rows() {
            number += 1;
            let columns = names.iter().zip(batch.columns());
            let fields = guarded(|| {
                let fields = columns.map(|(name, array)| (Arc::clone(name), value(array, row)));
                Ok(fields.collect::<Vec<_>>())
            })?;
            match take_roles(fields, &roles) {
                Ok(record) => {
                    target.text(&record.text)?;
                    target.record(number, record.name, record.fields)?;
                }
                Err(reason) => target.reject(Damage::at(number, 0, reason))?,
            }
        }
    }
    Ok(())
}

/// Runs what decodes untrusted bytes: a panic there is damage.
fn guarded<T>(decode: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, Damage> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(decoded)) => Ok(decoded),
        Ok(Err(error)) => Err(Damage::whole(format!("it is damaged: {error}"))),
        Err(_) => Err(Damage::whole("it is damaged: its decoder gave up")),
    }
}

fn open(format: Format, mut file: File, limit: Option<u64>) -> Result<Batches, ArrowError> {
    if format == Format::Parquet {
        #[cfg(feature = "parquet")]
        return open_parquet(file);
    }
    let messages = messages::of_file(&mut file, limit)?;
    let reader = arrow_ipc::reader::StreamReader::try_new(BufReader::new(messages), None)?;
    Ok(Batches {
        schema: reader.schema(),
        batches: Box::new(reader),
    })
}

#[cfg(feature = "parquet")]
fn open_parquet(file: File) -> Result<Batches, ArrowError> {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    let of_parquet = |error: parquet::errors::ParquetError| ArrowError::ExternalError(error.into());
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(of_parquet)?;
    let (rows, bytes) =
        (builder.metadata().row_groups().iter()).fold((0, 0), |(rows, bytes), group| {
            let group_bytes = u64::try_from(group.total_byte_size()).unwrap_or(0);
            let group_rows = u64::try_from(group.num_rows()).unwrap_or(0);
            (rows + group_rows, bytes + group_bytes)
        });
    let fitting = BATCH_BYTES.saturating_mul(rows) / bytes.max(1);
    // At most BATCH_ROWS.
    let batch_rows = fitting.clamp(1, BATCH_ROWS as u64) as usize;
    let reader = builder.with_batch_size(batch_rows).build();
    let reader = reader.map_err(of_parquet)?;
    let schema = arrow_array::RecordBatchReader::schema(&reader);
    Ok(Batches {
        schema,
        batches: Box::new(reader),
    })
}
