//! `Worker`: answers tasks of coordinators through Arrow Flight.
//!
//! Invariant: it reads versions of one database, whole ones, and writes nothing but its cache and, for an import, objects that
//! count once the coordinator publishes them. A task that is no longer wanted is interrupted.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use futures::TryStreamExt;
use futures::stream::BoxStream;
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};
use zipfdb::{Database, Error, InterruptHandle, Reader, Row, Value};
use zipfdb_arrow::TextArrays;
use zipfdb_remote::{CacheOptions, ImportedPart, PartMeans, RemoteStore};

use super::pool::bearer;
use super::task::ImportTask;
use super::{AUTHORIZATION, MESSAGE_BYTES_MAX, Task};
use crate::scan::ScanRun;
use crate::source::{CorpusSource, blocking};
use crate::statement::{quoted_name, quoted_text};

/// Versions that are open at once.
const VERSIONS_MAX: usize = 2;

/// Groups of segments of a version whose vocabularies and file tables are kept.
const GROUPS_MAX: usize = 8;

/// The time between pings to a coordinator that is waited for.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The time between two interrupts of an import whose coordinator has gone.
const INTERRUPTED_AGAIN: Duration = Duration::from_millis(200);

/// The limits of a worker.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct WorkerLimits {
    /// What is kept of the object store.
    pub cache: CacheOptions,
    /// Threads; `None`: the number of cores of the machine.
    pub threads: Option<usize>,
    /// Statements of ZipfDB's dialect that a database begins with: `SET memory_limit = '1GiB'`.
    pub settings: Vec<String>,
    /// The folder whose files coordinators may have imported; they have none imported if there is none.
    pub import_from: Option<PathBuf>,
    /// Where segments are made before they are stored, if not in the system's folder for temporary files.
    pub scratch: Option<PathBuf>,
}

/// A worker. Cheap to clone.
#[derive(Clone)]
pub struct Worker {
    inner: Arc<Inner>,
}

struct Inner {
    store: RemoteStore,
    limits: WorkerLimits,
    token: Option<MetadataValue<Ascii>>,
    /// By number.
    versions: Recent<u64, Arc<OpenVersion>>,
}

/// A version that is open.
struct OpenVersion {
    publication: String,
    database: Database,
    /// Readers that see some segments of a corpus, by its name and their numbers.
    groups: Recent<(String, Vec<u64>), Reader>,
    /// What was made of the texts of answers.
    texts: Arc<TextArrays>,
}

/// What was asked for lately by key, the last one first.
type Recent<K, V> = Mutex<VecDeque<(K, Arc<OnceCell<V>>)>>;

impl fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Worker({})", self.inner.store.url())
    }
}

impl Worker {
    /// A worker on the database of a store. With a token only coordinators that send it are answered.
    ///
    /// # Errors
    /// If the token has other characters than ASCII has.
    pub fn new(store: RemoteStore, limits: WorkerLimits, token: Option<&str>) -> Result<Worker> {
        Ok(Worker {
            inner: Arc::new(Inner {
                store,
                limits,
                token: token.map(bearer).transpose()?,
                versions: Mutex::default(),
            }),
        })
    }

