// merge.cu: rows of (file, count) as sums of other rows: the files of rules, words and n-grams.
// In     use_offsets  [rows + 1]     u32: the uses of row r: holders[use_offsets[r] .. use_offsets[r + 1]]
//        holders      [uses]         u32: below `files` a file, which counts 1; from there a list, which is added
//        weights      [rows]         u32: at least the number of entries that a row adds up, and the sum of its counts;
//                                    the cost of a row is its weight, at least 1 and at most WINDOW
//        first_rows   [windows + 1]  u32: the first row whose cost begins in each window of WINDOW
//        end_rows     [windows]      u32: where its rows end that are not heavy
//        list_starts, list_lengths, list_entries: lists, in order of file, entries file << 32 | count
//        steps        rows that need only lists of earlier steps
// Out    starts [rows] u32, given; lengths [rows] u32, 0 on entry; entries u64 in order of file, or of count from the largest
// Work   8 bytes an entry that is added; in shared memory compared with those of its row, or sorted by row and file
// Map    a block a window of rows, whose uses together have less than 2 * WINDOW entries; heavy rows, of larger weight,
//        count in a row of counters in device memory, a block PIECE uses; the last of a row's blocks writes it
// Exact  sums of integers, sorted; lists are written where their bounds say
// Why    weights bound how many entries a row adds up, so that rows of equal cost are known before any is merged
#include "levels.cuh"

constexpr u32 THREADS = MERGE_THREADS;
constexpr u32 WARPS = THREADS / WARP_THREADS;
constexpr u32 WINDOW = MERGE_WINDOW;
constexpr u32 ENTRIES = 2 * WINDOW;
constexpr u32 ITEMS = ENTRIES / THREADS;
constexpr u32 PIECE = ENTRIES;
constexpr u32 DIGIT_BITS = 8;
constexpr u32 DIGITS = 1 << DIGIT_BITS;
static_assert(DIGITS == THREADS, "one thread for each digit");

constexpr u32 FILE_FLAG = 0x80000000u;

// Entries are compared with all of their row instead of sorted if rows have at most this many on average.
constexpr u32 TOGETHER_MAX = 40;

struct Lists {
    const u32* starts;
    const u32* lengths;
    const u64* entries;
    u32 files;
};

struct Rows {
    const u32* use_offsets;
    const u32* holders;
    const u32* first_rows;
    const u32* end_rows;
    // [rows + 1]: pieces of heavy rows before, and heavy rows before.
    const u32* heavy_pieces;
    const u32* heavy_rows;
    // For each heavy row a counter a file, and how many of its pieces are done; all 0.
    u32* counters;
    u32* pieces_done;
    const u32* starts;
    u32* lengths;
    u64* entries;
};

// A set of places below ENTRIES, which knows how many of it are at most a place.
struct Places {
    u32 bits[ENTRIES / 32];
    u32 before[ENTRIES / 32];
};

// What a use adds: its first entry or file, and the entries of the uses before.
struct UseShared {
    u32 starts[ENTRIES];
    u32 firsts[ENTRIES];
};

struct SortShared {
    u32 warp_counts[WARPS][DIGITS];
    u32 sums[ENTRIES];
};

struct MergeShared {
    WalkShared walk;
    u32 keys[ENTRIES];
    u32 counts[ENTRIES];
    union {
        UseShared uses;
        SortShared sort;
    };
    // Where the first entry of each use lies, and the first use of each row that has some.
    Places use_firsts;
    Places row_firsts;
    u32 row_offsets[WINDOW + 1];
    // The rows that have uses, and where their entries begin.
    u16 rows[WINDOW];
    u16 row_entries[WINDOW + 1];
    BlockSum<u32> sum;
    u32 first_row;
    u32 is_last;
};

// For a block: empties sets. Ends without a barrier.
__device__ __forceinline__ void clear(Places& places) {
    for (u32 i = threadIdx.x; i < ENTRIES / 32; i += THREADS) places.bits[i] = 0;
}

