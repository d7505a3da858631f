// main.cpp: a device as a process. Requests come on standard input, answers go to standard output.
// Numbers are in the byte order of the machine. A request is one letter and its fields; an answer is a byte 0 and what
// was asked for, or a byte 1 and a message. A mistake of a kernel is no answer: the process ends, and standard error
// says why. kernels/src/gpu/emulator.rs is the other side.

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "schedule.hpp"

// Alignment of device memory.
constexpr size_t ALIGNMENT = 256;

#ifdef EMULATOR_SANITIZED
// Fibers have no fake stacks; the process that requested the memory owns what is left.
extern "C" const char* __asan_default_options() {
    return "detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=0:allocator_may_return_null=1:"
           "detect_odr_violation=0:quarantine_size_mb=64:handle_abort=0:print_legend=0";
}

extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1:abort_on_error=1:halt_on_error=1"; }
#endif

namespace {

struct Library {
    std::string source;
    const emulator::Kernel* kernels;
    bool finds_races;
};

struct Device {
    uint64_t seed = 0;
    uint64_t launches = 0;
    emulator::Random random = {0};
    std::map<uint64_t, size_t> allocations;
    std::vector<Library> libraries;
};

Device device;
// Standard output is not where a kernel could write.
int answers = -1;
std::string answer;

void read_exactly(void* target, size_t size) {
    auto at = static_cast<char*>(target);
    while (size != 0) {
        ssize_t count = read(STDIN_FILENO, at, size);
        if (count < 0 && errno == EINTR) continue;
        // The requesting process has ended.
        if (count <= 0) _exit(0);
        at += count;
        size -= (size_t)count;
    }
}

void write_exactly(const void* source, size_t size) {
    auto at = static_cast<const char*>(source);
    while (size != 0) {
        ssize_t count = write(answers, at, size);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) _exit(0);
        at += count;
        size -= (size_t)count;
    }
}

uint64_t read_number() {
    uint64_t value;
    read_exactly(&value, sizeof value);
    return value;
}

std::string read_text() {
    std::string text(read_number(), '\0');
    read_exactly(text.data(), text.size());
    return text;
}

void done(const void* payload = nullptr, size_t size = 0) {
    answer.assign(1, '\0');
    if (size != 0) answer.append(static_cast<const char*>(payload), size);
    write_exactly(answer.data(), answer.size());
}

void refuse(const std::string& message) {
    uint64_t size = message.size();
    answer.assign(1, '\1');
    answer.append(reinterpret_cast<const char*>(&size), sizeof size);
    answer += message;
    write_exactly(answer.data(), answer.size());
}

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

void reset() {
    device.seed = read_number();
    device.launches = 0;
    device.random = {device.seed};
    for (auto& [address, size] : device.allocations) free(pointer(address));
    device.allocations.clear();
    done();
}

void allocate() {
    size_t size = read_number();
    void* memory = nullptr;
    if (posix_memalign(&memory, ALIGNMENT, size) != 0 || memory == nullptr) {
        return refuse("no memory for " + std::to_string(size) + " bytes");
    }
    // Memory that was never written reads as other garbage under every seed.
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t garbage = device.random.next();
        memcpy(static_cast<char*>(memory) + at, &garbage, size - at < sizeof garbage ? size - at : sizeof garbage);
    }
    auto address = reinterpret_cast<uint64_t>(memory);
    device.allocations[address] = size;
    done(&address, sizeof address);
}

void release() {
    uint64_t address = read_number();
    if (device.allocations.erase(address) == 0) return refuse("free of memory that is not allocated");
    free(pointer(address));
    done();
}

void upload() {
    uint64_t to = read_number(), size = read_number();
    // In pieces: reading a pipe into bad memory would be an error of the system call, not of the sanitizer.
    static char piece[1 << 16];
    while (size != 0) {
        size_t count = size < sizeof piece ? size : sizeof piece;
        read_exactly(piece, count);
        memcpy(pointer(to), piece, count);
        to += count;
        size -= count;
    }
    done();
}

void download() {
    uint64_t from = read_number(), size = read_number();
    std::string copy(size, '\0');
    memcpy(copy.data(), pointer(from), size);
    done();
    write_exactly(copy.data(), size);
}

