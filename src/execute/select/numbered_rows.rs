//! `NumberedRows`: rows told apart by some of their values, as numbers.
//!
//! `RowKeys` makes numbers of values, `RowTable` keeps rows by them; where no different numbers are equal, the table works without
//! the keys. Invariant: of rows whose values compare equal one is kept, with a number of its own in the order in which they came.

use std::borrow::Cow;
use std::ops::Range;

use zipfdb_kernels::reserve_on_huge_pages;

use super::accumulate::tie;
use super::key_numbers::{KeyNumbers, Look};
use crate::batch::{BATCH_ROWS, Batch, BatchColumn};
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// Rows that are looked at together at first.
const FIRST_ROWS: usize = 16;

/// Where rows that are looked at together take more bytes than this, it is fewer the next time.
const STEP_BYTES: usize = 1 << 20;

/// How many rows are looked at together: few where they take much memory, which is counted in between.
#[derive(Debug)]
pub(super) struct RowSteps {
    rows: usize,
}

impl Default for RowSteps {
    fn default() -> RowSteps {
        RowSteps { rows: FIRST_ROWS }
    }
}

impl RowSteps {
    /// The rows from `first` on that are looked at next, of a batch of `rows` rows.
    pub(super) fn next(&self, first: usize, rows: usize) -> Range<usize> {
        first..rows.min(first + self.rows)
    }

    /// Whether all rows of a batch are looked at together.
    pub(super) fn are_whole(&self) -> bool {
        self.rows == BATCH_ROWS
    }

    /// Adapts to the `bytes` that the last rows took.
    pub(super) fn grow(&mut self, bytes: usize) {
        self.rows = match bytes > STEP_BYTES {
            true => (self.rows / 2).max(1),
            false => (self.rows * 2).min(BATCH_ROWS),
        };
    }
}

/// A row in a table, with its hash, for which its numbers would have to be read.
#[derive(Clone, Copy, Debug)]
struct Place {
    row: u32,
    hash: u32,
}

/// A place without a row.
const EMPTY: Place = Place {
    row: u32::MAX,
    hash: 0,
};

/// Places of a new table.
const PLACES_MIN: usize = 16;

/// At most [`FULL`] of [`PLACES`] places have a row, so that the next empty place is near.
const PLACES: usize = 4;
const FULL: usize = 3;

/// What a row takes in the table, which may be three eighths full.
const PLACE_BYTES: usize = 8 * size_of::<Place>() / 3 + 1;

/// Keys of rows, as numbers.
#[derive(Debug)]
pub(super) struct RowKeys {
    /// Numbers that the caller gives come before those of the keys.
    given: usize,
    keys: Vec<KeyNumbers>,
    /// How many numbers a row has.
    width: usize,
    /// Whether equal values may have different numbers.
    has_equals: bool,
}

impl RowKeys {
    pub(super) fn new(keys: Vec<KeyNumbers>) -> RowKeys {
        RowKeys {
            given: 0,
            keys,
            width: 0,
            has_equals: false,
        }
    }

    /// A key, behind a number that is given for each row.
    pub(super) fn with_given(key: KeyNumbers) -> RowKeys {
        RowKeys {
            given: 1,
            ..RowKeys::new(vec![key])
        }
    }

    /// Goes on to a batch; says whether its numbers mean what those of the batches before do.
    pub(super) fn begin(&mut self, batch: &Batch) -> bool {
        let are_alike = self.keys.iter_mut().map(|key| key.begin(batch));
        are_alike.fold(true, |all, is_alike| all & is_alike)
    }

    /// Appends the numbers of rows of a batch that was begun, those of a row one after the other, to `numbers`.
    ///
    /// # Errors
    /// Those of the evaluator, and if there is no memory for a value.
    pub(super) fn look(
        &mut self,
        batch: &mut Batch,
        rows: Range<usize>,
        with: &mut Look<'_>,
        numbers: &mut Vec<u64>,
    ) -> Result<()> {
        self.width = self.given + self.keys.iter().map(KeyNumbers::width).sum::<usize>();
        let first = numbers.len();
        numbers.resize(first + rows.len() * self.width, 0);
        let mut offset = self.given;
        for key in &mut self.keys {
            let place = (offset, self.width);
            key.number(batch, rows.clone(), with, place, &mut numbers[first..])?;
            offset += key.width();
        }
        self.has_equals = self.keys.iter().any(KeyNumbers::has_equals);
        Ok(())
    }

