//! `KnownEntries`: the values of expressions that one dictionary column decides, by entry of the dictionary; `EntryNumbers`: a
//! number by entry.
//!
//! Invariants: a value is that of the same entry of the same dictionary; all together take no more than their share of memory,
//! beyond which those of an expression are dropped and started again. The evaluator chooses the expressions.

use crate::Value;
use crate::batch::{Batch, BatchColumn, TextDictionary};
use crate::runtime::memory;

/// Numbers for entries of one dictionary at a time.
#[derive(Debug, Default)]
pub(crate) struct EntryNumbers {
    dictionary: Option<TextDictionary>,
    /// By entry, its number plus one; 0 without a number.
    known: Vec<u32>,
}

impl EntryNumbers {
    /// Begins a dictionary; if it differs from the one before, no entry has a number. Returns whether numbers for all of its
    /// entries take at most `bytes_max` bytes.
    #[inline]
    pub(crate) fn begin(&mut self, dictionary: &TextDictionary, bytes_max: usize) -> bool {
        if !self.is_of(dictionary) {
            if dictionary.len() > bytes_max / size_of::<u32>() {
                return false;
            }
            self.dictionary = Some(dictionary.clone());
            self.known = vec![0; dictionary.len()];
        }
        true
    }

    /// The entries of the rows of a batch in a column, if it has a dictionary, and there is room as in `begin`.
    pub(crate) fn of<'a>(
        &mut self,
        batch: &'a Batch,
        column: Option<usize>,
        bytes_max: usize,
    ) -> Option<&'a [u32]> {
        match &batch.columns()[column?] {
            BatchColumn::Words {
                indices,
                dictionary,
            } if self.begin(dictionary, bytes_max) => Some(indices),
            _ => None,
        }
    }

    fn is_of(&self, dictionary: &TextDictionary) -> bool {
        let is_same = |known: &TextDictionary| known.is_same(dictionary);
        self.dictionary.as_ref().is_some_and(is_same)
    }

    /// The number of an entry.
    #[inline]
    pub(crate) fn get(&self, entry: u32) -> Option<u32> {
        self.known[entry as usize].checked_sub(1)
    }

    /// Sets the number of an entry.
    #[inline]
    pub(crate) fn set(&mut self, entry: u32, number: u32) {
        self.known[entry as usize] = number + 1;
    }

    /// The memory of numbers, in bytes, about.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.known[..])
    }
}

/// The state of an entry.
pub(super) enum KnownEntry {
    /// The entry has not occurred.
    New,
    /// The entry has occurred once: its value is stored when it is computed again.
    Once,
    /// The number of its value.
    Value(u32),
}

/// The values of an expression for entries of a dictionary.
#[derive(Debug, Default)]
struct EntryValues {
    /// The number of its value plus one; 0 if it has occurred once.
    numbers: EntryNumbers,
    values: Vec<Value>,
    bytes: usize,
}

/// The values of all expressions of an evaluator.
#[derive(Debug)]
pub(super) struct KnownEntries {
    /// By slot of the expression.
    slots: Vec<EntryValues>,
    bytes: usize,
    bytes_max: usize,
}

impl KnownEntries {
    /// No values yet of expressions in `slots` slots; they take at most `bytes_max` bytes.
    pub(super) fn new(slots: usize, bytes_max: usize) -> KnownEntries {
        let mut known = KnownEntries {
            slots: Vec::new(),
            bytes: 0,
            bytes_max,
        };
        known.slots.resize_with(slots, EntryValues::default);
        known
    }

    /// Begins a dictionary for an expression. Returns whether there is room for its values.
    #[inline]
    pub(super) fn begin(&mut self, slot: usize, dictionary: &TextDictionary) -> bool {
        let known = &mut self.slots[slot];
        if known.numbers.is_of(dictionary) {
            return true;
        }
        self.forget(slot);
        let known = &mut self.slots[slot];
        let bytes_max = (self.bytes_max / 2).saturating_sub(self.bytes);
        let has_room = known.numbers.begin(dictionary, bytes_max);
        known.bytes = known.numbers.bytes();
        self.bytes += known.bytes;
        has_room
    }

    /// The state of an entry that occurs, after `begin`. Many entries occur once, and storing a value takes as long as computing
    /// it.
    #[inline]
    pub(super) fn meet(&mut self, slot: usize, entry: u32) -> KnownEntry {
        let numbers = &mut self.slots[slot].numbers;
        match numbers.get(entry) {
            None => {
                numbers.set(entry, 0);
                KnownEntry::New
            }
            Some(0) => KnownEntry::Once,
            Some(next) => KnownEntry::Value(next - 1),
        }
    }

    /// Adds the value of an entry and returns its number; without room, returns the value and forgets all values of the
    /// expression.
    pub(super) fn add(&mut self, slot: usize, entry: u32, value: Value) -> Result<u32, Value> {
        // Sizes of values in memory fit.
        let bytes = size_of::<Value>() + memory::size(&value) as usize;
        if self.bytes + bytes > self.bytes_max {
            self.forget(slot);
            return Err(value);
        }
        let known = &mut self.slots[slot];
        // Values are in memory, which has no room for 2^32.
        let number = known.values.len() as u32;
        known.numbers.set(entry, number + 1);
        known.values.push(value);
        known.bytes += bytes;
        self.bytes += bytes;
        Ok(number)
    }

    /// The value with a number.
    ///
    /// # Panics
    /// If there is no such number.
    #[inline]
    pub(super) fn value(&self, slot: usize, number: u32) -> &Value {
        &self.slots[slot].values[number as usize]
    }

    /// The memory of values, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        self.slots.fill_with(EntryValues::default);
        self.bytes = 0;
    }

    fn forget(&mut self, slot: usize) {
        self.bytes -= std::mem::take(&mut self.slots[slot]).bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_within_their_memory_and_belong_to_one_dictionary() {
        let texts = |prefix: &str| {
            let texts = (0..100).map(|number| format!("{prefix}{number}"));
            TextDictionary::made(texts.collect::<Vec<_>>())
        };
        let (first, second) = (texts("a"), texts("b"));
        let mut known = KnownEntries::new(2, 4000);
        for dictionary in [&first, &second, &first] {
            for entry in 0..100 {
                assert!(known.begin(0, dictionary));
                let met = known.meet(0, entry);
                assert!(matches!(met, KnownEntry::New | KnownEntry::Once), "{entry}");
                let value = Value::Text(format!("{:0100}", entry));
                match known.add(0, entry, value.clone()) {
                    Ok(number) => assert_eq!(*known.value(0, number), value),
                    Err(back) => assert_eq!(back, value),
                }
                assert!(known.bytes() <= 4000);
            }
        }
        assert!(known.begin(1, &first) || known.bytes() > 1600);
        known.clear();
        assert_eq!(known.bytes(), 0);
        assert!(!KnownEntries::new(1, 0).begin(0, &first));
    }
}
