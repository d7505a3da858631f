// primitives.cu: scan, radix sort, sums by key and load-balanced expand, for whole arrays.
// In     arrays of u32 or u64; `words` and `ticket` of a look-back, all 0
// Out    arrays that the caller has made large enough
// Work   each reads its input once and writes its output once, radix sort once a digit
// Map    tiles of TILE items, taken by blocks in ascending order, each thread CONSECUTIVE items of a tile
// Exact  integer sums, and positions from scans; radix sort is stable
// Why    one pass by look-back (Merrill, Garland 2016) and one pass a digit (Onesweep, Adinets, Merrill 2022)
#include "primitives.cuh"

constexpr u32 THREADS = PRIMITIVE_THREADS;
constexpr u32 CONSECUTIVE = PRIMITIVE_TILE / PRIMITIVE_THREADS;
constexpr u32 TILE = PRIMITIVE_TILE;
constexpr u32 WARPS = THREADS / WARP_THREADS;

// Blocks that a multiprocessor is to hold: bounds registers, as latency is hidden by threads.
constexpr u32 SCAN_WIDER_BLOCKS = 4;

// Shared memory is read across: one word of room after 32 keeps lanes in different banks.
constexpr u32 TILE_PADDED = TILE + TILE / 32;
__device__ __forceinline__ u32 padded(u32 index) { return index + index / 32; }

// Scan.

template <typename T>
using ScanShared = TileSums<T, WARPS>;

// out[i] = sum of in[0 .. i], for i up to and with count. A warp has consecutive rows of vectors, a lane a vector of each.
template <typename T, u32 ROWS>
__device__ __forceinline__ void scan(const T* in, T* out, u64 count, u64* words, u32* ticket, ScanShared<T>& shared) {
    using V = Vector<T>;
    constexpr u32 ROW = V::COUNT * WARP_THREADS;
    constexpr u32 SCAN_TILE = ROW * ROWS * WARPS;
    const u32 tile = only_tile(ticket, shared);
    const bool is_whole = u64(tile + 1) * SCAN_TILE <= count;
    const u64 first = u64(tile) * SCAN_TILE + warp_index() * ROWS * ROW + lane_index() * V::COUNT;
    V rows[ROWS];
#pragma unroll
    for (u32 row = 0; row < ROWS; row++) {
        const u64 at = first + row * ROW;
        if (is_whole) {
            rows[row] = *reinterpret_cast<const V*>(in + at);
        } else {
#pragma unroll
            for (u32 i = 0; i < V::COUNT; i++) rows[row].items[i] = at + i < count ? in[at + i] : T(0);
        }
    }
    // What comes in the warp before the vector of each row.
    T before[ROWS];
#pragma unroll
    for (u32 row = 0; row < ROWS; row++) {
        T own = 0;
#pragma unroll
        for (u32 i = 0; i < V::COUNT; i++) own += rows[row].items[i];
        before[row] = warp_inclusive_sum(own) - own;
        rows[row].items[0] += before[row];
#pragma unroll
        for (u32 i = 1; i < V::COUNT; i++) rows[row].items[i] += rows[row].items[i - 1];
    }
    T sum = 0;
#pragma unroll
    for (u32 row = 0; row < ROWS; row++) {
        const T of_row = __shfl_sync(FULL_WARP, rows[row].items[V::COUNT - 1], WARP_THREADS - 1);
#pragma unroll
        for (u32 i = 0; i < V::COUNT; i++) rows[row].items[i] += sum;
        before[row] += sum;
        sum += of_row;
    }
    u64 unused;
    const T base = T(sum_before_warp(words, sum, shared, unused));
#pragma unroll
    for (u32 row = 0; row < ROWS; row++) {
        const u64 at = first + row * ROW;
        V sums;
        sums.items[0] = base + before[row];
#pragma unroll
        for (u32 i = 1; i < V::COUNT; i++) sums.items[i] = base + rows[row].items[i - 1];
        if (is_whole) {
            *reinterpret_cast<V*>(out + at) = sums;
        } else {
#pragma unroll
            for (u32 i = 0; i < V::COUNT; i++) {
                if (at + i <= count) out[at + i] = sums.items[i];
            }
        }
    }
}

