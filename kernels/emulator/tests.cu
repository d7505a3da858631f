// tests.cu: kernels that test the emulator, each for one thing that it promises.
// In and out are said at each kernel. What they should give is computed in kernels/src/gpu/emulator/tests.rs.

#include "device.cuh"

constexpr u32 BLOCK_THREADS = 256;

// out[kind][thread] for idx, up, down and xor of values[thread], read from the lane that `operand` says.
template <typename T>
__device__ void shuffles(const T* values, u32 operand, u32 width, T* out) {
    u32 threads = blockDim.x;
    T value = values[threadIdx.x];
    out[0 * threads + threadIdx.x] = __shfl_sync(FULL_WARP, value, (int)operand, (int)width);
    out[1 * threads + threadIdx.x] = __shfl_up_sync(FULL_WARP, value, operand, (int)width);
    out[2 * threads + threadIdx.x] = __shfl_down_sync(FULL_WARP, value, operand, (int)width);
    out[3 * threads + threadIdx.x] = __shfl_xor_sync(FULL_WARP, value, (int)operand, (int)width);
}

extern "C" __global__ void shuffles_u32_kernel(const u32* values, u32 operand, u32 width, u32* out) {
    shuffles(values, operand, width, out);
}

extern "C" __global__ void shuffles_u64_kernel(const u64* values, u32 operand, u32 width, u64* out) {
    shuffles(values, operand, width, out);
}

// Lanes that are in `mask` vote on their own, and so do the others. out[thread]: ballot, any, all, match, active.
extern "C" __global__ void votes_kernel(const u32* values, u32 mask, u32* out) {
    u32 value = values[threadIdx.x], *row = out + 5 * threadIdx.x;
    if (mask >> (threadIdx.x % WARP_THREADS) & 1) {
        row[0] = __ballot_sync(mask, value & 1);
        row[1] = (u32)__any_sync(mask, value & 2);
        row[2] = (u32)__all_sync(mask, value & 4);
        row[3] = __match_any_sync(mask, value);
    } else {
        row[0] = __ballot_sync(~mask, value & 1);
        row[1] = (u32)__any_sync(~mask, value & 2);
        row[2] = (u32)__all_sync(~mask, value & 4);
        row[3] = __match_any_sync(~mask, value);
    }
    row[4] = __activemask();
    __syncwarp();
}

// out[thread][16] of a = values[2 thread], b = values[2 thread + 1].
extern "C" __global__ void bits_kernel(const u64* values, u64* out) {
    u64 a = __ldg(&values[2 * threadIdx.x]), b = values[2 * threadIdx.x + 1], *row = out + 16 * threadIdx.x;
    u32 low = (u32)a, high = (u32)(a >> 32), shift = (u32)b;
    row[0] = (u64)__popc(low);
    row[1] = (u64)__popcll(a);
    row[2] = (u64)__ffs((i32)low);
    row[3] = (u64)__ffsll((i64)a);
    row[4] = (u64)__clz((i32)low);
    row[5] = (u64)__clzll((i64)a);
    row[6] = __brev(low);
    row[7] = __brevll(a);
    row[8] = __umulhi(low, high);
    row[9] = __umul64hi(a, b);
    row[10] = __funnelshift_l(low, high, shift);
    row[11] = __funnelshift_r(low, high, shift);
    row[12] = min(a, b);
    row[13] = max(low, high);
    row[14] = (u64)(i64)min((i32)low, (i32)high);
    row[15] = (u64)max((i64)a, (i64)b);
}

template <typename T>
__device__ void change(T* cells, T value) {
    atomicAdd(&cells[0], value);
    atomicMin(&cells[1], value);
    atomicMax(&cells[2], value);
    atomicAnd(&cells[3], value);
    atomicOr(&cells[4], value);
    atomicXor(&cells[5], value);
    atomicExch(&cells[6], value);
    T seen = load_relaxed(&cells[7]);
    for (;;) {
        T old = atomicCAS(&cells[7], seen, seen + value);
        if (old == seen) break;
        seen = old;
    }
}

struct Cells {
    u32 narrow[8];
    u64 wide[8];
};

