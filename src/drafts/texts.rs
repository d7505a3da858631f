//! Sources of texts, and files of the operating system, decoded if an encoding is set.
//!
//! The invariant: a text that changes between its listing and the end of its reading is an error, so a segment never holds a
//! mixture of versions. A file that only grows meanwhile is read up to its listed size: checksums verify at the end that the
//! bytes up to there did not change.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::paths::encodings::{Decoded, EncodingWatch, ForeignText, MARK_SIZE_MAX, TextEncoding};
use crate::paths::sources::{SIZE_UNKNOWN, Source, SourceIdentity};
use crate::paths::streams;
use crate::paths::unpacked::UnpackedText;

/// Texts to make segments of, in order of name.
pub trait Texts: Sync {
    /// The number of texts.
    fn len(&self) -> usize;
    /// The name of a text in the corpus.
    fn name(&self, text: usize) -> &str;
    /// The size of a text, or [`SIZE_UNKNOWN`].
    fn bytes(&self, text: usize) -> u64;
    /// The path of a text, for messages.
    fn path(&self, text: usize) -> PathBuf;
    /// Opens a text.
    fn open(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>>;
    /// Opens a text of a known size for several threads at once; none if it can only be read in order.
    fn open_ranged(&self, _text: usize) -> io::Result<Option<Arc<dyn RangedText + '_>>> {
        Ok(None)
    }
    /// Builds the structures for reading some texts, which stay in memory as long as the result: threads that read the texts
    /// together share them. One thread at a time calls this.
    fn hold(&self, _texts: Range<usize>, _stop: &AtomicBool) -> HeldTexts {
        None
    }
    /// Announces that some texts will be opened and read soon.
    fn expect(&self, _texts: Range<usize>) {}
    /// Whether an unreadable text may be left out where the caller allows that: files of a corpus may not.
    fn may_be_left_out(&self, _text: usize) -> bool {
        false
    }
}

/// The structures for reading some texts, if any are needed.
pub type HeldTexts = Option<Arc<dyn Any + Send + Sync>>;

/// A text that is read from start to end.
pub trait OpenText: Read + Send {
    /// Checks, after the text was read, that it is still what was opened.
    fn finish(&self) -> io::Result<()>;
}

/// A text whose parts are read in any order, also at the same time.
pub trait RangedText: Send + Sync {
    /// Appends the bytes at `range` to `text`, and checks that the text is still what was opened.
    fn read(&self, range: Range<u64>, text: &mut Vec<u8>) -> io::Result<()>;
    /// [`RangedText::read`] of a part of the content: parts begin and end between characters, and together they are the text.
    fn read_part(&self, range: Range<u64>, text: &mut Vec<u8>) -> io::Result<()> {
        self.read(range, text)
    }
}

/// Files of the operating system.
pub struct SourceTexts {
    sources: Vec<Source>,
    encoding: TextEncoding,
    /// The files that are not UTF-8, of those that are taken as they are.
    foreign: Mutex<BTreeMap<usize, ForeignText>>,
    /// The files that have grown since they were listed.
    grown: Mutex<BTreeSet<usize>>,
}

impl SourceTexts {
    /// These files, read in an encoding.
    pub fn new(sources: Vec<Source>, encoding: TextEncoding) -> SourceTexts {
        SourceTexts {
            sources,
            encoding,
            foreign: Mutex::default(),
            grown: Mutex::default(),
        }
    }

    /// The files that were read to their ends, are not UTF-8, and were taken as they are; in order.
    pub fn foreign(&self) -> Vec<(Source, ForeignText)> {
        let foreign = self.foreign.lock();
        (foreign.iter())
            .map(|(&text, &kind)| (self.sources[text].clone(), kind))
            .collect()
    }

    /// The files that have grown since they were listed, and were taken up to their listed size; in order.
    pub fn grown(&self) -> Vec<Source> {
        let grown = self.grown.lock();
        grown
            .iter()
            .map(|&text| self.sources[text].clone())
            .collect()
    }

    /// Opens a file as its bytes are.
    fn open_bytes(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>> {
        let source = &self.sources[text];
        if source.bytes == SIZE_UNKNOWN {
            return Ok(Box::new(Stream(streams::open_source(&source.path)?)));
        }
        if let Some(unpacked) = &source.unpacked {
            return Ok(Box::new(UnpackedInOrder {
                unpacked,
                range: 0..source.bytes,
            }));
        }
        Ok(Box::new(FileInOrder {
            opened: OpenFile::open(source)?,
            read: 0,
            checksum: crc32fast::Hasher::new(),
            text,
            grown: &self.grown,
        }))
    }
}

impl Texts for SourceTexts {
    fn len(&self) -> usize {
        self.sources.len()
    }

