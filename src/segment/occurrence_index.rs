//! Places of words on disk: the places of one word are found in the file, and lists in memory are read back from it.
//!
//! Sections: three numbers, the number of words, and for places in bytes and in words the number of nodes plus one, or 0 where
//! lists would take too much memory; the first token of each word; then for each unit the starts of words, their entries, the
//! starts of nodes, their links.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_kernels::{LINK_BYTES_MAX, PlaceSource, WordPlaces, stored_places};
use zipfdb_storage::{IndexKind, IndexReader, IndexRecord, IndexWriter};

use super::derived::{Offsets, Positions};
use super::index_blocks::{
    ReadBlocks, StoredBytes, StoredNumbers, read_sizes, write_bytes, write_numbers, write_sizes,
};
use super::live_segment::LiveSegment;
use super::segment_view::{SegmentView, Unit};
use super::stored_index::IndexContent;
use crate::Result;

/// The sections: sizes, the directory of first tokens, and of each array of the first unit.
const SIZES_SECTION: usize = 0;
const TOKENS_SECTION: usize = 1;
const UNITS_SECTION: usize = 3;

/// Sections of a unit.
const UNIT_SECTIONS: usize = 8;

/// The directories of the places of words.
pub(super) struct OccurrenceIndex {
    /// The first token of each word.
    tokens: StoredNumbers,
    /// By [`Unit`]; none where lists would take too much memory.
    units: [Option<StoredPlaces>; 2],
}

/// The directories of the places in one unit.
struct StoredPlaces {
    word_starts: StoredNumbers,
    entries: StoredBytes,
    node_starts: StoredNumbers,
    links: StoredBytes,
}

/// A question for places, with the blocks that it has read.
struct PlaceQuestion<'a> {
    stored: &'a StoredPlaces,
    read: ReadBlocks,
}

impl IndexContent for OccurrenceIndex {
    const INDEX: IndexKind = IndexKind::Occurrences;

    fn open(_: &LiveSegment, reader: &Arc<IndexReader>) -> Result<OccurrenceIndex> {
        let [words, offsets, positions] = read_sizes(reader, SIZES_SECTION)?;
        let strange = || reader.corrupt("its sizes make no sense");
        let size = |size: u64| u32::try_from(size).map_err(|_| strange());
        let words = size(words)? as usize;
        let unit = |unit: Unit, size: u32| -> zipfdb_storage::Result<_> {
            let first = UNITS_SECTION + unit as usize * UNIT_SECTIONS;
            let Some(nodes) = size.checked_sub(1) else {
                return Ok(None);
            };
            Ok(Some(StoredPlaces {
                word_starts: StoredNumbers::read(reader, first, words)?,
                entries: StoredBytes::read(reader, first + 2)?,
                node_starts: StoredNumbers::read(reader, first + 4, nodes as usize)?,
                links: StoredBytes::read(reader, first + 6)?,
            }))
        };
        Ok(OccurrenceIndex {
            tokens: StoredNumbers::read(reader, TOKENS_SECTION, words)?,
            units: [
                unit(Unit::Bytes, size(offsets)?)?,
                unit(Unit::Words, size(positions)?)?,
            ],
        })
    }

    fn memory(&self) -> usize {
        let units = self.units.iter().flatten();
        self.tokens.memory() + units.map(StoredPlaces::memory).sum::<usize>()
    }

    fn write(
        segment: &SegmentView,
        _: &IndexRecord,
        writer: &mut IndexWriter,
        stop: &AtomicBool,
    ) -> Result<()> {
        let offsets = segment.pin_until::<Offsets>(stop)?.0.as_ref();
        let positions = segment.pin_until::<Positions>(stop)?.0.as_ref();
        let tokens = &segment.word_table()?.tokens;
        let units = [offsets, positions];
        let nodes = |places: &WordPlaces| places.node_starts().count() as u64 + 1;
        let [offset_nodes, position_nodes] = units.map(|places| places.map_or(0, nodes));
        write_sizes(writer, &[tokens.len() as u64, offset_nodes, position_nodes])?;
        let first_tokens = tokens.iter().copied().map(u64::from);
        write_numbers(writer, first_tokens, tokens.len())?;
        for places in units {
            match places {
                Some(places) => {
                    write_numbers(writer, places.word_starts(), tokens.len())?;
                    write_bytes(writer, places.entries())?;
                    let nodes = places.node_starts();
                    write_numbers(writer, nodes.clone(), nodes.count())?;
                    write_bytes(writer, places.links())?;
                }
                None => (0..UNIT_SECTIONS).for_each(|_| writer.end_section()),
            }
        }
        Ok(())
    }
}

