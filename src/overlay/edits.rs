//! The edits of a database that are not merged yet: what readers see of them, and what the next writer adds to.
//!
//! The invariant: what is visible is durable as its committer asked, and so is everything before it; the tip of a corpus holds
//! every commit in the log. A writer keeps the lock until its commit is in the log and in the tip, so commits have one order;
//! they wait for the disk after it, together.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use zipfdb_storage::{Durability, Edit, LogPosition, LogRecord, Store};

use crate::Result;
use crate::overlay::{EditBatch, Insertion, Overlay, StoredFiles, rows_by_file};
use crate::runtime::fair_mutex::FairMutexGuard;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::reserved;
use crate::runtime::sync::Mutex;

/// The edits of all corpora, by the number of the corpus.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    corpora: Mutex<HashMap<u64, CorpusEdits>>,
}

/// The edits of a corpus.
#[derive(Clone, Debug, Default)]
struct CorpusEdits {
    /// With every commit in the log.
    tip: Overlay,
    /// The overlay that readers see, and the position of its last commit.
    visible: Overlay,
    visible_at: LogPosition,
    /// The batches of the overlays, to be applied again when segments are replaced.
    batches: Vec<PendingBatch>,
    asked: Asked,
}

/// A batch that is not merged.
#[derive(Clone, Debug)]
struct PendingBatch {
    position: LogPosition,
    /// The time of its commit, or of its replay from the log.
    since: Instant,
    batch: Arc<EditBatch>,
}

impl PendingBatch {
    fn new(position: LogPosition, batch: Arc<EditBatch>) -> PendingBatch {
        PendingBatch {
            position,
            since: Instant::now(),
            batch,
        }
    }
}

/// The positions up to which commits must be durable.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// Through a power cut.
    full: LogPosition,
    /// Through the end of the process.
    normal: LogPosition,
}

impl Asked {
    /// The same with a commit at `position`.
    fn and(self, position: LogPosition, durability: Durability) -> Asked {
        let Asked { full, normal } = self;
        match durability {
            Durability::Full => Asked {
                full: position,
                normal,
            },
            Durability::Normal => Asked {
                full,
                normal: position,
            },
            Durability::Off => self,
        }
    }

    /// The later position of both, for each durability.
    fn or(self, other: Asked) -> Asked {
        Asked {
            full: self.full.max(other.full),
            normal: self.normal.max(other.normal),
        }
    }
}

/// The effect of a commit on a corpus.
#[derive(Debug)]
pub(crate) struct CorpusCommit {
    pub(crate) corpus: u64,
    /// The tip with the edits of the commit.
    pub(crate) overlay: Overlay,
    pub(crate) batches: Vec<Arc<EditBatch>>,
}

impl Edits {
    /// The overlay that readers see of a corpus, and the result of `look` at the same moment: segments are replaced together with
    /// the edits that rest on them.
    pub(crate) fn visible_with<T>(&self, corpus: u64, look: impl FnOnce() -> T) -> (Overlay, T) {
        let corpora = self.corpora.lock();
        let visible = corpora.get(&corpus).map(|edits| edits.visible.clone());
        (visible.unwrap_or_default(), look())
    }

    /// The overlay that the next commit to a corpus adds to; none if the corpus has no edits.
    pub(crate) fn tip(&self, corpus: u64) -> Option<Overlay> {
        let corpora = self.corpora.lock();
        corpora.get(&corpus).map(|edits| edits.tip.clone())
    }

    /// Whether the log has commits to a corpus that are not merged, even if they have no effect.
    pub(crate) fn is_pending(&self, corpus: u64) -> bool {
        let corpora = self.corpora.lock();
        (corpora.get(&corpus)).is_some_and(|edits| !edits.batches.is_empty())
    }

    /// The approximate bytes of pending edits of a corpus.
    pub(crate) fn pending_bytes(&self, corpus: u64) -> u64 {
        let corpora = self.corpora.lock();
        (corpora.get(&corpus)).map_or(0, |edits| edits.tip.pending_bytes())
    }

    /// The time of the oldest commit to a corpus that is not merged; none if all are merged.
    pub(crate) fn pending_since(&self, corpus: u64) -> Option<Instant> {
        let corpora = self.corpora.lock();
        Some(corpora.get(&corpus)?.batches.first()?.since)
    }

