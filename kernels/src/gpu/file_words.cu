// file_words.cu: the words of all files, one after the other, each with its file; and how often each occurs in each file.
// In     the arrays of a grammar over words: symbols and owners of bodies, root and the file of each of its symbols
//        lengths [rules] u32: words of each; weights [rules] u32: how often each occurs
// Out    keys [words] u32: word << file_bits | file, in order of files; from sorted keys the rows of a table; and the same of
//        windows of n words, whose keys are u64
// Work   a pass over bodies and one over their words for each level; then 16 bytes a word, and the sort
// Map    a thread a word; runs of keys in tiles, by a look-back
// Exact  places from scans, stable sorts
// Why    where rules are short a word costs less to write and to sort than a list of files to merge
#include "primitives.cuh"

constexpr u32 THREADS = FILE_WORDS_THREADS;
constexpr u32 ITEMS = FILE_WORDS_TILE / FILE_WORDS_THREADS;
constexpr u32 WARPS = THREADS / WARP_THREADS;
constexpr u32 ROOT_TILE = FILE_WORDS_ROOT_TILE;

// sizes[i] = words of a symbol; 0 in the body of a rule that does not occur, which may be absurdly long. The root, whose
// symbols all count, has no owners.
extern "C" __global__ void __launch_bounds__(THREADS)
word_sizes_kernel(const u32* symbols, const u32* owners, u64 count, u32 terminals, const u32* lengths,
                  const u32* weights, u32* sizes) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 symbol = symbols[i];
        const bool counts = owners == nullptr || weights[owners[i]] > 0;
        sizes[i] = !counts ? 0 : symbol < terminals ? 1 : lengths[symbol - terminals];
    }
}

// The words of the bodies of one level: symbols first_symbol .. end_symbol, whose words begin at places[symbol]; `owners` has
// for each word the symbol that it comes of.
extern "C" __global__ void __launch_bounds__(THREADS)
level_words_kernel(const u32* symbols, const u32* rule_offsets, const u32* places, const u32* owners, u32 first_symbol,
                   u32 end_symbol, u32 terminals, u32* flat) {
    const u64 end = places[end_symbol];
    for (u64 i = places[first_symbol] + grid_thread(); i < end; i += grid_threads()) {
        const u32 owner = owners[i];
        const u32 symbol = symbols[owner];
        flat[i] = symbol < terminals ? symbol : flat[places[rule_offsets[symbol - terminals]] + (u32(i) - places[owner])];
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

// As `level_words_kernel`, for the root, with the file of each word: keys[i] = word << file_bits | file. The words of root
// symbol s, whose owner is found here, begin at places[s].
extern "C" __global__ void __launch_bounds__(THREADS)
root_words_kernel(const u32* root, const u32* root_files, u32 root_count, const u32* places, u64 count,
                  const u32* rule_offsets, const u32* body_places, const u32* flat, u32 terminals, u32 file_bits,
                  u32* keys) {
    SHARED(RootShared, shared);
    const u64 first = u64(blockIdx.x) * ROOT_TILE;
    const u64 end = min(first + ROOT_TILE, count);
    const Owners here = block_owners(places, root_count, u32(first), u32(end), shared.expand);
    const auto symbol_of = [&](u32 owner) {
        const u32 symbol = root[here.first + owner], file = root_files[here.first + owner];
        if (symbol < terminals) return RootSymbol{symbol, file};
        return RootSymbol{body_places[rule_offsets[symbol - terminals]] - here.offsets[owner], file | IS_RULE};
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

// The runs of equal keys: the key and the first place of each, and how many there are.
extern "C" __global__ void __launch_bounds__(THREADS)
run_firsts_kernel(const u32* keys, u64 count, u64* words, u32* ticket, u32* run_keys, u32* firsts, u64* runs) {
    using Shared = TileSums<u32, WARPS>;
    SHARED(Shared, shared);
    const u32 tile = only_tile(ticket, shared);
    const u64 first = u64(tile) * ITEMS * THREADS + warp_index() * ITEMS * WARP_THREADS + lane_index();
    u32 items[ITEMS], behind[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        items[i] = at < count ? keys[at] : 0;
        behind[i] = lane_index() == 0 && at > 0 && at < count ? keys[at - 1] : 0;
    }
    // By row of 32 items: which are the first of a run.
    u32 heads[ITEMS];
    u32 sum = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        const u32 below = __shfl_up_sync(FULL_WARP, items[i], 1);
        const u32 previous = lane_index() == 0 ? behind[i] : below;
        heads[i] = __ballot_sync(FULL_WARP, at < count && (at == 0 || items[i] != previous));
        sum += __popc(heads[i]);
    }
    u64 all;
    // Fewer than there are keys, which a sort takes.
    u32 place = u32(sum_before_warp(words, sum, shared, all));
    if (threadIdx.x == 0 && u64(tile + 1) * ITEMS * THREADS >= count) *runs = all;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if ((heads[i] >> lane_index()) & 1) {
            const u32 to = place + __popc(heads[i] & lanes_below());
            run_keys[to] = items[i];
            firsts[to] = u32(first + i * WARP_THREADS);
        }
        place += __popc(heads[i]);
    }
}

// From runs of keys, row << column_bits | column: offsets [rows + 1] and entries, column << 32 | length.
extern "C" __global__ void __launch_bounds__(THREADS)
run_entries_kernel(const u32* run_keys, const u32* firsts, u64 runs, u32 count, u32 column_bits, u32 rows,
                   u32* offsets, u64* entries) {
    for (u64 i = grid_thread(); i <= runs; i += grid_threads()) {
        // No more than 31 bits each, so that shifts are defined.
        const u32 from = i == 0 ? 0 : (run_keys[i - 1] >> column_bits) + 1;
        const u32 to = i == runs ? rows : run_keys[i] >> column_bits;
        for (u32 row = from; row <= to; row++) offsets[row] = u32(i);
        if (i < runs) {
            const u32 length = (i + 1 < runs ? firsts[i + 1] : count) - firsts[i];
            entries[i] = u64(run_keys[i] & ((1u << column_bits) - 1)) << 32 | length;
        }
    }
}

// keys[i] = the n words from word i on, or all ones where the file ends before; files[i] = its file.
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
        }
        keys[i] = key;
        files[i] = file;
    }
}