    /// How many numbers a row has.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// What tells rows with different numbers to be equal, if some may be.
    pub(super) fn equals(&self) -> Option<&RowKeys> {
        self.has_equals.then_some(self)
    }

    /// The value of a key of a row that has some numbers.
    ///
    /// # Panics
    /// If there is no such key.
    pub(super) fn value(&self, numbers: &[u64], key: usize) -> Cow<'_, Value> {
        let (key, own) = self.parts().nth(key).expect("there is such a key");
        key.value(&numbers[own])
    }

    /// The keys of rows, by number, as columns.
    pub(super) fn columns(&self, table: &RowTable, rows: Range<usize>) -> Vec<BatchColumn> {
        let columns = self.parts().map(|(key, own)| {
            let kept = rows.clone().map(|row| &table.numbers(row)[own.clone()]);
            key.column(kept)
        });
        columns.collect()
    }

    /// Whether keys may take bytes in columns beside numbers.
    pub(super) fn has_texts(&self) -> bool {
        self.keys.iter().any(KeyNumbers::has_values)
    }

    /// Bytes that the keys of a row that has some numbers take in columns beside numbers.
    pub(super) fn text_bytes(&self, numbers: &[u64]) -> usize {
        let keys = self.parts().map(|(key, own)| key.text_bytes(&numbers[own]));
        keys.sum()
    }

    /// About how many bytes values take.
    pub(super) fn bytes(&self) -> usize {
        self.keys.iter().map(KeyNumbers::bytes).sum()
    }

    /// Prepares keys to be given as columns; no row is looked at any more.
    pub(super) fn finish(&mut self) {
        self.keys.iter_mut().for_each(KeyNumbers::finish);
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        self.keys.iter_mut().for_each(KeyNumbers::clear);
    }

    /// Whether a key may be NULL.
    pub(super) fn has_null(&self) -> bool {
        self.keys.iter().any(KeyNumbers::has_null)
    }

    /// Whether the last key of a row that has some numbers is NULL.
    pub(super) fn ends_with_null(&self, numbers: &[u64]) -> bool {
        let last = self.parts().last();
        last.is_some_and(|(key, own)| key.is_null(&numbers[own]))
    }

    /// The keys, each with where its numbers are among those of a row.
    fn parts(&self) -> impl Iterator<Item = (&KeyNumbers, Range<usize>)> {
        self.keys.iter().scan(self.given, |offset, key| {
            let own = *offset..*offset + key.width();
            *offset = own.end;
            Some((key, own))
        })
    }

    /// The numbers of a row, each that of the first value that is equal.
    fn firsts<'a>(&'a self, numbers: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        let given = numbers[..self.given].iter().copied();
        let of_keys = self.parts().flat_map(|(key, own)| {
            let own = numbers[own].iter();
            own.map(|&number| key.first(number))
        });
        given.chain(of_keys)
    }

    /// Of values that are equal the smallest is shown.
    fn show_smaller(&self, shown: &mut [u64], numbers: &[u64]) {
        for (key, own) in self.parts() {
            let (shown, numbers) = (&mut shown[own.clone()], &numbers[own]);
            if shown != numbers && tie(&key.value(numbers), &key.value(shown)).is_lt() {
                shown.copy_from_slice(numbers);
            }
        }
    }
}

/// Rows told apart by numbers. A hash table of places with open addressing: arrays, so that large ones lie on huge pages, without
/// which the processor looks for the page of nearly every row.
#[derive(Debug, Default)]
pub(super) struct RowTable {
    /// `[rows * width]`: for each row what is given, and the numbers of its keys.
    numbers: Vec<u64>,
    /// How many numbers a row has.
    width: usize,
    rows: usize,
    /// Rows by their hash; as many places as a power of two, or none.
    places: Vec<Place>,
}

