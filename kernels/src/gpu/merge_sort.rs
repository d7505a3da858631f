//! Sorting pairs and bodies on a GPU.
//!
//! The invariant: items come out in the order of their keys and, where bodies
//! are given, in the order of the bodies, a prefix first. Items that are equal
//! in all of it stand in any order; callers give them one meaning.

use super::device::{Buffer, Gpu, arguments};
use super::driver::{Argument, Launch, Source, THREADS};
use super::error::GpuError;

const WARP: usize = 32;

/// Bytes of an item, read and written.
const MOVED: usize = 2 * (size_of::<u64>() + size_of::<u32>());

/// Items that a block sorts, a thread each.
const TILE: usize = 512;

/// Runs that one launch merges, and above MANY items: fewer ways are less work in more launches.
const WAYS: usize = 16;
const MANY: usize = 1 << 16;
const WAYS_OF_MANY: usize = 4;

pub(crate) static SOURCE: Source = Source {
    name: "merge_sort.cu",
    text: include_str!("merge_sort.cu"),
    headers: &[],
    constants: &[
        ("MERGE_THREADS", THREADS as u64),
        ("MERGE_TILE", TILE as u64),
        ("MERGE_WAYS", WAYS as u64),
        ("MERGE_WAYS_OF_MANY", WAYS_OF_MANY as u64),
    ],
};

/// Keys with values, and room for as many.
pub(crate) struct Items {
    keys: [Buffer<u64>; 2],
    values: [Buffer<u32>; 2],
}

/// What values stand for: value v is `symbols[offsets[v]..offsets[v + 1]]`.
#[derive(Clone, Copy)]
pub(crate) struct Bodies<'a> {
    pub(crate) symbols: &'a Buffer<u32>,
    pub(crate) offsets: &'a Buffer<u32>,
}

impl Items {
    /// Room for some items.
    pub(crate) fn new(gpu: &Gpu, capacity: usize) -> Result<Items, GpuError> {
        Ok(Items {
            keys: [gpu.allocate(capacity)?, gpu.allocate(capacity)?],
            values: [gpu.allocate(capacity)?, gpu.allocate(capacity)?],
        })
    }

    /// How many items there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.keys[0].len()
    }

    pub(crate) fn keys(&self) -> &Buffer<u64> {
        &self.keys[0]
    }

    pub(crate) fn values(&self) -> &Buffer<u32> {
        &self.values[0]
    }

    /// Sorts the first `count` items by key, and where keys are equal by body.
    ///
    /// With bodies, a key must be the first two symbols of its body, and each body have that many.
    pub(crate) fn sort(
        &mut self,
        gpu: &Gpu,
        count: usize,
        bodies: Option<Bodies<'_>>,
    ) -> Result<(), GpuError> {
        self.sort_tiles(gpu, count, Argument::NONE, bodies)?;
        self.merge_tiles(gpu, count, bodies)
    }

    /// The first part of [`Items::sort`], for the number of items stored at an address, at most `most`, where the host does not
    /// know their number yet. Without an address there are `most`.
    pub(crate) fn sort_tiles(
        &mut self,
        gpu: &Gpu,
        most: usize,
        counted: Argument,
        bodies: Option<Bodies<'_>>,
    ) -> Result<(), GpuError> {
        assert!(most <= self.capacity(), "{most} items to sort");
        let (symbols, offsets) = arrays_of(bodies);
        let launch = Launch {
            threads: most.next_multiple_of(WARP).min(TILE) as u32,
            ..Launch::tiles(most, TILE)
        };
        let [keys, keys_out] = &self.keys;
        let [values, values_out] = &self.values;
        gpu.launch(
            SOURCE.kernel("sort_tile_kernel"),
            launch,
            arguments! {
                keys,
                values,
                keys_out,
                values_out,
                count: as_u32(most),
                counted,
                symbols,
                offsets,
            },
        )?;
        self.swap();
        Ok(())
    }

    /// The second part of [`Items::sort`].
    pub(crate) fn merge_tiles(
        &mut self,
        gpu: &Gpu,
        count: usize,
        bodies: Option<Bodies<'_>>,
    ) -> Result<(), GpuError> {
        assert!(count <= self.capacity(), "{count} items to sort");
        let (symbols, offsets) = arrays_of(bodies);
        let (kernel, ways) = if count > MANY {
            ("merge_many_kernel", WAYS_OF_MANY)
        } else {
            ("merge_kernel", WAYS)
        };
        let mut width = TILE;
        while width < count {
            let [keys, keys_out] = &self.keys;
            let [values, values_out] = &self.values;
            gpu.launch(
                SOURCE.kernel(kernel).moving(count * MOVED),
                Launch::each(count),
                arguments! {
                    keys,
                    values,
                    keys_out,
                    values_out,
                    count: as_u32(count),
                    width: as_u32(width),
                    symbols,
                    offsets,
                },
            )?;
            self.swap();
            width *= ways;
        }
        Ok(())
    }

    fn swap(&mut self) {
        self.keys.swap(0, 1);
        self.values.swap(0, 1);
    }
}