struct WideningScanShared {
    union {
        u32 in[TILE_PADDED];
        u64 out[TILE_PADDED];
    };
    BlockSum<u64> sum;
    u64 before;
    u32 tile;
};

extern "C" __global__ void __launch_bounds__(THREADS, SCAN_BLOCKS)
scan_u32_u32_kernel(const u32* in, u32* out, u64 count, u64* words, u32* ticket) {
    SHARED(ScanShared<u32>, shared);
    scan<u32, SCAN_ROWS>(in, out, count, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS, SCAN_U64_BLOCKS)
scan_u64_u64_kernel(const u64* in, u64* out, u64 count, u64* words, u32* ticket) {
    SHARED(ScanShared<u64>, shared);
    scan<u64, SCAN_U64_ROWS>(in, out, count, words, ticket, shared);
}

// As `scan`. Items pass through shared memory, so that both sizes are read and written across.
extern "C" __global__ void __launch_bounds__(THREADS, SCAN_WIDER_BLOCKS)
scan_u32_u64_kernel(const u32* in, u64* out, u64 count, u64* words, u32* ticket) {
    SHARED(WideningScanShared, shared);
    const u32 tile = next_tile(ticket, shared.tile);
    const u64 first = u64(tile) * TILE;
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        shared.in[padded(at)] = first + at < count ? in[first + at] : 0;
    }
    __syncthreads();
    u32 items[CONSECUTIVE];
    u64 sum = 0;
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        items[i] = shared.in[padded(threadIdx.x * CONSECUTIVE + i)];
        sum += items[i];
    }
    u64 total;
    u64 before = block_exclusive_sum(sum, shared.sum, total);
    before += block_look_back(words, tile, total, shared.before);
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        shared.out[padded(threadIdx.x * CONSECUTIVE + i)] = before;
        before += items[i];
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        if (first + at <= count) out[first + at] = shared.out[padded(at)];
    }
}

// Radix sort.

constexpr u32 DIGIT_BITS = 8;
constexpr u32 DIGITS = 1 << DIGIT_BITS;
constexpr u32 PASSES_MAX = 8;
static_assert(DIGITS == THREADS, "one thread for each digit");

template <typename Key>
__device__ __forceinline__ u32 digit_of(Key key, u32 shift, u32 bits) {
    return u32(key >> shift) & ((1u << bits) - 1);
}

struct HistogramShared {
    u32 counts[PASSES_MAX][DIGITS];
    BlockSum<u32> sum;
    bool is_last;
};

// Vectors of keys that a thread has under way.
constexpr u32 HISTOGRAM_VECTORS = 4;

