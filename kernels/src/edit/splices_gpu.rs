//! Places of inserted texts, on a device.
//!
//! The invariant: the result is that of [`place_inserts`](crate::place_inserts).
//! The host decides which runs are pairs, from how many inserts a file has;
//! everything else stays on the device.

use std::ops::Range;

use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Argument, Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives::{scan, sort_pairs_with, sort_state};
use crate::{Insert, Splice, Splices};

/// Inserts of a file that a block makes one run of, and its threads.
const LEAF: u32 = 256;
const LEAF_THREADS: u32 = 512;

pub(crate) static SOURCE: Source = Source {
    name: "splices.cu",
    text: include_str!("splices.cu"),
    headers: &[],
    constants: &[
        ("SPLICE_THREADS", THREADS as u64),
        ("SPLICE_LEAF", LEAF as u64),
        ("SPLICE_LEAF_THREADS", LEAF_THREADS as u64),
    ],
};

/// Inserts on the device.
#[derive(Debug)]
pub struct DeviceInserts {
    sizes: Buffer<u64>,
    files: Buffer<u32>,
    offsets: Buffer<u64>,
    lengths: Buffer<u64>,
    /// Inserts of each file, on the host, and `[files + 1]` of those before.
    counts: Vec<u32>,
    firsts: Buffer<u32>,
}

/// Stretches of inserted text on the device: [`Splices`] as arrays, which may have room for more.
#[derive(Debug)]
pub struct DeviceSplices {
    /// `[files + 1]`
    offsets: Buffer<u32>,
    bases: Buffer<u64>,
    inserts: Buffer<u32>,
    starts: Buffer<u64>,
    lengths: Buffer<u64>,
    /// The number of the first insert past the end of its file; none is the largest number.
    refused: Buffer<u32>,
}

/// Runs of stretches, one after the other: the arrays have room for more.
struct Runs {
    offsets: Buffer<u32>,
    bases: Buffer<u64>,
    inserts: Buffer<u32>,
    starts: Buffer<u64>,
    /// Lengths of all stretches before each, and of all.
    sums: Buffer<u64>,
}

/// What is composed with what, as one array on the device.
struct Composition {
    items: Vec<u32>,
    /// `[leaves + 1]`: the first insert of each leaf.
    leaves: Range<usize>,
    /// `[files + 1]`: the run of each file, in the end.
    file_runs: Range<usize>,
    /// For each level `[pairs + 1]`: the first run of each pair.
    levels: Vec<Range<usize>>,
}

impl DeviceInserts {
    /// Copies sizes of files and inserts, of which none is empty.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When an insert is empty or names no file, or there are 2^31 inserts.
    pub fn upload(gpu: &Gpu, sizes: &[u64], inserts: &[Insert]) -> Result<Self, GpuError> {
        assert!(inserts.len() < 1 << 31, "{} inserts", inserts.len());
        assert!(
            inserts.iter().all(|insert| insert.length > 0),
            "an empty insert"
        );
        let mut counts = vec![0u32; sizes.len()];
        for insert in inserts {
            counts[insert.file as usize] += 1;
        }
        let mut firsts = vec![0u32];
        for count in &counts {
            firsts.push(firsts[firsts.len() - 1] + count);
        }
        let count = inserts.len();
        Ok(DeviceInserts {
            sizes: gpu.upload(sizes)?,
            files: gpu.upload_each(count, |insert| inserts[insert].file)?,
            offsets: gpu.upload_each(count, |insert| inserts[insert].offset)?,
            lengths: gpu.upload_each(count, |insert| inserts[insert].length)?,
            counts,
            firsts: gpu.upload(&firsts)?,
        })
    }

