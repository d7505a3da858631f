//! `Hit`: a span of a file that matches a query.
//!
//! Invariant: it has at least one word, unless it is shown by captures that have none.

/// A span that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hit {
    pub(crate) file: u32,
    /// The number of its first word in the file.
    pub(crate) start: u64,
    /// The number of the word behind its last.
    pub(crate) end: u64,
}
