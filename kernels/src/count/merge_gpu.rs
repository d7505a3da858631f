//! Rows of (file, count) as sums of other rows, level by level or all at once.
//!
//! The invariant: a row adds up at most as many entries as its weight says,
//! and its counts together are at most its weight. Steps are in an order in
//! which a row needs only lists of earlier steps. What rows stand for is not
//! known here.

use std::ops::Range;

use crate::count::tables_gpu::DeviceTable;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Argument, Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::levels::{self, STATE_ITEMS, Walk};
use crate::gpu::primitives;

/// The costs of rows that one block merges together.
pub(crate) const WINDOW: u32 = 1024;

/// Blocks of a multiprocessor.
const RESIDENT: u32 = 4;

/// Most entries of all lists, so that places leave the highest bit free for FILE_FLAG.
pub(crate) const ENTRIES_MAX: u64 = 1 << 31;

pub(crate) static SOURCE: Source = Source {
    name: "merge.cu",
    text: include_str!("merge.cu"),
    headers: &[levels::HEADER],
    constants: &[
        ("MERGE_THREADS", THREADS as u64),
        ("MERGE_WINDOW", WINDOW as u64),
    ],
};

/// What rows add up, and in which order. Holds for a grammar as long as it does not change.
#[derive(Debug)]
pub(crate) struct MergePlan {
    use_offsets: Buffer<u32>,
    holders: Buffer<u32>,
    /// `[rows]`.
    pub(crate) weights: Buffer<u32>,
    first_rows: Buffer<u32>,
    end_rows: Buffer<u32>,
    heavy_pieces: Buffer<u32>,
    heavy_rows: Buffer<u32>,
    starts: Buffer<u32>,
    files: u32,
    /// Rows of more than [`WINDOW`].
    pub(crate) heavy_count: usize,
    entries_max: usize,
    walk: Walk,
    bounds: Buffer<u32>,
}

/// Lists of (file, count), with room between them.
#[derive(Debug)]
pub(crate) struct Lists {
    /// `[rows + 1]`.
    pub(crate) starts: Buffer<u32>,
    /// `[rows]`.
    pub(crate) lengths: Buffer<u32>,
    /// `file << 32 | count`, in order of file.
    pub(crate) entries: Buffer<u64>,
}

impl MergePlan {
    /// Plans to merge the rows of each step, which are [rows] uses from `use_offsets` on; `holders` are files or, from
    /// `files` on, rows of lists. None has more than `weights` says.
    pub(crate) fn new(
        gpu: &Gpu,
        use_offsets: Buffer<u32>,
        holders: Buffer<u32>,
        weights: Buffer<u32>,
        files: usize,
        steps: &[Range<u32>],
    ) -> Result<MergePlan, GpuError> {
        let rows = use_offsets.len() - 1;
        assert!(weights.len() >= rows, "a weight for each row");
        // Both are u32.
        let (row_count, files) = (rows as u32, files as u32);
        let costs = gpu.allocate::<u32>(rows)?;
        let pieces = gpu.allocate::<u32>(rows)?;
        let heavy = gpu.allocate::<u32>(rows)?;
        let room = gpu.allocate::<u32>(rows)?;
        let arguments = arguments! {
            weights,
            use_offsets,
            rows: row_count,
            files,
            costs,
            pieces,
            heavy,
            lengths_max: &room,
        };
        gpu.launch_looping(SOURCE.kernel("row_costs_kernel").whole(), rows, arguments)?;
        let costs = primitives::scan::<u32, u64>(gpu, &costs)?;
        let heavy_pieces = primitives::scan::<u32, u32>(gpu, &pieces)?;
        let heavy_rows = primitives::scan::<u32, u32>(gpu, &heavy)?;
        let room_all = primitives::scan::<u32, u64>(gpu, &room)?;
        let starts = primitives::scan::<u32, u32>(gpu, &room)?;
        drop((pieces, heavy, room));

        // Begin, last row and end of each step, and the end of all.
        let places = steps.iter().filter(|step| !step.is_empty());
        let places = places.flat_map(|step| [step.start, step.end - 1, step.end]);
        let places: Vec<u32> = places
            .chain([row_count.saturating_sub(1), row_count])
            .collect();
        let asked = gpu.upload(&places)?;
        let said = gpu.allocate::<u64>(places.len() * 4)?;
        let arguments = arguments! {
            rows: &asked,
            count: places.len() as u32,
            costs,
            pieces: &heavy_pieces,
            heavy: &heavy_rows,
            room: &room_all,
            out: &said,
        };
        gpu.launch_looping(SOURCE.kernel("row_bounds_kernel"), places.len(), arguments)?;
        let said = gpu.download(&said)?;
        let at = |place: usize| <[u64; 4]>::try_from(&said[place * 4..][..4]).expect("four");
        let (_, [_, _, heavy_count, entries_max]) = (at(places.len() - 2), at(places.len() - 1));
        if entries_max > ENTRIES_MAX {
            let bytes = entries_max * size_of::<u64>() as u64;
            return Err(GpuError::Memory {
                device: gpu.facts().name.clone(),
                bytes,
                needed: gpu.memory_used() + bytes,
                limit: gpu.memory_limit(),
            });
        }
        let window = |cost: u64| (cost / u64::from(WINDOW)) as u32;
        let windows = window(at(places.len() - 2)[0]) + 1;
        let first_rows = gpu.allocate::<u32>(windows as usize + 1)?;
        let end_rows = gpu.allocate::<u32>(windows as usize)?;
        let arguments = arguments! { costs, weights, rows: row_count, first_rows, end_rows };
        gpu.launch_looping(
            SOURCE.kernel("first_rows_kernel").whole(),
            rows + 1,
            arguments,
        )?;

        let (mut bounds, mut ranges) = (Vec::new(), Vec::new());
        let used = steps.iter().filter(|step| !step.is_empty());
        for (index, step) in used.enumerate() {
            let [begin, last, end] = [0, 1, 2].map(|place| at(index * 3 + place));
            // Counted by rows, which are u32.
            let (first_piece, pieces) = (begin[1] as u32, (end[1] - begin[1]) as u32);
            let windows = window(begin[0])..window(last[0]) + 1;
            bounds.extend([step.start, step.end, first_piece, pieces, windows.start]);
            ranges.push(0..pieces + (windows.end - windows.start));
        }
        Ok(MergePlan {
            use_offsets,
            holders,
            weights,
            first_rows,
            end_rows,
            heavy_pieces,
            heavy_rows,
            starts,
            files,
            heavy_count: heavy_count as usize,
            entries_max: entries_max as usize,
            walk: Walk::new(gpu, &ranges, &[], 1, 0)?,
            bounds: gpu.upload(&bounds)?,
        })
    }

