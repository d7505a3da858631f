//! The steps of an automaton over rules. A symbol that is read in a state leads to a state and has a number of events; both are kept.
//!
//! States that meet many symbols have a row: an array over all symbols, which all threads share. What other states meet is in a
//! hash table of each thread. The invariant: what is remembered is true of the grammar, the machine and the direction of the memo,
//! so a lost entry costs time only. Memory is bounded: no row is made past the bound, and a table that may not grow is emptied.
//!
//! Why rows are shared: a first count of a frequent word in rfc_txt by two threads takes 80 ms, with a memo for each thread 112 ms.
//! Why tables are not: an automaton of 192 states that finds two frequent words with a gap takes one thread 660 ms and two 345.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::memory::huge_pages::on_huge_pages;
use crate::spans::common_steps::CommonSteps;
use crate::spans::machine::{DEAD, Total};

/// States from this number on have no rows.
const ROW_STATES: usize = 1 << 10;

/// A state gets a row once it has met a sixteenth of all symbols in one thread: the row then is four times as large as its pairs
/// in a hash table, and quicker.
const ROW_SHARE: usize = 16;

/// Slots of a hash table at first.
const PAIRS_MIN: usize = 1 << 10;

/// The direction in which a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From its first terminal to its last.
    Forward,
    /// From its last terminal to its first.
    Backward,
}

/// A total in 64 bits: state, events, and 1 in the lowest bit. 0 is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(u64);

/// In place of events: their number is among the large ones.
const LARGE: u64 = (1 << 31) - 1;

impl Entry {
    pub(super) const UNKNOWN: Entry = Entry(0);

    /// The total, with its events cut at [`LARGE`].
    #[inline]
    pub(super) fn new(state: u32, events: u64) -> Entry {
        Entry(u64::from(state) << 32 | events.min(LARGE) << 1 | 1)
    }

    #[inline]
    fn state(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    fn events(self) -> u64 {
        self.0 >> 1 & LARGE
    }
}

/// What is known of a state at every symbol.
pub(super) struct Row {
    entries: Box<[AtomicU64]>,
    /// All symbols were looked at.
    is_filled: AtomicBool,
}

impl Row {
    // Entries are whole in themselves; only large numbers of events are elsewhere.
    #[inline]
    pub(super) fn get(&self, symbol: u32) -> Entry {
        Entry(self.entries[symbol as usize].load(Ordering::Relaxed))
    }

    /// Whether all symbols were looked at.
    pub(super) fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Relaxed)
    }

    pub(super) fn set_filled(&self) {
        self.is_filled.store(true, Ordering::Relaxed);
    }

    fn set(&self, symbol: u32, entry: Entry) {
        self.entries[symbol as usize].store(entry.0, Ordering::Release);
    }
}

/// What a machine does at the symbols of a grammar, as far as it was asked. It belongs to one grammar, one machine, and one
/// direction; `C` is the machine's cache. Threads share it.
pub struct SpanMemo<C> {
    pub(super) direction: Direction,
    symbol_count: usize,
    bytes_max: usize,
    bytes: AtomicUsize,
    rows: Box<[OnceLock<Row>]>,
    /// What symbols do from usual states, if that was asked for.
    common: OnceLock<CommonSteps>,
    /// Numbers of events that do not fit into an entry.
    large: Mutex<HashMap<u64, u64>>,
    idle: Mutex<Vec<Worker<C>>>,
}

/// What one thread has of a memo, and its stack.
pub(super) struct Worker<C> {
    pub(super) cache: C,
    pub(super) frames: Vec<Frame>,
    pairs: Pairs,
    /// For each state the number of pairs that were found.
    pairs_of_state: Vec<u32>,
}

/// A rule that is being read.
pub(super) struct Frame {
    pub(super) symbol: u32,
    /// The state before the rule.
    pub(super) before: u32,
    /// The state now.
    pub(super) state: u32,
    /// Symbols of the body still to be read: from `from` to `to`.
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) events: u64,
}

impl<C> SpanMemo<C> {
    /// An empty memo for a grammar of `symbol_count` symbols, terminals and rules, that takes up to `bytes_max` bytes, and in
    /// addition 40 KiB, and 16 KiB and the machine's cache for each thread.
    pub fn new(symbol_count: usize, direction: Direction, bytes_max: usize) -> SpanMemo<C> {
        SpanMemo {
            direction,
            symbol_count,
            bytes_max,
            bytes: AtomicUsize::new(0),
            rows: (0..ROW_STATES).map(|_| OnceLock::new()).collect(),
            common: OnceLock::new(),
            large: Mutex::new(HashMap::new()),
            idle: Mutex::new(Vec::new()),
        }
    }

