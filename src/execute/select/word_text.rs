//! Texts as words and n-grams of a tokenizer: whether a text can be one, and whether one can contain a text.
//!
//! Invariant: an impossible result holds for every text that a corpus can hold. Where that is not known a text is possible.

use zipfdb_storage::Tokenizer;

use crate::expression::FixedRun;
use crate::tokenize::{is_never_within_word, word_ranges};

/// The longest text that is taken for a word by its letters.
const PLAIN_WORD_BYTES_MAX: usize = 64;

/// Whether a text is one word for every tokenizer.
pub(super) fn is_plain_word(text: &str) -> bool {
    (1..=PLAIN_WORD_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Whether bytes are one word.
pub(super) fn is_word(tokenizer: Tokenizer, text: &[u8]) -> bool {
    matches!(&word_ranges(tokenizer, text)[..], [word] if *word == (0..text.len()))
}

/// Whether a text is some words with one space between each and the next.
pub(super) fn is_sequence(tokenizer: Tokenizer, text: &str, words: usize) -> bool {
    if words == 1 {
        return is_word(tokenizer, text.as_bytes());
    }
    // A word may begin with a space, if a mark that belongs to it follows.
    text.match_indices(' ').any(|(at, _)| {
        is_word(tokenizer, &text.as_bytes()[..at])
            && is_sequence(tokenizer, &text[at + 1..], words - 1)
    })
}

/// The words of a text, without the spaces that are glued to them.
pub(super) fn words_of(tokenizer: Tokenizer, text: &str) -> Vec<&str> {
    // Words of a text that is UTF-8 are UTF-8.
    let ranges = word_ranges(tokenizer, text.as_bytes()).into_iter();
    ranges.filter_map(|range| text.get(range)).collect()
}

/// Whether a text of other letter case may be cut into words in another way: marks that case mappings add to letters, the iota,
/// which is a mark in one of its cases, and a letter in a circle whose capital is a symbol too.
pub(super) fn is_cut_by_case(text: &str) -> bool {
    let is_odd = |character| {
        matches!(
            character,
            '\u{300}'..='\u{36f}' | '\u{399}' | '\u{3b9}' | '\u{24c2}' | '\u{24dc}'
        )
    };
    text.contains(is_odd)
}

/// The reason why no word or n-gram matches a pattern.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatternFault {
    /// The pattern is a text with this number of words, which differs.
    Words(usize),
    /// No word contains this text.
    NeverWithin(String),
    /// This is no word, and stands in the place of one.
    NoWord(String),
    /// The pattern has a space where none stands between words.
    Space,
    /// The pattern has more words than the n-gram, at least this number.
    TooMany(usize),
}

/// The reason why no n-gram of `n` words has all of these runs; none if one may.
pub(super) fn pattern_fault(
    tokenizer: Tokenizer,
    runs: &[FixedRun],
    n: usize,
) -> Option<PatternFault> {
    if let [run] = runs
        && run.is_first
        && run.is_last
    {
        let words = || words_of(tokenizer, &run.text).len();
        return (!is_sequence(tokenizer, &run.text, n)).then(|| PatternFault::Words(words()));
    }
    if n == 1 {
        let mut texts = runs.iter().map(|run| &run.text);
        let text = texts.find(|text| is_never_within_word(tokenizer, text))?;
        return Some(PatternFault::NeverWithin(text.clone()));
    }
    let mut separators = 0;
    for run in runs {
        match separators_of(tokenizer, run) {
            Ok(count) => separators += count,
            Err(fault) => return Some(fault),
        }
    }
    (separators >= n).then_some(PatternFault::TooMany(separators + 1))
}

/// The number of spaces of a run that certainly stand between two words, or the reason why no n-gram has the run.
fn separators_of(tokenizer: Tokenizer, run: &FixedRun) -> Result<usize, PatternFault> {
    let bytes = run.text.as_bytes();
    // A space is part of a word only with a mark behind it, and there is no mark in ASCII.
    let is_separator = |at: usize| {
        let next = bytes.get(at + 1);
        tokenizer != Tokenizer::Unicode || next.is_some_and(|next| next.is_ascii() && *next != b' ')
    };
    let spaces = (0..bytes.len()).filter(|&at| bytes[at] == b' ');
    let separators: Vec<usize> = spaces.filter(|&at| is_separator(at)).collect();
    let is_behind_space = |&at: &usize| at > 0 && bytes[at - 1] == b' ';
    if separators.iter().any(is_behind_space)
        || run.is_first && separators.first() == Some(&0)
        || run.is_last && bytes.last() == Some(&b' ')
    {
        return Err(PatternFault::Space);
    }
    let mut start = 0;
    let ends = separators.iter().copied().chain([bytes.len()]);
    for (index, end) in ends.enumerate() {
        let part = &run.text[start..end];
        let is_begun = index > 0 || run.is_first;
        let is_ended = index < separators.len() || run.is_last;
        start = end + 1;
        if is_begun && is_ended && !part.contains(' ') && !is_word(tokenizer, part.as_bytes()) {
            return Err(PatternFault::NoWord(part.to_owned()));
        }
        let mut pieces = part.split(' ');
        if let Some(piece) = pieces.find(|piece| is_never_within_word(tokenizer, piece)) {
            return Err(PatternFault::NeverWithin(piece.to_owned()));
        }
    }
    Ok(separators.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use zipfdb_search::fold::fold_character;
    use zipfdb_sql::query::Matcher;

    use super::*;
    use crate::Value;
    use crate::expression::Pattern;
    use crate::runtime::interrupt::Interrupt;
    use crate::runtime::memory::ValueMemory;

    const TOKENIZERS: [Tokenizer; 3] =
        [Tokenizer::Unicode, Tokenizer::Alnum, Tokenizer::Whitespace];

    fn any_text() -> impl Strategy<Value = String> {
        let characters: Vec<char> = "abZ07   -'.,:_\n\t@\u{e9}\u{93e}\u{308}\u{200d}\u{feff}\u{660e}\u{6708}\u{30a2}\u{5d0}\"\u{1f1e6}\
            \u{1f600}\u{2024}\u{a0}\u{ad}\u{345}"
            .chars()
            .collect();
        prop::collection::vec(prop::sample::select(characters), 0..24).prop_map(String::from_iter)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]

        #[test]
        fn words_and_ngrams_of_a_text_are_sequences(text in any_text()) {
            for tokenizer in TOKENIZERS {
                let words = words_of(tokenizer, &text);
                for n in 1..=3 {
                    for ngram in words.windows(n) {
                        let ngram = ngram.join(" ");
                        prop_assert!(is_sequence(tokenizer, &ngram, n), "{:?} of {:?}", ngram, text);
                    }
                }
            }
        }

        #[test]
        fn plain_words_are_words_for_every_tokenizer(text in "[A-Za-z]{1,80}") {
            for tokenizer in TOKENIZERS {
                prop_assert!(!is_plain_word(&text) || words_of(tokenizer, &text) == [&text]);
            }
        }

        /// Patterns made of n-grams of the text, with wildcards in place of some characters, match.
        #[test]
        fn a_pattern_that_an_ngram_matches_has_no_fault(
            text in any_text(),
            wildcards in prop::collection::vec(0..8usize, 24),
        ) {
            for tokenizer in TOKENIZERS {
                let words = words_of(tokenizer, &text);
                for n in 1..=3 {
                    for ngram in words.windows(n) {
                        let ngram = ngram.join(" ");
                        let characters = ngram.chars().zip(wildcards.iter().cycle());
                        let pattern: String = characters
                            .map(|(character, wildcard)| match wildcard {
                                0 => '%',
                                1 => '_',
                                _ => character,
                            })
                            .collect();
                        let compiled = compile(Matcher::Like, &pattern);
                        let mut pace = Interrupt::never().pace();
                        // The text may have wildcards of its own.
                        prop_assert!(compiled.matches(ngram.as_bytes(), &mut pace).unwrap());
                        let runs = compiled.fixed_runs().unwrap();
                        prop_assert_eq!(pattern_fault(tokenizer, &runs, n), None, "{:?} of {:?}", pattern, ngram);
                    }
                }
            }
        }
    }

    fn compile(matcher: Matcher, pattern: &str) -> Pattern {
        let pattern = Value::from(pattern);
        let compiled = Pattern::new(matcher, &pattern, None, &ValueMemory::default());
        compiled.unwrap().unwrap()
    }

    fn fault(tokenizer: Tokenizer, matcher: Matcher, pattern: &str, n: usize) -> Option<String> {
        let runs = compile(matcher, pattern).fixed_runs()?;
        pattern_fault(tokenizer, &runs, n).map(|fault| format!("{fault:?}"))
    }

    #[test]
    fn patterns_that_nothing_matches_are_reported() {
        let like = |pattern: &str, n| fault(Tokenizer::Unicode, Matcher::Like, pattern, n);
        for (pattern, n, expected) in [
            ("one", 1, None),
            ("o%e", 1, None),
            ("%@%", 1, None),
            ("% %", 1, None),
            ("one two", 1, Some("Words(2)")),
            ("", 1, Some("Words(0)")),
            ("one two%", 1, Some("NeverWithin(\"one two\")")),
            ("new %", 1, Some("NeverWithin(\"new \")")),
            ("%user@_", 1, Some("NeverWithin(\"user@\")")),
            ("one two", 2, None),
            ("%e t%", 2, None),
            ("one  two", 2, Some("Words(2)")),
            ("one  t%", 2, Some("Space")),
            (" one%", 2, Some("Space")),
            ("%two ", 2, Some("Space")),
            ("one two three%", 2, Some("TooMany(3)")),
            ("one two three%", 3, None),
            ("a - b%", 3, Some("NoWord(\"-\")")),
            ("a@b c%", 2, Some("NoWord(\"a@b\")")),
            ("%a@b c%", 2, Some("NeverWithin(\"a@b\")")),
        ] {
            assert_eq!(like(pattern, n).as_deref(), expected, "{pattern}");
        }
        let glob = |pattern: &str| fault(Tokenizer::Unicode, Matcher::Glob, pattern, 1);
        assert_eq!(glob("[a-c]ne t*").as_deref(), Some("NeverWithin(\"ne t\")"));
        assert_eq!(glob("[a-c]ne?t*"), None);
        let regexp = |pattern: &str| fault(Tokenizer::Unicode, Matcher::Regexp, pattern, 1);
        assert_eq!(
            regexp("one two").as_deref(),
            Some("NeverWithin(\"one two\")")
        );
        assert_eq!(regexp("^one two$").as_deref(), Some("Words(2)"));
        assert_eq!(regexp("one|t w"), None);
        assert_eq!(regexp("^one"), None);
        let blank = |tokenizer| fault(tokenizer, Matcher::Like, "% %", 1);
        let expected = Some("NeverWithin(\" \")");
        assert_eq!(blank(Tokenizer::Alnum).as_deref(), expected);
        assert_eq!(blank(Tokenizer::Whitespace).as_deref(), expected);
    }

    /// Letters of another case are cut like the original ones in any context, except where `is_cut_by_case` says so.
    #[test]
    fn letter_case_does_not_change_words_but_where_it_is_reported() {
        let contexts = ["", "a", "1", " ", ".", "\u{308}", "\u{200d}"];
        let mappings: [fn(char) -> String; 3] = [
            |character| character.to_lowercase().collect(),
            |character| character.to_uppercase().collect(),
            |character| fold_character(character).into(),
        ];
        let has_case = |character: &char| {
            !character.to_lowercase().eq([*character]) || !character.to_uppercase().eq([*character])
        };
        for character in ('\u{80}'..=char::MAX).filter(has_case) {
            let mapped = mappings.map(|mapping| mapping(character));
            // Mapping it again changes nothing.
            assert_eq!(mapped[0].to_lowercase(), mapped[0]);
            assert_eq!(mapped[1].to_uppercase(), mapped[1]);
            for mapped in mapped {
                if is_cut_by_case(&mapped) {
                    continue;
                }
                let around = |before| contexts.map(|after| (before, after));
                for (before, after) in contexts.into_iter().flat_map(around) {
                    let of = |middle: &str| format!("{before}{middle}{after}");
                    let (one, other) = (of(&character.to_string()), of(&mapped));
                    for tokenizer in TOKENIZERS {
                        assert_eq!(
                            is_word(tokenizer, one.as_bytes()),
                            is_word(tokenizer, other.as_bytes()),
                            "{tokenizer:?} {one:?} {other:?}"
                        );
                    }
                }
            }
        }
    }
}
