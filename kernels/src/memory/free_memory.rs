//! Returns freed memory to the system.
//!
//! The invariant: this is advice only. Building a structure takes more memory than the structure; the C library keeps much of what
//! was freed for later, so a process seems larger than what it holds. Where the library has no such call, nothing happens.

/// Makes the C library return its free memory to the system. Takes some milliseconds for each 100 MB.
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

/// Bytes from which on a block is given back as soon as it is freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: std::ffi::c_int = 4 << 20;

/// Has the C library give back every block of 4 MiB or more when it is freed, for the whole process. On its own it keeps blocks of
/// up to 32 MiB for later, for each thread apart, which is much with many threads. It is for programs that mind their memory
/// more than some percent of time.
pub fn give_back_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        // SAFETY: as malloc.h declares it; it may be called at any time by any thread.
        unsafe extern "C" {
            safe fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        /// `M_MMAP_THRESHOLD` of malloc.h.
        const MMAP_THRESHOLD: c_int = -3;
        if mallopt(MMAP_THRESHOLD, LARGE_BLOCK) == 0 {
            tracing::debug!("freed blocks are kept: mallopt refuses {LARGE_BLOCK}");
        }
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
