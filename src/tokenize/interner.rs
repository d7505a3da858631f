//! Token bytes to local ids, and the sequence of ids that a text becomes.
//!
//! A local id numbers the distinct tokens of one chunk in order of first appearance. The same bytes as a word token and as a gap
//! token are two tokens. Ids of different interners are unrelated until [`merge`](super::merge()) gives them a common order.

use super::Sink;
use std::hash::{BuildHasher, RandomState};
use std::mem;

/// Longest token whose bytes are its key; longer ones are compared in the arena.
const SHORT_BYTES_MAX: usize = 16;

/// Tables start with this many slots and double when they are three quarters full.
const SLOTS_MIN: usize = 1 << 12;

/// `KEY_MASKS[n]` keeps the first n bytes of a little-endian 16-byte load.
const KEY_MASKS: [u128; SHORT_BYTES_MAX + 1] = {
    let mut masks = [u128::MAX; SHORT_BYTES_MAX + 1];
    let mut size = 0;
    while size < SHORT_BYTES_MAX {
        masks[size] = (1 << (8 * size)) - 1;
        size += 1;
    }
    masks
};

/// The distinct tokens of one chunk, by local id.
#[derive(Default)]
pub struct LocalDictionary {
    bytes: Vec<u8>,
    /// For each token the end of its bytes, in [`END_BITS`] bits, and above them whether it is a word token.
    ends: Vec<u32>,
}

/// The bytes of all tokens of one interner are fewer than 2 to this power.
const END_BITS: u32 = 31;

impl LocalDictionary {
    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The size of all tokens together.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of token `id`.
    pub fn token(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = match id {
            0 => 0,
            _ => self.ends[id - 1] & !(1 << END_BITS),
        };
        let end = self.ends[id] & !(1 << END_BITS);
        &self.bytes[start as usize..end as usize]
    }

    /// Whether token `id` is a word token.
    pub fn is_word(&self, id: u32) -> bool {
        self.ends[id as usize] >> END_BITS != 0
    }

    /// The bytes of token `id`, and whether it is a word token.
    pub fn entry(&self, id: u32) -> (&[u8], bool) {
        (self.token(id), self.is_word(id))
    }

    /// The tokens in `ids`, which are renumbered to match.
    pub fn select(&self, ids: &mut [u32]) -> LocalDictionary {
        let mut selected = LocalDictionary::default();
        let mut new_ids = vec![u32::MAX; self.len()];
        for id in ids {
            let new_id = &mut new_ids[*id as usize];
            if *new_id == u32::MAX {
                *new_id = selected.len() as u32;
                selected.push(self.token(*id), self.is_word(*id));
            }
            *id = *new_id;
        }
        selected
    }

    /// Appends a token that is not in the dictionary, as the next id.
    ///
    /// # Panics
    /// If all tokens have 2 GiB or more.
    pub fn push(&mut self, token: &[u8], is_word: bool) {
        self.bytes.extend_from_slice(token);
        assert!(
            self.bytes.len() < 1 << END_BITS,
            "a chunk is smaller than 2 GiB"
        );
        let end = self.bytes.len() as u32;
        self.ends.push(end | u32::from(is_word) << END_BITS);
    }
}

/// A slot of the table of short tokens: key and id side by side, two slots to a cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct ShortSlot {
    /// The token's bytes, little-endian, zeros behind its end.
    key: [u64; 2],
    /// The token's size and kind; 0 in a free slot.
    tag: u32,
    id: u32,
}

/// A table of ids by hash; its owner keeps what the ids stand for.
pub struct IdTable {
    /// Length is a power of two; at most three quarters are taken.
    slots: Vec<IdSlot>,
    count: usize,
}

#[derive(Clone, Copy, Default)]
struct IdSlot {
    hash: u64,
    /// One more than the id; 0 in a free slot.
    id_after: u32,
}

impl IdTable {
    /// An empty table.
    pub fn new() -> IdTable {
        IdTable {
            slots: vec![IdSlot::default(); SLOTS_MIN],
            count: 0,
        }
    }

