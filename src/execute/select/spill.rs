//! Runs: sorted records in temporary files, and their merge.
//!
//! A record is a key and a payload. Runs are merged as they accumulate: `fan_in` runs of a level become one of the next. The runs
//! of a level lie in one file one behind the other, so there is one file for each level, however many runs. Invariants: a run's
//! keys ascend, and the merge of runs returns equal keys in the order of the runs; a merge keeps one block and one key for each
//! run in memory, and one payload. Files have no name where the system allows it and are removed when they are dropped.

pub(super) use super::run_file::RunWriter;
use super::run_file::{RunReader, SpillFile, SpilledRun};
use crate::Result;
use crate::merge::KWayMerge;
use crate::runtime::interrupt::Pace;
use crate::runtime::spill_directory::SpillDirectory;

/// The least and the most runs that are read at a time; more are merged into fewer first.
const FAN_IN_MIN: usize = 4;
const FAN_IN_MAX: usize = 64;
/// The least and the most bytes of a block of a run.
const BLOCK_BYTES_MIN: usize = 4 << 10;
const BLOCK_BYTES_MAX: usize = 64 << 10;
/// The blocks of a merge take 1/`BLOCKS_SHARE` of an operator's memory.
const BLOCKS_SHARE: usize = 8;
/// All keys that a merge compares take at most 1/`KEYS_SHARE` of it, and the same in blocks, unless there are only two.
const KEYS_SHARE: usize = 8;

/// A key and its payload.
pub(super) type SpilledRecord = (Vec<u8>, Vec<u8>);

/// The runs of one operator, the oldest first.
#[derive(Debug)]
pub(super) struct SpilledRuns {
    directory: SpillDirectory,
    /// Bytes that a merge may keep.
    memory: usize,
    /// The newest runs are in level 0; those of each further level are merged from those of the level before, and older.
    levels: Vec<Vec<SpilledRun>>,
}

impl SpilledRuns {
    /// No runs yet. Merging takes at most about half of `memory`, unless two keys are longer than that.
    pub(super) fn new(memory: usize, directory: &SpillDirectory) -> SpilledRuns {
        SpilledRuns {
            directory: directory.clone(),
            memory,
            levels: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Writes a run: `write` pushes its records.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut RunWriter) -> Result<()>) -> Result<()> {
        self.write_to(0, write)
    }

    fn write_to(
        &mut self,
        level: usize,
        write: impl FnOnce(&mut RunWriter) -> Result<()>,
    ) -> Result<()> {
        if level == self.levels.len() {
            self.levels.push(Vec::new());
        }
        let mut writer = match self.levels[level].last() {
            Some(last) => RunWriter::new(last.file.clone(), last.end, self.block_bytes()),
            None => self.new_run()?,
        };
        write(&mut writer)?;
        self.levels[level].push(writer.finish()?);
        Ok(())
    }

    /// A run in a file of its own.
    fn new_run(&self) -> Result<RunWriter> {
        let directory = &self.directory;
        let file = directory.temporary_file();
        let file = file.map_err(|error| directory.failed(error))?;
        let file = SpillFile::new(file, directory.first());
        Ok(RunWriter::new(file, 0, self.block_bytes()))
    }

