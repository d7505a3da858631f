//! Answers about all words or n-grams of a corpus, as tables of numbers.
//!
//! The invariant: words and n-grams stand in dictionary order of their words, each once, and files are places in
//! [`crate::Snapshot::files`]. Words are numbers; their bytes stay in the dictionaries.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use zipfdb_kernels::{CountTable, NGRAM_WORDS_MAX, NgramFiles, SharedRows};

use crate::answer::CorpusView;
use crate::answer::counted_ngrams::WithCounts;
use crate::answer::ngram_files::WithFiles;
use crate::answer::ngram_payload::NgramsPart;

/// Fewer words than this part of all are sorted by comparing: 1/`FEW_PART`.
const FEW_PART: usize = 8;

/// Rows with at least this count are sorted by it.
const LARGE_COUNT: u64 = 1 << 10;

/// Words with their counts, in dictionary order: by case-folded word, then word.
#[derive(Clone)]
pub struct WordCounts {
    view: Arc<CorpusView>,
    counts: Vec<(u32, u64)>,
}

impl WordCounts {
    pub(crate) fn new(view: Arc<CorpusView>, counts: Vec<(u32, u64)>) -> WordCounts {
        WordCounts { view, counts }
    }

    /// The number of different words.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Each word with its count. With tokenizer `whitespace` a word may be no UTF-8.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], u64)> {
        (self.counts.iter()).map(|&(word, count)| (self.view.word(word), count))
    }

    /// As [`WordCounts::iter`], each word a copy.
    pub fn to_vec(&self) -> Vec<(Vec<u8>, u64)> {
        let rows = self.iter();
        rows.map(|(word, count)| (word.to_vec(), count)).collect()
    }

    /// As [`WordCounts::iter`], the most frequent first, equal counts in order of the bytes of the word: TADOC's "sort".
    ///
    /// Words are taken in order of their bytes, which is cached and close to that of the dictionary, and placed by their counts;
    /// only the few with large counts are sorted.
    pub fn sorted(&self) -> Vec<(&[u8], u64)> {
        let (order, ranks) = self.view.byte_order();
        if self.counts.len() < order.len() / FEW_PART {
            let mut counts = self.counts.clone();
            counts.sort_unstable_by_key(|&(word, count)| (Reverse(count), ranks[word as usize]));
            let rows = counts.into_iter();
            return (rows.map(|(word, count)| (self.view.word(word), count))).collect();
        }
        let mut spread = Vec::new();
        // By word; words that do not occur have no count.
        let counts = if self.counts.len() == order.len() {
            &self.counts
        } else {
            spread.resize(order.len(), (0, 0));
            for &(word, count) in &self.counts {
                spread[word as usize] = (word, count);
            }
            &spread
        };
        // By count; the last one for all larger counts.
        let mut places = vec![0; LARGE_COUNT as usize + 1];
        for &(_, count) in &self.counts {
            places[count.min(LARGE_COUNT) as usize] += 1;
        }
        let large = places[LARGE_COUNT as usize];
        let mut before = 0;
        for place in places.iter_mut().rev() {
            (*place, before) = (before, before + *place);
        }
        let mut sorted = vec![0; self.counts.len()];
        for &word in order {
            let (_, count) = counts[word as usize];
            if count > 0 {
                let place = &mut places[count.min(LARGE_COUNT) as usize];
                sorted[*place] = word;
                *place += 1;
            }
        }
        sorted[..large].sort_by_key(|&word| Reverse(counts[word as usize].1));
        let text = self.view.words();
        let rows = sorted.into_iter();
        (rows.map(|word: u32| (text(word), counts[word as usize].1))).collect()
    }

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|&(_, count)| count).sum()
    }
}

/// The words of each file with their counts.
#[derive(Clone)]
pub struct TermVectors {
    view: Arc<CorpusView>,
    table: Arc<CountTable>,
}

impl TermVectors {
    pub(crate) fn new(view: Arc<CorpusView>, table: Arc<CountTable>) -> TermVectors {
        TermVectors { view, table }
    }

    /// The number of files.
    pub fn files(&self) -> usize {
        self.table.rows()
    }

    /// The words of a file with their counts, in dictionary order.
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
        let top = || self.table.top(k, |word| ranks[word as usize]);
        let top = self.view.pool().install(top);
        let rows = top.into_iter().map(|row| {
            let row = row.into_iter();
            row.map(|(word, count)| (self.view.word(word), count))
                .collect()
        });
        rows.collect()
    }
}

/// Words or n-grams, each with its files and counts.
#[derive(Clone)]
pub struct FileCounts {
    view: Arc<CorpusView>,
    n: usize,
    rows: CountedRows,
}

/// The rows of [`FileCounts`].
#[derive(Clone)]
enum CountedRows {
    /// Words, with a row of files for every word.
    Words {
        words: Arc<[u32]>,
        files: Arc<CountTable>,
    },
    /// N-grams, in parts.
    Ngrams(Arc<[NgramsPart<WithFiles>]>),
}

