//! Literals that are compared with n-grams, cut into words as the corpus cuts its texts.
//!
//! A literal that is compared with `ngram` means the n-gram that its words make: `'The-of'` and `'the  of'` find the n-gram of
//! these words. `unmatched.rs` finds comparisons that are true of no word or n-gram.
//!
//! Invariant: a literal that some n-gram equals byte for byte stays as it is.

use std::cell::OnceCell;

use zipfdb_sql::query::{
    Block, Comparison, Expression, ExpressionId, NgramsColumn, Query, Relation, Source,
};
use zipfdb_storage::Tokenizer;

use super::word_text::{is_plain_word, is_sequence, words_of};
use crate::Value;
use crate::handles::session::Session;

/// The longest literal that is cut into words: no word of prose is as long.
pub(super) const LITERAL_BYTES_MAX: usize = 1 << 16;

/// Replaces literals that are compared with n-grams by those n-grams.
pub(super) fn settle(session: &Session, queries: &mut [Query]) {
    let blocks = queries.iter_mut().flat_map(|query| &mut query.blocks);
    for block in blocks {
        let Source::Relation(Relation::Ngrams { corpus, n }) = &block.source else {
            continue;
        };
        let tokenizer = OnceCell::new();
        let tokenizer = || {
            // For a missing corpus, opening the scan is the error.
            let asked = || session.corpus(corpus).and_then(|corpus| corpus.settings());
            *tokenizer.get_or_init(|| asked().ok().map(|settings| settings.tokenizer))
        };
        let changes = changes(block, *n as usize, tokenizer); // 1 to 8
        if !changes.is_empty() {
            put_texts(block, changes);
        }
    }
}

/// An operand of an expression that becomes another text.
struct LiteralChange {
    expression: usize,
    operand: Operand,
    text: String,
}

enum Operand {
    Left,
    Right,
    /// An item of the list of IN.
    Item(usize),
}

/// The changes of the literals of a block that are compared with n-grams of `n` words, where the corpus has a tokenizer.
fn changes(
    block: &Block,
    n: usize,
    tokenizer: impl Fn() -> Option<Tokenizer>,
) -> Vec<LiteralChange> {
    let mut changes = Vec::new();
    let mut look_at = |expression: usize, operand, literal: ExpressionId| {
        let Expression::Value(value) = &block.expressions[literal.0 as usize] else {
            return;
        };
        let Value::Text(text) = &**value else {
            return;
        };
        if n == 1 && is_plain_word(text) {
            return;
        }
        let ngram = tokenizer().and_then(|tokenizer| meant_ngram(tokenizer, n, text));
        changes.extend(ngram.map(|text| LiteralChange {
            expression,
            operand,
            text,
        }));
    };
    for (index, expression) in block.expressions.iter().enumerate() {
        match expression {
            Expression::Compare {
                comparison:
                    Comparison::Equal | Comparison::Is | Comparison::NotEqual | Comparison::IsNot,
                left,
                right,
                ..
            } => {
                if is_ngram(block, *left) {
                    look_at(index, Operand::Right, *right);
                } else if is_ngram(block, *right) {
                    look_at(index, Operand::Left, *left);
                }
            }
            Expression::In { operand, list, .. } if is_ngram(block, *operand) => {
                for (item, &literal) in list.iter().enumerate() {
                    look_at(index, Operand::Item(item), literal);
                }
            }
            _ => {}
        }
    }
    changes
}

/// Whether an expression is the n-gram, of a row or as a key of groups.
fn is_ngram(block: &Block, id: ExpressionId) -> bool {
    let column = Expression::Column(NgramsColumn::Ngram as usize);
    let is_column = |id: ExpressionId| block.expressions[id.0 as usize] == column;
    match block.expressions[id.0 as usize] {
        Expression::Key(key) => {
            let aggregation = block.aggregation.as_ref();
            let key = aggregation.and_then(|aggregation| aggregation.keys.get(key));
            key.is_some_and(|key| is_column(key.expression))
        }
        _ => is_column(id),
    }
}

