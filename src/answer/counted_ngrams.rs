//! N-grams with their counts, as a payload.
//!
//! Invariant: counts of a segment have 32 bits, sums of several 64.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{self, CutPlaces, DeviceNgramRows, DeviceNgrams, Gpu, MergedPart};
use zipfdb_kernels::{
    FileOrder, GrammarView, NgramCounts, NgramSet, NgramTable, PackedNgramCounts, RuleFiles,
    WordSuffixes, ngram_counts_packed,
};

use super::access_path::{PathName, Run};
use super::corpus_view::CorpusView;
use super::correction::{MergeStep, Window, merge};
use super::ngram_payload::{
    DeviceResult, NgramOrder, NgramPayload, NgramQuestion, NgramsPart, RowPlaces,
};
use super::pending_view::PendingView;
use super::top_k::Top;
use crate::Result;
use crate::overlay::changed_count::changed;
use crate::runtime::device::ResidentWords;
use crate::segment::StructureKind;
use crate::segment::cost::{
    DEVICE_NGRAM_COST, NGRAM_FACTOR, SUFFIX_COST, SYMBOL_COST, Size, TABLE_COST, WORD_COST,
};

/// N-grams with their counts.
#[derive(Clone, Debug)]
pub(crate) struct WithCounts;

/// A sorted table of n-grams with their counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedNgrams {
    /// `[n-grams * n]`: the words of each.
    pub(crate) words: Vec<u32>,
    pub(crate) counts: CountList,
}

/// The counts of n-grams: of 32 bits, as segments give them, or sums of 64.
#[derive(Clone, Debug)]
pub(crate) enum CountList {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Default for CountList {
    fn default() -> CountList {
        CountList::Wide(Vec::new())
    }
}

impl CountList {
    fn len(&self) -> usize {
        match self {
            CountList::Narrow(counts) => counts.len(),
            CountList::Wide(counts) => counts.len(),
        }
    }

