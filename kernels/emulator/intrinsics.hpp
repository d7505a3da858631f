// intrinsics.hpp: the part of CUDA C++ that kernels use, for a host compiler.
// Each function is what the CUDA programming guide says of it, with checks where the guide says "undefined". The
// last parameters of those that wait are the place of the call; no kernel gives them. What is not here, kernels may
// not use.
#pragma once

#include "runtime.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

#define SHARED(Type, name)                                                                            \
    static_assert(sizeof(Type) <= 48 << 10, "a block has 48 KiB of static shared memory");            \
    Type& name = *static_cast<Type*>(emulator::shared_memory(sizeof(Type), alignof(Type), {__FILE__, __LINE__}))

#define ZIPFDB_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

constexpr int warpSize = emulator::WARP;

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};

inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

// Barriers of a block.

inline void __syncthreads(ZIPFDB_SITE) { emulator::barrier(emulator::Barrier::plain, false, {file, line}); }

inline int __syncthreads_count(int predicate, ZIPFDB_SITE) {
    return (int)emulator::barrier(emulator::Barrier::count, predicate != 0, {file, line});
}

inline int __syncthreads_or(int predicate, ZIPFDB_SITE) {
    return emulator::barrier(emulator::Barrier::any, predicate != 0, {file, line}) != 0;
}

inline int __syncthreads_and(int predicate, ZIPFDB_SITE) {
    return emulator::barrier(emulator::Barrier::all, predicate != 0, {file, line}) == blockDim.x;
}

// Warps.

namespace emulator {

inline unsigned lane() { return threadIdx.x % WARP; }

template <typename T>
Word to_word(T value) {
    static_assert(__is_trivially_copyable(T) && (sizeof(T) == 4 || sizeof(T) == 8), "warps exchange 4 or 8 bytes");
    Word word = 0;
    __builtin_memcpy(&word, &value, sizeof(T));
    return word;
}

template <typename T>
T shuffle(unsigned mask, T value, unsigned source, Site site) {
    Word word = warp(Warp::shuffle, mask, to_word(value), source, site);
    T result;
    __builtin_memcpy(&result, &word, sizeof(T));
    return result;
}

inline unsigned group_start(int width, Site site) {
    if (width <= 0 || width > (int)WARP || (width & (width - 1)) != 0) {
        fault(site, "the width of a shuffle is a power of two up to 32, not %d", width);
    }
    return lane() & ~((unsigned)width - 1);
}

}  // namespace emulator

inline void __syncwarp(unsigned mask = 0xFFFFFFFF, ZIPFDB_SITE) {
    emulator::warp(emulator::Warp::sync, mask, 0, 0, {file, line});
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, ZIPFDB_SITE) {
    unsigned start = emulator::group_start(width, {file, line});
    return emulator::shuffle(mask, value, start + ((unsigned)source & ((unsigned)width - 1)), {file, line});
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, ZIPFDB_SITE) {
    unsigned start = emulator::group_start(width, {file, line}), lane = emulator::lane();
    return emulator::shuffle(mask, value, lane - start >= delta ? lane - delta : lane, {file, line});
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, ZIPFDB_SITE) {
    unsigned start = emulator::group_start(width, {file, line}), lane = emulator::lane();
    unsigned after = (unsigned)width - 1 - (lane - start);
    return emulator::shuffle(mask, value, after >= delta ? lane + delta : lane, {file, line});
}

// A lane may read from a group before its own, not from one after it.
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize, ZIPFDB_SITE) {
    unsigned start = emulator::group_start(width, {file, line}), lane = emulator::lane();
    unsigned source = lane ^ (unsigned)lanes;
    return emulator::shuffle(mask, value, source < start + (unsigned)width ? source : lane, {file, line});
}

inline unsigned __ballot_sync(unsigned mask, int predicate, ZIPFDB_SITE) {
    return (unsigned)emulator::warp(emulator::Warp::ballot, mask, predicate != 0, 0, {file, line});
}

inline int __any_sync(unsigned mask, int predicate, ZIPFDB_SITE) {
    return (int)emulator::warp(emulator::Warp::any, mask, predicate != 0, 0, {file, line});
}

inline int __all_sync(unsigned mask, int predicate, ZIPFDB_SITE) {
    return (int)emulator::warp(emulator::Warp::all, mask, predicate != 0, 0, {file, line});
}

template <typename T>
unsigned __match_any_sync(unsigned mask, T value, ZIPFDB_SITE) {
    return (unsigned)emulator::warp(emulator::Warp::match, mask, emulator::to_word(value), 0, {file, line});
}

// CUDA promises no more than that the caller is in it.
inline unsigned __activemask() { return 1u << emulator::lane(); }

// Bits and integers.

inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline int __ffsll(long long value) { return __builtin_ffsll(value); }
inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz((unsigned)value); }
inline int __clzll(long long value) { return value == 0 ? 64 : __builtin_clzll((unsigned long long)value); }

inline unsigned __brev(unsigned value) {
    unsigned result = 0;
    for (int bit = 0; bit < 32; bit++) result |= ((value >> bit) & 1) << (31 - bit);
    return result;
}

inline unsigned long long __brevll(unsigned long long value) {
    return ((unsigned long long)__brev((unsigned)value) << 32) | __brev((unsigned)(value >> 32));
}

inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}

inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((((unsigned long long)high << 32) | low) << (shift & 31)) >> 32);
}

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long long)high << 32) | low) >> (shift & 31));
}

template <typename T>
T __ldg(const T* address) {
    return *address;
}

// The overloads of CUDA, so that what is ambiguous there is so here.
#define ZIPFDB_MIN_MAX(Result, A, B)                                                            \
    inline Result min(A a, B b) { return (Result)a < (Result)b ? (Result)a : (Result)b; }       \
    inline Result max(A a, B b) { return (Result)a > (Result)b ? (Result)a : (Result)b; }
ZIPFDB_MIN_MAX(int, int, int)
ZIPFDB_MIN_MAX(unsigned, unsigned, unsigned)
ZIPFDB_MIN_MAX(unsigned, int, unsigned)
ZIPFDB_MIN_MAX(unsigned, unsigned, int)
ZIPFDB_MIN_MAX(long, long, long)
ZIPFDB_MIN_MAX(unsigned long, unsigned long, unsigned long)
ZIPFDB_MIN_MAX(unsigned long, long, unsigned long)
ZIPFDB_MIN_MAX(unsigned long, unsigned long, long)
ZIPFDB_MIN_MAX(long long, long long, long long)
ZIPFDB_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
ZIPFDB_MIN_MAX(unsigned long long, long long, unsigned long long)
ZIPFDB_MIN_MAX(unsigned long long, unsigned long long, long long)
#undef ZIPFDB_MIN_MAX

// Memory that threads share. Each access is indivisible because nothing else runs meanwhile.

// ThreadSanitizer does not instrument these accesses, whatever flags the code around them is compiled
// with.
#define ZIPFDB_ATOMIC_ACCESS __attribute__((no_sanitize("thread"))) inline
#define ZIPFDB_STEP(changes) emulator::step(address, sizeof *address, changes, __builtin_return_address(0))

namespace emulator {

template <typename T>
ZIPFDB_ATOMIC_ACCESS T exchange(T* address, T old, T value) {
    *address = value;
    if (value != old) progress();
    return old;
}

}  // namespace emulator

#define ZIPFDB_ATOMIC(name, T, Operand, result)             \
    ZIPFDB_ATOMIC_ACCESS T name(T* address, Operand value) { \
        ZIPFDB_STEP(true);                                  \
        T old = *address;                                   \
        return emulator::exchange<T>(address, old, result); \
    }
#define ZIPFDB_ATOMICS(T, Bits)                                        \
    ZIPFDB_ATOMIC(atomicAdd, T, T, (T)((Bits)old + (Bits)value))       \
    ZIPFDB_ATOMIC(atomicExch, T, T, value)                             \
    ZIPFDB_ATOMIC(atomicMin, T, T, value < old ? value : old)          \
    ZIPFDB_ATOMIC(atomicMax, T, T, value > old ? value : old)          \
    ZIPFDB_ATOMIC(atomicAnd, T, T, old & value)                        \
    ZIPFDB_ATOMIC(atomicOr, T, T, old | value)                         \
    ZIPFDB_ATOMIC(atomicXor, T, T, old ^ value)                        \
    ZIPFDB_ATOMIC_ACCESS T atomicCAS(T* address, T expected, T value) { \
        ZIPFDB_STEP(true);                                             \
        T old = *address;                                              \
        return old == expected ? emulator::exchange<T>(address, old, value) : old; \
    }
ZIPFDB_ATOMICS(int, unsigned)
ZIPFDB_ATOMICS(unsigned, unsigned)
ZIPFDB_ATOMICS(unsigned long long, unsigned long long)
ZIPFDB_ATOMIC(atomicSub, int, int, (int)((unsigned)old - (unsigned)value))
ZIPFDB_ATOMIC(atomicSub, unsigned, unsigned, old - value)
#undef ZIPFDB_ATOMICS
#undef ZIPFDB_ATOMIC

#define ZIPFDB_SHARED_WORD(T)                                        \
    ZIPFDB_ATOMIC_ACCESS T load_relaxed(const T* address) {          \
        ZIPFDB_STEP(false);                                          \
        return *address;                                             \
    }                                                                \
    ZIPFDB_ATOMIC_ACCESS T load_acquire(const T* address) {          \
        ZIPFDB_STEP(false);                                          \
        T value = *address;                                          \
        emulator::fence();                                           \
        return value;                                                \
    }                                                                \
    ZIPFDB_ATOMIC_ACCESS void store_relaxed(T* address, T value) {   \
        ZIPFDB_STEP(true);                                           \
        emulator::exchange<T>(address, *address, value);             \
    }                                                                \
    ZIPFDB_ATOMIC_ACCESS void store_release(T* address, T value) {   \
        ZIPFDB_STEP(true);                                           \
        emulator::exchange<T>(address, *address, value);             \
    }
ZIPFDB_SHARED_WORD(unsigned)
ZIPFDB_SHARED_WORD(unsigned long long)
#undef ZIPFDB_SHARED_WORD
#undef ZIPFDB_STEP
#undef ZIPFDB_ATOMIC_ACCESS

inline void __threadfence() { emulator::fence(); }
inline void __threadfence_block() { emulator::fence(); }
inline void __nanosleep(unsigned) { emulator::spin(); }
inline void spin_wait() { emulator::spin(); }
inline void poll_wait() { emulator::spin(); }
