//! `KnownEntries`: the values of expressions that one dictionary column decides, by entry of the dictionary.
//!
//! Invariants: a value is that of the same entry of the same dictionary; all together take no more than their share of memory, beyond
//! which those of an expression are forgotten and begun anew. Which expressions these are is the evaluator's business.

use crate::Value;
use crate::batch::TextDictionary;
use crate::runtime::memory;

/// The values of an expression for entries of a dictionary.
#[derive(Debug)]
pub(super) struct EntryValues {
    dictionary: TextDictionary,
    /// By entry, one more than the number of its value; 0 if it has none.
    known: Vec<u32>,
    values: Vec<Value>,
    bytes: usize,
}

impl EntryValues {
    /// The number of the value of an entry.
    #[inline]
    pub(super) fn find(&self, entry: u32) -> Option<u32> {
        self.known[entry as usize].checked_sub(1)
    }
}

/// The values of all expressions of an evaluator.
#[derive(Debug)]
pub(super) struct KnownEntries {
    /// By slot of the expression.
    slots: Vec<Option<EntryValues>>,
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
        known.slots.resize_with(slots, || None);
        known
    }

    /// The values of an expression for a dictionary; none if there is no room for them.
    #[inline]
    pub(super) fn begin(
        &mut self,
        slot: usize,
        dictionary: &TextDictionary,
    ) -> Option<&EntryValues> {
        let is_same = |known: &EntryValues| known.dictionary.is_same(dictionary);
        if !self.slots[slot].as_ref().is_some_and(is_same) {
            self.forget(slot);
            let bytes = dictionary.len() * size_of::<u32>();
            if bytes > self.bytes_max / 2 - self.bytes.min(self.bytes_max / 2) {
                return None;
            }
            self.bytes += bytes;
            self.slots[slot] = Some(EntryValues {
                dictionary: dictionary.clone(),
                known: vec![0; dictionary.len()],
                values: Vec::new(),
                bytes,
            });
        }
        self.slots[slot].as_ref()
    }

    /// Adds the value of an entry and gives its number, or gives the value back if there is no room, and forgets all of the expression.
    pub(super) fn add(&mut self, slot: usize, entry: u32, value: Value) -> Result<u32, Value> {
        // Sizes of values in memory fit.
        let bytes = size_of::<Value>() + memory::size(&value) as usize;
        let has_room = self.bytes + bytes <= self.bytes_max;
        let Some(known) = self.slots[slot].as_mut().filter(|_| has_room) else {
            self.forget(slot);
            return Err(value);
        };
        // Values are kept in memory, which has no room for 2^32.
        let number = known.values.len() as u32;
        known.known[entry as usize] = number + 1;
        known.values.push(value);
        known.bytes += bytes;
        self.bytes += bytes;
        Ok(number)
    }

    /// The value with a number.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(super) fn value(&self, slot: usize, number: u32) -> &Value {
        let known = self.slots[slot].as_ref();
        &known.expect("a number is of a value that is kept").values[number as usize]
    }

    /// About how many bytes values take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        self.slots.fill_with(|| None);
        self.bytes = 0;
    }

    fn forget(&mut self, slot: usize) {
        let forgotten = self.slots[slot].take();
        self.bytes -= forgotten.map_or(0, |known| known.bytes);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_stay_within_their_memory_and_belong_to_one_dictionary() {
        let texts = |prefix: &str| {
            let texts = (0..100).map(|number| format!("{prefix}{number}"));
            TextDictionary::made(texts.collect())
        };
        let (first, second) = (texts("a"), texts("b"));
        let mut known = KnownEntries::new(2, 4000);
        for dictionary in [&first, &second, &first] {
            for entry in 0..100 {
                let found = known.begin(0, dictionary).unwrap().find(entry);
                assert_eq!(found, None, "{entry}");
                let value = Value::Text(format!("{:0100}", entry));
                match known.add(0, entry, value.clone()) {
                    Ok(number) => assert_eq!(*known.value(0, number), value),
                    Err(back) => assert_eq!(back, value),
                }
                assert!(known.bytes() <= 4000);
            }
        }
        assert!(known.begin(1, &first).is_some() || known.bytes() > 1600);
        known.clear();
        assert_eq!(known.bytes(), 0);
        assert!(KnownEntries::new(1, 0).begin(0, &first).is_none());
    }
}
