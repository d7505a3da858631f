//! The line of a statement or a query that is wrong, with a caret under the place.
//!
//! Invariant: the caret stands under the first cell of its character, whatever stands before it, and no line is wider
//! than the terminal. Messages are printed elsewhere.

use unicode_width::UnicodeWidthChar;
use zipfdb::sql::Position;

use crate::output::visible;

/// Cells that a line gets if the terminal's width is not known.
const WIDTH: usize = 100;
/// Cells that a line gets on the narrowest terminal.
const WIDTH_MIN: usize = 20;
/// Cells from one tab stop to the next.
const TAB: usize = 8;
/// Replaces text that does not fit.
const DOTS: &str = "...";

/// The line of `statement` at `position` and below it a caret, for a terminal of `width` columns. Both lines begin with
/// the number of the line and a bar, and end with a line end.
pub fn excerpt(statement: &str, position: Position, width: Option<u16>) -> String {
    let byte =
        usize::try_from(position.byte).map_or(statement.len(), |byte| byte.min(statement.len()));
    let byte = statement.floor_char_boundary(byte);
    let begin = statement[..byte].rfind('\n').map_or(0, |end| end + 1);
    let line = statement[begin..].split('\n').next().unwrap_or_default();
    let line = line.trim_end_matches('\r');
    let number = statement[..begin].matches('\n').count() + 1;
    let gutter = format!("{number:>3} | ");

    let width = width.map_or(WIDTH, usize::from);
    let room = width.saturating_sub(gutter.len() + 1).max(WIDTH_MIN);
    let (shown, caret) = window(&cells(line), (byte - begin).min(line.len()), room);
    let blank = " ".repeat(gutter.len() - 2);
    format!("{gutter}{shown}\n{blank}| {:caret$}^\n", "")
}

/// A character as it is shown.
struct Cell {
    /// Where it begins in the line.
    byte: usize,
    text: String,
    width: usize,
}

/// The characters of a line, safe to be shown: tabs are spaces, control characters are escapes.
fn cells(line: &str) -> Vec<Cell> {
    let mut column = 0;
    let mut cells = Vec::new();
    for (byte, character) in line.char_indices() {
        let text = match character {
            '\t' => " ".repeat(TAB - column % TAB),
            _ => visible(character.encode_utf8(&mut [0; 4])).into_owned(),
        };
        let width = text.chars().filter_map(UnicodeWidthChar::width).sum();
        column += width;
        cells.push(Cell { byte, text, width });
    }
    cells
}

/// A part of a line that is at most `room` cells wide and holds the character at `byte`, and the cells before that.
fn window(cells: &[Cell], byte: usize, room: usize) -> (String, usize) {
    let at = cells.partition_point(|cell| cell.byte < byte);
    let total: usize = cells.iter().map(|cell| cell.width).sum();
    if total <= room {
        let shown = cells.iter().map(|cell| cell.text.as_str()).collect();
        return (shown, cells[..at].iter().map(|cell| cell.width).sum());
    }
    // More of what is before the place, which is what was understood.
    let inner = room - 2 * DOTS.len();
    let mut first = at;
    let mut before = 0;
    while first > 0 && before + cells[first - 1].width <= inner * 3 / 4 {
        first -= 1;
        before += cells[first].width;
    }
    let mut last = at;
    let mut used = before;
    while last < cells.len() && used + cells[last].width <= inner {
        used += cells[last].width;
        last += 1;
    }
    let mut shown = String::new();
    let mut caret = before;
    if first > 0 {
        shown.push_str(DOTS);
        caret += DOTS.len();
    }
    shown.extend(cells[first..last].iter().map(|cell| cell.text.as_str()));
    if last < cells.len() {
        shown.push_str(DOTS);
    }
    (shown, caret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(statement: &str, needle: &str, width: Option<u16>) -> String {
        let byte = statement.find(needle).unwrap_or(statement.len());
        let position = Position {
            byte: byte as u64,
            ..Position::START
        };
        excerpt(statement, position, width)
    }

    #[test]
    fn the_caret_is_under_the_place() {
        assert_eq!(
            at("SELECT wrod FROM c", "wrod", None),
            "  1 | SELECT wrod FROM c\n    |        ^\n"
        );
        assert_eq!(at("SELECT", "?", None), "  1 | SELECT\n    |       ^\n");
        assert_eq!(at("", "?", None), "  1 | \n    | ^\n");
    }

    #[test]
    fn only_the_line_of_the_place_is_shown() {
        assert_eq!(
            at("SELECT\r\n  wrod\r\nFROM c", "wrod", None),
            "  2 |   wrod\n    |   ^\n"
        );
        assert_eq!(at("SELECT\n", "?", None), "  2 | \n    | ^\n");
    }

    #[test]
    fn tabs_wide_and_control_characters_keep_their_cells() {
        assert_eq!(
            at("SELECT\tx", "x", None),
            "  1 | SELECT  x\n    |         ^\n"
        );
        assert_eq!(
            at("'\u{4e2d}\u{6587}' x", "x", None),
            "  1 | '\u{4e2d}\u{6587}' x\n    |        ^\n"
        );
        // A combining accent takes no cell, an escape takes four.
        assert_eq!(
            at("'e\u{301}\u{1b}' x", "x", None),
            "  1 | 'e\u{301}\\x1b' x\n    |         ^\n"
        );
    }

    #[test]
    fn long_lines_are_cut_to_the_terminal() {
        let statement = format!("SELECT {} wrod {}", "a, ".repeat(50), "b, ".repeat(50));
        let shown = at(&statement, "wrod", Some(40));
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines.iter().all(|line| line.len() < 40), "{shown}");
        assert!(lines[0].starts_with("  1 | ...") && lines[0].ends_with("..."));
        assert_eq!(lines[1].find('^'), lines[0].find("wrod"));

        for width in 0..60 {
            for (byte, _) in statement.char_indices() {
                let position = Position {
                    byte: byte as u64,
                    ..Position::START
                };
                let shown = excerpt(&statement, position, Some(width));
                let lines: Vec<&str> = shown.lines().collect();
                let caret = lines[1].find('^').unwrap_or_default();
                assert_eq!(lines[0].as_bytes()[caret], statement.as_bytes()[byte]);
            }
        }
    }
}
