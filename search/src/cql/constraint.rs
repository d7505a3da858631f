//! Constraints of CQL: conditions on the labels of one match.
//!
//! Invariant: texts are compared with texts and numbers with numbers. A string in a constraint is a text: what a pattern
//! tests is a word, and stands at the word.

use super::lex::{StringKind, Token};
use super::parse::Parser;
use crate::algebra::{CaptureValue, Constraint, Pattern};
use crate::error::Result;
use crate::pattern;

/// Lexemes that a constraint begins with at most before it is known from a pattern.
const OPENINGS_MAX: usize = 64;

impl Parser<'_> {
    /// Whether a constraint stands there, and no pattern.
    pub(super) fn is_constraint_at(&self, ahead: usize) -> bool {
        let opens = |at: &usize| self.is_symbol_at(*at, "(") || self.is_symbol_at(*at, "!");
        let first = (ahead..ahead + OPENINGS_MAX).find(|at| !opens(at));
        let Some(first) = first else {
            return false;
        };
        match (self.token_at(first), self.token_at(first + 1)) {
            (Token::Name(_) | Token::Number(_), Token::Symbol(".")) => true,
            (Token::Name(name), Token::Symbol("(")) => {
                ["f", "start", "end", "dist"].contains(&name)
            }
            (Token::Number(_), Token::Symbol(symbol)) => {
                ["=", "==", "!=", "!==", "<", "<=", ">", ">="].contains(&symbol)
            }
            _ => false,
        }
    }

    /// A constraint, with `!` before `&` before `|`.
    pub(super) fn constraint(&mut self) -> Result<Constraint> {
        let mut constraints = vec![self.all_constraints()?];
        while self.eat("|") {
            constraints.push(self.all_constraints()?);
        }
        Ok(alone_or(constraints, Constraint::AnyOf))
    }

    fn all_constraints(&mut self) -> Result<Constraint> {
        let mut constraints = vec![self.nested(Parser::one_constraint)?];
        while self.eat("&") {
            constraints.push(self.nested(Parser::one_constraint)?);
        }
        Ok(alone_or(constraints, Constraint::All))
    }

    fn one_constraint(&mut self) -> Result<Constraint> {
        if self.eat("!") {
            let constraint = self.nested(Parser::one_constraint)?;
            return Ok(Constraint::Not(Box::new(constraint)));
        }
        if self.eat("(") {
            let constraint = self.constraint()?;
            self.expect(")")?;
            return Ok(constraint);
        }
        let first = self.value()?;
        let comparison = self.comparison()?;
        let second = self.value()?;
        if is_text(&first) != is_text(&second) {
            return Err(self.conflict("a text is compared with a number"));
        }
        Ok(Constraint::Compare(first, comparison, second))
    }

    fn value(&mut self) -> Result<CaptureValue> {
        match (self.token(), self.is_symbol_at(1, "(")) {
            (Token::String(kind, raw), _) => self.literal_value(kind, raw),
            (Token::Symbol("-"), _) => {
                self.advance();
                let number: i64 = self.number("a number")?;
                Ok(CaptureValue::Number(-number))
            }
            (Token::Number(_), _) if !self.is_symbol_at(1, ".") => {
                Ok(CaptureValue::Number(self.number("a number")?))
            }
            (Token::Name(function @ ("f" | "start" | "end" | "dist")), true) => {
                self.advance();
                self.advance();
                let label = self.named_label()?;
                let value = match function {
                    "f" => {
                        if self.eat(".") && !self.eat_keyword("word") {
                            return Err(self.unexpected("`word`"));
                        }
                        CaptureValue::Frequency(label)
                    }
                    "start" => CaptureValue::Start(label),
                    "end" => CaptureValue::End(label),
                    _ => {
                        self.expect(",")?;
                        CaptureValue::Distance(label, self.named_label()?)
                    }
                };
                self.expect(")")?;
                Ok(value)
            }
            (Token::Name(_) | Token::Number(_), _) => {
                let capture = self.named_label()?;
                self.expect(".")?;
                let folds_case = match self.token() {
                    Token::Name("word") => false,
                    Token::Name("lc") => true,
                    _ => {
                        let error = self.unexpected("an attribute of the label");
                        return Err(error.with_hint(
                            "attributes of labels are word and lc; f(A), start(A), end(A) and dist(A, B) are numbers",
                        ));
                    }
                };
                self.advance();
                let (folds_case, folds_diacritics) = self.case_flags(folds_case)?;
                Ok(CaptureValue::Text {
                    capture,
                    folds_case,
                    folds_diacritics,
                })
            }
            _ => Err(self.unexpected("a label, a number or a string")),
        }
    }

    fn literal_value(&mut self, kind: StringKind, raw: &str) -> Result<CaptureValue> {
        let text = if kind == StringKind::Literal {
            Some(self.literal(raw)?)
        } else if let (StringKind::Plain, Ok(Pattern::Literal(text))) = (kind, pattern::regex(raw))
        {
            Some(text)
        } else {
            None
        };
        let Some(text) = text else {
            let error = self.conflict("a constraint compares with a text, not with a pattern");
            return Err(error.with_hint(
                "a pattern stands at the word, A:[word = \"a.*\"], and l\"...\" is a text",
            ));
        };
        self.advance();
        Ok(CaptureValue::Literal(text))
    }
}

fn is_text(value: &CaptureValue) -> bool {
    matches!(value, CaptureValue::Text { .. } | CaptureValue::Literal(_))
}

/// The only constraint, or all of them together.
fn alone_or(
    mut constraints: Vec<Constraint>,
    together: fn(Vec<Constraint>) -> Constraint,
) -> Constraint {
    if constraints.len() == 1 {
        constraints.remove(0)
    } else {
        together(constraints)
    }
}
