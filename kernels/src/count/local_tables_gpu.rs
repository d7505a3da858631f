//! The words of each file, bottom-up: for each rule a table of its words.
//!
//! The invariant: tables are those of the top-down traversal, bit for bit. A
//! rule adds up the tables of its body as, top-down, a symbol adds up the lists
//! of the rules that use it: words stand where files stood, and lengths bound
//! rows where weights did. [`Traversal::cheaper`] says which costs less.

use std::iter;
use std::ops::Range;

use crate::count::merge_gpu::{self, MergePlan};
use crate::count::tables_gpu::DeviceTable;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::levels::{self, STATE_ITEMS};
use crate::gpu::primitives;
use crate::grammar::weights_gpu::weights;
use crate::grammar::words_gpu::COLUMNS_MAX;
use crate::grammar::words_gpu::{BODY_TILE, DeviceWords};

/// Blocks of a multiprocessor.
const RESIDENT: u32 = 4;

/// Bytes of an entry, and of a counter of a table that is too long for a block.
const ENTRY_BYTES: u64 = 8;

/// More words than this do not fit into keys beside rows.
const WORDS_MAX: u32 = 1 << (u32::BITS - merge_gpu::WINDOW.ilog2());

pub(crate) static SOURCE: Source = Source {
    name: "local_tables.cu",
    text: include_str!("local_tables.cu"),
    headers: &[levels::HEADER],
    constants: &[
        ("LOCAL_THREADS", THREADS as u64),
        ("LOCAL_TILE", BODY_TILE as u64),
    ],
};

/// In which direction counts by file are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traversal {
    /// The files of each rule go to the symbols of its body.
    TopDown,
    /// The words of each symbol go to the rules that use it.
    BottomUp,
}

/// What each traversal of a grammar takes.
#[derive(Clone, Copy, Debug)]
pub struct TraversalCosts {
    /// Entries that lists of files add up, top-down.
    pub down: u64,
    /// Entries that tables of words add up, bottom-up.
    pub up: u64,
    /// Counters of tables that are too long for a block: one for every word there is, for each such table.
    pub counters: u64,
}

impl TraversalCosts {
    /// Counts the entries that either adds up.
    ///
    /// Work: a pass over all symbols, and two walks over the levels of rules.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn new(gpu: &Gpu, grammar: &DeviceWords) -> Result<TraversalCosts, GpuError> {
        let terminals = grammar.terminal_count;
        let weights = weights(gpu, grammar)?;
        let lengths = lengths(gpu, grammar)?;
        let row_weights = row_lengths(gpu, grammar, &weights, &lengths)?;
        let costs = gpu.zeroed::<u64>(3)?;
        let items = grammar.root.len() + grammar.symbols.len() + row_weights.len();
        // All are u32: a grammar's symbols are.
        let arguments = arguments! {
            root: &grammar.root,
            root_count: grammar.root.len() as u32,
            symbols: &grammar.symbols,
            owners: &grammar.owners,
            symbol_count: grammar.symbols.len() as u32,
            terminals,
            rule_weights: weights.at(terminals as usize),
            lengths,
            files: grammar.files() as u32,
            row_weights,
            rows: row_weights.len() as u32,
            window: merge_gpu::WINDOW,
            costs,
        };
        gpu.launch_looping(
            SOURCE.kernel("traversal_costs_kernel").whole(),
            items,
            arguments,
        )?;
        let costs = gpu.download(&costs)?;
        Ok(TraversalCosts {
            down: costs[0],
            up: costs[1],
            counters: costs[2],
        })
    }
}

impl Traversal {
    /// Which costs less for a grammar over words. Few files are counted top-down, with a counter for each.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn cheaper(gpu: &Gpu, grammar: &DeviceWords) -> Result<Traversal, GpuError> {
        if grammar.terminal_count > WORDS_MAX || grammar.files() <= COLUMNS_MAX {
            return Ok(Traversal::TopDown);
        }
        let TraversalCosts { down, up, counters } = TraversalCosts::new(gpu, grammar)?;
        // Counters are written, counted in and read; one takes half as long as an entry, which is sorted.
        let room = gpu.memory_limit().saturating_sub(gpu.memory_used());
        let fits =
            up <= merge_gpu::ENTRIES_MAX && (up + counters).saturating_mul(ENTRY_BYTES) < room;
        Ok(if fits && up.saturating_add(counters / 2) < down {
            Traversal::BottomUp
        } else {
            Traversal::TopDown
        })
    }
}

/// `[rules]`: words of each rule that occurs.
pub(crate) fn lengths(gpu: &Gpu, words: &DeviceWords) -> Result<Buffer<u32>, GpuError> {
    // The counters of the walk lie behind the others, so that one fill makes both 0.
    let rules = words.rules();
    let mut lengths = gpu.zeroed::<u32>(rules + STATE_ITEMS)?;
    let walk = &words.bodies_walk;
    let mut arguments = arguments! {
        symbols: &words.symbols,
        owners: &words.owners,
        terminals: words.terminal_count,
        lengths,
    }
    .to_vec();
    arguments.extend(walk.arguments(lengths.at(rules)));
    let launch = Launch {
        blocks: walk.blocks(gpu, RESIDENT),
        threads: THREADS,
    };
    gpu.launch(SOURCE.kernel("lengths_kernel"), launch, &arguments)?;
    lengths.truncate(rules);
    Ok(lengths)
}

