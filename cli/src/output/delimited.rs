//! Comma- and tab-separated values.
//!
//! Invariant: NULL and the empty text stay apart, and a row that is read back has the values that were written. Both
//! print a header line, with the first row or at the end, and end every line in one LF. A TSV row is always one line.

use std::io::{self, Write};

use zipfdb::Value;

use super::row_writer::RowWriter;
use super::value::plain;

/// RFC 4180, but lines end in LF alone, as Unix tools and other databases write them.
///
/// Written here and not with the csv crate, whose writer cannot tell NULL (nothing) from an empty text (`""`).
pub struct CsvWriter<'a> {
    /// Until it is printed.
    header: Option<Vec<String>>,
    output: &'a mut dyn Write,
}

impl<'a> CsvWriter<'a> {
    /// Prints nothing yet.
    pub fn new(columns: &[&str], output: &'a mut dyn Write) -> CsvWriter<'a> {
        CsvWriter {
            header: Some(columns.iter().copied().map(String::from).collect()),
            output,
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        match self.header.take() {
            Some(columns) => self.line(columns.iter().map(Some)),
            None => Ok(()),
        }
    }

    fn line<T: AsRef<str>>(&mut self, fields: impl Iterator<Item = Option<T>>) -> io::Result<()> {
        for (index, field) in fields.enumerate() {
            if index > 0 {
                self.output.write_all(b",")?;
            }
            if let Some(field) = field {
                self.field(field.as_ref())?;
            }
        }
        self.output.write_all(b"\n")
    }

    fn field(&mut self, text: &str) -> io::Result<()> {
        let quoted = text.is_empty() || text.contains([',', '"', '\r', '\n']);
        if !quoted {
            return self.output.write_all(text.as_bytes());
        }
        self.output.write_all(b"\"")?;
        for (index, part) in text.split('"').enumerate() {
            if index > 0 {
                self.output.write_all(b"\"\"")?;
            }
            self.output.write_all(part.as_bytes())?;
        }
        self.output.write_all(b"\"")
    }
}

impl RowWriter for CsvWriter<'_> {
    fn row(&mut self, values: &[Value]) -> io::Result<()> {
        self.begin()?;
        self.line(values.iter().map(plain))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.begin()
    }
}

/// Tab-separated values with the escapes of PostgreSQL's COPY: `\t`, `\n`, `\r`, `\\`, and `\N` for NULL.
pub struct TsvWriter<'a> {
    /// Until it is printed.
    header: Option<Vec<String>>,
    output: &'a mut dyn Write,
}

impl<'a> TsvWriter<'a> {
    /// Prints nothing yet.
    pub fn new(columns: &[&str], output: &'a mut dyn Write) -> TsvWriter<'a> {
        TsvWriter {
            header: Some(columns.iter().copied().map(String::from).collect()),
            output,
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        match self.header.take() {
            Some(columns) => self.line(columns.iter().map(Some)),
            None => Ok(()),
        }
    }

    fn line<T: AsRef<str>>(&mut self, fields: impl Iterator<Item = Option<T>>) -> io::Result<()> {
        for (index, field) in fields.enumerate() {
            if index > 0 {
                self.output.write_all(b"\t")?;
            }
            match field {
                Some(field) => self.field(field.as_ref())?,
                None => self.output.write_all(b"\\N")?,
            }
        }
        self.output.write_all(b"\n")
    }

    fn field(&mut self, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(['\t', '\n', '\r', '\\']) {
            self.output.write_all(&rest.as_bytes()[..at])?;
            self.output.write_all(match rest.as_bytes()[at] {
                b'\t' => b"\\t",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                _ => b"\\\\",
            })?;
            rest = &rest[at + 1..];
        }
        self.output.write_all(rest.as_bytes())
    }
}

impl RowWriter for TsvWriter<'_> {
    fn row(&mut self, values: &[Value]) -> io::Result<()> {
        self.begin()?;
        self.line(values.iter().map(plain))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.begin()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::output::Format;
    use crate::output::testing::{awkward_rows, print, print_columns};

    #[test]
    fn csv_is_exactly_this() {
        let expected = concat!(
            "name,n,data\n",
            "plain,1,text\n",
            ",-9223372036854775808,X'ff001b'\n",
            "\"\",0.5,\"\"\n",
            "\"a,b|c\"\"d\"\"\\e\",1e300,tab\there\n",
            "\"two\r\nlines\",2.0,\u{1b}[31mred\u{202e}\u{85}\n",
        );
        assert_eq!(print(Format::Csv, None, &awkward_rows()), expected);
    }

    #[test]
    fn an_independent_reader_gets_the_csv_values_back() {
        let rows = awkward_rows();
        let printed = print(Format::Csv, Some(10), &rows);
        let mut reader = csv::Reader::from_reader(printed.as_bytes());
        assert_eq!(reader.headers().unwrap(), vec!["name", "n", "data"]);
        let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), rows.len());
        for (record, row) in records.iter().zip(&rows) {
            let expected: Vec<String> = row
                .iter()
                .map(|value| plain(value).unwrap_or_default().into_owned())
                .collect();
            assert_eq!(record, expected);
        }
    }

    #[test]
    fn a_single_null_is_an_empty_csv_line() {
        assert_eq!(
            print_columns(Format::Csv, &["x"], None, &[vec![Value::Null]]),
            "x\n\n"
        );
    }

    #[test]
    fn tsv_is_exactly_this() {
        let expected = concat!(
            "name\tn\tdata\n",
            "plain\t1\ttext\n",
            "\\N\t-9223372036854775808\tX'ff001b'\n",
            "\t0.5\t\n",
            "a,b|c\"d\"\\\\e\t1e300\ttab\\there\n",
            "two\\r\\nlines\t2.0\t\u{1b}[31mred\u{202e}\u{85}\n",
        );
        assert_eq!(print(Format::Tsv, None, &awkward_rows()), expected);
    }
}
