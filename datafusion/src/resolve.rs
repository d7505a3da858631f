//! Resolves expressions above a scan to columns of it.
//!
//! Invariant: only plans that pass rows on one by one are seen through: projections and aliases.

use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};

/// The scan below projections and aliases.
pub(crate) fn scan_below(plan: &LogicalPlan) -> Option<&TableScan> {
    match plan {
        LogicalPlan::TableScan(scan) => Some(scan),
        LogicalPlan::SubqueryAlias(alias) => scan_below(&alias.input),
        LogicalPlan::Projection(projection) => scan_below(&projection.input),
        _ => None,
    }
}

/// The column of the table, among all that it has, that an expression on the rows of `plan` shows; none if it shows another
/// value.
pub(crate) fn column_of(plan: &LogicalPlan, expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Alias(alias) => column_of(plan, &alias.expr),
        Expr::Column(column) => column_at(plan, plan.schema().maybe_index_of_column(column)?),
        _ => None,
    }
}

fn column_at(plan: &LogicalPlan, index: usize) -> Option<usize> {
    match plan {
        LogicalPlan::TableScan(scan) => match &scan.projection {
            Some(projection) => projection.get(index).copied(),
            None => Some(index),
        },
        LogicalPlan::SubqueryAlias(alias) => column_at(&alias.input, index),
        LogicalPlan::Projection(projection) => {
            column_of(&projection.input, projection.expr.get(index)?)
        }
        _ => None,
    }
}
