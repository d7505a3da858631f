//! `TextDictionary`: the texts of the numbers in a column.
//!
//! Invariant: a number means the same text throughout the life of the dictionary, and different numbers mean different texts. A
//! dictionary of a snapshot keeps the snapshot and copies no text; one of texts made by a query owns them.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use rayon::prelude::*;

use super::texts::TextColumn;
use crate::Value;
use crate::answer::{CorpusView, StoredCorpus};

/// The words of a corpus, the names of its files, or texts that a query made, by number. Cheap to clone.
#[derive(Clone)]
pub struct TextDictionary {
    texts: DictionaryTexts,
}

/// The source of the texts.
#[derive(Clone)]
enum DictionaryTexts {
    Words(Arc<CorpusView>),
    Files(Arc<CorpusView>),
    Made(Arc<MadeTexts>),
}

/// Distinct texts made by a query.
struct MadeTexts {
    texts: Arc<Vec<String>>,
    /// The rank of each text in order of bytes.
    ranks: OnceLock<Vec<u32>>,
}

impl TextDictionary {
    /// The words of a view, whose vocabulary is built.
    pub(crate) fn words(view: &Arc<CorpusView>) -> TextDictionary {
        TextDictionary {
            texts: DictionaryTexts::Words(view.clone()),
        }
    }

    /// The names of the files of a view.
    pub(crate) fn files(view: &Arc<CorpusView>) -> TextDictionary {
        TextDictionary {
            texts: DictionaryTexts::Files(view.clone()),
        }
    }

    /// A dictionary of distinct texts, fewer than 2^32.
    pub(crate) fn made(texts: Vec<String>) -> TextDictionary {
        TextDictionary::shared(Arc::new(texts))
    }

    /// As `made`, of texts that others have too.
    pub(crate) fn shared(texts: Arc<Vec<String>>) -> TextDictionary {
        let made = MadeTexts {
            texts,
            ranks: OnceLock::new(),
        };
        TextDictionary {
            texts: DictionaryTexts::Made(Arc::new(made)),
        }
    }

    /// The number of texts; numbers are less.
    pub fn len(&self) -> usize {
        match &self.texts {
            // The vocabulary was built when the dictionary was.
            DictionaryTexts::Words(view) => view.vocabulary().map_or(0, |words| words.len()),
            DictionaryTexts::Files(view) => view.files().len(),
            DictionaryTexts::Made(made) => made.texts.len(),
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
        match &self.texts {
            DictionaryTexts::Words(view) => view.word(number),
            DictionaryTexts::Files(view) => view.files()[number as usize].name.as_bytes(),
            DictionaryTexts::Made(made) => made.texts[number as usize].as_bytes(),
        }
    }

    /// A text as SQL has it: a BLOB if it is not UTF-8.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn value(&self, number: u32) -> Value {
        match &self.texts {
            DictionaryTexts::Words(view) => text_or_blob(view.word(number).to_vec()),
            DictionaryTexts::Files(view) => Value::Text(view.files()[number as usize].name.clone()),
            DictionaryTexts::Made(made) => Value::Text(made.texts[number as usize].clone()),
        }
    }

    /// All texts, by number: offsets and bytes.
    pub fn texts(&self) -> TextColumn {
        let mut texts = TextColumn::default();
        // Numbers are u32.
        (0..self.len() as u32).for_each(|number| texts.push(self.bytes(number)));
        texts
    }

    /// Whether numbers mean the same in both.
    pub fn is_same(&self, other: &TextDictionary) -> bool {
        match (&self.texts, &other.texts) {
            (DictionaryTexts::Words(view), DictionaryTexts::Words(other))
            | (DictionaryTexts::Files(view), DictionaryTexts::Files(other)) => {
                Arc::ptr_eq(view, other)
            }
            (DictionaryTexts::Made(made), DictionaryTexts::Made(other)) => Arc::ptr_eq(made, other),
            _ => false,
        }
    }

