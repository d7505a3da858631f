//! `ColumnBuilder`: builds a column of the narrowest kind that holds its values.
//!
//! Invariant: the column has the values that were pushed, in order.

use super::column::BatchColumn;
use super::texts::TextColumn;
use crate::Value;

/// A column in the making.
#[derive(Debug, Default)]
pub(crate) struct ColumnBuilder {
    /// None before the first value.
    column: Option<BatchColumn>,
}

impl ColumnBuilder {
    /// Appends a value.
    pub(crate) fn push(&mut self, value: Value) {
        match (&mut self.column, value) {
            (Some(column), value) => column.push(value),
            (none, Value::Integer(integer)) => *none = Some(BatchColumn::Integers(vec![integer])),
            (none, Value::Real(real)) => *none = Some(BatchColumn::Reals(vec![real])),
            (none, Value::Text(text)) => {
                let mut texts = TextColumn::default();
                texts.push(text.as_bytes());
                *none = Some(BatchColumn::Texts(texts));
            }
            (none, value) => *none = Some(BatchColumn::Values(vec![value])),
        }
    }

    /// Appends a copy of a value.
    pub(crate) fn push_copy(&mut self, value: &Value) {
        match (&mut self.column, value) {
            (Some(BatchColumn::Texts(texts)), Value::Text(text)) => texts.push(text.as_bytes()),
            _ => self.push(value.clone()),
        }
    }

    /// A column with `value` in each row.
    pub(crate) fn repeated(value: &Value, rows: usize) -> BatchColumn {
        let mut column = ColumnBuilder::default();
        (0..rows).for_each(|_| column.push_copy(value));
        column.finish()
    }

    /// The column.
    pub(crate) fn finish(self) -> BatchColumn {
        self.column.unwrap_or(BatchColumn::Values(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Vec<Value>> {
        let value = prop_oneof![
            8 => any::<i64>().prop_map(Value::Integer),
            1 => Just(Value::Null),
            1 => (-9i32..9).prop_map(|n| Value::Real(f64::from(n))),
            1 => "[a-c\u{e9}]{0,3}".prop_map(Value::Text),
            1 => proptest::collection::vec(any::<u8>(), 0..3).prop_map(Value::Blob),
        ];
        let texts = proptest::collection::vec("[a-c]{0,3}".prop_map(Value::Text), 0..9);
        prop_oneof![proptest::collection::vec(value, 0..9), texts]
    }

    fn column(values: &[Value]) -> BatchColumn {
        let mut column = ColumnBuilder::default();
        values.iter().for_each(|value| column.push(value.clone()));
        column.finish()
    }

    fn all(column: &BatchColumn) -> Vec<Value> {
        (0..column.len()).map(|row| column.value(row)).collect()
    }

    proptest! {
        #[test]
        fn columns_hold_what_was_pushed_selected_and_appended(
            first in values(),
            second in values(),
            cut in 0usize..9,
        ) {
            let mut built = column(&first);
            prop_assert_eq!(all(&built), first.clone());
            built.append(&column(&second));
            let mut together = [first, second].concat();
            prop_assert_eq!(all(&built), together.clone());
            let backwards: Vec<u32> = (0..together.len() as u32).rev().collect();
            let reversed: Vec<Value> = together.iter().rev().cloned().collect();
            prop_assert_eq!(all(&built.select(&backwards)), reversed);
            let cut = cut.min(together.len());
            prop_assert_eq!(all(&built.slice(cut..together.len())), together[cut..].to_vec());
            built.truncate(cut);
            together.truncate(cut);
            prop_assert_eq!(all(&built), together);
        }
    }
}
