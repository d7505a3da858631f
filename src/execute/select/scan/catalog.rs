//! The scans of `corpora()`, `segments('corpus')`, `indexes('corpus')`, `caches('corpus')`, `devices()`, `rejects()` and
//! `settings()`: a few
//! rows that are made at once.
//!
//! Invariant: no part of a segment is decoded.

use std::sync::Arc;

use zipfdb_kernels::PostingsCodec;
use zipfdb_sql::query::{
    CachesColumn, CorporaColumn, DevicesColumn, IndexesColumn, RejectsColumn, SegmentsColumn,
    SettingsColumn,
};
use zipfdb_storage::{IndexHeader, IndexKind, IndexRecord, PathText, SegmentInfo};

use super::super::context::Context;
use super::super::explain::{Describe, Description};
use super::super::row::{BatchRest, Operator, RowCollector};
use super::boundary::{Scan, ScanColumn, ScanRequest, passes};
use crate::answer::CorpusReader;
use crate::batch::Batch;
use crate::expression::from_count;
use crate::handles::corpus::Corpus;
use crate::handles::session::Session;
use crate::runtime::settings::{Settings, value_text};
use crate::segment::StructureKind;
use crate::{Result, Value};

/// Returns rows that were made before.
pub(super) struct RowsScan {
    rows: BatchRest,
    description: Arc<Description>,
}

impl RowsScan {
    /// A scan of `count` rows; `value` returns a value by row and column.
    fn new(
        name: &'static str,
        request: &ScanRequest,
        context: &Context,
        count: usize,
        value: impl Fn(usize, usize) -> Value,
    ) -> Result<RowsScan> {
        let mut rows = RowCollector::default();
        let mut passing = 0;
        for row in 0..count {
            context.interrupt.check()?;
            if !passes(&request.filters, |column| value(row, column))? {
                continue;
            }
            let columns = request.columns.iter();
            rows.push(columns.map(|requested| match requested.column {
                ScanColumn::Column(column) => value(row, column),
                ScanColumn::Substr { .. } | ScanColumn::Excerpt(_) => Value::Null,
            }));
            passing += 1;
        }
        let description = Description::new(name, String::new(), Some(passing));
        Ok(RowsScan {
            rows: BatchRest::of(rows.finish()),
            description: Arc::new(description),
        })
    }
}

impl Operator for RowsScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        Ok(self.rows.take(rows_max))
    }
}

