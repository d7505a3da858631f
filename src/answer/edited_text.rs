//! One file with its edits: the words and bytes of the stored file, corrected where edits touch it.
//!
//! The invariant: answers equal those on the current text. It knows no other files, and words by the numbers of
//! [`WordNumbers`](super::word_numbers::WordNumbers).

use std::borrow::Cow;
use std::io::{self, Write};
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_storage::Tokenizer;

use crate::Result;
use crate::answer::stored_view::StoredView;
use crate::bisect::gallop;
use crate::overlay::{EditedFile, Piece, RegionPlace, Regions, StoredText};
use crate::runtime::interrupt::check;

/// Bytes of a stored stretch that are written at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// A file with pending edits.
pub(crate) struct EditedText {
    view: Arc<StoredView>,
    /// The stored file that it rests on, if it rests on one.
    stored: Option<usize>,
    edited: Arc<EditedFile>,
    regions: Arc<Regions>,
}

/// The stored text that edits rest on, or none.
struct BaseText<'a> {
    view: &'a StoredView,
    name: &'a str,
    tokenizer: Tokenizer,
    stored: Option<usize>,
    stop: &'a AtomicBool,
}

impl StoredText for BaseText<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn tokenizer(&self) -> Tokenizer {
        self.tokenizer
    }

    fn bytes(&self) -> u64 {
        (self.stored).map_or(0, |file| self.view.files()[file].bytes)
    }

    fn words(&self) -> u64 {
        (self.stored).map_or(0, |file| self.view.files()[file].words)
    }

    fn extract(&self, range: Range<u64>) -> Result<Vec<u8>> {
        match self.stored {
            Some(file) if range.start < range.end => {
                self.view
                    .extract(file, range.start, range.end - range.start)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn words_before(&self, offset: u64) -> Result<u64> {
        (self.stored).map_or(Ok(0), |file| self.view.words_before(file, offset))
    }

    fn number(&self, word: &[u8]) -> Result<u32> {
        let vocabulary = self.view.vocabulary()?;
        self.view.word_numbers.number(vocabulary, word)
    }

    fn numbering(&self) -> u64 {
        self.view.word_numbers.id()
    }

    fn go_on(&self) -> Result<()> {
        check(self.stop)
    }
}

impl EditedText {
    /// Finds the words around the edits, except those known of this or an earlier state of the file.
    ///
    /// # Errors
    /// If the segment of the file is damaged, or `stop` is set.
    fn new(
        view: Arc<StoredView>,
        name: &str,
        edited: Arc<EditedFile>,
        tokenizer: Tokenizer,
        stop: &AtomicBool,
    ) -> Result<EditedText> {
        let stored = edited.is_stored.then(|| view.find_file(name)).flatten();
        let text = BaseText {
            view: &view,
            name,
            tokenizer,
            stored,
            stop,
        };
        let regions = edited.regions(&text)?;
        Ok(EditedText {
            view,
            stored,
            edited,
            regions,
        })
    }

    /// The texts of some files, given by name. Works on groups of segments that the cache has room for together.
    /// # Errors
    /// As [`EditedText::new`].
    pub(crate) fn of_files(
        view: &Arc<StoredView>,
        files: &[(&str, &Arc<EditedFile>)],
        tokenizer: Tokenizer,
        stop: &AtomicBool,
    ) -> Result<Vec<EditedText>> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        view.vocabulary()?;
        let numbering = view.word_numbers.id();
        // The stored file to be read for a file, unless the words around its edits are known.
        let base_of = |&(name, edited): &(&str, &Arc<EditedFile>)| {
            let is_new = !edited.has_regions(numbering);
            (is_new && edited.is_stored)
                .then(|| view.find_file(name))
                .flatten()
        };
        let bases: Vec<Option<usize>> = files.iter().map(base_of).collect();
        let first_segment = |&place: &usize| {
            let first = bases[place].and_then(|file| view.segments_of(file).next());
            first.unwrap_or(0)
        };
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by_key(first_segment);
        let mut found = Vec::with_capacity(files.len());
        for places in view.in_room(&order, first_segment) {
            // The structures for regions are built once, not by each thread.
            let pinned =
                view.prepare_edits(places.iter().filter_map(|&place| bases[place]), stop)?;
            let texts = places.par_iter().map(|&place| {
                let (name, edited) = files[place];
                let text = EditedText::new(view.clone(), name, edited.clone(), tokenizer, stop)?;
                Ok((place, text))
            });
            found.extend(texts.collect::<Result<Vec<_>>>()?);
            drop(pinned);
        }
        found.sort_unstable_by_key(|(place, _)| *place);
        Ok(found.into_iter().map(|(_, text)| text).collect())
    }

    /// The words around edits.
    pub(crate) fn regions(&self) -> &Arc<Regions> {
        &self.regions
    }

    /// The pieces of bytes `offset..offset + length`, as far as the text goes.
    pub(super) fn pieces(&self, offset: u64, length: u64) -> Vec<Piece> {
        let end = offset.saturating_add(length);
        self.edited.pieces.slice(offset..end)
    }

    /// The change of the count of a word against the stored file.
    pub(crate) fn change_of(&self, word: &[u8]) -> i64 {
        // A word that no edit has met has no change.
        let word = self.view.word_numbers.find(word);
        word.map_or(0, |word| self.change_of_number(word))
    }

    fn change_of_number(&self, word: u32) -> i64 {
        let changes = &self.regions.changes;
        let found = changes.binary_search_by_key(&word, |&(word, _)| word);
        found.map_or(0, |at| changes[at].1)
    }

    /// The current offsets of a word: `stored` ones, moved, and those in regions.
    pub(crate) fn moved_offsets(&self, word: &[u8], stored: Vec<u64>) -> Vec<u64> {
        let word = self.view.word_numbers.find(word);
        let regions = &self.regions.regions;
        let places = self.places_of(word);
        let mut places = places.iter().peekable();
        let mut offsets = Vec::with_capacity(stored.len());
        let offset_of = |place: &RegionPlace| {
            let region = &regions[place.region as usize];
            let word = region.text.words[place.index as usize];
            region.bytes.start + u64::from(word.offset)
        };
        let mut next = 0;
        for offset in stored {
            let rest = &regions[next..];
            next += gallop(rest.len(), |index| rest[index].stored_bytes.end <= offset);
            if (regions.get(next)).is_none_or(|region| offset < region.stored_bytes.start) {
                let before =
                    iter::from_fn(|| places.next_if(|place| (place.region as usize) < next));
                offsets.extend(before.map(offset_of));
                offsets.push(self.regions.moved_byte(offset, next));
            }
        }
        offsets.extend(places.map(offset_of));
        offsets
    }

    /// The current positions of a word: `stored` ones, moved, and those of `word` in regions.
    pub(super) fn moved_positions(&self, word: u32, stored: Vec<u64>) -> Vec<u64> {
        let regions = &self.regions.regions;
        let places = self.places_of(Some(word));
        let mut places = places.iter().peekable();
        let mut positions = Vec::with_capacity(stored.len());
        let position_of = |place: &RegionPlace| {
            regions[place.region as usize].words.start + u64::from(place.index)
        };
        let mut next = 0;
        for position in stored {
            while (regions.get(next)).is_some_and(|region| region.stored_words.end <= position) {
                next += 1;
            }
            if (regions.get(next)).is_none_or(|region| position < region.stored_words.start) {
                let before =
                    iter::from_fn(|| places.next_if(|place| (place.region as usize) < next));
                positions.extend(before.map(position_of));
                positions.push(self.regions.moved_word(position, next));
            }
        }
        positions.extend(places.map(position_of));
        positions
    }

    /// The places of a word in the regions, ascending.
    fn places_of(&self, word: Option<u32>) -> Cow<'_, [RegionPlace]> {
        word.map_or_else(Cow::default, |word| self.regions.places_of(word))
    }

    /// The bytes `offset..offset + length`, as far as the text goes.
    pub(crate) fn extract(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let pieces = self.pieces(offset, length);
        extract_pieces(&self.view, self.stored, pieces)
    }

    /// Writes the text; the inner error is the target's.
    pub(super) fn write(&self, target: &mut dyn Write) -> Result<io::Result<()>> {
        for piece in self.edited.pieces.iter() {
            let written = match piece {
                Piece::Inserted(text) => target.write_all(text),
                Piece::Stored(range) => self.write_stored(range.clone(), target)?,
            };
            if let Err(error) = written {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    fn write_stored(&self, range: Range<u64>, target: &mut dyn Write) -> Result<io::Result<()>> {
        for from in range.clone().step_by(PIECE_BYTES as usize) {
            let length = PIECE_BYTES.min(range.end - from);
            let stored = self.stored.unwrap_or_default();
            if let Err(error) = target.write_all(&self.view.extract(stored, from, length)?) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}

/// The bytes of pieces of a file that rests on stored file `stored`, if it rests on one.
pub(crate) fn extract_pieces(
    view: &StoredView,
    stored: Option<usize>,
    pieces: Vec<Piece>,
) -> Result<Vec<u8>> {
    if let ([Piece::Stored(range)], Some(stored)) = (&pieces[..], stored) {
        return view.extract(stored, range.start, range.end - range.start);
    }
    let mut bytes = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Inserted(text) => bytes.extend_from_slice(&text),
            Piece::Stored(range) => {
                // Only a file that rests on a stored one has such pieces.
                let stored = stored.unwrap_or_default();
                let length = range.end - range.start;
                bytes.extend(view.extract(stored, range.start, length)?);
            }
        }
    }
    Ok(bytes)
}

/// Appends the questions for the stored bytes of pieces of a file that rests on stored file `stored`, if it rests on one.
pub(crate) fn ask_stored(
    pieces: &[Piece],
    stored: Option<usize>,
    asked: &mut Vec<(usize, u64, u64)>,
) {
    for piece in pieces {
        if let (Piece::Stored(range), Some(stored)) = (piece, stored) {
            asked.push((stored, range.start, range.end - range.start));
        }
    }
}

/// The bytes of pieces; `found` returns those that [`ask_stored`] has asked for.
pub(crate) fn joined(pieces: &[Piece], found: &mut impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut of_piece = |piece: &Piece| match piece {
        Piece::Inserted(text) => text.to_vec(),
        Piece::Stored(_) => found.next().unwrap_or_default(),
    };
    match pieces {
        [only] => of_piece(only),
        pieces => {
            let bytes = pieces.iter().map(Piece::len).sum::<u64>();
            let mut joined = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
            for piece in pieces {
                joined.append(&mut of_piece(piece));
            }
            joined
        }
    }
}
