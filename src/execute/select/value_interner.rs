//! `ValueInterner`: values with a number each.
//!
//! Invariant: values have equal numbers if they are identical, byte by byte and of one type. Values that are equal otherwise, by
//! collation or as INTEGER and REAL, have a first in common.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use zipfdb_search::fold::fold;
use zipfdb_sql::query::Collation;

use super::key::real_number;
use super::row::value_size;
use crate::expression::compare;
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// Bytes of a value beside its own: itself, its first, its place in a table that may be half empty, and an allocation.
const VALUE_BYTES: usize = size_of::<Value>() + 4 * size_of::<u32>() + 16;

/// Values, and the number of each.
#[derive(Debug)]
pub(super) struct ValueInterner {
    /// The collation by which different values are equal; none if they are not.
    collation: Option<Collation>,
    values: Vec<Value>,
    /// For each value the first that is equal to it.
    firsts: Vec<u32>,
    numbers: HashTable<u32>,
    /// The firsts of texts that a collation makes equal, by their folded bytes.
    folded: HashTable<u32>,
    hasher: RandomState,
    /// Whether a value is equal to an earlier one.
    has_equals: bool,
    /// The number of NULL.
    null: Option<u32>,
    bytes: usize,
}

impl ValueInterner {
    /// No values yet; values are equal by `collation`.
    pub(super) fn new(collation: Option<Collation>) -> ValueInterner {
        ValueInterner {
            collation,
            values: Vec::new(),
            firsts: Vec::new(),
            numbers: HashTable::new(),
            folded: HashTable::new(),
            hasher: RandomState::default(),
            has_equals: false,
            null: None,
            bytes: 0,
        }
    }

    /// The number of a value, which is stored if it is new.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn number(&mut self, value: &Value, memory: &ValueMemory) -> Result<u32> {
        let hash = self.hash(value);
        if let Some(number) = self.find(hash, value) {
            return Ok(number);
        }
        // Values are in memory, which has no room for 2^32.
        let number = self.values.len() as u32;
        self.bytes += VALUE_BYTES + value_size(value);
        self.values.push(memory.copy(value)?);
        if *value == Value::Null {
            self.null = Some(number);
        }
        let first = self.first_equal(number);
        self.has_equals |= first != number;
        self.firsts.push(first);
        let (values, hasher) = (&self.values, &self.hasher);
        let hash_of = |&number: &u32| hash_value(&values[number as usize], hasher);
        self.numbers.insert_unique(hash, number, hash_of);
        Ok(number)
    }

    /// The number of a value, or of one that is equal as a number.
    pub(super) fn known(&self, value: &Value) -> Option<u32> {
        let found = self.find(self.hash(value), value);
        found.or_else(|| self.find_other(value))
    }

    /// The value with a number.
    pub(super) fn value(&self, number: u32) -> &Value {
        &self.values[number as usize]
    }

    /// The number of the first value that is equal to the one with this number.
    pub(super) fn first(&self, number: u32) -> u32 {
        self.firsts[number as usize]
    }

    /// The number of NULL, if there is one.
    pub(super) fn null(&self) -> Option<u32> {
        self.null
    }

    /// Whether some value is equal to another.
    pub(super) fn has_equals(&self) -> bool {
        self.has_equals
    }

    /// Whether all values are texts.
    pub(super) fn are_texts(&self) -> bool {
        let is_text = |value: &Value| matches!(value, Value::Text(_));
        self.values.iter().all(is_text)
    }

    /// The texts, by number, of values that are all texts.
    pub(super) fn into_texts(self) -> Vec<String> {
        let texts = self.values.into_iter().filter_map(|value| match value {
            Value::Text(text) => Some(text),
            _ => None,
        });
        texts.collect()
    }

    /// All values, by number.
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.values.iter()
    }

    /// The memory of all of it, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn hash(&self, value: &Value) -> u64 {
        hash_value(value, &self.hasher)
    }

    fn find(&self, hash: u64, value: &Value) -> Option<u32> {
        let is_it = |&number: &u32| is_same(&self.values[number as usize], value);
        self.numbers.find(hash, is_it).copied()
    }

    /// The first value that is equal to the last one.
    fn first_equal(&mut self, number: u32) -> u32 {
        let value = &self.values[number as usize];
        match value {
            _ if self.collation.is_none() => number,
            Value::Text(text) if self.collation == Some(Collation::NoCase) => {
                self.first_folded(number, &folded(text))
            }
            _ => {
                let known = self.find_other(value);
                known.map_or(number, |known| self.first(known))
            }
        }
    }

    /// The INTEGER that is equal to a REAL, and the other way around.
    fn find_other(&self, value: &Value) -> Option<u32> {
        // Rounding may make them unequal: the comparison decides.
        let other = match value {
            Value::Integer(integer) => Value::Real(*integer as f64),
            Value::Real(real) => Value::Integer(*real as i64),
            Value::Text(_) | Value::Blob(_) | Value::Null => return None,
        };
        let is_equal = compare(value, &other, Collation::Binary).is_eq();
        is_equal.then(|| self.find(self.hash(&other), &other))?
    }

    /// The first text with some folded bytes, which may be this one.
    fn first_folded(&mut self, number: u32, bytes: &[u8]) -> u32 {
        let (values, hasher) = (&self.values, &self.hasher);
        let folded_at = |number: u32| match &values[number as usize] {
            Value::Text(text) => folded(text),
            _ => Vec::new(),
        };
        let hash = hasher.hash_one(bytes);
        let is_it = |&known: &u32| folded_at(known) == bytes;
        if let Some(&first) = self.folded.find(hash, is_it) {
            return first;
        }
        let hash_of = |&known: &u32| hasher.hash_one(&folded_at(known)[..]);
        self.folded.insert_unique(hash, number, hash_of);
        number
    }
}

