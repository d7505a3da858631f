// query_batches.cu: where the answers of each query of a batch begin.
// In     item_offsets [queries + 1] u32   candidates of each query
//        places [items + 1] u32   candidates before each one that stay
// Out    result_offsets [queries + 1] u32
// Work   one pass
// Map    a thread a query
// Exact  integers
#include "primitives.cuh"

constexpr u32 THREADS = QUERY_BATCHES_THREADS;

// result_offsets[q] = survivors before those of query q.
extern "C" __global__ void __launch_bounds__(THREADS)
result_offsets_kernel(const u32* item_offsets, u32 queries, const u32* places, u32* result_offsets) {
    for (u64 q = grid_thread(); q <= queries; q += grid_threads()) result_offsets[q] = places[item_offsets[q]];
}
