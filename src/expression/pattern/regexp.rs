//! REGEXP: a regular expression, searched for in texts of any length.
//!
//! The memory of compiling a pattern is known before (`zipfdb_sql::regexp`) and counted with the values of the statement. A small
//! pattern is searched in a short text by the engines of the crate `regex`, which cannot be interrupted; all else goes through
//! `Stepper`, which polls. Invariant: the answer is that of the crate `regex`, a search that is not polled takes a fraction of a
//! second, and no pattern takes more memory than is counted.

mod built;
mod simulation;
mod steps;

use std::sync::Arc;

use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::{Anchored, Input, meta};
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use zipfdb_sql::quote;
use zipfdb_sql::regexp::{ParsedRegexp, parse};

use self::built::{Built, WHAT};
use self::simulation::{MatchGroups, RegexpSearch};
use self::steps::{DfaAnswer, Stepper};
use super::runs::{FixedRun, NeededLiteral};
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::{Held, ValueMemory};
use crate::{Error, Result};

/// Texts from here on are searched step by step.
const LONG_TEXT: usize = 64 << 10;

/// The most states times bytes of text of a search that is not polled: a third of a second at the slowest.
const WHOLE_STEPS_MAX: u64 = 1 << 26;

/// States of a pattern from which on all texts are searched step by step.
const WHOLE_STATES_MAX: u64 = 1 << 15;

/// The most bytes of places of groups in a search that is not polled.
const WHOLE_SLOT_BYTES_MAX: u64 = 4 << 20;

/// The memory of these engines while they compile, as a multiple of that of an automaton: it is made forwards, and twice
/// backwards, which is up to half as large again.
const WHOLE_COPIES: u64 = 4;

/// A regular expression, compiled when it is first searched for.
#[derive(Debug, Clone)]
pub(crate) struct Regexp(Arc<RegexpParts>);

#[derive(Debug)]
struct RegexpParts {
    parsed: Arc<ParsedRegexp>,
    /// Whether the places of groups are needed.
    has_groups: bool,
    memory: ValueMemory,
    /// None if the pattern is large.
    whole: Built<Option<meta::Regex>>,
    stepper: Built<Stepper>,
}

impl Regexp {
    /// Parses a pattern. `has_groups` if the places of its groups are needed.
    ///
    /// # Errors
    /// If it is no regular expression, or compiling it takes too much memory.
    pub(super) fn new(pattern: &[u8], has_groups: bool, memory: &ValueMemory) -> Result<Regexp> {
        let invalid = |reason: String| Error::Invalid {
            subject: format!("regular expression {}", quote(pattern)),
            reason,
        };
        let text = std::str::from_utf8(pattern)
            .map_err(|_| invalid("it is not UTF-8; hint: write a byte as (?-u:\\xff)".into()))?;
        let parsed = parse(text, memory.row_bytes()).map_err(|fault| {
            invalid(match fault.hint() {
                "" => fault.to_string(),
                hint => format!("{fault}; hint: {hint}"),
            })
        })?;
        Ok(Regexp(Arc::new(RegexpParts {
            parsed: Arc::new(parsed),
            has_groups,
            memory: memory.clone(),
            whole: Built::new(),
            stepper: Built::new(),
        })))
    }

    /// The text that the pattern is, if it is a plain text, perhaps between anchors.
    pub(super) fn fixed_run(&self) -> Option<FixedRun> {
        let hir = &self.0.parsed.hir;
        let mut parts = match hir.kind() {
            HirKind::Concat(parts) => &parts[..],
            _ => std::slice::from_ref(hir),
        };
        let is_look = |part: &Hir, look| *part.kind() == HirKind::Look(look);
        let is_first = parts.first().is_some_and(|part| is_look(part, Look::Start));
        parts = &parts[usize::from(is_first)..];
        let is_last = parts.last().is_some_and(|part| is_look(part, Look::End));
        parts = &parts[..parts.len() - usize::from(is_last)];
        let [part] = parts else { return None };
        let HirKind::Literal(literal) = part.kind() else {
            return None;
        };
        let text = std::str::from_utf8(&literal.0).ok()?.to_owned();
        Some(FixedRun {
            text,
            is_first,
            is_last,
        })
    }

