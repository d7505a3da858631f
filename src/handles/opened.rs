//! `Opened`: the open directory behind the handles of a database, and the right to write to it.
//!
//! The invariant: a writer holds the lock of the directory, and has replayed all earlier commits. A database that shares its
//! directory with other processes reads until it first writes, which creates the directory if it is missing, follows their
//! commits, and gives the lock back once it has not written for a while; any other one has the lock from its opening to its end,
//! or is read-only. Each change from reading to writing or back is another [`Core`] of the same directory, even if its path has
//! been given to another one; handles and snapshots stay.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use zipfdb_storage::{Backend, Error as StorageError, Followed, OpenOptions, PathText, Store};

use crate::Result;
use crate::engine::core::Core;
use crate::maintain::background::Background;
use crate::runtime::Runtime;
use crate::runtime::interrupt::Interrupt;
use crate::segment::cache::Cache;

/// How long the lock is kept after a write.
pub(crate) const LOCK_KEPT: Duration = Duration::from_millis(500);

/// Interval at which a waiting thread tries to take the lock.
const TRY_INTERVAL: Duration = Duration::from_millis(10);

/// How long an opening waits for another process that creates or repairs the database.
const OPEN_WAIT: Duration = Duration::from_secs(5);

const READ: OpenOptions = OpenOptions {
    read_only: true,
    create: false,
};
const WRITE: OpenOptions = OpenOptions {
    read_only: false,
    create: false,
};

/// An open directory.
pub(crate) struct Opened {
    core: RwLock<Arc<Core>>,
    pub(crate) runtime: Arc<Runtime>,
    /// The decoded parts and derived structures of segments.
    pub(crate) cache: Arc<Cache>,
    pub(crate) background: Background,
    sharing: Option<Sharing>,
}

/// The state of a directory that other processes write to.
pub(crate) struct Sharing {
    /// How long the lock is kept after a write.
    kept: Duration,
    /// Held while the store is opened anew.
    state: Mutex<SharingState>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct SharingState {
    /// The number of threads that need the lock.
    writers: usize,
    /// When the last of them was done.
    idle_since: Instant,
    /// Whether a thread waits to give the lock back.
    has_thread: bool,
    is_closed: bool,
}

/// The right to write, until it is dropped.
pub(crate) struct Writing {
    core: Arc<Core>,
    /// None if the lock is kept.
    opened: Option<Arc<Opened>>,
}

impl Deref for Writing {
    type Target = Arc<Core>;

