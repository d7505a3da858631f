//! Answers of a snapshot to look-ups that were made beforehand, many at once.
//!
//! Invariant: each answer is that of the snapshot. They live as long as the reader that holds them.

use std::collections::HashMap;
use std::hash::Hash;

use super::CorpusView;

/// Answers, and their questions, which begin with a file.
type WithQuestions<A, Q> = (Vec<A>, Vec<Q>);

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

impl LookupCache {
    /// Takes answers with their questions, whose files exist.
    pub(crate) fn new(
        view: &CorpusView,
        (counts, counted): WithQuestions<u64, (String, Vec<u8>)>,
        (offsets, searched): WithQuestions<Vec<u64>, (String, Vec<u8>)>,
        (extracts, ranges): WithQuestions<Vec<u8>, (String, u64, u64)>,
    ) -> LookupCache {
        let ranges = ranges.into_iter();
        let ranges = ranges.map(|(file, offset, length)| (file, (offset, length)));
        LookupCache {
            counts: by_file(view, counted.into_iter(), counts),
            offsets: by_file(view, searched.into_iter(), offsets),
            extracts: by_file(view, ranges, extracts),
            files_with: HashMap::new(),
        }
    }
}

fn by_file<Q: Eq + Hash, A>(
    view: &CorpusView,
    questions: impl Iterator<Item = (String, Q)>,
    answers: Vec<A>,
) -> HashMap<usize, HashMap<Q, A>> {
    let mut known: HashMap<usize, HashMap<Q, A>> = HashMap::new();
    for ((name, question), answer) in questions.zip(answers) {
        if let Some(file) = view.find_file(&name) {
            known.entry(file).or_default().insert(question, answer);
        }
    }
    known
}
