//! SELECT: operators that pull rows from one another, one operator per file.
//!
//! `build` puts them together, `scan` is where rows come from, `sorter`, `spill`, `key` and `codec` carry those that keep rows.
//! Invariant: what is kept stays within the memory limit and spills beyond it; every loop over rows can be interrupted. How
//! text is read from a grammar is not known here.

mod accumulate;
mod aggregate;
mod aggregate_unique;
mod build;
mod codec;
mod context;
mod distinct;
mod explain;
mod fetch;
mod filter;
mod groups;
mod key;
mod limit;
mod project;
mod row;
mod scan;
mod sort;
mod sorter;
mod spill;

use zipfdb_sql::query::Query;

use self::build::{Builder, OpenScan};
use self::context::Context;
use self::explain::Plan;
use self::row::Input;
use crate::interrupt::Pace;
use crate::rows::{Column, Row, Rows};
use crate::{Database, Result, Value};

/// Answers a query; `binding` is the 0-based number of its parameter set.
///
/// # Errors
/// If a corpus is gone or damaged, or a constant pattern is not valid. Rows can fail later.
pub(crate) fn select(database: &Database, query: &Query, binding: u64) -> Result<Rows> {
    select_from(database, query, binding, scan::open)
}

fn select_from(database: &Database, query: &Query, binding: u64, open: OpenScan) -> Result<Rows> {
    let context = Context::new(database, binding);
    let interrupt = context.interrupt.clone();
    let mut builder = Builder {
        database,
        context,
        plan: Plan::new(false),
        open,
    };
    let input = builder.query(query)?;
    let rows = Repeated {
        input,
        row: None,
        pace: interrupt.pace(),
    };
    let columns = query.columns().map(Column::new).collect();
    Ok(Rows::new(columns, rows).with_interrupt(interrupt.handle()))
}

/// EXPLAIN: the operators of a query as an indented tree, one line a row. With `analyze` the query runs first.
///
/// # Errors
/// As `select`, and with `analyze` all that its rows can fail with.
pub(crate) fn explain(database: &Database, query: &Query, analyze: bool) -> Result<Rows> {
    explain_from(database, query, analyze, scan::open)
}

fn explain_from(database: &Database, query: &Query, analyze: bool, open: OpenScan) -> Result<Rows> {
    let mut builder = Builder {
        database,
        context: Context::new(database, 0),
        plan: Plan::new(analyze),
        open,
    };
    let mut input = builder.query(query)?;
    if analyze {
        while input.next()?.is_some() {}
    }
    let lines = builder.plan.lines().into_iter();
    let rows = lines.map(|line| Ok(Row::new(vec![Value::Text(line)])));
    Ok(Rows::new(vec![Column::new("plan")], rows))
}

/// Gives each row as often as it occurs.
struct Repeated {
    input: Input,
    /// A row that is to be given this often.
    row: Option<(Vec<Value>, u64)>,
    pace: Pace,
}

impl Repeated {
    fn row(&mut self) -> Result<Option<Row>> {
        self.pace.step()?;
        let (values, times) = match self.row.take() {
            Some(row) => row,
            None => match self.input.next()? {
                None => return Ok(None),
                Some(row) => (row.values, row.times),
            },
        };
        if times > 1 {
            self.row = Some((values.clone(), times - 1));
        }
        Ok(Some(Row::new(values)))
    }
}

impl Iterator for Repeated {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.row().transpose()
    }
}

#[cfg(test)]
mod tests;