    /// As [`super::Pattern::literal`]: the longest run of bytes, and of letters in either case, outside of repetitions and
    /// alternatives.
    pub(super) fn literal(&self, bytes_max: usize) -> Option<NeededLiteral> {
        let mut runs = vec![NeededRun::default()];
        let mut pending = vec![&self.0.parsed.hir];
        while let Some(part) = pending.pop() {
            let run = runs.last_mut().expect("there is a run");
            match part.kind() {
                HirKind::Literal(literal) => run.bytes.extend_from_slice(&literal.0),
                HirKind::Class(class) if let Some(letter) = letter_of(class) => {
                    run.bytes.push(letter);
                    run.ignores_case = true;
                }
                HirKind::Empty => {}
                HirKind::Capture(capture) => pending.push(&capture.sub),
                HirKind::Concat(parts) => pending.extend(parts.iter().rev()),
                _ => runs.push(NeededRun::default()),
            }
        }
        let is_only = runs.len() == 1;
        let NeededRun {
            mut bytes,
            ignores_case,
        } = runs.into_iter().max_by_key(|run| run.bytes.len())?;
        // A run of both has letters in one case only.
        let is_enough = is_only && !ignores_case && bytes.len() <= bytes_max;
        bytes.truncate(bytes_max);
        (!bytes.is_empty()).then_some(NeededLiteral {
            bytes,
            ignores_case,
            is_enough,
        })
    }

    /// Whether it matches anywhere in the text.
    ///
    /// # Errors
    /// If compiling it takes too much memory, or the statement must end.
    pub(crate) fn matches(&self, text: &[u8], pace: &mut Pace) -> Result<bool> {
        match self.0.whole(text.len(), pace)? {
            Some(regex) => {
                self.0.work(text.len(), pace)?;
                Ok(regex.is_match(text))
            }
            None => self.0.stepper(pace)?.is_match(text, pace),
        }
    }

    /// The places of these groups of the first match that begins at a byte of the text or behind it; group 0 is the match.
    ///
    /// # Errors
    /// Those of `matches`.
    pub(crate) fn groups(
        &self,
        text: &[u8],
        from: usize,
        wanted: &[usize],
        pace: &mut Pace,
    ) -> Result<Option<MatchGroups>> {
        if let Some(regex) = self.0.whole(text.len(), pace)? {
            self.0.work(text.len() - from, pace)?;
            return Ok(captured(regex, &Input::new(text).range(from..), wanted));
        }
        let stepper = self.0.stepper(pace)?;
        let found = match stepper.find(text, from, pace)? {
            DfaAnswer::No => return Ok(None),
            DfaAnswer::Yes(found) if *wanted == [0] => return Ok(Some(vec![Some(found)])),
            DfaAnswer::Yes(found) => Some(found),
            DfaAnswer::Undecided => None,
        };
        // Once the match is known, only its groups are searched; it is usually short.
        if let Some(found) = &found
            && let Some(regex) = self.0.whole(found.len(), pace)?
        {
            self.0.work(found.len(), pace)?;
            let input = Input::new(text).range(found.clone());
            return Ok(captured(regex, &input.anchored(Anchored::Yes), wanted));
        }
        let search = RegexpSearch {
            text,
            is_anchored: found.is_some(),
            range: found.unwrap_or(from..text.len()),
            groups: wanted,
            is_earliest: false,
        };
        stepper.simulate(&search, pace)
    }

    /// The number of groups beside the match as a whole.
    pub(crate) fn group_count(&self) -> usize {
        let properties = self.0.parsed.hir.properties();
        properties.explicit_captures_len()
    }
}

/// Bytes that follow each other in every match.
#[derive(Default)]
struct NeededRun {
    bytes: Vec<u8>,
    ignores_case: bool,
}

