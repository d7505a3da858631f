//! CQL: a query language for spans of words. docs/SEARCH.md describes it.
//!
//! `lex` makes lexemes, `parse` reads them with `word` and `constraint`, `print` writes the algebra as a query. Invariant: what
//! `print` writes of a query that was read is read as the same query.

mod constraint;
mod lex;
mod parse;
mod print;
mod word;

pub use parse::parse;
