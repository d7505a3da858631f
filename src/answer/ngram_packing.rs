//! N-grams of an answer as they are made: plain, or packed until they are read.
//!
//! The invariant: both are the same n-grams. All n-grams of a corpus take several times its text; packed they take a
//! fraction of it, and a part of them at a time is read.

use std::borrow::Cow;

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
    /// How many n-grams there are.
    pub(super) fn len(&self) -> usize {
        match self {
            NgramCountPart::Plain(plain) => plain.counts.len(),
            NgramCountPart::Packed(packed) => packed.len(),
        }
    }

    /// The word that the first n-gram begins with; none if there is no n-gram.
    pub(super) fn first_word(&self) -> Option<u32> {
        match self {
            NgramCountPart::Plain(plain) => plain.words.first().copied(),
            NgramCountPart::Packed(packed) => packed.first_word(),
        }
    }

    /// The n-grams, not packed.
    pub(super) fn plain(&self) -> Cow<'_, NgramCounts> {
        match self {
            NgramCountPart::Plain(plain) => Cow::Borrowed(plain),
            NgramCountPart::Packed(packed) => Cow::Owned(packed.unpacked()),
        }
    }

    /// The n-grams, not packed.
    pub(crate) fn into_plain(self) -> NgramCounts {
        match self {
            NgramCountPart::Plain(plain) => plain,
            NgramCountPart::Packed(packed) => packed.unpacked(),
        }
    }
}

impl NgramFilePart {
    /// The word that the first n-gram begins with; none if there is no n-gram.
    pub(super) fn first_word(&self) -> Option<u32> {
        match self {
            NgramFilePart::Plain(plain) => plain.words.first().copied(),
            NgramFilePart::Packed(packed) => packed.first_word(),
        }
    }

    /// The n-grams, not packed.
    pub(crate) fn plain(&self) -> Cow<'_, NgramFiles> {
        match self {
            NgramFilePart::Plain(plain) => Cow::Borrowed(plain),
            NgramFilePart::Packed(packed) => Cow::Owned(packed.unpacked()),
        }
    }

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
