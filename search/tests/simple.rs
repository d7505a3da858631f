//! The simple language: what each construct means, what is wrong, and what the lenient mode makes of that.

use std::ops::Range;

use zipfdb_search::algebra::{Pattern, Span, TextTest, WordTest};
use zipfdb_search::simple::{
    FileQuery, LenientQuery, Operator, QueryOptions, Tokenize, parse, parse_lenient,
};

/// Words are runs of letters and digits.
pub(crate) struct RunsOfLetters;

impl Tokenize for RunsOfLetters {
    fn words(&self, text: &str) -> Vec<Range<usize>> {
        let runs = text.split(|character: char| !character.is_alphanumeric());
        let runs = runs.filter(|run| !run.is_empty());
        let start = |run: &str| run.as_ptr() as usize - text.as_ptr() as usize;
        runs.map(|run| start(run)..start(run) + run.len()).collect()
    }
}

fn options() -> QueryOptions {
    QueryOptions::default()
}

fn folded(pattern: Pattern) -> TextTest {
    TextTest {
        pattern,
        folds_case: true,
        folds_diacritics: false,
    }
}

fn literal(word: &str) -> TextTest {
    folded(Pattern::Literal(word.into()))
}

fn prefix(word: &str) -> TextTest {
    folded(Pattern::Prefix(word.into()))
}

fn word(word: &str) -> FileQuery {
    FileQuery::Word(literal(word))
}

fn words(words: &[&str]) -> Vec<FileQuery> {
    words.iter().map(|text| word(text)).collect()
}

fn phrase(words: &[&str], slop: u32) -> FileQuery {
    let words = words.iter().map(|word| literal(word)).collect();
    FileQuery::Phrase { words, slop }
}

fn or(queries: Vec<FileQuery>, minimum: u32) -> FileQuery {
    FileQuery::Or { queries, minimum }
}

fn not(query: FileQuery) -> FileQuery {
    FileQuery::Not(query.into())
}

fn boost(query: FileQuery, factor: f32) -> FileQuery {
    let query = query.into();
    FileQuery::Boost { query, factor }
}

fn field(name: &str, pattern: Pattern) -> FileQuery {
    let name = name.to_owned();
    FileQuery::Field { name, pattern }
}

