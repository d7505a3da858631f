//! Text in the simple language to a [`FileQuery`], strictly or leniently.
//!
//! Invariant: both modes are one parser. Where the strict mode ends with an error, the lenient one notes it and goes on
//! (`fault`), so every place that finds a fault says what is read instead. Descent is counted.

use std::borrow::Cow;
use std::ops::Range;

use super::query::FileQuery;
use crate::algebra::{Pattern, Stemmer, TextTest};
use crate::error::{Error, Fault, Language, Result, quote};
use crate::limits::{EDITS_MAX, NESTING_MAX, NOTICES_MAX, QUERY_BYTES_MAX, REGEXES_BYTES_MAX};
use crate::pattern;

/// The distance of `NEAR` where none is written, as in FTS5.
const NEAR_DISTANCE: u32 = 10;

/// Cuts the text of a query into words, as the texts of the corpus are cut.
pub trait Tokenize {
    /// Where the words of the text are, in their order and apart.
    fn words(&self, text: &str) -> Vec<Range<usize>>;
}

/// What two terms without an operator between mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operator {
    /// One of them is enough.
    #[default]
    Or,
    /// Both must be there.
    And,
}

/// How a text is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryOptions {
    /// The operator between terms that have none.
    pub operator: Operator,
    /// Words are compared without case.
    pub folds_case: bool,
    /// Words are compared without diacritics.
    pub folds_diacritics: bool,
    /// Plain words, alone and in phrases, match words of the same stem.
    pub stemmer: Option<Stemmer>,
    /// Names that `name:value` may have; `None`: any.
    pub fields: Option<Vec<String>>,
}

impl Default for QueryOptions {
    /// As tantivy: terms are joined by OR, case is ignored.
    fn default() -> QueryOptions {
        QueryOptions {
            operator: Operator::Or,
            folds_case: true,
            folds_diacritics: false,
            stemmer: None,
            fields: None,
        }
    }
}

/// What the lenient mode reads.
#[derive(Debug, Clone, PartialEq)]
pub struct LenientQuery {
    /// The query; [`FileQuery::None`] if the text has no term.
    pub query: FileQuery,
    /// What was ignored or read as plain words, at most `limits::NOTICES_MAX` of it.
    pub notices: Vec<Error>,
}

/// Reads a query in the simple language.
///
/// # Errors
/// If the text is not a query, or exceeds one of the `limits`.
pub fn parse(text: &str, options: &QueryOptions, tokenizer: &dyn Tokenize) -> Result<FileQuery> {
    let mut parser = SimpleParser::new(text, options, tokenizer, false);
    if text.len() > QUERY_BYTES_MAX {
        parser.fault(
            0,
            too_large("the number of bytes of a query", QUERY_BYTES_MAX),
            "",
        )?;
    }
    parser.query()
}

/// Reads any text that an end user may write: what is no query is ignored or read as plain words, with a notice.
pub fn parse_lenient(text: &str, options: &QueryOptions, tokenizer: &dyn Tokenize) -> LenientQuery {
    let read = &text[..text.floor_char_boundary(QUERY_BYTES_MAX)];
    let mut parser = SimpleParser::new(read, options, tokenizer, true);
    if read.len() < text.len() {
        let fault = too_large("the number of bytes of a query", QUERY_BYTES_MAX);
        parser
            .notices
            .push(Error::new(Language::Simple, text, 0, fault));
    }
    let query = parser.query().expect("the lenient mode notes every fault");
    LenientQuery {
        query,
        notices: parser.notices,
    }
}

struct SimpleParser<'a> {
    text: &'a str,
    options: &'a QueryOptions,
    tokenizer: &'a dyn Tokenize,
    is_lenient: bool,
    notices: Vec<Error>,
    at: usize,
    depth: usize,
    /// Bytes of regular expressions so far.
    regex_bytes: usize,
}

/// What stands before a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joiner {
    Nothing,
    And,
    Or,
}

