//! Answers for words of any length, as the interface returns them: places of a phrase, the next words, matches of a text, the share
//! of a text that the corpus has, and repeated passages.
//!
//! Invariant: words go in as bytes, places come out with names and offsets. How they are found is in `next_words`,
//! `longest_matches` and `repeats`.

use std::sync::Arc;

use super::access_path::Run;
use super::corpus_view::CorpusView;
use super::longest_matches::TextMatch;
use super::phrase::PhrasePlace;
use super::repeats::CorpusRepeats;
use crate::Result;
use crate::runtime::interrupt::check;

/// A word that stands behind a context.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NextWord {
    /// Its bytes; UTF-8, unless the tokenizer is `whitespace`.
    pub word: Vec<u8>,
    /// How often it stands behind the context.
    pub count: u64,
    /// Its share of all words behind the context.
    pub probability: f64,
}

/// The distribution of the word behind a context.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NextWords {
    /// Words of the context that were looked up: its last ones, or all.
    pub context_words: usize,
    /// The most frequent word first, equal counts in dictionary order.
    pub words: Vec<NextWord>,
}

/// A stretch of a text that occurs in the corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongestMatch {
    /// The number of its first word in the text.
    pub position: usize,
    /// Its length.
    pub words: usize,
    /// How often it occurs in the corpus.
    pub count: u64,
    /// A file that has it, always the same one.
    pub file: String,
    /// The byte where it begins in that file.
    pub offset: u64,
}

/// Which share of a text lies in n-grams of the corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextOverlap {
    /// Words of the text.
    pub words: usize,
    /// Words that lie in an n-gram which the corpus has.
    pub covered: usize,
    /// The longest match, the first of equal ones; none if the corpus has no word of the text.
    pub longest: Option<LongestMatch>,
}

impl TextOverlap {
    /// The covered words as a share of all, from 0 to 1; 0 for a text without words.
    pub fn share(&self) -> f64 {
        // Below 2^53.
        self.covered as f64 / self.words.max(1) as f64
    }
}

/// A passage that occurs at least twice, and of which every longer one occurs less often.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepeatedPassage {
    /// Its length in words.
    pub words: u64,
    /// How often it occurs; occurrences may overlap.
    pub count: u64,
    /// The number of files that have it.
    pub files: u64,
    /// The first file that has it.
    pub file: String,
    /// The number of its first word there.
    pub position: u64,
    /// The byte where it begins there.
    pub offset: u64,
    /// Its bytes there.
    pub length: u64,
}

/// Repeated passages, the largest product of words and count first. Each is read when it is asked for.
pub struct RepeatedPassages {
    view: Arc<CorpusView>,
    repeats: CorpusRepeats,
    next: usize,
}

impl RepeatedPassages {
    pub(crate) fn new(view: Arc<CorpusView>, repeats: CorpusRepeats) -> RepeatedPassages {
        RepeatedPassages {
            view,
            repeats,
            next: 0,
        }
    }
}

impl Iterator for RepeatedPassages {
    type Item = Result<RepeatedPassage>;

    fn next(&mut self) -> Option<Result<RepeatedPassage>> {
        let repeat = *self.repeats.all().get(self.next)?;
        self.next += 1;
        let places = match self.view.places_of_repeat(&self.repeats, repeat) {
            Ok(places) => places,
            Err(error) => return Some(Err(error)),
        };
        let files = places.chunk_by(|left, right| left.0 == right.0).count();
        // A repeat has places.
        let &(file, position) = places.first()?;
        let found = self.view.span(file, position, repeat.words as usize);
        Some(found.map(|(offset, length)| RepeatedPassage {
            words: u64::from(repeat.words),
            count: u64::from(repeat.count),
            files: files as u64,
            file: self.view.files()[file as usize].name.clone(),
            position,
            offset,
            length,
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let rest = self.repeats.all().len() - self.next;
        (rest, Some(rest))
    }
}

impl ExactSizeIterator for RepeatedPassages {}

impl CorpusView {
    /// The numbers of words; none of those that the corpus lacks.
    fn text_numbers<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Vec<Option<u32>>> {
        self.vocabulary()?;
        let words = words.iter();
        words.map(|word| self.number_of(word.as_ref())).collect()
    }

    /// The byte where some words of a file begin, and how many bytes they take, from the first to the last.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn span(&self, file: u32, position: u64, words: usize) -> Result<(u64, u64)> {
        let start = self.offset_of_word(file, position)?;
        let last = position + words as u64 - 1;
        let end = self.offset_of_word(file, last)?;
        self.vocabulary()?;
        let word = self.words_from(file, last, 1)?;
        let length = word.first().map_or(0, |&word| self.word(word).len());
        Ok((start, end + length as u64 - start))
    }

    /// The number of places of a phrase.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn count_of_phrase<W: AsRef<[u8]>>(&self, words: &[W], run: Run<'_>) -> Result<u64> {
        match self.known_numbers(words)? {
            None => Ok(0),
            Some(words) => self.phrase_count(&words, run),
        }
    }

    /// The places of a phrase, ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn places_of_phrase<W: AsRef<[u8]>>(
        &self,
        words: &[W],
        run: Run<'_>,
    ) -> Result<Vec<PhrasePlace>> {
        match self.known_numbers(words)? {
            None => Ok(Vec::new()),
            Some(words) => self.ngram_places(&words, run),
        }
    }

