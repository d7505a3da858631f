//! The content of the `segments` directory of a database: names, markers, listing.
//!
//! | name | is |
//! |---|---|
//! | `00000007.seg` | segment 7, complete and synced |
//! | `00000007.seg.tmp` | a segment being written; worthless after a crash |
//! | `00000007.NAME.idx` | index NAME of segment 7, complete and synced |
//! | `00000007.NAME.idx.tmp` | an index being written; worthless after a crash |
//! | `00000005.corpus` | marker: corpus 5 exists, even if it has no segment |
//! | `00000005.dropped` | tombstone: the marker of a corpus that was dropped, until its segments are gone |
//! | `*.aside` | set aside by a rebuild for a human to look at; never touched again |
//!
//! Invariant: a name without `.tmp` is only ever given to a file whose content is synced. Numbers come from one
//! counter and are never used twice while a file or the catalog still shows them. Files of other names are
//! ignored.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::backend::Backend;
use crate::catalog::CorpusRecord;
use crate::error::io_error;
use crate::indexes::check_name;
use crate::settings::ID_MAX;
use crate::{Error, Result};

/// The name of the directory of segments in that of the database.
pub(super) const SEGMENTS_NAME: &str = "segments";

/// Starts a marker; the last byte is its version.
const MARKER_MAGIC: &[u8; 8] = b"ZIPFCOR\x01";

/// Appended to the name of a file that is being written.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// Ends the name of an index file.
const INDEX_SUFFIX: &str = ".idx";

/// Appended to the name of a file that a rebuild could not place.
const ASIDE_SUFFIX: &str = ".aside";

/// What a file is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Segment,
    Marker,
    Tombstone,
    Temporary,
    Aside,
}

const EXTENSIONS: [(&str, Kind); 6] = [
    (".seg", Kind::Segment),
    (".corpus", Kind::Marker),
    (".dropped", Kind::Tombstone),
    (".seg.tmp", Kind::Temporary),
    (".corpus.tmp", Kind::Temporary),
    (".seg.aside", Kind::Aside),
];

/// The files of a `segments` directory by kind, as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Complete segments, live or not.
    pub(crate) segments: BTreeSet<u64>,
    /// Corpora that have a marker.
    pub(crate) markers: BTreeSet<u64>,
    /// Corpora that were dropped.
    pub(crate) tombstones: BTreeSet<u64>,
    /// Names of files that were being written.
    pub(crate) temporary: BTreeSet<String>,
    /// Complete index files, needed or not: number of the segment, name of the index in lower case.
    pub(crate) indexes: BTreeSet<(u64, String)>,
    /// The largest number in any name.
    pub(crate) largest: u64,
}

impl Listing {
    /// Whether one of these segments has not got its name yet.
    pub(crate) fn is_unfinished(&self, ids: &[u64]) -> bool {
        ids.iter().any(|id| self.temporary_segment(*id).is_some())
    }

    /// The name that segment `id` has while it is written, if there is such a file.
    pub(crate) fn temporary_segment(&self, id: u64) -> Option<&String> {
        self.temporary
            .get(&format!("{id:08}.seg{TEMPORARY_SUFFIX}"))
    }
}

/// The `segments` directory of one database.
#[derive(Clone, Debug)]
pub(crate) struct SegmentDirectory {
    path: PathBuf,
}

