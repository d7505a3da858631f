//! Words one after the other by their numbers alone: where they stand is counted in words, and nothing tells their bytes.
//!
//! Invariant: every word of the wanted files is given once, in order of file and place. Files have no pending edits. What is read is
//! the grammar over words, which has no gaps, so a word takes a copy of its number.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::corpus_view::CorpusView;
use super::cost::FOLLOWED_TOKEN_COST;
use super::stored_view::StoredView;
use super::stream::follow;
use crate::Result;
use crate::api::snapshot::Snapshot;
use crate::runtime::interrupt::Interrupt;
use crate::segment::{SegmentView, StructureKind, Unit, WordExpansions};

/// All words of some files.
pub(crate) struct NumberStream {
    view: Arc<CorpusView>,
    /// Files to come, the next one last.
    files: Vec<u32>,
    current: Option<CurrentPart>,
}

/// A part of a file, and what comes next of it.
struct CurrentPart {
    /// As stored, and in the corpus.
    files: (usize, u32),
    part_number: usize,
    segment: SegmentView,
    /// What is left of the root, and of the bodies within, as [`super::stream::WordStream`] has it.
    stack: Vec<(u32, u32)>,
    /// Words of the file before what comes next.
    position: u64,
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
    /// Over `files`, in the order given; none if edits are pending.
    pub(crate) fn new(view: Arc<CorpusView>, mut files: Vec<u32>) -> Option<NumberStream> {
        files.reverse();
        view.pending().is_none().then_some(NumberStream {
            view,
            files,
            current: None,
        })
    }

    /// Reads the next `count` words of a file, or some more, or what is left of it; no words if there are no more.
    fn read(&mut self, run: &mut NumberRun, count: usize) -> Result<()> {
        let stored = self.view.stored().clone();
        loop {
            let current = match &mut self.current {
                Some(current) => current,
                None => {
                    let Some(file) = self.files.pop() else {
                        run.words.clear();
                        return Ok(());
                    };
                    // Without edits a file rests on a stored one.
                    let (Some(number), _) = self.view.resolve(file as usize) else {
                        continue;
                    };
                    let entered = CurrentPart::enter(&stored, (number, file), 0, 0)?;
                    match entered {
                        Some(entered) => self.current.insert(entered),
                        None => continue,
                    }
                }
            };
            current.read(&stored, run, count)?;
            if !run.words.is_empty() {
                return Ok(());
            }
            let (files, next, position) =
                (current.files, current.part_number + 1, current.position);
            self.current = CurrentPart::enter(&stored, files, next, position)?;
        }
    }

    /// As `read`, on the threads of the database, for a statement.
    ///
    /// # Errors
    /// If the statement has to end, or a segment is damaged.
    pub(crate) fn read_until(
        &mut self,
        run: &mut NumberRun,
        count: usize,
        snapshot: &Snapshot,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let nothing = NumberStream {
            view: self.view.clone(),
            files: Vec::new(),
            current: None,
        };
        let (mut stream, mut words) = (mem::replace(self, nothing), mem::take(run));
        (*self, *run) = snapshot.ask(interrupt, move |_, _| {
            stream.read(&mut words, count)?;
            Ok((stream, words))
        })?;
        Ok(())
    }
}

impl CurrentPart {
    /// Goes to the start of a part of a file, if there is one more.
    fn enter(
        stored: &Arc<StoredView>,
        files: (usize, u32),
        part_number: usize,
        position: u64,
    ) -> Result<Option<CurrentPart>> {
        let Some(part) = stored.index.parts(files.0).get(part_number) else {
            return Ok(None);
        };
        let segment = stored.segment(part);
        let root = segment.word_grammar()?.view().root_range(part.file);
        Ok(Some(CurrentPart {
            files,
            part_number,
            // Offsets into the root are u32.
            stack: vec![(root.start as u32, root.end as u32)],
            segment,
            position,
        }))
    }

    fn read(&mut self, stored: &StoredView, run: &mut NumberRun, count: usize) -> Result<()> {
        let part = &stored.index.parts(self.files.0)[self.part_number];
        let grammar = self.segment.word_grammar()?.view();
        (run.file, run.position) = (self.files.1, self.position);
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
    /// Nanoseconds of all threads for what has to be decoded before words come one by one by their numbers alone; none if edits
    /// are pending.
    pub(crate) fn missing_for_numbers(&self) -> Option<f64> {
        let wanted = [StructureKind::WordGrammar];
        let segments = self.segments().iter();
        let missing = segments.map(|segment| SegmentView::of(segment).missing(&wanted));
        self.pending().is_none().then(|| missing.sum())
    }
}
