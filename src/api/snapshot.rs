//! `Snapshot`: an unchanging view of one corpus, from which every read starts.
//!
//! It holds the segments that were live when it was taken. The invariant:
//! answers are exact, whatever way they were found and however files are cut
//! into parts: counts of parts add up, offsets move by where the part begins,
//! extracts go across the borders. Work is done on the segments' grammars; text
//! is expanded only as far as bytes of it are asked for.
//!
//! It neither writes nor knows which statement asks.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_kernels::{FileOrder, NGRAM_WORDS_MAX};
use zipfdb_sql::quote;

use crate::answer::found::FileOffsets;
use crate::answer::path::Run;
use crate::answer::{
    CorpusView, FileCounts, FileSummary, Known, NgramCounts, TermVectors, WordCounts,
};
use crate::runtime::Runtime;
use crate::runtime::gather::WordInFile;
use crate::runtime::interrupt::{Interrupt, check};
use crate::segment::{SegmentView, Unit};
use crate::{Error, Result};

/// An unchanging view of a corpus; made by [`crate::Corpus::snapshot`].
///
/// Cheap to clone. Large work and batches (`count_many`, `search_many`,
/// `extract_many`) run in parallel on the database's threads, small questions on
/// the caller's. The first question to a segment decodes it and builds what it
/// takes to answer; that stays for later ones.
///
/// ```
/// use zipfdb::{CopyOptions, CorpusSettings, Database};
///
/// # let folder = tempfile::tempdir().expect("a temporary directory");
/// # std::fs::write(folder.path().join("a.txt"), "the cat and the dog").expect("a file");
/// let db = Database::in_memory()?;
/// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
/// corpus.copy_from(folder.path(), &CopyOptions::default())?;
///
/// let snapshot = corpus.snapshot()?;
/// assert_eq!(snapshot.count_many(&[("a.txt", "the"), ("a.txt", "cow")])?, [2, 0]);
/// assert_eq!(snapshot.search_many(&[("a.txt", "the")])?, [vec![0, 12]]);
/// assert_eq!(snapshot.extract_many(&[("a.txt", 4, 3)])?, [b"cat"]);
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    runtime: Arc<Runtime>,
    view: Arc<CorpusView>,
    /// Answers to look-ups that were made beforehand.
    known: Option<Arc<Known>>,
}

/// The name of a file and the offsets of a word in it.
type NamedOffsets = (String, Vec<u64>);

/// Extracts with fewer bytes than this are made on the calling thread: waking
/// the pool would take longer.
const SMALL_EXTRACT_BYTES: u64 = 1 << 16;

/// Bytes of the parts in which larger extracts are made. An interrupt is looked for between parts.
const EXTRACT_PART_BYTES: u64 = 1 << 24;

/// Segments of a corpus that share no file with others, so that they can be asked alone; of [`Snapshot::partitions`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Partition {
    /// Their numbers, as `segments('corpus')` tells them.
    pub segments: Vec<u64>,
    /// Bytes of their text.
    pub bytes: u64,
}

impl Snapshot {
    pub(crate) fn new(runtime: Arc<Runtime>, view: Arc<CorpusView>) -> Snapshot {
        Snapshot {
            runtime,
            view,
            known: None,
        }
    }

    /// The same, with answers to look-ups.
    pub(crate) fn knowing(self, known: Known) -> Snapshot {
        Snapshot {
            known: Some(Arc::new(known)),
            ..self
        }
    }

    /// Whether there are answers to look-ups.
    pub(crate) fn knows_lookups(&self) -> bool {
        self.known.is_some()
    }

    /// The files that have all of some words, if that is known.
    pub(crate) fn known_files_with(&self, words: &[Vec<u8>]) -> Option<&[usize]> {
        let known = self.known.as_ref()?;
        known.files_with.get(words).map(Vec::as_slice)
    }

    /// How often a word, told by its number, occurs in a file.
    pub(crate) fn count_at(&self, file: usize, word: u32, interrupt: &Interrupt) -> Result<u64> {
        self.count_word_at(file, self.view.word(word), interrupt)
    }

