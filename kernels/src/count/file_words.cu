// file_words.cu: how often each word occurs in each file, from tiles of the root whose words are decoded and counted where
// they are; the words of all files, one after the other, each with its file; and windows of them.
// In     the arrays of a grammar over words: bodies, the root and the file of each of its symbols
//        root_counts [rules] u32: how often each occurs in the root itself
// Out    flat u32: a record of each rule, then the words of those that have more than a record takes
//        keys u32: word << file_bits | file, some with a count, in any order, or of each word, in order of files; from sorted
//        keys the rows of a table; and the same of windows of n words, whose keys are u64
// Work   a thread a rule, level by level; a record of 32 bytes for each root symbol; 8 bytes for each word that a tile has in
//        a file, and the sort of these. Windows: 16 bytes a word, and the sort
// Map    a thread a rule or root symbol, a warp or block for what is longer; runs of keys in tiles, by a look-back
// Exact  sums, places from scans, stable sorts; keys that no tile has room for are written as they come, and sums are the same
// Why    where rules are short a word costs less to decode than a list of files to merge; of prose a tile has one word in
//        four only once, so that a quarter is sorted
#include "codes.cuh"

constexpr u32 THREADS = FILE_WORDS_THREADS;
constexpr u32 ITEMS = FILE_WORDS_TILE / FILE_WORDS_THREADS;
constexpr u32 WARPS = THREADS / WARP_THREADS;
constexpr u32 ROOT_TILE = FILE_WORDS_ROOT_TILE;

// Expansions of rules.

// Words of a record.
constexpr u32 RECORD = FILE_WORDS_RECORD;

// No word: behind the last one of a record. In place of the first: place and length of the words follow.
constexpr u32 NO_WORD = ~0u;

using Quad = Vector<u32>;
constexpr u32 QUADS = RECORD / Quad::COUNT;
static_assert(RECORD % Quad::COUNT == 0, "records are loaded by vectors");

// Where the words of a rule are in `flat`, and how many there are.
struct Expansion {
    u32 place;
    u32 length;
};

__device__ __forceinline__ void load_quad(const u32* flat, u32 rule, u32 quad, u32 (&record)[RECORD]) {
    const Quad found = reinterpret_cast<const Quad*>(flat)[u64(rule) * QUADS + quad];
#pragma unroll
    for (u32 i = 0; i < Quad::COUNT; i++) record[quad * Quad::COUNT + i] = found.items[i];
}

__device__ __forceinline__ void load_record(const u32* flat, u32 rule, u32 (&record)[RECORD]) {
#pragma unroll
    for (u32 quad = 0; quad < QUADS; quad++) load_quad(flat, rule, quad, record);
}

__device__ __forceinline__ u32 record_length(const u32 (&record)[RECORD]) {
    if (record[0] == NO_WORD) return record[2];
    u32 length = 0;
#pragma unroll
    for (u32 i = 0; i < RECORD; i++) length += record[i] != NO_WORD;
    return length;
}

__device__ __forceinline__ Expansion expansion_of(const u32* flat, u32 rule) {
    u32 record[RECORD];
    load_record(flat, rule, record);
    return Expansion{record[0] == NO_WORD ? record[1] : rule * RECORD, record_length(record)};
}

// What is counted of a grammar, in one array that is 0 at first.
enum Total : u32 {
    // Words behind records.
    FLAT_WORDS,
    // Words of all rules in the root.
    RULE_WORDS,
    // Keys with counts.
    KEYS,
};

struct LevelShared {
    BlockSum<u64> sum;
    u64 begin;
};

// A thread alone looks at so many symbols, and writes so many words; else its warp does.
constexpr u32 SHORT_BODY = 8;
constexpr u32 SHORT_EXPANSION = 32;

// Symbols that a thread has under way.
constexpr u32 BODY_BATCH = 4;

// Records of some symbols of a body, those of words made up; behind `end` without any words.
struct Batch {
    u32 records[BODY_BATCH][RECORD];
};

