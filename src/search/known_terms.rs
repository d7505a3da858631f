//! Words of queries with the files that have them, kept between statements.
//!
//! Invariant: what is kept of a word is that of the view it was found in, by the numbers of its files; a view with pending edits
//! keeps its own, made of the stored files' and the edits. What is kept takes at most a share of the cache, which holds it and may
//! evict it as a whole. Nothing is evicted that a query uses.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::RwLock;
use rayon::prelude::*;
use zipfdb_search::algebra::{TextTest, WordTest};
use zipfdb_search::measures::Bm25Word;

use super::context;
use super::file_postings::FilePostings;
use super::words::passing;
use crate::Result;
use crate::answer::CorpusView;
use crate::answer::access_path::Run;
use crate::runtime::interrupt::check;

/// More words than this are counted together by a pass over all words of the files.
const COUNTED_WORDS_MAX: usize = 256;

/// Places of more words than this are found by reading all words of a file.
const PLACED_WORDS_MAX: usize = 64;

/// What is kept takes at most 1/`CACHE_SHARE` of the cache, the places of one word at most 1/`PLACES_SHARE`.
const CACHE_SHARE: u64 = 4;
const PLACES_SHARE: u64 = 32;

/// Nanoseconds of finding all places of a word, for each of them.
const PLACE_COST: u64 = 100;

/// Nanoseconds of finding the places of a word in one file.
const FILE_COST: u64 = 10_000;

/// The words that queries of a view have asked for.
#[derive(Default)]
pub(super) struct KnownTerms {
    terms: RwLock<HashMap<TextTest, Arc<KnownTerm>>>,
    bytes: AtomicU64,
    /// Nanoseconds.
    price: AtomicU64,
}

/// The words that pass a test, and the files that have one.
pub(super) struct KnownTerm {
    test: TextTest,
    /// Ascending.
    words: Vec<u32>,
    postings: FilePostings,
    /// The scores of the files, of the first query that asked for scores.
    scores: OnceLock<Arc<PostingScores>>,
    /// Where the words stand in the files, once that was asked for often enough; not with pending edits.
    places: OnceLock<KeptPlaces>,
    /// Nanoseconds that queries have spent without them.
    spent: AtomicU64,
    /// With pending edits: the same words in the stored files, and the places in files with edits, once places were asked for.
    stored: OnceLock<Arc<KnownTerm>>,
    edited: OnceLock<HashMap<u32, Vec<u32>>>,
}

/// Scores of files, in their order.
pub(super) struct PostingScores {
    word: Bm25Word,
    pub(super) of_files: Vec<f64>,
    /// The greatest in each block.
    pub(super) maxima: Vec<f64>,
}

/// Places in files, in the order of files.
struct KeptPlaces {
    /// Where those of each file begin, and behind the last their number.
    starts: Vec<u32>,
    places: Vec<u32>,
}

/// Where the words of a query are looked up.
#[derive(Clone, Copy)]
pub(super) struct TermSource<'a> {
    pub(super) view: &'a Arc<CorpusView>,
    pub(super) known: &'a KnownTerms,
    /// The run that may read segments; without one only what is kept is asked.
    pub(super) run: Option<Run<'a>>,
}

impl KnownTerms {
    /// What is kept for a view.
    pub(super) fn of(view: &CorpusView) -> Arc<KnownTerms> {
        view.search_terms().get_or_begin()
    }

    /// Charges the cache for what was made since `begin`.
    fn charge(&self, view: &CorpusView, bytes: usize, begin: Instant) {
        let slot = view.search_terms();
        // 64 bits are enough for both.
        let (bytes, price) = (bytes as u64, begin.elapsed().as_nanos() as u64);
        let mut all = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let price = self.price.fetch_add(price, Ordering::Relaxed) + price;
        if all > slot.limit() / CACHE_SHARE {
            let dropped = std::mem::take(&mut *self.terms.write());
            self.bytes.store(0, Ordering::Relaxed);
            drop(dropped);
            all = 0;
        }
        slot.resize(all, price);
    }
}

