// splices.cu: where inserted text comes to stand when many inserts are made at once; twin: splices.rs of the crate.
// In     inserts by file, in their order: base u64, insert u32, start u64, length u64; runs of them, one each at first
// Out    the same arrays for runs half as many: an earlier run composed with the later one whose places count in its result
// Work   O(stretches * log stretches) a level, as many levels as the logarithm of a file's inserts
// Map    a thread a stretch; it finds its place by binary search in the other run
// Exact  positions from searches and scans only
// Why    a balanced tree on the host makes one insert after the other
#include "primitives.cuh"

constexpr u32 THREADS = SPLICE_THREADS;

// Before composing.

// order[i] = i.
extern "C" __global__ void __launch_bounds__(THREADS) splice_numbers_kernel(u32* order, u64 count) {
    const u64 i = grid_thread();
    if (i < count) order[i] = u32(i);
}

// In a batch: keys[i] = file and place of insert i, in this order. The smallest number of an insert past the end of its
// file is left in `refused`.
extern "C" __global__ void __launch_bounds__(THREADS)
splice_keys_kernel(const u32* files, const u64* offsets, const u64* sizes, u64 count, u32 size_bits, u64* keys,
                   u32* order, u32* refused) {
    const u64 i = grid_thread();
    if (i >= count) return;
    const u64 size = sizes[files[i]];
    const u64 base = offsets[i] == ~u64(0) ? size : offsets[i];
    if (base > size) atomicMin(refused, u32(i));
    keys[i] = u64(files[i]) << size_bits | min(base, size);
    order[i] = u32(i);
}

// What sorted keys say: places, the inserts' lengths, and whole inserts.
extern "C" __global__ void __launch_bounds__(THREADS)
splice_batch_kernel(const u64* keys, const u32* order, const u64* lengths, u64 count, u32 size_bits, u64* bases,
                    u64* starts, u64* lengths_out) {
    const u64 i = grid_thread();
    if (i >= count) return;
    bases[i] = keys[i] & ((u64(1) << size_bits) - 1);
    starts[i] = 0;
    lengths_out[i] = lengths[order[i]];
}

// first[f] = how many of the sorted keys are of files below f, for f up to and with `end`.
extern "C" __global__ void __launch_bounds__(THREADS)
splice_firsts_kernel(const u64* keys, u64 count, u32 size_bits, u32* first, u64 end) {
    const u64 file = grid_thread();
    if (file <= end) first[file] = file == 0 ? 0 : u32(count_at_most(keys, count, (file << size_bits) - 1));
}

// In sequence: inserts in order of file, their lengths.
extern "C" __global__ void __launch_bounds__(THREADS)
splice_lengths_kernel(const u32* order, u64 count, const u64* lengths, u64* lengths_out, u64* starts) {
    const u64 i = grid_thread();
    if (i >= count) return;
    lengths_out[i] = lengths[order[i]];
    starts[i] = 0;
}

// In sequence: the place of each in what those of its file before have made; grown[i] is how many bytes all before it
// have, those of its file from file_first[file] on.
extern "C" __global__ void __launch_bounds__(THREADS)
splice_places_kernel(const u32* order, u64 count, const u32* files, const u64* offsets, const u64* sizes,
                     const u64* grown, const u32* file_first, u64* bases, u32* run_offsets, u32* refused) {
    const u64 i = grid_thread();
    if (i > count) return;
    run_offsets[i] = u32(i);
    if (i == count) return;
    const u32 insert = order[i];
    const u32 file = files[insert];
    const u64 size = sizes[file] + grown[i] - grown[file_first[file]];
    const u64 offset = offsets[insert];
    const u64 base = offset == ~u64(0) ? size : offset;
    if (base > size) atomicMin(refused, insert);
    bases[i] = base;
}

// One level.

// The stretches of a pair of runs: the earlier one first .. middle, the later one middle .. end.
struct Pair {
    u32 first;
    u32 middle;
    u32 end;
};

// Pair q has the runs pairs[q] .. pairs[q + 1], one or two.
__device__ __forceinline__ Pair pair_of(const u32* run_offsets, const u32* pairs, u32 q) {
    const u32 run = pairs[q];
    return Pair{run_offsets[run], run_offsets[run + 1], run_offsets[pairs[q + 1]]};
}