    /// Answers connections to `listener` until `end` completes, and then finishes what has begun. With
    /// `identity`, a
    /// certificate and its key as PEM, connections are encrypted.
    ///
    /// # Errors
    /// If the identity is none, or the listener fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        identity: Option<(Vec<u8>, Vec<u8>)>,
        end: impl Future<Output = ()>,
    ) -> Result<()> {
        let fail = |error| DataFusionError::External(Box::new(error));
        let mut server = Server::builder().http2_keepalive_interval(Some(KEEP_ALIVE));
        if let Some((certificate, key)) = identity {
            let identity = Identity::from_pem(certificate, key);
            let tls = ServerTlsConfig::new().identity(identity);
            server = server.tls_config(tls).map_err(fail)?;
        }
        let service = FlightServiceServer::new(self).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = server.add_service(service);
        server
            .serve_with_incoming_shutdown(incoming, end)
            .await
            .map_err(fail)
    }

    /// # Errors
    /// If a token is wanted and the request has another one, or none.
    fn authorize(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let Some(token) = &self.inner.token else {
            return Ok(());
        };
        let given = metadata
            .get(AUTHORIZATION)
            .map_or(&b""[..], |given| given.as_bytes());
        let wanted = token.as_bytes();
        // The comparison reads all bytes, so its time reveals nothing.
        let pairs = given.iter().zip(wanted);
        let difference = pairs.fold(0, |difference, (given, wanted)| {
            difference | (given ^ wanted)
        });
        if given.len() == wanted.len() && difference == 0 {
            Ok(())
        } else {
            Err(Status::unauthenticated(
                "the token is not the one of this worker; hint: give the same to coordinator and workers",
            ))
        }
    }

    /// The rows of a task.
    async fn answer(
        &self,
        task: Task,
    ) -> Result<BoxStream<'static, Result<FlightData, Status>>, Status> {
        // Others write files, even of a database that is only read.
        if !task.sql.starts_with("SELECT ") {
            return Err(Status::invalid_argument("a task is a SELECT"));
        }
        let version = self.version(task.version, &task.publication).await?;
        let schema = task.schema();
        let reader = version.group(&task.corpus, &task.segments).await?;
        let run = ScanRun {
            source: Arc::new(CorpusSource::of_reader(
                version.database.clone(),
                reader,
                version.texts.clone(),
            )),
            sql: task.sql,
            schema: schema.clone(),
            limit: task.limit,
            batch_rows: task.batch_rows,
            metrics: BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0),
        };
        let batches = run
            .begin()
            .map_err(|error| FlightError::from(of_error(&error)));
        let encoder = FlightDataEncoderBuilder::new().with_schema(schema);
        Ok(Box::pin(encoder.build(batches).map_err(Status::from)))
    }

    /// A version that a publication made, open.
    async fn version(&self, number: u64, publication: &str) -> Result<Arc<OpenVersion>, Status> {
        let opened = recent(&self.inner.versions, number, VERSIONS_MAX);
        let version = opened.get_or_try_init(|| self.open(number)).await?;
        if version.publication != publication {
            return Err(Status::failed_precondition(format!(
                "version {number} of {} is another database than the coordinator has; hint: name the same URL",
                self.inner.store.url()
            )));
        }
        Ok(version.clone())
    }

    /// Makes the segments of a part of an import and stores them. A future that is dropped interrupts that.
    async fn import(&self, task: ImportTask) -> Result<ImportedPart, Status> {
        let version = self.version(task.version, &task.publication).await?;
        let (inner, handle) = (self.inner.clone(), Arc::new(Mutex::new(None)));
        let _interrupting = InterruptOnDrop(Arc::downgrade(&handle));
        let work = blocking(move || {
            inner.import(&task, &version.database, |begun| {
                *handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
            })
        });
        work.await.map_err(|error| of_error(&error))
    }

    async fn open(&self, number: u64) -> Result<Arc<OpenVersion>, Status> {
        let inner = self.inner.clone();
        let opened = blocking(move || {
            let fail = |error: zipfdb_remote::Error| DataFusionError::External(Box::new(error));
            let (store, limits) = (&inner.store, &inner.limits);
            let published = store.published(Some(number)).map_err(fail)?;
            let mut options = Database::options();
            if let Some(threads) = limits.threads {
                options = options.threads(threads);
            }
            let database = store
                .open(Some(number), options, &limits.cache)
                .map_err(fail)?;
            for setting in &limits.settings {
                let set = database.execute_batch(setting);
                set.map_err(|error| DataFusionError::External(Box::new(error)))?;
            }
            Ok(Arc::new(OpenVersion {
                publication: published.publication,
                database,
                groups: Mutex::default(),
                texts: Arc::default(),
            }))
        });
        opened.await.map_err(|error| of_error(&error))
    }
}

impl Inner {
    /// As [`Worker::import`], to a corpus of `database`; `begun` is given what interrupts it.
    fn import(
        &self,
        task: &ImportTask,
        database: &Database,
        begun: impl FnOnce(InterruptHandle),
    ) -> Result<ImportedPart> {
        let limits = &self.limits;
        let external = |error| DataFusionError::External(error);
        let refused = |reason: &str| {
            let path = task.part.path.display();
            DataFusionError::Execution(format!("{path}: {reason}"))
        };
        let allowed = limits.import_from.as_deref().ok_or_else(|| {
            refused("this worker imports nothing; hint: start it with --import-from FOLDER")
        })?;
        let real =
            |path: &Path| fs::canonicalize(path).map_err(|error| refused(&error.to_string()));
        if !real(&task.part.path)?.starts_with(real(allowed)?) {
            let folder = allowed.display();
            return Err(refused(&format!(
                "this worker imports what lies in {folder} only; hint: --import-from"
            )));
        }
        let known = database.corpus(task.place.corpus()).and_then(|corpus| {
            let indexes = index_statements(database, corpus.name())?;
            Ok((corpus.settings()?, indexes))
        });
        let (settings, indexes) = known.map_err(|error| external(Box::new(error)))?;
        let statements = [&limits.settings[..], &indexes].concat();
        let mut options = Database::options();
        if let Some(threads) = limits.threads {
            options = options.threads(threads);
        }
        let scratch = limits.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let made = self.store.import_part(
            &task.place,
            &task.part,
            &settings,
            &PartMeans {
                scratch: &scratch,
                options,
                statements: &statements,
            },
            begun,
        );
        made.map_err(|error| external(Box::new(error)))
    }
}

