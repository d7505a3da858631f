//! Conditions that DataFusion learns while a query runs, such as the keys of a join's build side, as conditions on a scan.
//!
//! Invariant: a condition here is true wherever the one of DataFusion is. It may be true for more rows, because the operator
//! that the condition comes from examines each row again; so parts of an AND that cannot be expressed are left out.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::expressions::{
    self, BinaryExpr, CaseExpr, DynamicFilterPhysicalExpr, InListExpr, IsNullExpr, Literal,
};
use datafusion::physical_plan::PhysicalExpr;

/// What a dynamic filter says now, as parts that all hold.
///
/// # Errors
/// If the filter cannot be read.
pub(crate) fn known(filter: &DynamicFilterPhysicalExpr) -> Result<Vec<Expr>> {
    Ok(conjuncts(&filter.current()?))
}

/// The parts of a condition that can be said.
fn conjuncts(condition: &Arc<dyn PhysicalExpr>) -> Vec<Expr> {
    match condition.downcast_ref::<BinaryExpr>() {
        Some(binary) if *binary.op() == Operator::And => {
            let mut parts = conjuncts(binary.left());
            parts.extend(conjuncts(binary.right()));
            parts
        }
        _ => logical(condition).into_iter().collect(),
    }
}

/// A condition that is true wherever the given one is; none if there is none but TRUE.
fn weaker(condition: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
    conjuncts(condition).into_iter().reduce(Expr::and)
}

fn logical(expression: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
    if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
        let (left, right) = (binary.left(), binary.right());
        return match binary.op() {
            Operator::Or => Some(weaker(left)?.or(weaker(right)?)),
            operator => {
                let (left, right) = (Box::new(operand(left)?), Box::new(operand(right)?));
                let comparison = datafusion::logical_expr::BinaryExpr::new(left, *operator, right);
                Some(Expr::BinaryExpr(comparison))
            }
        };
    }
    if let Some(list) = expression.downcast_ref::<InListExpr>() {
        let column = Box::new(operand(list.expr())?);
        let items = list
            .list()
            .iter()
            .map(operand)
            .collect::<Option<Vec<_>>>()?;
        return Some(Expr::InList(InList::new(column, items, list.negated())));
    }
    if let Some(is_null) = expression.downcast_ref::<IsNullExpr>() {
        return Some(operand(is_null.arg())?.is_null());
    }
    // A join of several partitions: which partition a row belongs to, and then the keys of that one.
    let case = expression.downcast_ref::<CaseExpr>()?;
    let branches = case.when_then_expr().iter().map(|(_, then)| then);
    let branches = branches.chain(case.else_expr());
    let possible = branches.filter(|branch| !is_false(branch)).map(weaker);
    possible
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .reduce(Expr::or)
}

fn is_false(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let literal = expression.downcast_ref::<Literal>();
    literal.is_some_and(|literal| *literal.value() == false.into())
}

fn operand(expression: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
    if let Some(column) = expression.downcast_ref::<expressions::Column>() {
        return Some(Expr::Column(Column::from_name(column.name())));
    }
    let literal = expression.downcast_ref::<Literal>()?;
    Some(Expr::Literal(literal.value().clone(), None))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{binary, case, col, in_list, lit};

    use super::*;

    fn said(condition: Arc<dyn PhysicalExpr>) -> Vec<String> {
        let parts = conjuncts(&condition);
        parts.iter().map(|part| part.to_string()).collect()
    }

    #[test]
    fn what_cannot_be_said_makes_a_condition_weaker_and_never_stronger() {
        let schema = Schema::new(vec![Field::new("word", DataType::Utf8View, false)]);
        let word = || col("word", &schema).unwrap();
        let text = |text: &str| lit(ScalarValue::Utf8View(Some(text.into())));
        let of = |left, operator, right| binary(left, operator, right, &schema).unwrap();
        let list = |words: &[&str]| {
            let words = words.iter().map(|word| text(word)).collect();
            in_list(word(), words, &false, &schema).unwrap()
        };
        // What a scan has no words for.
        let other = || {
            of(
                of(word(), Operator::StringConcat, text("x")),
                Operator::Eq,
                text("y"),
            )
        };
        let bounds = || of(word(), Operator::GtEq, text("a"));
        assert_eq!(
            said(of(bounds(), Operator::And, other())),
            ["word >= Utf8View(\"a\")"]
        );
        assert!(said(of(bounds(), Operator::Or, other())).is_empty());
        let both = of(bounds(), Operator::And, list(&["a", "b"]));
        assert_eq!(said(both).len(), 2);
        let routed = |otherwise| {
            let (first, second) = (list(&["a"]), of(list(&["b"]), Operator::And, other()));
            let branches = vec![(bounds(), first), (other(), second)];
            case(None, branches, Some(otherwise)).unwrap()
        };
        assert_eq!(
            said(routed(lit(false))),
            ["word IN ([Utf8View(\"a\")]) OR word IN ([Utf8View(\"b\")])"]
        );
        assert!(said(routed(other())).is_empty());
    }
}