__device__ __forceinline__ void load_batch(const u32* symbols, u32 at, u32 end, u32 terminals, const u32* flat,
                                           Batch& batch) {
    u32 found[BODY_BATCH];
#pragma unroll
    for (u32 i = 0; i < BODY_BATCH; i++) found[i] = at + i < end ? symbols[at + i] : NO_WORD;
#pragma unroll
    for (u32 i = 0; i < BODY_BATCH; i++) {
        if (found[i] != NO_WORD && found[i] >= terminals) {
            load_record(flat, found[i] - terminals, batch.records[i]);
        } else {
#pragma unroll
            for (u32 k = 0; k < RECORD; k++) batch.records[i][k] = k == 0 ? found[i] : NO_WORD;
            if (found[i] == NO_WORD) batch.records[i][2] = 0;
        }
    }
}

// A length that counts as too long wherever it is added up.
constexpr u64 LENGTH_MAX = ~0u;

// For a warp: the words of a body, from `to` on.
__device__ __forceinline__ void store_body(const u32* symbols, u32 first, u32 end, u32 terminals, u32* flat, u32* to) {
    for (u32 from = first; from < end; from += WARP_THREADS) {
        const u32 at = from + lane_index();
        const u32 symbol = at < end ? symbols[at] : NO_WORD;
        u32 record[RECORD];
        if (at < end && symbol >= terminals) {
            load_record(flat, symbol - terminals, record);
        } else {
#pragma unroll
            for (u32 i = 0; i < RECORD; i++) record[i] = i == 0 ? symbol : NO_WORD;
            if (at >= end) record[2] = 0;
        }
        const u32 length = record_length(record);
        const u32 up_to = warp_inclusive_sum(length);
        u32* own = to + up_to - length;
        const bool is_apart = record[0] == NO_WORD;
#pragma unroll
        for (u32 i = 0; i < RECORD; i++) {
            if (!is_apart && i < length) own[i] = record[i];
        }
        u32 apart = __ballot_sync(FULL_WARP, is_apart && length > 0);
        while (apart != 0) {
            const u32 lane = __ffs(apart) - 1;
            apart &= apart - 1;
            const u32 place = __shfl_sync(FULL_WARP, record[1], lane);
            const u32 many = __shfl_sync(FULL_WARP, length, lane);
            const u32 before = __shfl_sync(FULL_WARP, up_to, lane) - many;
            for (u32 i = lane_index(); i < many; i += WARP_THREADS) to[before + i] = flat[place + i];
        }
        to += __shfl_sync(FULL_WARP, up_to, WARP_THREADS - 1);
    }
}

