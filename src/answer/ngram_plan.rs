//! The methods that answer questions about n-grams, and the choice among them.
//!
//! Invariant: every decision on how rows are made is taken here, once.

use zipfdb_sql::setting::Strategy;

use super::corpus_view::CorpusView;
use super::counted_ngrams::WithCounts;
use super::ngram_files::WithFiles;
use super::placement::PlacementPlan;
use super::plan::{AnswerPlan, Candidate};
use super::question::{Granularity, Question};
use super::word_plan::PlanSettings;
use crate::Result;
use crate::segment::cost::{NGRAM_FACTOR, NGRAM_TEXT_COST};

/// A method to make rows about n-grams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NgramMethod {
    /// The file table has the counts.
    FileTotals,
    /// Named n-grams are looked up, and counted in all files together.
    LookUpCounts,
    /// The places of named n-grams are looked up.
    LookUpPlaces,
    /// All n-grams are counted in all files together, or in some.
    Counts,
    /// All n-grams are counted by file: of all files, or if `chosen` of the wanted ones only.
    CountsByFile { chosen: bool },
    /// All n-grams are counted in parts that fit into memory.
    Parts,
    /// Files are expanded and their n-grams counted.
    Expand,
    /// Words are read one after the other.
    Stream,
}

impl NgramMethod {
    /// Whether all n-grams are counted on the grammar.
    pub(crate) fn counts_all(self) -> bool {
        matches!(
            self,
            NgramMethod::Counts | NgramMethod::CountsByFile { .. } | NgramMethod::Parts
        )
    }

    /// Whether named n-grams are looked up.
    pub(crate) fn looks_up(self) -> bool {
        matches!(self, NgramMethod::LookUpCounts | NgramMethod::LookUpPlaces)
    }
}

/// Chooses the method that answers a question about n-grams.
///
/// # Errors
/// If the strategy of SET cannot answer, or a segment is damaged.
pub(crate) fn plan_ngrams(
    question: &Question,
    view: &CorpusView,
    settings: PlanSettings,
) -> Result<AnswerPlan<NgramMethod>> {
    let candidates = || NgramPlanner { question, view }.candidates();
    let mut plan = AnswerPlan::choose(view, settings.forced, candidates)?;
    let method = *plan.method();
    let makes_tables = question.granularity != Granularity::Occurrence
        && !method.looks_up()
        && method != NgramMethod::FileTotals;
    if makes_tables && table_bytes(question, view) > settings.memory_limit {
        // Parts come from the grammar.
        plan.prefer(|method| method.counts_all());
        plan.vary(NgramMethod::Parts);
    }
    Ok(plan)
}

/// The most bytes of a table of n-grams, as the kernels make it and as rows. There are no more n-grams than places for them; and
/// every one that is not in a rule of its own crosses from one symbol of a body or root to the next.
fn table_bytes(question: &Question, view: &CorpusView) -> u64 {
    let n = question.n as u64;
    let places = question.files.words(view);
    let distinct = distinct_ngrams(question, view);
    // The words and a count: twice where tables of segments are merged, else with a row that counts references.
    let entry = size_of::<u32>() as u64 * n + size_of::<u64>() as u64;
    let counted = 2 * entry + 5 * size_of::<u64>() as u64;
    match question.granularity {
        Granularity::Word => distinct.saturating_mul(2 * entry),
        Granularity::FileWord if question.files.is_all() => {
            let pairs = places.saturating_mul(size_of::<(u32, u32)>() as u64);
            distinct.saturating_mul(entry).saturating_add(pairs)
        }
        Granularity::All => distinct.saturating_mul(counted),
        _ => places.saturating_mul(counted),
    }
}

/// The most distinct n-grams that the files can have.
fn distinct_ngrams(question: &Question, view: &CorpusView) -> u64 {
    let (symbols, tokens) = view.symbols_and_tokens();
    let places = question.files.words(view);
    match question.n as u64 {
        1 => places.min(tokens),
        n => places.min(symbols.saturating_mul(n - 1)),
    }
}

