// fan_in.cu: how often each symbol occurs in the expansion of the root, or of the root of each file: each symbol pulls its
// weight from the rules that hold it, all levels in one launch without a barrier between them.
// In     counts  [symbols * columns] u32: how often each symbol occurs in the root, or in that of each file
//        inputs  [items] u32: rules that hold a symbol, once for each time; COUNTED ones give their count only
//        firsts [chunks + 1], chunk_symbols [chunks], chunk_offsets and slots [symbols + 1]: see FanIn
// Out    weights [symbols * columns] u32: occurrences in each column; sums wrap
// State  values  [rules * columns] u64: launch << 32 | weight; sums [slots * columns] u64, 0 between launches
//        state   [3] u32: the next tile and how many blocks have ended, 0 between launches; the number of the launch
// Work   O(items * columns): 4 bytes an item and a value for it, 8 a chunk, counts read and weights written
// Map    a group of 2^shift lanes has a chunk, up to ITEMS inputs of one symbol: a lane a column. Chunks come in order of
//        levels, the highest first, so that a block that waits for a value waits for blocks that have begun
// Exact  integer sums
// Why    a value says itself whether it is there: a level costs a store and a load, where a barrier costs two trips of a flag
//        more; and words that thousands of bodies hold do not meet in one counter. scap_xml1 (H200): 25 us in place of 50
// Source "A Synchronization-Free Algorithm for Parallel Sparse Triangular Solves", Liu et al., Euro-Par 2016
#include "primitives.cuh"

constexpr u32 THREADS = FAN_IN_THREADS;
constexpr u32 ITEMS = FAN_IN_ITEMS;
constexpr u32 COUNTED = FAN_IN_COUNTED;
// Bits of the number of chunks, below the sum, in a sum of chunks.
constexpr u32 SUM_SHIFT = 30;
constexpr u64 SUM_CHUNKS = (u64(1) << SUM_SHIFT) - 1;

// keys[i] = the row of symbol i of the bodies: rows are symbols in descending order. A rule of the same group gives its count
// only; `groups` has the first rule of each, and the end of the last.
extern "C" __global__ void __launch_bounds__(THREADS)
fan_in_keys_kernel(const u32* symbols, const u32* owners, u64 items, u32 terminals, u32 last, const u32* groups,
                   u32 group_count, u32* keys, u32* inputs) {
    for (u64 i = grid_thread(); i < items; i += grid_threads()) {
        const u32 symbol = symbols[i];
        const u32 owner = owners[i];
        keys[i] = last - symbol;
        bool is_counted = false;
        if (group_count > 0 && symbol >= terminals && symbol - terminals >= groups[0]) {
            is_counted = owner < groups[owner_of(groups, 0, group_count, symbol - terminals) + 1];
        }
        inputs[i] = is_counted ? owner | COUNTED : owner;
    }
}

// How many chunks a row has, at least one, and whether it has several.
extern "C" __global__ void __launch_bounds__(THREADS)
fan_in_rows_kernel(const u32* offsets, u32 rows, u32* chunks, u32* several) {
    for (u64 row = grid_thread(); row < rows; row += grid_threads()) {
        const u32 items = offsets[row + 1] - offsets[row];
        const u32 count = items <= ITEMS ? 1 : (items - 1) / ITEMS + 1;
        chunks[row] = count;
        several[row] = count > 1;
    }
}

// The first item of each chunk, and behind them the end; and the symbol of each.
extern "C" __global__ void __launch_bounds__(THREADS)
fan_in_chunks_kernel(const u32* offsets, const u32* chunk_offsets, const u32* rows, u32 chunks, u32 last, u32 items,
                     u32* firsts, u32* chunk_symbols) {
    for (u64 chunk = grid_thread(); chunk <= chunks; chunk += grid_threads()) {
        if (chunk == chunks) {
            firsts[chunk] = items;
            continue;
        }
        const u32 row = rows[chunk];
        firsts[chunk] = offsets[row] + (u32(chunk) - chunk_offsets[row]) * ITEMS;
        chunk_symbols[chunk] = last - row;
    }
}

struct PullShared {
    u32 tile;
};

