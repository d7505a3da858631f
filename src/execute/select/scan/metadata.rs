//! Metadata of files beside the rows of any relation that names a file in each row.
//!
//! Conditions on metadata are decided once for each file, before the scan is opened: they become the files that its rows may be of.
//! Columns are gathered by the number of the file that a row names; the scan below is asked for this column, and merges rows by it.
//! Rows of statistics are of many files: conditions choose these, and there are no columns.
//! Invariant: the rows are those of the scan below, with columns that depend on the file alone. Other scans know metadata only where
//! they group by it.

use std::borrow::Cow;
use std::sync::Arc;

use zipfdb_sql::query::{MetadataColumn, Relation};
use zipfdb_sql::quote;

use super::super::context::Context;
use super::super::explain::Describe;
use super::super::row::{ENTRIES_SHARE, Operator};
use super::boundary::{
    Fetch, FileConditions, OrderKey, Properties, RequestedColumn, RowOrder, Scan, ScanColumn,
    ScanRequest,
};
use crate::answer::{CorpusReader, CorpusView, FileColumn, FileColumnValues};
use crate::batch::{BATCH_ROWS, Batch, BatchColumn, TextDictionary};
use crate::expression::{ColumnFilter, Evaluator};
use crate::handles::session::Session;
use crate::{Error, Result, Value};

/// The source of a column of the rows.
enum ColumnSource {
    /// A column of the scan below, by index.
    Below(usize),
    /// Metadata of the file.
    Metadata(GatheredColumn),
}

/// A column of metadata, and its texts as a dictionary.
struct GatheredColumn {
    column: Arc<FileColumn>,
    dictionary: Option<TextDictionary>,
}

/// A scan with metadata.
struct MetadataScan {
    below: Box<dyn Scan>,
    reader: CorpusReader,
    /// By column of the rows.
    sources: Vec<ColumnSource>,
    /// The column of the scan below that names the file.
    file: usize,
    /// The number of columns of the scan below.
    width: usize,
    /// The files whose rows stay, ascending, if the scan below returns those of others too.
    dropping: Option<Arc<[u32]>>,
}

