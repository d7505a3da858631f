//! The algebra as text in CQL.
//!
//! Invariant: what is written of a query that was read is read as the same query; what is written of any other has the same
//! meaning. Parentheses stand only where they are needed, so that the text is no deeper than the one that was read.

use std::fmt::{self, Display, Formatter, Write};

use crate::algebra::{
    CaptureValue, Comparison, Constraint, Pattern, Side, Span, SpanQuery, Strategy, TextTest, Unit,
    WordTest,
};
use crate::pattern;

/// How tightly a span holds together as text; one that is looser than its place asks for stands in parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tightness {
    Filtered,
    Alternation,
    Intersection,
    Sequence,
    Element,
    Atom,
}

impl Display for SpanQuery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.strategy {
            Strategy::Shortest => "",
            Strategy::Longest => "(?longest) ",
            Strategy::All => "(?all) ",
        })?;
        self.span.fmt(f)?;
        if let Some(constraint) = &self.constraint {
            f.write_str(" :: ")?;
            write_constraint(f, constraint, Connective::Or)?;
        }
        match &self.show {
            Some((first, last)) if first == last => write!(f, " show {first}"),
            Some((first, last)) => write!(f, " show {first}..{last}"),
            None => Ok(()),
        }
    }
}

impl Display for Span {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_span(f, self, Tightness::Filtered)
    }
}

fn tightness(span: &Span) -> Tightness {
    match span {
        Span::Within { .. } | Span::WithinWords { .. } | Span::Containing { .. } => {
            Tightness::Filtered
        }
        Span::Alternation(spans) if !spans.is_empty() => Tightness::Alternation,
        Span::Intersection(_) => Tightness::Intersection,
        Span::Sequence(spans) if !spans.is_empty() => Tightness::Sequence,
        Span::Repeat { .. } | Span::Capture { .. } | Span::Complement(_) => Tightness::Element,
        _ => Tightness::Atom,
    }
}

fn write_span(f: &mut Formatter<'_>, span: &Span, wanted: Tightness) -> fmt::Result {
    if tightness(span) < wanted {
        f.write_char('(')?;
        write_bare_span(f, span)?;
        f.write_char(')')
    } else {
        write_bare_span(f, span)
    }
}

fn write_bare_span(f: &mut Formatter<'_>, span: &Span) -> fmt::Result {
    match span {
        Span::Empty => f.write_str("()"),
        Span::Word(test) => write_word(f, test),
        Span::Sequence(spans) if spans.is_empty() => f.write_str("()"),
        // No word passes this.
        Span::Alternation(spans) if spans.is_empty() => f.write_str("[![]]"),
        Span::Sequence(spans) => write_spans(f, spans, " ", Tightness::Element),
        Span::Alternation(spans) => write_spans(f, spans, " | ", Tightness::Intersection),
        Span::Intersection(spans) => write_spans(f, spans, " & ", Tightness::Sequence),
        Span::Repeat {
            span,
            minimum,
            maximum,
        } => {
            write_span(f, span, Tightness::Atom)?;
            write_quantifier(f, *minimum, *maximum)
        }
        Span::Capture { name, span } => {
            write!(f, "{name}:")?;
            write_span(f, span, Tightness::Element)
        }
        Span::Complement(span) => {
            f.write_char('!')?;
            write_span(f, span, Tightness::Atom)
        }
        Span::Look {
            side,
            is_negated,
            span,
        } => {
            let side = if *side == Side::Before { "<" } else { "" };
            let sign = if *is_negated { '!' } else { '=' };
            write!(f, "(?{side}{sign} ")?;
            write_span(f, span, Tightness::Filtered)?;
            f.write_char(')')
        }
        Span::UnitStart(unit) => write!(f, "<{}>", UnitName(*unit)),
        Span::UnitEnd(unit) => write!(f, "</{}>", UnitName(*unit)),
        Span::Unit(unit) => write!(f, "<{}/>", UnitName(*unit)),
        Span::Within {
            span,
            container,
            is_negated,
        } => write_filter(f, span, *is_negated, "within", container),
        Span::Containing {
            span,
            content,
            is_negated,
        } => write_filter(f, span, *is_negated, "containing", content),
        Span::WithinWords { span, words } => {
            write_span(f, span, Tightness::Filtered)?;
            write!(f, " within {words}")
        }
        Span::Meet {
            first,
            second,
            left,
            right,
        } => {
            f.write_str("(meet ")?;
            write_span(f, first, Tightness::Element)?;
            f.write_char(' ')?;
            write_span(f, second, Tightness::Element)?;
            write!(f, " {left} {right})")
        }
        Span::Near {
            parts,
            distance,
            is_ordered,
        } => {
            f.write_str(if *is_ordered { "(ordered " } else { "(near " })?;
            write_spans(f, parts, " ", Tightness::Element)?;
            write!(f, " {distance})")
        }
        Span::Slop { words, slop } => {
            f.write_str("(slop ")?;
            for word in words {
                write_word(f, word)?;
                f.write_char(' ')?;
            }
            write!(f, "{slop})")
        }
    }
}

