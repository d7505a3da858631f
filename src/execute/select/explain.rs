//! EXPLAIN: the operators of a query and, with ANALYZE, their numbers of rows and times.
//!
//! Invariant: the lines are those of the query that was built, outermost first, each operator's inputs indented below it. Times
//! contain those of the operators below. A query without EXPLAIN records nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::row::{Input, Operator};
use crate::Result;
use crate::answer::access_path::{Run, RunLog};
use crate::batch::Batch;

/// Describes an operator or a scan.
pub(crate) trait Describe: Send + Sync {
    /// The description; after the last row, with what was done.
    fn describe(&self) -> Description;
}

/// The description of an operator or a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    /// One word.
    pub(crate) name: &'static str,
    /// On what; may be empty.
    pub(crate) detail: String,
    /// The estimated number of rows.
    pub(crate) rows: Option<u64>,
    /// Further lines, such as `strategy: weights` and `device: cpu` of a scan.
    pub(crate) lines: Vec<String>,
}

impl Description {
    pub(crate) fn new(name: &'static str, detail: String, rows: Option<u64>) -> Description {
        Description {
            name,
            detail,
            rows,
            lines: Vec::new(),
        }
    }
}

impl Describe for Description {
    fn describe(&self) -> Description {
        self.clone()
    }
}

/// The description of a scan, and the record of its runs.
#[derive(Default)]
pub(crate) struct Answered {
    /// None without EXPLAIN.
    planned: Option<Description>,
    log: RunLog,
}

impl Answered {
    pub(crate) fn new(is_explained: bool, planned: impl FnOnce() -> Description) -> Arc<Answered> {
        Arc::new(Answered {
            planned: is_explained.then(planned),
            log: RunLog::default(),
        })
    }

    /// A run until the flag is set; it is recorded with EXPLAIN.
    pub(crate) fn until<'a>(&'a self, stop: &'a Arc<AtomicBool>) -> Run<'a> {
        match self.planned {
            Some(_) => self.log.until(stop),
            None => Run::until(stop),
        }
    }
}

impl Describe for Answered {
    fn describe(&self) -> Description {
        let planned = self.planned.clone();
        let mut description =
            planned.unwrap_or_else(|| Description::new("scan", String::new(), None));
        description.lines.extend(self.log.line());
        description
    }
}

/// The operators of a query, each after its inputs.
pub(super) struct Plan {
    steps: Vec<PlanStep>,
    /// The operator below the next one.
    top: Option<usize>,
    /// Further inputs of the next operator: operands of UNION, subqueries of its block.
    beside: Vec<usize>,
    wanted: Explained,
}

/// The parts of a plan to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Explained {
    Nothing,
    Operators,
    /// Also rows and times.
    Analyzed,
}

/// An operator.
struct PlanStep {
    about: Arc<dyn Describe>,
    measure: Arc<Measure>,
    /// Its inputs, by index.
    inputs: Vec<usize>,
}

/// The work of an operator.
#[derive(Debug, Default)]
struct Measure {
    rows: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Plan {
    pub(super) fn new(wanted: Explained) -> Plan {
        Plan {
            steps: Vec::new(),
            top: None,
            beside: Vec::new(),
            wanted,
        }
    }

    fn is_wanted(&self) -> bool {
        self.wanted != Explained::Nothing
    }

    fn is_analyzed(&self) -> bool {
        self.wanted == Explained::Analyzed
    }

    /// Adds the operator above the others, and measures it with ANALYZE; `about` gets the estimated number of rows of the topmost
    /// one.
    pub(super) fn add(
        &mut self,
        operator: Input,
        about: impl FnOnce(Option<u64>) -> Description,
    ) -> Input {
        self.add_described(operator, |rows| Arc::new(about(rows)))
    }

    /// As `add`, of an operator that describes itself.
    pub(super) fn add_described(
        &mut self,
        operator: Input,
        about: impl FnOnce(Option<u64>) -> Arc<dyn Describe>,
    ) -> Input {
        if !self.is_wanted() {
            return operator;
        }
        let about = about(self.estimate());
        let measure = Arc::new(Measure::default());
        let inputs = self.top.take().into_iter().chain(self.beside.drain(..));
        self.steps.push(PlanStep {
            about,
            measure: measure.clone(),
            inputs: inputs.collect(),
        });
        self.top = Some(self.steps.len() - 1);
        if self.is_analyzed() {
            Box::new(Measured { operator, measure })
        } else {
            operator
        }
    }

    /// Begins the operators of a subquery; returns the argument of `end_subquery`.
    pub(super) fn begin_subquery(&mut self) -> Vec<usize> {
        self.top = None;
        std::mem::take(&mut self.beside)
    }

    /// Ends the operators of a subquery, which has returned `rows` rows.
    pub(super) fn end_subquery(&mut self, beside: Vec<usize>, kind: &'static str, rows: u64) {
        if !self.is_wanted() {
            return;
        }
        let about = Description::new("subquery", kind.to_owned(), Some(rows));
        let inputs = self.top.take().into_iter().chain(self.beside.drain(..));
        let inputs = inputs.collect();
        self.steps.push(PlanStep {
            about: Arc::new(about),
            measure: Arc::new(Measure {
                rows: AtomicU64::new(rows),
                ..Measure::default()
            }),
            inputs,
        });
        self.beside = beside;
        self.beside.push(self.steps.len() - 1);
    }

    /// Begins the operands of UNION; returns the argument of `add_union`.
    pub(super) fn begin_union(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.beside)
    }