    /// Numbers of inserts by file, those of a file in their order; none if that is how they come.
    fn by_file(&self, gpu: &Gpu) -> Result<Option<Buffer<u32>>, GpuError> {
        let (count, files) = (self.files.len(), self.counts.len());
        if files < 2 {
            return Ok(None);
        }
        let keys = gpu.allocate::<u32>(count)?;
        let numbers = gpu.allocate::<u32>(count)?;
        // Files are u32.
        let bits = 0..usize::BITS - (files - 1).leading_zeros();
        let state = sort_state::<u32>(gpu, count, &bits)?;
        let bytes = (count * 3 + state.len()) * size_of::<u32>();
        gpu.launch(
            SOURCE.kernel("splice_keys_kernel").moving(bytes),
            Launch::each(count),
            arguments! {
                files: &self.files,
                count,
                keys,
                order: &numbers,
                state,
                state_items: state.len(),
            },
        )?;
        Ok(Some(sort_pairs_with(gpu, keys, numbers, bits, &state)?.1))
    }

    /// Places all inserts, and returns before the device has done so. The download reports an insert that was refused.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn place(&self, gpu: &Gpu) -> Result<DeviceSplices, GpuError> {
        let (count, files) = (self.files.len(), self.counts.len());
        // Splits make fewer than twice as many.
        let room = 2 * count;
        let refused = gpu.filled::<u32>(1, 0xff)?;
        if count == 0 {
            return Ok(DeviceSplices {
                offsets: gpu.zeroed(files + 1)?,
                bases: gpu.allocate(0)?,
                inserts: gpu.allocate(0)?,
                starts: gpu.allocate(0)?,
                lengths: gpu.allocate(0)?,
                refused,
            });
        }
        let order = self.by_file(gpu)?;
        let order = || order_argument(order.as_ref());
        let lengths = gpu.allocate::<u64>(count)?;
        gpu.launch(
            SOURCE
                .kernel("splice_lengths_kernel")
                .moving(count * (4 + 2 * 8)),
            Launch::each(count),
            arguments! { order: order(), count, lengths: &self.lengths, out: &lengths },
        )?;
        let grown: Buffer<u64> = scan(gpu, &lengths)?;
        let plan = Composition::new(&self.counts);
        let planned = gpu.upload(&plan.items)?;
        let leaves = plan.leaves.len() - 1;
        let tiles = Launch::tiles(room + 1, LEAF_THREADS as usize);
        // Words of the look-back of the leaves and of each level, a ticket behind each.
        let words = |level: usize| match level {
            0 => 0,
            level => leaves + 1 + (level - 1) * (tiles.blocks as usize + 1),
        };
        let state = gpu.zeroed::<u64>(words(plan.levels.len() + 1))?;

        let mut runs = Runs::with_room(gpu, leaves + 1, room)?;
        // Orders, files, offsets, and what has grown are read; a stretch is written at least.
        let bytes = count * (2 * 4 + 2 * 8) + count * STRETCH_BYTES;
        gpu.launch(
            SOURCE.kernel("splice_leaves_kernel").moving(bytes),
            Launch {
                threads: LEAF_THREADS,
                ..Launch::tiles(leaves, 1)
            },
            arguments! {
                order: order(),
                files: &self.files,
                offsets: &self.offsets,
                sizes: &self.sizes,
                grown,
                file_first: &self.firsts,
                leaf_first: planned.at(plan.leaves.start),
                leaves,
                words: state.at(0),
                ticket: state.at(leaves),
                bases: &runs.bases,
                inserts: &runs.inserts,
                starts: &runs.starts,
                sums: &runs.sums,
                run_offsets: &runs.offsets,
                refused,
            },
        )?;
        for (index, level) in plan.levels.iter().enumerate() {
            let words = words(index + 1);
            let look_back = [state.at(words), state.at(words + tiles.blocks as usize)];
            runs = runs.joined(gpu, &planned, level.clone(), look_back, count)?;
        }
        let placed = DeviceSplices {
            offsets: gpu.allocate(files + 1)?,
            bases: runs.bases,
            inserts: runs.inserts,
            starts: runs.starts,
            lengths: gpu.allocate(room)?,
            refused,
        };
        let bytes = count * (2 * 4 + 8 + 4 + 8);
        gpu.launch(
            SOURCE.kernel("splice_finish_kernel").moving(bytes),
            Launch::each(room.max(files + 1)),
            arguments! {
                order: order(),
                sums: &runs.sums,
                run_offsets: &runs.offsets,
                file_runs: planned.at(plan.file_runs.start),
                files,
                inserts: &placed.inserts,
                lengths: &placed.lengths,
                offsets: &placed.offsets,
            },
        )?;
        Ok(placed)
    }
}

