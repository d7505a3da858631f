// renumber.cu: rules by level, inside a level by body; equal bodies become one rule.
// In     bodies     [symbols] u32  with old symbols, the rules' in the order of their levels
//        offsets    [rules + 1] u32  body i is bodies[offsets[i] .. offsets[i + 1]], of the old rule order[i]
// Out    rule_offsets, symbols: the grammar; ids: by old rule its new symbol
// Work   a body is read three times and written twice; sorting reads and writes 24 bytes a rule and pass
// Map    a thread for a symbol or a rule; one launch of each kernel for a large level, one block for all small levels
//        in a row
// Exact  ranks in a sorted order; of equal bodies any one is copied
#include "primitives.cuh"

constexpr u32 THREADS = RENUMBER_THREADS;
constexpr u32 TILE = RENUMBER_TILE;
constexpr u32 ITEMS = TILE / THREADS;

// Gives the symbols first .. end of a level their new ids, and for the bodies of the rules rule_first .. rule_end makes
// what they are sorted by.
extern "C" __global__ void __launch_bounds__(THREADS)
level_bodies_kernel(const u32* bodies, u32* symbols, const u32* offsets, const u32* ids, u32 terminal_count, u32 first,
                    u32 end, u32 rule_first, u32 rule_end, u64* keys, u32* values) {
    const auto renamed = [&](u32 symbol) {
        return symbol < terminal_count ? symbol : ids[symbol - terminal_count];
    };
    for (u64 i = first + grid_thread(); i < end; i += grid_threads()) symbols[i] = renamed(bodies[i]);
    for (u64 rule = rule_first + grid_thread(); rule < rule_end; rule += grid_threads()) {
        const u32* body = bodies + offsets[rule];
        keys[rule - rule_first] = u64(renamed(body[0])) << 32 | renamed(body[1]);
        values[rule - rule_first] = u32(rule);
    }
}

// Rules in the upper part, symbols in the lower: how many there are before something.
constexpr u32 RULES_SHIFT = 31;
constexpr u64 SYMBOLS_MASK = (u64(1) << RULES_SHIFT) - 1;

struct RankShared {
    BlockSum<u64> sum;
    u64 before;
    u32 tile;
};

__device__ __forceinline__ bool is_equal_body(const u32* symbols, const u32* offsets, u32 a, u32 b) {
    const u32 a_first = offsets[a], b_first = offsets[b];
    const u32 length = offsets[a + 1] - a_first;
    if (offsets[b + 1] - b_first != length) return false;
    for (u32 i = 2; i < length; i++) {
        if (symbols[a_first + i] != symbols[b_first + i]) return false;
    }
    return true;
}

// Gives the sorted rules of a level their ids. `bases`: of the level before, and behind it this level's, is what there
// is of rules and symbols. sources[new rule] = which body it has.
extern "C" __global__ void __launch_bounds__(THREADS)
rank_kernel(const u64* keys, const u32* values, u32 count, const u32* symbols, const u32* offsets, const u32* order,
            u32 terminal_count, u32* ids, u32* rule_offsets, u32* sources, u64* bases, u64* words, u32* ticket) {
    SHARED(RankShared, shared);
    const u32 tile = next_tile(ticket, shared.tile);
    const u32 first = tile * TILE + threadIdx.x * ITEMS;
    u64 key = 0;
    u32 value = 0;
    if (first > 0 && first < count) {
        key = keys[first - 1];
        value = values[first - 1];
    }
    u32 own_values[ITEMS];
    u64 items[ITEMS];
    u64 sum = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 at = first + i;
        items[i] = 0;
        own_values[i] = 0;
        if (at < count) {
            const u64 key_before = key;
            const u32 value_before = value;
            key = keys[at];
            value = values[at];
            own_values[i] = value;
            if (at == 0 || key != key_before || !is_equal_body(symbols, offsets, value, value_before)) {
                items[i] = u64(1) << RULES_SHIFT | (offsets[value + 1] - offsets[value]);
            }
        }
        sum += items[i];
    }
    u64 total;
    u64 before = block_exclusive_sum(sum, shared.sum, total);
    before += block_look_back(words, tile, total, shared.before) + bases[0];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (first + i < count) {
            before += items[i];
            const u32 rule = u32(before >> RULES_SHIFT) - 1;
            if (items[i] != 0) {
                rule_offsets[rule + 1] = u32(before & SYMBOLS_MASK);
                sources[rule] = own_values[i];
            }
            ids[order[own_values[i]]] = terminal_count + rule;
            if (first + i + 1 == count) bases[1] = before;
        }
    }
}

