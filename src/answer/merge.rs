//! Answers of partitions put together, whether these are segments, parts of files, parts of a root or ranges of words.
//!
//! Invariant: what is merged ascends and has the numbers of the whole, and so does what comes out; what belongs to equal n-grams,
//! or to one cell of tables, is joined. N-grams that begin in one partition and end in a later one are found here.

use std::cmp::Reverse;

use rayon::prelude::*;
use zipfdb_kernels::{CountTable, FileOrder, NgramFiles};

use crate::{Error, Result};

/// A sorted table of n-grams.
pub(super) struct Ngrams<T> {
    /// `[n-grams * n]`: the words of each.
    pub(super) words: Vec<u32>,
    /// What belongs to each.
    pub(super) values: Vec<T>,
}

/// Gives the columns of a table the numbers of the corpus, which ascend as the columns do.
pub(super) fn renumber(table: &mut CountTable, number: impl Fn(u32) -> u32 + Sync) {
    let entries = table.entries.par_iter_mut();
    entries.for_each(|entry| entry.0 = number(entry.0));
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

/// Puts files with counts in order.
pub(super) fn sort_files(files: &mut [(u32, u32)], order: FileOrder) {
    match order {
        FileOrder::File => files.sort_unstable(),
        FileOrder::Count => files.sort_unstable_by_key(|&(file, count)| (Reverse(count), file)),
    }
}

/// A window of words that begins in one part of a text and ends in a later one.
pub(super) struct CutWindow<'a> {
    pub(super) words: &'a [u32],
    /// The part that it begins in.
    pub(super) part: usize,
    /// How many words of that part come from its first word on.
    pub(super) words_of_part: usize,
}

/// Calls `visit` with all windows of n words that cross from one of the parts of a text to the next. `edge` gives the first or,
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

/// N-grams in any order, each with its file, sorted.
pub(super) fn sorted(mut found: Vec<(Vec<u32>, u32)>) -> Ngrams<u32> {
    found.sort_unstable();
    let values = found.iter().map(|&(_, file)| file).collect();
    let words = found.into_iter().flat_map(|(words, _)| words).collect();
    Ngrams { words, values }
}

/// Merges n-grams with their files, and such that cuts go through, each once for each place.
pub(super) fn merge_files(
    mut lists: Vec<Ngrams<Vec<(u32, u32)>>>,
    cut: Ngrams<u32>,
    n: usize,
    order: FileOrder,
) -> Result<NgramFiles> {
    lists.push(Ngrams {
        words: cut.words,
        values: cut.values.into_iter().map(|file| vec![(file, 1)]).collect(),
    });
    let mut merged = merge_all(lists, n, |row: &mut Vec<(u32, u32)>, more| row.extend(more));
    merged.values.par_iter_mut().try_for_each(|row| {
        add_up(row)?;
        if order == FileOrder::Count {
            sort_files(row, order);
        }
        Ok::<(), Error>(())
    })?;
    Ok(NgramFiles {
        words: merged.words,
        files: CountTable::of_rows(merged.values).into(),
    })
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
