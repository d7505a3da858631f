//! `zipf search`: the files of a corpus that match a query in the simple language, best first.
//!
//! Invariant: standard output carries files and nothing else. Files come from `search()`, which ranks them.

use std::io::{self, IsTerminal, Write};

use zipfdb::Value;
use zipfdb::output::{RowFormat, RowWriter};

use crate::arguments::SearchArguments;
use crate::corpus::{self, Limit, SearchedCorpus, failed};
use crate::error::Error;
use crate::interrupt::Signals;
use crate::message::{self, FILE_STYLE, NUMBER_STYLE, paint};
use crate::output::visible;

/// Files that are printed if the arguments give no number.
const FILES: u32 = 10;

/// A file that matches.
struct FoundFile {
    name: String,
    score: f64,
    hits: u64,
}

/// Prints the files. Returns whether there are some.
pub fn run(arguments: &SearchArguments, signals: &Signals) -> Result<bool, Error> {
    corpus::search(&arguments.corpus, signals, |corpus, output| {
        print_all(arguments, corpus, output)
    })
}

fn print_all(
    arguments: &SearchArguments,
    corpus: &SearchedCorpus,
    output: &mut dyn Write,
) -> Result<bool, Error> {
    let written = |source| Error::Output { source };
    let mode = [Value::Text(arguments.mode().to_owned())];
    if arguments.count {
        let sql = "SELECT COUNT(*) FROM search(?, ?, mode => ?)";
        let count = corpus.count(sql, &arguments.query, &mode)?;
        writeln!(output, "{count}").map_err(written)?;
        return Ok(count > 0);
    }
    let sql = "SELECT file, score, hits FROM search(?, ?, mode => ?)";
    let limit = Limit::new(arguments.limit, FILES);
    if arguments.json {
        let columns = ["file", "score", "hits"];
        let mut writer = RowWriter::new(RowFormat::JsonLines, columns, &mut *output);
        let listed = corpus.list(sql, &arguments.query, &mode, limit, |row| {
            writer.write_row(row.values()).map_err(written)
        })?;
        writer.finish().map_err(written)?;
        return listed.end("files", output);
    }
    // All of them, since widths of columns depend on each.
    let mut files = Vec::new();
    let listed = corpus.list(sql, &arguments.query, &mode, limit, |row| {
        files.push(FoundFile {
            name: row.get(0).map_err(failed)?,
            score: row.get(1).map_err(failed)?,
            hits: row.get(2).map_err(failed)?,
        });
        Ok(())
    })?;
    let colour = arguments.corpus.is_coloured();
    let colour = colour.unwrap_or_else(|| message::is_coloured(&io::stdout()));
    let printed = if arguments.files_with_matches {
        print_names(&files, io::stdout().is_terminal(), colour, output)
    } else {
        print_columns(&files, colour, output)
    };
    printed.map_err(written)?;
    listed.end("files", output)
}

/// Prints names, which programs read if there is no terminal.
fn print_names(
    files: &[FoundFile],
    is_terminal: bool,
    colour: bool,
    output: &mut dyn Write,
) -> io::Result<()> {
    files.iter().try_for_each(|file| {
        let name = if is_terminal {
            visible(&file.name)
        } else {
            file.name.as_str().into()
        };
        writeln!(output, "{}", paint(&name, FILE_STYLE, colour))
    })
}

fn print_columns(files: &[FoundFile], colour: bool, output: &mut dyn Write) -> io::Result<()> {
    let cells = |file: &FoundFile| (format!("{:.3}", file.score), file.hits.to_string());
    let widths = files.iter().map(|file| {
        let (score, hits) = cells(file);
        (score.len(), hits.len())
    });
    let (score_width, hits_width) = widths.fold((0, 0), |widest, width| {
        (widest.0.max(width.0), widest.1.max(width.1))
    });
    files.iter().try_for_each(|file| {
        let (score, hits) = cells(file);
        let hits = paint(&format!("{hits:>hits_width$}"), NUMBER_STYLE, colour);
        let name = paint(&visible(&file.name), FILE_STYLE, colour);
        writeln!(output, "{score:>score_width$}  {hits}  {name}")
    })
}