__device__ __forceinline__ void add(Places& places, u32 place) {
    atomicOr(&places.bits[place / 32], 1u << (place % 32));
}

// For one whole warp, when all are added.
__device__ __forceinline__ void count_before(Places& places) {
    constexpr u32 EACH = ENTRIES / 32 / WARP_THREADS;
    u32 own = 0;
#pragma unroll
    for (u32 i = 0; i < EACH; i++) own += __popc(places.bits[lane_index() * EACH + i]);
    u32 before = warp_inclusive_sum(own) - own;
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        places.before[lane_index() * EACH + i] = before;
        before += __popc(places.bits[lane_index() * EACH + i]);
    }
}

__device__ __forceinline__ u32 at_most(const Places& places, u32 place) {
    const u32 up_to = places.bits[place / 32] & (~0u >> (31 - place % 32));
    return places.before[place / 32] + __popc(up_to);
}

// The holders of uses `first .. first + count`, in stripes.
__device__ __forceinline__ void load_holders(const u32* holders, u32 first, u32 count, u32 (&found)[ITEMS]) {
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 use = i * THREADS + threadIdx.x;
        found[i] = use < count ? holders[first + use] : 0;
    }
}

// What each of `count` uses adds, and how many entries that is: each use adds some. Sets must be clear. Ends behind a
// barrier.
__device__ __forceinline__ u32 load_uses(const Lists& lists, const u32 (&holders)[ITEMS], u32 count,
                                         MergeShared& shared) {
    // A thread has consecutive uses, which are read in stripes.
    u32 starts[ITEMS], lengths[ITEMS];
    // All loads before any store; what earlier steps stored is seen since `walk_wait`.
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const bool is_list = i * THREADS + threadIdx.x < count && holders[i] >= lists.files;
        starts[i] = is_list ? lists.starts[holders[i] - lists.files] : FILE_FLAG | holders[i];
        lengths[i] = is_list ? lists.lengths[holders[i] - lists.files] : 1;
    }
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 use = i * THREADS + threadIdx.x;
        shared.uses.starts[use] = starts[i];
        shared.uses.firsts[use] = use < count ? lengths[i] : 0;
    }
    __syncthreads();
    u32 own = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        lengths[i] = shared.uses.firsts[threadIdx.x * ITEMS + i];
        own += lengths[i];
    }
    u32 total;
    u32 before = block_exclusive_sum(own, shared.sum, total);
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        shared.uses.firsts[threadIdx.x * ITEMS + i] = before;
        // A piece of a heavy row may add more than there is room for: those are searched.
        if (lengths[i] > 0 && total <= ENTRIES) add(shared.use_firsts, before);
        before += lengths[i];
    }
    __syncthreads();
    if (warp_index() == 0) count_before(shared.use_firsts);
    if (warp_index() == 1) count_before(shared.row_firsts);
    __syncthreads();
    return total;
}

// The entry at `item` of what use `use` and those around it add.
__device__ __forceinline__ u64 load_entry(const Lists& lists, const MergeShared& shared, u32 use, u32 item) {
    const u32 start = shared.uses.starts[use];
    const bool is_list = (start & FILE_FLAG) == 0;
    return is_list ? lists.entries[start + (item - shared.uses.firsts[use])] : u64(start & ~FILE_FLAG) << 32 | 1;
}

