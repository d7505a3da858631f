// device.cuh: the language all kernels are written in, for NVRTC and for the host emulator.
// What NVRTC has built in, kernels/emulator/intrinsics.hpp gives to a host compiler; what neither has is here.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

constexpr u32 WARP_THREADS = 32;
constexpr u32 FULL_WARP = 0xFFFFFFFF;

#ifdef ZIPFDB_EMULATOR
#include "intrinsics.hpp"
#else

// The shared memory of a kernel: one struct, declared once.
#define SHARED(Type, name) __shared__ Type name

// In every loop that waits for another block.
__device__ __forceinline__ void spin_wait() { __nanosleep(32); }

// Memory that blocks hand over to each other: everything before the release is seen after the acquire that reads it.
__device__ __forceinline__ u32 load_acquire(const u32* address) {
    u32 value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ u64 load_acquire(const u64* address) {
    u64 value;
    asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ void store_release(u32* address, u32 value) {
    asm volatile("st.release.gpu.u32 [%0], %1;" : : "l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void store_release(u64* address, u64 value) {
    asm volatile("st.release.gpu.u64 [%0], %1;" : : "l"(address), "l"(value) : "memory");
}

__device__ __forceinline__ u32 load_relaxed(const u32* address) {
    u32 value;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ u64 load_relaxed(const u64* address) {
    u64 value;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ void store_relaxed(u32* address, u32 value) {
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" : : "l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void store_relaxed(u64* address, u64 value) {
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" : : "l"(address), "l"(value) : "memory");
}

#endif
