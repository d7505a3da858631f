//! `TextDictionary`: the texts that numbers of a column stand for.
//!
//! Invariant: a number stands for the same text as long as the dictionary is there, and different numbers for different texts.
//! It keeps the snapshot that it is of, and copies no text.

use std::fmt;
use std::sync::{Arc, Weak};

use super::texts::TextColumn;
use crate::Value;
use crate::answer::{CorpusView, StoredCorpus};
use crate::expression::text_or_blob;

/// Which texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DictionaryKind {
    Words,
    Files,
}

/// The words of a corpus or the names of its files, by number. Cheap to clone.
#[derive(Clone)]
pub struct TextDictionary {
    view: Arc<CorpusView>,
    kind: DictionaryKind,
}

impl TextDictionary {
    /// The words of a view, whose vocabulary is there.
    pub(crate) fn words(view: &Arc<CorpusView>) -> TextDictionary {
        TextDictionary {
            view: view.clone(),
            kind: DictionaryKind::Words,
        }
    }

    /// The names of the files of a view.
    pub(crate) fn files(view: &Arc<CorpusView>) -> TextDictionary {
        TextDictionary {
            view: view.clone(),
            kind: DictionaryKind::Files,
        }
    }

    /// How many texts there are; numbers are below.
    pub fn len(&self) -> usize {
        match self.kind {
            // It was made when the dictionary was.
            DictionaryKind::Words => self.view.vocabulary().map_or(0, |words| words.len()),
            DictionaryKind::Files => self.view.files().len(),
        }
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a text. With tokenizer `whitespace` a word may be no UTF-8.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn bytes(&self, number: u32) -> &[u8] {
        match self.kind {
            DictionaryKind::Words => self.view.word(number),
            DictionaryKind::Files => self.view.files()[number as usize].name.as_bytes(),
        }
    }

    /// A text as SQL has it: a BLOB if it is not UTF-8.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn value(&self, number: u32) -> Value {
        match self.kind {
            DictionaryKind::Words => text_or_blob(self.view.word(number).to_vec()),
            DictionaryKind::Files => Value::Text(self.view.files()[number as usize].name.clone()),
        }
    }

    /// All texts, by number: offsets and bytes.
    pub fn texts(&self) -> TextColumn {
        let mut texts = TextColumn::default();
        // Numbers are u32.
        (0..self.len() as u32).for_each(|number| texts.push(self.bytes(number)));
        texts
    }

    /// Whether numbers of both mean the same.
    pub fn is_same(&self, other: &TextDictionary) -> bool {
        self.kind == other.kind && Arc::ptr_eq(&self.view, &other.view)
    }

    /// What tells it again in later answers, and does not keep it.
    pub fn downgrade(&self) -> WeakTextDictionary {
        let owner = match self.view.pending() {
            None => DictionaryOwner::Stored(self.view.stored().downgrade()),
            Some(_) => DictionaryOwner::Edited(Arc::downgrade(&self.view)),
        };
        WeakTextDictionary {
            owner,
            kind: self.kind,
        }
    }

    /// What it is of.
    pub(crate) fn view(&self) -> &Arc<CorpusView> {
        &self.view
    }

    /// Whether it has names of files, whose numbers are in order of their bytes.
    pub(crate) fn is_of_files(&self) -> bool {
        self.kind == DictionaryKind::Files
    }

    /// For each word its place in order of bytes; none for files, whose numbers are those places.
    pub(crate) fn byte_ranks(&self) -> Option<&[u32]> {
        match self.kind {
            DictionaryKind::Words => Some(self.view.byte_ranks()),
            DictionaryKind::Files => None,
        }
    }
}

/// Tells a [`TextDictionary`] again, for who keeps something that was made of its texts.
#[derive(Clone)]
pub struct WeakTextDictionary {
    owner: DictionaryOwner,
    kind: DictionaryKind,
}

/// What has the texts: numbers of a corpus without edits are those of its stored files, of whatever snapshot.
#[derive(Clone)]
enum DictionaryOwner {
    Stored(Weak<StoredCorpus>),
    Edited(Weak<CorpusView>),
}

impl WeakTextDictionary {
    /// Whether the numbers of a dictionary mean the same.
    pub fn is_of(&self, dictionary: &TextDictionary) -> bool {
        let view = &dictionary.view;
        let is_owner = match &self.owner {
            DictionaryOwner::Stored(stored) => {
                view.pending().is_none() && stored.ptr_eq(&view.stored().downgrade())
            }
            DictionaryOwner::Edited(edited) => edited.ptr_eq(&Arc::downgrade(view)),
        };
        is_owner && self.kind == dictionary.kind
    }

    /// Whether there may be answers yet that have it.
    pub fn is_alive(&self) -> bool {
        match &self.owner {
            DictionaryOwner::Stored(stored) => stored.strong_count() > 0,
            DictionaryOwner::Edited(edited) => edited.strong_count() > 0,
        }
    }
}

impl fmt::Debug for WeakTextDictionary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WeakTextDictionary")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TextDictionary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TextDictionary")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
