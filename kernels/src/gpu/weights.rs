//! Weights of symbols, in the whole or in each of a few files, and words by count.
//!
//! The invariant: counts are those of [`crate::weights`], bit for bit.

use std::ops::Range;

use bytemuck::Pod;

use super::device::{Buffer, Gpu, arguments};
use super::driver::{Argument, Launch, Source, THREADS};
use super::error::GpuError;
use super::joined_levels::JoinedLevels;
use super::levels::{STATE_ITEMS, Walk};
use super::primitives;
use super::traversal::{DeviceWords, HOT_SLOTS};

/// Items of a piece.
const TILE: u32 = 2048;

/// A block does small levels one after the other if they have together at most so many tiles.
const JOINED: u32 = 4;

/// Blocks of a multiprocessor.
const RESIDENT: u32 = 4;

/// Counters a symbol at most: a group of lanes has one a lane.
pub(crate) const COLUMNS_MAX: usize = 32;

pub(crate) static SOURCE: Source = Source {
    name: "weights.cu",
    text: include_str!("weights.cu"),
    constants: &[
        ("WEIGHTS_THREADS", THREADS as u64),
        ("WEIGHTS_TILE", TILE as u64),
        ("WEIGHTS_HOT_SLOTS", HOT_SLOTS as u64),
        ("WEIGHTS_HOT_BITS", HOT_SLOTS.ilog2() as u64),
    ],
};

/// What weights are counted in; sums wrap.
pub trait DeviceCounter: Pod {
    /// The kernel.
    const KERNEL: &'static str;
}

impl DeviceCounter for u32 {
    const KERNEL: &'static str = "weights_u32_kernel";
}

impl DeviceCounter for u64 {
    const KERNEL: &'static str = "weights_u64_kernel";
}

/// `[symbols]`: how often each symbol occurs in all files, from what is known of the root.
///
/// Work: one launch. Less than 2^32 terminals are assumed.
///
/// # Errors
///
/// [`GpuError`].
pub fn weights(gpu: &Gpu, words: &DeviceWords) -> Result<Buffer<u32>, GpuError> {
    match (&words.walks, &words.root_counts) {
        (Some(walks), Some(counts)) => {
            let joined = Some(&walks.joined);
            count_from(gpu, words, &walks.weights, joined, 1, counts)
        }
        _ => weights_with_root(gpu, words),
    }
}

/// As [`weights`], with the symbols of the root counted anew. `u32` is enough for files of less than 2^32 terminals.
///
/// # Errors
///
/// [`GpuError`].
pub fn weights_with_root<C: DeviceCounter>(
    gpu: &Gpu,
    words: &DeviceWords,
) -> Result<Buffer<C>, GpuError> {
    let read = words.root.len() * size_of::<u32>() + body_bytes(words);
    match &words.walks {
        Some(walks) => count(gpu, words, &walks.root, read, 1),
        None => {
            // Positions are u32.
            let walk = walk(gpu, words, 0..words.root.len() as u32, 1)?;
            count(gpu, words, &walk, read, 1)
        }
    }
}

/// How often each symbol occurs in the root itself, in each of some columns, and behind these so many zeros.
pub(crate) fn of_root(
    gpu: &Gpu,
    words: &DeviceWords,
    columns: usize,
    zeros: usize,
) -> Result<Buffer<u32>, GpuError> {
    // Positions are u32.
    let root = 0..words.root.len() as u32;
    let walk = Walk::new(gpu, &[root], TILE, &[], TILE, JOINED)?;
    let read = words.root.len() * size_of::<u32>();
    let counted = count::<u32>(gpu, words, &walk, read, columns)?;
    let counts = gpu.allocate(counted.len() + zeros)?;
    gpu.copy(&counts, 0, &counted, counted.len())?;
    gpu.fill_items(&counts, counted.len(), zeros, 0)?;
    Ok(counts)
}

/// `[symbols]`: how often each symbol occurs in a file.
///
/// # Errors
///
/// [`GpuError`].
pub fn file_weights<C: DeviceCounter>(
    gpu: &Gpu,
    words: &DeviceWords,
    file: u32,
) -> Result<Buffer<C>, GpuError> {
    let file = file as usize;
    let root = words.file_starts[file]..words.file_starts[file + 1];
    let read = root.len() * size_of::<u32>() + body_bytes(words);
    count(gpu, words, &walk(gpu, words, root, 1)?, read, 1)
}

/// `[symbols * files]`: how often each symbol occurs in each file, of which there are [`COLUMNS_MAX`] at most.
pub(crate) fn file_cells(gpu: &Gpu, words: &DeviceWords) -> Result<Buffer<u32>, GpuError> {
    let files = words.files();
    assert!(files <= COLUMNS_MAX, "{files} files are too many for cells");
    let walks = words.walks.as_ref().expect("made with the grammar");
    match (&words.root_cells, &walks.cells) {
        (Some(counts), Some(cells)) => count_from(gpu, words, cells, None, files, counts),
        _ if files == 0 => gpu.zeroed(0),
        _ => weights(gpu, words),
    }
}

