// symbol_coder.cu: symbols of bodies and roots to the blocks of a segment file.
// In     symbols [symbols]: bodies, then roots; rule_offsets [rules + 1] into them
//        chunks [chunks + 1]: where chunks begin among the coded symbols, which are all but the first of each body
//        ends [symbols of the grammar] u32: how a symbol begins, ends, what is before its end, how frequent it is
// Out    counts for tables; words [2 * (coded + chunks)], of which each chunk fills the end of its own
// Work   a few passes over the coded symbols, one sort of them; coding a chunk takes steps one after the other
// Map    a thread a symbol; for what has an order in a chunk, a warp a chunk, whose first lane codes
// Exact  integer sums, ranks from stable sorts; a chunk is coded as the CPU does, step by step
#include "primitives.cuh"

constexpr u32 THREADS = CODER_THREADS;
constexpr u32 CHUNK_SYMBOLS = CODER_CHUNK_SYMBOLS;
constexpr u32 FREQUENCIES = CODER_FREQUENCIES;
constexpr u32 REPEATS = CODER_REPEATS;
constexpr u32 ACTIONS = REPEATS + FREQUENCIES;
constexpr u32 FILLS = CODER_FILLS;
constexpr u32 GROUPS_MAX = CODER_GROUPS_MAX;
constexpr u32 HISTORY = CODER_HISTORY;
constexpr u32 CLASSES_MAX = CODER_CLASSES_MAX;
// A repeat must save this factor of probability to be worth its own action.
constexpr u32 REPEAT_GAIN = CODER_REPEAT_GAIN;

// No place, no bucket.
constexpr u32 NOWHERE = ~0u;

// Where a coded symbol stands.
struct Place {
    // Among all symbols.
    u32 at;
    // How many symbols before it are known to its context: 0, 1, or 2 for more.
    u32 known;
};

// Places are packed: their index, and what is known in the upper bits.
constexpr u32 KNOWN_SHIFT = 30;
constexpr u32 AT_MASK = (1u << KNOWN_SHIFT) - 1;

__device__ __forceinline__ Place unpacked(u32 place) { return Place{place & AT_MASK, place >> KNOWN_SHIFT}; }

// Finds the place of each coded symbol, and counts how often each symbol is coded. owners[i] is the rule that has symbol i,
// of the first `body_symbols`.
extern "C" __global__ void __launch_bounds__(THREADS)
coded_places_kernel(const u32* symbols, u32 count, u32 body_symbols, const u32* rule_offsets, u32 rules,
                    const u32* owners, u32* coded, u32* places, u32* indices, u32* uses) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        u32 known = 0, coded_at = u32(i) - rules;
        if (i < body_symbols) {
            const u32 rule = owners[i];
            known = min(u32(i) - rule_offsets[rule], 2u);
            if (known == 0) continue;
            coded_at = u32(i) - rule - 1;
        } else {
            known = min((u32(i) - body_symbols) % CHUNK_SYMBOLS, 2u);
        }
        const u32 symbol = symbols[i];
        coded[coded_at] = symbol;
        places[coded_at] = u32(i) | known << KNOWN_SHIFT;
        indices[coded_at] = coded_at;
        atomicAdd(&uses[symbol], 1u);
    }
}

// Decides which coded symbols are looked for nearby. `sorted` are the coded symbols in order, `indices` where they stand.
// previous[i] = where the symbol stood last, if that is near and in the chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
previous_kernel(const u32* sorted, const u32* indices, u32 count, const u32* chunks, u32 chunk_count, const u32* uses,
                u32* previous, u32* repeats) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 symbol = sorted[i], index = indices[i];
        u32 found = NOWHERE;
        if (i > 0 && sorted[i - 1] == symbol) {
            const u32 before = indices[i - 1];
            const bool is_near = u64(index - before) * uses[symbol] < (u64(count) + REPEAT_GAIN - 1) / REPEAT_GAIN;
            if (is_near && before >= chunks[owner_of(chunks, 0, chunk_count, index)]) {
                found = before;
                atomicAdd(&repeats[symbol], 1u);
            }
        }
        previous[index] = found;
    }
}

