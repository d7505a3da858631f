//! Properties of both languages: what is printed is read again, and no text is too much.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zipfdb_search::algebra::{
    CaptureValue, Comparison, Constraint, Pattern, Side, Span, SpanQuery,
    Strategy as MatchStrategy, TextTest, Unit, WordTest,
};
use zipfdb_search::cql;
use zipfdb_search::simple::{self, Operator, QueryOptions};

use super::simple::RunsOfLetters;

fn texts() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-c]{0,3}".prop_map(String::into_bytes),
        "[a.*?\\\\\"'\n\u{e4}x]{0,6}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..4),
    ]
}

/// Patterns in the form in which they are read.
fn patterns() -> impl Strategy<Value = Pattern> {
    let regex = "[a-c]{0,2}(\\.\\*|[.]\"'|\\[a\\]\\+|\\\\w)[a-c]{0,2}";
    let list = vec(texts(), 1..4).prop_map(|mut texts| {
        texts.sort();
        texts.dedup();
        Pattern::List(texts)
    });
    let wildcard = ("[ab]{0,2}", "[?]|[*]b", "([ab\u{e4}\"]|\\\\[*?\\\\]){0,2}").prop_map(
        |(begin, special, end)| Pattern::Wildcard(format!("{begin}{special}{end}").into_bytes()),
    );
    prop_oneof![
        texts().prop_map(Pattern::Literal),
        texts().prop_map(Pattern::Prefix),
        wildcard,
        regex.prop_map(Pattern::Regex),
        (texts(), 0..3_u8).prop_map(|(text, edits)| Pattern::Fuzzy { text, edits }),
        list,
    ]
}

fn text_tests() -> impl Strategy<Value = TextTest> {
    (patterns(), any::<bool>(), any::<bool>()).prop_map(
        |(pattern, folds_case, folds_diacritics)| TextTest {
            pattern,
            folds_case,
            folds_diacritics,
        },
    )
}

fn comparisons() -> impl Strategy<Value = Comparison> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    prop::sample::select(vec![
        Equal,
        NotEqual,
        Less,
        LessOrEqual,
        Greater,
        GreaterOrEqual,
    ])
}

fn sides() -> impl Strategy<Value = Side> {
    prop::sample::select(vec![Side::Before, Side::After])
}

fn word_tests() -> impl Strategy<Value = WordTest> {
    let leaf = prop_oneof![
        Just(WordTest::Any),
        text_tests().prop_map(WordTest::Text),
        (comparisons(), any::<u64>()).prop_map(|(sign, number)| WordTest::Frequency(sign, number)),
        (comparisons(), any::<u64>()).prop_map(|(sign, number)| WordTest::Position(sign, number)),
        (comparisons(), any::<u64>()).prop_map(|(sign, number)| WordTest::Offset(sign, number)),
        (sides(), text_tests()).prop_map(|(side, test)| WordTest::Gap(side, test)),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|test| WordTest::Not(test.into())),
            vec(inner.clone(), 2..4).prop_map(WordTest::All),
            vec(inner, 2..4).prop_map(WordTest::AnyOf),
        ]
    })
}

fn units() -> impl Strategy<Value = Unit> {
    prop_oneof![
        prop::sample::select(vec![
            Unit::File,
            Unit::Record,
            Unit::Line,
            Unit::Paragraph,
            Unit::Sentence,
        ]),
        (1..=u32::MAX).prop_map(Unit::Window),
    ]
}

fn names() -> impl Strategy<Value = String> {
    "[A-C]|[0-9]|within|show|TAB|meet|l|w"
}

