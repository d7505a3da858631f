//! The limits that a query is held to while it is read.
//!
//! Invariant: together they bound the time, the memory and the stack that any text can take.

/// Bytes of one query.
pub const QUERY_BYTES_MAX: usize = 1 << 18;

/// Groups, labels, filters and whatever else the parsers descend into, within each other.
pub const NESTING_MAX: usize = 32;

/// Bytes of one regular expression.
pub const REGEX_BYTES_MAX: usize = 1 << 12;

/// Bytes of all regular expressions of one query that are more than a text.
pub const REGEXES_BYTES_MAX: usize = 1 << 16;

/// Edits of a fuzzy word.
pub const EDITS_MAX: u8 = 2;

/// Notices that one query gives.
pub const NOTICES_MAX: usize = 100;
