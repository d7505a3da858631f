//! Text to `Statement`: limits, tokens, then the parser.
//!
//! Invariant: no text makes this panic, overflow a stack or run long.

use crate::error::{Position, Result};
use crate::lex::{self, SourceText};
use crate::split::{StatementStream, StatementText};
use crate::statement;
use crate::syntax::Statement;

/// Parses all statements of a text.
///
/// Statements are separated by `;`, empty ones are passed over. The first error wins, so either the whole text is
/// understood or nothing of it is returned. Linear in the text.
///
/// # Errors
/// Texts that are not SQL, that use what this version does not support, or that exceed one of the `limits`.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    let mut stream = StatementStream::new();
    stream.feed(sql);
    let mut statements = Vec::new();
    while let Some(text) = stream.next_statement() {
        statements.push(parse_statement(text?)?);
    }
    if let Some(text) = stream.finish() {
        statements.push(parse_statement(text?)?);
    }
    Ok(statements)
}

/// Parses one statement as `StatementStream` gives it; positions of errors are those in the whole input.
///
/// # Errors
/// As `parse`.
pub fn parse_statement(text: StatementText) -> Result<Statement> {
    let source = SourceText {
        text: text.text,
        start: text.start,
    };
    let lexed = lex::lex(&source)?;
    let kind = statement::parse(&source, &lexed.tokens)?;
    Ok(Statement {
        source,
        parameters: lexed.parameters,
        parameter_names: lexed.parameter_names,
        kind,
    })
}

impl From<&str> for StatementText {
    fn from(text: &str) -> StatementText {
        StatementText {
            text: text.to_owned(),
            start: Position::START,
        }
    }
}
