//! `Window`: the bytes of a text around the place of a search.
//!
//! Invariant: its bytes are those of the text at their offsets. A window begins a little before the place that it was read for,
//! as a search looks back there, and grows as long as the search goes on at its end.

use std::ops::Range;

use super::step_table::StepTable;

/// Bytes of a window before the place that it was read for.
const BEFORE: u64 = 32;

/// A text to search.
pub trait GrepText {
    /// The error of reading it.
    type Error;

    /// Its bytes.
    fn len(&self) -> u64;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that are read at a time.
    fn window_sizes(&self) -> WindowSizes;

    /// Replaces `bytes` by a range of the text.
    ///
    /// # Errors
    /// If it cannot be read, or the search must end.
    fn read(&mut self, range: Range<u64>, bytes: &mut Vec<u8>) -> Result<(), Self::Error>;

    /// Passes from a place on over text in which an automaton meets plain states only, as far as is quickly known: the state and
    /// the place behind it. Asked where a window ends.
    ///
    /// # Errors
    /// Those of `read`.
    fn pass(&mut self, table: &StepTable, state: u16, at: u64) -> Result<(u16, u64), Self::Error> {
        let _ = table;
        Ok((state, at))
    }

    /// Whether the search may go on; asked every few thousand steps of long computations.
    ///
    /// # Errors
    /// If it must end.
    fn check(&self) -> Result<(), Self::Error>;
}

/// The least and the most bytes of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSizes {
    /// At a new place.
    pub least: usize,
    /// After the search went on at the end of many windows.
    pub most: usize,
}

pub(super) struct Window<'t, T> {
    pub(super) text: &'t mut T,
    length: u64,
    sizes: WindowSizes,
    start: u64,
    bytes: Vec<u8>,
    /// The size of the last window behind its place.
    size: usize,
    /// Bytes before a window.
    before: Vec<u8>,
}

impl<'t, T: GrepText> Window<'t, T> {
    pub(super) fn new(text: &'t mut T) -> Window<'t, T> {
        Window {
            length: text.len(),
            sizes: text.window_sizes(),
            text,
            start: 0,
            bytes: Vec::new(),
            size: 0,
            before: Vec::new(),
        }
    }

    /// The length of the text.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Whether the byte at a place is in the window.
    pub(super) fn has(&self, at: u64) -> bool {
        self.start <= at && at < self.end()
    }

    /// The bytes from a place on, as far as a window goes; none at the end of the text.
    pub(super) fn after(&mut self, at: u64) -> Result<&[u8], T::Error> {
        if at >= self.length {
            return Ok(&[]);
        }
        if !self.has(at) {
            let goes_on = at == self.end() && !self.bytes.is_empty();
            self.size = if goes_on {
                (2 * self.size).min(self.sizes.most)
            } else {
                self.sizes.least
            };
            let start = at.saturating_sub(BEFORE);
            let end = self.length.min(at + self.size as u64);
            self.text.read(start..end, &mut self.bytes)?;
            self.start = start;
        }
        // Within the window.
        Ok(&self.bytes[(at - self.start) as usize..])
    }

    /// The byte at a place; none at the end.
    pub(super) fn byte(&mut self, at: u64) -> Result<Option<u8>, T::Error> {
        Ok(self.after(at)?.first().copied())
    }

    /// The bytes before a place, from `from` or later on, and the place where they begin.
    pub(super) fn before(&mut self, from: u64, at: u64) -> Result<&[u8], T::Error> {
        if self.start < at && at <= self.end() {
            let start = from.max(self.start);
            return Ok(&self.bytes[(start - self.start) as usize..(at - self.start) as usize]);
        }
        let start = from.max(at.saturating_sub(self.sizes.least as u64));
        if start < at {
            self.text.read(start..at, &mut self.before)?;
        } else {
            self.before.clear();
        }
        Ok(&self.before)
    }

    /// The byte before a place; none at the beginning.
    pub(super) fn byte_before(&mut self, at: u64) -> Result<Option<u8>, T::Error> {
        match at.checked_sub(1) {
            Some(before) if self.has(before) => {
                Ok(Some(self.bytes[(before - self.start) as usize]))
            }
            Some(before) => Ok(self.before(before, at)?.last().copied()),
            None => Ok(None),
        }
    }

    /// The bytes around a place: up to `reach` on each side, and the place within them.
    pub(super) fn around(&mut self, at: u64, reach: u64) -> Result<(&[u8], usize), T::Error> {
        let (from, to) = (
            at.saturating_sub(reach),
            self.length.min(at.saturating_add(reach)),
        );
        if from < self.start || to > self.end() {
            let to = self.length.min(at + (self.sizes.least as u64).max(reach));
            self.text.read(from..to, &mut self.bytes)?;
            (self.start, self.size) = (from, self.sizes.least);
        }
        let range = (from - self.start) as usize..(to - self.start) as usize;
        Ok((&self.bytes[range], (at - from) as usize))
    }

    /// Replaces `bytes` by a range of the text.
    pub(super) fn copy(&mut self, range: Range<u64>, bytes: &mut Vec<u8>) -> Result<(), T::Error> {
        bytes.clear();
        if range.is_empty() {
            return Ok(());
        }
        if self.start <= range.start && range.end <= self.end() {
            let start = (range.start - self.start) as usize;
            bytes.extend_from_slice(&self.bytes[start..start + (range.end - range.start) as usize]);
            return Ok(());
        }
        self.text.read(range, bytes)
    }
}
