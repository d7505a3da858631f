//! The readable part of a damaged log.
//!
//! Invariant: commits are given whole, in order, and only where it is known that none before them is missing that their
//! corpus needs: what was written after a gap may rest on what stood in it. Only a recompression makes up for a gap: what
//! was merged after it is in segments. A file that is missing or too short is a gap as well, as far as headers of later
//! files or the [`LogExtent`] show. Nothing is changed here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Result;
use crate::backend::Backend;
use crate::log::frame::{self, Commit, HEADER_SIZE, HeaderFault};
use crate::log::record::{EditKind, Edits};
use crate::log::scan::{Commits, Cut, File};
use crate::log::{LogExtent, LogFile, LogPosition, LogRecord, Scan, list, path_of};
use crate::path_text::PathText;
use crate::segment::Fault;

/// A log, damaged or not.
#[derive(Default)]
pub(crate) struct Remains {
    /// As it would be without what is damaged.
    pub(crate) scan: Scan,
    files: Vec<Readable>,
    /// What is missing, rising.
    gaps: Vec<(LogPosition, LogPosition)>,
    /// What is missing, in words.
    pub(crate) faults: Vec<String>,
    /// What is damaged and takes no commit away.
    pub(crate) notes: Vec<String>,
    /// Set if it is unknown whether anything before the first file was lost or all of it was merged and removed: no
    /// extent says so.
    pub(crate) unknown_before: Option<LogPosition>,
}

/// A file and its commits that can be read: first byte, byte after.
struct Readable {
    file: File,
    commits: Vec<(u64, u64)>,
}

