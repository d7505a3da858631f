// splices.cu: places of inserted texts when many inserts are made at once; twin: splices.rs of the crate.
// In     files, offsets, lengths [inserts]  u32, u64, u64: the inserts in their order
//        sizes                   [files]    u64
// Out    bases, inserts, starts, lengths    u64, u32, u64, u64: the stretches of each file, in the order of the text
// Work   O(stretches * log stretches) a level, as many levels as the logarithm of a file's inserts
// Map    a thread a stretch; it finds its place by binary search in the other run. A block makes one run of up to LEAF
//        inserts in shared memory; from then on two launches a level
// Exact  positions from searches and scans only; which runs are composed first does not show in the result
// Why    a balanced tree on the host makes one insert after the other. Levels in memory alone, eight launches each, took 1.0 ms
//        for 100,000 inserts in sequence (H200)
#include "primitives.cuh"

constexpr u32 THREADS = SPLICE_THREADS;
constexpr u32 LEAF = SPLICE_LEAF;
constexpr u32 LEAF_THREADS = SPLICE_LEAF_THREADS;
static_assert(LEAF_THREADS >= 2 * LEAF, "splits make fewer than twice as many");

__device__ __forceinline__ u64 place_of(u64 offset, u64 size) { return offset == ~u64(0) ? size : offset; }

// Sorting.

// What inserts are sorted by: their files. Makes what the sort needs 0.
extern "C" __global__ void __launch_bounds__(THREADS)
splice_keys_kernel(const u32* files, u64 count, u32* keys, u32* order, u32* state, u64 state_items) {
    const u64 i = grid_thread();
    for (u64 at = i; at < state_items; at += grid_threads()) state[at] = 0;
    if (i >= count) return;
    keys[i] = files[i];
    order[i] = u32(i);
}

// The number of the i-th insert: they come in order if none is given.
__device__ __forceinline__ u32 number_of(const u32* order, u64 i) { return order == nullptr ? u32(i) : order[i]; }

// out[i] = the length of the i-th insert in order.
extern "C" __global__ void __launch_bounds__(THREADS)
splice_lengths_kernel(const u32* order, u64 count, const u64* lengths, u64* out) {
    const u64 i = grid_thread();
    if (i < count) out[i] = lengths[number_of(order, i)];
}

// Composing.

// Stretches in runs; sums[i] are the lengths of all before i, and as many are the same in every order of a run.
struct Stretches {
    const u64* bases;
    const u32* inserts;
    const u64* starts;
    const u64* sums;
};

// The stretches of a pair of runs: the earlier one first .. middle, the later one middle .. end.
struct Pair {
    u32 first;
    u32 middle;
    u32 end;
};

// The place of a stretch of a pair in the run that the pair becomes.
struct Placed {
    u32 at;
    u32 insert;
    u64 base;
    u64 start;
    u64 sum;
    // What it splits: the part of that before it, if it is the first to split it there.
    bool has_part;
    u32 part_insert;
    u64 part_base;
    u64 part_start;
    u64 part_sum;
};

// For a later stretch: how many earlier ones lie wholly before it, and how far `inside` the next one it falls; says whether it
// is the first that splits the next one there.
__device__ __forceinline__ bool search_earlier(const u64* bases, const u64* sums, Pair pair, u32 i, u32& wholly,
                                               u64& inside) {
    const u64 place = bases[i];
    const u64 sum = sums[pair.first];
    u32 rest = pair.middle - pair.first;
    wholly = 0;
    while (rest > 0) {
        const u32 half = rest / 2;
        const u32 at = pair.first + wholly + half;
        if (bases[at] + sums[at + 1] - sum <= place) {
            wholly += half + 1;
            rest -= half + 1;
        } else {
            rest = half;
        }
    }
    inside = 0;
    const u32 next = pair.first + wholly;
    if (next == pair.middle) return false;
    const u64 start = bases[next] + sums[next] - sum;
    if (start >= place) return false;
    inside = place - start;
    return i == pair.middle || bases[i - 1] != place;
}

