//! N-grams of an answer as they are made: plain, or packed until they are read.
//!
//! The invariant: both are the same n-grams. All n-grams of a corpus take several times its text; packed they take a
//! fraction of it, and a part of them at a time is read.

use zipfdb_kernels::{NgramCounts, NgramFiles, PackedNgramCounts, PackedNgramFiles};

/// Some n-grams with counts: as a derived structure or a device gives them, or packed, as the grammar does.
#[derive(Debug)]
pub(crate) enum NgramCountPart {
    Plain(NgramCounts),
    Packed(PackedNgramCounts),
}

/// Some n-grams with files, as [`NgramCountPart`].
#[derive(Clone, Debug)]
pub(crate) enum NgramFilePart {
    Plain(NgramFiles),
    Packed(PackedNgramFiles),
}

impl NgramCountPart {
    /// The n-grams, not packed.
    pub(crate) fn into_plain(self) -> NgramCounts {
        match self {
            NgramCountPart::Plain(plain) => plain,
            NgramCountPart::Packed(packed) => packed.unpacked(),
        }
    }
}

impl NgramFilePart {
    /// How many n-grams there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            NgramFilePart::Plain(plain) => plain.files.rows(),
            NgramFilePart::Packed(packed) => packed.len(),
        }
    }

    /// The n-grams, not packed.
    pub(crate) fn into_plain(self) -> NgramFiles {
        match self {
            NgramFilePart::Plain(plain) => plain,
            NgramFilePart::Packed(packed) => packed.unpacked(),
        }
    }
}
