//! The answers of a batch: those of the files before it, corrected by the edits before each question.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{ExtractedBytes, SearchResults};

use super::changes::{AROUND_BYTES, AskedWords, Change, ChangeCollector, Changes};
use super::file::{File, FileBase};
use super::operation::{Answer, Operation, Target};
use super::splices::{ByteSource, StretchPart, Version};
use super::texts::InsertedTexts;
use crate::Result;
use crate::answer::{EditedText, Found, extract_pieces};
use crate::overlay::EditedFile;
use crate::overlay::changed_count::{changed, word_subject};
use crate::runtime::interrupt::check;

/// Operations on a file that one task answers; a task first passes all stretches of the file.
const TASK_OPERATIONS: usize = 640;

/// A batch whose edits are placed.
#[derive(Clone, Copy)]
pub(super) struct AskedOperations<'a> {
    pub(super) tasks: &'a [FileTask<'a>],
    pub(super) files: &'a [File<'a>],
    pub(super) operations: &'a [Operation<'a>],
    /// The text that each operation inserts.
    pub(super) texts: &'a InsertedTexts,
}

/// Consecutive operations on a file.
pub(super) struct FileTask<'a> {
    /// The number of the file.
    file: usize,
    operations: &'a [usize],
    /// The number of the first of them among the operations on the file.
    first: usize,
}

/// The answers of stored files. Each task has its questions behind those of the tasks before it.
pub(super) struct Stored {
    counts: Vec<u64>,
    places: Found<SearchResults>,
    /// For each task the number of counts and of searches before it.
    firsts: Vec<(usize, usize)>,
}

/// The data that the answers of a batch are computed from.
pub(super) struct BatchKnowledge {
    /// The texts of files that were edited before the batch, where the batch asks for words.
    edited: Vec<Option<EditedText>>,
    changes: Vec<Changes>,
    /// Stored bytes of extracts, and for each task its first extract.
    extracts: Found<ExtractedBytes>,
    firsts: Vec<usize>,
}

/// The ranges around the edits of a file as it was before the batch: from, to, and the first question for the stored bytes.
type Ranges = Vec<(u64, u64, usize)>;

/// The bytes that were read from stored files.
struct Read {
    /// As in [`BatchKnowledge`].
    extracts: Found<ExtractedBytes>,
    firsts: Vec<usize>,
    /// For each file the ranges around its edits, and the first question for them.
    around: Vec<(Ranges, usize)>,
}

/// The text around the edits of a file: texts by where they begin.
struct Around<'a>(Vec<(u64, Cow<'a, [u8]>)>);

impl Around<'_> {
    /// A range of bytes; none if it is not within one of the texts.
    fn get(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let behind = self.0.partition_point(|&(start, _)| start <= offset);
        let (start, text) = self.0.get(behind.checked_sub(1)?)?;
        // Within a text in memory, or not within this one.
        let from = (offset - start) as usize;
        text.get(from..from.checked_add(length as usize)?)
    }
}

/// A question about a word in a stored file.
type WordQuestion<'a> = (usize, &'a [u8]);

/// The operations on files, cut into tasks.
pub(super) fn tasks<'a>(of_files: &[&'a [usize]]) -> Vec<FileTask<'a>> {
    let of_file = |(file, operations): (usize, &&'a [usize])| {
        let firsts = (0..).step_by(TASK_OPERATIONS);
        let parts = firsts.zip(operations.chunks(TASK_OPERATIONS));
        parts.map(move |(first, operations)| FileTask {
            file,
            operations,
            first,
        })
    };
    of_files.iter().enumerate().flat_map(of_file).collect()
}

