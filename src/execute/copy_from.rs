//! COPY ... FROM: files of the operating system become new segments of a corpus.
//!
//! All or nothing: segments are written beside the live ones and published in one step at the end; on any error they are removed
//! again. Other writers continue meanwhile: only the last step takes the lock, and checks that the files can still be added.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use zipfdb_sql::plan::RecordOptions;
use zipfdb_storage::{CorpusRecord, IngestMode, LogPosition, MetadataColumn, MetadataSchema};

use crate::execute::copy_notices;
use crate::execute::unpack::{ImportedFields, Unpacking, unpack};
use crate::handles::corpus::Corpus;
use crate::handles::opened::Writing;
use crate::handles::shared::Shared;
use crate::ingest::{NoProgress, Progress};
use crate::maintain::indexes::complete_indexes_until;
use crate::maintain::ingest::{Means, Report, ingest};
use crate::maintain::recompress::{Scope, check_is_same, recompress, write};
use crate::maintain::replace::{NewFiles, replace};
use crate::maintain::source_values::SourceValues;
use crate::overlay::edits::Base;
use crate::paths::encodings::TextEncoding;
use crate::paths::sources::{Listing, OnConflict, OnError, SIZE_UNKNOWN, Source, list_sources};
use crate::runtime::fair_mutex::FairMutexGuard;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::spill_directory::SpillDirectory;
use crate::{Error, Result};

/// How to import files.
#[derive(Clone, Copy)]
pub struct CopyOptions<'a> {
    /// The treatment of paths that cannot be read.
    pub on_error: OnError,
    /// The treatment of files whose names the corpus has already.
    pub on_conflict: OnConflict,
    /// The encoding of the files.
    pub encoding: TextEncoding,
    /// The form of the files' segments; none for the corpus' setting.
    pub ingest: Option<IngestMode>,
    /// If set, only files with names from the first of these to the second are imported: so several imports can share the result
    /// of [`crate::Database::list_files`].
    pub names: Option<(&'a str, &'a str)>,
    /// How compressed files, archives and files of records are read: by default a file or glob whose name ends in the extension of
    /// one is unpacked and cut into records. Needs the feature `formats`.
    pub records: &'a RecordOptions,
    /// Whether it goes on with what files of text get, until [`crate::Database::interrupt_handle`] ends it: the text of each is the
    /// beginning of its file, so a later call goes on there.
    pub follow: bool,
    /// Receives the progress of the import.
    pub progress: &'a dyn Progress,
}

impl Default for CopyOptions<'_> {
    fn default() -> Self {
        CopyOptions {
            on_error: OnError::default(),
            on_conflict: OnConflict::default(),
            encoding: TextEncoding::default(),
            ingest: None,
            names: None,
            records: &RecordOptions::NONE,
            follow: false,
            progress: &NoProgress,
        }
    }
}

impl fmt::Debug for CopyOptions<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CopyOptions")
            .field("on_error", &self.on_error)
            .field("on_conflict", &self.on_conflict)
            .field("encoding", &self.encoding)
            .field("ingest", &self.ingest)
            .field("names", &self.names)
            .field("records", &self.records)
            .field("follow", &self.follow)
            .finish_non_exhaustive()
    }
}

/// The files that an import from a path would add, by name, each with its size; the size is 0 where only reading the file shows
/// it.
///
/// # Errors
/// If there is nothing at the path, or something that cannot be read.
pub(crate) fn list_files(shared: &Shared, path: &Path) -> Result<Vec<(String, u64)>> {
    let directory = shared.directory();
    let interrupt = shared.runtime.interrupt();
    let listing = interrupt.watch(&shared.runtime.pool, |stop| {
        list_sources(path, directory.as_deref(), stop)
    })?;
    listing.check_readable()?;
    let files = listing.sources.into_iter().map(|source| {
        let bytes = match source.bytes {
            SIZE_UNKNOWN => 0,
            bytes => bytes,
        };
        (source.name, bytes)
    });
    Ok(files.collect())
}

