//! The parser of statements that change files: INSERT, REPLACE, UPDATE and DELETE, and of what surrounds them: BEGIN, COMMIT,
//! ROLLBACK and RECOMPRESS.
//!
//! Invariant: as in `statement`, a plain left-to-right walk. A value of VALUES that is a literal or a parameter is read
//! here, so a statement with many rows costs no more than their tokens; other expressions and queries are parsed in `parse`.

use crate::cursor::Cursor;
use crate::error::{Error, Hint, Result};
use crate::lex::{self, TokenKind};
use crate::limits;
use crate::mistake;
use crate::parse_query::{expression, query};
use crate::syntax::{
    Insert, InsertSource, Item, Name, NodeId, NodeKind, Nodes, OperandKind, Select, StatementKind,
    Update,
};

const COLUMNS: &str = "name the columns: (file, content) or (file, offset, content)";

/// Reads what follows INSERT or REPLACE.
pub(crate) fn insert(cursor: &mut Cursor<'_>, replace: bool) -> Result<StatementKind> {
    if cursor.peek_word("OR") {
        let hint = "`REPLACE INTO` replaces files, `INSERT INTO` appends to them";
        return Err(cursor.refuse("`INSERT OR`", hint));
    }
    cursor.expect_word("INTO")?;
    let corpus = cursor.name("the name of a corpus")?;
    let columns_at = cursor.byte();
    let selects = |word: Option<&str>| word.is_some_and(|word| word.eq_ignore_ascii_case("SELECT"));
    if !cursor.peek_symbol("(") || selects(cursor.word_at(1)) {
        return Err(cursor.unexpected("`(` and the names of columns", Hint::new(COLUMNS)));
    }
    cursor.advance();
    let mut columns = Vec::new();
    loop {
        columns.push(cursor.name("the name of a column")?);
        if cursor.take(")") {
            break;
        }
        if !cursor.take(",") {
            return Err(cursor.unexpected("`,` or `)`", Hint::NONE));
        }
    }
    let source = source(cursor, columns.len())?;
    if cursor.peek_word("RETURNING") {
        return Err(cursor.refuse("`RETURNING`", "a SELECT after it shows what is there"));
    }
    if cursor.peek_word("ON") {
        let hint = "`REPLACE INTO` replaces files, `INSERT INTO` appends to them";
        return Err(cursor.refuse("`ON CONFLICT`", hint));
    }
    Ok(StatementKind::Insert(Insert {
        replace,
        corpus,
        columns_at,
        columns,
        source,
    }))
}

fn source(cursor: &mut Cursor<'_>, width: usize) -> Result<InsertSource> {
    if cursor.peek_word("SELECT") || cursor.peek_word("WITH") {
        let rest = cursor.index() + cursor.remaining();
        let tokens = cursor.tokens_until(rest);
        if tokens.len() > limits::TOKENS_MAX {
            return Err(Error::TooLarge {
                at: cursor.source.at(cursor.byte()),
                what: "the number of tokens of a query",
                limit: limits::TOKENS_MAX as u64,
                hint: Hint::NONE,
            });
        }
        lex::check_chain(cursor.source, tokens)?;
        return query(cursor).map(InsertSource::Query);
    }
    if cursor.peek_word("DEFAULT") {
        return Err(cursor.refuse("`DEFAULT VALUES`", "every file has content"));
    }
    if !cursor.take_word("VALUES") {
        let hint = cursor.misspelt("VALUES");
        return Err(cursor.unexpected("`VALUES` or `SELECT`", hint));
    }
    let (mut values, mut nodes) = (Vec::new(), Nodes::default());
    loop {
        row(cursor, width, &mut values, &mut nodes)?;
        if !cursor.take(",") {
            return Ok(InsertSource::Values { values, nodes });
        }
    }
}

/// Reads one row of VALUES.
fn row(
    cursor: &mut Cursor<'_>,
    width: usize,
    values: &mut Vec<NodeId>,
    nodes: &mut Nodes,
) -> Result<()> {
    let at = cursor.byte();
    cursor.expect("(")?;
    let before = values.len();
    loop {
        values.push(value(cursor, nodes)?);
        if cursor.take(")") {
            break;
        }
        if !cursor.take(",") {
            return Err(mistake::explain(cursor, "`,` or `)`"));
        }
    }
    let found = values.len() - before;
    if found == width {
        return Ok(());
    }
    let (s, columns) = (if found == 1 { "" } else { "s" }, width);
    Err(Error::Conflict {
        at: cursor.source.at(at),
        message: format!("a row of {found} value{s} for {columns} columns"),
        hint: Hint::NONE,
    })
}

fn value(cursor: &mut Cursor<'_>, nodes: &mut Nodes) -> Result<NodeId> {
    let signed = matches!(cursor.symbol_at(0), Some("-" | "+"))
        && cursor.after_next() == Some(&TokenKind::Number);
    let ends = matches!(cursor.symbol_at(1 + usize::from(signed)), Some("," | ")"));
    let at = cursor.byte();
    let plain = match (ends, signed) {
        (false, _) => None,
        (true, true) => Some(cursor.operand("an expression")?.kind),
        (true, false) => {
            let plain = cursor.peek_operand()?;
            if plain.is_some() {
                cursor.advance();
            }
            plain
        }
    };
    if let Some(plain) = plain {
        let kind = match plain {
            OperandKind::Literal(value) => NodeKind::Literal(value),
            OperandKind::Parameter(number) => NodeKind::Parameter(number),
        };
        return Ok(nodes.add(at, kind, &[]));
    }
    let end = end_of_value(cursor);
    let before = *cursor;
    let mut subqueries = Vec::new();
    let value = expression(cursor, end, "`,` or `)`", nodes, &mut subqueries)?;
    if subqueries.is_empty() {
        return Ok(value);
    }
    let hint = "`INSERT INTO ... SELECT` inserts what a query gives";
    Err(before.refuse("a subquery in VALUES", hint))
}

