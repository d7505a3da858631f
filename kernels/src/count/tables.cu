// tables.cu: counters of a few columns as tables of rows without zeros; tables with rows and columns swapped.
// In     cells [rows * columns] u32 by strides; or tables: offsets [rows + 1] u32, entries u64, column << 32 | count
// Out    tables, rows in order, columns of a row in order
// Work   a pass over the cells; swapping is a sort by column
// Map    a thread a cell or entry
// Exact  positions come from scans and stable sorts
#include "primitives.cuh"

constexpr u32 THREADS = TABLE_THREADS;
constexpr u32 WARPS = THREADS / WARP_THREADS;
constexpr u32 TILE = TABLE_TILE;
constexpr u32 ITEMS = TILE / THREADS;

struct CellsShared {
    TileSums<u32, WARPS> sums;
};

// The cells that are not 0: their entries, and where rows begin. A row has some columns; its cells and theirs lie so far apart.
// `offsets` is [rows + 1], of which the last is also how many entries there are.
extern "C" __global__ void __launch_bounds__(THREADS)
cell_entries_kernel(const u32* cells, u64 count, u32 columns, u64 row_stride, u64 column_stride, u64* look_back, u32* ticket,
                    u32* offsets, u64* entries) {
    SHARED(CellsShared, shared);
    const u32 tile = only_tile(ticket, shared.sums);
    // A warp has neighbouring cells, a lane each 32nd.
    const u64 first = u64(tile) * TILE + warp_index() * (ITEMS * WARP_THREADS) + lane_index();
    u32 cell[ITEMS], row[ITEMS], before[ITEMS];
    u32 own = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        // Rows are u32.
        row[i] = u32(at / columns);
        const u64 column = at - u64(row[i]) * columns;
        cell[i] = at < count ? cells[row[i] * row_stride + column * column_stride] : 0;
    }
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 some = __ballot_sync(FULL_WARP, cell[i] > 0);
        before[i] = own + __popc(some & lanes_below());
        own += __popc(some);
    }
    u64 all = 0;
    const u64 place = sum_before_warp(look_back, own, shared.sums, all);
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u64 at = first + i * WARP_THREADS;
        if (at >= count) continue;
        const u64 column = at - u64(row[i]) * columns;
        if (column == 0) offsets[row[i]] = u32(place + before[i]);
        if (cell[i] > 0) entries[place + before[i]] = column << 32 | cell[i];
    }
    if (u64(tile + 1) * TILE >= count && threadIdx.x == 0) offsets[count / columns] = u32(all);
}

// lengths[i] = the entries of row i.
extern "C" __global__ void __launch_bounds__(THREADS)
row_lengths_kernel(const u32* offsets, u64 rows, u32* lengths) {
    for (u64 i = grid_thread(); i < rows; i += grid_threads()) lengths[i] = offsets[i + 1] - offsets[i];
}

// found[i] = the row that has entry i * step.
extern "C" __global__ void __launch_bounds__(THREADS)
rows_of_kernel(const u32* offsets, u32 rows, u32 step, u64 count, u32* found) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) found[i] = u32(owner_of(offsets, 0, rows, u32(i) * step));
}

// keys[i] = column << 32 | row, values[i] = count.
extern "C" __global__ void __launch_bounds__(THREADS)
swap_keys_kernel(const u64* entries, const u32* rows, u64 count, u64* keys, u32* values) {
    for (u64 i = grid_thread(); i < count; i += grid_threads()) {
        keys[i] = (entries[i] >> 32) << 32 | rows[i];
        values[i] = u32(entries[i]);
    }
}

// From sorted keys, row << 32 | column, and counts: offsets [rows + 1] and entries.
extern "C" __global__ void __launch_bounds__(THREADS)
keyed_entries_kernel(const u64* keys, const u32* values, u64 count, u32 rows, u32* offsets, u64* entries) {
    for (u64 i = grid_thread(); i <= count; i += grid_threads()) {
        const u32 from = i == 0 ? 0 : u32(keys[i - 1] >> 32) + 1;
        const u32 to = i == count ? rows : u32(keys[i] >> 32);
        for (u32 row = from; row <= to; row++) offsets[row] = u32(i);
        if (i < count) entries[i] = keys[i] << 32 | values[i];
    }
}
