// primitives.cuh: scan, ranks, hash table and load-balanced search that kernels are made of.
// Work   every function is for whole warps or whole blocks, as its name says; all threads must call it
// Exact  integers only, and no result depends on the order in which blocks or lanes run
#pragma once
#include "device.cuh"

// Vectors of 16 bytes, which a thread loads and stores at once.
template <typename T>
struct alignas(16) Vector {
    static constexpr u32 COUNT = 16 / sizeof(T);
    T items[COUNT];
};

// Stores the items of a vector that begin at `at`, a multiple of their number, and are before `end`.
template <typename T>
__device__ __forceinline__ void store_vector(T* to, u64 at, u64 end, const Vector<T>& vector) {
    if (at + Vector<T>::COUNT <= end) {
        *reinterpret_cast<Vector<T>*>(to + at) = vector;
        return;
    }
#pragma unroll
    for (u32 i = 0; i < Vector<T>::COUNT; i++) {
        if (at + i < end) to[at + i] = vector.items[i];
    }
}

// Sums in a warp and in a block.

// The sum of `value` over this lane and those before.
template <typename T>
__device__ __forceinline__ T warp_inclusive_sum(T value) {
#pragma unroll
    for (u32 distance = 1; distance < WARP_THREADS; distance *= 2) {
        T below = __shfl_up_sync(FULL_WARP, value, distance);
        if (lane_index() >= distance) value += below;
    }
    return value;
}

// The sum of `value` over the warp, for all lanes.
template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (u32 distance = WARP_THREADS / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(FULL_WARP, value, distance);
    }
    return value;
}

// Shared memory of the sums of a block of at most 32 warps.
template <typename T>
struct BlockSum {
    T warps[WARP_THREADS];
};

// The sum of `value` over the threads before this one, and over the block as `total`. Ends behind a barrier
// after which `shared` may be used again.
template <typename T>
__device__ __forceinline__ T block_exclusive_sum(T value, BlockSum<T>& shared, T& total) {
    const u32 warps = blockDim.x / WARP_THREADS;
    T inclusive = warp_inclusive_sum(value);
    if (lane_index() == WARP_THREADS - 1) shared.warps[warp_index()] = inclusive;
    __syncthreads();
    if (warp_index() == 0) {
        T warp = lane_index() < warps ? shared.warps[lane_index()] : T(0);
        T sum = warp_inclusive_sum(warp);
        if (lane_index() < warps) shared.warps[lane_index()] = sum;
    }
    __syncthreads();
    T before = warp_index() > 0 ? shared.warps[warp_index() - 1] : T(0);
    total = shared.warps[warps - 1];
    __syncthreads();
    return before + inclusive - value;
}

// Decoupled look-back (Merrill, Garland 2016): one pass over memory for a scan of the whole grid.

// A tile says its own sum as soon as it knows it, later the sum of all tiles up to it, in one word: two bits
// that say which, and the sum. Words begin as 0.
constexpr u32 LOOK_BACK_SHIFT = 62;
constexpr u64 LOOK_BACK_VALUE = (u64(1) << LOOK_BACK_SHIFT) - 1;
constexpr u64 LOOK_BACK_OWN = u64(1) << LOOK_BACK_SHIFT;
constexpr u64 LOOK_BACK_ALL = u64(2) << LOOK_BACK_SHIFT;

// The next tile for this block, in ascending order of when blocks begin: those before are being worked on, so
// that waiting for them ends. `shared` is one word.
__device__ __forceinline__ u32 next_tile(u32* ticket, u32& shared) {
    if (threadIdx.x == 0) shared = atomicAdd(ticket, 1u);
    __syncthreads();
    u32 tile = shared;
    __syncthreads();
    return tile;
}

