// lines.cuh: lines through ascending ids, which say where an id can be.
// Work   a few operations
// Exact  lines are f64 whose distances have one added for rounding, and only bound a search
#pragma once
#include "device.cuh"

struct Line {
    double base;
    double inverse;
    double left;
    double right;
};

// The indices that an id can have by a line, of `count`.
__device__ __forceinline__ void safe_range(const Line& line, u32 id, u32 count, u32& first, u32& end) {
    const double near = (double(id) - line.base) * line.inverse;
    // Casts cut fractions off, so one more is behind the end.
    const double low = near - line.left, high = near + line.right + 2.0;
    end = high <= 0.0 ? 0 : high >= double(count) ? count : u32(high);
    first = low <= 0.0 ? 0 : low >= double(end) ? end : u32(low);
}
