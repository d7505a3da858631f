//! CQL: what each construct means, and what is wrong with what is none.

use zipfdb_search::algebra::{
    CaptureValue, Comparison, Constraint, Pattern, Side, Span, SpanQuery, Strategy, TextTest, Unit,
    WordTest,
};
use zipfdb_search::cql::parse;

fn text(pattern: Pattern) -> TextTest {
    TextTest {
        pattern,
        folds_case: false,
        folds_diacritics: false,
    }
}

fn literal(word: &str) -> TextTest {
    text(Pattern::Literal(word.into()))
}

fn regex(expression: &str) -> TextTest {
    text(Pattern::Regex(expression.into()))
}

fn test(word: &str) -> WordTest {
    WordTest::Text(literal(word))
}

fn not(test: WordTest) -> WordTest {
    WordTest::Not(test.into())
}

fn word(word: &str) -> Span {
    Span::Word(test(word))
}

fn any() -> Span {
    Span::Word(WordTest::Any)
}

fn repeat(span: Span, minimum: u32, maximum: Option<u32>) -> Span {
    let span = span.into();
    Span::Repeat {
        span,
        minimum,
        maximum,
    }
}

fn capture(name: &str, span: Span) -> Span {
    let (name, span) = (name.to_owned(), span.into());
    Span::Capture { name, span }
}

fn sequence<const N: usize>(spans: [Span; N]) -> Span {
    Span::Sequence(spans.into())
}

fn within(span: Span, container: Span, is_negated: bool) -> Span {
    let (span, container) = (span.into(), container.into());
    Span::Within {
        span,
        container,
        is_negated,
    }
}

fn containing(span: Span, content: Span, is_negated: bool) -> Span {
    let (span, content) = (span.into(), content.into());
    Span::Containing {
        span,
        content,
        is_negated,
    }
}

