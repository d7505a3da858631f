//! The scan of `files_with('corpus', 'word', ...)`: the files that have all of some words.
//!
//! Invariant: rows come in order of file. Files that structures in memory know are found while planning; else the words are
//! searched when the first row is asked for.

use std::sync::Arc;

use super::super::context::Context;
use super::super::explain::{Answered, Describe, Description};
use super::super::row::{BatchRest, Operator};
use super::boundary::{Scan, ScanRequest, passes};
use crate::answer::{CorpusReader, FileMethod, plan_files_with};
use crate::batch::{Batch, BatchColumn, TextDictionary};
use crate::expression::ColumnFilter;
use crate::runtime::interrupt::Interrupt;
use crate::{Result, Value};

pub(super) struct FilesWithScan {
    reader: CorpusReader,
    /// None once it was used.
    method: Option<FileMethod>,
    /// The number of columns, all of which are the file.
    columns: usize,
    filters: Vec<ColumnFilter>,
    /// None before the search.
    /// The files that rows may be of, ascending; none for all.
    among: Option<Arc<[u32]>>,
    rows: Option<BatchRest>,
    interrupt: Interrupt,
    is_explained: bool,
    description: Arc<Answered>,
}

impl FilesWithScan {
    pub(super) fn new(
        reader: CorpusReader,
        words: Vec<Vec<u8>>,
        request: ScanRequest,
        context: &Context,
    ) -> Result<FilesWithScan> {
        let detail = format!("{} words", words.len());
        let plan = plan_files_with(words, &reader, context.is_explained)?;
        let description = || Description {
            lines: plan.lines(None),
            ..Description::new("files with", detail, None)
        };
        Ok(FilesWithScan {
            description: Answered::new(context.is_explained, description),
            columns: request.columns.len(),
            among: request.files,
            filters: request.filters,
            rows: None,
            interrupt: context.interrupt.clone(),
            is_explained: context.is_explained,
            method: Some(plan.into_method()),
            reader,
        })
    }

    fn find(&mut self) -> Result<BatchRest> {
        let mut files = self.files()?;
        if let Some(among) = &self.among {
            // Files are numbered by u32.
            files.retain(|&file| among.binary_search(&(file as u32)).is_ok());
        }
        if !self.filters.is_empty() {
            let names = self.reader.view().files();
            let mut passed = Vec::new();
            for file in files {
                if passes(&self.filters, |_| Value::Text(names[file].name.clone()))? {
                    passed.push(file);
                }
            }
            files = passed;
        }
        if files.is_empty() {
            return Ok(BatchRest::of(None));
        }
        let columns = (0..self.columns).map(|_| BatchColumn::Words {
            // A corpus' files are counted by a u32.
            indices: files.iter().map(|&file| file as u32).collect(),
            dictionary: TextDictionary::files(self.reader.view()),
        });
        let batch = Batch::new(columns.collect(), files.len(), None);
        Ok(BatchRest::of(Some(batch)))
    }

    /// The files, by place.
    fn files(&mut self) -> Result<Vec<usize>> {
        let words = match self.method.take() {
            Some(FileMethod::Intersect(words)) if self.is_explained => words,
            Some(method) => return method.files(&self.reader, &self.interrupt),
            None => return Ok(Vec::new()),
        };
        let description = self.description.clone();
        self.reader.ask(&self.interrupt, move |view, stop| {
            let mut found = view.files_of_all(&[&words[..]], description.until(stop))?;
            Ok(found.pop().unwrap_or_default())
        })
    }
}

impl Operator for FilesWithScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => {
                let found = self.find()?;
                self.rows.insert(found)
            }
        };
        Ok(rows.take(rows_max))
    }
}

impl Scan for FilesWithScan {
    fn description(&self) -> Arc<dyn Describe> {
        self.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}
