//! The columns that a corpus declares for its files: CREATE and ALTER CORPUS, and values of their types.
//!
//! Invariant: no declared column has the name of a column that rows of files have anyway, so a name means one column everywhere.

use super::Binder;
use crate::error::{Hint, NameKind, Result, quote, shorten};
use crate::iso;
use crate::limits::NAME_BYTES_MAX;
use crate::plan::Plan;
use crate::query::{
    FilesColumn, FilesWithColumn, GrepColumn, LinesColumn, MetadataColumn, NgramsColumn,
    TermVectorsColumn, WordsColumn,
};
use crate::search_call::SearchFunction;
use crate::suggest::did_you_mean;
use crate::syntax::{DeclaredColumn, Name, Operand};
use crate::value::{Value, ValueKind};

/// Whether a corpus can declare a column of this name.
pub fn is_declarable(name: &str) -> bool {
    has_form(name) && !is_taken(name)
}

/// Whether a name has the form of one of a column.
fn has_form(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// Whether a relation whose rows name a file has a column of this name.
fn is_taken(name: &str) -> bool {
    macro_rules! has {
        ($($columns:ty)+) => {
            $(<$columns>::ALL.iter().any(|column| column.name().eq_ignore_ascii_case(name)))||+
        };
    }
    let mut of_search = (SearchFunction::OF_FILES.iter()).flat_map(|function| function.columns());
    has!(WordsColumn NgramsColumn TermVectorsColumn FilesColumn FilesWithColumn GrepColumn LinesColumn)
        || of_search.any(|(column, _)| column.eq_ignore_ascii_case(name))
}

impl Binder<'_> {
    /// The columns of CREATE CORPUS.
    pub(super) fn declared(&self, columns: &[DeclaredColumn]) -> Result<Vec<(String, ValueKind)>> {
        let mut declared: Vec<(String, ValueKind)> = Vec::with_capacity(columns.len());
        for DeclaredColumn { name, kind } in columns {
            let mut before = declared.iter();
            if before.any(|(known, _)| known.eq_ignore_ascii_case(&name.text)) {
                let message = format!("column {} is declared twice", quote(&name.text));
                return Err(self.conflict(name.at, message, Hint::NONE));
            }
            self.check_column_name(name)?;
            declared.push((name.text.clone(), *kind));
        }
        Ok(declared)
    }

    fn check_column_name(&self, name: &Name) -> Result<()> {
        let text = &name.text;
        if is_taken(text) {
            let message = format!("{} is a column that rows of files have anyway", quote(text));
            let hint = Hint::new("give the column another name");
            return Err(self.conflict(name.at, message, hint));
        }
        if !has_form(text) {
            let message = "the name of a column has 1 to 255 bytes and no control characters";
            return Err(self.conflict(name.at, message, Hint::NONE));
        }
        Ok(())
    }

    pub(super) fn add_column(&self, corpus: &Name, column: &DeclaredColumn) -> Result<Plan> {
        let corpus = self.corpus(&corpus.text, corpus.at)?;
        let DeclaredColumn { name, kind } = column;
        self.check_column_name(name)?;
        let known = self.schema.metadata(&corpus);
        if let Some(known) = find(&known, &name.text) {
            let message = format!("there is a column {} already", quote(&known.name));
            return Err(self.conflict(name.at, message, Hint::NONE));
        }
        Ok(Plan::AddColumn {
            corpus,
            name: name.text.clone(),
            kind: *kind,
        })
    }

    pub(super) fn drop_column(&self, corpus: &Name, column: &Name) -> Result<Plan> {
        let corpus = self.corpus(&corpus.text, corpus.at)?;
        let name = self.declared_column(&corpus, column)?.name;
        Ok(Plan::DropColumn { corpus, name })
    }

    /// A column that a corpus declares.
    pub(super) fn declared_column(&self, corpus: &str, name: &Name) -> Result<MetadataColumn> {
        let known = self.schema.metadata(corpus);
        if let Some(found) = find(&known, &name.text) {
            return Ok(found.clone());
        }
        if is_taken(&name.text) {
            let message = format!("column {} cannot be changed", quote(&name.text));
            let hint = if name.text.eq_ignore_ascii_case("content") {
                "`REPLACE INTO corpus (file, content)` replaces texts, `INSERT INTO` inserts into them"
            } else {
                "only columns that CREATE or ALTER CORPUS declares have values of their own"
            };
            let hint = Hint::new(hint);
            return Err(self.conflict(name.at, message, hint));
        }
        let names: Vec<&str> = known.iter().map(|column| column.name.as_str()).collect();
        let hint = if names.is_empty() {
            Hint::new("`ALTER CORPUS ... ADD COLUMN` declares columns")
        } else {
            did_you_mean(&name.text, &names, "declared columns are")
        };
        Err(self.no_such(name.at, NameKind::Column, &name.text, hint))
    }

    /// Checks a value that is known.
    pub(super) fn check_metadata(
        &self,
        value: &Value,
        operand: impl Fn() -> Operand,
        column: &MetadataColumn,
    ) -> Result<()> {
        let Some(misfit) = misfit(column.kind, value) else {
            return Ok(());
        };
        if let (Value::Text(text), Misfit::Form(form)) = (value, misfit) {
            let message = format!("{} is {form}", quote(&shorten(text)));
            let hint = Hint::new(misfit.hint());
            return Err(self.conflict(operand().at, message, hint));
        }
        let hint = Hint::new(misfit.hint());
        Err(self.wrong_type(&operand(), &column.name, column.kind.name(), hint))
    }
}

fn find<'c>(columns: &'c [MetadataColumn], name: &str) -> Option<&'c MetadataColumn> {
    let mut columns = columns.iter();
    columns.find(|column| column.name.eq_ignore_ascii_case(name))
}

/// Why a value cannot stand in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// It is of another type.
    Type(ValueKind),
    /// It is a text that is no date or moment, which this says.
    Form(&'static str),
}

impl Misfit {
    /// What to do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Misfit::Form("no date") => "a date is written as `YYYY-MM-DD`",
            Misfit::Form(_) => "a moment is written as `YYYY-MM-DD HH:MM:SS`",
            Misfit::Type(ValueKind::Boolean) => "it is TRUE or FALSE, which are 1 and 0",
            Misfit::Type(ValueKind::Date) => "a date is a text, `YYYY-MM-DD`",
            Misfit::Type(ValueKind::Timestamp) => "a moment is a text, `YYYY-MM-DD HH:MM:SS`",
            Misfit::Type(_) => "`CAST(x AS type)` converts values",
        }
    }
}

/// Why a value cannot stand in a column of a kind; none if it can. NULL can stand in any.
pub fn misfit(kind: ValueKind, value: &Value) -> Option<Misfit> {
    let fits = match (kind, value) {
        (_, Value::Null)
        | (ValueKind::Text, Value::Text(_))
        | (ValueKind::Integer | ValueKind::Real, Value::Integer(_))
        | (ValueKind::Boolean, Value::Integer(0 | 1)) => true,
        (ValueKind::Real, Value::Real(value)) => !value.is_nan(),
        (ValueKind::Date, Value::Text(text)) if iso::parse_date(text).is_none() => {
            return Some(Misfit::Form("no date"));
        }
        (ValueKind::Timestamp, Value::Text(text)) if iso::parse_timestamp(text).is_none() => {
            return Some(Misfit::Form("no moment"));
        }
        (ValueKind::Date | ValueKind::Timestamp, Value::Text(_)) => true,
        _ => false,
    };
    (!fits).then_some(Misfit::Type(kind))
}
