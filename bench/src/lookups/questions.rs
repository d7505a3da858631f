//! The questions, and what the plain text answers.
//!
//! The invariant: a corpus, a number and a seed give the same questions everywhere. Answers are computed from the text
//! alone, by the tokenizer of `words` and by comparing bytes.

use std::collections::HashMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::corpus::Corpus;
use crate::scan::Scan;
use crate::words::{self, Words};

/// Questions whose places and bytes are compared.
pub const SAMPLE: usize = 200;

/// Questions in a batch at most.
pub const BATCH_MAX: usize = 100_000;

/// Occurrences that a batch finds, about, at most.
pub const BATCH_HITS_MAX: u64 = 16 << 20;

/// Bytes of the two kinds of extracts.
pub const SHORT: u64 = 64;
pub const LONG: u64 = 4 << 10;

/// All questions about one corpus.
#[derive(Serialize, Deserialize)]
pub struct Questions {
    /// Names of the files.
    pub files: Vec<String>,
    /// For each row that [`Corpus::for_each_row`] gives its file and where in the file it begins.
    pub rows: Vec<(usize, u64)>,
    /// File and word, for counts and searches.
    pub words: Vec<(usize, String)>,
    /// Where batches of searches end in `words`.
    pub search_ends: Vec<usize>,
    pub phrases: Vec<(String, String)>,
    /// File and offset.
    pub places: Vec<(usize, u64)>,
}

/// Answers to the questions, as far as they were asked.
#[derive(Serialize, Deserialize)]
pub struct Answers {
    pub counts: Vec<u64>,
    pub phrases: Vec<u64>,
    /// Answers of the first questions only.
    pub searches: Vec<Vec<u64>>,
    pub short: Vec<Vec<u8>>,
    pub long: Vec<Vec<u8>>,
}

impl Answers {
    /// # Errors
    /// If `other` has another answer to a question.
    pub fn compare(&self, other: &Answers) -> Result<()> {
        compare("counts", &self.counts, &other.counts)?;
        compare("counts of phrases", &self.phrases, &other.phrases)?;
        compare("searches", &self.searches, &other.searches)?;
        compare("short extracts", &self.short, &other.short)?;
        compare("long extracts", &self.long, &other.long)
    }
}

fn compare<T: PartialEq>(what: &str, expected: &[T], found: &[T]) -> Result<()> {
    let mut pairs = expected.iter().zip(found);
    match pairs.position(|(expected, found)| expected != found) {
        None => Ok(()),
        Some(index) => Err(format!("{what} differ from the text, first number {index}").into()),
    }
}

impl Questions {
    /// Draws `count` questions of each kind and answers them.
    pub fn draw(corpus: &Corpus, count: usize, seed: u64) -> Result<(Questions, Answers)> {
        let words = Words::new(&words::read_pieces(corpus)?, corpus.files.len())?;
        if words.words.len() < 2 {
            return Err(format!("{}: too few words to ask for", corpus.name).into());
        }
        let mut random = Random(seed);
        let pairs: Vec<(usize, u32)> = (0..count).map(|_| draw_word(&words, &mut random)).collect();
        let phrases: Vec<[u32; 2]> = (0..count)
            .map(|_| draw_phrase(&words, &mut random))
            .collect();
        let places = (0..count).map(|_| draw_place(corpus, &mut random));
        let places: Vec<(usize, u64)> = places.collect();

        let counts = word_counts(&words, &pairs);
        let text =
            |word: u32| String::from_utf8_lossy(&words.dictionary[word as usize]).into_owned();
        let mut questions = Questions {
            files: corpus.files.iter().map(|file| file.name.clone()).collect(),
            rows: Vec::new(),
            words: pairs
                .iter()
                .map(|&(file, word)| (file, text(word)))
                .collect(),
            search_ends: batch_ends(&counts),
            phrases: phrases
                .iter()
                .map(|&[first, second]| (text(first), text(second)))
                .collect(),
            places,
        };
        let (mut file, mut begin) = (0, 0);
        corpus.for_each_row(|row| {
            if row.number == 0 {
                (file, begin) = (file + 1, 0);
            }
            questions.rows.push((file - 1, begin));
            begin += row.content.len() as u64;
            Ok(())
        })?;
        let mut answers = Answers {
            counts,
            phrases: phrase_counts(&words, &phrases),
            searches: vec![Vec::new(); count.min(SAMPLE)],
            short: vec![Vec::new(); count.min(SAMPLE)],
            long: vec![Vec::new(); count.min(SAMPLE)],
        };
        drop(words);
        questions.answer_sample(corpus, &mut answers)?;
        Ok((questions, answers))
    }