fn folded(text: &str) -> Vec<u8> {
    let mut folded = Vec::with_capacity(text.len());
    fold(text.as_bytes(), &mut folded);
    folded
}

fn hash_value(value: &Value, hasher: &RandomState) -> u64 {
    match value {
        Value::Null => hasher.hash_one(()),
        Value::Integer(integer) => hasher.hash_one(integer),
        Value::Real(real) => hasher.hash_one(real_number(*real)),
        Value::Text(text) => hasher.hash_one(text.as_bytes()),
        Value::Blob(bytes) => hasher.hash_one(&bytes[..]),
    }
}

fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Integer(left), Value::Integer(right)) => left == right,
        (Value::Real(left), Value::Real(right)) => real_number(*left) == real_number(*right),
        (Value::Text(left), Value::Text(right)) => left == right,
        (Value::Blob(left), Value::Blob(right)) => left == right,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::key::tie;
    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            (-2i64..3).prop_map(Value::Integer),
            (-2i64..3).prop_map(|n| Value::Integer(i64::MAX - 512 + n)),
            (-2i64..3).prop_map(|n| Value::Integer((1 << 53) + n)),
            (-2i64..3).prop_map(|n| Value::Real(((1i64 << 53) + n) as f64)),
            (-5i32..6).prop_map(|n| Value::Real(f64::from(n) / 2.0)),
            Just(Value::Real(-0.0)),
            Just(Value::Real(i64::MAX as f64)),
            "[aAbB\u{e9}\u{c9}]{0,2}".prop_map(Value::Text),
            "[aA]{0,2}".prop_map(|text| Value::Blob(text.into_bytes())),
        ]
    }

    proptest! {
        #[test]
        fn numbers_are_equal_where_values_are_the_same_and_firsts_where_they_compare_equal(
            values in proptest::collection::vec(value(), 0..60),
            is_nocase: bool,
        ) {
            let collation = if is_nocase { Collation::NoCase } else { Collation::Binary };
            let memory = ValueMemory::default();
            let mut numbers = ValueInterner::new(Some(collation));
            let numbered: Vec<u32> = (values.iter())
                .map(|value| numbers.number(value, &memory).unwrap_or(u32::MAX))
                .collect();
            for (value, &number) in values.iter().zip(&numbered) {
                prop_assert!(tie(numbers.value(number), value).is_eq());
                for (other, &other_number) in values.iter().zip(&numbered) {
                    prop_assert_eq!(number == other_number, tie(value, other).is_eq());
                    let firsts = (numbers.first(number), numbers.first(other_number));
                    prop_assert_eq!(firsts.0 == firsts.1, compare(value, other, collation).is_eq());
                }
            }
            let has_equals = numbered.iter().any(|&number| numbers.first(number) != number);
            prop_assert_eq!(numbers.has_equals(), has_equals);
        }
    }
}