/// Imports the files that `path` means once, and builds the indexes of new segments.
pub(super) fn copy_once(
    corpus: &Corpus,
    path: &Path,
    options: &CopyOptions<'_>,
    interrupt: &Interrupt,
) -> Result<Report> {
    let shared = corpus.shared();
    let writing = shared.writing(interrupt)?;
    let report = import(corpus, &writing, path, options, interrupt)?;
    // The files are imported, even if building indexes fails.
    complete_indexes_until(&writing, corpus.name(), options.progress, interrupt);
    if let Ok(record) = writing.store.corpus(corpus.name()) {
        shared.background.recompress_packed(&writing, &record);
    }
    Ok(report)
}

fn import(
    corpus: &Corpus,
    writing: &Writing,
    path: &Path,
    options: &CopyOptions<'_>,
    interrupt: &Interrupt,
) -> Result<Report> {
    let shared = corpus.shared();
    let directory = shared.directory();
    let spill = SpillDirectory::beside(directory.as_deref());
    let schema = writing.store.corpus(corpus.name())?.settings.metadata;
    let (mut listing, fields) = interrupt.watch(&shared.runtime.pool, |stop| {
        let listing = list_sources(path, directory.as_deref(), stop)?;
        let unpacking = Unpacking {
            records: options.records,
            encoding: options.encoding,
            on_error: options.on_error,
            directory: &spill,
            schema: &schema,
        };
        let (listing, fields) = unpack(listing, path, &unpacking, stop)?;
        Ok((listing.read_in(options.encoding, stop)?, fields))
    })?;
    if let Some((first, last)) = options.names {
        let is_named = |source: &Source| first <= &source.name[..] && &source.name[..] <= last;
        listing.sources.retain(is_named);
    }
    let made = make_columns(corpus, &mut listing, &fields, options, interrupt)?;
    let imported = import_listing(corpus, writing, listing, options, interrupt);
    if imported.is_err() && !made.is_empty() {
        // All or nothing. A statement that was interrupted ends with this too.
        let turn = writing.runtime.writing.wait();
        let removed = writing.store.change_metadata(corpus.name(), |metadata| {
            for column in &made {
                if metadata.find(&column.name) == Some(column) {
                    metadata.remove(&column.name);
                }
            }
            Ok(())
        });
        drop(turn);
        if let Err(error) = removed {
            tracing::warn!("columns that COPY has made are left: {error}");
        }
    }
    let (report, left) = imported?;
    Ok(with_notices(report, &left, &fields))
}

/// Makes columns for fields that have none, unless the names of files forbid the import. Says which it has made.
fn make_columns(
    corpus: &Corpus,
    listing: &mut Listing,
    fields: &ImportedFields,
    options: &CopyOptions<'_>,
    interrupt: &Interrupt,
) -> Result<Vec<MetadataColumn>> {
    listing.fields = fields.declared.iter().cloned().map(Some).collect();
    if fields.new.is_empty() {
        return Ok(Vec::new());
    }
    if options.on_conflict == OnConflict::Stop {
        let known = known_names(corpus, listing, interrupt)?;
        if !known.is_empty() {
            return Err(file_exists(corpus, listing, &known));
        }
    }
    let mut made = Vec::new();
    let mut schema = MetadataSchema::default();
    corpus.change_metadata_until(interrupt, |metadata| {
        for new in &fields.new {
            // Another statement may have made it.
            if metadata.find(&new.name).is_none() {
                metadata.add(&new.name, new.kind)?;
                made.extend(metadata.find(&new.name).cloned());
            }
        }
        schema = metadata.clone();
        Ok(())
    })?;
    for new in &fields.new {
        let place = new.field as usize;
        if listing.fields.len() <= place {
            listing.fields.resize(place + 1, None);
        }
        listing.fields[place] = schema.find(&new.name).cloned();
    }
    Ok(made)
}

