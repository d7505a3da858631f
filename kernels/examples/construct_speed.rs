//! Times grammar construction: `construct_speed PATH`, a file or a directory of text, or a
//! `.u32` file of little-endian token ids.
//!
//! The tokenizer here is a crude one for ASCII: words with at most one space
//! before them, and what is between. Prints a line for each round; the time of
//! the first round includes the first count of all pairs.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::{Parameters, Round, construct_observed};

/// Token ids of some files, one after the other.
struct Tokens {
    tokens: Vec<u32>,
    file_offsets: Vec<u32>,
    terminal_count: u32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("usage: construct_speed PATH")?;
    let path = PathBuf::from(path);
    let Tokens {
        tokens,
        file_offsets,
        terminal_count,
    } = match path.extension() {
        Some(extension) if extension == "u32" => read_tokens(&path)?,
        _ => read_text(&path)?,
    };
    show(format_args!(
        "{} tokens, {terminal_count} terminals",
        tokens.len()
    ));

    let begin = Instant::now();
    let mut lap = begin;
    let mut rounds = 0;
    let mut on_round = |round: &Round| {
        rounds += 1;
        show(format_args!(
            "round {rounds:2}: length {:9}, most {:8}, threshold {:7}, rules {:7}, {:7.1} ms",
            round.length,
            round.most,
            round.threshold,
            round.rules,
            lap.elapsed().as_secs_f64() * 1e3
        ));
        lap = Instant::now();
    };
    let mut on_stage = |stage| {
        show(format_args!(
            "{:7.1} ms: {stage:?}",
            begin.elapsed().as_secs_f64() * 1e3
        ))
    };
    let grammar = construct_observed(
        tokens,
        &file_offsets,
        terminal_count,
        &Parameters::default(),
        &mut on_stage,
        &mut on_round,
        &AtomicBool::new(false),
    )?;
    show(format_args!(
        "{:7.1} ms: done",
        begin.elapsed().as_secs_f64() * 1e3
    ));
    show(format_args!(
        "{} rules of {} symbols, {} levels, root {}; {} symbols in all",
        grammar.rule_offsets.len() - 1,
        grammar.symbols.len(),
        grammar.level_offsets.len() - 1,
        grammar.root.len(),
        grammar.symbols.len() + grammar.root.len()
    ));
    Ok(())
}

/// Prints a line, or drops it where the output is closed.
fn show(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn read_tokens(path: &Path) -> Result<Tokens, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let (words, _) = bytes.as_chunks::<4>();
    let tokens: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
    let terminal_count = tokens.iter().max().map_or(0, |&most| most + 1);
    let file_offsets = vec![0, u32::try_from(tokens.len())?];
    Ok(Tokens {
        tokens,
        file_offsets,
        terminal_count,
    })
}

fn read_text(path: &Path) -> Result<Tokens, Box<dyn Error>> {
    let mut paths = vec![path.to_path_buf()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path)?;
        paths = entries
            .map(|e| e.map(|e| e.path()))
            .collect::<Result<_, _>>()?;
        paths.sort();
    }
    let mut texts = Vec::new();
    for path in paths {
        texts.push(std::fs::read(path)?);
    }
    let mut ids: HashMap<&[u8], u32> = HashMap::new();
    let mut tokens = Vec::new();
    let mut file_offsets = vec![0];
    for text in &texts {
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            let (token, behind) = rest.split_at(token_length(rest));
            let next = u32::try_from(ids.len())?;
            tokens.push(*ids.entry(token).or_insert(next));
            rest = behind;
        }
        file_offsets.push(u32::try_from(tokens.len())?);
    }
    // Words before gaps, words in the order of their bytes.
    let mut order: Vec<(bool, &[u8], u32)> = ids
        .iter()
        .map(|(&token, &id)| {
            let word = token.strip_prefix(b" ").unwrap_or(token);
            (!word.first().is_some_and(is_word), word, id)
        })
        .collect();
    order.sort_unstable();
    let mut ranks = vec![0; order.len()];
    for (rank, &(_, _, id)) in (0..).zip(&order) {
        ranks[id as usize] = rank;
    }
    for token in &mut tokens {
        *token = ranks[*token as usize];
    }
    Ok(Tokens {
        tokens,
        file_offsets,
        terminal_count: u32::try_from(order.len())?,
    })
}

fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80
}

/// Whether a word begins here, perhaps with the space before it.
fn begins_word(text: &[u8]) -> bool {
    match text {
        [b' ', second, ..] => is_word(second),
        [first, ..] => is_word(first),
        [] => false,
    }
}

fn token_length(text: &[u8]) -> usize {
    if begins_word(text) {
        1 + text[1..].iter().take_while(|byte| is_word(byte)).count()
    } else {
        let end = (1..text.len().min(64)).find(|&i| begins_word(&text[i..]));
        end.unwrap_or(text.len().min(64))
    }
}
