//! Batches of questions and edits in any order.
//!
//! The invariant: every question is answered, and every edit made, as if the operations ran one after the other. They do not:
//! files know nothing of each other, and an edit of a file only leaves the pieces of its text as they were before and after
//! (a snapshot of offsets, cheap to keep), on which all questions are then answered in parallel. Source: random access on
//! compressed data, TPDS 2023, section on mixed operations. Where a device takes them, edits are placed there, those of all
//! files at once, and so is what questions ask of stored texts; edits correct it as they correct any answer.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;
use zipfdb_kernels::gpu::{DeviceInserts, GpuError};
use zipfdb_kernels::{APPEND, Insert, InsertOrder, Splice, Splices};
use zipfdb_storage::Tokenizer;

use crate::device::Run;
use crate::edits::{Names, shared_texts};
use crate::overlay::{
    Batch, EditedFile, FileState, Insertion, Overlay, Piece, Regions, check_name,
};
use crate::snapshot::{EditedText, StoredView, ask_stored, extract, joined};
use crate::{Error, Result};

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
}

/// What a file is at some point of the batch.
#[derive(Clone)]
enum State {
    Missing,
    /// As stored.
    Stored(usize),
    Edited(Arc<EditedFile>),
}

/// A question and the state that it is to be answered on.
struct Question {
    operation: usize,
    state: State,
}

/// What became of one file.
struct Walked {
    name: Arc<str>,
    questions: Vec<Question>,
    /// Its last state, if it was edited.
    edited: Option<EditedFile>,
}

/// Edits of a file that follow each other, placed all at once.
struct PlacedRun {
    /// By number within the run; places are those before it.
    splices: Vec<Splice>,
    operations: Vec<usize>,
}

/// By the first operation of each.
type Placed = HashMap<usize, PlacedRun>;

/// A question, as far as it is about one file.
struct Prepared {
    operation: usize,
    /// The stored file that answers it or is part of the answer.
    stored: Option<usize>,
    text: Text,
}

/// What a question is asked of.
enum Text {
    Stored,
    Edited(EditedText),
    /// Of an extract.
    Pieces(Vec<Piece>),
}

/// Questions of one file that are answered one after the other, so that each takes over what was told for the one before.
const TASK_QUESTIONS: usize = 32;

