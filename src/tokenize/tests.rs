//! Tokens compared with a naive implementation of the rules, on difficult texts.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};
use unicode_segmentation::UnicodeSegmentation;

/// Printed by every failing property; another value tests other texts.
const SEED: u64 = 20_260_201;

type Token = (bool, Vec<u8>);

/// Characters that join others or separate them, of all kinds.
fn joining_text() -> impl Strategy<Value = String> {
    let characters: Vec<char> = "aZ_07 \t\r\n-@/'\".:,;\u{e9}\u{93e}\u{308}\u{200d}\u{345}\u{5d0}\u{30a2}\u{1f1e6}\u{a0}\u{ad}"
        .chars()
        .collect();
    prop::collection::vec(prop::sample::select(characters), 0..12).prop_map(String::from_iter)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn what_is_never_within_a_word_is_in_none(text in joining_text()) {
        for tokenizer in [Tokenizer::Unicode, Tokenizer::Alnum, Tokenizer::Whitespace] {
            for (start, end) in words(tokenizer, text.as_bytes()) {
                let word = &text[start..end];
                prop_assert!(!is_never_within_word(tokenizer, word), "{tokenizer:?} {word:?}");
            }
        }
    }
}

#[test]
fn what_is_never_within_a_word_is_known_of_ascii() {
    let never = |tokenizer, texts: &[&str]| {
        texts
            .iter()
            .all(|text| is_never_within_word(tokenizer, text))
    };
    assert!(never(
        Tokenizer::Unicode,
        &["a b", "b ", " b", "a@", "-b", "a\tb", ".,"]
    ));
    assert!(never(Tokenizer::Alnum, &["a b", " ", "_", "-", "\u{301}"]));
    assert!(never(Tokenizer::Whitespace, &["a b", " ", "\u{a0}"]));
    for text in ["a", "a'b", "a.b", "1,2", "_", "@", " ", "  ", "\u{e9}"] {
        assert!(!is_never_within_word(Tokenizer::Unicode, text), "{text:?}");
    }
}

#[derive(Default)]
struct Collector(Vec<Token>);

impl Sink for Collector {
    fn word(&mut self, text: &[u8], start: usize, end: usize) {
        self.0.push((true, text[start..end].to_vec()));
    }

    fn gap(&mut self, text: &[u8], start: usize, end: usize) {
        self.0.push((false, text[start..end].to_vec()));
    }
}

fn tokens(tokenizer: Tokenizer, text: &[u8]) -> Vec<Token> {
    let mut collector = Collector::default();
    tokenize(tokenizer, text, &mut collector);
    collector.0
}

fn unicode_words(text: &str) -> Vec<(usize, usize)> {
    text.unicode_word_indices()
        .map(|(start, word)| (start, start + word.len()))
        .collect()
}

fn words(tokenizer: Tokenizer, text: &[u8]) -> Vec<(usize, usize)> {
    let mut words: Vec<(usize, usize)> = Vec::new();
    let mut base = 0;
    for chunk in text.utf8_chunks() {
        let valid = chunk.valid();
        let mut add = |start: usize, size: usize| match words.last_mut() {
            Some(last) if last.1 == start => last.1 += size,
            _ => words.push((start, start + size)),
        };
        match tokenizer {
            Tokenizer::Unicode => words.extend(
                unicode_words(valid)
                    .into_iter()
                    .map(|(start, end)| (base + start, base + end)),
            ),
            Tokenizer::Alnum => valid
                .char_indices()
                .filter(|(_, character)| character.is_alphanumeric())
                .for_each(|(start, character)| add(base + start, character.len_utf8())),
            Tokenizer::Whitespace => {
                valid
                    .char_indices()
                    .filter(|(_, character)| !character.is_whitespace())
                    .for_each(|(start, character)| add(base + start, character.len_utf8()));
                if !chunk.invalid().is_empty() {
                    add(base + valid.len(), chunk.invalid().len());
                }
            }
        }
        base += valid.len() + chunk.invalid().len();
    }
    words
}

fn naive_tokens(tokenizer: Tokenizer, text: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut cursor = 0;
    for (start, end) in words(tokenizer, text).into_iter().chain([(text.len(), 0)]) {
        let space = end > 0 && start > cursor && text[start - 1] == b' ';
        let start = start - usize::from(space);
        for gap in text[cursor..start].chunks(GAP_BYTES_MAX) {
            tokens.push((false, gap.to_vec()));
        }
        if end > 0 {
            tokens.push((true, text[start..end].to_vec()));
            cursor = end;
        }
    }
    tokens
}

