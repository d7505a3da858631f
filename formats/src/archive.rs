//! Archives: reads the members of tar and zip in their order, and writes tar.
//!
//! Invariant: tar is read in order and never kept; only names and extended headers are in memory, each within
//! [`HEADER_BYTES_MAX`]. Names of members are bytes, as they stand in the archive. Directories, links and devices are no members.

use std::io::{self, Read, Seek, Write};

use tar::{EntryType, Header};

use crate::compression::Compression;
use crate::error::{Damage, Failure};
use crate::format::extension;

/// A format of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArchiveKind {
    Tar,
    Zip,
}

impl ArchiveKind {
    /// The archive that the extension of a name shows, perhaps of a compressed one.
    pub(crate) fn of_name(name: &[u8]) -> Option<ArchiveKind> {
        if let Some(compression) = Compression::of_name(name) {
            let content = compression.content_name(name);
            return (content.len() < name.len() || content.ends_with(b".tar"))
                .then(|| ArchiveKind::of_name(&content))
                .flatten();
        }
        let extension = extension(name)?;
        if extension.eq_ignore_ascii_case(b"tar") {
            Some(ArchiveKind::Tar)
        } else if extension.eq_ignore_ascii_case(b"zip") {
            Some(ArchiveKind::Zip)
        } else {
            None
        }
    }

    /// The archive with this name that begins with these bytes, [`BLOCK`] of them or all. Documents of many programs are zip files
    /// too, so only the name shows an archive.
    pub(crate) fn of_file(name: &[u8], beginning: &[u8]) -> Option<ArchiveKind> {
        let is_zip = beginning.starts_with(b"PK\x03\x04") || beginning.starts_with(b"PK\x05\x06");
        let by_name = ArchiveKind::of_name(name);
        if beginning.get(257..262) == Some(b"ustar") {
            Some(ArchiveKind::Tar)
        } else {
            by_name.filter(|&kind| kind == ArchiveKind::Tar || is_zip)
        }
    }
}

/// Bytes of a block of tar.
pub(crate) const BLOCK: usize = 512;

/// Bytes of an extended header, which has names longer than a block holds.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// The comment of an archive that holds the files of a corpus: its members have their own names again.
const CORPUS_MARK: &[u8] = b"zipfdb corpus";

/// The members of a tar archive.
pub(crate) struct TarReader<R> {
    source: R,
    /// The bytes of the member at hand that were not read, and of its padding.
    rest: u64,
    padding: u64,
    /// The offset of the next byte in the archive.
    offset: u64,
    is_corpus: bool,
}

/// What extended headers say of the next member.
#[derive(Default)]
struct Extension {
    path: Option<Vec<u8>>,
    size: Option<u64>,
}

impl<R: Read> TarReader<R> {
    pub(crate) fn new(source: R) -> TarReader<R> {
        TarReader {
            source,
            rest: 0,
            padding: 0,
            offset: 0,
            is_corpus: false,
        }
    }

    /// Whether it was written as the files of a corpus; known once the first member is.
    pub(crate) fn is_corpus(&self) -> bool {
        self.is_corpus
    }