impl OccurrenceIndex {
    /// The number of the word that begins with a token; none if no word does.
    fn word_of(&self, token: u32) -> Result<Option<usize>> {
        let read = ReadBlocks::default();
        let (mut first, mut end) = (0, self.tokens.len());
        while first < end {
            let middle = first + (end - first) / 2;
            if read.number::<u32>(&self.tokens, middle)? < token {
                first = middle + 1
            } else {
                end = middle
            }
        }
        let is_there =
            first < self.tokens.len() && read.number::<u32>(&self.tokens, first)? == token;
        Ok(is_there.then_some(first))
    }
}

impl StoredPlaces {
    fn memory(&self) -> usize {
        let numbers = [&self.word_starts, &self.node_starts];
        let bytes = [&self.entries, &self.links];
        numbers.map(StoredNumbers::memory).iter().sum::<usize>()
            + bytes.map(StoredBytes::memory).iter().sum::<usize>()
    }

    /// The places of a word in a range; at most `places_max`.
    fn places(&self, word: usize, range: Range<u64>, places_max: usize) -> Result<Vec<u64>> {
        let question = PlaceQuestion {
            stored: self,
            read: ReadBlocks::default(),
        };
        let read = &question.read;
        let start: u64 = read.number(&self.word_starts, word)?;
        let end = if word + 1 < self.word_starts.len() {
            read.number(&self.word_starts, word + 1)?
        } else {
            self.entries.len()
        };
        let size = end.checked_sub(start).ok_or_else(|| question.malformed())?;
        let found = read.bytes(&self.entries, start, size as usize, |entries| {
            let entries = &entries[..entries.len().min(size as usize)];
            stored_places(&question, entries, range, places_max)
        })?;
        Ok(found?)
    }
}

impl PlaceSource for PlaceQuestion<'_> {
    type Error = zipfdb_storage::Error;

    fn nodes(&self) -> u32 {
        // Read as a u32.
        self.stored.node_starts.len() as u32
    }

    fn node(&self, node: u32) -> zipfdb_storage::Result<u64> {
        self.read.number(&self.stored.node_starts, node as usize)
    }

    fn links<R>(&self, at: u64, read: impl FnOnce(&[u8]) -> R) -> zipfdb_storage::Result<R> {
        self.read
            .bytes(&self.stored.links, at, LINK_BYTES_MAX, read)
    }

    fn malformed(&self) -> zipfdb_storage::Error {
        self.stored
            .node_starts
            .corrupt_with("places of a word make no sense")
    }
}

impl SegmentView {
    /// The places of a word, given its first token, in a range that begins and ends at files, counted from the start of the
    /// segment; none without an index.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn places_on_disk(
        &self,
        unit: Unit,
        token: u32,
        range: Range<u64>,
    ) -> Result<Option<Vec<u64>>> {
        // A segment has fewer words than a u32 counts.
        let words = self.text_size().0 as usize;
        let found = self.ask_index(|index: &OccurrenceIndex| {
            let Some(places) = &index.units[unit as usize] else {
                return Ok(None);
            };
            match index.word_of(token)? {
                Some(word) => Ok(Some(places.places(word, range, words)?)),
                None => Ok(Some(Vec::new())),
            }
        })?;
        Ok(self.or_forget(found))
    }

    /// The lists on disk; none without an index that has them.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(super) fn lists_on_disk(&self, unit: Unit) -> Result<Option<WordPlaces>> {
        let words = self.text_size().0;
        let found = self.ask_index(|index: &OccurrenceIndex| {
            let Some(places) = &index.units[unit as usize] else {
                return Ok(None);
            };
            let starts = (places.word_starts.all()?, places.node_starts.all()?);
            let (entries, links) = (places.entries.all()?, places.links.all()?);
            let read = WordPlaces::of_stored(&starts.0, entries, &starts.1, links, words);
            let strange = || {
                places
                    .node_starts
                    .corrupt_with("places of words make no sense")
            };
            Ok(Some(read.ok_or_else(strange)?))
        })?;
        Ok(self.or_forget(found))
    }

    /// The answer of an index. One that has no lists in a unit is not asked again.
    fn or_forget<A>(&self, found: Option<Option<A>>) -> Option<A> {
        if let Some(None) = found {
            self.indexes.forget(OccurrenceIndex::INDEX);
        }
        found.flatten()
    }
}
