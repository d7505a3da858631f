//! `GroupIndex`: groups of rows by the values of their keys.
//!
//! `RowKeys` turns values into numbers. `GroupIndex` interns rows of such numbers: a row gets the number of its group, and groups
//! are numbered in the order in which they first came; where no different numbers are equal, it works without the keys. Groups
//! are returned by number, as columns (`RowKeys::columns`) or in order of their keys (`RowKeys::sorted`). Invariant: rows whose
//! keys compare equal have one group, which shows the smallest value of each key.

use std::borrow::Cow;
use std::ops::Range;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use zipfdb_kernels::reserve_on_huge_pages;

use super::context::Context;
use super::key::{KeyOrder, add_key, tie};
use super::key_interner::{KeyInterner, Look};
use super::number_keys::{RowKey, RowKeyNumbers, sorted_rows, where_rows_are_sorted};
use crate::batch::{BATCH_ROWS, Batch, BatchColumn};
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// Rows in the first step.
const FIRST_ROWS: usize = 16;

/// Bytes of a step above which the next one has fewer rows.
const STEP_BYTES: usize = 1 << 20;

/// The number of rows in a step: few where they take much memory, which is counted between steps.
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
    /// The rows of the next step, from `first` on, of a batch of `rows` rows.
    pub(super) fn next(&self, first: usize, rows: usize) -> Range<usize> {
        first..rows.min(first + self.rows)
    }

    /// Whether a step has all rows of a batch.
    pub(super) fn are_whole(&self) -> bool {
        self.rows == BATCH_ROWS
    }

    /// Adapts to the `bytes` that the last step took.
    pub(super) fn grow(&mut self, bytes: usize) {
        self.rows = if bytes > STEP_BYTES {
            (self.rows / 2).max(1)
        } else {
            (self.rows * 2).min(BATCH_ROWS)
        };
    }
}

/// A group, with the hash of its numbers, so that they need not be read.
#[derive(Clone, Copy, Debug)]
struct GroupPlace {
    group: u32,
    hash: u32,
}

/// Bytes of a group in the table, which is at least 7/16 full, with a byte beside each place.
const PLACE_BYTES: usize = (size_of::<GroupPlace>() + 1) * 16 / 7;

/// Bytes of a row while it is sorted, beside a number for each key.
const SORT_BYTES: usize = size_of::<(u64, u32)>() + 2 * size_of::<u32>();

/// Keys of rows, as numbers.
#[derive(Debug)]
pub(super) struct RowKeys {
    /// The number of numbers from the caller, before those of the keys.
    given: usize,
    keys: Vec<KeyInterner>,
    /// The number of numbers of a row.
    width: usize,
    /// Whether equal values may have different numbers.
    has_equals: bool,
}

impl RowKeys {
    pub(super) fn new(keys: Vec<KeyInterner>) -> RowKeys {
        RowKeys {
            given: 0,
            keys,
            width: 0,
            has_equals: false,
        }
    }

    /// Keys, behind a number that is given for each row.
    pub(super) fn with_given(keys: Vec<KeyInterner>) -> RowKeys {
        RowKeys {
            given: 1,
            ..RowKeys::new(keys)
        }
    }

    /// Begins a batch. Returns whether its numbers mean the same as those of the batches before.
    pub(super) fn begin(&mut self, batch: &Batch) -> bool {
        let are_alike = self.keys.iter_mut().map(|key| key.begin(batch));
        are_alike.fold(true, |all, is_alike| all & is_alike)
    }

    /// Appends the numbers of rows of the current batch, row by row, to `numbers`.
    ///
    /// # Errors
    /// Those of the evaluator, and if there is no memory for a value.
    pub(super) fn look(
        &mut self,
        batch: &Batch,
        rows: Range<usize>,
        with: &mut Look<'_>,
        numbers: &mut Vec<u64>,
    ) -> Result<()> {
        self.width = self.given + self.keys.iter().map(KeyInterner::width).sum::<usize>();
        let first = numbers.len();
        numbers.resize(first + rows.len() * self.width, 0);
        let mut offset = self.given;
        for key in &mut self.keys {
            let place = (offset, self.width);
            key.number(batch, rows.clone(), with, place, &mut numbers[first..])?;
            offset += key.width();
        }
        self.has_equals = self.keys.iter().any(KeyInterner::has_equals);
        Ok(())
    }

    /// The number of numbers of a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The keys that compare different numbers, if some may be equal.
    pub(super) fn equals(&self) -> Option<&RowKeys> {
        self.has_equals.then_some(self)
    }

