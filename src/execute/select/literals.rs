//! Literals that are compared with words and n-grams, cut into words as the corpus cuts its texts.
//!
//! A literal that is compared with `ngram` means the n-gram that its words make: `'The-of'` and `'the  of'` find what stands
//! there. One that no word or n-gram can equal is told, and what to ask instead.
//!
//! Invariant: a literal that some n-gram equals byte for byte stays as it is.

use std::cell::OnceCell;

use zipfdb_sql::query::{
    Block, Comparison, Expression, ExpressionId, NgramsColumn, Query, Relation, Source, WordsColumn,
};
use zipfdb_storage::Tokenizer;

use crate::Value;
use crate::api::session::Session;
use crate::notice::Notice;
use crate::tokenize::{Sink, has_glued_space, tokenize};

/// Most notices of a statement: a list of IN may have many literals.
const NOTICES_MAX: usize = 5;

/// Most words of an n-gram.
const NGRAM_WORDS_MAX: usize = 8;

/// Longest literal that is taken for a word by its letters.
const PLAIN_WORD_BYTES_MAX: usize = 64;

/// Longest literal that is cut into words: no word of prose is as long.
const LITERAL_BYTES_MAX: usize = 1 << 16;

/// Makes literals that are compared with n-grams those n-grams, and says which literals can equal nothing.
pub(super) fn settle(session: &Session, queries: &mut [Query]) -> Vec<Notice> {
    let mut notices = Vec::new();
    let blocks = queries.iter_mut().flat_map(|query| &mut query.blocks);
    for block in blocks {
        let (corpus, column, n) = match &block.source {
            Source::Relation(Relation::Words { corpus }) => {
                (corpus, WordsColumn::Word as usize, None)
            }
            Source::Relation(Relation::Ngrams { corpus, n }) => {
                (corpus, NgramsColumn::Ngram as usize, Some(*n as usize)) // 1 to 8
            }
            _ => continue,
        };
        let compared = Compared { corpus, column, n };
        let tokenizer = OnceCell::new();
        let tokenizer = || {
            // If there is no such corpus, who opens the scan says so.
            let asked = || session.corpus(corpus).and_then(|corpus| corpus.settings());
            *tokenizer.get_or_init(|| asked().ok().map(|settings| settings.tokenizer))
        };
        let changes = compared.changes(block, tokenizer, &mut notices);
        if !changes.is_empty() {
            put_texts(block, changes);
        }
    }
    notices
}

/// A column of words or n-grams that literals may be compared with.
struct Compared<'a> {
    corpus: &'a str,
    column: usize,
    /// Words of an n-gram; none for the column `word`.
    n: Option<usize>,
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
    /// Of the list of IN.
    Item(usize),
}

/// What a literal means.
enum Meaning {
    /// Itself.
    Same,
    /// This n-gram.
    Ngram(String),
    /// Nothing that is there.
    Nothing(Notice),
}