fn check(text: &[u8]) -> TestCaseResult {
    for tokenizer in Tokenizer::ALL {
        let tokens = tokens(tokenizer, text);
        let concatenation: Vec<u8> = tokens.iter().flat_map(|token| token.1.clone()).collect();
        prop_assert!(concatenation == text, "{tokenizer} lost bytes");
        prop_assert!(
            tokens == naive_tokens(tokenizer, text),
            "{tokenizer}: {:?} became {:?}, expected {:?}",
            String::from_utf8_lossy(text),
            tokens,
            naive_tokens(tokenizer, text)
        );
        let words = tokens.iter().filter(|(is_word, _)| *is_word).count() as u64;
        prop_assert_eq!(count_words(tokenizer, text), words, "{}", tokenizer);
    }
    Ok(())
}

/// Cuts `text` as reading `size` bytes at a time would; reads more where no place to cut is found.
fn chunked_tokens(tokenizer: Tokenizer, text: &[u8], size: usize) -> Vec<Token> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut end = size;
    while end < text.len() {
        if let Some(size) = chunk_end(tokenizer, &text[start..end]) {
            assert!(size > 0 && size < end - start);
            found.extend(tokens(tokenizer, &text[start..start + size]));
            start += size;
        }
        end += size;
    }
    found.extend(tokens(tokenizer, &text[start..]));
    found
}

fn check_chunks(text: &[u8], sizes: &[usize]) -> TestCaseResult {
    for tokenizer in Tokenizer::ALL {
        let whole = tokens(tokenizer, text);
        for &size in sizes {
            let chunked = chunked_tokens(tokenizer, text, size);
            prop_assert!(
                chunked == whole,
                "{tokenizer}, {size} bytes: {:?} became {:?}, expected {:?}",
                String::from_utf8_lossy(text),
                chunked,
                whole
            );
        }
    }
    Ok(())
}

/// Pieces that the rules treat differently, or that are not text at all.
const PIECES: &[&[u8]] = &[
    b"a",
    b"Z",
    b"word",
    b"0",
    b"42",
    b"_",
    b"'",
    b".",
    b":",
    b",",
    b";",
    b"\"",
    b"-",
    b"(",
    b" ",
    b"  ",
    b"\n",
    b"\r",
    b"\r\n",
    b"\t",
    b"\0",
    b"\x0b",
    b"\x7f",
    // e with acute, sharp s, Cyrillic and Greek letters.
    b"\xc3\xa9",
    b"\xc3\x9f",
    b"\xd0\xb6",
    b"\xce\xa9",
    // Combining acute, Devanagari visarga (a mark that is alphabetic), variation selector, enclosing keycap.
    b"\xcc\x81",
    b"\xe0\xa4\x83",
    b"\xef\xb8\x8f",
    b"\xe2\x83\xa3",
    // Zero width joiner, soft hyphen, no-break space, ideographic space, en quad, next line, line separator.
    b"\xe2\x80\x8d",
    b"\xc2\xad",
    b"\xc2\xa0",
    b"\xe3\x80\x80",
    b"\xe2\x80\x80",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    // Narrow no-break space, the only white space that joins words.
    b"\xe2\x80\xaf",
    // Right single quote, middle dot, fullwidth comma, low line.
    b"\xe2\x80\x99",
    b"\xc2\xb7",
    b"\xef\xbc\x8c",
    b"\xef\xbc\xbf",
    // Heart, man, skin tone, regional indicators.
    b"\xe2\x9d\xa4",
    b"\xf0\x9f\x91\xa8",
    b"\xf0\x9f\x8f\xbd",
    b"\xf0\x9f\x87\xa9",
    b"\xf0\x9f\x87\xaa",
    // Han, Hiragana, Katakana, prolonged sound mark, Hangul, Thai, Hebrew, Arabic.
    b"\xe4\xb8\xad",
    b"\xe3\x81\x82",
    b"\xe3\x82\xab",
    b"\xe3\x83\xbc",
    b"\xed\x95\x9c",
    b"\xe0\xb8\x81",
    b"\xe0\xb8\xb3",
    b"\xd7\x90",
    b"\xd7\xb4",
    b"\xd8\xa7",
    // Arabic-Indic digit, superscript two, one half, Roman numeral.
    b"\xd9\xa1",
    b"\xc2\xb2",
    b"\xc2\xbd",
    b"\xe2\x85\xa7",
    // Not UTF-8: a byte that never occurs, a lone continuation, a cut character, a surrogate, an overlong form, a number too
    // large.
    b"\xff",
    b"\x80",
    b"\xc3",
    b"\xe2\x80",
    b"\xf0\x9f\x91",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"\xf4\x90\x80\x80",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(PIECES);
    prop_oneof![
        6 => piece.clone().prop_map(<[u8]>::to_vec),
        1 => (piece, 1_usize..90).prop_map(|(piece, count)| piece.repeat(count)),
        2 => prop::sample::select(&PIECES[..16]).prop_map(<[u8]>::to_vec),
        1 => any::<char>().prop_map(|character| character.to_string().into_bytes()),
    ]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(piece(), 0..40).prop_map(|pieces| pieces.concat())
}

