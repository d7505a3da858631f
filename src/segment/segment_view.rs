//! `SegmentView`: a live segment, and the structures that one piece of work uses.
//!
//! The invariant: what a view has returned stays in memory until the view is dropped, and what is derived never changes and never
//! contradicts the file table, or there is an error instead. Structures are made when first needed, without a lock: two threads
//! that need one at once both make it, and one result is dropped. A lock would be held across parallel work, whose idle thread
//! may take up another query that waits for the same lock.
//!
//! Views are cheap and short-lived: one for each piece of work on a segment, so that the cache can evict what is not in use. A
//! view begins with the pins of an earlier one, if the cache has kept them.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use zipfdb_kernels::give_back_free_memory;

use super::build_budget::BuildBudget;
use super::cache::{Cached, Pins};
use super::live_segment::LiveSegment;
use super::structure::StructureKind;
use crate::Result;

/// The unit of places of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Words,
}

/// A decoded part or derived structure of a segment.
pub(crate) trait SegmentStructure: Sized + Send + Sync + 'static {
    const KIND: StructureKind;

    /// The memory that it takes, in bytes.
    fn bytes(&self) -> usize;

    /// Makes it from other structures of the segment, until `stop` is set.
    fn make(segment: &SegmentView, stop: &AtomicBool) -> Result<Arc<Self>>;
}

/// A segment in use.
pub(crate) struct SegmentView {
    live: Arc<LiveSegment>,
    /// By [`StructureKind`]; kept until the view is dropped.
    pins: Option<Pins>,
    /// A bit for each kind that this view has used.
    used: AtomicU64,
    /// The time that making structures took, in nanoseconds.
    making: AtomicU64,
    /// The bytes of the structures made.
    made: AtomicU64,
}

/// After building structures of this size, return freed memory to the system.
const GIVEN_BACK_MIN: u64 = 8 << 20;

/// An optional structure may take at most 1/CACHE_SHARE of the cache.
const CACHE_SHARE: u64 = 2;

/// The memory for building an n-gram structure is 1/BUILD_SHARE of the cache limit, clamped to `BUILD_BYTES`.
const BUILD_SHARE: u64 = 16;

/// The least and the most memory for building an n-gram structure, in bytes.
const BUILD_BYTES: (u64, u64) = (1 << 22, 1 << 28);

/// The flag of work that is not stopped.
static NEVER: AtomicBool = AtomicBool::new(false);

impl SegmentView {
    /// A view for some work.
    pub(crate) fn of(live: &Arc<LiveSegment>) -> SegmentView {
        SegmentView {
            live: live.clone(),
            pins: Some(live.slots.pins()),
            used: AtomicU64::new(0),
            making: AtomicU64::new(0),
            made: AtomicU64::new(0),
        }
    }

    /// The place for a structure of a kind.
    #[inline]
    fn pin_of(&self, kind: StructureKind) -> &OnceLock<Cached> {
        let pins = self
            .pins
            .as_ref()
            .expect("a view has pins until it is dropped");
        pins.of(kind as usize)
    }

    /// A structure that is pinned already; its use is counted once.
    #[inline]
    fn used(&self, kind: StructureKind) -> Option<&Cached> {
        let pinned = self.pin_of(kind).get()?;
        let (bit, used) = (1 << kind as u32, self.used.load(Ordering::Relaxed));
        if used & bit == 0 {
            // Threads of a view that begin at once may count one use twice.
            self.used.store(used | bit, Ordering::Relaxed);
            self.live.slots.count_use(kind as usize);
        }
        Some(pinned)
    }

    /// Pins a structure from the cache, whose use has been counted.
    fn pin_held(&self, kind: StructureKind, held: Cached) -> &Cached {
        self.used.fetch_or(1 << kind as u32, Ordering::Relaxed);
        self.pin_of(kind).get_or_init(|| held)
    }

    /// Another view of the same segment: for intermediate work, whose pins end before those of this view.
    pub(super) fn apart(&self) -> SegmentView {
        SegmentView::of(&self.live)
    }

    /// A structure, made if it is missing.
    pub(crate) fn pin<S: SegmentStructure>(&self) -> Result<&S> {
        self.pin_until(&NEVER)
    }

