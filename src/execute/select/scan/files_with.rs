//! The scan of `files_with('corpus', 'word', ...)`: the files that have all of some words.
//!
//! Invariant: rows come in order of file. The words are looked for when the first row is asked for, not before.

use std::sync::Arc;

use zipfdb_sql::query::FilesWithColumn;

use super::super::context::Context;
use super::super::explain::{Answered, Describe, Description};
use super::super::row::{BatchRest, Operator, RowCollector};
use super::boundary::{Scan, ScanColumn, ScanRequest, passes};
use crate::answer::path::about;
use crate::api::snapshot::Snapshot;
use crate::batch::Batch;
use crate::expression::ColumnFilter;
use crate::runtime::interrupt::Interrupt;
use crate::{Result, Value};

pub(super) struct FilesWithScan {
    snapshot: Snapshot,
    words: Vec<Vec<u8>>,
    columns: Vec<ScanColumn>,
    filters: Vec<ColumnFilter>,
    /// None before the words are looked for.
    rows: Option<BatchRest>,
    interrupt: Interrupt,
    description: Arc<Answered>,
}

impl FilesWithScan {
    pub(super) fn new(
        snapshot: Snapshot,
        words: Vec<Vec<u8>>,
        request: ScanRequest,
        context: &Context,
    ) -> Result<FilesWithScan> {
        let mut lines = Vec::new();
        if context.is_explained {
            let plan = (snapshot.view()).plan_files_of_all(std::slice::from_ref(&words), None)?;
            lines.push(format!("path: {} ({})", plan.paths(), about(plan.cost())));
            lines.push(plan.device_line().into_owned());
        }
        let detail = format!("{} words", words.len());
        let description = || Description {
            lines,
            ..Description::new("files with", detail, None)
        };
        Ok(FilesWithScan {
            description: Answered::new(context.is_explained, description),
            columns: request
                .columns
                .iter()
                .map(|requested| requested.column)
                .collect(),
            filters: request.filters,
            rows: None,
            interrupt: context.interrupt.clone(),
            words,
            snapshot,
        })
    }

    fn find(&self) -> Result<BatchRest> {
        let files = match self.snapshot.known_files_with(&self.words) {
            Some(files) => files.to_vec(),
            None => {
                let one = || {
                    let (words, description) = (self.words.clone(), self.description.clone());
                    self.snapshot.ask(&self.interrupt, move |view, stop| {
                        let mut found =
                            view.files_of_all(&[&words[..]], description.until(stop))?;
                        Ok(found.pop().unwrap_or_default())
                    })
                };
                let words = || self.words.clone();
                (self.snapshot).files_of_all_with(words, &self.interrupt, one)?
            }
        };
        let names = self.snapshot.files();
        let mut rows = RowCollector::default();
        for file in files {
            let value = |column: usize| match FilesWithColumn::ALL.get(column) {
                Some(FilesWithColumn::File) => Value::Text(names[file].name.clone()),
                None => Value::Null,
            };
            if passes(&self.filters, value)? {
                rows.push(self.columns.iter().map(|column| match column {
                    ScanColumn::Column(column) => value(*column),
                    ScanColumn::Substr { .. } => Value::Null,
                }));
            }
        }
        Ok(BatchRest::of(rows.finish()))
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
