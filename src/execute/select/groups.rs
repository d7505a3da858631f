//! `Groups`: the groups of an aggregation that are in memory, and how they are written to a run.
//!
//! The numbers of their keys distinguish groups (`group_index.rs`). Where there are many rows of numbers, a thread of the pool
//! adds numbered rows to their groups (`group_table.rs`) while the thread of the statement reads and numbers further ones.
//! Invariant: rows are added in the order in which they come, on any thread.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_sql::query::Aggregation;

use super::codec::Encoder;
use super::context::Context;
use super::group::{STATE, collects, number_of};
use super::group_index::RowKeys;
use super::group_keys::{GroupKeys, NumberedBatch};
use super::group_table::GroupTable;
use super::key::KeyOrder;
use super::row::BATCH_BYTES;
use super::spill::RunWriter;
use crate::batch::{Batch, BatchColumn};
use crate::expression::Program;
use crate::runtime::background_value::BackgroundValue;
use crate::runtime::interrupt::Pace;
use crate::{Result, Value};

/// Values for texts of dictionaries may take 1/`TEXTS_SHARE` of memory, of all expressions together.
const TEXTS_SHARE: usize = 4;

/// Batches that a thread of the pool adds to their groups at a time: milliseconds of work.
pub(super) const BATCHES_APART: usize = 8;

/// The groups in memory.
pub(super) struct Groups {
    aggregation: Arc<Aggregation>,
    keys: GroupKeys,
    table: BackgroundValue<Box<GroupTable>>,
    /// The memory of the table when it was last here.
    table_bytes: usize,
    /// Batches that were numbered and not added yet.
    looked_at: Vec<(Batch, NumberedBatch)>,
    context: Context,
}

impl Groups {
    /// An aggregation without groups.
    pub(super) fn new(
        aggregation: &Aggregation,
        program: &Arc<Program>,
        once: Vec<bool>,
        context: &Context,
    ) -> Groups {
        let aggregation = Arc::new(aggregation.clone());
        let of_aggregates = aggregation.aggregates.iter();
        let of_aggregates = of_aggregates.map(|aggregate| 2 + aggregate.order_by.len());
        let expressions = aggregation.keys.len() + of_aggregates.sum::<usize>();
        let share = context.memory / TEXTS_SHARE / expressions.max(1);
        let table = GroupTable::new(&aggregation, program, once, share);
        Groups {
            keys: GroupKeys::new(&aggregation, program, (share, &context.values)),
            table: BackgroundValue::new(Box::new(table), &context.pool, &context.interrupt),
            table_bytes: 0,
            looked_at: Vec::new(),
            context: context.clone(),
            aggregation,
        }
    }

    /// Adds rows of a batch to their groups.
    ///
    /// # Errors
    /// If a key or an argument cannot be computed, or there is no memory for it.
    pub(super) fn take(&mut self, batch: &Batch, rows: Range<usize>) -> Result<()> {
        self.settle()?;
        self.begin(batch)?;
        let numbered = self.keys.look(batch, rows)?;
        self.add(batch, numbered)
    }

    /// Whether adding the rows of a batch to their groups pays for another thread, and takes little memory.
    pub(super) fn pays_apart(&self, batch: &Batch) -> bool {
        let finds_rows =
            !self.aggregation.keys.is_empty() || self.aggregation.aggregates.iter().any(collects);
        let columns = batch.columns();
        finds_rows && self.keys.are_dispensable() && columns.iter().all(BatchColumn::is_of_numbers)
    }

    /// As `take`, for all rows of a batch, which a thread of the pool may add later, in the order of batches.
    ///
    /// # Errors
    /// As `take`, also for earlier batches.
    pub(super) fn take_apart(&mut self, batch: Batch) -> Result<()> {
        self.begin(&batch)?;
        let rows = 0..batch.len();
        let numbered = self.keys.look(&batch, rows)?;
        if !self.keys.are_dispensable() {
            self.settle()?;
            return self.add(&batch, numbered);
        }
        self.looked_at.push((batch, numbered));
        if self.looked_at.len() < BATCHES_APART {
            return Ok(());
        }
        self.table_bytes = self.table.here()?.bytes();
        let looked_at = std::mem::take(&mut self.looked_at);
        self.table.begin(|table| add_all(table, looked_at))
    }

