// codes.cu: the parts that words have in codes.
// In     before [words + 1] u64: how often the words before each occur
// Out    parts [words]
// Work   16 bytes a word
// Map    a thread a word
// Exact  integers only
#include "codes.cuh"

constexpr u32 THREADS = CODES_THREADS;

extern "C" __global__ void __launch_bounds__(THREADS)
code_parts_kernel(const u64* before, u64 words, CodePart* parts) {
    // Rare words count as if they were some 2^-27 of all.
    const u64 more = (before[words] >> 27) + 1;
    const u64 all = before[words] + words * more;
    const u32 length = 64 - __clzll(i64(all));
    const u32 shift = length > 32 ? length - 32 : 0;
    const u64 whole = (all >> shift) + (shift > 0);
    const auto share = [&](u64 word) {
        const u64 end = ((before[word] + word * more) >> shift << 32) / whole;
        return u32(min(end, u64(~0u)));
    };
    for (u64 word = grid_thread(); word < words; word += grid_threads()) {
        parts[word] = CodePart{share(word), share(word + 1)};
    }
}
