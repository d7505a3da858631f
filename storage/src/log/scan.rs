//! Reading the log: which files make it up, where it ends, and the commits in it.
//!
//! Invariant: commits are given whole, in order, and none is left out: what cannot be read is either the end of a log
//! that was cut short while it was written ([`Cut`]), or an error. What decides is what is known to have been
//! durable: from later commits of the same file, from the header of the next one, and from the [`LogExtent`] that is kept
//! outside of the log.
//!
//! Nothing is changed here. What a file that is being written holds may be read: bytes are only ever added to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backend::{Backend, BackendReader, Bytes};
use crate::error::io_error;
use crate::fingerprint::Fingerprint;
use crate::log::frame::{self, COMMIT, Commit, HEADER_SIZE, HeaderFault, LogFrame, MERGED, Merge};
use crate::log::position::{LogExtent, LogPosition, LogTail};
use crate::log::record::LogRecord;
use crate::log::record::{EditKind, Edits};
use crate::path_text::PathText;
use crate::segment::Fault;
use crate::settings::ID_MAX;
use crate::{Error, Result};

/// The path of file `number` of the log in `directory`.
pub(crate) fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016x}.log"))
}

/// The content of a file of the log.
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
    /// What follows `end` in the newest file.
    pub(crate) torn: Option<Cut>,
    /// The newest file, which may have no commit yet.
    pub(crate) newest: LogTail,
    /// Cuts in files before the newest, which opens have noted in the headers of the next files, if commits stood there.
    pub(crate) dropped: Vec<Cut>,
}

/// Bytes at the end of a file that are no part of the log: of commits that were being written when the process or the
/// system ended, as far as anything in the database knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    path: PathBuf,
    /// Where the log can be read up to.
    offset: u64,
    bytes: u64,
    /// Commits behind the first one that cannot be read. None of them is known to have been durable.
    whole: u64,
    /// Whether a commit ends there, whole or not: its last byte was written once.
    has_commit: bool,
}

impl Cut {
    /// What follows `offset`, up to which `file` can be read. `None` if nothing does.
    pub(super) fn behind(file: &File, offset: u64) -> Option<Cut> {
        let size = file.bytes.len() as u64;
        let mut cut = Cut {
            path: file.path.clone(),
            offset,
            bytes: size.checked_sub(offset).filter(|bytes| *bytes > 0)?,
            whole: 0,
            has_commit: false,
        };
        let mut commits = Commits::new(&file.bytes, file.number);
        commits.end = offset;
        loop {
            // At most the size of what is in memory.
            let mut ends = Commit::search(&file.bytes, file.number, commits.end as usize);
            let Some((_, end)) = ends.next() else {
                return Some(cut);
            };
            cut.has_commit = true;
            commits.end = end;
            while matches!(commits.advance(), Ok(true)) {
                cut.whole += 1;
            }
        }
    }

    /// Whether a commit ends in it, whole or not.
    pub(crate) fn has_commit(&self) -> bool {
        self.has_commit
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, offset) = (PathText(&self.path), self.offset);
        let bytes = self.bytes;
        write!(
            formatter,
            "{path}: the record log was cut short at byte {offset}: {bytes} bytes "
        )?;
        if !self.has_commit {
            return formatter.write_str("of a commit that was not finished were dropped");
        }
        write!(
            formatter,
            "of commits that are not known to have been durable were dropped, {} of them whole behind one that cannot be \
             read, as a power cut leaves them; hint: without a power cut it is damage, and a backup of the file may have \
             them: the bytes stay in it until it is removed",
            self.whole
        )
    }
}

impl Scan {
    /// Reads the log in `directory`, which need not exist and holds what `extent` says.
    pub(crate) fn read(
        backend: &dyn Backend,
        directory: &Path,
        extent: Option<LogExtent>,
    ) -> Result<Scan> {
        let files = list(backend, directory)?
            .into_iter()
            .map(|number| OpenFile::open(backend, path_of(directory, number), number))
            .collect::<Result<Vec<OpenFile>>>()?;
        Scan::of_files(directory, &files, extent, LogTail::default())
    }

