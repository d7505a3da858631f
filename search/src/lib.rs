//! Query languages for words and spans, and the statistics of corpora.
//!
//! `algebra` is what a query means; `cql` and `simple` read texts to it. `matcher` evaluates conditions on words, `automaton`
//! turns regular spans into automata over classes of words, `naive` answers queries on plain tokens and is the oracle of tests.
//! `measures` has the formulas of collocation, keyness, dispersion and ranking.
//!
//! Invariant: nothing here touches a file, and no text makes anything here panic, overflow a stack or take long.

#![forbid(unsafe_code)]

pub mod algebra;
pub mod measures;
