//! The index file: a derived structure of one segment, in sections.
//!
//! Invariant: a file is of one segment and one index, and says so; no byte of a section is given before its checksum is verified,
//! that of the section or, for a part of it, one that the caller has from a verified section. An index can be built again from
//! its segment, so queries go on without a damaged one. What sections hold is not known here. Bytes: `storage/FORMAT.md`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backend::{Backend, BackendFile, BackendReader, Bytes};
use crate::catalog::record::take;
use crate::error::io_error;
use crate::indexes::{IndexRecord, RECORD_VERSION};
use crate::{Error, Result};

/// The first bytes of an index file, and the last.
const MAGIC: [u8; 8] = *b"\x89ZDBIDX\n";

/// The version that this build writes; it reads those before, too. Since the third, lists of postings are packed.
const VERSION: u32 = 3;

/// Magic and version.
const HEAD_SIZE: u64 = 12;

/// Size of the footer, its CRC32, magic.
const TAIL_SIZE: u64 = 16;

/// Sections at most.
const SECTIONS_MAX: usize = 64;

/// The header of an index file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexHeader {
    /// The index.
    pub record: IndexRecord,
    /// Number and [`fingerprint`](crate::SegmentReader::fingerprint) of the segment.
    pub segment: (u64, u32),
    /// Nanoseconds that building it took.
    pub build_time: u64,
}

/// Where a section is and what its checksum should be.
#[derive(Clone, Copy, Debug)]
struct SectionExtent {
    start: u64,
    size: u64,
    crc32: u32,
}

/// An index file that is being written, section by section: what is written to it belongs to the section that was begun last.
pub struct IndexWriter {
    path: PathBuf,
    file: Box<dyn BackendFile>,
    /// Checksum of the section that is being written.
    hasher: crc32fast::Hasher,
    size: u64,
    sections: Vec<(u64, u32)>,
}

impl IndexWriter {
    /// Creates a file that must not exist, with one section begun.
    pub(crate) fn create(backend: &dyn Backend, path: &Path) -> Result<IndexWriter> {
        let file = backend.create(path).map_err(io_error(path, "create"))?;
        IndexWriter::new(file, path)
    }

    /// Takes an empty file; `path` is for messages.
    pub(crate) fn new(mut file: Box<dyn BackendFile>, path: &Path) -> Result<IndexWriter> {
        let head = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        file.write_all(&head).map_err(io_error(path, "write"))?;
        Ok(IndexWriter {
            path: path.to_owned(),
            file,
            hasher: crc32fast::Hasher::new(),
            size: 0,
            sections: Vec::new(),
        })
    }

    /// Appends to the section that was begun last.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        let written = self.file.write_all(bytes);
        written.map_err(io_error(&self.path, "write"))
    }

    /// Ends a section; what follows belongs to the next one.
    pub fn end_section(&mut self) {
        let hasher = std::mem::replace(&mut self.hasher, crc32fast::Hasher::new());
        self.sections.push((self.size, hasher.finalize()));
        self.size = 0;
    }

    /// Writes the footer and syncs the file, not its directory.
    pub(crate) fn finish(mut self, header: &IndexHeader) -> Result<()> {
        if self.size > 0 {
            self.end_section();
        }
        let mut footer = Vec::new();
        header.record.encode(&mut footer);
        footer.extend(header.segment.0.to_le_bytes());
        footer.extend(header.segment.1.to_le_bytes());
        footer.extend(header.build_time.to_le_bytes());
        for (size, crc32) in &self.sections {
            footer.extend(size.to_le_bytes());
            footer.extend(crc32.to_le_bytes());
        }
        let (size, crc32) = (footer.len() as u32, footer_crc(VERSION, &footer)); // a few hundred bytes
        footer.extend(size.to_le_bytes());
        footer.extend(crc32.to_le_bytes());
        footer.extend(MAGIC);
        let written = (self.file.write_all(&footer)).and_then(|()| self.file.sync());
        written.map_err(io_error(&self.path, "write"))
    }
}

/// An open index file. It stays open, so it can be read after it was removed.
#[derive(Debug)]
pub struct IndexReader {
    path: PathBuf,
    file: Arc<dyn BackendReader>,
    version: u32,
    header: IndexHeader,
    sections: Vec<SectionExtent>,
}

impl IndexReader {
    /// Opens a file: checks what it says of itself, reads no section.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::Version`], [`Error::Checksum`] or [`Error::Corrupt`] if it is not an index file
    /// of this version.
    pub fn open(backend: &dyn Backend, path: &Path) -> Result<IndexReader> {
        let file = backend.open(path).map_err(io_error(path, "open"))?;
        IndexReader::of(file, path)
    }

