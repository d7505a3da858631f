//! Regular expressions: what one costs, before it is compiled, and what is wrong with one.
//!
//! A repetition is compiled as often as it says, and a class to the UTF-8 sequences of all its characters: a few bytes can take
//! gigabytes. So the cost is computed of the syntax tree, each distinct class being examined once. Invariant: parsing takes a
//! fraction of a second, whatever the pattern, and compiling what it gives takes no more memory than was allowed. The
//! constants were measured of regex-automata 0.4.18 and are checked against it by a test of the root crate.

use std::collections::HashMap;
use std::fmt;

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    self, Ast, ClassSetItem, Flag, GroupKind, RepetitionKind, RepetitionRange, Span, Visitor,
};
use regex_syntax::hir::translate::{Translator, TranslatorBuilder};
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind,
};
use regex_syntax::utf8::{Utf8Range, Utf8Sequences};

use crate::limits::{REGEXP_BYTES_MAX, REGEXP_FOLDED_MAX, REGEXP_MEMORY_MAX};
use crate::quoted::grouped;

/// Parentheses and brackets within each other.
const NESTING_MAX: u32 = 250;

/// A regular expression that may be compiled.
#[derive(Debug, Clone)]
pub struct ParsedRegexp {
    /// What it means.
    pub hir: Hir,
    /// What compiling it takes.
    pub cost: RegexpCost,
    /// Nanoseconds that parsing it took, by what there was to do.
    pub(crate) work: u64,
}

/// What compiling a regular expression takes at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegexpCost {
    /// Bytes of memory while it is compiled.
    pub bytes: u64,
    /// States of its automaton.
    pub states: u64,
}

/// A fault of a regular expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegexpFault {
    /// What.
    what: String,
    /// Byte of the pattern, from 0, and number of the character, from 1; none if it is the whole.
    place: Option<(usize, usize)>,
    /// The remedy.
    hint: &'static str,
}

impl RegexpFault {
    fn new(pattern: &str, what: String, at: usize, hint: &'static str) -> Box<RegexpFault> {
        let before = pattern.get(..at).unwrap_or(pattern);
        Box::new(RegexpFault {
            what,
            place: Some((at, before.chars().count() + 1)),
            hint,
        })
    }

    /// Byte of the pattern, from 0; none if the pattern is wrong as a whole.
    pub fn byte(&self) -> Option<usize> {
        self.place.map(|(byte, _)| byte)
    }

    /// What to do; empty if there is nothing to say.
    pub fn hint(&self) -> &'static str {
        self.hint
    }
}

impl fmt::Display for RegexpFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match self.place {
            Some((_, character)) => write!(f, " at character {character}"),
            None => Ok(()),
        }
    }
}

/// The flags of the expression of `grep()`: those of the crate `regex`, and `l`, with which a match lies within a line.
pub const GREP_FLAGS: &str = "imsxUul";

/// The flag with which a match lies within a line.
const WITHIN_LINES: char = 'l';

/// As `parse`, with some of [`GREP_FLAGS`] in force.
///
/// # Errors
/// As `parse`; if with `l` it needs a line feed.
pub fn parse_with_flags(
    pattern: &str,
    flags: &str,
    memory_limit: u64,
) -> Result<ParsedRegexp, Box<RegexpFault>> {
    let own: String = flags.chars().filter(|&flag| flag != WITHIN_LINES).collect();
    let mut flagged = String::new();
    if !own.is_empty() {
        flagged = format!("(?{})", in_order(&own));
    }
    let before = flagged.len();
    flagged.push_str(pattern);
    let mut parsed = parse(&flagged, memory_limit).map_err(|fault| {
        // All of the group of flags is ASCII.
        let place = fault.place.map(|(byte, character)| {
            let own = |place: usize, least| place.saturating_sub(before).max(least);
            (own(byte, 0), own(character, 1))
        });
        Box::new(RegexpFault { place, ..*fault })
    })?;
    if flags.contains(WITHIN_LINES) {
        parsed.hir = within_lines(parsed.hir).ok_or_else(|| {
            Box::new(RegexpFault {
                what: "it needs a line feed, which is in no line".to_owned(),
                place: None,
                hint: "without flag l matches may have line feeds",
            })
        })?;
    }
    Ok(parsed)
}

