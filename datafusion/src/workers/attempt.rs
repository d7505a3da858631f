//! Rows of a task, whichever workers give them.
//!
//! Invariant: each row comes once, in the order of the task's statement, or there is an error. A worker that replaces another
//! does the whole task again; the rows that were read before are compared by a digest and left out.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::Ticket;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::{Either, select, select_all};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::pool::WorkerPool;
use super::{AUTHORIZATION, MESSAGE_BYTES_MAX, Task};

/// Rounds in which each worker is asked for a task before it fails.
pub(super) const ROUNDS: usize = 3;

/// The wait before all workers are asked again.
pub(super) const ROUND_PAUSE: Duration = Duration::from_millis(500);

/// Why a worker gave no more rows.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another one may do better.
    OfWorker(String),
    /// Any worker would say the same.
    OfTask(DataFusionError),
}

type Batches = Pin<Box<dyn Stream<Item = Result<RecordBatch, Failure>> + Send>>;

/// The rows of a task, of which `worker` is asked first.
pub(crate) fn run(pool: &Arc<WorkerPool>, worker: usize, task: Task) -> SendableRecordBatchStream {
    let schema = task.schema();
    let run = TaskRun {
        candidates: pool.candidates(worker, &task, ROUNDS).into(),
        pool: pool.clone(),
        ticket: task.encode(),
        attempts: Vec::new(),
        read: RowDigest::default(),
        failures: Vec::new(),
    };
    let batches = stream::try_unfold(run, |mut run| async move {
        Ok(run.next().await?.map(|batch| (batch, run)))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// A task being done.
struct TaskRun {
    pool: Arc<WorkerPool>,
    ticket: Vec<u8>,
    /// Workers to ask next; none stands between two rounds.
    candidates: VecDeque<Option<usize>>,
    /// The workers that are at it: one, or two if the first has been silent.
    attempts: Vec<Attempt>,
    /// The rows that have been read.
    read: RowDigest,
    failures: Vec<String>,
}

impl TaskRun {
    /// The next rows; none at the end.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while self.attempts.is_empty() {
                match self.candidates.pop_front() {
                    Some(Some(worker)) => self.begin(worker),
                    Some(None) => tokio::time::sleep(ROUND_PAUSE).await,
                    None => return Err(given_up(self.failures.clone())),
                }
            }
            let read = &self.read;
            let next = (self.attempts.iter_mut()).map(|attempt| Box::pin(attempt.next(read)));
            let patience = Box::pin(tokio::time::sleep(self.pool.options().patience));
            let first = match select(select_all(next), patience).await {
                Either::Left(((found, index, _), _)) => Some((found, index)),
                Either::Right(_) => None,
            };
            let Some((found, index)) = first else {
                self.begin_beside();
                continue;
            };
            let attempt = self.attempts.swap_remove(index);
            match found {
                Ok(batch) => {
                    self.read = attempt.passed;
                    // The other one, if there is one, ends.
                    self.attempts.clear();
                    self.attempts.push(attempt);
                    return Ok(batch);
                }
                Err(Failure::OfTask(error)) => return Err(error),
                Err(Failure::OfWorker(reason)) => {
                    self.pool.failed(attempt.worker);
                    let address = self.pool.address(attempt.worker);
                    self.failures.push(format!("{address}: {reason}"));
                }
            }
        }
    }

    fn begin(&mut self, worker: usize) {
        let batches = open(self.pool.clone(), worker, self.ticket.clone());
        self.attempts.push(Attempt {
            worker,
            batches,
            passed: RowDigest::default(),
        });
    }

    /// Asks one more worker, if only one is at it and there is another.
    fn begin_beside(&mut self) {
        let next = self.candidates.front().copied().flatten();
        let [attempt] = &self.attempts[..] else {
            return;
        };
        if let Some(worker) = next.filter(|&worker| worker != attempt.worker) {
            self.candidates.pop_front();
            self.begin(worker);
        }
    }
}

/// The error when no worker is left to ask.
pub(super) fn given_up(mut failures: Vec<String>) -> DataFusionError {
    failures.sort();
    failures.dedup();
    DataFusionError::Execution(format!(
        "no worker gave an answer: {}; hint: see that they run, and that the coordinator reaches them",
        failures.join("; ")
    ))
}

/// A worker at a task.
struct Attempt {
    worker: usize,
    batches: Batches,
    /// The rows that this worker has sent, from the first on.
    passed: RowDigest,
}

impl Attempt {
    /// The next rows behind those that have been read. A dropped future loses nothing.
    async fn next(&mut self, read: &RowDigest) -> Result<Option<RecordBatch>, Failure> {
        loop {
            let Some(batch) = self.batches.next().await.transpose()? else {
                return if self.passed.rows >= read.rows {
                    Ok(None)
                } else {
                    Err(self.differs())
                };
            };
            // Rows of a batch are counted by usize.
            let before = read.rows.saturating_sub(self.passed.rows) as usize;
            let before = before.min(batch.num_rows());
            if before > 0 {
                let added = self.passed.add(&batch.slice(0, before));
                added.map_err(Failure::OfTask)?;
                if self.passed.rows == read.rows && self.passed != *read {
                    return Err(self.differs());
                }
            }
            if before < batch.num_rows() {
                let new = batch.slice(before, batch.num_rows() - before);
                self.passed.add(&new).map_err(Failure::OfTask)?;
                return Ok(Some(new));
            }
        }
    }