    /// The name of the next file, whose content the reader then gives; none at the end. The rest of the one before is passed over.
    pub(crate) fn next_file(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut extension = Extension::default();
        loop {
            let unread = self.rest + self.padding;
            (self.rest, self.padding) = (0, 0);
            self.pass_over(unread)?;
            let start = self.offset;
            let Some(header) = self.block()? else {
                return Ok(None);
            };
            let header = Header::from_byte_slice(&header);
            let damaged = |reason: &str| {
                Failure::from(Damage::whole(format!(
                    "damaged tar at byte {start}: {reason}"
                )))
            };
            if header.cksum().ok() != Some(checksum(header.as_bytes())) {
                return Err(damaged("the checksum of a header is wrong"));
            }
            let size = header.entry_size();
            let mut size = size.map_err(|_| damaged("the size of a member is no number"))?;
            let kind = header.entry_type();
            match kind {
                EntryType::XHeader | EntryType::XGlobalHeader | EntryType::GNULongName => {
                    if size > HEADER_BYTES_MAX {
                        return Err(damaged("a header is longer than 1 MiB"));
                    }
                    let content = self.content(size)?;
                    if kind == EntryType::GNULongName {
                        let end = content.iter().position(|&byte| byte == 0);
                        let end = end.unwrap_or(content.len());
                        extension.path = Some(content[..end].to_vec());
                        continue;
                    }
                    let records = pax_records(&content);
                    let records = records.ok_or_else(|| damaged("an extended header"))?;
                    for (key, value) in records {
                        self.extend(kind, key, value, &mut extension)
                            .ok_or_else(|| damaged("the size of a member is no number"))?;
                    }
                    continue;
                }
                EntryType::GNUSparse => {
                    return Err(damaged("it has sparse files, which cannot be read"));
                }
                _ => {}
            }
            size = extension.size.unwrap_or(size);
            let has_content = !matches!(
                kind,
                EntryType::Link
                    | EntryType::Symlink
                    | EntryType::Char
                    | EntryType::Block
                    | EntryType::Directory
                    | EntryType::Fifo
            );
            self.rest = if has_content { size } else { 0 };
            self.padding = self.rest.wrapping_neg() % BLOCK as u64;
            let Extension { path, .. } = std::mem::take(&mut extension);
            let path = path.unwrap_or_else(|| header.path_bytes().into_owned());
            let is_file = matches!(kind, EntryType::Regular | EntryType::Continuous);
            // Old archives mark directories by their names alone.
            if is_file && !path.ends_with(b"/") {
                return Ok(Some(path));
            }
        }
    }

    /// Takes a record of an extended header; none if it is damaged.
    fn extend(
        &mut self,
        kind: EntryType,
        key: &[u8],
        value: &[u8],
        extension: &mut Extension,
    ) -> Option<()> {
        match key {
            b"comment" if kind == EntryType::XGlobalHeader => {
                self.is_corpus |= value == CORPUS_MARK
            }
            b"path" if kind == EntryType::XHeader => extension.path = Some(value.to_vec()),
            b"size" if kind == EntryType::XHeader => {
                extension.size = Some(std::str::from_utf8(value).ok()?.parse().ok()?);
            }
            _ => {}
        }
        Some(())
    }

    /// The next block of a header; none at the end, which is a block of zeros or the end of the input.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Failure> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.source.read(&mut block[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.offset += filled as u64;
        if filled == 0 {
            return Ok(None);
        }
        if filled < BLOCK {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if block.iter().any(|&byte| byte != 0) {
            return Ok(Some(block));
        }
        // What is behind the end is read, so that a compressed archive is verified to its end.
        let behind = io::copy(&mut self.source, &mut io::sink())?;
        self.offset += behind;
        Ok(None)
    }

    fn content(&mut self, size: u64) -> Result<Vec<u8>, Failure> {
        let mut content = Vec::new();
        let read = (&mut self.source).take(size).read_to_end(&mut content)?;
        self.offset += read as u64;
        if (read as u64) < size {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        self.pass_over(size.wrapping_neg() % BLOCK as u64)?;
        Ok(content)
    }

    fn pass_over(&mut self, bytes: u64) -> Result<(), Failure> {
        let passed = io::copy(&mut (&mut self.source).take(bytes), &mut io::sink())?;
        self.offset += passed;
        if passed < bytes {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(())
    }
}

/// The content of the member at hand.
impl<R: Read> Read for TarReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = usize::try_from(self.rest).map_or(buffer.len(), |rest| rest.min(buffer.len()));
        if size == 0 {
            return Ok(0);
        }
        let count = self.source.read(&mut buffer[..size])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.rest -= count as u64;
        self.offset += count as u64;
        Ok(count)
    }
}

/// The sum of the bytes of a header, its checksum counted as spaces.
fn checksum(header: &[u8; BLOCK]) -> u32 {
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    sum(&header[..148]) + 8 * u32::from(b' ') + sum(&header[156..])
}

