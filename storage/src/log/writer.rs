//! Appending to the log: many threads, one file, one sync for all that wait.
//!
//! Invariant: commits get their places under one lock, and the bytes reach the file in that order. One thread at a time,
//! the leader, writes and syncs what has gathered while others append and wait; a thread that finds afterwards that its
//! commit is not covered leads next. A file is complete and synced before the next one is created.
//!
//! What the log holds at least is kept outside of it ([`LogExtent`]): never more than what is durable, and that a file is
//! there before its first record.
//!
//! Which commits are merged and which files are needed is the store's business.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::sync::{Condvar, Mutex, MutexGuard};
use crate::backend::{Backend, BackendFile};
use crate::error::io_error;
use crate::log::frame::{self, COMMIT, Commit, HEADER_SIZE, MERGED, Merge, Sum};
use crate::log::record::RECORD_SIZE_MAX;
use crate::log::scan::{self, LogFile, ReplayFile, Scan, UnreadFile};
use crate::log::{
    Durability, LOG_BUFFER_SIZE, LOG_FILE_SIZE, LOG_NAME, LogExtent, LogPosition, LogRecord,
};
use crate::poison::Poison;
use crate::{Error, Result};

/// Keeps what the log holds at least where it outlasts damage to the log. Durable when it returns.
pub(crate) type KeepExtent = Box<dyn Fn(Option<LogExtent>) -> Result<()> + Send + Sync>;

/// The log of an open database.
pub(crate) struct Log {
    backend: Arc<dyn Backend>,
    /// Directory of the database, for messages, and to make the log's own directory durable.
    database: PathBuf,
    directory: PathBuf,
    keep_extent: KeepExtent,
    /// Shared with the store: whatever fails, nothing more is written.
    poison: Arc<Poison>,
    state: Mutex<LogState>,
    /// The leader is done.
    done: Condvar,
}

struct LogState {
    /// All files, rising. The last one is written to if `file` or `leading` says so.
    files: VecDeque<LogFile>,
    /// The newest file, if this process created one; `None` while a leader has it.
    file: Option<Box<dyn BackendFile>>,
    leading: bool,
    /// Whole commits that were not given to the file yet.
    buffer: Vec<u8>,
    /// After the last commit.
    end: LogPosition,
    /// Up to here the operating system has it.
    written: LogPosition,
    /// Up to here the disk has it.
    synced: LogPosition,
    /// As it was kept last.
    extent: Option<LogExtent>,
    /// A write or a sync failed: what the file holds after `written` is not known.
    failed: bool,
    file_size: u64,
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Log({})", self.directory.display())
    }
}

/// The kind of a record, its corpus, its payload.
type Parts<'a> = (u8, u64, &'a [u8]);

