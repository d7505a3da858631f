//! Splits WHERE: conditions that depend on one column only, which scans decide once for each distinct value, and the rest, which
//! is decided for each row.
//!
//! Invariant: a row passes WHERE exactly if all column filters and all of the rest are true of it. Values outside of `values` and
//! `range` cannot match; values inside must still be decided.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use parking_lot::Mutex;
use zipfdb_sql::query::{
    BinaryOperator, Collation, Comparison, Expression, ExpressionId, Function, Matcher,
};

use super::pattern::{NeededLiteral, Pattern};
use super::program::{Layout, Node, NodeColumns, Program, operands};
use super::{Evaluator, to_bytes};
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// WHERE, split by columns.
#[derive(Debug)]
pub(crate) struct FilterSplit {
    /// The conditions of each column that has its own, in order of columns.
    pub(crate) columns: Vec<ColumnFilter>,
    /// Conjuncts of several columns or none.
    pub(crate) rest: Vec<ExpressionId>,
}

/// All conjuncts that depend on one column only.
#[derive(Debug)]
pub(crate) struct ColumnFilter {
    column: usize,
    program: Arc<Program>,
    conjuncts: Vec<ExpressionId>,
    values: Option<Vec<Value>>,
    range: TextRange,
    integers: IntegerRange,
    literal: Option<NeededLiteral>,
    /// Evaluators that no thread is using.
    evaluators: Mutex<Vec<Evaluator<Arc<Program>>>>,
}

/// The range of the bytes of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextRange {
    pub(crate) lower: Bound<Vec<u8>>,
    pub(crate) upper: Bound<Vec<u8>>,
}

/// The range of INTEGERs that match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IntegerRange {
    pub(crate) range: RangeInclusive<i64>,
    /// Whether all INTEGERs in the range match.
    pub(crate) is_exact: bool,
}

impl FilterSplit {
    /// Splits the conjuncts `filter` of `expressions`.
    ///
    /// # Errors
    /// If a constant pattern is not valid.
    pub(crate) fn new(
        expressions: &[Expression],
        filter: &[ExpressionId],
        binding: u64,
        interrupt: &Interrupt,
        memory: &ValueMemory,
    ) -> Result<FilterSplit> {
        let columns = deciding_columns(expressions);
        let mut groups: BTreeMap<usize, Vec<ExpressionId>> = BTreeMap::new();
        let mut rest = Vec::new();
        for &conjunct in filter {
            match columns[conjunct.0 as usize] {
                NodeColumns::One(column) => groups.entry(column).or_default().push(conjunct),
                NodeColumns::None | NodeColumns::Several => rest.push(conjunct),
            }
        }
        let columns = groups.into_iter().map(|(column, conjuncts)| {
            let layout = Layout::only(column);
            let program = Program::new(expressions, &layout, binding, interrupt, memory)?;
            ColumnFilter::new(expressions, column, conjuncts, Arc::new(program))
        });
        Ok(FilterSplit {
            columns: columns.collect::<Result<_>>()?,
            rest,
        })
    }
}

impl ColumnFilter {
    fn new(
        expressions: &[Expression],
        column: usize,
        conjuncts: Vec<ExpressionId>,
        program: Arc<Program>,
    ) -> Result<ColumnFilter> {
        let mut filter = ColumnFilter {
            column,
            values: None,
            range: TextRange::all(),
            integers: IntegerRange::exact(ALL_INTEGERS),
            literal: None,
            evaluators: Mutex::default(),
            conjuncts,
            program,
        };
        for &conjunct in &filter.conjuncts {
            filter
                .range
                .narrow(&text_range(&filter.program, expressions, conjunct));
        }
        let ranges = integer_ranges(&filter.program, expressions);
        for conjunct in &filter.conjuncts {
            filter.integers = filter.integers.and(&ranges[conjunct.0 as usize]);
        }
        let literals = filter.conjuncts.iter().filter_map(|&conjunct| {
            let mut literal = needed_literal(&filter.program, expressions, conjunct)?;
            literal.is_enough &= filter.conjuncts.len() == 1;
            Some(literal)
        });
        filter.literal = literals.max_by_key(|literal| literal.bytes.len());
        let mut candidates = candidates(&filter.program, expressions);
        let found = filter
            .conjuncts
            .iter()
            .find_map(|conjunct| candidates[conjunct.0 as usize].take());
        if let Some(mut values) = found {
            values.sort_by(Value::compare);
            values.dedup_by(|next, kept| next.compare(kept).is_eq());
            let mut matching = Vec::with_capacity(values.len());
            for value in values {
                if filter.matches(&value)? {
                    matching.push(value);
                }
            }
            filter.values = Some(matching);
        }
        Ok(filter)
    }

