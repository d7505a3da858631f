//! Reading the log: which files make it up, where it ends, and the commits in it.
//!
//! Invariant: commits are given whole, in order, and none is left out: what cannot be read is either the end of a log
//! that was cut short while it was written, or an error. The difference is told by what later bytes know to have been
//! durable: commits of the same file, and the header of the next one.
//!
//! Nothing is changed here. What a file that is being written holds may be read: bytes are only ever added to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use crate::backend::{Backend, Bytes};
use crate::log::frame::{self, COMMIT, Commit, Frame, HEADER_SIZE, HeaderFault, MERGED, Merge};
use crate::log::record::{EditKind, Edits};
use crate::log::{LogPosition, LogRecord};
use crate::segment::Fault;
use crate::settings::ID_MAX;
use crate::{Error, Result};

/// The path of file `number` of the log in `directory`.
pub(crate) fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016x}.log"))
}

/// What a file of the log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogFile {
    pub(crate) number: u64,
    /// The byte after its last commit.
    pub(crate) end: u64,
    /// Corpora with records in it, and the end of the last commit that has one.
    pub(crate) corpora: BTreeMap<u64, u64>,
    /// Segments that recompressions published in it have replaced.
    pub(crate) replaced: BTreeSet<u64>,
}

/// A log as it was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// All files, rising, even those without content.
    pub(crate) files: VecDeque<LogFile>,
    /// Recompressions, in their order.
    pub(crate) merges: Vec<Merge>,
    /// After the last commit.
    pub(crate) end: LogPosition,
    /// The largest number of a corpus, publication or segment in it.
    pub(crate) largest: u64,
    /// Bytes after `end`, in words: of a commit that was being written when the process or the system ended.
    pub(crate) torn: Option<String>,
}

impl Scan {
    /// Reads the log in `directory`, which need not exist.
    pub(crate) fn read(backend: &dyn Backend, directory: &Path) -> Result<Scan> {
        let files = list(backend, directory)?
            .into_iter()
            .map(|number| File::read(backend, path_of(directory, number), number))
            .collect::<Result<Vec<File>>>()?;
        let mut scan = Scan::default();
        let mut expected = None;
        // From the newest to the oldest: each header tells where the log ended when its file was created.
        let mut chain = Vec::new();
        for file in files.iter().rev() {
            let end = match expected {
                None => None,
                Some(LogPosition { file: number, .. }) if number < file.number => continue,
                Some(LogPosition {
                    file: number,
                    offset,
                }) if number == file.number => Some(offset),
                Some(LogPosition { file: number, .. }) => return Err(missing(directory, number)),
            };
            match frame::read_header(&file.bytes, file.number) {
                Ok(previous) => {
                    chain.push((file, end));
                    expected = Some(previous);
                }
                Err(HeaderFault::Version(found)) => {
                    return Err(Error::Version {
                        path: file.path.clone(),
                        found,
                        supported: frame::VERSION,
                    });
                }
                // Its creation was cut short. A file that ever had a commit had a durable header before.
                Err(HeaderFault::Fault(_))
                    if end.is_none() && !Commit::proves_loss(&file.bytes, file.number, 0) => {}
                Err(HeaderFault::Fault(fault)) => return Err(file.corrupt(0, fault)),
            }
        }
        for (file, end) in chain.into_iter().rev() {
            scan.read_file(file, end)?;
        }
        let with_content: BTreeSet<u64> = scan.files.iter().map(|file| file.number).collect();
        let numbers = files.iter().map(|file| file.number);
        let void = numbers.filter(|number| !with_content.contains(number));
        scan.files.extend(void.map(|number| LogFile {
            number,
            ..LogFile::default()
        }));
        scan.files
            .make_contiguous()
            .sort_unstable_by_key(|file| file.number);
        Ok(scan)
    }