impl Log {
    /// The log of the database in the directory `database`, as it was found. `after` is where all corpora are merged
    /// up to: the files may be gone, and still their numbers must not come again. A writer calls
    /// [`Log::keep_found`] first.
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        database: &Path,
        found: Scan,
        after: LogPosition,
        keep_extent: KeepExtent,
        poison: Arc<Poison>,
    ) -> Log {
        let end = found.end.max(after);
        Log {
            backend,
            database: database.to_path_buf(),
            directory: database.join(LOG_NAME),
            keep_extent,
            poison,
            state: Mutex::new(LogState {
                extent: found.extent(),
                files: found.files,
                file: None,
                leading: false,
                buffer: Vec::new(),
                end,
                written: end,
                synced: end,
                failed: false,
                file_size: LOG_FILE_SIZE,
            }),
            done: Condvar::new(),
        }
    }

    /// Keeps the extent of the log as it was found. All of it must be durable.
    pub(crate) fn keep_found(&self) -> Result<()> {
        let state = self.state.lock();
        (self.keep_extent)(state.extent)
    }

    /// After the last commit.
    pub(crate) fn end(&self) -> LogPosition {
        self.state.lock().end
    }

    /// Up to here this process has made the log durable; the start if it has written nothing.
    pub(crate) fn durable(&self) -> LogPosition {
        let state = self.state.lock();
        if state.file.is_some() || state.leading {
            state.synced
        } else {
            LogPosition::START
        }
    }

    pub(crate) fn set_file_size(&self, bytes: u64) {
        self.state.lock().file_size = bytes;
    }

    /// Appends a commit, if `is_live` says of the corpus of each record that it exists. Not durable yet.
    ///
    /// A corpus is never found live here and its records overlooked by [`Log::mentions`] afterwards.
    pub(crate) fn append(
        &self,
        records: &[LogRecord<'_>],
        is_live: impl Fn(u64) -> bool,
    ) -> Result<LogPosition> {
        if records.is_empty() {
            return Ok(self.end());
        }
        if records.iter().any(|record| record.size() > RECORD_SIZE_MAX) {
            return Err(invalid("it is larger than 1 GiB"));
        }
        let parts: Vec<Parts<'_>> = (records.iter())
            .map(|record| (record.kind() as u8, record.corpus(), record.payload()))
            .collect();
        let prepared = Prepared::new(&parts)?;
        let mut state = self.state_to_append()?;
        if let Some(record) = records.iter().find(|record| !is_live(record.corpus())) {
            return Err(Error::NoSuchCorpus {
                corpus: format!("number {}", record.corpus()),
                missing: None,
            });
        }
        state.append(prepared)?;
        let end = state.end;
        let file = state.files.back_mut().expect("it was just appended to");
        for record in records {
            file.corpora.insert(record.corpus(), end.offset);
        }
        Ok(end)
    }

    /// Appends the commit that publishes a recompression and makes it durable. Its position must not lie after the end.
    pub(crate) fn append_merge(&self, merge: &Merge) -> Result<()> {
        let payload = merge.encode();
        if payload.len() > RECORD_SIZE_MAX {
            return Err(invalid("it is larger than 1 GiB"));
        }
        let parts = [(MERGED, merge.corpus, &payload[..])];
        let prepared = Prepared::new(&parts)?;
        let mut state = self.state_to_append()?;
        state.append(prepared)?;
        let end = state.end;
        let file = state.files.back_mut().expect("it was just appended to");
        file.replaced.extend(&merge.replaced);
        drop(state);
        self.ensure(end, Durability::Full)
    }

    /// Returns when everything up to `position` is as durable as asked, writing and syncing as needed.
    pub(crate) fn ensure(&self, position: LogPosition, durability: Durability) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            let done = match durability {
                Durability::Full => state.synced >= position,
                Durability::Normal => state.written >= position,
                Durability::Off => {
                    let is_small = state.buffer.len() < LOG_BUFFER_SIZE;
                    state.written >= position || (is_small && !state.failed)
                }
            };
            if done {
                return Ok(());
            }
            if state.failed {
                return Err(self.poisoned());
            }
            if state.leading {
                self.done.wait(&mut state);
            } else {
                self.lead(&mut state, durability == Durability::Full)?;
            }
        }
    }

    /// Makes the whole log durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.ensure(self.end(), Durability::Full)
    }

    /// Takes up what another process has appended, as [`Scan::read_after`] found it behind the end.
    pub(crate) fn take_up(&self, found: Scan) {
        let mut state = self.state.lock();
        if let Some(first) = found.files.front().map(|file| file.number) {
            state.files.retain(|file| file.number < first);
            state.files.extend(found.files);
        }
        let end = found.end.max(state.end);
        (state.end, state.written, state.synced) = (end, end, end);
    }

    /// The files with records of edits after a position, as far as they were written, opened: from then on they may be
    /// removed.
    pub(crate) fn read(&self, after: LogPosition) -> Result<Vec<UnreadFile>> {
        let files = self.written(|file| {
            !file.corpora.is_empty()
                && (file.number > after.file
                    || file.number == after.file && file.end > after.offset)
        });
        (files.into_iter())
            .map(|(number, end)| {
                let path = scan::path_of(&self.directory, number);
                UnreadFile::open(&*self.backend, path, number, end)
            })
            .collect()
    }

    /// Reads all files again, as far as they were written: what is wrong, file by file. Asks `proceed` before each. No
    /// file may be removed meanwhile.
    pub(crate) fn check<E>(
        &self,
        mut proceed: impl FnMut() -> std::result::Result<(), E>,
    ) -> std::result::Result<Vec<Error>, E> {
        let mut faults = Vec::new();
        for (number, end) in self.written(|_| true) {
            proceed()?;
            let checked = (self.read_file(number, end)).and_then(|file| file.check());
            faults.extend(checked.err());
        }
        Ok(faults)
    }

    /// Files and where they end, as far as they were written.
    fn written(&self, is_wanted: impl Fn(&LogFile) -> bool) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let written = state.written;
        (state.files.iter())
            .filter(|file| file.number <= written.file && file.end > 0 && is_wanted(file))
            .map(|file| {
                if file.number == written.file {
                    (file.number, written.offset)
                } else {
                    (file.number, file.end)
                }
            })
            .collect()
    }

    fn read_file(&self, number: u64, end: u64) -> Result<ReplayFile> {
        let path = scan::path_of(&self.directory, number);
        ReplayFile::read(&*self.backend, path, number, end)
    }

    /// Whether the log holds records of a corpus, merged or not.
    pub(crate) fn mentions(&self, corpus: u64) -> bool {
        let state = self.state.lock();
        (state.files.iter()).any(|file| file.corpora.contains_key(&corpus))
    }

    /// Removes the oldest files as far as none of them is needed. Not for two threads at a time.
    ///
    /// Each is gone from the disk before the next, so that what is left never has a hole. Before the first, it is kept
    /// that they are not needed.
    pub(crate) fn remove_files(&self, is_needed: impl Fn(&LogFile) -> bool) -> Result<()> {
        let mut state = self.state.lock();
        let is_open = state.file.is_some() || state.leading;
        let closed = state.files.len() - usize::from(is_open && !state.files.is_empty());
        let count = (state.files.iter().take(closed))
            .take_while(|file| !is_needed(file))
            .count();
        if count == 0 {
            return Ok(());
        }
        let oldest = state.files.get(count).map(|file| file.number);
        let extent = (state.extent).and_then(|LogExtent { end, .. }| {
            let oldest = oldest.filter(|oldest| *oldest <= end.file)?;
            Some(LogExtent { oldest, end })
        });
        // Under the lock: a file that is begun meanwhile would be forgotten.
        (self.keep_extent)(extent)?;
        state.extent = extent;
        for file in state.files.iter_mut().take(count) {
            file.end = 0; // nothing to read any more, even if it cannot be removed
        }
        drop(state);
        for _ in 0..count {
            // Still listed: its records are mentioned until it is gone. It is not the one that is written to.
            let oldest = self.state.lock().files[0].number;
            let path = scan::path_of(&self.directory, oldest);
            match self.backend.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error(&path, "remove")(error));
                }
                _ => {}
            }
            (self.backend)
                .sync_directory(&self.directory)
                .map_err(io_error(&self.directory, "sync"))?;
            self.state.lock().files.pop_front();
        }
        Ok(())
    }

    /// Begins a new file, which says that the one before ends where its last commit does.
    pub(crate) fn begin_file(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.roll(&mut state)
    }

    /// The state, with a file that takes one more commit.
    fn state_to_append(&self) -> Result<MutexGuard<'_, LogState>> {
        let mut state = self.state.lock();
        loop {
            if state.failed || self.poison.is_set() {
                return Err(self.poisoned());
            }
            let full = state.end.offset >= state.file_size.max(HEADER_SIZE as u64 + 1);
            if state.leading && full {
                self.done.wait(&mut state);
                continue;
            }
            if state.leading || (state.file.is_some() && !full) {
                return Ok(state);
            }
            self.roll(&mut state)?;
        }
    }

    /// Writes what has gathered, and syncs it. Others may append meanwhile.
    fn lead(&self, state: &mut MutexGuard<'_, LogState>, sync: bool) -> Result<()> {
        let mut file = state
            .file
            .take()
            .expect("there is a file once there is a commit");
        let mut bytes = mem::take(&mut state.buffer);
        let end = state.end;
        state.leading = true;
        let result = MutexGuard::unlocked(state, || {
            let result = file.write_all(&bytes).map_err(|error| ("write", error));
            if sync {
                result.and_then(|()| file.sync().map_err(|error| ("sync", error)))
            } else {
                result
            }
        });
        state.file = Some(file);
        state.leading = false;
        if state.buffer.is_empty() && bytes.capacity() <= 2 * LOG_BUFFER_SIZE {
            bytes.clear();
            state.buffer = bytes;
        }
        self.done.notify_all();
        let path = scan::path_of(&self.directory, end.file);
        self.note(
            state,
            result.map_err(|(action, error)| io_error(&path, action)(error)),
        )?;
        state.written = end;
        if sync {
            state.synced = end;
        }
        Ok(())
    }

    /// Completes the newest file and creates the next one. No thread leads.
    fn roll(&self, state: &mut MutexGuard<'_, LogState>) -> Result<()> {
        if state.synced < state.end {
            self.lead(state, true)?;
        }
        let number = (state.files.back())
            .map_or(0, |file| file.number)
            .max(state.end.file)
            + 1; // numbers of files that were found are below 2^63
        let end = LogPosition {
            file: number,
            offset: HEADER_SIZE as u64,
        };
        let extent = Some(LogExtent {
            oldest: state.files.front().map_or(number, |file| file.number),
            end,
        });
        let created = self
            .create(number, state.end, state.files.is_empty())
            .and_then(|file| (self.keep_extent)(extent).map(|()| file));
        state.file = Some(self.note(state, created)?);
        state.extent = extent;
        state.files.push_back(LogFile {
            number,
            end: HEADER_SIZE as u64,
            ..LogFile::default()
        });
        (state.end, state.written, state.synced) = (end, end, end);
        Ok(())
    }

    /// Creates a file; it and its header are durable.
    fn create(
        &self,
        number: u64,
        previous: LogPosition,
        first: bool,
    ) -> Result<Box<dyn BackendFile>> {
        let (backend, directory) = (&self.backend, &self.directory);
        if first {
            backend
                .create_directory(directory)
                .map_err(io_error(directory, "create"))?;
            backend
                .sync_directory(&self.database)
                .map_err(io_error(&self.database, "sync"))?;
        }
        let path = scan::path_of(directory, number);
        let mut file = backend.create(&path).map_err(io_error(&path, "create"))?;
        file.write_all(&frame::header(number, previous))
            .map_err(io_error(&path, "write"))?;
        file.sync().map_err(io_error(&path, "sync"))?;
        backend
            .sync_directory(directory)
            .map_err(io_error(directory, "sync"))?;
        Ok(file)
    }

    /// Makes the whole log durable, and keeps that it is. Nothing is appended any more, nor anything kept.
    pub(crate) fn close(&self) -> Result<()> {
        let (end, extent) = {
            let state = self.state.lock();
            if state.failed || !(state.file.is_some() || state.leading) {
                return Ok(()); // nothing is known, or nothing was written
            }
            let end = state.end;
            (end, state.extent.map(|extent| LogExtent { end, ..extent }))
        };
        self.ensure(end, Durability::Full)?;
        let mut state = self.state.lock();
        state.file = None;
        state.extent = extent;
        (self.keep_extent)(extent)
    }

    /// Remembers a failure.
    fn note<T>(&self, state: &mut LogState, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            state.failed = true;
            self.poison.set(error);
        }
        result
    }

    fn poisoned(&self) -> Error {
        let error = self.poison.error(&self.database);
        error.expect("what failed has been noted")
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!("the record log could not be completed: {error}");
        }
    }
}