// The records of the rules first_rule .. end_rule of one level, and their words where they take more. Rules that have no room
// for these are counted, and nothing may be decoded then. Sums stay below 2^63.
extern "C" __global__ void __launch_bounds__(THREADS)
level_records_kernel(const u32* symbols, const u32* rule_offsets, u32 first_rule, u32 end_rule, u32 rules, u32 terminals,
                     const u32* root_counts, u32* flat, u64 flat_size, u64* totals) {
    SHARED(LevelShared, shared);
    u64 in_root = 0;
    for (u64 group = u64(first_rule) + u64(blockIdx.x) * THREADS; group < end_rule; group += grid_threads()) {
        const u32 rule = u32(group) + threadIdx.x;
        const bool is_in = rule < end_rule;
        const u32 first = is_in ? rule_offsets[rule] : 0, end = is_in ? rule_offsets[rule + 1] : 0;
        u64 length = 0;
        for (u32 at = first; end - first <= SHORT_BODY && at < end; at += BODY_BATCH) {
            Batch batch;
            load_batch(symbols, at, end, terminals, flat, batch);
#pragma unroll
            for (u32 i = 0; i < BODY_BATCH; i++) length += record_length(batch.records[i]);
        }
        u32 long_bodies = __ballot_sync(FULL_WARP, end - first > SHORT_BODY);
        while (long_bodies != 0) {
            const u32 lane = __ffs(long_bodies) - 1;
            long_bodies &= long_bodies - 1;
            const u32 lane_first = __shfl_sync(FULL_WARP, first, lane), lane_end = __shfl_sync(FULL_WARP, end, lane);
            u64 sum = 0;
            for (u32 at = lane_first + lane_index(); at < lane_end; at += WARP_THREADS) {
                const u32 symbol = symbols[at];
                sum += symbol < terminals ? 1 : expansion_of(flat, symbol - terminals).length;
            }
            sum = warp_sum(sum);
            if (lane_index() == lane) length = sum;
        }
        length = min(length, LENGTH_MAX);
        u64 block_words;
        u64 place = block_exclusive_sum(length > RECORD ? length : u64(0), shared.sum, block_words);
        if (threadIdx.x == 0) {
            shared.begin = block_words > 0 ? atomicAdd(&totals[FLAT_WORDS], block_words) : 0;
        }
        if (is_in) in_root += min(root_counts[rule] * length, LENGTH_MAX);
        __syncthreads();
        place += u64(rules) * RECORD + shared.begin;
        const bool has_room = place + length <= flat_size;
        const bool is_record = length <= RECORD;
        const bool is_long = !is_record && (end - first > SHORT_BODY || length > SHORT_EXPANSION);
        u32* record = flat + u64(rule) * RECORD;
        if (is_in && !is_record) {
            record[0] = NO_WORD;
            record[1] = u32(place);
            record[2] = u32(length);
        }
        if (is_in && !is_long && (is_record || has_room)) {
            u32* to = is_record ? record : flat + place;
            for (u32 at = first; at < end; at += BODY_BATCH) {
                Batch batch;
                load_batch(symbols, at, end, terminals, flat, batch);
#pragma unroll
                for (u32 i = 0; i < BODY_BATCH; i++) {
                    const u32(&below)[RECORD] = batch.records[i];
                    if (below[0] == NO_WORD) {
                        for (u32 k = 0; k < below[2]; k++) *to++ = flat[below[1] + k];
                    } else {
#pragma unroll
                        for (u32 k = 0; k < RECORD; k++) {
                            if (below[k] != NO_WORD) *to++ = below[k];
                        }
                    }
                }
            }
            if (is_record && length == 0) {
                record[0] = NO_WORD;
                record[1] = record[2] = 0;
            } else if (is_record) {
                while (to < record + RECORD) *to++ = NO_WORD;
            }
        }
        u32 long_rules = __ballot_sync(FULL_WARP, is_in && is_long && has_room);
        while (long_rules != 0) {
            const u32 lane = __ffs(long_rules) - 1;
            long_rules &= long_rules - 1;
            const u32 lane_first = __shfl_sync(FULL_WARP, first, lane), lane_end = __shfl_sync(FULL_WARP, end, lane);
            store_body(symbols, lane_first, lane_end, terminals, flat, flat + __shfl_sync(FULL_WARP, place, lane));
        }
        // The next rules take room where these have theirs.
        __syncthreads();
    }
    u64 all_in_root;
    block_exclusive_sum(in_root, shared.sum, all_in_root);
    if (threadIdx.x == 0 && all_in_root > 0) atomicAdd(&totals[RULE_WORDS], all_in_root);
}

// Counts of words by file.

// Slots of the table of a tile, in buckets that are looked at together, and how often one is looked at.
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

// A block takes expansions of more words than this together.
constexpr u32 WARP_EXPANSION = 512;

struct CountShared {
    alignas(8) u32 keys[SLOTS];
    u32 counts[SLOTS];
    u32 words[WARPS][WARP_THREADS * RECORD];
    BlockSum<u32> sum;
    u64 begin;
    bool has_long;
};

// Where keys with counts go, as many as there is room for.
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
        // Others fill it meanwhile: then it is looked at again.
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
            // The words of all lanes, one after the other, so that lanes have as many each.
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

// The words of all files.

// sizes[i] = words of a symbol of the root.
extern "C" __global__ void __launch_bounds__(THREADS)
word_sizes_kernel(const u32* root, u64 count, u32 terminals, const u32* flat, u32* sizes) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        sizes[i] = root[i] < terminals ? 1 : expansion_of(flat, root[i] - terminals).length;
    }
}

// A root symbol: its word, or how much further its words are in `flat` than in the root; and its file.
struct RootSymbol {
    u32 value;
    u32 file;
};

// Set in `file` if the symbol is a rule. Files have fewer bits.
constexpr u32 IS_RULE = 1u << 31;

struct RootShared {
    ExpandShared<ROOT_TILE> expand;
    RootSymbol symbols[ROOT_TILE];
};

