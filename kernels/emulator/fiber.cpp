// fiber.cpp: fibers with a guard page below each stack; every switch is announced to
// AddressSanitizer.

#include "fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#define OWN_SWITCH
#else
#include <ucontext.h>
#endif

#ifdef EMULATOR_SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {

// Bytes of a stack. Untouched pages take no memory, and a report of AddressSanitizer
// needs many.
static constexpr size_t STACK_SIZE = 256 << 10;

static void (*fiber_body)();
// The fiber that switched last. Only the sanitizer knows its stack.
static Fiber* previous;

static void arrive([[maybe_unused]] Fiber* here) {
#ifdef EMULATOR_SANITIZED
    const void* bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(here->sanitizer, &bottom, &size);
    if (previous->stack_bottom == nullptr) {
        previous->stack_bottom = const_cast<void*>(bottom);
        previous->stack_size = size;
    }
#endif
}

static Fiber* starting;

static void enter() {
    arrive(starting);
    fiber_body();
    abort();
}

#ifdef OWN_SWITCH

extern "C" void zipfdb_switch_stack(void** save, void* load);

#ifdef __x86_64__
asm(R"(
.text
.globl zipfdb_switch_stack
.type zipfdb_switch_stack, @function
zipfdb_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size zipfdb_switch_stack, . - zipfdb_switch_stack
)");

static void* first_context(char* top) {
    // Six registers, where to return to, and a caller that there is none of. A function starts 8 bytes off.
    auto words = reinterpret_cast<uintptr_t*>(top) - 8;
    for (int index = 0; index < 8; index++) words[index] = 0;
    words[6] = reinterpret_cast<uintptr_t>(enter);
    return words;
}
#else
asm(R"(
.text
.globl zipfdb_switch_stack
.type zipfdb_switch_stack, %function
zipfdb_switch_stack:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size zipfdb_switch_stack, . - zipfdb_switch_stack
)");

static void* first_context(char* top) {
    // Ten registers, the frame, where to return to, eight registers.
    auto words = reinterpret_cast<uintptr_t*>(top) - 20;
    for (int index = 0; index < 20; index++) words[index] = 0;
    words[11] = reinterpret_cast<uintptr_t>(enter);
    return words;
}
#endif

static bool prepare(Fiber* fiber, size_t offset) {
    char* top = static_cast<char*>(fiber->stack_bottom) + fiber->stack_size - offset;
    fiber->context = first_context(top);
    return true;
}

static void change(Fiber* from, Fiber* to) { zipfdb_switch_stack(&from->context, to->context); }

#else

static bool prepare(Fiber* fiber, size_t offset) {
    auto context = new ucontext_t;
    if (getcontext(context) != 0) return false;
    context->uc_stack.ss_sp = fiber->stack_bottom;
    context->uc_stack.ss_size = fiber->stack_size - offset;
    context->uc_link = nullptr;
    makecontext(context, enter, 0);
    fiber->context = context;
    return true;
}

static void change(Fiber* from, Fiber* to) {
    if (from->context == nullptr) from->context = new ucontext_t;
    swapcontext(static_cast<ucontext_t*>(from->context), static_cast<ucontext_t*>(to->context));
}

#endif

Fiber* new_fiber(void (*body)()) {
    static size_t count = 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void* memory = mmap(nullptr, page + STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    if (mprotect(memory, page, PROT_NONE) != 0) return nullptr;
    auto fiber = new Fiber{nullptr, static_cast<char*>(memory) + page, STACK_SIZE, nullptr};
    // Offsets keep the tops of all stacks from sharing the few cache lines of
    // one set.
    size_t offset = (count++ % 16) * 256;
    fiber_body = body;
    return prepare(fiber, offset) ? fiber : nullptr;
}

Fiber* first_fiber() {
    static Fiber first = {nullptr, nullptr, 0, nullptr};
    return &first;
}

void switch_fiber(Fiber* from, Fiber* to) {
    previous = from;
    starting = to;
#ifdef EMULATOR_SANITIZED
    __sanitizer_start_switch_fiber(&from->sanitizer, to->stack_bottom, to->stack_size);
#endif
    change(from, to);
    arrive(from);
}

}  // namespace emulator
