//! Numbers of words when edits bring words that are not stored.
//!
//! The invariant: numbers follow dictionary order, as those of the stored words do; the new words stand between them, so a stored
//! word's number grows by the number of new words before it.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use crate::answer::vocabulary::Vocabulary;
use crate::answer::word_numbers::RankedWords;
use crate::bisect::partition_point;

/// No place.
const NONE: u32 = u32::MAX;

/// The words of the stored files and those that only edits have, numbered together.
pub(crate) struct Numbering {
    /// The words that are not stored, in dictionary order.
    fresh: Vec<Arc<[u8]>>,
    /// For each of them the number of stored words before it.
    stored_before: Vec<u32>,
    stored_count: u32,
    /// For each unstored word of edits, by its number in `WordNumbers`, its place in `fresh`, or [`NONE`].
    met: Vec<u32>,
    /// The number of each stored word, once many are needed.
    numbers: OnceLock<Vec<u32>>,
    /// For each number the stored word, or [`FRESH`] and the place in `fresh`, once many are needed.
    sources: OnceLock<Vec<u32>>,
}

/// The mark of new words. There are fewer than 2^31 words.
const FRESH: u32 = 1 << 31;

/// The source of a word.
pub(crate) enum WordSource<'a> {
    /// The stored word with a number.
    Stored(u32),
    /// A new word.
    Fresh(&'a [u8]),
}

impl Numbering {
    /// Numbers the words of edits, given by `WordNumbers`, among the `stored_count` stored ones. `met` are all unstored ones, of
    /// which `words` are used; they may come in any order and more than once.
    pub(crate) fn new(
        stored_count: usize,
        met: &RankedWords,
        words: impl Iterator<Item = u32>,
    ) -> Numbering {
        let stored_count = stored_count as u32; // words are numbered by u32
        let mut places = vec![NONE; met.words.len()];
        for word in words.filter(|&word| word >= stored_count) {
            places[(word - stored_count) as usize] = 0;
        }
        let (mut fresh, mut stored_before) = (Vec::new(), Vec::new());
        for &(word, before) in &met.order {
            let place = &mut places[word as usize];
            if *place != NONE {
                *place = fresh.len() as u32; // words are numbered by u32
                fresh.push(met.words[word as usize].clone());
                stored_before.push(before);
            }
        }
        Numbering {
            stored_before,
            fresh,
            stored_count,
            met: places,
            numbers: OnceLock::new(),
            sources: OnceLock::new(),
        }
    }

    /// Bytes of the tables of all words.
    pub(crate) fn bytes(&self) -> usize {
        let laid_down = [&self.numbers, &self.sources];
        let arrays = laid_down.into_iter().filter_map(OnceLock::get);
        let own = size_of_val(&self.stored_before[..]) + size_of_val(&self.met[..]);
        own + arrays.map(|array| size_of_val(&array[..])).sum::<usize>()
    }

    /// The number of words.
    pub(crate) fn len(&self) -> usize {
        self.stored_count as usize + self.fresh.len()
    }

    /// Whether stored words keep their numbers.
    pub(crate) fn is_stored(&self) -> bool {
        self.fresh.is_empty()
    }

    /// The number of a stored word.
    pub(crate) fn number(&self, stored: u32) -> u32 {
        match self.numbers.get() {
            Some(numbers) => numbers[stored as usize],
            None => {
                let before = (self.stored_before).partition_point(|&before| before <= stored);
                stored + before as u32
            }
        }
    }

    /// The numbers of all stored words; none if they keep theirs.
    pub(crate) fn numbers(&self) -> Option<&[u32]> {
        if self.is_stored() {
            return None;
        }
        let numbers = self.numbers.get_or_init(|| {
            let mut numbers = Vec::with_capacity(self.stored_count as usize);
            let mut shift = 0;
            for (index, &before) in (0..).zip(&self.stored_before) {
                numbers.extend((numbers.len() as u32..before).map(|stored| stored + index));
                shift = index + 1;
            }
            numbers.extend((numbers.len() as u32..self.stored_count).map(|stored| stored + shift));
            numbers
        });
        Some(numbers)
    }

