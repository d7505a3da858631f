//! ORDER BY keys that are numbers, or texts whose numbers tell their order: columns are kept as they come, and row numbers sorted.
//!
//! A key becomes one or more numbers a row that compare as its values; numbers that fit into 64 bits together become one, which
//! is sorted by radix, the least significant first. Where the first key has long runs of equal values, as n-grams with their files
//! have, runs are sorted and not rows, and then the rows of equal runs by the other keys. Where rows come in order of the first
//! keys already, only rows that are equal in these are sorted. With a limit, rows that cannot be among the first are dropped
//! now and then. Invariant: the order is that of `key.rs`, and equal rows keep theirs. Whoever gives rows has to take them back
//! where they do not fit into memory.

use super::context::Context;
use super::key::{KeyOrder, real_number};
use super::word_order::{TextOrder, text_order};
use crate::Result;
use crate::batch::{BATCH_ROWS, Batch, BatchColumn, TextDictionary};
use crate::runtime::interrupt::Pace;
use crate::segment::cache::Reservation;

/// A column that rows are sorted by.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberKey {
    pub(super) column: usize,
    pub(super) order: KeyOrder,
}

/// What sorting takes for a row beside its columns: a number of each of two keys, pairs of number and row twice, and a place.
const ROW_BYTES: usize = 2 * size_of::<u64>() + 2 * size_of::<(u64, u32)>() + size_of::<u32>();

/// Fewer rows are sorted by comparing them.
const RADIX_ROWS_MIN: usize = 1 << 10;

/// Bits that one pass of the radix sort looks at, at most.
const DIGIT_BITS: u32 = 11;

/// Takes batches.
pub(super) struct NumberSort {
    keys: Vec<NumberKey>,
    /// How numbers of texts tell the order of each key, as far as that has been asked, and of which dictionary.
    orders: Vec<Option<(TextDictionary, Option<TextOrder>)>>,
    /// So many of the first keys have rows in order already.
    given: usize,
    /// Columns behind these are keys alone.
    width: usize,
    limit: Option<usize>,
    context: Context,
    reservation: Reservation,
    /// What was taken, and may be among the first.
    kept: Option<Batch>,
    kept_bytes: usize,
    /// A row with a first number beyond this is not among the first.
    bound: Option<u64>,
}

impl NumberSort {
    /// Sorts rows by `keys`, by the first `given` of which they come in order already, and gives their first `width` columns;
    /// `limit` is how many rows are asked for at most.
    pub(super) fn new(
        keys: Vec<NumberKey>,
        given: usize,
        width: usize,
        limit: Option<u64>,
        context: &Context,
    ) -> NumberSort {
        NumberSort {
            orders: vec![None; keys.len()],
            keys,
            given,
            width,
            // A limit that is larger than memory is as good as none.
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            reservation: context.reservation(),
            context: context.clone(),
            kept: None,
            kept_bytes: 0,
            bound: None,
        }
    }

    /// Takes a batch, or gives it back: if its keys are no such numbers, or if it does not fit.
    pub(super) fn take(&mut self, mut batch: Batch) -> Result<Option<Batch>> {
        if !self.can_take(&batch)? {
            return Ok(Some(batch));
        }
        if self.limit == Some(0) {
            return Ok(None);
        }
        if let (Some(bound), false) = (self.bound, self.keys.is_empty()) {
            let first = &self.numbers_of(&batch, 0)[0];
            // A batch has fewer rows than 2^32.
            let rows = (0..).zip(first).filter(|&(_, &number)| number <= bound);
            let rows: Vec<u32> = rows.map(|(row, _)| row).collect();
            if rows.is_empty() {
                return Ok(None);
            }
            if rows.len() < batch.len() {
                batch = batch.select(&rows);
            }
        }
        let bytes = bytes_of(&batch);
        if self.kept_bytes + bytes > self.context.memory {
            self.keep_first()?;
        }
        if self.kept_bytes + bytes > self.context.memory {
            return Ok(Some(batch));
        }
        self.kept_bytes += bytes;
        self.reservation.cover(self.kept_bytes);
        match &mut self.kept {
            Some(kept) => kept.append(&batch),
            none => *none = Some(batch),
        }
        let rows = self.kept.as_ref().map_or(0, Batch::len);
        if self
            .limit
            .is_some_and(|limit| rows / 2 > limit.max(BATCH_ROWS))
        {
            self.keep_first()?;
        }
        Ok(None)
    }

