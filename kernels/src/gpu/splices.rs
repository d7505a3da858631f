//! Where inserted text comes to stand, on a device.
//!
//! The invariant: the result is that of [`place_inserts`](crate::place_inserts).
//! The host decides which runs are pairs, from how many inserts a file has;
//! everything else stays on the device.

use super::device::{Buffer, Gpu, arguments};
use super::driver::{Kernel, Launch, Source};
use super::error::GpuError;
use super::primitives::{scan, sort_pairs};
use crate::{Insert, InsertOrder, Splice, Splices};

const THREADS: u32 = 256;

pub(crate) static SOURCE: Source = Source {
    name: "splices.cu",
    text: include_str!("splices.cu"),
    constants: &[("SPLICE_THREADS", THREADS as u64)],
};

const fn kernel(name: &'static str) -> Kernel {
    Kernel {
        source: &SOURCE,
        name,
    }
}

fn each(items: usize) -> Launch {
    Launch {
        blocks: Gpu::blocks_for(items, THREADS),
        threads: THREADS,
    }
}

/// Inserts on the device.
#[derive(Debug)]
pub struct DeviceInserts {
    sizes: Buffer<u64>,
    files: Buffer<u32>,
    offsets: Buffer<u64>,
    lengths: Buffer<u64>,
    /// Inserts of each file, on the host.
    counts: Vec<u32>,
}

/// Stretches of inserted text on the device: [`Splices`] as arrays.
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
        let count = self.files.len();
        let numbers: Vec<u32> = (0..count as u32).collect();
        let numbers = gpu.upload(&numbers)?;
        let keys = gpu.allocate::<u32>(count)?;
        gpu.copy(&keys, 0, &self.files, count)?;
        let file_bits = u32::BITS - (self.counts.len() as u32).leading_zeros();
        let (files, mut sorted) = sort_pairs(gpu, keys, numbers, 0..file_bits)?;
        let file_first = gpu.allocate::<u32>(self.counts.len() + 1)?;
        gpu.launch(
            kernel("splice_firsts_kernel"),
            each(self.counts.len() + 1),
            arguments![&files, count, &file_first, self.counts.len()],
        )?;
        let mut lengths = self.gather(gpu, &sorted)?;
        let mut bases = gpu.allocate::<u64>(count)?;
        let refused = gpu.filled::<u32>(1, 0xff)?;
        let grown_before: Buffer<u64> = scan(gpu, &lengths)?;
        gpu.launch(
            kernel("splice_begin_kernel"),
            each(count),
            arguments![
                &sorted,
                count,
                &self.files,
                &self.offsets,
                &self.lengths,
                &self.sizes,
                &grown_before,
                &file_first,
                u32::from(order == InsertOrder::Sequence),
                &bases,
                &refused,
            ],
        )?;
        let refused = gpu.item(&refused, 0)?;
        if refused != u32::MAX {
            return Ok(Err(refused));
        }
        let starts = gpu.zeroed::<u64>(count)?;
        if order == InsertOrder::Batch {
            (sorted, bases) = self.by_base(gpu, sorted, bases)?;
            lengths = self.gather(gpu, &sorted)?;
            return Ok(Ok(DeviceSplices {
                offsets: file_first,
                bases,
                inserts: sorted,
                starts,
                lengths,
            }));
        }
        let splices = DeviceSplices {
            // One run an insert.
            offsets: gpu.upload(&(0..=count as u32).collect::<Vec<u32>>())?,
            bases,
            inserts: sorted,
            starts,
            lengths,
        };
        self.compose(gpu, splices).map(Ok)
    }

    /// By insert in a new order.
    fn gather(&self, gpu: &Gpu, order: &Buffer<u32>) -> Result<Buffer<u64>, GpuError> {
        let gathered = gpu.allocate::<u64>(order.len())?;
        gpu.launch(
            kernel("splice_gather_u64_kernel"),
            each(order.len()),
            arguments![order, order.len(), &self.lengths, &gathered],
        )?;
        Ok(gathered)
    }

    /// Inserts in order of file and place, from those in order of file.
    fn by_base(
        &self,
        gpu: &Gpu,
        sorted: Buffer<u32>,
        bases: Buffer<u64>,
    ) -> Result<(Buffer<u32>, Buffer<u64>), GpuError> {
        let count = sorted.len();
        // By place first, then by file again, as sorting is stable; the places go along as numbers.
        let positions = gpu.upload(&(0..count as u32).collect::<Vec<u32>>())?;
        let keys = gpu.allocate::<u64>(count)?;
        gpu.copy(&keys, 0, &bases, count)?;
        let (_, by_place) = sort_pairs(gpu, keys, positions, 0..u64::BITS)?;
        let gather = |name,
                      values: super::driver::Argument,
                      out: super::driver::Argument,
                      order: &Buffer<u32>| {
            gpu.launch(
                kernel(name),
                each(count),
                &[order.into(), count.into(), values, out],
            )
        };
        let inserts = gpu.allocate::<u32>(count)?;
        gather(
            "splice_gather_u32_kernel",
            (&sorted).into(),
            (&inserts).into(),
            &by_place,
        )?;
        let files = gpu.allocate::<u32>(count)?;
        gather(
            "splice_gather_u32_kernel",
            (&self.files).into(),
            (&files).into(),
            &inserts,
        )?;
        let file_bits = u32::BITS - (self.counts.len() as u32).leading_zeros();
        let (_, order) = sort_pairs(gpu, files, by_place, 0..file_bits)?;
        let inserts = gpu.allocate::<u32>(count)?;
        gather(
            "splice_gather_u32_kernel",
            (&sorted).into(),
            (&inserts).into(),
            &order,
        )?;
        let places = gpu.allocate::<u64>(count)?;
        gather(
            "splice_gather_u64_kernel",
            (&bases).into(),
            (&places).into(),
            &order,
        )?;
        Ok((inserts, places))
    }

    /// Composes the runs of each file, in pairs, until there is one a file.
    fn compose(&self, gpu: &Gpu, splices: DeviceSplices) -> Result<DeviceSplices, GpuError> {
        let mut splices = splices;
        let mut runs = self.counts.clone();
        loop {
            let is_last = runs.iter().all(|&count| count <= 1);
            let mut pairs = vec![0u32];
            for &count in &runs {
                let first = pairs[pairs.len() - 1];
                // In the end each file has one run, maybe without any stretches.
                match (is_last, count) {
                    (true, count) => pairs.push(first + count),
                    (false, count) => {
                        let ends = (2..=count)
                            .step_by(2)
                            .chain((count % 2 == 1).then_some(count));
                        pairs.extend(ends.map(|end| first + end));
                    }
                }
            }
            let pairs_on_device = gpu.upload(&pairs)?;
            if is_last {
                // Where the run of each file begins; there are no splits any more.
                let offsets = gpu.allocate::<u32>(pairs.len())?;
                let none = gpu.zeroed::<u32>(splices.inserts.len() + 1)?;
                gpu.launch(
                    kernel("splice_runs_kernel"),
                    each(pairs.len()),
                    arguments![
                        &splices.offsets,
                        &pairs_on_device,
                        pairs.len() - 1,
                        &none,
                        &offsets
                    ],
                )?;
                splices.offsets = offsets;
                return Ok(splices);
            }
            splices = splices.joined(gpu, &pairs_on_device)?;
            runs.iter_mut().for_each(|count| *count = count.div_ceil(2));
        }
    }
}

