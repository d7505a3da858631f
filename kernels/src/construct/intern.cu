// intern.cu: the tokens of a text numbered by what they hold: equal ones have the same number.
// In     text [bytes], cuts [tokens] u16: the size of each token, one after the other, times two, and 1 for a word
// Out    for each token the number of its bytes and kind; for each number its first token
// Work   a pass over the text that hashes, one that compares, and three over the tokens
// Map    a thread a token; a thread a slot of the table
// Exact  what a hash brings together is compared byte for byte; which number a token gets depends on the seed alone
#include "primitives.cuh"

constexpr u32 THREADS = INTERN_THREADS;
constexpr u32 PROBES_MAX = INTERN_PROBES;

// The token of an empty slot.
constexpr u32 NO_TOKEN = 0xffffffffu;

// Faults of a pass.
constexpr u32 IS_FULL = INTERN_IS_FULL;
constexpr u32 IS_ALIKE = INTERN_IS_ALIKE;

// sizes[i] = the bytes of token i.
extern "C" __global__ void __launch_bounds__(THREADS) token_sizes_kernel(const u16* cuts, u64 tokens, u32* sizes) {
    for (u64 i = grid_thread(); i < tokens; i += grid_threads()) sizes[i] = cuts[i] >> 1;
}

__device__ __forceinline__ u64 mixed(u64 hash) {
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93ull;
    return hash ^ hash >> 32;
}

// The hash of a token, which is never 0.
__device__ __forceinline__ u64 hash_of(const u8* text, u32 cut, u64 seed) {
    u64 hash = mixed(seed ^ cut);
    u64 eight = 0;
    const u32 size = cut >> 1;
    for (u32 i = 0; i < size; i++) {
        eight |= u64(text[i]) << i % 8 * 8;
        if (i % 8 == 7) {
            hash = mixed(hash ^ eight) + seed;
            eight = 0;
        }
    }
    hash = mixed(mixed(hash ^ eight) + seed);
    return hash == 0 ? 1 : hash;
}

// Puts the hash of each token into the table: slots[i] = its place. Of a slot, firsts is the first token.
extern "C" __global__ void __launch_bounds__(THREADS)
find_slots_kernel(const u8* text, const u16* cuts, const u32* starts, u64 tokens, u64 seed, u32 slot_mask, u64* hashes, u32* firsts,
                  u32* slots, u32* state) {
    for (u64 i = grid_thread(); i < tokens; i += grid_threads()) {
        const u64 hash = hash_of(text + starts[i], cuts[i], seed);
        u32 slot = u32(hash) & slot_mask;
        u32 probes = 0;
        while (true) {
            u64 found = load_relaxed(&hashes[slot]);
            if (found == 0) {
                found = atomicCAS(&hashes[slot], 0ull, hash);
                if (found == 0) break;
            }
            if (found == hash) break;
            if (++probes == PROBES_MAX) {
                store_relaxed(&state[0], IS_FULL);
                return;
            }
            slot = (slot + 1) & slot_mask;
        }
        // Most tokens are not the first: a look is cheaper.
        if (load_relaxed(&firsts[slot]) > u32(i)) atomicMin(&firsts[slot], u32(i));
        slots[i] = slot;
    }
}

// Says so in the state if a token is not what the first one of its slot is.
extern "C" __global__ void __launch_bounds__(THREADS)
compare_tokens_kernel(const u8* text, const u16* cuts, const u32* starts, u64 tokens, const u32* firsts, const u32* slots, u32* state) {
    for (u64 i = grid_thread(); i < tokens; i += grid_threads()) {
        const u32 first = firsts[slots[i]];
        if (first == u32(i)) continue;
        bool is_same = cuts[first] == cuts[i];
        const u8* left = text + starts[first];
        const u8* right = text + starts[i];
        for (u32 at = 0; is_same && at < u32(cuts[i] >> 1); at++) is_same = left[at] == right[at];
        if (!is_same) store_relaxed(&state[0], IS_ALIKE);
    }
}

// flags[s] = whether slot s has a token.
extern "C" __global__ void __launch_bounds__(THREADS) slot_flags_kernel(const u32* firsts, u64 slots, u32* flags) {
    for (u64 s = grid_thread(); s < slots; s += grid_threads()) flags[s] = firsts[s] != NO_TOKEN;
}

// For each number, which the slot has that as many others are before, where its first token starts and how that is cut.
extern "C" __global__ void __launch_bounds__(THREADS)
first_tokens_kernel(const u32* firsts, const u32* numbers, u64 slots, const u16* cuts, const u32* starts, u32* first_starts,
                    u32* first_cuts) {
    for (u64 s = grid_thread(); s < slots; s += grid_threads()) {
        const u32 first = firsts[s];
        if (first == NO_TOKEN) continue;
        first_starts[numbers[s]] = starts[first];
        first_cuts[numbers[s]] = cuts[first];
    }
}

// ids[i] = what `of` has for it.
extern "C" __global__ void __launch_bounds__(THREADS) renumber_tokens_kernel(u32* ids, u64 tokens, const u32* of) {
    for (u64 i = grid_thread(); i < tokens; i += grid_threads()) ids[i] = of[ids[i]];
}
