// windows.cu: the windows of n words that cross from one symbol to the next, as keys with values, and what follows their
// sort: distinct n-grams with counts.
// In     a grammar over words whose rules have words; n; steps of its levels, from the lowest
// Out    heads, tails [rules * (n - 1)] u32: first words, left-aligned, and last words, right-aligned; lengths [rules]
//        u32: how many, at most n - 1. Keys: some words a u64, the first words in the first part
// Work   each symbol's ends are read once, and those of up to n - 1 symbols before it; 8 to 12 bytes a window and part
//        are written
// Map    a thread a rule, or a symbol of a root or body; a block takes room for the windows of its symbols at a time
// Exact  windows are written in any order; only sums and sorts by all bits of a key make results of them
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

// ---- first and last words of rules ----

struct EndsShared {
    WalkShared walk;
};

__device__ __forceinline__ void rule_ends(const u32* symbols, const u32* rule_offsets, u32 terminals, u32 ends,
                                          u32 rule, u32* heads, u32* tails, u32* lengths) {
    const u32 first = rule_offsets[rule], end = rule_offsets[rule + 1];
    u32 length = 0;
    for (u32 at = first; at < end && length < ends; at++) {
        const u32 symbol = symbols[at];
        if (symbol < terminals) {
            heads[u64(rule) * ends + length++] = symbol;
        } else {
            const u64 below = symbol - terminals;
            const u32 more = min(load_relaxed(&lengths[below]), ends - length);
            for (u32 i = 0; i < more; i++) {
                heads[u64(rule) * ends + length++] = load_relaxed(&heads[below * ends + i]);
            }
        }
    }
    u32 back = 0;
    for (u32 at = end; at > first && back < ends; at--) {
        const u32 symbol = symbols[at - 1];
        if (symbol < terminals) {
            tails[u64(rule) * ends + (ends - 1 - back++)] = symbol;
        } else {
            const u64 below = symbol - terminals;
            const u32 more = min(load_relaxed(&lengths[below]), ends - back);
            for (u32 i = 0; i < more; i++) {
                tails[u64(rule) * ends + (ends - 1 - back++)] = load_relaxed(&tails[below * ends + (ends - 1 - i)]);
            }
        }
    }
    store_relaxed(&lengths[rule], length);
}

extern "C" __global__ void __launch_bounds__(THREADS)
ends_kernel(const u32* symbols, const u32* rule_offsets, u32 terminals, u32 ends, u32* heads, u32* tails, u32* lengths,
            const u32* first_pieces, const u32* first_steps, const u32* ranges, u32 phases, u32* state) {
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
                rule_ends(symbols, rule_offsets, terminals, ends, rule, heads, tails, lengths);
            }
        }
        walk_done(walk, 1);
    }
}

// ---- windows ----

// A grammar with the ends of its rules.
struct Ends {
    const u32* heads;
    const u32* tails;
    const u32* lengths;
    u32 terminals;
};

// What is told of the windows of a symbol: all those that end in it and begin before it.
template <u32 N>
struct Crossing {
    // The words before the symbol, right-aligned, and its first words, left-aligned.
    u32 before[N - 1];
    u32 head[N - 1];
    u32 before_length;
    u32 head_length;
};

