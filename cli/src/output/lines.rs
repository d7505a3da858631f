//! Plain lines, for answers that are laid out already: the tree of EXPLAIN.
//!
//! Invariant: one line for each row, its first value; nothing in it reaches the terminal as a control character.

use std::io::{self, Write};

use zipfdb::Value;

use super::row_writer::RowWriter;
use super::value::{plain, visible};

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

impl RowWriter for LinesWriter<'_> {
    fn row(&mut self, values: &[Value]) -> io::Result<()> {
        let text = values.first().and_then(plain).unwrap_or_default();
        writeln!(self.output, "{}", visible(&text))
    }

    fn finish(&mut self) -> io::Result<()> {
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
        let mut writer = LinesWriter::new(&mut output);
        for line in ["sort", "  scan: \u{1b}[2J"] {
            writer.row(&[Value::Text(line.into())]).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(output, b"sort\n  scan: \\x1b[2J\n");
    }
}