impl Target<'_> {
    /// Asks stored files about words; `stored` is the stored file of each file, if there is one.
    ///
    /// # Errors
    /// If a segment is damaged, a device fails, or the run must end.
    pub(super) fn ask(
        &self,
        tasks: &[FileTask<'_>],
        stored: &[Option<usize>],
        operations: &[Operation<'_>],
    ) -> Result<Stored> {
        let of_task = |task: &FileTask<'_>| {
            let (mut counts, mut searches) = (Vec::new(), Vec::new());
            if let Some(file) = stored[task.file] {
                for &operation in task.operations {
                    match operations[operation] {
                        Operation::Count { word, .. } => counts.push((file, word)),
                        Operation::Search { word, .. } => searches.push((file, word)),
                        _ => {}
                    }
                }
            }
            (counts, searches)
        };
        let of_tasks = tasks.par_iter().map(of_task);
        let (counts, searches): (Vec<Vec<WordQuestion<'_>>>, Vec<Vec<WordQuestion<'_>>>) =
            of_tasks.unzip();
        let mut firsts = vec![(0, 0)];
        for (counts, searches) in counts.iter().zip(&searches) {
            let (before, searches_before) = firsts[firsts.len() - 1];
            firsts.push((before + counts.len(), searches_before + searches.len()));
        }
        let (counts, searches) = (counts.concat(), searches.concat());
        let (for_counts, for_searches) = rayon::join(
            || self.stored.look_up(&counts),
            || self.stored.look_up(&searches),
        );
        Ok(Stored {
            counts: self
                .stored
                .count_lookups(&for_counts?, counts.len(), self.run)?,
            places: (self.stored).search_lookups(&for_searches?, searches.len(), self.run)?,
            firsts,
        })
    }

    /// Reads the text around edits and extracted ranges; computes which occurrences edits add and remove.
    ///
    /// # Errors
    /// Those of [`Target::ask`].
    pub(super) fn look<'a>(
        &self,
        asked: AskedOperations<'_>,
        of_files: &[&[usize]],
        operations: &[Operation<'a>],
    ) -> Result<(BatchKnowledge, Vec<AskedWords<'a>>)> {
        let files = asked.files;
        let words = || -> Vec<AskedWords<'a>> {
            let of_files = of_files.par_iter();
            let words = of_files.map(|indexes| AskedWords::new(indexes, operations));
            words.collect()
        };
        let (read, words) = rayon::join(|| self.read(asked), words);
        let Read {
            extracts,
            firsts,
            around,
        } = read?;
        let of_files = files.par_iter().zip(around);
        let around = of_files.map(|(file, (ranges, first))| {
            let text = |(start, end, question)| {
                (
                    start,
                    read_base(file, start..end, &extracts, first + question),
                )
            };
            let ranges = ranges.into_par_iter().with_min_len(TASK_OPERATIONS);
            Around(ranges.map(text).collect())
        });
        let around: Vec<Around<'_>> = around.collect();
        let changes: Vec<Vec<Change>> = (asked.tasks.par_iter())
            .map(|task| {
                check(self.run.stop)?;
                self.compare(task, &around[task.file], &words[task.file], asked)
            })
            .collect::<Result<_>>()?;
        drop(around);
        let mut of_files: Vec<Vec<Vec<Change>>> = files.iter().map(|_| Vec::new()).collect();
        for (task, changes) in asked.tasks.iter().zip(changes) {
            of_files[task.file].push(changes);
        }
        let is_asked =
            |file: &File<'_>| matches!(file.base, FileBase::Edited(..)) && file.question_end > 0;
        let asked = files.iter().filter_map(|file| match &file.base {
            FileBase::Edited(edited, _) if is_asked(file) => Some((file.name, edited)),
            _ => None,
        });
        let asked: Vec<(&str, &Arc<EditedFile>)> = asked.collect();
        let texts = EditedText::of_files(self.stored, &asked, self.tokenizer, self.run.stop)?;
        let mut texts = texts.into_iter();
        let edited = files
            .iter()
            .map(|file| is_asked(file).then(|| texts.next()));
        let edited: Vec<Option<EditedText>> = edited.map(Option::flatten).collect();
        let changes = of_files.into_par_iter();
        let changes = changes
            .map(|changes| Changes::new(changes.concat()))
            .collect();
        let known = BatchKnowledge {
            edited,
            changes,
            extracts,
            firsts,
        };
        Ok((known, words))
    }

    /// Reads the stored bytes around edits and of extracts, all at once.
    fn read(&self, asked: AskedOperations<'_>) -> Result<Read> {
        let (around, extracts) = rayon::join(
            || -> Vec<(Ranges, Vec<_>)> { asked.files.par_iter().map(around).collect() },
            || -> Vec<Vec<_>> {
                let tasks = asked.tasks.par_iter();
                tasks.map(|task| task.extracts(asked)).collect()
            },
        );
        let count = around.iter().map(|(_, more)| more.len()).sum::<usize>();
        let count = count + extracts.iter().map(Vec::len).sum::<usize>();
        let mut questions = Vec::with_capacity(count);
        let around = around.into_iter().map(|(ranges, mut more)| {
            let first = questions.len();
            questions.append(&mut more);
            (ranges, first)
        });
        let around = around.collect();
        let mut firsts = Vec::with_capacity(extracts.len());
        for mut more in extracts {
            firsts.push(questions.len());
            questions.append(&mut more);
        }
        Ok(Read {
            extracts: self.stored.extracts(&questions, self.run)?,
            firsts,
            around,
        })
    }

    /// Computes which occurrences the edits among some operations add and remove.
    fn compare(
        &self,
        task: &FileTask<'_>,
        around: &Around<'_>,
        words: &AskedWords<'_>,
        asked: AskedOperations<'_>,
    ) -> Result<Vec<Change>> {
        let file = &asked.files[task.file];
        let edits = task.edits(file);
        if task.first >= file.question_end || edits >= file.question_edits {
            return Ok(Vec::new());
        }
        let read = |part: &StretchPart, text: &mut Vec<u8>| {
            match &part.source {
                ByteSource::Edit(edit, range) => {
                    text.extend_from_slice(asked.texts.get(file.edits[*edit], range.clone()));
                }
                ByteSource::Base(range) => match around.get(range.start, part.length) {
                    Some(known) => text.extend_from_slice(known),
                    None => {
                        let pieces = file.base.pieces(range.clone());
                        text.extend(extract_pieces(self.stored, file.base.stored(), pieces)?);
                    }
                },
            }
            Ok(())
        };
        let mut moment = file.stretches.moment(edits);
        let mut collector = ChangeCollector::new(self.tokenizer, words, edits, read);
        for &operation in task.operations.iter().take(file.question_end - task.first) {
            match asked.operations[operation] {
                Operation::Insert { text: [], .. } | Operation::Append { text: [], .. } => {}
                Operation::Insert { .. } | Operation::Append { .. } => {
                    let fresh = file.stretches.of_edit(moment.edits());
                    collector.fresh.extend_from_slice(fresh);
                    moment.advance();
                }
                Operation::Extract { .. } => {}
                Operation::Count { .. } | Operation::Search { .. } => {
                    check(self.run.stop)?;
                    collector.compare(&moment)?;
                }
            }
        }
        collector.compare(&moment)?;
        Ok(collector.changes())
    }

    /// Answers all questions, task by task; an edit has [`Answer::Edited`].
    ///
    /// # Errors
    /// If the run must end, or edits take more occurrences away than there are.
    pub(super) fn answer(
        &self,
        asked: AskedOperations<'_>,
        words: &[AskedWords<'_>],
        stored: &Stored,
        known: &BatchKnowledge,
    ) -> Result<Vec<Vec<Answer>>> {
        let tasks = asked.tasks.par_iter().enumerate();
        let answers = tasks.map(|(number, task)| {
            check(self.run.stop)?;
            task.answers(number, asked, &words[task.file], stored, known)
        });
        answers.collect()
    }
}

