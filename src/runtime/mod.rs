//! What an open database runs on: its threads and GPUs, the settings, interrupts, and the order of writers.
//!
//! Invariant: stored data and questions are not known here. Every other module may use this one, and it uses none of them.

pub(crate) mod background_value;
pub(crate) mod device;
pub(crate) mod fair_mutex;
pub(crate) mod interrupt;
pub(crate) mod lookup_batcher;
mod machine;
pub(crate) mod memory;
pub(crate) mod prefetch;
pub(crate) mod progress;
pub(crate) mod recompression_progress;
pub(crate) mod settings;
pub(crate) mod spill_directory;
pub(crate) mod sync;
pub(crate) mod warnings;

use std::sync::Arc;

use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::no_threads;
use crate::{Error, Result};
use device::Devices;
use fair_mutex::{FairMutex, FairMutexGuard};
use interrupt::{Interrupt, Interrupts};
use lookup_batcher::LookupBatchers;
use recompression_progress::RecompressionProgress;
use settings::Settings;
use warnings::Warnings;

/// The most threads of a database: far more threads than processors only cost memory, and the system may refuse them.
const THREADS_MAX: usize = 4096;

/// What one open database runs on.
pub(crate) struct Runtime {
    /// The threads of the database: all parallel work runs on them.
    pub(crate) pool: Arc<ThreadPool>,
    pub(crate) devices: Arc<Devices>,
    /// The settings as SET left them.
    pub(crate) settings: Mutex<Settings>,
    pub(crate) interrupts: Interrupts,
    /// The lock for changing the database.
    pub(crate) writing: FairMutex,
    /// The lock for recompressing. Taken before `writing`.
    pub(crate) recompressing: FairMutex,
    /// The lock for building indexes.
    pub(crate) indexing: FairMutex,
    pub(crate) underway: RecompressionProgress,
    /// Single look-ups that are gathered to batches.
    pub(crate) gathered: LookupBatchers,
    pub(crate) warnings: Warnings,
}

impl Runtime {
    /// With threads of [`start_pool`].
    pub(crate) fn new(pool: ThreadPool) -> Runtime {
        let pool = Arc::new(pool);
        Runtime {
            devices: Arc::new(Devices::new(pool.clone())),
            pool,
            settings: Mutex::default(),
            interrupts: Interrupts::default(),
            writing: FairMutex::default(),
            recompressing: FairMutex::default(),
            indexing: FairMutex::default(),
            underway: RecompressionProgress::default(),
            gathered: LookupBatchers::default(),
            warnings: Warnings::default(),
        }
    }

    /// The interrupt of a statement that begins now.
    pub(crate) fn interrupt(&self) -> Interrupt {
        let timeout = self.settings.lock().statement_timeout;
        self.interrupts.begin(timeout)
    }

    /// Waits for the lock to write, until `interrupt` ends the wait.
    ///
    /// # Errors
    /// That of `interrupt`.
    pub(crate) fn turn(&self, interrupt: &Interrupt) -> Result<FairMutexGuard> {
        self.writing.wait_while(|| interrupt.check())
    }
}

/// Starts the threads of a database, by default one for each processor.
///
/// # Errors
/// If there are more than `THREADS_MAX`, or the system refuses them.
pub(crate) fn start_pool(threads: Option<usize>) -> Result<ThreadPool> {
    // rayon takes 0 as the number of processors.
    let threads = threads.unwrap_or(0);
    if threads > THREADS_MAX {
        return Err(Error::Invalid {
            subject: "threads".into(),
            reason: format!("{threads} are too many; hint: at most {THREADS_MAX} can be started"),
        });
    }
    let pool = ThreadPoolBuilder::new().num_threads(threads);
    let pool = pool.thread_name(|index| format!("zipfdb-{index}"));
    pool.build().map_err(no_threads)
}