    /// The value of a key of a row with these numbers.
    ///
    /// # Panics
    /// If there is no such key.
    pub(super) fn value(&self, numbers: &[u64], key: usize) -> Cow<'_, Value> {
        let (key, own) = self.parts().nth(key).expect("there is such a key");
        key.value(&numbers[own])
    }

    /// The value of the last key of a row with these numbers.
    pub(super) fn last(&self, numbers: &[u64]) -> Cow<'_, Value> {
        self.value(numbers, self.keys.len() - 1)
    }

    /// The keys of rows, by number, as columns.
    pub(super) fn columns(&self, table: &GroupIndex, rows: Range<usize>) -> Vec<BatchColumn> {
        let columns = self.parts().map(|(key, own)| {
            let kept = rows.clone().map(|row| &table.numbers(row)[own.clone()]);
            key.column(kept)
        });
        columns.collect()
    }

    /// The groups of an index, sorted by the given number and then by keys, each in its order.
    ///
    /// # Errors
    /// If the query must end.
    pub(super) fn sorted(
        &self,
        index: &GroupIndex,
        orders: &[KeyOrder],
        context: &Context,
    ) -> Result<Vec<u32>> {
        let groups = || (0..index.len()).map(|group| index.numbers(group));
        let given = (0..self.given).map(|place| groups().map(|numbers| numbers[place]).collect());
        let mut numbers: Vec<Vec<u64>> = given.collect();
        for ((key, own), &order) in self.parts().zip(orders) {
            let own = groups().map(|numbers| &numbers[own.clone()]);
            numbers.extend(key.ordered(own, order, context)?);
        }
        let keys = numbers.iter().map(|numbers| RowKey {
            numbers: RowKeyNumbers::Plain(numbers),
            descending: false,
        });
        let keys: Vec<RowKey<'_>> = keys.collect();
        where_rows_are_sorted(index.len(), &context.pool, &context.interrupt, |stop| {
            sorted_rows(index.len(), &keys, stop)
        })
    }

    /// Appends the bytes of a key of a row with these numbers, which compare as its values do.
    ///
    /// # Errors
    /// If the key is longer than the limit for all values of a row.
    pub(super) fn add_key(
        &self,
        numbers: &[u64],
        orders: &[KeyOrder],
        memory: &ValueMemory,
        target: &mut Vec<u8>,
    ) -> Result<()> {
        for ((key, own), &order) in self.parts().zip(orders) {
            add_key(&key.value(&numbers[own]), order, target, memory)?;
        }
        Ok(())
    }

    /// Whether keys may take bytes in columns beside numbers.
    pub(super) fn has_texts(&self) -> bool {
        self.keys.iter().any(KeyInterner::has_values)
    }

    /// Bytes that the keys of a row with these numbers take in columns beside numbers.
    pub(super) fn text_bytes(&self, numbers: &[u64]) -> usize {
        let keys = self.parts().map(|(key, own)| key.text_bytes(&numbers[own]));
        keys.sum()
    }

    /// The memory of values, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        self.keys.iter().map(KeyInterner::bytes).sum()
    }

    /// Prepares keys to be returned as columns; no further rows are numbered.
    pub(super) fn finish(&mut self) {
        self.keys.iter_mut().for_each(KeyInterner::finish);
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        self.keys.iter_mut().for_each(KeyInterner::clear);
    }

    /// Whether a key may be NULL.
    pub(super) fn has_null(&self) -> bool {
        self.keys.iter().any(KeyInterner::has_null)
    }

    /// Whether the last key of a row with these numbers is NULL.
    pub(super) fn ends_with_null(&self, numbers: &[u64]) -> bool {
        let last = self.parts().last();
        last.is_some_and(|(key, own)| key.is_null(&numbers[own]))
    }

    /// The keys, each with the range of its numbers among those of a row.
    fn parts(&self) -> impl Iterator<Item = (&KeyInterner, Range<usize>)> {
        self.keys.iter().scan(self.given, |offset, key| {
            let own = *offset..*offset + key.width();
            *offset = own.end;
            Some((key, own))
        })
    }

    /// The numbers of a row, each that of the first equal value.
    fn firsts<'a>(&'a self, numbers: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        let given = numbers[..self.given].iter().copied();
        let of_keys = self.parts().flat_map(|(key, own)| {
            let own = numbers[own].iter();
            own.map(|&number| key.first(number))
        });
        given.chain(of_keys)
    }

    /// Of equal values the smallest is shown.
    fn show_smaller(&self, shown: &mut [u64], numbers: &[u64]) {
        for (key, own) in self.parts() {
            let (shown, numbers) = (&mut shown[own.clone()], &numbers[own]);
            if shown != numbers && tie(&key.value(numbers), &key.value(shown)).is_lt() {
                shown.copy_from_slice(numbers);
            }
        }
    }
}

