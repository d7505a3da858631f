//! Structures of a grammar for look-ups in batches, built on the device.
//!
//! In   a grammar; bytes, signature and text of each terminal
//! Out  lengths, signatures, starts of body and root symbols, parents, texts of
//!      tokens and short rules, and weights of symbols by file in a hash table
//! Work O(symbols) and a sort of them by symbol; for the weights the sum of body
//!      lengths over all pairs of a rule and a file that has it
//!
//! The invariant: what leaves the device does not depend on the order of
//! threads. Lengths, signatures, parents and texts are those of the CPU.

use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives::{expand, offsets_of_keys, scan, sort_pairs};
use crate::grammar::grammar_gpu::DeviceGrammar;

/// Longest text that is kept for a rule, as on the CPU.
const SHORT_TEXT_BYTES: u64 = 32;

/// Slots of the smallest table of weights.
const SLOTS_MIN: usize = 1 << 10;

/// Weights that a thread adds to at a time.
const ADDS: usize = 4;

/// Pairs of rules and files that a block looks through at a time.
const ENTRIES_TILE: usize = 2048;

/// Blocks of a multiprocessor that add weights.
const RESIDENT: u32 = 8;

/// Words of `WeightsState`, and which of them is what.
const STATE_WORDS: usize = 4;
const PAIRS: usize = 0;
const ENTRIES: usize = 1;
const SEEN: usize = 2;
const IS_FULL: usize = 3;

pub(crate) static SOURCE: Source = Source {
    name: "structures.cu",
    text: include_str!("structures.cu"),
    headers: &[],
    constants: &[
        ("STRUCTURE_THREADS", THREADS as u64),
        ("SHORT_TEXT_BYTES", SHORT_TEXT_BYTES),
        ("STRUCTURE_ADDS", ADDS as u64),
        ("STRUCTURE_ENTRIES_TILE", ENTRIES_TILE as u64),
    ],
};

/// What is known of terminals: by terminal.
#[derive(Clone, Copy, Debug)]
pub struct Terminals<'a> {
    /// `[terminals + 1]`: the text of terminal t is `bytes[offsets[t]..offsets[t + 1]]`.
    pub offsets: &'a [u64],
    /// All texts, one after the other.
    pub bytes: &'a [u8],
    /// `[terminals]`: a bit for the word; see [`Signatures`](crate::Signatures).
    pub signatures: &'a [u32],
}

/// Where each symbol occurs.
#[derive(Debug)]
pub struct DeviceParents {
    /// `[symbols + 1]` into `places`.
    pub offsets: Buffer<u32>,
    /// Positions among all body symbols; ascending for each symbol.
    pub places: Buffer<u32>,
    /// `[body symbols]`: the rule that a position belongs to.
    pub body_rules: Buffer<u32>,
    /// `[symbols + 1]` into `root_positions`.
    pub root_offsets: Buffer<u32>,
    /// Positions in the root; ascending for each symbol.
    pub root_positions: Buffer<u32>,
}

/// Occurrences of symbols in files, as a hash table.
#[derive(Debug)]
pub struct FileWeights {
    /// `[slots]`, a power of two: symbol in the upper half, file in the lower, or all ones.
    pub(crate) keys: Buffer<u64>,
    /// `[slots]`
    pub(crate) weights: Buffer<u32>,
    /// Pairs in the table.
    pub entries: usize,
}

/// Structures of one grammar.
#[derive(Debug)]
pub struct DeviceStructures {
    /// The grammar.
    pub grammar: DeviceGrammar,
    /// `[symbols]`
    pub signatures: Buffer<u32>,
    /// `[body symbols]`: where each begins in its rule.
    pub body_starts: Buffer<u64>,
    /// `[root symbols + 1]`: where each begins in the segment.
    pub root_starts: Buffer<u64>,
    /// `[files + 1]`, on the host: where each file begins in the segment.
    pub file_starts: Vec<u64>,
    /// Where symbols occur.
    pub parents: DeviceParents,
    /// `[symbols + 1]` into `texts`; empty for long rules.
    pub text_offsets: Buffer<u32>,
    /// Texts of tokens and short rules.
    pub texts: Buffer<u8>,
    /// Weights of symbols by file.
    pub weights: FileWeights,
}

