//! N-grams: all sequences of n words with their counts, or with the files that have them.
//!
//! Invariant: answers are those on the texts as they are now. Each segment answers in its own numbers of words by the cheapest of
//! the access paths below; here they become those of the corpus, and the n-grams that a cut between the parts of a file goes
//! through are added. Edits take off the windows of words that they broke and add those that they made.
//!
//! A segment builds a structure for n-grams once queries without it have taken as long as building it: text that the grammar does
//! not shorten much has all its places sorted (a suffix array), other text its distinct n-grams of eight words.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{
    self, DeviceNgramFileRows, DeviceNgramFiles, DeviceNgramRows, DeviceNgrams,
};
use zipfdb_kernels::{
    CountTable, FileOrder, GrammarView, NGRAM_WORDS_MAX, NgramCounts, NgramFiles, NgramSet,
    NgramTable, PackedNgramCounts, PackedNgramFiles, RuleFiles, WordGrammar, WordSuffixes,
    ngram_counts_packed, ngram_file_counts_packed,
};
use zipfdb_storage::IndexKind;

use super::corpus_view::CorpusView;
use super::correction::{Window, WindowChanges, correct_few, corrected};
use super::cost::{
    DEVICE_NGRAM_COST, DEVICE_NGRAM_FILE_COST, NGRAM_FACTOR, NGRAM_INDEX_COST, SUFFIX_BUILD_COST,
    SUFFIX_COST, SUFFIX_FILE_COST, SUFFIX_LOAD_COST, SYMBOL_COST, Size, TABLE_BUILD_COST,
    TABLE_COST, TABLE_FILE_COST, TABLE_LOAD_COST, WORD_COST,
};
use super::device_ngrams::kept_bytes;
use super::device_parts::{RootPart, window_bytes};
use super::file_index::Part;
use super::merge::{CutNgrams, CutWindow, for_each_cut, sort_files, sorted};
use super::ngram_merge::{Numbers, merge_counts, merge_files};
use super::ngram_packing::{
    AllNgrams, CountAnswer, CountedNgrams, Counts, FileAnswer, NgramAnswer, NgramCountPart,
    NgramFilePart, NgramsPart, part_of_segment,
};
use super::path::{AccessPath, PartitionOperation, PathName, Run};
use super::pending_view::{Edit, NONE, PendingView};
use super::spread::{DeviceOperation, SpreadPlan};
use super::stored_view::StoredView;
use super::top::Top;
use super::word_counts::file_weights_cost;
use crate::Result;
use crate::bisect::gallop;
use crate::overlay::changed_count::changed;
use crate::overlay::{Region, RegionWord};
use crate::runtime::device::OnDevice;
use crate::runtime::interrupt::check;
use crate::segment::{
    NgramPlan, NgramStructure, SegmentStructure, SegmentView, StructureKind, edge_words,
};

/// Bytes for the windows of one segment's n-grams: this part of what the cache may hold,
const WINDOW_SHARE: u64 = 4;

/// and at least and at most so many.
const WINDOW_BYTES: (u64, u64) = (1 << 20, 72 << 20);

impl Top {
    /// The n-grams that are among the first of their part of a suffix array: no others are among the first of all.
    fn of_suffixes(
        self,
        suffixes: &WordSuffixes,
        n: usize,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramCounts>> {
        let choose = |counts: &mut dyn Iterator<Item = u32>| {
            let last = self.last(counts.map(u64::from));
            move |count| self.is_used(u64::from(count), last)
        };
        Ok(suffixes.ngram_counts_if(n, choose, stop)?)
    }

    /// The n-grams of n words that are used, of all. Parts are unpacked one by one, by all threads.
    pub(crate) fn of_ngrams(self, parts: Vec<NgramsPart>, n: usize) -> Vec<NgramsPart> {
        let of_part = |part: NgramsPart| {
            let ngrams = part.into_counted();
            let last = self.last(ngrams.iter(n).map(|(_, times)| times));
            self.chosen(&ngrams, n, last)
        };
        let used: Vec<CountedNgrams> = parts.into_par_iter().map(of_part).collect();
        let counts = used.iter().flat_map(|ngrams| ngrams.iter(n));
        let last = self.last(counts.map(|(_, times)| times));
        let used = used.into_iter().map(|ngrams| match last {
            0 => ngrams,
            _ => self.chosen(&ngrams, n, last),
        });
        used.map(NgramsPart::Counted).collect()
    }

    /// Those n-grams of n words that are used, by what `last` says of all.
    fn chosen(self, ngrams: &CountedNgrams, n: usize, last: u64) -> CountedNgrams {
        let (mut words, mut counts) = (Vec::new(), Vec::new());
        for (row, times) in ngrams.iter(n).filter(|row| self.is_used(row.1, last)) {
            words.extend_from_slice(row);
            counts.push(times);
        }
        CountedNgrams {
            words,
            counts: Counts::Merged(counts),
        }
    }
}

/// In which order a device that has all n-grams keeps them for rows.
#[derive(Clone, Debug)]
pub(crate) enum NgramOrder {
    /// Ascending by the numbers of their words.
    Words,
    Count(CountOrder),
}

/// In which order a device that has all n-grams with their files keeps them for rows.
#[derive(Clone, Debug)]
pub(crate) enum NgramFileOrder {
    /// Ascending by the numbers of their words.
    Words,
    /// By these ranks of their words.
    Texts(Arc<[u32]>),
}

/// N-grams by how often they occur.
#[derive(Clone, Debug)]
pub(crate) struct CountOrder {
    /// The greatest counts first.
    pub(crate) descending: bool,
    /// By word: of n-grams that occur as often the one whose words have smaller ranks comes first; without them the one whose
    /// words have smaller numbers.
    pub(crate) ranks: Option<Arc<[u32]>>,
}

/// Which n-grams of a segment are counted.
#[derive(Clone, Debug)]
pub(crate) struct NgramQuestion {
    pub(crate) set: NgramSet,
    /// Those that this does not use may be missing.
    pub(crate) top: Option<Top>,
    /// If rows are made of them: a device that has all of them at once puts them in this order and keeps them until then.
    pub(crate) rows: Option<NgramOrder>,
    /// Of how many segments they are kept.
    pub(crate) segments: usize,
    /// Bytes for windows.
    pub(crate) memory: usize,
}

/// N-grams of a segment with their counts, in parts that follow each other.
pub(crate) struct NgramCounting;

impl PartitionOperation for NgramCounting {
    type Question<'a> = NgramQuestion;
    type Answer = CountAnswer;