fn query(text: &str, options: &QueryOptions) -> FileQuery {
    parse(text, options, &RunsOfLetters).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn check<const N: usize>(cases: [(&str, FileQuery); N]) {
    for (text, expected) in cases {
        assert_eq!(query(text, &options()), expected, "{text}");
    }
}

fn check_and<const N: usize>(cases: [(&str, FileQuery); N]) {
    let options = QueryOptions {
        operator: Operator::And,
        ..options()
    };
    for (text, expected) in cases {
        assert_eq!(query(text, &options), expected, "{text}");
    }
}

#[test]
fn terms_are_cut_by_the_tokenizer() {
    check([
        ("cat", word("cat")),
        (" cat ", word("cat")),
        ("cat's", phrase(&["cat", "s"], 0)),
        ("and/or", phrase(&["and", "or"], 0)),
        ("cat...", word("cat")),
        ("10:30", phrase(&["10", "30"], 0)),
        ("a\\:b", phrase(&["a", "b"], 0)),
        ("-7 +x", { FileQuery::And(vec![word("x"), not(word("7"))]) }),
        ("AND\\-gate", phrase(&["AND", "gate"], 0)),
        ("*", FileQuery::All),
    ]);
}

#[test]
fn patterns_are_of_one_word() {
    let one = |pattern| FileQuery::Word(folded(pattern));
    let mixed = |words| FileQuery::Phrase { words, slop: 0 };
    check([
        ("pre*", one(Pattern::Prefix(b"pre".into()))),
        ("*wild?card*", one(Pattern::Wildcard(b"*wild?card*".into()))),
        ("a\\*b?", one(Pattern::Wildcard(b"a\\*b?".into()))),
        ("big-ba*", mixed(vec![literal("big"), prefix("ba")])),
        ("big-*", mixed(vec![literal("big"), prefix("")])),
        ("/gr[ae]y/", one(Pattern::Regex("gr[ae]y".into()))),
        ("/gray/", word("gray")),
        (
            "/(?-i)gr.y/",
            FileQuery::Word(TextTest {
                folds_case: false,
                ..folded(Pattern::Regex("gr.y".into()))
            }),
        ),
        (
            "colour~1",
            one(Pattern::Fuzzy {
                text: b"colour".into(),
                edits: 1,
            }),
        ),
    ]);
}

#[test]
fn phrases_have_wildcards_and_slop() {
    let mixed = |words| FileQuery::Phrase { words, slop: 0 };
    check([
        ("\"the cat\"", phrase(&["the", "cat"], 0)),
        ("\"the, cat's\"", phrase(&["the", "cat", "s"], 0)),
        ("\"the cat\"~3", phrase(&["the", "cat"], 3)),
        ("\"cat\"", word("cat")),
        ("\"a \\\" b\"", phrase(&["a", "b"], 0)),
        (
            "\"big ba* wo?f * x\"",
            mixed(vec![
                literal("big"),
                prefix("ba"),
                folded(Pattern::Wildcard(b"wo?f".into())),
                prefix(""),
                literal("x"),
            ]),
        ),
    ]);
}

#[test]
fn near_takes_words_and_phrases() {
    let near = |phrases: &[&[&str]], distance| FileQuery::Near {
        phrases: phrases
            .iter()
            .map(|words| words.iter().map(|word| literal(word)).collect())
            .collect(),
        distance,
    };
    check([
        ("NEAR(a b)", near(&[&["a"], &["b"]], 10)),
        ("NEAR(a \"b c\", 5)", near(&[&["a"], &["b", "c"]], 5)),
        (
            "NEAR(a \"b c\" d-e,5)",
            near(&[&["a"], &["b", "c"], &["d", "e"]], 5),
        ),
    ]);
}

#[test]
fn terms_side_by_side_are_alternatives_unless_signs_say_more() {
    check([
        ("a b", or(words(&["a", "b"]), 1)),
        ("a OR b", or(words(&["a", "b"]), 1)),
        ("a AND b", FileQuery::And(words(&["a", "b"]))),
        (
            "a b AND c",
            or(vec![word("a"), FileQuery::And(words(&["b", "c"]))], 1),
        ),
        ("+a +b", FileQuery::And(words(&["a", "b"]))),
        (
            "+a b c",
            FileQuery::And(vec![word("a"), or(words(&["b", "c"]), 0)]),
        ),
        (
            "a b -c",
            FileQuery::And(vec![or(words(&["a", "b"]), 1), not(word("c"))]),
        ),
        ("a NOT b", FileQuery::And(vec![word("a"), not(word("b"))])),
        (
            "a AND NOT b",
            FileQuery::And(vec![word("a"), not(word("b"))]),
        ),
        ("a OR NOT b", or(vec![word("a"), not(word("b"))], 1)),
        ("NOT a", not(word("a"))),
        (
            "(a OR b) AND (c d)",
            FileQuery::And(vec![or(words(&["a", "b"]), 1), or(words(&["c", "d"]), 1)]),
        ),
        (
            "+(a b) -\"c d\"",
            FileQuery::And(vec![or(words(&["a", "b"]), 1), not(phrase(&["c", "d"], 0))]),
        ),
        ("and or not", or(words(&["and", "or", "not"]), 1)),
    ]);
}

#[test]
fn the_default_operator_may_be_and() {
    check_and([
        ("a b", FileQuery::And(words(&["a", "b"]))),
        (
            "a b OR c",
            or(vec![FileQuery::And(words(&["a", "b"])), word("c")], 1),
        ),
        ("+a b", FileQuery::And(words(&["a", "b"]))),
        ("a -b", FileQuery::And(vec![word("a"), not(word("b"))])),
        ("-a", not(word("a"))),
        ("-a OR b", or(vec![not(word("a")), word("b")], 1)),
        ("(a b c)@2", or(words(&["a", "b", "c"]), 2)),
    ]);
}

#[test]
fn groups_ask_for_a_number_of_terms() {
    check([
        ("(a b c)@2", or(words(&["a", "b", "c"]), 2)),
        (
            "(+a b c -d)@1",
            FileQuery::And(vec![word("a"), or(words(&["b", "c"]), 1), not(word("d"))]),
        ),
    ]);
}

#[test]
fn boosts_multiply_scores() {
    check([
        ("a^2", boost(word("a"), 2.0)),
        ("\"a b\"~1^0.5", boost(phrase(&["a", "b"], 1), 0.5)),
        ("(a b)^3 c", {
            or(vec![boost(or(words(&["a", "b"]), 1), 3.0), word("c")], 1)
        }),
    ]);
}

#[test]
fn fields_are_plain_data() {
    check([
        (
            "file:a.txt",
            field("file", Pattern::Literal(b"a.txt".into())),
        ),
        (
            "file:docs/*",
            field("file", Pattern::Prefix(b"docs/".into())),
        ),
        (
            "file:*.md",
            field("file", Pattern::Wildcard(b"*.md".into())),
        ),
        (
            "file:\"a b*\"",
            field("file", Pattern::Literal(b"a b*".into())),
        ),
        ("year:/19../", field("year", Pattern::Regex("19..".into()))),
        (
            "cat -file:\"/x\"",
            FileQuery::And(vec![
                word("cat"),
                not(field("file", Pattern::Literal(b"/x".into()))),
            ]),
        ),
    ]);
    let known = QueryOptions {
        fields: Some(vec!["file".into(), "year".into()]),
        ..options()
    };
    assert!(parse("year:1990", &known, &RunsOfLetters).is_ok());
    let error = parse("a yaer:1990", &known, &RunsOfLetters).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1:3: no such field `yaer`; hint: fields: file, year; a colon of a text stands after a backslash"
    );
    let lenient = parse_lenient("yaer:1990", &known, &RunsOfLetters);
    assert_eq!(lenient.query, phrase(&["yaer", "1990"], 0));
    assert_eq!(lenient.notices.len(), 1);
}