impl DeviceStructures {
    /// Builds all structures.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When `terminals` are not those of the grammar.
    pub fn new(
        gpu: &Gpu,
        grammar: DeviceGrammar,
        terminals: Terminals<'_>,
    ) -> Result<DeviceStructures, GpuError> {
        let count = grammar.terminal_count as usize;
        assert!(
            terminals.offsets.len() == count + 1,
            "a text for each terminal"
        );
        assert!(
            terminals.signatures.len() == count,
            "a signature for each terminal"
        );
        let sizes = terminals.offsets.windows(2).map(|w| w[1] - w[0]);
        let sizes: Vec<u64> = sizes.collect();
        let (lengths, signatures, body_starts) =
            measure(gpu, &grammar, &sizes, terminals.signatures)?;
        let root_starts = root_starts(gpu, &grammar, &lengths)?;
        let starts = gpu.allocate::<u64>(grammar.root_offsets.len())?;
        gpu.launch(
            SOURCE
                .kernel("file_starts_kernel")
                .moving(starts.len() * (4 + 2 * 8)),
            Launch::each(starts.len()),
            arguments! {
                root_offsets: &grammar.root_offsets,
                count: starts.len(),
                root_starts,
                file_starts: &starts,
            },
        )?;
        let parents = parents(gpu, &grammar)?;
        let weights = file_weights(gpu, &grammar)?;
        let (text_offsets, texts) = texts(
            gpu,
            &grammar,
            terminals,
            &lengths,
            &body_starts,
            &parents.body_rules,
        )?;
        Ok(DeviceStructures {
            file_starts: gpu.download(&starts)?,
            grammar,
            signatures,
            body_starts,
            root_starts,
            parents,
            text_offsets,
            texts,
            weights,
        })
    }
}

/// Lengths and signatures of symbols, and starts of body symbols, from those of terminals.
#[expect(clippy::type_complexity, reason = "three arrays that one pass makes")]
pub(super) fn measure(
    gpu: &Gpu,
    grammar: &DeviceGrammar,
    terminal_lengths: &[u64],
    terminal_signatures: &[u32],
) -> Result<(Buffer<u64>, Buffer<u32>, Buffer<u64>), GpuError> {
    let lengths = gpu.allocate::<u64>(grammar.symbol_count())?;
    gpu.upload_to(&lengths, 0, terminal_lengths)?;
    let signatures = gpu.allocate::<u32>(grammar.symbol_count())?;
    gpu.upload_to(&signatures, 0, terminal_signatures)?;
    let body_starts = gpu.allocate::<u64>(grammar.symbols.len())?;
    for level in grammar.level_offsets.windows(2) {
        gpu.launch(
            SOURCE.kernel("measure_level_kernel"),
            Launch::each((level[1] - level[0]) as usize),
            arguments! {
                rule_offsets: &grammar.rule_offsets,
                symbols: &grammar.symbols,
                terminal_count: grammar.terminal_count,
                first: level[0],
                end: level[1],
                lengths,
                signatures,
                body_starts,
            },
        )?;
    }
    Ok((lengths, signatures, body_starts))
}

/// Where each symbol of the root begins in the segment, and where the last one ends, by the lengths of all symbols.
pub(super) fn root_starts(
    gpu: &Gpu,
    grammar: &DeviceGrammar,
    lengths: &Buffer<u64>,
) -> Result<Buffer<u64>, GpuError> {
    let count = grammar.root.len();
    let root_lengths = gpu.allocate::<u64>(count)?;
    gpu.launch(
        SOURCE
            .kernel("gather_lengths_kernel")
            .moving(count * (4 + 8)),
        Launch::each(count),
        arguments! { root: &grammar.root, count, lengths, out: &root_lengths },
    )?;
    scan(gpu, &root_lengths)
}

