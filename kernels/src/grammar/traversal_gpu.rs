//! A grammar in device memory, ready to be traversed.
//!
//! The invariant: it has the same texts as the grammar it was made of. The
//! highest levels, which have few symbols, are inlined into the root: each costs
//! a traversal one wait for a flag, however small it is. The rules that stay keep
//! their numbers. Where order does not matter, the root is kept as counts too.
//! Which symbols are said to be frequent is only about speed.

use std::cmp::Reverse;

use crate::GrammarView;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives;
use crate::grammar::fan_in_gpu::FanIn;
use crate::grammar::grammar_gpu::DeviceGrammar;
use crate::grammar::weights_gpu;
use crate::grammar::words_gpu::{COLUMNS_MAX, DeviceWords, HOT_SLOTS, RootCounts, level_walks};

/// Symbols of the root that are examined to find frequent ones.
const HOT_SAMPLE: usize = 1 << 13;

/// Occurrences in the sample from which on a symbol is frequent.
const HOT_SEEN_MIN: usize = 4;

/// No symbol, in a slot.
const NO_SYMBOL: u32 = u32::MAX;

/// Inlining levels into the root may add this part of all symbols: 1 of 6.
const GAIN_SHARE: u64 = 6;

/// Most levels that are inlined.
const INLINED_MAX: usize = 64;

pub(crate) static SOURCE: Source = Source {
    name: "traversal.cu",
    text: include_str!("traversal.cu"),
    headers: &[],
    constants: &[("TRAVERSAL_THREADS", THREADS as u64)],
};

impl DeviceWords {
    /// Derives what traversals need.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn new(gpu: &Gpu, grammar: DeviceGrammar) -> Result<DeviceWords, GpuError> {
        let mut grammar = grammar;
        let mut owners = primitives::expand(gpu, &grammar.rule_offsets, grammar.symbols.len())?;
        if grammar.rules() > 0 {
            let fan_in = FanIn::new(gpu, &grammar, &owners)?;
            let none = gpu.filled(HOT_SLOTS, u8::MAX)?;
            let counts = weights_gpu::root_counts(gpu, &grammar, &none, 1)?;
            let weights = fan_in.pull(gpu, &fan_in.state(gpu, 1)?, &counts)?;
            let kept = kept_levels(gpu, &grammar, &weights)?;
            if kept < grammar.levels() {
                inline_levels(gpu, &mut grammar, kept, &weights)?;
                owners.truncate(grammar.symbols.len());
            }
        }
        let fan_in = FanIn::joined(gpu, &grammar, &owners)?;
        let hot = hot_in_root(gpu, &grammar)?;
        let counted = |columns: usize| -> Result<RootCounts, GpuError> {
            Ok(RootCounts {
                counts: weights_gpu::root_counts(gpu, &grammar, &hot, columns)?,
                state: fan_in.state(gpu, columns)?,
            })
        };
        let [bodies_walk, rules_walk] = level_walks(gpu, &grammar)?;
        let by_file = (2..=COLUMNS_MAX).contains(&grammar.files());
        Ok(DeviceWords {
            root_files: primitives::expand(gpu, &grammar.root_offsets, grammar.root.len())?,
            whole: counted(1)?,
            by_file: by_file.then(|| counted(grammar.files())).transpose()?,
            bodies_walk,
            rules_walk,
            owners,
            fan_in,
            grammar,
        })
    }

    /// Copies a grammar to a device.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn upload(gpu: &Gpu, view: GrammarView<'_>) -> Result<DeviceWords, GpuError> {
        DeviceWords::new(gpu, DeviceGrammar::upload(gpu, view)?)
    }
}

