//! `Error`: everything that can be wrong with SQL text, each with the place where it is wrong.
//!
//! Invariant: `Display` gives one line without a final period, `LINE:COLUMN: what is wrong[; hint: what to do]`; long
//! or unprintable pieces of the user's text are shortened and escaped before they get here (`quote`).

use std::fmt;

pub(crate) use crate::quoted::{quote, shorten};

/// A place in SQL text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// Offset in bytes, from 0.
    pub byte: u64,
}

impl Position {
    /// The first character of a text.
    pub const START: Position = Position {
        line: 1,
        column: 1,
        byte: 0,
    };

    /// Moves past one character.
    pub(crate) fn advance(&mut self, character: char) {
        self.byte += character.len_utf8() as u64;
        if character == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A position together with the line of text around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(Box<PlaceParts>);

/// Boxed, so that results which may be errors stay small.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PlaceParts {
    position: Position,
    /// The line as an error shows it: at most `EXCERPT_MAX` characters and dots around them, all printable.
    line: String,
    /// Characters of `line` before the caret.
    caret: usize,
}

const EXCERPT_MAX: usize = 100;

impl Place {
    /// The place at `byte` of `text`, where `text` itself begins at `start`. Linear in `byte`.
    pub(crate) fn new(text: &str, start: Position, byte: usize) -> Place {
        let byte = text.floor_char_boundary(byte);
        let (before, after) = text.split_at(byte);
        let mut position = start;
        for character in before.chars() {
            position.advance(character);
        }
        let line_before = before.rsplit('\n').next().unwrap_or("");
        let line_after = after.split(['\n', '\r']).next().unwrap_or("");
        let caret_wanted = EXCERPT_MAX * 3 / 4;
        let skipped = line_before.chars().count().saturating_sub(caret_wanted);
        let mut line = String::new();
        if skipped > 0 {
            line.push_str("...");
        }
        line.extend(line_before.chars().skip(skipped).map(printable));
        let caret = line.chars().count();
        let mut rest = line_after.chars();
        line.extend(
            rest.by_ref()
                .take(EXCERPT_MAX.saturating_sub(caret))
                .map(printable),
        );
        if rest.next().is_some() {
            line.push_str("...");
        }
        Place(Box::new(PlaceParts {
            position,
            line,
            caret,
        }))
    }

    /// The line, column and byte.
    pub fn position(&self) -> Position {
        self.0.position
    }
}

/// Tabs and control characters would move the caret away from its column.
fn printable(character: char) -> char {
    if character.is_control() {
        ' '
    } else {
        character
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.position.fmt(f)
    }
}

/// The remedy of an error, if there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hint(Option<Box<str>>);

impl Hint {
    /// No hint.
    pub(crate) const NONE: Hint = Hint(None);

    /// A hint of these words.
    pub(crate) fn new(text: impl Into<String>) -> Hint {
        Hint(Some(text.into().into_boxed_str()))
    }

    /// A hint of these words, or none if there are none.
    pub(crate) fn maybe(text: &str) -> Hint {
        if text.is_empty() {
            Hint::NONE
        } else {
            Hint::new(text)
        }
    }

    /// The words of the hint.
    pub fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(text) => write!(f, "; hint: {text}"),
            None => Ok(()),
        }
    }
}

/// What kind of name was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameKind {
    /// A corpus.
    Corpus,
    /// A column.
    Column,
    /// A function.
    Function,
    /// A table function.
    TableFunction,
    /// An option in WITH.
    Option,
    /// A tokenizer.
    Tokenizer,
    /// An argument of a table function.
    Argument,
    /// A setting of SET.
    Setting,
    /// A strategy of `SET strategy`.
    Strategy,
    /// A format of COPY.
    Format,
    /// An encoding of files that COPY reads.
    Encoding,
    /// A view.
    View,
    /// The kind of an index.
    IndexKind,
    /// How lists of an index are coded.
    Codec,
    /// A table or table alias before the dot of a column.
    Table,
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameKind::Corpus => "corpus",
            NameKind::Column => "column",
            NameKind::Function => "function",
            NameKind::TableFunction => "table function",
            NameKind::Option => "option",
            NameKind::Tokenizer => "tokenizer",
            NameKind::Argument => "argument",
            NameKind::Setting => "setting",
            NameKind::Strategy => "strategy",
            NameKind::Format => "format",
            NameKind::Encoding => "encoding",
            NameKind::View => "view",
            NameKind::IndexKind => "kind of index",
            NameKind::Codec => "codec",
            NameKind::Table => "table or alias",
        })
    }
}

/// Why the parser gave up on a text that may well be correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParserFailure {
    /// The operating system refused the thread whose stack the parser runs on.
    NoThread(std::io::ErrorKind),
    /// The parser panicked; the panic was caught.
    Panicked,
}

impl fmt::Display for ParserFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParserFailure::NoThread(_) => f.write_str(
                "the system starts no thread to parse on; hint: other processes, or fewer threads, leave room for one",
            ),
            ParserFailure::Panicked => {
                f.write_str("the parser failed on this statement, which is a bug")
            }
        }
    }
}

