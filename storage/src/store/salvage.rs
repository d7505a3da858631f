//! The readable part of a damaged database, for a copy of it elsewhere.
//!
//! Invariant: nothing is written, all is read in the directory that was there at the beginning, and damage is no error: it is what is
//! reported. What is live is decided as when the database is opened, in `recovery.rs`, with what can be read of the log; segments of
//! publications that have lost others are taken too.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backend::{Backend, FileBackend};
use crate::catalog::{ContentFault, CorpusRecord};
use crate::log::{LOG_NAME, LogPosition, LogRecord, Remains};
use crate::manifest::ManifestFile;
use crate::segment::{SegmentHeader, SegmentReader};
use crate::settings::CorpusSettings;
use crate::store::directory::{SEGMENTS_NAME, SegmentDirectory, no_database, temporary};
use crate::store::location::Location;
use crate::store::missing::is_missing;
use crate::store::open::{FileFacts, had_manifest};
use crate::store::recovery::{Facts, Unfinished, recover};
use crate::store::unfinished::refuse_unfinished;
use crate::views::{self, ViewRecord};
use crate::{Error, Result};

/// What is left of a database that may be damaged. No process should have it open for writing.
pub struct Salvage {
    corpora: Vec<SalvagedCorpus>,
    views: Vec<ViewRecord>,
    log: Remains,
    lost: Vec<String>,
    notes: Vec<String>,
}

/// A corpus of a damaged database.
#[derive(Clone, Debug)]
pub struct SalvagedCorpus {
    backend: Arc<dyn Backend>,
    /// Its number, which records of the log have too.
    pub id: u64,
    /// Its name, or one like `corpus-7` if that is lost.
    pub name: String,
    /// Its settings, as far as they are known.
    pub settings: CorpusSettings,
    /// The files of its segments, in the order in which they were published. They may be damaged or missing.
    pub segments: Vec<(u64, PathBuf)>,
    merged_position: LogPosition,
}

impl Salvage {
    /// Looks through the database in `path`.
    ///
    /// # Errors
    /// [`Error::UnfinishedRepair`] if it lacks what a repair has not saved yet; [`Error::NoDatabase`], [`Error::NotADatabase`];
    /// [`Error::Corrupt`] if it has no directory of segments, [`Error::Io`] if its directories cannot be listed.
    pub fn read(path: &Path) -> Result<Salvage> {
        refuse_unfinished(&FileBackend, path)?;
        if is_missing(&FileBackend, path)? {
            return Err(no_database(path));
        }
        let location = Location::find(Arc::new(FileBackend), path)?;
        let backend = &*location.backend;
        let directory = SegmentDirectory::new(path.join(SEGMENTS_NAME));
        let mut notes = Vec::new();
        let manifest = match ManifestFile::read(backend, path) {
            Ok(manifest) => Some(manifest),
            Err(ContentFault::Missing) if !had_manifest(backend, path)? => {
                notes.push("there is no manifest: an older release wrote the database".to_owned());
                None
            }
            Err(fault) => {
                // Damage to the end of the log looks like a commit that was cut short then.
                notes.push(format!(
                    "the manifest cannot be used, and only it knew where the record log begins and ends: changes at either \
                     end may be lost: {fault}"
                ));
                None
            }
        };
        let (known, extent) = match manifest {
            Some(manifest) => (Some(manifest.corpora), Some(manifest.log)),
            None => (None, None),
        };
        let listing = directory.list(backend)?;
        let log = Remains::read(backend, &path.join(LOG_NAME), extent.flatten())?;
        let facts = LenientFacts(FileFacts {
            backend,
            directory: &directory,
            markers: RefCell::default(),
        });
        let unfinished = Unfinished::Finish;
        let recovered = recover(known.as_ref(), &listing, &log.scan, unfinished, &facts)?;
        notes.extend(log.notes.iter().cloned());
        notes.extend(recovered.notes.into_iter().chain(recovered.warnings));

        let path_of = |id: u64| {
            if recovered.unplaced.contains(&id) {
                temporary(&directory.segment(id))
            } else {
                directory.segment(id)
            }
        };
        let with_paths = |record: CorpusRecord| SalvagedCorpus {
            backend: Arc::clone(&location.backend),
            id: record.id,
            name: record.name,
            settings: record.settings,
            segments: (record.segments.iter())
                .map(|&id| (id, path_of(id)))
                .collect(),
            merged_position: record.merged_position,
        };
        let mut corpora: Vec<SalvagedCorpus> =
            recovered.corpora.into_values().map(with_paths).collect();
        let mut lost = log.faults.clone();
        for id in recovered.aside {
            match facts.header(id) {
                Ok(header) => {
                    let segment = (id, path_of(id));
                    take_aside(&mut corpora, header, segment, &location.backend);
                }
                Err(error) => lost.push(format!("{error}: nothing of it can be read")),
            }
        }
        let logged: BTreeSet<u64> = (log.scan.files.iter())
            .flat_map(|file| file.corpora.keys().copied())
            .collect();
        for id in logged {
            if !listing.tombstones.contains(&id) && corpora.iter().all(|corpus| corpus.id != id) {
                let name = format!("corpus-{id}");
                lost.push(format!(
                    "name and settings of a corpus of which only changes are left: it becomes `{name}`"
                ));
                corpora.push(SalvagedCorpus {
                    backend: Arc::clone(&location.backend),
                    id,
                    name,
                    settings: CorpusSettings::default(),
                    segments: Vec::new(),
                    merged_position: LogPosition::START,
                });
            }
        }
        let views = views::read(backend, path).unwrap_or_else(|error| {
            lost.push(format!("all views: {error}"));
            Vec::new()
        });
        let mut salvage = Salvage {
            corpora,
            views,
            log,
            lost,
            notes,
        };
        salvage.report_untrusted();
        if extent.is_none() {
            salvage.note_unknown();
        }
        Ok(salvage)
    }

