//! Header, block table and sequences of packed text, byte by byte.
//!
//! The invariant: a header or an entry that was read here has only values that a writer writes, and stands for a bounded
//! number of bytes for each byte that is stored. `storage/FORMAT.md` describes the bytes. Nothing here looks into data blocks.

use super::error::{BlockFault, PackedError, PackedPart};

/// What packed text begins with.
pub(super) const MAGIC: [u8; 8] = *b"\x89ZDBPAK\n";

/// The version that is written and read.
pub(super) const VERSION: u16 = 1;

/// Bytes of the header.
pub const HEADER_SIZE: usize = 48;

/// Bytes of an entry of the block table.
pub const ENTRY_SIZE: usize = 12;

/// Sequences of a group: a warp decodes one at a time.
pub const GROUP: usize = 32;

/// Bytes of a literal string at most.
pub const LITERALS_MAX: usize = u8::MAX as usize;

/// Bytes of a match at least and at most.
pub const MATCH_MIN: usize = 3;
/// See [`MATCH_MIN`].
pub const MATCH_MAX: usize = MATCH_MIN + u8::MAX as usize - 1;

/// What is subtracted from the length of a match in a record, so that 0 is no match.
const MATCH_BIAS: usize = MATCH_MIN - 1;

/// Bits of a Huffman code at least and at most.
pub const CODE_BITS_MIN: u8 = 9;
/// See [`CODE_BITS_MIN`].
pub const CODE_BITS_MAX: u8 = 12;

/// Bytes of a data block at least and at most.
pub const BLOCK_SIZE_MIN: u32 = 1 << 8;
/// See [`BLOCK_SIZE_MIN`].
pub const BLOCK_SIZE_MAX: u32 = 1 << 22;

/// Bytes of the window at least and at most.
pub const WINDOW_MIN: u32 = 1 << 8;
/// See [`WINDOW_MIN`].
pub const WINDOW_MAX: u32 = 1 << 16;

/// Bytes of text that one stored byte of a Bit block stands for at most: a reference takes two bits, a literal one.
const EXPANSION_MAX: u64 = 4 * (MATCH_MAX as u64);

/// The data blocks begin at multiples of this, so that devices can load words.
pub const BLOCK_ALIGNMENT: usize = 4;

/// How sequences are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackCodec {
    /// Records and literals as they are: Gompresso/Byte.
    Byte,
    /// Both by Huffman codes: Gompresso/Bit.
    Bit,
}

/// What packed text begins with: all that its blocks have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackHeader {
    /// How sequences are coded.
    pub codec: PackCodec,
    /// Whether the writer says that no reference of a group needs another of it. Readers verify that.
    pub is_direct: bool,
    /// Bytes of text of every data block but the last, which may have fewer.
    pub block_size: u32,
    /// Largest distance of a reference.
    pub window: u32,
    /// Sequences of a sub-block of a Bit block.
    pub sub_block: u8,
    /// Bits of a Huffman code at most.
    pub code_bits: u8,
    /// Bytes of the text.
    pub size: u64,
    /// CRC32 of the block table.
    pub table_crc: u32,
}

impl PackHeader {
    /// How many data blocks there are.
    pub fn block_count(&self) -> u64 {
        self.size.div_ceil(self.block_size.into())
    }

    /// Bytes of text of a data block; 0 beyond the end.
    pub fn block_len(&self, block: u64) -> usize {
        let begin = block.saturating_mul(self.block_size.into());
        // At most the block size.
        self.size.saturating_sub(begin).min(self.block_size.into()) as usize
    }

    /// Bytes of header and block table. Does not overflow: counts of blocks are below 2^32.
    pub fn blocks_begin(&self) -> u64 {
        HEADER_SIZE as u64 + self.block_count() * ENTRY_SIZE as u64
    }

