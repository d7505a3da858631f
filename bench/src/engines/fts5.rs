//! SQLite FTS5: the text in an FTS5 table that stores it and answers word lookups with positions.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};

use super::{Account, Job, Purpose};
use crate::Result;
use crate::corpus::{Corpus, ROW_SIZE_MAX};

/// Page cache, negative as SQLite counts KiB.
const CACHE_KIBIBYTES: i64 = -262_144;

/// How it is run, for the table.
pub fn configuration() -> String {
    format!(
        "SQLite {} FTS5: content stored, `detail=full`, `unicode61`; one row a file, files over {} MiB cut at line ends \
         into rows of that size; one transaction, one thread (it has no more), `journal_mode=TRUNCATE`, \
         `synchronous=FULL`, `locking_mode=EXCLUSIVE`, 256 MiB page cache. Size: after `optimize` and `VACUUM`.",
        rusqlite::version(),
        ROW_SIZE_MAX >> 20,
    )
}

/// Fills a new database.
pub fn ingest(job: &Job, corpus: &Corpus) -> Result<Account> {
    let mut connection = Connection::open(job.directory.join("corpus.db"))?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "TRUNCATE")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", CACHE_KIBIBYTES)?;
    connection.execute_batch(
        "CREATE VIRTUAL TABLE corpus USING fts5(file UNINDEXED, number UNINDEXED, content, detail=full, tokenize='unicode61')",
    )?;
    let transaction = connection.transaction()?;
    {
        let mut insert =
            transaction.prepare("INSERT INTO corpus(file, number, content) VALUES (?1, ?2, ?3)")?;
        corpus.for_each_row(|row| {
            // A number too large for SQLite would take rows of 2^83 bytes.
            insert.execute((row.file, row.number as i64, Text(row.content)))?;
            Ok(())
        })?;
    }
    transaction.commit()?;
    if job.purpose == Purpose::Size {
        connection.execute("INSERT INTO corpus(corpus) VALUES ('optimize')", ())?;
        connection.execute_batch("VACUUM")?;
    }
    connection.close().map_err(|(_, error)| error)?;
    Ok(Account::default())
}

/// Bytes bound as TEXT: SQLite does not ask that they are valid UTF-8.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}
