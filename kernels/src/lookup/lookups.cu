// lookups.cu: batches of counts, searches and extracts.
// In     the structures of structures.cu; queries: the terminals of a word as first, spaced, end (WordTerminals), a file
// Out    counts  [queries] u64; search keys (query, offset) u64, in any order; bytes of extracts in blocks of CHUNK
// Work   a count: one look-up a terminal. A search goes up from the word's places, entering only rules that the file has,
//        or down the file's root, entering only what has the word's bits; every step is shared out by candidates.
//        An extract: one way down for every CHUNK bytes
// Map    a thread a count, a candidate, a chunk
// Exact  keys of searches are distinct, so sorting makes their order one
// Why    a heavy word has many places and a file many symbols, but not both: the smaller is gone through
#include "primitives.cuh"

constexpr u32 THREADS = LOOKUP_THREADS;

// Candidates of a block.
constexpr u32 TILE = LOOKUP_TILE;

// Bytes that a thread extracts.
constexpr u32 CHUNK = LOOKUP_CHUNK;

// Symbols that stand for a descent: into the whole root of the file; with DOWN set, into a rule.
constexpr u32 ROOT = 0xffffffffu;
constexpr u32 DOWN = 0x80000000u;

__device__ __forceinline__ u32 weight_of(const u64* keys, const u32* weights, u64 mask, u32 symbol, u32 file) {
    const u64 slot = hash_find(keys, mask, u64(symbol) << 32 | file);
    return slot == NO_KEY ? 0 : weights[slot];
}

// counts[q] = occurrences of the word in the file.
extern "C" __global__ void __launch_bounds__(THREADS)
count_kernel(const u32* firsts, const u32* ends, const u32* files, u64 count, const u64* keys, const u32* weights,
             u64 mask, u64* counts) {
    const u64 query = grid_thread();
    if (query >= count) return;
    u64 sum = 0;
    for (u32 terminal = firsts[query]; terminal < ends[query]; terminal++) {
        sum += weight_of(keys, weights, mask, terminal, files[query]);
    }
    counts[query] = sum;
}

// Search.

// How many of the ascending values[first .. end] are below `value`.
__device__ __forceinline__ u32 count_below(const u32* values, u32 first, u32 end, u32 value) {
    return value == 0 ? 0 : u32(count_at_most(values + first, end - first, value - 1));
}

// The first steps: two items a query, of which one may be idle (an item whose symbol has no candidates).
extern "C" __global__ void __launch_bounds__(THREADS)
search_begin_kernel(const u32* firsts, const u32* spaceds, const u32* ends, const u32* files, u64 count,
                    const u32* place_offsets, const u32* position_offsets, const u32* root_offsets, u32* queries,
                    u32* symbols, u64* offsets, u32* item_count) {
    const u64 query = grid_thread();
    if (query >= count) return;
    const u32 first = firsts[query], end = ends[query];
    if (first == end) return;
    const u32 up = place_offsets[end] - place_offsets[first] + position_offsets[end] - position_offsets[first];
    const u32 down = root_offsets[files[query] + 1] - root_offsets[files[query]];
    if (up <= down) {
        const u32 item = atomicAdd(item_count, end - first);
        for (u32 terminal = first; terminal < end; terminal++) {
            queries[item + terminal - first] = u32(query);
            symbols[item + terminal - first] = terminal;
            offsets[item + terminal - first] = terminal >= spaceds[query] ? 1 : 0;
        }
    } else {
        const u32 item = atomicAdd(item_count, 1u);
        queries[item] = u32(query) | DOWN;
        symbols[item] = ROOT;
        offsets[item] = 0;
    }
}

struct Range {
    u32 first;
    u32 end;
};

// The positions of `symbol` in the root that lie in `file`, as a range of `positions`.
__device__ __forceinline__ Range positions_in_file(const u32* positions, const u32* position_offsets,
                                                   const u32* root_offsets, u32 symbol, u32 file) {
    const u32 first = position_offsets[symbol], end = position_offsets[symbol + 1];
    return Range{first + count_below(positions, first, end, root_offsets[file]),
                 first + count_below(positions, first, end, root_offsets[file + 1])};
}

