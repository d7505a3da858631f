// phrases.cu: one n-gram: how often it occurs, and where.
// In     a grammar over words whose rules have words, and how often each rule occurs; the ends of rules, as windows.cu makes
//        them, for n - 1 words; the words of the n-gram, at least 2. For places also lengths and starts in words, and uses
// Out    how often it occurs; places [occurrences] u64: words before it in the segment, in any order
// Work   a pass over bodies and roots that reads the last words of each symbol; for places the same again, and then a step
//        upward a level, in time of the uses of what holds it
// Map    a thread a symbol of a body or root, then a use
// Exact  an occurrence crosses symbols in one body or root only, so each is found once; only sums, and places that are sorted
#include "primitives.cuh"

constexpr u32 THREADS = PHRASE_THREADS;

// Uses of a block.
constexpr u32 TILE = PHRASE_TILE;

// The words of an n-gram, and how many there are; phrases.rs has the same in this order.
struct Phrase {
    u32 words[PHRASE_WORDS_MAX];
    u32 n;
};

// All bodies, or all roots, one after the other: the rule or file of each symbol, and where each of those ends.
struct Sequences {
    const u32* symbols;
    u64 count;
    const u32* owners;
    const u32* ends_of;
    u32 is_root;
};

// First and last words of rules.
struct Ends {
    const u32* words;
    u32 terminals;
    // Words of an end of a rule: its head or its tail.
    u32 half;
};

// The words of an end of a rule: 0 for its first ones, 1 for its last ones.
__device__ __forceinline__ const u32* end_of(const Ends& ends, u32 symbol, u32 which) {
    return ends.words + (u64(symbol - ends.terminals) * 2 + which) * ends.half;
}

// Whether a symbol ends with the first `have` words of the phrase.
__device__ __forceinline__ bool ends_with(const Phrase& phrase, const Ends& ends, u32 symbol, u32 have) {
    if (symbol < ends.terminals) return have == 1 && symbol == phrase.words[0];
    // Right-aligned in n - 1 words; no word of the phrase is where there is none.
    const u32* tail = end_of(ends, symbol, 1) + (phrase.n - 1 - have);
    for (u32 i = 0; i < have; i++) {
        if (tail[i] != phrase.words[i]) return false;
    }
    return true;
}

// Whether the words of the phrase from `have` on follow in symbols at .. end.
__device__ __forceinline__ bool goes_on(const Phrase& phrase, const Ends& ends, const u32* symbols, u32 at, u32 end,
                                        u32 have) {
    for (; at < end && have < phrase.n; at++) {
        const u32 symbol = symbols[at];
        if (symbol < ends.terminals) {
            if (symbol != phrase.words[have++]) return false;
            continue;
        }
        const u32* head = end_of(ends, symbol, 0);
        // Fewer than n words are left, and a rule with fewer than n - 1 words has a complete head.
        for (u32 i = 0; i + 1 < phrase.n && head[i] != ~0u && have < phrase.n; i++) {
            if (head[i] != phrase.words[have++]) return false;
        }
    }
    return have == phrase.n;
}

// How often the owner of a symbol occurs.
__device__ __forceinline__ u32 weight_at(const Sequences& all, const u32* rule_weights, u64 at) {
    return all.is_root ? 1 : rule_weights[all.owners[at]];
}

// Whether an occurrence begins with the last `have` words of symbol `at`.
__device__ __forceinline__ bool begins_at(const Phrase& phrase, const Ends& ends, const Sequences& all, u64 at, u32 have) {
    if (!ends_with(phrase, ends, all.symbols[at], have)) return false;
    return goes_on(phrase, ends, all.symbols, u32(at) + 1, all.ends_of[all.owners[at]], have);
}

extern "C" __global__ void __launch_bounds__(THREADS)
count_phrase_kernel(Phrase phrase, const u32* end_words, u32 terminals, u32 half, const u32* symbols, u64 count,
                    const u32* owners, const u32* ends_of, u32 is_root, const u32* rule_weights, u64* occurrences) {
    const Sequences all{symbols, count, owners, ends_of, is_root};
    const Ends ends{end_words, terminals, half};
    u64 sum = 0;
    for (u64 at = grid_thread(); at < count; at += grid_threads()) {
        for (u32 have = 1; have < phrase.n; have++) {
            if (begins_at(phrase, ends, all, at, have)) sum += weight_at(all, rule_weights, at);
        }
    }
    sum = warp_sum(sum);
    if (lane_index() == 0 && sum > 0) atomicAdd(occurrences, sum);
}