    /// The id with this hash that `is_same` accepts, or else `new_id`, which is inserted.
    pub fn find_or_insert(
        &mut self,
        hash: u64,
        new_id: u32,
        mut is_same: impl FnMut(u32) -> bool,
    ) -> u32 {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        while let Some(id) = self.slots[index].id_after.checked_sub(1) {
            if self.slots[index].hash == hash && is_same(id) {
                return id;
            }
            index = (index + 1) & mask;
        }
        self.slots[index] = IdSlot {
            hash,
            id_after: new_id + 1,
        };
        self.count += 1;
        if self.count * 4 > self.slots.len() * 3 {
            self.grow();
        }
        new_id
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![IdSlot::default(); self.slots.len() * 2];
        let smaller = mem::replace(&mut self.slots, larger);
        let mask = self.slots.len() - 1;
        for slot in smaller.into_iter().filter(|slot| slot.id_after != 0) {
            let mut index = slot.hash as usize & mask;
            while self.slots[index].id_after != 0 {
                index = (index + 1) & mask;
            }
            self.slots[index] = slot;
        }
    }

    fn clear(&mut self) {
        if is_sparse(self.count, self.slots.len()) {
            *self = IdTable::new();
        } else {
            self.slots.fill(IdSlot::default());
            self.count = 0;
        }
    }
}

/// Gives each distinct token a local id and collects the ids of a text.
///
/// A [`Sink`] for [`tokenize`](super::tokenize()); after each chunk, [`Interner::take`] returns the result.
pub struct Interner {
    /// Length is a power of two.
    short: Vec<ShortSlot>,
    short_count: usize,
    long: IdTable,
    /// Random, so that the author of a text cannot choose tokens that collide. No id depends on them.
    seeds: [u64; 2],
    dictionary: LocalDictionary,
    ids: Vec<u32>,
    words: u64,
}

impl Default for Interner {
    fn default() -> Interner {
        Interner::new()
    }
}

impl Interner {
    /// An interner without tokens.
    pub fn new() -> Interner {
        Interner {
            short: vec![ShortSlot::default(); SLOTS_MIN],
            short_count: 0,
            long: IdTable::new(),
            seeds: random_seeds(),
            dictionary: LocalDictionary::default(),
            ids: Vec::new(),
            words: 0,
        }
    }

    /// The number of tokens since the last [`Interner::take`].
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// The number of word tokens since the last [`Interner::take`].
    pub fn words(&self) -> u64 {
        self.words
    }

    /// The local ids of all tokens in order, and their dictionary; the interner is as new afterwards.
    pub fn take(&mut self) -> (Vec<u32>, LocalDictionary) {
        if is_sparse(self.short_count, self.short.len()) {
            self.short = vec![ShortSlot::default(); SLOTS_MIN];
        } else {
            self.short.fill(ShortSlot::default());
        }
        self.long.clear();
        (self.short_count, self.words) = (0, 0);
        let ids = mem::take(&mut self.ids);
        (ids, mem::take(&mut self.dictionary))
    }

    #[inline(always)]
    fn push<const IS_WORD: bool>(&mut self, text: &[u8], start: usize, end: usize) {
        let size = end - start;
        let id = match text.get(start..start + SHORT_BYTES_MAX) {
            Some(window) if size <= SHORT_BYTES_MAX => {
                let window = window.try_into().expect("a window has 16 bytes");
                self.short_id::<IS_WORD>(u128::from_le_bytes(window) & KEY_MASKS[size], size)
            }
            None if size <= SHORT_BYTES_MAX => {
                let mut window = [0; SHORT_BYTES_MAX];
                window[..size].copy_from_slice(&text[start..end]);
                self.short_id::<IS_WORD>(u128::from_le_bytes(window), size)
            }
            _ => self.long_id(&text[start..end], IS_WORD),
        };
        self.ids.push(id);
    }

