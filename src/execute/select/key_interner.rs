//! `KeyInterner`: the values of an expression on rows, as numbers.
//!
//! Numbers of columns are taken as they are; other values get numbers when they are first met, once for each text where a column
//! of numbered texts alone decides. Invariant: identical values have the same numbers, and values that compare equal have a first
//! in common.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use zipfdb_sql::query::{Collation, ExpressionId};

use super::context::Context;
use super::key::KeyOrder;
use super::row::value_size;
use super::sort_column::{ordered, ranked};
use super::value_interner::ValueInterner;
use crate::batch::{Batch, BatchColumn, ColumnBuilder, TextDictionary};
use crate::expression::{EntryNumbers, Evaluator, Program, to_real, whole_number};
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// Words of an n-gram that are one number.
const WORDS: usize = (u64::BITS / u32::BITS) as usize;

/// The mark of a value without a number.
const UNKNOWN: u64 = u64::MAX;

/// The means to number rows.
pub(super) struct Look<'a> {
    pub(super) evaluator: &'a mut Evaluator<Arc<Program>>,
    pub(super) memory: &'a ValueMemory,
    /// Whether new values get numbers; otherwise rows with a new value are new too.
    pub(super) keeps: bool,
}

/// Numbers for the values of an expression.
#[derive(Debug)]
pub(super) struct KeyInterner {
    expression: ExpressionId,
    what_for: KeyUse,
    /// The column that the expression is.
    column: Option<usize>,
    form: KeyForm,
    /// The column that alone decides, and the numbers of values for its entries if it has such.
    decisive: Option<usize>,
    entries: EntryNumbers,
    entries_max: usize,
}

/// The use of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyUse {
    /// To distinguish values that are not equal by a collation.
    Equality(Collation),
    /// To distinguish values that are not identical.
    Identity,
    /// To distinguish different numbers; texts and BLOBs are the numbers that they begin with.
    Number,
}

/// The meaning of numbers.
#[derive(Debug)]
enum KeyForm {
    /// No batch has come yet.
    Unknown,
    /// That of the column, which is of the kind of this empty one.
    Column(BatchColumn),
    Values(ValueInterner),
}

impl KeyInterner {
    /// Numbers the values of `expression`. Values for the texts of a dictionary take at most `bytes_max` bytes.
    pub(super) fn new(
        expression: ExpressionId,
        what_for: KeyUse,
        program: &Program,
        bytes_max: usize,
    ) -> KeyInterner {
        KeyInterner {
            expression,
            what_for,
            column: program.column(expression),
            form: KeyForm::Unknown,
            decisive: program.decisive_column(expression),
            entries: EntryNumbers::default(),
            entries_max: bytes_max,
        }
    }

    /// Begins a batch. Returns whether its numbers mean the same as those of the batches before.
    pub(super) fn begin(&mut self, batch: &Batch) -> bool {
        let column = self.column.map(|column| &batch.columns()[column]);
        match (&self.form, column) {
            (KeyForm::Values(_), _) => true,
            (KeyForm::Column(kind), column) => column.is_some_and(|column| column.is_like(kind)),
            (KeyForm::Unknown, column) => {
                let is_of_texts = matches!(
                    self.what_for,
                    KeyUse::Identity | KeyUse::Equality(Collation::Binary)
                );
                self.form = match column {
                    Some(column @ BatchColumn::Integers(_)) => KeyForm::Column(column.empty()),
                    Some(column @ (BatchColumn::Words { .. } | BatchColumn::Ngrams { .. }))
                        if is_of_texts =>
                    {
                        KeyForm::Column(column.empty())
                    }
                    _ => KeyForm::Values(self.no_values()),
                };
                true
            }
        }
    }

    /// The number of numbers of a value.
    pub(super) fn width(&self) -> usize {
        match &self.form {
            KeyForm::Column(BatchColumn::Ngrams { n, .. }) => n.div_ceil(WORDS),
            _ => 1,
        }
    }

    /// Writes the numbers of rows of the current batch: those of each row at `offset` of its `width` ones in `target`.
    ///
    /// # Errors
    /// Those of the evaluator, and if there is no memory for a value.
    pub(super) fn number(
        &mut self,
        batch: &Batch,
        rows: Range<usize>,
        look: &mut Look<'_>,
        (offset, width): (usize, usize),
        target: &mut [u64],
    ) -> Result<()> {
        if !self.has_values() {
            if let Some(column) = self.column {
                take_numbers(&batch.columns()[column], rows, (offset, width), target);
            }
            return Ok(());
        }
        let Some(texts) = self.entries.of(batch, self.decisive, self.entries_max) else {
            for (target, row) in target.chunks_mut(width).zip(rows) {
                target[offset] = self.number_row(batch, row, None, look)?;
            }
            return Ok(());
        };
        let mut unknown = Vec::new();
        let targets = rows.clone().zip(target.chunks_mut(width));
        for (&text, (row, target)) in texts[rows].iter().zip(targets) {
            match self.entries.get(text) {
                Some(known) => target[offset] = u64::from(known),
                None => unknown.push((row, text, &mut target[offset])),
            }
        }
        for (row, text, target) in unknown {
            *target = match self.entries.get(text) {
                // An earlier row has the same text.
                Some(known) => u64::from(known),
                None => self.number_row(batch, row, Some(text), look)?,
            };
        }
        Ok(())
    }