/// The addresses of bodies, 0 without any.
fn arrays_of(bodies: Option<Bodies<'_>>) -> (Argument<'_>, Argument<'_>) {
    let none = Argument::NONE;
    bodies.map_or((none, none), |bodies| {
        (bodies.symbols.into(), bodies.offsets.into())
    })
}

fn as_u32(count: usize) -> u32 {
    u32::try_from(count).expect("fewer rules than tokens")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_devices::{Numbers, on_devices};

    #[test]
    fn distinct_keys_come_out_in_order_with_their_values() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(1);
            for count in [0, 1, 2, 9, 511, 512, 513, 1024, 8_192, 8_193, 70_001] {
                let keys = numbers.any(count);
                let values: Vec<u32> = (0..count as u32).collect();
                let mut items = Items::new(gpu, count)?;
                gpu.upload_to(&items.keys[0], 0, &keys)?;
                gpu.upload_to(&items.values[0], 0, &values)?;
                items.sort(gpu, count, None)?;
                let mut expected: Vec<(u64, u32)> = keys.into_iter().zip(values).collect();
                expected.sort_unstable();
                let found = gpu.download(items.keys())?.into_iter();
                let found = found.zip(gpu.download(items.values())?);
                assert_eq!(found.collect::<Vec<_>>(), expected);
            }
            Ok(())
        });
    }

    #[test]
    fn bodies_come_out_in_lexicographic_order_a_prefix_first() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(2);
            for (count, alphabet, longest) in [(3, 1, 3), (2_100, 2, 40), (5_000, 1, 300)] {
                let bodies: Vec<Vec<u32>> = (0..count)
                    .map(|_| {
                        let length = 2 + numbers.one() as usize % longest;
                        numbers.below(length, alphabet)
                    })
                    .collect();
                let mut offsets = vec![0u32];
                for body in &bodies {
                    offsets.push(offsets[offsets.len() - 1] + body.len() as u32);
                }
                let keys = bodies
                    .iter()
                    .map(|b| u64::from(b[0]) << 32 | u64::from(b[1]));
                let mut items = Items::new(gpu, count)?;
                gpu.upload_to(&items.keys[0], 0, &keys.collect::<Vec<_>>())?;
                gpu.upload_to(&items.values[0], 0, &(0..count as u32).collect::<Vec<_>>())?;
                let symbols = gpu.upload(&bodies.concat())?;
                let offsets = gpu.upload(&offsets)?;
                let (symbols, offsets) = (&symbols, &offsets);
                items.sort(gpu, count, Some(Bodies { symbols, offsets }))?;
                let order = gpu.download(items.values())?;
                let found: Vec<&Vec<u32>> = order.iter().map(|&i| &bodies[i as usize]).collect();
                let mut expected: Vec<&Vec<u32>> = bodies.iter().collect();
                expected.sort();
                assert_eq!(found, expected);
                let mut order = order;
                order.sort_unstable();
                assert!(order.into_iter().eq(0..count as u32));
            }
            Ok(())
        });
    }
}
