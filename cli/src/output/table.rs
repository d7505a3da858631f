//! Tables for reading on a terminal.
//!
//! Invariant: nothing a value holds reaches the terminal as a control character, and at most one batch of rows is kept.
//! The first batch fixes the widths of the columns; later batches continue the same table. A table is for reading: long
//! cells are cut, with a mark that says so.

use std::borrow::Cow;
use std::io::{self, Write};

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, Width, presets,
};
use zipfdb::Value;
use zipfdb::output::value_text;

use super::row_printer::RowPrinter;
use super::visible::visible;

/// Rows that are laid out together.
const BATCH_ROWS: usize = 1_000;
/// Text of one batch. A batch holds more only by its last row.
const BATCH_BYTES: usize = 1 << 20;
/// Characters of a value that are shown.
const CELL_CHARACTERS: usize = 2_000;
/// Columns of a terminal that a column of a table needs to be worth reading, borders not counted.
const READABLE_WIDTH: usize = 6;
/// Border and padding of a column.
const FRAME_WIDTH: usize = 3;

/// Lays rows out in batches and prints them.
pub struct TableWriter<'a> {
    columns: Vec<String>,
    width: Option<u16>,
    layout: Layout,
    output: &'a mut dyn Write,
    batch: Vec<Vec<Cell>>,
    batch_bytes: usize,
    printed: Printed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// One line for each row.
    Rows,
    /// One line for each column of each row, for when the columns do not fit beside each other.
    Records,
}

/// What stands on the terminal already.
enum Printed {
    Nothing,
    /// An open table whose columns have these widths.
    Batch {
        widths: Vec<u16>,
    },
    /// This many records.
    Records {
        count: u64,
    },
}

impl<'a> TableWriter<'a> {
    /// Prints nothing yet.
    pub fn new(columns: &[&str], width: Option<u16>, output: &'a mut dyn Write) -> TableWriter<'a> {
        let columns: Vec<String> = columns
            .iter()
            .map(|name| visible(name).into_owned())
            .collect();
        let needed = columns.len() * (READABLE_WIDTH + FRAME_WIDTH) + 1;
        let layout = match width {
            Some(width) if needed > usize::from(width) => Layout::Records,
            _ => Layout::Rows,
        };
        TableWriter {
            columns,
            width,
            layout,
            output,
            batch: Vec::new(),
            batch_bytes: 0,
            printed: Printed::Nothing,
        }
    }

    fn print_batch(&mut self, is_last: bool) -> io::Result<()> {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic);
        // Without a given width comfy-table asks the terminal for one.
        table.force_no_tty();
        if let Some(width) = self.width {
            table.set_width(width);
        }
        let is_first = matches!(self.printed, Printed::Nothing);
        if is_first {
            table.set_header(&self.columns);
        } else {
            table.style_mut().top_border = LineStyle::none();
        }
        if !is_last {
            table.style_mut().bottom_border = LineStyle::none();
        }
        table.add_rows(self.batch.drain(..));
        if let Printed::Batch { widths } = &self.printed {
            table.set_constraints(
                widths
                    .iter()
                    .map(|width| ColumnConstraint::Absolute(Width::Fixed(*width))),
            );
        }
        self.batch_bytes = 0;
        let text = table.to_string();
        if is_first {
            self.printed = Printed::Batch {
                widths: column_widths(&text),
            };
        }
        writeln!(self.output, "{text}")
    }

    fn print_record(&mut self, values: &[Value]) -> io::Result<()> {
        let count = match &mut self.printed {
            Printed::Records { count } => count,
            printed => {
                *printed = Printed::Records { count: 0 };
                let Printed::Records { count } = printed else {
                    return Ok(());
                };
                count
            }
        };
        *count += 1;
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic);
        table.force_no_tty();
        if let Some(width) = self.width {
            table.set_width(width);
        }
        table.set_header([Cow::Borrowed("row"), Cow::Owned(count.to_string())]);
        for (name, value) in self.columns.iter().zip(values) {
            table.add_row([Cell::new(name), Cell::new(shown(value))]);
        }
        writeln!(self.output, "{table}")
    }
}

impl RowPrinter for TableWriter<'_> {
    fn row(&mut self, values: &[Value]) -> io::Result<()> {
        if self.layout == Layout::Records {
            return self.print_record(values);
        }
        if self.batch.len() >= BATCH_ROWS || self.batch_bytes >= BATCH_BYTES {
            self.print_batch(false)?;
        }
        let cells = values.iter().map(|value| {
            let text = shown(value);
            self.batch_bytes += text.len();
            Cell::new(text).set_alignment(match value {
                Value::Integer(_) | Value::Real(_) => CellAlignment::Right,
                _ => CellAlignment::Left,
            })
        });
        let cells = cells.collect();
        self.batch.push(cells);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        match self.layout {
            Layout::Rows => self.print_batch(true),
            Layout::Records => Ok(()),
        }
    }
}

