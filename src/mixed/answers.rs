//! The answers of a batch: what the files before it say, corrected by the edits before each question.

use std::ops::Range;

use bytes::Bytes;
use rayon::prelude::*;

use super::changes::{AROUND_BYTES, Change, Changes, Teller, Words};
use super::file::{Base, File};
use super::stretches::{Moment, Part, Source};
use super::{Answer, Operation, Target};
use crate::Result;
use crate::interrupt::check;
use crate::overlay::Piece;
use crate::snapshot::{EditedText, ask_stored, extract_pieces, joined};

/// Operations on a file that one thread looks at; before them it goes through all stretches of the file.
const TASK_OPERATIONS: usize = 1024;

/// A batch whose edits are placed.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) files: &'a [File<'a>],
    /// What each of them is asked for.
    pub(super) words: &'a [Words<'a>],
    pub(super) operations: &'a [Operation<'a>],
    /// What each operation inserts.
    pub(super) texts: &'a [Bytes],
}

/// Operations on a file that follow each other.
struct Task<'a> {
    file: &'a File<'a>,
    /// The number of the file.
    number: usize,
    operations: &'a [usize],
    /// The number of the first of them, and how many edits are before it.
    first: usize,
    edits: usize,
}

/// What goes through a part of a file finds.
#[derive(Default)]
struct Looked {
    changes: Vec<Change>,
    /// What extracts are made of, by operation.
    extracts: Vec<(usize, Vec<Piece>)>,
}

/// What the batch says of its files.
struct Known {
    /// The texts of files that were edited before the batch, where somebody asks for words.
    edited: Vec<Option<EditedText>>,
    changes: Vec<Changes>,
    /// By operation.
    extracted: Vec<(usize, Vec<u8>)>,
}

/// Stretches of a file as it was before the batch.
struct Around(Vec<(u64, Vec<u8>)>);

impl Around {
    /// Some bytes, if they are there.
    fn get(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let behind = self.0.partition_point(|&(start, _)| start <= offset);
        let (start, text) = self.0.get(behind.checked_sub(1)?)?;
        // Within a text in memory, or not within this one.
        let from = (offset - start) as usize;
        text.get(from..from.checked_add(length as usize)?)
    }
}

