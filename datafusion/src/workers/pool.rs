//! `WorkerPool`: the workers of a coordinator, and which of them failed lately.
//!
//! Invariant: it names one version of one database, and all tasks are about that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::Schema;
use datafusion::common::plan_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use zipfdb::storage::Partition;
use zipfdb_remote::PublishedVersion;

use super::assignment::{assign, preference};
use super::task::{RELEASE, Task, TaskColumn};

/// A worker that failed gets no new tasks for this time.
pub(super) const OUT_TIME: Duration = Duration::from_secs(10);

/// A worker, by its place, and the numbers of the segments that it answers for.
pub(crate) type WorkerSegments = (usize, Vec<u64>);

/// How workers are reached.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// The token that workers require.
    pub token: Option<String>,
    /// The certificates that sign those of workers, as PEM; with them connections are encrypted.
    pub certificates: Option<Vec<u8>>,
    /// A worker that does not answer a ping within this time is given up. Half of it is the time between pings.
    pub silence: Duration,
    /// After this time without rows another worker is asked too, and the faster one is taken.
    pub patience: Duration,
    /// Bytes of text that a worker imports at a time, about; `None`: the size of a segment, or less so that all workers take part.
    pub part_bytes: Option<u64>,
}

impl Default for WorkerOptions {
    /// No token, no encryption; 6 seconds of silence, 2 minutes of patience.
    fn default() -> WorkerOptions {
        WorkerOptions {
            token: None,
            certificates: None,
            silence: Duration::from_secs(6),
            patience: Duration::from_secs(120),
            part_bytes: None,
        }
    }
}

/// Workers that answer for a version of a database.
#[derive(Debug)]
pub struct WorkerPool {
    addresses: Vec<String>,
    endpoints: Vec<Endpoint>,
    token: Option<MetadataValue<Ascii>>,
    options: WorkerOptions,
    version: PublishedVersion,
    /// When each worker failed.
    failed: Mutex<Vec<Option<Instant>>>,
    /// Bytes of batches.
    received: AtomicU64,
}

impl WorkerPool {
    /// Workers by their addresses, `HOST:PORT`. Nothing is asked yet.
    ///
    /// # Errors
    /// If there is no address, one is none, the token has other characters than ASCII has, or certificates are none.
    pub fn new(
        version: PublishedVersion,
        addresses: &[String],
        options: WorkerOptions,
    ) -> Result<WorkerPool> {
        if addresses.is_empty() {
            return Err(plan_datafusion_err!("no address of a worker"));
        }
        let endpoint = |address: &String| {
            let scheme = match options.certificates {
                None => "http",
                Some(_) => "https",
            };
            let fail = |error: &dyn std::error::Error| {
                plan_datafusion_err!("worker `{address}`: {error}; hint: HOST:PORT")
            };
            let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
                .map_err(|error| fail(&error))?
                .connect_timeout(options.silence)
                .http2_keep_alive_interval(options.silence / 2)
                .keep_alive_timeout(options.silence / 2)
                .keep_alive_while_idle(true)
                .http2_adaptive_window(true);
            if let Some(certificates) = &options.certificates {
                let authority = Certificate::from_pem(certificates);
                let tls = ClientTlsConfig::new().ca_certificate(authority);
                endpoint = endpoint.tls_config(tls).map_err(|error| fail(&error))?;
            }
            Ok::<Endpoint, DataFusionError>(endpoint)
        };
        let token = options.token.as_ref().map(|token| bearer(token));
        Ok(WorkerPool {
            endpoints: addresses.iter().map(endpoint).collect::<Result<_>>()?,
            addresses: addresses.to_vec(),
            token: token.transpose()?,
            options,
            version,
            failed: Mutex::new(vec![None; addresses.len()]),
            received: AtomicU64::new(0),
        })
    }

    /// The version that tasks are about.
    pub fn version(&self) -> &PublishedVersion {
        &self.version
    }

    /// How many bytes of batches have come from workers.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(super) fn count_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn options(&self) -> &WorkerOptions {
        &self.options
    }

    pub(super) fn token(&self) -> Option<&MetadataValue<Ascii>> {
        self.token.as_ref()
    }

    pub(super) fn address(&self, worker: usize) -> &str {
        &self.addresses[worker]
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.addresses.len()
    }

    pub(super) fn endpoint(&self, worker: usize) -> &Endpoint {
        &self.endpoints[worker]
    }

    /// A statement on some segments of a corpus of the version, whose rows have the columns of `schema`.
    ///
    /// # Errors
    /// If ZipfDB lacks the type of a column.
    pub(crate) fn task(
        &self,
        corpus: &str,
        segments: Vec<u64>,
        sql: String,
        schema: &Schema,
        (limit, batch_rows): (Option<usize>, usize),
    ) -> Result<Task> {
        Ok(Task {
            release: RELEASE.into(),
            version: self.version.number,
            publication: self.version.publication.clone(),
            corpus: corpus.into(),
            segments,
            sql,
            columns: TaskColumn::of(schema)?,
            limit,
            batch_rows,
        })
    }

    /// Shares partitions out: workers by their places, each with the segments that it answers for.
    pub(crate) fn assign(&self, partitions: &[Partition]) -> Vec<WorkerSegments> {
        let assigned = assign(partitions, &self.addresses, &self.are_out());
        let assigned = assigned.into_iter().enumerate();
        assigned
            .map(|(worker, partitions)| {
                let mut segments: Vec<u64> = (partitions.into_iter())
                    .flat_map(|partition| partition.segments)
                    .collect();
                segments.sort_unstable();
                (worker, segments)
            })
            .filter(|(_, segments)| !segments.is_empty())
            .collect()
    }

    /// The order in which workers are asked for a task: `worker`, then the others, and all of them again in each further round.
    /// A none stands between two rounds.
    pub(super) fn candidates(
        &self,
        worker: usize,
        task: &Task,
        rounds: usize,
    ) -> Vec<Option<usize>> {
        let key = task.segments.first().copied().unwrap_or(0);
        let mut others = preference(&self.addresses, key);
        others.retain(|&other| other != worker);
        let out = self.are_out();
        // Workers that failed lately come last.
        others.sort_by_key(|&other| out[other]);
        let round: Vec<Option<usize>> = [worker].into_iter().chain(others).map(Some).collect();
        vec![round; rounds].join(&None)
    }

    /// Says that a worker failed.
    pub(super) fn failed(&self, worker: usize) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed[worker] = Some(Instant::now());
    }

    fn are_out(&self) -> Vec<bool> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failed.iter();
        failed
            .map(|failed| failed.is_some_and(|failed| failed.elapsed() < OUT_TIME))
            .collect()
    }
}

/// The token as it travels.
///
/// # Errors
/// If it has other characters than ASCII has.
pub(super) fn bearer(token: &str) -> Result<MetadataValue<Ascii>> {
    let value = format!("Bearer {token}").parse();
    value.map_err(|_| plan_datafusion_err!("the token has characters that are not ASCII"))
}
