//! docs/SQL.md and the parser agree.
//!
//! Invariant: every statement of the page is a plan, every error that it shows is that error. What the statements return
//! is tested where there is an engine.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;

use zipfdb_sql::{Plan, Schema, Value, bind, parse, substr_range};

const PAGE: &str = include_str!("../../docs/SQL.md");

/// Knows the corpora that statements of the page have created.
struct Corpora(RefCell<Vec<String>>);

impl Schema for Corpora {
    fn corpora(&self) -> Vec<String> {
        self.0.borrow().clone()
    }
}

/// The texts of all code blocks in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    PAGE.split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'))
        .collect()
}

#[test]
fn every_statement_of_the_page_is_a_plan() {
    let corpora = Corpora(RefCell::default());
    let mut count = 0;
    for block in blocks("sql") {
        for statement in parse(block).unwrap_or_else(|error| panic!("{block}\n{error}")) {
            let parameters: [Value; 3] = if statement.text().contains("substr") {
                ["1941.txt".into(), 101.into(), 64.into()]
            } else {
                ["1941.txt".into(), "freedom".into(), Value::Null]
            };
            let plan = bind(
                &statement,
                &corpora,
                &parameters[..statement.parameter_count()],
            )
            .unwrap_or_else(|error| panic!("{}\n{error}", statement.text()));
            match plan {
                Plan::CreateCorpus { name, .. } => corpora.0.borrow_mut().push(name),
                Plan::DropCorpus { name, .. } => {
                    corpora.0.borrow_mut().retain(|known| *known != name)
                }
                _ => {}
            }
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
}

#[test]
fn every_error_of_the_page_is_that_error() {
    let corpora = Corpora(RefCell::new(vec!["speeches".to_owned()]));
    let statements = [
        "SELECT COUNT(*) FROM speaches",
        "SELECT wrod FROM speeches WHERE word = 'a'",
        "SELECT COUNT(*) FROM speeches WHERE word = 1984",
        "SELECT offset FROM speeches WHERE word LIKE 'a%'",
        "SELECT word FORM speeches",
    ];
    let shown: Vec<String> = statements
        .iter()
        .map(|statement| match parse(statement) {
            Ok(parsed) => bind(&parsed[0], &corpora, &[]).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        })
        .collect();
    let [page] = blocks("text")[..] else {
        panic!("one block of errors")
    };
    assert_eq!(page.lines().collect::<Vec<_>>(), shown);
}

#[test]
fn the_table_of_substr_is_true() {
    let mut count = 0;
    for line in PAGE.lines() {
        let Some((call, rest)) = line
            .strip_prefix("| `substr(content, ")
            .and_then(|line| line.split_once(")` | "))
        else {
            continue;
        };
        let gives = rest.split(" | ").next().unwrap();
        let numbers: Vec<Option<i64>> =
            call.split(", ").map(|number| number.parse().ok()).collect();
        let [Some(start), ref length @ ..] = numbers[..] else {
            assert_eq!(gives, "NULL");
            continue;
        };
        let range = substr_range(start, length.first().map(|length| length.unwrap()), 6);
        let bytes = &"abcdef"[range.start.try_into().unwrap()..range.end.try_into().unwrap()];
        assert_eq!(
            if bytes.is_empty() {
                "nothing".to_owned()
            } else {
                format!("`{bytes}`")
            },
            gives,
            "{line}"
        );
        count += 1;
    }
    assert_eq!(count, 8);
}
