//! A database on an S3 server that is started here: a real one over HTTP, which refuses, hangs and cuts off on request.

#![allow(clippy::unwrap_used)]

mod support;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use object_store::RetryConfig;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as ObjectPath;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use support::{answers, create, insert};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use zipfdb::Database;
use zipfdb_remote::{CacheOptions, Error, RemoteStore};

/// An S3 server with a bucket `shelf`.
struct Server {
    _runtime: Runtime,
    endpoint: String,
    faults: Arc<Faults>,
}

/// What the server does wrong.
#[derive(Default)]
struct Faults {
    requests: AtomicU64,
    /// One request in this many is answered with an error; 0 for none.
    refuse_each: AtomicU64,
    /// One request in this many is cut off in the middle of its answer, or of what it sends; 0 for none.
    cut_each: AtomicU64,
    /// More than 0: no request is answered.
    hangs: AtomicU64,
}

impl Faults {
    fn is_due(&self, each: &AtomicU64, request: u64) -> bool {
        let each = each.load(Ordering::SeqCst);
        each > 0 && request.is_multiple_of(each)
    }
}

impl Server {
    fn start(folder: &Path) -> Server {
        std::fs::create_dir(folder.join("shelf")).unwrap();
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(folder).unwrap());
        service.set_auth(SimpleAuth::from_single("key", "secret"));
        let service = service.build();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let faults = Arc::<Faults>::default();
        let seen = faults.clone();
        runtime.spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (service, faults) = (service.clone(), seen.clone());
                tokio::spawn(async move {
                    let answer = hyper::service::service_fn(|request| {
                        let (service, faults) = (service.clone(), faults.clone());
                        async move {
                            let number = faults.requests.fetch_add(1, Ordering::SeqCst) + 1;
                            while faults.hangs.load(Ordering::SeqCst) > 0 {
                                tokio::time::sleep(Duration::from_millis(20)).await;
                            }
                            if faults.is_due(&faults.refuse_each, number) {
                                let mut refused = hyper::Response::new(s3s::Body::empty());
                                *refused.status_mut() = hyper::StatusCode::SERVICE_UNAVAILABLE;
                                return Ok::<_, Infallible>(refused);
                            }
                            let mut answered = hyper::service::Service::call(&service, request)
                                .await
                                .unwrap();
                            if faults.is_due(&faults.cut_each, number) {
                                // The head promises more than comes.
                                *answered.body_mut() = s3s::Body::empty();
                            }
                            Ok(answered)
                        }
                    });
                    let connections = Builder::new(TokioExecutor::new());
                    // A client that goes away is no fault of the server.
                    let _ = connections
                        .serve_connection(TokioIo::new(socket), answer)
                        .await;
                });
            }
        });
        Server {
            _runtime: runtime,
            endpoint,
            faults,
        }
    }

    fn store(&self) -> RemoteStore {
        let mut retries = RetryConfig::default();
        retries.backoff.init_backoff = Duration::from_millis(1);
        let objects = AmazonS3Builder::new()
            .with_bucket_name("shelf")
            .with_endpoint(&self.endpoint)
            .with_region("us-east-1")
            .with_access_key_id("key")
            .with_secret_access_key("secret")
            .with_allow_http(true)
            .with_retry(retries)
            .build()
            .unwrap();
        let prefix = ObjectPath::from("a/library.zdb");
        RemoteStore::of(Arc::new(objects), prefix, "s3://shelf/a/library.zdb")
    }
}

fn open(store: &RemoteStore) -> zipfdb_remote::Result<Database> {
    let options = Database::options().threads(2);
    store.open(None, options, &CacheOptions::default())
}

#[test]
fn a_database_is_pushed_opened_pulled_and_collected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let database = create(&path, 5);
    // More than one part.
    let mut state = 1u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as u8
    };
    std::fs::create_dir(folder.path().join("big")).unwrap();
    let bytes: Vec<u8> = (0..17 << 20).map(|_| noise()).collect();
    std::fs::write(folder.path().join("big/noise"), bytes).unwrap();
    database
        .execute_batch("CREATE CORPUS big WITH (ingest = 'fast')")
        .unwrap();
    let copy = format!("COPY big FROM '{}'", folder.path().join("big").display());
    database.execute_batch(&copy).unwrap();

    std::fs::create_dir(folder.path().join("server")).unwrap();
    let server = Server::start(&folder.path().join("server"));
    let store = server.store();
    let pushed = store.push(&path, false).unwrap();
    assert!(pushed.uploaded > 17 << 20, "{pushed:?}");
    assert_eq!(answers(&open(&store).unwrap()), answers(&database));
    insert(&database, 40..42);
    let again = store.push(&path, false).unwrap();
    assert!(
        again.kept > 17 << 20 && again.uploaded < 1 << 20,
        "{again:?}"
    );
    let pulled = folder.path().join("b.zdb");
    store.pull(None, &pulled).unwrap();
    let pulled = Database::open(&pulled).unwrap();
    assert_eq!(answers(&pulled), answers(&database));
    let size = "SELECT bytes FROM files('big')";
    let size = pulled.query(size, ()).unwrap().next().unwrap().unwrap();
    assert_eq!(size.values()[0], zipfdb::Value::Integer(17 << 20));
    let collected = store.collect(Duration::ZERO).unwrap();
    assert!(
        collected.versions == 1 && collected.objects > 0,
        "{collected:?}"
    );
    assert_eq!(answers(&open(&store).unwrap()), answers(&database));
}

#[test]
fn refusals_and_answers_that_are_cut_off_are_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let database = create(&path, 4);
    std::fs::create_dir(folder.path().join("server")).unwrap();
    let server = Server::start(&folder.path().join("server"));
    for (number, (refuse, cut)) in (1..).zip([(3, 0), (0, 4), (5, 7)]) {
        server.faults.refuse_each.store(refuse, Ordering::SeqCst);
        server.faults.cut_each.store(cut, Ordering::SeqCst);
        let store = server.store();
        assert_eq!(store.push(&path, false).unwrap().version, number);
        assert_eq!(answers(&open(&store).unwrap()), answers(&database));
        insert(&database, 30 + number..31 + number);
    }
}

#[test]
fn a_server_that_hangs_is_an_error_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let database = create(&path, 3);
    std::fs::create_dir(folder.path().join("server")).unwrap();
    let server = Server::start(&folder.path().join("server"));
    let store = server.store();
    store.push(&path, false).unwrap();
    let opened = open(&store).unwrap();
    let expected = answers(&database);
    insert(&database, 50..51);
    server.faults.hangs.store(1, Ordering::SeqCst);
    let impatient = server.store().with_timeout(Duration::from_millis(300));
    let begin = Instant::now();
    let pushed = impatient.push(&path, false).unwrap_err();
    assert!(matches!(pushed, Error::TimedOut { .. }), "{pushed}");
    assert!(matches!(open(&impatient), Err(Error::TimedOut { .. })));
    assert!(begin.elapsed() < Duration::from_secs(60));
    server.faults.hangs.store(0, Ordering::SeqCst);
    assert_eq!(answers(&opened), expected);
    assert_eq!(store.push(&path, false).unwrap().version, 2);
    assert_eq!(answers(&open(&store).unwrap()), answers(&database));
}
