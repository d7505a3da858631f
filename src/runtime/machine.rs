//! The memory that the machine has for this process.
//!
//! Invariant: it is looked up once and does not change while the process runs.

use std::sync::OnceLock;

use sysinfo::{MemoryRefreshKind, System};

/// The default share of the machine's memory: one in `MEMORY_SHARE`.
const MEMORY_SHARE: u64 = 4;

/// The least memory of a database, in bytes.
const MEMORY_MIN: u64 = 256 << 20;

/// A quarter of the memory of the machine, or of the control group that limits the process to less, and at least 256 MiB.
pub(crate) fn memory_share() -> u64 {
    static SHARE: OnceLock<u64> = OnceLock::new();
    *SHARE.get_or_init(|| (memory().unwrap_or(0) / MEMORY_SHARE).max(MEMORY_MIN))
}

/// The memory of the machine or of the control group, in bytes; none where the system does not report it.
fn memory() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let machine = system.total_memory();
    let limits = system.cgroup_limits();
    Some(limits.map_or(machine, |limits| limits.total_memory.min(machine)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some_memory() {
        assert!((MEMORY_MIN..1 << 44).contains(&memory_share()));
    }
}
