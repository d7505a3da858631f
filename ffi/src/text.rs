//! `Text`: bytes with a length, as they cross the boundary.

use std::ptr;

/// Bytes with a length: words, contents, names. They need not be UTF-8, and no zero byte follows them.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// The first byte; NULL only if there is no text.
    pub bytes: *const u8,
    /// The number of bytes.
    pub length: usize,
}

impl Text {
    /// No text.
    pub(crate) const NONE: Text = Text {
        bytes: ptr::null(),
        length: 0,
    };

    /// The text of some bytes, valid as long as they are.
    pub(crate) fn of(bytes: &[u8]) -> Text {
        Text {
            bytes: bytes.as_ptr(),
            length: bytes.len(),
        }
    }
}
