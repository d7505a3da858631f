// fiber.hpp: stacks that take turns on one thread of the operating system.
// A fiber runs until it switches to another one itself. It has no result and never ends; an unused one is kept for
// later.
#pragma once

#include <cstddef>

namespace emulator {

struct Fiber {
    // Where it goes on: a stack pointer, or a ucontext_t on machines without a switch of our own.
    void* context;
    void* stack_bottom;
    size_t stack_size;
    // The sanitizer's own data of a fiber that waits.
    void* sanitizer;
};

// A fiber that calls `body` when it is switched to for the first time. Null if there is no memory left.
Fiber* new_fiber(void (*body)());
// Makes the caller a fiber, once and before all else.
Fiber* first_fiber();
// Runs `to`; returns when another fiber switches to `from`, the running one.
void switch_fiber(Fiber* from, Fiber* to);

}  // namespace emulator
