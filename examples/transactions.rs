//! Transactions: statements and edits that happen together, what a dropped one leaves, and what a killed process leaves.
//!
//! `cargo run --example transactions` starts itself a second time, as a process that is killed within a transaction.

mod output;

use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use zipfdb::{CorpusSettings, Database};

fn main() -> Result<(), Box<dyn Error>> {
    output::run(edit)
}

fn edit(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    if let Some(path) = env::args_os().nth(1) {
        return edit_until_killed(Path::new(&path), out);
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("notes.zdb");
    let db = Database::open(&path)?;
    db.create_corpus("notes", CorpusSettings::default())?;

    // Statements and methods may be mixed. Others see nothing before the commit, the transaction all of it.
    let mut edits = db.begin()?;
    edits.append("notes", "a.txt", "the cat")?;
    edits.execute(
        "INSERT INTO notes (file, content) VALUES (?, ?)",
        ("b.txt", "a dog"),
    )?;
    let inside: u64 = edits.query_row("SELECT COUNT(*) FROM notes", (), |row| row.get(0))?;
    writeln!(
        out,
        "words: {inside} in the transaction, {} outside",
        words(&db)?
    )?;
    edits.commit()?;
    writeln!(out, "words after the commit: {}", words(&db)?)?;

    // Dropped without `commit`, also by an early return or `?`, a transaction does nothing.
    let mut edits = db.begin()?;
    let deleted = edits.execute("DELETE FROM notes", ())?;
    drop(edits);
    writeln!(
        out,
        "{deleted} files were deleted, and are there: {} words",
        words(&db)?
    )?;

    // One process writes at a time: the child needs the database closed here.
    drop(db);
    let mut child = Command::new(env::current_exe()?)
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let output = child.stdout.take().ok_or("no output")?;
    BufReader::new(output).read_line(&mut line)?;
    child.kill()?;
    child.wait()?;

    // What was committed is there, what was not is gone. Opening replays the log.
    let db = Database::open(&path)?;
    writeln!(out, "the killed process said: {}", line.trim())?;
    let text = db.corpus("notes")?.snapshot()?.extract("log.txt", 0, 99)?;
    writeln!(out, "log.txt: {:?}", String::from_utf8_lossy(&text))?;
    assert_eq!(text, b"committed");
    Ok(())
}

fn words(db: &Database) -> zipfdb::Result<u64> {
    db.query_row("SELECT COUNT(*) FROM notes", (), |row| row.get(0))
}

/// Commits an edit, makes another one, and waits to be killed before that is committed.
fn edit_until_killed(path: &Path, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let db = Database::open(path)?;
    db.corpus("notes")?.append("log.txt", "committed")?;
    let mut edits = db.begin()?;
    edits.append("notes", "log.txt", " and lost")?;
    writeln!(out, "one edit is committed, one is not")?;
    out.flush()?;
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}
