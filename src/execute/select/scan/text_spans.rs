//! The scans of `grep('corpus', regex)` and `lines('corpus')`: spans of files with their bytes.
//!
//! Invariant: rows come in order of file, then offset, and errors where a scan of one file after the other would meet them. Files
//! are read in parallel, a few at first, so that a LIMIT ends early; of each file a part of bounded size at a time. Where only the number
//! of matches of each file is wanted, their places are not found.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use zipfdb_search::grep::GrepAutomaton;
use zipfdb_sql::query::{GrepColumn, LinesColumn};
use zipfdb_sql::quote;
use zipfdb_sql::regexp::{ParsedRegexp, parse_with_flags};

use super::super::context::Context;
use super::super::explain::{Answered, Describe, Description};
use super::super::row::{BatchRest, LateError, Operator};
use super::boundary::{Properties, RowOrder, Scan, ScanColumn, ScanRequest, passes};
use super::selection::files_that_pass;
use crate::answer::access_path::about;
use crate::answer::{CorpusReader, FileSpans, SpanPlace, SpanQuestion, SpansOf, TextSpan};
use crate::batch::{Batch, BatchColumn, ColumnBuilder, TextDictionary, text_or_blob};
use crate::expression::{ColumnFilter, from_count};
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::Held;
use crate::segment::cache::Reservation;
use crate::{Error, Result, Value};

/// A value of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpanValue {
    File,
    Offset,
    Length,
    Line,
    Text,
}

/// The columns of matches and of lines by the values that they show, in the order of `*`.
const OF_MATCHES: [SpanValue; GrepColumn::ALL.len()] = [
    SpanValue::File,
    SpanValue::Offset,
    SpanValue::Length,
    SpanValue::Line,
    SpanValue::Text,
];
const OF_LINES: [SpanValue; LinesColumn::ALL.len()] = [
    SpanValue::File,
    SpanValue::Line,
    SpanValue::Offset,
    SpanValue::Length,
    SpanValue::Text,
];

/// Bytes of the files that are read together: at first, and at most.
const BATCH_BYTES: u64 = 1 << 18;
const BATCH_BYTES_MAX: u64 = 1 << 25;

/// The most files that are read together.
const BATCH_FILES_MAX: usize = 1 << 12;

/// Files that are 1/`MOST_SHARE` of the bytes of a corpus are most of it.
const MOST_SHARE: u64 = 8;

/// Memory of the states of an automaton of each thread, in bytes.
const STATES_BYTES: usize = 2 << 20;

/// The memory of compiling an expression, as a multiple of that of one automaton: it is made forwards, and twice backwards.
const COMPILED_COPIES: u64 = 3;

pub(super) struct TextSpansScan {
    reader: CorpusReader,
    question: Arc<SpanQuestion>,
    /// The values of all columns, and those requested.
    all: &'static [SpanValue],
    columns: Vec<SpanValue>,
    /// Conditions on other columns than the file.
    filters: Vec<ColumnFilter>,
    /// Only the number of matches of each file is wanted.
    is_counted: bool,
    /// The counted files, once they are counted.
    counted: Option<BatchRest>,
    /// Files that are not read yet, ascending.
    files: VecDeque<u32>,
    /// The files that were read last, in order, with their next spans.
    found: VecDeque<FoundFile>,
    batch_bytes: u64,
    late: LateError,
    interrupt: Interrupt,
    /// The texts of the last batch.
    held: Held,
    /// The memory of what the search has found of rules.
    taken: Reservation,
    /// The compiled expression.
    _compiled: Option<Held>,
    description: Arc<Answered>,
}

/// A file with some of its spans.
struct FoundFile {
    file: u32,
    /// None once the error was returned.
    spans: Option<Result<std::vec::IntoIter<TextSpan>>>,
    /// Where the others begin; none if there are none.
    rest: Option<SpanPlace>,
}

/// An expression with its flags.
pub(super) struct GrepExpression {
    automaton: GrepAutomaton,
    held: Held,
    shown: String,
}

