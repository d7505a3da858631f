// root_words.cu: one array of the words of all files, each word with its file.
// In     the root of a grammar over words and the file of each of its symbols; the words of rules
// Out    keys u32: word << file_bits | file of each word, in order of files
// Work   a record of 32 bytes for each root symbol; 4 bytes a word
// Map    a thread a root symbol, then a thread some words
// Exact  places from scans
#include "rule_words.cuh"

constexpr u32 THREADS = ROOT_WORDS_THREADS;
constexpr u32 ROOT_TILE = ROOT_WORDS_TILE;

// sizes[i] = words of a symbol of the root.
extern "C" __global__ void __launch_bounds__(THREADS)
word_sizes_kernel(const u32* root, u64 count, u32 terminals, const u32* flat, u32* sizes) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        sizes[i] = root[i] < terminals ? 1 : expansion_of(flat, root[i] - terminals).length;
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

// The words of the root, with the file of each: keys[i] = word << file_bits | file. The words of root symbol s, whose owner
// is found here, begin at places[s].
extern "C" __global__ void __launch_bounds__(THREADS)
root_words_kernel(const u32* root, const u32* root_files, u32 root_count, const u32* places, u64 count,
                  const u32* flat, u32 terminals, u32 file_bits, u32* keys) {
    SHARED(RootShared, shared);
    const u64 first = u64(blockIdx.x) * ROOT_TILE;
    const u64 end = min(first + ROOT_TILE, count);
    const Owners here = block_owners(places, root_count, u32(first), u32(end), shared.expand);
    const auto symbol_of = [&](u32 owner) {
        const u32 symbol = root[here.first + owner], file = root_files[here.first + owner];
        if (symbol < terminals) return RootSymbol{symbol, file};
        return RootSymbol{expansion_of(flat, symbol - terminals).place - here.offsets[owner], file | IS_RULE};
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
