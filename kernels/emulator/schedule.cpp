// schedule.cpp: which CUDA thread runs next, and what barriers and warps make of those that wait.
// A thread is in exactly one place: it runs, is in `ready`, waits at a barrier or in a warp operation, or has exited.
// Blocks start in ascending order, a few at a time; of the ready threads any may be next. A thread has a fiber only
// from its first instruction to its last, so a kernel that never waits needs one for all its threads.

#include "schedule.hpp"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fiber.hpp"

#ifdef EMULATOR_SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {

constexpr unsigned BLOCKS_AT_ONCE_MAX = 8;
constexpr unsigned THREADS_AT_ONCE_MAX = 4096;
// Average number of shared memory accesses, and of other accesses that the kernel reports, between two random
// switches to another thread.
constexpr unsigned STEP_PERIOD = 8;
constexpr unsigned ACCESS_PERIOD = 64;
// Iterations of a spin loop after which the awaited write counts as missing.
constexpr unsigned SPINS_MAX = 2 << 20;
// Seconds that a thread may run without a call of the emulator.
constexpr unsigned SILENT_SECONDS_MAX = 20;

enum class State : unsigned char { ready, barrier, warp, exited };

struct Block;

struct Thread {
    Block* block;
    // Null before its first instruction and after its last.
    Fiber* fiber;
    unsigned index;
    State state;
    // Where and for what it waits.
    Warp warp;
    unsigned mask;
    unsigned source;
    Site site;
    // What it gives to the warp, then what it gets.
    Word value;
    Seen seen;
};

struct Block {
    unsigned index;
    unsigned priority;
    // Numbers of threads that exited, that wait at the barrier, and whose predicate holds.
    unsigned exited;
    unsigned waiting;
    unsigned holding;
    // What the last barrier counted, for threads that have not read it yet.
    unsigned counted;
    // The barrier that they wait at.
    Barrier barrier;
    Site site;
    void* shared;
    size_t shared_size;
    Site shared_site;
    std::vector<Thread> threads;
    // By warp, its lanes that wait in an operation of it.
    unsigned lanes_waiting[BLOCK_THREADS_MAX / WARP];
    // By thread and lane of its warp, what it has seen of that. Empty unless races are looked for.
    std::vector<uint64_t> lanes_seen;
};

static const Launch* launch;
static Thread* current;
static Random choices;
static std::vector<Thread*> ready;
static std::vector<Fiber*> idle_fibers;
static std::vector<std::unique_ptr<Block>> idle_blocks;
static std::vector<Block*> live_blocks;
static unsigned blocks_started;
static unsigned spins;
// In some launches blocks run ahead of others.
static bool skewed;
static volatile uint64_t switches;

void write_position() {
    if (launch == nullptr) return;
    char text[512];
    int size = snprintf(text, sizeof text, "in block %u of %u, thread %u of %u, of %s in %s, seed %llu\n", blockIdx.x,
                        gridDim.x, threadIdx.x, blockDim.x, launch->kernel->name, launch->source,
                        (unsigned long long)launch->seed);
    if (write(STDERR_FILENO, text, (size_t)size) < 0) return;
}

void fault(Site site, const char* format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (site.file != nullptr) fprintf(stderr, "%s:%d: ", site.file, site.line);
    fprintf(stderr, "%s\n", text);
    write_position();
#ifdef EMULATOR_SANITIZED
    __sanitizer_print_stack_trace();
#endif
    _exit(1);
}

static bool same(Site a, Site b) { return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0); }

static const char* name(Warp kind) {
    switch (kind) {
        case Warp::sync: return "__syncwarp";
        case Warp::shuffle: return "a shuffle";
        case Warp::ballot: return "__ballot_sync";
        case Warp::any: return "__any_sync";
        case Warp::all: return "__all_sync";
        case Warp::match: return "__match_any_sync";
    }
    return "";
}

static std::string place(const Thread& thread) {
    char text[256];
    switch (thread.state) {
        case State::exited: return "has exited";
        case State::ready: return "runs";
        case State::barrier:
            snprintf(text, sizeof text, "waits at the barrier at %s:%d", thread.site.file, thread.site.line);
            return text;
        case State::warp:
            snprintf(text, sizeof text, "waits in %s of lanes %08x at %s:%d", name(thread.warp), thread.mask,
                     thread.site.file, thread.site.line);
            return text;
    }
    return "";
}

[[noreturn]] static void deadlock() {
    fprintf(stderr, "deadlock: no thread can go on\n");
    unsigned shown = 0;
    for (Block* block : live_blocks) {
        for (Thread& thread : block->threads) {
            if (thread.state == State::exited || shown++ >= 8) continue;
            fprintf(stderr, "block %u, thread %u %s\n", block->index, thread.index, place(thread).c_str());
        }
    }
    fault({}, "%u threads wait", shown);
}

