//! `KeyNumbers`: the values of an expression on rows, as numbers.
//!
//! Numbers of columns are taken as they are; other values get numbers when they are first met, once for each text where a column
//! of numbered texts alone decides. Invariant: values that are the same have the same numbers, and values that compare equal
//! have a first in common.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use zipfdb_sql::query::{Collation, ExpressionId};

use super::context::Context;
use super::key::KeyOrder;
use super::number_keys::integer_number;
use super::row::value_size;
use super::value_numbers::ValueNumbers;
use super::word_order::{ranks, text_order};
use crate::batch::{Batch, BatchColumn, ColumnBuilder, TextDictionary};
use crate::expression::{Evaluator, Program, to_real, whole_number};
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// Words of an n-gram that are one number.
const WORDS: usize = (u64::BITS / u32::BITS) as usize;

/// Instead of the number of a value that has none.
const UNKNOWN: u64 = u64::MAX;

/// What rows are looked at with.
pub(super) struct Look<'a> {
    /// For keys that are no columns.
    pub(super) evaluator: Option<&'a mut Evaluator<Arc<Program>>>,
    pub(super) memory: &'a ValueMemory,
    /// Whether new values get numbers; or else rows that have one are new too.
    pub(super) keeps: bool,
}

/// Numbers for the values of an expression.
#[derive(Debug)]
pub(super) struct KeyNumbers {
    /// What is computed, if it is no column.
    expression: Option<ExpressionId>,
    what_for: KeyUse,
    /// The column that the expression is.
    column: Option<usize>,
    form: KeyForm,
    entries: EntryNumbers,
}

/// The numbers of values for entries of a dictionary, where a column of such entries alone decides.
#[derive(Debug)]
struct EntryNumbers {
    /// The column, if there is one.
    column: Option<usize>,
    dictionary: Option<TextDictionary>,
    /// By entry, one more than its number; 0 if it has none.
    known: Vec<u32>,
    bytes_max: usize,
}

impl EntryNumbers {
    fn new(column: Option<usize>, bytes_max: usize) -> EntryNumbers {
        EntryNumbers {
            column,
            dictionary: None,
            known: Vec::new(),
            bytes_max,
        }
    }

    /// The entries of the rows of a batch, if they alone decide and there is room for their numbers.
    fn of<'a>(&mut self, batch: &'a Batch) -> Option<&'a [u32]> {
        let BatchColumn::Words {
            indices,
            dictionary,
        } = &batch.columns()[self.column?]
        else {
            return None;
        };
        let is_same = |known: &TextDictionary| known.is_same(dictionary);
        if !self.dictionary.as_ref().is_some_and(is_same) {
            if dictionary.len() > self.bytes_max / size_of::<u32>() {
                return None;
            }
            self.dictionary = Some(dictionary.clone());
            self.known = vec![0; dictionary.len()];
        }
        Some(indices)
    }

    #[inline]
    fn get(&self, entry: u32) -> Option<u32> {
        self.known[entry as usize].checked_sub(1)
    }

    fn clear(&mut self) {
        self.dictionary = None;
        self.known = Vec::new();
    }
}

/// What numbers are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyUse {
    /// To tell values apart that are not equal by a collation.
    Equality(Collation),
    /// To tell values apart that are not the same.
    Identity,
    /// To tell numbers apart that are not the same; texts and BLOBs are the numbers that they begin with.
    Number,
}

/// What numbers mean.
#[derive(Debug)]
enum KeyForm {
    /// No batch was there yet.
    Unknown,
    /// What those of the column do, which is of the kind of this empty one.
    Column(BatchColumn),
    Values(ValueNumbers),
}

impl KeyNumbers {
    /// Numbers the values of `expression`. What is known of the texts of a dictionary takes at most
    /// `bytes_max` bytes.
    pub(super) fn new(
        expression: ExpressionId,
        what_for: KeyUse,
        program: &Program,
        bytes_max: usize,
    ) -> KeyNumbers {
        let column = program.column(expression);
        KeyNumbers {
            expression: column.is_none().then_some(expression),
            what_for,
            column,
            form: KeyForm::Unknown,
            entries: EntryNumbers::new(program.decisive_column(expression), bytes_max),
        }
    }

    /// Numbers the values of a column, which are equal byte by byte or as numbers.
    pub(super) fn of_column(column: usize, bytes_max: usize) -> KeyNumbers {
        KeyNumbers {
            expression: None,
            what_for: KeyUse::Equality(Collation::Binary),
            column: Some(column),
            form: KeyForm::Unknown,
            entries: EntryNumbers::new(Some(column), bytes_max),
        }
    }

    /// Goes on to a batch; says whether its numbers mean what those of the batches before do.
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

    /// How many numbers a value has.
    pub(super) fn width(&self) -> usize {
        match &self.form {
            KeyForm::Column(BatchColumn::Ngrams { n, .. }) => n.div_ceil(WORDS),
            _ => 1,
        }
    }

