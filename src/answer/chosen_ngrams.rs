//! N-grams of some files: of their roots and the rules that these use, as if there were no others.
//!
//! Invariant: answers are those of all files with the rows of other files left out. A segment all of whose files are asked for
//! answers as for all files.

use std::sync::atomic::AtomicBool;

use zipfdb_kernels::{
    ChosenFiles, FileOrder, RuleFiles, WordUses, ngram_counts_packed, ngram_file_counts_packed,
};

use super::corpus_view::CorpusView;
use super::correction::Window;
use super::cost::{COUNT_ALL_SYMBOL_COST, NGRAM_FACTOR, SYMBOL_COST, WORD_COST};
use super::ngram_packing::{CountAnswer, FileAnswer, NgramFilePart, NgramsPart};
use super::ngrams::{
    NgramCounting, NgramFileCounting, NgramFileQuestion, NgramQuestion, packed, packed_files,
};
use super::path::{AccessPath, PartitionOperation, PathName, Run, answer, choose};
use super::pending_view::PendingView;
use super::spread::SpreadPlan;
use super::stored_view::StoredView;
use super::top::Top;
use super::word_counts::file_weights_cost;
use crate::Result;
use crate::segment::{SegmentView, StructureKind};

/// Which n-grams are counted, and in which files of a segment: each once, ascending.
#[derive(Clone)]
pub(super) struct ChosenQuestion<'a, Q> {
    pub(super) ngrams: Q,
    pub(super) files: &'a [u32],
}

impl<Q> ChosenQuestion<'_, Q> {
    fn has_all(&self, segment: &SegmentView) -> bool {
        segment.extent().files == self.files.len() as u64
    }

    /// Words of the files.
    fn words(&self, segment: &SegmentView) -> Option<u64> {
        let entries = segment.files().ok()?;
        let words = self.files.iter().map(|&file| entries[file as usize].words);
        Some(words.sum())
    }
}

/// What every path has to do first: to follow the rules that the files use.
fn choosing_cost(segment: &SegmentView) -> f64 {
    segment.size().0 as f64 * SYMBOL_COST
}

/// What `W` answers for all files, where those that are asked for are all files of a segment.
const fn all_files<O, W, Q>() -> AccessPath<O>
where
    Q: Clone + Sync + 'static,
    W: for<'a> PartitionOperation<Question<'a> = Q>,
    O: for<'a> PartitionOperation<Question<'a> = ChosenQuestion<'a, Q>, Answer = W::Answer>,
{
    AccessPath {
        name: PathName::AllFiles,
        needs: &[],
        cost: |question, segment| {
            let all = question.has_all(segment);
            let all = all.then(|| choose::<W>(&question.ngrams, segment, None).ok())?;
            Some(all?.cost())
        },
        run: |question, segment, run| answer::<W>(&question.ngrams, segment, run.unforced()),
    }
}

/// N-grams of some files of a segment with their counts, in parts that follow each other.
pub(super) struct ChosenNgrams;

impl PartitionOperation for ChosenNgrams {
    type Question<'a> = ChosenQuestion<'a, NgramQuestion>;
    type Answer = CountAnswer;

    const PATHS: &'static [AccessPath<ChosenNgrams>] = &[
        all_files::<ChosenNgrams, NgramCounting, NgramQuestion>(),
        AccessPath {
            name: PathName::Weights,
            needs: &[StructureKind::WordGrammar],
            cost: |question, segment| {
                let (size, words) = (segment.extent(), question.words(segment)?);
                // Each n-gram crosses from one symbol to the next, once for each place in a root.
                let symbols = size.symbols.min(words) as f64 * SYMBOL_COST;
                let counted = symbols + size.tokens.min(words) as f64 * WORD_COST;
                let work = choosing_cost(segment) + counted * NGRAM_FACTOR;
                Some(work / segment.thread_count())
            },
            run: |ChosenQuestion { ngrams, files }, segment, run| {
                let all = segment.word_grammar()?.view();
                let chosen = ChosenFiles::new(all, files);
                let (view, weights) = (chosen.view(all), chosen.weights());
                let (set, memory) = (ngrams.set.clone(), ngrams.memory);
                let counts = ngram_counts_packed(view, weights, set, memory, run.stop)?;
                Ok(packed(counts))
            },
        },
    ];
}

/// N-grams of some files of a segment with those of the files that have them, in parts that follow each other.
pub(super) struct ChosenNgramFiles;

impl PartitionOperation for ChosenNgramFiles {
    type Question<'a> = ChosenQuestion<'a, NgramFileQuestion>;
    type Answer = FileAnswer;

    const PATHS: &'static [AccessPath<ChosenNgramFiles>] = &[
        all_files::<ChosenNgramFiles, NgramFileCounting, NgramFileQuestion>(),
        AccessPath {
            name: PathName::FileWeights,
            needs: &[StructureKind::WordGrammar],
            cost: |question, segment| {
                let (files, words) = (question.files.len() as u64, question.words(segment)?);
                let size = segment.extent();
                // Lists of the files that have a rule are gathered for all rules.
                let lists = size.symbols.min(words) as f64 * COUNT_ALL_SYMBOL_COST;
                let counted = file_weights_cost(size, files, words) * NGRAM_FACTOR;
                Some((choosing_cost(segment) + lists + counted) / segment.thread_count())
            },
            run: |ChosenQuestion { ngrams, files }, segment, run| {
                let all = segment.word_grammar()?.view();
                let chosen = ChosenFiles::new(all, files);
                let (view, weights) = (chosen.view(all), chosen.weights());
                let (set, order, memory) = (ngrams.set.clone(), ngrams.order, ngrams.memory);
                let lists = RuleFiles::new(view, &WordUses::new(view), run.stop)?;
                let files = ngram_file_counts_packed(
                    view,
                    weights,
                    Some(&lists),
                    set,
                    order,
                    memory,
                    run.stop,
                )?;
                Ok(packed_files(files))
            },
        },
    ];
}

