//! Automata over grammars: where something ends, or begins, that a deterministic automaton finds, with what is shared read once.
//!
//! `machine` is what an automaton does at a terminal, `memo` what it does at rules, `pass` reads sequences of symbols and counts,
//! `walk` finds events in their order, `root_blocks` shortens long ways in a root, `samples` has some terminals of a text, `common`
//! finds what all usual states agree in, and `common_steps` has it. The invariant: everything is as one run over the plain terminals of
//! a file.

pub(crate) mod common;
mod common_steps;
pub(crate) mod machine;
pub(crate) mod memo;
pub(crate) mod pass;
mod root_blocks;
mod samples;
pub(crate) mod walk;

#[cfg(test)]
mod tests;
