//! Words in order by their numbers alone: places are counted in words, and bytes are not known.
//!
//! Invariant: every wanted word of the files is returned once, in order of file and place. The stream reads the grammar over
//! words, which has no gaps, so a word takes a copy of its number; files with pending edits are read by [`WordStream`].

use std::mem;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::corpus_view::CorpusView;
use super::stored_view::StoredView;
use super::terminals::{root_of_file, take_terminals};
use super::word_cursor::{Occurrence, PlaceRanges, WordStream};
use crate::Result;
use crate::runtime::interrupt::{Interrupt, check};
use crate::segment::{SegmentView, StructureKind, WordExpansions};

/// All words of some files between two positions.
pub(crate) struct NumberStream {
    view: Arc<CorpusView>,
    /// The files to come, the next one last.
    files: Vec<u32>,
    /// The wanted positions of words in their files.
    positions: RangeInclusive<u64>,
    current: Option<CurrentFile>,
}

/// The current file.
enum CurrentFile {
    Stored(Box<CurrentPart>),
    /// A file with edits, or one that consists of edits only.
    Edited(Box<WordStream>),
}

/// The rest of a part of a file.
struct CurrentPart {
    /// The stored file, and that of the corpus.
    files: (usize, u32),
    part_number: usize,
    segment: SegmentView,
    /// The rest of the root, and of the bodies within, as for [`take_terminals`].
    stack: Vec<(u32, u32)>,
    /// Words of the file before the rest.
    position: u64,
    /// Wanted words of the rest.
    left: u64,
}

/// Consecutive words of a file.
#[derive(Debug, Default)]
pub(crate) struct NumberRun {
    /// Place in [`crate::Snapshot::files`].
    pub(crate) file: u32,
    /// 0-based number of the first word in the file.
    pub(crate) position: u64,
    /// Numbers in the corpus' vocabulary.
    pub(crate) words: Vec<u32>,
}

impl NumberStream {
    /// A stream of the words of `files` at some positions, files in the order given.
    pub(crate) fn within(
        view: Arc<CorpusView>,
        mut files: Vec<u32>,
        positions: RangeInclusive<u64>,
    ) -> NumberStream {
        if positions.is_empty() {
            files.clear()
        } else {
            files.reverse()
        }
        NumberStream {
            view,
            files,
            positions,
            current: None,
        }
    }

    /// Reads the next `count` words of a file, or some more, or its rest; no words at the end.
    pub(crate) fn read(&mut self, count: usize) -> Result<NumberRun> {
        let (stored, mut run) = (self.view.stored().clone(), NumberRun::default());
        let positions = &self.positions;
        while run.words.is_empty() {
            match &mut self.current {
                None => {
                    let Some(file) = self.files.pop() else { break };
                    self.current = match self.view.resolve(file as usize) {
                        (Some(number), None) => {
                            let part =
                                CurrentPart::enter(&stored, (number, file), (0, 0), positions);
                            part?.map(CurrentFile::Stored)
                        }
                        _ => {
                            let (view, offsets) = (self.view.clone(), PlaceRanges::ALL.offsets);
                            let positions = positions.clone();
                            let places = PlaceRanges { offsets, positions };
                            let words = WordStream::within(view, vec![file], places, 0);
                            Some(CurrentFile::Edited(Box::new(words)))
                        }
                    };
                }
                Some(CurrentFile::Edited(words)) => {
                    let mut buffer: Vec<Occurrence> = Vec::new();
                    if !words.fill(&mut buffer, count)? && buffer.is_empty() {
                        self.current = None;
                    }
                    // The stream may have words beside the wanted ones.
                    buffer.retain(|word| positions.contains(&word.position));
                    if let Some(first) = buffer.first() {
                        (run.file, run.position) = (first.file, first.position);
                    }
                    run.words.extend(buffer.iter().map(|word| word.word));
                }
                Some(CurrentFile::Stored(part)) => {
                    part.read(&stored, &mut run, count)?;
                    if run.words.is_empty() {
                        let next = (part.part_number + 1, part.position);
                        let entered = CurrentPart::enter(&stored, part.files, next, positions)?;
                        self.current = entered.map(CurrentFile::Stored);
                    } else if let Some(pending) = self.view.pending() {
                        for word in &mut run.words {
                            *word = pending.numbering.number(*word);
                        }
                    }
                }
            }
        }
        Ok(run)
    }