fn run(cases: u32, property: impl Fn(&[u8]) -> TestCaseResult) {
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&text(), |text| property(&text))
        .map_err(|error| format!("seed {SEED}: {error}"))
        .unwrap();
}

#[test]
fn tokens_are_those_of_the_rules_for_difficult_texts() {
    run(8_000, check);
}

#[test]
fn words_are_those_of_the_reference_for_valid_text() {
    run(4_000, |text| {
        let text = String::from_utf8_lossy(text);
        let reference: Vec<&str> = text.unicode_words().collect();
        let tokens = tokens(Tokenizer::Unicode, text.as_bytes());
        let words: Vec<&str> = tokens
            .iter()
            .filter(|token| token.0)
            .map(|token| &token.1[usize::from(has_glued_space(Tokenizer::Unicode, &token.1))..])
            .map(|word| str::from_utf8(word).unwrap())
            .collect();
        prop_assert_eq!(words, reference);
        Ok(())
    });
}

#[test]
fn chunks_have_the_tokens_of_the_whole() {
    run(1_200, |text| check_chunks(text, &[2, 7, 16, 61, 200]));
}

#[test]
fn a_chunk_does_not_start_with_a_mark_cut_from_its_space() {
    // Narrow no-break space, combining acute, a letter: one segment, whose word starts at the mark.
    let text = b"\xe2\x80\xaf\xcc\x81a\xa0\xd7\x91\xa9\xbf";
    let sizes: Vec<usize> = (1..=text.len()).collect();
    check_chunks(text, &sizes).unwrap();
}

#[test]
fn interned_ids_stand_for_the_tokens() {
    let mut interner = Interner::new();
    let interner = std::cell::RefCell::new(&mut interner);
    run(500, |text| {
        let mut interner = interner.borrow_mut();
        for tokenizer in Tokenizer::ALL {
            tokenize(tokenizer, text, &mut **interner);
            let words = interner.words();
            let (ids, dictionary) = interner.take();
            let interned: Vec<Token> = ids
                .iter()
                .map(|&id| (dictionary.is_word(id), dictionary.token(id).to_vec()))
                .collect();
            let tokens = tokens(tokenizer, text);
            prop_assert_eq!(words, tokens.iter().filter(|token| token.0).count() as u64);
            prop_assert_eq!(interned, tokens);
        }
        Ok(())
    });
}

#[test]
fn many_distinct_tokens_keep_their_ids() {
    let text: String = (0..30_000_u64)
        .map(|number| match number % 3 {
            0 => format!(" {number}"),
            1 => format!(" {:020}", number * number),
            _ => format!("{}{}", "-".repeat((number % 60) as usize + 1), number),
        })
        .collect();
    let mut interner = Interner::new();
    for _ in 0..2 {
        tokenize(Tokenizer::Unicode, text.as_bytes(), &mut interner);
    }
    let (ids, dictionary) = interner.take();
    let (first, second) = ids.split_at(ids.len() / 2);
    assert_eq!(first, second);
    let tokens = tokens(Tokenizer::Unicode, text.as_bytes());
    assert!(
        first
            .iter()
            .map(|&id| dictionary.token(id))
            .eq(tokens.iter().map(|token| &token.1[..]))
    );
    let distinct: std::collections::BTreeSet<Token> = tokens.into_iter().collect();
    assert_eq!(distinct.len(), dictionary.len());
}

#[test]
fn all_short_texts_follow_the_rules() {
    let alphabets: [&[&[u8]]; 4] = [
        &[b"a", b"1", b"_", b".", b",", b" "],
        &[b"a", b":", b"'", b"\n", b"\xc3\xa9", b" "],
        &[b"a", b"\xff", b"\xcc\x81", b".", b"\xe2\x80\x8d", b" "],
        &[b"\xd7\x90", b"'", b"\"", b"\xe0\xa4\x83", b"1", b" "],
    ];
    for alphabet in alphabets {
        for size in 0..6 {
            for number in 0..alphabet.len().pow(size) {
                let mut number = number;
                let mut text = Vec::new();
                for _ in 0..size {
                    text.extend_from_slice(alphabet[number % alphabet.len()]);
                    number /= alphabet.len();
                }
                check(&text).unwrap();
                check_chunks(&text, &[3]).unwrap();
            }
        }
    }
}