impl Remains {
    /// Reads the log in `directory`, which need not exist and once held what `extent` says.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub(crate) fn read(
        backend: &dyn Backend,
        directory: &Path,
        extent: Option<LogExtent>,
    ) -> Result<Remains> {
        let mut remains = Remains::default();
        let mut files = Vec::new();
        for number in list(backend, directory)? {
            match File::read(backend, path_of(directory, number), number) {
                Ok(file) => files.push(file),
                // The header of the next one, or the extent, shows that it is missing.
                Err(error) => remains.faults.push(error.to_string()),
            }
        }
        // Where files end at least, as those after them and the extent know.
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        let mut unused: BTreeSet<u64> = BTreeSet::new();
        for file in &files {
            if let Ok(previous) = frame::read_header(&file.bytes, file.number) {
                ends.insert(previous.file, previous.offset);
                unused.extend(previous.file + 1..file.number);
            }
        }
        let mut last: Option<LogPosition> = None;
        for file in files {
            if unused.contains(&file.number) {
                continue; // its creation was cut short
            }
            let durable = extent.filter(|extent| extent.end.file == file.number);
            let durable = durable.map_or(0, |extent| extent.end.offset);
            match frame::read_header(&file.bytes, file.number) {
                Ok(previous) => remains.follow(last, previous, &file, extent),
                Err(HeaderFault::Fault(fault)) => {
                    let mut commits = Commit::search(&file.bytes, file.number, HEADER_SIZE);
                    let is_empty = commits.next().is_none() && file.bytes.len() <= HEADER_SIZE;
                    // Nothing knows that there was more.
                    if is_empty && durable == 0 && !ends.contains_key(&file.number) {
                        continue;
                    }
                    remains.notes.push(file.corrupt(0, fault).to_string());
                }
                Err(HeaderFault::Version(found)) => {
                    let path = PathText(&file.path);
                    remains
                        .faults
                        .push(format!("{path}: format version {found}"));
                    continue;
                }
            }
            let end = ends.get(&file.number).copied();
            last = Some(remains.read_file(file, end, durable));
        }
        if let Some(LogExtent { end, .. }) = extent
            && last.is_none_or(|last| last < end)
        {
            let path = path_of(directory, end.file);
            remains.note_gap(last.unwrap_or_default(), end, &path, "the file is missing");
        }
        remains.gaps.sort_unstable();
        Ok(remains)
    }

    /// Takes what the header of `file` says of the end of the log before it. `last` is where that ended in fact.
    fn follow(
        &mut self,
        last: Option<LogPosition>,
        previous: LogPosition,
        file: &File,
        extent: Option<LogExtent>,
    ) {
        let is_missing = match (last, extent) {
            (Some(last), _) => last < previous,
            (None, Some(extent)) => previous.file >= extent.oldest,
            (None, None) => {
                self.unknown_before =
                    Some(previous).filter(|previous| *previous > LogPosition::START);
                false
            }
        };
        if is_missing {
            let fault = "what stood before it is missing";
            self.note_gap(last.unwrap_or_default(), previous, &file.path, fault);
        }
    }

    /// Takes the commits of a file, which ends at `end`, or wherever its commits do but not before `durable`. Returns
    /// where it ends.
    fn read_file(&mut self, file: File, end: Option<u64>, durable: u64) -> LogPosition {
        let size = file.bytes.len();
        // At most the size of what is in memory.
        let limit = end.map_or(size, |end| end.max(durable).min(size as u64) as usize);
        let number = file.number;
        let position = |offset| LogPosition {
            file: number,
            offset,
        };
        let mut found = LogFile {
            number,
            ..LogFile::default()
        };
        let mut readable = Vec::new();
        let mut gaps = Vec::new();
        let mut commits = Commits::new(&file.bytes[..limit], number);
        while commits.end < limit as u64 {
            let start = commits.end;
            let fault = match commits.advance() {
                Ok(false) => break,
                Ok(true) => {
                    let mut frames = commits.frames.iter();
                    let read = frames
                        .try_for_each(|frame| self.scan.read_frame(frame, commits.end, &mut found));
                    match read {
                        Ok(()) => {
                            readable.push((start, commits.end));
                            continue;
                        }
                        Err(fault) => fault,
                    }
                }
                Err(stop) => {
                    // The commit it is in, and the next one too if it is what ends the commit.
                    let mut next =
                        Commit::search(&file.bytes[..limit], number, stop.offset as usize);
                    commits.end = match next.next() {
                        Some((_, end)) => end,
                        None => limit as u64,
                    };
                    stop.fault
                }
            };
            gaps.push((start, commits.end, fault));
        }
        let least = end.unwrap_or(0).max(durable);
        if least > commits.end {
            gaps.push((commits.end, least, Fault("the file is too short")));
        }
        for (start, end, fault) in gaps {
            self.note_gap(position(start), position(end), &file.path, fault.0);
        }
        let end = least.max(commits.end);
        if let Some(cut) = Cut::behind(&file, end).filter(Cut::has_commit) {
            self.faults.push(cut.to_string());
        }
        found.end = end;
        self.scan.end = position(end);
        self.scan.files.push_back(found);
        self.files.push(Readable {
            file,
            commits: readable,
        });
        position(end)
    }

    fn note_gap(&mut self, start: LogPosition, end: LogPosition, path: &Path, fault: &str) {
        let path = PathText(path);
        self.gaps.push((start, end));
        self.faults.push(if start.file == end.file {
            format!(
                "{path}: bytes {} to {} of the record log cannot be read: {fault}",
                start.offset, end.offset
            )
        } else {
            format!("{path}: {fault}")
        });
    }

    /// Gives the records of all commits, in order, and whether each can be trusted to rest on all it was made on.
    /// `merged` has the merged positions of corpora; records before them are left out.
    pub(crate) fn replay(
        &self,
        merged: &BTreeMap<u64, LogPosition>,
        mut visit: impl FnMut(LogRecord<'_>, bool),
    ) {
        for Readable { file, commits } in &self.files {
            for &(start, end) in commits {
                let position = LogPosition {
                    file: file.number,
                    offset: end,
                };
                // The file is in memory.
                let mut reader = Commits::new(&file.bytes[..end as usize], file.number);
                reader.end = start;
                if !reader.advance().is_ok_and(|read| read) {
                    continue; // it was read before
                }
                for frame in &reader.frames {
                    let merged = merged.get(&frame.corpus).copied().unwrap_or_default();
                    let Some(kind) = EditKind::from_disk(frame.kind) else {
                        continue;
                    };
                    if position <= merged || Edits::check(kind, frame.payload).is_err() {
                        continue;
                    }
                    let is_whole =
                        !(self.gaps.iter()).any(|(start, end)| *start < position && *end > merged);
                    visit(
                        LogRecord::from_checked(frame.corpus, kind, frame.payload),
                        is_whole,
                    );
                }
            }
        }
    }
}
