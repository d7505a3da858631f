//! Texts of queries to patterns: regular expressions and wildcards.
//!
//! Invariant: a pattern comes out in the simplest form that means the same. A regular expression is parsed but not compiled;
//! what compiling it takes is the matcher's to bound.

use regex_syntax::ast::{self, Ast, Flag, FlagsItemKind};
use regex_syntax::hir::translate::TranslatorBuilder;

use crate::algebra::Pattern;
use crate::limits::REGEX_BYTES_MAX;

/// Parentheses and brackets of a regular expression within each other.
const REGEX_NESTING_MAX: u32 = 50;

/// Why a text is no regular expression.
pub(crate) struct RegexFault {
    /// Byte of the text.
    pub(crate) at: usize,
    /// What is wrong.
    pub(crate) reason: String,
    /// The remedy.
    pub(crate) hint: Option<&'static str>,
}

/// Whether a regular expression ignores case, if it begins with a flag that says so, and the rest of it.
pub(crate) fn case_flag(text: &str) -> (Option<bool>, &str) {
    if let Some(rest) = text.strip_prefix("(?i)") {
        (Some(true), rest)
    } else if let Some(rest) = text.strip_prefix("(?-i)") {
        (Some(false), rest)
    } else {
        (None, text)
    }
}

/// The regular expression, or the text that alone matches it.
pub(crate) fn regex(text: &str) -> Result<Pattern, Box<RegexFault>> {
    if !text.chars().any(regex_syntax::is_meta_character) {
        return Ok(Pattern::Literal(text.into()));
    }
    if text.len() > REGEX_BYTES_MAX {
        return Err(Box::new(RegexFault {
            at: 0,
            reason: format!("it has more than {REGEX_BYTES_MAX} bytes"),
            hint: Some("alternatives of plain texts may be a list, `word in (\"a\", \"b\")`"),
        }));
    }
    let mut parser = ast::parse::ParserBuilder::new();
    let parsed = parser.nest_limit(REGEX_NESTING_MAX).build().parse(text);
    let tree = parsed.map_err(|error| RegexFault {
        at: error.span().start.offset,
        reason: error.kind().to_string(),
        hint: matches!(error.kind(), ast::ErrorKind::RepetitionMissing)
            .then_some("a backslash stands before a character that stands for itself"),
    })?;
    if let Some(literal) = literal(&tree) {
        return Ok(Pattern::Literal(literal.into()));
    }
    ast::visit(&tree, CaseFlags)?;
    let translated = TranslatorBuilder::new()
        .utf8(false)
        .build()
        .translate(text, &tree);
    translated.map_err(|error| RegexFault {
        at: error.span().start.offset,
        reason: error.kind().to_string(),
        hint: None,
    })?;
    Ok(Pattern::Regex(text.to_owned()))
}

/// The text that the tree matches if it is a literal.
fn literal(tree: &Ast) -> Option<String> {
    let character = |tree: &Ast| match tree {
        Ast::Literal(literal) => Some(literal.c),
        _ => None,
    };
    match tree {
        Ast::Concat(concat) => concat.asts.iter().map(character).collect(),
        _ => character(tree).map(String::from),
    }
}

/// Refuses flags that ignore case for a part: folding all characters of a class takes long, and words are folded beforehand.
struct CaseFlags;

impl CaseFlags {
    fn check(flags: &ast::Flags) -> Result<(), Box<RegexFault>> {
        let ignores = FlagsItemKind::Flag(Flag::CaseInsensitive);
        match flags.items.iter().find(|item| item.kind == ignores) {
            Some(item) => Err(Box::new(RegexFault {
                at: item.span.start.offset,
                reason: "case is ignored for all of it or for none of it".to_owned(),
                hint: Some("`(?i)` stands at the begin, and `[aA]` are both cases of one letter"),
            })),
            None => Ok(()),
        }
    }
}