fn write_spans(
    f: &mut Formatter<'_>,
    spans: &[Span],
    between: &str,
    wanted: Tightness,
) -> fmt::Result {
    for (number, span) in spans.iter().enumerate() {
        if number > 0 {
            f.write_str(between)?;
        }
        write_span(f, span, wanted)?;
    }
    Ok(())
}

fn write_filter(
    f: &mut Formatter<'_>,
    span: &Span,
    is_negated: bool,
    keyword: &str,
    other: &Span,
) -> fmt::Result {
    write_span(f, span, Tightness::Filtered)?;
    let sign = if is_negated { "!" } else { "" };
    write!(f, " {sign}{keyword} ")?;
    match other {
        Span::Unit(unit) => UnitName(*unit).fmt(f),
        _ => write_span(f, other, Tightness::Alternation),
    }
}

fn write_quantifier(f: &mut Formatter<'_>, minimum: u32, maximum: Option<u32>) -> fmt::Result {
    match (minimum, maximum) {
        (0, None) => f.write_char('*'),
        (1, None) => f.write_char('+'),
        (0, Some(1)) => f.write_char('?'),
        (_, None) => write!(f, "{{{minimum},}}"),
        (_, Some(maximum)) if maximum == minimum => write!(f, "{{{minimum}}}"),
        (_, Some(maximum)) => write!(f, "{{{minimum},{maximum}}}"),
    }
}

/// A unit as it is named in tags.
struct UnitName(Unit);

impl Display for UnitName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Unit::File => f.write_str("file"),
            Unit::Record => f.write_str("record"),
            Unit::Line => f.write_str("line"),
            Unit::Paragraph => f.write_str("paragraph"),
            Unit::Sentence => f.write_str("sentence"),
            Unit::Window(words) => write!(f, "window {words}"),
        }
    }
}

fn write_word(f: &mut Formatter<'_>, test: &WordTest) -> fmt::Result {
    match test {
        WordTest::Any => f.write_str("[]"),
        WordTest::Text(test) if !matches!(test.pattern, Pattern::List(_)) => write_text(f, test),
        _ => {
            f.write_char('[')?;
            write_test(f, test, Connective::Or)?;
            f.write_char(']')
        }
    }
}

/// What binds conditions together, the loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Connective {
    Or,
    And,
    Not,
}

/// Writes conditions with `&` or `|` between, in parentheses where the place asks for something tighter.
fn write_joined<T>(
    f: &mut Formatter<'_>,
    parts: &[T],
    own: Connective,
    wanted: Connective,
    write: impl Fn(&mut Formatter<'_>, &T, Connective) -> fmt::Result,
) -> fmt::Result {
    let (between, inner) = if own == Connective::Or {
        (" | ", Connective::And)
    } else {
        (" & ", Connective::Not)
    };
    let has_parentheses = own < wanted;
    f.write_str(if has_parentheses { "(" } else { "" })?;
    for (number, part) in parts.iter().enumerate() {
        f.write_str(if number > 0 { between } else { "" })?;
        write(f, part, inner)?;
    }
    f.write_str(if has_parentheses { ")" } else { "" })
}

fn write_test(f: &mut Formatter<'_>, test: &WordTest, wanted: Connective) -> fmt::Result {
    match test {
        WordTest::Any => f.write_str("[]"),
        WordTest::Text(test) => write_text_test(f, "word", "=", test),
        WordTest::Gap(side, test) => write_text_test(f, side_name(*side), "=", test),
        WordTest::Frequency(comparison, number) => write_number(f, "f(word)", *comparison, number),
        WordTest::Position(comparison, number) => write_number(f, "position", *comparison, number),
        WordTest::Offset(comparison, number) => write_number(f, "offset", *comparison, number),
        WordTest::Not(test) => match test.as_ref() {
            WordTest::Text(test) if !matches!(test.pattern, Pattern::List(_)) => {
                write_text_test(f, "word", "!=", test)
            }
            WordTest::Gap(side, test) if !matches!(test.pattern, Pattern::List(_)) => {
                write_text_test(f, side_name(*side), "!=", test)
            }
            test => {
                f.write_str("!(")?;
                write_test(f, test, Connective::Or)?;
                f.write_char(')')
            }
        },
        WordTest::All(tests) => write_joined(f, tests, Connective::And, wanted, write_test),
        WordTest::AnyOf(tests) => write_joined(f, tests, Connective::Or, wanted, write_test),
    }
}

fn side_name(side: Side) -> &'static str {
    match side {
        Side::Before => "before",
        Side::After => "after",
    }
}

fn write_number(
    f: &mut Formatter<'_>,
    name: &str,
    comparison: Comparison,
    number: &u64,
) -> fmt::Result {
    write!(f, "{name} {} {number}", sign(comparison))
}

fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

