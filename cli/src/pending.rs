//! What a session leaves behind: changes that are in the record log and not in segments yet.
//!
//! Invariant: who leaves much is told, once, and nothing is recompressed that nobody asked for.

use zipfdb::{Database, Error, Value};

use crate::message;
use crate::progress::Bars;

/// From so many bytes on the next start takes a noticeable time to read them.
const NOTICE_BYTES: u64 = 16 << 20;

/// What was pending when a session began.
pub struct Pending {
    database: Database,
    before: u64,
}

impl Pending {
    /// A session begins.
    pub fn begin(database: &Database) -> Pending {
        let before = of_corpora(database).iter().map(|(_, bytes)| bytes).sum();
        Pending {
            database: database.clone(),
            before,
        }
    }

    /// The session ends: recompresses what is pending if that is set, else tells of it if the session has left much.
    ///
    /// # Errors
    /// If recompressing fails.
    pub fn end(self) -> Result<(), Error> {
        // A transaction that is open still has the turn, and what it changed is dropped.
        if self.database.path().is_none() || self.database.is_in_transaction() {
            return Ok(());
        }
        let mut corpora = of_corpora(&self.database);
        let total: u64 = corpora.iter().map(|(_, bytes)| bytes).sum();
        if total <= self.before {
            return Ok(());
        }
        if is_recompress_set(&self.database)? {
            for (name, _) in corpora {
                self.database.corpus(&name)?.recompress(&Bars::new())?;
            }
            return Ok(());
        }
        if total < NOTICE_BYTES {
            return Ok(());
        }
        corpora.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        for (name, bytes) in corpora
            .iter()
            .take_while(|(_, bytes)| *bytes >= NOTICE_BYTES)
        {
            message::note(&format!(
                "{} MB of changes of corpus \"{name}\" are pending: they are safe in the log, and each start reads them \
                 again; RECOMPRESS merges them, SET recompress_at_exit = 'on' does so at the end",
                bytes / 1_000_000
            ));
        }
        Ok(())
    }
}

/// The corpora with pending changes, and how many bytes these take about.
fn of_corpora(database: &Database) -> Vec<(String, u64)> {
    let names = database.corpora().into_iter();
    let pending = |name: String| {
        let bytes = database
            .corpus(&name)
            .and_then(|corpus| corpus.pending_bytes());
        // One that was dropped meanwhile has none.
        bytes
            .ok()
            .filter(|bytes| *bytes > 0)
            .map(|bytes| (name, bytes))
    };
    names.filter_map(pending).collect()
}

fn is_recompress_set(database: &Database) -> Result<bool, Error> {
    let rows =
        database.query("SELECT value FROM settings() WHERE setting = 'recompress_at_exit'")?;
    for row in rows {
        if row?[0] == Value::from("on") {
            return Ok(true);
        }
    }
    Ok(false)
}