// sizes[i] = candidates of item i.
extern "C" __global__ void __launch_bounds__(THREADS)
search_sizes_kernel(const u32* queries, const u32* symbols, u64 count, const u32* files, const u32* rule_offsets,
                    u32 terminal_count, const u32* place_offsets, const u32* positions, const u32* position_offsets,
                    const u32* root_offsets, u32* sizes) {
    const u64 item = grid_thread();
    if (item >= count) return;
    const u32 query = queries[item], symbol = symbols[item];
    const u32 file = files[query & ~DOWN];
    if (symbol == ROOT) {
        sizes[item] = root_offsets[file + 1] - root_offsets[file];
    } else if (query & DOWN) {
        sizes[item] = rule_offsets[symbol - terminal_count + 1] - rule_offsets[symbol - terminal_count];
    } else {
        const Range found = positions_in_file(positions, position_offsets, root_offsets, symbol, file);
        sizes[item] = place_offsets[symbol + 1] - place_offsets[symbol] + found.end - found.first;
    }
}

// Appends for the lanes with `is_one`; gives the index, which may be behind the end of the array.
__device__ __forceinline__ u32 append(u32* count, bool is_one) {
    const u32 ones = __ballot_sync(FULL_WARP, is_one);
    u32 first = 0;
    if (ones != 0 && lane_index() == __ffs(ones) - 1) first = atomicAdd(count, __popc(ones));
    if (ones != 0) first = __shfl_sync(FULL_WARP, first, __ffs(ones) - 1);
    return first + __popc(ones & lanes_below());
}

struct SearchShared {
    u64 first;
    u64 end;
};

// One step of all items: candidates become items of the next step, or results.
extern "C" __global__ void __launch_bounds__(THREADS)
search_step_kernel(const u32* queries, const u32* symbols, const u64* offsets, const u64* candidates, u64 item_count,
                   const u32* firsts, const u32* spaceds, const u32* ends, const u32* files, const u32* rule_offsets,
                   const u32* body_symbols, u32 terminal_count, const u32* root, const u32* root_offsets,
                   const u64* body_starts, const u64* root_starts, const u32* signatures, const u32* place_offsets,
                   const u32* places, const u32* body_rules, const u32* position_offsets, const u32* positions,
                   const u64* keys, const u32* weights, u64 mask, u32* queries_out, u32* symbols_out, u64* offsets_out,
                   u32* items_out, u32 items_max, u64* results, u32* result_count, u32 results_max, u32 offset_bits) {
    SHARED(SearchShared, shared);
    const u64 count = candidates[item_count];
    const u64 tile_first = u64(blockIdx.x) * TILE;
    const u64 tile_end = min(tile_first + TILE, count);
    if (threadIdx.x == 0) shared.first = owner_of(candidates, 0, item_count, tile_first);
    if (threadIdx.x == WARP_THREADS) shared.end = owner_of(candidates, 0, item_count, tile_end - 1) + 1;
    __syncthreads();
    for (u64 start = tile_first; start < tile_end; start += THREADS) {
        const u64 candidate = start + threadIdx.x;
        bool is_item = false, is_result = false;
        u32 query = 0, symbol = 0;
        u64 offset = 0;
        if (candidate < tile_end) {
            const u64 item = owner_of(candidates, shared.first, shared.end, candidate);
            const u32 index = u32(candidate - candidates[item]);
            query = queries[item];
            const u32 from = symbols[item];
            const u32 plain = query & ~DOWN;
            const u32 file = files[plain];
            if (query & DOWN) {
                if (from == ROOT) {
                    const u32 position = root_offsets[file] + index;
                    symbol = root[position];
                    offset = root_starts[position];
                } else {
                    const u32 at = rule_offsets[from - terminal_count] + index;
                    symbol = body_symbols[at];
                    offset = offsets[item] + body_starts[at];
                }
                if (symbol < terminal_count) {
                    is_result = symbol >= firsts[plain] && symbol < ends[plain];
                    offset += symbol >= spaceds[plain] ? 1 : 0;
                } else {
                    // The bits of a word: those of any of its terminals.
                    is_item = (signatures[symbol] & signatures[firsts[plain]]) != 0;
                }
            } else {
                const u32 first_place = place_offsets[from];
                const u32 place_count = place_offsets[from + 1] - first_place;
                if (index < place_count) {
                    const u32 at = places[first_place + index];
                    symbol = terminal_count + body_rules[at];
                    offset = offsets[item] + body_starts[at];
                    is_item = weight_of(keys, weights, mask, symbol, file) > 0;
                } else {
                    const Range found = positions_in_file(positions, position_offsets, root_offsets, from, file);
                    offset = offsets[item] + root_starts[positions[found.first + index - place_count]];
                    is_result = true;
                }
            }
            if (is_result) offset -= root_starts[root_offsets[file]];
        }
        const u32 item_out = append(items_out, is_item);
        if (is_item && item_out < items_max) {
            queries_out[item_out] = query;
            symbols_out[item_out] = symbol;
            offsets_out[item_out] = offset;
        }
        const u32 result = append(result_count, is_result);
        if (is_result && result < results_max) results[result] = u64(query & ~DOWN) << offset_bits | offset;
    }
}