// offsets[pass][digit] = how many keys have a smaller digit, from counts that the last block sums up. Digits have `width` bits,
// the last one perhaps fewer.
template <typename Key>
__device__ __forceinline__ void digit_offsets(const Key* keys, u64 count, u32 begin, u32 end, u32 width, u32* offsets,
                                              u32* blocks_done, HistogramShared& shared) {
    using V = Vector<Key>;
    constexpr u32 CHUNK = THREADS * HISTOGRAM_VECTORS * V::COUNT;
    const u32 passes = (end - begin + width - 1) / width;
    for (u32 pass = 0; pass < passes; pass++) shared.counts[pass][threadIdx.x] = 0;
    __syncthreads();
    for (u64 first = u64(blockIdx.x) * CHUNK; first < count; first += u64(gridDim.x) * CHUNK) {
        if (first + CHUNK <= count) {
            V found[HISTOGRAM_VECTORS];
#pragma unroll
            for (u32 i = 0; i < HISTOGRAM_VECTORS; i++) {
                found[i] = reinterpret_cast<const V*>(keys + first)[i * THREADS + threadIdx.x];
            }
            const Key one = found[0].items[0];
            Key differ = 0;
#pragma unroll
            for (u32 i = 0; i < HISTOGRAM_VECTORS; i++) {
#pragma unroll
                for (u32 k = 0; k < V::COUNT; k++) differ |= found[i].items[k] ^ one;
            }
            for (u32 pass = 0; pass < passes; pass++) {
                const u32 shift = begin + pass * width;
                const u32 bits = min(width, end - shift);
                // High digits are often the same everywhere; then atomics would stand in line.
                const u32 digit = digit_of(one, shift, bits);
                const u32 of_first = __shfl_sync(FULL_WARP, digit, 0);
                if (__all_sync(FULL_WARP, digit_of(differ, shift, bits) == 0 && digit == of_first)) {
                    if (lane_index() == 0) {
                        atomicAdd(&shared.counts[pass][digit], WARP_THREADS * HISTOGRAM_VECTORS * V::COUNT);
                    }
                    continue;
                }
#pragma unroll
                for (u32 i = 0; i < HISTOGRAM_VECTORS; i++) {
#pragma unroll
                    for (u32 k = 0; k < V::COUNT; k++) {
                        atomicAdd(&shared.counts[pass][digit_of(found[i].items[k], shift, bits)], 1u);
                    }
                }
            }
        } else {
            for (u64 at = first + threadIdx.x; at < count; at += THREADS) {
                const Key key = keys[at];
                for (u32 pass = 0; pass < passes; pass++) {
                    const u32 shift = begin + pass * width;
                    atomicAdd(&shared.counts[pass][digit_of(key, shift, min(width, end - shift))], 1u);
                }
            }
        }
    }
    __syncthreads();
    for (u32 pass = 0; pass < passes; pass++) {
        const u32 sum = shared.counts[pass][threadIdx.x];
        if (sum > 0) atomicAdd(&offsets[pass * DIGITS + threadIdx.x], sum);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) shared.is_last = atomicAdd(blocks_done, 1u) + 1 == gridDim.x;
    __syncthreads();
    if (!shared.is_last) return;
    __threadfence();
    for (u32 pass = 0; pass < passes; pass++) {
        u32* of_digit = offsets + pass * DIGITS + threadIdx.x;
        u32 total;
        const u32 before = block_exclusive_sum(load_relaxed(of_digit), shared.sum, total);
        store_relaxed(of_digit, before);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
digit_offsets_u32_kernel(const u32* keys, u64 count, u32 begin, u32 end, u32 width, u32* offsets, u32* blocks_done) {
    SHARED(HistogramShared, shared);
    digit_offsets(keys, count, begin, end, width, offsets, blocks_done, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS)
digit_offsets_u64_kernel(const u64* keys, u64 count, u32 begin, u32 end, u32 width, u32* offsets, u32* blocks_done) {
    SHARED(HistogramShared, shared);
    digit_offsets(keys, count, begin, end, width, offsets, blocks_done, shared);
}

// Words of the look-back of a pass: by tile and digit, counts below 2^30.
constexpr u32 SORT_SHIFT = 30;
constexpr u32 SORT_VALUE = (1u << SORT_SHIFT) - 1;
constexpr u32 SORT_OWN = 1u << SORT_SHIFT;
constexpr u32 SORT_ALL = 2u << SORT_SHIFT;

// Tiles that a look-back asks at a time. Each answer takes about a microsecond, in which some tiles more begin.
constexpr u32 LOOKS = SORT_LOOKS;

struct Nothing {};

template <typename Key, typename Value, u32 THREADS_OF_SORT, u32 ITEMS>
struct SortShared {
    static constexpr u32 SORT_TILE = THREADS_OF_SORT * ITEMS;
    static constexpr u32 SORT_WARPS = THREADS_OF_SORT / WARP_THREADS;
    union {
        u32 warp_counts[SORT_WARPS][DIGITS];
        Key keys[SORT_TILE];
        Value values[SORT_TILE];
    };
    // How many items have each digit, then where they begin in the output, less where they begin in the tile.
    u32 digits[DIGITS];
    u32 sums[DIGITS / WARP_THREADS];
    u32 tile;
    bool is_one_digit;
};

// Digits of at most this many bits are ranked by one vote per bit, which is faster.
constexpr u32 FEW_BITS = 6;

// For a warp: how many of its items with an item's digit, of at most BITS bits, come before it; and how many items have each.
template <u32 BITS, typename Key, u32 ITEMS>
__device__ __forceinline__ void rank_in_warp(const Key (&items)[ITEMS], u32 shift, u32 bits, u32* warp_counts,
                                             u32 (&ranks)[ITEMS]) {
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 of_item = digit_of(items[i], shift, bits);
        const u32 equal = lanes_of_digit<BITS>(of_item);
        const u32 below = __popc(equal & lanes_below());
        u32 before = 0;
        if (below == 0) {
            before = warp_counts[of_item];
            warp_counts[of_item] = before + __popc(equal);
        }
        ranks[i] = below + __shfl_sync(FULL_WARP, before, __ffs(equal) - 1);
        __syncwarp();
    }
}

// One digit: items go to the place of their digit, in their order. `offsets[digit]` is where a digit begins.
template <typename Key, typename Value, u32 THREADS_OF_SORT, u32 ITEMS>
__device__ __forceinline__ void sort_digit(const Key* keys, const Value* values, Key* keys_out, Value* values_out,
                                           u64 count, u32 shift, u32 bits, const u32* offsets, u32* words,
                                           u32* ticket, SortShared<Key, Value, THREADS_OF_SORT, ITEMS>& shared) {
    constexpr bool HAS_VALUES = sizeof(Value) >= sizeof(u32);
    constexpr u32 SORT_TILE = THREADS_OF_SORT * ITEMS;
    constexpr u32 SORT_WARPS = THREADS_OF_SORT / WARP_THREADS;
    if (threadIdx.x == 0) {
        shared.tile = atomicAdd(ticket, 1u);
        const u32 one = digit_of(keys[0], shift, bits);
        const u64 end = one + 1 < DIGITS ? offsets[one + 1] : count;
        shared.is_one_digit = offsets[one] == 0 && end == count;
    }
    for (u32 i = threadIdx.x; i < SORT_WARPS * DIGITS; i += THREADS_OF_SORT) {
        shared.warp_counts[i / DIGITS][i % DIGITS] = 0;
    }
    __syncthreads();
    const u32 tile = shared.tile;
    const u64 first = u64(tile) * SORT_TILE;
    const u32 in_tile = u32(min(u64(SORT_TILE), count - first));
    // High digits are often the same everywhere: then all items stay where they are.
    if (shared.is_one_digit) {
        for (u32 at = threadIdx.x; at < in_tile; at += THREADS_OF_SORT) {
            keys_out[first + at] = keys[first + at];
            if constexpr (HAS_VALUES) values_out[first + at] = values[first + at];
        }
        return;
    }
    // A warp has consecutive items, a lane every 32nd of them. Behind the end lie items of the highest digit.
    const u32 lane_first = warp_index() * ITEMS * WARP_THREADS + lane_index();
    Key items[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 at = lane_first + i * WARP_THREADS;
        items[i] = at < in_tile ? keys[first + at] : Key(~Key(0));
    }
    // A thread may also stand for a digit.
    const u32 digit = threadIdx.x;
    const bool is_digit = digit < DIGITS;
    u32* word = words + u64(tile) * DIGITS + digit;
    u32 ranks[ITEMS];
    u32* warp_counts = shared.warp_counts[warp_index()];
    if (bits <= FEW_BITS) {
        rank_in_warp<FEW_BITS>(items, shift, bits, warp_counts, ranks);
    } else {
        rank_in_warp<DIGIT_BITS>(items, shift, bits, warp_counts, ranks);
    }
    __syncthreads();
    u32 own = 0, inclusive = 0;
    if (is_digit) {
#pragma unroll
        for (u32 warp = 0; warp < SORT_WARPS; warp++) {
            const u32 of_warp = shared.warp_counts[warp][digit];
            shared.warp_counts[warp][digit] = own;
            own += of_warp;
        }
        inclusive = warp_inclusive_sum(own);
        if (lane_index() == WARP_THREADS - 1) shared.sums[warp_index()] = inclusive;
    }
    // Items behind the end have the highest digit and come last: they are not counted for others.
    const u32 counted = own - (digit == (1u << bits) - 1 ? SORT_TILE - in_tile : 0);
    if (is_digit) store_relaxed(word, (tile == 0 ? SORT_ALL : SORT_OWN) | counted);
    __syncthreads();
    u32 in_tile_first = inclusive - own;
    if (is_digit) {
        for (u32 warp = 0; warp < warp_index(); warp++) in_tile_first += shared.sums[warp];
#pragma unroll
        for (u32 warp = 0; warp < SORT_WARPS; warp++) shared.warp_counts[warp][digit] += in_tile_first;
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) ranks[i] += warp_counts[digit_of(items[i], shift, bits)];
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) shared.keys[ranks[i]] = items[i];
    // Underway while tiles are looked back at.
    Value carried[HAS_VALUES ? ITEMS : 1];
    if constexpr (HAS_VALUES) {
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            const u32 at = lane_first + i * WARP_THREADS;
            carried[i] = at < in_tile ? values[first + at] : Value(0);
        }
    }
    if (is_digit) {
        u32 before = 0;
        for (u32 back = 1; back <= tile;) {
            u32 found[LOOKS];
#pragma unroll
            for (u32 i = 0; i < LOOKS; i++) {
                found[i] = back + i <= tile ? load_relaxed(word - u64(back + i) * DIGITS) : SORT_ALL;
            }
            bool is_all = false;
#pragma unroll
            for (u32 i = 0; i < LOOKS; i++) {
                if (!is_all) {
                    while (found[i] < SORT_OWN) {
                        spin_wait();
                        found[i] = load_relaxed(word - u64(back + i) * DIGITS);
                    }
                    before += found[i] & SORT_VALUE;
                    is_all = (found[i] & SORT_ALL) != 0;
                }
            }
            if (is_all) break;
            back += LOOKS;
        }
        if (tile > 0) store_relaxed(word, SORT_ALL | (before + counted));
        shared.digits[digit] = offsets[digit] + before - in_tile_first;
    }
    __syncthreads();
    u32 places[HAS_VALUES ? ITEMS : 1];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 at = i * THREADS_OF_SORT + threadIdx.x;
        const Key key = shared.keys[at];
        const u32 place = shared.digits[digit_of(key, shift, bits)] + at;
        if (at < in_tile) keys_out[place] = key;
        if constexpr (HAS_VALUES) places[i] = place;
    }
    if constexpr (HAS_VALUES) {
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) shared.values[ranks[i]] = carried[i];
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            const u32 at = i * THREADS_OF_SORT + threadIdx.x;
            if (at < in_tile) values_out[places[i]] = shared.values[at];
        }
    }
}

