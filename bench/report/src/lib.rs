//! Tables of measurements: how a suite fills one, how it is kept as JSON, and how `bench/RESULTS.md` is made of that.
//!
//! The invariant: a figure of RESULTS.md comes from the JSON of a run, through the same [`markdown`] that the suite printed
//! it with. Nothing here measures or depends on an engine, so that the tests are cheap.

mod compare;
mod envelope;
mod report;
mod table;

pub use compare::compare;
pub use envelope::{Envelope, Machine, MeasuredCorpus};
pub use report::{Section, render, sections};
pub use table::{Cell, Row, Table, digits, markdown};

/// Any error: programs only ever print it.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
