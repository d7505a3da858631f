//! The scan of `files('corpus')`: names and sizes from the file table, content only where it is asked for.
//!
//! Invariant: rows come in order of name. `substr(content, ...)` reads the bytes it gives and no others.

use std::sync::Arc;

use zipfdb_sql::query::FilesColumn;
use zipfdb_sql::substr_range;

use super::super::context::Context;
use super::super::explain::{Describe, Description};
use super::super::row::{Operator, WeightedRow};
use super::boundary::{
    ColumnOrder, Fetch, Properties, RequestedColumn, Scan, ScanColumn, ScanRequest,
};
use crate::Result;
use crate::Value;
use crate::answer::FileSummary;
use crate::api::snapshot::Snapshot;
use crate::expression::{ColumnFilter, from_count};
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::{Held, ValueMemory};

pub(super) struct FilesScan {
    content: Arc<Content>,
    /// Files that may pass, by index, in order of name.
    files: Vec<usize>,
    next: usize,
    filters: Vec<ColumnFilter>,
    /// The content of the last row.
    held: Held,
    description: Arc<Description>,
}

/// Reads files.
struct Content {
    snapshot: Snapshot,
    columns: Vec<RequestedColumn>,
    interrupt: Interrupt,
    memory: ValueMemory,
}

/// Reads what the scan has deferred.
struct Deferred {
    content: Arc<Content>,
    /// The content of the last row.
    held: Held,
}

impl FilesScan {
    pub(super) fn new(
        snapshot: Snapshot,
        request: ScanRequest,
        context: &Context,
    ) -> Result<FilesScan> {
        let names = request
            .filters
            .iter()
            .find(|filter| column_of(filter.column()) == Some(FilesColumn::File))
            .and_then(ColumnFilter::values);
        let files: Vec<usize> = match names {
            None => (0..snapshot.files().len()).collect(),
            Some(names) => {
                let found = names.iter().filter_map(|name| match name {
                    Value::Text(name) => snapshot
                        .files()
                        .binary_search_by(|file| file.name.as_str().cmp(name))
                        .ok(),
                    _ => None,
                });
                found.collect()
            }
        };
        let detail = match names {
            Some(names) => format!("{} names", names.len()),
            None => "all files".to_owned(),
        };
        let description = Description::new("files", detail, Some(files.len() as u64));
        Ok(FilesScan {
            content: Arc::new(Content {
                snapshot,
                columns: request.columns,
                interrupt: context.interrupt.clone(),
                memory: context.values.clone(),
            }),
            held: context.values.hold(),
            files,
            next: 0,
            filters: request.filters,
            description: Arc::new(description),
        })
    }
}

impl Operator for FilesScan {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        while let Some(&index) = self.files.get(self.next) {
            self.next += 1;
            self.held.clear();
            let content = &self.content;
            content.interrupt.check()?;
            let file = &content.snapshot.files()[index];
            // Content is read for a condition only if no other fails.
            let (costly, cheap): (Vec<_>, Vec<_>) = self
                .filters
                .iter()
                .partition(|filter| column_of(filter.column()) == Some(FilesColumn::Content));
            let is_out = |filters: &[&ColumnFilter]| -> Result<bool> {
                for filter in filters {
                    let column = ScanColumn::Column(filter.column());
                    if !filter.matches(&content.value(file, column)?)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            };
            if is_out(&cheap)? || is_out(&costly)? {
                continue;
            }
            let mut values = Vec::with_capacity(content.columns.len());
            for requested in &content.columns {
                let value = match requested.is_deferred {
                    true => from_count(index as u64),
                    false => content.value(file, requested.column)?,
                };
                self.held.add(&value);
                values.push(value);
            }
            return Ok(Some(WeightedRow { values, times: 1 }));
        }
        Ok(None)
    }
}

impl Scan for FilesScan {
    fn properties(&self) -> Properties {
        let columns = &self.content.columns;
        let name = columns.iter().position(|requested| {
            matches!(requested.column, ScanColumn::Column(column)
                if column_of(column) == Some(FilesColumn::File))
        });
        let order = name.map(|column| ColumnOrder {
            column,
            descending: false,
        });
        Properties {
            is_unique: order.is_some(),
            order: order.into_iter().collect(),
        }
    }

    fn fetch(&self) -> Option<Box<dyn Fetch>> {
        let mut columns = self.content.columns.iter();
        let defers = columns.any(|requested| requested.is_deferred);
        let deferred = defers.then(|| Deferred {
            content: self.content.clone(),
            held: self.content.memory.hold(),
        });
        deferred.map(|deferred| Box::new(deferred) as Box<dyn Fetch>)
    }

    fn description(&self) -> Arc<dyn Describe> {
        self.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}

impl Fetch for Deferred {
    fn fetch(&mut self, row: &mut [Value]) -> Result<()> {
        let content = &self.content;
        self.held.clear();
        for (value, requested) in row.iter_mut().zip(&content.columns) {
            if let (true, Value::Integer(index)) = (requested.is_deferred, &*value) {
                // The scan put the index of a file there.
                let file = &content.snapshot.files()[*index as usize];
                *value = content.value(file, requested.column)?;
                self.held.add(value);
            }
        }
        Ok(())
    }
}

impl Content {
    fn value(&self, file: &FileSummary, column: ScanColumn) -> Result<Value> {
        let range = match column {
            ScanColumn::Substr { start, length } => substr_range(start, length, file.bytes),
            ScanColumn::Column(column) => match column_of(column) {
                None => return Ok(Value::Null),
                Some(FilesColumn::File) => return Ok(Value::Text(file.name.clone())),
                Some(FilesColumn::Bytes) => return Ok(from_count(file.bytes)),
                Some(FilesColumn::Words) => return Ok(from_count(file.words)),
                Some(FilesColumn::Content) => 0..file.bytes,
            },
        };
        let length = range.end - range.start;
        // Reading takes as much, and has no error for memory that is not there.
        let what = format!("the content of \"{}\"", file.name);
        drop(self.memory.buffer(&what, length)?);
        let bytes =
            (self.snapshot).extract_until(&file.name, range.start, length, &self.interrupt)?;
        Ok(Value::Blob(bytes))
    }
}

fn column_of(index: usize) -> Option<FilesColumn> {
    FilesColumn::ALL.get(index).copied()
}