    /// Ends an operand of UNION, and returns its index.
    pub(super) fn end_operand(&mut self) -> Option<usize> {
        self.top.take()
    }

    /// Adds UNION above its operands.
    pub(super) fn add_union(
        &mut self,
        operands: Vec<usize>,
        beside: Vec<usize>,
        union: Input,
    ) -> Input {
        if !self.is_wanted() {
            return union;
        }
        let estimates = operands
            .iter()
            .map(|&step| self.steps[step].about.describe().rows);
        let rows = estimates.sum::<Option<u64>>();
        self.beside = operands;
        self.beside.extend(beside);
        self.add(union, |_| Description::new("union", String::new(), rows))
    }

    /// The estimated number of rows of the topmost operator.
    fn estimate(&self) -> Option<u64> {
        self.steps[self.top?].about.describe().rows
    }

    /// The operators from the outermost inwards, each with its depth.
    fn walk(&self) -> Vec<(usize, &PlanStep)> {
        let mut walked = Vec::with_capacity(self.steps.len());
        let mut waiting: Vec<(usize, usize)> = self.top.map(|top| (0, top)).into_iter().collect();
        while let Some((depth, step)) = waiting.pop() {
            let step = &self.steps[step];
            walked.push((depth, step));
            waiting.extend(step.inputs.iter().rev().map(|&input| (depth + 1, input)));
        }
        walked
    }

    /// One line for each operator, and the further lines of scans.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (depth, PlanStep { about, measure, .. }) in self.walk() {
            let Description {
                name,
                detail,
                rows,
                lines: further,
            } = about.describe();
            let indent = "  ".repeat(depth);
            let mut line = format!("{indent}{name}");
            if !detail.is_empty() {
                line.push_str(": ");
                line.push_str(&detail);
            }
            let estimate = rows.map(|rows| format!("about {rows} rows"));
            let measured = self.is_analyzed().then(|| {
                let rows = measure.rows.load(Ordering::Relaxed);
                let time = Duration::from_nanos(measure.nanoseconds.load(Ordering::Relaxed));
                format!("{rows} rows in {time:.1?}")
            });
            let numbers: Vec<String> = measured.into_iter().chain(estimate).collect();
            if !numbers.is_empty() {
                line.push_str(&format!(" ({})", numbers.join(", ")));
            }
            lines.push(line);
            lines.extend(further.iter().map(|line| format!("{indent}    {line}")));
        }
        lines
    }

    /// The same as one JSON object, with `inputs` in each operator.
    pub(super) fn json(&self) -> String {
        let mut text = String::new();
        let mut open = 0;
        for (depth, PlanStep { about, measure, .. }) in self.walk() {
            let is_next = open > depth;
            while open > depth {
                text.push_str("]}");
                open -= 1;
            }
            if is_next {
                text.push(',');
            }
            let Description {
                name,
                detail,
                rows,
                lines,
            } = about.describe();
            text.push_str(&format!("{{\"operator\":{}", quoted(name)));
            if !detail.is_empty() {
                text.push_str(&format!(",\"detail\":{}", quoted(&detail)));
            }
            if let Some(rows) = rows {
                text.push_str(&format!(",\"estimated_rows\":{rows}"));
            }
            if self.is_analyzed() {
                let rows = measure.rows.load(Ordering::Relaxed);
                // Rounds above 2^53 ns, which is 100 days.
                let milliseconds = measure.nanoseconds.load(Ordering::Relaxed) as f64 / 1e6;
                text.push_str(&format!(
                    ",\"rows\":{rows},\"milliseconds\":{milliseconds:.3}"
                ));
            }
            if !lines.is_empty() {
                let lines: Vec<String> = lines.iter().map(|line| quoted(line)).collect();
                text.push_str(&format!(",\"notes\":[{}]", lines.join(",")));
            }
            text.push_str(",\"inputs\":[");
            open += 1;
        }
        text.push_str(&"]}".repeat(open));
        text
    }
}

/// A text as a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Counts the rows of an operator and the time it takes.
struct Measured {
    operator: Input,
    measure: Arc<Measure>,
}

impl Operator for Measured {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let start = Instant::now();
        let batch = self.operator.next_batch(rows_max);
        // The count has room for 500 years.
        let taken = start.elapsed().as_nanos() as u64;
        self.measure.nanoseconds.fetch_add(taken, Ordering::Relaxed);
        if let Ok(Some(batch)) = &batch {
            self.measure
                .rows
                .fetch_add(batch.total(), Ordering::Relaxed);
        }
        batch
    }
}
