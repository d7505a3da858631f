//! Questions to ZipfDB: through a snapshot, in batches and as SQL.
//!
//! What is answered one by one is kept for the comparison; batches have to give the same.

use std::time::Instant;

use zipfdb::{Rows, Value};

use super::measure::{batches, single};
use super::questions::{Answers, BATCH_MAX, LONG, Questions, SAMPLE, SHORT};
use super::{Job, Kind, Measured, Run, Way};
use crate::Result;
use crate::engines::{self, memory_max};

/// Parameter sets that SQL gets at once.
pub const SETS: usize = 100;

/// Asks everything.
pub fn run(job: &Job, questions: &Questions) -> Result<Run> {
    let begin = Instant::now();
    let (database, snapshot) = engines::ours::open(&job.directory, job.threads)?;
    let open = begin.elapsed().as_secs_f64();
    let file = |file: usize| &questions.files[file][..];
    let words = questions.words.iter();
    let words: Vec<(&str, &str)> = words.map(|(f, word)| (file(*f), &word[..])).collect();
    let begin = Instant::now();
    if let Some((file, word)) = words.first() {
        snapshot.count_in(file, *word)?;
    }
    let first_query = begin.elapsed().as_secs_f64();

    let budget = job.budget();
    let mut measured = Vec::new();
    let mut keep = |kind, way, latencies| {
        measured.push(Measured {
            kind,
            way,
            latencies,
        })
    };
    let mut counts = Vec::with_capacity(words.len());
    let latencies = single(words.len(), budget, |question| {
        let (file, word) = words[question];
        let count = snapshot.count_in(file, word)?;
        // Questions are asked in order, the first ones twice.
        if question == counts.len() {
            counts.push(count);
        }
        Ok(count)
    })?;
    keep(Kind::Count, Way::Single, latencies);
    let mut many = Vec::new();
    let chunks: Vec<&[(&str, &str)]> = words.chunks(BATCH_MAX).collect();
    let latencies = batches(&chunks, budget, |batch| {
        let counts = snapshot.count_in_many(batch)?;
        let sum = counts.iter().sum();
        many = counts;
        Ok(sum)
    })?;
    keep(Kind::Count, Way::Batch, latencies);
    if words.len() <= BATCH_MAX && !many.starts_with(&counts) {
        return Err("`count_many` and `count_in` differ".into());
    }

    let mut searches: Vec<Vec<u64>> = Vec::new();
    let latencies = single(words.len(), budget, |question| {
        let (file, word) = words[question];
        let found = snapshot.search_in(file, word)?;
        let count = found.len() as u64;
        if question == searches.len() && question < SAMPLE {
            searches.push(found);
        }
        Ok(count)
    })?;
    keep(Kind::Search, Way::Single, latencies);
    let mut start = 0;
    let chunks = questions.search_ends.iter().map(|&end| {
        let chunk = &words[start..end];
        start = end;
        chunk
    });
    let chunks: Vec<&[(&str, &str)]> = chunks.collect();
    let latencies = batches(&chunks, budget, |batch| {
        let found = snapshot.search_in_many(batch)?;
        if batch.as_ptr() == words.as_ptr() && found.iter().zip(&searches).any(|(a, b)| a != b) {
            return Err("`search_many` and `search_in` differ".into());
        }
        Ok(found.iter().map(|offsets| offsets.len() as u64).sum())
    })?;
    keep(Kind::Search, Way::Batch, latencies);

    let mut extracts = [Vec::new(), Vec::new()];
    let kinds = [(Kind::ExtractShort, SHORT), (Kind::ExtractLong, LONG)];
    for ((kind, length), extracts) in kinds.into_iter().zip(&mut extracts) {
        let places = questions.places.iter();
        let places = places.map(|&(number, offset)| (file(number), offset, length));
        let places: Vec<(&str, u64, u64)> = places.collect();
        let latencies = single(places.len(), budget, |question| {
            let (file, offset, length) = places[question];
            let bytes = snapshot.extract(file, offset, length)?;
            let size = bytes.len() as u64;
            if question == extracts.len() && question < SAMPLE {
                extracts.push(bytes);
            }
            Ok(size)
        })?;
        keep(kind, Way::Single, latencies);
        let chunks: Vec<&[(&str, u64, u64)]> = places.chunks(BATCH_MAX).collect();
        let latencies = batches(&chunks, budget, |batch| {
            let found = snapshot.extract_many(batch)?;
            if batch.as_ptr() == places.as_ptr()
                && found.iter().zip(extracts.iter()).any(|(a, b)| a != b)
            {
                return Err("`extract_many` and `extract` differ".into());
            }
            Ok(found.iter().map(|bytes| bytes.len() as u64).sum())
        })?;
        keep(kind, Way::Batch, latencies);
    }

    let mut phrases = Vec::with_capacity(questions.phrases.len());
    let latencies = single(questions.phrases.len(), budget, |question| {
        let (first, second) = &questions.phrases[question];
        let count = snapshot.phrase_count(&[first, second])?;
        if question == phrases.len() {
            phrases.push(count);
        }
        Ok(count)
    })?;
    keep(Kind::Phrase, Way::Single, latencies);

    let pairs = words
        .iter()
        .map(|&(file, word)| vec![file.into(), word.into()]);
    let pairs: Vec<Vec<Value>> = pairs.collect();
    let count_sql = "SELECT COUNT(*) FROM corpus WHERE file = ? AND word = ?";
    let latencies = single(pairs.len(), budget, |question| {
        let count = sum(database.query(count_sql, &pairs[question])?)?;
        match counts.get(question) {
            Some(&expected) if expected != count => Err("SQL and `count_in` differ".into()),
            _ => Ok(count),
        }
    })?;
    keep(Kind::Count, Way::Sql, latencies);
    let sets: Vec<&[Vec<Value>]> = pairs.chunks(SETS).collect();
    let latencies = batches(&sets, budget, |sets| {
        sum(database.query_many(count_sql, sets)?)
    })?;
    keep(Kind::Count, Way::Sets, latencies);
    let search_sql = "SELECT offset FROM corpus WHERE file = ? AND word = ?";
    let latencies = single(pairs.len(), budget, |question| {
        let hits = rows(database.query(search_sql, &pairs[question])?)?;
        match counts.get(question) {
            Some(&expected) if expected != hits => Err("SQL and `search_in` differ".into()),
            _ => Ok(hits),
        }
    })?;
    keep(Kind::Search, Way::Sql, latencies);
    let latencies = batches(&sets, budget, |sets| {
        rows(database.query_many(search_sql, sets)?)
    })?;
    keep(Kind::Search, Way::Sets, latencies);
    for (kind, length) in kinds {
        let latencies = single(questions.places.len(), budget, |question| {
            let (number, offset) = questions.places[question];
            let sql = "SELECT substr(content, ?, ?) FROM files('corpus') WHERE file = ?";
            // Offsets and lengths are of files, so far below 2^63.
            let place = (offset as i64 + 1, length as i64);
            let place = [place.0.into(), place.1.into(), file(number).into()];
            let mut rows = database.query(sql, &place)?;
            match &rows.next().ok_or("no row")??[0] {
                Value::Blob(bytes) => Ok(bytes.len() as u64),
                other => Err(format!("an extract is {other:?}").into()),
            }
        })?;
        keep(kind, Way::Sql, latencies);
    }
    let texts = questions.phrases.iter();
    let texts = texts.map(|(first, second)| vec![format!("{first} {second}").into()]);
    let texts: Vec<Vec<Value>> = texts.collect();
    let phrase_sql = "SELECT COUNT(*) FROM ngrams('corpus', 2) WHERE ngram = ?";
    let latencies = single(texts.len(), budget, |question| {
        let count = sum(database.query(phrase_sql, &texts[question])?)?;
        match phrases.get(question) {
            Some(&expected) if expected != count => Err("SQL and `count_phrase` differ".into()),
            _ => Ok(count),
        }
    })?;
    keep(Kind::Phrase, Way::Sql, latencies);
    let sets: Vec<&[Vec<Value>]> = texts.chunks(SETS).collect();
    let latencies = batches(&sets, budget, |sets| {
        sum(database.query_many(phrase_sql, sets)?)
    })?;
    keep(Kind::Phrase, Way::Sets, latencies);

    let [short, long] = extracts;
    Ok(Run {
        engine: job.engine,
        open,
        first_query,
        measured,
        answers: Some(Answers {
            counts,
            phrases,
            searches,
            short,
            long,
        }),
        memory_max: memory_max()?,
    })
}

/// All numbers of an answer of one column together.
fn sum(answer: Rows) -> Result<u64> {
    let mut sum = 0;
    for row in answer {
        match &row?[0] {
            Value::Integer(count) => sum += u64::try_from(*count)?,
            other => return Err(format!("a count is {other:?}").into()),
        }
    }
    Ok(sum)
}

/// How many rows an answer has.
fn rows(answer: Rows) -> Result<u64> {
    let mut rows = 0;
    for row in answer {
        row?;
        rows += 1;
    }
    Ok(rows)
}
