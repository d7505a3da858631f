//! A corpus as it is at one moment: what is stored, and edits that are pending.
//!
//! The invariant: files are named by their place in order of name, words by their place in dictionary order; every method
//! answers for the texts as they are at that moment. Without edits it costs what the segments cost. Parallel work runs in
//! the current pool.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::ThreadPool;
use rayon::prelude::*;
use zipfdb_kernels::{CountTable, FileOrder};
use zipfdb_storage::Tokenizer;

use super::pending::{PendingView, WordSource};
use crate::answer::FileSummary;
use crate::answer::found::FileOffsets;
use crate::answer::ngram_packing::NgramFilePart;
use crate::answer::ngrams::NgramsPart;
use crate::answer::stored_view::StoredView;
use crate::answer::top::Top;
use crate::answer::vocabulary::Vocabulary;
use crate::overlay::Overlay;
use crate::runtime::device::Run;
use crate::runtime::interrupt::check;
use crate::segment::{LiveSegment, SegmentView, Unit};
use crate::{Error, Result};

/// A corpus as it is at one moment.
pub(crate) struct CorpusView {
    stored: Arc<StoredView>,
    overlay: Overlay,
    pending: Option<PendingView>,
}

/// The words of each of some files with counts, and what they were counted on.
type CountedFiles = (Vec<Vec<(u32, u64)>>, Vec<SegmentView>);

/// All words of a corpus, numbered in dictionary order.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    stored: &'a Vocabulary,
    pending: Option<&'a PendingView>,
}

