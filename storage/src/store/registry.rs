//! The registry of corpora of a writer: the manifest, and the catalog behind it.
//!
//! Invariant: a change is in the manifest before it is in the catalog, and of two that can be read the one with the
//! larger sequence number counts. Each is rebuilt from the other; a catalog that fails is given up and fails nothing.

use std::path::Path;
use std::sync::Arc;

use crate::backend::Backend;
use crate::catalog::{self, Catalog, ContentFault, Corpora, Files};
use crate::error::io_error;
use crate::log::{KeepExtent, LogExtent, LogPosition};
use crate::manifest::{self, MANIFEST_NAME, Manifest, ManifestFile};
use crate::{Error, Result};

pub(super) const CATALOG_NAME: &str = "catalog";

/// Manifest and catalog of a database that is open for writing.
#[derive(Debug)]
pub(super) struct Registry {
    manifest: Arc<ManifestFile>,
    /// `None` where there is no file system.
    catalog: Option<Catalog>,
}

impl Registry {
    /// Where the log keeps what it holds at least.
    pub(super) fn keep_extent(&self) -> KeepExtent {
        let manifest = Arc::clone(&self.manifest);
        Box::new(move |extent| manifest.store_log(extent))
    }

    /// The sequence number of the manifest.
    pub(super) fn sequence(&self) -> u64 {
        self.manifest.sequence()
    }

    /// Makes `corpora` what the database holds. Durable when it returns.
    pub(super) fn store(&mut self, corpora: &Corpora, durable: LogPosition) -> Result<()> {
        self.manifest.store_corpora(corpora, durable)?;
        if let Some(catalog) = &mut self.catalog
            && let Err(fault) = catalog.store(corpora, self.manifest.sequence())
        {
            self.catalog = None;
            tracing::warn!("the catalog could not be written, the manifest was: {fault}");
        }
        Ok(())
    }
}

/// Manifest and catalog as they are found by a writer.
pub(super) struct FoundRegistry {
    /// What the database holds according to them.
    pub(super) known: Option<Corpora>,
    manifest: std::result::Result<Manifest, ContentFault>,
    /// That of the newest of both.
    sequence: u64,
    catalog: FoundCatalog,
}

enum FoundCatalog {
    /// The backend is no file system, so there is no catalog.
    NoFileSystem,
    /// The catalog may be written to.
    Usable(Catalog),
    /// The catalog must be replaced, as is usual after a crash.
    Stale,
    /// The catalog must be replaced because of this fault.
    Faulty(ContentFault),
}

impl FoundRegistry {
    /// Reads both. sled is started only if the manifest does not say what there is.
    pub(super) fn read(backend: &Arc<dyn Backend>, path: &Path) -> Result<FoundRegistry> {
        let manifest = match ManifestFile::read(&**backend, path) {
            Err(ContentFault::Version(found)) => {
                return Err(later_version(path, MANIFEST_NAME, found, manifest::VERSION));
            }
            Err(ContentFault::Io(error)) => {
                return Err(io_error(&path.join(MANIFEST_NAME), "read")(error));
            }
            manifest => manifest,
        };
        let mut found = FoundRegistry {
            known: None,
            manifest,
            sequence: 0,
            catalog: FoundCatalog::NoFileSystem,
        };
        if let Ok(manifest) = &found.manifest {
            found.known = Some(manifest.corpora.clone());
            found.sequence = manifest.sequence;
        }
        if backend.is_file_system() {
            found.read_catalog(backend, path)?;
        }
        Ok(found)
    }

    /// What the log holds at least, unless the manifest is an older one.
    pub(super) fn log(&self) -> Option<LogExtent> {
        let manifest = self.manifest.as_ref().ok()?;
        manifest.log.filter(|_| manifest.sequence >= self.sequence)
    }

    /// The sequence number of the manifest, unless it is an older one.
    pub(super) fn sequence(&self) -> Option<u64> {
        let manifest = self.manifest.as_ref().ok()?;
        Some(manifest.sequence).filter(|sequence| *sequence >= self.sequence)
    }

    fn read_catalog(&mut self, backend: &Arc<dyn Backend>, database: &Path) -> Result<()> {
        let path = database.join(CATALOG_NAME);
        let can_do_without = self.known.is_some();
        let refused = |fault| match fault {
            ContentFault::Version(found) => Err(later_version(
                database,
                CATALOG_NAME,
                found,
                catalog::VERSION,
            )),
            ContentFault::Io(error) if !can_do_without => Err(io_error(&path, "open")(error)),
            fault => Ok(FoundCatalog::Faulty(fault)),
        };
        let files = match Files::read(&**backend, &path) {
            Ok(files) => files,
            Err(fault) => {
                self.catalog = refused(fault)?;
                return Ok(());
            }
        };
        self.catalog = match files {
            Files::Missing => FoundCatalog::Faulty(ContentFault::Missing),
            Files::Damaged(what) => FoundCatalog::Faulty(ContentFault::Damaged(what)),
            Files::Closed(sequence) if can_do_without && sequence <= self.sequence => {
                FoundCatalog::Usable(Catalog::closed(Arc::clone(backend), &path))
            }
            Files::Open if can_do_without => FoundCatalog::Stale,
            Files::Closed(_) | Files::Open => match Catalog::open(Arc::clone(backend), &path) {
                Ok((catalog, content)) => {
                    self.known = Some(content.corpora);
                    self.sequence = self.sequence.max(content.sequence);
                    FoundCatalog::Usable(catalog)
                }
                Err(fault) => refused(fault)?,
            },
        };
        Ok(())
    }

