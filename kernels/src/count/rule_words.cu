// rule_words.cu: the words of all rules, level by level.
// In     the arrays of a grammar over words: bodies, and the rules of a level
//        root_counts [rules] u32: how often each occurs in the root itself
// Out    flat u32: a record for each rule, then the words of rules that exceed a record; totals of words
// Work   reads each body once, and the records of its symbols
// Map    a thread a rule, a warp for what is longer
// Exact  sums; places of words depend on the order of blocks, and nothing on places
#include "rule_words.cuh"

constexpr u32 THREADS = RULE_WORDS_THREADS;
constexpr u32 WARPS = THREADS / WARP_THREADS;

struct LevelShared {
    BlockSum<u64> sum;
    u64 begin;
};

// The symbols of a body, and the words of an expansion, up to which one thread takes a rule; a warp takes longer ones.
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
