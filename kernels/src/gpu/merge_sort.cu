// merge_sort.cu: sorts keys with values, and where keys are equal by the bodies that the values stand for.
// In     keys    [count] u64   below NO_KEY
//        values  [count] u32   if `symbols` is given: value v stands for the body symbols[offsets[v] .. offsets[v + 1]],
//                              of which the key is the first two symbols
// Out    the same in order of (key, rest of the body, a prefix first); equal items in any order
// Work   a tile of 512 items is sorted in shared memory; then log16(tiles) passes, or log4(tiles) if there are many items;
//        each moves 24 bytes an item and looks for it in 15 runs, or 3
// Map    a thread for each item
// Exact  comparisons only
// Why    bodies have any length and share prefixes, which digits of fixed width cannot follow. What is sorted is mostly
//        small, and then a launch costs more than its work: merging two by two took up to seven in place of two. With
//        600,000 items 16 ways are twice the work of four: 0.4 ms
#include "primitives.cuh"

constexpr u32 THREADS = MERGE_THREADS;
constexpr u32 TILE = MERGE_TILE;
constexpr u32 WAYS = MERGE_WAYS;
constexpr u32 WAYS_OF_MANY = MERGE_WAYS_OF_MANY;

// Sorts each tile. If `counted` is given, it holds the number of items, else `count` is.
extern "C" __global__ void __launch_bounds__(TILE)
sort_tile_kernel(const u64* keys, const u32* values, u64* keys_out, u32* values_out, u32 count, const u32* counted,
                 const u32* symbols, const u32* offsets) {
    SHARED(BlockSort<TILE>, shared);
    const u32 first = blockIdx.x * TILE;
    if (counted != nullptr) count = min(count, *counted);
    if (first >= count) return;
    const u32 in_tile = min(TILE, count - first);
    for (u32 at = threadIdx.x; at < in_tile; at += blockDim.x) {
        shared.keys[0][at] = keys[first + at];
        shared.values[0][at] = values[first + at];
    }
    __syncthreads();
    const u32 place = block_sort(shared, in_tile, Bodies{symbols, offsets});
    for (u32 at = threadIdx.x; at < in_tile; at += blockDim.x) {
        keys_out[first + at] = shared.keys[place][at];
        values_out[first + at] = shared.values[place][at];
    }
}

// Merges sorted runs of `width` items, a power of two, RUNS at a time: an item goes behind those of the other runs that
// are less, and behind equal ones of the runs before its own.
template <u32 RUNS>
__device__ __forceinline__ void merge(const u64* keys, const u32* values, u64* keys_out, u32* values_out, u32 count,
                                      u32 width, Bodies bodies) {
    const u64 at = grid_thread();
    if (at >= count) return;
    const u64 key = keys[at];
    const u32 value = values[at];
    const u64 group = at / (u64(width) * RUNS) * (u64(width) * RUNS);
    const u32 own_run = u32((at - group) / width);
    // How many items of each run come before this one.
    u32 before[RUNS];
#pragma unroll
    for (u32 run = 0; run < RUNS; run++) before[run] = 0;
    for (u32 step = width; step > 0; step /= 2) {
        // Loads come first, so that they are waited for at a time.
        u64 found[RUNS];
#pragma unroll
        for (u32 run = 0; run < RUNS; run++) {
            const u32 last = before[run] + step - 1;
            const u64 place = group + u64(run) * width + last;
            found[run] = run != own_run && last < width && place < count ? keys[place] : NO_KEY;
        }
#pragma unroll
        for (u32 run = 0; run < RUNS; run++) {
            bool is_before = found[run] < key;
            if (found[run] == key) {
                is_before = run < own_run;
                if (bodies.symbols != nullptr) {
                    const u32 other = values[group + u64(run) * width + before[run] + step - 1];
                    is_before = is_before ? !rest_less(value, other, bodies) : rest_less(other, value, bodies);
                }
            }
            if (is_before) before[run] += step;
        }
    }
    u64 to = at - own_run * u64(width);
#pragma unroll
    for (u32 run = 0; run < RUNS; run++) to += before[run];
    keys_out[to] = key;
    values_out[to] = value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
merge_kernel(const u64* keys, const u32* values, u64* keys_out, u32* values_out, u32 count, u32 width,
             const u32* symbols, const u32* offsets) {
    merge<WAYS>(keys, values, keys_out, values_out, count, width, Bodies{symbols, offsets});
}

extern "C" __global__ void __launch_bounds__(THREADS)
merge_many_kernel(const u64* keys, const u32* values, u64* keys_out, u32* values_out, u32 count, u32 width,
                  const u32* symbols, const u32* offsets) {
    merge<WAYS_OF_MANY>(keys, values, keys_out, values_out, count, width, Bodies{symbols, offsets});
}
