//! Passing over text of a segment with the automaton of an expression: to where it reports something, or to the end.
//!
//! Invariant: over the text that is passed the automaton meets plain states only, and the state behind it is as after reading every
//! byte. By the steps of rules, shared parts of the text are read once a search.

use std::ops::Range;
use std::sync::OnceLock;

use zipfdb_kernels::{
    CommonMachine, DEAD, Direction, GrammarView, Halted, Machine, MachineStep, SpanMemo, SpanPass,
    SpanWalk, USUAL_STATES_MAX,
};
use zipfdb_search::grep::StepTable;
use zipfdb_storage::Dictionary;

use super::access_path::{AccessPath, PartitionOperation, PathName, Run};
use super::corpus_view::CorpusView;
use super::placement::PlacementPlan;
use super::search::descend;
use crate::segment::cost::{SEARCHED_BYTE_COST, SYMBOL_COST, TOKEN_READING_COST};
use crate::segment::{SegmentView, StructureKind};
use crate::{Error, Result};

/// The state behind a part of a text, and where the part ends.
pub(super) struct TextPass;

/// The steps of an automaton over the symbols of a segment, as far as a search has made them.
pub(crate) struct SymbolSteps {
    memo: OnceLock<SpanMemo<()>>,
    bytes_max: usize,
}

/// The steps over rules take at most 1/`STEPS_SHARE` of the cache.
const STEPS_SHARE: u64 = 8;

impl SymbolSteps {
    /// No steps yet; they may take `bytes_max` bytes of memory.
    pub(super) fn new(bytes_max: usize) -> SymbolSteps {
        SymbolSteps {
            memo: OnceLock::new(),
            bytes_max,
        }
    }

    /// The steps for a grammar.
    pub(super) fn memo(&self, view: GrammarView<'_>) -> &SpanMemo<()> {
        self.memo
            .get_or_init(|| SpanMemo::new(view.symbol_count(), Direction::Forward, self.bytes_max))
    }

    /// No steps yet, for each segment of a view.
    pub(crate) fn of_segments(view: &CorpusView) -> Vec<SymbolSteps> {
        let segments = view.segments().len();
        let limit = view.stored().cache().limit() / STEPS_SHARE;
        let bytes_max = usize::try_from(limit / segments.max(1) as u64).unwrap_or(usize::MAX);
        (0..segments).map(|_| SymbolSteps::new(bytes_max)).collect()
    }

    /// The memory that they take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.memo.get().map_or(0, SpanMemo::bytes)
    }
}

/// A part of a file of a segment, and the state before it.
#[derive(Clone, Copy)]
pub(super) struct PassQuestion<'a> {
    /// The automaton; none if it has no table.
    pub(super) table: Option<&'a StepTable>,
    pub(super) steps: &'a SymbolSteps,
    pub(super) file: u32,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) state: u16,
    /// The bytes that are searched; none for all of the segment.
    pub(super) searched: Option<u64>,
}

/// How far a text was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) state: u16,
    pub(super) at: u64,
}

impl PassQuestion<'_> {
    /// The share of a segment that is searched.
    fn share(&self, segment: &SegmentView) -> f64 {
        let all = segment.text_bytes().max(1) as f64;
        self.searched.map_or(1.0, |searched| searched as f64 / all)
    }
}

impl PartitionOperation for TextPass {
    type Question<'a> = PassQuestion<'a>;
    type Answer = Passed;

    const PATHS: &'static [AccessPath<TextPass>] = &[
        AccessPath {
            name: PathName::RuleSteps,
            needs: &[StructureKind::Lengths],
            cost: |question, segment| {
                let has_rules = question.table.is_some() && !segment.is_packed();
                let (symbols, tokens) = segment.size();
                let all = symbols as f64 * SYMBOL_COST + tokens as f64 * TOKEN_READING_COST;
                has_rules.then(|| question.share(segment) * all / segment.thread_count())
            },
            run: by_rules,
        },
        AccessPath {
            name: PathName::Decode,
            needs: &[],
            cost: |question, segment| {
                let bytes = question.share(segment) * segment.text_bytes() as f64;
                Some(bytes * SEARCHED_BYTE_COST / segment.thread_count())
            },
            // Nothing is known without reading.
            run: |question, _, _| {
                Ok(Passed {
                    state: question.state,
                    at: question.from,
                })
            },
        },
    ];
}

/// An automaton over bytes as one over tokens, which ends where there are no further matches, and with an event where it reports
/// anything else.
struct TokenMachine<'a> {
    table: &'a StepTable,
    dictionary: &'a Dictionary,
}

