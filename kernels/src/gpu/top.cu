// top.cu: the rows that occur most often, or least.
// In     counts [rows] u32, words [rows * n] u32
// Out    how many rows have each digit of a rank; rows from a rank on, in order
// Work   a pass over the counts for each digit, and three that find the rows
// Map    a thread a row
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
