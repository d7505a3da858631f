//! Imports: files with progress, what is done about names that are there already, and the report.
//!
//! `cargo run --example ingest -- FOLDER` imports the texts in a folder of yours, else the speeches that come with the source.

mod output;

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use zipfdb::ingest::{CopyOptions, OnConflict, OnError, Progress};
use zipfdb::{CorpusSettings, Database};

const SPEECHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cli/sample/speeches");

/// Prints each stage with the share that was done. Calls come from any thread.
#[derive(Default)]
struct Stages {
    stage: Mutex<String>,
    total: AtomicU64,
    done: AtomicU64,
}

impl Progress for Stages {
    fn begin(&self, stage: &str, total: u64) {
        if let Ok(mut name) = self.stage.lock() {
            *name = stage.to_owned();
        }
        self.total.store(total, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    fn end(&self) {
        let (done, total) = (&self.done, &self.total);
        let (done, total) = (done.load(Ordering::Relaxed), total.load(Ordering::Relaxed));
        if let Ok(stage) = self.stage.lock() {
            // The import goes on where nothing reads this.
            let _ = writeln!(io::stderr(), "    {stage}: {done} of {total} bytes");
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    output::run(import)
}

fn import(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let texts = env::args_os().nth(1).map_or(SPEECHES.into(), PathBuf::from);
    let db = Database::in_memory()?;
    let corpus = db.create_corpus("texts", CorpusSettings::default())?;

    // Files that would be imported, before anything is read.
    let listed = db.list_files(&texts)?;
    writeln!(
        out,
        "{} files, {} bytes",
        listed.len(),
        listed.iter().map(|(_, bytes)| bytes).sum::<u64>()
    )?;

    // All files are added in one step, or none is. Memory is bounded by the segment size, not by the text.
    let stages = Stages::default();
    let options = CopyOptions {
        on_error: OnError::Skip,
        on_conflict: OnConflict::Stop,
        progress: &stages,
        ..CopyOptions::default()
    };
    let report = corpus.copy_from(&texts, &options)?;
    writeln!(
        out,
        "{} files, {} words in {:?}",
        report.files, report.words, report.times
    )?;
    for skipped in &report.unreadable {
        writeln!(out, "left out: {}", skipped.reason)?;
    }

    // A second import of the same names is an error that names them, unless the options say otherwise.
    let refused = corpus.copy_from(&texts, &options).err();
    writeln!(
        out,
        "again: {}",
        refused.map_or(String::new(), |error| error.to_string())
    )?;
    let replace = CopyOptions {
        on_conflict: OnConflict::Replace,
        ..CopyOptions::default()
    };
    writeln!(
        out,
        "replaced: {}",
        corpus.copy_from(&texts, &replace)?.files
    )?;

    // The same in SQL; `execute` returns the number of files.
    let sql = "COPY texts FROM ? WITH (on_conflict = 'skip')";
    writeln!(
        out,
        "copied by SQL: {}",
        db.execute(sql, [texts.to_string_lossy().as_ref()])?
    )?;
    Ok(())
}
