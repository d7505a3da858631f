// nvcomp.cu: times nvCOMP's decompressors on the files that suite `codec` packs.
// Build  nvcc -O3 -std=c++17 -arch=sm_90 -I NVCOMP/include nvcomp.cu -L NVCOMP/lib64 -l:libnvcomp.so.6 -o nvcomp
// Run    LD_LIBRARY_PATH=NVCOMP/lib64 ./nvcomp FILE...   (NVCOMP: nvidia/libnvcomp of the wheel nvidia-libnvcomp-cu13)
//
// Each file is a text; it is cut into chunks of 64 KiB and of 256 KiB and compressed on the device with the default options. A line
// has the ratio, and GB of text a second of the decompressor alone, on resident data: the median of RUNS. Texts are compared.
#include <nvcomp/gdeflate.h>
#include <nvcomp/lz4.h>
#include <nvcomp/snappy.h>
#include <nvcomp/zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int RUNS = 9;

#define CHECK(call)                                                                  \
    do {                                                                             \
        auto status = (call);                                                        \
        if (int(status) != 0) {                                                      \
            fprintf(stderr, "%s: error %d\n", #call, int(status));                   \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

static std::vector<uint8_t> read(const char* path) {
    FILE* file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    std::vector<uint8_t> text;
    uint8_t buffer[1 << 16];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;) text.insert(text.end(), buffer, buffer + n);
    fclose(file);
    return text;
}

template <typename T>
static T* allocate(size_t items) {
    T* device;
    CHECK(cudaMalloc(&device, std::max<size_t>(items, 1) * sizeof(T)));
    return device;
}

template <typename T>
static T* upload(const std::vector<T>& items) {
    T* device = allocate<T>(items.size());
    CHECK(cudaMemcpy(device, items.data(), items.size() * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

// Chunks of a text in one buffer, `stride` bytes apart.
static void** places(uint8_t* base, size_t chunks, size_t stride) {
    std::vector<void*> pointers(chunks);
    for (size_t k = 0; k < chunks; ++k) pointers[k] = base + k * stride;
    return upload(pointers);
}

#define MEASURE(NAME, FORMAT)                                                                                       \
    static void measure_##NAME(const std::vector<uint8_t>& text, size_t chunk) {                                    \
        const auto how = nvcompBatched##FORMAT##CompressDefaultOpts;                                                \
        const auto back = nvcompBatched##FORMAT##DecompressDefaultOpts;                                             \
        size_t chunks = (text.size() + chunk - 1) / chunk;                                                          \
        std::vector<size_t> sizes(chunks, chunk);                                                                   \
        sizes.back() = text.size() - (chunks - 1) * chunk;                                                          \
        uint8_t* plain = upload(text);                                                                              \
        uint8_t* again = allocate<uint8_t>(chunks * chunk);                                                         \
        size_t room, temp;                                                                                          \
        CHECK(nvcompBatched##FORMAT##CompressGetMaxOutputChunkSize(chunk, how, &room));                             \
        room = (room + 255) / 256 * 256;                                                                            \
        uint8_t* packed = allocate<uint8_t>(chunks * room);                                                         \
        void **plain_at = places(plain, chunks, chunk), **packed_at = places(packed, chunks, room);                 \
        void** again_at = places(again, chunks, chunk);                                                             \
        size_t *plain_size = upload(sizes), *packed_size = allocate<size_t>(chunks), *made = allocate<size_t>(chunks); \
        auto* statuses = allocate<nvcompStatus_t>(chunks);                                                          \
        CHECK(nvcompBatched##FORMAT##CompressGetTempSize(chunks, chunk, how, &temp, text.size(), 0));               \
        uint8_t* scratch = allocate<uint8_t>(temp);                                                                 \
        CHECK(nvcompBatched##FORMAT##CompressAsync(plain_at, plain_size, chunk, chunks, scratch, temp, packed_at,   \
                                                   packed_size, how, statuses, 0));                                 \
        CHECK(cudaDeviceSynchronize());                                                                             \
        CHECK(cudaFree(scratch));                                                                                   \
        CHECK(cudaMemcpy(sizes.data(), packed_size, chunks * sizeof(size_t), cudaMemcpyDeviceToHost));              \
        size_t total = 0;                                                                                           \
        for (size_t size : sizes) total += size;                                                                    \
        CHECK(nvcompBatched##FORMAT##DecompressGetTempSize(chunks, chunk, back, &temp, text.size(), 0));            \
        scratch = allocate<uint8_t>(temp);                                                                          \
        std::vector<float> times;                                                                                   \
        cudaEvent_t begin, end;                                                                                     \
        CHECK(cudaEventCreate(&begin));                                                                             \
        CHECK(cudaEventCreate(&end));                                                                               \
        for (int run = 0; run <= RUNS; ++run) {                                                                     \
            CHECK(cudaEventRecord(begin));                                                                          \
            CHECK(nvcompBatched##FORMAT##DecompressAsync(packed_at, packed_size, plain_size, made, chunks, scratch, \
                                                         temp, again_at, back, statuses, 0));                       \
            CHECK(cudaEventRecord(end));                                                                            \
            CHECK(cudaEventSynchronize(end));                                                                       \
            float ms;                                                                                               \
            CHECK(cudaEventElapsedTime(&ms, begin, end));                                                           \
            if (run > 0) times.push_back(ms);                                                                       \
        }                                                                                                           \
        std::sort(times.begin(), times.end());                                                                      \
        std::vector<uint8_t> got(text.size());                                                                      \
        CHECK(cudaMemcpy(got.data(), again, text.size(), cudaMemcpyDeviceToHost));                                  \
        bool same = memcmp(got.data(), text.data(), text.size()) == 0;                                              \
        printf("  %-9s %4zu KiB  ratio %7.3f  %7.1f GB/s%s\n", #FORMAT, chunk >> 10, double(text.size()) / total,   \
               text.size() / (times[times.size() / 2] * 1e6), same ? "" : "  WRONG TEXT");                          \
        for (void* memory : {(void*)plain, (void*)again, (void*)packed, (void*)plain_at, (void*)packed_at,          \
                             (void*)again_at, (void*)plain_size, (void*)packed_size, (void*)made, (void*)statuses,  \
                             (void*)scratch})                                                                       \
            CHECK(cudaFree(memory));                                                                                \
    }

MEASURE(lz4, LZ4)
MEASURE(snappy, Snappy)
MEASURE(gdeflate, Gdeflate)
MEASURE(zstd, Zstd)

int main(int count, char** paths) {
    for (int k = 1; k < count; ++k) {
        std::vector<uint8_t> text = read(paths[k]);
        printf("%s, %.1f MB\n", paths[k], text.size() / 1e6);
        for (size_t chunk : {size_t(64) << 10, size_t(256) << 10}) {
            measure_lz4(text, chunk);
            measure_snappy(text, chunk);
            measure_gdeflate(text, chunk);
            measure_zstd(text, chunk);
        }
    }
}
