//! The automaton of a query as a table that reads grammars backwards.
//!
//! Invariant: a state is what the automaton knows in front of a word and of the gap before it, as far as that was read. Boundaries
//! of lines and paragraphs are found in gaps; those of files and records lie at the ends of files, which no gap token shows, so the
//! gaps before the first word and behind the last have no effect. Sentences and windows have no table.

use std::collections::HashMap;

use zipfdb_kernels::StepTable;
use zipfdb_search::algebra::Unit;
use zipfdb_search::automaton::{Boundary, Form, LazyDfa, Letter, Nfa};

use crate::answer::{GapClasses, NO_BREAK, SpanTable};

/// A state of the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum TableState {
    /// Behind the last word of a file.
    End,
    Inside {
        /// The state of the automaton after the boundaries of the gap so far.
        place: u32,
        /// Whether a span begins here, if the word is the first of its file.
        begins: bool,
        /// What was read last of the gap.
        scan: u8,
    },
}

/// The table of an automaton that reads matches backwards, of at most `size_max` steps. `letters` are those of words.
pub(super) fn span_table(
    backwards: &Nfa,
    boundaries: &[Boundary],
    letters: &[Letter],
    size_max: usize,
) -> Option<SpanTable> {
    let is_read = |boundary: &Boundary| {
        let unit = boundary.unit;
        matches!(
            unit,
            Unit::File | Unit::Record | Unit::Line | Unit::Paragraph
        )
    };
    if !boundaries.iter().all(is_read) {
        return None;
    }
    let bits = |holds: &dyn Fn(&Boundary) -> bool| {
        let places = (0..).zip(boundaries);
        let bits = places.map(|(bit, boundary)| u64::from(holds(boundary)) << bit);
        bits.sum::<u64>()
    };
    let file_start = bits(&|boundary| !boundary.is_end);
    let file_end = bits(&|boundary| boundary.is_end);
    let line = bits(&|boundary| boundary.unit == Unit::Line);
    let paragraph = bits(&|boundary| boundary.unit == Unit::Paragraph);
    let gaps = (line | paragraph != 0).then(|| GapClasses::new(paragraph != 0));
    let gap_classes = gaps.as_ref().map_or(&[][..], |gaps| &gaps.classes);
    let class_count = letters.len() + gap_classes.len();
    if class_count > usize::from(u16::MAX) {
        return None;
    }
    let states_max = size_max / class_count.max(1);
    let mut automaton = LazyDfa::new(backwards, letters, Form::Searching, states_max);
    let behind = automaton.start();
    let mut numbers: HashMap<TableState, u32> = HashMap::new();
    let mut states: Vec<TableState> = Vec::new();
    let mut number = |states: &mut Vec<TableState>, state: TableState| {
        *numbers.entry(state).or_insert_with(|| {
            states.push(state);
            states.len() as u32 - 1
        })
    };
    let inside = |automaton: &mut LazyDfa<'_>, word: u32| {
        let at_start = automaton.step_place(word, file_start)?;
        Some(TableState::Inside {
            place: word,
            begins: automaton.is_match(at_start),
            scan: NO_BREAK,
        })
    };
    let start = number(&mut states, TableState::End);
    let usual_state = inside(&mut automaton, behind)?;
    let usual = number(&mut states, usual_state);
    let mut next = Vec::new();
    let mut is_event = Vec::new();
    let mut read = 0;
    while let Some(&state) = states.get(read) {
        if states.len() > states_max {
            return None;
        }
        let place = match state {
            TableState::End => automaton.step_place(behind, file_end)?,
            TableState::Inside { place, .. } => place,
        };
        for class in 0..letters.len() as u32 {
            let word = automaton.step(place, class)?;
            let state = inside(&mut automaton, word)?;
            next.push(number(&mut states, state));
            is_event.push(automaton.is_match(place));
        }
        for class in gap_classes {
            let state = match state {
                TableState::End => TableState::End,
                TableState::Inside {
                    place,
                    begins,
                    scan,
                } => {
                    let (scan, has_empty_line) = class.scans[usize::from(scan)];
                    let found = if class.has_line_end { line } else { 0 }
                        | if has_empty_line { paragraph } else { 0 };
                    TableState::Inside {
                        place: automaton.step_place(place, found)?,
                        begins,
                        scan,
                    }
                }
            };
            next.push(number(&mut states, state));
            is_event.push(false);
        }
        read += 1;
    }
    let begins = states.iter().map(|state| match state {
        TableState::End => false,
        TableState::Inside { begins, .. } => *begins,
    });
    let begins: Vec<bool> = begins.collect();
    // Without boundaries the end of a file is as any other place.
    let row = |state: u32| {
        let steps = next[state as usize * class_count..][..class_count].iter();
        steps.map(|&next| if next == start { usual } else { next })
    };
    let has_no_event = |state: u32| {
        let events = &is_event[state as usize * class_count..][..class_count];
        !events.contains(&true) && !begins[state as usize]
    };
    let is_same = has_no_event(start) && has_no_event(usual) && row(start).eq(row(usual));
    Some(SpanTable {
        steps: StepTable::new(class_count, &next, |step| is_event[step]),
        start: if is_same { usual } else { start },
        usual,
        begins,
        gaps,
        // Letters are at most 65,535.
        word_classes: letters.len() as u16,
    })
}