impl ast::Visitor for CaseFlags {
    type Output = ();
    type Err = Box<RegexFault>;

    fn finish(self) -> Result<(), Box<RegexFault>> {
        Ok(())
    }

    fn visit_pre(&mut self, tree: &Ast) -> Result<(), Box<RegexFault>> {
        match tree {
            Ast::Flags(set) => CaseFlags::check(&set.flags),
            Ast::Group(group) => group.flags().map_or(Ok(()), CaseFlags::check),
            _ => Ok(()),
        }
    }
}

/// The pattern of a text in which `*` and `?` stand for any characters and one character, unless `\` stands before.
pub(crate) fn wildcard(text: &[u8]) -> Pattern {
    let mut written = Vec::new();
    let mut literal = Vec::new();
    let (mut stars, mut marks, mut ends_with_star) = (0, 0, false);
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        let was_star = ends_with_star;
        ends_with_star = byte == b'*';
        match byte {
            b'*' if was_star => {}
            b'*' => {
                written.push(byte);
                stars += 1;
            }
            b'?' => {
                written.push(byte);
                marks += 1;
            }
            _ => {
                let own = if byte == b'\\' {
                    bytes.next().unwrap_or(byte)
                } else {
                    byte
                };
                escape_wildcard(own, &mut written);
                literal.push(own);
            }
        }
    }
    match (stars, marks) {
        (0, 0) => Pattern::Literal(literal),
        (1, 0) if ends_with_star => Pattern::Prefix(literal),
        _ => Pattern::Wildcard(written),
    }
}

/// Adds a byte that stands for itself to the text of a wildcard.
pub(crate) fn escape_wildcard(byte: u8, written: &mut Vec<u8>) {
    if b"*?\\".contains(&byte) {
        written.push(b'\\');
    }
    written.push(byte);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_expression_for_one_text_is_that_text() {
        for (text, expected) in [
            ("the", Pattern::Literal(b"the".into())),
            ("", Pattern::Literal(b"".into())),
            (r"a\.b\x41", Pattern::Literal(b"a.bA".into())),
            ("a.b", Pattern::Regex("a.b".into())),
            ("^a", Pattern::Regex("^a".into())),
            ("(a)", Pattern::Regex("(a)".into())),
        ] {
            assert_eq!(regex(text).ok(), Some(expected), "{text}");
        }
    }

    #[test]
    fn faults_of_regular_expressions_have_a_place() {
        for (text, at, reason) in [
            ("a(b", 1, "unclosed group"),
            ("ab[", 2, "unclosed character class"),
            (r"x\pQ", 1, "Unicode property not found"),
            (
                "a(?i)b",
                3,
                "case is ignored for all of it or for none of it",
            ),
            (
                "a(?i:b)",
                3,
                "case is ignored for all of it or for none of it",
            ),
        ] {
            let fault = regex(text).expect_err(text);
            assert_eq!((fault.at, fault.reason.as_str()), (at, reason), "{text}");
        }
        assert!(regex(&".".repeat(REGEX_BYTES_MAX + 1)).is_err());
        assert!(regex(&"(".repeat(REGEX_BYTES_MAX)).is_err());
    }

    #[test]
    fn wildcards_are_reduced() {
        for (text, expected) in [
            ("abc", Pattern::Literal(b"abc".into())),
            ("abc*", Pattern::Prefix(b"abc".into())),
            ("abc**", Pattern::Prefix(b"abc".into())),
            ("*", Pattern::Prefix(b"".into())),
            (r"a\*", Pattern::Literal(b"a*".into())),
            (r"a\*b*", Pattern::Prefix(b"a*b".into())),
            (r"a\", Pattern::Literal(b"a\\".into())),
            (r"\a?*", Pattern::Wildcard(b"a?*".into())),
            (r"*\?\b", Pattern::Wildcard(br"*\?b".into())),
        ] {
            assert_eq!(wildcard(text.as_bytes()), expected, "{text}");
        }
    }
}
