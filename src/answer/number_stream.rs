//! Words one after the other by their numbers alone: where they stand is counted in words, and nothing tells their bytes.
//!
//! Invariant: every word of the wanted files is given once, in order of file and place. What is read is the grammar over words, which
//! has no gaps, so a word takes a copy of its number; files that have pending edits are read as [`WordStream`] does.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::corpus_view::CorpusView;
use super::cost::FOLLOWED_TOKEN_COST;
use super::stored_view::StoredView;
use super::stream::{Occurrence, WordStream, follow};
use crate::Result;
use crate::api::snapshot::Snapshot;
use crate::runtime::interrupt::{Interrupt, check};
use crate::segment::{SegmentView, StructureKind, Unit, WordExpansions};

/// All words of some files.
pub(crate) struct NumberStream {
    view: Arc<CorpusView>,
    /// Files to come, the next one last.
    files: Vec<u32>,
    current: Option<CurrentFile>,
}

/// A file at hand.
enum CurrentFile {
    Stored(Box<CurrentPart>),
    /// With edits, or of nothing else.
    Edited(Box<WordStream>),
}

/// A part of a file, and what comes next of it.
struct CurrentPart {
    /// As stored, and in the corpus.
    files: (usize, u32),
    part_number: usize,
    segment: SegmentView,
    /// What is left of the root, and of the bodies within, as [`follow`] takes it.
    stack: Vec<(u32, u32)>,
    /// Words of the file before what comes next.
    position: u64,
    /// Words of the part from there on.
    left: u64,
}

/// Words that follow each other in a file.
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
    /// Over `files`, in the order given.
    pub(crate) fn new(view: Arc<CorpusView>, mut files: Vec<u32>) -> NumberStream {
        files.reverse();
        NumberStream {
            view,
            files,
            current: None,
        }
    }

    /// Reads the next `count` words of a file, or some more, or what is left of it; no words if there are no more.
    fn read(&mut self, count: usize) -> Result<NumberRun> {
        let (stored, mut run) = (self.view.stored().clone(), NumberRun::default());
        while run.words.is_empty() {
            match &mut self.current {
                None => {
                    let Some(file) = self.files.pop() else { break };
                    self.current = match self.view.resolve(file as usize) {
                        (Some(number), None) => CurrentPart::enter(&stored, (number, file), 0, 0)?
                            .map(CurrentFile::Stored),
                        _ => {
                            let words = WordStream::new(self.view.clone(), vec![file]);
                            Some(CurrentFile::Edited(Box::new(words)))
                        }
                    };
                }
                Some(CurrentFile::Edited(words)) => {
                    let mut buffer: Vec<Occurrence> = Vec::new();
                    words.fill(&mut buffer, count)?;
                    match buffer.first() {
                        Some(first) => (run.file, run.position) = (first.file, first.position),
                        None => self.current = None,
                    }
                    run.words.extend(buffer.iter().map(|word| word.word));
                }
                Some(CurrentFile::Stored(part)) => {
                    part.read(&stored, &mut run, count)?;
                    if run.words.is_empty() {
                        let next = part.part_number + 1;
                        let entered = CurrentPart::enter(&stored, part.files, next, part.position)?;
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

    /// Reads the next `count` words, or some more, or all if there are fewer, on the threads of the database, for a statement; none
    /// of the runs is empty.
    ///
    /// # Errors
    /// If the statement has to end, or a segment is damaged.
    pub(crate) fn read_until(
        &mut self,
        count: usize,
        snapshot: &Snapshot,
        interrupt: &Interrupt,
    ) -> Result<Vec<NumberRun>> {
        let nothing = NumberStream::new(self.view.clone(), Vec::new());
        let mut stream = mem::replace(self, nothing);
        let (stream, runs) = snapshot.ask(interrupt, move |_, stop| {
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
    /// Goes to the start of a part of a file, if there is one more.
    fn enter(
        stored: &Arc<StoredView>,
        files: (usize, u32),
        part_number: usize,
        position: u64,
    ) -> Result<Option<Box<CurrentPart>>> {
        let Some(part) = stored.index.parts(files.0).get(part_number) else {
            return Ok(None);
        };
        let segment = stored.segment(part);
        let root = segment.word_grammar()?.view().root_range(part.file);
        let left = segment.files()?[part.file as usize].words;
        Ok(Some(Box::new(CurrentPart {
            files,
            part_number,
            // Offsets into the root are u32.
            stack: vec![(root.start as u32, root.end as u32)],
            segment,
            position,
            left,
        })))
    }

    fn read(&mut self, stored: &StoredView, run: &mut NumberRun, count: usize) -> Result<()> {
        let part = &stored.index.parts(self.files.0)[self.part_number];
        let grammar = self.segment.word_grammar()?.view();
        (run.file, run.position) = (self.files.1, self.position);
        // What is read makes room for all that is asked for.
        let count = self.left.clamp(1, count as u64) as usize;
        match self.segment.word_expansions()? {
            Some(WordExpansions(kept)) => {
                kept.take(grammar, &mut self.stack, count, &mut run.words)
            }
            None => {
                follow(grammar, &mut self.stack, count, &mut run.words);
                let cost = run.words.len() as u64 * FOLLOWED_TOKEN_COST;
                self.segment.budgets.expansions[Unit::Words as usize].add(cost);
            }
        }
        self.position += run.words.len() as u64;
        self.left = self.left.saturating_sub(run.words.len() as u64);
        if let Some(numbers) = stored.vocabulary()?.numbers(part.segment as usize) {
            for word in &mut run.words {
                // Words are numbered by u32.
                *word = numbers.get(*word as usize) as u32;
            }
        }
        Ok(())
    }
}

impl SegmentView {
    /// What rules are in words, if that is there, or scans have followed rules as long as making it takes.
    fn word_expansions(&self) -> Result<Option<&WordExpansions>> {
        let price = self.missing(&[StructureKind::WordExpansions]) as u64; // below 2^40
        let bytes = WordExpansions::bytes_max(self.word_grammar()?.view()) as u64;
        let budget = &self.budgets.expansions[Unit::Words as usize];
        self.pin_if_due(budget, price, bytes, &AtomicBool::new(false))
    }
}

impl CorpusView {
    /// Nanoseconds of all threads for what has to be decoded before words come one by one by their numbers alone.
    pub(crate) fn missing_for_numbers(&self) -> f64 {
        self.missing(&[StructureKind::WordGrammar])
    }
}