impl RowTable {
    /// Whether a row with some numbers is there; if not, it is added. Gives its number. All rows have as many numbers.
    #[inline]
    pub(super) fn find_or_add(
        &mut self,
        wanted: &[u64],
        equals: Option<&RowKeys>,
    ) -> (usize, bool) {
        if self.rows * PLACES >= self.places.len() * FULL {
            self.grow();
        }
        self.width = wanted.len();
        let hash = hash(wanted, equals);
        let (row, place) = self.find(wanted, hash, equals);
        let Some(row) = row else {
            // Rows are kept in memory, which has no room for 2^32.
            let row = self.rows as u32;
            self.places[place] = Place { row, hash };
            reserve_on_huge_pages(&mut self.numbers, wanted.len());
            // There are few, for which calling a copy of memory takes longer.
            wanted.iter().for_each(|&number| self.numbers.push(number));
            self.rows += 1;
            return (self.rows - 1, false);
        };
        if let Some(keys) = equals
            && keys.given == 0
        {
            let shown = &mut self.numbers[row * self.width..(row + 1) * self.width];
            keys.show_smaller(shown, wanted);
        }
        (row, true)
    }

    /// Whether a row with some numbers is there.
    fn contains(&self, wanted: &[u64], equals: Option<&RowKeys>) -> bool {
        let hash = hash(wanted, equals);
        self.rows > 0 && self.find(wanted, hash, equals).0.is_some()
    }

    /// The row with some numbers, or none, and the place where it is or would be. There are places.
    #[inline]
    fn find(&self, wanted: &[u64], hash: u32, equals: Option<&RowKeys>) -> (Option<usize>, usize) {
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let place = self.places[at];
            if place.row == EMPTY.row {
                return (None, at);
            }
            let row = place.row as usize;
            if place.hash == hash && is_same(self.numbers(row), wanted, equals) {
                return (Some(row), at);
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.places.len()).max(PLACES_MIN);
        let before = std::mem::take(&mut self.places);
        reserve_on_huge_pages(&mut self.places, size);
        self.places.resize(size, EMPTY);
        for place in before {
            if place.row != EMPTY.row {
                let mut at = place.hash as usize & (size - 1);
                while self.places[at].row != EMPTY.row {
                    at = (at + 1) & (size - 1);
                }
                self.places[at] = place;
            }
        }
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// The numbers of a row, by number.
    pub(super) fn numbers(&self, row: usize) -> &[u64] {
        &self.numbers[row * self.width..(row + 1) * self.width]
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let row = 2 * self.width * size_of::<u64>() + PLACE_BYTES;
        self.rows * row
    }

    /// No row is looked for any more.
    pub(super) fn finish(&mut self) {
        self.places = Vec::new();
    }

    /// Gives numbers to values of keys instead of columns, where numbers of another batch mean something else.
    ///
    /// # Errors
    /// If there is no memory for a value.
    pub(super) fn number_values(&mut self, keys: &mut RowKeys, memory: &ValueMemory) -> Result<()> {
        let before = std::mem::take(self);
        let forms = keys.keys.iter_mut().map(KeyNumbers::number_values);
        let forms: Vec<Option<KeyNumbers>> = forms.collect();
        let width = keys.given + keys.keys.len();
        self.numbers.reserve(width * before.rows);
        let mut numbers = Vec::with_capacity(width);
        for row in 0..before.rows {
            let (given, mut rest) = before.numbers(row).split_at(keys.given);
            numbers.clear();
            numbers.extend_from_slice(given);
            for (key, form) in keys.keys.iter_mut().zip(&forms) {
                let own = form.as_ref().map_or(1, KeyNumbers::width);
                let (own, others) = rest.split_at(own);
                rest = others;
                numbers.push(match form {
                    Some(form) => key.number_of(&form.value(own), memory)?,
                    None => own[0],
                });
            }
            keys.has_equals = keys.keys.iter().any(KeyNumbers::has_equals);
            self.find_or_add(&numbers, keys.equals());
        }
        Ok(())
    }
}

/// Rows, each with the numbers of its keys.
#[derive(Debug)]
pub(super) struct NumberedRows {
    keys: RowKeys,
    table: RowTable,
    /// The numbers of the rows that are looked at.
    at_hand: Vec<u64>,
}

impl NumberedRows {
    /// Tells rows apart by keys.
    pub(super) fn new(keys: Vec<KeyNumbers>) -> NumberedRows {
        NumberedRows {
            keys: RowKeys::new(keys),
            table: RowTable::default(),
            at_hand: Vec::new(),
        }
    }