static void make_ready(Thread* thread) {
    thread->state = State::ready;
    ready.push_back(thread);
}

static void make_current(Thread* thread) {
    current = thread;
    threadIdx.x = thread->index;
    blockIdx.x = thread->block->index;
}

// Takes the thread that runs next out of `ready`. Null if there is none.
static Thread* pick() {
    if (ready.empty()) return nullptr;
    auto count = (unsigned)ready.size();
    unsigned chosen = choices.below(count);
    // Now and then the others too: a thread that many spin for must not be the last of thousands.
    if (skewed && choices.below(4) != 0) {
        unsigned other = choices.below(count);
        if (ready[other]->block->priority < ready[chosen]->block->priority) chosen = other;
    }
    Thread* thread = ready[chosen];
    ready[chosen] = ready.back();
    ready.pop_back();
    return thread;
}

static void run_threads();

static Fiber* take_fiber() {
    if (!idle_fibers.empty()) {
        Fiber* fiber = idle_fibers.back();
        idle_fibers.pop_back();
        return fiber;
    }
    Fiber* fiber = new_fiber(run_threads);
    if (fiber == nullptr) fault({}, "the emulator has no memory for another stack");
    return fiber;
}

// Lets others run until the current thread, which is in `ready` or waits, is picked.
static void switch_away() {
    settle_write();
    switches = switches + 1;
    Thread* self = current;
    Thread* next = pick();
    if (next == self) return;
    if (next == nullptr) deadlock();
    if (next->fiber == nullptr) next->fiber = take_fiber();
    make_current(next);
    switch_fiber(self->fiber, next->fiber);
}

void progress() { spins = 0; }

static void pass() {
    if (++spins > SPINS_MAX) fault({}, "no progress: threads only look at memory that no thread changes");
    make_ready(current);
    switch_away();
}

static void check(Access kind, const void* address, size_t size, const void* place) {
    if (!launch->finds_races) return;
    settle_write();
    const Block& block = *current->block;
    Actor actor = {block.index,
                   current->index,
                   current->seen,
                   &block.lanes_seen[current->index * WARP],
                   static_cast<const char*>(current->fiber->stack_bottom),
                   current->fiber->stack_size};
    check_access(actor, kind, address, size, place);
}

void step(const void* address, size_t size, bool changes, const void* place) {
    if (choices.below(STEP_PERIOD) == 0) pass();
    check(changes ? Access::atomic_change : Access::atomic_read, address, size, place);
}

void access(Access kind, const void* address, size_t size, const void* place) {
    // Each thread has these variables for itself.
    for (const uint3* own : {&threadIdx, &blockIdx, &blockDim, &gridDim}) {
        if (address == &own->x) return;
    }
    if (choices.below(ACCESS_PERIOD) == 0) pass();
    check(kind, address, size, place);
}

void fence() {
    if (choices.below(STEP_PERIOD) == 0) pass();
    uint64_t time = next_time();
    current->seen = {time, time};
}

void spin() { pass(); }

// What a barrier does for the race detector: every thread has seen what any
// thread of the block has seen.
static void order_block(Block& block) {
    Seen seen = {next_time(), 0};
    for (const Thread& thread : block.threads) seen.of_device = std::max(seen.of_device, thread.seen.of_device);
    for (Thread& thread : block.threads) thread.seen = seen;
}

// The same for `lanes` of a warp, which only know each other.
static void order_lanes(unsigned mask, Thread* lanes) {
    Block& block = *lanes->block;
    if (block.lanes_seen.empty()) return;
    uint64_t time = next_time(), of_lanes[WARP] = {};
    Seen seen = {};
    uint64_t* rows = &block.lanes_seen[lanes->index * WARP];
    for (unsigned lane = 0; lane < WARP; lane++) {
        if ((mask >> lane & 1) == 0) continue;
        seen.of_block = std::max(seen.of_block, lanes[lane].seen.of_block);
        seen.of_device = std::max(seen.of_device, lanes[lane].seen.of_device);
        for (unsigned other = 0; other < WARP; other++) {
            uint64_t known = (mask >> other & 1) != 0 ? time : rows[lane * WARP + other];
            of_lanes[other] = std::max(of_lanes[other], known);
        }
    }
    for (unsigned lane = 0; lane < WARP; lane++) {
        if ((mask >> lane & 1) == 0) continue;
        lanes[lane].seen = seen;
        std::copy(of_lanes, of_lanes + WARP, rows + lane * WARP);
    }
}

