//! `TextColumn`: texts one after the other.
//!
//! Invariant: offsets ascend from 0 to the end of the bytes.

/// Texts one after the other: offsets and bytes of Apache Arrow's `LargeUtf8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextColumn {
    /// `[texts + 1]` into `bytes`.
    pub offsets: Vec<u64>,
    /// All texts.
    pub bytes: Vec<u8>,
}

impl Default for TextColumn {
    fn default() -> TextColumn {
        TextColumn {
            offsets: vec![0],
            bytes: Vec::new(),
        }
    }
}

impl TextColumn {
    /// The number of texts.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a text.
    ///
    /// # Panics
    /// If there is no such text.
    pub fn get(&self, index: usize) -> &[u8] {
        // Texts in memory have sizes that fit usize.
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// Appends a text.
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.offsets.push(self.bytes.len() as u64);
    }
}
