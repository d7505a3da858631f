//! Packed text to text where it is of use: in device memory.
//!
//! The invariant: the text is what [`PackedReader`] gives, or a fault of a block is found; checksums are for the caller to take of
//! what it downloads. Bytes are not trusted: kernels check what they read, and damaged ones end as an error.

use zipfdb_kernels::gompresso::building_blocks::{
    BITS_WIDTH_MAX, DISTANCE_SYMBOLS, HEAD_SIZE, LITERALS_WIDTH_MAX, NO_MATCH, TEXT_SYMBOLS,
};
use zipfdb_kernels::gompresso::{
    BlockEntry, BlockFault, CODE_BITS_MAX, LITERALS_MAX, MATCH_MAX, MATCH_MIN, PackCodec,
    PackHeader, PackedError, PackedReader, References,
};
use zipfdb_kernels::gpu::building_blocks::{Launch, Source, arguments};
use zipfdb_kernels::gpu::{Buffer, Gpu, GpuError};

/// Threads that decode the sub-blocks of a data block.
const BIT_THREADS: u32 = 128;

/// Threads that make the text of a data block.
const WARP_THREADS: u32 = 32;

/// Bytes of a vector, in which text is written.
const VECTOR: usize = 16;

/// Orders of references, as kernels know them.
const SEQUENTIAL: u32 = 0;
const ROUNDS: u32 = 1;
const DIRECT: u32 = 2;

/// Faults, as kernels know them: their index, and 1 more.
const FAULTS: [BlockFault; 5] = [
    BlockFault::Bytes,
    BlockFault::Lengths,
    BlockFault::Distance,
    BlockFault::CodeLengths,
    BlockFault::Bits,
];

pub(crate) static SOURCE: Source = Source {
    name: "gompresso.cu",
    text: include_str!("gompresso.cu"),
    headers: &[],
    constants: &[
        ("GOMPRESSO_BIT_THREADS", BIT_THREADS as u64),
        ("GOMPRESSO_CODE_BITS_MAX", CODE_BITS_MAX as u64),
        ("GOMPRESSO_TEXT_SYMBOLS", TEXT_SYMBOLS as u64),
        ("GOMPRESSO_DISTANCE_SYMBOLS", DISTANCE_SYMBOLS as u64),
        ("GOMPRESSO_NO_MATCH", NO_MATCH as u64),
        ("GOMPRESSO_LITERALS_MAX", LITERALS_MAX as u64),
        ("GOMPRESSO_MATCH_MIN", MATCH_MIN as u64),
        ("GOMPRESSO_MATCH_MAX", MATCH_MAX as u64),
        ("GOMPRESSO_HEAD_SIZE", HEAD_SIZE as u64),
        ("GOMPRESSO_BITS_WIDTH_MAX", BITS_WIDTH_MAX as u64),
        ("GOMPRESSO_LITERALS_WIDTH_MAX", LITERALS_WIDTH_MAX as u64),
        ("GOMPRESSO_SEQUENTIAL", SEQUENTIAL as u64),
        ("GOMPRESSO_DIRECT", DIRECT as u64),
        ("GOMPRESSO_BYTES", 1),
        ("GOMPRESSO_LENGTHS", 2),
        ("GOMPRESSO_DISTANCE", 3),
        ("GOMPRESSO_CODE_LENGTHS", 4),
        ("GOMPRESSO_BITS", 5),
    ],
};

/// What unpacking on a device can fail with.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceUnpackError {
    /// The device failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A data block is damaged.
    #[error(transparent)]
    Packed(#[from] PackedError),
}

/// Packed text in device memory.
#[derive(Debug)]
pub struct DevicePacked {
    header: PackHeader,
    /// The data blocks as they are stored.
    packed: Buffer<u8>,
    /// `[blocks]`: as `DataBlock` of the kernels, its last two fields in one number.
    blocks: Buffer<[u64; 4]>,
    /// `[blocks]`: stored bytes behind the records of Byte blocks.
    literal_bytes: Buffer<u32>,
    /// Sequences of all blocks.
    sequences: usize,
}