    /// All files that the edits of a corpus name.
    pub(crate) fn files(&self, corpus: u64) -> HashSet<Arc<str>> {
        let corpora = self.corpora.lock();
        let batches = corpora.get(&corpus).map(|edits| &edits.batches[..]);
        let batches = batches.unwrap_or_default().iter();
        batches
            .flat_map(|pending| pending.batch.files().cloned())
            .collect()
    }

    /// Makes a commit: `append` puts it into the log and returns its position, `ensure` returns when the log up to a position has
    /// the given durability. Others may write during that wait.
    ///
    /// It also waits for the durability that earlier committers to the same corpora asked for: readers see their edits with its
    /// own.
    ///
    /// # Errors
    /// Those of `append` and `ensure`.
    pub(crate) fn commit(
        &self,
        turn: FairMutexGuard,
        commits: Vec<CorpusCommit>,
        durability: Durability,
        append: impl FnOnce() -> Result<LogPosition>,
        ensure: impl Fn(LogPosition, Durability) -> Result<()>,
    ) -> Result<()> {
        let position = append()?;
        let asked = self.append(position, durability, &commits);
        drop(turn);
        ensure(asked.full, Durability::Full)?;
        ensure(asked.normal, Durability::Normal)?;
        ensure(position, durability)?;
        self.publish(position, commits);
        Ok(())
    }

    /// Adds a commit at `position` of the log to the tips. Returns the positions that its corpora wait for.
    fn append(
        &self,
        position: LogPosition,
        durability: Durability,
        commits: &[CorpusCommit],
    ) -> Asked {
        let mut corpora = self.corpora.lock();
        let mut asked = Asked::default();
        for commit in commits {
            let edits = corpora.entry(commit.corpus).or_default();
            edits.tip = commit.overlay.clone();
            let batches = commit.batches.iter().cloned();
            let batches = batches.map(|batch| PendingBatch::new(position, batch));
            edits.batches.extend(batches);
            edits.asked = edits.asked.and(position, durability);
            asked = asked.or(edits.asked);
        }
        asked
    }

    /// Makes a commit visible to readers, with all commits before it.
    fn publish(&self, position: LogPosition, commits: Vec<CorpusCommit>) {
        let mut corpora = self.corpora.lock();
        for commit in commits {
            // A later commit may have been published first, or its base was replaced, with the commit in the new tip.
            if let Some(edits) = corpora.get_mut(&commit.corpus)
                && edits.visible_at < position
            {
                edits.visible = commit.overlay;
                edits.visible_at = position;
            }
        }
    }

    /// Drops the edits of a corpus that is gone.
    pub(crate) fn forget(&self, corpus: u64) {
        self.corpora.lock().remove(&corpus);
    }

    /// Moves the edits of a corpus to other segments: the batches in the log after `merged`, on `base`, which holds the earlier
    /// ones. The log ends at `end`. `publish` makes the segments and all earlier edits durable, then passes what makes them live
    /// to its argument: readers see both at once.
    ///
    /// # Errors
    /// Those of `base.go_on` and of `publish`; nothing has changed then.
    pub(crate) fn rebase(
        &self,
        _turn: &FairMutexGuard,
        corpus: u64,
        merged: LogPosition,
        base: Base<'_>,
        end: LogPosition,
        publish: impl FnOnce(&mut dyn FnMut(&mut dyn FnMut())) -> Result<()>,
    ) -> Result<()> {
        let mut rebased = Some(self.rebased(corpus, merged, base)?);
        publish(&mut |show: &mut dyn FnMut()| {
            let mut corpora = self.corpora.lock();
            show();
            if let Some(rebased) = rebased.take() {
                let edits = corpora.entry(rebased.corpus).or_default();
                edits.tip = rebased.overlay.clone();
                edits.visible = rebased.overlay;
                edits.visible_at = end;
                edits.batches = rebased.batches;
            }
        })
    }

    /// The batches of a corpus in the log after `merged`, applied to other segments.
    fn rebased(&self, corpus: u64, merged: LogPosition, base: Base<'_>) -> Result<Rebased> {
        let batches = {
            let corpora = self.corpora.lock();
            let batches = corpora.get(&corpus).map(|edits| &edits.batches[..]);
            let after = |pending: &&PendingBatch| pending.position > merged;
            batches
                .unwrap_or_default()
                .iter()
                .filter(after)
                .cloned()
                .collect()
        };
        let mut rebased = Rebased {
            corpus,
            overlay: Overlay::new(base.segments),
            batches,
        };
        for pending in &rebased.batches {
            rebased
                .overlay
                .apply(&pending.batch, base.files, &mut || (base.go_on)())?;
        }
        Ok(rebased)
    }

