// prune.cu: rules that do not pay are replaced by their bodies.
// In     pairs     [rules]  u64   rule r stands for two symbols, the left one in the upper half; both are terminals or
//                                 rules of earlier rounds
//        sequence  [length] u32   symbols of the files, SEPARATOR behind each file
// Out    shapes    [rules]  u64   length of the body, height and whether the rule stays
//        order     rules by level; symbols of their bodies; roots of the files
// Work   two reads of pairs and sequence with a look-up of 8 bytes for each symbol; a search for each symbol written
// Map    a thread for a rule, a position or a symbol that is written; rules of a round wait for those of the rounds before
// Exact  uses are sums of atomics, of which only 0, 1, 2 and more count; positions are sums
// Why    a body is found from its pair by walking down by lengths, for each symbol by itself: bodies of any length and
//        depth cost the same
#include "levels.cuh"

constexpr u32 THREADS = PRUNE_THREADS;
constexpr u32 TILE = PRUNE_TILE;
constexpr u32 ITEMS = TILE / THREADS;
// Symbols of bodies and roots that a block writes.
constexpr u32 WRITE_TILE = PRUNE_WRITE_TILE;
constexpr u32 SEPARATOR = ~0u;
constexpr u32 USES_MAX = 3;

// The shape of a rule: how many symbols its body has, one more than twice its height if it stays, else twice that. A
// rule that is inlined has the height that it would have.
__device__ __forceinline__ u32 shape_length(u64 shape) { return u32(shape); }
__device__ __forceinline__ bool shape_stays(u64 shape) { return (shape >> 32) & 1; }
__device__ __forceinline__ u32 shape_height(u64 shape) { return u32(shape >> 33); }

// Which rules stay.

__device__ __forceinline__ void count_use(u32 symbol, u32 terminal_count, u32* uses) {
    if (symbol < terminal_count || symbol == SEPARATOR) return;
    u32* use = &uses[symbol - terminal_count];
    if (load_stale(use) < USES_MAX) atomicAdd(use, 1u);
}

// uses[rule] += how often the rule is in `symbols`, up to USES_MAX or some more.
extern "C" __global__ void __launch_bounds__(THREADS)
uses_kernel(const u32* symbols, u64 count, u32 terminal_count, u32* uses) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) count_use(symbols[i], terminal_count, uses);
}

// The shape of a rule, when those of earlier rounds are known.
__device__ __forceinline__ u64 shape_of(u64 pair, u64 use, u32 terminal_count, const u64* shapes) {
    u32 length = 0, height = 1;
#pragma unroll
    for (u32 side = 0; side < 2; side++) {
        const u32 symbol = side == 0 ? u32(pair >> 32) : u32(pair);
        if (symbol < terminal_count) {
            length++;
            continue;
        }
        const u64 shape = load_relaxed(&shapes[symbol - terminal_count]);
        length += shape_stays(shape) ? 1 : shape_length(shape);
        height = max(height, shape_height(shape) + (shape_stays(shape) ? 1 : 0));
    }
    const bool stays = use * length > use + length;
    return u64(height << 1 | u32(stays)) << 32 | length;
}

// The shapes of all rules; a step of the walk has those of a round.
extern "C" __global__ void __launch_bounds__(THREADS)
shape_kernel(const u64* pairs, const u32* uses, u32 terminal_count, u64* shapes, const u32* first_pieces,
             const u32* first_steps, const u32* ranges, u32 phases, u32* state) {
    SHARED(WalkShared, shared);
    const Walk walk{first_pieces, first_steps, ranges, phases, state};
    Place place = walk_begin(walk, shared);
    while (walk_next(walk, shared, place)) {
        for (u32 step = place.step; step < place.step_end; step++) {
            u32 first, end;
            walk_items(walk, place, step, first, end);
            if (step > place.step) {
                __syncthreads();
            } else {
                walk_wait(walk, place);
            }
            for (u32 rule = first + threadIdx.x; rule < end; rule += THREADS) {
                store_relaxed(&shapes[rule], shape_of(pairs[rule], uses[rule], terminal_count, shapes));
            }
        }
        walk_done(walk, 1);
    }
}

// Levels.

// levels[rule] = its level, or 0 if it is inlined. order[rule] = rule.
extern "C" __global__ void __launch_bounds__(THREADS)
level_kernel(const u64* shapes, u32 rules, u32* levels, u32* order) {
    for (u64 rule = grid_thread(); rule < rules; rule += grid_threads()) {
        const u64 shape = shapes[rule];
        levels[rule] = shape_stays(shape) ? shape_height(shape) : 0;
        order[rule] = u32(rule);
    }
}

// Of rules in the order of their levels: starts[level] = the first that is not lower, for levels up to level_max; and
// the lengths of the bodies of those that stay.
extern "C" __global__ void __launch_bounds__(THREADS)
level_start_kernel(const u64* shapes, const u32* levels, const u32* order, u32 rules, u32 level_max, u32* starts,
                   u32* lengths) {
    for (u64 i = grid_thread(); i < rules; i += grid_threads()) {
        const u64 shape = shapes[order[i]];
        lengths[i] = shape_stays(shape) ? shape_length(shape) : 0;
        const u32 level = levels[i];
        const u32 before = i > 0 ? levels[i - 1] + 1 : 0;
        for (u32 next = before; next <= level; next++) starts[next] = u32(i);
        if (i + 1 == rules) {
            for (u32 next = level + 1; next <= level_max; next++) starts[next] = rules;
        }
    }
}

