//! Errors for tokens that sqlparser rejects: the foreign syntax, or the expected one.
//!
//! Invariant: only read when a query is wrong already; every error names the token at its place. It examines the tokens
//! nearby and knows nothing of the tree.

use crate::cursor::{Cursor, is_one_of, is_reserved};
use crate::error::{Error, Hint};
use crate::lex::TokenKind;

pub(crate) const NUMBER: &str = "a number or a parameter";
pub(crate) const COLLATION: &str = "`BINARY` or `NOCASE`";
pub(crate) const TYPE: &str = "a type";
pub(crate) const TYPES: &str = "types are INTEGER, REAL, TEXT, BLOB and NUMERIC";
/// What to write instead of types whose values are texts here.
const FOREIGN_TYPES: &[(&str, &str)] = &[
    ("BOOL", "`x IS TRUE` gives 1 or 0"),
    ("BOOLEAN", "`x IS TRUE` gives 1 or 0"),
    ("DATE", "`date(x)` gives the date of a text"),
    (
        "DATETIME",
        "`datetime(x)` gives the date and time of a text",
    ),
    ("TIME", "`time(x)` gives the time of a text"),
    (
        "TIMESTAMP",
        "`datetime(x)` gives the date and time of a text",
    ),
];
pub(crate) const LONE_STAR: &str = "`*` stands alone, or in COUNT(*)";
pub(crate) const VALUE: &str = "a text, a number or a parameter";
pub(crate) const LIST: &str = "`,` or `)`";
const EXPRESSION: &str = "an expression";
const NAME: &str = "a name";
const AND: &str = "`AND` of BETWEEN";
pub(crate) const ALIAS: &str = "an alias";
/// What is refused, and what to write instead.
pub(crate) const ALIAS_WITH_COLUMNS: (&str, &str) = (
    "an alias with columns",
    "name columns in the subquery's list",
);
pub(crate) const ONE_SOURCE: &str = "this dialect has one source: a corpus, a table function, a view or a subquery; zipf-full has joins";
/// What to write instead of set operations.
const ONE_SET: &str = "this dialect has one source; `x IN (SELECT ...)` and `x NOT IN (SELECT ...)` compare with another, and zipf-full \
                       has set operations";
/// What to write instead of windows.
const NO_WINDOW: &str = "this dialect has one source and no windows; GROUP BY gives one row for each group, and zipf-full has windows";

/// Clauses and joins of other databases, each with what to write instead.
const FOREIGN_CLAUSES: &[(&str, &str)] = &[
    ("CROSS", ONE_SOURCE),
    ("EXCEPT", ONE_SET),
    ("FETCH", "`LIMIT n` keeps the first n rows"),
    ("FOR", ""),
    ("FULL", ONE_SOURCE),
    ("INNER", ONE_SOURCE),
    ("INTERSECT", ONE_SET),
    (
        "INTO",
        "`COPY (SELECT ...) TO 'file.csv'` writes rows to a file",
    ),
    ("JOIN", ONE_SOURCE),
    ("LEFT", ONE_SOURCE),
    ("NATURAL", ONE_SOURCE),
    ("OVER", NO_WINDOW),
    ("QUALIFY", ""),
    ("RIGHT", ONE_SOURCE),
    ("TABLESAMPLE", ""),
    ("WINDOW", NO_WINDOW),
    ("WITHIN", ""),
];

/// Operators that other databases have.
const FOREIGN_OPERATORS: &str = "AT DIV ILIKE MATCH MEMBER OVERLAPS RLIKE SIMILAR XOR";

/// The error for what sqlparser expected at the cursor, in its words.
pub(crate) fn explain_expected(at: &Cursor<'_>, expected: &str) -> Error {
    let expected = match expected {
        "end of statement" => "the end of the statement".to_owned(),
        "an identifier after AS" => ALIAS.to_owned(),
        "identifier" => NAME.to_owned(),
        "SELECT, VALUES, or a subquery in the query body" => "`SELECT`".to_owned(),
        "a data type name" => TYPE.to_owned(),
        "AND" => AND.to_owned(),
        "END" if !is_behind_else(at) => "`WHEN`, `ELSE` or `END`".to_owned(),
        ")" if is_in_list(at) => LIST.to_owned(),
        expected if expected.chars().any(char::is_lowercase) => expected.to_owned(),
        expected => format!("`{expected}`"),
    };
    explain(at, &expected)
}

