// primitives.cu: scan, radix sort, sums by key, load-balanced expand and sums of segments, for whole arrays.
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
constexpr u32 SCAN_BLOCKS = 6;
constexpr u32 SCAN_WIDER_BLOCKS = 4;
constexpr u32 SORT_BLOCKS = 3;
constexpr u32 SORT_NARROW_BLOCKS = 4;

// Shared memory is read across: one word of room after 32 keeps lanes in different banks.
constexpr u32 TILE_PADDED = TILE + TILE / 32;
__device__ __forceinline__ u32 padded(u32 index) { return index + index / 32; }

// Scan.

template <typename In, typename Out>
struct ScanShared {
    union {
        In in[TILE_PADDED];
        Out out[TILE_PADDED];
    };
    BlockSum<u64> sum;
    u64 before;
    u32 tile;
};

// out[i] = sum of in[0 .. i], for i up to and with count.
template <typename In, typename Out>
__device__ __forceinline__ void scan(const In* in, Out* out, u64 count, u64* words, u32* ticket,
                                     ScanShared<In, Out>& shared) {
    const u32 tile = next_tile(ticket, shared.tile);
    const u64 first = u64(tile) * TILE;
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        shared.in[padded(at)] = first + at < count ? in[first + at] : In(0);
    }
    __syncthreads();
    // Items of the output's size stay in shared memory and are replaced there: few registers, so many threads.
    constexpr bool IN_PLACE = sizeof(In) == sizeof(Out);
    In items[IN_PLACE ? 1 : CONSECUTIVE];
    u64 sum = 0;
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const In item = shared.in[padded(threadIdx.x * CONSECUTIVE + i)];
        if constexpr (!IN_PLACE) items[i] = item;
        sum += item;
    }
    u64 total;
    u64 before = block_exclusive_sum(sum, shared.sum, total);
    before += block_look_back(words, tile, total, shared.before);
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = padded(threadIdx.x * CONSECUTIVE + i);
        u64 item;
        if constexpr (IN_PLACE) {
            item = shared.in[at];
        } else {
            item = items[i];
        }
        shared.out[at] = Out(before);
        before += item;
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        if (first + at <= count) out[first + at] = shared.out[padded(at)];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, SCAN_BLOCKS)
scan_u32_u32_kernel(const u32* in, u32* out, u64 count, u64* words, u32* ticket) {
    using Shared = ScanShared<u32, u32>;
    SHARED(Shared, shared);
    scan(in, out, count, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS, SCAN_WIDER_BLOCKS)
scan_u32_u64_kernel(const u32* in, u64* out, u64 count, u64* words, u32* ticket) {
    using Shared = ScanShared<u32, u64>;
    SHARED(Shared, shared);
    scan(in, out, count, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS, SCAN_BLOCKS)
scan_u64_u64_kernel(const u64* in, u64* out, u64 count, u64* words, u32* ticket) {
    using Shared = ScanShared<u64, u64>;
    SHARED(Shared, shared);
    scan(in, out, count, words, ticket, shared);
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

// How wide the digit of a pass is that begins at bit `shift`, when keys end at bit `end`.
__device__ __forceinline__ u32 digit_bits(u32 shift, u32 end) { return min(DIGIT_BITS, end - shift); }

struct HistogramShared {
    u32 counts[PASSES_MAX][DIGITS];
};

// counts[pass][digit] += how many keys have the digit.
template <typename Key>
__device__ __forceinline__ void digit_histogram(const Key* keys, u64 count, u32 begin, u32 end, u32* counts,
                                                HistogramShared& shared) {
    const u32 passes = (end - begin + DIGIT_BITS - 1) / DIGIT_BITS;
    for (u32 pass = 0; pass < passes; pass++) shared.counts[pass][threadIdx.x] = 0;
    __syncthreads();
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const Key key = keys[i];
        for (u32 pass = 0; pass < passes; pass++) {
            const u32 shift = begin + pass * DIGIT_BITS;
            atomicAdd(&shared.counts[pass][digit_of(key, shift, digit_bits(shift, end))], 1u);
        }
    }
    __syncthreads();
    for (u32 pass = 0; pass < passes; pass++) {
        const u32 sum = shared.counts[pass][threadIdx.x];
        if (sum > 0) atomicAdd(&counts[pass * DIGITS + threadIdx.x], sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
digit_histogram_u32_kernel(const u32* keys, u64 count, u32 begin, u32 end, u32* counts) {
    SHARED(HistogramShared, shared);
    digit_histogram(keys, count, begin, end, counts, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS)
digit_histogram_u64_kernel(const u64* keys, u64 count, u32 begin, u32 end, u32* counts) {
    SHARED(HistogramShared, shared);
    digit_histogram(keys, count, begin, end, counts, shared);
}

struct DigitOffsetsShared {
    BlockSum<u32> sum;
};

// One block a pass: counts become offsets.
extern "C" __global__ void __launch_bounds__(THREADS) digit_offsets_kernel(u32* counts) {
    SHARED(DigitOffsetsShared, shared);
    u32* pass = counts + blockIdx.x * DIGITS;
    u32 total;
    const u32 before = block_exclusive_sum(pass[threadIdx.x], shared.sum, total);
    pass[threadIdx.x] = before;
}

// Words of the look-back of a pass: by tile and digit, counts below 2^30.
constexpr u32 SORT_SHIFT = 30;
constexpr u32 SORT_VALUE = (1u << SORT_SHIFT) - 1;
constexpr u32 SORT_OWN = 1u << SORT_SHIFT;
constexpr u32 SORT_ALL = 2u << SORT_SHIFT;

// Tiles that a look-back asks at a time.
constexpr u32 LOOKS = 4;

struct Nothing {};

template <typename Key, typename Value>
struct SortShared {
    union {
        Key keys[TILE];
        Value values[TILE];
    };
    u32 warp_counts[WARPS][DIGITS];
    // Where a digit's items begin in the output, less where they begin in the tile.
    u32 offsets[DIGITS];
    BlockSum<u32> sum;
    u32 tile;
};

// One digit: items go to the place of their digit, in their order. `offsets[digit]` is where a digit begins.
template <typename Key, typename Value>
__device__ __forceinline__ void sort_digit(const Key* keys, const Value* values, Key* keys_out, Value* values_out,
                                           u64 count, u32 shift, u32 bits, const u32* offsets, u32* words,
                                           u32* ticket, SortShared<Key, Value>& shared) {
    constexpr bool HAS_VALUES = sizeof(Value) >= sizeof(u32);
    const u32 tile = next_tile(ticket, shared.tile);
    const u64 first = u64(tile) * TILE;
    const u32 in_tile = u32(min(u64(TILE), count - first));
    for (u32 i = threadIdx.x; i < WARPS * DIGITS; i += THREADS) shared.warp_counts[i / DIGITS][i % DIGITS] = 0;
    // A warp has consecutive items, a lane every 32nd of them. Behind the end lie items of the highest digit.
    const u32 warp_first = warp_index() * CONSECUTIVE * WARP_THREADS;
    Key items[CONSECUTIVE];
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = warp_first + i * WARP_THREADS + lane_index();
        items[i] = at < in_tile ? keys[first + at] : Key(~Key(0));
    }
    __syncthreads();
    u32 ranks[CONSECUTIVE];
    u32* warp_counts = shared.warp_counts[warp_index()];
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 digit = digit_of(items[i], shift, bits);
        const u32 equal = lanes_of_digit<DIGIT_BITS>(digit);
        const u32 below = __popc(equal & lanes_below());
        u32 before = 0;
        if (below == 0) {
            before = warp_counts[digit];
            warp_counts[digit] = before + __popc(equal);
        }
        ranks[i] = below + __shfl_sync(FULL_WARP, before, __ffs(equal) - 1);
        __syncwarp();
    }
    __syncthreads();
    // From here a thread also stands for a digit.
    const u32 digit = threadIdx.x;
    u32 own = 0;
#pragma unroll
    for (u32 warp = 0; warp < WARPS; warp++) {
        const u32 of_warp = shared.warp_counts[warp][digit];
        shared.warp_counts[warp][digit] = own;
        own += of_warp;
    }
    // Items behind the end have the highest digit and come last: they are not counted for others.
    const u32 behind = digit == (1u << bits) - 1 ? TILE - in_tile : 0;
    u32* word = words + u64(tile) * DIGITS + digit;
    store_relaxed(word, (tile == 0 ? SORT_ALL : SORT_OWN) | (own - behind));
    u32 total;
    const u32 in_tile_first = block_exclusive_sum(own, shared.sum, total);
#pragma unroll
    for (u32 warp = 0; warp < WARPS; warp++) shared.warp_counts[warp][digit] += in_tile_first;
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        ranks[i] += warp_counts[digit_of(items[i], shift, bits)];
        shared.keys[ranks[i]] = items[i];
    }
    u32 before = 0;
    for (u32 back = 1; back <= tile;) {
        // Several tiles at a time, as each look takes long.
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
    if (tile > 0) store_relaxed(word, SORT_ALL | (before + own - behind));
    shared.offsets[digit] = offsets[digit] + before - in_tile_first;
    __syncthreads();
    u32 places[CONSECUTIVE];
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        const Key key = shared.keys[at];
        places[i] = shared.offsets[digit_of(key, shift, bits)] + at;
        if (at < in_tile) keys_out[places[i]] = key;
    }
    if constexpr (HAS_VALUES) {
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < CONSECUTIVE; i++) {
            const u32 at = warp_first + i * WARP_THREADS + lane_index();
            if (at < in_tile) shared.values[ranks[i]] = values[first + at];
        }
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < CONSECUTIVE; i++) {
            const u32 at = i * THREADS + threadIdx.x;
            if (at < in_tile) values_out[places[i]] = shared.values[at];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, SORT_NARROW_BLOCKS)
sort_digit_u32_kernel(const u32* keys, const Nothing* values, u32* keys_out, Nothing* values_out, u64 count, u32 shift,
                      u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u32, Nothing>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS, SORT_BLOCKS)
sort_digit_u64_kernel(const u64* keys, const Nothing* values, u64* keys_out, Nothing* values_out, u64 count, u32 shift,
                      u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u64, Nothing>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS, SORT_NARROW_BLOCKS)
sort_digit_u32_u32_kernel(const u32* keys, const u32* values, u32* keys_out, u32* values_out, u64 count, u32 shift,
                          u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u32, u32>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS, SORT_BLOCKS)
sort_digit_u64_u32_kernel(const u64* keys, const u32* values, u64* keys_out, u32* values_out, u64 count, u32 shift,
                          u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u64, u32>;
    SHARED(Shared, shared);
    sort_digit(keys, values, keys_out, values_out, count, shift, bits, offsets, words, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS, SORT_BLOCKS)
sort_digit_u64_u64_kernel(const u64* keys, const u64* values, u64* keys_out, u64* values_out, u64 count, u32 shift,
                          u32 bits, const u32* offsets, u32* words, u32* ticket) {
    using Shared = SortShared<u64, u64>;
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

struct ExpandShared {
    u32 offsets[TILE];
    u32 first;
    u32 end;
};

// owners[i] = the o with offsets[o] <= i < offsets[o + 1]. Offsets rise from 0 to the number of items.
extern "C" __global__ void __launch_bounds__(THREADS)
expand_kernel(const u32* offsets, u32 owner_count, u32* owners, u32 count) {
    SHARED(ExpandShared, shared);
    const u64 first = u64(blockIdx.x) * TILE;
    const u64 end = min(first + TILE, u64(count));
    if (threadIdx.x == 0) shared.first = u32(owner_of(offsets, 0, owner_count, u32(first)));
    if (threadIdx.x == WARP_THREADS) shared.end = u32(owner_of(offsets, 0, owner_count, u32(end - 1))) + 1;
    __syncthreads();
    // Only where many owners have nothing do they not fit.
    const u32 owners_here = shared.end - shared.first;
    const bool fit = owners_here <= TILE;
    for (u32 i = threadIdx.x; fit && i < owners_here; i += THREADS) shared.offsets[i] = offsets[shared.first + i];
    __syncthreads();
    for (u64 i = first + threadIdx.x; i < end; i += THREADS) {
        owners[i] = fit ? shared.first + u32(owner_of(shared.offsets, 0, owners_here, u32(i)))
                        : u32(owner_of(offsets, shared.first, shared.end, u32(i)));
    }
}

// Sums of segments.

struct SegmentShared {
    u64 values[TILE_PADDED];
    u32 first;
    u32 end;
};

// sums[s] += values[offsets[s] .. offsets[s + 1]], wrapping. A thread adds up its items and hands each segment's
// part over when it ends.
extern "C" __global__ void __launch_bounds__(THREADS)
segment_sums_kernel(const u32* offsets, u32 segments, const u64* values, u64* sums, u32 count) {
    SHARED(SegmentShared, shared);
    const u64 first = u64(blockIdx.x) * TILE;
    const u32 in_tile = u32(min(u64(TILE), u64(count) - first));
    if (threadIdx.x == 0) shared.first = u32(owner_of(offsets, 0, segments, u32(first)));
    if (threadIdx.x == WARP_THREADS) shared.end = u32(owner_of(offsets, 0, segments, u32(first + in_tile - 1))) + 1;
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        if (at < in_tile) shared.values[padded(at)] = values[first + at];
    }
    __syncthreads();
    const u32 thread_first = threadIdx.x * CONSECUTIVE;
    const bool is_active = thread_first < in_tile;
    u32 segment = 0;
    u64 sum = 0;
    if (is_active) {
        const u32 thread_end = min(thread_first + CONSECUTIVE, in_tile);
        segment = u32(owner_of(offsets, shared.first, shared.end, u32(first + thread_first)));
        u32 end = offsets[segment + 1];
        for (u32 at = thread_first; at < thread_end; at++) {
            while (first + at >= end) {
                if (sum != 0) atomicAdd(&sums[segment], sum);
                sum = 0;
                segment++;
                end = offsets[segment + 1];
            }
            sum += shared.values[padded(at)];
        }
    }
    // What is left: neighbours mostly end in the same segment.
    const u32 first_segment = __shfl_sync(FULL_WARP, segment, 0);
    if (__all_sync(FULL_WARP, is_active && segment == first_segment)) {
        sum = warp_sum(sum);
        if (lane_index() == 0 && sum != 0) atomicAdd(&sums[segment], sum);
    } else if (is_active && sum != 0) {
        atomicAdd(&sums[segment], sum);
    }
}
