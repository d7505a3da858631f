// structures.cu: what look-ups need of a grammar: lengths, signatures, starts, parents, short texts, weights by file.
// In     rule_offsets [rules + 1]   u32   body of r: symbols[rule_offsets[r] .. rule_offsets[r + 1]]
//        symbols      [body symbols] u32  values >= terminal_count are rules, of lower levels
//        root, root_offsets               the files' symbols
// Out    lengths      [symbols]     u64   bytes of each expansion, saturating
//        signatures   [symbols]     u32   which words an expansion cannot contain
//        body_starts  [body symbols] u64  where each body symbol begins in its rule
//        keys, weights [capacity]         hash table of (symbol, file) -> occurrences
// Work   O(symbols), one launch a level; weights O(sum of body lengths over (rule, file))
// Map    a thread a rule, a warp for a long body; a thread a body symbol to copy texts and to add weights
// Exact  integer sums; slots of the hash table depend on thread order, and never leave the device
// Why    most bodies have 2 to 8 symbols: a warp each would idle. Of rfc_txt's entries a level has one in 14, which blocks
//        gather first, and what is new is counted a block at a time: with an atomic each on one address, and all keys
//        looked up for each level, its weights took 17 ms in place of 3.4 (H200)
#include "primitives.cuh"

constexpr u32 THREADS = STRUCTURE_THREADS;

// A body longer than this is worked on by the whole warp.
constexpr u32 LONG_BODY = 32;

// Longest text that is kept for a rule.
constexpr u64 TEXT_BYTES_MAX = SHORT_TEXT_BYTES;

__device__ __forceinline__ u64 add_saturating(u64 a, u64 b) {
    const u64 sum = a + b;
    return sum < a ? ~u64(0) : sum;
}

__device__ __forceinline__ u64 warp_inclusive_saturating(u64 value) {
#pragma unroll
    for (u32 distance = 1; distance < WARP_THREADS; distance *= 2) {
        const u64 below = __shfl_up_sync(FULL_WARP, value, distance);
        if (lane_index() >= distance) value = add_saturating(below, value);
    }
    return value;
}

// The rules first .. end of one level; those below are final.
extern "C" __global__ void __launch_bounds__(THREADS)
measure_level_kernel(const u32* rule_offsets, const u32* symbols, u32 terminal_count, u32 first, u32 end, u64* lengths,
                     u32* signatures, u64* body_starts) {
    const u32 rule = first + u32(grid_thread());
    u32 from = 0, to = 0;
    if (rule < end) {
        from = rule_offsets[rule];
        to = rule_offsets[rule + 1];
    }
    u64 length = 0;
    u32 signature = 0;
    if (to - from <= LONG_BODY) {
        for (u32 at = from; at < to; at++) {
            const u32 symbol = symbols[at];
            body_starts[at] = length;
            length = add_saturating(length, lengths[symbol]);
            signature |= signatures[symbol];
        }
    }
    u32 is_long = __ballot_sync(FULL_WARP, to - from > LONG_BODY);
    while (is_long != 0) {
        const u32 lane = __ffs(is_long) - 1;
        is_long &= is_long - 1;
        const u32 body = __shfl_sync(FULL_WARP, from, lane);
        const u32 body_end = __shfl_sync(FULL_WARP, to, lane);
        u64 before = 0;
        u32 bits = 0;
        for (u32 start = body; start < body_end; start += WARP_THREADS) {
            const u32 at = start + lane_index();
            const u32 symbol = at < body_end ? symbols[at] : 0;
            const u64 own = at < body_end ? lengths[symbol] : 0;
            if (at < body_end) bits |= signatures[symbol];
            const u64 inclusive = add_saturating(before, warp_inclusive_saturating(own));
            u64 exclusive = __shfl_up_sync(FULL_WARP, inclusive, 1);
            if (lane_index() == 0) exclusive = before;
            if (at < body_end) body_starts[at] = exclusive;
            before = __shfl_sync(FULL_WARP, inclusive, WARP_THREADS - 1);
        }
#pragma unroll
        for (u32 distance = WARP_THREADS / 2; distance > 0; distance /= 2) {
            bits |= __shfl_xor_sync(FULL_WARP, bits, distance);
        }
        if (lane_index() == lane) {
            length = before;
            signature = bits;
        }
    }
    if (rule < end) {
        lengths[terminal_count + rule] = length;
        signatures[terminal_count + rule] = signature;
    }
}

// The length of each symbol of the root.
extern "C" __global__ void __launch_bounds__(THREADS)
gather_lengths_kernel(const u32* root, u64 count, const u64* lengths, u64* out) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) out[i] = lengths[root[i]];
}

// file_starts[f] = where file f begins.
extern "C" __global__ void __launch_bounds__(THREADS)
file_starts_kernel(const u32* root_offsets, u64 count, const u64* root_starts, u64* file_starts) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) file_starts[i] = root_starts[root_offsets[i]];
}

// Parents.

// keys[i] = symbols[i], positions[i] = i.
extern "C" __global__ void __launch_bounds__(THREADS)
place_keys_kernel(const u32* symbols, u64 count, u32* keys, u32* positions) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        keys[i] = symbols[i];
        positions[i] = u32(i);
    }
}

