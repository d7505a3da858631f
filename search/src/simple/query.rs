//! `FileQuery`: what a query in the simple language means, as plain data.

use crate::algebra::{Pattern, Span, TextTest, WordTest};

/// A set of files, with what their scores are made of.
#[derive(Debug, Clone, PartialEq)]
pub enum FileQuery {
    /// Every file.
    All,
    /// No file.
    None,
    /// Files with a word that passes.
    Word(TextTest),
    /// Files in which words that pass follow one another.
    Phrase {
        /// At least two.
        words: Vec<TextTest>,
        /// How far the words may be moved in all, as [`Span::Slop`] has it; 0: not at all.
        slop: u32,
    },
    /// Files in which phrases stand near each other, in any order, as [`Span::Near`] has it.
    Near {
        /// At least two, each of at least one word.
        phrases: Vec<Vec<TextTest>>,
        /// Words between the phrases, in all.
        distance: u32,
    },
    /// Files with a value of a column that matches. Such a condition gives no score.
    Field {
        /// The name of the column.
        name: String,
        /// What the whole value must be.
        pattern: Pattern,
    },
    /// Files that are in all sets; at least two. A [`FileQuery::Not`] among them excludes files.
    And(Vec<FileQuery>),
    /// Files that are in at least `minimum` of the sets.
    Or {
        /// At least one. Each adds to the score of its files.
        queries: Vec<FileQuery>,
        /// 0: every file, so that the sets only add to scores.
        minimum: u32,
    },
    /// Files that are not in the set; they get no score from it.
    Not(Box<FileQuery>),
    /// The same files, their scores multiplied.
    Boost {
        /// The files.
        query: Box<FileQuery>,
        /// Finite and not negative.
        factor: f32,
    },
}

impl FileQuery {
    /// The spans that make a file match, of a word, phrase or `NEAR`; none of any other query.
    pub fn span(&self) -> Option<Span> {
        let word = |test: &TextTest| WordTest::Text(test.clone());
        match self {
            FileQuery::Word(test) => Some(Span::Word(word(test))),
            FileQuery::Phrase { words, slop: 0 } => Some(sequence(words)),
            FileQuery::Phrase { words, slop } => Some(Span::Slop {
                words: words.iter().map(word).collect(),
                slop: *slop,
            }),
            FileQuery::Near { phrases, distance } => Some(Span::Near {
                parts: phrases.iter().map(|phrase| sequence(phrase)).collect(),
                distance: *distance,
                is_ordered: false,
            }),
            _ => None,
        }
    }
}

/// Words one after the other.
fn sequence(words: &[TextTest]) -> Span {
    let mut spans: Vec<Span> = words
        .iter()
        .map(|test| Span::Word(WordTest::Text(test.clone())))
        .collect();
    if spans.len() == 1 {
        spans.remove(0)
    } else {
        Span::Sequence(spans)
    }
}