impl GrepExpression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// If it is no regular expression, or compiling it takes too much memory.
    pub(super) fn new(regex: &str, flags: &str, context: &Context) -> Result<GrepExpression> {
        let invalid = |reason: String| Error::Invalid {
            subject: format!("regular expression {}", quote(regex)),
            reason,
        };
        let memory = &context.values;
        let parsed = parse_with_flags(regex, flags, memory.row_bytes());
        let ParsedRegexp { hir, cost, .. } = parsed.map_err(|fault| {
            invalid(match fault.hint() {
                "" => fault.to_string(),
                hint => format!("{fault}; hint: {hint}"),
            })
        })?;
        context.interrupt.check()?;
        let mut held = memory.hold();
        let what = "a compiled regular expression";
        held.reserve(what, cost.bytes.saturating_mul(COMPILED_COPIES))?;
        let automaton = GrepAutomaton::new(&hir, STATES_BYTES).map_err(invalid)?;
        Ok(GrepExpression {
            automaton,
            held,
            shown: quote(regex),
        })
    }
}

impl TextSpansScan {
    /// The scan of the matches of an expression.
    pub(super) fn matches(
        reader: CorpusReader,
        expression: GrepExpression,
        request: ScanRequest,
        context: &Context,
    ) -> Result<TextSpansScan> {
        let GrepExpression {
            automaton,
            held,
            shown,
        } = expression;
        let of = |_: &[ColumnFilter]| SpansOf::Matches(Box::new(automaton));
        let mut scan = TextSpansScan::new(reader, (&OF_MATCHES, of), request, context, shown)?;
        scan._compiled = Some(held);
        Ok(scan)
    }

    /// The scan of lines.
    pub(super) fn lines(
        reader: CorpusReader,
        request: ScanRequest,
        context: &Context,
    ) -> Result<TextSpansScan> {
        let of = |filters: &[ColumnFilter]| SpansOf::Lines(wanted_lines(filters));
        let shown = "lines".to_owned();
        TextSpansScan::new(reader, (&OF_LINES, of), request, context, shown)
    }

    fn new(
        reader: CorpusReader,
        (all, of): (
            &'static [SpanValue],
            impl FnOnce(&[ColumnFilter]) -> SpansOf,
        ),
        request: ScanRequest,
        context: &Context,
        shown: String,
    ) -> Result<TextSpansScan> {
        let value_of = |column: usize| all.get(column).copied();
        let is_of_file = |filter: &ColumnFilter| value_of(filter.column()) == Some(SpanValue::File);
        let (of_files, filters): (Vec<_>, Vec<_>) =
            request.filters.into_iter().partition(is_of_file);
        let files = files_that_pass(reader.view(), &of_files, request.files.as_deref())?;
        let columns = request.columns.iter().filter_map(|requested| {
            let ScanColumn::Column(column) = requested.column else {
                return None;
            };
            value_of(column)
        });
        let columns: Vec<SpanValue> = columns.collect();
        let needs = |wanted: SpanValue| {
            let of_filter = |filter: &ColumnFilter| value_of(filter.column()) == Some(wanted);
            columns.contains(&wanted) || filters.iter().any(of_filter)
        };
        let memory = context.values.clone();
        let is_whole = request.limit.is_none();
        let mut question = SpanQuestion {
            has_lines: needs(SpanValue::Line),
            has_texts: needs(SpanValue::Text),
            searches_most: is_whole && are_most(&reader, files.numbers()),
            ..SpanQuestion::new(reader.view(), of(&filters), memory)
        };
        let is_counted = is_whole
            && filters.is_empty()
            && columns.iter().all(|column| *column == SpanValue::File)
            && question.make_counter();
        let mut lines = Vec::new();
        if context.is_explained
            && let Some(plan) = question.plan(reader.view())?
        {
            lines.push(format!("path: {} ({})", plan.paths(), about(plan.cost())));
        }
        let description = || {
            let detail = format!("{shown} in {} files", files.len());
            let name = match question.of {
                SpansOf::Matches(_) => "grep",
                SpansOf::Lines(_) => "lines",
            };
            Description {
                lines,
                ..Description::new(name, detail, None)
            }
        };
        Ok(TextSpansScan {
            description: Answered::new(context.is_explained, description),
            question: Arc::new(question),
            all,
            columns,
            filters,
            is_counted,
            counted: None,
            files: files.numbers().iter().copied().collect(),
            found: VecDeque::new(),
            batch_bytes: BATCH_BYTES,
            late: LateError::default(),
            interrupt: context.interrupt.clone(),
            held: context.values.hold(),
            taken: context.reservation(),
            _compiled: None,
            reader,
        })
    }

