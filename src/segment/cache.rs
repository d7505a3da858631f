//! `Cache`: decoded parts and derived structures of all segments of a database, within one limit of memory.
//!
//! The structure of the least worth is evicted first: GreedyDual-Size (Cao and Irani, USENIX 1997, section 4), which values a
//! structure by the time it took to make, for each byte, and ages it by what was evicted since its last use. Invariant: the
//! content takes at most the limit, beside what views have pinned and what the last of them used; a pinned structure is never
//! evicted, because that would free nothing. While there is room the pins of the last work on an owner are kept for the next one,
//! which then need not look them up. The cache knows no segment and no structure.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use zipfdb_kernels::give_back_free_memory;

use crate::Result;

/// Something that was made and can be made again.
pub(crate) type Cached = Arc<dyn Any + Send + Sync>;

/// Evicted bytes from which on free memory is returned to the system.
const GIVEN_BACK_MIN: u64 = 4 << 20;

/// The step by which a reservation grows: large enough that growth is rare.
const RESERVATION_STEP: u64 = 1 << 18;

/// The structures of all owners, within a limit.
pub(crate) struct Cache {
    /// Limit of the cache in bytes.
    limit: AtomicU64,
    /// Bytes of its content.
    used: AtomicU64,
    /// Bytes of the limit that are reserved for other uses.
    reserved: AtomicU64,
    /// The worth of the last evicted structure, as the bits of an f64: a structure used now is worth that much more.
    clock: AtomicU64,
    entries: Mutex<Vec<CacheEntry>>,
    /// The structures that the last work used, while the content exceeds the limit.
    last_used: Mutex<Vec<Cached>>,
    /// Bytes of all structures that were ever made.
    #[cfg(test)]
    made: AtomicU64,
}

/// A structure in the cache.
struct CacheEntry {
    owner: Weak<Slots>,
    index: usize,
    bytes: u64,
    /// The time that making it took, in nanoseconds.
    price: u64,
}

/// The structures of one owner, by index.
pub(crate) struct Slots {
    cache: Arc<Cache>,
    slots: Box<[Slot]>,
    /// Pins that no work uses; none while the content exceeds the limit.
    idle: Mutex<Option<Pins>>,
    /// The number of structures given up that may be pinned.
    forgotten: AtomicU64,
}

/// The structures of one owner that some work uses, by index.
pub(crate) struct Pins {
    pins: Box<[OnceLock<Cached>]>,
    /// The value of `Slots::forgotten` when they began.
    forgotten: u64,
}

impl Pins {
    /// The place of a structure.
    #[inline]
    pub(crate) fn of(&self, index: usize) -> &OnceLock<Cached> {
        &self.pins[index]
    }
}

/// A place for one structure.
#[derive(Default)]
struct Slot {
    held: RwLock<Option<Cached>>,
    /// The clock of the cache at the last use.
    clock: AtomicU64,
    uses: AtomicU64,
}

/// The state of a structure in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachedFacts {
    pub(crate) index: usize,
    pub(crate) bytes: u64,
    /// The time that making it took, in nanoseconds.
    pub(crate) price: u64,
    pub(crate) uses: u64,
}

impl Cache {
    /// An empty cache with a limit of `limit` bytes.
    pub(crate) fn new(limit: u64) -> Cache {
        Cache {
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            clock: AtomicU64::new(0f64.to_bits()),
            entries: Mutex::default(),
            last_used: Mutex::default(),
            #[cfg(test)]
            made: AtomicU64::new(0),
        }
    }

