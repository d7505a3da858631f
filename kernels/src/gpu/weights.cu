// weights.cu: how often each symbol occurs in the expansion of the root, or of the root of each file.
// In     root         [roots]              u32: symbols; values from `terminals` on are rules; or, in place of it,
//        counts       [symbols * columns]  what they are counted to be
//        root_offsets [columns + 1]        u32: where the root of each file begins; unused with one column
//        symbols      [symbols]            u32: the bodies; owners [symbols] u32: the rule of each; items of steps from
//                                          `symbols_end` on are those of `joined` and `joined_owners`, see joined_levels.rs
//        hot          [HOT_SLOTS]          u32: symbols that are frequent
//        steps        the root or the counts, then the bodies of each level from the highest
// Out    weights      [symbols * columns]  u32 or u64, 0 on entry without counts: occurrences in each column; sums wrap
// Work   4 bytes a root symbol, 8 a body symbol, and an atomic for each and column: O(root + bodies * columns)
// Map    a thread an item of a tile. Tiles of the root and, with one column, of large levels count frequent symbols in
//        shared memory; with more columns a group of 2^shift lanes has a body symbol, a lane each. Small levels share
//        a block
// Exact  integer sums, so the order of atomics does not matter
// Why    atomics on one address pass one after the other: frequent words are counted apart, also in bodies: dict1 (7 M
//        symbols, H200) took 61 us in place of 26
#include "levels.cuh"

constexpr u32 THREADS = WEIGHTS_THREADS;
constexpr u32 TILE = WEIGHTS_TILE;
constexpr u32 ITEMS = TILE / THREADS;
constexpr u32 SLOTS = WEIGHTS_HOT_SLOTS;
constexpr u32 SLOT_SHIFT = 32 - WEIGHTS_HOT_BITS;
constexpr u32 NO_FILE = ~0u;

template <typename Counter>
struct WeightsShared {
    WalkShared walk;
    u32 hot[SLOTS];
    Counter counts[SLOTS];
    u32 first_file;
    u32 last_file;
};

__device__ __forceinline__ u32 hot_slot(u32 symbol) { return (symbol * 0x9e3779b1u) >> SLOT_SHIFT; }

// Hands over what was counted of frequent symbols in `file`.
template <typename Counter>
__device__ __forceinline__ void flush(WeightsShared<Counter>& shared, Counter* weights, u32 columns, u32 file) {
    __syncthreads();
    for (u32 slot = threadIdx.x; slot < SLOTS; slot += THREADS) {
        const Counter count = shared.counts[slot];
        if (count > 0) atomicAdd(&weights[u64(shared.hot[slot]) * columns + file], count);
        shared.counts[slot] = 0;
    }
    __syncthreads();
}

template <typename Counter>
__device__ __forceinline__ void count(WeightsShared<Counter>& shared, Counter* weights, u32 columns, u32 file, u32 symbol,
                                      Counter weight) {
    u32 slot = hot_slot(symbol);
    if (shared.hot[slot] != symbol) slot ^= 1;
    if (shared.hot[slot] == symbol) {
        atomicAdd(&shared.counts[slot], weight);
    } else {
        atomicAdd(&weights[u64(symbol) * columns + file], weight);
    }
}

