//! What is no error and still worth a word: an answer that can only be empty, bytes that may not be what they seem.
//!
//! Invariant: a notice changes nothing about what a statement does. It says what is so, and what to do instead.

use std::fmt;

/// Something about a statement that its user may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    text: String,
    hint: Option<String>,
}

impl Notice {
    pub(crate) fn new(text: impl Into<String>, hint: Option<String>) -> Notice {
        Notice {
            text: text.into(),
            hint,
        }
    }

    /// What is so.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What to do instead, if there is something.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)?;
        match &self.hint {
            Some(hint) => write!(formatter, "; hint: {hint}"),
            None => Ok(()),
        }
    }
}
