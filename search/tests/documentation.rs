//! docs/SEARCH.md and the parsers agree.
//!
//! Invariant: every example of the page is a query, every error that it shows is that error, every printed form is what is
//! printed. What the queries find is tested where there is an evaluator.

use zipfdb_search::simple::{self, QueryOptions};
use zipfdb_search::{Error, cql, limits};

use super::simple::RunsOfLetters;

const PAGE: &str = include_str!("../../docs/SEARCH.md");

/// The lines of all code blocks in a language.
fn lines(language: &str) -> Vec<&'static str> {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
    blocks.flat_map(str::lines).collect()
}

/// The rows of all tables with a heading of this first column: the cells, as they are written.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut is_wanted = false;
    for line in PAGE.lines() {
        let Some(cells) = line.strip_prefix("| ") else {
            is_wanted &= line.starts_with("|---");
            continue;
        };
        if !is_wanted {
            is_wanted = cells.starts_with(&format!("{heading} |"));
            continue;
        }
        let cells = cells.trim_end_matches(" |").replace("\\|", "\0");
        let cells = cells.split(" | ").map(|cell| cell.replace('\0', "|"));
        rows.push(cells.collect());
    }
    rows
}

/// What stands in backticks.
fn examples(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn search_error(text: &str) -> Option<Error> {
    simple::parse(text, &QueryOptions::default(), &RunsOfLetters).err()
}

#[test]
fn every_example_of_the_page_is_a_query() {
    let mut count = 0;
    for text in lines("cql") {
        cql::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        count += 1;
    }
    for row in rows("CQL") {
        for text in examples(&row[0]) {
            let query = cql::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(cql::parse(&query.to_string()), Ok(query), "{text}");
            count += 1;
        }
    }
    for text in lines("search") {
        assert_eq!(search_error(text), None, "{text}");
        count += 1;
    }
    for row in rows("search") {
        for text in examples(&row[0]) {
            assert_eq!(search_error(text), None, "{text}");
            count += 1;
        }
    }
    assert!(count > 110, "{count}");
}

#[test]
fn every_error_of_the_page_is_that_error() {
    let (cql_errors, search_errors) = (lines("cql-error"), lines("search-error"));
    assert!(cql_errors.len() > 8 && search_errors.len() > 8);
    for pair in cql_errors.chunks(2) {
        assert_eq!(cql::parse(pair[0]).unwrap_err().to_string(), pair[1]);
    }
    for pair in search_errors.chunks(2) {
        assert_eq!(search_error(pair[0]).unwrap().to_string(), pair[1]);
    }
}

#[test]
fn every_printed_form_of_the_page_is_what_is_printed() {
    let rows = rows("written");
    assert!(rows.len() > 4);
    for row in rows {
        let (written, printed) = (examples(&row[0])[0], examples(&row[1])[0]);
        assert_eq!(cql::parse(written).unwrap().to_string(), printed);
    }
}

#[test]
fn the_limits_of_the_page_are_the_limits() {
    let rows = rows("of one query");
    let found: Vec<&str> = rows.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(
        found.join("; ").replace(',', ""),
        format!(
            "{}; {}; {}; {}; {}; {}",
            limits::QUERY_BYTES_MAX,
            limits::NESTING_MAX,
            limits::REGEX_BYTES_MAX,
            limits::REGEXES_BYTES_MAX,
            limits::EDITS_MAX,
            limits::NOTICES_MAX
        )
    );
}
