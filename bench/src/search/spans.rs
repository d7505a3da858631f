//! Part `spans`: concordances, groups of hits, collocations, dispersion and keywords.
//!
//! The words that are asked for come from the corpus: the most frequent ones, and one from the middle of its ranks. What a
//! straight scan of word ids counts is compared.

use std::path::Path;

use serde::{Deserialize, Serialize};
use zipfdb::Database;

use super::timed::{Outcome, milliseconds};
use super::{Job, SearchOptions, Subject, Task, ours};
use crate::Result;
use crate::corpus::Corpus;
use crate::engines;
use crate::report::{Cell, Table};

/// Rank of the word in the middle.
const MIDDLE_RANK: usize = 1_000;

/// Hits and rows of a page.
const PAGE: usize = 50;

/// What is asked for.
#[derive(Serialize, Deserialize)]
pub struct Subjects {
    /// The most frequent word.
    pub frequent: String,
    /// The second of them.
    pub second: String,
    /// One of rank [`MIDDLE_RANK`].
    middle: String,
    /// The largest file.
    file: String,
    files: usize,
}

impl Subjects {
    /// Questions with a number that a scan gives too, in order.
    pub const COUNTED: [&'static str; 4] = [
        "count: frequent word",
        "count: two frequent words",
        "count: two words, gap of 0 to 3",
        "frequent word by next word",
    ];

    fn of(database: &Database) -> Result<Subjects> {
        let snapshot = database.corpus("corpus")?.snapshot()?;
        let words = snapshot.words()?;
        let sorted = words.sorted().into_iter();
        let texts = sorted.filter_map(|(word, _)| std::str::from_utf8(word).ok());
        // Patterns of CQL hold such words as they are.
        let mut plain = texts.filter(|word| word.chars().all(char::is_alphanumeric));
        let (frequent, second) = (plain.next(), plain.next());
        let (frequent, second) = frequent.zip(second).ok_or("too few words to ask for")?;
        let middle = plain.nth(MIDDLE_RANK - 3).unwrap_or(second);
        let largest = snapshot.files().iter().max_by_key(|file| file.bytes);
        Ok(Subjects {
            frequent: frequent.to_owned(),
            second: second.to_owned(),
            middle: middle.to_owned(),
            file: largest.map_or_else(String::new, |file| file.name.clone()),
            files: snapshot.files().len(),
        })
    }

    /// Each question with its statement; those of [`Subjects::COUNTED`] give a number, others rows.
    fn statements(&self) -> Vec<(&'static str, String)> {
        let (frequent, second, middle) = (&self.frequent, &self.second, &self.middle);
        let count = |cql: String| format!("SELECT COUNT(*) FROM hits('corpus', '{cql}')");
        let page = |cql: String, more: &str| {
            format!(
                "SELECT file, left, hit, right FROM concordance('corpus', '{cql}'{more}) LIMIT {PAGE}"
            )
        };
        let of_rows = |call: String| format!("SELECT * FROM {call} LIMIT {PAGE}");
        let gap = format!("\"{frequent}\" []{{0,3}} \"{second}\"");
        let [first, pair, near, next] = Subjects::COUNTED;
        let groups = format!("frequencies('corpus', '\"{frequent}\"', by => 'R1')");
        let mut statements = vec![
            (first, count(format!("\"{frequent}\""))),
            (pair, count(format!("\"{frequent}\" \"{second}\""))),
            (near, count(gap.clone())),
            (next, format!("SELECT COUNT(*) FROM {groups}")),
            ("frequent word by next word, first 50", of_rows(groups)),
            ("page: frequent word", page(format!("\"{frequent}\""), "")),
            ("page: word of rank 1000", page(format!("\"{middle}\""), "")),
            ("page: two words, gap of 0 to 3", page(gap, "")),
            (
                "page: words by a pattern",
                page("[lc=\"[a-z]+ly\"]".to_owned(), ""),
            ),
            (
                "page: frequent word, sorted by R1",
                page(format!("\"{frequent}\""), ", sort => 'R1'"),
            ),
            (
                "collocations 5:5 of the frequent word",
                of_rows(format!(
                    "collocations('corpus', '\"{frequent}\"', window => '5:5')"
                )),
            ),
            (
                "collocations 5:5 of the word of rank 1000",
                of_rows(format!(
                    "collocations('corpus', '\"{middle}\"', window => '5:5')"
                )),
            ),
            (
                "dispersion of the frequent word",
                of_rows(format!("dispersion('corpus', '\"{frequent}\"')")),
            ),
            (
                "frequencies of all words",
                of_rows("frequencies('corpus')".to_owned()),
            ),
            (
                "vocabulary growth",
                of_rows("vocabulary_growth('corpus')".to_owned()),
            ),
        ];
        if self.files > 1 {
            let file = self.file.replace('\'', "''");
            statements.push((
                "keywords of the largest file",
                of_rows(format!("keywords('corpus', files => '{file}')")),
            ));
        }
        statements
    }
}

/// What is behind the rows.
pub fn note(threads: usize) -> String {
    format!(
        "Spans: the most frequent words of letters and digits, and one of rank {MIDDLE_RANK}; a page has {PAGE} rows with 5 words on each \
         side; statements by `query`. `scan`: a pass of {threads} threads over ids of words in memory, which gives numbers alone."
    )
}

/// Asks ZipfDB and compares it with a scan.
pub fn measure(corpus: &Corpus, database: &Path, search: &SearchOptions) -> Result<Table> {
    let (directory, job_threads) = (database, search.options.threads);
    let (opened, _) = engines::ours::open(directory, job_threads)?;
    let subjects = serde_json::to_string(&Subjects::of(&opened)?)?;
    drop(opened);
    let child = |subject| search.child(Task::Spans, subject, corpus, directory, Some(&subjects));
    let (ours, scan) = (child(Subject::Ours)?, child(Subject::Plain)?);
    let compared = ours.compare(&scan, "ZipfDB", "a scan");
    compared.map_err(|error| format!("{}: {error}", corpus.name))?;
    let mut table = Table::new("spans, ms", ["first", "warm", "scan", "rows"]);
    for one in &ours.asked {
        let [first, warm] = milliseconds(&ours, &one.name);
        let [_, scan] = milliseconds(&scan, &one.name);
        table.row(&*one.name, [first, warm, scan, Cell::from(one.answer)]);
    }
    Ok(table)
}

/// Asks every statement.
pub fn ask(job: &Job) -> Result<Outcome> {
    let subjects: Subjects = serde_json::from_str(job.question()?)?;
    let database = ours::open(job)?;
    let statements = subjects.statements();
    let names: Vec<String> = statements
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let asked = job.ask(&names, |index| {
        let (name, sql) = &statements[index];
        let answer = if Subjects::COUNTED.contains(name) {
            database.query_row(sql, (), |row| row.get(0))?
        } else {
            ours::rows(&database, sql)?
        };
        Ok((answer, Vec::new()))
    })?;
    Ok(Outcome::of(asked))
}