    const PATHS: &'static [AccessPath<NgramCounting>] = &[
        AccessPath {
            name: PathName::SuffixArray,
            needs: &[],
            cost: |question, segment| {
                let words = segment.extent().words as f64;
                segment.ngram_structure_cost::<WordSuffixes>(question.set.n, words * SUFFIX_COST)
            },
            run: |question, segment, run| {
                let suffixes = segment.pin_until::<WordSuffixes>(run.stop)?;
                let counts = match question.top {
                    Some(top) => top.of_suffixes(suffixes, question.set.n, run.stop)?,
                    None => suffixes.ngram_counts(question.set.clone(), run.stop)?,
                };
                Ok(plain(counts))
            },
        },
        AccessPath {
            name: PathName::NgramTable,
            needs: &[],
            cost: |question, segment| {
                let symbols = segment.size().0 as f64;
                segment.ngram_structure_cost::<NgramTable>(question.set.n, symbols * TABLE_COST)
            },
            run: |question, segment, run| {
                let table = segment.pin_until::<NgramTable>(run.stop)?;
                let counts = table.ngram_counts(question.set.clone(), run.stop)?;
                Ok(plain(counts))
            },
        },
        AccessPath {
            name: PathName::Weights,
            needs: &[StructureKind::WordGrammar],
            cost: |_, segment| {
                let size = segment.extent();
                let work = size.symbols as f64 * SYMBOL_COST + size.tokens as f64 * WORD_COST;
                Some(work * NGRAM_FACTOR / segment.thread_count())
            },
            run: |question, segment, run| {
                let memory = question.memory;
                let grammar = segment.word_grammar()?;
                let (view, weights, set) =
                    (grammar.view(), grammar.weights(), question.set.clone());
                let begin = Instant::now();
                let counts = ngram_counts_packed(view, weights, set, memory, run.stop)?;
                segment.spend_on_all_ngrams(&question.set, begin, run.stop)?;
                Ok(packed(counts))
            },
        },
    ];
}

/// An answer of n-grams that a derived structure has counted.
fn plain(parts: Vec<NgramCounts>) -> CountAnswer {
    NgramAnswer::Parts(parts.into_iter().map(NgramCountPart::Plain).collect())
}

/// An answer of n-grams that a grammar tells.
pub(super) fn packed(parts: Vec<PackedNgramCounts>) -> CountAnswer {
    NgramAnswer::Parts(parts.into_iter().map(NgramCountPart::Packed).collect())
}

/// As `plain`, with files.
fn plain_files(parts: Vec<NgramFiles>) -> FileAnswer {
    NgramAnswer::Parts(parts.into_iter().map(NgramFilePart::Plain).collect())
}

/// As `packed`, with files.
pub(super) fn packed_files(parts: Vec<PackedNgramFiles>) -> FileAnswer {
    NgramAnswer::Parts(parts.into_iter().map(NgramFilePart::Packed).collect())
}

impl DeviceOperation for NgramCounting {
    fn device_work(size: Size) -> f64 {
        size.symbols as f64 * DEVICE_NGRAM_COST
    }

    fn run_on(
        question: &NgramQuestion,
        segment: &SegmentView,
        device: &OnDevice<'_>,
    ) -> Result<CountAnswer> {
        segment.ngrams_on(device, question)
    }
}

/// Which n-grams of a segment are counted by file.
#[derive(Clone, Debug)]
pub(crate) struct NgramFileQuestion {
    pub(crate) set: NgramSet,
    pub(crate) order: FileOrder,
    /// As those of [`NgramQuestion`], by the counts in each file.
    pub(crate) top: Option<Top>,
    pub(crate) rows: Option<NgramFileOrder>,
    pub(crate) segments: usize,
    /// Bytes for windows.
    pub(crate) memory: usize,
}

/// N-grams of a segment with the files that have them, in parts that follow each other.
pub(crate) struct NgramFileCounting;

impl PartitionOperation for NgramFileCounting {
    type Question<'a> = NgramFileQuestion;
    type Answer = FileAnswer;

    const PATHS: &'static [AccessPath<NgramFileCounting>] = &[
        AccessPath {
            name: PathName::SuffixArray,
            needs: &[],
            cost: |question, segment| {
                let work = segment.extent().words as f64 * SUFFIX_FILE_COST;
                segment.ngram_structure_cost::<WordSuffixes>(question.set.n, work)
            },
            run: |question, segment, run| {
                let suffixes = segment.pin_until::<WordSuffixes>(run.stop)?;
                let set = question.set.clone();
                let files = suffixes.ngram_file_counts(set, question.order, run.stop)?;
                Ok(plain_files(files))
            },
        },
        AccessPath {
            name: PathName::NgramTable,
            needs: &[],
            cost: |question, segment| {
                let work = segment.size().0 as f64 * TABLE_FILE_COST;
                segment.ngram_structure_cost::<NgramTable>(question.set.n, work)
            },
            run: |question, segment, run| {
                let table = segment.pin_until::<NgramTable>(run.stop)?;
                let set = question.set.clone();
                let files = table.ngram_file_counts(set, question.order, run.stop)?;
                Ok(plain_files(files))
            },
        },
        AccessPath {
            name: PathName::FileWeights,
            needs: &[StructureKind::RuleFiles],
            cost: |_, segment| {
                let size = segment.extent();
                let work = file_weights_cost(size, size.files, size.words) * NGRAM_FACTOR;
                Some(work / segment.thread_count())
            },
            run: |question, segment, run| {
                let (set, order, memory) = (question.set.clone(), question.order, question.memory);
                let grammar = segment.word_grammar()?;
                let lists = segment.rule_files(set.n, run.stop)?;
                let (view, weights) = (grammar.view(), grammar.weights());
                let begin = Instant::now();
                let files =
                    ngram_file_counts_packed(view, weights, lists, set, order, memory, run.stop)?;
                segment.spend_on_all_ngrams(&question.set, begin, run.stop)?;
                Ok(packed_files(files))
            },
        },
    ];
}

impl DeviceOperation for NgramFileCounting {
    fn device_work(size: Size) -> f64 {
        size.symbols as f64 * DEVICE_NGRAM_FILE_COST
    }

    fn run_on(
        question: &NgramFileQuestion,
        segment: &SegmentView,
        device: &OnDevice<'_>,
    ) -> Result<FileAnswer> {
        segment.ngram_files_on(device, question)
    }
}

impl SegmentView {
    /// What a structure for n-grams takes to answer with if it is there, none if it has no n-grams of n words. Building one that
    /// is not there is a matter of budgets.
    pub(super) fn ngram_structure_cost<S: SegmentStructure>(
        &self,
        n: usize,
        work: f64,
    ) -> Option<f64> {
        has_ngrams(n).then(|| match self.has(S::KIND) {
            true => work / self.thread_count(),
            // An index is read whole for all n-grams; a single n-gram is looked up in the file.
            false => match self.plan_of_index() {
                Some(plan) if plan.structure.kind() == S::KIND && self.has_room(plan.bytes) => {
                    (work + plan.price) / self.thread_count()
                }
                _ => f64::INFINITY,
            },
        })
    }

