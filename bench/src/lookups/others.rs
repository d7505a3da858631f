//! Questions to SQLite FTS5 and tantivy, each as well as its interface allows.
//!
//! Both store rows of at most 1 MiB, so a file is one or more of them. What they cannot answer exactly is in the notes
//! of the suite.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use ::tantivy::postings::{Postings, SegmentPostings};
use ::tantivy::schema::{IndexRecordOption, Value};
use ::tantivy::{DocAddress, DocSet, TERMINATED, TantivyDocument, Term};

use super::measure::{Latencies, single};
use super::questions::{LONG, Questions, SHORT};
use super::{Job, Kind, Measured, Run, Way};
use crate::Result;
use crate::engines::{self, memory_max};

/// Stands for a byte that no text of words has.
const MARK: &str = "\u{1}";

/// Asks FTS5 through prepared statements.
pub fn fts5(job: &Job, questions: &Questions) -> Result<Run> {
    let rows = rows_of_files(questions);
    let begin = Instant::now();
    let reader = engines::fts5::Reader::open(&job.directory)?;
    let open = begin.elapsed().as_secs_f64();
    let connection = &reader.connection;
    let mut marks = connection.prepare(
        "SELECT highlight(corpus, 2, char(1), '') FROM corpus WHERE corpus MATCH ?1 AND rowid = ?2",
    )?;
    let mut count_places = connection
        .prepare("SELECT count(*) FROM places WHERE term = ?1 AND doc BETWEEN ?2 AND ?3")?;
    let mut places = connection
        .prepare("SELECT doc, offset FROM places WHERE term = ?1 AND doc BETWEEN ?2 AND ?3")?;
    let mut text = connection
        .prepare("SELECT substr(CAST(content AS BLOB), ?2, ?3) FROM corpus WHERE rowid = ?1")?;
    let mut phrase_rows =
        connection.prepare("SELECT count(*) FROM corpus WHERE corpus MATCH ?1")?;

    let mut ask = |question: usize, with_hits: bool| -> Result<u64> {
        let (file, word) = &questions.words[question];
        let rows = &rows[*file];
        if rows.len() == 1 {
            let mut found = marks.query((quoted(word), rows.start as i64 + 1))?;
            let Some(row) = found.next()? else {
                return Ok(0);
            };
            let marked = row.get_ref(0)?.as_bytes()?;
            let hits = marked
                .iter()
                .enumerate()
                .filter(|(_, byte)| **byte == MARK.as_bytes()[0]);
            if !with_hits {
                return Ok(hits.count() as u64);
            }
            // Every mark before it has moved a hit by one byte.
            let hits = hits.enumerate().map(|(before, (at, _))| at - before);
            return Ok(hits.collect::<Vec<usize>>().len() as u64);
        }
        let range = (word.to_lowercase(), rows.start as i64 + 1, rows.end as i64);
        if !with_hits {
            let count: i64 = count_places.query_row(range, |row| row.get(0))?;
            return Ok(count.unsigned_abs());
        }
        let hits = places.query_map(range, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let hits = hits.collect::<rusqlite::Result<Vec<(i64, i64)>>>()?;
        Ok(hits.len() as u64)
    };
    let budget = job.budget();
    let (first_query, mut measured) = ask_words(job, questions, &mut ask)?;
    for (kind, length) in [(Kind::ExtractShort, SHORT), (Kind::ExtractLong, LONG)] {
        let mut extract = |question: usize| {
            let mut bytes: Vec<u8> = Vec::new();
            for (row, offset, length) in pieces(questions, &rows, question, length) {
                let range = (row as i64 + 1, offset as i64 + 1, length as i64);
                let part: Vec<u8> = text.query_row(range, |row| row.get(0))?;
                bytes.extend(part);
            }
            Ok(bytes.len() as u64)
        };
        measured.push(kept(
            kind,
            single(questions.places.len(), budget, &mut extract)?,
        ));
    }
    let phrases = single(questions.phrases.len(), budget, |question| {
        let (first, second) = &questions.phrases[question];
        let phrase = quoted(&format!("{first} {second}"));
        let count: i64 = phrase_rows.query_row([phrase], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    })?;
    measured.push(kept(Kind::Phrase, phrases));
    Ok(Run {
        engine: job.engine,
        open,
        first_query,
        measured,
        answers: None,
        memory_max: memory_max()?,
    })
}

/// Asks tantivy through its postings and its store.
pub fn tantivy(job: &Job, questions: &Questions) -> Result<Run> {
    let begin = Instant::now();
    let reader = engines::tantivy::Reader::open(&job.directory)?;
    let open = begin.elapsed().as_secs_f64();
    let rows = rows_of_files(questions);
    let names = questions.files.iter().map(|name| name.as_str());
    let files: HashMap<&str, usize> = names.zip(0..).collect();
    // Writers share the rows, so documents come in another order.
    let mut document_of_row = vec![0; questions.rows.len()];
    for (document, (name, number)) in (0..).zip(reader.documents()?) {
        // Rows of a file are counted from 0.
        document_of_row[rows[files[name.as_str()]].start + number as usize] = document;
    }
    let documents: Vec<Vec<u32>> = (rows.iter())
        .map(|rows| {
            let mut documents = document_of_row[rows.clone()].to_vec();
            documents.sort_unstable();
            documents
        })
        .collect();

    let postings = |word: &str, option| -> Result<Option<SegmentPostings>> {
        let term = Term::from_field_text(reader.content, &word.to_lowercase());
        Ok(reader.words.read_postings(&term, option)?)
    };
    let mut ask = |question: usize, with_hits: bool| -> Result<u64> {
        let (file, word) = &questions.words[question];
        let option = if with_hits {
            IndexRecordOption::WithFreqsAndPositions
        } else {
            IndexRecordOption::WithFreqs
        };
        let Some(mut postings) = postings(word, option)? else {
            return Ok(0);
        };
        let (mut count, mut hits, mut positions) = (0, Vec::new(), Vec::new());
        for &document in &documents[*file] {
            if postings.doc() < document {
                postings.seek(document);
            }
            if postings.doc() != document {
                continue;
            }
            count += u64::from(postings.term_freq());
            if with_hits {
                postings.positions(&mut positions);
                hits.extend(positions.iter().map(|&position| (document, position)));
            }
        }
        Ok(if with_hits { hits.len() as u64 } else { count })
    };
    let budget = job.budget();
    let (first_query, mut measured) = ask_words(job, questions, &mut ask)?;
    for (kind, length) in [(Kind::ExtractShort, SHORT), (Kind::ExtractLong, LONG)] {
        let extract = |question: usize| {
            let mut bytes: Vec<u8> = Vec::new();
            for (row, offset, length) in pieces(questions, &rows, question, length) {
                let address = DocAddress::new(0, document_of_row[row]);
                let document: TantivyDocument = reader.searcher.doc(address)?;
                let text = document.get_first(reader.content);
                let text = text
                    .and_then(|text| text.as_str())
                    .unwrap_or_default()
                    .as_bytes();
                // Text that was not UTF-8 is stored longer than it was, and places in it are not those of the file.
                let start = (offset as usize).min(text.len());
                bytes.extend(&text[start..text.len().min(start + length as usize)]);
            }
            Ok(bytes.len() as u64)
        };
        measured.push(kept(kind, single(questions.places.len(), budget, extract)?));
    }
    let phrases = single(questions.phrases.len(), budget, |question| {
        let (first, second) = &questions.phrases[question];
        let option = IndexRecordOption::WithFreqsAndPositions;
        let Some((first, second)) = postings(first, option)?.zip(postings(second, option)?) else {
            return Ok(0);
        };
        Ok(count_phrase(first, second))
    })?;
    measured.push(kept(Kind::Phrase, phrases));
    Ok(Run {
        engine: job.engine,
        open,
        first_query,
        measured,
        answers: None,
        memory_max: memory_max()?,
    })
}

/// How often `second` stands behind `first`.
fn count_phrase(mut first: SegmentPostings, mut second: SegmentPostings) -> u64 {
    let (mut befores, mut afters) = (Vec::new(), Vec::new());
    let mut count = 0;
    while first.doc() != TERMINATED && second.doc() != TERMINATED {
        if first.doc() < second.doc() {
            first.seek(second.doc());
        } else if second.doc() < first.doc() {
            second.seek(first.doc());
        } else {
            first.positions(&mut befores);
            second.positions(&mut afters);
            let mut afters = afters.iter().peekable();
            for &before in &befores {
                while afters.next_if(|&&after| after <= before).is_some() {}
                count += u64::from(afters.peek() == Some(&&(before + 1)));
            }
            first.advance();
            second.advance();
        }
    }
    count
}

/// For each file its rows.
fn rows_of_files(questions: &Questions) -> Vec<Range<usize>> {
    let mut rows = vec![0..0; questions.files.len()];
    for (row, &(file, begin)) in questions.rows.iter().enumerate() {
        if begin == 0 {
            rows[file].start = row;
        }
        rows[file].end = row + 1;
    }
    rows
}

/// The rows that an extract takes from, each with offset and length.
fn pieces(
    questions: &Questions,
    rows: &[Range<usize>],
    question: usize,
    length: u64,
) -> Vec<(usize, u64, u64)> {
    let (file, offset) = questions.places[question];
    let begins = &questions.rows[rows[file].clone()];
    let first = begins.partition_point(|&(_, begin)| begin <= offset) - 1;
    let mut pieces = Vec::new();
    for row in first..begins.len() {
        let begin = begins[row].1;
        let end = begins.get(row + 1).map_or(u64::MAX, |next| next.1);
        let from = offset.max(begin);
        let to = (offset + length).min(end);
        if from < to {
            pieces.push((rows[file].start + row, from - begin, to - from));
        }
    }
    pieces
}

/// A phrase of FTS5's query language.
fn quoted(words: &str) -> String {
    format!("\"{}\"", words.replace('"', "\"\""))
}

/// The first query, in seconds, then counts and searches; `ask` takes the number of a question and whether hits are wanted.
fn ask_words(
    job: &Job,
    questions: &Questions,
    ask: &mut dyn FnMut(usize, bool) -> Result<u64>,
) -> Result<(f64, Vec<Measured>)> {
    let begin = Instant::now();
    if !questions.words.is_empty() {
        ask(0, false)?;
    }
    let first_query = begin.elapsed().as_secs_f64();
    let (budget, count) = (job.budget(), questions.words.len());
    let counts = single(count, budget, |question| ask(question, false))?;
    let searches = single(count, budget, |question| ask(question, true))?;
    let measured = vec![kept(Kind::Count, counts), kept(Kind::Search, searches)];
    Ok((first_query, measured))
}

fn kept(kind: Kind, latencies: Latencies) -> Measured {
    Measured {
        kind,
        way: Way::Single,
        latencies,
    }
}
