//! `BlockBuilder`: blocks written by hand.
//!
//! Invariant: expressions are added before those that use them, as in a plan.

use zipfdb_sql::query::{
    Aggregate, AggregateFunction, Aggregation, Block, Collation, Comparison, Expression,
    ExpressionId, Function, GroupKey, Output, Query, Relation, SortKey, Source,
};

use crate::Value;

pub(super) struct BlockBuilder(pub(super) Block);

impl BlockBuilder {
    pub(super) fn from(source: Source) -> BlockBuilder {
        BlockBuilder(Block {
            source,
            metadata: Vec::new(),
            expressions: Vec::new(),
            filter: Vec::new(),
            aggregation: None,
            having: Vec::new(),
            outputs: Vec::new(),
            distinct: false,
            order_by: Vec::new(),
            limit: None,
            offset: 0,
        })
    }

    pub(super) fn relation(relation: Relation) -> BlockBuilder {
        BlockBuilder::from(Source::Relation(relation))
    }

    pub(super) fn add(&mut self, expression: Expression) -> ExpressionId {
        let id = ExpressionId(u32::try_from(self.0.expressions.len()).unwrap());
        self.0.expressions.push(expression);
        id
    }

    pub(super) fn column(&mut self, column: usize) -> ExpressionId {
        self.add(Expression::Column(column))
    }

    pub(super) fn value(&mut self, value: impl Into<Value>) -> ExpressionId {
        self.add(Expression::Value(value.into().into()))
    }

    pub(super) fn compare(
        &mut self,
        comparison: Comparison,
        left: ExpressionId,
        right: ExpressionId,
    ) -> ExpressionId {
        self.add(Expression::Compare {
            comparison,
            left,
            right,
            collation: Collation::Binary,
        })
    }

    pub(super) fn call(&mut self, function: Function, arguments: &[ExpressionId]) -> ExpressionId {
        self.add(Expression::Call {
            function,
            arguments: arguments.to_vec(),
            collation: Collation::Binary,
        })
    }

    /// `WHERE column comparison value`.
    pub(super) fn filter(&mut self, column: usize, comparison: Comparison, value: Value) {
        let left = self.column(column);
        let right = self.value(value);
        let condition = self.compare(comparison, left, right);
        self.0.filter.push(condition);
    }

    fn aggregation(&mut self) -> &mut Aggregation {
        self.0.aggregation.get_or_insert_with(|| Aggregation {
            keys: Vec::new(),
            aggregates: Vec::new(),
        })
    }

    /// Groups by an expression, and returns the key.
    pub(super) fn key(&mut self, expression: ExpressionId, collation: Collation) -> ExpressionId {
        let keys = &mut self.aggregation().keys;
        keys.push(GroupKey {
            expression,
            collation,
        });
        let key = Expression::Key(keys.len() - 1);
        self.add(key)
    }

    /// Adds an aggregate, and returns its value.
    pub(super) fn aggregate(&mut self, aggregate: Aggregate) -> ExpressionId {
        let aggregates = &mut self.aggregation().aggregates;
        aggregates.push(aggregate);
        let value = Expression::Aggregate(aggregates.len() - 1);
        self.add(value)
    }

    /// `COUNT(*)`.
    pub(super) fn count(&mut self) -> ExpressionId {
        self.aggregate(Aggregate {
            parameter: None,
            order_by: Vec::new(),
            function: AggregateFunction::Count,
            argument: None,
            distinct: false,
            collation: Collation::Binary,
            filter: None,
        })
    }

    pub(super) fn output(&mut self, expression: ExpressionId) {
        let name = format!("c{}", self.0.outputs.len());
        self.0.outputs.push(Output { name, expression });
    }

    pub(super) fn order_by(&mut self, expression: ExpressionId, descending: bool) {
        self.0.order_by.push(SortKey {
            expression,
            descending,
            nulls_first: !descending,
            collation: Collation::Binary,
        });
    }

    pub(super) fn query(self) -> Query {
        Query {
            blocks: vec![self.0],
        }
    }
}
