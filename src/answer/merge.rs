//! Answers of segments, or of parts of one, put together.
//!
//! Invariant: what is merged ascends and has the corpus's numbers, and so does what comes out; what belongs to equal n-grams, or
//! to one cell of tables, is joined.

use rayon::prelude::*;
use zipfdb_kernels::CountTable;

use crate::{Error, Result};

/// A sorted table of n-grams.
pub(super) struct Ngrams<T> {
    /// `[n-grams * n]`: the words of each.
    pub(super) words: Vec<u32>,
    /// What belongs to each.
    pub(super) values: Vec<T>,
}

/// Gives the columns of a table the numbers of the corpus, which ascend as the columns do.
pub(super) fn renumber(table: &mut CountTable, numbers: &[u32]) {
    let entries = table.entries.par_iter_mut();
    entries.for_each(|entry| entry.0 = numbers[entry.0 as usize]);
}

/// Merges tables, one a segment, to one of `row_count` rows; `number` says which row the row of a segment becomes. Counts
/// of one column of one row are added up.
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
    row.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            let sum = kept.1.checked_add(next.1);
            fits &= sum.is_some();
            kept.1 = sum.unwrap_or(u32::MAX);
        }
        same
    });
    match fits {
        true => Ok(()),
        false => Err(Error::Invalid {
            subject: "count".into(),
            reason: "a word or n-gram occurs more than 4294967295 times in one file".into(),
        }),
    }
}

/// Puts parts that follow each other together.
pub(super) fn join<T>(parts: impl Iterator<Item = Ngrams<T>>) -> Ngrams<T> {
    let mut whole = Ngrams {
        words: Vec::new(),
        values: Vec::new(),
    };
    for part in parts {
        whole.words.extend(part.words);
        whole.values.extend(part.values);
    }
    whole
}

pub(super) fn rows(table: &CountTable) -> Vec<Vec<(u32, u32)>> {
    let rows = (0..table.rows()).into_par_iter();
    rows.map(|row| table.row(row).to_vec()).collect()
}

/// Merges sorted lists of n-grams, two at a time; what belongs to equal n-grams is `join`ed.
pub(super) fn merge_all<T: Send>(
    mut lists: Vec<Ngrams<T>>,
    n: usize,
    join: impl Fn(&mut T, T) + Sync,
) -> Ngrams<T> {
    lists.retain(|list| !list.values.is_empty());
    while lists.len() > 1 {
        let mut pairs = Vec::new();
        let mut rest = lists.into_iter();
        while let Some(left) = rest.next() {
            pairs.push((left, rest.next()));
        }
        let merged = pairs.into_par_iter().map(|(left, right)| match right {
            None => left,
            Some(right) => merge_two(left, right, n, &join),
        });
        lists = merged.collect();
    }
    let mut merged = lists.pop().unwrap_or(Ngrams {
        words: Vec::new(),
        values: Vec::new(),
    });
    join_equal(&mut merged, n, &join);
    merged
}

fn merge_two<T>(
    left: Ngrams<T>,
    right: Ngrams<T>,
    n: usize,
    join: &impl Fn(&mut T, T),
) -> Ngrams<T> {
    let mut merged = Ngrams {
        words: Vec::with_capacity(left.words.len() + right.words.len()),
        values: Vec::with_capacity(left.values.len() + right.values.len()),
    };
    let mut left = left.words.chunks_exact(n).zip(left.values).peekable();
    let mut right = right.words.chunks_exact(n).zip(right.values).peekable();
    loop {
        let take_left = match (left.peek(), right.peek()) {
            (Some((left, _)), Some((right, _))) => left <= right,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return merged,
        };
        let next = if take_left { left.next() } else { right.next() };
        let (words, value) = next.expect("it has been peeked at");
        let same = merged.words.len().checked_sub(n);
        match (same, merged.values.last_mut()) {
            (Some(last), Some(kept)) if merged.words[last..] == *words => join(kept, value),
            _ => {
                merged.words.extend_from_slice(words);
                merged.values.push(value);
            }
        }
    }
}

/// Joins neighbours that are equal: a list of places that was never merged may have them.
fn join_equal<T>(list: &mut Ngrams<T>, n: usize, join: &impl Fn(&mut T, T)) {
    let has_equal = |words: &[u32]| {
        let next = words.chunks_exact(n).skip(1);
        words.chunks_exact(n).zip(next).any(|(a, b)| a == b)
    };
    if has_equal(&list.words) {
        let whole = Ngrams {
            words: std::mem::take(&mut list.words),
            values: std::mem::take(&mut list.values),
        };
        let nothing = Ngrams {
            words: Vec::new(),
            values: Vec::new(),
        };
        *list = merge_two(whole, nothing, n, join);
    }
}