    /// The header as it is written.
    pub fn to_bytes(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&[self.codec as u8, u8::from(self.is_direct)]);
        put(&self.block_size.to_le_bytes());
        put(&self.window.to_le_bytes());
        put(&[self.sub_block, self.code_bits, 0, 0]);
        put(&self.size.to_le_bytes());
        // Below 2^32: `PackOptions::header` has seen to it.
        put(&(self.block_count() as u32).to_le_bytes());
        put(&self.table_crc.to_le_bytes());
        put(&[0; 4]);
        let crc = crc32fast::hash(&bytes[..HEADER_SIZE - 4]);
        bytes[HEADER_SIZE - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header at the beginning of some bytes.
    ///
    /// # Errors
    ///
    /// [`PackedError`] unless it is one that a writer writes.
    pub fn read(bytes: &[u8]) -> Result<PackHeader, PackedError> {
        let begins = bytes.len() >= MAGIC.len() && bytes.starts_with(&MAGIC);
        if !begins {
            return Err(PackedError::Magic);
        }
        let Some(bytes) = bytes.first_chunk::<HEADER_SIZE>() else {
            return Err(PackedError::Size {
                expected: HEADER_SIZE as u64,
                found: bytes.len() as u64,
            });
        };
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let version = u16_at(8);
        if version != VERSION {
            return Err(PackedError::Version {
                found: version,
                known: VERSION,
            });
        }
        let (expected, found) = (u32_at(44), crc32fast::hash(&bytes[..HEADER_SIZE - 4]));
        if expected != found {
            return Err(PackedError::Checksum {
                part: PackedPart::Header,
                expected,
                found,
            });
        }
        let wrong = |field, value| Err(PackedError::Header { field, value });
        let codec = match bytes[10] {
            0 => PackCodec::Byte,
            1 => PackCodec::Bit,
            other => return wrong("codec", other.into()),
        };
        let header = PackHeader {
            codec,
            is_direct: match bytes[11] {
                0 => false,
                1 => true,
                other => return wrong("flags", other.into()),
            },
            block_size: u32_at(12),
            window: u32_at(16),
            sub_block: bytes[20],
            code_bits: bytes[21],
            size: u64::from(u32_at(24)) | u64::from(u32_at(28)) << 32,
            table_crc: u32_at(36),
        };
        if let Err((field, value, _)) = header.check() {
            return wrong(field, value);
        }
        let blocks = u32_at(32);
        if u64::from(blocks) != header.block_count() {
            return wrong("number of blocks", blocks.into());
        }
        let reserved = [
            bytes[22], bytes[23], bytes[40], bytes[41], bytes[42], bytes[43],
        ];
        match reserved.iter().find(|&&byte| byte != 0) {
            Some(&byte) => wrong("reserved byte", byte.into()),
            None => Ok(header),
        }
    }

    /// The first field that the format has no room for, its value, and what it may be.
    pub(super) fn check(&self) -> Result<(), (&'static str, u64, &'static str)> {
        let power = |value: u32, least: u32, most: u32| {
            value.is_power_of_two() && (least..=most).contains(&value)
        };
        let fields = [
            (
                "block size",
                u64::from(self.block_size),
                power(self.block_size, BLOCK_SIZE_MIN, BLOCK_SIZE_MAX),
                "a power of two from 256 to 4194304",
            ),
            (
                "window",
                self.window.into(),
                power(self.window, WINDOW_MIN, WINDOW_MAX),
                "a power of two from 256 to 65536",
            ),
            (
                "sub-block",
                self.sub_block.into(),
                power(self.sub_block.into(), 8, 64),
                "8, 16, 32 or 64 sequences",
            ),
            (
                "code length limit",
                self.code_bits.into(),
                (CODE_BITS_MIN..=CODE_BITS_MAX).contains(&self.code_bits),
                "9 to 12 bits",
            ),
            (
                "size of the text",
                self.size,
                self.size / u64::from(self.block_size.max(1)) < u64::from(u32::MAX),
                "text has fewer than 4294967295 blocks; take larger ones",
            ),
        ];
        match fields.into_iter().find(|&(.., is_allowed, _)| !is_allowed) {
            Some((field, value, _, allowed)) => Err((field, value, allowed)),
            None => Ok(()),
        }
    }
}

/// An entry of the block table: a data block as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// Stored bytes, a multiple of [`BLOCK_ALIGNMENT`].
    pub bytes: u32,
    /// Sequences; 0 for a block whose text is stored as it is.
    pub sequences: u32,
    /// CRC32 of the text.
    pub crc: u32,
}

impl BlockEntry {
    /// The entry as it is written.
    pub fn to_bytes(&self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        for (to, field) in bytes
            .chunks_exact_mut(4)
            .zip([self.bytes, self.sequences, self.crc])
        {
            to.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// Reads an entry.
    pub fn read(bytes: &[u8; ENTRY_SIZE]) -> BlockEntry {
        let field = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        BlockEntry {
            bytes: field(0),
            sequences: field(4),
            crc: field(8),
        }
    }

    /// Checks that its stored bytes can hold the text of a block. What passes bounds memory: text is at most a constant times as large
    /// as what is stored, and this is no larger than the text except for the last word.
    ///
    /// # Errors
    ///
    /// [`PackedError::Block`].
    pub fn check(&self, header: &PackHeader, block: u64) -> Result<(), PackedError> {
        if self.holds(header.codec, header.block_len(block)) {
            Ok(())
        } else {
            Err(BlockFault::Bytes.of(block))
        }
    }

    /// Whether its stored bytes can hold `len` bytes of text in the sequences that it names.
    pub(super) fn holds(&self, codec: PackCodec, len: usize) -> bool {
        let (bytes, sequences, len) =
            (u64::from(self.bytes), u64::from(self.sequences), len as u64);
        let stored_max = len.next_multiple_of(BLOCK_ALIGNMENT as u64);
        if !bytes.is_multiple_of(BLOCK_ALIGNMENT as u64) || len == 0 || bytes > stored_max {
            return false;
        }
        match (sequences, codec) {
            (0, _) => bytes == stored_max,
            (_, PackCodec::Byte) => {
                let literals_max = bytes.saturating_sub(4 * sequences);
                4 * sequences <= bytes && len <= literals_max + sequences * MATCH_MAX as u64
            }
            (_, PackCodec::Bit) => sequences <= 8 * bytes && len <= bytes * EXPANSION_MAX,
        }
    }
}

/// A sequence: a literal string, then a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackSequence {
    /// Bytes of the literal string.
    pub(super) literals: usize,
    /// Bytes of the reference; 0 for none.
    pub(super) length: usize,
    /// How far back it goes; at least 1, also without a reference.
    pub(super) distance: usize,
}

/// A sequence as Byte blocks hold it: bytes of literals, bytes of the reference less [`MATCH_BIAS`], distance less 1.
pub(super) type Record = [u8; 4];

impl PackSequence {
    /// The record. Lengths are at most the maxima, distances at most [`WINDOW_MAX`].
    #[inline]
    pub(super) fn to_record(self) -> Record {
        // In range by the above.
        let [low, high] = ((self.distance - 1) as u16).to_le_bytes();
        let length = self.length.saturating_sub(MATCH_BIAS);
        [self.literals as u8, length as u8, low, high]
    }

