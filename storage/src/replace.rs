//! Small files of a database directory that are replaced as a whole.
//!
//! Invariant: the file has the content before or the new one, whenever a crash comes. What the content means is not known here.

use std::io::{self, Write};
use std::path::Path;

use crate::backend::Backend;
use crate::error::io_error;
use crate::{Error, Result};

/// A small file of records: its magic, whose last byte is its version, the records, and a CRC32 of all of that.
pub(crate) struct RecordFile {
    /// The name in a database directory.
    pub(crate) name: &'static str,
    /// That of the version that is written; all before it can be read.
    pub(crate) magic: &'static [u8; 8],
    /// What it is called in errors.
    pub(crate) part: &'static str,
}

impl RecordFile {
    /// What `decode` makes of the version and the records of the database in the directory `database`; nothing without the file.
    pub(crate) fn read<T: Default>(
        &self,
        backend: &dyn Backend,
        database: &Path,
        decode: impl FnOnce(u8, &[u8]) -> Option<T>,
    ) -> Result<T> {
        let path = database.join(self.name);
        let corrupt = |fault| Error::Corrupt {
            path: path.clone(),
            part: self.part,
            fault,
        };
        let bytes = match backend.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(io_error(&path, "read")(error)),
        };
        let (content, crc) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| corrupt("it is too short"))?;
        if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
            return Err(corrupt("it has a wrong checksum"));
        }
        let [name @ .., newest] = self.magic;
        let (version, records) = content
            .strip_prefix(name)
            .and_then(<[u8]>::split_first)
            .filter(|(version, _)| (1..=*newest).contains(*version))
            .ok_or_else(|| corrupt("it does not begin like one of this version"))?;
        decode(*version, records).ok_or_else(|| corrupt("it makes no sense"))
    }

    /// Replaces the records. Durable when it returns; an error leaves those before or these.
    pub(crate) fn write(
        &self,
        backend: &dyn Backend,
        database: &Path,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        let mut bytes = self.magic.to_vec();
        encode(&mut bytes);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        replace_file(backend, database, self.name, &bytes)
    }
}

/// Replaces a small file of a database directory as a whole. Durable when it returns; an error leaves the content before or
/// this one.
pub(crate) fn replace_file(
    backend: &dyn Backend,
    database: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<()> {
    let source = database.join(format!("{name}.tmp"));
    let target = database.join(name);
    let _ = backend.remove(&source); // left by a crash
    if let Err(error) = write_file(backend, &source, bytes) {
        let _ = backend.remove(&source);
        return Err(io_error(&source, "write")(error));
    }
    backend
        .rename(&source, &target)
        .map_err(io_error(&target, "replace"))?;
    backend
        .sync_directory(database)
        .map_err(io_error(database, "sync"))
}

fn write_file(backend: &dyn Backend, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = backend.create(path)?;
    file.write_all(bytes)?;
    file.sync()
}