/// What a clause asks of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Demand {
    Plain,
    Required,
    Excluded,
}

/// A term, phrase or group with its operators.
struct Clause {
    joiner: Joiner,
    occurrence: Demand,
    query: FileQuery,
}

/// A part of a term or phrase.
enum TextPiece {
    /// To be cut into words.
    Plain(String),
    /// To be cut into words, of which the last goes on if it ends the text.
    Prefix(String),
    /// One word, with wildcards.
    Wildcard(Vec<u8>),
}

impl<'a> SimpleParser<'a> {
    fn new(
        text: &'a str,
        options: &'a QueryOptions,
        tokenizer: &'a dyn Tokenize,
        is_lenient: bool,
    ) -> SimpleParser<'a> {
        SimpleParser {
            text,
            options,
            tokenizer,
            is_lenient,
            notices: Vec::new(),
            at: 0,
            depth: 0,
            regex_bytes: 0,
        }
    }

    fn query(&mut self) -> Result<FileQuery> {
        let clauses = self.clauses(false)?;
        let query = self.combined(clauses, None)?;
        if query.is_none() && !self.is_lenient {
            self.unexpected("a term")?;
        }
        Ok(query.unwrap_or(FileQuery::None))
    }

    /// Clauses up to the end, or up to the `)` of the group that they are in.
    fn clauses(&mut self, is_group: bool) -> Result<Vec<Clause>> {
        let mut clauses = Vec::new();
        let mut joiner = Joiner::Nothing;
        loop {
            self.skip_spaces();
            match self.peek() {
                None => break,
                Some(')') if is_group => break,
                Some(')') => {
                    self.unexpected("a term")?;
                    self.at += 1;
                    continue;
                }
                Some(_) => {}
            }
            let operators = [("AND", Joiner::And), ("OR", Joiner::Or)];
            let operator = operators.iter().find(|(word, _)| self.is_operator(word));
            if let Some((word, found)) = operator {
                if clauses.is_empty() || joiner != Joiner::Nothing {
                    self.unexpected("a term")?;
                } else {
                    joiner = *found;
                }
                self.at += word.len();
                continue;
            }
            let occurrence = self.occurrence()?;
            if let Some(query) = self.boosted()? {
                clauses.push(Clause {
                    joiner,
                    occurrence,
                    query,
                });
            }
            joiner = Joiner::Nothing;
        }
        if joiner != Joiner::Nothing {
            self.unexpected("a term")?;
        }
        Ok(clauses)
    }

    fn occurrence(&mut self) -> Result<Demand> {
        let mut occurrence = Demand::Plain;
        loop {
            let signs = [("+", Demand::Required), ("-", Demand::Excluded)];
            let sign = signs.into_iter().find(|(sign, _)| {
                let next = self.rest().strip_prefix(sign);
                let next = next.and_then(|rest| rest.chars().next());
                next.is_some_and(|next| !next.is_whitespace() && next != ')')
            });
            let not = self.is_operator("NOT").then_some(("NOT", Demand::Excluded));
            let Some((word, found)) = sign.or(not) else {
                return Ok(occurrence);
            };
            if occurrence != Demand::Plain {
                self.fault(
                    self.at,
                    Fault::Conflict {
                        reason: "a term has more than one of +, - and NOT".into(),
                    },
                    "parentheses stand for what is excluded twice: NOT (a -b)",
                )?;
            } else {
                occurrence = found;
            }
            self.at += word.len();
            self.skip_spaces();
        }
    }

    /// A term, phrase or group with its boost. None if it was ignored.
    fn boosted(&mut self) -> Result<Option<FileQuery>> {
        let mut query = self.primary()?;
        if self.eat('^') {
            let digits = self.digits(true);
            match digits.parse::<f32>() {
                Ok(factor) if factor.is_finite() => {
                    query = query.map(|query| FileQuery::Boost {
                        query: Box::new(query),
                        factor,
                    });
                }
                _ => self.unexpected("the factor of the score")?,
            }
        }
        if !self.rest().is_empty() && !self.rest().starts_with(is_boundary) && query.is_some() {
            self.unexpected("a space")?;
        }
        Ok(query)
    }

    fn primary(&mut self) -> Result<Option<FileQuery>> {
        let start = self.at;
        if self.rest().starts_with("NEAR(") {
            return self.near();
        }
        match self.peek() {
            Some('(') => return self.group(),
            Some('"') => return self.phrase(),
            Some('/') => {
                if let Some(test) = self.regex()? {
                    return Ok(Some(FileQuery::Word(test)));
                }
            }
            Some(_) => {}
            None => {
                self.unexpected("a term")?;
                return Ok(None);
            }
        }
        if let Some(name) = self.field_name()? {
            return self.field(name);
        }
        let Some(raw) = self.term(&[])? else {
            return Ok(None);
        };
        if raw == "*" {
            return Ok(Some(FileQuery::All));
        }
        let mut words = self.words(raw);
        if self.eat('~') {
            self.fuzzy(start, &mut words)?;
        }
        self.phrase_of(start, words, 0)
    }

    /// The edits of a term, which is one word without wildcards.
    fn fuzzy(&mut self, start: usize, words: &mut [TextTest]) -> Result<()> {
        let term = &self.text[start..self.at - 1];
        let Some(edits) = self.number("the number of edits")? else {
            return Ok(());
        };
        let edits = u8::try_from(edits).unwrap_or(u8::MAX);
        if edits > EDITS_MAX {
            let limit = usize::from(EDITS_MAX);
            return self.fault(start, too_large("the number of edits", limit), "");
        }
        if let [test] = words
            && let Pattern::Literal(text) | Pattern::Stem(_, text) = &mut test.pattern
        {
            let text = std::mem::take(text);
            test.pattern = Pattern::Fuzzy { text, edits };
            return Ok(());
        }
        let reason = format!("{} is not one plain word", quote(term)).into();
        let hint = "edits are of one word; a phrase has its slop, \"a b\"~2";
        self.fault(start, Fault::Conflict { reason }, hint)
    }

    /// `( ... )`, perhaps `( ... )@2`.
    fn group(&mut self) -> Result<Option<FileQuery>> {
        let start = self.at;
        self.at += 1;
        if self.depth == NESTING_MAX {
            self.fault(start, too_large("the depth of the query", NESTING_MAX), "")?;
            return Ok(None);
        }
        self.depth += 1;
        let clauses = self.clauses(true)?;
        self.depth -= 1;
        if !self.eat(')') {
            self.unclosed(start, "`)` for this")?;
        }
        let minimum_at = self.at;
        let minimum = if self.eat('@') {
            self.number("the number of terms")?
        } else {
            None
        };
        if clauses.is_empty() {
            let what = quote(&self.text[start..self.at]);
            self.fault(start, Fault::NoWord { what }, "")?;
        }
        self.combined(clauses, minimum.map(|minimum| (minimum, minimum_at)))
    }

    fn phrase(&mut self) -> Result<Option<FileQuery>> {
        let start = self.at;
        let raw = self.quoted()?;
        let words = self.words(raw);
        let slop = if self.eat('~') {
            self.number("the slop of the phrase")?.unwrap_or(0)
        } else {
            0
        };
        self.phrase_of(start, words, slop)
    }

    /// `NEAR(a "b c", 10)`.
    fn near(&mut self) -> Result<Option<FileQuery>> {
        let start = self.at;
        self.at += "NEAR(".len();
        let mut phrases = Vec::new();
        let mut distance = NEAR_DISTANCE;
        loop {
            self.skip_spaces();
            let part_at = self.at;
            let words = match self.peek() {
                None => {
                    self.unclosed(start, "`)` for this")?;
                    break;
                }
                Some(')') => {
                    self.at += 1;
                    break;
                }
                Some(',') => {
                    self.at += 1;
                    self.skip_spaces();
                    distance = self.number("the distance")?.unwrap_or(distance);
                    self.skip_spaces();
                    if !matches!(self.peek(), None | Some(')')) {
                        self.unexpected("`)`")?;
                    }
                    continue;
                }
                Some('"') => {
                    let raw = self.quoted()?;
                    self.words(raw)
                }
                Some(_) => match self.term(&[','])? {
                    Some(raw) => self.words(raw),
                    None => continue,
                },
            };
            if words.is_empty() {
                let what = quote(&self.text[part_at..self.at]);
                self.fault(part_at, Fault::NoWord { what }, "")?;
            } else {
                phrases.push(words);
            }
        }
        if phrases.len() < 2 {
            let reason = "NEAR takes at least two words or phrases".into();
            self.fault(start, Fault::Conflict { reason }, "NEAR(a \"b c\", 10)")?;
            let words = phrases.pop().unwrap_or_default();
            return Ok(phrase_query(words, 0));
        }
        Ok(Some(FileQuery::Near { phrases, distance }))
    }

    /// The name of `name:value`, if such stands there and may be read.
    fn field_name(&mut self) -> Result<Option<&'a str>> {
        let rest = self.rest();
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = rest.bytes().take_while(is_name).count();
        let (name, after) = rest.split_at(length);
        let value = after.strip_prefix(':').unwrap_or_default();
        let has_value = !value.is_empty()
            && !value.starts_with(|next: char| next.is_whitespace() || next == ')');
        if !has_value || name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
            return Ok(None);
        }
        let fields = self.options.fields.as_ref();
        if fields.is_some_and(|fields| fields.iter().all(|field| field != name)) {
            let names = fields.map(|fields| fields.join(", "));
            let names = names.filter(|names| !names.is_empty());
            let fault = Fault::NoSuch {
                kind: "field",
                name: quote(name),
            };
            let names = names.as_deref().unwrap_or("none");
            let hint = format!("fields: {names}; a colon of a text stands after a backslash");
            self.fault(self.at, fault, hint)?;
            return Ok(None);
        }
        Ok(Some(name))
    }

    fn field(&mut self, name: &str) -> Result<Option<FileQuery>> {
        self.at += name.len() + 1;
        let pattern = match self.peek() {
            Some('"') => {
                let raw = self.quoted()?;
                Some(Pattern::Literal(unescaped(raw).into_bytes()))
            }
            Some('/') => match self.regex()? {
                Some(test) => Some(test.pattern),
                None => self.term(&[])?.map(|raw| pattern::wildcard(raw.as_bytes())),
            },
            _ => self.term(&[])?.map(|raw| pattern::wildcard(raw.as_bytes())),
        };
        Ok(pattern.map(|pattern| FileQuery::Field {
            name: name.to_owned(),
            pattern,
        }))
    }

    /// `/.../`. None, without going on, if it is none and that was noted.
    fn regex(&mut self) -> Result<Option<TextTest>> {
        let start = self.at;
        let content = &self.text[start + 1..];
        let mut is_escaped = false;
        let end = content.find(|character| {
            let ends = character == '/' && !is_escaped;
            is_escaped = character == '\\' && !is_escaped;
            ends
        });
        let Some(end) = end else {
            self.unclosed(start, "`/` at the end of the regular expression")?;
            return Ok(None);
        };
        let (content, after) = (&content[..end], &content[end + 1..]);
        if !after.is_empty() && !after.starts_with(is_boundary) && !after.starts_with('^') {
            let expected = "a space after the regular expression";
            let hint = "a path stands in quotes: \"/a/b\"";
            self.unexpected_at(start + end + 2, expected, hint)?;
            return Ok(None);
        }
        let (ignores_case, expression) = pattern::case_flag(content);
        let pattern = match pattern::regex(expression) {
            Ok(pattern) => pattern,
            Err(fault) => {
                let at = start + 1 + (content.len() - expression.len()) + fault.at;
                let reason = fault.reason;
                self.fault(
                    at,
                    Fault::Pattern { reason },
                    fault.hint.unwrap_or_default(),
                )?;
                return Ok(None);
            }
        };
        if matches!(pattern, Pattern::Regex(_)) {
            self.regex_bytes += expression.len();
        }
        if self.regex_bytes > REGEXES_BYTES_MAX {
            let what = "the number of bytes of all regular expressions";
            self.fault(start, too_large(what, REGEXES_BYTES_MAX), "")?;
            return Ok(None);
        }
        self.at = start + end + 2;
        Ok(Some(TextTest {
            folds_case: ignores_case.unwrap_or(self.options.folds_case),
            ..self.test(pattern)
        }))
    }

    /// The text of a term with its escapes. None if there is none, which was noted and passed over.
    fn term(&mut self, ends: &[char]) -> Result<Option<&'a str>> {
        let rest = self.rest();
        let mut is_escaped = false;
        let end = rest.find(|character| {
            let is_special = "()\"^~".contains(character) || ends.contains(&character);
            let ends = character.is_whitespace() || is_special && !is_escaped;
            is_escaped = character == '\\' && !is_escaped;
            ends
        });
        let raw = &rest[..end.unwrap_or(rest.len())];
        if raw.is_empty() {
            self.unexpected("a term")?;
            self.at += rest.chars().next().map_or(0, char::len_utf8);
            return Ok(None);
        }
        self.at += raw.len();
        Ok(Some(raw))
    }

    /// What stands in the quotes at hand, with its escapes.
    fn quoted(&mut self) -> Result<&'a str> {
        let start = self.at;
        let content = &self.text[start + 1..];
        let mut is_escaped = false;
        let end = content.find(|character| {
            let ends = character == '"' && !is_escaped;
            is_escaped = character == '\\' && !is_escaped;
            ends
        });
        match end {
            Some(end) => {
                self.at = start + end + 2;
                Ok(&content[..end])
            }
            None => {
                self.unclosed(start, "`\"` at the end of the phrase")?;
                self.at = self.text.len();
                Ok(content)
            }
        }
    }

    /// The words of a term or phrase.
    fn words(&self, raw: &str) -> Vec<TextTest> {
        let mut tests = Vec::new();
        for piece in self.pieces(raw) {
            let (text, is_prefix) = match piece {
                TextPiece::Plain(text) => (text, false),
                TextPiece::Prefix(text) => (text, true),
                TextPiece::Wildcard(text) => {
                    tests.push(self.test(pattern::wildcard(&text)));
                    continue;
                }
            };
            let mut end = 0;
            for range in self.tokenizer.words(&text) {
                end = range.end;
                let word = text.as_bytes().get(range).unwrap_or_default();
                tests.push(self.test(match self.options.stemmer {
                    Some(stemmer) => Pattern::Stem(stemmer, word.into()),
                    None => Pattern::Literal(word.into()),
                }));
            }
            if !is_prefix {
                continue;
            }
            match tests.last_mut() {
                Some(TextTest { pattern, .. }) if end == text.len() && end > 0 => {
                    if let Pattern::Literal(word) | Pattern::Stem(_, word) = pattern {
                        *pattern = Pattern::Prefix(std::mem::take(word));
                    }
                }
                // The star is a word of its own.
                _ => tests.push(self.test(Pattern::Prefix(Vec::new()))),
            }
        }
        tests
    }

    /// The parts of a text with different wildcards. What stands between parts without any stays, as it may decide about words.
    fn pieces(&self, raw: &str) -> Vec<TextPiece> {
        let mut pieces = Vec::new();
        for part in raw.split_inclusive(char::is_whitespace) {
            let (mut plain, mut pattern) = (String::new(), Vec::new());
            let (mut wildcards, mut ends_with_star) = (0, false);
            let mut characters = part.trim_end().chars();
            while let Some(character) = characters.next() {
                // A question mark ends the questions of end users.
                let is_wildcard = character == '*' || character == '?' && !self.is_lenient;
                ends_with_star = character == '*';
                if is_wildcard {
                    wildcards += 1;
                    pattern.push(character as u8);
                    continue;
                }
                let own = if character == '\\' {
                    characters.next().unwrap_or(character)
                } else {
                    character
                };
                plain.push(own);
                for byte in own.encode_utf8(&mut [0; 4]).bytes() {
                    pattern::escape_wildcard(byte, &mut pattern);
                }
            }
            if wildcards == 1 && ends_with_star {
                pieces.push(TextPiece::Prefix(plain));
            } else if wildcards > 0 {
                pieces.push(TextPiece::Wildcard(pattern));
            } else if let Some(TextPiece::Plain(text)) = pieces.last_mut() {
                text.push_str(&plain);
                text.push_str(&part[part.trim_end().len()..]);
            } else {
                plain.push_str(&part[part.trim_end().len()..]);
                pieces.push(TextPiece::Plain(plain));
            }
        }
        pieces
    }

    fn test(&self, pattern: Pattern) -> TextTest {
        TextTest {
            pattern,
            folds_case: self.options.folds_case,
            folds_diacritics: self.options.folds_diacritics,
        }
    }

    fn phrase_of(
        &mut self,
        start: usize,
        words: Vec<TextTest>,
        slop: u32,
    ) -> Result<Option<FileQuery>> {
        if words.is_empty() {
            let what = quote(&self.text[start..self.at]);
            self.fault(start, Fault::NoWord { what }, "")?;
        }
        Ok(phrase_query(words, slop))
    }

    /// What clauses mean together. A minimum counts those that are neither required nor excluded.
    fn combined(
        &mut self,
        clauses: Vec<Clause>,
        minimum: Option<(u32, usize)>,
    ) -> Result<Option<FileQuery>> {
        let is_or = self.options.operator == Operator::Or || minimum.is_some();
        let mut groups: Vec<Vec<Clause>> = Vec::new();
        for clause in clauses {
            match groups.last_mut() {
                Some(group) if clause.joiner == Joiner::And => group.push(clause),
                Some(group) if clause.joiner == Joiner::Nothing && !is_or => group.push(clause),
                _ => groups.push(vec![clause]),
            }
        }
        let (mut all, mut optional, mut excluded) = (Vec::new(), Vec::new(), Vec::new());
        let joiners: Vec<Joiner> = groups.iter().map(|group| group[0].joiner).collect();
        for (number, mut group) in groups.into_iter().enumerate() {
            let is_operand =
                joiners[number] == Joiner::Or || joiners.get(number + 1) == Some(&Joiner::Or);
            let occurrence = group[0].occurrence;
            if group.len() > 1 {
                let queries = group.into_iter().map(Clause::operand);
                optional.push(FileQuery::And(queries.collect()));
            } else if let Some(clause) = group.pop() {
                let into = match occurrence {
                    Demand::Required if is_or => &mut all,
                    Demand::Excluded if !is_operand => &mut excluded,
                    _ => &mut optional,
                };
                into.push(clause.operand());
            }
        }
        let mut needed = u32::from(all.is_empty());
        if let Some((minimum, at)) = minimum {
            let most = u32::try_from(optional.len()).unwrap_or(u32::MAX);
            needed = minimum.clamp(1.min(most), most);
            if needed != minimum {
                let reason = format!("{minimum} of {most} terms cannot be asked for").into();
                let hint = "required and excluded terms do not count";
                self.fault(at, Fault::Conflict { reason }, hint)?;
            }
        }
        if optional.len() == 1 && needed == 1 {
            all.append(&mut optional);
        } else if !optional.is_empty() {
            all.push(FileQuery::Or {
                queries: optional,
                minimum: needed,
            });
        }
        all.append(&mut excluded);
        Ok(if all.len() > 1 {
            Some(FileQuery::And(all))
        } else {
            all.pop()
        })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, character: char) -> bool {
        let found = self.rest().starts_with(character);
        self.at += if found { character.len_utf8() } else { 0 };
        found
    }

    fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Whether the word stands there, and alone.
    fn is_operator(&self, word: &str) -> bool {
        let rest = self.rest().strip_prefix(word);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(is_boundary))
    }

    fn digits(&mut self, has_fraction: bool) -> &'a str {
        let rest = self.rest();
        let is_digit =
            |character: char| character.is_ascii_digit() || has_fraction && character == '.';
        let digits = &rest[..rest
            .find(|character| !is_digit(character))
            .unwrap_or(rest.len())];
        self.at += digits.len();
        digits
    }

    /// A number without a sign; none if there is no such, which was noted.
    fn number(&mut self, what: &'static str) -> Result<Option<u32>> {
        let start = self.at;
        let digits = self.digits(false);
        if digits.is_empty() {
            self.unexpected(what)?;
            return Ok(None);
        }
        let number = digits.parse().ok();
        if number.is_none() {
            let reason = format!("{} is too large for {what}", quote(digits)).into();
            self.fault(start, Fault::Conflict { reason }, "")?;
        }
        Ok(number)
    }

    fn unexpected(&mut self, expected: &'static str) -> Result<()> {
        self.unexpected_at(self.at, expected, "")
    }

    fn unexpected_at(
        &mut self,
        at: usize,
        expected: &'static str,
        hint: &'static str,
    ) -> Result<()> {
        if self.notices.len() == NOTICES_MAX {
            return Ok(());
        }
        let fault = Fault::Syntax {
            expected: expected.into(),
            found: found(&self.text[at..]),
        };
        self.fault(at, fault, hint)
    }

    fn unclosed(&mut self, opened: usize, expected: &'static str) -> Result<()> {
        let fault = Fault::Syntax {
            expected: expected.into(),
            found: "the end of the query".to_owned(),
        };
        self.fault(opened, fault, "")
    }

    /// Ends with an error, or notes it.
    fn fault(&mut self, at: usize, fault: Fault, hint: impl Into<Cow<'static, str>>) -> Result<()> {
        if self.notices.len() == NOTICES_MAX {
            return Ok(());
        }
        let error = Error::new(Language::Simple, self.text, at, fault);
        let hint = hint.into();
        let error = if hint.is_empty() {
            error
        } else {
            error.with_hint(hint)
        };
        if self.is_lenient {
            self.notices.push(error);
            Ok(())
        } else {
            Err(error)
        }
    }
}