impl TermSource<'_> {
    /// The words that pass a test; none if they are not kept and must not be looked up.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(super) fn term(&self, test: &TextTest) -> Result<Option<Arc<KnownTerm>>> {
        if let Some(known) = self.known.terms.read().get(test) {
            return Ok(Some(known.clone()));
        }
        let Some(run) = self.run else {
            return Ok(None);
        };
        let begin = Instant::now();
        let made = Arc::new(KnownTerm::new(self.view, test, run)?);
        let known = (self.known.terms.write().entry(test.clone()))
            .or_insert(made)
            .clone();
        self.known.charge(self.view, known.bytes(), begin);
        Ok(Some(known))
    }

    /// Makes ready to read the places of a term in `files` files. Returns whether all are kept.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(super) fn prepare_places(&self, term: &KnownTerm, files: usize) -> Result<bool> {
        if self.view.pending().is_some() {
            return self.prepare_edited_places(term, files);
        }
        if term.places.get().is_some() {
            return Ok(true);
        }
        let Some(run) = self.run else {
            return Ok(false);
        };
        let begin = Instant::now();
        let count: u64 = term.postings.counts().iter().sum();
        let spends = (files * term.words.len()) as u64 * FILE_COST;
        let spent = term.spent.fetch_add(spends, Ordering::Relaxed) + spends;
        let bytes = count.saturating_mul(size_of::<u32>() as u64);
        let limit = self.view.search_terms().limit();
        if spent < count.saturating_mul(PLACE_COST)
            || bytes > limit / PLACES_SHARE
            || term.words.len() > PLACED_WORDS_MAX
        {
            return Ok(false);
        }
        let Some(places) = term.all_places(self.view, run)? else {
            return Ok(false);
        };
        // Another thread may have been first, with the same.
        let bytes = places.bytes();
        if term.places.set(places).is_ok() {
            self.known.charge(self.view, bytes, begin);
        }
        Ok(true)
    }

    /// As `prepare_places`, with pending edits.
    fn prepare_edited_places(&self, term: &KnownTerm, files: usize) -> Result<bool> {
        let view = self.view.without_edits();
        let known = KnownTerms::of(&view);
        let stored = TermSource {
            view: &view,
            known: &known,
            run: self.run,
        };
        let of_stored = match term.stored.get() {
            Some(found) => found,
            None => match stored.term(&term.test)? {
                Some(found) => term.stored.get_or_init(|| found),
                None => return Ok(false),
            },
        };
        if !stored.prepare_places(of_stored, files)? {
            return Ok(false);
        }
        if term.edited.get().is_some() {
            return Ok(true);
        }
        let Some(run) = self.run else {
            return Ok(false);
        };
        let begin = Instant::now();
        let files: Vec<(u32, u64)> = term.postings.iter().collect();
        let edited = files.into_par_iter();
        let edited = edited.filter(|(file, _)| self.view.unedited(*file).is_none());
        let found = edited.map(|(file, _)| {
            check(run.stop)?;
            let places = term.places(self.view, file, run)?.into_iter();
            let places = places
                .map(u32::try_from)
                .collect::<std::result::Result<_, _>>();
            Ok(places.ok().map(|places| (file, places)))
        });
        let found: Vec<Option<(u32, Vec<u32>)>> = found.collect::<Result<_>>()?;
        let Some(found) = found
            .into_iter()
            .collect::<Option<HashMap<u32, Vec<u32>>>>()
        else {
            return Ok(false);
        };
        let bytes = found.values().map(|places| size_of_val(&places[..])).sum();
        if term.edited.set(found).is_ok() {
            self.known.charge(self.view, bytes, begin);
        }
        Ok(true)
    }

    /// The scores of the files of a term.
    pub(super) fn scores(&self, term: &KnownTerm, word: Bm25Word) -> Arc<PostingScores> {
        if let Some(known) = term.scores.get().filter(|known| known.word == word) {
            return known.clone();
        }
        let begin = Instant::now();
        let made = Arc::new(PostingScores::new(self.view, &term.postings, word));
        let bytes = size_of_val(&made.of_files[..]) + size_of_val(&made.maxima[..]);
        if term.scores.set(made.clone()).is_ok() {
            self.known.charge(self.view, bytes, begin);
        }
        made
    }
}

impl PostingScores {
    pub(super) fn new(view: &CorpusView, postings: &FilePostings, word: Bm25Word) -> PostingScores {
        let files = view.files();
        let scores = postings.iter();
        let scores = scores.map(|(file, count)| word.score(count, files[file as usize].words));
        let of_files: Vec<f64> = scores.collect();
        let mut rest = &of_files[..];
        let maxima = postings.block_sizes().map(|size| {
            let (of_block, behind) = rest.split_at(size);
            rest = behind;
            of_block.iter().copied().fold(0.0, f64::max)
        });
        PostingScores {
            maxima: maxima.collect(),
            of_files,
            word,
        }
    }
}