    fn deref(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Sharing {
    /// For a directory whose lock is kept for `kept` after a write.
    pub(crate) fn new(kept: Duration) -> Sharing {
        Sharing {
            kept,
            state: Mutex::new(SharingState {
                writers: 0,
                idle_since: Instant::now(),
                has_thread: false,
                is_closed: false,
            }),
            changed: Condvar::new(),
            thread: Mutex::default(),
        }
    }
}

/// Opens a directory that other processes write to: for reading if it opens without a warning, else for writing, which repairs
/// it. A missing directory that may be created is opened for reading too: the first write creates it.
///
/// # Errors
/// If it opens in neither way.
pub(crate) fn open_shared(backend: &Arc<dyn Backend>, path: &Path, create: bool) -> Result<Store> {
    let begun = Instant::now();
    let open = |options| Store::open_with(backend.clone(), path, options);
    let write = OpenOptions { create, ..WRITE };
    loop {
        let reading = open(OpenOptions { create, ..READ });
        if let Ok(store) = &reading
            && store.warnings().is_empty()
        {
            return Ok(reading?);
        }
        match (open(write), reading) {
            // The write lock is unavailable: open read only; the first write reports why.
            (Err(_), Ok(store)) => return Ok(store),
            (Err(StorageError::Locked { .. }), Err(_)) if begun.elapsed() < OPEN_WAIT => {
                thread::sleep(TRY_INTERVAL);
            }
            (writing, _) => return Ok(writing?),
        }
    }
}

impl Opened {
    /// Wraps a store that was just opened; `sharing` is set for a directory that others may write to.
    ///
    /// # Errors
    /// If the log cannot be replayed.
    pub(crate) fn new(
        store: Store,
        runtime: Arc<Runtime>,
        sharing: Option<Sharing>,
    ) -> Result<Arc<Opened>> {
        let limit = runtime.settings.lock().memory_limit();
        let cache = Arc::new(Cache::new(limit));
        let is_reader = store.is_read_only();
        for warning in store.warnings() {
            runtime.warnings.warn(store.path(), warning);
        }
        let core = Core::new(store, runtime.clone(), cache.clone());
        runtime.pool.install(|| core.replay())?;
        let opened = Arc::new(Opened {
            core: RwLock::new(Arc::new(core)),
            runtime,
            cache,
            background: Background::default(),
            sharing,
        });
        if let Some(sharing) = &opened.sharing
            && !is_reader
        {
            opened.start_thread(sharing, &mut sharing.state.lock());
        }
        if !is_reader {
            opened.background.resume(&opened.core());
        }
        Ok(opened)
    }

    /// The open directory in its last known state.
    pub(crate) fn core(&self) -> Arc<Core> {
        self.core.read().clone()
    }

    /// The open directory with all that other processes have committed.
    ///
    /// # Errors
    /// If it cannot be read, or its path leads to another one.
    pub(crate) fn fresh(&self) -> Result<Arc<Core>> {
        let Some(sharing) = &self.sharing else {
            return Ok(self.core());
        };
        // The thread that gives the lock back holds the state until a reader has replaced the writer. Without the state the
        // closed writer could be read here, which lacks what others have committed since.
        let _state = sharing.state.lock();
        let core = self.core();
        if core.store.is_read_only() {
            return self.follow();
        }
        core.store.check_directory()?;
        Ok(core)
    }

    /// As `fresh`, for a caller that holds the state.
    fn follow(&self) -> Result<Arc<Core>> {
        let core = self.core();
        let is_taken_up = match core.store.follow()? {
            Followed::Same => true,
            Followed::Grown => self.runtime.pool.install(|| core.replay()).is_ok(),
            Followed::Changed => false,
        };
        if is_taken_up {
            Ok(core)
        } else {
            self.reopen(&core, READ)
        }
    }

    /// The right to write. Waits for another process that has it as long as `busy_timeout` allows.
    ///
    /// # Errors
    /// `Locked` after that, that of `interrupt`, and if the directory cannot be opened for writing.
    pub(crate) fn writing(self: &Arc<Self>, interrupt: &Interrupt) -> Result<Writing> {
        let Some(sharing) = &self.sharing else {
            return Ok(Writing {
                core: self.core(),
                opened: None,
            });
        };
        let begun = Instant::now();
        loop {
            let mut state = sharing.state.lock();
            let core = self.core();
            let writing = if core.store.is_read_only() {
                self.take_lock()
            } else {
                core.store
                    .check_directory()
                    .map_err(Into::into)
                    .map(|()| core)
            };
            match writing {
                Ok(core) => {
                    state.writers += 1;
                    self.start_thread(sharing, &mut state);
                    return Ok(Writing {
                        core,
                        opened: Some(self.clone()),
                    });
                }
                Err(crate::Error::Storage(error @ StorageError::Locked { .. })) => {
                    let timeout = self.runtime.settings.lock().busy_timeout;
                    if begun.elapsed() >= Duration::from_millis(timeout) {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error),
            }
            drop(state);
            interrupt.check()?;
            thread::sleep(TRY_INTERVAL);
        }
    }

    /// Opens the directory for writing.
    fn take_lock(&self) -> Result<Arc<Core>> {
        let core = self.follow()?;
        self.reopen(&core, WRITE)
    }

    /// Replaces the store by another one of the same directory, with all that is known of the present one. The directory is
    /// created only if it did not exist before.
    fn reopen(&self, previous: &Core, options: OpenOptions) -> Result<Arc<Core>> {
        let create = previous.store.is_missing();
        let core = self.runtime.pool.install(|| {
            let store = previous.store.reopen(OpenOptions { create, ..options })?;
            let core = Core::following(previous, store);
            core.replay()?;
            Ok::<_, crate::Error>(Arc::new(core))
        })?;
        for warning in core.store.warnings() {
            self.runtime.warnings.warn(core.store.path(), warning);
        }
        *self.core.write() = core.clone();
        Ok(core)
    }

    /// Starts a thread that gives the lock back when it is idle. Without one the lock is kept to the end.
    fn start_thread(self: &Arc<Self>, sharing: &Sharing, state: &mut SharingState) {
        if state.has_thread {
            return;
        }
        let opened = self.clone();
        let thread = thread::Builder::new().name("zipfdb-lock".into());
        if let Ok(handle) = thread.spawn(move || opened.release_when_idle()) {
            state.has_thread = true;
            // The thread before has ended, or is about to.
            *sharing.thread.lock() = Some(handle);
        }
    }

    fn release_when_idle(&self) {
        let Some(sharing) = &self.sharing else {
            return;
        };
        let mut state = sharing.state.lock();
        while !state.is_closed {
            let idle = state.idle_since.elapsed();
            if state.writers == 0 && idle >= sharing.kept && self.background.rest() {
                self.release();
                break;
            }
            let left = sharing.kept.saturating_sub(idle).max(TRY_INTERVAL);
            sharing.changed.wait_for(&mut state, left);
        }
        state.has_thread = false;
    }

    /// Gives the lock back and continues reading.
    fn release(&self) {
        let core = self.core();
        let path = PathText(core.store.path());
        match core.store.close() {
            Ok(()) => core.note_taken_up(),
            Err(error) => tracing::warn!("{path}: closing for writing failed: {error}"),
        }
        // The same failure meets the next statement, which reports it.
        if let Err(error) = self.reopen(&core, READ) {
            tracing::debug!("{path}: cannot be read after it was written: {error}");
        }
    }

    /// What was repaired or looked wrong at each opening, oldest first.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.runtime.warnings.all()
    }

    /// Ends the waiting thread.
    pub(crate) fn close(&self) {
        let Some(sharing) = &self.sharing else {
            return;
        };
        sharing.state.lock().is_closed = true;
        sharing.changed.notify_all();
        let thread = sharing.thread.lock().take();
        if let Some(thread) = thread {
            // A panic in it has been printed.
            let _ = thread.join();
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let sharing = self
            .opened
            .as_ref()
            .and_then(|opened| opened.sharing.as_ref());
        if let Some(sharing) = sharing {
            let mut state = sharing.state.lock();
            state.writers -= 1;
            state.idle_since = Instant::now();
        }
    }
}