impl Compared<'_> {
    /// What literals of a block become, where the corpus has a tokenizer.
    fn changes(
        &self,
        block: &Block,
        tokenizer: impl Fn() -> Option<Tokenizer>,
        notices: &mut Vec<Notice>,
    ) -> Vec<LiteralChange> {
        let mut changes = Vec::new();
        let mut look_at = |expression: usize, operand, literal: ExpressionId, is_equal: bool| {
            let Expression::Value(value) = &block.expressions[literal.0 as usize] else {
                return;
            };
            let Value::Text(text) = &**value else {
                return;
            };
            if self.n.unwrap_or(1) == 1 && is_plain_word(text) {
                return;
            }
            let Some(tokenizer) = tokenizer() else {
                return;
            };
            match self.meaning(tokenizer, text) {
                Meaning::Same => {}
                Meaning::Ngram(text) => changes.push(LiteralChange {
                    expression,
                    operand,
                    text,
                }),
                Meaning::Nothing(notice) => {
                    let is_new = is_equal && !notices.contains(&notice);
                    if is_new && notices.len() < NOTICES_MAX {
                        notices.push(notice);
                    }
                }
            }
        };
        for (index, expression) in block.expressions.iter().enumerate() {
            match expression {
                Expression::Compare {
                    comparison,
                    left,
                    right,
                    ..
                } => {
                    let is_equal = match comparison {
                        Comparison::Equal | Comparison::Is => true,
                        Comparison::NotEqual | Comparison::IsNot => false,
                        _ => continue,
                    };
                    if self.is_column(block, *left) {
                        look_at(index, Operand::Right, *right, is_equal);
                    } else if self.is_column(block, *right) {
                        look_at(index, Operand::Left, *left, is_equal);
                    }
                }
                Expression::In {
                    operand,
                    list,
                    negated,
                    ..
                } if self.is_column(block, *operand) => {
                    for (item, &literal) in list.iter().enumerate() {
                        look_at(index, Operand::Item(item), literal, !negated);
                    }
                }
                _ => {}
            }
        }
        changes
    }

    /// Whether an expression is the column, of a row or as what rows are grouped by.
    fn is_column(&self, block: &Block, id: ExpressionId) -> bool {
        let column = Expression::Column(self.column);
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

    fn meaning(&self, tokenizer: Tokenizer, literal: &str) -> Meaning {
        if literal.len() > LITERAL_BYTES_MAX {
            return Meaning::Same;
        }
        let n = self.n.unwrap_or(1);
        if is_sequence(tokenizer, literal, n) {
            return Meaning::Same;
        }
        let words = words_of(tokenizer, literal);
        if words.len() == n && self.n.is_some() {
            return Meaning::Ngram(words.join(" "));
        }
        Meaning::Nothing(self.nothing(tokenizer, literal, &words))
    }

    /// What is said of a literal that nothing equals.
    fn nothing(&self, tokenizer: Tokenizer, literal: &str, words: &[&str]) -> Notice {
        let what = match self.n {
            None => "`word`".to_owned(),
            Some(1) => "`ngram` of 1 word".to_owned(),
            Some(n) => format!("`ngram` of {n} words"),
        };
        let tokenizer = tokenizer.name();
        let counted = match words.len() {
            0 => "no word".to_owned(),
            1 => "1 word".to_owned(),
            count => format!("{count} words"),
        };
        let text = format!(
            "no {what} equals {}, in which the tokenizer `{tokenizer}` finds {counted}",
            written(literal)
        );
        let ngram = written(&words.join(" "));
        let hint = match (self.n, words.len()) {
            (None, 1) => Some(format!("word = {ngram} is asked for like this")),
            (_, count @ 1..=NGRAM_WORDS_MAX) => Some(format!(
                "FROM ngrams({}, {count}) WHERE ngram = {ngram} finds these words",
                written(self.corpus)
            )),
            _ => None,
        };
        Notice::new(text, hint)
    }
}

/// Puts texts where literals of a block are.
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

