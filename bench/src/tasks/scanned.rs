//! The tasks on word ids in memory: the straight scan, alone and after decompression.
//!
//! What is kept beside the ids is what ZipfDB keeps too, so that neither is timed while it makes it. It reads no database.

use std::time::Instant;

use rayon::prelude::*;

use super::{Answer, Job, NGRAM_WORDS, Run, Subject, Task, TaskRun, time};
use crate::Result;
use crate::corpus::Corpus;
use crate::engines::{memory_max, reset_memory_max};
use crate::scan::{Scan, ngrams};
use crate::words::{self, Words};

/// Reads the text and runs all tasks.
pub fn run(job: &Job, corpus: &Corpus) -> Result<Run> {
    let is_zstd = job.subject == Subject::Zstd;
    let mut pieces = None;
    let mut begin = Instant::now();
    if is_zstd {
        pieces = Some(words::compress(words::read_pieces(corpus)?)?);
        reset_memory_max();
        begin = Instant::now();
    }
    let pieces = match pieces {
        Some(pieces) => pieces,
        None => words::read_pieces(corpus)?,
    };
    let size = words::size(&pieces);
    let words = Words::new(&pieces, corpus.files.len())?;
    let read = begin.elapsed().as_secs_f64();
    if !is_zstd {
        drop(pieces);
        reset_memory_max();
    }
    let mut tasks = tasks(&words)?;
    if is_zstd {
        for task in &mut tasks {
            task.seconds += read;
            task.first += read;
        }
    }
    Ok(Run {
        subject: job.subject,
        open: None,
        first_query: None,
        first_grammar: None,
        read: Some(read),
        tasks,
        memory_max: memory_max()?,
        size,
    })
}

fn tasks(words: &Words) -> Result<Vec<TaskRun>> {
    // Words are numbered by u32.
    let word_count = words.dictionary.len() as u32;
    let scan = Scan {
        words: &words.words,
        file_offsets: &words.file_offsets,
        word_count,
    };
    let text = |word: u32| &words.dictionary[word as usize][..];
    let texts = |ngram: &[u32]| ngram.iter().map(|&word| text(word)).collect::<Vec<_>>();
    let wide = |&(number, count): &(u32, u32)| (u64::from(number), u64::from(count));
    let ranks = words.byte_ranks();
    let mut order = vec![0; ranks.len()];
    for (word, &rank) in (0..).zip(&ranks) {
        order[rank as usize] = word;
    }
    let counts = scan.word_counts();
    Ok(vec![
        time(
            Task::WordCount,
            || Ok(scan.word_counts()),
            |counts| {
                let counts = (0..).zip(counts).filter(|&(_, &count)| count > 0);
                Answer::of_words(counts.map(|(word, &count)| (text(word), u64::from(count))))
            },
        )?,
        time(
            Task::Sort,
            || {
                // The largest count first, then the first by bytes.
                let key = |(&count, &rank): (&u32, &u32)| u64::from(!count) << 32 | u64::from(rank);
                let mut keys: Vec<u64> = scan.word_counts().iter().zip(&ranks).map(key).collect();
                keys.par_sort_unstable();
                let row = |key: u64| (text(order[key as u32 as usize]), !(key >> 32) as u32);
                let rows = keys.into_iter().map(row).filter(|&(_, count)| count > 0);
                Ok(rows
                    .map(|(text, count)| (text, u64::from(count)))
                    .collect::<Vec<_>>())
            },
            |sorted| Answer::of_sequence(sorted.iter().copied()),
        )?,
        time(
            Task::InvertedIndex,
            || Ok(scan.word_file_counts()),
            |table| {
                let mut answer = Answer::default();
                for word in 0..word_count {
                    let row = table.row(word as usize).iter().map(wide);
                    answer.add([text(word)].into_iter(), row);
                }
                answer
            },
        )?,
        time(
            Task::TermVector,
            || Ok(scan.file_word_counts()),
            |table| {
                let mut answer = Answer::default();
                for file in 0..table.rows() {
                    for &(word, count) in table.row(file) {
                        let entry = (file as u64, u64::from(count));
                        answer.add([text(word)].into_iter(), [entry].into_iter());
                    }
                }
                answer
            },
        )?,
        time(
            Task::SequenceCount,
            || ngrams::counts::<NGRAM_WORDS>(&scan, &counts),
            |parts| {
                let mut answer = Answer::default();
                for part in parts {
                    for (ngram, &count) in part.words.chunks_exact(NGRAM_WORDS).zip(&part.counts) {
                        answer.add(
                            texts(ngram).into_iter(),
                            [(0, u64::from(count))].into_iter(),
                        );
                    }
                }
                answer
            },
        )?,
        time(
            Task::RankedInvertedIndex,
            || ngrams::files::<NGRAM_WORDS>(&scan, &counts),
            |parts| {
                let mut answer = Answer::default();
                for part in parts {
                    for (row, ngram) in part.words.chunks_exact(NGRAM_WORDS).enumerate() {
                        answer.add(
                            texts(ngram).into_iter(),
                            part.files.row(row).iter().map(wide),
                        );
                    }
                }
                answer
            },
        )?,
    ])
}
