//! N-grams: all sequences of n words with their counts, or with the files that have them.
//!
//! Invariant: answers are those of the current texts. Each segment answers in its own numbers of words by the cheapest of the
//! access paths below; here they become those of the corpus, and the n-grams across cuts between the parts of a file are added.
//! Edits take off the windows of words that they broke and add those that they made.
//!
//! A segment builds a structure for n-grams once queries without it have taken as long as building it: a suffix array (all places
//! sorted) for text that the grammar does not shorten much, else a table of the distinct n-grams of eight words.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::{
    FileOrder, GrammarView, NGRAM_WORDS_MAX, NgramSet, NgramTable, RuleFiles, WordGrammar,
    WordSuffixes,
};
use zipfdb_storage::IndexKind;

use super::access_path::{AccessPath, PartitionOperation, PathName, Run};
use super::corpus_view::CorpusView;
use super::correction::{Window, WindowChanges, window_of};
use super::device_ngrams::kept_bytes;
use super::device_partitions::{RootPart, window_bytes};
use super::file_index::Part;
use super::merge::{CutNgrams, CutWindow, for_each_cut, sorted};
use super::ngram_merge::{Numbers, merge_parts};
use super::ngram_payload::{
    NgramAnswer, NgramOrder, NgramPayload, NgramQuestion, NgramRequest, NgramsPart,
};
use super::pending_view::{Edit, NONE, PendingView};
use super::placement::{DeviceOperation, PlacementPlan};
use super::stored_view::StoredView;
use crate::Result;
use crate::merge::sum_equal;
use crate::overlay::{Region, RegionWord};
use crate::runtime::device::OnDevice;
use crate::runtime::interrupt::check;
use crate::segment::cost::{
    NGRAM_INDEX_COST, SUFFIX_BUILD_COST, SUFFIX_LOAD_COST, Size, TABLE_BUILD_COST, TABLE_LOAD_COST,
};
use crate::segment::{NgramPlan, NgramStructure, SegmentStructure, SegmentView, edge_words};

/// Bytes for the windows of one segment's n-grams: the limit of the cache divided by this.
const WINDOW_SHARE: u64 = 4;

/// The least and the most bytes for the windows of one segment's n-grams.
const WINDOW_BYTES: (u64, u64) = (1 << 20, 72 << 20);

/// N-grams of a segment, in consecutive parts.
pub(crate) struct NgramCounting<P>(PhantomData<P>);

impl<P: NgramPayload> PartitionOperation for NgramCounting<P> {
    type Question<'a> = NgramQuestion;
    type Answer = NgramAnswer<P>;

    const PATHS: &'static [AccessPath<NgramCounting<P>>] = &[
        AccessPath {
            name: PathName::SuffixArray,
            needs: &[],
            cost: |question, segment| {
                let work = segment.extent().words as f64 * P::SUFFIX_COST;
                segment.ngram_structure_cost::<WordSuffixes>(question.set.n, work)
            },
            run: |question, segment, run| {
                let suffixes = segment.pin_until::<WordSuffixes>(run.stop)?;
                Ok(plain(P::of_suffixes(suffixes, question, run.stop)?))
            },
        },
        AccessPath {
            name: PathName::NgramTable,
            needs: &[],
            cost: |question, segment| {
                let work = segment.size().0 as f64 * P::TABLE_COST;
                segment.ngram_structure_cost::<NgramTable>(question.set.n, work)
            },
            run: |question, segment, run| {
                let table = segment.pin_until::<NgramTable>(run.stop)?;
                Ok(plain(P::of_table(table, question, run.stop)?))
            },
        },
        AccessPath {
            name: P::GRAMMAR,
            needs: P::GRAMMAR_NEEDS,
            cost: |_, segment| Some(P::grammar_work(segment.extent()) / segment.thread_count()),
            run: |question, segment, run| {
                let grammar = segment.word_grammar()?;
                let lists = if P::HAS_FILES {
                    segment.rule_files(question.set.n, run.stop)?
                } else {
                    None
                };
                let grammar = (grammar.view(), grammar.weights());
                let begin = Instant::now();
                let parts = P::of_grammar(grammar, lists, question, run.stop)?;
                segment.spend_on_all_ngrams(&question.set, begin, run.stop)?;
                Ok(packed(parts))
            },
        },
    ];
}

impl<P: NgramPayload> DeviceOperation for NgramCounting<P> {
    fn device_work(size: Size) -> f64 {
        size.symbols as f64 * P::DEVICE_COST
    }