// Short texts.

// Bytes of text that are kept of each symbol.
extern "C" __global__ void __launch_bounds__(THREADS)
text_sizes_kernel(const u64* lengths, u32 terminal_count, u64 symbol_count, u32* sizes) {
    for (u64 i = grid_thread(); i < symbol_count; i += grid_threads()) {
        const bool is_kept = i < terminal_count || lengths[i] <= TEXT_BYTES_MAX;
        // A token is shorter than 4 GiB.
        sizes[i] = is_kept ? u32(lengths[i]) : 0;
    }
}

// Copies the texts of the body symbols first .. end, of one level, to their rules' texts.
extern "C" __global__ void __launch_bounds__(THREADS)
copy_texts_kernel(const u32* symbols, const u32* body_rules, u32 terminal_count, u32 first, u32 end,
                  const u64* body_starts, const u32* text_offsets, u8* texts) {
    const u64 at = first + grid_thread();
    if (at >= end) return;
    const u32 rule = terminal_count + body_rules[at];
    const u32 to = text_offsets[rule];
    if (text_offsets[rule + 1] == to) return;
    const u32 from = text_offsets[symbols[at]];
    const u32 size = text_offsets[symbols[at] + 1] - from;
    u8* target = texts + to + body_starts[at];
    for (u32 i = 0; i < size; i++) target[i] = texts[from + i];
}

// Weights by file.

// Look-ups that a thread waits for at a time.
constexpr u32 ADDS = STRUCTURE_ADDS;
// Entries that a block looks through at a time.
constexpr u32 ENTRIES_TILE = STRUCTURE_ENTRIES_TILE;
constexpr u32 ENTRIES = ENTRIES_TILE / THREADS;

// What is counted of a table: pairs, rules' pairs, the latter before a level, and whether there are too many pairs.
struct WeightsState {
    u32 pairs;
    u32 entries;
    u32 seen;
    u32 is_full;
};

// The hash table: keys and weights [mask + 1]. `entries` lists the pairs of rules: symbol << 32 | slot.
struct WeightTable {
    u64* keys;
    u32* weights;
    u64 mask;
    u64* entries;
    WeightsState* state;
};

// Bit i of `set` says whether the i-th is one.
struct Adds {
    u32 symbols[ADDS];
    u32 files[ADDS];
    u32 weights[ADDS];
    u32 set;
};

struct AddShared {
    BlockSum<u32> sum;
    u32 first;
    u32 is_full;
};

// A table is filled to three quarters at most.
__device__ __forceinline__ u64 entries_max(u64 mask) { return (mask + 1) / 4 * 3; }

__device__ __forceinline__ u64 weight_key(u32 symbol, u32 file) { return u64(symbol) << 32 | file; }

// For a block: whether the table was too small. Ends behind a barrier.
__device__ __forceinline__ bool is_table_full(const WeightTable& table, AddShared& shared) {
    if (threadIdx.x == 0) shared.is_full = load_relaxed(&table.state->is_full);
    __syncthreads();
    return shared.is_full != 0;
}

// For a block: adds to the weights of pairs of a symbol and a file; new pairs of rules are listed. Ends behind a barrier.
__device__ __forceinline__ void add_weights(const WeightTable& table, u32 terminal_count, const Adds& adds,
                                            AddShared& shared) {
    u64 found[ADDS];
#pragma unroll
    for (u32 i = 0; i < ADDS; i++) {
        const u64 key = weight_key(adds.symbols[i], adds.files[i]);
        found[i] = (adds.set >> i) & 1 ? load_relaxed(&table.keys[mix(key) & table.mask]) : NO_KEY;
    }
    u32 slots[ADDS];
    // Pairs that are new, and those of them that are listed.
    u32 fresh = 0, listed = 0;
#pragma unroll
    for (u32 i = 0; i < ADDS; i++) {
        slots[i] = 0;
        if (((adds.set >> i) & 1) == 0) continue;
        const u64 key = weight_key(adds.symbols[i], adds.files[i]);
        bool is_new = false;
        const u64 slot = found[i] == key ? mix(key) & table.mask : hash_slot(table.keys, table.mask, key, is_new);
        if (slot == NO_KEY) {
            atomicMax(&table.state->is_full, 1u);
            continue;
        }
        // Less than 2^32 slots, as an entry takes 8 bytes.
        slots[i] = u32(slot);
        atomicAdd(&table.weights[slot], adds.weights[i]);
        fresh += is_new;
        listed |= u32(is_new && adds.symbols[i] >= terminal_count) << i;
    }
    u32 total;
    const u32 before = block_exclusive_sum(fresh << 16 | __popc(listed), shared.sum, total);
    if (total == 0) return;
    if (threadIdx.x == 0) {
        const u32 pairs = atomicAdd(&table.state->pairs, total >> 16);
        if (u64(pairs) + (total >> 16) > entries_max(table.mask)) atomicMax(&table.state->is_full, 1u);
        shared.first = atomicAdd(&table.state->entries, total & 0xffff);
    }
    __syncthreads();
    u32 place = shared.first + (before & 0xffff);
#pragma unroll
    for (u32 i = 0; i < ADDS; i++) {
        if ((listed >> i) & 1) {
            // At most the number of pairs.
            table.entries[place] = u64(adds.symbols[i]) << 32 | slots[i];
            place++;
        }
    }
    __syncthreads();
}