/// The text of a value as a cell shows it.
fn shown(value: &Value) -> String {
    let text = value_text(value).unwrap_or("NULL".into());
    match text.char_indices().nth(CELL_CHARACTERS) {
        None => visible(&text).into_owned(),
        Some((end, _)) => format!("{}... ({} bytes)", visible(&text[..end]), text.len()),
    }
}

/// The widths, with padding, of the columns of a printed table, read from its top border.
fn column_widths(table: &str) -> Vec<u16> {
    let border = table.lines().next().unwrap_or_default();
    let mut widths = vec![0];
    for character in border.chars().skip(1) {
        if Some(character) == presets::UTF8_FULL_CONDENSED.top_border.junction {
            widths.push(0);
        } else if let Some(width) = widths.last_mut().filter(|width| **width < u16::MAX) {
            *width += 1;
        }
    }
    // The right corner was counted as part of the last column.
    if let Some(width) = widths.last_mut() {
        *width = width.saturating_sub(1);
    }
    widths
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::output::Format;
    use crate::output::testing::{awkward_rows, print, print_columns};

    /// Prints with the lines of the boxes as ASCII.
    fn draw(columns: &[&str], width: Option<u16>, rows: &[Vec<Value>]) -> String {
        print_columns(Format::Table, columns, width, rows)
            .chars()
            .map(|character| match character {
                '\u{2500}' | '\u{2550}' => '-',
                '\u{2502}' | '\u{2506}' => '|',
                '\u{2500}'..='\u{257f}' => '+',
                other => other,
            })
            .collect()
    }

    fn integers(range: std::ops::Range<i64>) -> Vec<Vec<Value>> {
        range
            .map(|number| vec![Value::Integer(number), Value::Text("x".into())])
            .collect()
    }

    #[test]
    fn a_table_is_exactly_this() {
        let expected = "\
+--------------+----------------------+---------------------------+
| name         | n                    | data                      |
+--------------+----------------------+---------------------------+
| plain        |                    1 | text                      |
| NULL         | -9223372036854775808 | X'ff001b'                 |
|              |                  0.5 |                           |
| a,b|c\"d\"\\e   |                1e300 | tab\\there                 |
| two\\r\\nlines |                  2.0 | \\x1b[31mred\\u{202e}\\u{85} |
+--------------+----------------------+---------------------------+
";
        assert_eq!(
            draw(&["name", "n", "data"], None, &awkward_rows()),
            expected
        );
    }

    #[test]
    fn cells_are_wrapped_to_the_terminal() {
        let row = vec![
            Value::Text("a long text with many words in it".into()),
            Value::Integer(7),
        ];
        let expected = "\
+-------------+---+
| text        | n |
+-------------+---+
| a long text | 7 |
| with many   |   |
| words in it |   |
+-------------+---+
";
        assert_eq!(draw(&["text", "n"], Some(22), &[row]), expected);
    }

    #[test]
    fn columns_that_do_not_fit_become_lines() {
        let expected = "\
+------+---+
| row  | 1 |
+------+---+
| aa   | 1 |
| bbbb | x |
+------+---+
+------+---+
| row  | 2 |
+------+---+
| aa   | 2 |
| bbbb | x |
+------+---+
";
        assert_eq!(draw(&["aa", "bbbb"], Some(18), &integers(1..3)), expected);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 12..60 {
            for line in print(Format::Table, Some(width), &awkward_rows()).lines() {
                assert!(
                    line.chars().count() <= usize::from(width),
                    "{width}: {line}"
                );
            }
        }
    }

    #[test]
    fn batches_continue_one_table() {
        let rows = integers(1..2_502);
        for width in [None, Some(80)] {
            let drawn = draw(&["number", "x"], width, &rows);
            let lines: Vec<&str> = drawn.lines().collect();
            assert_eq!(lines.len(), 3 + 2_501 + 1);
            assert_eq!(lines[0], lines[lines.len() - 1]);
            assert_eq!(lines[1], "| number | x |");
            assert_eq!(lines[3], "|      1 | x |");
            assert_eq!(lines[2_503], "|   2501 | x |");
        }
    }

    #[test]
    fn no_rows_are_a_table_with_a_header() {
        assert_eq!(
            draw(&["a", "b"], Some(80), &[]),
            "+---+---+\n| a | b |\n+---+---+\n+---+---+\n"
        );
    }

    #[test]
    fn long_cells_are_cut_and_say_so() {
        let long = Value::Text("\u{e9}".repeat(CELL_CHARACTERS + 1));
        let cell = shown(&long);
        assert!(cell.ends_with("\u{e9}... (4002 bytes)"), "{cell}");
        let exact = "x".repeat(CELL_CHARACTERS);
        assert_eq!(shown(&Value::Text(exact.clone())), exact);
    }

    #[test]
    fn wide_characters_keep_the_borders_straight() {
        let row = |text: &str| vec![Value::Text(text.into())];
        // Two ideographs are as wide as four letters.
        let drawn = draw(&["x"], None, &[row("\u{4e2d}\u{6587}"), row("abcd")]);
        assert!(drawn.contains("| \u{4e2d}\u{6587} |\n| abcd |"), "{drawn}");
    }
}
