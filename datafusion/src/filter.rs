//! Conditions of DataFusion as conditions of ZipfDB's dialect.
//!
//! Invariant: what is translated is true, false and NULL for the same rows in both. Nothing else is translated, so that
//! DataFusion need not examine those rows again. What differs: LIKE of ZipfDB ignores the case of ASCII letters, so GLOB stands
//! for it; a literal that is compared with an n-gram is cut into words, unless the other side is an expression.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Like, Operator};

use crate::relation::Relation;
use crate::statement::{quoted_name, quoted_text};

/// Most levels of nested conditions. ZipfDB takes 32.
const DEPTH_MAX: usize = 12;
/// Most bytes of a pattern of LIKE; escapes can triple them. ZipfDB takes 50,000.
const PATTERN_BYTES_MAX: usize = 16_000;

/// What the conditions of one call may take. DataFusion offers what was left over again in each of its three passes, so this
/// is less than a third of what a statement of ZipfDB takes: 8,192 tokens outside of lists, 262,144 in all, 16 MiB.
#[derive(Debug, Clone, Copy)]
struct Budget {
    /// Comparisons and operators.
    nodes: usize,
    /// Literals in lists.
    items: usize,
    /// Bytes of literals.
    bytes: usize,
}

const BUDGET: Budget = Budget {
    nodes: 300,
    items: 20_000,
    bytes: 1 << 20,
};

/// A condition in ZipfDB's dialect, in parentheses where it needs some; none if it cannot be said there with the same meaning.
pub(crate) fn translate(expression: &Expr, relation: &Relation) -> Option<String> {
    translate_within(expression, relation, &mut BUDGET.clone())
}

/// For each of the conditions of one scan what it is in ZipfDB's dialect, if it can be translated together with those before it.
pub(crate) fn translate_each(expressions: &[&Expr], relation: &Relation) -> Vec<Option<String>> {
    let mut budget = BUDGET;
    let translated = expressions.iter().map(|expression| {
        let mut rest = budget;
        let translated = translate_within(expression, relation, &mut rest);
        if translated.is_some() {
            budget = rest;
        }
        translated
    });
    translated.collect()
}

fn translate_within(expression: &Expr, relation: &Relation, budget: &mut Budget) -> Option<String> {
    let mut translator = Translator { relation, budget };
    translator.condition(expression, 0)
}

struct Translator<'a> {
    relation: &'a Relation,
    /// What is left.
    budget: &'a mut Budget,
}

/// A column that can be compared.
struct Compared<'a> {
    sql: String,
    data_type: &'a DataType,
    /// Words of an n-gram, if it is a column of n-grams.
    ngram_words: Option<usize>,
}

/// A literal as it is written in SQL.
struct Literal {
    sql: String,
    /// Whether it means itself beside a column of n-grams.
    is_plain_ngram: bool,
}