    /// The column, by its index in the source.
    pub(crate) fn column(&self) -> usize {
        self.column
    }

    /// The only values that match, if they are known: sorted, no two of them equal. A value of the column that equals one of them
    /// matches, whether INTEGER or REAL.
    pub(crate) fn values(&self) -> Option<&[Value]> {
        self.values.as_deref()
    }

    /// The range of the bytes of texts that match. BLOBs may match with any bytes.
    pub(crate) fn range(&self) -> &TextRange {
        &self.range
    }

    /// The range of INTEGERs that match, if the column has no other values; none match if it is empty.
    pub(crate) fn integers(&self) -> &IntegerRange {
        &self.integers
    }

    /// A string that the text of every matching value has, if one is known.
    pub(crate) fn literal(&self) -> Option<&NeededLiteral> {
        self.literal.as_ref()
    }

    /// Whether all conditions hold for a value of the column. May be called from many threads.
    ///
    /// # Errors
    /// If a function fails on the value.
    pub(crate) fn matches(&self, value: &Value) -> Result<bool> {
        self.matcher().matches(value)
    }

    /// The same for many values of one thread.
    pub(crate) fn matcher(&self) -> ColumnMatcher<'_> {
        let known = self.evaluators.lock().pop();
        ColumnMatcher {
            filter: self,
            evaluator: Some(known.unwrap_or_else(|| Evaluator::of(self.program.clone()))),
        }
    }
}

/// Decides values of the column of a filter, one after the other.
pub(crate) struct ColumnMatcher<'a> {
    filter: &'a ColumnFilter,
    /// Set until it is dropped.
    evaluator: Option<Evaluator<Arc<Program>>>,
}

impl ColumnMatcher<'_> {
    pub(crate) fn column(&self) -> usize {
        self.filter.column
    }

    /// As [`ColumnFilter::matches`].
    ///
    /// # Errors
    /// If a function fails on the value.
    pub(crate) fn matches(&mut self, value: &Value) -> Result<bool> {
        let evaluator = self.evaluator.as_mut().expect("it is not dropped");
        let answer = evaluator.are_true(std::slice::from_ref(value), &self.filter.conjuncts);
        // It keeps no values of the row while it waits for the next.
        evaluator.next_row();
        answer
    }
}

impl Drop for ColumnMatcher<'_> {
    fn drop(&mut self) {
        self.filter.evaluators.lock().extend(self.evaluator.take());
    }
}

impl TextRange {
    /// All texts.
    pub(crate) fn all() -> TextRange {
        TextRange {
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
        }
    }

    /// Whether these bytes lie in the range.
    pub(crate) fn contains(&self, text: &[u8]) -> bool {
        let above = match &self.lower {
            Bound::Unbounded => true,
            Bound::Included(lower) => text >= lower.as_slice(),
            Bound::Excluded(lower) => text > lower.as_slice(),
        };
        let below = match &self.upper {
            Bound::Unbounded => true,
            Bound::Included(upper) => text <= upper.as_slice(),
            Bound::Excluded(upper) => text < upper.as_slice(),
        };
        above && below
    }

    /// Narrows the range to the intersection.
    fn narrow(&mut self, other: &TextRange) {
        // A bound with its strictness, so that of equal bounds the one that excludes wins.
        fn key(bound: &Bound<Vec<u8>>) -> Option<(&[u8], bool)> {
            match bound {
                Bound::Unbounded => None,
                Bound::Included(text) => Some((text, false)),
                Bound::Excluded(text) => Some((text, true)),
            }
        }
        if key(&other.lower) > key(&self.lower) {
            self.lower = other.lower.clone();
        }
        let strict = |bound| key(bound).map(|(text, excludes)| (text, !excludes));
        let is_narrower = match (strict(&other.upper), strict(&self.upper)) {
            (Some(_), None) => true,
            (Some(other), Some(own)) => other < own,
            (None, _) => false,
        };
        if is_narrower {
            self.upper = other.upper.clone();
        }
    }
}

