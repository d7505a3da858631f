//! SQL text to a checked logical plan: the front end of ZipfDB.
//!
//! Text is cut into statements (`StatementStream`), each is parsed (`parse`, `parse_statement`), and bound to the names
//! and parameters at hand (`bind`), which gives a `Plan`. Whatever the text, the answer is a plan or an `Error` with the
//! place and, where there is one, a hint.
//!
//! ```
//! use zipfdb_sql::{Plan, Schema, Value, bind, parse};
//!
//! struct OneCorpus;
//! impl Schema for OneCorpus {
//!     fn corpora(&self) -> Vec<String> {
//!         vec!["reviews".to_owned()]
//!     }
//! }
//!
//! let statements = parse("SELECT COUNT(*) FROM reviews WHERE word = ?")?;
//! let plan = bind(&statements[0], &OneCorpus, &[Value::from("good").into()])?;
//! assert!(matches!(plan, Plan::Query(_)));
//!
//! let statements = parse("SELECT COUNT(*) FROM revews")?;
//! let error = bind(&statements[0], &OneCorpus, &[]).unwrap_err();
//! assert_eq!(error.to_string(), r#"1:22: no such corpus "revews"; hint: did you mean "reviews"?"#);
//! # Ok::<(), zipfdb_sql::Error>(())
//! ```
//!
//! Invariant: nothing here touches a file, and no text makes anything here panic, overflow a stack or take long.

#![forbid(unsafe_code)]

mod affinity;
mod bind;
mod change;
mod cursor;
mod dialect;
mod error;
mod functions;
pub mod iso;
mod kinds;
mod lex;
pub mod limits;
mod lower;
mod mistake;
mod parse;
mod parse_query;
pub mod plan;
pub mod query;
mod quoted;
pub mod regexp;
pub mod search_call;
pub mod setting;
mod split;
mod statement;
mod substr;
mod suggest;
mod syntax;
mod translate;
mod types;
mod value;

pub use bind::{
    Misfit, SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN, Schema, ViewDefinition, bind, columns,
    is_corpus_name, is_declarable, misfit,
};
pub use error::{Error, Hint, NameKind, ParserFailure, Place, Position, Result};
#[doc(hidden)]
pub use functions::names as function_names;
pub use parse::{parse, parse_statement};
pub use plan::Plan;
pub use quoted::{SHOWN_BYTES_MAX, grouped, quote, shorten};
pub use split::{Pending, StatementStream, StatementText};
pub use substr::substr_range;
pub use syntax::Statement;
pub use value::{Value, ValueKind};
