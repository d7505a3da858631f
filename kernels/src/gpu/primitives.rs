//! Scan, radix sort, sums by key and load-balanced expand.
//!
//! The invariant: a result is what the same words on slices say, whatever the
//! order of blocks. Wrappers take their memory from the pool and do not wait
//! for the device, except where a length is the result.

use std::ops::Range;

use bytemuck::Pod;

use super::device::{Buffer, Gpu, arguments};
use super::driver::{Argument, Launch, Source, THREADS};
use super::error::GpuError;

/// Items that a block takes at a time.
const TILE: usize = 4096;

/// Vectors of 16 bytes of a thread that scans, by size of items.
const SCAN_ROWS: usize = 8;
const SCAN_U64_ROWS: usize = 12;

/// Threads of a block that sorts, and items of each, by size of keys.
const SORT_U32_THREADS: usize = 512;
const SORT_U32_ITEMS: usize = 16;
const SORT_U64_THREADS: usize = 384;
const SORT_U64_ITEMS: usize = 15;

/// Blocks that sort on a multiprocessor.
const SORT_BLOCKS: usize = 2;

/// Items of a thread that sorts few items, while all tiles are resident: small tiles keep more
/// multiprocessors busy.
const SORT_FEW_ITEMS: usize = 4;

/// Bits of a digit of radix sort, and its values.
const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Vectors of keys that a thread has under way when digits are counted.
const VECTORS: usize = 4;

/// Room for the counters of a sort, so that what follows is aligned.
const COUNTERS: usize = 32;

/// Items that [`sort_keys`] and [`sort_pairs`] take at most.
pub const SORT_MAX: usize = (1 << 30) - 1;

pub(crate) static SOURCE: Source = Source {
    name: "primitives.cu",
    text: include_str!("primitives.cu"),
    headers: &[],
    constants: &[
        ("PRIMITIVE_THREADS", THREADS as u64),
        ("PRIMITIVE_TILE", TILE as u64),
        ("SCAN_ROWS", SCAN_ROWS as u64),
        ("SCAN_BLOCKS", 4),
        ("SCAN_U64_ROWS", SCAN_U64_ROWS as u64),
        ("SCAN_U64_BLOCKS", 3),
        ("SORT_U32_THREADS", SORT_U32_THREADS as u64),
        ("SORT_U32_ITEMS", SORT_U32_ITEMS as u64),
        ("SORT_U64_THREADS", SORT_U64_THREADS as u64),
        ("SORT_U64_ITEMS", SORT_U64_ITEMS as u64),
        ("SORT_BLOCKS", SORT_BLOCKS as u64),
        ("SORT_FEW_ITEMS", SORT_FEW_ITEMS as u64),
        ("SORT_LOOKS", 4),
    ],
};

/// What a look-back over `tiles` tiles of `words` words needs: words and a ticket, all 0.
///
/// The ticket lies behind the words, so that one fill makes both.
pub(crate) struct LookBack<W> {
    words: Buffer<W>,
    tickets: usize,
}

impl<W: Pod> LookBack<W> {
    pub(crate) fn new(gpu: &Gpu, words: usize) -> Result<LookBack<W>, GpuError> {
        // One more word holds the ticket, a u32.
        let buffer = gpu.zeroed(words + 1)?;
        Ok(LookBack {
            words: buffer,
            tickets: words,
        })
    }

    pub(crate) fn words(&self) -> Argument<'_> {
        self.words.at(0)
    }

    pub(crate) fn ticket(&self) -> Argument<'_> {
        self.words.at(self.tickets)
    }
}

fn tiles(items: usize) -> u32 {
    u32::try_from(items.div_ceil(TILE)).expect("device memory holds fewer than 2^44 items")
}

/// Which numbers a scan reads.
pub trait Scanned<Sum>: Pod {
    /// The kernel.
    #[doc(hidden)]
    const KERNEL: &'static str;
    /// Items that a block takes.
    #[doc(hidden)]
    const TILE: usize;
}

/// Bytes of a vector.
const VECTOR: usize = 16;

