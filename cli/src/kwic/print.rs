//! `KwicPrinter`: hits of a concordance under each other, each on a line with the text around it.
//!
//! Invariant: no control character is printed, white space within a text is one space, and a line is at most as wide as the
//! terminal, unless that has no room for a place and a hit. The first batch of lines fixes the columns; of other lines none is kept.

use std::io::{self, Write};

use unicode_width::UnicodeWidthChar;

use crate::message::{FILE_STYLE, MATCH_STYLE, NUMBER_STYLE, paint};
use crate::output::visible;

/// Lines that fix the columns.
const BATCH_LINES: usize = 1_000;

/// Cells that a hit has with the text around it on the narrowest terminal.
const ROOM_MIN: usize = 30;

/// Stands between a place and text, and between text and hit.
const PLACE_END: &str = "  ";
const BAR: &str = " | ";

/// Replaces the end of a hit that does not fit.
const DOTS: &str = "...";

/// A hit.
#[derive(Debug)]
pub(super) struct KwicLine {
    /// None if no names are printed.
    pub(super) file: Option<String>,
    /// The number of its first word in the file, from 0.
    pub(super) position: u64,
    pub(super) left: String,
    pub(super) hit: String,
    pub(super) right: String,
}

impl KwicLine {
    /// As it is printed.
    fn printed(self) -> KwicLine {
        KwicLine {
            file: self.file.map(|file| visible(&file).into_owned()),
            left: on_one_line(&self.left),
            hit: on_one_line(&self.hit),
            right: on_one_line(&self.right),
            ..self
        }
    }

    fn place_width(&self) -> usize {
        let file = self.file.as_ref().map_or(0, |file| cells(file) + 1);
        file + self.position.to_string().len()
    }
}

/// Cells of the columns.
#[derive(Debug)]
struct Columns {
    place: usize,
    left: usize,
    hit: usize,
    /// Cells of a hit, at most.
    hit_max: usize,
}

impl Columns {
    /// The columns of a batch on a terminal of this width.
    fn of(lines: &[KwicLine], width: usize) -> Columns {
        let most = |cells: &dyn Fn(&KwicLine) -> usize| lines.iter().map(cells).max().unwrap_or(0);
        let place = most(&|line| line.place_width());
        let taken = place + PLACE_END.len() + 2 * BAR.len();
        let room = width.saturating_sub(taken).max(ROOM_MIN);
        let hit_max = room / 2;
        let hit = most(&|line| cells(&line.hit)).min(hit_max);
        let sides = room - hit;
        // One side has what the other one leaves.
        let right = most(&|line| cells(&line.right)).min(sides / 2);
        let left = most(&|line| cells(&line.left)).min(sides - right);
        Columns {
            place,
            left,
            hit,
            hit_max,
        }
    }
}

/// Prints lines.
pub(super) struct KwicPrinter {
    width: usize,
    colour: bool,
    batch: Vec<KwicLine>,
    /// None before the first batch is complete.
    columns: Option<Columns>,
}

impl KwicPrinter {
    pub(super) fn new(width: usize, colour: bool) -> KwicPrinter {
        KwicPrinter {
            width,
            colour,
            batch: Vec::new(),
            columns: None,
        }
    }

    /// Prints a line, or keeps it for the first batch.
    pub(super) fn push(&mut self, line: KwicLine, output: &mut dyn Write) -> io::Result<()> {
        let line = line.printed();
        if let Some(columns) = &self.columns {
            return self.print(&line, columns, output);
        }
        self.batch.push(line);
        if self.batch.len() < BATCH_LINES {
            return Ok(());
        }
        self.finish(output)
    }

    /// Prints the lines that are kept.
    pub(super) fn finish(&mut self, output: &mut dyn Write) -> io::Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let columns = (self.columns.take()).unwrap_or_else(|| Columns::of(&batch, self.width));
        let printed = batch
            .iter()
            .try_for_each(|line| self.print(line, &columns, output));
        self.columns = Some(columns);
        printed
    }

    fn print(&self, line: &KwicLine, columns: &Columns, output: &mut dyn Write) -> io::Result<()> {
        let mut place = String::new();
        if let Some(file) = &line.file {
            place.push_str(&paint(file, FILE_STYLE, self.colour));
            place.push(':');
        }
        place.push_str(&paint(
            &line.position.to_string(),
            NUMBER_STYLE,
            self.colour,
        ));
        let place_padding = columns.place.saturating_sub(line.place_width());
        let left = tail(&line.left, columns.left);
        let left_padding = columns.left - cells(left);
        let hit = cut(&line.hit, columns.hit_max);
        let hit_padding = columns.hit.saturating_sub(cells(&hit));
        let taken = line.place_width().max(columns.place)
            + PLACE_END.len()
            + columns.left
            + cells(&hit).max(columns.hit)
            + 2 * BAR.len();
        let width = self
            .width
            .max(columns.place + PLACE_END.len() + 2 * BAR.len() + ROOM_MIN);
        let right = head(&line.right, width.saturating_sub(taken));
        let hit = paint(&hit, MATCH_STYLE, self.colour);
        let text = format!(
            "{place}{:place_padding$}{PLACE_END}{:left_padding$}{left}{BAR}{hit}{:hit_padding$}{BAR}{right}",
            "", "", ""
        );
        writeln!(output, "{}", text.trim_end())
    }
}

