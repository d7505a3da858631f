// levels.cuh: a walk over the levels of a grammar in one launch.
// A walk is a list of steps, each a range of items; an item may need what all steps before gave. Steps are put into
// phases: one large step, which many blocks share tile by tile, or small ones that a single block does one after the
// other. Blocks take pieces (tiles, or a phase of small steps) in ascending order, so that a block that waits for earlier
// pieces waits for blocks that have begun.
// Work   a piece costs two atomics, a phase about one trip of a flag between multiprocessors, instead of a launch
// Exact  which block does which piece is all that depends on order
#pragma once
#include "primitives.cuh"

// Phases that a block remembers where they begin.
constexpr u32 WALK_PHASES_KEPT = 64;

// As `Walk` of levels.rs.
struct Walk {
    // [phases + 1]: the first piece of each.
    const u32* first_pieces;
    // [phases + 1]: the first step of each.
    const u32* first_steps;
    // [steps * 3]: first item, end, and items of a tile of each.
    const u32* ranges;
    u32 phases;
    // The next piece, and how many are done.
    u32* state;
};

struct WalkShared {
    u32 first_pieces[WALK_PHASES_KEPT];
    u32 piece;
};

// What a block is at.
struct Place {
    u32 phase;
    // Among all pieces.
    u32 piece;
    // The first piece of the phase.
    u32 first_piece;
    // Steps of the phase.
    u32 step;
    u32 step_end;
};

__device__ __forceinline__ u32 walk_first_piece(const Walk& walk, const WalkShared& shared, u32 phase) {
    return phase < WALK_PHASES_KEPT ? shared.first_pieces[phase] : walk.first_pieces[phase];
}

// For a block, once.
__device__ __forceinline__ Place walk_begin(const Walk& walk, WalkShared& shared) {
    for (u32 i = threadIdx.x; i < min(WALK_PHASES_KEPT, walk.phases + 1); i += blockDim.x) {
        shared.first_pieces[i] = walk.first_pieces[i];
    }
    __syncthreads();
    return Place{0, 0, 0, 0, 0};
}

// For a block: goes to its next piece; false when there is none.
__device__ __forceinline__ bool walk_next(const Walk& walk, WalkShared& shared, Place& place) {
    place.piece = next_tile(&walk.state[0], shared.piece);
    if (place.piece >= walk.first_pieces[walk.phases]) return false;
    while (place.piece >= walk_first_piece(walk, shared, place.phase + 1)) place.phase++;
    place.first_piece = walk_first_piece(walk, shared, place.phase);
    place.step = walk.first_steps[place.phase];
    place.step_end = walk.first_steps[place.phase + 1];
    return true;
}

// The items of a step of this piece.
__device__ __forceinline__ void walk_items(const Walk& walk, const Place& place, u32 step, u32& first, u32& end) {
    first = walk.ranges[step * 3];
    end = walk.ranges[step * 3 + 1];
    if (place.step_end - place.step == 1) {
        const u32 tile = walk.ranges[step * 3 + 2];
        first += (place.piece - place.first_piece) * tile;
        end = min(end, first + tile);
    }
}

// For a block: waits until all phases before this piece's are done. Pieces are only counted, so that every piece has to
// wait before it is done, even if it has nothing to do; except for the first phase.
__device__ __forceinline__ void walk_wait(const Walk& walk, const Place& place) {
    if (threadIdx.x == 0) {
        while (load_acquire(&walk.state[1]) < place.first_piece) spin_wait();
    }
    __syncthreads();
}

// For a block: what it stored for `pieces` pieces may be used.
__device__ __forceinline__ void walk_done(const Walk& walk, u32 pieces) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&walk.state[1], pieces);
    }
}
