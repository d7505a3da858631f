// file_words.cu: how often each word occurs in each file, from tiles of the root whose words are decoded and counted where
// they are.
// In     the root of a grammar over words and the file of each of its symbols; the words of rules
// Out    keys u32: word << file_bits | file, each with a count, in any order, some more than once
// Work   a record of 32 bytes for each root symbol; 8 bytes for each word that a tile has in a file
// Map    a thread a root symbol, a warp or block for what is longer
// Exact  sums; keys that no tile has room for are written as they come, and sums are the same
// Why    where rules are short a word costs less to decode than a list of files to merge; of prose a tile has one word in
//        four only once, so that a quarter is sorted
#include "rule_words.cuh"

constexpr u32 THREADS = FILE_WORDS_THREADS;
constexpr u32 WARPS = THREADS / WARP_THREADS;

// Slots of the table of a tile, in buckets that are examined together, and how often one is examined.
constexpr u32 SLOT_BITS = FILE_WORDS_SLOT_BITS;
constexpr u32 SLOTS = 1u << SLOT_BITS;
constexpr u32 BUCKET = 4;
constexpr u32 BUCKET_BITS = SLOT_BITS - 2;
constexpr u32 PROBES_MAX = 8;

// No key, in a slot.
constexpr u32 NO_SLOT_KEY = ~0u;

// Symbols of the root of a tile, and of a thread at a time.
constexpr u32 COUNT_TILE = FILE_WORDS_COUNT_TILE;
constexpr u32 COUNT_ROWS = 2;

// Blocks that a multiprocessor is to hold: bounds registers, as latency is hidden by threads.
constexpr u32 COUNT_BLOCKS = 5;
static_assert(COUNT_TILE % (THREADS * COUNT_ROWS) == 0, "rows are whole");

// Expansions of more words than this are copied by a whole block.
constexpr u32 WARP_EXPANSION = 512;

struct CountShared {
    alignas(8) u32 keys[SLOTS];
    u32 counts[SLOTS];
    u32 words[WARPS][WARP_THREADS * RECORD];
    BlockSum<u32> sum;
    u64 begin;
    bool has_long;
};

// Where keys with counts go; `capacity` entries fit.
struct Counted {
    u32* keys;
    u32* counts;
    u64 capacity;
    u64* cursor;
};

__device__ __forceinline__ void count_key(CountShared& shared, u32 key, const Counted& out) {
    u32 bucket = (key * 0x9e3779b1u) >> (WARP_THREADS - BUCKET_BITS);
    for (u32 probe = 0; probe < PROBES_MAX && key != NO_SLOT_KEY; probe++) {
        u32* keys = &shared.keys[bucket * BUCKET];
        const u64 low = load_relaxed(reinterpret_cast<u64*>(keys));
        const u64 high = load_relaxed(reinterpret_cast<u64*>(keys) + 1);
        const u32 found[BUCKET] = {u32(low), u32(low >> 32), u32(high), u32(high >> 32)};
        // The slot of the key, or the first one without a key.
        u32 slot = BUCKET;
#pragma unroll
        for (u32 i = BUCKET; i > 0; i--) {
            if (found[i - 1] == NO_SLOT_KEY) slot = i - 1;
        }
        bool is_there = false;
#pragma unroll
        for (u32 i = 0; i < BUCKET; i++) {
            if (found[i] == key) slot = i;
            is_there |= found[i] == key;
        }
        if (slot == BUCKET) {
            bucket = (bucket + 1) % (SLOTS / BUCKET);
            continue;
        }
        u32 before = key;
        if (!is_there) before = atomicCAS(&keys[slot], NO_SLOT_KEY, key);
        // Others fill it meanwhile: then it is examined again.
        if (before == NO_SLOT_KEY || before == key) {
            atomicAdd(&shared.counts[bucket * BUCKET + slot], 1u);
            return;
        }
    }
    // No room: as it is.
    const u64 place = atomicAdd(out.cursor, u64(1));
    if (place < out.capacity) {
        out.keys[place] = key;
        out.counts[place] = 1;
    }
}