// Sorts `keys[0 .. count]` with their counts by `bits` bits; stable.
__device__ __forceinline__ void sort_shared(MergeShared& shared, u32 count, u32 bits) {
    // A warp has consecutive items.
    const u32 warp_items = (count + WARPS * WARP_THREADS - 1) / (WARPS * WARP_THREADS);
    const u32 warp_first = warp_index() * warp_items * WARP_THREADS;
    u32* warp_counts = shared.sort.warp_counts[warp_index()];
    for (u32 shift = 0; shift < bits; shift += DIGIT_BITS) {
        const u32 mask = (1u << min(DIGIT_BITS, bits - shift)) - 1;
        for (u32 i = lane_index(); i < DIGITS; i += WARP_THREADS) warp_counts[i] = 0;
        __syncwarp();
        u32 keys[ITEMS], counts[ITEMS], ranks[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            if (i >= warp_items) break;
            const u32 at = warp_first + i * WARP_THREADS + lane_index();
            // Behind the end lie items of the highest digit, which stay behind.
            keys[i] = at < count ? shared.keys[at] : ~0u;
            counts[i] = at < count ? shared.counts[at] : 0;
            const u32 digit = (keys[i] >> shift) & mask;
            const u32 equal = lanes_of_digit<DIGIT_BITS>(digit);
            const u32 below = __popc(equal & lanes_below());
            u32 before = 0;
            if (below == 0) {
                before = warp_counts[digit];
                warp_counts[digit] = before + __popc(equal);
            }
            ranks[i] = below + __shfl_sync(FULL_WARP, before, __ffs(equal) - 1);
            __syncwarp();
        }
        __syncthreads();
        u32 own = 0;
#pragma unroll
        for (u32 warp = 0; warp < WARPS; warp++) {
            const u32 of_warp = shared.sort.warp_counts[warp][threadIdx.x];
            shared.sort.warp_counts[warp][threadIdx.x] = own;
            own += of_warp;
        }
        u32 total;
        const u32 before = block_exclusive_sum(own, shared.sum, total);
#pragma unroll
        for (u32 warp = 0; warp < WARPS; warp++) shared.sort.warp_counts[warp][threadIdx.x] += before;
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            if (i >= warp_items) break;
            const u32 rank = ranks[i] + warp_counts[(keys[i] >> shift) & mask];
            if (rank < count) {
                shared.keys[rank] = keys[i];
                shared.counts[rank] = counts[i];
            }
        }
        __syncthreads();
    }
}

// The runs of equal keys of `keys[0 .. count]`, sorted: their keys and sums of counts, to the front. How many.
__device__ __forceinline__ u32 sum_runs(MergeShared& shared, u32 count) {
    const u32 first = threadIdx.x * ITEMS;
    u32 keys[ITEMS], counts[ITEMS];
    u32 heads = 0, own = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 at = first + i;
        keys[i] = at < count ? shared.keys[at] : 0;
        counts[i] = at < count ? shared.counts[at] : 0;
        const bool is_head = at < count && (at == 0 || shared.keys[at - 1] != keys[i]);
        heads |= u32(is_head) << i;
        own += is_head;
    }
    u32 total;
    u32 run = block_exclusive_sum(own, shared.sum, total);
    for (u32 i = threadIdx.x; i < total; i += THREADS) shared.sort.sums[i] = 0;
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (first + i < count) {
            if ((heads >> i) & 1) {
                shared.keys[run] = keys[i];
                run++;
            }
            atomicAdd(&shared.sort.sums[run - 1], counts[i]);
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < total; i += THREADS) shared.counts[i] = shared.sort.sums[i];
    __syncthreads();
    return total;
}

__device__ __forceinline__ u32 bits_below(u32 end) { return end > 1 ? 32 - __clz(end - 1) : 0; }

