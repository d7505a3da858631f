// intersect.cu: which candidates of a batch of queries other lists have, and the survivors, densely.
// In     ids [all] u32           lists one behind the other, resident
//        lists [lists]           where each list lies, and what methods keep of it, resident
//        entries [entries] u32   the lists of all queries, the list whose ids are candidates first
//        query_offsets [queries + 1] u32  entries of each query
//        item_offsets [owners + 1] u32    candidates of each query, or of each entry
// Out    flags [items] u32       1 for candidates that stay; then survivors, and where those of each query begin
// Work   a search in each list for each candidate, until one ends it
// Map    a thread a candidate, blocks of 256 (Ao et al. 4.1, appendix C)
// Exact  integers; lines are f64 whose distances have one added for rounding, and only bound a binary search
#include "list_search.cuh"

constexpr u32 THREADS = INTERSECT_THREADS;
constexpr u32 LOCAL_IDS = INTERSECT_LOCAL_IDS;
constexpr u32 PARTS = INTERSECT_PARTS;

struct PlainList {
    u32 first;
    u32 count;
    // Bucket offsets of the hash, of which there is one more than buckets.
    u32 hash_first;
    u32 buckets;
    u32 shift;
    u32 local_first;
    Line line;
};

// Everything a search may look at.
struct Resident {
    const u32* ids;
    const PlainList* lists;
    const u32* hash_offsets;
    const Line* local_lines;
};

// Ways to look an id up in a list; `splits` is where the parts of this entry begin, for merge-find.
struct Binary {
    static __device__ __forceinline__ bool find(const Resident& all, const PlainList& list, u32 id, const u32*, u32) {
        return has(all.ids + list.first, 0, list.count, id);
    }
};

struct Interpolation {
    static __device__ __forceinline__ bool find(const Resident& all, const PlainList& list, u32 id, const u32*, u32) {
        const u32* ids = all.ids + list.first;
        u32 low = 0, end = list.count;
        while (low < end) {
            const u32 first = ids[low], last = ids[end - 1];
            if (id < first || id > last) return false;
            const u32 span = last - first;
            const u32 place = low + u32(u64(id - first) * (end - 1 - low) / (span == 0 ? 1 : span));
            const u32 found = ids[place];
            if (found == id) return true;
            if (found < id) {
                low = place + 1;
            } else {
                end = place;
            }
        }
        return false;
    }
};

struct ByLine {
    static __device__ __forceinline__ bool find(const Resident& all, const PlainList& list, u32 id, const u32*, u32) {
        u32 first, end;
        safe_range(list.line, id, list.count, first, end);
        return has(all.ids + list.first, first, end, id);
    }
};