    /// The source of the word with a number.
    pub(crate) fn source(&self, number: u32) -> WordSource<'_> {
        match self.place(number) {
            Ok(place) => WordSource::Fresh(&self.fresh[place]),
            Err(stored) => WordSource::Stored(stored),
        }
    }

    /// Makes the table of sources, for a caller that needs many.
    pub(crate) fn prepare_sources(&self) {
        if self.is_stored() {
            return;
        }
        self.sources.get_or_init(|| {
            let mut sources = vec![0; self.len()];
            for (stored, &number) in (0..).zip(self.numbers().unwrap_or_default()) {
                sources[number as usize] = stored;
            }
            for (place, &before) in (0..).zip(&self.stored_before) {
                sources[(before + place) as usize] = FRESH | place;
            }
            sources
        });
    }

    /// The place in `fresh` of the word with a number, or the stored word that it is.
    fn place(&self, number: u32) -> Result<usize, u32> {
        if self.is_stored() {
            return Err(number);
        }
        if let Some(sources) = self.sources.get() {
            let source = sources[number as usize];
            return match source & FRESH {
                0 => Err(source),
                _ => Ok((source & !FRESH) as usize),
            };
        }
        let at = |place: usize| self.stored_before[place] + place as u32;
        let place = partition_point(self.fresh.len(), |place| at(place) < number);
        if place < self.fresh.len() && at(place) == number {
            Ok(place)
        } else {
            Err(number - place as u32)
        }
    }

    /// The number of a word of an edit, given by its number in `WordNumbers`; none if no edit of this snapshot has it.
    pub(crate) fn find_met(&self, word: u32) -> Option<u32> {
        let Some(fresh) = word.checked_sub(self.stored_count) else {
            return Some(self.number(word));
        };
        // Words may have been numbered after this snapshot was taken.
        let place = *self.met.get(fresh as usize)?;
        (place != NONE).then(|| self.stored_before[place as usize] + place)
    }

    /// As [`Numbering::find_met`] for a word that is used.
    pub(crate) fn number_met(&self, word: u32) -> u32 {
        (self.find_met(word)).expect("all words that edits of the snapshot brought are numbered")
    }

    /// The number of the word in `WordNumbers`: the inverse of [`Numbering::find_met`].
    pub(crate) fn met(&self, number: u32) -> u32 {
        match self.place(number) {
            Err(stored) => stored,
            Ok(place) => {
                let met = self.met.iter().position(|&other| other as usize == place);
                // There is one for each place.
                self.stored_count + met.expect("new words were met") as u32
            }
        }
    }

    /// All words in order of bytes, and the place of each in it, from those of the stored words.
    pub(crate) fn byte_order(
        &self,
        vocabulary: &Vocabulary,
        stored: &(Vec<u32>, Vec<u32>),
    ) -> (Vec<u32>, Vec<u32>) {
        let mut fresh: Vec<(&[u8], u32)> = (self.fresh.iter().zip(&self.stored_before))
            .zip(0..)
            .map(|((word, &before), index)| (&word[..], before + index))
            .collect();
        fresh.sort_unstable();
        let mut order = Vec::with_capacity(self.len());
        let mut rest = &stored.0[..];
        for (word, number) in fresh {
            let before = rest.partition_point(|&stored| vocabulary.word(stored) < word);
            let (front, back) = rest.split_at(before);
            order.extend(front.iter().map(|&stored| self.number(stored)));
            order.push(number);
            rest = back;
        }
        order.extend(rest.iter().map(|&stored| self.number(stored)));
        let mut ranks = vec![0; order.len()];
        for (rank, &word) in (0..).zip(&order) {
            ranks[word as usize] = rank;
        }
        (order, ranks)
    }

    /// The words as numbers of stored words; none if one of them is new.
    pub(crate) fn to_stored<'a>(&self, words: &'a [u32]) -> Option<Cow<'a, [u32]>> {
        if self.is_stored() {
            return Some(Cow::Borrowed(words));
        }
        let stored = words.iter().map(|&word| match self.source(word) {
            WordSource::Stored(word) => Some(word),
            WordSource::Fresh(_) => None,
        });
        stored.collect::<Option<Vec<u32>>>().map(Cow::Owned)
    }
}
