//! `NumberedRows`: rows told apart by some of their values, as numbers.
//!
//! Invariant: of rows whose values compare equal one is kept, with a number of its own in the order in which they came.

use std::borrow::Cow;
use std::ops::Range;

use hashbrown::HashTable;

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

    /// Adapts to the `bytes` that the last rows took.
    pub(super) fn grow(&mut self, bytes: usize) {
        self.rows = match bytes > STEP_BYTES {
            true => (self.rows / 2).max(1),
            false => (self.rows * 2).min(BATCH_ROWS),
        };
    }
}

/// What a row takes in the table, which may be half empty.
const PLACE_BYTES: usize = 2 * (size_of::<Place>() + 1);

/// A row in a table, with its hash, for which its numbers would have to be read.
#[derive(Clone, Copy, Debug)]
struct Place {
    row: u32,
    hash: u32,
}

impl Place {
    /// The hash as a table takes it: it looks at the lowest bits and at the highest.
    fn spread(hash: u32) -> u64 {
        u64::from(hash) << u32::BITS | u64::from(hash)
    }
}

/// Rows, each with the numbers of its keys.
#[derive(Debug)]
pub(super) struct NumberedRows {
    /// A number that the caller gives comes before those of the keys.
    given: usize,
    keys: Vec<KeyNumbers>,
    /// `[rows * width]`: for each row what is given, and the numbers of its keys.
    numbers: Vec<u64>,
    /// How many numbers a row has.
    width: usize,
    rows: usize,
    /// Rows by their numbers.
    table: HashTable<Place>,
    /// `[rows * width]`: the numbers of the rows that are looked at.
    at_hand: Vec<u64>,
    /// Whether equal values may have different numbers.
    has_equals: bool,
}

impl NumberedRows {
    /// Tells rows apart by keys.
    pub(super) fn new(keys: Vec<KeyNumbers>) -> NumberedRows {
        NumberedRows {
            given: 0,
            keys,
            numbers: Vec::new(),
            width: 0,
            rows: 0,
            table: HashTable::new(),
            at_hand: Vec::new(),
            has_equals: false,
        }
    }

    /// Tells rows apart by a number that is given for each, and a key.
    pub(super) fn with_given(key: KeyNumbers) -> NumberedRows {
        NumberedRows {
            given: 1,
            ..NumberedRows::new(vec![key])
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
        let are_alike = self.keys.iter_mut().map(|key| key.begin(batch));
        if !are_alike.fold(true, |all, is_alike| all & is_alike) {
            self.number_values(with.memory)?;
        }
        self.width = self.given + self.keys.iter().map(KeyNumbers::width).sum::<usize>();
        self.at_hand.clear();
        self.at_hand.resize(rows.len() * self.width, 0);
        let mut offset = self.given;
        for key in &mut self.keys {
            let place = (offset, self.width);
            key.number(batch, rows.clone(), &mut with, place, &mut self.at_hand)?;
            offset += key.width();
        }
        self.has_equals = self.keys.iter().any(KeyNumbers::has_equals);
        Ok(())
    }

    /// Whether a row that is looked at, with what is given, is there; if not, it is added. Gives its number.
    pub(super) fn find_or_add(&mut self, index: usize, given: Option<u64>) -> (usize, bool) {
        if let Some(given) = given {
            self.at_hand[index * self.width] = given;
        }
        let hash = self.hash(self.looked_at(index));
        match self.find_hashed(index, hash) {
            Some(row) => {
                if self.has_equals && given.is_none() {
                    self.show_smaller(row, index);
                }
                (row, true)
            }
            None => (self.add_hashed(index, hash), false),
        }
    }

    /// Whether a row that is looked at is there.
    pub(super) fn contains(&self, index: usize) -> bool {
        self.find_hashed(index, self.hash(self.looked_at(index)))
            .is_some()
    }

    /// How many rows are kept.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// What was given for a row, by number.
    pub(super) fn given(&self, row: usize) -> u64 {
        self.numbers[row * self.width]
    }

    /// The value of a key of a row, by number.
    ///
    /// # Panics
    /// If there is no such key or row.
    pub(super) fn value(&self, row: usize, key: usize) -> Cow<'_, Value> {
        let (key, own) = self.parts().nth(key).expect("there is such a key");
        key.value(&self.kept(row)[own])
    }

    /// Whether the last key of a row that is looked at is NULL.
    pub(super) fn ends_with_null(&self, index: usize) -> bool {
        let numbers = self.looked_at(index);
        let last = self.parts().last();
        last.is_some_and(|(key, own)| key.is_null(&numbers[own]))
    }

    /// The keys of rows, by number, as columns.
    pub(super) fn columns(&self, rows: Range<usize>) -> Vec<BatchColumn> {
        let columns = self.parts().map(|(key, own)| {
            let kept = rows.clone().map(|row| &self.kept(row)[own.clone()]);
            key.column(kept)
        });
        columns.collect()
    }

    /// Whether keys may take bytes in columns beside numbers.
    pub(super) fn has_texts(&self) -> bool {
        self.keys.iter().any(KeyNumbers::has_values)
    }

    /// Bytes that the keys of a row, by number, take in columns beside numbers.
    pub(super) fn text_bytes(&self, row: usize) -> usize {
        let numbers = self.kept(row);
        let keys = self.parts().map(|(key, own)| key.text_bytes(&numbers[own]));
        keys.sum()
    }

