//! The number of matches of an expression in each file, without their places.
//!
//! Invariant: a count is that of the current bytes. It is known for files that lie in one segment and have no edits pending, unless
//! the counter gives up in them; the others are left to the caller, which searches them. Each segment answers by the cheapest of the access
//! paths below: the steps of the counter over each rule are found once, so nothing is expanded.

use zipfdb_kernels::{
    CommonMachine, DEAD, FileEvents, GrammarView, Halted, Lengths, Machine, MachineStep, SpanPass,
    USUAL_STATES_MAX,
};
use zipfdb_search::grep::MatchCounter;
use zipfdb_storage::Dictionary;

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer};
use super::corpus_view::CorpusView;
use super::placement::PlacementPlan;
use super::text_pass::{SymbolSteps, numbers_of};
use crate::runtime::interrupt::check;
use crate::segment::cost::{SEARCHED_BYTE_COST, SYMBOL_COST, TOKEN_READING_COST};
use crate::segment::{SegmentView, StructureKind};
use crate::{Error, Result};

/// The matches in each file of a segment; none where that is not known.
pub(crate) struct MatchCounts;

/// An expression, and what was found of it in the rules of a segment.
#[derive(Clone, Copy)]
pub(crate) struct CountQuestion<'a> {
    pub(crate) counter: &'a MatchCounter,
    pub(crate) steps: &'a SymbolSteps,
}

/// Files of a segment are counted together if those asked for are at least 1/`COUNTED_SHARE` of its bytes.
const COUNTED_SHARE: u64 = 8;

/// Counts do not read lengths.
static NO_LENGTHS: Lengths = Lengths {
    symbols: Vec::new(),
    long_rules: Vec::new(),
    long_offsets: Vec::new(),
    long_samples: Vec::new(),
    root_samples: Vec::new(),
    file_starts: Vec::new(),
};

impl PartitionOperation for MatchCounts {
    type Question<'a> = CountQuestion<'a>;
    type Answer = Vec<Option<u64>>;

    const PATHS: &'static [AccessPath<MatchCounts>] = &[
        AccessPath {
            name: PathName::RootScan,
            needs: &[StructureKind::Bodies],
            cost: |_, segment| {
                let tables = tables_cost(segment) / segment.thread_count();
                Some(tables + segment.scan_cost(StructureKind::Grammar)?)
            },
            run: by_root_scan,
        },
        AccessPath {
            name: PathName::RuleSteps,
            needs: &[StructureKind::Grammar],
            cost: |_, segment| {
                let roots = segment.size().0 as f64 * SYMBOL_COST;
                let all = (tables_cost(segment) + roots) / segment.thread_count();
                (!segment.is_packed()).then_some(all)
            },
            run: by_rules,
        },
        AccessPath {
            name: PathName::Decode,
            needs: &[],
            cost: |_, segment| {
                let bytes = segment.text_bytes() as f64;
                Some(bytes * SEARCHED_BYTE_COST / segment.thread_count())
            },
            // Nothing is known without reading.
            run: |_, segment, _| Ok(vec![None; segment.files()?.len()]),
        },
    ];
}

/// The cost of the steps over all symbols, in nanoseconds of one thread.
fn tables_cost(segment: &SegmentView) -> f64 {
    let (symbols, tokens) = segment.size();
    tokens as f64 * TOKEN_READING_COST + symbols as f64 * SYMBOL_COST
}

/// A counter over bytes as one over tokens.
struct CountingTokens<'a> {
    counter: &'a MatchCounter,
    dictionary: &'a Dictionary,
}

impl Machine for CountingTokens<'_> {
    type Cache = ();

    fn cache(&self) {}

    fn step(&self, (): &mut (), state: u32, terminal: u32) -> Option<MachineStep> {
        // States are those of the counter, which are u16.
        let read = (self.counter).read(state as u16, self.dictionary.token(terminal));
        read.map(|read| self.step_of(read))
    }
}

impl CommonMachine for CountingTokens<'_> {
    fn common_step(&self, states: &[u32], terminal: u32) -> Option<MachineStep> {
        let mut numbers = [0; USUAL_STATES_MAX];
        let numbers = numbers_of(states, &mut numbers);
        let read = (self.counter).read_together(numbers, self.dictionary.token(terminal));
        read.map(|read| self.step_of(read))
    }
}

impl CountingTokens<'_> {
    fn step_of(&self, (state, events): (u16, u32)) -> MachineStep {
        MachineStep {
            state: if self.counter.is_dead(state) {
                DEAD
            } else {
                u32::from(state)
            },
            events,
        }
    }
}

