//! Grammar construction through its public interface: what comes out expands
//! to what went in, is a grammar as [`Constructed`] documents it, and equals
//! the oracle's, for any number of threads.
#![allow(clippy::unwrap_used)]

use zipfdb_kernels::{Constructed, Parameters, Stage, TOKENS_MAX, construct};

mod construct_oracle;

/// Builds a grammar and checks everything known about it.
fn built(files: &[&[u32]], terminal_count: u32) -> Constructed {
    let parameters = Parameters::default();
    let grammar = built_only(files, terminal_count, &parameters);
    check(&grammar, files, terminal_count);
    assert!(
        grammar == construct_oracle::construct(files, terminal_count, &parameters),
        "differs from the oracle"
    );
    grammar
}

fn built_only(files: &[&[u32]], terminal_count: u32, parameters: &Parameters) -> Constructed {
    let tokens = files.concat();
    let mut file_offsets = vec![0];
    for file in files {
        file_offsets.push(file_offsets.last().unwrap() + file.len() as u32);
    }
    construct(
        tokens,
        &file_offsets,
        terminal_count,
        parameters,
        &mut |_| {},
    )
}

fn check(grammar: &Constructed, files: &[&[u32]], terminal_count: u32) {
    let body = |rule: usize| {
        let range = grammar.rule_offsets[rule] as usize..grammar.rule_offsets[rule + 1] as usize;
        &grammar.symbols[range]
    };
    let mut previous: &[u32] = &[];
    for level in grammar.level_offsets.windows(2) {
        assert!(level[0] < level[1], "a level is empty");
        for rule in level[0]..level[1] {
            let body = body(rule as usize);
            assert!(body.len() >= 2, "a body is not worth a rule");
            assert!(
                body.iter().all(|&s| s < terminal_count + level[0]),
                "a body holds a symbol of its own level"
            );
            assert!(
                rule == level[0] || previous < body,
                "bodies do not ascend within their level"
            );
            previous = body;
        }
    }
    let rules = grammar.rule_offsets.len() - 1;
    assert_eq!(*grammar.level_offsets.last().unwrap() as usize, rules);
    assert_eq!(grammar.root_offsets.len(), files.len() + 1);
    for (f, file) in files.iter().enumerate() {
        let range = grammar.root_offsets[f] as usize..grammar.root_offsets[f + 1] as usize;
        let mut stack: Vec<u32> = grammar.root[range].iter().rev().copied().collect();
        let mut expansion = Vec::with_capacity(file.len());
        while let Some(symbol) = stack.pop() {
            match symbol.checked_sub(terminal_count) {
                None => expansion.push(symbol),
                Some(rule) => stack.extend(body(rule as usize).iter().rev()),
            }
        }
        assert_eq!(&expansion, file);
    }
}

/// Symbols of a grammar in all.
fn size(grammar: &Constructed) -> usize {
    grammar.symbols.len() + grammar.root.len()
}

/// Every string over 3 symbols of this length.
fn strings(length: u32) -> impl Iterator<Item = Vec<u32>> {
    (0..3_u32.pow(length)).map(move |i| (0..length).map(|k| i / 3_u32.pow(k) % 3).collect())
}

/// The mix of construction, which is also a good source of numbers that look random.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Numbers that look random, always the same.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        println!("seed {seed}");
        Random(seed << 32)
    }

    fn below(&mut self, end: u32) -> u32 {
        self.0 += 1;
        (((mix(self.0) >> 32) * u64::from(end)) >> 32) as u32
    }

    fn tokens(&mut self, length: usize, end: u32) -> Vec<u32> {
        (0..length).map(|_| self.below(end)).collect()
    }

    /// Low ones are frequent, as words in text are.
    fn zipf_tokens(&mut self, length: usize, end: u32) -> Vec<u32> {
        let mut token = || {
            let low = self.below(end) + 1;
            let lower = self.below(low) + 1;
            self.below(lower)
        };
        (0..length).map(|_| token()).collect()
    }
}