    /// About how many bytes all this takes.
    pub(super) fn bytes(&self) -> usize {
        let keys = self.keys.iter().map(KeyNumbers::bytes).sum::<usize>();
        let row = 2 * self.width * size_of::<u64>() + PLACE_BYTES;
        keys + self.rows * row
    }

    /// Prepares what is kept to be given as columns; no row is looked at any more.
    pub(super) fn finish(&mut self) {
        (self.table, self.at_hand) = (HashTable::new(), Vec::new());
        self.keys.iter_mut().for_each(KeyNumbers::finish);
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.numbers = Vec::new();
        self.rows = 0;
        self.table = HashTable::new();
        self.keys.iter_mut().for_each(KeyNumbers::clear);
    }

    fn kept(&self, row: usize) -> &[u64] {
        &self.numbers[row * self.width..(row + 1) * self.width]
    }

    fn looked_at(&self, index: usize) -> &[u64] {
        &self.at_hand[index * self.width..(index + 1) * self.width]
    }

    /// The keys, each with where its numbers are among those of a row.
    fn parts(&self) -> impl Iterator<Item = (&KeyNumbers, Range<usize>)> {
        self.keys.iter().scan(self.given, |offset, key| {
            let own = *offset..*offset + key.width();
            *offset = own.end;
            Some((key, own))
        })
    }

    fn hash(&self, numbers: &[u64]) -> u32 {
        match self.has_equals {
            false => finished(numbers.iter().fold(0, |mixed, &number| mix(mixed, number))),
            true => finished(self.firsts(numbers).fold(0, mix)),
        }
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

    #[inline]
    fn find_hashed(&self, index: usize, hash: u32) -> Option<usize> {
        let wanted = self.looked_at(index);
        let is_it = |place: &Place| {
            if place.hash != hash {
                return false;
            }
            let kept = self.kept(place.row as usize);
            // There are few numbers, for which calling a comparison of memory takes longer.
            let are_same = kept.iter().zip(wanted).all(|(kept, wanted)| kept == wanted);
            are_same || self.has_equals && self.firsts(kept).eq(self.firsts(wanted))
        };
        let found = self.table.find(Place::spread(hash), is_it);
        found.map(|place| place.row as usize)
    }

    fn add_hashed(&mut self, index: usize, hash: u32) -> usize {
        let place = index * self.width;
        self.numbers
            .extend_from_slice(&self.at_hand[place..place + self.width]);
        self.place_last(hash)
    }

    /// Puts the row whose numbers came last into the table.
    fn place_last(&mut self, hash: u32) -> usize {
        // Rows are kept in memory, which has no room for 2^32.
        let row = self.rows as u32;
        let spread = |place: &Place| Place::spread(place.hash);
        let place = Place { row, hash };
        self.table.insert_unique(spread(&place), place, spread);
        self.rows += 1;
        self.rows - 1
    }

    /// Of values that are equal the smallest is shown.
    fn show_smaller(&mut self, row: usize, index: usize) {
        let mut offset = self.given;
        for key in &self.keys {
            let own = offset..offset + key.width();
            offset = own.end;
            let numbers = &self.at_hand[index * self.width..][own.clone()];
            let shown = &mut self.numbers[row * self.width..][own];
            if shown != numbers && tie(&key.value(numbers), &key.value(shown)).is_lt() {
                shown.copy_from_slice(numbers);
            }
        }
    }

    /// Gives numbers to values instead of columns, where numbers of another batch mean something else.
    fn number_values(&mut self, memory: &ValueMemory) -> Result<()> {
        let (width, numbers) = (self.width, std::mem::take(&mut self.numbers));
        let before = self.keys.iter_mut().map(KeyNumbers::number_values);
        let before: Vec<Option<KeyNumbers>> = before.collect();
        (self.table, self.rows) = (HashTable::new(), 0);
        self.width = self.given + self.keys.len();
        self.numbers
            .reserve(self.width * numbers.len().checked_div(width).unwrap_or(0));
        for row in numbers.chunks(width.max(1)) {
            self.numbers.extend_from_slice(&row[..self.given]);
            let mut rest = &row[self.given..];
            for (key, before) in self.keys.iter_mut().zip(&before) {
                let own = before.as_ref().map_or(1, KeyNumbers::width);
                let (own, others) = rest.split_at(own);
                rest = others;
                self.numbers.push(match before {
                    Some(before) => key.number_of(&before.value(own), memory)?,
                    None => own[0],
                });
            }
            self.has_equals = self.keys.iter().any(KeyNumbers::has_equals);
            let hash = self.hash(self.kept(self.rows));
            self.place_last(hash);
        }
        Ok(())
    }
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
            let program = Program::new(&expressions, &Layout::whole(2, 0), 0, &interrupt).unwrap();
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
                    prop_assert_eq!(rows.find_or_add(index, None), (*number, !is_new));
                }
            }
            prop_assert_eq!(rows.len(), expected.len());
            let columns = rows.columns(0..rows.len());
            rows.finish();
            let finished = rows.columns(0..rows.len());
            for (number, values) in expected.into_values() {
                for (key, value) in values.into_iter().enumerate() {
                    prop_assert!(tie(&rows.value(number, key), &value).is_eq());
                    prop_assert!(tie(&columns[key].value(number), &value).is_eq());
                    prop_assert!(tie(&finished[key].value(number), &value).is_eq());
                }
            }
        }
    }
}
