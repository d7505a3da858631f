// races.hpp: whether two accesses of one launch may happen at the same time.
// Known are accesses of kernels that were compiled with hooks, and what orders them: barriers, __syncwarp, fences and
// acquires. A fence counts as if it ordered all that ran before it, so what is found is a race, but not all is found.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

enum class Access : unsigned char { read, write, atomic_read, atomic_change };

// What a thread may rely on: accesses before these times, which count events that order something.
struct Seen {
    // By threads of its block, and of others.
    uint64_t of_block;
    uint64_t of_device;
};

// Who accesses memory.
struct Actor {
    unsigned block;
    unsigned thread;
    Seen seen;
    // What it has seen of the lanes of its warp.
    const uint64_t* of_lanes;
    // Where its own variables are.
    const char* stack;
    size_t stack_size;
};

// A new time: all accesses so far are before it.
uint64_t next_time();
// Forgets all accesses so far: a launch begins.
void forget_all();
// Forgets accesses to memory that has another owner now.
void forget(const void* address, size_t size);
// An access of the thread that runs, from code that goes on at `place`.
void access(Access kind, const void* address, size_t size, const void* place);
// Ends the process if the last write of the thread that runs races with another one. To be called before anything else
// is written.
void settle_write();
// Ends the process if an access races with an earlier one.
void check_access(const Actor& actor, Access access, const void* address, size_t size, const void* place);

}  // namespace emulator