// Where stretch i goes. `before` and `inside` are as later stretches have them, `splits` the splits before each stretch.
__device__ __forceinline__ Placed place(const Stretches& from, Pair pair, u32 i, const u32* before, const u64* inside,
                                        const u32* splits) {
    Placed to;
    to.insert = from.inserts[i];
    to.has_part = false;
    const u32 out_first = pair.first + splits[pair.first];
    const u32 middle_splits = splits[pair.middle];
    if (i >= pair.middle) {
        const u32 wholly = before[i];
        const u32 next = pair.first + wholly;
        const u64 depth = inside[i];
        to.at = out_first + i - pair.middle + wholly + splits[i + 1] - middle_splits;
        to.base = depth > 0 ? from.bases[next] : from.bases[i] - (from.sums[next] - from.sums[pair.first]);
        to.start = from.starts[i];
        to.sum = from.sums[next] + depth + from.sums[i] - from.sums[pair.middle];
        if (splits[i + 1] != splits[i]) {
            // From the split before, if that is in the same stretch.
            const u64 done = i > pair.middle && before[i - 1] == wholly ? inside[i - 1] : 0;
            to.has_part = true;
            to.part_insert = from.inserts[next];
            to.part_base = from.bases[next];
            to.part_start = from.starts[next] + done;
            to.part_sum = to.sum - (depth - done);
        }
    } else {
        // Later stretches that come before this one's end.
        const u64 end = from.bases[i] + from.sums[i + 1] - from.sums[pair.first];
        const u32 later = u32(count_at_most(from.bases + pair.middle, pair.end - pair.middle, end - 1));
        const u32 last = pair.middle + later;
        const u32 own = i - pair.first;
        const u64 done = later > 0 && before[last - 1] == own ? inside[last - 1] : 0;
        to.at = out_first + own + later + splits[last] - middle_splits;
        to.base = from.bases[i];
        to.start = from.starts[i] + done;
        to.sum = from.sums[i] + done + from.sums[last] - from.sums[pair.middle];
    }
    return to;
}

struct LeafShared {
    u64 bases[LEAF_THREADS];
    u64 starts[LEAF_THREADS];
    u64 sums[LEAF_THREADS];
    u64 inside[LEAF_THREADS];
    // By their places in the leaf.
    u32 inserts[LEAF_THREADS];
    u32 before[LEAF_THREADS];
    u32 splits[LEAF_THREADS];
    u32 runs[LEAF + 1];
    BlockSum<u32> sum;
    u64 look_back;
    u32 tile;
};

// Each leaf, up to LEAF inserts of a file that follow each other, becomes one run. grown[i] is how many bytes all inserts before
// the i-th have, those of its file from file_first[file] on. Inserts are numbered by their places in the order.
extern "C" __global__ void __launch_bounds__(LEAF_THREADS)
splice_leaves_kernel(const u32* order, const u32* files, const u64* offsets, const u64* sizes, const u64* grown,
                     const u32* file_first, const u32* leaf_first, u64 leaves, u64* words, u32* ticket, u64* bases,
                     u32* inserts, u64* starts, u64* sums, u32* run_offsets, u32* refused) {
    SHARED(LeafShared, shared);
    const u32 leaf = next_tile(ticket, shared.tile);
    const u32 first = leaf_first[leaf];
    const u32 t = threadIdx.x;
    const u64 grown_first = grown[first];
    // As many stretches as inserts at first, each a run.
    u32 runs = leaf_first[leaf + 1] - first;
    u32 count = runs;
    if (t <= count) {
        shared.sums[t] = grown[first + t] - grown_first;
        shared.runs[t] = t;
    }
    if (t < count) {
        const u32 insert = number_of(order, first + t);
        const u32 file = files[insert];
        const u64 size = sizes[file] + grown[first + t] - grown[file_first[file]];
        const u64 base = place_of(offsets[insert], size);
        if (base > size) atomicMin(refused, insert);
        shared.bases[t] = min(base, size);
        shared.inserts[t] = t;
        shared.starts[t] = 0;
    }
    __syncthreads();
    for (u32 shift = 0; runs > 1; shift++) {
        Pair pair = {};
        bool is_split = false;
        if (t < count) {
            const u32 run = (shared.inserts[t] >> shift) & ~1u;
            pair = Pair{shared.runs[run], shared.runs[min(run + 1, runs)], shared.runs[min(run + 2, runs)]};
            u32 wholly = 0;
            u64 inside = 0;
            if (t >= pair.middle) is_split = search_earlier(shared.bases, shared.sums, pair, t, wholly, inside);
            shared.before[t] = wholly;
            shared.inside[t] = inside;
        }
        u32 total;
        // Fewer stretches than threads: one knows all splits.
        shared.splits[t] = block_exclusive_sum<u32>(is_split, shared.sum, total);
        __syncthreads();
        const Stretches from{shared.bases, shared.inserts, shared.starts, shared.sums};
        Placed to = {};
        if (t < count) to = place(from, pair, t, shared.before, shared.inside, shared.splits);
        const u64 sum_of_all = shared.sums[count];
        const u32 pairs = (runs + 1) / 2;
        u32 run_first = 0;
        if (t <= pairs) {
            run_first = shared.runs[min(2 * t, runs)];
            run_first += shared.splits[run_first];
        }
        __syncthreads();
        if (t <= pairs) shared.runs[t] = run_first;
        if (t < count) {
            shared.bases[to.at] = to.base;
            shared.inserts[to.at] = to.insert;
            shared.starts[to.at] = to.start;
            shared.sums[to.at] = to.sum;
            if (to.has_part) {
                shared.bases[to.at - 1] = to.part_base;
                shared.inserts[to.at - 1] = to.part_insert;
                shared.starts[to.at - 1] = to.part_start;
                shared.sums[to.at - 1] = to.part_sum;
            }
        }
        count += total;
        runs = pairs;
        if (t == 0) shared.sums[count] = sum_of_all;
        __syncthreads();
    }
    const u64 out = block_look_back(words, leaf, count, shared.look_back);
    if (t < count) {
        bases[out + t] = shared.bases[t];
        inserts[out + t] = first + shared.inserts[t];
        starts[out + t] = shared.starts[t];
        sums[out + t] = grown_first + shared.sums[t];
    }
    if (t > 0) return;
    run_offsets[leaf] = u32(out);
    if (leaf + 1 < leaves) return;
    run_offsets[leaves] = u32(out + count);
    sums[out + count] = grown_first + shared.sums[count];
}