    /// As [`IndexReader::open`], of a file that is open; `path` is for messages.
    pub(crate) fn of(file: Arc<dyn BackendReader>, path: &Path) -> Result<IndexReader> {
        let corrupt = |fault| Error::Corrupt {
            path: path.to_owned(),
            part: "footer",
            fault,
        };
        let cut_off = || corrupt("it is cut off or not an index file");
        let read = |start, size| file.read_at(start, size).map_err(io_error(path, "read"));
        let size = file.size();
        if size < HEAD_SIZE + TAIL_SIZE {
            return Err(cut_off());
        }
        let head = read(0, HEAD_SIZE)?;
        let (magic, version) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(cut_off());
        }
        let version = take(&mut &version[..]).map(u32::from_le_bytes);
        let version = version.ok_or_else(cut_off)?;
        if !(1..=VERSION).contains(&version) {
            return Err(Error::Version {
                path: path.to_owned(),
                found: version,
                supported: VERSION,
            });
        }
        let tail = read(size - TAIL_SIZE, TAIL_SIZE)?;
        let mut rest = &tail[..];
        let footer_size = take(&mut rest).map(u32::from_le_bytes);
        let expected = take(&mut rest).map(u32::from_le_bytes);
        let (Some(footer_size), Some(expected), true) = (footer_size, expected, rest == MAGIC)
        else {
            return Err(cut_off());
        };
        let footer_start = (size - TAIL_SIZE).checked_sub(u64::from(footer_size));
        let footer_start = footer_start.filter(|&start| start >= HEAD_SIZE);
        let footer_start = footer_start.ok_or_else(cut_off)?;
        let footer = read(footer_start, u64::from(footer_size))?;
        let found = footer_crc(version, &footer);
        if found != expected {
            return Err(Error::Checksum {
                path: path.to_owned(),
                part: "footer",
                offset: footer_start,
                expected,
                found,
            });
        }
        // Records have not changed since their newest version.
        let of_record = version.min(RECORD_VERSION.into()) as u8;
        let decoded = decode_footer(of_record, &footer, footer_start);
        let (header, sections) = decoded.ok_or_else(|| corrupt("it makes no sense"))?;
        Ok(IndexReader {
            path: path.to_owned(),
            file,
            version,
            header,
            sections,
        })
    }

    /// The header of the file.
    pub fn header(&self) -> &IndexHeader {
        &self.header
    }

    /// Whether lists of postings are packed.
    pub fn has_packed_lists(&self) -> bool {
        self.version >= 3
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.file.size()
    }

    /// Bytes of a section; 0 if there is none.
    pub fn section_size(&self, section: usize) -> u64 {
        self.sections.get(section).map_or(0, |extent| extent.size)
    }

    /// A whole section, verified.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Checksum`], and [`Error::Corrupt`] if there is none.
    pub fn section(&self, section: usize) -> Result<Bytes> {
        let SectionExtent { start, size, crc32 } = self.extent(section)?;
        let bytes = self.unverified(section, 0, size)?;
        self.check(&bytes, start, crc32)?;
        Ok(bytes)
    }

    /// A part of a section, which must have this checksum.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Checksum`], and [`Error::Corrupt`] if the section has no such part.
    pub fn part(&self, section: usize, start: u64, size: u64, crc32: u32) -> Result<Bytes> {
        let bytes = self.unverified(section, start, size)?;
        self.check(&bytes, self.extent(section)?.start + start, crc32)?;
        Ok(bytes)
    }

    /// A part of a section whose content has checksums of its own.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::Corrupt`] if the section has no such part.
    pub fn unverified(&self, section: usize, start: u64, size: u64) -> Result<Bytes> {
        let extent = self.extent(section)?;
        let end = start.checked_add(size);
        if end.is_none_or(|end| end > extent.size) {
            return Err(self.corrupt("a part is not within its section"));
        }
        let bytes = self.file.read_at(extent.start + start, size);
        bytes.map_err(io_error(&self.path, "read"))
    }

    /// Reads all sections, and keeps none.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Checksum`].
    pub fn verify(&self) -> Result<()> {
        (0..self.sections.len()).try_for_each(|section| self.section(section).map(drop))
    }

    /// That a section makes no sense.
    pub fn corrupt(&self, fault: &'static str) -> Error {
        Error::Corrupt {
            path: self.path.clone(),
            part: "index",
            fault,
        }
    }

    fn extent(&self, section: usize) -> Result<SectionExtent> {
        let extent = self.sections.get(section).copied();
        extent.ok_or_else(|| self.corrupt("it has too few sections"))
    }

    /// That bytes which lie at `offset` of the file have this checksum.
    fn check(&self, bytes: &[u8], offset: u64, expected: u32) -> Result<()> {
        let found = crc32fast::hash(bytes);
        if found == expected {
            Ok(())
        } else {
            Err(Error::Checksum {
                path: self.path.clone(),
                part: "index",
                offset,
                expected,
                found,
            })
        }
    }
}