/// The walk over some root symbols and then all levels, from the highest.
pub(crate) fn walk(
    gpu: &Gpu,
    words: &DeviceWords,
    root: Range<u32>,
    columns: usize,
) -> Result<Walk, GpuError> {
    let levels = (0..words.levels()).rev();
    let levels: Vec<_> = levels.map(|level| words.level_bodies(level)).collect();
    Walk::new(gpu, &[root], TILE, &levels, TILE >> shift(columns), JOINED)
}

/// The walk over what was counted in so many columns, and then over steps.
pub(crate) fn walk_from(
    gpu: &Gpu,
    counts: &Buffer<u32>,
    steps: &[Range<u32>],
    columns: usize,
) -> Result<Walk, GpuError> {
    let counts = u32::try_from(counts.len()).expect("counts of a few files that u32 numbers");
    let before = 0..counts;
    Walk::new(gpu, &[before], TILE, steps, TILE >> shift(columns), JOINED)
}

/// Lanes of a body symbol, a lane for each column, are 2 to the power of this: 5 at most.
fn shift(columns: usize) -> u32 {
    columns.max(1).next_power_of_two().ilog2()
}

/// Bytes of the symbols of all bodies with their owners.
fn body_bytes(words: &DeviceWords) -> usize {
    words.symbols.len() * 2 * size_of::<u32>()
}

/// Counts from nothing, on a walk that reads so many bytes of symbols.
fn count<C: DeviceCounter>(
    gpu: &Gpu,
    words: &DeviceWords,
    walk: &Walk,
    read: usize,
    columns: usize,
) -> Result<Buffer<C>, GpuError> {
    // The counters of the walk lie behind the others, so that one fill makes both 0.
    let cells = words.symbol_count() * columns;
    let weights = gpu.zeroed(cells + STATE_ITEMS)?;
    let state = weights.at(cells);
    let from = From {
        counts: Argument::U64(0),
        state,
        read,
    };
    count_more(gpu, words, walk, from, None, columns, weights)
}

/// Counts from what was counted before, which the walk begins with.
fn count_from(
    gpu: &Gpu,
    words: &DeviceWords,
    walk: &Walk,
    joined: Option<&JoinedLevels>,
    columns: usize,
    counts: &Buffer<u32>,
) -> Result<Buffer<u32>, GpuError> {
    let weights = gpu.allocate(counts.len())?;
    let items = joined.map_or(words.symbols.len(), JoinedLevels::items);
    let from = From {
        counts: counts.into(),
        state: words.walk_state.at(0),
        read: items * 2 * size_of::<u32>() + counts.len() * size_of::<u32>(),
    };
    count_more(gpu, words, walk, from, joined, columns, weights)
}

/// What a count begins with.
struct From {
    /// What was counted before, if anything.
    counts: Argument,
    /// Counters of the walk, which are 0.
    state: Argument,
    /// Bytes of symbols and of counts that are read.
    read: usize,
}

fn count_more<C: DeviceCounter>(
    gpu: &Gpu,
    words: &DeviceWords,
    walk: &Walk,
    from: From,
    joined: Option<&JoinedLevels>,
    columns: usize,
    mut weights: Buffer<C>,
) -> Result<Buffer<C>, GpuError> {
    let cells = words.symbol_count() * columns;
    let none = || Argument::U64(0);
    let launch = Launch {
        blocks: walk.blocks(gpu, RESIDENT),
        threads: THREADS,
    };
    // Counts are read and written.
    let bytes = from.read + cells * 2 * size_of::<C>();
    let mut arguments = arguments![
        &words.root,
        &words.root_offsets,
        from.counts,
        &words.symbols,
        &words.owners,
        // As offsets of bodies.
        words.symbols.len() as u32,
        joined.map_or_else(none, |joined| Argument::from(&joined.symbols)),
        joined.map_or_else(none, |joined| Argument::from(&joined.owners)),
        &words.hot,
        &weights,
        words.terminal_count,
        // A few.
        columns as u32,
        shift(columns),
    ]
    .to_vec();
    arguments.extend(walk.arguments(from.state));
    gpu.launch(SOURCE.kernel(C::KERNEL).moving(bytes), launch, &arguments)?;
    weights.truncate(cells);
    Ok(weights)
}

