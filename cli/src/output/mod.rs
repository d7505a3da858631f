//! The formats that rows are printed in, and their common part.
//!
//! Invariant: a writer prints rows as they come and keeps a bounded amount of them. It prints nothing else, so
//! that standard output is exactly the rows. Nothing here knows the database.

mod lines;
mod markdown;
mod row_printer;
mod table;
mod visible;

pub use lines::LinesWriter;
pub use row_printer::RowPrinter;
pub use visible::visible;

use std::io::Write;
use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use zipfdb::output::{RowFormat, RowWriter};

/// The way rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Columns in boxes, for reading on a terminal.
    Table,
    /// As COPY writes them to a file.
    Rows(RowFormat),
    /// A pipe table.
    Markdown,
}

/// All formats in the order of the help page.
static ALL: LazyLock<Vec<Format>> = LazyLock::new(|| {
    let rows = RowFormat::ALL.map(Format::Rows);
    [&[Format::Table], &rows[..], &[Format::Markdown]].concat()
});

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Format] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

impl Format {
    /// The name that `--format` and `.mode` know.
    pub fn name(self) -> &'static str {
        match self {
            Format::Table => "table",
            Format::Rows(format) => format.name(),
            Format::Markdown => "markdown",
        }
    }

    /// All names in the order of the help page.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|format| format.name())
    }

    /// Starts a result; prints nothing before its first row or its end. `width` is the width of the terminal, if there is one to fit.
    pub fn writer<'a>(
        self,
        columns: &[&str],
        width: Option<u16>,
        output: &'a mut dyn Write,
    ) -> Box<dyn RowPrinter + 'a> {
        match self {
            Format::Table => Box::new(table::TableWriter::new(columns, width, output)),
            Format::Rows(format) => {
                Box::new(RowWriter::new(format, columns.iter().copied(), output))
            }
            Format::Markdown => Box::new(markdown::MarkdownWriter::new(columns, output)),
        }
    }
}

#[cfg(test)]
pub mod testing {
    //! What the tests of every format share.
    #![allow(clippy::unwrap_used)]
    use zipfdb::Value;

    use super::*;

    /// Values that are hard for one format or another.
    pub fn awkward_rows() -> Vec<Vec<Value>> {
        let text = |text: &str| Value::Text(text.into());
        vec![
            vec![
                text("plain"),
                Value::Integer(1),
                Value::Blob(b"text".to_vec()),
            ],
            vec![
                Value::Null,
                Value::Integer(i64::MIN),
                Value::Blob(vec![0xff, 0x00, 0x1b]),
            ],
            vec![text(""), Value::Real(0.5), Value::Blob(vec![])],
            vec![text("a,b|c\"d\"\\e"), Value::Real(1e300), text("tab\there")],
            vec![
                text("two\r\nlines"),
                Value::Real(2.0),
                text("\u{1b}[31mred\u{202e}\u{85}"),
            ],
        ]
    }

    /// Prints `rows` under the columns `name`, `n` and `data`.
    pub fn print(format: Format, width: Option<u16>, rows: &[Vec<Value>]) -> String {
        print_columns(format, &["name", "n", "data"], width, rows)
    }

    /// Prints `rows` under `columns`.
    pub fn print_columns(
        format: Format,
        columns: &[&str],
        width: Option<u16>,
        rows: &[Vec<Value>],
    ) -> String {
        let mut output = Vec::new();
        let mut writer = format.writer(columns, width, &mut output);
        for row in rows {
            writer.row(row).unwrap();
        }
        writer.finish().unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_result_that_fails_before_its_first_row_prints_nothing() {
        for format in ALL.iter().copied() {
            let mut output = Vec::new();
            drop(format.writer(&["a", "b"], None, &mut output));
            assert!(output.is_empty(), "{format:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for format in ALL.iter().copied() {
            assert_eq!(Format::from_str(format.name(), false), Ok(format));
        }
    }
}
