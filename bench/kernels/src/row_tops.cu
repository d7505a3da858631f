// row_tops.cu: the largest entries of each row of a table.
// In     offsets [rows + 1] u32, entries u64, column << 32 | count; perhaps a rank of each column
// Out    a table of the entries of each row with the largest counts, the largest first
// Work   a sort by row and count, and one by rank where there are ranks
// Map    a thread an entry
// Exact  positions come from scans and stable sorts
#include "primitives.cuh"

constexpr u32 THREADS = ROW_TOPS_THREADS;

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

// The first entries numbers[offsets[row] ..] of each row, up to the room in the offsets of the result.
extern "C" __global__ void __launch_bounds__(THREADS)
top_entries_kernel(const u64* entries, const u32* offsets, const u32* numbers, const u32* rows_out,
                   const u32* offsets_out, u64 count_out, u64* entries_out) {
    for (u64 i = grid_thread(); i < count_out; i += grid_threads()) {
        const u32 row = rows_out[i];
        entries_out[i] = entries[numbers[offsets[row] + (i - offsets_out[row])]];
    }
}
