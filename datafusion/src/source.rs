//! `CorpusSource`: the database that tables read.
//!
//! Invariant: all tables of a query that come from one source are given one frozen source by the optimizer rule.

use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use zipfdb::{Database, Reader};
use zipfdb_arrow::TextArrays;

use crate::workers::{WorkerPool, WorkerSegments};

/// What tables read from.
#[derive(Debug)]
pub(crate) struct CorpusSource {
    /// For what is written.
    pub(crate) database: Database,
    /// What all its statements read with, if they see one snapshot of each corpus.
    pub(crate) frozen: Option<Reader>,
    /// The workers that read its segments; none if this process does.
    pub(crate) workers: Option<Arc<WorkerPool>>,
    /// What was made of the texts of its rows.
    pub(crate) texts: Arc<TextArrays>,
}

impl CorpusSource {
    pub(crate) fn new(database: Database) -> CorpusSource {
        CorpusSource {
            database,
            frozen: None,
            workers: None,
            texts: Arc::default(),
        }
    }

    /// A source of the same database all of whose statements see one snapshot of each corpus.
    pub(crate) fn frozen(&self) -> CorpusSource {
        CorpusSource {
            database: self.database.clone(),
            frozen: Some(self.reader()),
            workers: self.workers.clone(),
            texts: self.texts.clone(),
        }
    }

    /// A source that reads with `reader`, of a database.
    pub(crate) fn of_reader(
        database: Database,
        reader: Reader,
        texts: Arc<TextArrays>,
    ) -> CorpusSource {
        CorpusSource {
            frozen: Some(reader),
            texts,
            ..CorpusSource::new(database)
        }
    }

    /// Whether all its statements see one snapshot of each corpus.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// What a statement reads with.
    pub(crate) fn reader(&self) -> Reader {
        self.frozen
            .clone()
            .unwrap_or_else(|| self.database.reader())
    }

    /// Shares the segments of a corpus out among workers, by their places; none if there are no workers, or edits are
    /// pending.
    ///
    /// # Errors
    /// If the corpus cannot be read.
    pub(crate) fn assign(&self, corpus: &str) -> zipfdb::Result<Option<Vec<WorkerSegments>>> {
        let Some(workers) = &self.workers else {
            return Ok(None);
        };
        let partitions = self.reader().snapshot(corpus)?.partitions();
        Ok(partitions.map(|partitions| workers.assign(&partitions)))
    }

    /// The name of a corpus as the database has it, by its name in any case of ASCII letters.
    pub(crate) fn corpus(&self, name: &str) -> Option<String> {
        let mut names = self.database.corpora().into_iter();
        names.find(|corpus| corpus.eq_ignore_ascii_case(name))
    }

    /// The name of a view as the database has it, by its name in any case of ASCII letters.
    pub(crate) fn view(&self, name: &str) -> Option<String> {
        let mut names = self.database.views().into_iter();
        names.find(|view| view.eq_ignore_ascii_case(name))
    }
}

/// What ZipfDB answers on a thread that may block.
///
/// # Errors
/// That of `work`, or if the thread was cancelled.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let answer = SpawnedTask::spawn_blocking(work).join_unwind().await;
    answer.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}