impl Scan for RowsScan {
    fn description(&self) -> Arc<dyn Describe> {
        self.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}

/// The scan of `corpora()`.
pub(super) fn corpora(
    session: &Arc<Session>,
    request: ScanRequest,
    context: &Context,
) -> Result<RowsScan> {
    struct Item {
        name: String,
        tokenizer: &'static str,
        reader: CorpusReader,
        segments: Vec<SegmentInfo>,
        pending: u64,
        recompressed: Option<f64>,
        recompress_error: Option<String>,
    }
    let mut items = Vec::new();
    for name in session.corpora() {
        context.interrupt.check()?;
        let corpus = session.corpus(&name)?;
        items.push(Item {
            tokenizer: corpus.settings()?.tokenizer.name(),
            reader: session.reader(&name, &context.interrupt)?,
            name,
            segments: corpus.segments()?,
            pending: corpus.pending_bytes()?,
            recompressed: corpus.recompressed_share()?,
            recompress_error: corpus.recompress_error()?,
        });
    }
    RowsScan::new("corpora", &request, context, items.len(), |row, column| {
        let item = &items[row];
        let size = item.segments.iter().map(|segment| segment.size).sum();
        let bytes = item
            .reader
            .view()
            .files()
            .iter()
            .map(|file| file.bytes)
            .sum();
        match CorporaColumn::ALL.get(column) {
            Some(CorporaColumn::Corpus) => Value::Text(item.name.clone()),
            Some(CorporaColumn::Tokenizer) => Value::from(item.tokenizer),
            Some(CorporaColumn::Segments) => from_count(item.segments.len() as u64),
            Some(CorporaColumn::Files) => from_count(item.reader.view().files().len() as u64),
            Some(CorporaColumn::Bytes) => from_count(bytes),
            Some(CorporaColumn::Words) => from_count(item.reader.view().total_words()),
            Some(CorporaColumn::Size) => from_count(size),
            Some(CorporaColumn::Ratio) => ratio(size, bytes),
            Some(CorporaColumn::Pending) => from_count(item.pending),
            Some(CorporaColumn::Recompressed) => share(item.recompressed),
            Some(CorporaColumn::RecompressError) => {
                (item.recompress_error.clone()).map_or(Value::Null, Value::Text)
            }
            None => Value::Null,
        }
    })
}

/// The scan of `segments('corpus')`.
pub(super) fn segments(
    corpus: &Corpus,
    request: ScanRequest,
    context: &Context,
) -> Result<RowsScan> {
    let segments = corpus.segments()?;
    let shares = segments.iter().map(|segment| {
        let underway = &corpus.shared().runtime.underway;
        underway.of_segment(segment.segment_id)
    });
    let shares: Vec<Option<f64>> = shares.collect();
    RowsScan::new(
        "segments",
        &request,
        context,
        segments.len(),
        |row, column| {
            let segment = &segments[row];
            let Some(stored) = SegmentsColumn::ALL.get(column) else {
                // The sections follow the columns.
                let section = segment.sections.get(column - SegmentsColumn::ALL.len());
                return section.map_or(Value::Null, |(_, size)| from_count(*size));
            };
            match stored {
                SegmentsColumn::Segment => from_count(segment.segment_id),
                SegmentsColumn::Files => from_count(segment.files.into()),
                SegmentsColumn::Bytes => from_count(segment.bytes),
                SegmentsColumn::Words => from_count(segment.words),
                SegmentsColumn::Size => from_count(segment.size),
                SegmentsColumn::Tokens => from_count(segment.tokens.into()),
                SegmentsColumn::Rules => from_count(segment.rules.into()),
                SegmentsColumn::Depth => from_count(segment.levels.into()),
                SegmentsColumn::Symbols => from_count(segment.symbols),
                SegmentsColumn::RootSymbols => from_count(segment.root_symbols),
                SegmentsColumn::Ratio => ratio(segment.size, segment.bytes),
                SegmentsColumn::Recompressed => share(shares[row]),
                SegmentsColumn::Form => Value::from(segment.form.name()),
            }
        },
    )
}

/// The scan of `indexes('corpus')`.
pub(super) fn indexes(
    reader: &CorpusReader,
    records: Vec<IndexRecord>,
    request: ScanRequest,
    context: &Context,
) -> Result<RowsScan> {
    struct Item {
        record: IndexRecord,
        segment: Option<u64>,
        file: Option<(IndexHeader, u64)>,
        uses: u64,
    }
    let view = reader.view();
    let of_segments = view.segments().iter().flat_map(|live| {
        let indexes = live.indexes().into_iter();
        indexes.map(|index| Item {
            segment: Some(live.id()),
            file: live.index_header(&index),
            uses: index.uses(),
            record: index.record.clone(),
        })
    });
    let mut items: Vec<Item> = of_segments.collect();
    if view.segments().is_empty() {
        items.extend(records.into_iter().map(|record| Item {
            record,
            segment: None,
            file: None,
            uses: 0,
        }));
    }
    items.sort_by(|left, right| {
        (&left.record.name, left.segment).cmp(&(&right.record.name, right.segment))
    });
    RowsScan::new("indexes", &request, context, items.len(), |row, column| {
        let item = &items[row];
        let header = item.file.as_ref();
        match IndexesColumn::ALL.get(column) {
            Some(IndexesColumn::Index) => Value::Text(item.record.name.clone()),
            Some(IndexesColumn::Kind) => Value::from(item.record.kind.name()),
            // The other kinds of indexes have no such options.
            Some(IndexesColumn::Codec | IndexesColumn::Unit | IndexesColumn::Reorder)
                if item.record.kind != IndexKind::Postings =>
            {
                Value::Null
            }
            Some(IndexesColumn::Codec) => {
                let codec = PostingsCodec::from_number(item.record.codec);
                Value::from(codec.map_or("auto", PostingsCodec::name))
            }
            Some(IndexesColumn::Unit) => match item.record.unit {
                0 => Value::from("file"),
                words => Value::Text(format!("block:{words}")),
            },
            Some(IndexesColumn::Reorder) => Value::from(if item.record.is_reordered {
                "on"
            } else {
                "off"
            }),
            Some(IndexesColumn::Segment) => item.segment.map_or(Value::Null, from_count),
            Some(IndexesColumn::Bytes) => header.map_or(Value::Null, |(_, size)| from_count(*size)),
            Some(IndexesColumn::BuildTime) => header.map_or(Value::Null, |(header, _)| {
                // Nanoseconds below 2^53 are exact.
                Value::Real(header.build_time as f64 / 1e6)
            }),
            Some(IndexesColumn::Uses) => from_count(item.uses),
            None => Value::Null,
        }
    })
}

/// The scan of `caches('corpus')`.
pub(super) fn caches(
    reader: &CorpusReader,
    request: ScanRequest,
    context: &Context,
) -> Result<RowsScan> {
    let view = reader.view();
    let of_corpus = view.stored().cached();
    let of_corpus = of_corpus.map(|(kind, facts)| (None, kind, facts));
    let of_segments = view.segments().iter().flat_map(|segment| {
        let facts = segment.slots().facts().into_iter();
        facts.map(|facts| {
            (
                Some(segment.id()),
                StructureKind::ALL[facts.index].name(),
                facts,
            )
        })
    });
    let cached: Vec<_> = of_corpus.chain(of_segments).collect();
    RowsScan::new("caches", &request, context, cached.len(), |row, column| {
        let (segment, kind, facts) = cached[row];
        match CachesColumn::ALL.get(column) {
            Some(CachesColumn::Segment) => segment.map_or(Value::Null, from_count),
            Some(CachesColumn::Kind) => Value::from(kind),
            Some(CachesColumn::Bytes) => from_count(facts.bytes),
            // Nanoseconds below 2^53 are exact.
            Some(CachesColumn::Price) => Value::Real(facts.price as f64 / 1e6),
            Some(CachesColumn::Uses) => from_count(facts.uses),
            None => Value::Null,
        }
    })
}

/// The scan of `devices()`.
pub(super) fn devices(
    session: &Arc<Session>,
    request: ScanRequest,
    context: &Context,
) -> Result<RowsScan> {
    let devices = session.shared().runtime.devices.all();
    RowsScan::new(
        "devices",
        &request,
        context,
        devices.len(),
        |row, column| {
            let device = &devices[row];
            let facts = device.facts();
            match DevicesColumn::ALL.get(column) {
                Some(DevicesColumn::Device) => Value::Text(facts.name.clone()),
                Some(DevicesColumn::Model) => Value::Text(facts.model.clone()),
                Some(DevicesColumn::Architecture) => Value::Text(facts.architecture.clone()),
                Some(DevicesColumn::Memory) => from_count(facts.memory),
                Some(DevicesColumn::MemoryLimit) => from_count(device.memory_limit()),
                Some(DevicesColumn::Used) => from_count(device.memory_used()),
                Some(DevicesColumn::Resident) => from_count(device.segments()),
                Some(DevicesColumn::Failures) => from_count(device.failures()),
                None => Value::Null,
            }
        },
    )
}

/// The scan of `rejects()`.
pub(super) fn rejects(
    session: &Session,
    request: ScanRequest,
    context: &Context,
) -> Result<RowsScan> {
    let rejects = session.rejects();
    let number = |number: u64| match number {
        0 => Value::Null,
        number => from_count(number),
    };
    RowsScan::new(
        "rejects",
        &request,
        context,
        rejects.len(),
        |row, column| {
            let reject = &rejects[row];
            match RejectsColumn::ALL.get(column) {
                Some(RejectsColumn::File) => Value::Text(PathText(&reject.path).to_string()),
                Some(RejectsColumn::Line) => number(reject.line),
                Some(RejectsColumn::Column) => number(reject.column),
                Some(RejectsColumn::Error) => Value::from(reject.reason.as_str()),
                None => Value::Null,
            }
        },
    )
}

/// The scan of `settings()`.
pub(super) fn settings(request: ScanRequest, context: &Context) -> Result<RowsScan> {
    let (now, defaults) = (context.settings.list(), Settings::default().list());
    RowsScan::new("settings", &request, context, now.len(), |row, column| {
        let (setting, description) = now[row];
        match SettingsColumn::ALL.get(column) {
            Some(SettingsColumn::Setting) => Value::from(setting.name()),
            Some(SettingsColumn::Value) => Value::Text(value_text(setting)),
            Some(SettingsColumn::Default) => Value::Text(value_text(defaults[row].0)),
            Some(SettingsColumn::Description) => Value::from(description),
            None => Value::Null,
        }
    })
}

fn share(done: Option<f64>) -> Value {
    done.map_or(Value::Null, Value::Real)
}

fn ratio(size: u64, bytes: u64) -> Value {
    match bytes {
        0 => Value::Null,
        bytes => Value::Real(size as f64 / bytes as f64),
    }
}
