//! Tables of sorted keys, on a device.
//!
//! The invariant: a table has a row for each number of rows, also for those without keys, and counts are sums.

use crate::count::tables_gpu::DeviceTable;
use crate::gpu::GpuError;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Argument, Launch, Source, THREADS};
use crate::gpu::primitives::LookBack;

/// Keys of a tile of runs.
const TILE: usize = 4096;

pub(crate) static SOURCE: Source = Source {
    name: "key_tables.cu",
    text: include_str!("key_tables.cu"),
    headers: &[],
    constants: &[
        ("KEY_TABLES_THREADS", THREADS as u64),
        ("KEY_TABLES_TILE", TILE as u64),
    ],
};

/// The table of sorted keys, `row << column_bits | column`, with the sums of their counts; without counts each is one.
///
/// # Errors
///
/// [`GpuError`].
pub fn table_of_keys(
    gpu: &Gpu,
    keys: &Buffer<u32>,
    counts: Option<&Buffer<u32>>,
    column_bits: u32,
    rows: usize,
) -> Result<DeviceTable, GpuError> {
    let count = keys.len();
    let (run_keys, firsts) = (gpu.allocate::<u32>(count)?, gpu.allocate::<u32>(count)?);
    let totals = gpu.zeroed::<u64>(2)?;
    let launch = Launch::tiles(count, TILE);
    let look_back = LookBack::<u64>::new(gpu, launch.blocks as usize)?;
    let arguments = arguments! {
        keys,
        counts: counts.map_or(Argument::NONE, Argument::from),
        count,
        words: look_back.words(),
        ticket: look_back.ticket(),
        run_keys,
        firsts,
        totals,
    };
    gpu.launch(SOURCE.kernel("key_runs_kernel"), launch, arguments)?;
    let offsets = gpu.allocate::<u32>(rows + 1)?;
    // Allocated for the upper bound: the number of entries is read once they are written.
    let mut entries = gpu.allocate::<u64>(count)?;
    let arguments = arguments! {
        run_keys,
        firsts,
        totals,
        column_bits,
        // Words are u32, and files too.
        rows: rows as u32,
        offsets,
        entries,
    };
    gpu.launch_looping(SOURCE.kernel("run_entries_kernel"), count + 1, arguments)?;
    // At most `count`, a usize.
    entries.truncate(gpu.item(&totals, 0)? as usize);
    Ok(DeviceTable { offsets, entries })
}
