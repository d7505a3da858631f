//! The files that statistics are of, and their groups by metadata.
//!
//! Invariant: counts, totals and sizes of a subcorpus are of its files alone. A group is of files with the same value; files without
//! one are a group too.

use std::collections::HashMap;

use crate::answer::access_path::Run;
use crate::answer::{CorpusView, FileColumn};
use crate::{Result, Value};

/// Some files of a corpus, or all.
#[derive(Clone)]
pub(crate) struct Subcorpus {
    /// Ascending.
    pub(crate) files: Vec<u32>,
    /// The words of these files.
    pub(crate) words: u64,
    is_all: bool,
}

impl Subcorpus {
    /// The files given, which ascend, or all.
    pub(crate) fn new(view: &CorpusView, files: Option<&[u32]>) -> Subcorpus {
        match files {
            None => Subcorpus {
                // Files are numbered by u32.
                files: (0..view.files().len() as u32).collect(),
                words: view.total_words(),
                is_all: true,
            },
            Some(files) => {
                let words = files.iter().map(|&file| view.files()[file as usize].words);
                Subcorpus {
                    files: files.to_vec(),
                    words: words.sum(),
                    is_all: false,
                }
            }
        }
    }

    /// The count of each word, by its number.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn totals(&self, view: &CorpusView, run: Run<'_>) -> Result<Vec<u64>> {
        if self.is_all {
            view.totals(run)
        } else {
            view.totals_of_set(&self.files, run)
        }
    }

    /// By file of the corpus: the number of words in the files of the subcorpus that precede it, or 0 for a file outside of it.
    pub(crate) fn starts(&self, view: &CorpusView) -> Vec<u64> {
        let mut starts = vec![0; view.files().len()];
        let mut before = 0;
        for &file in &self.files {
            starts[file as usize] = before;
            before += view.files()[file as usize].words;
        }
        starts
    }
}

/// The files of a corpus by their values in a column of metadata.
pub(crate) struct FileGroups {
    /// For each file the number of its group.
    pub(crate) numbers: Vec<u32>,
    /// The text of the value of each group; none for NULL.
    pub(crate) texts: Vec<Option<String>>,
}

impl FileGroups {
    /// Groups all files of a column.
    pub(crate) fn new(column: &FileColumn) -> FileGroups {
        let mut known: HashMap<Option<String>, u32> = HashMap::new();
        let mut texts = Vec::new();
        let numbers = (0..column.files()).map(|file| {
            let text = match column.value(file) {
                Value::Null => None,
                Value::Text(text) => Some(text),
                other => Some(other.to_string()),
            };
            *known.entry(text).or_insert_with_key(|text| {
                texts.push(text.clone());
                // At most one for each file, which are numbered by u32.
                texts.len() as u32 - 1
            })
        });
        FileGroups {
            numbers: numbers.collect(),
            texts,
        }
    }
}