    /// Nanoseconds for an n-gram of n words from an index on disk; none if there is none of this kind.
    pub(super) fn ngram_index_cost(&self, kind: IndexKind, n: usize) -> Option<f64> {
        (has_ngrams(n) && self.has_index(kind)).then_some(NGRAM_INDEX_COST)
    }

    /// What n-grams come from once it is read back from an index on disk; none if there is no index.
    fn plan_of_index(&self) -> Option<NgramPlan> {
        let Size { words, symbols, .. } = self.extent();
        if self.has_index(IndexKind::Suffixes) {
            return Some(NgramPlan {
                structure: NgramStructure::Suffixes,
                price: words as f64 * SUFFIX_LOAD_COST,
                bytes: words * SUFFIX_BYTES,
            });
        }
        self.has_index(IndexKind::Ngrams).then(|| NgramPlan {
            structure: NgramStructure::Table,
            price: symbols as f64 * TABLE_LOAD_COST,
            bytes: symbols * TABLE_BYTES,
        })
    }

    fn ngram_plan(&self) -> Result<NgramPlan> {
        if let Some(plan) = self.plan_of_index() {
            return Ok(plan);
        }
        // Once: to add up all words takes longer than to find a phrase.
        if let Some(&plan) = self.ngram_plan.get() {
            return Ok(plan);
        }
        let plan = plan_of(self.word_grammar()?);
        Ok(*self.ngram_plan.get_or_init(|| plan))
    }

    /// Says that a query for n-grams took until now, and builds what it lacked if that is due.
    pub(super) fn spend_on_ngrams(
        &self,
        n: usize,
        begin: Instant,
        stop: &AtomicBool,
    ) -> Result<()> {
        // Another query may have built it while this one went on without.
        if !has_ngrams(n) || self.ngram_structure().is_some() {
            return Ok(());
        }
        let budget = &self.budgets.ngrams;
        let plan = self.ngram_plan()?;
        let price = (plan.price / rayon::current_num_threads() as f64) as u64;
        // A single query, however slow, does not pay with its own time: its memory would be that of the structure too.
        let is_due = budget.is_due(price);
        budget.add_since(begin);
        if is_due && self.has_room(plan.bytes + self.build_bytes() as u64) {
            // An error ends no query that has its answer; a later one tries again.
            drop(budget.build_if_due(price, || self.build_ngrams(plan.structure, stop)));
        }
        Ok(())
    }

    /// As `spend_on_ngrams`, of a query for some n-grams of n words. A query that asks for them in parts has not the memory for a
    /// structure, and all its parts are one query.
    fn spend_on_all_ngrams(&self, set: &NgramSet, begin: Instant, stop: &AtomicBool) -> Result<()> {
        if set.is_all() {
            self.spend_on_ngrams(set.n, begin, stop)?;
        }
        Ok(())
    }

    /// As `spend_on_ngrams`, of a query for occurrences, which a table does not tell.
    pub(super) fn spend_on_occurrences(
        &self,
        n: usize,
        begin: Instant,
        stop: &AtomicBool,
    ) -> Result<()> {
        match self.ngram_plan()?.structure {
            NgramStructure::Suffixes => self.spend_on_ngrams(n, begin, stop),
            NgramStructure::Table => Ok(()),
        }
    }

    /// What the files of n-grams of n words are added up from; none if that needs nothing.
    fn rule_files(&self, n: usize, stop: &AtomicBool) -> Result<Option<&RuleFiles>> {
        match n > 1 && self.files()?.len() > 1 {
            true => self.pin_until(stop).map(Some),
            false => Ok(None),
        }
    }

    /// Pins what n-grams of n words are made of, with or without their files, unless a derived structure has them.
    pub(crate) fn prepare_ngrams(
        &self,
        n: usize,
        with_files: bool,
        stop: &AtomicBool,
    ) -> Result<()> {
        let has_structure = self.ngram_structure().is_some() || self.plan_of_index().is_some();
        if !has_ngrams(n) || !has_structure {
            self.word_grammar()?;
            if with_files {
                self.rule_files(n, stop)?;
            }
        }
        Ok(())
    }

    /// Builds a structure now.
    pub(crate) fn build_ngrams(&self, structure: NgramStructure, stop: &AtomicBool) -> Result<()> {
        match structure {
            NgramStructure::Suffixes => self.pin_until::<WordSuffixes>(stop).map(drop),
            NgramStructure::Table => self.pin_until::<NgramTable>(stop).map(drop),
        }
    }