    fn get(&self, row: usize) -> u64 {
        match self {
            CountList::Narrow(counts) => u64::from(counts[row]),
            CountList::Wide(counts) => counts[row],
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Appends the counts of some rows to `list`.
    pub(crate) fn append_to(&self, list: &mut Vec<u64>, rows: Range<usize>) {
        match self {
            CountList::Narrow(counts) => {
                list.extend(counts[rows].iter().map(|&count| u64::from(count)));
            }
            CountList::Wide(counts) => list.extend_from_slice(&counts[rows]),
        }
    }

    /// Copies all counts to `target`, which has their length.
    pub(crate) fn copy_to(&self, target: &mut [u64]) {
        let counts = self.iter();
        target
            .iter_mut()
            .zip(counts)
            .for_each(|(target, count)| *target = count);
    }
}

impl CountedNgrams {
    /// The words and count of each n-gram of n words.
    pub(crate) fn iter(&self, n: usize) -> impl Iterator<Item = (&[u32], u64)> {
        let words = self.words.chunks_exact(n);
        words.zip(self.counts.iter())
    }
}

impl From<NgramCounts> for CountedNgrams {
    fn from(counts: NgramCounts) -> CountedNgrams {
        CountedNgrams {
            words: counts.words,
            counts: CountList::Narrow(counts.counts),
        }
    }
}

impl NgramsPart<WithCounts> {
    /// Calls `visit` with the words and count of each n-gram of n words.
    pub(crate) fn for_each(&self, n: usize, visit: impl FnMut((&[u32], u64))) {
        self.plain().iter(n).for_each(visit);
    }
}

impl NgramPayload for WithCounts {
    type Table = CountedNgrams;
    type Packed = PackedNgramCounts;
    type DevicePart = DeviceNgrams;
    type DeviceRows = DeviceNgramRows;
    type Rows = Vec<u64>;

    const HAS_FILES: bool = false;
    const GRAMMAR: PathName = PathName::Weights;
    const GRAMMAR_NEEDS: &'static [StructureKind] = &[StructureKind::WordGrammar];
    const SUFFIX_COST: f64 = SUFFIX_COST;
    const TABLE_COST: f64 = TABLE_COST;
    const DEVICE_COST: f64 = DEVICE_NGRAM_COST;

    fn grammar_work(size: Size) -> f64 {
        (size.symbols as f64 * SYMBOL_COST + size.tokens as f64 * WORD_COST) * NGRAM_FACTOR
    }

    fn chosen_work(size: Size, _: u64, words: u64) -> f64 {
        // Each n-gram crosses from one symbol to the next, once for each place in a root.
        let symbols = size.symbols.min(words) as f64 * SYMBOL_COST;
        (symbols + size.tokens.min(words) as f64 * WORD_COST) * NGRAM_FACTOR
    }

    fn words(table: &CountedNgrams) -> &Vec<u32> {
        &table.words
    }

    fn words_mut(table: &mut CountedNgrams) -> &mut Vec<u32> {
        &mut table.words
    }

    fn len(table: &CountedNgrams) -> usize {
        table.counts.len()
    }

    fn packed_len(packed: &PackedNgramCounts) -> usize {
        packed.len()
    }

    fn packed_first_word(packed: &PackedNgramCounts) -> Option<u32> {
        packed.first_word()
    }

    fn unpacked(packed: &PackedNgramCounts) -> CountedNgrams {
        packed.unpacked().into()
    }

    fn of_suffixes(
        suffixes: &WordSuffixes,
        question: &NgramQuestion,
        stop: &AtomicBool,
    ) -> Result<Vec<CountedNgrams>> {
        let counts = match question.top {
            None => suffixes.ngram_counts(question.set.clone(), stop)?,
            // An n-gram that is not among the first of a part is not among the first of all.
            Some(top) => {
                let choose = |counts: &mut dyn Iterator<Item = u32>| {
                    let last = top.last(counts.map(u64::from));
                    move |count| top.is_used(u64::from(count), last)
                };
                suffixes.ngram_counts_if(question.set.n, choose, stop)?
            }
        };
        Ok(counts.into_par_iter().map(CountedNgrams::from).collect())
    }

    fn of_table(
        table: &NgramTable,
        question: &NgramQuestion,
        stop: &AtomicBool,
    ) -> Result<Vec<CountedNgrams>> {
        let counts = table.ngram_counts(question.set.clone(), stop)?;
        Ok(counts.into_par_iter().map(CountedNgrams::from).collect())
    }

    fn of_grammar(
        (view, weights): (GrammarView<'_>, &[u32]),
        _: Option<&RuleFiles>,
        question: &NgramQuestion,
        stop: &AtomicBool,
    ) -> Result<Vec<PackedNgramCounts>> {
        let (set, memory) = (question.set.clone(), question.memory);
        Ok(ngram_counts_packed(view, weights, set, memory, stop)?)
    }

    fn each_on(
        gpu: &Gpu,
        on: &ResidentWords,
        question: &NgramQuestion,
        memory: usize,
        take: &mut dyn FnMut(DeviceNgrams, bool) -> DeviceResult<()>,
    ) -> Result<()> {
        let set = question.set.clone();
        Ok(gpu::each_ngram_counts(
            gpu,
            &on.grammar,
            &on.weights,
            set,
            memory,
            take,
        )?)
    }

    fn bytes(part: &DeviceNgrams) -> u64 {
        part.bytes()
    }

    fn into_rows(
        part: DeviceNgrams,
        gpu: &Gpu,
        n: usize,
        order: &NgramOrder,
    ) -> DeviceResult<DeviceNgramRows> {
        let (descending, ranks) = order.keys();
        Ok(part.in_order(gpu, descending, ranks)?.into_rows(gpu, n))
    }

    fn download(
        part: DeviceNgrams,
        gpu: &Gpu,
        set: &NgramSet,
        top: Option<Top>,
    ) -> DeviceResult<CountedNgrams> {
        let part = match top {
            None => part,
            Some(top) => part.top(gpu, top.limit, top.descending, top.counts)?,
        };
        Ok(part.download(gpu)?.of_set(set).into())
    }

    fn merged_rows(
        parts: &[MergedPart<'_, DeviceNgramRows>],
        cut: CutPlaces<'_>,
        words: usize,
        _: FileOrder,
    ) -> DeviceResult<Option<DeviceNgramRows>> {
        DeviceNgramRows::merged(parts, cut, words)
    }

    fn of_rows(rows: DeviceNgramRows) -> (Gpu, usize, DeviceNgrams) {
        rows.into_ngrams()
    }

    fn counts(table: &CountedNgrams) -> impl Iterator<Item = u64> {
        table.counts.iter()
    }

    fn chosen(table: &CountedNgrams, n: usize, is_used: impl Fn(u64) -> bool) -> CountedNgrams {
        let (mut words, mut counts) = (Vec::new(), Vec::new());
        for (row, times) in table.iter(n).filter(|row| is_used(row.1)) {
            words.extend_from_slice(row);
            counts.push(times);
        }
        WithCounts::table(words, counts)
    }

    fn first(
        view: &CorpusView,
        n: usize,
        top: Top,
        run: Run<'_>,
    ) -> Result<Option<Vec<NgramsPart<WithCounts>>>> {
        view.first_ngrams(n, top, run)
    }

    fn renumber_files(table: CountedNgrams, _: impl Fn(u32) -> u32 + Sync) -> CountedNgrams {
        table
    }

    fn append(
        list: &mut Vec<u64>,
        table: &CountedNgrams,
        rows: Range<usize>,
        _: impl Fn(u32) -> u32,
    ) {
        table.counts.append_to(list, rows);
    }

    fn once(files: &[u32]) -> Vec<u64> {
        vec![1; files.len()]
    }

    fn push_sum(
        sums: &mut Vec<u64>,
        lists: &[(Vec<u32>, Vec<u64>)],
        rows: RowPlaces<'_>,
        _: FileOrder,
    ) -> Result<()> {
        sums.push(rows.iter().map(|&(list, row)| lists[list].1[row]).sum());
        Ok(())
    }

    fn table(words: Vec<u32>, counts: Vec<u64>) -> CountedNgrams {
        let counts = CountList::Wide(counts);
        CountedNgrams { words, counts }
    }

    fn pack(n: usize, table: CountedNgrams) -> NgramsPart<WithCounts> {
        let counts = match table.counts {
            CountList::Narrow(counts) => counts,
            CountList::Wide(sums) => {
                let counts = sums.iter().map(|&sum| u32::try_from(sum).ok());
                match counts.collect() {
                    Some(counts) => counts,
                    None => return NgramsPart::Plain(WithCounts::table(table.words, sums)),
                }
            }
        };
        let words = table.words;
        NgramsPart::Packed(PackedNgramCounts::new(n, &NgramCounts { words, counts }))
    }

    fn corrected(
        pending: &PendingView,
        (n, _): (usize, FileOrder),
        table: CountedNgrams,
        changes: &[(Window, u32, i64)],
    ) -> Result<CountedNgrams> {
        if changes.is_empty() {
            return Ok(table);
        }
        let mut words = Vec::with_capacity(table.words.len() + changes.len() * n);
        let mut counts = Vec::with_capacity(table.counts.len() + changes.len());
        merge(&table.words, n, changes, |step| {
            match step {
                MergeStep::Same(rows) => {
                    words.extend_from_slice(&table.words[rows.start * n..rows.end * n]);
                    table.counts.append_to(&mut counts, rows);
                }
                MergeStep::Changed(ngram, row, changes) => {
                    let change: i64 = changes.iter().map(|change| change.2).sum();
                    let before = row.map_or(0, |row| table.counts.get(row));
                    let count = changed(before, change, || pending.ngram_subject(ngram))?;
                    if count > 0 {
                        words.extend_from_slice(ngram);
                        counts.push(count);
                    }
                }
            }
            Ok(())
        })?;
        Ok(WithCounts::table(words, counts))
    }
}
