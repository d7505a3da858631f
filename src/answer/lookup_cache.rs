//! The look-ups of many questions in files, and their answers, made beforehand and all at once.
//!
//! Invariant: each answer is that of the snapshot. They live as long as the reader that holds them.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use super::access_path::Run;
use super::corpus_view::CorpusView;
use super::question::{Granularity, Question};
use crate::Result;
use crate::runtime::lookup_batcher::WordInFile;

/// The look-ups of questions, in their order.
#[derive(Default)]
pub(crate) struct Lookups {
    counts: Vec<WordInFile>,
    searches: Vec<WordInFile>,
    /// Files, offsets and lengths.
    extracts: Vec<(usize, u64, u64)>,
    /// For each question the number of look-ups of each kind so far.
    ends: Vec<[usize; 3]>,
}

/// Bytes of a known occurrence.
const OCCURRENCE_BYTES: u64 = size_of::<u64>() as u64;

impl Lookups {
    /// Adds the look-ups of a question about some words in its files.
    pub(crate) fn add<'w>(&mut self, question: &Question, words: impl Iterator<Item = &'w [u8]>) {
        let lookups = match question.granularity {
            Granularity::Occurrence => &mut self.searches,
            _ => &mut self.counts,
        };
        let files = question.files.numbers();
        for word in words {
            lookups.extend(files.iter().map(|&file| (file as usize, word.to_vec())));
        }
    }

    /// Adds a question for some bytes of a file.
    pub(crate) fn add_extract(&mut self, file: usize, range: Range<u64>) {
        let length = range.end - range.start;
        self.extracts.push((file, range.start, length));
    }

    /// Ends a question; the next look-ups are those of another one.
    pub(crate) fn end_question(&mut self) {
        let (counts, searches) = (self.counts.len(), self.searches.len());
        self.ends.push([counts, searches, self.extracts.len()]);
    }

    /// The number of look-ups.
    pub(crate) fn len(&self) -> usize {
        self.counts.len() + self.searches.len() + self.extracts.len()
    }

    /// Keeps those of the first questions whose answers take at most `memory` bytes, and returns the number of these questions.
    /// The first one is among them in any case: if its answers alone take more, it has no look-ups.
    ///
    /// # Errors
    /// Those of [`Lookups::answer`].
    pub(crate) fn keep(&mut self, view: &CorpusView, memory: u64, run: Run<'_>) -> Result<u64> {
        let occurrences = view.count_each(&borrowed(&self.searches), run)?;
        let mut bytes = 0u64;
        let mut before = [0; 3];
        let fits = |ends: &&[usize; 3]| {
            let found = occurrences[before[1]..ends[1]].iter().sum::<u64>();
            let extracts = self.extracts[before[2]..ends[2]].iter();
            let extracted = extracts.map(|(.., length)| length).sum::<u64>();
            bytes = bytes.saturating_add(found.saturating_mul(OCCURRENCE_BYTES));
            bytes = bytes.saturating_add(extracted);
            before = **ends;
            bytes <= memory
        };
        let questions = self.ends.iter().take_while(fits).count();
        let last = questions.checked_sub(1).map(|last| self.ends[last]);
        let [counts, searches, extracts] = last.unwrap_or_default();
        self.counts.truncate(counts);
        self.searches.truncate(searches);
        self.extracts.truncate(extracts);
        Ok(questions.max(1) as u64)
    }

    /// Answers all look-ups.
    ///
    /// # Errors
    /// If a segment is damaged, a demanded device fails, or the run must end.
    pub(crate) fn answer(self, view: &CorpusView, run: Run<'_>) -> Result<LookupCache> {
        let counts = view.count_each(&borrowed(&self.counts), run)?;
        let offsets = view.search_each(&borrowed(&self.searches), run)?;
        let extracts = view.extract_each(&self.extracts, run)?;
        let ranges = self.extracts.into_iter();
        let ranges = ranges.map(|(file, offset, length)| (file, (offset, length)));
        Ok(LookupCache {
            counts: by_file(self.counts.into_iter(), counts),
            offsets: by_file(self.searches.into_iter(), offsets),
            extracts: by_file(ranges, extracts),
            files_with: HashMap::new(),
        })
    }
}

/// Files and words in the form of a batch.
pub(super) fn borrowed(asked: &[WordInFile]) -> Vec<(usize, &[u8])> {
    let asked = asked.iter();
    asked.map(|(file, word)| (*file, &word[..])).collect()
}

/// Answers by file, by its place in order of name, and by question.
#[derive(Debug, Default)]
pub(crate) struct LookupCache {
    pub(crate) counts: HashMap<usize, HashMap<Vec<u8>, u64>>,
    pub(crate) offsets: HashMap<usize, HashMap<Vec<u8>, Vec<u64>>>,
    /// By offset and length.
    pub(crate) extracts: HashMap<usize, HashMap<(u64, u64), Vec<u8>>>,
    /// The files that have all of some words, by the words.
    pub(crate) files_with: HashMap<Vec<Vec<u8>>, Vec<usize>>,
}

fn by_file<Q: Eq + Hash, A>(
    questions: impl Iterator<Item = (usize, Q)>,
    answers: Vec<A>,
) -> HashMap<usize, HashMap<Q, A>> {
    let mut known: HashMap<usize, HashMap<Q, A>> = HashMap::new();
    for ((file, question), answer) in questions.zip(answers) {
        known.entry(file).or_default().insert(question, answer);
    }
    known
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{CorpusSettings, Database};

    #[test]
    fn the_first_questions_within_the_memory_are_answered() {
        let database = Database::in_memory().unwrap();
        let pets = database.create_corpus("pets", CorpusSettings::default());
        let pets = pets.unwrap();
        pets.append("a", "the cat and the dog").unwrap();
        pets.append("b", "the the").unwrap();
        let snapshot = pets.snapshot().unwrap();
        let (view, run) = (snapshot.view(), Run::to_the_end());
        // Four occurrences, then one, of eight bytes each.
        let lookups = || {
            let mut lookups = Lookups::default();
            for word in [&b"the"[..], b"dog"] {
                let mut question = Question::of_files(view);
                question.granularity = Granularity::Occurrence;
                lookups.add(&question, [word].into_iter());
                lookups.end_question();
            }
            lookups
        };
        for (memory, questions, count) in [(31, 1, 0), (32, 1, 2), (39, 1, 2), (40, 2, 4)] {
            let mut lookups = lookups();
            assert_eq!(lookups.keep(view, memory, run).unwrap(), questions);
            assert_eq!(lookups.len(), count, "{memory}");
        }
        let known = lookups().answer(view, run).unwrap();
        assert_eq!(known.offsets[&0][&b"the"[..]], [0, 12]);
        assert_eq!(known.offsets[&1][&b"the"[..]], [0, 4]);
        assert_eq!(known.offsets[&0][&b"dog"[..]], [16]);
        assert_eq!(known.offsets[&1][&b"dog"[..]], [0; 0]);
        assert!(known.counts.is_empty());
    }
}