// For one whole warp: the sum over all tiles before `tile`, whose own sum is `own`. Sums are below 2^62.
__device__ __forceinline__ u64 warp_look_back(u64* words, u32 tile, u64 own) {
    if (tile == 0) {
        if (lane_index() == 0) store_relaxed(&words[0], LOOK_BACK_ALL | own);
        return 0;
    }
    if (lane_index() == 0) store_relaxed(&words[tile], LOOK_BACK_OWN | own);
    u64 before = 0;
    for (i64 last = i64(tile) - 1;; last -= WARP_THREADS) {
        // Lane 0 examines the nearest tile. Before the first tile there is nothing, which is known.
        const i64 index = last - lane_index();
        u64 word = index >= 0 ? load_relaxed(&words[index]) : LOOK_BACK_ALL;
        while (__any_sync(FULL_WARP, word < LOOK_BACK_OWN)) {
            spin_wait();
            if (index >= 0) word = load_relaxed(&words[index]);
        }
        const u32 all = __ballot_sync(FULL_WARP, (word & LOOK_BACK_ALL) != 0);
        // Tiles up to the nearest one that knows everything before it.
        const u32 wanted = all == 0 ? FULL_WARP : (all & (0u - all)) * 2 - 1;
        const bool counts = (wanted >> lane_index()) & 1;
        before += warp_sum<u64>(counts ? word & LOOK_BACK_VALUE : 0);
        if (all != 0) break;
    }
    if (lane_index() == 0) store_relaxed(&words[tile], LOOK_BACK_ALL | (before + own));
    return before;
}

// For a block: as `warp_look_back`. `shared` is one word. Ends behind a barrier.
__device__ __forceinline__ u64 block_look_back(u64* words, u32 tile, u64 own, u64& shared) {
    if (warp_index() == 0) {
        u64 before = warp_look_back(words, tile, own);
        if (lane_index() == 0) shared = before;
    }
    __syncthreads();
    u64 before = shared;
    __syncthreads();
    return before;
}

// Shared memory of a block of WARPS warps that has one tile.
template <typename T, u32 WARPS>
struct TileSums {
    T warps[WARPS];
    u64 before;
    u32 tile;
};

// The tile of this block, as `next_tile` for a block that has no other. Ends behind a barrier.
template <typename T, u32 WARPS>
__device__ __forceinline__ u32 only_tile(u32* ticket, TileSums<T, WARPS>& shared) {
    if (threadIdx.x == 0) shared.tile = atomicAdd(ticket, 1u);
    __syncthreads();
    return shared.tile;
}

// For a block: the sum over all tiles and warps before this warp, whose own sum is `own`; and over all tiles up to and
// with this one as `all`. Ends behind a barrier.
template <typename T, u32 WARPS>
__device__ __forceinline__ u64 sum_before_warp(u64* words, T own, TileSums<T, WARPS>& shared, u64& all) {
    if (lane_index() == 0) shared.warps[warp_index()] = own;
    __syncthreads();
    T before = 0;
    u64 total = 0;
#pragma unroll
    for (u32 warp = 0; warp < WARPS; warp++) {
        const T of_warp = shared.warps[warp];
        if (warp < warp_index()) before += of_warp;
        total += of_warp;
    }
    if (warp_index() == 0) {
        const u64 tiles_before = warp_look_back(words, shared.tile, total);
        if (lane_index() == 0) shared.before = tiles_before;
    }
    __syncthreads();
    all = shared.before + total;
    return shared.before + before;
}

// Searching and load balance.