/// Imports listed files. Returns also the names of files that are not changed.
pub(super) fn import_listing(
    corpus: &Corpus,
    writing: &Writing,
    mut listing: Listing,
    options: &CopyOptions<'_>,
    interrupt: &Interrupt,
) -> Result<(Report, Vec<String>)> {
    let mut left = Vec::new();
    loop {
        let known = known_names(corpus, &listing, interrupt)?;
        match options.on_conflict {
            _ if known.is_empty() => {}
            OnConflict::Stop => return Err(file_exists(corpus, &listing, &known)),
            OnConflict::Skip => {
                (listing.sources).retain(|source| known.binary_search(&source.name).is_err());
                left.extend(known);
            }
            OnConflict::Replace => {
                let replaced = interrupt.attend(|stop| {
                    let go_on = || interrupt.check();
                    let new = new_files(&listing, options);
                    let progress = options.progress;
                    replace(writing, corpus.name(), new, progress, stop, &go_on)
                })?;
                match replaced {
                    Some(report) => return Ok((report, left)),
                    // The files have been deleted meanwhile.
                    None => continue,
                }
            }
        }
        match add(corpus, writing, &listing, options, interrupt)? {
            Some(report) => return Ok((report, left)),
            // A file of one of the names has come meanwhile. Sources that cannot be read again replace nothing.
            None if (listing.sources.iter()).any(|source| source.bytes == SIZE_UNKNOWN) => {
                let known = known_names(corpus, &listing, interrupt)?;
                return Err(file_exists(corpus, &listing, &known));
            }
            None => {}
        }
    }
}

/// Adds files; none if the corpus has one of them at the end.
fn add(
    corpus: &Corpus,
    writing: &Writing,
    listing: &Listing,
    options: &CopyOptions<'_>,
    interrupt: &Interrupt,
) -> Result<Option<Report>> {
    let mut publication = writing.store.begin_publication(corpus.name())?;
    let record = publication.corpus().clone();
    let mut added = Vec::new();
    let form = new_files(listing, options).form(&record);
    let values = SourceValues::new(listing, &record.settings.metadata);
    let report = interrupt.watch(&writing.runtime.pool, |stop| {
        let (listing, settings) = (listing.clone(), &record.settings);
        let (on_error, progress) = (options.on_error, options.progress);
        let means = Means {
            stop,
            devices: Some(&writing.runtime.devices),
            cache: Some(&writing.cache),
        };
        ingest(
            form,
            listing,
            settings,
            on_error,
            progress,
            means,
            &mut |new| {
                let metadata = values.put(Vec::new(), new.files(), &HashSet::new(), stop)?;
                let info = write(writing, &mut publication, new, &metadata)?;
                added.push(info.segment_id);
                Ok(info)
            },
        )
    })?;
    interrupt.check()?;
    let Some(turn) = turn(writing, &record, listing, options, interrupt)? else {
        return Ok(None);
    };
    let (record, stored) = writing.stored_view(corpus.name())?;
    let mut base = record.segments;
    base.extend(added);
    // The edits are moved to the new list of segments, as they know the words around them by the old one. No edit is of a new file.
    base.sort_unstable();
    let base = Base {
        segments: base.into(),
        files: &*stored,
        go_on: &|| interrupt.check(),
    };
    let (start, end) = (LogPosition::START, writing.store.log_position());
    (writing.edits).rebase(&turn, record.id, start, base, end, |swap| {
        Ok(publication.commit_with(swap)?)
    })?;
    drop(turn);
    Ok(Some(report))
}

fn new_files<'a>(listing: &'a Listing, options: &CopyOptions<'_>) -> NewFiles<'a> {
    NewFiles {
        listing,
        on_error: options.on_error,
        ingest: options.ingest,
    }
}

