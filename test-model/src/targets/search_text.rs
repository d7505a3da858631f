//! Any text into the simple language for files: a query or an error in the strict mode, always a query in the lenient one.
//!
//! What the strict mode reads the lenient one must read as the same and without a notice, unless the text has a question mark,
//! which is a wildcard in the strict mode alone. Words are those of the tokenizer `unicode`.

use std::ops::Range;

use zipfdb::fuzzing::{Sink, Tokenizer, has_glued_space, tokenize};
use zipfdb_search::simple::{
    FileQuery, LenientQuery, Operator, QueryOptions, Tokenize, parse, parse_lenient,
};

/// One input.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for operator in [Operator::Or, Operator::And] {
        for fields in [None, Some(vec!["file".to_owned()])] {
            let options = QueryOptions {
                operator,
                fields,
                ..QueryOptions::default()
            };
            check(&text, &options);
        }
    }
}

fn check(text: &str, options: &QueryOptions) {
    let strict = parse(text, options, &UnicodeWords);
    let lenient = parse_lenient(text, options, &UnicodeWords);
    for error in lenient.notices.iter().chain(strict.as_ref().err()) {
        assert!(error.place().byte <= text.len());
        assert!(!error.to_string().contains('\n'));
    }
    check_leaves(&lenient.query);
    if text.contains('?') {
        return;
    }
    match strict {
        Ok(query) => {
            let notices = Vec::new();
            assert_eq!(lenient, LenientQuery { query, notices });
        }
        Err(error) => {
            let is_empty = lenient.query == FileQuery::None;
            assert!(is_empty || lenient.notices.first() == Some(&error));
        }
    }
}

/// Every leaf that has words is a span, and every group holds as many queries as it says.
fn check_leaves(query: &FileQuery) {
    let has_span = query.span().is_some();
    match query {
        FileQuery::Word(_) => assert!(has_span),
        FileQuery::Phrase { words, .. } => assert!(has_span && words.len() > 1),
        FileQuery::Near { phrases, .. } => {
            assert!(has_span && phrases.len() > 1);
            assert!(phrases.iter().all(|phrase| !phrase.is_empty()));
        }
        FileQuery::And(queries) => {
            assert!(queries.len() > 1);
            queries.iter().for_each(check_leaves);
        }
        FileQuery::Or { queries, minimum } => {
            assert!(!queries.is_empty());
            assert!(usize::try_from(*minimum).is_ok_and(|minimum| minimum <= queries.len()));
            queries.iter().for_each(check_leaves);
        }
        FileQuery::Not(query) => check_leaves(query),
        FileQuery::Boost { query, factor } => {
            assert!(factor.is_finite() && *factor >= 0.0);
            check_leaves(query);
        }
        FileQuery::All | FileQuery::None | FileQuery::Field { .. } => assert!(!has_span),
    }
}

struct UnicodeWords;

impl Tokenize for UnicodeWords {
    fn words(&self, text: &str) -> Vec<Range<usize>> {
        let mut words = Words::default();
        tokenize(Tokenizer::Unicode, text.as_bytes(), &mut words);
        words.0
    }
}

#[derive(Default)]
struct Words(Vec<Range<usize>>);

impl Sink for Words {
    fn word(&mut self, text: &[u8], start: usize, end: usize) {
        let has_space = has_glued_space(Tokenizer::Unicode, &text[start..end]);
        self.0.push(start + usize::from(has_space)..end);
    }

    fn gap(&mut self, _text: &[u8], _start: usize, _end: usize) {}
}