// Every thread changes narrow[8] and wide[8] by its value, in shared memory first, then in global memory; signed[3]
// gets sum, smallest and largest.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2)
    atomics_kernel(const u32* values, u32* narrow, u64* wide, i32* extremes, u32* difference) {
    SHARED(Cells, cells);
    if (threadIdx.x < 8) {
        cells.narrow[threadIdx.x] = narrow[threadIdx.x];
        cells.wide[threadIdx.x] = wide[threadIdx.x];
    }
    __syncthreads();
    u32 value = values[threadIdx.x];
    change(cells.narrow, value);
    change(cells.wide, (u64)value << 8);
    atomicAdd(&extremes[0], (i32)value);
    atomicMin(&extremes[1], (i32)value);
    atomicMax(&extremes[2], (i32)value);
    atomicSub(difference, value);
    __syncthreads();
    if (threadIdx.x < 8) {
        narrow[threadIdx.x] = cells.narrow[threadIdx.x];
        wide[threadIdx.x] = cells.wide[threadIdx.x];
    }
}

struct Sums {
    u32 of[BLOCK_THREADS];
};

// sums[i] = values[block start] + ... + values[i], votes[block]: how many are odd, any is 0, all are below 100.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
    block_scan_kernel(const u32* values, u32* sums, u32* votes) {
    SHARED(Sums, shared);
    u32 index = blockIdx.x * blockDim.x + threadIdx.x, value = values[index];
    shared.of[threadIdx.x] = value;
    for (u32 distance = 1; distance < blockDim.x; distance *= 2) {
        __syncthreads();
        u32 before = threadIdx.x >= distance ? shared.of[threadIdx.x - distance] : 0;
        __syncthreads();
        shared.of[threadIdx.x] += before;
    }
    sums[index] = shared.of[threadIdx.x];
    u32 odd = (u32)__syncthreads_count(value & 1);
    u32 any = (u32)__syncthreads_or(value == 0);
    u32 all = (u32)__syncthreads_and(value < 100);
    if (threadIdx.x == 0) {
        votes[3 * blockIdx.x] = odd;
        votes[3 * blockIdx.x + 1] = any != 0;
        votes[3 * blockIdx.x + 2] = all != 0;
    }
}

constexpr u64 IS_SUM = 1ull << 62;
constexpr u64 IS_PREFIX = 2ull << 62;
constexpr u64 FLAGS = 3ull << 62;

struct LookBack {
    u32 tile;
    u64 before;
};

// prefixes[tile] = values[0] + ... + values[tile]: one block a tile, each waits for those before it. `states` and
// `next_tile` are 0 on entry.
extern "C" __global__ void look_back_kernel(const u32* values, u64* states, u32* next_tile, u64* prefixes) {
    SHARED(LookBack, shared);
    if (threadIdx.x == 0) {
        u32 tile = shared.tile = atomicAdd(next_tile, 1u);
        u64 value = values[tile], before = 0;
        store_release(&states[tile], (tile == 0 ? IS_PREFIX : IS_SUM) | value);
        for (u32 other = tile; other > 0;) {
            u64 state = load_acquire(&states[other - 1]);
            if ((state & FLAGS) == 0) {
                spin_wait();
                continue;
            }
            before += state & ~FLAGS;
            if ((state & FLAGS) == IS_PREFIX) break;
            other--;
        }
        store_release(&states[tile], IS_PREFIX | (before + value));
        shared.before = before;
    }
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) prefixes[shared.tile] = shared.before + values[shared.tile];
}

// A deliberate race: the last thread to write decides what is left in `last`.
extern "C" __global__ void racy_kernel(u32* last) { *last = blockIdx.x * blockDim.x + threadIdx.x; }

__device__ __noinline__ u32 element(const u32* array, u64 index) { return array[index]; }

struct Padded {
    u32 values[4];
    u32 end;
};

