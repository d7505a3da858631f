// local_tables.cu: lengths of rules, what they add up from below, and what either traversal would cost.
// In     a grammar over words; steps of its levels, from the lowest
// Out    lengths [rules] u32: words of each expansion; wrong only for rules that do not occur, as they may be absurd
// Work   8 bytes a body symbol and an atomic
// Map    a thread a body symbol of a tile; small levels share a block
// Exact  integer sums
#include "levels.cuh"

constexpr u32 THREADS = LOCAL_THREADS;
constexpr u32 TILE = LOCAL_TILE;
constexpr u32 ITEMS = TILE / THREADS;

struct LengthsShared {
    WalkShared walk;
};

// lengths[owner] += length of each body symbol; 0 on entry.
extern "C" __global__ void __launch_bounds__(THREADS)
lengths_kernel(const u32* symbols, const u32* owners, u32 terminals, u32* lengths, const u32* first_pieces,
               const u32* first_steps, const u32* ranges, u32 phases, u32* state) {
    SHARED(LengthsShared, shared);
    const Walk walk{first_pieces, first_steps, ranges, phases, state};
    Place place = walk_begin(walk, shared.walk);
    while (walk_next(walk, shared.walk, place)) {
        bool has_waited = false;
        for (u32 step = place.step; step < place.step_end; step++) {
            u32 first, end;
            walk_items(walk, place, step, first, end);
            if (step > place.step) __syncthreads();
            for (; first < end; first += TILE) {
                u32 symbol[ITEMS], owner[ITEMS];
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++) {
                    const u32 at = first + i * THREADS + threadIdx.x;
                    symbol[i] = at < end ? symbols[at] : 0;
                    owner[i] = at < end ? owners[at] : 0;
                }
                if (!has_waited) walk_wait(walk, place);
                has_waited = true;
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++) {
                    if (first + i * THREADS + threadIdx.x < end) {
                        const u32 more = symbol[i] < terminals ? 1 : load_relaxed(&lengths[symbol[i] - terminals]);
                        atomicAdd(&lengths[owner[i]], more);
                    }
                }
            }
        }
        walk_done(walk, 1);
    }
}

// Rows are files, then rules. counts[row] = symbols of its root or body, if it occurs.
extern "C" __global__ void __launch_bounds__(THREADS)
row_uses_kernel(const u32* root_offsets, u32 files, const u32* rule_offsets, u32 rules, const u32* rule_weights,
                u32* counts) {
    for (u64 row = grid_thread(); row < u64(files) + rules; row += grid_threads()) {
        if (row < files) {
            counts[row] = root_offsets[row + 1] - root_offsets[row];
        } else {
            const u64 rule = row - files;
            counts[row] = rule_weights[rule] > 0 ? rule_offsets[rule + 1] - rule_offsets[rule] : 0;
        }
    }
}

// The roots, and behind them the bodies of rules that occur.
extern "C" __global__ void __launch_bounds__(THREADS)
row_holders_kernel(const u32* root, u32 root_count, const u32* symbols, const u32* owners, u32 symbol_count,
                   const u32* rule_offsets, const u32* rule_weights, const u32* use_offsets, u32 files, u32* holders) {
    const u64 count = u64(root_count) + symbol_count;
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        if (i < root_count) {
            holders[i] = root[i];
        } else {
            const u64 at = i - root_count;
            const u32 rule = owners[at];
            if (rule_weights[rule] > 0) {
                holders[use_offsets[u64(files) + rule] + (at - rule_offsets[rule])] = symbols[at];
            }
        }
    }
}

// weights[row] = words of a file, as the sum over its root; of a rule that occurs its length. 0 on entry.
extern "C" __global__ void __launch_bounds__(THREADS)
row_lengths_kernel(const u32* root, const u32* root_files, u32 root_count, u32 terminals, const u32* lengths,
                   const u32* rule_weights, u32 rules, u32 files, u32* weights) {
    const u64 count = u64(root_count) + rules;
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        if (i < root_count) {
            const u32 symbol = root[i];
            atomicAdd(&weights[root_files[i]], symbol < terminals ? 1 : lengths[symbol - terminals]);
        } else {
            const u64 rule = i - root_count;
            weights[files + rule] = rule_weights[rule] > 0 ? lengths[rule] : 0;
        }
    }
}

struct CostsShared {
    BlockSum<u64> sum;
};

// costs[0] += entries that lists of files add up, costs[1] += entries that tables of words add up, costs[2] += counters
// that tables of more than a window need. Rows are files, then rules; their weights say how many words they have.
extern "C" __global__ void __launch_bounds__(THREADS)
traversal_costs_kernel(const u32* root, u32 root_count, const u32* symbols, const u32* owners, u32 symbol_count,
                       u32 terminals, const u32* rule_weights, const u32* lengths, u32 files, const u32* row_weights,
                       u32 rows, u32 window, u64* costs) {
    SHARED(CostsShared, shared);
    u64 down = 0, up = 0, counters = 0;
    const u64 places = u64(root_count) + symbol_count;
    for (u64 i = grid_thread(); i < places + rows; i += grid_threads()) {
        if (i < places) {
            const bool is_root = i < root_count;
            const u32 symbol = is_root ? root[i] : symbols[i - root_count];
            const u32 weight = is_root ? 1 : rule_weights[owners[i - root_count]];
            down += min(files, weight);
            if (weight > 0) up += symbol < terminals ? 1 : min(terminals, lengths[symbol - terminals]);
        } else if (row_weights[i - places] > window) {
            counters += terminals;
        }
    }
    u64 total;
    block_exclusive_sum(down, shared.sum, total);
    if (threadIdx.x == 0) atomicAdd(&costs[0], total);
    block_exclusive_sum(up, shared.sum, total);
    if (threadIdx.x == 0) atomicAdd(&costs[1], total);
    block_exclusive_sum(counters, shared.sum, total);
    if (threadIdx.x == 0) atomicAdd(&costs[2], total);
}
