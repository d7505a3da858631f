//! Embedding ZipfDB: a database in a directory, texts in, questions, an edit in a transaction.
//!
//! `cargo run --example embed` imports the speeches that come with the source; `cargo run --example embed -- FOLDER` imports the
//! texts in a folder of yours and asks them the same. The database is in a temporary directory and removed at the end.

mod output;

use std::env;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use zipfdb::ingest::CopyOptions;
use zipfdb::{CorpusSettings, Database};

const SPEECHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cli/sample/speeches");

fn main() -> Result<(), Box<dyn Error>> {
    output::run(embed)
}

fn embed(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let texts = env::args_os().nth(1).map_or(SPEECHES.into(), PathBuf::from);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("library.zdb");

    // A database is a directory, made if there is none. One process writes at a time; any number may read.
    let db = Database::open(path)?;

    // A corpus is a named collection of files. An import happens whole or not at all: if one file cannot be read, none is
    // added. `COPY speeches FROM 'folder'` does the same in SQL.
    let speeches = db.create_corpus("speeches", CorpusSettings::default())?;
    let report = speeches.copy_from(&texts, &CopyOptions::default())?;
    writeln!(out, "imported {} files", report.files)?;

    // SQL: rows are made as they are asked for, and each can fail. Parameters stand for values, never for names.
    let sql = "SELECT word, COUNT(*) AS n FROM speeches WHERE length >= ?1 GROUP BY word ORDER BY n DESC, word LIMIT 3";
    writeln!(out, "\nthe most frequent words of at least eight bytes:")?;
    for row in db.query(sql, [8])? {
        let row = row?;
        let (word, n): (String, u64) = (row.get("word")?, row.get("n")?);
        writeln!(out, "    {word}: {n}")?;
    }

    // A statement that runs often is parsed once.
    let count = db.prepare("SELECT COUNT(*) FROM speeches WHERE word = ? COLLATE NOCASE")?;
    writeln!(out, "\nwhatever their case:")?;
    for word in ["freedom", "peace"] {
        let n: u64 = count.query_row([word], |row| row.get(0))?;
        writeln!(out, "    {word}: {n}")?;
    }

    // A snapshot answers without SQL and never changes, whatever is written meanwhile. Words are as they are written.
    let before = speeches.snapshot()?;
    let phrase = before.phrase_count(&["United", "States"])?;
    writeln!(out, "\nUnited States: {phrase}")?;
    if let Some((file, offsets)) = before.search("freedom")?.first() {
        // Reads this range of the file and decompresses no more than it must.
        let text = before.extract(file, offsets[0].saturating_sub(40), 80)?;
        writeln!(out, "\nfirst in {file}, byte {}:", offsets[0])?;
        writeln!(out, "    {:?}", String::from_utf8_lossy(&text))?;
    }

    // A transaction makes its edits visible and durable in one step; dropped without `commit`, it does nothing. Offsets
    // count bytes.
    let mut edits = db.begin()?;
    edits.append("speeches", "notes.txt", "freedom is the subject")?;
    edits.insert("speeches", "notes.txt", 0, "to be read: ")?;
    let old = "DELETE FROM speeches WHERE file = ?";
    edits.execute(old, ["1941-Roosevelt-1.txt"])?;
    edits.commit()?;

    // The snapshot from before still sees the old text; a new one sees the edits, which are merged in the background later.
    let after = speeches.snapshot()?;
    let (old, new) = (before.count("freedom")?, after.count("freedom")?);
    writeln!(out, "\nfreedom: {old} before the edit, {new} after it")?;
    let notes = after.extract("notes.txt", 0, 1000)?;
    writeln!(out, "notes.txt: {}", String::from_utf8_lossy(&notes))?;
    Ok(())
}