    /// Takes a file that must end at `end`, or for the last one wherever its commits do.
    fn read_file(&mut self, file: &File, end: Option<u64>) -> Result<()> {
        let size = file.bytes.len() as u64;
        if end.is_some_and(|end| end > size) {
            return Err(file.corrupt(size, Fault("the file is too short")));
        }
        let limit = end.unwrap_or(size) as usize; // at most the size of what is in memory
        let mut commits = Commits::new(&file.bytes[..limit], file.number);
        let mut found = LogFile {
            number: file.number,
            ..LogFile::default()
        };
        let stop = loop {
            match commits.advance() {
                Ok(true) => {}
                Ok(false) => break None,
                Err(stop) => break Some(stop),
            }
            for frame in &commits.frames {
                self.read_frame(frame, commits.end, &mut found)
                    .map_err(|fault| file.corrupt(frame.offset, fault))?;
            }
        };
        found.end = commits.end;
        self.end = LogPosition {
            file: file.number,
            offset: commits.end,
        };
        self.files.push_back(found);
        match stop {
            None => Ok(()),
            Some(Stop { offset, fault, cut })
                if !cut
                    || end.is_some()
                    || Commit::proves_loss(&file.bytes, file.number, commits.end as usize) =>
            {
                Err(file.corrupt(offset, fault))
            }
            Some(_) => {
                self.torn = Some(format!(
                    "{}: the record log was cut short at byte {}: {} bytes of a commit that was not \
                     finished were dropped",
                    file.path.display(),
                    commits.end,
                    size - commits.end
                ));
                Ok(())
            }
        }
    }

    pub(super) fn read_frame(
        &mut self,
        frame: &Frame<'_>,
        commit_end: u64,
        file: &mut LogFile,
    ) -> std::result::Result<(), Fault> {
        let mut largest = frame.corpus;
        if frame.kind == MERGED {
            let merge = Merge::decode(frame.corpus, frame.payload)?;
            let ids = merge.added.iter().chain(&merge.replaced).copied();
            largest = ids.fold(largest.max(merge.publication), u64::max);
            let place = LogPosition {
                file: file.number,
                offset: frame.offset,
            };
            if merge.position > place {
                return Err(Fault("a recompression has merged what follows it"));
            }
            file.replaced.extend(&merge.replaced);
            self.merges.push(merge);
        } else {
            let kind = EditKind::from_disk(frame.kind).ok_or(Fault("no such kind of record"))?;
            Edits::check(kind, frame.payload)?;
            file.corpora.insert(frame.corpus, commit_end);
        }
        if largest > ID_MAX {
            return Err(Fault("it has a number that cannot be"));
        }
        self.largest = self.largest.max(largest);
        Ok(())
    }
}

/// A file of the log that was scanned or written before, to be replayed.
pub(crate) struct ReplayFile {
    file: File,
    end: usize,
}

impl ReplayFile {
    /// Opens a file whose commits end at `end`, or later.
    pub(crate) fn read(
        backend: &dyn Backend,
        path: PathBuf,
        number: u64,
        end: u64,
    ) -> Result<ReplayFile> {
        let file = File::read(backend, path, number)?;
        match usize::try_from(end) {
            Ok(end) if end <= file.bytes.len() => Ok(ReplayFile { file, end }),
            _ => Err(file.corrupt(file.bytes.len() as u64, Fault("the file is too short"))),
        }
    }