    /// Merges all rows, whose holders behind the files are rows from `first` on of their own result.
    pub(crate) fn merge_own(&self, gpu: &Gpu, first: usize) -> Result<Lists, GpuError> {
        let target = self.target(gpu)?;
        let lists = [
            self.starts.at(first),
            target.1.at(first),
            Argument::from(&target.2),
        ];
        self.merge(gpu, lists, &target, false)?;
        Ok(self.lists(target))
    }

    /// Merges all rows, whose holders behind the files are rows from `first` on of `lists`. With `by_count` the entries of
    /// a row that is not heavy are in order of count, the largest first, then of file.
    pub(crate) fn merge_lists(
        &self,
        gpu: &Gpu,
        lists: &Lists,
        first: usize,
        by_count: bool,
    ) -> Result<Lists, GpuError> {
        let target = self.target(gpu)?;
        let arguments = [
            lists.starts.at(first),
            lists.lengths.at(first),
            Argument::from(&lists.entries),
        ];
        self.merge(gpu, arguments, &target, by_count)?;
        Ok(self.lists(target))
    }

    fn target(&self, gpu: &Gpu) -> Result<ListBuffers, GpuError> {
        let starts = gpu.allocate(self.starts.len())?;
        gpu.copy(&starts, 0, &self.starts, self.starts.len())?;
        Ok((
            starts,
            gpu.zeroed(self.starts.len() - 1)?,
            gpu.allocate(self.entries_max)?,
        ))
    }

    fn lists(&self, (starts, lengths, entries): ListBuffers) -> Lists {
        Lists {
            starts,
            lengths,
            entries,
        }
    }

    fn merge(
        &self,
        gpu: &Gpu,
        [list_starts, list_lengths, list_entries]: [Argument; 3],
        (starts, lengths, entries): &ListBuffers,
        by_count: bool,
    ) -> Result<(), GpuError> {
        // A counter for each file, behind those of all rows one for pieces, and those of the walk.
        let pieces_done = self.heavy_count * self.files as usize;
        let state = pieces_done + self.heavy_count;
        let counters = gpu.zeroed::<u32>(state + STATE_ITEMS)?;
        let file_bits = u32::BITS - self.files.saturating_sub(1).leading_zeros();
        assert!(file_bits + WINDOW.ilog2() <= u32::BITS, "files of a key");
        let launch = Launch {
            blocks: self.walk.blocks(gpu, RESIDENT),
            threads: THREADS,
        };
        let mut arguments = arguments! {
            use_offsets: &self.use_offsets,
            holders: &self.holders,
            first_rows: &self.first_rows,
            end_rows: &self.end_rows,
            heavy_pieces: &self.heavy_pieces,
            heavy_rows: &self.heavy_rows,
            counters,
            pieces_done: counters.at(pieces_done),
            starts,
            lengths,
            entries,
            list_starts,
            list_lengths,
            list_entries,
            files: self.files,
            file_bits,
            by_count: u32::from(by_count),
            bounds: &self.bounds,
        }
        .to_vec();
        arguments.extend(self.walk.arguments(counters.at(state)));
        gpu.launch(SOURCE.kernel("merge_kernel"), launch, &arguments)
    }
}

/// Starts, lengths and entries of lists.
type ListBuffers = (Buffer<u32>, Buffer<u32>, Buffer<u64>);

impl Lists {
    /// The table of the first `rows` lists.
    pub(crate) fn table(&self, gpu: &Gpu, rows: usize) -> Result<DeviceTable, GpuError> {
        let mut offsets = primitives::scan::<u32, u32>(gpu, &self.lengths)?;
        offsets.truncate(rows + 1);
        let count = gpu.item(&offsets, rows)? as usize;
        let entries = gpu.allocate::<u64>(count)?;
        // Rows are u32.
        let arguments = arguments! {
            starts: &self.starts,
            offsets,
            entries: &self.entries,
            rows: rows as u32,
            entries_out: &entries,
        };
        gpu.launch_looping(
            SOURCE
                .kernel("close_rows_kernel")
                .moving(rows * 2 * 4 + count * 2 * 8),
            rows * 32,
            arguments,
        )?;
        Ok(DeviceTable { offsets, entries })
    }
}
