//! A suffix array on disk: phrases are found in the file, and reading it back is faster than building it.
//!
//! Sections: two numbers, the length of the text and the number of words; then, in blocks of numbers, the text, the places, what
//! neighbours share, and the first rank of each word.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_kernels::{
    NGRAM_WORDS_MAX, SuffixArrays, SuffixSource, WordSuffixes, find_places, find_ranks,
};
use zipfdb_storage::{IndexKind, IndexReader, IndexRecord, IndexWriter};

use super::index_blocks::{ReadBlocks, StoredNumbers, read_sizes, write_numbers, write_sizes};
use super::live_segment::LiveSegment;
use super::segment_view::SegmentView;
use super::stored_index::IndexContent;
use crate::Result;

/// The sections: sizes, and the directory of each array.
const SIZES_SECTION: usize = 0;
const TEXT_SECTION: usize = 1;
const PLACES_SECTION: usize = 3;
const SHARED_SECTION: usize = 5;
const WORD_OFFSETS_SECTION: usize = 7;

/// The directories of the arrays of a suffix array.
pub(super) struct SuffixIndex {
    files: usize,
    text: StoredNumbers,
    places: StoredNumbers,
    shared: StoredNumbers,
    word_offsets: StoredNumbers,
}

/// A question for an n-gram, with the blocks that it has read.
struct SuffixQuestion<'a> {
    index: &'a SuffixIndex,
    read: ReadBlocks,
}

impl IndexContent for SuffixIndex {
    const INDEX: IndexKind = IndexKind::Suffixes;

    fn open(live: &LiveSegment, reader: &Arc<IndexReader>) -> Result<SuffixIndex> {
        let [text, words] = read_sizes(reader, SIZES_SECTION)?;
        let strange = || reader.corrupt("its sizes make no sense");
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
        let SuffixArrays {
            text,
            places,
            word_offsets,
            shared,
        } = suffixes.arrays();
        write_sizes(writer, &[text.len() as u64, word_offsets.len() as u64 - 1])?;
        for array in [text, places] {
            let numbers = array.iter().copied().map(u64::from);
            write_numbers(writer, numbers, array.len())?;
        }
        let low = shared.iter().map(|byte| u64::from(byte & 15));
        write_numbers(writer, low, shared.len())?;
        let numbers = word_offsets.iter().copied().map(u64::from);
        Ok(write_numbers(writer, numbers, word_offsets.len())?)
    }
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

    fn first_rank(&self, word: u32) -> zipfdb_storage::Result<u32> {
        let word = word as usize;
        self.read.number(&self.index.word_offsets, word)
    }
}

impl SuffixIndex {
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
        let read = WordSuffixes::of_arrays(self.files, text, places, word_offsets, shared);
        Ok(read.ok_or_else(|| self.corrupt())?)
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
        self.ask_index(|index: &SuffixIndex| {
            let question = index.question();
            if words.len() > NGRAM_WORDS_MAX {
                return Ok(find_places(&question, words)?.len() as u64);
            }
            let ranks = find_ranks(&question, words)?;
            Ok(u64::from(ranks.end - ranks.start))
        })
    }

    /// The places of a phrase by a suffix array on disk, none without one: file and number of its first word in it, ascending.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn ngram_places_on_disk(&self, words: &[u32]) -> Result<Option<Vec<(u32, u64)>>> {
        let files = self.files()?;
        self.ask_index(|index: &SuffixIndex| {
            let question = index.question();
            let mut places: Vec<u64> = if words.len() > NGRAM_WORDS_MAX {
                let places = find_places(&question, words)?.into_iter();
                places.map(u64::from).collect()
            } else {
                let ranks = find_ranks(&question, words)?;
                index
                    .places
                    .range(ranks.start as usize..ranks.end as usize)?
            };
            places.sort_unstable();
            let (mut file, mut start) = (0, 0);
            let mut found = Vec::with_capacity(places.len());
            for place in places {
                // A zero stands behind each file.
                while let Some(entry) = files.get(file)
                    && place - start > entry.words
                {
                    start += entry.words + 1;
                    file += 1;
                }
                match files.get(file) {
                    // A segment's files are counted by a u32.
                    Some(entry) if place - start < entry.words => {
                        found.push((file as u32, place - start))
                    }
                    _ => return Err(index.corrupt().into()),
                }
            }
            Ok(found)
        })
    }

    /// The suffix array on disk; none without one.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(super) fn suffixes_on_disk(&self) -> Result<Option<WordSuffixes>> {
        self.ask_index(SuffixIndex::suffixes)
    }
}
