//! Device memory, kept when it is freed.
//!
//! The invariant: the bytes in use and kept are at most the limit, and asking
//! the driver for memory, which waits for the device, happens only until a
//! pool has seen the largest queries. A block may be handed out anew while
//! kernels launched before still use it, because a driver works in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::driver::Driver;
use super::error::GpuError;

/// Sizes are rounded up to a multiple of this.
const GRAIN: usize = 256;

/// A kept block is used for what needs at least this share of it: 3 of 4.
const FIT: (usize, usize) = (3, 4);

/// Memory of one device.
#[derive(Debug)]
pub(crate) struct Pool {
    driver: Arc<dyn Driver>,
    device: String,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    limit: u64,
    used: u64,
    used_max: u64,
    kept: u64,
    /// Addresses of blocks that are not in use, by size.
    free: BTreeMap<usize, Vec<u64>>,
}

/// A block in use. Goes back to the pool when dropped.
#[derive(Debug)]
pub(crate) struct Block {
    pool: Arc<Pool>,
    pub(crate) address: u64,
    size: usize,
}

impl Pool {
    pub(crate) fn new(driver: Arc<dyn Driver>, device: String, limit: u64) -> Pool {
        let blocks = Blocks {
            limit,
            ..Blocks::default()
        };
        Pool {
            driver,
            device,
            blocks: Mutex::new(blocks),
        }
    }

    /// A block of at least `bytes` bytes, with any content.
    pub(crate) fn take(self: &Arc<Pool>, bytes: usize) -> Result<Block, GpuError> {
        let size = bytes.max(1).next_multiple_of(GRAIN);
        let mut blocks = self.blocks();
        let largest = size.saturating_mul(FIT.1) / FIT.0;
        let fitting = blocks.free.range(size..=largest).next();
        if let Some(size) = fitting.map(|(&size, _)| size) {
            let address = blocks.pop(size);
            return Ok(self.block(&mut blocks, address, size));
        }
        if blocks.used + blocks.kept + size as u64 > blocks.limit {
            self.release_kept(&mut blocks);
        }
        if blocks.used + size as u64 > blocks.limit {
            return Err(GpuError::Memory {
                device: self.device.clone(),
                bytes: size as u64,
                needed: blocks.used + size as u64,
                limit: blocks.limit,
            });
        }
        let address = match self.driver.allocate(size) {
            Ok(address) => address,
            Err(error) => {
                // What is kept may be too scattered.
                if !self.release_kept(&mut blocks) {
                    return Err(error);
                }
                self.driver.allocate(size)?
            }
        };
        Ok(self.block(&mut blocks, address, size))
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.blocks().used
    }

    /// The most bytes in use at a time since the last call.
    pub(crate) fn take_used_max(&self) -> u64 {
        let mut blocks = self.blocks();
        let used = blocks.used;
        std::mem::replace(&mut blocks.used_max, used)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.blocks().limit
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        let mut blocks = self.blocks();
        blocks.limit = limit;
        if blocks.used + blocks.kept > limit {
            self.release_kept(&mut blocks);
        }
    }

    fn block(self: &Arc<Pool>, blocks: &mut Blocks, address: u64, size: usize) -> Block {
        blocks.used += size as u64;
        blocks.used_max = blocks.used_max.max(blocks.used);
        Block {
            pool: self.clone(),
            address,
            size,
        }
    }

    /// Gives what is kept back to the driver; `false` if there is nothing.
    fn release_kept(&self, blocks: &mut Blocks) -> bool {
        let free = std::mem::take(&mut blocks.free);
        blocks.kept = 0;
        let addresses = free.into_values().flatten();
        addresses.map(|address| self.driver.free(address)).count() > 0
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        // Nothing panics while it is held.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blocks {
    /// Takes a free block of exactly `size`, of which there is one.
    fn pop(&mut self, size: usize) -> u64 {
        let addresses = self.free.entry(size).or_default();
        let address = addresses.pop().expect("sizes without blocks are removed");
        if addresses.is_empty() {
            self.free.remove(&size);
        }
        self.kept -= size as u64;
        address
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut blocks = self.pool.blocks();
        blocks.used -= self.size as u64;
        blocks.kept += self.size as u64;
        blocks.free.entry(self.size).or_default().push(self.address);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut blocks = std::mem::take(&mut *self.blocks());
        self.release_kept(&mut blocks);
    }
}
