// cub.cu: times CUB's device-wide algorithms on the numbers of primitives.rs.
// Build  nvcc -O3 -std=c++17 -arch=sm_90 cub.cu -o cub && ./cub [ITEMS]
#include <cub/cub.cuh>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

constexpr int RUNS = 9;

#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t error = (call);                                                  \
        if (error != cudaSuccess) {                                                  \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));           \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

struct SumOf {
    __host__ __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};

static uint64_t mix(uint64_t x) {
    x = ((x ^ (x >> 30)) + 1) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

template <typename T>
static T* upload(const std::vector<T>& items) {
    T* device;
    CHECK(cudaMalloc(&device, items.size() * sizeof(T)));
    CHECK(cudaMemcpy(device, items.data(), items.size() * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

template <typename T>
static T* room(size_t items) {
    T* device;
    CHECK(cudaMalloc(&device, items * sizeof(T)));
    return device;
}

// `call(temporary, size)` as CUB's functions: asks for the size with a null pointer.
static void report(const char* name, double bytes, const std::function<cudaError_t(void*, size_t&)>& call) {
    size_t size = 0;
    CHECK(call(nullptr, size));
    void* temporary = room<char>(size);
    cudaEvent_t from, to;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    std::vector<float> times;
    for (int run = 0; run < RUNS + 2; run++) {
        CHECK(cudaEventRecord(from));
        CHECK(call(temporary, size));
        CHECK(cudaEventRecord(to));
        CHECK(cudaEventSynchronize(to));
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, from, to));
        if (run >= 2) times.push_back(milliseconds);
    }
    std::sort(times.begin(), times.end());
    const double time = times[times.size() / 2];
    printf("%-18s %8.3f ms %7.0f GB/s\n", name, time, bytes / time / 1e6);
    CHECK(cudaFree(temporary));
}

int main(int argc, char** argv) {
    const uint64_t n = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1 << 26;
    std::vector<uint64_t> wide(n), runs(n);
    std::vector<uint32_t> narrow(n), small(n), offsets{0};
    for (uint64_t i = 0; i < n; i++) {
        wide[i] = mix(i);
        narrow[i] = uint32_t(wide[i]);
        small[i] = wide[i] & 0xff;
        runs[i] = wide[i] % std::max<uint64_t>(n / 8, 1);
    }
    std::sort(runs.begin(), runs.end());
    for (uint64_t i = 0, end = 0; end < n; i++) {
        end = std::min(end + mix(i) % 63, n);
        offsets.push_back(uint32_t(end));
    }
    uint64_t* d_wide = upload(wide);
    uint64_t* d_runs = upload(runs);
    uint32_t* d_narrow = upload(narrow);
    uint32_t* d_small = upload(small);
    uint32_t* d_offsets = upload(offsets);
    uint64_t* out_wide = room<uint64_t>(n + 1);
    uint64_t* out_wide2 = room<uint64_t>(n + 1);
    uint32_t* out_narrow = room<uint32_t>(n + 1);
    uint32_t* values = room<uint32_t>(n);
    uint32_t* out_values = room<uint32_t>(n);
    uint64_t* count = room<uint64_t>(1);
    printf("CUB, %llu items\n", (unsigned long long)n);
    report("scan u32 -> u32", 8.0 * n, [&](void* t, size_t& s) { return cub::DeviceScan::ExclusiveSum(t, s, d_small, out_narrow, n); });
    report("scan u32 -> u64", 12.0 * n, [&](void* t, size_t& s) {
        return cub::DeviceScan::ExclusiveScan(t, s, d_small, out_wide, SumOf(), uint64_t(0), n);
    });
    report("scan u64 -> u64", 16.0 * n, [&](void* t, size_t& s) { return cub::DeviceScan::ExclusiveSum(t, s, d_runs, out_wide, n); });
    report("sort u32", 36.0 * n, [&](void* t, size_t& s) { return cub::DeviceRadixSort::SortKeys(t, s, d_narrow, out_narrow, n); });
    report("sort u32 + u32", 68.0 * n, [&](void* t, size_t& s) {
        return cub::DeviceRadixSort::SortPairs(t, s, d_narrow, out_narrow, values, out_values, n);
    });
    report("sort u32 below 256", 36.0 * n, [&](void* t, size_t& s) { return cub::DeviceRadixSort::SortKeys(t, s, d_small, out_narrow, n); });
    report("sort u64", 136.0 * n, [&](void* t, size_t& s) { return cub::DeviceRadixSort::SortKeys(t, s, d_wide, out_wide, n); });
    report("sort u64 + u32", 200.0 * n, [&](void* t, size_t& s) {
        return cub::DeviceRadixSort::SortPairs(t, s, d_wide, out_wide, values, out_values, n);
    });
    report("count runs u64", 8.0 * n + 2.0 * n, [&](void* t, size_t& s) {
        return cub::DeviceRunLengthEncode::Encode(t, s, d_runs, out_wide, out_wide2, count, n);
    });
    report("sums by key u64", 16.0 * n + 2.0 * n, [&](void* t, size_t& s) {
        return cub::DeviceReduce::ReduceByKey(t, s, d_runs, out_wide, d_wide, out_wide2, count, SumOf(), n);
    });
    report("segment sums u64", 8.0 * n + 12.0 / 31 * n, [&](void* t, size_t& s) {
        return cub::DeviceSegmentedReduce::Sum(t, s, d_wide, out_wide, offsets.size() - 1, d_offsets, d_offsets + 1);
    });
    return 0;
}
