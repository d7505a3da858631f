//! Freed memory back to the system.
//!
//! The invariant: this is advice only. What is built takes more memory on the way than it has in the end; the C library
//! keeps much of what was freed for later, and a process seems to be larger than what it holds. Where the library cannot
//! be told, nothing happens.

/// Tells the C library to give back the memory that it has no use for now. It takes some milliseconds for each 100 MB.
pub fn give_back_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        // SAFETY: as malloc.h declares it; it may be called at any time by any thread.
        unsafe extern "C" {
            safe fn malloc_trim(pad: usize) -> c_int;
        }
        let freed = malloc_trim(0);
        tracing::trace!("malloc_trim: {freed}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_stays() {
        let held: Vec<Vec<u32>> = (0..1_000).map(|n| vec![n; n as usize]).collect();
        drop(vec![1u8; 1 << 20]);
        give_back_free_memory();
        let all = (0..).zip(&held);
        assert!(all.into_iter().all(|(n, row)| *row == vec![n; n as usize]));
    }
}
