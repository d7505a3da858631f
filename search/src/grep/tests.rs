//! Matches are those of the crate `regex`, whatever the windows and the automata.

#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::ops::Range;

use proptest::prelude::*;
use regex_automata::meta;
use regex_syntax::ParserBuilder;

use super::{
    GrepAutomaton, GrepSearch, GrepText, Resumption, StepTable, TOGETHER_MAX, WindowSizes,
};

/// A text in memory that is read in small windows, and passes over a few bytes at a time.
struct SmallWindows {
    bytes: Vec<u8>,
    sizes: WindowSizes,
    passed: u64,
}

impl GrepText for SmallWindows {
    type Error = Infallible;

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn window_sizes(&self) -> WindowSizes {
        self.sizes
    }

    fn read(&mut self, range: Range<u64>, bytes: &mut Vec<u8>) -> Result<(), Infallible> {
        bytes.clear();
        bytes.extend_from_slice(&self.bytes[range.start as usize..range.end as usize]);
        Ok(())
    }

    fn pass(&mut self, table: &StepTable, state: u16, at: u64) -> Result<(u16, u64), Infallible> {
        let end = self.len().min(at + self.passed);
        let bytes = &self.bytes[at as usize..end as usize];
        let passed = table.read(state, bytes);
        Ok(passed.map_or((state, at), |state| (state, end)))
    }

    fn check(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Expressions with what automata differ in: anchors, word boundaries, classes, preferences, empty matches.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "a",
        "b",
        "ab",
        "\\n",
        ".",
        "\\w",
        "\\W",
        "\\s",
        "\\b",
        "\\B",
        "^",
        "$",
        "\\A",
        "\\z",
        "[^a]",
        "\u{e9}",
        "(?-u:\\b)",
        "(?-u:\\xff)",
        "\\d",
        "(?i:AB)",
        "(?m:^)",
        "(?m:$)",
        "(?s:.)",
        "\\b{start}",
        "\\b{end-half}",
        "",
    ]);
    let leaf = leaf.prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            prop::collection::vec(inner.clone(), 1..4)
                .prop_map(|parts| format!("(?:{})", parts.join("|"))),
            (
                inner,
                prop::sample::select(vec!["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}"])
            )
                .prop_map(|(inner, times)| format!("(?:{inner}){times}")),
        ]
    })
}

fn texts() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        &b"a"[..],
        b"b",
        b"ab",
        b" ",
        b"\n",
        b"\r\n",
        "\u{e9}".as_bytes(),
        "\u{4e2d}".as_bytes(),
        b"\xff",
        b"0",
        b"_",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn matches(automaton: &GrepAutomaton, mut text: SmallWindows) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut place = Resumption::default();
    loop {
        // Each search is resumed after some matches.
        let mut search = GrepSearch::new(automaton, &mut text, place);
        for _ in 0..3 {
            let Ok(next) = search.next_match();
            match next {
                Some(next) => found.push(next),
                None => return found,
            }
        }
        place = search.place();
    }
}

fn check(pattern: &str, bytes: &[u8], sizes: WindowSizes, passed: u64) {
    let parser = ParserBuilder::new().utf8(false).build().parse(pattern);
    let Ok(hir) = parser else { return };
    let config = meta::Config::new().utf8_empty(false);
    let mut builder = meta::Builder::new();
    let regex = builder.configure(config).build_from_hir(&hir).unwrap();
    let expected: Vec<Range<u64>> = (regex.find_iter(bytes))
        .map(|found| found.start() as u64..found.end() as u64)
        .collect();
    let mut automaton = GrepAutomaton::new(&hir, 1 << 16).unwrap();
    let text = || SmallWindows {
        bytes: bytes.to_vec(),
        sizes,
        passed,
    };
    assert_eq!(
        matches(&automaton, text()),
        expected,
        "{pattern:?} by its table"
    );
    count(&automaton, pattern, bytes, expected.len() as u64);
    automaton.drop_table();
    assert_eq!(
        matches(&automaton, text()),
        expected,
        "{pattern:?} by lazy states"
    );
    automaton.drop_automata();
    assert_eq!(
        matches(&automaton, text()),
        expected,
        "{pattern:?} by simulation"
    );
}

