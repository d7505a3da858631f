//! The pending edits of a corpus, as operations see them: files and words numbered with the edits, and the words around each
//! edit.
//!
//! The invariant: files and words are numbered as everywhere, in order of name and of the dictionary. Operations correct the
//! answers of stored files by the current words of regions ([`crate::overlay::Regions`]) minus the stored ones; files that are
//! gone are taken off whole. Corrections that are computed for all edits together are stored here, so that they are computed
//! once.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use zipfdb_kernels::NGRAM_WORDS_MAX;
use zipfdb_sql::quote;
use zipfdb_storage::Tokenizer;

use super::FileSummary;
use super::correction::{BrokenPlaces, WindowChanges};
use super::edited_text::EditedText;
use super::numbering::{Numbering, WordSource};
use super::stored_view::StoredView;
use crate::Result;
use crate::overlay::changed_count::word_subject;
use crate::overlay::{EditedFile, FileState, Overlay, Region, Regions};
use crate::runtime::interrupt::check;
use crate::segment::Unit;
use crate::segment::cache::{Reservation, Slots};

/// No file: one that is not stored, or that is gone.
pub(super) const NONE: u32 = u32::MAX;

/// The stored files of a corpus, and their state after edits.
pub(crate) struct PendingView {
    pub(super) stored: Arc<StoredView>,
    /// All current files, in order of name.
    pub(super) files: Vec<FileSummary>,
    /// The number of words of all current files.
    pub(super) words: u64,
    /// For each file the stored file it rests on, or [`NONE`].
    pub(super) stored_of: Vec<u32>,
    /// For each file its place in `edits`, or [`NONE`].
    pub(super) edit_of: Vec<u32>,
    /// For each stored file its current number, or [`NONE`].
    pub(super) number_of: Vec<u32>,
    /// Stored files that no file rests on any more.
    pub(super) gone: Vec<u32>,
    /// The edited files, in order of number.
    pub(super) edits: Vec<Edit>,
    pub(super) numbering: Numbering,
    pub(super) byte_order: OnceLock<(Vec<u32>, Vec<u32>)>,
    /// The changes of the counts of words against the stored files; ascending, without zeros.
    pub(super) changes: OnceLock<Vec<(u32, i64)>>,
    /// For each n the changes of n-grams of n words by edits.
    pub(super) windows: [OnceLock<WindowChanges>; NGRAM_WORDS_MAX + 1],
    /// For each segment the places whose words edits changed.
    pub(super) broken: OnceLock<Vec<BrokenPlaces>>,
    /// Answers about all words, in the cache: by [`PendingTable`].
    tables: Arc<Slots>,
    /// The reserved memory of the other fields, as long as the view lives.
    books: Mutex<Reservation>,
}

/// An answer about all words, in the cache once it was needed.
#[derive(Clone, Copy)]
pub(super) enum PendingTable {
    /// The count of each word: `Vec<u64>`.
    Totals,
    /// Tables of all files and words: `CountTable`.
    FileWords,
    WordFiles,
    /// What searches keep between statements.
    SearchTerms,
}

impl PendingTable {
    const COUNT: usize = PendingTable::SearchTerms as usize + 1;
}

/// A file with pending edits.
pub(super) struct Edit {
    /// Its number.
    pub(super) file: u32,
    pub(super) text: EditedText,
    /// The changes of the counts of words against the stored file; by number, ascending, once needed.
    changes: OnceLock<Vec<(u32, i64)>>,
}

