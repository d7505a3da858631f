//! The tasks on the databases of engines.
//!
//! Engines that store rows give lists of rows; here they become lists of files, which is part of the task. FTS5 and
//! tantivy do the tasks that they have an interface for, and no n-grams.

use std::collections::HashMap;
use std::time::Instant;

use super::{Answer, Job, NGRAM_WORDS, Run, Task, TaskRun, WARM_SECONDS, time, time_after};
use crate::Result;
use crate::corpus::Corpus;
use crate::engines::{self, directory_size, memory_max, reset_memory_max};

/// For each word its files, or for each file its words by number, with counts.
type Lists = Vec<Vec<(u32, u32)>>;

/// All tasks through a snapshot.
pub fn ours(job: &Job) -> Result<Run> {
    let begin = Instant::now();
    let (_database, snapshot) = engines::ours::open(&job.directory, job.threads)?;
    let open = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    drop(snapshot.words()?);
    let first_query = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    drop(snapshot.ngrams(1)?);
    let first_grammar = begin.elapsed().as_secs_f64();
    let wide = |&(number, count): &(u32, u32)| (u64::from(number), u64::from(count));
    let counts = snapshot.words()?;
    let tasks = vec![
        time(
            Task::WordCount,
            || Ok(snapshot.words()?),
            |counts| Answer::of_words(counts.iter()),
        )?,
        time(
            Task::Sort,
            || {
                // What `sorted` gives borrows from the counts, so they are counted again beside it.
                drop(snapshot.words()?);
                Ok(counts.sorted())
            },
            |sorted| Answer::of_sequence(sorted.iter().copied()),
        )?,
        time(
            Task::InvertedIndex,
            || Ok(snapshot.word_files()?),
            |index| {
                let mut answer = Answer::default();
                for (word, files) in index.iter() {
                    answer.add(word.words(), files.iter().map(wide));
                }
                answer
            },
        )?,
        time(
            Task::TermVector,
            || Ok(snapshot.term_vectors()?),
            |vectors| {
                let mut answer = Answer::default();
                for file in 0..vectors.files() {
                    for (word, count) in vectors.words(file) {
                        let entry = (file as u64, u64::from(count));
                        answer.add([word].into_iter(), [entry].into_iter());
                    }
                }
                answer
            },
        )?,
        time_after(
            Task::SequenceCount,
            WARM_SECONDS,
            || Ok(snapshot.ngrams(NGRAM_WORDS)?),
            |ngrams| {
                let mut answer = Answer::default();
                for (ngram, count) in ngrams.iter() {
                    answer.add(ngram.words(), [(0, count)].into_iter());
                }
                answer
            },
        )?,
        time_after(
            Task::RankedInvertedIndex,
            WARM_SECONDS,
            || Ok(snapshot.ngram_files(NGRAM_WORDS)?),
            |index| {
                let mut answer = Answer::default();
                for (ngram, files) in index.iter() {
                    answer.add(ngram.words(), files.iter().map(wide));
                }
                answer
            },
        )?,
    ];
    Ok(Run {
        first_grammar: Some(first_grammar),
        ..finish(job, open, first_query, tasks)?
    })
}

/// What FTS5 can do through `fts5vocab`.
pub fn fts5(job: &Job, corpus: &Corpus) -> Result<Run> {
    let (mut file_of_row, mut file) = (Vec::new(), 0);
    corpus.for_each_row(|row| {
        file += u32::from(row.number == 0);
        file_of_row.push(file - 1);
        Ok(())
    })?;
    reset_memory_max();
    let begin = Instant::now();
    let reader = engines::fts5::Reader::open(&job.directory)?;
    let open = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    drop(reader.word_counts("")?);
    let first_query = begin.elapsed().as_secs_f64();
    let inverted = || -> Result<_> {
        let mut terms: Vec<String> = Vec::new();
        let mut lists = Lists::new();
        reader.for_each_posting(|posting| {
            if terms.last().is_none_or(|last| last != posting.term) {
                terms.push(posting.term.to_owned());
                lists.push(Vec::new());
            }
            let list = lists.last_mut().expect("a term has a list");
            add(list, file_of_row[posting.row], posting.count);
        })?;
        Ok((terms, lists))
    };
    let tasks = database_tasks(
        corpus,
        || reader.word_counts(""),
        || reader.word_counts("ORDER BY cnt DESC, term"),
        inverted,
    )?;
    finish(job, open, first_query, tasks)
}

