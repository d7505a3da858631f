//! A table of numbers about one corpus, and the Markdown of one such table or of the same table of several corpora.
//!
//! The invariant: a cell is a number, or the median of runs with the least and the most; units stand in titles. Names of
//! columns are unique in a table, and so are names of rows. Nothing here knows suites.

use serde::{Deserialize, Serialize};

/// A table about one corpus.
#[derive(Clone, Serialize, Deserialize)]
pub struct Table {
    /// What the rows are, or the unit of all cells.
    pub title: String,
    /// Names of the columns behind the names of the rows.
    pub columns: Vec<String>,
    /// The rows in order.
    pub rows: Vec<Row>,
    /// Whether it is printed and kept, but no part of RESULTS.md.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_detail: bool,
}

/// A row of a table.
#[derive(Clone, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// A cell a column.
    pub cells: Vec<Cell>,
}

/// What stands in one place of a table.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// Not measured.
    #[default]
    Empty,
    /// Measured once, or a count.
    Value(f64),
    /// The median of several runs, the least and the most.
    Runs([f64; 3]),
}

impl Cell {
    /// The cell of several runs.
    pub fn of_runs(runs: impl IntoIterator<Item = f64>) -> Cell {
        let mut runs: Vec<f64> = runs.into_iter().map(rounded).collect();
        runs.sort_by(f64::total_cmp);
        match runs[..] {
            [] => Cell::Empty,
            [only] => Cell::from(only),
            [least, .., most] => Cell::Runs([runs[(runs.len() - 1) / 2], least, most]),
        }
    }

    /// The number that the table shows.
    pub fn value(self) -> Option<f64> {
        match self {
            Cell::Empty => None,
            Cell::Value(value) | Cell::Runs([value, ..]) => Some(value),
        }
    }