fn spans() -> impl Strategy<Value = Span> {
    let leaf = prop_oneof![
        4 => word_tests().prop_map(Span::Word),
        1 => Just(Span::Empty),
        1 => units().prop_map(Span::Unit),
        1 => units().prop_map(Span::UnitStart),
        1 => units().prop_map(Span::UnitEnd),
        1 => (vec(word_tests(), 2..4), any::<u32>())
            .prop_map(|(words, slop)| Span::Slop { words, slop }),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            vec(inner.clone(), 2..4).prop_map(Span::Sequence),
            vec(inner.clone(), 2..4).prop_map(Span::Alternation),
            vec(inner.clone(), 2..4).prop_map(Span::Intersection),
            (inner.clone(), boxed())
                .prop_map(|(one, other)| Span::Intersection(vec![one, Span::Complement(other)])),
            (boxed(), any::<u8>(), option::of(any::<u8>())).prop_map(|(span, least, more)| {
                let minimum = u32::from(least) % 3;
                let maximum = more.map(|more| minimum + u32::from(more) % 3);
                Span::Repeat {
                    span,
                    minimum,
                    maximum,
                }
            }),
            (names(), boxed()).prop_map(|(name, span)| Span::Capture { name, span }),
            (sides(), any::<bool>(), boxed()).prop_map(|(side, is_negated, span)| Span::Look {
                side,
                is_negated,
                span
            }),
            (boxed(), boxed(), any::<bool>()).prop_map(|(span, container, is_negated)| {
                Span::Within {
                    span,
                    container,
                    is_negated,
                }
            }),
            (boxed(), boxed(), any::<bool>()).prop_map(|(span, content, is_negated)| {
                Span::Containing {
                    span,
                    content,
                    is_negated,
                }
            }),
            (boxed(), any::<u32>()).prop_map(|(span, words)| Span::WithinWords { span, words }),
            (boxed(), boxed(), 0..=i32::MAX, 0..=i32::MAX).prop_map(
                |(first, second, left, right)| Span::Meet {
                    first,
                    second,
                    left: -left,
                    right
                }
            ),
            (vec(inner, 2..4), any::<u32>(), any::<bool>()).prop_map(
                |(parts, distance, is_ordered)| Span::Near {
                    parts,
                    distance,
                    is_ordered
                }
            ),
        ]
    })
}

fn constraints() -> impl Strategy<Value = Constraint> {
    let name = || Just("N".to_owned());
    let text = prop_oneof![
        (name(), any::<bool>(), any::<bool>()).prop_map(
            |(capture, folds_case, folds_diacritics)| CaptureValue::Text {
                capture,
                folds_case,
                folds_diacritics,
            }
        ),
        texts().prop_map(CaptureValue::Literal),
    ];
    let number = prop_oneof![
        name().prop_map(CaptureValue::Frequency),
        name().prop_map(CaptureValue::Start),
        name().prop_map(CaptureValue::End),
        (name(), name()).prop_map(|(first, second)| CaptureValue::Distance(first, second)),
        (-i64::MAX..=i64::MAX).prop_map(CaptureValue::Number),
    ];
    let pair = prop_oneof![(text.clone(), text), (number.clone(), number)];
    let leaf = (pair, comparisons())
        .prop_map(|((first, second), sign)| Constraint::Compare(first, sign, second));
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner
                .clone()
                .prop_map(|inner| Constraint::Not(inner.into())),
            vec(inner.clone(), 2..4).prop_map(Constraint::All),
            vec(inner, 2..4).prop_map(Constraint::AnyOf),
        ]
    })
}

fn queries() -> impl Strategy<Value = SpanQuery> {
    let strategies = prop::sample::select(vec![
        MatchStrategy::Shortest,
        MatchStrategy::Longest,
        MatchStrategy::All,
    ]);
    let name = || Just("N".to_owned());
    (
        spans(),
        option::of(constraints()),
        strategies,
        option::of((name(), name())),
    )
        .prop_map(|(span, constraint, strategy, show)| SpanQuery {
            // What constraints and `show` name is there.
            span: Span::Sequence(vec![
                span,
                Span::Capture {
                    name: "N".into(),
                    span: Span::Empty.into(),
                },
            ]),
            constraint,
            strategy,
            show,
        })
}

