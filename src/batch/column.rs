//! `BatchColumn`: the values of a column, one after the other.
//!
//! Invariant: only `Values` holds NULL; the other kinds hold exactly the values of their numbers and bytes.

use std::borrow::Cow;
use std::ops::Range;

use super::dictionary::{TextDictionary, text_or_blob};
use super::texts::TextColumn;
use crate::Value;

/// A column of a batch. Buffers have the layout of Apache Arrow's arrays of the type that is named, without validity bitmaps:
/// only `Values` has NULL.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum BatchColumn {
    /// INTEGER: the values buffer of an `Int64` array.
    Integers(Vec<i64>),
    /// REAL: the values buffer of a `Float64` array.
    Reals(Vec<f64>),
    /// TEXT: offsets and bytes of a `LargeUtf8` array.
    Texts(TextColumn),
    /// TEXT, or BLOB where a word is not UTF-8: the indices of a `Dictionary<UInt32, LargeUtf8>` array, whose dictionary
    /// [`TextDictionary::texts`] makes.
    Words {
        /// Numbers in the dictionary.
        indices: Vec<u32>,
        /// Words, names of files or texts made by the query; the same in all batches of an answer.
        dictionary: TextDictionary,
    },
    /// Words joined by a space: the values of a `FixedSizeList<Dictionary<UInt32, LargeUtf8>>` array.
    Ngrams {
        /// The number of words of each.
        n: usize,
        /// `[rows * n]`: numbers in the dictionary.
        indices: Vec<u32>,
        /// Words, the same in all batches of an answer.
        dictionary: TextDictionary,
    },
    /// Values of any type, and NULL.
    Values(Vec<Value>),
}

impl BatchColumn {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            BatchColumn::Integers(integers) => integers.len(),
            BatchColumn::Reals(reals) => reals.len(),
            BatchColumn::Texts(texts) => texts.len(),
            BatchColumn::Words { indices, .. } => indices.len(),
            BatchColumn::Ngrams { n, indices, .. } => indices.len() / n,
            BatchColumn::Values(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn value(&self, row: usize) -> Value {
        match self {
            BatchColumn::Integers(integers) => Value::Integer(integers[row]),
            BatchColumn::Reals(reals) => Value::Real(reals[row]),
            BatchColumn::Texts(texts) => text_or_blob(texts.get(row).to_vec()),
            BatchColumn::Words {
                indices,
                dictionary,
            } => dictionary.value(indices[row]),
            BatchColumn::Ngrams { .. } => {
                let mut text = Vec::new();
                self.write_text(row, &mut text);
                text_or_blob(text)
            }
            BatchColumn::Values(values) => values[row].clone(),
        }
    }

    /// The value of a row, borrowed if the column holds it.
    ///
    /// # Panics
    /// If there is no such row.
    pub(crate) fn lent(&self, row: usize) -> Cow<'_, Value> {
        match self {
            BatchColumn::Values(values) => Cow::Borrowed(&values[row]),
            column => Cow::Owned(column.value(row)),
        }
    }

