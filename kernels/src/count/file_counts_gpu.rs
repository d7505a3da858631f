//! The files in which each word occurs, with counts, on a device.
//!
//! The invariant: tables are those of [`crate::word_file_counts`] and
//! [`crate::file_word_counts`], bit for bit. With few files every symbol has a
//! row of counters, one a file; with many a list, whose room is bounded by the
//! symbol's weight, so that one allocation holds all; or words are decoded
//! and counted, where they are not many more than symbols; or the words of each
//! rule are counted from below, where that adds up less.

use std::iter;
use std::ops::Range;
use std::sync::OnceLock;

use crate::count::file_words_gpu::FileWords;
use crate::count::local_tables_gpu::{Traversal, file_word_counts_bottom_up};
use crate::count::merge_gpu::{self, Lists, MergePlan};
use crate::count::tables_gpu::{self, DeviceTable};
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::error::GpuError;
use crate::gpu::primitives;
use crate::grammar::weights_gpu::{file_cells, weights, words_by_count};
use crate::grammar::words_gpu::COLUMNS_MAX;
use crate::grammar::words_gpu::DeviceWords;

/// What counts by file are found from.
#[derive(Debug)]
pub struct FileUses {
    counting: Counting,
    /// Where each symbol is used, and in which order lists are merged; where words are counted otherwise, only once n-grams have
    /// asked for lists.
    lists: OnceLock<ListUses>,
}

/// How words are counted by file.
#[derive(Debug)]
enum Counting {
    /// A counter for each symbol and file.
    Cells,
    /// By the words of files, which are decoded.
    Words(FileWords),
    /// From below; nothing is kept.
    BottomUp,
    /// By the files of each symbol.
    Lists,
}

/// Lists of words come by weight, for rows of like weight are merged best together.
#[derive(Debug)]
struct ListUses {
    plan: MergePlan,
    /// `[words]`: the row of each.
    row_of: Buffer<u32>,
}

impl FileUses {
    /// Sorts all places by symbol, or counts the words of files.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn new(gpu: &Gpu, grammar: &DeviceWords) -> Result<FileUses, GpuError> {
        let counting = if grammar.files() <= COLUMNS_MAX {
            Counting::Cells
        } else {
            match FileWords::new(gpu, grammar)? {
                Some(words) => Counting::Words(words),
                None => match Traversal::cheaper(gpu, grammar)? {
                    Traversal::BottomUp => Counting::BottomUp,
                    Traversal::TopDown => return FileUses::of_lists(gpu, grammar),
                },
            }
        };
        Ok(FileUses {
            counting,
            lists: OnceLock::new(),
        })
    }

    /// As [`FileUses::new`], for lists, however few files or words there are.
    pub(crate) fn of_lists(gpu: &Gpu, grammar: &DeviceWords) -> Result<FileUses, GpuError> {
        Ok(FileUses {
            counting: Counting::Lists,
            lists: ListUses::new(gpu, grammar)?.into(),
        })
    }

    /// As [`FileUses::new`], from below, whatever costs less.
    #[cfg(test)]
    fn from_below() -> FileUses {
        FileUses {
            counting: Counting::BottomUp,
            lists: OnceLock::new(),
        }
    }

    /// The words of files, if they were counted.
    pub(crate) fn words(&self) -> Option<&FileWords> {
        match &self.counting {
            Counting::Words(words) => Some(words),
            Counting::Cells | Counting::BottomUp | Counting::Lists => None,
        }
    }

    /// Where symbols are used.
    fn list_uses(&self, gpu: &Gpu, grammar: &DeviceWords) -> Result<&ListUses, GpuError> {
        if let Some(lists) = self.lists.get() {
            return Ok(lists);
        }
        let built = ListUses::new(gpu, grammar)?;
        Ok(self.lists.get_or_init(|| built))
    }

    /// The files of each symbol, in order; `None` with few files. Words are in some order, rules in theirs.
    pub(crate) fn lists(
        &self,
        gpu: &Gpu,
        grammar: &DeviceWords,
    ) -> Result<Option<Lists>, GpuError> {
        if let Counting::Cells = self.counting {
            return Ok(None);
        }
        let words = grammar.terminal_count as usize;
        let plan = &self.list_uses(gpu, grammar)?.plan;
        plan.merge_own(gpu, words).map(Some)
    }
}

impl ListUses {
    /// Sorts all places by symbol.
    fn new(gpu: &Gpu, grammar: &DeviceWords) -> Result<ListUses, GpuError> {
        let weights = weights(gpu, grammar)?;
        let terminals = grammar.terminal_count;
        let (order, counts) = words_by_count(gpu, &weights, terminals, u32::MAX)?;
        let row_of = gpu.allocate::<u32>(terminals as usize)?;
        let arguments = arguments! { order, words: terminals, row_of };
        gpu.launch_looping(
            merge_gpu::SOURCE.kernel("rows_of_words_kernel").whole(),
            terminals as usize,
            arguments,
        )?;
        let row_weights = gpu.allocate::<u32>(weights.len())?;
        gpu.copy(&row_weights, 0, &weights, weights.len())?;
        gpu.copy(&row_weights, 0, &counts, counts.len())?;
        let root_count = grammar.root.len();
        let count = root_count + grammar.symbols.len();
        let (keys, holders) = (gpu.allocate::<u32>(count)?, gpu.allocate::<u32>(count)?);
        // All are u32: a grammar's symbols are.
        let none = grammar.symbol_count() as u32;
        let arguments = arguments! {
            root: &grammar.root,
            root_files: &grammar.root_files,
            root_count: root_count as u32,
            symbols: &grammar.symbols,
            owners: &grammar.owners,
            symbol_count: grammar.symbols.len() as u32,
            rule_weights: weights.at(terminals as usize),
            row_of,
            terminals,
            files: grammar.files() as u32,
            none,
            keys,
            holders,
        };
        gpu.launch_looping(
            merge_gpu::SOURCE.kernel("use_keys_kernel").whole(),
            count,
            arguments,
        )?;
        let bits = u32::BITS - none.leading_zeros();
        let (keys, holders) = primitives::sort_pairs(gpu, keys, holders, 0..bits)?;
        let use_offsets = primitives::offsets_of_keys(gpu, &keys, none)?;
        drop(keys);
        let levels = (0..grammar.levels()).rev().map(|level| {
            let Range { start, end } = grammar.level_rules(level);
            terminals + start..terminals + end
        });
        let steps: Vec<Range<u32>> = levels.chain(iter::once(0..terminals)).collect();
        let files = grammar.files();
        let plan = MergePlan::new(gpu, use_offsets, holders, row_weights, files, &steps)?;
        Ok(ListUses { plan, row_of })
    }
}

