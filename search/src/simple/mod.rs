//! The simple query language, for files. docs/SEARCH.md describes it.
//!
//! `query` is what a text means, `parse` reads it. Invariant: a text is cut into words by the caller's tokenizer alone, as the
//! texts of the corpus are. Which columns there are for `name:value` is not known here.

mod parse;
mod query;

pub use parse::{LenientQuery, Operator, QueryOptions, Tokenize, parse, parse_lenient};
pub use query::FileQuery;
