// pair_rounds.cu: rounds that replace repeated pairs of adjacent symbols by rules; see pair_rounds.rs of the CPU.
// In     symbols   [length] u32  symbols of the files, SEPARATOR behind each file
//        numbers   [length] u32  of the pair at each position: NUMBER bits and flags, see below
//        counts    [numbers] u32 by number: candidates of the pair. keys by number: the pair
// Out    shorter symbols and numbers, counts of what is left, pairs of the new rules in ascending order
// Work   a round reads numbers twice and symbols once and writes both, 20 bytes a position; one look-up of a count for
//        each live position; three decrements and at most two look-ups in a hash
//        table for each replaced pair, fewer where pairs occur once, all summed by blocks before they are atomics;
//        12 bytes for each number, and 32 for each slot of the table, or two visits of each slot in use if few are
// Map    tiles of rows of 32 positions, a lane for a position of a row; sets of positions are words of a row
// Exact  counts are sums of atomics; which number or slot a pair has depends on the order of threads and never shows:
//        rules are named in the order of pairs
// Why    a pair that occurs once will never occur again, nor will what is made of it: its positions are dead for good,
//        and cost no look-up. Pairs keep their numbers, so only new pairs are hashed. Half of a text's positions can
//        have one of 64 pairs: with an atomic for each, webdocs4 (57 M tokens, H200) took 32 ms in place of 19. A tile says
//        its sum before it looks up new pairs, which are gathered for that: else rfc_txt's sequences take 7.6 ms, not 5.7
#include "primitives.cuh"

constexpr u32 THREADS = PAIR_THREADS;
constexpr u32 WARPS = THREADS / WARP_THREADS;

// Ends a file; it is in no pair.
constexpr u32 SEPARATOR = ~0u;

// A number: the position is at an odd offset in a run, no candidate; the number is a slot of the table of new pairs.
constexpr u32 ODD = 1u << 31;
constexpr u32 FRESH = 1u << 30;
constexpr u32 NUMBER = FRESH - 1;
// The number of a pair that occurs once, and of a position without a pair.
constexpr u32 DEAD = NUMBER;

// A slot of the table of new pairs; all bits are set at first. `count` is the count less two until the pair has a
// number, so that the thread that inserts a pair need not count it; then it is the count, and `number` DEAD if that is 1.
struct alignas(16) Entry {
    u64 key;
    u32 count;
    u32 number;
};

// State that the host and the kernels exchange.
struct State {
    // The largest count.
    u32 most;
    // Length of the sequence that was written, with separators.
    u32 length;
    // Numbers in use.
    u32 numbers;
    // Numbers of pairs of equal symbols.
    u32 equals;
    // Pairs taken at least twice in this round.
    u32 named;
    // Positions taken in this round.
    u32 taken;
    u32 depth_max;
    // The input is none.
    u32 is_wrong;
    // Slots in use in the table of new pairs.
    u32 fresh;
    // The table was too small for all pairs.
    u32 is_full;
    // The round before: its threshold, and how many symbols the files had, or 0 if there was none.
    u32 threshold;
    u32 symbols_before;
};

// What thresholds come from.
struct Parameters {
    u32 files;
    u32 alpha_numerator;
    u32 alpha_denominator;
};

struct Plan {
    // Whether there is no further round.
    bool is_over;
    u32 threshold;
};

// What the next round is to do: what the host decides too, but without waiting for it.
__device__ __forceinline__ Plan next_round(const State* state, Parameters parameters) {
    const u32 most = state->most, symbols_before = state->symbols_before;
    Plan plan{most < 2 || state->is_full != 0 || state->is_wrong != 0, state->threshold};
    if (symbols_before > 0) {
        const u64 removed = symbols_before - (state->length - parameters.files);
        plan.is_over |= plan.threshold == 2 && removed * PAIR_LAST < symbols_before;
        if (removed * PAIR_WEAK < symbols_before) plan.threshold = max(plan.threshold / 2, 2u);
    }
    const u64 denominator = parameters.alpha_denominator;
    const u64 wanted = (u64(most) * parameters.alpha_numerator + denominator - 1) / denominator;
    plan.threshold = min(plan.threshold, max(u32(min(wanted, u64(most))), 2u));
    return plan;
}

__device__ __forceinline__ u64 pair_of(u32 left, u32 right) { return u64(left) << 32 | right; }

// Where a pair is looked for first.
__device__ __forceinline__ u32 first_slot(u32 size, u64 key) { return u32(((mix(key) >> 32) * size) >> 32); }

// The slot of a pair, which is added if it is new; DEAD if that takes more than some probes.
__device__ __forceinline__ u32 entry_slot(Entry* entries, u32 size, u32 probes_max, u64 key, bool& is_new) {
    u32 slot = first_slot(size, key);
    is_new = false;
    for (u32 probe = 0; probe < probes_max; probe++) {
        // A key stays; that there is none yet is asked again.
        u64 found = load_stale(&entries[slot].key);
        if (found == NO_KEY) {
            found = atomicCAS(&entries[slot].key, NO_KEY, key);
            is_new = found == NO_KEY;
        }
        if (found == NO_KEY || found == key) return slot;
        slot = slot + 1 == size ? 0 : slot + 1;
    }
    return DEAD;
}

// Sums of a block.

constexpr u32 CACHE_BITS = PAIR_CACHE_BITS;
constexpr u32 CACHE = 1 << CACHE_BITS;
constexpr u32 NO_NUMBER = ~0u;