/// Opens the scan of a request to a relation of files; `open` opens one without metadata.
pub(super) fn open(
    session: &Arc<Session>,
    mut request: ScanRequest,
    context: &Context,
    open: impl FnOnce(ScanRequest) -> Result<Box<dyn Scan>>,
) -> Result<Box<dyn Scan>> {
    let (Some((own, file)), Some(corpus)) = (
        request.relation.columns_of_files(),
        request.relation.corpus_of_files(),
    ) else {
        return open(request);
    };
    let is_metadata = |column: usize| column >= own;
    let asked = |requested: &RequestedColumn| match requested.column {
        ScanColumn::Column(column) if is_metadata(column) => Some(column - own),
        _ => None,
    };
    let (conditions, filters): (Vec<_>, Vec<_>) = std::mem::take(&mut request.filters)
        .into_iter()
        .partition(|filter| is_metadata(filter.column()));
    request.filters = filters;
    let shows_metadata = request.columns.iter().any(|column| asked(column).is_some());
    let joint = request.file_conditions.take();
    if conditions.is_empty() && joint.is_none() && !shows_metadata {
        return open(request);
    }
    let reader = context.reader(session, corpus)?;
    let declared = session.corpus(corpus)?.settings()?.metadata;
    let column_of = |column: usize| {
        let wanted = &request.metadata[column];
        let mut declared = declared.columns().iter();
        let found = declared.find(|known| known.id == wanted.id);
        let found = found.ok_or_else(|| is_gone(wanted))?.clone();
        reader.ask(&context.interrupt, move |view, stop| {
            view.metadata(&found, stop)
        })
    };
    let mut passing_files: Option<Arc<[u32]>> = None;
    if !conditions.is_empty() || joint.is_some() {
        let mut passing: Option<Vec<u32>> = None;
        for condition in conditions {
            let column = column_of(condition.column() - own)?;
            passing = Some(files_that_pass(&column, &condition, passing, context)?);
        }
        if let Some(joint) = joint {
            let columns = joint.columns.iter().map(|&column| {
                let metadata = column.checked_sub(own);
                let metadata = metadata.map(column_of).transpose()?;
                Ok(metadata.map(GatheredColumn::new))
            });
            let columns: Vec<_> = columns.collect::<Result<_>>()?;
            // Files are numbered by u32.
            let all = 0..reader.view().files().len() as u32;
            let among = passing.unwrap_or_else(|| all.collect());
            let view = reader.view();
            passing = Some(files_that_pass_all(
                view, &columns, &joint, &among, context,
            )?);
        }
        passing_files = passing.map(Arc::from);
    }
    // What search samples, sorts or ranks is of all files: its rows are left out.
    let (restricting, dropping) = match &request.relation {
        Relation::Search(call) if call.names_files() && !call.has_hits_by_file() => {
            (None, passing_files)
        }
        _ => (passing_files, None),
    };
    request.files = restricting;
    let Some(file) = file else {
        let shown = request.columns.iter().find_map(asked);
        return match shown {
            Some(column) => Err(has_no_file(&request, column)),
            None => open(request),
        };
    };
    if !shows_metadata && dropping.is_none() {
        return open(request);
    }
    let plain = |column: &RequestedColumn| asked(column).is_none();
    let mut below: Vec<RequestedColumn> = request.columns.iter().copied().filter(plain).collect();
    let is_file = |requested: &RequestedColumn| requested.column == ScanColumn::Column(file);
    let shown_file = below.iter().position(is_file);
    if shown_file.is_none() {
        below.push(RequestedColumn {
            column: ScanColumn::Column(file),
            is_deferred: false,
        });
    }
    let mut sources = Vec::with_capacity(request.columns.len());
    let mut next = 0;
    for requested in &request.columns {
        sources.push(match asked(requested) {
            Some(column) => ColumnSource::Metadata(GatheredColumn::new(column_of(column)?)),
            None => {
                next += 1;
                ColumnSource::Below(next - 1)
            }
        });
    }
    let wanted = request.wanted_order.len();
    request.wanted_order = (request.wanted_order.iter())
        .map_while(|order| below_order(&sources, *order))
        .collect();
    // Rows are cut in the wanted order only, and by their multiplicity only if each is one of the scan below.
    let keeps_all = dropping.is_none();
    request.limit = request
        .limit
        .filter(|_| keeps_all && request.wanted_order.len() == wanted);
    request.top = request.top.filter(|_| keeps_all && shown_file.is_some());
    let width = below.len();
    request.columns = below;
    Ok(Box::new(MetadataScan {
        below: open(request)?,
        reader,
        sources,
        file: shown_file.unwrap_or(width - 1),
        width,
        dropping,
    }))
}

/// The error for a value of metadata of rows that are of many files.
fn has_no_file(request: &ScanRequest, column: usize) -> Error {
    Error::Invalid {
        subject: format!("column {}", quote(&request.metadata[column].name)),
        reason: "a row is of many files, so conditions on metadata alone choose files; hint: conditions are joined by AND to \
                 others, and `by => 'column'` groups rows"
            .into(),
    }
}

fn is_gone(column: &MetadataColumn) -> Error {
    Error::Invalid {
        subject: format!("column {}", quote(&column.name)),
        reason: "it was dropped while the statement was prepared".into(),
    }
}

/// An order by a column of the rows as one of the scan below.
fn below_order(sources: &[ColumnSource], order: RowOrder) -> Option<RowOrder> {
    let key = match order.key {
        OrderKey::Times => OrderKey::Times,
        OrderKey::Column(column) => match sources[column] {
            ColumnSource::Below(below) => OrderKey::Column(below),
            ColumnSource::Metadata(_) => return None,
        },
    };
    Some(RowOrder { key, ..order })
}

