// list_search.cuh: queries of a batch, looking an id up among ascending ids, and lines that say where it can be.
// Work   a binary search of the range
// Exact  lines are f64 whose distances have one added for rounding, and only bound a search
#pragma once
#include "primitives.cuh"

struct Line {
    double base;
    double inverse;
    double left;
    double right;
};

// Queries with their lists and candidates; `BatchQueries` in query_batches.rs.
struct Batch {
    const u32* entries;
    const u32* query_offsets;
    const u32* item_offsets;
    u32 queries;
    u32 items;
};

// Whether ids[first .. end] has `id`.
__device__ __forceinline__ bool has(const u32* ids, u32 first, u32 end, u32 id) {
    while (first < end) {
        const u32 middle = first + (end - first) / 2;
        const u32 found = ids[middle];
        if (found == id) return true;
        if (found < id) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return false;
}

// The indices that an id can have by a line, of `count`.
__device__ __forceinline__ void safe_range(const Line& line, u32 id, u32 count, u32& first, u32& end) {
    const double near = (double(id) - line.base) * line.inverse;
    // Casts cut fractions off, so one more is behind the end.
    const double low = near - line.left, high = near + line.right + 2.0;
    end = high <= 0.0 ? 0 : high >= double(count) ? count : u32(high);
    first = low <= 0.0 ? 0 : low >= double(end) ? end : u32(low);
}