// Where rules hold the phrase, as items: the rule, and words before it there; in roots places. made = [items, places].
extern "C" __global__ void __launch_bounds__(THREADS)
phrase_crossings_kernel(Phrase phrase, const u32* end_words, u32 terminals, u32 half, const u32* symbols, u64 count,
                        const u32* owners, const u32* ends_of, u32 is_root, const u32* rule_weights,
                        const u64* lengths, const u64* starts, u32* item_symbols, u64* item_offsets, u64* places,
                        u32 made_max, u32* made) {
    const Sequences all{symbols, count, owners, ends_of, is_root};
    const Ends ends{end_words, terminals, half};
    for (u64 at = grid_thread(); at < count; at += grid_threads()) {
        for (u32 have = 1; have < phrase.n; have++) {
            if (!begins_at(phrase, ends, all, at, have) || weight_at(all, rule_weights, at) == 0) continue;
            const u64 offset = starts[at] + lengths[symbols[at]] - have;
            const u32 out = atomicAdd(&made[is_root], 1u);
            if (out >= made_max) continue;
            if (is_root) {
                places[out] = offset;
            } else {
                item_symbols[out] = terminals + owners[at];
                item_offsets[out] = offset;
            }
        }
    }
}

// sizes[i] = uses of the symbol of item i, in bodies and roots.
extern "C" __global__ void __launch_bounds__(THREADS)
phrase_uses_kernel(const u32* item_symbols, u64 count, const u32* place_offsets, const u32* position_offsets, u32* sizes) {
    const u64 item = grid_thread();
    if (item >= count) return;
    const u32 symbol = item_symbols[item];
    sizes[item] = place_offsets[symbol + 1] - place_offsets[symbol] + position_offsets[symbol + 1] -
                  position_offsets[symbol];
}

struct StepShared {
    u64 first;
    u64 end;
};

// One step upward: each use in a body becomes an item, each in a root a place. made = [items, places], of which no
// more are written than there is room for.
extern "C" __global__ void __launch_bounds__(THREADS)
phrase_step_kernel(const u32* item_symbols, const u64* item_offsets, const u64* uses, u64 item_count, u32 terminals,
                   const u32* place_offsets, const u32* body_places, const u32* body_rules, const u64* body_starts,
                   const u32* position_offsets, const u32* positions, const u64* root_starts, const u32* rule_weights,
                   u32* symbols_out, u64* offsets_out, u64* places, u32 made_max, u32* made) {
    SHARED(StepShared, shared);
    const u64 count = uses[item_count];
    const u64 tile_first = u64(blockIdx.x) * TILE;
    const u64 tile_end = min(tile_first + TILE, count);
    if (threadIdx.x == 0) shared.first = owner_of(uses, 0, item_count, tile_first);
    if (threadIdx.x == WARP_THREADS) shared.end = owner_of(uses, 0, item_count, tile_end - 1) + 1;
    __syncthreads();
    for (u64 use = tile_first + threadIdx.x; use < tile_end; use += THREADS) {
        const u64 item = owner_of(uses, shared.first, shared.end, use);
        const u32 index = u32(use - uses[item]);
        const u32 symbol = item_symbols[item];
        const u32 first_place = place_offsets[symbol];
        const u32 place_count = place_offsets[symbol + 1] - first_place;
        if (index >= place_count) {
            const u32 position = positions[position_offsets[symbol] + index - place_count];
            const u32 out = atomicAdd(&made[1], 1u);
            if (out < made_max) places[out] = root_starts[position] + item_offsets[item];
            continue;
        }
        const u32 at = body_places[first_place + index];
        const u32 rule = body_rules[at];
        // What does not occur leads nowhere, and there is no room for it.
        if (rule_weights[rule] == 0) continue;
        const u32 out = atomicAdd(&made[0], 1u);
        if (out >= made_max) continue;
        symbols_out[out] = terminals + rule;
        offsets_out[out] = body_starts[at] + item_offsets[item];
    }
}