/// Where symbols occur, in bodies and in the root: positions sorted by symbol.
pub(super) fn parents(gpu: &Gpu, grammar: &DeviceGrammar) -> Result<DeviceParents, GpuError> {
    let group = |symbols: &Buffer<u32>| {
        let count = symbols.len();
        let (keys, positions) = (gpu.allocate::<u32>(count)?, gpu.allocate::<u32>(count)?);
        gpu.launch_looping(
            SOURCE.kernel("place_keys_kernel").whole(),
            count,
            arguments! { symbols, count, keys, positions },
        )?;
        // Symbols are u32.
        let end = grammar.symbol_count() as u32;
        let bits = u32::BITS - end.leading_zeros();
        let (keys, positions) = sort_pairs(gpu, keys, positions, 0..bits)?;
        Ok::<_, GpuError>((offsets_of_keys(gpu, &keys, end)?, positions))
    };
    let (offsets, places) = group(&grammar.symbols)?;
    let (root_offsets, root_positions) = group(&grammar.root)?;
    Ok(DeviceParents {
        offsets,
        places,
        body_rules: expand(gpu, &grammar.rule_offsets, grammar.symbols.len())?,
        root_offsets,
        root_positions,
    })
}

/// Texts of tokens and short rules, from below.
fn texts(
    gpu: &Gpu,
    grammar: &DeviceGrammar,
    terminals: Terminals<'_>,
    lengths: &Buffer<u64>,
    body_starts: &Buffer<u64>,
    body_rules: &Buffer<u32>,
) -> Result<(Buffer<u32>, Buffer<u8>), GpuError> {
    let sizes = gpu.allocate::<u32>(lengths.len())?;
    gpu.launch(
        SOURCE.kernel("text_sizes_kernel").whole(),
        Launch::each(lengths.len()),
        arguments! {
            lengths,
            terminal_count: grammar.terminal_count,
            symbol_count: lengths.len(),
            sizes,
        },
    )?;
    let offsets: Buffer<u32> = scan(gpu, &sizes)?;
    let texts = gpu.allocate::<u8>(gpu.item(&offsets, lengths.len())? as usize)?;
    gpu.upload_to(&texts, 0, terminals.bytes)?;
    for level in grammar.level_symbols.windows(2) {
        gpu.launch(
            SOURCE.kernel("copy_texts_kernel"),
            Launch::each((level[1] - level[0]) as usize),
            arguments! {
                symbols: &grammar.symbols,
                body_rules,
                terminal_count: grammar.terminal_count,
                first: level[0],
                end: level[1],
                body_starts,
                text_offsets: &offsets,
                texts,
            },
        )?;
    }
    Ok((offsets, texts))
}

