//! Where texts come from, and files of the operating system, decoded if they are to be.
//!
//! The invariant: a text that is not the same from its listing to the end of its reading is an error, so a segment never
//! holds a mixture of versions.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::paths::encodings::{Decoded, EncodingWatch, ForeignText, MARK_SIZE_MAX, TextEncoding};
use crate::paths::sources::{SIZE_UNKNOWN, Source};
use crate::paths::streams;

/// Texts to make segments of, in order of name.
pub trait Texts: Sync {
    /// How many there are.
    fn len(&self) -> usize;
    /// The name that one gets in the corpus.
    fn name(&self, text: usize) -> &str;
    /// Its size, or [`SIZE_UNKNOWN`].
    fn bytes(&self, text: usize) -> u64;
    /// Where it is, for messages.
    fn path(&self, text: usize) -> PathBuf;
    /// Opens it.
    fn open(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>>;
    /// Opens a text of a known size for several threads at once, if it can be read like that.
    fn open_ranged(&self, _text: usize) -> io::Result<Option<Arc<dyn RangedText + '_>>> {
        Ok(None)
    }
    /// Makes what reading some of them needs, which stays in memory as long as the result does: so threads that read them together do
    /// not each make it. One thread at a time calls this.
    fn hold(&self, _texts: Range<usize>, _stop: &AtomicBool) -> HeldTexts {
        None
    }
    /// Says that some of them will be opened and read soon.
    fn expect(&self, _texts: Range<usize>) {}
    /// Whether it may be left out if it cannot be read and that is allowed: files of a corpus may not.
    fn may_be_left_out(&self, _text: usize) -> bool {
        false
    }
}

/// What reading some texts needs, if it is more than the texts.
pub type HeldTexts = Option<Arc<dyn Any + Send + Sync>>;

/// A text that is read from its start to its end.
pub trait OpenText: Read + Send {
    /// Makes sure that it is still what was opened, once it has been read.
    fn finish(&self) -> io::Result<()>;
}

/// A text whose parts are read in any order, also at the same time.
pub trait RangedText: Send + Sync {
    /// Appends the bytes at `range` to `text`, and makes sure that the text is still what was opened.
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
    /// Which are not UTF-8, of those that are taken as they are.
    foreign: Mutex<BTreeMap<usize, ForeignText>>,
}

impl SourceTexts {
    /// These files, read in an encoding.
    pub fn new(sources: Vec<Source>, encoding: TextEncoding) -> SourceTexts {
        SourceTexts {
            sources,
            encoding,
            foreign: Mutex::default(),
        }
    }

    /// The files that were read to their ends, are not UTF-8, and were taken as they are; in order.
    pub fn foreign(&self) -> Vec<(Source, ForeignText)> {
        let foreign = self.foreign.lock();
        (foreign.iter())
            .map(|(&text, &kind)| (self.sources[text].clone(), kind))
            .collect()
    }

    /// Opens a file as its bytes are.
    fn open_bytes(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>> {
        let source = &self.sources[text];
        if source.bytes == SIZE_UNKNOWN {
            return Ok(Box::new(Stream(streams::open_to_read(&source.path)?)));
        }
        Ok(Box::new(OpenFile::open(source)?))
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
        self.sources[text].path.clone()
    }

    /// Has the system read files beside the work on those before them. What fails here fails again when the file is opened.
    fn expect(&self, texts: Range<usize>) {
        #[cfg(target_os = "linux")]
        for source in &self.sources[texts] {
            use rustix::fs::{Advice, fadvise};
            if source.bytes == SIZE_UNKNOWN {
                continue;
            }
            if let Ok(file) = File::open(&source.path) {
                let _ = fadvise(&file, 0, None, Advice::WillNeed);
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = texts;
    }

    fn may_be_left_out(&self, _text: usize) -> bool {
        true
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
        // How a file is decoded was found when it was listed, but for those that are read only once.
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
        let opened = OpenFile::open(source)?;
        let mut beginning = Vec::new();
        opened.read_at(0..BEGINNING as u64, &mut beginning)?;
        Ok(Some(Arc::new(RangedFile {
            opened,
            beginning,
            text,
            foreign: &self.foreign,
        })))
    }
}

/// A file that is read in parts.
#[cfg(unix)]
struct RangedFile<'a> {
    opened: OpenFile,
    /// Its first bytes.
    beginning: Vec<u8>,
    text: usize,
    foreign: &'a Mutex<BTreeMap<usize, ForeignText>>,
}

#[cfg(unix)]
impl RangedText for RangedFile<'_> {
    fn read(&self, range: Range<u64>, text: &mut Vec<u8>) -> io::Result<()> {
        self.opened.read_at(range, text)?;
        self.opened.finish()
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

/// A text that is looked at while it is read.
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

/// A text whose beginning tells how it is decoded.
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
    /// It has failed.
    Nothing,
}

impl Begun<'_> {
    /// Reads the beginning, and settles how the text is decoded.
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

/// What is read to its end, once.
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

struct OpenFile {
    file: File,
    bytes: u64,
    modified: SystemTime,
}

impl OpenFile {
    fn open(source: &Source) -> io::Result<OpenFile> {
        let file = File::open(&source.path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() != source.bytes {
            return Err(changed());
        }
        Ok(OpenFile {
            file,
            bytes: source.bytes,
            modified: metadata.modified()?,
        })
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

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl OpenText for OpenFile {
    fn finish(&self) -> io::Result<()> {
        let metadata = self.file.metadata()?;
        if metadata.len() != self.bytes || metadata.modified()? != self.modified {
            return Err(changed());
        }
        Ok(())
    }
}

/// What is said of a text that is not the same any more.
pub fn changed() -> io::Error {
    io::Error::other("it changed while it was read")
}