/// Number of lowest levels that stay; the others are inlined into the root, within its limit of growth.
fn kept_levels(
    gpu: &Gpu,
    grammar: &DeviceGrammar,
    weights: &Buffer<u32>,
) -> Result<usize, GpuError> {
    let (levels, rules) = (grammar.levels(), grammar.rules());
    let terminals = grammar.terminal_count as usize;
    let gains = gpu.zeroed::<u64>(levels)?;
    let level_offsets = gpu.upload(&grammar.level_offsets)?;
    // Rules and levels are u32.
    let arguments = arguments! {
        rule_offsets: &grammar.rule_offsets,
        rules: rules as u32,
        level_offsets,
        levels: levels as u32,
        weights: weights.at(terminals),
        gains,
    };
    gpu.launch_looping(
        SOURCE.kernel("level_gains_kernel").moving(rules * 2 * 4),
        rules,
        arguments,
    )?;
    let gains = gpu.download(&gains)?;
    let most = (grammar.symbols.len() + grammar.root.len()) as u64 / GAIN_SHARE;
    let mut gained = 0u64;
    let inlined = (gains.iter().rev().take(INLINED_MAX))
        .take_while(|&&gain| {
            gained = gained.saturating_add(gain);
            gained <= most
        })
        .count();
    Ok(levels - inlined)
}

/// Inlines all but the lowest `kept` levels into the root.
fn inline_levels(
    gpu: &Gpu,
    grammar: &mut DeviceGrammar,
    kept: usize,
    weights: &Buffer<u32>,
) -> Result<(), GpuError> {
    let first_rule = grammar.level_offsets[kept];
    let first_symbol = grammar.level_symbols[kept];
    let first = grammar.terminal_count + first_rule;
    let rules = grammar.rules() - first_rule as usize;
    let mut offsets = vec![0u32; rules + 1];
    gpu.download_from(&grammar.rule_offsets, first_rule as usize, &mut offsets)?;
    let mut symbols = vec![0u32; grammar.symbols.len() - first_symbol as usize];
    gpu.download_from(&grammar.symbols, first_symbol as usize, &mut symbols)?;
    let mut uses = vec![0u32; rules];
    gpu.download_from(weights, first as usize, &mut uses)?;
    let (mut flat_offsets, mut flat) = (vec![0u32], Vec::new());
    for (body, &uses) in offsets.windows(2).zip(&uses) {
        let body = (body[0] - first_symbol) as usize..(body[1] - first_symbol) as usize;
        // What does not occur may be absurdly long.
        let body = if uses > 0 { &symbols[body] } else { &[] };
        for &symbol in body {
            match symbol.checked_sub(first) {
                None => flat.push(symbol),
                Some(rule) => {
                    let rule = rule as usize;
                    flat.extend_from_within(
                        flat_offsets[rule] as usize..flat_offsets[rule + 1] as usize,
                    );
                }
            }
        }
        // No longer than the new root, which is little longer than the old one, for each level.
        flat_offsets.push(u32::try_from(flat.len()).expect("a root that u32 counts"));
    }
    let flat_offsets = gpu.upload(&flat_offsets)?;
    let flat = gpu.upload(&flat)?;

    let count = grammar.root.len();
    let sizes = gpu.allocate::<u32>(count)?;
    let arguments = arguments! { root: &grammar.root, count, kept: first, flat_offsets, sizes };
    gpu.launch_looping(
        SOURCE.kernel("flat_sizes_kernel").moving(count * 2 * 4),
        count,
        arguments,
    )?;
    let places = primitives::scan::<u32, u32>(gpu, &sizes)?;
    let count = gpu.item(&places, count)? as usize;
    let owners = primitives::expand(gpu, &places, count)?;
    let root = gpu.allocate::<u32>(count)?;
    let arguments = arguments! {
        root: &grammar.root,
        owners,
        places,
        count,
        kept: first,
        flat_offsets,
        flat_symbols: &flat,
        out: &root,
    };
    gpu.launch_looping(
        SOURCE.kernel("flat_root_kernel").moving(count * 2 * 4),
        count,
        arguments,
    )?;
    let starts = grammar.root_offsets.len();
    let root_offsets = gpu.allocate::<u32>(starts)?;
    let arguments = arguments! {
        values: &places,
        numbers: &grammar.root_offsets,
        count: starts,
        out: &root_offsets,
    };
    gpu.launch_looping(
        SOURCE.kernel("gather_kernel").moving(starts * 3 * 4),
        starts,
        arguments,
    )?;
    grammar.root = root;
    grammar.root_offsets = root_offsets;
    grammar.rule_offsets.truncate(first_rule as usize + 1);
    grammar.symbols.truncate(first_symbol as usize);
    grammar.level_offsets.truncate(kept + 1);
    grammar.level_symbols.truncate(kept + 1);
    Ok(())
}

