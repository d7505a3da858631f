//! The scan of `files('corpus')`: names and sizes from the file table, content only where it is needed.
//!
//! Invariant: rows come in order of name, and errors where a scan of one file after the other would meet them. `substr(content,
//! ...)` reads only the bytes that it returns. Conditions on content are decided for many files of a segment together, in
//! parallel, if most of them are read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_search::grep::{GrepAutomaton, MatchCounter};
use zipfdb_sql::query::FilesColumn;
use zipfdb_sql::{quote, substr_range};

use super::super::context::Context;
use super::super::explain::{Answered, Describe, Description};
use super::super::row::{LateError, Operator};
use super::boundary::{
    Fetch, Properties, RequestedColumn, RowOrder, Scan, ScanColumn, ScanRequest,
};
use crate::answer::{CorpusReader, FileSummary, SymbolSteps, plan_string};
use crate::batch::{Batch, BatchColumn, ColumnBuilder, TextDictionary};
use crate::expression::{ColumnFilter, NeededLiteral, from_count};
use crate::runtime::interrupt::{Interrupt, check};
use crate::runtime::memory::{Held, ValueMemory};
use crate::segment::SegmentView;
use crate::{Error, Result, Value};

pub(super) struct FilesScan {
    content: Arc<Content>,
    /// Files that may pass, by index, in order of name.
    files: Vec<usize>,
    next: usize,
    /// Conditions on names and sizes.
    cheap: Arc<[ColumnFilter]>,
    /// Conditions on content, which is read only if all others pass.
    costly: Arc<[ColumnFilter]>,
    /// Whether all files that may pass will be read.
    reads_all: bool,
    /// A string that the content of every passing file contains, until files have been searched for it.
    literal: Option<SoughtLiteral>,
    /// Facts on the content of files that are known without reading it.
    known: Arc<KnownContent>,
    /// The decisions on the files from `next` on.
    decided: VecDeque<Result<bool>>,
    /// The content of the last batch.
    held: Held,
    late: LateError,
    description: Arc<Answered>,
}

/// A string to search for in files.
struct SoughtLiteral {
    counter: Arc<MatchCounter>,
    /// Whether all files with the string pass the conditions on content.
    is_enough: bool,
}

/// Facts on the content of files that was not read.
#[derive(Default)]
struct KnownContent {
    /// For each file whether it has the required string; empty if nothing is known.
    has_literal: Vec<Option<bool>>,
    is_enough: bool,
}

impl KnownContent {
    /// Whether a file passes the conditions on content, if that is known.
    fn passes(&self, file: usize) -> Option<bool> {
        match self.has_literal.get(file).copied().flatten() {
            Some(true) if !self.is_enough => None,
            known => known,
        }
    }
}

/// Files whose content is decided together.
struct ContentBatch {
    /// The place of the segment that has all of them.
    segment: u32,
    /// By index.
    files: Vec<usize>,
}

/// Memory of the states of the automaton of a string, which a search for it does not use.
const STATES_BYTES: usize = 1 << 10;

/// Bytes of the files of a batch, about.
const BATCH_BYTES: u64 = 1 << 26;

/// Larger files are read alone: a batch holds one for each thread.
const BATCH_FILE_BYTES_MAX: u64 = 1 << 22;

/// Files are decided together if they are at least 1/`BATCH_SHARE` of the bytes of their segment: then decoding all of its roots
/// pays.
const BATCH_SHARE: u64 = 8;

/// Reads files.
struct Content {
    reader: CorpusReader,
    columns: Vec<RequestedColumn>,
    interrupt: Interrupt,
    memory: ValueMemory,
}

/// Reads the deferred columns of the scan.
struct Deferred {
    /// The columns, by index.
    columns: Vec<usize>,
    content: Arc<Content>,
    /// The content read since `forget`.
    held: Held,
}

