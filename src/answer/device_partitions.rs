//! Questions to one segment on a device, in parts if memory is too short for all of it.
//!
//! The invariant: answers are those of the whole segment. Batches of questions are halved until they fit; if even their
//! structures do not fit, these are made for some files at a time, and for a file that is still too large for some symbols of its
//! root: parts of the roots over the same rules. So there must be memory for the rules and what is made of them, no more. Each
//! operation merges the answers of parts.

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{DeviceGrammar, DeviceStructures, Gpu, GpuError, Terminals, WordQuery};
use zipfdb_kernels::{CountTable, GrammarView};

use crate::runtime::device::{OnDevice, ResidentWords};
use crate::segment::SegmentView;
use crate::{Error, Result};

impl SegmentView {
    /// Runs `work` on the words of all files, or of a part of them at a time if memory does not allow all. Returns the parts in
    /// order, and the answers. `work` gets a flag that it has all files.
    pub(super) fn with_words<A>(
        &self,
        device: &OnDevice<'_>,
        work: impl Fn(&Gpu, &ResidentWords, bool) -> Result<A>,
    ) -> Result<Vec<(RootPart, A)>> {
        let view = self.word_grammar()?.view();
        let residence = self.residence();
        in_parts(view, |_, of_part| match of_part {
            None => device.with_words(residence, view, |gpu, on| work(gpu, on, true)),
            Some(view) => device.with_some_words(view, |gpu, on| work(gpu, on, false)),
        })
    }

    /// Answers questions sorted by file, in batches that fit into memory; if even the structures for look-ups do not fit, in
    /// parts of the roots. `in_part` turns a question into one to a part, whose file has another number there, and of whose file
    /// only some bytes may be there; `add` adds the answer of a part that begins at some byte of its file.
    pub(super) fn look_up_on<Q: Copy, A: Default>(
        &self,
        device: &OnDevice<'_>,
        questions: &[Q],
        of_file: impl Fn(&Q) -> u32,
        in_part: impl Fn(Q, u32, Option<&Range<u64>>) -> Option<Q>,
        ask: impl Fn(&Gpu, &DeviceStructures, &[Q]) -> Result<Vec<A>>,
        add: impl Fn(&mut A, A, u64),
    ) -> Result<Vec<A>> {
        let view = self.view()?;
        let mut parts = in_parts(view, |part, of_part| {
            let Some(of_part) = of_part else {
                let build = |gpu: &Gpu, grammar| self.structures_on(gpu, view, grammar, part, None);
                let found = RefCell::new(Vec::with_capacity(questions.len()));
                device.with_lookups(self.residence(), build, |gpu, on| {
                    let found = &mut *found.borrow_mut();
                    in_batches(questions, BATCH_MIN, found, |batch| ask(gpu, on, batch))
                })?;
                return Ok((0, Vec::new(), found.into_inner()));
            };
            let bytes = self.bytes_of(part)?;
            let from = questions.partition_point(|question| of_file(question) < part.files.start);
            let to = questions.partition_point(|question| of_file(question) < part.files.end);
            let (mut numbers, mut asked) = (Vec::new(), Vec::new());
            for (number, &question) in (from..to).zip(&questions[from..to]) {
                let file = of_file(&question) - part.files.start;
                if let Some(question) = in_part(question, file, bytes.as_ref()) {
                    numbers.push(number);
                    asked.push(question);
                }
            }
            let found = RefCell::new(Vec::with_capacity(asked.len()));
            if !asked.is_empty() {
                let batch_min = if part.files.len() == 1 { 1 } else { BATCH_MIN };
                device.with_gpu(|gpu| {
                    let on = self.structures_on(gpu, of_part, None, part, bytes.as_ref())?;
                    let found = &mut *found.borrow_mut();
                    in_batches(&asked, batch_min, found, |batch| ask(gpu, &on, batch))
                })?;
            }
            let first = bytes.map_or(0, |bytes| bytes.start);
            Ok((first, numbers, found.into_inner()))
        })?;
        if let [(_, (_, _, found))] = &mut parts[..] {
            return Ok(std::mem::take(found));
        }
        let mut answers: Vec<A> = Vec::new();
        answers.resize_with(questions.len(), A::default);
        for (_, (first, numbers, found)) in parts {
            for (number, found) in numbers.into_iter().zip(found) {
                add(&mut answers[number], found, first);
            }
        }
        Ok(answers)
    }