    /// Makes `corpora`, which recovery found, what both hold. `anew` if the database was just created.
    pub(super) fn store(
        self,
        backend: &Arc<dyn Backend>,
        path: &Path,
        corpora: &Corpora,
        anew: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Registry> {
        if !anew {
            warnings.extend(self.warning());
        }
        let is_older = (self.manifest.as_ref()).is_ok_and(|found| found.sequence < self.sequence);
        let stored = self.manifest.ok().filter(|_| !is_older);
        let is_new = stored.is_none();
        let manifest = ManifestFile::new(Arc::clone(backend), path, stored, self.sequence);
        manifest.store_corpora(corpora, LogPosition::START)?;
        let catalog_path = path.join(CATALOG_NAME);
        let (mut catalog, is_void) = match self.catalog {
            FoundCatalog::NoFileSystem => (None, false),
            FoundCatalog::Usable(catalog) => (Some(catalog), false),
            FoundCatalog::Stale => {
                let catalog = Catalog::void(Arc::clone(backend), &catalog_path);
                (Some(catalog), false)
            }
            FoundCatalog::Faulty(fault) => {
                if !anew && !matches!(fault, ContentFault::Missing) {
                    set_aside(&**backend, path, warnings)?;
                }
                let catalog = Catalog::void(Arc::clone(backend), &catalog_path);
                (Some(catalog), true)
            }
        };
        let is_behind = is_new || self.known.as_ref() != Some(corpora);
        if (is_void || is_behind)
            && let Some(new) = &mut catalog
        {
            let stored = new.store(corpora, manifest.sequence()).and_then(|()| {
                // The first time its name has to be durable as well.
                let synced = [&*catalog_path, path].map(|path| backend.sync_directory(path));
                synced
                    .into_iter()
                    .collect::<std::io::Result<()>>()
                    .map_err(ContentFault::Io)
            });
            if let Err(fault) = stored {
                warnings.push(format!(
                    "the catalog could not be written, only the manifest lists corpora: {fault}"
                ));
                catalog = None;
            }
        }
        Ok(Registry {
            manifest: Arc::new(manifest),
            catalog,
        })
    }

    fn warning(&self) -> Option<String> {
        let warning = match (&self.manifest, &self.catalog) {
            (Ok(manifest), FoundCatalog::Usable(_)) if manifest.sequence < self.sequence => {
                "the manifest was rebuilt from the catalog: it is older".to_owned()
            }
            (Ok(_), FoundCatalog::Faulty(fault)) => {
                format!("the catalog was rebuilt from the manifest: {fault}")
            }
            (Ok(_), _) => return None,
            // A database of an older release has no manifest, and a catalog without a sequence number.
            (Err(ContentFault::Missing), FoundCatalog::Usable(_)) if self.sequence == 0 => {
                return None;
            }
            (Err(fault), FoundCatalog::Usable(_)) => {
                format!("the manifest was rebuilt from the catalog: {fault}")
            }
            (Err(ContentFault::Missing), FoundCatalog::Faulty(fault)) => {
                format!("the catalog was rebuilt from the segment files: {fault}")
            }
            (Err(fault), FoundCatalog::Faulty(other)) => {
                format!("the catalog was rebuilt from the segment files: {fault}; catalog: {other}")
            }
            (Err(fault), _) => {
                format!("the manifest was rebuilt from the segment files: {fault}")
            }
        };
        Some(warning)
    }
}

/// Makes room for a new catalog. What is in the way is kept as `catalog.aside`, `catalog.aside-2`, ...
fn set_aside(backend: &dyn Backend, path: &Path, warnings: &mut Vec<String>) -> Result<()> {
    let catalog = path.join(CATALOG_NAME);
    for number in 1.. {
        let name = match number {
            1 => "catalog.aside".to_owned(),
            _ => format!("catalog.aside-{number}"),
        };
        let aside = path.join(&name);
        if backend.exists(&aside).map_err(io_error(&aside, "open"))? {
            continue;
        }
        backend
            .rename(&catalog, &aside)
            .map_err(io_error(&catalog, "rename"))?;
        warnings.push(format!("the old catalog was kept as `{name}`"));
        break;
    }
    Ok(())
}

pub(super) fn later_version(path: &Path, name: &str, found: u8, supported: u8) -> Error {
    Error::Version {
        path: path.join(name),
        found: found.into(),
        supported: supported.into(),
    }
}