/// Everything that can be wrong with SQL text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not SQL.
    #[error("{at}: expected {expected}, found {found}{hint}")]
    Syntax {
        /// Where.
        at: Place,
        /// The expected syntax.
        expected: String,
        /// The token found.
        found: String,
        /// The remedy.
        hint: Hint,
    },
    /// SQL that this version does not have.
    #[error("{at}: {what} is not supported in this version{hint}")]
    NotSupported {
        /// Where.
        at: Place,
        /// The clause, statement, operator or function.
        what: String,
        /// The remedy.
        hint: Hint,
    },
    /// A name that stands for nothing.
    #[error("{at}: no such {kind} {name}{hint}")]
    NoSuch {
        /// Where.
        at: Place,
        /// What the name should have named.
        kind: NameKind,
        /// The name, in quotes.
        name: String,
        /// The remedy.
        hint: Hint,
    },
    /// CREATE CORPUS with a name that is taken.
    #[error("{at}: corpus {name} already exists{hint}")]
    CorpusExists {
        /// Where.
        at: Place,
        /// The name, in quotes.
        name: String,
        /// The remedy.
        hint: Hint,
    },
    /// A value of the wrong type.
    #[error("{at}: {what} must be {expected}, but {found} is {found_type}{hint}")]
    WrongType {
        /// Where.
        at: Place,
        /// The purpose of the value.
        what: String,
        /// The type it should have.
        expected: &'static str,
        /// The value, shortened.
        found: String,
        /// The type it has.
        found_type: &'static str,
        /// The remedy.
        hint: Hint,
    },
    /// A function call with too many or too few arguments, or with unsuitable ones.
    #[error("{at}: {function} takes {expected}, found {found}{hint}")]
    WrongArguments {
        /// Where.
        at: Place,
        /// The function.
        function: String,
        /// What it takes.
        expected: &'static str,
        /// The given argument.
        found: String,
        /// The remedy.
        hint: Hint,
    },
    /// A value outside of its bounds.
    #[error("{at}: {what} must be {bounds}, found {found}{hint}")]
    OutOfRange {
        /// Where.
        at: Place,
        /// The purpose of the value.
        what: String,
        /// The bounds in words.
        bounds: String,
        /// The value, shortened.
        found: String,
        /// The remedy.
        hint: Hint,
    },
    /// Clauses that are fine one by one but not together.
    #[error("{at}: {message}{hint}")]
    Conflict {
        /// Where.
        at: Place,
        /// The conflict.
        message: String,
        /// The remedy.
        hint: Hint,
    },
    /// A statement beyond one of the `limits`.
    #[error("{at}: {what} exceeds the limit of {limit}{hint}")]
    TooLarge {
        /// Where.
        at: Place,
        /// The part that is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The remedy.
        hint: Hint,
    },
    /// Parameters and values do not match.
    #[error("{at}: parameters in the statement: {expected}, values given: {found}")]
    Parameters {
        /// Where.
        at: Place,
        /// The highest parameter number in the statement.
        expected: usize,
        /// The number of values given.
        found: usize,
    },
    /// The parser itself failed.
    #[error("{at}: {reason}")]
    Parser {
        /// Where the statement begins.
        at: Place,
        /// Why.
        reason: ParserFailure,
    },
}

impl Error {
    /// Where the error is.
    pub fn position(&self) -> Position {
        self.place().position()
    }

    /// The remedy, if there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Error::Syntax { hint, .. }
            | Error::NotSupported { hint, .. }
            | Error::NoSuch { hint, .. }
            | Error::CorpusExists { hint, .. }
            | Error::WrongType { hint, .. }
            | Error::WrongArguments { hint, .. }
            | Error::OutOfRange { hint, .. }
            | Error::Conflict { hint, .. }
            | Error::TooLarge { hint, .. } => hint.text(),
            Error::Parameters { .. } | Error::Parser { .. } => None,
        }
    }

    /// The line of SQL that is wrong and under it a caret at the place; two lines, each ending in a newline.
    ///
    /// Long lines are cut to a window around the caret. The caret's column is right for text whose characters are one
    /// cell wide.
    pub fn excerpt(&self) -> String {
        let PlaceParts { line, caret, .. } = self.place().0.as_ref();
        format!("{line}\n{:caret$}^\n", "")
    }

    fn place(&self) -> &Place {
        match self {
            Error::Syntax { at, .. }
            | Error::NotSupported { at, .. }
            | Error::NoSuch { at, .. }
            | Error::CorpusExists { at, .. }
            | Error::WrongType { at, .. }
            | Error::WrongArguments { at, .. }
            | Error::OutOfRange { at, .. }
            | Error::Conflict { at, .. }
            | Error::TooLarge { at, .. }
            | Error::Parameters { at, .. }
            | Error::Parser { at, .. } => at,
        }
    }
}

/// `Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
