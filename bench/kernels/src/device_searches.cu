// device_searches.cu: which candidates of a batch of queries stay, by ways to search lists that a database does not use, and unions.
// In     ids [all] u32           lists one behind the other, resident
//        lists [lists]           where each list lies, resident
//        lines [lists]           a line through each list, resident
//        local_firsts [lists], local_lines  where the lines of parts of each list begin, and they
//        entries [entries] u32   the lists of all queries, the list whose ids are candidates first
//        query_offsets [queries + 1] u32  entries of each query
//        item_offsets [owners + 1] u32    candidates of each query, or of each entry
// Out    flags [items] u32       1 for candidates that stay; of unions the ids, and where those of each query begin
// Work   a search in each list for each candidate, until one ends it
// Map    a thread a candidate, blocks of 256 (Ao et al. 4.1, appendix C)
// Exact  integers; lines are f64 whose distances have one added for rounding, and only bound a binary search
#include "list_search.cuh"
#include "lines.cuh"

constexpr u32 THREADS = SEARCHES_THREADS;
constexpr u32 LOCAL_IDS = SEARCHES_LOCAL_IDS;
constexpr u32 PARTS = SEARCHES_PARTS;

// Everything a search may examine.
struct Resident {
    const u32* ids;
    const PlainList* lists;
    const Line* lines;
    const u32* local_firsts;
    const Line* local_lines;
};

// Ways to look an id up in a list; `splits` is where the parts of this entry begin, for merge-find.
struct Binary {
    static __device__ __forceinline__ bool find(const Resident& all, u32 number, u32 id, const u32*, u32) {
        const PlainList& list = all.lists[number];
        return has(all.ids + list.first, 0, list.count, id);
    }
};

struct Interpolation {
    static __device__ __forceinline__ bool find(const Resident& all, u32 number, u32 id, const u32*, u32) {
        const PlainList& list = all.lists[number];
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
    static __device__ __forceinline__ bool find(const Resident& all, u32 number, u32 id, const u32*, u32) {
        const PlainList& list = all.lists[number];
        u32 first, end;
        safe_range(all.lines[number], id, list.count, first, end);
        return has(all.ids + list.first, first, end, id);
    }
};

struct ByLocalLines {
    static __device__ __forceinline__ bool find(const Resident& all, u32 number, u32 id, const u32*, u32) {
        const PlainList& list = all.lists[number];
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
        const Line& line = all.local_lines[all.local_firsts[number] + low - 1];
        u32 first, end;
        safe_range(line, id, min(LOCAL_IDS, list.count - begin), first, end);
        return has(ids + begin, first, end, id);
    }
};

struct ByMergeFind {
    static __device__ __forceinline__ bool find(const Resident& all, u32 number, u32 id, const u32* splits,
                                                u32 part_shift) {
        const u32 part = u32(u64(id) >> part_shift);
        if (part >= PARTS) return false;
        return has(all.ids + all.lists[number].first, splits[part], splits[part + 1], id);
    }
};

// flags[i] = whether candidate i is in all other lists of its query; in none of them if `is_difference`.
template <typename Method>
__device__ __forceinline__ void flags_by(const Resident& all, const Batch& batch, u32 is_difference, const u32* splits,
                                         u32 part_shift, u32* flags) {
    const auto stays = [&](u32 entry, u32 id) {
        const u32* own = splits == nullptr ? nullptr : splits + u64(entry) * (PARTS + 1);
        return Method::find(all, batch.entries[entry], id, own, part_shift) != (is_difference != 0);
    };
    flag_candidates(all.ids, all.lists, batch, stays, flags);
}

// As `flags_by`, by the number of the method, for which the machine code is made.
extern "C" __global__ void __launch_bounds__(THREADS)
flags_kernel(const u32* ids, const PlainList* lists, const Line* lines, const u32* local_firsts, const Line* local_lines,
             const u32* entries, const u32* query_offsets, const u32* item_offsets, u32 queries, u32 items,
             u32 is_difference, const u32* splits, u32 part_shift, u32 method, u32* flags) {
    const Resident all{ids, lists, lines, local_firsts, local_lines};
    const Batch batch{entries, query_offsets, item_offsets, queries, items};
    switch (MADE_FOR_OR(method)) {
        case 0: return flags_by<Binary>(all, batch, is_difference, splits, part_shift, flags);
        case 1: return flags_by<Interpolation>(all, batch, is_difference, splits, part_shift, flags);
        case 2: return flags_by<ByLine>(all, batch, is_difference, splits, part_shift, flags);
        case 3: return flags_by<ByLocalLines>(all, batch, is_difference, splits, part_shift, flags);
        default: return flags_by<ByMergeFind>(all, batch, is_difference, splits, part_shift, flags);
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