/// Texts of pieces of CQL, most of them wrong.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "\"a\"",
        "'b.'",
        "l\"c\"",
        "w\"d*\"",
        "[]",
        "[",
        "]",
        "(",
        ")",
        "(?=",
        "(?<!",
        "(?",
        "longest",
        "word",
        "lc",
        "=",
        "!=",
        "==",
        "in",
        "<s>",
        "<",
        "/>",
        "s",
        "{1,2}",
        "{",
        "}",
        "*",
        "+",
        "?",
        "|",
        "&",
        "!",
        "A:",
        "1:",
        "@",
        "within",
        "containing",
        "5",
        "-",
        "meet",
        "near",
        "slop",
        "TAB",
        "::",
        "A.word",
        "f(A)",
        "dist(",
        ",",
        "show",
        "..",
        "A",
        "%c",
        "~1",
        "position",
        "\\",
        "\"",
        "#",
    ]);
    vec(piece, 0..16).prop_map(|pieces| pieces.join(" "))
}

/// What was read is printed as a text that is read as the same.
fn check_cql(text: &str) {
    match cql::parse(text) {
        Ok(query) => {
            let printed = query.to_string();
            assert_eq!(
                cql::parse(&printed),
                Ok(query),
                "{text:?} is printed as {printed:?}"
            );
        }
        Err(error) => {
            assert!(error.place().byte <= text.len());
            assert!(!error.to_string().contains('\n'));
        }
    }
}

/// Texts of pieces of the simple language, most of them wrong.
fn simple_pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", "b", "c-d", "e*", "*f?", "*", "\"a b\"", "\"", "/a.*/", "/", "(", ")", "AND", "OR",
        "NOT", "+", "-", "NEAR(", ",", "~", "1", "^", "2.5", "@", ":", "file:", "x:y", "\\", "...",
        " ", " ", " ", " ", "\u{e4}",
    ]);
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// The lenient mode reads what the strict one reads as the same, and has notices if and only if that one has an error.
fn check_simple(text: &str, operator: Operator) {
    let options = QueryOptions {
        operator,
        fields: Some(vec!["file".into()]),
        ..QueryOptions::default()
    };
    let lenient = simple::parse_lenient(text, &options, &RunsOfLetters);
    let strict = simple::parse(text, &options, &RunsOfLetters);
    if let Err(error) = &strict {
        assert!(error.place().byte <= text.len());
        assert!(!error.to_string().contains('\n'));
    }
    // In the lenient mode a question mark is no wildcard.
    if text.contains('?') {
        return;
    }
    match strict {
        Ok(query) => {
            let notices = Vec::new();
            assert_eq!(lenient, simple::LenientQuery { query, notices }, "{text:?}");
        }
        Err(error) => {
            let is_empty = lenient.query == simple::FileQuery::None;
            assert!(is_empty || lenient.notices[0] == error, "{text:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_text_is_read_in_the_simple_language(bytes in vec(any::<u8>(), 0..40), and in any::<bool>()) {
        let operator = if and { Operator::And } else { Operator::Or };
        check_simple(&String::from_utf8_lossy(&bytes), operator);
    }

    #[test]
    fn any_pieces_are_read_in_the_simple_language(text in simple_pieces(), and in any::<bool>()) {
        check_simple(&text, if and { Operator::And } else { Operator::Or });
    }

    #[test]
    fn a_query_is_read_as_it_was_printed(query in queries()) {
        let printed = query.to_string();
        prop_assert_eq!(cql::parse(&printed), Ok(query), "{}", printed);
    }

    #[test]
    fn any_text_is_a_query_or_an_error_in_cql(bytes in vec(any::<u8>(), 0..40)) {
        check_cql(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces_are_a_query_or_an_error_in_cql(text in pieces()) {
        check_cql(&text);
    }
}