    /// The size of a block, so that the blocks of a merge stay within their share of memory.
    fn block_bytes(&self) -> usize {
        let share = self.memory / BLOCKS_SHARE / self.fan_in();
        share.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX)
    }

    /// Whether runs should be merged before there are more.
    pub(super) fn is_full(&self) -> bool {
        self.levels.first().is_some_and(|runs| self.are_full(runs))
    }

    fn are_full(&self, runs: &[SpilledRun]) -> bool {
        runs.len() >= self.fan_in() || runs.len() > 1 && !self.fit(runs)
    }

    fn fan_in(&self) -> usize {
        (self.memory / BLOCKS_SHARE / BLOCK_BYTES_MIN).clamp(FAN_IN_MIN, FAN_IN_MAX)
    }

    /// Whether their keys fit into memory while they are merged.
    fn fit(&self, runs: &[SpilledRun]) -> bool {
        let keys = runs.iter().map(|run| run.longest_key);
        keys.fold(0, usize::saturating_add) <= self.memory / KEYS_SHARE
    }

    /// Merges the runs of each full level into one of the next.
    pub(super) fn settle(&mut self, pace: &mut Pace) -> Result<()> {
        let mut level = 0;
        while level < self.levels.len() && self.are_full(&self.levels[level]) {
            let runs = std::mem::take(&mut self.levels[level]);
            let mut merge = Merge::new(runs)?;
            self.write_to(level + 1, |writer| copy(&mut merge, writer, pace))?;
            level += 1;
        }
        Ok(())
    }

    /// All records, by key.
    pub(super) fn merge(mut self, pace: &mut Pace) -> Result<Merge> {
        let levels = std::mem::take(&mut self.levels);
        let mut runs: Vec<SpilledRun> = levels.into_iter().rev().flatten().collect();
        let fan_in = self.fan_in();
        while runs.len() > 2 && (runs.len() > fan_in || !self.fit(&runs)) {
            // The newest runs are the shortest, and the merged one takes their place, so the order of equal keys stays.
            let most = if self.fit(&runs) {
                fan_in.min(runs.len() - fan_in + 1)
            } else {
                fan_in.min(runs.len() - 1)
            };
            let fits = |count: &usize| self.fit(&runs[runs.len() - count..]);
            let count = (2..=most).take_while(fits).last().unwrap_or(2);
            let mut merge = Merge::new(runs.split_off(runs.len() - count))?;
            let mut writer = self.new_run()?;
            copy(&mut merge, &mut writer, pace)?;
            runs.push(writer.finish()?);
        }
        Merge::new(runs)
    }

    /// The number of open files.
    #[cfg(test)]
    pub(super) fn files(&self) -> usize {
        let levels = self.levels.iter();
        levels.filter(|runs| !runs.is_empty()).count()
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }
}

fn copy(merge: &mut Merge, writer: &mut RunWriter, pace: &mut Pace) -> Result<()> {
    let (mut key, mut payload) = SpilledRecord::default();
    while merge.read_next(&mut key, &mut payload)? {
        pace.step()?;
        writer.push(&[&key], &payload)?;
    }
    Ok(())
}

/// All records of several runs, by key.
pub(super) struct Merge(KWayMerge<RunReader>);

impl Merge {
    fn new(runs: Vec<SpilledRun>) -> Result<Merge> {
        KWayMerge::new(runs.into_iter().map(RunReader::new).collect()).map(Merge)
    }

    /// Moves the next record into `key` and `payload`; false at the end.
    pub(super) fn read_next(&mut self, key: &mut Vec<u8>, payload: &mut Vec<u8>) -> Result<bool> {
        let Some(reader) = self.0.next()? else {
            return Ok(false);
        };
        key.clear();
        key.extend_from_slice(reader.key());
        reader.take_payload(payload)?;
        Ok(true)
    }