/// Each flag once.
fn in_order(flags: &str) -> String {
    GREP_FLAGS
        .chars()
        .filter(|&flag| flags.contains(flag))
        .collect()
}

/// An expression with the matches that have no line feed; none if it has a literal one. Nested no deeper than patterns may be.
fn within_lines(hir: Hir) -> Option<Hir> {
    const LINE_FEED: u8 = b'\n';
    Some(match hir.into_kind() {
        HirKind::Literal(literal) => {
            if literal.0.contains(&LINE_FEED) {
                return None;
            }
            Hir::literal(literal.0)
        }
        HirKind::Class(Class::Unicode(mut class)) => {
            let feed = ClassUnicodeRange::new(char::from(LINE_FEED), char::from(LINE_FEED));
            class.difference(&ClassUnicode::new([feed]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(mut class)) => {
            let feed = ClassBytesRange::new(LINE_FEED, LINE_FEED);
            class.difference(&ClassBytes::new([feed]));
            Hir::class(Class::Bytes(class))
        }
        HirKind::Repetition(mut repetition) => {
            *repetition.sub = within_lines(*repetition.sub)?;
            Hir::repetition(repetition)
        }
        HirKind::Capture(mut capture) => {
            *capture.sub = within_lines(*capture.sub)?;
            Hir::capture(capture)
        }
        HirKind::Concat(parts) => {
            let parts = parts.into_iter().map(within_lines);
            Hir::concat(parts.collect::<Option<_>>()?)
        }
        HirKind::Alternation(parts) => {
            let parts = parts.into_iter().map(within_lines);
            Hir::alternation(parts.collect::<Option<_>>()?)
        }
        HirKind::Look(look) => Hir::look(look),
        HirKind::Empty => Hir::empty(),
    })
}

/// Parses a pattern, which may take `memory_limit` bytes of memory when it is compiled.
///
/// # Errors
/// If it is no regular expression, or takes more than that or `limits` allow.
pub fn parse(pattern: &str, memory_limit: u64) -> Result<ParsedRegexp, Box<RegexpFault>> {
    if pattern.len() > REGEXP_BYTES_MAX {
        return Err(Box::new(RegexpFault {
            what: format!(
                "it has {} bytes, at most {} can be compiled",
                grouped(pattern.len() as u64),
                grouped(REGEXP_BYTES_MAX as u64)
            ),
            place: None,
            hint: "LIKE, GLOB and instr() match longer ones, IN takes any number of texts",
        }));
    }
    let parsed = ParserBuilder::new()
        .nest_limit(NESTING_MAX)
        .build()
        .parse(pattern);
    let ast = parsed.map_err(|error| {
        let what = error.kind().to_string();
        RegexpFault::new(pattern, what, error.span().start.offset, "")
    })?;
    let pricing = Pricing::new(pattern, memory_limit);
    pricing.check(RegexpCost::default(), 0)?;
    let (cost, work) = ast::visit(&ast, pricing)?;
    let hir = Flags::default().translator().translate(pattern, &ast);
    let hir = hir.map_err(|error| translation_fault(pattern, &error))?;
    Ok(ParsedRegexp { hir, cost, work })
}

fn translation_fault(pattern: &str, error: &regex_syntax::hir::Error) -> Box<RegexpFault> {
    let what = error.kind().to_string();
    RegexpFault::new(pattern, what, error.span().start.offset, "")
}

/// The flags of a pattern on which the characters of a class depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Flags {
    ignores_case: bool,
    is_unicode: bool,
    dot_matches_newline: bool,
    is_crlf: bool,
    ignores_spaces: bool,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags {
            ignores_case: false,
            is_unicode: true,
            dot_matches_newline: false,
            is_crlf: false,
            ignores_spaces: false,
        }
    }
}

