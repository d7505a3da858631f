//! INSERT, REPLACE, UPDATE and DELETE: their columns, their rows and the files they mean.
//!
//! Invariant: rows have a value for each column, and `content` is among the columns of INSERT. Literals and
//! parameters have the types of their columns; what is computed is checked as it comes.

use super::Binder;
use super::blocks::{Blocks, Surroundings};
use super::expression::{Expressions, Form};
use super::from::Scope;
use crate::error::{Error, Hint, NameKind, Result, quote};
use crate::plan::{InsertColumn, Plan};
use crate::query::{
    Block, Expression, FilesColumn, MetadataColumn, Output, Query, Relation, Source, WordsColumn,
};
use crate::suggest::did_you_mean;
use crate::syntax::{
    Insert, InsertSource, Item, Name, NodeId, NodeKind, Nodes, Operand, OperandKind, Select, Update,
};
use crate::value::Value;

impl Binder<'_> {
    pub(super) fn insert(&self, insert: &Insert) -> Result<Plan> {
        let corpus = self.corpus(&insert.corpus.text, insert.corpus.at)?;
        let columns = self.insert_columns(&corpus, insert)?;
        let query = match &insert.source {
            InsertSource::Values { values, nodes } => self.values(values, nodes, &columns)?,
            InsertSource::Query(selects) => {
                let query = self.query(selects)?;
                let found = query.columns().count();
                if found != columns.len() {
                    let at = selects.last().map_or(0, |select| select.at);
                    let s = if found == 1 { "" } else { "s" };
                    let message =
                        format!("a query of {found} column{s} for {} columns", columns.len());
                    let hint = Hint::new("columns are matched by their places");
                    return Err(self.conflict(at, message, hint));
                }
                query
            }
        };
        Ok(Plan::Insert {
            corpus,
            columns,
            query,
            replace: insert.replace,
        })
    }

    fn insert_columns(&self, corpus: &str, insert: &Insert) -> Result<Vec<InsertColumn>> {
        let verb = if insert.replace { "REPLACE" } else { "INSERT" };
        let mut columns = Vec::with_capacity(insert.columns.len());
        for name in &insert.columns {
            let column = self.insert_column(corpus, name)?;
            if insert.replace && column == InsertColumn::Offset {
                let hint =
                    Hint::new("`INSERT INTO` inserts at an offset; REPLACE takes whole files");
                return Err(self.conflict(name.at, "REPLACE at an offset", hint));
            }
            if columns.contains(&column) {
                let message = format!("column {} is given twice", quote(column.name()));
                return Err(self.conflict(name.at, message, Hint::NONE));
            }
            columns.push(column);
        }
        let missing =
            |message: String, hint| Err(self.conflict(insert.columns_at, message, Hint::new(hint)));
        let has = |column| columns.contains(&column);
        if !has(InsertColumn::Content) {
            let message = format!("{verb} without column \"content\"");
            let hint = if columns
                .iter()
                .any(|column| matches!(column, InsertColumn::Metadata(_)))
            {
                "`UPDATE corpus SET column = value WHERE file = ...` changes columns alone"
            } else {
                "a row is a file's name and text: (file, content)"
            };
            return missing(message, hint);
        }
        if !has(InsertColumn::File) && (insert.replace || has(InsertColumn::Offset)) {
            let message = format!("{verb} without column \"file\"");
            return missing(message, "a row is a file's name and text: (file, content)");
        }
        Ok(columns)
    }

    fn insert_column(&self, corpus: &str, name: &Name) -> Result<InsertColumn> {
        let is = |known: &str| known.eq_ignore_ascii_case(&name.text);
        if let Some(column) = InsertColumn::ALL
            .into_iter()
            .find(|column| is(column.name()))
        {
            return Ok(column);
        }
        let declared = self.schema.metadata(corpus);
        if let Some(column) = declared.iter().find(|column| is(&column.name)) {
            return Ok(InsertColumn::Metadata(column.clone()));
        }
        let is_computed = WordsColumn::ALL.iter().any(|column| is(column.name()))
            || FilesColumn::ALL.iter().any(|column| is(column.name()));
        if is_computed {
            let message = format!("column {} cannot be inserted", quote(&name.text));
            let hint = Hint::new(
                "it is computed from the text; columns to insert are file, offset, content",
            );
            return Err(self.conflict(name.at, message, hint));
        }
        let mut names = vec!["file", "offset", "content"];
        names.extend(declared.iter().map(|column| column.name.as_str()));
        let hint = did_you_mean(&name.text, &names, "columns to insert are");
        Err(self.no_such(name.at, NameKind::Column, &name.text, hint))
    }

    /// VALUES, as a query that gives its rows.
    fn values(&self, values: &[NodeId], nodes: &Nodes, columns: &[InsertColumn]) -> Result<Query> {
        let scope = Scope::new(Source::Nothing, Vec::new(), None);
        let mut expressions = Expressions::of_nodes(self, nodes, scope);
        let hint = "values are constant; `INSERT INTO ... SELECT` inserts what a query gives";
        let mut rows = Vec::with_capacity(values.len());
        for (value, column) in values.iter().zip(columns.iter().cycle()) {
            let bound = expressions.bind(*value, Form::Row, false)?;
            let row = self.row(&bound, "VALUES", hint)?;
            if let Expression::Value(constant) = expressions.arena.get(row) {
                let operand = || Operand {
                    at: expressions.start(*value),
                    kind: match nodes.node(*value).kind {
                        NodeKind::Parameter(number) => OperandKind::Parameter(number),
                        _ => OperandKind::Literal(constant.as_ref().clone()),
                    },
                };
                self.check_value(constant, operand, column)?;
            }
            rows.push(row);
        }
        let outputs = columns.iter().enumerate().map(|(index, column)| Output {
            name: column.name().to_owned(),
            expression: expressions.arena.add(Expression::Column(index)),
        });
        let outputs = outputs.collect();
        let mut block = Block {
            metadata: Vec::new(),
            source: Source::Values {
                width: columns.len(),
                values: rows,
            },
            expressions: Vec::new(),
            filter: Vec::new(),
            aggregation: None,
            having: Vec::new(),
            outputs,
            distinct: false,
            order_by: Vec::new(),
            limit: None,
            offset: 0,
        };
        expressions.arena.finish(&mut block);
        Ok(Query {
            blocks: vec![block],
        })
    }

    /// A value that is known must have the type of its column.
    fn check_value(
        &self,
        value: &Value,
        operand: impl Fn() -> Operand,
        column: &InsertColumn,
    ) -> Result<()> {
        let expected = match (column, value) {
            (InsertColumn::File, Value::Text(_))
            | (InsertColumn::Content, Value::Text(_) | Value::Blob(_))
            | (InsertColumn::Offset, Value::Integer(0..)) => return Ok(()),
            (InsertColumn::Offset, Value::Integer(offset)) => {
                return Err(Error::OutOfRange {
                    at: self.source.at(operand().at),
                    what: "offset".to_owned(),
                    bounds: "at least 0".to_owned(),
                    found: offset.to_string(),
                    hint: Hint::new("offsets are bytes from the beginning of the file"),
                });
            }
            (InsertColumn::File, _) => "TEXT",
            (InsertColumn::Content, _) => "TEXT or BLOB",
            (InsertColumn::Offset, _) => "INTEGER",
            (InsertColumn::Metadata(column), _) => {
                return self.check_metadata(value, operand, column);
            }
        };
        Err(self.wrong_type(&operand(), column.name(), expected, Hint::NONE))
    }

    pub(super) fn delete(&self, corpus: &Name, selects: &[Select]) -> Result<Plan> {
        let name = self.corpus(&corpus.text, corpus.at)?;
        let query = self.files_query(&name, corpus, selects, "DELETE")?;
        Ok(Plan::Delete {
            corpus: name,
            query,
        })
    }

    pub(super) fn update(&self, update: &Update) -> Result<Plan> {
        let corpus = self.corpus(&update.corpus.text, update.corpus.at)?;
        let mut columns: Vec<MetadataColumn> = Vec::with_capacity(update.columns.len());
        for name in &update.columns {
            let column = self.declared_column(&corpus, name)?;
            if columns.contains(&column) {
                let message = format!("column {} is given twice", quote(&column.name));
                return Err(self.conflict(name.at, message, Hint::NONE));
            }
            columns.push(column);
        }
        if let Some(rows) = update.rows.last() {
            for (item, column) in rows.items.iter().skip(1).zip(&columns) {
                let Item::Expression { root, .. } = item else {
                    continue;
                };
                let node = rows.nodes.node(*root);
                let kind = match &node.kind {
                    NodeKind::Literal(value) => OperandKind::Literal(value.clone()),
                    NodeKind::Parameter(number) => OperandKind::Parameter(*number),
                    _ => continue,
                };
                let operand = Operand { at: node.at, kind };
                let value = self.value(&operand.kind);
                self.check_metadata(value, || operand.clone(), column)?;
            }
        }
        let query = self.files_query(&corpus, &update.corpus, &update.rows, "UPDATE")?;
        Ok(Plan::Update {
            corpus,
            columns,
            query,
        })
    }

    /// The last of some SELECTs, whose FROM is the files of a corpus: it may use their names and declared columns.
    fn files_query(
        &self,
        corpus: &str,
        written: &Name,
        selects: &[Select],
        verb: &str,
    ) -> Result<Query> {
        let Some((files, subqueries)) = selects.split_last() else {
            unreachable!("the last SELECT gives the files");
        };
        let mut blocks = Blocks::default();
        let bound = self.selects(subqueries, &mut blocks)?;
        let relation = Relation::Files {
            corpus: corpus.to_owned(),
        };
        let scope = self.files_scope(relation, &written.text);
        for id in files.nodes.ids() {
            let node = files.nodes.node(id);
            let NodeKind::Column { name, .. } = &node.kind else {
                continue;
            };
            let place = scope.find(&name.text);
            let is_of_text = place.is_some_and(|place| {
                (FilesColumn::ALL.get(place)).is_some_and(|column| *column != FilesColumn::File)
            });
            // What `no_column` would say of a name in double quotes is right for words, not for files.
            if is_of_text || place.is_none() && scope.metadata.is_empty() {
                let what = match &scope.metadata[..] {
                    [] => "\"file\"",
                    _ => "\"file\" and the declared columns",
                };
                let message = format!(
                    "column {} in a condition of {verb}, which only knows {what}",
                    quote(&name.text)
                );
                let hint = if name.quoted {
                    Hint::new("text is written in single quotes")
                } else {
                    Hint::new("whole files are meant, by their names: `WHERE file = 'a.txt'`")
                };
                return Err(self.conflict(node.at, message, hint));
            }
        }
        let surroundings = Surroundings {
            selects,
            bound: &bound,
            index: subqueries.len(),
        };
        let (block, _) = self.select(files, scope, surroundings)?;
        self.add_block(&mut blocks, block, files.at)?;
        Ok(blocks.into_query())
    }
}