#[test]
fn leaves_are_spans() {
    let test = |word: &str| WordTest::Text(literal(word));
    let one = |word: &str| Span::Word(test(word));
    let span = |text| query(text, &options()).span();
    assert_eq!(span("a"), Some(one("a")));
    assert_eq!(
        span("\"a b\""),
        Some(Span::Sequence(vec![one("a"), one("b")]))
    );
    let words = vec![test("a"), test("b")];
    assert_eq!(span("\"a b\"~2"), Some(Span::Slop { words, slop: 2 }));
    let parts = vec![one("a"), Span::Sequence(vec![one("b"), one("c")])];
    assert_eq!(
        span("NEAR(a \"b c\", 3)"),
        Some(Span::Near {
            parts,
            distance: 3,
            is_ordered: false
        })
    );
    assert_eq!(span("a b"), None);
}

#[test]
fn case_is_ignored_unless_options_say_no() {
    let exact = QueryOptions {
        folds_case: false,
        folds_diacritics: true,
        ..options()
    };
    let test = TextTest {
        pattern: Pattern::Literal(b"Cat".into()),
        folds_case: false,
        folds_diacritics: true,
    };
    assert_eq!(query("Cat", &exact), FileQuery::Word(test));
}

/// The strict mode's error of each text, and what the lenient mode reads.
#[test]
fn faults_are_errors_or_notices() {
    let deep = "(".repeat(40) + "a";
    for (text, error, lenient) in [
        (
            "",
            "1:1: expected a term, found the end of the query",
            FileQuery::None,
        ),
        ("a )", "1:3: expected a term, found `)`", word("a")),
        (
            "(a",
            "1:1: expected `)` for this, found the end of the query",
            word("a"),
        ),
        ("()", "1:1: `()` holds no word", FileQuery::None),
        (
            "\"a b",
            "1:1: expected `\"` at the end of the phrase, found the end of the query",
            phrase(&["a", "b"], 0),
        ),
        (
            "a AND",
            "1:6: expected a term, found the end of the query",
            word("a"),
        ),
        ("OR a", "1:1: expected a term, found `OR`", word("a")),
        (
            "a AND OR b",
            "1:7: expected a term, found `OR`",
            FileQuery::And(words(&["a", "b"])),
        ),
        ("a & b", "1:3: `&` holds no word", or(words(&["a", "b"]), 1)),
        (
            "NOT -a",
            "1:5: a term has more than one of +, - and NOT; hint: parentheses stand for what is excluded twice: NOT (a -b)",
            not(word("a")),
        ),
        (
            "a~",
            "1:3: expected the number of edits, found the end of the query",
            word("a"),
        ),
        (
            "a~3",
            "1:1: the number of edits exceeds the limit of 2",
            word("a"),
        ),
        (
            "a-b~1",
            "1:1: `a-b` is not one plain word; hint: edits are of one word; a phrase has its slop, \"a b\"~2",
            phrase(&["a", "b"], 0),
        ),
        (
            "a^x",
            "1:3: expected the factor of the score, found `x`",
            or(words(&["a", "x"]), 1),
        ),
        ("^a", "1:1: expected a term, found `^a`", word("a")),
        (
            "/usr/bin",
            "1:6: expected a space after the regular expression, found `bin`; hint: a path stands in quotes: \"/a/b\"",
            phrase(&["usr", "bin"], 0),
        ),
        (
            "/a",
            "1:1: expected `/` at the end of the regular expression, found the end of the query",
            word("a"),
        ),
        (
            "/a[/",
            "1:3: not a pattern: unclosed character class",
            word("a"),
        ),
        (
            "(a b)@3",
            "1:6: 3 of 2 terms cannot be asked for; hint: required and excluded terms do not count",
            or(words(&["a", "b"]), 2),
        ),
        (
            "(a b)@0",
            "1:6: 0 of 2 terms cannot be asked for; hint: required and excluded terms do not count",
            or(words(&["a", "b"]), 1),
        ),
        (
            "NEAR(a)",
            "1:1: NEAR takes at least two words or phrases; hint: NEAR(a \"b c\", 10)",
            word("a"),
        ),
        (
            "NEAR(a b",
            "1:1: expected `)` for this, found the end of the query",
            query("NEAR(a b)", &options()),
        ),
        (
            "NEAR(a b, x)",
            "1:11: expected the distance, found `x`",
            query("NEAR(a b x)", &options()),
        ),
        (
            "\"a b\"~99999999999",
            "1:7: `99999999999` is too large for the slop of the phrase",
            phrase(&["a", "b"], 0),
        ),
        (
            "\"a\"b",
            "1:4: expected a space, found `b`",
            or(words(&["a", "b"]), 1),
        ),
        (
            deep.as_str(),
            "1:33: the depth of the query exceeds the limit of 32",
            word("a"),
        ),
    ] {
        let found = parse(text, &options(), &RunsOfLetters).expect_err(text);
        assert_eq!(found.to_string(), error, "{text}");
        let LenientQuery { query, notices } = parse_lenient(text, &options(), &RunsOfLetters);
        assert_eq!(query, lenient, "{text}");
        assert_eq!(
            notices.first(),
            Some(&found).filter(|_| !text.is_empty()),
            "{text}"
        );
    }
}

#[test]
fn questions_of_end_users_have_no_wildcards() {
    let lenient = |text| parse_lenient(text, &options(), &RunsOfLetters);
    assert_eq!(lenient("why?").query, word("why"));
    assert_eq!(lenient("why?").notices, []);
    assert_eq!(lenient("\"is it?\"").query, phrase(&["is", "it"], 0));
    assert_eq!(lenient("  ").query, FileQuery::None);
}

#[test]
fn large_texts_take_little_time() {
    for piece in [
        "^", "~", "(", ")", "-", "\"", "/", "/a/~", "NEAR(", "a:", ":", "\\", "a AND ", "?", "*a",
        "@",
    ] {
        let text = piece.repeat((1 << 18) / piece.len() + 10);
        let lenient = parse_lenient(&text, &options(), &RunsOfLetters);
        assert!(!lenient.notices.is_empty() && lenient.notices.len() <= 101);
        let error = parse(&text, &options(), &RunsOfLetters).unwrap_err();
        assert_eq!(
            error.to_string(),
            "1:1: the number of bytes of a query exceeds the limit of 262144"
        );
        let _ = parse(&text[..1 << 18], &options(), &RunsOfLetters);
    }
}