    /// The numbers of rows of a batch that was begun: those of each at `offset` of its `width` ones in `target`.
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
        let Some(texts) = self.entries.of(batch) else {
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
                // A row before has the same text.
                Some(known) => u64::from(known),
                None => self.number_row(batch, row, Some(text), look)?,
            };
        }
        Ok(())
    }

    /// The number of a row that is computed, or is that of its value, and is known of its text from then on.
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
        let value = match (self.expression, self.column, &mut look.evaluator) {
            (Some(expression), _, Some(evaluator)) => {
                evaluator.next_row();
                Cow::Borrowed(evaluator.computed((batch, row), expression)?)
            }
            (_, Some(column), _) => batch.columns()[column].lent(row),
            _ => Cow::Owned(Value::Null),
        };
        let value = if self.what_for == KeyUse::Number {
            Cow::Owned(as_number(&value))
        } else {
            value
        };
        let number = if look.keeps {
            Some(numbers.number(&value, look.memory)?)
        } else {
            numbers.known(&value)
        };
        if let (Some(text), Some(number)) = (text, number) {
            self.entries.known[text as usize] = number + 1;
        }
        Ok(number.map_or(UNKNOWN, u64::from))
    }

    /// The value that has some numbers.
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

    /// The values that have some numbers, one after the other.
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

    /// Whether the value with some numbers is NULL.
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

    /// Bytes that a value with some numbers takes outside of a column of numbers.
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

    /// The number of the first value that is equal to one with a number.
    pub(super) fn first(&self, number: u64) -> u64 {
        match &self.form {
            KeyForm::Values(values) if number != UNKNOWN => u64::from(values.first(number as u32)),
            _ => number,
        }
    }

    /// From now on values have numbers of their own. Gives what tells values by the numbers of the column before, if they had those.
    pub(super) fn number_values(&mut self) -> Option<KeyNumbers> {
        if let KeyForm::Values(_) = self.form {
            return None;
        }
        let own = KeyForm::Values(self.no_values());
        Some(KeyNumbers {
            expression: None,
            what_for: self.what_for,
            column: self.column,
            form: std::mem::replace(&mut self.form, own),
            entries: EntryNumbers::new(None, 0),
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

    /// Makes a dictionary of values that are all texts; no row is looked at any more.
    pub(super) fn finish(&mut self) {
        self.entries.clear();
        self.form = match std::mem::replace(&mut self.form, KeyForm::Unknown) {
            KeyForm::Values(values) if values.are_texts() => KeyForm::Column(BatchColumn::Words {
                indices: Vec::new(),
                dictionary: TextDictionary::made(values.into_texts()),
            }),
            form => form,
        };
    }

    fn no_values(&self) -> ValueNumbers {
        ValueNumbers::new(match self.what_for {
            KeyUse::Equality(collation) => Some(collation),
            KeyUse::Identity | KeyUse::Number => None,
        })
    }

    /// Numbers of rows that compare as their values in an order, one or more for each row, of which the first decide first; given
    /// the numbers of the rows.
    ///
    /// # Errors
    /// If the query has to end.
    pub(super) fn ordered<'a>(
        &self,
        rows: impl Iterator<Item = &'a [u64]> + Clone,
        order: KeyOrder,
        context: &Context,
    ) -> Result<Vec<Vec<u64>>> {
        let directed = |number: u64| if order.descending { !number } else { number };
        let column = match &self.form {
            KeyForm::Unknown => return Ok(Vec::new()),
            KeyForm::Values(values) => {
                let used = rows.clone().map(|numbers| numbers[0] as u32);
                let ranks = values.ranks(used, order, context)?;
                let numbers = rows.map(|numbers| u64::from(ranks[numbers[0] as usize]));
                return Ok(vec![numbers.collect()]);
            }
            KeyForm::Column(column) => column,
        };
        let (dictionary, in_ngrams) = match column {
            BatchColumn::Words { dictionary, .. } => (dictionary, false),
            BatchColumn::Ngrams { dictionary, .. } => (dictionary, true),
            _ => {
                let numbers =
                    rows.map(|numbers| directed(integer_number(numbers[0].cast_signed())));
                return Ok(vec![numbers.collect()]);
            }
        };
        let on = (&*context.pool, &context.interrupt);
        let Some(known) = text_order(dictionary, in_ngrams, order.collation, on)? else {
            // Some values are BLOBs, or their words do not tell their order.
            let values: Vec<Value> = rows
                .map(|numbers| self.value(numbers).into_owned())
                .collect();
            let compare = |left: u32, right: u32| {
                order.compare(&values[left as usize], &values[right as usize])
            };
            let ranks = ranks(values.len(), compare, context)?;
            return Ok(vec![ranks.into_iter().map(u64::from).collect()]);
        };
        let known = known.ranks(dictionary);
        let rank = |word: u32| known.map_or(word, |ranks| ranks[word as usize]);
        let part = |place: usize| {
            let numbers = rows.clone().map(|numbers| {
                // The words of a part, of which the last may have one.
                let [first, second] = [numbers[place] >> u32::BITS, numbers[place]];
                let first = if in_ngrams { rank(first as u32) } else { 0 };
                directed(pack(&[first, rank(second as u32)]))
            });
            numbers.collect()
        };
        Ok((0..self.width()).map(part).collect())
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let values = match &self.form {
            KeyForm::Values(values) => values.bytes(),
            _ => 0,
        };
        values + size_of_val(&self.entries.known[..])
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        if self.has_values() {
            self.form = KeyForm::Values(self.no_values());
        }
        self.entries.clear();
    }
}

/// The numbers of rows of a column, those of each at `offset` of its `width` ones in `target`.
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

/// Appends the value that has some numbers in a column of its kind.
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
