//! Runs: sorted records in temporary files, and their merge.
//!
//! A record is a key, a payload and a checksum of each. Runs are merged as they accumulate: `fan_in` runs of a level become one of
//! the next. The runs of a level lie in one file one behind the other, so there are as many files as levels, however many
//! runs. Invariants: a run's keys ascend, and the merge of runs gives equal keys in the order of the runs; a merge keeps one
//! key for each run in memory, and one payload. Files have no name where the system allows it and are gone when they are
//! dropped.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::codec::damaged;
use crate::runtime::interrupt::Pace;
use crate::{Error, Result};

/// How many runs are read at a time, at least and at most; more are merged into fewer first.
const FAN_IN_MIN: usize = 4;
const FAN_IN_MAX: usize = 64;
/// What the buffer of a run that is read takes, at least and at most.
const BUFFER_BYTES_MIN: usize = 4 << 10;
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// All buffers of a merge take this part of an operator's memory.
const BUFFERS_SHARE: usize = 8;
/// All keys that a merge compares take at most this part of it, unless there are only two.
const KEYS_SHARE: usize = 4;
/// Lengths of key and payload, and the checksum of each.
const HEADER_BYTES: usize = 24;

/// Where temporary files are made.
#[derive(Debug, Clone)]
pub(crate) struct SpillDirectory {
    /// Tried one after the other.
    directories: Arc<[PathBuf]>,
}

impl SpillDirectory {
    /// Beside the database; or the system's directory if nothing can be written there or there is no database on disk.
    pub(crate) fn beside(database: Option<&Path>) -> SpillDirectory {
        let beside = database.and_then(Path::parent).map(|parent| {
            // The parent of a relative path may be empty.
            match parent.as_os_str().is_empty() {
                true => PathBuf::from("."),
                false => parent.to_path_buf(),
            }
        });
        SpillDirectory {
            directories: beside.into_iter().chain([std::env::temp_dir()]).collect(),
        }
    }

    #[cfg(test)]
    pub(super) fn only(directory: &Path) -> SpillDirectory {
        SpillDirectory {
            directories: [directory.to_path_buf()].into(),
        }
    }

    /// A new file.
    fn create(&self) -> Result<SpillFile> {
        let mut failure = None;
        for directory in self.directories.iter() {
            match tempfile::tempfile_in(directory) {
                Ok(file) => return Ok(SpillFile::new(file, directory)),
                Err(error) => failure = failure.or(Some(spill_error(directory)(error))),
            }
        }
        Err(failure.unwrap_or_else(|| spill_error(Path::new(""))(io::ErrorKind::NotFound.into())))
    }
}

fn spill_error(directory: &Path) -> impl Fn(io::Error) -> Error + '_ {
    move |source| Error::Spill {
        directory: directory.to_path_buf(),
        source,
    }
}

/// The error for a record whose payload is not what was written.
pub(super) fn spill_error_in(directory: &SpillDirectory, source: io::Error) -> Error {
    let directory = directory.directories.first();
    spill_error(directory.map_or(Path::new(""), PathBuf::as_path))(source)
}

/// A temporary file, which is there as long as any run lies in it.
#[derive(Debug, Clone)]
struct SpillFile {
    file: Arc<File>,
    directory: Arc<Path>,
}

impl SpillFile {
    fn new(file: File, directory: &Path) -> SpillFile {
        SpillFile {
            file: Arc::new(file),
            directory: directory.into(),
        }
    }

    fn failed(&self) -> impl Fn(io::Error) -> Error + '_ {
        spill_error(&self.directory)
    }
}

/// A key and what belongs to it.
pub(super) type Record = (Vec<u8>, Vec<u8>);

/// A run that has been written.
#[derive(Debug)]
struct SpilledRun {
    file: SpillFile,
    /// Where in the file it begins and ends.
    start: u64,
    end: u64,
    records: u64,
    longest_key: usize,
}

/// Writes a run behind the others of its file.
pub(super) struct RunWriter {
    target: BufWriter<Section>,
    run: SpilledRun,
}

impl RunWriter {
    fn new(file: SpillFile, start: u64) -> RunWriter {
        let section = Section {
            file: file.clone(),
            position: start,
            end: u64::MAX,
        };
        RunWriter {
            target: BufWriter::with_capacity(BUFFER_BYTES_MAX, section),
            run: SpilledRun {
                file,
                start,
                end: start,
                records: 0,
                longest_key: 0,
            },
        }
    }