impl StoredView {
    /// What each segment answers of the files that are asked for there, by its place.
    fn each_chosen<Q: Clone, O>(
        &self,
        files: &[usize],
        ngrams: &Q,
        run: Run<'_>,
    ) -> Result<Vec<(usize, O::Answer)>>
    where
        O: for<'a> PartitionOperation<Question<'a> = ChosenQuestion<'a, Q>>,
    {
        run.preparing("vocabulary", || self.vocabulary())?;
        let parts = self.parts_by_segment(files.iter().copied());
        let answers = parts.map(|(index, files)| {
            let question = ChosenQuestion {
                ngrams: ngrams.clone(),
                files: &files,
            };
            Ok((index, answer::<O>(&question, &self.segment_at(index), run)?))
        });
        answers.collect()
    }

    /// How each segment would answer.
    fn plan_chosen<Q: Clone, O>(&self, files: &[usize], ngrams: &Q) -> Result<SpreadPlan<'_>>
    where
        O: for<'a> PartitionOperation<Question<'a> = ChosenQuestion<'a, Q>>,
    {
        let parts = self.parts_by_segment(files.iter().copied());
        let parts: Vec<(usize, Vec<u32>)> = parts.collect();
        let questions = parts.iter().map(|(index, files)| {
            let ngrams = ngrams.clone();
            (*index, 1, ChosenQuestion { ngrams, files })
        });
        self.plan_questions::<O>(questions, None)
    }
}

impl PendingView {
    /// What edits of some files do to n-grams of n words; ascending.
    fn changes_in(
        &self,
        files: &[u32],
        n: usize,
        stop: &AtomicBool,
    ) -> Result<Vec<(Window, u32, i64)>> {
        let all = self.windows(n, stop)?.changes.iter();
        let chosen = all.filter(|(_, file, _)| files.binary_search(file).is_ok());
        Ok(chosen.copied().collect())
    }
}

impl CorpusView {
    /// The stored files that some files rest on, ascending.
    fn sorted_stored_of(&self, files: &[u32]) -> Vec<usize> {
        let mut stored: Vec<usize> = self.stored_of(files).collect();
        stored.sort_unstable();
        stored
    }

    /// N-grams of some files, each of which is named once, ascending, with their counts in these, in parts that follow
    /// each other: all, or those that `top` uses.
    ///
    /// # Errors
    /// If a segment is damaged, or the run is over.
    pub(crate) fn ngrams_in(
        &self,
        n: usize,
        files: &[u32],
        top: Option<Top>,
        run: Run<'_>,
    ) -> Result<Vec<NgramsPart>> {
        let (stored, asked) = (self.stored(), self.sorted_stored_of(files));
        let answers = stored.each_chosen::<_, ChosenNgrams>(&asked, &stored.all_ngrams(n), run)?;
        let is_asked = |file: usize| asked.binary_search(&file).is_ok();
        let mut parts = stored.joined_ngrams(n, answers.into_iter(), is_asked)?;
        if let Some(pending) = self.pending() {
            let changes = pending.changes_in(files, n, run.stop)?;
            parts = pending.correct_ngrams(n, parts, changes, run.stop)?;
        }
        Ok(match top {
            None => parts,
            Some(top) => top.of_ngrams(parts, n),
        })
    }

    /// N-grams of some files, each of which is named once, ascending, and for each a row of those of them that have it,
    /// in order of files, in parts that follow each other.
    ///
    /// # Errors
    /// If a segment is damaged, or the run is over.
    pub(crate) fn ngram_files_in(
        &self,
        n: usize,
        files: &[u32],
        run: Run<'_>,
    ) -> Result<Vec<NgramFilePart>> {
        let (stored, asked) = (self.stored(), self.sorted_stored_of(files));
        let question = stored.all_ngram_files(n);
        let answers = stored.each_chosen::<_, ChosenNgramFiles>(&asked, &question, run)?;
        let is_asked = |file: usize| asked.binary_search(&file).is_ok();
        let parts = stored.joined_ngram_files(n, FileOrder::File, answers.into_iter(), is_asked)?;
        let Some(pending) = self.pending() else {
            return Ok(parts);
        };
        let changes = pending.changes_in(files, n, run.stop)?;
        pending.correct_ngram_files(n, FileOrder::File, parts, &changes)
    }

    /// How n-grams of some files would be counted.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_ngrams_in(&self, n: usize, files: &[u32]) -> Result<SpreadPlan<'_>> {
        let (stored, asked) = (self.stored(), self.sorted_stored_of(files));
        stored.plan_chosen::<_, ChosenNgrams>(&asked, &stored.all_ngrams(n))
    }

    /// How n-grams of some files would be counted by file.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_ngram_files_in(&self, n: usize, files: &[u32]) -> Result<SpreadPlan<'_>> {
        let (stored, asked) = (self.stored(), self.sorted_stored_of(files));
        stored.plan_chosen::<_, ChosenNgramFiles>(&asked, &stored.all_ngram_files(n))
    }
}