impl<'a> Translator<'a> {
    fn condition(&mut self, expression: &Expr, depth: usize) -> Option<String> {
        self.budget.nodes = self.budget.nodes.checked_sub(1)?;
        let depth = (depth < DEPTH_MAX).then_some(depth + 1)?;
        match expression {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And | Operator::Or => {
                    let left = self.condition(left, depth)?;
                    let right = self.condition(right, depth)?;
                    Some(format!("({left} {op} {right})"))
                }
                _ => match (left.as_ref(), right.as_ref()) {
                    (Expr::Literal(value, _), column) => self.comparison(column, op.swap()?, value),
                    (column, Expr::Literal(value, _)) => self.comparison(column, *op, value),
                    _ => None,
                },
            },
            Expr::Not(operand) => Some(format!("(NOT {})", self.condition(operand, depth)?)),
            Expr::IsNull(operand) => Some(format!("{} IS NULL", self.column(operand)?.sql)),
            Expr::IsNotNull(operand) => Some(format!("{} IS NOT NULL", self.column(operand)?.sql)),
            Expr::Between(between) => self.between(between),
            Expr::InList(list) => self.in_list(list),
            Expr::Like(like) => self.like(like),
            _ => None,
        }
    }

    fn column(&self, expression: &Expr) -> Option<Compared<'a>> {
        let Expr::Column(column) = expression else {
            return None;
        };
        // Values of a view are examined by DataFusion, which finds out if one is of another type than the first ones.
        if self.relation.is_view {
            return None;
        }
        let (_, field) = self.relation.column(&column.name)?;
        let is_ngram = field.name() == "ngram";
        Some(Compared {
            sql: quoted_name(field.name()),
            data_type: field.data_type(),
            ngram_words: self.relation.ngram_words.filter(|_| is_ngram),
        })
    }

    fn comparison(
        &mut self,
        column: &Expr,
        operator: Operator,
        value: &ScalarValue,
    ) -> Option<String> {
        let operator = match operator {
            Operator::Eq => "=",
            Operator::NotEq => "<>",
            Operator::Lt => "<",
            Operator::LtEq => "<=",
            Operator::Gt => ">",
            Operator::GtEq => ">=",
            _ => return None,
        };
        let column = self.column(column)?;
        let literal = column.literal(value, self.budget)?;
        let (name, value) = (&column.sql, &literal.sql);
        Some(match operator {
            // The first finds the n-gram, the second sees that it is written so.
            "=" if !literal.is_plain_ngram => {
                format!("({name} = {value} AND {name} || '' = {value})")
            }
            "<>" if !literal.is_plain_ngram => format!("{name} || '' <> {value}"),
            _ => format!("{name} {operator} {value}"),
        })
    }

    fn between(&mut self, between: &Between) -> Option<String> {
        let (Expr::Literal(low, _), Expr::Literal(high, _)) =
            (between.low.as_ref(), between.high.as_ref())
        else {
            return None;
        };
        let column = self.column(&between.expr)?;
        let (low, high) = (
            column.literal(low, self.budget)?,
            column.literal(high, self.budget)?,
        );
        let not = if between.negated { "NOT " } else { "" };
        Some(format!(
            "({} {not}BETWEEN {} AND {})",
            column.sql, low.sql, high.sql
        ))
    }

    fn in_list(&mut self, list: &InList) -> Option<String> {
        if list.list.is_empty() {
            return None;
        }
        self.budget.items = self.budget.items.checked_sub(list.list.len())?;
        let column = self.column(&list.expr)?;
        let (mut values, mut are_plain) = (Vec::new(), true);
        for item in &list.list {
            let Expr::Literal(value, _) = item else {
                return None;
            };
            let literal = column.literal(value, self.budget)?;
            are_plain &= literal.is_plain_ngram;
            values.push(literal.sql);
        }
        let (name, values) = (&column.sql, values.join(", "));
        Some(match (list.negated, are_plain) {
            (false, true) => format!("{name} IN ({values})"),
            (true, true) => format!("{name} NOT IN ({values})"),
            (false, false) => format!("({name} IN ({values}) AND {name} || '' IN ({values}))"),
            (true, false) => format!("{name} || '' NOT IN ({values})"),
        })
    }

    fn like(&mut self, like: &Like) -> Option<String> {
        let Expr::Literal(pattern, _) = like.pattern.as_ref() else {
            return None;
        };
        let column = self.column(&like.expr)?;
        let pattern = pattern.try_as_str()??;
        self.budget.bytes = self.budget.bytes.checked_sub(pattern.len())?;
        let is_glob = !like.case_insensitive
            && like.escape_char.is_none()
            && *column.data_type == DataType::Utf8View
            && pattern.len() <= PATTERN_BYTES_MAX
            && !pattern.contains('\0')
            // A backslash escapes what follows, in ways that GLOB cannot say.
            && !pattern.contains('\\');
        let not = if like.negated { "NOT " } else { "" };
        is_glob.then(|| format!("{} {not}GLOB {}", column.sql, quoted_text(&glob(pattern))))
    }
}

