//! Tests of words, by example and against each other.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::algebra::{Pattern, Stemmer, TextTest};

fn text(pattern: Pattern, flags: &str) -> WordTest {
    WordTest::Text(TextTest {
        pattern,
        folds_case: flags.contains('c'),
        folds_diacritics: flags.contains('d'),
    })
}

fn regex(pattern: &str, flags: &str) -> WordTest {
    text(Pattern::Regex(pattern.to_owned()), flags)
}

fn literal(pattern: &str, flags: &str) -> WordTest {
    text(Pattern::Literal(pattern.into()), flags)
}

fn matcher(test: &WordTest) -> WordMatcher {
    WordMatcher::new(test, MatcherLimits::default()).unwrap()
}

fn passes(test: &WordTest, word: impl AsRef<[u8]>) -> bool {
    matcher(test).matches(word.as_ref(), || 7)
}

fn prefixes(texts: &[&str]) -> Candidates {
    Candidates::Prefixes(texts.iter().map(|text| text.as_bytes().to_vec()).collect())
}

#[test]
fn folding_applies_to_both_sides() {
    for (pattern, flags, word, expected) in [
        ("Stra\u{df}e", "", "stra\u{df}e", false),
        ("Stra\u{df}e", "c", "STRA\u{1e9e}E", true),
        ("cafe", "d", "caf\u{e9}", true),
        ("caf\u{e9}", "d", "cafe", true),
        ("CAFE\u{301}", "cd", "caf\u{e9}", true),
        ("caf\u{e9}", "c", "cafe\u{301}", false),
        ("istanbul", "cd", "\u{130}STANBUL", true),
        ("istanbul", "c", "\u{130}STANBUL", false),
    ] {
        assert_eq!(
            passes(&literal(pattern, flags), word),
            expected,
            "{pattern} {word}"
        );
        assert_eq!(
            passes(&regex(pattern, flags), word),
            expected,
            "{pattern} {word}"
        );
        let wildcard = text(Pattern::Wildcard(pattern.into()), flags);
        assert_eq!(passes(&wildcard, word), expected, "{pattern} {word}");
        let fuzzy = text(
            Pattern::Fuzzy {
                text: pattern.into(),
                edits: 0,
            },
            flags,
        );
        assert_eq!(passes(&fuzzy, word), expected, "{pattern} {word}");
        let list = text(Pattern::List(vec![b"x".to_vec(), pattern.into()]), flags);
        assert_eq!(passes(&list, word), expected, "{pattern} {word}");
        let prefix = text(Pattern::Prefix(pattern.into()), flags);
        assert_eq!(
            passes(&prefix, format!("{word}s")),
            expected,
            "{pattern} {word}"
        );
    }
}

#[test]
fn regular_expressions_match_whole_words_of_any_bytes() {
    assert!(!passes(&regex("a|b", ""), "ab"));
    assert!(passes(&regex("a|ab", ""), "ab"));
    assert!(passes(&regex("(?x) a b # comment", ""), "ab"));
    assert!(passes(&regex("[^A]", "c"), "b"));
    assert!(!passes(&regex("[^A]", "c"), "a"));
    assert!(passes(&regex(r"\p{Lu}+", "c"), "ab"));
    assert!(passes(&regex(r"a(?-u:\xff)", ""), b"a\xff"));
    assert!(!passes(&regex("a.", ""), b"a\xff"));
    assert!(passes(&regex(r"a(?s-u:.)*", ""), b"a\xff\xfe"));
}

#[test]
fn faulty_and_large_expressions_are_errors() {
    let error = |pattern: &str| {
        let error = WordMatcher::new(&regex(pattern, ""), MatcherLimits::default()).unwrap_err();
        error.to_string()
    };
    assert!(error("a(b").starts_with("`a(b` is no regular expression: unclosed group; hint: "));
    assert!(error("(a{1000}){1000}").contains("needs more than 8388608 bytes"));
    assert!(error(&"(".repeat(5000)).contains("is no regular expression"));
}

#[test]
fn candidates_are_the_narrowest_range() {
    let words = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let candidates = |test: &WordTest| matcher(test).candidates();
    assert_eq!(
        candidates(&literal("The", "")),
        Candidates::Words(words(&["The"]))
    );
    assert_eq!(
        candidates(&literal("The", "c")),
        Candidates::Folded(words(&["the"]))
    );
    assert_eq!(candidates(&literal("The", "d")), Candidates::Every);
    assert_eq!(
        candidates(&regex("dog|Cat", "")),
        Candidates::Words(words(&["Cat", "dog"]))
    );
    assert_eq!(
        candidates(&regex("(?:Internationalization|Localization)", "c")),
        Candidates::Folded(words(&["internationalization", "localization"]))
    );
    assert_eq!(candidates(&regex("Un.*able", "")), prefixes(&["un"]));
    assert_eq!(candidates(&regex(".*", "")), Candidates::Every);
    assert_eq!(
        candidates(&text(Pattern::Prefix("Un".into()), "")),
        prefixes(&["un"])
    );
    assert_eq!(
        candidates(&text(Pattern::Prefix(b"a\xc3".to_vec()), "")),
        prefixes(&["a"])
    );
    assert_eq!(
        candidates(&text(Pattern::Wildcard("a*".into()), "")),
        prefixes(&["a"])
    );
    let any = WordTest::AnyOf(vec![literal("Be", ""), regex("b.*", ""), literal("c", "c")]);
    assert_eq!(candidates(&any), prefixes(&["b", "c"]));
    let all = WordTest::All(vec![
        WordTest::Frequency(Comparison::Less, 3),
        regex("b.*", ""),
        WordTest::Not(Box::new(literal("be", ""))),
    ]);
    assert_eq!(candidates(&all), prefixes(&["b"]));
}

