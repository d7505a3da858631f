//! Where words are, and the bytes of files.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::{Edit, NONE, Numbering, PendingView};
use crate::Result;
use crate::answer::edited_text::{ask_stored, joined};
use crate::answer::found::FileOffsets;
use crate::overlay::Piece;
use crate::runtime::device::Run;
use crate::segment::Unit;

impl PendingView {
    /// The files that have a word, each with its offsets.
    pub(crate) fn search(&self, word: &[u8], stop: &AtomicBool) -> Result<Vec<FileOffsets>> {
        let stored = self.stored.search(word, stop)?.into_iter();
        let mut found: Vec<FileOffsets> = stored
            .filter_map(|(stored, offsets)| {
                let file = self.number_of[stored];
                // Edited files are looked through below.
                let is_plain = file != NONE && self.edit_of[file as usize] == NONE;
                is_plain.then_some((file as usize, offsets))
            })
            .collect();
        let edited: Vec<FileOffsets> = (self.edits.par_iter())
            .map(|edit| {
                let file = edit.file as usize;
                Ok((file, self.search_in(file, word, stop)?))
            })
            .collect::<Result<_>>()?;
        found.extend(
            edited
                .into_iter()
                .filter(|(_, offsets)| !offsets.is_empty()),
        );
        found.sort_unstable_by_key(|&(file, _)| file);
        Ok(found)
    }

    /// For each word what [`PendingView::search`] gives.
    pub(crate) fn search_words<W>(
        &self,
        words: &[W],
        stop: &AtomicBool,
    ) -> Result<Vec<Vec<FileOffsets>>>
    where
        W: AsRef<[u8]> + Sync,
    {
        self.stored.prepare_edits(stop)?;
        let words = words.par_iter();
        words.map(|word| self.search(word.as_ref(), stop)).collect()
    }

    /// Where a word stands in a file: offsets of its first bytes, ascending.
    pub(crate) fn search_in(
        &self,
        file: usize,
        word: &[u8],
        stop: &AtomicBool,
    ) -> Result<Vec<u64>> {
        let stored = match self.stored_file(file) {
            None => Vec::new(),
            Some(stored) => self.stored.search_in(stored, word, stop)?,
        };
        Ok(self.moved_offsets(file, word, stored))
    }