    fn name(&self, text: usize) -> &str {
        &self.sources[text].name
    }

    fn bytes(&self, text: usize) -> u64 {
        let source = &self.sources[text];
        match source.decoding {
            Some(decoding) if !decoding.keeps_size() => SIZE_UNKNOWN,
            _ => source.bytes,
        }
    }

    fn path(&self, text: usize) -> PathBuf {
        self.sources[text].path.to_path_buf()
    }

    /// Lets the system read files ahead. A failure is met again when the file is opened.
    fn expect(&self, texts: Range<usize>) {
        #[cfg(target_os = "linux")]
        for source in &self.sources[texts] {
            use rustix::fs::{Advice, fadvise};
            if source.bytes == SIZE_UNKNOWN || source.unpacked.is_some() {
                continue;
            }
            if let Ok(file) = File::open(&source.path) {
                let _ = fadvise(&file, 0, None, Advice::WillNeed);
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = texts;
    }

    fn may_be_left_out(&self, text: usize) -> bool {
        self.sources[text].unpacked.is_none()
    }

    fn open(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>> {
        let source = &self.sources[text];
        let opened = self.open_bytes(text)?;
        if let Some(decoding) = source.decoding {
            return Ok(Box::new(Decoded::new(opened, decoding)));
        }
        let watched = Watched {
            opened,
            watch: EncodingWatch::default(),
            text,
            foreign: &self.foreign,
        };
        // The listing found how a file is decoded, except for files that can be read only once.
        Ok(match self.encoding {
            TextEncoding::BYTES => Box::new(watched),
            encoding if source.bytes == SIZE_UNKNOWN => Box::new(Begun {
                encoding,
                beginning: Vec::new(),
                state: BegunState::Beginning(watched),
            }),
            _ => Box::new(watched),
        })
    }

    #[cfg(unix)]
    fn open_ranged(&self, text: usize) -> io::Result<Option<Arc<dyn RangedText + '_>>> {
        use crate::paths::encodings::BEGINNING;
        let source = &self.sources[text];
        if source.bytes < BEGINNING as u64
            || source.bytes == SIZE_UNKNOWN
            || source.decoding.is_some()
        {
            return Ok(None);
        }
        let mut beginning = Vec::new();
        if let Some(unpacked) = &source.unpacked {
            let mut beginning = vec![0; BEGINNING];
            unpacked.read_at(&mut beginning, 0)?;
            return Ok(Some(Arc::new(RangedUnpacked {
                unpacked,
                beginning,
                text,
                foreign: &self.foreign,
            })));
        }
        let opened = OpenFile::open(source)?;
        opened.read_at(0..BEGINNING as u64, &mut beginning)?;
        Ok(Some(Arc::new(RangedFile {
            opened,
            beginning,
            parts: Mutex::default(),
            text,
            foreign: &self.foreign,
            grown: &self.grown,
        })))
    }
}

/// A file that is read in parts.
#[cfg(unix)]
struct RangedFile<'a> {
    opened: OpenFile,
    /// Its first bytes.
    beginning: Vec<u8>,
    parts: Mutex<ReadParts>,
    text: usize,
    foreign: &'a Mutex<BTreeMap<usize, ForeignText>>,
    grown: &'a Mutex<BTreeSet<usize>>,
}

/// The parts of a file that were read.
#[cfg(unix)]
#[derive(Default)]
struct ReadParts {
    /// The ranges with their checksums.
    checksums: Vec<(Range<u64>, u32)>,
    /// The number of their bytes.
    bytes: u64,
}

#[cfg(unix)]
impl RangedFile<'_> {
    /// Records a part that was read. The last part shows whether the file was the same all the time.
    fn note(&self, range: Range<u64>, part: &[u8]) -> io::Result<()> {
        let mut parts = self.parts.lock();
        parts.bytes += part.len() as u64;
        parts.checksums.push((range, crc32fast::hash(part)));
        if parts.bytes < self.opened.bytes {
            return Ok(());
        }
        match self.opened.growth()? {
            Growth::Nothing => return Ok(()),
            Growth::BeforeItWasOpened => {}
            Growth::AfterIt => {
                let mut text = Vec::new();
                for (range, checksum) in &parts.checksums {
                    text.clear();
                    self.opened.read_at(range.clone(), &mut text)?;
                    if crc32fast::hash(&text) != *checksum {
                        return Err(changed());
                    }
                }
            }
        }
        self.grown.lock().insert(self.text);
        Ok(())
    }
}

#[cfg(unix)]
impl RangedText for RangedFile<'_> {
    fn read(&self, range: Range<u64>, text: &mut Vec<u8>) -> io::Result<()> {
        self.opened.read_at(range, text)?;
        self.opened.growth().map(drop)
    }

