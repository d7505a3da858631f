//! `SortColumn`: a key of a sort, whose values become numbers that compare as they do.
//!
//! Integers, reals and texts whose numbers give their order are those of a column. Other values are kept as bytes (`key.rs`),
//! once for each entry of a dictionary where its column alone decides, and are ranked when rows are sorted. Invariant: numbers
//! and bytes compare as `key.rs` defines, in all batches.

use std::borrow::Borrow;
use std::sync::Arc;

use zipfdb_sql::query::{ExpressionId, SortKey};

use super::context::Context;
use super::key::{KeyOrder, add_key};
use super::number_keys::{RowKey, RowKeyNumbers, keys_of, where_rows_are_sorted};
use super::row::ENTRIES_SHARE;
use super::word_order::{TextOrder, ranks, text_order};
use crate::batch::{Batch, BatchColumn, ColumnBuilder, TextColumn};
use crate::expression::{EntryNumbers, Evaluator, Program};
use crate::{Result, Value};

/// A key of a sort.
pub(super) struct SortColumn {
    expression: ExpressionId,
    /// The column of the rows that it is.
    column: Option<usize>,
    order: KeyOrder,
    form: SortForm,
    /// Values as bytes, each with a number.
    keys: TextColumn,
    /// The column that alone decides, and the numbers of keys for its entries if it has such.
    decisive: Option<usize>,
    entries: EntryNumbers,
    entries_max: usize,
}

/// The form of the values of a key.
enum SortForm {
    /// No row has come yet.
    Unknown,
    /// Numbers of a column of the kind of this empty one, and the order of numbered texts.
    Numbers(BatchColumn, Option<TextOrder>),
    /// Bytes, with numbers in a column that only the key has.
    Keys,
}

/// The key of a row.
pub(super) enum SortBound {
    Number(u64),
    Bytes {
        bound: Vec<u8>,
        /// For each number of a key whether it is not beyond the bound, as far as compared.
        within: Vec<bool>,
    },
}

impl SortBound {
    /// Forgets the numbers of keys.
    pub(super) fn forget(&mut self) {
        if let SortBound::Bytes { within, .. } = self {
            within.clear();
        }
    }
}

/// Bytes of a key beside its own: its end, its rank, and its first bytes and number while it is ranked.
const KEY_BYTES: usize = size_of::<u64>() + size_of::<u32>() + size_of::<(u64, u32)>();

impl SortColumn {
    /// A key of ORDER BY without values.
    pub(super) fn new(key: &SortKey, program: &Program, context: &Context) -> SortColumn {
        SortColumn {
            expression: key.expression,
            column: program.column(key.expression),
            order: KeyOrder::of(key),
            form: SortForm::Unknown,
            keys: TextColumn::default(),
            decisive: program.decisive_column(key.expression),
            entries: EntryNumbers::default(),
            entries_max: context.memory / ENTRIES_SHARE,
        }
    }

    /// Whether its values are numbers of a column.
    fn is_of_numbers(&self) -> bool {
        matches!(self.form, SortForm::Numbers(..))
    }

    /// The column of the rows that has its values, if it has none of its own.
    pub(super) fn shared_column(&self) -> Option<usize> {
        self.column.filter(|_| self.is_of_numbers())
    }

    /// Takes the values of a batch, and appends the key's own column if it has one. Returns whether values have the form of those
    /// before.
    ///
    /// # Errors
    /// Those of the evaluator, and if there is no memory for a key.
    pub(super) fn take(
        &mut self,
        batch: &Batch,
        evaluator: &mut Evaluator<Arc<Program>>,
        context: &Context,
        columns: &mut Vec<BatchColumn>,
    ) -> Result<bool> {
        if let SortForm::Unknown = self.form {
            let decisive = self.decisive.map(|column| &batch.columns()[column]);
            match (self.column, decisive) {
                (Some(_), Some(column)) => self.form = form_of(column, self.order, context)?,
                (None, Some(BatchColumn::Words { .. })) => self.form = SortForm::Keys,
                _ => {}
            }
        }
        match (&self.form, self.column) {
            (SortForm::Numbers(kind, _), Some(column)) => {
                return Ok(batch.columns()[column].is_like(kind));
            }
            (SortForm::Unknown | SortForm::Numbers(..), _) => {
                let mut values = ColumnBuilder::default();
                for row in 0..batch.len() {
                    evaluator.next_row();
                    values.push_copy(evaluator.value((batch, row), self.expression)?);
                }
                let values = values.finish();
                if let SortForm::Unknown = self.form {
                    self.form = form_of(&values, self.order, context)?;
                }
                if let SortForm::Numbers(kind, _) = &self.form {
                    let is_like = values.is_like(kind);
                    columns.push(values);
                    return Ok(is_like);
                }
            }
            (SortForm::Keys, _) => {}
        }
        columns.push(self.numbered(batch, evaluator, context)?);
        Ok(true)
    }

