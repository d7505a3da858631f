//! File counts: for each word its files, and for each file its words, with counts.
//!
//! Invariant: tables are those of the current texts. Each segment makes a table, which stays in the cache, by the cheapest of the
//! access paths below; tables of segments are merged with the numbers of the corpus; edits change the rows that they touch.

use std::sync::Arc;
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{self, DeviceTable, Gpu};
use zipfdb_kernels::{
    CountTable, FileCounting, file_word_counts, word_file_counts, word_set_counts,
};

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer};
use super::corpus_view::CorpusView;
use super::correction::corrected;
use super::merge::{merge, renumber};
use super::numbering::WordSource;
use super::pending_view::{PendingTable, PendingView};
use super::placement::{DeviceOperation, PlacementPlan};
use super::stored_view::{Kept, StoredView};
use super::vocabulary::Vocabulary;
use crate::Result;
use crate::overlay::changed_count::changed;
use crate::runtime::device::OnDevice;
use crate::runtime::interrupt::check;
use crate::segment::cost::{
    COUNT_ALL_SYMBOL_COST, DEVICE_FILE_COUNT_COST, SYMBOL_COST, Size, WORD_COST,
};
use crate::segment::{FileWords, SegmentView, StructureKind, WordFiles};

/// A row for each file of a segment: its words with counts.
pub(crate) struct FileWordTable;

/// A row for each word of a segment: its files with counts.
pub(crate) struct WordFileTable;

impl PartitionOperation for FileWordTable {
    type Question<'a> = ();
    type Answer = Arc<CountTable>;

    const PATHS: &'static [AccessPath<FileWordTable>] = &[
        AccessPath {
            name: PathName::CountTable,
            needs: &[],
            cost: |(), segment| table_cost(segment),
            run: |(), segment, run| Ok(segment.file_words(run.stop)?.clone()),
        },
        AccessPath {
            name: PathName::WordTotals,
            needs: &[StructureKind::Words, StructureKind::Totals],
            cost: |(), segment| only_file_cost(segment),
            run: |(), segment, run| Ok(segment.file_words(run.stop)?.clone()),
        },
        AccessPath {
            name: PathName::FileWeights,
            needs: &[StructureKind::WordGrammar, StructureKind::Totals],
            cost: |(), segment| counting_cost(segment, FileCounting::Rules),
            run: |(), segment, run| segment.count_files(FileCounting::Rules, run),
        },
        AccessPath {
            name: PathName::ByWords,
            needs: &[StructureKind::WordGrammar, StructureKind::Totals],
            cost: |(), segment| counting_cost(segment, FileCounting::Words),
            run: |(), segment, run| segment.count_files(FileCounting::Words, run),
        },
    ];
}

impl PartitionOperation for WordFileTable {
    type Question<'a> = ();
    type Answer = Arc<CountTable>;

    const PATHS: &'static [AccessPath<WordFileTable>] = &[
        AccessPath {
            name: PathName::CountTable,
            needs: &[],
            cost: |(), segment| table_cost(segment),
            run: |(), segment, run| Ok(segment.word_files(run.stop)?.clone()),
        },
        AccessPath {
            name: PathName::WordTotals,
            needs: &[StructureKind::Words, StructureKind::Totals],
            cost: |(), segment| only_file_cost(segment),
            run: |(), segment, run| Ok(segment.word_files(run.stop)?.clone()),
        },
        AccessPath {
            name: PathName::FileWeights,
            needs: &[StructureKind::WordGrammar, StructureKind::Totals],
            cost: |(), segment| counting_cost(segment, FileCounting::Rules),
            run: |(), segment, run| segment.count_words(FileCounting::Rules, run),
        },
        AccessPath {
            name: PathName::ByWords,
            needs: &[StructureKind::WordGrammar, StructureKind::Totals],
            cost: |(), segment| counting_cost(segment, FileCounting::Words),
            run: |(), segment, run| segment.count_words(FileCounting::Words, run),
        },
    ];
}

/// Transposing the other table, if that is in memory.
fn table_cost(segment: &SegmentView) -> Option<f64> {
    let tables = [StructureKind::WordFiles, StructureKind::FileWords];
    tables
        .iter()
        .any(|&table| segment.has(table))
        .then_some(0.0)
}