// The words of the root, with the file of each: keys[i] = word << file_bits | file. The words of root symbol s, whose owner
// is found here, begin at places[s].
extern "C" __global__ void __launch_bounds__(THREADS)
root_words_kernel(const u32* root, const u32* root_files, u32 root_count, const u32* places, u64 count,
                  const u32* flat, u32 terminals, u32 file_bits, u32* keys) {
    SHARED(RootShared, shared);
    const u64 first = u64(blockIdx.x) * ROOT_TILE;
    const u64 end = min(first + ROOT_TILE, count);
    const Owners here = block_owners(places, root_count, u32(first), u32(end), shared.expand);
    const auto symbol_of = [&](u32 owner) {
        const u32 symbol = root[here.first + owner], file = root_files[here.first + owner];
        if (symbol < terminals) return RootSymbol{symbol, file};
        return RootSymbol{expansion_of(flat, symbol - terminals).place - here.offsets[owner], file | IS_RULE};
    };
    // Each symbol is looked up once, unless many have no words.
    const bool fit = here.count <= ROOT_TILE;
    for (u32 i = threadIdx.x; fit && i < here.count; i += THREADS) shared.symbols[i] = symbol_of(i);
    __syncthreads();
    using V = Vector<u32>;
    constexpr u32 ROWS = ROOT_TILE / THREADS / V::COUNT;
    // A sort takes all keys, so that they are far fewer than u32 counts.
    u32 at[ROWS], owners[ROWS][V::COUNT];
#pragma unroll
    for (u32 row = 0; row < ROWS; row++) at[row] = u32(first) + (row * THREADS + threadIdx.x) * V::COUNT;
    owners_of_rows(here, at, owners);
#pragma unroll
    for (u32 row = 0; row < ROWS; row++) {
        V found;
#pragma unroll
        for (u32 i = 0; i < V::COUNT; i++) {
            const RootSymbol symbol = fit ? shared.symbols[owners[row][i]] : symbol_of(owners[row][i]);
            u32 word = symbol.value;
            if ((symbol.file & IS_RULE) != 0) word = at[row] + i < end ? flat[word + at[row] + i] : 0;
            found.items[i] = word << file_bits | (symbol.file & ~IS_RULE);
        }
        store_vector(keys, at[row], end, found);
    }
}

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

// From runs of keys, row << column_bits | column, of which `totals` tells the number and the sum: offsets [rows + 1] and
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

// Windows.

// keys[i] = the n words from word i on, or all ones where the file ends before; files[i] = its file. Without `files` it stands
// in the lowest bits of keys.
extern "C" __global__ void __launch_bounds__(THREADS)
word_windows_kernel(const u32* words, u64 count, u32 file_bits, u32 n, u32 bits, u64* keys, u32* files) {
    const u32 file_mask = (1u << file_bits) - 1;
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 file = words[i] & file_mask;
        u64 key = ~u64(0);
        // Files are in order.
        if (i + n <= count && (words[i + n - 1] & file_mask) == file) {
            key = 0;
            for (u32 k = 0; k < n; k++) key = key << bits | words[i + k] >> file_bits;
            if (files == nullptr) key = key << file_bits | file;
        }
        keys[i] = key;
        if (files != nullptr) files[i] = file;
    }
}

constexpr u32 WINDOW_TILE = FILE_WORDS_WINDOWS_TILE;
constexpr u32 WINDOW_ITEMS = WINDOW_TILE / THREADS;

// The most words of a window.
constexpr u32 WORDS_MAX = 8;

// How the words of all files make windows.
struct Text {
    // word << file_bits | file.
    const u32* words;
    u32 file_bits;
    u32 n;
    u32 bits;
    const CodePart* parts;
};

// Some words one after the other, of which a thread loads those of a window by vectors.
constexpr u32 NEAR_QUADS = (WORDS_MAX + Quad::COUNT - 2) / Quad::COUNT + 1;

__device__ __forceinline__ Coder code_at(const Text& text, u32 at) {
    Coder coder = new_coder();
    for (u32 k = 0; k < text.n; k++) add_word(coder, text.parts[text.words[at + k] >> text.file_bits]);
    return coder;
}

// Numbers of exact windows above those of others in one number of a look-back: both are fewer than 2^31.
constexpr u32 EXACT_SHIFT = 31;
constexpr u64 INEXACT_MASK = (u64(1) << EXACT_SHIFT) - 1;

struct CodesShared {
    TileSums<u64, WARPS> sums;
    u32 words[WINDOW_TILE + WORDS_MAX];
    CodePart parts[WINDOW_TILE + WORDS_MAX];
};

