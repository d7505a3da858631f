//! Metadata of the files of a segment, in columns.
//!
//! Invariant: a column has a value or NULL for each entry of the file table, of its kind. Numbers stand in blocks, each with its
//! least value and the width of the differences from it, or from a line of constant growth; so a block says within which bounds
//! its values are. Texts are numbers in a sorted dictionary.

use std::sync::Arc;

use super::coding::{DecodeError, Fault, check_expansion, pad, reserved, varint};
use crate::metadata::{
    METADATA_COLUMNS_MAX, MetadataColumn, MetadataKind, MetadataValue, is_column_name, unzigzag,
    zigzag,
};
use crate::{Error, Result};

/// Values of a block.
const BLOCK_VALUES: usize = 4096;

/// A column of a segment with its values, one for each entry of the file table.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentColumn {
    /// What the corpus declares.
    pub column: MetadataColumn,
    /// Whether each file has a value; none if all have.
    pub present: Option<Vec<bool>>,
    /// The values; those of files without one are 0.
    pub values: ColumnValues,
}

/// The values of a column by number of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValues {
    /// Of all kinds but the others.
    Integers(Vec<i64>),
    /// REAL.
    Reals(Vec<f64>),
    /// TEXT.
    Texts {
        /// Numbers in the dictionary.
        numbers: Vec<u32>,
        /// Distinct texts in order of bytes.
        texts: Vec<Arc<str>>,
    },
}

impl SegmentColumn {
    /// A column of these values.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a value is not of the kind.
    pub fn new(column: MetadataColumn, values: &[MetadataValue]) -> Result<SegmentColumn> {
        if !values.iter().all(|value| column.kind.holds(value)) {
            return Err(Error::Invalid {
                what: "metadata",
                fault: "a value is not of the type of its column",
            });
        }
        let present = values.iter().map(|value| *value != MetadataValue::Null);
        let present: Vec<bool> = present.collect();
        let values = match column.kind {
            MetadataKind::Text => {
                let texts = values.iter().filter_map(|value| match value {
                    MetadataValue::Text(text) => Some(text),
                    _ => None,
                });
                let mut texts: Vec<Arc<str>> = texts.cloned().collect();
                texts.sort_unstable();
                texts.dedup();
                let number = |value: &MetadataValue| match value {
                    // Files are numbered by u32.
                    MetadataValue::Text(text) => {
                        texts.binary_search(text).map_or(0, |at| at as u32)
                    }
                    _ => 0,
                };
                let numbers = values.iter().map(number).collect();
                ColumnValues::Texts { numbers, texts }
            }
            MetadataKind::Real => {
                let real = |value: &MetadataValue| match value {
                    MetadataValue::Real(value) => *value,
                    _ => 0.0,
                };
                ColumnValues::Reals(values.iter().map(real).collect())
            }
            _ => {
                let integer = |value: &MetadataValue| match value {
                    MetadataValue::Integer(value) => *value,
                    _ => 0,
                };
                ColumnValues::Integers(values.iter().map(integer).collect())
            }
        };
        Ok(SegmentColumn {
            column,
            present: present.contains(&false).then_some(present),
            values,
        })
    }

    /// The value of a file.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn value(&self, file: usize) -> MetadataValue {
        if self.present.as_ref().is_some_and(|present| !present[file]) {
            return MetadataValue::Null;
        }
        match &self.values {
            ColumnValues::Integers(values) => MetadataValue::Integer(values[file]),
            ColumnValues::Reals(values) => MetadataValue::Real(values[file]),
            ColumnValues::Texts { numbers, texts } => {
                MetadataValue::Text(texts[numbers[file] as usize].clone())
            }
        }
    }

    /// The number of values.
    pub fn files(&self) -> usize {
        match &self.values {
            ColumnValues::Integers(values) => values.len(),
            ColumnValues::Reals(values) => values.len(),
            ColumnValues::Texts { numbers, .. } => numbers.len(),
        }
    }
}

