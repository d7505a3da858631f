//! The plan of a question: the methods that can answer it, their estimated costs, and the chosen one.
//!
//! Invariant: every candidate gives the same rows, so the choice only affects time: the cheapest, or the one that `SET strategy`
//! names. A method takes the access paths that its operation chooses on each partition, and EXPLAIN names those.

use std::borrow::Cow;

use zipfdb_sql::setting::Strategy;

use super::access_path::{PathName, about};
use super::corpus_view::CorpusView;
use super::placement::PlacementPlan;
use super::question::{FileSet, Question};
use crate::segment::cost::{FILE_COST, STREAM_COST, TABLE_LOOKUP_COST};
use crate::{Error, Result};

/// A method that can answer a question.
pub(crate) struct Candidate<M> {
    strategy: Strategy,
    method: M,
    /// The access paths that it takes.
    paths: Cow<'static, str>,
    /// Estimated nanoseconds.
    cost: f64,
    /// The devices that they run on, as in EXPLAIN.
    device: Cow<'static, str>,
    /// Whether `SET device` demands it.
    is_demanded: bool,
}

impl<M> Candidate<M> {
    fn on_cpu(strategy: Strategy, method: M, path: PathName, cost: f64) -> Candidate<M> {
        Candidate {
            strategy,
            method,
            paths: Cow::Borrowed(path.name()),
            cost,
            device: Cow::Borrowed("device: cpu"),
            is_demanded: false,
        }
    }

    /// Totals of `files` files from the file table.
    pub(super) fn file_totals(method: M, files: u64) -> Candidate<M> {
        let cost = files as f64 * FILE_COST;
        Candidate::on_cpu(Strategy::Totals, method, PathName::Totals, cost)
    }

    /// An operation on the partitions of a plan.
    pub(crate) fn planned(strategy: Strategy, method: M, plan: &PlacementPlan<'_>) -> Candidate<M> {
        let paths = plan.paths();
        // No partitions have no paths.
        let paths = if paths.is_empty() {
            Cow::Borrowed(strategy.name())
        } else {
            paths
        };
        Candidate {
            strategy,
            method,
            paths,
            cost: plan.cost(),
            device: plan.device_line(),
            is_demanded: plan.is_demanded(),
        }
    }

    /// Reads all words of the question's files and places in order.
    pub(super) fn stream(method: M, question: &Question, view: &CorpusView) -> Candidate<M> {
        let words = question.files.words_in(view, &question.places.ranges) as f64;
        let cost = view.missing_for_stream() + words * STREAM_COST;
        Candidate::streamed(method, &question.files, cost)
    }

    /// The same of words that are read at a cost.
    pub(super) fn streamed(method: M, files: &FileSet, cost: f64) -> Candidate<M> {
        if files.is_all() {
            Candidate::on_cpu(Strategy::RootStream, method, PathName::RootStream, cost)
        } else {
            Candidate::on_cpu(Strategy::Decode, method, PathName::Decode, cost)
        }
    }

    /// The same with `cost` more nanoseconds.
    pub(super) fn plus(mut self, cost: f64) -> Candidate<M> {
        self.cost += cost;
        self
    }

    /// The same at a multiple of the cost.
    pub(super) fn times(mut self, factor: f64) -> Candidate<M> {
        self.cost *= factor;
        self
    }

    /// Estimated nanoseconds.
    pub(super) fn cost(&self) -> f64 {
        self.cost
    }

    fn estimate(&self) -> String {
        format!("{} ({})", self.paths, about(self.cost))
    }
}

/// The chosen method, and the others.
pub(crate) struct AnswerPlan<M> {
    candidates: Vec<Candidate<M>>,
    /// The place of the chosen one.
    chosen: usize,
}

impl<M> AnswerPlan<M> {
    /// Chooses the cheapest candidate, or the forced one. Those on a demanded device come before all others. If every candidate
    /// is so expensive that devices are opened, the candidates are made again.
    ///
    /// # Errors
    /// If the forced one cannot answer, and those of `candidates`.
    pub(crate) fn choose(
        view: &CorpusView,
        forced: Option<Strategy>,
        candidates: impl Fn() -> Result<Vec<Candidate<M>>>,
    ) -> Result<AnswerPlan<M>> {
        let plan = AnswerPlan::new(candidates()?, forced)?;
        let cost = plan.candidates[plan.chosen].cost;
        if view.stored().devices().look_for(cost) {
            return AnswerPlan::new(candidates()?, forced);
        }
        Ok(plan)
    }