// The width in bits of how often each symbol is coded as new.
extern "C" __global__ void __launch_bounds__(THREADS)
frequencies_kernel(const u32* uses, const u32* repeats, u32 count, u8* frequencies) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        frequencies[i] = u8(32 - __clz(i32(uses[i] - repeats[i])));
    }
}

// Whether a coded symbol is in a chunk that is examined: every `step`-th one.
__device__ __forceinline__ bool is_sampled(const u32* chunks, u32 chunk_count, u32 step, u32 index) {
    return step == 1 || owner_of(chunks, 0, chunk_count, index) % step == 0;
}

// keys[i] = what stands before a coded symbol and the symbol, as rights << bits | lefts; all keys of no pair are alike and
// come last.
extern "C" __global__ void __launch_bounds__(THREADS)
neighbours_kernel(const u32* symbols, const u32* places, u32 count, const u32* chunks, u32 chunk_count, u32 step,
                  const u32* lefts, const u32* rights, u32 bits, u64* keys) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const Place place = unpacked(places[i]);
        u64 key = u64(1) << 2 * bits;
        if (place.known > 0 && is_sampled(chunks, chunk_count, step, u32(i))) {
            key = u64(rights[symbols[place.at - 1]]) << bits | lefts[symbols[place.at]];
        }
        keys[i] = key;
    }
}

// What is known of a symbol, unpacked.
struct Ends {
    u32 left;
    u32 right;
    // NONE for a terminal.
    u32 before;
    u32 frequency;
};

constexpr u32 NONE = 0xff;

__device__ __forceinline__ Ends unpacked_ends(u32 ends) {
    return Ends{ends & 0xff, ends >> 8 & 0xff, ends >> 16 & 0xff, ends >> 24};
}

// The right classes of the last two symbols.
struct Past {
    u32 last;
    u32 before;
};

__device__ __forceinline__ Past past_of(const u32* symbols, const u32* ends, Place place, u32 classes) {
    Past past{classes, classes};
    if (place.known == 0) return past;
    const Ends last = unpacked_ends(ends[symbols[place.at - 1]]);
    past.last = last.right;
    if (last.before != NONE) {
        past.before = last.before;
    } else if (place.known == 2) {
        past.before = unpacked_ends(ends[symbols[place.at - 2]]).right;
    }
    return past;
}

// counts[last][before][class] += 1 for each coded symbol of the sample.
extern "C" __global__ void __launch_bounds__(THREADS)
past_counts_kernel(const u32* symbols, const u32* places, u32 count, const u32* chunks, u32 chunk_count, u32 step,
                   const u32* ends, u32 classes, u32* counts) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        if (!is_sampled(chunks, chunk_count, step, u32(i))) continue;
        const Place place = unpacked(places[i]);
        const Past past = past_of(symbols, ends, place, classes);
        const u32 left = unpacked_ends(ends[symbols[place.at]]).left;
        atomicAdd(&counts[(past.last * (classes + 1) + past.before) * classes + left], 1u);
    }
}

// Buckets: the symbols of one class and one frequency class.

// keys[symbol] = its bucket, `buckets` for one that is never coded as new.
extern "C" __global__ void __launch_bounds__(THREADS)
buckets_kernel(const u32* ends, u32 count, u32 buckets, u32* keys, u32* symbols) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const Ends own = unpacked_ends(ends[i]);
        keys[i] = own.frequency > 0 ? own.left * FREQUENCIES + own.frequency - 1 : buckets;
        symbols[i] = u32(i);
    }
}

// Gives each symbol its rank in its bucket. keys and symbols are sorted; bucket b begins at starts[b].
extern "C" __global__ void __launch_bounds__(THREADS)
bucket_ranks_kernel(const u32* keys, const u32* symbols, u32 count, const u32* starts, u32* ranks) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) ranks[symbols[i]] = u32(i) - starts[keys[i]];
}

// Digits: a class, or that of lanes without a symbol.
constexpr u32 CLASS_BITS = 8;
static_assert(CLASSES_MAX < 1 << CLASS_BITS, "no class is left for lanes without a symbol");

constexpr u32 WARPS = THREADS / WARP_THREADS;

struct MetShared {
    u32 met[WARPS][CLASSES_MAX];
};