void* shared_memory(size_t size, size_t alignment, Site site) {
    Block& block = *current->block;
    if (block.shared == nullptr) {
        if (posix_memalign(&block.shared, alignment < sizeof(void*) ? sizeof(void*) : alignment, size) != 0) {
            fault(site, "the emulator has no memory for shared memory");
        }
        for (size_t at = 0; at < size; at++) static_cast<char*>(block.shared)[at] = (char)choices.next();
        if (launch->finds_races) forget(block.shared, size);
        block.shared_size = size;
        block.shared_site = site;
    } else if (block.shared_size != size || !same(block.shared_site, site)) {
        fault(site, "a second SHARED in one kernel, after the one at %s:%d; hint: put both into one struct",
              block.shared_site.file, block.shared_site.line);
    }
    return block.shared;
}

// A thread that waits in an operation of its warp for `thread`, which will never come to it. Null if there is none.
static Thread* waits_for(const Thread& thread) {
    unsigned waiting = thread.block->lanes_waiting[thread.index / WARP];
    for (unsigned lane = 0; waiting != 0; lane++, waiting >>= 1) {
        if ((waiting & 1) == 0) continue;
        Thread& other = thread.block->threads[thread.index - thread.index % WARP + lane];
        if ((other.mask >> (thread.index % WARP) & 1) != 0) return &other;
    }
    return nullptr;
}

unsigned barrier(Barrier kind, bool predicate, Site site) {
    Thread& self = *current;
    Block& block = *self.block;
    if (block.exited != 0) fault(site, "barrier divergence: %u threads of the block have exited", block.exited);
    if (Thread* other = waits_for(self)) {
        fault(site, "barrier divergence: thread %u %s", other->index, place(*other).c_str());
    }
    if (block.waiting == 0) {
        block.site = site;
        block.barrier = kind;
    } else if (!same(block.site, site) || block.barrier != kind) {
        fault(site, "barrier divergence: %u threads of the block wait at the barrier at %s:%d", block.waiting,
              block.site.file, block.site.line);
    }
    block.waiting++;
    block.holding += predicate;
    if (block.waiting == block.threads.size()) {
        block.counted = block.holding;
        block.waiting = block.holding = 0;
        order_block(block);
        for (Thread& thread : block.threads) make_ready(&thread);
        progress();
    } else {
        self.state = State::barrier;
        self.site = site;
    }
    switch_away();
    // No thread gets to the end of the next barrier before all have left this one.
    return block.counted;
}

// All lanes of `mask` are there: gives each its result.
static void complete(Warp kind, unsigned mask, Thread* lanes) {
    // The others exchange values, and CUDA says that they order nothing else.
    if (kind == Warp::sync) order_lanes(mask, lanes);
    Word results[WARP], all = 0;
    for (unsigned lane = 0; lane < WARP; lane++) {
        if ((mask >> lane & 1) != 0 && lanes[lane].value != 0) all |= 1u << lane;
    }
    for (unsigned lane = 0; lane < WARP; lane++) {
        if ((mask >> lane & 1) == 0) continue;
        unsigned source = lanes[lane].source;
        switch (kind) {
            case Warp::sync: results[lane] = 0; break;
            // CUDA does not say what a lane outside the mask gives.
            case Warp::shuffle: results[lane] = (mask >> source & 1) != 0 ? lanes[source].value : choices.next(); break;
            case Warp::ballot: results[lane] = all; break;
            case Warp::any: results[lane] = all != 0; break;
            case Warp::all: results[lane] = all == mask; break;
            case Warp::match:
                results[lane] = 0;
                for (unsigned other = 0; other < WARP; other++) {
                    bool equal = (mask >> other & 1) != 0 && lanes[other].value == lanes[lane].value;
                    if (equal) results[lane] |= 1u << other;
                }
                break;
        }
    }
    for (unsigned lane = 0; lane < WARP; lane++) {
        if ((mask >> lane & 1) == 0) continue;
        lanes[lane].value = results[lane];
        make_ready(&lanes[lane]);
    }
}

Word warp(Warp kind, unsigned mask, Word value, unsigned source, Site site) {
    Thread& self = *current;
    Block& block = *self.block;
    unsigned own = self.index % WARP;
    size_t first = self.index - own;
    if ((mask >> own & 1) == 0) fault(site, "%s: mask %08x lacks the caller, lane %u", name(kind), mask, own);
    bool all_there = true;
    for (unsigned lane = 0; lane < WARP; lane++) {
        if ((mask >> lane & 1) == 0 || lane == own) continue;
        if (first + lane >= block.threads.size()) {
            fault(site, "%s: mask %08x names lane %u, which the block does not have", name(kind), mask, lane);
        }
        Thread& other = block.threads[first + lane];
        bool waits_here =
            other.state == State::warp && other.warp == kind && other.mask == mask && same(other.site, site);
        if (waits_here) continue;
        all_there = false;
        // A thread that waits in another operation that does not include us may
        // still arrive.
        bool may_come = other.state == State::ready || (other.state == State::warp && (other.mask >> own & 1) == 0);
        if (!may_come) {
            fault(site, "%s: mask %08x names lane %u, which %s", name(kind), mask, lane, place(other).c_str());
        }
    }
    self.warp = kind;
    self.mask = mask;
    self.source = source;
    self.value = value;
    self.site = site;
    if (all_there) {
        complete(kind, mask, &block.threads[first]);
        block.lanes_waiting[self.index / WARP] &= ~mask;
    } else {
        self.state = State::warp;
        block.lanes_waiting[self.index / WARP] |= 1u << own;
    }
    switch_away();
    return self.value;
}

