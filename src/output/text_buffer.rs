//! `TextBuffer`: bytes that are not written yet. Short texts are copied to it in one step of fixed length. `RowSink`: a buffer,
//! and the output that it is emptied to.
//!
//! Invariant: bytes behind its length have no meaning. Room is made before a byte or a slot is appended.

use std::fmt;
use std::io::{self, Write};

/// The length of a slot.
pub(super) const SLOT_BYTES: usize = 16;

/// Bytes written at a time.
const WRITTEN_BYTES: usize = 1 << 16;

/// The most memory of a buffer that is used again for other rows.
const KEPT_BYTES: usize = 1 << 20;

/// Bytes, with room behind them.
#[derive(Debug, Default)]
pub(crate) struct TextBuffer {
    bytes: Vec<u8>,
    length: usize,
}

impl TextBuffer {
    /// Makes room for `bytes` more.
    #[inline]
    pub(super) fn make_room(&mut self, bytes: usize) {
        let needed = self.length + bytes + SLOT_BYTES;
        if needed > self.bytes.len() {
            self.bytes.resize(2 * needed, 0);
        }
    }

    /// The number of bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Appends a byte; there must be room.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Appends the first `length` bytes of a slot; there must be room.
    #[inline]
    pub(super) fn slot(&mut self, slot: &[u8; SLOT_BYTES], length: usize) {
        self.bytes[self.length..self.length + SLOT_BYTES].copy_from_slice(slot);
        self.length += length;
    }

    /// Appends bytes of any length.
    pub(super) fn text(&mut self, text: &[u8]) {
        self.make_room(text.len());
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text);
        self.length += text.len();
    }

    /// Drops the bytes behind the first `length`.
    #[inline]
    pub(super) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Writes all bytes and clears the buffer.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn empty_into(&mut self, output: &mut dyn Write) -> io::Result<()> {
        output.write_all(self.bytes())?;
        self.length = 0;
        if self.bytes.len() > 2 * KEPT_BYTES {
            self.bytes.truncate(KEPT_BYTES);
            self.bytes.shrink_to_fit();
        }
        Ok(())
    }
}

impl fmt::Write for TextBuffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text.as_bytes());
        Ok(())
    }
}

/// The target of formatted rows.
#[derive(Default)]
pub(super) struct RowSink<'a> {
    pub(super) buffer: TextBuffer,
    /// None if all stays in the buffer; then nothing can fail.
    pub(super) output: Option<&'a mut dyn Write>,
}

impl RowSink<'_> {
    /// Appends bytes of any length.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn text(&mut self, text: &[u8]) -> io::Result<()> {
        for part in text.chunks(WRITTEN_BYTES) {
            self.buffer.text(part);
            self.relieve()?;
        }
        Ok(())
    }

    /// Writes the content of the buffer, if it is large.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn relieve(&mut self) -> io::Result<()> {
        match &mut self.output {
            Some(output) if self.buffer.len() >= WRITTEN_BYTES => self.buffer.empty_into(output),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bytes_texts_and_slots_come_one_behind_the_other() {
        let mut buffer = TextBuffer::default();
        let mut slot = [0; SLOT_BYTES];
        slot[..3].copy_from_slice(b"abc");
        let mut expected = Vec::new();
        for length in 0..200 {
            buffer.make_room(1 + SLOT_BYTES);
            buffer.byte(b',');
            buffer.slot(&slot, 3);
            buffer.text(&vec![b'x'; length]);
            expected.extend_from_slice(b",abc");
            expected.extend(vec![b'x'; length]);
        }
        buffer.text(b"gone");
        buffer.truncate(expected.len());
        assert_eq!(buffer.bytes(), expected);
        let mut output = Vec::new();
        buffer.empty_into(&mut output).unwrap();
        assert_eq!(output, expected);
        buffer.text(b"next");
        assert_eq!(buffer.bytes(), b"next");
    }
}