impl FilesScan {
    pub(super) fn new(
        reader: CorpusReader,
        request: ScanRequest,
        context: &Context,
    ) -> Result<FilesScan> {
        let names = request
            .filters
            .iter()
            .find(|filter| column_of(filter.column()) == Some(FilesColumn::File))
            .and_then(ColumnFilter::values);
        let mut files: Vec<usize> = match (names, &request.files) {
            (None, Some(among)) => among.iter().map(|&file| file as usize).collect(),
            (None, None) => (0..reader.view().files().len()).collect(),
            (Some(names), _) => {
                let found = names.iter().filter_map(|name| match name {
                    Value::Text(name) => reader.view().find_file(name),
                    _ => None,
                });
                found.collect()
            }
        };
        if let Some(among) = &request.files {
            // Files are numbered by u32.
            files.retain(|&file| among.binary_search(&(file as u32)).is_ok());
        }
        let names_count = names.map(<[_]>::len);
        let is_costly =
            |filter: &ColumnFilter| column_of(filter.column()) == Some(FilesColumn::Content);
        let (costly, cheap): (Vec<_>, Vec<_>) = request.filters.into_iter().partition(is_costly);
        let reads_all = !costly.is_empty() && request.limit.is_none();
        let needed = costly.iter().find_map(ColumnFilter::literal);
        let literal = needed.filter(|_| reads_all).and_then(|needed| {
            let NeededLiteral {
                bytes,
                ignores_case,
                is_enough,
            } = needed;
            let automaton = GrepAutomaton::of_literal(bytes, *ignores_case, STATES_BYTES).ok()?;
            Some(SoughtLiteral {
                counter: Arc::new(automaton.counter()?),
                is_enough: *is_enough && costly.len() == 1,
            })
        });
        let plan = |sought: &SoughtLiteral| plan_string(&sought.counter, &reader);
        let plan = literal.as_ref().map(plan).transpose()?;
        let count = files.len() as u64;
        let description = || {
            let detail = match names_count {
                Some(names) => format!("{names} names"),
                None => "all files".to_owned(),
            };
            Description {
                lines: plan.map_or_else(Vec::new, |plan| plan.lines(None)),
                ..Description::new("files", detail, Some(count))
            }
        };
        Ok(FilesScan {
            content: Arc::new(Content {
                reader,
                columns: request.columns,
                interrupt: context.interrupt.clone(),
                memory: context.values.clone(),
            }),
            held: context.values.hold(),
            late: LateError::default(),
            files,
            next: 0,
            cheap: cheap.into(),
            reads_all,
            literal,
            known: Arc::default(),
            costly: costly.into(),
            decided: VecDeque::new(),
            description: Answered::new(context.is_explained, description),
        })
    }
}

impl FilesScan {
    /// Whether the next file passes; decides more files where it is better done together.
    fn passes(&mut self) -> Result<bool> {
        if let Some(decided) = self.decided.pop_front() {
            return decided;
        }
        let index = self.files[self.next];
        if !self.content.all_match(index, &self.cheap)? {
            return Ok(false);
        }
        if let Some(sought) = self.literal.take()
            && self.is_worth_seeking()
        {
            self.known = Arc::new(self.content.seek(sought, &self.description)?);
        }
        if let Some(passes) = self.known.passes(index) {
            return Ok(passes);
        }
        if self.reads_all
            && let Some(batch) = self.batch()
        {
            let known = &self.known;
            let decided = (self.content).decide(batch, known, &self.cheap, &self.costly)?;
            self.decided = decided.into();
            match self.decided.pop_front() {
                Some(decided) => return decided,
                // The segment is damaged: each file that is concerned reports it.
                None => self.reads_all = false,
            }
        }
        self.content.all_match(index, &self.costly)
    }

    /// Whether the files from the next one on are a good part of all.
    fn is_worth_seeking(&self) -> bool {
        let reader = &self.content.reader;
        let all: u64 = reader.view().files().iter().map(|file| file.bytes).sum();
        let mut bytes = 0;
        let mut files = self.files[self.next..].iter();
        !reader.knows_lookups()
            && files.any(|&index| {
                let file = &reader.view().files()[index];
                // An error is reported when it is the file's turn.
                if matches!(self.content.all_match(index, &self.cheap), Ok(true)) {
                    bytes += file.bytes;
                }
                bytes > all / BATCH_SHARE
            })
    }

