//! `zipf`, the command line of ZipfDB.
//!
//! Start reading at [`run`]. Invariant: standard output carries rows and nothing else (at the prompt also what `.schema`
//! shows, for `zipf demo`: its report);
//! exit codes are 0 done, also if the reader of the output went away, 1 a statement failed, the database could not be used or the
//! output not be written, 2 wrong usage; `zipf grep`, `search` and `kwic` have those of ripgrep. A signal ends the program as it does by default, after the work that runs has cleaned up.

#![forbid(unsafe_code)]

mod arguments;
mod caret;
mod command;
mod corpus;
mod demo;
mod error;
mod grep;
mod interrupt;
mod kwic;
mod message;
mod output;
mod packing;
mod parameters;
mod pending;
mod progress;
mod repair;
mod repl;
mod sample;
mod schema;
mod screen;
mod script;
mod search;
mod session;
mod vocabulary;

use std::io::{self, BufWriter, IsTerminal, LineWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use zipfdb::Database;
use zipfdb::memory::give_back_large_blocks;
use zipfdb::output::RowFormat;
use zipfdb::storage::PathText;

use arguments::{Arguments, Source, Task};
use error::Error;
use interrupt::Signals;
use output::Format;
use parameters::Parameters;
use pending::Pending;
use screen::{Output, Screen, standard_output};
use script::{Script, ScriptEnd};
use session::{Session, terminal_height, terminal_width};

/// The exit code of wrong arguments.
const WRONG_USAGE: u8 = 2;

/// The exit code of a search that finds nothing.
const NOTHING_FOUND: u8 = 1;

/// Bytes of rows that are written at once.
const OUTPUT_BUFFER: usize = 64 * 1024;

fn main() -> ExitCode {
    give_back_large_blocks();
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            // An error of the last output cannot be reported.
            let _ = error.print();
            return ExitCode::from(WRONG_USAGE);
        }
        Err(help) => return exit_code(show_help(&help)),
    };
    show_traces();
    let is_prompt = arguments.subcommand.is_none()
        && arguments.sources().is_empty()
        && io::stdin().is_terminal();
    let signals = Signals::install(is_prompt);
    let code = match &arguments.subcommand {
        Some(Task::Grep(arguments)) => search_code(grep::run(arguments, &signals)),
        Some(Task::Search(arguments)) => search_code(search::run(arguments, &signals)),
        Some(Task::Kwic(arguments)) => search_code(kwic::run(arguments, &signals)),
        _ => exit_code(run(&arguments, is_prompt, &signals)),
    };
    signals.end();
    code
}

/// Says what went wrong.
fn exit_code(ended: Result<(), Error>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_reader_gone() && !matches!(error, Error::Signal) {
                message::error(&error);
            }
            ExitCode::from(error.exit_code())
        }
    }
}

/// Says what went wrong with a search, whose exit codes are those of ripgrep.
fn search_code(ended: Result<bool, Error>) -> ExitCode {
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NOTHING_FOUND),
        Err(error) if error.is_reader_gone() => ExitCode::SUCCESS,
        Err(error) => {
            exit_code(Err(error));
            ExitCode::from(WRONG_USAGE)
        }
    }
}

/// Prints what `--help` and `--version` ask for.
fn show_help(help: &clap::Error) -> Result<(), Error> {
    let text = help.render();
    let text = if message::is_coloured(&io::stdout()) {
        text.ansi().to_string()
    } else {
        text.to_string()
    };
    let written = standard_output().and_then(|mut output| output.write_all(text.as_bytes()));
    written.map_err(|source| Error::Output { source })
}