    /// Bytes of all structures that were ever made.
    #[cfg(test)]
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// The limit in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the limit, and evicts the excess.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.trim();
    }

    /// Bytes of its content.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether the content exceeds the room, because structures are pinned.
    pub(crate) fn is_full(&self) -> bool {
        self.used() > self.room()
    }

    /// Bytes that the content may have now.
    fn room(&self) -> u64 {
        (self.limit()).saturating_sub(self.reserved.load(Ordering::Relaxed))
    }

    /// Bytes of the limit that are reserved for other uses.
    #[cfg(test)]
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Bytes above the room that could be evicted: neither pinned nor used by the last work.
    #[cfg(test)]
    pub(crate) fn overdraft(&self) -> u64 {
        let entries = self.entries.lock();
        let could = entries.iter().filter(|entry| entry.worth().is_some());
        let could: u64 = could.map(|entry| entry.bytes).sum();
        could.min(self.used().saturating_sub(self.room()))
    }

    /// An empty reservation.
    pub(crate) fn reservation(self: &Arc<Cache>) -> Reservation {
        Reservation {
            cache: self.clone(),
            bytes: 0,
        }
    }

    /// Makes room: evicts the structures of the least worth until the rest fits, or all that is left is pinned.
    pub(crate) fn trim(&self) {
        if self.used() > self.room() {
            drop(std::mem::take(&mut *self.last_used.lock()));
            self.evict();
        }
    }

    /// Takes the pins of work that is done. If they alone exceed the limit they stay, until other work is done or makes a
    /// structure: otherwise a series of small queries would make the same structures for each of them.
    fn retire(&self, used: Pins) {
        let used = used.pins.into_iter().filter_map(OnceLock::into_inner);
        let before = std::mem::replace(&mut *self.last_used.lock(), used.collect());
        drop(before);
        self.evict();
    }

    fn evict(&self) {
        let (mut evicted, mut bytes) = (Vec::new(), 0);
        // An owner dropped meanwhile is freed when this function ends: its drop takes the lock of the entries.
        let owners: Vec<Arc<Slots>>;
        {
            let mut entries = self.entries.lock();
            let all = entries.iter().filter_map(|entry| entry.owner.upgrade());
            owners = all.collect();
            // Idle pins are dropped.
            for owner in &owners {
                let idle = owner.idle.lock().take();
                drop(idle);
            }
            while self.used() > self.room() {
                let worths = entries.iter().enumerate();
                let worths = worths.filter_map(|(place, entry)| Some((place, entry.worth()?)));
                let Some((place, worth)) =
                    worths.min_by(|(_, left), (_, right)| left.total_cmp(right))
                else {
                    break;
                };
                self.clock.store(worth.to_bits(), Ordering::Relaxed);
                let entry = entries.swap_remove(place);
                self.used.fetch_sub(entry.bytes, Ordering::Relaxed);
                bytes += entry.bytes;
                evicted.extend(entry.take());
            }
        }
        // Freeing large structures takes time: done without the lock.
        drop(evicted);
        drop(owners);
        if bytes >= GIVEN_BACK_MIN {
            give_back_free_memory();
        }
    }
}

/// A part of the limit that is reserved for other memory than the cache's, until it is dropped.
pub(crate) struct Reservation {
    cache: Arc<Cache>,
    bytes: u64,
}

impl Reservation {
    /// Grows the reservation to at least `bytes`.
    pub(crate) fn cover(&mut self, bytes: usize) {
        // usize has at most 64 bits.
        let bytes = bytes as u64;
        if bytes > self.bytes {
            self.set(bytes.next_multiple_of(RESERVATION_STEP));
        }
    }

    /// Sets the reservation to `bytes`, for which the cache makes room as far as it can.
    pub(crate) fn set(&mut self, bytes: u64) {
        let reserved = &self.cache.reserved;
        if bytes >= self.bytes {
            reserved.fetch_add(bytes - self.bytes, Ordering::Relaxed)
        } else {
            reserved.fetch_sub(self.bytes - bytes, Ordering::Relaxed)
        };
        self.bytes = bytes;
        self.cache.trim();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl CacheEntry {
    /// The loss by evicting it; none if that frees nothing now.
    fn worth(&self) -> Option<f64> {
        let owner = self.owner.upgrade()?;
        let slot = &owner.slots[self.index];
        // One reference is the slot's. A view that takes one meanwhile only keeps it in memory.
        let is_pinned = |held: &Cached| Arc::strong_count(held) > 1;
        if slot.held.read().as_ref().is_none_or(is_pinned) {
            return None;
        }
        let clock = f64::from_bits(slot.clock.load(Ordering::Relaxed));
        Some(clock + self.price as f64 / self.bytes.max(1) as f64)
    }

    fn take(&self) -> Option<Cached> {
        let owner = self.owner.upgrade()?;
        owner.slots[self.index].held.write().take()
    }
}

/// The place of one structure, which grows while it is held.
pub(crate) struct CacheSlot<'a> {
    slots: &'a Arc<Slots>,
    index: usize,
}

impl<'a> CacheSlot<'a> {
    pub(crate) fn new(slots: &'a Arc<Slots>, index: usize) -> CacheSlot<'a> {
        CacheSlot { slots, index }
    }

    /// The limit of the cache in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.slots.cache.limit()
    }

