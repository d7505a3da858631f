//! The scan of `files('corpus')`: names and sizes from the file table, content only where it is asked for.
//!
//! Invariant: rows come in order of name, and errors where a scan of one file after the other would meet them.
//! `substr(content, ...)` reads the bytes it gives and no others. Conditions on content that most files of a segment are
//! read for are decided for many of them together, in parallel.

use std::collections::VecDeque;
use std::sync::Arc;

use rayon::prelude::*;
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
use crate::runtime::interrupt::{Interrupt, check};
use crate::runtime::memory::{Held, ValueMemory};
use crate::segment::SegmentView;

pub(super) struct FilesScan {
    content: Arc<Content>,
    /// Files that may pass, by index, in order of name.
    files: Vec<usize>,
    next: usize,
    /// Conditions on names and sizes.
    cheap: Arc<[ColumnFilter]>,
    /// Conditions on content, which is read only if no other fails.
    costly: Arc<[ColumnFilter]>,
    /// Whether all files that may pass are going to be read.
    reads_all: bool,
    /// What was decided of the files from `next` on.
    decided: VecDeque<Result<bool>>,
    /// The content of the last row.
    held: Held,
    description: Arc<Description>,
}

/// Files whose content is decided together.
struct ContentBatch {
    /// The place of the segment that has all of them.
    segment: u32,
    /// By index.
    files: Vec<usize>,
}

/// Bytes of the files of a batch, about.
const BATCH_BYTES: u64 = 1 << 26;

/// Files of more bytes are read alone: a batch holds one for each thread.
const BATCH_FILE_BYTES_MAX: u64 = 1 << 22;

/// Files are decided together if they are at least one in so many bytes of their segment: then all of its roots are
/// worth decoding.
const BATCH_SHARE: u64 = 8;

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
        let is_costly =
            |filter: &ColumnFilter| column_of(filter.column()) == Some(FilesColumn::Content);
        let (costly, cheap): (Vec<_>, Vec<_>) = request.filters.into_iter().partition(is_costly);
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
            cheap: cheap.into(),
            reads_all: !costly.is_empty() && request.limit.is_none(),
            costly: costly.into(),
            decided: VecDeque::new(),
            description: Arc::new(description),
        })
    }
}

impl FilesScan {
    /// Whether the next file passes; decides more files, if that is better done together.
    fn passes(&mut self) -> Result<bool> {
        if let Some(decided) = self.decided.pop_front() {
            return decided;
        }
        let index = self.files[self.next];
        let file = &self.content.snapshot.files()[index];
        if !self.content.all_match(file, &self.cheap)? {
            return Ok(false);
        }
        if self.reads_all
            && let Some(batch) = self.batch()
        {
            let decided = self.content.decide(batch, &self.cheap, &self.costly)?;
            self.decided = decided.into();
            match self.decided.pop_front() {
                Some(decided) => return decided,
                // The segment is damaged: each file says whether that concerns it.
                None => self.reads_all = false,
            }
        }
        let file = &self.content.snapshot.files()[index];
        self.content.all_match(file, &self.costly)
    }

    /// The files from the next one on that are better decided together: they lie in one segment, and with those after them are
    /// a good part of it.
    fn batch(&self) -> Option<ContentBatch> {
        let snapshot = &self.content.snapshot;
        if snapshot.knows_lookups() {
            return None;
        }
        let view = snapshot.view();
        let segment = view.only_segment(self.files[self.next])?;
        let share = view.segments()[segment as usize].text_bytes() / BATCH_SHARE;
        let (mut files, mut bytes) = (Vec::new(), 0);
        for &index in &self.files[self.next..] {
            let file = &snapshot.files()[index];
            let is_alone = file.bytes > BATCH_FILE_BYTES_MAX;
            if is_alone || view.only_segment(index) != Some(segment) {
                break;
            }
            if bytes < BATCH_BYTES {
                files.push(index);
            } else if bytes >= share {
                break;
            }
            match self.content.all_match(file, &self.cheap) {
                Ok(true) => bytes += file.bytes,
                Ok(false) => {}
                Err(_) => break,
            }
        }
        let batch = ContentBatch { segment, files };
        (!batch.files.is_empty() && bytes >= share).then_some(batch)
    }
}

impl Operator for FilesScan {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        while let Some(&index) = self.files.get(self.next) {
            self.held.clear();
            self.content.interrupt.check()?;
            let passes = self.passes();
            self.next += 1;
            if !passes? {
                continue;
            }
            let content = &self.content;
            let file = &content.snapshot.files()[index];
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
    /// Whether a file passes conditions.
    fn all_match(&self, file: &FileSummary, filters: &[ColumnFilter]) -> Result<bool> {
        for filter in filters {
            let column = ScanColumn::Column(filter.column());
            if !filter.matches(&self.value(file, column)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Decides conditions on the content of each file of a batch, in parallel.
    fn decide(
        self: &Arc<Content>,
        batch: ContentBatch,
        cheap: &Arc<[ColumnFilter]>,
        costly: &Arc<[ColumnFilter]>,
    ) -> Result<Vec<Result<bool>>> {
        let (content, cheap, costly) = (self.clone(), cheap.clone(), costly.clone());
        self.snapshot.ask(&self.interrupt, move |view, stop| {
            // What all of them need is made once, and stays until they are decided.
            let segment = SegmentView::of(&view.segments()[batch.segment as usize]);
            if segment.content().is_err() {
                // The scan meets the error at the first file that it concerns.
                return Ok(Vec::new());
            }
            let decide = |&index: &usize| {
                check(stop)?;
                let file = &content.snapshot.files()[index];
                if !content.all_match(file, &cheap)? {
                    return Ok(false);
                }
                let what = format!("the content of \"{}\"", file.name);
                drop(content.memory.buffer(&what, file.bytes)?);
                let value = Value::Blob(view.extract(index, 0, file.bytes)?);
                let mut costly = costly.iter();
                costly.try_fold(true, |passes, filter| Ok(passes && filter.matches(&value)?))
            };
            let decided = batch.files.par_iter().map(decide).collect();
            check(stop)?;
            Ok(decided)
        })
    }

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
