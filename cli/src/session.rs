//! One open database and how its rows are printed: runs single statements.
//!
//! Invariant: after a statement its rows are flushed. Nothing but rows goes to the output.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use zipfdb::{Database, Rows, SqlError, StatementText};

use crate::error::Error;
use crate::output::Format;
use crate::progress::Bars;

/// An open database, an output and the way rows are printed on it.
pub struct Session<W> {
    database: Database,
    output: W,
    /// How rows are printed.
    pub format: Format,
    width: fn() -> Option<u16>,
}

/// What running a statement took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The number of rows, or `None` for a statement that has none.
    pub rows: Option<u64>,
    /// From the text to the last row printed.
    pub time: Duration,
}

impl<W: Write> Session<W> {
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
            width,
        }
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
        let begun = Instant::now();
        let statement = statement.map_err(|source| Error::Statement {
            line: source.position().line,
            source: Box::new(source.into()),
            origin: origin.map(PathBuf::from),
        })?;
        let failed = |source| Error::Statement {
            source: Box::new(source),
            origin: origin.map(PathBuf::from),
            line: statement.start.line,
        };
        let bars = Bars::new();
        let rows = self
            .database
            .query_with_progress(&statement.text, &[], &bars)
            .map_err(failed)?;
        drop(bars);
        let rows = if rows.columns().is_empty() {
            None
        } else {
            Some(self.print(rows, failed)?)
        };
        Ok(Outcome {
            rows,
            time: begun.elapsed(),
        })
    }

    fn print(&mut self, rows: Rows, failed: impl Fn(zipfdb::Error) -> Error) -> Result<u64, Error> {
        let written = |source| Error::Output { source };
        let columns: Vec<String> = rows
            .columns()
            .iter()
            .map(|column| column.name().to_string())
            .collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut count = 0;
        let mut result = Ok(());
        {
            let mut writer = self
                .format
                .writer(&columns, (self.width)(), &mut self.output)
                .map_err(written)?;
            for row in rows {
                match row {
                    Ok(row) => writer.row(row.values()).map_err(written)?,
                    Err(source) => {
                        result = Err(failed(source));
                        break;
                    }
                }
                count += 1;
            }
            if result.is_ok() {
                writer.finish().map_err(written)?;
            }
        }
        self.output.flush().map_err(written)?;
        result.map(|()| count)
    }
}

/// The width of the terminal that standard output is, if it is one.
pub fn terminal_width() -> Option<u16> {
    if io::stdout().is_terminal() {
        comfy_table::Table::new().width()
    } else {
        None
    }
}