    /// As `pin`, unless `stop` ends it.
    pub(crate) fn pin_until<S: SegmentStructure>(&self, stop: &AtomicBool) -> Result<&S> {
        self.pin_made(|| S::make(self, stop))
    }

    /// As `pin`, made in another way if it is missing.
    pub(crate) fn pin_made<S: SegmentStructure>(
        &self,
        make: impl FnOnce() -> Result<Arc<S>>,
    ) -> Result<&S> {
        if let Some(pinned) = self.pinned() {
            return Ok(pinned);
        }
        let (begin, others) = (Instant::now(), self.making.load(Ordering::Relaxed));
        let made = make()?;
        // The structures that it is made of have prices of their own.
        let others = self.making.load(Ordering::Relaxed) - others;
        let price = (begin.elapsed().as_nanos() as u64).saturating_sub(others);
        self.making.fetch_add(price, Ordering::Relaxed);
        Ok(self.hold(made, price))
    }

    /// The time that making structures for this work has taken.
    pub(crate) fn making_time(&self) -> Duration {
        Duration::from_nanos(self.making.load(Ordering::Relaxed))
    }

    /// Whether a structure is in memory; counts no use.
    pub(crate) fn is_there(&self, kind: StructureKind) -> bool {
        self.pin_of(kind).get().is_some() || self.live.has(kind)
    }

    /// Whether some structures are in memory; if so, this view pins them all.
    pub(crate) fn pin_at_hand(&self, kinds: &[StructureKind]) -> bool {
        kinds.iter().all(|&kind| self.pin_there(kind).is_some())
    }

    /// A structure that is in memory.
    fn pin_there(&self, kind: StructureKind) -> Option<&Cached> {
        if let Some(pinned) = self.used(kind) {
            return Some(pinned);
        }
        let held = self.live.slots.get(kind as usize)?;
        Some(self.pin_held(kind, held))
    }

    /// Stores a structure that was made at a price in nanoseconds.
    pub(crate) fn hold<S: SegmentStructure>(&self, made: Arc<S>, price: u64) -> &S {
        let (index, bytes) = (S::KIND as usize, made.bytes() as u64);
        self.made.fetch_add(bytes, Ordering::Relaxed);
        let cache = self.live.slots.cache();
        let held = self.live.slots.put(index, made, bytes, price);
        if bytes >= GIVEN_BACK_MIN && cache.is_full() {
            give_back_free_memory();
        }
        typed(self.pin_held(S::KIND, held))
    }

    /// A structure, if it is in memory.
    pub(crate) fn pinned<S: SegmentStructure>(&self) -> Option<&S> {
        self.pin_there(S::KIND).map(typed)
    }

    /// An optional structure, if it is in memory, or if it is due and the cache has room for its `bytes`.
    ///
    /// # Errors
    /// If making it fails.
    pub(crate) fn pin_if_due<S: SegmentStructure>(
        &self,
        budget: &BuildBudget,
        price: u64,
        bytes: u64,
        stop: &AtomicBool,
    ) -> Result<Option<&S>> {
        if let Some(pinned) = self.pinned() {
            return Ok(Some(pinned));
        }
        if !self.has_room(bytes) {
            return Ok(None);
        }
        budget.build_if_due(price, || self.pin_until::<S>(stop))
    }

    /// Bytes for keys or windows while an n-gram structure is built, beside its final size.
    pub(crate) fn build_bytes(&self) -> usize {
        let share = self.live.slots.cache().limit() / BUILD_SHARE;
        share.clamp(BUILD_BYTES.0, BUILD_BYTES.1) as usize // at most 256 MiB
    }

    /// Whether the cache has room for an optional structure of `bytes` bytes.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.live.slots.cache().limit() / CACHE_SHARE
    }
}

impl Deref for SegmentView {
    type Target = LiveSegment;

    fn deref(&self) -> &LiveSegment {
        &self.live
    }
}

impl Drop for SegmentView {
    fn drop(&mut self) {
        if let Some(pins) = self.pins.take() {
            self.live.slots.retire(pins);
        }
        if *self.made.get_mut() >= GIVEN_BACK_MIN {
            give_back_free_memory();
        }
    }
}

/// The structure in a slot of this kind.
fn typed<S: SegmentStructure>(cached: &Cached) -> &S {
    let typed = cached.downcast_ref();
    typed.expect("a slot holds structures of its kind")
}