/// Counts matches in one piece, and in pieces that are read from several states at once.
fn count(automaton: &GrepAutomaton, pattern: &str, bytes: &[u8], expected: u64) {
    let Some(counter) = automaton.counter() else {
        return;
    };
    let Some((state, decided)) = counter.read(counter.start(), bytes) else {
        return;
    };
    assert_eq!(
        u64::from(decided) + counter.end(state),
        expected,
        "{pattern:?} counted"
    );
    let mut states = vec![counter.start()];
    let (mut state, mut sum) = (counter.start(), 0);
    for piece in bytes.chunks(3) {
        let (next, decided) = counter.read(state, piece).unwrap();
        if let Some(together) = counter.read_together(&states, piece) {
            assert_eq!(together, (next, decided), "{pattern:?} from {states:?}");
        }
        if !states.contains(&next) && states.len() < TOGETHER_MAX {
            states.push(next);
        }
        (state, sum) = (next, sum + decided);
    }
    assert_eq!(sum, decided, "{pattern:?} in pieces");
}

#[test]
fn most_expressions_are_counted_to_the_end() {
    let text = b"the cats, the RFC2119 and the rat; a.the\n";
    for (pattern, expected) in [
        ("the", 4),
        ("\\bthe\\b", 4),
        ("[A-Z]{3,}[0-9]+", 1),
        ("(?i)rfc|rat", 2),
        ("(?m)the$", 1),
        ("(?:the)[^\n]*", 1),
        ("t[a-z]*", 6),
    ] {
        let parser = ParserBuilder::new().utf8(false).build().parse(pattern);
        let automaton = GrepAutomaton::new(&parser.unwrap(), 1 << 16).unwrap();
        let counter = automaton.counter().unwrap();
        let (state, decided) = counter.read(counter.start(), text).unwrap();
        let found = u64::from(decided) + counter.end(state);
        assert_eq!(found, expected, "{pattern:?}");
    }
    // A second match may be found before it is known whether the first becomes longer.
    let parser = ParserBuilder::new().utf8(false).build().parse("a.*t|a");
    let automaton = GrepAutomaton::new(&parser.unwrap(), 1 << 16).unwrap();
    let counter = automaton.counter().unwrap();
    assert_eq!(counter.read(counter.start(), text), None);
}

#[test]
fn expressions_at_the_start_of_a_text_are_dead_behind_it() {
    for (pattern, text, expected) in [
        ("^The ", "The rest, The ", 1),
        ("^The ", "Other. The ", 0),
        ("\\A\\w+", "word word", 1),
        ("a^b", "a b", 0),
    ] {
        let parser = ParserBuilder::new().utf8(false).build().parse(pattern);
        let automaton = GrepAutomaton::new(&parser.unwrap(), 1 << 16).unwrap();
        let counter = automaton.counter().unwrap();
        let (state, decided) = counter.read(counter.start(), text.as_bytes()).unwrap();
        assert_eq!(u64::from(decided), expected, "{pattern:?}");
        assert!(counter.is_dead(state), "{pattern:?}");
        let table = automaton.table().unwrap();
        let begin = table.start(None);
        let is_dead = table.ends_in(begin, text.as_bytes()) || !table.is_plain(begin);
        assert_eq!(is_dead, expected == 0, "{pattern:?}");
    }
    let parser = ParserBuilder::new().utf8(false).build().parse("(?m)^The ");
    let automaton = GrepAutomaton::new(&parser.unwrap(), 1 << 16).unwrap();
    let counter = automaton.counter().unwrap();
    let (state, decided) = counter.read(counter.start(), b"Other.\nThe ").unwrap();
    assert_eq!(decided + counter.end(state) as u32, 1);
    assert!(!counter.is_dead(state));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn matches_are_those_of_the_crate_regex(
        pattern in expressions(),
        bytes in texts(),
        least in 1..9usize,
        most in 1..40usize,
        passed in 0..9u64,
    ) {
        check(&pattern, &bytes, WindowSizes { least, most: most.max(least) }, passed);
    }
}

#[test]
fn words_are_found_among_characters_that_are_not_ascii() {
    let sizes = WindowSizes {
        least: 16,
        most: 64,
    };
    let text = "caf\u{e9} au lait, \u{e9}t\u{e9} the end; other the\u{301} the".repeat(20);
    for pattern in ["\\bthe\\b", "\\b\\w+\\b", "(?i)\\bCAF\u{c9}\\b", "e\\b"] {
        check(pattern, text.as_bytes(), sizes, 7);
    }
}

#[test]
fn expressions_with_many_states_have_no_table() {
    let parser = ParserBuilder::new()
        .utf8(false)
        .build()
        .parse("(?:a|b)*a(?:a|b){14}");
    let automaton = GrepAutomaton::new(&parser.unwrap(), 1 << 16).unwrap();
    assert!(automaton.table().is_none());
}