struct ByLocalLines {
    static __device__ __forceinline__ bool find(const Resident& all, const PlainList& list, u32 id, const u32*, u32) {
        const u32* ids = all.ids + list.first;
        u32 low = 0, high = (list.count + LOCAL_IDS - 1) / LOCAL_IDS;
        while (low < high) {
            const u32 middle = low + (high - low) / 2;
            if (ids[middle * LOCAL_IDS] <= id) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (low == 0) return false;
        const u32 begin = (low - 1) * LOCAL_IDS;
        u32 first, end;
        safe_range(all.local_lines[list.local_first + low - 1], id, min(LOCAL_IDS, list.count - begin), first, end);
        return has(ids + begin, first, end, id);
    }
};

struct ByHash {
    static __device__ __forceinline__ bool find(const Resident& all, const PlainList& list, u32 id, const u32*, u32) {
        const u32 hash = u32(u64(id) >> list.shift);
        if (hash >= list.buckets) return false;
        const u32* offsets = all.hash_offsets + list.hash_first + hash;
        return has(all.ids + list.first, offsets[0], offsets[1], id);
    }
};

struct ByMergeFind {
    static __device__ __forceinline__ bool find(const Resident& all, const PlainList& list, u32 id, const u32* splits,
                                                u32 part_shift) {
        const u32 part = u32(u64(id) >> part_shift);
        if (part >= PARTS) return false;
        return has(all.ids + list.first, splits[part], splits[part + 1], id);
    }
};

// flags[i] = whether candidate i is in all other lists of its query; in none of them if `is_difference`.
template <typename Method>
__device__ __forceinline__ void flag_candidates(const Resident& all, const Batch& batch, u32 is_difference, const u32* splits,
                                                u32 part_shift, u32* flags) {
    for (u64 i = grid_thread(); i < batch.items; i += grid_threads()) {
        const u32 query = u32(owner_of(batch.item_offsets, 0, batch.queries, u32(i)));
        const u32 first = batch.query_offsets[query], end = batch.query_offsets[query + 1];
        const u32 id = all.ids[all.lists[batch.entries[first]].first + u32(i) - batch.item_offsets[query]];
        bool stays = true;
        for (u32 entry = first + 1; stays && entry < end; entry++) {
            const u32* own = splits == nullptr ? nullptr : splits + u64(entry) * (PARTS + 1);
            const bool found = Method::find(all, all.lists[batch.entries[entry]], id, own, part_shift);
            stays = found != (is_difference != 0);
        }
        flags[i] = stays;
    }
}

// As `flag_candidates`, by the number of the method, for which the machine code is made.
extern "C" __global__ void __launch_bounds__(THREADS)
flags_kernel(const u32* ids, const PlainList* lists, const u32* hash_offsets, const Line* local_lines, const u32* entries,
             const u32* query_offsets, const u32* item_offsets, u32 queries, u32 items, u32 is_difference, const u32* splits,
             u32 part_shift, u32 method, u32* flags) {
    const Resident all{ids, lists, hash_offsets, local_lines};
    const Batch batch{entries, query_offsets, item_offsets, queries, items};
    switch (MADE_FOR_OR(method)) {
        case 0: return flag_candidates<Binary>(all, batch, is_difference, splits, part_shift, flags);
        case 1: return flag_candidates<Interpolation>(all, batch, is_difference, splits, part_shift, flags);
        case 2: return flag_candidates<ByLine>(all, batch, is_difference, splits, part_shift, flags);
        case 3: return flag_candidates<ByLocalLines>(all, batch, is_difference, splits, part_shift, flags);
        case 4: return flag_candidates<ByHash>(all, batch, is_difference, splits, part_shift, flags);
        default: return flag_candidates<ByMergeFind>(all, batch, is_difference, splits, part_shift, flags);
    }
}

// splits[entry][p] = how many ids of the entry's list come before part p, which begins at p << part_shift.
extern "C" __global__ void __launch_bounds__(THREADS)
split_lists_kernel(const u32* ids, const PlainList* lists, const u32* entries, u32 entry_count, u32 part_shift, u32* splits) {
    const u64 items = u64(entry_count) * (PARTS + 1);
    for (u64 i = grid_thread(); i < items; i += grid_threads()) {
        const PlainList& list = lists[entries[i / (PARTS + 1)]];
        const u64 border = (i % (PARTS + 1)) << part_shift;
        const u32* own = ids + list.first;
        // Ids are 32 bits wide, so that a border beyond has all before it.
        splits[i] = border == 0           ? 0
                    : border > 0xffffffff ? list.count
                                          : u32(count_at_most(own, list.count, u32(border - 1)));
    }
}

// survivors[places[i]] = candidate i, where flags said so; item_offsets are those of queries.
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

// flags[i] = whether id i of the entries is in no entry of its query before its own; item_offsets are those of entries.
extern "C" __global__ void __launch_bounds__(THREADS)
first_uses_kernel(const u32* ids, const PlainList* lists, const u32* entries, const u32* query_offsets,
                  const u32* item_offsets, u32 queries, u32 entry_count, u32 items, u32* flags) {
    for (u64 i = grid_thread(); i < items; i += grid_threads()) {
        const u32 own = u32(owner_of(item_offsets, 0, entry_count, u32(i)));
        const u32 query = u32(owner_of(query_offsets, 0, queries, own));
        const u32 id = ids[lists[entries[own]].first + u32(i) - item_offsets[own]];
        bool is_first = true;
        for (u32 entry = query_offsets[query]; is_first && entry < own; entry++) {
            const PlainList& list = lists[entries[entry]];
            is_first = !has(ids + list.first, 0, list.count, id);
        }
        flags[i] = is_first;
    }
}

// keys[places[i]] = query and id, where flags said so; item_offsets are those of entries.
extern "C" __global__ void __launch_bounds__(THREADS)
union_keys_kernel(const u32* ids, const PlainList* lists, const u32* entries, const u32* query_offsets,
                  const u32* item_offsets, u32 queries, u32 entry_count, u32 items, const u32* places, u64* keys) {
    for (u64 i = grid_thread(); i < items; i += grid_threads()) {
        const u32 place = places[i];
        if (places[i + 1] == place) continue;
        const u32 own = u32(owner_of(item_offsets, 0, entry_count, u32(i)));
        const u64 query = owner_of(query_offsets, 0, queries, own);
        keys[place] = query << 32 | ids[lists[entries[own]].first + u32(i) - item_offsets[own]];
    }
}

// survivors[i] = the id of key i.
extern "C" __global__ void __launch_bounds__(THREADS)
union_ids_kernel(const u64* keys, u32 count, u32* survivors) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) survivors[i] = u32(keys[i]);
}

// result_offsets[q] = survivors before those of query q; item_offsets are those of entries.
extern "C" __global__ void __launch_bounds__(THREADS)
union_offsets_kernel(const u32* query_offsets, const u32* item_offsets, u32 queries, const u32* places, u32* result_offsets) {
    for (u64 q = grid_thread(); q <= queries; q += grid_threads()) {
        result_offsets[q] = places[item_offsets[query_offsets[q]]];
    }
}