/// What tantivy can do through its dictionary and postings.
pub fn tantivy(job: &Job, corpus: &Corpus) -> Result<Run> {
    use ::tantivy::postings::Postings;
    use ::tantivy::{DocSet, TERMINATED};

    let begin = Instant::now();
    let reader = engines::tantivy::Reader::open(&job.directory)?;
    let open = begin.elapsed().as_secs_f64();
    let word_counts = || -> Result<_> {
        let mut counts = Vec::new();
        reader.for_each_posting(|term, postings| {
            let mut count = 0;
            while postings.doc() != TERMINATED {
                count += u64::from(postings.term_freq());
                postings.advance();
            }
            counts.push((String::from_utf8_lossy(term).into_owned(), count));
        })?;
        Ok(counts)
    };
    let begin = Instant::now();
    drop(word_counts()?);
    let first_query = begin.elapsed().as_secs_f64();
    let names = corpus.files.iter().map(|file| file.name.as_str());
    let numbers: HashMap<&str, u32> = names.zip(0..).collect();
    let documents = reader.documents()?;
    let file_of_document = documents.iter().map(|(name, _)| numbers[name.as_str()]);
    let file_of_document: Vec<u32> = file_of_document.collect();
    let sorted = || -> Result<_> {
        let mut counts: Vec<(String, u64)> = word_counts()?;
        counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(counts)
    };
    let inverted = || -> Result<_> {
        let mut terms: Vec<String> = Vec::new();
        let mut lists = Lists::new();
        reader.for_each_posting(|term, postings| {
            let mut found = Vec::new();
            while postings.doc() != TERMINATED {
                found.push((
                    file_of_document[postings.doc() as usize],
                    postings.term_freq(),
                ));
                postings.advance();
            }
            found.sort_unstable_by_key(|&(file, _)| file);
            let mut list = Vec::new();
            for (file, count) in found {
                add(&mut list, file, count);
            }
            terms.push(String::from_utf8_lossy(term).into_owned());
            lists.push(list);
        })?;
        Ok((terms, lists))
    };
    let tasks = database_tasks(corpus, word_counts, sorted, inverted)?;
    finish(job, open, first_query, tasks)
}

/// The tasks of an engine that gives words in its order, with lists of files.
fn database_tasks(
    corpus: &Corpus,
    word_counts: impl Fn() -> Result<Vec<(String, u64)>>,
    sorted: impl Fn() -> Result<Vec<(String, u64)>>,
    inverted: impl Fn() -> Result<(Vec<String>, Lists)>,
) -> Result<Vec<TaskRun>> {
    let vectors = || -> Result<_> {
        let (terms, lists) = inverted()?;
        let mut vectors: Lists = vec![Vec::new(); corpus.files.len()];
        for (term, list) in (0..).zip(lists) {
            for (file, count) in list {
                vectors[file as usize].push((term, count));
            }
        }
        Ok((terms, vectors))
    };
    let words = |counts: &Vec<(String, u64)>| {
        Answer::of_words(counts.iter().map(|(word, count)| (word.as_bytes(), *count)))
    };
    let wide = |&(number, count): &(u32, u32)| (u64::from(number), u64::from(count));
    Ok(vec![
        time(Task::WordCount, word_counts, words)?,
        time(Task::Sort, sorted, words)?,
        time(Task::InvertedIndex, &inverted, |(terms, lists)| {
            let mut answer = Answer::default();
            for (term, list) in terms.iter().zip(lists) {
                answer.add([term.as_bytes()].into_iter(), list.iter().map(wide));
            }
            answer
        })?,
        time(Task::TermVector, vectors, |(_, vectors)| {
            let mut answer = Answer::default();
            for vector in vectors {
                answer.add([].into_iter(), vector.iter().map(wide));
            }
            answer
        })?,
    ])
}

/// Adds to the count of a file, the last one or a new one.
fn add(list: &mut Vec<(u32, u32)>, file: u32, count: u32) {
    match list.last_mut() {
        Some((last, sum)) if *last == file => *sum += count,
        _ => list.push((file, count)),
    }
}

fn finish(job: &Job, open: f64, first_query: f64, tasks: Vec<TaskRun>) -> Result<Run> {
    Ok(Run {
        subject: job.subject,
        open: Some(open),
        first_query: Some(first_query),
        first_grammar: None,
        read: None,
        tasks,
        memory_max: memory_max()?,
        size: directory_size(&job.directory)?,
    })
}