    /// N-grams with their counts.
    pub(super) fn ngrams_on(
        &self,
        device: &OnDevice<'_>,
        NgramQuestion {
            set,
            top,
            rows,
            segments,
            ..
        }: &NgramQuestion,
    ) -> Result<CountAnswer> {
        // Of single words those are found too that the question does not ask for.
        let top = top.filter(|_| set.n > 1);
        let mut parts = self.with_words(device, |gpu, on, is_whole| {
            let memory = window_bytes(gpu);
            let rows = rows.as_ref().filter(|_| is_whole && set.is_all());
            let (mut found, mut kept) = (Vec::new(), None);
            let mut take = |part: DeviceNgrams, is_only| {
                let kept_bytes = kept_bytes(gpu, *segments);
                if let Some(order) = rows.filter(|_| is_only && part.bytes() <= kept_bytes) {
                    let all = match order {
                        NgramOrder::Words => part,
                        NgramOrder::Count(CountOrder { descending, ranks }) => {
                            part.by_count(gpu, *descending, ranks.as_deref())?
                        }
                    };
                    kept = Some(all.into_rows(gpu, set.n));
                    return Ok(());
                }
                let part = match top {
                    Some(top) if is_whole => {
                        part.top(gpu, top.limit, top.descending, top.counts)?
                    }
                    _ => part,
                };
                found.push(NgramCountPart::Plain(part.download(gpu)?.of_set(set)));
                Ok(())
            };
            gpu::each_ngram_counts(
                gpu,
                &on.grammar,
                &on.weights,
                set.clone(),
                memory,
                &mut take,
            )?;
            Ok(kept.map_or(NgramAnswer::Parts(found), NgramAnswer::OnDevice))
        })?;
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0).1);
        }
        let cut = self.cut_ngrams(&parts, set)?;
        let found = parts.into_iter().map(|(_, found)| found.into_parts());
        let found = found.collect::<Result<_>>()?;
        let merged = merge_counts(set.n, found, &cut, |_, word| word)?;
        let of_segment = |part| match part {
            NgramsPart::Packed(packed) => Ok(packed),
            NgramsPart::Counted(_) => Err(self.inconsistent("it has more n-grams than words")),
        };
        let merged = merged.into_iter().map(of_segment);
        Ok(packed(merged.collect::<Result<_>>()?))
    }

    /// N-grams with their files, in parts.
    pub(super) fn ngram_files_on(
        &self,
        device: &OnDevice<'_>,
        NgramFileQuestion {
            set,
            order,
            top,
            rows,
            segments,
            ..
        }: &NgramFileQuestion,
    ) -> Result<FileAnswer> {
        // Of single words those are found too that the question does not ask for.
        let top = top.filter(|_| set.n > 1);
        let mut parts = self.with_words(device, |gpu, on, is_whole| {
            let rows = rows.as_ref().filter(|_| is_whole && set.is_all());
            let (mut found, mut kept) = (Vec::new(), None);
            let mut take = |part: DeviceNgramFiles, is_only| {
                let kept_bytes = kept_bytes(gpu, *segments);
                if let Some(order) = rows.filter(|_| is_only && part.bytes() <= kept_bytes) {
                    let all = match order {
                        NgramFileOrder::Words => part,
                        NgramFileOrder::Texts(ranks) => part.by_text(gpu, ranks)?,
                    };
                    kept = Some(all.into_rows(gpu, set.n)?);
                    return Ok(());
                }
                let part = match top {
                    // A file may lie in several parts of the roots.
                    Some(top) if is_whole => {
                        part.top(gpu, top.limit, top.descending, top.counts)?
                    }
                    _ => part,
                };
                found.push(NgramFilePart::Plain(part.download(gpu)?.of_set(set)));
                Ok(())
            };
            let (words, weights, uses) = (&on.grammar, &on.weights, on.file_uses(gpu)?);
            let (shape, memory) = ((set.clone(), *order), window_bytes(gpu));
            gpu::each_ngram_file_counts(gpu, words, weights, uses, shape, memory, &mut take)?;
            Ok(kept.map_or(NgramAnswer::Parts(found), NgramAnswer::OnDevice))
        })?;
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0).1);
        }
        let cut = self.cut_ngrams(&parts, set)?;
        let parts = (parts.into_iter()).map(|(part, found)| Ok((part, found.into_parts()?)));
        let parts: Vec<(RootPart, Vec<NgramFilePart>)> = parts.collect::<Result<_>>()?;
        let (parts, found): (Vec<RootPart>, Vec<_>) = parts.into_iter().unzip();
        let numbers = Numbers {
            word: |_, word| word,
            file: |part: usize, file| parts[part].file_of(file),
        };
        merge_files(set.n, *order, found, &cut, numbers).map(NgramAnswer::Parts)
    }

    /// The n-grams that begin in one part of a file and end in a later one, sorted, each with its file; one for each place.
    fn cut_ngrams<A>(&self, parts: &[(RootPart, A)], set: &NgramSet) -> Result<CutNgrams> {
        let mut found: Vec<(Vec<u32>, u32)> = Vec::new();
        self.for_each_cut_window(parts, set.n, |part, window| {
            if set.first_words.contains(&window.words[0]) {
                found.push((window.words.to_vec(), part.first_file()));
            }
        })?;
        Ok(sorted(found))
    }

    /// Calls `visit` with all windows of n words that begin in one part of a file, which it is given too, and end in a later one.
    pub(super) fn for_each_cut_window<A>(
        &self,
        parts: &[(RootPart, A)],
        n: usize,
        mut visit: impl FnMut(&RootPart, CutWindow<'_>),
    ) -> Result<()> {
        let view = self.word_grammar()?.view();
        let edge = |(part, _): &(RootPart, A), from_end| -> Result<Vec<u32>> {
            let symbols = &view.root[part.root.clone()];
            let ends = [0, symbols.len() as u32];
            let only = GrammarView {
                root_offsets: &ends,
                root: symbols,
                ..view
            };
            Ok(edge_words(only, 0, n - 1, from_end))
        };
        parts
            .chunk_by(|(left, _), (right, _)| left.is_cut_from(right))
            .try_for_each(|parts| {
                for_each_cut(parts, n, edge, |window| {
                    visit(&parts[window.part].0, window);
                })
            })
    }
}

impl StoredView {
    /// Bytes for the windows of one segment's n-grams.
    pub(super) fn window_bytes(&self) -> usize {
        let (least, most) = WINDOW_BYTES;
        // At most the second of them.
        (self.cache().limit() / WINDOW_SHARE).clamp(least, most) as usize
    }

    /// As [`CorpusView::ngrams`], of the stored files.
    fn ngrams(&self, n: usize, top: Option<Top>, run: Run<'_>) -> Result<Vec<NgramsPart>> {
        run.preparing("vocabulary", || self.vocabulary())?;
        // With several segments only the sum of their counts tells what is used.
        let (of_segment, of_sums) = match self.segments.len() {
            1 => (top, None),
            _ => (None, top),
        };
        let question = NgramQuestion {
            top: of_segment,
            rows: of_sums.map(|_| NgramOrder::Words),
            ..self.all_ngrams(n)
        };
        let answers = self.each_segment::<NgramCounting>(&question, run)?;
        if let Some(Top {
            limit,
            descending,
            counts,
        }) = of_sums
        {
            let take = |rows: DeviceNgramRows| rows.top(limit, descending, counts);
            if let Some(used) = self.merged_counts(n, &answers, take)? {
                return Ok(vec![part_of_segment(NgramCountPart::Plain(used))]);
            }
        }
        self.joined_ngrams(n, answers.into_iter().enumerate(), |_| true)
    }

    /// As [`CorpusView::ngram_rows`], of the stored files.
    fn ngram_rows(&self, n: usize, order: NgramOrder, run: Run<'_>) -> Result<AllNgrams> {
        run.preparing("vocabulary", || self.vocabulary())?;
        let is_only = self.segments.len() == 1;
        let question = NgramQuestion {
            // With several segments only the sum of their counts tells the order.
            rows: Some(match is_only {
                true => order.clone(),
                false => NgramOrder::Words,
            }),
            ..self.all_ngrams(n)
        };
        let mut answers = self.each_segment::<NgramCounting>(&question, run)?;
        if is_only {
            let is_kept = |answer: &mut CountAnswer| matches!(answer, NgramAnswer::OnDevice(_));
            if let Some(NgramAnswer::OnDevice(rows)) = answers.pop_if(is_kept) {
                return Ok(NgramAnswer::OnDevice(rows));
            }
        } else {
            let take = |rows: DeviceNgramRows| match &order {
                NgramOrder::Words => Ok(rows),
                NgramOrder::Count(CountOrder { descending, ranks }) => {
                    rows.by_count(*descending, ranks.as_deref())
                }
            };
            if let Some(rows) = self.merged_counts(n, &answers, take)? {
                return Ok(NgramAnswer::OnDevice(rows));
            }
        }
        let parts = self.joined_ngrams(n, answers.into_iter().enumerate(), |_| true)?;
        Ok(NgramAnswer::Parts(parts))
    }