    /// The bytes of its only file that a part has; none if it has all.
    fn bytes_of(&self, part: &RootPart) -> Result<Option<Range<u64>>> {
        let view = self.view()?;
        let is_whole = |file| view.root_range(file) == part.root;
        if part.files.len() > 1 || is_whole(part.files.start) {
            return Ok(None);
        }
        let lengths = self.lengths()?;
        let start = lengths.file_range(part.files.start).start;
        let at = |position| lengths.root_start(view, position) - start;
        Ok(Some(at(part.root.start)..at(part.root.end)))
    }

    /// Builds the look-up structures of a part: `part_bytes` of one file, or all of some files.
    fn structures_on(
        &self,
        gpu: &Gpu,
        view: GrammarView<'_>,
        grammar: Option<DeviceGrammar>,
        part: &RootPart,
        part_bytes: Option<&Range<u64>>,
    ) -> Result<DeviceStructures> {
        let signatures = self.signatures()?;
        let dictionary = self.dictionary()?;
        let mut offsets = Vec::with_capacity(dictionary.len() as usize + 1);
        let mut bytes = Vec::new();
        offsets.push(0);
        for token in dictionary.iter() {
            bytes.extend_from_slice(token);
            offsets.push(bytes.len() as u64);
        }
        if u32::try_from(bytes.len()).is_err() {
            return Err(self.inconsistent("its tokens have 4 GiB or more"));
        }
        let terminals = Terminals {
            offsets: &offsets,
            bytes: &bytes,
            signatures: &signatures.bits[..view.terminal_count as usize],
        };
        let grammar = match grammar {
            Some(grammar) => grammar,
            None => DeviceGrammar::upload(gpu, view)?,
        };
        let built = DeviceStructures::new(gpu, grammar, terminals)?;
        let starts = built.file_starts.windows(2);
        let lengths = starts.map(|range| range[1] - range[0]);
        let files = &self.files()?[part.files.start as usize..part.files.end as usize];
        let is_right = match part_bytes {
            Some(part) => lengths.eq([part.end - part.start]),
            None => lengths.eq(files.iter().map(|file| file.bytes)),
        };
        if is_right {
            Ok(built)
        } else {
            Err(self.inconsistent("the size of a file differs from its file table"))
        }
    }
}

/// The least size of a batch; smaller ones only help if nothing else can be done about memory.
const BATCH_MIN: usize = 1 << 10;

/// The most questions of a batch.
const BATCH_MAX: usize = 1 << 22;

/// Answers the unanswered questions, in the largest batches that fit.
pub(super) fn in_batches<Q, A>(
    questions: &[Q],
    batch_min: usize,
    answers: &mut Vec<A>,
    ask: impl Fn(&[Q]) -> Result<Vec<A>>,
) -> Result<()> {
    let mut size = BATCH_MAX;
    while answers.len() < questions.len() {
        let rest = &questions[answers.len()..];
        let batch = &rest[..size.min(rest.len())];
        match ask(batch) {
            Err(error) if is_too_much(&error) && batch.len() > batch_min => {
                size = batch.len().div_ceil(2).max(batch_min);
            }
            found => answers.extend(found?),
        }
    }
    Ok(())
}

/// A part of the roots: some files, or some symbols of one file's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RootPart {
    files: Range<u32>,
    pub(super) root: Range<usize>,
}

