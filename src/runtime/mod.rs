//! What an open database runs on: its threads and GPUs, what SET has changed, who is interrupted and whose turn it is.
//!
//! Invariant: nothing here knows what is stored or asked. Every other module may use it, and it uses none of them.

pub(crate) mod ahead;
pub(crate) mod beside;
pub(crate) mod device;
pub(crate) mod gather;
pub(crate) mod interrupt;
mod machine;
pub(crate) mod memory;
pub(crate) mod progress;
pub(crate) mod settings;
pub(crate) mod sync;
pub(crate) mod turns;
pub(crate) mod underway;
pub(crate) mod warnings;

use std::sync::Arc;

use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::no_threads;
use crate::{Error, Result};
use device::Devices;
use gather::Gathered;
use interrupt::{Interrupt, Interrupts};
use settings::Settings;
use turns::{Turn, Turns};
use underway::Underway;
use warnings::Warnings;

/// Most threads of a database: many more than processors are of no use, and the system may fall over them.
const THREADS_MAX: usize = 4096;

/// What one open database runs on.
pub(crate) struct Runtime {
    /// Its threads: nothing parallel is done on others.
    pub(crate) pool: Arc<ThreadPool>,
    pub(crate) devices: Arc<Devices>,
    /// What SET has changed.
    pub(crate) settings: Mutex<Settings>,
    pub(crate) interrupts: Interrupts,
    /// Whose turn it is to change the database.
    pub(crate) writing: Turns,
    /// Whose turn it is to recompress. Of the two this comes first.
    pub(crate) recompressing: Turns,
    /// Whose turn it is to build indexes.
    pub(crate) indexing: Turns,
    pub(crate) underway: Underway,
    /// Single look-ups that wait for others.
    pub(crate) gathered: Gathered,
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
            writing: Turns::default(),
            recompressing: Turns::default(),
            indexing: Turns::default(),
            underway: Underway::default(),
            gathered: Gathered::default(),
            warnings: Warnings::default(),
        }
    }

    /// For a statement that begins now.
    pub(crate) fn interrupt(&self) -> Interrupt {
        let timeout = self.settings.lock().statement_timeout;
        self.interrupts.begin(timeout)
    }

    /// Waits for a turn to write, until `interrupt` ends it.
    ///
    /// # Errors
    /// That of `interrupt`.
    pub(crate) fn turn(&self, interrupt: &Interrupt) -> Result<Turn> {
        self.writing.wait_while(|| interrupt.check())
    }
}

/// Starts the threads that work for a database, as many as there are processors if it is not said.
///
/// # Errors
/// If they are too many, or the system refuses them.
pub(crate) fn start_pool(threads: Option<usize>) -> Result<ThreadPool> {
    // 0 lets rayon take the number of processors.
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