// Small levels.

constexpr u32 SMALL = RENUMBER_SMALL;

struct SmallShared {
    BlockSort<SMALL> sort;
    BlockSum<u64> sum;
};

// The levels level_first .. level_end one after the other, of which each has at most as many rules as the block, the
// only one, has threads. Rules of level l are starts[l] .. starts[l + 1], its symbols symbol_starts[l] .. [l + 1].
extern "C" __global__ void __launch_bounds__(SMALL)
small_levels_kernel(const u32* bodies, u32* symbols, const u32* offsets, const u32* order, const u32* starts,
                    const u32* symbol_starts, u32 level_first, u32 level_end, u32 terminal_count, u32* ids,
                    u32* rule_offsets, u32* sources, u64* bases) {
    SHARED(SmallShared, shared);
    const auto renamed = [&](u32 symbol) {
        return symbol < terminal_count ? symbol : ids[symbol - terminal_count];
    };
    const u32 t = threadIdx.x;
    u64 base = bases[level_first - 1];
    for (u32 level = level_first; level < level_end; level++) {
        const u32 rule_first = starts[level];
        const u32 count = starts[level + 1] - rule_first;
        const u32 symbols_end = symbol_starts[level + 1];
        for (u32 i = symbol_starts[level] + t; i < symbols_end; i += blockDim.x) symbols[i] = renamed(bodies[i]);
        if (t < count) {
            const u32* body = bodies + offsets[rule_first + t];
            shared.sort.keys[0][t] = u64(renamed(body[0])) << 32 | renamed(body[1]);
            shared.sort.values[0][t] = rule_first + t;
        }
        __syncthreads();
        const u32 from = block_sort(shared.sort, count, Bodies{symbols, offsets});
        u64 item = 0;
        u32 value = 0;
        if (t < count) {
            value = shared.sort.values[from][t];
            const bool is_new = t == 0 || shared.sort.keys[from][t] != shared.sort.keys[from][t - 1] ||
                                !is_equal_body(symbols, offsets, value, shared.sort.values[from][t - 1]);
            if (is_new) item = u64(1) << RULES_SHIFT | (offsets[value + 1] - offsets[value]);
        }
        u64 total;
        const u64 sum = base + block_exclusive_sum(item, shared.sum, total) + item;
        if (t < count) {
            const u32 rule = u32(sum >> RULES_SHIFT) - 1;
            if (item != 0) {
                rule_offsets[rule + 1] = u32(sum & SYMBOLS_MASK);
                sources[rule] = value;
            }
            ids[order[value]] = terminal_count + rule;
        }
        base += total;
        if (t == 0) bases[level] = base;
        __syncthreads();
    }
}

// Bodies in their places.

struct CopyShared {
    u32 first;
    u32 end;
};

// Puts the bodies that are left into their places.
extern "C" __global__ void __launch_bounds__(THREADS)
copy_bodies_kernel(const u32* symbols, const u32* offsets, const u32* sources, const u32* rule_offsets, u32 rules,
                   u32* symbols_out, u32 count) {
    SHARED(CopyShared, shared);
    const u32 first = blockIdx.x * TILE;
    const u32 end = min(count - first, TILE) + first;
    find_block_owners(rule_offsets, rules, first, end, shared.first, shared.end);
    __syncthreads();
    for (u32 i = first + threadIdx.x; i < end; i += THREADS) {
        const u32 rule = u32(owner_of(rule_offsets, shared.first, shared.end, i));
        symbols_out[i] = symbols[offsets[sources[rule]] + i - rule_offsets[rule]];
    }
}
