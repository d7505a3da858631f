//! `MemoryShare`: memory of the program around the database, charged to `memory_limit`.
//!
//! Invariant: memory taken by a share is not available for parts of segments in the cache, until the share gives it back or is
//! dropped. The database never refuses: the program compares its use with the limit.

use std::fmt;
use std::sync::Arc;

use crate::segment::cache::{Cache, Reservation};

/// A share of `memory_limit` for the program's own work on answers; made by [`crate::Database::memory_share`].
///
/// ```
/// use zipfdb::Database;
///
/// let db = Database::in_memory()?;
/// db.execute_batch("SET memory_limit = '64MiB'")?;
/// let mut share = db.memory_share();
/// share.set(16 << 20);
/// assert_eq!(share.limit(), 64 << 20);
/// # Ok::<(), zipfdb::Error>(())
/// ```
pub struct MemoryShare {
    cache: Arc<Cache>,
    reservation: Reservation,
}

impl MemoryShare {
    pub(crate) fn new(cache: &Arc<Cache>) -> MemoryShare {
        MemoryShare {
            cache: cache.clone(),
            reservation: cache.reservation(),
        }
    }

    /// Reserves `bytes` from now on, in place of what was reserved before; decoded and derived parts of segments make room as
    /// far as they can. A call may take a lock, so call it for each MiB and not for each value.
    pub fn set(&mut self, bytes: u64) {
        self.reservation.set(bytes);
    }

    /// `memory_limit`, in bytes.
    pub fn limit(&self) -> u64 {
        self.cache.limit()
    }
}

impl fmt::Debug for MemoryShare {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (formatter.debug_struct("MemoryShare"))
            .field("limit", &self.limit())
            .finish_non_exhaustive()
    }
}
