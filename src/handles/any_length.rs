//! Questions of a `Snapshot` for words of any length: the next word, matches of a text, repeated passages.
//!
//! Invariant: answers are exact for any number of words, with edits and over several segments. Words are given as the tokenizer
//! of the corpus cuts them ([`crate::Corpus::words_of`]).

use super::snapshot::Snapshot;
use crate::Result;
use crate::answer::{LongestMatch, NextWords, RepeatedPassages, TextOverlap};

impl Snapshot {
    /// The distribution of the word that stands behind a context of any number of words, 0 included. With `backoff` the context is
    /// its longest end that any word follows, as infini-gram does it; without, a context that does not occur has no next words.
    ///
    /// ```
    /// use zipfdb::{CorpusSettings, Database};
    ///
    /// let db = Database::in_memory()?;
    /// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
    /// corpus.append("a.txt", "the cat sat, the cat ran, the dog sat")?;
    ///
    /// let snapshot = corpus.snapshot()?;
    /// let next = snapshot.next_words(&["the"], false)?;
    /// assert_eq!((&next.words[0].word[..], next.words[0].count), (&b"cat"[..], 2));
    /// assert!(snapshot.next_words(&["a", "cat"], false)?.words.is_empty());
    /// let next = snapshot.next_words(&["a", "cat"], true)?;
    /// assert_eq!((next.context_words, next.words.len()), (1, 2));
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    ///
    /// Cost: a look-up in the suffix array of each segment, and the next words; until queries have paid for that, the places of the
    /// context on the grammar.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn next_words<W: AsRef<[u8]> + Sync>(
        &self,
        context: &[W],
        backoff: bool,
    ) -> Result<NextWords> {
        self.watched(|view, run| view.next_word_shares(context, backoff, run))
    }

    /// The maximal matches of a text, in order: the stretches of at least `words_min` words (and at least 1) that occur in the
    /// corpus, of which no longer stretch of the text does.
    ///
    /// ```
    /// use zipfdb::{CorpusSettings, Database};
    ///
    /// let db = Database::in_memory()?;
    /// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
    /// corpus.append("a.txt", "the cat sat on the mat")?;
    ///
    /// let text = corpus.words_of("The dog: 'the cat sat on a mat'.")?;
    /// let found = corpus.snapshot()?.longest_matches(&text, 2)?;
    /// assert_eq!(found.len(), 1);
    /// assert_eq!((found[0].position, found[0].words, found[0].offset), (2, 4, 0));
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn longest_matches<W: AsRef<[u8]> + Sync>(
        &self,
        text: &[W],
        words_min: usize,
    ) -> Result<Vec<LongestMatch>> {
        self.watched(|view, run| view.text_matches(text, words_min, run))
    }

    /// The share of a text's words that lie in n-grams of `n` words (at least 1) which the corpus has, and its longest match.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn overlap<W: AsRef<[u8]> + Sync>(&self, text: &[W], n: usize) -> Result<TextOverlap> {
        self.watched(|view, run| view.text_overlap(text, n.max(1), run))
    }

    /// As [`Snapshot::overlap`], for many texts.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn overlap_many<T, W>(&self, texts: &[T], n: usize) -> Result<Vec<TextOverlap>>
    where
        T: AsRef<[W]> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        self.watched(|view, run| {
            let texts = texts.iter();
            texts
                .map(|text| view.text_overlap(text.as_ref(), n.max(1), run))
                .collect()
        })
    }

    /// The repeated passages of at least `words_min` words, the largest product of words and count first: every passage that
    /// occurs at least twice and of which each longer one occurs less often.
    ///
    /// ```
    /// use zipfdb::{CorpusSettings, Database};
    ///
    /// let db = Database::in_memory()?;
    /// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
    /// corpus.append("a.txt", "one: the cat sat on the mat")?;
    /// corpus.append("b.txt", "two: the cat sat on the chair")?;
    ///
    /// let passage = corpus.snapshot()?.duplicates(3)?.next().unwrap()?;
    /// assert_eq!((passage.words, passage.count, passage.files), (5, 2, 2));
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    ///
    /// Cost: sorts all words of the corpus, in 24 bytes a word; a corpus of one segment without edits keeps the result.
    ///
    /// # Errors
    /// If a segment is damaged, or `memory_limit` does not have the memory.
    pub fn duplicates(&self, words_min: u32) -> Result<RepeatedPassages> {
        let repeats = self.watched(|view, run| view.repeats(words_min, run))?;
        Ok(RepeatedPassages::new(self.view().clone(), repeats))
    }
}