    /// Takes the edits of another store of the same directory, which has no commits under way.
    pub(crate) fn take_over(&self, previous: &Edits) {
        let corpora = previous.corpora.lock().clone();
        *self.corpora.lock() = corpora;
    }

    /// Replays the log of a store from the position up to which it was replayed before. `stored` returns the stored files of a
    /// corpus and the numbers of their segments.
    ///
    /// # Errors
    /// If the log or the file table of a segment cannot be read, or an edit does not fit the files; nothing has changed
    /// then.
    pub(crate) fn replay<F: StoredFiles>(
        &self,
        store: &Store,
        after: LogPosition,
        mut stored: impl FnMut(u64) -> Result<(Arc<F>, Arc<[u64]>)>,
    ) -> Result<()> {
        let mut grown: HashMap<u64, GrownEdits<F>> = HashMap::new();
        store.replay(after, |position, record| {
            let corpus = record.corpus();
            let edits = match grown.entry(corpus) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(entry) => {
                    let (view, base) = stored(corpus)?;
                    entry.insert(GrownEdits {
                        view,
                        tip: self.tip(corpus).unwrap_or_else(|| Overlay::new(base)),
                        batches: Vec::new(),
                    })
                }
            };
            let batch = decode(&record)?;
            edits.tip.apply(&batch, &*edits.view, &mut || Ok(()))?;
            (edits.batches).push(PendingBatch::new(position, Arc::new(batch)));
            Ok::<(), crate::Error>(())
        })?;
        let mut corpora = self.corpora.lock();
        for (corpus, grown) in grown {
            let edits = corpora.entry(corpus).or_default();
            edits.tip = grown.tip.clone();
            edits.visible = grown.tip;
            edits.batches.extend(grown.batches);
            edits.visible_at =
                (edits.batches.last()).map_or(edits.visible_at, |last| last.position);
        }
        Ok(())
    }
}

/// The edits of a corpus with the records that the log has after them.
struct GrownEdits<F> {
    view: Arc<F>,
    tip: Overlay,
    batches: Vec<PendingBatch>,
}

/// The segments that edits are applied to.
pub(crate) struct Base<'a> {
    /// Ascending.
    pub(crate) segments: Arc<[u64]>,
    /// The files of the segments.
    pub(crate) files: &'a dyn StoredFiles,
    /// Checked at each row; an error ends the work.
    pub(crate) go_on: &'a dyn Fn() -> Result<()>,
}

/// Edits, applied to other segments than those that they were made on.
struct Rebased {
    corpus: u64,
    overlay: Overlay,
    batches: Vec<PendingBatch>,
}

/// The record of a batch for the log.
///
/// # Errors
/// If it is too large, or the statement must end.
pub(crate) fn encode(
    corpus: u64,
    batch: &EditBatch,
    interrupt: &Interrupt,
) -> Result<LogRecord<'static>> {
    let record = match batch {
        EditBatch::Insert(rows) => {
            let rows = until(rows, |row| row.text.len(), interrupt);
            LogRecord::insert(
                corpus,
                rows.map(|row| (&*row.file, row.offset, &row.text[..])),
            )
        }
        EditBatch::Replace(rows) => {
            let rows = until(rows, |(_, text)| text.len(), interrupt);
            LogRecord::replace(corpus, rows.map(|(file, text)| (&**file, &text[..])))
        }
        EditBatch::Delete(files) => {
            let files = until(files, |_| 0, interrupt);
            LogRecord::delete(corpus, files.map(|file| &**file))
        }
        EditBatch::Set(rows) => {
            let rows = until(rows, |_| 0, interrupt);
            LogRecord::set(corpus, rows.map(|(file, values)| (&**file, &values[..])))
        }
    };
    // The iterator may have ended early: a batch that lacks rows is not used.
    interrupt.check()?;
    Ok(record?)
}

