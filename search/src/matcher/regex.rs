//! Regular expressions for whole texts.

use regex_automata::meta;
use regex_automata::{Anchored, Input};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::candidates::Candidates;
use super::limits::MatcherLimits;
use crate::compile_error::CompileError;
use crate::fold::fold_character;

/// Depth of groups in a regular expression.
const NEST_MAX: u32 = 100;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(super) struct Regex {
    regex: meta::Regex,
    /// The expression without anchors.
    syntax: Hir,
}

impl Regex {
    /// Compiles `pattern`; with `folds_case` for folded texts only.
    pub(super) fn new(
        pattern: &str,
        folds_case: bool,
        limits: MatcherLimits,
    ) -> Result<Self, CompileError> {
        let limit = limits.regex_size_max;
        let too_large = || CompileError::RegexSize {
            pattern: pattern.to_owned(),
            limit,
        };
        let mut syntax = ParserBuilder::new()
            .utf8(false)
            .nest_limit(NEST_MAX)
            .case_insensitive(folds_case)
            .build()
            .parse(pattern)
            .map_err(|error| {
                let reason = match error {
                    regex_syntax::Error::Parse(error) => error.kind().to_string(),
                    regex_syntax::Error::Translate(error) => error.kind().to_string(),
                    error => error.to_string(),
                };
                CompileError::RegexSyntax {
                    pattern: pattern.to_owned(),
                    reason,
                }
            })?;
        if folds_case {
            syntax = folded(syntax);
        }
        let anchored = Hir::concat(vec![
            Hir::look(Look::Start),
            syntax.clone(),
            Hir::look(Look::End),
        ]);
        let config = meta::Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(limit))
            .hybrid_cache_capacity(limit);
        let regex = meta::Builder::new()
            .configure(config)
            .build_from_hir(&anchored)
            .map_err(|_| too_large())?;
        Ok(Self { regex, syntax })
    }

    /// Whether the whole text matches. Linear in the text.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let input = Input::new(text).anchored(Anchored::Yes).earliest(true);
        self.regex.is_match(input)
    }

    /// Texts of which every match is one or begins with one, as a list of the dictionary's words or prefixes.
    pub(super) fn candidates(&self, folds_case: bool) -> Candidates {
        let sequence = Extractor::new().extract(&self.syntax);
        let Some(literals) = sequence.literals() else {
            return Candidates::Every;
        };
        let texts = literals.iter().map(|literal| literal.as_bytes().to_vec());
        if !literals.iter().all(|literal| literal.is_exact()) {
            Candidates::prefixes(texts)
        } else if folds_case {
            Candidates::folded(texts)
        } else {
            Candidates::words(texts)
        }
    }
}

/// The expression with a literal for each class whose characters all fold to one. Folded texts match it as they match `syntax`.
fn folded(syntax: Hir) -> Hir {
    match syntax.into_kind() {
        HirKind::Class(class) => {
            single_folded(&class).map_or_else(|| Hir::class(class), Hir::literal)
        }
        HirKind::Repetition(mut repetition) => {
            *repetition.sub = folded(*repetition.sub);
            Hir::repetition(repetition)
        }
        HirKind::Capture(capture) => folded(*capture.sub),
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(folded).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.into_iter().map(folded).collect()),
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Look(look) => Hir::look(look),
    }
}

/// The one character that all characters of a class fold to.
fn single_folded(class: &Class) -> Option<Vec<u8>> {
    let mut folded = None;
    let mut add = |character| {
        let character = fold_character(character);
        *folded.get_or_insert(character) == character
    };
    // A character has few spellings.
    let is_single = match class {
        Class::Unicode(class) => class
            .iter()
            .all(|range| range.len() <= 4 && (range.start()..=range.end()).all(&mut add)),
        Class::Bytes(class) => class.iter().all(|range| {
            range.len() <= 4
                && (range.start()..=range.end())
                    .all(|byte| byte.is_ascii() && add(char::from(byte)))
        }),
    };
    let folded = folded.filter(|_| is_single)?;
    Some(folded.encode_utf8(&mut [0; 4]).as_bytes().to_vec())
}