/// Encodes columns of a segment; nothing without columns.
pub fn encode(columns: &[SegmentColumn]) -> Vec<u8> {
    let mut out = Vec::new();
    if columns.is_empty() {
        return out;
    }
    varint::write(&mut out, columns.len() as u64);
    for column in columns {
        varint::write(&mut out, u64::from(column.column.id));
        out.push(column.column.kind.to_disk());
        varint::write(&mut out, column.column.name.len() as u64);
        out.extend_from_slice(column.column.name.as_bytes());
        let mut body = Vec::new();
        encode_column(column, &mut body);
        varint::write(&mut out, body.len() as u64);
        out.extend(body);
    }
    out
}

fn encode_column(column: &SegmentColumn, out: &mut Vec<u8>) {
    let begin = out.len();
    out.push(u8::from(column.present.is_some()));
    let has = |file: usize| column.present.as_ref().is_none_or(|present| present[file]);
    if let Some(present) = &column.present {
        let mut bits = BitWriter::default();
        present.iter().for_each(|&bit| bits.push(u64::from(bit), 1));
        out.extend(bits.finish());
    }
    let mut decoded = column.files() as u64;
    match &column.values {
        ColumnValues::Integers(values) => {
            let values = values.iter().enumerate().filter(|(file, _)| has(*file));
            encode_numbers(&values.map(|(_, value)| *value).collect::<Vec<i64>>(), out);
            decoded *= 8;
        }
        ColumnValues::Reals(values) => {
            let values = values.iter().enumerate().filter(|(file, _)| has(*file));
            for (_, value) in values {
                out.extend(value.to_bits().to_le_bytes());
            }
            decoded *= 8;
        }
        ColumnValues::Texts { numbers, texts } => {
            varint::write(out, texts.len() as u64);
            let mut previous: &[u8] = &[];
            let mut bytes = 0;
            for text in texts {
                let text = text.as_bytes();
                let pairs = text.iter().zip(previous);
                let shared = pairs.take_while(|(left, right)| left == right).count();
                varint::write(out, shared as u64);
                varint::write(out, (text.len() - shared) as u64);
                out.extend_from_slice(&text[shared..]);
                (previous, bytes) = (text, bytes + text.len() as u64);
            }
            let numbers = numbers.iter().enumerate().filter(|(file, _)| has(*file));
            let numbers: Vec<i64> = numbers.map(|(_, &number)| i64::from(number)).collect();
            encode_numbers(&numbers, out);
            decoded = (decoded * 4).max(bytes);
        }
    }
    let mut body = out.split_off(begin);
    pad(&mut body, decoded);
    out.extend(body);
}

/// Appends numbers in blocks: the step between two of a line, the least difference from the line, the width of all
/// differences from that, and these. A step of 0 leaves the values themselves, whose bounds the block then has.
fn encode_numbers(values: &[i64], out: &mut Vec<u8>) {
    for block in values.chunks(BLOCK_VALUES) {
        let step = step_of(block);
        let line = |at: usize| step.wrapping_mul(at as i64);
        let rests = block.iter().enumerate();
        let rests: Vec<i64> = rests
            .map(|(at, value)| value.wrapping_sub(line(at)))
            .collect();
        let least = rests.iter().copied().min().unwrap_or(0);
        let width = (rests.iter()).map(|rest| width_of(rest.wrapping_sub(least) as u64));
        let width = width.max().unwrap_or(0);
        varint::write(out, zigzag(step));
        varint::write(out, zigzag(least));
        out.push(width as u8); // at most 64
        let mut bits = BitWriter::default();
        for rest in rests {
            bits.push(rest.wrapping_sub(least) as u64, width);
        }
        out.extend(bits.finish());
    }
}