/// Words in order of their counts, the largest first, equal ones in order of words; and the counts.
///
/// `weights` are those of all symbols, of which the first `words` are words, with counts up to `most`.
///
/// # Errors
///
/// [`GpuError`].
pub fn words_by_count(
    gpu: &Gpu,
    weights: &Buffer<u32>,
    words: u32,
    most: u32,
) -> Result<(Buffer<u32>, Buffer<u32>), GpuError> {
    assert!(
        words as usize <= weights.len(),
        "words are the first symbols"
    );
    let keys = gpu.allocate::<u32>(words as usize)?;
    let numbers = gpu.allocate::<u32>(words as usize)?;
    rank_keys(gpu, weights.at(0), words, most, &keys, &numbers)?;
    let bits = u32::BITS - most.leading_zeros();
    let (keys, numbers) = primitives::sort_pairs(gpu, keys, numbers, 0..bits)?;
    // The keys become counts again.
    let counts = gpu.allocate::<u32>(words as usize)?;
    let unused = gpu.allocate::<u32>(words as usize)?;
    rank_keys(gpu, keys.at(0), words, most, &counts, &unused)?;
    Ok((numbers, counts))
}

fn rank_keys(
    gpu: &Gpu,
    weights: Argument,
    words: u32,
    most: u32,
    keys: &Buffer<u32>,
    numbers: &Buffer<u32>,
) -> Result<(), GpuError> {
    let arguments = arguments![weights, words, most, keys, numbers];
    gpu.launch_looping(
        SOURCE
            .kernel("rank_keys_kernel")
            .moving(words as usize * 3 * 4),
        words as usize,
        arguments,
    )
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::test_grammars::{self, TestGrammar};

    fn check(gpu: &Gpu, grammar: &TestGrammar) -> Result<(), GpuError> {
        let view = grammar.view();
        let device = DeviceWords::upload(gpu, view)?;
        // The rules that were not inlined into the root.
        let kept = device.symbol_count();
        let mut expected = crate::weights(view, 0..view.root.len(), u64::MAX);
        expected.truncate(kept);
        let wide = weights_with_root::<u64>(gpu, &device)?;
        assert_eq!(gpu.download(&wide)?, expected, "{grammar:?}");
        if expected.iter().all(|&weight| weight <= u64::from(u32::MAX)) {
            for narrow in [
                weights(gpu, &device)?,
                weights_with_root::<u32>(gpu, &device)?,
            ] {
                let found = gpu.download(&narrow)?.into_iter().map(u64::from);
                assert!(found.eq(expected.iter().copied()), "{grammar:?}");
            }
        }
        if view.files() <= COLUMNS_MAX {
            let cells = gpu.download(&file_cells(gpu, &device)?)?;
            for file in 0..view.files() {
                let positions = view.root_range(file as u32);
                let mut expected = crate::weights(view, positions, u64::MAX);
                expected.truncate(kept);
                let column = cells.iter().skip(file).step_by(view.files());
                assert!(column.map(|&n| u64::from(n)).eq(expected), "{grammar:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn weights_of_small_grammars_equal_those_of_the_twin() {
        on_devices(|gpu| {
            let mut grammars = test_grammars::all_small().step_by(601);
            grammars.try_for_each(|grammar| check(gpu, &grammar))
        });
    }

    #[test]
    fn weights_of_random_and_extreme_grammars_equal_those_of_the_twin() {
        on_devices(|gpu| {
            let extreme = [
                test_grammars::deep_chain(300),
                test_grammars::long_body(6_000),
                test_grammars::runs(16),
                test_grammars::doubling(70),
                test_grammars::many_files(31),
                test_grammars::many_files(300),
                test_grammars::repeated_text(4),
            ];
            let mut grammars = test_grammars::random_many(6).chain(extreme);
            grammars.try_for_each(|grammar| check(gpu, &grammar))
        });
    }

    #[test]
    fn weights_of_one_file_equal_those_of_the_twin() {
        on_devices(|gpu| {
            let grammar = test_grammars::many_files(7);
            let view = grammar.view();
            let device = DeviceWords::upload(gpu, view)?;
            for file in 0..7 {
                let found = gpu.download(&file_weights::<u64>(gpu, &device, file)?)?;
                let expected = crate::weights(view, view.root_range(file), u64::MAX);
                assert_eq!(found, expected[..found.len()]);
            }
            Ok(())
        });
    }

    #[test]
    fn words_come_by_count_and_equal_counts_by_word() {
        on_devices(|gpu| {
            for grammar in [test_grammars::random(3), test_grammars::repeated_text(3)] {
                let view = grammar.view();
                let device = DeviceWords::upload(gpu, view)?;
                let weights = weights(gpu, &device)?;
                let counts = gpu.download(&weights)?;
                let words = view.terminal_count;
                let mut expected: Vec<u32> = (0..words).collect();
                expected.sort_by_key(|&word| Reverse(counts[word as usize]));
                let (found, sorted) = words_by_count(gpu, &weights, words, 1 << 24)?;
                assert_eq!(gpu.download(&found)?, expected);
                let expected: Vec<u32> = expected.iter().map(|&w| counts[w as usize]).collect();
                assert_eq!(gpu.download(&sorted)?, expected);
            }
            Ok(())
        });
    }
}