impl DevicePacked {
    /// Copies packed text to a device: as many bytes as are stored, and 36 a block.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn upload(gpu: &Gpu, reader: &PackedReader<'_>) -> Result<DevicePacked, GpuError> {
        let header = *reader.header();
        let count = reader.block_count();
        let (mut blocks, mut literal_bytes) =
            (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut stored, mut sequences) = (0u64, 0u64);
        for index in 0..count {
            let (entry, bytes) = reader.block(index);
            let BlockEntry { sequences: own, .. } = entry;
            let records_end = 4 * u64::from(own);
            let (records, literals) = match header.codec {
                PackCodec::Byte => (stored, stored + records_end),
                PackCodec::Bit => (4 * sequences, index as u64 * u64::from(header.block_size)),
            };
            blocks.push([
                stored,
                records,
                literals,
                u64::from(entry.bytes) << 32 | u64::from(own),
            ]);
            // Stored bytes of a block fit 32 bits; of a Bit block it is not known before it is decoded.
            literal_bytes.push((bytes.len() as u64).saturating_sub(records_end) as u32);
            stored += bytes.len() as u64;
            sequences += u64::from(own);
        }
        Ok(DevicePacked {
            header,
            packed: gpu.upload(reader.blocks_bytes())?,
            blocks: gpu.upload(&blocks)?,
            literal_bytes: gpu.upload(&literal_bytes)?,
            sequences: sequences as usize,
        })
    }

    /// Bytes of the text.
    pub fn size(&self) -> u64 {
        self.header.size
    }

    /// Makes the text, with the references of groups in some order. Takes as much device memory as the text has bytes, and of Bit
    /// blocks as much again and 4 bytes a sequence. Waits for the device.
    ///
    /// # Errors
    ///
    /// [`DeviceUnpackError`]: of the device, or of the first block that is damaged in a way that is seen without its checksum.
    pub fn unpack(&self, gpu: &Gpu, order: References) -> Result<Buffer<u8>, DeviceUnpackError> {
        // As there is a host that has it packed.
        let size = self.header.size as usize;
        let mut text = gpu.allocate::<u8>(size.next_multiple_of(VECTOR))?;
        let faults = gpu.zeroed::<u32>(self.blocks.len())?;
        match self.header.codec {
            PackCodec::Byte => {
                let in_place = (&self.packed, &self.packed, &self.literal_bytes);
                self.make_text(gpu, order, in_place, &text, &faults)?;
            }
            PackCodec::Bit => {
                let records = gpu.allocate::<u32>(self.sequences)?;
                let literals = gpu.allocate::<u8>(size.next_multiple_of(VECTOR))?;
                let literal_bytes = gpu.zeroed::<u32>(self.blocks.len())?;
                self.decode_bits(gpu, &records, &literals, &literal_bytes, &faults)?;
                let decoded = (&records, &literals, &literal_bytes);
                self.make_text(gpu, order, decoded, &text, &faults)?;
            }
        }
        let faults = gpu.download(&faults)?;
        if let Some(block) = faults.iter().position(|&fault| fault != 0) {
            let fault = FAULTS[faults[block] as usize - 1];
            let block = block as u64;
            return Err(PackedError::Block { block, fault }.into());
        }
        text.truncate(size);
        Ok(text)
    }

    /// Decodes Bit blocks to records and literals.
    fn decode_bits(
        &self,
        gpu: &Gpu,
        records: &Buffer<u32>,
        literals: &Buffer<u8>,
        literal_bytes: &Buffer<u32>,
        faults: &Buffer<u32>,
    ) -> Result<(), GpuError> {
        let header = &self.header;
        let kernel = SOURCE.kernel("gompresso_bits_kernel");
        gpu.launch(
            kernel
                .made_for(header.code_bits.into())
                .moving(self.packed.len()),
            self.grid(BIT_THREADS),
            arguments! {
                packed: &self.packed,
                blocks: &self.blocks,
                block_size: header.block_size,
                size: header.size,
                sub_block: u32::from(header.sub_block),
                code_bits: u32::from(header.code_bits),
                records,
                literals,
                literal_bytes,
                faults,
            },
        )
    }

    /// Makes text of records, literals, and how many bytes of these each block has.
    fn make_text<Record>(
        &self,
        gpu: &Gpu,
        order: References,
        (records, literals, literal_bytes): (&Buffer<Record>, &Buffer<u8>, &Buffer<u32>),
        text: &Buffer<u8>,
        faults: &Buffer<u32>,
    ) -> Result<(), GpuError> {
        let order = match order {
            References::Sequential => SEQUENTIAL,
            References::Rounds => ROUNDS,
            References::Direct => DIRECT,
        };
        let kernel = SOURCE.kernel("gompresso_text_kernel");
        gpu.launch(
            kernel
                .made_for(order)
                .moving(self.packed.len() + text.len()),
            self.grid(WARP_THREADS),
            arguments! {
                packed: &self.packed,
                blocks: &self.blocks,
                block_size: self.header.block_size,
                size: self.header.size,
                records,
                literals,
                literal_bytes,
                order,
                text,
                faults,
            },
        )
    }

    /// A CUDA block for each data block, of which there are fewer than 2^31 in device memory.
    fn grid(&self, threads: u32) -> Launch {
        Launch {
            blocks: self.blocks.len() as u32,
            threads,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::AtomicBool;

    use zipfdb_kernels::gompresso::{Elimination, PackOptions, pack};
    use zipfdb_kernels::gpu::test_devices::{Numbers, on_devices};

    use super::*;

    const ORDERS: [References; 3] = [
        References::Sequential,
        References::Rounds,
        References::Direct,
    ];

    /// Words from a small set, runs and some noise.
    fn words(seed: u64, len: usize) -> Vec<u8> {
        let set: [&[u8]; 6] = [
            b"the ",
            b"grammar ",
            b"of ",
            b"words, ",
            b"\n\n    ",
            b"aaaaaaaaaaaaaaaaaa",
        ];
        let mut numbers = Numbers::new(seed);
        let mut text = Vec::new();
        while text.len() < len {
            let number = numbers.one();
            match number % 16 {
                0 => text.push((number >> 8) as u8),
                1 => text.extend(vec![b' '; (number >> 8) as usize % 600]),
                other => text.extend(set[other as usize % 6]),
            }
        }
        text.truncate(len);
        text
    }

    fn all_options() -> impl Iterator<Item = PackOptions> {
        [PackCodec::Byte, PackCodec::Bit]
            .into_iter()
            .flat_map(|codec| {
                let eliminations = [
                    Elimination::Off,
                    Elimination::BeforeGroup,
                    Elimination::References,
                ];
                eliminations.map(|elimination| PackOptions {
                    elimination,
                    block_size: 1 << 13,
                    ..PackOptions::new(codec)
                })
            })
    }

    fn packed(text: &[u8], options: &PackOptions) -> Vec<u8> {
        pack(text, options, &AtomicBool::new(false)).unwrap()
    }

    /// The text as a device makes it.
    fn unpacked(gpu: &Gpu, bytes: &[u8], order: References) -> Result<Vec<u8>, DeviceUnpackError> {
        let reader = PackedReader::open(bytes)?;
        let packed = DevicePacked::upload(gpu, &reader)?;
        let text = packed.unpack(gpu, order)?;
        Ok(gpu.download(&text)?)
    }

    #[test]
    fn text_is_unpacked_as_on_the_cpu_in_every_order() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(3);
            let noise: Vec<u8> = numbers
                .any(2_000)
                .into_iter()
                .flat_map(u64::to_le_bytes)
                .collect();
            let texts = [
                Vec::new(),
                vec![b'x'],
                vec![b'x'; 20_001],
                noise,
                words(1, 50_003),
                words(2, 1 << 13),
            ];
            for options in all_options() {
                for text in &texts {
                    let bytes = packed(text, &options);
                    for order in ORDERS {
                        let found = unpacked(gpu, &bytes, order);
                        let found = found.unwrap_or_else(|error| panic!("{options:?}: {error}"));
                        assert!(
                            &found == text,
                            "{options:?}, {order:?}, {} bytes",
                            text.len()
                        );
                    }
                }
            }
            Ok(())
        });
    }

    #[test]
    fn codes_and_sub_blocks_of_all_sizes_are_decoded() {
        on_devices(|gpu| {
            let text = words(7, 60_000);
            for (code_bits, sub_block, window) in [
                (9, 8, 1 << 8),
                (10, 16, 1 << 13),
                (11, 32, 1 << 15),
                (12, 64, 1 << 16),
            ] {
                let options = PackOptions {
                    code_bits,
                    sub_block,
                    window,
                    block_size: 1 << 15,
                    ..PackOptions::new(PackCodec::Bit)
                };
                let found = unpacked(gpu, &packed(&text, &options), References::Rounds);
                assert!(found.unwrap() == text, "{options:?}");
            }
            Ok(())
        });
    }

    #[test]
    fn damaged_blocks_are_an_error_or_text_as_on_the_cpu() {
        on_devices(|gpu| {
            let text = words(5, 1_500);
            let mut numbers = Numbers::new(9);
            for options in all_options() {
                let options = PackOptions {
                    block_size: 1 << 10,
                    ..options
                };
                let bytes = packed(&text, &options);
                let begin = PackHeader::read(&bytes).unwrap().blocks_begin() as usize;
                for at in (begin..bytes.len()).step_by(3) {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= (numbers.one() as u8).max(1);
                    let reader = PackedReader::open(&damaged).unwrap();
                    let on_cpu = |block: usize| {
                        let mut text = vec![0; reader.block_len(block)];
                        reader.unpack_block(block, &mut text)
                    };
                    let faults = (0..reader.block_count()).map(on_cpu);
                    let found = unpacked(gpu, &damaged, ORDERS[at % 3]);
                    // What has no fault has the wrong checksum, or the right text.
                    match (faults.filter_map(Result::err).next(), found) {
                        (
                            Some(PackedError::Block { block, .. }),
                            Err(DeviceUnpackError::Packed(error)),
                        ) => {
                            let is_same = matches!(error, PackedError::Block { block: found, .. } if found == block);
                            assert!(is_same, "byte {at}: {error}");
                        }
                        (Some(PackedError::Checksum { .. }), Ok(found)) => assert!(found != text),
                        (None, Ok(found)) => assert!(found == text),
                        (expected, found) => panic!("byte {at}: {expected:?}, {found:?}"),
                    }
                }
            }
            Ok(())
        });
    }
}