/// The files, of some or of all, whose values pass a condition.
fn files_that_pass(
    column: &FileColumn,
    condition: &ColumnFilter,
    among: Option<Vec<u32>>,
    context: &Context,
) -> Result<Vec<u32>> {
    let mut matcher = condition.matcher();
    let null = matcher.matches(&Value::Null)?;
    let mut pace = context.interrupt.pace();
    let mut decide = |passes: &mut dyn FnMut(usize) -> Result<bool>| {
        let mut passing = Vec::new();
        let mut visit = |file: u32| {
            pace.step()?;
            if passes(file as usize)? {
                passing.push(file);
            }
            Ok::<_, Error>(())
        };
        match &among {
            // Files are numbered by u32.
            None => (0..column.files() as u32).try_for_each(&mut visit)?,
            Some(among) => among.iter().copied().try_for_each(&mut visit)?,
        }
        Ok(passing)
    };
    match &column.values {
        FileColumnValues::Texts { numbers, texts } => {
            let decided = texts
                .iter()
                .map(|text| matcher.matches(&Value::Text(text.clone())));
            let decided: Vec<bool> = decided.collect::<Result<_>>()?;
            decide(&mut |file| {
                let has = column.has(file);
                Ok(if has {
                    decided[numbers[file] as usize]
                } else {
                    null
                })
            })
        }
        FileColumnValues::Integers(values) if condition.integers().is_exact => {
            let range = condition.integers().range.clone();
            decide(&mut |file| {
                let has = column.has(file);
                Ok(if has {
                    range.contains(&values[file])
                } else {
                    null
                })
            })
        }
        _ => decide(&mut |file| {
            if column.has(file) {
                matcher.matches(&column.value(file))
            } else {
                Ok(null)
            }
        }),
    }
}

/// The files of some that pass conditions on several columns; none is a column that names them.
fn files_that_pass_all(
    view: &Arc<CorpusView>,
    columns: &[Option<GatheredColumn>],
    conditions: &FileConditions,
    among: &[u32],
    context: &Context,
) -> Result<Vec<u32>> {
    let program = conditions.program.clone();
    let mut evaluator = Evaluator::of_batches(program, context.memory / ENTRIES_SHARE);
    let mut pace = context.interrupt.pace();
    let mut passing = Vec::new();
    for files in among.chunks(BATCH_ROWS) {
        let values = columns.iter().map(|column| match column {
            Some(column) => column.of(files),
            None => BatchColumn::Words {
                indices: files.to_vec(),
                dictionary: TextDictionary::files(view),
            },
        });
        let batch = Batch::new(values.collect(), files.len(), None);
        for (row, &file) in files.iter().enumerate() {
            pace.step()?;
            evaluator.next_row();
            if evaluator.are_true((&batch, row), &conditions.conjuncts)? {
                passing.push(file);
            }
        }
    }
    Ok(passing)
}

impl GatheredColumn {
    fn new(column: Arc<FileColumn>) -> GatheredColumn {
        let dictionary = match &column.values {
            FileColumnValues::Texts { texts, .. } if column.present.is_none() => {
                Some(TextDictionary::shared(texts.clone()))
            }
            _ => None,
        };
        GatheredColumn { column, dictionary }
    }

    /// The values of some files. A column in which a file has none holds values of any type.
    fn of(&self, files: &[u32]) -> BatchColumn {
        let places = files.iter().map(|&file| file as usize);
        match (&self.column.values, &self.dictionary) {
            (FileColumnValues::Texts { numbers, .. }, Some(dictionary)) => BatchColumn::Words {
                indices: places.map(|file| numbers[file]).collect(),
                dictionary: dictionary.clone(),
            },
            (FileColumnValues::Integers(values), _) if self.column.present.is_none() => {
                BatchColumn::Integers(places.map(|file| values[file]).collect())
            }
            (FileColumnValues::Reals(values), _) if self.column.present.is_none() => {
                BatchColumn::Reals(places.map(|file| values[file]).collect())
            }
            _ => BatchColumn::Values(places.map(|file| self.column.value(file)).collect()),
        }
    }
}

