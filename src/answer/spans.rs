//! Where spans begin: an automaton that reads a grammar backwards, that over words or with gaps that over tokens, with what is
//! shared read once.
//!
//! Invariant: starts are those of the current text. Files with pending edits are left to the caller, which reads their words. A file
//! that is cut into parts is read from its last part on, and the state goes from one part to the one before.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use zipfdb_kernels::{
    Direction, FileEvents, GAP, Halted, SpanMemo, SpanPass, SpanWalk, StepTable, TableMachine,
};

use super::corpus_view::CorpusView;
use super::file_index::Part;
use super::gap_classes::GapClasses;
use crate::segment::SegmentView;
use crate::{Error, Result};

/// Bytes of what is kept of a segment's rules for a query.
const MEMO_BYTES_MAX: usize = 256 << 20;

/// An automaton that reads files backwards as a table over classes of words and, where boundaries of lines or paragraphs decide, of
/// gaps. An event is a place where a span begins: it happens in the word before the place, as the gap between decides too.
pub(crate) struct SpanTable {
    pub(crate) steps: StepTable,
    /// The state at the end of a file, and that behind most words.
    pub(crate) start: u32,
    pub(crate) usual: u32,
    /// For each state whether a span begins at the start of a file that is reached in it.
    pub(crate) begins: Vec<bool>,
    /// The classes of gaps, which follow those of words; none if the grammar over words decides.
    pub(crate) gaps: Option<GapClasses>,
    /// The number of classes of words.
    pub(crate) word_classes: u16,
}

/// An automaton prepared for the segments of a corpus.
pub(crate) struct SpanPasses {
    table: SpanTable,
    segments: Vec<OnceLock<SegmentPass>>,
}

/// What a query needs of a segment.
struct SegmentPass {
    segment: SegmentView,
    /// For each terminal of the grammar its class.
    classes: Vec<u16>,
    memo: SpanMemo<()>,
}

impl SpanPasses {
    /// Nothing is read of the segments yet.
    pub(crate) fn new(view: &CorpusView, table: SpanTable) -> SpanPasses {
        let segments = view.segments().iter();
        SpanPasses {
            table,
            segments: segments.map(|_| OnceLock::new()).collect(),
        }
    }
}

impl SegmentPass {
    fn machine<'a>(&'a self, passes: &'a SpanPasses) -> TableMachine<'a> {
        TableMachine {
            classes: &self.classes,
            table: &passes.table.steps,
        }
    }

    /// The pass of a machine over the grammar that the table reads.
    fn reading<'a>(
        &'a self,
        passes: &SpanPasses,
        machine: &'a TableMachine<'a>,
        stop: &'a AtomicBool,
    ) -> Result<SpanPass<'a, TableMachine<'a>>> {
        let (view, lengths) = if passes.table.gaps.is_some() {
            (self.segment.view()?, self.segment.token_words()?)
        } else {
            (
                self.segment.word_grammar()?.view(),
                self.segment.word_lengths()?,
            )
        };
        Ok(SpanPass {
            view,
            lengths,
            machine,
            memo: &self.memo,
            stop,
        })
    }
}

impl CorpusView {
    /// The positions in a file where spans begin, ascending, as far as some of its words decide; none if edits are pending in it.
    /// Where these are not all words, no boundary may decide. `class_of` is the class of a word of the corpus.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn span_starts(
        &self,
        passes: &SpanPasses,
        class_of: &[u16],
        (file, words): (u32, Range<u64>),
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u64>>> {
        let (Some(stored), None) = self.resolve(file as usize) else {
            return Ok(None);
        };
        let parts = self.stored().index.parts(stored);
        let table = &passes.table;
        let mut end = self.files()[file as usize].words;
        let mut state = if words.end == end {
            table.start
        } else {
            table.usual
        };
        // A start is found in the word before.
        let read = words.start.saturating_sub(1)..words.end;
        let mut starts = Vec::new();
        for part in parts.iter().rev() {
            let pass = self.segment_pass(passes, part, class_of)?;
            let first = end - pass.segment.files()?[part.file as usize].words;
            let of_part = read.start.max(first)..read.end.min(end);
            let machine = pass.machine(passes);
            let reading = pass.reading(passes, &machine, stop)?;
            let mut walk = if of_part == (first..end) {
                SpanWalk::of_file(reading, part.file, state)
            } else if of_part.is_empty() {
                end = first;
                continue;
            } else {
                let range = of_part.start - first..of_part.end - first;
                SpanWalk::new(reading, part.file, range, state)
            };
            while let Some(event) = walk.next_event().map_err(halted)? {
                starts.push(first + event.start + 1);
            }
            (state, end) = (walk.state(), first);
        }
        if words.start == 0 && table.begins[state as usize] {
            starts.push(0);
        }
        starts.reverse();
        Ok(Some(starts))
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
            let reading = pass.reading(passes, &machine, stop)?;
            let numbers: Vec<u32> = asked.iter().map(|(_, file)| *file).collect();
            let SpanTable { start, usual, .. } = passes.table;
            let found = reading.count(&numbers, start, usual).map_err(halted)?;
            for (&(place, _), FileEvents { events, state }) in asked.iter().zip(found) {
                let begins = passes.table.begins[state as usize];
                counts[place] = Some(events + u64::from(begins));
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
        let vocabulary = self.stored().vocabulary()?;
        let class = |word: u32| {
            let stored = vocabulary.number(place, word);
            let pending = self.pending();
            let number = pending.map_or(stored, |pending| pending.numbering.number(stored));
            class_of[number as usize]
        };
        let (view, classes) = match &passes.table.gaps {
            None => {
                let view = segment.word_grammar()?.view();
                (view, (0..view.terminal_count).map(class).collect())
            }
            Some(gaps) => {
                let (view, dictionary) = (segment.view()?, segment.dictionary()?);
                let words = segment.word_of()?;
                let of_token = |token: u32| match words[token as usize] {
                    GAP => passes.table.word_classes + gaps.class_of(dictionary.token(token)),
                    word => class(word),
                };
                (view, (0..view.terminal_count).map(of_token).collect())
            }
        };
        let symbols = view.symbol_count();
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