/// A text with one space for all white space in it and none around it, safe to be printed.
fn on_one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    visible(&words.join(" ")).into_owned()
}

fn character_cells(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// The cells that a text takes.
fn cells(text: &str) -> usize {
    text.chars().map(character_cells).sum()
}

/// The begin of a text, at most so wide.
fn head(text: &str, width: usize) -> &str {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += character_cells(character);
        if used > width {
            return &text[..at];
        }
    }
    text
}

/// The end of a text, at most so wide.
fn tail(text: &str, width: usize) -> &str {
    let mut used = 0;
    let mut from = text.len();
    for (at, character) in text.char_indices().rev() {
        let cells = character_cells(character);
        used += cells;
        if used > width {
            return &text[from..];
        }
        // A mark stays with the character before it.
        if cells > 0 {
            from = at;
        }
    }
    text
}

/// A text, with dots for its end if it is wider.
fn cut(text: &str, width: usize) -> String {
    if cells(text) <= width {
        return text.to_owned();
    }
    format!("{}{DOTS}", head(text, width.saturating_sub(DOTS.len())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn line(place: (&str, u64), (left, hit, right): (&str, &str, &str)) -> KwicLine {
        KwicLine {
            file: Some(place.0.to_owned()),
            position: place.1,
            left: left.to_owned(),
            hit: hit.to_owned(),
            right: right.to_owned(),
        }
    }

    fn print(width: usize, lines: Vec<KwicLine>) -> String {
        let mut output = Vec::new();
        let mut printer = KwicPrinter::new(width, false);
        for line in lines {
            printer.push(line, &mut output).unwrap();
        }
        printer.finish(&mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn hits_stand_under_each_other() {
        let lines = vec![
            line(("a", 1), ("one\n", "to", " be, or\n\tnot")),
            line(("bc", 10), ("be, or not ", "to be", "")),
            line(("a", 7), ("", "\u{1b}\u{4e2d}", " x\u{202e}")),
            line(("a", 8), ("\u{4e2d}e\u{301}", "to", "")),
        ];
        assert_eq!(
            print(100, lines),
            "a:1           one | to     | be, or not\n\
             bc:10  be, or not | to be  |\n\
             a:7               | \\x1b\u{4e2d} | x\\u{202e}\n\
             a:8           \u{4e2d}e\u{301} | to     |\n"
        );
    }

    #[test]
    fn lines_are_cut_to_the_terminal() {
        let words = "word ".repeat(50);
        let lines = || {
            let hits = ["to", "\u{4e2d}", &words];
            let lines = hits.map(|hit| line(("a", 1), (&words, hit, &words)));
            lines.into_iter().collect::<Vec<KwicLine>>()
        };
        for width in 41..120 {
            for line in print(width, lines()).lines() {
                assert!(cells(line) <= width, "{width}: {line}");
            }
        }
        assert_eq!(
            print(41, lines()),
            "a:1  ord word | to              | word wo\n\
             a:1  ord word | \u{4e2d}              | word wo\n\
             a:1  ord word | word word wo... | word wo\n"
        );
        // A side has the room that the other one does not need.
        assert_eq!(
            print(41, vec![line(("a", 1), (&words, "to", "."))]),
            "a:1  rd word word word word word | to | .\n"
        );
        assert_eq!(
            print(41, vec![line(("a", 1), ("", "to", &words))]),
            "a:1   | to | word word word word word wor\n"
        );
    }

    #[test]
    fn lines_after_the_first_batch_keep_its_columns() {
        let mut lines: Vec<KwicLine> = (0..BATCH_LINES)
            .map(|_| line(("a", 1), ("b", "c", "d")))
            .collect();
        lines.push(line(("ab", 1), ("xb", "cd", "def")));
        let printed = print(100, lines);
        let printed: Vec<&str> = printed.lines().collect();
        assert_eq!(printed.len(), BATCH_LINES + 1);
        assert_eq!(printed[BATCH_LINES - 1], "a:1  b | c | d");
        assert_eq!(printed[BATCH_LINES], "ab:1  b | cd | def");
    }

    #[test]
    fn marks_stay_with_their_characters() {
        let text = "ae\u{301}b";
        assert_eq!(
            [1, 2, 3].map(|width| tail(text, width)),
            ["b", "e\u{301}b", text]
        );
        assert_eq!(
            [1, 2, 3].map(|width| head(text, width)),
            ["a", "ae\u{301}", text]
        );
    }
}