    /// Appends a record, whose key is not below the one before. Key and payload come in parts.
    pub(super) fn push(&mut self, key: &[&[u8]], payload: &[u8]) -> Result<()> {
        let mut key_checksum = crc32fast::Hasher::new();
        key.iter().for_each(|part| key_checksum.update(part));
        let key_bytes: usize = key.iter().map(|part| part.len()).sum();
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&(key_bytes as u64).to_le_bytes());
        header[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        header[16..20].copy_from_slice(&key_checksum.finalize().to_le_bytes());
        header[20..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        let mut write = || {
            self.target.write_all(&header)?;
            for part in key {
                self.target.write_all(part)?;
            }
            self.target.write_all(payload)
        };
        write().map_err(self.run.file.failed())?;
        self.run.end += (HEADER_BYTES + key_bytes + payload.len()) as u64;
        self.run.records += 1;
        self.run.longest_key = self.run.longest_key.max(key_bytes);
        Ok(())
    }

    fn finish(mut self) -> Result<SpilledRun> {
        self.target.flush().map_err(self.run.file.failed())?;
        Ok(self.run)
    }
}

/// A stretch of a file that is read or written from its beginning. Others may move the file's position in between.
struct Section {
    file: SpillFile,
    position: u64,
    end: u64,
}

impl Section {
    /// The file at the section's position.
    fn here(&self) -> io::Result<&File> {
        let mut file = &*self.file.file;
        file.seek(SeekFrom::Start(self.position))?;
        Ok(file)
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let read = self.here()?.read(&mut buffer[..wanted])?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Write for Section {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.here()?.write(bytes)?;
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a run: a key, then its payload, then the next key.
struct RunReader {
    source: BufReader<Section>,
    /// Bytes and records that are left.
    bytes: u64,
    records: u64,
    /// Length and checksum of the payload that comes next.
    payload: (u64, u32),
}

impl RunReader {
    fn new(run: SpilledRun, buffer_bytes: usize) -> RunReader {
        let section = Section {
            position: run.start,
            end: run.end,
            file: run.file,
        };
        RunReader {
            bytes: section.end - section.position,
            source: BufReader::with_capacity(buffer_bytes, section),
            records: run.records,
            payload: (0, 0),
        }
    }

    fn failed(&self) -> impl Fn(io::Error) -> Error + '_ {
        self.source.get_ref().file.failed()
    }

    /// The key of the next record; none at the end.
    fn key(&mut self) -> Result<Option<Vec<u8>>> {
        if self.records == 0 {
            return Ok(None);
        }
        self.records -= 1;
        let key = self.read_key();
        key.map(Some).map_err(self.failed())
    }

    /// The payload of the record whose key was read last.
    fn payload(&mut self) -> Result<Vec<u8>> {
        let (bytes, checksum) = self.payload;
        let payload = self.take(bytes, checksum);
        payload.map_err(self.failed())
    }

    fn read_key(&mut self) -> io::Result<Vec<u8>> {
        let mut header = [0; HEADER_BYTES];
        self.source.read_exact(&mut header)?;
        let number = |range: std::ops::Range<usize>| {
            let mut bytes = [0; 8];
            bytes[..range.len()].copy_from_slice(&header[range]);
            u64::from_le_bytes(bytes)
        };
        let (key, payload) = (number(0..8), number(8..16));
        // Nothing is allocated that the file does not hold.
        let left = self.bytes.checked_sub(HEADER_BYTES as u64);
        let left = left.and_then(|left| left.checked_sub(key)?.checked_sub(payload));
        self.bytes = left.ok_or_else(damaged)?;
        // Four bytes each.
        self.payload = (payload, number(20..24) as u32);
        self.take(key, number(16..20) as u32)
    }

    fn take(&mut self, bytes: u64, checksum: u32) -> io::Result<Vec<u8>> {
        let bytes = usize::try_from(bytes).map_err(|_| damaged())?;
        let mut taken = Vec::new();
        taken
            .try_reserve_exact(bytes)
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        taken.resize(bytes, 0);
        self.source.read_exact(&mut taken)?;
        match crc32fast::hash(&taken) == checksum {
            true => Ok(taken),
            false => Err(damaged()),
        }
    }
}

/// The runs of one operator, the oldest first.
#[derive(Debug)]
pub(super) struct SpilledRuns {
    directory: SpillDirectory,
    /// What a merge may keep.
    memory: usize,
    /// The newest runs are in level 0; those of each further level are merged from those of the level before, and older.
    levels: Vec<Vec<SpilledRun>>,
}

impl SpilledRuns {
    /// None yet. Merging them takes at most about half of `memory`, unless two keys are longer than that.
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
            Some(last) => RunWriter::new(last.file.clone(), last.end),
            None => RunWriter::new(self.directory.create()?, 0),
        };
        write(&mut writer)?;
        self.levels[level].push(writer.finish()?);
        Ok(())
    }