    /// The direction in which it reads.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Memory of rows and tables.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn row(&self, state: u32) -> Option<&Row> {
        self.rows.get(state as usize)?.get()
    }

    #[inline]
    pub(super) fn common(&self) -> Option<&CommonSteps> {
        self.common.get()
    }

    /// Keeps what symbols do from usual states; false if that is known.
    pub(super) fn set_common(&self, steps: CommonSteps) -> bool {
        self.common.set(steps).is_ok()
    }

    /// Gives the state a row, if memory allows it.
    pub(super) fn make_row(&self, state: u32) {
        let Some(row) = self.rows.get(state as usize) else {
            return;
        };
        let bytes = self.symbol_count * size_of::<AtomicU64>();
        if row.get().is_some() || !self.reserve(bytes) {
            return;
        }
        let mut entries = on_huge_pages(Vec::with_capacity(self.symbol_count));
        entries.resize_with(self.symbol_count, AtomicU64::default);
        let entries = entries.into_boxed_slice();
        let is_filled = AtomicBool::new(false);
        if row.set(Row { entries, is_filled }).is_err() {
            self.give_back(bytes);
        }
    }

    pub(super) fn reserve(&self, bytes: usize) -> bool {
        let reserved = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_within = reserved.saturating_add(bytes) <= self.bytes_max;
        if !is_within {
            self.give_back(bytes);
        }
        is_within
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The total of an entry of this pair.
    #[inline]
    pub(super) fn total(&self, state: u32, symbol: u32, entry: Entry) -> Total {
        let mut events = entry.events();
        if events == LARGE {
            events = self.large_events(pair(state, symbol));
        }
        Total {
            state: entry.state(),
            events,
        }
    }

    #[cold]
    fn large_events(&self, pair: u64) -> u64 {
        fence(Ordering::Acquire);
        let large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        *large
            .get(&pair)
            .expect("an entry is written after its large number of events")
    }

    /// The entry of a pair, the number of whose events is kept apart if it is large.
    fn entry(&self, state: u32, symbol: u32, total: Total) -> Entry {
        let entry = Entry::new(total.state, total.events);
        if entry.events() == LARGE {
            let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
            large.insert(pair(state, symbol), total.events);
        }
        entry
    }

    /// A worker that no other thread uses.
    pub(super) fn worker(&self, cache: impl FnOnce() -> C) -> Worker<C> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = idle.pop();
        drop(idle);
        worker.unwrap_or_else(|| Worker {
            cache: cache(),
            frames: Vec::new(),
            pairs: Pairs::new(PAIRS_MIN),
            pairs_of_state: Vec::new(),
        })
    }

    /// Keeps what a worker knows for the next thread.
    pub(super) fn keep(&self, worker: Worker<C>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(worker);
    }
}

impl<C> Worker<C> {
    /// What the hash table knows of a pair.
    #[inline]
    pub(super) fn get(&self, memo: &SpanMemo<C>, state: u32, symbol: u32) -> Option<Total> {
        let entry = self.pairs.get(pair(state, symbol));
        (entry != Entry::UNKNOWN).then(|| memo.total(state, symbol, entry))
    }

    /// Remembers a pair of a state and a symbol of the grammar, terminals in rows only.
    pub(super) fn put(
        &mut self,
        memo: &SpanMemo<C>,
        state: u32,
        symbol: u32,
        total: Total,
        is_terminal: bool,
    ) {
        let entry = memo.entry(state, symbol, total);
        if let Some(row) = memo.row(state) {
            row.set(symbol, entry);
        } else if !is_terminal {
            self.put_pair(memo, state, symbol, entry);
        }
    }

    /// Remembers a pair of a state and what is no symbol of the grammar, but numbered behind them.
    pub(super) fn put_apart(&mut self, memo: &SpanMemo<C>, state: u32, symbol: u32, total: Total) {
        let entry = memo.entry(state, symbol, total);
        self.put_pair(memo, state, symbol, entry);
    }

    fn put_pair(&mut self, memo: &SpanMemo<C>, state: u32, symbol: u32, entry: Entry) {
        if self.pairs.is_full() {
            let more = self.pairs.slots.len() * size_of::<(u64, Entry)>() * 2;
            if memo.reserve(more) {
                memo.give_back(more / 2);
                self.pairs.grow();
            } else {
                self.pairs.clear();
                self.pairs_of_state.clear();
            }
        }
        self.pairs.insert(pair(state, symbol), entry);
        let state_index = state as usize;
        if state_index < ROW_STATES {
            if self.pairs_of_state.len() <= state_index {
                self.pairs_of_state.resize(state_index + 1, 0);
            }
            let found = &mut self.pairs_of_state[state_index];
            *found += 1;
            if *found as usize >= memo.symbol_count / ROW_SHARE {
                *found = 0;
                memo.make_row(state);
            }
        }
    }
}

/// A pair as a key; never 0.
#[inline]
fn pair(state: u32, symbol: u32) -> u64 {
    debug_assert_ne!(state, DEAD);
    !(u64::from(state) << 32 | u64::from(symbol))
}

/// A hash table with open addressing, at most half full.
struct Pairs {
    slots: Vec<(u64, Entry)>,
    len: usize,
}

impl Pairs {
    /// With a power of two of slots.
    fn new(slots: usize) -> Pairs {
        Pairs {
            slots: vec![(0, Entry::UNKNOWN); slots],
            len: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.len >= self.slots.len() / 2
    }

    /// Where the key lies, or the empty slot where it belongs.
    #[inline]
    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (hash >> 32) as usize & mask;
        while self.slots[slot].0 != key && self.slots[slot].0 != 0 {
            slot = (slot + 1) & mask;
        }
        slot
    }

    #[inline]
    fn get(&self, key: u64) -> Entry {
        self.slots[self.slot(key)].1
    }

    fn insert(&mut self, key: u64, entry: Entry) {
        let slot = self.slot(key);
        self.len += usize::from(self.slots[slot].0 == 0);
        self.slots[slot] = (key, entry);
    }

    fn grow(&mut self) {
        let larger = Pairs::new(self.slots.len() * 2);
        let smaller = std::mem::replace(self, larger);
        for (key, entry) in smaller.slots {
            if key != 0 {
                self.insert(key, entry);
            }
        }
    }

    fn clear(&mut self) {
        self.slots.fill((0, Entry::UNKNOWN));
        self.len = 0;
    }
}