void copy() {
    uint64_t to = read_number(), from = read_number(), size = read_number();
    memmove(pointer(to), pointer(from), size);
    done();
}

void fill() {
    uint64_t to = read_number(), byte = read_number(), size = read_number();
    memset(pointer(to), (int)byte, size);
    done();
}

void load() {
    std::string source = read_text(), path = read_text();
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return refuse(dlerror());
    auto kernels = static_cast<const emulator::Kernel*>(dlsym(library, "zipfdb_kernels"));
    if (kernels == nullptr) return refuse(dlerror());
    bool finds_races = dlsym(library, "zipfdb_finds_races") != nullptr;
    device.libraries.push_back({source, kernels, finds_races});
    uint64_t index = device.libraries.size() - 1;
    done(&index, sizeof index);
}

void launch() {
    const Library& library = device.libraries.at(read_number());
    std::string name = read_text();
    uint64_t blocks = read_number(), threads = read_number();
    std::vector<uint64_t> sizes(read_number());
    std::vector<emulator::Word> arguments(sizes.size());
    // Arguments that are wider than a word.
    std::vector<std::vector<emulator::Word>> structs(sizes.size());
    for (size_t index = 0; index < sizes.size(); index++) {
        sizes[index] = read_number();
        if (sizes[index] <= sizeof(emulator::Word)) {
            arguments[index] = read_number();
            continue;
        }
        structs[index].resize((sizes[index] + sizeof(emulator::Word) - 1) / sizeof(emulator::Word));
        read_exactly(structs[index].data(), sizes[index]);
        arguments[index] = reinterpret_cast<emulator::Word>(structs[index].data());
    }
    const emulator::Kernel* kernel = library.kernels;
    while (kernel->name != nullptr && name != kernel->name) kernel++;
    std::string subject = name + " in " + library.source;
    if (kernel->name == nullptr) return refuse("no kernel " + subject);
    if (sizes.size() != kernel->parameters) {
        return refuse(subject + " has " + std::to_string(kernel->parameters) + " parameters, and " +
                      std::to_string(sizes.size()) + " arguments are given");
    }
    for (size_t index = 0; index < sizes.size(); index++) {
        if (sizes[index] == kernel->parameter_sizes[index]) continue;
        return refuse("parameter " + std::to_string(index) + " of " + subject + " has " +
                      std::to_string(kernel->parameter_sizes[index]) + " bytes, and its argument " +
                      std::to_string(sizes[index]));
    }
    unsigned threads_max = std::min(kernel->threads_max, emulator::BLOCK_THREADS_MAX);
    if (blocks == 0 || blocks > 0x7FFFFFFF || threads == 0 || threads > threads_max) {
        return refuse(subject + " cannot be launched with " + std::to_string(blocks) + " blocks of " +
                      std::to_string(threads) + " threads, but with up to " + std::to_string(threads_max));
    }
    uint64_t launch_seed = emulator::Random{emulator::Random{device.seed}.next() + device.launches++}.next();
    emulator::run({kernel, library.source.c_str(), (unsigned)blocks, (unsigned)threads, arguments.data(), device.seed,
                   launch_seed, library.finds_races});
    done();
}

// Sanitizers abort when they have reported.
void on_abort(int) {
    emulator::write_position();
    _exit(1);
}

}  // namespace

int main() {
    answers = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    signal(SIGABRT, on_abort);
#ifndef EMULATOR_SANITIZED
    // The stack of the signal handler, since the own one may have overflowed.
    static char signal_stack[1 << 16];
    stack_t stack = {};
    stack.ss_sp = signal_stack;
    stack.ss_size = sizeof signal_stack;
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_handler = on_abort;
    action.sa_flags = SA_ONSTACK;
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(number, &action, nullptr);
#endif
    for (;;) {
        char request;
        read_exactly(&request, 1);
        switch (request) {
            case 'R': reset(); break;
            case 'A': allocate(); break;
            case 'F': release(); break;
            case 'U': upload(); break;
            case 'D': download(); break;
            case 'C': copy(); break;
            case 'S': fill(); break;
            case 'O': load(); break;
            case 'L': launch(); break;
            default: fprintf(stderr, "unknown request %d\n", request); _exit(1);
        }
    }
}
