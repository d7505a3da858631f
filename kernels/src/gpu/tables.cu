// tables.cu: counters of a few columns as tables of rows without zeros; tables with rows and columns swapped; the
// largest of each row.
// In     cells [rows * columns] u32 by strides; or tables: offsets [rows + 1] u32, entries u64, column << 32 | count
// Out    tables, rows in order, columns of a row in order
// Work   a pass over the cells to count and one to write; swapping is a sort by column
// Map    a thread a cell or entry
// Exact  positions come from scans and stable sorts
#include "primitives.cuh"

constexpr u32 THREADS = TABLE_THREADS;

// flags[i] = whether the cell of row i / columns and column i % columns is not 0.
extern "C" __global__ void __launch_bounds__(THREADS)
cell_flags_kernel(const u32* cells, u64 count, u32 columns, u64 row_stride, u64 column_stride, u32* flags) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        flags[i] = cells[i / columns * row_stride + i % columns * column_stride] > 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
cell_entries_kernel(const u32* cells, u64 count, u32 columns, u64 row_stride, u64 column_stride, const u32* places,
                    u32* offsets, u64* entries) {
    for (u64 i = grid_thread(); i <= count; i += grid_threads()) {
        const u64 column = i % columns;
        if (column == 0) offsets[i / columns] = places[i];
        if (i < count) {
            const u32 cell = cells[i / columns * row_stride + column * column_stride];
            if (cell > 0) entries[places[i]] = column << 32 | cell;
        }
    }
}

// keys[i] = column << 32 | row, values[i] = count.
extern "C" __global__ void __launch_bounds__(THREADS)
swap_keys_kernel(const u64* entries, const u32* rows, u64 count, u64* keys, u32* values) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        keys[i] = (entries[i] >> 32) << 32 | rows[i];
        values[i] = u32(entries[i]);
    }
}

// From sorted keys, row << 32 | column, and counts: offsets [rows + 1] and entries.
extern "C" __global__ void __launch_bounds__(THREADS)
keyed_entries_kernel(const u64* keys, const u32* values, u64 count, u32 rows, u32* offsets, u64* entries) {
    for (u64 i = grid_thread(); i <= count; i += grid_threads()) {
        const u32 from = i == 0 ? 0 : u32(keys[i - 1] >> 32) + 1;
        const u32 to = i == count ? rows : u32(keys[i] >> 32);
        for (u32 row = from; row <= to; row++) offsets[row] = u32(i);
        if (i < count) entries[i] = keys[i] << 32 | values[i];
    }
}

// keys[i] = the rank of the column of an entry, numbers[i] = i.
extern "C" __global__ void __launch_bounds__(THREADS)
rank_of_entries_kernel(const u64* entries, u64 count, const u32* ranks, u32* keys, u32* numbers) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        keys[i] = ranks[entries[i] >> 32];
        numbers[i] = u32(i);
    }
}

// keys[i] = row << 32 | ~count of the entry numbers[i]; without numbers of entry i, and numbers_out[i] = i.
extern "C" __global__ void __launch_bounds__(THREADS)
top_keys_kernel(const u64* entries, const u32* rows, const u32* numbers, u64 count, u64* keys, u32* numbers_out) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 number = numbers != nullptr ? numbers[i] : u32(i);
        keys[i] = u64(rows[number]) << 32 | u32(~u32(entries[number]));
        if (numbers == nullptr) numbers_out[i] = number;
    }
}

// lengths[row] = its length, at most k.
extern "C" __global__ void __launch_bounds__(THREADS)
top_lengths_kernel(const u32* offsets, u32 rows, u32 k, u32* lengths) {
    for (u64 row = grid_thread(); row < rows; row += grid_threads()) {
        lengths[row] = min(k, offsets[row + 1] - offsets[row]);
    }
}

// The entries numbers[offsets[row] ..] of each row, as many as there is room for in the offsets of the result.
extern "C" __global__ void __launch_bounds__(THREADS)
top_entries_kernel(const u64* entries, const u32* offsets, const u32* numbers, const u32* rows_out,
                   const u32* offsets_out, u64 count_out, u64* entries_out) {
    for (u64 i = grid_thread(); i < count_out; i += grid_threads()) {
        const u32 row = rows_out[i];
        entries_out[i] = entries[numbers[offsets[row] + (i - offsets_out[row])]];
    }
}
