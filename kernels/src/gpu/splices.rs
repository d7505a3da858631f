//! Where inserted text comes to stand, on a device.
//!
//! The invariant: the result is that of [`place_inserts`](crate::place_inserts).
//! The host decides which runs are pairs, from how many inserts a file has;
//! everything else stays on the device.

use std::ops::Range;

use super::device::{Buffer, Gpu, arguments};
use super::driver::{Launch, Source, THREADS};
use super::error::GpuError;
use super::primitives::{scan, sort_pairs};
use crate::{Insert, InsertOrder, Splice, Splices};

pub(crate) static SOURCE: Source = Source {
    name: "splices.cu",
    text: include_str!("splices.cu"),
    constants: &[("SPLICE_THREADS", THREADS as u64)],
};

/// Inserts on the device.
#[derive(Debug)]
pub struct DeviceInserts {
    sizes: Buffer<u64>,
    files: Buffer<u32>,
    offsets: Buffer<u64>,
    lengths: Buffer<u64>,
    /// Inserts of each file, on the host.
    counts: Vec<u32>,
    size_max: u64,
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
        let files: Vec<u32> = inserts.iter().map(|insert| insert.file).collect();
        let offsets: Vec<u64> = inserts.iter().map(|insert| insert.offset).collect();
        let lengths: Vec<u64> = inserts.iter().map(|insert| insert.length).collect();
        Ok(DeviceInserts {
            sizes: gpu.upload(sizes)?,
            files: gpu.upload(&files)?,
            offsets: gpu.upload(&offsets)?,
            lengths: gpu.upload(&lengths)?,
            counts,
            size_max: sizes.iter().copied().max().unwrap_or(0),
        })
    }

    /// Places all inserts; `Err` within: the number of the first whose offset lies past the end of its file.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn place(
        &self,
        gpu: &Gpu,
        order: InsertOrder,
    ) -> Result<Result<DeviceSplices, u32>, GpuError> {
        let refused = gpu.filled::<u32>(1, 0xff)?;
        let placed = match order {
            InsertOrder::Batch => self.place_batch(gpu, &refused)?,
            InsertOrder::Sequence => self.place_sequence(gpu, &refused)?,
        };
        match gpu.item(&refused, 0)? {
            u32::MAX => Ok(Ok(placed)),
            insert => Ok(Err(insert)),
        }
    }

    fn place_batch(&self, gpu: &Gpu, refused: &Buffer<u32>) -> Result<DeviceSplices, GpuError> {
        let (count, files) = (self.files.len(), self.counts.len());
        let size_bits = u64::BITS - self.size_max.leading_zeros();
        let file_bits = usize::BITS - files.leading_zeros();
        assert!(
            size_bits + file_bits <= u64::BITS,
            "files with more than 2^64 bytes"
        );
        let keys = gpu.allocate::<u64>(count)?;
        let numbers = gpu.allocate::<u32>(count)?;
        gpu.launch(
            SOURCE.kernel("splice_keys_kernel"),
            Launch::each(count),
            arguments![
                &self.files,
                &self.offsets,
                &self.sizes,
                count,
                size_bits,
                &keys,
                &numbers,
                refused,
            ],
        )?;
        let (keys, inserts) = sort_pairs(gpu, keys, numbers, 0..size_bits + file_bits)?;
        let placed = DeviceSplices {
            offsets: gpu.allocate(files + 1)?,
            bases: gpu.allocate(count)?,
            inserts,
            starts: gpu.allocate(count)?,
            lengths: gpu.allocate(count)?,
        };
        gpu.launch(
            SOURCE.kernel("splice_batch_kernel"),
            Launch::each(count),
            arguments![
                &keys,
                &placed.inserts,
                &self.lengths,
                count,
                size_bits,
                &placed.bases,
                &placed.starts,
                &placed.lengths,
            ],
        )?;
        gpu.launch(
            SOURCE.kernel("splice_firsts_kernel"),
            Launch::each(files + 1),
            arguments![&keys, count, size_bits, &placed.offsets, files],
        )?;
        Ok(placed)
    }

    fn place_sequence(&self, gpu: &Gpu, refused: &Buffer<u32>) -> Result<DeviceSplices, GpuError> {
        let (count, files) = (self.files.len(), self.counts.len());
        // Splits make fewer than twice as many.
        let room = 2 * count;
        let numbers = gpu.allocate::<u32>(count)?;
        gpu.launch(
            SOURCE.kernel("splice_numbers_kernel"),
            Launch::each(count),
            arguments![&numbers, count],
        )?;
        let keys = gpu.allocate::<u32>(count)?;
        gpu.copy(&keys, 0, &self.files, count)?;
        let file_bits = usize::BITS - files.leading_zeros();
        let (_, sorted) = sort_pairs(gpu, keys, numbers, 0..file_bits)?;
        let splices = DeviceSplices::with_room(gpu, count + 1, room)?;
        gpu.copy(&splices.inserts, 0, &sorted, count)?;
        gpu.launch(
            SOURCE.kernel("splice_lengths_kernel"),
            Launch::each(count),
            arguments![
                &sorted,
                count,
                &self.lengths,
                &splices.lengths,
                &splices.starts
            ],
        )?;
        gpu.fill_items(&splices.lengths, count, count, 0)?;
        let grown: Buffer<u64> = scan(gpu, &splices.lengths)?;
        let mut first = 0;
        let mut file_first = vec![0u32];
        file_first.extend(self.counts.iter().map(|count| {
            first += count;
            first
        }));
        let file_first = gpu.upload(&file_first)?;
        gpu.launch(
            SOURCE.kernel("splice_places_kernel"),
            Launch::each(count + 1),
            arguments![
                &sorted,
                count,
                &self.files,
                &self.offsets,
                &self.sizes,
                &grown,
                &file_first,
                &splices.bases,
                &splices.offsets,
                refused,
            ],
        )?;
        self.compose(gpu, splices)
    }

    /// Composes the runs of each file, in pairs, until there is one a file. The host waits for nothing.
    fn compose(&self, gpu: &Gpu, splices: DeviceSplices) -> Result<DeviceSplices, GpuError> {
        // The pairs of all levels, one after the other: for each pair its first run, and the number of runs.
        let mut pairs: Vec<u32> = Vec::new();
        let mut levels = Vec::new();
        let mut runs = self.counts.clone();
        loop {
            let is_last = runs.iter().all(|&count| count <= 1);
            let begin = pairs.len();
            pairs.push(0);
            for &count in &runs {
                let first = pairs[pairs.len() - 1];
                // In the end each file has one run, maybe without any stretches.
                if is_last {
                    pairs.push(first + count);
                } else {
                    let ends = (2..=count).step_by(2);
                    let ends = ends.chain((count % 2 == 1).then_some(count));
                    pairs.extend(ends.map(|end| first + end));
                }
            }
            levels.push(begin..pairs.len());
            if is_last {
                break;
            }
            runs.iter_mut().for_each(|count| *count = count.div_ceil(2));
        }
        let pairs = gpu.upload(&pairs)?;
        let last = levels.pop().expect("there always is a last level");
        let mut splices = splices;
        for level in levels {
            splices = splices.joined(gpu, &pairs, level)?;
        }
        // Where the run of each file begins; there are no splits any more.
        let offsets = gpu.allocate::<u32>(last.len())?;
        let none = gpu.zeroed::<u32>(splices.inserts.len() + 1)?;
        gpu.launch(
            SOURCE.kernel("splice_runs_kernel"),
            Launch::each(last.len()),
            arguments![
                &splices.offsets,
                pairs.at(last.start),
                last.len() - 1,
                &none,
                &offsets
            ],
        )?;
        splices.offsets = offsets;
        Ok(splices)
    }
}