impl RootPart {
    /// The number of its first file.
    pub(super) fn first_file(&self) -> u32 {
        self.files.start
    }

    /// Whether a later part continues the last file of this one.
    pub(super) fn is_cut_from(&self, next: &RootPart) -> bool {
        self.files.end == next.files.start + 1
    }

    /// The number of one of its files in the segment.
    pub(super) fn file_of(&self, file: u32) -> u32 {
        self.files.start + file
    }

    /// Renumbers the files of a table to those of the segment.
    pub(super) fn add_to_files(&self, table: &mut CountTable) {
        let first = self.files.start;
        if first > 0 {
            let entries = table.entries.par_iter_mut();
            entries.for_each(|(file, _)| *file += first);
        }
    }

    /// The two halves; none of a single symbol. A file is cut only if there is no other.
    fn halves(&self, view: GrammarView<'_>) -> Option<[RootPart; 2]> {
        let (files, root) = (&self.files, &self.root);
        let middle_file = files.start + (files.end - files.start) / 2;
        if middle_file > files.start {
            let middle = view.root_range(middle_file).start;
            return Some([
                RootPart {
                    files: files.start..middle_file,
                    root: root.start..middle,
                },
                RootPart {
                    files: middle_file..files.end,
                    root: middle..root.end,
                },
            ]);
        }
        let middle = root.start + root.len() / 2;
        (middle > root.start).then(|| {
            [root.start..middle, middle..root.end].map(|root| RootPart {
                files: files.clone(),
                root,
            })
        })
    }
}

/// A question about a word, as one to a part where its file has this number.
pub(super) fn in_file(query: WordQuery, file: u32, _: Option<&Range<u64>>) -> Option<WordQuery> {
    Some(WordQuery { file, ..query })
}

/// Runs `work` on all roots of a grammar, or, if a device lacks memory for that, on half of them at a time, and so on: `work`
/// gets a part, and its grammar if it is not all. Returns the parts and the answers, in order.
fn in_parts<A>(
    view: GrammarView<'_>,
    work: impl Fn(&RootPart, Option<GrammarView<'_>>) -> Result<A>,
) -> Result<Vec<(RootPart, A)>> {
    let all = RootPart {
        // Files are numbered by u32.
        files: 0..view.files() as u32,
        root: 0..view.root.len(),
    };
    let mut found = Vec::new();
    let mut rest = vec![all.clone()];
    while let Some(part) = rest.pop() {
        let answer = if part == all {
            work(&part, None)
        } else {
            // The offsets of files within the part.
            let (start, end) = (part.root.start, part.root.end);
            let offsets = &view.root_offsets[part.files.start as usize..=part.files.end as usize];
            let within = |&offset: &u32| ((offset as usize).clamp(start, end) - start) as u32;
            let offsets: Vec<u32> = offsets.iter().map(within).collect();
            let of_part = GrammarView {
                root_offsets: &offsets,
                root: &view.root[part.root.clone()],
                ..view
            };
            work(&part, Some(of_part))
        };
        match answer {
            Err(error) if is_too_much(&error) => match part.halves(view) {
                Some([first, second]) => rest.extend([second, first]),
                None => return Err(error),
            },
            answer => found.push((part, answer?)),
        }
    }
    Ok(found)
}

/// Whether the error may not occur with less work at a time.
pub(super) fn is_too_much(error: &Error) -> bool {
    matches!(
        error,
        Error::Gpu(GpuError::Memory { .. } | GpuError::Limit { .. })
    )
}

/// Bytes for windows of n-grams, which leave room for sorting them.
pub(super) fn window_bytes(gpu: &Gpu) -> usize {
    /// The most that a sort takes.
    const MOST: u64 = 4 << 30;
    let free = gpu.memory_limit().saturating_sub(gpu.memory_used());
    // At most 2^32 bytes; less where addresses are shorter.
    usize::try_from((free / 4).min(MOST)).unwrap_or(usize::MAX)
}
