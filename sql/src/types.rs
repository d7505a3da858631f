//! The names of types in CAST and behind `::`.
//!
//! Invariant: each stands for the affinity that SQLite gives it (datatype3.html, section 3.1), but STRING for text. Names whose
//! affinity there is not what they say, such as DATE, are none.

use crate::cursor::Cursor;
use crate::lex::TokenKind;
use crate::query::Affinity;
use crate::value::ValueKind;

/// A type as it was written.
pub(crate) struct NamedType {
    pub(crate) affinity: Affinity,
    /// How many tokens it takes.
    pub(crate) tokens: usize,
}

/// Names of two or three words.
const WORDS: &[(&str, Affinity)] = &[
    ("CHAR VARYING", Affinity::Text),
    ("CHARACTER VARYING", Affinity::Text),
    ("DOUBLE PRECISION", Affinity::Real),
    ("NATIONAL CHARACTER", Affinity::Text),
    ("NATIVE CHARACTER", Affinity::Text),
    ("UNSIGNED BIG INT", Affinity::Integer),
    ("UNSIGNED BIGINT", Affinity::Integer),
    ("UNSIGNED INT", Affinity::Integer),
    ("UNSIGNED INTEGER", Affinity::Integer),
    ("VARYING CHARACTER", Affinity::Text),
];

/// The type that the next tokens name, perhaps with sizes in parentheses, which mean nothing.
pub(crate) fn at(cursor: &Cursor<'_>) -> Option<NamedType> {
    let several = WORDS.iter().find(|(name, _)| {
        let mut words = name.split(' ').enumerate();
        words.all(|(index, word)| cursor.is_word_at(index, word))
    });
    let (affinity, words) = match several {
        Some((name, affinity)) => (*affinity, name.split(' ').count()),
        None => (affinity_of(cursor.word_at(0)?)?, 1),
    };
    Some(NamedType {
        affinity,
        tokens: words + sizes(&cursor.at(cursor.index() + words)),
    })
}

/// How many tokens `(10)` or `(10, 2)` takes, if it is the next.
fn sizes(cursor: &Cursor<'_>) -> usize {
    let is_number = |ahead: usize| {
        let token = cursor.at(cursor.index() + ahead).peek();
        token.is_some_and(|token| token.kind == TokenKind::Number)
    };
    let symbol = |ahead| cursor.symbol_at(ahead);
    match (symbol(0), symbol(2), symbol(4)) {
        (Some("("), Some(")"), _) if is_number(1) => 3,
        (Some("("), Some(","), Some(")")) if is_number(1) && is_number(3) => 5,
        _ => 0,
    }
}

/// Takes the type of a column of files, perhaps with sizes in parentheses, which mean nothing.
pub(crate) fn kind_at(cursor: &mut Cursor<'_>) -> Option<ValueKind> {
    let word = cursor.word_at(0)?.to_ascii_uppercase();
    let other = match word.as_str() {
        "BOOLEAN" | "BOOL" => Some(ValueKind::Boolean),
        "DATE" => Some(ValueKind::Date),
        "TIMESTAMP" | "DATETIME" => Some(ValueKind::Timestamp),
        _ => None,
    };
    let (kind, tokens) = match other {
        Some(kind) => (kind, 1),
        None => {
            let named = at(cursor)?;
            let kind = match named.affinity {
                Affinity::Text => ValueKind::Text,
                Affinity::Integer => ValueKind::Integer,
                Affinity::Real => ValueKind::Real,
                Affinity::None | Affinity::Blob | Affinity::Numeric => return None,
            };
            (kind, named.tokens)
        }
    };
    cursor.seek(cursor.index() + tokens);
    Some(kind)
}

fn affinity_of(name: &str) -> Option<Affinity> {
    Some(match name.to_ascii_uppercase().as_str() {
        "INTEGER" | "INT" | "BIGINT" | "SMALLINT" | "TINYINT" | "MEDIUMINT" | "INT2" | "INT4"
        | "INT8" => Affinity::Integer,
        "REAL" | "DOUBLE" | "FLOAT" | "FLOAT4" | "FLOAT8" => Affinity::Real,
        "TEXT" | "VARCHAR" | "CHAR" | "CHARACTER" | "NCHAR" | "NVARCHAR" | "CLOB" | "BPCHAR"
        | "STRING" => Affinity::Text,
        "BLOB" | "BYTEA" => Affinity::Blob,
        "NUMERIC" | "DECIMAL" | "DEC" | "NUMBER" => Affinity::Numeric,
        _ => return None,
    })
}
