//! The files of the catalog's directory, looked at without sled, which does not survive damage to them.
//!
//! Invariant: sled only opens files that are byte for byte as it left them when it was closed last. `CLOSED` has their
//! checksums: it is written after sled let go of them, and removed before sled opens them. A directory without it is
//! that of a process that was killed, or of an older release. Such files are opened only if nothing else records what they
//! hold, and only if they have the form of sled's.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use crate::backend::Backend;
use crate::catalog::fault::ContentFault;
use crate::path_text::PathText;

/// sled's unit of allocation, and so the size of a small catalog. 4 KiB would send full nodes to files of their own.
pub(super) const SLED_SEGMENT_SIZE: usize = 8 << 10;

/// The name of the mark of a clean close.
const CLOSED_NAME: &str = "CLOSED";

/// The name that it has while it is written.
const TEMPORARY_NAME: &str = "CLOSED.tmp";

/// Starts the mark; the last byte is its version.
const MAGIC: &[u8; 8] = b"ZIPFCLS\x01";

/// What sled 0.34 writes to `conf`, before the checksum.
const CONFIGURATION: &str = "segment_size: 8192\nuse_compression: false\nversion: 0.34\n";

/// sled's directory for large values, of which the catalog has none.
const BLOBS_NAME: &str = "blobs";

/// Bytes of the header of one of sled's segments.
const SEGMENT_HEADER_SIZE: usize = 20;

/// The content of the directory of a catalog.
#[derive(Debug)]
pub(crate) enum Files {
    /// Nothing.
    Missing,
    /// A catalog that was closed with this sequence number, and is unchanged.
    Closed(u64),
    /// A catalog that was not closed.
    Open,
    /// A catalog that was closed and changed since.
    Damaged(String),
}

impl Files {
    /// Looks at the directory `path`.
    pub(crate) fn read(backend: &dyn Backend, path: &Path) -> Result<Files, ContentFault> {
        let names = match backend.list(path) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Files::Missing),
            Err(error) => return Err(ContentFault::Io(error)),
        };
        let names = names_of_files(names);
        if names.is_empty() {
            return Ok(Files::Missing);
        }
        let mark = match backend.read(&path.join(CLOSED_NAME)) {
            Ok(mark) => mark,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Files::Open),
            Err(error) => return Err(ContentFault::Io(error)),
        };
        let damaged = |name: &str, what: &str| Ok(Files::Damaged(format!("{name}: {what}")));
        let Some((content, crc)) = mark.split_last_chunk::<4>() else {
            return damaged(CLOSED_NAME, "it is too short");
        };
        if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
            return damaged(CLOSED_NAME, "it has a wrong checksum");
        }
        if content
            .first_chunk::<8>()
            .is_some_and(|magic| magic[..7] == MAGIC[..7] && magic[7] != MAGIC[7])
        {
            return Err(ContentFault::Version(content[7]));
        }
        let Some((sequence, sums)) = decode(content) else {
            return damaged(CLOSED_NAME, "it makes no sense");
        };
        for (name, size, crc) in &sums {
            match backend.read(&path.join(name)) {
                Ok(bytes) if bytes.len() as u64 != *size => {
                    return damaged(name, "it has another size than when it was closed");
                }
                Ok(bytes) if crc32fast::hash(&bytes) != *crc => {
                    return damaged(name, "it is not as it was closed");
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return damaged(name, "it is missing");
                }
                Err(error) => return Err(ContentFault::Io(error)),
            }
        }
        let known: BTreeSet<&str> = sums.iter().map(|(name, ..)| name.as_str()).collect();
        let is_strange = |name: &&OsString| name.to_str().is_none_or(|name| !known.contains(name));
        match names.iter().find(is_strange) {
            Some(name) => {
                let name = PathText(Path::new(name)).to_string();
                damaged(&name, "it is not a file of the catalog")
            }
            None => Ok(Files::Closed(sequence)),
        }
    }
}

