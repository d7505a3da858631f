//! Times grammar construction: `construct_speed PATH` (a file or a directory of text).
//!
//! The tokenizer here is a crude one for ASCII: words with one space before
//! them, runs of other bytes.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use zipfdb_kernels::{Parameters, construct};

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("usage: construct_speed PATH")?;
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
            if glued || is_word(text[i]) {
                i += 1;
                while i < text.len() && is_word(text[i]) {
                    i += 1;
                }
            } else {
                i += 1;
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
    // Ids in the order of the tokens' bytes, words first, as a dictionary has them.
    let mut order: Vec<(bool, &[u8], u32)> = ids
        .iter()
        .map(|(&token, &id)| {
            let word = is_word(token[0]) || token.get(1).is_some_and(|&b| is_word(b));
            (!word, token.strip_prefix(b" ").unwrap_or(token), id)
        })
        .collect();
    order.sort();
    let mut ranks = vec![0; order.len()];
    for (rank, &(_, _, id)) in order.iter().enumerate() {
        ranks[id as usize] = rank as u32;
    }
    for token in &mut tokens {
        *token = ranks[*token as usize];
    }
    let bytes: usize = texts.iter().map(Vec::len).sum();
    println!(
        "{bytes} bytes, {} tokens, {} terminals",
        tokens.len(),
        ids.len()
    );
    let begin = Instant::now();
    let mut on_stage = |stage| println!("{:?} {stage:?}", begin.elapsed());
    let grammar = construct(
        tokens,
        &file_offsets,
        ids.len() as u32,
        &Parameters::default(),
        &mut on_stage,
    );
    println!("{:?} done", begin.elapsed());
    println!(
        "rounds {} rules {} symbols {} root {} all {} depth {}",
        grammar.rounds,
        grammar.rule_offsets.len() - 1,
        grammar.symbols.len(),
        grammar.root.len(),
        grammar.symbols.len() + grammar.root.len(),
        grammar.level_offsets.len() - 1
    );
    Ok(())
}
