//! `Statement` to `Plan`: names are looked up, types checked, parameters put in.
//!
//! Invariant: every "no such ..." error of the SQL front end is made here, with its place and a hint. It knows the names
//! of corpora and columns, no more: whether a file exists is found when the plan is carried out.

use std::cell::Cell;
use std::sync::Arc;

use crate::error::{Error, Hint, NameKind, Result, quote, shorten};
use crate::lex::SourceText;
use crate::limits::REGEXP_MEMORY_MAX;
use crate::plan::Plan;
use crate::query::MetadataColumn;
use crate::suggest::did_you_mean;
use crate::syntax::{Operand, OperandKind, Statement, StatementKind};
use crate::value::{Value, ValueKind};

mod arena;
mod blocks;
mod call;
mod change;
mod expression;
mod from;
mod make;
mod metadata;
mod put_first;
mod regexp;
mod regexp_check;
mod select;
mod setting;
mod statement;
mod subquery;
mod view;

pub use metadata::{Misfit, is_declarable, misfit};
pub use statement::{SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN};

/// The names that a statement can use.
pub trait Schema {
    /// Names of all corpora.
    fn corpora(&self) -> Vec<String>;

    /// Names of the columns by which `segments('corpus')` shows the bytes of each section of a segment. None may be the
    /// name of a column that it has already, such as `files`.
    fn section_columns(&self) -> Vec<String> {
        Vec::new()
    }

    /// The columns that a corpus declares for its files.
    fn metadata(&self, _corpus: &str) -> Vec<MetadataColumn> {
        Vec::new()
    }

    /// The path as messages show it, if no database exists there yet.
    fn missing_database(&self) -> Option<String> {
        None
    }

    /// Bytes of memory that compiling a regular expression may take.
    fn regexp_memory_limit(&self) -> u64 {
        REGEXP_MEMORY_MAX
    }

    /// All views.
    fn views(&self) -> Vec<ViewDefinition> {
        Vec::new()
    }
}

/// A view: a name for a SELECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewDefinition {
    /// Its name as it was created.
    pub name: String,
    /// The SELECT.
    pub sql: String,
    /// Whether it belongs to the session alone.
    pub is_temporary: bool,
}

