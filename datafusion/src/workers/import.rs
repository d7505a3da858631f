//! An import that workers share: the coordinator's side.
//!
//! Invariant: each part is taken once, from whichever worker did it first, and the version has all of them or is not there. A part
//! whose worker fails or is silent goes to another one; one that takes very long is begun by another one, too. A worker that fails
//! again and again is asked less often, and as long as one of the others does not, it may come back.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arrow_flight::Action;
use datafusion::common::exec_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use zipfdb_remote::{Import, ImportPart, ImportedPart, Pushed, RemoteStore};

use super::attempt::{Failure, ROUND_PAUSE, ROUNDS, authorized, connect, given_up, of_status};
use super::pool::{OUT_TIME, WorkerPool};
use super::task::{ImportTask, RELEASE};
use crate::source::blocking;

/// Most bytes of text of a part: the default size of a segment.
const PART_BYTES_MAX: u64 = 1 << 30;

/// Lower bound of the bytes of text of a part where there is little to import.
const PART_BYTES_MIN: u64 = 16 << 20;

/// Lower bound of the bytes of text of a part where there is much to import: segments of less text take more space in all.
const SMALL_PART_BYTES: u64 = 64 << 20;

/// A part is this part of what is left, by workers: the last parts are small, so that all workers end at about the same time.
const PARTS_LEFT: u64 = 2;

/// Bytes of the next part, when `left` of `all` bytes are in no part yet.
fn part_bytes(all: u64, left: u64, workers: u64) -> u64 {
    let least = (all / (4 * PARTS_LEFT * workers)).clamp(PART_BYTES_MIN, SMALL_PART_BYTES);
    (left / (PARTS_LEFT * workers)).clamp(least, PART_BYTES_MAX)
}

/// The outcome of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The version that has it.
    pub pushed: Pushed,
    /// What is worth a word about the files, part by part in order.
    pub notices: Vec<String>,
}

/// What workers do together.
struct Shared {
    import: Import,
    /// Parts that no worker makes now.
    waiting: VecDeque<usize>,
    /// Parts that workers make now: the part, the worker, and since when.
    running: Vec<(usize, usize, Instant)>,
    done: Vec<Option<ImportedPart>>,
    /// Workers that failed several times in a row, and not since.
    out: Vec<bool>,
    /// Why each worker failed the last time.
    failures: Vec<Option<String>>,
}

impl Shared {
    fn are_all_done(&self) -> bool {
        self.done.iter().all(Option::is_some)
    }

    fn are_all_out(&self) -> bool {
        self.out.iter().all(|is_out| *is_out)
    }

    /// A part for a worker; none if there is none for it now.
    fn take(&mut self, worker: usize, pool: &WorkerPool) -> Option<usize> {
        let slow = || {
            let (part, ..) = *self.running.iter().find(|(part, by, since)| {
                let attempts = self.running.iter().filter(|(other, ..)| other == part);
                *by != worker && since.elapsed() > pool.options().patience && attempts.count() == 1
            })?;
            Some(part)
        };
        let part = self.waiting.front().copied().or_else(slow)?;
        self.waiting.retain(|waiting| *waiting != part);
        self.running.push((part, worker, Instant::now()));
        Some(part)
    }

    /// Says that a worker failed at a part.
    fn fail(&mut self, worker: usize, part: usize, reason: String) {
        self.end(worker, part, None);
        self.failures[worker] = Some(reason);
    }

    /// Says that a worker is at a part no more.
    fn end(&mut self, worker: usize, part: usize, made: Option<ImportedPart>) {
        self.running
            .retain(|(of, by, _)| (*of, *by) != (part, worker));
        match made {
            Some(made) => drop(self.done[part].get_or_insert(made)),
            None if self.done[part].is_none()
                && self.running.iter().all(|(of, ..)| *of != part) =>
            {
                self.waiting.push_front(part);
            }
            None => {}
        }
    }
}