impl Flags {
    fn with(mut self, written: &ast::Flags) -> Flags {
        for (flag, own) in [
            (Flag::CaseInsensitive, &mut self.ignores_case),
            (Flag::Unicode, &mut self.is_unicode),
            (Flag::DotMatchesNewLine, &mut self.dot_matches_newline),
            (Flag::CRLF, &mut self.is_crlf),
            (Flag::IgnoreWhitespace, &mut self.ignores_spaces),
        ] {
            *own = written.flag_state(flag).unwrap_or(*own);
        }
        self
    }

    fn translator(self) -> Translator {
        TranslatorBuilder::new()
            // Texts are bytes.
            .utf8(false)
            .case_insensitive(self.ignores_case)
            .unicode(self.is_unicode)
            .dot_matches_new_line(self.dot_matches_newline)
            .crlf(self.is_crlf)
            .build()
    }
}

impl RegexpCost {
    /// A state that reads a byte, or none.
    const STATE: RegexpCost = RegexpCost {
        bytes: 72,
        states: 1,
    };

    /// A state that goes on in one of two ways.
    const FORK: RegexpCost = RegexpCost {
        bytes: 160,
        states: 2,
    };

    /// A class, each of its states, and each range of bytes that these read.
    const CLASS_BYTES: u64 = 32;
    const CLASS_STATE_BYTES: u64 = 136;
    const CLASS_RANGE_BYTES: u64 = 12;

    fn of_states(states: usize, ranges: usize) -> RegexpCost {
        RegexpCost {
            bytes: RegexpCost::CLASS_BYTES
                + RegexpCost::CLASS_STATE_BYTES * states as u64
                + RegexpCost::CLASS_RANGE_BYTES * ranges as u64,
            states: states as u64,
        }
    }

    /// Of the UTF-8 sequences of a class. States that read the same are one, as where regex-automata compiles them; those are found as
    /// sequences ascend: a state is complete when a sequence goes past it.
    fn of_class(class: &ClassUnicode) -> RegexpCost {
        /// The state after a sequence.
        const END: usize = 0;
        // What a state reads, with the numbers of the states that follow, from 1.
        let mut complete: HashMap<Vec<(u8, u8, usize)>, usize> = HashMap::new();
        // The states on the way of the last sequence, and its ranges, which are in none of them yet.
        let mut open: Vec<Vec<(u8, u8, usize)>> = vec![Vec::new()];
        let mut last: Vec<Utf8Range> = Vec::new();
        let mut ranges = 0;
        let mut close = |last: &mut Vec<Utf8Range>, open: &mut Vec<Vec<_>>, shared: usize| {
            let mut target = END;
            while let Some(range) = (last.len() > shared).then(|| last.pop()).flatten() {
                ranges += 1;
                open[last.len()].push((range.start, range.end, target));
                if last.len() > shared {
                    let next = complete.len() + 1;
                    let state = std::mem::take(&mut open[last.len()]);
                    target = *complete.entry(state).or_insert(next);
                }
            }
            complete.len()
        };
        let sequences = class.iter();
        for sequence in sequences.flat_map(|range| Utf8Sequences::new(range.start(), range.end())) {
            let next = sequence.as_slice();
            let shared = last.iter().zip(next).take_while(|(a, b)| a == b).count();
            close(&mut last, &mut open, shared);
            last.extend_from_slice(&next[shared..]);
            open.resize(open.len().max(next.len()), Vec::new());
        }
        let states = close(&mut last, &mut open, 0);
        // The table in which regex-automata finds them is small: some are made twice.
        RegexpCost::of_states(1 + states + states / 16, ranges)
    }

    fn and(self, other: RegexpCost) -> RegexpCost {
        RegexpCost {
            bytes: self.bytes.saturating_add(other.bytes),
            states: self.states.saturating_add(other.states),
        }
    }

    fn times(self, count: u64) -> RegexpCost {
        RegexpCost {
            bytes: self.bytes.saturating_mul(count),
            states: self.states.saturating_mul(count),
        }
    }