/// The keys and values of an extended header, each `LENGTH KEY=VALUE` and a line end; values may have line ends too. None if it is
/// damaged.
fn pax_records(mut content: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut records = Vec::new();
    while !content.is_empty() {
        let space = memchr::memchr(b' ', content)?;
        let length: usize = std::str::from_utf8(&content[..space]).ok()?.parse().ok()?;
        let record = content.get(space + 1..length)?.strip_suffix(b"\n")?;
        let equals = memchr::memchr(b'=', record)?;
        records.push((&record[..equals], &record[equals + 1..]));
        content = &content[length..];
    }
    Some(records)
}

/// A record of an extended header.
fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    // The length counts its own digits.
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    let mut record = format!("{length} {key}=").into_bytes();
    record.extend_from_slice(value);
    record.push(b'\n');
    record
}

/// Writes the files of a corpus as a tar archive.
#[derive(Debug)]
pub struct TarWriter<W> {
    target: W,
}

/// The longest name that a header holds without an extended one.
const NAME_BYTES_MAX: usize = 100;
/// The largest size that eleven octal digits hold, with one to spare.
const SIZE_MAX: u64 = 0o7_777_777_777;

impl<W: Write> TarWriter<W> {
    /// Begins an archive.
    ///
    /// # Errors
    /// Those of the target.
    pub fn new(target: W) -> io::Result<TarWriter<W>> {
        let mut writer = TarWriter { target };
        writer.extended(
            EntryType::XGlobalHeader,
            &pax_record("comment", CORPUS_MARK),
        )?;
        Ok(writer)
    }

    /// Writes the header of a file, whose `bytes` bytes the caller writes next.
    ///
    /// # Errors
    /// Those of the target.
    pub fn begin_file(&mut self, name: &[u8], bytes: u64) -> io::Result<()> {
        let mut records = Vec::new();
        if name.len() > NAME_BYTES_MAX {
            records.extend(pax_record("path", name));
        }
        if bytes > SIZE_MAX {
            records.extend(pax_record("size", bytes.to_string().as_bytes()));
        }
        if !records.is_empty() {
            self.extended(EntryType::XHeader, &records)?;
        }
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        self.header(EntryType::Regular, name, bytes.min(SIZE_MAX))
    }

    /// The archive, to write the bytes of the file at hand.
    pub fn target(&mut self) -> &mut W {
        &mut self.target
    }

    /// Writes what follows the `bytes` bytes of a file.
    ///
    /// # Errors
    /// Those of the target.
    pub fn end_file(&mut self, bytes: u64) -> io::Result<()> {
        let padding = bytes.wrapping_neg() % BLOCK as u64;
        self.target.write_all(&[0; BLOCK][..padding as usize]) // below a block
    }

    /// Writes the end of the archive.
    ///
    /// # Errors
    /// Those of the target.
    pub fn finish(mut self) -> io::Result<W> {
        self.target.write_all(&[0; 2 * BLOCK])?;
        Ok(self.target)
    }

    fn extended(&mut self, kind: EntryType, records: &[u8]) -> io::Result<()> {
        let size = records.len() as u64;
        self.header(kind, b"pax_header", size)?;
        self.target.write_all(records)?;
        self.end_file(size)
    }

    fn header(&mut self, kind: EntryType, name: &[u8], bytes: u64) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(bytes);
        header.set_cksum();
        self.target.write_all(header.as_bytes())
    }
}

/// The content of a member, or the reason why it cannot be opened.
pub(crate) type OpenMember<'a> = Result<Box<dyn Read + 'a>, Damage>;

/// What is done with the name and the content of a member.
pub(crate) type VisitMember<'a> = dyn FnMut(&[u8], OpenMember<'_>) -> Result<(), Failure> + 'a;

