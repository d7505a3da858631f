//! SQLite FTS5: the text in an FTS5 table that stores it and answers word lookups with positions.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql};

use super::{Account, Job, Purpose};
use crate::Result;
use crate::corpus::{Corpus, ROW_SIZE_MAX};

/// Size of SQLite's page cache; a negative number counts KiB.
const CACHE_KIBIBYTES: i64 = -262_144;

/// Bytes of the database that SQLite maps into memory.
const MAPPED_BYTES: i64 = 1 << 30;

/// How it is run, for the table.
pub fn configuration() -> String {
    format!(
        "SQLite {} FTS5: content stored, `detail=full`, `unicode61`; one row a file, files over {} MiB cut at line ends \
         into rows of that size, bytes that are not UTF-8 replaced; one transaction, one thread (it has no more), `journal_mode=TRUNCATE`, \
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
            insert.execute((row.file, row.number as i64, row.text()))?;
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

/// A database that was filled by [`ingest`], opened to be asked.
pub struct Reader {
    pub connection: Connection,
}

/// A word of the index with a row that it occurs in and how often: an occurrence of `fts5vocab`.
pub struct Posting<'a> {
    pub term: &'a str,
    /// As they were filled in, from 0.
    pub row: usize,
    pub count: u32,
}

impl Reader {
    /// Opens it with tables over its index: `words` has words, `places` occurrences.
    pub fn open(directory: &Path) -> Result<Reader> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(directory.join("corpus.db"), flags)?;
        connection.pragma_update(None, "cache_size", CACHE_KIBIBYTES)?;
        connection.pragma_update(None, "mmap_size", MAPPED_BYTES)?;
        connection.execute_batch(
            "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, corpus, row);
             CREATE VIRTUAL TABLE temp.places USING fts5vocab(main, corpus, instance);",
        )?;
        Ok(Reader { connection })
    }

    /// Each word with its count, as `order` says.
    pub fn word_counts(&self, order: &str) -> Result<Vec<(String, u64)>> {
        let mut statement = self
            .connection
            .prepare(&format!("SELECT term, cnt FROM words {order}"))?;
        let rows = statement.query_map((), |row| {
            let term = String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned();
            Ok((term, row.get::<_, i64>(1)?.unsigned_abs()))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Gives each word with each row that it occurs in, ascending.
    pub fn for_each_posting(&self, mut take: impl FnMut(Posting<'_>)) -> Result<()> {
        let mut statement = self.connection.prepare("SELECT term, doc FROM places")?;
        let mut rows = statement.query(())?;
        let (mut term, mut row, mut count) = (String::new(), 0, 0);
        while let Some(next) = rows.next()? {
            // FTS5 cuts long words anywhere, also within a character.
            let next_term = String::from_utf8_lossy(next.get_ref(0)?.as_bytes()?);
            let next_row = next.get::<_, i64>(1)?;
            // Numbers of rows begin with 1.
            let next_row = usize::try_from(next_row - 1)?;
            if count > 0 && (next_row != row || next_term != term) {
                take(Posting {
                    term: &term,
                    row,
                    count,
                });
                count = 0;
            }
            if next_term != term {
                term.clear();
                term.push_str(&next_term);
            }
            row = next_row;
            count += 1;
        }
        if count > 0 {
            take(Posting {
                term: &term,
                row,
                count,
            });
        }
        Ok(())
    }
}

/// Bytes bound as TEXT: SQLite does not ask that they are valid UTF-8.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// How [`MatchTable`] is made, for the table.
pub fn configuration_of_words() -> String {
    format!(
        "SQLite {} FTS5: `content=''`, `detail=none`, `ascii` with all punctuation in tokens and a mark before letters that it would \
         fold; after `optimize` and `VACUUM`; 256 MiB page cache.",
        rusqlite::version(),
    )
}

/// Stands before an upper-case letter, which the tokenizer folds.
const UPPER_MARK: u8 = 1;

/// An index of given words without positions, counts and text, in `words.db`.
pub struct MatchTable {
    connection: Connection,
}

impl MatchTable {
    /// Fills a new one with the words of each document.
    pub fn fill<'a>(
        directory: &Path,
        documents: impl Iterator<Item = Vec<&'a [u8]>>,
    ) -> Result<MatchTable> {
        let mut connection = Connection::open(directory.join("words.db"))?;
        connection.pragma_update(None, "cache_size", CACHE_KIBIBYTES)?;
        connection.pragma_update(None, "mmap_size", MAPPED_BYTES)?;
        let punctuation = (b'!'..=b'~').filter(|byte| !byte.is_ascii_alphanumeric());
        let in_tokens: String = [UPPER_MARK]
            .into_iter()
            .chain(punctuation)
            .map(char::from)
            .collect();
        // A string within a string.
        let in_tokens = in_tokens.replace('\'', "''").replace('"', "\"\"");
        connection.execute_batch(&format!(
            "CREATE VIRTUAL TABLE words USING fts5(content, content='', detail=none, tokenize=\"ascii tokenchars '{in_tokens}'\")"
        ))?;
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare("INSERT INTO words(content) VALUES (?1)")?;
            let mut text = Vec::new();
            for words in documents {
                text.clear();
                for word in words {
                    put_marked(word, &mut text);
                    text.push(b' ');
                }
                insert.execute((Text(&text),))?;
            }
        }
        transaction.commit()?;
        connection.execute("INSERT INTO words(words) VALUES ('optimize')", ())?;
        connection.execute_batch("VACUUM")?;
        Ok(MatchTable { connection })
    }

    /// The query for documents that have all of some words, which are UTF-8.
    pub fn query(words: &[&[u8]]) -> String {
        let words = words.iter().map(|word| {
            let mut marked = Vec::new();
            put_marked(word, &mut marked);
            format!(
                "\"{}\"",
                String::from_utf8_lossy(&marked).replace('"', "\"\"")
            )
        });
        words.collect::<Vec<String>>().join(" AND ")
    }

    /// Counts the documents that a query finds.
    pub fn counter(&self) -> Result<impl FnMut(&str) -> Result<u64>> {
        let sql = "SELECT count(*) FROM words WHERE words MATCH ?1";
        let mut statement = self.connection.prepare(sql)?;
        Ok(move |query: &str| {
            let count: i64 = statement.query_row([query], |row| row.get(0))?;
            Ok(count.unsigned_abs())
        })
    }
}

/// Appends a word so that no two are folded to the same.
fn put_marked(word: &[u8], text: &mut Vec<u8>) {
    for &byte in word {
        if byte.is_ascii_uppercase() {
            text.push(UPPER_MARK);
        }
        text.push(byte);
    }
}
