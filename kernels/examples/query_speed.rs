//! Times the query kernels against scans of uncompressed terminal ids:
//! `query_speed PATH` (a file or a directory of text).
//!
//! The tokenizer is a crude one for ASCII: words with one space before them,
//! runs of other bytes. Every answer is compared with the scan's.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::{
    Content, GrammarView, Lengths, Parameters, Parents, ShortText, Signatures, Structures,
    TokenText, WordTerminals, construct, count_in_file, expand_file, extract, file_weights, locate,
    locate_in_file, weights,
};

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The word of a token, whether it has a space before it, `None` for gaps.
fn word_of(token: &[u8]) -> Option<(&[u8], bool)> {
    match token {
        [b' ', word @ ..] if word.first().is_some_and(|&b| is_word(b)) => Some((word, true)),
        [first, ..] if is_word(*first) => Some((token, false)),
        _ => None,
    }
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (u128::from(self.0) * u128::from(limit) >> 64) as u64
    }
}

/// Nanoseconds that all threads of this process ran on a core.
fn cpu_nanos() -> u64 {
    let mut nanos = 0;
    for task in std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        nanos += stat
            .split(' ')
            .next()
            .and_then(|n| n.parse::<u64>().ok())
            .unwrap_or(0);
    }
    nanos
}

/// Runs `work` on every item, prints median and 99th percentile of the times.
fn latencies<T, R>(name: &str, items: &[T], mut work: impl FnMut(&T) -> R) -> Vec<R> {
    let mut nanos = Vec::with_capacity(items.len());
    let mut results = Vec::with_capacity(items.len());
    let cpu = cpu_nanos();
    for item in items {
        let start = Instant::now();
        let result = work(item);
        nanos.push(start.elapsed().as_nanos() as u64);
        results.push(result);
    }
    let cpu = cpu_nanos() - cpu;
    nanos.sort_unstable();
    let at = |permille: usize| nanos[(nanos.len() - 1) * permille / 1000] as f64 / 1000.0;
    println!(
        "{name:32} p50 {:9.2} us   p90 {:9.2} us   p99 {:9.2} us   cpu mean {:9.2} us   ({} queries)",
        at(500),
        at(900),
        at(990),
        cpu as f64 / nanos.len() as f64 / 1000.0,
        items.len()
    );
    results
}