impl Scanned<u32> for u32 {
    #[doc(hidden)]
    const KERNEL: &'static str = "scan_u32_u32_kernel";
    #[doc(hidden)]
    const TILE: usize = SCAN_ROWS * THREADS as usize * VECTOR / size_of::<u32>();
}

impl Scanned<u64> for u32 {
    #[doc(hidden)]
    const KERNEL: &'static str = "scan_u32_u64_kernel";
    #[doc(hidden)]
    const TILE: usize = TILE;
}

impl Scanned<u64> for u64 {
    #[doc(hidden)]
    const KERNEL: &'static str = "scan_u64_u64_kernel";
    #[doc(hidden)]
    const TILE: usize = SCAN_U64_ROWS * THREADS as usize * VECTOR / size_of::<u64>();
}

/// `[items + 1]`: the sum of the items before each, and of all. Sums stay below 2^62 and fit into `Sum`.
///
/// # Errors
///
/// [`GpuError`].
pub fn scan<Item: Scanned<Sum>, Sum: Pod>(
    gpu: &Gpu,
    items: &Buffer<Item>,
) -> Result<Buffer<Sum>, GpuError> {
    let sums = gpu.allocate(items.len() + 1)?;
    scan_to(gpu, items, &sums)?;
    Ok(sums)
}

/// As [`scan`], into a buffer with one item more.
pub(crate) fn scan_to<Item: Scanned<Sum>, Sum: Pod>(
    gpu: &Gpu,
    items: &Buffer<Item>,
    sums: &Buffer<Sum>,
) -> Result<(), GpuError> {
    assert!(sums.len() == items.len() + 1, "no room for the sum of all");
    let launch = Launch::tiles(sums.len(), Item::TILE);
    let look_back = LookBack::<u64>::new(gpu, launch.blocks as usize)?;
    let bytes = items.len() * size_of::<Item>() + sums.len() * size_of::<Sum>();
    gpu.launch(
        SOURCE.kernel(Item::KERNEL).moving(bytes),
        launch,
        arguments! {
            in: items,
            out: sums,
            count: items.len(),
            words: look_back.words(),
            ticket: look_back.ticket(),
        },
    )
}

/// What radix sort orders by.
pub trait Key: Pod {
    /// The kernel that counts digits.
    const OFFSETS: &'static str;
    /// The kernels that sort by one digit, many items and few.
    const SORT: [&'static str; 2];
    /// Threads of a block that sorts.
    #[doc(hidden)]
    const THREADS: usize;
    /// Items of each.
    #[doc(hidden)]
    const ITEMS: usize;
}

impl Key for u32 {
    const OFFSETS: &'static str = "digit_offsets_u32_kernel";
    const SORT: [&'static str; 2] = ["sort_digit_u32_kernel", "sort_few_u32_kernel"];
    const THREADS: usize = SORT_U32_THREADS;
    const ITEMS: usize = SORT_U32_ITEMS;
}

impl Key for u64 {
    const OFFSETS: &'static str = "digit_offsets_u64_kernel";
    const SORT: [&'static str; 2] = ["sort_digit_u64_kernel", "sort_few_u64_kernel"];
    const THREADS: usize = SORT_U64_THREADS;
    const ITEMS: usize = SORT_U64_ITEMS;
}

/// What radix sort moves with its keys.
pub trait Carried<K: Key>: Pod {
    /// The kernels that sort by one digit, many items and few.
    const SORT: [&'static str; 2];
}

impl Carried<u32> for u32 {
    const SORT: [&'static str; 2] = ["sort_digit_u32_u32_kernel", "sort_few_u32_u32_kernel"];
}

impl Carried<u64> for u32 {
    const SORT: [&'static str; 2] = ["sort_digit_u64_u32_kernel", "sort_few_u64_u32_kernel"];
}

impl Carried<u64> for u64 {
    const SORT: [&'static str; 2] = ["sort_digit_u64_u64_kernel", "sort_few_u64_u64_kernel"];
}

/// Sorts by the bits `bits` of the keys, of which others do not matter; stable.
///
/// Work: one pass over the keys, and one over everything for each 8 bits.
///
/// # Errors
///
/// [`GpuError`].
pub fn sort_keys<K: Key>(
    gpu: &Gpu,
    keys: Buffer<K>,
    bits: Range<u32>,
) -> Result<Buffer<K>, GpuError> {
    let (keys, _) = sort::<K, u8>(gpu, Given::Owned(keys), None, bits, K::SORT)?;
    Ok(keys)
}

/// As [`sort_keys`], and moves `values` as the keys.
///
/// # Errors
///
/// [`GpuError`].
pub fn sort_pairs<K: Key, V: Carried<K>>(
    gpu: &Gpu,
    keys: Buffer<K>,
    values: Buffer<V>,
    bits: Range<u32>,
) -> Result<(Buffer<K>, Buffer<V>), GpuError> {
    assert!(values.len() == keys.len(), "one value for each key");
    let (keys, values) = (Given::Owned(keys), Some(Given::Owned(values)));
    let (keys, values) = sort(gpu, keys, values, bits, V::SORT)?;
    Ok((keys, values.expect("values were given")))
}

/// What a sort reads first: its own to write to later, or not.
enum Given<'a, T> {
    Owned(Buffer<T>),
    Lent(&'a Buffer<T>),
}

impl<T> std::ops::Deref for Given<'_, T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        match self {
            Given::Owned(buffer) => buffer,
            Given::Lent(buffer) => buffer,
        }
    }
}

impl<T: Pod> Given<'_, T> {
    /// The buffer itself, or a copy.
    fn into_owned(self, gpu: &Gpu) -> Result<Buffer<T>, GpuError> {
        match self {
            Given::Owned(buffer) => Ok(buffer),
            Given::Lent(buffer) => {
                let copy = gpu.allocate::<T>(buffer.len())?;
                gpu.copy(&copy, 0, buffer, buffer.len())?;
                Ok(copy)
            }
        }
    }