/// Weights of symbols by file, top-down by level. A table that turns out too small is made anew, twice as large.
fn file_weights(gpu: &Gpu, grammar: &DeviceGrammar) -> Result<FileWeights, GpuError> {
    let root_files = expand(gpu, &grammar.root_offsets, grammar.root.len())?;
    let likely = grammar.symbols.len() + grammar.root.len();
    let mut slots = likely.next_power_of_two().max(SLOTS_MIN);
    loop {
        let keys = gpu.filled::<u64>(slots, 0xff)?;
        let weights = gpu.zeroed::<u32>(slots)?;
        // At most the number of slots, which bounds the pairs.
        let entries = gpu.allocate::<u64>(slots)?;
        let state = gpu.zeroed::<u32>(STATE_WORDS)?;
        let mask = slots as u64 - 1;
        let launch = |items: usize, tile: usize| {
            let launch = Launch::tiles(items, tile);
            let blocks = launch.blocks.min(gpu.facts().processors * RESIDENT);
            Launch { blocks, ..launch }
        };
        gpu.launch(
            SOURCE
                .kernel("root_weights_kernel")
                .moving(grammar.root.len() * 2 * 4),
            launch(grammar.root.len(), THREADS as usize * ADDS),
            arguments! {
                root: &grammar.root,
                count: grammar.root.len(),
                root_files,
                terminal_count: grammar.terminal_count,
                keys,
                weights,
                mask,
                entries,
                state,
            },
        )?;
        for level in grammar.level_offsets.windows(2).rev() {
            gpu.copy_within(&state, SEEN, ENTRIES, 1)?;
            gpu.launch(
                SOURCE.kernel("level_weights_kernel"),
                launch(slots, ENTRIES_TILE),
                arguments! {
                    rule_offsets: &grammar.rule_offsets,
                    symbols: &grammar.symbols,
                    terminal_count: grammar.terminal_count,
                    first: level[0],
                    end: level[1],
                    keys,
                    weights,
                    mask,
                    entries,
                    state,
                },
            )?;
        }
        let state = gpu.download(&state)?;
        if state[IS_FULL] == 0 {
            return Ok(FileWeights {
                keys,
                weights,
                entries: state[PAIRS] as usize,
            });
        }
        slots *= 2;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::grammar::test_grammars::{self, TestGrammar};
    use crate::{Parents, weights};

    pub(crate) fn structures(
        gpu: &Gpu,
        grammar: &TestGrammar,
    ) -> Result<DeviceStructures, GpuError> {
        let mut offsets = vec![0u64];
        for token in &grammar.tokens {
            offsets.push(offsets[offsets.len() - 1] + token.len() as u64);
        }
        let terminals = Terminals {
            offsets: &offsets,
            bytes: &grammar.tokens.concat(),
            signatures: &grammar.signatures().bits[..grammar.tokens.len()],
        };
        let uploaded = DeviceGrammar::upload(gpu, grammar.view())?;
        DeviceStructures::new(gpu, uploaded, terminals)
    }

    fn check(gpu: &Gpu, grammar: &TestGrammar) -> Result<(), GpuError> {
        let view = grammar.view();
        let found = structures(gpu, grammar)?;
        let lengths = grammar.lengths();
        assert_eq!(found.file_starts, lengths.file_starts);
        assert_eq!(gpu.download(&found.signatures)?, grammar.signatures().bits);
        let root_starts = gpu.download(&found.root_starts)?;
        for (position, &start) in root_starts.iter().enumerate() {
            assert_eq!(start, lengths.root_start(view, position));
        }
        let parents = Parents::new(view);
        let body_rules = gpu.download(&found.parents.body_rules)?;
        let places = gpu.download(&found.parents.places)?;
        let body_starts = gpu.download(&found.body_starts)?;
        assert_eq!(gpu.download(&found.parents.offsets)?, parents.offsets);
        for (&place, (&rule, &index)) in places
            .iter()
            .zip(parents.rules.iter().zip(&parents.indexes))
        {
            assert_eq!(body_rules[place as usize], rule);
            assert_eq!(place - view.rule_offsets[rule as usize], index);
            assert_eq!(
                body_starts[place as usize],
                lengths.body_start(view, rule, index as usize)
            );
        }
        assert_eq!(
            gpu.download(&found.parents.root_offsets)?,
            parents.root_offsets
        );
        assert_eq!(
            gpu.download(&found.parents.root_positions)?,
            parents.root_positions
        );
        let text = grammar.symbol_text();
        assert_eq!(gpu.download(&found.text_offsets)?, text.offsets);
        let texts = gpu.download(&found.texts)?;
        assert_eq!(texts, text.bytes[..texts.len()]);

        let keys = gpu.download(&found.weights.keys)?;
        let table = keys.iter().zip(gpu.download(&found.weights.weights)?);
        let mut table: Vec<(u64, u64)> = table
            .filter(|&(&key, _)| key != u64::MAX)
            .map(|(&key, weight)| (key, u64::from(weight)))
            .collect();
        table.sort_unstable();
        let mut expected = Vec::new();
        for file in 0..view.files() as u32 {
            let weights = weights(view, view.root_range(file), 1 << 20);
            for (symbol, &weight) in weights.iter().enumerate().filter(|&(_, &w)| w > 0) {
                expected.push(((symbol as u64) << 32 | u64::from(file), weight));
            }
        }
        expected.sort_unstable();
        assert_eq!(table, expected);
        assert_eq!(found.weights.entries, expected.len());
        Ok(())
    }

    #[test]
    fn structures_equal_those_of_the_cpu_on_small_grammars() {
        on_devices(|gpu| {
            let mut small = test_grammars::all_small().step_by(997);
            small.try_for_each(|grammar| check(gpu, &grammar))
        });
    }

    #[test]
    fn structures_equal_those_of_the_cpu_on_random_and_extreme_grammars() {
        on_devices(|gpu| {
            test_grammars::random_many(12).try_for_each(|grammar| check(gpu, &grammar))?;
            check(gpu, &test_grammars::deep_chain(60))?;
            check(gpu, &test_grammars::long_body(5_000))?;
            check(gpu, &test_grammars::many_files(300))?;
            check(gpu, &test_grammars::runs(12))
        });
    }
}