// Codes and places of all windows that are exact, and the places of others, in order. `totals` becomes how many there are.
extern "C" __global__ void __launch_bounds__(THREADS)
word_codes_kernel(const u32* words, u64 count, u32 file_bits, u32 n, u32 bits, const CodePart* parts, u64* look_back,
                  u32* ticket, u64* codes, u32* places, u32* inexact, u64* totals) {
    SHARED(CodesShared, shared);
    const u32 tile = only_tile(ticket, shared.sums);
    const u64 tile_first = u64(tile) * WINDOW_TILE;
    for (u32 i = threadIdx.x; i < WINDOW_TILE + n - 1; i += THREADS) {
        const bool is_in = tile_first + i < count;
        const u32 word = is_in ? words[tile_first + i] : 0;
        shared.words[i] = word;
        if (is_in) shared.parts[i] = parts[word >> file_bits];
    }
    __syncthreads();
    const u32 file_mask = (1u << file_bits) - 1;
    const u32 first = warp_index() * WINDOW_ITEMS * WARP_THREADS + lane_index();
    u64 code[WINDOW_ITEMS];
    u32 exact[WINDOW_ITEMS], others[WINDOW_ITEMS];
    u64 sum = 0;
#pragma unroll
    for (u32 i = 0; i < WINDOW_ITEMS; i++) {
        const u32 at = first + i * WARP_THREADS;
        Coder coder = new_coder();
        bool is_window = tile_first + at + n <= count;
        // Files are in order.
        is_window = is_window && ((shared.words[at] ^ shared.words[at + n - 1]) & file_mask) == 0;
        if (is_window) {
            for (u32 k = 0; k < n; k++) add_word(coder, shared.parts[at + k]);
        }
        code[i] = value_of(coder);
        exact[i] = __ballot_sync(FULL_WARP, is_window && is_exact(coder));
        others[i] = __ballot_sync(FULL_WARP, is_window && !is_exact(coder));
        sum += u64(__popc(exact[i])) << EXACT_SHIFT | __popc(others[i]);
    }
    u64 all;
    u64 place = sum_before_warp(look_back, sum, shared.sums, all);
    if (threadIdx.x == 0 && u64(tile + 1) * WINDOW_TILE >= count) {
        totals[0] = all >> EXACT_SHIFT;
        totals[1] = all & INEXACT_MASK;
    }
#pragma unroll
    for (u32 i = 0; i < WINDOW_ITEMS; i++) {
        const u32 at = u32(tile_first) + first + i * WARP_THREADS;
        if ((exact[i] >> lane_index()) & 1) {
            const u64 to = (place >> EXACT_SHIFT) + __popc(exact[i] & lanes_below());
            codes[to] = code[i];
            places[to] = at;
        } else if ((others[i] >> lane_index()) & 1) {
            inexact[(place & INEXACT_MASK) + __popc(others[i] & lanes_below())] = at;
        }
        place += u64(__popc(exact[i])) << EXACT_SHIFT | __popc(others[i]);
    }
}

// What orders inexact windows.
extern "C" __global__ void __launch_bounds__(THREADS)
word_rests_kernel(const u32* words, u32 file_bits, u32 n, u32 bits, const CodePart* parts, const u32* places, u64 count,
                  u64* keys) {
    const Text text{words, file_bits, n, bits, parts};
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 at = places[i];
        keys[i] = rest_key(code_at(text, at), n, bits, [&](u32 k) { return words[at + k] >> file_bits; });
    }
}

// Codes and places of inexact windows, which are in order, behind those of exact ones.
extern "C" __global__ void __launch_bounds__(THREADS)
rest_codes_kernel(const u32* words, u32 file_bits, u32 n, u32 bits, const CodePart* parts, const u32* inexact, u64 count,
                  u64 exact, u64* codes, u32* places) {
    const Text text{words, file_bits, n, bits, parts};
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 at = inexact[i];
        codes[exact + i] = value_of(code_at(text, at));
        places[exact + i] = at;
    }
}

// Rows above entries in one number of a look-back: both are fewer than 2^30.
constexpr u32 ROWS_SHIFT = 31;
constexpr u64 ENTRIES_MASK = (u64(1) << ROWS_SHIFT) - 1;

// A window in order: its words, in two parts if it has a code, and its file.
struct Window {
    u64 key;
    u64 rest;
    u32 file;
};

// Words of the first part of a window with a code.
__device__ __forceinline__ u32 first_words_of(u32 n) { return (n + 1) / 2; }