// How many of `values[0 .. count]`, which do not fall, are at most `value`.
template <typename T>
__device__ __forceinline__ u64 count_at_most(const T* values, u64 count, T value) {
    u64 first = 0;
    while (count > 0) {
        u64 half = count / 2;
        if (values[first + half] <= value) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

// Load-balanced expand: the owner of item `item` where owner o has the items offsets[o] .. offsets[o + 1];
// `first` and `end` bound the owners that come into question.
template <typename T>
__device__ __forceinline__ u64 owner_of(const T* offsets, u64 first, u64 end, T item) {
    return first + count_at_most(offsets + first + 1, end - first - 1, item);
}

// For a warp: as `owner_of`, with a step for every 32 times as many owners.
template <typename T>
__device__ __forceinline__ u64 warp_owner_of(const T* offsets, u64 first, u64 end, T item) {
    u64 count = end - first - 1;
    while (count > 0) {
        const u64 stride = (count + WARP_THREADS - 1) / WARP_THREADS;
        const u64 last = (lane_index() + 1) * stride - 1;
        const bool is_before = last < count && offsets[first + 1 + last] <= item;
        const u64 before = __popc(__ballot_sync(FULL_WARP, is_before)) * stride;
        first += before;
        count = min(stride - 1, count - before);
    }
    return first;
}

// For a block of two warps or more: the owners of the items first .. end, of which there are some, from the first to behind
// the last, in shared memory: to be read behind a barrier.
__device__ __forceinline__ void find_block_owners(const u32* offsets, u32 owner_count, u32 first, u32 end,
                                                  u32& owners_first, u32& owners_end) {
    if (warp_index() == 0) {
        const u32 owner = u32(warp_owner_of(offsets, 0, owner_count, first));
        if (lane_index() == 0) owners_first = owner;
    } else if (warp_index() == 1) {
        const u32 owner = u32(warp_owner_of(offsets, 0, owner_count, end - 1));
        if (lane_index() == 0) owners_end = owner + 1;
    }
}

// Shared memory of a block that works on at most ITEMS_MAX items at a time.
template <u32 ITEMS_MAX>
struct ExpandShared {
    u32 offsets[ITEMS_MAX];
    u32 first;
    u32 end;
};

// Owners of consecutive items: those from `first` on, of which the i-th has the items from offsets[i] on.
struct Owners {
    const u32* offsets;
    u32 first;
    u32 count;
};

// For a block: the owners of the items first .. end, of which there are some. Ends behind a barrier.
template <u32 ITEMS_MAX>
__device__ __forceinline__ Owners block_owners(const u32* offsets, u32 owner_count, u32 first, u32 end,
                                               ExpandShared<ITEMS_MAX>& shared) {
    find_block_owners(offsets, owner_count, first, end, shared.first, shared.end);
    __syncthreads();
    const u32 owners_first = shared.first, count = shared.end - shared.first;
    // Only where many owners have nothing do they not fit.
    const bool fit = count <= ITEMS_MAX;
    for (u32 i = threadIdx.x; fit && i < count; i += blockDim.x) shared.offsets[i] = offsets[owners_first + i];
    __syncthreads();
    return Owners{fit ? shared.offsets : offsets + owners_first, owners_first, count};
}

// Owners of consecutive items, by row those from at[row] on; counted from the first of these.
template <u32 ROWS, u32 ITEMS>
__device__ __forceinline__ void owners_of_rows(const Owners& owners, const u32 (&at)[ROWS], u32 (&found)[ROWS][ITEMS]) {
    // A search for each row, a step of all at a time.
#pragma unroll
    for (u32 row = 0; row < ROWS; row++) found[row][0] = 0;
    for (u32 step = owners.count > 1 ? 1u << (31 - __clz(owners.count - 1)) : 0; step > 0; step /= 2) {
#pragma unroll
        for (u32 row = 0; row < ROWS; row++) {
            const u32 next = found[row][0] + step;
            if (next < owners.count && owners.offsets[next] <= at[row]) found[row][0] = next;
        }
    }
#pragma unroll
    for (u32 row = 0; row < ROWS; row++) {
#pragma unroll
        for (u32 i = 1; i < ITEMS; i++) {
            u32 owner = found[row][i - 1];
            if (owner + 1 < owners.count && owners.offsets[owner + 1] <= at[row] + i) owner++;
            // Owners without items are passed over at once.
            if (owner + 1 < owners.count && owners.offsets[owner + 1] <= at[row] + i) {
                owner = u32(owner_of(owners.offsets, owner, owners.count, at[row] + i));
            }
            found[row][i] = owner;
        }
    }
}

// Bodies.

// What is sorted as bodies: body b is symbols[offsets[b] .. offsets[b + 1]]. Null if keys are distinct.
struct Bodies {
    const u32* symbols;
    const u32* offsets;
};

// Whether the rest of one body comes before that of another, when the first two symbols are equal.
__device__ __noinline__ bool rest_less(u32 a, u32 b, Bodies bodies) {
    const u32 a_first = bodies.offsets[a], b_first = bodies.offsets[b];
    const u32 a_length = bodies.offsets[a + 1] - a_first, b_length = bodies.offsets[b + 1] - b_first;
    const u32 both = min(a_length, b_length);
    for (u32 i = 2; i < both; i++) {
        const u32 left = bodies.symbols[a_first + i], right = bodies.symbols[b_first + i];
        if (left != right) return left < right;
    }
    return a_length < b_length;
}

// Shared memory of what a block sorts: two places that take turns.
template <u32 ITEMS_MAX>
struct BlockSort {
    u64 keys[2][ITEMS_MAX];
    u32 values[2][ITEMS_MAX];
};

// For a block: sorts the first `count` items of place 0 by key and, where keys are equal, by body, a prefix first.
// Returns the place that holds them then. Ends behind a barrier; one must be between the items' coming and this.
template <u32 ITEMS_MAX>
__device__ __forceinline__ u32 block_sort(BlockSort<ITEMS_MAX>& shared, u32 count, Bodies bodies) {
    u32 from = 0;
    // Runs are merged two by two: an item goes behind those of the other run that are less.
    for (u32 width = 1; width < count; width *= 2) {
        for (u32 at = threadIdx.x; at < count; at += blockDim.x) {
            const u64 key = shared.keys[from][at];
            const u32 value = shared.values[from][at];
            const u32 own_first = at & ~(width - 1);
            const bool is_right = (at & width) != 0;
            const u32 other_first = min(is_right ? own_first - width : own_first + width, count);
            u32 low = other_first, high = min(other_first + width, count);
            while (low < high) {
                const u32 middle = (low + high) / 2;
                const u64 other = shared.keys[from][middle];
                bool is_before = other < key || (other == key && is_right);
                if (other == key && bodies.symbols != nullptr) {
                    const u32 other_value = shared.values[from][middle];
                    is_before = is_right ? !rest_less(value, other_value, bodies)
                                         : rest_less(other_value, value, bodies);
                }
                if (is_before) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            const u32 to = at - (is_right ? width : 0) + low - other_first;
            shared.keys[1 - from][to] = key;
            shared.values[1 - from][to] = value;
        }
        from = 1 - from;
        __syncthreads();
    }
    return from;
}

// Hash table.

// The finaliser of splitmix64: one to one.
__device__ __forceinline__ u64 mix(u64 x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// No key of a hash table.
constexpr u64 NO_KEY = ~u64(0);

// The slot of `key` in a table of `mask + 1` keys, a power of two, all NO_KEY at first; `is_new` says whether it was
// not there. NO_KEY if the table is full. Which slot a key gets depends on the order of threads.
__device__ __forceinline__ u64 hash_slot(u64* keys, u64 mask, u64 key, bool& is_new) {
    u64 slot = mix(key) & mask;
    is_new = false;
    for (u64 probe = 0; probe <= mask; probe++) {
        u64 found = load_relaxed(&keys[slot]);
        if (found == NO_KEY) {
            found = atomicCAS(&keys[slot], NO_KEY, key);
            is_new = found == NO_KEY;
        }
        if (is_new || found == key) return slot;
        slot = (slot + 1) & mask;
    }
    return NO_KEY;
}

// The slot of `key`, or NO_KEY if it is not in the table; nothing is added meanwhile.
__device__ __forceinline__ u64 hash_find(const u64* keys, u64 mask, u64 key) {
    u64 slot = mix(key) & mask;
    while (true) {
        u64 found = keys[slot];
        if (found == key) return slot;
        if (found == NO_KEY) return NO_KEY;
        slot = (slot + 1) & mask;
    }
}

// Ranks by digit, for radix sort and for tables with few keys.

// The lanes whose `digit`, below 2^BITS, is this lane's.
template <u32 BITS>
__device__ __forceinline__ u32 lanes_of_digit(u32 digit) {
    u32 equal = FULL_WARP;
#pragma unroll
    for (u32 bit = 0; bit < BITS; bit++) {
        const bool is_set = (digit >> bit) & 1;
        const u32 set = __ballot_sync(FULL_WARP, is_set);
        equal &= is_set ? set : ~set;
    }
    return equal;
}
