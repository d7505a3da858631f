//! Batches of questions and edits in any order.
//!
//! The invariant: every question is answered, and every edit made, as if the operations ran one after the other. They do not:
//! the edits of each file are placed first, all at once ([`stretches`]), from which the text at any moment is known (a snapshot
//! of offsets). Then the words around them are told, as far as somebody asks for them ([`changes`]), and the files as they were
//! before the batch are asked, all questions at once. The edits before each question correct its answer, in parallel. Source:
//! random access on compressed data, TPDS 2023, section on mixed operations. Where a device takes them, it places the edits,
//! reads the text around them and answers for the stored files.

mod answers;
mod changes;
mod file;
mod stretches;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;
use zipfdb_storage::Tokenizer;

use crate::device::Run;
use crate::edits::{Names, shared_texts};
use crate::overlay::{Batch, Insertion, Overlay};
use crate::snapshot::StoredView;
use crate::{Error, Result};
use answers::Asked;
use changes::words;
use file::File;

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
    fn file(&self) -> &'a str {
        match *self {
            Operation::Count { file, .. }
            | Operation::Search { file, .. }
            | Operation::Extract { file, .. }
            | Operation::Insert { file, .. }
            | Operation::Append { file, .. } => file,
        }
    }

    /// Whether both are on the same file.
    fn is_of(&self, other: &Operation<'_>) -> bool {
        let (left, right) = (self.file(), other.file());
        // Names of operations are often one and the same.
        std::ptr::eq(left, right) || left == right
    }

    fn is_edit(&self) -> bool {
        matches!(self, Operation::Insert { .. } | Operation::Append { .. })
    }

    fn is_append(&self) -> bool {
        matches!(self, Operation::Append { .. })
    }

    /// What an edit adds; nothing for a question.
    fn text(&self) -> &'a [u8] {
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

impl Target<'_> {
    /// Runs operations: their answers, and the edits in batches that make the same of the texts.
    ///
    /// # Errors
    /// If an operation names a file that is not there, or a place behind its end, a segment is damaged, or the run is over: then
    /// nothing has happened.
    pub(crate) fn run(self, operations: &[Operation<'_>]) -> Result<(Vec<Answer>, Vec<Batch>)> {
        let (texts, by_file) = rayon::join(
            || shared_texts(operations.iter().map(Operation::text)),
            || by_file(operations),
        );
        let of_files =
            || by_file.par_chunk_by(|&left, &right| operations[left].is_of(&operations[right]));
        let open = || -> Result<Vec<File<'_>>> {
            let files = of_files().map(|indexes| self.open(indexes, operations));
            let mut files = files.collect::<Result<Vec<_>>>()?;
            self.place(&mut files, operations)?;
            Ok(files)
        };
        let words = || {
            let files = of_files().map(|indexes| words(indexes, operations));
            files.collect::<Vec<_>>()
        };
        let (files, words) = rayon::join(open, words);
        let files = files?;
        let asked = Asked {
            files: &files,
            words: &words,
            operations,
            texts: &texts,
        };
        let (answers, (edited, batches)) = rayon::join(
            || self.answer(asked),
            || {
                let edited = files.par_iter().filter_map(|file| file.edited(&texts));
                (edited.collect::<Vec<_>>(), batches(operations, &texts))
            },
        );
        let answers = answers?;
        let inserted = operations.iter().filter(|operation| operation.is_edit());
        let inserted = inserted.map(|operation| operation.text().len() as u64);
        let (rows, bytes) = inserted.fold((0, 0), |(rows, sum), bytes| (rows + 1, sum + bytes));
        self.overlay.put(edited.into_iter(), rows, bytes);
        // There may be many.
        files.into_par_iter().zip(words).for_each(drop);
        Ok((answers, batches))
    }
}

/// The numbers of operations, those on one file together and in order.
fn by_file(operations: &[Operation<'_>]) -> Vec<usize> {
    let hasher = RandomState::new();
    let hashes = operations.par_iter().enumerate();
    let hashes = hashes.map(|(index, operation)| (hasher.hash_one(operation.file()), index));
    let mut hashes: Vec<(u64, usize)> = hashes.collect();
    hashes.par_sort_unstable();
    for same in hashes.chunk_by_mut(|left, right| left.0 == right.0) {
        let is_one = |pair: &[(u64, usize)]| operations[pair[0].1].is_of(&operations[pair[1].1]);
        // Names may have one hash by chance.
        if !same.windows(2).all(is_one) {
            same.sort_by_key(|&(_, index)| operations[index].file());
        }
    }
    hashes.into_iter().map(|(_, index)| index).collect()
}

/// The edits among operations, in batches: rows of a batch are of different files, so that it does not matter that they see
/// the texts before it.
fn batches(operations: &[Operation<'_>], texts: &[Bytes]) -> Vec<Batch> {
    let mut names = Names::default();
    let mut batches = Vec::new();
    let mut rows: Vec<Insertion> = Vec::new();
    // For each file the batch that it was last in.
    let mut last: HashMap<&str, usize> = HashMap::new();
    for (operation, text) in operations.iter().zip(texts) {
        let (file, offset) = match *operation {
            Operation::Insert { file, offset, .. } => (file, Some(offset)),
            Operation::Append { file, .. } => (file, None),
            _ => continue,
        };
        if last.get(file) == Some(&batches.len()) {
            batches.push(Batch::Insert(std::mem::take(&mut rows)));
        }
        last.insert(file, batches.len());
        rows.push(Insertion {
            file: names.shared(file),
            offset,
            text: text.clone(),
        });
    }
    if !rows.is_empty() {
        batches.push(Batch::Insert(rows));
    }
    batches
}

fn at(operation: usize, error: Error) -> Error {
    Error::Invalid {
        subject: format!("operation {}", operation + 1),
        reason: error.to_string(),
    }
}