/// The lock for publishing files to a corpus, when the log has nothing on their names; none if the corpus has one of them.
///
/// # Errors
/// If the corpus is gone, and that of `interrupt`.
fn turn(
    writing: &Writing,
    corpus: &CorpusRecord,
    listing: &Listing,
    options: &CopyOptions<'_>,
    interrupt: &Interrupt,
) -> Result<Option<FairMutexGuard>> {
    let runtime = &writing.runtime;
    loop {
        let turn = runtime.turn(interrupt)?;
        check_is_same(corpus, &writing.store.corpus(&corpus.name)?)?;
        let (_, stored) = writing.stored_view(&corpus.name)?;
        let edits = writing.edits.tip(corpus.id).unwrap_or_default();
        if (listing.sources.iter()).any(|source| edits.has(&source.name, &*stored)) {
            return Ok(None);
        }
        let edited = writing.edits.files(corpus.id);
        if !(listing.sources.iter()).any(|source| edited.contains(source.name.as_str())) {
            return Ok(Some(turn));
        }
        // The log knows files by name: its records on a file of this name must be merged before a new file has it.
        drop(turn);
        interrupt.attend(|stop| {
            recompress(
                writing,
                &runtime.pool,
                &corpus.name,
                Scope::Due,
                options.progress,
                stop,
                &|| interrupt.check(),
            )
        })?;
    }
}

/// A report with notices; `left` are the files that stay as they are.
fn with_notices(mut report: Report, left: &[String], fields: &ImportedFields) -> Report {
    report.notices = copy_notices::of_foreign(&report.foreign);
    (report.notices).extend(copy_notices::of_grown(&report.grown));
    report.notices.extend(copy_notices::of_conflicts(left));
    (report.notices).extend(copy_notices::of_fields(&fields.left));
    report
}

/// The names of sources that the corpus has already, sorted.
fn known_names(corpus: &Corpus, listing: &Listing, interrupt: &Interrupt) -> Result<Vec<String>> {
    let reader = corpus.reader(interrupt)?;
    let names = listing.sources.iter().map(|source| &source.name);
    let known = names.filter(|name| reader.view().find_file(name).is_some());
    Ok(known.cloned().collect())
}

/// Names that an error lists after the first.
const NAMED_MAX: usize = 4;

