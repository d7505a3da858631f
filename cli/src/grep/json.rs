//! `JsonWriter`: lines as JSON objects, one a line, in the form of `rg --json`.
//!
//! Invariant: text that is UTF-8 is `text`, other bytes are `bytes` in base64. Statistics have the counts of lines and matches,
//! and no times.

use std::io::{self, Write};

use super::lines::Selected;

/// Writes objects, and counts over all files.
#[derive(Debug, Default)]
pub(super) struct JsonWriter {
    files: u64,
    lines: u64,
    matches: u64,
}

impl JsonWriter {
    /// A file begins.
    pub(super) fn begin(&mut self, file: &str, output: &mut dyn Write) -> io::Result<()> {
        self.files += 1;
        let path = text_object(file.as_bytes());
        writeln!(output, r#"{{"type":"begin","data":{{"path":{path}}}}}"#)
    }

    /// Lines with matches.
    pub(super) fn matched(
        &mut self,
        file: &str,
        selected: &Selected,
        text: &[u8],
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let start = selected.bytes.start;
        let submatches = selected.matches.iter().map(|found| {
            // Within the lines, except for an empty match at the end of the file.
            let from = (found.start - start) as usize;
            let to = (found.end - start) as usize;
            let matched = text_object(text.get(from..to).unwrap_or_default());
            format!(r#"{{"match":{matched},"start":{from},"end":{to}}}"#)
        });
        let submatches: Vec<String> = submatches.collect();
        let line = (selected.line, start);
        write_lines(output, "match", (file, line), text, &submatches.join(","))
    }

    /// A line of context, with its number and its place.
    pub(super) fn context(
        &mut self,
        file: &str,
        line: (u64, u64),
        text: &[u8],
        output: &mut dyn Write,
    ) -> io::Result<()> {
        write_lines(output, "context", (file, line), text, "")
    }

    /// A file ends, with its numbers of lines with matches and of matches.
    pub(super) fn end(
        &mut self,
        file: &str,
        (lines, matches): (u64, u64),
        output: &mut dyn Write,
    ) -> io::Result<()> {
        self.lines += lines;
        self.matches += matches;
        let path = text_object(file.as_bytes());
        let statistics = statistics(1, lines, matches);
        writeln!(
            output,
            r#"{{"type":"end","data":{{"path":{path},"binary_offset":null,"stats":{statistics}}}}}"#
        )
    }

    /// The last object.
    pub(super) fn summary(&mut self, output: &mut dyn Write) -> io::Result<()> {
        let statistics = statistics(self.files, self.lines, self.matches);
        writeln!(
            output,
            r#"{{"type":"summary","data":{{"stats":{statistics}}}}}"#
        )
    }
}

fn statistics(files: u64, lines: u64, matches: u64) -> String {
    format!(r#"{{"searches_with_match":{files},"matched_lines":{lines},"matches":{matches}}}"#)
}

fn write_lines(
    output: &mut dyn Write,
    kind: &str,
    (file, (line, offset)): (&str, (u64, u64)),
    text: &[u8],
    submatches: &str,
) -> io::Result<()> {
    let (path, text) = (text_object(file.as_bytes()), text_object(text));
    writeln!(
        output,
        r#"{{"type":"{kind}","data":{{"path":{path},"lines":{text},"line_number":{line},"absolute_offset":{offset},"submatches":[{submatches}]}}}}"#
    )
}

/// Bytes as an object.
fn text_object(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => format!(r#"{{"text":{}}}"#, quoted(text)),
        Err(_) => format!(r#"{{"bytes":"{}"}}"#, base64(bytes)),
    }
}

/// A text as a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control < ' ' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Bytes in base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            text.push(if digit <= group.len() {
                // Six bits.
                char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let texts = [
            "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy",
        ];
        for (length, text) in texts.iter().enumerate() {
            assert_eq!(base64(&b"foobar"[..length]), *text);
        }
    }
}