impl KeptPlaces {
    /// The places in a file, given by its place among the files.
    fn of(&self, file: usize) -> &[u32] {
        &self.places[self.starts[file] as usize..self.starts[file + 1] as usize]
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.starts[..]) + size_of_val(&self.places[..])
    }
}

impl KnownTerm {
    fn new(view: &Arc<CorpusView>, test: &TextTest, run: Run<'_>) -> Result<KnownTerm> {
        let words = passing(view, &WordTest::Text(test.clone()), run)?;
        let postings = if words.is_empty() {
            FilePostings::default()
        } else if words.len() > COUNTED_WORDS_MAX {
            let mut in_set = vec![false; view.vocabulary()?.len()];
            words.iter().for_each(|&word| in_set[word as usize] = true);
            let counts = view.word_set_counts(&in_set, run)?;
            let files = (0..).zip(counts);
            files.filter(|(_, count)| *count > 0).collect()
        } else {
            let texts = words.iter().map(|&word| view.word(word).to_vec());
            let files = view.files_of_words(&texts.collect::<Vec<_>>(), run)?;
            files.into_iter().collect()
        };
        Ok(KnownTerm {
            test: test.clone(),
            words,
            postings,
            scores: OnceLock::new(),
            places: OnceLock::new(),
            spent: AtomicU64::new(0),
            stored: OnceLock::new(),
            edited: OnceLock::new(),
        })
    }

    fn bytes(&self) -> usize {
        let words = size_of_val(&self.words[..]) + self.postings.bytes();
        size_of::<KnownTerm>() + size_of::<TextTest>() + words
    }

    pub(super) fn postings(&self) -> &FilePostings {
        &self.postings
    }

    /// All places in the stored files; none if a file has too many words for them.
    fn all_places(&self, view: &CorpusView, run: Run<'_>) -> Result<Option<KeptPlaces>> {
        // The words may have been found by an earlier view.
        view.vocabulary()?;
        let mut of_words = Vec::with_capacity(self.words.len());
        for &word in &self.words {
            of_words.push(view.all_positions(word, run)?);
        }
        let mut starts = vec![0];
        let mut all: Vec<u32> = Vec::new();
        for (file, _) in self.postings.iter() {
            let start = all.len();
            for of_word in &of_words {
                for &place in &of_word[file as usize] {
                    let Ok(place) = u32::try_from(place) else {
                        return Ok(None);
                    };
                    all.push(place);
                }
            }
            if of_words.len() > 1 {
                // Places of words one behind the other: the sort merges them.
                all[start..].sort();
            }
            let Ok(end) = u32::try_from(all.len()) else {
                return Ok(None);
            };
            starts.push(end);
        }
        all.shrink_to_fit();
        Ok(Some(KeptPlaces {
            starts,
            places: all,
        }))
    }

    /// The places in a file, if they are kept.
    pub(super) fn kept_places(&self, view: &CorpusView, file: u32) -> Option<&[u32]> {
        self.places_at(view, file, self.postings.place_of(file)?)
    }

    /// As `kept_places`, of a file whose place among the files of the term is known.
    pub(super) fn places_at(&self, view: &CorpusView, file: u32, place: usize) -> Option<&[u32]> {
        let Some(stored) = self.stored.get() else {
            return Some(self.places.get()?.of(place));
        };
        match view.unedited(file) {
            Some(file) => {
                let place = stored.postings.place_of(file)?;
                Some(stored.places.get()?.of(place))
            }
            None => Some(self.edited.get()?.get(&file)?),
        }
    }

    /// The places in a file, ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(super) fn places(
        &self,
        view: &Arc<CorpusView>,
        file: u32,
        run: Run<'_>,
    ) -> Result<Vec<u64>> {
        if self.postings.place_of(file).is_none() {
            return Ok(Vec::new());
        }
        if let Some(kept) = self.kept_places(view, file) {
            return Ok(kept.iter().copied().map(u64::from).collect());
        }
        // The words may have been found by an earlier view.
        view.vocabulary()?;
        let mut places: Vec<u64> = Vec::new();
        if self.words.len() <= PLACED_WORDS_MAX {
            for &word in &self.words {
                places.extend(view.positions_of(file as usize, word, run)?);
            }
            places.sort_unstable();
        } else {
            let length = view.files()[file as usize].words;
            let read = context::read(view, file, 0..length, run)?;
            let found = (0..).zip(read);
            let found = found.filter(|(_, word)| self.words.binary_search(word).is_ok());
            places.extend(found.map(|(place, _): (u64, _)| place));
        }
        Ok(places)
    }
}