impl PendingView {
    /// Finds the words around all edits that are not known yet, and numbers files and words.
    ///
    /// # Errors
    /// If a segment is damaged, or `stop` is set.
    pub(crate) fn new(
        stored: Arc<StoredView>,
        overlay: &Overlay,
        tokenizer: Tokenizer,
        stop: &AtomicBool,
    ) -> Result<PendingView> {
        stored.vocabulary()?;
        let states: Vec<(&Arc<str>, &FileState)> = overlay.files().collect();
        let edited = states.iter().filter_map(|&(name, state)| match state {
            FileState::Deleted => None,
            FileState::Edited(edited) => Some((&**name, edited)),
        });
        let edited: Vec<(&str, &Arc<EditedFile>)> = edited.collect();
        let texts = EditedText::of_files(&stored, &edited, tokenizer, stop)?;
        check(stop)?;
        let words = texts.iter().flat_map(|text| &text.regions().changes);
        let vocabulary = stored.known_vocabulary();
        let met = stored.word_numbers.ranked(vocabulary);
        let numbering = Numbering::new(vocabulary.len(), &met, words.map(|&(word, _)| word));
        let mut view = PendingView {
            files: Vec::with_capacity(stored.files().len() + states.len()),
            words: 0,
            stored_of: Vec::new(),
            edit_of: Vec::new(),
            number_of: vec![NONE; stored.files().len()],
            gone: Vec::new(),
            edits: Vec::new(),
            numbering,
            byte_order: OnceLock::new(),
            changes: OnceLock::new(),
            windows: Default::default(),
            broken: OnceLock::new(),
            tables: Slots::new(stored.cache().clone(), PendingTable::COUNT),
            books: Mutex::new(stored.cache().reservation()),
            stored: stored.clone(),
        };
        let mut rest = (0..).zip(stored.files()).peekable();
        let mut texts = texts.into_iter();
        for (name, state) in states {
            while let Some((file, summary)) = rest.next_if(|(_, file)| *file.name < **name) {
                view.push(summary.clone(), file, NONE);
            }
            let same = rest.next_if(|(_, file)| *file.name == **name);
            let same = same.map_or(NONE, |(file, _)| file);
            let text = match state {
                FileState::Edited(_) => texts.next(),
                FileState::Deleted => None,
            };
            match (state, text) {
                (FileState::Edited(edited), Some(text)) => {
                    let regions = text.regions();
                    let edit = view.edits.len() as u32;
                    let summary = FileSummary {
                        name: name.to_string(),
                        bytes: regions.bytes,
                        words: regions.word_count,
                    };
                    let base = if edited.is_stored { same } else { NONE };
                    if base != same {
                        view.gone.push(same);
                    }
                    view.edits.push(Edit {
                        // Files are numbered by u32.
                        file: view.files.len() as u32,
                        changes: OnceLock::new(),
                        text,
                    });
                    view.push(summary, base, edit);
                }
                _ if same != NONE => view.gone.push(same),
                _ => {}
            }
        }
        for (file, summary) in rest {
            view.push(summary.clone(), file, NONE);
        }
        Ok(view)
    }

    /// A table, made if it is not in the cache; `bytes` returns its size.
    pub(super) fn table<T: Send + Sync + 'static>(
        &self,
        table: PendingTable,
        bytes: impl Fn(&T) -> usize,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        self.tables.get_or_make(table as usize, bytes, || {
            let made = make()?;
            self.book();
            Ok(made)
        })
    }

    /// The place of a table in the cache.
    pub(super) fn slot(&self, table: PendingTable) -> (&Arc<Slots>, usize) {
        (&self.tables, table as usize)
    }

    /// Reserves memory for what was made and stays as long as the view.
    pub(super) fn book(&self) {
        let order = self.byte_order.get();
        let order = order.map_or(0, |(order, ranks)| {
            size_of_val(&order[..]) + size_of_val(&ranks[..])
        });
        let changes = self
            .changes
            .get()
            .map_or(0, |changes| size_of_val(&changes[..]));
        let windows = self.windows.iter().filter_map(OnceLock::get);
        let windows: usize = windows.map(WindowChanges::bytes).sum();
        let broken = self.broken.get().into_iter().flatten();
        let broken: usize = broken.map(|places| size_of_val(&places[..])).sum();
        let bytes = order + changes + windows + broken + self.numbering.bytes();
        self.books.lock().cover(bytes);
    }

    fn push(&mut self, summary: FileSummary, stored: u32, edit: u32) {
        if stored != NONE {
            self.number_of[stored as usize] = self.files.len() as u32;
        }
        self.words += summary.words;
        self.files.push(summary);
        self.stored_of.push(stored);
        self.edit_of.push(edit);
    }

    /// The file of a name.
    pub(crate) fn find_file(&self, name: &str) -> Option<usize> {
        let stored = self.stored.find_file(name).map(|file| self.number_of[file]);
        if let Some(file) = stored.filter(|&file| file != NONE) {
            return Some(file as usize);
        }
        let found = (self.files).binary_search_by(|file| file.name.as_str().cmp(name));
        found.ok()
    }

    /// As `byte_order`, if it has been made.
    pub(super) fn known_byte_order(&self) -> Option<&(Vec<u32>, Vec<u32>)> {
        self.byte_order.get()
    }

    /// All words in order of bytes, and the place of each in it.
    pub(super) fn byte_order(&self) -> &(Vec<u32>, Vec<u32>) {
        if let Some(known) = self.byte_order.get() {
            return known;
        }
        // Without a lock: see `segment_view`.
        let vocabulary = self.stored.known_vocabulary();
        let built = (self.numbering).byte_order(vocabulary, vocabulary.byte_order());
        let order = self.byte_order.get_or_init(|| built);
        self.book();
        order
    }

    /// The word with a number.
    pub(super) fn word(&self, number: u32) -> &[u8] {
        match self.numbering.source(number) {
            WordSource::Fresh(word) => word,
            WordSource::Stored(word) => self.stored.known_vocabulary().word(word),
        }
    }

    /// The name of a word in an error.
    pub(super) fn subject(&self, word: u32) -> String {
        word_subject(self.word(word))
    }

    /// The name of an n-gram in an error.
    pub(super) fn ngram_subject(&self, words: &[u32]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|&word| self.word(word)).collect();
        format!("the n-gram {}", quote(&words.join(&b' ')))
    }

    /// The number of a word.
    pub(super) fn find_word(&self, word: &[u8]) -> Result<Option<u32>> {
        if let Some(met) = self.stored.word_numbers.find(word) {
            return Ok(self.numbering.find_met(met));
        }
        let stored = self.stored.vocabulary()?.find(word)?;
        Ok(stored.map(|word| self.numbering.number(word)))
    }

    /// Stored files with counts, by their current numbers, without those that are gone.
    pub(super) fn files_now(&self, row: &[(u32, u32)]) -> impl Iterator<Item = (u32, u32)> {
        let now = row
            .iter()
            .map(|&(file, count)| (self.number_of[file as usize], count));
        now.filter(|&(file, _)| file != NONE)
    }

    /// The current number of a stored file; none if no file rests on it any more.
    pub(super) fn file_now(&self, stored: u32) -> Option<u32> {
        let file = self.number_of[stored as usize];
        (file != NONE).then_some(file)
    }

    /// The stored file that a file rests on.
    pub(super) fn stored_file(&self, file: usize) -> Option<usize> {
        let stored = self.stored_of[file];
        (stored != NONE).then_some(stored as usize)
    }

    /// The edits of a file.
    pub(super) fn edit(&self, file: usize) -> Option<&Edit> {
        self.edits.get(self.edit_of[file] as usize)
    }

    /// The words of a file's regions.
    pub(super) fn edited_words(&self, file: usize) -> Option<EditedWords<'_>> {
        let numbering = &self.numbering;
        self.edit(file).map(|edit| EditedWords { edit, numbering })
    }
}

