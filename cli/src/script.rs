//! SQL that is not typed at a prompt: -c, -f and standard input.
//!
//! Invariant: a statement runs as soon as its text is complete, before more is read, and the first that fails is the
//! last that ran. Bytes that are not UTF-8 fail in their place: what comes before them has run, and stays done.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use zipfdb::sql::{Pending, Position, StatementStream, StatementText};

use crate::arguments::Source;
use crate::command::Command;
use crate::command::action::{Step, act};
use crate::error::Error;
use crate::screen::Output;
use crate::session::Session;

/// Bytes asked for at once; a pipe gives what it has.
const READ_SIZE: usize = 64 * 1024;

/// Files that `.read` each other, the first included.
const DEPTH_MAX: usize = 16;

/// A text of SQL, opened.
pub struct Script {
    reader: Box<dyn Read>,
    /// The name for messages, if the text has one.
    origin: Option<PathBuf>,
    /// How many files read this one.
    depth: usize,
}

/// Why a script is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptEnd {
    /// All of it has been run.
    Read,
    /// The script said `.quit`.
    Quit,
}

impl Script {
    /// Opens a source, so that a missing file is noticed before anything else happens.
    pub fn open(source: &Source) -> Result<Script, Error> {
        let (reader, origin): (Box<dyn Read>, _) = match source {
            Source::Text(text) => (Box::new(Cursor::new(text.clone())), None),
            // Not locked: `-f -` may be given twice.
            Source::StandardInput => (Box::new(io::stdin()), Some("standard input".into())),
            Source::File(path) => match File::open(path) {
                Ok(file) => (Box::new(file), Some(path.clone())),
                Err(source) => return Err(cannot_read(path, source)),
            },
        };
        Ok(Script {
            reader,
            origin,
            depth: 0,
        })
    }

    /// Runs all statements and dot commands, up to the first that fails.
    pub fn run<W: Output>(self, session: &mut Session<W>) -> Result<ScriptEnd, Error> {
        let Script {
            mut reader,
            origin,
            depth,
        } = self;
        let name = origin.as_deref().unwrap_or("-c".as_ref());
        let mut run = ScriptRun {
            session,
            origin: origin.as_deref(),
            depth,
            statements: StatementStream::new(),
            line: 1,
            command: None,
            is_at_line_start: true,
        };
        let mut buffer = vec![0; READ_SIZE];
        // Bytes at the front of the buffer that are the beginning of a character.
        let mut held = 0;
        let mut offset = 0;
        loop {
            let read = match reader.read(&mut buffer[held..]) {
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
            for line in text.split_inclusive('\n') {
                if run.take(line)? == ScriptEnd::Quit {
                    return Ok(ScriptEnd::Quit);
                }
            }
            offset += valid as u64;
            if is_broken {
                return Err(Error::NotUtf8 {
                    origin: name.to_path_buf(),
                    line: run.line,
                    offset,
                });
            }
            if read == 0 {
                return run.finish();
            }
            buffer.copy_within(valid..filled, 0);
            held = filled - valid;
        }
    }
}

/// A script that is being run.
struct ScriptRun<'a, W> {
    session: &'a mut Session<W>,
    origin: Option<&'a Path>,
    depth: usize,
    statements: StatementStream,
    /// The line that comes next, from 1.
    line: u64,
    /// What was read of a dot command that goes on.
    command: Option<String>,
    /// Whether only spaces were read of the line.
    is_at_line_start: bool,
}

impl<W: Output> ScriptRun<'_, W> {
    /// Takes a line, or a part of one that has not been read to its end.
    fn take(&mut self, text: &str) -> Result<ScriptEnd, Error> {
        let is_whole = text.ends_with('\n');
        let is_command = self.command.is_some()
            || self.is_at_line_start
                && self.statements.pending() == Pending::Nothing
                && Command::is_command_of_file(text);
        if is_command {
            self.command.get_or_insert_default().push_str(text);
            return if is_whole {
                self.end_command()
            } else {
                Ok(ScriptEnd::Read)
            };
        }
        self.is_at_line_start = is_whole || self.is_at_line_start && text.trim().is_empty();
        self.line += u64::from(is_whole);
        self.statements.feed(text);
        while let Some(statement) = self.statements.next_statement() {
            self.session.run(statement, self.origin)?;
        }
        Ok(ScriptEnd::Read)
    }

    /// Does what a line says that has been read.
    fn end_command(&mut self) -> Result<ScriptEnd, Error> {
        let command = self.command.take().unwrap_or_default();
        let line = self.line;
        self.line += 1;
        self.is_at_line_start = true;
        // Errors of statements count lines.
        self.statements.feed("\n");
        let failed = |problem| Error::InFile {
            problem,
            origin: self.origin.map(Path::to_path_buf),
            line,
        };
        match act(self.session, &command) {
            Ok(Step::Done(_)) => {}
            Ok(Step::Quit) => return Ok(ScriptEnd::Quit),
            Ok(Step::Run(text)) => {
                let start = Position {
                    line,
                    ..Position::START
                };
                self.session
                    .run(Ok(StatementText { text, start }), self.origin)?;
            }
            Ok(Step::Read(path)) => {
                if self.depth + 1 == DEPTH_MAX {
                    return Err(failed(format!(
                        "`.read` nests deeper than {DEPTH_MAX} files"
                    )));
                }
                let mut script = Script::open(&Source::File(path))?;
                script.depth = self.depth + 1;
                return script.run(self.session);
            }
            Err(Error::Command { problem }) => return Err(failed(problem)),
            Err(Error::Statement { source, .. }) => {
                return Err(Error::Statement {
                    source,
                    origin: self.origin.map(Path::to_path_buf),
                    line,
                });
            }
            Err(error) => return Err(error),
        }
        Ok(ScriptEnd::Read)
    }

    /// Runs what is left at the end.
    fn finish(mut self) -> Result<ScriptEnd, Error> {
        if self.command.is_some() {
            return self.end_command();
        }
        if let Some(statement) = self.statements.finish() {
            self.session.run(statement, self.origin)?;
        }
        Ok(ScriptEnd::Read)
    }
}

fn cannot_read(path: &Path, source: io::Error) -> Error {
    Error::File {
        action: "cannot read",
        path: path.to_path_buf(),
        source,
    }
}
