// ngram_merge.cu: n-grams of several partitions, and what belongs to equal ones added up.
// In     words [rows * n] u32 with the numbers of the whole; counts [rows] u32, or tables as tables.cu has them; an order of rows
// Out    the distinct n-grams in that order with sums of counts; the row that each row becomes; keys of entries
// Work   each row and each entry is read some times
// Map    a thread a row, or an entry
// Exact  integers only; sums do not depend on their order
#include "primitives.cuh"

constexpr u32 THREADS = NGRAM_MERGE_THREADS;

// out[i] = the number of words[i] in the whole.
extern "C" __global__ void __launch_bounds__(THREADS)
numbered_words_kernel(const u32* words, u64 count, const u32* numbers, u32* out) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) out[i] = numbers[words[i]];
}

// flags[i] = whether the i-th row of an order is another n-gram than the one before.
extern "C" __global__ void __launch_bounds__(THREADS)
distinct_flags_kernel(const u32* words, u32 n, const u32* order, u64 rows, u32* flags) {
    for (u64 i = grid_thread(); i < rows; i += grid_threads()) {
        bool differs = i == 0;
        if (i > 0) {
            const u64 row = order[i], before = order[i - 1];
            for (u32 k = 0; k < n; k++) differs |= words[row * n + k] != words[before * n + k];
        }
        flags[i] = differs;
    }
}

// The distinct rows, whose places are the sums of flags before each: their words; counts_out += counts, or row_of[row] = its place.
extern "C" __global__ void __launch_bounds__(THREADS)
distinct_rows_kernel(const u32* words, u32 n, const u32* counts, const u32* order, const u32* places, u64 rows, u32* words_out,
                     u32* counts_out, u32* row_of) {
    for (u64 i = grid_thread(); i < rows; i += grid_threads()) {
        const u64 row = order[i], place = places[i + 1] - 1;
        if (places[i] == place) {
            for (u32 k = 0; k < n; k++) words_out[place * n + k] = words[row * n + k];
        }
        if (counts != nullptr) atomicAdd(&counts_out[place], counts[row]);
        if (row_of != nullptr) row_of[row] = u32(place);
    }
}

// keys[i] = place of the row of an entry << 32 | its file in the whole, counts[i] = its count; owners[i] = the row that has it.
extern "C" __global__ void __launch_bounds__(THREADS)
merged_keys_kernel(const u64* entries, const u32* owners, u64 count, const u32* row_of, const u32* files, u64* keys, u64* counts) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        keys[i] = u64(row_of[owners[i]]) << 32 | files[entries[i] >> 32];
        counts[i] = u32(entries[i]);
    }
}

// narrow[i] = numbers[i], which has 32 bits.
extern "C" __global__ void __launch_bounds__(THREADS)
narrow_kernel(const u64* numbers, u64 count, u32* narrow) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) narrow[i] = u32(numbers[i]);
}
