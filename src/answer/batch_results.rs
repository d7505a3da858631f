//! Answers of a batch, in the memory that they came in.
//!
//! The invariant: the answer to a question is in parts, in order of where each begins in the file. The caller copies an answer
//! once, to its final place.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{ExtractedBytes, SearchResults};

/// A file, by its place in order of name, and the offsets of a word in it.
pub(crate) type FileOffsets = (usize, Vec<u64>);

/// Answers of a device to many questions.
pub(crate) trait Answers: Send + Sync {
    /// The items of an answer.
    type Item: Copy + Send + Sync + fmt::Debug;

    /// The answer to a question, by its number.
    fn answer(&self, question: usize) -> &[Self::Item];
}

impl Answers for SearchResults {
    type Item = u64;

    fn answer(&self, question: usize) -> &[u64] {
        self.get(question)
    }
}

impl Answers for ExtractedBytes {
    type Item = u8;

    fn answer(&self, question: usize) -> &[u8] {
        self.get(question)
    }
}

/// The answer of one part of a file.
pub(crate) enum FoundPart<B: Answers> {
    Own(Vec<B::Item>),
    /// One of the answers of a batch.
    Shared(Arc<B>, usize),
}

impl<B: Answers> FoundPart<B> {
    /// The answers of a batch of `questions` questions.
    pub(super) fn of_batch(answers: B, questions: usize) -> Vec<FoundPart<B>> {
        let answers = Arc::new(answers);
        let part = |question| FoundPart::Shared(answers.clone(), question);
        (0..questions).map(part).collect()
    }

    /// Appends items.
    pub(super) fn extend(&mut self, more: impl Iterator<Item = B::Item>) {
        if let FoundPart::Shared(..) = self {
            *self = FoundPart::Own(self.items().to_vec());
        }
        if let FoundPart::Own(items) = self {
            items.extend(more);
        }
    }

    pub(super) fn items(&self) -> &[B::Item] {
        match self {
            FoundPart::Own(items) => items,
            FoundPart::Shared(batch, question) => batch.answer(*question),
        }
    }
}

impl<B: Answers> Default for FoundPart<B> {
    fn default() -> FoundPart<B> {
        FoundPart::Own(Vec::new())
    }
}

impl<B: Answers> fmt::Debug for FoundPart<B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items().fmt(formatter)
    }
}

/// The answers to the questions of a batch.
pub(crate) struct Found<B: Answers> {
    /// `[questions + 1]`: the parts of question q are `parts[starts[q]..starts[q + 1]]`.
    starts: Vec<usize>,
    /// The parts, each with the place in the file that its items count from.
    parts: Vec<(u64, FoundPart<B>)>,
}

/// The least number of answers in a task.
const TASK_ANSWERS: usize = 64;

impl<B: Answers> Found<B> {
    /// Takes parts with their question and place, in any order.
    pub(super) fn new(questions: usize, mut found: Vec<((usize, u64), FoundPart<B>)>) -> Found<B> {
        if !found.is_sorted_by_key(|&(key, _)| key) {
            found.par_sort_unstable_by_key(|&(key, _)| key);
        }
        let mut starts = vec![0; questions + 1];
        for &((question, _), _) in &found {
            starts[question + 1] += 1;
        }
        for question in 0..questions {
            starts[question + 1] += starts[question];
        }
        let parts = found.into_iter().map(|((_, first), part)| (first, part));
        Found {
            starts,
            parts: parts.collect(),
        }
    }

    fn range(&self, question: usize) -> Range<usize> {
        self.starts[question]..self.starts[question + 1]
    }

    /// The parts of an answer, with the place that the items of each count from.
    pub(crate) fn parts(&self, question: usize) -> impl Iterator<Item = (u64, &[B::Item])> {
        let parts = self.parts[self.range(question)].iter();
        parts.map(|(first, part)| (*first, part.items()))
    }

    /// Each answer as one; `append` adds a part that counts from a place.
    pub(super) fn into_each(
        mut self,
        append: impl Fn(&mut Vec<B::Item>, u64, &[B::Item]) + Sync,
    ) -> Vec<Vec<B::Item>> {
        let mut of_questions = Vec::with_capacity(self.starts.len() - 1);
        let mut rest = &mut self.parts[..];
        for range in self.starts.windows(2) {
            let (parts, later) = rest.split_at_mut(range[1] - range[0]);
            of_questions.push(parts);
            rest = later;
        }
        let joined = |parts: &mut [(u64, FoundPart<B>)]| match parts {
            [(0, FoundPart::Own(items))] => std::mem::take(items),
            parts => {
                let items = parts.iter().map(|(_, part)| part.items().len());
                let mut joined = Vec::with_capacity(items.sum());
                for (first, part) in parts {
                    append(&mut joined, *first, part.items());
                }
                joined
            }
        };
        let of_questions = of_questions.into_par_iter().with_min_len(TASK_ANSWERS);
        of_questions.map(joined).collect()
    }
}
