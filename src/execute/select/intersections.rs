//! Groups that have all of some words, written as files that do: `WHERE word IN ('a', 'b') GROUP BY file HAVING COUNT(DISTINCT
//! word) = 2` becomes a read of `files_with('corpus', 'a', 'b')`, which counts nothing.
//!
//! Invariant: a block is rewritten only where both mean the same: it groups by `file` alone, uses no other aggregate, and has no
//! other condition. The group's file becomes the column, the count the number of words.

use std::sync::Arc;

use zipfdb_sql::query::{
    Aggregate, AggregateFunction, Aggregation, Block, Collation, Comparison, Expression,
    ExpressionId, FilesWithColumn, Query, Relation, Source, WordsColumn,
};

use crate::Value;

/// Rewrites blocks that ask for files with all of some words.
pub(super) fn settle(queries: &mut [Query]) {
    let blocks = queries.iter_mut().flat_map(|query| &mut query.blocks);
    for block in blocks {
        if let Some((corpus, words)) = intersection(block) {
            rewrite(block, corpus, words);
        }
    }
}

/// The corpus and the distinct words of a block that asks for files with all of them.
fn intersection(block: &Block) -> Option<(String, Vec<Vec<u8>>)> {
    let Source::Relation(Relation::Words { corpus }) = &block.source else {
        return None;
    };
    let ([condition], [having], Some(aggregation)) =
        (&block.filter[..], &block.having[..], &block.aggregation)
    else {
        return None;
    };
    let of = |id: ExpressionId| &block.expressions[id.0 as usize];
    let is = |id: ExpressionId, column: WordsColumn| *of(id) == Expression::Column(column as usize);
    let Aggregation { keys, aggregates } = aggregation;
    let [key] = &keys[..] else { return None };
    let is_count = |aggregate: &Aggregate| {
        let counts_words = aggregate.function == AggregateFunction::Count && aggregate.distinct;
        counts_words
            && aggregate.collation == Collation::Binary
            && aggregate.filter.is_none()
            && (aggregate.argument).is_some_and(|argument| is(argument, WordsColumn::Word))
    };
    if !is(key.expression, WordsColumn::File)
        || key.collation != Collation::Binary
        || !aggregates.iter().all(is_count)
    {
        return None;
    }
    let Expression::In {
        operand,
        list,
        negated: false,
        collation: Collation::Binary,
    } = of(*condition)
    else {
        return None;
    };
    let text = |&id: &ExpressionId| match of(id) {
        Expression::Value(value) => match &**value {
            Value::Text(text) => Some(text.as_bytes().to_vec()),
            _ => None,
        },
        _ => None,
    };
    let words: Option<Vec<Vec<u8>>> = list.iter().map(text).collect();
    let mut words = words.filter(|_| is(*operand, WordsColumn::Word))?;
    words.sort_unstable();
    words.dedup();
    let Expression::Compare {
        comparison,
        left,
        right,
        ..
    } = of(*having)
    else {
        return None;
    };
    let is_all = |id: ExpressionId| match of(id) {
        // The number of words in memory.
        Expression::Value(value) => **value == Value::Integer(words.len() as i64),
        _ => false,
    };
    let counts = |id: ExpressionId| matches!(of(id), Expression::Aggregate(_));
    let asks_for_all = match comparison {
        Comparison::Equal | Comparison::Is => {
            counts(*left) && is_all(*right) || is_all(*left) && counts(*right)
        }
        Comparison::GreaterOrEqual => counts(*left) && is_all(*right),
        Comparison::LessOrEqual => is_all(*left) && counts(*right),
        _ => false,
    };
    (asks_for_all && !words.is_empty()).then(|| (corpus.clone(), words))
}