    /// The number of a row by its value, which is stored for its text.
    fn number_row(
        &mut self,
        batch: &Batch,
        row: usize,
        text: Option<u32>,
        look: &mut Look<'_>,
    ) -> Result<u64> {
        let KeyForm::Values(numbers) = &mut self.form else {
            return Ok(UNKNOWN);
        };
        look.evaluator.next_row();
        let value = look.evaluator.computed((batch, row), self.expression)?;
        let value = if self.what_for == KeyUse::Number {
            Cow::Owned(as_number(value))
        } else {
            Cow::Borrowed(value)
        };
        let number = if look.keeps {
            Some(numbers.number(&value, look.memory)?)
        } else {
            numbers.known(&value)
        };
        if let (Some(text), Some(number)) = (text, number) {
            self.entries.set(text, number);
        }
        Ok(number.map_or(UNKNOWN, u64::from))
    }

    /// The value with these numbers.
    pub(super) fn value(&self, numbers: &[u64]) -> Cow<'_, Value> {
        match &self.form {
            KeyForm::Values(values) => Cow::Borrowed(values.value(numbers[0] as u32)),
            KeyForm::Column(BatchColumn::Integers(_)) => {
                Cow::Owned(Value::Integer(numbers[0].cast_signed()))
            }
            KeyForm::Column(kind) => {
                let mut column = kind.empty();
                push_numbers(&mut column, numbers);
                Cow::Owned(column.value(0))
            }
            KeyForm::Unknown => Cow::Owned(Value::Null),
        }
    }

    /// The values with these numbers, one after the other.
    pub(super) fn column<'a>(&self, numbers: impl Iterator<Item = &'a [u64]>) -> BatchColumn {
        match &self.form {
            KeyForm::Column(kind) => {
                let mut column = kind.empty();
                match &mut column {
                    // Numbers of texts are u32.
                    BatchColumn::Words { indices, .. } => {
                        indices.extend(numbers.map(|numbers| numbers[0] as u32));
                    }
                    column => numbers.for_each(|numbers| push_numbers(column, numbers)),
                }
                column
            }
            KeyForm::Values(values) => {
                let mut column = ColumnBuilder::default();
                numbers.for_each(|numbers| column.push_copy(values.value(numbers[0] as u32)));
                column.finish()
            }
            KeyForm::Unknown => ColumnBuilder::default().finish(),
        }
    }

    /// Whether some value is NULL.
    pub(super) fn has_null(&self) -> bool {
        self.null().is_some()
    }

    /// Whether the value with these numbers is NULL.
    pub(super) fn is_null(&self, numbers: &[u64]) -> bool {
        self.null().map(u64::from) == Some(numbers[0])
    }

    fn null(&self) -> Option<u32> {
        match &self.form {
            KeyForm::Values(values) => values.null(),
            _ => None,
        }
    }

    /// Whether values have numbers of their own.
    pub(super) fn has_values(&self) -> bool {
        matches!(self.form, KeyForm::Values(_))
    }

    /// Bytes that a value with these numbers takes outside of a column of numbers.
    pub(super) fn text_bytes(&self, numbers: &[u64]) -> usize {
        match &self.form {
            KeyForm::Values(values) => value_size(values.value(numbers[0] as u32)),
            _ => 0,
        }
    }

    /// Whether values with different numbers may be equal.
    pub(super) fn has_equals(&self) -> bool {
        match &self.form {
            KeyForm::Values(values) => values.has_equals(),
            _ => false,
        }
    }

    /// The number of the first value that is equal to the one with this number.
    pub(super) fn first(&self, number: u64) -> u64 {
        match &self.form {
            KeyForm::Values(values) if number != UNKNOWN => u64::from(values.first(number as u32)),
            _ => number,
        }
    }

    /// Gives values numbers of their own from now on. Returns the numbers of the column before, if values had those.
    pub(super) fn number_values(&mut self) -> Option<KeyInterner> {
        if let KeyForm::Values(_) = self.form {
            return None;
        }
        let own = KeyForm::Values(self.no_values());
        Some(KeyInterner {
            expression: self.expression,
            what_for: self.what_for,
            column: self.column,
            form: std::mem::replace(&mut self.form, own),
            decisive: None,
            entries: EntryNumbers::default(),
            entries_max: 0,
        })
    }

    /// The number of a value, where values have numbers of their own.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn number_of(&mut self, value: &Value, memory: &ValueMemory) -> Result<u64> {
        match &mut self.form {
            KeyForm::Values(values) => values.number(value, memory).map(u64::from),
            _ => Ok(0),
        }
    }

    /// Makes a dictionary of values that are all texts; no further rows are numbered.
    pub(super) fn finish(&mut self) {
        self.entries = EntryNumbers::default();
        self.form = match std::mem::replace(&mut self.form, KeyForm::Unknown) {
            KeyForm::Values(values) if values.are_texts() => KeyForm::Column(BatchColumn::Words {
                indices: Vec::new(),
                dictionary: TextDictionary::made(values.into_texts()),
            }),
            form => form,
        };
    }

    fn no_values(&self) -> ValueInterner {
        ValueInterner::new(match self.what_for {
            KeyUse::Equality(collation) => Some(collation),
            KeyUse::Identity | KeyUse::Number => None,
        })
    }

    /// Numbers of rows that compare as their values in an order, one or more for each row, of which the first decide first; given
    /// the numbers of the rows.
    ///
    /// # Errors
    /// If the query must end.
    pub(super) fn ordered<'a>(
        &self,
        rows: impl Iterator<Item = &'a [u64]>,
        order: KeyOrder,
        context: &Context,
    ) -> Result<Vec<Vec<u64>>> {
        match &self.form {
            KeyForm::Unknown => Ok(Vec::new()),
            KeyForm::Values(values) => {
                let ranks = ranked(values.all(), order, context)?;
                let numbers = rows.map(|numbers| u64::from(ranks[numbers[0] as usize]));
                Ok(vec![numbers.collect()])
            }
            KeyForm::Column(_) => ordered(&self.column(rows), order, context),
        }
    }

    /// The memory that it takes, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        let values = match &self.form {
            KeyForm::Values(values) => values.bytes(),
            _ => 0,
        };
        values + self.entries.bytes()
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        if self.has_values() {
            self.form = KeyForm::Values(self.no_values());
        }
        self.entries = EntryNumbers::default();
    }
}