    /// The views.
    pub fn views(&self) -> &[ViewRecord] {
        &self.views
    }

    /// The corpora.
    pub fn corpora(&self) -> &[SalvagedCorpus] {
        &self.corpora
    }

    /// What is damaged, except in segments, whose readers report it.
    pub fn lost(&self) -> &[String] {
        &self.lost
    }

    /// What was found that does no harm.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Gives the records of the log that are not in segments, in order, but those that may rest on others that are lost.
    pub fn replay(&self, mut visit: impl FnMut(LogRecord<'_>)) {
        let visit = |record: LogRecord<'_>, is_whole| {
            if is_whole {
                visit(record);
            }
        };
        self.log.replay(&self.merged(), visit);
    }

    fn merged(&self) -> BTreeMap<u64, LogPosition> {
        let corpora = self.corpora.iter();
        corpora
            .map(|corpus| (corpus.id, corpus.merged_position))
            .collect()
    }

    /// Without the manifest it is unknown whether the oldest files of the log are missing or were removed.
    fn note_unknown(&mut self) {
        let Some(first) = self.log.unknown_before else {
            return;
        };
        for corpus in &self.corpora {
            if corpus.merged_position < first {
                self.notes.push(format!(
                    "the record log begins in file {:016x}: whether it had changes of corpus `{}` before that, which are \
                     lost then, only the manifest knew",
                    first.file + 1,
                    corpus.name
                ));
            }
        }
    }

    fn report_untrusted(&mut self) {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        self.log.replay(&self.merged(), |record, is_whole| {
            if !is_whole {
                *counts.entry(record.corpus()).or_default() += 1;
            }
        });
        for corpus in &self.corpora {
            if let Some(count) = counts.get(&corpus.id) {
                self.lost.push(format!(
                    "{count} changes of corpus `{}` that were made after others that are lost",
                    corpus.name
                ));
            }
        }
    }
}

/// Gives a segment that could not be placed to the corpus of its name.
fn take_aside(
    corpora: &mut Vec<SalvagedCorpus>,
    header: SegmentHeader,
    segment: (u64, PathBuf),
    backend: &Arc<dyn Backend>,
) {
    let named = (corpora.iter_mut()).find(|corpus| corpus.name == header.corpus);
    match named {
        Some(corpus) => {
            corpus.segments.push(segment);
            corpus.segments.sort_unstable();
        }
        None => corpora.push(SalvagedCorpus {
            backend: Arc::clone(backend),
            // Corpora that have a number get it before their segments.
            id: segment.0,
            name: header.corpus,
            settings: header.settings,
            segments: vec![segment],
            merged_position: LogPosition::START,
        }),
    }
}

/// Facts of which any that cannot be had is damage.
struct LenientFacts<'a>(FileFacts<'a>);

fn lenient<T>(fact: Result<T>) -> Result<T> {
    fact.map_err(|error| match error {
        Error::Io { path, .. } => Error::Corrupt {
            path,
            part: "file",
            fault: "it cannot be read",
        },
        Error::Version { path, .. } => Error::Corrupt {
            path,
            part: "file",
            fault: "it is of another version",
        },
        other => other,
    })
}

impl Facts for LenientFacts<'_> {
    fn marker(&self, id: u64) -> Result<CorpusRecord> {
        lenient(self.0.marker(id))
    }

    fn tombstone(&self, id: u64) -> Result<CorpusRecord> {
        lenient(self.0.tombstone(id))
    }

    fn header(&self, id: u64) -> Result<SegmentHeader> {
        lenient(self.0.header(id))
    }
}

impl SalvagedCorpus {
    /// Opens one of its segments.
    ///
    /// # Errors
    /// Those of [`SegmentReader::open`], and [`Error::Corrupt`] if it is another one.
    pub fn open_segment(&self, (id, path): &(u64, PathBuf)) -> Result<SegmentReader> {
        let reader = SegmentReader::open(&*self.backend, path)?;
        if reader.header().segment_id == *id {
            Ok(reader)
        } else {
            Err(Error::Corrupt {
                path: path.clone(),
                part: "header",
                fault: "it is the header of another segment",
            })
        }
    }
}