impl Words<'_> {
    /// How many there are. Edits may have left some that no file has any more.
    pub(crate) fn len(&self) -> usize {
        match self.pending {
            None => self.stored.len(),
            Some(pending) => pending.numbering().len(),
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

/// The same question to the segments or to what edits make of them.
macro_rules! answered {
    ($(
        $(#[$doc:meta])*
        fn $name:ident $(<$($generic:ident: $bound:path),*>)? (&self $(, $argument:ident: $type:ty)*) -> $answer:ty;
    )*) => {
        $(
            $(#[$doc])*
            pub(crate) fn $name $(<$($generic),*>)? (&self $(, $argument: $type)*) -> $answer
            $(where $($generic: $bound + Sync),*)?
            {
                match &self.pending {
                    None => self.stored.$name($($argument),*),
                    Some(pending) => pending.$name($($argument),*),
                }
            }
        )*
    };
}

impl CorpusView {
    /// What is stored, with edits.
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
        if !view.overlay.is_empty() {
            let pending = PendingView::new(view.stored.clone(), &view.overlay, tokenizer, stop)?;
            view.pending = Some(pending);
        }
        Ok(view)
    }

    /// What is stored, where there are no edits.
    pub(crate) fn of_stored(stored: Arc<StoredView>, overlay: Overlay) -> CorpusView {
        CorpusView {
            stored,
            overlay,
            pending: None,
        }
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

    /// The file of a name, which must be there.
    pub(crate) fn find(&self, name: &str) -> Result<usize> {
        self.find_file(name).ok_or_else(|| self.no_such_file(name))
    }

    /// What to say of a file that is not there.
    pub(crate) fn no_such_file(&self, name: &str) -> Error {
        match &self.pending {
            None => self.stored.no_such_file(name),
            Some(pending) => pending.no_such_file(name),
        }
    }

    /// All words.
    pub(crate) fn vocabulary(&self) -> Result<Words<'_>> {
        let stored = match self.has_vocabulary() {
            true => self.stored.vocabulary(),
            false => self.pool().install(|| self.stored.vocabulary()),
        };
        Ok(Words {
            stored: stored?,
            pending: self.pending.as_ref(),
        })
    }

    /// Whether the vocabulary is there.
    pub(crate) fn has_vocabulary(&self) -> bool {
        self.stored.has_vocabulary()
    }

    /// The word with a number; the vocabulary is there.
    pub(crate) fn word(&self, number: u32) -> &[u8] {
        match &self.pending {
            None => self.stored.known_vocabulary().word(number),
            Some(pending) => pending.word(number),
        }
    }

    /// Gives words by their numbers, for whoever wants many; the vocabulary is there.
    pub(crate) fn words<'a>(&'a self) -> impl Fn(u32) -> &'a [u8] {
        let stored = self.stored.known_vocabulary().texts();
        let numbering = self.pending.as_ref().map(PendingView::numbering);
        if let Some(numbering) = numbering {
            self.pool().install(|| numbering.prepare_sources());
        }
        move |number| match numbering.map(|numbering| numbering.source(number)) {
            None => stored(number),
            Some(WordSource::Stored(number)) => stored(number),
            Some(WordSource::Fresh(word)) => word,
        }
    }

    /// All words in order of bytes, and the place of each in it; the vocabulary is there.
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

    /// The threads of the database.
    pub(crate) fn pool(&self) -> &ThreadPool {
        self.stored.devices().pool()
    }

    /// For each word its place in order of bytes; the vocabulary is there.
    pub(crate) fn byte_ranks(&self) -> &[u32] {
        &self.byte_order().1
    }

    /// N-grams with their counts, in parts that follow each other: all, or those that `top` uses.
    ///
    /// # Errors
    /// If a segment is damaged, or the run is over.
    pub(crate) fn ngrams(
        &self,
        n: usize,
        top: Option<Top>,
        run: Run<'_>,
    ) -> Result<Vec<NgramsPart>> {
        let parts = match &self.pending {
            None => self.stored.ngrams(n, top, run)?,
            Some(pending) => pending.ngrams(n, run)?,
        };
        Ok(match top {
            None => parts,
            Some(top) => top.of_ngrams(parts, n),
        })
    }

    /// The words of each of some files and how often each occurs there, ascending; and what the last of them were counted
    /// on, which stays as long as the caller keeps it.
    ///
    /// # Errors
    /// If a segment is damaged, or `stop` is set.
    pub(crate) fn totals_of_each(&self, files: &[u32], stop: &AtomicBool) -> Result<CountedFiles> {
        let stored = |file: u32| match self.pending() {
            None => Some(file as usize),
            Some(pending) => pending.stored_file(file as usize),
        };
        // One segment after the other: what its files need is built once, and not evicted between them.
        let first_segment = |file: u32| self.stored().segments_of(stored(file)?).next();
        let mut order: Vec<(Option<usize>, usize)> = (files.iter().enumerate())
            .map(|(place, &file)| (first_segment(file), place))
            .collect();
        order.sort_unstable();
        let mut totals = vec![Vec::new(); files.len()];
        let mut pinned = Vec::new();
        for group in order.chunk_by(|left, right| left.0 == right.0) {
            let files_of_group = group.iter().map(|&(_, place)| files[place]);
            let stored: Vec<usize> = files_of_group.filter_map(stored).collect();
            pinned = self.stored().prepare_totals(&stored)?;
            let counted = group.par_iter().map(|&(_, place)| {
                check(stop)?;
                Ok((place, self.totals_of(files[place] as usize)?))
            });
            for (place, counts) in counted.collect::<Result<Vec<_>>>()? {
                totals[place] = counts;
            }
        }
        Ok((totals, pinned))
    }

    answered! {
        /// All files, in order of name.
        fn files(&self) -> &[FileSummary];
        /// The file of a name.
        fn find_file(&self, name: &str) -> Option<usize>;

        /// Whether places of words in a file are kept.
        fn has_places(&self, file: usize, unit: Unit) -> bool;
        /// Whether the bytes where words of a file begin are told without building anything first.
        fn can_tell_offsets_now(&self, file: usize) -> bool;
        /// Whether words of a file are counted by a look-up in a table.
        fn can_count_now(&self, file: usize) -> bool;
        /// Whether bytes of a file are extracted without anything being built first.
        fn can_extract_now(&self, file: usize) -> bool;
        /// The place of the segment that a file is in, if that has all of it and no edit is pending.
        fn only_segment(&self, file: usize) -> Option<u32>;

        /// How often each word occurs; by its number.
        fn totals(&self, run: Run<'_>) -> Result<Vec<u64>>;
        /// The words of a file and how often each occurs there, ascending.
        fn totals_of(&self, file: usize) -> Result<Vec<(u32, u64)>>;
        /// A row for each file: its words with counts.
        fn file_words(&self, run: Run<'_>) -> Result<Arc<CountTable>>;
        /// A row for each word: its files with counts.
        fn word_files(&self, run: Run<'_>) -> Result<Arc<CountTable>>;
        /// For each file how often words of a set, told by their numbers, occur in it.
        fn word_set_counts(&self, in_set: &[bool], stop: &AtomicBool) -> Result<Vec<u64>>;

        /// How often a word occurs.
        fn count(&self, word: &[u8]) -> Result<u64>;
        /// How often each of some words occurs.
        fn count_words<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Vec<u64>>;
        /// How often a word occurs in a file.
        fn count_in(&self, file: usize, word: &[u8]) -> Result<u64>;
        /// How often each word occurs in its file.
        fn count_many<F: AsRef<str>, W: AsRef<[u8]>>(&self, questions: &[(F, W)], run: Run<'_>) -> Result<Vec<u64>>;

        /// All n-grams, and for each a row of files with counts, in parts that follow each other.
        fn ngram_files(&self, n: usize, order: FileOrder, run: Run<'_>) -> Result<Vec<NgramFilePart>>;
        /// How often an n-gram occurs, told by the numbers of its words.
        fn ngram_count(&self, words: &[u32], stop: &AtomicBool) -> Result<u64>;
        /// Where an n-gram occurs: file, and number of its first word in it; ascending.
        fn ngram_positions(&self, words: &[u32], stop: &AtomicBool) -> Result<Vec<(u32, u64)>>;

        /// The offset of the own first byte of a word, told by its number in its file.
        fn offset_of_word(&self, file: u32, position: u64) -> Result<u64>;
        /// Where a word, told by its number, stands in a file: offsets of its first bytes, ascending.
        fn offsets_of(&self, file: usize, word: u32, stop: &AtomicBool) -> Result<Vec<u64>>;
        /// Where a word, told by its number, stands in a file, counted in words; ascending.
        fn positions_of(&self, file: usize, word: u32, stop: &AtomicBool) -> Result<Vec<u64>>;
        /// The files that have a word, each with its offsets.
        fn search(&self, word: &[u8], stop: &AtomicBool) -> Result<Vec<FileOffsets>>;
        /// For each word the files that have it, each with its offsets.
        fn search_words<W: AsRef<[u8]>>(&self, words: &[W], stop: &AtomicBool) -> Result<Vec<Vec<FileOffsets>>>;
        /// Where a word stands in a file: offsets of its first bytes, ascending.
        fn search_in(&self, file: usize, word: &[u8], stop: &AtomicBool) -> Result<Vec<u64>>;
        /// For each file and word the offsets.
        fn search_many<F: AsRef<str>, W: AsRef<[u8]>>(&self, questions: &[(F, W)], run: Run<'_>) -> Result<Vec<Vec<u64>>>;

        /// The bytes `offset..offset + length` of a file, as far as it goes.
        fn extract(&self, file: usize, offset: u64, length: u64) -> Result<Vec<u8>>;
        /// The bytes of many ranges of files.
        fn extract_many<F: AsRef<str>>(&self, ranges: &[(F, u64, u64)], run: Run<'_>) -> Result<Vec<Vec<u8>>>;
        /// Writes a file; the inner error is the target's.
        fn write_file(&self, file: usize, target: &mut dyn Write) -> Result<io::Result<()>>;
    }
}
