// query_batches.cu: where the answers of each query of a batch begin, and answers that were written as candidates.
// In     item_offsets [queries + 1] u32   candidates of each query
//        places [items + 1] u32   candidates before each one that stay
//        candidates [items] u32   ids
// Out    result_offsets [queries + 1] u32, survivors [places[items]] u32
// Work   one pass
// Map    a thread a query, or a candidate
// Exact  integers
#include "primitives.cuh"

constexpr u32 THREADS = QUERY_BATCHES_THREADS;

// result_offsets[q] = survivors before those of query q.
extern "C" __global__ void __launch_bounds__(THREADS)
result_offsets_kernel(const u32* item_offsets, u32 queries, const u32* places, u32* result_offsets) {
    for (u64 q = grid_thread(); q <= queries; q += grid_threads()) result_offsets[q] = places[item_offsets[q]];
}

// survivors[places[i]] = candidate i, where it stays.
extern "C" __global__ void __launch_bounds__(THREADS)
kept_candidates_kernel(const u32* candidates, u32 items, const u32* places, u32* survivors) {
    for (u64 i = grid_thread(); i < items; i += grid_threads()) {
        const u32 place = places[i];
        if (places[i + 1] != place) survivors[place] = candidates[i];
    }
}
