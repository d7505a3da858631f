//! `ScanExec`: the rows of a statement of ZipfDB as a stream of Arrow batches.
//!
//! Invariant: the statement runs on a thread that may block, a few batches ahead of the reader of the stream, on whose thread they
//! become arrays; dropping the stream interrupts it. It starts when the stream is first read, with the dynamic filters as they are
//! then.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, exec_datafusion_err, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
    apply_expression_roots,
};
use futures::{Stream, TryStreamExt, stream};
use tokio::sync::mpsc::{self, Receiver, Sender};
use zipfdb::batch::Batch;
use zipfdb::{InterruptHandle, Reader, Value};
use zipfdb_arrow::array;

use crate::dynamic;
use crate::filter::translate_each;
use crate::relation::{Relation, failed};
use crate::source::CorpusSource;
use crate::statement::{Select, quoted_name};
use crate::workers;

/// Batches that may wait for the reader. With fewer, one of the two threads waits for the other at nearly every batch.
const BATCHES_AHEAD: usize = 16;
/// The same of batches that have contents of files, which may be large.
const CONTENT_BATCHES_AHEAD: usize = 2;
/// Rows of a batch that has contents of files.
const CONTENT_ROWS: usize = 16;

/// What a partition reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScanPart {
    /// All rows.
    All,
    /// Rows that meet a condition.
    Where(String),
    /// Rows of some segments, which a worker reads, by its place.
    Segments(usize, Vec<u64>),
}

