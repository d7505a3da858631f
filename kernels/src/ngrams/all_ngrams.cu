// all_ngrams.cu: the windows of n words that cross from one symbol to the next, as keys with values, and what follows their
// sort: distinct n-grams with counts.
// In     a grammar over words whose rules have words; n; steps of its levels, from the lowest
// Out    ends [rules * 2 * half] u32, half n - 1 up to a power of 2: the first n - 1 words of each rule, left-aligned,
//        and from half on the last ones, right-aligned, NONE where there are fewer.
//        Keys: some words a u64, the first words in the first part
//        Or, where windows take more than 64 bits, codes, and records of 16 bytes: the words and the holder
// Work   each symbol's ends are read once, and those of up to n - 1 symbols before it; 8 to 12 bytes a window and part
//        are written, or 24 with a code
// Map    a thread a rule, or a symbol of a root or body; a block takes room for the windows of its symbols at a time
// Exact  windows are written in any order; only sums and sorts by all bits of a key make results of them
#include "codes.cuh"
#include "levels.cuh"

constexpr u32 THREADS = WINDOWS_THREADS;

// How words make keys.
struct Shape {
    u32 bits;
    u32 parts;
    // Words of a part but the last, which has the rest.
    u32 part_words;
    // A value lies in the lowest bits of a key; 0 if values lie apart.
    u32 value_bits;
};

// First and last words of rules.

// No word.
constexpr u32 NONE = ~0u;

struct EndsShared {
    WalkShared walk;
};

// The head or the tail of a rule, as it lies in memory.
template <u32 N>
struct __align__(N == 2 ? 4 : N == 3 ? 8 : 16) Half {
    u32 words[N == 2 ? 1 : N == 3 ? 2 : N <= 5 ? 4 : 8];
};

// A half that other blocks may have written in this launch.
template <u32 N>
__device__ __forceinline__ Half<N> load_half_relaxed(const u32* ends, u32 rule, u32 index) {
    constexpr u32 WORDS = sizeof(Half<N>) / sizeof(u32);
    const u32* from = ends + (u64(rule) * 2 + index) * WORDS;
    Half<N> half;
    if constexpr (WORDS == 1) {
        half.words[0] = load_relaxed(from);
    } else {
        // All at a time: each takes long.
#pragma unroll
        for (u32 i = 0; i < WORDS; i += 2) {
            const u64 both = load_relaxed(reinterpret_cast<const u64*>(from + i));
            half.words[i] = u32(both);
            half.words[i + 1] = u32(both >> 32);
        }
    }
    return half;
}

template <u32 N>
__device__ __forceinline__ void rule_ends(const u32* symbols, const u32* rule_offsets, u32 terminals, u32 rule,
                                          u32* ends) {
    constexpr u32 ENDS = N - 1;
    const u32 first = rule_offsets[rule], end = rule_offsets[rule + 1];
    Half<N> head, tail;
#pragma unroll
    for (u32 i = 0; i < sizeof(Half<N>) / sizeof(u32); i++) head.words[i] = tail.words[i] = NONE;
    u32 have = 0;
    for (u32 at = first; at < end && have < ENDS; at++) {
        const u32 symbol = symbols[at];
        Half<N> more;
        if (symbol < terminals) {
#pragma unroll
            for (u32 i = 0; i < ENDS; i++) more.words[i] = i == 0 ? symbol : NONE;
        } else {
            more = load_half_relaxed<N>(ends, symbol - terminals, 0);
        }
        u32 length = 0;
#pragma unroll
        for (u32 i = 0; i < ENDS; i++) length += more.words[i] != NONE;
        // Moved to the right by what is there already.
#pragma unroll
        for (u32 by = 1; by < ENDS; by *= 2) {
            if ((have & by) == 0) continue;
#pragma unroll
            for (u32 i = ENDS - 1; i >= by; i--) more.words[i] = more.words[i - by];
        }
#pragma unroll
        for (u32 i = 0; i < ENDS; i++) {
            if (i >= have) head.words[i] = more.words[i];
        }
        have = min(ENDS, have + length);
    }
    have = 0;
    for (u32 at = end; at > first && have < ENDS; at--) {
        const u32 symbol = symbols[at - 1];
        Half<N> more;
        if (symbol < terminals) {
#pragma unroll
            for (u32 i = 0; i < ENDS; i++) more.words[i] = i == ENDS - 1 ? symbol : NONE;
        } else {
            more = load_half_relaxed<N>(ends, symbol - terminals, 1);
        }
        u32 length = 0;
#pragma unroll
        for (u32 i = 0; i < ENDS; i++) length += more.words[i] != NONE;
        // Moved to the left by what is there already.
#pragma unroll
        for (u32 by = 1; by < ENDS; by *= 2) {
            if ((have & by) == 0) continue;
#pragma unroll
            for (u32 i = 0; i + by < ENDS; i++) more.words[i] = more.words[i + by];
        }
#pragma unroll
        for (u32 i = 0; i < ENDS; i++) {
            if (i < ENDS - have) tail.words[i] = more.words[i];
        }
        have = min(ENDS, have + length);
    }
    Half<N>* own = reinterpret_cast<Half<N>*>(ends) + u64(rule) * 2;
    own[0] = head;
    own[1] = tail;
}