    /// The cost of an expression that is no repetition, group or alternative.
    fn of(hir: &Hir) -> RegexpCost {
        match hir.kind() {
            HirKind::Literal(literal) => RegexpCost::STATE.times(literal.0.len() as u64),
            HirKind::Class(Class::Unicode(class)) => RegexpCost::of_class(class),
            HirKind::Class(Class::Bytes(class)) => RegexpCost::of_states(1, class.ranges().len()),
            _ => RegexpCost::STATE,
        }
    }
}

/// The walk over a syntax tree that adds up what it costs.
struct Pricing<'p> {
    pattern: &'p str,
    memory_limit: u64,
    /// Flags at the place, for each group that is open.
    flags: Vec<Flags>,
    /// What has been added up of each node that is open.
    sums: Vec<RegexpCost>,
    /// Costs of classes by their text, and how many characters they have.
    classes: HashMap<(&'p str, Flags), (RegexpCost, u64)>,
    /// Sets that are open within the class at hand.
    depth: u64,
    /// Characters that are looked up for their other cases.
    folded: u64,
}

impl<'p> Pricing<'p> {
    /// What the syntax tree takes for each byte of the pattern.
    const TREE_BYTES: u64 = 256;

    fn new(pattern: &'p str, memory_limit: u64) -> Pricing<'p> {
        let tree = Pricing::tree(pattern);
        Pricing {
            pattern,
            memory_limit,
            flags: vec![Flags::default()],
            sums: vec![tree],
            classes: HashMap::new(),
            depth: 0,
            folded: 0,
        }
    }

    /// What every pattern costs: its syntax tree, the automaton itself, and states for where it begins and ends.
    fn tree(pattern: &str) -> RegexpCost {
        const AUTOMATON_BYTES: u64 = 1 << 10;
        let ends = RegexpCost::STATE.times(8);
        let tree_bytes = Pricing::TREE_BYTES * pattern.len() as u64;
        RegexpCost {
            bytes: ends.bytes + AUTOMATON_BYTES + tree_bytes,
            ..ends
        }
    }

    fn flags(&self) -> Flags {
        self.flags.last().copied().unwrap_or_default()
    }

    fn add(&mut self, cost: RegexpCost, at: usize) -> Result<(), Box<RegexpFault>> {
        self.check(cost, at)?;
        let sum = self
            .sums
            .last_mut()
            .expect("the walk closes what it opened");
        *sum = sum.and(cost);
        let sum = *sum;
        self.check(sum, at)
    }

    /// Whether something may cost that much.
    fn check(&self, cost: RegexpCost, at: usize) -> Result<(), Box<RegexpFault>> {
        const HINT: &str = "repeat less, or use [a-z], [0-9] or (?-u:\\w), which are of ASCII alone and take less than \\w and \\d";
        const MORE: &str = "SET memory_limit allows more, and [a-z], [0-9] or (?-u:\\w), which are of ASCII alone, take less than \
                            \\w and \\d";
        // What the tree takes counts wherever it is asked.
        let bytes = cost.bytes.max(self.sums[0].bytes);
        let (limit, whose, hint) = if self.memory_limit < REGEXP_MEMORY_MAX {
            (self.memory_limit, "memory_limit allows", MORE)
        } else {
            (REGEXP_MEMORY_MAX, "one pattern may take", HINT)
        };
        if bytes <= limit {
            return Ok(());
        }
        let what = format!(
            "compiling it exceeds the {} bytes of memory that {whose}",
            grouped(limit)
        );
        Err(RegexpFault::new(self.pattern, what, at, hint))
    }

    fn pop(&mut self) -> RegexpCost {
        self.sums.pop().unwrap_or_default()
    }

    /// What a class or a literal costs, and how many characters it has.
    fn leaf(&mut self, ast: &Ast, flags: Flags) -> Result<(RegexpCost, u64), Box<RegexpFault>> {
        let span = ast.span();
        let text = self.pattern.get(span.start.offset..span.end.offset);
        let text = text.unwrap_or_default();
        if let Some(known) = self.classes.get(&(text, flags)) {
            return Ok(*known);
        }
        let hir = flags.translator().translate(self.pattern, ast);
        let hir = hir.map_err(|error| translation_fault(self.pattern, &error))?;
        let characters = match hir.kind() {
            HirKind::Class(Class::Unicode(class)) => {
                let ranges = class.iter();
                let of_range =
                    |start: char, end: char| u64::from(u32::from(end) - u32::from(start) + 1);
                ranges
                    .map(|range| of_range(range.start(), range.end()))
                    .sum()
            }
            _ => 1,
        };
        let found = (RegexpCost::of(&hir), characters);
        self.classes.insert((text, flags), found);
        Ok(found)
    }

    /// Counts the characters of a class, or of an item of one, whose other cases are looked up.
    fn fold(&mut self, characters: u64, span: &Span) -> Result<(), Box<RegexpFault>> {
        let flags = self.flags();
        if !flags.ignores_case || !flags.is_unicode {
            return Ok(());
        }
        // A set that holds others may be looked up once more with them.
        let times = self.depth + 1;
        self.folded = self.folded.saturating_add(characters.saturating_mul(times));
        if self.folded <= REGEXP_FOLDED_MAX {
            return Ok(());
        }
        let what = format!(
            "ignoring case exceeds the {} characters that its classes may have",
            grouped(REGEXP_FOLDED_MAX)
        );
        let hint = "(?-i:...) does not ignore case";
        Err(RegexpFault::new(
            self.pattern,
            what,
            span.start.offset,
            hint,
        ))
    }

    /// The characters of `\w`, `\pL` and the like, before case is ignored.
    fn named(&mut self, ast: &Ast) -> Result<u64, Box<RegexpFault>> {
        let flags = Flags {
            ignores_case: false,
            ..self.flags()
        };
        Ok(self.leaf(ast, flags)?.1)
    }
}

impl Visitor for Pricing<'_> {
    type Output = (RegexpCost, u64);
    type Err = Box<RegexpFault>;

