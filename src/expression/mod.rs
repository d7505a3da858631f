//! Expressions of a plan, evaluated: a `Program` is made once, an `Evaluator` applies it to row after row.
//!
//! Semantics are SQLite's, checked by a table of cases that SQLite itself answered (`fixtures/sqlite.txt`), except for these:
//! NOCASE, `lower` and `upper` know all of Unicode, NUL is a character like others, and bytes for a text that are not UTF-8 are a
//! BLOB. The source of rows is not known here.

mod arithmetic;
mod compare;
mod convert;
mod date;
mod entries;
mod evaluator;
mod filter;
mod format;
mod function;
mod json;
mod mathematics;
mod number;
mod pattern;
mod prepare;
mod program;
mod regexp_call;
mod text;

pub(crate) use arithmetic::from_real;
pub(crate) use compare::compare;
pub(crate) use convert::{
    apply_affinity, from_count, integer_of_count, to_bytes, to_integer, to_real, truth,
    whole_number,
};
pub(crate) use entries::EntryNumbers;
pub(crate) use evaluator::Evaluator;
pub(crate) use filter::{ColumnFilter, ColumnMatcher, FilterSplit, mirrored};
pub(crate) use pattern::{FixedRun, NeededLiteral, Pattern};
pub(crate) use program::{Layout, Program, operands};

#[cfg(test)]
mod tests;