/// Checks a statement against the schema and turns it into a plan. `parameters[0]` is the value of `?1`, which the plan shares.
///
/// # Errors
/// Unknown names, values of wrong types, clauses that do not fit together, a wrong number of parameters.
pub fn bind(statement: &Statement, schema: &dyn Schema, parameters: &[Arc<Value>]) -> Result<Plan> {
    let binder = Binder {
        source: &statement.source,
        schema,
        parameters,
        views: 0,
        regexp_work: &Cell::new(0),
    };
    // A view refuses parameters, whatever their values.
    let is_view = matches!(statement.kind, StatementKind::CreateView { .. });
    if parameters.len() != statement.parameters && !is_view {
        return Err(Error::Parameters {
            at: statement.source.at(0),
            expected: statement.parameters,
            found: parameters.len(),
        });
    }
    match &statement.kind {
        StatementKind::CreateCorpus {
            name,
            if_not_exists,
            columns,
            options,
        } => binder.create_corpus(name, *if_not_exists, columns, options),
        StatementKind::AlterCorpus { corpus, options } => binder.alter_corpus(corpus, options),
        StatementKind::AddColumn { corpus, column } => binder.add_column(corpus, column),
        StatementKind::DropColumn { corpus, column } => binder.drop_column(corpus, column),
        StatementKind::DropCorpus { name, if_exists } => binder.drop_corpus(name, *if_exists),
        StatementKind::CopyFrom {
            corpus,
            path,
            options,
        } => binder.copy_from(corpus, path, options),
        StatementKind::CopyTo { corpus, path } => binder.copy_to(corpus, path),
        StatementKind::Check { corpus } => Ok(Plan::Check {
            corpus: binder.corpus(&corpus.text, corpus.at)?,
        }),
        StatementKind::CopyQuery {
            query,
            path,
            options,
        } => binder.copy_query(query, path, options),
        StatementKind::Set { name, value } => binder.set(name, value),
        StatementKind::Reset { name } => binder.reset(name),
        StatementKind::Explain {
            query,
            analyze,
            format,
        } => Ok(Plan::Explain {
            query: binder.query(query)?,
            analyze: *analyze,
            format: *format,
        }),
        StatementKind::CreateView {
            name,
            is_temporary,
            if_not_exists,
            query,
            text,
        } => {
            let sql = &statement.source.text[text.clone()];
            let view = ViewDefinition {
                name: name.text.clone(),
                sql: sql.to_owned(),
                is_temporary: *is_temporary,
            };
            binder.create_view(name, view, *if_not_exists, query, statement.parameters)
        }
        StatementKind::DropView { name, if_exists } => binder.drop_view(name, *if_exists),
        StatementKind::CreateIndex {
            name,
            if_not_exists,
            corpus,
            kind,
            options,
        } => binder.create_index(name, *if_not_exists, corpus, kind, options),
        StatementKind::DropIndex { name, if_exists } => Ok(Plan::DropIndex {
            name: name.text.clone(),
            if_exists: *if_exists,
        }),
        StatementKind::Select(query) => Ok(Plan::Query(binder.query(query)?)),
        StatementKind::Insert(insert) => binder.insert(insert),
        StatementKind::Update(update) => binder.update(update),
        StatementKind::Delete { corpus, files } => binder.delete(corpus, files),
        StatementKind::Begin => Ok(Plan::Begin),
        StatementKind::Commit => Ok(Plan::Commit),
        StatementKind::Rollback => Ok(Plan::Rollback),
        StatementKind::Recompress { corpus } => Ok(Plan::Recompress {
            corpus: binder.corpus(&corpus.text, corpus.at)?,
        }),
    }
}

/// The names of the columns of a SELECT, in any of its answers, with the kinds of their values where the plan shows them; none
/// for other statements. Needs no values for parameters.
///
/// # Errors
/// As `bind`, except for what depends on the values of parameters.
pub fn columns(
    statement: &Statement,
    schema: &dyn Schema,
) -> Result<Vec<(String, Option<ValueKind>)>> {
    let binder = Binder {
        source: &statement.source,
        schema,
        parameters: &[],
        views: 0,
        regexp_work: &Cell::new(0),
    };
    match &statement.kind {
        StatementKind::Select(query) => {
            let query = binder.query(query)?;
            let names = query.columns().map(str::to_owned);
            Ok(names.zip(query.column_kinds()).collect())
        }
        _ => Ok(Vec::new()),
    }
}

/// Whether a corpus may have this name: 1 to 255 bytes, no control characters, no space at either end.
pub fn is_corpus_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= crate::limits::NAME_BYTES_MAX
        && !name.chars().any(char::is_control)
        && name.trim() == name
}

struct Binder<'a> {
    source: &'a SourceText,
    schema: &'a dyn Schema,
    parameters: &'a [Arc<Value>],
    /// How many views there are around the text.
    views: usize,
    /// Nanoseconds of work on regular expressions that are literals.
    regexp_work: &'a Cell<u64>,
}