#[test]
fn every_short_string_equals_the_oracle() {
    for length in 0..=9 {
        for string in strings(length) {
            built(&[&string], 3);
        }
    }
}

#[test]
fn every_short_string_cut_into_files_equals_the_oracle() {
    for length in 0..=6 {
        for string in strings(length) {
            for first in 0..=string.len() {
                for second in first..=string.len() {
                    built(
                        &[&string[..first], &string[first..second], &string[second..]],
                        3,
                    );
                }
            }
        }
    }
}

#[test]
fn random_strings_equal_the_oracle() {
    let mut random = Random::new(1);
    for i in 0..3000 {
        let end = 1 + random.below(6);
        let length = random.below(if i % 100 == 0 { 3000 } else { 100 }) as usize;
        let string = random.tokens(length, end);
        let cut = random.below(length as u32 + 1) as usize;
        built(&[&string[..cut], &string[cut..]], end);
    }
}

#[test]
fn runs_of_any_length_equal_the_oracle() {
    for length in 0..300 {
        let run = vec![0; length];
        built(&[&run], 1);
        built(&[&[&[1], run.as_slice(), &[1]].concat(), &run], 2);
    }
    for period in [1, 2, 3, 4, 7] {
        let text: Vec<u32> = (0..200_000).map(|i| i % period).collect();
        assert!(size(&built(&[&text], period)) < 60);
    }
}

#[test]
fn runs_among_other_symbols_equal_the_oracle() {
    let mut random = Random::new(2);
    for _ in 0..300 {
        let mut text = Vec::new();
        while text.len() < 300 {
            let length = 1 + random.below(9) as usize;
            text.extend(vec![random.below(4); length]);
        }
        built(&[&text], 4);
    }
}

#[test]
fn fibonacci_words_become_small() {
    let (mut word, mut longer) = (vec![0], vec![0, 1]);
    while longer.len() < 100_000 {
        let longest = [longer.as_slice(), &word].concat();
        word = std::mem::replace(&mut longer, longest);
    }
    assert!(size(&built(&[&longer], 2)) < 60);
}

#[test]
fn thue_morse_words_become_small() {
    let word: Vec<u32> = (0..1_u32 << 16).map(|i| i.count_ones() % 2).collect();
    assert!(size(&built(&[&word], 2)) < 150);
}

#[test]
fn a_repeated_text_costs_little_more_than_the_text() {
    for (period, times) in [(1000, 2), (1000, 50), (300, 1000)] {
        let text: Vec<u32> = (0..period).collect::<Vec<_>>().repeat(times);
        let size = size(&built(&[&text], period));
        assert!(size < period as usize * 9 / 4 + times + 20);
    }
}

#[test]
fn random_tokens_equal_the_oracle() {
    let mut random = Random::new(3);
    for end in [2, 30, 1000, 100_000] {
        let tokens = random.tokens(100_000, end);
        built(&[&tokens], end);
    }
}

/// Text of several files, some of them empty, long enough for several chunks and hash buckets.
fn text(random: &mut Random) -> Vec<Vec<u32>> {
    let mut files: Vec<Vec<u32>> = Vec::new();
    for i in 0..40 {
        let length = random.below(20_000) as usize;
        files.push(match i % 8 {
            0 => Vec::new(),
            5 => files[i - 2].clone(),
            _ => random.zipf_tokens(length, 5_000),
        });
    }
    files
}

#[test]
fn text_of_several_files_equals_the_oracle() {
    let files = text(&mut Random::new(4));
    let files: Vec<&[u32]> = files.iter().map(Vec::as_slice).collect();
    let grammar = built(&files, 5_000);
    assert!(size(&grammar) < files.concat().len() * 9 / 10);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let files = text(&mut Random::new(5));
    let files: Vec<&[u32]> = files.iter().map(Vec::as_slice).collect();
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let parameters = Parameters::default();
        pool.unwrap()
            .install(|| built_only(&files, 5_000, &parameters))
    };
    let one = with_threads(1);
    assert!(with_threads(2) == one);
    assert!(with_threads(16) == one);
}

