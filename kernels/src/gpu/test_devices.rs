//! The devices that tests of kernels run on, and numbers to test with.
//!
//! The invariant: a test runs on the emulator wherever there is a C++
//! compiler, on the first CUDA device where there is one, and says what it
//! skipped. Numbers depend on the seed alone.

use super::cuda;
use super::device::Gpu;
use super::emulator;
use super::error::GpuError;

/// Runs a test on each device there is.
pub(crate) fn on_devices(test: impl Fn(&Gpu) -> Result<(), GpuError>) {
    if let Some(gpu) = emulator::gpu() {
        test(&gpu).unwrap_or_else(|error| panic!("{error}"));
    }
    match cuda::devices() {
        Ok(devices) => test(&devices[0]).unwrap_or_else(|error| panic!("{error}")),
        Err(absence) => eprintln!("skipped: {absence}"),
    }
}

/// Random numbers by seed: splitmix64.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// `len` numbers of 64 bits.
    pub(crate) fn any(&mut self, len: usize) -> Vec<u64> {
        (0..len).map(|_| self.next()).collect()
    }

    /// `len` numbers below `end`.
    pub(crate) fn below(&mut self, len: usize, end: u32) -> Vec<u32> {
        // Below `end`, a u32.
        (0..len)
            .map(|_| (self.next() % u64::from(end)) as u32)
            .collect()
    }
}
