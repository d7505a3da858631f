//! Rows as bytes, to keep or spill them.
//!
//! Invariant: decoding an encoded row gives the same row; decoding other bytes gives an error or some row, and never takes more
//! memory than the bytes it reads.

use std::io;

use super::row::{BATCH_BYTES, value_size};
use crate::batch::{Batch, BatchColumn};
use crate::{Error, Result, Value};

/// The tags of values.
const NULL: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;
/// The tag of numbers in a dictionary: one, or those of the words of an n-gram.
const NUMBERS: u8 = 5;

/// Tag and number of a value.
const VALUE_BYTES: usize = 1 + size_of::<u64>();

/// Writes numbers, bytes and values one after the other.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn value(&mut self, value: &Value) {
        let (tag, number): (u8, u64) = match value {
            Value::Null => (NULL, 0),
            Value::Integer(integer) => (INTEGER, integer.cast_unsigned()),
            Value::Real(real) => (REAL, real.to_bits()),
            Value::Text(text) => (TEXT, text.len() as u64),
            Value::Blob(bytes) => (BLOB, bytes.len() as u64),
        };
        self.bytes.push(tag);
        if tag != NULL {
            self.number(number);
        }
        match value {
            Value::Text(text) => self.bytes.extend_from_slice(text.as_bytes()),
            Value::Blob(bytes) => self.bytes.extend_from_slice(bytes),
            _ => {}
        }
    }

    /// A text, or a BLOB if it is not UTF-8.
    fn text(&mut self, text: &[u8]) {
        let is_text = std::str::from_utf8(text).is_ok();
        self.bytes.push(if is_text { TEXT } else { BLOB });
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text);
    }
}

/// Reads the output of an `Encoder`.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    pub(super) bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    fn take(&mut self, count: u64) -> io::Result<&'a [u8]> {
        let split = usize::try_from(count)
            .ok()
            .and_then(|count| self.bytes.split_at_checked(count));
        let (taken, rest) = split.ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| damaged())?))
    }

    pub(super) fn value(&mut self) -> io::Result<Value> {
        let tag = self.take(1)?[0];
        self.value_of(tag)
    }

    fn value_of(&mut self, tag: u8) -> io::Result<Value> {
        if tag == NULL {
            return Ok(Value::Null);
        }
        let number = self.number()?;
        Ok(match tag {
            INTEGER => Value::Integer(number.cast_signed()),
            REAL => Value::Real(f64::from_bits(number)),
            TEXT => {
                let text = String::from_utf8(self.take(number)?.to_vec());
                Value::Text(text.map_err(|_| damaged())?)
            }
            BLOB => Value::Blob(self.take(number)?.to_vec()),
            _ => return Err(damaged()),
        })
    }

    /// Numbers of texts, checked against the size of their dictionary.
    fn texts(
        &mut self,
        count: usize,
        texts: usize,
    ) -> io::Result<impl Iterator<Item = io::Result<u32>> + use<'a>> {
        let bytes = self.take((count * size_of::<u32>()) as u64)?;
        Ok(bytes.chunks_exact(size_of::<u32>()).map(move |bytes| {
            let number = u32::from_le_bytes(bytes.try_into().map_err(|_| damaged())?);
            let is_there = (number as usize) < texts;
            is_there.then_some(number).ok_or_else(damaged)
        }))
    }
}

/// Rows of batches as bytes. The number of a text in a batch is a number in the bytes too.
#[derive(Debug)]
pub(super) struct RowCodec {
    /// Empty columns of batches. Values of columns of another kind are written as values.
    kinds: Vec<BatchColumn>,
}

impl RowCodec {
    /// A codec of the first columns of batches, which are of the kinds of these.
    pub(super) fn of(columns: &[BatchColumn]) -> RowCodec {
        RowCodec {
            kinds: columns.iter().map(BatchColumn::empty).collect(),
        }
    }

    /// Writes a row, and nothing else. Values in the batch are taken out, so that they are in memory once.
    pub(super) fn write(&self, batch: &mut Batch, row: usize, encoder: &mut Encoder) {
        encoder.bytes.clear();
        encoder.number(batch.times_of(row));
        for (column, kind) in batch.columns_mut().iter_mut().zip(&self.kinds) {
            let is_like = column.is_like(kind);
            match column {
                BatchColumn::Words { indices, .. } if is_like => {
                    encoder.bytes.push(NUMBERS);
                    encoder.bytes.extend_from_slice(&indices[row].to_le_bytes());
                }
                BatchColumn::Ngrams { n, indices, .. } if is_like => {
                    encoder.bytes.push(NUMBERS);
                    let words = indices[row * *n..(row + 1) * *n].iter();
                    encoder
                        .bytes
                        .extend(words.flat_map(|word| word.to_le_bytes()));
                }
                BatchColumn::Integers(integers) => encoder.value(&Value::Integer(integers[row])),
                BatchColumn::Reals(reals) => encoder.value(&Value::Real(reals[row])),
                BatchColumn::Texts(texts) => encoder.text(texts.get(row)),
                BatchColumn::Values(values) => {
                    let value = std::mem::replace(&mut values[row], Value::Null);
                    encoder
                        .bytes
                        .reserve_exact(VALUE_BYTES + value_size(&value));
                    encoder.value(&value);
                }
                column => encoder.value(&column.value(row)),
            }
        }
    }