constexpr u32 WINDOW_ITEMS = FILE_WORDS_WINDOWS_TILE / FILE_WORDS_THREADS;

// Rows above entries in one number of a look-back: both are fewer than 2^30.
constexpr u32 ROWS_SHIFT = 31;
constexpr u64 ENTRIES_MASK = (u64(1) << ROWS_SHIFT) - 1;

// Sorted keys of windows with files, those of all ones last, which count for nothing: the runs of keys, and in them those of
// files. Row r begins with window row_firsts[r] and entry row_entries[r]; entry e with window entry_firsts[e]. `totals`, the
// number of windows on entry, becomes how many count, and behind it rows << ROWS_SHIFT | entries.
extern "C" __global__ void __launch_bounds__(THREADS)
window_runs_kernel(const u64* keys, const u32* files, u64 count, u64* words, u32* ticket, u64* row_keys,
                   u32* row_firsts, u32* row_entries, u32* entry_firsts, u32* entry_files, u64* totals) {
    using Shared = TileSums<u64, WARPS>;
    SHARED(Shared, shared);
    const u32 tile = only_tile(ticket, shared);
    const u64 first = (u64(tile) * THREADS + warp_index() * WARP_THREADS) * WINDOW_ITEMS + lane_index();
    const bool is_first_lane = lane_index() == 0;
    u64 key[WINDOW_ITEMS], key_behind[WINDOW_ITEMS];
    u32 file[WINDOW_ITEMS], file_behind[WINDOW_ITEMS];
#pragma unroll
    for (u32 i = 0; i < WINDOW_ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        const bool has_behind = is_first_lane && at > 0 && at < count;
        key[i] = at < count ? keys[at] : ~u64(0);
        file[i] = at < count ? files[at] : 0;
        key_behind[i] = has_behind ? keys[at - 1] : 0;
        file_behind[i] = has_behind ? files[at - 1] : 0;
    }
    u32 rows[WINDOW_ITEMS], entries[WINDOW_ITEMS];
    u64 sum = 0;
#pragma unroll
    for (u32 i = 0; i < WINDOW_ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        const u64 key_below = __shfl_up_sync(FULL_WARP, key[i], 1);
        const u32 file_below = __shfl_up_sync(FULL_WARP, file[i], 1);
        const u64 previous = is_first_lane ? key_behind[i] : key_below;
        const u32 previous_file = is_first_lane ? file_behind[i] : file_below;
        const bool counts = key[i] != ~u64(0);
        const bool is_row = counts && (at == 0 || key[i] != previous);
        rows[i] = __ballot_sync(FULL_WARP, is_row);
        entries[i] = __ballot_sync(FULL_WARP, is_row || (counts && file[i] != previous_file));
        sum += u64(__popc(rows[i])) << ROWS_SHIFT | __popc(entries[i]);
        if (!counts && at < count && (at == 0 || previous != ~u64(0))) totals[0] = at;
    }
    u64 all;
    const u64 place = sum_before_warp(words, sum, shared, all);
    if (threadIdx.x == 0 && u64(tile + 1) * WINDOW_ITEMS * THREADS >= count) totals[1] = all;
    u32 row = u32(place >> ROWS_SHIFT);
    u32 entry = u32(place & ENTRIES_MASK);
#pragma unroll
    for (u32 i = 0; i < WINDOW_ITEMS; i++) {
        const u32 at = u32(first + i * WARP_THREADS);
        const u32 own_entry = entry + __popc(entries[i] & lanes_below());
        if ((rows[i] >> lane_index()) & 1) {
            const u32 own_row = row + __popc(rows[i] & lanes_below());
            row_keys[own_row] = key[i];
            row_firsts[own_row] = at;
            row_entries[own_row] = own_entry;
        }
        if ((entries[i] >> lane_index()) & 1) {
            entry_firsts[own_entry] = at;
            entry_files[own_entry] = file[i];
        }
        row += __popc(rows[i]);
        entry += __popc(entries[i]);
    }
}

// entries[e] = file << 32 | windows.
extern "C" __global__ void __launch_bounds__(THREADS)
window_entries_kernel(const u32* firsts, const u32* files, u64 count, u32 windows, u64* entries) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        entries[i] = u64(files[i]) << 32 | ((i + 1 < count ? firsts[i + 1] : windows) - firsts[i]);
    }
}

// The words of rows, the windows of each, and offsets [rows + 1] of their entries. With n = 0 no words.
extern "C" __global__ void __launch_bounds__(THREADS)
window_rows_kernel(const u64* row_keys, const u32* row_firsts, const u32* row_entries, u64 count, u32 windows,
                   u32 entries, u32 n, u32 bits, u32* words, u32* counts, u32* offsets) {
    const u64 mask = (u64(1) << bits) - 1;
    for (u64 i = grid_thread(); i <= count; i += grid_threads()) {
        offsets[i] = i < count ? row_entries[i] : entries;
        if (i == count) break;
        counts[i] = (i + 1 < count ? row_firsts[i + 1] : windows) - row_firsts[i];
        for (u32 k = 0; k < n; k++) words[i * n + k] = u32(row_keys[i] >> bits * (n - 1 - k) & mask);
    }
}