fn query(text: &str) -> SpanQuery {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Each text is the span, and a query of nothing else; the span as text is that span again.
fn check<const N: usize>(cases: [(&str, Span); N]) {
    for (text, span) in cases {
        let expected = SpanQuery {
            span,
            constraint: None,
            strategy: Strategy::Shortest,
            show: None,
        };
        assert_eq!(query(text), expected, "{text}");
        let printed = expected.to_string();
        assert_eq!(query(&printed), expected, "{text} is printed as {printed}");
    }
}

#[test]
fn strings_are_words() {
    let folded = |case, diacritics, test: TextTest| {
        Span::Word(WordTest::Text(TextTest {
            folds_case: case,
            folds_diacritics: diacritics,
            ..test
        }))
    };
    let plain = |test| folded(false, false, test);
    check([
        (r#""the""#, word("the")),
        (r#"'the'"#, word("the")),
        (r#""""#, word("")),
        (r#""don't""#, word("don't")),
        (r#"'say "a"'"#, word("say \"a\"")),
        (r#""the"%c"#, folded(true, false, literal("the"))),
        (r#""the" %d"#, folded(false, true, literal("the"))),
        (r#""the" %c %d"#, folded(true, true, literal("the"))),
        (r#""(?i)the""#, folded(true, false, literal("the"))),
        (r#""(?-i)the""#, word("the")),
        (r#""th.*" %cd"#, folded(true, true, regex("th.*"))),
        (r#""th\.""#, word("th.")),
        (r#""th.""#, plain(regex("th."))),
        (r#""th.s\"""#, plain(regex("th.s\""))),
        (r#""th." %l"#, word("th.")),
        (r#"l"th.""#, word("th.")),
        (r#"l"a\\b\"c\x41""#, word("a\\b\"cA")),
        (r#"l"\xff""#, plain(text(Pattern::Literal(vec![0xff])))),
        (r#"w"th*""#, plain(text(Pattern::Prefix(b"th".into())))),
        (
            r#"w"t?e\*" %c"#,
            folded(true, false, text(Pattern::Wildcard(br"t?e\*".into()))),
        ),
        (
            r#""colour"~1"#,
            plain(text(Pattern::Fuzzy {
                text: b"colour".into(),
                edits: 1,
            })),
        ),
        (
            r#"# a comment
            "the" # and one more"#,
            word("the"),
        ),
    ]);
}

#[test]
fn brackets_hold_conditions_on_a_word() {
    use Comparison::{GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let folded = WordTest::Text(TextTest {
        folds_case: true,
        ..literal("the")
    });
    let list = |words: &[&str]| {
        let words = words.iter().map(|word| word.as_bytes().to_vec());
        WordTest::Text(text(Pattern::List(words.collect())))
    };
    let (a, b, c) = (test("a"), test("b"), test("c"));
    let cases = [
        ("", WordTest::Any),
        (r#"word = "a""#, a.clone()),
        (r#"word contains "a""#, a.clone()),
        (r#"word matches "a""#, a.clone()),
        (r#"word != "a""#, not(a.clone())),
        (r#"word == "a.""#, test("a.")),
        (r#"word !== "a.""#, not(test("a."))),
        (r#"lc = "the""#, folded.clone()),
        (r#"word = "the" %c"#, folded),
        (r#"word in ("b", l"a.", "b")"#, list(&["a.", "b"])),
        (r#"!word in ("a")"#, not(list(&["a"]))),
        (r#"gap = ", ""#, WordTest::Gap(Side::Before, literal(", "))),
        (
            r#"before = ", ""#,
            WordTest::Gap(Side::Before, literal(", ")),
        ),
        (
            r#"after != "\.""#,
            not(WordTest::Gap(Side::After, literal("."))),
        ),
        ("position < 5", WordTest::Position(Less, 5)),
        ("offset != 100", WordTest::Offset(NotEqual, 100)),
        ("f(word) >= 10", WordTest::Frequency(GreaterOrEqual, 10)),
        (
            "position = 10..20",
            WordTest::All(vec![
                WordTest::Position(GreaterOrEqual, 10),
                WordTest::Position(LessOrEqual, 20),
            ]),
        ),
        (
            r#"word="a" | word="b" & word="c""#,
            WordTest::AnyOf(vec![a.clone(), WordTest::All(vec![b.clone(), c.clone()])]),
        ),
        (
            r#"(word="a" | word="b") & !(word="c" | [])"#,
            WordTest::All(vec![
                WordTest::AnyOf(vec![a, b]),
                not(WordTest::AnyOf(vec![c, WordTest::Any])),
            ]),
        ),
    ];
    for (text, test) in cases {
        check([(format!("[{text}]").as_str(), Span::Word(test))]);
    }
}

#[test]
fn sequences_bind_tighter_than_and_than_or() {
    check([
        (r#""a" "b""#, sequence([word("a"), word("b")])),
        (
            r#""a" | "b" "c""#,
            Span::Alternation(vec![word("a"), sequence([word("b"), word("c")])]),
        ),
        (
            r#"("a" | "b") "c""#,
            sequence([Span::Alternation(vec![word("a"), word("b")]), word("c")]),
        ),
        (
            r#""a" | "b" & "c""#,
            Span::Alternation(vec![
                word("a"),
                Span::Intersection(vec![word("b"), word("c")]),
            ]),
        ),
        (r#"(("a"))"#, word("a")),
        (r#"() "a""#, sequence([Span::Empty, word("a")])),
    ]);
}

#[test]
fn quantifiers_repeat_what_stands_before() {
    check([
        (r#""a"*"#, repeat(word("a"), 0, None)),
        (r#""a"+"#, repeat(word("a"), 1, None)),
        (r#""a"?"#, repeat(word("a"), 0, Some(1))),
        ("[]{3}", repeat(any(), 3, Some(3))),
        ("[]{3,}", repeat(any(), 3, None)),
        ("[]{3,5}", repeat(any(), 3, Some(5))),
        ("[]{,5}", repeat(any(), 0, Some(5))),
        (
            r#"("a" "b"){2}"#,
            repeat(sequence([word("a"), word("b")]), 2, Some(2)),
        ),
        (r#"("a"+)?"#, repeat(repeat(word("a"), 1, None), 0, Some(1))),
    ]);
}

#[test]
fn labels_name_what_stands_behind_with_its_quantifier() {
    check([
        (r#"A:"a""#, capture("A", word("a"))),
        (r#"1:"a""#, capture("1", word("a"))),
        (r#"A:"a"+"#, capture("A", repeat(word("a"), 1, None))),
        (r#"(A:"a")+"#, repeat(capture("A", word("a")), 1, None)),
        (
            r#"A:("a" B:"b")"#,
            capture("A", sequence([word("a"), capture("B", word("b"))])),
        ),
        (r#"A:B:"a""#, capture("A", capture("B", word("a")))),
        (r#"@"a""#, capture("target", word("a"))),
        (r#"@9"a""#, capture("target9", word("a"))),
    ]);
}

#[test]
fn complements_are_of_one_word_or_an_operand() {
    let complement = |span: Span| Span::Complement(span.into());
    check([
        (r#"!"a""#, Span::Word(not(test("a")))),
        (r#"!"a"+"#, repeat(Span::Word(not(test("a"))), 1, None)),
        (
            r#"!("a" | "b") "c""#,
            sequence([
                Span::Word(not(WordTest::AnyOf(vec![test("a"), test("b")]))),
                word("c"),
            ]),
        ),
        (
            r#"[]{2} & !("a" "b")"#,
            Span::Intersection(vec![
                repeat(any(), 2, Some(2)),
                complement(sequence([word("a"), word("b")])),
            ]),
        ),
        (
            r#"!"a" & [] | "b""#,
            Span::Alternation(vec![
                Span::Intersection(vec![complement(word("a")), any()]),
                word("b"),
            ]),
        ),
    ]);
}

#[test]
fn filters_apply_from_left_to_right() {
    let unit = Span::Unit;
    let words = |span: Span, words| Span::WithinWords {
        span: span.into(),
        words,
    };
    check([
        (
            r#""a" within s"#,
            within(word("a"), unit(Unit::Sentence), false),
        ),
        (
            r#""a" within <s/>"#,
            within(word("a"), unit(Unit::Sentence), false),
        ),
        (
            r#""a" within sentence"#,
            within(word("a"), unit(Unit::Sentence), false),
        ),
        (
            r#""a" !within p"#,
            within(word("a"), unit(Unit::Paragraph), true),
        ),
        (
            r#""a" within line"#,
            within(word("a"), unit(Unit::Line), false),
        ),
        (
            r#""a" within record"#,
            within(word("a"), unit(Unit::Record), false),
        ),
        (
            r#""a" within file"#,
            within(word("a"), unit(Unit::File), false),
        ),
        (
            r#""a" within window 100"#,
            within(word("a"), unit(Unit::Window(100)), false),
        ),
        (r#""a" within 5"#, words(word("a"), 5)),
        (
            r#""a" within 1:"b""#,
            within(word("a"), capture("1", word("b")), false),
        ),
        (
            r#"<s/> containing "a" !containing "b""#,
            containing(
                containing(unit(Unit::Sentence), word("a"), false),
                word("b"),
                true,
            ),
        ),
        (
            r#""a" | "b" within ("c" containing "d") | "e""#,
            within(
                Span::Alternation(vec![word("a"), word("b")]),
                Span::Alternation(vec![containing(word("c"), word("d"), false), word("e")]),
                false,
            ),
        ),
        (
            r#""a" ("b" within 3)"#,
            sequence([word("a"), words(word("b"), 3)]),
        ),
    ]);
}

#[test]
fn tags_stand_for_units_and_their_ends() {
    check([
        (
            "<s> []* </s>",
            sequence([
                Span::UnitStart(Unit::Sentence),
                repeat(any(), 0, None),
                Span::UnitEnd(Unit::Sentence),
            ]),
        ),
        (
            "<window 50/>+",
            repeat(Span::Unit(Unit::Window(50)), 1, None),
        ),
    ]);
}

#[test]
fn looks_are_empty_spans() {
    let look = |side, is_negated, span: Span| Span::Look {
        side,
        is_negated,
        span: span.into(),
    };
    check([
        (
            r#"(?<= "a") "b" (?! "c" | "d")"#,
            sequence([
                look(Side::Before, false, word("a")),
                word("b"),
                look(
                    Side::After,
                    true,
                    Span::Alternation(vec![word("c"), word("d")]),
                ),
            ]),
        ),
        (
            r#"(?<!"a")(?="b")"#,
            sequence([
                look(Side::Before, true, word("a")),
                look(Side::After, false, word("b")),
            ]),
        ),
    ]);
}

#[test]
fn functions_stand_in_parentheses() {
    let meet = |first: Span, second: Span, left, right| Span::Meet {
        first: first.into(),
        second: second.into(),
        left,
        right,
    };
    let near = |parts: [Span; 2], distance, is_ordered| Span::Near {
        parts: parts.into(),
        distance,
        is_ordered,
    };
    check([
        (r#"(meet "a" "b" -2 3)"#, meet(word("a"), word("b"), -2, 3)),
        (
            r#"MU(meet "a" "b" -2 +3)"#,
            meet(word("a"), word("b"), -2, 3),
        ),
        (
            r#"(meet (union "a" "b") (meet "c" "d" 1 1) -5 5)"#,
            meet(
                Span::Alternation(vec![word("a"), word("b")]),
                meet(word("c"), word("d"), 1, 1),
                -5,
                5,
            ),
        ),
        (
            r#"(near "a" "b" 10)"#,
            near([word("a"), word("b")], 10, false),
        ),
        (
            r#"(ordered "a" ("b" "c")? 10)"#,
            near(
                [
                    word("a"),
                    repeat(sequence([word("b"), word("c")]), 0, Some(1)),
                ],
                10,
                true,
            ),
        ),
        (
            r#"(slop "a" [] 3)"#,
            Span::Slop {
                words: vec![test("a"), WordTest::Any],
                slop: 3,
            },
        ),
    ]);
}

#[test]
fn tab_is_a_sequence_with_gaps() {
    check([
        (
            r#"TAB "a" {1,3} B:"b" "c" * "d""#,
            sequence([
                word("a"),
                repeat(any(), 1, Some(3)),
                capture("B", word("b")),
                word("c"),
                repeat(any(), 0, None),
                word("d"),
            ]),
        ),
        (
            r#"TAB "a" within s"#,
            within(word("a"), Span::Unit(Unit::Sentence), false),
        ),
    ]);
}

#[test]
fn constraints_compare_labels() {
    use Comparison::{Equal, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let value = |capture: &str, folds_case| CaptureValue::Text {
        capture: capture.into(),
        folds_case,
        folds_diacritics: false,
    };
    let same = Constraint::Compare(value("A", false), Equal, value("B", false));
    let frequent = Constraint::Compare(
        CaptureValue::Frequency("A".into()),
        GreaterOrEqual,
        CaptureValue::Number(10),
    );
    let before = Constraint::Compare(
        CaptureValue::Start("A".into()),
        Less,
        CaptureValue::End("B".into()),
    );
    for (text, expected) in [
        (":: A.word = B.word", same.clone()),
        ("& A.word = B.word", same.clone()),
        (
            "& A.lc != B.lc",
            Constraint::Compare(value("A", true), NotEqual, value("B", true)),
        ),
        (
            ":: A.word = \"x\"",
            Constraint::Compare(value("A", false), Equal, CaptureValue::Literal(b"x".into())),
        ),
        (
            ":: l\"x.\" = A.word %c",
            Constraint::Compare(CaptureValue::Literal(b"x.".into()), Equal, value("A", true)),
        ),
        ("& f(A.word) >= 10", frequent.clone()),
        ("& f(A) >= 10", frequent.clone()),
        (
            ":: dist(A, B) <= -3",
            Constraint::Compare(
                CaptureValue::Distance("A".into(), "B".into()),
                LessOrEqual,
                CaptureValue::Number(-3),
            ),
        ),
        (
            "& (!start(A) < end(B) | A.word = B.word) & f(A) >= 10",
            Constraint::All(vec![
                Constraint::AnyOf(vec![Constraint::Not(before.into()), same]),
                frequent,
            ]),
        ),
    ] {
        let text = format!("A:[] B:[] {text}");
        let query = query(&text);
        assert_eq!(query.constraint, Some(expected), "{text}");
        assert_eq!(parse(&query.to_string()), Ok(query), "{text}");
    }
}

#[test]
fn an_and_before_a_constraint_is_no_intersection() {
    let one = query(r#"A:[] & "b" & A.word = "b""#);
    let operands = vec![capture("A", any()), word("b")];
    assert_eq!(one.span, Span::Intersection(operands));
    assert!(one.constraint.is_some());
    let numbers = query("1:[] 2:[] & 1.word = 2.word");
    assert!(numbers.constraint.is_some());
}

#[test]
fn strategies_and_show_stand_around_the_query() {
    for (text, strategy) in [
        ("[]", Strategy::Shortest),
        ("(?shortest) []", Strategy::Shortest),
        ("(?standard) []", Strategy::Shortest),
        ("(?longest) []", Strategy::Longest),
        ("(?all)[];", Strategy::All),
    ] {
        let query = query(text);
        assert_eq!(query.strategy, strategy);
        assert_eq!(parse(&query.to_string()), Ok(query));
    }
    let shown = |text| query(text).show.unwrap();
    assert_eq!(shown("A:[] []* B:[] show A..B"), ("A".into(), "B".into()));
    assert_eq!(shown("A:[] show A"), ("A".into(), "A".into()));
}

#[test]
fn faults_have_a_place_and_mostly_a_remedy() {
    let long = format!("\"{}\"", "a".repeat(1 << 18));
    let deep = "(".repeat(100);
    for (text, expected) in [
        ("", "1:1: expected a pattern, found the end of the query"),
        (
            "the",
            "1:1: expected a pattern, found `the`; hint: words stand in quotes: \"word\"",
        ),
        (
            "\u{e4}",
            "1:1: expected a pattern, found `\u{e4}`; hint: words stand in quotes: \"word\"",
        ),
        (
            "\"a",
            "1:1: expected `\"` at the end of the string, found the end of the query",
        ),
        (
            "(\"a\"",
            "1:1: expected `)` for this, found the end of the query",
        ),
        ("\"a\" )", "1:5: expected the end of the query, found `)`"),
        (
            "[lemma = \"a\"]",
            "1:2: no such attribute `lemma`; hint: attributes are word, lc, gap or before, after, position, offset and f(word)",
        ),
        (
            "[word < \"a\"]",
            "1:7: texts are compared by =, !=, == and !==; hint: position, offset and f(word) are numbers",
        ),
        (
            "[position = \"a\"]",
            "1:13: expected a number, found `\"a\"`",
        ),
        (
            "[position = 99999999999999999999]",
            "1:13: `99999999999999999999` is too large for a number",
        ),
        ("\"a\"{3,2}", "1:8: at most is less than at least"),
        ("\"a\n(b\"", "2:1: not a pattern: unclosed group"),
        ("'\\\"x(b'", "1:5: not a pattern: unclosed group"),
        (
            "\"*a\"",
            "1:2: not a pattern: repetition operator missing expression; hint: a backslash stands before a character that stands for itself",
        ),
        (
            "l\"a\\d\"",
            "1:4: not a pattern: a backslash before a character that needs none; hint: `\\\\` is a backslash, `\\xHH` a byte",
        ),
        ("\"a\"~3", "1:2: the number of edits exceeds the limit of 2"),
        (
            "\"a\"%x",
            "1:4: expected flags, found `%x`; hint: flags are %c, which ignores case, %d, which ignores diacritics, and %l, for literal texts",
        ),
        (
            "\"a\" !(\"b\" \"c\")",
            "1:5: `!` stands before more than one word; hint: a complement is an operand of `&`, as in []{2} & !(\"a\" \"b\")",
        ),
        (
            "!\"a\" & !\"b\"",
            "1:1: `&` takes at least one set that is no complement; hint: []{1,5} & !a & !b are up to 5 words",
        ),
        (
            "\"a\" within q",
            "1:12: no such unit `q`; hint: units are file, record, line, paragraph or p, sentence or s, and window N",
        ),
        (
            "\"a\" within 3 s",
            "1:14: expected the end of the filter, found `s`; hint: `within 5` are 5 words, `within s` is one sentence",
        ),
        (
            "<s type=\"x\">",
            "1:4: expected `>`, found `type`; hint: units have no attributes",
        ),
        ("<window 0/>", "1:9: a window has at least one word"),
        (
            "(foo \"a\" \"b\")",
            "1:2: no such function `foo`; hint: functions are meet, union, near, ordered and slop, and words stand in quotes: \"word\"",
        ),
        (
            "(meet \"a\" \"b\" 3 2)",
            "1:7: the window ends before it begins",
        ),
        (
            "(?best) []",
            "1:3: expected a strategy, found `best`; hint: strategies are (?shortest), which (?standard) is too, (?longest) and (?all)",
        ),
        (
            "A:[] & B.word = \"x\"",
            "1:8: no such label `B`; hint: B:[] gives a word a label, B:(...) a span",
        ),
        (
            "A:[] show B",
            "1:11: no such label `B`; hint: B:[] gives a word a label, B:(...) a span",
        ),
        (
            "(A:[] & A.word = \"x\")",
            "1:7: expected `)`, found `&`; hint: a constraint stands at the end of the query",
        ),
        (
            "A:[] & A.pos = \"x\"",
            "1:10: expected an attribute of the label, found `pos`; hint: attributes of labels are word and lc; f(A), start(A), end(A) and dist(A, B) are numbers",
        ),
        (
            "A:[] & A.word = 3",
            "1:18: a text is compared with a number",
        ),
        (
            "A:[] & A.word = \"x.*\"",
            "1:17: a constraint compares with a text, not with a pattern; hint: a pattern stands at the word, A:[word = \"a.*\"], and l\"...\" is a text",
        ),
        (
            long.as_str(),
            "1:1: the number of bytes of a query exceeds the limit of 262144",
        ),
        (
            deep.as_str(),
            "1:33: the depth of the query exceeds the limit of 32",
        ),
    ] {
        let shown: String = text.chars().take(40).collect();
        let error = parse(text).expect_err(&shown).to_string();
        assert_eq!(error, expected, "{shown}");
    }
}

#[test]
fn depth_and_size_are_limited_however_they_arise() {
    for (begin, more, end) in [
        ("", "(", ""),
        ("", "!(", ""),
        ("", "A:", "[]"),
        ("", "(?=", ""),
        ("[]", " within []", ""),
        ("[]", " !containing 1:[]", ""),
        ("[", "!", "[]]"),
        ("[", "(", ""),
        ("A:[] :: ", "!", "f(A) = 1"),
        ("A:[] & ", "(", ""),
        ("", "(meet ", ""),
        ("", "TAB ", ""),
    ] {
        let text = format!("{begin}{}{end}", more.repeat(10_000));
        let error = parse(&text).unwrap_err().to_string();
        let is_limit = error.contains("the depth of the query exceeds the limit");
        assert!(
            is_limit || more == "TAB " || begin == "A:[] & ",
            "{more}: {error}"
        );
    }
    for (begin, end) in [
        ("(\"a\" ", ")"),
        ("(\"b\" | ", ")+"),
        ("[] & !(\"a\" ", ")"),
        ("A:", ""),
        ("(?= ", " within \"a\")"),
        ("", " !within (\"a\" containing s)"),
        ("(meet ", " \"a\" -1 1)"),
    ] {
        let deepest = (1..40).rev().find_map(|depth| {
            parse(&format!("{}[]{}", begin.repeat(depth), end.repeat(depth))).ok()
        });
        let deepest = deepest.unwrap();
        assert_eq!(parse(&deepest.to_string()), Ok(deepest), "{begin}");
    }
    let regexes = "\"a.\" ".repeat(40_000);
    let error = parse(&regexes).unwrap_err().to_string();
    assert!(
        error
            .ends_with("the number of bytes of all regular expressions exceeds the limit of 65536")
    );
    parse(&"\"a\" ".repeat(60_000)).unwrap();
}
