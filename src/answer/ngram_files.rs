//! N-grams with the files that have them, as a payload.
//!
//! Invariant: the files of an n-gram come in the wanted order, each once, and an n-gram without files is left out.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use zipfdb_kernels::gpu::{
    self, CutPlaces, DeviceNgramFileRows, DeviceNgramFiles, Gpu, MergedPart,
};
use zipfdb_kernels::{
    CountTable, FileOrder, GrammarView, NgramFiles, NgramSet, NgramTable, PackedNgramFiles,
    RuleFiles, WordSuffixes, ngram_file_counts_packed,
};

use super::access_path::PathName;
use super::correction::{MergeStep, Window, correct_few, corrected, merge};
use super::merge::{add_up, renumber, sort_files};
use super::ngram_payload::{
    DeviceResult, NgramOrder, NgramPayload, NgramQuestion, NgramsPart, RowPlaces,
};
use super::pending_view::PendingView;
use super::top_k::Top;
use super::word_counts::file_weights_cost;
use crate::Result;
use crate::runtime::device::ResidentWords;
use crate::segment::StructureKind;
use crate::segment::cost::{
    COUNT_ALL_SYMBOL_COST, DEVICE_NGRAM_FILE_COST, NGRAM_FACTOR, SUFFIX_FILE_COST, Size,
    TABLE_FILE_COST,
};

/// N-grams with the files that have them, and their counts there.
#[derive(Clone, Debug)]
pub(crate) struct WithFiles;

/// Rows of files that are being merged.
pub(crate) struct MergedFiles {
    table: CountTable,
    /// The entries of the n-gram that is being added up.
    entries: Vec<(u32, u32)>,
}

impl Default for MergedFiles {
    fn default() -> MergedFiles {
        MergedFiles {
            table: CountTable::of_rows(Vec::new()),
            entries: Vec::new(),
        }
    }
}

impl NgramPayload for WithFiles {
    type Table = NgramFiles;
    type Packed = PackedNgramFiles;
    type DevicePart = DeviceNgramFiles;
    type DeviceRows = DeviceNgramFileRows;
    type Rows = MergedFiles;

    const HAS_FILES: bool = true;
    const GRAMMAR: PathName = PathName::FileWeights;
    const GRAMMAR_NEEDS: &'static [StructureKind] = &[StructureKind::RuleFiles];
    const SUFFIX_COST: f64 = SUFFIX_FILE_COST;
    const TABLE_COST: f64 = TABLE_FILE_COST;
    const DEVICE_COST: f64 = DEVICE_NGRAM_FILE_COST;

    fn grammar_work(size: Size) -> f64 {
        file_weights_cost(size, size.files, size.words) * NGRAM_FACTOR
    }

    fn chosen_work(size: Size, files: u64, words: u64) -> f64 {
        // Lists of the files that have a rule are made for all rules.
        let lists = size.symbols.min(words) as f64 * COUNT_ALL_SYMBOL_COST;
        lists + file_weights_cost(size, files, words) * NGRAM_FACTOR
    }

    fn words(table: &NgramFiles) -> &Vec<u32> {
        &table.words
    }

    fn words_mut(table: &mut NgramFiles) -> &mut Vec<u32> {
        &mut table.words
    }

    fn len(table: &NgramFiles) -> usize {
        table.files.rows()
    }

    fn packed_len(packed: &PackedNgramFiles) -> usize {
        packed.len()
    }

    fn packed_first_word(packed: &PackedNgramFiles) -> Option<u32> {
        packed.first_word()
    }

    fn unpacked(packed: &PackedNgramFiles) -> NgramFiles {
        packed.unpacked()
    }

