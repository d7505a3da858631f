//! `Sorter`: records in order of their keys, within a limit of memory.
//!
//! Records are kept one behind the other in one buffer. When it is full they are sorted and written as a run; the runs are
//! merged at the end. A record that is larger than memory is a run of its own. With a limit of records only those are kept that
//! may still be among the first. Invariants: records with equal keys come out in the order they came in; the buffer takes no
//! more than memory, and is taken of the memory of caches.

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
    /// How many records are asked for.
    limit: Option<usize>,
    buffer: Vec<u8>,
    entries: Vec<RecordEntry>,
    /// With a limit, keys from here on are not among the first.
    bound: Option<Vec<u8>>,
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
        limit: Option<u64>,
    ) -> Sorter {
        Sorter {
            memory,
            reservation,
            pace,
            // A limit that is larger than memory is as good as none.
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            buffer: Vec::new(),
            entries: Vec::new(),
            bound: None,
            runs: SpilledRuns::new(memory, directory),
        }
    }

    pub(super) fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        self.pace.step()?;
        let is_behind = self.bound.as_deref().is_some_and(|bound| key >= bound);
        if is_behind || self.limit == Some(0) {
            return Ok(());
        }
        let size = key.len() + payload.len() + ENTRY_BYTES;
        if self.used() + size > self.memory && !self.entries.is_empty() {
            self.shrink()?;
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
        if self
            .limit
            .is_some_and(|limit| self.entries.len() / 2 > limit.max(512))
        {
            self.keep_first();
        }
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

    /// Makes room.
    fn shrink(&mut self) -> Result<()> {
        let before = self.buffer.len();
        self.keep_first();
        // Writing a run pays only if dropping what is behind the limit did not help.
        if self.buffer.len() <= before / 2 {
            return Ok(());
        }
        self.spill()?;
        self.settle()
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

    /// Drops what cannot be among the first `limit` records.
    fn keep_first(&mut self) {
        let Some(limit) = self.limit.filter(|&limit| limit < self.entries.len()) else {
            return;
        };
        let buffer = &self.buffer;
        // Records came in by ascending start, which makes the order total.
        let order = |entry: &RecordEntry| (entry.key(buffer), entry.start);
        let (kept, last, _) = self
            .entries
            .select_nth_unstable_by(limit, |a, b| order(a).cmp(&order(b)));
        self.bound = Some(last.key(buffer).to_vec());
        kept.sort_unstable_by_key(|entry| entry.start);
        let mut end = 0;
        for entry in kept.iter_mut() {
            // Records only move to the front.
            self.buffer.copy_within(entry.start..entry.end, end);
            let start = end;
            end += entry.end - entry.start;
            *entry = RecordEntry {
                start,
                key_end: start + (entry.key_end - entry.start),
                end,
            };
        }
        self.entries.truncate(limit);
        self.buffer.truncate(end);
    }

    fn sort(&mut self) -> Result<()> {
        let buffer = &self.buffer;
        sort_until(&mut self.entries, &mut self.pace, |a, b| {
            a.key(buffer).cmp(b.key(buffer))
        })
    }

    /// All records in order; with a limit perhaps more than it.
    pub(super) fn finish(mut self) -> Result<Sorted> {
        if self.runs.is_empty() {
            self.keep_first();
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
            limit in proptest::option::of(0u64..40),
        ) {
            let pace = Interrupts::default().begin(0).pace();
            let mut sorter = Sorter::new(memory, reservation(), &SpillDirectory::beside(None), pace, limit);
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
            let limit = limit.map_or(expected.len(), |limit| expected.len().min(limit as usize));
            prop_assert!(found.len() >= limit);
            prop_assert_eq!(&found[..limit], &expected[..limit]);
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
            None,
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

    #[test]
    fn a_small_limit_needs_no_run() {
        let pace = Interrupts::default().begin(0).pace();
        let missing = SpillDirectory::only(std::path::Path::new("no-such-directory-anywhere"));
        let mut sorter = Sorter::new(100_000, reservation(), &missing, pace, Some(3));
        for index in (0..100_000u32).rev() {
            sorter.push(&index.to_be_bytes(), b"payload").unwrap();
        }
        let mut sorted = sorter.finish().unwrap();
        let (key, _) = sorted.next().unwrap().unwrap();
        assert_eq!(key, 0u32.to_be_bytes());
    }
}
