//! Any text into the SQL front end: a plan or an error with a place inside the text, never a panic or a hang.
//!
//! The stream of statements must not depend on how the text is fed to it, and what parsed must parse again from its
//! own text. Plans are not executed.

use zipfdb_sql::{Error, Schema, StatementStream, Value, bind, parse, parse_statement};

/// Names that the dictionary of the fuzzer and its seeds use.
struct TwoCorpora;

impl Schema for TwoCorpora {
    fn corpora(&self) -> Vec<String> {
        vec!["c".to_owned(), "reviews".to_owned()]
    }

    fn section_columns(&self) -> Vec<String> {
        vec!["dictionary".to_owned(), "rules".to_owned()]
    }
}

/// One input.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    check_split(&text);
    match parse(&text) {
        Ok(statements) => {
            for statement in statements {
                let again = parse(statement.text()).expect("a statement parses from its own text");
                assert_eq!(again.len(), 1);
                let parameters = vec![Value::Integer(1).into(); statement.parameter_count()];
                if let Err(error) = bind(&statement, &TwoCorpora, &parameters) {
                    check_error(&error, &text);
                }
            }
        }
        Err(error) => check_error(&error, &text),
    }
}

/// Fed at once or a character at a time, the same statements come out at the same places.
fn check_split(text: &str) {
    let mut whole = StatementStream::new();
    whole.feed(text);
    let mut pieces = StatementStream::new();
    let mut encoded = [0; 4];
    for character in text.chars() {
        pieces.feed(character.encode_utf8(&mut encoded));
        while let Some(statement) = pieces.next_statement() {
            let expected = whole
                .next_statement()
                .expect("both streams have as many statements");
            compare(expected, statement);
        }
    }
    assert!(whole.next_statement().is_none());
    match (whole.finish(), pieces.finish()) {
        (None, None) => {}
        (Some(expected), Some(statement)) => compare(expected, statement),
        _ => panic!("both streams end with a statement, or neither"),
    }
    assert_eq!(whole.position(), pieces.position());
}

type Split = zipfdb_sql::Result<zipfdb_sql::StatementText>;

fn compare(expected: Split, found: Split) {
    match (expected, found) {
        (Ok(expected), Ok(found)) => {
            assert_eq!(expected.text, found.text);
            assert_eq!(expected.start, found.start);
            let _ = parse_statement(found);
        }
        (Err(expected), Err(found)) => assert_eq!(expected.to_string(), found.to_string()),
        _ => panic!("one stream gave a statement where the other gave an error"),
    }
}

/// Every error can be shown, and points into the text or just behind it.
fn check_error(error: &Error, text: &str) {
    assert!(!error.to_string().is_empty());
    assert!(!error.excerpt().is_empty() || text.is_empty());
    let line = usize::try_from(error.position().line).expect("a line number fits");
    assert!(line <= text.split('\n').count());
}