/// `word = "a" %c`, or `word in ("a", "b") %c`.
fn write_text_test(
    f: &mut Formatter<'_>,
    name: &str,
    operator: &str,
    test: &TextTest,
) -> fmt::Result {
    let Pattern::List(texts) = &test.pattern else {
        write!(f, "{name} {operator} ")?;
        return write_text(f, test);
    };
    write!(f, "{name} in (")?;
    for (number, text) in texts.iter().enumerate() {
        f.write_str(if number > 0 { ", " } else { "" })?;
        write_literal(f, text)?;
    }
    f.write_char(')')?;
    write_flags(f, test.folds_case, test.folds_diacritics)
}

/// A string with its flags.
fn write_text(f: &mut Formatter<'_>, test: &TextTest) -> fmt::Result {
    match &test.pattern {
        // CQL has no stems: only queries in the simple language ask for them.
        Pattern::Literal(text) | Pattern::Stem(_, text) => write_literal(f, text)?,
        Pattern::Prefix(text) => {
            let mut written = Vec::new();
            for byte in text {
                pattern::escape_wildcard(*byte, &mut written);
            }
            written.push(b'*');
            write_wildcard(f, &written)?;
        }
        Pattern::Wildcard(text) => match pattern::wildcard(text) {
            Pattern::Wildcard(written) => write_wildcard(f, &written)?,
            _ => write_wildcard(f, text)?,
        },
        Pattern::Regex(text) => write_regex(f, text)?,
        Pattern::Fuzzy { text, edits } => {
            write_literal(f, text)?;
            write!(f, "~{edits}")?;
        }
        Pattern::List(_) => write_text_test(f, "word", "=", test)?,
    }
    write_flags(f, test.folds_case, test.folds_diacritics)
}

fn write_flags(f: &mut Formatter<'_>, folds_case: bool, folds_diacritics: bool) -> fmt::Result {
    f.write_str(match (folds_case, folds_diacritics) {
        (false, false) => "",
        (true, false) => " %c",
        (false, true) => " %d",
        (true, true) => " %cd",
    })
}

/// A text as it is; without `l` if it means the same as a regular expression.
fn write_literal(f: &mut Formatter<'_>, text: &[u8]) -> fmt::Result {
    let is_special = |character: char| "\"'\\".contains(character) || character.is_control();
    let is_plain = |text: &str| {
        !text.contains(is_special)
            && matches!(pattern::regex(text), Ok(Pattern::Literal(own)) if own == text.as_bytes())
    };
    match str::from_utf8(text) {
        Ok(text) if is_plain(text) => write!(f, "\"{text}\""),
        _ => {
            f.write_str("l\"")?;
            write_escaped(f, text, |byte| byte == b'"' || byte == b'\\')?;
            f.write_char('"')
        }
    }
}

fn write_wildcard(f: &mut Formatter<'_>, text: &[u8]) -> fmt::Result {
    f.write_str("w\"")?;
    write_escaped(f, text, |byte| byte == b'"')?;
    f.write_char('"')
}

/// Bytes with a backslash before some, and as `\xHH` where they are no text.
fn write_escaped(f: &mut Formatter<'_>, text: &[u8], is_escaped: fn(u8) -> bool) -> fmt::Result {
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    write!(f, "\\x{byte:02x}")?;
                }
            } else {
                if u8::try_from(character).is_ok_and(is_escaped) {
                    f.write_char('\\')?;
                }
                f.write_char(character)?;
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// A regular expression, with a backslash before each quote that has none.
fn write_regex(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    let mut is_escaped = false;
    for character in text.chars() {
        if character == '"' && !is_escaped {
            f.write_char('\\')?;
        }
        f.write_char(character)?;
        is_escaped = character == '\\' && !is_escaped;
    }
    f.write_char('"')
}

fn write_constraint(
    f: &mut Formatter<'_>,
    constraint: &Constraint,
    wanted: Connective,
) -> fmt::Result {
    match constraint {
        Constraint::Compare(first, comparison, second) => {
            write_value(f, first)?;
            write!(f, " {} ", sign(*comparison))?;
            write_value(f, second)
        }
        Constraint::Not(constraint) => {
            f.write_str("!(")?;
            write_constraint(f, constraint, Connective::Or)?;
            f.write_char(')')
        }
        Constraint::All(constraints) => {
            write_joined(f, constraints, Connective::And, wanted, write_constraint)
        }
        Constraint::AnyOf(constraints) => {
            write_joined(f, constraints, Connective::Or, wanted, write_constraint)
        }
    }
}

fn write_value(f: &mut Formatter<'_>, value: &CaptureValue) -> fmt::Result {
    match value {
        CaptureValue::Text {
            capture,
            folds_case,
            folds_diacritics,
        } => {
            let attribute = if *folds_case { "lc" } else { "word" };
            write!(f, "{capture}.{attribute}")?;
            write_flags(f, false, *folds_diacritics)
        }
        CaptureValue::Frequency(capture) => write!(f, "f({capture})"),
        CaptureValue::Start(capture) => write!(f, "start({capture})"),
        CaptureValue::End(capture) => write!(f, "end({capture})"),
        CaptureValue::Distance(first, second) => write!(f, "dist({first}, {second})"),
        CaptureValue::Number(number) => number.fmt(f),
        CaptureValue::Literal(text) => write_literal(f, text),
    }
}