impl DeviceSplices {
    fn with_room(gpu: &Gpu, offsets: usize, room: usize) -> Result<DeviceSplices, GpuError> {
        Ok(DeviceSplices {
            offsets: gpu.allocate(offsets)?,
            bases: gpu.allocate(room)?,
            inserts: gpu.allocate(room)?,
            starts: gpu.allocate(room)?,
            lengths: gpu.allocate(room)?,
        })
    }

    /// Each pair of runs composed to one; `level` is where its pairs lie.
    fn joined(
        &self,
        gpu: &Gpu,
        pairs: &Buffer<u32>,
        level: Range<usize>,
    ) -> Result<DeviceSplices, GpuError> {
        let room = self.inserts.len();
        let pair_count = (level.len() - 1) as u32;
        let first_pair = || pairs.at(level.start);
        let sums: Buffer<u64> = scan(gpu, &self.lengths)?;
        let before = gpu.allocate::<u32>(room)?;
        let inside = gpu.allocate::<u64>(room)?;
        let is_split = gpu.allocate::<u32>(room)?;
        gpu.launch(
            SOURCE.kernel("splice_search_kernel"),
            Launch::each(room),
            arguments![
                &self.bases,
                &sums,
                room,
                &self.offsets,
                first_pair(),
                pair_count,
                &before,
                &inside,
                &is_split,
            ],
        )?;
        let splits: Buffer<u32> = scan(gpu, &is_split)?;
        let out = DeviceSplices::with_room(gpu, level.len(), room)?;
        // Lengths are summed as far as there is room.
        gpu.fill(&out.lengths, 0)?;
        gpu.launch(
            SOURCE.kernel("splice_join_kernel"),
            Launch::each(room),
            arguments![
                &self.bases,
                &self.inserts,
                &self.starts,
                &self.lengths,
                &sums,
                &self.offsets,
                first_pair(),
                pair_count,
                &before,
                &inside,
                &splits,
                &out.bases,
                &out.inserts,
                &out.starts,
                &out.lengths,
            ],
        )?;
        gpu.launch(
            SOURCE.kernel("splice_runs_kernel"),
            Launch::each(level.len()),
            arguments![
                &self.offsets,
                first_pair(),
                u64::from(pair_count),
                &splits,
                &out.offsets
            ],
        )?;
        Ok(out)
    }