    /// For each file and word what [`PendingView::search_in`] gives.
    pub(crate) fn search_many<F, W>(
        &self,
        questions: &[(F, W)],
        run: Run<'_>,
    ) -> Result<Vec<Vec<u64>>>
    where
        F: AsRef<str> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        let files = self.find_files(questions.iter().map(|(file, _)| file.as_ref()))?;
        let asked = questions.iter().zip(&files);
        let asked: Vec<(usize, &[u8])> = asked
            .filter_map(|((_, word), &file)| Some((self.stored_file(file)?, word.as_ref())))
            .collect();
        let mut found = self.stored.search_each(&asked, run)?.into_iter();
        let offsets = questions.iter().zip(&files).map(|((_, word), &file)| {
            let stored = match self.stored_file(file) {
                None => Vec::new(),
                Some(_) => found.next().expect("each stored file was asked"),
            };
            self.moved_offsets(file, word.as_ref(), stored)
        });
        Ok(offsets.collect())
    }

    /// Where a word stands in a file, told by its number.
    pub(crate) fn offsets_of(&self, file: usize, word: u32, stop: &AtomicBool) -> Result<Vec<u64>> {
        self.search_in(file, self.word(word), stop)
    }

    /// Where a word stands in a file, counted in words; ascending.
    pub(crate) fn positions_of(
        &self,
        file: usize,
        word: u32,
        stop: &AtomicBool,
    ) -> Result<Vec<u64>> {
        let stored = match (self.stored_file(file), self.numbering.source(word)) {
            (Some(stored), super::WordSource::Stored(word)) => {
                self.stored.positions_of(stored, word, stop)?
            }
            _ => Vec::new(),
        };
        Ok(match self.edit(file) {
            None => stored,
            Some(edit) => (edit.text).moved_positions(self.numbering.met(word), stored),
        })
    }

    /// Offsets of a word in the stored file as they are now, with those that edits brought.
    fn moved_offsets(&self, file: usize, word: &[u8], stored: Vec<u64>) -> Vec<u64> {
        match self.edit(file) {
            None => stored,
            Some(edit) => edit.text.moved_offsets(word, stored),
        }
    }

    /// The bytes `offset..offset + length` of a file, as far as it goes.
    pub(crate) fn extract(&self, file: usize, offset: u64, length: u64) -> Result<Vec<u8>> {
        match self.edit(file) {
            None => (self.stored).extract(self.stored_of[file] as usize, offset, length),
            Some(edit) => edit.text.extract(offset, length),
        }
    }

    /// The bytes of many ranges.
    pub(crate) fn extract_many<F>(
        &self,
        ranges: &[(F, u64, u64)],
        run: Run<'_>,
    ) -> Result<Vec<Vec<u8>>>
    where
        F: AsRef<str> + Sync,
    {
        let files = self.find_files(ranges.iter().map(|(file, ..)| file.as_ref()))?;
        let pieces: Vec<Vec<Piece>> = (ranges.par_iter().with_min_len(TASK_RANGES).zip(&files))
            .map(|(&(_, offset, length), &file)| self.pieces(file, offset, length))
            .collect();
        // What is stored is asked for together.
        let mut asked = Vec::with_capacity(ranges.len());
        for (pieces, &file) in pieces.iter().zip(&files) {
            ask_stored(pieces, self.stored_file(file), &mut asked);
        }
        let mut found = self.stored.extract_each(&asked, run)?.into_iter();
        let texts = pieces.iter().map(|pieces| joined(pieces, &mut found));
        Ok(texts.collect())
    }

    /// The pieces of some bytes of a file, as far as it goes.
    fn pieces(&self, file: usize, offset: u64, length: u64) -> Vec<Piece> {
        match self.edit(file) {
            Some(edit) => edit.text.pieces(offset, length),
            None => {
                let end = offset.saturating_add(length).min(self.files[file].bytes);
                let stored = (offset < end).then(|| Piece::Stored(offset..end));
                stored.into_iter().collect()
            }
        }
    }

    /// Writes a file; the inner error is the target's.
    pub(crate) fn write_file(&self, file: usize, target: &mut dyn Write) -> Result<io::Result<()>> {
        match self.edit(file) {
            None => self
                .stored
                .write_file(self.stored_of[file] as usize, target),
            Some(edit) => edit.text.write(target),
        }
    }

    /// Whether the bytes where words of a file begin are told without building anything first.
    pub(crate) fn can_tell_offsets_now(&self, file: usize) -> bool {
        (self.stored_file(file)).is_none_or(|stored| self.stored.can_tell_offsets_now(stored))
    }

    /// Whether places of words in a file are kept.
    pub(crate) fn has_places(&self, file: usize, unit: Unit) -> bool {
        (self.stored_file(file)).is_none_or(|stored| self.stored.has_places(stored, unit))
    }

    /// Whether words of a file are counted by a look-up in a table.
    pub(crate) fn can_count_now(&self, file: usize) -> bool {
        (self.stored_file(file)).is_none_or(|stored| self.stored.can_count_now(stored))
    }

    /// Whether bytes of a file are extracted without anything being built first.
    pub(crate) fn can_extract_now(&self, file: usize) -> bool {
        (self.stored_file(file)).is_none_or(|stored| self.stored.can_extract_now(stored))
    }

    /// The place of the segment that has all of a file, which has no edits.
    pub(crate) fn only_segment(&self, file: usize) -> Option<u32> {
        match self.edit(file) {
            None => self.stored.only_segment(self.stored_file(file)?),
            Some(_) => None,
        }
    }

    /// Every word of a file's regions, by number, in order of place: region, number in the file, offset.
    pub(in crate::answer) fn edited_words(&self, file: usize) -> Option<EditedWords<'_>> {
        let numbering = &self.numbering;
        self.edit(file).map(|edit| EditedWords { edit, numbering })
    }

    /// The number now of a stored word.
    pub(in crate::answer) fn number(&self, stored: u32) -> u32 {
        self.numbering.number(stored)
    }

    /// The stored file that a file rests on.
    pub(in crate::answer) fn origin(&self, file: u32) -> Option<u32> {
        let stored = self.stored_of[file as usize];
        (stored != NONE).then_some(stored)
    }
}

/// Extracts that one task makes at least.
const TASK_RANGES: usize = 16;

/// The regions of a file, for going through its words.
pub(in crate::answer) struct EditedWords<'a> {
    edit: &'a Edit,
    numbering: &'a Numbering,
}

impl EditedWords<'_> {
    /// How many regions there are.
    pub(in crate::answer) fn len(&self) -> usize {
        self.edit.regions().regions.len()
    }

    /// Whether a stored byte lies behind the start of region `next`, whose words come first then.
    pub(in crate::answer) fn starts_before(&self, next: usize, offset: u64) -> bool {
        (self.edit.regions().regions.get(next))
            .is_some_and(|region| region.stored_bytes.start <= offset)
    }

    /// The words of region `index`: number, position, offset.
    pub(in crate::answer) fn words(
        &self,
        index: usize,
    ) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let region = &self.edit.regions().regions[index];
        let words = (0..).zip(&region.text.words);
        words.map(|(place, word)| {
            let offset = region.bytes.start + u64::from(word.offset);
            let number = self.numbering.number_met(word.word);
            (number, region.words.start + place, offset)
        })
    }

    /// Where a stored word is now, with regions before `next` in front of it; none if it lies in the last of them.
    pub(in crate::answer) fn moved(
        &self,
        next: usize,
        position: u64,
        offset: u64,
    ) -> Option<(u64, u64)> {
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
