//! Sums of the values of segments on a device.
//!
//! The invariant: sums are those of the definition, wrapping. `primitives.cuh` has what benchmarks compare it with.

use zipfdb_kernels::gpu::building_blocks::{Launch, Source, THREADS, arguments};
use zipfdb_kernels::gpu::{Buffer, Gpu, GpuError};

/// Values of a block.
const TILE: usize = 4096;

pub(crate) static SOURCE: Source = Source {
    name: "segment_sums.cu",
    text: include_str!("segment_sums.cu"),
    headers: &[],
    constants: &[
        ("SEGMENT_SUMS_THREADS", THREADS as u64),
        ("SEGMENT_SUMS_TILE", TILE as u64),
    ],
};

/// The sums of the values of each segment, wrapping: segment s is `values[offsets[s]..offsets[s + 1]]`, and the last
/// one ends with the values.
///
/// # Errors
///
/// [`GpuError`].
pub fn segment_sums(
    gpu: &Gpu,
    offsets: &Buffer<u32>,
    values: &Buffer<u64>,
) -> Result<Buffer<u64>, GpuError> {
    let segments = u32::try_from(offsets.len() - 1).expect("offsets of u32 items");
    let items = u32::try_from(values.len()).expect("items that u32 offsets bound");
    let sums = gpu.zeroed(offsets.len() - 1)?;
    gpu.launch(
        SOURCE
            .kernel("segment_sums_kernel")
            .moving(values.len() * size_of::<u64>() + offsets.len() * 12),
        Launch::tiles(values.len(), TILE),
        arguments! { offsets, segments, values, sums, count: items },
    )?;
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use zipfdb_kernels::gpu::test_devices::{Numbers, on_devices};

    use super::*;

    #[test]
    fn sums_equal_their_definition_also_with_empty_segments() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(5);
            for (owners, longest) in [(1, 1), (1, 9_000), (40, 400), (5_000, 3), (9_000, 1)] {
                let lens: Vec<u32> = numbers.below(owners, longest + 1);
                let mut offsets = vec![0u32];
                for len in &lens {
                    offsets.push(offsets[offsets.len() - 1] + len);
                }
                let values: Vec<u64> = numbers.any(offsets[owners] as usize);
                let segments = offsets.windows(2);
                let sum = |values: &[u64]| values.iter().fold(0u64, |sum, &n| sum.wrapping_add(n));
                let sums = segments.map(|ends| sum(&values[ends[0] as usize..ends[1] as usize]));
                let sums: Vec<u64> = sums.collect();
                let found = segment_sums(gpu, &gpu.upload(&offsets)?, &gpu.upload(&values)?)?;
                assert_eq!(gpu.download(&found)?, sums, "{owners} {longest}");
            }
            Ok(())
        });
    }
}