fn run(arguments: &Arguments, is_prompt: bool, signals: &Signals) -> Result<(), Error> {
    let output = standard_output().map_err(|source| Error::Output { source })?;
    match &arguments.subcommand {
        Some(Task::Demo { directory }) => {
            let output = &mut LineWriter::new(output);
            return demo::run(directory.as_deref(), terminal_width(), output, signals);
        }
        Some(Task::Repair { database, target }) => {
            return repair::run(database, target.as_deref(), signals);
        }
        Some(Task::Pack(arguments)) => return packing::pack(arguments, signals),
        Some(Task::Unpack { source, target }) => return packing::unpack(source, target, signals),
        // Their exit codes are their own.
        Some(Task::Grep(_) | Task::Search(_) | Task::Kwic(_)) | None => {}
    }
    let scripts = match arguments.sources() {
        [] if is_prompt => Vec::new(),
        [] => vec![Script::open(&Source::StandardInput)?],
        sources => sources.iter().map(Script::open).collect::<Result<_, _>>()?,
    };
    let format = arguments.format.unwrap_or(if io::stdout().is_terminal() {
        Format::Table
    } else {
        Format::Rows(RowFormat::Csv)
    });
    let database = open(arguments)?;
    let mut parameters = Parameters::default();
    arguments
        .parameters
        .iter()
        .for_each(|argument| parameters.add(argument));
    let pending = Pending::begin(&database);
    let output = BufWriter::with_capacity(OUTPUT_BUFFER, output);
    if is_prompt {
        greet(arguments.database.as_deref());
        let mut terminal = repl::Terminal::new(database.clone())?;
        let pager = std::env::var("PAGER").ok();
        let screen = Screen::new(output, pager.as_deref(), terminal_height);
        let session = Session::new(database, screen, format, terminal_width);
        let mut session = session.interrupted_by(signals);
        session.parameters = parameters;
        let ended = repl::run(&mut session, &mut terminal);
        session.end();
        return ended.and_then(|()| leave(pending, signals));
    }
    let mut session =
        Session::new(database, output, format, terminal_width).interrupted_by(signals);
    session.parameters = parameters;
    let ended = run_all(scripts, &mut session);
    session.end();
    ended.and_then(|()| leave(pending, signals))
}

fn leave(pending: Pending, signals: &Signals) -> Result<(), Error> {
    signals.check()?;
    pending.end(signals).map_err(|source| Error::Leave {
        source: Box::new(source),
    })
}

/// Runs scripts, up to one that says `.quit`.
fn run_all<W: Output>(scripts: Vec<Script>, session: &mut Session<W>) -> Result<(), Error> {
    for script in scripts {
        if script.run(session)? == ScriptEnd::Quit {
            break;
        }
    }
    Ok(())
}

fn open(arguments: &Arguments) -> Result<Database, Error> {
    let mut options = Database::options()
        .read_only(arguments.readonly)
        .shared(true)
        .create(!arguments.readonly);
    if let Some(threads) = arguments.threads {
        options = options.threads(usize::from(threads));
    }
    let (opened, path) = match &arguments.database {
        Some(path) => (options.open(path), path.clone()),
        None => (options.in_memory(), ":memory:".into()),
    };
    let set = |database: Database| {
        let mut settings = arguments.settings();
        settings.try_for_each(|statement| database.execute_batch(statement))?;
        Ok(database)
    };
    opened.and_then(set).map_err(|source| Error::Open {
        source: Box::new(source),
        path,
    })
}

fn greet(database: Option<&Path>) {
    let version = env!("CARGO_PKG_VERSION");
    message::note(&match database {
        Some(path) if !path.exists() => format!(
            "ZipfDB {version}, database {}, which the first change creates. `.help` shows what can be typed.",
            PathText(path)
        ),
        Some(path) => format!(
            "ZipfDB {version}, database {}. `.help` shows what can be typed.",
            PathText(path)
        ),
        None => format!(
            "ZipfDB {version}, database in memory: it is gone when you leave (`zipf NAME.zdb` keeps one on disk).\n\
             `.help` shows what can be typed."
        ),
    });
}

/// Shows warnings of the database on standard error; the variable ZIPF_LOG asks for more (`debug`).
fn show_traces() {
    let filter = EnvFilter::builder()
        .with_env_var("ZIPF_LOG")
        .with_default_directive(LevelFilter::WARN.into())
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(message::colour())
        // What cannot be written to standard error is not an error, and there is no other place to say so.
        .log_internal_errors(false)
        .event_format(message::TraceFormat)
        .init();
}
