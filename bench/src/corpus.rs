//! A corpus on disk as the engines and compressors see it: its files in order of name, as one stream or as rows.
//!
//! Nothing here holds more than a row of text in memory, so that peak memory is the engine's.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

use crate::Result;

/// Largest row given to an engine that stores text in rows; longer files are cut.
pub const ROW_SIZE_MAX: usize = 1 << 20;

/// A file or a directory with all files below it.
pub struct Corpus {
    /// The last component of the path it was found at.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Its files by name, which is the path below `path` with `/`.
    pub files: Vec<SourceFile>,
}

/// One file of a corpus.
pub struct SourceFile {
    pub name: String,
    pub path: PathBuf,
    pub size: u64,
}

/// A piece of a file that an engine stores as one row.
pub struct SourceRow<'a> {
    pub file: &'a str,
    /// Number of the row in its file, from 0.
    pub number: u64,
    pub content: &'a [u8],
}

impl SourceRow<'_> {
    /// What an engine gets that takes UTF-8 only: the content with other bytes replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.content)
    }
}

impl Corpus {
    /// Lists the files at `path`, in order of name.
    pub fn open(path: &Path) -> Result<Corpus> {
        let path = path
            .canonicalize()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let mut files = Vec::new();
        let mut pending = vec![path.clone()];
        while let Some(next) = pending.pop() {
            let metadata =
                fs::metadata(&next).map_err(|error| format!("{}: {error}", next.display()))?;
            if metadata.is_dir() {
                for entry in fs::read_dir(&next)? {
                    pending.push(entry?.path());
                }
            } else {
                let below = next.strip_prefix(&path).unwrap_or(&next);
                let name = if below.as_os_str().is_empty() {
                    name.clone()
                } else {
                    below.to_string_lossy().into_owned()
                };
                files.push(SourceFile {
                    name,
                    path: next,
                    size: metadata.len(),
                });
            }
        }
        if files.is_empty() {
            return Err(format!("{}: no files", path.display()).into());
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Corpus { name, path, files })
    }

    /// Bytes of text.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// Whether all rows are UTF-8.
    pub fn is_utf8(&self) -> Result<bool> {
        let mut is_utf8 = true;
        self.for_each_row(|row| {
            is_utf8 &= std::str::from_utf8(row.content).is_ok();
            Ok(())
        })?;
        Ok(is_utf8)
    }

    /// All files, one after the other.
    pub fn reader(&self) -> impl Read + '_ {
        ConcatenatedReader {
            files: &self.files,
            current: None,
        }
    }

    /// Asks the kernel to forget the files' pages, so that the next read comes from the disk.
    pub fn drop_cached(&self) -> Result<()> {
        for file in &self.files {
            let opened = File::open(&file.path)?;
            fadvise(&opened, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }

    /// Gives every file to `take` as rows of at most [`ROW_SIZE_MAX`] bytes. A longer file is cut after its last line
    /// end that fits, without one after the last space, without one before the last character.
    pub fn for_each_row(&self, mut take: impl FnMut(SourceRow<'_>) -> Result<()>) -> Result<()> {
        let mut buffer = Vec::new();
        for file in &self.files {
            let mut opened = File::open(&file.path)?;
            let mut number = 0;
            buffer.clear();
            loop {
                let missing = (ROW_SIZE_MAX - buffer.len()) as u64;
                let read = opened.by_ref().take(missing).read_to_end(&mut buffer)?;
                if buffer.len() < ROW_SIZE_MAX {
                    break;
                }
                let row_size = row_end(&buffer);
                take(SourceRow {
                    file: &file.name,
                    number,
                    content: &buffer[..row_size],
                })?;
                buffer.drain(..row_size);
                number += 1;
                if read == 0 {
                    break;
                }
            }
            if !buffer.is_empty() || number == 0 {
                take(SourceRow {
                    file: &file.name,
                    number,
                    content: &buffer,
                })?;
            }
        }
        Ok(())
    }
}

/// Where to cut a full buffer.
fn row_end(buffer: &[u8]) -> usize {
    let after_last = |byte: u8| {
        buffer
            .iter()
            .rposition(|&other| other == byte)
            .map(|index| index + 1)
    };
    // A byte that begins a character, if that is not the row's first.
    let character = || buffer.iter().rposition(|byte| byte & 0xc0 != 0x80);
    after_last(b'\n')
        .or_else(|| after_last(b' '))
        .or_else(|| character().filter(|&begin| begin > 0))
        .unwrap_or(buffer.len())
}

struct ConcatenatedReader<'a> {
    files: &'a [SourceFile],
    current: Option<File>,
}

impl Read for ConcatenatedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(file) = &mut self.current {
                let read = file.read(buffer)?;
                if read > 0 || buffer.is_empty() {
                    return Ok(read);
                }
                self.current = None;
            }
            let Some((first, rest)) = self.files.split_first() else {
                return Ok(0);
            };
            self.current = Some(File::open(&first.path)?);
            self.files = rest;
        }
    }
}