/// The ranges around the edits of a file, up to its last question about a word, and the stored bytes that they need.
fn around(file: &File<'_>) -> (Ranges, Vec<(usize, u64, u64)>) {
    let mut ranges: Ranges = Vec::new();
    for base in file.stretches.bases(file.question_edits) {
        let start = base.saturating_sub(AROUND_BYTES);
        let end = file.base.bytes().min(base + AROUND_BYTES);
        match ranges.last_mut() {
            Some((_, last, _)) if start <= *last => *last = end,
            _ if start < end => ranges.push((start, end, 0)),
            _ => {}
        }
    }
    let mut questions = Vec::with_capacity(ranges.len());
    for (start, end, first) in &mut ranges {
        *first = questions.len();
        file.base.ask(*start..*end, &mut questions);
    }
    (ranges, questions)
}

impl FileTask<'_> {
    /// The number of edits before the task.
    fn edits(&self, file: &File<'_>) -> usize {
        (file.edits).partition_point(|&edit| edit < self.operations[0])
    }

    /// The stored bytes that all extracts need.
    fn extracts(&self, asked: AskedOperations<'_>) -> Vec<(usize, u64, u64)> {
        let file = &asked.files[self.file];
        let mut now = Now::new(file, self.edits(file));
        let mut questions = Vec::new();
        for &operation in self.operations {
            let operation = &asked.operations[operation];
            if let Operation::Extract { offset, length, .. } = *operation {
                for part in now.moment().parts(offset..offset.saturating_add(length)) {
                    if let ByteSource::Base(range) = part.source {
                        file.base.ask(range, &mut questions);
                    }
                }
            }
            now.pass(operation);
        }
        questions
    }

    /// Answers the questions of a task in order.
    fn answers(
        &self,
        number: usize,
        asked: AskedOperations<'_>,
        words: &AskedWords<'_>,
        stored: &Stored,
        known: &BatchKnowledge,
    ) -> Result<Vec<Answer>> {
        let file = &asked.files[self.file];
        let (edited, changes) = (&known.edited[self.file], &known.changes[self.file]);
        let is_stored = file.base.stored().is_some();
        let (mut count, mut search) = stored.firsts[number];
        let mut extract = known.firsts[number];
        let mut now = Now::new(file, self.edits(file));
        let mut answers = Vec::with_capacity(self.operations.len());
        for (place, &operation) in (self.first..).zip(self.operations) {
            let operation = &asked.operations[operation];
            answers.push(match *operation {
                Operation::Insert { .. } | Operation::Append { .. } => Answer::Edited,
                Operation::Extract { offset, length, .. } => {
                    let range = offset..offset.saturating_add(length);
                    let size = now.moment().bytes().min(range.end);
                    // The answer must fit into memory, so its length fits `usize`.
                    let size = size.saturating_sub(offset) as usize;
                    let mut bytes = Vec::with_capacity(size);
                    for part in now.moment().parts(range) {
                        match part.source {
                            ByteSource::Base(range) => {
                                let found = &known.extracts;
                                file.base.read(range, found, &mut extract, &mut bytes);
                            }
                            ByteSource::Edit(edit, range) => {
                                bytes.extend_from_slice(asked.texts.get(file.edits[edit], range));
                            }
                        }
                    }
                    Answer::Bytes(bytes)
                }
                Operation::Count { word, .. } => {
                    let mut found = 0;
                    if is_stored {
                        found = stored.counts[count];
                        count += 1;
                    }
                    let before = edited.as_ref().map_or(0, |text| text.change_of(word));
                    let more = match words.asked(place) {
                        Some(word) => changes.more(word, now.edits),
                        None => 0,
                    };
                    let count = changed(found, before + more, || word_subject(word))?;
                    Answer::Count(count)
                }
                Operation::Search { word, .. } => {
                    let mut offsets = Cow::default();
                    if is_stored {
                        offsets = joined(stored.places.parts(search));
                        search += 1;
                    }
                    if let Some(text) = edited {
                        offsets = text.moved_offsets(word, offsets.into_owned()).into();
                    }
                    Answer::Offsets(match words.asked(place) {
                        Some(word) if now.edits > 0 => {
                            changes.moved(word, &offsets, &file.stretches, now.moment())
                        }
                        _ => offsets.into_owned(),
                    })
                }
            });
            now.pass(operation);
        }
        Ok(answers)
    }
}