extern "C" __global__ void __launch_bounds__(SORT_U32_THREADS, SORT_BLOCKS)
sort_digit_u32_kernel(const u32* keys, const Nothing* values, u32* keys_out, Nothing* values_out, u64 count, u32 shift,
                      u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u32, Nothing, SORT_U32_THREADS, SORT_U32_ITEMS>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(SORT_U32_THREADS, SORT_BLOCKS)
sort_digit_u32_u32_kernel(const u32* keys, const u32* values, u32* keys_out, u32* values_out, u64 count, u32 shift,
                          u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u32, u32, SORT_U32_THREADS, SORT_U32_ITEMS>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(SORT_U64_THREADS, SORT_BLOCKS)
sort_digit_u64_kernel(const u64* keys, const Nothing* values, u64* keys_out, Nothing* values_out, u64 count, u32 shift,
                      u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u64, Nothing, SORT_U64_THREADS, SORT_U64_ITEMS>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(SORT_U64_THREADS, SORT_BLOCKS)
sort_digit_u64_u32_kernel(const u64* keys, const u32* values, u64* keys_out, u32* values_out, u64 count, u32 shift,
                          u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u64, u32, SORT_U64_THREADS, SORT_U64_ITEMS>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(SORT_U64_THREADS, SORT_BLOCKS)
sort_digit_u64_u64_kernel(const u64* keys, const u64* values, u64* keys_out, u64* values_out, u64 count, u32 shift,
                          u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u64, u64, SORT_U64_THREADS, SORT_U64_ITEMS>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

// The same for few items.

extern "C" __global__ void __launch_bounds__(SORT_U32_THREADS)
sort_few_u32_kernel(const u32* keys, const Nothing* values, u32* keys_out, Nothing* values_out, u64 count, u32 shift,
                    u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u32, Nothing, SORT_U32_THREADS, SORT_FEW_ITEMS>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(SORT_U32_THREADS)
sort_few_u32_u32_kernel(const u32* keys, const u32* values, u32* keys_out, u32* values_out, u64 count, u32 shift,
                        u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u32, u32, SORT_U32_THREADS, SORT_FEW_ITEMS>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(SORT_U64_THREADS)
sort_few_u64_kernel(const u64* keys, const Nothing* values, u64* keys_out, Nothing* values_out, u64 count, u32 shift,
                    u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u64, Nothing, SORT_U64_THREADS, SORT_FEW_ITEMS>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(SORT_U64_THREADS)
sort_few_u64_u32_kernel(const u64* keys, const u32* values, u64* keys_out, u32* values_out, u64 count, u32 shift,
                        u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u64, u32, SORT_U64_THREADS, SORT_FEW_ITEMS>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(SORT_U64_THREADS)
sort_few_u64_u64_kernel(const u64* keys, const u64* values, u64* keys_out, u64* values_out, u64 count, u32 shift,
                        u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u64, u64, SORT_U64_THREADS, SORT_FEW_ITEMS>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

// Sums by key.

// A number of runs, and a sum over the last of them.
struct RunSum {
    u64 runs;
    u64 sum;
};

// What `a` and then `b` give.
__device__ __forceinline__ RunSum join(RunSum a, RunSum b) {
    return RunSum{a.runs + b.runs, b.runs > 0 ? b.sum : a.sum + b.sum};
}

struct RunSumShared {
    u64 keys[TILE_PADDED];
    RunSum warps[WARPS];
    RunSum before;
    u64 last_before;
    u32 tile;
};

__device__ __forceinline__ RunSum warp_inclusive_join(RunSum value) {
#pragma unroll
    for (u32 distance = 1; distance < WARP_THREADS; distance *= 2) {
        RunSum below;
        below.runs = __shfl_up_sync(FULL_WARP, value.runs, distance);
        below.sum = __shfl_up_sync(FULL_WARP, value.sum, distance);
        if (lane_index() >= distance) value = join(below, value);
    }
    return value;
}

// The look-back of a `RunSum`: two words a tile, which are read as one if both say the same state.
__device__ __forceinline__ RunSum thread_look_back(u64* words, u32 tile, RunSum own) {
    RunSum before{0, 0};
    u64* word = words + u64(tile) * 2;
    if (tile > 0) {
        store_relaxed(&word[0], LOOK_BACK_OWN | own.runs);
        store_relaxed(&word[1], LOOK_BACK_OWN | own.sum);
    }
    for (u32 back = 1; back <= tile; back++) {
        const u64* at = word - u64(back) * 2;
        u64 runs, sum;
        while (true) {
            runs = load_relaxed(&at[0]);
            sum = load_relaxed(&at[1]);
            if (runs >= LOOK_BACK_OWN && (runs >> LOOK_BACK_SHIFT) == (sum >> LOOK_BACK_SHIFT)) break;
            spin_wait();
        }
        before = join(RunSum{runs & LOOK_BACK_VALUE, sum & LOOK_BACK_VALUE}, before);
        if (runs & LOOK_BACK_ALL) break;
    }
    const RunSum all = join(before, own);
    store_relaxed(&word[0], LOOK_BACK_ALL | all.runs);
    store_relaxed(&word[1], LOOK_BACK_ALL | all.sum);
    return before;
}

// The runs of equal keys: their keys, and the sum of the values of each, below 2^62. Without values each is 1.
// `runs` is the number of runs.
extern "C" __global__ void __launch_bounds__(THREADS)
sums_by_key_kernel(const u64* keys, const u64* values, u64* keys_out, u64* sums_out, u64* runs, u64 count, u64* words,
                   u32* ticket) {
    SHARED(RunSumShared, shared);
    const u32 tile = next_tile(ticket, shared.tile);
    const u64 first = u64(tile) * TILE;
    const u32 in_tile = u32(min(u64(TILE), count - first));
    u64 items[CONSECUTIVE];
    if (values != nullptr) {
#pragma unroll
        for (u32 i = 0; i < CONSECUTIVE; i++) {
            const u32 at = i * THREADS + threadIdx.x;
            if (at < in_tile) shared.keys[padded(at)] = values[first + at];
        }
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < CONSECUTIVE; i++) {
            const u32 at = threadIdx.x * CONSECUTIVE + i;
            items[i] = at < in_tile ? shared.keys[padded(at)] : 0;
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        if (at < in_tile) shared.keys[padded(at)] = keys[first + at];
    }
    __syncthreads();
    const u32 thread_first = threadIdx.x * CONSECUTIVE;
    // Which of this thread's items are the first of a run.
    u32 heads = 0;
    RunSum own{0, 0};
    u64 previous = 0;
    if (thread_first > 0 && thread_first < in_tile) {
        previous = shared.keys[padded(thread_first - 1)];
    } else if (first > 0) {
        previous = keys[first - 1];
    }
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = thread_first + i;
        if (at < in_tile) {
            if (values == nullptr) items[i] = 1;
            const u64 key = shared.keys[padded(at)];
            const bool is_head = first + at == 0 || key != previous;
            heads |= u32(is_head) << i;
            own = join(own, RunSum{is_head ? 1ull : 0ull, items[i]});
            previous = key;
        }
    }
    RunSum inclusive = warp_inclusive_join(own);
    if (lane_index() == WARP_THREADS - 1) shared.warps[warp_index()] = inclusive;
    RunSum exclusive;
    exclusive.runs = __shfl_up_sync(FULL_WARP, inclusive.runs, 1);
    exclusive.sum = __shfl_up_sync(FULL_WARP, inclusive.sum, 1);
    if (lane_index() == 0) exclusive = RunSum{0, 0};
    __syncthreads();
    if (threadIdx.x == 0) {
        RunSum tile_sum{0, 0};
        for (u32 warp = 0; warp < WARPS; warp++) {
            const RunSum of_warp = shared.warps[warp];
            shared.warps[warp] = tile_sum;
            tile_sum = join(tile_sum, of_warp);
        }
        shared.before = thread_look_back(words, tile, tile_sum);
        if (first + in_tile == count) *runs = join(shared.before, tile_sum).runs;
    }
    __syncthreads();
    RunSum sum = join(shared.before, join(shared.warps[warp_index()], exclusive));
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = thread_first + i;
        if (at < in_tile) {
            const u64 key = shared.keys[padded(at)];
            const bool is_head = (heads >> i) & 1;
            sum = join(sum, RunSum{is_head ? 1ull : 0ull, items[i]});
            if (is_head) keys_out[sum.runs - 1] = key;
            bool is_last = first + at + 1 == count;
            if (!is_last) {
                const u64 next = at + 1 < in_tile ? shared.keys[padded(at + 1)] : keys[first + at + 1];
                is_last = next != key;
            }
            if (is_last) sums_out[sum.runs - 1] = sum.sum;
        }
    }
}

// Load-balanced expand.

// offsets[k] = how many of the sorted keys are below k, for k up to and with `end`. Each is searched for: a thread that went
// through the gap before its key would be alone with a long one.
extern "C" __global__ void __launch_bounds__(THREADS)
key_offsets_kernel(const u32* keys, u64 count, u32 end, u32* offsets) {
    for (u64 key = grid_thread(); key <= end; key += grid_threads()) {
        offsets[key] = key == 0 ? 0 : u32(count_at_most(keys, count, u32(key - 1)));
    }
}

// owners[i] = the o with offsets[o] <= i < offsets[o + 1]. Offsets rise from 0 to the number of items.
extern "C" __global__ void __launch_bounds__(THREADS)
expand_kernel(const u32* offsets, u32 owner_count, u32* owners, u32 count) {
    SHARED(ExpandShared<TILE>, shared);
    const u64 first = u64(blockIdx.x) * TILE;
    const u64 end = min(first + TILE, u64(count));
    const Owners here = block_owners(offsets, owner_count, u32(first), u32(end), shared);
    using V = Vector<u32>;
    constexpr u32 ROWS = CONSECUTIVE / V::COUNT;
    const u64 thread_first = first + threadIdx.x * V::COUNT;
    u32 at[ROWS], found[ROWS][V::COUNT];
#pragma unroll
    for (u32 row = 0; row < ROWS; row++) at[row] = u32(min(thread_first + row * THREADS * V::COUNT, end - 1));
    owners_of_rows(here, at, found);
#pragma unroll
    for (u32 row = 0; row < ROWS; row++) {
        V vector;
#pragma unroll
        for (u32 i = 0; i < V::COUNT; i++) vector.items[i] = here.first + found[row][i];
        store_vector(owners, thread_first + row * THREADS * V::COUNT, end, vector);
    }
}