/// The numbers of the files that a column names.
fn file_numbers<'a>(column: &'a BatchColumn, view: &CorpusView) -> Result<Cow<'a, [u32]>> {
    match column {
        BatchColumn::Words {
            indices,
            dictionary,
        } if dictionary.is_of_files() => Ok(Cow::Borrowed(indices)),
        names => {
            let mut name = Vec::new();
            let numbers = (0..names.len()).map(|row| {
                name.clear();
                names.write_text(row, &mut name);
                // Names are UTF-8, and files numbered by u32.
                Ok(view.find(&String::from_utf8_lossy(&name))? as u32)
            });
            numbers.collect::<Result<_>>().map(Cow::Owned)
        }
    }
}

impl Operator for MetadataScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let (batch, files) = loop {
            let Some(batch) = self.below.next_batch(rows_max)? else {
                return Ok(None);
            };
            let files = file_numbers(&batch.columns()[self.file], self.reader.view())?.into_owned();
            let Some(staying) = &self.dropping else {
                break (batch, files);
            };
            // A batch has fewer rows than 2^32.
            let rows = (0..)
                .zip(&files)
                .filter(|(_, file)| staying.binary_search(file).is_ok());
            let (rows, files): (Vec<u32>, Vec<u32>) = rows.unzip();
            if !rows.is_empty() {
                break (batch.select(&rows), files);
            }
        };
        let (rows, times) = (batch.len(), batch.times.clone());
        let mut below: Vec<Option<BatchColumn>> =
            batch.into_columns().into_iter().map(Some).collect();
        let columns = self.sources.iter().map(|source| match source {
            ColumnSource::Below(column) => {
                below[*column].take().expect("each column is shown once")
            }
            ColumnSource::Metadata(column) => column.of(&files),
        });
        let columns = columns.collect();
        Ok(Some(Batch::new(columns, rows, times)))
    }
}

impl MetadataScan {
    /// The column of the rows that is a column of the scan below.
    fn shown(&self, below: usize) -> Option<usize> {
        let mut sources = self.sources.iter();
        sources.position(|source| matches!(source, ColumnSource::Below(column) if *column == below))
    }
}

impl Scan for MetadataScan {
    fn properties(&self) -> Properties {
        let below = self.below.properties();
        let order = below.order.iter().map_while(|order| {
            let key = match order.key {
                OrderKey::Times => OrderKey::Times,
                OrderKey::Column(column) => OrderKey::Column(self.shown(column)?),
            };
            Some(RowOrder { key, ..*order })
        });
        let shows_all = (0..self.width).all(|column| self.shown(column).is_some());
        let is_unique = below.is_unique && shows_all;
        let mut order: Vec<RowOrder> = order.collect();
        if !is_unique {
            // Only unique rows come in order of their multiplicity.
            let times = order.iter().position(|order| order.key == OrderKey::Times);
            order.truncate(times.unwrap_or(order.len()));
        }
        Properties { order, is_unique }
    }

    fn fetch(&self) -> Option<Box<dyn Fetch>> {
        let below = self.below.fetch()?;
        let pairs =
            (below.columns().iter()).filter_map(|&column| Some((self.shown(column)?, column)));
        let (columns, below_columns) = pairs.unzip();
        Some(Box::new(ShownFetch {
            below,
            columns,
            below_columns,
        }))
    }

    fn description(&self) -> Arc<dyn Describe> {
        self.below.description()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}

/// Reads the deferred columns of the scan below.
struct ShownFetch {
    below: Box<dyn Fetch>,
    /// By column of the rows.
    columns: Vec<usize>,
    /// The same columns of the scan below.
    below_columns: Vec<usize>,
}

impl ShownFetch {
    fn below(&self, column: usize) -> usize {
        let place = self.columns.iter().position(|&shown| shown == column);
        self.below_columns[place.expect("only deferred columns are fetched")]
    }
}

impl Fetch for ShownFetch {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn bytes(&self, column: usize, stand_in: &Value) -> u64 {
        self.below.bytes(self.below(column), stand_in)
    }

    fn value(&mut self, column: usize, stand_in: &Value) -> Result<Value> {
        let column = self.below(column);
        self.below.value(column, stand_in)
    }

    fn forget(&mut self) {
        self.below.forget();
    }
}