/// Bytes of a stretch in a run.
const STRETCH_BYTES: usize = 3 * size_of::<u64>() + size_of::<u32>();

/// An order as an argument: nothing if inserts come in it.
fn order_argument(order: Option<&Buffer<u32>>) -> Argument<'_> {
    order.map_or(Argument::NONE, Argument::from)
}

impl Composition {
    fn new(counts: &[u32]) -> Composition {
        let mut items = Vec::new();
        // Runs of each file that has any, at first its leaves.
        let mut runs = Vec::new();
        let mut first = 0;
        for &count in counts.iter().filter(|&&count| count > 0) {
            items.extend((0..count).step_by(LEAF as usize).map(|at| first + at));
            runs.push(count.div_ceil(LEAF));
            first += count;
        }
        items.push(first);
        let leaves = 0..items.len();
        let mut run = 0;
        for &count in counts {
            items.push(run);
            run += u32::from(count > 0);
        }
        items.push(run);
        let file_runs = leaves.end..items.len();
        let mut levels = Vec::new();
        while runs.iter().any(|&count| count > 1) {
            let begin = items.len();
            let mut first = 0;
            for count in &mut runs {
                items.extend((0..*count).step_by(2).map(|run| first + run));
                first += *count;
                *count = count.div_ceil(2);
            }
            items.push(first);
            levels.push(begin..items.len());
        }
        Composition {
            items,
            leaves,
            file_runs,
            levels,
        }
    }
}

impl Runs {
    fn with_room(gpu: &Gpu, offsets: usize, room: usize) -> Result<Runs, GpuError> {
        Ok(Runs {
            offsets: gpu.allocate(offsets)?,
            bases: gpu.allocate(room)?,
            inserts: gpu.allocate(room)?,
            starts: gpu.allocate(room)?,
            sums: gpu.allocate(room + 1)?,
        })
    }

    /// Each pair of runs composed to one; `level` is where its pairs lie, `look_back` words and ticket, all 0. The buffers have at
    /// least that many stretches.
    fn joined(
        &self,
        gpu: &Gpu,
        plan: &Buffer<u32>,
        level: Range<usize>,
        [words, ticket]: [Argument; 2],
        count: usize,
    ) -> Result<Runs, GpuError> {
        let room = self.inserts.len();
        // Fewer than runs, which are u32.
        let pair_count = (level.len() - 1) as u32;
        let pairs = || plan.at(level.start);
        let before = gpu.allocate::<u32>(room)?;
        let inside = gpu.allocate::<u64>(room)?;
        let splits = gpu.allocate::<u32>(room + 1)?;
        let search = Launch {
            threads: LEAF_THREADS,
            ..Launch::tiles(room + 1, LEAF_THREADS as usize)
        };
        let bytes = count * (2 * 8 + 4 + 8) + room * 4;
        gpu.launch(
            SOURCE.kernel("splice_search_kernel").moving(bytes),
            search,
            arguments! {
                bases: &self.bases,
                sums: &self.sums,
                room,
                run_offsets: &self.offsets,
                pairs: pairs(),
                pair_count,
                words,
                ticket,
                before,
                inside,
                splits,
            },
        )?;
        let out = Runs::with_room(gpu, level.len(), room)?;
        let bytes = count * (2 * STRETCH_BYTES + 2 * 4 + 8);
        gpu.launch(
            SOURCE.kernel("splice_join_kernel").moving(bytes),
            Launch::each(room.max(level.len())),
            arguments! {
                bases: &self.bases,
                inserts: &self.inserts,
                starts: &self.starts,
                sums: &self.sums,
                run_offsets: &self.offsets,
                pairs: pairs(),
                pair_count,
                before,
                inside,
                splits,
                bases_out: &out.bases,
                inserts_out: &out.inserts,
                starts_out: &out.starts,
                sums_out: &out.sums,
                run_offsets_out: &out.offsets,
            },
        )?;
        Ok(out)
    }
}