    /// The question for all n-grams.
    pub(super) fn all_ngrams(&self, n: usize) -> NgramQuestion {
        NgramQuestion {
            set: NgramSet::from(n),
            top: None,
            rows: None,
            segments: self.segments.len(),
            memory: self.window_bytes(),
        }
    }

    /// The n-grams of segments, by their places, as those of the corpus, with those that cuts of some stored files go through.
    pub(super) fn joined_ngrams(
        &self,
        n: usize,
        answers: impl Iterator<Item = (usize, CountAnswer)>,
        is_asked: impl Fn(usize) -> bool,
    ) -> Result<Vec<NgramsPart>> {
        let answers = answers.map(|(at, answer)| Ok((at, answer.into_parts()?)));
        let answers: Vec<(usize, Vec<NgramCountPart>)> = answers.collect::<Result<_>>()?;
        if self.segments.len() == 1 {
            let only = answers.into_iter().flat_map(|(_, parts)| parts);
            return Ok(only.map(part_of_segment).collect());
        }
        let (segments, found): (Vec<usize>, Vec<_>) = answers.into_iter().unzip();
        let vocabulary = self.vocabulary()?;
        let number = |at: usize, word| vocabulary.number(segments[at], word);
        merge_counts(n, found, &self.cut_ngrams(n, is_asked)?, number)
    }

    /// N-grams of the stored files with their files.
    fn ngram_files(&self, question: NgramFileQuestion, run: Run<'_>) -> Result<FileAnswer> {
        run.preparing("vocabulary", || self.vocabulary())?;
        if self.segments.len() == 1 {
            // The files of the only segment are those of the corpus, in the same order.
            let mut answers = self.each_segment::<NgramFileCounting>(&question, run)?;
            return Ok(answers.pop().unwrap_or(NgramAnswer::Parts(Vec::new())));
        }
        let NgramFileQuestion {
            order, top, rows, ..
        } = question;
        let n = question.set.n;
        let question = NgramFileQuestion {
            rows: (rows.is_some() || top.is_some()).then_some(NgramFileOrder::Words),
            ..self.all_ngram_files(n)
        };
        let answers = self.each_segment::<NgramFileCounting>(&question, run)?;
        if let Some(top) = top {
            let take =
                |merged: DeviceNgramFileRows| merged.top(top.limit, top.descending, top.counts);
            if let Some(used) = self.merged_files(n, order, &answers, take)? {
                return Ok(plain_files(vec![used]));
            }
        } else if let Some(rows) = rows {
            let take = |merged: DeviceNgramFileRows| match &rows {
                NgramFileOrder::Words => Ok(merged),
                NgramFileOrder::Texts(ranks) => merged.by_text(ranks),
            };
            if let Some(merged) = self.merged_files(n, order, &answers, take)? {
                return Ok(NgramAnswer::OnDevice(merged));
            }
        }
        let answers = answers.into_iter().enumerate();
        let parts = self.joined_ngram_files(n, order, answers, |_| true)?;
        Ok(NgramAnswer::Parts(parts))
    }

    /// The question for all n-grams with their files.
    pub(super) fn all_ngram_files(&self, n: usize) -> NgramFileQuestion {
        NgramFileQuestion {
            set: NgramSet::from(n),
            order: FileOrder::File,
            top: None,
            rows: None,
            segments: self.segments.len(),
            memory: self.window_bytes(),
        }
    }

    /// As `joined_ngrams`, with the files of n-grams.
    pub(super) fn joined_ngram_files(
        &self,
        n: usize,
        order: FileOrder,
        answers: impl Iterator<Item = (usize, FileAnswer)>,
        is_asked: impl Fn(usize) -> bool,
    ) -> Result<Vec<NgramFilePart>> {
        let answers = answers.map(|(at, answer)| Ok((at, answer.into_parts()?)));
        let mut answers: Vec<(usize, Vec<NgramFilePart>)> = answers.collect::<Result<_>>()?;
        if self.segments.len() == 1 {
            let only = answers.pop().map(|(_, parts)| parts);
            return Ok(only.unwrap_or_default());
        }
        let (segments, found): (Vec<usize>, Vec<_>) = answers.into_iter().unzip();
        let vocabulary = self.vocabulary()?;
        let numbers = Numbers {
            word: |at: usize, word| vocabulary.number(segments[at], word),
            file: |at: usize, file| self.file_number(segments[at], file),
        };
        merge_files(n, order, found, &self.cut_ngrams(n, is_asked)?, numbers)
    }

    /// Lets each segment build something for n-grams.
    #[cfg(test)]
    pub(super) fn build_ngrams(&self, kind: NgramStructure) -> Result<()> {
        (self.segments.iter()).try_for_each(|segment| {
            SegmentView::of(segment).build_ngrams(kind, &AtomicBool::new(false))
        })
    }

    /// How n-grams would be counted.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_ngrams(&self, n: usize, forced: Option<PathName>) -> Result<SpreadPlan<'_>> {
        self.plan::<NgramCounting>(&self.all_ngrams(n), forced)
    }

    /// How n-grams would be counted by file.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_ngram_files(
        &self,
        n: usize,
        forced: Option<PathName>,
    ) -> Result<SpreadPlan<'_>> {
        self.plan::<NgramFileCounting>(&self.all_ngram_files(n), forced)
    }

    /// The n-grams that begin in one part of a file and end in a later one, sorted, each with its file; one for each place.
    /// Of the stored files that are asked for.
    pub(super) fn cut_ngrams(
        &self,
        n: usize,
        is_asked: impl Fn(usize) -> bool,
    ) -> Result<CutNgrams> {
        let mut found: Vec<(Vec<u32>, u32)> = Vec::new();
        self.for_each_cut_ngram(n, is_asked, |words, file, _| {
            found.push((words.to_vec(), file));
        })?;
        Ok(sorted(found))
    }

    /// Calls `visit` with the n-grams that begin in one part of a file and end in a later one, their files, and the numbers
    /// of their first words in these; of the stored files that are asked for.
    pub(super) fn for_each_cut_ngram(
        &self,
        n: usize,
        is_asked: impl Fn(usize) -> bool,
        mut visit: impl FnMut(&[u32], u32, u64),
    ) -> Result<()> {
        let edge = |part: &Part, from_end| -> Result<Vec<u32>> {
            let segment = self.segment(part);
            let view = segment.word_grammar()?.view();
            let words = edge_words(view, part.file, n - 1, from_end).into_iter();
            let mut words: Vec<u32> = words.collect();
            self.to_numbers(part.segment as usize, &mut words)?;
            Ok(words)
        };
        for file in 0..self.index.files().len() {
            let parts = self.index.parts(file);
            if parts.len() == 1 || !is_asked(file) {
                continue;
            }
            let mut ends = Vec::with_capacity(parts.len());
            let mut end = 0;
            for part in parts {
                end += self.live(part).files()?[part.file as usize].words;
                ends.push(end);
            }
            for_each_cut(
                parts,
                n,
                edge,
                |CutWindow {
                     words,
                     part,
                     words_of_part,
                 }| {
                    // A file's place is a u32. At most n - 1 words lie before the cut.
                    visit(words, file as u32, ends[part] - words_of_part as u64);
                },
            )?;
        }
        Ok(())
    }
}

