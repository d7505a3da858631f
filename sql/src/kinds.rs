//! The kinds of values that the columns of a query hold, as far as its plan shows them.
//!
//! Invariant: a column of a kind holds values of that kind and NULL, except that words and n-grams, which are TEXT here, are BLOBs
//! where they are not UTF-8. Nothing is evaluated, so integers that may overflow to REAL have no kind.

use crate::query::{
    Affinity, AggregateFunction, BinaryOperator, Block, Expression, ExpressionId, Function, Query,
    Relation, SegmentsColumn, Source,
};
use crate::value::ValueKind;

/// What is known of the values of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All of them are NULL.
    Null,
    /// They are NULL or of a kind.
    Of(ValueKind),
    Any,
}

impl Kind {
    /// What is known of values that are of one or the other.
    fn or(self, other: Kind) -> Kind {
        match (self, other) {
            (Kind::Null, kind) | (kind, Kind::Null) => kind,
            (a, b) if a == b => a,
            _ => Kind::Any,
        }
    }

    fn of_affinity(affinity: Affinity) -> Kind {
        match affinity {
            Affinity::Integer => Kind::Of(ValueKind::Integer),
            Affinity::Real => Kind::Of(ValueKind::Real),
            Affinity::Text => Kind::Of(ValueKind::Text),
            Affinity::Blob => Kind::Of(ValueKind::Blob),
            Affinity::None | Affinity::Numeric => Kind::Any,
        }
    }
}

impl Query {
    /// The kinds of values that the columns of the result hold beside NULL; none for a column that may hold several. Words and
    /// n-grams count as TEXT, though one that is not UTF-8 is a BLOB.
    pub fn column_kinds(&self) -> Vec<Option<ValueKind>> {
        let mut blocks: Vec<Vec<Kind>> = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let kinds = of_block(block, &blocks);
            blocks.push(kinds);
        }
        let kinds = blocks.pop().unwrap_or_default().into_iter();
        let known = kinds.map(|kind| match kind {
            Kind::Of(kind) => Some(kind),
            Kind::Null | Kind::Any => None,
        });
        known.collect()
    }
}

/// The kinds of a block's outputs; `before` has those of the blocks before it.
fn of_block(block: &Block, before: &[Vec<Kind>]) -> Vec<Kind> {
    let mut kinds = Kinds {
        block,
        before,
        known: Vec::new(),
    };
    let outputs = block.outputs.iter();
    outputs.map(|output| kinds.of(output.expression)).collect()
}

/// The kinds of one block. Every run of a statement derives them, so most outputs are settled without the other expressions.
struct Kinds<'a> {
    block: &'a Block,
    before: &'a [Vec<Kind>],
    /// Of the first expressions, as far as composite ones were asked for.
    known: Vec<Kind>,
}

impl<'a> Kinds<'a> {
    fn of(&mut self, id: ExpressionId) -> Kind {
        let block = self.block;
        let index = id.0 as usize;
        match block.expressions.get(index) {
            None => Kind::Any,
            // Composite ones refer to earlier ones, so chains of any length take no more stack than short ones.
            Some(Expression::Binary { .. } | Expression::Case { .. } | Expression::Call { .. }) => {
                while self.known.len() <= index {
                    let kind = self.of_expression(&block.expressions[self.known.len()]);
                    self.known.push(kind);
                }
                self.known[index]
            }
            Some(expression) => self.of_expression(expression),
        }
    }

    fn of_all(&mut self, ids: impl IntoIterator<Item = ExpressionId>) -> Kind {
        let kinds = ids.into_iter().map(|id| self.of(id));
        kinds.fold(Kind::Null, Kind::or)
    }

    fn of_output(&self, block: usize, output: usize) -> Kind {
        let outputs = self.before.get(block);
        let kind = outputs.and_then(|outputs| outputs.get(output));
        kind.copied().unwrap_or(Kind::Any)
    }