__device__ __forceinline__ void rule_ends(const u32* symbols, const u32* rule_offsets, u32 terminals, u32 n, u32 rule,
                                          u32* ends) {
    switch (MADE_FOR_OR(n)) {
        case 2: return rule_ends<2>(symbols, rule_offsets, terminals, rule, ends);
        case 3: return rule_ends<3>(symbols, rule_offsets, terminals, rule, ends);
        case 4: return rule_ends<4>(symbols, rule_offsets, terminals, rule, ends);
        case 5: return rule_ends<5>(symbols, rule_offsets, terminals, rule, ends);
        case 6: return rule_ends<6>(symbols, rule_offsets, terminals, rule, ends);
        case 7: return rule_ends<7>(symbols, rule_offsets, terminals, rule, ends);
        default: return rule_ends<8>(symbols, rule_offsets, terminals, rule, ends);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
ends_kernel(const u32* symbols, const u32* rule_offsets, u32 terminals, u32 n, u32* ends, const u32* first_pieces, const u32* first_steps, const u32* ranges, u32 phases, u32* state) {
    SHARED(EndsShared, shared);
    const Walk walk{first_pieces, first_steps, ranges, phases, state};
    Place place = walk_begin(walk, shared.walk);
    while (walk_next(walk, shared.walk, place)) {
        for (u32 step = place.step; step < place.step_end; step++) {
            u32 first, end;
            walk_items(walk, place, step, first, end);
            if (step == place.step) {
                walk_wait(walk, place);
            } else {
                __syncthreads();
            }
            for (u32 rule = first + threadIdx.x; rule < end; rule += THREADS) {
                rule_ends(symbols, rule_offsets, terminals, n, rule, ends);
            }
        }
        walk_done(walk, 1);
    }
}

// Windows.

// A grammar with the ends of its rules.
struct Ends {
    const u32* words;
    u32 terminals;
};

// The windows of a symbol: all those that end in it and begin before it.
template <u32 N>
struct Crossing {
    // The words before the symbol, right-aligned, and its first words, left-aligned.
    u32 before[N - 1];
    u32 head[N - 1];
    u32 before_length;
    u32 head_length;
};

// The words of a half whose place is `index`, or the one word of a terminal at `word_at`.
template <u32 N>
__device__ __forceinline__ Half<N> load_half(const Ends& ends, u32 symbol, u32 index, u32 word_at) {
    Half<N> half;
    if (symbol < ends.terminals) {
#pragma unroll
        for (u32 i = 0; i < N - 1; i++) half.words[i] = i == word_at ? symbol : NONE;
    } else {
        half = reinterpret_cast<const Half<N>*>(ends.words)[u64(symbol - ends.terminals) * 2 + index];
    }
    return half;
}

// A symbol and those before it in its sequence, the nearest first; NONE before the first.
template <u32 N>
struct Near {
    u32 symbols[N];
};

// Finds them for a symbol that is not the first of its sequence.
template <u32 N>
__device__ __forceinline__ void find_crossing(const Ends& ends, const Near<N>& near, Crossing<N>& found) {
    constexpr u32 ENDS = N - 1;
    const Half<N> head = load_half<N>(ends, near.symbols[0], 0, 0);
#pragma unroll
    for (u32 i = 0; i < ENDS; i++) {
        found.head[i] = head.words[i];
        found.head_length += head.words[i] != NONE;
    }
    // Every symbol has a word, so that n - 1 symbols have enough; mostly the nearest does.
#pragma unroll
    for (u32 distance = 1; distance <= ENDS; distance++) {
        if (found.before_length >= ENDS || near.symbols[distance] == NONE) continue;
        Half<N> tail = load_half<N>(ends, near.symbols[distance], 1, ENDS - 1);
        u32 length = 0;
#pragma unroll
        for (u32 i = 0; i < ENDS; i++) length += tail.words[i] != NONE;
        // Moved to the left by what is there already.
        const u32 have = found.before_length;
#pragma unroll
        for (u32 by = 1; by < ENDS; by *= 2) {
            if ((have & by) == 0) continue;
#pragma unroll
            for (u32 i = 0; i + by < ENDS; i++) tail.words[i] = tail.words[i + by];
        }
#pragma unroll
        for (u32 i = 0; i < ENDS; i++) {
            if (i < ENDS - have) found.before[i] = tail.words[i];
        }
        found.before_length = min(ENDS, have + length);
    }
}

// Word `index` of the window that ends with word `count - 1` of the symbol.
template <u32 N>
__device__ __forceinline__ u32 window_word(const Crossing<N>& found, u32 count, u32 index) {
    return index + count < N ? found.before[index + count - 1] : found.head[index + count - N];
}

template <u32 N>
__device__ __forceinline__ bool is_window(const Crossing<N>& found, u32 count, u32 low, u32 high) {
    if (count > found.head_length || found.before_length + count < N) return false;
    const u32 first = window_word(found, count, 0);
    return first >= low && first < high;
}

// Part `part` of the key of a window.
template <u32 N>
__device__ __forceinline__ u64 window_part(const Crossing<N>& found, u32 count, u32 part, const Shape& shape) {
    u64 key = 0;
    const u32 from = part * shape.part_words;
    const u32 to = min(N, from + shape.part_words);
#pragma unroll
    for (u32 i = 0; i < N; i++) {
        if (i >= from && i < to) key = key << shape.bits | window_word(found, count, i);
    }
    return key;
}

struct WindowsShared {
    BlockSum<u64> sum;
    u64 begin;
};

// What the windows of a symbol are worth.
struct Values {
    // [rules] weights, and whether holders are written instead.
    const u32* rule_weights;
    u32 with_holders;
    u32 files;
};

// All roots or all bodies: owners are the files or rules of symbols.
struct Sequence {
    const u32* symbols;
    const u32* owners;
    u32 count;
    bool is_root;
};

// Where windows go whose first word is at least `low` and below `high`.
struct Target {
    u32 low;
    u32 high;
    // If there are such counters, windows are counted by their first word.
    u32* first_words;
    // Without keys they are only counted, those whose weight is too large for its bits in the upper half of `cursor`.
    u64* keys;
    u64 stride;
    u32* values;
    u64* over_keys;
    u32* over_values;
    u64* cursor;
};

// As it lies in memory: some first words of a window; the others above its holder.
struct __align__(16) Record {
    u64 first;
    u64 rest;
};

// Where coded windows go: the codes and records of exact ones from the front of the records, the records of others from
// behind. `cursor` counts the latter in its upper half.
struct CodedTarget {
    const CodePart* parts;
    u32 holder_bits;
    u64* codes;
    Record* records;
    u64 room;
    u64* cursor;
};

__device__ __forceinline__ u32 record_word(const Record& record, u32 index, u32 n, const Shape& shape, u32 holder_bits) {
    const u32 first_words = shape.part_words;
    const u64 part = index < first_words ? record.first : record.rest >> holder_bits;
    const u32 behind = (index < first_words ? first_words : n) - 1 - index;
    return u32(part >> behind * shape.bits & ((u64(1) << shape.bits) - 1));
}

__device__ __forceinline__ Coder code_of(const Record& record, u32 n, const Shape& shape, u32 holder_bits,
                                         const CodePart* parts) {
    Coder coder = new_coder();
    for (u32 i = 0; i < n; i++) add_word(coder, parts[record_word(record, i, n, shape, holder_bits)]);
    return coder;
}

// Finds the windows of a sequence.
template <u32 N>
__device__ __forceinline__ void windows(const Sequence& sequence, const Ends& ends, const Values& values,
                                        const Shape& shape, const Target& target, WindowsShared& shared) {
    // Symbols of a thread at a time, bounded by registers.
    constexpr u32 SYMBOLS = N <= 3 ? 4 : N == 4 ? 2 : 1;
    const u64 mask = (u64(1) << shape.value_bits) - 1;
    for (u64 tile = blockIdx.x; tile * (THREADS * SYMBOLS) < sequence.count; tile += gridDim.x) {
        Crossing<N> found[SYMBOLS];
        u32 owners[SYMBOLS], weights[SYMBOLS];
        u64 own = 0;
        Near<N> near[SYMBOLS];
        // Sequences lie one after the other, and each has an owner of its own: no load needs another.
#pragma unroll
        for (u32 s = 0; s < SYMBOLS; s++) {
            const u64 at = (tile * SYMBOLS + s) * THREADS + threadIdx.x;
            owners[s] = at < sequence.count ? sequence.owners[at] : NONE;
#pragma unroll
            for (u32 distance = 0; distance < N; distance++) {
                const bool is_in = at < sequence.count && at >= distance;
                const u32 owner = is_in ? sequence.owners[at - distance] : NONE;
                const u32 symbol = is_in ? sequence.symbols[at - distance] : NONE;
                near[s].symbols[distance] = owner == owners[s] ? symbol : NONE;
            }
        }
#pragma unroll
        for (u32 s = 0; s < SYMBOLS; s++) {
            weights[s] = owners[s] == NONE ? 0 : sequence.is_root ? 1 : values.rule_weights[owners[s]];
        }
#pragma unroll
        for (u32 s = 0; s < SYMBOLS; s++) {
            found[s].head_length = 0;
            found[s].before_length = 0;
            if (owners[s] != NONE && near[s].symbols[1] != NONE) find_crossing<N>(ends, near[s], found[s]);
            if (weights[s] == 0) found[s].head_length = 0;
        }
#pragma unroll
        for (u32 s = 0; s < SYMBOLS; s++) {
            u64 count = 0;
#pragma unroll
            for (u32 i = 1; i < N; i++) count += is_window(found[s], i, target.low, target.high);
            const bool is_over = !values.with_holders && shape.value_bits > 0 && weights[s] > mask;
            own += is_over ? count << 32 | count : count;
        }
        if (target.first_words != nullptr) {
#pragma unroll
            for (u32 s = 0; s < SYMBOLS; s++) {
#pragma unroll
                for (u32 i = 1; i < N; i++) {
                    if (is_window(found[s], i, target.low, target.high)) {
                        atomicAdd(&target.first_words[window_word(found[s], i, 0)], 1u);
                    }
                }
            }
        }
        u64 total;
        u64 place = block_exclusive_sum(own, shared.sum, total);
        if (threadIdx.x == 0) shared.begin = total > 0 ? atomicAdd(target.cursor, total) : 0;
        __syncthreads();
        place += shared.begin;
        __syncthreads();
        if (target.keys == nullptr) continue;
        u32 item = u32(place), over = u32(place >> 32);
#pragma unroll
        for (u32 s = 0; s < SYMBOLS; s++) {
            const bool is_over = !values.with_holders && shape.value_bits > 0 && weights[s] > mask;
#pragma unroll
            for (u32 i = 1; i < N; i++) {
                if (!is_window(found[s], i, target.low, target.high)) continue;
                for (u32 part = 0; part < shape.parts; part++) {
                    u64 key = window_part(found[s], i, part, shape);
                    if (shape.value_bits > 0) {
                        if (is_over) {
                            target.over_keys[over] = key;
                            target.over_values[over] = weights[s] - u32(weights[s] & mask);
                        }
                        const u32 holder = sequence.is_root ? owners[s] : values.files + owners[s];
                        key = key << shape.value_bits | (values.with_holders ? holder : weights[s] & mask);
                    }
                    target.keys[part * target.stride + item] = key;
                }
                if (shape.value_bits == 0) {
                    const u32 holder = sequence.is_root ? owners[s] : values.files + owners[s];
                    target.values[item] = values.with_holders ? holder : weights[s];
                }
                item++;
                over += is_over;
            }
        }
    }
}

// The numbers of windows_kernel; ngrams.rs has the same in this order.
struct WindowsNumbers {
    u64 stride;
    u32 n, terminals, count, is_root, with_holders, files, bits, parts, part_words, value_bits, low, high;
};

extern "C" __global__ void __launch_bounds__(THREADS)
windows_kernel(WindowsNumbers numbers, const u32* end_words, const u32* sequence, const u32* owners,
               const u32* rule_weights, u32* first_words, u64* keys, u32* value_of, u64* over_keys, u32* over_values,
               u64* cursor) {
    SHARED(WindowsShared, shared);
    const Sequence all{sequence, owners, numbers.count, numbers.is_root != 0};
    const Ends ends{end_words, numbers.terminals};
    const Values values{rule_weights, numbers.with_holders, numbers.files};
    const Shape shape{numbers.bits, numbers.parts, numbers.part_words, numbers.value_bits};
    const Target target{numbers.low, numbers.high,   first_words, keys,  numbers.stride,
                        value_of,    over_keys, over_values, cursor};
    switch (MADE_FOR_OR(numbers.n)) {
        case 2: return windows<2>(all, ends, values, shape, target, shared);
        case 3: return windows<3>(all, ends, values, shape, target, shared);
        case 4: return windows<4>(all, ends, values, shape, target, shared);
        case 5: return windows<5>(all, ends, values, shape, target, shared);
        case 6: return windows<6>(all, ends, values, shape, target, shared);
        case 7: return windows<7>(all, ends, values, shape, target, shared);
        default: return windows<8>(all, ends, values, shape, target, shared);
    }
}

// Finds the coded windows of a sequence, a symbol a thread.
template <u32 N>
__device__ __forceinline__ void coded_windows(const Sequence& sequence, const Ends& ends, const Values& values,
                                              const Shape& shape, u32 low, u32 high, const CodedTarget& target,
                                              WindowsShared& shared) {
    for (u64 tile = blockIdx.x; tile * THREADS < sequence.count; tile += gridDim.x) {
        const u64 at = tile * THREADS + threadIdx.x;
        const u32 owner = at < sequence.count ? sequence.owners[at] : NONE;
        Near<N> near;
#pragma unroll
        for (u32 distance = 0; distance < N; distance++) {
            const bool is_in = at < sequence.count && at >= distance;
            const u32 other = is_in ? sequence.owners[at - distance] : NONE;
            const u32 symbol = is_in ? sequence.symbols[at - distance] : NONE;
            near.symbols[distance] = other == owner ? symbol : NONE;
        }
        const u32 weight = owner == NONE ? 0 : sequence.is_root ? 1 : values.rule_weights[owner];
        Crossing<N> found;
        found.head_length = 0;
        found.before_length = 0;
        if (weight > 0 && near.symbols[1] != NONE) find_crossing<N>(ends, near, found);
        const u32 holder = sequence.is_root ? owner : values.files + owner;
        u64 codes[N];
        u64 own = 0;
        u32 exact = 0;
#pragma unroll
        for (u32 i = 1; i < N; i++) {
            codes[i] = 0;
            if (!is_window(found, i, low, high)) continue;
            Coder coder = new_coder();
#pragma unroll
            for (u32 k = 0; k < N; k++) add_word(coder, target.parts[window_word(found, i, k)]);
            codes[i] = value_of(coder);
            exact |= u32(is_exact(coder)) << i;
            own += is_exact(coder) ? u64(1) : u64(1) << 32;
        }
        u64 total;
        u64 place = block_exclusive_sum(own, shared.sum, total);
        if (threadIdx.x == 0) shared.begin = total > 0 ? atomicAdd(target.cursor, total) : 0;
        __syncthreads();
        place += shared.begin;
        __syncthreads();
        u32 item = u32(place);
        u64 behind = target.room - (place >> 32);
#pragma unroll
        for (u32 i = 1; i < N; i++) {
            if (!is_window(found, i, low, high)) continue;
            const Record record{window_part(found, i, 0, shape),
                                window_part(found, i, 1, shape) << target.holder_bits | holder};
            if ((exact >> i) & 1) {
                target.codes[item] = codes[i];
                target.records[item++] = record;
            } else {
                target.records[--behind] = record;
            }
        }
    }
}

// The numbers of coded_windows_kernel; ngrams.rs has the same in this order.
struct CodedWindowsNumbers {
    u64 room;
    u32 n, terminals, count, is_root, files, bits, part_words, holder_bits, low, high;
};

extern "C" __global__ void __launch_bounds__(THREADS)
coded_windows_kernel(CodedWindowsNumbers numbers, const u32* end_words, const u32* sequence, const u32* owners,
                     const u32* rule_weights, const CodePart* parts, u64* codes, Record* records, u64* cursor) {
    SHARED(WindowsShared, shared);
    const Sequence all{sequence, owners, numbers.count, numbers.is_root != 0};
    const Ends ends{end_words, numbers.terminals};
    const Values values{rule_weights, 1, numbers.files};
    const Shape shape{numbers.bits, 2, numbers.part_words, 0};
    const CodedTarget target{parts, numbers.holder_bits, codes, records, numbers.room, cursor};
    const u32 low = numbers.low, high = numbers.high;
    switch (MADE_FOR_OR(numbers.n)) {
        case 3: return coded_windows<3>(all, ends, values, shape, low, high, target, shared);
        case 4: return coded_windows<4>(all, ends, values, shape, low, high, target, shared);
        case 5: return coded_windows<5>(all, ends, values, shape, low, high, target, shared);
        case 6: return coded_windows<6>(all, ends, values, shape, low, high, target, shared);
        case 7: return coded_windows<7>(all, ends, values, shape, low, high, target, shared);
        default: return coded_windows<8>(all, ends, values, shape, low, high, target, shared);
    }
}

// What orders the last `count` records, which are inexact, and their numbers.
extern "C" __global__ void __launch_bounds__(THREADS)
record_rests_kernel(const Record* records, u64 room, u64 count, u32 n, u32 bits, u32 part_words, u32 holder_bits,
                    const CodePart* parts, u64* keys, u32* numbers) {
    const Shape shape{bits, 2, part_words, 0};
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u64 number = room - 1 - i;
        const Record record = records[number];
        const Coder coder = code_of(record, n, shape, holder_bits, parts);
        keys[i] = rest_key(coder, n, bits, [&](u32 k) { return record_word(record, k, n, shape, holder_bits); });
        numbers[i] = u32(number);
    }
}

// The numbers of all records, exact ones first, and the codes of others, which are in the order of `rests`.
extern "C" __global__ void __launch_bounds__(THREADS)
record_codes_kernel(const Record* records, u64 exact, const u32* rests, u64 count, u32 n, u32 bits, u32 part_words,
                    u32 holder_bits, const CodePart* parts, u64* codes, u32* numbers) {
    const Shape shape{bits, 2, part_words, 0};
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        numbers[i] = i < exact ? u32(i) : rests[i - exact];
        if (i >= exact) codes[i] = value_of(code_of(records[rests[i - exact]], n, shape, holder_bits, parts));
    }
}