template <typename Counter>
__device__ __forceinline__ void weights_of(const u32* root, const u32* root_offsets, const Counter* counts,
                                           const u32* symbols, const u32* owners, u32 symbols_end, const u32* joined,
                                           const u32* joined_owners, const u32* hot, Counter* weights, u32 terminals,
                                           u32 columns, u32 shift, Walk walk, WeightsShared<Counter>& shared) {
    for (u32 slot = threadIdx.x; slot < SLOTS; slot += THREADS) {
        shared.hot[slot] = hot[slot];
        shared.counts[slot] = 0;
    }
    Place place = walk_begin(walk, shared.walk);
    // Tiles of the root that are counted, but not handed over.
    u32 held = 0;
    u32 held_file = NO_FILE;
    while (walk_next(walk, shared.walk, place)) {
        if (place.phase == 0) {
            u32 first, end;
            walk_items(walk, place, place.step, first, end);
            if (counts != nullptr) {
                for (u32 at = first + threadIdx.x; at < end; at += THREADS) weights[at] = counts[at];
                held++;
                continue;
            }
            u32 found[ITEMS];
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) {
                const u32 at = first + i * THREADS + threadIdx.x;
                found[i] = at < end ? root[at] : 0;
            }
            if (columns > 1) {
                if (threadIdx.x == 0) shared.first_file = u32(owner_of(root_offsets, 0, columns, first));
                if (threadIdx.x == WARP_THREADS) shared.last_file = u32(owner_of(root_offsets, 0, columns, end - 1));
                __syncthreads();
            }
            const u32 file = columns > 1 ? shared.first_file : 0;
            const u32 last_file = columns > 1 ? shared.last_file : 0;
            if (file == last_file) {
                if (held_file != file && held_file != NO_FILE) flush(shared, weights, columns, held_file);
                held_file = file;
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++) {
                    const u32 at = first + i * THREADS + threadIdx.x;
                    if (at < end) count(shared, weights, columns, file, found[i], Counter(1));
                }
            } else {
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++) {
                    const u32 at = first + i * THREADS + threadIdx.x;
                    if (at < end) {
                        const u32 of = u32(owner_of(root_offsets, file, last_file + 1, at));
                        atomicAdd(&weights[u64(found[i]) * columns + of], Counter(1));
                    }
                }
            }
            held++;
            continue;
        }
        if (held > 0) {
            if (held_file != NO_FILE) flush(shared, weights, columns, held_file);
            walk_done(walk, held);
            held = 0;
            held_file = NO_FILE;
        }
        const u32 column = threadIdx.x & ((1u << shift) - 1);
        bool has_waited = false;
        // A tile of a large level.
        const bool is_large = columns == 1 && place.step_end - place.step == 1;
        for (u32 step = place.step; step < place.step_end; step++) {
            u32 first, end;
            walk_items(walk, place, step, first, end);
            if (step > place.step) __syncthreads();
            for (; first < end; first += TILE >> shift) {
                u32 symbol[ITEMS], owner[ITEMS];
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++) {
                    const u32 at = first + ((i * THREADS + threadIdx.x) >> shift);
                    const bool is_item = at < end && column < columns;
                    const bool is_joined = at >= symbols_end;
                    symbol[i] = !is_item ? 0 : is_joined ? joined[at - symbols_end] : symbols[at];
                    owner[i] = !is_item ? 0 : is_joined ? joined_owners[at - symbols_end] : owners[at];
                }
                if (!has_waited) walk_wait(walk, place);
                has_waited = true;
                Counter weight[ITEMS];
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++) {
                    const u32 at = first + ((i * THREADS + threadIdx.x) >> shift);
                    const bool is_item = at < end && column < columns;
                    weight[i] = is_item ? load_relaxed(&weights[(u64(terminals) + owner[i]) * columns + column]) : 0;
                }
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++) {
                    if (weight[i] == 0) continue;
                    if (is_large) {
                        count(shared, weights, 1, 0, symbol[i], weight[i]);
                    } else {
                        atomicAdd(&weights[u64(symbol[i]) * columns + column], weight[i]);
                    }
                }
            }
            if (is_large) flush(shared, weights, 1, 0);
        }
        walk_done(walk, 1);
    }
    if (held > 0) {
        if (held_file != NO_FILE) flush(shared, weights, columns, held_file);
        walk_done(walk, held);
    }
    if (counts != nullptr) walk_end(walk);
}

extern "C" __global__ void __launch_bounds__(THREADS)
weights_u32_kernel(const u32* root, const u32* root_offsets, const u32* counts, const u32* symbols, const u32* owners,
                   u32 symbols_end, const u32* joined, const u32* joined_owners, const u32* hot, u32* weights,
                   u32 terminals, u32 columns, u32 shift, const u32* first_pieces, const u32* first_steps,
                   const u32* ranges, u32 phases, u32* state) {
    SHARED(WeightsShared<u32>, shared);
    weights_of<u32>(root, root_offsets, counts, symbols, owners, symbols_end, joined, joined_owners, hot, weights,
                    terminals, columns, shift, Walk{first_pieces, first_steps, ranges, phases, state}, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS)
weights_u64_kernel(const u32* root, const u32* root_offsets, const u64* counts, const u32* symbols, const u32* owners,
                   u32 symbols_end, const u32* joined, const u32* joined_owners, const u32* hot, u64* weights,
                   u32 terminals, u32 columns, u32 shift, const u32* first_pieces, const u32* first_steps,
                   const u32* ranges, u32 phases, u32* state) {
    SHARED(WeightsShared<u64>, shared);
    weights_of<u64>(root, root_offsets, counts, symbols, owners, symbols_end, joined, joined_owners, hot, weights,
                    terminals, columns, shift, Walk{first_pieces, first_steps, ranges, phases, state}, shared);
}

// The keys of words for a sort by count, the largest first: ~count, and the words in order.
extern "C" __global__ void __launch_bounds__(THREADS)
rank_keys_kernel(const u32* weights, u32 count, u32 most, u32* keys, u32* words) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        keys[i] = most - weights[i];
        words[i] = u32(i);
    }
}
