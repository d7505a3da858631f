//! Regular expressions on texts that are not in memory as a whole: every match, in order.
//!
//! `automaton` compiles an expression, `search` finds its matches in a [`GrepText`], which reads bytes by range and may pass over
//! text by what it knows of it. `step_table` is the automaton as a table that such a text can run on its own, `counter` one that
//! counts all matches of a text. `simulation` decides what a deterministic automaton cannot.
//!
//! Invariant: matches are those of `find_iter` of the crate `regex` on all bytes of the text. Memory is bounded by the automaton
//! and a window of the text.

mod automaton;
mod counter;
mod search;
mod simulation;
mod step_table;
#[cfg(test)]
mod tests;
mod window;

pub use automaton::GrepAutomaton;
pub use counter::MatchCounter;
pub use search::{GrepSearch, Resumption};
pub use step_table::{StepTable, TOGETHER_MAX};
pub use window::{GrepText, WindowSizes};
