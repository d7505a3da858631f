//! TADOC on one thread, written from its papers: what suite `tadoc` of the bench compares ZipfDB with.
//!
//! A text is a Sequitur grammar over tokens ([`Grammar`]); tasks traverse it top-down or bottom-up ([`Tasks`]), look-ups use
//! offsets and locations of rules ([`Lookups`]), and edits go to a log of records ([`Records`]). Everything takes plain slices
//! and runs on the caller's thread. It shares no code with the database.
//!
//! Papers: Zhang et al., "Efficient document analytics on compressed data", PVLDB 11(11), 2018; "G-TADOC", ICDE 2021; "Enabling
//! efficient random access to hierarchically-compressed data", ICDE 2020, and its successor in TPDS 34(2), 2023.

mod grammar;
mod lookups;
mod records;
mod rows;
mod sequences;
mod sequitur;
mod tasks;
#[cfg(test)]
mod test_texts;
mod traversal;

pub use grammar::Grammar;
pub use lookups::{Dictionary, Lookups, WordTerminals};
pub use records::Records;
pub use rows::CountedRows;
pub use sequences::SEQUENCE_WORDS;
pub use tasks::{SequenceCounts, SequenceFiles, Tasks};
pub use traversal::Traversal;