/// The place of a task among the edits of its file.
struct Now<'a> {
    file: &'a File<'a>,
    edits: usize,
    /// The version of the text, once a question needed it; some edits may still have to be made to it.
    moment: Option<Version<'a>>,
}

impl<'a> Now<'a> {
    fn new(file: &'a File<'a>, edits: usize) -> Now<'a> {
        Now {
            file,
            edits,
            moment: None,
        }
    }

    /// Passes an operation.
    fn pass(&mut self, operation: &Operation<'_>) {
        self.edits += usize::from(operation.is_edit() && !operation.text().is_empty());
    }

    fn moment(&mut self) -> &Version<'a> {
        let stretches = &self.file.stretches;
        let moment = (self.moment).get_or_insert_with(|| stretches.moment(self.edits));
        while moment.edits() < self.edits {
            moment.advance();
        }
        moment
    }
}

/// Reads bytes of a file as they were before the batch; the answers to question `first` and those behind it hold the stored ones.
fn read_base<'a>(
    file: &File<'_>,
    range: Range<u64>,
    found: &'a Found<ExtractedBytes>,
    mut first: usize,
) -> Cow<'a, [u8]> {
    if matches!(file.base, FileBase::Stored { .. }) {
        let mut parts = found.parts(first);
        if let (Some((_, only)), None) = (parts.next(), parts.next()) {
            return Cow::Borrowed(only);
        }
    }
    let mut text = Vec::new();
    file.base.read(range, found, &mut first, &mut text);
    Cow::Owned(text)
}

/// Offsets in parts, as offsets in the file.
fn joined<'a>(parts: impl Iterator<Item = (u64, &'a [u64])>) -> Cow<'a, [u64]> {
    let mut joined: Cow<'a, [u64]> = Cow::default();
    for (first, offsets) in parts {
        if first == 0 && joined.is_empty() {
            joined = Cow::Borrowed(offsets);
        } else {
            let offsets = offsets.iter().map(|offset| first + offset);
            joined.to_mut().extend(offsets);
        }
    }
    joined
}