    /// What was taken and may be among the first, in order of arrival.
    pub(super) fn give_back(&mut self) -> Option<Batch> {
        self.kept_bytes = 0;
        self.bound = None;
        self.reservation.set(0);
        self.kept.take()
    }

    /// All rows that were taken, in order; with a limit perhaps more than it. Others may be taken from now on.
    pub(super) fn finish(&mut self) -> Result<SortedNumbers> {
        let batch = (self.kept.take()).unwrap_or_else(|| Batch::new(Vec::new(), 0, None));
        let order = self.order(&batch)?;
        self.kept_bytes = 0;
        self.bound = None;
        let unused = self.context.reservation();
        Ok(SortedNumbers {
            batch: batch.narrowed(self.width),
            order,
            next: 0,
            _reservation: std::mem::replace(&mut self.reservation, unused),
        })
    }

    /// Whether the keys of a batch are numbers of the same kind as those before, and its rows can be numbered.
    fn can_take(&mut self, batch: &Batch) -> Result<bool> {
        for index in 0..self.keys.len() {
            let column = &batch.columns()[self.keys[index].column];
            let can_take = match column {
                BatchColumn::Integers(_) | BatchColumn::Reals(_) => true,
                BatchColumn::Words { dictionary, .. } => self.settle(index, dictionary, false)?,
                BatchColumn::Ngrams { dictionary, .. } => self.settle(index, dictionary, true)?,
                BatchColumn::Texts(_) | BatchColumn::Values(_) => false,
            };
            let is_like_others = (self.kept.as_ref())
                .is_none_or(|kept| kept.columns()[self.keys[index].column].is_like(column));
            if !can_take || !is_like_others {
                return Ok(false);
            }
        }
        let rows = self.kept.as_ref().map_or(0, Batch::len) + batch.len();
        Ok(u32::try_from(rows).is_ok())
    }

    /// Finds out how numbers of texts tell the order of a key; says whether they do.
    fn settle(&mut self, key: usize, dictionary: &TextDictionary, in_ngrams: bool) -> Result<bool> {
        if let Some((known, order)) = &self.orders[key]
            && known.is_same(dictionary)
        {
            return Ok(order.is_some());
        }
        let collation = self.keys[key].order.collation;
        let order = text_order(dictionary, in_ngrams, collation, &self.context.interrupt)?;
        let is_ordered = order.is_some();
        self.orders[key] = Some((dictionary.clone(), order));
        Ok(is_ordered)
    }

    /// The rank of each text of the dictionary of a key; none if numbers are in order.
    fn ranks(&self, key: usize) -> Option<&[u32]> {
        let (dictionary, order) = self.orders[key].as_ref()?;
        order.as_ref()?.ranks(dictionary)
    }

    fn numbers_of(&self, batch: &Batch, key: usize) -> Vec<Vec<u64>> {
        let NumberKey { column, order } = self.keys[key];
        numbers_of(&batch.columns()[column], self.ranks(key), order.descending)
    }