    /// The plan whose answer was made while planning.
    pub(super) fn answered(method: M) -> AnswerPlan<M> {
        let (strategy, path) = (Strategy::Parents, PathName::WordTotals);
        AnswerPlan {
            candidates: vec![Candidate::on_cpu(strategy, method, path, TABLE_LOOKUP_COST)],
            chosen: 0,
        }
    }

    fn new(candidates: Vec<Candidate<M>>, forced: Option<Strategy>) -> Result<AnswerPlan<M>> {
        let mut places = candidates.iter().enumerate();
        let chosen = match forced {
            None => places.min_by(|(_, left), (_, right)| {
                let by_demand = right.is_demanded.cmp(&left.is_demanded);
                by_demand.then(left.cost.total_cmp(&right.cost))
            }),
            Some(strategy) => places.find(|(_, candidate)| candidate.strategy == strategy),
        };
        match chosen.map(|(place, _)| place) {
            Some(chosen) => Ok(AnswerPlan { candidates, chosen }),
            None => {
                let names = candidates.iter();
                let names = names.map(|candidate| format!("`{}`", candidate.strategy.name()));
                let names = names.collect::<Vec<_>>().join(", ");
                Err(Error::Invalid {
                    subject: "strategy".into(),
                    reason: format!(
                        "this query can be answered by {names}; hint: SET strategy = 'auto'"
                    ),
                })
            }
        }
    }

    /// Chooses the first candidate with a wanted method, if there is one.
    pub(super) fn prefer(&mut self, is_wanted: impl Fn(&M) -> bool) {
        let mut candidates = self.candidates.iter();
        if let Some(place) = candidates.position(|candidate| is_wanted(&candidate.method)) {
            self.chosen = place;
        }
    }

    /// The chosen method.
    pub(crate) fn method(&self) -> &M {
        &self.candidates[self.chosen].method
    }

    pub(crate) fn into_method(mut self) -> M {
        self.candidates.swap_remove(self.chosen).method
    }

    /// Replaces the method of the chosen candidate by a variant of it.
    pub(super) fn vary(&mut self, method: M) {
        self.candidates[self.chosen].method = method;
    }

    /// The lines of EXPLAIN on the choice, with `detail` behind them.
    pub(crate) fn lines(&self, detail: Option<&str>) -> Vec<String> {
        let chosen = &self.candidates[self.chosen];
        let mut line = format!("path: {}", chosen.estimate());
        let others = self.candidates.iter().enumerate();
        let others = others.filter(|(place, _)| *place != self.chosen);
        let others: Vec<String> = others.map(|(_, other)| other.estimate()).collect();
        if !others.is_empty() {
            line.push_str(&format!("; not {}", others.join(", ")));
        }
        let detail = detail.map(str::to_owned);
        [line]
            .into_iter()
            .chain(detail)
            .chain([chosen.device.clone().into_owned()])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_cheapest_is_taken_unless_one_is_forced() {
        let candidates = || {
            vec![
                Candidate::on_cpu(Strategy::Decode, 'd', PathName::Decode, 6e6),
                Candidate::on_cpu(Strategy::Parents, 'p', PathName::OccurrenceLists, 1e3),
            ]
        };
        let plan = AnswerPlan::new(candidates(), None).unwrap();
        assert_eq!(*plan.method(), 'p');
        let line = "path: occurrence_lists (about 1\u{b5}s); not decode (about 6ms)";
        assert_eq!(plan.lines(None), [line, "device: cpu"]);
        let forced = AnswerPlan::new(candidates(), Some(Strategy::Decode)).unwrap();
        assert_eq!(*forced.method(), 'd');
        let error = AnswerPlan::new(candidates(), Some(Strategy::Totals))
            .err()
            .unwrap();
        assert!(error.to_string().contains("`decode`, `parents`"), "{error}");
    }
}