    fn read_part(&self, range: Range<u64>, text: &mut Vec<u8>) -> io::Result<()> {
        let start = text.len();
        self.read(range.clone(), text)?;
        self.note(range, &text[start..])?;
        let mut watch = EncodingWatch::of_part(&self.beginning);
        watch.see(&text[start..]);
        if let Some(kind) = watch.verdict() {
            self.foreign.lock().insert(self.text, kind);
        }
        Ok(())
    }
}

/// A text of an import that is read from start to end.
struct UnpackedInOrder<'a> {
    unpacked: &'a UnpackedText,
    /// The bytes that were not read.
    range: Range<u64>,
}

impl Read for UnpackedInOrder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.range.end - self.range.start;
        let size = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        self.unpacked
            .read_at(&mut buffer[..size], self.range.start)?;
        self.range.start += size as u64;
        Ok(size)
    }
}

impl OpenText for UnpackedInOrder<'_> {
    fn finish(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A text of an import that is read in parts.
#[cfg(unix)]
struct RangedUnpacked<'a> {
    unpacked: &'a UnpackedText,
    beginning: Vec<u8>,
    text: usize,
    foreign: &'a Mutex<BTreeMap<usize, ForeignText>>,
}

#[cfg(unix)]
impl RangedText for RangedUnpacked<'_> {
    fn read(&self, range: Range<u64>, text: &mut Vec<u8>) -> io::Result<()> {
        let size = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        text.try_reserve_exact(size)?;
        let start = text.len();
        text.resize(start + size, 0);
        self.unpacked.read_at(&mut text[start..], range.start)
    }

    fn read_part(&self, range: Range<u64>, text: &mut Vec<u8>) -> io::Result<()> {
        let start = text.len();
        self.read(range, text)?;
        let mut watch = EncodingWatch::of_part(&self.beginning);
        watch.see(&text[start..]);
        if let Some(kind) = watch.verdict() {
            self.foreign.lock().insert(self.text, kind);
        }
        Ok(())
    }
}

/// A text whose encoding is checked while it is read.
struct Watched<'a> {
    opened: Box<dyn OpenText + 'a>,
    watch: EncodingWatch,
    text: usize,
    foreign: &'a Mutex<BTreeMap<usize, ForeignText>>,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.opened.read(buffer)?;
        self.watch.see(&buffer[..count]);
        Ok(count)
    }
}

impl OpenText for Watched<'_> {
    fn finish(&self) -> io::Result<()> {
        if let Some(kind) = self.watch.verdict() {
            self.foreign.lock().insert(self.text, kind);
        }
        self.opened.finish()
    }
}

/// A text whose beginning decides how it is decoded.
struct Begun<'a> {
    encoding: TextEncoding,
    beginning: Vec<u8>,
    state: BegunState<'a>,
}

/// The beginning that was read, and the rest.
type Continued<R> = io::Chain<Cursor<Vec<u8>>, R>;

enum BegunState<'a> {
    Beginning(Watched<'a>),
    Plain(Continued<Watched<'a>>),
    Decoded(Decoded<Continued<Box<dyn OpenText + 'a>>>),
    /// After a failure.
    Nothing,
}

impl Begun<'_> {
    /// Reads the beginning and chooses the decoding.
    fn begin(&mut self) -> io::Result<()> {
        let BegunState::Beginning(watched) = &mut self.state else {
            return Ok(());
        };
        while self.beginning.len() < MARK_SIZE_MAX {
            let mut buffer = [0; MARK_SIZE_MAX];
            let missing = MARK_SIZE_MAX - self.beginning.len();
            let count = watched.read(&mut buffer[..missing])?;
            if count == 0 {
                break;
            }
            self.beginning.extend_from_slice(&buffer[..count]);
        }
        let decoding = self.encoding.decoding(&self.beginning);
        let decoding =
            decoding.map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
        let beginning = Cursor::new(std::mem::take(&mut self.beginning));
        let BegunState::Beginning(watched) =
            std::mem::replace(&mut self.state, BegunState::Nothing)
        else {
            return Ok(());
        };
        self.state = match decoding {
            Some(decoding) => {
                BegunState::Decoded(Decoded::new(beginning.chain(watched.opened), decoding))
            }
            None => BegunState::Plain(beginning.chain(watched)),
        };
        Ok(())
    }
}

impl Read for Begun<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.begin()?;
        match &mut self.state {
            BegunState::Plain(plain) => plain.read(buffer),
            BegunState::Decoded(decoded) => decoded.read(buffer),
            BegunState::Beginning(_) | BegunState::Nothing => Ok(0),
        }
    }
}

