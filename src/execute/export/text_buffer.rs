//! `TextBuffer`: bytes that are not written yet. Short texts are copied to it in one step of fixed length.
//!
//! Invariant: what lies behind its length has no meaning. Who appends bytes or slots makes room for them before.

/// The length of a slot.
pub(super) const SLOT_BYTES: usize = 16;

/// Bytes, with room behind them.
#[derive(Debug, Default)]
pub(super) struct TextBuffer {
    bytes: Vec<u8>,
    length: usize,
}

impl TextBuffer {
    /// Makes room for so many bytes.
    #[inline]
    pub(super) fn make_room(&mut self, bytes: usize) {
        let needed = self.length + bytes + SLOT_BYTES;
        if needed > self.bytes.len() {
            self.bytes.resize(2 * needed, 0);
        }
    }

    /// How many bytes there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Appends a byte that there is room for.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Appends the first `length` bytes of a slot that there is room for.
    #[inline]
    pub(super) fn slot(&mut self, slot: &[u8; SLOT_BYTES], length: usize) {
        self.bytes[self.length..self.length + SLOT_BYTES].copy_from_slice(slot);
        self.length += length;
    }

    /// Appends bytes, and makes room for them.
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

    /// Drops all bytes, and keeps room for about so many.
    pub(super) fn clear(&mut self, room: usize) {
        self.length = 0;
        if self.bytes.len() > 2 * room {
            self.bytes.truncate(room);
            self.bytes.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
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
        buffer.clear(100);
        buffer.text(b"next");
        assert_eq!(buffer.bytes(), b"next");
    }
}
