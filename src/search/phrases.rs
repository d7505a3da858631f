//! Phrases: the files in which words follow one another, and where.
//!
//! Invariant: places are read of the files alone that have all words, and in these from the word with the fewest places on; a
//! phrase with a word that no file has is nowhere.

use std::sync::Arc;

use rayon::prelude::*;

use super::file_postings::{BlockCursors, FilePostings, files_of};
use super::formula::{FileSets, Formula};
use super::known_terms::{KnownTerm, TermSource};
use crate::Result;
use crate::answer::CorpusView;
use crate::answer::access_path::Run;
use crate::bisect::gallop;
use crate::runtime::interrupt::check;

/// Words that follow one another.
pub(super) struct PhraseSearch {
    words: Vec<Arc<KnownTerm>>,
}

/// Files that one task searches.
const TASK_FILES: usize = 64;

/// Places of the rarest word that are worth several tasks, and more than this are not searched while a caller waits for no thread.
const TASK_PLACES: u64 = 1 << 16;

impl PhraseSearch {
    pub(super) fn new(words: Vec<Arc<KnownTerm>>) -> PhraseSearch {
        PhraseSearch { words }
    }

    /// The number of words.
    pub(super) fn length(&self) -> u64 {
        // A query has fewer words.
        self.words.len() as u64
    }

    /// The files that have all words, ascending, each with its place among the files of each word.
    fn candidates(&self, view: &CorpusView) -> (Vec<u32>, Vec<u32>) {
        let mut sets = FileSets {
            terms: BlockCursors::new(self.words.iter().map(|word| word.postings())),
            names: &[],
            // Files are numbered by u32.
            files: view.files().len() as u32,
        };
        let words = 0..self.words.len();
        let all = Formula::All(words.clone().map(Formula::Term).collect());
        let (mut files, mut places, mut from) = (Vec::new(), Vec::new(), 0);
        while let Some((block, common)) = all.next_files(from, &mut sets) {
            for file in files_of(block, common) {
                files.push(file);
                let of_words = words.clone();
                let of_words = of_words.filter_map(|word| sets.terms.place(word, file));
                places.extend(of_words.map(|place| place as u32)); // fewer than files
            }
            from = block + 1;
        }
        (files, places)
    }

    /// The files that have the phrase, with counts; none if that is not known from what is kept.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(super) fn postings(&self, source: TermSource<'_>) -> Result<Option<FilePostings>> {
        let (files, places) = self.candidates(source.view);
        if files.is_empty() {
            return Ok(Some(FilePostings::default()));
        }
        let mut is_kept = true;
        for word in &self.words {
            is_kept &= source.prepare_places(word, files.len())?;
        }
        let width = self.words.len();
        let rarest = self.words.iter().map(|word| {
            let counts = word.postings().counts();
            counts.iter().sum::<u64>()
        });
        let is_large = rarest.min().unwrap_or(0) > TASK_PLACES;
        let run = match source.run {
            Some(run) => run,
            None if is_kept && !is_large => Run::to_the_end(),
            None => return Ok(None),
        };
        let count = |asked: &[u32], places: &[u32]| {
            let mut starts = Vec::new();
            let mut found = Vec::new();
            for (&file, places) in asked.iter().zip(places.chunks_exact(width)) {
                let kept = self.words.iter().zip(places);
                let kept =
                    kept.map(|(word, &place)| word.places_at(source.view, file, place as usize));
                self.starts_by(kept, (source.view, file), &mut starts, run)?;
                if !starts.is_empty() {
                    found.push((file, starts.len() as u64));
                }
            }
            Ok(found)
        };
        if is_kept && !is_large {
            return Ok(Some(count(&files, &places)?.into_iter().collect()));
        }
        let tasks = files
            .par_chunks(TASK_FILES)
            .zip(places.par_chunks(TASK_FILES * width));
        let found = tasks.map(|(files, places)| {
            check(run.stop)?;
            count(files, places)
        });
        let found = found.collect::<Result<Vec<_>>>()?;
        Ok(Some(found.into_iter().flatten().collect()))
    }

    /// The numbers of the words of a file where the phrase begins, ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(super) fn starts(
        &self,
        view: &Arc<CorpusView>,
        file: u32,
        starts: &mut Vec<u64>,
        run: Run<'_>,
    ) -> Result<()> {
        let kept = self.words.iter().map(|word| word.kept_places(view, file));
        self.starts_by(kept, (view, file), starts, run)
    }

    /// As `starts`, by the kept places of each word, or those that are read.
    fn starts_by<'a>(
        &self,
        kept: impl Iterator<Item = Option<&'a [u32]>>,
        (view, file): (&Arc<CorpusView>, u32),
        starts: &mut Vec<u64>,
        run: Run<'_>,
    ) -> Result<()> {
        if let Some(lists) = kept.collect::<Option<Vec<&[u32]>>>() {
            phrase_starts(&lists, starts);
            return Ok(());
        }
        let found = self.words.iter().map(|word| word.places(view, file, run));
        let found = found.collect::<Result<Vec<_>>>()?;
        let lists: Vec<&[u64]> = found.iter().map(Vec::as_slice).collect();
        phrase_starts(&lists, starts);
        Ok(())
    }
}

/// Where words follow one another, from the ascending places of each.
fn phrase_starts<T: Copy + Into<u64>>(lists: &[&[T]], starts: &mut Vec<u64>) {
    starts.clear();
    let mut order: Vec<(usize, &[T])> = lists.iter().copied().enumerate().collect();
    order.sort_by_key(|(_, list)| list.len());
    let Some((&(first, rarest), others)) = order.split_first() else {
        return;
    };
    let first = first as u64; // a query has fewer words
    starts.extend(
        rarest
            .iter()
            .filter_map(|&place| place.into().checked_sub(first)),
    );
    for &(word, list) in others {
        let mut rest = list;
        starts.retain(|start| {
            let wanted = start + word as u64;
            if rest.first().is_some_and(|&place| place.into() < wanted) {
                rest = &rest[gallop(rest.len(), |at| rest[at].into() < wanted)..];
            }
            rest.first().is_some_and(|&place| place.into() == wanted)
        });
        if starts.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_phrase_begins_where_each_word_follows_the_one_before(
            words in proptest::collection::vec(0_u32..3, 0..80),
            phrase in proptest::collection::vec(0_u32..4, 1..5),
        ) {
            let places = phrase.iter().map(|word| {
                let places = (0_u32..).zip(&words);
                places.filter(|(_, other)| *other == word).map(|(place, _)| place).collect()
            });
            let places: Vec<Vec<u32>> = places.collect();
            let lists: Vec<&[u32]> = places.iter().map(Vec::as_slice).collect();
            let mut starts = Vec::new();
            phrase_starts(&lists, &mut starts);
            let windows = (0_u64..).zip(words.windows(phrase.len()));
            let expected: Vec<u64> = windows
                .filter(|(_, window)| *window == phrase)
                .map(|(start, _)| start)
                .collect();
            prop_assert_eq!(starts, expected);
        }
    }
}