    /// The files with matches, each as often as it has some.
    fn count(&mut self) -> Result<BatchRest> {
        let (question, description) = (self.question.clone(), self.description.clone());
        let mut files: Vec<u32> = self.files.drain(..).collect();
        let asked = files.clone();
        let counts = self.reader.ask(&self.interrupt, move |view, stop| {
            view.count_matches(&question, &asked, description.until(stop))
        })?;
        self.taken.cover(self.question.bytes());
        let counts = counts.into_iter().collect::<Result<Vec<u64>>>()?;
        let mut times = counts.clone();
        times.retain(|count| *count > 0);
        let mut counts = counts.into_iter();
        files.retain(|_| counts.next().is_some_and(|count| count > 0));
        if self.columns.is_empty() {
            let sum: u64 = times.iter().sum();
            times = (sum > 0).then_some(sum).into_iter().collect();
            files.truncate(times.len());
        }
        if files.is_empty() {
            return Ok(BatchRest::of(None));
        }
        let columns = self.columns.iter().map(|_| BatchColumn::Words {
            indices: files.clone(),
            dictionary: TextDictionary::files(self.reader.view()),
        });
        let batch = Batch::new(columns.collect(), files.len(), Some(times));
        Ok(BatchRest::of(Some(batch)))
    }

    /// Reads the next spans of the file at hand, or of the next files; false if there are no more files.
    fn read(&mut self) -> Result<bool> {
        let mut asked: Vec<(u32, SpanPlace)> = Vec::new();
        if let Some(FoundFile { file, rest, .. }) = self.found.front() {
            asked.extend(rest.map(|rest| (*file, rest)));
            self.found.pop_front();
            if asked.is_empty() {
                return Ok(true);
            }
        } else {
            let mut bytes = 0;
            while bytes < self.batch_bytes
                && asked.len() < BATCH_FILES_MAX
                && let Some(file) = self.files.pop_front()
            {
                bytes += self.reader.view().files()[file as usize].bytes;
                asked.push((file, SpanPlace::default()));
            }
            self.batch_bytes = (2 * self.batch_bytes).min(BATCH_BYTES_MAX);
            if asked.is_empty() {
                return Ok(false);
            }
        }
        let (question, description) = (self.question.clone(), self.description.clone());
        let files: Vec<u32> = asked.iter().map(|&(file, _)| file).collect();
        let found = self.reader.ask(&self.interrupt, move |view, stop| {
            view.spans_of_files(&question, &asked, description.until(stop))
        })?;
        self.taken.cover(self.question.bytes());
        let found = files.into_iter().zip(found).map(|(file, found)| {
            let (spans, rest) = match found {
                Ok(FileSpans { spans, rest }) => (Ok(spans.into_iter()), rest),
                Err(error) => (Err(error), None),
            };
            FoundFile {
                file,
                spans: Some(spans),
                rest,
            }
        });
        for (place, found) in found.enumerate() {
            self.found.insert(place, found);
        }
        Ok(true)
    }