impl Compared<'_> {
    /// A literal that compares with the column alike in both; none if there is a doubt.
    fn literal(&self, value: &ScalarValue, budget: &mut Budget) -> Option<Literal> {
        match (self.data_type, value) {
            // The least integer is read as the negative of one that is none.
            (DataType::Int64, ScalarValue::Int64(Some(number))) if *number > i64::MIN => {
                Some(Literal {
                    sql: number.to_string(),
                    is_plain_ngram: true,
                })
            }
            (DataType::Utf8View, value) => {
                let text = value.try_as_str()??;
                budget.bytes = budget.bytes.checked_sub(text.len())?;
                (!text.contains('\0')).then(|| Literal {
                    sql: quoted_text(text),
                    is_plain_ngram: self.ngram_words.is_none_or(|n| is_plain_ngram(text, n)),
                })
            }
            _ => None,
        }
    }
}

/// Whether a text is n words with one space between them, whatever the tokenizer.
fn is_plain_ngram(text: &str, n: usize) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
    text.split(' ').count() == n && text.split(' ').all(is_word)
}

/// A pattern of LIKE without escapes as one of GLOB.
fn glob(pattern: &str) -> String {
    let mut glob = String::with_capacity(pattern.len());
    for character in pattern.chars() {
        match character {
            '%' => glob.push('*'),
            '_' => glob.push('?'),
            '*' | '?' | '[' => glob.extend(['[', character, ']']),
            _ => glob.push(character),
        }
    }
    glob
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::prelude::{col, lit};
    use zipfdb::{CorpusSettings, Database};

    use super::*;

    fn translated(expression: Expr) -> Option<String> {
        let database = Database::in_memory().unwrap();
        let settings = CorpusSettings::default();
        database.create_corpus("pets", settings).unwrap();
        let relation = Relation::corpus(&database.reader(), "pets").unwrap();
        translate(&expression, &relation)
    }

    #[test]
    fn comparisons_are_translated() {
        let text = |expression| translated(expression).unwrap();
        assert_eq!(text(col("word").eq(lit("it's"))), "\"word\" = 'it''s'");
        assert_eq!(text(lit(3i64).lt(col("offset"))), "\"offset\" > 3");
        assert_eq!(
            text(col("word").in_list(vec![lit("a"), lit("b")], true)),
            "\"word\" NOT IN ('a', 'b')"
        );
        assert_eq!(
            text(col("word").like(lit("a_%*"))),
            "\"word\" GLOB 'a?*[*]'"
        );
        assert_eq!(
            text(
                col("file")
                    .is_not_null()
                    .and(col("length").not_between(lit(1i64), lit(2i64)))
            ),
            "(\"file\" IS NOT NULL AND (\"length\" NOT BETWEEN 1 AND 2))"
        );
    }

    #[test]
    fn what_means_something_else_is_not_translated() {
        assert_eq!(translated(col("word").ilike(lit("a%"))), None);
        assert_eq!(translated(col("word").like(lit("a\\%"))), None);
        assert_eq!(translated(col("offset").eq(lit(1.5))), None);
        assert_eq!(translated(col("offset").eq(lit("1"))), None);
        assert_eq!(translated(col("word").eq(col("file"))), None);
        assert_eq!(translated(col("other").eq(lit("a"))), None);
        let null = Expr::Literal(ScalarValue::Utf8(None), None);
        assert_eq!(translated(col("word").eq(null.clone())), None);
        assert_eq!(translated(col("word").in_list(vec![null], false)), None);
        assert_eq!(
            translated(col("word").eq(lit("a")).or(col("word").ilike(lit("b")))),
            None
        );
    }

    #[test]
    fn long_conditions_are_left_to_datafusion() {
        let any = |count: usize| {
            let each = (0..count).map(|n| col("word").eq(lit(n.to_string())));
            each.reduce(Expr::or).unwrap()
        };
        assert!(translated(any(5)).is_some());
        assert!(translated(any(200)).is_none());
        let long = "x".repeat(BUDGET.bytes + 1);
        assert!(translated(col("word").eq(lit(long))).is_none());
        let list = |items| col("word").in_list(vec![lit("a"); items], false);
        assert!(translated(list(BUDGET.items)).is_some());
        assert!(translated(list(BUDGET.items + 1)).is_none());
    }
}