extern "C" __global__ void __launch_bounds__(THREADS)
pull_weights_kernel(const u32* counts, const u32* inputs, const u32* firsts, const u32* chunk_symbols,
                    const u32* chunk_offsets, const u32* slots, u32 chunks, u32 terminals, u32 last, u32 columns, u32 shift,
                    u64* values, u64* sums, u32* state, u32* weights) {
    SHARED(PullShared, shared);
    const u32 launch = load_relaxed(&state[2]);
    const u32 group = 1u << shift;
    const u32 column = threadIdx.x & (group - 1);
    const u32 tile_chunks = THREADS >> shift;
    if (threadIdx.x == 0) shared.tile = atomicAdd(&state[0], 1u);
    __syncthreads();
    while (u64(shared.tile) * tile_chunks < chunks) {
        const u32 chunk = shared.tile * tile_chunks + (threadIdx.x >> shift);
        // The next one is asked for before this one waits.
        u32 next_tile = 0;
        if (threadIdx.x == 0) next_tile = atomicAdd(&state[0], 1u);
        const bool is_item = chunk < chunks && column < columns;
        u32 symbol = ~0u, items = 0, begun = 0, slot = 0, row_chunks = 1;
        u32 at[ITEMS];
        if (is_item) {
            symbol = chunk_symbols[chunk];
            const u32 first = firsts[chunk];
            items = firsts[chunk + 1] - first;
            const u32 row = last - symbol;
            slot = slots[row];
            if (slots[row + 1] != slot) row_chunks = chunk_offsets[row + 1] - chunk_offsets[row];
            begun = counts[u64(symbol) * columns + column];
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) at[i] = i < items ? inputs[first + i] : 0;
        }
        const bool is_word = symbol < terminals;
        const u64 sum_at = u64(slot) * columns + column;
        u32 sum = 0;
        u32 waits = (1u << items) - 1;
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            if ((waits >> i & 1) && (at[i] & COUNTED)) {
                sum += counts[(u64(terminals) + (at[i] & ~COUNTED)) * columns + column];
                waits &= ~(1u << i);
            }
        }
        // Lanes of a warp may wait for each other, so that each stores as soon as it can.
        bool is_open = is_item;
        while (__any_sync(FULL_WARP, is_open)) {
            u64 value[ITEMS];
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) {
                value[i] = waits >> i & 1 ? load_relaxed(&values[u64(at[i]) * columns + column]) : 0;
            }
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) {
                if ((waits >> i & 1) && u32(value[i] >> 32) == launch) {
                    sum += u32(value[i]);
                    waits &= ~(1u << i);
                }
            }
            if (is_open && waits == 0) {
                is_open = false;
                bool is_whole = row_chunks == 1;
                if (!is_whole && !is_word) {
                    const u64 own = u64(sum) << SUM_SHIFT | 1;
                    const u64 all = atomicAdd(&sums[sum_at], own) + own;
                    is_whole = u32(all & SUM_CHUNKS) == row_chunks;
                    if (is_whole) store_relaxed(&sums[sum_at], 0);
                    sum = u32(all >> SUM_SHIFT);
                }
                if (is_whole) {
                    sum += begun;
                    if (!is_word) {
                        store_relaxed(&values[u64(symbol - terminals) * columns + column], u64(launch) << 32 | sum);
                    }
                    weights[u64(symbol) * columns + column] = sum;
                }
            }
            if (is_open) poll_wait();
        }
        // Words have no users that wait: the chunks of one in this warp are summed before they
        // reach the shared counter.
        const bool is_part = is_word && row_chunks > 1;
        if (__any_sync(FULL_WARP, is_part)) {
            u64 own = is_part ? u64(sum) << SUM_SHIFT | 1 : 0;
            for (u32 distance = group; distance < WARP_THREADS; distance *= 2) {
                const u64 below = __shfl_up_sync(FULL_WARP, own, distance);
                const u32 of = __shfl_up_sync(FULL_WARP, symbol, distance);
                if (lane_index() >= distance && of == symbol) own += below;
            }
            const u32 after = __shfl_down_sync(FULL_WARP, symbol, group);
            if (is_part && (lane_index() + group >= WARP_THREADS || after != symbol)) {
                const u64 all = atomicAdd(&sums[sum_at], own) + own;
                if (u32(all & SUM_CHUNKS) == row_chunks) {
                    store_relaxed(&sums[sum_at], 0);
                    weights[u64(symbol) * columns + column] = begun + u32(all >> SUM_SHIFT);
                }
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) shared.tile = next_tile;
        __syncthreads();
    }
    // The last block makes the state ready for the next launch.
    if (threadIdx.x == 0 && atomicAdd(&state[1], 1u) + 1 == gridDim.x) {
        store_relaxed(&state[0], 0);
        store_relaxed(&state[1], 0);
        store_relaxed(&state[2], launch + 1);
    }
}
