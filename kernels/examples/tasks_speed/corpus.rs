//! Text files as word ids and as a grammar.
//!
//! The invariant: both hold the same words of the same files, and words are
//! numbered in the order of their bytes. The tokenizer is a crude one for ASCII.

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use zipfdb_kernels::{GAP, GrammarView, Parameters, WordGrammar, construct};

/// The same files twice.
pub struct Corpus {
    /// Bytes of text.
    pub bytes: usize,
    /// The words of all files, one after the other.
    pub words: Vec<u32>,
    /// `[files + 1]` into `words`.
    pub file_offsets: Vec<u32>,
    pub word_count: u32,
    pub grammar: WordGrammar,
    /// What making it of the grammar over tokens took.
    pub grammar_time: Duration,
}

impl Corpus {
    /// Reads a file, or all files of a directory.
    pub fn read(path: &str) -> Result<Corpus, Box<dyn Error>> {
        let tokens = Tokens::read(path)?;
        let mut words = Vec::new();
        let mut file_offsets = vec![0];
        for file in tokens.file_offsets.windows(2) {
            let file = &tokens.tokens[file[0] as usize..file[1] as usize];
            let found = file.iter().map(|&token| tokens.word_of[token as usize]);
            words.extend(found.filter(|&word| word != GAP));
            file_offsets.push(u32::try_from(words.len())?);
        }
        let terminal_count = u32::try_from(tokens.word_of.len())?;
        let built = construct(
            tokens.tokens,
            &tokens.file_offsets,
            terminal_count,
            &Parameters::default(),
            &mut |_| {},
        );
        let view = GrammarView {
            terminal_count,
            rule_offsets: &built.rule_offsets,
            symbols: &built.symbols,
            level_offsets: &built.level_offsets,
            root_offsets: &built.root_offsets,
            root: &built.root,
        };
        let begin = Instant::now();
        let grammar = WordGrammar::new(view, &tokens.word_of, tokens.word_count);
        Ok(Corpus {
            grammar_time: begin.elapsed(),
            bytes: tokens.bytes,
            words,
            file_offsets,
            word_count: tokens.word_count,
            grammar,
        })
    }
}

/// Token ids of some files, one after the other.
struct Tokens {
    bytes: usize,
    tokens: Vec<u32>,
    file_offsets: Vec<u32>,
    /// `[tokens]`: its word or `GAP`.
    word_of: Vec<u32>,
    word_count: u32,
}

impl Tokens {
    fn read(path: &str) -> Result<Tokens, Box<dyn Error>> {
        let path = PathBuf::from(path);
        let mut paths = vec![path.clone()];
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
        let mut word_of = Vec::with_capacity(order.len());
        let mut word_count = 0;
        let mut previous: &[u8] = &[];
        for (rank, &(gap, word, id)) in (0..).zip(&order) {
            ranks[id as usize] = rank;
            if !gap && word != previous {
                word_count += 1;
                previous = word;
            }
            word_of.push(if gap { GAP } else { word_count - 1 });
        }
        for token in &mut tokens {
            *token = ranks[*token as usize];
        }
        Ok(Tokens {
            bytes: texts.iter().map(Vec::len).sum(),
            tokens,
            file_offsets,
            word_of,
            word_count,
        })
    }
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