    /// Drops what cannot be among the first rows.
    fn keep_first(&mut self) -> Result<()> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        let Some(kept) = self.kept.take() else {
            return Ok(());
        };
        let mut order = self.order(&kept)?;
        order.truncate(limit);
        if let (Some(&last), false, true) =
            (order.last(), self.keys.is_empty(), order.len() == limit)
        {
            self.bound = Some(self.numbers_of(&kept, 0)[0][last as usize]);
        }
        // In order of arrival, so that equal rows keep theirs.
        order.sort_unstable();
        let kept = kept.select(&order);
        self.kept_bytes = bytes_of(&kept);
        self.kept = Some(kept);
        Ok(())
    }

    /// The rows of a batch in order.
    fn order(&mut self, batch: &Batch) -> Result<Vec<u32>> {
        if self.keys.is_empty() || batch.is_empty() {
            // Rows are numbered by u32: `can_take` saw to it.
            return Ok((0..batch.len() as u32).collect());
        }
        let mut pace = self.context.pace();
        if self.given > 0 {
            pace.work(batch.len() * size_of::<u64>())?;
            let starts = self.changes(batch);
            if let Some(others) = self.row_keys(batch, self.given) {
                return sorted_within_runs(batch.len(), &starts, &others, &mut pace);
            }
            let mut runs: Vec<u64> = vec![0; batch.len()];
            for (run, &start) in (0..).zip(&starts) {
                runs[start as usize..end_of(&starts, run, batch.len()) as usize]
                    .fill(u64::from(run));
            }
            let mut numbers = vec![runs];
            for key in self.given..self.keys.len() {
                numbers.extend(self.numbers_of(batch, key));
            }
            return sorted_rows(batch.len(), numbers, &mut pace);
        }
        let first = self.keys[0];
        if batch.len() >= RUN_ROWS_MIN
            && let Some(starts) = runs_of(&batch.columns()[first.column])
            && let Some(others) = self.row_keys(batch, 1)
        {
            pace.work(batch.len() * size_of::<u64>())?;
            let heads = batch.columns()[first.column].select(&starts);
            let heads = numbers_of(&heads, self.ranks(0), first.order.descending);
            return sorted_by_runs(batch.len(), &starts, heads, &others, &mut pace);
        }
        let mut numbers = Vec::new();
        for key in 0..self.keys.len() {
            pace.work(batch.len() * size_of::<u64>())?;
            numbers.extend(self.numbers_of(batch, key));
        }
        sorted_rows(batch.len(), numbers, &mut pace)
    }

    /// The rows that differ from those before them in a key by which they are in order already, and the first.
    fn changes(&self, batch: &Batch) -> Vec<u32> {
        let given = self.keys[..self.given].iter();
        let columns: Vec<&BatchColumn> = given.map(|key| &batch.columns()[key.column]).collect();
        let changes = |&row: &u32| {
            let row = row as usize;
            let mut columns = columns.iter();
            row == 0 || columns.any(|column| column.has_equal_numbers(row - 1, row) == Some(false))
        };
        // Rows are numbered by u32: `can_take` saw to it.
        (0..batch.len() as u32).filter(changes).collect()
    }

    /// The keys from one on, if each is of one number a row.
    fn row_keys<'a>(&'a self, batch: &'a Batch, from: usize) -> Option<Vec<RowKey<'a>>> {
        let keys = (from..self.keys.len()).map(|key| {
            let NumberKey { column, order } = self.keys[key];
            let numbers = match &batch.columns()[column] {
                BatchColumn::Integers(integers) => RowKeyNumbers::Integers(integers),
                BatchColumn::Words { indices, .. } => {
                    RowKeyNumbers::Texts(indices, self.ranks(key))
                }
                _ => return None,
            };
            Some(RowKey {
                numbers,
                descending: order.descending,
            })
        });
        keys.collect()
    }
}

/// Fewer rows are not looked through for runs.
const RUN_ROWS_MIN: usize = 1 << 12;

/// Runs are sorted if they have so many rows on average.
const RUN_ROWS: usize = 4;

/// Where runs of equal numbers of a column begin, if they are long.
fn runs_of(column: &BatchColumn) -> Option<Vec<u32>> {
    let (indices, n) = match column {
        BatchColumn::Words { indices, .. } => (indices, 1),
        BatchColumn::Ngrams { n, indices, .. } => (indices, *n),
        _ => return None,
    };
    let most = column.len() / RUN_ROWS;
    let mut starts = Vec::new();
    let mut last: &[u32] = &[];
    for (row, words) in (0..).zip(indices.chunks_exact(n)) {
        if words != last {
            if starts.len() == most {
                return None;
            }
            starts.push(row);
            last = words;
        }
    }
    Some(starts)
}

/// A key of one number a row, which is told without an array of them.
struct RowKey<'a> {
    numbers: RowKeyNumbers<'a>,
    descending: bool,
}

enum RowKeyNumbers<'a> {
    Integers(&'a [i64]),
    /// Texts, and the place of each in order of bytes if that is not its number.
    Texts(&'a [u32], Option<&'a [u32]>),
}

