//! A corpus at one moment: its stored files, and pending edits.
//!
//! The invariant: files are named by their place in order of name, words by their place in dictionary order, edits included. This
//! file has the data; operations are in files of their own, as methods of this view: each asks the stored files and corrects the
//! answer where edits touch it. Without edits it costs what the segments cost. Parallel work runs in the current pool.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use rayon::ThreadPool;
use rayon::prelude::*;
use zipfdb_storage::Tokenizer;

use super::file_column::EditedMetadata;
use super::file_index::Part;
use super::numbering::WordSource;
use super::pending_view::{Edit, PendingTable, PendingView};
use crate::answer::FileSummary;
use crate::answer::stored_view::{Kept, StoredView};
use crate::answer::vocabulary::Vocabulary;
use crate::overlay::Overlay;
use crate::segment::cache::CacheSlot;
use crate::segment::{LiveSegment, SegmentView, StructureKind};
use crate::{Error, Result};

/// A corpus at one moment.
pub(crate) struct CorpusView {
    stored: Arc<StoredView>,
    overlay: Overlay,
    pending: Option<PendingView>,
    /// The numbers of all files, once they are asked for.
    file_numbers: OnceLock<Arc<[u32]>>,
    /// Metadata with the edits, by column, once it was asked for.
    pub(super) edited_metadata: EditedMetadata,
}

/// All words of a corpus, numbered in dictionary order.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    stored: &'a Vocabulary,
    pending: Option<&'a PendingView>,
}

impl Words<'_> {
    /// The number of words. After edits it may include words that no file has.
    pub(crate) fn len(&self) -> usize {
        match self.pending {
            None => self.stored.len(),
            Some(pending) => pending.numbering.len(),
        }
    }

    /// The word with a number.
    pub(crate) fn word(&self, number: u32) -> &[u8] {
        match self.pending {
            None => self.stored.word(number),
            Some(pending) => pending.word(number),
        }
    }

    /// The number of a word.
    pub(crate) fn find(&self, word: &[u8]) -> Result<Option<u32>> {
        match self.pending {
            None => self.stored.find(word),
            Some(pending) => pending.find_word(word),
        }
    }
}

impl CorpusView {
    /// A view of the stored files with edits.
    ///
    /// # Errors
    /// If there are edits, and a segment is damaged or `stop` is set.
    pub(crate) fn new(
        stored: Arc<StoredView>,
        overlay: Overlay,
        tokenizer: Tokenizer,
        stop: &AtomicBool,
    ) -> Result<CorpusView> {
        let mut view = CorpusView::of_stored(stored, overlay);
        if view.overlay.edits_texts() {
            let pending = PendingView::new(view.stored.clone(), &view.overlay, tokenizer, stop)?;
            view.pending = Some(pending);
        }
        Ok(view)
    }

    /// A view of stored files without edits.
    pub(crate) fn of_stored(stored: Arc<StoredView>, overlay: Overlay) -> CorpusView {
        CorpusView {
            stored,
            overlay,
            pending: None,
            file_numbers: OnceLock::new(),
            edited_metadata: EditedMetadata::default(),
        }
    }

    /// The groups of segments that can be asked alone, as [`StoredView::partitions`]; none where edits are pending.
    pub(crate) fn partitions(&self) -> Option<Vec<Vec<usize>>> {
        self.overlay.is_empty().then(|| self.stored.partitions())
    }

    /// Some segments, which share no file with the others, as a corpus of their own.
    ///
    /// # Errors
    /// If they share a file with others.
    pub(crate) fn of_segments(&self, places: &[usize]) -> Result<CorpusView> {
        let stored = Arc::new(self.stored.of_segments(places)?);
        Ok(CorpusView::of_stored(stored, self.overlay.clone()))
    }

    /// The corpus without the edits.
    pub(crate) fn stored(&self) -> &Arc<StoredView> {
        &self.stored
    }

    /// The edits.
    pub(crate) fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    pub(crate) fn pending(&self) -> Option<&PendingView> {
        self.pending.as_ref()
    }

    pub(crate) fn segments(&self) -> &[Arc<LiveSegment>] {
        self.stored.segments()
    }

    /// All files, in order of name.
    pub(crate) fn files(&self) -> &[FileSummary] {
        match &self.pending {
            None => self.stored.files(),
            Some(pending) => &pending.files,
        }
    }

    /// The numbers of all files, ascending.
    pub(crate) fn file_numbers(&self) -> &Arc<[u32]> {
        // Files are numbered by u32.
        (self.file_numbers).get_or_init(|| (0..self.files().len() as u32).collect())
    }

    /// The number of words in all files.
    pub(crate) fn total_words(&self) -> u64 {
        match &self.pending {
            None => self.stored.index.words(),
            Some(pending) => pending.words,
        }
    }

