//! Queries of the Search Benchmark, the Game: words and phrases, each with `+`, `-` or nothing before it.
//!
//! The queries are also read by the simple language as they are. Words are those of the tokenizer `unicode`, case folded.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use zipfdb_search::fold::fold;

use crate::Result;
use crate::words::for_each_word;

/// A tag that says nothing about the form of a query.
const GLOBAL: &str = "global";

/// A query with its form.
pub struct Query {
    /// As the file has it.
    pub text: String,
    /// The first tag that says its form.
    pub tag: String,
    pub clauses: Vec<Clause>,
}

/// How a part of a query takes part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Must,
    Should,
    Not,
}

/// A word or a phrase.
pub struct Clause {
    pub role: Role,
    pub words: Vec<String>,
}

#[derive(Deserialize)]
struct Line {
    query: String,
    tags: Vec<String>,
}

/// Reads a file of queries, one on each line.
pub fn read(path: &Path) -> Result<Vec<Query>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut queries = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Line { query, tags } =
            serde_json::from_str(line).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut tags = tags.into_iter();
        let tag = tags.find(|tag| tag != GLOBAL && !tag.contains(':'));
        queries.push(Query {
            tag: tag.unwrap_or_else(|| "other".to_owned()),
            clauses: clauses(&query)?,
            text: query,
        });
    }
    Ok(queries)
}

fn clauses(query: &str) -> Result<Vec<Clause>> {
    let mut clauses = Vec::new();
    let mut rest = query.trim_start();
    while !rest.is_empty() {
        let (role, behind) = match rest.split_at(1) {
            ("+", behind) => (Role::Must, behind),
            ("-", behind) => (Role::Not, behind),
            _ => (Role::Should, rest),
        };
        let (text, behind) = match behind.strip_prefix('"') {
            Some(phrase) => phrase
                .split_once('"')
                .ok_or_else(|| format!("{query}: a phrase without an end"))?,
            None => behind.split_once(' ').unwrap_or((behind, "")),
        };
        let words = words(text.as_bytes());
        if words.is_empty() {
            return Err(format!("{query}: `{text}` has no word").into());
        }
        clauses.push(Clause { role, words });
        rest = behind.trim_start();
    }
    Ok(clauses)
}

/// All words of a text, folded.
pub fn words(text: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    let mut folded = Vec::new();
    for_each_word(text, |range| {
        folded.clear();
        fold(&text[range], &mut folded);
        words.push(String::from_utf8_lossy(&folded).into_owned());
    });
    words
}