/// Statements that create the indexes of a corpus in another database.
fn index_statements(database: &Database, corpus: &str) -> zipfdb::Result<Vec<String>> {
    let (name, text) = (quoted_name(corpus), quoted_text(corpus));
    let rows = database.query(
        &format!("SELECT DISTINCT name, kind, codec, unit, reorder FROM indexes({text})"),
        (),
    )?;
    let statement = |row: zipfdb::Result<Row>| {
        let mut values = row?.into_values().into_iter().map(|value| match value {
            Value::Text(text) => Some(text),
            _ => None,
        });
        let mut next = || values.next().flatten();
        let (index, kind) = (next().unwrap_or_default(), next().unwrap_or_default());
        let options = ["codec", "unit", "reorder"]
            .into_iter()
            .filter_map(|option| {
                let value = next()?;
                Some(format!("{option} = {}", quoted_text(&value)))
            });
        let options: Vec<String> = options.collect();
        let with = if options.is_empty() {
            String::new()
        } else {
            format!(" WITH ({})", options.join(", "))
        };
        let index = quoted_name(&index);
        Ok(format!("CREATE INDEX {index} ON {name} USING {kind}{with}"))
    };
    rows.map(statement).collect()
}

/// Interrupts the work that holds the handle when it is dropped: its coordinator has gone.
struct InterruptOnDrop(Weak<Mutex<Option<InterruptHandle>>>);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        let work = self.0.clone();
        if work.strong_count() == 0 {
            return;
        }
        tokio::spawn(async move {
            // An interrupt ends the statement that runs: the next one may be about to begin.
            while let Some(handle) = work.upgrade() {
                if let Some(handle) = &*handle.lock().unwrap_or_else(PoisonError::into_inner) {
                    handle.interrupt();
                }
                drop(handle);
                tokio::time::sleep(INTERRUPTED_AGAIN).await;
            }
        });
    }
}

impl OpenVersion {
    /// A reader that sees these segments of a corpus only.
    async fn group(&self, corpus: &str, segments: &[u64]) -> Result<Reader, Status> {
        let key = (corpus.to_owned(), segments.to_vec());
        let group = recent(&self.groups, key.clone(), GROUPS_MAX);
        let make = async || {
            let database = self.database.clone();
            let made = blocking(move || {
                let made = database.partition(&key.0, &key.1);
                made.map_err(|error| DataFusionError::External(Box::new(error)))
            });
            made.await.map_err(|error| of_error(&error))
        };
        group.get_or_try_init(make).await.cloned()
    }
}

/// The entry of a key, which may not be made yet. Of too many entries the one that was asked for longest ago is dropped.
fn recent<K: PartialEq, V>(entries: &Recent<K, V>, key: K, max: usize) -> Arc<OnceCell<V>> {
    let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
    let known = entries.iter().position(|(known, _)| *known == key);
    let known = known.and_then(|place| entries.remove(place));
    let entry = known.unwrap_or_else(|| (key, Arc::default()));
    let value = entry.1.clone();
    entries.push_front(entry);
    entries.truncate(max);
    value
}

/// An error as sent to a coordinator: it says whether another worker may do better.
fn of_error(error: &DataFusionError) -> Status {
    let message = error.strip_backtrace();
    let DataFusionError::External(cause) = error.find_root() else {
        return Status::invalid_argument(message);
    };
    match cause.downcast_ref::<Error>() {
        Some(Error::Sql(_) | Error::Invalid { .. } | Error::NoSuchFile { .. }) => {
            Status::invalid_argument(message)
        }
        _ => Status::unavailable(message),
    }
}

/// What a method says that coordinators do not call.
fn unused<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented(
        "workers of ZipfDB answer DoGet, and DoAction for imports",
    ))
}

#[async_trait]
impl FlightService for Worker {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        self.authorize(request.metadata())?;
        let task = Task::decode(&request.into_inner().ticket);
        let task = task.map_err(|error| Status::failed_precondition(error.strip_backtrace()))?;
        self.answer(task).await.map(Response::new)
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        unused()
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        unused()
    }

    async fn get_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        unused()
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        unused()
    }

    async fn get_schema(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        unused()
    }

    async fn do_put(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        unused()
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        self.authorize(request.metadata())?;
        let action = request.into_inner();
        if action.r#type != ImportTask::ACTION {
            return unused();
        }
        let task = ImportTask::decode(&action.body);
        let task = task.map_err(|error| Status::failed_precondition(error.strip_backtrace()))?;
        let made = self.import(task).await?;
        let body =
            serde_json::to_vec(&made).map_err(|error| Status::internal(error.to_string()))?;
        let answer = arrow_flight::Result { body: body.into() };
        Ok(Response::new(Box::pin(futures::stream::iter([Ok(answer)]))))
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        unused()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        unused()
    }
}