// One level in memory.

// The pair whose runs hold stretch i. Pair q has the runs pairs[q] .. pairs[q + 1], one or two.
__device__ __forceinline__ Pair pair_of(const u32* run_offsets, const u32* pairs, u32 pair_count, u32 i) {
    u32 low = 0, high = pair_count;
    while (high - low > 1) {
        const u32 half = low + (high - low) / 2;
        if (run_offsets[pairs[half]] <= i) {
            low = half;
        } else {
            high = half;
        }
    }
    const u32 run = pairs[low];
    return Pair{run_offsets[run], run_offsets[run + 1], run_offsets[pairs[low + 1]]};
}

struct SearchShared {
    BlockSum<u32> sum;
    u64 look_back;
    u32 tile;
};

// What `place` needs. The arrays have room for more stretches than there are, so that the host need not know how many; splits
// has one item more.
extern "C" __global__ void __launch_bounds__(LEAF_THREADS)
splice_search_kernel(const u64* bases, const u64* sums, u64 room, const u32* run_offsets, const u32* pairs,
                     u32 pair_count, u64* words, u32* ticket, u32* before, u64* inside, u32* splits) {
    SHARED(SearchShared, shared);
    const u32 tile = next_tile(ticket, shared.tile);
    // Stretches are numbered by u32.
    const u32 i = tile * LEAF_THREADS + threadIdx.x;
    bool is_split = false;
    if (i < run_offsets[pairs[pair_count]]) {
        const Pair pair = pair_of(run_offsets, pairs, pair_count, i);
        u32 wholly = 0;
        u64 depth = 0;
        if (i >= pair.middle) is_split = search_earlier(bases, sums, pair, i, wholly, depth);
        before[i] = wholly;
        inside[i] = depth;
    }
    u32 total;
    const u32 own = block_exclusive_sum<u32>(is_split, shared.sum, total);
    const u64 all = block_look_back(words, tile, total, shared.look_back);
    if (i <= room) splits[i] = u32(all) + own;
}

// Every stretch goes to its place, and the parts before splits. run_offsets_out[q] = where pair q begins, also for
// q = pair_count.
extern "C" __global__ void __launch_bounds__(THREADS)
splice_join_kernel(const u64* bases, const u32* inserts, const u64* starts, const u64* sums, const u32* run_offsets,
                   const u32* pairs, u32 pair_count, const u32* before, const u64* inside, const u32* splits,
                   u64* bases_out, u32* inserts_out, u64* starts_out, u64* sums_out, u32* run_offsets_out) {
    const u64 i = grid_thread();
    const u32 count = run_offsets[pairs[pair_count]];
    if (i <= pair_count) {
        const u32 first = run_offsets[pairs[i]];
        run_offsets_out[i] = first + splits[first];
        if (i == pair_count) sums_out[first + splits[first]] = sums[first];
    }
    if (i >= count) return;
    const Pair pair = pair_of(run_offsets, pairs, pair_count, u32(i));
    const Placed to = place(Stretches{bases, inserts, starts, sums}, pair, u32(i), before, inside, splits);
    bases_out[to.at] = to.base;
    inserts_out[to.at] = to.insert;
    starts_out[to.at] = to.start;
    sums_out[to.at] = to.sum;
    if (!to.has_part) return;
    bases_out[to.at - 1] = to.part_base;
    inserts_out[to.at - 1] = to.part_insert;
    starts_out[to.at - 1] = to.part_start;
    sums_out[to.at - 1] = to.part_sum;
}

// In the end: lengths, numbers of inserts, and where the stretches of each file begin; file f has run file_runs[f].
extern "C" __global__ void __launch_bounds__(THREADS)
splice_finish_kernel(const u32* order, const u64* sums, const u32* run_offsets, const u32* file_runs, u64 files,
                     u32* inserts, u64* lengths, u32* offsets) {
    const u64 i = grid_thread();
    if (i <= files) offsets[i] = run_offsets[file_runs[i]];
    if (i >= run_offsets[file_runs[files]]) return;
    inserts[i] = number_of(order, inserts[i]);
    lengths[i] = sums[i + 1] - sums[i];
}
