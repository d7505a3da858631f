//! `Affinity`: the kind of values that an expression tends to hold.
//!
//! Invariant: how an affinity converts values is decided where expressions are evaluated.

/// The kind of values that an expression tends to hold (SQLite's datatype3.html, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Affinity {
    /// No tendency: literals and most functions.
    None,
    /// 64-bit signed integers.
    Integer,
    /// 64-bit floating point.
    Real,
    /// Text.
    Text,
    /// Bytes.
    Blob,
    /// Numbers of either kind; only of CAST.
    Numeric,
}