    /// Gives the records of all commits, in order, each with the position of its commit.
    pub(crate) fn replay<E: From<Error>>(
        &self,
        mut visit: impl FnMut(LogPosition, LogRecord<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let corrupt = |offset, fault| self.file.corrupt(offset, fault);
        let mut commits = Commits::new(&self.file.bytes[..self.end], self.file.number);
        while commits
            .advance()
            .map_err(|stop| corrupt(stop.offset, stop.fault))?
        {
            let position = LogPosition {
                file: self.file.number,
                offset: commits.end,
            };
            for frame in &commits.frames {
                let Some(kind) = EditKind::from_disk(frame.kind) else {
                    continue;
                };
                // Again, because the bytes may be other ones than those that were scanned.
                Edits::check(kind, frame.payload).map_err(|fault| corrupt(frame.offset, fault))?;
                visit(
                    position,
                    LogRecord::from_checked(frame.corpus, kind, frame.payload),
                )?;
            }
        }
        Ok(())
    }
}

/// The numbers of the files in a log directory, rising.
pub(crate) fn list(backend: &dyn Backend, directory: &Path) -> Result<BTreeSet<u64>> {
    let failed = |source| Error::Io {
        path: directory.to_path_buf(),
        action: "list",
        source,
    };
    let names = match backend.list(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        names => names.map_err(failed)?,
    };
    let number = |name: &std::ffi::OsString| {
        let digits = name.to_str()?.strip_suffix(".log")?;
        let number = u64::from_str_radix(digits, 16).ok()?;
        // Only the exact form that we write counts.
        (format!("{number:016x}") == digits && number != 0 && number <= ID_MAX).then_some(number)
    };
    Ok(names.iter().filter_map(number).collect())
}

fn missing(directory: &Path, number: u64) -> Error {
    Error::CorruptLog {
        path: path_of(directory, number),
        offset: 0,
        fault: "the file is missing",
    }
}

/// A file of the log as it is on the disk.
pub(super) struct File {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) bytes: Bytes,
}

impl File {
    pub(super) fn read(backend: &dyn Backend, path: PathBuf, number: u64) -> Result<File> {
        let bytes = backend.read(&path).map_err(|source| Error::Io {
            path: path.clone(),
            action: "read",
            source,
        })?;
        Ok(File {
            number,
            path,
            bytes,
        })
    }

    pub(super) fn corrupt(&self, offset: u64, Fault(fault): Fault) -> Error {
        Error::CorruptLog {
            path: self.path.clone(),
            offset,
            fault,
        }
    }
}

/// Why the commits of a file end.
pub(super) struct Stop {
    /// The record that cannot be read.
    pub(super) offset: u64,
    pub(super) fault: Fault,
    /// It may be one that was not written whole. Otherwise it was, and makes no sense.
    cut: bool,
}

/// Goes through the commits of a file, checking frames but not what the payloads mean.
pub(super) struct Commits<'a> {
    file: &'a [u8],
    number: u64,
    /// Records of the commit that [`Commits::advance`] came to.
    pub(super) frames: Vec<Frame<'a>>,
    /// The byte after that commit.
    pub(super) end: u64,
}

impl<'a> Commits<'a> {
    pub(super) fn new(file: &'a [u8], number: u64) -> Commits<'a> {
        Commits {
            file,
            number,
            frames: Vec::new(),
            end: HEADER_SIZE as u64,
        }
    }

    /// Goes on to the next commit; false if the file ends with the last one.
    pub(super) fn advance(&mut self) -> std::result::Result<bool, Stop> {
        self.frames.clear();
        let mut offset = self.end;
        if offset == self.file.len() as u64 {
            return Ok(false);
        }
        loop {
            let stop = move |cut| move |fault| Stop { offset, fault, cut };
            // Within the file, so it fits.
            let frame = frame::read(self.file, self.number, offset as usize).map_err(stop(true))?;
            offset = frame.end();
            match frame.kind {
                COMMIT => {
                    let commit = Commit::decode(frame.payload).map_err(stop(false))?;
                    if commit.records as usize != self.frames.len() {
                        return Err(stop(false)(Fault("a commit has lost records")));
                    }
                    self.end = offset;
                    return Ok(true);
                }
                kind if kind == MERGED || EditKind::from_disk(kind).is_some() => {
                    self.frames.push(frame);
                }
                _ => return Err(stop(false)(Fault("no such kind of record"))),
            }
        }
    }
}
