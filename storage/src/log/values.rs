//! Values of columns of files in a record.
//!
//! Invariant: what is read is exactly what is written. Which columns there are, and of which types, is not known here.

use crate::metadata::{MetadataValue, unzigzag, zigzag};
use crate::segment::{Fault, varint};

/// Appends numbered values: their number, then for each the number of its column, its type and itself.
pub fn encode_values(values: &[(u32, MetadataValue)], out: &mut Vec<u8>) {
    varint::write(out, values.len() as u64);
    for (column, value) in values {
        varint::write(out, u64::from(*column));
        match value {
            MetadataValue::Null => out.push(0),
            MetadataValue::Integer(value) => {
                out.push(1);
                varint::write(out, zigzag(*value));
            }
            MetadataValue::Real(value) => {
                out.push(2);
                out.extend(value.to_bits().to_le_bytes());
            }
            MetadataValue::Text(text) => {
                out.push(3);
                varint::write(out, text.len() as u64);
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
}

/// The values that [`encode_values`] wrote; none if the bytes are others.
pub fn decode_values(mut bytes: &[u8]) -> Option<Vec<(u32, MetadataValue)>> {
    let mut values = Vec::new();
    let read = read_values(&mut bytes, |column, value| {
        values.push((column, value.into()));
    });
    (read.is_ok() && bytes.is_empty()).then_some(values)
}

/// Takes what [`encode_values`] wrote off the front of `input`; `visit` gets each value.
pub(crate) fn read_values<'a>(
    input: &mut &'a [u8],
    mut visit: impl FnMut(u32, ReadValue<'a>),
) -> Result<(), Fault> {
    for _ in 0..varint::read(input)? {
        let column = varint::read_u32(input)?;
        let value = match varint::take(input, 1)?[0] {
            0 => ReadValue::Null,
            1 => ReadValue::Integer(unzigzag(varint::read(input)?)),
            2 => {
                let (bits, rest) =
                    (input.split_first_chunk::<8>()).ok_or(Fault("a number is cut off"))?;
                *input = rest;
                ReadValue::Real(f64::from_bits(u64::from_le_bytes(*bits)))
            }
            3 => {
                let size = usize::try_from(varint::read(input)?);
                let text = varint::take(input, size.map_err(|_| Fault("a text is too long"))?)?;
                ReadValue::Text(
                    std::str::from_utf8(text).map_err(|_| Fault("a text is not UTF-8"))?,
                )
            }
            _ => return Err(Fault("a value has no type")),
        };
        visit(column, value);
    }
    Ok(())
}

/// A value in the bytes that it was read from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadValue<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
}

impl From<ReadValue<'_>> for MetadataValue {
    fn from(value: ReadValue<'_>) -> MetadataValue {
        match value {
            ReadValue::Null => MetadataValue::Null,
            ReadValue::Integer(value) => MetadataValue::Integer(value),
            ReadValue::Real(value) => MetadataValue::Real(value),
            ReadValue::Text(text) => MetadataValue::Text(text.into()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_cut_ones_are_faults() {
        let values = [
            (0, MetadataValue::Null),
            (7, MetadataValue::Integer(i64::MIN)),
            (u32::MAX, MetadataValue::Real(-0.5)),
            (1, MetadataValue::Text("\u{e4}".into())),
        ];
        let mut bytes = Vec::new();
        encode_values(&values, &mut bytes);
        let mut found = Vec::new();
        let mut rest = &bytes[..];
        read_values(&mut rest, |column, value| {
            found.push((column, value.into()))
        })
        .unwrap();
        assert_eq!((&found[..], rest.len()), (&values[..], 0));
        assert_eq!(decode_values(&bytes).as_deref(), Some(&values[..]));
        for size in 0..bytes.len() {
            assert!(read_values(&mut &bytes[..size], |_, _| {}).is_err());
            assert_eq!(decode_values(&bytes[..size]), None);
        }
    }
}
