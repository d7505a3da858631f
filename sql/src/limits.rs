//! The limits that a statement is held to before it is parsed.
//!
//! Invariant: together they bound the time, the memory and the stack that any text can take. They are checked by `split`
//! (text), `lex` (tokens, names, numbers), `translate` and `parse` (nesting), `bind` (columns, which `*` may multiply) and
//! `regexp`.

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

/// Bytes of a regular expression, whose syntax tree takes a hundred times as much.
pub const REGEXP_BYTES_MAX: usize = 100_000;

/// Bytes of memory that compiling one regular expression may take. This bounds the time too, which is up to 4 ns a byte.
pub const REGEXP_MEMORY_MAX: u64 = 64 << 20;

/// Characters that classes of one regular expression may have where it ignores case, which looks each of them up.
pub(crate) const REGEXP_FOLDED_MAX: u64 = 1 << 25;

/// The stack of the thread that parses statements which may be deep.
pub(crate) const PARSER_STACK_BYTES: usize = 64 << 20;
