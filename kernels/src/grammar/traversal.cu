// traversal.cu: a grammar without its highest levels, which are inlined into the root.
// In     the arrays of a grammar; weights of rules; flat bodies of the rules that go
// Out    the symbols that the root gains by each level; the longer root
// Work   O(rules); then a pass over the root and one over the longer one
// Map    a thread a rule or symbol
// Exact  integer sums, places from scans
#include "primitives.cuh"

constexpr u32 THREADS = TRAVERSAL_THREADS;

// gains[level] += weight * (symbols - 1) for each rule: what the root gains if it is inlined with all higher levels.
extern "C" __global__ void __launch_bounds__(THREADS)
level_gains_kernel(const u32* rule_offsets, u32 rules, const u32* level_offsets, u32 levels, const u32* weights,
                   u64* gains) {
    // Whole warps, for the sums; neighbours mostly are of one level.
    for (u64 first = grid_thread() - lane_index(); first < rules; first += grid_threads()) {
        const u64 rule = first + lane_index();
        u64 gain = 0;
        u32 level = 0;
        if (rule < rules) {
            const u64 length = rule_offsets[rule + 1] - rule_offsets[rule];
            gain = length > 1 ? weights[rule] * (length - 1) : 0;
            level = u32(owner_of(level_offsets, 0, levels, u32(rule)));
        }
        const u32 level_first = __shfl_sync(FULL_WARP, level, 0);
        if (__all_sync(FULL_WARP, level == level_first || gain == 0)) {
            gain = warp_sum(gain);
            if (lane_index() == 0 && gain > 0) atomicAdd(&gains[level], gain);
        } else if (gain > 0) {
            atomicAdd(&gains[level], gain);
        }
    }
}

// sizes[i] = symbols that take the place of root symbol i.
extern "C" __global__ void __launch_bounds__(THREADS)
flat_sizes_kernel(const u32* root, u64 count, u32 kept, const u32* flat_offsets, u32* sizes) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 symbol = root[i];
        sizes[i] = symbol < kept ? 1 : flat_offsets[symbol - kept + 1] - flat_offsets[symbol - kept];
    }
}

// The longer root: `owners` has for each place the root symbol that it comes from, `places` where that begins.
extern "C" __global__ void __launch_bounds__(THREADS)
flat_root_kernel(const u32* root, const u32* owners, const u32* places, u64 count, u32 kept, const u32* flat_offsets,
                 const u32* flat_symbols, u32* out) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 owner = owners[i];
        const u32 symbol = root[owner];
        out[i] = symbol < kept ? symbol : flat_symbols[flat_offsets[symbol - kept] + (u32(i) - places[owner])];
    }
}

// out[i] = values[numbers[i]].
extern "C" __global__ void __launch_bounds__(THREADS)
gather_kernel(const u32* values, const u32* numbers, u64 count, u32* out) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) out[i] = values[numbers[i]];
}

// sample[i] = symbols[i * step].
extern "C" __global__ void __launch_bounds__(THREADS)
sample_kernel(const u32* symbols, u64 step, u32* sample, u64 count) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) sample[i] = symbols[i * step];
}
