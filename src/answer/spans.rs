//! Where spans begin: an automaton that reads the grammar over words backwards, with what is shared read once.
//!
//! Invariant: starts are those of the current text. Files with pending edits are left to the caller, which reads their words. A file
//! that is cut into parts is read from its last part on, and the state goes from one part to the one before.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use zipfdb_kernels::{
    Direction, FileEvents, Halted, SpanMemo, SpanPass, SpanWalk, StepTable, TableMachine,
};

use super::corpus_view::CorpusView;
use super::file_index::Part;
use crate::segment::SegmentView;
use crate::{Error, Result};

/// Bytes of what is kept of a segment's rules for a query.
const MEMO_BYTES_MAX: usize = 256 << 20;

/// An automaton prepared for the segments of a corpus.
pub(crate) struct SpanPasses {
    /// The automaton over classes of words, read backwards: an event is a place where a span begins.
    table: StepTable,
    start: u32,
    segments: Vec<OnceLock<SegmentPass>>,
}

/// What a query needs of a segment.
struct SegmentPass {
    segment: SegmentView,
    /// For each word of the segment its class.
    classes: Vec<u16>,
    memo: SpanMemo<()>,
}

impl SpanPasses {
    /// Nothing is read of the segments yet.
    pub(crate) fn new(view: &CorpusView, table: StepTable, start: u32) -> SpanPasses {
        let segments = view.segments().iter();
        SpanPasses {
            table,
            start,
            segments: segments.map(|_| OnceLock::new()).collect(),
        }
    }
}

impl SegmentPass {
    fn machine<'a>(&'a self, passes: &'a SpanPasses) -> TableMachine<'a> {
        TableMachine {
            classes: &self.classes,
            table: &passes.table,
        }
    }
}

impl CorpusView {
    /// The positions in a file where spans begin, ascending; none if edits are pending in it. `class_of` is the class of a word of
    /// the corpus.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn span_starts(
        &self,
        passes: &SpanPasses,
        class_of: &[u16],
        file: u32,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u64>>> {
        let (Some(stored), None) = self.resolve(file as usize) else {
            return Ok(None);
        };
        let parts = self.stored().index.parts(stored);
        let mut ends = self.files()[file as usize].words;
        let mut state = passes.start;
        let mut starts = Vec::new();
        for part in parts.iter().rev() {
            let pass = self.segment_pass(passes, part, class_of)?;
            let words = pass.segment.files()?[part.file as usize].words;
            let first = ends - words;
            state = self.read_part(passes, pass, part, (first, state), stop, &mut starts)?;
            ends = first;
        }
        starts.reverse();
        Ok(Some(starts))
    }

    /// Reads a part of a file backwards, from a state, and appends the starts in it; returns the state before it.
    fn read_part(
        &self,
        passes: &SpanPasses,
        pass: &SegmentPass,
        part: &Part,
        (first, state): (u64, u32),
        stop: &AtomicBool,
        starts: &mut Vec<u64>,
    ) -> Result<u32> {
        let machine = pass.machine(passes);
        let reading = SpanPass {
            view: pass.segment.word_grammar()?.view(),
            lengths: pass.segment.word_lengths()?,
            machine: &machine,
            memo: &pass.memo,
            stop,
        };
        let mut walk = SpanWalk::new(reading, part.file, 0..u64::MAX, state);
        while let Some(event) = walk.next_event().map_err(halted)? {
            starts.push(first + event.start);
        }
        Ok(walk.state())
    }

    /// The number of starts in each of some files; none for a file with pending edits or of several parts.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn span_counts(
        &self,
        passes: &SpanPasses,
        class_of: &[u16],
        files: &[u32],
        stop: &AtomicBool,
    ) -> Result<Vec<Option<u64>>> {
        let mut counts = vec![None; files.len()];
        let mut by_segment: Vec<Vec<(usize, u32)>> = vec![Vec::new(); self.segments().len()];
        let mut parts = vec![None; self.segments().len()];
        for (place, &file) in files.iter().enumerate() {
            if let Some(part) = self.only_part(file as usize) {
                by_segment[part.segment as usize].push((place, part.file));
                parts[part.segment as usize] = Some(part);
            }
        }
        for (asked, part) in by_segment.iter().zip(parts) {
            let Some(part) = part else { continue };
            let pass = self.segment_pass(passes, &part, class_of)?;
            let machine = pass.machine(passes);
            let reading = SpanPass {
                view: pass.segment.word_grammar()?.view(),
                lengths: pass.segment.word_lengths()?,
                machine: &machine,
                memo: &pass.memo,
                stop,
            };
            let numbers: Vec<u32> = asked.iter().map(|(_, file)| *file).collect();
            let found = reading.count(&numbers, passes.start).map_err(halted)?;
            for (&(place, _), FileEvents { events, .. }) in asked.iter().zip(found) {
                counts[place] = Some(events);
            }
        }
        Ok(counts)
    }

    /// What a query needs of the segment of a part.
    fn segment_pass<'p>(
        &self,
        passes: &'p SpanPasses,
        part: &Part,
        class_of: &[u16],
    ) -> Result<&'p SegmentPass> {
        let place = part.segment as usize;
        if let Some(known) = passes.segments[place].get() {
            return Ok(known);
        }
        let segment = self.stored().segment_at(place);
        let view = segment.word_grammar()?.view();
        let vocabulary = self.stored().vocabulary()?;
        let classes = (0..view.terminal_count).map(|word| {
            let stored = vocabulary.number(place, word);
            let pending = self.pending();
            let number = pending.map_or(stored, |pending| pending.numbering.number(stored));
            class_of[number as usize]
        });
        let classes = classes.collect();
        let symbols = view.terminal_count as usize + view.rules();
        let made = SegmentPass {
            memo: SpanMemo::new(symbols, Direction::Backward, MEMO_BYTES_MAX),
            classes,
            segment,
        };
        Ok(passes.segments[place].get_or_init(|| made))
    }
}

fn halted(halted: Halted) -> Error {
    match halted {
        Halted::Stopped => Error::Interrupted,
        Halted::GaveUp => Error::Invalid {
            subject: "query".into(),
            reason: halted.to_string(),
        },
    }
}
