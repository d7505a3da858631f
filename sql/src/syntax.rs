//! `Statement`: what the parser understood of one statement, before any name is looked up.
//!
//! Invariant: the types are flat: no type contains itself, so that no text can make cloning, comparing or dropping them
//! recurse. Every part keeps the byte it began at. Whether names exist and types fit is decided in `bind`.

use std::ops::Range;

use crate::error::Position;
use crate::functions::Named;
use crate::lex::SourceText;
use crate::plan::ExplainFormat;
use crate::query::{Affinity, BinaryOperator, Collation, Comparison, Function, Matcher};
use crate::value::{Value, ValueKind};

/// One parsed statement. Bind it to get a plan; it can be bound many times, with different parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    pub(crate) source: SourceText,
    pub(crate) parameters: usize,
    pub(crate) parameter_names: Vec<Option<String>>,
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

    /// The names of parameters, in order of their numbers from 1; none for one that has only a number. Empty if none has a name.
    pub fn parameter_names(&self) -> &[Option<String>] {
        &self.parameter_names
    }

    /// Whether the statement only reads from the database. `COPY ... TO` does, and `SET` changes only the handle.
    pub fn is_read_only(&self) -> bool {
        match self.kind {
            StatementKind::Select(_)
            | StatementKind::Explain { .. }
            | StatementKind::Check { .. }
            | StatementKind::CopyQuery { .. }
            | StatementKind::CopyTo { .. }
            | StatementKind::Set { .. }
            | StatementKind::Reset { .. } => true,
            StatementKind::CreateCorpus { .. }
            | StatementKind::DropCorpus { .. }
            | StatementKind::AlterCorpus { .. }
            | StatementKind::AddColumn { .. }
            | StatementKind::DropColumn { .. }
            | StatementKind::CopyFrom { .. }
            | StatementKind::Insert(_)
            | StatementKind::Update(_)
            | StatementKind::Delete { .. }
            | StatementKind::Begin
            | StatementKind::Commit
            | StatementKind::Rollback
            | StatementKind::DropView { .. }
            | StatementKind::CreateIndex { .. }
            | StatementKind::DropIndex { .. }
            | StatementKind::Recompress { .. } => false,
            StatementKind::CreateView { is_temporary, .. } => is_temporary,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StatementKind {
    CreateCorpus {
        name: Name,
        if_not_exists: bool,
        columns: Vec<DeclaredColumn>,
        options: Vec<OptionSetting>,
    },
    AlterCorpus {
        corpus: Name,
        options: Vec<OptionSetting>,
    },
    AddColumn {
        corpus: Name,
        column: DeclaredColumn,
    },
    DropColumn {
        corpus: Name,
        column: Name,
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
        path: Operand,
    },
    CopyQuery {
        query: Vec<Select>,
        path: Operand,
        options: Vec<OptionSetting>,
    },
    Check {
        corpus: Name,
    },
    Set {
        name: Name,
        value: Operand,
    },
    Reset {
        name: Name,
    },
    Explain {
        query: Vec<Select>,
        analyze: bool,
        format: ExplainFormat,
    },
    CreateView {
        name: Name,
        is_temporary: bool,
        if_not_exists: bool,
        query: Vec<Select>,
        /// The bytes of the query.
        text: Range<usize>,
    },
    DropView {
        name: Name,
        if_exists: bool,
    },
    CreateIndex {
        name: Name,
        if_not_exists: bool,
        corpus: Name,
        kind: Name,
        options: Vec<OptionSetting>,
    },
    DropIndex {
        name: Name,
        if_exists: bool,
    },
    Insert(Insert),
    Update(Update),
    Delete {
        corpus: Name,
        /// The last is `SELECT file` with the condition; what it reads is not in it. Those before are its subqueries.
        files: Vec<Select>,
    },
    Begin,
    Commit,
    Rollback,
    Recompress {
        corpus: Name,
    },
    /// From the innermost SELECT outwards; each after those that it reads.
    Select(Vec<Select>),
}

/// INSERT or REPLACE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Insert {
    pub(crate) replace: bool,
    pub(crate) corpus: Name,
    /// Byte of the parenthesis before the columns.
    pub(crate) columns_at: usize,
    pub(crate) columns: Vec<Name>,
    pub(crate) source: InsertSource,
}

/// A column of files that CREATE or ALTER CORPUS declares.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeclaredColumn {
    pub(crate) name: Name,
    pub(crate) kind: ValueKind,
}

/// UPDATE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Update {
    pub(crate) corpus: Name,
    pub(crate) columns: Vec<Name>,
    /// The last is a SELECT of `file` and a value for each column, with the condition; its FROM is the files of the corpus. Those
    /// before are its subqueries.
    pub(crate) rows: Vec<Select>,
}

/// Where the rows of INSERT come from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum InsertSource {
    /// The values of all rows, one row after the other, a value for each column.
    Values { values: Vec<NodeId>, nodes: Nodes },
    /// As `StatementKind::Select`.
    Query(Vec<Select>),
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

/// `key = value` in WITH or SET.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OptionSetting {
    pub(crate) key: Name,
    pub(crate) value: Operand,
}

