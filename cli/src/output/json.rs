//! JSON: one array of objects for each result, or one object on each line.
//!
//! Invariant: rows are printed as they come. A result that failed half-way has no closing bracket, so that no reader
//! takes it for a whole one.

use std::io::{self, Write};

use zipfdb::Value;

use super::row_writer::RowWriter;
use super::value::hex;

/// One array of objects.
pub struct JsonWriter<'a> {
    rows: JsonlWriter<'a>,
    started: bool,
}

impl<'a> JsonWriter<'a> {
    /// Prints nothing yet.
    pub fn new(columns: &[&str], output: &'a mut dyn Write) -> JsonWriter<'a> {
        JsonWriter {
            rows: JsonlWriter::new(columns, output),
            started: false,
        }
    }
}

impl RowWriter for JsonWriter<'_> {
    fn row(&mut self, values: &[Value]) -> io::Result<()> {
        self.rows
            .output
            .write_all(if self.started { b",\n " } else { b"[" })?;
        self.started = true;
        self.rows.object(values)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.rows
            .output
            .write_all(if self.started { b"]\n" } else { b"[]\n" })
    }
}

/// One object on each line.
pub struct JsonlWriter<'a> {
    /// The names, each quoted and followed by a colon.
    keys: Vec<String>,
    output: &'a mut dyn Write,
}

impl<'a> JsonlWriter<'a> {
    /// Prints nothing yet.
    pub fn new(columns: &[&str], output: &'a mut dyn Write) -> JsonlWriter<'a> {
        let keys = columns
            .iter()
            .map(|name| format!("{}:", serde_json::Value::from(*name)))
            .collect();
        JsonlWriter { keys, output }
    }

    fn object(&mut self, values: &[Value]) -> io::Result<()> {
        self.output.write_all(b"{")?;
        for (index, (key, value)) in self.keys.iter().zip(values).enumerate() {
            if index > 0 {
                self.output.write_all(b",")?;
            }
            self.output.write_all(key.as_bytes())?;
            write_value(value, self.output)?;
        }
        self.output.write_all(b"}")
    }
}

impl RowWriter for JsonlWriter<'_> {
    fn row(&mut self, values: &[Value]) -> io::Result<()> {
        self.object(values)?;
        self.output.write_all(b"\n")
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_value(value: &Value, output: &mut dyn Write) -> io::Result<()> {
    match value {
        Value::Null => output.write_all(b"null"),
        Value::Integer(number) => write!(output, "{number}"),
        // JSON has no infinities and no NaN; serde_json writes null for them.
        Value::Real(number) => Ok(serde_json::to_writer(output, number)?),
        Value::Text(text) => Ok(serde_json::to_writer(output, text)?),
        Value::Blob(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(serde_json::to_writer(output, text)?),
            Err(_) => write!(output, "{{\"hex\":\"{}\"}}", hex(bytes)),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::output::Format;
    use crate::output::testing::{awkward_rows, print, print_columns};

    #[test]
    fn jsonl_is_exactly_this() {
        let expected = concat!(
            "{\"name\":\"plain\",\"n\":1,\"data\":\"text\"}\n",
            "{\"name\":null,\"n\":-9223372036854775808,\"data\":{\"hex\":\"ff001b\"}}\n",
            "{\"name\":\"\",\"n\":0.5,\"data\":\"\"}\n",
            "{\"name\":\"a,b|c\\\"d\\\"\\\\e\",\"n\":1e+300,\"data\":\"tab\\there\"}\n",
            "{\"name\":\"two\\r\\nlines\",\"n\":2.0,\"data\":\"\\u001b[31mred\u{202e}\u{85}\"}\n",
        );
        assert_eq!(print(Format::Jsonl, None, &awkward_rows()), expected);
    }

    #[test]
    fn json_is_the_array_of_the_jsonl_objects() {
        let rows = awkward_rows();
        let array: serde_json::Value =
            serde_json::from_str(&print(Format::Json, None, &rows)).unwrap();
        let lines: Vec<serde_json::Value> = print(Format::Jsonl, None, &rows)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(array, serde_json::Value::from(lines));
    }

    #[test]
    fn no_rows_are_an_empty_array() {
        assert_eq!(print(Format::Json, None, &[]), "[]\n");
        assert_eq!(print(Format::Jsonl, None, &[]), "");
    }

    #[test]
    fn numbers_that_json_lacks_are_null() {
        let row = vec![Value::Real(f64::NAN), Value::Real(f64::INFINITY)];
        assert_eq!(
            print_columns(Format::Jsonl, &["a\"", "b"], None, &[row]),
            "{\"a\\\"\":null,\"b\":null}\n"
        );
    }
}