// Sorted windows.

extern "C" __global__ void __launch_bounds__(THREADS) numbers_kernel(u32* numbers, u64 count) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) numbers[i] = u32(i);
}

extern "C" __global__ void __launch_bounds__(THREADS)
gather_keys_kernel(const u64* keys, const u32* numbers, u64* out, u64 count) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) out[i] = keys[numbers[i]];
}

extern "C" __global__ void __launch_bounds__(THREADS)
gather_values_kernel(const u32* values, const u32* numbers, u32* out, u64 count) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) out[i] = values[numbers[i]];
}

struct RowsShared {
    BlockSum<u64> sum;
    u64 before;
    u32 tile;
};

// The n-grams of sorted windows: their words; counts[row] += the values of its windows, 0 on entry; row_offsets, where
// these begin; `rows`, how many there are. With `rule_weights` values are files or rules behind
// `files`; those in keys go to `holders`.
// If they are coded, in parts' place stand records, of which `values` are numbers, and `value_bits` are those of holders.
template <bool IS_CODED>
__device__ __forceinline__ void ngram_rows(const u64* keys, const Record* records, u64 stride, u32 n, u32 bits, u32 parts,
                                           u32 part_words, u32 value_bits, const u32* values, const u32* rule_weights,
                                           u32 files, u64 count, u32* words, u32* counts, u32* row_offsets, u32* holders,
                                           u64* rows, u64* look_back, u32* ticket, RowsShared& shared) {
    constexpr u32 ITEMS = ROWS_TILE / THREADS;
    const u64 mask = (u64(1) << value_bits) - 1;
    const u32 word_mask = bits < 32 ? (1u << bits) - 1 : ~0u;
    const u32 tile = next_tile(ticket, shared.tile);
    // A warp has consecutive windows, a lane every 32nd of them.
    const u64 first = u64(tile) * ROWS_TILE + warp_index() * ITEMS * WARP_THREADS + lane_index();
    // The first part of each; of records with the rest, and what is before the first one of the warp.
    u64 found[ITEMS], rest[IS_CODED ? ITEMS : 1];
    Record before_all{0, 0};
    u32 firsts[ITEMS], value[ITEMS];
    if constexpr (IS_CODED) {
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            const u64 at = first + i * WARP_THREADS;
            const Record record = at < count ? records[values[at]] : Record{0, 0};
            found[i] = record.first;
            rest[i] = record.rest >> value_bits;
            value[i] = u32(record.rest & mask);
        }
        if (lane_index() == 0 && first > 0 && first < count) before_all = records[values[first - 1]];
    } else {
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            const u64 at = first + i * WARP_THREADS;
            found[i] = at < count ? keys[at] : 0;
            value[i] = value_bits == 0 && at < count ? values[at] : 0;
        }
    }
    u64 own = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        u64 previous = __shfl_up_sync(FULL_WARP, found[i], 1);
        bool is_first;
        if constexpr (IS_CODED) {
            u64 previous_rest = __shfl_up_sync(FULL_WARP, rest[i], 1);
            const u32 above = i == 0 ? 0 : i - 1;
            const u64 last = __shfl_sync(FULL_WARP, found[above], WARP_THREADS - 1);
            const u64 last_rest = __shfl_sync(FULL_WARP, rest[above], WARP_THREADS - 1);
            if (lane_index() == 0) {
                previous = i == 0 ? before_all.first : last;
                previous_rest = i == 0 ? before_all.rest >> value_bits : last_rest;
            }
            is_first = at < count && (at == 0 || found[i] != previous || rest[i] != previous_rest);
        } else {
            if (lane_index() == 0 && at > 0 && at < count) previous = keys[at - 1];
            is_first = at < count && (at == 0 || found[i] >> value_bits != previous >> value_bits);
            for (u32 part = 1; part < parts; part++) {
                const u64* of_part = keys + part * stride;
                is_first = is_first || (at < count && of_part[at] != of_part[at - 1]);
            }
        }
        firsts[i] = __ballot_sync(FULL_WARP, is_first);
        own += __popc(firsts[i]);
        if constexpr (IS_CODED) {
            if (holders != nullptr && at < count) holders[at] = value[i];
        } else if (value_bits > 0) {
            value[i] = at < count ? u32(found[i] & mask) : 0;
            if (rule_weights != nullptr && at < count) holders[at] = value[i];
        }
        if (rule_weights != nullptr) {
            value[i] = at >= count ? 0 : value[i] < files ? 1 : rule_weights[value[i] - files];
        }
    }
    u64 total;
    u64 row = block_exclusive_sum(lane_index() == 0 ? own : u64(0), shared.sum, total);
    row = __shfl_sync(FULL_WARP, row, 0);
    const u64 before = block_look_back(look_back, tile, total, shared.before);
    if (threadIdx.x == 0 && u64(tile + 1) * ROWS_TILE >= count) {
        *rows = before + total;
        row_offsets[before + total] = u32(count);
    }
    row += before;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        const bool is_in = at < count;
        // The lanes up to this one where rows begin.
        const u32 up_to = firsts[i] & (lanes_below() << 1 | 1);
        const u64 own_row = row + __popc(up_to) - 1;
        row += __popc(firsts[i]);
        const bool is_first = (firsts[i] >> lane_index()) & 1;
        if (is_first) {
            for (u32 part = 0; part < parts; part++) {
                u64 key;
                if constexpr (IS_CODED) {
                    key = part == 0 ? found[i] : rest[i];
                } else {
                    key = part == 0 ? found[i] >> value_bits : keys[part * stride + at];
                }
                const u32 from = part * part_words;
                for (u32 word = min(n, from + part_words); word > from; word--) {
                    words[own_row * n + word - 1] = u32(key) & word_mask;
                    key >>= bits;
                }
            }
            row_offsets[own_row] = u32(at);
        }
        const u32 sum = warp_inclusive_sum(value[i]);
        const u32 begin = up_to == 0 ? 0 : 31 - __clz(up_to);
        const u32 sum_before = __shfl_sync(FULL_WARP, sum, begin == 0 ? 0 : begin - 1);
        const bool is_last = lane_index() == WARP_THREADS - 1 || at + 1 == count || ((firsts[i] >> (lane_index() + 1)) & 1);
        if (is_in && is_last) {
            const u32 of_row = sum - (begin == 0 ? 0 : sum_before);
            // A row that lies wholly in the warp's items is written by one lane alone.
            if (up_to != 0 && lane_index() < WARP_THREADS - 1) {
                counts[own_row] = of_row;
            } else {
                atomicAdd(&counts[own_row], of_row);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
ngram_rows_kernel(const u64* keys, u64 stride, u32 n, u32 bits, u32 parts, u32 part_words, u32 value_bits,
                  const u32* values, const u32* rule_weights, u32 files, u64 count, u32* words, u32* counts,
                  u32* row_offsets, u32* holders, u64* rows, u64* look_back, u32* ticket) {
    SHARED(RowsShared, shared);
    ngram_rows<false>(keys, nullptr, stride, n, bits, parts, part_words, value_bits, values, rule_weights, files, count,
                      words, counts, row_offsets, holders, rows, look_back, ticket, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS)
coded_rows_kernel(const Record* records, u32 n, u32 bits, u32 part_words, u32 holder_bits, const u32* numbers,
                  const u32* rule_weights, u32 files, u64 count, u32* words, u32* counts, u32* row_offsets, u32* holders,
                  u64* rows, u64* look_back, u32* ticket) {
    SHARED(RowsShared, shared);
    ngram_rows<true>(nullptr, records, 0, n, bits, 2, part_words, holder_bits, numbers, rule_weights, files, count, words,
                     counts, row_offsets, holders, rows, look_back, ticket, shared);
}

// counts[row] += what was too large for a key. Keys are without values; those of rows are where row_offsets say.
extern "C" __global__ void __launch_bounds__(THREADS)
add_over_kernel(const u64* keys, u32 value_bits, const u32* row_offsets, u64 rows, const u64* over_keys,
                const u32* over_values, u64 over_count, u32* counts) {
    for (u64 i = grid_thread(); i < over_count; i += grid_threads()) {
        const u64 key = over_keys[i];
        u64 first = 0, left = rows;
        while (left > 0) {
            const u64 half = left / 2;
            if (keys[row_offsets[first + half]] >> value_bits < key) {
                first += half + 1;
                left -= half + 1;
            } else {
                left = half;
            }
        }
        atomicAdd(&counts[first], over_values[i]);
    }
}

// A few files.

// cells[row * files + file] += how often the n-grams of rows occur in each file, 0 on entry: a file once for each of its windows,
// a rule as often as it does, which holder_cells [rules * files] holds. `rows` has the row of each window.
extern "C" __global__ void __launch_bounds__(THREADS)
row_cells_kernel(const u32* holders, const u32* rows, u64 count, const u32* holder_cells, u32 files, u32* cells) {
    // Whole warps, for the sums.
    for (u64 first = grid_thread() - lane_index(); first < count; first += grid_threads()) {
        const u64 at = first + lane_index();
        const bool is_in = at < count;
        const u32 row = is_in ? rows[at] : NONE, holder = is_in ? holders[at] : 0;
        const u32 before = __shfl_up_sync(FULL_WARP, row, 1);
        const u32 firsts = __ballot_sync(FULL_WARP, lane_index() == 0 || row != before);
        // The lane where the own row begins in the warp, and whether it ends here.
        const u32 begin = 31 - __clz(firsts & (lanes_below() << 1 | 1));
        const bool is_last = lane_index() == WARP_THREADS - 1 || ((firsts >> (lane_index() + 1)) & 1);
        for (u32 file = 0; file < files; file++) {
            u32 value = 0;
            if (is_in) value = holder < files ? holder == file : holder_cells[u64(holder - files) * files + file];
            const u32 sum = warp_inclusive_sum(value);
            const u32 sum_before = __shfl_sync(FULL_WARP, sum, begin == 0 ? 0 : begin - 1);
            const u32 of_row = sum - (begin == 0 ? 0 : sum_before);
            if (is_in && is_last && of_row > 0) atomicAdd(&cells[u64(row) * files + file], of_row);
        }
    }
}

// lengths[row] = how many files have some.
extern "C" __global__ void __launch_bounds__(THREADS)
cell_lengths_kernel(const u32* cells, u64 rows, u32 files, u32* lengths) {
    for (u64 row = grid_thread(); row < rows; row += grid_threads()) {
        u32 length = 0;
        for (u32 file = 0; file < files; file++) length += cells[row * files + file] > 0;
        lengths[row] = length;
    }
}

// The files of each row, by number, or by count, the largest first.
extern "C" __global__ void __launch_bounds__(THREADS)
ranked_cells_kernel(const u32* cells, u64 rows, u32 files, u32 by_count, const u32* offsets, u64* entries) {
    for (u64 row = grid_thread(); row < rows; row += grid_threads()) {
        const u32* own = cells + row * files;
        u64* to = entries + offsets[row];
        u32 before = 0;
        for (u32 file = 0; file < files; file++) {
            const u32 count = own[file];
            if (count == 0) continue;
            u32 rank = before++;
            if (by_count != 0) {
                rank = 0;
                for (u32 other = 0; other < files; other++) {
                    const u32 of_other = own[other];
                    rank += of_other > count || (of_other == count && other < file);
                }
            }
            to[rank] = u64(file) << 32 | count;
        }
    }
}

// Words that occur: flags.
extern "C" __global__ void __launch_bounds__(THREADS)
used_flags_kernel(const u32* weights, u32 words, u32* flags) {
    for (u64 word = grid_thread(); word < words; word += grid_threads()) flags[word] = weights[word] > 0;
}

// Words that occur, where `places` say, with weights; `offsets` of their rows, if wanted, from those of all words.
extern "C" __global__ void __launch_bounds__(THREADS)
used_words_kernel(const u32* weights, u32 words, const u32* places, const u32* offsets, u32* words_out, u32* counts,
                  u32* offsets_out) {
    for (u64 word = grid_thread(); word < words; word += grid_threads()) {
        if (weights[word] > 0) {
            words_out[places[word]] = u32(word);
            counts[places[word]] = weights[word];
            if (offsets != nullptr) offsets_out[places[word]] = offsets[word];
        }
        if (offsets != nullptr && word + 1 == words) offsets_out[places[words]] = offsets[words];
    }
}

// entries[i] = file 0 with counts[i], offsets[i] = i.
extern "C" __global__ void __launch_bounds__(THREADS)
one_file_kernel(const u32* counts, u64 count, u32* offsets, u64* entries) {
    for (u64 i = grid_thread(); i <= count; i += grid_threads()) {
        offsets[i] = u32(i);
        if (i < count) entries[i] = counts[i];
    }
}

// Ranks of rows that were merged by file.

// Rows of at most this many entries are sorted in place.
constexpr u32 SHORT_ROW = 32;

// Ranks the entries of short rows of more than `most` occurrences, mostly of one each: a thread inserts those of a row one by
// one. lengths[row] = the length of longer ones, else 0.
extern "C" __global__ void __launch_bounds__(THREADS)
short_rows_kernel(const u32* weights, const u32* offsets, u32 rows, u32 most, u64* entries, u32* lengths) {
    for (u64 row = grid_thread(); row < rows; row += grid_threads()) {
        const u32 first = offsets[row], length = weights[row] > most ? offsets[row + 1] - first : 0;
        lengths[row] = length > SHORT_ROW ? length : 0;
        if (length < 2 || length > SHORT_ROW) continue;
        u64* own = entries + first;
        u64 last = own[0];
        for (u32 i = 1; i < length; i++) {
            const u64 entry = own[i];
            // Counts are below files.
            if (u32(entry) <= u32(last)) {
                last = entry;
                continue;
            }
            u32 to = i;
            for (; to > 0; to--) {
                const u64 before = own[to - 1];
                if (u32(before) >= u32(entry)) break;
                own[to] = before;
            }
            own[to] = entry;
        }
    }
}

// keys = row << 32 | ~count, values = files of long rows.
extern "C" __global__ void __launch_bounds__(THREADS)
long_keys_kernel(const u64* entries, const u32* offsets, const u32* long_offsets, const u32* owners, u64 count,
                 u64* keys, u32* values) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 row = owners[i];
        const u64 entry = entries[offsets[row] + (i - long_offsets[row])];
        keys[i] = u64(row) << 32 | u32(~u32(entry));
        values[i] = u32(entry >> 32);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
long_entries_kernel(const u64* keys, const u32* values, const u32* offsets, const u32* long_offsets, u64 count,
                    u64* entries) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 row = u32(keys[i] >> 32);
        entries[offsets[row] + (i - long_offsets[row])] = u64(values[i]) << 32 | u32(~u32(keys[i]));
    }
}