    /// A reference that recognizes this dictionary in later answers, and does not keep it in memory.
    pub fn downgrade(&self) -> WeakTextDictionary {
        let owner = |view: &Arc<CorpusView>| match view.pending() {
            None => DictionaryOwner::Stored(view.stored().downgrade()),
            Some(_) => DictionaryOwner::Edited(Arc::downgrade(view)),
        };
        WeakTextDictionary(match &self.texts {
            DictionaryTexts::Words(view) => WeakTexts::Words(owner(view)),
            DictionaryTexts::Files(view) => WeakTexts::Files(owner(view)),
            DictionaryTexts::Made(made) => WeakTexts::Made(Arc::downgrade(made)),
        })
    }

    /// Whether the texts are names of files, whose numbers are in order of their bytes.
    pub(crate) fn is_of_files(&self) -> bool {
        matches!(self.texts, DictionaryTexts::Files(_))
    }

    /// The rank of each text in order of bytes; none for files, whose numbers are their ranks.
    pub(crate) fn byte_ranks(&self) -> Option<&[u32]> {
        match &self.texts {
            DictionaryTexts::Words(view) => Some(view.byte_ranks()),
            DictionaryTexts::Files(_) => None,
            DictionaryTexts::Made(made) => Some(made.ranks.get_or_init(|| ranks(&made.texts))),
        }
    }
}

/// The rank of each text in order of bytes.
fn ranks(texts: &[String]) -> Vec<u32> {
    // Numbers are u32.
    let mut order: Vec<u32> = (0..texts.len() as u32).collect();
    order.par_sort_unstable_by_key(|&number| &texts[number as usize]);
    let mut ranks = vec![0; texts.len()];
    for (rank, number) in order.into_iter().enumerate() {
        ranks[number as usize] = rank as u32;
    }
    ranks
}

/// Recognizes a [`TextDictionary`], for a program that caches results of its texts.
#[derive(Clone)]
pub struct WeakTextDictionary(WeakTexts);

#[derive(Clone)]
enum WeakTexts {
    Words(DictionaryOwner),
    Files(DictionaryOwner),
    Made(Weak<MadeTexts>),
}

/// The owner of the texts: numbers of a corpus without edits are those of its stored files, in any snapshot.
#[derive(Clone)]
enum DictionaryOwner {
    Stored(Weak<StoredCorpus>),
    Edited(Weak<CorpusView>),
}

impl DictionaryOwner {
    fn is_of(&self, view: &Arc<CorpusView>) -> bool {
        match self {
            DictionaryOwner::Stored(stored) => {
                view.pending().is_none() && stored.ptr_eq(&view.stored().downgrade())
            }
            DictionaryOwner::Edited(edited) => edited.ptr_eq(&Arc::downgrade(view)),
        }
    }

    fn is_alive(&self) -> bool {
        match self {
            DictionaryOwner::Stored(stored) => stored.strong_count() > 0,
            DictionaryOwner::Edited(edited) => edited.strong_count() > 0,
        }
    }
}

impl WeakTextDictionary {
    /// Whether the numbers of a dictionary mean the same.
    pub fn is_of(&self, dictionary: &TextDictionary) -> bool {
        match (&self.0, &dictionary.texts) {
            (WeakTexts::Words(owner), DictionaryTexts::Words(view))
            | (WeakTexts::Files(owner), DictionaryTexts::Files(view)) => owner.is_of(view),
            (WeakTexts::Made(made), DictionaryTexts::Made(other)) => {
                made.ptr_eq(&Arc::downgrade(other))
            }
            _ => false,
        }
    }

    /// Whether answers may still have it.
    pub fn is_alive(&self) -> bool {
        match &self.0 {
            WeakTexts::Words(owner) | WeakTexts::Files(owner) => owner.is_alive(),
            WeakTexts::Made(made) => made.strong_count() > 0,
        }
    }
}

impl fmt::Debug for WeakTextDictionary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WeakTextDictionary")
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TextDictionary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TextDictionary")
            .finish_non_exhaustive()
    }
}

/// Bytes as SQL sees a word: a text, or a BLOB if they are not UTF-8.
pub(crate) fn text_or_blob(bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => Value::Text(text),
        Err(error) => Value::Blob(error.into_bytes()),
    }
}
