// key_tables.cu: tables of sorted keys.
// In     keys [count] u32, row << column_bits | column, sorted; perhaps a count of each
// Out    a table: offsets [rows + 1] u32, entries u64, column << 32 | count
// Work   a pass over the keys
// Map    runs of keys in tiles, by a look-back; a thread a run
// Exact  sums, places from scans
#include "primitives.cuh"

constexpr u32 THREADS = KEY_TABLES_THREADS;
constexpr u32 ITEMS = KEY_TABLES_TILE / KEY_TABLES_THREADS;
constexpr u32 WARPS = THREADS / WARP_THREADS;

// Runs above a sum in one number of a look-back: both are fewer than 2^31.
constexpr u32 RUNS_SHIFT = 31;
constexpr u64 RUN_SUM_MASK = (u64(1) << RUNS_SHIFT) - 1;

// The runs of equal keys: the key of each, and the sum of the counts of all runs before; with no counts each item is one.
// `totals` becomes the number of runs and the sum of all counts.
extern "C" __global__ void __launch_bounds__(THREADS)
key_runs_kernel(const u32* keys, const u32* counts, u64 count, u64* words, u32* ticket, u32* run_keys, u32* firsts,
                u64* totals) {
    using Shared = TileSums<u64, WARPS>;
    SHARED(Shared, shared);
    const u32 tile = only_tile(ticket, shared);
    const u64 first = u64(tile) * ITEMS * THREADS + warp_index() * ITEMS * WARP_THREADS + lane_index();
    u32 items[ITEMS], behind[ITEMS], values[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        items[i] = at < count ? keys[at] : 0;
        behind[i] = lane_index() == 0 && at > 0 && at < count ? keys[at - 1] : 0;
        values[i] = at >= count ? 0 : counts == nullptr ? 1 : counts[at];
    }
    // By row of 32 items: which are the first of a run. Values become the sums up to them.
    u32 heads[ITEMS];
    u32 runs = 0, sum = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        const u32 below = __shfl_up_sync(FULL_WARP, items[i], 1);
        const u32 previous = lane_index() == 0 ? behind[i] : below;
        heads[i] = __ballot_sync(FULL_WARP, at < count && (at == 0 || items[i] != previous));
        runs += __popc(heads[i]);
        const u32 up_to = sum + warp_inclusive_sum(values[i]);
        values[i] = up_to - values[i];
        sum = __shfl_sync(FULL_WARP, up_to, WARP_THREADS - 1);
    }
    u64 all;
    const u64 before = sum_before_warp(words, u64(runs) << RUNS_SHIFT | sum, shared, all);
    if (threadIdx.x == 0 && u64(tile + 1) * ITEMS * THREADS >= count) {
        totals[0] = all >> RUNS_SHIFT;
        totals[1] = all & RUN_SUM_MASK;
    }
    u32 place = u32(before >> RUNS_SHIFT);
    const u32 sum_before = u32(before & RUN_SUM_MASK);
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if ((heads[i] >> lane_index()) & 1) {
            const u32 to = place + __popc(heads[i] & lanes_below());
            run_keys[to] = items[i];
            firsts[to] = sum_before + values[i];
        }
        place += __popc(heads[i]);
    }
}

// From runs of keys, row << column_bits | column, of which `totals` holds the number and the sum: offsets [rows + 1] and
// entries, column << 32 | count.
extern "C" __global__ void __launch_bounds__(THREADS)
run_entries_kernel(const u32* run_keys, const u32* firsts, const u64* totals, u32 column_bits, u32 rows, u32* offsets,
                   u64* entries) {
    const u64 runs = totals[0];
    for (u64 i = grid_thread(); i <= runs; i += grid_threads()) {
        // No more than 31 bits each, so that shifts are defined.
        const u32 from = i == 0 ? 0 : (run_keys[i - 1] >> column_bits) + 1;
        const u32 to = i == runs ? rows : run_keys[i] >> column_bits;
        for (u32 row = from; row <= to; row++) offsets[row] = u32(i);
        if (i < runs) {
            const u32 sum = (i + 1 < runs ? firsts[i + 1] : u32(totals[1])) - firsts[i];
            entries[i] = u64(run_keys[i] & ((1u << column_bits) - 1)) << 32 | sum;
        }
    }
}