impl RowKey<'_> {
    #[inline]
    fn number(&self, row: u32) -> u64 {
        let row = row as usize;
        let number = match self.numbers {
            RowKeyNumbers::Integers(integers) => integers[row].cast_unsigned() ^ SIGN,
            RowKeyNumbers::Texts(texts, None) => u64::from(texts[row]),
            RowKeyNumbers::Texts(texts, Some(ranks)) => u64::from(ranks[texts[row] as usize]),
        };
        match self.descending {
            true => !number,
            false => number,
        }
    }
}

/// The rows in order of the numbers of their runs, and then of `others`. `starts` says where runs begin.
fn sorted_by_runs(
    rows: usize,
    starts: &[u32],
    heads: Vec<Vec<u64>>,
    others: &[RowKey<'_>],
    pace: &mut Pace,
) -> Result<Vec<u32>> {
    let runs = sorted_rows(starts.len(), heads.clone(), pace)?;
    let head = |run: u32| heads.iter().map(move |numbers| numbers[run as usize]);
    let mut spans = SpanSort::new(rows, others);
    for runs in runs.chunk_by(|&left, &right| head(left).eq(head(right))) {
        let rows = |&run: &u32| starts[run as usize]..end_of(starts, run, rows);
        spans.sort(runs.iter().flat_map(rows), pace)?;
    }
    Ok(spans.order)
}

/// The rows of each run in order of `others`, one run after the other.
fn sorted_within_runs(
    rows: usize,
    starts: &[u32],
    others: &[RowKey<'_>],
    pace: &mut Pace,
) -> Result<Vec<u32>> {
    let mut spans = SpanSort::new(rows, others);
    for (run, &start) in (0..).zip(starts) {
        spans.sort(start..end_of(starts, run, rows), pace)?;
    }
    Ok(spans.order)
}

/// Sorts one span of rows after the other.
struct SpanSort<'a> {
    keys: &'a [RowKey<'a>],
    order: Vec<u32>,
    /// Of the rows at hand: their first numbers and themselves.
    span: Vec<(u64, u32)>,
}

impl<'a> SpanSort<'a> {
    fn new(rows: usize, keys: &'a [RowKey<'a>]) -> SpanSort<'a> {
        SpanSort {
            keys,
            order: Vec::with_capacity(rows),
            span: Vec::new(),
        }
    }

    /// Appends these rows in order of the keys.
    fn sort(&mut self, rows: impl Iterator<Item = u32>, pace: &mut Pace) -> Result<()> {
        let Some((first, rest)) = self.keys.split_first() else {
            self.order.extend(rows);
            return Ok(());
        };
        self.span.clear();
        self.span.extend(rows.map(|row| (first.number(row), row)));
        pace.work(self.span.len() * size_of::<(u64, u32)>())?;
        let further = |row: u32| rest.iter().map(move |key| key.number(row));
        // Rows with equal keys came in order of their numbers.
        self.span.sort_unstable_by(|left, right| {
            (left.0.cmp(&right.0))
                .then_with(|| further(left.1).cmp(further(right.1)))
                .then_with(|| left.1.cmp(&right.1))
        });
        self.order.extend(self.span.iter().map(|&(_, row)| row));
        Ok(())
    }
}

/// The first row behind a run.
fn end_of(starts: &[u32], run: u32, rows: usize) -> u32 {
    // Rows are numbered by u32: `can_take` saw to it.
    (starts.get(run as usize + 1).copied()).unwrap_or(rows as u32)
}

/// What a batch takes while it is kept, and sorting it.
fn bytes_of(batch: &Batch) -> usize {
    let columns = batch.columns().iter().map(BatchColumn::bytes);
    columns.sum::<usize>() + batch.len() * (size_of::<u64>() + ROW_BYTES)
}

/// The highest bit: with it changed, integers compare as unsigned numbers.
const SIGN: u64 = 1 << 63;