/// Makes the candidates of a question.
struct NgramPlanner<'a> {
    question: &'a Question,
    view: &'a CorpusView,
}

impl<'a> NgramPlanner<'a> {
    fn candidates(&self) -> Result<Vec<Candidate<NgramMethod>>> {
        let (question, view) = (self.question, self.view);
        let (granularity, files) = (question.granularity, &question.files);
        let mut candidates = Vec::new();
        if let Some(named) = question.texts.named() {
            candidates.push(self.look_up(named)?);
        }
        match granularity {
            Granularity::All | Granularity::File if question.texts.is_all() => {
                let files = files.len() as u64;
                candidates.push(Candidate::file_totals(NgramMethod::FileTotals, files));
            }
            Granularity::All | Granularity::Word if files.is_all() => {
                let plan = view.stored().plan_ngrams::<WithCounts>(question.n, None)?;
                candidates.push(self.counts(plan));
            }
            Granularity::All | Granularity::Word => {
                let plan = view.plan_ngrams_in::<WithCounts>(question.n, files.numbers())?;
                candidates.push(self.counts(plan));
                candidates.push(self.by_file(false, self.all_by_file()?));
            }
            Granularity::File | Granularity::FileWord => {
                let all = self.all_by_file()?;
                let chosen = if files.is_all() {
                    None
                } else {
                    let plan = view.plan_ngrams_in::<WithFiles>(question.n, files.numbers())?;
                    let chosen = self.with_texts(plan);
                    (!all.is_demanded() && chosen.cost() < all.cost()).then_some(chosen)
                };
                candidates.push(match chosen {
                    Some(chosen) => self.by_file(true, chosen),
                    None => self.by_file(false, all),
                });
            }
            Granularity::Occurrence => {}
        }
        let is_occurrence = granularity == Granularity::Occurrence;
        let method = if is_occurrence {
            NgramMethod::Stream
        } else {
            NgramMethod::Expand
        };
        let stream = Candidate::stream(method, question, view);
        candidates.push(if is_occurrence && question.texts.is_all() {
            stream
        } else {
            // Each window is looked up in a hash table, or its text made.
            stream.times(NGRAM_FACTOR)
        });
        Ok(candidates)
    }

    /// Look-ups of named n-grams.
    fn look_up(&self, named: u64) -> Result<Candidate<NgramMethod>> {
        let granularity = self.question.granularity;
        let counts_only = self.question.files.is_all()
            && matches!(granularity, Granularity::All | Granularity::Word);
        let method = if counts_only {
            NgramMethod::LookUpCounts
        } else {
            NgramMethod::LookUpPlaces
        };
        let stored = self.view.stored();
        let plan = stored.plan_phrase(self.question.n, counts_only, None)?;
        let candidate = Candidate::planned(Strategy::Parents, method, &plan);
        Ok(candidate.times(named.max(1) as f64))
    }

    fn counts(&self, plan: PlacementPlan<'_>) -> Candidate<NgramMethod> {
        let plan = self.with_texts(plan);
        Candidate::planned(Strategy::Weights, NgramMethod::Counts, &plan)
    }

    fn by_file(&self, chosen: bool, plan: PlacementPlan<'_>) -> Candidate<NgramMethod> {
        let method = NgramMethod::CountsByFile { chosen };
        Candidate::planned(Strategy::FileWeights, method, &plan)
    }

    /// All n-grams by file, including those of other files.
    fn all_by_file(&self) -> Result<PlacementPlan<'a>> {
        let stored = self.view.stored();
        Ok(self.with_texts(stored.plan_ngrams::<WithFiles>(self.question.n, None)?))
    }

    /// A plan for all n-grams, with the cost of their texts where conditions test them.
    fn with_texts<'p>(&self, plan: PlacementPlan<'p>) -> PlacementPlan<'p> {
        if self.question.texts.is_all() {
            return plan;
        }
        plan.plus(distinct_ngrams(self.question, self.view) as f64 * NGRAM_TEXT_COST)
    }
}
