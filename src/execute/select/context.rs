//! The state that all operators of one query share.
//!
//! Invariant: operators that keep rows share the memory limit in equal parts, so together they stay within it. A single row may
//! be larger than a part: it is spilled alone.

use std::sync::Arc;

use parking_lot::Mutex;
use rayon::ThreadPool;
use zipfdb_sql::query::Expression;

use crate::Result;
use crate::answer::{CorpusReader, PlanSettings};
use crate::expression::{Layout, Program};
use crate::handles::session::Session;
use crate::runtime::interrupt::{Interrupt, Pace};
use crate::runtime::memory::ValueMemory;
use crate::runtime::settings::Settings;
use crate::runtime::spill_directory::SpillDirectory;
use crate::segment::cache::{Cache, Reservation};

/// The state that all operators of one query share.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) interrupt: Interrupt,
    /// The pool for the parallel work of operators.
    pub(super) pool: Arc<ThreadPool>,
    pub(crate) settings: Settings,
    /// Whether scans describe themselves for EXPLAIN.
    pub(super) is_explained: bool,
    /// 0-based number of the parameter set.
    pub(crate) binding: u64,
    /// Answers to the look-ups of several parameter sets.
    pub(super) batch: Option<Arc<KnownLookups>>,
    pub(crate) spill: SpillDirectory,
    /// Bytes that one operator may keep.
    pub(crate) memory: usize,
    /// The cache whose limit covers what operators keep.
    cache: Arc<Cache>,
    /// The limit for values of rows.
    pub(crate) values: ValueMemory,
    /// The readers of the corpora that the query has opened so far: all its scans see the same snapshots.
    snapshots: Arc<Mutex<Vec<(String, CorpusReader)>>>,
}

impl Context {
    /// The context of a statement and its first parameter set.
    pub(crate) fn new(session: &Arc<Session>, interrupt: &Interrupt) -> Context {
        let settings = *session.shared().runtime.settings.lock();
        Context {
            interrupt: interrupt.clone(),
            pool: session.shared().runtime.pool.clone(),
            settings,
            is_explained: false,
            binding: 0,
            batch: None,
            spill: SpillDirectory::beside(session.path().as_deref()),
            cache: session.shared().cache.clone(),
            memory: usize::try_from(settings.memory_limit()).unwrap_or(usize::MAX),
            values: ValueMemory::new(&settings),
            snapshots: Arc::default(),
        }
    }

    /// The same for EXPLAIN.
    pub(super) fn explained(self) -> Context {
        Context {
            is_explained: true,
            ..self
        }
    }

    /// The reader of a corpus for this query.
    pub(super) fn reader(&self, session: &Arc<Session>, corpus: &str) -> Result<CorpusReader> {
        let known = self.batch.as_ref().and_then(|batch| batch.reader(corpus));
        if let Some(known) = known {
            return Ok(known);
        }
        let mut snapshots = self.snapshots.lock();
        if let Some((_, same)) = snapshots.iter().find(|(name, _)| name == corpus) {
            return Ok(same.clone());
        }
        let reader = session.reader(corpus, &self.interrupt)?;
        snapshots.push((corpus.to_owned(), reader.clone()));
        Ok(reader)
    }

    /// Begins a query, which has opened no corpus yet.
    pub(super) fn begin_query(&mut self) {
        self.snapshots = Arc::default();
    }

    /// The settings of plans of scans.
    pub(super) fn plan_settings(&self) -> PlanSettings {
        PlanSettings {
            forced: self.settings.strategy,
            is_explained: self.is_explained,
            memory_limit: self.settings.memory_limit(),
        }
    }

    /// An empty reservation for an operator.
    pub(super) fn reservation(&self) -> Reservation {
        self.cache.reservation()
    }

    /// Expressions that are the columns of rows of `width` columns.
    ///
    /// # Errors
    /// If the query must end.
    pub(super) fn columns(&self, width: usize) -> Result<Arc<Program>> {
        let columns: Vec<Expression> = (0..width).map(Expression::Column).collect();
        let layout = Layout::whole(width, 0);
        let program = Program::new(
            &columns,
            &layout,
            self.binding,
            &self.interrupt,
            &self.values,
        );
        program.map(Arc::new)
    }

    pub(crate) fn pace(&self) -> Pace {
        self.interrupt.pace()
    }
}

/// A snapshot of a corpus with known answers to look-ups.
#[derive(Clone)]
pub(crate) struct KnownLookups {
    pub(super) corpus: String,
    pub(super) reader: CorpusReader,
    /// The number of parameter sets with known answers.
    pub(super) sets: u64,
}

impl KnownLookups {
    /// The number of sets, from the first, with known answers.
    pub(super) fn sets(&self) -> u64 {
        self.sets
    }

    /// The reader, if it is of this corpus.
    pub(super) fn reader(&self, corpus: &str) -> Option<CorpusReader> {
        (self.corpus == corpus).then(|| self.reader.clone())
    }
}