    /// Reads the files from that of `from` on, which another process has written to since the log was read up to there and its newest
    /// file was `before`.
    pub(crate) fn read_after(
        backend: &dyn Backend,
        directory: &Path,
        from: LogPosition,
        extent: Option<LogExtent>,
        before: LogTail,
    ) -> Result<Scan> {
        let files = list(backend, directory)?
            .range(from.file..)
            .map(|&number| OpenFile::open(backend, path_of(directory, number), number))
            .collect::<Result<Vec<OpenFile>>>()?;
        let extent = extent.map(|LogExtent { oldest, end }| LogExtent {
            oldest: oldest.max(from.file),
            end,
        });
        let scan = Scan::of_files(directory, &files, extent, before)?;
        // A file without content ends nothing.
        let is_shorter =
            |file: &LogFile| file.number == from.file && (1..from.offset).contains(&file.end);
        if scan.files.iter().any(is_shorter) {
            return Err(Error::CorruptLog {
                path: path_of(directory, from.file),
                offset: from.offset,
                fault: "the file is too short",
            });
        }
        Ok(scan)
    }

    /// What files hold, all there are or the newest ones, rising. One is in memory at a time.
    fn of_files(
        directory: &Path,
        files: &[OpenFile],
        extent: Option<LogExtent>,
        before: LogTail,
    ) -> Result<Scan> {
        let mut scan = Scan::default();
        let mut expected = None;
        // From the newest to the oldest: each header says where the log ended when its file was created.
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
            match frame::read_header(&file.read_up_to(HEADER_SIZE as u64)?, file.number) {
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
                Err(HeaderFault::Fault(fault)) => {
                    // A file has a durable header before it gets more, and the extent knows of it before its first
                    // record is written.
                    let was_cut = end.is_none() && file.reader.size() <= HEADER_SIZE as u64;
                    if !was_cut || extent.is_some_and(|extent| file.number <= extent.end.file) {
                        return Err(corrupt(&file.path, 0, fault));
                    }
                }
            }
        }
        if let Some(LogExtent { oldest, end }) = extent {
            if !chain.iter().any(|(file, _)| file.number == end.file) {
                return Err(missing(directory, end.file));
            }
            if let Some(previous) = expected.filter(|previous| previous.file >= oldest) {
                return Err(missing(directory, previous.file));
            }
        }
        for (file, end) in chain.into_iter().rev() {
            let durable = extent.filter(|extent| extent.end.file == file.number);
            let durable = durable.map_or(0, |extent| extent.end.offset);
            let content = file.read()?;
            if file.number == before.number && !before.is_continued_by(&content.bytes) {
                return Err(corrupt(&file.path, 0, Fault("it does not begin as before")));
            }
            scan.read_file(&content, end, durable)?;
            if files.last().is_some_and(|last| last.number == file.number) {
                scan.newest = content.tail();
            }
        }
        if let Some(newest) = files.last()
            && newest.number != scan.newest.number
        {
            scan.newest = newest.read()?.tail(); // it has no more than a header
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

    /// What is known to hold of the log at least, once all of it is durable.
    pub(crate) fn extent(&self) -> Option<LogExtent> {
        let oldest = self.files.front()?.number;
        (self.end != LogPosition::START).then_some(LogExtent {
            oldest,
            end: self.end,
        })
    }

    /// What was dropped, in words.
    pub(crate) fn cuts(&self) -> impl Iterator<Item = String> {
        (self.dropped.iter())
            .chain(&self.torn)
            .map(ToString::to_string)
    }

    /// Takes a file that must end at `end`, or for the last one wherever its commits do, but not before `durable`.
    fn read_file(&mut self, file: &File, end: Option<u64>, durable: u64) -> Result<()> {
        let size = file.bytes.len() as u64;
        if end.unwrap_or(durable).max(durable) > size {
            return Err(file.corrupt(size, Fault("the file is too short")));
        }
        if let Some(end) = end.filter(|end| *end < durable) {
            return Err(file.corrupt(end, Fault("the header of the next file ends it too early")));
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
        if let Some(Stop { offset, fault, cut }) = stop {
            let is_damage = !cut
                || end.is_some()
                || commits.end < durable
                || Commit::proves_loss(&file.bytes, file.number, commits.end as usize);
            if is_damage {
                return Err(file.corrupt(offset, fault));
            }
        }
        let cut = Cut::behind(file, commits.end);
        match end {
            None => self.torn = cut,
            Some(_) => self.dropped.extend(cut.filter(Cut::has_commit)),
        }
        Ok(())
    }

    pub(super) fn read_frame(
        &mut self,
        frame: &LogFrame<'_>,
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

/// A file of the log that was scanned or written before, open and not read yet.
pub(crate) struct UnreadFile {
    file: OpenFile,
    end: u64,
}

impl UnreadFile {
    /// Opens a file whose commits end at `end`, or later.
    pub(crate) fn open(
        backend: &dyn Backend,
        path: PathBuf,
        number: u64,
        end: u64,
    ) -> Result<UnreadFile> {
        let file = OpenFile::open(backend, path, number)?;
        Ok(UnreadFile { file, end })
    }

    /// Reads it.
    pub(crate) fn read(self) -> Result<ReplayFile> {
        ReplayFile::new(self.file.read()?, self.end)
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
        ReplayFile::new(File::read(backend, path, number)?, end)
    }

    fn new(file: File, end: u64) -> Result<ReplayFile> {
        match usize::try_from(end) {
            Ok(end) if end <= file.bytes.len() => Ok(ReplayFile { file, end }),
            _ => Err(file.corrupt(file.bytes.len() as u64, Fault("the file is too short"))),
        }
    }

    /// Reads all of it as it is on the disk now.
    pub(crate) fn check(&self) -> Result<()> {
        match frame::read_header(&self.file.bytes, self.file.number) {
            Ok(_) => self.replay(|_, _| Ok(())),
            Err(HeaderFault::Fault(fault)) => Err(self.file.corrupt(0, fault)),
            Err(HeaderFault::Version(_)) => {
                Err(self.file.corrupt(0, Fault("it is of another version")))
            }
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
    let names = match backend.list(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        names => names.map_err(io_error(directory, "list"))?,
    };
    Ok(names.iter().filter_map(|name| number_of(name)).collect())
}

/// The number of the log file of this name.
pub(crate) fn number_of(name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?.strip_suffix(".log")?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    // Only the exact form that we write counts.
    (format!("{number:016x}") == digits && number != 0 && number <= ID_MAX).then_some(number)
}

fn missing(directory: &Path, number: u64) -> Error {
    Error::CorruptLog {
        path: path_of(directory, number),
        offset: 0,
        fault: "the file is missing",
    }
}

/// A file of the log that is open.
struct OpenFile {
    number: u64,
    path: PathBuf,
    reader: Arc<dyn BackendReader>,
}

impl OpenFile {
    fn open(backend: &dyn Backend, path: PathBuf, number: u64) -> Result<OpenFile> {
        let reader = backend.open(&path).map_err(io_error(&path, "read"))?;
        Ok(OpenFile {
            number,
            path,
            reader,
        })
    }

    /// Its first `bytes` bytes, or all if it is shorter.
    fn read_up_to(&self, bytes: u64) -> Result<Bytes> {
        let read = self.reader.read_at(0, bytes.min(self.reader.size()));
        read.map_err(io_error(&self.path, "read"))
    }

    /// All of it, as long as it was when it was opened.
    fn read(&self) -> Result<File> {
        Ok(File {
            number: self.number,
            path: self.path.clone(),
            bytes: self.read_up_to(u64::MAX)?,
        })
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
        OpenFile::open(backend, path, number)?.read()
    }

    fn tail(&self) -> LogTail {
        LogTail {
            number: self.number,
            size: self.bytes.len() as u64,
            fingerprint: Fingerprint::of(&self.bytes),
        }
    }

    pub(super) fn corrupt(&self, offset: u64, fault: Fault) -> Error {
        corrupt(&self.path, offset, fault)
    }
}

fn corrupt(path: &Path, offset: u64, Fault(fault): Fault) -> Error {
    Error::CorruptLog {
        path: path.to_path_buf(),
        offset,
        fault,
    }
}

/// Why the commits of a file end.
pub(super) struct Stop {
    /// The record that cannot be read.
    pub(super) offset: u64,
    pub(super) fault: Fault,
    /// Whether the commit may be one that was not written whole; otherwise it was
    /// written whole and is malformed.
    cut: bool,
}

/// Goes through the commits of a file, checking frames but not what the payloads mean.
pub(super) struct Commits<'a> {
    file: &'a [u8],
    number: u64,
    /// Records of the commit that [`Commits::advance`] came to.
    pub(super) frames: Vec<LogFrame<'a>>,
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
