//! What a session leaves behind: changes that are in the record log and not in segments yet, and packed text that is no grammar yet.
//!
//! Invariant: a session that leaves much prints one notice, and recompresses only if `recompress_at_exit` says so.

use zipfdb::storage::SegmentForm;

use zipfdb::{Database, Error, Value};

use crate::interrupt::Signals;
use crate::message;
use crate::progress::Bars;

/// Pending bytes from which on the next start takes a noticeable time to read them.
const NOTICE_BYTES: u64 = 16 << 20;

/// The changes that were pending when a session began.
pub struct Pending {
    database: Database,
    before: u64,
}

impl Pending {
    /// A session begins.
    pub fn begin(database: &Database) -> Pending {
        let before = of_corpora(database).iter().map(Left::bytes).sum();
        Pending {
            database: database.clone(),
            before,
        }
    }

    /// The session ends: recompresses what is pending if that is set, else prints a notice if the session has left much.
    ///
    /// # Errors
    /// If recompressing fails.
    pub fn end(self, signals: &Signals) -> Result<(), Error> {
        // A transaction that is open still has the turn, and what it changed is dropped.
        if self.database.path().is_none() || self.database.is_in_transaction() {
            return Ok(());
        }
        let mut corpora = of_corpora(&self.database);
        let total: u64 = corpora.iter().map(Left::bytes).sum();
        if total <= self.before {
            return Ok(());
        }
        if is_recompress_set(&self.database)? {
            let _running = signals.begin(self.database.interrupt_handle());
            for left in corpora {
                self.database.corpus(&left.name)?.recompress(&Bars::new())?;
            }
            return Ok(());
        }
        corpora.sort_by_key(|left| std::cmp::Reverse(left.bytes()));
        for Left {
            name,
            changes,
            packed,
        } in corpora
        {
            if changes >= NOTICE_BYTES {
                message::note(&format!(
                    "{} MB of changes of corpus \"{name}\" are pending: they are safe in the log, and each start reads them \
                     again; RECOMPRESS merges them, SET recompress_at_exit = 'on' does so at the end",
                    changes / 1_000_000
                ));
            }
            if packed >= NOTICE_BYTES {
                message::note(&format!(
                    "{} MB of corpus \"{name}\" are packed text, which becomes a grammar while a session that may write is \
                     open; RECOMPRESS makes it one now, SET recompress_at_exit = 'on' does so at the end",
                    packed / 1_000_000
                ));
            }
        }
        Ok(())
    }
}

/// What is left of a corpus, about, in bytes.
struct Left {
    name: String,
    /// Edits that are not merged.
    changes: u64,
    /// Text that is packed.
    packed: u64,
}

impl Left {
    fn bytes(&self) -> u64 {
        self.changes + self.packed
    }
}

/// The corpora of which something is left.
fn of_corpora(database: &Database) -> Vec<Left> {
    let of_corpus = |name: &str| -> Result<(u64, u64), Error> {
        let corpus = database.corpus(name)?;
        let segments = corpus.segments()?.into_iter();
        let packed = segments.filter(|segment| segment.form == SegmentForm::Text);
        let packed = packed.map(|segment| segment.bytes).sum();
        Ok((corpus.pending_bytes()?, packed))
    };
    let left = |name: String| {
        // One that was dropped meanwhile has none.
        let (changes, packed) = of_corpus(&name).unwrap_or_default();
        (changes + packed > 0).then_some(Left {
            name,
            changes,
            packed,
        })
    };
    database.corpora().into_iter().filter_map(left).collect()
}

fn is_recompress_set(database: &Database) -> Result<bool, Error> {
    let rows = database.query(
        "SELECT value FROM settings() WHERE setting = 'recompress_at_exit'",
        (),
    )?;
    for row in rows {
        if row?[0] == Value::from("on") {
            return Ok(true);
        }
    }
    Ok(false)
}
