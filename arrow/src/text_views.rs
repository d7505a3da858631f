//! `TextViews`: texts on their way into an array of Arrow's views.
//!
//! Invariant: a view holds a text of up to twelve bytes itself; a longer one lies in a block that it points into.

use arrow_array::StringViewArray;
use arrow_array::builder::make_view;
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_data::MAX_INLINE_VIEW_LEN;

/// Bytes of a block that views point into; a longer text has a block of its own. Views have 32-bit offsets.
const BLOCK_BYTES: usize = 1 << 24;

/// Why texts are no array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFault {
    /// One has 4 GiB or more.
    Long,
    NotUtf8,
}

/// Texts as Arrow's views: short ones within, others in blocks.
#[derive(Debug, Default)]
pub(crate) struct TextViews {
    blocks: Vec<Vec<u8>>,
    pub(crate) views: Vec<u128>,
    /// Rows without a text.
    nulls: Vec<usize>,
}

impl TextViews {
    pub(crate) fn push(&mut self, text: &[u8]) {
        let view = self.view(text);
        self.views.push(view);
    }

    pub(crate) fn push_null(&mut self) {
        self.nulls.push(self.views.len());
        self.views.push(0);
    }

    /// The view of a text, which is stored if the view does not hold it.
    pub(crate) fn view(&mut self, text: &[u8]) -> u128 {
        if text.len() <= MAX_INLINE_VIEW_LEN as usize {
            return make_view(text, 0, 0);
        }
        let is_full = |block: &Vec<u8>| block.len() + text.len() > BLOCK_BYTES;
        if self.blocks.last().is_none_or(is_full) {
            self.blocks.push(Vec::new());
        }
        let block = self.blocks.len() - 1;
        let bytes = &mut self.blocks[block];
        let offset = bytes.len();
        bytes.extend_from_slice(text);
        // A block begins with its first text, and more are stored while it is short. Blocks are fewer than texts of a batch.
        make_view(text, block as u32, offset as u32)
    }

    /// All of them.
    ///
    /// # Errors
    /// If a text is not UTF-8, or of 4 GiB.
    pub(crate) fn array(self) -> Result<StringViewArray, TextFault> {
        let is_long = |block: &Vec<u8>| u32::try_from(block.len()).is_err();
        if self.blocks.iter().any(is_long) {
            return Err(TextFault::Long);
        }
        let nulls = (!self.nulls.is_empty()).then(|| {
            let mut valid = vec![true; self.views.len()];
            self.nulls.iter().for_each(|&row| valid[row] = false);
            NullBuffer::from(valid)
        });
        let blocks: Vec<Buffer> = self.blocks.into_iter().map(Buffer::from_vec).collect();
        let views = ScalarBuffer::from(self.views);
        StringViewArray::try_new(views, blocks, nulls).map_err(|_| TextFault::NotUtf8)
    }
}
