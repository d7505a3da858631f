//! Conditions on words in CQL: strings, and what stands in brackets.
//!
//! Invariant: a string without a special character is a literal, and attributes that fold differ from `word` by the folding alone.

use super::lex::{StringKind, Token};
use super::parse::Parser;
use crate::algebra::{Comparison, Pattern, Side, TextTest, WordTest};
use crate::error::{Fault, Result, quote};
use crate::limits::{EDITS_MAX, REGEXES_BYTES_MAX};
use crate::pattern;

/// The names of attributes, for hints.
const ATTRIBUTES: &str =
    "attributes are word, lc, gap or before, after, position, offset and f(word)";

/// What a test is about.
#[derive(Debug, Clone, Copy)]
enum Attribute {
    Word { folds_case: bool },
    Gap(Side),
    Position,
    Offset,
    Frequency,
}

/// Whether a case is asked for: by a flag, or by the beginning of a regular expression.
#[derive(Debug, Clone, Copy, Default)]
struct Folding {
    case: bool,
    diacritics: bool,
}

impl Parser<'_> {
    /// A string that stands alone.
    pub(super) fn word_string(&mut self) -> Result<WordTest> {
        let test = self.text_test(false, false)?;
        Ok(WordTest::Text(test))
    }

    /// What stands in brackets.
    pub(super) fn word_tests(&mut self) -> Result<WordTest> {
        let mut tests = vec![self.all_tests()?];
        while self.eat("|") {
            tests.push(self.all_tests()?);
        }
        Ok(alone_or(tests, WordTest::AnyOf))
    }

    fn all_tests(&mut self) -> Result<WordTest> {
        let mut tests = vec![self.nested(Parser::one_test)?];
        while self.eat("&") {
            tests.push(self.nested(Parser::one_test)?);
        }
        Ok(alone_or(tests, WordTest::All))
    }

    fn one_test(&mut self) -> Result<WordTest> {
        if self.eat("!") {
            return Ok(not(self.nested(Parser::one_test)?));
        }
        if self.eat("(") {
            let test = self.word_tests()?;
            self.expect(")")?;
            return Ok(test);
        }
        if self.eat("[") {
            self.expect("]")?;
            return Ok(WordTest::Any);
        }
        match self.attribute()? {
            Attribute::Word { folds_case } => {
                let (is_negated, test) = self.text_comparison(folds_case)?;
                let test = WordTest::Text(test);
                Ok(if is_negated { not(test) } else { test })
            }
            Attribute::Gap(side) => {
                let (is_negated, test) = self.text_comparison(false)?;
                let test = WordTest::Gap(side, test);
                Ok(if is_negated { not(test) } else { test })
            }
            Attribute::Position => self.number_comparison(WordTest::Position),
            Attribute::Offset => self.number_comparison(WordTest::Offset),
            Attribute::Frequency => self.number_comparison(WordTest::Frequency),
        }
    }

    fn attribute(&mut self) -> Result<Attribute> {
        let Token::Name(name) = self.token() else {
            let error = self.unexpected("an attribute");
            return Err(error.with_hint(ATTRIBUTES));
        };
        let attribute = match name {
            "word" => Attribute::Word { folds_case: false },
            "lc" => Attribute::Word { folds_case: true },
            "gap" | "before" => Attribute::Gap(Side::Before),
            "after" => Attribute::Gap(Side::After),
            "position" => Attribute::Position,
            "offset" => Attribute::Offset,
            "f" if self.is_symbol_at(1, "(") => {
                self.advance();
                self.advance();
                if !self.eat_keyword("word") {
                    return Err(self.unexpected("`word`"));
                }
                self.expect(")")?;
                return Ok(Attribute::Frequency);
            }
            _ => {
                let fault = Fault::NoSuch {
                    kind: "attribute",
                    name: quote(name),
                };
                return Err(self.error(fault).with_hint(ATTRIBUTES));
            }
        };
        self.advance();
        Ok(attribute)
    }

    /// An operator on texts and its pattern; and whether it is negated.
    fn text_comparison(&mut self, folds_case: bool) -> Result<(bool, TextTest)> {
        let (is_negated, is_literal) = match self.token() {
            Token::Symbol("=") | Token::Name("contains" | "matches") => (false, false),
            Token::Symbol("!=") => (true, false),
            Token::Symbol("==") => (false, true),
            Token::Symbol("!==") => (true, true),
            Token::Name("in") => {
                self.advance();
                return Ok((false, self.list(folds_case)?));
            }
            Token::Symbol("<" | "<=" | ">" | ">=") => {
                let error = self.conflict("texts are compared by =, !=, == and !==");
                return Err(error.with_hint("position, offset and f(word) are numbers"));
            }
            _ => return Err(self.unexpected("one of =, !=, ==, !==, in, contains and matches")),
        };
        self.advance();
        Ok((is_negated, self.text_test(is_literal, folds_case)?))
    }

    fn list(&mut self, folds_case: bool) -> Result<TextTest> {
        self.expect("(")?;
        let mut texts = Vec::new();
        loop {
            let Token::String(StringKind::Plain | StringKind::Literal, raw) = self.token() else {
                return Err(self.unexpected("a string"));
            };
            texts.push(self.literal(raw)?);
            self.advance();
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        texts.sort_unstable();
        texts.dedup();
        let (folding, _) = self.flags(folds_case)?;
        Ok(test(Pattern::List(texts), folding))
    }

    /// A string with its flags.
    fn text_test(&mut self, is_literal: bool, folds_case: bool) -> Result<TextTest> {
        let Token::String(kind, raw) = self.token() else {
            return Err(self.unexpected("a string"));
        };
        let string_at = self.string_start();
        self.advance();
        let edits = if self.eat("~") {
            let edits: u8 = self.number("the number of edits")?;
            if edits > EDITS_MAX {
                return Err(self.error_at(
                    string_at,
                    Fault::TooLarge {
                        what: "the number of edits",
                        limit: usize::from(EDITS_MAX),
                    },
                ));
            }
            Some(edits)
        } else {
            None
        };
        let (mut folding, has_literal_flag) = self.flags(folds_case)?;
        let pattern = if kind == StringKind::Wildcard {
            if is_literal || has_literal_flag || edits.is_some() {
                return Err(self.conflict("a text with wildcards is compared by = and !="));
            }
            pattern::wildcard(&self.unescaped(string_at, raw, true)?)
        } else if let Some(edits) = edits {
            let text = self.literal_at(string_at, raw)?;
            Pattern::Fuzzy { text, edits }
        } else if is_literal || has_literal_flag || kind == StringKind::Literal {
            Pattern::Literal(self.literal_at(string_at, raw)?)
        } else {
            self.regex(string_at, raw, &mut folding)?
        };
        Ok(test(pattern, folding))
    }

    /// Flags after a string, and whether `%l` is one of them.
    pub(super) fn case_flags(&mut self, folds_case: bool) -> Result<(bool, bool)> {
        let (folding, has_literal_flag) = self.flags(folds_case)?;
        if has_literal_flag {
            return Err(self.conflict("`%l` stands after strings"));
        }
        Ok((folding.case, folding.diacritics))
    }

    fn flags(&mut self, folds_case: bool) -> Result<(Folding, bool)> {
        let mut folding = Folding {
            case: folds_case,
            diacritics: false,
        };
        let mut is_literal = false;
        while let Token::Flags(letters) = self.token() {
            for letter in letters.chars() {
                match letter {
                    'c' => folding.case = true,
                    'd' => folding.diacritics = true,
                    'l' => is_literal = true,
                    _ => {
                        let error = self.unexpected("flags");
                        return Err(error.with_hint(
                            "flags are %c, which ignores case, %d, which ignores diacritics, and %l, for literal texts",
                        ));
                    }
                }
            }
            self.advance();
        }
        Ok((folding, is_literal))
    }

    /// Where the text of the string at hand starts.
    fn string_start(&self) -> usize {
        match self.token() {
            Token::String(StringKind::Plain, _) => self.start() + 1,
            _ => self.start() + 2,
        }
    }

    /// The regular expression of a string. `(?i)` at its begin is a flag of the test.
    fn regex(&mut self, string_at: usize, raw: &str, folding: &mut Folding) -> Result<Pattern> {
        // Quotes need no backslash in a pattern.
        let mut text = String::with_capacity(raw.len());
        let mut dropped = Vec::new();
        let mut characters = raw.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            if character != '\\' {
                text.push(character);
                continue;
            }
            match characters.next() {
                Some((_, quote @ ('"' | '\''))) => {
                    dropped.push(at);
                    text.push(quote);
                }
                Some((_, other)) => text.extend(['\\', other]),
                None => text.push('\\'),
            }
        }
        let (ignores_case, rest) = pattern::case_flag(&text);
        if ignores_case == Some(false) && folding.case {
            let reason = "`(?-i)` and an attribute or flag that ignores case".into();
            return Err(self.error_at(string_at, Fault::Conflict { reason }));
        }
        folding.case |= ignores_case.unwrap_or_default();
        let flag_bytes = text.len() - rest.len();
        let pattern = pattern::regex(rest).map_err(|fault| {
            let mut at = flag_bytes + fault.at;
            for place in &dropped {
                at += usize::from(*place <= at);
            }
            let error = self.error_at(
                string_at + at,
                Fault::Pattern {
                    reason: fault.reason,
                },
            );
            match fault.hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        })?;
        if matches!(pattern, Pattern::Regex(_)) {
            self.regex_bytes += rest.len();
            if self.regex_bytes > REGEXES_BYTES_MAX {
                return Err(self.error_at(
                    string_at,
                    Fault::TooLarge {
                        what: "the number of bytes of all regular expressions",
                        limit: REGEXES_BYTES_MAX,
                    },
                ));
            }
        }
        Ok(pattern)
    }

    /// The text of the literal string at hand.
    pub(super) fn literal(&self, raw: &str) -> Result<Vec<u8>> {
        self.literal_at(self.string_start(), raw)
    }

    fn literal_at(&self, string_at: usize, raw: &str) -> Result<Vec<u8>> {
        self.unescaped(string_at, raw, false)
    }

    /// The bytes of a string, in which `\xHH` is a byte. A backslash stays before what it escapes if that is text with wildcards.
    fn unescaped(&self, string_at: usize, raw: &str, has_wildcards: bool) -> Result<Vec<u8>> {
        let bytes = raw.as_bytes();
        let mut text = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            let escaped = bytes.get(at + 1).copied();
            match escaped.filter(|_| bytes[at] == b'\\') {
                None => {
                    text.push(bytes[at]);
                    at += 1;
                }
                Some(b'x') if let Some(byte) = hex_byte(&bytes[at + 2..]) => {
                    if has_wildcards {
                        pattern::escape_wildcard(byte, &mut text);
                    } else {
                        text.push(byte);
                    }
                    at += 4;
                }
                Some(own) if has_wildcards && own != b'x' => {
                    text.extend([b'\\', own]);
                    at += 2;
                }
                Some(own @ (b'\\' | b'"' | b'\'')) => {
                    text.push(own);
                    at += 2;
                }
                Some(_) => {
                    let fault = Fault::Pattern {
                        reason: "a backslash before a character that needs none".to_owned(),
                    };
                    let error = self.error_at(string_at + at, fault);
                    return Err(error.with_hint("`\\\\` is a backslash, `\\xHH` a byte"));
                }
            }
        }
        Ok(text)
    }

    /// An operator on numbers and its number, or `=` and a range.
    fn number_comparison(&mut self, make: fn(Comparison, u64) -> WordTest) -> Result<WordTest> {
        let comparison = self.comparison()?;
        let first = self.number("a number")?;
        if !self.eat("..") {
            return Ok(make(comparison, first));
        }
        let last = self.number("a number")?;
        if first > last {
            return Err(self.conflict("the range ends before it begins"));
        }
        let range = WordTest::All(vec![
            make(Comparison::GreaterOrEqual, first),
            make(Comparison::LessOrEqual, last),
        ]);
        match comparison {
            Comparison::Equal => Ok(range),
            Comparison::NotEqual => Ok(not(range)),
            _ => Err(self.conflict("ranges are compared by = and !=")),
        }
    }

    /// An operator on numbers.
    pub(super) fn comparison(&mut self) -> Result<Comparison> {
        let comparison = match self.token() {
            Token::Symbol("=" | "==") => Comparison::Equal,
            Token::Symbol("!=" | "!==") => Comparison::NotEqual,
            Token::Symbol("<") => Comparison::Less,
            Token::Symbol("<=") => Comparison::LessOrEqual,
            Token::Symbol(">") => Comparison::Greater,
            Token::Symbol(">=") => Comparison::GreaterOrEqual,
            _ => return Err(self.unexpected("one of =, !=, <, <=, > and >=")),
        };
        self.advance();
        Ok(comparison)
    }
}

/// The byte that two hexadecimal digits stand for.
fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(16 * digit(0)? + digit(1)?).ok()
}

fn test(pattern: Pattern, folding: Folding) -> TextTest {
    TextTest {
        pattern,
        folds_case: folding.case,
        folds_diacritics: folding.diacritics,
    }
}

fn not(test: WordTest) -> WordTest {
    WordTest::Not(Box::new(test))
}

/// The only test, or all of them together.
fn alone_or(mut tests: Vec<WordTest>, together: fn(Vec<WordTest>) -> WordTest) -> WordTest {
    if tests.len() == 1 {
        tests.remove(0)
    } else {
        together(tests)
    }
}
