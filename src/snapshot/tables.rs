//! Answers about all words or n-grams of a corpus, as tables of numbers.
//!
//! The invariant: words and n-grams stand in dictionary order of their words, each once, and files are places in
//! [`crate::Snapshot::files`]. Words are numbers until their bytes are asked for, which stay in the dictionaries.

use std::fmt;
use std::sync::Arc;

use zipfdb_kernels::CountTable;

use super::CorpusView;

/// Words with their counts, in dictionary order: by case-folded word, then word.
#[derive(Clone)]
pub struct WordCounts {
    view: Arc<CorpusView>,
    counts: Vec<(u32, u64)>,
}

impl WordCounts {
    pub(super) fn new(view: Arc<CorpusView>, counts: Vec<(u32, u64)>) -> WordCounts {
        WordCounts { view, counts }
    }

    /// How many different words there are.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is no word.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Each word with its count. With tokenizer `whitespace` a word may be no UTF-8.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], u64)> {
        (self.counts.iter()).map(|&(word, count)| (self.view.word(word), count))
    }

    /// As [`WordCounts::iter`], the most frequent first, equal counts in order of the bytes of the word: TADOC's "sort".
    pub fn sorted(&self) -> Vec<(&[u8], u64)> {
        let ranks = self.view.byte_ranks();
        let mut order = self.counts.clone();
        order.sort_unstable_by_key(|&(word, count)| {
            (std::cmp::Reverse(count), ranks[word as usize])
        });
        let words = order.into_iter();
        words
            .map(|(word, count)| (self.view.word(word), count))
            .collect()
    }

    /// All counts together.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|&(_, count)| count).sum()
    }
}

/// The words of each file with their counts.
#[derive(Clone)]
pub struct TermVectors {
    view: Arc<CorpusView>,
    table: CountTable,
}

impl TermVectors {
    pub(super) fn new(view: Arc<CorpusView>, table: CountTable) -> TermVectors {
        TermVectors { view, table }
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.table.rows()
    }

    /// The words of a file and how often each occurs there, in dictionary order.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn words(&self, file: usize) -> impl ExactSizeIterator<Item = (&[u8], u32)> {
        let row = self.table.row(file).iter();
        row.map(|&(word, count)| (self.view.word(word), count))
    }

    /// For each file its `k` most frequent words, equal counts in order of the bytes of the word.
    pub fn top(&self, k: usize) -> Vec<Vec<(&[u8], u32)>> {
        let ranks = self.view.byte_ranks();
        let top = self.table.top(k, |word| ranks[word as usize]);
        let rows = top.into_iter().map(|row| {
            let row = row.into_iter();
            row.map(|(word, count)| (self.view.word(word), count))
                .collect()
        });
        rows.collect()
    }
}

/// The files of each word or n-gram with counts.
#[derive(Clone)]
pub struct FileCounts {
    view: Arc<CorpusView>,
    n: usize,
    words: Vec<u32>,
    table: CountTable,
}

impl FileCounts {
    pub(super) fn new(
        view: Arc<CorpusView>,
        n: usize,
        words: Vec<u32>,
        table: CountTable,
    ) -> FileCounts {
        FileCounts {
            view,
            n,
            words,
            table,
        }
    }

    /// How many different words or n-grams there are.
    pub fn len(&self) -> usize {
        self.table.rows()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The n-gram at `index`, its words joined by a space.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn text(&self, index: usize) -> Vec<u8> {
        joined(
            &self.view,
            &self.words[index * self.n..(index + 1) * self.n],
        )
    }

    /// The files that the n-gram at `index` occurs in, and how often.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn files(&self, index: usize) -> &[(u32, u32)] {
        self.table.row(index)
    }
}

/// N-grams with their counts.
#[derive(Clone)]
pub struct NgramCounts {
    view: Arc<CorpusView>,
    n: usize,
    words: Vec<u32>,
    counts: Vec<u64>,
}

impl NgramCounts {
    pub(super) fn new(
        view: Arc<CorpusView>,
        n: usize,
        words: Vec<u32>,
        counts: Vec<u64>,
    ) -> NgramCounts {
        NgramCounts {
            view,
            n,
            words,
            counts,
        }
    }

    /// How many different n-grams there are.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The n-gram at `index`, its words joined by a space.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn text(&self, index: usize) -> Vec<u8> {
        joined(
            &self.view,
            &self.words[index * self.n..(index + 1) * self.n],
        )
    }

    /// How often each n-gram occurs.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
}

fn joined(view: &CorpusView, words: &[u32]) -> Vec<u8> {
    let mut text = Vec::new();
    for (index, &word) in words.iter().enumerate() {
        if index > 0 {
            text.push(b' ');
        }
        text.extend_from_slice(view.word(word));
    }
    text
}

macro_rules! debug_by_size {
    ($($name:ident: $size:ident,)*) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                (formatter.debug_struct(stringify!($name)))
                    .field(stringify!($size), &self.$size())
                    .finish_non_exhaustive()
            }
        })*
    };
}

debug_by_size! {
    WordCounts: len,
    TermVectors: files,
    FileCounts: len,
    NgramCounts: len,
}
