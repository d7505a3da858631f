//! The files and words that a scan has to read: conditions decided once for each distinct value.
//!
//! Invariant: the selection is exactly what passes all given filters.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::answer::{CorpusReader, CorpusView, FileSet, PlaceRanges};
use crate::expression::{ColumnFilter, ColumnMatcher};
use crate::runtime::interrupt::{Interrupt, NEVER, check};
use crate::{Error, Result, Value};

/// The files whose names pass conditions, of all files or `among` some, which ascend.
pub(super) fn files_that_pass(
    view: &CorpusView,
    filters: &[ColumnFilter],
    among: Option<&[u32]>,
) -> Result<FileSet> {
    if filters.is_empty() && among.is_none() {
        return Ok(FileSet::all(view));
    }
    let all = view.files();
    let files: Vec<u32> = match filters.iter().find_map(ColumnFilter::values) {
        None => match among {
            Some(among) => among.to_vec(),
            None => view.file_numbers().to_vec(),
        },
        Some(values) => {
            let found = values.iter().filter_map(|value| match value {
                Value::Text(name) => view.find_file(name),
                _ => None,
            });
            // Files are numbered by u32.
            let mut found: Vec<u32> = found.map(|file| file as u32).collect();
            found.sort_unstable();
            found.dedup();
            if let Some(among) = among {
                found.retain(|file| among.binary_search(file).is_ok());
            }
            found
        }
    };
    let mut passing = Vec::with_capacity(files.len());
    for file in files {
        let name = Value::Text(all[file as usize].name.clone());
        let mut filters = filters.iter();
        let passes = filters.try_fold(true, |passes, filter| {
            Ok::<_, Error>(passes && filter.matches(&name)?)
        });
        if passes? {
            passing.push(file);
        }
    }
    Ok(FileSet::new(view, passing))
}

/// The places that pass; `position` and `offset` are their columns.
pub(super) fn places(
    filters: &[ColumnFilter],
    position: Option<usize>,
    offset: Option<usize>,
) -> PlaceRanges {
    let range = |column: Option<usize>| {
        let filter = filters
            .iter()
            .find(|filter| Some(filter.column()) == column);
        let Some(integers) = filter.map(ColumnFilter::integers) else {
            return 0..=u64::MAX;
        };
        let (start, end) = integers.range.clone().into_inner();
        match u64::try_from(end) {
            Ok(end) => u64::try_from(start).unwrap_or(0)..=end,
            // No place is below 0.
            Err(_) => RangeInclusive::new(1, 0),
        }
    };
    PlaceRanges {
        offsets: range(offset),
        positions: range(position),
    }
}

/// The words that pass.
pub(super) struct WordSelection;

impl WordSelection {
    /// The only words that can pass, if they are known before the dictionary is. `column` is that of words.
    pub(super) fn values(filters: &[ColumnFilter], column: usize) -> Option<&[Value]> {
        let mut filters = filters.iter().filter(|filter| filter.column() == column);
        filters.find_map(ColumnFilter::values)
    }

    /// The numbers of the words that pass, ascending; none for all. `value` returns the value of a column for a word. Looking up
    /// a few words is faster than waking the pool.
    pub(super) fn numbers(
        reader: &CorpusReader,
        filters: &Arc<[ColumnFilter]>,
        column: usize,
        value: impl Fn(&[u8], usize) -> Value + Sync + Send + 'static,
        interrupt: &Interrupt,
    ) -> Result<Option<Vec<u32>>> {
        if filters.is_empty() {
            return Ok(None);
        }
        let values = WordSelection::values(filters, column);
        let is_few = values.is_some_and(|values| values.len() < TASK_WORDS);
        let passing = if is_few && reader.view().has_vocabulary() {
            WordSelection::passing(reader.view(), filters, column, value, &NEVER)
        } else {
            let filters = filters.clone();
            reader.ask(interrupt, move |view, stop| {
                WordSelection::passing(view, &filters, column, value, stop)
            })
        };
        passing.map(Some)
    }

    fn passing(
        view: &CorpusView,
        filters: &[ColumnFilter],
        column: usize,
        value: impl Fn(&[u8], usize) -> Value + Sync,
        stop: &AtomicBool,
    ) -> Result<Vec<u32>> {
        let vocabulary = view.vocabulary()?;
        let matchers = || -> Vec<ColumnMatcher<'_>> {
            let filters = filters.iter();
            filters.map(ColumnFilter::matcher).collect()
        };
        let passes = |matchers: &mut [ColumnMatcher<'_>], word: u32| -> Result<bool> {
            check(stop)?;
            let text = vocabulary.word(word);
            // Most words of a dictionary are out of the range of a condition, which is cheaper to check.
            let out_of_range =
                |filter: &ColumnFilter| filter.column() == column && !filter.range().contains(text);
            if is_text(text) && filters.iter().any(out_of_range) {
                return Ok(false);
            }
            let mut matchers = matchers.iter_mut();
            matchers.try_fold(true, |passes, matcher| {
                Ok(passes && matcher.matches(&value(text, matcher.column()))?)
            })
        };
        let decided = |matchers: &mut Vec<_>, word: u32| match passes(matchers, word) {
            Ok(true) => Some(Ok(word)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        match WordSelection::values(filters, column) {
            None => {
                // Words are numbered by u32.
                let words = (0..vocabulary.len() as u32).into_par_iter();
                let words = words.with_min_len(TASK_WORDS);
                words.map_init(matchers, decided).flatten_iter().collect()
            }
            Some(values) => {
                let mut found = Vec::with_capacity(values.len());
                for word in values.iter().filter_map(bytes_of) {
                    found.extend(vocabulary.find(word)?);
                }
                found.sort_unstable();
                found.dedup();
                let mut matchers = matchers();
                let found = found.into_iter();
                found
                    .filter_map(|word| decided(&mut matchers, word))
                    .collect()
            }
        }
    }
}

/// The wanted words.
pub(super) struct WantedWords {
    /// For each word of the vocabulary; none for all.
    pub(super) marks: Option<Vec<bool>>,
}

impl WantedWords {
    /// Words by number; none for all.
    pub(super) fn new(view: &CorpusView, words: Option<Vec<u32>>) -> Result<WantedWords> {
        let Some(words) = words else {
            return Ok(WantedWords { marks: None });
        };
        let mut marks = vec![false; view.vocabulary()?.len()];
        for word in words {
            marks[word as usize] = true;
        }
        Ok(WantedWords { marks: Some(marks) })
    }

    pub(super) fn has(&self, word: u32) -> bool {
        (self.marks.as_ref()).is_none_or(|marks| marks[word as usize])
    }
}

/// The bytes of a value that can be equal to a word or n-gram; none if it cannot.
pub(super) fn bytes_of(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Text(text) => Some(text.as_bytes()),
        Value::Blob(bytes) => Some(bytes),
        Value::Null | Value::Integer(_) | Value::Real(_) => None,
    }
}

/// The least number of words that a task decides.
pub(super) const TASK_WORDS: usize = 1 << 10;

/// Whether a word is a TEXT and not a BLOB.
pub(super) fn is_text(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok()
}