impl Machine for TokenMachine<'_> {
    type Cache = ();

    fn cache(&self) {}

    fn step(&self, (): &mut (), state: u32, terminal: u32) -> Option<MachineStep> {
        // States are those of the table, which are u16.
        let (state, token) = (state as u16, self.dictionary.token(terminal));
        let step = match self.table.read(state, token) {
            Some(state) => MachineStep {
                state: u32::from(state),
                events: 0,
            },
            None => MachineStep {
                state: DEAD,
                events: u32::from(!self.table.ends_in(state, token)),
            },
        };
        Some(step)
    }
}

/// Numbers of states, which are u16.
pub(super) fn numbers_of<'n>(
    states: &[u32],
    numbers: &'n mut [u16; USUAL_STATES_MAX],
) -> &'n [u16] {
    for (number, &state) in numbers.iter_mut().zip(states) {
        *number = state as u16;
    }
    &numbers[..states.len()]
}

impl CommonMachine for TokenMachine<'_> {
    fn common_step(&self, states: &[u32], terminal: u32) -> Option<MachineStep> {
        let mut numbers = [0; USUAL_STATES_MAX];
        let numbers = numbers_of(states, &mut numbers);
        let read = (self.table).read_together(numbers, self.dictionary.token(terminal))?;
        Some(MachineStep {
            state: u32::from(read),
            events: 0,
        })
    }
}

impl SegmentView {
    /// Finds the steps of an automaton over all symbols, for searches of most of a segment.
    ///
    /// # Errors
    /// If the segment is damaged or the run must end.
    pub(super) fn prepare_steps(
        &self,
        table: &StepTable,
        steps: &SymbolSteps,
        run: Run<'_>,
    ) -> Result<()> {
        let view = self.view()?;
        let pass = SpanPass {
            view,
            lengths: self.lengths()?,
            machine: &TokenMachine {
                table,
                dictionary: self.dictionary()?,
            },
            memo: steps.memo(view),
            stop: run.stop,
        };
        let start = u32::from(table.start(None));
        pass.prepare(start).map_err(|_| Error::Interrupted)
    }
}

fn by_rules(question: &PassQuestion<'_>, segment: &SegmentView, run: Run<'_>) -> Result<Passed> {
    let &PassQuestion {
        file,
        from,
        to,
        state,
        ..
    } = question;
    let mut passed = Passed { state, at: from };
    let Some(table) = question.table.filter(|_| from < to) else {
        return Ok(passed);
    };
    let (view, lengths) = (segment.view()?, segment.lengths()?);
    let dictionary = segment.dictionary()?;
    let Range { start, end } = lengths.file_range(file);
    // The token at an offset, and the place within it.
    let token_at = |offset: u64| {
        let (_, token, rest) = descend(view, (lengths, lengths), file, start + offset, drop);
        (dictionary.token(token), rest)
    };
    let (token, rest) = token_at(from);
    if rest > 0 {
        // Within the token.
        let bytes = &token[rest as usize..];
        let bytes = &bytes[..bytes
            .len()
            .min(usize::try_from(to - from).unwrap_or(usize::MAX))];
        let Some(state) = table.read(state, bytes) else {
            return Ok(passed);
        };
        passed.state = state;
        passed.at += bytes.len() as u64;
    }
    let (token, rest) = if start + to < end {
        token_at(to)
    } else {
        (&[][..], 0)
    };
    // Where the last token begins.
    let aligned = to - rest;
    if passed.at < aligned {
        let pass = SpanPass {
            view,
            lengths,
            machine: &TokenMachine { table, dictionary },
            memo: question.steps.memo(view),
            stop: run.stop,
        };
        let mut walk = SpanWalk::new(pass, file, passed.at..aligned, u32::from(passed.state));
        match walk.next_event() {
            Ok(None) if walk.state() == DEAD => {
                // The search ends, so all of the text is passed.
                let state = table.dead().unwrap_or(state);
                return Ok(Passed { state, at: to });
            }
            Ok(None) => {
                // States are those of the table, which are u16.
                passed.state = walk.state() as u16;
                passed.at = aligned;
            }
            Ok(Some(event)) => {
                return Ok(Passed {
                    state: event.before as u16,
                    at: event.start,
                });
            }
            Err(Halted::Stopped) => return Err(Error::Interrupted),
            Err(Halted::GaveUp) => return Ok(passed),
        }
    }
    if passed.at < to
        && let Some(state) = table.read(passed.state, &token[..rest as usize])
    {
        passed = Passed { state, at: to };
    }
    Ok(passed)
}

impl CorpusView {
    /// Plans passing over all of the text.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(super) fn plan_pass(&self, table: Option<&StepTable>) -> Result<PlacementPlan<'_>> {
        let steps = SymbolSteps::new(0);
        let question = PassQuestion {
            table,
            steps: &steps,
            file: 0,
            from: 0,
            to: 0,
            state: 0,
            searched: None,
        };
        self.stored().plan_on_cpu::<TextPass>(&question, None)
    }
}