/// A single file has the words of the segment.
fn only_file_cost(segment: &SegmentView) -> Option<f64> {
    let is_only = segment.files().is_ok_and(|files| files.len() == 1);
    is_only.then(|| segment.size().1 as f64 * WORD_COST)
}

/// Counting files in one of two ways.
fn counting_cost(segment: &SegmentView, counting: FileCounting) -> Option<f64> {
    let symbols = segment.size().0 as f64;
    // The kernels choose the faster one.
    if segment.counting() == counting {
        Some(symbols * COUNT_ALL_SYMBOL_COST / segment.thread_count())
    } else {
        Some(f64::INFINITY)
    }
}

impl DeviceOperation for FileWordTable {
    fn device_work(size: Size) -> f64 {
        size.symbols as f64 * DEVICE_FILE_COUNT_COST
    }

    fn run_on((): &(), segment: &SegmentView, device: &OnDevice<'_>) -> Result<Arc<CountTable>> {
        let begin = Instant::now();
        let table = segment.file_words_on(device)?;
        Ok(segment.hold_file_words(table, begin.elapsed().as_nanos() as u64))
    }
}

impl DeviceOperation for WordFileTable {
    fn device_work(size: Size) -> f64 {
        FileWordTable::device_work(size)
    }

    fn run_on((): &(), segment: &SegmentView, device: &OnDevice<'_>) -> Result<Arc<CountTable>> {
        let begin = Instant::now();
        let table = segment.word_files_on(device)?;
        Ok(segment.hold_word_files(table, begin.elapsed().as_nanos() as u64))
    }
}

/// For each file of a segment the count of words of a set.
pub(crate) struct WordSetTotals;

impl PartitionOperation for WordSetTotals {
    /// Whether each word of the segment is in the set.
    type Question<'a> = &'a (dyn Fn(u32) -> bool + Sync);
    type Answer = Vec<u64>;

    const PATHS: &'static [AccessPath<WordSetTotals>] = &[AccessPath {
        name: PathName::LocalTables,
        needs: &[StructureKind::WordGrammar],
        cost: |_, segment| {
            Some(segment.size().0 as f64 * SYMBOL_COST * 2.0 / segment.thread_count())
        },
        run: |is_in_set, segment, _| {
            let view = segment.word_grammar()?.view();
            Ok(word_set_counts(view, is_in_set))
        },
    }];
}

impl SegmentView {
    /// Makes the table of files, and stores it in the cache.
    fn count_files(&self, counting: FileCounting, run: Run<'_>) -> Result<Arc<CountTable>> {
        let table = self.pin_made(|| {
            self.totals()?;
            let view = self.word_grammar()?.view();
            let table = file_word_counts(view, counting, run.stop)?;
            Ok(Arc::new(FileWords(Arc::new(table))))
        })?;
        Ok(table.0.clone())
    }

    /// Makes the table of words, and stores it in the cache.
    fn count_words(&self, counting: FileCounting, run: Run<'_>) -> Result<Arc<CountTable>> {
        let table = self.pin_made(|| {
            self.totals()?;
            let view = self.word_grammar()?.view();
            let table = word_file_counts(view, counting, run.stop)?;
            Ok(Arc::new(WordFiles(Arc::new(table))))
        })?;
        Ok(table.0.clone())
    }

    /// As [`WordFileTable`], on a device.
    pub(super) fn word_files_on(&self, device: &OnDevice<'_>) -> Result<CountTable> {
        let parts = self.with_words(device, |gpu, on, _| {
            let table = gpu::word_file_counts(gpu, &on.grammar, on.file_uses(gpu)?)?;
            Ok(table.download(gpu)?)
        })?;
        let mut tables: Vec<CountTable> = (parts.into_iter())
            .map(|(part, mut table)| {
                part.add_to_files(&mut table);
                table
            })
            .collect();
        match tables.len() {
            1 => Ok(tables.swap_remove(0)),
            _ => merge(self.word_count()? as usize, tables, |_, word| word),
        }
    }

    /// As [`FileWordTable`], on a device.
    pub(super) fn file_words_on(&self, device: &OnDevice<'_>) -> Result<CountTable> {
        self.file_tables_on(device, |_, table| Ok(table))
    }

