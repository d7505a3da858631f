// coded_lists.cu: as intersect.cu on lists that stay encoded: only ids that are examined are decoded, or blocks of gaps.
// In     words [words] u32       bytes of lists as they are stored, each from a word on; two words more at the end
//        lists [lists]           where the numbers of each list lie, resident
//        heads [heads] u32       H of the paper: the first id of each block, of which a list has its own; or all ids
//        entries [entries] u32   the lists of all queries, the list whose ids are candidates first
//        query_offsets [queries + 1] u32  entries of each query
//        item_offsets [queries + 1] u32   candidates of each query
// Out    candidates [items] u32  decoded
//        flags [items] u32       1 for candidates that all other lists have
// Work   for each candidate and list a search in H, one header, and an id for each step of a search in a block; gaps are decoded
//        by a warp, once for all of its candidates that lie in a block
// Map    a thread a candidate, blocks of 256 (Ao et al. 5.3)
// Exact  integers; lines only bound searches. Whatever bytes say, nothing behind a list's own bits is read
#include "list_search.cuh"
#include "lines.cuh"

constexpr u32 THREADS = CODED_THREADS;
constexpr u32 WARPS = THREADS / WARP_THREADS;
// Ids of a block, except for buckets, and gaps that share a header.
constexpr u32 BLOCK_IDS = CODED_BLOCK_IDS;
constexpr u32 GAP_SEGMENT = CODED_GAP_SEGMENT;
// Bits of slopes behind the point.
constexpr u32 LIST_FRACTION = CODED_LIST_FRACTION;
constexpr u32 SEGMENT_FRACTION = CODED_SEGMENT_FRACTION;
constexpr u32 RESIDUAL_BITS_MAX = CODED_RESIDUAL_BITS_MAX;

// What a list is: all of its ids in H, all ids of the universe, or encoded.
constexpr u32 LIST_PLAIN = 0;
constexpr u32 LIST_EVERY = 1;

// Numbers of one width in the bits of a list: the first bit above 6 bits of width.
typedef u64 BitArray;

struct CodedList {
    u64 first_word;
    u64 bits;
    // The bit where residuals or gaps begin.
    u64 data;
    // The line of the whole list, if that is coded by one.
    u64 base;
    u64 slope;
    // Minima of blocks, or where buckets begin.
    BitArray minima;
    BitArray bases;
    BitArray slopes;
    BitArray ends;
    // Where blocks can be in H.
    Line head_line;
    u32 count;
    u32 kind;
    u32 head_first;
    u32 blocks;
    // Low bits of an id, which its bucket leaves open.
    u32 shift;
    u32 unused;
};

struct Resident {
    const u32* words;
    const CodedList* lists;
    const u32* heads;
};

// `width` bits of a list, 57 at most, from the bit `at` on; zeros behind its end.
__device__ __forceinline__ u64 read_bits(const u32* words, u64 bits, u64 at, u32 width) {
    if (at >= bits) return 0;
    const u32* from = words + at / 32;
    const u32 shift = u32(at % 32);
    u64 value = (from[0] | u64(from[1]) << 32) >> shift;
    if (shift + width > 64) value |= u64(from[2]) << (64 - shift);
    return value & ((u64(1) << width) - 1);
}

// The lowest 32 of `width` bits, 57 at most.
__device__ __forceinline__ u32 read_low_bits(const u32* words, u64 bits, u64 at, u32 width) {
    if (at >= bits) return 0;
    const u32* from = words + at / 32;
    const u32 value = u32((from[0] | u64(from[1]) << 32) >> (at % 32));
    return width >= 32 ? value : value & ((1u << width) - 1);
}

__device__ __forceinline__ u64 item_of(const u32* words, u64 bits, BitArray array, u32 index) {
    const u32 width = u32(array % 64);
    return read_bits(words, bits, array / 64 + u64(index) * width, width);
}

// Item `index` of an array of ends, 0 before the first, and what the next one adds.
__device__ __forceinline__ u64 begin_of(const u32* words, u64 bits, BitArray ends, u32 index, u64& length) {
    const u64 begin = index == 0 ? 0 : item_of(words, bits, ends, index - 1);
    length = item_of(words, bits, ends, index) - begin;
    return begin;
}

