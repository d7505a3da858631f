//! An object with the content of a file: blocks, and behind them the checksum of each. Bytes: `remote/FORMAT.md`.

use std::io::{self, Read};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use zipfdb_storage::BackendReader;

/// Bytes of a block, except for the last one of a file.
pub(crate) const BLOCK_BYTES: u64 = 128 << 10;

/// Bytes of a checksum.
pub(crate) const SUM_BYTES: u64 = 4;

/// The number of blocks of a content of `size` bytes.
pub(crate) fn block_count(size: u64) -> u64 {
    size.div_ceil(BLOCK_BYTES)
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What identifies a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) sha256: String,
    /// CRC32 of each block, little-endian, one after the other.
    pub(crate) sums: Vec<u8>,
}

/// A file from its beginning to its end, as an object has it.
pub(crate) struct Content {
    file: Arc<dyn BackendReader>,
    offset: u64,
}

impl Content {
    pub(crate) fn new(file: Arc<dyn BackendReader>) -> Content {
        Content { file, offset: 0 }
    }

    /// Reads all, for what identifies it.
    pub(crate) fn digests(&mut self) -> io::Result<Digests> {
        let (mut sha256, mut sums) = (Sha256::new(), Vec::new());
        let mut block = vec![0; BLOCK_BYTES as usize];
        loop {
            let count = self.fill(&mut block)?;
            if count == 0 {
                break;
            }
            sha256.update(&block[..count]);
            sums.extend(crc32fast::hash(&block[..count]).to_le_bytes());
        }
        let sha256 = hexadecimal(&sha256.finalize());
        Ok(Digests { sha256, sums })
    }

    fn fill(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < block.len() {
            match self.read(&mut block[count..])? {
                0 => break,
                more => count += more,
            }
        }
        Ok(count)
    }
}

impl Read for Content {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let size = (self.file.size() - self.offset).min(target.len() as u64);
        let bytes = self.file.read_at(self.offset, size)?;
        target[..bytes.len()].copy_from_slice(&bytes);
        self.offset += size;
        Ok(bytes.len())
    }
}
