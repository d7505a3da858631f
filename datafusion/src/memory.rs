//! `ZipfMemoryPool`: DataFusion's memory pool as a share of a database's `memory_limit`.
//!
//! Invariant: what operators of DataFusion hold and what ZipfDB keeps of its segments are bounded by one limit, as it is set
//! at that moment. ZipfDB's part gives way; an operator that would take more than all of it spills, or is an error.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use zipfdb::Database;
use zipfdb::memory::MemoryShare;

/// Steps in which the pool takes of the limit.
const STEP_BYTES: usize = 1 << 20;

/// A pool for all queries of a context.
#[derive(Debug)]
pub(crate) struct ZipfMemoryPool {
    state: Mutex<PoolState>,
}

#[derive(Debug)]
struct PoolState {
    /// Takes `reserved`, rounded up to a step.
    share: MemoryShare,
    reserved: usize,
}

impl PoolState {
    fn set(&mut self, bytes: usize) {
        let steps = |bytes: usize| bytes.div_ceil(STEP_BYTES);
        if steps(bytes) != steps(self.reserved) {
            self.share.set((steps(bytes) * STEP_BYTES) as u64);
        }
        self.reserved = bytes;
    }

    fn limit(&self) -> usize {
        usize::try_from(self.share.limit()).unwrap_or(usize::MAX)
    }
}

impl ZipfMemoryPool {
    pub(crate) fn new(database: &Database) -> ZipfMemoryPool {
        ZipfMemoryPool {
            state: Mutex::new(PoolState {
                share: database.memory_share(),
                reserved: 0,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for ZipfMemoryPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        write!(
            formatter,
            "{}(used: {}, memory_limit: {})",
            self.name(),
            state.reserved,
            state.limit()
        )
    }
}

impl MemoryPool for ZipfMemoryPool {
    fn name(&self) -> &str {
        "zipfdb"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        let mut state = self.state();
        let bytes = state.reserved.saturating_add(additional);
        state.set(bytes);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        let mut state = self.state();
        let bytes = state.reserved.saturating_sub(shrink);
        state.set(bytes);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut state = self.state();
        let bytes = state.reserved.saturating_add(additional);
        if bytes > state.limit() {
            return Err(resources_datafusion_err!(
                "{} asks for {additional} bytes beside {} of memory_limit = {}; hint: SET memory_limit to more in ZipfDB's \
                 own dialect",
                reservation.consumer().name(),
                state.reserved,
                state.limit()
            ));
        }
        state.set(bytes);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.state().reserved
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.state().limit())
    }
}
