//! `CorpusReader`: questions to a corpus at one moment, answered where that is fastest.
//!
//! Invariant: answers are those of the view, whichever thread or device makes them. Answers from structures in memory are looked
//! up on the calling thread, because waking the pool takes longer; a single look-up joins those of other threads where they are
//! gathered, and is a batch of one where `SET device` names devices; all other work runs on the threads of the database.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::ThreadPool;
use zipfdb_sql::quote;

use super::access_path::Run;
use super::corpus_view::CorpusView;
use super::lookup_cache::{LookupCache, borrowed};
use crate::runtime::Runtime;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::lookup_batcher::{LookupBatcher, WordInFile};
use crate::runtime::settings::Settings;
use crate::segment::{SegmentView, Unit};
use crate::{Error, Result};

/// Asks a corpus. A clone is cheap.
#[derive(Clone)]
pub(crate) struct CorpusReader {
    runtime: Arc<Runtime>,
    view: Arc<CorpusView>,
    /// Answers to look-ups that were made beforehand.
    known: Option<Arc<LookupCache>>,
}

/// Extracts with fewer bytes than this are made on the calling thread: waking the pool would take longer.
const SMALL_EXTRACT_BYTES: u64 = 1 << 16;

/// Bytes of the parts in which larger extracts are made. Interruption is checked between parts.
const EXTRACT_PART_BYTES: u64 = 1 << 24;

impl CorpusReader {
    pub(crate) fn new(runtime: Arc<Runtime>, view: Arc<CorpusView>) -> CorpusReader {
        CorpusReader {
            runtime,
            view,
            known: None,
        }
    }

    /// The same, with answers to look-ups.
    pub(crate) fn knowing(self, known: LookupCache) -> CorpusReader {
        CorpusReader {
            known: Some(Arc::new(known)),
            ..self
        }
    }

    /// Whether answers to look-ups are known.
    pub(crate) fn knows_lookups(&self) -> bool {
        self.known.is_some()
    }

    /// The segments with some numbers as a corpus of their own.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the corpus lacks one of them, they share a file with others, or edits are pending.
    pub(crate) fn of_segments(&self, corpus: &str, numbers: &[u64]) -> Result<CorpusReader> {
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
        Ok(CorpusReader::new(self.runtime.clone(), view))
    }

    pub(crate) fn view(&self) -> &Arc<CorpusView> {
        &self.view
    }

    /// The threads of the database.
    pub(crate) fn pool(&self) -> &ThreadPool {
        &self.runtime.pool
    }

    /// The settings as they are now.
    pub(crate) fn settings(&self) -> Settings {
        *self.runtime.settings.lock()
    }

    /// The interrupt of calls outside of statements.
    pub(crate) fn interrupt(&self) -> Interrupt {
        self.runtime.interrupt()
    }

    /// Runs a question on the threads of the database, as [`Interrupt::apart`].
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

    /// Runs parallel work on the threads of the database.
    pub(crate) fn install<A: Send>(&self, work: impl FnOnce() -> A + Send) -> A {
        self.runtime.pool.install(work)
    }