fn rewrite(block: &mut Block, corpus: String, words: Vec<Vec<u8>>) {
    // The number of words in memory.
    let count = Value::Integer(words.len() as i64);
    for expression in &mut block.expressions {
        *expression = match expression {
            Expression::Key(_) => Expression::Column(FilesWithColumn::File as usize),
            Expression::Aggregate(_) => Expression::Value(Arc::new(count.clone())),
            // The rest of the block does not use words.
            Expression::Column(_) => Expression::Value(Arc::new(Value::Null)),
            _ => continue,
        };
    }
    block.source = Source::Relation(Relation::FilesWith { corpus, words });
    block.filter.clear();
    block.aggregation = None;
    block.having.clear();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::Database;

    fn rows(database: &Database, sql: &str) -> Vec<String> {
        let rows = database.query(sql, ()).unwrap();
        rows.map(|row| format!("{:?}", row.unwrap())).collect()
    }

    /// Words 1 to 9, each in the files whose number it divides, in both spellings of its name in some.
    fn numbers() -> Database {
        let database = Database::in_memory().unwrap();
        database.execute_batch("CREATE CORPUS c").unwrap();
        let corpus = database.corpus("c").unwrap();
        let rows = (0..60).map(|file| {
            let letter = if file % 4 == 0 { "W" } else { "w" };
            let words = (1..10).filter(|word| file % word == 0);
            let text: String = words
                .map(|word| format!("{letter}{word} w{word} "))
                .collect();
            (format!("f{file:02}"), text)
        });
        corpus.append_many(&rows.collect::<Vec<_>>()).unwrap();
        database
    }

    #[test]
    fn groups_with_all_words_are_files_with_them() {
        let database = numbers();
        let lists = [
            "'w2'",
            "'w2', 'w3'",
            "'w3', 'w2', 'w3'",
            "'w4', 'w6', 'w9'",
            "'w1', 'W8'",
            "'w5', 'absent'",
            "'w5', 'two words'",
            "'w2', 7",
            "'w2', NULL",
        ];
        for round in 0..2 {
            for list in lists {
                for count in 1..4 {
                    for (outputs, having, order) in [
                        ("file", format!("COUNT(DISTINCT word) = {count}"), ""),
                        (
                            "file, COUNT(DISTINCT word) + 1 AS n",
                            format!("{count} = COUNT(DISTINCT word)"),
                            "ORDER BY file DESC LIMIT 5",
                        ),
                        (
                            "upper(file)",
                            format!("COUNT(DISTINCT word) >= {count}"),
                            "ORDER BY COUNT(DISTINCT word), file",
                        ),
                    ] {
                        let of = |having: &str| {
                            format!(
                                "SELECT {outputs} FROM c WHERE word IN ({list}) GROUP BY file HAVING {having} {order}"
                            )
                        };
                        // Two conditions are not rewritten.
                        let expected = rows(&database, &of(&format!("{having} AND COUNT(*) > 0")));
                        let mut found = rows(&database, &of(&having));
                        let mut expected = expected;
                        if order.is_empty() {
                            found.sort_unstable();
                            expected.sort_unstable();
                        }
                        assert_eq!(found, expected, "{} {round}", of(&having));
                    }
                }
            }
            let statement = "INSERT INTO c (file, offset, content) VALUES ('f07', 0, 'w2 w3 '), ('f12', 1, 'x')";
            database.execute_batch(statement).unwrap();
        }
    }

    #[test]
    fn what_means_something_else_is_not_rewritten() {
        let database = numbers();
        let is_rewritten = |sql: &str| {
            let plan = rows(&database, &format!("EXPLAIN {sql}")).concat();
            plan.contains("files with")
        };
        let of = |list: &str, keys: &str, having: &str| {
            format!(
                "SELECT COUNT(*) FROM (SELECT file FROM c WHERE {list} GROUP BY {keys} HAVING {having})"
            )
        };
        let all = "COUNT(DISTINCT word) = 2";
        assert!(is_rewritten(&of("word IN ('a', 'b')", "file", all)));
        for (list, keys, having) in [
            ("word IN ('a', 'b')", "file", "COUNT(DISTINCT word) = 1"),
            ("word IN ('a', 'b')", "file", "COUNT(DISTINCT word) = 3"),
            ("word IN ('a', 'b')", "file", "COUNT(DISTINCT word) <= 2"),
            ("word IN ('a', 'b')", "file", "COUNT(word) = 2"),
            ("word IN ('a', 'b')", "file", "COUNT(DISTINCT offset) = 2"),
            (
                "word IN ('a', 'b')",
                "file",
                "COUNT(DISTINCT word) = 2 AND COUNT(*) > 2",
            ),
            ("word IN ('a', 'b')", "file, word", all),
            ("word IN ('a', 'b') AND offset > 3", "file", all),
            ("word NOT IN ('a', 'b')", "file", all),
            ("word COLLATE NOCASE IN ('a', 'b')", "file", all),
            ("word IN ('a', 'b' || 'c')", "file", all),
            ("file IN ('a', 'b')", "file", all),
        ] {
            assert!(
                !is_rewritten(&of(list, keys, having)),
                "{list} {keys} {having}"
            );
        }
    }
}
