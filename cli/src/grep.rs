//! `zipf grep`: the lines of a corpus that match a regular expression, printed as ripgrep prints them.
//!
//! Matches come from `grep()`, and lines are read around them. Invariant: standard output carries lines and nothing else, each line
//! once; exit codes are those of ripgrep: 0 there is a line, 1 there is none, 2 an error. On a terminal control characters of files
//! are shown as escapes.

mod json;
mod lines;
mod print;

use std::io::{self, IsTerminal, Write};
use std::iter::Peekable;
use std::ops::Range;

use zipfdb::{Row, Snapshot, Value};

use self::lines::{FileLines, Selected};
use self::print::Printer;
use crate::arguments::GrepArguments;
use crate::corpus::{self, SearchedCorpus, failed};
use crate::error::Error;
use crate::interrupt::Signals;
use crate::message;

/// A match of the expression.
#[derive(Debug, Clone)]
struct FoundMatch {
    file: String,
    /// The number of its first line, from 1.
    line: u64,
    bytes: Range<u64>,
}

/// The matches that come, in order of file and offset.
type Matches<'a> = Peekable<Box<dyn Iterator<Item = Result<FoundMatch, Error>> + 'a>>;

/// Prints the lines. Returns whether there are some.
pub fn run(arguments: &GrepArguments, signals: &Signals) -> Result<bool, Error> {
    corpus::search(&arguments.corpus, signals, |corpus, output| {
        let SearchedCorpus { reader, name } = corpus;
        let snapshot = reader.snapshot(name).map_err(failed)?;
        let sql = "SELECT file, line, offset, length FROM grep(?, ?, ?)";
        let parameters = [name.clone(), arguments.expression(), arguments.flags()].map(Value::Text);
        let rows = reader.query(sql, &parameters).map_err(failed)?;
        let found = rows.map(move |row| row.and_then(|row| found(&row)).map_err(failed));
        let matches: Matches<'_> = (Box::new(found) as Box<dyn Iterator<Item = _>>).peekable();
        print_all(arguments, &snapshot, matches, output)
    })
}

fn found(row: &Row) -> zipfdb::Result<FoundMatch> {
    let offset: u64 = row.get(2)?;
    let length: u64 = row.get(3)?;
    Ok(FoundMatch {
        file: row.get(0)?,
        line: row.get(1)?,
        bytes: offset..offset.saturating_add(length),
    })
}

/// Prints the lines of all files.
fn print_all(
    arguments: &GrepArguments,
    snapshot: &Snapshot,
    mut matches: Matches<'_>,
    output: &mut dyn Write,
) -> Result<bool, Error> {
    let is_terminal = io::stdout().is_terminal();
    let mut printer = Printer::new(arguments, is_terminal, message::is_coloured(&io::stdout()));
    if arguments.invert_match {
        for file in snapshot.files() {
            let mut lines = FileLines::new(snapshot, &file.name, file.bytes);
            print_file(arguments, &mut printer, &mut lines, &mut matches, output)?;
        }
    } else {
        while let Some(next) = matches.peek() {
            let Ok(FoundMatch { file, .. }) = next else {
                matches.next().transpose()?;
                continue;
            };
            let file = file.clone();
            let bytes = snapshot.file(&file).map_or(0, |file| file.bytes);
            let mut lines = FileLines::new(snapshot, &file, bytes);
            print_file(arguments, &mut printer, &mut lines, &mut matches, output)?;
        }
    }
    printer.end(output)?;
    Ok(printer.has_lines())
}

/// Prints the lines of a file, and takes all its matches.
fn print_file(
    arguments: &GrepArguments,
    printer: &mut Printer<'_>,
    lines: &mut FileLines<'_>,
    matches: &mut Matches<'_>,
    output: &mut dyn Write,
) -> Result<(), Error> {
    printer.begin(lines.name());
    // Lines to print; one may still get more matches.
    let mut selected: Option<Selected> = None;
    // Where the first line begins that no match was seen in, and its number.
    let mut rest = (0, 1);
    let name = lines.name().to_owned();
    let is_of_file = |next: &Result<FoundMatch, Error>| match next {
        Ok(found) => found.file == name,
        Err(_) => true,
    };
    while let Some(next) = matches.next_if(is_of_file) {
        let found = next?;
        if !printer.wants_more() {
            continue;
        }
        if lines.is_behind_last(found.bytes.start)? {
            continue;
        }
        let first = lines.start_of_line(found.bytes.start)?;
        // A match that ends behind a line feed does not touch the next line.
        let last = found.bytes.end.saturating_sub(1).max(found.bytes.start);
        let end = lines.end_of_line(last)?;
        if let Some(known) = &mut selected
            && first < known.bytes.end
        {
            known.bytes.end = known.bytes.end.max(end);
            known.matches.push(found.bytes);
            continue;
        }
        if let Some(known) = selected.take() {
            finish(arguments, printer, lines, known, &mut rest, output)?;
        }
        selected = Some(Selected {
            line: found.line,
            bytes: first..end,
            matches: vec![found.bytes],
        });
    }
    if let Some(known) = selected.take() {
        finish(arguments, printer, lines, known, &mut rest, output)?;
    }
    if arguments.invert_match {
        let end = lines.length();
        print_between(printer, lines, (rest.0..end, rest.1), output)?;
    }
    printer.end_file(lines, output)
}

/// Prints matching lines, or those before them that do not match.
fn finish(
    arguments: &GrepArguments,
    printer: &mut Printer<'_>,
    lines: &mut FileLines<'_>,
    selected: Selected,
    rest: &mut (u64, u64),
    output: &mut dyn Write,
) -> Result<(), Error> {
    if !arguments.invert_match {
        return printer.print(lines, &selected, output);
    }
    let (start, line) = *rest;
    print_between(printer, lines, (start..selected.bytes.start, line), output)?;
    let count = lines.count_lines(selected.bytes.clone())?;
    *rest = (selected.bytes.end, selected.line + count);
    Ok(())
}

/// Prints all lines of a range that begins with line number `line`.
fn print_between(
    printer: &mut Printer<'_>,
    lines: &mut FileLines<'_>,
    (bytes, line): (Range<u64>, u64),
    output: &mut dyn Write,
) -> Result<(), Error> {
    let (mut start, mut line) = (bytes.start, line);
    while start < bytes.end && printer.wants_more() {
        let end = lines.end_of_line(start)?;
        let selected = Selected {
            line,
            bytes: start..end,
            matches: Vec::new(),
        };
        printer.print(lines, &selected, output)?;
        (start, line) = (end, line + 1);
    }
    Ok(())
}
