// list_search.cuh: lists on a device, queries of a batch, and looking an id up among ascending ids.
// Work   a binary search of the range
// Exact  integers
#pragma once
#include "primitives.cuh"

// Where a list lies among all ids, and its hash buckets, of whose offsets there is one more; `PlainList` in intersect.rs.
struct PlainList {
    u32 first;
    u32 count;
    u32 hash_first;
    u32 buckets;
    u32 shift;
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

// flags[i] = whether candidate i stays beside every other list of its query, as `stays(entry, id)` says of one.
template <typename Stays>
__device__ __forceinline__ void flag_candidates(const u32* ids, const PlainList* lists, const Batch& batch, Stays stays,
                                                u32* flags) {
    for (u64 i = grid_thread(); i < batch.items; i += grid_threads()) {
        const u32 query = u32(owner_of(batch.item_offsets, 0, batch.queries, u32(i)));
        const u32 first = batch.query_offsets[query], end = batch.query_offsets[query + 1];
        const u32 id = ids[lists[batch.entries[first]].first + u32(i) - batch.item_offsets[query]];
        bool is_left = true;
        for (u32 entry = first + 1; is_left && entry < end; entry++) is_left = stays(entry, id);
        flags[i] = is_left;
    }
}