/// The checksum of a footer: since the third version with the version, which would pass for another one if a bit of it flips.
fn footer_crc(version: u32, footer: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    if version >= 3 {
        hasher.update(&version.to_le_bytes());
    }
    hasher.update(footer);
    hasher.finalize()
}

/// Header and sections, which must end where the footer starts.
fn decode_footer(
    version: u8,
    mut rest: &[u8],
    footer_start: u64,
) -> Option<(IndexHeader, Vec<SectionExtent>)> {
    let header = IndexHeader {
        record: IndexRecord::decode(version, &mut rest)?,
        segment: (
            u64::from_le_bytes(take(&mut rest)?),
            u32::from_le_bytes(take(&mut rest)?),
        ),
        build_time: u64::from_le_bytes(take(&mut rest)?),
    };
    let (mut sections, mut start) = (Vec::new(), HEAD_SIZE);
    while !rest.is_empty() {
        let size = u64::from_le_bytes(take(&mut rest)?);
        let crc32 = u32::from_le_bytes(take(&mut rest)?);
        sections.push(SectionExtent { start, size, crc32 });
        start = start.checked_add(size)?;
    }
    let is_whole = start == footer_start && sections.len() <= SECTIONS_MAX;
    is_whole.then_some((header, sections))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::backend::MemoryBackend;
    use crate::indexes::IndexKind;

    fn header() -> IndexHeader {
        IndexHeader {
            record: IndexRecord {
                name: "by_word".to_owned(),
                corpus: 3,
                kind: IndexKind::Postings,
                codec: 2,
                unit: 0,
                is_reordered: true,
            },
            segment: (7, 0xabcd_ef01),
            build_time: 12_345,
        }
    }

    fn write(backend: &MemoryBackend, path: &Path) {
        let mut writer = IndexWriter::create(backend, path).unwrap();
        writer.write(b"first").unwrap();
        writer.end_section();
        writer.end_section();
        writer.write(b"third ").unwrap();
        writer.write(b"section").unwrap();
        writer.finish(&header()).unwrap();
    }

    #[test]
    fn sections_are_read_back_whole_and_in_parts() {
        let (backend, path) = (MemoryBackend::new(), Path::new("a.idx"));
        write(&backend, path);
        let reader = IndexReader::open(&backend, path).unwrap();
        assert_eq!(reader.header(), &header());
        assert_eq!(&*reader.section(0).unwrap(), b"first");
        assert_eq!(&*reader.section(1).unwrap(), b"");
        assert_eq!(&*reader.section(2).unwrap(), b"third section");
        assert!(reader.section(3).is_err());
        let crc32 = crc32fast::hash(b"sect");
        assert_eq!(&*reader.part(2, 6, 4, crc32).unwrap(), b"sect");
        assert!(matches!(
            reader.part(2, 5, 4, crc32),
            Err(Error::Checksum { .. })
        ));
        assert!(matches!(
            reader.part(2, 10, 4, crc32),
            Err(Error::Corrupt { .. })
        ));
        assert!(matches!(
            reader.part(2, u64::MAX, 4, crc32),
            Err(Error::Corrupt { .. })
        ));
    }

    #[test]
    fn every_cut_and_flipped_bit_is_damage() {
        let (backend, path) = (MemoryBackend::new(), Path::new("a.idx"));
        write(&backend, path);
        let bytes = backend.read(path).unwrap().to_vec();
        let mut changed: Vec<Vec<u8>> = (0..bytes.len()).map(|end| bytes[..end].to_vec()).collect();
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            changed.push(flipped);
        }
        for bytes in changed {
            backend.remove(path).unwrap();
            let mut file = backend.create(path).unwrap();
            file.write_all(&bytes).unwrap();
            file.sync().unwrap();
            let read = || -> Result<()> {
                let reader = IndexReader::open(&backend, path)?;
                (0..3).try_for_each(|section| reader.section(section).map(drop))
            };
            assert!(read().is_err());
        }
    }
}
