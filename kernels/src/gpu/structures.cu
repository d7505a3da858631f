// structures.cu: what look-ups need of a grammar: lengths, signatures, starts, parents, short texts, weights by file.
// In     rule_offsets [rules + 1]   u32   body of r: symbols[rule_offsets[r] .. rule_offsets[r + 1]]
//        symbols      [body symbols] u32  values >= terminal_count are rules, of lower levels
//        root, root_offsets               the files' symbols
// Out    lengths      [symbols]     u64   bytes of each expansion, saturating
//        signatures   [symbols]     u32   which words an expansion cannot contain
//        body_starts  [body symbols] u64  where each body symbol begins in its rule
//        keys, weights [capacity]         hash table of (symbol, file) -> occurrences
// Work   O(symbols), one launch a level; weights O(sum of body lengths over (rule, file))
// Map    a thread a rule, a warp for a long body; a thread a body symbol to copy texts
// Exact  integer sums; slots of the hash table depend on thread order, and never leave the device
// Why    most bodies have 2 to 8 symbols: a warp each would idle
#include "primitives.cuh"

constexpr u32 THREADS = STRUCTURE_THREADS;

// A body longer than this is worked on by the whole warp.
constexpr u32 LONG_BODY = 32;

// Texts up to so many bytes are kept for rules.
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

// counts[symbol] += its occurrences in `symbols`; positions[i] = i.
extern "C" __global__ void __launch_bounds__(THREADS)
count_symbols_kernel(const u32* symbols, u64 count, u32* counts, u32* positions) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        atomicAdd(&counts[symbols[i]], 1u);
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

__device__ __forceinline__ u64 weight_key(u32 symbol, u32 file) { return u64(symbol) << 32 | file; }

// A table is filled to three quarters at most.
__device__ __forceinline__ u64 entries_max(u64 mask) { return (mask + 1) / 4 * 3; }

// Adds to the weight of (symbol, file); a new pair is put behind `entries`. Sets `overflow` where the table is full.
__device__ __forceinline__ void add_weight(u64* keys, u32* weights, u64 mask, u32* entries, u32* entry_count,
                                           u32* overflow, u32 symbol, u32 file, u32 weight) {
    bool is_new;
    const u64 slot = hash_slot(keys, mask, weight_key(symbol, file), is_new);
    const u32 entry = is_new ? atomicAdd(entry_count, 1u) : 0;
    if (slot == NO_KEY || entry >= entries_max(mask)) {
        atomicMax(overflow, 1u);
        return;
    }
    if (is_new) entries[entry] = u32(slot);
    atomicAdd(&weights[slot], weight);
}

// The weights of the symbols of the root.
extern "C" __global__ void __launch_bounds__(THREADS)
root_weights_kernel(const u32* root, u64 count, const u32* root_files, u64* keys, u32* weights, u64 mask, u32* entries,
                    u32* entry_count, u32* overflow) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        if (load_relaxed(overflow) != 0) return;
        add_weight(keys, weights, mask, entries, entry_count, overflow, root[i], root_files[i], 1);
    }
}

// Hands the weights of the rules first .. end, of one level, down to what their bodies have. `seen` is the number of
// entries before: those of the level are among them, as all come from the root or higher levels.
extern "C" __global__ void __launch_bounds__(THREADS)
level_weights_kernel(const u32* rule_offsets, const u32* symbols, u32 terminal_count, u32 first, u32 end, u64* keys,
                     u32* weights, u64 mask, u32* entries, u32* entry_count, const u32* seen, u32* overflow) {
    const u64 count = min(u64(*seen), entries_max(mask));
    const u64 rounds = (count + grid_threads() - 1) / grid_threads();
    for (u64 round = 0; round < rounds; round++) {
        const u64 i = round * grid_threads() + grid_thread();
        u32 from = 0, to = 0, file = 0, weight = 0;
        if (i < count && load_relaxed(overflow) == 0) {
            const u32 slot = entries[i];
            const u64 key = keys[slot];
            const u32 symbol = u32(key >> 32);
            if (symbol >= terminal_count + first && symbol < terminal_count + end) {
                from = rule_offsets[symbol - terminal_count];
                to = rule_offsets[symbol - terminal_count + 1];
                file = u32(key);
                weight = weights[slot];
            }
        }
        if (to - from <= LONG_BODY) {
            for (u32 at = from; at < to; at++) {
                add_weight(keys, weights, mask, entries, entry_count, overflow, symbols[at], file, weight);
            }
        }
        u32 is_long = __ballot_sync(FULL_WARP, to - from > LONG_BODY);
        while (is_long != 0) {
            const u32 lane = __ffs(is_long) - 1;
            is_long &= is_long - 1;
            const u32 body = __shfl_sync(FULL_WARP, from, lane);
            const u32 body_end = __shfl_sync(FULL_WARP, to, lane);
            const u32 body_file = __shfl_sync(FULL_WARP, file, lane);
            const u32 body_weight = __shfl_sync(FULL_WARP, weight, lane);
            for (u32 at = body + lane_index(); at < body_end; at += WARP_THREADS) {
                add_weight(keys, weights, mask, entries, entry_count, overflow, symbols[at], body_file, body_weight);
            }
        }
    }
}
