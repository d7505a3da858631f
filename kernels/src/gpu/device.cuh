// device.cuh: what NVRTC and the host emulator both understand: types, shared memory, loads that other blocks' stores meet.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

constexpr u32 WARP_THREADS = 32;
constexpr u32 FULL_WARP = 0xffffffffu;

// The number that the machine code of a kernel is made for, if its launch names one, else `value`.
#ifdef MADE_FOR
#define MADE_FOR_OR(value) u32(MADE_FOR)
#else
#define MADE_FOR_OR(value) (value)
#endif

// What NVRTC has built in, kernels/emulator/intrinsics.hpp gives to a host compiler.
#ifdef ZIPFDB_EMULATOR
#include "intrinsics.hpp"
#else

// The shared memory of a kernel: one struct, declared once.
#define SHARED(Type, name) __shared__ Type name

// Between two looks at memory that another block will write.
__device__ __forceinline__ void spin_wait() {
#if __CUDA_ARCH__ >= 700
    __nanosleep(20);
#endif
}

// The same where what is waited for is on its way: every look counts.
__device__ __forceinline__ void poll_wait() {}

// A load that sees what other blocks stored, without an order for other loads.
__device__ __forceinline__ u32 load_relaxed(const u32* from) {
    return *reinterpret_cast<const volatile u32*>(from);
}
__device__ __forceinline__ u64 load_relaxed(const u64* from) {
    return *reinterpret_cast<const volatile u64*>(from);
}
__device__ __forceinline__ void store_relaxed(u32* to, u32 value) {
    *reinterpret_cast<volatile u32*>(to) = value;
}
__device__ __forceinline__ void store_relaxed(u64* to, u64 value) {
    *reinterpret_cast<volatile u64*>(to) = value;
}

// What was stored before `store_release` is seen after a `load_acquire` that gives its value.
__device__ __forceinline__ u32 load_acquire(const u32* from) {
    u32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
__device__ __forceinline__ u64 load_acquire(const u64* from) {
    u64 value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}
__device__ __forceinline__ void store_release(u32* to, u32 value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__device__ __forceinline__ void store_release(u64* to, u64 value) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

#endif

// The index of this thread among all threads of the grid, and their number.
__device__ __forceinline__ u64 grid_thread() { return u64(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 grid_threads() { return u64(gridDim.x) * blockDim.x; }

__device__ __forceinline__ u32 lane_index() { return threadIdx.x % WARP_THREADS; }
__device__ __forceinline__ u32 warp_index() { return threadIdx.x / WARP_THREADS; }

// The lanes before this one.
__device__ __forceinline__ u32 lanes_below() { return (1u << lane_index()) - 1; }

// A load that may see an old value of memory that others change meanwhile: from the nearest cache.
template <typename T>
__device__ __forceinline__ T load_stale(const T* from) {
#ifdef ZIPFDB_EMULATOR
    return load_relaxed(from);
#else
    return *from;
#endif
}
