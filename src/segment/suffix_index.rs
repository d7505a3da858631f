//! A suffix array on disk: phrases are found in the file, and reading it back is faster than building it.
//!
//! Sections: three numbers, the length of the text, the number of words and the number of words that order places, 0 for all; then, in
//! blocks of numbers, the text, the places, what neighbours share, and the first rank of each word. Indexes whose places
//! are in order of eight words have two numbers: temporary ones, and those of earlier versions.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::{
    LongOrder, LongSuffixes, SuffixArrays, SuffixSource, WordSuffixes, count_places, find_longest,
    find_next_words, find_ordered, find_places,
};
use zipfdb_storage::{IndexKind, IndexReader, IndexRecord, IndexWriter};

use super::index_blocks::{ReadBlocks, StoredNumbers, read_sizes, write_numbers, write_sizes};
use super::live_segment::LiveSegment;
use super::segment_view::SegmentView;
use super::stored_index::IndexContent;
use crate::Result;
use crate::runtime::interrupt::check;

/// The sections: sizes, and the directory of each array.
const SIZES_SECTION: usize = 0;
const TEXT_SECTION: usize = 1;
const PLACES_SECTION: usize = 3;
const SHARED_SECTION: usize = 5;
const WORD_OFFSETS_SECTION: usize = 7;

/// Bytes of the section of sizes where eight words order places.
const SHORT_SIZES_BYTES: u64 = 16;

/// The number of words that order places, where all do.
const ALL_WORDS: u64 = 0;

/// Words of a text for which one task looks for matches.
const TASK_WORDS: usize = 16;

/// The directories of the arrays of a suffix array.
pub(super) struct SuffixIndex {
    files: usize,
    text: StoredNumbers,
    places: StoredNumbers,
    shared: StoredNumbers,
    word_offsets: StoredNumbers,
    /// Whether all words order places.
    is_fully_ordered: bool,
}

/// A question for an n-gram, with the blocks that it has read.
struct SuffixQuestion<'a> {
    index: &'a SuffixIndex,
    read: ReadBlocks,
}

impl IndexContent for SuffixIndex {
    const INDEX: IndexKind = IndexKind::Suffixes;

    fn open(live: &LiveSegment, reader: &Arc<IndexReader>) -> Result<SuffixIndex> {
        let strange = || reader.corrupt("its sizes make no sense");
        let is_fully_ordered = reader.section_size(SIZES_SECTION) != SHORT_SIZES_BYTES;
        let [text, words] = if is_fully_ordered {
            let [text, words, depth] = read_sizes(reader, SIZES_SECTION)?;
            if depth != ALL_WORDS {
                return Err(strange().into());
            }
            [text, words]
        } else {
            read_sizes(reader, SIZES_SECTION)?
        };
        let size = |size| usize::try_from(size).map_err(|_| strange());
        let (text, words) = (size(text)?, size(words)?);
        let files = live.text_size().1 as usize; // a segment's files are counted by a u32
        let places = text.checked_sub(files).ok_or_else(strange)?;
        let numbers = |directory, len| StoredNumbers::read(reader, directory, len);
        Ok(SuffixIndex {
            files,
            text: numbers(TEXT_SECTION, text)?,
            places: numbers(PLACES_SECTION, places)?,
            shared: numbers(SHARED_SECTION, places)?,
            word_offsets: numbers(WORD_OFFSETS_SECTION, words.saturating_add(1))?,
            is_fully_ordered,
        })
    }

    fn memory(&self) -> usize {
        let arrays = [&self.text, &self.places, &self.shared, &self.word_offsets];
        arrays.map(StoredNumbers::memory).iter().sum()
    }

    fn write(
        segment: &SegmentView,
        _: &IndexRecord,
        writer: &mut IndexWriter,
        stop: &AtomicBool,
    ) -> Result<()> {
        let suffixes = segment.pin_until::<WordSuffixes>(stop)?;
        let (text, words) = sizes_of(suffixes);
        write_sizes(writer, &[text, words, ALL_WORDS])?;
        write_arrays(writer, suffixes, segment.ordered_suffixes(stop)?)
    }
}