/// Calls `visit` with the name and content of each file of a zip archive. A member that cannot be opened is given to `visit` as
/// the reason.
pub(crate) fn read_zip<R: Read + Seek>(
    source: R,
    visit: &mut VisitMember<'_>,
) -> Result<(), Failure> {
    let damaged = |error: zip::result::ZipError| Failure::from(Damage::whole(error.to_string()));
    let mut archive = zip::ZipArchive::new(source).map_err(damaged)?;
    for index in 0..archive.len() {
        let name = {
            let member = archive.by_index_raw(index).map_err(damaged)?;
            if !member.is_file() || member.name_raw().ends_with(b"/") {
                continue;
            }
            member.name_raw().to_vec()
        };
        match archive.by_index(index) {
            Ok(member) => visit(&name, Ok(Box::new(member)))?,
            Err(error) => visit(&name, Err(Damage::whole(error.to_string())))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn written(files: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut writer = TarWriter::new(Vec::new()).unwrap();
        for (name, content) in files {
            writer.begin_file(name, content.len() as u64).unwrap();
            writer.target().write_all(content).unwrap();
            writer.end_file(content.len() as u64).unwrap();
        }
        writer.finish().unwrap()
    }

    type Files = Vec<(Vec<u8>, Vec<u8>)>;

    fn read(archive: &[u8]) -> Result<Files, String> {
        let mut reader = TarReader::new(archive);
        let mut files = Vec::new();
        loop {
            match reader.next_file() {
                Ok(None) => return Ok(files),
                Ok(Some(name)) => {
                    let mut content = Vec::new();
                    let read = reader.read_to_end(&mut content);
                    read.map_err(|error| error.to_string())?;
                    files.push((name, content));
                }
                Err(Failure::Damage(damage)) => return Err(damage.reason),
                Err(Failure::Stop(error)) => return Err(error.to_string()),
            }
        }
    }

    #[test]
    fn any_names_come_back_from_an_archive() {
        let long = b"long/name\n".repeat(300);
        let files: [(&[u8], &[u8]); 6] = [
            (b"a", b"text"),
            (b"b/c", b""),
            (&[b'x'; 100], &[1; 512]),
            (&[b'y'; 101], &[2; 513]),
            (&long[..long.len() - 1], b"z"),
            (b"line\nbreak = \xff", b"w"),
        ];
        let archive = written(&files);
        let expected: Vec<_> = files
            .map(|(name, content)| (name.to_vec(), content.to_vec()))
            .into();
        assert_eq!(read(&archive).unwrap(), expected);
        let mut reader = TarReader::new(&archive[..]);
        assert!(reader.next_file().is_ok() && reader.is_corpus());
        // The tar crate reads it too, and gives the header of the archive as a member.
        let mut other = tar::Archive::new(&archive[..]);
        let entries = other.entries().unwrap().skip(1);
        let names = entries.map(|entry| entry.unwrap().path_bytes().into_owned());
        for (name, (expected, _)) in names.zip(&expected).take(4) {
            assert_eq!(name, *expected);
        }
    }

    #[test]
    fn an_archive_that_is_cut_or_changed_is_an_error() {
        let archive = written(&[(b"a", b"some text"), (b"b", &[7; 600])]);
        let whole = read(&archive).unwrap();
        for end in 0..archive.len() {
            match read(&archive[..end]) {
                // Between two members, or in the zeros at the end.
                Ok(files) => {
                    let is_between = end % BLOCK == 0 || end >= archive.len() - BLOCK;
                    assert!(is_between && whole.starts_with(&files), "{end}");
                }
                Err(reason) => assert!(!reason.is_empty()),
            }
        }
        for at in 0..archive.len() {
            let mut changed = archive.clone();
            changed[at] ^= 0x41;
            let _ = read(&changed);
        }
    }

    #[test]
    fn names_and_bytes_show_archives() {
        let mut ustar = vec![0; BLOCK];
        ustar[257..262].copy_from_slice(b"ustar");
        for (name, beginning, kind) in [
            ("a", &ustar[..], Some(ArchiveKind::Tar)),
            ("a.tar", b"old", Some(ArchiveKind::Tar)),
            ("a.zip", b"PK\x03\x04", Some(ArchiveKind::Zip)),
            ("a.zip", b"text", None),
            ("a.docx", b"PK\x03\x04", None),
        ] {
            assert_eq!(
                ArchiveKind::of_file(name.as_bytes(), beginning),
                kind,
                "{name}"
            );
        }
    }
}