fn file_exists(corpus: &Corpus, listing: &Listing, known: &[String]) -> Error {
    let source = (listing.sources.iter()).find(|source| known.first() == Some(&source.name));
    let (file, others) = known
        .split_first()
        .map_or((String::new(), &[][..]), |(file, others)| {
            (file.clone(), others)
        });
    Error::FileExists {
        corpus: corpus.name().to_owned(),
        file,
        path: source.map_or_else(PathBuf::new, |source| source.path.to_path_buf()),
        others: others.iter().take(NAMED_MAX).cloned().collect(),
        more: others.len(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use crate::{CorpusSettings, Database, InterruptHandle};

    const STAGES: [&str; 5] = ["tokenize", "dictionary", "rounds", "prune", "write"];

    /// Interrupts when a stage begins.
    struct At(&'static str, InterruptHandle);

    impl Progress for At {
        fn begin(&self, stage: &str, _total: u64) {
            if stage == self.0 {
                self.1.interrupt();
            }
        }
        fn advance(&self, _amount: u64) {}
        fn end(&self) {}
    }

    /// Delays every stage.
    struct Slow;

    impl Progress for Slow {
        fn begin(&self, _stage: &str, _total: u64) {
            std::thread::sleep(Duration::from_millis(5));
        }
        fn advance(&self, _amount: u64) {}
        fn end(&self) {}
    }

    /// Imports as a statement does.
    fn copy(corpus: &Corpus, path: &Path, progress: &dyn Progress) -> Result<Report> {
        let interrupt = corpus.shared().runtime.interrupt();
        let options = CopyOptions {
            progress,
            ..CopyOptions::default()
        };
        copy_once(corpus, path, &options, &interrupt)
    }

    fn segment_files(database: &Database) -> usize {
        let segments = database.path().unwrap().join("segments");
        let names = segments.read_dir().unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".seg")).count()
    }

    #[test]
    fn an_interrupt_at_any_stage_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("a.txt");
        std::fs::write(&text, "the cat and the dog").unwrap();
        let database = Database::open(folder.path().join("pets.zdb")).unwrap();
        let corpus = database
            .create_corpus("pets", CorpusSettings::default())
            .unwrap();
        for stage in STAGES {
            let at = At(stage, database.interrupt_handle());
            let error = copy(&corpus, &text, &at).unwrap_err();
            assert!(matches!(error, Error::Interrupted), "{stage}: {error}");
            assert_eq!(corpus.files().unwrap().len(), 0, "{stage}");
            assert_eq!(segment_files(&database), 0, "{stage}");
        }
        database.execute_batch("SET statement_timeout = 1").unwrap();
        let error = copy(&corpus, &text, &Slow).unwrap_err();
        assert!(
            matches!(error, Error::Timeout { milliseconds: 1 }),
            "{error}"
        );
        assert_eq!(segment_files(&database), 0);
        database.execute_batch("RESET statement_timeout").unwrap();
        copy(&corpus, &text, &Slow).unwrap();
        assert_eq!(corpus.files().unwrap().len(), 1);
    }

    #[test]
    fn an_interrupt_ends_writing_files() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("a.txt");
        std::fs::write(&text, "the cat and the dog").unwrap();
        let database = Database::in_memory().unwrap();
        let corpus = database
            .create_corpus("pets", CorpusSettings::default())
            .unwrap();
        copy(&corpus, &text, &Slow).unwrap();
        let out = folder.path().join("out");
        let at = At("write", database.interrupt_handle());
        let error = crate::execute::copy_to(
            &corpus,
            &out,
            &at,
            &database.inner().shared().runtime.interrupt(),
        )
        .unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
        assert!(!out.exists());
    }

    /// A pipe that an import waits for; it reports the wait.
    #[cfg(target_os = "linux")]
    struct Pipe {
        _folder: tempfile::TempDir,
        path: PathBuf,
    }

    #[cfg(target_os = "linux")]
    impl Pipe {
        fn new() -> Pipe {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("pipe");
            mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
            Pipe {
                _folder: folder,
                path,
            }
        }

        /// Imports it while `beside` runs, which ends before there is anything to read.
        fn copy_beside(&self, corpus: &Corpus, beside: impl FnOnce()) -> Result<Report> {
            std::thread::scope(|scope| {
                let copying = scope.spawn(|| copy(corpus, &self.path, &NoProgress));
                // Opening it blocks until the import has opened it too.
                let mut target = std::fs::File::options()
                    .write(true)
                    .open(&self.path)
                    .unwrap();
                beside();
                std::io::Write::write_all(&mut target, b"the cat and the dog").unwrap();
                drop(target);
                copying.join().unwrap()
            })
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn others_write_while_files_are_read() {
        let pipe = Pipe::new();
        let database = Database::in_memory().unwrap();
        let corpus = database
            .create_corpus("c", CorpusSettings::default())
            .unwrap();
        let beside = || {
            database
                .execute_batch("SET statement_timeout = '20s'")
                .unwrap();
            let statements = [
                "INSERT INTO c (file, content) VALUES ('a', 'one'), ('b', 'two')",
                "RECOMPRESS c",
                "INSERT INTO c (file, content) VALUES ('a', ' more'), ('d', 'three')",
                "CREATE CORPUS other",
                "ALTER CORPUS c SET (segment_size = '1MiB')",
                "DROP CORPUS other",
                "BEGIN",
                "DELETE FROM c WHERE file = 'b'",
                "COMMIT",
            ];
            for statement in statements {
                database.execute_batch(statement).unwrap();
            }
        };
        pipe.copy_beside(&corpus, beside).unwrap();
        let expected = [
            ("a", &b"one more"[..]),
            ("d", b"three"),
            ("pipe", b"the cat and the dog"),
        ];
        for round in 0..2 {
            let snapshot = corpus.snapshot().unwrap();
            let names: Vec<&str> = snapshot.files().iter().map(|file| &*file.name).collect();
            assert_eq!(names, expected.map(|(name, _)| name), "{round}");
            for (name, text) in expected {
                assert_eq!(snapshot.extract(name, 0, 99).unwrap(), text, "{round}");
            }
            assert_eq!(snapshot.count("the").unwrap(), 2, "{round}");
            corpus.recompress(&NoProgress).unwrap();
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_changed_while_files_were_read_is_looked_at_before_they_come() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = Pipe::new();
        let database = Database::open(folder.path().join("c.zdb")).unwrap();
        let corpus = database
            .create_corpus("c", CorpusSettings::default())
            .unwrap();
        let insert = || corpus.append_many(&[("pipe", "first")]).unwrap();
        let error = pipe.copy_beside(&corpus, insert).unwrap_err();
        assert!(matches!(error, Error::FileExists { .. }), "{error}");
        let text = corpus.snapshot().unwrap().extract("pipe", 0, 99).unwrap();
        assert_eq!(text, b"first");
        // A file that was made and deleted in the log is merged before a new one has its name.
        corpus.delete_many(&["pipe"]).unwrap();
        let come_and_go = || {
            insert();
            corpus.delete_many(&["pipe"]).unwrap();
        };
        pipe.copy_beside(&corpus, come_and_go).unwrap();
        drop((corpus, database));
        let database = Database::open(folder.path().join("c.zdb")).unwrap();
        let corpus = database.corpus("c").unwrap();
        let text = corpus.snapshot().unwrap().extract("pipe", 0, 99).unwrap();
        assert_eq!(text, b"the cat and the dog");

        corpus.delete_many(&["pipe"]).unwrap();
        corpus.recompress(&NoProgress).unwrap();
        for recreate in [false, true] {
            let drop_corpus = || {
                database.drop_corpus("c").unwrap();
                if recreate {
                    let settings = CorpusSettings::default();
                    database.create_corpus("c", settings).unwrap();
                }
            };
            let error = pipe.copy_beside(&corpus, drop_corpus).unwrap_err();
            let gone = "no such corpus";
            assert!(error.to_string().contains(gone), "{error}");
            assert_eq!(segment_files(&database), 0);
            if !recreate {
                let settings = CorpusSettings::default();
                database.create_corpus("c", settings).unwrap();
            }
        }
    }

    #[test]
    fn waiting_to_publish_ends_on_time() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("a.txt");
        std::fs::write(&text, "the cat and the dog").unwrap();
        let database = Database::open(folder.path().join("pets.zdb")).unwrap();
        let corpus = database
            .create_corpus("pets", CorpusSettings::default())
            .unwrap();
        let edits = database.begin().unwrap();
        database
            .execute_batch("SET statement_timeout = 50")
            .unwrap();
        let error = copy(&corpus, &text, &NoProgress).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        assert_eq!(segment_files(&database), 0);
        drop(edits);
        database.execute_batch("RESET statement_timeout").unwrap();
        copy(&corpus, &text, &NoProgress).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_has_no_size_is_read_to_its_end() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let database = Database::in_memory().unwrap();
        let settings = CorpusSettings {
            segment_size: 64 << 10,
            ..CorpusSettings::default()
        };
        let corpus = database.create_corpus("c", settings).unwrap();
        // There is no writer.
        database
            .execute_batch("SET statement_timeout = 100")
            .unwrap();
        let error = copy(&corpus, &pipe, &Slow).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        database.execute_batch("RESET statement_timeout").unwrap();

        // Several segments, written in two steps.
        let text = "the cat sat on the mat\n".repeat(20_000);
        let (target, written) = (pipe.clone(), text.clone());
        let writer = std::thread::spawn(move || {
            use std::io::Write;
            let mut target = std::fs::File::options().write(true).open(target).unwrap();
            let (first, second) = written.split_at(written.len() / 2);
            target.write_all(first.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            target.write_all(second.as_bytes()).unwrap();
        });
        copy(&corpus, &pipe, &Slow).unwrap();
        writer.join().unwrap();
        let version = Path::new("/proc/version");
        assert_eq!(std::fs::metadata(version).unwrap().len(), 0);
        copy(&corpus, version, &Slow).unwrap();

        let snapshot = corpus.snapshot().unwrap();
        let content = |file: &str| snapshot.extract(file, 0, u64::MAX).unwrap();
        assert!(content("pipe") == text.as_bytes());
        assert_eq!(content("version"), std::fs::read(version).unwrap());
        assert_eq!(snapshot.files().len(), 2);
    }
}