    fn of_column(&self, column: usize) -> Kind {
        match &self.block.source {
            Source::Nothing | Source::Values { .. } => Kind::Any,
            Source::Relation(Relation::Segments { .. }) if column >= SegmentsColumn::ALL.len() => {
                // Sections of a segment file.
                Kind::Of(ValueKind::Integer)
            }
            Source::Relation(relation) => {
                if let Some((_, affinity)) = relation.column(column) {
                    return Kind::of_affinity(affinity);
                }
                let width = relation.columns_of_files().map_or(0, |(width, _)| width);
                let metadata = column.checked_sub(width);
                let metadata = metadata.and_then(|column| self.block.metadata.get(column));
                metadata.map_or(Kind::Any, |column| Kind::Of(column.kind))
            }
            Source::Block(block) => self.of_output(*block, column),
            Source::Union(blocks) => {
                let kinds = blocks.iter().map(|&block| self.of_output(block, column));
                kinds.fold(Kind::Null, Kind::or)
            }
        }
    }

    fn of_expression(&mut self, expression: &'a Expression) -> Kind {
        match expression {
            Expression::Value(value) => value.kind().map_or(Kind::Null, Kind::Of),
            Expression::Column(column) => self.of_column(*column),
            Expression::Key(key) => {
                let keys = self.block.aggregation.as_ref().map(|all| &all.keys);
                let key = keys.and_then(|keys| keys.get(*key));
                key.map_or(Kind::Any, |key| self.of(key.expression))
            }
            Expression::Aggregate(aggregate) => self.of_aggregate(*aggregate),
            Expression::Affine { .. } | Expression::Negate(_) => Kind::Any,
            Expression::Cast { affinity, .. } => Kind::of_affinity(*affinity),
            Expression::Binary {
                operator,
                left,
                right,
            } => {
                let (left, right) = (self.of(*left), self.of(*right));
                of_binary(*operator, left, right)
            }
            Expression::Not(_)
            | Expression::Compare { .. }
            | Expression::IsNull { .. }
            | Expression::In { .. }
            | Expression::InSubquery { .. }
            | Expression::InValues { .. }
            | Expression::Exists { .. }
            | Expression::Match { .. } => Kind::Of(ValueKind::Integer),
            Expression::Subquery { block } => self.of_output(*block, 0),
            Expression::Case {
                branches,
                otherwise,
            } => {
                let values = branches.iter().map(|&(_, value)| value);
                self.of_all(values.chain(*otherwise))
            }
            Expression::Call {
                function,
                arguments,
                ..
            } => self.of_call(*function, arguments),
        }
    }

    fn of_aggregate(&mut self, index: usize) -> Kind {
        let aggregates = self.block.aggregation.as_ref().map(|all| &all.aggregates);
        let Some(aggregate) = aggregates.and_then(|all| all.get(index)) else {
            return Kind::Any;
        };
        let mut argument = || aggregate.argument.map_or(Kind::Any, |id| self.of(id));
        match aggregate.function {
            AggregateFunction::Count => Kind::Of(ValueKind::Integer),
            AggregateFunction::Min | AggregateFunction::Max => argument(),
            AggregateFunction::Sum => match argument() {
                kind @ Kind::Of(ValueKind::Integer | ValueKind::Real) => kind,
                _ => Kind::Any,
            },
            AggregateFunction::GroupConcat => Kind::Of(ValueKind::Text),
            AggregateFunction::Total
            | AggregateFunction::Avg
            | AggregateFunction::Median
            | AggregateFunction::PercentileCont
            | AggregateFunction::StddevPop
            | AggregateFunction::StddevSamp
            | AggregateFunction::VarPop
            | AggregateFunction::VarSamp => Kind::Of(ValueKind::Real),
        }
    }

