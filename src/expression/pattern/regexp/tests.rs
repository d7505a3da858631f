//! Searches of all kinds compared with one another, the memory of patterns compared with its estimate, and interrupts.

#![allow(clippy::unwrap_used)]

use std::ops::Range;

use proptest::prelude::*;
use regex_automata::nfa::thompson;

use super::*;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::settings::Settings;
use zipfdb_sql::setting::Setting;

fn regexp(pattern: &str) -> Regexp {
    Regexp::new(pattern.as_bytes(), true, &ValueMemory::default()).unwrap()
}

fn memory(bytes: u64) -> ValueMemory {
    let mut settings = Settings::default();
    settings.set(Setting::MemoryLimit(Some(bytes)));
    ValueMemory::new(&settings)
}

/// A match from a byte on by the engines of the crate `regex`, with all its groups.
fn by_whole(regexp: &Regexp, text: &[u8], from: usize) -> Option<MatchGroups> {
    let whole = regexp.0.whole(0, &mut Interrupt::never().pace()).unwrap();
    let regex = whole.expect("the pattern is small");
    let mut captures = regex.create_captures();
    regex.search_captures(&Input::new(text).range(from..), &mut captures);
    let groups = captures.iter().map(|span| span.map(|span| span.range()));
    captures.is_match().then(|| groups.collect())
}

/// The results of searches that poll: the match by DFAs, if they can decide, and all groups by simulation.
fn by_steps(
    regexp: &Regexp,
    text: &[u8],
    from: usize,
) -> (Option<Option<Range<usize>>>, Option<MatchGroups>) {
    let mut pace = Interrupt::never().pace();
    let groups: Vec<usize> = (0..=regexp.group_count()).collect();
    let stepper = regexp.0.stepper(&mut pace).unwrap();
    let place = match stepper.find(text, from, &mut pace).unwrap() {
        DfaAnswer::Yes(place) => Some(Some(place)),
        DfaAnswer::No => Some(None),
        DfaAnswer::Undecided => None,
    };
    let search = |range: Range<usize>, is_anchored| RegexpSearch {
        text,
        range,
        is_anchored,
        groups: &groups,
        is_earliest: false,
    };
    let simulated = stepper
        .simulate(&search(from..text.len(), false), &mut pace)
        .unwrap();
    if let Some(Some(place)) = &place {
        let anchored = stepper.simulate(&search(place.clone(), true), &mut pace);
        assert_eq!(anchored.unwrap(), simulated);
    }
    let is_match = stepper.is_match(&text[from..], &mut pace).unwrap();
    assert!(from > 0 || is_match == simulated.is_some());
    (place, simulated)
}

fn assert_same(pattern: &str, text: &[u8], from: usize) {
    let regexp = regexp(pattern);
    let expected = by_whole(&regexp, text, from);
    let (place, simulated) = by_steps(&regexp, text, from);
    let context = || {
        format!(
            "{pattern:?} from {from} in {:?}",
            &text[..text.len().min(200)]
        )
    };
    assert_eq!(simulated, expected, "{}", context());
    let whole = expected.as_ref().map(|groups| groups[0].clone().unwrap());
    assert!(place.is_none_or(|place| place == whole), "{}", context());
    let groups: Vec<usize> = (0..=regexp.group_count()).collect();
    let found = regexp.groups(text, from, &groups, &mut Interrupt::never().pace());
    assert_eq!(found.unwrap(), expected, "{}", context());
}

const PATTERNS: [&str; 32] = [
    "dog",
    "dog$",
    "(?m)dog$",
    "^The",
    "^dog",
    r"\Adog",
    r"dog\z",
    r"\bdog\b",
    r"(?-u:\b)dog",
    "(?i)(DOG)|bird",
    r"([a-z]+) ([0-9]{3})",
    "",
    "$",
    "^$",
    "(?s)The.*(d)og",
    "The.*?(dog)?",
    r"(?-u:\xff)+",
    r"\p{Greek}",
    r"(\w+)\s(\W)",
    "x{0,40}y{3}",
    r"(?m)^\s*$",
    r"[^\x00-\x{10ffff}]",
    r"\B17",
    "m.t",
    r"(?-u:m.t)",
    "(a|ab)(c|bcd)(d*)",
    "(c.t|ca)?(t)",
    r"\b(\w+)\b.*\b17\b",
    r"(?:(a)|b|(c))*?d",
    "(T|he|The)(.|cat)",
    r"\b",
    r"(?i)na\u{cf}ve(;?)",
];

