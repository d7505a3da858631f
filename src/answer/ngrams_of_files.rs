//! N-grams of some files: of their roots and the rules that these use, as if there were no others.
//!
//! Invariant: answers are those of all files without the rows of other files. A segment all of whose files are chosen answers as
//! for all files.

use std::marker::PhantomData;

use zipfdb_kernels::{ChosenFiles, RuleFiles, WordUses};

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer, choose};
use super::corpus_view::CorpusView;
use super::ngram_payload::{NgramAnswer, NgramPayload, NgramQuestion};
use super::ngrams::{NgramCounting, packed};
use super::placement::PlacementPlan;
use crate::Result;
use crate::segment::cost::SYMBOL_COST;
use crate::segment::{SegmentView, StructureKind};

/// The n-grams to count, and the files of a segment: each once, ascending.
#[derive(Clone)]
pub(super) struct ChosenQuestion<'a> {
    pub(super) ngrams: NgramQuestion,
    pub(super) files: &'a [u32],
}

impl ChosenQuestion<'_> {
    fn has_all(&self, segment: &SegmentView) -> bool {
        segment.extent().files == self.files.len() as u64
    }

    /// The number of words in the files.
    fn words(&self, segment: &SegmentView) -> Option<u64> {
        let entries = segment.files().ok()?;
        let words = self.files.iter().map(|&file| entries[file as usize].words);
        Some(words.sum())
    }
}

/// N-grams of some files of a segment, in consecutive parts.
pub(super) struct ChosenNgrams<P>(PhantomData<P>);

impl<P: NgramPayload> PartitionOperation for ChosenNgrams<P> {
    type Question<'a> = ChosenQuestion<'a>;
    type Answer = NgramAnswer<P>;

    const PATHS: &'static [AccessPath<ChosenNgrams<P>>] = &[
        AccessPath {
            name: PathName::AllFiles,
            needs: &[],
            cost: |question, segment| {
                let all = question.has_all(segment);
                let all =
                    all.then(|| choose::<NgramCounting<P>>(&question.ngrams, segment, None).ok())?;
                Some(all?.cost())
            },
            run: |question, segment, run| {
                answer::<NgramCounting<P>>(&question.ngrams, segment, run.unforced())
            },
        },
        AccessPath {
            name: P::GRAMMAR,
            needs: &[StructureKind::WordGrammar],
            cost: |question, segment| {
                let (files, words) = (question.files.len() as u64, question.words(segment)?);
                // Every path first follows the rules that the files use.
                let choosing = segment.size().0 as f64 * SYMBOL_COST;
                let work = choosing + P::chosen_work(segment.extent(), files, words);
                Some(work / segment.thread_count())
            },
            run: |ChosenQuestion { ngrams, files }, segment, run| {
                let all = segment.word_grammar()?.view();
                let chosen = ChosenFiles::new(all, files);
                let view = chosen.view(all);
                let lists = P::HAS_FILES
                    .then(|| RuleFiles::new(view, &WordUses::new(view), run.stop))
                    .transpose()?;
                let grammar = (view, chosen.weights());
                Ok(packed(P::of_grammar(
                    grammar,
                    lists.as_ref(),
                    ngrams,
                    run.stop,
                )?))
            },
        },
    ];
}

impl CorpusView {
    /// The stored files that some files rest on, ascending.
    fn sorted_stored_of(&self, files: &[u32]) -> Vec<usize> {
        let mut stored: Vec<usize> = self.stored_of(files).collect();
        stored.sort_unstable();
        stored
    }

    /// N-grams of the stored files that some files rest on.
    pub(super) fn stored_ngrams_in<P: NgramPayload>(
        &self,
        files: &[u32],
        ngrams: &NgramQuestion,
        run: Run<'_>,
    ) -> Result<NgramAnswer<P>> {
        let (stored, asked) = (self.stored(), self.sorted_stored_of(files));
        run.preparing("vocabulary", || stored.vocabulary())?;
        let parts = stored.parts_by_segment(asked.iter().copied());
        let answers = parts.map(|(index, files)| {
            let question = ChosenQuestion {
                ngrams: ngrams.clone(),
                files: &files,
            };
            let segment = stored.segment_at(index);
            Ok((index, answer::<ChosenNgrams<P>>(&question, &segment, run)?))
        });
        let answers: Vec<(usize, NgramAnswer<P>)> = answers.collect::<Result<_>>()?;
        let is_asked = |file: usize| asked.binary_search(&file).is_ok();
        stored.joined_ngrams(ngrams.set.n, ngrams.order, answers.into_iter(), is_asked)
    }

    /// Plans n-grams of some files.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_ngrams_in<P: NgramPayload>(
        &self,
        n: usize,
        files: &[u32],
    ) -> Result<PlacementPlan<'_>> {
        let (stored, asked) = (self.stored(), self.sorted_stored_of(files));
        let parts = stored.parts_by_segment(asked.iter().copied());
        let parts: Vec<(usize, Vec<u32>)> = parts.collect();
        let questions = parts.iter().map(|(index, files)| {
            let ngrams = stored.all_ngrams(n);
            (*index, 1, ChosenQuestion { ngrams, files })
        });
        stored.plan_questions::<ChosenNgrams<P>>(questions, None)
    }
}
