//! Tables of counts on a device.
//!
//! The invariant: a downloaded table is the [`CountTable`] of the twin, bit for
//! bit. What rows and columns mean is the caller's business.

use rayon::prelude::*;

use crate::CountTable;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives::{self, LookBack};

/// Cells of a block.
const TILE: usize = 2048;

pub(crate) static SOURCE: Source = Source {
    name: "tables.cu",
    text: include_str!("tables.cu"),
    headers: &[],
    constants: &[
        ("TABLE_THREADS", THREADS as u64),
        ("TABLE_TILE", TILE as u64),
    ],
};

/// For each row the columns that it has, with a count each: a [`CountTable`] on a device.
#[derive(Debug)]
pub struct DeviceTable {
    /// `[rows + 1]` into `entries`.
    pub offsets: Buffer<u32>,
    /// `column << 32 | count`.
    pub entries: Buffer<u64>,
}

impl DeviceTable {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of entries of all rows.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The table on the host.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn download(&self, gpu: &Gpu) -> Result<CountTable, GpuError> {
        let offsets = gpu.download(&self.offsets)?;
        let entries = gpu.download(&self.entries)?;
        Ok(CountTable {
            offsets: offsets.into_iter().map(|offset| offset as usize).collect(),
            entries: entries.into_par_iter().map(column_and_count).collect(),
        })
    }

    /// `[rows]`: how many entries each has.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub(crate) fn lengths(&self, gpu: &Gpu) -> Result<Buffer<u32>, GpuError> {
        let rows = self.rows();
        let lengths = gpu.allocate::<u32>(rows)?;
        let kernel = SOURCE.kernel("row_lengths_kernel");
        let arguments = arguments! { offsets: &self.offsets, rows, lengths };
        gpu.launch_looping(kernel.moving(rows * 2 * 4), rows, arguments)?;
        Ok(lengths)
    }

    /// `[entries / step]`, rounded up: the row that has each `step`-th entry, from the first on.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub(crate) fn rows_of(&self, gpu: &Gpu, step: usize) -> Result<Vec<u32>, GpuError> {
        let places = self.entries.len().div_ceil(step);
        let rows = gpu.allocate::<u32>(places)?;
        // Rows and entries are u32.
        let (row_count, step) = (self.rows() as u32, step as u32);
        let arguments = arguments! {
            offsets: &self.offsets,
            rows: row_count,
            step,
            count: places,
            found: &rows,
        };
        gpu.launch_looping(SOURCE.kernel("rows_of_kernel").whole(), places, arguments)?;
        gpu.download(&rows)
    }

    /// The same counts with rows and columns swapped.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn transposed(&self, gpu: &Gpu, columns: usize) -> Result<DeviceTable, GpuError> {
        let count = self.entries.len();
        let rows = primitives::expand(gpu, &self.offsets, count)?;
        let keys = gpu.allocate::<u64>(count)?;
        let values = gpu.allocate::<u32>(count)?;
        let arguments = arguments! { entries: &self.entries, rows, count, keys, values };
        gpu.launch_looping(SOURCE.kernel("swap_keys_kernel").whole(), count, arguments)?;
        drop(rows);
        let bits = 32 + usize::BITS - columns.saturating_sub(1).leading_zeros();
        let (keys, values) = primitives::sort_pairs(gpu, keys, values, 32..bits)?;
        keyed(gpu, &keys, &values, columns)
    }
}

/// The column and count of an entry, 32 bits each.
pub(crate) fn column_and_count(entry: u64) -> (u32, u32) {
    ((entry >> 32) as u32, entry as u32)
}

/// The table of cells that are not 0. The cell of a row and column is where the strides say.
///
/// # Errors
///
/// [`GpuError`].
///
/// # Panics
///
/// When `cells` ends before the last row and column.
pub fn of_cells(
    gpu: &Gpu,
    cells: &Buffer<u32>,
    rows: usize,
    columns: usize,
    strides: (usize, usize),
) -> Result<DeviceTable, GpuError> {
    assert!(
        rows * columns == 0 || (rows - 1) * strides.0 + (columns - 1) * strides.1 < cells.len(),
        "cells of {rows} rows and {columns} columns"
    );
    let count = rows * columns;
    if count == 0 {
        return Ok(DeviceTable {
            offsets: gpu.zeroed(rows + 1)?,
            entries: gpu.allocate(0)?,
        });
    }
    let offsets = gpu.allocate::<u32>(rows + 1)?;
    // Allocated for the upper bound: counting entries first would take more memory.
    let mut entries = gpu.allocate::<u64>(count)?;
    let launch = Launch::tiles(count, TILE);
    let look_back = LookBack::<u64>::new(gpu, launch.blocks as usize)?;
    // Files and words are u32.
    let arguments = arguments! {
        cells,
        count,
        columns: columns as u32,
        row_stride: strides.0,
        column_stride: strides.1,
        look_back: look_back.words(),
        ticket: look_back.ticket(),
        offsets,
        entries,
    };
    let bytes = count * (size_of::<u32>() + size_of::<u64>());
    gpu.launch(
        SOURCE.kernel("cell_entries_kernel").moving(bytes),
        launch,
        arguments,
    )?;
    entries.truncate(gpu.item(&offsets, rows)? as usize);
    Ok(DeviceTable { offsets, entries })
}

/// The table of sorted keys, `row << 32 | column`, with counts.
pub(crate) fn keyed(
    gpu: &Gpu,
    keys: &Buffer<u64>,
    values: &Buffer<u32>,
    rows: usize,
) -> Result<DeviceTable, GpuError> {
    let count = keys.len();
    let offsets = gpu.allocate::<u32>(rows + 1)?;
    let entries = gpu.allocate::<u64>(count)?;
    // Rows are files or words, which are u32.
    let arguments = arguments! { keys, values, count, rows: rows as u32, offsets, entries };
    gpu.launch_looping(
        SOURCE.kernel("keyed_entries_kernel").whole(),
        count + 1,
        arguments,
    )?;
    Ok(DeviceTable { offsets, entries })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_devices::{Numbers, on_devices};

    #[test]
    fn tables_of_cells_swap_as_those_of_the_twin() {
        on_devices(|gpu| {
            for (rows, columns) in [(0, 3), (1, 1), (1, 9), (300, 5), (4, 0)] {
                let (cells, expected) = Numbers::new(rows as u64).table(rows, columns);
                let cells = gpu.upload(&cells)?;
                let table = of_cells(gpu, &cells, rows, columns, (columns, 1))?;
                assert_eq!(table.download(gpu)?, expected, "{rows} {columns}");
                let swapped = of_cells(gpu, &cells, columns, rows, (1, columns))?;
                let twin = expected.transposed(columns);
                assert_eq!(swapped.download(gpu)?, twin, "{rows} {columns}");
                let sorted = table.transposed(gpu, columns)?;
                assert_eq!(sorted.download(gpu)?, twin, "{rows} {columns}");
            }
            Ok(())
        });
    }
}