/// Changes of n-grams in so few files are looked for one by one.
const FEW_FILES: usize = 32;

pub(super) fn window_of(words: impl Iterator<Item = u32>) -> Window {
    let mut window = Window::default();
    for (place, word) in window.iter_mut().zip(words) {
        *place = word;
    }
    window
}

fn add_up(changes: &mut Vec<(Window, u32, i64)>) {
    changes.par_sort_unstable();
    changes.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        if same {
            kept.2 += next.2;
        }
        same
    });
    changes.retain(|&(.., change)| change != 0);
}

impl Edit {
    /// The first words of the windows of a region's words, or of its stored words, that are not on both sides.
    fn changed_windows<'a>(
        &self,
        region: &'a Region,
        n: usize,
    ) -> [(Range<usize>, &'a [RegionWord]); 2] {
        let text = &region.text;
        [&text.words, &text.stored].map(|words| {
            let last = words.len().saturating_sub(n - 1);
            // Windows wholly in front of what changed, or behind it, are on both sides.
            let from = (text.same_front + 1).saturating_sub(n);
            let to = (words.len() - text.same_back).min(last);
            (from..to.max(from), &words[..])
        })
    }
}

impl PendingView {
    /// What edits do to n-grams of n words.
    pub(super) fn windows(&self, n: usize, stop: &AtomicBool) -> Result<&WindowChanges> {
        if let Some(known) = self.windows[n].get() {
            return Ok(known);
        }
        // Without a lock: see `segment_view`.
        let window = |words: &[RegionWord], first: usize| {
            let words = words[first..first + n].iter();
            window_of(words.map(|word| self.numbering.number_met(word.word)))
        };
        let of_edit = |edit: &Edit| {
            let (mut changes, mut places) = (Vec::new(), Vec::new());
            check(stop)?;
            for region in &edit.regions().regions {
                let [(now, words), (before, stored)] = edit.changed_windows(region, n);
                for first in now {
                    let window = window(words, first);
                    changes.push((window, edit.file, 1));
                    places.push((window, edit.file, region.words.start + first as u64));
                }
                for first in before {
                    changes.push((window(stored, first), edit.file, -1));
                }
            }
            Ok((changes, places))
        };
        let found: Vec<(Vec<_>, Vec<_>)> =
            (self.edits.par_iter().map(of_edit)).collect::<Result<_>>()?;
        let (changes, places): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let (mut changes, mut places) = (changes.concat(), places.concat());
        check(stop)?;
        add_up(&mut changes);
        check(stop)?;
        places.par_sort_unstable();
        let built = WindowChanges { changes, places };
        let windows = self.windows[n].get_or_init(|| built);
        self.book();
        Ok(windows)
    }

    /// N-grams of the stored files, corrected.
    fn corrected_ngrams(&self, n: usize, run: Run<'_>) -> Result<Vec<NgramsPart>> {
        let parts = self.stored.ngrams(n, None, run)?;
        let mut changes = self.windows(n, run.stop)?.changes.clone();
        for &file in &self.gone {
            check(run.stop)?;
            let words = self.stored.words_of(file as usize)?;
            let words: Vec<u32> = words.iter().map(|&w| self.numbering.number(w)).collect();
            let windows = words.windows(n);
            changes.extend(windows.map(|words| (window_of(words.iter().copied()), NONE, -1)));
        }
        self.correct_ngrams(n, parts, changes, run.stop)
    }