// The keys of tiles of the root, word << file_bits | file, each with how often it occurs in the tile. Nothing if there is no
// room for the words of rules, or more than `words_max` of them in the root.
extern "C" __global__ void __launch_bounds__(THREADS, COUNT_BLOCKS)
count_words_kernel(const u32* root, const u32* root_files, u64 count, u32 terminals, const u32* flat, u64 flat_size,
                   u32 rules, u64 words_max, u32 file_bits, u32* keys, u32* counts, u64 capacity, u64* totals) {
    SHARED(CountShared, shared);
    if (u64(rules) * RECORD + totals[FLAT_WORDS] > flat_size || totals[RULE_WORDS] > words_max) return;
    const Counted out{keys, counts, capacity, &totals[KEYS]};
    for (u32 slot = threadIdx.x; slot < SLOTS; slot += THREADS) {
        shared.keys[slot] = NO_SLOT_KEY;
        shared.counts[slot] = 0;
    }
    if (threadIdx.x == 0) shared.has_long = false;
    __syncthreads();
    const u64 tile_first = u64(blockIdx.x) * COUNT_TILE;
    u32* words = shared.words[warp_index()];
    for (u32 group = 0; group < COUNT_TILE / THREADS; group += COUNT_ROWS) {
        u32 symbols[COUNT_ROWS], files[COUNT_ROWS], records[COUNT_ROWS][RECORD];
#pragma unroll
        for (u32 row = 0; row < COUNT_ROWS; row++) {
            const u64 at = tile_first + (group + row) * THREADS + threadIdx.x;
            symbols[row] = at < count ? root[at] : NO_WORD;
            files[row] = at < count ? root_files[at] : 0;
        }
#pragma unroll
        for (u32 row = 0; row < COUNT_ROWS; row++) {
            if (symbols[row] != NO_WORD && symbols[row] >= terminals) {
                load_quad(flat, symbols[row] - terminals, 0, records[row]);
#pragma unroll
                for (u32 i = Quad::COUNT; i < RECORD; i++) records[row][i] = NO_WORD;
            } else {
#pragma unroll
                for (u32 i = 0; i < RECORD; i++) records[row][i] = i == 0 ? symbols[row] : NO_WORD;
                // Behind the end there are none, wherever they are.
                if (symbols[row] == NO_WORD) records[row][2] = 0;
            }
        }
        // Few have more words than a quad.
#pragma unroll
        for (u32 row = 0; row < COUNT_ROWS; row++) {
#pragma unroll
            for (u32 quad = 1; quad < QUADS; quad++) {
                const bool has_more = records[row][0] != NO_WORD && records[row][quad * Quad::COUNT - 1] != NO_WORD;
                if (has_more && symbols[row] >= terminals) load_quad(flat, symbols[row] - terminals, quad, records[row]);
            }
        }
#pragma unroll
        for (u32 row = 0; row < COUNT_ROWS; row++) {
            u32(&record)[RECORD] = records[row];
            const bool is_apart = record[0] == NO_WORD;
            u32 length = 0;
#pragma unroll
            for (u32 i = 0; i < RECORD; i++) length += !is_apart && record[i] != NO_WORD;
            // Words of all lanes are concatenated, so that each lane writes equally many.
            const u32 up_to = warp_inclusive_sum(length);
            const u32 all = __shfl_sync(FULL_WARP, up_to, WARP_THREADS - 1);
#pragma unroll
            for (u32 i = 0; i < RECORD; i++) {
                if (i < length) words[up_to - length + i] = record[i] << file_bits | files[row];
            }
            __syncwarp();
            for (u32 i = lane_index(); i < all; i += WARP_THREADS) count_key(shared, words[i], out);
            const u32 own_length = is_apart ? record[2] : 0;
            if (own_length > WARP_EXPANSION) shared.has_long = true;
            u32 apart = __ballot_sync(FULL_WARP, own_length > 0 && own_length <= WARP_EXPANSION);
            while (apart != 0) {
                const u32 lane = __ffs(apart) - 1;
                apart &= apart - 1;
                const u32 place = __shfl_sync(FULL_WARP, record[1], lane);
                const u32 many = __shfl_sync(FULL_WARP, own_length, lane);
                const u32 file = __shfl_sync(FULL_WARP, files[row], lane);
                for (u32 i = lane_index(); i < many; i += WARP_THREADS) {
                    count_key(shared, flat[place + i] << file_bits | file, out);
                }
            }
            __syncwarp();
        }
    }
    __syncthreads();
    if (shared.has_long) {
        const u64 tile_end = min(tile_first + COUNT_TILE, count);
        for (u64 at = tile_first; at < tile_end; at++) {
            if (root[at] < terminals) continue;
            const Expansion own = expansion_of(flat, root[at] - terminals);
            if (own.length <= WARP_EXPANSION) continue;
            for (u32 i = threadIdx.x; i < own.length; i += THREADS) {
                count_key(shared, flat[own.place + i] << file_bits | root_files[at], out);
            }
        }
        __syncthreads();
    }
    // A warp has consecutive slots.
    constexpr u32 SLOT_ROWS = SLOTS / THREADS;
    const u32 slot_first = warp_index() * SLOT_ROWS * WARP_THREADS + lane_index();
    u32 own = 0;
#pragma unroll
    for (u32 row = 0; row < SLOT_ROWS; row++) own += shared.keys[slot_first + row * WARP_THREADS] != NO_SLOT_KEY;
    u32 found;
    const u32 place = block_exclusive_sum(own, shared.sum, found);
    if (threadIdx.x == 0) shared.begin = atomicAdd(out.cursor, u64(found));
    __syncthreads();
    u64 to = shared.begin + __shfl_sync(FULL_WARP, place, 0);
#pragma unroll
    for (u32 row = 0; row < SLOT_ROWS; row++) {
        const u32 slot = slot_first + row * WARP_THREADS;
        const u32 key = shared.keys[slot];
        const u32 used = __ballot_sync(FULL_WARP, key != NO_SLOT_KEY);
        const u64 at = to + __popc(used & lanes_below());
        if (key != NO_SLOT_KEY && at < capacity) {
            keys[at] = key;
            counts[at] = shared.counts[slot];
        }
        to += __popc(used);
    }
}

// Keys of words and files turned round: file << word_bits | word.
extern "C" __global__ void __launch_bounds__(THREADS)
turn_keys_kernel(const u32* keys, u64 count, u32 file_bits, u32 word_bits, u32* keys_out) {
    const u32 file_mask = (1u << file_bits) - 1;
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 key = keys[i];
        keys_out[i] = (key & file_mask) << word_bits | key >> file_bits;
    }
}
