//! Estimated costs of steps of algorithms: the constants by which a kernel chooses between ways to one answer.
//!
//! Invariant: nanoseconds of one thread, about, unless a constant says otherwise. They decide how an answer is found, never what it is.
//! What whole access paths cost is for callers to estimate.

/// Visiting a place on the way up from a word to the rules and roots that hold it.
pub(crate) const WALK_PLACE_COST: u64 = 16;

/// The walk may spend this part of the best other way's cost before it gives up.
pub(crate) const WALK_BUDGET_DIVISOR: u64 = 2;

/// Locating sorts the places of a walk by index and measures the bodies up to them: a place costs a multiple of what it costs
/// a count.
pub(crate) const LOCATED_PLACE_FACTOR: u64 = 3;

/// Looking at a symbol of a root for what holds a word.
pub(crate) const SCAN_SYMBOL_COST: u64 = 2;

/// Going down from such symbols, for each token of the file.
pub(crate) const SCAN_TOKEN_COST: u64 = 1;

/// Counting a word in a body or root symbol, bottom-up.
pub(crate) const TABLE_SYMBOL_COST: u64 = 2;

/// The root symbols that can be looked up in a hash table in the time that finding a symbol's positions in a range takes.
pub(crate) const POSITIONS_SYMBOLS: usize = 8;

/// Building [`Parents`](crate::Parents), for each body or root symbol.
pub const PARENTS_SYMBOL_COST: u64 = 12;

/// Counting words by file top-down: taking a symbol of a root.
pub(crate) const FILE_ROOT_SYMBOL_COST: f64 = 3.0;

/// Counting words by file top-down: passing a batch of counters on from a symbol of a body.
pub(crate) const FILE_BATCH_SYMBOL_COST: f64 = 8.0;

/// Counting words by file word by word: expanding a symbol.
pub(crate) const FILE_EXPANDED_SYMBOL_COST: f64 = 15.0;

/// Counting words by file word by word: counting a word.
pub(crate) const FILE_WORD_COST: f64 = 5.0;
