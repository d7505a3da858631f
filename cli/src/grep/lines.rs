//! `FileLines`: the lines around places of a file.
//!
//! Invariant: the end of a line is behind its line feed, or at the end of the file. Bytes are read in windows around the places
//! that are asked for.

use std::ops::Range;

use zipfdb::Snapshot;

use crate::corpus::failed;
use crate::error::Error;

/// Bytes that are read at first at a new place.
const WINDOW: u64 = 1 << 10;

/// Bytes that are read at most beyond a window.
const WINDOW_MAX: u64 = 1 << 18;

/// Lines to print.
#[derive(Debug)]
pub(super) struct Selected {
    /// The number of the first of them, from 1.
    pub(super) line: u64,
    /// All of them, with their line feeds.
    pub(super) bytes: Range<u64>,
    /// The matches in them.
    pub(super) matches: Vec<Range<u64>>,
}

/// A file, and the bytes of it that were read last.
pub(super) struct FileLines<'a> {
    snapshot: &'a Snapshot,
    name: String,
    length: u64,
    start: u64,
    bytes: Vec<u8>,
    size: u64,
}

impl<'a> FileLines<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, name: &str, length: u64) -> FileLines<'a> {
        FileLines {
            snapshot,
            name: name.to_owned(),
            length,
            start: 0,
            bytes: Vec::new(),
            size: WINDOW,
        }
    }

    /// The name of the file.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The size of the file.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The bytes of a range, which the file has.
    pub(super) fn read(&mut self, range: Range<u64>) -> Result<&[u8], Error> {
        if range.start < self.start || range.end > self.end() {
            let goes_on = self.start <= range.start && range.start <= self.end();
            self.size = if goes_on {
                (2 * self.size).min(WINDOW_MAX)
            } else {
                WINDOW
            };
            let before = if goes_on { 0 } else { WINDOW };
            let from = range.start.saturating_sub(before);
            let to = self.length.min(range.end.saturating_add(self.size));
            let read = self.snapshot.extract(&self.name, from, to - from);
            self.bytes = read.map_err(failed)?;
            self.start = from;
        }
        // Within the window.
        let from = (range.start - self.start) as usize;
        let to = (range.end - self.start) as usize;
        Ok(self.bytes.get(from..to).unwrap_or_default())
    }

    /// Whether a place is behind the last line: at the end of a file that is empty or ends with a line feed.
    pub(super) fn is_behind_last(&mut self, at: u64) -> Result<bool, Error> {
        if at < self.length {
            return Ok(false);
        }
        match self.length.checked_sub(1) {
            None => Ok(true),
            Some(last) => Ok(self.read(last..self.length)? == b"\n"),
        }
    }

    /// Where the line of a place begins.
    pub(super) fn start_of_line(&mut self, at: u64) -> Result<u64, Error> {
        let mut to = at;
        while to > 0 {
            let from = if self.start < to && to <= self.end() {
                self.start
            } else {
                to.saturating_sub(WINDOW)
            };
            let bytes = self.read(from..to)?;
            if let Some(feed) = bytes.iter().rposition(|byte| *byte == b'\n') {
                return Ok(from + feed as u64 + 1);
            }
            to = from;
        }
        Ok(0)
    }

    /// Where the line of a place ends.
    pub(super) fn end_of_line(&mut self, at: u64) -> Result<u64, Error> {
        let mut from = at;
        while from < self.length {
            let to = if self.start <= from && from < self.end() {
                self.end()
            } else {
                self.length.min(from + WINDOW)
            };
            let bytes = self.read(from..to)?;
            if let Some(feed) = bytes.iter().position(|byte| *byte == b'\n') {
                return Ok(from + feed as u64 + 1);
            }
            from = to;
        }
        Ok(self.length)
    }

    /// The number of lines of a range of whole lines.
    pub(super) fn count_lines(&mut self, range: Range<u64>) -> Result<u64, Error> {
        let (mut start, mut count) = (range.start, 0);
        while start < range.end {
            start = self.end_of_line(start)?;
            count += 1;
        }
        Ok(count)
    }
}