#[test]
fn every_alpha_equals_the_oracle() {
    let files = text(&mut Random::new(6));
    let files: Vec<&[u32]> = files[..4].iter().map(Vec::as_slice).collect();
    for (numerator, denominator) in [(0, 1), (1, 1000), (1, 2), (1, 1), (u32::MAX, 1)] {
        let parameters = Parameters {
            alpha_numerator: numerator,
            alpha_denominator: denominator,
        };
        let grammar = built_only(&files, 5_000, &parameters);
        check(&grammar, &files, 5_000);
        assert!(grammar == construct_oracle::construct(&files, 5_000, &parameters));
    }
}

#[test]
fn counts_that_fall_along_a_text_make_no_endless_depth() {
    // All prefixes of a text: with counts alone each round would go one rule deeper.
    let text: Vec<u32> = (0..400).collect();
    let files: Vec<&[u32]> = (1..=text.len()).map(|end| &text[..end]).collect();
    let grammar = built(&files, 400);
    let levels = grammar.level_offsets.len() - 1;
    assert!((50..90).contains(&levels), "{levels} levels");
}

#[test]
fn mixes_that_rise_along_a_text_make_no_endless_rounds() {
    // Each token is followed by one whose pair has a slightly greater mix: few local maxima.
    let end = 5000;
    let mut free: Vec<u32> = (1..end).collect();
    let mut text = vec![0];
    let mut last = 0;
    while let Some((mixed, at)) = (0..free.len())
        .map(|at| {
            (
                mix(u64::from(text[text.len() - 1]) << 32 | u64::from(free[at])),
                at,
            )
        })
        .filter(|&(mixed, _)| mixed > last)
        .min()
    {
        last = mixed;
        text.push(free.swap_remove(at));
    }
    assert!(text.len() > 3000);
    let text = text.repeat(25);
    let grammar = built(&[&text], end);
    assert!(grammar.rounds < 10, "{} rounds", grammar.rounds);
}

#[test]
fn ids_may_go_up_to_the_highest_number_and_no_further() {
    let most = u32::MAX - 3;
    let grammar = built(
        &[&[most - 2, most - 1, most - 2, most - 1, 0, most - 1]],
        most,
    );
    assert_eq!(grammar.rule_offsets.len(), 1);
    let text = [most - 2, most - 1, most - 2, most - 1, most - 2, most - 1];
    let grammar = built(&[&text], most);
    assert_eq!(grammar.root, [most, most, most]);
}

#[test]
#[should_panic = "ids of terminals and rules together could exceed 32 bits"]
fn too_many_terminals_are_refused() {
    built(&[&[0; 8]], u32::MAX - 3);
}

#[test]
#[should_panic = "more tokens and files than fit"]
fn too_many_files_are_refused() {
    let file_offsets = vec![0; TOKENS_MAX + 2];
    construct(
        Vec::new(),
        &file_offsets,
        0,
        &Parameters::default(),
        &mut |_| {},
    );
}

#[test]
#[should_panic = "a token is not below the number of terminals"]
fn a_token_out_of_range_is_refused() {
    built(&[&[0, 1, 2]], 2);
}

#[test]
#[should_panic = "alpha has denominator 0"]
fn alpha_without_a_denominator_is_refused() {
    let parameters = Parameters {
        alpha_numerator: 1,
        alpha_denominator: 0,
    };
    built_only(&[&[0]], 1, &parameters);
}

#[test]
fn stages_are_reported_in_order() {
    let mut stages = Vec::new();
    let mut on_stage = |stage| stages.push(stage);
    construct(
        vec![0; 9],
        &[0, 9],
        1,
        &Parameters::default(),
        &mut on_stage,
    );
    assert_eq!(stages, [Stage::Rounds, Stage::Prune]);
}