    /// A batch to read rows into.
    pub(super) fn rows(&self) -> DecodedRows {
        DecodedRows {
            columns: self.kinds.clone(),
            times: Vec::new(),
            bytes: 0,
        }
    }

    /// Appends an encoded row.
    pub(super) fn read(&self, bytes: &[u8], rows: &mut DecodedRows) -> io::Result<()> {
        let mut decoder = Decoder { bytes };
        let times = decoder.number()?;
        for (kind, target) in self.kinds.iter().zip(&mut rows.columns) {
            let tag = decoder.take(1)?[0];
            if tag != NUMBERS {
                let value = decoder.value_of(tag)?;
                rows.bytes += value_size(&value);
                target.push(value);
                continue;
            }
            let (n, dictionary) = match kind {
                BatchColumn::Words { dictionary, .. } => (1, dictionary),
                BatchColumn::Ngrams { n, dictionary, .. } => (*n, dictionary),
                _ => return Err(damaged()),
            };
            let texts = decoder.texts(n, dictionary.len())?;
            match target {
                BatchColumn::Words { indices, .. } | BatchColumn::Ngrams { indices, .. } => {
                    for text in texts {
                        indices.push(text?);
                    }
                }
                // Other rows have values there.
                target => {
                    let indices = texts.collect::<io::Result<_>>()?;
                    let dictionary = dictionary.clone();
                    target.append(&match kind {
                        BatchColumn::Ngrams { n, .. } => BatchColumn::Ngrams {
                            n: *n,
                            indices,
                            dictionary,
                        },
                        _ => BatchColumn::Words {
                            indices,
                            dictionary,
                        },
                    });
                }
            }
        }
        rows.times.push(times);
        Ok(())
    }

    /// Reads written rows up to the limits of a batch: `next` stores the bytes of one after the other in its argument, and
    /// returns false at the end. None if there are none. `failed` makes the error for bytes that encode no row.
    pub(super) fn read_batch(
        &self,
        rows_max: usize,
        mut next: impl FnMut(&mut Vec<u8>) -> Result<bool>,
        failed: impl Fn(io::Error) -> Error,
    ) -> Result<Option<Batch>> {
        let mut rows = self.rows();
        let mut bytes = Vec::new();
        while !rows.is_full(rows_max) && next(&mut bytes)? {
            self.read(&bytes, &mut rows).map_err(&failed)?;
        }
        Ok(rows.finish())
    }
}

/// Rows that were read.
#[derive(Debug)]
pub(super) struct DecodedRows {
    columns: Vec<BatchColumn>,
    times: Vec<u64>,
    /// Bytes of texts that are not numbers.
    bytes: usize,
}

impl DecodedRows {
    /// Whether there are `rows_max` rows, or their texts reach the limit of a batch.
    pub(super) fn is_full(&self, rows_max: usize) -> bool {
        self.times.len() >= rows_max.max(1) || self.bytes >= BATCH_BYTES
    }

    /// The rows; none if there are none.
    pub(super) fn finish(self) -> Option<Batch> {
        let rows = self.times.len();
        (rows > 0).then(|| Batch::new(self.columns, rows, Some(self.times)))
    }
}

/// The error for bytes that no encoder wrote.
pub(super) fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "it does not hold what was written to it",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::batch::ColumnBuilder;

    #[test]
    fn rows_come_back_and_cut_rows_are_errors() {
        let values = [
            Value::Null,
            Value::Integer(-1),
            Value::Real(0.5),
            Value::from("\u{e9}"),
            Value::Blob(vec![0, 255]),
        ];
        let columns = values.iter().map(|value| ColumnBuilder::repeated(value, 1));
        let mut batch = Batch::new(columns.collect(), 1, Some(vec![7]));
        let (codec, mut encoder) = (RowCodec::of(batch.columns()), Encoder::default());
        codec.write(&mut batch, 0, &mut encoder);
        let bytes = encoder.bytes;
        let read = |bytes: &[u8]| {
            let mut rows = codec.rows();
            codec
                .read(bytes, &mut rows)
                .map(|()| rows.finish().unwrap())
        };
        let decoded = read(&bytes).unwrap();
        assert_eq!((decoded.row(0), decoded.times_of(0)), (values.into(), 7));
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err());
        }
        for index in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[index] ^= 0xff;
            // Any result is right, but a panic is not.
            let _ = read(&flipped);
        }
    }
}
