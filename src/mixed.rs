//! Batches of questions and edits in any order.
//!
//! The invariant: every question is answered, and every edit made, as if the operations ran one after the other. They do not:
//! files know nothing of each other, and an edit of a file only leaves the pieces of its text as they were before and after
//! (a snapshot of offsets, cheap to keep), on which all questions are then answered in parallel. Source: random access on
//! compressed data, TPDS 2023, section on mixed operations. Where a device takes them, edits are placed there, those of all
//! files at once, and so is what questions ask of stored texts; edits correct it as they correct any answer.

mod layers;
mod together;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use rayon::prelude::*;
use zipfdb_storage::Tokenizer;

use crate::device::Run;
use crate::edits::{Names, shared_texts};
use crate::interrupt::check;
use crate::overlay::{Batch, EditedFile, FileState, Insertion, Overlay, check_name};
use crate::snapshot::{EditedText, StoredView, extract_pieces};
use crate::{Error, Result};
use layers::{Layer, Layers, tell_bases};
use together::Placed;

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

    fn is_edit(&self) -> bool {
        matches!(self, Operation::Insert { .. } | Operation::Append { .. })
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

/// What a file is before the batch.
enum State {
    Missing,
    /// As stored.
    Stored(usize),
    Edited(Arc<EditedFile>),
}

/// What a question is asked of.
#[derive(Clone)]
enum Asked {
    Stored(usize),
    Edited(Arc<Layer>),
}

/// A question and the state that it is to be answered on.
struct Question {
    operation: usize,
    asked: Asked,
}

/// What became of one file.
struct Walked {
    name: Arc<str>,
    questions: Vec<Question>,
    /// What states rest on.
    bases: Vec<Arc<Layer>>,
    /// Its last state, if it was edited.
    edited: Option<EditedFile>,
}

/// A file that is gone through.
enum Open {
    Missing,
    Stored(usize),
    Edited(Layers),
}

/// Tells the words of states of one file, each with what was told of the one before.
struct Teller<'a> {
    view: &'a Arc<StoredView>,
    name: &'a str,
    tokenizer: Tokenizer,
    stop: &'a AtomicBool,
    /// The last one told, and its layer.
    last: Option<(Arc<Layer>, Arc<EditedText>)>,
}

impl Teller<'_> {
    /// # Errors
    /// If the segment of the file is damaged, or the run is over.
    fn tell(&mut self, layer: &Arc<Layer>) -> Result<Arc<EditedText>> {
        check(self.stop)?;
        let below = layer.below().map(Arc::as_ptr);
        if let Some((last, text)) = &self.last
            && Arc::ptr_eq(last, layer)
        {
            return Ok(text.clone());
        }
        let last = self.last.as_ref();
        let last = last.filter(|(last, _)| last.below().map(Arc::as_ptr) == below);
        let earlier = last.map(|(_, text)| text.regions());
        let text = layer.tell(self.view, self.name, self.tokenizer, earlier)?;
        self.last = Some((layer.clone(), text.clone()));
        Ok(text)
    }
}

/// Questions of one file that are answered one after the other, so that each takes over what was told for the one before.
const TASK_QUESTIONS: usize = 32;

