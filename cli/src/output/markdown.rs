//! A pipe table as GitHub renders it.
//!
//! Invariant: every row is one line with one cell for each column, whatever the values hold. Columns are not padded,
//! so rows need not be kept.

use std::io::{self, Write};

use zipfdb::Value;
use zipfdb::output::value_text;

use super::row_printer::RowPrinter;
use super::visible::visible;

/// Prints a pipe table.
pub struct MarkdownWriter<'a> {
    /// Until it is printed.
    header: Option<Vec<String>>,
    output: &'a mut dyn Write,
}

impl<'a> MarkdownWriter<'a> {
    /// Prints nothing yet.
    pub fn new(columns: &[&str], output: &'a mut dyn Write) -> MarkdownWriter<'a> {
        MarkdownWriter {
            header: Some(columns.iter().copied().map(String::from).collect()),
            output,
        }
    }

    /// Prints the header and the line below it, once.
    fn begin(&mut self) -> io::Result<()> {
        let Some(columns) = self.header.take() else {
            return Ok(());
        };
        self.line(columns.iter())?;
        self.line(columns.iter().map(|_| "---"))
    }

    fn line<T: AsRef<str>>(&mut self, cells: impl Iterator<Item = T>) -> io::Result<()> {
        self.output.write_all(b"|")?;
        for cell in cells {
            write!(self.output, " {} |", escape(cell.as_ref()))?;
        }
        self.output.write_all(b"\n")
    }
}

impl RowPrinter for MarkdownWriter<'_> {
    fn row(&mut self, values: &[Value]) -> io::Result<()> {
        self.begin()?;
        self.line(
            values
                .iter()
                .map(|value| value_text(value).unwrap_or("NULL".into())),
        )
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.begin()
    }
}

fn escape(text: &str) -> String {
    let visible = visible(text);
    let mut escaped = String::with_capacity(visible.len());
    for character in visible.chars() {
        // What would end the cell or start markup; a backslash only matters before one of these.
        if matches!(
            character,
            '|' | '\\' | '`' | '*' | '_' | '<' | '[' | ']' | '&'
        ) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use crate::output::Format;
    use crate::output::testing::{awkward_rows, print};

    #[test]
    fn markdown_is_exactly_this() {
        let expected = concat!(
            "| name | n | data |\n",
            "| --- | --- | --- |\n",
            "| plain | 1 | text |\n",
            "| NULL | -9223372036854775808 | X'ff001b' |\n",
            "|  | 0.5 |  |\n",
            "| a,b\\|c\"d\"\\\\e | 1e300 | tab\\\\there |\n",
            "| two\\\\r\\\\nlines | 2.0 | \\\\x1b\\[31mred\\\\u{202e}\\\\u{85} |\n",
        );
        assert_eq!(print(Format::Markdown, None, &awkward_rows()), expected);
    }
}
