// schedule.hpp: runs one launch of a kernel.
// All that happens is decided by the launch and its seed.
#pragma once

#include "races.hpp"
#include "runtime.hpp"

namespace emulator {

// Most threads of a block in CUDA.
constexpr unsigned BLOCK_THREADS_MAX = 1024;

struct Launch {
    const Kernel* kernel;
    const char* source;
    unsigned blocks;
    unsigned threads;
    const Word* arguments;
    // The seeds of the run, for messages, and of this launch within it.
    uint64_t seed;
    uint64_t launch_seed;
    // Whether the kernel reports its accesses.
    bool finds_races;
};

// Returns when all threads have ended. A mistake of the kernel ends the process.
void run(const Launch& launch);
// Says what runs now on standard error. Safe in a signal handler.
void write_position();

// Deterministic and fast; nothing here needs good random numbers.
struct Random {
    uint64_t state;

    uint64_t next() {
        state += 0x9E3779B97F4A7C15;
        uint64_t mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
        return mixed ^ (mixed >> 31);
    }

    unsigned below(unsigned limit) { return (unsigned)(((next() >> 32) * limit) >> 32); }
};

}  // namespace emulator
