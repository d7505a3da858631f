//! Questions and edits of a batch, and what they are about.

use std::sync::Arc;

use zipfdb_storage::Tokenizer;

use crate::Error;
use crate::answer::StoredView;
use crate::answer::path::Run;
use crate::overlay::Overlay;

/// One of many operations; see [`crate::Corpus::mixed_many`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// How often does a word occur in a file?
    Count {
        /// The file.
        file: &'a str,
        /// The word.
        word: &'a [u8],
    },
    /// Where does a word occur in a file?
    Search {
        /// The file.
        file: &'a str,
        /// The word.
        word: &'a [u8],
    },
    /// What are some bytes of a file?
    Extract {
        /// The file.
        file: &'a str,
        /// The first of them, from 0.
        offset: u64,
        /// How many, as far as the file goes.
        length: u64,
    },
    /// Inserts text into a file.
    Insert {
        /// The file.
        file: &'a str,
        /// Before which of its bytes as it is then.
        offset: u64,
        /// What to insert.
        text: &'a [u8],
    },
    /// Appends text to a file, which is created if it is not there.
    Append {
        /// The file.
        file: &'a str,
        /// What to append.
        text: &'a [u8],
    },
}

/// What an [`Operation`] gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Of [`Operation::Count`].
    Count(u64),
    /// Of [`Operation::Search`]: the offsets of the word's first bytes, ascending.
    Offsets(Vec<u64>),
    /// Of [`Operation::Extract`].
    Bytes(Vec<u8>),
    /// Of an edit.
    Edited,
}

impl<'a> Operation<'a> {
    pub(super) fn file(&self) -> &'a str {
        match *self {
            Operation::Count { file, .. }
            | Operation::Search { file, .. }
            | Operation::Extract { file, .. }
            | Operation::Insert { file, .. }
            | Operation::Append { file, .. } => file,
        }
    }

    pub(super) fn is_edit(&self) -> bool {
        matches!(self, Operation::Insert { .. } | Operation::Append { .. })
    }

    pub(super) fn is_append(&self) -> bool {
        matches!(self, Operation::Append { .. })
    }

    /// What an edit adds; nothing for a question.
    pub(super) fn text(&self) -> &'a [u8] {
        match *self {
            Operation::Insert { text, .. } | Operation::Append { text, .. } => text,
            _ => &[],
        }
    }
}

/// A corpus that operations run on.
pub(crate) struct Target<'a> {
    pub(crate) stored: &'a Arc<StoredView>,
    pub(crate) overlay: &'a mut Overlay,
    pub(crate) tokenizer: Tokenizer,
    /// Until when.
    pub(crate) run: Run<'a>,
}

/// An error of one operation.
pub(super) fn at(operation: usize, error: Error) -> Error {
    Error::Invalid {
        subject: format!("operation {}", operation + 1),
        reason: error.to_string(),
    }
}
