//! A corpus with edits that are not merged yet: what is stored, corrected where edits touch it.
//!
//! The invariant: answers equal those on the texts as they are now. Counts are those of the stored files, plus the words
//! that regions ([`crate::overlay::Regions`]) have now, less those they had; places move by what was inserted before
//! them. So an answer costs what it costs on the stored files, and something for each edit it meets. Files that are gone
//! are taken off whole.
//!
//! Files and words are numbered as everywhere, in order of name and of the dictionary, edits included. `counts` has words,
//! `ngrams` n-grams, `places` offsets and bytes.

mod counts;
mod ngrams;
mod places;
#[cfg(test)]
mod tests;
mod windows;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use rayon::prelude::*;
use zipfdb_kernels::NGRAM_WORDS_MAX;
use zipfdb_storage::Tokenizer;

use super::FileSummary;
use super::edited_text::EditedText;
pub(super) use super::numbering::{Numbering, WordSource};
use super::stored_view::StoredView;
use crate::overlay::{FileState, Overlay, Regions};
use crate::runtime::interrupt::check;
use crate::segment::cache::{Cached, Reservation, Slots};
use crate::{Error, Result};

use windows::WindowChanges;

/// No file: one that is not stored, or that is gone.
const NONE: u32 = u32::MAX;

/// The stored files of a corpus, and what edits make of them.
pub(crate) struct PendingView {
    stored: Arc<StoredView>,
    /// All files as they are now, in order of name.
    files: Vec<FileSummary>,
    /// For each of them the stored file it rests on, or [`NONE`].
    stored_of: Vec<u32>,
    /// For each of them its place in `edits`, or [`NONE`].
    edit_of: Vec<u32>,
    /// For each stored file its number now, or [`NONE`].
    number_of: Vec<u32>,
    /// Stored files that no file rests on any more.
    gone: Vec<u32>,
    /// In order of file.
    edits: Vec<Edit>,
    numbering: Numbering,
    byte_order: OnceLock<(Vec<u32>, Vec<u32>)>,
    /// How much more or less often each word occurs than in the stored files; ascending, no change is 0.
    changes: OnceLock<Vec<(u32, i64)>>,
    /// For each n what edits do to n-grams of n words.
    windows: [OnceLock<WindowChanges>; NGRAM_WORDS_MAX + 1],
    /// Answers about all words, in the cache: by [`PendingTable`].
    tables: Arc<Slots>,
    /// What the others of these take of the limit of memory, as long as the view is there.
    books: Mutex<Reservation>,
}

/// An answer about all words that the cache holds once somebody asked.
#[derive(Clone, Copy)]
enum PendingTable {
    /// How often each word occurs: `Vec<u64>`.
    Totals,
    /// Tables of all files and words: `CountTable`.
    FileWords,
    WordFiles,
}

impl PendingTable {
    const COUNT: usize = PendingTable::WordFiles as usize + 1;
}

/// A file that is not as stored.
struct Edit {
    /// Its number.
    file: u32,
    text: EditedText,
    /// How much more or less often words occur than in the stored file; by number, ascending, once somebody asked.
    changes: OnceLock<Vec<(u32, i64)>>,
}