// There are vectors up to the one that the last word of all is in.
__device__ __forceinline__ Window window_at(const Text& text, u32 at) {
    const u32 shift = at % Quad::COUNT;
    u32 near[NEAR_QUADS * Quad::COUNT];
#pragma unroll
    for (u32 quad = 0; quad < NEAR_QUADS; quad++) {
        // Those behind the window are not looked at.
        const bool is_near = quad * Quad::COUNT < shift + text.n;
        const Quad found = is_near ? reinterpret_cast<const Quad*>(text.words)[at / Quad::COUNT + quad] : Quad{};
#pragma unroll
        for (u32 i = 0; i < Quad::COUNT; i++) near[quad * Quad::COUNT + i] = found.items[i];
    }
#pragma unroll
    for (u32 by = 1; by < Quad::COUNT; by *= 2) {
        if ((shift & by) == 0) continue;
#pragma unroll
        for (u32 i = 0; i + by < NEAR_QUADS * Quad::COUNT; i++) near[i] = near[i + by];
    }
    Window window{0, 0, near[0] & ((1u << text.file_bits) - 1)};
    const u32 first_words = first_words_of(text.n);
#pragma unroll
    for (u32 k = 0; k < WORDS_MAX; k++) {
        const u32 word = near[k] >> text.file_bits;
        if (k < first_words) {
            window.key = window.key << text.bits | word;
        } else if (k < text.n) {
            window.rest = window.rest << text.bits | word;
        }
    }
    return window;
}

// For a warp: what the lane before has; lane 0 takes what lane `last` has in another place.
template <typename T>
__device__ __forceinline__ T lane_before(T own, T other, u32 last) {
    const T below = __shfl_up_sync(FULL_WARP, own, 1);
    const T of_last = __shfl_sync(FULL_WARP, other, last);
    return lane_index() == 0 ? of_last : below;
}