impl IntegerRange {
    /// Any INTEGER may match.
    const ANY: IntegerRange = IntegerRange {
        range: ALL_INTEGERS,
        is_exact: false,
    };

    /// All of these match.
    fn exact(range: RangeInclusive<i64>) -> IntegerRange {
        IntegerRange {
            range,
            is_exact: true,
        }
    }

    /// The range of INTEGERs that match two conditions.
    fn and(&self, other: &IntegerRange) -> IntegerRange {
        let start = *self.range.start().max(other.range.start());
        IntegerRange {
            range: start..=*self.range.end().min(other.range.end()),
            is_exact: self.is_exact && other.is_exact,
        }
    }
}

/// The columns that decide each expression.
fn deciding_columns(expressions: &[Expression]) -> Vec<NodeColumns> {
    let mut columns: Vec<NodeColumns> = Vec::with_capacity(expressions.len());
    for expression in expressions {
        let mut own = match expression {
            Expression::Column(column) => NodeColumns::One(*column),
            Expression::Key(_) | Expression::Aggregate(_) => NodeColumns::Several,
            _ => NodeColumns::None,
        };
        operands(expression, |operand| {
            own = own.and(columns[operand.0 as usize])
        });
        columns.push(own);
    }
    columns
}

/// For each expression the values of the column for which it can be true, if they are finitely many.
///
/// A list is moved to the expression that uses it, so all work is linear except for what OR joins.
fn candidates(program: &Program, expressions: &[Expression]) -> Vec<Option<Vec<Value>>> {
    let is_column = |id: ExpressionId| program.column(id).is_some();
    let mut candidates: Vec<Option<Vec<Value>>> = Vec::with_capacity(expressions.len());
    for expression in expressions {
        let found = match expression {
            Expression::Compare {
                comparison: Comparison::Equal | Comparison::Is,
                left,
                right,
                collation: Collation::Binary,
            } => {
                let constant = if is_column(*left) {
                    program.constant(*right)
                } else if is_column(*right) {
                    program.constant(*left)
                } else {
                    None
                };
                constant.map(|value| vec![value.clone()])
            }
            Expression::In {
                operand,
                list,
                negated: false,
                collation: Collation::Binary,
            } if is_column(*operand) => {
                let values = list.iter().map(|&item| program.constant(item).cloned());
                values.collect()
            }
            Expression::InValues {
                operand,
                values,
                negated: false,
                collation: Collation::Binary,
            } if is_column(*operand) => {
                Some(values.iter().map(|value| (**value).clone()).collect())
            }
            Expression::Binary {
                operator: BinaryOperator::And,
                left,
                right,
            } => {
                let left = candidates[left.0 as usize].take();
                left.or_else(|| candidates[right.0 as usize].take())
            }
            Expression::Binary {
                operator: BinaryOperator::Or,
                left,
                right,
            } => {
                let left = candidates[left.0 as usize].take();
                let right = candidates[right.0 as usize].take();
                left.zip(right).map(|(mut left, right)| {
                    left.extend(right);
                    left
                })
            }
            _ => None,
        };
        candidates.push(found);
    }
    candidates
}

/// All INTEGERs.
const ALL_INTEGERS: RangeInclusive<i64> = i64::MIN..=i64::MAX;

/// For each expression the range of INTEGERs for which it can be true, if values of the column are INTEGERs.
fn integer_ranges(program: &Program, expressions: &[Expression]) -> Vec<IntegerRange> {
    let mut ranges: Vec<IntegerRange> = Vec::with_capacity(expressions.len());
    let is_column = |id: ExpressionId| program.column(id).is_some();
    for expression in expressions {
        let of = |id: &ExpressionId| &ranges[id.0 as usize];
        let range = match expression {
            Expression::Compare {
                comparison,
                left,
                right,
                ..
            } => {
                let (comparison, constant) = match (is_column(*left), is_column(*right)) {
                    (true, false) => (*comparison, program.constant(*right)),
                    (false, true) => (mirrored(*comparison), program.constant(*left)),
                    _ => (*comparison, None),
                };
                constant.map_or(IntegerRange::ANY, |value| {
                    compared_integers(comparison, value)
                })
            }
            Expression::In {
                operand,
                list,
                negated: false,
                ..
            } if is_column(*operand) => {
                let items = list.iter().map(|&item| program.constant(item));
                hull(items.map(|item| {
                    item.map_or(ALL_INTEGERS, |value| {
                        compared_integers(Comparison::Equal, value).range
                    })
                }))
            }
            Expression::Binary {
                operator: BinaryOperator::And,
                left,
                right,
            } => of(left).and(of(right)),
            Expression::Binary {
                operator: BinaryOperator::Or,
                left,
                right,
            } => hull([of(left).range.clone(), of(right).range.clone()]),
            _ => IntegerRange::ANY,
        };
        ranges.push(range);
    }
    ranges
}