/// The step of a line along which values need fewer bits than by themselves; 0 if there is none.
fn step_of(block: &[i64]) -> i64 {
    let (Some(first), Some(last)) = (block.first(), block.last()) else {
        return 0;
    };
    let width = |step: i64| {
        let rests = (block.iter().enumerate())
            .map(|(at, value)| value.wrapping_sub(step.wrapping_mul(at as i64)));
        let (least, most) = rests.fold((i64::MAX, i64::MIN), |(least, most), rest| {
            (least.min(rest), most.max(rest))
        });
        width_of(most.wrapping_sub(least) as u64)
    };
    // Blocks have at least one value, and few.
    let step = last.wrapping_sub(*first) / (block.len() as i64 - 1).max(1);
    if width(step) < width(0) { step } else { 0 }
}

fn width_of(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// Decodes the columns of a segment with `files` entries of its file table.
pub fn decode(section: &[u8], files: u32) -> std::result::Result<Vec<SegmentColumn>, DecodeError> {
    let mut input = section;
    if section.is_empty() {
        return Ok(Vec::new());
    }
    let count = varint::read(&mut input)?;
    if count > METADATA_COLUMNS_MAX as u64 {
        return Err(Fault("it has more columns than there can be").into());
    }
    let mut columns: Vec<SegmentColumn> = Vec::new();
    for _ in 0..count {
        let id = varint::read_u32(&mut input)?;
        let kind = MetadataKind::from_disk(varint::take(&mut input, 1)?[0])
            .ok_or(Fault("a column has no type"))?;
        let size = usize::try_from(varint::read(&mut input)?);
        let name = varint::take(&mut input, size.map_err(|_| Fault("a name is too long"))?)?;
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| is_column_name(name));
        let name = name
            .ok_or(Fault("a column cannot have such a name"))?
            .to_owned();
        let size = usize::try_from(varint::read(&mut input)?);
        let body = varint::take(&mut input, size.map_err(|_| Fault("a column is cut off"))?)?;
        if columns.iter().any(|known| known.column.id == id) {
            return Err(Fault("a column is there twice").into());
        }
        let (present, values) = decode_column(body, kind, files as usize)?;
        columns.push(SegmentColumn {
            column: MetadataColumn { id, name, kind },
            present,
            values,
        });
    }
    if !input.is_empty() {
        return Err(Fault("bytes follow its last column").into());
    }
    Ok(columns)
}

fn decode_column(
    body: &[u8],
    kind: MetadataKind,
    files: usize,
) -> std::result::Result<(Option<Vec<bool>>, ColumnValues), DecodeError> {
    let mut input = body;
    check_expansion(
        body.len(),
        files as u64 * if kind == MetadataKind::Text { 4 } else { 8 },
    )?;
    let present = match varint::take(&mut input, 1)?[0] {
        0 => None,
        1 => {
            let mut bits = BitReader::of(&mut input, files, 1)?;
            let mut present = reserved(files)?;
            present.extend((0..files).map(|_| bits.next(1) == 1));
            Some(present)
        }
        _ => return Err(Fault("it is not clear which files have a value").into()),
    };
    let count =
        (present.as_ref()).map_or(files, |present| present.iter().filter(|has| **has).count());
    let values = match kind {
        MetadataKind::Text => {
            let texts = decode_texts(&mut input, body.len(), count)?;
            let numbers = decode_numbers(&mut input, count)?;
            let in_range = |&number: &i64| (0..texts.len() as i64).contains(&number);
            if !numbers.iter().all(in_range) {
                return Err(Fault("a value is not in the dictionary").into());
            }
            // Within the dictionary, which has at most as many texts as there are files.
            let numbers = numbers.into_iter().map(|number| number as u32);
            ColumnValues::Texts {
                numbers: spread(numbers, present.as_deref(), files)?,
                texts,
            }
        }
        MetadataKind::Real => {
            let bytes = count.checked_mul(8).ok_or(Fault("a column is cut off"))?;
            let reals = varint::take(&mut input, bytes)?.as_chunks::<8>().0.iter();
            let reals = reals.map(|bits| f64::from_bits(u64::from_le_bytes(*bits)));
            ColumnValues::Reals(spread(reals, present.as_deref(), files)?)
        }
        _ => {
            let numbers = decode_numbers(&mut input, count)?;
            if kind == MetadataKind::Boolean && !numbers.iter().all(|value| (0..=1).contains(value))
            {
                return Err(Fault("a truth value is neither 0 nor 1").into());
            }
            ColumnValues::Integers(spread(numbers.into_iter(), present.as_deref(), files)?)
        }
    };
    if input.iter().any(|&byte| byte != 0) {
        return Err(Fault("bytes follow the last value of a column").into());
    }
    Ok((present, values))
}

