//! Grammar construction through its public interface: what comes out expands
//! to what went in, and is a grammar as [`Constructed`] documents it.
#![allow(clippy::unwrap_used)]

use zipfdb_kernels::{Constructed, Parameters, construct};

/// Builds a grammar, checks its every invariant, and that it expands to the files.
fn built(files: &[&[u32]], terminal_count: u32) -> Constructed {
    let tokens = files.concat();
    let mut file_offsets = vec![0];
    for file in files {
        file_offsets.push(file_offsets.last().unwrap() + file.len() as u32);
    }
    let grammar = construct(
        tokens,
        &file_offsets,
        terminal_count,
        &Parameters::default(),
        &mut |_| {},
    );
    check(&grammar, files, terminal_count);
    grammar
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

/// Every string over 3 symbols of this length.
fn strings(length: u32) -> impl Iterator<Item = Vec<u32>> {
    (0..3_u32.pow(length)).map(move |i| (0..length).map(|k| i / 3_u32.pow(k) % 3).collect())
}

#[test]
fn every_short_string_expands_back() {
    for length in 0..=9 {
        for string in strings(length) {
            built(&[&string], 3);
        }
    }
}

#[test]
fn every_short_string_expands_back_when_cut_into_files() {
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
fn files_without_tokens_have_empty_roots() {
    let grammar = built(&[], 0);
    assert_eq!(grammar.root_offsets, [0]);
    let grammar = built(&[&[], &[], &[]], 0);
    assert_eq!(grammar.root_offsets, [0, 0, 0, 0]);
}

#[test]
fn a_repeated_sentence_becomes_rules() {
    let text: Vec<u32> = (0..10_000).map(|i| i % 10).collect();
    let grammar = built(&[&text], 10);
    assert!(grammar.symbols.len() + grammar.root.len() < 100);
}

#[test]
fn a_long_run_becomes_few_rules() {
    let grammar = built(&[&[0; 100_000]], 1);
    assert!(grammar.symbols.len() + grammar.root.len() < 100);
}
