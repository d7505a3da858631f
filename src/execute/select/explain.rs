//! EXPLAIN: what each operator of a query does and, with ANALYZE, how many rows it gave and how long it took.
//!
//! Invariant: the lines are those of the query that was built, outermost first, each operator's input indented below it.
//! Times contain those of the operators below.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::row::{Input, Operator};
use crate::Result;
use crate::answer::path::RunLog;
use crate::batch::Batch;

/// Says what an operator or a scan does.
pub(crate) trait Describe: Send + Sync {
    /// What it does; after the last row, what it has done.
    fn describe(&self) -> Description;
}

/// What an operator or a scan does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    /// One word.
    pub(crate) name: &'static str,
    /// On what; may be empty.
    pub(crate) detail: String,
    /// How many rows it is estimated to give.
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

/// What a scan does, and where its question was answered.
pub(crate) struct Answered {
    planned: Description,
    pub(crate) log: RunLog,
}

impl Answered {
    pub(crate) fn new(planned: Description) -> Arc<Answered> {
        Arc::new(Answered {
            planned,
            log: RunLog::default(),
        })
    }
}

impl Describe for Answered {
    fn describe(&self) -> Description {
        let mut description = self.planned.clone();
        description.lines.extend(self.log.line());
        description
    }
}

/// The operators of a query, innermost first.
pub(super) struct Plan {
    steps: Vec<(Arc<dyn Describe>, Arc<Measure>)>,
    /// Whether rows and times are measured.
    is_analyzed: bool,
}

/// What an operator has done.
#[derive(Debug, Default)]
struct Measure {
    rows: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Plan {
    pub(super) fn new(is_analyzed: bool) -> Plan {
        Plan {
            steps: Vec::new(),
            is_analyzed,
        }
    }

    /// Adds the operator above the others, and measures it if that is wanted.
    pub(super) fn add(&mut self, operator: Input, about: Arc<dyn Describe>) -> Input {
        let measure = Arc::new(Measure::default());
        self.steps.push((about, measure.clone()));
        match self.is_analyzed {
            true => Box::new(Measured { operator, measure }),
            false => operator,
        }
    }

    /// How many rows the topmost operator is estimated to give.
    pub(super) fn estimate(&self) -> Option<u64> {
        self.steps.last()?.0.describe().rows
    }

    /// One line for each operator and for what a scan adds.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (depth, (about, measure)) in self.steps.iter().rev().enumerate() {
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
            let measured = self.is_analyzed.then(|| {
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
        // 500 years fit.
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