    /// The next files that are better decided together: they lie in one segment, and with those after them are a good part of it.
    fn batch(&self) -> Option<ContentBatch> {
        let reader = &self.content.reader;
        if reader.knows_lookups() {
            return None;
        }
        let view = reader.view();
        let segment = view.only_segment(self.files[self.next])?;
        let share = view.segments()[segment as usize].text_bytes() / BATCH_SHARE;
        let (mut files, mut bytes) = (Vec::new(), 0);
        for &index in &self.files[self.next..] {
            let file = &reader.view().files()[index];
            let is_alone = file.bytes > BATCH_FILE_BYTES_MAX;
            if is_alone || view.only_segment(index) != Some(segment) {
                break;
            }
            if bytes < BATCH_BYTES {
                files.push(index);
            } else if bytes >= share {
                break;
            }
            match self.content.all_match(index, &self.cheap) {
                Ok(true) if self.known.passes(index).is_none() => bytes += file.bytes,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        let batch = ContentBatch { segment, files };
        (!batch.files.is_empty() && bytes >= share).then_some(batch)
    }
}

impl FilesScan {
    /// Appends the values of the next files, up to the limit of memory for content.
    fn collect(&mut self, rows_max: usize, rows: &mut FileRows) -> Result<()> {
        self.held.clear();
        let content = self.content.clone();
        let mut bytes = 0;
        while rows.count < rows_max.max(1)
            && let Some(&index) = self.files.get(self.next)
        {
            content.interrupt.check()?;
            let file = &content.reader.view().files()[index];
            bytes += content.bytes(file);
            if rows.count > 0 && bytes > ROWS_BYTES {
                return Ok(());
            }
            let passes = self.passes();
            self.next += 1;
            if !passes? {
                bytes -= content.bytes(file);
                continue;
            }
            let mut values = Vec::with_capacity(content.columns.len());
            for requested in &content.columns {
                let value = content.shown(index, requested)?;
                self.held.add(&value);
                values.push(value);
            }
            rows.columns
                .resize_with(values.len(), ColumnBuilder::default);
            let pairs = rows.columns.iter_mut().zip(values);
            pairs.for_each(|(column, value)| column.push(value));
            // Files are numbered by u32.
            rows.files.push(index as u32);
            rows.count += 1;
        }
        Ok(())
    }
}

/// The rows of a batch in the making.
#[derive(Default)]
struct FileRows {
    /// By index.
    files: Vec<u32>,
    /// Values of other columns than the name.
    columns: Vec<ColumnBuilder>,
    count: usize,
}

impl Operator for FilesScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        let mut rows = FileRows::default();
        let ended = self.collect(rows_max, &mut rows);
        rows.columns
            .resize_with(self.content.columns.len(), ColumnBuilder::default);
        let columns = self.content.columns.iter().zip(rows.columns);
        let columns = columns.map(|(requested, values)| {
            if is_name(requested) {
                BatchColumn::Words {
                    indices: rows.files.clone(),
                    dictionary: TextDictionary::files(self.content.reader.view()),
                }
            } else {
                values.finish()
            }
        });
        let columns: Vec<BatchColumn> = columns.collect();
        let batch = (rows.count > 0).then(|| Batch::new(columns, rows.count, None));
        self.late.after(batch, ended)
    }
}

/// The most bytes of content in memory together, except for that of one file.
const ROWS_BYTES: u64 = 1 << 20;

impl Scan for FilesScan {
    fn properties(&self) -> Properties {
        let name = self.content.columns.iter().position(is_name);
        let order = name.map(RowOrder::ascending);
        Properties {
            is_unique: order.is_some(),
            order: order.into_iter().collect(),
        }
    }

    fn fetch(&self) -> Option<Box<dyn Fetch>> {
        let columns = self.content.columns.iter().enumerate();
        let deferred = columns.filter(|(_, requested)| requested.is_deferred);
        let deferred = Deferred {
            columns: deferred.map(|(column, _)| column).collect(),
            content: self.content.clone(),
            held: self.content.memory.hold(),
        };
        (!deferred.columns.is_empty()).then(|| Box::new(deferred) as Box<dyn Fetch>)
    }

    fn description(&self) -> Arc<dyn Describe> {
        self.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}

impl Fetch for Deferred {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn bytes(&self, column: usize, stand_in: &Value) -> u64 {
        match stand_in {
            // The scan put the index of a file there.
            Value::Integer(index) => {
                let file = self.content.file(*index as usize);
                self.content
                    .length(file, self.content.columns[column].column)
            }
            _ => 0,
        }
    }

    fn value(&mut self, column: usize, stand_in: &Value) -> Result<Value> {
        let content = &self.content;
        let Value::Integer(index) = stand_in else {
            return Ok(stand_in.clone());
        };
        let value = content.value(*index as usize, content.columns[column].column)?;
        self.held.add(&value);
        Ok(value)
    }

    fn forget(&mut self) {
        self.held.clear();
    }
}

/// Whether a column is that of names.
fn is_name(requested: &RequestedColumn) -> bool {
    matches!(requested.column, ScanColumn::Column(column)
        if column_of(column) == Some(FilesColumn::File))
}

impl Content {
    fn file(&self, index: usize) -> &FileSummary {
        &self.reader.view().files()[index]
    }