// Results become offsets alone, without their queries.
extern "C" __global__ void __launch_bounds__(THREADS)
search_strip_kernel(u64* results, u64 result_count, u32 offset_bits) {
    for (u64 i = grid_thread(); i < result_count; i += grid_threads()) results[i] &= (u64(1) << offset_bits) - 1;
}

// Extract.

// Places that a thread keeps on its way down; below them it descends from the root again.
constexpr u32 KEPT = 16;

struct ExtractShared {
    // By thread, padded so that threads begin in different banks.
    u8 bytes[LOOKUP_THREADS][LOOKUP_CHUNK + 4];
};

// Chunk c of query q is bytes (c - chunk_offsets[q]) * CHUNK .. + CHUNK of its text, which begins at `starts[q]` of the
// segment and has sizes[q] bytes; it is written to bytes c * CHUNK of `out`.
extern "C" __global__ void __launch_bounds__(THREADS)
extract_kernel(const u32* files, const u64* starts, const u64* sizes, const u64* chunk_offsets, u64 count,
               const u32* rule_offsets, const u32* symbols, u32 terminal_count, const u32* root,
               const u32* root_offsets, const u64* body_starts, const u64* root_starts, const u32* text_offsets,
               const u8* texts, u8* out) {
    SHARED(ExtractShared, shared);
    const u64 chunk = grid_thread();
    if (chunk >= chunk_offsets[count]) return;
    const u64 query = owner_of(chunk_offsets, 0, count, chunk);
    const u64 before = (chunk - chunk_offsets[query]) * CHUNK;
    const u32 size = u32(min(u64(CHUNK), sizes[query] - before));
    const u64 begin = starts[query] + before;
    u8* bytes = shared.bytes[threadIdx.x];
    const u32 file = files[query];
    const u64 file_first = root_offsets[file], file_end = root_offsets[file + 1];
    // What comes after what was copied: body symbols cursor .. end, innermost last; a ring, as only the last are kept.
    u32 cursors[KEPT], kept_ends[KEPT];
    u32 depth = 0, kept = 0;
    u32 copied = 0;
    while (copied < size) {
        // Down from the root to the byte.
        const u64 at = begin + copied;
        const u64 position = owner_of(root_starts, file_first, file_end, at);
        u32 symbol = root[position];
        u64 skip = at - root_starts[position];
        depth = 0;
        kept = 0;
        while (true) {
            const u32 text = text_offsets[symbol];
            const u32 text_size = text_offsets[symbol + 1] - text;
            const u32 first = text_size == 0 ? rule_offsets[symbol - terminal_count] : 0;
            const u32 end = text_size == 0 ? rule_offsets[symbol - terminal_count + 1] : 0;
            if (first < end) {
                const u32 found = u32(owner_of(body_starts, first, end, skip));
                skip -= body_starts[found];
                symbol = symbols[found];
                if (found + 1 < end) {
                    cursors[depth % KEPT] = found + 1;
                    kept_ends[depth % KEPT] = end;
                    depth++;
                    kept = min(kept + 1, KEPT);
                }
                continue;
            }
            const u32 part = min(text_size - u32(skip), size - copied);
            for (u32 i = 0; i < part; i++) bytes[copied + i] = texts[text + u32(skip) + i];
            copied += part;
            skip = 0;
            if (copied == size || kept == 0) break;
            const u32 top = (depth - 1) % KEPT;
            symbol = symbols[cursors[top]];
            if (++cursors[top] == kept_ends[top]) {
                depth--;
                kept--;
            }
        }
    }
    for (u32 i = size; i < CHUNK; i++) bytes[i] = 0;
    u32* target = reinterpret_cast<u32*>(out + chunk * CHUNK);
    const u32* source = reinterpret_cast<const u32*>(bytes);
#pragma unroll
    for (u32 i = 0; i < CHUNK / 4; i++) target[i] = source[i];
}