    fn run_on(
        question: &NgramQuestion,
        segment: &SegmentView,
        device: &OnDevice<'_>,
    ) -> Result<NgramAnswer<P>> {
        segment.ngrams_on(device, question)
    }
}

/// An answer from a derived structure.
fn plain<P: NgramPayload>(parts: Vec<P::Table>) -> NgramAnswer<P> {
    NgramAnswer::Parts(parts.into_iter().map(NgramsPart::Plain).collect())
}

/// An answer from a grammar.
pub(super) fn packed<P: NgramPayload>(parts: Vec<P::Packed>) -> NgramAnswer<P> {
    NgramAnswer::Parts(parts.into_iter().map(NgramsPart::Packed).collect())
}

impl SegmentView {
    /// The cost of an answer from an n-gram structure in memory; infinite if the structure is missing and has no index, none if
    /// it has no n-grams of n words.
    pub(super) fn ngram_structure_cost<S: SegmentStructure>(
        &self,
        n: usize,
        work: f64,
    ) -> Option<f64> {
        has_ngrams(n).then(|| {
            if self.has(S::KIND) {
                return work / self.thread_count();
            }
            // All n-grams need the whole index; a single n-gram is looked up in the file.
            match self.plan_of_index() {
                Some(plan) if plan.structure.kind() == S::KIND && self.has_room(plan.bytes) => {
                    (work + plan.price) / self.thread_count()
                }
                _ => f64::INFINITY,
            }
        })
    }

    /// The cost of an n-gram of n words from an index on disk, in nanoseconds; none without an index of this kind.
    pub(super) fn ngram_index_cost(&self, kind: IndexKind, n: usize) -> Option<f64> {
        (has_ngrams(n) && self.has_index(kind)).then_some(NGRAM_INDEX_COST)
    }