impl Target<'_> {
    /// Runs operations: their answers, and the edits in batches that make the same of the texts.
    ///
    /// # Errors
    /// If an operation names a file that is not there, or a place behind its end, a segment is damaged, or the run is over: then
    /// nothing has happened.
    pub(crate) fn run(self, operations: &[Operation<'_>]) -> Result<(Vec<Answer>, Vec<Batch>)> {
        let mut by_file: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, operation) in operations.iter().enumerate() {
            by_file.entry(operation.file()).or_default().push(index);
        }
        let mut files: Vec<(&str, Vec<usize>)> = by_file.into_iter().collect();
        files.sort_unstable_by_key(|(_, indexes)| indexes[0]);
        let texts = shared_texts(operations.iter().map(Operation::text));
        let placed = self.place(&files, operations)?;
        let walked: Vec<Walked> = (files.par_iter())
            .map(|(name, indexes)| self.walk(name, indexes, operations, &texts, &placed))
            .collect::<Result<_>>()?;

        let tasks: Vec<(&str, &[Question])> = (walked.iter())
            .flat_map(|file| {
                let questions = file.questions.chunks(TASK_QUESTIONS);
                questions.map(|questions| (&*file.name, questions))
            })
            .collect();
        if !tasks.is_empty() {
            self.stored.prepare_edits()?;
        }
        walked.par_iter().try_for_each(|file| {
            let is_told = |question: &Question| {
                let operation = &operations[question.operation];
                matches!(
                    operation,
                    Operation::Count { .. } | Operation::Search { .. }
                )
            };
            match file.questions.iter().any(is_told) {
                true => tell_bases(&file.bases, &mut self.teller(&file.name)),
                false => Ok(()),
            }
        })?;
        let count = tasks.iter().map(|(_, questions)| questions.len()).sum();
        let found: Vec<Vec<(usize, Answer)>> = match self.answers_together(count) {
            true => vec![self.answer_all(&tasks, operations)?],
            false => (tasks.par_iter())
                .map(|(name, questions)| self.answer(name, questions, operations))
                .collect::<Result<_>>()?,
        };
        let mut answers = vec![Answer::Edited; operations.len()];
        for (operation, answer) in found.into_iter().flatten() {
            answers[operation] = answer;
        }
        let batches = batches(operations, texts);
        let inserted = batches.iter().flat_map(|batch| match batch {
            Batch::Insert(rows) => &rows[..],
            Batch::Replace(_) | Batch::Delete(_) => &[],
        });
        let inserted = inserted.map(|row| row.text.len() as u64);
        let (rows, bytes) = inserted.fold((0, 0), |(rows, sum), bytes| (rows + 1, sum + bytes));
        let edited = walked.into_iter();
        let edited = edited.filter_map(|file| Some((file.name, file.edited?)));
        self.overlay.put(edited, rows, bytes);
        Ok((answers, batches))
    }

    /// What a file is before the batch.
    fn state(&self, name: &str) -> State {
        match self.overlay.file(name) {
            Some(FileState::Deleted) => State::Missing,
            Some(FileState::Edited(file)) => State::Edited(file.clone()),
            None => (self.stored.find_file(name)).map_or(State::Missing, State::Stored),
        }
    }

    /// Tells the words of states of a file.
    fn teller<'a>(&'a self, name: &'a str) -> Teller<'a> {
        Teller {
            view: self.stored,
            name,
            tokenizer: self.tokenizer,
            stop: self.run.stop,
            last: None,
        }
    }

    /// Goes through the operations on one file: makes its edits, and keeps the states that its questions are about.
    fn walk(
        &self,
        name: &str,
        indexes: &[usize],
        operations: &[Operation<'_>],
        texts: &[Bytes],
        placed: &Placed,
    ) -> Result<Walked> {
        let mut state = match self.state(name) {
            State::Edited(file) => Open::Edited(Layers::edited(&file)),
            State::Stored(file) => Open::Stored(file),
            State::Missing => Open::Missing,
        };
        let mut questions = Vec::new();
        // The state now, once a question has been asked about it.
        let mut asked: Option<Asked> = None;
        let mut rest = indexes;
        while let Some((&index, after)) = rest.split_first() {
            check(self.run.stop)?;
            rest = after;
            let offset = match operations[index] {
                Operation::Insert { offset, .. } => Some(offset),
                Operation::Append { .. } => None,
                _ => {
                    let asked = match (&asked, &mut state) {
                        (Some(asked), _) => asked,
                        (None, Open::Stored(file)) => asked.insert(Asked::Stored(*file)),
                        (None, Open::Edited(file)) => asked.insert(Asked::Edited(file.state())),
                        (None, Open::Missing) => {
                            return Err(at(index, self.stored.no_such_file(name)));
                        }
                    };
                    questions.push(Question {
                        operation: index,
                        asked: asked.clone(),
                    });
                    continue;
                }
            };
            asked = None;
            let file = match state {
                Open::Edited(file) => file,
                Open::Stored(file) => {
                    Layers::new(EditedFile::stored(self.stored.files()[file].bytes))
                }
                Open::Missing if offset.is_some() => {
                    return Err(at(index, self.stored.no_such_file(name)));
                }
                Open::Missing => {
                    check_name(name).map_err(|error| at(index, error))?;
                    Layers::new(EditedFile::empty())
                }
            };
            state = Open::Edited(file);
            let Open::Edited(file) = &mut state else {
                continue;
            };
            if let Some(run) = placed.get(&index) {
                let texts = run.splices.iter().map(|splice| {
                    let text = &texts[run.operations[splice.insert as usize]];
                    // Within the text, whose length is a usize.
                    let (start, length) = (splice.start as usize, splice.length as usize);
                    (splice.base, text.slice(start..start + length))
                });
                file.insert_many(texts.collect(), run.operations.len());
                rest = &rest[run.operations.len() - 1..];
                continue;
            }
            let size = file.bytes();
            let offset = offset.unwrap_or(size);
            if offset > size {
                return Err(at(
                    index,
                    Error::Invalid {
                        subject: format!("offset {offset}"),
                        reason: format!("file \"{name}\" has {size} bytes then"),
                    },
                ));
            }
            file.insert(offset, &texts[index]);
        }
        let (edited, bases) = match state {
            Open::Edited(file) => file.finish(),
            Open::Missing | Open::Stored(_) => (None, Vec::new()),
        };
        Ok(Walked {
            name: name.into(),
            questions,
            bases,
            edited,
        })
    }

    /// Answers questions about one file that follow each other.
    fn answer(
        &self,
        name: &str,
        questions: &[Question],
        operations: &[Operation<'_>],
    ) -> Result<Vec<(usize, Answer)>> {
        let mut teller = self.teller(name);
        let answer = |question: &Question| {
            check(self.run.stop)?;
            let answer = match (operations[question.operation], &question.asked) {
                (Operation::Count { word, .. }, Asked::Stored(file)) => {
                    Answer::Count(self.stored.count_in(*file, word)?)
                }
                (Operation::Count { word, .. }, Asked::Edited(file)) => {
                    Answer::Count(teller.tell(file)?.count(word)?)
                }
                (Operation::Search { word, .. }, Asked::Stored(file)) => {
                    Answer::Offsets(self.stored.search_in(*file, word, self.run.stop)?)
                }
                (Operation::Search { word, .. }, Asked::Edited(file)) => {
                    Answer::Offsets(teller.tell(file)?.search(word, self.run.stop)?)
                }
                (Operation::Extract { offset, length, .. }, Asked::Stored(file)) => {
                    Answer::Bytes(self.stored.extract(*file, offset, length)?)
                }
                (Operation::Extract { offset, length, .. }, Asked::Edited(file)) => {
                    let stored = file.is_stored().then(|| self.stored.find_file(name));
                    let pieces = file.slice(offset, length);
                    Answer::Bytes(extract_pieces(self.stored, stored.flatten(), pieces)?)
                }
                // Edits are no questions.
                (Operation::Insert { .. } | Operation::Append { .. }, _) => Answer::Edited,
            };
            Ok((question.operation, answer))
        };
        questions.iter().map(answer).collect()
    }
}

/// The edits among operations, in batches: rows of a batch are of different files, so that it does not matter that they see
/// the texts before it.
fn batches(operations: &[Operation<'_>], texts: Vec<Bytes>) -> Vec<Batch> {
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
            text,
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