    /// Stores the values of a batch as bytes, and returns their numbers.
    fn numbered(
        &mut self,
        batch: &Batch,
        evaluator: &mut Evaluator<Arc<Program>>,
        context: &Context,
    ) -> Result<BatchColumn> {
        let entries = self.entries.of(batch, self.decisive, self.entries_max);
        let mut numbers = Vec::with_capacity(batch.len());
        let mut key = Vec::new();
        for row in 0..batch.len() {
            let entry = entries.map(|entries| entries[row]);
            if let Some(known) = entry.and_then(|entry| self.entries.get(entry)) {
                numbers.push(i64::from(known));
                continue;
            }
            evaluator.next_row();
            let value = evaluator.computed((batch, row), self.expression)?;
            key.clear();
            add_key(value, self.order, &mut key, &context.values)?;
            // There are fewer than 2^32: `has_room` ensures it.
            let number = self.keys.len() as u32;
            self.keys.push(&key);
            if let Some(entry) = entry {
                self.entries.set(entry, number);
            }
            numbers.push(i64::from(number));
        }
        Ok(BatchColumn::Integers(numbers))
    }

    /// Stores values as bytes from now on.
    pub(super) fn keep_keys(&mut self) {
        self.form = SortForm::Keys;
    }

    /// The number of values stored as bytes.
    pub(super) fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// The memory of keys, in bytes, about.
    pub(super) fn key_bytes(&self) -> usize {
        self.keys.bytes.len() + self.keys.len() * KEY_BYTES
    }

    /// The memory beside its column, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        self.key_bytes() + self.entries.bytes()
    }

    /// Forgets the bytes of values that are no longer in its column.
    pub(super) fn forget_others(&mut self, column: Option<&mut BatchColumn>) {
        let before = std::mem::take(&mut self.keys);
        self.entries = EntryNumbers::default();
        let (SortForm::Keys, Some(BatchColumn::Integers(numbers))) = (&self.form, column) else {
            return;
        };
        let mut moved = vec![None; before.len()];
        for number in numbers {
            let keys = &mut self.keys;
            *number = *moved[*number as usize].get_or_insert_with(|| {
                keys.push(before.get(*number as usize));
                keys.len() as i64 - 1
            });
        }
    }

    /// The ranks of values stored as bytes.
    ///
    /// # Errors
    /// If the query must end.
    pub(super) fn ranks(&self, context: &Context) -> Result<Vec<u32>> {
        ranks_of(&self.keys, context)
    }

    /// The numbers of rows whose values are in `column`, which compare as these do; `ranks` are those of values stored as bytes.
    pub(super) fn numbers<'a>(
        &'a self,
        column: &'a BatchColumn,
        ranks: &'a [u32],
    ) -> Vec<RowKey<'a>> {
        match (&self.form, column) {
            (SortForm::Numbers(_, order), _) => {
                let ranks = ranks_in(column, order.as_ref());
                keys_of(column, ranks, self.order.descending)
            }
            (SortForm::Keys, BatchColumn::Integers(numbers)) => vec![RowKey {
                numbers: RowKeyNumbers::Ranked(numbers, ranks),
                descending: false,
            }],
            _ => Vec::new(),
        }
    }

    /// The bytes of a row whose values are in `column`, if they are stored as bytes.
    pub(super) fn bytes_of<'a>(&'a self, column: &'a BatchColumn, row: u32) -> Option<&'a [u8]> {
        match (&self.form, column) {
            (SortForm::Keys, BatchColumn::Integers(numbers)) => {
                Some(self.keys.get(numbers[row as usize] as usize))
            }
            _ => None,
        }
    }

    /// The rows whose values in `column` are not beyond a bound.
    pub(super) fn within(&self, bound: &mut SortBound, column: &BatchColumn) -> Vec<u32> {
        // A batch has fewer rows than 2^32.
        let rows = 0..column.len() as u32;
        match (bound, column) {
            (SortBound::Number(bound), _) => {
                let numbers = self.numbers(column, &[]);
                rows.filter(|&row| numbers[0].number(row) <= *bound)
                    .collect()
            }
            (SortBound::Bytes { bound, within }, BatchColumn::Integers(numbers)) => {
                let new = within.len()..self.keys.len();
                within.extend(new.map(|number| self.keys.get(number) <= &bound[..]));
                rows.filter(|&row| within[numbers[row as usize] as usize])
                    .collect()
            }
            (SortBound::Bytes { .. }, _) => rows.collect(),
        }
    }

    /// The key of a row whose values are in `column`.
    pub(super) fn bound(&self, column: &BatchColumn, row: u32) -> Option<SortBound> {
        if let Some(bytes) = self.bytes_of(column, row) {
            return Some(SortBound::Bytes {
                bound: bytes.to_vec(),
                within: Vec::new(),
            });
        }
        let numbers = self.numbers(column, &[]);
        Some(SortBound::Number(numbers.first()?.number(row)))
    }
}

