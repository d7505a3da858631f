// baseline.cu: the tasks without a grammar, on the words of all files one after the other: what grammars are measured against.
// In     words [words] u32; files [words] u32, the file of each; file_offsets [files + 1]
// Out    keys for radix sort, and rows of what was sorted
// Work   a pass over the words; then it is the sort that costs
// Map    a thread a word
// Exact  sums and stable sorts
#include "primitives.cuh"

constexpr u32 THREADS = BASELINE_THREADS;

// counts[word] += 1 for each word: one atomic each.
extern "C" __global__ void __launch_bounds__(THREADS)
plain_histogram_kernel(const u32* words, u64 count, u32* counts) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) atomicAdd(&counts[words[i]], 1u);
}

// keys[i] = word << file_bits | file.
extern "C" __global__ void __launch_bounds__(THREADS)
word_file_keys_kernel(const u32* words, const u32* files, u64 count, u32 file_bits, u32* keys) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) keys[i] = words[i] << file_bits | files[i];
}

// keys[i] = the n words from word i on, or all ones where the file ends before.
extern "C" __global__ void __launch_bounds__(THREADS)
window_keys_kernel(const u32* words, const u32* files, const u32* file_offsets, u64 count, u32 n, u32 bits, u64* keys) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 end = file_offsets[files[i] + 1];
        u64 key = ~u64(0);
        if (i + n <= end) {
            key = 0;
            for (u32 k = 0; k < n; k++) key = key << bits | words[i + k];
        }
        keys[i] = key;
    }
}

// The key of `length` words of each window, from word `first` of it on: all ones where a file ends within the window. Window
// i is the one at numbers[i], at first that at i.
extern "C" __global__ void __launch_bounds__(THREADS)
window_part_keys_kernel(const u32* words, const u32* files, const u32* file_offsets, u32 is_first, u32* numbers,
                        u64 count, u32 n, u32 first, u32 length, u32 bits, u64* keys) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        const u32 at = is_first ? u32(i) : numbers[i];
        if (is_first) numbers[i] = at;
        u64 key = ~u64(0);
        if (at + n <= file_offsets[files[at] + 1]) {
            key = 0;
            for (u32 k = first; k < first + length; k++) key = key << bits | words[at + k];
        }
        keys[i] = key;
    }
}

// Sorted windows with the keys of their first words: whether window i differs from the one before.
extern "C" __global__ void __launch_bounds__(THREADS)
window_differs_kernel(const u32* words, const u64* keys, const u32* numbers, u64 count, u32 n, u32 length,
                      u32* differs) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        bool is_other = i > 0 && keys[i] != keys[i - 1];
        if (i > 0 && !is_other && keys[i] != ~u64(0)) {
            const u32 at = numbers[i], before = numbers[i - 1];
            for (u32 k = length; k < n; k++) is_other |= words[at + k] != words[before + k];
        }
        differs[i] = is_other;
    }
}

// keys[i] = the number of the window's n-gram; those of all ones stay.
extern "C" __global__ void __launch_bounds__(THREADS)
number_windows_kernel(const u32* differ_before, u64 count, u64* keys) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        if (keys[i] != ~u64(0)) keys[i] = differ_before[i + 1];
    }
}

// files[i] = the file of window numbers[i].
extern "C" __global__ void __launch_bounds__(THREADS)
window_files_kernel(const u32* root_files, const u32* numbers, u64 count, u32* files) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) files[i] = root_files[numbers[i]];
}