    /// What is held, which begins empty.
    pub(crate) fn get_or_begin<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let held = match self.slots.get(self.index) {
            Some(held) => held,
            None => self.slots.put(self.index, Arc::new(T::default()), 0, 0),
        };
        held.downcast().expect("a slot holds one kind of structure")
    }

    /// Sets the size of what is held, and the time in nanoseconds that making it took.
    pub(crate) fn resize(&self, bytes: u64, price: u64) {
        self.slots.resize(self.index, bytes, price);
    }
}

impl Slots {
    /// `count` empty slots.
    pub(crate) fn new(cache: Arc<Cache>, count: usize) -> Arc<Slots> {
        Arc::new(Slots {
            cache,
            slots: (0..count).map(|_| Slot::default()).collect(),
            idle: Mutex::default(),
            forgotten: AtomicU64::new(0),
        })
    }

    /// Pins for some work: those of earlier work, or new ones.
    pub(crate) fn pins(&self) -> Pins {
        let idle = self.idle.lock().take();
        idle.unwrap_or_else(|| Pins {
            pins: (0..self.slots.len()).map(|_| OnceLock::new()).collect(),
            forgotten: self.forgotten.load(Ordering::Relaxed),
        })
    }

    /// Takes the pins of work that is done.
    pub(crate) fn retire(&self, pins: Pins) {
        if self.cache.is_full() {
            return self.cache.retire(pins);
        }
        let mut idle = self.idle.lock();
        let unused = if pins.forgotten == self.forgotten.load(Ordering::Relaxed) {
            idle.replace(pins)
        } else {
            // The cache may have given up a value that these pins hold.
            Some(pins)
        };
        drop(idle);
        drop(unused);
        // The cache may have become full after the look above: its eviction has not seen these pins.
        if self.cache.is_full() {
            let idle = self.idle.lock().take();
            drop(idle);
        }
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Whether a structure is in the cache; counts no use.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.slots[index].held.read().is_some()
    }

    /// A structure in the cache, pinned as long as the caller keeps it.
    pub(crate) fn get(&self, index: usize) -> Option<Cached> {
        let held = self.slots[index].held.read().clone()?;
        self.count_use(index);
        Some(held)
    }