impl Target<'_> {
    /// Answers all questions; an edit has [`Answer::Edited`].
    ///
    /// # Errors
    /// If a segment is damaged, a device fails, or the run is over.
    pub(super) fn answer(&self, asked: Asked<'_>) -> Result<Vec<Answer>> {
        let operations = asked.operations;
        let tasks: Vec<Task<'_>> = (asked.files.iter().enumerate())
            .flat_map(|(number, file)| tasks(number, file))
            .collect();
        let run = self.run;
        let stored = || -> Result<_> {
            let (mut counts, mut searches, mut ends) = (Vec::new(), Vec::new(), Vec::new());
            for task in &tasks {
                for &operation in task.operations {
                    match (operations[operation], task.file.base.stored()) {
                        (Operation::Count { word, .. }, Some(file)) => counts.push((file, word)),
                        (Operation::Search { word, .. }, Some(file)) => searches.push((file, word)),
                        _ => {}
                    }
                }
                ends.push((counts.len(), searches.len()));
            }
            let counts = self.stored.count_each(&counts, run)?;
            let searches = self.stored.search_each(&searches, run)?;
            Ok((counts, searches, ends))
        };
        let (stored, known) = rayon::join(stored, || self.look(&tasks, asked));
        let ((counts, searches, ends), known) = (stored?, known?);

        // Each task has its part of what the stored files say.
        let (mut counts, mut searches) = (&counts[..], searches.into_iter());
        let (mut counts_before, mut searches_before) = (0, 0);
        let parts = tasks.iter().zip(ends);
        let parts = parts.map(|(task, (counts_end, searches_end))| {
            let (of_task, rest) = counts.split_at(counts_end - counts_before);
            let found = searches.by_ref().take(searches_end - searches_before);
            counts = rest;
            (counts_before, searches_before) = (counts_end, searches_end);
            (task, of_task, found.collect::<Vec<_>>())
        });
        let found: Vec<Vec<(usize, Answer)>> = (parts.collect::<Vec<_>>().into_par_iter())
            .map(|(task, counts, searches)| {
                check(run.stop)?;
                Ok(task.answers(asked, &known, counts, searches))
            })
            .collect::<Result<_>>()?;
        let mut answers = vec![Answer::Edited; operations.len()];
        for (operation, answer) in found.into_iter().flatten() {
            answers[operation] = answer;
        }
        for (operation, bytes) in known.extracted {
            answers[operation] = Answer::Bytes(bytes);
        }
        Ok(answers)
    }

    /// Tells the words around edits, and extracts.
    fn look(&self, tasks: &[Task<'_>], asked: Asked<'_>) -> Result<Known> {
        let files = asked.files;
        let around = self.around(files)?;
        let looked: Vec<Looked> = (tasks.par_iter())
            .map(|task| {
                check(self.run.stop)?;
                self.look_at(task, &around[task.number], asked)
            })
            .collect::<Result<_>>()?;
        drop(around);
        let mut changes: Vec<Vec<Change>> = files.iter().map(|_| Vec::new()).collect();
        let (mut extracts, mut stored) = (Vec::new(), Vec::new());
        for (task, mut looked) in tasks.iter().zip(looked) {
            changes[task.number].append(&mut looked.changes);
            for (operation, pieces) in looked.extracts {
                ask_stored(&pieces, task.file.base.stored(), &mut stored);
                extracts.push((operation, pieces));
            }
        }
        let is_asked = |file: &File<'_>| matches!(file.base, Base::Edited(..)) && file.told > 0;
        if files.iter().any(is_asked) {
            self.stored.prepare_edits()?;
        }
        let edited = files.par_iter().map(|file| match &file.base {
            Base::Edited(edited, _) if is_asked(file) => {
                let (view, edited) = (self.stored.clone(), edited.clone());
                EditedText::new(view, file.name, edited, self.tokenizer).map(Some)
            }
            _ => Ok(None),
        });
        let edited = edited.collect::<Result<_>>()?;
        let (changes, stored) = rayon::join(
            || changes.into_par_iter().map(Changes::new).collect(),
            || self.stored.extract_each(&stored, self.run),
        );
        let mut stored = stored?.into_iter();
        let extracted = extracts
            .into_iter()
            .map(|(operation, pieces)| (operation, joined(&pieces, &mut stored)));
        Ok(Known {
            edited,
            changes,
            extracted: extracted.collect(),
        })
    }

    /// Reads what stands around the edits of each file whose words somebody asks for later.
    fn around(&self, files: &[File<'_>]) -> Result<Vec<Around>> {
        let ranges: Vec<Vec<(u64, Vec<Piece>)>> = (files.par_iter())
            .map(|file| {
                let mut ranges: Vec<(u64, u64)> = Vec::new();
                for base in file.stretches.bases(file.told_edits) {
                    let start = base.saturating_sub(AROUND_BYTES);
                    let end = file.base.bytes().min(base + AROUND_BYTES);
                    match ranges.last_mut() {
                        Some((_, last)) if start <= *last => *last = end,
                        _ if start < end => ranges.push((start, end)),
                        _ => {}
                    }
                }
                let ranges = ranges.into_iter();
                let pieces = ranges.map(|(start, end)| (start, file.base.pieces(start..end)));
                pieces.collect()
            })
            .collect();
        let mut asked = Vec::new();
        for (file, ranges) in files.iter().zip(&ranges) {
            for (_, pieces) in ranges {
                ask_stored(pieces, file.base.stored(), &mut asked);
            }
        }
        let mut found = self.stored.extract_each(&asked, self.run)?.into_iter();
        let around = ranges.into_iter().map(|ranges| {
            let ranges = ranges.into_iter();
            let texts = ranges.map(|(start, pieces)| (start, joined(&pieces, &mut found)));
            Around(texts.collect())
        });
        Ok(around.collect())
    }

    /// Goes through operations.
    fn look_at(&self, task: &Task<'_>, around: &Around, asked: Asked<'_>) -> Result<Looked> {
        let (file, texts) = (task.file, asked.texts);
        let mut looked = Looked::default();
        let mut moment = file.stretches.moment(task.edits);
        let read = |part: &Part, text: &mut Vec<u8>| {
            match &part.source {
                Source::Edit(edit, range) => {
                    text.extend_from_slice(&texts[file.edits[*edit]][range.clone()]);
                }
                Source::Base(range) => match around.get(range.start, part.length) {
                    Some(known) => text.extend_from_slice(known),
                    None => {
                        let pieces = file.base.pieces(range.clone());
                        text.extend(extract_pieces(self.stored, file.base.stored(), pieces)?);
                    }
                },
            }
            Ok(())
        };
        let mut teller = Teller {
            tokenizer: self.tokenizer,
            words: &asked.words[task.number],
            read,
            fresh: Vec::new(),
            told: task.edits,
            changes: Vec::new(),
        };
        for (number, &operation) in (task.first..).zip(task.operations) {
            match asked.operations[operation] {
                Operation::Insert { text: [], .. } | Operation::Append { text: [], .. } => {}
                Operation::Insert { .. } | Operation::Append { .. } => {
                    if number < file.told {
                        let fresh = file.stretches.of_edit(moment.edits());
                        teller.fresh.extend_from_slice(fresh);
                    }
                    moment.advance();
                }
                Operation::Extract { offset, length, .. } => {
                    let range = offset..offset.saturating_add(length);
                    let pieces = pieces(file, &moment, range, texts);
                    looked.extracts.push((operation, pieces));
                }
                Operation::Count { .. } | Operation::Search { .. } => {
                    check(self.run.stop)?;
                    teller.tell(&moment)?;
                }
            }
        }
        teller.tell(&moment)?;
        looked.changes = teller.changes;
        Ok(looked)
    }
}

/// Operations on a file in parts.
fn tasks<'a>(number: usize, file: &'a File<'a>) -> impl Iterator<Item = Task<'a>> {
    let parts = file.operations.chunks(TASK_OPERATIONS);
    (0..)
        .step_by(TASK_OPERATIONS)
        .zip(parts)
        .map(move |(first, operations)| Task {
            file,
            number,
            operations,
            first,
            edits: file.edits.partition_point(|&edit| edit < operations[0]),
        })
}

/// What some bytes of a file are at a moment.
fn pieces(file: &File<'_>, moment: &Moment<'_>, range: Range<u64>, texts: &[Bytes]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for part in moment.parts(range) {
        match part.source {
            Source::Base(range) => pieces.extend(file.base.pieces(range)),
            Source::Edit(edit, range) => {
                pieces.push(Piece::Inserted(texts[file.edits[edit]].slice(range)));
            }
        }
    }
    pieces
}

impl Task<'_> {
    /// Answers questions about words; those that a stored file has a part in have its answers here, in order.
    fn answers(
        &self,
        asked: Asked<'_>,
        known: &Known,
        counts: &[u64],
        searches: Vec<Vec<u64>>,
    ) -> Vec<(usize, Answer)> {
        let (file, words) = (self.file, &asked.words[self.number]);
        let (edited, changes) = (&known.edited[self.number], &known.changes[self.number]);
        let (mut counts, mut searches) = (counts.iter(), searches.into_iter());
        // Counts need no offsets.
        let mut moment = None;
        let mut edits = self.edits;
        let mut answers = Vec::new();
        for &operation in self.operations {
            let answer = match asked.operations[operation] {
                Operation::Insert { text, .. } | Operation::Append { text, .. } => {
                    edits += usize::from(!text.is_empty());
                    continue;
                }
                Operation::Extract { .. } => continue,
                Operation::Count { word, .. } => {
                    let stored = counts.next().copied().unwrap_or(0);
                    let before = edited.as_ref().map_or(0, |text| text.change_of(word));
                    let more = changes.more(words[word], edits);
                    Answer::Count(stored.saturating_add_signed(before + more))
                }
                Operation::Search { word, .. } => {
                    let mut offsets = searches.next().unwrap_or_default();
                    if let Some(text) = edited {
                        offsets = text.moved_offsets(word, offsets);
                    }
                    if edits > 0 {
                        let moment = moment.get_or_insert_with(|| file.stretches.moment(edits));
                        while moment.edits() < edits {
                            moment.advance();
                        }
                        offsets = changes.moved(words[word], offsets, &file.stretches, moment);
                    }
                    Answer::Offsets(offsets)
                }
            };
            answers.push((operation, answer));
        }
        answers
    }
}