/// Some of the symbols, at equal distances.
fn sample(gpu: &Gpu, symbols: &Buffer<u32>) -> Result<Vec<u32>, GpuError> {
    let step = (symbols.len() / HOT_SAMPLE).max(1);
    let count = symbols.len() / step;
    let sample = gpu.allocate::<u32>(count)?;
    let arguments = arguments! { symbols, step, sample, count };
    gpu.launch_looping(
        SOURCE.kernel("sample_kernel").moving(count * 2 * 4),
        count,
        arguments,
    )?;
    gpu.download(&sample)
}

/// `[HOT_SLOTS]`: symbols that are frequent in the root, each in its slot or the one beside it.
///
/// # Errors
///
/// [`GpuError`].
pub fn hot_in_root(gpu: &Gpu, grammar: &DeviceGrammar) -> Result<Buffer<u32>, GpuError> {
    gpu.upload(&hot_symbols(sample(gpu, &grammar.root)?))
}

/// The table of symbols that are frequent in a sample.
pub(crate) fn hot_symbols(mut sample: Vec<u32>) -> Vec<u32> {
    sample.sort_unstable();
    let equal = sample.chunk_by(|a, b| a == b);
    let mut seen: Vec<(Reverse<usize>, u32)> = equal
        .map(|equal| (Reverse(equal.len()), equal[0]))
        .filter(|&(Reverse(seen), symbol)| seen >= HOT_SEEN_MIN && symbol != NO_SYMBOL)
        .collect();
    seen.sort_unstable();
    let mut slots = vec![NO_SYMBOL; HOT_SLOTS];
    for (_, symbol) in seen {
        let slot = hot_slot(symbol);
        let mut both = [slot, slot ^ 1].into_iter();
        if let Some(free) = both.find(|&slot| slots[slot] == NO_SYMBOL) {
            slots[free] = symbol;
        }
    }
    slots
}

/// As `hot_slot` of weights.cu.
fn hot_slot(symbol: u32) -> usize {
    // The highest bits.
    (symbol.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HOT_SLOTS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::grammar::test_grammars;

    #[test]
    fn a_grammar_without_its_highest_levels_has_the_same_texts() {
        on_devices(|gpu| {
            for grammar in [
                test_grammars::deep_chain(300),
                test_grammars::doubling(40),
                test_grammars::fibonacci(14),
                test_grammars::many_files(20),
                test_grammars::repeated_text(3),
            ] {
                let view = grammar.view();
                let words = DeviceWords::upload(gpu, view)?;
                let rule_offsets = gpu.download(&words.rule_offsets)?;
                let symbols = gpu.download(&words.symbols)?;
                let root_offsets = gpu.download(&words.root_offsets)?;
                let root = gpu.download(&words.root)?;
                assert!(words.levels() < view.levels() || view.levels() < 3);
                assert!(root.len() <= (view.symbols.len() + view.root.len()) * 7 / 6);
                let flat = GrammarView {
                    terminal_count: view.terminal_count,
                    rule_offsets: &rule_offsets,
                    symbols: &symbols,
                    level_offsets: &words.level_offsets,
                    root_offsets: &root_offsets,
                    root: &root,
                };
                for file in 0..view.files() as u32 {
                    let (mut found, mut expected) = (Vec::new(), Vec::new());
                    flat.for_each_terminal(flat.root_range(file), |t| found.push(t));
                    view.for_each_terminal(view.root_range(file), |t| expected.push(t));
                    assert!(found == expected, "file {file}");
                }
            }
            Ok(())
        });
    }
}
