//! `Sorter`: records in order of their keys, within a limit of memory.
//!
//! Records are kept one behind the other in one buffer. When it is full they are sorted and written as a run; the runs are
//! merged at the end. A record that is larger than memory is a run of its own. Invariants: records with equal keys come out in the
//! order they came in; the buffer takes no more than memory, and is taken of the memory of caches.

use super::ordered::sort_until;
use super::spill::{Merge, Record, SpillDirectory, SpilledRuns};
use crate::runtime::interrupt::Pace;
use crate::segment::cache::Reservation;
use crate::{Error, Result};

/// Takes records in any order.
pub(super) struct Sorter {
    memory: usize,
    reservation: Reservation,
    pace: Pace,
    buffer: Vec<u8>,
    entries: Vec<RecordEntry>,
    runs: SpilledRuns,
}

/// What an entry takes, and what sorting takes for it beside.
const ENTRY_BYTES: usize = size_of::<RecordEntry>() * 3 / 2;

/// The buffer has room for so many bytes when it has room for any.
const BUFFER_BYTES_MIN: usize = 1 << 10;

/// Where a record is in the buffer.
#[derive(Clone, Copy)]
pub(super) struct RecordEntry {
    start: usize,
    key_end: usize,
    end: usize,
}

impl RecordEntry {
    fn key(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.start..self.key_end]
    }

    fn payload(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.key_end..self.end]
    }
}

impl Sorter {
    pub(super) fn new(
        memory: usize,
        reservation: Reservation,
        directory: &SpillDirectory,
        pace: Pace,
    ) -> Sorter {
        Sorter {
            memory,
            reservation,
            pace,
            buffer: Vec::new(),
            entries: Vec::new(),
            runs: SpilledRuns::new(memory, directory),
        }
    }

    pub(super) fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        self.pace.step()?;
        let size = key.len() + payload.len() + ENTRY_BYTES;
        if self.used() + size > self.memory && !self.entries.is_empty() {
            self.spill()?;
            self.settle()?;
        }
        if size > self.memory {
            self.spill()?;
            self.runs.write(|writer| writer.push(&[key], payload))?;
            return self.settle();
        }
        self.reserve(key.len() + payload.len())?;
        let start = self.buffer.len();
        self.buffer.extend_from_slice(key);
        let key_end = self.buffer.len();
        self.buffer.extend_from_slice(payload);
        self.entries.push(RecordEntry {
            start,
            key_end,
            end: self.buffer.len(),
        });
        self.reservation.cover(self.used());
        Ok(())
    }

    fn used(&self) -> usize {
        self.buffer.len() + self.entries.len() * ENTRY_BYTES
    }

    /// Makes room for more bytes in the buffer: doubles it, but never beyond memory.
    fn reserve(&mut self, more: usize) -> Result<()> {
        let (used, room) = (self.buffer.len(), self.buffer.capacity());
        if room - used >= more {
            return Ok(());
        }
        let wanted = (2 * room).max(BUFFER_BYTES_MIN).min(self.memory);
        let growth = wanted.saturating_sub(used).max(more);
        if self.buffer.try_reserve_exact(growth).is_ok() {
            return Ok(());
        }
        // The system has less memory than the limit allows.
        self.spill()?;
        self.settle()?;
        let reserved = self.buffer.try_reserve_exact(more);
        reserved.map_err(|_| Error::NoMemory {
            what: "a row that is sorted".to_owned(),
            bytes: more as u64,
        })
    }

    /// Writes what is in memory as a run.
    fn spill(&mut self) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        self.sort()?;
        let (entries, buffer, pace) = (&self.entries, &self.buffer, &mut self.pace);
        self.runs.write(|writer| {
            for entry in entries {
                pace.step()?;
                writer.push(&[entry.key(buffer)], entry.payload(buffer))?;
            }
            Ok(())
        })?;
        self.buffer.clear();
        self.entries.clear();
        Ok(())
    }

    /// Merges runs if there are many; nothing is in memory.
    fn settle(&mut self) -> Result<()> {
        if self.runs.is_full() {
            self.buffer = Vec::new();
            self.entries = Vec::new();
            self.reservation.set(0);
            self.runs.settle(&mut self.pace)?;
        }
        Ok(())
    }

    fn sort(&mut self) -> Result<()> {
        let buffer = &self.buffer;
        sort_until(&mut self.entries, &mut self.pace, |a, b| {
            a.key(buffer).cmp(b.key(buffer))
        })
    }

    /// All records in order.
    pub(super) fn finish(mut self) -> Result<Sorted> {
        if self.runs.is_empty() {
            self.sort()?;
            return Ok(Sorted::Kept {
                buffer: self.buffer,
                entries: self.entries.into_iter(),
                _reservation: self.reservation,
            });
        }
        self.spill()?;
        self.buffer = Vec::new();
        self.entries = Vec::new();
        self.reservation.set(0);
        Ok(Sorted::Merged(self.runs.merge(&mut self.pace)?))
    }
}

/// Gives records in order.
pub(super) enum Sorted {
    Kept {
        buffer: Vec<u8>,
        entries: std::vec::IntoIter<RecordEntry>,
        _reservation: Reservation,
    },
    Merged(Merge),
}

impl Sorted {
    pub(super) fn next(&mut self) -> Result<Option<Record>> {
        match self {
            Sorted::Kept {
                buffer, entries, ..
            } => Ok(entries
                .next()
                .map(|entry| (entry.key(buffer).to_vec(), entry.payload(buffer).to_vec()))),
            Sorted::Merged(merge) => merge.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::runtime::interrupt::Interrupts;
    use crate::segment::cache::Cache;

    fn reservation() -> Reservation {
        Arc::new(Cache::new(0)).reservation()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn records_come_out_as_a_stable_sort_orders_them(
            keys in proptest::collection::vec("[a-c]{0,2}", 0..300),
            memory in 0usize..4000,
        ) {
            let pace = Interrupts::default().begin(0).pace();
            let mut sorter = Sorter::new(memory, reservation(), &SpillDirectory::beside(None), pace);
            let mut expected = Vec::new();
            for (index, key) in keys.iter().enumerate() {
                let record = (key.as_bytes().to_vec(), index.to_string().into_bytes());
                sorter.push(&record.0, &record.1).unwrap();
                prop_assert!(sorter.used() <= memory && sorter.buffer.capacity() <= memory);
                expected.push(record);
            }
            expected.sort_by(|a, b| a.0.cmp(&b.0));
            let mut sorted = sorter.finish().unwrap();
            let mut found = Vec::new();
            while let Some(record) = sorted.next().unwrap() {
                found.push(record);
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn records_larger_than_memory_are_spilled_alone() {
        let memory = 100_000;
        let mut sorter = Sorter::new(
            memory,
            reservation(),
            &SpillDirectory::beside(None),
            Interrupts::default().begin(0).pace(),
        );
        let mut expected = Vec::new();
        for index in 0..200u32 {
            let bytes = if index % 3 == 0 { 120_000 } else { 700 };
            let payload = vec![index as u8; bytes];
            let key = (index * 7919 % 50).to_be_bytes();
            sorter.push(&key, &payload).unwrap();
            assert!(sorter.used() <= memory && sorter.buffer.capacity() <= memory);
            expected.push((key.to_vec(), payload));
        }
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        let mut sorted = sorter.finish().unwrap();
        for record in expected {
            assert!(sorted.next().unwrap() == Some(record));
        }
        assert!(sorted.next().unwrap().is_none());
    }
}