    /// Reads the next `count` words, or some more, or the rest, on the threads of the database, for a statement; no run is empty.
    ///
    /// # Errors
    /// If the statement must end, or a segment is damaged.
    pub(crate) fn read_until(
        &mut self,
        count: usize,
        interrupt: &Interrupt,
    ) -> Result<Vec<NumberRun>> {
        let view = self.view.clone();
        let nothing = NumberStream::within(view.clone(), Vec::new(), 0..=0);
        let mut stream = mem::replace(self, nothing);
        let (stream, runs) = interrupt.apart(view.pool(), move |stop| {
            let (mut runs, mut read) = (Vec::new(), 0);
            while read < count {
                check(stop)?;
                let run = stream.read(count - read)?;
                if run.words.is_empty() {
                    break;
                }
                read += run.words.len();
                runs.push(run);
            }
            Ok((stream, runs))
        })?;
        *self = stream;
        Ok(runs)
    }
}

impl CurrentPart {
    /// Moves to the first wanted word of a part of a file, or of a later one, if there is any: the part by its number, and the
    /// words of the file before it.
    fn enter(
        stored: &Arc<StoredView>,
        files: (usize, u32),
        (mut part_number, mut position): (usize, u64),
        positions: &RangeInclusive<u64>,
    ) -> Result<Option<Box<CurrentPart>>> {
        while position <= *positions.end()
            && let Some(part) = stored.index.parts(files.0).get(part_number)
        {
            let segment = stored.segment(part);
            let words = segment.files()?[part.file as usize].words;
            let wanted = positions.end().saturating_add(1) - position;
            let before = positions.start().saturating_sub(position);
            if before >= words {
                (part_number, position) = (part_number + 1, position + words);
                continue;
            }
            let stack = match before {
                0 => root_of_file(segment.word_grammar()?.view(), part.file),
                _ => segment.left_from_word(part.file, before)?,
            };
            return Ok(Some(Box::new(CurrentPart {
                files,
                part_number,
                stack,
                segment,
                position: position + before,
                left: words.min(wanted) - before,
            })));
        }
        Ok(None)
    }

    fn read(&mut self, stored: &StoredView, run: &mut NumberRun, count: usize) -> Result<()> {
        let part = &stored.index.parts(self.files.0)[self.part_number];
        (run.file, run.position) = (self.files.1, self.position);
        // Reading reserves room for `count` words, which may be more than are left.
        let count = self.left.min(count as u64) as usize;
        if count == 0 {
            return Ok(());
        }
        take_terminals::<WordExpansions>(&self.segment, &mut self.stack, count, &mut run.words)?;
        let read = self.left.min(run.words.len() as u64);
        run.words.truncate(read as usize);
        self.position += read;
        self.left -= read;
        if let Some(numbers) = stored.vocabulary()?.numbers(part.segment as usize) {
            for word in &mut run.words {
                // Words are numbered by u32.
                *word = numbers.get(*word as usize) as u32;
            }
        }
        Ok(())
    }
}

impl CorpusView {
    /// The cost of decoding before the words at some positions can be read by their numbers alone, in nanoseconds of all threads.
    pub(crate) fn missing_for_numbers(&self, positions: &RangeInclusive<u64>) -> f64 {
        match positions.start() {
            0 => self.missing(&[StructureKind::WordGrammar]),
            _ => self.missing(&[StructureKind::WordGrammar, StructureKind::WordLengths]),
        }
    }
}
