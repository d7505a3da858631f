//! One open database and how its rows are printed: runs single statements.
//!
//! Invariant: after a statement its rows are flushed. Nothing but rows goes to the output.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use terminal_size::{Height, Width, terminal_size_of};
use zipfdb::sql::{SqlError, StatementText};
use zipfdb::{Database, Rows};

use crate::error::Error;
use crate::interrupt::{Running, Signals};
use crate::message;
use crate::output::{Format, LinesWriter, RowPrinter};
use crate::parameters::Parameters;
use crate::progress::Bars;
use crate::screen::{Output, PagerLeft};

/// Rows that are printed at a time, once there are many. The first come one by one: each may take long.
const BATCH_ROWS: usize = 4096;

/// The number of rows of a batch as a multiple of that of the batch before it.
const BATCH_ROWS_FACTOR: usize = 8;

/// An open database, an output and the way rows are printed on it.
pub struct Session<W> {
    database: Database,
    output: W,
    /// How rows are printed.
    pub format: Format,
    /// Whether times are shown.
    pub timer: bool,
    /// Values of the parameters of statements.
    pub parameters: Parameters,
    width: fn() -> Option<u16>,
    signals: Signals,
}

/// What running a statement took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The number of rows, or `None` for a statement that has none.
    pub rows: Option<u64>,
    /// From the text to the last row printed, without the time that a reader took in a pager.
    pub time: Duration,
}

impl<W: Output> Session<W> {
    /// Rows go to `output`, laid out for a terminal of `width` columns where that matters. `width` is asked before
    /// every statement, for terminals change their size.
    pub fn new(
        database: Database,
        output: W,
        format: Format,
        width: fn() -> Option<u16>,
    ) -> Session<W> {
        Session {
            database,
            output,
            format,
            timer: true,
            parameters: Parameters::default(),
            width,
            signals: Signals::default(),
        }
    }

    /// Lets signals end the statement that runs.
    pub fn interrupted_by(self, signals: &Signals) -> Session<W> {
        Session {
            signals: signals.clone(),
            ..self
        }
    }