// met[i] = how many symbols of its class the chunk has coded before. A warp a chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
met_kernel(const u32* coded, const u32* ends, const u32* chunks, u32 chunk_count, u32* met) {
    SHARED(MetShared, shared);
    const u32 chunk = blockIdx.x * WARPS + warp_index();
    if (chunk >= chunk_count) return;
    u32* counts = shared.met[warp_index()];
    for (u32 i = lane_index(); i < CLASSES_MAX; i += WARP_THREADS) counts[i] = 0;
    __syncwarp();
    const u32 first = chunks[chunk], end = chunks[chunk + 1];
    for (u32 row = first; row < end; row += WARP_THREADS) {
        const u32 i = row + lane_index();
        const u32 left = i < end ? unpacked_ends(ends[coded[i]]).left : CLASSES_MAX;
        const u32 equal = lanes_of_digit<CLASS_BITS>(left);
        const u32 below = __popc(equal & lanes_below());
        u32 before = 0;
        if (below == 0 && i < end) {
            before = counts[left];
            counts[left] = before + __popc(equal);
        }
        before = __shfl_sync(FULL_WARP, before, __ffs(i32(equal)) - 1);
        if (i < end) met[i] = before + below;
        __syncwarp();
    }
}


// Where the raw bits of an event begin in its action.
constexpr u32 BITS_SHIFT = 24;

// What is written of each coded symbol: its class and its action as indices of shares, and raw bits. Counts both.
extern "C" __global__ void __launch_bounds__(THREADS)
events_kernel(const u32* symbols, const u32* places, u32 count, const u32* chunks, u32 chunk_count, const u32* ends,
              const u32* previous, const u32* met, const u16* contexts, const u8* groups, const u32* limits,
              const u32* bucket_symbols, const u32* bucket_starts, const u32* ranks, u32 classes, u32 body_chunks,
              u32* event_classes, u32* event_actions, u32* event_values, u32* class_counts, u32* action_counts) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const Place place = unpacked(places[i]);
        const u32 symbol = symbols[place.at];
        const Ends own = unpacked_ends(ends[symbol]);
        const u32 chunk = u32(owner_of(chunks, 0, chunk_count, u32(i)));
        const u32 own_met = met[i];
        u32 distance = HISTORY;
        const u32 before = previous[i];
        if (before != NOWHERE) distance = own_met - met[before] - 1;
        u32 action, value, bits;
        if (distance < HISTORY) {
            action = 32 - __clz(i32(distance));
            bits = action > 0 ? action - 1 : 0;
            value = distance & ((1u << bits) - 1);
        } else {
            action = REPEATS + own.frequency - 1;
            const u32 bucket = own.left * FREQUENCIES + own.frequency - 1;
            const u32 first = bucket_starts[bucket];
            // At least 1: the symbol itself.
            const u32 size =
                u32(count_at_most(bucket_symbols + first, bucket_starts[bucket + 1] - first, limits[chunk] - 1));
            // A short form for the first values, a bit more for others.
            bits = 31 - __clz(i32(size));
            const u32 half = 1u << bits, rank = ranks[symbol];
            const u32 short_end = half - (size - half);
            value = rank;
            if (rank >= short_end) {
                const u32 rest = rank - short_end;
                value = (rest & 1) << bits | (short_end + (rest >> 1));
                bits++;
            }
        }
        const Past past = past_of(symbols, ends, place, classes);
        const u32 context = contexts[past.last * GROUPS_MAX + groups[past.before]];
        const u32 logarithm = 31 - __clz(i32(own_met / 16 + 1));
        const u32 fill = min(logarithm, FILLS - 1);
        const u32 part = chunk >= body_chunks ? 1 : 0;
        const u32 class_index = (context + 1) * classes + own.left;
        const u32 action_index = ((part * classes + own.left) * FILLS + fill) * ACTIONS + action;
        event_classes[i] = class_index;
        event_actions[i] = action_index | bits << BITS_SHIFT;
        event_values[i] = value;
        atomicAdd(&class_counts[class_index], 1u);
        atomicAdd(&action_counts[action_index], 1u);
    }
}

// Coding.

constexpr u32 PROBABILITY_BITS = CODER_PROBABILITY_BITS;
constexpr u32 WORD_BITS = 32;
// States are at least this between operations.
constexpr u64 STATE_MIN = u64(1) << 31;

// A symbol's share, start << 16 | frequency, with what divides by the frequency.
struct SharePush {
    u64 reciprocal;
    u32 share;
};