    /// The next span, with its file.
    fn next_span(&mut self) -> Result<Option<(u32, TextSpan)>> {
        loop {
            if let Some(found) = self.found.front_mut() {
                match &mut found.spans {
                    Some(Ok(spans)) => {
                        if let Some(span) = spans.next() {
                            return Ok(Some((found.file, span)));
                        }
                    }
                    failed => {
                        if let Some(Err(error)) = failed.take() {
                            return Err(error);
                        }
                    }
                }
            }
            self.interrupt.check()?;
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    fn value(&self, value: SpanValue, file: u32, span: &TextSpan) -> Value {
        match value {
            SpanValue::File => Value::Text(self.reader.view().files()[file as usize].name.clone()),
            SpanValue::Offset => from_count(span.offset),
            SpanValue::Length => from_count(span.length),
            SpanValue::Line => from_count(span.line),
            SpanValue::Text => text_or_blob(span.text.clone()),
        }
    }

    /// Appends the next rows, up to the limit of memory for texts.
    fn collect(&mut self, rows_max: usize, rows: &mut SpanRows) -> Result<()> {
        self.held.clear();
        let mut bytes = 0;
        while rows.files.len() < rows_max.max(1) && bytes < ROWS_BYTES {
            let Some((file, mut span)) = self.next_span()? else {
                return Ok(());
            };
            if !passes(&self.filters, |column| {
                self.value(self.all[column], file, &span)
            })? {
                continue;
            }
            rows.files.push(file);
            bytes += span.text.len();
            for (column, builder) in self.columns.iter().zip(&mut rows.columns) {
                if *column == SpanValue::File {
                    continue;
                }
                let value = match column {
                    SpanValue::Text => text_or_blob(std::mem::take(&mut span.text)),
                    column => self.value(*column, file, &span),
                };
                self.held.add(&value);
                builder.push(value);
            }
        }
        Ok(())
    }
}

/// The most bytes of texts of a batch, except for those of one row.
const ROWS_BYTES: usize = 1 << 20;

/// The rows of a batch in the making.
struct SpanRows {
    files: Vec<u32>,
    /// Values of other columns than the file.
    columns: Vec<ColumnBuilder>,
}

/// Whether some files are a good part of a corpus: then all of its rules are looked at first.
fn are_most(reader: &CorpusReader, files: &[u32]) -> bool {
    let all = reader.view().files();
    let asked: u64 = files.iter().map(|&file| all[file as usize].bytes).sum();
    asked >= all.iter().map(|file| file.bytes).sum::<u64>() / MOST_SHARE
}

/// The numbers of lines that may pass conditions.
fn wanted_lines(filters: &[ColumnFilter]) -> RangeInclusive<u64> {
    let line = LinesColumn::Line as usize;
    let filter = filters.iter().find(|filter| filter.column() == line);
    let Some(integers) = filter.map(ColumnFilter::integers) else {
        return 1..=u64::MAX;
    };
    let (first, last) = integers.range.clone().into_inner();
    // No line has a number below 1.
    u64::try_from(first).unwrap_or(1).max(1)..=u64::try_from(last).unwrap_or(0)
}

impl Operator for TextSpansScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        if self.is_counted {
            let rest = match &mut self.counted {
                Some(rest) => rest,
                None => {
                    let counted = self.count()?;
                    self.counted.insert(counted)
                }
            };
            return Ok(rest.take(rows_max));
        }
        let mut rows = SpanRows {
            files: Vec::new(),
            columns: Vec::new(),
        };
        (rows.columns).resize_with(self.columns.len(), ColumnBuilder::default);
        let ended = self.collect(rows_max, &mut rows);
        let count = rows.files.len();
        let columns = self.columns.iter().zip(rows.columns);
        let columns = columns.map(|(column, values)| {
            if *column == SpanValue::File {
                BatchColumn::Words {
                    indices: rows.files.clone(),
                    dictionary: TextDictionary::files(self.reader.view()),
                }
            } else {
                values.finish()
            }
        });
        let columns = columns.collect();
        let batch = (count > 0).then(|| Batch::new(columns, count, None));
        self.late.after(batch, ended)
    }
}

impl Scan for TextSpansScan {
    fn properties(&self) -> Properties {
        let place = |wanted| self.columns.iter().position(|&column| column == wanted);
        let is_of_lines = matches!(self.question.of, SpansOf::Lines(_));
        let by_line = place(SpanValue::Line).filter(|_| is_of_lines);
        // No two spans of a file begin at the same offset.
        let keys = [place(SpanValue::File), by_line.or(place(SpanValue::Offset))];
        let is_unique = !self.is_counted && keys.iter().all(Option::is_some);
        let order = keys
            .into_iter()
            .map_while(|column| column.map(RowOrder::ascending));
        Properties {
            order: order.collect(),
            is_unique,
        }
    }

    fn description(&self) -> Arc<dyn Describe> {
        self.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}