/// The values of all files, given those of the files that have one.
fn spread<T: Copy + Default>(
    mut values: impl Iterator<Item = T>,
    present: Option<&[bool]>,
    files: usize,
) -> std::result::Result<Vec<T>, DecodeError> {
    let mut all = reserved(files)?;
    let has = |file: usize| present.is_none_or(|present| present[file]);
    all.extend((0..files).map(|file| {
        let value = if has(file) { values.next() } else { None };
        value.unwrap_or_default()
    }));
    Ok(all)
}

fn decode_texts(
    input: &mut &[u8],
    coded: usize,
    values: usize,
) -> std::result::Result<Vec<Arc<str>>, DecodeError> {
    let count = varint::read(input)?;
    // A text takes two bytes at least.
    if count > values as u64 || count.saturating_mul(2) > input.len() as u64 {
        return Err(Fault("it has more texts than values").into());
    }
    let mut texts: Vec<Arc<str>> = reserved(count as usize)?; // in range by the test above
    let mut decoded = 0;
    for _ in 0..count {
        let previous = texts.last().map_or(&[][..], |text| text.as_bytes());
        let shared = usize::try_from(varint::read(input)?).ok();
        let shared = shared.and_then(|shared| previous.get(..shared));
        let shared = shared.ok_or(Fault("a text shares more than the one before has"))?;
        let size =
            usize::try_from(varint::read(input)?).map_err(|_| Fault("a text is too long"))?;
        let own = varint::take(input, size)?;
        decoded += (shared.len() + own.len()) as u64;
        check_expansion(coded, decoded)?;
        let text = [shared, own].concat();
        let text = String::from_utf8(text).map_err(|_| Fault("a text is not UTF-8"))?;
        if texts.last().is_some_and(|last| **last >= *text) {
            return Err(Fault("texts are not in order").into());
        }
        texts.push(text.into());
    }
    Ok(texts)
}

fn decode_numbers(input: &mut &[u8], count: usize) -> std::result::Result<Vec<i64>, DecodeError> {
    let mut values = reserved(count)?;
    while values.len() < count {
        let length = (count - values.len()).min(BLOCK_VALUES);
        let step = unzigzag(varint::read(input)?);
        let least = unzigzag(varint::read(input)?);
        let width = u32::from(varint::take(input, 1)?[0]);
        if width > u64::BITS {
            return Err(Fault("numbers have more bits than there can be").into());
        }
        let mut bits = BitReader::of(input, length, width)?;
        values.extend((0..length).map(|at| {
            let line = step.wrapping_mul(at as i64);
            line.wrapping_add(least)
                .wrapping_add(bits.next(width) as i64)
        }));
    }
    Ok(values)
}

/// Numbers of some bits one after the other, low bits first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    bits: u128,
    count: u32,
}

impl BitWriter {
    fn push(&mut self, value: u64, width: u32) {
        self.bits |= u128::from(value) << self.count;
        self.count += width;
        while self.count >= 8 {
            self.bytes.push(self.bits as u8);
            self.bits >>= 8;
            self.count -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.bits as u8);
        }
        self.bytes
    }
}

/// Reads what [`BitWriter`] wrote.
struct BitReader<'a> {
    bytes: std::slice::Iter<'a, u8>,
    bits: u128,
    count: u32,
}

