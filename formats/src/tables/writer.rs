//! Rows to record batches, and batches to files.
//!
//! Invariant: a batch has at most [`BATCH_ROWS`] rows, and one value or [`BATCH_BYTES`] of texts at most.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};

use crate::error::{Error, Result};
use crate::format::Format;
use crate::record::{FieldKind, FieldValue};

/// Rows of a batch at most.
const BATCH_ROWS: usize = 8192;

/// Bytes of texts of a batch, about.
const BATCH_BYTES: usize = 8 << 20;

/// Bytes of a text at most: offsets of arrays are 32-bit numbers.
const TEXT_MAX: usize = i32::MAX as usize - BATCH_BYTES;

/// Encoded bytes of a row group of Parquet, about.
#[cfg(feature = "parquet")]
const GROUP_BYTES: usize = 32 << 20;

/// Values of a column of the batch at hand.
enum Builder {
    Boolean(BooleanBuilder),
    Integer(Int64Builder),
    Real(Float64Builder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

impl Builder {
    fn new(kind: FieldKind) -> Builder {
        match kind {
            FieldKind::Boolean => Builder::Boolean(BooleanBuilder::new()),
            FieldKind::Integer => Builder::Integer(Int64Builder::new()),
            FieldKind::Real => Builder::Real(Float64Builder::new()),
            FieldKind::Date => Builder::Date(Date32Builder::new()),
            FieldKind::Timestamp => Builder::Timestamp(TimestampMicrosecondBuilder::new()),
            FieldKind::Text => Builder::Text(StringBuilder::new()),
            FieldKind::Bytes => Builder::Bytes(BinaryBuilder::new()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Builder::Boolean(_) => DataType::Boolean,
            Builder::Integer(_) => DataType::Int64,
            Builder::Real(_) => DataType::Float64,
            Builder::Date(_) => DataType::Date32,
            Builder::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            Builder::Text(_) => DataType::Utf8,
            Builder::Bytes(_) => DataType::Binary,
        }
    }

    /// Appends a value. Says whether it fits.
    fn push(&mut self, value: &FieldValue) -> bool {
        use FieldValue::{Date, Integer, Null, Real, Text, Timestamp, Untyped};
        match (self, value) {
            (Builder::Boolean(to), Null) => to.append_null(),
            (Builder::Boolean(to), FieldValue::Boolean(value)) => to.append_value(*value),
            (Builder::Boolean(to), Integer(value @ 0..=1)) => to.append_value(*value == 1),
            (Builder::Integer(to), Null) => to.append_null(),
            (Builder::Integer(to), Integer(value)) => to.append_value(*value),
            (Builder::Real(to), Null) => to.append_null(),
            (Builder::Real(to), Real(value)) => to.append_value(*value),
            (Builder::Real(to), Integer(value)) => to.append_value(*value as f64),
            (Builder::Date(to), Null) => to.append_null(),
            (Builder::Date(to), Date(days)) => match i32::try_from(*days) {
                Ok(days) => to.append_value(days),
                Err(_) => return false,
            },
            (Builder::Timestamp(to), Null) => to.append_null(),
            (Builder::Timestamp(to), Timestamp(moment)) => to.append_value(*moment),
            (Builder::Text(to), Null) => to.append_null(),
            (Builder::Text(to), Text(text) | Untyped(text)) => to.append_value(text),
            (Builder::Bytes(to), Null) => to.append_null(),
            (Builder::Bytes(to), Text(text) | Untyped(text)) => to.append_value(text),
            (Builder::Bytes(to), FieldValue::Bytes(bytes)) => to.append_value(bytes),
            _ => return false,
        }
        true
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Boolean(builder) => Arc::new(builder.finish()),
            Builder::Integer(builder) => Arc::new(builder.finish()),
            Builder::Real(builder) => Arc::new(builder.finish()),
            Builder::Date(builder) => Arc::new(builder.finish()),
            Builder::Timestamp(builder) => Arc::new(builder.finish()),
            Builder::Text(builder) => Arc::new(builder.finish()),
            Builder::Bytes(builder) => Arc::new(builder.finish()),
        }
    }
}

/// Writes batches.
enum Output<W: Write + Send> {
    Arrow(Box<arrow_ipc::writer::FileWriter<W>>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::arrow::ArrowWriter<W>>),
}

/// Collects rows.
pub(super) struct Writer<W: Write + Send> {
    names: Vec<String>,
    builders: Vec<Builder>,
    schema: Arc<Schema>,
    rows: usize,
    bytes: usize,
    /// Rows before this batch.
    before: u64,
    output: Output<W>,
}

impl<W: Write + Send> Writer<W> {
    pub(super) fn new(
        format: Format,
        columns: &[(String, FieldKind)],
        target: W,
    ) -> Result<Writer<W>> {
        let builders: Vec<Builder> = (columns.iter())
            .map(|(_, kind)| Builder::new(*kind))
            .collect();
        let fields = columns.iter().zip(&builders);
        let fields = fields.map(|((name, _), builder)| Field::new(name, builder.data_type(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let output = match format {
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let compression = parquet::basic::ZstdLevel::default();
                let properties = parquet::file::properties::WriterProperties::builder()
                    .set_compression(parquet::basic::Compression::ZSTD(compression))
                    .set_max_row_group_row_count(None)
                    .build();
                let writer =
                    parquet::arrow::ArrowWriter::try_new(target, schema.clone(), Some(properties));
                Output::Parquet(Box::new(writer.map_err(io::Error::other)?))
            }
            _ => {
                let writer = arrow_ipc::writer::FileWriter::try_new(target, &schema);
                Output::Arrow(Box::new(writer.map_err(of_arrow)?))
            }
        };
        Ok(Writer {
            names: columns.iter().map(|(name, _)| name.clone()).collect(),
            builders,
            schema,
            rows: 0,
            bytes: 0,
            before: 0,
            output,
        })
    }

    pub(super) fn push(&mut self, row: &[FieldValue]) -> Result<()> {
        let sizes = row.iter().map(|value| match value {
            FieldValue::Text(text) | FieldValue::Untyped(text) => text.len(),
            FieldValue::Bytes(bytes) => bytes.len(),
            _ => 0,
        });
        let bytes: usize = sizes.clone().sum();
        if self.rows > 0 && (self.rows == BATCH_ROWS || self.bytes + bytes > BATCH_BYTES) {
            self.write_batch()?;
        }
        let number = self.before + self.rows as u64 + 1;
        for (place, (builder, name)) in self.builders.iter_mut().zip(&self.names).enumerate() {
            let value = row.get(place).unwrap_or(&FieldValue::Null);
            let is_long = sizes.clone().nth(place).is_some_and(|size| size > TEXT_MAX);
            if is_long || !builder.push(value) {
                return Err(Error::Misfit {
                    row: number,
                    column: name.clone(),
                });
            }
        }
        self.rows += 1;
        self.bytes += bytes;
        Ok(())
    }

    fn write_batch(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let arrays = self.builders.iter_mut().map(Builder::finish).collect();
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options);
        let batch = batch.map_err(of_arrow)?;
        self.before += self.rows as u64;
        (self.rows, self.bytes) = (0, 0);
        match &mut self.output {
            Output::Arrow(writer) => writer.write(&batch).map_err(of_arrow)?,
            #[cfg(feature = "parquet")]
            Output::Parquet(writer) => {
                writer.write(&batch).map_err(io::Error::other)?;
                if writer.in_progress_size() >= GROUP_BYTES {
                    writer.flush().map_err(io::Error::other)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<W> {
        self.write_batch()?;
        match self.output {
            Output::Arrow(writer) => {
                let mut writer = *writer;
                writer.finish().map_err(of_arrow)?;
                Ok(writer.into_inner().map_err(of_arrow)?)
            }
            #[cfg(feature = "parquet")]
            Output::Parquet(writer) => Ok(writer.into_inner().map_err(io::Error::other)?),
        }
    }
}

/// The failure of the target behind an error of Arrow, if it is one.
fn of_arrow(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::other(error),
    }
}