    /// Looks at rows of a batch.
    ///
    /// # Errors
    /// Those of the evaluator, and if there is no memory for a value.
    pub(super) fn look(
        &mut self,
        batch: &mut Batch,
        rows: Range<usize>,
        mut with: Look<'_>,
    ) -> Result<()> {
        if !self.keys.begin(batch) {
            self.table.number_values(&mut self.keys, with.memory)?;
        }
        self.at_hand.clear();
        self.keys.look(batch, rows, &mut with, &mut self.at_hand)
    }

    /// Whether a row that is looked at is there; if not, it is added. Gives its number.
    pub(super) fn find_or_add(&mut self, index: usize) -> (usize, bool) {
        let wanted = &self.at_hand[self.looked_at(index)];
        self.table.find_or_add(wanted, self.keys.equals())
    }

    /// Whether a row that is looked at is there.
    pub(super) fn contains(&self, index: usize) -> bool {
        let wanted = &self.at_hand[self.looked_at(index)];
        self.table.contains(wanted, self.keys.equals())
    }

    /// About how many bytes all this takes.
    pub(super) fn bytes(&self) -> usize {
        self.keys.bytes() + self.table.bytes()
    }

    fn looked_at(&self, index: usize) -> Range<usize> {
        index * self.keys.width..(index + 1) * self.keys.width
    }
}

fn hash(numbers: &[u64], equals: Option<&RowKeys>) -> u32 {
    match equals {
        None => finished(numbers.iter().fold(0, |mixed, &number| mix(mixed, number))),
        Some(keys) => finished(keys.firsts(numbers).fold(0, mix)),
    }
}

/// Whether rows with some numbers are equal.
#[inline]
fn is_same(kept: &[u64], wanted: &[u64], equals: Option<&RowKeys>) -> bool {
    // There are few numbers, for which calling a comparison of memory takes longer.
    let are_same = kept.iter().zip(wanted).all(|(kept, wanted)| kept == wanted);
    are_same || equals.is_some_and(|keys| keys.firsts(kept).eq(keys.firsts(wanted)))
}

/// Mixes numbers that are no attack: who could choose them has chosen the text, and may as well ask for all of it.
#[inline]
fn mix(mixed: u64, number: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    (mixed.rotate_left(23) ^ number).wrapping_mul(FACTOR)
}

/// The hash of numbers that were mixed: all of its bits depend on all of them.
#[inline]
fn finished(mixed: u64) -> u32 {
    (mixed ^ mixed >> 32) as u32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use zipfdb_sql::query::{Collation, Expression, ExpressionId, Function};

    use super::super::key::{KeyOrder, push_key};
    use super::*;
    use crate::batch::{ColumnBuilder, TextDictionary};
    use crate::expression::{Evaluator, Layout, Program};
    use crate::runtime::interrupt::Interrupts;

    /// A column of one kind or another, which the number says, with values that are equal here and there.
    fn column(kind: u8, values: &[u8], dictionaries: &[TextDictionary]) -> BatchColumn {
        const TEXTS: [&str; 4] = ["a", "A", "b", "1"];
        let mut column = ColumnBuilder::default();
        for &value in values {
            let number = i64::from(value % 3);
            column.push(match (kind, value % 7) {
                (0, _) => Value::Integer(number),
                (1, _) => Value::Text(TEXTS[usize::from(value) % 4].to_owned()),
                (2 | 3, _) => break,
                (_, 0) => Value::Null,
                (_, 1 | 2) => Value::Real(number as f64),
                (_, 3) => Value::Integer(number),
                (_, 4) => Value::Blob(b"a".to_vec()),
                (_, _) => Value::Text(TEXTS[usize::from(value) % 4].to_owned()),
            });
        }
        match kind {
            2 | 3 => BatchColumn::Words {
                indices: values.iter().map(|&value| u32::from(value) % 4).collect(),
                dictionary: dictionaries[usize::from(kind - 2)].clone(),
            },
            _ => column.finish(),
        }
    }

    proptest! {
        #[test]
        fn rows_are_told_apart_as_their_keys_are_whatever_columns_have_them(
            batches in proptest::collection::vec(
                (0u8..5, 0u8..5, proptest::collection::vec((any::<u8>(), any::<u8>()), 1..30)),
                1..6,
            ),
            are_nocase: [bool; 3],
        ) {
            let texts = |texts: [&str; 4]| TextDictionary::made(texts.map(str::to_owned).to_vec());
            let dictionaries = [texts(["a", "B", "A", "x"]), texts(["x", "a", "b", "1"])];
            let interrupt = Interrupts::default().begin(0);
            let lower = Expression::Call {
                function: Function::Lower,
                arguments: vec![ExpressionId(1)],
                collation: Collation::Binary,
            };
            let expressions = [Expression::Column(0), Expression::Column(1), lower];
            let program = Program::new(&expressions, &Layout::whole(2, 0), 0, &interrupt, &ValueMemory::default()).unwrap();
            let program = std::sync::Arc::new(program);
            let collation_of = |key: usize| match are_nocase[key] {
                true => Collation::NoCase,
                false => Collation::Binary,
            };
            let mut evaluator = Evaluator::of(program.clone());
            let keys = (0..3).map(|key| {
                KeyNumbers::new(ExpressionId(key as u32), collation_of(key), &program, 1 << 10)
            });
            let mut rows = NumberedRows::new(keys.collect());
            let memory = ValueMemory::default();
            // By key of values the number and the values that are shown.
            let mut expected: BTreeMap<Vec<u8>, (usize, Vec<Value>)> = BTreeMap::new();
            for (left, right, values) in batches {
                let (lefts, rights): (Vec<u8>, Vec<u8>) = values.into_iter().unzip();
                let columns = vec![
                    column(left, &lefts, &dictionaries),
                    column(right, &rights, &dictionaries),
                ];
                let mut batch = Batch::new(columns, lefts.len(), None);
                let given: Vec<Vec<Value>> = (0..batch.len())
                    .map(|row| {
                        let mut values = batch.row(row);
                        evaluator.next_row();
                        values.push(evaluator.value(&batch.row(row), ExpressionId(2)).unwrap().clone());
                        values
                    })
                    .collect();
                let with = Look { evaluator: Some(&mut evaluator), memory: &memory, keeps: true };
                rows.look(&mut batch, 0..given.len(), with).unwrap();
                for (index, values) in given.into_iter().enumerate() {
                    let mut key = Vec::new();
                    for (part, value) in values.iter().enumerate() {
                        push_key(value, KeyOrder::ascending(collation_of(part)), &mut key);
                    }
                    let is_new = !expected.contains_key(&key);
                    prop_assert_eq!(rows.contains(index), !is_new);
                    let next = expected.len();
                    let (number, shown) = expected.entry(key).or_insert((next, values.clone()));
                    for (shown, value) in shown.iter_mut().zip(values) {
                        if tie(&value, shown).is_lt() {
                            *shown = value;
                        }
                    }
                    prop_assert_eq!(rows.find_or_add(index), (*number, !is_new));
                }
            }
            prop_assert_eq!(rows.table.len(), expected.len());
            let columns = |rows: &NumberedRows| rows.keys.columns(&rows.table, 0..rows.table.len());
            let looked_at = columns(&rows);
            rows.keys.finish();
            let finished = columns(&rows);
            for (number, values) in expected.into_values() {
                for (key, value) in values.into_iter().enumerate() {
                    prop_assert!(tie(&rows.keys.value(rows.table.numbers(number), key), &value).is_eq());
                    prop_assert!(tie(&looked_at[key].value(number), &value).is_eq());
                    prop_assert!(tie(&finished[key].value(number), &value).is_eq());
                }
            }
        }
    }
}