    /// Whether runs should be merged before there are more.
    pub(super) fn is_full(&self) -> bool {
        self.levels.first().is_some_and(|runs| self.are_full(runs))
    }

    fn are_full(&self, runs: &[SpilledRun]) -> bool {
        runs.len() >= self.fan_in() || runs.len() > 1 && !self.fit(runs)
    }

    fn fan_in(&self) -> usize {
        (self.memory / BUFFERS_SHARE / BUFFER_BYTES_MIN).clamp(FAN_IN_MIN, FAN_IN_MAX)
    }

    /// Whether their keys fit into memory while they are merged.
    fn fit(&self, runs: &[SpilledRun]) -> bool {
        let keys = runs.iter().map(|run| run.longest_key);
        keys.fold(0, usize::saturating_add) <= self.memory / KEYS_SHARE
    }

    /// Merges the runs of each level that has many into one of the next.
    pub(super) fn settle(&mut self, pace: &mut Pace) -> Result<()> {
        let mut level = 0;
        while level < self.levels.len() && self.are_full(&self.levels[level]) {
            let runs = std::mem::take(&mut self.levels[level]);
            let mut merge = self.merge_of(runs)?;
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
            // The newest are the shortest, and one takes their place, so the order of equal keys stays.
            let most = match self.fit(&runs) {
                true => fan_in.min(runs.len() - fan_in + 1),
                false => fan_in.min(runs.len() - 1),
            };
            let fits = |count: &usize| self.fit(&runs[runs.len() - count..]);
            let count = (2..=most).take_while(fits).last().unwrap_or(2);
            let mut merge = self.merge_of(runs.split_off(runs.len() - count))?;
            let mut writer = RunWriter::new(self.directory.create()?, 0);
            copy(&mut merge, &mut writer, pace)?;
            runs.push(writer.finish()?);
        }
        self.merge_of(runs)
    }

    fn merge_of(&self, runs: Vec<SpilledRun>) -> Result<Merge> {
        let share = self.memory / BUFFERS_SHARE / runs.len().max(1);
        let buffer_bytes = share.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
        let readers = runs
            .into_iter()
            .map(|run| RunReader::new(run, buffer_bytes));
        let mut merge = Merge {
            readers: readers.collect(),
            heap: BinaryHeap::new(),
            last: None,
        };
        for index in 0..merge.readers.len() {
            merge.read(index)?;
        }
        Ok(merge)
    }

    /// How many files are open.
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
    while let Some((key, payload)) = merge.next()? {
        pace.step()?;
        writer.push(&[&key], &payload)?;
    }
    Ok(())
}

/// All records of several runs, by key.
pub(super) struct Merge {
    readers: Vec<RunReader>,
    /// The next key of each run, and the number of the run.
    heap: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    /// The run whose next key is not read yet.
    last: Option<usize>,
}

impl Merge {
    fn read(&mut self, index: usize) -> Result<()> {
        if let Some(key) = self.readers[index].key()? {
            self.heap.push(Reverse((key, index)));
        }
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Option<Record>> {
        if let Some(index) = self.last.take() {
            self.read(index)?;
        }
        let Some(Reverse((key, index))) = self.heap.pop() else {
            return Ok(None);
        };
        self.last = Some(index);
        let payload = self.readers[index].payload()?;
        Ok(Some((key, payload)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::runtime::interrupt::{Interrupt, Interrupts};

    fn interrupt() -> Interrupt {
        Interrupts::default().begin(0)
    }

    fn all(mut merge: Merge) -> Vec<Record> {
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
        for index in 0..34 {
            let mut runs = SpilledRuns::new(0, &directory);
            let push = |writer: &mut RunWriter| writer.push(&[b"k", b"ey"], b"payload");
            runs.write(push).unwrap();
            let mut file = &*runs.levels[0][0].file.file;
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.len(), 34);
            bytes[index] ^= 0x40;
            file.rewind().unwrap();
            file.write_all(&bytes).unwrap();
            let read = |mut merge: Merge| merge.next();
            let merge = runs.merge(&mut interrupt().pace());
            let error = merge.and_then(read).unwrap_err().to_string();
            assert!(error.starts_with("cannot spill to"), "{error}");
            assert!(!error.contains("free space"), "{error}");
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
        let mut writer = RunWriter::new(SpillFile::new(full, Path::new("/there")), 0);
        writer.push(&[b"key"], b"payload").unwrap();
        let error = writer.finish().unwrap_err().to_string();
        assert!(error.contains("/there: No space left"), "{error}");
        assert!(error.contains("hint: free space there"), "{error}");
    }
}
