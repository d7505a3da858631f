//! Merges answers of partitions: segments, parts of files, parts of a root or ranges of words.
//!
//! Invariant: inputs ascend and have the numbers of the whole, and so does the result; counts of one cell of tables are added up.
//! N-grams that begin in one partition and end in a later one are found here.

use std::cmp::Reverse;

use rayon::prelude::*;
use zipfdb_kernels::{CountTable, FileOrder};

use crate::merge::sum_equal;
use crate::{Error, Result};

/// Sorted n-grams across cuts, one for each place.
pub(super) struct CutNgrams {
    /// `[places * n]`: the words of each.
    pub(super) words: Vec<u32>,
    /// `[places]`: the file of each.
    pub(super) files: Vec<u32>,
}

/// Gives the columns of a table the numbers of the corpus, which keep their order.
pub(super) fn renumber(table: &mut CountTable, number: impl Fn(u32) -> u32 + Sync) {
    let entries = table.entries.par_iter_mut();
    entries.for_each(|entry| entry.0 = number(entry.0));
}

/// Merges tables, one a segment, to one of `row_count` rows; `number` returns the row of the result for the row of a segment.
/// Counts of one column of one row are added up.
pub(super) fn merge(
    row_count: usize,
    tables: Vec<CountTable>,
    number: impl Fn(usize, u32) -> u32 + Sync,
) -> Result<CountTable> {
    let mut sources: Vec<Vec<(usize, usize)>> = vec![Vec::new(); row_count];
    for (segment, table) in tables.iter().enumerate() {
        for row in 0..table.rows() {
            // Rows are words or files, which are u32.
            sources[number(segment, row as u32) as usize].push((segment, row));
        }
    }
    let rows: Vec<Vec<(u32, u32)>> = (sources.par_iter())
        .map(|sources| {
            let rows = sources.iter();
            let rows = rows.map(|&(segment, row)| tables[segment].row(row));
            let mut merged = rows.collect::<Vec<_>>().concat();
            add_up(&mut merged)?;
            Ok(merged)
        })
        .collect::<Result<_>>()?;
    Ok(CountTable::of_rows(rows))
}

/// Sorts a row by column and adds up the counts of each.
pub(super) fn add_up(row: &mut Vec<(u32, u32)>) -> Result<()> {
    row.sort_unstable_by_key(|&(column, _)| column);
    let mut fits = true;
    sum_equal(
        row,
        |left, right| left.0 == right.0,
        |kept, next| {
            let sum = kept.1.checked_add(next.1);
            fits &= sum.is_some();
            kept.1 = sum.unwrap_or(u32::MAX);
        },
    );
    if fits {
        return Ok(());
    }
    Err(Error::Invalid {
        subject: "count".into(),
        reason: "a word or n-gram occurs more than 4294967295 times in one file".into(),
    })
}

/// Sorts files with counts by an order.
pub(super) fn sort_files(files: &mut [(u32, u32)], order: FileOrder) {
    match order {
        FileOrder::File => files.sort_unstable(),
        FileOrder::Count => files.sort_unstable_by_key(|&(file, count)| (Reverse(count), file)),
    }
}

/// A window of words that begins in one part of a text and ends in a later one.
pub(super) struct CutWindow<'a> {
    pub(super) words: &'a [u32],
    /// The part in which it begins.
    pub(super) part: usize,
    /// The number of words from its first word to the end of that part.
    pub(super) words_of_part: usize,
}

/// Calls `visit` with all windows of n words that cross from one of the parts of a text to the next. `edge` returns the first or,
/// with `true`, the last words of a part, at most n - 1.
pub(super) fn for_each_cut<P>(
    parts: &[P],
    n: usize,
    edge: impl Fn(&P, bool) -> Result<Vec<u32>>,
    mut visit: impl FnMut(CutWindow<'_>),
) -> Result<()> {
    for part in 0..parts.len().saturating_sub(1) {
        let mut words = edge(&parts[part], true)?;
        let before = words.len();
        for next in &parts[part + 1..] {
            if words.len() - before >= n - 1 {
                break;
            }
            words.extend(edge(next, false)?);
        }
        words.truncate(before + n - 1);
        for (first, words) in words.windows(n).enumerate() {
            visit(CutWindow {
                words,
                part,
                words_of_part: before - first,
            });
        }
    }
    Ok(())
}

/// Sorts n-grams, each with its file.
pub(super) fn sorted(mut found: Vec<(Vec<u32>, u32)>) -> CutNgrams {
    found.sort_unstable();
    let files = found.iter().map(|&(_, file)| file).collect();
    let words = found.into_iter().flat_map(|(words, _)| words).collect();
    CutNgrams { words, files }
}
