//! `Evaluator`: the values of expressions on one row after another, a row of values or of a batch.
//!
//! Operands are computed when they are needed and once a row, with a stack of its own: no depth of expression uses the thread's
//! stack, and operands that AND, OR, CASE, COALESCE and IIF do not need are not computed. An expression that one dictionary
//! column of a batch decides is computed once for each entry that occurs, as far as memory allows (`entries.rs`). Invariant: a
//! slot is valid for the current row if its stamp is the current one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;

use zipfdb_sql::query::{BinaryOperator, Collation, Expression, ExpressionId, Function};

use super::arithmetic::binary;
use super::compare::{compare, compare_until, holds};
use super::convert::{apply_affinity, cast, from_truth, to_bytes, truth};
use super::entries::{KnownEntries, KnownEntry};
use super::function::call;
use super::pattern::Pattern;
use super::program::{ConstantList, Node, Program};
use super::regexp_call::RegexpCall;
use crate::batch::{Batch, BatchColumn, TextDictionary};
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::{self, Held, ValueMemory};
use crate::{Error, Result, Value};

/// A row that expressions are evaluated on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowRef<'a> {
    Values(&'a [Value]),
    Batch(&'a Batch, usize),
}

impl<'a, T: AsRef<[Value]> + ?Sized> From<&'a T> for RowRef<'a> {
    fn from(values: &'a T) -> RowRef<'a> {
        RowRef::Values(values.as_ref())
    }
}

impl<'a> From<(&'a Batch, usize)> for RowRef<'a> {
    fn from((batch, row): (&'a Batch, usize)) -> RowRef<'a> {
        RowRef::Batch(batch, row)
    }
}

/// Evaluates the expressions of a program.
#[derive(Debug)]
pub(crate) struct Evaluator<P> {
    program: P,
    /// The value of each expression that is no constant.
    slots: Vec<Value>,
    /// The entry of a dictionary whose text is in a slot, if it is that of a row.
    texts: Vec<Option<(u32, TextDictionary)>>,
    /// The values of expressions for entries of dictionaries.
    entries: KnownEntries,
    stamps: Vec<u64>,
    stamp: u64,
    /// Expressions that wait for operands, each with its progress.
    stack: Vec<(ExpressionId, usize)>,
    /// The last pattern of each match whose pattern is not constant.
    patterns: HashMap<ExpressionId, (Value, Value, Option<Pattern>)>,
    memory: ValueMemory,
    pattern_memory: ValueMemory,
    /// The values that were computed for the current row.
    held: Held,
    /// Checks for interruption, while values are borrowed.
    pace: RefCell<Pace>,
}

impl<P: Deref<Target = Program>> Evaluator<P> {
    /// An evaluator without a row.
    pub(crate) fn of(program: P) -> Evaluator<P> {
        let count = program.slot_count;
        let memory = program.memory.clone();
        let pattern_memory = program.pattern_memory.clone();
        let pace = RefCell::new(program.interrupt.pace());
        Evaluator {
            program,
            slots: vec![Value::Null; count],
            texts: vec![None; count],
            entries: KnownEntries::new(count, 0),
            stamps: vec![0; count],
            stamp: 1,
            stack: Vec::new(),
            patterns: HashMap::new(),
            held: memory.hold(),
            memory,
            pattern_memory,
            pace,
        }
    }

    /// As `of`, for rows of batches: values for entries of dictionaries may take `bytes_max` bytes.
    pub(crate) fn of_batches(program: P, bytes_max: usize) -> Evaluator<P> {
        let mut evaluator = Evaluator::of(program);
        evaluator.entries = KnownEntries::new(evaluator.slots.len(), bytes_max);
        evaluator
    }

    /// The memory of values for entries of dictionaries, in bytes, about.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.entries.bytes()
    }

    /// Forgets the values for entries of dictionaries.
    pub(crate) fn forget_entries(&mut self) {
        self.entries.clear();
    }

    /// Begins another row: computed values are no longer valid.
    pub(crate) fn next_row(&mut self) {
        self.stamp += 1;
        if !self.held.is_empty() {
            let slots = self.slots.iter_mut();
            slots
                .filter(|slot| memory::is_counted(slot))
                .for_each(|slot| *slot = Value::Null);
            self.texts.fill(None);
            self.held.clear();
        }
    }

    /// The value of an expression on the current row, which the caller passes unchanged until `next_row`.
    ///
    /// # Errors
    /// If a function fails on its arguments, or values take too much memory.
    pub(crate) fn value<'a>(
        &'a mut self,
        row: impl Into<RowRef<'a>>,
        id: ExpressionId,
    ) -> Result<&'a Value> {
        let row = row.into();
        match self.known_entry(row, id)? {
            Some(value) => Ok(self.entries.value(self.program.slot(id), value)),
            None => self.computed(row, id),
        }
    }

    /// As `value`, which is not stored for an entry of a dictionary: the caller stores it.
    ///
    /// # Errors
    /// Those of `value`.
    pub(crate) fn computed<'a>(
        &'a mut self,
        row: impl Into<RowRef<'a>>,
        id: ExpressionId,
    ) -> Result<&'a Value> {
        let row = row.into();
        if self.ready(row, id).is_none() {
            self.compute(row, id)?;
        }
        Ok(self.ready(row, id).unwrap_or(&Value::Null))
    }

    /// As `value`, owned.
    ///
    /// # Errors
    /// Those of `value`.
    pub(crate) fn take<'a>(
        &'a mut self,
        row: impl Into<RowRef<'a>>,
        id: ExpressionId,
    ) -> Result<Value> {
        let row = row.into();
        if let Some(value) = self.known_entry(row, id)? {
            return Ok(self.entries.value(self.program.slot(id), value).clone());
        }
        if matches!(self.program.node(id), Node::Constant(_) | Node::Row(_)) {
            self.computed(row, id)?;
            let value = self.ready(row, id).unwrap_or(&Value::Null);
            let copy = self.memory.copy(value)?;
            self.held.add(&copy);
            return Ok(copy);
        }
        self.computed(row, id)?;
        Ok(self.take_slot(id))
    }

    /// Whether all of these are true on the current row.
    ///
    /// # Errors
    /// Those of `value`.
    pub(crate) fn are_true<'a>(
        &'a mut self,
        row: impl Into<RowRef<'a>>,
        ids: &[ExpressionId],
    ) -> Result<bool> {
        let row = row.into();
        for &id in ids {
            if truth(self.value(row, id)?) != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number of the value of an expression for the entry that decides it on a row of a batch; the value is computed if it
    /// has none. None if no entry alone decides it, the entry has not occurred before, or there is no memory for its value, which
    /// is in its slot then.
    fn known_entry(&mut self, row: RowRef<'_>, id: ExpressionId) -> Result<Option<u32>> {
        let RowRef::Batch(batch, number) = row else {
            return Ok(None);
        };
        let Some(column) = self.program.decisive_column(id) else {
            return Ok(None);
        };
        if let Node::Row(_) = self.program.node(id) {
            // The column has its values.
            return Ok(None);
        }
        let BatchColumn::Words {
            indices,
            dictionary,
        } = &batch.columns()[column]
        else {
            return Ok(None);
        };
        let (slot, entry) = (self.program.slot(id), indices[number]);
        if !self.entries.begin(slot, dictionary) {
            return Ok(None);
        }
        match self.entries.meet(slot, entry) {
            KnownEntry::New => return Ok(None),
            KnownEntry::Once => {}
            KnownEntry::Value(number) => return Ok(Some(number)),
        }
        self.computed(row, id)?;
        let value = self.take_slot(id);
        match self.entries.add(slot, entry, value) {
            Ok(number) => Ok(Some(number)),
            Err(value) => {
                self.slots[slot] = value;
                self.stamps[slot] = self.stamp;
                Ok(None)
            }
        }
    }

    /// Takes the computed value of an expression.
    fn take_slot(&mut self, id: ExpressionId) -> Value {
        let slot = self.program.slot(id);
        self.stamps[slot] = 0;
        std::mem::replace(&mut self.slots[slot], Value::Null)
    }

    /// The value of an expression, if it is computed.
    fn ready<'a>(&'a self, row: RowRef<'a>, id: ExpressionId) -> Option<&'a Value> {
        match (self.program.node(id), row) {
            (Node::Constant(value), _) => return Some(value),
            (Node::Row(index), RowRef::Values(values)) => return Some(&values[*index]),
            (Node::Row(index), RowRef::Batch(batch, row)) => {
                if let BatchColumn::Values(values) = &batch.columns()[*index] {
                    return Some(&values[row]);
                }
            }
            (Node::Absent, _) => return None,
            _ => {}
        }
        let slot = self.program.slot(id);
        (self.stamps[slot] == self.stamp).then(|| &self.slots[slot])
    }

    /// Reads the value of a row of a batch into its slot.
    fn read(&mut self, column: &BatchColumn, row: usize, slot: usize) {
        self.stamps[slot] = self.stamp;
        if let BatchColumn::Words {
            indices,
            dictionary,
        } = column
        {
            let text = indices[row];
            if let Some((before, same)) = &mut self.texts[slot]
                && same.is_same(dictionary)
            {
                // Often it is the text of the row before.
                if std::mem::replace(before, text) == text {
                    return;
                }
            } else {
                self.texts[slot] = Some((text, dictionary.clone()));
            }
            // In the memory of the text before.
            if let Value::Text(known) = &mut self.slots[slot]
                && let Ok(text) = std::str::from_utf8(dictionary.bytes(text))
            {
                known.clear();
                known.push_str(text);
                return;
            }
        } else {
            self.texts[slot] = None;
        }
        self.slots[slot] = column.value(row);
    }

    fn compute(&mut self, row: RowRef<'_>, id: ExpressionId) -> Result<()> {
        self.stack.clear();
        self.stack.push((id, 0));
        while let Some((id, progress)) = self.stack.pop() {
            // Shared operands may have been pushed twice.
            if self.ready(row, id).is_some() {
                continue;
            }
            if let (Node::Row(column), RowRef::Batch(batch, row)) = (self.program.node(id), row) {
                let slot = self.program.slot(id);
                self.read(&batch.columns()[*column], row, slot);
                continue;
            }
            match self.step(row, id, progress)? {
                Step::Done(value) => {
                    self.held.add(&value);
                    self.pace.get_mut().work(byte_count(&value))?;
                    let slot = self.program.slot(id);
                    self.slots[slot] = value;
                    self.stamps[slot] = self.stamp;
                }
                Step::Needs(operand, progress) => {
                    self.stack.push((id, progress));
                    self.stack.push((operand, 0));
                }
            }
        }
        Ok(())
    }

    /// Computes an expression as far as its operands are computed.
    fn step(&mut self, row: RowRef<'_>, id: ExpressionId, progress: usize) -> Result<Step> {
        /// The value of an operand; if it is not computed yet, the expression waits for it.
        macro_rules! need {
            ($operand:expr, $progress:expr) => {
                match self.ready(row, $operand) {
                    Some(value) => value,
                    None => return Ok(Step::Needs($operand, $progress)),
                }
            };
            ($operand:expr) => {
                need!($operand, 0)
            };
        }
        let memory = &self.memory;
        let expression = match self.program.node(id) {
            Node::Constant(value) => return Ok(Step::Done(memory.copy(value)?)),
            Node::Row(_) | Node::Absent => {
                unreachable!("what a row has is there, and what it lacks is not evaluated")
            }
            Node::InConstants {
                operand,
                list,
                negated,
                collation,
            } => {
                let found = is_in(need!(*operand), list, *collation);
                return Ok(Step::Done(from_truth(found.map(|found| found != *negated))));
            }
            Node::MatchConstant {
                text,
                pattern,
                negated,
            } => {
                let text = need!(*text);
                let mut pace = self.pace.borrow_mut();
                let value = matched(pattern.as_ref(), text, *negated, &mut pace)?;
                return Ok(Step::Done(value));
            }
            Node::Other(expression) => expression,
        };
        let value = match expression {
            Expression::Value(value) => memory.copy(value)?,
            // The program has made them nodes of their own.
            Expression::Column(_) | Expression::Key(_) | Expression::Aggregate(_) => Value::Null,
            Expression::Affine { operand, affinity } => {
                apply_affinity(need!(*operand), *affinity, memory)?
            }
            Expression::Cast { operand, affinity } => cast(need!(*operand), *affinity, memory)?,
            Expression::Not(operand) => from_truth(truth(need!(*operand)).map(|truth| !truth)),
            Expression::Negate(operand) => binary(
                BinaryOperator::Subtract,
                &Value::Integer(0),
                need!(*operand),
                memory,
            )?,
            Expression::IsNull { operand, negated } => {
                let is_null = matches!(need!(*operand), Value::Null);
                from_truth(Some(is_null != *negated))
            }
            Expression::Binary {
                operator: operator @ (BinaryOperator::And | BinaryOperator::Or),
                left,
                right,
            } => {
                // The value that decides alone: false for AND, true for OR.
                let decisive = Some(*operator == BinaryOperator::Or);
                let left = truth(need!(*left));
                if left == decisive {
                    return Ok(Step::Done(from_truth(left)));
                }
                let right = truth(need!(*right));
                match (left, right) {
                    (_, right) if right == decisive => from_truth(right),
                    (Some(_), Some(_)) => from_truth(right),
                    _ => Value::Null,
                }
            }
            Expression::Binary {
                operator,
                left,
                right,
            } => binary(*operator, need!(*left), need!(*right), memory)?,
            Expression::Compare {
                comparison,
                left,
                right,
                collation,
            } => {
                let (left, right) = (need!(*left), need!(*right));
                let mut pace = self.pace.borrow_mut();
                from_truth(holds(*comparison, left, right, *collation, &mut pace)?)
            }
            Expression::In {
                operand,
                list,
                negated,
                collation,
            } => {
                let wanted = need!(*operand);
                if list.is_empty() {
                    return Ok(Step::Done(from_truth(Some(*negated))));
                }
                if matches!(wanted, Value::Null) {
                    return Ok(Step::Done(Value::Null));
                }
                let is_null = |value: &Value| matches!(value, Value::Null);
                for (index, &item) in list.iter().enumerate().skip(progress) {
                    let item = need!(item, index);
                    let mut pace = self.pace.borrow_mut();
                    if !is_null(item) && compare_until(wanted, item, *collation, &mut pace)?.is_eq()
                    {
                        return Ok(Step::Done(from_truth(Some(!negated))));
                    }
                }
                let mut items = list.iter().filter_map(|&item| self.ready(row, item));
                if items.any(is_null) {
                    Value::Null
                } else {
                    from_truth(Some(*negated))
                }
            }
            // Answered before rows are evaluated, or nodes of their own.
            Expression::InSubquery { .. }
            | Expression::InValues { .. }
            | Expression::Subquery { .. }
            | Expression::Exists { .. } => {
                return Err(Error::Invalid {
                    subject: "a subquery".into(),
                    reason: "it has not been answered, which is a bug".into(),
                });
            }
            Expression::Match {
                matcher,
                text,
                pattern,
                escape,
                negated,
            } => {
                let text = need!(*text);
                let pattern = need!(*pattern);
                let escape = match escape {
                    None => None,
                    Some(escape) => Some(need!(*escape).clone()),
                };
                let (text, pattern) = (memory.copy(text)?, memory.copy(pattern)?);
                let (matcher, negated) = (*matcher, *negated);
                self.compile(id, pattern, escape, |pattern, escape, memory| {
                    Pattern::new(matcher, pattern, escape, memory)
                })?;
                let pattern = self.patterns.get(&id).and_then(|known| known.2.as_ref());
                matched(pattern, &text, negated, self.pace.get_mut())?
            }
            Expression::Case {
                branches,
                otherwise,
            } => {
                for (index, (condition, value)) in branches.iter().enumerate().skip(progress) {
                    if truth(need!(*condition, index)) == Some(true) {
                        return Ok(Step::Done(memory.copy(need!(*value, index))?));
                    }
                }
                match otherwise {
                    None => Value::Null,
                    Some(otherwise) => memory.copy(need!(*otherwise, branches.len()))?,
                }
            }
            Expression::Call {
                function: Function::Coalesce | Function::IfNull,
                arguments,
                ..
            } => {
                for (index, &argument) in arguments.iter().enumerate().skip(progress) {
                    let value = need!(argument, index);
                    if !matches!(value, Value::Null) {
                        return Ok(Step::Done(memory.copy(value)?));
                    }
                }
                Value::Null
            }
            Expression::Call {
                function: Function::Iif,
                arguments,
                ..
            } => {
                let Some(&condition) = arguments.first() else {
                    return Ok(Step::Done(Value::Null));
                };
                let index = if truth(need!(condition)) == Some(true) {
                    1
                } else {
                    2
                };
                match arguments.get(index) {
                    None => Value::Null,
                    Some(&value) => memory.copy(need!(value))?,
                }
            }
            Expression::Call {
                function: function @ (Function::RegexpExtract | Function::RegexpReplace),
                arguments,
                ..
            } => {
                let mut values = Vec::with_capacity(arguments.len());
                for (index, &argument) in arguments.iter().enumerate().skip(progress) {
                    need!(argument, index);
                }
                for &argument in arguments {
                    values.push(memory.copy(need!(argument))?);
                }
                let [text, pattern, rest @ ..] = &values[..] else {
                    return Ok(Step::Done(Value::Null));
                };
                if values.iter().any(|value| matches!(value, Value::Null)) {
                    return Ok(Step::Done(Value::Null));
                }
                let call = RegexpCall::new(*function, pattern, rest, memory)?;
                self.compile(
                    id,
                    call.pattern.clone().into_owned(),
                    None,
                    |pattern, _, memory| Pattern::with_groups(pattern, memory),
                )?;
                let compiled = self.patterns.get(&id).and_then(|known| known.2.as_ref());
                call.apply(compiled, text, &self.memory, self.pace.get_mut())?
            }
            Expression::Call {
                function,
                arguments,
                collation,
            } => {
                for (index, &argument) in arguments.iter().enumerate().skip(progress) {
                    need!(argument, index);
                }
                let values: Vec<&Value> = arguments
                    .iter()
                    .filter_map(|&argument| self.ready(row, argument))
                    .collect();
                let mut pace = self.pace.borrow_mut();
                pace.work(values.iter().map(|value| byte_count(value)).sum())?;
                let binding = self.program.binding;
                call(*function, &values, *collation, binding, memory, &mut pace)?
            }
        };
        Ok(Step::Done(value))
    }

    /// Compiles the pattern of a match into `patterns`, where it stays until the pattern changes.
    fn compile(
        &mut self,
        id: ExpressionId,
        pattern: Value,
        escape: Option<Value>,
        compile: impl FnOnce(&Value, Option<&Value>, &ValueMemory) -> Result<Option<Pattern>>,
    ) -> Result<()> {
        let shown_escape = escape.clone().unwrap_or(Value::Null);
        let known = self.patterns.get(&id);
        let is_known = known.is_some_and(|known| known.0 == pattern && known.1 == shown_escape);
        if !is_known {
            // The last one is dropped first.
            self.patterns.remove(&id);
            self.pace.get_mut().check()?;
            let compiled = compile(&pattern, escape.as_ref(), &self.pattern_memory)?;
            self.patterns.insert(id, (pattern, shown_escape, compiled));
        }
        Ok(())
    }
}

/// The result of a step.
enum Step {
    /// The expression has its value.
    Done(Value),
    /// The expression needs this operand, and continues with the given progress.
    Needs(ExpressionId, usize),
}

fn is_in(wanted: &Value, list: &ConstantList, collation: Collation) -> Option<bool> {
    if list.sorted.is_empty() && !list.has_null {
        return Some(false);
    }
    if matches!(wanted, Value::Null) {
        return None;
    }
    let found = list
        .sorted
        .binary_search_by(|item| compare(item, wanted, collation));
    match found {
        Ok(_) => Some(true),
        Err(_) if list.has_null => None,
        Err(_) => Some(false),
    }
}

fn matched(
    pattern: Option<&Pattern>,
    text: &Value,
    negated: bool,
    pace: &mut Pace,
) -> Result<Value> {
    Ok(match (pattern, to_bytes(text)) {
        (Some(pattern), Some(text)) => from_truth(Some(pattern.matches(&text, pace)? != negated)),
        _ => Value::Null,
    })
}

/// Bytes that a value has on the heap.
fn byte_count(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        Value::Null | Value::Integer(_) | Value::Real(_) => 0,
    }
}