    fn finish(mut self) -> Result<(RegexpCost, u64), Box<RegexpFault>> {
        const BYTE: u64 = 1_000;
        const CLASS: u64 = 100_000;
        const FOLDED: u64 = 10;
        let bytes = BYTE * self.pattern.len() as u64;
        let work = bytes + CLASS * self.classes.len() as u64 + FOLDED * self.folded;
        Ok((self.pop(), work))
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Box<RegexpFault>> {
        match ast {
            Ast::Group(group) => {
                let flags = group.flags().map(|written| self.flags().with(written));
                self.flags.push(flags.unwrap_or(self.flags()));
                self.sums.push(RegexpCost::default());
            }
            Ast::Repetition(_) | Ast::Alternation(_) | Ast::Concat(_) => {
                self.sums.push(RegexpCost::default());
            }
            Ast::ClassUnicode(class) => {
                let characters = self.named(ast)?;
                self.fold(characters, &class.span)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), Box<RegexpFault>> {
        let mut at = ast.span().start.offset;
        let cost = match ast {
            Ast::Empty(_) | Ast::Assertion(_) => RegexpCost::STATE,
            Ast::Flags(set) => {
                let flags = self.flags().with(&set.flags);
                if let Some(current) = self.flags.last_mut() {
                    *current = flags;
                }
                RegexpCost::STATE
            }
            Ast::Literal(literal) if !self.flags().ignores_case => {
                RegexpCost::STATE.times(literal.c.len_utf8() as u64)
            }
            Ast::Literal(_) | Ast::Dot(_) | Ast::ClassUnicode(_) | Ast::ClassPerl(_) => {
                self.leaf(ast, self.flags())?.0
            }
            Ast::ClassBracketed(_) => self.leaf(ast, self.flags())?.0,
            Ast::Group(group) => {
                self.flags.pop();
                let within = self.pop();
                match group.kind {
                    GroupKind::NonCapturing(_) => within,
                    // Its ends.
                    _ => within.and(RegexpCost::STATE.times(2)),
                }
            }
            Ast::Repetition(repetition) => {
                at = repetition.op.span.start.offset;
                let copies = match &repetition.op.kind {
                    RepetitionKind::ZeroOrOne
                    | RepetitionKind::ZeroOrMore
                    | RepetitionKind::OneOrMore => 1,
                    RepetitionKind::Range(
                        RepetitionRange::Exactly(count)
                        | RepetitionRange::AtLeast(count)
                        | RepetitionRange::Bounded(_, count),
                    ) => u64::from((*count).max(1)),
                };
                self.pop().and(RegexpCost::FORK).times(copies)
            }
            Ast::Alternation(alternation) => {
                let branches = alternation.asts.len() as u64;
                self.pop().and(RegexpCost::FORK.times(branches))
            }
            Ast::Concat(_) => self.pop(),
        };
        self.add(cost, at)
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Box<RegexpFault>> {
        let characters = match item {
            ClassSetItem::Range(range) => {
                let (start, end) = (u32::from(range.start.c), u32::from(range.end.c));
                u64::from(end.saturating_sub(start)) + 1
            }
            ClassSetItem::Unicode(class) => self.named(&Ast::class_unicode(class.clone()))?,
            ClassSetItem::Perl(class) => self.named(&Ast::class_perl(class.clone()))?,
            ClassSetItem::Bracketed(_) => {
                self.depth += 1;
                0
            }
            _ => 1,
        };
        self.fold(characters, item.span())
    }

    fn visit_class_set_item_post(&mut self, item: &ClassSetItem) -> Result<(), Box<RegexpFault>> {
        if matches!(item, ClassSetItem::Bracketed(_)) {
            self.depth -= 1;
        }
        Ok(())
    }

    fn visit_class_set_binary_op_pre(
        &mut self,
        _: &ast::ClassSetBinaryOp,
    ) -> Result<(), Box<RegexpFault>> {
        self.depth += 1;
        Ok(())
    }

    fn visit_class_set_binary_op_post(
        &mut self,
        _: &ast::ClassSetBinaryOp,
    ) -> Result<(), Box<RegexpFault>> {
        self.depth -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn cost(pattern: &str) -> RegexpCost {
        let mut cost = parse(pattern, u64::MAX).unwrap().cost;
        let tree = Pricing::tree(pattern);
        cost.bytes -= tree.bytes;
        cost.states -= tree.states;
        cost
    }

    fn fault(pattern: &str, memory_limit: u64) -> String {
        let fault = parse(pattern, memory_limit).unwrap_err();
        assert!(fault.to_string().len() + fault.hint().len() < 300);
        fault.to_string()
    }

    #[test]
    fn repetitions_cost_as_often_as_they_are_compiled() {
        let copy = |cost: RegexpCost| cost.and(RegexpCost::FORK);
        for (repeated, count, once) in [
            ("a{1000}", 1000, "a"),
            ("\\w{7}", 7, "\\w"),
            ("(?:ab){3,}", 3, "ab"),
            ("(a|b){2,5}", 5, "(a|b)"),
            ("a*", 1, "a"),
            ("a+?", 1, "a"),
            ("a{0}", 1, "a"),
        ] {
            assert_eq!(cost(repeated), copy(cost(once)).times(count), "{repeated}");
        }
        let nested = copy(copy(copy(cost("a")).times(30)).times(30)).times(30);
        assert_eq!(cost("(?:(?:a{30}){30}){30}"), nested);
    }

    #[test]
    fn classes_cost_by_their_characters_and_flags() {
        assert_eq!(cost("a").states, 1);
        assert_eq!(cost("\u{e4}").states, 2);
        assert_eq!(cost("(?i:a)"), cost("[aA]"));
        assert_eq!(cost("(?i:k)"), cost("[kK\u{212a}]"));
        assert!((300..350).contains(&cost("\\w").states));
        assert_eq!(cost("(?-u:\\w)").states, 1);
        // A flag ends with its group, and the same text may mean another class.
        assert_eq!(cost("(?:(?-u)\\w\\w)\\w").bytes, {
            let ascii = cost("(?-u:\\w)").bytes;
            2 * ascii + cost("\\w").bytes + RegexpCost::STATE.bytes
        });
        assert_eq!(cost("(?s:.)"), cost("[\\x{0}-\\x{10ffff}]"));
    }

    #[test]
    fn patterns_cost_what_is_documented() {
        for (pattern, bytes_max) in [
            ("a", 72),
            ("^", 72),
            ("[a-z]", 220),
            ("(?-u:\\w)", 220),
            (".", 1_500),
            ("[^a]", 1_500),
            ("\\d", 5_500),
            ("\\w", 63_000),
            ("\\pL", 63_000),
        ] {
            let bytes = cost(pattern).bytes;
            assert!(
                bytes <= bytes_max && bytes > bytes_max * 3 / 4,
                "{pattern}: {bytes}"
            );
        }
        assert_eq!(RegexpCost::FORK.bytes, 160);
    }

    #[test]
    fn what_costs_too_much_is_refused_at_its_place() {
        const MIB: u64 = 1 << 20;
        for (pattern, character) in [
            ("\\w{2000}", 3),
            ("a\u{e4}\\w{2000}", 5),
            ("(a{1000}){4000}", 10),
            ("((((a?){100}){100}){100}){100}", 20),
            ("(?:\\w{9}){4294967295}", 10),
            ("x|(?i)[^\\w ]{3000}|y", 13),
        ] {
            let message = fault(pattern, u64::MAX);
            let expected = format!(
                "compiling it exceeds the 67,108,864 bytes of memory that one pattern may take at character {character}"
            );
            assert_eq!(message, expected, "{pattern}");
        }
        assert_eq!(
            fault("\\w{1000}", 16 * MIB),
            "compiling it exceeds the 16,777,216 bytes of memory that memory_limit allows at character 3"
        );
        parse("\\w{1000}", 64 * MIB).unwrap();
        parse("(?-u:\\w){1000}", 16 * MIB).unwrap();
        let many = "\\w{9}".repeat(15_000);
        assert!(fault(&many, u64::MAX).starts_with("compiling it exceeds"));
        assert_eq!(
            fault(&"a".repeat(REGEXP_BYTES_MAX + 1), u64::MAX),
            "it has 100,001 bytes, at most 100,000 can be compiled"
        );
        assert!(fault(&"a".repeat(REGEXP_BYTES_MAX), MIB).contains("memory_limit"));
    }

    #[test]
    fn classes_that_ignore_case_are_looked_up_within_bounds() {
        for pattern in [
            "(?i)\\p{Any}".repeat(40),
            format!("(?i)[{}]", "\\pL".repeat(1_000)),
            format!("(?i){}a\\p{{Any}}{}", "[a".repeat(100), "]".repeat(100)),
            "(?i)[\\x{0}-\\x{10ffff}]".repeat(40),
            "(?i)[\\W]".repeat(40),
        ] {
            let message = fault(&pattern, u64::MAX);
            assert!(
                message.starts_with("ignoring case exceeds the 33,554,432 characters"),
                "{message}"
            );
        }
        parse(&"(?i)[\\w.-]+@".repeat(100), u64::MAX).unwrap();
        parse(&"\\p{Any}".repeat(1_000), u64::MAX).unwrap();
    }

    #[test]
    fn what_is_no_regular_expression_is_refused_at_its_place() {
        for (pattern, expected) in [
            ("a(b", "unclosed group at character 2"),
            ("\u{e4}[z-a]", "invalid character class range"),
            ("\\p{Klingon}", "Unicode property not found at character 1"),
            ("(?-u)\\pL", "Unicode not allowed here at character 6"),
            ("a**{", "unclosed counted repetition at character 4"),
        ] {
            assert!(
                fault(pattern, u64::MAX).contains(expected),
                "{}",
                fault(pattern, u64::MAX)
            );
        }
        let nested = "(".repeat(REGEXP_BYTES_MAX);
        fault(&nested, u64::MAX);
        fault(&format!("{nested:.1000}a{}", ")".repeat(1_000)), u64::MAX);
    }
}