/// Groups of rows with equal numbers.
#[derive(Debug, Default)]
pub(super) struct GroupIndex {
    /// `[groups * width]`: for each group the given number, and the numbers of its keys.
    numbers: Vec<u64>,
    /// The number of numbers of a row.
    width: usize,
    groups: usize,
    /// Groups by their hash.
    places: HashTable<GroupPlace>,
}

impl GroupIndex {
    /// The group of a row with the numbers `wanted`, and whether it was there; if not, it is added. All rows have `width`
    /// numbers.
    #[inline]
    pub(super) fn intern(&mut self, wanted: &[u64], equals: Option<&RowKeys>) -> (usize, bool) {
        self.width = wanted.len();
        let (width, hash) = (wanted.len(), hash(wanted, equals));
        let numbers = &mut self.numbers;
        let is_it = |place: &GroupPlace| {
            let first = place.group as usize * width;
            place.hash == hash && is_same(&numbers[first..first + width], wanted, equals)
        };
        match self
            .places
            .entry(spread(hash), is_it, |place| spread(place.hash))
        {
            Entry::Vacant(vacant) => {
                // Groups are in memory, which has no room for 2^32.
                let group = self.groups as u32;
                vacant.insert(GroupPlace { group, hash });
                reserve_on_huge_pages(numbers, width);
                // There are few numbers: a call of memcpy takes longer.
                wanted.iter().for_each(|&number| numbers.push(number));
                self.groups += 1;
                (self.groups - 1, false)
            }
            Entry::Occupied(occupied) => {
                let group = occupied.get().group as usize;
                if let Some(keys) = equals {
                    keys.show_smaller(&mut numbers[group * width..(group + 1) * width], wanted);
                }
                (group, true)
            }
        }
    }

    /// Whether the group of a row with the numbers `wanted` is there.
    pub(super) fn contains(&self, wanted: &[u64], equals: Option<&RowKeys>) -> bool {
        let hash = hash(wanted, equals);
        let is_it = |place: &GroupPlace| {
            place.hash == hash && is_same(self.numbers(place.group as usize), wanted, equals)
        };
        self.places.find(spread(hash), is_it).is_some()
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.groups
    }

    /// The numbers of a group.
    pub(super) fn numbers(&self, group: usize) -> &[u64] {
        &self.numbers[group * self.width..(group + 1) * self.width]
    }

    /// The memory that it takes, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        let group = 2 * self.width * size_of::<u64>() + PLACE_BYTES;
        self.groups * group
    }

    /// The memory for sorting the groups, in bytes, about.
    pub(super) fn sort_bytes(&self) -> usize {
        self.groups * (self.width * size_of::<u64>() + SORT_BYTES)
    }

    /// Frees the table: no further rows are searched.
    pub(super) fn finish(&mut self) {
        self.places = HashTable::new();
    }

    /// Gives numbers to values of keys instead of columns, where numbers of another batch have another meaning.
    ///
    /// # Errors
    /// If there is no memory for a value.
    pub(super) fn number_values(&mut self, keys: &mut RowKeys, memory: &ValueMemory) -> Result<()> {
        let before = std::mem::take(self);
        let forms = keys.keys.iter_mut().map(KeyInterner::number_values);
        let forms: Vec<Option<KeyInterner>> = forms.collect();
        let width = keys.given + keys.keys.len();
        self.numbers.reserve(width * before.groups);
        let mut numbers = Vec::with_capacity(width);
        for row in 0..before.groups {
            let (given, mut rest) = before.numbers(row).split_at(keys.given);
            numbers.clear();
            numbers.extend_from_slice(given);
            for (key, form) in keys.keys.iter_mut().zip(&forms) {
                let own = form.as_ref().map_or(1, KeyInterner::width);
                let (own, others) = rest.split_at(own);
                rest = others;
                numbers.push(match form {
                    Some(form) => key.number_of(&form.value(own), memory)?,
                    None => own[0],
                });
            }
            keys.has_equals = keys.keys.iter().any(KeyInterner::has_equals);
            self.intern(&numbers, keys.equals());
        }
        Ok(())
    }
}

fn hash(numbers: &[u64], equals: Option<&RowKeys>) -> u32 {
    match equals {
        None => finished(numbers.iter().fold(0, |mixed, &number| mix(mixed, number))),
        Some(keys) => finished(keys.firsts(numbers).fold(0, mix)),
    }
}