// What a block adds to some counts, so that a pair that is everywhere costs one atomic a block: pairs that come first
// have places here, the others are added at once. A number or, with FRESH, a slot is in one of two places.
struct CountCache {
    u32 numbers[CACHE];
    u32 sums[CACHE];
};

__device__ __forceinline__ void clear_counts(CountCache& cache) {
    for (u32 i = threadIdx.x; i < CACHE; i += THREADS) {
        cache.numbers[i] = NO_NUMBER;
        cache.sums[i] = 0;
    }
}

__device__ __forceinline__ void add_globally(u32 number, u32 sum, u32* counts, Entry* entries) {
    u32* count = number & FRESH ? &entries[number & NUMBER].count : &counts[number];
    atomicAdd(count, sum);
}

__device__ __forceinline__ void add_count(CountCache& cache, u32 number, u32 sum, u32* counts, Entry* entries) {
    const u32 place = (number * 0x9e3779b1u) >> (32 - CACHE_BITS);
#pragma unroll
    for (u32 side = 0; side < 2; side++) {
        u32* at = &cache.numbers[place ^ side];
        u32 found = load_relaxed(at);
        if (found == NO_NUMBER) found = atomicCAS(at, NO_NUMBER, number);
        if (found == NO_NUMBER || found == number) {
            atomicAdd(&cache.sums[place ^ side], sum);
            return;
        }
    }
    add_globally(number, sum, counts, entries);
}

__device__ __forceinline__ void flush_counts(const CountCache& cache, u32* counts, Entry* entries) {
    for (u32 i = threadIdx.x; i < CACHE; i += THREADS) {
        if (cache.sums[i] != 0) add_globally(cache.numbers[i], cache.sums[i], counts, entries);
    }
}

// The largest of `value` over the block becomes the largest of all if it is larger. `shared` is one word.
__device__ __forceinline__ void block_atomic_max(u32* most, u32 value, u32& shared) {
    if (threadIdx.x == 0) shared = 0;
    __syncthreads();
#pragma unroll
    for (u32 distance = WARP_THREADS / 2; distance > 0; distance /= 2) {
        value = max(value, __shfl_xor_sync(FULL_WARP, value, distance));
    }
    if (lane_index() == 0) atomicMax(&shared, value);
    __syncthreads();
    if (threadIdx.x == 0 && shared > load_relaxed(most)) atomicMax(most, shared);
}

// Separators.

constexpr u32 SEPARATE_TILE = PAIR_TILE;

struct SeparateShared {
    u32 first;
    u32 end;
};