/// The index of the comma, parenthesis or WHERE that ends the value at the cursor.
fn end_of_value(cursor: &Cursor<'_>) -> usize {
    let mut at = *cursor;
    let mut open = 0usize;
    while at.peek().is_some() {
        match at.symbol_at(0) {
            Some("(") => open += 1,
            Some("," | ")") if open == 0 => break,
            _ if open == 0 && at.peek_word("WHERE") => break,
            Some(")") => open -= 1,
            _ => {}
        }
        at.advance();
    }
    at.index()
}

/// Reads what follows UPDATE.
pub(crate) fn update(cursor: &mut Cursor<'_>) -> Result<StatementKind> {
    let at = cursor.byte();
    let corpus = cursor.name("the name of a corpus")?;
    cursor.expect_word("SET")?;
    let (mut nodes, mut rows) = (Nodes::default(), Vec::new());
    let (mut columns, mut items) = (Vec::new(), vec![file_item(&mut nodes, at)]);
    loop {
        columns.push(cursor.name("the name of a column")?);
        cursor.expect("=")?;
        let text = cursor.byte();
        let end = end_of_value(cursor);
        let expected = "`,`, `WHERE` or the end of the statement";
        let root = expression(cursor, end, expected, &mut nodes, &mut rows)?;
        items.push(Item::Expression {
            root,
            alias: None,
            text: text..cursor.end_of_previous(),
        });
        if !cursor.take(",") {
            break;
        }
    }
    let filter = condition(cursor, &mut nodes, &mut rows, "UPDATE")?;
    rows.push(select_of_files(at, items, filter, nodes));
    Ok(StatementKind::Update(Update {
        corpus,
        columns,
        rows,
    }))
}

/// Reads WHERE, if it is there, up to the end of the statement.
fn condition(
    cursor: &mut Cursor<'_>,
    nodes: &mut Nodes,
    selects: &mut Vec<Select>,
    verb: &str,
) -> Result<Option<NodeId>> {
    if cursor.take_word("WHERE") {
        let end = cursor.index() + cursor.remaining();
        let expected = "the end of the statement";
        return expression(cursor, end, expected, nodes, selects).map(Some);
    }
    let Some(word) = cursor.word_at(0) else {
        return Ok(None);
    };
    let clause = word.to_ascii_uppercase();
    if ["ORDER", "LIMIT", "USING", "RETURNING", "FROM"].contains(&clause.as_str()) {
        let hint = "`WHERE file IN (SELECT ...)` names the files";
        return Err(cursor.refuse(format!("`{verb} ... {clause}`"), hint));
    }
    Err(cursor.unexpected("`WHERE` or the end of the statement", Hint::NONE))
}

/// The column `file` as an item of a SELECT.
fn file_item(nodes: &mut Nodes, at: usize) -> Item {
    let name = Name {
        text: "file".to_owned(),
        at,
        quoted: false,
    };
    let kind = NodeKind::Column { table: None, name };
    Item::Expression {
        root: nodes.add(at, kind, &[]),
        alias: None,
        text: at..at,
    }
}

/// A SELECT whose FROM is the files of the statement's corpus.
fn select_of_files(at: usize, items: Vec<Item>, filter: Option<NodeId>, nodes: Nodes) -> Select {
    Select {
        at,
        outer: None,
        columns: Vec::new(),
        distinct: false,
        items,
        from: None,
        filter,
        group_by: Vec::new(),
        having: None,
        order_by: Vec::new(),
        limit: None,
        offset: None,
        nodes,
    }
}

/// Reads what follows DELETE.
pub(crate) fn delete(cursor: &mut Cursor<'_>) -> Result<StatementKind> {
    let at = cursor.byte();
    cursor.expect_word("FROM")?;
    let corpus = cursor.name("the name of a corpus")?;
    let (mut nodes, mut files) = (Nodes::default(), Vec::new());
    let filter = condition(cursor, &mut nodes, &mut files, "DELETE")?;
    let items = vec![file_item(&mut nodes, at)];
    files.push(select_of_files(at, items, filter, nodes));
    Ok(StatementKind::Delete { corpus, files })
}

/// Reads what follows BEGIN.
pub(crate) fn begin(cursor: &mut Cursor<'_>) -> Result<StatementKind> {
    if cursor.peek_word("EXCLUSIVE") || cursor.peek_word("CONCURRENT") {
        let hint = "write `BEGIN`; one transaction writes at a time, and readers do not wait";
        return Err(cursor.refuse("this kind of transaction", hint));
    }
    let _ = cursor.take_word("DEFERRED") || cursor.take_word("IMMEDIATE");
    cursor.take_word("TRANSACTION");
    Ok(StatementKind::Begin)
}

/// Reads what follows COMMIT, END or ROLLBACK.
pub(crate) fn end(cursor: &mut Cursor<'_>, kind: StatementKind) -> Result<StatementKind> {
    cursor.take_word("TRANSACTION");
    if cursor.peek_word("TO") {
        let hint = "`ROLLBACK` takes back the whole transaction";
        return Err(cursor.refuse("`ROLLBACK TO`", hint));
    }
    Ok(kind)
}
