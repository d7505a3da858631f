//! Part `length`: phrases of any number of words, what comes next, where a text comes from, and what is repeated.
//!
//! Phrases and texts are cut from the corpus at random places of a seed, so that the same ones are asked for with indexes and without.

use super::timed::{Outcome, cells};
use super::{Job, ours};
use crate::Result;
use crate::corpus::Corpus;
use crate::edited_copies::{Random, edited};
use crate::report::{Cell, Table};
use crate::words::for_each_word;

/// Questions of each kind but the last.
const QUESTIONS: usize = 200;

/// Words of the phrases: short ones, and ones beyond n-grams.
const PHRASE_WORDS: [usize; 2] = [4, 20];

/// Words of a context.
const CONTEXT_WORDS: usize = 3;

/// Words of a text that is attributed, and how many of them there are.
const TEXT_WORDS: usize = 500;
const TEXTS: usize = 20;

/// Words of a repeated passage.
const REPEATED_WORDS: u32 = 50;

/// Passages of a page of them.
const PASSAGES: usize = 100;

/// Places that are drawn for a text until one has words.
const DRAWS_MAX: usize = 1_000;

/// Bytes of a word and what stands beside it, about, at most.
const WORD_BYTES: u64 = 40;

/// The kinds of questions, as names begin.
const KINDS: [&str; 5] = [
    "count of 4 words",
    "count of 20 words",
    "next words of 3 words",
    "longest matches of 500 words",
    "passages of 50 words that are repeated",
];

/// What is behind the rows.
pub fn note() -> String {
    format!(
        "Any length: {QUESTIONS} phrases from random places of the corpus by `phrase_count` and `next_words` of a snapshot, {TEXTS} texts from there of which one \
         word in 64 is replaced by `longest_matches`, and the first {PASSAGES} repeats by `duplicates`; medians, with indexes after `CREATE INDEX` of all kinds."
    )
}

/// The table of a corpus, without indexes and with them.
pub fn table(without: &Outcome, with: &Outcome) -> Table {
    let columns = [
        "first",
        "warm",
        "p99",
        "indexed first",
        "indexed",
        "indexed p99",
    ];
    let mut table = Table::new("any length, us", columns);
    for kind in KINDS {
        let cells = [without, with].map(|outcome| cells(&outcome.of_kind(kind), 1e6));
        table.row(kind, cells.into_iter().flatten().collect::<Vec<Cell>>());
    }
    table
}

/// Asks all kinds of questions.
pub fn ask(job: &Job) -> Result<Outcome> {
    let corpus = Corpus::open(&job.corpus)?;
    let database = ours::open(job)?;
    let snapshot = database.corpus("corpus")?.snapshot()?;
    let mut random = Random::new(job.seed);
    let mut texts = |count: usize, words: usize| -> Result<Vec<Vec<Vec<u8>>>> {
        (0..count)
            .map(|_| text(&corpus, words, &mut random))
            .collect()
    };
    let phrases = [
        texts(QUESTIONS, PHRASE_WORDS[0])?,
        texts(QUESTIONS, PHRASE_WORDS[1])?,
    ];
    let contexts = texts(QUESTIONS, CONTEXT_WORDS)?;
    let long = texts(TEXTS, TEXT_WORDS)?.into_iter().enumerate();
    let long = long.map(|(number, words)| {
        let copy = edited(&words.join(&b' '), job.seed + number as u64);
        words_of(&copy)
    });
    let long: Vec<Vec<Vec<u8>>> = long.collect();
    let mut asked = Vec::new();
    let numbered = |kind: &str, count: usize| -> Vec<String> {
        (0..count)
            .map(|number| format!("{kind}, {number}"))
            .collect()
    };
    for (kind, phrases) in KINDS.iter().zip(&phrases) {
        asked.extend(job.ask(&numbered(kind, phrases.len()), |index| {
            Ok((snapshot.phrase_count(&phrases[index])?, Vec::new()))
        })?);
    }
    asked.extend(job.ask(&numbered(KINDS[2], contexts.len()), |index| {
        let next = snapshot.next_words(&contexts[index], false)?;
        Ok((next.words.len() as u64, Vec::new()))
    })?);
    asked.extend(job.ask(&numbered(KINDS[3], long.len()), |index| {
        let matches = snapshot.longest_matches(&long[index], 1)?;
        let words = matches.iter().map(|found| found.words as u64);
        Ok((words.sum(), Vec::new()))
    })?);
    let repeated = job.ask(&numbered(KINDS[4], 1), |_| {
        let passages = snapshot.duplicates(REPEATED_WORDS)?.take(PASSAGES);
        let words = passages.map(|passage| Ok(passage?.words));
        Ok((words.sum::<Result<u64>>()?, Vec::new()))
    });
    match repeated {
        Ok(repeated) => asked.extend(repeated),
        // What a corpus needs may be more than the limit.
        Err(error) if error.to_string().contains("memory_limit") => eprintln!("{error}"),
        Err(error) => return Err(error),
    }
    Ok(Outcome::of(asked))
}

/// Words from a random place on, fewer only where a file ends before.
fn text(corpus: &Corpus, count: usize, random: &mut Random) -> Result<Vec<Vec<u8>>> {
    for _ in 0..DRAWS_MAX {
        let words = drawn(corpus, count, random)?;
        if !words.is_empty() {
            return Ok(words);
        }
    }
    Err("too few words to ask for".into())
}

/// The same, without any word where none stands.
fn drawn(corpus: &Corpus, count: usize, random: &mut Random) -> Result<Vec<Vec<u8>>> {
    let mut place = random.below(corpus.size());
    let mut files = corpus.files.iter();
    let file = files.find(|file| {
        let is_here = place < file.size;
        if !is_here {
            place -= file.size;
        }
        is_here
    });
    let file = file.ok_or("no text")?;
    let length = (count as u64 + 2) * WORD_BYTES;
    let text = super::places::read(
        &file.path,
        place.min(file.size.saturating_sub(length)),
        length,
    )?;
    let mut words = words_of(&text);
    // What stands at the begin may be a part of a word.
    if words.len() > count {
        words.remove(0);
    }
    words.truncate(count);
    Ok(words)
}

fn words_of(text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for_each_word(text, |range| words.push(text[range].to_vec()));
    words
}