/// The smallest range with all of these in it.
fn hull(ranges: impl IntoIterator<Item = RangeInclusive<i64>>) -> IntegerRange {
    let ranges = ranges.into_iter().filter(|range| !range.is_empty());
    let hull = ranges
        .reduce(|hull, range| *hull.start().min(range.start())..=*hull.end().max(range.end()));
    IntegerRange {
        range: hull.unwrap_or(NO_INTEGERS),
        is_exact: false,
    }
}

/// An empty range.
const NO_INTEGERS: RangeInclusive<i64> = RangeInclusive::new(i64::MAX, i64::MIN);

/// The range of INTEGERs that compare so with a constant.
fn compared_integers(comparison: Comparison, constant: &Value) -> IntegerRange {
    // The greatest INTEGER that is at most the constant, and the least that is at least the constant.
    let (floor, ceiling) = match constant {
        Value::Integer(integer) => (*integer, *integer),
        // Casts saturate. A whole REAL beyond 2^53 equals several INTEGERs.
        Value::Real(real) if real.abs() < WHOLE_REALS_END => {
            (real.floor() as i64, real.ceil() as i64)
        }
        _ => return IntegerRange::ANY,
    };
    let before = |end: i64| end.checked_sub(1).map_or(NO_INTEGERS, |end| i64::MIN..=end);
    let behind = |start: i64| (start.checked_add(1)).map_or(NO_INTEGERS, |start| start..=i64::MAX);
    IntegerRange::exact(match comparison {
        Comparison::Equal | Comparison::Is => ceiling..=floor,
        Comparison::LessOrEqual => i64::MIN..=floor,
        Comparison::Less => before(ceiling),
        Comparison::GreaterOrEqual => ceiling..=i64::MAX,
        Comparison::Greater => behind(floor),
        Comparison::NotEqual | Comparison::IsNot => return IntegerRange::ANY,
    })
}

/// Below 2^53, every whole REAL equals one INTEGER.
const WHOLE_REALS_END: f64 = 9_007_199_254_740_992.0;

/// The range of texts for which a conjunct can be true.
fn text_range(program: &Program, expressions: &[Expression], id: ExpressionId) -> TextRange {
    let mut range = TextRange::all();
    let is_column = |id: ExpressionId| matches!(expressions[id.0 as usize], Expression::Column(_));
    match &expressions[id.0 as usize] {
        Expression::Compare {
            comparison,
            left,
            right,
            collation: Collation::Binary,
        } => {
            let (comparison, constant) = match (is_column(*left), is_column(*right)) {
                (true, false) => (*comparison, program.constant(*right)),
                (false, true) => (mirrored(*comparison), program.constant(*left)),
                _ => return range,
            };
            let Some(Value::Text(text)) = constant else {
                return range;
            };
            let text = text.as_bytes().to_vec();
            match comparison {
                Comparison::Equal | Comparison::Is => {
                    range.lower = Bound::Included(text.clone());
                    range.upper = Bound::Included(text);
                }
                Comparison::Less => range.upper = Bound::Excluded(text),
                Comparison::LessOrEqual => range.upper = Bound::Included(text),
                Comparison::Greater => range.lower = Bound::Excluded(text),
                Comparison::GreaterOrEqual => range.lower = Bound::Included(text),
                Comparison::NotEqual | Comparison::IsNot => {}
            }
        }
        Expression::Match {
            matcher: matcher @ Matcher::Glob,
            text,
            pattern,
            escape: None,
            negated: false,
        } if is_column(*text) => {
            let pattern = program.constant(*pattern);
            let pattern = pattern.filter(|pattern| to_bytes(pattern).is_some());
            let memory = &program.pattern_memory;
            let compiled =
                pattern.and_then(|pattern| Pattern::new(*matcher, pattern, None, memory).ok());
            let prefix = compiled.flatten().map(|pattern| pattern.prefix());
            if let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) {
                range.upper = behind_prefix(&prefix);
                range.lower = Bound::Included(prefix);
            }
        }
        _ => {}
    }
    range
}

