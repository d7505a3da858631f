//! VALUES: rows of constants.
//!
//! Invariant: rows come in the order in which they were written, each evaluated when it is asked for.

use std::sync::Arc;

use zipfdb_sql::query::ExpressionId;

use super::row::{LateError, Operator, RowCollector};
use crate::batch::Batch;
use crate::expression::{Evaluator, Program};
use crate::runtime::interrupt::Pace;
use crate::{Result, Value};

pub(super) struct Values {
    evaluator: Evaluator<Arc<Program>>,
    values: std::vec::IntoIter<ExpressionId>,
    width: usize,
    late: LateError,
    pace: Pace,
}

impl Values {
    /// The rows of `values`, `width` values each.
    pub(super) fn new(
        program: Arc<Program>,
        values: Vec<ExpressionId>,
        width: usize,
        pace: Pace,
    ) -> Values {
        Values {
            evaluator: Evaluator::of(program),
            values: values.into_iter(),
            width,
            late: LateError::default(),
            pace,
        }
    }

    /// The next row; empty at the end.
    fn row(&mut self) -> Result<Vec<Value>> {
        self.pace.step()?;
        self.evaluator.next_row();
        let mut values = Vec::with_capacity(self.width);
        for id in self.values.by_ref().take(self.width) {
            // Cloned: the same constant may stand in a row more than once.
            values.push(self.evaluator.value(&[], id)?.clone());
        }
        Ok(values)
    }
}

impl Operator for Values {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        let mut rows = RowCollector::default();
        let mut ended = Ok(());
        while !rows.is_full(rows_max) {
            match self.row() {
                Ok(values) if values.is_empty() => break,
                Ok(values) => rows.push(values),
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        self.late.after(rows.finish(), ended)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use zipfdb_sql::Plan;

    use super::super::select;
    use crate::{CorpusSettings, Database, Value};

    #[test]
    fn rows_come_as_they_were_written() {
        let database = Database::in_memory().unwrap();
        database
            .create_corpus("c", CorpusSettings::default())
            .unwrap();
        let sql = "INSERT INTO c (file, offset, content) VALUES ('a', 1 + 1, 'a'), (lower('B'), 0, X'00')";
        let statement = zipfdb_sql::parse(sql).unwrap().remove(0);
        let plan = zipfdb_sql::bind(&statement, &**database.inner(), &[]).unwrap();
        let Plan::Insert { query, .. } = plan else {
            panic!("{plan:?}")
        };
        let rows = select(
            database.inner(),
            query,
            &database.inner().shared().runtime.interrupt(),
        )
        .unwrap();
        let rows: Vec<Vec<Value>> = rows.map(|row| row.unwrap().into_values()).collect();
        let expected = [
            vec![Value::from("a"), Value::Integer(2), Value::from("a")],
            vec![Value::from("b"), Value::Integer(0), Value::Blob(vec![0])],
        ];
        assert_eq!(rows, expected);
    }
}