/// Prints the least time of several runs.
fn best<R>(name: &str, runs: usize, mut work: impl FnMut() -> R) -> R {
    let mut least = f64::INFINITY;
    let mut cpu_least = u64::MAX;
    let mut result = None;
    for _ in 0..runs {
        drop(result.take());
        let (start, cpu) = (Instant::now(), cpu_nanos());
        result = Some(work());
        cpu_least = cpu_least.min(cpu_nanos() - cpu);
        least = least.min(start.elapsed().as_secs_f64());
    }
    println!(
        "{name:32} {:10.3} ms, cpu {:10.3} ms",
        least * 1000.0,
        cpu_least as f64 / 1e6
    );
    result.expect("at least one run")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: query_speed PATH")?;
    let path = Path::new(&path);
    let mut paths = Vec::new();
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            paths.push(entry?.path());
        }
        paths.sort();
    } else {
        paths.push(path.to_path_buf());
    }
    let texts = paths
        .iter()
        .filter(|path| path.is_file())
        .map(std::fs::read)
        .collect::<Result<Vec<_>, _>>()?;
    let mut ids: HashMap<&[u8], u32> = HashMap::new();
    let mut tokens: Vec<u32> = Vec::new();
    let mut file_offsets = vec![0];
    for text in &texts {
        let mut i = 0;
        while i < text.len() {
            let first = i;
            let glued = text[i] == b' ' && text.get(i + 1).is_some_and(|&b| is_word(b));
            i += 1;
            if glued || is_word(text[first]) {
                while i < text.len() && is_word(text[i]) {
                    i += 1;
                }
            } else {
                while i < text.len()
                    && i - first < 64
                    && !is_word(text[i])
                    && !(text[i] == b' ' && text.get(i + 1).is_some_and(|&b| is_word(b)))
                {
                    i += 1;
                }
            }
            let next = ids.len() as u32;
            tokens.push(*ids.entry(&text[first..i]).or_insert(next));
        }
        file_offsets.push(tokens.len() as u32);
    }
    // Words first, in order of word and space, then gaps.
    let mut order: Vec<(&[u8], u32)> = ids.into_iter().collect();
    order.sort_unstable_by_key(|&(token, _)| (word_of(token).is_none(), word_of(token), token));
    let mut number = vec![0u32; order.len()];
    for (new, &(_, old)) in order.iter().enumerate() {
        number[old as usize] = new as u32;
    }
    tokens
        .iter_mut()
        .for_each(|token| *token = number[*token as usize]);
    let word_terminals = order.partition_point(|&(token, _)| word_of(token).is_some()) as u32;
    let mut token_offsets = vec![0u64];
    let mut token_bytes = Vec::new();
    for (token, _) in &order {
        token_bytes.extend_from_slice(token);
        token_offsets.push(token_bytes.len() as u64);
    }
    let terminal_bytes: Vec<u32> = order.iter().map(|(token, _)| token.len() as u32).collect();
    let text = TokenText {
        offsets: &token_offsets,
        bytes: &token_bytes,
    };
    let total: usize = texts.iter().map(Vec::len).sum();
    println!(
        "{} files, {:.1} MB, {} tokens, {} distinct, {} of them words, {} threads",
        texts.len(),
        total as f64 / 1e6,
        tokens.len(),
        order.len(),
        word_terminals,
        rayon::current_num_threads()
    );

    let start = Instant::now();
    let cache = std::env::var("CACHE").unwrap_or_default();
    let grammar = if std::path::Path::new(&cache).exists() {
        let bytes = std::fs::read(&cache)?;
        let mut words = bytes
            .chunks_exact(4)
            .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
        let mut take = || -> Vec<u32> {
            let n = words.next().unwrap() as usize;
            (0..n).map(|_| words.next().unwrap()).collect()
        };
        zipfdb_kernels::Constructed {
            rule_offsets: take(),
            symbols: take(),
            level_offsets: take(),
            root_offsets: take(),
            root: take(),
            rounds: 0,
        }
    } else {
        construct(
            tokens.clone(),
            &file_offsets,
            order.len() as u32,
            &Parameters::default(),
            &mut |_| {},
        )
    };
    if !cache.is_empty() && !std::path::Path::new(&cache).exists() {
        let mut bytes = Vec::new();
        for v in [
            &grammar.rule_offsets,
            &grammar.symbols,
            &grammar.level_offsets,
            &grammar.root_offsets,
            &grammar.root,
        ] {
            bytes.extend((v.len() as u32).to_le_bytes());
            for x in v.iter() {
                bytes.extend(x.to_le_bytes());
            }
        }
        std::fs::write(&cache, bytes)?;
    }
    println!("construct {:.2} s", start.elapsed().as_secs_f64());
    let view = GrammarView {
        terminal_count: order.len() as u32,
        rule_offsets: &grammar.rule_offsets,
        symbols: &grammar.symbols,
        level_offsets: &grammar.level_offsets,
        root_offsets: &grammar.root_offsets,
        root: &grammar.root,
    };
    println!(
        "{} rules, {} levels, {} body symbols, {} root symbols",
        view.rules(),
        view.levels(),
        view.symbols.len(),
        view.root.len()
    );

    let lengths = best("lengths", 5, || {
        Lengths::new(view, |t| u64::from(terminal_bytes[t as usize]))
    });
    let group: Vec<u32> = (0..order.len() as u32)
        .map(|t| match word_of(order[t as usize].0) {
            Some((word, true)) if t > 0 && order[t as usize - 1].0 == word => t - 1,
            _ => t,
        })
        .collect();
    let signatures = best("signatures", 5, || {
        Signatures::new(view, |t| group[t as usize])
    });
    let rule_text = best("rule text", 5, || ShortText::new(view, &lengths, text));
    println!(
        "{:32} {:.1} MB",
        "  text of short rules",
        rule_text.bytes.len() as f64 / 1e6
    );
    let parents = best("parents", 3, || Parents::new(view));
    let counted = best("weights", 7, || {
        weights(view, 0..view.root.len(), total as u64)
    });
    let scanned = best("  scan: histogram", 7, || {
        let part = tokens.len().div_ceil(rayon::current_num_threads());
        let parts: Vec<Vec<u64>> = tokens
            .par_chunks(part)
            .map(|tokens| {
                let mut counts = vec![0u64; order.len()];
                tokens.iter().for_each(|&token| counts[token as usize] += 1);
                counts
            })
            .collect();
        let mut counts = parts[0].clone();
        for part in &parts[1..] {
            counts.iter_mut().zip(part).for_each(|(a, b)| *a += b);
        }
        counts
    });
    assert_eq!(counted[..order.len()], scanned);

    // Words as they come in the text: frequent ones often.
    let mut numbers = Numbers(1);
    let files = texts.len() as u64;
    let file_tokens =
        |file: u32| u64::from(file_offsets[file as usize + 1] - file_offsets[file as usize]);
    let word = |token: u32| {
        let (word, _) = word_of(order[token as usize].0).expect("a word token");
        let same = |token: u32| word_of(order[token as usize].0).is_some_and(|(w, _)| w == word);
        let first = if token > 0 && same(token - 1) {
            token - 1
        } else {
            token
        };
        let end = if token + 1 < order.len() as u32 && same(token + 1) {
            token + 2
        } else {
            token + 1
        };
        let spaced = (first..end).find(|&t| word_of(order[t as usize].0).is_some_and(|(_, s)| s));
        WordTerminals {
            first,
            spaced: spaced.unwrap_or(end),
            end,
        }
    };
    let random_word = |numbers: &mut Numbers, by_text: bool| loop {
        let token = match by_text {
            true => tokens[numbers.below(tokens.len() as u64) as usize],
            false => numbers.below(u64::from(word_terminals)) as u32,
        };
        if token < word_terminals {
            return word(token);
        }
    };
    for by_text in [true, false] {
        println!(
            "words drawn from the {}:",
            if by_text { "text" } else { "dictionary" }
        );
        let queries: Vec<(u32, WordTerminals)> = (0..10_000)
            .map(|_| {
                (
                    numbers.below(files) as u32,
                    random_word(&mut numbers, by_text),
                )
            })
            .collect();
        let scanned: Vec<Vec<u64>> = queries
            .par_iter()
            .map(|&(file, word)| {
                let file = file as usize;
                let (mut at, mut offsets) = (0, Vec::new());
                for &token in &tokens[file_offsets[file] as usize..file_offsets[file + 1] as usize]
                {
                    if token >= word.first && token < word.end {
                        offsets.push(at + u64::from(token >= word.spaced));
                    }
                    at += u64::from(terminal_bytes[token as usize]);
                }
                offsets
            })
            .collect();
        for (name, parents) in [("", Some(&parents)), (" without parents", None)] {
            let structures = Structures {
                view,
                lengths: &lengths,
                signatures: &signatures,
                parents,
            };
            let counts = latencies(
                &format!("count in file{name}"),
                &queries,
                |&(file, word)| {
                    let tokens = file_tokens(file);
                    count_in_file(
                        view,
                        parents,
                        &signatures,
                        word.first..word.end,
                        file,
                        tokens,
                    )
                },
            );
            assert!(
                counts
                    .iter()
                    .zip(&scanned)
                    .all(|(&n, offsets)| n == offsets.len() as u64)
            );
            let found = latencies(
                &format!("search in file{name}"),
                &queries,
                |&(file, word)| locate_in_file(structures, word, file, file_tokens(file)),
            );
            assert!(found == scanned);
        }
        let counts = latencies("  scan: count in file", &queries, |&(file, word)| {
            let file = file as usize;
            tokens[file_offsets[file] as usize..file_offsets[file + 1] as usize]
                .iter()
                .filter(|&&token| token >= word.first && token < word.end)
                .count()
        });
        assert!(
            counts
                .iter()
                .zip(&scanned)
                .all(|(&n, offsets)| n == offsets.len())
        );
        for (name, parents) in [("", Some(&parents)), (" without parents", None)] {
            let some = &queries[..if parents.is_some() { 300 } else { 20 }];
            let structures = Structures {
                view,
                lengths: &lengths,
                signatures: &signatures,
                parents,
            };
            let found = latencies(&format!("search everywhere{name}"), some, |&(_, word)| {
                locate(structures, word, 0..view.root.len(), tokens.len() as u64)
            });
            println!(
                "{:32} {} on average",
                "  hits",
                found.iter().map(Vec::len).sum::<usize>() / some.len()
            );
        }
    }
    let all_files: Vec<u32> = (0..files as u32).collect();
    latencies("word count of a file", &all_files, |&file| {
        file_weights(view, file, file_tokens(file), total as u64)
    });
    latencies("  scan: word count of a file", &all_files, |&file| {
        let file = file as usize;
        let mut tokens =
            tokens[file_offsets[file] as usize..file_offsets[file + 1] as usize].to_vec();
        tokens.sort_unstable();
        let counts: Vec<(u32, usize)> = tokens
            .chunk_by(|a, b| a == b)
            .map(|c| (c[0], c.len()))
            .collect();
        counts
    });
    let content = Content {
        view,
        lengths: &lengths,
        tokens: text,
        short: &rule_text,
    };
    for length in [64, 4096] {
        let queries: Vec<(u32, u64)> = (0..100_000)
            .map(|_| {
                let file = numbers.below(files);
                (
                    file as u32,
                    numbers.below(texts[file as usize].len() as u64 + 1),
                )
            })
            .collect();
        for name in [""] {
            let bytes = latencies(
                &format!("extract {length}{name}"),
                &queries,
                |&(file, offset)| extract(content, file, offset, length),
            );
            for (&(file, offset), bytes) in queries.iter().zip(&bytes) {
                let content = &texts[file as usize][offset as usize..];
                assert_eq!(bytes, &content[..content.len().min(length as usize)]);
            }
        }
    }
    for name in [""] {
        let mut nanos = 0;
        let mut target = Vec::new();
        for (file, text) in (0..).zip(&texts) {
            target.clear();
            let cpu = cpu_nanos();
            expand_file(content, file, &mut target)?;
            nanos += cpu_nanos() - cpu;
            assert!(target == *text);
        }
        println!(
            "expand all files{name}: {:.0} MB/s",
            total as f64 * 1e3 / nanos as f64
        );
    }
    Ok(())
}
