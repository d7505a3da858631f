//! `Sorter`: records in order of their keys, within a limit of memory.
//!
//! Records are kept one behind the other in one buffer. When it is full they are sorted and written as a run; the runs are
//! merged at the end. With a limit of records only those are kept that may still be among the first. Invariant: records with
//! equal keys come out in the order they came in.

use super::spill::{Merge, Record, Run, RunWriter, SpillDirectory};
use crate::Result;
use crate::interrupt::Pace;

/// Takes records in any order.
pub(super) struct Sorter {
    memory: usize,
    directory: SpillDirectory,
    pace: Pace,
    /// How many records are asked for.
    limit: Option<usize>,
    buffer: Vec<u8>,
    entries: Vec<Entry>,
    /// With a limit, keys from here on are not among the first.
    bound: Option<Vec<u8>>,
    runs: Vec<Run>,
}

/// Where a record is in the buffer.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    start: usize,
    key_end: usize,
    end: usize,
}

impl Entry {
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
        directory: SpillDirectory,
        pace: Pace,
        limit: Option<u64>,
    ) -> Sorter {
        Sorter {
            memory,
            directory,
            pace,
            // A limit that is larger than memory is as good as none.
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            buffer: Vec::new(),
            entries: Vec::new(),
            bound: None,
            runs: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        self.pace.step()?;
        let is_behind = self.bound.as_deref().is_some_and(|bound| key >= bound);
        if is_behind || self.limit == Some(0) {
            return Ok(());
        }
        let size = key.len() + payload.len() + size_of::<Entry>();
        let used = self.buffer.len() + self.entries.len() * size_of::<Entry>();
        if used + size > self.memory && !self.entries.is_empty() {
            self.shrink()?;
        }
        let start = self.buffer.len();
        self.buffer.extend_from_slice(key);
        let key_end = self.buffer.len();
        self.buffer.extend_from_slice(payload);
        self.entries.push(Entry {
            start,
            key_end,
            end: self.buffer.len(),
        });
        if self
            .limit
            .is_some_and(|limit| self.entries.len() / 2 > limit.max(512))
        {
            self.keep_first();
        }
        Ok(())
    }

    /// Makes room.
    fn shrink(&mut self) -> Result<()> {
        let before = self.buffer.len();
        self.keep_first();
        // Writing a run pays only if dropping what is behind the limit did not help.
        if self.buffer.len() <= before / 2 {
            return Ok(());
        }
        self.sort();
        let mut writer = RunWriter::new(&self.directory)?;
        for entry in &self.entries {
            self.pace.step()?;
            writer.push(entry.key(&self.buffer), entry.payload(&self.buffer))?;
        }
        self.runs.push(writer.finish()?);
        self.buffer.clear();
        self.entries.clear();
        Ok(())
    }

    /// Drops what cannot be among the first `limit` records.
    fn keep_first(&mut self) {
        let Some(limit) = self.limit.filter(|&limit| limit < self.entries.len()) else {
            return;
        };
        let buffer = &self.buffer;
        // Records came in by ascending start, which makes the order total.
        let order = |entry: &Entry| (entry.key(buffer), entry.start);
        let (kept, last, _) = self
            .entries
            .select_nth_unstable_by(limit, |a, b| order(a).cmp(&order(b)));
        self.bound = Some(last.key(buffer).to_vec());
        kept.sort_unstable_by_key(|entry| entry.start);
        let mut packed = Vec::with_capacity(buffer.len() / 2);
        for entry in kept.iter_mut() {
            let start = packed.len();
            packed.extend_from_slice(&buffer[entry.start..entry.end]);
            *entry = Entry {
                start,
                key_end: start + (entry.key_end - entry.start),
                end: packed.len(),
            };
        }
        self.entries.truncate(limit);
        self.buffer = packed;
    }

    fn sort(&mut self) {
        let buffer = &self.buffer;
        self.entries
            .sort_by(|a, b| a.key(buffer).cmp(b.key(buffer)));
    }

    /// All records in order; with a limit perhaps more than it.
    pub(super) fn finish(mut self) -> Result<Sorted> {
        if self.runs.is_empty() {
            self.keep_first();
            self.sort();
            return Ok(Sorted::Kept {
                buffer: self.buffer,
                entries: self.entries.into_iter(),
            });
        }
        if !self.entries.is_empty() {
            self.sort();
            let mut writer = RunWriter::new(&self.directory)?;
            for entry in &self.entries {
                self.pace.step()?;
                writer.push(entry.key(&self.buffer), entry.payload(&self.buffer))?;
            }
            self.runs.push(writer.finish()?);
        }
        self.buffer = Vec::new();
        self.entries = Vec::new();
        let pace = &mut self.pace;
        let merge = Merge::new(self.runs, self.memory, &self.directory, || pace.step())?;
        Ok(Sorted::Merged(merge))
    }
}

/// Gives records in order.
pub(super) enum Sorted {
    Kept {
        buffer: Vec<u8>,
        entries: std::vec::IntoIter<Entry>,
    },
    Merged(Merge),
}

impl Sorted {
    pub(super) fn next(&mut self) -> Result<Option<Record>> {
        match self {
            Sorted::Kept { buffer, entries } => Ok(entries
                .next()
                .map(|entry| (entry.key(buffer).to_vec(), entry.payload(buffer).to_vec()))),
            Sorted::Merged(merge) => merge.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::interrupt::Interrupts;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn records_come_out_as_a_stable_sort_orders_them(
            keys in proptest::collection::vec("[a-c]{0,2}", 0..300),
            memory in 0usize..4000,
            limit in proptest::option::of(0u64..40),
        ) {
            let pace = Interrupts::default().begin(0).pace();
            let mut sorter = Sorter::new(memory, SpillDirectory::beside(None), pace, limit);
            let mut expected = Vec::new();
            for (index, key) in keys.iter().enumerate() {
                let record = (key.as_bytes().to_vec(), index.to_string().into_bytes());
                sorter.push(&record.0, &record.1).unwrap();
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
    fn a_small_limit_needs_no_run() {
        let pace = Interrupts::default().begin(0).pace();
        let missing = SpillDirectory::only(std::path::Path::new("no-such-directory-anywhere"));
        let mut sorter = Sorter::new(100_000, missing, pace, Some(3));
        for index in (0..100_000u32).rev() {
            sorter.push(&index.to_be_bytes(), b"payload").unwrap();
        }
        let mut sorted = sorter.finish().unwrap();
        let (key, _) = sorted.next().unwrap().unwrap();
        assert_eq!(key, 0u32.to_be_bytes());
    }
}
