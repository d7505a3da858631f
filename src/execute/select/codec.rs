//! Rows as bytes, for what is kept or spilled.
//!
//! Invariant: decoding what was encoded gives the same row; decoding anything else gives an error or some row, and never
//! takes more memory than the bytes it reads.

use std::io;

use super::row::{WeightedRow, value_size};
use crate::Value;

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
            Value::Null => (0, 0),
            Value::Integer(integer) => (1, integer.cast_unsigned()),
            Value::Real(real) => (2, real.to_bits()),
            Value::Text(text) => (3, text.len() as u64),
            Value::Blob(bytes) => (4, bytes.len() as u64),
        };
        self.bytes.push(tag);
        if tag > 0 {
            self.number(number);
        }
        match value {
            Value::Text(text) => self.bytes.extend_from_slice(text.as_bytes()),
            Value::Blob(bytes) => self.bytes.extend_from_slice(bytes),
            _ => {}
        }
    }

    /// The row, and nothing that was written before. Each value is dropped when it is written.
    pub(super) fn row(&mut self, row: WeightedRow) -> &[u8] {
        /// Tag and number.
        const VALUE_BYTES: usize = 1 + size_of::<u64>();
        self.bytes.clear();
        let texts = row.values.iter().map(value_size).sum::<usize>();
        let values = VALUE_BYTES * row.values.len();
        self.bytes
            .reserve_exact(2 * size_of::<u64>() + values + texts);
        self.number(row.times);
        self.number(row.values.len() as u64);
        for value in row.values {
            self.value(&value);
        }
        &self.bytes
    }
}

/// Reads what an `Encoder` wrote.
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
        if tag == 0 {
            return Ok(Value::Null);
        }
        let number = self.number()?;
        Ok(match tag {
            1 => Value::Integer(number.cast_signed()),
            2 => Value::Real(f64::from_bits(number)),
            3 => {
                let text = String::from_utf8(self.take(number)?.to_vec());
                Value::Text(text.map_err(|_| damaged())?)
            }
            4 => Value::Blob(self.take(number)?.to_vec()),
            _ => return Err(damaged()),
        })
    }

    pub(super) fn row(mut self) -> io::Result<WeightedRow> {
        let times = self.number()?;
        let count = self.number()?;
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value()?);
        }
        Ok(WeightedRow { values, times })
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

    #[test]
    fn rows_come_back_and_cut_rows_are_errors() {
        let row = WeightedRow {
            values: vec![
                Value::Null,
                Value::Integer(-1),
                Value::Real(0.5),
                Value::from("\u{e9}"),
                Value::Blob(vec![0, 255]),
            ],
            times: 7,
        };
        let mut encoder = Encoder::default();
        let bytes = encoder.row(row.clone()).to_vec();
        let decoded = Decoder { bytes: &bytes }.row().unwrap();
        assert_eq!((decoded.values, decoded.times), (row.values, row.times));
        for end in 0..bytes.len() {
            assert!(
                Decoder {
                    bytes: &bytes[..end]
                }
                .row()
                .is_err()
            );
        }
        for index in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[index] ^= 0xff;
            // Whatever it says, it says it without a panic.
            let _ = Decoder { bytes: &flipped }.row();
        }
    }
}