    /// How often a word occurs in a file.
    pub(crate) fn count_word_at(
        &self,
        file: usize,
        word: &[u8],
        interrupt: &Interrupt,
    ) -> Result<u64> {
        let known = self
            .known
            .as_ref()
            .and_then(|known| known.counts.get(&file));
        match known.and_then(|words| words.get(word)) {
            Some(&count) => Ok(count),
            None => self.count_with(file, word, interrupt),
        }
    }

    /// Where a word stands in a file.
    pub(crate) fn offsets_at(
        &self,
        file: usize,
        word: &[u8],
        interrupt: &Interrupt,
    ) -> Result<Vec<u64>> {
        let known = self
            .known
            .as_ref()
            .and_then(|known| known.offsets.get(&file));
        match known.and_then(|words| words.get(word)) {
            Some(offsets) => Ok(offsets.clone()),
            None => {
                let sought = word.to_vec();
                let offsets =
                    move |view: &CorpusView, run: Run<'_>| view.search_in(file, &sought, run);
                let one = || self.find_in(file, Unit::Bytes, interrupt, offsets.clone());
                self.search_with(file, word, interrupt, one)
            }
        }
    }

    /// Where a word, told by its number, stands in a file, counted in words.
    pub(crate) fn positions_at(
        &self,
        file: usize,
        word: u32,
        interrupt: &Interrupt,
    ) -> Result<Vec<u64>> {
        let positions = move |view: &CorpusView, run: Run<'_>| view.positions_of(file, word, run);
        self.find_in(file, Unit::Words, interrupt, positions)
    }

    /// The segments and files, by number.
    pub(crate) fn view(&self) -> &Arc<CorpusView> {
        &self.view
    }

    /// The segments in groups that share no file: each file is whole in one of them, so what is asked of each
    /// ([`crate::Database::partition`]) adds up to what is asked of the corpus. None where edits are pending that no segment has
    /// yet.
    pub fn partitions(&self) -> Option<Vec<Partition>> {
        let segments = self.view.segments();
        let partition = |places: Vec<usize>| Partition {
            segments: places.iter().map(|&place| segments[place].id()).collect(),
            bytes: places
                .iter()
                .map(|&place| segments[place].text_bytes())
                .sum(),
        };
        Some(self.view.partitions()?.into_iter().map(partition).collect())
    }

    /// The segments with some numbers as a corpus of their own.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the corpus lacks one of them, they share a file with others, or edits are pending.
    pub(crate) fn of_segments(&self, corpus: &str, numbers: &[u64]) -> Result<Snapshot> {
        let refused = |reason: String| Error::Invalid {
            subject: format!("corpus {}", quote(corpus)),
            reason,
        };
        let Some(partitions) = self.view.partitions() else {
            let reason = "edits are pending; hint: RECOMPRESS merges them";
            return Err(refused(reason.into()));
        };
        let segments = self.view.segments();
        let is_wanted = |place: &usize| numbers.contains(&segments[*place].id());
        let mut places = Vec::new();
        for partition in partitions {
            let wanted = partition.iter().filter(|place| is_wanted(place)).count();
            if wanted > 0 && wanted < partition.len() {
                let numbers: Vec<u64> = partition
                    .iter()
                    .map(|&place| segments[place].id())
                    .collect();
                let reason = format!("segments {numbers:?} share files; hint: ask for all of them");
                return Err(refused(reason));
            }
            places.extend(partition.into_iter().filter(is_wanted));
        }
        let is_missing =
            |number: &&u64| !places.iter().any(|&place| segments[place].id() == **number);
        if let Some(missing) = numbers.iter().find(is_missing) {
            return Err(refused(format!("it has no segment {missing}")));
        }
        places.sort_unstable();
        let view = Arc::new(self.view.of_segments(&places)?);
        Ok(Snapshot::new(self.runtime.clone(), view))
    }

    /// All files, in order of name.
    pub fn files(&self) -> &[FileSummary] {
        self.view.files()
    }

    /// The file called `name`, if there is one. Cost: about one comparison.
    pub fn file(&self, name: &str) -> Option<&FileSummary> {
        self.view.find_file(name).map(|file| &self.files()[file])
    }

    /// How many words the corpus has.
    pub fn total_words(&self) -> u64 {
        self.files().iter().map(|file| file.words).sum()
    }