    /// The numbers of the words of a phrase; none if the corpus lacks one of them, or there are no words.
    fn known_numbers<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Option<Vec<u32>>> {
        let numbers: Option<Vec<u32>> = self.text_numbers(words)?.into_iter().collect();
        Ok(numbers.filter(|numbers| !numbers.is_empty()))
    }

    /// The distribution of the word behind a context; with `backoff` behind its longest end that any word follows.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn next_word_shares<W: AsRef<[u8]>>(
        &self,
        context: &[W],
        backoff: bool,
        run: Run<'_>,
    ) -> Result<NextWords> {
        let numbers = self.text_numbers(context)?;
        let (context_words, mut counts) = if backoff {
            self.next_words_of_end(&numbers, run)?
        } else {
            let numbers: Option<Vec<u32>> = numbers.into_iter().collect();
            let counts = numbers.map(|numbers| self.next_words(&numbers, run));
            (context.len(), counts.transpose()?.unwrap_or_default())
        };
        let all: u64 = counts.iter().map(|(_, count)| count).sum();
        counts.sort_unstable_by_key(|&(word, count)| (u64::MAX - count, word));
        let text = self.words();
        let words = counts.into_iter().map(|(word, count)| NextWord {
            word: text(word).to_vec(),
            count,
            // Below 2^53.
            probability: count as f64 / all as f64,
        });
        Ok(NextWords {
            context_words,
            words: words.collect(),
        })
    }

    /// The maximal matches of a text of at least `words_min` words, in order.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn text_matches<W: AsRef<[u8]>>(
        &self,
        words: &[W],
        words_min: usize,
        run: Run<'_>,
    ) -> Result<Vec<LongestMatch>> {
        let text = self.text_numbers(words)?;
        let found = self.longest_matches(&text, words_min.max(1), run)?;
        let found = found.into_iter();
        found
            .map(|found| self.described(&text, found, run))
            .collect()
    }

    fn described(
        &self,
        text: &[Option<u32>],
        found: TextMatch,
        run: Run<'_>,
    ) -> Result<LongestMatch> {
        check(run.stop)?;
        let words = &text[found.start..found.start + found.words];
        let words: Vec<u32> = words.iter().flatten().copied().collect();
        let place = self.first_place(&words, run)?;
        let (file, position) = place.unwrap_or((found.file, found.position));
        Ok(LongestMatch {
            position: found.start,
            words: found.words,
            count: self.phrase_count(&words, run)?,
            file: self.files()[file as usize].name.clone(),
            offset: self.offset_of_word(file, position)?,
        })
    }

    /// The share of a text in n-grams of the corpus of `n` words.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn text_overlap<W: AsRef<[u8]>>(
        &self,
        words: &[W],
        n: usize,
        run: Run<'_>,
    ) -> Result<TextOverlap> {
        let text = self.text_numbers(words)?;
        let found = self.longest_matches(&text, 1, run)?;
        let (mut covered, mut end) = (0, 0);
        for found in found.iter().filter(|found| found.words >= n) {
            let found_end = found.start + found.words;
            covered += found_end - found.start.max(end);
            end = found_end;
        }
        let longest = (found.into_iter()).reduce(|longest, next| {
            if next.words > longest.words {
                next
            } else {
                longest
            }
        });
        let longest = longest.map(|longest| self.described(&text, longest, run));
        Ok(TextOverlap {
            words: words.len(),
            covered,
            longest: longest.transpose()?,
        })
    }
}