impl<'a> BitReader<'a> {
    /// Takes `values` numbers of `width` bits off the front of `input`.
    fn of(
        input: &mut &'a [u8],
        values: usize,
        width: u32,
    ) -> std::result::Result<BitReader<'a>, Fault> {
        let bytes = (values as u64 * u64::from(width)).div_ceil(8);
        let bytes = usize::try_from(bytes).map_err(|_| Fault("a column is cut off"))?;
        Ok(BitReader {
            bytes: varint::take(input, bytes)?.iter(),
            bits: 0,
            count: 0,
        })
    }

    fn next(&mut self, width: u32) -> u64 {
        while self.count < width {
            let byte = self.bytes.next().copied().unwrap_or(0);
            self.bits |= u128::from(byte) << self.count;
            self.count += 8;
        }
        let mask = (1u128 << width) - 1;
        let value = (self.bits & mask) as u64; // at most 64 bits
        self.bits >>= width;
        self.count -= width;
        value
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn column(kind: MetadataKind, values: &[MetadataValue]) -> SegmentColumn {
        let column = MetadataColumn {
            id: kind.to_disk().into(),
            name: format!("column {}", kind.name()),
            kind,
        };
        SegmentColumn::new(column, values).unwrap()
    }

    fn value(kind: MetadataKind) -> BoxedStrategy<MetadataValue> {
        let integer = prop_oneof![any::<i64>(), -40..40i64, Just(i64::MIN), Just(i64::MAX)];
        let some = match kind {
            MetadataKind::Text => "[a-c\u{e4}]{0,3}"
                .prop_map(|text| MetadataValue::Text(text.into()))
                .boxed(),
            MetadataKind::Real => any::<i32>()
                .prop_map(|value| MetadataValue::Real(f64::from(value) / 8.0))
                .boxed(),
            MetadataKind::Boolean => (0..2i64).prop_map(MetadataValue::Integer).boxed(),
            _ => integer.prop_map(MetadataValue::Integer).boxed(),
        };
        prop_oneof![4 => some, 1 => Just(MetadataValue::Null)].boxed()
    }

    proptest! {
        #[test]
        fn columns_come_back_and_damage_is_an_error_or_other_values(
            (files, columns) in (0usize..60).prop_flat_map(|files| {
                let columns = MetadataKind::ALL.map(|kind| proptest::collection::vec(value(kind), files));
                (Just(files), columns)
            }),
            at in any::<prop::sample::Index>(),
            flip in 1u8..,
        ) {
            let columns: Vec<SegmentColumn> = MetadataKind::ALL.into_iter().zip(&columns)
                .map(|(kind, values)| column(kind, values)).collect();
            let section = encode(&columns);
            prop_assert_eq!(&decode(&section, files as u32).unwrap(), &columns);
            for size in 1..section.len() {
                prop_assert!(decode(&section[..size], files as u32).is_err());
            }
            let mut damaged = section.clone();
            damaged[at.index(section.len())] ^= flip;
            if let Ok(found) = decode(&damaged, files as u32) {
                for column in found {
                    prop_assert_eq!(column.files(), files);
                    (0..files).for_each(|file| drop(column.value(file)));
                }
            }
        }
    }

    #[test]
    fn numbers_along_a_line_and_rows_of_one_value_take_little() {
        let days: Vec<MetadataValue> = (0..10_000)
            .map(|day| MetadataValue::Integer(day * 3))
            .collect();
        let same = vec![MetadataValue::Text("en".into()); 10_000];
        let columns = [
            column(MetadataKind::Date, &days),
            column(MetadataKind::Text, &same),
        ];
        let section = encode(&columns);
        // Padded to what may be decoded from it.
        assert!(section.len() < 10_000 * 12 / 64 + 100, "{}", section.len());
        assert_eq!(decode(&section, 10_000).unwrap(), columns);
        assert!(decode(&section, u32::MAX).is_err());
    }
}