    /// The table of files on a device after `shorten`, or all of it where memory is too short for all files at a time.
    pub(super) fn file_tables_on(
        &self,
        device: &OnDevice<'_>,
        shorten: impl Fn(&Gpu, DeviceTable) -> Result<DeviceTable>,
    ) -> Result<CountTable> {
        let parts = self.with_words(device, |gpu, on, is_all| {
            let table = gpu::file_word_counts(gpu, &on.grammar, on.file_uses(gpu)?)?;
            // A file may have words in several parts.
            let table = if is_all { shorten(gpu, table)? } else { table };
            Ok(table.download(gpu)?)
        })?;
        let (parts, mut tables): (Vec<_>, Vec<CountTable>) = parts.into_iter().unzip();
        match tables.len() {
            1 => Ok(tables.swap_remove(0)),
            // The parts of a cut file are rows of the same number.
            _ => merge(self.files()?.len(), tables, |part: usize, row| {
                parts[part].first_file() + row
            }),
        }
    }
}

impl StoredView {
    /// As [`CorpusView::file_words`], of the stored files.
    fn file_words(&self, run: Run<'_>) -> Result<Arc<CountTable>> {
        let vocabulary = run.preparing("vocabulary", || self.vocabulary())?;
        let tables = || self.each_segment::<FileWordTable>(&(), run);
        if self.segments().len() == 1 {
            return Ok(tables()?.swap_remove(0));
        }
        self.kept(Kept::FileWords, run, CountTable::bytes, || {
            let tables = tables()?;
            let tables = tables.iter().map(|table| CountTable::clone(table));
            self.joined_files(tables.collect(), vocabulary)
        })
    }

    /// A table with a row for each file from those of all segments.
    pub(super) fn joined_files(
        &self,
        mut tables: Vec<CountTable>,
        vocabulary: &Vocabulary,
    ) -> Result<CountTable> {
        if tables.len() == 1 {
            return Ok(tables.swap_remove(0));
        }
        for (index, table) in tables.iter_mut().enumerate() {
            renumber(table, |word| vocabulary.number(index, word));
        }
        merge(self.files().len(), tables, |segment, row| {
            self.file_number(segment, row)
        })
    }

    /// As [`CorpusView::word_files`], of the stored files.
    fn word_files(&self, run: Run<'_>) -> Result<Arc<CountTable>> {
        let vocabulary = run.preparing("vocabulary", || self.vocabulary())?;
        let tables = || self.each_segment::<WordFileTable>(&(), run);
        if self.segments().len() == 1 {
            // The files of the only segment are those of the corpus, in the same order.
            return Ok(tables()?.swap_remove(0));
        }
        self.kept(Kept::WordFiles, run, CountTable::bytes, || {
            let tables = tables()?;
            let tables = tables.iter().enumerate().map(|(index, table)| {
                let mut table = CountTable::clone(table);
                let numbers = self.file_numbers(index)?;
                renumber(&mut table, |file| numbers[file as usize]);
                Ok(table)
            });
            let tables: Vec<CountTable> = tables.collect::<Result<_>>()?;
            merge(vocabulary.len(), tables, |segment, row| {
                vocabulary.number(segment, row)
            })
        })
    }

    /// As [`CorpusView::word_set_counts`], of the stored files.
    fn word_set_counts(&self, in_set: &[bool], run: Run<'_>) -> Result<Vec<u64>> {
        let vocabulary = run.preparing("vocabulary", || self.vocabulary())?;
        let mut counts = vec![0u64; self.files().len()];
        for index in 0..self.segments().len() {
            check(run.stop)?;
            let is_in_set: &(dyn Fn(u32) -> bool + Sync) =
                &|word| in_set[vocabulary.number(index, word) as usize];
            let found = answer::<WordSetTotals>(&is_in_set, &self.segment_at(index), run)?;
            for (number, count) in (0..).zip(found) {
                counts[self.file_number(index, number) as usize] += count;
            }
        }
        Ok(counts)
    }
}

