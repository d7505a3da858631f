//! The names of functions: those of this version, and those that deserve a better answer than "no such function".
//!
//! Invariant: lower case. What a function does and takes is decided in `bind`.

/// Table functions.
pub(crate) const TABLE: [&str; 3] = ["corpora", "segments", "files"];

/// Table functions that the later dialect will have.
pub(crate) const TABLE_LATER: [&str; 2] = ["ngrams", "term_vectors"];

/// Functions of values.
pub(crate) const SCALAR: [&str; 2] = ["count", "substr"];

/// Functions that users of other databases will try.
pub(crate) const SCALAR_LATER: [&str; 29] = [
    "abs",
    "avg",
    "coalesce",
    "concat",
    "glob",
    "group_concat",
    "hex",
    "ifnull",
    "iif",
    "instr",
    "length",
    "like",
    "lower",
    "ltrim",
    "max",
    "min",
    "nullif",
    "octet_length",
    "printf",
    "regexp",
    "replace",
    "round",
    "rtrim",
    "string_agg",
    "sum",
    "total",
    "trim",
    "typeof",
    "upper",
];