    /// N-grams of stored files with what changes add and take off, in whatever file.
    pub(super) fn correct_ngrams(
        &self,
        n: usize,
        parts: Vec<NgramsPart>,
        mut changes: Vec<(Window, u32, i64)>,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramsPart>> {
        let parts = parts.into_iter();
        let mut parts: Vec<CountedNgrams> = parts.map(NgramsPart::into_counted).collect();
        if parts.is_empty() {
            parts.push(CountedNgrams::none());
        }
        self.renumber(parts.iter_mut().map(|part| &mut part.words));
        for change in &mut changes {
            change.1 = NONE;
        }
        check(stop)?;
        add_up(&mut changes);
        check(stop)?;
        let ranges = ranges_of(parts.iter().map(|part| &part.words[..]), n, &changes);
        let merged_parts = (parts.into_par_iter().zip(ranges)).map(|(part, range)| {
            let changes = &changes[range];
            if changes.is_empty() {
                return Ok(NgramsPart::Counted(part));
            }
            let mut words = Vec::with_capacity(part.words.len() + changes.len() * n);
            let mut counts = Vec::with_capacity(part.len() + changes.len());
            merge(&part.words, n, changes, |step| {
                match step {
                    MergeStep::Same(rows) => {
                        words.extend_from_slice(&part.words[rows.start * n..rows.end * n]);
                        part.counts.append_to(rows, &mut counts);
                    }
                    MergeStep::Changed(ngram, row, changes) => {
                        let change: i64 = changes.iter().map(|change| change.2).sum();
                        let before = row.map_or(0, |row| part.counts.get(row));
                        let count = changed(before, change, || self.ngram_subject(ngram))?;
                        if count > 0 {
                            words.extend_from_slice(ngram);
                            counts.push(count);
                        }
                    }
                }
                Ok(())
            })?;
            Ok(NgramsPart::Counted(CountedNgrams {
                words,
                counts: Counts::Merged(counts),
            }))
        });
        merged_parts.collect()
    }

    /// N-grams of the stored files with their files, corrected.
    fn corrected_ngram_files(
        &self,
        n: usize,
        order: FileOrder,
        run: Run<'_>,
    ) -> Result<Vec<NgramFilePart>> {
        let question = NgramFileQuestion {
            order,
            ..self.stored.all_ngram_files(n)
        };
        let parts = self.stored.ngram_files(question, run)?.into_parts()?;
        self.correct_ngram_files(n, order, parts, &self.windows(n, run.stop)?.changes)
    }

    /// N-grams of stored files with their files and what changes do to these; changes ascend.
    pub(super) fn correct_ngram_files(
        &self,
        n: usize,
        order: FileOrder,
        parts: Vec<NgramFilePart>,
        changes: &[(Window, u32, i64)],
    ) -> Result<Vec<NgramFilePart>> {
        let parts = parts.into_iter();
        let mut parts: Vec<NgramFiles> = parts.map(NgramFilePart::into_plain).collect();
        if parts.is_empty() {
            parts.push(NgramFiles {
                words: Vec::new(),
                files: CountTable::of_rows(Vec::new()).into(),
            });
        }
        self.renumber(parts.iter_mut().map(|part| &mut part.words));
        let ranges = ranges_of(parts.iter().map(|part| &part.words[..]), n, changes);
        // Then rows that no edit has changed stay as they are.
        let is_same = (0..).zip(&self.number_of).all(|(file, &now)| file == now);
        let merged_parts = (parts.into_par_iter().zip(ranges)).map(|(part, range)| {
            if is_same && range.is_empty() {
                return Ok(NgramFilePart::Plain(part));
            }
            let mut found = EditedRows {
                part: &part,
                words: Vec::with_capacity(part.words.len()),
                numbers: Vec::with_capacity(part.files.rows()),
                rows: CountTable::of_rows(Vec::new()),
            };
            let mut few = Vec::with_capacity(FEW_FILES);
            merge(&part.words, n, &changes[range], |step| {
                match step {
                    MergeStep::Same(rows) if is_same => found.keep(n, rows),
                    MergeStep::Same(rows) => {
                        for row in rows {
                            let ngram = &part.words[row * n..][..n];
                            found.push(ngram, self.files_now(part.files.row(row)));
                        }
                    }
                    MergeStep::Changed(ngram, row, changes) => {
                        let stored = row.map_or(&[][..], |row| part.files.row(row));
                        let of_files = changes.iter().map(|&(_, file, change)| (file, change));
                        if stored.len() + changes.len() <= FEW_FILES {
                            few.clear();
                            few.extend(self.files_now(stored));
                            correct_few(&mut few, of_files, || self.ngram_subject(ngram))?;
                            sort_files(&mut few, order);
                            found.push(ngram, few.drain(..));
                            return Ok(());
                        }
                        let mut now: Vec<(u32, u32)> = self.files_now(stored).collect();
                        now.sort_unstable();
                        let subject = |_| self.ngram_subject(ngram);
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
            Ok(NgramFilePart::Plain(NgramFiles {
                words,
                files: part.files.chosen(rows, numbers),
            }))
        });
        merged_parts.collect()
    }

    /// Gives n-grams of stored words the numbers they have now.
    pub(super) fn renumber<'a>(&self, lists: impl Iterator<Item = &'a mut Vec<u32>>) {
        if let Some(numbers) = self.numbering.numbers() {
            for words in lists {
                let words = words.par_iter_mut();
                words.for_each(|word| *word = numbers[*word as usize]);
            }
        }
    }
}

impl CorpusView {
    /// N-grams with their counts, in parts that follow each other: all, or those that `top` uses.
    ///
    /// # Errors
    /// If a segment is damaged, or the run is over.
    pub(crate) fn ngrams(
        &self,
        n: usize,
        top: Option<Top>,
        run: Run<'_>,
    ) -> Result<Vec<NgramsPart>> {
        let parts = match self.pending() {
            None => self.stored().ngrams(n, top, run)?,
            Some(pending) => pending.corrected_ngrams(n, run)?,
        };
        Ok(match top {
            None => parts,
            Some(top) => top.of_ngrams(parts, n),
        })
    }

    /// All n-grams with their counts, as [`CorpusView::ngrams`] gives them, or in this order on a device.
    ///
    /// # Errors
    /// If a segment is damaged, or the run is over.
    pub(crate) fn ngram_rows(
        &self,
        n: usize,
        order: NgramOrder,
        run: Run<'_>,
    ) -> Result<AllNgrams> {
        match self.pending() {
            None => self.stored().ngram_rows(n, order, run),
            Some(pending) => pending.corrected_ngrams(n, run).map(NgramAnswer::Parts),
        }
    }

    /// All n-grams, and for each a row of files with counts, in parts that follow each other.
    ///
    /// # Errors
    /// If a segment is damaged, or the run is over.
    pub(crate) fn ngram_files(
        &self,
        n: usize,
        order: FileOrder,
        run: Run<'_>,
    ) -> Result<Vec<NgramFilePart>> {
        match self.pending() {
            None => {
                let question = NgramFileQuestion {
                    order,
                    ..self.stored().all_ngram_files(n)
                };
                self.stored().ngram_files(question, run)?.into_parts()
            }
            Some(pending) => pending.corrected_ngram_files(n, order, run),
        }
    }

    /// As [`CorpusView::ngram_files`], in order of files; those that `top` does not use by their counts may be missing.
    ///
    /// # Errors
    /// If a segment is damaged, or the run is over.
    pub(crate) fn top_ngram_files(
        &self,
        n: usize,
        top: Top,
        run: Run<'_>,
    ) -> Result<Vec<NgramFilePart>> {
        match self.pending() {
            None => {
                let question = NgramFileQuestion {
                    top: Some(top),
                    ..self.stored().all_ngram_files(n)
                };
                self.stored().ngram_files(question, run)?.into_parts()
            }
            Some(pending) => pending.corrected_ngram_files(n, FileOrder::File, run),
        }
    }

    /// All n-grams with rows of files in an order, as [`CorpusView::ngram_files`] gives them, or in the order of `rows` on a device.
    ///
    /// # Errors
    /// If a segment is damaged, or the run is over.
    pub(crate) fn ngram_file_rows(
        &self,
        n: usize,
        order: FileOrder,
        rows: NgramFileOrder,
        run: Run<'_>,
    ) -> Result<FileAnswer> {
        match self.pending() {
            None => {
                let question = NgramFileQuestion {
                    order,
                    rows: Some(rows),
                    ..self.stored().all_ngram_files(n)
                };
                self.stored().ngram_files(question, run)
            }
            Some(pending) => {
                let parts = pending.corrected_ngram_files(n, order, run)?;
                Ok(NgramAnswer::Parts(parts))
            }
        }
    }
}

/// For each part the changes of n-grams from its first one up to that of the next; the first part has those before it too.
fn ranges_of<'a>(
    parts: impl Iterator<Item = &'a [u32]>,
    n: usize,
    changes: &[(Window, u32, i64)],
) -> Vec<Range<usize>> {
    let firsts: Vec<Option<Window>> = parts
        .map(|words| (!words.is_empty()).then(|| window_of(words[..n].iter().copied())))
        .collect();
    let mut ranges = vec![0..0; firsts.len()];
    let mut end = changes.len();
    for (range, first) in ranges.iter_mut().zip(&firsts).rev() {
        let start = match first {
            None => end,
            Some(first) => changes.partition_point(|change| change.0 < *first).min(end),
        };
        *range = start..end;
        end = start;
    }
    if let Some(first) = ranges.first_mut() {
        first.start = 0;
    }
    ranges
}

/// N-grams with their files, most of which are rows of a part.
struct EditedRows<'a> {
    part: &'a NgramFiles,
    words: Vec<u32>,
    numbers: Vec<u32>,
    /// Those that are not.
    rows: CountTable,
}

impl EditedRows<'_> {
    /// Takes n-grams of the part with their rows.
    fn keep(&mut self, n: usize, rows: Range<usize>) {
        self.words
            .extend_from_slice(&self.part.words[rows.start * n..rows.end * n]);
        // There are fewer rows than windows.
        let numbers = rows.map(|row| self.part.files.number(row) as u32);
        self.numbers.extend(numbers);
    }

    /// Takes an n-gram, unless no file has it.
    fn push(&mut self, ngram: &[u32], files: impl Iterator<Item = (u32, u32)>) {
        let before = self.rows.entries.len();
        self.rows.entries.extend(files);
        if self.rows.entries.len() > before {
            self.numbers
                .push((self.part.files.end() + self.rows.rows()) as u32);
            self.rows.offsets.push(self.rows.entries.len());
            self.words.extend_from_slice(ngram);
        }
    }
}

/// A step through stored n-grams and changes, in order.
enum MergeStep<'a> {
    /// Stored n-grams that no change is of, by their rows.
    Same(Range<usize>),
    /// An n-gram, its row if it is stored, and its changes.
    Changed(&'a [u32], Option<usize>, &'a [(Window, u32, i64)]),
}

