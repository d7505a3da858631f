//! How sqlparser is to read queries.
//!
//! Invariant: what this accepts beyond our dialect does no harm, `lower` refuses it; so this only opts in to syntax that
//! is ours or that deserves a better refusal than a syntax error. Statements other than queries never get here.

use sqlparser::dialect::Dialect;

use crate::lex;

/// ZipfDB's dialect: SQLite's, without its quoting with backticks and brackets.
#[derive(Debug)]
pub(crate) struct ZipfDialect;

impl Dialect for ZipfDialect {
    fn is_identifier_start(&self, character: char) -> bool {
        lex::is_name_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        lex::is_name_part(character)
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        character == '"'
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_in_empty_list(&self) -> bool {
        true
    }

    fn supports_limit_comma(&self) -> bool {
        true
    }
}
