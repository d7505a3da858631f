// file_words.cu: the words of all files, one after the other, each with its file; and how often each occurs in each file.
// In     the arrays of a grammar over words: symbols and owners of bodies, root and the file of each of its symbols
//        lengths [rules] u32: words of each; weights [rules] u32: how often each occurs
// Out    keys [words] u32: word << file_bits | file, in order of files; from sorted keys the rows of a table
// Work   a pass over bodies and one over their words for each level; then 16 bytes a word, and the sort
// Map    a thread a word; runs of keys in tiles, by a look-back
// Exact  places from scans, stable sorts
// Why    where rules are short a word costs less to write and to sort than a list of files to merge
#include "primitives.cuh"

constexpr u32 THREADS = FILE_WORDS_THREADS;
constexpr u32 ITEMS = FILE_WORDS_TILE / FILE_WORDS_THREADS;
constexpr u32 WARPS = THREADS / WARP_THREADS;

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

// As `level_words_kernel`, for the root, with the file of each word: keys[i] = word << file_bits | file.
extern "C" __global__ void __launch_bounds__(THREADS)
root_words_kernel(const u32* root, const u32* root_files, const u32* places, const u32* owners, u64 count,
                  const u32* rule_offsets, const u32* body_places, const u32* flat, u32 terminals, u32 file_bits,
                  u32* keys) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 owner = owners[i];
        const u32 symbol = root[owner];
        u32 word = symbol;
        if (symbol >= terminals) word = flat[body_places[rule_offsets[symbol - terminals]] + (u32(i) - places[owner])];
        keys[i] = word << file_bits | root_files[owner];
    }
}

struct RunShared {
    u32 warps[WARPS];
    u64 before;
    u32 tile;
};

// The runs of equal keys: the key and the first place of each, and how many there are.
extern "C" __global__ void __launch_bounds__(THREADS)
run_firsts_kernel(const u32* keys, u64 count, u64* words, u32* ticket, u32* run_keys, u32* firsts, u64* runs) {
    SHARED(RunShared, shared);
    if (threadIdx.x == 0) shared.tile = atomicAdd(ticket, 1u);
    __syncthreads();
    const u32 tile = shared.tile;
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
    if (lane_index() == 0) shared.warps[warp_index()] = sum;
    __syncthreads();
    u32 place = 0, total = 0;
#pragma unroll
    for (u32 warp = 0; warp < WARPS; warp++) {
        if (warp < warp_index()) place += shared.warps[warp];
        total += shared.warps[warp];
    }
    if (warp_index() == 0) {
        const u64 before = warp_look_back(words, tile, total);
        if (lane_index() == 0) shared.before = before;
    }
    __syncthreads();
    if (threadIdx.x == 0 && u64(tile + 1) * ITEMS * THREADS >= count) *runs = shared.before + total;
    // Fewer than there are keys, which a sort takes.
    place += u32(shared.before);
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