impl OpenText for Begun<'_> {
    fn finish(&self) -> io::Result<()> {
        match &self.state {
            BegunState::Plain(plain) => plain.get_ref().1.finish(),
            BegunState::Decoded(decoded) => decoded.source().get_ref().1.finish(),
            BegunState::Beginning(_) | BegunState::Nothing => Ok(()),
        }
    }
}

impl<'a> OpenText for Decoded<Box<dyn OpenText + 'a>> {
    fn finish(&self) -> io::Result<()> {
        self.source().finish()
    }
}

/// A stream that is read to its end, once.
struct Stream(File);

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        streams::wait_to_read(&self.0)?;
        self.0.read(buffer)
    }
}

impl OpenText for Stream {
    fn finish(&self) -> io::Result<()> {
        Ok(())
    }
}

/// An open file with its state at that time.
struct OpenFile {
    file: File,
    /// Its size when it was listed; reading ends there.
    bytes: u64,
    /// Its size when it was opened.
    opened_bytes: u64,
    modified: SystemTime,
}

/// The change of a file since it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Nothing,
    /// Longer than listed, and the same since it was opened.
    BeforeItWasOpened,
    /// Longer than when it was opened: its first bytes may have changed too.
    AfterIt,
}

impl OpenFile {
    fn open(source: &Source) -> io::Result<OpenFile> {
        let file = File::open(&source.path)?;
        let metadata = file.metadata()?;
        let opened_bytes = metadata.len();
        let is_same = source.identity.is_some() && SourceIdentity::of(&metadata) == source.identity;
        let has_grown = is_same && opened_bytes > source.bytes;
        if !metadata.is_file() || opened_bytes != source.bytes && !has_grown {
            return Err(changed());
        }
        Ok(OpenFile {
            file,
            bytes: source.bytes,
            opened_bytes,
            modified: metadata.modified()?,
        })
    }

    /// The growth of the file.
    ///
    /// # Errors
    /// If it has changed in another way.
    fn growth(&self) -> io::Result<Growth> {
        let metadata = self.file.metadata()?;
        let bytes = metadata.len();
        let is_same = bytes == self.opened_bytes && metadata.modified()? == self.modified;
        if is_same && bytes == self.bytes {
            Ok(Growth::Nothing)
        } else if is_same {
            Ok(Growth::BeforeItWasOpened)
        } else if bytes > self.opened_bytes {
            Ok(Growth::AfterIt)
        } else {
            Err(changed())
        }
    }

    /// Appends the bytes at `range`.
    #[cfg(unix)]
    fn read_at(&self, range: Range<u64>, text: &mut Vec<u8>) -> io::Result<()> {
        use rustix::buffer::spare_capacity;
        use rustix::io::{Errno, pread};
        let size = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        text.try_reserve_exact(size)?;
        let end = text.len() + size;
        let mut offset = range.start;
        while text.len() < end {
            match pread(&self.file, spare_capacity(text), offset) {
                Ok(0) => return Err(changed()),
                Ok(read) => offset += read as u64,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // There may have been room for more.
        text.truncate(end);
        Ok(())
    }
}

/// A file that is read from its start to its listed size.
struct FileInOrder<'a> {
    opened: OpenFile,
    read: u64,
    /// The checksum of the bytes read.
    checksum: crc32fast::Hasher,
    text: usize,
    grown: &'a Mutex<BTreeSet<usize>>,
}

impl Read for FileInOrder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.opened.bytes - self.read;
        let size = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = self.opened.file.read(&mut buffer[..size])?;
        self.checksum.update(&buffer[..count]);
        self.read += count as u64;
        Ok(count)
    }
}

impl OpenText for FileInOrder<'_> {
    fn finish(&self) -> io::Result<()> {
        match self.opened.growth()? {
            Growth::Nothing => return Ok(()),
            Growth::BeforeItWasOpened => {}
            Growth::AfterIt => self.verify()?,
        }
        self.grown.lock().insert(self.text);
        Ok(())
    }
}

impl FileInOrder<'_> {
    /// Reads the same bytes once more, and compares the checksums.
    fn verify(&self) -> io::Result<()> {
        /// Bytes that are read at a time.
        const PART: usize = 64 << 10;
        let mut file = &self.opened.file;
        file.rewind()?;
        let mut rest = file.take(self.read);
        let mut checksum = crc32fast::Hasher::new();
        let mut buffer = vec![0; PART];
        loop {
            match rest.read(&mut buffer)? {
                0 => break,
                count => checksum.update(&buffer[..count]),
            }
        }
        if checksum.finalize() == self.checksum.clone().finalize() {
            Ok(())
        } else {
            Err(changed())
        }
    }
}

/// The error for a text that has changed.
pub fn changed() -> io::Error {
    io::Error::other("it changed while it was read")
}
