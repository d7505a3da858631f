//! SQL that nobody types: -c, -f and standard input.
//!
//! Invariant: a statement runs as soon as its text is complete, before more is read, and the first that fails is the
//! last that ran.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use zipfdb::StatementStream;

use crate::arguments::Source;
use crate::error::Error;
use crate::screen::Output;
use crate::session::Session;

/// Bytes asked for at once; a pipe gives what it has.
const READ_SIZE: usize = 64 * 1024;

/// A text of SQL, opened.
pub struct Script {
    reader: Box<dyn Read>,
    /// The name for messages, if the text has one.
    origin: Option<PathBuf>,
}

impl Script {
    /// Opens a source, so that a missing file is noticed before anything else happens.
    pub fn open(source: &Source) -> Result<Script, Error> {
        Ok(match source {
            Source::Text(text) => Script {
                reader: Box::new(Cursor::new(text.clone())),
                origin: None,
            },
            Source::StandardInput => Script {
                // Not locked: `-f -` may be given twice.
                reader: Box::new(io::stdin()),
                origin: Some("standard input".into()),
            },
            Source::File(path) => match File::open(path) {
                Ok(file) => Script {
                    reader: Box::new(file),
                    origin: Some(path.clone()),
                },
                Err(source) => return Err(cannot_read(path, source)),
            },
        })
    }

    /// Runs all statements.
    pub fn run<W: Output>(mut self, session: &mut Session<W>) -> Result<(), Error> {
        let origin = self.origin.as_deref();
        let name = origin.unwrap_or("-c".as_ref());
        let mut statements = StatementStream::new();
        let mut buffer = vec![0; READ_SIZE];
        // Bytes at the front of the buffer that are the beginning of a character.
        let mut held = 0;
        let mut offset = 0;
        loop {
            let read = match self.reader.read(&mut buffer[held..]) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(cannot_read(name, error)),
            };
            let filled = held + read;
            let (valid, is_broken) = match std::str::from_utf8(&buffer[..filled]) {
                Ok(_) => (filled, false),
                Err(error) => (
                    error.valid_up_to(),
                    error.error_len().is_some() || read == 0,
                ),
            };
            let text = std::str::from_utf8(&buffer[..valid]).expect("checked above");
            let text = if offset == 0 {
                text.strip_prefix('\u{feff}').unwrap_or(text)
            } else {
                text
            };
            statements.feed(text);
            while let Some(statement) = statements.next_statement() {
                session.run(statement, origin)?;
            }
            offset += valid as u64;
            if is_broken {
                return Err(Error::NotUtf8 {
                    origin: name.to_path_buf(),
                    offset,
                });
            }
            if read == 0 {
                break;
            }
            buffer.copy_within(valid..filled, 0);
            held = filled - valid;
        }
        if let Some(statement) = statements.finish() {
            session.run(statement, origin)?;
        }
        Ok(())
    }
}

fn cannot_read(path: &Path, source: io::Error) -> Error {
    Error::File {
        action: "cannot read",
        path: path.to_path_buf(),
        source,
    }
}
