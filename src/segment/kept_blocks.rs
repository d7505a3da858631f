//! `KeptBlocks`: the blocks of one file that were decoded last.
//!
//! Invariant: at most a fixed number is kept, those used last. Two threads that need a block at once may both decode it: no lock is
//! held meanwhile.

use std::num::NonZeroUsize;
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};

use lru::LruCache;
use parking_lot::Mutex;

use crate::Result;

/// Decoded blocks, by number.
pub(super) struct KeptBlocks<T> {
    blocks: Mutex<LruCache<usize, Arc<[T]>>>,
    #[cfg(test)]
    decoded: AtomicU64,
}

impl<T> KeptBlocks<T> {
    /// None yet, and at most `count`, one at least.
    pub(super) fn new(count: usize) -> KeptBlocks<T> {
        KeptBlocks {
            blocks: Mutex::new(LruCache::new(
                NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN),
            )),
            #[cfg(test)]
            decoded: AtomicU64::new(0),
        }
    }

    /// The most blocks.
    pub(super) fn count_max(&self) -> usize {
        self.blocks.lock().cap().get()
    }

    /// A block, decoded if it is not kept.
    pub(super) fn get(
        &self,
        block: usize,
        decode: impl FnOnce() -> Result<Vec<T>>,
    ) -> Result<Arc<[T]>> {
        if let Some(kept) = self.blocks.lock().get(&block) {
            return Ok(kept.clone());
        }
        let decoded: Arc<[T]> = decode()?.into();
        #[cfg(test)]
        self.decoded.fetch_add(1, Ordering::Relaxed);
        self.blocks.lock().put(block, decoded.clone());
        Ok(decoded)
    }

    /// How often a block was decoded.
    #[cfg(test)]
    pub(super) fn decoded(&self) -> u64 {
        self.decoded.load(Ordering::Relaxed)
    }
}