/// Runs work with the counter on a grammar, whose root may be missing.
fn with_pass<A>(
    question: &CountQuestion<'_>,
    (segment, view): (&SegmentView, GrammarView<'_>),
    run: Run<'_>,
    work: impl FnOnce(SpanPass<'_, CountingTokens<'_>>, u32) -> Result<A>,
) -> Result<A> {
    let machine = &CountingTokens {
        counter: question.counter,
        dictionary: segment.dictionary()?,
    };
    let pass = SpanPass {
        view,
        lengths: &NO_LENGTHS,
        machine,
        memo: question.steps.memo(view),
        stop: run.stop,
    };
    let start = u32::from(question.counter.start());
    pass.prepare(start).map_err(|_| Error::Interrupted)?;
    work(pass, start)
}

impl CountQuestion<'_> {
    /// The matches of a file that was read to its end.
    fn matches(&self, found: FileEvents) -> u64 {
        let end = match found.state {
            DEAD => 0,
            // States are those of the counter, which are u16.
            state => self.counter.end(state as u16),
        };
        found.events.saturating_add(end)
    }
}

/// What was counted, or none if the counter gave up.
fn unless_stopped<A>(found: std::result::Result<A, Halted>) -> Result<Option<A>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Halted::GaveUp) => Ok(None),
        Err(Halted::Stopped) => Err(Error::Interrupted),
    }
}

fn by_rules(
    question: &CountQuestion<'_>,
    segment: &SegmentView,
    run: Run<'_>,
) -> Result<Vec<Option<u64>>> {
    let view = segment.view()?;
    with_pass(question, (segment, view), run, |pass, start| {
        // A segment's files are counted by a u32.
        let files: Vec<u32> = (0..view.files() as u32).collect();
        if let Some(found) = unless_stopped(pass.count(&files, start, start))? {
            let found = found.into_iter();
            return Ok(found.map(|found| Some(question.matches(found))).collect());
        }
        let each = files.iter().map(|file| {
            let found = unless_stopped(pass.count(std::slice::from_ref(file), start, start))?;
            Ok(found.map(|found| found.into_iter().map(|found| question.matches(found)).sum()))
        });
        each.collect()
    })
}

/// What is known of a part of a root.
enum CountedPart {
    /// All of it was read; none if the counter gave up.
    Whole(Option<FileEvents>),
    /// The state before it is not known.
    Cut(Vec<u32>),
}

fn by_root_scan(
    question: &CountQuestion<'_>,
    segment: &SegmentView,
    run: Run<'_>,
) -> Result<Vec<Option<u64>>> {
    let view = segment.bodies_view()?;
    with_pass(question, (segment, view), run, |pass, start| {
        let parts = segment.scan_roots(run.stop, |fragment| {
            Some(if fragment.is_whole {
                unless_stopped(pass.count_symbols(fragment.symbols, start)).map(CountedPart::Whole)
            } else {
                Ok(CountedPart::Cut(fragment.symbols.to_vec()))
            })
        })?;
        // Files without symbols have no matches.
        let mut counts = vec![Some(0); segment.files()?.len()];
        // The file that was cut, and what was found in its parts so far.
        let mut cut: Option<(u32, Option<FileEvents>)> = None;
        for (file, part) in parts {
            let symbols = match part? {
                CountedPart::Whole(found) => {
                    counts[file as usize] = found.map(|found| question.matches(found));
                    continue;
                }
                CountedPart::Cut(symbols) => symbols,
            };
            let before = match cut {
                Some((last, before)) if last == file => before,
                _ => Some(FileEvents {
                    events: 0,
                    state: start,
                }),
            };
            let mut sum = None;
            if let Some(before) = before {
                let found = unless_stopped(pass.count_symbols(&symbols, before.state))?;
                sum = found.map(|found| FileEvents {
                    events: before.events.saturating_add(found.events),
                    ..found
                });
            }
            counts[file as usize] = sum.map(|sum| question.matches(sum));
            cut = Some((file, sum));
        }
        Ok(counts)
    })
}

impl CorpusView {
    /// Plans [`CorpusView::match_counts`] for all files.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_match_counts(&self, counter: &MatchCounter) -> Result<PlacementPlan<'_>> {
        let steps = &SymbolSteps::new(0);
        (self.stored()).plan_on_cpu::<MatchCounts>(&CountQuestion { counter, steps }, None)
    }

    /// The number of matches in each of some files, which ascend; none where that is not known. `steps` has an item for each
    /// segment.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn match_counts(
        &self,
        counter: &MatchCounter,
        files: &[u32],
        steps: &[SymbolSteps],
        run: Run<'_>,
    ) -> Result<Vec<Option<u64>>> {
        let parts = files.iter().map(|&file| self.only_part(file as usize));
        let parts: Vec<_> = parts.collect();
        let mut asked = vec![0; self.segments().len()];
        for part in parts.iter().flatten() {
            asked[part.segment as usize] += part.bytes;
        }
        let mut found = Vec::with_capacity(asked.len());
        for (index, (asked, steps)) in asked.into_iter().zip(steps).enumerate() {
            check(run.stop)?;
            let segment = self.stored().segment_at(index);
            found.push(
                if asked > 0 && asked >= segment.text_bytes() / COUNTED_SHARE {
                    answer::<MatchCounts>(&CountQuestion { counter, steps }, &segment, run)?
                } else {
                    Vec::new()
                },
            );
        }
        let counts = parts.into_iter().map(|part| {
            let part = part?;
            let of_segment = &found[part.segment as usize];
            of_segment.get(part.file as usize).copied().flatten()
        });
        Ok(counts.collect())
    }
}