    /// Puts what was written in its place, and gives what can be written next.
    fn replace(&mut self, gpu: &Gpu, written: Buffer<T>) -> Result<Buffer<T>, GpuError> {
        let len = written.len();
        match std::mem::replace(self, Given::Owned(written)) {
            Given::Owned(buffer) => Ok(buffer),
            Given::Lent(_) => gpu.allocate(len),
        }
    }
}

/// As [`sort_pairs`], and leaves keys and values as they were.
///
/// # Errors
///
/// [`GpuError`].
pub(crate) fn sorted_pairs<K: Key, V: Carried<K>>(
    gpu: &Gpu,
    keys: &Buffer<K>,
    values: &Buffer<V>,
    bits: Range<u32>,
) -> Result<(Buffer<K>, Buffer<V>), GpuError> {
    assert!(values.len() == keys.len(), "one value for each key");
    let (keys, values) = (Given::Lent(keys), Some(Given::Lent(values)));
    let (keys, values) = sort(gpu, keys, values, bits, V::SORT)?;
    Ok((keys, values.expect("values were given")))
}

/// As [`sort_pairs`], where a launch before has made a [`sort_state`] of as many keys and bits 0: where there are few keys a
/// fill takes as long as a pass.
///
/// # Errors
///
/// [`GpuError`].
pub(crate) fn sort_pairs_with<K: Key, V: Carried<K>>(
    gpu: &Gpu,
    keys: Buffer<K>,
    values: Buffer<V>,
    bits: Range<u32>,
    state: &Buffer<u32>,
) -> Result<(Buffer<K>, Buffer<V>), GpuError> {
    assert!(values.len() == keys.len(), "one value for each key");
    let needed = sort_state_items::<K>(gpu, keys.len(), &bits);
    assert!(state.len() == needed, "the state of another sort");
    let (keys, values) = (Given::Owned(keys), Some(Given::Owned(values)));
    let (keys, values) = sort_with(gpu, keys, values, bits, V::SORT, state)?;
    Ok((keys, values.expect("values were given")))
}

/// Zeroed state for a sort of `len` keys by these bits.
pub(crate) fn sort_state<K: Key>(
    gpu: &Gpu,
    len: usize,
    bits: &Range<u32>,
) -> Result<Buffer<u32>, GpuError> {
    gpu.allocate(sort_state_items::<K>(gpu, len, bits))
}

fn sort_state_items<K: Key>(gpu: &Gpu, len: usize, bits: &Range<u32>) -> usize {
    let passes = bits.len().div_ceil(DIGIT_BITS as usize);
    let (_, tile) = tile_of::<K>(gpu, len);
    passes * DIGITS + COUNTERS + passes * len.div_ceil(tile) * DIGITS
}

/// Index of the kernel that sorts `len` items, and the items of its tile.
fn tile_of<K: Key>(gpu: &Gpu, len: usize) -> (usize, usize) {
    let few = K::THREADS * SORT_FEW_ITEMS;
    if len <= SORT_BLOCKS * gpu.facts().processors as usize * few {
        (1, few)
    } else {
        (0, K::THREADS * K::ITEMS)
    }
}

fn sort<K: Key, V: Pod>(
    gpu: &Gpu,
    keys: Given<'_, K>,
    values: Option<Given<'_, V>>,
    bits: Range<u32>,
    names: [&'static str; 2],
) -> Result<(Buffer<K>, Option<Buffer<V>>), GpuError> {
    if keys.len() < 2 || bits.is_empty() {
        let values = values.map(|values| values.into_owned(gpu)).transpose()?;
        return Ok((keys.into_owned(gpu)?, values));
    }
    let state = sort_state::<K>(gpu, keys.len(), &bits)?;
    gpu.fill(&state, 0)?;
    sort_with(gpu, keys, values, bits, names, &state)
}

fn sort_with<K: Key, V: Pod>(
    gpu: &Gpu,
    mut keys: Given<'_, K>,
    mut values: Option<Given<'_, V>>,
    bits: Range<u32>,
    names: [&'static str; 2],
    state: &Buffer<u32>,
) -> Result<(Buffer<K>, Option<Buffer<V>>), GpuError> {
    let len = keys.len();
    assert!(len <= SORT_MAX, "{len} items to sort");
    assert!(bits.end as usize <= size_of::<K>() * 8, "bits of {bits:?}");
    if len < 2 || bits.is_empty() {
        let values = values.map(|values| values.into_owned(gpu)).transpose()?;
        return Ok((keys.into_owned(gpu)?, values));
    }
    let passes = bits.len().div_ceil(DIGIT_BITS as usize);
    // At most DIGIT_BITS. Digits of like width have few values, so that runs of items stay together.
    let width = bits.len().div_ceil(passes) as u32;
    let (kernel, tile) = tile_of::<K>(gpu, len);
    let kernel = SOURCE.kernel(names[kernel]);
    let launch = Launch {
        // At most 1024.
        threads: K::THREADS as u32,
        ..Launch::tiles(len, tile)
    };
    // Where digits begin in each pass, how many blocks have counted, a ticket for each pass, and words of its look-back.
    let (done, tickets) = (passes * DIGITS, passes * DIGITS + 1);
    let words = done + COUNTERS;
    gpu.launch(
        SOURCE.kernel(K::OFFSETS).moving(len * size_of::<K>()),
        gpu.looping(len.div_ceil(VECTORS * VECTOR / size_of::<K>())),
        arguments! {
            keys: &*keys,
            count: len,
            begin: bits.start,
            end: bits.end,
            width,
            offsets: state,
            blocks_done: state.at(done),
        },
    )?;
    let mut keys_out = gpu.allocate::<K>(len)?;
    let mut values_out = match &values {
        Some(_) => Some(gpu.allocate::<V>(len)?),
        None => None,
    };
    let value_bytes = values.as_ref().map_or(0, |_| size_of::<V>());
    for (pass, shift) in bits.clone().step_by(width as usize).enumerate() {
        let none = || Argument::NONE;
        gpu.launch(
            kernel.moving(2 * len * (size_of::<K>() + value_bytes)),
            launch,
            arguments! {
                keys: &*keys,
                values: (values.as_deref()).map_or_else(none, Argument::from),
                keys_out,
                values_out: values_out.as_ref().map_or_else(none, Argument::from),
                count: len,
                shift,
                bits: width.min(bits.end - shift),
                offsets: state.at(pass * DIGITS),
                words: state.at(words + pass * launch.blocks as usize * DIGITS),
                ticket: state.at(tickets + pass),
            },
        )?;
        keys_out = keys.replace(gpu, keys_out)?;
        if let (Some(values), Some(written)) = (&mut values, values_out.take()) {
            values_out = Some(values.replace(gpu, written)?);
        }
    }
    let values = values.map(|values| values.into_owned(gpu)).transpose()?;
    Ok((keys.into_owned(gpu)?, values))
}

/// The distinct keys of sorted `keys` with the sums of their `values`, or how often they occur without values.
/// Sums of runs stay below 2^62. Waits for their number.
///
/// # Errors
///
/// [`GpuError`].
pub fn sums_by_key(
    gpu: &Gpu,
    keys: &Buffer<u64>,
    values: Option<&Buffer<u64>>,
) -> Result<(Buffer<u64>, Buffer<u64>), GpuError> {
    let len = keys.len();
    assert!(
        values.is_none_or(|values| values.len() == len),
        "one value for each key"
    );
    let mut keys_out = gpu.allocate::<u64>(len)?;
    let mut sums = gpu.allocate::<u64>(len)?;
    if len > 0 {
        let runs = gpu.zeroed::<u64>(1)?;
        let blocks = tiles(len);
        let look_back = LookBack::<u64>::new(gpu, blocks as usize * 2)?;
        gpu.launch(
            SOURCE
                .kernel("sums_by_key_kernel")
                .moving(len * size_of::<u64>() * values.map_or(1, |_| 2)),
            Launch {
                blocks,
                threads: THREADS,
            },
            arguments! {
                keys,
                values: values.map_or(Argument::NONE, Argument::from),
                keys_out,
                sums_out: &sums,
                runs,
                count: len,
                words: look_back.words(),
                ticket: look_back.ticket(),
            },
        )?;
        // At most `len`, a usize.
        let runs = gpu.item(&runs, 0)? as usize;
        keys_out.truncate(runs);
        sums.truncate(runs);
    }
    Ok((keys_out, sums))
}

/// `[end + 1]`: how many of the sorted keys are below each number up to `end`.
///
/// # Errors
///
/// [`GpuError`].
pub(crate) fn offsets_of_keys(
    gpu: &Gpu,
    keys: &Buffer<u32>,
    end: u32,
) -> Result<Buffer<u32>, GpuError> {
    let offsets = gpu.allocate::<u32>(end as usize + 1)?;
    gpu.launch_looping(
        SOURCE.kernel("key_offsets_kernel").whole(),
        offsets.len(),
        arguments! { keys, count: keys.len(), end, offsets },
    )?;
    Ok(offsets)
}

/// `[count]`: for each item the owner, where owner o has the items `offsets[o]..offsets[o + 1]`.
///
/// # Errors
///
/// [`GpuError`].
pub fn expand(gpu: &Gpu, offsets: &Buffer<u32>, count: usize) -> Result<Buffer<u32>, GpuError> {
    let owners = gpu.allocate(count)?;
    let owner_count = u32::try_from(offsets.len() - 1).expect("offsets of u32 items");
    let items = u32::try_from(count).expect("items that u32 offsets bound");
    gpu.launch(
        SOURCE
            .kernel("expand_kernel")
            .moving((count + offsets.len()) * size_of::<u32>()),
        Launch {
            blocks: tiles(count),
            threads: THREADS,
        },
        arguments! { offsets, owner_count, owners, count: items },
    )?;
    Ok(owners)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_devices::{Numbers, on_devices};

    /// Lengths around lanes, warps, threads and tiles, and some tiles.
    const LENGTHS: [usize; 15] = [
        0, 1, 2, 31, 33, 255, 3_000, 4095, 4096, 4097, 5760, 8192, 8193, 12_289, 50_000,
    ];

    #[test]
    fn offsets_of_keys_count_those_below_also_in_long_gaps() {
        on_devices(|gpu| {
            for (len, end) in [(0, 0), (0, 900), (1, 5_000), (700, 10), (3_000, 40_000)] {
                let mut keys = Numbers::new(u64::from(end)).below(len, end.max(1));
                keys.sort_unstable();
                let below = |key: u32| keys.partition_point(|&other| other < key) as u32;
                let expected: Vec<u32> = (0..=end).map(below).collect();
                let found = offsets_of_keys(gpu, &gpu.upload(&keys)?, end)?;
                assert_eq!(gpu.download(&found)?, expected, "{len} {end}");
            }
            Ok(())
        });
    }

    #[test]
    fn scan_equals_running_sums() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(1);
            for len in LENGTHS {
                let small: Vec<u32> = numbers.below(len, 1 << 16);
                let large: Vec<u64> = small.iter().map(|&n| u64::from(n) << 24).collect();
                let mut sums = vec![0u64];
                for &n in &small {
                    sums.push(sums[sums.len() - 1] + u64::from(n));
                }
                let items = gpu.upload(&small)?;
                let wide: Buffer<u64> = scan(gpu, &items)?;
                assert_eq!(gpu.download(&wide)?, sums, "{len}");
                let narrow: Buffer<u32> = scan(gpu, &items)?;
                let narrow: Vec<u64> = gpu.download(&narrow)?.into_iter().map(u64::from).collect();
                assert_eq!(narrow, sums, "{len}");
                let wide: Buffer<u64> = scan(gpu, &gpu.upload(&large)?)?;
                let sums: Vec<u64> = sums.iter().map(|sum| sum << 24).collect();
                assert_eq!(gpu.download(&wide)?, sums, "{len}");
            }
            Ok(())
        });
    }