// How many separators are before position p, if that is known to be first at least and end at most.
__device__ __forceinline__ u32 separators_before(const u32* file_offsets, u32 first, u32 end, u64 p) {
    while (first < end) {
        const u32 middle = first + (end - first) / 2;
        if (u64(file_offsets[middle + 1]) + middle < p) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

// Puts a separator behind each file.
extern "C" __global__ void __launch_bounds__(THREADS)
separate_kernel(const u32* tokens, u32 count, const u32* file_offsets, u32 files, u32 terminal_count, u32* symbols,
                State* state) {
    SHARED(SeparateShared, shared);
    const u64 first = u64(blockIdx.x) * SEPARATE_TILE;
    const u64 end = min(first + SEPARATE_TILE, u64(count) + files);
    if (threadIdx.x == 0) shared.first = separators_before(file_offsets, 0, files, first);
    if (threadIdx.x == WARP_THREADS) shared.end = separators_before(file_offsets, 0, files, end);
    __syncthreads();
    bool is_wrong = false;
    for (u64 p = first + threadIdx.x; p < end; p += THREADS) {
        const u32 file = separators_before(file_offsets, shared.first, shared.end, p);
        u32 symbol = SEPARATOR;
        if (file >= files || file_offsets[file + 1] + u64(file) != p) {
            const u64 token = p - file;
            symbol = token < count ? tokens[token] : SEPARATOR;
            is_wrong |= symbol >= terminal_count;
        }
        symbols[p] = symbol;
    }
    for (u64 file = grid_thread(); file < files; file += grid_threads()) {
        is_wrong |= file_offsets[file] > file_offsets[file + 1];
    }
    if (grid_thread() == 0) is_wrong |= file_offsets[0] != 0 || file_offsets[files] != count;
    if (is_wrong) atomicOr(&state->is_wrong, 1u);
}

// Which positions are taken.

constexpr u32 ROWS = PAIR_TILE / WARP_THREADS;
constexpr u32 WARP_ROWS = ROWS / WARPS;
// The first and the last row of a tile belong to its neighbours.
constexpr u32 OWN_ROWS = ROWS - 2;
static_assert(WARP_ROWS + 2 <= WARP_THREADS, "a lane for each row of a warp and those around");

struct SelectShared {
    // Free positions with a priority, and those of them that beat the candidate behind them.
    u32 candidates[ROWS];
    u32 greater[ROWS];
    // For each row's first position: its count if it is a candidate, or 0.
    u32 first_counts[ROWS];
    // Pairs of the tile that are listed, and where; positions that the block takes.
    u32 named;
    u32 named_first;
    u32 taken;
};

struct Masks {
    u32 candidates;
    u32 greater;
};

// For a warp, of which each lane has a row: the candidates that beat their neighbours; they and those are free no more.
__device__ __forceinline__ u32 take_maxima(Masks& masks) {
    u32 candidates_before = __shfl_up_sync(FULL_WARP, masks.candidates, 1);
    u32 greater_before = __shfl_up_sync(FULL_WARP, masks.greater, 1);
    u32 candidates_behind = __shfl_down_sync(FULL_WARP, masks.candidates, 1);
    if (lane_index() == 0) candidates_before = 0;
    if (lane_index() == WARP_THREADS - 1) candidates_behind = 0;
    const u32 lose_to_before =
        (masks.greater & masks.candidates) << 1 | (greater_before & candidates_before) >> 31;
    const u32 lose_to_behind = (masks.candidates >> 1 | candidates_behind << 31) & ~masks.greater;
    const u32 maxima = masks.candidates & ~lose_to_before & ~lose_to_behind;
    u32 maxima_before = __shfl_up_sync(FULL_WARP, maxima, 1);
    u32 maxima_behind = __shfl_down_sync(FULL_WARP, maxima, 1);
    if (lane_index() == 0) maxima_before = 0;
    if (lane_index() == WARP_THREADS - 1) maxima_behind = 0;
    masks.candidates &= ~(maxima | maxima << 1 | maxima_before >> 31 | maxima >> 1 | maxima_behind << 31);
    return maxima;
}

// Takes positions: bit p % 32 of taken[p / 32]. Notes in `uses`, by number, which pairs were taken once (1) and more
// often (2 or more), and lists the latter, in any order. Gives numbers in place of slots, and DEAD in place of pairs
// that occur once. Makes the words of the next look-back 0.
extern "C" __global__ void __launch_bounds__(THREADS, PAIR_SELECT_RESIDENT)
select_kernel(const u32* symbols, u32* numbers, const Entry* entries, const u32* counts, u32 files,
              u32 alpha_numerator, u32 alpha_denominator, u32* uses, u32* taken, u64* named_keys, u32* named_numbers,
              u64* look_back, State* state) {
    SHARED(SelectShared, shared);
    const Plan plan = next_round(state, Parameters{files, alpha_numerator, alpha_denominator});
    if (plan.is_over) return;
    const u32 threshold = plan.threshold, length = state->length;
    const bool mix_only = state->depth_max > PAIR_DEPTH_MAX;
    // A ticket and a word for each tile.
    const u64 look_back_words = 1 + (u64(length) + PAIR_TILE - 1) / PAIR_TILE;
    for (u64 i = grid_thread(); i < look_back_words; i += grid_threads()) look_back[i] = 0;
    const u32 warp_row = warp_index() * WARP_ROWS;
    const u32 rows = (length + WARP_THREADS - 1) / WARP_THREADS;
    if (threadIdx.x == 0) shared.taken = 0;
    u32 taken_count = 0;
    for (u32 tile = blockIdx.x; tile * OWN_ROWS < rows; tile += gridDim.x) {
        // The row before the first tile is empty.
        const i64 tile_row = i64(tile) * OWN_ROWS - 1;
        const i64 warp_first = (tile_row + warp_row) * WARP_THREADS + lane_index();
        u32 pairs[WARP_ROWS];
#pragma unroll
        for (u32 k = 0; k < WARP_ROWS; k++) {
            const i64 p = warp_first + k * WARP_THREADS;
            // A neighbour may give a number in place of a slot meanwhile, which means the same.
            pairs[k] = p >= 0 && p < length ? load_relaxed(&numbers[p]) : DEAD;
        }
        // What the last tile left is read.
        __syncthreads();
        if (threadIdx.x == 0) shared.named = 0;
        // Loads come first, so that they are waited for at a time.
        u32 own_counts[WARP_ROWS], own_numbers[WARP_ROWS];
#pragma unroll
        for (u32 k = 0; k < WARP_ROWS; k++) {
            const u32 pair = pairs[k];
            const bool is_fresh = (pair & FRESH) != 0;
            const u32* count = is_fresh ? &entries[pair & NUMBER].count : &counts[pair & NUMBER];
            own_counts[k] = pair != DEAD ? *count : 0;
            own_numbers[k] = is_fresh ? entries[pair & NUMBER].number : pair & NUMBER;
        }
#pragma unroll
        for (u32 k = 0; k < WARP_ROWS; k++) {
            const u32 count = own_counts[k];
            const u32 pair = count < 2 ? DEAD : (pairs[k] & ODD) | own_numbers[k];
            if (pair != pairs[k] && warp_row + k >= 1 && warp_row + k <= OWN_ROWS) {
                store_relaxed(&numbers[warp_first + k * WARP_THREADS], pair);
            }
            pairs[k] = pair;
            own_counts[k] = (pair & ODD) == 0 && count >= threshold ? count : 0;
            if (lane_index() == 0) shared.first_counts[warp_row + k] = own_counts[k];
        }
        __syncthreads();
#pragma unroll
        for (u32 k = 0; k < WARP_ROWS; k++) {
            const u32 count = own_counts[k];
            u32 behind = __shfl_down_sync(FULL_WARP, count, 1);
            const u32 row = warp_row + k;
            if (lane_index() == WARP_THREADS - 1) behind = row + 1 < ROWS ? shared.first_counts[row + 1] : 0;
            bool is_greater = count > behind;
            if (count != 0 && behind != 0 && (count == behind || mix_only)) {
                const u32* at = symbols + warp_first + k * WARP_THREADS;
                is_greater = mix(pair_of(at[0], at[1])) > mix(pair_of(at[1], at[2]));
            }
            const u32 candidates = __ballot_sync(FULL_WARP, count != 0);
            const u32 greater = __ballot_sync(FULL_WARP, is_greater);
            if (lane_index() == 0) {
                shared.candidates[row] = candidates;
                shared.greater[row] = greater;
            }
        }
        __syncthreads();
        // Lane l has the row before this warp's first, and those from there on.
        const u32 row = warp_row + lane_index() - 1;
        const bool has_row = lane_index() < WARP_ROWS + 2 && row < ROWS;
        Masks masks{has_row ? shared.candidates[row] : 0, has_row ? shared.greater[row] : 0};
        u32 maxima = take_maxima(masks);
        maxima |= take_maxima(masks);
        const bool is_own = lane_index() >= 1 && lane_index() <= WARP_ROWS && row >= 1 && row <= OWN_ROWS;
        const i64 own_row = tile_row + i64(row);
        if (is_own && own_row < rows) taken[own_row] = maxima;
        taken_count += is_own ? u32(__popc(maxima)) : 0u;
        // Which of the lane's positions were the second of their pair. Loads and atomics are waited for at a time.
        u32 own_uses[WARP_ROWS];
#pragma unroll
        for (u32 k = 0; k < WARP_ROWS; k++) {
            const u32 word = __shfl_sync(FULL_WARP, is_own ? maxima : 0, k + 1);
            own_uses[k] = (word >> lane_index()) & 1 ? load_stale(&uses[pairs[k]]) : 2;
        }
#pragma unroll
        for (u32 k = 0; k < WARP_ROWS; k++) {
            if (own_uses[k] < 2) own_uses[k] = atomicAdd(&uses[pairs[k]], 1u);
        }
        u32 again = 0;
#pragma unroll
        for (u32 k = 0; k < WARP_ROWS; k++) again |= u32(own_uses[k] == 1) << k;
        u32 place = 0;
        if (__any_sync(FULL_WARP, again != 0)) {
            const u32 sum = warp_inclusive_sum(u32(__popc(again)));
            if (lane_index() == WARP_THREADS - 1) place = atomicAdd(&shared.named, sum);
            place = __shfl_sync(FULL_WARP, place, WARP_THREADS - 1) + sum - __popc(again);
        }
        __syncthreads();
        // All go on or none.
        const u32 tile_named = shared.named;
        if (tile_named == 0) continue;
        if (threadIdx.x == 0) shared.named_first = atomicAdd(&state->named, tile_named);
        __syncthreads();
        place += shared.named_first;
#pragma unroll
        for (u32 k = 0; k < WARP_ROWS; k++) {
            if ((again >> k) & 1) {
                const u32* at = symbols + warp_first + k * WARP_THREADS;
                named_keys[place] = pair_of(at[0], at[1]);
                named_numbers[place] = pairs[k];
                place++;
            }
        }
    }
    taken_count = warp_sum(taken_count);
    if (lane_index() == 0 && taken_count > 0) atomicAdd(&shared.taken, taken_count);
    __syncthreads();
    if (threadIdx.x == 0 && shared.taken > 0) atomicAdd(&state->taken, shared.taken);
}

// Rules.

// The symbol of the rule that a pair became, by its use: that symbol and 1 more; or 0.
__device__ __forceinline__ u32 rule_of_use(u32 use) { return use >= 2 ? use - 1 : 0; }

// Whether all slots are examined in their order, and not only those that are listed.
__device__ __forceinline__ bool is_swept(u32 fresh, u32 size) { return u64(fresh) * PAIR_SWEEP_SHARE > size; }

struct NameShared {
    u32 depth_max;
};

// Makes rules of sorted pairs: `uses`, by number, locates their uses, see above. Forgets the counts of pairs of equal
// symbols, which are counted anew. Empties the table, of which `fresh` slots are listed.
extern "C" __global__ void __launch_bounds__(THREADS)
name_kernel(const u64* named_keys, const u32* named_numbers, u32 named, u32 terminal_count, u32 rules, u32* uses,
            u64* rule_pairs, u32* depths, u32* counts, const u32* equals, Entry* entries, u32 size, const u32* slots,
            u32 fresh, u32 threshold, u32 symbols_before, State* state) {
    SHARED(NameShared, shared);
    const bool is_sweep = is_swept(fresh, size);
    const u64 items = is_sweep ? size : fresh;
    for (u64 i = grid_thread(); i < items; i += grid_threads()) {
        entries[is_sweep ? i : slots[i]] = Entry{NO_KEY, ~0u, ~0u};
    }
    u32 depth_max = 0;
    for (u64 i = grid_thread(); i < named; i += grid_threads()) {
        const u64 pair = named_keys[i];
        const u32 left = u32(pair >> 32), right = u32(pair);
        uses[named_numbers[i]] = terminal_count + rules + u32(i) + 1;
        rule_pairs[rules + i] = pair;
        u32 depth = left < terminal_count ? 0 : depths[left - terminal_count];
        if (right >= terminal_count) depth = max(depth, depths[right - terminal_count]);
        depths[rules + i] = depth + 1;
        depth_max = max(depth_max, depth + 1);
    }
    block_atomic_max(&state->depth_max, depth_max, shared.depth_max);
    for (u64 i = grid_thread(); i < state->equals; i += grid_threads()) counts[equals[i]] = 0;
    if (grid_thread() == 0) {
        state->most = 0;
        state->named = 0;
        state->taken = 0;
        state->fresh = 0;
        state->threshold = threshold;
        state->symbols_before = symbols_before;
    }
}

// The next sequence.

constexpr u32 SWEEP_ITEMS = PAIR_TILE / THREADS;
// Look-ups that a thread waits for at a time.
constexpr u32 LOOK_UPS = PAIR_LOOK_UPS;

constexpr u32 TILE = PAIR_TILE;
// Blocks of a multiprocessor.
constexpr u32 REPLACE_RESIDENT = PAIR_REPLACE_RESIDENT;

struct ReplaceShared {
    // What is written, and the symbol behind it.
    u32 symbols[TILE + 1];
    u32 numbers[TILE];
    // Positions that are replaced, by row.
    u32 replaced[ROWS];
    // What is written and differs from what is before it, by row.
    u32 breaks[ROWS];
    // The two positions before the tile and the two behind it: the symbol, and the rule that replaces it, or 0.
    u32 near_symbols[4];
    u32 near_ids[4];
    // Symbols written before the tile, and whether the last run before it begins at an odd position.
    u64 before;
    u32 run_is_odd;
    u32 tile;
    // Which of the tile's positions have new pairs, in any order.
    u16 listed[TILE];
    u32 listed_count;
    // Slots that the tile is first to use: how many, and where they are listed.
    u32 fresh;
    u32 fresh_first;
    CountCache cache;
};

// The word that a tile publishes: the number of its symbols, whether a run begins in it, and the parity of the last such place,
// counted from the tile's start, or from the sequence's if the word says all.
__device__ __forceinline__ u64 run_word(u64 count, bool has_break, u32 parity) {
    return count << 2 | u64(has_break) << 1 | parity;
}

// Tiles that a lane examines, one behind the other: with a warp's 32 at a time a launch makes 40 tiles a microsecond.
constexpr u32 LANE_TILES = PAIR_LANE_TILES;

// For a warp: symbols before the tile, which the word already counts, and the parity of the place where the last run
// before it begins.
__device__ __forceinline__ u64 run_look_back(u64* words, u32 tile, u64 count, bool has_break, u32 parity,
                                             u32& parity_before) {
    u64 before = 0;
    parity_before = 0;
    if (tile > 0) {
        // Where the last run begins, less what is before its tile.
        u64 behind_run = 0;
        u32 run_parity = 0;
        bool is_found = false, is_all = false;
        for (i64 last = i64(tile) - 1; !is_all; last -= WARP_THREADS * LANE_TILES) {
            // The nearest tile first. Before the first one there is nothing, which is known.
            const i64 nearest = last - i64(lane_index() * LANE_TILES);
            u64 own[LANE_TILES];
            bool is_missing;
            do {
                is_missing = false;
#pragma unroll
                for (u32 i = 0; i < LANE_TILES; i++) {
                    own[i] = nearest >= i ? load_relaxed(&words[nearest - i]) : LOOK_BACK_ALL;
                    is_missing |= own[i] < LOOK_BACK_OWN;
                }
                is_missing = __any_sync(FULL_WARP, is_missing);
                if (is_missing) spin_wait();
            } while (is_missing);
            // Of the lane's tiles, up to the first whose word counts all: symbols; up to the first where a run begins:
            // symbols, and that tile's word.
            u64 sum = 0, sum_to_run = 0, run = 0;
            bool lane_is_all = false, has_run = false;
#pragma unroll
            for (u32 i = 0; i < LANE_TILES; i++) {
                const bool holds_all = (own[i] & LOOK_BACK_ALL) != 0;
                if (!lane_is_all) {
                    sum += (own[i] & LOOK_BACK_VALUE) >> 2;
                    if (!has_run && (holds_all || (own[i] & 2) != 0)) {
                        has_run = true;
                        sum_to_run = sum;
                        run = own[i];
                    }
                }
                lane_is_all |= holds_all;
            }
            const u32 all = __ballot_sync(FULL_WARP, lane_is_all);
            const u32 wanted = all == 0 ? FULL_WARP : (all & (0u - all)) * 2 - 1;
            is_all = all != 0;
            const bool counts = (wanted >> lane_index()) & 1;
            const u64 sum_all = warp_inclusive_sum<u64>(counts ? sum : 0);
            const u32 runs = __ballot_sync(FULL_WARP, counts && has_run);
            if (!is_found && runs != 0) {
                const u32 lane = __ffs(runs) - 1;
                is_found = true;
                run = __shfl_sync(FULL_WARP, run, lane);
                run_parity = u32(run) & 1;
                const u64 behind = before + __shfl_sync(FULL_WARP, sum_all - sum + sum_to_run, lane);
                // A place in a word that counts all is counted from the sequence's start already.
                behind_run = (run & LOOK_BACK_ALL) != 0 ? ~u64(0) : behind;
            }
            before += __shfl_sync(FULL_WARP, sum_all, WARP_THREADS - 1);
        }
        parity_before = behind_run == ~u64(0) ? run_parity : u32(before - behind_run + run_parity) & 1;
    }
    const u32 parity_all = has_break ? u32(before + parity) & 1 : parity_before;
    if (lane_index() == 0) store_relaxed(&words[tile], LOOK_BACK_ALL | run_word(before + count, true, parity_all));
    return before;
}

// Replaces what was taken and became a rule; `uses`, by number, gives the rules. Counts new pairs in the
// table, pairs of equal symbols anew, and what the others lose. `slots` lists the slots that become used.
extern "C" __global__ void __launch_bounds__(THREADS, REPLACE_RESIDENT)
replace_kernel(const u32* symbols, const u32* numbers, u32 length, const u32* taken, const u32* uses, u32* counts,
               Entry* entries, u32 size, u32 probes_max, u32* slots, u32* symbols_out, u32* numbers_out, u64* words,
               u32* ticket, State* state) {
    SHARED(ReplaceShared, shared);
    clear_counts(shared.cache);
    if (threadIdx.x == 0) {
        shared.fresh = 0;
        shared.listed_count = 0;
    }
    const u32 tile = next_tile(ticket, shared.tile);
    // Once the table is too small all is in vain.
    if (load_relaxed(&state->is_full) != 0) probes_max = 0;
    const u32 first = tile * TILE;
    const u32 warp_row = warp_index() * WARP_ROWS;
    u32 own_symbols[WARP_ROWS], pairs[WARP_ROWS], own_ids[WARP_ROWS];
    // Loads come first, so that they are waited for at a time. Of positions first - 2, first - 1, first + TILE,
    // first + TILE + 1 some threads know too.
    const i64 near = i64(first) + threadIdx.x - 2 + (threadIdx.x >= 2 ? TILE : 0);
    const bool has_near = threadIdx.x < 4 && near >= 0 && near < length;
    const u32 near_symbol = has_near ? symbols[near] : SEPARATOR;
    const u32 near_pair = has_near ? numbers[near] : DEAD;
    const u32 near_word = has_near ? taken[near / WARP_THREADS] : 0;
    // Behind the warp's last position.
    const u32 behind = first + (warp_row + WARP_ROWS) * WARP_THREADS;
    const u32 symbol_behind = behind < length ? symbols[behind] : SEPARATOR;
    const u32 pair_behind = behind < length ? numbers[behind] : DEAD;
#pragma unroll
    for (u32 k = 0; k < WARP_ROWS; k++) {
        const u32 p = first + (warp_row + k) * WARP_THREADS + lane_index();
        own_symbols[k] = p < length ? symbols[p] : SEPARATOR;
        pairs[k] = p < length ? numbers[p] : DEAD;
        const u32 word = p < length ? taken[p / WARP_THREADS] : 0;
        own_ids[k] = (word >> lane_index()) & 1;
    }
    if (threadIdx.x < 4) {
        shared.near_symbols[threadIdx.x] = near_symbol;
        const bool is_taken = (near_word >> (u32(near) % WARP_THREADS)) & 1;
        shared.near_ids[threadIdx.x] = is_taken ? rule_of_use(uses[near_pair]) : 0;
    }
#pragma unroll
    for (u32 k = 0; k < WARP_ROWS; k++) own_ids[k] = own_ids[k] != 0 ? uses[pairs[k]] : 0;
#pragma unroll
    for (u32 k = 0; k < WARP_ROWS; k++) {
        own_ids[k] = rule_of_use(own_ids[k]);
        const u32 replaced = __ballot_sync(FULL_WARP, own_ids[k] != 0);
        if (lane_index() == 0) shared.replaced[warp_row + k] = replaced;
    }
    __syncthreads();
    // A position is dropped if the one before it is replaced. Each lane counts two rows; every warp does so.
    const bool first_is_dropped = shared.near_ids[1] != 0;
    u32 row_kept[2];
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        const u32 row = lane_index() * 2 + i;
        const u32 before = row > 0 ? shared.replaced[row - 1] >> 31 : u32(first_is_dropped);
        const u32 row_first = first + row * WARP_THREADS;
        const u32 in_row = row_first < length ? min(WARP_THREADS, length - row_first) : 0;
        const u32 exist = in_row == WARP_THREADS ? FULL_WARP : (1u << in_row) - 1;
        row_kept[i] = exist & ~(shared.replaced[row] << 1 | before);
    }
    const u32 rows_sum = warp_inclusive_sum<u32>(__popc(row_kept[0]) + __popc(row_kept[1]));
    const u32 rows_before = rows_sum - __popc(row_kept[0]) - __popc(row_kept[1]);
    const u32 written = __shfl_sync(FULL_WARP, rows_sum, WARP_THREADS - 1);
#pragma unroll
    for (u32 k = 0; k < WARP_ROWS; k++) {
        const u32 row = warp_row + k;
        const u32 p = first + row * WARP_THREADS + lane_index();
        const u32 even_kept = __shfl_sync(FULL_WARP, row_kept[0], row / 2);
        const u32 odd_kept = __shfl_sync(FULL_WARP, row_kept[1], row / 2);
        const u32 before = __shfl_sync(FULL_WARP, rows_before, row / 2) + (row % 2 ? __popc(even_kept) : 0);
        const u32 kept = row % 2 ? odd_kept : even_kept;
        const u32 next_row = row + 1 < ROWS ? shared.replaced[row + 1] & 1 : u32(shared.near_ids[2] != 0);
        const u32 replaced = shared.replaced[row];
        const bool next_is_replaced = ((replaced >> 1 | next_row << 31) >> lane_index()) & 1;
        const bool is_replaced = own_ids[k] != 0;
        const bool is_kept = (kept >> lane_index()) & 1;
        const u32 pair = pairs[k];
        const u32 first_symbol_behind = k + 1 < WARP_ROWS ? __shfl_sync(FULL_WARP, own_symbols[k + 1], 0) : symbol_behind;
        const u32 first_pair_behind = k + 1 < WARP_ROWS ? __shfl_sync(FULL_WARP, pairs[k + 1], 0) : pair_behind;
        u32 next_symbol = __shfl_down_sync(FULL_WARP, own_symbols[k], 1);
        u32 next_pair = __shfl_down_sync(FULL_WARP, pair, 1);
        if (lane_index() == WARP_THREADS - 1) {
            next_symbol = first_symbol_behind;
            next_pair = first_pair_behind;
        }
        if (is_kept) {
            const u32 at = before + __popc(kept & lanes_below());
            shared.symbols[at] = is_replaced ? own_ids[k] : own_symbols[k];
            // In place of a pair that occurs once nothing occurs twice.
            u32 out = pair;
            if (is_replaced || next_is_replaced) {
                const u32 old = is_replaced ? next_pair : pair;
                out = old == DEAD ? DEAD : FRESH;
            }
            shared.numbers[at] = out;
        }
        const bool is_changed = p < length && (!is_kept || is_replaced || next_is_replaced);
        if (is_changed && pair < FRESH && pair != DEAD && own_symbols[k] != next_symbol) {
            add_count(shared.cache, pair, 0u - 1, counts, entries);
        }
    }
    if (threadIdx.x == 0) {
        const bool is_dropped = shared.replaced[ROWS - 1] >> 31;
        const u32 next = is_dropped ? 3 : 2;
        const u32 id = shared.near_ids[next];
        shared.symbols[written] = id != 0 ? id : shared.near_symbols[next];
    }
    __syncthreads();
    // The last symbol before the tile that is written.
    u32 previous = shared.near_symbols[1];
    if (shared.near_ids[0] != 0) previous = shared.near_ids[0];
    if (first_is_dropped) previous = shared.near_ids[1];
#pragma unroll
    for (u32 k = 0; k < WARP_ROWS; k++) {
        const u32 at = (warp_row + k) * WARP_THREADS + lane_index();
        bool is_break = false, is_listed = false;
        if (at < written) {
            const u32 symbol = shared.symbols[at], next = shared.symbols[at + 1];
            is_break = symbol != (at > 0 ? shared.symbols[at - 1] : previous);
            if (symbol == SEPARATOR || next == SEPARATOR) shared.numbers[at] = DEAD;
            is_listed = (shared.numbers[at] & FRESH) != 0;
        }
        const u32 breaks = __ballot_sync(FULL_WARP, is_break);
        const u32 listed = __ballot_sync(FULL_WARP, is_listed);
        u32 place = 0;
        if (lane_index() == 0) {
            shared.breaks[warp_row + k] = breaks;
            if (listed != 0) place = atomicAdd(&shared.listed_count, u32(__popc(listed)));
        }
        place = __shfl_sync(FULL_WARP, place, 0) + __popc(listed & lanes_below());
        if (is_listed) shared.listed[place] = u16(at);
    }
    __syncthreads();
    u32 parity = 0;
    bool has_break = false;
    if (warp_index() == 0) {
        const u32 even = shared.breaks[lane_index() * 2], odd = shared.breaks[lane_index() * 2 + 1];
        const u32 some = __ballot_sync(FULL_WARP, (even | odd) != 0);
        has_break = some != 0;
        // The parity of a place in a row is that in the tile.
        parity = odd != 0 ? 31 - __clz(odd) : 31 - __clz(even);
        parity = __shfl_sync(FULL_WARP, parity, has_break ? 31 - __clz(some) : 0) & 1;
        // The tiles behind need not wait for what follows.
        if (lane_index() == 0) {
            const u64 word = tile > 0 ? LOOK_BACK_OWN | run_word(written, has_break, parity)
                                      : LOOK_BACK_ALL | run_word(written, true, has_break ? parity : 0);
            store_relaxed(&words[tile], word);
        }
    }
    // New pairs get slots and are counted, except for pairs of equal symbols, of which only some count.
    const u32 listed_count = shared.listed_count;
    // Which of this thread's new pairs were first to use a slot.
    u32 is_first = 0;
#pragma unroll 1
    for (u32 batch = 0; batch * THREADS < listed_count; batch += LOOK_UPS) {
        // Which pairs are in their first slot: looked up at a time.
        u32 is_there = 0;
        u64 keys[LOOK_UPS], found[LOOK_UPS];
#pragma unroll
        for (u32 i = 0; i < LOOK_UPS; i++) {
            const u32 item = (batch + i) * THREADS + threadIdx.x;
            const u32 at = item < listed_count ? shared.listed[item] : 0;
            keys[i] = pair_of(shared.symbols[at], shared.symbols[at + 1]);
            found[i] = item < listed_count ? load_stale(&entries[first_slot(size, keys[i])].key) : NO_KEY;
        }
#pragma unroll
        for (u32 i = 0; i < LOOK_UPS; i++) is_there |= u32(found[i] == keys[i]) << i;
#pragma unroll 1
        for (u32 i = 0; i < LOOK_UPS; i++) {
            const u32 item = (batch + i) * THREADS + threadIdx.x;
            if (item >= listed_count) break;
            const u32 at = shared.listed[item];
            const u32 symbol = shared.symbols[at], next = shared.symbols[at + 1];
            const u64 key = pair_of(symbol, next);
            bool is_new = false;
            u32 slot = first_slot(size, key);
            if (((is_there >> i) & 1) == 0) slot = entry_slot(entries, size, probes_max, key, is_new);
            if (slot == DEAD) {
                shared.numbers[at] = DEAD;
                state->is_full = 1;
                continue;
            }
            shared.numbers[at] = FRESH | slot;
            is_first |= u32(is_new) << (batch + i);
            const u32 sum = (symbol != next ? 1 : 0) - u32(is_new);
            if (sum != 0) add_count(shared.cache, FRESH | slot, sum, counts, entries);
        }
    }
    if (warp_index() == 0) {
        u32 run_is_odd;
        const u64 before = run_look_back(words, tile, written, has_break, parity, run_is_odd);
        if (lane_index() == 0) {
            shared.before = before;
            shared.run_is_odd = run_is_odd;
            if (u64(first) + TILE >= length) state->length = u32(before) + written;
        }
    }
    __syncthreads();
    const u32 out_first = u32(shared.before);
#pragma unroll
    for (u32 k = 0; k < SWEEP_ITEMS; k++) {
        const u32 at = k * THREADS + threadIdx.x;
        if (at >= written) continue;
        const u32 symbol = shared.symbols[at];
        u32 pair = shared.numbers[at];
        if (pair != DEAD && symbol == shared.symbols[at + 1]) {
            // Where the run begins.
            u32 row = at / WARP_THREADS;
            u32 breaks = shared.breaks[row] & (FULL_WARP >> (WARP_THREADS - 1 - at % WARP_THREADS));
            while (breaks == 0 && row > 0) {
                row--;
                breaks = shared.breaks[row];
            }
            const u32 begin = breaks != 0 ? 31 - __clz(breaks) : out_first + shared.run_is_odd;
            const bool is_odd = (at + begin) % 2 != 0;
            pair = (pair & ~ODD) | (is_odd ? ODD : 0);
            if (!is_odd) add_count(shared.cache, pair, 1, counts, entries);
        }
        symbols_out[out_first + at] = symbol;
        numbers_out[out_first + at] = pair;
    }
    u32 fresh = 0;
    if (is_first != 0) fresh = atomicAdd(&shared.fresh, u32(__popc(is_first)));
    __syncthreads();
    flush_counts(shared.cache, counts, entries);
    if (shared.fresh == 0) return;
    if (threadIdx.x == 0) shared.fresh_first = atomicAdd(&state->fresh, shared.fresh);
    __syncthreads();
    while (is_first != 0) {
        const u32 item = __ffs(is_first) - 1;
        is_first &= is_first - 1;
        slots[shared.fresh_first + fresh] = shared.numbers[shared.listed[item * THREADS + threadIdx.x]] & NUMBER;
        fresh++;
    }
}

// Numbers.

struct SweepShared {
    BlockSum<u32> sum;
    u32 first;
};

// Numbers the new pairs that occur twice or more; finds the largest count of all pairs, of which `numbers` were
// numbered before. Makes their uses 0.
extern "C" __global__ void __launch_bounds__(THREADS)
number_kernel(Entry* entries, u32 size, const u32* slots, u32 numbers, u64* keys, u32* counts, u32* uses, u32* equals,
              State* state) {
    SHARED(SweepShared, shared);
    u32 most = 0;
    using V = Vector<u32>;
    for (u64 at = grid_thread() * V::COUNT; at < numbers; at += grid_threads() * V::COUNT) {
        V found{};
        if (at + V::COUNT <= numbers) {
            found = *reinterpret_cast<const V*>(counts + at);
        } else {
            for (u32 i = 0; at + i < numbers; i++) found.items[i] = counts[at + i];
        }
#pragma unroll
        for (u32 i = 0; i < V::COUNT; i++) most = max(most, found.items[i]);
        store_vector(uses, at, numbers, V{});
    }
    // Slots that are listed, or all in their order if many are in use.
    const u32 fresh = state->fresh;
    const bool is_sweep = is_swept(fresh, size);
    const u32 items = is_sweep ? size : fresh;
    for (u64 tile_first = u64(blockIdx.x) * PAIR_TILE; tile_first < items; tile_first += u64(gridDim.x) * PAIR_TILE) {
        u32 own_slots[SWEEP_ITEMS], own_counts[SWEEP_ITEMS];
        u32 live = 0, used = 0;
#pragma unroll
        for (u32 i = 0; i < SWEEP_ITEMS; i++) {
            const u64 at = tile_first + i * THREADS + threadIdx.x;
            own_slots[i] = is_sweep ? u32(at) : at < items ? slots[at] : 0;
            const bool is_used = at < items && (!is_sweep || entries[own_slots[i]].key != NO_KEY);
            used |= u32(is_used) << i;
            own_counts[i] = is_used ? entries[own_slots[i]].count + 2 : 0;
            live += own_counts[i] >= 2;
            most = max(most, own_counts[i]);
        }
        u32 total;
        const u32 before = block_exclusive_sum(live, shared.sum, total);
        if (threadIdx.x == 0 && total > 0) shared.first = atomicAdd(&state->numbers, total);
        __syncthreads();
        u32 number = shared.first + before;
        // All have read where the tile's numbers begin.
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < SWEEP_ITEMS; i++) {
            Entry* entry = &entries[own_slots[i]];
            u32 own_number = DEAD;
            if (own_counts[i] >= 2) {
                const u64 key = entry->key;
                own_number = number;
                keys[number] = key;
                counts[number] = own_counts[i];
                if (u32(key >> 32) == u32(key)) equals[atomicAdd(&state->equals, 1u)] = number;
                number++;
            }
            if ((used >> i) & 1) {
                entry->count = own_counts[i];
                entry->number = own_number;
            }
        }
    }
    block_atomic_max(&state->most, most, shared.first);
}