/// Writes the mark for the files as they are, and makes all of them durable. No process may have them
/// open.
pub(super) fn mark_closed(backend: &dyn Backend, path: &Path, sequence: u64) -> io::Result<()> {
    let mut content = MAGIC.to_vec();
    content.extend(sequence.to_le_bytes());
    let names = names_of_files(backend.list(path)?);
    content.extend((names.len() as u64).to_le_bytes());
    for name in &names {
        let file = path.join(name);
        let name = name.to_str().filter(|name| name.len() < 256);
        let name = name.ok_or_else(|| io::Error::other("a file has a strange name"))?;
        backend.sync_file(&file)?;
        let bytes = backend.read(&file)?;
        content.push(name.len() as u8); // below 256
        content.extend(name.as_bytes());
        content.extend((bytes.len() as u64).to_le_bytes());
        content.extend(crc32fast::hash(&bytes).to_le_bytes());
    }
    content.extend(crc32fast::hash(&content).to_le_bytes());
    let temporary = path.join(TEMPORARY_NAME);
    let mut file = backend.create(&temporary)?;
    file.write_all(&content)?;
    file.sync()?;
    drop(file);
    backend.rename(&temporary, &path.join(CLOSED_NAME))?;
    backend.sync_directory(path)
}

/// Removes the mark, for good.
pub(super) fn mark_open(backend: &dyn Backend, path: &Path) -> io::Result<()> {
    let mut removed = false;
    for name in [CLOSED_NAME, TEMPORARY_NAME] {
        match backend.remove(&path.join(name)) {
            Ok(()) => removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    if removed {
        backend.sync_directory(path)
    } else {
        Ok(())
    }
}

/// Refuses files that sled would panic at: another configuration, a `db` without a segment, segments with damaged
/// headers or with one number.
pub(super) fn check_form(backend: &dyn Backend, path: &Path) -> Result<(), ContentFault> {
    let damaged = |what: &str| Err(ContentFault::Damaged(what.to_owned()));
    let read = |name: &str| match backend.read(&path.join(name)) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(ContentFault::Damaged(format!("{name}: it is missing")))
        }
        Err(error) => Err(ContentFault::Io(error)),
    };
    let mut configuration = CONFIGURATION.as_bytes().to_vec();
    configuration.extend(crc32fast::hash(&configuration).to_le_bytes());
    if *read("conf")? != configuration[..] {
        return damaged("conf: it is not the configuration of a catalog");
    }
    let db = read("db")?;
    let mut numbers = BTreeSet::new();
    for segment in db.chunks(SLED_SEGMENT_SIZE) {
        let Some(header) = segment.first_chunk::<SEGMENT_HEADER_SIZE>() else {
            return damaged("db: it ends within the header of a segment");
        };
        // Not written yet, or free when sled was started last.
        if header.iter().all(|byte| *byte == 0) {
            continue;
        }
        let (crc, content) = header.split_first_chunk::<4>().expect("it is longer");
        if u32::from_le_bytes(*crc) != !crc32fast::hash(content) {
            return damaged("db: the header of a segment has a wrong checksum");
        }
        let number = content.first_chunk::<8>().expect("it is longer");
        let number = i64::from_le_bytes(*number) ^ i64::MAX;
        if number < 0 || number % SLED_SEGMENT_SIZE as i64 != 0 || !numbers.insert(number) {
            return damaged("db: a segment has a number that cannot be");
        }
    }
    if numbers.is_empty() {
        damaged("db: it is empty")
    } else {
        Ok(())
    }
}

/// All names but those of the mark and of sled's empty directory.
fn names_of_files(names: Vec<OsString>) -> Vec<OsString> {
    let others = [CLOSED_NAME, TEMPORARY_NAME, BLOBS_NAME];
    let is_file = |name: &OsString| others.iter().all(|other| name != other);
    names.into_iter().filter(is_file).collect()
}

type FileSum = (String, u64, u32);

fn decode(content: &[u8]) -> Option<(u64, Vec<FileSum>)> {
    let mut rest = content.strip_prefix(MAGIC)?;
    let sequence = u64::from_le_bytes(take(&mut rest)?);
    let mut sums = Vec::new();
    for _ in 0..u64::from_le_bytes(take(&mut rest)?) {
        let [size] = take(&mut rest)?;
        let (name, behind) = rest.split_at_checked(usize::from(size))?;
        rest = behind;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        let size = u64::from_le_bytes(take(&mut rest)?);
        sums.push((name, size, u32::from_le_bytes(take(&mut rest)?)));
    }
    rest.is_empty().then_some((sequence, sums))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}
