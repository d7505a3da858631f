//! A distributed import: workers make segments of its parts, and all of them become one version.
//!
//! Invariant: the version has all parts or is not there. Each attempt at a part has numbers for segments of its own, so whatever
//! comes back from however many attempts, segments never have the same. What an attempt wrote that was not taken lies under the
//! name of the publication, and is collected with it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use zipfdb::ingest::CopyOptions;
use zipfdb::{CorpusSettings, Database, DatabaseOptions, IngestMode, InterruptHandle};
use zipfdb_storage::{OpenOptions, Store};

use crate::cache::CacheOptions;
use crate::error::io_error;
use crate::publish::{FILES_AT_ONCE, Publication, Pushed, upload};
use crate::store::{RemoteStore, for_each};
use crate::version::{Version, VersionFile};
use crate::{Error, Result};

/// Numbers that are reserved for the segments of an attempt, which are far fewer.
const ATTEMPT_NUMBERS: u64 = 1 << 20;

/// The beginning of the names of folders in which parts are made.
const SCRATCH: &str = "zipfdb-import-";

/// A folder older than this is left over from a process that was killed: no part takes this long.
const LEFT_OVER: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// A corpus whose only purpose is its number, in the database in which a part is made.
const NUMBERING: &str = "numbers from here";

/// An import that is going on. Nothing is collected of what is written for it as long as it lives.
pub struct Import {
    store: RemoteStore,
    publication: Publication,
    before: Version,
    /// The version before, open.
    opened: Store,
    /// The same as a database.
    database: Database,
    /// Its name and number.
    corpus: (String, u64),
    /// The first number of the next attempt.
    next: u64,
}

/// Where the segments of an attempt at a part go, and the numbers that they have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportPlace {
    corpus: String,
    /// The number of the corpus: index files name it.
    corpus_number: u64,
    publication: String,
    first: u64,
}

/// What is imported by one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportPart {
    /// A path that every machine has.
    pub path: PathBuf,
    /// The first and the last of its files, by their names in the corpus.
    pub names: (String, String),
    /// How many files these are.
    pub files: u64,
    /// Their size, as far as it is known.
    pub bytes: u64,
}

/// What a part is made with.
#[derive(Clone, Debug)]
pub struct PartMeans<'a> {
    /// A folder for a new one in which segments are made.
    pub scratch: &'a Path,
    /// How the database is opened that makes them.
    pub options: DatabaseOptions,
    /// Statements of ZipfDB's dialect that it begins with.
    pub statements: &'a [String],
}

/// The outcome of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedPart {
    /// Numbers of segments.
    segments: Vec<u64>,
    files: Vec<VersionFile>,
    /// What is worth a word about the files that were imported.
    notices: Vec<String>,
}

impl ImportedPart {
    /// What is worth a word about the files that were imported, as a COPY has it.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
}

impl RemoteStore {
    /// Begins to import files to a corpus of the newest version.
    ///
    /// # Errors
    /// [`Error::NoSuchVersion`], [`Error::Local`] if it has no such corpus, and those of reading.
    pub fn begin_import(&self, corpus: &str) -> Result<Import> {
        let publication = Publication::begin(self)?;
        let before = self.find_version(None)?;
        let backend = self.backend(&before, &CacheOptions::default())?;
        let options = OpenOptions {
            read_only: true,
            create: false,
        };
        let opened = Store::open_with(backend.clone(), &self.root(), options)?;
        let options = Database::options().read_only(true).backend(backend);
        let database = options.open(self.root())?;
        let record = opened.corpus(corpus)?;
        let corpora = opened.corpora();
        let numbers = corpora.iter().flat_map(|record| {
            let segments = record.segments.iter().copied();
            segments.chain([record.id])
        });
        let largest = numbers.max().unwrap_or(0);
        Ok(Import {
            store: self.clone(),
            publication,
            before,
            opened,
            database,
            corpus: (record.name, record.id),
            // Above those that the log knows of segments that were never published, too.
            next: (largest / ATTEMPT_NUMBERS + 2) * ATTEMPT_NUMBERS,
        })
    }