/// The numbers of a key for all rows of its column, which compare as its values do; the first decide first.
fn numbers_of(column: &BatchColumn, ranks: Option<&[u32]>, descending: bool) -> Vec<Vec<u64>> {
    let mut numbers: Vec<Vec<u64>> = match column {
        BatchColumn::Integers(integers) => {
            let ordered = integers
                .iter()
                .map(|integer| integer.cast_unsigned() ^ SIGN);
            vec![ordered.collect()]
        }
        BatchColumn::Reals(reals) => vec![reals.iter().map(|&real| real_number(real)).collect()],
        BatchColumn::Words { indices, .. } => vec![match ranks {
            Some(ranks) => indices
                .iter()
                .map(|&word| u64::from(ranks[word as usize]))
                .collect(),
            None => indices.iter().copied().map(u64::from).collect(),
        }],
        // N-grams are of words, which have ranks.
        BatchColumn::Ngrams { n, indices, .. } => {
            ngram_numbers(indices, *n, ranks.unwrap_or_default())
        }
        BatchColumn::Texts(_) | BatchColumn::Values(_) => unreachable!("they are not taken"),
    };
    if descending {
        let all = numbers.iter_mut().flatten();
        all.for_each(|number| *number = !*number);
    }
    numbers
}

/// Numbers of n-grams that compare as the ranks of their words one after the other.
fn ngram_numbers(words: &[u32], n: usize, ranks: &[u32]) -> Vec<Vec<u64>> {
    let bits = (usize::BITS - ranks.len().leading_zeros()).max(1);
    // Ranks are u32, so at least one fits.
    let together = (u64::BITS / bits) as usize;
    let parts = (0..n).step_by(together).map(|first| {
        let part = first..(first + together).min(n);
        let packed = words.chunks_exact(n).map(|ngram| {
            let words = ngram[part.clone()].iter();
            words.fold(0, |packed, &word| {
                packed << bits | u64::from(ranks[word as usize])
            })
        });
        packed.collect()
    });
    parts.collect()
}

/// N-grams of `n` words, of which there are fewer than 2^32, in order of the ranks of their words, by number.
pub(super) fn sorted_ngrams(
    words: &[u32],
    n: usize,
    ranks: &[u32],
    pace: &mut Pace,
) -> Result<Vec<u32>> {
    sorted_rows(words.len() / n, ngram_numbers(words, n, ranks), pace)
}

/// The rows, of which there are fewer than 2^32, in order of their numbers, equal ones in their own order.
pub(super) fn sorted_rows(
    rows: usize,
    numbers: Vec<Vec<u64>>,
    pace: &mut Pace,
) -> Result<Vec<u32>> {
    // Of the most significant first: numbers with how many bits they take.
    let mut groups: Vec<(Vec<u64>, u32)> = Vec::new();
    for mut part in numbers {
        pace.work(rows * size_of::<u64>())?;
        let least = part.iter().copied().min().unwrap_or_default();
        let most = part.iter().copied().max().unwrap_or_default();
        let bits = u64::BITS - (most - least).leading_zeros();
        if bits == 0 {
            continue;
        }
        part.iter_mut().for_each(|number| *number -= least);
        match groups.last_mut() {
            Some((group, group_bits)) if *group_bits + bits <= u64::BITS => {
                for (number, part) in group.iter_mut().zip(part) {
                    *number = *number << bits | part;
                }
                *group_bits += bits;
            }
            _ => groups.push((part, bits)),
        }
    }
    let mut order: Vec<u32> = (0..rows as u32).collect();
    for (group, bits) in groups.into_iter().rev() {
        let pairs = order.iter().map(|&row| (group[row as usize], row));
        let mut pairs: Vec<(u64, u32)> = pairs.collect();
        if pairs.len() < RADIX_ROWS_MIN {
            pairs.sort_by_key(|pair| pair.0);
        } else {
            sort_by_radix(&mut pairs, bits, pace)?;
        }
        for (place, (_, row)) in order.iter_mut().zip(pairs) {
            *place = row;
        }
    }
    Ok(order)
}