impl Edit {
    pub(super) fn regions(&self) -> &Regions {
        self.text.regions()
    }

    /// The changes of the counts of words against the stored file; by the numbers of this view, ascending.
    pub(super) fn changes(&self, numbering: &Numbering) -> &[(u32, i64)] {
        self.changes.get_or_init(|| {
            let changes = self.regions().changes.iter();
            let number = |&(word, change): &(u32, i64)| (numbering.number_met(word), change);
            let mut changes: Vec<(u32, i64)> = changes.map(number).collect();
            changes.sort_unstable_by_key(|&(word, _)| word);
            changes
        })
    }
}

/// The regions of a file, for passing through its words.
pub(super) struct EditedWords<'a> {
    edit: &'a Edit,
    numbering: &'a Numbering,
}

impl EditedWords<'_> {
    /// The number of regions.
    pub(super) fn len(&self) -> usize {
        self.edit.regions().regions.len()
    }

    /// Maps a text position to the stored file: number of regions before it, and the stored position to search from.
    pub(super) fn stored_start(&self, unit: Unit, place: u64) -> (usize, u64) {
        let regions = &self.edit.regions().regions;
        let of = |region: &Region| match unit {
            Unit::Bytes => (region.bytes.clone(), region.stored_bytes.clone()),
            Unit::Words => (region.words.clone(), region.stored_words.clone()),
        };
        let before = regions.partition_point(|region| of(region).0.end <= place);
        let mut stored = match before.checked_sub(1).map(|last| of(&regions[last])) {
            None => place,
            Some((now, stored)) => place - now.end + stored.end,
        };
        if let Some(next) = regions.get(before) {
            stored = stored.min(of(next).1.start);
        }
        (before, stored)
    }

    /// Whether a stored byte lies behind the start of region `next`, whose words then come first.
    pub(super) fn starts_before(&self, next: usize, offset: u64) -> bool {
        (self.edit.regions().regions.get(next))
            .is_some_and(|region| region.stored_bytes.start <= offset)
    }

    /// The words of region `index`: number, position, offset.
    pub(super) fn words(&self, index: usize) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let region = &self.edit.regions().regions[index];
        let words = (0..).zip(&region.text.words);
        words.map(|(place, word)| {
            let offset = region.bytes.start + u64::from(word.offset);
            let number = self.numbering.number_met(word.word);
            (number, region.words.start + place, offset)
        })
    }

    /// The current place of a stored word with regions before `next` in front of it; none if it lies in the last of them.
    pub(super) fn moved(&self, next: usize, position: u64, offset: u64) -> Option<(u64, u64)> {
        let regions = self.edit.regions();
        let last = next.checked_sub(1).map(|last| &regions.regions[last]);
        let is_in = last.is_some_and(|region| offset < region.stored_bytes.end);
        (!is_in).then(|| {
            (
                regions.moved_word(position, next),
                regions.moved_byte(offset, next),
            )
        })
    }
}
