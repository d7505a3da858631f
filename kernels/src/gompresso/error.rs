//! Errors of packing and unpacking.
//!
//! The invariant: a message says where in the packed text, what is wrong, and what to do if there is something. Damaged
//! bytes lead here, never to a panic.

use std::fmt;

use crate::stop::Stopped;

/// A failure to pack or to unpack text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackedError {
    /// An option that the format has no room for.
    #[error("{option} is {value}; hint: {allowed}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What was asked for.
        value: u64,
        /// What it may be.
        allowed: &'static str,
    },

    /// The bytes are not packed text.
    #[error("not packed text: the first bytes are not those of the format")]
    Magic,

    /// Another version of the format.
    #[error(
        "version {found} of the packed format, and {known} is known; hint: unpack with the program that packed it"
    )]
    Version {
        /// The version of the bytes.
        found: u16,
        /// The version that is read here.
        known: u16,
    },

    /// The header has a value that no writer writes.
    #[error("header of the packed text: {field} is {value}")]
    Header {
        /// The field that is wrong.
        field: &'static str,
        /// What it has.
        value: u64,
    },

    /// The bytes end too early, or too late.
    #[error("packed text of {found} bytes, and header and block table say {expected}")]
    Size {
        /// What there should be, as far as it was read.
        expected: u64,
        /// What there is.
        found: u64,
    },

    /// A part is not what it was when it was written.
    #[error("{part} of the packed text: checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// The part.
        part: PackedPart,
        /// What was written.
        expected: u32,
        /// What was computed.
        found: u32,
    },

    /// A data block cannot be what a writer wrote.
    #[error("block {block} of the packed text: {fault}")]
    Block {
        /// Its index.
        block: u64,
        /// The fault.
        fault: BlockFault,
    },

    /// The flag that ends a computation was set.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// A part of packed text that has a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackedPart {
    /// The header at the beginning.
    Header,
    /// The block table behind it.
    Table,
    /// A data block, by index.
    Block(u64),
}

impl fmt::Display for PackedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackedPart::Header => f.write_str("header"),
            PackedPart::Table => f.write_str("block table"),
            PackedPart::Block(block) => write!(f, "block {block}"),
        }
    }
}

/// A fault of a data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockFault {
    /// Its bytes are too few or too many for what they should hold.
    #[error("its bytes are too few or too many for its text")]
    Bytes,
    /// The lengths of its sequences do not add up to its size.
    #[error("its sequences do not make the text of its size")]
    Lengths,
    /// A reference to text before the block.
    #[error("a reference to text before its beginning")]
    Distance,
    /// Code lengths that make no prefix code.
    #[error("its code lengths make no code")]
    CodeLengths,
    /// Bits that are no code word, or a number of them other than the sub-block
    /// should have.
    #[error("bits that are no code, or too few or too many for its sub-block")]
    Bits,
}

impl BlockFault {
    /// The error of a block.
    pub(super) fn of(self, block: u64) -> PackedError {
        PackedError::Block { block, fault: self }
    }
}