/// One SELECT without the subqueries that it reads, or a UNION.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Select {
    /// Byte of SELECT.
    pub(crate) at: usize,
    /// The SELECT that it stands in.
    pub(crate) outer: Option<OuterSelect>,
    /// Names of its columns, if WITH gives them.
    pub(crate) columns: Vec<Name>,
    pub(crate) distinct: bool,
    pub(crate) items: Vec<Item>,
    pub(crate) from: Option<From>,
    pub(crate) filter: Option<NodeId>,
    pub(crate) group_by: Vec<NodeId>,
    pub(crate) having: Option<NodeId>,
    pub(crate) order_by: Vec<OrderTerm>,
    pub(crate) limit: Option<NodeId>,
    pub(crate) offset: Option<NodeId>,
    pub(crate) nodes: Nodes,
}

/// The SELECT around another, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OuterSelect {
    pub(crate) select: usize,
    /// The inner one stands in its FROM, not in an expression.
    pub(crate) in_from: bool,
}

/// One item of the SELECT list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    /// `*` or `table.*`.
    Star { at: usize, table: Option<Name> },
    Expression {
        root: NodeId,
        alias: Option<Name>,
        /// The bytes of the expression as it was written.
        text: Range<usize>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct From {
    pub(crate) kind: FromKind,
    pub(crate) alias: Option<Name>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FromKind {
    Corpus(Name),
    TableFunction {
        name: Name,
        arguments: Vec<Argument>,
    },
    /// An earlier SELECT, by index.
    Subquery(usize),
    /// All rows of some earlier ones.
    Union(Vec<usize>),
}

/// An argument of a table function: `value` or `name => value`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: Option<Name>,
    pub(crate) value: Operand,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OrderTerm {
    pub(crate) root: NodeId,
    pub(crate) descending: bool,
    /// NULLS FIRST or LAST.
    pub(crate) nulls_first: Option<bool>,
}

/// A term of ORDER BY within a call, without what it orders by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallOrder {
    pub(crate) descending: bool,
    /// NULLS FIRST or LAST.
    pub(crate) nulls_first: Option<bool>,
}

/// Index of a node in its SELECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId(u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    /// Byte at which it begins; of an infix operator, the byte of the operator.
    pub(crate) at: usize,
    /// Range of `Nodes::operands`.
    operands: Range<u32>,
    /// The first node below this one. All from there to this one are below it.
    first: u32,
}

/// All expressions of a SELECT: every node after its operands, and everything below a node right before it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    operands: Vec<NodeId>,
}

impl Nodes {
    /// Adds a node over the newest ones. `operands` may be in any order, but nothing else has been added since the first.
    pub(crate) fn add(&mut self, at: usize, kind: NodeKind, operands: &[NodeId]) -> NodeId {
        // No more nodes or operands than tokens, of which there are at most INSERT_TOKENS_MAX.
        let id = self.nodes.len() as u32;
        let begin = self.operands.len() as u32;
        self.operands.extend_from_slice(operands);
        let firsts = operands
            .iter()
            .map(|operand| self.nodes[operand.index()].first);
        self.nodes.push(Node {
            kind,
            at,
            first: firsts.min().unwrap_or(id),
            operands: begin..self.operands.len() as u32,
        });
        NodeId(id)
    }

    /// What there is, for `reset`.
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.nodes.len(), self.operands.len())
    }

    /// Takes away what has been added since the mark.
    pub(crate) fn reset(&mut self, (nodes, operands): (usize, usize)) {
        self.nodes.truncate(nodes);
        self.operands.truncate(operands);
    }

    /// Takes away the newest node, which has no operands.
    pub(crate) fn remove_newest(&mut self) {
        self.nodes.pop();
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(crate) fn operands(&self, id: NodeId) -> &[NodeId] {
        let Range { start, end } = self.node(id).operands;
        &self.operands[start as usize..end as usize]
    }

    /// The node and all below it, operands first.
    pub(crate) fn below(&self, id: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        (self.node(id).first..=id.0).map(NodeId)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        // As in `add`.
        (0..self.nodes.len() as u32).map(NodeId)
    }
}

/// What a node is. Operands are in the order in which they are named here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeKind {
    Literal(Value),
    /// Number from 1.
    Parameter(usize),
    Column {
        table: Option<Name>,
        name: Name,
    },
    /// Unary `+`: the same value, but no longer a column's.
    Plus,
    Negate,
    Not,
    Binary(BinaryOperator),
    Compare(Comparison),
    /// `x IS [NOT] TRUE`, `x IS [NOT] FALSE`.
    IsTruth {
        truth: bool,
        negated: bool,
    },
    IsNull {
        negated: bool,
    },
    /// The value, then the list.
    In {
        negated: bool,
    },
    /// The value; the SELECT by index.
    InSubquery {
        select: usize,
        negated: bool,
    },
    /// A SELECT by index.
    Subquery(usize),
    /// A SELECT by index.
    Exists(usize),
    /// The value, the lower bound, the upper bound.
    Between {
        negated: bool,
    },
    /// Text, pattern, perhaps ESCAPE.
    Match {
        matcher: Matcher,
        negated: bool,
    },
    /// The operand if there is one, pairs of condition and result, ELSE if there is one.
    Case {
        operand: bool,
        otherwise: bool,
    },
    Cast(Affinity),
    Collate(Collation),
    /// `->` and `->>`: the text, the path.
    JsonPart(Function),
    /// The arguments, what ORDER BY orders them by, then FILTER (WHERE ...) if there is one.
    Call {
        /// As it was written.
        name: String,
        /// None if there is no such function.
        named: Option<Named>,
        /// `count(*)`: there are no arguments.
        star: bool,
        distinct: bool,
        /// ORDER BY within the call.
        order: Vec<CallOrder>,
        /// Byte of FILTER, if there is one.
        filter: Option<usize>,
    },
}