    fn of_suffixes(
        suffixes: &WordSuffixes,
        question: &NgramQuestion,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramFiles>> {
        Ok(suffixes.ngram_file_counts(question.set.clone(), question.order, stop)?)
    }

    fn of_table(
        table: &NgramTable,
        question: &NgramQuestion,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramFiles>> {
        Ok(table.ngram_file_counts(question.set.clone(), question.order, stop)?)
    }

    fn of_grammar(
        (view, weights): (GrammarView<'_>, &[u32]),
        lists: Option<&RuleFiles>,
        question: &NgramQuestion,
        stop: &AtomicBool,
    ) -> Result<Vec<PackedNgramFiles>> {
        let (set, order, memory) = (question.set.clone(), question.order, question.memory);
        let files = ngram_file_counts_packed(view, weights, lists, set, order, memory, stop)?;
        Ok(files)
    }

    fn each_on(
        gpu: &Gpu,
        on: &ResidentWords,
        question: &NgramQuestion,
        memory: usize,
        take: &mut dyn FnMut(DeviceNgramFiles, bool) -> DeviceResult<()>,
    ) -> Result<()> {
        let (words, weights, uses) = (&on.grammar, &on.weights, on.file_uses(gpu)?);
        let shape = (question.set.clone(), question.order);
        Ok(gpu::each_ngram_file_counts(
            gpu, words, weights, uses, shape, memory, take,
        )?)
    }

    fn bytes(part: &DeviceNgramFiles) -> u64 {
        part.bytes()
    }

    fn into_rows(
        part: DeviceNgramFiles,
        gpu: &Gpu,
        n: usize,
        order: &NgramOrder,
    ) -> DeviceResult<DeviceNgramFileRows> {
        let part = match order.keys().1 {
            Some(ranks) => part.by_text(gpu, ranks)?,
            None => part,
        };
        part.into_rows(gpu, n)
    }

    fn download(
        part: DeviceNgramFiles,
        gpu: &Gpu,
        set: &NgramSet,
        top: Option<Top>,
    ) -> DeviceResult<NgramFiles> {
        let part = match top {
            None => part,
            Some(top) => part.top(gpu, top.limit, top.descending, top.counts)?,
        };
        Ok(part.download(gpu)?.of_set(set))
    }

    fn merged_rows(
        parts: &[MergedPart<'_, DeviceNgramFileRows>],
        cut: CutPlaces<'_>,
        words: usize,
        order: FileOrder,
    ) -> DeviceResult<Option<DeviceNgramFileRows>> {
        DeviceNgramFileRows::merged(parts, cut, words, order)
    }

    fn of_rows(rows: DeviceNgramFileRows) -> (Gpu, usize, DeviceNgramFiles) {
        rows.into_ngrams()
    }

    fn counts(table: &NgramFiles) -> impl Iterator<Item = u64> {
        let rows = (0..table.files.rows()).flat_map(|row| table.files.row(row));
        rows.map(|&(_, times)| u64::from(times))
    }

    fn chosen(table: &NgramFiles, n: usize, is_used: impl Fn(u64) -> bool) -> NgramFiles {
        let (mut words, mut files) = (Vec::new(), CountTable::of_rows(Vec::new()));
        for (row, ngram) in table.words.chunks_exact(n).enumerate() {
            let before = files.entries.len();
            let entries = table.files.row(row).iter();
            files
                .entries
                .extend(entries.filter(|entry| is_used(u64::from(entry.1))));
            if files.entries.len() > before {
                files.offsets.push(files.entries.len());
                words.extend_from_slice(ngram);
            }
        }
        NgramFiles {
            words,
            files: files.into(),
        }
    }

    fn renumber_files(table: NgramFiles, number: impl Fn(u32) -> u32 + Sync) -> NgramFiles {
        let mut files = table.files.into_table();
        renumber(&mut files, number);
        NgramFiles {
            words: table.words,
            files: files.into(),
        }
    }

    fn append(
        list: &mut MergedFiles,
        table: &NgramFiles,
        rows: Range<usize>,
        file: impl Fn(u32) -> u32,
    ) {
        let files = &mut list.table;
        for row in rows {
            let entries = table.files.row(row).iter();
            (files.entries).extend(entries.map(|&(number, count)| (file(number), count)));
            files.offsets.push(files.entries.len());
        }
    }

    fn once(files: &[u32]) -> MergedFiles {
        MergedFiles {
            table: CountTable {
                offsets: (0..=files.len()).collect(),
                entries: files.iter().map(|&file| (file, 1)).collect(),
            },
            entries: Vec::new(),
        }
    }

    fn push_sum(
        sums: &mut MergedFiles,
        lists: &[(Vec<u32>, MergedFiles)],
        rows: RowPlaces<'_>,
        order: FileOrder,
    ) -> Result<()> {
        let MergedFiles { table, entries } = sums;
        if let (&[(list, row)], FileOrder::File) = (rows, order) {
            let files = lists[list].1.table.row(row);
            table.entries.extend_from_slice(files);
            table.offsets.push(table.entries.len());
            return Ok(());
        }
        entries.clear();
        for &(list, row) in rows {
            entries.extend_from_slice(lists[list].1.table.row(row));
        }
        add_up(entries)?;
        if order == FileOrder::Count {
            sort_files(entries, order);
        }
        table.entries.extend_from_slice(entries);
        table.offsets.push(table.entries.len());
        Ok(())
    }

    fn table(words: Vec<u32>, rows: MergedFiles) -> NgramFiles {
        let files = rows.table.into();
        NgramFiles { words, files }
    }

    fn pack(n: usize, table: NgramFiles) -> NgramsPart<WithFiles> {
        NgramsPart::Packed(PackedNgramFiles::new(n, &table))
    }

    fn corrected(
        pending: &PendingView,
        (n, order): (usize, FileOrder),
        table: NgramFiles,
        changes: &[(Window, u32, i64)],
    ) -> Result<NgramFiles> {
        // Then rows that no edit has changed stay as they are.
        let is_same = (0..)
            .zip(&pending.number_of)
            .all(|(file, &now)| file == now);
        if is_same && changes.is_empty() {
            return Ok(table);
        }
        let mut found = EditedRows {
            table: &table,
            words: Vec::with_capacity(table.words.len()),
            numbers: Vec::with_capacity(table.files.rows()),
            rows: CountTable::of_rows(Vec::new()),
        };
        let mut few = Vec::with_capacity(FEW_FILES);
        merge(&table.words, n, changes, |step| {
            match step {
                MergeStep::Same(rows) if is_same => found.keep(n, rows),
                MergeStep::Same(rows) => {
                    for row in rows {
                        let ngram = &table.words[row * n..][..n];
                        found.push(ngram, pending.files_now(table.files.row(row)));
                    }
                }
                MergeStep::Changed(ngram, row, changes) => {
                    let stored = row.map_or(&[][..], |row| table.files.row(row));
                    let of_files = changes.iter().map(|&(_, file, change)| (file, change));
                    if stored.len() + changes.len() <= FEW_FILES {
                        few.clear();
                        few.extend(pending.files_now(stored));
                        correct_few(&mut few, of_files, || pending.ngram_subject(ngram))?;
                        sort_files(&mut few, order);
                        found.push(ngram, few.drain(..));
                        return Ok(());
                    }
                    let mut now: Vec<(u32, u32)> = pending.files_now(stored).collect();
                    now.sort_unstable();
                    let subject = |_| pending.ngram_subject(ngram);
                    let mut row = corrected(&now, of_files, subject)?;
                    if order == FileOrder::Count {
                        sort_files(&mut row, order);
                    }
                    found.push(ngram, row.into_iter());
                }
            }
            Ok(())
        })?;
        let EditedRows {
            words,
            numbers,
            rows,
            ..
        } = found;
        Ok(NgramFiles {
            words,
            files: table.files.chosen(rows, numbers),
        })
    }
}

/// Up to this number of files, changes of n-grams are searched file by file.
const FEW_FILES: usize = 32;

/// N-grams with their files, most of which are rows of a table.
struct EditedRows<'a> {
    table: &'a NgramFiles,
    words: Vec<u32>,
    numbers: Vec<u32>,
    /// The files of the other n-grams.
    rows: CountTable,
}

impl EditedRows<'_> {
    /// Appends n-grams of the table with their rows.
    fn keep(&mut self, n: usize, rows: Range<usize>) {
        self.words
            .extend_from_slice(&self.table.words[rows.start * n..rows.end * n]);
        // There are fewer rows than windows.
        let numbers = rows.map(|row| self.table.files.number(row) as u32);
        self.numbers.extend(numbers);
    }

    /// Appends an n-gram, unless no file has it.
    fn push(&mut self, ngram: &[u32], files: impl Iterator<Item = (u32, u32)>) {
        let before = self.rows.entries.len();
        self.rows.entries.extend(files);
        if self.rows.entries.len() > before {
            self.numbers
                .push((self.table.files.end() + self.rows.rows()) as u32);
            self.rows.offsets.push(self.rows.entries.len());
            self.words.extend_from_slice(ngram);
        }
    }
}
