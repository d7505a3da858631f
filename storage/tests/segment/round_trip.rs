//! What is written comes back, whatever it is.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::path::Path;
use zipfdb_storage::{Error, Grammar, MemoryBackend, Section, SegmentReader, SegmentWriter};
use zipfdb_test_support::samples::{self, Sample, Shape, dictionary_of, entry, header};

const SEED: u64 = 20_240_601;

fn assert_round_trip(sample: &Sample) {
    let bytes = samples::write(sample);
    let reader = samples::open(bytes.clone()).unwrap();
    reader.verify().unwrap();
    assert_eq!(reader.info().size, bytes.len() as u64);
    assert_eq!(
        reader
            .info()
            .sections
            .iter()
            .map(|(_, size)| size)
            .sum::<u64>(),
        bytes.len() as u64
    );
    assert!(
        reader
            .info()
            .sections
            .iter()
            .map(|(section, _)| *section)
            .eq(Section::ALL)
    );
    let reader = samples::open(bytes.clone()).unwrap();
    let bodies = reader.bodies().unwrap();
    for file in 0..sample.files.len() as u32 {
        let root = reader.root_of(&bodies, file).unwrap();
        assert_eq!(root, sample.grammar.root_of(file));
    }
    assert_totals(sample, reader.totals().unwrap().as_deref());
    assert_blocks(sample, &reader);
    drop(bodies);
    assert_eq!(*reader.grammar().unwrap(), sample.grammar);
    assert_eq!(&samples::read(bytes).unwrap(), sample);
}

/// Looks words up in blocks.
fn assert_blocks(sample: &Sample, reader: &SegmentReader) {
    let dictionary = &sample.dictionary;
    let blocks = reader.word_blocks().unwrap();
    let totals = reader.totals().unwrap().unwrap();
    let Some(blocks) = blocks else {
        assert!(dictionary.word_tokens() <= 1024);
        return;
    };
    for block in 0..blocks.len() {
        let first = reader.first_token(&blocks, block).unwrap();
        assert_eq!(first.dictionary.token(0), dictionary.token(first.first));
        let range = block..blocks.len().min(block + 2);
        let run = reader.block_tokens(&blocks, range).unwrap();
        for token in 0..run.dictionary.len() {
            let whole = run.first + token;
            assert_eq!(run.dictionary.word(token), dictionary.word(whole));
            assert_eq!(run.dictionary.token(token), dictionary.token(whole));
        }
    }
    let words = dictionary.word_offsets();
    let step = words.len() / 50 + 1;
    for (word, tokens) in words.windows(2).enumerate().step_by(step) {
        let total = reader.word_total(&blocks, tokens[0]).unwrap();
        assert_eq!(total, totals[word]);
        let number = reader.word_number(&blocks, tokens[0]).unwrap();
        assert_eq!(number as usize, word);
        let (run, first) = reader.numbered_word(&blocks, number).unwrap();
        assert_eq!(run.first + first, tokens[0]);
        assert_eq!(run.dictionary.word(first), dictionary.word(tokens[0]));
        if tokens[1] - tokens[0] == 2 {
            assert!(reader.word_total(&blocks, tokens[0] + 1).is_err());
            assert!(reader.word_number(&blocks, tokens[0] + 1).is_err());
        }
    }
    let count = words.len() as u32 - 1;
    assert!(reader.numbered_word(&blocks, count).is_err());
}

/// Counts words on the expansion.
fn assert_totals(sample: &Sample, stored: Option<&[u32]>) {
    let (dictionary, grammar) = (&sample.dictionary, &sample.grammar);
    let mut counts = vec![0u32; dictionary.len() as usize];
    let mut stack = grammar.root.clone();
    while let Some(symbol) = stack.pop() {
        match symbol.checked_sub(grammar.terminal_count) {
            Some(rule) => stack.extend(grammar.body(rule)),
            None => counts[symbol as usize] += 1,
        }
    }
    let words = dictionary.word_offsets();
    let total = |tokens: &[u32]| counts[tokens[0] as usize..tokens[1] as usize].iter().sum();
    let expected: Vec<u32> = words.windows(2).map(total).collect();
    assert_eq!(stored, Some(&expected[..]));
}

