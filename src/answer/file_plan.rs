//! The methods that find files by words or a string of bytes, and the choice among them.
//!
//! Invariant: every decision on how files are found is taken here, once; files found on the way are kept in the plan. Which words a
//! file has how often is a question about words, see [`super::word_plan`].

use std::sync::Arc;

use zipfdb_kernels::CommonColumns;
use zipfdb_search::grep::MatchCounter;
use zipfdb_sql::setting::Strategy;

use super::plan::{AnswerPlan, Candidate};
use super::reader::CorpusReader;
use crate::Result;
use crate::runtime::interrupt::Interrupt;

/// A method to find the files that have all of some words.
pub(crate) enum FileMethod {
    /// The files were found beforehand, for many questions at once.
    Known(Vec<usize>),
    /// Structures in memory had the files of each segment.
    Found(Vec<CommonColumns>),
    /// The files of words are intersected.
    Intersect(Vec<Vec<u8>>),
}

impl FileMethod {
    /// The files with all words of a question, by place.
    ///
    /// # Errors
    /// If a segment is damaged, a demanded device fails, or the statement must end.
    pub(crate) fn files(self, reader: &CorpusReader, interrupt: &Interrupt) -> Result<Vec<usize>> {
        match self {
            FileMethod::Known(files) => Ok(files),
            FileMethod::Found(found) => Ok(reader.view().files_found(found)),
            FileMethod::Intersect(words) => reader.intersect(&words, interrupt),
        }
    }

    /// The number of files that [`FileMethod::files`] returns.
    ///
    /// # Errors
    /// Those of `files`.
    pub(crate) fn count(self, reader: &CorpusReader, interrupt: &Interrupt) -> Result<usize> {
        match self {
            FileMethod::Found(found) => Ok(found.iter().map(CommonColumns::count).sum()),
            other => Ok(other.files(reader, interrupt)?.len()),
        }
    }
}

/// Chooses the method that finds the files with all of some words. Where EXPLAIN shows the choice, nothing is answered while planning.
///
/// # Errors
/// If a segment is damaged.
pub(crate) fn plan_files_with(
    words: Vec<Vec<u8>>,
    reader: &CorpusReader,
    is_explained: bool,
) -> Result<AnswerPlan<FileMethod>> {
    let view = reader.view();
    if !is_explained {
        if let Some(files) = reader.known_files_with(&words) {
            return Ok(AnswerPlan::answered(FileMethod::Known(files)));
        }
        if let Some(found) = view.files_of_all_at_hand(&words)? {
            return Ok(AnswerPlan::answered(FileMethod::Found(found)));
        }
    }
    AnswerPlan::choose(view, None, || {
        let plan = view.plan_files_of_all(std::slice::from_ref(&words), None)?;
        let (strategy, method) = (Strategy::LocalTables, FileMethod::Intersect(words.clone()));
        Ok(vec![Candidate::planned(strategy, method, &plan)])
    })
}

/// The plan of counting a string of bytes in each file. There is one method.
///
/// # Errors
/// If a segment is damaged.
pub(crate) fn plan_string(
    counter: &Arc<MatchCounter>,
    reader: &CorpusReader,
) -> Result<AnswerPlan<()>> {
    let view = reader.view();
    AnswerPlan::choose(view, None, || {
        let plan = view.plan_match_counts(counter)?;
        Ok(vec![Candidate::planned(Strategy::LocalTables, (), &plan)])
    })
}