impl Clause {
    fn operand(self) -> FileQuery {
        if self.occurrence == Demand::Excluded {
            FileQuery::Not(Box::new(self.query))
        } else {
            self.query
        }
    }
}

/// Whether a character ends a term.
fn is_boundary(character: char) -> bool {
    character.is_whitespace() || "()\"".contains(character)
}

/// What a text begins with, as messages show it. Its time does not depend on the text.
fn found(text: &str) -> String {
    /// Bytes that are looked at; a message shows fewer characters.
    const LOOKED_AT_MAX: usize = 256;
    let start = &text[..text.floor_char_boundary(LOOKED_AT_MAX)];
    let Some(first) = start.chars().next() else {
        return "the end of the query".to_owned();
    };
    let end = start.find(is_boundary).unwrap_or(start.len());
    quote(&start[..end.max(first.len_utf8())])
}

/// A text without the backslashes of its escapes.
fn unescaped(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut characters = raw.chars();
    while let Some(character) = characters.next() {
        text.push(if character == '\\' {
            characters.next().unwrap_or(character)
        } else {
            character
        });
    }
    text
}

/// The query for words that follow one another.
fn phrase_query(mut words: Vec<TextTest>, slop: u32) -> Option<FileQuery> {
    if words.len() > 1 {
        Some(FileQuery::Phrase { words, slop })
    } else {
        words.pop().map(FileQuery::Word)
    }
}

fn too_large(what: &'static str, limit: usize) -> Fault {
    Fault::TooLarge { what, limit }
}
