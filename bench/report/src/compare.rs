//! Two folders of runs, compared: which cells of ours have changed.
//!
//! Cells are of another engine if the row or the column names one; those are left out. Nothing here judges whether more is
//! better: that is in the unit.

use crate::table::markdown;
use crate::{Cell, MeasuredCorpus, Section, Table};

/// A change by this much is shown.
const CHANGE_MIN: f64 = 0.05;

/// Names of other engines, as rows and columns have them.
const OTHERS: [&str; 12] = [
    "FTS5", "tantivy", "gzip", "zlib", "zstd", "Zstd", "xz", "LZ4", "Snappy", "scan", "plain",
    "TADOC",
];

/// For each suite and corpus that both folders have a table of all cells of ours that changed by more than 5 %, and whether
/// the runs before and now overlap.
pub fn compare(before: &[Section], now: &[Section]) -> String {
    let mut text = String::new();
    for section in now {
        let Some(old) = before.iter().find(|old| old.name == section.name) else {
            continue;
        };
        for corpus in &section.envelope.corpora {
            let mut corpora = old.envelope.corpora.iter();
            let Some(old) = corpora.find(|old| old.name == corpus.name) else {
                continue;
            };
            let changes = changes(old, corpus);
            if !changes.rows.is_empty() {
                let table = markdown(&[("", &changes)]);
                text += &format!("### {}, {}\n\n{table}\n", section.name, corpus.name);
            }
        }
    }
    text
}

fn changes(before: &MeasuredCorpus, now: &MeasuredCorpus) -> Table {
    let mut changes = Table::new("", ["before", "now", "change, %", "runs overlap"]);
    for table in &now.tables {
        let mut tables = before.tables.iter();
        let Some(old) = tables.find(|old| old.title == table.title) else {
            continue;
        };
        for row in &table.rows {
            for column in &table.columns {
                let is_other = |other: &&str| row.name.contains(*other) || column.contains(*other);
                if OTHERS.iter().any(is_other) {
                    continue;
                }
                let (was, is) = (old.cell(&row.name, column), table.cell(&row.name, column));
                let Some((left, right)) = was.value().zip(is.value()) else {
                    continue;
                };
                let change = right / left - 1.0;
                if change.abs() > CHANGE_MIN {
                    let names = [&*table.title, &*row.name, &**column];
                    let names = names.into_iter().filter(|name| !name.is_empty());
                    let name = names.collect::<Vec<_>>().join(": ");
                    let overlap = f64::from(u8::from(do_overlap(was, is)));
                    changes.row(name, [left, right, (change * 100.0).round(), overlap]);
                }
            }
        }
    }
    changes
}

/// Whether the ranges of both sets of runs have a number in common.
fn do_overlap(left: Cell, right: Cell) -> bool {
    match (left, right) {
        (Cell::Runs([_, left, left_most]), Cell::Runs([_, right, right_most])) => {
            left <= right_most && right <= left_most
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::envelope;

    fn section(scale: f64) -> Vec<Section> {
        let mut envelope = envelope();
        for row in envelope
            .corpora
            .iter_mut()
            .flat_map(|corpus| &mut corpus.tables)
        {
            for cell in row.rows.iter_mut().flat_map(|row| &mut row.cells) {
                *cell = match *cell {
                    Cell::Runs(runs) => Cell::Runs(runs.map(|run| run * scale)),
                    other => Cell::from(other.value().map(|value| value * scale)),
                };
            }
        }
        envelope.corpora.truncate(1);
        vec![Section {
            name: "tasks".to_owned(),
            envelope,
            commentary: String::new(),
        }]
    }

    #[test]
    fn cells_of_ours_that_changed_are_shown() {
        let text = "\
### tasks, a

|                    | before |  now | change, % | runs overlap |
|--------------------|-------:|-----:|----------:|-------------:|
| ms: count: ZipfDB  |      4 | 4.40 |        10 |            1 |
| ns: a step: ZipfDB |      5 | 5.50 |        10 |            0 |

";
        assert_eq!(compare(&section(1.0), &section(1.1)), text);
    }

    #[test]
    fn small_changes_are_not_shown() {
        assert_eq!(compare(&section(1.0), &section(1.04)), "");
        assert_eq!(compare(&section(1.04), &section(1.0)), "");
    }
}
