// segment_sums.cu: the sum of the values of each segment of an array.
// In     offsets [segments + 1] u32; values [count] u64, of which segment s has those from offsets[s] on
// Out    sums [segments] u64, 0 on entry
// Work   reads offsets and values once
// Map    tiles of TILE values, each thread CONSECUTIVE of a tile; a warp in one segment adds up before it writes
// Exact  integer sums, wrapping, so their order does not matter
#include "primitives.cuh"

constexpr u32 THREADS = SEGMENT_SUMS_THREADS;
constexpr u32 TILE = SEGMENT_SUMS_TILE;
constexpr u32 CONSECUTIVE = TILE / THREADS;

// Shared memory is read across: one word of room after 32 keeps lanes in different banks.
constexpr u32 TILE_PADDED = TILE + TILE / 32;
__device__ __forceinline__ u32 padded(u32 index) { return index + index / 32; }

struct SegmentShared {
    u64 values[TILE_PADDED];
    u32 first;
    u32 end;
};

// sums[s] += values[offsets[s] .. offsets[s + 1]], wrapping. A thread adds up its items and hands each segment's
// part over when it ends.
extern "C" __global__ void __launch_bounds__(THREADS)
segment_sums_kernel(const u32* offsets, u32 segments, const u64* values, u64* sums, u32 count) {
    SHARED(SegmentShared, shared);
    const u64 first = u64(blockIdx.x) * TILE;
    const u32 in_tile = u32(min(u64(TILE), u64(count) - first));
    find_block_owners(offsets, segments, u32(first), u32(first) + in_tile, shared.first, shared.end);
#pragma unroll
    for (u32 i = 0; i < CONSECUTIVE; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        if (at < in_tile) shared.values[padded(at)] = values[first + at];
    }
    __syncthreads();
    const u32 thread_first = threadIdx.x * CONSECUTIVE;
    const bool is_active = thread_first < in_tile;
    u32 segment = 0;
    u64 sum = 0;
    if (is_active) {
        const u32 thread_end = min(thread_first + CONSECUTIVE, in_tile);
        segment = u32(owner_of(offsets, shared.first, shared.end, u32(first + thread_first)));
        u32 end = offsets[segment + 1];
        for (u32 at = thread_first; at < thread_end; at++) {
            while (first + at >= end) {
                if (sum != 0) atomicAdd(&sums[segment], sum);
                sum = 0;
                segment++;
                end = offsets[segment + 1];
            }
            sum += shared.values[padded(at)];
        }
    }
    // What is left: neighbours mostly end in the same segment.
    const u32 first_segment = __shfl_sync(FULL_WARP, segment, 0);
    if (__all_sync(FULL_WARP, is_active && segment == first_segment)) {
        sum = warp_sum(sum);
        if (lane_index() == 0 && sum != 0) atomicAdd(&sums[segment], sum);
    } else if (is_active && sum != 0) {
        atomicAdd(&sums[segment], sum);
    }
}
