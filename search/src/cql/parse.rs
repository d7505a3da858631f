//! Lexemes of CQL to the algebra: sequences, groups and filters.
//!
//! Invariant: descent is counted (`nested`), so neither the stack of the parser nor the depth of its result grows with the text.
//! Conditions on words are read by `word`, constraints by `constraint`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::lex::{Lexeme, Token, lex};
use crate::algebra::{Side, Span, SpanQuery, Strategy, Unit, WordTest};
use crate::error::{Error, Fault, Language, Result, quote};
use crate::limits::NESTING_MAX;

/// Reads a query in CQL.
///
/// Its time is linear in the text, but for regular expressions, which are limited.
///
/// # Errors
/// If the text is not a query, or exceeds one of the `limits`.
pub fn parse(text: &str) -> Result<SpanQuery> {
    Parser::new(text)?.query()
}

/// A query that is being read.
pub(super) struct Parser<'t> {
    text: &'t str,
    lexemes: Vec<Lexeme<'t>>,
    at: usize,
    depth: usize,
    /// Bytes of regular expressions so far.
    pub(super) regex_bytes: usize,
    labels: BTreeSet<String>,
    /// Labels that constraints and `show` name, and where.
    named: Vec<(String, usize)>,
}

/// An element of a sequence.
struct Element {
    span: Span,
    /// Where its `!` stands, if the span is a complement that is not one of words yet.
    negation: Option<usize>,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> Result<Parser<'t>> {
        Ok(Parser {
            text,
            lexemes: lex(text)?,
            at: 0,
            depth: 0,
            regex_bytes: 0,
            labels: BTreeSet::new(),
            named: Vec::new(),
        })
    }

    fn query(mut self) -> Result<SpanQuery> {
        if self.token() == Token::Name("MU") && self.is_symbol_at(1, "(") {
            self.at += 1;
        }
        let mut strategy = Strategy::default();
        while self.eat("(?") {
            strategy = match self.eat_name() {
                Some("longest") => Strategy::Longest,
                Some("shortest" | "standard") => Strategy::Shortest,
                Some("all") => Strategy::All,
                found => {
                    self.at -= usize::from(found.is_some());
                    let error = self.unexpected("a strategy");
                    return Err(error.with_hint(
                        "strategies are (?shortest), which (?standard) is too, (?longest) and (?all)",
                    ));
                }
            };
            self.expect(")")?;
        }
        let span = self.filtered()?;
        let constraint = if self.eat("::") || (self.eat("&")) {
            Some(self.constraint()?)
        } else {
            None
        };
        let show = if self.eat_keyword("show") {
            let first = self.named_label()?;
            let last = if self.eat("..") {
                self.named_label()?
            } else {
                first.clone()
            };
            Some((first, last))
        } else {
            None
        };
        self.eat(";");
        if self.token() != Token::End {
            return Err(self.unexpected("the end of the query"));
        }
        for (name, at) in &self.named {
            if !self.labels.contains(name) {
                let fault = Fault::NoSuch {
                    kind: "label",
                    name: quote(name),
                };
                let hint = format!("{name}:[] gives a word a label, {name}:(...) a span");
                return Err(Error::new(Language::Cql, self.text, *at, fault).with_hint(hint));
            }
        }
        Ok(SpanQuery {
            span,
            constraint,
            strategy,
            show,
        })
    }

    /// An alternation with its `within` and `containing`.
    fn filtered(&mut self) -> Result<Span> {
        let depth = self.depth;
        let mut span = self.alternation()?;
        loop {
            let negation = self.is_symbol_at(0, "!");
            let keyword = self.token_at(usize::from(negation));
            if !matches!(keyword, Token::Name("within" | "containing")) {
                break;
            }
            // Each filter is one level more around the span.
            self.deepen()?;
            self.at += 1 + usize::from(negation);
            let number = matches!(self.token(), Token::Number(_)) && !self.is_symbol_at(1, ":");
            span = if keyword == Token::Name("containing") {
                Span::Containing {
                    span: Box::new(span),
                    content: Box::new(self.container()?),
                    is_negated: negation,
                }
            } else if number {
                self.within_words(span, negation)?
            } else {
                Span::Within {
                    span: Box::new(span),
                    container: Box::new(self.container()?),
                    is_negated: negation,
                }
            };
        }
        self.depth = depth;
        Ok(span)
    }

    fn within_words(&mut self, span: Span, is_negated: bool) -> Result<Span> {
        if is_negated {
            let error = self.conflict("`!within` takes no number of words");
            return Err(error.with_hint("[]{6,} are more than 5 words: a & []{6,}"));
        }
        let words = self.number("the number of words")?;
        if matches!(self.token(), Token::Name(name) if unit(name).is_some()) {
            let error = self.unexpected("the end of the filter");
            return Err(error.with_hint("`within 5` are 5 words, `within s` is one sentence"));
        }
        Ok(Span::WithinWords {
            span: Box::new(span),
            words,
        })
    }

    /// What stands behind `within` and `containing`.
    fn container(&mut self) -> Result<Span> {
        match self.token() {
            Token::Name(name) if !self.is_symbol_at(1, ":") && name != "TAB" => {
                let unit = self.unit()?;
                Ok(Span::Unit(unit))
            }
            _ => self.alternation(),
        }
    }

    fn alternation(&mut self) -> Result<Span> {
        let mut spans = vec![self.intersection()?];
        while self.eat("|") {
            spans.push(self.intersection()?);
        }
        Ok(alone_or(spans, Span::Alternation))
    }

    fn intersection(&mut self) -> Result<Span> {
        let mut elements = vec![self.sequence()?];
        while self.is_symbol_at(0, "&") && !self.is_constraint_at(1) {
            self.at += 1;
            elements.push(self.sequence()?);
        }
        if elements.iter().all(|element| element.negation.is_some()) && elements.len() > 1 {
            let at = elements[0].negation;
            let error = self.conflict_at(at, "`&` takes at least one set that is no complement");
            return Err(error.with_hint("[]{1,5} & !a & !b are up to 5 words"));
        }
        if elements.len() == 1 {
            let only = elements.remove(0);
            return self.settled(only);
        }
        let spans = elements.into_iter().map(|element| element.span);
        Ok(Span::Intersection(spans.collect()))
    }

    /// A sequence; a complement where it has one element, which is one.
    fn sequence(&mut self) -> Result<Element> {
        let mut elements = vec![self.element()?];
        while self.begins_element() {
            elements.push(self.element()?);
        }
        if elements.len() == 1 {
            return Ok(elements.remove(0));
        }
        let spans = elements.into_iter().map(|element| self.settled(element));
        let spans = spans.collect::<Result<Vec<Span>>>()?;
        Ok(Element {
            span: Span::Sequence(spans),
            negation: None,
        })
    }

    fn begins_element(&self) -> bool {
        match self.token() {
            Token::String(..) | Token::Name("TAB") => true,
            Token::Symbol("!") => !matches!(self.token_at(1), Token::Name("within" | "containing")),
            Token::Symbol(symbol) => {
                ["[", "(", "(?=", "(?!", "(?<=", "(?<!", "<", "</", "@"].contains(&symbol)
            }
            Token::Name(_) | Token::Number(_) => self.is_symbol_at(1, ":"),
            Token::Flags(_) | Token::End => false,
        }
    }

    /// `LABEL: ! ATOM QUANTIFIER`, all but the atom optional.
    fn element(&mut self) -> Result<Element> {
        if let Some(name) = self.label()? {
            self.labels.insert(name.clone());
            let element = self.nested(Parser::element)?;
            let span = Span::Capture {
                name,
                span: Box::new(self.settled(element)?),
            };
            return Ok(Element {
                span,
                negation: None,
            });
        }
        let negation = self.is_symbol_at(0, "!").then(|| self.start());
        self.at += usize::from(negation.is_some());
        let mut span = if self.token() == Token::Name("TAB") {
            self.tab()?
        } else {
            self.nested(Parser::atom)?
        };
        if negation.is_some() {
            span = Span::Complement(Box::new(span));
        }
        let element = Element { span, negation };
        match self.quantifier()? {
            Some((minimum, maximum)) => {
                let span = Span::Repeat {
                    span: Box::new(self.settled(element)?),
                    minimum,
                    maximum,
                };
                Ok(Element {
                    span,
                    negation: None,
                })
            }
            None => Ok(element),
        }
    }

    /// The span of an element that is no operand of `&`: a complement is one of words.
    fn settled(&self, element: Element) -> Result<Span> {
        match (element.negation, element.span) {
            (Some(at), Span::Complement(span)) => match word_test(*span) {
                Some(test) => Ok(Span::Word(WordTest::Not(Box::new(test)))),
                None => {
                    let error = self.conflict_at(Some(at), "`!` stands before more than one word");
                    Err(error.with_hint(
                        "a complement is an operand of `&`, as in []{2} & !(\"a\" \"b\")",
                    ))
                }
            },
            (_, span) => Ok(span),
        }
    }

    fn label(&mut self) -> Result<Option<String>> {
        if self.eat("@") {
            let digits = match self.token() {
                // A number before a colon is a label of its own.
                Token::Number(digits) if !self.is_symbol_at(1, ":") => digits,
                _ => return Ok(Some("target".to_owned())),
            };
            self.at += 1;
            return Ok(Some(format!("target{digits}")));
        }
        match self.token() {
            Token::Name(name) | Token::Number(name) if self.is_symbol_at(1, ":") => {
                self.at += 2;
                Ok(Some(name.to_owned()))
            }
            _ => Ok(None),
        }
    }

    fn atom(&mut self) -> Result<Span> {
        let start = self.start();
        match self.token() {
            Token::String(..) => Ok(Span::Word(self.word_string()?)),
            Token::Symbol("[") => {
                self.at += 1;
                let test = if self.is_symbol_at(0, "]") {
                    WordTest::Any
                } else {
                    self.word_tests()?
                };
                self.expect("]")?;
                Ok(Span::Word(test))
            }
            Token::Symbol("(") => {
                self.at += 1;
                let span = if self.is_symbol_at(0, ")") {
                    Span::Empty
                } else {
                    match self.token() {
                        Token::Name(name) if !self.is_symbol_at(1, ":") && name != "TAB" => {
                            self.function(name)?
                        }
                        _ => self.filtered()?,
                    }
                };
                self.close(start)?;
                Ok(span)
            }
            Token::Symbol(symbol @ ("(?=" | "(?!" | "(?<=" | "(?<!")) => {
                self.at += 1;
                let span = Box::new(self.filtered()?);
                self.close(start)?;
                Ok(Span::Look {
                    side: if symbol.contains('<') {
                        Side::Before
                    } else {
                        Side::After
                    },
                    is_negated: symbol.ends_with('!'),
                    span,
                })
            }
            Token::Symbol("<") => {
                self.at += 1;
                let unit = self.unit()?;
                if self.eat("/>") {
                    return Ok(Span::Unit(unit));
                }
                self.expect_tag_end()?;
                Ok(Span::UnitStart(unit))
            }
            Token::Symbol("</") => {
                self.at += 1;
                let unit = self.unit()?;
                self.expect_tag_end()?;
                Ok(Span::UnitEnd(unit))
            }
            Token::Name(_) => {
                let error = self.unexpected("a pattern");
                Err(error.with_hint("words stand in quotes: \"word\""))
            }
            _ => Err(self.unexpected("a pattern")),
        }
    }

    fn expect_tag_end(&mut self) -> Result<()> {
        if self.eat(">") {
            return Ok(());
        }
        let error = self.unexpected("`>`");
        Err(error.with_hint("units have no attributes"))
    }

    /// `meet A B LEFT RIGHT`, `union A B ...`, `near A B ... N`, `ordered A B ... N`, `slop A B ... N`.
    fn function(&mut self, name: &str) -> Result<Span> {
        if !["meet", "union", "near", "ordered", "slop"].contains(&name) {
            let fault = Fault::NoSuch {
                kind: "function",
                name: quote(name),
            };
            let hint = "functions are meet, union, near, ordered and slop, and words stand in quotes: \"word\"";
            return Err(self.error(fault).with_hint(hint));
        }
        self.at += 1;
        let first_at = self.start();
        let mut parts = Vec::new();
        while self.begins_element() || parts.len() < 2 {
            let element = self.element()?;
            parts.push(self.settled(element)?);
        }
        match name {
            "meet" => {
                let (left, right) = (self.signed_number()?, self.signed_number()?);
                let [first, second] = <[Span; 2]>::try_from(parts).map_err(|_| {
                    self.conflict_at(Some(first_at), "`meet` takes two patterns and two numbers")
                })?;
                if left > right {
                    return Err(
                        self.conflict_at(Some(first_at), "the window ends before it begins")
                    );
                }
                Ok(Span::Meet {
                    first: Box::new(first),
                    second: Box::new(second),
                    left,
                    right,
                })
            }
            "union" => Ok(Span::Alternation(parts)),
            "slop" => {
                let slop = self.number("the slop")?;
                let words: Option<Vec<WordTest>> = parts.into_iter().map(word_test).collect();
                let words = words.ok_or_else(|| {
                    self.conflict_at(Some(first_at), "`slop` takes patterns of one word")
                })?;
                Ok(Span::Slop { words, slop })
            }
            _ => Ok(Span::Near {
                parts,
                distance: self.number("the distance")?,
                is_ordered: name == "ordered",
            }),
        }
    }

    /// `TAB A {n,m} B ...`: a sequence with gaps.
    fn tab(&mut self) -> Result<Span> {
        self.at += 1;
        let mut spans = Vec::new();
        loop {
            if let Some(name) = self.label()? {
                self.labels.insert(name.clone());
                let span = Box::new(self.nested(Parser::atom)?);
                spans.push(Span::Capture { name, span });
            } else {
                spans.push(self.nested(Parser::atom)?);
            }
            if let Some((minimum, maximum)) = self.quantifier()? {
                spans.push(Span::Repeat {
                    span: Box::new(Span::Word(WordTest::Any)),
                    minimum,
                    maximum,
                });
            } else if !self.begins_element() {
                return Ok(alone_or(spans, Span::Sequence));
            }
        }
    }

    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>)>> {
        let bounds = match self.token() {
            Token::Symbol("*") => (0, None),
            Token::Symbol("+") => (1, None),
            Token::Symbol("?") => (0, Some(1)),
            Token::Symbol("{") => {
                self.at += 1;
                let open_start = self.is_symbol_at(0, ",");
                let minimum = if open_start {
                    0
                } else {
                    self.number("a number of times")?
                };
                let maximum = if !self.eat(",") {
                    Some(minimum)
                } else if self.is_symbol_at(0, "}") && !open_start {
                    None
                } else {
                    Some(self.number("a number of times")?)
                };
                if maximum.is_some_and(|maximum| maximum < minimum) {
                    return Err(self.conflict("at most is less than at least"));
                }
                if !self.is_symbol_at(0, "}") {
                    return Err(self.unexpected("`}`"));
                }
                (minimum, maximum)
            }
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(bounds))
    }

    /// A unit by its name, with the words of a window.
    fn unit(&mut self) -> Result<Unit> {
        let Token::Name(name) = self.token() else {
            return Err(self.unexpected("a unit").with_hint(UNITS));
        };
        let Some(unit) = unit(name) else {
            let fault = Fault::NoSuch {
                kind: "unit",
                name: quote(name),
            };
            return Err(self.error(fault).with_hint(UNITS));
        };
        self.at += 1;
        match unit {
            Unit::Window(_) => {
                let words = self.number("the number of words")?;
                if words == 0 {
                    self.at -= 1;
                    return Err(self.conflict("a window has at least one word"));
                }
                Ok(Unit::Window(words))
            }
            unit => Ok(unit),
        }
    }

    /// A label that constraints or `show` name.
    pub(super) fn named_label(&mut self) -> Result<String> {
        match self.token() {
            Token::Name(name) | Token::Number(name) => {
                self.named.push((name.to_owned(), self.start()));
                self.at += 1;
                Ok(name.to_owned())
            }
            _ => Err(self.unexpected("a label")),
        }
    }

    /// Reads with one more level of descent.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.deepen()?;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn deepen(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(self.error(Fault::TooLarge {
                what: "the depth of the query",
                limit: NESTING_MAX,
            }));
        }
        Ok(())
    }

    pub(super) fn token(&self) -> Token<'t> {
        self.token_at(0)
    }

    /// The token that many lexemes on; the end, past it.
    pub(super) fn token_at(&self, ahead: usize) -> Token<'t> {
        let lexeme = self.lexemes.get(self.at + ahead);
        lexeme.map_or(Token::End, |lexeme| lexeme.token)
    }

    pub(super) fn is_symbol_at(&self, ahead: usize, symbol: &str) -> bool {
        matches!(self.token_at(ahead), Token::Symbol(found) if found == symbol)
    }

    /// Where the lexeme at hand starts in the text.
    pub(super) fn start(&self) -> usize {
        self.lexemes[self.at].start
    }

    /// Goes on to the next lexeme; never past the end, at which no reader goes on.
    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    pub(super) fn eat(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol_at(0, symbol);
        self.at += usize::from(found);
        found
    }

    pub(super) fn eat_keyword(&mut self, keyword: &str) -> bool {
        let found = self.token() == Token::Name(keyword);
        self.at += usize::from(found);
        found
    }

    fn eat_name(&mut self) -> Option<&'t str> {
        let Token::Name(name) = self.token() else {
            return None;
        };
        self.at += 1;
        Some(name)
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.eat(symbol) {
            return Ok(());
        }
        Err(self.unexpected(format!("`{symbol}`")))
    }

    /// The `)` of what was opened at a place.
    fn close(&mut self, opened: usize) -> Result<()> {
        if self.is_symbol_at(0, "&") || self.is_symbol_at(0, "::") {
            let error = self.unexpected("`)`");
            return Err(error.with_hint("a constraint stands at the end of the query"));
        }
        if self.token() == Token::End {
            let fault = Fault::Syntax {
                expected: "`)` for this".into(),
                found: "the end of the query".to_owned(),
            };
            return Err(Error::new(Language::Cql, self.text, opened, fault));
        }
        self.expect(")")
    }

    /// A number without a sign.
    pub(super) fn number<N: std::str::FromStr>(&mut self, what: &'static str) -> Result<N> {
        let Token::Number(digits) = self.token() else {
            return Err(self.unexpected(what));
        };
        let number = digits
            .parse()
            .map_err(|_| self.conflict(format!("{} is too large for {what}", quote(digits))))?;
        self.at += 1;
        Ok(number)
    }

    fn signed_number(&mut self) -> Result<i32> {
        let is_negative = self.eat("-");
        if !is_negative {
            self.eat("+");
        }
        let number: i32 = self.number("a number of words")?;
        Ok(if is_negative { -number } else { number })
    }

    pub(super) fn error_at(&self, byte: usize, fault: Fault) -> Error {
        Error::new(Language::Cql, self.text, byte, fault)
    }

    pub(super) fn error(&self, fault: Fault) -> Error {
        self.error_at(self.start(), fault)
    }

    pub(super) fn unexpected(&self, expected: impl Into<Cow<'static, str>>) -> Error {
        let lexeme = self.lexemes[self.at];
        let found = if lexeme.token == Token::End {
            "the end of the query".to_owned()
        } else {
            quote(&self.text[lexeme.start..lexeme.end])
        };
        self.error(Fault::Syntax {
            expected: expected.into(),
            found,
        })
    }

    pub(super) fn conflict(&self, reason: impl Into<Cow<'static, str>>) -> Error {
        self.conflict_at(None, reason)
    }

    fn conflict_at(&self, at: Option<usize>, reason: impl Into<Cow<'static, str>>) -> Error {
        let fault = Fault::Conflict {
            reason: reason.into(),
        };
        self.error_at(at.unwrap_or(self.start()), fault)
    }
}

const UNITS: &str = "units are file, record, line, paragraph or p, sentence or s, and window N";

fn unit(name: &str) -> Option<Unit> {
    Some(match name {
        "file" => Unit::File,
        "record" => Unit::Record,
        "line" => Unit::Line,
        "paragraph" | "p" => Unit::Paragraph,
        "sentence" | "s" => Unit::Sentence,
        "window" => Unit::Window(1),
        _ => return None,
    })
}

/// The only span, or all of them together.
fn alone_or(mut spans: Vec<Span>, together: fn(Vec<Span>) -> Span) -> Span {
    if spans.len() == 1 {
        spans.remove(0)
    } else {
        together(spans)
    }
}

/// The test of a span that is always one word.
fn word_test(span: Span) -> Option<WordTest> {
    match span {
        Span::Word(test) => Some(test),
        Span::Alternation(spans) => {
            let tests: Option<Vec<WordTest>> = spans.into_iter().map(word_test).collect();
            tests.map(WordTest::AnyOf)
        }
        _ => None,
    }
}