    /// Every word of the corpus and how often it occurs, in dictionary order: by
    /// case-folded word, then word. Words are UTF-8, unless the tokenizer is
    /// `whitespace`.
    ///
    /// Cost: as [`Snapshot::word_counts`], and a copy of each word.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn word_count(&self) -> Result<Vec<(Vec<u8>, u64)>> {
        Ok(owned(&self.word_counts()?))
    }

    /// As [`Snapshot::word_count`], with the words where they are.
    ///
    /// Cost: one pass over the symbols of each segment the first time, then O(words).
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn word_counts(&self) -> Result<WordCounts> {
        let totals = self.watched(|run| self.view.totals(run))?;
        let counts = (0..).zip(totals).filter(|&(_, count)| count > 0);
        Ok(WordCounts::new(self.view.clone(), counts.collect()))
    }

    /// As [`Snapshot::word_count`], for one file.
    ///
    /// Cost: O(symbols that the file reaches), at most one pass over its segment.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn word_count_of(&self, file: &str) -> Result<Vec<(Vec<u8>, u64)>> {
        Ok(owned(&self.word_counts_of(file)?))
    }

    /// As [`Snapshot::word_count_of`], with the words where they are.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn word_counts_of(&self, file: &str) -> Result<WordCounts> {
        let file = self.view.find(file)?;
        let counts = self.install(|| self.view.totals_of(file, Run::to_the_end()))?;
        Ok(WordCounts::new(self.view.clone(), counts))
    }

    /// For each word the files that it occurs in, ascending, with counts: an inverted index.
    ///
    /// Cost: O(uses of symbols, each times the files of its rule) the first time, then O(words): a segment keeps the index,
    /// 8 bytes for each word and file.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn inverted_index(&self) -> Result<FileCounts> {
        let table = self.watched(|run| self.view.word_files(run))?;
        Ok(FileCounts::of_words(self.view.clone(), table))
    }

    /// For each file its words with counts: term vectors.
    ///
    /// Cost: as [`Snapshot::inverted_index`] the first time, then nothing, and as much memory.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn term_vectors(&self) -> Result<TermVectors> {
        let table = self.watched(|run| self.view.file_words(run))?;
        Ok(TermVectors::new(self.view.clone(), table))
    }

    /// All sequences of `n` words of a file, in dictionary order of their words, with their counts: sequence count.
    ///
    /// # Errors
    /// If a segment is damaged.
    ///
    /// # Panics
    /// If `n` is not in `1..=8`.
    pub fn ngram_counts(&self, n: usize) -> Result<NgramCounts> {
        assert!((1..=NGRAM_WORDS_MAX).contains(&n), "n must be 1 to 8");
        let parts = self.watched(|run| self.view.ngrams(n, None, run))?;
        Ok(NgramCounts::new(self.view.clone(), n, parts))
    }

    /// All sequences of `n` words of a file, and for each the files that it occurs in, the largest count first: a ranked
    /// inverted index.
    ///
    /// # Errors
    /// If a segment is damaged.
    ///
    /// # Panics
    /// If `n` is not in `1..=8`.
    pub fn ranked_inverted_index(&self, n: usize) -> Result<FileCounts> {
        assert!((1..=NGRAM_WORDS_MAX).contains(&n), "n must be 1 to 8");
        let by_count = FileOrder::Count;
        let parts = self.watched(|run| self.view.ngram_files(n, by_count, run))?;
        Ok(FileCounts::new(self.view.clone(), n, parts))
    }

    /// How often `word` occurs in the corpus; 0 if nowhere.
    ///
    /// Cost: one pass over the symbols of each segment the first time, then a
    /// look-up of the word in each.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn count<W>(&self, word: &W) -> Result<u64>
    where
        W: AsRef<[u8]> + ?Sized,
    {
        let word = word.as_ref();
        // Sooner done here than the pool is woken.
        match self.view.count_at_hand(&[word])? {
            Some(count) => Ok(count),
            None => self.install(|| self.view.count(word, Run::to_the_end())),
        }
    }

    /// How often `word` occurs in a file.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn count_in<W>(&self, file: &str, word: &W) -> Result<u64>
    where
        W: AsRef<[u8]> + ?Sized,
    {
        let (file, word) = (self.view.find(file)?, word.as_ref());
        self.count_with(file, word, &self.runtime.interrupt())
    }

    /// Counts with look-ups of other threads, or alone.
    fn count_with(&self, file: usize, word: &[u8], interrupt: &Interrupt) -> Result<u64> {
        let one = || {
            // A binary search is done before the pool would be awake.
            if self.view.can_count_now(file) {
                return self.view.count_in(file, word, Run::to_the_end());
            }
            let word = word.to_vec();
            self.ask(interrupt, move |view, stop| {
                view.count_in(file, &word, Run::until(stop))
            })
        };
        let all = |asked: Vec<WordInFile>| {
            let questions = self.with_file_names(asked);
            interrupt.watch(self.pool(), |stop| {
                self.view.count_many(&questions, Run::until(stop))
            })
        };
        let gathered = &self.runtime.gathered;
        let Some(window) = gathered.window() else {
            return self.alone(|| (file, word.to_vec()), one, all);
        };
        let (question, go_on) = ((file, word.to_vec()), || interrupt.check());
        (gathered.counts).ask(&self.view, question, window, go_on, |_| one(), all)
    }

    /// Searches with look-ups of other threads, or as `one` does.
    fn search_with(
        &self,
        file: usize,
        word: &[u8],
        interrupt: &Interrupt,
        one: impl Fn() -> Result<Vec<u64>>,
    ) -> Result<Vec<u64>> {
        let all = |asked: Vec<WordInFile>| {
            let questions = self.with_file_names(asked);
            interrupt.watch(self.pool(), |stop| {
                self.view.search_many(&questions, Run::until(stop))
            })
        };
        let gathered = &self.runtime.gathered;
        let Some(window) = gathered.window() else {
            return self.alone(|| (file, word.to_vec()), one, all);
        };
        let (question, go_on) = ((file, word.to_vec()), || interrupt.check());
        (gathered.searches).ask(&self.view, question, window, go_on, |_| one(), all)
    }

    /// Answers a question that waits for no others: as a batch of one where SET names devices, else as `one` does.
    fn alone<Q, A>(
        &self,
        question: impl FnOnce() -> Q,
        one: impl FnOnce() -> Result<A>,
        all: impl FnOnce(Vec<Q>) -> Result<Vec<A>>,
    ) -> Result<A> {
        if !self.view.stored().devices().are_demanded() {
            return one();
        }
        let mut answers = all(vec![question()])?.into_iter();
        Ok(answers.next().expect("as many answers as questions"))
    }

    fn with_file_names(&self, asked: Vec<WordInFile>) -> Vec<(&str, Vec<u8>)> {
        let asked = asked.into_iter();
        asked
            .map(|(file, word)| (&self.files()[file].name[..], word))
            .collect()
    }

    /// How often each word occurs in its file: one count for each `(file, word)`.
    ///
    /// Files that come up often are counted once for all their words.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn count_many<F, W>(&self, questions: &[(F, W)]) -> Result<Vec<u64>>
    where
        F: AsRef<str> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        if let [(file, word)] = questions {
            return Ok(vec![self.count_in(file.as_ref(), word)?]);
        }
        self.watched(|run| self.view.count_many(questions, run))
    }

    /// How often each word occurs in the corpus.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn count_words<W>(&self, words: &[W]) -> Result<Vec<u64>>
    where
        W: AsRef<[u8]> + Sync,
    {
        self.install(|| self.view.count_words(words, Run::to_the_end()))
    }

    /// The files that have all of some words, in order of name; all files where there are no words.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn files_with<W>(&self, words: &[W]) -> Result<Vec<&str>>
    where
        W: AsRef<[u8]> + Sync,
    {
        // Sooner done here than the pool is woken.
        if let Some(files) = self.view.files_of_all_at_hand(words)? {
            return Ok(self.names_of(files));
        }
        let one = || {
            let mut found = self.watched(|run| self.view.files_of_all(&[words], run))?;
            Ok(found.pop().unwrap_or_default())
        };
        let asked = || words.iter().map(|word| word.as_ref().to_vec()).collect();
        let found = self.files_of_all_with(asked, &self.runtime.interrupt(), one)?;
        Ok(self.names_of(found))
    }

    /// How many files have all of some words: [`Snapshot::files_with`] without their names.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn count_files_with<W>(&self, words: &[W]) -> Result<usize>
    where
        W: AsRef<[u8]> + Sync,
    {
        match self.view.count_of_all_at_hand(words)? {
            Some(count) => Ok(count),
            None => Ok(self.files_with(words)?.len()),
        }
    }

    /// The files, by place, that have all of some words: with look-ups of other threads, or as `one` does.
    pub(crate) fn files_of_all_with(
        &self,
        words: impl FnOnce() -> Vec<Vec<u8>>,
        interrupt: &Interrupt,
        one: impl Fn() -> Result<Vec<usize>>,
    ) -> Result<Vec<usize>> {
        let gathered = &self.runtime.gathered;
        let Some(window) = gathered.window() else {
            return one();
        };
        let all = |asked: Vec<Vec<Vec<u8>>>| {
            let queries: Vec<&[Vec<u8>]> = asked.iter().map(Vec::as_slice).collect();
            interrupt.watch(self.pool(), |stop| {
                self.view.files_of_all(&queries, Run::until(stop))
            })
        };
        let go_on = || interrupt.check();
        (gathered.intersections).ask(&self.view, words(), window, go_on, |_| one(), all)
    }

    /// As [`Snapshot::files_with`], for many sets of words at once. Devices answer where `SET device` demands it, or where they
    /// are estimated to be faster.
    ///
    /// # Errors
    /// If a segment is damaged, or a device that is demanded fails.
    pub fn intersect_many<Q, W>(&self, queries: &[Q]) -> Result<Vec<Vec<&str>>>
    where
        Q: AsRef<[W]> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        let queries: Vec<&[W]> = queries.iter().map(AsRef::as_ref).collect();
        let found = self.watched(|run| self.view.files_of_all(&queries, run))?;
        let names = found.into_iter().map(|files| self.names_of(files));
        Ok(names.collect())
    }

    fn names_of(&self, files: Vec<usize>) -> Vec<&str> {
        let names = files.into_iter().map(|file| &self.files()[file].name[..]);
        names.collect()
    }

    /// Where `word` occurs: the files that have it, in order of name, with the
    /// offsets of its first bytes, ascending.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn search<W>(&self, word: &W) -> Result<Vec<NamedOffsets>>
    where
        W: AsRef<[u8]> + ?Sized,
    {
        let word = word.as_ref();
        let found = self.watched(|run| self.view.search(word, run))?;
        Ok(self.with_names(found))
    }

    /// Where `word` occurs in a file: the offsets of its first byte, ascending.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn search_in<W>(&self, file: &str, word: &W) -> Result<Vec<u64>>
    where
        W: AsRef<[u8]> + ?Sized,
    {
        let (file, word) = (self.view.find(file)?, word.as_ref());
        let interrupt = self.runtime.interrupt();
        let one = || {
            let word = word.to_vec();
            let offsets = move |view: &CorpusView, run: Run<'_>| view.search_in(file, &word, run);
            self.find_in(file, Unit::Bytes, &interrupt, offsets)
        };
        self.search_with(file, word, &interrupt, one)
    }

    /// Where each word occurs in its file: for each `(file, word)` what
    /// [`Snapshot::search_in`] gives.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn search_many<F, W>(&self, questions: &[(F, W)]) -> Result<Vec<Vec<u64>>>
    where
        F: AsRef<str> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        if let [(file, word)] = questions {
            return Ok(vec![self.search_in(file.as_ref(), word)?]);
        }
        self.watched(|run| self.view.search_many(questions, run))
    }

    /// Where each word occurs in the corpus: for each what [`Snapshot::search`] gives.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn search_words<W>(&self, words: &[W]) -> Result<Vec<Vec<NamedOffsets>>>
    where
        W: AsRef<[u8]> + Sync,
    {
        let found = self.watched(|run| self.view.search_words(words, run))?;
        Ok(found
            .into_iter()
            .map(|files| self.with_names(files))
            .collect())
    }

    /// How often some words follow each other in the files, whatever stands between them.
    ///
    /// Cost: O(places of the rarest word in the grammar and of rules around it).
    ///
    /// # Errors
    /// If a segment is damaged, or there are not 1 to 8 words.
    pub fn count_phrase<W: AsRef<[u8]> + Sync>(&self, words: &[W]) -> Result<u64> {
        let Some(words) = self.install(|| self.numbers_of(words))? else {
            return Ok(0);
        };
        self.watched(|run| self.view.ngram_count(&words, run))
    }

    /// Where some words follow each other: the files, in order of name, with the offsets of the first word's first byte,
    /// ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or there are not 1 to 8 words.
    pub fn search_phrase<W: AsRef<[u8]> + Sync>(&self, words: &[W]) -> Result<Vec<NamedOffsets>> {
        let Some(words) = self.install(|| self.numbers_of(words))? else {
            return Ok(Vec::new());
        };
        let found = self.watched(|run| {
            let places = self.view.ngram_places(&words, run)?;
            let mut found: Vec<FileOffsets> = Vec::new();
            for place in places {
                check(run.stop)?;
                let file = place.file;
                let offset = match place.offset {
                    Some(offset) => offset,
                    None => self.view.offset_of_word(file, place.position)?,
                };
                match found.last_mut() {
                    Some((last, offsets)) if *last == file as usize => offsets.push(offset),
                    _ => found.push((file as usize, vec![offset])),
                }
            }
            Ok(found)
        })?;
        Ok(self.with_names(found))
    }

    /// The numbers of words; none if the corpus has not all of them.
    fn numbers_of<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Option<Vec<u32>>> {
        if !(1..=NGRAM_WORDS_MAX).contains(&words.len()) {
            return Err(Error::Invalid {
                subject: "phrase".into(),
                reason: format!(
                    "it has {} words, 1 to {NGRAM_WORDS_MAX} can be searched",
                    words.len()
                ),
            });
        }
        let words = words.iter();
        words
            .map(|word| self.view.number_of(word.as_ref()))
            .collect()
    }

    /// The bytes `offset..offset + length` of a file, as far as it goes.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn extract(&self, file: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.extract_until(file, offset, length, &self.runtime.interrupt())
    }

    /// As `extract`, for a statement.
    pub(crate) fn extract_until(
        &self,
        file: &str,
        offset: u64,
        length: u64,
        interrupt: &Interrupt,
    ) -> Result<Vec<u8>> {
        let file = self.view.find(file)?;
        let known = self
            .known
            .as_ref()
            .and_then(|known| known.extracts.get(&file));
        if let Some(bytes) = known.and_then(|ranges| ranges.get(&(offset, length))) {
            return Ok(bytes.clone());
        }
        let one = || {
            if length < SMALL_EXTRACT_BYTES && self.view.can_extract_now(file) {
                return self.view.extract(file, offset, length);
            }
            let end = offset.saturating_add(length).min(self.files()[file].bytes);
            let mut bytes = Vec::new();
            let mut at = offset;
            while at < end {
                interrupt.check()?;
                let part = EXTRACT_PART_BYTES.min(end - at);
                let extracted = self.ask(interrupt, move |view, _| view.extract(file, at, part))?;
                if bytes.is_empty() {
                    bytes = extracted;
                } else {
                    bytes.extend_from_slice(&extracted);
                }
                at += part;
            }
            Ok(bytes)
        };
        let all = |asked: Vec<(usize, u64, u64)>| {
            let asked = asked.into_iter();
            let ranges: Vec<(&str, u64, u64)> = asked
                .map(|(file, offset, length)| (&self.files()[file].name[..], offset, length))
                .collect();
            interrupt.watch(self.pool(), |stop| {
                self.view.extract_many(&ranges, Run::until(stop))
            })
        };
        let gathered = &self.runtime.gathered;
        let is_small = length < SMALL_EXTRACT_BYTES;
        let Some(window) = gathered.window().filter(|_| is_small) else {
            return match is_small {
                true => self.alone(|| (file, offset, length), one, all),
                false => one(),
            };
        };
        let (question, go_on) = ((file, offset, length), || interrupt.check());
        (gathered.extracts).ask(&self.view, question, window, go_on, |_| one(), all)
    }

    /// The bytes of many ranges: for each `(file, offset, length)` what
    /// [`Snapshot::extract`] gives.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn extract_many<F>(&self, ranges: &[(F, u64, u64)]) -> Result<Vec<Vec<u8>>>
    where
        F: AsRef<str> + Sync,
    {
        if let [(file, offset, length)] = ranges {
            return Ok(vec![self.extract(file.as_ref(), *offset, *length)?]);
        }
        self.watched(|run| self.view.extract_many(ranges, run))
    }

    /// Writes the bytes of a file to `target`, in memory bounded by a few MiB a thread.
    ///
    /// # Errors
    /// If there is no such file, a segment is damaged, or `target` fails: then
    /// as [`Error::Io`] with the file's name.
    pub fn write_content(&self, file: &str, target: &mut (dyn Write + Send)) -> Result<()> {
        let index = self.view.find(file)?;
        let written = self.install(|| self.view.write_file(index, target))?;
        written.map_err(|source| Error::Io {
            action: "write the content of",
            path: PathBuf::from(file),
            source,
        })
    }

    /// Makes the vocabulary, for a statement.
    pub(crate) fn prepare_words(&self, interrupt: &Interrupt) -> Result<()> {
        match self.view.has_vocabulary() {
            true => Ok(()),
            false => self.ask(interrupt, |view, _| view.vocabulary().map(drop)),
        }
    }

    /// Checks the words of a segment that is part of this snapshot; of packed text all of it.
    pub(crate) fn check_words(&self, segment: u64) -> Result<()> {
        let mut segments = self.view.segments().iter();
        let found = segments.find(|view| view.id() == segment);
        found.map_or(Ok(()), |live| {
            self.install(|| SegmentView::of(live).dictionary().map(drop))
        })
    }

    /// Builds what expanding needs of segments, as far as there is room, so that threads that start
    /// to expand together do not each build it.
    pub(crate) fn prepare_content(&self, interrupt: &Interrupt) -> Result<()> {
        self.ask(interrupt, |view, stop| {
            let segments = 0..view.segments().len();
            view.stored().with_extracts(segments, stop).map(drop)
        })
    }

    /// Writes file `index` of [`Snapshot::files`] on the current threads; the inner error is the target's.
    pub(crate) fn write_file(
        &self,
        index: usize,
        target: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        self.view.write_file(index, target)
    }

    fn with_names(&self, found: Vec<FileOffsets>) -> Vec<NamedOffsets> {
        let files = found.into_iter();
        let files = files.map(|(file, offsets)| (self.files()[file].name.clone(), offsets));
        files.collect()
    }

    /// Asks the files something, on the threads of the database, as [`Interrupt::apart`].
    ///
    /// # Errors
    /// As `apart`.
    pub(crate) fn ask<A: Send + 'static>(
        &self,
        interrupt: &Interrupt,
        question: impl FnOnce(&CorpusView, &Arc<AtomicBool>) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        let view = self.view.clone();
        interrupt.apart(self.pool(), move |stop| question(&view, stop))
    }

    /// The database's threads.
    pub(crate) fn pool(&self) -> &rayon::ThreadPool {
        &self.runtime.pool
    }

    /// Runs parallel work on the database's threads.
    pub(crate) fn install<A: Send>(&self, work: impl FnOnce() -> A + Send) -> A {
        self.runtime.pool.install(work)
    }

    /// Runs what may take long on the database's threads, until its queries are interrupted or time is up.
    fn watched<A: Send>(&self, work: impl FnOnce(Run<'_>) -> Result<A> + Send) -> Result<A> {
        let interrupt = self.runtime.interrupt();
        interrupt.watch(self.pool(), |stop| work(Run::until(stop)))
    }

    /// Finds occurrences in a file: here if there are lists, which is sooner done than the pool is woken and needs no other threads.
    fn find_in<A: Send + 'static>(
        &self,
        file: usize,
        unit: Unit,
        interrupt: &Interrupt,
        find: impl Fn(&CorpusView, Run<'_>) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        if self.view.has_lists(file, unit) {
            find(&self.view, Run::to_the_end())
        } else {
            self.ask(interrupt, move |view, stop| find(view, Run::until(stop)))
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Snapshot")
            .field("files", &self.files().len())
            .field("segments", &self.view.segments().len())
            .finish_non_exhaustive()
    }
}

pub(crate) fn owned(counts: &WordCounts) -> Vec<(Vec<u8>, u64)> {
    let counts = counts.iter();
    counts.map(|(word, count)| (word.to_vec(), count)).collect()
}