    /// Copies everything to the host.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn download(&self, gpu: &Gpu) -> Result<Splices, GpuError> {
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
        Ok(Splices {
            splices: splices.collect(),
            offsets,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::place_inserts;
    use crate::splices::tests::random;

    #[test]
    fn placed_inserts_equal_the_twin() {
        on_devices(|gpu| {
            for order in [InsertOrder::Batch, InsertOrder::Sequence] {
                for seed in 0..8 {
                    let count = [0, 1, 2, 3, 30, 255, 600, 1_500][seed as usize];
                    let (sizes, mut inserts) = random(seed, 1 + seed % 5, count, order);
                    inserts.iter_mut().for_each(|insert| insert.length += 1);
                    let uploaded = DeviceInserts::upload(gpu, &sizes, &inserts)?;
                    let found = match uploaded.place(gpu, order)? {
                        Ok(placed) => Ok(placed.download(gpu)?),
                        Err(refused) => Err(refused),
                    };
                    let expected = place_inserts(&sizes, &inserts, order);
                    assert_eq!(found, expected, "seed {seed} {order:?}");
                }
            }
            Ok(())
        });
    }

    #[test]
    fn the_first_insert_past_the_end_is_told() {
        on_devices(|gpu| {
            let insert = |offset| Insert {
                file: 0,
                offset,
                length: 1,
            };
            let inserts = [insert(5), insert(6), insert(9), insert(10)];
            for (order, expected) in [(InsertOrder::Sequence, 2), (InsertOrder::Batch, 1)] {
                let uploaded = DeviceInserts::upload(gpu, &[5], &inserts)?;
                assert_eq!(uploaded.place(gpu, order)?.err(), Some(expected));
            }
            Ok(())
        });
    }
}