/// The letter whose two cases are a class; letters with further cases are none.
fn letter_of(class: &Class) -> Option<u8> {
    let literals = match class {
        Class::Unicode(class) => {
            let ranges: Vec<_> = class
                .iter()
                .map(|range| (range.start(), range.end()))
                .collect();
            let byte = |letter: char| u8::try_from(letter).ok();
            match ranges[..] {
                [(upper, same), (lower, other)] if upper == same && lower == other => {
                    (byte(upper)?, byte(lower)?)
                }
                _ => return None,
            }
        }
        Class::Bytes(class) => {
            let ranges: Vec<_> = class
                .iter()
                .map(|range| (range.start(), range.end()))
                .collect();
            match ranges[..] {
                [(upper, same), (lower, other)] if upper == same && lower == other => {
                    (upper, lower)
                }
                _ => return None,
            }
        }
    };
    let (upper, lower) = literals;
    (upper.is_ascii_uppercase() && upper.to_ascii_lowercase() == lower).then_some(lower)
}

/// The places of groups of the first match.
fn captured(regex: &meta::Regex, input: &Input<'_>, wanted: &[usize]) -> Option<MatchGroups> {
    if *wanted == [0] {
        let found = regex.search(input);
        return found.map(|found| vec![Some(found.range())]);
    }
    let mut captures = regex.create_captures();
    regex.search_captures(input, &mut captures);
    let place = |group: &usize| captures.get_group(*group).map(|span| span.range());
    let places = || wanted.iter().map(place).collect();
    captures.is_match().then(places)
}

impl RegexpParts {
    /// The engines of the crate `regex`, if they search such a text in little time.
    fn whole(&self, text_bytes: usize, pace: &mut Pace) -> Result<Option<&meta::Regex>> {
        let steps = (text_bytes as u64).saturating_mul(self.parsed.cost.states);
        if text_bytes >= LONG_TEXT || steps > WHOLE_STEPS_MAX {
            return Ok(None);
        }
        let whole = self.whole.get_or_build(|| {
            pace.check()?;
            self.build_whole()
        })?;
        Ok(whole.as_ref())
    }

    /// Polls for a search that is not polled: more often with more states.
    fn work(&self, text_bytes: usize, pace: &mut Pace) -> Result<()> {
        // At most `WHOLE_STATES_MAX` of 64.
        let weight = 1 + self.parsed.cost.states as usize / 64;
        pace.work(text_bytes.saturating_mul(weight))
    }

    fn build_whole(&self) -> Result<(Option<meta::Regex>, Held)> {
        let ParsedRegexp { hir, cost, .. } = &*self.parsed;
        let mut held = self.memory.hold();
        let groups = if self.has_groups {
            1 + hir.properties().explicit_captures_len() as u64
        } else {
            0
        };
        let table_bytes = cost.states.saturating_mul(groups).saturating_mul(32);
        let cache_bytes = self.cache_bytes();
        let bytes = cost.bytes.saturating_mul(WHOLE_COPIES);
        let bytes = bytes
            .saturating_add(2 * cache_bytes)
            .saturating_add(table_bytes);
        let is_small = cost.states <= WHOLE_STATES_MAX
            && table_bytes <= WHOLE_SLOT_BYTES_MAX
            && bytes <= self.memory.row_bytes() / 2;
        if !is_small {
            return Ok((None, held));
        }
        held.reserve(WHAT, bytes)?;
        let captures = if self.has_groups {
            WhichCaptures::All
        } else {
            WhichCaptures::None
        };
        let config = meta::Config::new()
            .utf8_empty(false)
            .which_captures(captures)
            .nfa_size_limit(usize::try_from(bytes).ok())
            // Within 64 bits after the tests above.
            .hybrid_cache_capacity(cache_bytes as usize);
        let built = meta::Builder::new().configure(config).build_from_hir(hir);
        // The memory from now on.
        held.clear();
        if let Ok(regex) = &built {
            held.add_bytes(regex.memory_usage() as u64 + 2 * cache_bytes + table_bytes);
        }
        Ok((built.ok(), held))
    }

    fn stepper(&self, pace: &mut Pace) -> Result<&Stepper> {
        self.stepper.get_or_build(|| {
            pace.check()?;
            Stepper::new(
                &self.parsed,
                self.has_groups,
                self.cache_bytes(),
                &self.memory,
            )
        })
    }

    /// The memory of the states of a lazy DFA, before they are made again.
    fn cache_bytes(&self) -> u64 {
        const MIN: u64 = 256 << 10;
        const MAX: u64 = 2 << 20;
        (self.memory.row_bytes() / 64).clamp(MIN, MAX)
    }
}

#[cfg(test)]
mod tests;
