//! ZipfDB databases on object stores: S3, Google Cloud Storage, Azure Blob Storage, or a folder.
//!
//! [`RemoteStore::push`] publishes a local database as the next version, [`RemoteStore::open`] answers queries on a version
//! where it lies, fetching by range what they need, [`RemoteStore::pull`] copies one to a local directory, and
//! [`RemoteStore::collect`] removes old versions, and objects that no version names.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zipfdb::Database;
//! use zipfdb_remote::{CacheOptions, RemoteStore};
//!
//! let folder = std::env::temp_dir().join(format!("zipfdb-remote-{}", std::process::id()));
//! std::fs::create_dir(&folder)?;
//! let local = folder.join("library.zdb");
//! let database = Database::open(&local)?;
//! database.execute_batch("CREATE CORPUS books; INSERT INTO books (file, content) VALUES ('a', 'call me Ishmael')")?;
//! drop(database);
//!
//! let store = RemoteStore::new(&format!("file://{}/remote.zdb", folder.display()))?;
//! assert_eq!(store.push(&local, false)?.version, 1);
//! let remote = store.open(None, Database::options(), &CacheOptions::default())?;
//! let counted = remote.query("SELECT COUNT(*) FROM books WHERE word = 'Ishmael'", ())?.collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(counted[0].values()[0], zipfdb::Value::Integer(1));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! The invariant: a reader sees whole versions only, each exactly as it was published. What lies where, and why a collection
//! removes nothing that is needed, is in `FORMAT.md`.
#![forbid(unsafe_code)]

mod backend;
mod blocks;
mod cache;
mod collect;
mod error;
mod import;
mod open;
mod origin;
mod publish;
mod store;
mod version;

pub use cache::CacheOptions;
pub use collect::Collected;
pub use error::{Error, Result};
pub use import::{Import, ImportPart, ImportPlace, ImportedPart, PartMeans};
pub use publish::Pushed;
pub use store::{RemoteStore, Traffic};
pub use version::PublishedVersion;