__device__ __forceinline__ u64 unzigzag(u64 number) { return number >> 1 ^ (0 - (number & 1)); }

// Consecutive ids that are residuals of one line.
struct Residuals {
    const u32* words;
    u64 bits;
    // The bit of the residual of index 0, which may be before those that are there.
    u64 at;
    u64 slope;
    u32 base;
    u32 width;

    // Ids are 32 bits wide, so that sums may wrap.
    template <u32 FRACTION>
    __device__ __forceinline__ u32 id(u32 index) const {
        const u32 residual = read_low_bits(words, bits, at + u64(index) * width, width);
        return base + u32(slope * index >> FRACTION) + residual;
    }

    // Whether those of the indices first .. end have an id.
    template <u32 FRACTION>
    __device__ __forceinline__ bool has(u32 first, u32 end, u32 wanted) const {
        while (first < end) {
            const u32 middle = first + (end - first) / 2;
            const u32 found = id<FRACTION>(middle);
            if (found == wanted) return true;
            if (found < wanted) {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        return false;
    }
};

// The last block of a list whose first id is at most `id`; false if there is none.
__device__ __forceinline__ bool find_block(const Resident& all, const CodedList& list, u32 id, u32& block) {
    const u32* heads = all.heads + list.head_first;
    u32 first, end;
    safe_range(list.head_line, id, list.blocks, first, end);
    if (end == 0) return false;
    u32 last = end - 1;
    // The last block has no first id behind it, which would bound where the line has its ids.
    first = min(first, last);
    while (first < last) {
        const u32 middle = last - (last - first) / 2;
        if (heads[middle] <= id) {
            first = middle;
        } else {
            last = middle - 1;
        }
    }
    block = first;
    return heads[first] <= id;
}

// Residuals of one line for the whole list (LRC, LRCSeg).
struct ByListLine {
    static __device__ __forceinline__ Residuals residuals(const Resident& all, const CodedList& list, u32 block) {
        const u32* words = all.words + list.first_word;
        u64 length;
        const u64 begin = begin_of(words, list.bits, list.ends, block, length);
        const u32 width = u32(min(length, u64(RESIDUAL_BITS_MAX)));
        const u32 least = list.minima == 0 ? 0 : u32(item_of(words, list.bits, list.minima, block));
        const u64 at = list.data + begin * BLOCK_IDS - u64(block) * BLOCK_IDS * width;
        return {words, list.bits, at, list.slope, u32(list.base) + least, width};
    }

    static __device__ __forceinline__ u32 id_at(const Resident& all, const CodedList& list, u32 index) {
        return residuals(all, list, index / BLOCK_IDS).id<LIST_FRACTION>(index);
    }

    static __device__ __forceinline__ bool find(const Resident& all, const CodedList& list, u32 id) {
        u32 block;
        if (!find_block(all, list, id, block)) return false;
        const u32 first = block * BLOCK_IDS, end = min(first + BLOCK_IDS, list.count);
        return residuals(all, list, block).has<LIST_FRACTION>(first, end, id);
    }
};

// Residuals of the line of a block that begin at a bit of the data; the base of the line is `above` more than is stored.
__device__ __forceinline__ Residuals block_residuals(const Resident& all, const CodedList& list, u32 block, u64 begin, u64 width,
                                                     u64 above, u64& base) {
    const u32* words = all.words + list.first_word;
    base = unzigzag(item_of(words, list.bits, list.bases, block)) + above;
    const u64 slope = item_of(words, list.bits, list.slopes, block);
    return {words, list.bits, list.data + begin, slope, u32(base), u32(min(width, u64(RESIDUAL_BITS_MAX)))};
}

// Whether those have an id: where the line says that it can be, give or take what f32 rounds.
__device__ __forceinline__ bool block_has(const Residuals& residuals, u64 base, u32 count, u32 id) {
    const i64 above = i64(u64(id) - base);
    if (above < 0) return false;
    u32 first = 0, end = count;
    if (residuals.slope != 0) {
        constexpr float ROUNDED = 1.0f / (1 << 20);
        const float inverse = float(1 << SEGMENT_FRACTION) / float(residuals.slope);
        const float high = float(above + 1) * inverse * (1.0f + ROUNDED) + 2.0f;
        const i64 least = above - ((i64(1) << residuals.width) - 1);
        const float low = float(least) * inverse * (1.0f - ROUNDED) - 2.0f;
        end = high >= float(count) ? count : u32(high);
        first = low <= 0.0f ? 0 : low >= float(end) ? end : u32(low);
    }
    return residuals.has<SEGMENT_FRACTION>(first, end, id);
}

// Residuals of a line for each block (SegLRC).
struct BySegmentLines {
    static __device__ __forceinline__ Residuals residuals(const Resident& all, const CodedList& list, u32 block, u64& base) {
        u64 width;
        const u64 begin = begin_of(all.words + list.first_word, list.bits, list.ends, block, width);
        return block_residuals(all, list, block, begin * BLOCK_IDS, width, 0, base);
    }

    static __device__ __forceinline__ u32 id_at(const Resident& all, const CodedList& list, u32 index) {
        u64 base;
        return residuals(all, list, index / BLOCK_IDS, base).id<SEGMENT_FRACTION>(index % BLOCK_IDS);
    }

    static __device__ __forceinline__ bool find(const Resident& all, const CodedList& list, u32 id) {
        u32 block;
        if (!find_block(all, list, id, block)) return false;
        u64 base;
        const Residuals own = residuals(all, list, block, base);
        return block_has(own, base, min(BLOCK_IDS, list.count - block * BLOCK_IDS), id);
    }
};

// Residuals of a line for each bucket (HS_LRC).
struct ByBuckets {
    // The index where a bucket begins; those behind the last begin at the end.
    static __device__ __forceinline__ u32 begin(const Resident& all, const CodedList& list, u32 bucket) {
        if (bucket == 0) return 0;
        if (bucket >= list.blocks) return list.count;
        const u64 begin = item_of(all.words + list.first_word, list.bits, list.minima, bucket - 1);
        return u32(min(begin, u64(list.count)));
    }

    static __device__ __forceinline__ Residuals residuals(const Resident& all, const CodedList& list, u32 bucket, u32 count,
                                                          u64& base) {
        u64 length;
        const u64 first = begin_of(all.words + list.first_word, list.bits, list.ends, bucket, length);
        // Residuals of a bucket take fewer than 2^32 bits where count says so; else any width does.
        const u64 width = length >> 32 == 0 ? u32(length) / count : length / count;
        return block_residuals(all, list, bucket, first, width, u64(bucket) << list.shift, base);
    }

    static __device__ __forceinline__ u32 id_at(const Resident& all, const CodedList& list, u32 index) {
        // The last bucket that begins at the index or before.
        u32 first = 0, last = list.blocks - 1;
        while (first < last) {
            const u32 middle = last - (last - first) / 2;
            if (begin(all, list, middle) <= index) {
                first = middle;
            } else {
                last = middle - 1;
            }
        }
        const u32 from = begin(all, list, first), end = begin(all, list, first + 1);
        if (index < from || index >= end) return 0;
        u64 base;
        return residuals(all, list, first, end - from, base).id<SEGMENT_FRACTION>(index - from);
    }

    static __device__ __forceinline__ bool find(const Resident& all, const CodedList& list, u32 id) {
        const u32 bucket = u32(u64(id) >> list.shift);
        if (bucket >= list.blocks) return false;
        const u32 from = begin(all, list, bucket), end = begin(all, list, bucket + 1);
        if (from >= end) return false;
        u64 base;
        const Residuals own = residuals(all, list, bucket, end - from, base);
        return block_has(own, base, end - from, id);
    }
};

// Whether a list that is not encoded has an id.
__device__ __forceinline__ bool plain_has(const Resident& all, const CodedList& list, u32 id) {
    return list.kind == LIST_EVERY ? id < list.count : has(all.heads + list.head_first, 0, list.count, id);
}

// One of its ids.
__device__ __forceinline__ u32 plain_id(const Resident& all, const CodedList& list, u32 index) {
    return list.kind == LIST_EVERY ? index : all.heads[list.head_first + index];
}

__device__ __forceinline__ bool is_plain(const CodedList& list) { return list.kind <= LIST_EVERY; }

template <typename Method>
__device__ __forceinline__ void flag_coded_candidates(const Resident& all, const Batch& batch, u32* candidates, u32* flags) {
    for (u64 i = grid_thread(); i < batch.items; i += grid_threads()) {
        const u32 query = u32(owner_of(batch.item_offsets, 0, batch.queries, u32(i)));
        const u32 first = batch.query_offsets[query], end = batch.query_offsets[query + 1];
        const CodedList& shortest = all.lists[batch.entries[first]];
        const u32 index = u32(i) - batch.item_offsets[query];
        const u32 id = is_plain(shortest) ? plain_id(all, shortest, index) : Method::id_at(all, shortest, index);
        bool stays = true;
        for (u32 entry = first + 1; stays && entry < end; entry++) {
            const CodedList& list = all.lists[batch.entries[entry]];
            stays = is_plain(list) ? plain_has(all, list, id) : Method::find(all, list, id);
        }
        candidates[i] = id;
        flags[i] = stays;
    }
}

// Candidates and flags of lists of residuals, by the number of the method, for which the machine code is made.
extern "C" __global__ void __launch_bounds__(THREADS)
coded_flags_kernel(const u32* words, const CodedList* lists, const u32* heads, const u32* entries, const u32* query_offsets,
                   const u32* item_offsets, u32 queries, u32 items, u32 method, u32* candidates, u32* flags) {
    const Resident all{words, lists, heads};
    const Batch batch{entries, query_offsets, item_offsets, queries, items};
    switch (MADE_FOR_OR(method)) {
        case 0: return flag_coded_candidates<ByListLine>(all, batch, candidates, flags);
        case 1: return flag_coded_candidates<BySegmentLines>(all, batch, candidates, flags);
        default: return flag_coded_candidates<ByBuckets>(all, batch, candidates, flags);
    }
}

// Shared memory of a block whose warps decode gaps.
struct GapShared {
    u32 ids[WARPS][BLOCK_IDS];
};

// For a warp: decodes a block of gaps; how many ids it has, none if it is damaged. Ends behind a barrier of the warp.
__device__ __forceinline__ u32 decode_gaps(const Resident& all, const CodedList& list, u32 block, u32* ids) {
    const u32* words = all.words + list.first_word;
    const u64 bits = list.bits;
    const u32 count = min(BLOCK_IDS, list.count - block * BLOCK_IDS);
    const u32 lane = lane_index();
    u64 at = list.data + (block == 0 ? 0 : item_of(words, bits, list.ends, block - 1) * 8);
    bool is_sound = true;
    if (lane == 0) ids[0] = all.heads[list.head_first + block];
    for (u32 first = 1; first < count; first += GAP_SEGMENT) {
        const u32 gaps = min(GAP_SEGMENT, count - first);
        const u32 header = u32(read_bits(words, bits, at, 13));
        const u32 width = header % 64, exceptions = header / 64;
        at += 13;
        if (width > 32 || exceptions > gaps || (width == 32 && exceptions > 0)) {
            is_sound = false;
            break;
        }
        u32 index_width = 0, high_width = 0;
        if (exceptions > 0) {
            const u32 widths = u32(read_bits(words, bits, at, 9));
            index_width = widths % 8;
            high_width = min(widths / 8, 32u);
            at += 9;
        }
        for (u32 k = lane; k < gaps; k += WARP_THREADS) {
            ids[first + k] = read_low_bits(words, bits, at + k * width, width) + 1;
        }
        at += gaps * width;
        if (exceptions == 0) continue;
        __syncwarp();
        const u64 highs = at + exceptions * index_width;
        for (u32 k = lane; k < exceptions; k += WARP_THREADS) {
            const u32 index = read_low_bits(words, bits, at + k * index_width, index_width);
            const u32 high = read_low_bits(words, bits, highs + k * high_width, high_width);
            // Indices differ where bytes are sound; sums may wrap.
            if (index < gaps) atomicAdd(&ids[first + index], high << width);
        }
        at = highs + exceptions * high_width;
    }
    __syncwarp();
    // Every lane adds up some ids that follow each other.
    constexpr u32 OWN = BLOCK_IDS / WARP_THREADS;
    u32 own[OWN], sum = 0;
#pragma unroll
    for (u32 k = 0; k < OWN; k++) {
        const u32 place = lane * OWN + k;
        sum += place < count && is_sound ? ids[place] : 0;
        own[k] = sum;
    }
    const u32 before = warp_inclusive_sum(sum) - sum;
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < OWN; k++) ids[lane * OWN + k] = before + own[k];
    __syncwarp();
    return is_sound ? count : 0;
}

// For a warp whose lanes ask for a block of a list each, or for none: decodes every block that is asked for once, and has the
// lanes that asked use it.
template <typename Use>
__device__ __forceinline__ void each_block(const Resident& all, bool asks, u32 list, u32 block, u32* ids, const Use& use) {
    for (u32 pending = __ballot_sync(FULL_WARP, asks); pending != 0; pending = __ballot_sync(FULL_WARP, asks)) {
        const u32 leader = __ffs(pending) - 1;
        const u32 list_now = __shfl_sync(FULL_WARP, list, leader), block_now = __shfl_sync(FULL_WARP, block, leader);
        const u32 count = decode_gaps(all, all.lists[list_now], block_now, ids);
        if (asks && list == list_now && block == block_now) {
            use(count);
            asks = false;
        }
        __syncwarp();
    }
}

// Candidates and flags of lists of gaps (ParaPFD).
extern "C" __global__ void __launch_bounds__(THREADS)
gap_flags_kernel(const u32* words, const CodedList* lists, const u32* heads, const u32* entries, const u32* query_offsets,
                 const u32* item_offsets, u32 queries, u32 items, u32* candidates, u32* flags) {
    SHARED(GapShared, shared);
    const Resident all{words, lists, heads};
    u32* ids = shared.ids[warp_index()];
    for (u64 first = grid_thread() - lane_index(); first < items; first += grid_threads()) {
        const u64 i = first + lane_index();
        u32 entry = 0, end = 0, list = 0, index = 0, block = 0, id = 0;
        bool stays = i < items, asks = false;
        if (stays) {
            const u32 query = u32(owner_of(item_offsets, 0, queries, u32(i)));
            entry = query_offsets[query];
            end = query_offsets[query + 1];
            list = entries[entry];
            index = u32(i) - item_offsets[query];
            block = index / BLOCK_IDS;
            asks = !is_plain(lists[list]);
            if (!asks) id = plain_id(all, lists[list], index);
        }
        each_block(all, asks, list, block, ids, [&](u32 count) {
            const u32 place = index % BLOCK_IDS;
            id = place < count ? ids[place] : 0;
        });
        for (entry++; __any_sync(FULL_WARP, stays && entry < end); entry++) {
            bool found = !stays || entry >= end;
            asks = false;
            if (!found) {
                list = entries[entry];
                if (is_plain(lists[list])) {
                    found = plain_has(all, lists[list], id);
                } else {
                    asks = find_block(all, lists[list], id, block);
                }
            }
            each_block(all, asks, list, block, ids, [&](u32 count) { found = has(ids, 0, count, id); });
            stays = stays && found;
        }
        if (i < items) {
            candidates[i] = id;
            flags[i] = stays;
        }
    }
}

// survivors[places[i]] = candidate i, where it stays.
extern "C" __global__ void __launch_bounds__(THREADS)
kept_candidates_kernel(const u32* candidates, u32 items, const u32* places, u32* survivors) {
    for (u64 i = grid_thread(); i < items; i += grid_threads()) {
        const u32 place = places[i];
        if (places[i + 1] != place) survivors[place] = candidates[i];
    }
}
