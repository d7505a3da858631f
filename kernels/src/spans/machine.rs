//! What a deterministic automaton does at one terminal.
//!
//! The invariant: a step depends on state and terminal only, and state numbers mean the same in every cache of a machine. What it
//! does at rules is in `memo`.

/// The state that a machine never leaves and in which nothing is found, so that reading can stop.
pub const DEAD: u32 = u32::MAX;

/// What a machine does at a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineStep {
    /// The state behind the terminal, or [`DEAD`].
    pub state: u32,
    /// How many events happen inside the terminal or at its end: what the machine counts, as ends of matches.
    pub events: u32,
}

/// What a machine does at a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Total {
    /// The state behind it.
    pub(super) state: u32,
    /// Events in it, `u64::MAX` for more.
    pub(super) events: u64,
}

/// A deterministic automaton over terminals.
pub trait Machine: Sync {
    /// What a thread needs to make steps.
    type Cache: Send;

    /// A new cache.
    fn cache(&self) -> Self::Cache;

    /// The step from a state other than [`DEAD`] over a terminal; `None` if the machine gives up, for example because it would
    /// need too many states. Counts over many files make the step from their start state over every terminal of the grammar.
    fn step(&self, cache: &mut Self::Cache, state: u32, terminal: u32) -> Option<MachineStep>;
}

/// A machine that reads a terminal from several states at once.
pub trait CommonMachine: Machine {
    /// The step over a terminal from each of some states, at most [`USUAL_STATES_MAX`](crate::USUAL_STATES_MAX); none if these
    /// steps differ, or that is not known.
    fn common_step(&self, states: &[u32], terminal: u32) -> Option<MachineStep>;
}

/// The steps of an automaton by state and class of terminals. A step has one event or none.
#[derive(Debug)]
pub struct StepTable {
    class_count: usize,
    /// By state and class the next state, and [`EVENT`] if the step has an event.
    steps: Vec<u32>,
}

/// An automaton as a table of states and classes of terminals.
#[derive(Clone, Copy, Debug)]
pub struct TableMachine<'a> {
    /// The class of each terminal, below the number of classes of the table.
    pub classes: &'a [u16],
    /// The steps, which machines of several grammars share.
    pub table: &'a StepTable,
}

const EVENT: u32 = 1 << 31;

impl StepTable {
    /// A table in which state `s` goes with class `c` to the state `next[s * class_count + c]`, or [`DEAD`], with an event if
    /// `has_event` of that index holds.
    ///
    /// Work and memory: O(next).
    ///
    /// # Panics
    /// If `next` is no whole number of rows, has 2^31 rows or more, or names a state that it has not.
    pub fn new(class_count: usize, next: &[u32], has_event: impl Fn(usize) -> bool) -> StepTable {
        assert!(class_count > 0 && next.len().is_multiple_of(class_count));
        let states = next.len() / class_count;
        assert!(states < EVENT as usize, "the automaton has too many states");
        let step = |(index, &state): (usize, &u32)| {
            if state == DEAD {
                return DEAD;
            }
            assert!(
                (state as usize) < states,
                "the next state is not in the table"
            );
            state | if has_event(index) { EVENT } else { 0 }
        };
        StepTable {
            class_count,
            steps: next.iter().enumerate().map(step).collect(),
        }
    }
}

impl Machine for TableMachine<'_> {
    type Cache = ();

    fn cache(&self) {}

    #[inline]
    fn step(&self, (): &mut (), state: u32, terminal: u32) -> Option<MachineStep> {
        let class = usize::from(self.classes[terminal as usize]);
        let step = self.table.steps[state as usize * self.table.class_count + class];
        Some(if step == DEAD {
            MachineStep {
                state: DEAD,
                events: 0,
            }
        } else {
            MachineStep {
                state: step & !EVENT,
                events: step >> 31,
            }
        })
    }
}
