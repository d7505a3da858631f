// merge_sort.cu: sorts keys with values, and where keys are equal by the bodies that the values stand for.
// In     keys    [count] u64   below NO_KEY
//        values  [count] u32   if `symbols` is given: value v stands for the body symbols[offsets[v] .. offsets[v + 1]],
//                              of which the key is the first two symbols
// Out    the same in order of (key, rest of the body, a prefix first); equal items in any order
// Work   a tile of 2048 items is sorted in shared memory; then log2(tiles) passes, each reads and writes 24 bytes an item
// Map    a block for each tile of the output, a thread for 8 items of it; a warp searches where a tile's inputs begin
// Exact  comparisons only
// Why    bodies have any length and share prefixes, which digits of fixed width cannot follow
#include "primitives.cuh"

constexpr u32 THREADS = MERGE_THREADS;
constexpr u32 TILE = MERGE_TILE;
constexpr u32 ITEMS = TILE / THREADS;

struct Item {
    u64 key;
    u32 value;
};

__device__ __forceinline__ bool less(Item a, Item b, Bodies bodies) {
    if (a.key != b.key) return a.key < b.key;
    if (bodies.symbols == nullptr || a.key == NO_KEY) return false;
    return rest_less(a.value, b.value, bodies);
}

struct MergeShared {
    u64 keys[TILE];
    u32 values[TILE];
    u32 splits[2];
};

__device__ __forceinline__ Item item_at(const MergeShared& shared, u32 index) {
    return Item{shared.keys[index], shared.values[index]};
}

// Merges shared[a .. a_end] and shared[b .. b_end]: this thread's items are those from `diagonal` on.
__device__ __forceinline__ void merge_in_tile(const MergeShared& shared, u32 a, u32 a_end, u32 b, u32 b_end,
                                              u32 diagonal, Item (&items)[ITEMS], Bodies bodies) {
    // How many of the items before the diagonal come from a.
    const u32 b_length = b_end - b;
    u32 low = diagonal > b_length ? diagonal - b_length : 0;
    u32 high = min(diagonal, a_end - a);
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (!less(item_at(shared, b + diagonal - 1 - middle), item_at(shared, a + middle), bodies)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    b += diagonal - low;
    a += low;
    const Item none{NO_KEY, 0};
    Item left = a < a_end ? item_at(shared, a) : none;
    Item right = b < b_end ? item_at(shared, b) : none;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const bool from_a = b >= b_end || (a < a_end && !less(right, left, bodies));
        items[i] = from_a ? left : right;
        if (from_a) {
            a++;
            left = a < a_end ? item_at(shared, a) : none;
        } else {
            b++;
            right = b < b_end ? item_at(shared, b) : none;
        }
    }
}

__device__ __forceinline__ void store_items(MergeShared& shared, const Item (&items)[ITEMS]) {
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        shared.keys[threadIdx.x * ITEMS + i] = items[i].key;
        shared.values[threadIdx.x * ITEMS + i] = items[i].value;
    }
}

// Sorts each tile.
extern "C" __global__ void __launch_bounds__(THREADS)
sort_tile_kernel(const u64* keys, const u32* values, u64* keys_out, u32* values_out, u32 count, const u32* symbols,
                 const u32* offsets) {
    SHARED(MergeShared, shared);
    const Bodies bodies{symbols, offsets};
    const u64 first = u64(blockIdx.x) * TILE;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        const bool is_item = first + at < count;
        shared.keys[at] = is_item ? keys[first + at] : NO_KEY;
        shared.values[at] = is_item ? values[first + at] : 0;
    }
    __syncthreads();
    Item items[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) items[i] = item_at(shared, threadIdx.x * ITEMS + i);
    // A thread's own items: exchanges of neighbours, odd and even in turn.
#pragma unroll
    for (u32 turn = 0; turn < ITEMS; turn++) {
#pragma unroll
        for (u32 i = turn % 2; i + 1 < ITEMS; i += 2) {
            if (less(items[i + 1], items[i], bodies)) {
                const Item item = items[i];
                items[i] = items[i + 1];
                items[i + 1] = item;
            }
        }
    }
    for (u32 width = ITEMS; width < TILE; width *= 2) {
        __syncthreads();
        store_items(shared, items);
        __syncthreads();
        const u32 at = threadIdx.x * ITEMS;
        const u32 a = at / (2 * width) * (2 * width);
        merge_in_tile(shared, a, a + width, a + width, a + 2 * width, at - a, items, bodies);
    }
    __syncthreads();
    store_items(shared, items);
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        if (first + at < count) {
            keys_out[first + at] = shared.keys[at];
            values_out[first + at] = shared.values[at];
        }
    }
}

// For a warp: how many of the first `diagonal` items of two merged runs come from the first.
__device__ __forceinline__ u32 split_of(const u64* keys, const u32* values, u32 a, u32 a_length, u32 b, u32 b_length,
                                        u32 diagonal, Bodies bodies) {
    u32 low = diagonal > b_length ? diagonal - b_length : 0;
    u32 high = min(diagonal, a_length);
    while (low < high) {
        const u32 stride = (high - low + WARP_THREADS - 1) / WARP_THREADS;
        const u32 probe = low + lane_index() * stride;
        bool goes_before = false;
        if (probe < high) {
            const u32 other = b + diagonal - 1 - probe;
            const Item left{keys[a + probe], values[a + probe]};
            const Item right{keys[other], values[other]};
            goes_before = !less(right, left, bodies);
        }
        const u32 before = __popc(__ballot_sync(FULL_WARP, goes_before));
        if (before == 0) {
            high = low;
        } else {
            const u32 start = low;
            low = start + (before - 1) * stride + 1;
            high = min(high, start + before * stride);
        }
    }
    return low;
}

// Merges sorted runs of `width` items, a multiple of TILE, two by two.
extern "C" __global__ void __launch_bounds__(THREADS)
merge_kernel(const u64* keys, const u32* values, u64* keys_out, u32* values_out, u32 count, u32 width,
             const u32* symbols, const u32* offsets) {
    SHARED(MergeShared, shared);
    const Bodies bodies{symbols, offsets};
    const u64 first = u64(blockIdx.x) * TILE;
    const u64 pair = u64(width) * 2;
    const u32 a = u32(first / pair * pair);
    const u32 a_length = min(width, count - a);
    const u32 b = a + a_length;
    const u32 b_length = min(width, count - b);
    const u32 diagonal = u32(first) - a;
    const u32 in_tile = min(TILE, a_length + b_length - diagonal);
    if (warp_index() < 2) {
        const u32 at = diagonal + warp_index() * in_tile;
        const u32 split = split_of(keys, values, a, a_length, b, b_length, at, bodies);
        if (lane_index() == 0) shared.splits[warp_index()] = split;
    }
    __syncthreads();
    const u32 a_first = shared.splits[0];
    const u32 a_count = shared.splits[1] - a_first;
    const u32 b_first = diagonal - a_first;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        if (at < in_tile) {
            const u32 from = at < a_count ? a + a_first + at : b + b_first + at - a_count;
            shared.keys[at] = keys[from];
            shared.values[at] = values[from];
        }
    }
    __syncthreads();
    Item items[ITEMS];
    const u32 at = min(threadIdx.x * ITEMS, in_tile);
    merge_in_tile(shared, 0, a_count, a_count, in_tile, at, items, bodies);
    __syncthreads();
    store_items(shared, items);
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        if (at < in_tile) {
            keys_out[first + at] = shared.keys[at];
            values_out[first + at] = shared.values[at];
        }
    }
}
