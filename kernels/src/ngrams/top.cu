// top.cu: the rows that occur most often, or least; the largest entries of each row of a table.
// In     counts [rows] u32, words [rows * n] u32; tables as tables.cu has them
// Out    how many rows have each digit of a rank; rows from a rank on, in order; tables of the largest entries
// Work   a pass over the counts for each digit, and three that find the rows; of a table one for each digit, and one
// Map    a thread a row; of a table a block a row
// Exact  integers only; places come from a scan
#include "primitives.cuh"

constexpr u32 THREADS = TOP_THREADS;
constexpr u32 DIGITS = 1 << TOP_DIGIT_BITS;

struct TopShared {
    u32 digits[DIGITS];
};

// Rows are ordered by their ranks, the greatest first: the count, with all bits changed if the least counts are first.
__device__ __forceinline__ u32 rank_of(u32 count, u32 changed) { return count ^ changed; }

// digits[d] += the rows whose rank has digit d at `shift`, and `prefix` above it; of those from `low` to `high`.
extern "C" __global__ void __launch_bounds__(THREADS)
count_digits_kernel(const u32* counts, u64 rows, u32 changed, u32 low, u32 high, u32 prefix, u32 shift, u32* digits) {
    SHARED(TopShared, shared);
    u32* own = shared.digits;
    for (u32 i = threadIdx.x; i < DIGITS; i += THREADS) own[i] = 0;
    __syncthreads();
    // All lanes of a warp go round as often.
    for (u64 first = grid_thread() - lane_index(); first < rows; first += grid_threads()) {
        const u64 i = first + lane_index();
        const u64 rank = i < rows ? rank_of(counts[i], changed) : 0;
        const bool is_counted =
            i < rows && rank >> (shift + TOP_DIGIT_BITS) == prefix && rank >= low && rank <= high;
        const u32 digit = u32(rank >> shift) & (DIGITS - 1);
        // Most rows have the same digit: one lane counts those of its warp that have its own.
        const u32 counted = __ballot_sync(FULL_WARP, is_counted);
        if (counted == 0) continue;
        const u32 leader = __ffs(counted) - 1;
        const u32 common = __shfl_sync(FULL_WARP, digit, leader);
        const u32 alike = __ballot_sync(FULL_WARP, is_counted && digit == common);
        if (lane_index() == leader) atomicAdd(&own[common], u32(__popc(alike)));
        if (is_counted && digit != common) atomicAdd(&own[digit], 1u);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < DIGITS; i += THREADS) {
        if (own[i] > 0) atomicAdd(&digits[i], own[i]);
    }
}

// flags[i] = whether row i has a rank from `low` to `high`.
extern "C" __global__ void __launch_bounds__(THREADS)
top_flags_kernel(const u32* counts, u64 rows, u32 changed, u32 low, u32 high, u32* flags) {
    for (u64 i = grid_thread(); i < rows; i += grid_threads()) {
        const u32 rank = rank_of(counts[i], changed);
        flags[i] = rank >= low && rank <= high;
    }
}

// The words and counts of rows whose places, sums of flags before each, say that they are wanted.
extern "C" __global__ void __launch_bounds__(THREADS)
top_rows_kernel(const u32* places, u64 rows, const u32* words, u32 n, const u32* counts, u32* words_out, u32* counts_out) {
    for (u64 i = grid_thread(); i < rows; i += grid_threads()) {
        const u64 place = places[i];
        if (places[i + 1] == place) continue;
        for (u32 k = 0; k < n; k++) words_out[place * n + k] = words[i * n + k];
        counts_out[place] = counts[i];
    }
}

// Entries of a table that are wanted, and the rows that have some: entries are column << 32 | count.

// counts[i] = the count of entry i.
extern "C" __global__ void __launch_bounds__(THREADS)
entry_counts_kernel(const u64* entries, u64 count, u32* counts) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) counts[i] = u32(entries[i]);
}

// flags[i] = whether row i has entries whose places, sums of flags before each, say that they are wanted.
extern "C" __global__ void __launch_bounds__(THREADS)
used_flags_kernel(const u32* offsets, const u32* places, u64 rows, u32* flags) {
    for (u64 i = grid_thread(); i < rows; i += grid_threads()) flags[i] = places[offsets[i]] < places[offsets[i + 1]];
}

// The entries that are wanted.
extern "C" __global__ void __launch_bounds__(THREADS)
used_entries_kernel(const u32* places, u64 count, const u64* entries, u64* entries_out) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        if (places[i] < places[i + 1]) entries_out[places[i]] = entries[i];
    }
}

