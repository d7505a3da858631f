//! `ScanExec`: the rows of a statement of ZipfDB as a stream of Arrow batches.
//!
//! Invariant: the statement runs on a thread that may block, a few batches ahead of who reads them; who drops the stream
//! interrupts it.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use futures::Stream;
use tokio::sync::mpsc::Sender;
use zipfdb::{Batch, InterruptHandle, Value};

use crate::arrays::array;
use crate::relation::failed;
use crate::source::CorpusSource;

/// Batches that wait for who reads them.
const BATCHES_AHEAD: usize = 2;
/// Rows of a batch that has contents of files, which may be large.
const CONTENT_ROWS: usize = 16;

/// Runs a statement of ZipfDB.
#[derive(Debug)]
pub(crate) struct ScanExec {
    source: Arc<CorpusSource>,
    sql: String,
    schema: SchemaRef,
    /// Rows at most, if the statement says only how many there are.
    limit: Option<usize>,
    rows: Precision<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    /// A statement whose columns are those of `schema`; without any, its only column is the number of rows.
    pub(crate) fn new(
        source: Arc<CorpusSource>,
        sql: String,
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
            sql,
            schema,
            limit,
            rows,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, kind: DisplayFormatType, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(formatter, "ZipfScan: {}", self.sql)
            }
            DisplayFormatType::TreeRender => write!(formatter, "statement={}", self.sql),
        }
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
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a scan reads no other plan"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return internal_err!("a scan has one partition, not number {partition}");
        }
        let has_contents =
            (self.schema.fields().iter()).any(|field| *field.data_type() == DataType::LargeBinary);
        let batch_size = context.session_config().batch_size();
        let mut builder = RecordBatchReceiverStream::builder(self.schema.clone(), BATCHES_AHEAD);
        let ending = Arc::new(Ending::default());
        let run = ScanRun {
            source: self.source.clone(),
            sql: self.sql.clone(),
            schema: self.schema.clone(),
            limit: self.limit,
            batch_rows: match has_contents {
                true => batch_size.min(CONTENT_ROWS),
                false => batch_size,
            },
            sender: builder.tx(),
            ending: ending.clone(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        builder.spawn_blocking(move || run.send_all());
        Ok(Box::pin(ScanStream {
            batches: builder.build(),
            ending,
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        // There is one partition, so its statistics are those of all.
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = self.rows;
        Ok(Arc::new(statistics))
    }
}

/// The statement on its thread.
struct ScanRun {
    source: Arc<CorpusSource>,
    sql: String,
    schema: SchemaRef,
    limit: Option<usize>,
    batch_rows: usize,
    sender: Sender<Result<RecordBatch>>,
    ending: Arc<Ending>,
    metrics: BaselineMetrics,
}

impl ScanRun {
    /// Sends all batches, or those that are wanted.
    fn send_all(self) -> Result<()> {
        let fail = |error| failed(&self.sql, error);
        let mut rows = self.source.database.query(&self.sql).map_err(fail)?;
        if !self.ending.watch(rows.interrupt_handle()) {
            return Ok(());
        }
        while let Some(batch) = rows.next_batch(self.batch_rows).map_err(fail)? {
            let is_wanted = match self.schema.fields().is_empty() {
                true => self.send_rows(&batch)?,
                false => {
                    let fields = self.schema.fields().iter();
                    let columns = (batch.into_columns().into_iter())
                        .zip(fields)
                        .map(|(column, field)| array(column, field));
                    let columns = columns.collect::<Result<_>>()?;
                    self.send(RecordBatch::try_new(self.schema.clone(), columns)?)
                }
            };
            if !is_wanted {
                break;
            }
        }
        Ok(())
    }

    /// Sends as many rows without columns as the only value of `batch` says.
    fn send_rows(&self, batch: &Batch) -> Result<bool> {
        let Some(Value::Integer(count)) = batch.row(0).into_iter().next() else {
            return internal_err!("{}: no number of rows", self.sql);
        };
        let mut left = usize::try_from(count).unwrap_or(0);
        left = self.limit.map_or(left, |limit| left.min(limit));
        while left > 0 {
            let rows = left.min(self.batch_rows.max(1));
            left -= rows;
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let schema = self.schema.clone();
            if !self.send(RecordBatch::try_new_with_options(
                schema,
                Vec::new(),
                &options,
            )?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends a batch to the stream; false if the stream was dropped.
    fn send(&self, batch: RecordBatch) -> bool {
        self.metrics.record_output(batch.num_rows());
        self.sender.blocking_send(Ok(batch)).is_ok()
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
struct ScanStream {
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
