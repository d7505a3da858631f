//! Plain lines, for answers that are laid out already: the tree of EXPLAIN.
//!
//! Invariant: one line for each row, its first value; nothing in it reaches the terminal as a control character.

use std::io::{self, Write};

use zipfdb::Value;
use zipfdb::output::value_text;

use super::row_printer::RowPrinter;
use super::visible::visible;

/// Prints the first value of each row.
pub struct LinesWriter<'a> {
    output: &'a mut dyn Write,
}

impl<'a> LinesWriter<'a> {
    /// Prints nothing yet.
    pub fn new(output: &'a mut dyn Write) -> LinesWriter<'a> {
        LinesWriter { output }
    }
}

impl RowPrinter for LinesWriter<'_> {
    fn row(&mut self, values: &[Value]) -> io::Result<()> {
        let text = values.first().and_then(value_text).unwrap_or_default();
        writeln!(self.output, "{}", visible(&text))
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn indents_stay_and_control_characters_do_not() {
        let mut output = Vec::new();
        let mut writer = Box::new(LinesWriter::new(&mut output));
        for line in ["sort", "  scan: \u{1b}[2J"] {
            writer.row(&[Value::Text(line.into())]).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(output, b"sort\n  scan: \\x1b[2J\n");
    }
}