    /// The next record; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<SpilledRecord>> {
        let (mut key, mut payload) = SpilledRecord::default();
        let is_there = self.read_next(&mut key, &mut payload)?;
        Ok(is_there.then_some((key, payload)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::path::Path;

    use super::*;
    use crate::Error;
    use crate::runtime::interrupt::{Interrupt, Interrupts};

    fn interrupt() -> Interrupt {
        Interrupts::default().begin(0)
    }

    fn all(mut merge: Merge) -> Vec<SpilledRecord> {
        std::iter::from_fn(|| merge.next().unwrap()).collect()
    }

    #[test]
    fn far_more_runs_than_are_merged_at_once_come_in_order_from_few_files() {
        let mut pace = interrupt().pace();
        for (memory, most_runs, most_files, key_bytes) in [
            (1 << 20, 2 * 32, 3, 0),
            (128 << 10, 5 * 4, 6, 0),
            // Two keys are more than fit.
            (32 << 10, 12, 12, 9 << 10),
        ] {
            let mut runs = SpilledRuns::new(memory, &SpillDirectory::beside(None));
            let count = 1100 / (1 + key_bytes / 1000) as u32;
            for index in 0..count {
                let write = |writer: &mut RunWriter| {
                    for key in [b"a", b"c"] {
                        let long = vec![b' '; key_bytes];
                        writer.push(&[&long, &key[..]], &index.to_be_bytes())?;
                    }
                    Ok(())
                };
                runs.write(write).unwrap();
                runs.settle(&mut pace).unwrap();
                assert!(runs.count() <= most_runs && runs.files() <= most_files);
            }
            let merged = all(runs.merge(&mut pace).unwrap());
            assert_eq!(merged.len(), 2 * count as usize);
            assert!(merged.is_sorted());
        }
    }

    #[test]
    fn records_of_all_sizes_come_back() {
        let mut pace = interrupt().pace();
        let mut runs = SpilledRuns::new(0, &SpillDirectory::beside(None));
        let mut expected = Vec::new();
        for run in 0..7_u8 {
            let sizes = [0, 1, 900, 1024, 1025, 4096, 9000, 70_000];
            let mut records: Vec<SpilledRecord> = sizes
                .iter()
                .flat_map(|&key| sizes.map(|payload| (vec![b'k'; key], vec![run; payload])))
                .collect();
            records.sort_by(|left, right| left.0.cmp(&right.0));
            let push = |writer: &mut RunWriter| {
                let mut records = records.iter();
                records.try_for_each(|(key, payload)| writer.push(&[key], payload))
            };
            runs.write(push).unwrap();
            runs.settle(&mut pace).unwrap();
            expected.extend(records);
        }
        // Equal keys come in the order of the runs.
        expected.sort_by(|left, right| left.0.cmp(&right.0));
        assert!(all(runs.merge(&mut pace).unwrap()) == expected);
    }

    #[test]
    fn a_merge_ends_when_its_query_does() {
        let interrupt = interrupt();
        let mut pace = interrupt.pace();
        let mut runs = SpilledRuns::new(0, &SpillDirectory::beside(None));
        let push = |writer: &mut RunWriter| writer.push(&[b"key"], b"");
        (0..FAN_IN_MIN).for_each(|_| runs.write(push).unwrap());
        assert!(runs.is_full());
        interrupt.handle().interrupt();
        assert!(matches!(runs.settle(&mut pace), Err(Error::Interrupted)));
    }

    #[test]
    fn a_damaged_run_is_an_error() {
        let directory = SpillDirectory::beside(None);
        let large = vec![7; BLOCK_BYTES_MIN];
        let mut index = 0;
        loop {
            let mut runs = SpilledRuns::new(0, &directory);
            let push = |writer: &mut RunWriter| {
                writer.push(&[b"k", b"ey"], b"payload")?;
                // Behind its block.
                writer.push(&[b"keys"], &large)
            };
            runs.write(push).unwrap();
            let mut file = &*runs.levels[0][0].file.file;
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            let Some(byte) = bytes.get_mut(index) else {
                assert!(index > large.len());
                break;
            };
            *byte ^= 0x40;
            file.rewind().unwrap();
            file.write_all(&bytes).unwrap();
            let read = |mut merge: Merge| {
                while merge.next()?.is_some() {}
                Ok(())
            };
            let merge = runs.merge(&mut interrupt().pace());
            let error = merge.and_then(read).unwrap_err().to_string();
            assert!(error.starts_with("cannot spill to"), "{error}");
            assert!(!error.contains("free space"), "{error}");
            // A few of the bytes of the large payload.
            index += if index < 100 { 1 } else { 97 };
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_an_error_that_names_it() {
        let missing = Path::new("no-such-directory-anywhere");
        let mut runs = SpilledRuns::new(0, &SpillDirectory::only(missing));
        let error = runs.write(|_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("no-such-directory"), "{error}");
        assert!(error.contains("TMPDIR"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_that_says_so() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let file = SpillFile::new(full, Path::new("/there"));
        let mut writer = RunWriter::new(file, 0, BLOCK_BYTES_MIN);
        writer.push(&[b"key"], b"payload").unwrap();
        let error = writer.finish().unwrap_err().to_string();
        assert!(error.contains("/there: No space left"), "{error}");
        assert!(error.contains("hint: free space there"), "{error}");
    }
}
