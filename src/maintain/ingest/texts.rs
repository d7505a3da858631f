//! Where texts come from: files of the operating system, or of a corpus.
//!
//! The invariant: a text that is not the same from its listing to the end of its reading is an error, so a segment never
//! holds a mixture of versions.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use crate::answer::CorpusView;
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
}

/// A text that is read from its start to its end.
pub trait OpenText: Read + Send {
    /// Makes sure that it is still what was opened, once it has been read.
    fn finish(&self) -> io::Result<()>;
}

impl Texts for Vec<Source> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn name(&self, text: usize) -> &str {
        &self[text].name
    }

    fn bytes(&self, text: usize) -> u64 {
        self[text].bytes
    }

    fn path(&self, text: usize) -> PathBuf {
        self[text].path.clone()
    }

    fn open(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>> {
        let source = &self[text];
        if source.bytes == SIZE_UNKNOWN {
            return Ok(Box::new(Stream(streams::open_to_read(&source.path)?)));
        }
        let file = File::open(&source.path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() != source.bytes {
            return Err(changed());
        }
        Ok(Box::new(OpenFile {
            file,
            bytes: source.bytes,
            modified: metadata.modified()?,
        }))
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

/// Files of a corpus as they are at one moment.
pub struct ViewTexts {
    view: Arc<CorpusView>,
    /// Which, ascending.
    files: Vec<u32>,
}

impl ViewTexts {
    /// Some files of a view, ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or `stop` is set.
    pub fn new(
        view: Arc<CorpusView>,
        files: Vec<u32>,
        stop: &AtomicBool,
    ) -> crate::Result<ViewTexts> {
        // What extracts need is built here, not by threads that hold a lock while they read.
        view.stored().prepare_edits(stop)?;
        Ok(ViewTexts { view, files })
    }

    /// The size of all of them.
    pub fn total_bytes(&self) -> u64 {
        (0..self.files.len()).map(|text| self.bytes(text)).sum()
    }
}

impl Texts for ViewTexts {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn name(&self, text: usize) -> &str {
        &self.view.files()[self.files[text] as usize].name
    }

    fn bytes(&self, text: usize) -> u64 {
        self.view.files()[self.files[text] as usize].bytes
    }

    fn path(&self, text: usize) -> PathBuf {
        self.name(text).into()
    }

    fn open(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>> {
        Ok(Box::new(OpenViewText {
            view: &self.view,
            file: self.files[text] as usize,
            offset: 0,
        }))
    }
}

struct OpenViewText<'a> {
    view: &'a CorpusView,
    file: usize,
    offset: u64,
}

/// Bytes that are extracted at a time.
const EXTRACT_BYTES: usize = 1 << 18;

impl Read for OpenViewText<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(EXTRACT_BYTES);
        let bytes = self.view.extract(self.file, self.offset, length as u64);
        let bytes = bytes.map_err(io::Error::other)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl OpenText for OpenViewText<'_> {
    fn finish(&self) -> io::Result<()> {
        Ok(())
    }
}
