//! Batches single look-ups that several threads make at about the same time.
//!
//! Invariant: every caller gets the answer of its own view. The first caller of a window (the leader) waits for its end and
//! answers for all followers; if that fails, each follower asks alone.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use parking_lot::{Condvar, Mutex};

use crate::Result;

/// A file, by its place in order of name, and a word.
pub(crate) type WordInFile = (usize, Vec<u8>);

/// The waiting look-ups of a database.
#[derive(Default)]
pub(crate) struct LookupBatchers {
    /// Length of the window in microseconds; 0 if look-ups are not gathered.
    window: AtomicU64,
    pub(crate) counts: LookupBatcher<WordInFile, u64>,
    pub(crate) searches: LookupBatcher<WordInFile, Vec<u64>>,
    /// Files, offsets and lengths.
    pub(crate) extracts: LookupBatcher<(usize, u64, u64), Vec<u8>>,
    /// Words, and the files that have all of them.
    pub(crate) intersections: LookupBatcher<Vec<Vec<u8>>, Vec<usize>>,
}

impl LookupBatchers {
    /// The window in which look-ups are gathered; none if they are not.
    pub(crate) fn window(&self) -> Option<Duration> {
        match self.window.load(Ordering::Relaxed) {
            0 => None,
            microseconds => Some(Duration::from_micros(microseconds)),
        }
    }

    /// Sets the window, in microseconds.
    pub(crate) fn set_window(&self, microseconds: u64) {
        self.window.store(microseconds, Ordering::Relaxed);
    }
}

/// The waiting look-ups of one kind.
pub(crate) struct LookupBatcher<Q, A> {
    waiting: Mutex<Vec<Arc<BatchedLookups<Q, A>>>>,
}

/// The waiting look-ups on one view.
struct BatchedLookups<Q, A> {
    view: Arc<dyn Any + Send + Sync>,
    state: Mutex<LookupsState<Q, A>>,
    is_answered: Condvar,
}

impl<Q, A> BatchedLookups<Q, A> {
    fn is_of(&self, view: &Arc<impl Any>) -> bool {
        ptr::addr_eq(Arc::as_ptr(&self.view), Arc::as_ptr(view))
    }
}

enum LookupsState<Q, A> {
    Asked(Vec<Q>),
    /// The answers by place of the question; none once taken, or if the question has no answer.
    Answered(Vec<Option<A>>),
}

impl<Q, A> Default for LookupBatcher<Q, A> {
    fn default() -> LookupBatcher<Q, A> {
        LookupBatcher {
            waiting: Mutex::default(),
        }
    }
}

impl<Q: Clone, A> LookupBatcher<Q, A> {
    /// Answers a question together with those that other threads ask before the window ends. Checks `go_on` every few
    /// milliseconds.
    ///
    /// # Errors
    /// Those of `one`, `all` and `go_on`.
    pub(crate) fn ask(
        &self,
        view: &Arc<impl Any + Send + Sync>,
        question: Q,
        window: Duration,
        go_on: impl Fn() -> Result<()>,
        one: impl Fn(Q) -> Result<A>,
        all: impl FnOnce(Vec<Q>) -> Result<Vec<A>>,
    ) -> Result<A> {
        let mut waiting = self.waiting.lock();
        let mut groups = waiting.iter();
        if let Some(group) = groups.find(|group| group.is_of(view)).cloned() {
            let mut state = group.state.lock();
            if let LookupsState::Asked(questions) = &mut *state {
                let place = questions.len();
                questions.push(question.clone());
                drop(waiting);
                loop {
                    if let LookupsState::Answered(answers) = &mut *state {
                        let answer = answers.get_mut(place).and_then(Option::take);
                        drop(state);
                        return answer.map_or_else(|| one(question), Ok);
                    }
                    go_on()?;
                    group.is_answered.wait_for(&mut state, LOOK_INTERVAL);
                }
            }
        }
        let group = Arc::new(BatchedLookups {
            view: view.clone(),
            state: Mutex::new(LookupsState::Asked(vec![question.clone()])),
            is_answered: Condvar::new(),
        });
        waiting.push(group.clone());
        drop(waiting);
        let mut answering = Answering {
            gatherer: self,
            group: &group,
            answers: Vec::new(),
        };
        let waited = wait(window, go_on);
        let questions = answering.close();
        waited?;
        if questions.len() == 1 {
            return one(question);
        }
        let mut answers = all(questions)?.into_iter();
        let own = answers.next();
        answering.answers = [None].into_iter().chain(answers.map(Some)).collect();
        drop(answering);
        own.map_or_else(|| one(question), Ok)
    }
}

/// Waits for `time`, or until `go_on` returns an error.
fn wait(time: Duration, go_on: impl Fn() -> Result<()>) -> Result<()> {
    let begin = Instant::now();
    loop {
        go_on()?;
        match time.checked_sub(begin.elapsed()) {
            None | Some(Duration::ZERO) => return Ok(()),
            Some(left) => thread::sleep(left.min(LOOK_INTERVAL)),
        }
    }
}