/// The content of a corpus' marker.
pub(super) fn marker_bytes(record: &CorpusRecord) -> Vec<u8> {
    let mut bytes = MARKER_MAGIC.to_vec();
    record.encode_identity(&mut bytes);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

impl SegmentDirectory {
    pub(crate) fn new(path: PathBuf) -> SegmentDirectory {
        SegmentDirectory { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn segment(&self, id: u64) -> PathBuf {
        self.path.join(format!("{id:08}.seg"))
    }

    /// The file of an index of a segment.
    pub(crate) fn index(&self, segment: u64, name: &str) -> PathBuf {
        let name = name.to_ascii_lowercase();
        self.path.join(format!("{segment:08}.{name}{INDEX_SUFFIX}"))
    }

    pub(crate) fn marker(&self, id: u64) -> PathBuf {
        self.path.join(format!("{id:08}.corpus"))
    }

    pub(crate) fn tombstone(&self, id: u64) -> PathBuf {
        self.path.join(format!("{id:08}.dropped"))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Lists the directory.
    pub(crate) fn list(&self, backend: &dyn Backend) -> Result<Listing> {
        let names = (backend.list(&self.path)).map_err(io_error(&self.path, "list"))?;
        let mut listing = Listing::default();
        for name in &names {
            let Some((id, kind)) = parse(name) else {
                if let Some((segment, index, is_complete)) = parse_index(name) {
                    listing.largest = listing.largest.max(segment);
                    if is_complete {
                        listing.indexes.insert((segment, index.to_owned()))
                    } else {
                        (listing.temporary).insert(name.to_string_lossy().into_owned())
                    };
                }
                continue;
            };
            listing.largest = listing.largest.max(id);
            match kind {
                Kind::Segment => listing.segments.insert(id),
                Kind::Marker => listing.markers.insert(id),
                Kind::Tombstone => listing.tombstones.insert(id),
                Kind::Temporary => listing
                    .temporary
                    .insert(name.to_string_lossy().into_owned()),
                Kind::Aside => false,
            };
        }
        Ok(listing)
    }

    /// Lists the directory while others may change it, until two listings agree: one alone may miss a file that is
    /// being renamed and yet show one that came later.
    pub(crate) fn list_at_rest(&self, backend: &dyn Backend) -> Result<Listing> {
        let mut last = self.list(backend)?;
        for _ in 0..100 {
            let listing = self.list(backend)?;
            if listing == last {
                break;
            }
            last = listing;
        }
        Ok(last)
    }

    /// Reads the marker or tombstone of corpus `id`.
    pub(crate) fn read_marker(
        &self,
        backend: &dyn Backend,
        path: &Path,
        id: u64,
    ) -> Result<CorpusRecord> {
        let bytes = backend.read(path).map_err(io_error(path, "read"))?;
        let corrupt = |fault| Error::Corrupt {
            path: path.to_path_buf(),
            part: "corpus marker",
            fault,
        };
        let (content, crc) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| corrupt("it is too short"))?;
        let (expected, found) = (u32::from_le_bytes(*crc), crc32fast::hash(content));
        if found != expected {
            return Err(Error::Checksum {
                path: path.to_path_buf(),
                part: "corpus marker",
                offset: 0,
                expected,
                found,
            });
        }
        let (magic, identity) = content
            .split_first_chunk::<8>()
            .ok_or_else(|| corrupt("it is too short"))?;
        if magic[..7] != MARKER_MAGIC[..7] {
            return Err(corrupt("it does not begin like one"));
        }
        if magic[7] != MARKER_MAGIC[7] {
            return Err(Error::Version {
                path: path.to_path_buf(),
                found: magic[7].into(),
                supported: MARKER_MAGIC[7].into(),
            });
        }
        CorpusRecord::decode(identity)
            .filter(|record| record.segments.is_empty() && record.id == id)
            .ok_or_else(|| corrupt("its record is not of this corpus"))
    }

    /// Writes and syncs the marker of a corpus under a temporary name. An error leaves nothing.
    pub(crate) fn write_marker(&self, backend: &dyn Backend, record: &CorpusRecord) -> Result<()> {
        let bytes = marker_bytes(record);
        let path = temporary(&self.marker(record.id));
        let _ = backend.remove(&path); // left by a crash
        let written = write_new(backend, &path, &bytes).map_err(io_error(&path, "write"));
        if written.is_err() {
            let _ = backend.remove(&path);
        }
        written
    }

    /// Gives a marker that was written its name. Durable once the directory is synced.
    pub(crate) fn place_marker(&self, backend: &dyn Backend, id: u64) -> Result<()> {
        let path = self.marker(id);
        backend
            .rename(&temporary(&path), &path)
            .map_err(io_error(&path, "rename"))
    }

    /// Gives a segment that was written its name. Durable once the directory is synced.
    pub(crate) fn place_segment(&self, backend: &dyn Backend, id: u64) -> Result<()> {
        let path = self.segment(id);
        backend
            .rename(&temporary(&path), &path)
            .map_err(io_error(&path, "rename"))
    }

    /// Makes all names durable.
    pub(crate) fn sync(&self, backend: &dyn Backend) -> Result<()> {
        backend
            .sync_directory(&self.path)
            .map_err(io_error(&self.path, "sync"))
    }

    /// Takes a segment file that a rebuild could not place out of the way.
    pub(crate) fn set_aside(&self, backend: &dyn Backend, id: u64) -> Result<()> {
        let path = self.segment(id);
        backend
            .rename(&path, &with_suffix(&path, ASIDE_SUFFIX))
            .map_err(io_error(&path, "rename"))
    }
}

/// The error for a path without a database.
pub(crate) fn no_database(path: &Path) -> Error {
    Error::NoDatabase {
        path: path.to_path_buf(),
    }
}

/// The error for a database whose directory of segments is gone.
pub(crate) fn without_segments(database: &Path) -> Error {
    Error::Corrupt {
        path: database.to_path_buf(),
        part: "database directory",
        fault: "its `segments` directory is missing",
    }
}

/// The path that `path` has while it is written.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    with_suffix(path, TEMPORARY_SUFFIX)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn write_new(backend: &dyn Backend, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = backend.create(path)?;
    file.write_all(bytes)?;
    file.sync()
}

/// Number and kind of a name of ours. Only the exact form that we write counts.
fn parse(name: &OsStr) -> Option<(u64, Kind)> {
    let name = name.to_str()?;
    let (digits, extension) = name.split_at(name.find('.')?);
    let (_, kind) = EXTENSIONS.iter().find(|(known, _)| *known == extension)?;
    let id = digits.parse::<u64>().ok()?;
    (format!("{id:08}") == digits && id <= ID_MAX).then_some((id, *kind))
}

/// Segment and name of an index file of ours, and whether it is complete.
fn parse_index(name: &OsStr) -> Option<(u64, &str, bool)> {
    let name = name.to_str()?;
    let (digits, rest) = name.split_once('.')?;
    let (rest, is_complete) = match rest.strip_suffix(TEMPORARY_SUFFIX) {
        Some(rest) => (rest, false),
        None => (rest, true),
    };
    let index = rest.strip_suffix(INDEX_SUFFIX)?;
    let id = digits.parse::<u64>().ok()?;
    let is_ours = format!("{id:08}") == digits
        && id <= ID_MAX
        && check_name(index).is_ok()
        && index.to_ascii_lowercase() == index;
    is_ours.then_some((id, index, is_complete))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::CorpusSettings;
    use crate::LogPosition;
    use crate::backend::MemoryBackend;

    fn directory(backend: &MemoryBackend) -> SegmentDirectory {
        let path = PathBuf::from("segments");
        backend.create_directory(&path).unwrap();
        SegmentDirectory::new(path)
    }

    fn record() -> CorpusRecord {
        CorpusRecord {
            id: 12,
            name: "reviews".to_owned(),
            settings: CorpusSettings::default(),
            merged_position: LogPosition::START,
            segments: Vec::new(),
        }
    }

    #[test]
    fn names_are_distinguished_and_strange_ones_ignored() {
        let backend = MemoryBackend::new();
        let directory = directory(&backend);
        for name in [
            "00000007.seg",
            "123456789.seg",
            "00000008.seg.tmp",
            "00000005.corpus",
            "00000006.dropped",
            "200000000.seg.aside",
            "7.seg",
            "+0000007.seg",
            "00000007.SEG",
            "00000007",
            "99999999999999999999999.seg",
            "00000007.by_word.idx",
            "00000300.by_word.idx.tmp",
            "00000007.By_Word.idx",
            "00000007.a.b.idx",
            "7.by_word.idx",
            "notes.txt",
        ] {
            backend.create(&directory.file(name)).unwrap();
        }
        let listing = directory.list(&backend).unwrap();
        assert_eq!(listing.segments, BTreeSet::from([7, 123_456_789]));
        assert_eq!(listing.markers, BTreeSet::from([5]));
        assert_eq!(listing.tombstones, BTreeSet::from([6]));
        assert_eq!(
            listing.temporary,
            BTreeSet::from(["00000008.seg.tmp", "00000300.by_word.idx.tmp"].map(str::to_owned))
        );
        assert_eq!(listing.indexes, BTreeSet::from([(7, "by_word".to_owned())]));
        assert_eq!(listing.largest, 200_000_000);
    }

    #[test]
    fn a_marker_comes_back_and_every_flipped_or_missing_byte_is_found() {
        let backend = MemoryBackend::new();
        let directory = directory(&backend);
        directory.write_marker(&backend, &record()).unwrap();
        directory.place_marker(&backend, 12).unwrap();
        let path = directory.marker(12);
        assert_eq!(
            directory.read_marker(&backend, &path, 12).unwrap(),
            record()
        );

        let bytes = backend.read(&path).unwrap().to_vec();
        let broken = directory.file("broken");
        let check = |content: &[u8]| {
            write_new(&backend, &broken, content).unwrap();
            directory.read_marker(&backend, &broken, 12).unwrap_err();
            backend.remove(&broken).unwrap();
        };
        for at in 0..bytes.len() {
            check(&bytes[..at]);
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            check(&flipped);
        }
    }
}
