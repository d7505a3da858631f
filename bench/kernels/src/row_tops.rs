//! The largest entries of each row of a table on a device.
//!
//! The invariant: they are those of [`CountTable::top`](zipfdb_kernels::CountTable::top), bit for bit.

use zipfdb_kernels::gpu::building_blocks::{Argument, Source, THREADS, arguments};
use zipfdb_kernels::gpu::{Buffer, DeviceTable, Gpu, GpuError, primitives};

pub(crate) static SOURCE: Source = Source {
    name: "row_tops.cu",
    text: include_str!("row_tops.cu"),
    headers: &[],
    constants: &[("ROW_TOPS_THREADS", THREADS as u64)],
};

/// Of each row the `k` entries with the largest counts, the largest first; of equal counts those whose column has the
/// smaller rank first. Without ranks a column's rank is its number.
///
/// # Errors
///
/// [`GpuError`].
pub fn row_tops(
    gpu: &Gpu,
    table: &DeviceTable,
    k: usize,
    ranks: Option<&Buffer<u32>>,
) -> Result<DeviceTable, GpuError> {
    let count = table.entries.len();
    let row_bits = usize::BITS - table.rows().saturating_sub(1).leading_zeros();
    let rows = primitives::expand(gpu, &table.offsets, count)?;
    let mut numbers = gpu.allocate::<u32>(count)?;
    if let Some(ranks) = ranks {
        let keys = gpu.allocate::<u32>(count)?;
        let arguments = arguments! { entries: &table.entries, count, ranks, keys, numbers };
        gpu.launch_looping(
            SOURCE
                .kernel("rank_of_entries_kernel")
                .moving(count * (8 + 2 * 4)),
            count,
            arguments,
        )?;
        (_, numbers) = primitives::sort_pairs(gpu, keys, numbers, 0..32)?;
    }
    let keys = gpu.allocate::<u64>(count)?;
    let given = match ranks {
        Some(_) => Argument::from(&numbers),
        None => Argument::NONE,
    };
    let arguments = arguments! {
        entries: &table.entries,
        rows,
        numbers: given,
        count,
        keys,
        numbers_out: &numbers,
    };
    gpu.launch_looping(SOURCE.kernel("top_keys_kernel").whole(), count, arguments)?;
    let (_, numbers) = primitives::sort_pairs(gpu, keys, numbers, 0..32 + row_bits)?;
    drop(rows);
    // Rows are files or words, and none has 2^32 entries.
    let k = k.min(u32::MAX as usize) as u32;
    let lengths = gpu.allocate::<u32>(table.rows())?;
    let arguments = arguments! { offsets: &table.offsets, rows: table.rows() as u32, k, lengths };
    gpu.launch_looping(
        SOURCE.kernel("top_lengths_kernel").whole(),
        table.rows(),
        arguments,
    )?;
    let offsets = primitives::scan::<u32, u32>(gpu, &lengths)?;
    let count = gpu.item(&offsets, table.rows())? as usize;
    let rows = primitives::expand(gpu, &offsets, count)?;
    let entries = gpu.allocate::<u64>(count)?;
    let arguments = arguments! {
        entries: &table.entries,
        offsets: &table.offsets,
        numbers,
        rows_out: &rows,
        offsets_out: &offsets,
        count_out: count,
        entries_out: &entries,
    };
    gpu.launch_looping(
        SOURCE
            .kernel("top_entries_kernel")
            .moving(count * (2 * 4 + 2 * 8)),
        count,
        arguments,
    )?;
    Ok(DeviceTable { offsets, entries })
}
#[cfg(test)]
mod tests {
    use zipfdb_kernels::CountTable;
    use zipfdb_kernels::gpu::building_blocks::of_cells;
    use zipfdb_kernels::gpu::test_devices::{Numbers, on_devices};

    use super::*;

    #[test]
    fn rows_rank_as_those_of_the_twin() {
        on_devices(|gpu| {
            for (rows, columns) in [(0, 3), (1, 1), (1, 9), (300, 5), (4, 0)] {
                let (cells, expected) = Numbers::new(rows as u64).table(rows, columns);
                let cells = gpu.upload(&cells)?;
                let table = of_cells(gpu, &cells, rows, columns, (columns, 1))?;
                let ranks: Vec<u32> = (0..columns as u32).map(|c| c * 7 % 1009).collect();
                for k in [0, 3, 1000] {
                    let top = row_tops(gpu, &table, k, None)?.download(gpu)?;
                    let twin = CountTable::of_rows(expected.top(k, |column| column));
                    assert_eq!(top, twin, "{rows} {columns} {k}");
                    let top = row_tops(gpu, &table, k, Some(&gpu.upload(&ranks)?))?;
                    let twin = CountTable::of_rows(expected.top(k, |c| ranks[c as usize]));
                    assert_eq!(top.download(gpu)?, twin, "{rows} {columns} {k}");
                }
            }
            Ok(())
        });
    }
}