// Writes rows whose entries lie in `keys[0 .. total]` and `counts`, those of a row together: adds up equal ones and ranks
// each among its row's. `entry_rows` are the rows of a thread's entries.
__device__ __forceinline__ void rank_entries(const Rows& rows, u32 first_row, u32 used_rows, u32 total, u32 file_bits,
                                             u32 by_count, const u32 (&entry_rows)[ITEMS], MergeShared& shared) {
    u32 keys[ITEMS], sums[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 item = i * THREADS + threadIdx.x;
        keys[i] = 0;
        sums[i] = 0;
        if (item >= total) continue;
        const u32 key = shared.keys[item];
        const u32 end = shared.row_entries[entry_rows[i] + 1];
        bool is_first = true;
        for (u32 other = shared.row_entries[entry_rows[i]]; other < end; other++) {
            if (shared.keys[other] == key) {
                sums[i] += shared.counts[other];
                is_first = is_first && other >= item;
            }
        }
        if (!is_first) sums[i] = 0;
        keys[i] = key & ((1u << file_bits) - 1);
    }
    for (u32 i = threadIdx.x; i < used_rows; i += THREADS) shared.row_offsets[i] = 0;
    __syncthreads();
    // What entries are ordered by; those that were added to others come last.
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 item = i * THREADS + threadIdx.x;
        if (item >= total) continue;
        const u32 rank = by_count ? (WINDOW - sums[i]) << file_bits | keys[i] : keys[i];
        shared.keys[item] = sums[i] > 0 ? rank : ~0u;
        if (sums[i] > 0) atomicAdd(&shared.row_offsets[entry_rows[i]], 1u);
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (sums[i] == 0) continue;
        const u32 key = shared.keys[i * THREADS + threadIdx.x];
        const u32 end = shared.row_entries[entry_rows[i] + 1];
        u32 rank = 0;
        for (u32 other = shared.row_entries[entry_rows[i]]; other < end; other++) rank += shared.keys[other] < key;
        rows.entries[rows.starts[first_row + shared.rows[entry_rows[i]]] + rank] = u64(keys[i]) << 32 | sums[i];
    }
    for (u32 i = threadIdx.x; i < used_rows; i += THREADS) {
        rows.lengths[first_row + shared.rows[i]] = shared.row_offsets[i];
    }
}