/// The error at the cursor, where something else was expected.
pub(crate) fn explain(at: &Cursor<'_>, expected: &str) -> Error {
    foreign_query(at)
        .or_else(|| foreign_operator(at, expected))
        .or_else(|| foreign_clause(at, expected))
        .or_else(|| misplaced(at, expected))
        .unwrap_or_else(|| at.unexpected_in_query(expected))
}

/// A subquery where none can stand.
fn foreign_query(at: &Cursor<'_>) -> Option<Error> {
    let opens = at.back(1).filter(|before| before.peek_symbol("("))?;
    if !at.peek_word("SELECT") {
        return None;
    }
    match (opens.previous_word(), opens.back(1)) {
        (Some(word), Some(before)) if is_one_of("LATERAL", word) => {
            Some(before.refuse("`LATERAL`", ""))
        }
        (Some(word), _) if !is_reserved(word) => {
            let hint =
                "an argument that is a subquery needs parentheses of its own: `f((SELECT ...))`";
            Some(at.refuse("a subquery without parentheses", hint))
        }
        _ => None,
    }
}

/// An operator or a literal of other databases.
fn foreign_operator(at: &Cursor<'_>, expected: &str) -> Option<Error> {
    if expected == EXPRESSION {
        return at.peek_symbol("~").then(|| at.refuse("`~`", ""));
    }
    if [NAME, ALIAS].contains(&expected) {
        return None;
    }
    if let Some(symbol @ ("&" | "|" | "<<" | ">>" | "~")) = at.symbol_at(0) {
        return Some(at.refuse(format!("`{symbol}`"), ""));
    }
    let after_not = at.at(at.index() + 1);
    if at.peek_word("NOT") && is_foreign_operator(&after_not) {
        return Some(refuse_operator(&after_not));
    }
    if is_foreign_operator(at) {
        return Some(refuse_operator(at));
    }
    // A word before may have been taken for a name or an alias.
    let before = at.back(1)?;
    let word = before.word_at(0)?;
    match at.peek().map(|token| &token.kind) {
        Some(TokenKind::Number) if is_one_of("TOP", word) => {
            return Some(before.refuse("`TOP`", "`LIMIT n` keeps the first n rows"));
        }
        Some(TokenKind::Text(_)) if is_one_of("TIME INTERVAL", word) => {
            let what = format!("`{} '...'`", word.to_ascii_uppercase());
            return Some(before.refuse(what, ""));
        }
        _ => {}
    }
    is_foreign_operator(&before).then(|| refuse_operator(&before))
}

/// Such words could be aliases. They are not if an operand follows.
fn is_foreign_operator(at: &Cursor<'_>) -> bool {
    let follows = at
        .word_at(1)
        .is_some_and(|next| !is_reserved(next) || is_one_of("TO", next))
        || matches!(
            at.after_next(),
            Some(TokenKind::Text(_) | TokenKind::Number | TokenKind::Parameter(_))
        );
    follows
        && at
            .word_at(0)
            .is_some_and(|word| is_one_of(FOREIGN_OPERATORS, word))
}

fn refuse_operator(at: &Cursor<'_>) -> Error {
    let word = at.word_at(0).unwrap_or_default().to_ascii_uppercase();
    let hint = match word.as_str() {
        "ILIKE" => "`LIKE` ignores the case of ASCII letters",
        "RLIKE" | "SIMILAR" => "`REGEXP` matches regular expressions",
        "DIV" => "`/` of integers is an integer",
        _ => "",
    };
    at.refuse(format!("`{word}`"), hint)
}

fn foreign_clause(at: &Cursor<'_>, expected: &str) -> Option<Error> {
    let word = at.word_at(0)?;
    if at.peek_word("ON")
        && at
            .previous_word()
            .is_some_and(|word| is_one_of("DISTINCT", word))
    {
        let hint = "GROUP BY gives one row for each group";
        return Some(at.refuse("`DISTINCT ON`", hint));
    }
    if [EXPRESSION, NAME, ALIAS, LIST].contains(&expected) {
        return None;
    }
    let (clause, hint) = FOREIGN_CLAUSES
        .iter()
        .find(|(clause, _)| is_one_of(clause, word))?;
    Some(at.refuse(format!("`{clause}`"), hint))
}