/// Imports what is at `path`, which all workers have, to a corpus of the database of a store: workers of a pool make the segments, and
/// all of them become the next version. `progress` gets the number of parts that are done and of all parts.
///
/// # Errors
/// If the pool is of another version than the newest, the corpus has one of the files or changes that are pending, a path
/// is not the same on a worker or it refuses to read it, no worker is left, or another publisher was faster. Nothing has happened then.
pub async fn import(
    store: &RemoteStore,
    pool: &Arc<WorkerPool>,
    corpus: &str,
    path: &Path,
    mut progress: impl FnMut(usize, usize),
) -> Result<Imported> {
    let (begun, name, from) = (store.clone(), corpus.to_owned(), path.to_owned());
    let (workers, part_size) = (pool.len() as u64, pool.options().part_bytes);
    let (import, parts) = blocking(move || {
        let import = begun.begin_import(&name).map_err(failed)?;
        let share = |all| move |left| part_size.unwrap_or_else(|| part_bytes(all, left, workers));
        let parts = import.parts(&from, share).map_err(failed)?;
        Ok((import, parts))
    })
    .await?;
    if import.version() != pool.version().number {
        return Err(exec_datafusion_err!(
            "version {} was published meanwhile; hint: begin again",
            import.version()
        ));
    }
    let shared = Mutex::new(Shared {
        import,
        waiting: (0..parts.len()).collect(),
        running: Vec::new(),
        done: vec![None; parts.len()],
        out: vec![false; pool.len()],
        failures: vec![None; pool.len()],
    });
    let work = |worker| work_with(pool, worker, &parts, &shared);
    let mut working: FuturesUnordered<_> = (0..pool.len()).map(work).collect();
    let mut reported = 0;
    progress(0, parts.len());
    loop {
        let ended = tokio::time::timeout(ROUND_PAUSE, working.next()).await;
        let state = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let done = state.done.iter().flatten().count();
        if done > reported {
            reported = done;
            progress(done, parts.len());
        }
        match ended {
            Ok(Some(Err(error))) => return Err(error),
            _ if state.are_all_done() => break,
            Ok(None) => return Err(given_up(state.failures.iter().flatten().cloned().collect())),
            Ok(Some(Ok(()))) | Err(_) => {}
        }
    }
    // Workers that still make a part which another one has made are interrupted by that.
    drop(working);
    let Shared { import, done, .. } = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    let done: Vec<ImportedPart> = done.into_iter().flatten().collect();
    let notices = parts.iter().zip(&done).flat_map(|(part, done)| {
        let (first, last) = &part.names;
        let notices = done.notices().iter();
        notices.map(move |notice| format!("files `{first}` to `{last}`: {notice}"))
    });
    let notices = notices.collect();
    let pushed = blocking(move || import.publish(done).map_err(failed)).await?;
    Ok(Imported { pushed, notices })
}

/// Has a worker do one part after the other, until all are done or all workers have failed several times.
async fn work_with(
    pool: &WorkerPool,
    worker: usize,
    parts: &[ImportPart],
    shared: &Mutex<Shared>,
) -> Result<()> {
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut failures, mut asked_again) = (0, Instant::now());
    loop {
        let taken = {
            let mut state = lock();
            if state.are_all_done() || state.are_all_out() {
                return Ok(());
            }
            let is_asked = Instant::now() >= asked_again;
            let part = is_asked.then(|| state.take(worker, pool)).flatten();
            part.map(|part| (part, state.import.place()))
        };
        let Some((part, place)) = taken else {
            tokio::time::sleep(ROUND_PAUSE).await;
            continue;
        };
        let task = ImportTask {
            release: RELEASE.into(),
            version: pool.version().number,
            publication: pool.version().publication.clone(),
            place,
            part: parts[part].clone(),
        };
        match ask(pool, worker, &task).await {
            Ok(made) => {
                failures = 0;
                let mut state = lock();
                state.out[worker] = false;
                state.end(worker, part, Some(made));
            }
            Err(Failure::OfTask(error)) => return Err(error),
            Err(Failure::OfWorker(reason)) => {
                failures += 1;
                pool.failed(worker);
                let mut state = lock();
                state.fail(worker, part, format!("{}: {reason}", pool.address(worker)));
                state.out[worker] = failures >= ROUNDS;
                let pause = if state.out[worker] {
                    OUT_TIME
                } else {
                    ROUND_PAUSE
                };
                asked_again = Instant::now() + pause;
            }
        }
    }
}

/// What a worker makes of a part.
async fn ask(
    pool: &WorkerPool,
    worker: usize,
    task: &ImportTask,
) -> std::result::Result<ImportedPart, Failure> {
    let fail = |status| of_status(status, pool.address(worker));
    let mut client = connect(pool, worker).await?;
    let request = authorized(pool, Action::new(ImportTask::ACTION, task.encode()));
    let mut answers = client.do_action(request).await.map_err(fail)?.into_inner();
    let answer = answers.message().await.map_err(fail)?;
    let answer = answer.map(|answer| answer.body).unwrap_or_default();
    let made = serde_json::from_slice(&answer);
    made.map_err(|error| Failure::OfWorker(format!("its answer is not a part: {error}")))
}

fn failed(error: zipfdb_remote::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_smaller_and_none_is_tiny() {
        let gigabyte = 1 << 30;
        let mut left = 40 * gigabyte;
        let mut parts = Vec::new();
        while left > 0 {
            let part = part_bytes(40 * gigabyte, left, 8).min(left);
            parts.push(part);
            left -= part;
        }
        assert!(parts.is_sorted_by(|earlier, later| earlier >= later));
        assert_eq!(parts[0], gigabyte);
        assert!(
            parts[..parts.len() - 1]
                .iter()
                .all(|part| *part >= SMALL_PART_BYTES)
        );
        assert_eq!(part_bytes(1 << 20, 1 << 20, 8), PART_BYTES_MIN);
    }
}
