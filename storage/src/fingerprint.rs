//! A hash of a sequence of bytes, by which changes are noticed.
//!
//! Invariant: it depends on the bytes alone, not on the pieces that they come in. It is compared within a process and never stored.
//! It is no CRC32: all files that end with their own CRC32 have the same one.

use std::hash::{DefaultHasher, Hasher};

/// The fingerprint of the bytes so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fingerprint(DefaultHasher);

impl Fingerprint {
    /// That of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> u64 {
        let mut fingerprint = Fingerprint::default();
        fingerprint.update(bytes);
        fingerprint.value()
    }

    /// Takes in more bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_count_and_not_their_pieces() {
        let bytes: Vec<u8> = (0..200_u8).collect();
        for size in 1..20 {
            let mut fingerprint = Fingerprint::default();
            bytes
                .chunks(size)
                .for_each(|piece| fingerprint.update(piece));
            assert_eq!(fingerprint.value(), Fingerprint::of(&bytes), "{size}");
        }
        assert_ne!(Fingerprint::of(&bytes), Fingerprint::of(&bytes[1..]));
    }

    #[test]
    fn files_that_end_with_their_checksum_differ() {
        let sealed = |content: &[u8]| {
            let crc = crc32fast::hash(content).to_le_bytes();
            Fingerprint::of(&[content, &crc].concat())
        };
        assert_ne!(sealed(b"one content"), sealed(b"two content"));
    }
}