/// Goes through n-grams and changes in order.
fn merge(
    words: &[u32],
    n: usize,
    changes: &[(Window, u32, i64)],
    mut visit: impl FnMut(MergeStep<'_>) -> Result<()>,
) -> Result<()> {
    let (mut row, rows) = (0, words.len() / n);
    for changes in changes.chunk_by(|left, right| left.0 == right.0) {
        let ngram = &changes[0].0[..n];
        let end = row + smaller(&words[row * n..], n, ngram);
        if row < end {
            visit(MergeStep::Same(row..end))?;
        }
        let is_stored = words.get(end * n..(end + 1) * n) == Some(ngram);
        visit(MergeStep::Changed(ngram, is_stored.then_some(end), changes))?;
        row = end + usize::from(is_stored);
    }
    match row < rows {
        true => visit(MergeStep::Same(row..rows)),
        false => Ok(()),
    }
}

/// How many of sorted n-grams are smaller than one. Work: logarithmic in that number.
fn smaller(words: &[u32], n: usize, ngram: &[u32]) -> usize {
    let rows = words.len() / n;
    let is_smaller = |row: usize| words[row * n..][..n] < *ngram;
    gallop(rows, is_smaller)
}

/// Words a symbol of the grammar at most: 9 bytes a word are then no more than some times the grammar.
const SYMBOL_WORDS_MAX: u64 = 4;

/// Bytes that a suffix array takes for each word.
const SUFFIX_BYTES: u64 = 9;

/// Bytes that a table takes for each symbol, about.
const TABLE_BYTES: u64 = 40;

/// Whether n-grams of n words are told by structures of their own: single words are answered elsewhere.
fn has_ngrams(n: usize) -> bool {
    (2..=NGRAM_WORDS_MAX).contains(&n)
}

/// What to build of a grammar.
fn plan_of(grammar: &WordGrammar) -> NgramPlan {
    let view = grammar.view();
    let counts = grammar.weights()[..view.terminal_count as usize].iter();
    let words: u64 = counts.map(|&count| u64::from(count)).sum();
    let symbols = (view.symbols.len() + view.root.len()) as u64;
    match words <= symbols * SYMBOL_WORDS_MAX {
        true => NgramPlan {
            structure: NgramStructure::Suffixes,
            price: words as f64 * SUFFIX_BUILD_COST,
            bytes: words * SUFFIX_BYTES,
        },
        false => NgramPlan {
            structure: NgramStructure::Table,
            price: symbols as f64 * TABLE_BUILD_COST,
            bytes: symbols * TABLE_BYTES,
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use zipfdb_storage::{Dictionary, FileEntry, Grammar};

    use super::*;
    use crate::segment::LiveSegment;

    /// A file of so many words, each `copies` times in a row, and all of them eight times.
    fn segment(words: u32, copies: u32) -> Arc<LiveSegment> {
        let file = FileEntry {
            name: "a".into(),
            bytes: 0,
            words: u64::from(8 * words * copies),
            crc32: 0,
            first_byte: 0,
            first_word: 0,
            last_part: true,
        };
        let bytes: Vec<u8> = (0..words as u8).map(|word| b'a' + word).collect();
        let dictionary =
            Dictionary::new((0..=u64::from(words)).collect(), bytes, words, Vec::new());
        let grammar = Grammar {
            terminal_count: words,
            rule_offsets: (0..=words).map(|rule| rule * copies).collect(),
            symbols: (0..words * copies).map(|at| at / copies).collect(),
            level_offsets: vec![0, words],
            root_offsets: vec![0, 8 * words],
            root: (0..8 * words).map(|at| words + at % words).collect(),
        };
        Arc::new(LiveSegment::in_memory(0, vec![file], dictionary, grammar))
    }

    #[test]
    fn what_pays_is_built_when_queries_have_taken_as_long_as_that_takes() {
        let (stop, stopped) = (AtomicBool::new(false), AtomicBool::new(true));
        let now = Instant::now();
        // Text that the grammar shortens is better left in it.
        for (live, structure) in [
            (segment(10, 2), NgramStructure::Suffixes),
            (segment(10, 90), NgramStructure::Table),
        ] {
            let segment = SegmentView::of(&live);
            let budget = &live.budgets.ngrams;
            (segment.spend_on_ngrams(3, now + Duration::from_secs(60), &stop)).unwrap();
            assert!(live.ngram_structure().is_none());
            budget.make_due();
            segment.spend_on_ngrams(1, now, &stop).unwrap();
            segment.spend_on_ngrams(9, now, &stop).unwrap();
            assert!(live.ngram_structure().is_none());
            segment.spend_on_ngrams(3, now, &stopped).unwrap();
            assert!(live.ngram_structure().is_none());
            budget.make_due();
            segment.spend_on_occurrences(2, now, &stop).unwrap();
            let is_there = live.ngram_structure().is_some();
            assert_eq!(is_there, structure == NgramStructure::Suffixes);
            segment.spend_on_ngrams(3, now, &stop).unwrap();
            assert_eq!(live.ngram_structure(), Some(structure));
            assert!([1, 9].iter().all(|&n| {
                segment
                    .ngram_structure_cost::<WordSuffixes>(n, 0.0)
                    .is_none()
            }));
            // What is there is not built again, which would begin to count anew.
            budget.make_due();
            segment.spend_on_ngrams(3, now, &stop).unwrap();
            assert!(budget.is_due(1));
        }
    }
}