// Starts the next block of the launch.
static void start_block() {
    if (idle_blocks.empty()) idle_blocks.emplace_back(new Block());
    Block* block = idle_blocks.back().release();
    idle_blocks.pop_back();
    std::vector<Thread> threads = std::move(block->threads);
    std::vector<uint64_t> lanes_seen = std::move(block->lanes_seen);
    *block = Block{};
    block->index = blocks_started++;
    block->priority = choices.below(1 << 16);
    threads.assign(launch->threads, Thread{});
    block->threads = std::move(threads);
    lanes_seen.assign(launch->finds_races ? launch->threads * WARP : 0, 0);
    block->lanes_seen = std::move(lanes_seen);
    live_blocks.push_back(block);
    for (unsigned index = 0; index < launch->threads; index++) {
        Thread& thread = block->threads[index];
        thread.block = block;
        thread.index = index;
        make_ready(&thread);
    }
}

static void end_thread() {
    Thread& self = *current;
    Block* block = self.block;
    settle_write();
    progress();
    if (block->waiting != 0) {
        fault(block->site, "barrier divergence: %u threads wait here, and a thread exits", block->waiting);
    }
    if (Thread* other = waits_for(self)) {
        fault(other->site, "thread %u %s, which names a thread that exits", other->index, place(*other).c_str());
    }
    self.state = State::exited;
    self.fiber = nullptr;
    if (++block->exited < block->threads.size()) return;
    free(block->shared);
    for (Block*& live : live_blocks) {
        if (live == block) {
            live = live_blocks.back();
            live_blocks.pop_back();
            break;
        }
    }
    idle_blocks.emplace_back(block);
    if (blocks_started < launch->blocks) start_block();
}

// What every fiber does: one thread after the other, on the same stack as long as the next one has none yet.
static void run_threads() {
    for (;;) {
        Fiber* fiber = current->fiber;
        launch->kernel->call(launch->arguments);
        end_thread();
        switches = switches + 1;
        Thread* next = pick();
        if (next != nullptr && next->fiber == nullptr) {
            next->fiber = fiber;
            make_current(next);
            continue;
        }
        if (next == nullptr && !live_blocks.empty()) deadlock();
        idle_fibers.push_back(fiber);
        if (next != nullptr) make_current(next);
        switch_fiber(fiber, next != nullptr ? next->fiber : first_fiber());
    }
}

static void watch(int) {
    static uint64_t switches_seen;
    static unsigned seconds_silent;
    seconds_silent = switches == switches_seen ? seconds_silent + 1 : 0;
    switches_seen = switches;
    if (launch == nullptr || seconds_silent < SILENT_SECONDS_MAX) return;
    fault({}, "a thread ran for %u s without a barrier or an atomic; hint: spin_wait() in loops that wait",
          SILENT_SECONDS_MAX);
}

static void start_watching() {
    static bool watching;
    if (watching) return;
    watching = true;
    struct sigaction action = {};
    action.sa_handler = watch;
    action.sa_flags = SA_RESTART;
    sigaction(SIGVTALRM, &action, nullptr);
    // Processor time, so that a busy machine does not matter.
    itimerval second = {{1, 0}, {1, 0}};
    setitimer(ITIMER_VIRTUAL, &second, nullptr);
}

void run(const Launch& wanted) {
    start_watching();
    launch = &wanted;
    choices = {wanted.launch_seed};
    skewed = choices.below(2) == 0;
    blocks_started = 0;
    spins = 0;
    forget_all();
    blockDim = {wanted.threads, 1, 1};
    gridDim = {wanted.blocks, 1, 1};
    unsigned at_once = 1 + choices.below(BLOCKS_AT_ONCE_MAX);
    for (unsigned count = 0; count < at_once && count < wanted.blocks; count++) {
        if (count != 0 && (count + 1) * wanted.threads > THREADS_AT_ONCE_MAX) break;
        start_block();
    }
    Thread* first = pick();
    if (first != nullptr) {
        first->fiber = take_fiber();
        make_current(first);
        switch_fiber(first_fiber(), first->fiber);
    }
    launch = nullptr;
}

}  // namespace emulator