#[test]
fn random_segments_come_back() {
    println!("seed {SEED}");
    let config = Config {
        cases: 60,
        rng_seed: RngSeed::Fixed(SEED),
        ..Config::default()
    };
    let shape = (
        any::<u64>(),
        0..400u32,
        0..6u32,
        1..300u32,
        0..8u32,
        1..6000u32,
        1..40u32,
    )
        .prop_map(
            |(seed, tokens, levels, rules_per_level, files, root_symbols, body_max)| Shape {
                seed,
                tokens,
                levels,
                rules_per_level,
                files,
                root_symbols,
                body_max,
            },
        );
    TestRunner::new(config)
        .run(&shape, |shape| {
            assert_round_trip(&samples::random(shape));
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_segment_of_many_chunks_and_classes_comes_back() {
    let shape = Shape {
        seed: SEED,
        tokens: 6000,
        levels: 5,
        rules_per_level: 9000,
        files: 3,
        root_symbols: 150_000,
        body_max: 30,
    };
    assert_round_trip(&samples::random(shape));
}

fn by_hand(words: &[&str], gaps: &[&str], roots: &[&[u32]]) -> Sample {
    let tokens = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let dictionary = dictionary_of(tokens(words), tokens(gaps));
    let mut grammar = Grammar {
        terminal_count: dictionary.len(),
        rule_offsets: vec![0],
        level_offsets: vec![0],
        root_offsets: vec![0],
        ..Grammar::default()
    };
    for root in roots {
        grammar.root.extend_from_slice(root);
        grammar.root_offsets.push(grammar.root.len() as u32);
    }
    let files = (0..roots.len() as u32)
        .map(|file| entry(file.to_string(), &grammar, &dictionary, file))
        .collect();
    Sample {
        header: header("hand"),
        files,
        dictionary,
        grammar,
    }
}

#[test]
fn words_of_many_blocks_are_counted_alone() {
    // Words of which every third has one token and the others both, so that some go across the borders of blocks. Nearly all
    // occur as often as they have tokens: totals that take more are not stored.
    let words: Vec<String> = (0..30_000u64)
        .map(|word| {
            (
                word,
                format!("{:016x}", word.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            )
        })
        .flat_map(|(word, text)| match word % 3 {
            0 => vec![text],
            _ => vec![text.clone(), format!(" {text}")],
        })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let root: Vec<u32> = (0..words.len() as u32)
        .flat_map(|token| (0..1 + token / 100 % 100 / 99).map(move |_| token))
        .collect();
    assert_round_trip(&by_hand(&words, &["."], &[&root]));
}

#[test]
fn the_smallest_segments_come_back() {
    assert_round_trip(&by_hand(&[], &[], &[]));
    assert_round_trip(&by_hand(&[], &[], &[&[]]));
    assert_round_trip(&by_hand(&[], &[], &[&[], &[], &[]]));
    assert_round_trip(&by_hand(&["a"], &[], &[&[0]]));
    assert_round_trip(&by_hand(&[], &["\n"], &[&[0; 1000]]));
    assert_round_trip(&by_hand(
        &["a", " a"],
        &["."],
        &[&[0, 1, 2], &[], &[1; 9000]],
    ));
}

#[test]
fn long_tokens_and_long_bodies_come_back() {
    let long = "x".repeat(1 << 20);
    let longer = format!("{long}y");
    let mut sample = by_hand(&[&long, &longer, "z"], &[], &[&[]]);
    sample.grammar.root = vec![3, 1, 0, 4];
    sample.grammar.root_offsets = vec![0, 4];
    sample.grammar.symbols = std::iter::repeat_n([2, 2, 1], 3)
        .flatten()
        .chain([2; 30_000])
        .collect();
    sample.grammar.rule_offsets = vec![0, 9, 30_009];
    sample.grammar.level_offsets = vec![0, 2];
    sample.files = vec![entry(
        "long".to_owned(),
        &sample.grammar,
        &sample.dictionary,
        0,
    )];
    assert_round_trip(&sample);
}

#[test]
fn parts_of_files_and_all_of_the_header_come_back() {
    let mut sample = by_hand(&["a"], &[], &[&[0], &[0]]);
    sample.files[0].last_part = false;
    sample.files[1].first_byte = 1;
    sample.files[1].first_word = 1;
    sample.header.corpus = "\u{fc}".repeat(127);
    sample.header.settings.tokenizer = zipfdb_storage::Tokenizer::Whitespace;
    sample.header.settings.segment_size = 12_345;
    sample.header.settings.alpha_numerator = 3;
    sample.header.settings.alpha_denominator = 17;
    sample.header.segment_id = i64::MAX as u64 - 1;
    sample.header.publication = 1 << 40;
    sample.header.publication_index = u32::MAX;
    sample.header.publication_last = false;
    assert_round_trip(&sample);
}

#[test]
fn the_bytes_do_not_depend_on_the_number_of_threads() {
    let sample = samples::random(Shape {
        seed: 3,
        tokens: 2000,
        levels: 4,
        rules_per_level: 4000,
        files: 5,
        root_symbols: 60_000,
        body_max: 8,
    });
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| samples::write(&sample))
    };
    let one = with_threads(1);
    assert_eq!(with_threads(2), one);
    assert_eq!(with_threads(16), one);
}

#[test]
fn parts_that_do_not_fit_together_are_refused() {
    let sample = by_hand(&["a"], &[], &[&[0]]);
    let breakers: [fn(&mut Sample); 5] = [
        |sample| sample.header.corpus = "x".repeat(256),
        |sample| sample.grammar.root[0] = 1,
        |sample| sample.grammar.terminal_count = 2,
        |sample| sample.files.clear(),
        |sample| sample.grammar.level_offsets = vec![0, 0],
    ];
    for (number, breaker) in breakers.iter().enumerate() {
        let mut sample = sample.clone();
        breaker(&mut sample);
        let backend = MemoryBackend::new();
        let Sample {
            header,
            files,
            dictionary,
            grammar,
        } = &sample;
        let result =
            SegmentWriter::write(&backend, Path::new("x"), header, files, dictionary, grammar);
        assert!(
            matches!(result, Err(Error::Invalid { .. })),
            "breaker {number}"
        );
    }
}
