//! `Stepper`: searches for a regular expression that poll.
//!
//! A text goes byte by byte through the lazy DFA of regex-automata, forwards for the end of a match and backwards for its
//! beginning. Where the DFA cannot decide (a Unicode word boundary beside a byte that is not ASCII, or a pattern too large for
//! its memory), and for places of groups, the automaton is simulated. Invariant: between two polls lies work of some
//! milliseconds.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::{Anchored, Input, MatchKind};
use zipfdb_sql::regexp::ParsedRegexp;

use super::built::{Built, WHAT};
use super::simulation::{MatchGroups, RegexpSearch, Simulation};
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::{Held, ValueMemory};
use crate::{Error, Result};

/// The most states of a pattern for which a DFA has room.
const DFA_STATES_MAX: usize = 1 << 15;

/// The memory of compiling an automaton that reads backwards, as a multiple of that of one that reads forwards.
const BACKWARDS_COPIES: u64 = 2;

/// Searches that poll.
#[derive(Debug)]
pub(super) struct Stepper {
    nfa: NFA,
    prefilter: Option<Prefilter>,
    forwards: Option<LazyDfa>,
    /// Built for the first match whose beginning is needed.
    backwards: Built<Option<LazyDfa>>,
    parsed: Arc<ParsedRegexp>,
    cache_bytes: usize,
    memory: ValueMemory,
    /// Simulations that no thread uses.
    simulations: Mutex<Vec<Simulation>>,
}

/// A DFA whose states are made as texts need them.
#[derive(Debug)]
struct LazyDfa {
    dfa: DFA,
    /// Caches that no thread uses.
    caches: Mutex<Vec<Cache>>,
    /// Bytes of text between two polls.
    part: usize,
}

/// The answer of a DFA on a text.
pub(super) enum DfaAnswer<T> {
    Yes(T),
    No,
    /// The DFA cannot decide.
    Undecided,
}

impl Stepper {
    /// Compiles a pattern. Returns its memory from then on, too.
    pub(super) fn new(
        parsed: &Arc<ParsedRegexp>,
        has_groups: bool,
        cache_bytes: u64,
        memory: &ValueMemory,
    ) -> Result<(Stepper, Held)> {
        let mut held = memory.hold();
        held.reserve(WHAT, parsed.cost.bytes)?;
        let captures = if has_groups {
            WhichCaptures::All
        } else {
            WhichCaptures::None
        };
        let nfa = compile(parsed, thompson::Config::new().which_captures(captures))?;
        // Below 2^21 by the clamp of the caller.
        let cache_bytes = cache_bytes as usize;
        let forwards = LazyDfa::new(&nfa, MatchKind::LeftmostFirst, cache_bytes);
        held.clear();
        held.add_bytes((nfa.memory_usage() + cache_bytes) as u64);
        let stepper = Stepper {
            prefilter: Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, &parsed.hir),
            forwards,
            backwards: Built::new(),
            parsed: parsed.clone(),
            cache_bytes,
            memory: memory.clone(),
            simulations: Mutex::default(),
            nfa,
        };
        Ok((stepper, held))
    }

    pub(super) fn is_match(&self, text: &[u8], pace: &mut Pace) -> Result<bool> {
        if let Some(dfa) = &self.forwards {
            match dfa.walk_to_end(text, 0, true, pace)? {
                DfaAnswer::Yes(_) => return Ok(true),
                DfaAnswer::No => return Ok(false),
                DfaAnswer::Undecided => {}
            }
        }
        let search = RegexpSearch {
            text,
            range: 0..text.len(),
            is_anchored: false,
            groups: &[],
            is_earliest: true,
        };
        Ok(self.simulate(&search, pace)?.is_some())
    }

    /// The first match that begins at a byte of the text or behind it.
    pub(super) fn find(
        &self,
        text: &[u8],
        from: usize,
        pace: &mut Pace,
    ) -> Result<DfaAnswer<Range<usize>>> {
        let Some(forwards) = &self.forwards else {
            return Ok(DfaAnswer::Undecided);
        };
        let end = match forwards.walk_to_end(text, from, false, pace)? {
            DfaAnswer::Yes(end) => end,
            DfaAnswer::No => return Ok(DfaAnswer::No),
            DfaAnswer::Undecided => return Ok(DfaAnswer::Undecided),
        };
        let backwards = self.backwards.get_or_build(|| {
            pace.check()?;
            self.build_backwards()
        })?;
        let Some(backwards) = backwards else {
            return Ok(DfaAnswer::Undecided);
        };
        Ok(match backwards.walk_to_start(text, from..end, pace)? {
            Some(start) => DfaAnswer::Yes(start..end),
            None => DfaAnswer::Undecided,
        })
    }

    fn build_backwards(&self) -> Result<(Option<LazyDfa>, Held)> {
        let mut held = self.memory.hold();
        let bytes = self.parsed.cost.bytes.saturating_mul(BACKWARDS_COPIES);
        held.reserve(WHAT, bytes)?;
        let config = thompson::Config::new().reverse(true);
        let config = config.which_captures(WhichCaptures::None);
        let nfa = compile(&self.parsed, config)?;
        held.clear();
        held.add_bytes((nfa.memory_usage() + self.cache_bytes) as u64);
        let dfa = LazyDfa::new(&nfa, MatchKind::All, self.cache_bytes);
        Ok((dfa, held))
    }

    /// As `find`, by simulation, which decides everything, also the places of groups.
    pub(super) fn simulate(
        &self,
        search: &RegexpSearch<'_>,
        pace: &mut Pace,
    ) -> Result<Option<MatchGroups>> {
        let known = self.simulations.lock().pop();
        let mut simulation = match known {
            Some(simulation) => simulation,
            None => Simulation::new(&self.nfa, &self.memory)?,
        };
        let found = simulation.run(&self.nfa, self.prefilter.as_ref(), search, pace);
        self.simulations.lock().push(simulation);
        found
    }
}