    /// Imports a part to a corpus with `settings`, and stores its segments at `place`. Calls `begun` with what interrupts it.
    ///
    /// # Errors
    /// [`Error::Import`] if there are other files than the part says; [`Error::Database`]; those of storing.
    pub fn import_part(
        &self,
        place: &ImportPlace,
        part: &ImportPart,
        settings: &CorpusSettings,
        means: &PartMeans<'_>,
        begun: impl FnOnce(InterruptHandle),
    ) -> Result<ImportedPart> {
        let folder = Scratch::new(means.scratch)?;
        let directory = folder.0.join("part.zdb");
        let create = OpenOptions {
            read_only: false,
            create: true,
        };
        let store = Store::open(&directory, create)?;
        let settings = CorpusSettings {
            ingest: IngestMode::Grammar,
            ..settings.clone()
        };
        store.number_from(place.corpus_number)?;
        store.create_corpus(&place.corpus, settings)?;
        // What is numbered next follows the largest number that there is.
        store.number_from(place.first)?;
        store.create_corpus(NUMBERING, CorpusSettings::default())?;
        drop(store);
        let database = means.options.clone().open(&directory)?;
        for statement in means.statements {
            database.execute_batch(statement)?;
        }
        begun(database.interrupt_handle());
        let copy = CopyOptions {
            names: Some((&part.names.0, &part.names.1)),
            ..CopyOptions::default()
        };
        let report = database
            .corpus(&place.corpus)?
            .copy_from(&part.path, &copy)?;
        drop(database);
        if report.files != part.files {
            return Err(self.refused(format!(
                "{} has {} files from `{}` to `{}`, not {}; hint: a path must be the same files on all machines",
                part.path.display(),
                report.files,
                part.names.0,
                part.names.1,
                part.files
            )));
        }
        let read_only = OpenOptions {
            read_only: true,
            create: false,
        };
        let store = Store::open(&directory, read_only)?;
        let made = store.corpus(&place.corpus)?.segments;
        let mut image = store.image()?;
        image.retain(|file| {
            file.path().starts_with(Store::IMAGE_DIRECTORIES[0]) && file.is_stored()
        });
        let files = Mutex::new(Vec::with_capacity(image.len()));
        for_each(&image, FILES_AT_ONCE, |file| {
            if let Some(content) = file.open()? {
                let name = &place.publication;
                let (file, _) = upload(self, name, &directory, file, content, &HashMap::new())?;
                files.lock().push(file);
            }
            Ok(())
        })?;
        Ok(ImportedPart {
            segments: made,
            files: files.into_inner(),
            notices: report.notices.iter().map(ToString::to_string).collect(),
        })
    }

    fn refused(&self, reason: String) -> Error {
        Error::Import {
            url: self.url().into(),
            reason,
        }
    }
}

impl fmt::Debug for Import {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Import({}, {})", self.store.url(), self.corpus.0)
    }
}

impl ImportPlace {
    /// The corpus that segments are for.
    pub fn corpus(&self) -> &str {
        &self.corpus
    }
}

impl Import {
    /// The number of the version that the import adds to.
    pub fn version(&self) -> u64 {
        self.before.number
    }

    /// Cuts what is at a path into parts of some files each. `part_bytes` gets the number of all bytes, and returns the function
    /// that maps the bytes that are left to the bytes of the next part, about.
    ///
    /// # Errors
    /// [`Error::Import`] if there are no files, the corpus has one of them already, or changes that are no segments yet;
    /// [`Error::Database`] if the path cannot be read.
    pub fn parts<P: Fn(u64) -> u64>(
        &self,
        path: &Path,
        part_bytes: impl FnOnce(u64) -> P,
    ) -> Result<Vec<ImportPart>> {
        let corpus = self.database.corpus(&self.corpus.0)?;
        if corpus.pending_bytes()? > 0 {
            return Err(self.store.refused(format!(
                "corpus `{}` has changes that are pending; hint: pull it, RECOMPRESS and push it",
                self.corpus.0
            )));
        }
        let listed = self.database.list_files(path)?;
        if listed.is_empty() {
            let path = path.display();
            return Err(self.store.refused(format!("there is no file at {path}")));
        }
        let there: HashSet<String> = corpus.files()?.into_iter().map(|file| file.name).collect();
        if let Some((name, _)) = listed.iter().find(|(name, _)| there.contains(name)) {
            return Err(self.store.refused(format!(
                "corpus `{}` has a file `{name}` already; hint: import it under another name, or delete it there",
                self.corpus.0
            )));
        }
        let mut left: u64 = listed.iter().map(|(_, size)| size).sum();
        let (part_bytes, mut room) = (part_bytes(left), 0);
        let mut parts: Vec<ImportPart> = Vec::new();
        for (name, size) in listed {
            match parts.last_mut() {
                Some(part) if part.bytes + size <= room => {
                    part.names.1 = name;
                    part.files += 1;
                    part.bytes += size;
                }
                _ => {
                    room = part_bytes(left);
                    parts.push(ImportPart {
                        path: path.to_path_buf(),
                        names: (name.clone(), name),
                        files: 1,
                        bytes: size,
                    });
                }
            }
            left -= size;
        }
        Ok(parts)
    }