/// The most bytes of a string that is sought in all texts.
const LITERAL_BYTES_MAX: usize = 256;

/// A string in all texts for which a conjunct is true.
fn needed_literal(
    program: &Program,
    expressions: &[Expression],
    id: ExpressionId,
) -> Option<NeededLiteral> {
    match program.node(id) {
        Node::MatchConstant {
            text,
            pattern: Some(pattern),
            negated: false,
        } if matches!(expressions[text.0 as usize], Expression::Column(_)) => {
            pattern.literal(LITERAL_BYTES_MAX)
        }
        Node::Other(Expression::Call {
            function: Function::Instr,
            arguments,
            ..
        }) => sought_by_instr(program, expressions, arguments),
        Node::Other(Expression::Compare {
            comparison,
            left,
            right,
            ..
        }) => {
            // instr() is 0, or at least 1.
            let (comparison, call, limit) = match program.constant(*right) {
                Some(limit) => (*comparison, *left, limit),
                None => (mirrored(*comparison), *right, program.constant(*left)?),
            };
            let Node::Other(Expression::Call {
                function: Function::Instr,
                arguments,
                ..
            }) = program.node(call)
            else {
                return None;
            };
            let is_found = matches!(
                (comparison, limit),
                (
                    Comparison::Greater | Comparison::NotEqual,
                    Value::Integer(0)
                ) | (Comparison::GreaterOrEqual, Value::Integer(1))
            );
            let sought = is_found.then(|| sought_by_instr(program, expressions, arguments));
            sought.flatten()
        }
        _ => None,
    }
}

/// The string that `instr` finds in a column, by its arguments.
fn sought_by_instr(
    program: &Program,
    expressions: &[Expression],
    arguments: &[ExpressionId],
) -> Option<NeededLiteral> {
    let [column, wanted] = arguments else {
        return None;
    };
    if !matches!(expressions[column.0 as usize], Expression::Column(_)) {
        return None;
    }
    let mut bytes = to_bytes(program.constant(*wanted)?)?.into_owned();
    let is_enough = bytes.len() <= LITERAL_BYTES_MAX;
    bytes.truncate(LITERAL_BYTES_MAX);
    (!bytes.is_empty()).then_some(NeededLiteral {
        bytes,
        ignores_case: false,
        is_enough,
    })
}

/// The comparison with its sides exchanged.
pub(crate) fn mirrored(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        same => same,
    }
}