/// The files of a word or n-gram, places in [`crate::Snapshot::files`], with counts: a slice of them.
#[derive(Clone)]
pub struct FileList<'a>(Lent<'a>);

/// The owner of a row of files.
#[derive(Clone)]
enum Lent<'a> {
    Table(&'a [(u32, u32)]),
    /// A row of a part that was read for this.
    Part(Arc<SharedRows>, usize),
}

impl Deref for FileList<'_> {
    type Target = [(u32, u32)];

    fn deref(&self) -> &[(u32, u32)] {
        match &self.0 {
            Lent::Table(row) => row,
            Lent::Part(rows, row) => rows.row(*row),
        }
    }
}

impl fmt::Debug for FileList<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl FileCounts {
    /// The rows of n-grams.
    pub(crate) fn new(
        view: Arc<CorpusView>,
        n: usize,
        parts: Vec<NgramsPart<WithFiles>>,
    ) -> FileCounts {
        FileCounts {
            view,
            n,
            rows: CountedRows::Ngrams(parts.into()),
        }
    }

    /// The rows of all words.
    pub(crate) fn of_words(view: Arc<CorpusView>, files: Arc<CountTable>) -> FileCounts {
        // Words are numbered by u32. After edits some may have no files.
        let all = 0..files.rows() as u32;
        let words = all.filter(|&word| !files.row(word as usize).is_empty());
        FileCounts {
            view,
            n: 1,
            rows: CountedRows::Words {
                words: words.collect(),
                files,
            },
        }
    }

    /// The number of different words or n-grams.
    pub fn len(&self) -> usize {
        match &self.rows {
            CountedRows::Words { words, .. } => words.len(),
            CountedRows::Ngrams(parts) => parts.iter().map(NgramsPart::len).sum(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each word or n-gram with its files. N-grams are packed in memory, and read part by part.
    pub fn iter(&self) -> impl Iterator<Item = (Ngram<'_>, FileList<'_>)> {
        let (words, ngrams) = match &self.rows {
            CountedRows::Words { words, files } => (Some((words, files)), &[][..]),
            CountedRows::Ngrams(parts) => (None, &parts[..]),
        };
        let of_words = words.into_iter().flat_map(|(words, files)| {
            words.iter().map(|word| {
                let row = files.row(*word as usize);
                let ngram = Ngram::new(&self.view, std::slice::from_ref(word));
                (ngram, FileList(Lent::Table(row)))
            })
        });
        let of_ngrams = ngrams.iter().flat_map(move |part| {
            let NgramFiles { words, files } = part.clone().into_plain();
            let (n, files) = (self.n, Arc::new(files));
            (0..files.rows()).map(move |row| {
                let ngram = Ngram::new(&self.view, &words[row * n..][..n]);
                (ngram, FileList(Lent::Part(files.clone(), row)))
            })
        });
        of_words.chain(of_ngrams)
    }
}

/// N-grams with their counts.
#[derive(Clone)]
pub struct NgramCounts {
    view: Arc<CorpusView>,
    n: usize,
    parts: Arc<[NgramsPart<WithCounts>]>,
}

impl NgramCounts {
    pub(crate) fn new(
        view: Arc<CorpusView>,
        n: usize,
        parts: Vec<NgramsPart<WithCounts>>,
    ) -> NgramCounts {
        NgramCounts {
            view,
            n,
            parts: parts.into(),
        }
    }

    /// The number of different n-grams.
    pub fn len(&self) -> usize {
        self.parts.iter().map(NgramsPart::len).sum()
    }

    /// Whether there are no n-grams.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each n-gram with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Ngram<'_>, u64)> {
        self.parts.iter().flat_map(|part| {
            let mut rows = Vec::with_capacity(part.len());
            part.for_each(self.n, |(words, count)| {
                rows.push((Ngram::new(&self.view, words), count));
            });
            rows
        })
    }
}

/// Consecutive words.
#[derive(Clone, Copy)]
pub struct Ngram<'a> {
    view: &'a CorpusView,
    words: [u32; NGRAM_WORDS_MAX],
    n: usize,
}

impl<'a> Ngram<'a> {
    /// An n-gram of at most [`NGRAM_WORDS_MAX`] words.
    pub(crate) fn new(view: &'a CorpusView, words: &[u32]) -> Ngram<'a> {
        let mut ngram = Ngram {
            view,
            words: [0; NGRAM_WORDS_MAX],
            n: words.len(),
        };
        ngram.words[..words.len()].copy_from_slice(words);
        ngram
    }

    /// The words. With tokenizer `whitespace` a word may be no UTF-8.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let view = self.view;
        self.words
            .into_iter()
            .take(self.n)
            .map(move |word| view.word(word))
    }

    /// The words, joined by a space.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.push_text(&mut text);
        text
    }

    /// Appends the words, joined by a space.
    pub(crate) fn push_text(&self, text: &mut Vec<u8>) {
        for (index, word) in self.words().enumerate() {
            if index > 0 {
                text.push(b' ');
            }
            text.extend_from_slice(word);
        }
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