/// A word at a place.
struct Place;

impl Occurrence for Place {
    fn word(&self) -> &[u8] {
        b"word"
    }
    fn frequency(&self) -> u64 {
        3
    }
    fn gap(&self, side: Side) -> &[u8] {
        if side == Side::Before { b" " } else { b", " }
    }
    fn position(&self) -> u64 {
        5
    }
    fn offset(&self) -> u64 {
        40
    }
}

#[test]
fn what_depends_on_an_unknown_place_may_pass_and_may_not() {
    let comma = WordTest::Gap(
        Side::After,
        TextTest {
            pattern: Pattern::Prefix(b",".to_vec()),
            folds_case: false,
            folds_diacritics: false,
        },
    );
    let first = WordTest::Position(Comparison::Equal, 0);
    let not = |test: &WordTest| WordTest::Not(Box::new(test.clone()));
    let far = WordTest::Offset(Comparison::GreaterOrEqual, 40);
    for (test, expected) in [(comma.clone(), true), (first.clone(), false), (far, true)] {
        for (test, expected) in [(not(&test), !expected), (test, expected)] {
            assert!(test.is_contextual());
            assert!(passes(&test, "word"));
            assert_eq!(matcher(&test).matches_at(&Place), expected, "{test:?}");
        }
    }
    let word = literal("word", "");
    let both = not(&WordTest::AnyOf(vec![comma, word]));
    assert!(!passes(&both, "word"));
    assert!(passes(&both, "other"));
    let rare = WordTest::Frequency(Comparison::Less, 5);
    assert!(rare.needs_frequency() && !rare.is_contextual());
    assert!(matcher(&rare).matches_at(&Place) && !passes(&rare, "word"));
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    let texts = "[abAB\u{e9}\u{c9}]{0,3}";
    prop_oneof![
        texts.prop_map(|text| Pattern::Literal(text.into())),
        texts.prop_map(|text| Pattern::Prefix(text.into())),
        "[abA*?\u{e9}]{0,4}".prop_map(|text| Pattern::Wildcard(text.into())),
        "[abA\u{e9}][ab.]?([|](a|B[.]?|[bA]b?))?[*?]?".prop_map(Pattern::Regex),
        (texts, 0..3_u8).prop_map(|(text, edits)| Pattern::Fuzzy {
            text: text.into(),
            edits
        }),
        "[abAB'\u{e9}\u{c9}]{0,3}(ies|ing|ly|y|s)?"
            .prop_map(|text| Pattern::Stem(Stemmer::English, text.into())),
        prop::collection::btree_set(texts.prop_map(String::into_bytes), 0..3)
            .prop_map(|texts| Pattern::List(texts.into_iter().collect())),
    ]
}

fn any_test() -> impl Strategy<Value = WordTest> {
    let leaf = (any_pattern(), any::<bool>(), any::<bool>()).prop_map(
        |(pattern, folds_case, folds_diacritics)| {
            WordTest::Text(TextTest {
                pattern,
                folds_case,
                folds_diacritics,
            })
        },
    );
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|test| WordTest::Not(Box::new(test))),
            prop::collection::vec(inner.clone(), 1..3).prop_map(WordTest::All),
            prop::collection::vec(inner, 1..3).prop_map(WordTest::AnyOf),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn words_that_pass_are_candidates(test in any_test(), word in "[abAB'\u{e9}\u{c9}]{0,4}(ies|ing|ly|y|s)?") {
        let matcher = matcher(&test);
        if matcher.matches(word.as_bytes(), || 0) {
            let folded = folded(word.as_bytes(), true, false).into_owned();
            let is_candidate = match matcher.candidates() {
                Candidates::Words(words) => words.contains(&word.clone().into_bytes()),
                Candidates::Folded(words) => words.contains(&folded),
                Candidates::Prefixes(prefixes) => prefixes.iter().any(|prefix| folded.starts_with(prefix)),
                Candidates::Every => true,
            };
            prop_assert!(is_candidate, "{:?}", matcher.candidates());
        }
    }

    #[test]
    fn folding_tests_ignore_what_they_fold(pattern in any_pattern(), word in "[abAB\u{e9}\u{c9}]{0,4}") {
        let test = |flags| text(pattern.clone(), flags);
        let folded = |case, diacritics| folded(word.as_bytes(), case, diacritics).into_owned();
        prop_assert_eq!(passes(&test("c"), &word), passes(&test("c"), folded(true, false)));
        prop_assert_eq!(passes(&test("d"), &word), passes(&test("d"), folded(false, true)));
        prop_assert_eq!(passes(&test("cd"), &word), passes(&test("cd"), folded(true, true)));
    }
}
