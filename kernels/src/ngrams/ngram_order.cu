// ngram_order.cu: n-grams in order of their counts and of the ranks of their words, with counts or with rows of files.
// In     words [rows * n] u32, counts [rows] u32 or a table as tables.cu has them, ranks by word; an order of rows
// Out    keys to sort that order by, the least important first; the rows in an order
// Work   each n-gram is read once for each key, and once when rows are moved
// Map    a thread a row, or a word or entry of a row that is moved
// Exact  integers only; the sorts of keys are stable
#include "primitives.cuh"

constexpr u32 THREADS = NGRAM_ORDER_THREADS;

// Keys of the ranks of words `first` to `first + count` of each n-gram, `bits` each, the first in the highest bits. Without ranks a word
// has its own number.
extern "C" __global__ void __launch_bounds__(THREADS)
rank_keys_kernel(const u32* words, u32 n, u32 first, u32 count, const u32* ranks, u32 bits, const u32* order, u64 rows, u64* keys) {
    for (u64 i = grid_thread(); i < rows; i += grid_threads()) {
        const u64 row = order[i];
        u64 key = 0;
        for (u32 k = first; k < first + count; k++) {
            const u32 word = words[row * n + k];
            key = key << bits | (ranks != nullptr ? ranks[word] : word);
        }
        keys[i] = key;
    }
}

// Keys of counts, with the bits in `changed` changed: all of them where the greatest counts are first.
extern "C" __global__ void __launch_bounds__(THREADS)
count_keys_kernel(const u32* counts, u32 changed, const u32* order, u64 rows, u32* keys) {
    for (u64 i = grid_thread(); i < rows; i += grid_threads()) {
        keys[i] = counts[order[i]] ^ changed;
    }
}

// order[i] = i.
extern "C" __global__ void __launch_bounds__(THREADS)
rows_as_they_lie_kernel(u64 rows, u32* order) {
    for (u64 i = grid_thread(); i < rows; i += grid_threads()) order[i] = u32(i);
}

// The words and counts of the rows in an order.
extern "C" __global__ void __launch_bounds__(THREADS)
ordered_rows_kernel(const u32* order, u64 rows, const u32* words, u32 n, const u32* counts, u32* words_out, u32* counts_out) {
    for (u64 i = grid_thread(); i < rows * n; i += grid_threads()) {
        const u64 place = i / n;
        const u32 k = u32(i - place * n), row = order[place];
        words_out[i] = words[u64(row) * n + k];
        if (k == 0) counts_out[place] = counts[row];
    }
}

// The entries of the rows in an order; owners[i] = the place in the order of the row that has entry i there.
extern "C" __global__ void __launch_bounds__(THREADS)
ordered_entries_kernel(const u32* order, const u32* offsets, const u64* entries, const u32* offsets_out, const u32* owners, u64 count,
                       u64* entries_out) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 place = owners[i];
        entries_out[i] = entries[offsets[order[place]] + u32(i) - offsets_out[place]];
    }
}