    /// Runs long work on the threads of the database, until its queries are interrupted or time is up.
    pub(crate) fn watched<A: Send>(
        &self,
        work: impl FnOnce(Run<'_>) -> Result<A> + Send,
    ) -> Result<A> {
        let interrupt = self.interrupt();
        interrupt.watch(self.pool(), |stop| work(Run::until(stop)))
    }

    /// Makes the vocabulary, for a statement.
    pub(crate) fn prepare_words(&self, interrupt: &Interrupt) -> Result<()> {
        if self.view.has_vocabulary() {
            return Ok(());
        }
        self.ask(interrupt, |view, _| view.vocabulary().map(drop))
    }

    /// Checks the words of a segment that is part of this view; of packed text all of it.
    pub(crate) fn check_words(&self, segment: u64) -> Result<()> {
        let mut segments = self.view.segments().iter();
        let found = segments.find(|view| view.id() == segment);
        found.map_or(Ok(()), |live| {
            self.install(|| SegmentView::of(live).dictionary().map(drop))
        })
    }

    /// Builds the structures for expanding segments, as far as there is room, so that threads that expand together share them.
    pub(crate) fn prepare_content(&self, interrupt: &Interrupt) -> Result<()> {
        self.ask(interrupt, |view, stop| {
            let segments = 0..view.segments().len();
            view.stored().with_extracts(segments, stop).map(drop)
        })
    }

    /// The count of a word in a file.
    pub(crate) fn count(&self, file: usize, word: &[u8], interrupt: &Interrupt) -> Result<u64> {
        let known = self.known.as_ref();
        let known = known.and_then(|known| known.counts.get(&file)?.get(word));
        if let Some(&count) = known {
            return Ok(count);
        }
        let one = || {
            // A binary search is faster than waking the pool.
            if self.view.can_count_now(file) {
                return self.view.count_in(file, word, Run::to_the_end());
            }
            let word = word.to_vec();
            self.ask(interrupt, move |view, stop| {
                view.count_in(file, &word, Run::until(stop))
            })
        };
        let all =
            |asked: Vec<WordInFile>, run: Run<'_>| self.view.count_each(&borrowed(&asked), run);
        let question = || (file, word.to_vec());
        self.look_up(&self.runtime.gathered.counts, question, interrupt, one, all)
    }

    /// The sum of the counts of some words in a file.
    pub(crate) fn count_sum(
        &self,
        file: usize,
        words: &[Vec<u8>],
        interrupt: &Interrupt,
    ) -> Result<u64> {
        words.iter().try_fold(0, |sum, word| {
            interrupt.check()?;
            Ok(sum + self.count(file, word, interrupt)?)
        })
    }

    /// The places of a word in a file: the offsets of its first bytes, ascending.
    pub(crate) fn offsets(
        &self,
        file: usize,
        word: &[u8],
        interrupt: &Interrupt,
    ) -> Result<Vec<u64>> {
        let known = self.known.as_ref();
        let known = known.and_then(|known| known.offsets.get(&file)?.get(word));
        if let Some(offsets) = known {
            return Ok(offsets.clone());
        }
        let one = || {
            let word = word.to_vec();
            let offsets = move |view: &CorpusView, run: Run<'_>| view.search_in(file, &word, run);
            self.find_in(file, Unit::Bytes, interrupt, offsets)
        };
        let all =
            |asked: Vec<WordInFile>, run: Run<'_>| self.view.search_each(&borrowed(&asked), run);
        let question = || (file, word.to_vec());
        self.look_up(
            &self.runtime.gathered.searches,
            question,
            interrupt,
            one,
            all,
        )
    }

    /// The positions of a word, given by its number, in a file.
    pub(crate) fn positions(
        &self,
        file: usize,
        word: u32,
        interrupt: &Interrupt,
    ) -> Result<Vec<u64>> {
        let positions = move |view: &CorpusView, run: Run<'_>| view.positions_of(file, word, run);
        self.find_in(file, Unit::Words, interrupt, positions)
    }

    /// The files, by place, with all of some words, if they were found beforehand.
    pub(super) fn known_files_with(&self, words: &[Vec<u8>]) -> Option<Vec<usize>> {
        self.known.as_ref()?.files_with.get(words).cloned()
    }

    /// The files, by place, that have all of some words.
    pub(crate) fn intersect(&self, words: &[Vec<u8>], interrupt: &Interrupt) -> Result<Vec<usize>> {
        let one = || {
            let words = words.to_vec();
            self.ask(interrupt, move |view, stop| {
                let mut found = view.files_of_all(&[&words[..]], Run::until(stop))?;
                Ok(found.pop().unwrap_or_default())
            })
        };
        let all = |asked: Vec<Vec<Vec<u8>>>, run: Run<'_>| {
            let queries: Vec<&[Vec<u8>]> = asked.iter().map(Vec::as_slice).collect();
            self.view.files_of_all(&queries, run)
        };
        let gatherer = &self.runtime.gathered.intersections;
        self.look_up(gatherer, || words.to_vec(), interrupt, one, all)
    }

    /// The bytes `offset..offset + length` of a file, as far as it goes.
    pub(crate) fn extract(
        &self,
        file: usize,
        offset: u64,
        length: u64,
        interrupt: &Interrupt,
    ) -> Result<Vec<u8>> {
        let known = self.known.as_ref();
        let known = known.and_then(|known| known.extracts.get(&file)?.get(&(offset, length)));
        if let Some(bytes) = known {
            return Ok(bytes.clone());
        }
        if length >= SMALL_EXTRACT_BYTES {
            return self.extract_in_parts(file, offset, length, interrupt);
        }
        let one = || {
            if self.view.can_extract_now(file) {
                return self.view.extract(file, offset, length);
            }
            self.extract_in_parts(file, offset, length, interrupt)
        };
        let all = |asked: Vec<(usize, u64, u64)>, run: Run<'_>| self.view.extract_each(&asked, run);
        let question = || (file, offset, length);
        self.look_up(
            &self.runtime.gathered.extracts,
            question,
            interrupt,
            one,
            all,
        )
    }

    fn extract_in_parts(
        &self,
        file: usize,
        offset: u64,
        length: u64,
        interrupt: &Interrupt,
    ) -> Result<Vec<u8>> {
        let end = offset
            .saturating_add(length)
            .min(self.view.files()[file].bytes);
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
    }

    /// Answers a single look-up: with those of other threads where they are gathered, as a batch of one where SET names devices,
    /// else by `one`. `all` answers a batch.
    fn look_up<Q: Clone + Send, A: Send>(
        &self,
        gatherer: &LookupBatcher<Q, A>,
        question: impl FnOnce() -> Q,
        interrupt: &Interrupt,
        one: impl Fn() -> Result<A>,
        all: impl FnOnce(Vec<Q>, Run<'_>) -> Result<Vec<A>> + Send,
    ) -> Result<A> {
        let all = |asked| interrupt.watch(self.pool(), |stop| all(asked, Run::until(stop)));
        if let Some(window) = self.runtime.gathered.window() {
            let go_on = || interrupt.check();
            return gatherer.ask(&self.view, question(), window, go_on, |_| one(), all);
        }
        if !self.view.stored().devices().are_demanded() {
            return one();
        }
        let mut answers = all(vec![question()])?.into_iter();
        Ok(answers.next().expect("as many answers as questions"))
    }

    /// Finds occurrences in a file: on this thread if there are lists, which is faster than waking the pool and needs no other
    /// threads.
    fn find_in<A: Send + 'static>(
        &self,
        file: usize,
        unit: Unit,
        interrupt: &Interrupt,
        find: impl FnOnce(&CorpusView, Run<'_>) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        if self.view.has_lists(file, unit) {
            find(&self.view, Run::to_the_end())
        } else {
            self.ask(interrupt, move |view, stop| find(view, Run::until(stop)))
        }
    }
}