    /// The place in the cache of what searches of this view keep between statements.
    pub(crate) fn search_terms(&self) -> CacheSlot<'_> {
        let (slots, index) = match &self.pending {
            None => self.stored.slot(Kept::SearchTerms),
            Some(pending) => pending.slot(PendingTable::SearchTerms),
        };
        CacheSlot::new(slots, index)
    }

    /// The numbers of symbols and tokens in all segments.
    pub(super) fn symbols_and_tokens(&self) -> (u64, u64) {
        let sizes = self.segments().iter().map(|segment| segment.size());
        sizes.fold((0, 0), |(symbols, tokens), (more_symbols, more_tokens)| {
            (symbols + more_symbols, tokens + more_tokens)
        })
    }

    /// The file of a name.
    pub(crate) fn find_file(&self, name: &str) -> Option<usize> {
        match &self.pending {
            None => self.stored.find_file(name),
            Some(pending) => pending.find_file(name),
        }
    }

    /// The file of a name, which must be there.
    pub(crate) fn find(&self, name: &str) -> Result<usize> {
        self.find_file(name).ok_or_else(|| self.no_such_file(name))
    }

    /// The file of each name of a batch.
    pub(super) fn find_many<'a>(
        &self,
        names: impl IndexedParallelIterator<Item = &'a str>,
    ) -> Result<Vec<usize>> {
        let names = names.with_min_len(TASK_QUESTIONS_MIN);
        // Names are compared for the first unknown one only.
        let found: Vec<_> = names.map(|name| self.find_file(name).ok_or(name)).collect();
        let found = found.into_iter().collect::<std::result::Result<_, &str>>();
        found.map_err(|name| self.no_such_file(name))
    }

    /// The files of questions about words.
    pub(super) fn find_files<'a, F, W>(
        &self,
        questions: &'a [(F, W)],
    ) -> Result<Vec<(usize, &'a [u8])>>
    where
        F: AsRef<str> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        let files = self.find_many(questions.par_iter().map(|(file, _)| file.as_ref()))?;
        let words = questions.iter().map(|(_, word)| word.as_ref());
        Ok(files.into_iter().zip(words).collect())
    }

    /// Asks the stored files about words, all at once, and corrects each answer by the edit of its file.
    ///
    /// # Errors
    /// Those of `ask` and `correct`.
    pub(super) fn ask_each<A: Default>(
        &self,
        questions: &[(usize, &[u8])],
        ask: impl FnOnce(&[(usize, &[u8])]) -> Result<Vec<A>>,
        correct: impl Fn(A, &Edit, &[u8]) -> Result<A>,
    ) -> Result<Vec<A>> {
        if self.pending.is_none() {
            return ask(questions);
        }
        let of_stored = |&(file, word): &(usize, _)| Some((self.resolve(file).0?, word));
        let asked: Vec<(usize, &[u8])> = questions.iter().filter_map(of_stored).collect();
        let mut found = ask(&asked)?.into_iter();
        let answers = questions.iter().map(|&(file, word)| {
            let (stored, edit) = self.resolve(file);
            let answer = match stored {
                None => A::default(),
                Some(_) => found.next().expect("each stored file was asked"),
            };
            match edit {
                None => Ok(answer),
                Some(edit) => correct(answer, edit, word),
            }
        });
        answers.collect()
    }

    /// The error for a missing file.
    pub(crate) fn no_such_file(&self, name: &str) -> Error {
        self.stored.no_such_file_of(name, self.files())
    }

    /// The stored file that a file rests on, and its edits.
    #[inline]
    pub(super) fn resolve(&self, file: usize) -> (Option<usize>, Option<&Edit>) {
        match &self.pending {
            None => (Some(file), None),
            Some(pending) => (pending.stored_file(file), pending.edit(file)),
        }
    }

    /// The places of the segments that have parts of the stored file of a file.
    pub(crate) fn segments_of(&self, file: usize) -> impl Iterator<Item = usize> {
        let stored = self.resolve(file).0.into_iter();
        stored.flat_map(|stored| self.stored.segments_of(stored))
    }

    /// The stored file of a file without edits.
    pub(crate) fn unedited(&self, file: u32) -> Option<u32> {
        match self.resolve(file as usize) {
            // Files are numbered by u32.
            (Some(stored), None) => Some(stored as u32),
            _ => None,
        }
    }

    /// The same corpus without the edits.
    pub(crate) fn without_edits(&self) -> Arc<CorpusView> {
        Arc::new(CorpusView::of_stored(
            self.stored.clone(),
            Overlay::default(),
        ))
    }

    /// The current number of a stored file; none if it is gone.
    pub(crate) fn file_now(&self, stored: u32) -> Option<u32> {
        match &self.pending {
            None => Some(stored),
            Some(pending) => pending.file_now(stored),
        }
    }

    /// Whether stored files are gone: the counts in them are only known file by file.
    pub(crate) fn has_gone_files(&self) -> bool {
        self.pending()
            .is_some_and(|pending| !pending.gone.is_empty())
    }

    /// Whether a condition holds for all segments with parts of the stored file of a file.
    pub(super) fn holds_for_parts(
        &self,
        file: usize,
        holds: impl Fn(&Arc<LiveSegment>) -> bool,
    ) -> bool {
        let (stored, _) = self.resolve(file);
        let mut parts = stored
            .iter()
            .flat_map(|&file| self.stored.index.parts(file));
        parts.all(|part| holds(self.stored.live(part)))
    }

    /// The segments that have parts of files, by their places: with the number of parts, and the first of these.
    pub(super) fn partitions_of(&self, files: &[u32]) -> Vec<(usize, u64, u32)> {
        let mut partitions: Vec<Option<(u64, u32)>> = vec![None; self.segments().len()];
        for &file in files {
            let (stored, _) = self.resolve(file as usize);
            for part in stored
                .iter()
                .flat_map(|&file| self.stored.index.parts(file))
            {
                let partition = &mut partitions[part.segment as usize];
                partition.get_or_insert((0, part.file)).0 += 1;
            }
        }
        let partitions = partitions.into_iter().enumerate();
        let asked = partitions.filter_map(|(index, partition)| Some((index, partition?)));
        asked
            .map(|(index, (count, first))| (index, count, first))
            .collect()
    }

    /// The cost of decoding needed before words can be read in order, in nanoseconds of all threads.
    pub(crate) fn missing_for_stream(&self) -> f64 {
        self.missing(&[StructureKind::Grammar, StructureKind::TokenForms])
    }

    /// The cost of decoding and building structures of all segments, in nanoseconds of all threads.
    pub(super) fn missing(&self, wanted: &[StructureKind]) -> f64 {
        let segments = self.segments().iter();
        let missing = segments.map(|segment| SegmentView::of(segment).missing(wanted));
        missing.sum()
    }

    /// The place of the segment that has all of a file, if no edit is pending on the file.
    pub(crate) fn only_segment(&self, file: usize) -> Option<u32> {
        self.only_part(file).map(|part| part.segment)
    }

    /// The part that is all of a file, if there is one and no edit is pending.
    pub(super) fn only_part(&self, file: usize) -> Option<Part> {
        match self.resolve(file) {
            (Some(stored), None) => match self.stored.index.parts(stored) {
                [part] => Some(*part),
                _ => None,
            },
            _ => None,
        }
    }

    /// All words.
    pub(crate) fn vocabulary(&self) -> Result<Words<'_>> {
        let stored = if self.has_vocabulary() {
            self.stored.vocabulary()
        } else {
            self.pool().install(|| self.stored.vocabulary())
        };
        Ok(Words {
            stored: stored?,
            pending: self.pending.as_ref(),
        })
    }

    /// The number of a word; none if the corpus does not have it. With one segment and no edits, blocks of the dictionary answer
    /// without the vocabulary; a caller that needs texts by number makes the vocabulary first.
    pub(crate) fn number_of(&self, word: &[u8]) -> Result<Option<u32>> {
        if let [segment] = self.stored.segments()
            && self.pending.is_none()
            && !self.has_vocabulary()
            && let Some(found) = SegmentView::of(segment).number_in_blocks(word)?
        {
            return Ok(found);
        }
        self.vocabulary()?.find(word)
    }

    /// Whether the vocabulary has been made.
    pub(crate) fn has_vocabulary(&self) -> bool {
        self.stored.has_vocabulary()
    }

    /// The word with a number; the vocabulary must have been made.
    pub(crate) fn word(&self, number: u32) -> &[u8] {
        match &self.pending {
            None => self.stored.known_vocabulary().word(number),
            Some(pending) => pending.word(number),
        }
    }

    /// A function from numbers to words, for many words; the vocabulary must have been made.
    pub(crate) fn words<'a>(&'a self) -> impl Fn(u32) -> &'a [u8] {
        let stored = self.stored.known_vocabulary().texts();
        let numbering = self.pending.as_ref().map(|pending| &pending.numbering);
        if let Some(numbering) = numbering {
            self.pool().install(|| numbering.prepare_sources());
        }
        move |number| match numbering.map(|numbering| numbering.source(number)) {
            None => stored(number),
            Some(WordSource::Stored(number)) => stored(number),
            Some(WordSource::Fresh(word)) => word,
        }
    }

    /// All words in order of bytes, and the place of each in it; the vocabulary must have been made.
    pub(crate) fn byte_order(&self) -> &(Vec<u32>, Vec<u32>) {
        let known = match &self.pending {
            None => self.stored.known_vocabulary().known_byte_order(),
            Some(pending) => pending.known_byte_order(),
        };
        if let Some(known) = known {
            return known;
        }
        self.pool().install(|| match &self.pending {
            None => self.stored.known_vocabulary().byte_order(),
            Some(pending) => pending.byte_order(),
        })
    }

    /// For each word its place in order of bytes; the vocabulary must have been made.
    pub(crate) fn byte_ranks(&self) -> &[u32] {
        &self.byte_order().1
    }

    /// The threads of the database.
    pub(crate) fn pool(&self) -> &ThreadPool {
        self.stored.devices().pool()
    }
}

/// The least number of questions of a batch in a task.
pub(super) const TASK_QUESTIONS_MIN: usize = 16;
