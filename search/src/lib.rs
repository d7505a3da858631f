//! Query languages for words and spans, and the statistics of corpora.
//!
//! `algebra` is what a query means; `cql` and `simple` read texts to it, within `limits`, with `error` for what is wrong.
//! `matcher` evaluates conditions on words, `automaton` turns regular spans into automata over classes of words, `naive` answers
//! queries on plain tokens and is the oracle of tests. `fold` and `diacritics` are the forms of words that tests compare, `fold` that
//! which orders dictionaries. `grep` finds the matches of regular expressions in texts that are not in memory as a whole.
//! `measures` has the formulas of collocation, keyness, dispersion and ranking.
//!
//! Invariant: nothing here touches a file, and no text makes anything here panic, overflow a stack or take long.

#![forbid(unsafe_code)]

pub mod algebra;
pub mod automaton;
mod compile_error;
pub mod cql;
pub mod diacritics;
mod error;
pub mod fold;
mod fold_table;
pub mod grep;
pub mod limits;
pub mod matcher;
pub mod measures;
pub mod naive;
mod pattern;
pub mod simple;

pub use compile_error::CompileError;
pub use error::{Error, Fault, Language, Place, Result};
