// runtime.hpp: what a compiled kernel file and the emulator know of each other.
// A kernel file is a shared object that exports `zipfdb_kernels`; the executable that loads it exports the functions
// and variables below. Only one CUDA thread runs at any moment, and another may run only where one of them is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

struct uint3 {
    unsigned x, y, z;
};

// Indices and sizes of the CUDA thread that runs.
extern uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {

using Word = unsigned long long;

constexpr unsigned WARP = 32;

// A place in the source of a kernel.
struct Site {
    const char* file;
    int line;
};

enum class Barrier : unsigned char { plain, count, any, all };
enum class Warp : unsigned char { sync, shuffle, ballot, any, all, match };

// Waits for the block. The number of threads whose predicate was not 0.
unsigned barrier(Barrier kind, bool predicate, Site site);
// Waits for the lanes of `mask`. A shuffle gives the value of lane `source`, sync nothing, the others what CUDA says.
Word warp(Warp kind, unsigned mask, Word value, unsigned source, Site site);
// Before an atomic access to memory that threads share, from code that goes on at `place`: another thread may run first.
void step(const void* address, size_t size, bool changes, const void* place);
// What others did before is seen from now on.
void fence();
// Shared memory has changed, so threads that wait for it may go on.
void progress();
// Inside a loop that waits: other threads run first.
void spin();
// The shared memory of this block.
void* shared_memory(size_t size, size_t alignment, Site site);
// Ends the process with a message that says which thread of which kernel it is about.
[[noreturn]] __attribute__((format(printf, 2, 3))) void fault(Site site, const char* format, ...);

struct Kernel {
    const char* name;
    unsigned threads_max;
    unsigned parameters;
    const unsigned char* parameter_sizes;
    void (*call)(const Word* arguments);
};

template <typename T>
__attribute__((no_sanitize("thread"))) T argument(Word value) {
    if constexpr (__is_class(T)) {
        static_assert(sizeof(T) > sizeof(Word) && sizeof(T) < 256 && alignof(T) <= alignof(Word),
                      "a struct that is a parameter of a kernel has more than one word of numbers");
        // The address of a copy.
        return *reinterpret_cast<const T*>(value);
    } else {
        // A pointer, or a number that was given with as many bits.
        return (T)value;
    }
}

// How to call `Function` with arguments that are known only when it is launched.
template <auto Function>
struct Registration;

template <typename... Parameters, void (*Function)(Parameters...)>
struct Registration<Function> {
    static constexpr unsigned char sizes[] = {sizeof(Parameters)..., 0};

    template <size_t... Index>
    __attribute__((no_sanitize("thread"))) static void spread([[maybe_unused]] const Word* arguments, std::index_sequence<Index...>) {
        Function(argument<Parameters>(arguments[Index])...);
    }

    static void call(const Word* arguments) { spread(arguments, std::index_sequence_for<Parameters...>()); }

    static constexpr Kernel kernel(const char* name, unsigned threads_max) {
        return {name, threads_max, sizeof...(Parameters), sizes, call};
    }
};

}  // namespace emulator