    /// The structure that n-grams come from once it is read back from an index on disk; none without an index.
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
        // Once: adding up all words takes longer than finding a phrase.
        if let Some(&plan) = self.ngram_plan.get() {
            return Ok(plan);
        }
        let plan = plan_of(self.word_grammar()?);
        Ok(*self.ngram_plan.get_or_init(|| plan))
    }

    /// Adds the time of a query for n-grams since `begin` to the budget of the missing structure, and builds that if it is due.
    pub(super) fn spend_on_ngrams(
        &self,
        n: usize,
        begin: Instant,
        stop: &AtomicBool,
    ) -> Result<()> {
        // Another query may have built it meanwhile.
        if !has_ngrams(n) || self.ngram_structure().is_some() {
            return Ok(());
        }
        let budget = &self.budgets.ngrams;
        let plan = self.ngram_plan()?;
        let price = (plan.price / rayon::current_num_threads() as f64) as u64;
        // The time of a single query, however slow, does not pay for the structure, which would need memory beside that of the
        // query.
        let is_due = budget.is_due(price);
        budget.add_since(begin);
        if is_due && self.has_room(plan.bytes + self.build_bytes() as u64) {
            // An error does not end a query that has its answer; a later one tries again.
            drop(budget.build_if_due(price, || self.build_ngrams(plan.structure, stop)));
        }
        Ok(())
    }

    /// Adds the time of a query for a phrase since `begin` to the budget of a suffix array that the cache has no room for. If that was
    /// due before it is written to a temporary index.
    pub(super) fn spend_on_suffix_index(&self, begin: Instant, stop: &AtomicBool) -> Result<()> {
        let words = self.extent().words;
        let bytes = words * SUFFIX_BYTES;
        if self.has_room(bytes + self.build_bytes() as u64) {
            return Ok(());
        }
        let budget = &self.budgets.suffixes;
        // Below 2^40.
        let price = (words as f64 * SUFFIX_BUILD_COST / self.thread_count()) as u64;
        let was_due = budget.is_due(price);
        budget.add_since(begin);
        if was_due {
            self.write_index_if_due(IndexKind::Suffixes, budget, price, bytes, stop)?;
        }
        Ok(())
    }

    /// As `spend_on_ngrams`, of a query for some n-grams of n words. A query that asks for them in parts lacks memory for a
    /// structure, and all its parts are one query.
    fn spend_on_all_ngrams(&self, set: &NgramSet, begin: Instant, stop: &AtomicBool) -> Result<()> {
        if set.is_all() {
            self.spend_on_ngrams(set.n, begin, stop)?;
        }
        Ok(())
    }

    /// As `spend_on_ngrams`, of a query for occurrences, which a table does not have.
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

    /// The structure from which the files of n-grams of n words are added up; none if it is not needed.
    fn rule_files(&self, n: usize, stop: &AtomicBool) -> Result<Option<&RuleFiles>> {
        if n > 1 && self.files()?.len() > 1 {
            self.pin_until(stop).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Pins the sources of n-grams of n words, with or without their files, unless a derived structure has them.
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

    /// Counts n-grams on a device.
    pub(super) fn ngrams_on<P: NgramPayload>(
        &self,
        device: &OnDevice<'_>,
        question: &NgramQuestion,
    ) -> Result<NgramAnswer<P>> {
        let set = &question.set;
        // The n-grams of single words include ones that the question does not ask for.
        let top = question.top.filter(|_| set.n > 1);
        let mut parts = self.with_words(device, |gpu, on, is_whole| {
            let rows = (question.rows.as_ref()).filter(|_| is_whole && set.is_all());
            let (mut found, mut kept) = (Vec::new(), None);
            let mut take = |part: P::DevicePart, is_only| {
                let kept_bytes = kept_bytes(gpu, question.segments);
                if let Some(order) = rows.filter(|_| is_only && P::bytes(&part) <= kept_bytes) {
                    kept = Some(P::into_rows(part, gpu, set.n, order)?);
                    return Ok(());
                }
                // An n-gram, and a file, may lie in several parts of the roots.
                let top = top.filter(|_| is_whole);
                found.push(NgramsPart::Plain(P::download(part, gpu, set, top)?));
                Ok(())
            };
            P::each_on(gpu, on, question, window_bytes(gpu), &mut take)?;
            Ok(kept.map_or(NgramAnswer::Parts(found), NgramAnswer::OnDevice))
        })?;
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0).1);
        }
        let cut = self.cut_ngrams(&parts, set)?;
        let parts = (parts.into_iter()).map(|(part, found)| Ok((part, found.into_parts()?)));
        let parts: Vec<(RootPart, Vec<NgramsPart<P>>)> = parts.collect::<Result<_>>()?;
        let (parts, found): (Vec<RootPart>, Vec<_>) = parts.into_iter().unzip();
        let numbers = Numbers {
            word: |_, word| word,
            file: |part: usize, file| parts[part].file_of(file),
        };
        merge_parts(set.n, question.order, found, &cut, numbers).map(NgramAnswer::Parts)
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

    /// Calls `visit` with all windows of n words that begin in one part of a file, which it gets too, and end in a later one.
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

    /// N-grams of the stored files.
    pub(super) fn ngrams<P: NgramPayload>(
        &self,
        question: NgramQuestion,
        run: Run<'_>,
    ) -> Result<NgramAnswer<P>> {
        run.preparing("vocabulary", || self.vocabulary())?;
        if self.segments.len() == 1 {
            // Words and files of the only segment are those of the corpus, in the same order.
            let mut answers = self.each_segment::<NgramCounting<P>>(&question, run)?;
            return Ok(answers.pop().unwrap_or(NgramAnswer::Parts(Vec::new())));
        }
        let NgramQuestion {
            order, top, rows, ..
        } = question;
        let n = question.set.n;
        // Only the sums of their counts decide which are used, and the order.
        let is_kept = rows.is_some() || top.is_some();
        let question = NgramQuestion {
            rows: is_kept.then_some(NgramOrder::Words),
            ..self.all_ngrams(n)
        };
        let answers = self.each_segment::<NgramCounting<P>>(&question, run)?;
        if let Some(top) = top {
            let take = |rows| P::download_rows(rows, Some(top));
            if let Some(used) = self.merged_rows::<P, _>(n, order, &answers, take)? {
                return Ok(plain(vec![used]));
            }
        } else if let Some(rows) = rows {
            let take = |merged| P::ordered_rows(merged, &rows);
            if let Some(merged) = self.merged_rows::<P, _>(n, order, &answers, take)? {
                return Ok(NgramAnswer::OnDevice(merged));
            }
        }
        let answers = answers.into_iter().enumerate();
        self.joined_ngrams(n, order, answers, |_| true)
    }

    /// The question for all n-grams.
    pub(super) fn all_ngrams(&self, n: usize) -> NgramQuestion {
        NgramQuestion {
            set: NgramSet::from(n),
            order: FileOrder::File,
            top: None,
            rows: None,
            segments: self.segments.len(),
            memory: self.window_bytes(),
        }
    }

    /// The n-grams of segments, by their places, as those of the corpus, with those across cuts of some stored files.
    pub(super) fn joined_ngrams<P: NgramPayload>(
        &self,
        n: usize,
        order: FileOrder,
        answers: impl Iterator<Item = (usize, NgramAnswer<P>)>,
        is_asked: impl Fn(usize) -> bool,
    ) -> Result<NgramAnswer<P>> {
        let answers = answers.map(|(at, answer)| Ok((at, answer.into_parts()?)));
        let mut answers: Vec<(usize, Vec<NgramsPart<P>>)> = answers.collect::<Result<_>>()?;
        if self.segments.len() == 1 {
            let only = answers.pop().map(|(_, parts)| parts);
            return Ok(NgramAnswer::Parts(only.unwrap_or_default()));
        }
        let (segments, found): (Vec<usize>, Vec<_>) = answers.into_iter().unzip();
        let vocabulary = self.vocabulary()?;
        let numbers = Numbers {
            word: |at: usize, word| vocabulary.number(segments[at], word),
            file: |at: usize, file| self.file_number(segments[at], file),
        };
        let cut = self.cut_ngrams(n, is_asked)?;
        merge_parts(n, order, found, &cut, numbers).map(NgramAnswer::Parts)
    }

    /// Builds an n-gram structure of each segment.
    #[cfg(test)]
    pub(crate) fn build_ngrams(&self, kind: NgramStructure) -> Result<()> {
        (self.segments.iter()).try_for_each(|segment| {
            SegmentView::of(segment).build_ngrams(kind, &AtomicBool::new(false))
        })
    }

    /// Plans [`CorpusView::ngrams`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_ngrams<P: NgramPayload>(
        &self,
        n: usize,
        forced: Option<PathName>,
    ) -> Result<PlacementPlan<'_>> {
        self.plan::<NgramCounting<P>>(&self.all_ngrams(n), forced)
    }

    /// The n-grams of the chosen stored files that begin in one part of a file and end in a later one, sorted, each with its
    /// file; one for each place.
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

    /// Calls `visit` with the n-grams that begin in one part of a file and end in a later one, their files, and the positions of
    /// their first words; for the chosen stored files.
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