    /// Lets signals reach what begins now and ends when the answer is dropped, as `run` does for its statements.
    pub fn begin(&self) -> Running<'_> {
        self.signals.begin(self.database.interrupt_handle())
    }

    /// Goes on unless a signal is to end the program.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn check(&self) -> Result<(), Error> {
        self.signals.check()
    }

    /// The database that statements run on.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Where rows go.
    pub fn output(&mut self) -> &mut W {
        &mut self.output
    }

    /// Ends the session and gives the output back.
    #[cfg(test)]
    pub fn into_output(self) -> W {
        self.output
    }

    /// Runs one statement and prints its rows. `origin` is the file it is from, if it is from a file.
    ///
    /// Takes what a `StatementStream` gives, for a statement that is too long is an error like any other.
    pub fn run(
        &mut self,
        statement: Result<StatementText, SqlError>,
        origin: Option<&Path>,
    ) -> Result<Outcome, Error> {
        self.check()?;
        let begun = Instant::now();
        let statement = statement.map_err(|source| Error::Statement {
            line: source.position().line,
            source: Box::new(source.into()),
            origin: origin.map(PathBuf::from),
        })?;
        let failed = |source| Error::of_statement(source, origin, statement.start.line);
        let signals = self.signals.clone();
        let running = signals.begin(self.database.interrupt_handle());
        let bars = Bars::new();
        // In a file the position is that in the file; at the prompt and in -c that in the statement.
        let text = match origin {
            Some(_) => statement.clone(),
            None => statement.text.as_str().into(),
        };
        let prepared = self.database.prepare_text(text).map_err(failed)?;
        let values = self
            .parameters
            .of(&prepared)
            .map_err(|problem| Error::InFile {
                problem,
                origin: origin.map(PathBuf::from),
                line: statement.start.line,
            })?;
        let rows = prepared.query_with_progress(&values, &bars);
        drop(bars);
        let rows = match rows.map_err(failed) {
            // A pipe that the statement names lost its reader, which ends the statement without an error.
            Err(error @ Error::Statement { .. }) if error.is_reader_gone() => {
                return Ok(Outcome {
                    rows: None,
                    time: begun.elapsed(),
                });
            }
            rows => rows?,
        };
        for notice in rows.notices() {
            message::notice(&notice.to_string());
        }
        if rows.columns().is_empty() {
            return Ok(Outcome {
                rows: None,
                time: begun.elapsed(),
            });
        }
        running.may_be_cut();
        let mut count = 0;
        let printed = self.print(
            rows,
            is_explain(&statement.text),
            &running,
            &mut count,
            failed,
        );
        let ended = self.output.end();
        match printed {
            Err(Error::Output { source }) if PagerLeft::is_cause(&source) => {}
            printed => printed?,
        }
        Ok(Outcome {
            rows: Some(count),
            time: begun.elapsed().saturating_sub(ended.map_err(written)?),
        })
    }

    /// Says what is lost when the session ends now: a transaction that was not committed.
    pub fn end(&self) {
        if self.database.is_in_transaction() {
            message::notice(
                "the transaction was not committed and is rolled back; hint: COMMIT keeps what it changed",
            );
        }
    }

    /// Prints a text that is no answer of a statement.
    pub fn show(&mut self, text: &str) -> Result<(), Error> {
        let shown = self.output.write_all(text.as_bytes());
        let ended = self.output.end();
        match shown {
            Err(source) if PagerLeft::is_cause(&source) => Ok(()),
            shown => shown.and(ended.map(|_| ())).map_err(written),
        }
    }

    /// Prints rows and counts them.
    fn print(
        &mut self,
        mut rows: Rows,
        is_explain: bool,
        running: &Running<'_>,
        count: &mut u64,
        failed: impl Fn(zipfdb::Error) -> Error,
    ) -> Result<(), Error> {
        let columns: Vec<String> = rows
            .columns()
            .iter()
            .map(|column| column.name().to_string())
            .collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut writer: Box<dyn RowPrinter> = if is_explain && self.format == Format::Table {
            Box::new(LinesWriter::new(&mut self.output))
        } else {
            self.format
                .writer(&columns, (self.width)(), &mut self.output)
        };
        for notice in writer.notices() {
            message::notice(&notice.to_string());
        }
        let mut rows_max = 1;
        while let Some(batch) = rows.next_batch(rows_max).map_err(&failed)? {
            // Rows that are there already are not checked by the database.
            if running.is_interrupted() {
                return Err(failed(zipfdb::Error::Interrupted));
            }
            writer.batch(&batch).map_err(written)?;
            *count += batch.len() as u64;
            rows_max = (rows_max * BATCH_ROWS_FACTOR).min(BATCH_ROWS);
        }
        writer.finish().map_err(written)
    }
}

fn written(source: io::Error) -> Error {
    Error::Output { source }
}

/// Whether the answer of a statement is a tree.
pub fn is_explain(statement: &str) -> bool {
    let word = statement.split(|character: char| !character.is_ascii_alphabetic());
    word.into_iter()
        .next()
        .is_some_and(|word| word.eq_ignore_ascii_case("explain"))
}

/// The width of the terminal that standard output is, if it is one.
pub fn terminal_width() -> Option<u16> {
    terminal_size().map(|(width, _)| width)
}

/// The height of the terminal that standard output is, if it is one.
pub fn terminal_height() -> Option<u16> {
    terminal_size().map(|(_, height)| height)
}

fn terminal_size() -> Option<(u16, u16)> {
    let (Width(width), Height(height)) = terminal_size_of(io::stdout())?;
    // A terminal that does not know its size says 0.
    Some((width, height)).filter(|_| width > 0 && height > 0 && io::stdout().is_terminal())
}
