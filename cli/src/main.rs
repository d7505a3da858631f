//! `zipf`, the command line of ZipfDB.
//!
//! Start reading at [`run`]. Invariant: standard output carries rows and nothing else (at the prompt also what `.schema`
//! shows, for `zipf demo`: its report);
//! exit codes are 0 done, 1 a statement failed or the database could not be used, 2 wrong usage.

#![forbid(unsafe_code)]

mod arguments;
mod command;
mod demo;
mod error;
mod interrupt;
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
mod session;
mod vocabulary;

use std::io::{self, BufWriter, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use zipfdb::output::RowFormat;
use zipfdb::{Database, give_back_large_blocks};

use arguments::{Arguments, Source, Task};
use error::Error;
use interrupt::CtrlC;
use output::Format;
use parameters::Parameters;
use pending::Pending;
use screen::{Output, Screen};
use script::{Script, ScriptEnd};
use session::{Session, terminal_height, terminal_width};

/// Bytes of rows that are written at once.
const OUTPUT_BUFFER: usize = 64 * 1024;

fn main() -> ExitCode {
    give_back_large_blocks();
    let arguments = Arguments::read();
    show_traces();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_broken_pipe() {
                message::error(&error);
            }
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    match &arguments.subcommand {
        Some(Task::Demo { directory }) => {
            let output = &mut io::stdout().lock();
            return demo::run(directory.as_deref(), terminal_width(), output);
        }
        Some(Task::Repair { database, target }) => return repair::run(database, target.as_deref()),
        Some(Task::Pack(arguments)) => return packing::pack(arguments),
        Some(Task::Unpack { source, target }) => return packing::unpack(source, target),
        None => {}
    }
    let is_prompt = arguments.sources().is_empty() && io::stdin().is_terminal();
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
    let output = BufWriter::with_capacity(OUTPUT_BUFFER, io::stdout().lock());
    if is_prompt {
        greet(arguments.database.as_deref());
        let mut terminal = repl::Terminal::new(database.clone())?;
        let pager = std::env::var("PAGER").ok();
        let screen = Screen::new(output, pager.as_deref(), terminal_height);
        let mut session =
            Session::new(database, screen, format, terminal_width).interrupted_by(CtrlC::install());
        session.parameters = parameters;
        let ended = repl::run(&mut session, &mut terminal);
        session.end();
        return ended.and_then(|()| leave(pending));
    }
    let mut session = Session::new(database, output, format, terminal_width);
    session.parameters = parameters;
    let ended = run_all(scripts, &mut session);
    session.end();
    ended.and_then(|()| leave(pending))
}

fn leave(pending: Pending) -> Result<(), Error> {
    pending.end().map_err(|source| Error::Leave {
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
        settings.try_for_each(|statement| database.execute(statement))?;
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
        Some(path) => format!(
            "ZipfDB {version}, database {}. `.help` shows what can be typed.",
            path.display()
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
        .event_format(message::TraceFormat)
        .init();
}
