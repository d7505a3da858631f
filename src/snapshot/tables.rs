//! Answers about all words or n-grams of a corpus, as tables of numbers.
//!
//! The invariant: words and n-grams stand in dictionary order of their words, each once, and files are places in
//! [`crate::Snapshot::files`]. Words are numbers until their bytes are asked for, which stay in the dictionaries.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use zipfdb_kernels::{CountTable, NgramFiles};

use super::CorpusView;
use super::tasks::Ngrams;

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
        let (words, ranks) = self.view.byte_order();
        let of = |word: u32, count| (self.view.word(word), count);
        if self
            .counts
            .iter()
            .any(|&(_, count)| count > u64::from(u32::MAX))
        {
            let mut order = self.counts.clone();
            order.sort_unstable_by_key(|&(word, count)| (Reverse(count), ranks[word as usize]));
            return order
                .into_iter()
                .map(|(word, count)| of(word, count))
                .collect();
        }
        // Counts fit u32 here; count and place in one integer sort faster than pairs that are looked up.
        let keys = self.counts.iter();
        let key = |&(word, count): &(u32, u64)| {
            u64::from(!(count as u32)) << 32 | u64::from(ranks[word as usize])
        };
        let mut keys: Vec<u64> = keys.map(key).collect();
        keys.sort_unstable();
        let rows = keys.into_iter().map(|key| {
            let (count, rank) = (!(key >> 32) as u32, key as u32);
            of(words[rank as usize], u64::from(count))
        });
        rows.collect()
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

/// Words or n-grams, each with the files that it occurs in and how often.
#[derive(Clone)]
pub struct FileCounts {
    view: Arc<CorpusView>,
    n: usize,
    parts: Vec<NgramFiles>,
}

impl FileCounts {
    pub(super) fn new(view: Arc<CorpusView>, n: usize, parts: Vec<NgramFiles>) -> FileCounts {
        FileCounts { view, n, parts }
    }

    /// How many different words or n-grams there are.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.files.rows()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each word or n-gram with its files, places in [`crate::Snapshot::files`], and how often it occurs in each.
    pub fn iter(&self) -> impl Iterator<Item = (Ngram<'_>, &[(u32, u32)])> {
        self.parts.iter().flat_map(|part| {
            let words = part.words.chunks_exact(self.n);
            let rows = (0..part.files.rows()).map(|row| part.files.row(row));
            words.map(|words| Ngram::new(&self.view, words)).zip(rows)
        })
    }
}

/// N-grams with their counts.
#[derive(Clone)]
pub struct NgramCounts {
    view: Arc<CorpusView>,
    n: usize,
    parts: Arc<[Ngrams<u64>]>,
}

impl NgramCounts {
    pub(super) fn new(view: Arc<CorpusView>, n: usize, parts: Vec<Ngrams<u64>>) -> NgramCounts {
        NgramCounts {
            view,
            n,
            parts: parts.into(),
        }
    }

    /// How many different n-grams there are.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.values.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each n-gram with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Ngram<'_>, u64)> {
        self.parts.iter().flat_map(|part| {
            let words = part.words.chunks_exact(self.n);
            let ngrams = words.map(|words| Ngram::new(&self.view, words));
            ngrams.zip(part.values.iter().copied())
        })
    }
}

/// Some words in a row.
#[derive(Clone, Copy)]
pub struct Ngram<'a> {
    view: &'a CorpusView,
    words: &'a [u32],
}

impl<'a> Ngram<'a> {
    pub(crate) fn new(view: &'a CorpusView, words: &'a [u32]) -> Ngram<'a> {
        Ngram { view, words }
    }

    /// The words. With tokenizer `whitespace` a word may be no UTF-8.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let view = self.view;
        self.words.iter().map(move |&word| view.word(word))
    }

    /// The words, joined by a space.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (index, word) in self.words().enumerate() {
            if index > 0 {
                text.push(b' ');
            }
            text.extend_from_slice(word);
        }
        text
    }
}

impl fmt::Debug for Ngram<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.text()), formatter)
    }
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
