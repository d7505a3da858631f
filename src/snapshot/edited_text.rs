//! One file with its edits: words and bytes of what is stored, corrected where edits touch it.
//!
//! The invariant: answers equal those on the text as it is now. It knows no other files, and words by the numbers that
//! [`WordNumbers`](super::word_numbers::WordNumbers) gives them.

use std::borrow::Cow;
use std::io::{self, Write};
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_storage::Tokenizer;

use super::stored_view::StoredView;
use crate::Result;
use crate::overlay::{EditedFile, Piece, Region, RegionPlace, RegionWord, Regions, StoredText};

/// Bytes of a stored stretch that are written at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// A file that is not as stored.
pub(crate) struct EditedText {
    view: Arc<StoredView>,
    base: Base,
    edited: Arc<EditedFile>,
    regions: Arc<Regions>,
}

/// What edits rest on: what is stored for the pieces of the file.
enum Base {
    /// A stored file, or none.
    Stored(Option<usize>),
    /// An earlier state, so that what it takes to tell the words around edits grows with those since then.
    Edited(Arc<EditedText>),
}

/// A text that edits rest on.
struct BaseText<'a> {
    view: &'a StoredView,
    name: &'a str,
    tokenizer: Tokenizer,
    base: &'a Base,
}

impl StoredText for BaseText<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn tokenizer(&self) -> Tokenizer {
        self.tokenizer
    }

    fn bytes(&self) -> u64 {
        match self.base {
            Base::Stored(None) => 0,
            Base::Stored(Some(file)) => self.view.files()[*file].bytes,
            Base::Edited(text) => text.regions.bytes,
        }
    }

    fn words(&self) -> u64 {
        match self.base {
            Base::Stored(None) => 0,
            Base::Stored(Some(file)) => self.view.files()[*file].words,
            Base::Edited(text) => text.regions.word_count,
        }
    }

    fn extract(&self, range: Range<u64>) -> Result<Vec<u8>> {
        match self.base {
            Base::Stored(Some(file)) if range.start < range.end => {
                self.view
                    .extract(*file, range.start, range.end - range.start)
            }
            Base::Stored(_) => Ok(Vec::new()),
            Base::Edited(text) => text.extract(range.start, range.end - range.start),
        }
    }

    fn words_before(&self, offset: u64) -> Result<u64> {
        self.base.words_before(self.view, offset)
    }

    fn number(&self, word: &[u8]) -> Result<u32> {
        let vocabulary = self.view.vocabulary()?;
        self.view.word_numbers.number(vocabulary, word)
    }

    fn numbering(&self) -> u64 {
        self.view.word_numbers.id()
    }
}

impl Base {
    /// How many words begin before a byte.
    fn words_before(&self, view: &StoredView, offset: u64) -> Result<u64> {
        let text = match self {
            Base::Stored(file) => {
                return file.map_or(Ok(0), |file| view.words_before(file, offset));
            }
            Base::Edited(text) => text,
        };
        let regions = &text.regions.regions;
        let next = regions.partition_point(|region| region.bytes.end <= offset);
        if let Some(region) = regions.get(next).filter(|r| r.bytes.start < offset) {
            let begins = |word: &RegionWord| region.bytes.start + u64::from(word.offset) < offset;
            let inside = region.text.words.partition_point(begins);
            return Ok(region.words.start + inside as u64);
        }
        let Some(last) = next.checked_sub(1).map(|last| &regions[last]) else {
            return text.base.words_before(view, offset);
        };
        let below = offset - last.bytes.end + last.stored_bytes.end;
        let words = text.base.words_before(view, below)?;
        Ok(words - last.stored_words.end + last.words.end)
    }
}

impl EditedText {
    /// Finds the words around those edits that nobody has looked at before, nor at any of `earlier`, an earlier state.
    ///
    /// # Errors
    /// If the segment of the file is damaged.
    pub(crate) fn new(
        view: Arc<StoredView>,
        name: &str,
        edited: Arc<EditedFile>,
        tokenizer: Tokenizer,
        earlier: Option<&Arc<Regions>>,
    ) -> Result<EditedText> {
        let stored = edited.is_stored.then(|| view.find_file(name)).flatten();
        EditedText::with_base(view, name, edited, tokenizer, Base::Stored(stored), earlier)
    }