// What is pushed of one event.
struct Push {
    SharePush in_classes;
    SharePush in_actions;
    u32 value;
    u32 bits;
};

__device__ __forceinline__ SharePush push_of(const u32* shares, const u64* reciprocals, u32 index) {
    const u32 share = shares[index];
    return SharePush{reciprocals[share & 0xffff], share};
}

// A block that is written from its end to its beginning, as the CPU's Encoder does it.
struct BlockWriter {
    u64 state;
    // The last word written, or behind the first.
    u32* next;

    __device__ __forceinline__ void flush_word() {
        *--next = u32(state);
        state >>= WORD_BITS;
    }

    __device__ __forceinline__ void push_raw(u32 value, u32 bits) {
        if (state >= (STATE_MIN << WORD_BITS) >> bits) flush_word();
        state = state << bits | value;
    }

    __device__ __forceinline__ void push(SharePush push) {
        const u64 frequency = push.share & 0xffff;
        if (state >= ((STATE_MIN >> PROBABILITY_BITS) << WORD_BITS) * frequency) flush_word();
        // One too small at most, as the state is below 2^63.
        u64 quotient = __umul64hi(state, push.reciprocal);
        u64 rest = state - quotient * frequency;
        if (rest >= frequency) {
            rest -= frequency;
            quotient++;
        }
        state = (quotient << PROBABILITY_BITS) + rest + (push.share >> 16);
    }
};

struct CodeShared {
    Push pushes[WARP_THREADS];
};

// Codes each chunk into the end of its words, and stores the number of its words. A block of one warp a chunk: its lanes fetch what is
// pushed, the first one pushes. reciprocals[f] = (2^64 - 1) / f.
extern "C" __global__ void __launch_bounds__(WARP_THREADS)
code_kernel(const u32* chunks, const u32* event_classes, const u32* event_actions, const u32* event_values,
            const u32* class_shares, const u32* action_shares, const u64* reciprocals, u32* words, u32* sizes) {
    SHARED(CodeShared, shared);
    const u32 chunk = blockIdx.x;
    const u32 first = chunks[chunk], end = chunks[chunk + 1];
    u32* const words_end = words + 2 * (u64(end) + chunk + 1);
    BlockWriter writer{STATE_MIN, words_end};
    // Lane l has the l-th event from the end.
    const auto fetched = [&](u32 left) {
        Push push{};
        if (lane_index() < left) {
            const u32 at = first + left - 1 - lane_index();
            const u32 action = event_actions[at];
            push.in_classes = push_of(class_shares, reciprocals, event_classes[at]);
            push.in_actions = push_of(action_shares, reciprocals, action & ((1u << BITS_SHIFT) - 1));
            push.value = event_values[at];
            push.bits = action >> BITS_SHIFT;
        }
        return push;
    };
    Push push = fetched(end - first);
    for (u32 left = end - first; left > 0;) {
        const u32 count = min(left, WARP_THREADS);
        shared.pushes[lane_index()] = push;
        __syncwarp();
        left -= count;
        // On its way while the first lane pushes.
        push = fetched(left);
        if (lane_index() == 0) {
            Push own = shared.pushes[0];
            for (u32 i = 0; i < count; i++) {
                const Push next = shared.pushes[min(i + 1, WARP_THREADS - 1)];
                writer.push_raw(own.value, own.bits);
                writer.push(own.in_actions);
                writer.push(own.in_classes);
                own = next;
            }
        }
        __syncwarp();
    }
    if (lane_index() == 0) {
        *--writer.next = u32(writer.state >> WORD_BITS);
        *--writer.next = u32(writer.state);
        sizes[chunk] = u32(words_end - writer.next);
    }
}

// Puts the words of all chunks behind one another: those of a chunk at offsets[chunk]. A block a chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
join_words_kernel(const u32* chunks, const u32* words, const u32* offsets, u32* joined) {
    const u32 chunk = blockIdx.x;
    const u32 first = offsets[chunk], count = offsets[chunk + 1] - first;
    const u32* from = words + 2 * (u64(chunks[chunk + 1]) + chunk + 1) - count;
    for (u32 i = threadIdx.x; i < count; i += THREADS) joined[first + i] = from[i];
}