    #[inline(always)]
    fn short_id<const IS_WORD: bool>(&mut self, key: u128, size: usize) -> u32 {
        let key = [key as u64, (key >> 64) as u64];
        let tag = (size as u32) << 1 | u32::from(IS_WORD);
        let hash = self.short_hash(key, tag);
        let slots = &self.short[..];
        let mut index = hash as usize & (slots.len() - 1);
        loop {
            let slot = &slots[index];
            if slot.key == key && slot.tag == tag {
                return slot.id;
            }
            if slot.tag == 0 {
                return self.insert_short(index, key, tag);
            }
            index = (index + 1) & (slots.len() - 1);
        }
    }

    #[inline(always)]
    fn short_hash(&self, key: [u64; 2], tag: u32) -> u64 {
        fold_multiply(
            key[0] ^ self.seeds[0] ^ u64::from(tag),
            key[1] ^ self.seeds[1],
        )
    }

    #[cold]
    #[inline(never)]
    fn insert_short(&mut self, index: usize, key: [u64; 2], tag: u32) -> u32 {
        let id = self.dictionary.len() as u32;
        let mut bytes = [0; SHORT_BYTES_MAX];
        bytes[..8].copy_from_slice(&key[0].to_le_bytes());
        bytes[8..].copy_from_slice(&key[1].to_le_bytes());
        self.dictionary
            .push(&bytes[..(tag >> 1) as usize], tag & 1 != 0);
        self.short[index] = ShortSlot { key, tag, id };
        self.short_count += 1;
        if self.short_count * 4 > self.short.len() * 3 {
            let larger = vec![ShortSlot::default(); self.short.len() * 2];
            let smaller = mem::replace(&mut self.short, larger);
            let mask = self.short.len() - 1;
            for slot in smaller.into_iter().filter(|slot| slot.tag != 0) {
                let mut index = self.short_hash(slot.key, slot.tag) as usize & mask;
                while self.short[index].tag != 0 {
                    index = (index + 1) & mask;
                }
                self.short[index] = slot;
            }
        }
        id
    }

    #[inline(never)]
    fn long_id(&mut self, token: &[u8], is_word: bool) -> u32 {
        let dictionary = &self.dictionary;
        let new_id = dictionary.len() as u32;
        let hash = hash_bytes(token, self.seeds, is_word);
        let id = self.long.find_or_insert(hash, new_id, |id| {
            dictionary.token(id) == token && dictionary.is_word(id) == is_word
        });
        if id == new_id {
            self.dictionary.push(token, is_word);
        }
        id
    }
}

impl Sink for Interner {
    #[inline(always)]
    fn word(&mut self, text: &[u8], start: usize, end: usize) {
        self.words += 1;
        self.push::<true>(text, start, end);
    }

    #[inline(always)]
    fn gap(&mut self, text: &[u8], start: usize, end: usize) {
        self.push::<false>(text, start, end);
    }
}

/// Whether a table is too large for its content to be cleared and used again.
fn is_sparse(count: usize, slots: usize) -> bool {
    slots > SLOTS_MIN && slots / 16 > count
}

/// Seeds for [`hash_bytes`] that are secret to this process.
pub fn random_seeds() -> [u64; 2] {
    let random = RandomState::new();
    [random.hash_one(0), random.hash_one(1)]
}

/// The high and the low half of a product, which together depend on every bit of both factors.
#[inline(always)]
fn fold_multiply(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// A hash of a token's bytes and kind.
pub fn hash_bytes(token: &[u8], seeds: [u64; 2], is_word: bool) -> u64 {
    let mut hash = seeds[0] ^ (token.len() as u64) << 1 ^ u64::from(is_word);
    let (eights, rest) = token.as_chunks::<8>();
    for eight in eights {
        hash = fold_multiply(hash ^ u64::from_le_bytes(*eight), seeds[1]);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    hash = fold_multiply(hash ^ u64::from_le_bytes(last), seeds[1]);
    fold_multiply(hash ^ seeds[1], seeds[0])
}