/// Interval at which a waiting thread checks for interruption.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Guard of the leader: wakes all followers when dropped, also on panic.
struct Answering<'a, Q, A> {
    gatherer: &'a LookupBatcher<Q, A>,
    group: &'a Arc<BatchedLookups<Q, A>>,
    answers: Vec<Option<A>>,
}

impl<Q, A> Answering<'_, Q, A> {
    /// Closes the window and takes the questions; later callers start a new one.
    fn close(&self) -> Vec<Q> {
        let mut waiting = self.gatherer.waiting.lock();
        waiting.retain(|group| !Arc::ptr_eq(group, self.group));
        match &mut *self.group.state.lock() {
            LookupsState::Asked(questions) => std::mem::take(questions),
            LookupsState::Answered(_) => Vec::new(),
        }
    }
}

impl<Q, A> Drop for Answering<'_, Q, A> {
    fn drop(&mut self) {
        let answers = std::mem::take(&mut self.answers);
        *self.group.state.lock() = LookupsState::Answered(answers);
        self.group.is_answered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Barrier;

    use super::*;
    use crate::Database;
    use crate::ingest::CopyOptions;

    #[test]
    fn concurrent_look_ups_get_their_own_answers() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..8 {
            let text = format!("{}cat only{number}", "the dog ".repeat(number + 1));
            std::fs::write(folder.path().join(number.to_string()), text).unwrap();
        }
        let database = Database::in_memory().unwrap();
        database
            .execute_batch("CREATE CORPUS pets; SET batch_window = '5ms'")
            .unwrap();
        let corpus = database.corpus("pets").unwrap();
        corpus
            .copy_from(folder.path(), &CopyOptions::default())
            .unwrap();
        let snapshot = corpus.snapshot().unwrap();
        let start = Barrier::new(8);
        thread::scope(|scope| {
            for number in 0..8u64 {
                let (database, snapshot, start) = (&database, &snapshot, &start);
                scope.spawn(move || {
                    let name = number.to_string();
                    start.wait();
                    assert_eq!(snapshot.count_in(&name, "dog").unwrap(), number + 1);
                    let cat = (number + 1) * 8;
                    assert_eq!(snapshot.search_in(&name, "cat").unwrap(), [cat]);
                    let only = format!("only{number}");
                    let end = format!("cat {only}").into_bytes();
                    assert_eq!(snapshot.extract(&name, cat, 9).unwrap(), end);
                    assert_eq!(snapshot.files_with(&["cat", &only]).unwrap(), [&name]);
                    let sql = format!("SELECT file FROM files_with('pets', 'dog', '{only}')");
                    let row = database.query(&sql, ()).unwrap().next().unwrap().unwrap();
                    assert_eq!(row[0], crate::Value::Text(name.as_str().into()));
                    assert!(snapshot.count_in("none", "dog").is_err());
                });
            }
        });
        let sql = "SELECT COUNT(*) FROM pets WHERE file = '3' AND word = 'dog'";
        let row = database.query(sql, ()).unwrap().next().unwrap().unwrap();
        assert_eq!(row[0], crate::Value::Integer(4));
    }

    #[test]
    fn an_interrupt_ends_the_wait_for_others() {
        let database = Database::in_memory().unwrap();
        database.execute_batch("CREATE CORPUS c").unwrap();
        let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
        let gatherer: LookupBatcher<u64, u64> = LookupBatcher::default();
        let hour = Duration::from_secs(3600);
        let ended = || Err(crate::Error::Interrupted);
        let asked = gatherer.ask(snapshot.view(), 1, hour, ended, Ok, Ok);
        assert!(matches!(asked, Err(crate::Error::Interrupted)));
        assert!(gatherer.waiting.lock().is_empty());
    }

    #[test]
    fn a_waiting_thread_asks_alone_when_a_batch_fails() {
        let database = Database::in_memory().unwrap();
        database.execute_batch("CREATE CORPUS c").unwrap();
        let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
        let gatherer: LookupBatcher<u64, u64> = LookupBatcher::default();
        let answered: Vec<u64> = thread::scope(|scope| {
            let threads = (0..4).map(|number| {
                let (gatherer, view) = (&gatherer, snapshot.view());
                scope.spawn(move || {
                    let all = |_| Err(crate::Error::Interrupted);
                    let window = Duration::from_millis(5);
                    gatherer.ask(
                        view,
                        number,
                        window,
                        || Ok(()),
                        |number| Ok(number * 2),
                        all,
                    )
                })
            });
            let threads: Vec<_> = threads.collect();
            let answers = threads.into_iter().map(|thread| thread.join().unwrap());
            answers.flatten().collect()
        });
        // Only the leader fails, if it had followers.
        assert!(answered.iter().all(|answer| answer % 2 == 0));
        assert!(gatherer.waiting.lock().is_empty());
    }
}