// Merges the rows `first_row .. end_row`.
__device__ __forceinline__ void merge_rows(const Lists& lists, const Rows& rows, const Walk& walk, const Place& place,
                                           u32 first_row, u32 end_row, u32 file_bits, u32 by_count,
                                           MergeShared& shared) {
    const u32 row_count = end_row - first_row;
    for (u32 i = threadIdx.x; i <= row_count; i += THREADS) {
        shared.row_offsets[i] = rows.use_offsets[first_row + i];
    }
    clear(shared.use_firsts);
    clear(shared.row_firsts);
    __syncthreads();
    const u32 first_use = shared.row_offsets[0];
    const u32 uses = shared.row_offsets[row_count] - first_use;
    for (u32 i = threadIdx.x; i < row_count; i += THREADS) {
        if (shared.row_offsets[i + 1] > shared.row_offsets[i]) add(shared.row_firsts, shared.row_offsets[i] - first_use);
    }
    u32 holders[ITEMS];
    load_holders(rows.holders, first_use, uses, holders);
    walk_wait(walk, place);
    const u32 total = load_uses(lists, holders, uses, shared);
    // Rows with uses are numbered one after the other.
    for (u32 i = threadIdx.x; i < row_count; i += THREADS) {
        const u32 use = shared.row_offsets[i] - first_use;
        if (shared.row_offsets[i + 1] > shared.row_offsets[i]) {
            const u32 row = at_most(shared.row_firsts, use) - 1;
            shared.rows[row] = u16(i);
            shared.row_entries[row] = u16(shared.uses.firsts[use]);
        }
    }
    const u32 used_rows = uses > 0 ? at_most(shared.row_firsts, uses - 1) : 0;
    if (threadIdx.x == 0) shared.row_entries[used_rows] = u16(total);
    u64 entries[ITEMS];
    u32 entry_rows[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 item = i * THREADS + threadIdx.x;
        entries[i] = 0;
        entry_rows[i] = 0;
        if (item < total) {
            const u32 use = at_most(shared.use_firsts, item) - 1;
            entries[i] = load_entry(lists, shared, use, item);
            entry_rows[i] = at_most(shared.row_firsts, use) - 1;
        }
    }
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 item = i * THREADS + threadIdx.x;
        if (item < total) {
            shared.keys[item] = entry_rows[i] << file_bits | u32(entries[i] >> 32);
            shared.counts[item] = u32(entries[i]);
        }
    }
    __syncthreads();
    // From here the uses are not needed.
    u32 together = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 row = entry_rows[i];
        const bool is_in = i * THREADS + threadIdx.x < total;
        together += is_in ? shared.row_entries[row + 1] - shared.row_entries[row] : 0;
    }
    u32 together_all;
    block_exclusive_sum(together, shared.sum, together_all);
    const bool fits = !by_count || file_bits + bits_below(WINDOW + 1) <= 32;
    if (fits && together_all <= total * TOGETHER_MAX) {
        rank_entries(rows, first_row, used_rows, total, file_bits, by_count, entry_rows, shared);
        return;
    }
    sort_shared(shared, total, bits_below(used_rows) + file_bits);
    const u32 runs = sum_runs(shared, total);
    // Where the runs of each row begin. Each has some.
    for (u32 run = threadIdx.x; run <= runs; run += THREADS) {
        const u32 row = run < runs ? shared.keys[run] >> file_bits : used_rows;
        if (run == runs || run == 0 || shared.keys[run - 1] >> file_bits != row) shared.row_offsets[row] = run;
    }
    __syncthreads();
    if (by_count) {
        // Counts of a row of a window add up to WINDOW at most. Files go where counts were and back.
        const u32 count_bits = bits_below(WINDOW + 1);
        u32 keys[ITEMS], files[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            const u32 run = i * THREADS + threadIdx.x;
            if (run < runs) {
                keys[i] = (shared.keys[run] >> file_bits) << count_bits | (WINDOW - shared.counts[run]);
                files[i] = shared.keys[run] & ((1u << file_bits) - 1);
            }
        }
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            const u32 run = i * THREADS + threadIdx.x;
            if (run < runs) {
                shared.keys[run] = keys[i];
                shared.counts[run] = files[i];
            }
        }
        __syncthreads();
        sort_shared(shared, runs, bits_below(used_rows) + count_bits);
        for (u32 run = threadIdx.x; run < runs; run += THREADS) {
            const u32 row = shared.keys[run] >> count_bits;
            const u32 count = WINDOW - (shared.keys[run] & ((1u << count_bits) - 1));
            rows.entries[rows.starts[first_row + shared.rows[row]] + (run - shared.row_offsets[row])] =
                u64(shared.counts[run]) << 32 | count;
        }
    } else {
        for (u32 run = threadIdx.x; run < runs; run += THREADS) {
            const u32 row = shared.keys[run] >> file_bits;
            const u32 file = shared.keys[run] & ((1u << file_bits) - 1);
            rows.entries[rows.starts[first_row + shared.rows[row]] + (run - shared.row_offsets[row])] =
                u64(file) << 32 | shared.counts[run];
        }
    }
    // The lengths of rows without uses are 0 already.
    for (u32 i = threadIdx.x; i < used_rows; i += THREADS) {
        rows.lengths[first_row + shared.rows[i]] = shared.row_offsets[i + 1] - shared.row_offsets[i];
    }
}

// Writes what was counted of a heavy row.
__device__ __forceinline__ void write_heavy(const Lists& lists, const Rows& rows, u32 row, MergeShared& shared) {
    const u32* counters = rows.counters + u64(rows.heavy_rows[row]) * lists.files;
    u64* entries = rows.entries + rows.starts[row];
    u32 length = 0;
    for (u32 first = 0; first < lists.files; first += THREADS * ITEMS) {
        u32 counts[ITEMS];
        u32 own = 0;
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            const u32 file = first + i * THREADS + threadIdx.x;
            shared.counts[i * THREADS + threadIdx.x] = file < lists.files ? load_relaxed(&counters[file]) : 0;
        }
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            counts[i] = shared.counts[threadIdx.x * ITEMS + i];
            own += counts[i] > 0;
        }
        u32 total;
        u32 at = length + block_exclusive_sum(own, shared.sum, total);
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            if (counts[i] > 0) entries[at++] = u64(first + threadIdx.x * ITEMS + i) << 32 | counts[i];
        }
        length += total;
        __syncthreads();
    }
    if (threadIdx.x == 0) rows.lengths[row] = length;
}