    fn differs(&self) -> Failure {
        Failure::OfWorker("its rows are not those that another worker gave before".into())
    }
}

/// The number of some rows, and a hash of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RowDigest {
    rows: u64,
    hash: u64,
}

impl RowDigest {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        /// The multiplier of the digest: odd, with bits all over.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        self.rows += batch.num_rows() as u64;
        if batch.num_columns() == 0 {
            return Ok(());
        }
        let mut hashes = vec![0; batch.num_rows()];
        create_hashes(batch.columns(), &RandomState::with_seed(0), &mut hashes)?;
        for hash in hashes {
            self.hash = (self.hash.rotate_left(5) ^ hash).wrapping_mul(FACTOR);
        }
        Ok(())
    }
}

/// What a worker sends, once it is asked for.
fn open(pool: Arc<WorkerPool>, worker: usize, ticket: Vec<u8>) -> Batches {
    let opened = async move {
        let fail = |status| of_status(status, pool.address(worker));
        let mut client = connect(&pool, worker).await?;
        let request = authorized(&pool, Ticket::new(ticket));
        let answer = client.do_get(request).await.map_err(fail)?.into_inner();
        let counting = pool.clone();
        let data = answer.map_err(FlightError::from).inspect_ok(move |data| {
            counting.count_received(data.data_header.len() + data.data_body.len());
        });
        let batches = FlightRecordBatchStream::new_from_flight_data(data);
        let pool = pool.clone();
        Ok(batches.map_err(move |error| {
            // The connection lives as long as its client.
            let _ = &client;
            match error {
                FlightError::Tonic(status) => of_status(*status, pool.address(worker)),
                other => Failure::OfWorker(other.to_string()),
            }
        }))
    };
    Box::pin(stream::once(opened).try_flatten())
}

/// A connection to a worker.
pub(super) async fn connect(
    pool: &WorkerPool,
    worker: usize,
) -> Result<FlightServiceClient<Channel>, Failure> {
    let connected = pool.endpoint(worker).connect().await;
    let channel = connected.map_err(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        Failure::OfWorker(source.unwrap_or_else(|| error.to_string()))
    })?;
    Ok(FlightServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX))
}

/// A request with the token that workers want.
pub(super) fn authorized<T>(pool: &WorkerPool, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = pool.token() {
        request.metadata_mut().insert(AUTHORIZATION, token.clone());
    }
    request
}

pub(super) fn of_status(status: Status, address: &str) -> Failure {
    let message = status.message();
    match status.code() {
        Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::Unauthenticated
        | Code::Unimplemented => {
            Failure::OfTask(DataFusionError::Execution(format!("{address}: {message}")))
        }
        code => Failure::OfWorker(format!("{code}: {message}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, StringViewArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    fn batch(rows: std::ops::Range<i64>) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("n", DataType::Int64, false),
            Field::new("text", DataType::Utf8View, false),
        ]);
        let texts = rows.clone().map(|row| row.to_string());
        let texts: StringViewArray = texts.map(Some).collect();
        let numbers = Int64Array::from_iter_values(rows);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(numbers), Arc::new(texts)]).unwrap()
    }

    fn attempt(batches: Vec<RecordBatch>) -> Attempt {
        Attempt {
            worker: 0,
            batches: Box::pin(stream::iter(batches.into_iter().map(Ok))),
            passed: RowDigest::default(),
        }
    }

    #[tokio::test]
    async fn a_successor_goes_on_behind_the_rows_that_were_read() {
        let mut read = RowDigest::default();
        read.add(&batch(0..5)).unwrap();
        // Cut otherwise.
        let mut next = attempt(vec![batch(0..3), batch(3..9), batch(9..10)]);
        assert_eq!(next.next(&read).await.unwrap(), Some(batch(5..9)));
        read.add(&batch(5..9)).unwrap();
        assert_eq!(next.next(&read).await.unwrap(), Some(batch(9..10)));
        read.add(&batch(9..10)).unwrap();
        assert_eq!(next.next(&read).await.unwrap(), None);
    }

    #[tokio::test]
    async fn other_rows_and_fewer_rows_are_failures() {
        let mut read = RowDigest::default();
        read.add(&batch(0..5)).unwrap();
        for batches in [vec![batch(1..7)], vec![batch(0..4)], vec![]] {
            let failed = attempt(batches).next(&read).await;
            assert!(matches!(failed, Err(Failure::OfWorker(_))), "{failed:?}");
        }
    }
}