impl DeviceSplices {
    /// Copies everything to the host; `Err` within: the number of the first insert whose offset lies past the end of its file.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn download(&self, gpu: &Gpu) -> Result<Result<Splices, u32>, GpuError> {
        match gpu.item(&self.refused, 0)? {
            u32::MAX => {}
            refused => return Ok(Err(refused)),
        }
        let offsets = gpu.download(&self.offsets)?;
        let count = offsets.last().map_or(0, |&end| end as usize);
        let mut inserts = vec![0u32; count];
        gpu.download_from(&self.inserts, 0, &mut inserts)?;
        let wide = |column: &Buffer<u64>| {
            let mut values = vec![0u64; count];
            gpu.download_from(column, 0, &mut values)?;
            Ok::<_, GpuError>(values)
        };
        let columns = wide(&self.bases)?.into_iter().zip(inserts);
        let columns = columns.zip(wide(&self.starts)?);
        let columns = columns.zip(wide(&self.lengths)?);
        let splices = columns.map(|(((base, insert), start), length)| Splice {
            base,
            insert,
            start,
            length,
        });
        Ok(Ok(Splices {
            splices: splices.collect(),
            offsets,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::splices::tests::random;
    use crate::gpu::test_devices::on_devices;
    use crate::{APPEND, place_inserts};

    #[test]
    fn placed_inserts_equal_the_twin() {
        on_devices(|gpu| {
            for seed in 0..8 {
                let count = [0, 1, 2, 3, 30, 255, 600, 1_500][seed as usize];
                let (sizes, mut inserts) = random(seed, 1 + seed % 5, count);
                inserts.iter_mut().for_each(|insert| insert.length += 1);
                let uploaded = DeviceInserts::upload(gpu, &sizes, &inserts)?;
                let found = uploaded.place(gpu)?.download(gpu)?;
                let expected = place_inserts(&sizes, &inserts);
                assert_eq!(found, expected, "seed {seed}");
            }
            Ok(())
        });
    }

    #[test]
    fn many_inserts_of_one_file_are_placed_as_by_the_twin() {
        on_devices(|gpu| {
            // From one leaf to several levels of them.
            for (seed, count) in [(1, 256), (2, 257), (3, 1_400)] {
                let (sizes, mut inserts) = random(seed, 1, count);
                inserts.iter_mut().for_each(|insert| insert.length += 1);
                let placed = DeviceInserts::upload(gpu, &sizes, &inserts)?.place(gpu)?;
                let expected = place_inserts(&sizes, &inserts);
                assert_eq!(placed.download(gpu)?, expected, "{count}");
            }
            Ok(())
        });
    }

    #[test]
    fn appends_and_places_in_large_files_are_those_of_the_twin() {
        on_devices(|gpu| {
            for sizes in [vec![7], vec![3, 0, 1 << 40, 5, 0], vec![1 << 33]] {
                for is_append in [true, false] {
                    let insert = |number: u64| {
                        let file = number * 7 % sizes.len() as u64;
                        let offset = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        let offset = offset % (sizes[file as usize] + 1);
                        Insert {
                            file: file as u32,
                            offset: if is_append { APPEND } else { offset },
                            length: 1 + number % 3,
                        }
                    };
                    let inserts: Vec<Insert> = (0..500).map(insert).collect();
                    let placed = DeviceInserts::upload(gpu, &sizes, &inserts)?;
                    let found = placed.place(gpu)?.download(gpu)?;
                    assert_eq!(found, place_inserts(&sizes, &inserts), "{sizes:?}");
                }
            }
            Ok(())
        });
    }

    #[test]
    fn the_first_insert_past_the_end_is_reported() {
        on_devices(|gpu| {
            let insert = |offset| Insert {
                file: 0,
                offset,
                length: 1,
            };
            let inserts = [insert(5), insert(6), insert(9), insert(10)];
            let uploaded = DeviceInserts::upload(gpu, &[5], &inserts)?;
            assert_eq!(uploaded.place(gpu)?.download(gpu)?.err(), Some(2));
            Ok(())
        });
    }
}