impl Target<'_> {
    /// Runs operations: their answers, and the edits in batches that make the same of the texts.
    ///
    /// # Errors
    /// If an operation names a file that is not there, or a place behind its end, or a segment is damaged: then nothing has
    /// happened.
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

    /// Has a device place the edits of each file that follow each other without a question between; nothing if the CPU is to,
    /// or if an edit is refused, which the CPU finds again.
    fn place(&self, files: &[(&str, Vec<usize>)], operations: &[Operation<'_>]) -> Result<Placed> {
        let devices = self.stored.devices();
        let is_edit = |&&index: &&usize| operations[index].is_edit();
        let count = files
            .iter()
            .flat_map(|(_, indexes)| indexes)
            .filter(is_edit);
        let threads = rayon::current_num_threads();
        let Some(device) = devices.for_inserts(count.count(), threads) else {
            return Ok(Placed::new());
        };
        let (mut sizes, mut runs) = (Vec::new(), Vec::new());
        for (name, indexes) in files {
            let mut size = match self.state(name) {
                State::Missing => 0,
                State::Stored(file) => self.stored.files()[file].bytes,
                State::Edited(file) => file.pieces.bytes(),
            };
            let is_same = |&left: &usize, &right: &usize| {
                operations[left].is_edit() == operations[right].is_edit()
            };
            for run in indexes.chunk_by(is_same) {
                let added = run
                    .iter()
                    .map(|&index| operations[index].text().len() as u64);
                let added = added.sum::<u64>();
                // An empty text may stand behind the end too: that is refused.
                let is_plain = run
                    .iter()
                    .all(|&index| !operations[index].text().is_empty());
                if run.len() > 1 && is_plain {
                    sizes.push(size);
                    runs.push(run);
                }
                size += added;
            }
        }
        let mut rest = vec![0..runs.len()];
        let mut found = Placed::new();
        while let Some(part) = rest.pop() {
            let (inserts, sizes) = (
                inserts(&runs[part.clone()], operations),
                &sizes[part.clone()],
            );
            let splices = device.with_gpu(|gpu| {
                let uploaded = DeviceInserts::upload(gpu, sizes, &inserts)?;
                match uploaded.place(gpu, InsertOrder::Sequence)? {
                    Ok(splices) => Ok(Some(splices.download(gpu)?)),
                    Err(_) => Ok(None),
                }
            });
            let splices = match splices {
                Err(Error::Gpu(GpuError::Memory { .. })) if part.len() > 1 => {
                    let middle = part.start + part.len() / 2;
                    rest.extend([middle..part.end, part.start..middle]);
                    continue;
                }
                Err(error @ Error::Gpu(_)) if devices.falls_back() => {
                    device.count_failure(&error);
                    None
                }
                splices => splices?,
            };
            let Some(Splices { offsets, splices }) = splices else {
                return Ok(Placed::new());
            };
            let mut before = 0;
            for (range, operations) in offsets.windows(2).zip(&runs[part]) {
                let splices = splices[range[0] as usize..range[1] as usize].iter();
                let run = PlacedRun {
                    splices: splices
                        .map(|splice| Splice {
                            insert: splice.insert - before,
                            ..*splice
                        })
                        .collect(),
                    operations: operations.to_vec(),
                };
                // Fewer than 2^31, as all inserts are.
                before += operations.len() as u32;
                found.insert(operations[0], run);
            }
        }
        Ok(found)
    }

    /// Whether a device answers so many questions at once.
    fn answers_together(&self, count: usize) -> bool {
        let devices = self.stored.devices();
        devices.may_take_lookups(count as u64) && self.stored.takes_lookups(count as u64)
    }

    /// Answers all questions: what they ask of the stored texts at once.
    fn answer_all(
        &self,
        tasks: &[(&str, &[Question])],
        operations: &[Operation<'_>],
    ) -> Result<Vec<(usize, Answer)>> {
        let prepared: Vec<Vec<Prepared>> = (tasks.par_iter())
            .map(|(name, questions)| self.prepare(name, questions, operations))
            .collect::<Result<_>>()?;
        let prepared: Vec<Prepared> = prepared.into_iter().flatten().collect();
        let (mut counts, mut searches, mut extracts) = (Vec::new(), Vec::new(), Vec::new());
        for Prepared {
            operation,
            stored,
            text,
        } in &prepared
        {
            match (operations[*operation], text, stored) {
                (Operation::Count { word, .. }, _, Some(file)) => counts.push((*file, word)),
                (Operation::Search { word, .. }, _, Some(file)) => searches.push((*file, word)),
                (_, Text::Pieces(pieces), _) => ask_stored(pieces, *stored, &mut extracts),
                _ => {}
            }
        }
        let run = Run::to_the_end();
        let mut counts = self.stored.count_each(&counts, run)?.into_iter();
        let mut searches = self.stored.search_each(&searches, run)?.into_iter();
        let mut extracts = self.stored.extract_each(&extracts, run)?.into_iter();
        let answer = |prepared: Prepared| {
            let (operation, is_stored) = (prepared.operation, prepared.stored.is_some());
            let answer = match (operations[operation], prepared.text) {
                (Operation::Count { word, .. }, text) => {
                    let stored = is_stored.then(|| counts.next()).flatten().unwrap_or(0);
                    Answer::Count(match text {
                        Text::Edited(text) => stored.saturating_add_signed(text.change_of(word)),
                        _ => stored,
                    })
                }
                (Operation::Search { word, .. }, text) => {
                    let stored = is_stored
                        .then(|| searches.next())
                        .flatten()
                        .unwrap_or_default();
                    Answer::Offsets(match text {
                        Text::Edited(text) => text.moved_offsets(word, stored),
                        _ => stored,
                    })
                }
                (_, Text::Pieces(pieces)) => Answer::Bytes(joined(&pieces, &mut extracts)),
                _ => Answer::Edited,
            };
            (operation, answer)
        };
        Ok(prepared.into_iter().map(answer).collect())
    }

    /// Finds what questions about one file, that follow each other, ask of its stored text.
    fn prepare(
        &self,
        name: &str,
        questions: &[Question],
        operations: &[Operation<'_>],
    ) -> Result<Vec<Prepared>> {
        let mut earlier: Option<Arc<Regions>> = None;
        let mut prepare = |question: &Question| {
            let operation = question.operation;
            let (stored, text) = match (operations[operation], &question.state) {
                (Operation::Extract { offset, length, .. }, State::Stored(file)) => {
                    let end = offset.saturating_add(length);
                    let end = end.min(self.stored.files()[*file].bytes);
                    let piece = (offset < end).then(|| Piece::Stored(offset..end));
                    (Some(*file), Text::Pieces(piece.into_iter().collect()))
                }
                (Operation::Extract { offset, length, .. }, State::Edited(file)) => {
                    let stored = self.stored.find_file(name).filter(|_| file.is_stored);
                    (stored, Text::Pieces(file.slice(offset, length)))
                }
                (_, State::Stored(file)) => (Some(*file), Text::Stored),
                (_, State::Edited(file)) => {
                    let (view, file) = (self.stored.clone(), file.clone());
                    let text = EditedText::new(view, name, file, self.tokenizer, earlier.as_ref())?;
                    earlier = Some(text.regions().clone());
                    (text.stored_file(), Text::Edited(text))
                }
                // Questions about files that are missing were refused.
                (_, State::Missing) => (None, Text::Stored),
            };
            Ok(Prepared {
                operation,
                stored,
                text,
            })
        };
        questions.iter().map(&mut prepare).collect()
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
        let mut state = self.state(name);
        let mut questions = Vec::new();
        // Edits that no question has been asked about yet.
        let mut open: Option<EditedFile> = None;
        let mut rest = indexes;
        while let Some((&index, after)) = rest.split_first() {
            rest = after;
            let offset = match operations[index] {
                Operation::Insert { offset, .. } => Some(offset),
                Operation::Append { .. } => None,
                _ => {
                    if let Some(file) = open.take() {
                        state = State::Edited(Arc::new(file));
                    }
                    if let State::Missing = state {
                        return Err(at(index, self.stored.no_such_file(name)));
                    }
                    questions.push(Question {
                        operation: index,
                        state: state.clone(),
                    });
                    continue;
                }
            };
            let file = match &mut open {
                Some(file) => file,
                None => open.insert(match &state {
                    State::Missing if offset.is_some() => {
                        return Err(at(index, self.stored.no_such_file(name)));
                    }
                    State::Missing => {
                        check_name(name).map_err(|error| at(index, error))?;
                        EditedFile::empty()
                    }
                    State::Stored(file) => EditedFile::stored(self.stored.files()[*file].bytes),
                    State::Edited(file) => EditedFile::clone(file),
                }),
            };
            if let Some(run) = placed.get(&index) {
                let texts = run.splices.iter().map(|splice| {
                    let text = &texts[run.operations[splice.insert as usize]];
                    // Within the text, whose length is a usize.
                    let (start, length) = (splice.start as usize, splice.length as usize);
                    (splice.base, text.slice(start..start + length))
                });
                file.pieces.insert_many(texts.collect());
                rest = &rest[run.operations.len() - 1..];
                continue;
            }
            let size = file.pieces.bytes();
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
            file.pieces.insert(offset, texts[index].clone());
        }
        let edited = open.or_else(|| match (&state, self.overlay.file(name)) {
            (State::Edited(file), Some(FileState::Edited(before))) if Arc::ptr_eq(file, before) => {
                None
            }
            (State::Edited(file), _) => Some(EditedFile::clone(file)),
            _ => None,
        });
        Ok(Walked {
            name: name.into(),
            questions,
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
        let mut earlier: Option<Arc<Regions>> = None;
        let mut text_of = |file: &Arc<EditedFile>| -> Result<EditedText> {
            let view = self.stored.clone();
            let text = EditedText::new(view, name, file.clone(), self.tokenizer, earlier.as_ref())?;
            earlier = Some(text.regions().clone());
            Ok(text)
        };
        let answer = |question: &Question| {
            let answer = match (operations[question.operation], &question.state) {
                (Operation::Count { word, .. }, State::Stored(file)) => {
                    Answer::Count(self.stored.count_in(*file, word)?)
                }
                (Operation::Count { word, .. }, State::Edited(file)) => {
                    Answer::Count(text_of(file)?.count(word)?)
                }
                (Operation::Search { word, .. }, State::Stored(file)) => {
                    Answer::Offsets(self.stored.search_in(*file, word)?)
                }
                (Operation::Search { word, .. }, State::Edited(file)) => {
                    Answer::Offsets(text_of(file)?.search(word)?)
                }
                (Operation::Extract { offset, length, .. }, State::Stored(file)) => {
                    Answer::Bytes(self.stored.extract(*file, offset, length)?)
                }
                (Operation::Extract { offset, length, .. }, State::Edited(file)) => {
                    let stored = file
                        .is_stored
                        .then(|| self.stored.find_file(name))
                        .flatten();
                    Answer::Bytes(extract(self.stored, stored, file, offset, length)?)
                }
                // Questions about files that are missing were refused, and edits are no questions.
                (_, State::Missing) | (Operation::Insert { .. } | Operation::Append { .. }, _) => {
                    Answer::Edited
                }
            };
            Ok((question.operation, answer))
        };
        questions.iter().map(answer).collect()
    }
}

/// The inserts of runs of edits, each a file of its own.
fn inserts(runs: &[&[usize]], operations: &[Operation<'_>]) -> Vec<Insert> {
    let of_run = |(file, run): (u32, &&[usize])| {
        let inserts = run.iter().map(move |&index| Insert {
            file,
            offset: match operations[index] {
                Operation::Insert { offset, .. } => offset,
                _ => APPEND,
            },
            length: operations[index].text().len() as u64,
        });
        inserts.collect::<Vec<_>>()
    };
    (0..).zip(runs).flat_map(of_run).collect()
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