/// The lengths of the text and of the dictionary.
fn sizes_of(suffixes: &WordSuffixes) -> (u64, u64) {
    let arrays = suffixes.arrays();
    let words = arrays.word_offsets.len() as u64 - 1;
    (arrays.text.len() as u64, words)
}

/// Writes all but the sizes, with the places in an order.
fn write_arrays(
    writer: &mut IndexWriter,
    suffixes: &WordSuffixes,
    ordered: LongSuffixes<'_>,
) -> Result<()> {
    let SuffixArrays {
        text,
        word_offsets,
        shared,
    } = suffixes.arrays();
    write_numbers(writer, text.iter().copied().map(u64::from), text.len())?;
    let places = ordered.ranked_places();
    write_numbers(writer, places.map(u64::from), shared.len())?;
    let low = shared.iter().map(|byte| u64::from(byte & 15));
    write_numbers(writer, low, shared.len())?;
    let numbers = word_offsets.iter().copied().map(u64::from);
    Ok(write_numbers(writer, numbers, word_offsets.len())?)
}

impl SuffixSource for SuffixQuestion<'_> {
    type Error = zipfdb_storage::Error;

    fn words(&self) -> u32 {
        // One less than the offsets, which are fewer than 2^32.
        self.index.word_offsets.len() as u32 - 1
    }

    fn item(&self, place: u32) -> zipfdb_storage::Result<u32> {
        self.read.number(&self.index.text, place as usize)
    }

    fn place(&self, rank: u32) -> zipfdb_storage::Result<u32> {
        self.read.number(&self.index.places, rank as usize)
    }

    fn is_fully_ordered(&self) -> bool {
        self.index.is_fully_ordered
    }

    fn first_rank(&self, word: u32) -> zipfdb_storage::Result<u32> {
        let word = word as usize;
        self.read.number(&self.index.word_offsets, word)
    }
}

impl SuffixIndex {
    /// As `write`, with places in order of eight words unless they are in order of all already.
    pub(super) fn write_by_eight_words(
        segment: &SegmentView,
        record: &IndexRecord,
        writer: &mut IndexWriter,
        stop: &AtomicBool,
    ) -> Result<()> {
        let suffixes = segment.pin_until::<WordSuffixes>(stop)?;
        if suffixes.is_fully_ordered() {
            return SuffixIndex::write(segment, record, writer, stop);
        }
        let (text, words) = sizes_of(suffixes);
        write_sizes(writer, &[text, words])?;
        write_arrays(writer, suffixes, LongSuffixes::new(suffixes, None, &[]))
    }

    fn question(&self) -> SuffixQuestion<'_> {
        SuffixQuestion {
            index: self,
            read: ReadBlocks::default(),
        }
    }

    /// The whole suffix array.
    fn suffixes(&self) -> Result<WordSuffixes> {
        let (text, places) = (self.text.all()?, self.places.all()?);
        let (word_offsets, shared) = (self.word_offsets.all()?, self.shared.all()?);
        let (files, is_fully_ordered) = (self.files, self.is_fully_ordered);
        let read =
            WordSuffixes::of_arrays(files, text, places, word_offsets, shared, is_fully_ordered);
        Ok(read.ok_or_else(|| self.corrupt())?)
    }

    /// The file of a place, and the number of its word in the file. `starts` are the first places of files, and end with that behind
    /// the last.
    fn position_of(&self, starts: &[u64], place: u32) -> Result<(u32, u64)> {
        let place = u64::from(place);
        let file = starts.partition_point(|&start| start <= place);
        // A zero stands behind each file.
        match (file.checked_sub(1), starts.get(file)) {
            (Some(file), Some(&end)) if place + 1 < end => {
                // A segment's files are counted by a u32.
                Ok((file as u32, place - starts[file]))
            }
            _ => Err(self.corrupt().into()),
        }
    }

    fn corrupt(&self) -> zipfdb_storage::Error {
        self.text.corrupt_with("its arrays contradict each other")
    }
}