fn compile(parsed: &ParsedRegexp, config: thompson::Config) -> Result<NFA> {
    let compiled = thompson::Compiler::new()
        .configure(config.utf8(false))
        .build_from_hir(&parsed.hir);
    compiled.map_err(|error| Error::Invalid {
        subject: "regular expression".into(),
        reason: error.to_string(),
    })
}

impl LazyDfa {
    fn new(nfa: &NFA, kind: MatchKind, cache_bytes: usize) -> Option<LazyDfa> {
        if nfa.states().len() > DFA_STATES_MAX {
            return None;
        }
        let config = DFA::config()
            .match_kind(kind)
            .unicode_word_boundary(true)
            .cache_capacity(cache_bytes);
        let dfa = DFA::builder()
            .configure(config)
            .build_from_nfa(nfa.clone())
            .ok()?;
        /// Steps of making states between two polls, if every byte needs a new one.
        const STEPS: usize = 1 << 20;
        Some(LazyDfa {
            dfa,
            caches: Mutex::default(),
            part: (STEPS / nfa.states().len().max(1)).clamp(16, 4 << 10),
        })
    }

    fn with_cache<A>(&self, walk: impl FnOnce(&mut Cache) -> Result<A>) -> Result<A> {
        let known = self.caches.lock().pop();
        let mut cache = known.unwrap_or_else(|| self.dfa.create_cache());
        let answer = walk(&mut cache);
        self.caches.lock().push(cache);
        answer
    }

    /// The end of the first match that begins at a byte of the text or behind it; `is_earliest` for any byte that shows that
    /// there is one.
    fn walk_to_end(
        &self,
        text: &[u8],
        from: usize,
        is_earliest: bool,
        pace: &mut Pace,
    ) -> Result<DfaAnswer<usize>> {
        self.with_cache(|cache| {
            let input = Input::new(text).range(from..);
            let Ok(mut state) = self.dfa.start_state_forward(cache, &input) else {
                return Ok(DfaAnswer::Undecided);
            };
            let mut end = None;
            let mut at = from;
            for part in text[from..].chunks(self.part) {
                self.poll(part.len(), pace)?;
                for &byte in part {
                    // Without a limit on clearings the cache is cleared when it is full, and gives no error.
                    let Ok(next) = self.dfa.next_state(cache, state, byte) else {
                        return Ok(DfaAnswer::Undecided);
                    };
                    if next.is_tagged() {
                        if next.is_match() {
                            // Matches are seen one byte late.
                            end = Some(at);
                            if is_earliest {
                                return Ok(DfaAnswer::Yes(at));
                            }
                        } else if next.is_dead() {
                            return Ok(end.map_or(DfaAnswer::No, DfaAnswer::Yes));
                        } else if next.is_quit() {
                            return Ok(DfaAnswer::Undecided);
                        }
                    }
                    state = next;
                    at += 1;
                }
            }
            let Ok(last) = self.dfa.next_eoi_state(cache, state) else {
                return Ok(DfaAnswer::Undecided);
            };
            if last.is_match() {
                end = Some(text.len());
            }
            Ok(end.map_or(DfaAnswer::No, DfaAnswer::Yes))
        })
    }

    /// The beginning of the match that ends at the end of the range; none if the DFA cannot decide.
    fn walk_to_start(
        &self,
        text: &[u8],
        range: Range<usize>,
        pace: &mut Pace,
    ) -> Result<Option<usize>> {
        self.with_cache(|cache| {
            let input = Input::new(text)
                .range(range.clone())
                .anchored(Anchored::Yes);
            let Ok(mut state) = self.dfa.start_state_reverse(cache, &input) else {
                return Ok(None);
            };
            let mut start = None;
            let mut at = range.end;
            for part in text[range.clone()].rchunks(self.part) {
                self.poll(part.len(), pace)?;
                for &byte in part.iter().rev() {
                    let Ok(next) = self.dfa.next_state(cache, state, byte) else {
                        return Ok(None);
                    };
                    if next.is_tagged() {
                        if next.is_match() {
                            start = Some(at);
                        } else if next.is_dead() {
                            return Ok(start);
                        } else if next.is_quit() {
                            return Ok(None);
                        }
                    }
                    state = next;
                    at -= 1;
                }
            }
            let last = match range.start.checked_sub(1) {
                Some(before) => self.dfa.next_state(cache, state, text[before]),
                None => self.dfa.next_eoi_state(cache, state),
            };
            Ok(match last {
                Ok(last) if last.is_match() => Some(range.start),
                Ok(last) if !last.is_quit() => start,
                _ => None,
            })
        })
    }

    /// Polls for a part of a text.
    fn poll(&self, bytes: usize, pace: &mut Pace) -> Result<()> {
        pace.work(bytes.saturating_mul(LazyDfa::PART_WORK / self.part))
    }

    /// The work of a whole part, as `Pace` counts it.
    const PART_WORK: usize = 1 << 16;
}