    /// Appends the bytes of a text or BLOB to `target`. Returns whether the row has one.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn write_text(&self, row: usize, target: &mut Vec<u8>) -> bool {
        match self {
            BatchColumn::Integers(_) | BatchColumn::Reals(_) => return false,
            BatchColumn::Texts(texts) => target.extend_from_slice(texts.get(row)),
            BatchColumn::Words {
                indices,
                dictionary,
            } => target.extend_from_slice(dictionary.bytes(indices[row])),
            BatchColumn::Ngrams {
                n,
                indices,
                dictionary,
            } => {
                for (index, &word) in indices[row * n..(row + 1) * n].iter().enumerate() {
                    if index > 0 {
                        target.push(b' ');
                    }
                    target.extend_from_slice(dictionary.bytes(word));
                }
            }
            BatchColumn::Values(values) => match &values[row] {
                Value::Text(text) => target.extend_from_slice(text.as_bytes()),
                Value::Blob(bytes) => target.extend_from_slice(bytes),
                Value::Null | Value::Integer(_) | Value::Real(_) => return false,
            },
        }
        true
    }

    /// Whether rows are numbers, which take little memory.
    pub(crate) fn is_of_numbers(&self) -> bool {
        !matches!(self, BatchColumn::Texts(_) | BatchColumn::Values(_))
    }

    /// An empty column of the same kind.
    pub(crate) fn empty(&self) -> BatchColumn {
        match self {
            BatchColumn::Integers(_) => BatchColumn::Integers(Vec::new()),
            BatchColumn::Reals(_) => BatchColumn::Reals(Vec::new()),
            BatchColumn::Texts(_) => BatchColumn::Texts(TextColumn::default()),
            BatchColumn::Words { dictionary, .. } => BatchColumn::Words {
                indices: Vec::new(),
                dictionary: dictionary.clone(),
            },
            BatchColumn::Ngrams { n, dictionary, .. } => BatchColumn::Ngrams {
                n: *n,
                indices: Vec::new(),
                dictionary: dictionary.clone(),
            },
            BatchColumn::Values(_) => BatchColumn::Values(Vec::new()),
        }
    }

    /// Whether it is of the same kind, with the same meaning of numbers.
    pub(crate) fn is_like(&self, other: &BatchColumn) -> bool {
        match (self, other) {
            (
                BatchColumn::Words { dictionary, .. },
                BatchColumn::Words {
                    dictionary: other, ..
                },
            ) => dictionary.is_same(other),
            (
                BatchColumn::Ngrams { n, dictionary, .. },
                BatchColumn::Ngrams {
                    n: other_n,
                    dictionary: other,
                    ..
                },
            ) => n == other_n && dictionary.is_same(other),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// The values of these rows, in this order.
    pub(crate) fn select(&self, rows: &[u32]) -> BatchColumn {
        let at = |row: &u32| *row as usize;
        match self {
            BatchColumn::Integers(integers) => {
                BatchColumn::Integers(rows.iter().map(|row| integers[at(row)]).collect())
            }
            BatchColumn::Reals(reals) => {
                BatchColumn::Reals(rows.iter().map(|row| reals[at(row)]).collect())
            }
            BatchColumn::Texts(texts) => {
                let mut selected = TextColumn::default();
                rows.iter()
                    .for_each(|row| selected.push(texts.get(at(row))));
                BatchColumn::Texts(selected)
            }
            BatchColumn::Words {
                indices,
                dictionary,
            } => BatchColumn::Words {
                indices: rows.iter().map(|row| indices[at(row)]).collect(),
                dictionary: dictionary.clone(),
            },
            BatchColumn::Ngrams {
                n,
                indices,
                dictionary,
            } => {
                let mut selected = Vec::with_capacity(rows.len() * n);
                for row in rows {
                    selected.extend_from_slice(&indices[at(row) * n..(at(row) + 1) * n]);
                }
                BatchColumn::Ngrams {
                    n: *n,
                    indices: selected,
                    dictionary: dictionary.clone(),
                }
            }
            BatchColumn::Values(values) => {
                BatchColumn::Values(rows.iter().map(|row| values[at(row)].clone()).collect())
            }
        }
    }

    /// The values of a range of rows.
    pub(crate) fn slice(&self, rows: Range<usize>) -> BatchColumn {
        let mut sliced = self.empty();
        sliced.append_range(self, rows);
        sliced
    }

    /// Keeps the first values only.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match self {
            BatchColumn::Integers(integers) => integers.truncate(rows),
            BatchColumn::Reals(reals) => reals.truncate(rows),
            BatchColumn::Texts(texts) => {
                texts.offsets.truncate(rows + 1);
                let end = texts.offsets.last().map_or(0, |&end| end as usize);
                texts.bytes.truncate(end);
            }
            BatchColumn::Words { indices, .. } => indices.truncate(rows),
            BatchColumn::Ngrams { n, indices, .. } => indices.truncate(rows * *n),
            BatchColumn::Values(values) => values.truncate(rows),
        }
    }

    /// Appends a value. If it is not of the column's kind, all become `Values`.
    pub(crate) fn push(&mut self, value: Value) {
        match (&mut *self, value) {
            (BatchColumn::Integers(integers), Value::Integer(integer)) => integers.push(integer),
            (BatchColumn::Reals(reals), Value::Real(real)) => reals.push(real),
            (BatchColumn::Texts(texts), Value::Text(text)) => texts.push(text.as_bytes()),
            (BatchColumn::Values(values), value) => values.push(value),
            (column, value) => column.append(&BatchColumn::Values(vec![value])),
        }
    }

    /// Whether two rows have equal numbers; none if equal numbers do not mean equal values in this column.
    pub(crate) fn has_equal_numbers(&self, left: usize, right: usize) -> Option<bool> {
        match self {
            BatchColumn::Integers(integers) => Some(integers[left] == integers[right]),
            BatchColumn::Words { indices, .. } => Some(indices[left] == indices[right]),
            BatchColumn::Ngrams { n, indices, .. } => {
                let words = |row: usize| &indices[row * n..(row + 1) * n];
                Some(words(left) == words(right))
            }
            BatchColumn::Reals(_) | BatchColumn::Texts(_) | BatchColumn::Values(_) => None,
        }
    }

    /// Appends the values of another column. Where kinds differ all become `Values`.
    pub(crate) fn append(&mut self, other: &BatchColumn) {
        self.append_range(other, 0..other.len());
    }

    fn append_range(&mut self, other: &BatchColumn, rows: Range<usize>) {
        match (&mut *self, other) {
            (BatchColumn::Integers(own), BatchColumn::Integers(others)) => {
                own.extend_from_slice(&others[rows]);
            }
            (BatchColumn::Reals(own), BatchColumn::Reals(others)) => {
                own.extend_from_slice(&others[rows]);
            }
            (BatchColumn::Texts(own), BatchColumn::Texts(others)) => {
                rows.for_each(|row| own.push(others.get(row)));
            }
            (
                BatchColumn::Words {
                    indices,
                    dictionary,
                },
                BatchColumn::Words {
                    indices: others,
                    dictionary: same,
                },
            ) if dictionary.is_same(same) => indices.extend_from_slice(&others[rows]),
            (
                BatchColumn::Ngrams {
                    n,
                    indices,
                    dictionary,
                },
                BatchColumn::Ngrams {
                    n: same_n,
                    indices: others,
                    dictionary: same,
                },
            ) if n == same_n && dictionary.is_same(same) => {
                indices.extend_from_slice(&others[rows.start * *n..rows.end * *n]);
            }
            (BatchColumn::Values(own), others) => own.extend(rows.map(|row| others.value(row))),
            (own, others) => {
                let mut values: Vec<Value> = (0..own.len()).map(|row| own.value(row)).collect();
                values.extend(rows.map(|row| others.value(row)));
                *self = BatchColumn::Values(values);
            }
        }
    }

    /// The memory that it takes, in bytes, about.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            BatchColumn::Integers(integers) => size_of_val(&integers[..]),
            BatchColumn::Reals(reals) => size_of_val(&reals[..]),
            BatchColumn::Texts(texts) => size_of_val(&texts.offsets[..]) + texts.bytes.len(),
            BatchColumn::Words { indices, .. } | BatchColumn::Ngrams { indices, .. } => {
                size_of_val(&indices[..])
            }
            BatchColumn::Values(values) => {
                let texts = values.iter().map(|value| match value {
                    Value::Text(text) => text.len(),
                    Value::Blob(bytes) => bytes.len(),
                    Value::Null | Value::Integer(_) | Value::Real(_) => 0,
                });
                size_of_val(&values[..]) + texts.sum::<usize>()
            }
        }
    }
}
