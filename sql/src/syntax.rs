//! `Statement`: what the parser understood of one statement, before any name is looked up.
//!
//! Invariant: the types are flat: no type contains itself, so that no text can make cloning, comparing or dropping them
//! recurse. Every part keeps the byte it began at. Whether names exist and types fit is decided in `bind`.

use crate::error::Position;
use crate::lex::Source;
use crate::value::Value;

/// One parsed statement. Bind it to get a plan; it can be bound many times, with different parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    pub(crate) source: Source,
    pub(crate) parameters: usize,
    pub(crate) kind: StatementKind,
}

impl Statement {
    /// The statement's text.
    pub fn text(&self) -> &str {
        &self.source.text
    }

    /// Where the statement begins.
    pub fn position(&self) -> Position {
        self.source.start
    }

    /// The highest parameter number, which is the number of values to bind.
    pub fn parameter_count(&self) -> usize {
        self.parameters
    }

    /// Whether the statement only reads from the database. `COPY ... TO` does.
    pub fn is_read_only(&self) -> bool {
        match self.kind {
            StatementKind::Select(_)
            | StatementKind::Check { .. }
            | StatementKind::CopyTo { .. } => true,
            StatementKind::CreateCorpus { .. }
            | StatementKind::DropCorpus { .. }
            | StatementKind::CopyFrom { .. } => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StatementKind {
    CreateCorpus {
        name: Name,
        if_not_exists: bool,
        options: Vec<OptionSetting>,
    },
    DropCorpus {
        name: Name,
        if_exists: bool,
    },
    CopyFrom {
        corpus: Name,
        path: Operand,
        options: Vec<OptionSetting>,
    },
    CopyTo {
        corpus: Name,
        directory: Operand,
    },
    Check {
        corpus: Name,
    },
    Select(Select),
}

/// A name and the byte where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) at: usize,
    /// In double quotes: could have been meant as text.
    pub(crate) quoted: bool,
}

/// A literal or a parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operand {
    pub(crate) at: usize,
    pub(crate) kind: OperandKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OperandKind {
    Literal(Value),
    /// Number from 1.
    Parameter(usize),
}

/// `key = value` in WITH.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OptionSetting {
    pub(crate) key: Name,
    pub(crate) value: Operand,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Select {
    /// Byte of SELECT.
    pub(crate) at: usize,
    pub(crate) items: Vec<Item>,
    pub(crate) from: From,
    /// All of them must hold.
    pub(crate) conditions: Vec<Condition>,
    pub(crate) group_by: Vec<Expression>,
    pub(crate) order_by: Vec<OrderTerm>,
    pub(crate) limit: Option<Operand>,
    pub(crate) offset: Option<Operand>,
}

/// One item of the SELECT list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    /// `*` or `table.*`.
    Star { at: usize, table: Option<Name> },
    Expression {
        expression: Expression,
        alias: Option<Name>,
        /// The expression as it was written.
        text: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct From {
    pub(crate) name: Name,
    /// Arguments of a table function; none for a plain name.
    pub(crate) arguments: Option<Vec<Argument>>,
    pub(crate) alias: Option<Name>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    pub(crate) at: usize,
    pub(crate) kind: ExpressionKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExpressionKind {
    Column(ColumnName),
    Operand(OperandKind),
    Call(Call),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColumnName {
    pub(crate) table: Option<Name>,
    pub(crate) name: Name,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// As it was written.
    pub(crate) function: String,
    pub(crate) arguments: Vec<Argument>,
}

/// An argument of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Argument {
    /// The `*` of `COUNT(*)`.
    Star {
        at: usize,
    },
    Column(ColumnName),
    Operand(Operand),
}

impl Argument {
    pub(crate) fn at(&self) -> usize {
        match self {
            Argument::Star { at } => *at,
            Argument::Column(column) => column.at(),
            Argument::Operand(operand) => operand.at,
        }
    }
}

impl ColumnName {
    pub(crate) fn at(&self) -> usize {
        self.table.as_ref().map_or(self.name.at, |table| table.at)
    }
}

/// `left = value`, or `left IN (values)`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    pub(crate) left: Expression,
    pub(crate) values: Vec<Operand>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OrderTerm {
    pub(crate) expression: Expression,
    pub(crate) descending: bool,
}