/// Writes the numbers of rows of a column: those of each row at `offset` of its `width` ones in `target`.
fn take_numbers(
    column: &BatchColumn,
    rows: Range<usize>,
    (offset, width): (usize, usize),
    target: &mut [u64],
) {
    let targets = target.chunks_mut(width).map(|target| &mut target[offset..]);
    match column {
        BatchColumn::Integers(integers) => {
            for (target, integer) in targets.zip(&integers[rows]) {
                target[0] = integer.cast_unsigned();
            }
        }
        BatchColumn::Words { indices, .. } => {
            for (target, &index) in targets.zip(&indices[rows]) {
                target[0] = u64::from(index);
            }
        }
        BatchColumn::Ngrams { n, indices, .. } => {
            let ngrams = indices[rows.start * n..rows.end * n].chunks(*n);
            for (target, words) in targets.zip(ngrams) {
                let parts = target.iter_mut().zip(words.chunks(WORDS));
                parts.for_each(|(target, words)| *target = pack(words));
            }
        }
        BatchColumn::Reals(_) | BatchColumn::Texts(_) | BatchColumn::Values(_) => {}
    }
}

/// A value as SUM takes it: texts and BLOBs as the numbers that they begin with.
fn as_number(value: &Value) -> Value {
    match value {
        Value::Text(text) => whole_number(text).unwrap_or_else(|| Value::Real(to_real(value))),
        Value::Blob(_) => Value::Real(to_real(value)),
        number => number.clone(),
    }
}

/// The words of a part of an n-gram as one number.
fn pack(words: &[u32]) -> u64 {
    let words = words.iter();
    words.fold(0, |packed, &word| packed << u32::BITS | u64::from(word))
}

/// Appends the value with these numbers to a column of its kind.
fn push_numbers(column: &mut BatchColumn, numbers: &[u64]) {
    match column {
        BatchColumn::Integers(integers) => integers.push(numbers[0].cast_signed()),
        // Numbers of texts are u32.
        BatchColumn::Words { indices, .. } => indices.push(numbers[0] as u32),
        BatchColumn::Ngrams { n, indices, .. } => {
            for (part, &packed) in numbers.iter().enumerate() {
                let words = WORDS.min(*n - part * WORDS);
                let words = (0..words).rev();
                indices.extend(words.map(|word| (packed >> (word as u32 * u32::BITS)) as u32));
            }
        }
        BatchColumn::Reals(_) | BatchColumn::Texts(_) | BatchColumn::Values(_) => {}
    }
}