/// `[files + rules]`: words of each file, then of each rule that occurs.
fn row_lengths(
    gpu: &Gpu,
    grammar: &DeviceWords,
    weights: &Buffer<u32>,
    lengths: &Buffer<u32>,
) -> Result<Buffer<u32>, GpuError> {
    let (files, rules, root_count) = (grammar.files(), grammar.rules(), grammar.root.len());
    let rows = gpu.zeroed::<u32>(files + rules)?;
    // All are u32: a grammar's symbols are.
    let arguments = arguments! {
        root: &grammar.root,
        root_files: &grammar.root_files,
        root_count: root_count as u32,
        terminals: grammar.terminal_count,
        lengths,
        rule_weights: weights.at(grammar.terminal_count as usize),
        rules: rules as u32,
        files: files as u32,
        weights: &rows,
    };
    gpu.launch_looping(
        SOURCE.kernel("row_lengths_kernel"),
        root_count + rules,
        arguments,
    )?;
    Ok(rows)
}

/// For each file the words that occur in it, with counts: as [`crate::gpu::file_word_counts`], bottom-up.
///
/// Memory: for each rule and file 8 bytes a word, and 4 bytes for every word there is if they have more than some hundred.
///
/// # Errors
///
/// [`GpuError`].
pub fn file_word_counts_bottom_up(
    gpu: &Gpu,
    grammar: &DeviceWords,
) -> Result<DeviceTable, GpuError> {
    let (files, rules) = (grammar.files(), grammar.rules());
    let rows = files + rules;
    let root_count = grammar.root.len();
    let weights = weights(gpu, grammar)?;
    let rule_weights = || weights.at(grammar.terminal_count as usize);
    let lengths = lengths(gpu, grammar)?;
    // All are u32: a grammar's symbols are.
    let counts = gpu.allocate::<u32>(rows)?;
    let arguments = arguments! {
        root_offsets: &grammar.root_offsets,
        files: files as u32,
        rule_offsets: &grammar.rule_offsets,
        rules: rules as u32,
        rule_weights: rule_weights(),
        counts,
    };
    gpu.launch_looping(SOURCE.kernel("row_uses_kernel").whole(), rows, arguments)?;
    let use_offsets = primitives::scan::<u32, u32>(gpu, &counts)?;
    drop(counts);
    let uses = root_count + grammar.symbols.len();
    let holders = gpu.allocate::<u32>(uses)?;
    let arguments = arguments! {
        root: &grammar.root,
        root_count: root_count as u32,
        symbols: &grammar.symbols,
        owners: &grammar.owners,
        symbol_count: grammar.symbols.len() as u32,
        rule_offsets: &grammar.rule_offsets,
        rule_weights: rule_weights(),
        use_offsets,
        files: files as u32,
        holders,
    };
    gpu.launch_looping(SOURCE.kernel("row_holders_kernel").whole(), uses, arguments)?;
    let row_weights = row_lengths(gpu, grammar, &weights, &lengths)?;
    drop((lengths, weights));
    let first = files as u32;
    let levels = (0..grammar.levels()).map(|level| {
        let Range { start, end } = grammar.level_rules(level);
        first + start..first + end
    });
    let steps: Vec<Range<u32>> = levels.chain(iter::once(0..first)).collect();
    let words = grammar.terminal_count as usize;
    let plan = MergePlan::new(gpu, use_offsets, holders, row_weights, words, &steps)?;
    plan.merge_own(gpu, files)?.table(gpu, files)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::grammar::test_grammars::{self, TestGrammar};
    use crate::{FileCounting, file_word_counts, fold_expansions};

    static GO: AtomicBool = AtomicBool::new(false);

    fn check(gpu: &Gpu, grammar: &TestGrammar) -> Result<(), GpuError> {
        let words = grammar.word_grammar();
        let view = words.view();
        let device = DeviceWords::upload(gpu, view)?;
        let twin = fold_expansions(view, |_| 1, 0, u32::wrapping_add);
        let twin = &twin[view.terminal_count as usize..];
        let found = gpu.download(&lengths(gpu, &device)?)?;
        assert_eq!(found, twin[..found.len()], "{grammar:?}");
        let twin = file_word_counts(view, FileCounting::Words, &GO).expect("not stopped");
        let found = file_word_counts_bottom_up(gpu, &device)?.download(gpu)?;
        assert_eq!(found, twin, "{grammar:?}");
        Traversal::cheaper(gpu, &device).map(|_| ())
    }

    #[test]
    fn words_of_files_from_below_equal_those_of_the_twin() {
        on_devices(|gpu| {
            let small = test_grammars::all_small().step_by(5_003);
            let extreme = [
                test_grammars::deep_chain(100),
                test_grammars::long_body(9_000),
                test_grammars::runs(12),
                test_grammars::many_files(31),
                test_grammars::many_files(300),
                test_grammars::repeated_text(2),
            ];
            let random = test_grammars::random_many(2);
            let mut grammars = small.chain(random).chain(extreme);
            grammars.try_for_each(|grammar| check(gpu, &grammar))
        });
    }

    #[test]
    fn many_copies_of_one_text_are_counted_from_below_and_few_files_from_above() {
        on_devices(|gpu| {
            // A large rule for 600 files, and the same rules for one.
            let copies = test_grammars::copies(600);
            let device = DeviceWords::upload(gpu, copies.word_grammar().view())?;
            assert_eq!(Traversal::cheaper(gpu, &device)?, Traversal::BottomUp);
            let single = test_grammars::repeated_text(2);
            let device = DeviceWords::upload(gpu, single.word_grammar().view())?;
            assert_eq!(Traversal::cheaper(gpu, &device)?, Traversal::TopDown);
            check(gpu, &copies)
        });
    }
}