// The words of rows that have some of them, and where these begin; the end of all comes last.
extern "C" __global__ void __launch_bounds__(THREADS)
used_rows_kernel(const u32* row_places, u64 rows, const u32* words, u32 n, const u32* offsets, const u32* places, u32* words_out,
                 u32* offsets_out) {
    for (u64 i = grid_thread(); i < rows; i += grid_threads()) {
        const u64 place = row_places[i], next = row_places[i + 1];
        if (place < next) {
            for (u32 k = 0; k < n; k++) words_out[place * n + k] = words[i * n + k];
            offsets_out[place] = places[offsets[i]];
        }
        if (i + 1 == rows) offsets_out[next] = places[offsets[rows]];
    }
}

// The largest entries of each row of a table.

struct RowLowShared {
    u32 digits[DIGITS];
    // The digits that were found, and how many entries with these are still wanted.
    u32 prefix, wanted;
};

// Finds the greatest digit that, with all greater ones, has at least `wanted` entries. A warp does so together; the row has
// that many entries.
__device__ __forceinline__ void find_digit(RowLowShared& shared) {
    constexpr u32 EACH = DIGITS / WARP_THREADS;
    const u32 highest = DIGITS - 1 - lane_index() * EACH;
    u32 own = 0;
    for (u32 i = 0; i < EACH; i++) own += shared.digits[highest - i];
    const u32 through = warp_inclusive_sum(own);
    const u32 wanted = shared.wanted, prefix = shared.prefix;
    // All lanes have read them before one writes.
    __syncwarp();
    const u32 finder = __ffs(__ballot_sync(FULL_WARP, through >= wanted)) - 1;
    if (lane_index() != finder) return;
    u32 above = through - own, digit = highest;
    while (above + shared.digits[digit] < wanted) above += shared.digits[digit--];
    shared.prefix = prefix << TOP_DIGIT_BITS | digit;
    shared.wanted = wanted - above;
}

// lows[row] = the least of the `limit` largest counts of a row, 0 if it has no more of them; lengths[row] = how many entries have
// that count or a larger one. A block a row.
extern "C" __global__ void __launch_bounds__(THREADS)
row_lows_kernel(const u32* offsets, const u64* entries, u32 limit, u32* lows, u32* lengths) {
    SHARED(RowLowShared, shared);
    const u32 row = blockIdx.x;
    const u32 first = offsets[row], end = offsets[row + 1];
    if (end - first <= limit) {
        if (threadIdx.x == 0) {
            lows[row] = 0;
            lengths[row] = end - first;
        }
        return;
    }
    if (threadIdx.x == 0) {
        shared.prefix = 0;
        shared.wanted = limit;
    }
    for (i32 shift = TOP_HIGHEST_SHIFT; shift >= 0; shift -= TOP_DIGIT_BITS) {
        for (u32 i = threadIdx.x; i < DIGITS; i += THREADS) shared.digits[i] = 0;
        __syncthreads();
        const u32 prefix = shared.prefix;
        for (u32 i = first + threadIdx.x; i < end; i += THREADS) {
            const u64 count = u32(entries[i]);
            if (count >> (shift + TOP_DIGIT_BITS) == prefix) atomicAdd(&shared.digits[(count >> shift) & (DIGITS - 1)], 1u);
        }
        __syncthreads();
        if (warp_index() == 0) find_digit(shared);
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        lows[row] = shared.prefix;
        lengths[row] = limit - shared.wanted + shared.digits[shared.prefix & (DIGITS - 1)];
    }
}

struct RowTopShared {
    BlockSum<u32> sum;
};

// The entries of each row with a count of lows[row] or more, in order. A block a row.
extern "C" __global__ void __launch_bounds__(THREADS)
row_tops_kernel(const u32* offsets, const u64* entries, const u32* lows, const u32* offsets_out, u64* out) {
    SHARED(RowTopShared, shared);
    const u32 row = blockIdx.x;
    const u32 first = offsets[row], end = offsets[row + 1], low = lows[row];
    u32 place = offsets_out[row];
    for (u32 start = first; start < end; start += THREADS) {
        const u32 i = start + threadIdx.x;
        const u64 entry = i < end ? entries[i] : 0;
        const bool is_kept = i < end && u32(entry) >= low;
        u32 kept;
        const u32 before = block_exclusive_sum(u32(is_kept), shared.sum, kept);
        if (is_kept) out[place + before] = entry;
        place += kept;
    }
}
