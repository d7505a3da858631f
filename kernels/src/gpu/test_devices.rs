//! The devices that tests of kernels run on, and numbers to test with, also for kernels of other crates.
//!
//! The invariant: a test runs on the emulator wherever there is a C++
//! compiler, on the first CUDA device where there is one, and says what it
//! skipped. Numbers depend on the seed alone.

use std::collections::BTreeSet;

use super::cuda;
use super::device::Gpu;
use super::emulator;
use super::error::GpuError;
use crate::CountTable;
use crate::construct::pairs;

/// Runs a test on each device there is.
pub fn on_devices(test: impl Fn(&Gpu) -> Result<(), GpuError>) {
    if let Some(gpu) = emulator::gpu() {
        test(&gpu).unwrap_or_else(|error| panic!("{error}"));
    }
    match cuda::devices() {
        Ok(devices) => test(&devices[0]).unwrap_or_else(|error| panic!("{error}")),
        Err(absence) => eprintln!("skipped: {absence}"),
    }
}

/// Maps no two numbers to one, and neighbours far from each other.
pub fn mix(number: u64) -> u64 {
    pairs::mix(number)
}

/// Random numbers by seed: splitmix64.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// A number of 64 bits.
    pub fn one(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// `len` numbers of 64 bits.
    pub fn any(&mut self, len: usize) -> Vec<u64> {
        (0..len).map(|_| self.one()).collect()
    }

    /// `len` numbers below `end`.
    pub fn below(&mut self, len: usize, end: u32) -> Vec<u32> {
        // Below `end`, a u32.
        (0..len)
            .map(|_| (self.one() % u64::from(end)) as u32)
            .collect()
    }
    /// Lists of ascending ids below a universe, of many lengths, one of them empty and one of all ids: their offsets, and ids.
    pub fn lists(&mut self, universe: u32) -> (Vec<u32>, Vec<u32>) {
        let (mut offsets, mut ids) = (vec![0], Vec::new());
        for list in 0..30usize {
            let count = [0, 1, 2, 15, 16, 17, 100, 300, 1500, 4000][list % 10];
            let own: BTreeSet<u32> = match list {
                29 => (0..universe).collect(),
                _ => self.below(count, universe).into_iter().collect(),
            };
            ids.extend(own);
            offsets.push(ids.len() as u32);
        }
        (offsets, ids)
    }

    /// A table of counts, and its cells.
    pub fn table(&mut self, rows: usize, columns: usize) -> (Vec<u32>, CountTable) {
        let cells = self.below(rows * columns, 6);
        let cells: Vec<u32> = cells.into_iter().map(|n| n.saturating_sub(2)).collect();
        let row = |row: &[u32]| -> Vec<(u32, u32)> {
            let cells = (0..).zip(row.iter().copied());
            cells.filter(|&(_, count)| count > 0).collect()
        };
        let rows = match columns {
            0 => vec![vec![]; rows],
            _ => cells.chunks(columns).map(row).collect(),
        };
        (cells, CountTable::of_rows(rows))
    }
}