// Sorted keys of windows with files, those of all ones last, which count for nothing: the runs of keys, and in them those of
// files. Row r begins with window row_firsts[r] and entry row_entries[r]; entry e with window entry_firsts[e]. `totals`, the
// number of windows on entry, becomes how many count, and behind it rows << ROWS_SHIFT | entries. With codes `values` are
// places; else they are files, or there are none and files stand in keys. Of rows the words are written, or the keys.
template <bool IS_CODED>
__device__ __forceinline__ void window_runs(const Text& text, const u64* keys, const u32* values, u64 count, u64* words,
                                            u32* ticket, u64* row_keys, u32* row_words, u32* row_firsts,
                                            u32* row_entries, u32* entry_firsts, u32* entry_files, u64* totals,
                                            TileSums<u64, WARPS>& shared) {
    const u32 tile = only_tile(ticket, shared);
    const u64 first = (u64(tile) * THREADS + warp_index() * WARP_THREADS) * WINDOW_ITEMS + lane_index();
    const bool is_packed = !IS_CODED && values == nullptr;
    const u64 no_key = is_packed ? ~u64(0) >> text.file_bits : ~u64(0);
    const auto load = [&](u64 at) {
        if constexpr (IS_CODED) return window_at(text, values[at]);
        const u64 key = keys[at];
        if (is_packed) return Window{key >> text.file_bits, 0, u32(key) & ((1u << text.file_bits) - 1)};
        return Window{key, 0, values[at]};
    };
    Window found[WINDOW_ITEMS];
#pragma unroll
    for (u32 i = 0; i < WINDOW_ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        found[i] = at < count ? load(at) : Window{no_key, 0, 0};
    }
    // A warp has consecutive windows: the one before a row of 32 is the last one of the row before.
    Window before{0, 0, 0};
    if (lane_index() == 0 && first > 0 && first < count) before = load(first - 1);
    u32 rows[WINDOW_ITEMS], entries[WINDOW_ITEMS];
    u64 sum = 0;
#pragma unroll
    for (u32 i = 0; i < WINDOW_ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        const Window& above = i == 0 ? before : found[i == 0 ? 0 : i - 1];
        const u32 last = i == 0 ? 0 : WARP_THREADS - 1;
        Window previous{lane_before(found[i].key, above.key, last), 0, lane_before(found[i].file, above.file, last)};
        if constexpr (IS_CODED) previous.rest = lane_before(found[i].rest, above.rest, last);
        const bool counts = IS_CODED ? at < count : found[i].key != no_key;
        const bool differs = found[i].key != previous.key || (IS_CODED && found[i].rest != previous.rest);
        const bool is_row = counts && (at == 0 || differs);
        rows[i] = __ballot_sync(FULL_WARP, is_row);
        entries[i] = __ballot_sync(FULL_WARP, is_row || (counts && found[i].file != previous.file));
        sum += u64(__popc(rows[i])) << ROWS_SHIFT | __popc(entries[i]);
        if (!counts && at < count && (at == 0 || previous.key != no_key)) totals[0] = at;
    }
    u64 all;
    const u64 place = sum_before_warp(words, sum, shared, all);
    if (threadIdx.x == 0 && u64(tile + 1) * WINDOW_ITEMS * THREADS >= count) totals[1] = all;
    u32 row = u32(place >> ROWS_SHIFT);
    u32 entry = u32(place & ENTRIES_MASK);
    const u32 first_words = IS_CODED ? first_words_of(text.n) : text.n;
    const u64 mask = (u64(1) << text.bits) - 1;
#pragma unroll
    for (u32 i = 0; i < WINDOW_ITEMS; i++) {
        const u32 at = u32(first + i * WARP_THREADS);
        const u32 own_entry = entry + __popc(entries[i] & lanes_below());
        if ((rows[i] >> lane_index()) & 1) {
            const u32 own_row = row + __popc(rows[i] & lanes_below());
            u32* to = row_words + u64(own_row) * text.n;
            for (u32 k = 0; row_words != nullptr && k < text.n; k++) {
                const bool is_first = k < first_words;
                const u64 part = is_first ? found[i].key : found[i].rest;
                to[k] = u32(part >> ((is_first ? first_words : text.n) - 1 - k) * text.bits & mask);
            }
            if (row_keys != nullptr) row_keys[own_row] = found[i].key;
            row_firsts[own_row] = at;
            row_entries[own_row] = own_entry;
        }
        if ((entries[i] >> lane_index()) & 1) {
            entry_firsts[own_entry] = at;
            entry_files[own_entry] = found[i].file;
        }
        row += __popc(rows[i]);
        entry += __popc(entries[i]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
window_runs_kernel(const u64* keys, const u32* files, u32 file_bits, u32 n, u32 bits, u64 count, u64* words,
                   u32* ticket, u64* row_keys, u32* row_words, u32* row_firsts, u32* row_entries, u32* entry_firsts,
                   u32* entry_files, u64* totals) {
    using Shared = TileSums<u64, WARPS>;
    SHARED(Shared, shared);
    const Text text{nullptr, file_bits, n, bits, nullptr};
    window_runs<false>(text, keys, files, count, words, ticket, row_keys, row_words, row_firsts, row_entries,
                       entry_firsts, entry_files, totals, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS)
coded_runs_kernel(const u32* all_words, u32 file_bits, u32 n, u32 bits, const u32* places, u64 count, u64* words,
                  u32* ticket, u32* row_words, u32* row_firsts, u32* row_entries, u32* entry_firsts, u32* entry_files,
                  u64* totals) {
    using Shared = TileSums<u64, WARPS>;
    SHARED(Shared, shared);
    const Text text{all_words, file_bits, n, bits, nullptr};
    window_runs<true>(text, nullptr, places, count, words, ticket, nullptr, row_words, row_firsts, row_entries,
                      entry_firsts, entry_files, totals, shared);
}

// entries[e] = file << 32 | windows.
extern "C" __global__ void __launch_bounds__(THREADS)
window_entries_kernel(const u32* firsts, const u32* files, u64 count, u32 windows, u64* entries) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        entries[i] = u64(files[i]) << 32 | ((i + 1 < count ? firsts[i + 1] : windows) - firsts[i]);
    }
}

// The windows of rows, and offsets [rows + 1] of their entries.
extern "C" __global__ void __launch_bounds__(THREADS)
window_rows_kernel(const u32* row_firsts, const u32* row_entries, u64 count, u32 windows, u32 entries, u32* counts,
                   u32* offsets) {
    for (u64 i = grid_thread(); i <= count; i += grid_threads()) {
        offsets[i] = i < count ? row_entries[i] : entries;
        if (i < count) counts[i] = (i + 1 < count ? row_firsts[i + 1] : windows) - row_firsts[i];
    }
}