    /// The sequence of a record: any record is one.
    #[inline(always)]
    pub(super) fn from_record(record: Record) -> PackSequence {
        let length = usize::from(record[1]);
        PackSequence {
            literals: record[0].into(),
            length: if length == 0 { 0 } else { length + MATCH_BIAS },
            distance: usize::from(u16::from_le_bytes([record[2], record[3]])) + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> PackHeader {
        PackHeader {
            codec: PackCodec::Bit,
            is_direct: true,
            block_size: 1 << 18,
            window: 1 << 13,
            sub_block: 16,
            code_bits: 10,
            size: 1 << 40,
            table_crc: 7,
        }
    }

    #[test]
    fn headers_and_entries_are_read_as_they_were_written() {
        let header = header();
        assert_eq!(PackHeader::read(&header.to_bytes()), Ok(header));
        assert_eq!(header.block_count(), 1 << 22);
        let entry = BlockEntry {
            bytes: 1 << 16,
            sequences: 3,
            crc: u32::MAX,
        };
        assert_eq!(BlockEntry::read(&entry.to_bytes()), entry);
    }

    #[test]
    fn a_header_with_any_other_byte_is_refused() {
        let bytes = header().to_bytes();
        for at in 0..HEADER_SIZE {
            for change in 1..=u8::MAX {
                let mut bytes = bytes;
                bytes[at] ^= change;
                let found = PackHeader::read(&bytes);
                let error = found.expect_err("a damaged header");
                let expected = match at {
                    0..8 => matches!(error, PackedError::Magic),
                    8..10 => matches!(error, PackedError::Version { known: 1, .. }),
                    _ => matches!(
                        error,
                        PackedError::Checksum {
                            part: PackedPart::Header,
                            ..
                        }
                    ),
                };
                assert!(expected, "byte {at}: {error}");
            }
            let found = PackHeader::read(&bytes[..at]).expect_err("a short header");
            assert!(matches!(
                found,
                PackedError::Magic | PackedError::Size { .. }
            ));
        }
    }

    #[test]
    fn values_that_no_writer_writes_are_refused() {
        type Change = fn(&mut PackHeader);
        let changes: [(Change, &str); 6] = [
            (|header| header.block_size = 3 << 16, "block size"),
            (|header| header.block_size = 0, "block size"),
            (|header| header.window = 1 << 17, "window"),
            (|header| header.sub_block = 128, "sub-block"),
            (|header| header.code_bits = 13, "code length limit"),
            (|header| header.size = u64::MAX, "size of the text"),
        ];
        for (change, expected) in changes {
            let mut header = header();
            change(&mut header);
            let (field, ..) = header.check().expect_err(expected);
            assert_eq!(field, expected);
        }
    }

    #[test]
    fn entries_bound_the_text_of_a_block() {
        let entry = |bytes, sequences| BlockEntry {
            bytes,
            sequences,
            crc: 0,
        };
        assert!(entry(8, 0).holds(PackCodec::Byte, 7));
        assert!(!entry(8, 0).holds(PackCodec::Byte, 9));
        assert!(entry(8, 1).holds(PackCodec::Byte, 4 + MATCH_MAX));
        assert!(!entry(8, 1).holds(PackCodec::Byte, 5 + MATCH_MAX));
        assert!(!entry(8, 3).holds(PackCodec::Byte, 8));
        assert!(!entry(8, 1 << 20).holds(PackCodec::Bit, 1 << 18));
        assert!(!entry(8, 1).holds(PackCodec::Bit, 1 << 18));
        assert!(!entry(7, 0).holds(PackCodec::Bit, 7));
    }

    #[test]
    fn every_record_is_a_sequence_and_back() {
        for literals in [0, 1, LITERALS_MAX] {
            for length in [0, MATCH_MIN, MATCH_MAX] {
                for distance in [1, 2, WINDOW_MAX as usize] {
                    let sequence = PackSequence {
                        literals,
                        length,
                        distance,
                    };
                    assert_eq!(PackSequence::from_record(sequence.to_record()), sequence);
                }
            }
        }
    }
}
