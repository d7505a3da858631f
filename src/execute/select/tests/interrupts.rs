//! Interrupts and timeouts in the middle of each operator.
//!
//! The scan interrupts the query by itself after some rows, or never ends, so no test depends on the clock.

use std::cell::Cell;

use zipfdb_sql::query::{BinaryOperator, Collation, Comparison, Expression, Query, Relation};
use zipfdb_sql::setting::Setting;

use super::super::context::Context;
use super::super::explain::{Describe, Description};
use super::super::row::Operator;
use super::super::scan::{Scan, ScanRequest};
use super::*;
use crate::Database;
use crate::batch::{Batch, BatchColumn};
use crate::runtime::interrupt::InterruptHandle;

thread_local! {
    /// The number of rows until the scan interrupts its query, and of all rows.
    static SCRIPT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Returns numbers from 0, in every column.
struct Counting {
    next: u64,
    width: usize,
    handle: InterruptHandle,
}

impl Operator for Counting {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let (interrupts_at, rows) = SCRIPT.get();
        let end = self.next.saturating_add(rows_max as u64).min(rows);
        let numbers = self.next..end;
        if numbers.contains(&interrupts_at) {
            self.handle.interrupt();
        }
        self.next = end;
        let column = numbers.clone().map(|number| i64::try_from(number).unwrap());
        let column = BatchColumn::Integers(column.collect());
        let count = column.len();
        Ok((count > 0).then(|| Batch::new(vec![column; self.width], count, None)))
    }
}

impl Scan for Counting {
    fn description(&self) -> Arc<dyn Describe> {
        Arc::new(Description::new("counting", String::new(), None))
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}

fn open(_: &Arc<Session>, request: ScanRequest, context: &Context) -> Result<Box<dyn Scan>> {
    Ok(Box::new(Counting {
        next: 0,
        width: request.columns.len(),
        handle: context.interrupt.handle(),
    }))
}

/// `SELECT column 2 FROM counting`.
fn block() -> BlockBuilder {
    let mut block = BlockBuilder::relation(Relation::Words {
        corpus: "counting".into(),
    });
    let number = block.column(2);
    block.output(number);
    block
}

/// A block for each operator that takes many rows before it returns one, or returns many.
fn blocks() -> Vec<(&'static str, Query)> {
    let mut filter = block();
    let (left, right) = (filter.column(2), filter.column(3));
    let never = filter.compare(Comparison::Less, left, right);
    filter.0.filter.push(never);

    let mut sort = block();
    let number = sort.column(2);
    sort.order_by(number, true);

    let mut first = block();
    let number = first.column(2);
    first.order_by(number, true);
    first.0.limit = Some(1);

    let mut distinct = block();
    distinct.0.distinct = true;

    let mut groups = BlockBuilder::relation(Relation::Words {
        corpus: "counting".into(),
    });
    let number = groups.column(2);
    let key = groups.key(number, Collation::Binary);
    groups.output(key);

    let mut total = BlockBuilder::relation(Relation::Words {
        corpus: "counting".into(),
    });
    let count = total.count();
    total.output(count);

    let mut project = block();
    let number = project.column(2);
    let doubled = project.add(Expression::Binary {
        operator: BinaryOperator::Add,
        left: number,
        right: number,
    });
    project.output(doubled);

    let mut offset = block();
    offset.0.offset = u64::MAX;

    [
        ("filter", filter),
        ("sort", sort),
        ("first", first),
        ("distinct", distinct),
        ("groups", groups),
        ("total", total),
        ("project", project),
        ("offset", offset),
    ]
    .map(|(name, block)| (name, block.query()))
    .into()
}

/// The error that ends a query, and the number of rows before it.
fn failure(database: &Database, query: &Query) -> (usize, Error) {
    let mut count = 0;
    for row in select_from(
        database.inner(),
        vec![query.clone()],
        open,
        &database.inner().shared().runtime.interrupt(),
    )
    .unwrap()
    {
        match row {
            Ok(_) => count += 1,
            Err(error) => return (count, error),
        }
    }
    panic!("it ended well after {count} rows")
}

#[test]
fn every_operator_ends_soon_after_an_interrupt() {
    for memory in [1 << 30, 2000] {
        let database = Database::in_memory().unwrap();
        let mut settings = database.inner().shared().runtime.settings.lock();
        settings.set(Setting::MemoryLimit(Some(memory)));
        drop(settings);
        for (name, query) in blocks() {
            // Without end: an operator that does not check never returns.
            SCRIPT.set((1500, u64::MAX));
            let (rows, error) = failure(&database, &query);
            assert!(matches!(error, Error::Interrupted), "{name}: {error}");
            assert!(rows < 4000, "{name}: {rows}");
        }
    }
}

#[test]
fn an_interrupt_ends_what_is_given_after_sorting_and_grouping() {
    for memory in [1 << 30, 20_000] {
        let database = Database::in_memory().unwrap();
        let mut settings = database.inner().shared().runtime.settings.lock();
        settings.set(Setting::MemoryLimit(Some(memory)));
        drop(settings);
        for (name, query) in blocks() {
            if !["sort", "groups", "distinct"].contains(&name) {
                continue;
            }
            SCRIPT.set((u64::MAX, 5000));
            let mut rows = select_from(
                database.inner(),
                vec![query.clone()],
                open,
                &database.inner().shared().runtime.interrupt(),
            )
            .unwrap();
            let handle = rows.interrupt_handle().unwrap();
            assert!(rows.next().unwrap().is_ok());
            handle.interrupt();
            let left = rows.take_while(Result::is_ok).count();
            assert!(left < 3000, "{name}: {left}");
        }
    }
}

#[test]
fn a_statement_ends_when_its_time_is_up() {
    let database = Database::in_memory().unwrap();
    let mut settings = database.inner().shared().runtime.settings.lock();
    settings.set(Setting::StatementTimeout(1));
    drop(settings);
    for (name, query) in blocks() {
        SCRIPT.set((u64::MAX, u64::MAX));
        let (_, error) = failure(&database, &query);
        let is_timeout = matches!(error, Error::Timeout { milliseconds: 1 });
        assert!(is_timeout, "{name}: {error}");
    }
}

#[test]
fn the_database_interrupts_all_that_runs() {
    let database = Database::in_memory().unwrap();
    SCRIPT.set((u64::MAX, u64::MAX));
    let query = block().query();
    let mut one = select_from(
        database.inner(),
        vec![query.clone()],
        open,
        &database.inner().shared().runtime.interrupt(),
    )
    .unwrap();
    let mut other = select_from(
        database.inner(),
        vec![query.clone()],
        open,
        &database.inner().shared().runtime.interrupt(),
    )
    .unwrap();
    assert!(one.next().unwrap().is_ok());
    database.interrupt_handle().interrupt();
    let mut later = select_from(
        database.inner(),
        vec![query.clone()],
        open,
        &database.inner().shared().runtime.interrupt(),
    )
    .unwrap();
    assert!(one.any(|row| matches!(row, Err(Error::Interrupted))));
    assert!(matches!(other.next(), Some(Err(Error::Interrupted))));
    assert!(later.next().unwrap().is_ok());
}