// The weights of the symbols of the root.
extern "C" __global__ void __launch_bounds__(THREADS)
root_weights_kernel(const u32* root, u64 count, const u32* root_files, u32 terminal_count, u64* keys, u32* weights,
                    u64 mask, u64* entries, WeightsState* state) {
    SHARED(AddShared, shared);
    const WeightTable table{keys, weights, mask, entries, state};
    const u64 step = u64(gridDim.x) * THREADS * ADDS;
    for (u64 first = u64(blockIdx.x) * THREADS * ADDS; first < count; first += step) {
        if (is_table_full(table, shared)) return;
        Adds adds;
        adds.set = 0;
#pragma unroll
        for (u32 i = 0; i < ADDS; i++) {
            const u64 at = first + i * THREADS + threadIdx.x;
            adds.set |= u32(at < count) << i;
            adds.symbols[i] = at < count ? root[at] : 0;
            adds.files[i] = at < count ? root_files[at] : 0;
            adds.weights[i] = 1;
        }
        add_weights(table, terminal_count, adds, shared);
    }
}

struct LevelShared {
    AddShared add;
    BlockSum<u32> found_sum;
    BlockSum<u64> length_sum;
    // Entries of the level.
    u64 found[ENTRIES_TILE];
    // For some of these: how many body symbols those up to it have, where its body begins, file and weight.
    u64 ends[THREADS];
    u32 bodies[THREADS];
    u32 files[THREADS];
    u32 weights[THREADS];
};

// Hands the weights of the rules first .. end, of one level, down to what their bodies have: those of the level are among
// the entries seen before, as all come from the root or higher levels.
extern "C" __global__ void __launch_bounds__(THREADS)
level_weights_kernel(const u32* rule_offsets, const u32* symbols, u32 terminal_count, u32 first, u32 end, u64* keys,
                     u32* weights, u64 mask, u64* entries, WeightsState* state) {
    SHARED(LevelShared, shared);
    const WeightTable table{keys, weights, mask, entries, state};
    const u32 seen = state->seen;
    for (u64 tile = u64(blockIdx.x) * ENTRIES_TILE; tile < seen; tile += u64(gridDim.x) * ENTRIES_TILE) {
        u64 own[ENTRIES];
#pragma unroll
        for (u32 i = 0; i < ENTRIES; i++) {
            const u64 at = tile + i * THREADS + threadIdx.x;
            own[i] = at < seen ? entries[at] : 0;
        }
        u32 is_found = 0;
#pragma unroll
        for (u32 i = 0; i < ENTRIES; i++) {
            const u32 symbol = u32(own[i] >> 32);
            is_found |= u32(symbol >= terminal_count + first && symbol < terminal_count + end) << i;
        }
        u32 found;
        u32 place = block_exclusive_sum(u32(__popc(is_found)), shared.found_sum, found);
#pragma unroll
        for (u32 i = 0; i < ENTRIES; i++) {
            if ((is_found >> i) & 1) shared.found[place++] = own[i];
        }
        __syncthreads();
        for (u32 chunk = 0; chunk < found; chunk += THREADS) {
            const u32 in_chunk = min(THREADS, found - chunk);
            u64 length = 0;
            if (threadIdx.x < in_chunk) {
                const u64 entry = shared.found[chunk + threadIdx.x];
                const u32 rule = u32(entry >> 32) - terminal_count;
                const u32 body = rule_offsets[rule];
                length = rule_offsets[rule + 1] - body;
                shared.bodies[threadIdx.x] = body;
                // All keys have been there since the level before.
                shared.files[threadIdx.x] = u32(keys[u32(entry)]);
                shared.weights[threadIdx.x] = weights[u32(entry)];
            }
            u64 total;
            const u64 before = block_exclusive_sum(length, shared.length_sum, total);
            shared.ends[threadIdx.x] = before + length;
            __syncthreads();
            for (u64 from = 0; from < total; from += THREADS * ADDS) {
                if (is_table_full(table, shared.add)) return;
                Adds adds;
                adds.set = 0;
#pragma unroll
                for (u32 i = 0; i < ADDS; i++) {
                    const u64 at = from + i * THREADS + threadIdx.x;
                    const bool is_set = at < total;
                    const u32 owner = is_set ? u32(count_at_most(shared.ends, in_chunk, at)) : 0;
                    const u64 owner_first = owner > 0 ? shared.ends[owner - 1] : 0;
                    adds.set |= u32(is_set) << i;
                    adds.symbols[i] = is_set ? symbols[shared.bodies[owner] + (at - owner_first)] : 0;
                    adds.files[i] = shared.files[owner];
                    adds.weights[i] = shared.weights[owner];
                }
                add_weights(table, terminal_count, adds, shared.add);
            }
            __syncthreads();
        }
    }
}