impl CorpusView {
    /// Plans [`CorpusView::file_words`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_file_words(&self) -> Result<PlacementPlan<'_>> {
        self.stored().plan::<FileWordTable>(&(), None)
    }

    /// Plans [`CorpusView::word_set_counts`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_word_set(&self) -> Result<PlacementPlan<'_>> {
        let is_in_set: &(dyn Fn(u32) -> bool + Sync) = &|_| true;
        (self.stored()).plan_on_cpu::<WordSetTotals>(&is_in_set, None)
    }

    /// A row for each file: its words with counts.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn file_words(&self, run: Run<'_>) -> Result<Arc<CountTable>> {
        let Some(pending) = self.pending() else {
            return self.stored().file_words(run);
        };
        pending.table(PendingTable::FileWords, CountTable::bytes, || {
            self.corrected_file_words(pending, run)
        })
    }

    fn corrected_file_words(&self, pending: &PendingView, run: Run<'_>) -> Result<CountTable> {
        let stored = self.stored().file_words(run)?;
        let numbering = &pending.numbering;
        let rows = (0..pending.files.len()).into_par_iter().map(|file| {
            let row = match pending.stored_file(file) {
                None => &[][..],
                Some(stored_file) => stored.row(stored_file),
            };
            let number = |&(word, count): &(u32, u32)| (numbering.number(word), count);
            let row: Vec<(u32, u32)> = row.iter().map(number).collect();
            match pending.edit(file) {
                None => Ok(row),
                Some(edit) => {
                    let changes = edit.changes(numbering).iter().copied();
                    corrected(&row, changes, |word| pending.subject(word))
                }
            }
        });
        numbering.numbers();
        let rows: Vec<Vec<(u32, u32)>> = rows.collect::<Result<_>>()?;
        Ok(CountTable::of_rows(rows))
    }

    /// A row for each word: its files with counts.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn word_files(&self, run: Run<'_>) -> Result<Arc<CountTable>> {
        let Some(pending) = self.pending() else {
            return self.stored().word_files(run);
        };
        pending.table(PendingTable::WordFiles, CountTable::bytes, || {
            self.corrected_word_files(pending, run)
        })
    }

    fn corrected_word_files(&self, pending: &PendingView, run: Run<'_>) -> Result<CountTable> {
        let stored = self.stored().word_files(run)?;
        let mut changes: Vec<(u32, u32, i64)> = Vec::new();
        for edit in &pending.edits {
            let of_edit = edit.changes(&pending.numbering).iter();
            changes.extend(of_edit.map(|&(word, change)| (word, edit.file, change)));
        }
        changes.par_sort_unstable();
        let words = (0..pending.numbering.len() as u32).into_par_iter();
        let rows = words.map(|word| {
            let row = match pending.numbering.source(word) {
                WordSource::Fresh(_) => &[][..],
                WordSource::Stored(stored_word) => stored.row(stored_word as usize),
            };
            let row: Vec<(u32, u32)> = pending.files_now(row).collect();
            let from = changes.partition_point(|&(changed, ..)| changed < word);
            let of_word = changes[from..].iter();
            let of_word = of_word.take_while(|&&(changed, ..)| changed == word);
            let of_files = of_word.map(|&(_, file, change)| (file, change));
            corrected(&row, of_files, |_| pending.subject(word))
        });
        let rows: Vec<Vec<(u32, u32)>> = rows.collect::<Result<_>>()?;
        Ok(CountTable::of_rows(rows))
    }

    /// For each file the count of the words of a set, given by their numbers.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn word_set_counts(&self, in_set: &[bool], run: Run<'_>) -> Result<Vec<u64>> {
        let Some(pending) = self.pending() else {
            return self.stored().word_set_counts(in_set, run);
        };
        let found = match pending.numbering.numbers() {
            None => self.stored().word_set_counts(in_set, run)?,
            Some(numbers) => {
                let stored: Vec<bool> = (numbers.iter())
                    .map(|&number| in_set[number as usize])
                    .collect();
                self.stored().word_set_counts(&stored, run)?
            }
        };
        let mut counts: Vec<u64> = (0..pending.files.len())
            .map(|file| pending.stored_file(file).map_or(0, |stored| found[stored]))
            .collect();
        for edit in &pending.edits {
            let changes = edit.changes(&pending.numbering).iter();
            let of_set = changes.filter(|(word, _)| in_set[*word as usize]);
            let change = of_set.map(|(_, change)| change).sum();
            let count = &mut counts[edit.file as usize];
            *count = changed(*count, change, || "the words asked for".into())?;
        }
        Ok(counts)
    }
}
