//! ZipfDB itself: the text in a corpus with default settings.

use std::path::{Path, PathBuf};
use std::time::Instant;

use zipfdb::ingest::CopyOptions;

use zipfdb::storage::SegmentInfo;

use zipfdb::{CorpusSettings, Database, IngestMode, Snapshot};

use super::{Account, Job, files_below};
use crate::Result;
use crate::corpus::Corpus;

/// Name of the database in the directory of a job.
const FILE: &str = "corpus.zdb";

/// How it is run, for the table.
pub fn configuration(threads: usize) -> String {
    format!(
        "ZipfDB {}: default settings, {threads} threads.",
        env!("CARGO_PKG_VERSION")
    )
}

/// How packed text is made, for the table.
pub fn configuration_of_packed() -> String {
    "ZipfDB, packed text: COPY ... WITH (compression = 'fast'), not made a grammar yet.".to_owned()
}

/// What its stages are, for the table.
pub fn stages() -> String {
    "Stages of ZipfDB: reading and tokenizing overlap, their time is divided as their threads spent it; \
     `encode, write` ends with the segment file synced; `commit` is all the rest: opening, the catalog, closing."
        .to_owned()
}

/// Fills a new database.
pub fn ingest(job: &Job, corpus: &Corpus, mode: IngestMode) -> Result<Account> {
    let path = job.directory.join(FILE);
    let start = Instant::now();
    let database = Database::options().threads(job.threads).open(&path)?;
    // What follows in the background is not measured.
    database.execute_batch("SET recompress_threads = 0")?;
    let target = database.create_corpus("corpus", CorpusSettings::default())?;
    let options = CopyOptions {
        ingest: Some(mode),
        ..CopyOptions::default()
    };
    let report = target.copy_from(&corpus.path, &options)?;
    drop(target);
    drop(database);
    let total = start.elapsed();

    let times = report.times;
    let stages = [
        ("read", times.read),
        ("tokenize", times.tokenize),
        ("dictionary", times.dictionary),
        ("rounds", times.rounds),
        ("prune", times.prune),
        ("pack", times.pack),
        ("encode, write", times.write),
    ];
    let staged = stages.iter().map(|(_, time)| *time).sum();
    let commit = [("commit", total.saturating_sub(staged))];
    Ok(Account {
        stages: stages
            .into_iter()
            .chain(commit)
            .filter(|(_, time)| !time.is_zero())
            .map(|(name, time)| (name.to_owned(), time.as_secs_f64()))
            .collect(),
        parts: parts(&path, &report.segments)?,
    })
}

/// A new database with an empty corpus.
pub fn create(directory: &Path, threads: usize) -> Result<(Database, zipfdb::Corpus)> {
    let database = Database::options()
        .threads(threads)
        .open(directory.join(FILE))?;
    let corpus = database.create_corpus("corpus", CorpusSettings::default())?;
    Ok((database, corpus))
}

/// Opens a database that was filled by [`ingest`], to edit it.
pub fn open_to_write(directory: &Path, threads: usize) -> Result<Database> {
    Ok(Database::options()
        .threads(threads)
        .open(directory.join(FILE))?)
}

/// Where the database is in the directory of a job.
pub fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Opens a database that was filled by [`ingest`].
pub fn open(directory: &Path, threads: usize) -> Result<(Database, Snapshot)> {
    let options = Database::options().threads(threads).read_only(true);
    let database = options.open(directory.join(FILE))?;
    let snapshot = database.corpus("corpus")?.snapshot()?;
    Ok((database, snapshot))
}

/// Bytes of each section in all segments, and of everything that is not a segment.
fn parts(database: &Path, segments: &[SegmentInfo]) -> Result<Vec<(String, u64)>> {
    let mut parts: Vec<(String, u64)> = Vec::new();
    for (section, size) in segments.iter().flat_map(|segment| &segment.sections) {
        let name = section.to_string();
        match parts.iter_mut().find(|(other, _)| *other == name) {
            Some((_, sum)) => *sum += size,
            None => parts.push((name, *size)),
        }
    }
    let segments: u64 = segments.iter().map(|segment| segment.size).sum();
    let all: u64 = files_below(database)?.iter().map(|(_, size)| size).sum();
    parts.push(("catalog, lock".to_owned(), all.saturating_sub(segments)));
    Ok(parts)
}