impl DeviceSplices {
    /// Each pair of runs composed to one.
    fn joined(&self, gpu: &Gpu, pairs: &Buffer<u32>) -> Result<DeviceSplices, GpuError> {
        let count = self.inserts.len();
        let pair_count = (pairs.len() - 1) as u32;
        let sums: Buffer<u64> = scan(gpu, &self.lengths)?;
        let before = gpu.allocate::<u32>(count)?;
        let inside = gpu.allocate::<u64>(count)?;
        let is_split = gpu.allocate::<u32>(count)?;
        gpu.launch(
            kernel("splice_search_kernel"),
            each(count),
            arguments![
                &self.bases,
                &sums,
                count,
                &self.offsets,
                pairs,
                pair_count,
                &before,
                &inside,
                &is_split,
            ],
        )?;
        let splits: Buffer<u32> = scan(gpu, &is_split)?;
        let joined = count + gpu.item(&splits, count)? as usize;
        let out = DeviceSplices {
            offsets: gpu.allocate(pairs.len())?,
            bases: gpu.allocate(joined)?,
            inserts: gpu.allocate(joined)?,
            starts: gpu.allocate(joined)?,
            lengths: gpu.allocate(joined)?,
        };
        gpu.launch(
            kernel("splice_join_kernel"),
            each(count),
            arguments![
                &self.bases,
                &self.inserts,
                &self.starts,
                &self.lengths,
                &sums,
                count,
                &self.offsets,
                pairs,
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
            kernel("splice_runs_kernel"),
            each(pairs.len()),
            arguments![
                &self.offsets,
                pairs,
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
        let columns = gpu.download(&self.bases)?.into_iter();
        let columns = columns.zip(gpu.download(&self.inserts)?);
        let columns = columns.zip(gpu.download(&self.starts)?);
        let columns = columns.zip(gpu.download(&self.lengths)?);
        let splices = columns.map(|(((base, insert), start), length)| Splice {
            base,
            insert,
            start,
            length,
        });
        Ok(Splices {
            offsets: gpu.download(&self.offsets)?,
            splices: splices.collect(),
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