/// A commit except for its place.
struct Prepared<'a> {
    parts: &'a [Parts<'a>],
    sums: Vec<Sum>,
    records: u32,
}

impl Prepared<'_> {
    /// Most of the work of a commit: it needs no lock.
    fn new<'a>(parts: &'a [Parts<'a>]) -> Result<Prepared<'a>> {
        Ok(Prepared {
            parts,
            sums: (parts.iter())
                .map(|(kind, corpus, payload)| Sum::new(*kind, *corpus, payload))
                .collect(),
            records: u32::try_from(parts.len()).map_err(|_| Error::Invalid {
                what: "commit",
                fault: "it has too many records",
            })?,
        })
    }
}

impl LogState {
    /// Takes a commit, or nothing of it.
    fn append(&mut self, prepared: Prepared<'_>) -> Result<()> {
        let durable = if self.synced.file == self.end.file {
            self.synced.offset
        } else {
            HEADER_SIZE as u64
        };
        let commit = Commit {
            records: prepared.records,
            durable,
        }
        .encode();
        let sizes = prepared.parts.iter().map(|(_, _, payload)| payload.len());
        let heads = (prepared.parts.len() + 1) * frame::HEAD_SIZE;
        let size = sizes.sum::<usize>() + heads + commit.len();
        self.buffer.try_reserve(size).map_err(|_| Error::NoMemory {
            what: "a commit".into(),
            bytes: size as u64,
        })?;
        for (&part, sum) in prepared.parts.iter().zip(prepared.sums) {
            frame::write(&mut self.buffer, &mut self.end, part, sum);
        }
        let part = (COMMIT, 0, &commit[..]);
        frame::write(
            &mut self.buffer,
            &mut self.end,
            part,
            Sum::new(COMMIT, 0, &commit),
        );
        if let Some(file) = self.files.back_mut() {
            file.end = self.end.offset;
        }
        Ok(())
    }
}

fn invalid(fault: &'static str) -> Error {
    Error::Invalid {
        what: "record",
        fault,
    }
}