/// Sorts pairs by their numbers of so many bits, and keeps the order of equal ones.
fn sort_by_radix(pairs: &mut Vec<(u64, u32)>, bits: u32, pace: &mut Pace) -> Result<()> {
    let passes = bits.div_ceil(DIGIT_BITS);
    let digit_bits = bits.div_ceil(passes);
    let digit =
        |number: u64, pass: u32| (number >> (pass * digit_bits)) as usize & ((1 << digit_bits) - 1);
    let mut sorted = vec![(0, 0); pairs.len()];
    for pass in 0..passes {
        pace.work(pairs.len() * size_of::<(u64, u32)>())?;
        let mut places = vec![0usize; 1 << digit_bits];
        pairs
            .iter()
            .for_each(|pair| places[digit(pair.0, pass)] += 1);
        let mut before = 0;
        for place in &mut places {
            (*place, before) = (before, before + *place);
        }
        for &pair in pairs.iter() {
            let place = &mut places[digit(pair.0, pass)];
            sorted[*place] = pair;
            *place += 1;
        }
        std::mem::swap(pairs, &mut sorted);
    }
    Ok(())
}

/// Gives rows in order.
pub(super) struct SortedNumbers {
    batch: Batch,
    order: Vec<u32>,
    next: usize,
    _reservation: Reservation,
}

impl SortedNumbers {
    pub(super) fn next_batch(&mut self, rows_max: usize) -> Option<Batch> {
        let rest = &self.order[self.next..];
        let rows = &rest[..rest.len().min(rows_max.max(1))];
        self.next += rows.len();
        (!rows.is_empty()).then(|| self.batch.select(rows))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::runtime::interrupt::Interrupts;

    proptest! {
        #[test]
        fn rows_are_sorted_by_their_numbers_and_stay_in_order_where_they_are_equal(
            rows in 0usize..3000,
            shifts in proptest::collection::vec(1u32..64, 1..4),
            seed: u64,
        ) {
            let number = |row: usize, shift: u32| {
                (row as u64 + 1).wrapping_mul(seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift
            };
            let numbers: Vec<Vec<u64>> = (shifts.iter())
                .map(|&shift| (0..rows).map(|row| number(row, shift)).collect())
                .collect();
            let mut expected: Vec<u32> = (0..rows as u32).collect();
            expected.sort_by_key(|&row| {
                shifts.iter().map(|&shift| number(row as usize, shift)).collect::<Vec<_>>()
            });
            let mut pace = Interrupts::default().begin(0).pace();
            prop_assert_eq!(sorted_rows(rows, numbers, &mut pace).unwrap(), expected);
        }

        #[test]
        fn sorting_runs_is_sorting_rows(
            runs in proptest::collection::vec((0u64..5, 1usize..9), 1..60),
            values in proptest::collection::vec((-3i64..3, 0u32..3), 540),
            descending: bool,
        ) {
            let (mut starts, mut heads, mut keys) = (Vec::new(), Vec::new(), Vec::new());
            for (head, length) in runs {
                starts.push(keys.len() as u32);
                heads.push(head);
                keys.extend(std::iter::repeat_n(head, length));
            }
            let rows = keys.len();
            let (integers, texts): (Vec<i64>, Vec<u32>) = values.into_iter().unzip();
            let ranks = [2, 0, 1];
            let others = [
                RowKey { numbers: RowKeyNumbers::Integers(&integers), descending },
                RowKey { numbers: RowKeyNumbers::Texts(&texts, Some(&ranks)), descending: false },
            ];
            let mut pace = Interrupts::default().begin(0).pace();
            for count in 0..=2 {
                let mut expected: Vec<u32> = (0..rows as u32).collect();
                expected.sort_by_key(|&row| {
                    let others = others[..count].iter().map(|key| key.number(row));
                    (keys[row as usize], others.collect::<Vec<_>>())
                });
                let found = sorted_by_runs(
                    rows, &starts, vec![heads.clone()], &others[..count], &mut pace,
                );
                prop_assert_eq!(found.unwrap(), expected);
                let mut expected: Vec<u32> = (0..rows as u32).collect();
                expected.sort_by_key(|&row| {
                    let run = starts.partition_point(|&start| start <= row);
                    let others = others[..count].iter().map(|key| key.number(row));
                    (run, others.collect::<Vec<_>>())
                });
                let found = sorted_within_runs(rows, &starts, &others[..count], &mut pace);
                prop_assert_eq!(found.unwrap(), expected);
            }
        }
    }
}
