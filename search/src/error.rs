//! `Error`: what can be wrong with the text of a query, with the place where it is wrong.
//!
//! Invariant: `Display` gives one line without a final period, `LINE:COLUMN: what is wrong[; hint: what to do]`; pieces of the
//! text are shortened and escaped. It does not show the text around the place.

use std::borrow::Cow;
use std::fmt;

/// Characters that a message shows of one text.
const SHOWN_MAX: usize = 60;

/// The language of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// CQL, for spans.
    Cql,
    /// The simple language, for files.
    Simple,
}

/// A place in the text of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// Offset in bytes, from 0.
    pub byte: usize,
}

impl Place {
    fn new(text: &str, byte: usize) -> Place {
        let byte = text.floor_char_boundary(byte);
        let before = &text[..byte];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            line: 1 + before.matches('\n').count() as u64,
            column: 1 + before[line_start..].chars().count() as u64,
            byte,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The text is not of the language.
    #[error("expected {expected}, found {found}")]
    Syntax {
        /// The expected syntax.
        expected: Cow<'static, str>,
        /// What stands there, in quotes.
        found: String,
    },
    /// A name that stands for nothing.
    #[error("no such {kind} {name}")]
    NoSuch {
        /// What the name should have named.
        kind: &'static str,
        /// The name, in quotes.
        name: String,
    },
    /// A string that is no pattern.
    #[error("not a pattern: {reason}")]
    Pattern {
        /// Why.
        reason: String,
    },
    /// Parts that are fine one by one but not together.
    #[error("{reason}")]
    Conflict {
        /// The conflict.
        reason: Cow<'static, str>,
    },
    /// Part of the text that means nothing and that the lenient mode leaves out.
    #[error("{what} holds no word")]
    NoWord {
        /// The part, in quotes.
        what: String,
    },
    /// A query beyond one of the `limits`.
    #[error("{what} exceeds the limit of {limit}")]
    TooLarge {
        /// The part that is too large.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

/// What is wrong with a query, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {}", self.message())]
pub struct Error {
    language: Language,
    place: Place,
    fault: Fault,
    hint: Option<Cow<'static, str>>,
}

impl Error {
    pub(crate) fn new(language: Language, text: &str, byte: usize, fault: Fault) -> Error {
        Error {
            language,
            place: Place::new(text, byte),
            fault,
            hint: None,
        }
    }

    pub(crate) fn with_hint(self, hint: impl Into<Cow<'static, str>>) -> Error {
        Error {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// The language that the text was read as.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Where in the text.
    pub fn place(&self) -> Place {
        self.place
    }

    /// What is wrong.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// The remedy, if there is one.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// What is wrong and the remedy, without the place: for messages that show it within a larger text.
    pub fn message(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; hint: {hint}", self.fault),
            None => self.fault.to_string(),
        }
    }
}

/// `Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// The beginning of a text in backticks, escaped where it cannot be printed.
pub(crate) fn quote(text: &str) -> String {
    let mut shown = String::from("`");
    for (number, character) in text.chars().enumerate() {
        if number == SHOWN_MAX {
            shown.push_str("...");
            break;
        }
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown.push('`');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_place_and_hint() {
        let fault = Fault::Conflict {
            reason: "it is wrong".into(),
        };
        let error = Error::new(Language::Cql, "a\n\u{e4}b", 4, fault).with_hint("mend it");
        assert_eq!(error.to_string(), "2:2: it is wrong; hint: mend it");
        assert_eq!(error.message(), "it is wrong; hint: mend it");
        assert_eq!(error.place().byte, 4);
    }

    #[test]
    fn quoted_texts_are_short_and_printable() {
        assert_eq!(quote("a\n\u{e4}"), "`a\\n\u{e4}`");
        assert_eq!(quote(&"a".repeat(1_000)).len(), SHOWN_MAX + 5);
    }
}