fn add_up(changes: &mut Vec<(Window, u32, i64)>) {
    changes.par_sort_unstable();
    sum_equal(
        changes,
        |left, right| (left.0, left.1) == (right.0, right.1),
        |kept, next| kept.2 += next.2,
    );
    changes.retain(|&(.., change)| change != 0);
}

impl Edit {
    /// The first words of the windows of a region's words, or of its stored words, that differ between the two.
    fn changed_windows<'a>(
        &self,
        region: &'a Region,
        n: usize,
    ) -> [(Range<usize>, &'a [RegionWord]); 2] {
        let text = &region.text;
        [&text.words, &text.stored].map(|words| {
            let last = words.len().saturating_sub(n - 1);
            // Both texts have the same windows before and behind the change.
            let from = (text.same_front + 1).saturating_sub(n);
            let to = (words.len() - text.same_back).min(last);
            (from..to.max(from), &words[..])
        })
    }
}

impl PendingView {
    /// The changes of n-grams of n words by edits.
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

    /// The changes by edits of n-grams of n words of some files or of all, ascending. Where files are not distinguished, the
    /// changes of each n-gram are added up.
    fn ngram_changes_of<P: NgramPayload>(
        &self,
        n: usize,
        files: Option<&[u32]>,
        stop: &AtomicBool,
    ) -> Result<Vec<(Window, u32, i64)>> {
        let all = self.windows(n, stop)?.changes.iter();
        let is_asked = |file: &u32| files.is_none_or(|files| files.binary_search(file).is_ok());
        let chosen = all.filter(|(_, file, _)| is_asked(file));
        let mut changes: Vec<(Window, u32, i64)> = chosen.copied().collect();
        if P::HAS_FILES {
            return Ok(changes);
        }
        let gone = self.gone.iter().filter(|_| files.is_none());
        for &file in gone {
            check(stop)?;
            let words = self.stored.words_of(file as usize)?;
            let words: Vec<u32> = words.iter().map(|&w| self.numbering.number(w)).collect();
            let windows = words.windows(n);
            changes.extend(windows.map(|words| (window_of(words.iter().copied()), NONE, -1)));
        }
        for change in &mut changes {
            change.1 = NONE;
        }
        check(stop)?;
        add_up(&mut changes);
        check(stop)?;
        Ok(changes)
    }