/// A token that is wrong for what stands right before it.
fn misplaced(at: &Cursor<'_>, expected: &str) -> Option<Error> {
    let mut at = *at;
    if expected == ALIAS {
        return at.name(expected).err();
    }
    if expected == TYPE {
        let word = at.word_at(0).unwrap_or_default();
        let foreign = FOREIGN_TYPES.iter().find(|(name, _)| is_one_of(name, word));
        return Some(match foreign {
            Some((name, hint)) => at.refuse(format!("the type {name}"), hint),
            None => at.unexpected(TYPE, Hint::new(TYPES)),
        });
    }
    let next = at.word_at(0).unwrap_or_default();
    let mut behind = at.at(at.index() + 1);
    if ![EXPRESSION, NAME].contains(&expected) {
        if is_one_of("GROUP ORDER", next) {
            return behind.expect_word("BY").err();
        }
        if is_one_of("NULLS", next) {
            return Some(behind.unexpected("`FIRST` or `LAST`", Hint::NONE));
        }
        if is_one_of("FILTER", next) && behind.take("(") {
            return behind.expect_word("WHERE").err();
        }
        if is_one_of("ESCAPE", next) {
            let hint = Hint::new("only LIKE has ESCAPE");
            return Some(at.unexpected("an operator", hint));
        }
        if at.peek_symbol(".") {
            return behind.name("the name of a column").err();
        }
    }
    if is_one_of("LIMIT", next) && behind.peek_word("ALL") {
        return behind.operand(NUMBER).err();
    }
    if expected == AND && (is_one_of("BETWEEN", next) || behind.peek_word("BETWEEN")) {
        let hint = Hint::new("a BETWEEN in the lower bound of another needs parentheses");
        return Some(at.unexpected(AND, hint));
    }
    if at.peek_symbol("(") && behind.peek_symbol("*") {
        return Some(behind.unexpected(EXPRESSION, Hint::new(LONE_STAR)));
    }
    if at.peek_symbol("*") && expected == EXPRESSION {
        return Some(at.unexpected(EXPRESSION, Hint::new(LONE_STAR)));
    }
    if at.peek_symbol(",") && expected == "`)`" {
        let hint = "lists stand only behind IN";
        return Some(at.refuse("a list in parentheses", hint));
    }
    let before = at.back(1)?;
    if before.peek_symbol("(") && expected == NAME {
        return Some(before.refuse(ALIAS_WITH_COLUMNS.0, ALIAS_WITH_COLUMNS.1));
    }
    if expected == EXPRESSION && is_in_table_function(&at) {
        return at.operand(VALUE).err();
    }
    if before.peek_symbol(".") {
        return at.name("the name of a column").err();
    }
    let word = before.word_at(0)?;
    if is_one_of("FROM", word) && expected == NAME {
        at.name("the name of a corpus or a table function").err()
    } else if is_one_of("LIMIT OFFSET", word) && expected == EXPRESSION {
        at.operand(NUMBER).err()
    } else if is_one_of("COLLATE", word) {
        Some(at.unexpected(COLLATION, Hint::NONE))
    } else if is_one_of("IN", word) {
        let hint = Hint::new("write the values in parentheses: IN ('a', 'b')");
        Some(at.unexpected("`(`", hint))
    } else {
        None
    }
}

/// Whether ELSE is nearer before the cursor than CASE.
fn is_behind_else(at: &Cursor<'_>) -> bool {
    let words = (1..=at.index()).filter_map(|count| at.back(count)?.word_at(0));
    let nearest = words.into_iter().find(|word| is_one_of("CASE ELSE", word));
    nearest.is_some_and(|word| is_one_of("ELSE", word))
}

/// The innermost open parenthesis before the cursor.
fn opening<'a>(at: &Cursor<'a>) -> Option<Cursor<'a>> {
    let mut closed = 0usize;
    let mut before = *at;
    loop {
        before = before.back(1)?;
        match before.symbol_at(0) {
            Some(")") => closed += 1,
            Some("(") if closed > 0 => closed -= 1,
            Some("(") => return Some(before),
            _ => {}
        }
    }
}

/// Whether that is the parenthesis of a call or of IN.
fn is_in_list(at: &Cursor<'_>) -> bool {
    let word = opening(at).and_then(|opening| opening.previous_word());
    word.is_some_and(|word| {
        is_one_of("IN", word) || !is_reserved(word) && !is_one_of("CAST FILTER", word)
    })
}

/// Whether that is the parenthesis of a table function.
fn is_in_table_function(at: &Cursor<'_>) -> bool {
    let function = opening(at).and_then(|opening| opening.back(1));
    function.is_some_and(|function| {
        function.peek_name().is_some()
            && function
                .previous_word()
                .is_some_and(|word| is_one_of("FROM", word))
    })
}