    /// The place for an attempt at a part.
    pub fn place(&mut self) -> ImportPlace {
        let first = self.next;
        self.next += ATTEMPT_NUMBERS;
        ImportPlace {
            corpus: self.corpus.0.clone(),
            corpus_number: self.corpus.1,
            publication: self.publication.name().into(),
            first,
        }
    }

    /// Publishes all parts as the next version.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another publisher was faster: nothing has happened then. Those of storing.
    pub fn publish(self, parts: Vec<ImportedPart>) -> Result<Pushed> {
        let mut segments: Vec<u64> = (parts.iter())
            .flat_map(|part| part.segments.iter().copied())
            .collect();
        segments.sort_unstable();
        let image = self.opened.image_with(&self.corpus.0, &segments)?;
        let known: HashMap<&str, &VersionFile> = (self.before.files.iter())
            .map(|file| (&file.path[..], file))
            .collect();
        let mut files: HashMap<String, VersionFile> = (self.before.files.iter().cloned())
            .map(|file| (file.path.clone(), file))
            .collect();
        let kept: u64 = files.values().map(|file| file.size).sum();
        let mut uploaded = 0;
        let root = self.store.root();
        for file in image.iter().filter(|file| !file.is_stored()) {
            if let Some(content) = file.open()? {
                let name = self.publication.name();
                let (file, _) = upload(&self.store, name, &root, file, content, &known)?;
                files.insert(file.path.clone(), file);
            }
        }
        for file in parts.into_iter().flat_map(|part| part.files) {
            uploaded += file.size;
            files.insert(file.path.clone(), file);
        }
        let files: Vec<VersionFile> = files.into_values().collect();
        let pushed = Pushed {
            version: self.before.number + 1,
            files: files.len(),
            uploaded,
            kept,
        };
        (self.publication).create(pushed.version, files, self.before.number)?;
        Ok(pushed)
    }
}

/// A folder that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Scratch> {
        remove_old(parent);
        let path = parent.join(format!("{SCRATCH}{}", Uuid::new_v4().simple()));
        std::fs::create_dir(&path).map_err(io_error(&path, "create"))?;
        Ok(Scratch(path))
    }
}

/// Removes what processes that were killed left of parts long ago.
fn remove_old(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    let entries = entries.flatten().filter(|entry| {
        let age = entry.metadata().and_then(|metadata| metadata.modified());
        let age = age.ok().and_then(|modified| modified.elapsed().ok());
        let name = entry.file_name();
        name.to_string_lossy().starts_with(SCRATCH) && age.is_some_and(|age| age > LEFT_OVER)
    });
    for entry in entries {
        let path = entry.path();
        if let Err(error) = std::fs::remove_dir_all(&path) {
            tracing::warn!("{}: cannot remove: {error}", path.display());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!("{}: cannot remove: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_long_ago_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let [old, new, other] = ["zipfdb-import-1", "zipfdb-import-2", "other"].map(|name| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("file"), "content").unwrap();
            path
        });
        for path in [&old, &other] {
            let long_ago = std::time::SystemTime::now() - 2 * LEFT_OVER;
            std::fs::File::open(path)
                .unwrap()
                .set_modified(long_ago)
                .unwrap();
        }
        let scratch = Scratch::new(parent.path()).unwrap();
        let made = scratch.0.clone();
        assert!(!old.exists() && new.exists() && other.exists() && made.exists());
        drop(scratch);
        assert!(!made.exists());
        assert!(Scratch::new(&new.join("missing")).is_err());
    }
}