    /// Corrects n-grams of stored files by changes, which ascend.
    fn correct_ngrams<P: NgramPayload>(
        &self,
        shape: (usize, FileOrder),
        parts: Vec<NgramsPart<P>>,
        changes: &[(Window, u32, i64)],
    ) -> Result<Vec<NgramsPart<P>>> {
        let parts = parts.into_iter();
        let mut parts: Vec<P::Table> = parts.map(NgramsPart::into_plain).collect();
        if parts.is_empty() {
            parts.push(P::Table::default());
        }
        self.renumber(parts.iter_mut().map(P::words_mut));
        let ranges = ranges_of(
            parts.iter().map(|part| &P::words(part)[..]),
            shape.0,
            changes,
        );
        let corrected = (parts.into_par_iter().zip(ranges)).map(|(part, range)| {
            P::corrected(self, shape, part, &changes[range]).map(NgramsPart::Plain)
        });
        corrected.collect()
    }

    /// Gives n-grams of stored words their current numbers.
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
    /// The n-grams of a request: on the host by the numbers of their words, or all on a device in the order of their rows.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn ngrams<P: NgramPayload>(
        &self,
        request: NgramRequest,
        run: Run<'_>,
    ) -> Result<NgramAnswer<P>> {
        let NgramRequest {
            n,
            files,
            order,
            rows,
            top,
        } = request;
        if let (Some(top), None) = (top, &files)
            && let Some(first) = P::first(self, n, top, run)?
        {
            return Ok(NgramAnswer::Parts(top.of_parts(first, n)));
        }
        let is_whole = files.is_none() && self.pending().is_none();
        let question = NgramQuestion {
            order,
            top: top.filter(|_| is_whole),
            rows: rows.filter(|_| is_whole),
            ..self.stored().all_ngrams(n)
        };
        let mut answer = match &files {
            None => self.stored().ngrams(question, run)?,
            Some(files) => self.stored_ngrams_in(files, &question, run)?,
        };
        if let Some(pending) = self.pending() {
            let changes = pending.ngram_changes_of::<P>(n, files.as_deref(), run.stop)?;
            let parts = answer.into_parts()?;
            answer = NgramAnswer::Parts(pending.correct_ngrams((n, order), parts, &changes)?);
        }
        Ok(match (top, answer) {
            (Some(top), NgramAnswer::Parts(parts)) => NgramAnswer::Parts(top.of_parts(parts, n)),
            (_, answer) => answer,
        })
    }
}

/// For each part the changes of n-grams from its first one up to that of the next; the first part has earlier ones too.
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

/// The most words for each symbol of the grammar at which a suffix array is built: its size is then a small multiple of the
/// grammar's.
const SYMBOL_WORDS_MAX: u64 = 4;

/// Bytes that a suffix array takes for each word.
pub(super) const SUFFIX_BYTES: u64 = 9;

/// Bytes of a table for each symbol, about.
const TABLE_BYTES: u64 = 40;

/// Whether derived structures have n-grams of n words: single words are answered elsewhere.
pub(super) fn has_ngrams(n: usize) -> bool {
    (2..=NGRAM_WORDS_MAX).contains(&n)
}

/// The structure to build of a grammar.
fn plan_of(grammar: &WordGrammar) -> NgramPlan {
    let view = grammar.view();
    let counts = grammar.weights()[..view.terminal_count as usize].iter();
    let words: u64 = counts.map(|&count| u64::from(count)).sum();
    let symbols = (view.symbols.len() + view.root.len()) as u64;
    if words <= symbols * SYMBOL_WORDS_MAX {
        NgramPlan {
            structure: NgramStructure::Suffixes,
            price: words as f64 * SUFFIX_BUILD_COST,
            bytes: words * SUFFIX_BYTES,
        }
    } else {
        NgramPlan {
            structure: NgramStructure::Table,
            price: symbols as f64 * TABLE_BUILD_COST,
            bytes: symbols * TABLE_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::time::Duration;

    use zipfdb_storage::{Dictionary, FileEntry, Grammar};

    use super::*;
    use crate::segment::LiveSegment;

    /// A file of `words` words, each `copies` times in a row, and all of them eight times.
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
        // Text that the grammar shortens gets a table.
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
            // A structure in memory is not built again, which would start a new budget.
            budget.make_due();
            segment.spend_on_ngrams(3, now, &stop).unwrap();
            assert!(budget.is_due(1));
        }
    }
}