    /// Whether a file passes conditions.
    fn all_match(&self, file: usize, filters: &[ColumnFilter]) -> Result<bool> {
        for filter in filters {
            let column = ScanColumn::Column(filter.column());
            if !filter.matches(&self.value(file, column)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Searches all files for a string.
    fn seek(&self, sought: SoughtLiteral, log: &Arc<Answered>) -> Result<KnownContent> {
        let (counter, log) = (sought.counter, log.clone());
        let found = self.reader.ask(&self.interrupt, move |view, stop| {
            let steps = SymbolSteps::of_segments(view);
            // Files are numbered by u32.
            let files: Vec<u32> = (0..view.files().len() as u32).collect();
            match view.match_counts(&counter, &files, &steps, log.until(stop)) {
                Err(error @ (Error::Interrupted | Error::Timeout { .. })) => Err(error),
                // The scan meets the error of a damaged segment at the first file that it concerns.
                Err(_) => Ok(Vec::new()),
                Ok(counts) => {
                    let counts = counts.into_iter();
                    Ok(counts.map(|count| count.map(|count| count > 0)).collect())
                }
            }
        });
        Ok(KnownContent {
            has_literal: found?,
            is_enough: sought.is_enough,
        })
    }

    /// Decides conditions on the content of each file of a batch, in parallel.
    fn decide(
        self: &Arc<Content>,
        batch: ContentBatch,
        known: &Arc<KnownContent>,
        cheap: &Arc<[ColumnFilter]>,
        costly: &Arc<[ColumnFilter]>,
    ) -> Result<Vec<Result<bool>>> {
        let (content, known) = (self.clone(), known.clone());
        let (cheap, costly) = (cheap.clone(), costly.clone());
        self.reader.ask(&self.interrupt, move |view, stop| {
            // Shared structures are made once, and stay until all files are decided.
            let segment = SegmentView::of(&view.segments()[batch.segment as usize]);
            if segment.prepare_extracts().is_err() {
                // The scan meets the error at the first file that it concerns.
                return Ok(Vec::new());
            }
            let decide = |&index: &usize| {
                check(stop)?;
                let file = &content.reader.view().files()[index];
                if !content.all_match(index, &cheap)? {
                    return Ok(false);
                }
                if let Some(passes) = known.passes(index) {
                    return Ok(passes);
                }
                let what = format!("the content of {}", quote(&file.name));
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

    /// The value before content is read: the index of a file for a deferred column. Names are made of it.
    fn shown(&self, index: usize, requested: &RequestedColumn) -> Result<Value> {
        if requested.is_deferred || is_name(requested) {
            Ok(from_count(index as u64))
        } else {
            self.value(index, requested.column)
        }
    }

    /// Bytes of content in the row of a file.
    fn bytes(&self, file: &FileSummary) -> u64 {
        let columns = self.columns.iter();
        let columns = columns.filter(|requested| !requested.is_deferred);
        let lengths = columns.map(|requested| self.length(file, requested.column));
        lengths.fold(0, u64::saturating_add)
    }

    /// Bytes of the content of a file in a column.
    fn length(&self, file: &FileSummary, column: ScanColumn) -> u64 {
        match content_range(file, column) {
            Some(range) => range.end - range.start,
            None => 0,
        }
    }

    fn value(&self, index: usize, column: ScanColumn) -> Result<Value> {
        let file = self.file(index);
        let Some(range) = content_range(file, column) else {
            let ScanColumn::Column(column) = column else {
                return Ok(Value::Null);
            };
            return Ok(match column_of(column) {
                Some(FilesColumn::File) => Value::Text(file.name.clone()),
                Some(FilesColumn::Bytes) => from_count(file.bytes),
                Some(FilesColumn::Words) => from_count(file.words),
                Some(FilesColumn::Content) | None => Value::Null,
            });
        };
        let length = range.end - range.start;
        // Reading takes the same memory, and cannot report a lack of it.
        let what = format!("the content of {}", quote(&file.name));
        drop(self.memory.buffer(&what, length)?);
        let bytes = self
            .reader
            .extract(index, range.start, length, &self.interrupt)?;
        Ok(Value::Blob(bytes))
    }
}

/// The bytes of a file in a column; none if it has no content.
fn content_range(file: &FileSummary, column: ScanColumn) -> Option<Range<u64>> {
    match column {
        ScanColumn::Substr { start, length } => Some(substr_range(start, length, file.bytes)),
        ScanColumn::Excerpt(_) => None,
        ScanColumn::Column(column) => {
            let is_content = column_of(column) == Some(FilesColumn::Content);
            is_content.then_some(0..file.bytes)
        }
    }
}

fn column_of(index: usize) -> Option<FilesColumn> {
    FilesColumn::ALL.get(index).copied()
}