    fn of_call(&mut self, function: Function, arguments: &[ExpressionId]) -> Kind {
        let arguments = arguments.iter().copied();
        match function {
            Function::Coalesce
            | Function::IfNull
            | Function::Max
            | Function::Min
            | Function::Greatest
            | Function::Least => self.of_all(arguments),
            Function::Iif => self.of_all(arguments.skip(1)),
            Function::NullIf => self.of_all(arguments.take(1)),
            Function::Binding
            | Function::Day
            | Function::Instr
            | Function::Length
            | Function::Month
            | Function::OctetLength
            | Function::Unicode
            | Function::Year => Kind::Of(ValueKind::Integer),
            Function::Exponential
            | Function::JulianDay
            | Function::Logarithm
            | Function::Logarithm10
            | Function::Logarithm2
            | Function::NaturalLogarithm
            | Function::SquareRoot => Kind::Of(ValueKind::Real),
            Function::Char
            | Function::Concat
            | Function::ConcatWs
            | Function::Date
            | Function::DateTime
            | Function::DateTrunc
            | Function::Format
            | Function::Hex
            | Function::Lower
            | Function::Quote
            | Function::Strftime
            | Function::Time
            | Function::TypeOf
            | Function::Upper
            | Function::Version => Kind::Of(ValueKind::Text),
            _ => Kind::Any,
        }
    }
}

fn of_binary(operator: BinaryOperator, left: Kind, right: Kind) -> Kind {
    let real = Kind::Of(ValueKind::Real);
    match operator {
        BinaryOperator::And | BinaryOperator::Or => Kind::Of(ValueKind::Integer),
        BinaryOperator::Concatenate => match left.or(right) {
            Kind::Of(ValueKind::Text) => Kind::Of(ValueKind::Text),
            _ => Kind::Any,
        },
        BinaryOperator::Remainder => Kind::Any,
        _ if left == real && right == real => real,
        _ => Kind::Any,
    }
}

#[cfg(test)]
mod tests {
    use crate::query::Query;
    use crate::{Plan, Schema, ValueKind, bind, parse};

    struct Pets;

    impl Schema for Pets {
        fn corpora(&self) -> Vec<String> {
            vec!["pets".to_owned()]
        }
    }

    fn query(sql: &str) -> Query {
        let statements = parse(sql).expect("valid SQL");
        match bind(&statements[0], &Pets, &[]) {
            Ok(Plan::Query(query)) => query,
            _ => panic!("{sql} is no query"),
        }
    }

    fn kinds(sql: &str) -> Vec<Option<ValueKind>> {
        query(sql).column_kinds()
    }

    #[test]
    fn kinds_are_those_of_relations_and_functions() {
        use ValueKind::{Blob, Integer, Real, Text};
        let (integer, text) = (Some(Integer), Some(Text));
        assert_eq!(
            kinds("SELECT * FROM pets"),
            [text, text, integer, integer, integer]
        );
        let sql =
            "SELECT word, COUNT(*), AVG(offset), SUM(length), MAX(file) FROM pets GROUP BY word";
        assert_eq!(kinds(sql), [text, integer, Some(Real), integer, text]);
        assert_eq!(
            kinds("SELECT content, lower(file) FROM files('pets')"),
            [Some(Blob), text]
        );
        assert_eq!(
            kinds("SELECT n FROM (SELECT COUNT(*) AS n FROM pets)"),
            [integer]
        );
        assert_eq!(
            kinds("SELECT 1.5, CAST('1' AS INTEGER), 1 = 2"),
            [Some(Real), integer, integer]
        );
    }

    #[test]
    fn long_chains_take_no_more_stack_than_short_ones() {
        let chain = vec!["word"; 3_000].join(" || ");
        let sql = format!("SELECT {chain}, COUNT(*) FROM pets GROUP BY word");
        let query = query(&sql);
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        let thread = thread.spawn(move || query.column_kinds());
        let kinds = thread.expect("a thread").join().expect("enough stack");
        assert_eq!(kinds, [Some(ValueKind::Text), Some(ValueKind::Integer)]);
    }

    #[test]
    fn values_of_several_kinds_and_sums_that_may_overflow_have_none() {
        assert_eq!(
            kinds("SELECT NULL, offset + 1, -offset FROM pets"),
            [None; 3]
        );
        assert_eq!(kinds("SELECT 1 UNION ALL SELECT 'a'"), [None]);
        assert_eq!(
            kinds("SELECT 1 UNION ALL SELECT NULL"),
            [Some(ValueKind::Integer)]
        );
        let sql = "SELECT CASE WHEN offset > 1 THEN 'a' END, coalesce(word, 1) FROM pets";
        assert_eq!(kinds(sql), [Some(ValueKind::Text), None]);
    }
}