/// The n-gram that a literal means, if it differs from the literal.
fn meant_ngram(tokenizer: Tokenizer, n: usize, literal: &str) -> Option<String> {
    if literal.len() > LITERAL_BYTES_MAX || is_sequence(tokenizer, literal, n) {
        return None;
    }
    let words = words_of(tokenizer, literal);
    (words.len() == n).then(|| words.join(" "))
}

/// Replaces literals of a block by texts.
fn put_texts(block: &mut Block, changes: Vec<LiteralChange>) {
    let moved = changes.len();
    let (mut places, mut texts) = (Vec::new(), Vec::new());
    for change in changes {
        places.push((change.expression, change.operand));
        texts.push(Value::Text(change.text));
    }
    block.put_first(texts);
    for (text, (expression, operand)) in (0..).zip(places) {
        let text = ExpressionId(text);
        match (&mut block.expressions[expression + moved], operand) {
            (Expression::Compare { left, .. }, Operand::Left) => *left = text,
            (Expression::Compare { right, .. }, Operand::Right) => *right = text,
            (Expression::In { list, .. }, Operand::Item(item)) => list[item] = text,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{CorpusSettings, Database, Value};

    fn database(text: &str) -> Database {
        let database = Database::in_memory().unwrap();
        let corpus = database
            .create_corpus("c", CorpusSettings::default())
            .unwrap();
        corpus.append_many(&[("f", text)]).unwrap();
        database
    }

    /// The first value, and the notices.
    fn asked(database: &Database, sql: &str) -> (Value, Vec<String>) {
        let mut rows = database.query(sql, ()).unwrap();
        let notices = rows.notices().iter().map(ToString::to_string).collect();
        (rows.next().unwrap().unwrap()[0].clone(), notices)
    }

    #[test]
    fn literals_find_the_ngrams_that_their_words_make() {
        let database = database("The state, the state-of the \u{660e}\u{6708}");
        for (condition, count) in [
            ("ngram = 'the state'", 1),
            ("ngram = 'the  state'", 1),
            ("ngram = ' the/state. '", 1),
            ("'the-state' = ngram", 1),
            ("ngram = 'THE--STATE' COLLATE NOCASE", 2),
            ("ngram IN ('state/the', 'state the', 'state of')", 2),
            ("ngram IS 'state-of'", 1),
            ("ngram = '\u{660e}\u{6708}'", 1),
            ("NOT ngram <> 'of  the' AND 'of  the' <> 'of the'", 1),
            ("ngram <> 'of  the'", 6),
        ] {
            let sql = format!("SELECT COUNT(*) FROM ngrams('c', 2) WHERE {condition}");
            assert_eq!(
                asked(&database, &sql),
                (Value::Integer(count), vec![]),
                "{condition}"
            );
        }
        let sql = "SELECT ngram FROM ngrams('c', 2) GROUP BY ngram HAVING ngram = 'of--the'";
        assert_eq!(asked(&database, sql), (Value::from("of the"), vec![]));
        // The same literal elsewhere stays.
        let sql = "SELECT 'of--the', ngram = 'of--the' FROM ngrams('c', 2) WHERE ngram = 'of--the'";
        let row = database.query(sql, ()).unwrap().next().unwrap().unwrap();
        assert_eq!(
            row.into_values(),
            [Value::from("of--the"), Value::Integer(1)]
        );
        let sql = "SELECT COUNT(*) FROM ngrams('c', 2) WHERE ngram = ?";
        let sets = [
            vec![Value::from("state--of")],
            vec![Value::from("none here")],
            vec![Value::from("of the")],
        ];
        let rows = database.query_many(sql, &sets).unwrap();
        let counts: Vec<Value> = rows
            .map(|row| row.unwrap().into_values().remove(0))
            .collect();
        assert_eq!(counts, [1, 0, 1].map(Value::Integer));
    }
}
