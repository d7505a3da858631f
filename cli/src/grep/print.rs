//! `Printer`: lines with their file, number and context, in the form that the arguments ask for.
//!
//! Invariant: a line is printed once, and lines come in order. It knows neither the expression nor the database.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;

use super::json::JsonWriter;
use super::lines::{FileLines, Selected};
use crate::arguments::GrepArguments;
use crate::error::Error;
use crate::message::{FILE_STYLE, MATCH_STYLE, NUMBER_STYLE, paint};
use crate::output::visible;

/// Prints the lines of one file after the other.
pub(super) struct Printer<'a> {
    arguments: &'a GrepArguments,
    is_terminal: bool,
    colour: bool,
    json: JsonWriter,
    file: String,
    /// Lines and matches of the file at hand.
    lines: u64,
    matches: u64,
    /// Behind the last line that was printed of the file, and the number of the next one; none before the first.
    printed: Option<(u64, u64)>,
    /// Whether what stands before the lines of the file was printed.
    is_begun: bool,
    /// Whether a line was selected in any file.
    has_lines: bool,
    /// Whether anything was printed of a file before.
    has_files: bool,
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        arguments: &'a GrepArguments,
        is_terminal: bool,
        colour: bool,
    ) -> Printer<'a> {
        Printer {
            arguments,
            is_terminal,
            colour: arguments.corpus.is_coloured().unwrap_or(colour),
            json: JsonWriter::default(),
            file: String::new(),
            lines: 0,
            matches: 0,
            printed: None,
            is_begun: false,
            has_lines: false,
            has_files: false,
        }
    }

    /// Whether a line was selected.
    pub(super) fn has_lines(&self) -> bool {
        self.has_lines
    }

    /// Begins a file.
    pub(super) fn begin(&mut self, file: &str) {
        self.file = file.to_owned();
        (self.lines, self.matches, self.printed) = (0, 0, None);
        self.is_begun = false;
    }

    /// Whether more lines of the file are wanted.
    pub(super) fn wants_more(&self) -> bool {
        let most = if self.arguments.files_with_matches {
            Some(1)
        } else {
            self.arguments.max_count
        };
        most.is_none_or(|most| self.lines < most)
    }

    /// Prints lines with their context.
    pub(super) fn print(
        &mut self,
        lines: &mut FileLines<'_>,
        selected: &Selected,
        output: &mut dyn Write,
    ) -> Result<(), Error> {
        if !self.wants_more() {
            return Ok(());
        }
        self.has_lines = true;
        self.matches += selected.matches.len() as u64;
        if self.arguments.count || self.arguments.files_with_matches {
            self.lines += lines.count_lines(selected.bytes.clone())?;
            return Ok(());
        }
        self.print_context_before(lines, selected, output)?;
        self.print_head(output)?;
        if self.arguments.json {
            let text = lines.read(selected.bytes.clone())?;
            let written = self.json.matched(&self.file, selected, text, output);
            written.map_err(|source| Error::Output { source })?;
            let count = lines.count_lines(selected.bytes.clone())?;
            self.lines += count;
            self.printed = Some((selected.bytes.end, selected.line + count));
            return Ok(());
        }
        if self.arguments.only_matching {
            return self.print_matches(lines, selected, output);
        }
        let (mut start, mut line) = (selected.bytes.start, selected.line);
        while start < selected.bytes.end {
            let end = lines.end_of_line(start)?;
            let text = lines.read(start..end)?.to_vec();
            let within = selected.matches.iter().filter_map(|found| {
                let range = found.start.max(start)..found.end.min(end);
                // Within the line.
                (range.start < range.end)
                    .then(|| (range.start - start) as usize..(range.end - start) as usize)
            });
            let within: Vec<Range<usize>> = within.collect();
            self.print_line(b':', (line, &text), &within, output)?;
            self.lines += 1;
            (start, line) = (end, line + 1);
        }
        self.printed = Some((start, line));
        Ok(())
    }

    /// Prints the matches alone.
    fn print_matches(
        &mut self,
        lines: &mut FileLines<'_>,
        selected: &Selected,
        output: &mut dyn Write,
    ) -> Result<(), Error> {
        let (mut start, mut line) = (selected.bytes.start, selected.line);
        for found in &selected.matches {
            loop {
                let end = lines.end_of_line(start)?;
                if end > found.start || end == start {
                    break;
                }
                (start, line) = (end, line + 1);
            }
            if found.is_empty() {
                continue;
            }
            let text = lines.read(found.clone())?.to_vec();
            let all = 0..text.len();
            self.print_line(b':', (line, &text), &[all], output)?;
        }
        self.lines += lines.count_lines(selected.bytes.clone())?;
        Ok(())
    }

    /// Prints the lines between the last ones and these that are in the context of either.
    fn print_context_before(
        &mut self,
        lines: &mut FileLines<'_>,
        selected: &Selected,
        output: &mut dyn Write,
    ) -> Result<(), Error> {
        let (before, after) = self.arguments.context();
        let has_context = before > 0 || after > 0;
        if !has_context || self.arguments.only_matching && !self.arguments.json {
            return Ok(());
        }
        self.print_context_after(lines, selected.bytes.start, output)?;
        // The lines before, back to those that are printed.
        let from = self.printed.map_or(0, |(end, _)| end);
        let (mut start, mut line) = (selected.bytes.start, selected.line);
        for _ in 0..before {
            if start <= from {
                break;
            }
            start = lines.start_of_line(start - 1)?;
            line -= 1;
        }
        let is_apart = match self.printed {
            Some((end, _)) => start > end,
            None => self.has_files && !self.is_headed(),
        };
        if is_apart && !self.arguments.json {
            self.write(output, b"--\n")?;
        }
        self.print_head(output)?;
        self.print_context(lines, (start..selected.bytes.start, line), u64::MAX, output)
    }

    /// Prints the lines behind the last ones that are in their context, up to a place.
    fn print_context_after(
        &mut self,
        lines: &mut FileLines<'_>,
        to: u64,
        output: &mut dyn Write,
    ) -> Result<(), Error> {
        match self.printed {
            Some((start, line)) => {
                let (_, after) = self.arguments.context();
                self.print_context(lines, (start..to, line), after, output)
            }
            None => Ok(()),
        }
    }

    /// Prints lines of a range that begins with line number `line`, `most` of them at most.
    fn print_context(
        &mut self,
        lines: &mut FileLines<'_>,
        (bytes, line): (Range<u64>, u64),
        most: u64,
        output: &mut dyn Write,
    ) -> Result<(), Error> {
        let (mut start, mut line) = (bytes.start, line);
        for _ in 0..most {
            if start >= bytes.end {
                break;
            }
            let end = lines.end_of_line(start)?;
            let text = lines.read(start..end)?.to_vec();
            if self.arguments.json {
                let written = (self.json).context(&self.file, (line, start), &text, output);
                written.map_err(|source| Error::Output { source })?;
            } else {
                self.print_line(b'-', (line, &text), &[], output)?;
            }
            (start, line) = (end, line + 1);
            self.printed = Some((start, line));
        }
        Ok(())
    }

    /// Whether the name of a file stands above its lines.
    fn is_headed(&self) -> bool {
        self.is_terminal && !self.arguments.no_filename
    }

    /// Prints what stands before the first line of a file.
    fn print_head(&mut self, output: &mut dyn Write) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        if self.arguments.json {
            let written = self.json.begin(&self.file, output);
            return written.map_err(|source| Error::Output { source });
        }
        if self.is_headed() {
            let apart = if self.has_files { "\n" } else { "" };
            let name = self.shown_name();
            self.write(output, format!("{apart}{name}\n").as_bytes())?;
        }
        self.has_files = true;
        Ok(())
    }

    fn shown_name(&self) -> String {
        let name = if self.is_terminal {
            visible(&self.file)
        } else {
            Cow::Borrowed(&self.file[..])
        };
        paint(&name, FILE_STYLE, self.colour)
    }

    /// Prints a line with what stands before it.
    fn print_line(
        &mut self,
        separator: u8,
        (line, text): (u64, &[u8]),
        matches: &[Range<usize>],
        output: &mut dyn Write,
    ) -> Result<(), Error> {
        let mut all = Vec::with_capacity(text.len() + 64);
        if !self.arguments.no_filename && !self.is_headed() {
            all.extend(self.shown_name().bytes());
            all.push(separator);
        }
        if self.arguments.line_number || self.is_terminal {
            all.extend(paint(&line.to_string(), NUMBER_STYLE, self.colour).bytes());
            all.push(separator);
        }
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let mut from = 0;
        for found in matches {
            let to = found.end.min(text.len());
            let start = found.start.min(to);
            self.push_text(&text[from..start], None, &mut all);
            self.push_text(&text[start..to], Some(MATCH_STYLE), &mut all);
            from = to;
        }
        self.push_text(&text[from..], None, &mut all);
        all.push(b'\n');
        self.write(output, &all)
    }

    /// Appends text of a file.
    fn push_text(&self, text: &[u8], style: Option<&str>, all: &mut Vec<u8>) {
        let style = style.filter(|_| self.colour && !text.is_empty());
        if let Some(style) = style {
            all.extend(format!("\u{1b}[{style}m").bytes());
        }
        if self.is_terminal {
            // Tabs move to the next stop only.
            let parts = text.split(|byte| *byte == b'\t');
            for (index, part) in parts.enumerate() {
                all.extend((index > 0).then_some(b'\t'));
                all.extend(visible(&String::from_utf8_lossy(part)).bytes());
            }
        } else {
            all.extend_from_slice(text);
        }
        if style.is_some() {
            all.extend(b"\x1b[0m");
        }
    }

    /// Ends a file.
    pub(super) fn end_file(
        &mut self,
        lines: &mut FileLines<'_>,
        output: &mut dyn Write,
    ) -> Result<(), Error> {
        if self.lines == 0 {
            return Ok(());
        }
        if self.arguments.files_with_matches {
            let name = self.shown_name();
            return self.write(output, format!("{name}\n").as_bytes());
        }
        if self.arguments.count {
            let count = if self.arguments.only_matching {
                self.matches
            } else {
                self.lines
            };
            let before = if self.arguments.no_filename {
                String::new()
            } else {
                self.shown_name() + ":"
            };
            return self.write(output, format!("{before}{count}\n").as_bytes());
        }
        if !self.arguments.only_matching || self.arguments.json {
            self.print_context_after(lines, lines.length(), output)?;
        }
        if self.arguments.json {
            let counts = (self.lines, self.matches);
            let written = self.json.end(&self.file, counts, output);
            written.map_err(|source| Error::Output { source })?;
        }
        Ok(())
    }

    /// Ends the output.
    pub(super) fn end(&mut self, output: &mut dyn Write) -> Result<(), Error> {
        if self.arguments.json {
            let written = self.json.summary(output);
            written.map_err(|source| Error::Output { source })?;
        }
        Ok(())
    }

    fn write(&self, output: &mut dyn Write, bytes: &[u8]) -> Result<(), Error> {
        let written: io::Result<()> = output.write_all(bytes);
        written.map_err(|source| Error::Output { source })
    }
}