// For a later stretch: how many earlier ones lie wholly before it, and how far inside the next one it falls. `is_split`:
// it is the first that splits the next one there. `sums` are the lengths of all stretches before each. The arrays have
// room for more stretches than there are, so that the host need not know how many.
extern "C" __global__ void __launch_bounds__(THREADS)
splice_search_kernel(const u64* bases, const u64* sums, u64 room, const u32* run_offsets, const u32* pairs,
                     u32 pair_count, u32* before, u64* inside, u32* is_split) {
    const u64 i = grid_thread();
    if (i >= room) return;
    is_split[i] = 0;
    if (i >= run_offsets[pairs[pair_count]]) return;
    // The pair whose runs hold i.
    u32 low = 0, high = pair_count;
    while (high - low > 1) {
        const u32 half = low + (high - low) / 2;
        if (run_offsets[pairs[half]] <= i) {
            low = half;
        } else {
            high = half;
        }
    }
    const Pair pair = pair_of(run_offsets, pairs, low);
    before[i] = 0;
    inside[i] = 0;
    if (i < pair.middle) return;
    const u64 place = bases[i];
    const u64 sum = sums[pair.first];
    u32 wholly = 0, rest = pair.middle - pair.first;
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
    before[i] = wholly;
    const u32 next = pair.first + wholly;
    if (next < pair.middle) {
        const u64 start = bases[next] + sums[next] - sum;
        if (start < place) {
            inside[i] = place - start;
            is_split[i] = i == pair.middle || bases[i - 1] != place;
        }
    }
}

// Every stretch goes to its place; a stretch that is split also gives the part before each split. `splits` are the
// splits before each stretch.
extern "C" __global__ void __launch_bounds__(THREADS)
splice_join_kernel(const u64* bases, const u32* inserts, const u64* starts, const u64* lengths, const u64* sums,
                   const u32* run_offsets, const u32* pairs, u32 pair_count, const u32* before,
                   const u64* inside, const u32* splits, u64* bases_out, u32* inserts_out, u64* starts_out,
                   u64* lengths_out) {
    const u64 i = grid_thread();
    if (i >= run_offsets[pairs[pair_count]]) return;
    u32 low = 0, high = pair_count;
    while (high - low > 1) {
        const u32 half = low + (high - low) / 2;
        if (run_offsets[pairs[half]] <= i) {
            low = half;
        } else {
            high = half;
        }
    }
    const Pair pair = pair_of(run_offsets, pairs, low);
    const u32 out_first = pair.first + splits[pair.first];
    if (i >= pair.middle) {
        const u32 wholly = before[i];
        const u32 next = pair.first + wholly;
        const u32 out = out_first + u32(i) - pair.middle + wholly + splits[i + 1] - splits[pair.middle];
        const u64 depth = inside[i];
        bases_out[out] = depth > 0 ? bases[next] : bases[i] - (sums[next] - sums[pair.first]);
        inserts_out[out] = inserts[i];
        starts_out[out] = starts[i];
        lengths_out[out] = lengths[i];
        if (splits[i + 1] != splits[i]) {
            // From the split before, if that is in the same stretch.
            const u64 from = i > pair.middle && before[i - 1] == wholly ? inside[i - 1] : 0;
            bases_out[out - 1] = bases[next];
            inserts_out[out - 1] = inserts[next];
            starts_out[out - 1] = starts[next] + from;
            lengths_out[out - 1] = depth - from;
        }
    } else {
        // Later stretches that come before this one's end.
        const u64 end = bases[i] + sums[i + 1] - sums[pair.first];
        const u32 later = u32(count_at_most(bases + pair.middle, pair.end - pair.middle, end - 1));
        const u32 last = pair.middle + later;
        const u32 own = u32(i) - pair.first;
        const u64 from = later > 0 && before[last - 1] == own ? inside[last - 1] : 0;
        const u32 out = out_first + own + later + splits[last] - splits[pair.middle];
        bases_out[out] = bases[i];
        inserts_out[out] = inserts[i];
        starts_out[out] = starts[i] + from;
        lengths_out[out] = lengths[i] - from;
    }
}

// run_offsets_out[q] = where pair q begins, after the splits; also for q = pair_count.
extern "C" __global__ void __launch_bounds__(THREADS)
splice_runs_kernel(const u32* run_offsets, const u32* pairs, u64 pair_count, const u32* splits, u32* run_offsets_out) {
    const u64 q = grid_thread();
    if (q > pair_count) return;
    const u32 first = run_offsets[pairs[q]];
    run_offsets_out[q] = first + splits[first];
}
