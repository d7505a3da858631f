//! Weights of symbols, in the whole or in each of a few files, and words by count.
//!
//! The invariant: counts are those of [`crate::grammar::weights`], bit for bit.

use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives;
use crate::grammar::grammar_gpu::DeviceGrammar;
use crate::grammar::words_gpu::{COLUMNS_MAX, DeviceWords, HOT_SLOTS};

/// Root symbols that a block counts at a time.
const TILE: usize = 2048;

/// Blocks of a multiprocessor.
const RESIDENT: u32 = 4;

pub(crate) static SOURCE: Source = Source {
    name: "weights.cu",
    text: include_str!("weights.cu"),
    headers: &[],
    constants: &[
        ("WEIGHTS_THREADS", THREADS as u64),
        ("WEIGHTS_TILE", TILE as u64),
        ("WEIGHTS_HOT_SLOTS", HOT_SLOTS as u64),
        ("WEIGHTS_HOT_BITS", HOT_SLOTS.ilog2() as u64),
    ],
};

/// `[symbols]`: how often each symbol occurs in all files.
///
/// Work: one launch. Less than 2^32 terminals are assumed.
///
/// # Errors
///
/// [`GpuError`].
pub fn weights(gpu: &Gpu, words: &DeviceWords) -> Result<Buffer<u32>, GpuError> {
    (words.fan_in).pull(gpu, &words.whole.state, &words.whole.counts)
}

/// `[symbols * files]`: how often each symbol occurs in each file, of which there are [`COLUMNS_MAX`] at most.
pub(crate) fn file_cells(gpu: &Gpu, words: &DeviceWords) -> Result<Buffer<u32>, GpuError> {
    let files = words.files();
    assert!(files <= COLUMNS_MAX, "{files} files are too many for cells");
    match &words.by_file {
        Some(of) => words.fan_in.pull(gpu, &of.state, &of.counts),
        None if files == 0 => gpu.zeroed(0),
        None => weights(gpu, words),
    }
}

/// `[symbols * columns]`: how often each symbol occurs in the root itself, in each file or, in one column, in all.
///
/// # Errors
///
/// [`GpuError`].
pub fn root_counts(
    gpu: &Gpu,
    grammar: &DeviceGrammar,
    hot: &Buffer<u32>,
    columns: usize,
) -> Result<Buffer<u32>, GpuError> {
    let items = grammar.root.len();
    let counts = gpu.zeroed(grammar.symbol_count() * columns)?;
    let busy = (gpu.facts().processors * RESIDENT) as usize;
    let block_items = items.div_ceil(busy).next_multiple_of(THREADS as usize);
    let block_items = block_items.max(TILE);
    let launch = Launch::tiles(items, block_items);
    let bytes = (items + counts.len()) * size_of::<u32>();
    let arguments = arguments! {
        root: &grammar.root,
        root_offsets: &grammar.root_offsets,
        items,
        block_items,
        hot,
        // A few.
        columns: columns as u32,
        counts,
    };
    gpu.launch(
        SOURCE.kernel("root_counts_kernel").moving(bytes),
        launch,
        arguments,
    )?;
    Ok(counts)
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
    let count = words as usize;
    let (keys, numbers) = (gpu.allocate::<u32>(count)?, gpu.allocate::<u32>(count)?);
    let bits = 0..u32::BITS - most.leading_zeros();
    let state = primitives::sort_state::<u32>(gpu, count, &bits)?;
    let bytes = (3 * count + state.len()) * size_of::<u32>();
    let arguments = arguments! {
        weights,
        count: words,
        most,
        keys,
        words: &numbers,
        state,
        state_items: state.len(),
    };
    let kernel = SOURCE.kernel("rank_keys_kernel").moving(bytes);
    gpu.launch_looping(kernel, count.max(state.len()), arguments)?;
    let (keys, numbers) = primitives::sort_pairs_with(gpu, keys, numbers, bits, &state)?;
    let counts = gpu.allocate::<u32>(count)?;
    let arguments = arguments! { keys, count: words, most, counts };
    gpu.launch_looping(
        SOURCE.kernel("rank_counts_kernel").whole(),
        count,
        arguments,
    )?;
    Ok((numbers, counts))
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::grammar::test_grammars::{self, TestGrammar};

    fn check(gpu: &Gpu, grammar: &TestGrammar) -> Result<(), GpuError> {
        let view = grammar.view();
        let device = DeviceWords::upload(gpu, view)?;
        // The rules that were not inlined into the root.
        let kept = device.symbol_count();
        let mut expected = crate::weights(view, 0..view.root.len(), u64::MAX);
        expected.truncate(kept);
        if expected.iter().all(|&weight| weight <= u64::from(u32::MAX)) {
            let found = gpu.download(&weights(gpu, &device)?)?;
            assert!(found.into_iter().map(u64::from).eq(expected), "{grammar:?}");
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
                test_grammars::held_often(9, 100),
                test_grammars::repeated_text(4),
            ];
            let mut grammars = test_grammars::random_many(6).chain(extreme);
            grammars.try_for_each(|grammar| check(gpu, &grammar))
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
