//! Words that edits meet, and their numbers.
//!
//! The invariant: a word that is stored has its number in the vocabulary; any other has one from the end of the vocabulary
//! on, in the order in which they were first met, and keeps it as long as the segments stay the same. So what was told of
//! the words around an edit holds for every later snapshot.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::vocabulary::Vocabulary;
use crate::Result;

/// Maps of words; a power of two.
const MAPS: usize = 16;

/// Numbers of words that were asked for.
pub(crate) struct WordNumbers {
    /// No others of this process have it.
    id: u64,
    hasher: RandomState,
    maps: [RwLock<HashMap<Box<[u8]>, u32>>; MAPS],
    /// The words that are not stored.
    fresh: RwLock<Vec<Arc<[u8]>>>,
}

impl WordNumbers {
    /// No words yet.
    pub(crate) fn new() -> WordNumbers {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        WordNumbers {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            hasher: RandomState::new(),
            maps: Default::default(),
            fresh: RwLock::default(),
        }
    }

    /// Tells these numbers from others.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The number of a word, which gets one if it is new.
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

    /// The number of a word that was asked for before.
    pub(crate) fn find(&self, word: &[u8]) -> Option<u32> {
        self.map(word).read().get(word).copied()
    }

    /// The words that are not stored, by their numbers less that of the first. A copy: what is done with them is done in
    /// parallel, which must not happen under a lock.
    pub(crate) fn fresh(&self) -> Vec<Arc<[u8]>> {
        self.fresh.read().clone()
    }

    fn map(&self, word: &[u8]) -> &RwLock<HashMap<Box<[u8]>, u32>> {
        // Below the number of maps.
        let map = self.hasher.hash_one(word) as usize % MAPS;
        &self.maps[map]
    }
}
