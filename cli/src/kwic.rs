//! `zipf kwic`: a concordance, the places of a corpus that match a query in CQL with the text around them.
//!
//! Hits come from `concordance()`, and `print` lays them out. Invariant: standard output carries hits and nothing else. Text that
//! is cut at bytes is cut at whole characters.

mod print;

use std::io::{self, Write};

use zipfdb::output::{RowFormat, RowWriter};
use zipfdb::{Row, Value};

use self::print::{KwicLine, KwicPrinter};
use crate::arguments::KwicArguments;
use crate::corpus::{self, Limit, SearchedCorpus, failed};
use crate::error::Error;
use crate::interrupt::Signals;
use crate::message;
use crate::session::terminal_width;

/// Hits that are printed if the arguments give no number.
const HITS: u32 = 50;

/// The columns of the query, and which of them are printed.
const COLUMNS: [&str; 8] = [
    "file", "position", "words", "offset", "length", "left", "hit", "right",
];
const FILE: usize = 0;
const POSITION: usize = 1;
const LEFT: usize = 5;
const HIT: usize = 6;
const RIGHT: usize = 7;

/// Columns of a line if output is no terminal.
const WIDTH: u16 = 100;

/// Bytes behind the first of a character in UTF-8, at most.
const CONTINUATION_MAX: usize = 3;

/// Prints the hits. Returns whether there are some.
pub fn run(arguments: &KwicArguments, signals: &Signals) -> Result<bool, Error> {
    corpus::search(&arguments.corpus, signals, |corpus, output| {
        print_all(arguments, corpus, output)
    })
}

fn print_all(
    arguments: &KwicArguments,
    corpus: &SearchedCorpus,
    output: &mut dyn Write,
) -> Result<bool, Error> {
    let written = |source| Error::Output { source };
    if arguments.count {
        let sql = "SELECT COUNT(*) FROM hits(?, ?)";
        let count = corpus.count(sql, &arguments.query, &[])?;
        writeln!(output, "{count}").map_err(written)?;
        return Ok(count > 0);
    }
    let (sql, parameters) = statement(arguments);
    let limit = Limit::new(arguments.limit, HITS);
    if arguments.json {
        let mut writer = RowWriter::new(RowFormat::JsonLines, COLUMNS, &mut *output);
        let listed = corpus.list(&sql, &arguments.query, &parameters, limit, |row| {
            let values = values(arguments, row);
            writer.write_row(&values).map_err(written)
        })?;
        writer.finish().map_err(written)?;
        return listed.end("hits", output);
    }
    let colour = arguments.corpus.is_coloured();
    let colour = colour.unwrap_or_else(|| message::is_coloured(&io::stdout()));
    let width = usize::from(terminal_width().unwrap_or(WIDTH));
    let mut printer = KwicPrinter::new(width, colour);
    let listed = corpus.list(&sql, &arguments.query, &parameters, limit, |row| {
        let line = line(arguments, row)?;
        printer.push(line, output).map_err(written)
    })?;
    printer.finish(output).map_err(written)?;
    listed.end("hits", output)
}

/// The statement, and its parameters behind the corpus and the query.
fn statement(arguments: &KwicArguments) -> (String, Vec<Value>) {
    let (left, right) = arguments.context();
    let unit = if arguments.bytes { "bytes" } else { "words" };
    let columns = COLUMNS.join(", ");
    let mut sql = format!(
        "SELECT {columns} FROM concordance(?, ?, left => {left}, right => {right}, unit => '{unit}'"
    );
    let mut parameters = Vec::new();
    if let Some(keys) = &arguments.sort {
        sql.push_str(", sort => ?");
        parameters.push(Value::Text(keys.clone()));
    }
    if let Some(sample) = &arguments.sample {
        sql.push_str(", sample => ?");
        parameters.push(Value::Text(sample.clone()));
    }
    if let Some(seed) = arguments.seed {
        sql.push_str(&format!(", seed => {seed}"));
    }
    sql.push(')');
    (sql, parameters)
}

/// The values of a row.
fn values(arguments: &KwicArguments, row: Row) -> Vec<Value> {
    let mut values = row.into_values();
    if arguments.bytes {
        for (column, part) in [
            (LEFT, after_cut as fn(Vec<u8>) -> Vec<u8>),
            (RIGHT, before_cut),
        ] {
            if let Value::Blob(bytes) = &mut values[column] {
                let bytes = part(std::mem::take(bytes));
                values[column] = text_or_blob(bytes);
            }
        }
    }
    values
}

/// The line of a row.
fn line(arguments: &KwicArguments, row: Row) -> Result<KwicLine, Error> {
    let position = row.get(POSITION).map_err(failed)?;
    let mut values = values(arguments, row);
    let mut text = |column: usize| match std::mem::replace(&mut values[column], Value::Null) {
        Value::Text(text) => text,
        Value::Blob(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        _ => String::new(),
    };
    Ok(KwicLine {
        file: (!arguments.no_filename).then(|| text(FILE)),
        position,
        left: text(LEFT),
        hit: text(HIT),
        right: text(RIGHT),
    })
}

/// Text whose begin may be within a character: without the rest of that.
fn after_cut(mut bytes: Vec<u8>) -> Vec<u8> {
    let is_continuation = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let rest = bytes
        .iter()
        .take(CONTINUATION_MAX)
        .take_while(is_continuation);
    let rest = rest.count();
    bytes.drain(..rest);
    bytes
}

/// Text whose end may be within a character: without the begin of that.
fn before_cut(mut bytes: Vec<u8>) -> Vec<u8> {
    let whole = match std::str::from_utf8(&bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    bytes.truncate(whole);
    bytes
}

fn text_or_blob(bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => Value::Text(text),
        Err(error) => Value::Blob(error.into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_whole_characters() {
        let text = "\u{e9}\u{4e2d}\u{1f600}".as_bytes();
        assert_eq!(after_cut(text[1..].to_vec()), text[2..]);
        assert_eq!(after_cut(text[6..].to_vec()), b"");
        assert_eq!(after_cut(text.to_vec()), text);
        assert_eq!(before_cut(text[..8].to_vec()), text[..5]);
        assert_eq!(before_cut(text[..1].to_vec()), b"");
        assert_eq!(before_cut(text.to_vec()), text);
        // Other bytes that are not UTF-8 stay.
        assert_eq!(before_cut(b"a\xffb".to_vec()), b"a\xffb");
    }
}
