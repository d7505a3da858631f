//! Words of edits, and their numbers.
//!
//! The invariant: a stored word has its number in the vocabulary; any other has one from the end of the vocabulary on, in the
//! order in which they were first met, and keeps it as long as the segments stay the same. So the words found around an edit hold
//! for every later snapshot.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};
use rayon::prelude::*;

use crate::Result;
use crate::answer::vocabulary::Vocabulary;
use crate::bisect::partition_point;
use crate::segment::word_order::compare;

/// Maps of words; a power of two.
const MAPS: usize = 16;

/// Words with their numbers.
type NumberMap = HashMap<Box<[u8]>, u32, RandomState>;

/// The numbers of words that edits met.
pub(crate) struct WordNumbers {
    /// Unique in this process.
    id: u64,
    maps: [RwLock<NumberMap>; MAPS],
    /// The words that are not stored.
    fresh: RwLock<Vec<Arc<[u8]>>>,
    /// The same words in order, up to the last call of `ranked`.
    ranked: Mutex<Arc<RankedWords>>,
}

/// Words that are not stored, in dictionary order.
#[derive(Default)]
pub(crate) struct RankedWords {
    /// In the order in which they were met.
    pub(crate) words: Vec<Arc<[u8]>>,
    /// Their places in `words`, in dictionary order, each with the number of stored words before it.
    pub(crate) order: Vec<(u32, u32)>,
}

impl WordNumbers {
    /// No words yet.
    pub(crate) fn new() -> WordNumbers {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        WordNumbers {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            maps: Default::default(),
            fresh: RwLock::default(),
            ranked: Mutex::default(),
        }
    }

    /// The identity of these numbers.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The number of a word; a new word gets the next one.
    pub(crate) fn number(&self, vocabulary: &Vocabulary, word: &[u8]) -> Result<u32> {
        let map = self.map(word);
        if let Some(&number) = map.read().get(word) {
            return Ok(number);
        }
        let stored = vocabulary.find(word)?;
        let mut map = map.write();
        if let Some(&number) = map.get(word) {
            return Ok(number);
        }
        let number = stored.unwrap_or_else(|| {
            let mut fresh = self.fresh.write();
            fresh.push(word.into());
            // Words are numbered by u32, those in memory too.
            (vocabulary.len() + fresh.len() - 1) as u32
        });
        map.insert(word.into(), number);
        Ok(number)
    }

    /// The number of a word that was numbered before.
    pub(crate) fn find(&self, word: &[u8]) -> Option<u32> {
        self.map(word).read().get(word).copied()
    }

    /// All words that are not stored and were met before the call. Costs what the words since the last call cost, and a copy of
    /// the order.
    pub(crate) fn ranked(&self, vocabulary: &Vocabulary) -> Arc<RankedWords> {
        let known = self.ranked.lock().clone();
        let fresh: Vec<Arc<[u8]>> = self.fresh.read()[known.words.len()..].to_vec();
        if fresh.is_empty() {
            return known;
        }
        // Without a lock: see `segment_view`.
        let ranked = Arc::new(known.with(fresh, vocabulary));
        let mut newest = self.ranked.lock();
        if newest.words.len() < ranked.words.len() {
            *newest = ranked.clone();
        }
        ranked
    }

    fn map(&self, word: &[u8]) -> &RwLock<NumberMap> {
        // Spreads threads over the maps; the map hashes well.
        let last = word.last().map_or(0, |&byte| usize::from(byte));
        &self.maps[(word.len() + last) % MAPS]
    }
}

impl RankedWords {
    /// These words and others, which were met later.
    fn with(&self, fresh: Vec<Arc<[u8]>>, vocabulary: &Vocabulary) -> RankedWords {
        let first = self.words.len() as u32; // words are numbered by u32
        let mut others: Vec<(u32, u32)> =
            (first..).zip(&fresh).map(|(place, _)| (place, 0)).collect();
        let word_of = |place: u32| &fresh[(place - first) as usize][..];
        others.par_sort_unstable_by(|left, right| compare(word_of(left.0), word_of(right.0)));
        (others.par_iter_mut()).for_each(|(place, before)| {
            *before = stored_before(vocabulary, word_of(*place));
        });
        let mut order = Vec::with_capacity(self.order.len() + others.len());
        let mut rest = &self.order[..];
        for (place, before) in others {
            let smaller = |&(known, known_before): &(u32, u32)| {
                // Most differ in the number of stored words before them.
                (known_before.cmp(&before))
                    .then_with(|| compare(&self.words[known as usize], word_of(place)))
                    .is_lt()
            };
            let (front, back) = rest.split_at(rest.partition_point(smaller));
            order.extend_from_slice(front);
            order.push((place, before));
            rest = back;
        }
        order.extend_from_slice(rest);
        let words = self.words.iter().cloned().chain(fresh).collect();
        RankedWords { words, order }
    }
}

/// The number of stored words before a word in dictionary order.
fn stored_before(vocabulary: &Vocabulary, word: &[u8]) -> u32 {
    // Words are numbered by u32.
    let is_before = |number| compare(vocabulary.word(number as u32), word).is_lt();
    partition_point(vocabulary.len(), is_before) as u32
}