    /// As [`EditedText::new`], of edits that were made to `below`.
    ///
    /// # Errors
    /// As [`EditedText::new`].
    pub(crate) fn on(
        below: Arc<EditedText>,
        name: &str,
        edited: Arc<EditedFile>,
        tokenizer: Tokenizer,
        earlier: Option<&Arc<Regions>>,
    ) -> Result<EditedText> {
        let view = below.view.clone();
        EditedText::with_base(view, name, edited, tokenizer, Base::Edited(below), earlier)
    }

    fn with_base(
        view: Arc<StoredView>,
        name: &str,
        edited: Arc<EditedFile>,
        tokenizer: Tokenizer,
        base: Base,
        earlier: Option<&Arc<Regions>>,
    ) -> Result<EditedText> {
        let text = BaseText {
            view: &view,
            name,
            tokenizer,
            base: &base,
        };
        let regions = edited.regions(&text, earlier)?;
        Ok(EditedText {
            view,
            base,
            edited,
            regions,
        })
    }

    /// The words around edits.
    pub(crate) fn regions(&self) -> &Arc<Regions> {
        &self.regions
    }

    /// How often a word occurs.
    pub(crate) fn count(&self, word: &[u8]) -> Result<u64> {
        let stored = match self.stored_file() {
            None => 0,
            Some(file) => self.view.count_in(file, word)?,
        };
        Ok(stored.saturating_add_signed(self.change_of(word)))
    }

    /// The stored file that it rests on.
    pub(crate) fn stored_file(&self) -> Option<usize> {
        match &self.base {
            Base::Stored(file) => *file,
            Base::Edited(text) => text.stored_file(),
        }
    }

    /// The pieces of bytes `offset..offset + length`, as far as the text goes.
    pub(super) fn pieces(&self, offset: u64, length: u64) -> Vec<Piece> {
        let pieces = self.edited.slice(offset, length);
        let Base::Edited(text) = &self.base else {
            return pieces;
        };
        let below = |piece: Piece| match piece {
            Piece::Stored(range) => text.pieces(range.start, range.end - range.start),
            inserted => vec![inserted],
        };
        pieces.into_iter().flat_map(below).collect()
    }

    /// How much more or less often a word occurs than in the stored file.
    pub(crate) fn change_of(&self, word: &[u8]) -> i64 {
        // What no edit has met changes nothing.
        let word = self.view.word_numbers.find(word);
        word.map_or(0, |word| self.change_of_number(word))
    }

    fn change_of_number(&self, word: u32) -> i64 {
        let changes = &self.regions.changes;
        let found = changes.binary_search_by_key(&word, |&(word, _)| word);
        let change = found.map_or(0, |at| changes[at].1);
        match &self.base {
            Base::Stored(_) => change,
            Base::Edited(text) => change + text.change_of_number(word),
        }
    }

    /// Where a word stands: offsets of its first bytes, ascending.
    pub(crate) fn search(&self, word: &[u8], stop: &AtomicBool) -> Result<Vec<u64>> {
        let stored = match self.stored_file() {
            None => Vec::new(),
            Some(file) => self.view.search_in(file, word, stop)?,
        };
        Ok(self.moved_offsets(word, stored))
    }

    /// Offsets of a word in the stored file as they are now, with those in regions.
    pub(crate) fn moved_offsets(&self, word: &[u8], stored: Vec<u64>) -> Vec<u64> {
        self.moved_offsets_of(self.view.word_numbers.find(word), stored)
    }

    fn moved_offsets_of(&self, word: Option<u32>, stored: Vec<u64>) -> Vec<u64> {
        let stored = match &self.base {
            Base::Stored(_) => stored,
            Base::Edited(text) => text.moved_offsets_of(word, stored),
        };
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
            let is_before = |region: &Region| region.stored_bytes.end <= offset;
            next += count_while(&regions[next..], is_before);
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

    /// Numbers of stored words in the file as they are now, with those that `word` has in regions.
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
        extract_pieces(&self.view, self.stored_file(), pieces)
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
            let stored = self.stored_file().unwrap_or_default();
            if let Err(error) = target.write_all(&self.view.extract(stored, from, length)?) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}

/// How many of the first items, all of them before the others, are so. Work: logarithmic in that number.
fn count_while<T>(items: &[T], is_so: impl Fn(&T) -> bool) -> usize {
    let mut end = 1;
    while end < items.len() && is_so(&items[end]) {
        end *= 2;
    }
    items[..items.len().min(end)].partition_point(is_so)
}

/// The bytes of pieces of a file that rests on stored file `stored`, if on any.
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

/// Asks for the stored bytes of pieces of a file that rests on stored file `stored`, if on any.
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

/// The bytes of pieces; `found` gives those that [`ask_stored`] has asked for.
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