    fn text(self) -> String {
        self.value().map_or(String::new(), digits)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        if value.is_finite() {
            Cell::Value(rounded(value))
        } else {
            Cell::Empty
        }
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Cell {
        value.map_or(Cell::Empty, Cell::from)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Cell {
        // Counts are below 2^53.
        Cell::Value(value as f64)
    }
}

/// A measured number with five digits, which are more than are shown; counts are kept whole.
fn rounded(value: f64) -> f64 {
    if value.fract() == 0.0 {
        value
    } else {
        format!("{value:.4e}").parse().unwrap_or(value)
    }
}

/// A number with about three digits; whole ones have no others.
pub fn digits(value: f64) -> String {
    match value {
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

impl Table {
    /// A table without rows.
    pub fn new<C: Into<String>>(
        title: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
    ) -> Table {
        Table {
            title: title.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            is_detail: false,
        }
    }

    /// The same, left out of RESULTS.md.
    pub fn detail(self) -> Table {
        Table {
            is_detail: true,
            ..self
        }
    }

    /// Adds a row.
    pub fn row<C: Into<Cell>>(
        &mut self,
        name: impl Into<String>,
        cells: impl IntoIterator<Item = C>,
    ) {
        self.rows.push(Row {
            name: name.into(),
            cells: cells.into_iter().map(Into::into).collect(),
        });
    }

    /// The cell in a row and a column.
    pub fn cell(&self, row: &str, column: &str) -> Cell {
        let row = self.rows.iter().find(|one| one.name == row);
        let column = self.columns.iter().position(|name| name == column);
        let found = row
            .zip(column)
            .and_then(|(row, column)| row.cells.get(column));
        found.copied().unwrap_or_default()
    }
}

/// The Markdown of one table of one or several corpora, which are named. One has the columns of the table; several have a
/// column each, in whose cells those of the table stand behind each other. Rows and columns without numbers are left out.
pub fn markdown(tables: &[(&str, &Table)]) -> String {
    let Some((_, first)) = tables.first() else {
        return String::new();
    };
    let has_numbers = |row: &str, column: &str| {
        let mut cells = tables.iter().map(|(_, table)| table.cell(row, column));
        cells.any(|cell| cell != Cell::Empty)
    };
    let mut names: Vec<&str> = Vec::new();
    for row in tables.iter().flat_map(|(_, table)| &table.rows) {
        if !names.contains(&&*row.name) {
            names.push(&row.name);
        }
    }
    let columns = first.columns.iter().map(String::as_str);
    let columns: Vec<&str> = columns
        .filter(|column| names.iter().any(|row| has_numbers(row, column)))
        .collect();
    names.retain(|row| columns.iter().any(|column| has_numbers(row, column)));
    let mut lines = Vec::new();
    if let [(_, table)] = tables {
        lines.push(line(&table.title, columns.iter().copied()));
        for row in names {
            let cells = columns.iter().map(|column| table.cell(row, column).text());
            lines.push(line(row, cells));
        }
    } else {
        let joined = columns.join(" / ");
        let title = match (&*first.title, &*joined) {
            (title, "") => title.to_owned(),
            ("", joined) => joined.to_owned(),
            (title, joined) => format!("{title}: {joined}"),
        };
        lines.push(line(&title, tables.iter().map(|(corpus, _)| *corpus)));
        for row in names {
            let cells = tables.iter().map(|(_, table)| {
                let cells = columns.iter().map(|column| table.cell(row, column).text());
                let mut cells: Vec<String> = cells.collect();
                // What is behind the last number needs no place.
                while cells.last().is_some_and(String::is_empty) {
                    cells.pop();
                }
                for cell in &mut cells {
                    if cell.is_empty() {
                        cell.push('-');
                    }
                }
                cells.join(" / ")
            });
            lines.push(line(row, cells));
        }
    }
    padded(&lines)
}

fn line<C: Into<String>>(name: &str, cells: impl IntoIterator<Item = C>) -> Vec<String> {
    let cells = cells.into_iter().map(Into::into);
    std::iter::once(name.to_owned()).chain(cells).collect()
}

/// Lines of a Markdown table, padded so that it can be read as it is.
fn padded(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(String::len).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (index, cells) in lines.iter().enumerate() {
        let (mut line, mut rule) = (String::from("|"), String::from("|"));
        for (column, width) in widths.iter().copied().enumerate() {
            let cell = cells.get(column).map_or("", String::as_str);
            if column == 0 {
                line += &format!(" {cell:<width$} |");
                rule += &format!("-{}-|", "-".repeat(width));
            } else {
                line += &format!(" {cell:>width$} |");
                rule += &format!("-{}:|", "-".repeat(width));
            }
        }
        text += &line;
        text.push('\n');
        if index == 0 {
            text += &rule;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speeds(ours: f64) -> Table {
        let mut table = Table::new("ms", ["ZipfDB", "a device", "scan"]);
        table.row("count", [Cell::from(ours), Cell::Empty, Cell::from(12.0)]);
        table.row("nothing", [Cell::Empty; 3]);
        table.row("open", [Cell::from(0.5), Cell::Empty, Cell::Empty]);
        table
    }

    #[test]
    fn one_corpus_has_the_columns_of_the_table() {
        let text = "\
| ms    | ZipfDB | scan |
|-------|-------:|-----:|
| count |   1.23 |   12 |
| open  |  0.500 |      |
";
        assert_eq!(markdown(&[("a", &speeds(1.234))]), text);
    }

    #[test]
    fn several_corpora_have_a_column_each() {
        let text = "\
| ms: ZipfDB / scan |         a |         b |
|-------------------|----------:|----------:|
| count             | 1.23 / 12 | 2000 / 12 |
| open              |     0.500 |     0.500 |
";
        let tables = [speeds(1.234), speeds(2000.4)];
        assert_eq!(markdown(&[("a", &tables[0]), ("b", &tables[1])]), text);
    }

    #[test]
    fn runs_are_kept_as_median_least_and_most() {
        let cell = Cell::of_runs([3.5, 1.5, 2.5, 9.5]);
        assert_eq!(cell, Cell::Runs([2.5, 1.5, 9.5]));
        assert_eq!(Cell::of_runs([]), Cell::Empty);
        assert_eq!(Cell::of_runs([1.0]), Cell::Value(1.0));
        let json = serde_json::to_string(&[cell, Cell::Empty, Cell::from(1.0 / 3.0)]);
        let json = json.expect("cells are numbers");
        assert_eq!(json, "[[2.5,1.5,9.5],null,0.33333]");
        let back: Vec<Cell> = serde_json::from_str(&json).expect("was written so");
        assert_eq!(back[..2], [cell, Cell::Empty]);
    }

    #[test]
    fn what_is_no_number_is_empty() {
        assert_eq!(Cell::from(f64::NAN), Cell::Empty);
        assert_eq!(Cell::from(f64::INFINITY), Cell::Empty);
    }
}
