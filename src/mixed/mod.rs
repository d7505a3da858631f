//! Batches of questions and edits in any order.
//!
//! The invariant: every question is answered, and every edit made, as if the operations ran one after the other. They do not: the
//! edits of each file are placed first, all at once (`splices`), which gives the text of any version (a snapshot of offsets).
//! Then the words around them are compared, as far as questions need them (`changes`), and the files as they were before the
//! batch are asked, all questions at once. The edits before each question correct its answer, in parallel. Source: random access
//! on compressed data, TPDS 2023, section on mixed operations. Where a device takes them, it places the edits, reads the text
//! around them and answers for the stored files.
//!
//! ```
//! use zipfdb::mixed::{Answer, Operation};
//! use zipfdb::{CorpusSettings, Database};
//!
//! let db = Database::in_memory()?;
//! let pets = db.create_corpus("pets", CorpusSettings::default())?;
//! pets.append("a.txt", "the cat")?;
//! let answers = pets.mixed_many(&[
//!     Operation::Append { file: "a.txt", text: b" and the dog" },
//!     Operation::Count { file: "a.txt", word: b"the" },
//! ])?;
//! assert_eq!(answers, [Answer::Edited, Answer::Count(2)]);
//! # Ok::<(), zipfdb::Error>(())
//! ```

mod answers;
mod changes;
mod file;
mod operation;
mod splices;
mod texts;

use std::sync::Arc;

use rayon::prelude::*;

use crate::Result;
use crate::overlay::{EditBatch, EditedFile, Insertion, rows_by_file};
use answers::{AskedOperations, BatchKnowledge, Stored, tasks};
use changes::AskedWords;
use file::{File, FileBase};
pub(crate) use operation::Target;
pub use operation::{Answer, Operation};
use texts::InsertedTexts;

impl Target<'_> {
    /// Runs operations. Returns their answers, and the edits in batches with the same effect.
    ///
    /// # Errors
    /// If an operation names a missing file or an offset behind its end, a segment is damaged, or the run must end: then nothing
    /// has changed.
    pub(crate) fn run(self, operations: &[Operation<'_>]) -> Result<(Vec<Answer>, Vec<EditBatch>)> {
        let by_file = || rows_by_file(operations.iter().map(Operation::file));
        let (texts, (starts, order)) = rayon::join(|| InsertedTexts::new(operations), by_file);
        let of_files = starts.windows(2).map(|range| &order[range[0]..range[1]]);
        let of_files: Vec<&[usize]> = of_files.collect();
        let (made, batches) = rayon::join(
            || self.run_by_file(&of_files, operations, &texts),
            || batches(&of_files, operations, &texts),
        );
        let (answers, edited, used) = made?;
        let rows = used.files.iter().map(|file| file.rows).sum();
        let bytes = used.files.iter().map(|file| file.inserted_bytes).sum();
        let (answers, _) = rayon::join(
            || in_order(answers, &order),
            || {
                rayon::join(
                    || self.overlay.put(edited.into_iter(), rows, bytes),
                    || used.drop_parallel(),
                )
            },
        );
        Ok((answers, batches))
    }

    /// The answers to operations, one task after the other, the edited files, and what was used for them.
    #[expect(clippy::type_complexity, reason = "what a batch makes")]
    fn run_by_file<'a>(
        &self,
        of_files: &[&'a [usize]],
        operations: &[Operation<'a>],
        texts: &InsertedTexts,
    ) -> Result<(Vec<Vec<Answer>>, Vec<(Arc<str>, EditedFile)>, Used<'a>)> {
        let names = of_files.par_iter();
        let names = names.map(|indexes| operations[indexes[0]].file());
        let bases: Vec<FileBase> = names.map(|name| self.base(name)).collect();
        let stored: Vec<Option<usize>> = bases.iter().map(FileBase::stored).collect();
        let tasks = tasks(of_files);
        let edit = || -> Result<_> {
            let opened = of_files.par_iter().zip(bases);
            let opened = opened.map(|(indexes, base)| self.open(base, indexes, operations));
            let mut files = opened.collect::<Result<Vec<File<'_>>>>()?;
            self.place(&mut files, operations)?;
            let asked = AskedOperations {
                tasks: &tasks,
                files: &files,
                operations,
                texts,
            };
            let (known, edited) = rayon::join(
                || self.look(asked, of_files, operations),
                || (files.par_iter().filter_map(|file| file.edited(texts))).collect(),
            );
            let (known, words) = known?;
            Ok((known, words, edited, files))
        };
        let (stored, edit) = rayon::join(|| self.ask(&tasks, &stored, operations), edit);
        let (known, words, edited, files) = edit?;
        let stored = stored?;
        let asked = AskedOperations {
            tasks: &tasks,
            files: &files,
            operations,
            texts,
        };
        let answers = self.answer(asked, &words, &stored, &known)?;
        let used = Used {
            files,
            words,
            stored,
            known,
        };
        Ok((answers, edited, used))
    }
}

/// The data that the answers were computed from.
struct Used<'a> {
    files: Vec<File<'a>>,
    words: Vec<AskedWords<'a>>,
    stored: Stored,
    known: BatchKnowledge,
}

impl Used<'_> {
    /// Drops it on several threads, as it may be large.
    fn drop_parallel(self) {
        rayon::join(
            || drop((self.stored, self.known)),
            || self.files.into_par_iter().zip(self.words).for_each(drop),
        );
    }
}

/// Answers by operation, from answers that come in the order `order` of operations.
fn in_order(parts: Vec<Vec<Answer>>, order: &[usize]) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(order.len());
    if order.is_sorted() {
        for mut part in parts {
            answers.append(&mut part);
        }
        return answers;
    }
    answers.resize_with(order.len(), || Answer::Edited);
    for (&operation, answer) in order.iter().zip(parts.into_iter().flatten()) {
        answers[operation] = answer;
    }
    answers
}

/// The edits among operations, in batches: the rows of a batch are of different files, so each sees the text of its file before
/// the batch.
fn batches(
    of_files: &[&[usize]],
    operations: &[Operation<'_>],
    texts: &InsertedTexts,
) -> Vec<EditBatch> {
    let mut file_of = vec![0; operations.len()];
    for (file, indexes) in of_files.iter().enumerate() {
        indexes.iter().for_each(|&index| file_of[index] = file);
    }
    // For each file its name, once needed, and the number of its last batch.
    let mut files: Vec<(Option<Arc<str>>, Option<usize>)> = vec![(None, None); of_files.len()];
    let mut batches = Vec::new();
    let mut rows: Vec<Insertion> = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let (file, offset, text) = match *operation {
            Operation::Insert { file, offset, text } => (file, Some(offset), text),
            Operation::Append { file, text } => (file, None, text),
            _ => continue,
        };
        let (name, last) = &mut files[file_of[index]];
        if *last == Some(batches.len()) {
            batches.push(EditBatch::Insert(std::mem::take(&mut rows)));
        }
        *last = Some(batches.len());
        rows.push(Insertion {
            file: name.get_or_insert_with(|| file.into()).clone(),
            offset,
            text: texts.slice(index, 0..text.len()),
        });
    }
    if !rows.is_empty() {
        batches.push(EditBatch::Insert(rows));
    }
    batches
}
