//! Notices: no errors, but worth knowing, such as an answer that can only be empty, or bytes that may not be what they seem.
//!
//! Invariant: a notice does not change the effect of a statement. It states the fact, and what to do instead.

use std::fmt;

/// A fact about a statement that its user may want to know.
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

    /// The fact, in one sentence.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The remedy, if there is one.
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
