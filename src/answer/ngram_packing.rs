//! N-grams of an answer as they are made, of a segment and of a corpus: plain, packed until they are read, or left on a device.
//!
//! The invariant: all are the same n-grams. All n-grams of a corpus take several times its text; packed they take a
//! fraction of it, and a part of them at a time is read.

use std::borrow::Cow;
use std::ops::Range;

use zipfdb_kernels::gpu::{DeviceNgramFileRows, DeviceNgramRows};
use zipfdb_kernels::{NgramCounts, NgramFiles, PackedNgramCounts, PackedNgramFiles};

use crate::Result;

/// N-grams of an answer, where they lie.
#[derive(Debug)]
pub(crate) enum NgramAnswer<Part, Rows> {
    /// On the host, in parts that follow each other.
    Parts(Vec<Part>),
    /// All of them, in the order that was asked for, on a device.
    OnDevice(Rows),
}

/// N-grams of a segment with their counts.
pub(crate) type CountAnswer = NgramAnswer<NgramCountPart, DeviceNgramRows>;

/// N-grams of a segment with their files, or all those of a corpus.
pub(crate) type FileAnswer = NgramAnswer<NgramFilePart, DeviceNgramFileRows>;

/// All n-grams of a corpus with their counts, for rows.
pub(crate) type AllNgrams = NgramAnswer<NgramsPart, DeviceNgramRows>;

impl CountAnswer {
    /// The parts, on the host.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn into_parts(self) -> Result<Vec<NgramCountPart>> {
        match self {
            NgramAnswer::Parts(parts) => Ok(parts),
            NgramAnswer::OnDevice(rows) => Ok(vec![NgramCountPart::Plain(rows.download()?)]),
        }
    }
}

impl FileAnswer {
    /// The parts, on the host.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn into_parts(self) -> Result<Vec<NgramFilePart>> {
        match self {
            NgramAnswer::Parts(parts) => Ok(parts),
            NgramAnswer::OnDevice(rows) => Ok(vec![NgramFilePart::Plain(rows.download()?)]),
        }
    }
}

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

/// Cuts sorted n-grams of n words into stretches of at most `most`. Gives the first word and the number of n-grams of each.
fn stretches(words: &[u32], n: usize, most: usize) -> Vec<(u32, usize)> {
    let stretches = words.chunks(most * n);
    let stretch = |words: &[u32]| (words[0], words.len() / n);
    stretches.map(stretch).collect()
}

impl NgramCountPart {
    /// Cuts the n-grams into stretches of at most `most`; packed ones stay one stretch. Gives the first word and the number of n-grams
    /// of each.
    pub(super) fn stretches(&self, n: usize, most: usize) -> Vec<(u32, usize)> {
        match self {
            NgramCountPart::Plain(plain) => stretches(&plain.words, n, most),
            NgramCountPart::Packed(_) => {
                Vec::from_iter(self.first_word().map(|word| (word, self.len())))
            }
        }
    }

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
    /// As [`NgramCountPart::stretches`].
    pub(super) fn stretches(&self, n: usize, most: usize) -> Vec<(u32, usize)> {
        match self {
            NgramFilePart::Plain(plain) => stretches(&plain.words, n, most),
            NgramFilePart::Packed(_) => {
                Vec::from_iter(self.first_word().map(|word| (word, self.len())))
            }
        }
    }

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

/// Counts of n-grams: those of a segment fit 32 bits.
pub(crate) enum Counts {
    OfSegment(Vec<u32>),
    Merged(Vec<u64>),
}

impl Counts {
    pub(crate) fn len(&self) -> usize {
        match self {
            Counts::OfSegment(counts) => counts.len(),
            Counts::Merged(counts) => counts.len(),
        }
    }

    /// Appends those of some n-grams to `target`.
    pub(crate) fn append_to(&self, rows: Range<usize>, target: &mut Vec<u64>) {
        match self {
            Counts::OfSegment(counts) => target.extend(counts[rows].iter().copied().map(u64::from)),
            Counts::Merged(counts) => target.extend_from_slice(&counts[rows]),
        }
    }

    pub(crate) fn get(&self, index: usize) -> u64 {
        match self {
            Counts::OfSegment(counts) => u64::from(counts[index]),
            Counts::Merged(counts) => counts[index],
        }
    }
}

/// A sorted table of n-grams with their counts.
pub(crate) struct CountedNgrams {
    /// `[n-grams * n]`: the words of each.
    pub(crate) words: Vec<u32>,
    pub(crate) counts: Counts,
}

impl CountedNgrams {
    /// No n-grams.
    pub(crate) fn none() -> CountedNgrams {
        CountedNgrams {
            words: Vec::new(),
            counts: Counts::Merged(Vec::new()),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    /// The words and count of each, of n words.
    pub(crate) fn iter(&self, n: usize) -> impl Iterator<Item = (&[u32], u64)> {
        let words = self.words.chunks_exact(n);
        words.zip((0..self.len()).map(|index| self.counts.get(index)))
    }
}

/// Some n-grams of an answer: as they are read, or packed until they are.
pub(crate) enum NgramsPart {
    Counted(CountedNgrams),
    Packed(PackedNgramCounts),
}

impl NgramsPart {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            NgramsPart::Counted(counted) => counted.len(),
            NgramsPart::Packed(packed) => packed.len(),
        }
    }

    /// The table of a part that is read no more.
    pub(crate) fn into_counted(self) -> CountedNgrams {
        match self {
            NgramsPart::Counted(counted) => counted,
            NgramsPart::Packed(packed) => of_segment(packed.unpacked()),
        }
    }

    /// Calls `visit` with the words and count of each, of n words.
    pub(crate) fn for_each(&self, n: usize, visit: impl FnMut((&[u32], u64))) {
        match self {
            NgramsPart::Counted(counted) => {
                counted.iter(n).for_each(visit);
            }
            NgramsPart::Packed(packed) => of_segment(packed.unpacked()).iter(n).for_each(visit),
        }
    }
}

/// A part of the only segment, whose words have the numbers of those of the corpus.
pub(super) fn part_of_segment(part: NgramCountPart) -> NgramsPart {
    match part {
        NgramCountPart::Plain(plain) => NgramsPart::Counted(of_segment(plain)),
        NgramCountPart::Packed(packed) => NgramsPart::Packed(packed),
    }
}

/// The words of the only segment have the numbers of those of the corpus.
pub(super) fn of_segment(part: NgramCounts) -> CountedNgrams {
    CountedNgrams {
        words: part.words,
        counts: Counts::OfSegment(part.counts),
    }
}