    /// Counts a use of a structure.
    #[inline]
    pub(crate) fn count_use(&self, index: usize) {
        let slot = &self.slots[index];
        // Simultaneous uses may count as one, which avoids exclusive access to memory.
        let uses = slot.uses.load(Ordering::Relaxed);
        slot.uses.store(uses + 1, Ordering::Relaxed);
        (slot.clock).store(self.cache.clock.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Stores a structure that was made at a price in nanoseconds. Returns the stored one, which is another thread's if that was
    /// first.
    pub(crate) fn put(
        self: &Arc<Slots>,
        index: usize,
        made: Cached,
        bytes: u64,
        price: u64,
    ) -> Cached {
        let slot = &self.slots[index];
        {
            let mut held = slot.held.write();
            if let Some(held) = &*held {
                return held.clone();
            }
            *held = Some(made.clone());
            slot.uses.store(1, Ordering::Relaxed);
            (slot.clock).store(self.cache.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        #[cfg(test)]
        self.cache.made.fetch_add(bytes, Ordering::Relaxed);
        self.cache.entries.lock().push(CacheEntry {
            owner: Arc::downgrade(self),
            index,
            bytes,
            price,
        });
        self.cache.used.fetch_add(bytes, Ordering::Relaxed);
        self.cache.trim();
        made
    }

    /// What is held, made by `make` if nothing is; `bytes` says how much memory it takes.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn get_or_make<T: Send + Sync + 'static>(
        self: &Arc<Slots>,
        index: usize,
        bytes: impl Fn(&T) -> usize,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let held = match self.get(index) {
            Some(held) => held,
            None => {
                let begin = Instant::now();
                let made = make()?;
                // 64 bits are enough for both.
                let (bytes, price) = (bytes(&made) as u64, begin.elapsed().as_nanos() as u64);
                self.put(index, Arc::new(made), bytes, price)
            }
        };
        Ok(held.downcast().expect("a slot holds one kind of structure"))
    }

    /// Sets the size of a held structure, which has grown, and its price in nanoseconds.
    fn resize(&self, index: usize, bytes: u64, price: u64) {
        {
            let mut entries = self.cache.entries.lock();
            let is_it = |entry: &&mut CacheEntry| entry.index == index && entry.is_of(self);
            let Some(entry) = entries.iter_mut().find(is_it) else {
                // It was evicted meanwhile.
                return;
            };
            self.cache.used.fetch_add(bytes, Ordering::Relaxed);
            self.cache.used.fetch_sub(entry.bytes, Ordering::Relaxed);
            (entry.bytes, entry.price) = (bytes, price);
        }
        self.cache.trim();
    }

    /// Holds one no longer.
    pub(crate) fn forget(&self, index: usize) {
        let place = |entries: &[CacheEntry]| {
            let is_it = |entry: &CacheEntry| entry.index == index && entry.is_of(self);
            entries.iter().position(is_it)
        };
        let mut entries = self.cache.entries.lock();
        let Some(place) = place(&entries) else { return };
        let entry = entries.swap_remove(place);
        self.cache.used.fetch_sub(entry.bytes, Ordering::Relaxed);
        drop(entries);
        drop(self.slots[index].held.write().take());
        let unused = {
            let mut idle = self.idle.lock();
            self.forgotten.fetch_add(1, Ordering::Relaxed);
            idle.take()
        };
        drop(unused);
    }

    /// The state of all structures.
    pub(crate) fn facts(&self) -> Vec<CachedFacts> {
        let entries = self.cache.entries.lock();
        let own = entries.iter().filter(|entry| entry.is_of(self));
        let mut facts: Vec<CachedFacts> = own
            .map(|entry| CachedFacts {
                index: entry.index,
                bytes: entry.bytes,
                price: entry.price,
                uses: self.slots[entry.index].uses.load(Ordering::Relaxed),
            })
            .collect();
        facts.sort_unstable_by_key(|facts| facts.index);
        facts
    }
}

impl CacheEntry {
    fn is_of(&self, owner: &Slots) -> bool {
        std::ptr::eq(self.owner.as_ptr(), owner)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let mut entries = self.cache.entries.lock();
        let mut freed = 0;
        entries.retain(|entry| {
            let is_own = entry.is_of(self);
            freed += if is_own { entry.bytes } else { 0 };
            !is_own
        });
        self.cache.used.fetch_sub(freed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn put(slots: &Arc<Slots>, index: usize, bytes: u64, price: u64) {
        drop(slots.put(index, Arc::new(index), bytes, price));
    }

    fn held(slots: &Slots) -> Vec<usize> {
        slots.facts().iter().map(|facts| facts.index).collect()
    }

    #[test]
    fn what_is_cheap_to_make_again_goes_first_and_what_is_not_used_ages() {
        let cache = Arc::new(Cache::new(100));
        let slots = Slots::new(cache.clone(), 8);
        put(&slots, 0, 40, 4000);
        put(&slots, 1, 40, 400);
        put(&slots, 2, 20, 1000);
        assert_eq!((held(&slots), cache.used()), (vec![0, 1, 2], 100));
        // 10 a byte is the least.
        put(&slots, 3, 10, 1000);
        // A place of 30 is left; the new structure is used now, so it is worth 10 more than one used before the eviction.
        assert_eq!((held(&slots), cache.used()), (vec![0, 2, 3], 70));
        put(&slots, 4, 40, 1800);
        assert_eq!(held(&slots), [0, 3, 4]);
        // Each of them is worth more than slot 0 in the end, unless that is used.
        for _ in 0..20 {
            assert!(slots.get(0).is_some());
            put(&slots, 5, 30, 900);
            put(&slots, 6, 30, 900);
        }
        assert!(slots.has(0) && !slots.has(3) && !slots.has(4));
        for _ in 0..20 {
            put(&slots, 1, 30, 900);
            put(&slots, 2, 30, 900);
            put(&slots, 5, 30, 900);
            put(&slots, 6, 30, 900);
        }
        assert!(!slots.has(0));
    }

    #[test]
    fn what_is_pinned_stays_and_goes_when_it_is_free() {
        let cache = Arc::new(Cache::new(10));
        let (first, second) = (Slots::new(cache.clone(), 1), Slots::new(cache.clone(), 1));
        let pin = first.put(0, Arc::new(1u8), 10, 0);
        let other = second.put(0, Arc::new(2u8), 10, 9);
        assert_eq!(cache.used(), 20);
        drop(pin);
        cache.trim();
        assert_eq!(
            (first.has(0), second.has(0), cache.used()),
            (false, true, 10)
        );
        cache.set_limit(5);
        assert!(second.has(0));
        // Another thread was first.
        let same = second.put(0, Arc::new(3u8), 10, 9);
        assert_eq!(same.downcast_ref::<u8>(), Some(&2));
        drop((same, other));
        cache.trim();
        assert_eq!((second.has(0), cache.used()), (false, 0));
    }

    #[test]
    fn what_was_used_last_stays_until_other_work_is_done() {
        let cache = Arc::new(Cache::new(10));
        let slots = Slots::new(cache.clone(), 3);
        let pin = |pins: &Pins, index: usize, cached: Cached| {
            pins.of(index).get_or_init(|| cached);
        };
        let large = slots.pins();
        (0..2).for_each(|i| pin(&large, i, slots.put(i, Arc::new(i), 20, 1)));
        assert_eq!(held(&slots), [0, 1]);
        slots.retire(large);
        assert_eq!((held(&slots), cache.used()), (vec![0, 1], 40));
        // The next query uses one of them.
        let next = slots.pins();
        pin(&next, 1, slots.get(1).unwrap());
        slots.retire(next);
        assert_eq!(held(&slots), [1]);
        put(&slots, 2, 5, 1);
        cache.trim();
        assert_eq!(held(&slots), [2]);
    }

    #[test]
    fn pins_are_kept_for_the_next_work_while_there_is_room_and_nothing_was_given_up() {
        let cache = Arc::new(Cache::new(30));
        let slots = Slots::new(cache.clone(), 2);
        let pinned = |index: usize, bytes: u64| {
            let pins = slots.pins();
            pins.of(index)
                .get_or_init(|| slots.put(index, Arc::new(index), bytes, 1));
            pins
        };
        slots.retire(pinned(0, 10));
        let again = slots.pins();
        assert!(again.of(0).get().is_some() && again.of(1).get().is_none());
        // Other work at the same time begins without pins.
        assert!(slots.pins().of(0).get().is_none());
        slots.forget(0);
        slots.retire(again);
        assert!(slots.pins().of(0).get().is_none());
        slots.retire(pinned(1, 10));
        slots.forget(1);
        assert!(slots.pins().of(1).get().is_none());
        // Finished work pins nothing when room is needed.
        slots.retire(pinned(0, 10));
        cache.set_limit(5);
        assert_eq!((held(&slots), cache.used()), (vec![], 0));
        cache.set_limit(30);
        slots.retire(pinned(0, 10));
        put(&slots, 1, 25, 9);
        assert_eq!((held(&slots), cache.used()), (vec![1], 25));
    }

    #[test]
    fn what_others_take_is_not_held() {
        let cache = Arc::new(Cache::new(10));
        let slots = Slots::new(cache.clone(), 2);
        put(&slots, 0, 5, 3);
        put(&slots, 1, 5, 9);
        let mut reservation = cache.reservation();
        reservation.set(4);
        assert_eq!(held(&slots), [1]);
        reservation.set(100);
        assert_eq!(cache.used(), 0);
        reservation.set(5);
        put(&slots, 0, 5, 3);
        assert_eq!(held(&slots), [0]);
        drop(reservation);
        put(&slots, 1, 5, 9);
        assert_eq!(held(&slots), [0, 1]);
    }

    #[test]
    fn an_owner_that_goes_frees_what_it_has() {
        let cache = Arc::new(Cache::new(1000));
        let (first, second) = (Slots::new(cache.clone(), 3), Slots::new(cache.clone(), 3));
        (0..3).for_each(|index| put(&first, index, 5, 7));
        put(&second, 1, 3, 9);
        first.forget(1);
        first.forget(1);
        assert!(second.get(1).is_some());
        let facts = CachedFacts {
            index: 1,
            bytes: 3,
            price: 9,
            uses: 2,
        };
        assert_eq!((held(&first), second.facts()), (vec![0, 2], vec![facts]));
        assert_eq!(cache.used(), 13);
        drop(first);
        assert_eq!(cache.used(), 3);
    }
}
