// races.cpp: the last read and the last write of each byte, and whether the next access may be at the same time.
// Two plain writes of the same are no race here: kernels set flags so.

#include "races.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_map>

#include "runtime.hpp"

#ifdef EMULATOR_SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {

namespace {

struct Past {
    uint64_t time;
    // The address that the access returns to.
    const void* place;
    unsigned block;
    unsigned short thread;
    bool is_atomic;
};

struct Byte {
    Past read;
    Past write;
};

constexpr uintptr_t PAGE_SIZE = 64;
// Pages that are kept from one launch for the next, 3 KiB each.
constexpr size_t PAGES_KEPT_MAX = 16 << 10;

struct Page {
    Byte bytes[PAGE_SIZE];
};

std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
// Where pages were found last, by the low bits of their number. No memory has number 0.
struct Found {
    uintptr_t number;
    Page* page;
};
Found found[1024];

// A write that follows another one in no order, which is a race if it changes anything. A hook runs before its access.
struct Overwrite {
    const void* address;
    size_t size;
    unsigned char bytes[16];
    Past past;
    const void* place;
};

// None if its size is 0.
Overwrite overwrite;

uint64_t now = 1;
uint64_t launch_time;

Byte& byte_at(uintptr_t address) {
    uintptr_t number = address / PAGE_SIZE;
    Found& last = found[number % std::size(found)];
    if (last.number != number) {
        std::unique_ptr<Page>& page = pages[number];
        if (page == nullptr) page.reset(new Page());
        last = {number, page.get()};
    }
    return last.page->bytes[address % PAGE_SIZE];
}

bool is_seen(const Actor& actor, const Past& past) {
    if (past.time < launch_time) return true;
    if (past.block != actor.block) return past.time < actor.seen.of_device;
    if (past.thread == actor.thread || past.time < actor.seen.of_block) return true;
    return past.thread / WARP == actor.thread / WARP && past.time < actor.of_lanes[past.thread % WARP];
}

// Where in its source the code is that a call in it returns to.
std::string source_of([[maybe_unused]] const void* place) {
    char text[256] = "an unknown place";
#ifdef EMULATOR_SANITIZED
    const char* call = static_cast<const char*>(place) - 1;
    __sanitizer_symbolize_pc(const_cast<char*>(call), "%S", text, sizeof text);
#endif
    const char* file = strrchr(text, '/');
    return file == nullptr ? text : file + 1;
}

[[noreturn]] void race(const Past& past, const char* was, const void* place, const char* is, size_t size) {
    fault({}, "race: %zu bytes that block %u, thread %u %s at %s are %s at %s, and nothing orders the two", size,
          past.block, past.thread, was, source_of(past.place).c_str(), is, source_of(place).c_str());
}

}  // namespace

uint64_t next_time() { return ++now; }

void forget_all() {
    launch_time = ++now;
    if (pages.size() <= PAGES_KEPT_MAX) return;
    pages.clear();
    std::fill(std::begin(found), std::end(found), Found{});
}

void forget(const void* address, size_t size) {
    auto start = reinterpret_cast<uintptr_t>(address);
    for (size_t at = 0; at < size; at++) byte_at(start + at) = Byte{};
}

void settle_write() {
    if (overwrite.size == 0) return;
    size_t size = overwrite.size;
    overwrite.size = 0;
    if (memcmp(overwrite.address, overwrite.bytes, size) == 0) return;
    race(overwrite.past, "wrote", overwrite.place, "overwritten with something else", size);
}

void check_access(const Actor& actor, Access access, const void* address, size_t size, const void* place) {
    auto start = reinterpret_cast<uintptr_t>(address);
    if (start - reinterpret_cast<uintptr_t>(actor.stack) < actor.stack_size) return;
    bool is_atomic = access == Access::atomic_read || access == Access::atomic_change;
    bool reads = access != Access::write, writes = access == Access::write || access == Access::atomic_change;
    Past present = {now, place, actor.block, (unsigned short)actor.thread, is_atomic};
    for (size_t at = 0; at < size; at++) {
        Byte& byte = byte_at(start + at);
        if (reads && !(is_atomic && byte.write.is_atomic) && !is_seen(actor, byte.write)) {
            race(byte.write, byte.write.is_atomic ? "changed" : "wrote", place, writes ? "changed" : "read", size);
        }
        if (writes && !(is_atomic && byte.read.is_atomic) && !is_seen(actor, byte.read)) {
            race(byte.read, byte.read.is_atomic ? "changed" : "read", place, reads ? "changed" : "written", size);
        }
        if (!reads && size <= sizeof overwrite.bytes && !is_seen(actor, byte.write)) {
            overwrite = {address, size, {}, byte.write, place};
            memcpy(overwrite.bytes, address, size);
        }
        if (reads) byte.read = present;
        if (writes) byte.write = present;
    }
}

}  // namespace emulator

// What compilers call with -fsanitize=thread, whose own run-time library is not linked.

#define PLACE __builtin_return_address(0)
#define HOOKS(size)                                                                                              \
    void __tsan_read##size(void* at) { emulator::access(emulator::Access::read, at, size, PLACE); }              \
    void __tsan_write##size(void* at) { emulator::access(emulator::Access::write, at, size, PLACE); }            \
    void __tsan_unaligned_read##size(void* at) { emulator::access(emulator::Access::read, at, size, PLACE); }    \
    void __tsan_unaligned_write##size(void* at) { emulator::access(emulator::Access::write, at, size, PLACE); }

extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_read_range(void* at, size_t size) { emulator::access(emulator::Access::read, at, size, PLACE); }
void __tsan_write_range(void* at, size_t size) { emulator::access(emulator::Access::write, at, size, PLACE); }

void* __tsan_memcpy(void* to, const void* from, size_t size) {
    emulator::access(emulator::Access::read, from, size, PLACE);
    emulator::access(emulator::Access::write, to, size, PLACE);
    return memcpy(to, from, size);
}

void* __tsan_memmove(void* to, const void* from, size_t size) {
    emulator::access(emulator::Access::read, from, size, PLACE);
    emulator::access(emulator::Access::write, to, size, PLACE);
    return memmove(to, from, size);
}

void* __tsan_memset(void* to, int byte, size_t size) {
    emulator::access(emulator::Access::write, to, size, PLACE);
    return memset(to, byte, size);
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