    #[test]
    fn sort_equals_the_stable_sort_by_the_same_bits() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(2);
            for (turn, len) in LENGTHS.into_iter().enumerate() {
                let bits = [0..64, 0..8, 3..20, 0..1, 60..64, 5..5][turn % 6].clone();
                let mask = |key: u64| {
                    let width = bits.len() as u32;
                    let ones = u64::MAX.checked_shr(64 - width).unwrap_or(0);
                    key.checked_shr(bits.start).unwrap_or(0) & ones
                };
                let keys: Vec<u64> = match turn % 3 {
                    0 => numbers.any(len),
                    1 => numbers.below(len, 5).into_iter().map(u64::from).collect(),
                    _ => vec![u64::MAX; len],
                };
                let mut expected: Vec<(u64, u32)> = keys.iter().copied().zip(0..).collect();
                expected.sort_by_key(|&(key, _)| mask(key));
                let (keys_expected, order): (Vec<u64>, Vec<u32>) = expected.iter().copied().unzip();
                let sorted = sort_keys(gpu, gpu.upload(&keys)?, bits.clone())?;
                assert_eq!(gpu.download(&sorted)?, keys_expected, "{len} {bits:?}");
                let values: Vec<u32> = (0..len as u32).collect();
                let (sorted, moved) =
                    sort_pairs(gpu, gpu.upload(&keys)?, gpu.upload(&values)?, bits.clone())?;
                assert_eq!(gpu.download(&sorted)?, keys_expected, "{len} {bits:?}");
                assert_eq!(gpu.download(&moved)?, order, "{len} {bits:?}");
                let wide: Vec<u64> = values.iter().map(|&n| u64::from(n) << 32).collect();
                let (_, moved) =
                    sort_pairs(gpu, gpu.upload(&keys)?, gpu.upload(&wide)?, bits.clone())?;
                let moved = gpu.download(&moved)?.into_iter().map(|n| (n >> 32) as u32);
                assert_eq!(moved.collect::<Vec<u32>>(), order, "{len} {bits:?}");
            }
            Ok(())
        });
    }

    #[test]
    fn sort_of_narrow_keys_equals_the_stable_sort() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(3);
            for len in LENGTHS {
                let keys: Vec<u32> = numbers.below(len, 300);
                let values: Vec<u32> = (0..len as u32).collect();
                let mut expected: Vec<(u32, u32)> = keys.iter().copied().zip(0..).collect();
                expected.sort_by_key(|&(key, _)| key);
                let (sorted, moved) =
                    sort_pairs(gpu, gpu.upload(&keys)?, gpu.upload(&values)?, 0..9)?;
                let found = gpu
                    .download(&sorted)?
                    .into_iter()
                    .zip(gpu.download(&moved)?);
                assert_eq!(found.collect::<Vec<_>>(), expected, "{len}");
                let sorted = sort_keys(gpu, gpu.upload(&keys)?, 0..13)?;
                let expected: Vec<u32> = expected.into_iter().map(|(key, _)| key).collect();
                assert_eq!(gpu.download(&sorted)?, expected, "{len}");
            }
            Ok(())
        });
    }

    #[test]
    fn digits_that_all_keys_share_leave_them_where_they_are() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(5);
            for len in LENGTHS {
                // By digit of eight bits: the highest there is, none, some, and one.
                let of_digits = |low: u32| 0xff00_0007 | low << 8;
                let keys = numbers.below(len, 256).into_iter().map(of_digits);
                let keys: Vec<u32> = keys.collect();
                let mut expected: Vec<(u32, u32)> = keys.iter().copied().zip(0..).collect();
                expected.sort_by_key(|&(key, _)| key);
                let values: Vec<u32> = (0..len as u32).collect();
                let (sorted, moved) =
                    sort_pairs(gpu, gpu.upload(&keys)?, gpu.upload(&values)?, 0..32)?;
                let found = gpu.download(&sorted)?.into_iter();
                let found: Vec<(u32, u32)> = found.zip(gpu.download(&moved)?).collect();
                assert_eq!(found, expected, "{len}");
                let wide: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 9).collect();
                let sorted = sort_keys(gpu, gpu.upload(&wide)?, 0..64)?;
                let expected = expected.iter().map(|&(key, _)| u64::from(key) << 9);
                assert_eq!(
                    gpu.download(&sorted)?,
                    expected.collect::<Vec<_>>(),
                    "{len}"
                );
            }
            Ok(())
        });
    }

    #[test]
    fn sums_by_key_equal_sums_of_runs() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(4);
            for (len, range) in LENGTHS
                .into_iter()
                .zip([1, 2, 40_000, 9].into_iter().cycle())
            {
                let mut keys: Vec<u64> = numbers
                    .below(len, range)
                    .into_iter()
                    .map(u64::from)
                    .collect();
                keys.sort_unstable();
                let values: Vec<u64> = numbers
                    .below(len, 1 << 20)
                    .into_iter()
                    .map(u64::from)
                    .collect();
                let mut expected: Vec<(u64, u64, u64)> = Vec::new();
                for (&key, &value) in keys.iter().zip(&values) {
                    match expected.last_mut() {
                        Some(last) if last.0 == key => {
                            last.1 += value;
                            last.2 += 1;
                        }
                        _ => expected.push((key, value, 1)),
                    }
                }
                let keys = gpu.upload(&keys)?;
                let (distinct, sums) = sums_by_key(gpu, &keys, Some(&gpu.upload(&values)?))?;
                let (again, counts) = sums_by_key(gpu, &keys, None)?;
                let found = gpu.download(&distinct)?.into_iter();
                let found = found.zip(gpu.download(&sums)?).zip(gpu.download(&counts)?);
                let found: Vec<_> = found.map(|((key, sum), count)| (key, sum, count)).collect();
                assert_eq!(found, expected, "{len} {range}");
                assert_eq!(gpu.download(&again)?.len(), expected.len());
            }
            Ok(())
        });
    }

    #[test]
    fn expand_equals_its_definition_also_with_empty_segments() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(5);
            for (owners, longest) in [(1, 1), (1, 9_000), (40, 400), (5_000, 3), (9_000, 1)] {
                let lens: Vec<u32> = numbers.below(owners, longest + 1);
                let mut offsets = vec![0u32];
                let mut expected = Vec::new();
                for (owner, len) in (0u32..).zip(&lens) {
                    offsets.push(offsets[offsets.len() - 1] + len);
                    expected.extend((0..*len).map(|_| owner));
                }
                let offsets = gpu.upload(&offsets)?;
                let found = expand(gpu, &offsets, expected.len())?;
                assert_eq!(gpu.download(&found)?, expected, "{owners} {longest}");
            }
            Ok(())
        });
    }
}