/// Whether a text is one word for every tokenizer.
fn is_plain_word(text: &str) -> bool {
    (1..=PLAIN_WORD_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Whether a text is some words with one space between each and the next.
fn is_sequence(tokenizer: Tokenizer, text: &str, words: usize) -> bool {
    if words == 1 {
        return words_of(tokenizer, text) == [text];
    }
    // A word may begin with a space, if a mark follows that is written onto it.
    text.match_indices(' ').any(|(at, _)| {
        words_of(tokenizer, &text[..at]) == [&text[..at]]
            && is_sequence(tokenizer, &text[at + 1..], words - 1)
    })
}

fn words_of(tokenizer: Tokenizer, text: &str) -> Vec<&str> {
    let mut found = FoundWords {
        tokenizer,
        ranges: Vec::new(),
    };
    tokenize(tokenizer, text.as_bytes(), &mut found);
    // Words of a text that is UTF-8 are UTF-8.
    let words = found
        .ranges
        .into_iter()
        .filter_map(|(start, end)| text.get(start..end));
    words.collect()
}

/// A text as SQL writes it, shortened.
fn written(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    format!("'{}'", shown.replace('\'', "''"))
}

/// Where words are, without the space that was glued to them.
struct FoundWords {
    tokenizer: Tokenizer,
    ranges: Vec<(usize, usize)>,
}

impl Sink for FoundWords {
    fn word(&mut self, text: &[u8], start: usize, end: usize) {
        let glued = has_glued_space(self.tokenizer, &text[start..end]);
        self.ranges.push((start + usize::from(glued), end));
    }

    fn gap(&mut self, _text: &[u8], _start: usize, _end: usize) {}
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::{CorpusSettings, Database};

    fn compared(n: Option<usize>) -> Compared<'static> {
        Compared {
            corpus: "c",
            column: 0,
            n,
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        let characters = prop::sample::select(vec![
            'a',
            'b',
            'Z',
            '0',
            '7',
            ' ',
            ' ',
            ' ',
            '-',
            '\'',
            '.',
            ',',
            ':',
            '_',
            '\n',
            '\t',
            '@',
            '\u{e9}',
            '\u{93e}',
            '\u{308}',
            '\u{200d}',
            '\u{feff}',
            '\u{660e}',
            '\u{6708}',
            '\u{30a2}',
            '\u{5d0}',
            '"',
            '\u{1f1e6}',
            '\u{1f600}',
            '\u{2024}',
            '\u{a0}',
            '\u{ad}',
        ]);
        prop::collection::vec(characters, 0..24).prop_map(String::from_iter)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]

        #[test]
        fn words_and_ngrams_of_a_text_mean_themselves(text in any_text()) {
            for tokenizer in [Tokenizer::Unicode, Tokenizer::Alnum, Tokenizer::Whitespace] {
                let of_word = compared(None);
                let words = words_of(tokenizer, &text);
                for word in &words {
                    let meaning = of_word.meaning(tokenizer, word);
                    prop_assert!(matches!(meaning, Meaning::Same), "{:?} of {:?}", word, text);
                }
                for n in 1..=3 {
                    let of_ngram = compared(Some(n));
                    for ngram in words.windows(n) {
                        let ngram = ngram.join(" ");
                        let meaning = of_ngram.meaning(tokenizer, &ngram);
                        prop_assert!(matches!(meaning, Meaning::Same), "{:?} of {:?}", ngram, text);
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn plain_words_are_words_for_every_tokenizer(text in "[A-Za-z]{1,80}") {
            for tokenizer in [Tokenizer::Unicode, Tokenizer::Alnum, Tokenizer::Whitespace] {
                prop_assert!(!is_plain_word(&text) || words_of(tokenizer, &text) == [&text]);
            }
        }
    }

    fn database(text: &str) -> Database {
        let database = Database::in_memory().unwrap();
        let corpus = database
            .create_corpus("c", CorpusSettings::default())
            .unwrap();
        corpus.append_many(&[("f", text)]).unwrap();
        database
    }

    /// The first value, and what is said.
    fn asked(database: &Database, sql: &str) -> (Value, Vec<String>) {
        let mut rows = database.query(sql).unwrap();
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
            ("ngram LIKE 'of  the'", 0),
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
        let row = database.query(sql).unwrap().next().unwrap().unwrap();
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

    #[test]
    fn literals_that_nothing_can_equal_are_told() {
        let database = database("mail user@example.com of the day");
        for (sql, notice) in [
            (
                "FROM c WHERE word = 'the of'",
                "no `word` equals 'the of', in which the tokenizer `unicode` finds 2 words; \
                 hint: FROM ngrams('c', 2) WHERE ngram = 'the of' finds these words",
            ),
            (
                "FROM c WHERE word IN ('mail', 'user@example.com')",
                "no `word` equals 'user@example.com', in which the tokenizer `unicode` finds 2 words; \
                 hint: FROM ngrams('c', 2) WHERE ngram = 'user example.com' finds these words",
            ),
            (
                "FROM c WHERE word = ' mail'",
                "no `word` equals ' mail', in which the tokenizer `unicode` finds 1 word; hint: word = 'mail' is asked for like this",
            ),
            (
                "FROM c WHERE word = '--'",
                "no `word` equals '--', in which the tokenizer `unicode` finds no word",
            ),
            (
                "FROM ngrams('c', 3) WHERE ngram = 'of the'",
                "no `ngram` of 3 words equals 'of the', in which the tokenizer `unicode` finds 2 words; \
                 hint: FROM ngrams('c', 2) WHERE ngram = 'of the' finds these words",
            ),
            (
                "FROM ngrams('c', 2) WHERE ngram = 'a b c d e f g h i'",
                "no `ngram` of 2 words equals 'a b c d e f g h i', in which the tokenizer `unicode` finds 9 words",
            ),
        ] {
            let (_, notices) = asked(&database, &format!("SELECT COUNT(*) {sql}"));
            assert_eq!(notices, [notice], "{sql}");
        }
        for sql in [
            "FROM c WHERE word = 'absent'",
            "FROM c WHERE word <> 'the of'",
            "FROM c WHERE word < 'the of' OR word LIKE 'the of'",
            "FROM c WHERE file = 'the of'",
            "FROM ngrams('c', 2) WHERE ngram = 'user@example.com'",
        ] {
            let (_, notices) = asked(&database, &format!("SELECT COUNT(*) {sql}"));
            assert_eq!(notices, [""; 0], "{sql}");
        }
        let sql = "FROM c WHERE word IN ('a b', 'a c', 'a d', 'a e', 'a f', 'a g', 'a h', 'a b')";
        let (_, notices) = asked(&database, &format!("EXPLAIN SELECT COUNT(*) {sql}"));
        assert_eq!(notices.len(), NOTICES_MAX);
    }

    #[test]
    fn statements_with_a_query_in_them_have_its_notices() {
        let folder = tempfile::tempdir().unwrap();
        let database = database("the end of the day");
        let target = folder.path().join("rows.csv");
        for sql in [
            format!(
                "COPY (SELECT word FROM c WHERE word = 'of the') TO '{}'",
                target.display()
            ),
            "INSERT INTO c (file, content) SELECT file, word FROM c WHERE word = 'of the'".into(),
            "REPLACE INTO c (file, content) SELECT file, word FROM c WHERE word = 'of the'".into(),
            "DELETE FROM c WHERE file IN (SELECT file FROM c WHERE word = 'of the')".into(),
        ] {
            assert_eq!(database.query(&sql).unwrap().notices().len(), 1, "{sql}");
        }
    }
}