// Adds a piece of the uses of a heavy row to its counters.
__device__ __forceinline__ void merge_heavy(const Lists& lists, const Rows& rows, const Walk& walk, const Place& place,
                                            u32 piece, u32 row, MergeShared& shared) {
    const u32 pieces = rows.heavy_pieces[row + 1] - rows.heavy_pieces[row];
    const u32 first = rows.use_offsets[row] + (piece - rows.heavy_pieces[row]) * PIECE;
    const u32 count = min(PIECE, rows.use_offsets[row + 1] - first);
    clear(shared.use_firsts);
    u32 holders[ITEMS];
    load_holders(rows.holders, first, count, holders);
    u32* counters = rows.counters + u64(rows.heavy_rows[row]) * lists.files;
    walk_wait(walk, place);
    const u32 total = load_uses(lists, holders, count, shared);
    for (u32 item = threadIdx.x; item < total; item += THREADS) {
        const u32 found = total <= ENTRIES ? at_most(shared.use_firsts, item)
                                           : u32(count_at_most(shared.uses.firsts, count, item));
        const u64 entry = load_entry(lists, shared, found - 1, item);
        atomicAdd(&counters[u32(entry >> 32)], u32(entry));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        shared.is_last = atomicAdd(&rows.pieces_done[rows.heavy_rows[row]], 1u) + 1 == pieces;
        __threadfence();
    }
    __syncthreads();
    if (shared.is_last) write_heavy(lists, rows, row, shared);
}

// `bounds` [steps * 5] says of each step its first row and end, the first piece of its heavy rows and how many there are,
// and its first window. Pieces of a step are those of heavy rows, then windows.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
merge_kernel(const u32* use_offsets, const u32* holders, const u32* first_rows, const u32* end_rows,
             const u32* heavy_pieces, const u32* heavy_rows, u32* counters, u32* pieces_done, const u32* starts,
             u32* lengths, u64* entries, const u32* list_starts, const u32* list_lengths, const u64* list_entries,
             u32 files, u32 file_bits, u32 by_count, const u32* bounds, const u32* first_pieces, const u32* first_steps,
             const u32* ranges, u32 phases, u32* state) {
    SHARED(MergeShared, shared);
    const Lists lists{list_starts, list_lengths, list_entries, files};
    const Rows rows{use_offsets, holders,     first_rows, end_rows, heavy_pieces, heavy_rows,
                    counters,    pieces_done, starts,     lengths,  entries};
    const Walk walk{first_pieces, first_steps, ranges, phases, state};
    Place place = walk_begin(walk, shared.walk);
    while (walk_next(walk, shared.walk, place)) {
        const u32* bound = bounds + place.step * 5;
        const u32 step_first = bound[0], step_end = bound[1], first_piece = bound[2], pieces = bound[3];
        const u32 item = place.piece - place.first_piece;
        if (item < pieces) {
            if (threadIdx.x == 0) {
                const u32 before = u32(count_at_most(heavy_pieces + step_first, step_end - step_first, first_piece + item));
                shared.first_row = step_first + before - 1;
            }
            __syncthreads();
            merge_heavy(lists, rows, walk, place, first_piece + item, shared.first_row, shared);
        } else {
            const u32 window = bound[4] + item - pieces;
            const u32 first_row = max(first_rows[window], step_first);
            const u32 end_row = min(end_rows[window], step_end);
            if (end_row > first_row) {
                merge_rows(lists, rows, walk, place, first_row, end_row, file_bits, by_count, shared);
            } else {
                walk_wait(walk, place);
            }
        }
        walk_done(walk, 1);
    }
}

// costs, pieces and bounds of rows by their weights, and whether they are heavy: [rows] each.
extern "C" __global__ void __launch_bounds__(THREADS)
row_costs_kernel(const u32* weights, const u32* use_offsets, u32 rows, u32 files, u32* costs, u32* pieces, u32* heavy,
                 u32* lengths_max) {
    for (u64 row = grid_thread(); row < rows; row += grid_threads()) {
        const u32 weight = weights[row];
        const bool is_heavy = weight > WINDOW;
        const u32 uses = use_offsets[row + 1] - use_offsets[row];
        costs[row] = max(1u, min(weight, WINDOW));
        pieces[row] = is_heavy ? (uses + PIECE - 1) / PIECE : 0;
        heavy[row] = is_heavy;
        lengths_max[row] = min(weight, files);
    }
}