/// Runs a statement of ZipfDB.
#[derive(Debug, Clone)]
pub(crate) struct ScanExec {
    source: Arc<CorpusSource>,
    relation: Arc<Relation>,
    select: Select,
    schema: SchemaRef,
    /// Rows at most, if the statement says only how many there are.
    limit: Option<usize>,
    rows: Precision<usize>,
    partitions: Vec<ScanPart>,
    /// Conditions on columns of `schema` that are known when the scan begins.
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    /// A statement whose columns are those of `schema`; without any, its only column is the number of rows.
    pub(crate) fn new(
        source: Arc<CorpusSource>,
        relation: Arc<Relation>,
        select: Select,
        schema: SchemaRef,
        limit: Option<usize>,
        rows: Precision<usize>,
    ) -> ScanExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        ScanExec {
            source,
            relation,
            select,
            schema,
            limit,
            rows,
            partitions: vec![ScanPart::All],
            dynamic: Vec::new(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same scan in partitions.
    pub(crate) fn parted(mut self, partitions: Vec<ScanPart>) -> ScanExec {
        let count = Partitioning::UnknownPartitioning(partitions.len());
        let properties = PlanProperties::clone(&self.properties);
        self.properties = Arc::new(properties.with_partitioning(count));
        self.partitions = partitions;
        self
    }

    /// The rows of some segments, which a worker reads.
    fn ask(
        &self,
        worker: usize,
        segments: Vec<u64>,
        sql: String,
        batch_rows: usize,
        metrics: BaselineMetrics,
    ) -> Result<SendableRecordBatchStream> {
        let (Some(pool), Some(corpus)) = (&self.source.workers, &self.relation.corpus) else {
            return internal_err!("a scan of segments without workers");
        };
        let rows = (self.limit, batch_rows);
        let task = pool.task(corpus, segments, sql, &self.schema, rows)?;
        let batches = workers::run(pool, worker, task);
        let batches = batches.inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        let schema = self.schema.clone();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    /// Whether a condition on rows of this scan can be asked of ZipfDB once it is known: it is on columns of the relation, and
    /// no limit counts rows before it.
    fn takes(&self, condition: &Arc<dyn PhysicalExpr>) -> bool {
        let has_columns = collect_columns(condition).iter().all(|column| {
            let name = quoted_name(column.name());
            self.relation.column(column.name()).is_some()
                && (self.select.groups.is_empty() || self.select.groups.contains(&name))
        });
        has_columns
            && self.select.limit.is_none()
            && !self.schema.fields().is_empty()
            && condition
                .downcast_ref::<DynamicFilterPhysicalExpr>()
                .is_some()
    }
}

/// Whether rows have contents of files.
fn has_contents(schema: &Schema) -> bool {
    let mut fields = schema.fields().iter();
    fields.any(|field| *field.data_type() == DataType::LargeBinary)
}

/// A statement with the conditions of dynamic filters as they are now.
fn with_dynamic(
    mut select: Select,
    dynamic: &[Arc<dyn PhysicalExpr>],
    relation: &Relation,
) -> Result<Select> {
    for filter in dynamic {
        let filter = filter.downcast_ref::<DynamicFilterPhysicalExpr>();
        let Some(filter) = filter else { continue };
        let known = dynamic::known(filter)?;
        let known: Vec<&Expr> = known.iter().collect();
        let translated = translate_each(&known, relation).into_iter().flatten();
        select.filters.extend(translated);
    }
    Ok(select)
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, kind: DisplayFormatType, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(formatter, "ZipfScan: {}", self.select)?;
            }
            DisplayFormatType::TreeRender => write!(formatter, "statement={}", self.select)?,
        }
        let is_of_workers = matches!(self.partitions[..], [ScanPart::Segments(..), ..]);
        match self.partitions.len() {
            count if is_of_workers => write!(formatter, ", workers={count}")?,
            0 | 1 => {}
            count => write!(formatter, ", partitions={count}")?,
        }
        for filter in &self.dynamic {
            write!(formatter, ", dynamic={filter}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &str {
        "ZipfScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(&self.dynamic, visit)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        offered: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let offered = offered.parent_filters.into_iter().map(|offer| offer.filter);
        let offered: Vec<_> = offered.collect();
        // The scan may give more rows than pass, so the plan above keeps its filters.
        let answer = vec![PushedDown::No; offered.len()];
        let answer = FilterPushdownPropagation::with_parent_pushdown_result(answer);
        let mut dynamic = self.dynamic.clone();
        dynamic.extend(offered.into_iter().filter(|offer| self.takes(offer)));
        if phase != FilterPushdownPhase::Post || dynamic.len() == self.dynamic.len() {
            return Ok(answer);
        }
        Ok(answer.with_updated_node(Arc::new(ScanExec {
            dynamic,
            ..self.clone()
        })))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() {
            Ok(self)
        } else {
            internal_err!("a scan reads no other plan")
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(part) = self.partitions.get(partition) else {
            return internal_err!("a scan has no partition number {partition}");
        };
        let mut select = self.select.clone();
        if let ScanPart::Where(condition) = part {
            select.filters.push(condition.clone());
        }
        let has_contents = has_contents(&self.schema);
        let batch_size = context.session_config().batch_size();
        let batch_rows = if has_contents {
            batch_size.min(CONTENT_ROWS)
        } else {
            batch_size
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let (scan, part) = (self.clone(), part.clone());
        // By then all dynamic filters, such as the keys of a join, have their values.
        let begun = stream::once(async move {
            let sql = with_dynamic(select, &scan.dynamic, &scan.relation)?.to_string();
            let ScanPart::Segments(worker, segments) = part else {
                let run = ScanRun {
                    source: scan.source,
                    sql,
                    schema: scan.schema,
                    limit: scan.limit,
                    batch_rows,
                    metrics,
                };
                return Ok::<SendableRecordBatchStream, DataFusionError>(Box::pin(run.begin()));
            };
            scan.ask(worker, segments, sql, batch_rows, metrics)
        });
        let schema = self.schema.clone();
        let batches = RecordBatchStreamAdapter::new(schema, begun.try_flatten());
        Ok(Box::pin(batches))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        if arguments.partition().is_none() || self.partitions.len() == 1 {
            statistics.num_rows = self.rows;
        }
        Ok(Arc::new(statistics))
    }
}

/// The statement on its thread.
pub(crate) struct ScanRun {
    pub(crate) source: Arc<CorpusSource>,
    pub(crate) sql: String,
    pub(crate) schema: SchemaRef,
    pub(crate) limit: Option<usize>,
    pub(crate) batch_rows: usize,
    pub(crate) metrics: BaselineMetrics,
}

impl ScanRun {
    /// Starts the statement.
    pub(crate) fn begin(self) -> ScanStream {
        let ahead = if has_contents(&self.schema) {
            CONTENT_BATCHES_AHEAD
        } else {
            BATCHES_AHEAD
        };
        let (sender, batches) = mpsc::channel(ahead);
        let ending = Arc::new(Ending::default());
        let (reader, sql) = (self.source.reader(), self.sql.clone());
        let (batch_rows, watched) = (self.batch_rows, ending.clone());
        let reading = move || read(&reader, &sql, batch_rows, &sender, &watched);
        let schema = self.schema.clone();
        let rows = ScanRows {
            batches,
            reading: Some(SpawnedTask::spawn_blocking(reading)),
            rows_left: 0,
            run: self,
        };
        let batches = stream::try_unfold(rows, |mut rows| async move {
            Ok(rows.next().await?.map(|batch| (batch, rows)))
        });
        ScanStream {
            batches: Box::pin(RecordBatchStreamAdapter::new(schema, batches)),
            ending,
        }
    }
}

/// Sends all batches of a statement, or those that are wanted.
fn read(
    reader: &Reader,
    sql: &str,
    batch_rows: usize,
    sender: &Sender<Batch>,
    ending: &Ending,
) -> Result<()> {
    let fail = |error| failed(sql, error);
    let mut rows = reader.query(sql, ()).map_err(fail)?;
    if !ending.watch(rows.interrupt_handle()) {
        return Ok(());
    }
    while let Some(batch) = rows.next_batch(batch_rows).map_err(fail)? {
        if sender.blocking_send(batch).is_err() {
            break;
        }
    }
    Ok(())
}

/// The rows of a statement, which become arrays on the thread that reads them while others are read.
struct ScanRows {
    batches: Receiver<Batch>,
    /// Taken when the batches are over.
    reading: Option<SpawnedTask<Result<()>>>,
    /// Rows without columns that are still to be given.
    rows_left: usize,
    run: ScanRun,
}

impl ScanRows {
    /// The next rows; none at the end.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.rows_left == 0 {
            let Some(batch) = self.batches.recv().await else {
                if let Some(reading) = self.reading.take() {
                    let ended = reading.join_unwind().await;
                    ended.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
                }
                return Ok(None);
            };
            if !self.run.schema.fields().is_empty() {
                let batch = self.run.arrays(batch)?;
                self.run.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            self.rows_left = self.run.row_count(&batch)?;
        }
        let rows = self.rows_left.min(self.run.batch_rows.max(1));
        self.rows_left -= rows;
        self.run.metrics.record_output(rows);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = self.run.schema.clone();
        let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &options)?;
        Ok(Some(batch))
    }
}

impl ScanRun {
    /// A batch as one of Arrow.
    fn arrays(&self, batch: Batch) -> Result<RecordBatch> {
        let fields = self.schema.fields().iter();
        let columns = (batch.into_columns().into_iter())
            .zip(fields)
            .map(|(column, field)| array(column, field, &self.source.texts));
        let columns = columns.collect::<zipfdb_arrow::Result<_>>();
        let columns = columns.map_err(|error| exec_datafusion_err!("{error}"))?;
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// How many rows the only value of `batch` says, as far as they are wanted.
    fn row_count(&self, batch: &Batch) -> Result<usize> {
        let Some(Value::Integer(count)) = batch.row(0).into_iter().next() else {
            return internal_err!("{}: no number of rows", self.sql);
        };
        let rows = usize::try_from(count).unwrap_or(0);
        Ok(self.limit.map_or(rows, |limit| rows.min(limit)))
    }
}

/// Interrupts the statement of a stream that is dropped.
#[derive(Debug, Default)]
struct Ending {
    state: Mutex<(bool, Option<InterruptHandle>)>,
}

impl Ending {
    /// Keeps the interrupt handle of the statement; false if the stream was dropped already.
    fn watch(&self, handle: Option<InterruptHandle>) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = handle;
        !state.0
    }

    fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(handle) = state.1.take() {
            handle.interrupt();
        }
    }
}

/// The batches of a statement, which ends with them.
pub(crate) struct ScanStream {
    batches: SendableRecordBatchStream,
    ending: Arc<Ending>,
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.as_mut().poll_next(context)
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        self.batches.schema()
    }
}

impl Drop for ScanStream {
    fn drop(&mut self) {
        self.ending.end();
    }
}
