//! Runs: sorted records in temporary files, and their merge.
//!
//! A record is a key, a payload and a checksum of both. Invariant: a run's keys ascend, and the merge of runs gives equal keys
//! in the order of the runs. Files have no name where the system allows it and are gone when they are dropped.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::codec::damaged;
use crate::{Error, Result};

/// How many runs are read at a time; more are merged into fewer first.
const FAN_IN: usize = 64;
const BUFFER_BYTES: usize = 64 << 10;
/// Lengths of key and payload, and the checksum.
const HEADER_BYTES: usize = 20;

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

    /// A new file, and the directory it is in.
    fn create(&self) -> Result<(File, &Path)> {
        let mut failure = None;
        for directory in self.directories.iter() {
            match tempfile::tempfile_in(directory) {
                Ok(file) => return Ok((file, directory)),
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

/// A key and what belongs to it.
pub(super) type Record = (Vec<u8>, Vec<u8>);

/// Writes a run.
pub(super) struct RunWriter<'a> {
    file: BufWriter<File>,
    directory: &'a Path,
    records: u64,
}

impl<'a> RunWriter<'a> {
    pub(super) fn new(directory: &'a SpillDirectory) -> Result<RunWriter<'a>> {
        let (file, directory) = directory.create()?;
        Ok(RunWriter {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            directory,
            records: 0,
        })
    }

    /// Appends a record, whose key is not below the one before.
    pub(super) fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(key);
        checksum.update(payload);
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&(key.len() as u64).to_le_bytes());
        header[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        header[16..].copy_from_slice(&checksum.finalize().to_le_bytes());
        let mut write = || {
            self.file.write_all(&header)?;
            self.file.write_all(key)?;
            self.file.write_all(payload)
        };
        self.records += 1;
        write().map_err(spill_error(self.directory))
    }

    pub(super) fn finish(self) -> Result<Run> {
        let error = spill_error(self.directory);
        let mut file = self
            .file
            .into_inner()
            .map_err(|full| error(full.into_error()))?;
        let bytes = file.stream_position().map_err(&error)?;
        file.rewind().map_err(&error)?;
        Ok(Run {
            file,
            bytes,
            records: self.records,
            directory: self.directory.to_path_buf(),
        })
    }
}

/// A run that has been written.
#[derive(Debug)]
pub(super) struct Run {
    file: File,
    bytes: u64,
    records: u64,
    directory: PathBuf,
}

/// Reads a run.
struct RunReader {
    file: BufReader<File>,
    /// Bytes and records that are left.
    bytes: u64,
    records: u64,
    directory: PathBuf,
}

impl RunReader {
    fn new(run: Run, buffer_bytes: usize) -> RunReader {
        RunReader {
            file: BufReader::with_capacity(buffer_bytes, run.file),
            bytes: run.bytes,
            records: run.records,
            directory: run.directory,
        }
    }

    fn next(&mut self) -> Result<Option<Record>> {
        if self.records == 0 {
            return Ok(None);
        }
        self.records -= 1;
        let record = self.read().map_err(spill_error(&self.directory))?;
        Ok(Some(record))
    }

    fn read(&mut self) -> io::Result<Record> {
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact(&mut header)?;
        let number = |range: std::ops::Range<usize>| {
            let mut bytes = [0; 8];
            bytes[..range.len()].copy_from_slice(&header[range]);
            u64::from_le_bytes(bytes)
        };
        let (key, payload, checksum) = (number(0..8), number(8..16), number(16..20));
        // Nothing is allocated that the file does not hold.
        let left = self.bytes.checked_sub(HEADER_BYTES as u64);
        let left = left.and_then(|left| left.checked_sub(key)?.checked_sub(payload));
        self.bytes = left.ok_or_else(damaged)?;
        let mut take = |bytes: u64| {
            let bytes = usize::try_from(bytes).map_err(|_| damaged())?;
            let mut taken = vec![0; bytes];
            self.file.read_exact(&mut taken)?;
            io::Result::Ok(taken)
        };
        let record = (take(key)?, take(payload)?);
        let mut actual = crc32fast::Hasher::new();
        actual.update(&record.0);
        actual.update(&record.1);
        match u64::from(actual.finalize()) == checksum {
            true => Ok(record),
            false => Err(damaged()),
        }
    }
}

/// The next record of a run: its key, the number of the run, its payload.
type Next = (Vec<u8>, usize, Vec<u8>);

/// All records of several runs, by key.
pub(super) struct Merge {
    readers: Vec<RunReader>,
    heap: BinaryHeap<Reverse<Next>>,
}

impl Merge {
    /// Merges runs, keeping about `memory` bytes in buffers.
    pub(super) fn new(
        mut runs: Vec<Run>,
        memory: usize,
        directory: &SpillDirectory,
        mut step: impl FnMut() -> Result<()>,
    ) -> Result<Merge> {
        // The oldest runs go into one, which takes their place, so the order of equal keys stays.
        while runs.len() > FAN_IN {
            let newer = runs.split_off(FAN_IN);
            let mut merge = Merge::of(runs, memory)?;
            let mut writer = RunWriter::new(directory)?;
            while let Some((key, payload)) = merge.next()? {
                step()?;
                writer.push(&key, &payload)?;
            }
            runs = vec![writer.finish()?];
            runs.extend(newer);
        }
        Merge::of(runs, memory)
    }

    fn of(runs: Vec<Run>, memory: usize) -> Result<Merge> {
        let buffer_bytes = (memory / runs.len().max(1)).clamp(4 << 10, BUFFER_BYTES);
        let readers = runs
            .into_iter()
            .map(|run| RunReader::new(run, buffer_bytes));
        let mut merge = Merge {
            readers: readers.collect(),
            heap: BinaryHeap::new(),
        };
        for index in 0..merge.readers.len() {
            merge.refill(index)?;
        }
        Ok(merge)
    }

    fn refill(&mut self, index: usize) -> Result<()> {
        if let Some((key, payload)) = self.readers[index].next()? {
            self.heap.push(Reverse((key, index, payload)));
        }
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Option<Record>> {
        let Some(Reverse((key, index, payload))) = self.heap.pop() else {
            return Ok(None);
        };
        self.refill(index)?;
        Ok(Some((key, payload)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn many_runs_merge_in_order_and_equal_keys_in_order_of_runs() {
        let directory = SpillDirectory::beside(None);
        let mut runs = Vec::new();
        for index in 0..(2 * FAN_IN + 5) as u32 {
            let mut writer = RunWriter::new(&directory).unwrap();
            for key in [b"a", b"c"] {
                writer.push(key, &index.to_be_bytes()).unwrap();
            }
            runs.push(writer.finish().unwrap());
        }
        let count = runs.len();
        let mut merge = Merge::new(runs, 1 << 20, &directory, || Ok(())).unwrap();
        let mut all = Vec::new();
        while let Some(record) = merge.next().unwrap() {
            all.push(record);
        }
        assert_eq!(all.len(), 2 * count);
        assert!(all.is_sorted());
    }

    #[test]
    fn a_damaged_run_is_an_error() {
        let directory = SpillDirectory::beside(None);
        for index in 0..30 {
            let mut writer = RunWriter::new(&directory).unwrap();
            writer.push(b"key", b"payload").unwrap();
            let mut run = writer.finish().unwrap();
            let mut bytes = Vec::new();
            run.file.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.len(), 30);
            bytes[index] ^= 0x40;
            run.file.rewind().unwrap();
            run.file.write_all(&bytes).unwrap();
            run.file.rewind().unwrap();
            let error = RunReader::new(run, 100).next().unwrap_err();
            assert!(error.to_string().starts_with("cannot spill to"), "{error}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_an_error_that_names_it() {
        let missing = Path::new("no-such-directory-anywhere");
        let directory = SpillDirectory::only(missing);
        let error = RunWriter::new(&directory).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("no-such-directory"), "{error}");
    }
}