/// For each word the files that it occurs in, with counts.
///
/// # Errors
///
/// [`GpuError`].
pub fn word_file_counts(
    gpu: &Gpu,
    grammar: &DeviceWords,
    uses: &FileUses,
) -> Result<DeviceTable, GpuError> {
    let (words, files) = (grammar.terminal_count as usize, grammar.files());
    match &uses.counting {
        Counting::Cells => {
            let cells = file_cells(gpu, grammar)?;
            tables_gpu::of_cells(gpu, &cells, words, files, (files, 1))
        }
        Counting::Words(counted) => counted.table(gpu, grammar, false),
        Counting::BottomUp => file_word_counts_bottom_up(gpu, grammar)?.transposed(gpu, words),
        Counting::Lists => rows_of_words(gpu, grammar, uses.list_uses(gpu, grammar)?),
    }
}

/// For each word its files, from lists.
fn rows_of_words(
    gpu: &Gpu,
    grammar: &DeviceWords,
    ListUses { plan, row_of }: &ListUses,
) -> Result<DeviceTable, GpuError> {
    let words = grammar.terminal_count as usize;
    let merged = plan.merge_own(gpu, words)?;
    let starts = gpu.allocate::<u32>(words)?;
    let lengths = gpu.allocate::<u32>(words)?;
    let arguments = arguments! {
        row_of,
        words: grammar.terminal_count,
        starts: &merged.starts,
        lengths: &merged.lengths,
        starts_out: &starts,
        lengths_out: &lengths,
    };
    gpu.launch_looping(
        merge_gpu::SOURCE.kernel("word_rows_kernel"),
        words,
        arguments,
    )?;
    let entries = merged.entries;
    Lists {
        starts,
        lengths,
        entries,
    }
    .table(gpu, words)
}

/// For each file the words that occur in it, with counts.
///
/// # Errors
///
/// [`GpuError`].
pub fn file_word_counts(
    gpu: &Gpu,
    grammar: &DeviceWords,
    uses: &FileUses,
) -> Result<DeviceTable, GpuError> {
    let (words, files) = (grammar.terminal_count as usize, grammar.files());
    match &uses.counting {
        Counting::Cells => {
            let cells = file_cells(gpu, grammar)?;
            tables_gpu::of_cells(gpu, &cells, files, words, (1, files))
        }
        Counting::Words(counted) => counted.table(gpu, grammar, true),
        Counting::BottomUp => file_word_counts_bottom_up(gpu, grammar),
        Counting::Lists => word_file_counts(gpu, grammar, uses)?.transposed(gpu, files),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::grammar::test_grammars::{self, TestGrammar};
    use crate::{FileCounting, file_word_counts as file_words, word_file_counts as word_files};

    static GO: AtomicBool = AtomicBool::new(false);

    fn check(gpu: &Gpu, grammar: &TestGrammar) -> Result<(), GpuError> {
        let words = grammar.word_grammar();
        let view = words.view();
        let device = DeviceWords::upload(gpu, view)?;
        let counting = FileCounting::Words;
        let by_word = word_files(view, counting, &GO).expect("not stopped");
        let by_file = file_words(view, counting, &GO).expect("not stopped");
        for uses in [
            FileUses::new(gpu, &device)?,
            FileUses::of_lists(gpu, &device)?,
            FileUses::from_below(),
        ] {
            let found = word_file_counts(gpu, &device, &uses)?.download(gpu)?;
            assert_eq!(found, by_word, "{grammar:?}");
            let found = file_word_counts(gpu, &device, &uses)?.download(gpu)?;
            assert_eq!(found, by_file, "{grammar:?}");
        }
        Ok(())
    }

    #[test]
    fn files_of_words_of_small_grammars_equal_those_of_the_twin() {
        on_devices(|gpu| {
            let mut grammars = test_grammars::all_small().step_by(5_003);
            grammars.try_for_each(|grammar| check(gpu, &grammar))
        });
    }

    #[test]
    fn files_of_words_of_random_and_extreme_grammars_equal_those_of_the_twin() {
        on_devices(|gpu| {
            let extreme = [
                test_grammars::deep_chain(100),
                test_grammars::long_body(9_000),
                test_grammars::runs(12),
                test_grammars::many_files(31),
                test_grammars::many_files(33),
                test_grammars::many_files(300),
                test_grammars::repeated_text(2),
            ];
            let mut grammars = test_grammars::random_many(2).chain(extreme);
            grammars.try_for_each(|grammar| check(gpu, &grammar))
        });
    }
}