// One mistake of each kind. `memory` has `size` numbers, and there is one block.
extern "C" __global__ void mistakes_kernel(u32 mistake, u32* memory, u64 size) {
    SHARED(Padded, shared);
    u32 thread = threadIdx.x;
    u32 lane = thread % WARP_THREADS;
    switch (mistake) {
        case 0:  // Writes after the end of global memory.
            if (thread == 5) memory[size] = 1;
            break;
        case 1:  // Reads before its start.
            if (thread == 6) memory[1] = *(memory - 1);
            break;
        case 2:  // Index outside an array inside shared memory.
            shared.values[thread % 5] = 1;
            break;
        case 3: {  // Writes after the end of shared memory.
            u32* start = (u32*)&shared;
            if (thread == 7) start[sizeof(Padded) / 4] = 1;
            break;
        }
        case 4:  // Misaligned access.
            if (thread == 8) *(u64*)(memory + 1) = 1;
            break;
        case 5:  // Signed overflow.
            memory[0] = (u32)((i32)(size + 0x7FFFFFE8) + (i32)thread);
            break;
        case 6:  // A barrier that some threads do not come to.
            if (thread != 9) __syncthreads();
            break;
        case 7:  // Two barriers at once.
            if (thread < 10) {
                __syncthreads();
            } else {
                __syncthreads();
            }
            break;
        case 8:  // A warp operation whose mask lacks the caller.
            __syncwarp(0xFFFFFFFE);
            break;
        case 9:  // ... names a lane that has exited.
            if (lane == 11) return;
            memory[0] = __ballot_sync(FULL_WARP, 1);
            break;
        case 10:  // ... names a lane that waits elsewhere.
            if (lane < 12) {
                memory[0] = __ballot_sync(FULL_WARP, 1);
            } else {
                memory[0] = __ballot_sync(FULL_WARP, 0);
            }
            break;
        case 11:  // ... names a lane that waits at a barrier.
            if (lane == 13) {
                __syncthreads();
            } else {
                __syncwarp();
            }
            break;
        case 12:  // Waits for a write that never happens.
            while (load_acquire(&memory[0]) != 0xFFFFFFFF) spin_wait();
            break;
        case 13:  // Lanes that wait for each other in a circle.
            if (lane == 0) __syncwarp(0b011);
            if (lane == 1) __syncwarp(0b110);
            if (lane == 2) __syncwarp(0b101);
            break;
        case 14: {  // Index outside a local array.
            u32 local[4] = {1, 2, 3, 4};
            memory[0] = element(local, size / 4);
            break;
        }
        case 15:  // Shift by the width.
            memory[0] = 1u << (size + 16);
            break;
        default:
            break;
    }
}

// Two blocks; a thread reads what another one wrote, with or without something that orders the two.
extern "C" __global__ void orders_kernel(u32 order, u32* memory, u32* flag) {
    SHARED(Sums, shared);
    u32 thread = threadIdx.x, other = thread ^ 1;
    shared.of[thread] = thread;
    u32 sum = 0;
    switch (order) {
        case 0:  // Nothing.
            sum = shared.of[other];
            break;
        case 1:
            __syncthreads();
            sum = shared.of[other];
            break;
        case 2:
            __syncwarp();
            sum = shared.of[other];
            break;
        case 3:  // What does not order accesses.
            sum = __shfl_sync(FULL_WARP, thread, 0) + shared.of[other];
            break;
        case 4:  // Another warp, which does not take part.
            __syncwarp();
            sum = shared.of[thread ^ 32];
            break;
        case 5:  // Lane 2 knows of lane 0 through lane 1.
            if (thread < 2) __syncwarp(0b011);
            if (thread == 1 || thread == 2) __syncwarp(0b110);
            if (thread == 2) sum = shared.of[0];
            break;
        case 6:  // A write after a read, with no barrier between them.
            __syncthreads();
            sum = shared.of[other];
            shared.of[thread] = sum;
            break;
        case 7:  // A plain read of what others change.
            __syncthreads();
            atomicAdd(&shared.of[0], 1u);
            sum = shared.of[0];
            break;
        case 8:
            __syncthreads();
            atomicAdd(&shared.of[0], 1u);
            __syncthreads();
            sum = shared.of[0];
            break;
        case 9:  // From one block to the other, without and with an acquire.
        case 10:
            if (thread != 0) break;
            if (blockIdx.x == 0) {
                memory[128] = 7;
                store_release(flag, 1u);
            } else {
                while (load_relaxed(flag) == 0) spin_wait();
                if (order == 10) sum = load_acquire(flag);
                sum += memory[128];
            }
            break;
        case 11:  // The acquire of one thread, passed on by a barrier.
            if (blockIdx.x == 0) {
                memory[128] = 7;
                __syncthreads();
                if (thread == 0) store_release(flag, 1u);
            } else {
                if (thread == 0) {
                    while (load_acquire(flag) == 0) spin_wait();
                }
                __syncthreads();
                sum = memory[128];
            }
            break;
        case 12:  // The same from all, then what differs.
        case 13:
            __syncthreads();
            shared.of[0] = order == 12 ? 5 : thread;
            break;
        default:
            break;
    }
    memory[blockIdx.x * blockDim.x + thread] = sum;
}

// values[i] += add for all i < size, one a thread.
extern "C" __global__ void add_kernel(u32* values, u64 size, u32 add) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index < size) values[index] += add;
}
