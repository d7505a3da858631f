// weights.cu: how often each symbol occurs in the root, or in the root of each file; and keys of a sort by count.
// In     root [items] u32: symbols; root_offsets [columns + 1] u32: where the root of each file begins, unused with one column
//        hot  [HOT_SLOTS] u32: symbols that are frequent
// Out    counts [symbols * columns] u32, 0 on entry: occurrences in each column; sums wrap
// Work   4 bytes an item, and an atomic for each
// Map    a block some items that follow each other; frequent symbols of a file are counted in shared memory
// Exact  integer sums, so the order of atomics does not matter
// Why    atomics on one address pass one after the other: frequent words are counted apart
#include "primitives.cuh"

constexpr u32 THREADS = WEIGHTS_THREADS;
constexpr u32 TILE = WEIGHTS_TILE;
constexpr u32 ITEMS = TILE / THREADS;
constexpr u32 SLOTS = WEIGHTS_HOT_SLOTS;
constexpr u32 SLOT_SHIFT = 32 - WEIGHTS_HOT_BITS;
constexpr u32 NO_FILE = ~0u;

struct CountsShared {
    u32 hot[SLOTS];
    u32 counts[SLOTS];
    u32 first_file;
    u32 last_file;
};

__device__ __forceinline__ u32 hot_slot(u32 symbol) { return (symbol * 0x9e3779b1u) >> SLOT_SHIFT; }

// Hands over what was counted of frequent symbols in `file`.
__device__ __forceinline__ void flush(CountsShared& shared, u32* counts, u32 columns, u32 file) {
    __syncthreads();
    for (u32 slot = threadIdx.x; slot < SLOTS; slot += THREADS) {
        const u32 count = shared.counts[slot];
        if (count > 0) atomicAdd(&counts[u64(shared.hot[slot]) * columns + file], count);
        shared.counts[slot] = 0;
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
root_counts_kernel(const u32* root, const u32* root_offsets, u64 items, u64 block_items, const u32* hot, u32 columns,
                   u32* counts) {
    SHARED(CountsShared, shared);
    for (u32 slot = threadIdx.x; slot < SLOTS; slot += THREADS) {
        shared.hot[slot] = hot[slot];
        shared.counts[slot] = 0;
    }
    __syncthreads();
    const u64 begin = blockIdx.x * block_items;
    const u64 end = min(begin + block_items, items);
    u32 counted_file = NO_FILE;
    for (u64 first = begin; first < end; first += TILE) {
        const u64 tile_end = min(first + TILE, end);
        u32 found[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            const u64 at = first + i * THREADS + threadIdx.x;
            found[i] = at < tile_end ? root[at] : 0;
        }
        if (columns > 1) {
            // Positions of the root are u32.
            if (threadIdx.x == 0) shared.first_file = u32(owner_of(root_offsets, 0, columns, u32(first)));
            if (threadIdx.x == WARP_THREADS) shared.last_file = u32(owner_of(root_offsets, 0, columns, u32(tile_end - 1)));
            __syncthreads();
        }
        const u32 file = columns > 1 ? shared.first_file : 0;
        const u32 last_file = columns > 1 ? shared.last_file : 0;
        if (counted_file != file && counted_file != NO_FILE) flush(shared, counts, columns, counted_file);
        counted_file = file;
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            const u64 at = first + i * THREADS + threadIdx.x;
            if (at >= tile_end) continue;
            const u32 symbol = found[i];
            const u32 of = file == last_file ? file : u32(owner_of(root_offsets, file, last_file + 1, u32(at)));
            u32 slot = hot_slot(symbol);
            if (shared.hot[slot] != symbol) slot ^= 1;
            if (shared.hot[slot] == symbol && of == file) {
                atomicAdd(&shared.counts[slot], 1u);
            } else {
                atomicAdd(&counts[u64(symbol) * columns + of], 1u);
            }
        }
        if (columns > 1) __syncthreads();
    }
    if (counted_file != NO_FILE) flush(shared, counts, columns, counted_file);
}

// The keys of words for a sort by count, the largest first: most - count, and the words in order. What the sort needs to be 0
// is made so.
extern "C" __global__ void __launch_bounds__(THREADS)
rank_keys_kernel(const u32* weights, u32 count, u32 most, u32* keys, u32* words, u32* state, u64 state_items) {
    for (u64 i = grid_thread(); i < state_items; i += grid_threads()) state[i] = 0;
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        keys[i] = most - weights[i];
        words[i] = u32(i);
    }
}

// counts[i] = most - keys[i]: keys of sorted words become counts again.
extern "C" __global__ void __launch_bounds__(THREADS)
rank_counts_kernel(const u32* keys, u32 count, u32 most, u32* counts) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) counts[i] = most - keys[i];
}