#[test]
fn all_searches_of_a_long_text_agree() {
    let line = "The cat sat on the m\u{e4}t.\nIt \u{2019}s 17 \u{130}stanbul na\u{ef}ve; ";
    let lines = line.repeat(LONG_TEXT / line.len() / 8);
    for tail in [&b""[..], b"dog", b"\xff\xfe dog\n", b"abcd\n"] {
        let text = [lines.as_bytes(), tail].concat();
        for pattern in PATTERNS {
            for from in [0, 1, text.len() - tail.len().min(3), text.len()] {
                assert_same(pattern, &text, from);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn all_searches_agree(
        parts in proptest::collection::vec(
            prop::sample::select(vec![
                "a", "b", "(a)", "(b|ab)", "[ab]", "(?:a|(b))", ".", "\u{e4}", r"\b", "^", "$", "x?", "(?-u:.)",
                r"\w", "(?i:A)", "|",
            ]),
            1..6,
        ),
        repeats in proptest::collection::vec(prop::sample::select(vec!["", "", "*", "+?", "{2}", "?", "{0,2}?"]), 6),
        text in proptest::collection::vec(
            prop::sample::select(vec![&b"a"[..], b"b", b"ab", "\u{e4}".as_bytes(), b"\xc3", b" ", b"x", b"\n", b"A"]),
            0..12,
        ),
        from in 0..6usize,
    ) {
        let is_repeatable = |part: &str| !matches!(part, "|" | "^" | "$" | r"\b");
        let pattern: String = parts.iter().zip(&repeats).map(|(part, repeat)| {
            if is_repeatable(part) { format!("{part}{repeat}") } else { (*part).to_owned() }
        }).collect();
        let text = text.concat();
        assert_same(&pattern, &text, from.min(text.len()));
    }
}

/// Compares the estimate of compiling with the memory of the automata.
fn assert_within_cost(pattern: &str) {
    let parsed = parse(pattern, u64::MAX).unwrap();
    let compile = |config: thompson::Config| {
        let mut compiler = thompson::Compiler::new();
        compiler.configure(config.utf8(false));
        compiler.build_from_hir(&parsed.hir).unwrap()
    };
    let forwards = compile(thompson::Config::new());
    let (states, bytes) = (
        forwards.states().len() as u64,
        forwards.memory_usage() as u64,
    );
    assert!(
        states <= parsed.cost.states,
        "{pattern:.60}: {states} of {:?}",
        parsed.cost
    );
    assert!(
        bytes <= parsed.cost.bytes,
        "{pattern:.60}: {bytes} of {:?}",
        parsed.cost
    );
    let backwards = thompson::Config::new().reverse(true);
    let backwards = compile(backwards.which_captures(WhichCaptures::None));
    let bytes = backwards.memory_usage() as u64;
    assert!(
        bytes <= 2 * parsed.cost.bytes,
        "{pattern:.60}: {bytes} of {:?}",
        parsed.cost
    );
}

#[test]
fn no_pattern_takes_more_than_was_said() {
    for pattern in PATTERNS {
        assert_within_cost(pattern);
    }
    for class in [
        "a",
        ".",
        "(?s:.)",
        r"\w",
        r"\W",
        r"\d",
        r"\pL",
        r"\PL",
        r"(?i:\pL)",
        "(?i:k)",
        "[a-c]",
        "[^a]",
        "[\u{e9}\u{e0}\u{fc}\u{df}\u{f8}\u{f1}]",
        r"[\w--\pL]",
        "[\u{801}\u{843}\u{885}\u{8c7}]",
        r"(?-u:\w)",
        "(?-u:[^a])",
        "(a)",
        "(?:a|bc)",
        "(?:a|b|\u{e4}|)",
        "a?",
        "(?:a*)",
        "(a+?)*",
        "",
        r"\b",
        "(?:^|$)",
        "(?i:stra\u{df}e)",
        "(?:ab|cd|ef|gh){0,3}",
    ] {
        for count in [1, 2, 50] {
            assert_within_cost(&class.repeat(count));
            assert_within_cost(&format!("(?:{class}){{{count}}}"));
            assert_within_cost(&format!("(?:(?:{class}){{1,3}}|x){{0,{count}}}"));
        }
    }
    let words: Vec<String> = (0..2_000).map(|word| format!("w{word}")).collect();
    assert_within_cost(&words.join("|"));
}

#[test]
fn a_large_pattern_is_searched_for_where_memory_allows_it() {
    let text = "\u{e4}".repeat(300);
    let mut pace = Interrupt::never().pace();
    for (pattern, expected) in [
        (r"^\w{300}$", true),
        (r"\w{301}", false),
        (r"(\w{100})(\w)\w{150}$", true),
    ] {
        let regexp = regexp(pattern);
        assert!(regexp.0.whole(1, &mut pace).unwrap().is_none());
        assert_eq!(
            regexp.matches(text.as_bytes(), &mut pace).unwrap(),
            expected
        );
    }
    let groups = regexp(r"(\w{100})(\w)\w{150}$").groups(text.as_bytes(), 0, &[2, 0], &mut pace);
    assert_eq!(groups.unwrap().unwrap(), [Some(298..300), Some(98..600)]);
    let refused = |pattern: &str| {
        let refused = Regexp::new(pattern.as_bytes(), false, &memory(16 << 20));
        refused.unwrap_err().to_string()
    };
    let message = refused(r"\w{1000}");
    assert!(
        message.starts_with(
            r#"regular expression "\w{1000}": compiling it exceeds the 16,777,216 bytes"#
        ),
        "{message}"
    );
    assert!(
        message.contains("at character 3; hint: SET memory_limit allows more"),
        "{message}"
    );
    let message = refused(&r"\w{9}".repeat(10_000));
    assert!(message.len() < 600, "{message}");
}

#[test]
fn what_is_compiled_is_counted_as_long_as_it_is_there() {
    let memory = memory(64 << 20);
    let mut pace = Interrupt::never().pace();
    let text = vec![b'a'; LONG_TEXT];
    for (pattern, text) in [
        ("a+b", &text[..9]),
        ("a+b", &text[..]),
        (r"\w{300}b", &text[..9]),
    ] {
        let regexp = Regexp::new(pattern.as_bytes(), false, &memory).unwrap();
        // A pattern is compiled when it is first needed.
        assert_eq!(memory.used(), 0);
        assert!(!regexp.matches(text, &mut pace).unwrap());
        assert!(memory.used() > 10_000, "{pattern}: {}", memory.used());
        drop(regexp);
        assert_eq!(memory.used(), 0, "{pattern}");
    }
    // One of them alone would fit.
    let regexps: Vec<Regexp> = (0..20)
        .map(|number| format!(r"\w{{300}}{number}"))
        .map(|pattern| Regexp::new(pattern.as_bytes(), false, &memory).unwrap())
        .collect();
    let searched = regexps.iter().map(|regexp| regexp.matches(b"a", &mut pace));
    let error = searched.filter_map(Result::err).next().unwrap();
    assert!(
        matches!(
            error,
            Error::TooLarge {
                setting: "memory_limit",
                ..
            }
        ),
        "{error}"
    );
    assert!(memory.used() <= 64 << 20);
}

#[test]
fn a_small_limit_has_room_for_patterns_as_they_are_written() {
    let memory = memory(1 << 20);
    let mut pace = Interrupt::never().pace();
    let regexps: Vec<Regexp> = (0..15)
        .map(|number| format!(r"^(\w+\s*,\s*){{2}}[a-z]+{number}$"))
        .map(|pattern| Regexp::new(pattern.as_bytes(), true, &memory).unwrap())
        .collect();
    for regexp in &regexps {
        assert!(!regexp.matches(b"one, two", &mut pace).unwrap());
    }
}

#[test]
fn groups_by_the_thousand_take_no_table_of_all() {
    let pattern = "(a)".repeat(5_000);
    let memory = memory(64 << 20);
    let regexp = Regexp::new(pattern.as_bytes(), true, &memory).unwrap();
    let mut pace = Interrupt::never().pace();
    let text = vec![b'a'; 5_001];
    let groups = regexp
        .groups(&text, 1, &[0, 5_000, 5_001], &mut pace)
        .unwrap();
    assert_eq!(groups.unwrap(), [Some(1..5_001), Some(5_000..5_001), None]);
    assert!(memory.used() < 16 << 20, "{}", memory.used());
}

#[test]
fn a_search_ends_with_an_interrupt() {
    let interrupt = Interrupt::never();
    interrupt.handle().interrupt();
    let text = "abcdefgh ".repeat(1 << 14);
    let accents = "\u{e4}b ".repeat(1 << 14);
    for (pattern, text) in [
        ("[a-q][^u-z]{13}x", &text),
        (r"\w{50}\b[^a]{13}x", &accents),
        ("(a?){20000}x", &text),
        (r"^\w{300}x", &text),
        ("no", &text),
    ] {
        let regexp = regexp(pattern);
        // Compiling polls at its begin, and is done here.
        regexp.0.stepper(&mut Interrupt::never().pace()).unwrap();
        let stepper = regexp
            .0
            .stepper
            .get_or_build(|| unreachable!("it is built"))
            .unwrap();
        let mut pace = interrupt.pace();
        let found = stepper.is_match(text.as_bytes(), &mut pace);
        assert!(matches!(found, Err(Error::Interrupted)), "{pattern}");
        let found = regexp.groups(text.as_bytes(), 0, &[0], &mut pace);
        assert!(matches!(found, Err(Error::Interrupted)), "{pattern}");
    }
    // A text that is searched as a whole counts by the states.
    let regexp = regexp("(?:ab?){3000}x");
    let mut pace = Interrupt::never().pace();
    regexp.0.whole(1, &mut pace).unwrap().expect("it is small");
    let polled = (0..100).find_map(|_| {
        regexp
            .matches(&text.as_bytes()[..5_000], &mut interrupt.pace())
            .err()
    });
    assert!(matches!(polled, Some(Error::Interrupted)));
}