    /// Adds all numbered rows.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn settle(&mut self) -> Result<()> {
        let looked_at = std::mem::take(&mut self.looked_at);
        let table = self.table.here()?;
        add_all(table, looked_at)?;
        self.table_bytes = table.bytes();
        Ok(())
    }

    /// The number of groups.
    ///
    /// # Errors
    /// As `settle`.
    pub(super) fn len(&mut self) -> Result<usize> {
        self.settle()?;
        Ok(self.table.here()?.len())
    }

    /// The memory of all of it while it is written, in bytes, about; without what a thread of the pool adds.
    pub(super) fn bytes(&self) -> usize {
        self.keys.bytes() + self.table_bytes
    }

    /// Ends taking rows. Without keys there is one group, even if it has no rows.
    ///
    /// # Errors
    /// As `settle`.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.settle()?;
        let table = self.table.here()?;
        table.finish();
        self.keys.finish();
        table.sort(&self.keys, &self.context)
    }

    /// The rows of groups from `first` on, at most `rows_max`, up to one whose aggregates fail.
    pub(super) fn batch(&mut self, first: usize, rows_max: usize) -> (Option<Batch>, Result<()>) {
        let table = match self.table.here() {
            Ok(table) => table,
            Err(error) => return (None, Err(error)),
        };
        let most = first.saturating_add(rows_max.max(1)).min(table.len());
        let end = end_of_batch(&self.keys.keys, table, first, most);
        let (taken, failed) = table.take_in_order(first..end, &self.keys, &self.context);
        let (columns, length, ended) = table.columns(first..first + taken);
        let ended = ended.and(failed);
        if length == 0 {
            return (None, ended);
        }
        let mut given = self.keys.keys.columns(&table.rows, first..first + length);
        given.extend(columns);
        (Some(Batch::new(given, length, None)), ended)
    }

    /// Writes all groups as a run and forgets them.
    ///
    /// # Errors
    /// If the run cannot be written, or the query must end; also as `settle`.
    pub(super) fn write(&mut self, writer: &mut RunWriter, pace: &mut Pace) -> Result<()> {
        self.settle()?;
        let table = self.table.here()?;
        let written = Written {
            aggregation: &self.aggregation,
            keys: &self.keys,
            table,
            context: &self.context,
        };
        written.write(writer, pace)?;
        table.clear();
        self.keys.clear();
        self.table_bytes = 0;
        Ok(())
    }

    /// Begins a batch.
    fn begin(&mut self, batch: &Batch) -> Result<()> {
        if !self.keys.begin(batch) {
            self.settle()?;
            let table = self.table.here()?;
            table.number_values(&mut self.keys, batch, &self.context.values)?;
        }
        Ok(())
    }

    /// Adds rows of a batch, after all others.
    fn add(&mut self, batch: &Batch, numbered: NumberedBatch) -> Result<()> {
        let table = self.table.here()?;
        table.take(batch, numbered, Some(&self.keys))?;
        self.table_bytes = table.bytes();
        Ok(())
    }
}

/// Adds batches to their groups without the keys.
fn add_all(table: &mut GroupTable, looked_at: Vec<(Batch, NumberedBatch)>) -> Result<()> {
    for (batch, numbered) in looked_at {
        table.take(&batch, numbered, None)?;
    }
    Ok(())
}

/// The end of the groups of a batch that begins with `first`: at most `most`, less where texts take much memory.
fn end_of_batch(keys: &RowKeys, table: &GroupTable, first: usize, most: usize) -> usize {
    if table.is_of_counts() && !keys.has_texts() {
        return most;
    }
    let mut bytes = 0;
    let fits = |&group: &usize| {
        let is_full = bytes >= BATCH_BYTES;
        bytes += keys.text_bytes(table.rows.numbers(group)) + table.kept_bytes(group);
        !is_full
    };
    first + (first..most).take_while(fits).count()
}