// first_rows[w] = the first row whose cost begins in window w, the number of rows behind the last window; end_rows[w] =
// where the rows of window w end. A heavy one can only be the last, and is left out.
extern "C" __global__ void __launch_bounds__(THREADS)
first_rows_kernel(const u64* costs, const u32* weights, u32 rows, u32* first_rows, u32* end_rows) {
    for (u64 row = grid_thread(); row <= rows; row += grid_threads()) {
        // No cost is above WINDOW, so that no window is skipped.
        const u64 before = row > 0 ? costs[row - 1] / WINDOW + 1 : 0;
        const u64 window = row < rows ? costs[row] / WINDOW : before;
        if (window == before) {
            first_rows[window] = u32(row);
            if (row > 0) end_rows[window - 1] = u32(row) - (weights[row - 1] > WINDOW);
        }
    }
}

// out[i] = what the four arrays say at rows[i].
extern "C" __global__ void __launch_bounds__(THREADS)
row_bounds_kernel(const u32* rows, u32 count, const u64* costs, const u32* pieces, const u32* heavy, const u64* room,
                  u64* out) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 row = rows[i];
        out[i * 4] = costs[row];
        out[i * 4 + 1] = pieces[row];
        out[i * 4 + 2] = heavy[row];
        out[i * 4 + 3] = room[row];
    }
}

// row_of[order[i]] = i.
extern "C" __global__ void __launch_bounds__(THREADS)
rows_of_words_kernel(const u32* order, u32 words, u32* row_of) {
    for (u64 i = grid_thread(); i < words; i += grid_threads()) row_of[order[i]] = u32(i);
}

// starts_out[word], lengths_out[word] = those of the word's row.
extern "C" __global__ void __launch_bounds__(THREADS)
word_rows_kernel(const u32* row_of, u32 words, const u32* starts, const u32* lengths, u32* starts_out,
                 u32* lengths_out) {
    for (u64 word = grid_thread(); word < words; word += grid_threads()) {
        starts_out[word] = starts[row_of[word]];
        lengths_out[word] = lengths[row_of[word]];
    }
}

// The keys by which uses are sorted, rows of words and rules; and holders, rules behind `files`. Bodies of rules that do
// not occur have the key `none`.
extern "C" __global__ void __launch_bounds__(THREADS)
use_keys_kernel(const u32* root, const u32* root_files, u32 root_count, const u32* symbols, const u32* owners,
                u32 symbol_count, const u32* rule_weights, const u32* row_of, u32 terminals, u32 files, u32 none,
                u32* keys, u32* holders) {
    const u64 count = u64(root_count) + symbol_count;
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const bool is_root = i < root_count;
        const u32 owner = is_root ? root_files[i] : owners[i - root_count];
        const u32 symbol = is_root ? root[i] : symbols[i - root_count];
        const u32 row = symbol < terminals ? row_of[symbol] : symbol;
        keys[i] = is_root || rule_weights[owner] > 0 ? row : none;
        holders[i] = is_root ? owner : files + owner;
    }
}

// Rows without the room between them.
extern "C" __global__ void __launch_bounds__(THREADS)
close_rows_kernel(const u32* starts, const u32* offsets, const u64* entries, u32 rows, u64* entries_out) {
    // A warp a row: most have few entries, some thousands.
    const u64 warps = grid_threads() / WARP_THREADS;
    for (u64 row = grid_thread() / WARP_THREADS; row < rows; row += warps) {
        const u32 start = starts[row];
        const u32 first = offsets[row], length = offsets[row + 1] - first;
        for (u32 i = lane_index(); i < length; i += WARP_THREADS) entries_out[first + i] = entries[start + i];
    }
}