impl PendingView {
    /// Finds the words around all edits that nobody has asked for before, and numbers files and words.
    ///
    /// # Errors
    /// If a segment is damaged, or `stop` is set.
    pub(crate) fn new(
        stored: Arc<StoredView>,
        overlay: &Overlay,
        tokenizer: Tokenizer,
        stop: &AtomicBool,
    ) -> Result<PendingView> {
        // What regions need is built once, not by each thread.
        let pinned = stored.prepare_edits(stop)?;
        let states: Vec<(&Arc<str>, &FileState)> = overlay.files().collect();
        let found: Vec<Option<EditedText>> = (states.par_iter())
            .map(|&(name, state)| match state {
                FileState::Deleted => Ok(None),
                FileState::Edited(edited) => {
                    let (stored, edited) = (stored.clone(), edited.clone());
                    EditedText::new(stored, name, edited, tokenizer, stop).map(Some)
                }
            })
            .collect::<Result<_>>()?;
        drop(pinned);

        check(stop)?;
        let words = (found.iter().flatten()).flat_map(|text| &text.regions().changes);
        let vocabulary = stored.known_vocabulary();
        let met = stored.word_numbers.ranked(vocabulary);
        let numbering = Numbering::new(vocabulary.len(), &met, words.map(|&(word, _)| word));
        let mut view = PendingView {
            files: Vec::with_capacity(stored.files().len() + states.len()),
            stored_of: Vec::new(),
            edit_of: Vec::new(),
            number_of: vec![NONE; stored.files().len()],
            gone: Vec::new(),
            edits: Vec::new(),
            numbering,
            byte_order: OnceLock::new(),
            changes: OnceLock::new(),
            windows: Default::default(),
            tables: Slots::new(stored.cache().clone(), PendingTable::COUNT),
            books: Mutex::new(stored.cache().reservation()),
            stored: stored.clone(),
        };
        let mut rest = (0..).zip(stored.files()).peekable();
        for ((name, state), text) in states.into_iter().zip(found) {
            while let Some((file, summary)) = rest.next_if(|(_, file)| *file.name < **name) {
                view.push(summary.clone(), file, NONE);
            }
            let same = rest.next_if(|(_, file)| *file.name == **name);
            let same = same.map_or(NONE, |(file, _)| file);
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

    /// A table, made if the cache does not hold it; and how many bytes one takes.
    fn table<T: Send + Sync + 'static>(
        &self,
        table: PendingTable,
        bytes: impl Fn(&T) -> usize,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let typed = |held: Cached| held.downcast().expect("a slot holds one kind of table");
        let slot = table as usize;
        if let Some(held) = self.tables.get(slot) {
            return Ok(typed(held));
        }
        let begin = Instant::now();
        let made = make()?;
        self.book();
        // 64 bits are enough for both.
        let (bytes, price) = (bytes(&made) as u64, begin.elapsed().as_nanos() as u64);
        Ok(typed(self.tables.put(slot, Arc::new(made), bytes, price)))
    }

    /// Takes of the limit of memory what has been made and stays as long as the view.
    fn book(&self) {
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
        let bytes = order + changes + windows + self.numbering.bytes();
        self.books.lock().cover(bytes);
    }

    fn push(&mut self, summary: FileSummary, stored: u32, edit: u32) {
        if stored != NONE {
            self.number_of[stored as usize] = self.files.len() as u32;
        }
        self.files.push(summary);
        self.stored_of.push(stored);
        self.edit_of.push(edit);
    }

    /// All files as they are now, in order of name.
    pub(crate) fn files(&self) -> &[FileSummary] {
        &self.files
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

    pub(super) fn numbering(&self) -> &Numbering {
        &self.numbering
    }

    /// As `byte_order`, if that was asked for before.
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

    /// The number of a word.
    pub(super) fn find_word(&self, word: &[u8]) -> Result<Option<u32>> {
        if let Some(met) = self.stored.word_numbers.find(word) {
            return Ok(self.numbering.find_met(met));
        }
        let stored = self.stored.vocabulary()?.find(word)?;
        Ok(stored.map(|word| self.numbering.number(word)))
    }

    /// The number that a stored file has now; none if no file rests on it any more.
    pub(super) fn file_now(&self, stored: u32) -> Option<u32> {
        let file = self.number_of[stored as usize];
        (file != NONE).then_some(file)
    }

    /// Whether there are stored files that no file rests on any more.
    pub(super) fn has_gone_files(&self) -> bool {
        !self.gone.is_empty()
    }

    /// The stored file that a file rests on.
    pub(super) fn stored_file(&self, file: usize) -> Option<usize> {
        let stored = self.stored_of[file];
        (stored != NONE).then_some(stored as usize)
    }

    /// The edits of a file.
    fn edit(&self, file: usize) -> Option<&Edit> {
        self.edits.get(self.edit_of[file] as usize)
    }

    /// For each file by name, which must all be there.
    fn find_files<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<Vec<usize>> {
        let mut known: HashMap<&str, usize> = HashMap::new();
        names
            .map(|name| match known.get(name) {
                Some(&file) => Ok(file),
                None => {
                    let file = self.find_file(name);
                    let file = file.ok_or_else(|| self.no_such_file(name))?;
                    known.insert(name, file);
                    Ok(file)
                }
            })
            .collect()
    }

    /// What to say of a file that is not there.
    pub(super) fn no_such_file(&self, name: &str) -> Error {
        self.stored.no_such_file_of(name, &self.files)
    }
}

impl Edit {
    fn regions(&self) -> &Regions {
        self.text.regions()
    }

    /// How much more or less often words occur than in the stored file; by the numbers they have here, ascending.
    fn changes(&self, numbering: &Numbering) -> &[(u32, i64)] {
        self.changes.get_or_init(|| {
            let changes = self.regions().changes.iter();
            let number = |&(word, change): &(u32, i64)| (numbering.number_met(word), change);
            let mut changes: Vec<(u32, i64)> = changes.map(number).collect();
            changes.sort_unstable_by_key(|&(word, _)| word);
            changes
        })
    }
}
