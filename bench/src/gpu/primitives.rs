//! Part `primitives`: scan, radix sort and the like on one array each.
//!
//! The table has a row for each: milliseconds (median of 9), and the bytes that it must move over that time. `cub.cu`
//! beside this prints the same for CUB's algorithms on the same numbers.

use zipfdb_bench_kernels::segment_sums;
use zipfdb_kernels::gpu::primitives::{expand, scan, sort_keys, sort_pairs, sums_by_key};
use zipfdb_kernels::gpu::{Buffer, Gpu, GpuError};

use crate::Result;
use crate::report::Table;

const RUNS: usize = 9;

/// Times all primitives with `items` items.
pub fn run(gpu: &Gpu, items: u64) -> Result<Table> {
    let mut table = Table::new(format!("{items} items"), ["ms", "GB/s"]);
    let wide: Vec<u64> = (0..items).map(mix).collect();
    let narrow: Vec<u32> = wide.iter().map(|&x| x as u32).collect();
    let small: Vec<u32> = wide.iter().map(|&x| x as u32 & 0xff).collect();
    let mut runs: Vec<u64> = wide.iter().map(|&x| x % (items / 8).max(1)).collect();
    runs.sort_unstable();
    // Segments of 0 to 62 items.
    let mut offsets = vec![0u32];
    let mut end = 0u64;
    for i in 0.. {
        end = (end + mix(i) % 63).min(items);
        offsets.push(end as u32);
        if end == items {
            break;
        }
    }
    let (small, narrow) = (gpu.upload(&small)?, gpu.upload(&narrow)?);
    let (wide, runs, offsets) = (
        gpu.upload(&wide)?,
        gpu.upload(&runs)?,
        gpu.upload(&offsets)?,
    );
    let wide_copy: Buffer<u64> = gpu.allocate(wide.len())?;
    let n = items;
    report(gpu, &mut table, "copy u64", 16 * n, || {
        gpu.copy(&wide_copy, 0, &wide, wide.len())
    })?;
    report(gpu, &mut table, "prefix sums u32 -> u32", 8 * n, || {
        scan::<u32, u32>(gpu, &small).map(drop)
    })?;
    report(gpu, &mut table, "prefix sums u32 -> u64", 12 * n, || {
        scan::<u32, u64>(gpu, &small).map(drop)
    })?;
    report(gpu, &mut table, "prefix sums u64 -> u64", 16 * n, || {
        scan::<u64, u64>(gpu, &runs).map(drop)
    })?;
    let fresh_narrow = || -> std::result::Result<Buffer<u32>, GpuError> {
        let buffer = gpu.allocate(narrow.len())?;
        gpu.copy(&buffer, 0, &narrow, narrow.len())?;
        Ok(buffer)
    };
    let fresh_wide = || -> std::result::Result<Buffer<u64>, GpuError> {
        let buffer = gpu.allocate(wide.len())?;
        gpu.copy(&buffer, 0, &wide, wide.len())?;
        Ok(buffer)
    };
    report_sort(
        gpu,
        &mut table,
        "sort u32",
        (4 + 4 * 8) * n,
        fresh_narrow,
        |keys| sort_keys(gpu, keys, 0..32).map(drop),
    )?;
    report_sort(
        gpu,
        &mut table,
        "sort u32 + u32",
        (4 + 8 * 8) * n,
        fresh_narrow,
        |keys| {
            let values = gpu.allocate::<u32>(keys.len())?;
            sort_pairs(gpu, keys, values, 0..32).map(drop)
        },
    )?;
    let fresh_small = || -> std::result::Result<Buffer<u32>, GpuError> {
        let buffer = gpu.allocate(small.len())?;
        gpu.copy(&buffer, 0, &small, small.len())?;
        Ok(buffer)
    };
    report_sort(
        gpu,
        &mut table,
        "sort u32 below 256",
        (4 + 4 * 8) * n,
        fresh_small,
        |keys| sort_keys(gpu, keys, 0..32).map(drop),
    )?;
    report_sort(
        gpu,
        &mut table,
        "sort u64",
        (8 + 8 * 16) * n,
        fresh_wide,
        |keys| sort_keys(gpu, keys, 0..64).map(drop),
    )?;
    report_sort(
        gpu,
        &mut table,
        "sort u64 + u32",
        (8 + 8 * 24) * n,
        fresh_wide,
        |keys| {
            let values = gpu.allocate::<u32>(keys.len())?;
            sort_pairs(gpu, keys, values, 0..64).map(drop)
        },
    )?;
    report(
        gpu,
        &mut table,
        "count runs u64",
        8 * n + 16 * n / 8,
        || sums_by_key(gpu, &runs, None).map(drop),
    )?;
    report(
        gpu,
        &mut table,
        "sums by key u64",
        16 * n + 16 * n / 8,
        || sums_by_key(gpu, &runs, Some(&runs)).map(drop),
    )?;
    report(
        gpu,
        &mut table,
        "segment sums u64",
        8 * n + 12 * n / 31,
        || segment_sums(gpu, &offsets, &wide).map(drop),
    )?;
    report(gpu, &mut table, "expand u32", 4 * n + 4 * n / 31, || {
        expand(gpu, &offsets, items as usize).map(drop)
    })?;
    Ok(table)
}

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30))
        .wrapping_add(1)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn report(
    gpu: &Gpu,
    table: &mut Table,
    name: &str,
    bytes: u64,
    mut run: impl FnMut() -> std::result::Result<(), GpuError>,
) -> std::result::Result<(), GpuError> {
    report_sort(gpu, table, name, bytes, || Ok(()), |()| run())
}

/// `fresh` makes what a run uses up, and is not timed.
fn report_sort<T>(
    gpu: &Gpu,
    table: &mut Table,
    name: &str,
    bytes: u64,
    mut fresh: impl FnMut() -> std::result::Result<T, GpuError>,
    mut run: impl FnMut(T) -> std::result::Result<(), GpuError>,
) -> std::result::Result<(), GpuError> {
    let mut times = Vec::new();
    for turn in 0..RUNS + 2 {
        let input = fresh()?;
        gpu.synchronize()?;
        let ((), time) = gpu.timed(|| run(input))?;
        if turn >= 2 {
            times.push(time);
        }
    }
    times.sort_unstable();
    let time = times[times.len() / 2] as f64;
    // Bytes a nanosecond are GB/s.
    table.row(name, [time / 1e6, bytes as f64 / time]);
    Ok(())
}