#[test]
fn rules_hold_at_every_place_in_a_block() {
    for piece in PIECES {
        for before in 55..70 {
            for filler in [&b"x"[..], b" ", b"_", b"1.1"] {
                let mut text = filler.repeat(before);
                text.truncate(before);
                text.extend_from_slice(piece);
                text.extend_from_slice(b"y.z 3,14 ");
                check(&text).unwrap();
            }
        }
    }
}

#[test]
fn a_space_is_glued_to_the_word_after_it() {
    let token = |is_word: bool, bytes: &[u8]| (is_word, bytes.to_vec());
    assert_eq!(
        tokens(Tokenizer::Unicode, b" The  cat's, 3,14 a.b _x_ __\n"),
        [
            token(true, b" The"),
            token(false, b" "),
            token(true, b" cat's"),
            token(false, b","),
            token(true, b" 3,14"),
            token(true, b" a.b"),
            token(true, b" _x_"),
            token(false, b" __\n"),
        ]
    );
    assert_eq!(
        tokens(Tokenizer::Alnum, b"can't _x_"),
        [
            token(true, b"can"),
            token(false, b"'"),
            token(true, b"t"),
            token(false, b" _"),
            token(true, b"x"),
            token(false, b"_"),
        ]
    );
    assert_eq!(
        tokens(Tokenizer::Whitespace, b"can't\r\n \xff, "),
        [
            token(true, b"can't"),
            token(false, b"\r\n"),
            token(true, b" \xff,"),
            token(false, b" "),
        ]
    );
}

#[test]
fn a_gap_is_cut_at_64_bytes() {
    for size in [0, 1, 63, 64, 65, 128, 200] {
        check(&b" ".repeat(size)).unwrap();
        check(&b"-".repeat(size)).unwrap();
        check(&[&b"a"[..], &b" ".repeat(size), b"b"].concat()).unwrap();
    }
    assert_eq!(tokens(Tokenizer::Unicode, &b" ".repeat(65)).len(), 2);
}

#[test]
fn megabytes_without_a_break_are_tokens_like_any_other() {
    const MEGABYTE: usize = 1 << 20;
    let han = "\u{4e2d}".repeat(MEGABYTE / 3);
    let marks = format!("a.{}b", "\u{301}".repeat(MEGABYTE / 2));
    for text in [
        b"x".repeat(MEGABYTE),
        b"a.".repeat(MEGABYTE / 2),
        b"_".repeat(MEGABYTE),
        b"\0".repeat(MEGABYTE),
        b" ".repeat(MEGABYTE),
        b"\xff".repeat(MEGABYTE),
        b"\xe2\x80".repeat(MEGABYTE / 2),
        "\u{e9}".repeat(MEGABYTE / 2).into_bytes(),
        "\u{1f1e9}".repeat(MEGABYTE / 4).into_bytes(),
        han.into_bytes(),
        marks.into_bytes(),
    ] {
        check(&text).unwrap();
        check_chunks(&text, &[MEGABYTE / 3]).unwrap();
    }
}

#[test]
fn difficult_texts_can_be_cut() {
    let han = "\u{4e2d}".repeat(100);
    for text in [
        &b"one two "[..],
        b"one\ntwo\n",
        b"a.b,c-d,e",
        &b"\0".repeat(1000),
        &b"\xff".repeat(1000),
        han.as_bytes(),
    ] {
        for tokenizer in [Tokenizer::Unicode, Tokenizer::Alnum] {
            let cut = chunk_end(tokenizer, text);
            // One run of letters to `alnum`.
            let one_word = tokenizer == Tokenizer::Alnum && text == han.as_bytes();
            assert_eq!(cut.is_none(), one_word, "{tokenizer} {text:?}");
        }
    }
}

#[test]
fn all_classes_are_of_one_version_of_unicode() {
    let (major, minor, update) = unicode_segmentation::UNICODE_VERSION;
    let (std_major, std_minor, std_update) = UNICODE_VERSION;
    assert_eq!(
        [major, minor, update],
        [std_major, std_minor, std_update].map(u64::from)
    );
}