// Behind the starts of levels puts offsets[starts[level]] for each, and then how many symbols roots have: what stands
// behind those of the last position.
extern "C" __global__ void __launch_bounds__(THREADS)
level_offset_kernel(u32* starts, const u32* offsets, u32 level_max, const u32* position_offsets, u32 length) {
    const u32 levels = level_max + 1;
    for (u64 level = grid_thread(); level < levels; level += grid_threads()) {
        starts[levels + level] = offsets[starts[level]];
    }
    if (grid_thread() == 0) starts[2 * levels] = length > 0 ? position_offsets[length] : 0;
}

// Bodies and roots.

struct RootShared {
    BlockSum<u64> sum;
    u64 before;
    u32 tile;
};

// Separators in the upper part, symbols in the lower.
constexpr u32 FILES_SHIFT = 31;

// offsets[position] = where its symbols begin in the root, and [length] their number. root_offsets[files + 1].
extern "C" __global__ void __launch_bounds__(THREADS)
root_offset_kernel(const u32* sequence, u32 length, u32 terminal_count, const u64* shapes, u32* offsets,
                   u32* root_offsets, u64* words, u32* ticket) {
    SHARED(RootShared, shared);
    const u32 tile = next_tile(ticket, shared.tile);
    const u32 warp_first = tile * TILE + warp_index() * ITEMS * WARP_THREADS + lane_index();
    u64 items[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 p = warp_first + i * WARP_THREADS;
        u64 item = 0;
        if (p < length) {
            const u32 symbol = sequence[p];
            item = 1;
            if (symbol == SEPARATOR) {
                item = u64(1) << FILES_SHIFT;
            } else if (symbol >= terminal_count) {
                const u64 shape = shapes[symbol - terminal_count];
                if (!shape_stays(shape)) item = shape_length(shape);
            }
        }
        items[i] = item;
    }
    // A warp has consecutive positions, row by row.
    u64 sums[ITEMS];
    u64 warp_total = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u64 sum = warp_inclusive_sum(items[i]);
        sums[i] = warp_total + sum - items[i];
        warp_total += __shfl_sync(FULL_WARP, sum, WARP_THREADS - 1);
    }
    u64 total;
    u64 before = block_exclusive_sum(lane_index() == WARP_THREADS - 1 ? warp_total : 0, shared.sum, total);
    before = __shfl_sync(FULL_WARP, before, 0);
    before += block_look_back(words, tile, total, shared.before);
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 p = warp_first + i * WARP_THREADS;
        const u64 sum = before + sums[i];
        const u32 offset = u32(sum) & ((1u << FILES_SHIFT) - 1);
        if (p < length) {
            offsets[p] = offset;
            if (items[i] >> FILES_SHIFT) root_offsets[(sum >> FILES_SHIFT) + 1] = offset;
            // The last position is a separator, without symbols.
            if (p + 1 == length) offsets[length] = offset;
        }
    }
    if (grid_thread() == 0) root_offsets[0] = 0;
}

// The symbol at an offset in what stands for `symbol`.
__device__ __forceinline__ u32 symbol_at(u32 symbol, u32 offset, const u64* pairs, const u64* shapes,
                                         u32 terminal_count) {
    while (symbol >= terminal_count) {
        const u64 shape = shapes[symbol - terminal_count];
        if (shape_stays(shape)) break;
        const u64 pair = pairs[symbol - terminal_count];
        symbol = u32(pair >> 32);
        u32 length = 1;
        if (symbol >= terminal_count) {
            const u64 left = shapes[symbol - terminal_count];
            if (!shape_stays(left)) length = shape_length(left);
        }
        if (offset >= length) {
            offset -= length;
            symbol = u32(pair);
        }
    }
    return symbol;
}

struct OwnerShared {
    u32 first;
    u32 end;
};

// The bodies of the rules of `order`, of which the i-th begins at offsets[i].
extern "C" __global__ void __launch_bounds__(THREADS)
bodies_kernel(const u64* pairs, const u64* shapes, u32 terminal_count, const u32* order, const u32* offsets, u32 rules,
              u32* symbols, u32 count) {
    SHARED(OwnerShared, shared);
    const u32 first = blockIdx.x * WRITE_TILE;
    const u32 end = min(count - first, WRITE_TILE) + first;
    find_block_owners(offsets, rules, first, end, shared.first, shared.end);
    __syncthreads();
    for (u32 i = first + threadIdx.x; i < end; i += THREADS) {
        const u32 owner = u32(owner_of(offsets, shared.first, shared.end, i));
        const u64 pair = pairs[order[owner]];
        u32 symbol = u32(pair >> 32), offset = i - offsets[owner];
        u32 length = 1;
        if (symbol >= terminal_count) {
            const u64 left = shapes[symbol - terminal_count];
            if (!shape_stays(left)) length = shape_length(left);
        }
        if (offset >= length) {
            offset -= length;
            symbol = u32(pair);
        }
        symbols[i] = symbol_at(symbol, offset, pairs, shapes, terminal_count);
    }
}

// The root: what stands for each position of the sequence, the rules by their new symbols.
extern "C" __global__ void __launch_bounds__(THREADS)
root_kernel(const u32* sequence, u32 length, const u64* pairs, const u64* shapes, u32 terminal_count,
            const u32* offsets, const u32* ids, u32* root, u32 count) {
    SHARED(OwnerShared, shared);
    const u32 first = blockIdx.x * WRITE_TILE;
    const u32 end = min(count - first, WRITE_TILE) + first;
    find_block_owners(offsets, length, first, end, shared.first, shared.end);
    __syncthreads();
    for (u32 i = first + threadIdx.x; i < end; i += THREADS) {
        const u32 owner = u32(owner_of(offsets, shared.first, shared.end, i));
        const u32 symbol = symbol_at(sequence[owner], i - offsets[owner], pairs, shapes, terminal_count);
        root[i] = symbol < terminal_count ? symbol : ids[symbol - terminal_count];
    }
}