/// Groups in the form of a run.
struct Written<'a> {
    aggregation: &'a Aggregation,
    keys: &'a GroupKeys,
    table: &'a mut GroupTable,
    context: &'a Context,
}

impl Written<'_> {
    fn write(self, writer: &mut RunWriter, pace: &mut Pace) -> Result<()> {
        let Written {
            aggregation,
            keys,
            table,
            context,
        } = self;
        let orders = aggregation.keys.iter();
        let orders = orders.map(|key| KeyOrder::ascending(key.collation));
        let orders: Vec<KeyOrder> = orders.collect();
        let groups = keys.keys.sorted(&table.rows, &orders, context)?;
        table.sort(keys, context)?;
        let (mut group_key, mut argument_key) = (Vec::new(), Vec::new());
        let mut encoder = Encoder::default();
        for group in groups {
            pace.step()?;
            let numbers = table.rows.numbers(group as usize);
            group_key.clear();
            keys.keys
                .add_key(numbers, &orders, &context.values, &mut group_key)?;
            encoder.bytes.clear();
            encoder.number(group_key.len() as u64);
            for key in 0..orders.len() {
                encoder.value(&keys.keys.value(numbers, key));
            }
            let aggregates = table.aggregates.iter();
            aggregates.for_each(|aggregate| aggregate.encode(group, &mut encoder));
            writer.push(&[&group_key, &STATE], &encoder.bytes)?;
            for (index, state) in table.aggregates.iter().enumerate() {
                let of = &keys.aggregates[index];
                let (Some(collected), Some(argument)) = (&state.collected, &of.argument) else {
                    continue;
                };
                // Far fewer aggregates than 2^32 fit into a statement.
                let number = number_of(index as u32);
                for &row in collected.of_group(group) {
                    pace.step()?;
                    let numbers = collected.rows.numbers(row as usize);
                    argument_key.clear();
                    argument.add_key(numbers, &of.orders, &context.values, &mut argument_key)?;
                    encoder.bytes.clear();
                    encoder.number(group_key.len() as u64);
                    encoder.number(collected.times_of(row));
                    if state.is_count() {
                        // The values that COUNT takes do not matter.
                        encoder.value(&Value::Integer(1));
                    } else {
                        encoder.value(&argument.last(numbers));
                    }
                    writer.push(&[&group_key, &number, &argument_key], &encoder.bytes)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use zipfdb_sql::query::{
        Aggregate, AggregateFunction, Collation, Expression, ExpressionId, GroupKey,
    };

    use super::super::group::{GroupRecord, read_part};
    use super::super::spill::SpilledRuns;
    use super::*;
    use crate::Database;
    use crate::batch::{ColumnBuilder, TextDictionary};
    use crate::expression::Layout;
    use crate::handles::session::Session;
    use crate::runtime::interrupt::{Interrupt, Interrupts};
    use crate::runtime::memory::ValueMemory;
    use crate::runtime::spill_directory::SpillDirectory;

    /// `GROUP BY x` with `COUNT(DISTINCT x)`, `SUM(DISTINCT x)` and `MAX(x)`.
    fn aggregation(collation: Collation) -> Aggregation {
        let aggregate = |function, distinct| Aggregate {
            parameter: None,
            order_by: Vec::new(),
            function,
            distinct,
            argument: Some(ExpressionId(0)),
            filter: None,
            collation: Collation::Binary,
        };
        Aggregation {
            keys: vec![GroupKey {
                expression: ExpressionId(0),
                collation,
            }],
            aggregates: vec![
                aggregate(AggregateFunction::Count, true),
                aggregate(AggregateFunction::Sum, true),
                aggregate(AggregateFunction::Max, false),
            ],
        }
    }

    fn program(interrupt: &Interrupt) -> Program {
        let memory = ValueMemory::default();
        Program::new(
            &[Expression::Column(0)],
            &Layout::whole(1, 0),
            0,
            interrupt,
            &memory,
        )
        .unwrap()
    }

    fn groups(aggregation: &Aggregation, interrupt: &Interrupt) -> Groups {
        let database = Database::in_memory().unwrap();
        let session = Arc::new(Session::new(database.shared().clone()));
        let mut context = Context::new(&session, interrupt);
        context.memory = 1 << 20;
        let program = Arc::new(program(interrupt));
        Groups::new(aggregation, &program, vec![false; 3], &context)
    }

    #[test]
    fn large_values_count_as_often_as_they_are_kept_and_are_merged_again() {
        let aggregation = aggregation(Collation::Binary);
        let interrupt = Interrupts::default().begin(0);
        let mut pace = interrupt.pace();
        let mut groups = groups(&aggregation, &interrupt);
        let mut runs = SpilledRuns::new(1 << 20, &SpillDirectory::beside(None));
        const LENGTH: usize = 50_000;
        // Every group comes in two runs.
        for number in (0..40).chain(0..40) {
            let mut column = ColumnBuilder::default();
            column.push(Value::Text(format!("{number:0LENGTH$}")));
            let batch = Batch::new(vec![column.finish()], 1, Some(vec![2]));
            groups.take(&batch, 0..1).unwrap();
            // The shown value, two arguments and the greatest.
            let kept = groups.len().unwrap() * 4 * LENGTH;
            assert!((kept..kept + kept / 10).contains(&groups.bytes()));
            if number == 39 {
                let write = |writer: &mut RunWriter| groups.write(writer, &mut pace);
                runs.write(write).unwrap();
                assert!(groups.len().unwrap() == 0 && groups.bytes() == 0);
            }
        }
        let mut merge = runs.merge(&mut pace).unwrap();
        let mut records = 0;
        while let Some(record) = merge.next().unwrap() {
            records += 1;
            let (key, part) = read_part((&aggregation, &program(&interrupt)), &record).unwrap();
            assert_eq!(key.len(), LENGTH + 3);
            if let GroupRecord::State(group) = part {
                assert!(matches!(&group.keys[0], Value::Text(text) if text.len() == LENGTH));
            }
        }
        assert_eq!(records, 2 * 40 * 3);
    }

    /// All groups, in order.
    fn finished(mut groups: Groups) -> Vec<Vec<Value>> {
        groups.finish().unwrap();
        let (batch, ended) = groups.batch(0, usize::MAX);
        ended.unwrap();
        batch.map_or(Vec::new(), |batch| {
            (0..batch.len()).map(|row| batch.row(row)).collect()
        })
    }

    proptest! {
        #[test]
        fn rows_that_another_thread_adds_make_the_same_groups(
            // Of each batch the kind of its column, and its values.
            batches in proptest::collection::vec(
                (0u8..8, proptest::collection::vec(any::<u8>(), 1..40)), 1..60,
            ),
            is_nocase: bool,
        ) {
            let texts = |texts: [&str; 4]| TextDictionary::made(texts.map(str::to_owned).to_vec());
            let dictionaries = [texts(["a", "B", "A", "1"]), texts(["x", "a", "b", "1"])];
            let collation = if is_nocase { Collation::NoCase } else { Collation::Binary };
            let aggregation = aggregation(collation);
            let interrupt = Interrupts::default().begin(0);
            let mut at_once = groups(&aggregation, &interrupt);
            let mut apart = groups(&aggregation, &interrupt);
            for (kind, values) in batches {
                let column = match kind {
                    0 => BatchColumn::Integers(values.iter().map(|&value| i64::from(value % 5)).collect()),
                    1 => BatchColumn::Values(vec![Value::Null, Value::Real(1.0)]),
                    // Most batches have the first one.
                    _ => BatchColumn::Words {
                        indices: values.iter().map(|&value| u32::from(value % 4)).collect(),
                        dictionary: dictionaries[usize::from(kind == 2)].clone(),
                    },
                };
                let rows = column.len();
                let batch = Batch::new(vec![column], rows, None);
                at_once.take(&batch, 0..rows).unwrap();
                if apart.pays_apart(&batch) {
                    apart.take_apart(batch).unwrap();
                } else {
                    apart.take(&batch, 0..rows).unwrap();
                }
            }
            prop_assert_eq!(apart.len().unwrap(), at_once.len().unwrap());
            prop_assert_eq!(apart.bytes(), at_once.bytes());
            prop_assert_eq!(finished(apart), finished(at_once));
        }
    }
}
