//! COPY ... FROM: files of the operating system become new segments of a corpus.
//!
//! All or nothing: segments are written beside the live ones and published in
//! one step at the end; on any error they are removed again.

use std::path::Path;

use zipfdb_storage::SegmentWriter;

use crate::corpus::Corpus;
use crate::ingest::{OnError, Report, ingest};
use crate::sources::list_sources;
use crate::tokenize::UNICODE_VERSION;
use crate::{Error, Progress, Result};

/// Imports what `path` means.
pub(crate) fn copy_from(
    corpus: &Corpus,
    path: &Path,
    on_error: OnError,
    progress: &dyn Progress,
) -> Result<Report> {
    let shared = corpus.shared();
    let interrupt = shared.interrupt();
    let _writing = interrupt.lock(&shared.writing)?;
    let mut publication = shared.store.begin_publication(corpus.name())?;
    let snapshot = corpus.snapshot()?;
    let listing = interrupt.watch(&snapshot, |stop| {
        list_sources(path, shared.directory(), stop)
    })?;
    let known = |name: &str| snapshot.file(name).is_some();
    if let Some(source) = listing.sources.iter().find(|source| known(&source.name)) {
        return Err(Error::FileExists {
            corpus: corpus.name().to_owned(),
            file: source.name.clone(),
            path: source.path.clone(),
        });
    }
    let settings = publication.corpus().settings.clone();
    let report = interrupt.watch(&snapshot, |stop| {
        ingest(
            listing,
            &settings,
            on_error,
            progress,
            stop,
            &mut |segment| {
                let (header, path) = publication.next_segment(UNICODE_VERSION, segment.is_last)?;
                let info = SegmentWriter::write(
                    shared.store.backend(),
                    &path,
                    &header,
                    &segment.files,
                    &segment.dictionary,
                    &segment.grammar,
                )?;
                Ok(info)
            },
        )
    })?;
    interrupt.check()?;
    publication.commit()?;
    Ok(report)
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

    /// Takes its time for every stage.
    struct Slow;

    impl Progress for Slow {
        fn begin(&self, _stage: &str, _total: u64) {
            std::thread::sleep(Duration::from_millis(5));
        }
        fn advance(&self, _amount: u64) {}
        fn end(&self) {}
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
            let error = copy_from(&corpus, &text, OnError::Stop, &at).unwrap_err();
            assert!(matches!(error, Error::Interrupted), "{stage}: {error}");
            assert_eq!(corpus.files().unwrap().len(), 0, "{stage}");
            assert_eq!(segment_files(&database), 0, "{stage}");
        }
        database.execute("SET statement_timeout = 1").unwrap();
        let error = copy_from(&corpus, &text, OnError::Stop, &Slow).unwrap_err();
        assert!(
            matches!(error, Error::Timeout { milliseconds: 1 }),
            "{error}"
        );
        assert_eq!(segment_files(&database), 0);
        database.execute("RESET statement_timeout").unwrap();
        copy_from(&corpus, &text, OnError::Stop, &Slow).unwrap();
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
        copy_from(&corpus, &text, OnError::Stop, &Slow).unwrap();
        let out = folder.path().join("out");
        let at = At("write", database.interrupt_handle());
        let error = crate::execute::copy_to(&corpus, &out, &at).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
        assert!(!out.exists());
    }
}
