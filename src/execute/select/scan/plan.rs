//! The plan of a scan: by which operation, on which partitions and by which access path its rows are made.
//!
//! Invariant: every way that is offered gives the same rows, so the choice is about time only: the cheapest, or the one that
//! `SET strategy` names. A way takes the paths that its operation chooses on each partition, and EXPLAIN names those.

use std::borrow::Cow;

use zipfdb_sql::setting::Strategy;

use super::question::ScanQuestion;
use super::selection::FileSelection;
use crate::answer::cost::{FILE_COST, STREAM_COST, Size, TABLE_LOOKUP_COST};
use crate::answer::path::{PathName, about};
use crate::answer::{CorpusView, PlaceRanges, SpreadPlan};
use crate::{Error, Result};

/// A way to make rows.
pub(super) struct ScanPath {
    pub(super) strategy: Strategy,
    /// The access paths that it takes.
    paths: Cow<'static, str>,
    /// Nanoseconds, about.
    cost: f64,
    /// Where they run, as EXPLAIN shows it.
    device: Cow<'static, str>,
    /// Whether `SET device` demands it.
    is_demanded: bool,
}

impl ScanPath {
    fn on_cpu(strategy: Strategy, path: PathName, cost: f64) -> ScanPath {
        ScanPath {
            strategy,
            paths: Cow::Borrowed(path.name()),
            cost,
            device: Cow::Borrowed("device: cpu"),
            is_demanded: false,
        }
    }

    /// What file tables say of so many files.
    pub(super) fn totals(files: u64) -> ScanPath {
        ScanPath::on_cpu(Strategy::Totals, PathName::Totals, files as f64 * FILE_COST)
    }

    /// Counts of a few words that are at hand.
    pub(super) fn at_hand(strategy: Strategy) -> ScanPath {
        ScanPath::on_cpu(strategy, PathName::WordTotals, TABLE_LOOKUP_COST)
    }

    /// An operation on the partitions of a plan.
    pub(super) fn planned(strategy: Strategy, plan: &SpreadPlan<'_>) -> ScanPath {
        ScanPath {
            strategy,
            paths: match plan.paths() {
                // No partitions.
                paths if paths.is_empty() => Cow::Borrowed(strategy.name()),
                paths => paths,
            },
            cost: plan.cost(),
            device: plan.device_line(),
            is_demanded: plan.is_demanded(),
        }
    }

    /// All words of the files in some places, one by one.
    pub(super) fn stream(
        view: &CorpusView,
        files: &FileSelection,
        places: &PlaceRanges,
    ) -> ScanPath {
        let words = files.words_in(view, places) as f64;
        ScanPath::streamed(files, view.missing_for_stream() + words * STREAM_COST)
    }

    /// The same of words that are read at a cost.
    pub(super) fn streamed(files: &FileSelection, cost: f64) -> ScanPath {
        if files.is_all() {
            ScanPath::on_cpu(Strategy::RootStream, PathName::RootStream, cost)
        } else {
            ScanPath::on_cpu(Strategy::Decode, PathName::Decode, cost)
        }
    }

    /// The same with more nanoseconds.
    pub(super) fn plus(self, cost: f64) -> ScanPath {
        ScanPath {
            cost: self.cost + cost,
            ..self
        }
    }

    /// The same at a multiple of the cost.
    pub(super) fn times(self, factor: f64) -> ScanPath {
        ScanPath {
            cost: self.cost * factor,
            ..self
        }
    }

    /// Nanoseconds.
    pub(super) fn cost(&self) -> f64 {
        self.cost
    }

    fn estimate(&self) -> String {
        format!("{} ({})", self.paths, about(self.cost))
    }
}

/// The way that is taken, and those that are not.
pub(super) struct ScanPlan {
    paths: Vec<ScanPath>,
    /// Its place.
    chosen: usize,
}

impl ScanPlan {
    /// Chooses the cheapest, or the one that is forced. Ways on a device that is demanded come before all others.
    ///
    /// # Errors
    /// If the forced one cannot answer.
    pub(super) fn new(paths: Vec<ScanPath>, forced: Option<Strategy>) -> Result<ScanPlan> {
        let places = paths.iter().enumerate();
        let chosen = match forced {
            None => places.min_by(|(_, left), (_, right)| {
                let by_demand = right.is_demanded.cmp(&left.is_demanded);
                by_demand.then(left.cost.total_cmp(&right.cost))
            }),
            Some(strategy) => places
                .into_iter()
                .find(|(_, path)| path.strategy == strategy),
        };
        match chosen.map(|(place, _)| place) {
            Some(chosen) => Ok(ScanPlan { paths, chosen }),
            None => {
                let names = paths
                    .iter()
                    .map(|path| format!("`{}`", path.strategy.name()));
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

    /// As `new`, made again if devices were looked for because every way takes long without, and found.
    pub(super) fn of(
        question: &ScanQuestion,
        paths: impl Fn(&ScanQuestion) -> Result<Vec<ScanPath>>,
    ) -> Result<ScanPlan> {
        let forced = question.context.settings.strategy;
        let plan = ScanPlan::new(paths(question)?, forced)?;
        let cost = plan.paths[plan.chosen].cost;
        match question.view().stored().devices().look_for(cost) {
            true => ScanPlan::new(paths(question)?, forced),
            false => Ok(plan),
        }
    }

    /// Takes the first of some ways that there is, if one of them is.
    pub(super) fn prefer(&mut self, is_wanted: impl Fn(Strategy) -> bool) {
        let mut paths = self.paths.iter();
        if let Some(place) = paths.position(|path| is_wanted(path.strategy)) {
            self.chosen = place;
        }
    }

    /// How rows are made.
    pub(super) fn strategy(&self) -> Strategy {
        self.paths[self.chosen].strategy
    }

    /// What EXPLAIN says of the choice, `detail` behind it.
    pub(super) fn lines(&self, detail: Option<&str>) -> Vec<String> {
        let chosen = &self.paths[self.chosen];
        let mut line = format!("path: {}", chosen.estimate());
        let others = self.paths.iter().enumerate();
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

/// What all segments of a view have.
pub(super) fn size_of_segments(view: &CorpusView) -> Size {
    let files = view.files();
    let mut size = Size {
        files: files.len() as u64,
        words: files.iter().map(|file| file.words).sum(),
        ..Size::default()
    };
    for segment in view.segments() {
        let (symbols, tokens) = segment.size();
        size.symbols += symbols;
        size.tokens += tokens;
    }
    size
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_cheapest_is_taken_unless_one_is_forced() {
        let paths = || {
            vec![
                ScanPath::on_cpu(Strategy::Decode, PathName::Decode, 6e6),
                ScanPath::on_cpu(Strategy::Parents, PathName::OccurrenceLists, 1e3),
            ]
        };
        let plan = ScanPlan::new(paths(), None).unwrap();
        assert_eq!(plan.strategy(), Strategy::Parents);
        let line = "path: occurrence_lists (about 1\u{b5}s); not decode (about 6ms)";
        assert_eq!(plan.lines(None), [line, "device: cpu"]);
        let forced = ScanPlan::new(paths(), Some(Strategy::Decode)).unwrap();
        assert_eq!(forced.strategy(), Strategy::Decode);
        let error = ScanPlan::new(paths(), Some(Strategy::Totals))
            .err()
            .unwrap();
        assert!(error.to_string().contains("`decode`, `parents`"), "{error}");
    }
}