    /// Reads each file that the sample asks about once.
    fn answer_sample(&self, corpus: &Corpus, answers: &mut Answers) -> Result<()> {
        for (number, file) in corpus.files.iter().enumerate() {
            let mut asked: HashMap<&[u8], Vec<usize>> = HashMap::new();
            for (question, (file, word)) in self.words.iter().take(SAMPLE).enumerate() {
                if *file == number {
                    asked.entry(word.as_bytes()).or_default().push(question);
                }
            }
            let places = self.places.iter().take(SAMPLE).enumerate();
            let mut places = places.filter(|(_, (file, _))| *file == number).peekable();
            if asked.is_empty() && places.peek().is_none() {
                continue;
            }
            let text = fs::read(&file.path)?;
            for (question, &(_, offset)) in places {
                let rest = &text[offset as usize..];
                let part = |length: u64| rest[..rest.len().min(length as usize)].to_vec();
                answers.short[question] = part(SHORT);
                answers.long[question] = part(LONG);
            }
            if asked.is_empty() {
                continue;
            }
            words::for_each_word(&text, |range| {
                for &question in asked.get(&text[range.clone()]).into_iter().flatten() {
                    answers.searches[question].push(range.start as u64);
                }
            });
        }
        Ok(())
    }
}

fn draw_word(words: &Words, random: &mut Random) -> (usize, u32) {
    if random.below(2) == 0 {
        let index = random.below(words.words.len());
        (words.file_of(index), words.words[index])
    } else {
        // Words are numbered by u32.
        (
            random.below(words.file_offsets.len() - 1),
            random.below(words.dictionary.len()) as u32,
        )
    }
}

fn draw_phrase(words: &Words, random: &mut Random) -> [u32; 2] {
    if random.below(2) == 0 {
        // At the end of a file it may be no phrase of the text: then it is one more that has to be counted right.
        let index = random.below(words.words.len() - 1);
        [words.words[index], words.words[index + 1]]
    } else {
        [(); 2].map(|()| random.below(words.dictionary.len()) as u32)
    }
}

fn draw_place(corpus: &Corpus, random: &mut Random) -> (usize, u64) {
    let mut offset = random.below(corpus.size().max(1) as usize) as u64;
    for (number, file) in corpus.files.iter().enumerate() {
        if offset < file.size {
            return (number, offset);
        }
        offset -= file.size;
    }
    (0, 0)
}

fn word_counts(words: &Words, pairs: &[(usize, u32)]) -> Vec<u64> {
    let scan = Scan {
        words: &words.words,
        file_offsets: &words.file_offsets,
        // Words are numbered by u32.
        word_count: words.dictionary.len() as u32,
    };
    let table = scan.file_word_counts();
    let count = |&(file, word): &(usize, u32)| {
        let row = table.row(file);
        let found = row.binary_search_by_key(&word, |&(word, _)| word);
        found.map_or(0, |at| u64::from(row[at].1))
    };
    pairs.iter().map(count).collect()
}

fn phrase_counts(words: &Words, phrases: &[[u32; 2]]) -> Vec<u64> {
    let mut counts: HashMap<[u32; 2], u64> = phrases.iter().map(|&phrase| (phrase, 0)).collect();
    for file in 0..words.file_offsets.len() - 1 {
        for pair in words.file(file).windows(2) {
            if let Some(count) = counts.get_mut(&[pair[0], pair[1]]) {
                *count += 1;
            }
        }
    }
    phrases.iter().map(|phrase| counts[phrase]).collect()
}

/// Cuts questions that have these many hits into batches.
fn batch_ends(hits: &[u64]) -> Vec<usize> {
    let (mut ends, mut start, mut sum) = (Vec::new(), 0, 0);
    for (index, hits) in hits.iter().enumerate() {
        sum += hits;
        if sum > BATCH_HITS_MAX || index + 1 - start == BATCH_MAX {
            ends.push(index + 1);
            (start, sum) = (index + 1, 0);
        }
    }
    if start < hits.len() {
        ends.push(hits.len());
    }
    ends
}

/// SplitMix64 (Steele, Lea and Flood 2014).
pub struct Random(pub u64);

impl Random {
    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // Below `end`, which is a usize.
        ((u128::from(mixed) * end as u128) >> 64) as usize
    }
}
