//! Batches of operations where devices do the work: edits are placed and stored texts asked all at once.
//!
//! The invariant: what is placed and answered here is what [`Target::walk`] and [`Target::answer`] make, one by one. What edits
//! make of answers about stored texts is for the host to say.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{DeviceInserts, GpuError};
use zipfdb_kernels::{APPEND, Insert, InsertOrder, Splice, Splices};

use super::{Answer, Asked, Operation, Question, State, Target};
use crate::interrupt::check;
use crate::overlay::Piece;
use crate::snapshot::{EditedText, ask_stored, joined};
use crate::{Error, Result};

/// Edits of a file that follow each other, placed all at once.
pub(super) struct PlacedRun {
    /// By number within the run; places are those before it.
    pub(super) splices: Vec<Splice>,
    pub(super) operations: Vec<usize>,
}

/// By the first operation of each.
pub(super) type Placed = HashMap<usize, PlacedRun>;

/// A question, as far as it is about one file.
struct Prepared {
    operation: usize,
    /// The stored file that answers it or is part of the answer.
    stored: Option<usize>,
    text: Text,
}

/// What edits make of an answer about the stored text.
enum Text {
    /// Nothing.
    Stored,
    /// Of a count: how much more often the word occurs.
    Change(i64),
    /// Of a search.
    Edited(Arc<EditedText>),
    /// Of an extract.
    Pieces(Vec<Piece>),
}

impl Target<'_> {
    /// Has a device place the edits of each file that follow each other without a question between; nothing if the CPU is to,
    /// or if an edit is refused, which the CPU finds again.
    pub(super) fn place(
        &self,
        files: &[(&str, Vec<usize>)],
        operations: &[Operation<'_>],
    ) -> Result<Placed> {
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
        let all = 0..runs.len();
        let mut rest = vec![all];
        let mut found = Placed::new();
        while let Some(part) = rest.pop() {
            let (inserts, sizes) = (
                inserts(&runs[part.clone()], operations),
                &sizes[part.clone()],
            );
            let splices = device.until(self.run.stop).with_gpu(|gpu| {
                let uploaded = DeviceInserts::upload(gpu, sizes, &inserts)?;
                let placed = uploaded.place(gpu, InsertOrder::Sequence)?;
                Ok(placed.download(gpu)?.ok())
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
    pub(super) fn answers_together(&self, count: usize) -> bool {
        let devices = self.stored.devices();
        devices.may_take_lookups(count as u64) && self.stored.takes_lookups(count as u64)
    }

    /// Answers all questions: what they ask of the stored texts at once.
    pub(super) fn answer_all(
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
        let run = self.run;
        let mut counts = self.stored.count_each(&counts, run)?.into_iter();
        let mut searches = self.stored.search_each(&searches, run)?.into_iter();
        let mut extracts = self.stored.extract_each(&extracts, run)?.into_iter();
        let answer = |prepared: Prepared| {
            let (operation, is_stored) = (prepared.operation, prepared.stored.is_some());
            let answer = match (operations[operation], prepared.text) {
                (Operation::Count { .. }, text) => {
                    let stored = is_stored.then(|| counts.next()).flatten().unwrap_or(0);
                    Answer::Count(match text {
                        Text::Change(change) => stored.saturating_add_signed(change),
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
        let mut teller = self.teller(name);
        let mut prepare = |question: &Question| {
            check(self.run.stop)?;
            let operation = question.operation;
            let (stored, text) = match (operations[operation], &question.asked) {
                (Operation::Extract { offset, length, .. }, Asked::Stored(file)) => {
                    let end = offset.saturating_add(length);
                    let end = end.min(self.stored.files()[*file].bytes);
                    let piece = (offset < end).then(|| Piece::Stored(offset..end));
                    (Some(*file), Text::Pieces(piece.into_iter().collect()))
                }
                (Operation::Extract { offset, length, .. }, Asked::Edited(file)) => {
                    let stored = self.stored.find_file(name).filter(|_| file.is_stored());
                    (stored, Text::Pieces(file.slice(offset, length)))
                }
                (_, Asked::Stored(file)) => (Some(*file), Text::Stored),
                (Operation::Count { word, .. }, Asked::Edited(file)) => {
                    let text = teller.tell(file)?;
                    (text.stored_file(), Text::Change(text.change_of(word)))
                }
                (_, Asked::Edited(file)) => {
                    let text = teller.tell(file)?;
                    (text.stored_file(), Text::Edited(text))
                }
            };
            Ok(Prepared {
                operation,
                stored,
                text,
            })
        };
        questions.iter().map(&mut prepare).collect()
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
