//! `CompileError`: why a test or span has no matcher or automaton.

/// Why a test or span has no matcher or automaton.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The text of a regular expression is none.
    #[error(
        "`{pattern}` is no regular expression: {reason}; hint: a character of `\\.+*?()|[]{{}}^$#&-~` stands for itself behind `\\`"
    )]
    RegexSyntax {
        /// The text.
        pattern: String,
        /// What is wrong with it, in one line.
        reason: String,
    },
    /// A regular expression needs more memory than the limit.
    #[error(
        "`{pattern}` needs more than {limit} bytes as an automaton; hint: shorten it or its repetitions"
    )]
    RegexSize {
        /// The text.
        pattern: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// A span needs more states than the limit.
    #[error(
        "the query needs an automaton of more than {limit} states; hint: use smaller numbers in `{{n,m}}` and distances, or fewer \
         alternatives"
    )]
    States {
        /// The limit.
        limit: usize,
    },
    /// A span has more tests or kinds of boundaries than a class can hold.
    #[error(
        "the query has more than {limit} different {what}; hint: join tests of one word into one regular expression or list"
    )]
    Distinct {
        /// `tests of words` or `boundaries of units`.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}