template <u32 N>
__device__ __forceinline__ Crossing<N> crossing(const Ends& ends, const u32* sequence, u32 first, u32 at) {
    constexpr u32 ENDS = N - 1;
    Crossing<N> found;
#pragma unroll
    for (u32 i = 0; i < ENDS; i++) {
        found.before[i] = 0;
        found.head[i] = 0;
    }
    found.before_length = 0;
    found.head_length = 0;
    if (at == first) return found;
    const u32 symbol = sequence[at];
    if (symbol < ends.terminals) {
        found.head[0] = symbol;
        found.head_length = 1;
    } else {
        const u64 rule = symbol - ends.terminals;
        found.head_length = ends.lengths[rule];
#pragma unroll
        for (u32 i = 0; i < ENDS; i++) {
            if (i < found.head_length) found.head[i] = ends.heads[rule * ENDS + i];
        }
    }
    // Every symbol has a word, so that n - 1 symbols have enough.
    const u32 from = at - first > ENDS ? at - ENDS : first;
    for (u32 i = from; i < at; i++) {
        const u32 last = sequence[i];
        const bool is_word = last < ends.terminals;
        const u64 rule = is_word ? 0 : last - ends.terminals;
        const u32 length = is_word ? 1 : ends.lengths[rule];
#pragma unroll
        for (u32 k = 0; k < ENDS; k++) {
            if (k + length >= ENDS) {
                const u32 word = is_word ? last : ends.tails[rule * ENDS + k];
#pragma unroll
                for (u32 w = 0; w + 1 < ENDS; w++) found.before[w] = found.before[w + 1];
                found.before[ENDS - 1] = word;
            }
        }
        found.before_length = min(ENDS, found.before_length + length);
    }
    return found;
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

// All roots or all bodies: owners are the files or rules of symbols, whose sequences begin at `offsets`.
struct Sequence {
    const u32* symbols;
    const u32* owners;
    const u32* offsets;
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

// Finds the windows of a sequence.
template <u32 N>
__device__ __forceinline__ void windows(const Sequence& sequence, const Ends& ends, const Values& values,
                                        const Shape& shape, const Target& target, WindowsShared& shared) {
    const u64 mask = (u64(1) << shape.value_bits) - 1;
    for (u64 tile = blockIdx.x; tile * THREADS < sequence.count; tile += gridDim.x) {
        const u64 at = tile * THREADS + threadIdx.x;
        Crossing<N> found;
        found.head_length = 0;
        found.before_length = 0;
        u32 owner = 0, weight = 0;
        if (at < sequence.count) {
            owner = sequence.owners[at];
            weight = sequence.is_root ? 1 : values.rule_weights[owner];
            if (weight > 0) found = crossing<N>(ends, sequence.symbols, sequence.offsets[owner], u32(at));
        }
        const bool is_over = !values.with_holders && shape.value_bits > 0 && weight > mask;
        u64 own = 0;
#pragma unroll
        for (u32 i = 1; i < N; i++) own += is_window(found, i, target.low, target.high);
        if (target.first_words != nullptr) {
#pragma unroll
            for (u32 i = 1; i < N; i++) {
                if (is_window(found, i, target.low, target.high)) atomicAdd(&target.first_words[window_word(found, i, 0)], 1u);
            }
        }
        if (is_over) own |= own << 32;
        u64 total;
        u64 place = block_exclusive_sum(own, shared.sum, total);
        if (threadIdx.x == 0) shared.begin = total > 0 ? atomicAdd(target.cursor, total) : 0;
        __syncthreads();
        place += shared.begin;
        __syncthreads();
        if (target.keys == nullptr) continue;
        u32 item = u32(place), over = u32(place >> 32);
#pragma unroll
        for (u32 i = 1; i < N; i++) {
            if (!is_window(found, i, target.low, target.high)) continue;
            for (u32 part = 0; part < shape.parts; part++) {
                u64 key = window_part(found, i, part, shape);
                if (shape.value_bits > 0) {
                    if (is_over) {
                        target.over_keys[over] = key;
                        target.over_values[over] = weight - u32(weight & mask);
                    }
                    key = key << shape.value_bits | (weight & mask);
                }
                target.keys[part * target.stride + item] = key;
            }
            if (shape.value_bits == 0) {
                const u32 holder = sequence.is_root ? owner : values.files + owner;
                target.values[item] = values.with_holders ? holder : weight;
            }
            item++;
            over++;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
windows_kernel(u32 n, const u32* heads, const u32* tails, const u32* lengths, u32 terminals, const u32* sequence,
               const u32* owners, const u32* offsets, u32 count, u32 is_root, const u32* rule_weights,
               u32 with_holders, u32 files, u32 bits, u32 parts, u32 part_words, u32 value_bits, u32 low, u32 high,
               u32* first_words, u64* keys, u64 stride, u32* value_of, u64* over_keys, u32* over_values, u64* cursor) {
    SHARED(WindowsShared, shared);
    const Sequence all{sequence, owners, offsets, count, is_root != 0};
    const Ends ends{heads, tails, lengths, terminals};
    const Values values{rule_weights, with_holders, files};
    const Shape shape{bits, parts, part_words, value_bits};
    const Target target{low, high, first_words, keys, stride, value_of, over_keys, over_values, cursor};
    switch (n) {
        case 2: return windows<2>(all, ends, values, shape, target, shared);
        case 3: return windows<3>(all, ends, values, shape, target, shared);
        case 4: return windows<4>(all, ends, values, shape, target, shared);
        case 5: return windows<5>(all, ends, values, shape, target, shared);
        case 6: return windows<6>(all, ends, values, shape, target, shared);
        case 7: return windows<7>(all, ends, values, shape, target, shared);
        default: return windows<8>(all, ends, values, shape, target, shared);
    }
}

// ---- sorted windows ----

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

// flags[i] = whether sorted window i is the first of an n-gram.
extern "C" __global__ void __launch_bounds__(THREADS)
first_flags_kernel(const u64* keys, u64 stride, u32 parts, u32 value_bits, u64 count, u32* flags) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        bool is_first = i == 0;
        for (u32 part = 0; part < parts && !is_first; part++) {
            const u64* of_part = keys + part * stride;
            is_first = of_part[i] >> value_bits != of_part[i - 1] >> value_bits;
        }
        flags[i] = is_first;
    }
}

// The words of each n-gram; counts[row] += the values of its windows; row_offsets, if wanted, where these begin.
// `places` [count + 1] are sums of flags before. With `rule_weights` values are files or rules behind `files`.
extern "C" __global__ void __launch_bounds__(THREADS)
ngram_rows_kernel(const u64* keys, u64 stride, u32 n, u32 bits, u32 parts, u32 part_words, u32 value_bits,
                  const u32* values, const u32* rule_weights, u32 files, const u32* places, u64 count, u32* words,
                  u32* counts, u32* row_offsets) {
    const u64 mask = (u64(1) << value_bits) - 1;
    const u32 word_mask = bits < 32 ? (1u << bits) - 1 : ~0u;
    // Whole warps, for the sums.
    for (u64 warp_first = grid_thread() - lane_index(); warp_first < count; warp_first += grid_threads()) {
        const u64 i = warp_first + lane_index();
        const bool is_in = i < count;
        const u32 before = is_in ? places[i] : 0;
        const u32 after = is_in ? places[i + 1] : 0;
        const bool is_first = is_in && after > before;
        const u32 row = after - 1;
        u32 value = 0;
        if (is_in) {
            if (value_bits > 0) {
                value = u32(keys[i] & mask);
            } else {
                value = values[i];
                if (rule_weights != nullptr) value = value < files ? 1 : rule_weights[value - files];
            }
        }
        if (is_first) {
            for (u32 part = 0; part < parts; part++) {
                u64 key = keys[part * stride + i] >> value_bits;
                const u32 from = part * part_words;
                for (u32 word = min(n, from + part_words); word > from; word--) {
                    words[u64(row) * n + word - 1] = u32(key) & word_mask;
                    key >>= bits;
                }
            }
            if (row_offsets != nullptr) row_offsets[row] = u32(i);
        }
        if (is_in && i + 1 == count && row_offsets != nullptr) row_offsets[after] = u32(count);
        const u32 firsts = __ballot_sync(FULL_WARP, is_first);
        const u32 sum = warp_inclusive_sum(value);
        // The lane where this lane's row begins in the warp.
        const u32 up_to = firsts & (lanes_below() << 1 | 1);
        const u32 begin = up_to == 0 ? 0 : 31 - __clz(up_to);
        const u32 sum_before = __shfl_sync(FULL_WARP, sum, begin == 0 ? 0 : begin - 1);
        const bool is_last = lane_index() == WARP_THREADS - 1 || i + 1 == count || ((firsts >> (lane_index() + 1)) & 1);
        if (is_in && is_last) atomicAdd(&counts[row], sum - (begin == 0 ? 0 : sum_before));
    }
}

// counts[row] += what was too large for a key. Keys are sorted, without values, those of rows where row_offsets say.
extern "C" __global__ void __launch_bounds__(THREADS)
add_over_kernel(const u64* keys, u32 value_bits, u64 count, const u32* places, const u64* over_keys,
                const u32* over_values, u64 over_count, u32* counts) {
    for (u64 i = grid_thread(); i < over_count; i += grid_threads()) {
        const u64 key = over_keys[i];
        u64 first = 0, left = count;
        while (left > 0) {
            const u64 half = left / 2;
            if (keys[first + half] >> value_bits < key) {
                first += half + 1;
                left -= half + 1;
            } else {
                left = half;
            }
        }
        atomicAdd(&counts[places[first]], over_values[i]);
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

// ---- ranks of rows that were merged by file ----

// lengths[row] = the length of a row of more than `most` occurrences, else 0.
extern "C" __global__ void __launch_bounds__(THREADS)
long_lengths_kernel(const u32* weights, const u32* offsets, u32 rows, u32 most, u32* lengths) {
    for (u64 row = grid_thread(); row < rows; row += grid_threads()) {
        lengths[row] = weights[row] > most ? offsets[row + 1] - offsets[row] : 0;
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
