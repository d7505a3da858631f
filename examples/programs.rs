//! Eleven small programs, which docs/RUST.md sets beside the same in rusqlite and duckdb.
//!
//! `cargo run --example programs` runs all of them, one after the other, on one database.

mod output;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::thread;

use zipfdb::batch::BatchColumn;
use zipfdb::ingest::CopyOptions;
use zipfdb::sql::Setting;
use zipfdb::{Database, params};

type Done<T> = Result<T, Box<dyn Error>>;

fn main() -> Done<()> {
    output::run(all)
}

fn all(out: &mut dyn Write) -> Done<()> {
    let folder = tempfile::tempdir()?;
    let texts = folder.path().join("texts");
    std::fs::create_dir(&texts)?;
    std::fs::write(texts.join("c.txt"), "the cat and the dog")?;
    let db = open(&folder.path().join("notes.zdb"))?;
    writeln!(out, "inserted: {}", insert(&db)?)?;
    writeln!(out, "imported: {}", import(&db, &texts)?)?;
    writeln!(out, "rows: {:?}", rows(&db)?)?;
    writeln!(out, "one value: {}", one_value(&db)?)?;
    writeln!(out, "prepared: {:?}", prepared(&db, &["cat", "dog"])?)?;
    transaction(&db)?;
    writeln!(out, "positions: {:?}", positions(&db)?)?;
    writeln!(out, "columns: {}", columns(&db)?)?;
    writeln!(out, "with limits: {}", limits(&db)?)?;
    writeln!(out, "many readers: {:?}", threads(&db)?)?;
    Ok(())
}

fn open(path: &Path) -> Done<Database> {
    let db = Database::open(path)?;
    db.execute_batch("CREATE CORPUS IF NOT EXISTS notes")?;
    Ok(db)
}

fn insert(db: &Database) -> Done<u64> {
    let sql = "INSERT INTO notes (file, content) VALUES (?, ?)";
    let inserted = db.execute(sql, params!["a.txt", "the cat"])?;
    Ok(inserted + db.execute(sql, ("b.txt", "a dog"))?)
}

fn import(db: &Database, texts: &Path) -> Done<u64> {
    let notes = db.corpus("notes")?;
    Ok(notes.copy_from(texts, &CopyOptions::default())?.files)
}

fn rows(db: &Database) -> Done<Vec<(String, u64)>> {
    let sql = "SELECT word, COUNT(*) AS n FROM notes GROUP BY word ORDER BY n DESC, word";
    let rows = db.query(sql, ())?;
    let rows = rows.map(|row| row.and_then(|row| Ok((row.get("word")?, row.get("n")?))));
    Ok(rows.collect::<zipfdb::Result<_>>()?)
}

fn one_value(db: &Database) -> Done<u64> {
    let sql = "SELECT COUNT(*) FROM notes WHERE word = ?";
    Ok(db.query_row(sql, ["cat"], |row| row.get(0))?)
}

fn prepared(db: &Database, words: &[&str]) -> Done<Vec<u64>> {
    let count = db.prepare("SELECT COUNT(*) FROM notes WHERE word = ?")?;
    let counts = words
        .iter()
        .map(|&word| count.query_row([word], |row| row.get(0)));
    Ok(counts.collect::<zipfdb::Result<_>>()?)
}

fn transaction(db: &Database) -> Done<()> {
    let mut edits = db.begin()?;
    edits.execute("DELETE FROM notes WHERE file = ?", ["a.txt"])?;
    edits.insert("notes", "b.txt", 2, "black ")?;
    edits.commit()?;
    Ok(())
}

fn positions(db: &Database) -> Done<Vec<(String, Vec<u64>)>> {
    Ok(db.corpus("notes")?.snapshot()?.search("dog")?)
}

fn columns(db: &Database) -> Done<i64> {
    let mut rows = db.query("SELECT offset FROM notes", ())?;
    let mut sum = 0;
    while let Some(batch) = rows.next_batch(4096)? {
        if let BatchColumn::Integers(offsets) = &batch.columns()[0] {
            sum += offsets.iter().sum::<i64>();
        }
    }
    Ok(sum)
}

fn limits(db: &Database) -> Done<usize> {
    db.set(Setting::StatementTimeout(1000))?;
    db.set(Setting::MemoryLimit(Some(64 << 20)))?;
    Ok(db
        .query("SELECT word FROM notes ORDER BY word", ())?
        .count())
}

fn threads(db: &Database) -> Done<Vec<u64>> {
    let reader = db.reader();
    let count = |word| {
        reader.query_row("SELECT COUNT(*) FROM notes WHERE word = ?", [word], |row| {
            row.get(0)
        })
    };
    let counts = thread::scope(|scope| {
        let running = ["cat", "dog"].map(|word| scope.spawn(move || count(word)));
        running.map(|thread| thread.join().map_err(|_| "a thread panicked"))
    });
    counts.into_iter().map(|count| Ok(count??)).collect()
}
