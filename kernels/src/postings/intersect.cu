// intersect.cu: which candidates of a batch of queries other lists have, and the survivors, densely.
// In     ids [all] u32           lists one behind the other, resident
//        lists [lists]           where each list and its hash buckets lie, resident
//        hash_offsets u32        where the ids of each bucket of each list begin, resident
//        entries [entries] u32   the lists of all queries, the list whose ids are candidates first
//        query_offsets [queries + 1] u32  entries of each query
//        item_offsets [queries + 1] u32   candidates of each query
// Out    flags [items] u32       1 for candidates that stay; then survivors
// Work   a binary search of a bucket in each list for each candidate, until one ends it
// Map    a thread a candidate, blocks of 256 (Ao et al. 4.1, 4.4)
// Exact  integers
#include "list_search.cuh"

constexpr u32 THREADS = INTERSECT_THREADS;

// flags[i] = whether candidate i is in all other lists of its query.
extern "C" __global__ void __launch_bounds__(THREADS)
hash_flags_kernel(const u32* ids, const PlainList* lists, const u32* hash_offsets, const u32* entries,
                  const u32* query_offsets, const u32* item_offsets, u32 queries, u32 items, u32* flags) {
    const Batch batch{entries, query_offsets, item_offsets, queries, items};
    const auto has_id = [&](u32 entry, u32 id) {
        const PlainList& list = lists[entries[entry]];
        const u32 hash = u32(u64(id) >> list.shift);
        if (hash >= list.buckets) return false;
        const u32* offsets = hash_offsets + list.hash_first + hash;
        return has(ids + list.first, offsets[0], offsets[1], id);
    };
    flag_candidates(ids, lists, batch, has_id, flags);
}

// survivors[places[i]] = candidate i, where flags said so.
extern "C" __global__ void __launch_bounds__(THREADS)
survivors_kernel(const u32* ids, const PlainList* lists, const u32* entries, const u32* query_offsets,
                 const u32* item_offsets, u32 queries, u32 items, const u32* places, u32* survivors) {
    for (u64 i = grid_thread(); i < items; i += grid_threads()) {
        const u32 place = places[i];
        if (places[i + 1] == place) continue;
        const u32 query = u32(owner_of(item_offsets, 0, queries, u32(i)));
        const u32 entry = query_offsets[query];
        survivors[place] = ids[lists[entries[entry]].first + u32(i) - item_offsets[query]];
    }
}