impl SegmentView {
    /// The count of a phrase by a suffix array on disk; none without one.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn ngram_count_on_disk(&self, words: &[u32]) -> Result<Option<u64>> {
        self.ask_index(|index: &SuffixIndex| Ok(count_places(&index.question(), words)?))
    }

    /// The places of a phrase by a suffix array on disk, none without one: file and number of its first word in it, ascending.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn ngram_places_on_disk(&self, words: &[u32]) -> Result<Option<Vec<(u32, u64)>>> {
        let starts = self.file_places()?;
        self.ask_index(|index: &SuffixIndex| {
            let question = index.question();
            let mut places: Vec<u32> = match find_ordered(&question, words)? {
                Some(ranks) => (index.places).range(ranks.start as usize..ranks.end as usize)?,
                None => find_places(&question, words)?,
            };
            places.sort_unstable();
            let places = places.into_iter();
            places
                .map(|place| index.position_of(&starts, place))
                .collect()
        })
    }

    /// The words behind a phrase by a suffix array on disk, ascending, each with how often; none without one.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn next_words_on_disk(&self, words: &[u32]) -> Result<Option<Vec<(u32, u64)>>> {
        self.ask_index(|index: &SuffixIndex| Ok(find_next_words(&index.question(), words)?))
    }

    /// For each word of a text the longest match that begins with it, by a suffix array on disk: words, file, and number of its first
    /// word in it. No words if the first does not occur. None without a suffix array in which all words order places.
    ///
    /// # Errors
    /// If the segment is damaged, or `stop` is set.
    pub(crate) fn longest_on_disk(
        &self,
        words: &[u32],
        stop: &AtomicBool,
    ) -> Result<Option<Vec<(usize, u32, u64)>>> {
        let starts = self.file_places()?;
        let found = self.ask_index(|index: &SuffixIndex| {
            if !index.is_fully_ordered {
                return Ok(None);
            }
            let part = |first: usize| {
                let question = index.question();
                let end = words.len().min(first + TASK_WORDS);
                let matches = (first..end).map(|start| {
                    check(stop)?;
                    match find_longest(&question, &words[start..])? {
                        None => Ok((0, 0, 0)),
                        Some((length, place)) => {
                            let (file, position) = index.position_of(&starts, place)?;
                            Ok((length, file, position))
                        }
                    }
                });
                matches.collect::<Result<Vec<_>>>()
            };
            let parts = (0..words.len()).into_par_iter().step_by(TASK_WORDS);
            let parts = parts.map(part).collect::<Result<Vec<Vec<_>>>>()?;
            Ok(Some(parts.concat()))
        })?;
        Ok(found.flatten())
    }

    /// The suffix array in order of all words, built if it is missing.
    ///
    /// # Errors
    /// If the segment is damaged, or `stop` is set.
    pub(crate) fn ordered_suffixes(&self, stop: &AtomicBool) -> Result<LongSuffixes<'_>> {
        let suffixes = self.pin_until::<WordSuffixes>(stop)?;
        let order = if suffixes.is_fully_ordered() {
            None
        } else {
            Some(self.pin_until::<LongOrder>(stop)?)
        };
        Ok(LongSuffixes::new(suffixes, order, &[]))
    }

    /// For each file the words and files before it: its first place in a suffix array; at the end the place behind the last file.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn file_places(&self) -> Result<Vec<u64>> {
        let mut place = 0;
        let behind = self.files()?.iter().map(|file| {
            place += file.words + 1;
            place
        });
        Ok(std::iter::once(0).chain(behind).collect())
    }

    /// The suffix array on disk; none without one.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(super) fn suffixes_on_disk(&self) -> Result<Option<WordSuffixes>> {
        self.ask_index(SuffixIndex::suffixes)
    }
}