/// The ranks of the numbers of a column of texts, if they are not in order.
fn ranks_in<'a>(column: &'a BatchColumn, order: Option<&'a TextOrder>) -> Option<&'a [u32]> {
    match column {
        BatchColumn::Words { dictionary, .. } | BatchColumn::Ngrams { dictionary, .. } => {
            order?.ranks(dictionary)
        }
        _ => None,
    }
}

fn ranks_of(keys: &TextColumn, context: &Context) -> Result<Vec<u32>> {
    where_rows_are_sorted(keys.len(), &context.pool, &context.interrupt, |stop| {
        ranks(keys, stop)
    })
}

/// The rank of each value in an order; equal ones have one rank.
///
/// # Errors
/// If there is no memory for a key, or the query must end.
pub(super) fn ranked<V: Borrow<Value>>(
    values: impl Iterator<Item = V>,
    order: KeyOrder,
    context: &Context,
) -> Result<Vec<u32>> {
    let (mut keys, mut key) = (TextColumn::default(), Vec::new());
    for value in values {
        key.clear();
        add_key(value.borrow(), order, &mut key, &context.values)?;
        keys.push(&key);
    }
    ranks_of(&keys, context)
}

/// Numbers of the rows of a column that compare as their values in an order, one or more for each row, of which the first decide
/// first.
///
/// # Errors
/// As [`ranked`].
pub(super) fn ordered(
    column: &BatchColumn,
    order: KeyOrder,
    context: &Context,
) -> Result<Vec<Vec<u64>>> {
    let rows = column.len();
    let SortForm::Numbers(_, text_order) = form_of(column, order, context)? else {
        let values = (0..rows).map(|row| column.lent(row));
        let ranks = ranked(values, order, context)?;
        return Ok(vec![ranks.into_iter().map(u64::from).collect()]);
    };
    let ranks = ranks_in(column, text_order.as_ref());
    let keys = keys_of(column, ranks, order.descending).into_iter();
    // Rows are numbered by u32.
    let numbers = |key: RowKey<'_>| (0..rows as u32).map(|row| key.number(row)).collect();
    Ok(keys.map(numbers).collect())
}

/// The form of a key whose values are those of a column.
fn form_of(column: &BatchColumn, order: KeyOrder, context: &Context) -> Result<SortForm> {
    let (dictionary, in_ngrams) = match column {
        BatchColumn::Integers(_) | BatchColumn::Reals(_) => {
            return Ok(SortForm::Numbers(column.empty(), None));
        }
        BatchColumn::Words { dictionary, .. } => (dictionary, false),
        BatchColumn::Ngrams { dictionary, .. } => (dictionary, true),
        BatchColumn::Texts(_) | BatchColumn::Values(_) => return Ok(SortForm::Keys),
    };
    let on = (&*context.pool, &context.interrupt);
    let order = text_order(dictionary, in_ngrams, order.collation, on)?;
    Ok(match order {
        None => SortForm::Keys,
        order => SortForm::Numbers(column.empty(), order),
    })
}
