//! The limits that a statement is held to before it is parsed.
//!
//! Invariant: together they bound the time, the memory and the stack that any text can take. They are checked by `split`
//! (text), `lex` (tokens, names, numbers), `translate` and `parse` (nesting) and `bind` (columns, which `*` may multiply).

/// Bytes of one statement.
pub const STATEMENT_BYTES_MAX: usize = 16 << 20;

/// Tokens of one statement but INSERT and REPLACE, and of a query within those.
pub const TOKENS_MAX: usize = 1 << 18;

/// Tokens of INSERT and REPLACE, whose rows of literals no parser but ours sees.
pub const INSERT_TOKENS_MAX: usize = 1 << 20;

/// Tokens of one statement, not counting commas and the plain items of comma-separated lists.
///
/// A chain such as `a AND b AND c` becomes a tree as deep as the chain is long. This bounds that depth, and so the stack
/// that dropping the tree takes: `PARSER_STACK_BYTES / CHAIN_TOKENS_MAX` is 8 KiB for each level.
pub const CHAIN_TOKENS_MAX: usize = 1 << 13;

/// Parentheses and CASEs within each other, prefix operators such as NOT in a row, and whatever else the parser descends
/// into.
pub const NESTING_MAX: usize = 32;

/// SELECTs of one statement, those of WITH and views counted as often as they are read.
pub const BLOCKS_MAX: usize = 1 << 10;

/// SELECTs that read one another, those of WITH and views among them.
pub const BLOCKS_DEEP_MAX: usize = 100;

/// Columns of the result of one SELECT.
pub const COLUMNS_MAX: usize = 1 << 12;

/// Bytes of a name, and of a corpus' name in particular.
pub const NAME_BYTES_MAX: usize = 255;

/// Characters of a number.
pub const NUMBER_BYTES_MAX: usize = 400;

/// The highest parameter number, as in SQLite.
pub const PARAMETERS_MAX: usize = 32_766;

/// The stack of the thread that parses statements which may be deep.
pub(crate) const PARSER_STACK_BYTES: usize = 64 << 20;