/// Whether rows with these numbers are equal.
#[inline]
fn is_same(kept: &[u64], wanted: &[u64], equals: Option<&RowKeys>) -> bool {
    // There are few numbers: a call of memcmp takes longer.
    let are_same = kept.iter().zip(wanted).all(|(kept, wanted)| kept == wanted);
    are_same || equals.is_some_and(|keys| keys.firsts(kept).eq(keys.firsts(wanted)))
}

/// Mixes numbers without a secret: an attacker that chooses the numbers has chosen the text, and could ask for all of it.
#[inline]
fn mix(mixed: u64, number: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    (mixed.rotate_left(23) ^ number).wrapping_mul(FACTOR)
}

/// The hash of mixed numbers: all of its bits depend on all of them.
#[inline]
fn finished(mixed: u64) -> u32 {
    (mixed ^ mixed >> 32) as u32
}

/// A hash for tables that use some of its highest bits beside the lowest.
#[inline]
fn spread(hash: u32) -> u64 {
    u64::from(hash) << u32::BITS | u64::from(hash)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use zipfdb_sql::query::{Collation, Expression, ExpressionId, Function};

    use super::super::key::push_key;
    use super::super::key_interner::KeyUse;
    use super::*;
    use crate::batch::{ColumnBuilder, TextDictionary};
    use crate::expression::{Evaluator, Layout, Program};
    use crate::runtime::interrupt::Interrupts;

    /// A column of the kind that the number says, with some equal values.
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
        fn rows_are_distinguished_as_their_keys_are_whatever_columns_have_them(
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
            let collation_of = |key: usize| {
                if are_nocase[key] {
                    Collation::NoCase
                } else {
                    Collation::Binary
                }
            };
            let mut evaluator = Evaluator::of(program.clone());
            let keys = (0..3).map(|key| {
                KeyInterner::new(ExpressionId(key as u32), KeyUse::Equality(collation_of(key)), &program, 1 << 10)
            });
            let (mut keys, mut index) = (RowKeys::new(keys.collect()), GroupIndex::default());
            let memory = ValueMemory::default();
            // By key of values the number and the shown values.
            let mut expected: BTreeMap<Vec<u8>, (usize, Vec<Value>)> = BTreeMap::new();
            for (left, right, values) in batches {
                let (lefts, rights): (Vec<u8>, Vec<u8>) = values.into_iter().unzip();
                let columns = vec![
                    column(left, &lefts, &dictionaries),
                    column(right, &rights, &dictionaries),
                ];
                let batch = Batch::new(columns, lefts.len(), None);
                let given: Vec<Vec<Value>> = (0..batch.len())
                    .map(|row| {
                        let mut values = batch.row(row);
                        evaluator.next_row();
                        values.push(evaluator.value(&batch.row(row), ExpressionId(2)).unwrap().clone());
                        values
                    })
                    .collect();
                let mut with = Look { evaluator: &mut evaluator, memory: &memory, keeps: true };
                if !keys.begin(&batch) {
                    index.number_values(&mut keys, &memory).unwrap();
                }
                let mut numbers = Vec::new();
                keys.look(&batch, 0..given.len(), &mut with, &mut numbers).unwrap();
                for (wanted, values) in numbers.chunks_exact(keys.width()).zip(given) {
                    let mut key = Vec::new();
                    for (part, value) in values.iter().enumerate() {
                        push_key(value, KeyOrder::ascending(collation_of(part)), &mut key);
                    }
                    let is_new = !expected.contains_key(&key);
                    prop_assert_eq!(index.contains(wanted, keys.equals()), !is_new);
                    let next = expected.len();
                    let (number, shown) = expected.entry(key).or_insert((next, values.clone()));
                    for (shown, value) in shown.iter_mut().zip(values) {
                        if tie(&value, shown).is_lt() {
                            *shown = value;
                        }
                    }
                    prop_assert_eq!(index.intern(wanted, keys.equals()), (*number, !is_new));
                }
            }
            prop_assert_eq!(index.len(), expected.len());
            let columns = |keys: &RowKeys| keys.columns(&index, 0..index.len());
            let looked_at = columns(&keys);
            keys.finish();
            let finished = columns(&keys);
            for (number, values) in expected.into_values() {
                for (key, value) in values.into_iter().enumerate() {
                    prop_assert!(tie(&keys.value(index.numbers(number), key), &value).is_eq());
                    prop_assert!(tie(&looked_at[key].value(number), &value).is_eq());
                    prop_assert!(tie(&finished[key].value(number), &value).is_eq());
                }
            }
        }
    }
}
