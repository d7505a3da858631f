//! Text of a data block to sequences.
//!
//! The invariant: sequences make the text, literal strings have at most [`LITERALS_MAX`] bytes, references at most [`MATCH_MAX`] and
//! begin within the block and the window. With [`Elimination`] no reference of a group of 32 needs another of it. The result
//! depends on text and options alone.
//!
//! The section numbers are those of Sitaridi et al., ICPP 2016.

use std::ops::Range;

use super::format::{GROUP, LITERALS_MAX, MATCH_MAX, PackSequence, Record};
use super::match_finder::{FoundMatch, MatchFinder, SearchEffort};

/// Which references of a group of 32 sequences the parser forbids (DE, section IV-B).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Elimination {
    /// None.
    #[default]
    Off,
    /// References whose source does not end before the group, as in the paper.
    BeforeGroup,
    /// Those whose source needs another reference of the group: sources before its first reference, or within one of its literal
    /// strings, are allowed as well.
    References,
}

/// How a parser chooses among matches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parsing {
    pub(super) elimination: Elimination,
    pub(super) window: usize,
    pub(super) effort: SearchEffort,
    /// How many positions are tried for a better match before one is taken: 0 to 2.
    pub(super) lazy: usize,
    /// Shorter matches do not pay.
    pub(super) length_min: usize,
    /// Whether a match is the cheaper the nearer it is.
    pub(super) prefers_near: bool,
}

/// Sequences of a data block, and all their literal strings.
#[derive(Default)]
pub(super) struct Sequences {
    pub(super) records: Vec<Record>,
    pub(super) literals: Vec<u8>,
}

/// A text that is parsed, up to a position.
struct Parser<'a> {
    text: &'a [u8],
    parsing: Parsing,
    finder: &'a mut MatchFinder,
    sequences: &'a mut Sequences,
    group: GroupSources,
    /// Where the literal string begins that is not written yet.
    string: usize,
    /// Matched ranges that are made known when the group ends: their positions would only fill chains before.
    matched: Vec<Range<usize>>,
}

/// Where sources may lie while a group is made.
struct GroupSources {
    elimination: Elimination,
    /// Where the group begins.
    begin: usize,
    /// Where its first reference is written, if there is one.
    first_reference: Option<usize>,
    /// Its literal strings behind that.
    strings: Vec<Range<usize>>,
}

impl GroupSources {
    /// Where a source has to end that begins at `source`; `string..at` are literals of the sequence that is made.
    #[inline]
    fn end(&self, source: usize, string: usize, at: usize) -> usize {
        match self.elimination {
            Elimination::Off => usize::MAX,
            Elimination::BeforeGroup => self.begin,
            Elimination::References => match self.first_reference {
                None => at,
                Some(first) if source < first => first,
                Some(_) if source >= string => at,
                Some(_) => {
                    let after = self.strings.partition_point(|range| range.start <= source);
                    after
                        .checked_sub(1)
                        .map_or(0, |index| self.strings[index].end)
                }
            },
        }
    }
}

/// Parses a text to sequences, which are kept for the next call.
pub(super) fn parse(
    text: &[u8],
    parsing: Parsing,
    finder: &mut MatchFinder,
    sequences: &mut Sequences,
) {
    finder.begin(parsing.window, parsing.length_min == 3);
    sequences.records.clear();
    sequences.literals.clear();
    let mut parser = Parser {
        text,
        parsing,
        finder,
        sequences,
        group: GroupSources {
            elimination: parsing.elimination,
            begin: 0,
            first_reference: None,
            strings: Vec::new(),
        },
        string: 0,
        matched: Vec::new(),
    };
    parser.run();
}

impl Parser<'_> {
    fn run(&mut self) {
        let mut at = 0;
        while at < self.text.len() {
            if at - self.string == LITERALS_MAX {
                self.emit(at, None);
                continue;
            }
            let Some(mut found) = self.find(at, self.parsing.length_min - 1) else {
                self.finder.insert(self.text, at);
                at += 1;
                continue;
            };
            // Positions before this one are known.
            let mut known = at;
            let mut tries = 0;
            while tries < self.parsing.lazy && found.length < self.parsing.effort.nice_length {
                let next = at + tries + 1;
                if next - self.string > LITERALS_MAX || next >= self.text.len() {
                    break;
                }
                self.finder.insert(self.text, known);
                known += 1;
                tries += 1;
                // Nearer matches may be shorter; see `is_better`.
                let longer_than = found
                    .length
                    .saturating_sub(2)
                    .max(self.parsing.length_min - 1);
                if let Some(better) = self.find(next, longer_than)
                    && self.is_better(better, found, tries)
                {
                    at = next;
                    found = better;
                    tries = 0;
                }
            }
            self.emit(at, Some(found));
            let end = at + found.length;
            if self.parsing.elimination == Elimination::Off {
                (known..end).for_each(|at| self.finder.insert(self.text, at));
            } else {
                self.matched.push(known..end);
                self.end_group_if_full(end);
            }
            at = end;
        }
        if at > self.string {
            self.emit(at, None);
        }
    }

    fn find(&self, at: usize, longer_than: usize) -> Option<FoundMatch> {
        let (group, string) = (&self.group, self.string);
        let source_end = |source| group.end(source, string, at);
        self.finder
            .find(self.text, at, longer_than, self.parsing.effort, source_end)
    }

    /// Whether a match that begins later is worth the literals before it.
    fn is_better(&self, later: FoundMatch, found: FoundMatch, literals: usize) -> bool {
        if !self.parsing.prefers_near {
            return later.length > found.length;
        }
        // In quarters of a literal: a match is worth its length, less what its distance takes.
        let worth = |found: FoundMatch| 4 * found.length as isize - found.distance.ilog2() as isize;
        worth(later) - worth(found) > 4 * literals as isize - 2
    }

    /// Ends the sequence whose reference is written at `at`.
    fn emit(&mut self, at: usize, found: Option<FoundMatch>) {
        let string = self.string..at;
        self.sequences
            .literals
            .extend_from_slice(&self.text[string.clone()]);
        let (length, distance) = found.map_or((0, 1), |found| (found.length, found.distance));
        debug_assert!(length <= MATCH_MAX);
        let sequence = PackSequence {
            literals: string.len(),
            length,
            distance,
        };
        self.sequences.records.push(sequence.to_record());
        self.string = at + length;
        if self.parsing.elimination == Elimination::Off {
            return;
        }
        if self.group.first_reference.is_some() && !string.is_empty() {
            self.group.strings.push(string);
        }
        if length > 0 {
            self.group.first_reference.get_or_insert(at);
        } else {
            self.end_group_if_full(at);
        }
    }

    /// Begins the next group at `at` after every 32 sequences.
    fn end_group_if_full(&mut self, at: usize) {
        if !self.sequences.records.len().is_multiple_of(GROUP) {
            return;
        }
        self.group.begin = at;
        self.group.first_reference = None;
        self.group.strings.clear();
        for range in self.matched.drain(..) {
            for at in range {
                self.finder.insert(self.text, at);
            }
        }
    }
}
