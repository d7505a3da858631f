//! The actions of dot commands, at the prompt and in files.
//!
//! Invariant: a command that fails gives an error; what becomes of it is for the caller to say. SQL and files that a command
//! stands for are the caller's to run.

use std::path::{Path, PathBuf};
use std::time::Instant;

use zipfdb::ingest::CopyOptions;

use zipfdb::CorpusSettings;

use super::{Command, help};
use crate::error::Error;
use crate::message::{self, counted};
use crate::progress::Bars;
use crate::schema;
use crate::screen::Output;
use crate::session::{Outcome, Session};
use crate::vocabulary;

/// What comes after a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the command is done; the time of an outcome is shown.
    Done(Option<Outcome>),
    /// Run this statement.
    Run(String),
    /// Run the statements of this file.
    Read(PathBuf),
    /// End the program.
    Quit,
}

/// Does what a line says.
///
/// # Errors
/// If it is no command, or it fails.
pub fn act<W: Output>(session: &mut Session<W>, line: &str) -> Result<Step, Error> {
    session.check()?;
    let command = Command::parse(line).map_err(|problem| Error::Command { problem })?;
    let relation = |name: &str| Step::Run(format!("SELECT * FROM {name}()"));
    match command {
        Command::Help => message::note(&help()),
        Command::Corpora => return Ok(relation("corpora")),
        Command::Devices => return Ok(relation("devices")),
        Command::Settings => return Ok(relation("settings")),
        Command::Indexes(corpus) => {
            let corpus = vocabulary::text(&corpus);
            return Ok(Step::Run(format!("SELECT * FROM indexes({corpus})")));
        }
        Command::ExportRows { path, select } => {
            let path = vocabulary::text(&path);
            return Ok(Step::Run(format!("COPY ({select}) TO {path}")));
        }
        Command::Export { corpus, directory } => {
            return export(session, &corpus, &directory).map(|outcome| Step::Done(Some(outcome)));
        }
        Command::Import { path, corpus } => {
            return import(session, &path, &corpus).map(|outcome| Step::Done(Some(outcome)));
        }
        Command::Read(path) => return Ok(Step::Read(path)),
        Command::Schema(corpus) => show_schema(session, corpus)?,
        Command::Mode(Some(format)) => session.format = format,
        Command::Mode(None) => message::note(session.format.name()),
        Command::Pager(switch) => match (session.output().pager(), switch) {
            (Some(pager), Some(switch)) => *pager = switch,
            (Some(pager), None) => message::note(on_or_off(*pager)),
            (None, _) => {
                message::note("off; hint: $PAGER names no program, or the output is not a terminal")
            }
        },
        Command::ListParameters => {
            for (name, value) in session.parameters.all() {
                message::note(&format!("{name} = {value}"));
            }
        }
        Command::SetParameter { name, value } => session.parameters.set(&name, &value),
        Command::ClearParameters(name) => session.parameters.clear(name.as_deref()),
        Command::Timer(Some(timer)) => session.timer = timer,
        Command::Timer(None) => message::note(on_or_off(session.timer)),
        Command::Quit => return Ok(Step::Quit),
    }
    Ok(Step::Done(None))
}

/// Copies files into a corpus. A corpus that is created for them goes again if that fails.
fn import<W: Output>(session: &mut Session<W>, path: &Path, name: &str) -> Result<Outcome, Error> {
    let begun = Instant::now();
    let running = session.begin();
    let database = session.database();
    let imported = database
        .corpus(name)
        .map(|corpus| (corpus, false))
        .or_else(|_| {
            let created = database.create_corpus(name, CorpusSettings::default())?;
            Ok((created, true))
        });
    let report = imported.and_then(|(corpus, is_new)| {
        let bars = Bars::new();
        let options = CopyOptions {
            progress: &bars,
            ..CopyOptions::default()
        };
        let report = corpus.copy_from(path, &options);
        // From here on a signal does not interrupt: the corpus must be dropped.
        drop(running);
        if is_new && report.is_err() {
            database.drop_corpus(name)?;
        }
        report
    });
    let report = report.map_err(failed)?;
    for notice in &report.notices {
        message::notice(&notice.to_string());
    }
    message::note(&format!(
        "{}, {}, {}",
        counted(report.files, "file"),
        counted(report.bytes, "byte"),
        counted(report.words, "word")
    ));
    Ok(Outcome {
        rows: None,
        time: begun.elapsed(),
    })
}

/// Writes the files of a corpus.
fn export<W: Output>(
    session: &mut Session<W>,
    name: &str,
    directory: &Path,
) -> Result<Outcome, Error> {
    let begun = Instant::now();
    let _running = session.begin();
    let corpus = session.database().corpus(name);
    let files = corpus.and_then(|corpus| corpus.copy_to(directory, &Bars::new()));
    message::note(&counted(files.map_err(failed)?, "file"));
    Ok(Outcome {
        rows: None,
        time: begun.elapsed(),
    })
}

fn show_schema<W: Output>(session: &mut Session<W>, corpus: Option<String>) -> Result<(), Error> {
    let database = session.database();
    let names = corpus.map_or_else(|| database.corpora(), |name| vec![name]);
    let pages: zipfdb::Result<Vec<String>> = names
        .iter()
        .map(|name| schema::describe(&database.corpus(name)?))
        .collect();
    session.show(&pages.map_err(failed)?.join("\n"))
}

fn failed(source: zipfdb::Error) -> Error {
    Error::Statement {
        source: Box::new(source),
        origin: None,
        line: 1,
    }
}

fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}