impl Binder<'_> {
    fn not_supported(&self, at: usize, what: impl Into<String>, hint: Hint) -> Error {
        Error::NotSupported {
            at: self.source.at(at),
            what: what.into(),
            hint,
        }
    }

    fn conflict(&self, at: usize, message: impl Into<String>, hint: Hint) -> Error {
        Error::Conflict {
            at: self.source.at(at),
            message: message.into(),
            hint,
        }
    }

    fn no_such(&self, at: usize, kind: NameKind, name: &str, hint: Hint) -> Error {
        Error::NoSuch {
            at: self.source.at(at),
            kind,
            name: quote(name),
            hint,
        }
    }

    fn find_corpus(&self, name: &str) -> Option<String> {
        let corpora = self.schema.corpora();
        corpora
            .into_iter()
            .find(|corpus| corpus.eq_ignore_ascii_case(name))
    }

    /// The corpus' name as it was created. Case does not matter in ASCII letters.
    fn corpus(&self, name: &str, at: usize) -> Result<String> {
        if let Some(corpus) = self.find_corpus(name) {
            return Ok(corpus);
        }
        let corpora = self.schema.corpora();
        let candidates: Vec<&str> = corpora.iter().map(String::as_str).collect();
        let hint = match name.to_ascii_lowercase().as_str() {
            "corpora" => Hint::new("the list of corpora is `corpora()`"),
            "devices" => Hint::new("the list of devices is `devices()`"),
            "settings" => Hint::new("the list of settings is `settings()`"),
            "rejects" => Hint::new("what the last COPY left out is `rejects()`"),
            function @ ("segments" | "indexes" | "caches" | "files" | "term_vectors") => {
                Hint::new(format!("the table function is `{function}('corpus')`"))
            }
            "ngrams" => Hint::new("the table function is `ngrams('corpus', 2)`"),
            "duplicates" => Hint::new("the table function is `duplicates('corpus', 50)`"),
            _ if candidates.is_empty() => match self.schema.missing_database() {
                Some(path) => Hint::new(format!(
                    "there is no database at {path} yet; `CREATE CORPUS name` makes it"
                )),
                None => Hint::new("there are no corpora yet; `CREATE CORPUS name` makes one"),
            },
            _ => did_you_mean(name, &candidates, "corpora are"),
        };
        Err(self.no_such(at, NameKind::Corpus, name, hint))
    }

    fn value<'v>(&'v self, operand: &'v OperandKind) -> &'v Value {
        match operand {
            OperandKind::Literal(value) => value,
            OperandKind::Parameter(number) => self.parameter(*number),
        }
    }

    /// Parameter numbers begin at 1. Where there are no values, which is so only in `columns`, all are NULL.
    fn parameter(&self, number: usize) -> &Value {
        let known = self.parameters.get(number - 1);
        known.map_or(&Value::Null, |value| value)
    }

    /// Whether an operand has a value; otherwise it may be any.
    fn is_known(&self, operand: &Operand) -> bool {
        match operand.kind {
            OperandKind::Literal(_) => true,
            OperandKind::Parameter(number) => number <= self.parameters.len(),
        }
    }

    fn wrong_type(
        &self,
        operand: &Operand,
        what: &str,
        expected: &'static str,
        hint: Hint,
    ) -> Error {
        let value = self.value(&operand.kind);
        let mut found = match value {
            Value::Blob(bytes) => format!("a value of {} bytes", bytes.len()),
            other => shorten(&other.to_string()),
        };
        if let OperandKind::Parameter(number) = operand.kind {
            found = format!("parameter ?{number} ({found})");
        }
        Error::WrongType {
            at: self.source.at(operand.at),
            what: what.to_owned(),
            expected,
            found,
            found_type: value.type_name(),
            hint,
        }
    }

    fn text(&self, operand: &Operand, what: &str) -> Result<String> {
        match self.value(&operand.kind) {
            Value::Text(text) => Ok(text.clone()),
            _ => Err(self.wrong_type(operand, what, "TEXT", Hint::NONE)),
        }
    }

    fn path(&self, operand: &Operand, what: &str) -> Result<String> {
        let path = self.text(operand, what)?;
        let fault = match path {
            _ if path.is_empty() => "is empty",
            _ if path.contains('\0') => "has a NUL character, which no path has",
            path => return Ok(path),
        };
        Err(self.conflict(operand.at, format!("{what} {fault}"), Hint::NONE))
    }
}