/// The rows, ending early once the statement must end; `bytes` is the size of a row.
fn until<'a, T>(
    rows: &'a [T],
    bytes: impl Fn(&T) -> usize + Clone,
    interrupt: &Interrupt,
) -> impl Iterator<Item = &'a T> + Clone {
    /// Bytes of text that take as long as the rest of a row.
    const ROW_BYTES: usize = 1 << 8;
    let mut pace = interrupt.pace();
    let mut goes_on = move |row: &&T| pace.work(bytes(row) + ROW_BYTES).is_ok();
    rows.iter().take_while(move |row| goes_on(row))
}

/// The batch of a record.
///
/// # Errors
/// If the system refuses the memory.
pub(crate) fn decode(record: &LogRecord<'_>) -> Result<EditBatch> {
    let mut names = Names::default();
    let mut inserted = Vec::new();
    let mut replaced = Vec::new();
    let mut deleted = Vec::new();
    let mut set = Vec::new();
    let texts = shared_texts(record.edits().map(|edit| match edit {
        Edit::Insert { text, .. } | Edit::Replace { text, .. } => text,
        Edit::Delete { .. } | Edit::Set { .. } => &[],
    }))?;
    for (edit, text) in record.edits().zip(texts) {
        match edit {
            Edit::Insert { file, offset, .. } => inserted.push(Insertion {
                file: names.shared(file),
                offset,
                text,
            }),
            Edit::Replace { file, .. } => replaced.push((names.shared(file), text)),
            Edit::Delete { file } => deleted.push(names.shared(file)),
            Edit::Set { file, values } => set.push((names.shared(file), values.to_vec())),
        }
    }
    // A record has edits of one kind.
    Ok(if !replaced.is_empty() {
        EditBatch::Replace(replaced)
    } else if !deleted.is_empty() {
        EditBatch::Delete(deleted)
    } else if !set.is_empty() {
        EditBatch::Set(set)
    } else {
        EditBatch::Insert(inserted)
    })
}

/// Names of files, each stored once.
#[derive(Default)]
pub(crate) struct Names(HashSet<Arc<str>>);

impl Names {
    /// The shared copy of a name.
    pub(crate) fn shared(&mut self, name: &str) -> Arc<str> {
        match self.0.get(name) {
            Some(known) => known.clone(),
            None => {
                let name: Arc<str> = name.into();
                self.0.insert(name.clone());
                name
            }
        }
    }
}

/// Appends grouped by file: for each file one row with all its texts, in order of the files' first rows, and the number of its
/// first row.
///
/// # Errors
/// If the system refuses the memory.
pub(crate) fn appends_by_file<F, T>(rows: &[(F, T)]) -> Result<Vec<(Insertion, usize)>>
where
    F: AsRef<str>,
    T: AsRef<[u8]>,
{
    let (ranges, by_file) = rows_by_file(rows.iter().map(|(file, _)| file.as_ref()));
    let size = rows.iter().map(|(_, text)| text.as_ref().len()).sum();
    let mut texts = reserved("texts", size)?;
    let mut ends = Vec::with_capacity(ranges.len());
    ends.push(0);
    for range in ranges.windows(2) {
        for &row in &by_file[range[0]..range[1]] {
            texts.extend_from_slice(rows[row].1.as_ref());
        }
        ends.push(texts.len());
    }
    let texts = Bytes::from(texts);
    let of_file = |(&start, text): (&usize, &[usize])| {
        let first = by_file[start];
        let insertion = Insertion {
            file: rows[first].0.as_ref().into(),
            offset: None,
            text: texts.slice(text[0]..text[1]),
        };
        (insertion, first)
    };
    Ok(ranges.iter().zip(ends.windows(2)).map(of_file).collect())
}

/// Copies of texts that share one allocation.
///
/// # Errors
/// If the system refuses the memory.
pub(crate) fn shared_texts<'a>(
    texts: impl Iterator<Item = &'a [u8]> + Clone,
) -> Result<Vec<Bytes>> {
    let mut all = reserved("texts", texts.clone().map(<[u8]>::len).sum())?;
    for text in texts.clone() {
        all.extend_from_slice(text);
    }
    let all = Bytes::from(all);
    let mut start = 0;
    let slices = texts.map(|text| {
        let end = start + text.len();
        let slice = all.slice(start..end);
        start = end;
        slice
    });
    Ok(slices.collect())
}