/// The least bytes above all that begin with `prefix`.
fn behind_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte != 0xff);
    match kept {
        None => Bound::Unbounded,
        Some(last) => {
            let mut behind = prefix[..=last].to_vec();
            behind[last] += 1;
            Bound::Excluded(behind)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Expressions are columns 0 and 1, then those of `add`; its last one is the only conjunct.
    fn split(add: impl FnOnce(&mut Vec<Expression>)) -> FilterSplit {
        let mut expressions = vec![Expression::Column(0), Expression::Column(1)];
        add(&mut expressions);
        let last = ExpressionId(u32::try_from(expressions.len()).unwrap() - 1);
        FilterSplit::new(
            &expressions,
            &[last],
            0,
            &Interrupt::never(),
            &ValueMemory::default(),
        )
        .unwrap()
    }

    fn compare(comparison: Comparison, left: u32, right: u32) -> Expression {
        Expression::Compare {
            comparison,
            left: ExpressionId(left),
            right: ExpressionId(right),
            collation: Collation::Binary,
        }
    }

    fn text(text: &str) -> Expression {
        Expression::Value(Value::from(text).into())
    }

    fn or(left: u32, right: u32) -> Expression {
        Expression::Binary {
            operator: BinaryOperator::Or,
            left: ExpressionId(left),
            right: ExpressionId(right),
        }
    }

    #[test]
    fn a_condition_of_two_columns_stays_behind() {
        let split = split(|all| all.push(compare(Comparison::Less, 0, 1)));
        assert!(split.columns.is_empty());
        assert_eq!(split.rest, [ExpressionId(2)]);
    }

    #[test]
    fn values_of_equality_in_and_or_are_known() {
        let split = split(|all| {
            all.extend([text("b"), compare(Comparison::Equal, 2, 1), text("a")]);
            all.push(Expression::Value(Value::Null.into()));
            all.push(Expression::In {
                operand: ExpressionId(1),
                list: vec![ExpressionId(4), ExpressionId(5), ExpressionId(2)],
                negated: false,
                collation: Collation::Binary,
            });
            all.push(or(3, 6));
        });
        let [filter] = &split.columns[..] else {
            panic!("{split:?}")
        };
        assert_eq!(filter.column(), 1);
        assert_eq!(
            filter.values().unwrap(),
            [Value::from("a"), Value::from("b")]
        );
        assert!(filter.matches(&Value::from("a")).unwrap());
        assert!(!filter.matches(&Value::from("c")).unwrap());
        assert!(!filter.matches(&Value::Null).unwrap());
    }

    #[test]
    fn integers_lie_between_constants_whole_or_not() {
        let integers = |comparison, constant: Value| {
            let found = compared_integers(comparison, &constant);
            assert_eq!(found.is_exact, found.range != ALL_INTEGERS);
            found.range
        };
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        assert_eq!(integers(Greater, Value::Integer(7)), 8..=i64::MAX);
        assert_eq!(integers(Less, Value::Real(7.0)), i64::MIN..=6);
        assert_eq!(integers(Less, Value::Real(7.5)), i64::MIN..=7);
        assert!(integers(Less, Value::Integer(i64::MIN)).is_empty());
        assert!(integers(Greater, Value::Integer(i64::MAX)).is_empty());
        assert_eq!(integers(GreaterOrEqual, Value::Integer(7)), 7..=i64::MAX);
        assert_eq!(integers(Greater, Value::Real(6.5)), 7..=i64::MAX);
        assert_eq!(integers(LessOrEqual, Value::Real(-6.5)), i64::MIN..=-7);
        assert!(integers(Equal, Value::Real(6.5)).is_empty());
        for (comparison, constant) in [
            (NotEqual, Value::Integer(7)),
            (Less, Value::from("7")),
            (Equal, Value::Real(9_007_199_254_740_993.0)),
        ] {
            assert_eq!(integers(comparison, constant), ALL_INTEGERS);
        }
        assert_eq!(hull([1..=2, NO_INTEGERS, 7..=9]).range, 1..=9);
        assert!(hull([]).range.is_empty());
        let (some, more) = (IntegerRange::exact(1..=5), IntegerRange::exact(3..=9));
        assert_eq!(some.and(&more), IntegerRange::exact(3..=5));
        assert!(!some.and(&IntegerRange::ANY).is_exact);
    }

    #[test]
    fn values_that_fail_another_condition_are_left_out() {
        let expressions = [
            Expression::Column(0),
            text("a"),
            text("b"),
            compare(Comparison::Equal, 0, 1),
            compare(Comparison::Equal, 0, 2),
            or(3, 4),
            compare(Comparison::Greater, 0, 1),
        ];
        let filter = [ExpressionId(6), ExpressionId(5)];
        let split = FilterSplit::new(
            &expressions,
            &filter,
            0,
            &Interrupt::never(),
            &ValueMemory::default(),
        )
        .unwrap();
        assert_eq!(split.columns[0].values().unwrap(), [Value::from("b")]);
        assert_eq!(
            split.columns[0].range().lower,
            Bound::Excluded(b"a".to_vec())
        );
    }

    #[test]
    fn without_case_there_are_no_values() {
        let split = split(|all| {
            all.push(text("a"));
            all.push(Expression::Compare {
                comparison: Comparison::Equal,
                left: ExpressionId(0),
                right: ExpressionId(2),
                collation: Collation::NoCase,
            });
        });
        assert_eq!(split.columns[0].values(), None);
        assert_eq!(split.columns[0].range(), &TextRange::all());
        assert!(split.columns[0].matches(&Value::from("A")).unwrap());
    }

    #[test]
    fn comparisons_and_glob_give_ranges() {
        for (comparison, constant_first, range) in [
            (
                Comparison::Less,
                false,
                (Bound::Unbounded, Bound::Excluded(b"m".to_vec())),
            ),
            (
                Comparison::LessOrEqual,
                true,
                (Bound::Included(b"m".to_vec()), Bound::Unbounded),
            ),
            (
                Comparison::NotEqual,
                false,
                (Bound::Unbounded, Bound::Unbounded),
            ),
        ] {
            let split = split(|all| {
                all.push(text("m"));
                let (left, right) = if constant_first { (2, 0) } else { (0, 2) };
                all.push(compare(comparison, left, right));
            });
            let (lower, upper) = range;
            assert_eq!(split.columns[0].range(), &TextRange { lower, upper });
        }
        let split = split(|all| {
            all.push(text("ab\u{7f}*"));
            all.push(Expression::Match {
                matcher: Matcher::Glob,
                text: ExpressionId(0),
                pattern: ExpressionId(2),
                escape: None,
                negated: false,
            });
        });
        let range = split.columns[0].range();
        assert!(range.contains(b"ab\x7f"));
        assert!(range.contains(b"ab\x7f\xff\xff"));
        assert!(!range.contains(b"ab\x80"));
        assert!(!range.contains(b"ab"));
    }

    #[test]
    fn a_match_needs_the_longest_string_of_its_pattern() {
        let needed = |matcher, pattern: &str, negated| {
            let split = split(|all| {
                all.push(text(pattern));
                all.push(Expression::Match {
                    matcher,
                    text: ExpressionId(0),
                    pattern: ExpressionId(2),
                    escape: None,
                    negated,
                });
            });
            let literal = split.columns[0].literal();
            literal.map(|literal| {
                let text = String::from_utf8(literal.bytes.clone()).unwrap();
                (text, literal.ignores_case, literal.is_enough)
            })
        };
        let like = |pattern| needed(Matcher::Like, pattern, false);
        let found =
            |text: &str, ignores_case, is_enough| Some((text.to_owned(), ignores_case, is_enough));
        assert_eq!(like("%Proxy 1%"), found("proxy 1", true, true));
        assert_eq!(like("%-1 %"), found("-1 ", false, true));
        assert_eq!(like("-1 %"), found("-1 ", false, false));
        assert_eq!(like("%ab%cde%"), found("cde", true, false));
        assert_eq!(like("%a_cd%"), found("cd", true, false));
        assert_eq!(like("%\u{e4}%"), found("\u{e4}", false, false));
        assert_eq!(
            like("%0123456789abcdefg%"),
            found("0123456789abcdefg", true, true)
        );
        assert_eq!(like("%_%"), None);
        assert_eq!(like(""), None);
        assert_eq!(needed(Matcher::Like, "%ab%", true), None);
        assert_eq!(
            needed(Matcher::Glob, "*aB*", false),
            found("aB", false, true)
        );
        assert_eq!(
            needed(Matcher::Glob, "*aB[c]*", false),
            found("aB", false, false)
        );
    }

    #[test]
    fn instr_needs_what_it_seeks_where_it_must_find_it() {
        let needed = |comparison, limit: i64| {
            let split = split(|all| {
                all.push(text("aB"));
                all.push(Expression::Call {
                    function: Function::Instr,
                    arguments: vec![ExpressionId(0), ExpressionId(2)],
                    collation: Collation::Binary,
                });
                all.push(Expression::Value(Value::Integer(limit).into()));
                all.push(compare(comparison, 3, 4));
            });
            split.columns[0].literal().cloned()
        };
        let found = Some(NeededLiteral {
            bytes: b"aB".to_vec(),
            ignores_case: false,
            is_enough: true,
        });
        assert_eq!(needed(Comparison::Greater, 0), found);
        assert_eq!(needed(Comparison::GreaterOrEqual, 1), found);
        assert_eq!(needed(Comparison::NotEqual, 0), found);
        assert_eq!(needed(Comparison::Equal, 0), None);
        assert_eq!(needed(Comparison::Less, 5), None);
    }

    #[test]
    fn ranges_narrow_to_what_lies_in_both() {
        let range = |lower: &str, upper: &str| TextRange {
            lower: Bound::Included(lower.into()),
            upper: Bound::Excluded(upper.into()),
        };
        let mut narrowed = range("b", "y");
        narrowed.narrow(&range("a", "x"));
        assert_eq!(narrowed, range("b", "x"));
        narrowed.narrow(&TextRange {
            lower: Bound::Excluded(b"b".to_vec()),
            upper: Bound::Included(b"x".to_vec()),
        });
        assert_eq!(narrowed.lower, Bound::Excluded(b"b".to_vec()));
        assert_eq!(narrowed.upper, Bound::Excluded(b"x".to_vec()));
    }
}
