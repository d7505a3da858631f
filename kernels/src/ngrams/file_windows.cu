// file_windows.cu: n-grams with their files, from one array of the words of all files.
// In     words u32: word << file_bits | file of each word, in order of files
// Out    sorted windows as rows: their words, how often each occurs, and its files with counts
// Work   16 bytes a word, and the sort; windows of more than 64 bits have codes, and few of these a second sort
// Map    a thread a word; runs of windows in tiles, by a look-back
// Exact  sums, places from scans, stable sorts
#include "codes.cuh"

constexpr u32 THREADS = FILE_WINDOWS_THREADS;
constexpr u32 WARPS = THREADS / WARP_THREADS;

using Quad = Vector<u32>;

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

constexpr u32 WINDOW_TILE = FILE_WINDOWS_TILE;
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
        // Vectors behind the window are not loaded.
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
