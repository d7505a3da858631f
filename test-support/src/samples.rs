//! Segments to test with: random ones from a seed, and the one that the fixture holds.

use std::path::Path;
use zipfdb_storage::{
    Backend, Bytes, CorpusSettings, Dictionary, FileEntry, Grammar, MemoryBackend, SegmentHeader,
    SegmentReader, SegmentWriter,
};

/// What goes into a segment file and must come out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub header: SegmentHeader,
    pub files: Vec<FileEntry>,
    pub dictionary: Dictionary,
    pub grammar: Grammar,
}

/// A small deterministic generator (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// Below `end`, small numbers far more often.
    pub fn skewed(&mut self, end: u64) -> u64 {
        let bits = self.below(u64::from(end.ilog2()) + 2);
        self.below(1 << bits) % end
    }
}

/// How large a random sample is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub seed: u64,
    pub tokens: u32,
    pub levels: u32,
    pub rules_per_level: u32,
    pub files: u32,
    pub root_symbols: u32,
    pub body_max: u32,
}

/// A sound segment of roughly that shape.
pub fn random(shape: Shape) -> Sample {
    let mut random = Random(shape.seed);
    let dictionary = random_dictionary(&mut random, shape.tokens);
    let terminals = dictionary.len();
    let mut symbols = Vec::new();
    let mut rule_offsets = vec![0];
    let mut level_offsets = vec![0];
    if terminals > 0 {
        for _ in 0..shape.levels {
            let rules = *level_offsets.last().unwrap();
            let end = u64::from(terminals + rules);
            let count = 1 + random.below(u64::from(shape.rules_per_level.max(1))) as u32;
            let mut bodies: Vec<Vec<u32>> = (0..count)
                .map(|_| {
                    let length = 2 + random.skewed(u64::from(shape.body_max.max(1)));
                    (0..length).map(|_| random.skewed(end) as u32).collect()
                })
                .collect();
            if random.below(4) > 0 {
                bodies.sort(); // as construction gives them; the format must not need it
            }
            for body in bodies {
                symbols.extend(body);
                rule_offsets.push(symbols.len() as u32);
            }
            level_offsets.push(rules + count);
        }
    }
    let end = u64::from(terminals) + rule_offsets.len() as u64 - 1;
    let mut root = Vec::new();
    let mut root_offsets = vec![0];
    for _ in 0..shape.files {
        if end > 0 {
            for _ in 0..random.skewed(u64::from(shape.root_symbols.max(1))) {
                let near = random.below(3) == 0 && root.len() > 20;
                root.push(if near {
                    root[root.len() - 1 - random.below(20) as usize]
                } else {
                    random.skewed(end) as u32
                });
            }
        }
        root_offsets.push(root.len() as u32);
    }
    let grammar = Grammar {
        terminal_count: terminals,
        rule_offsets,
        symbols,
        level_offsets,
        root_offsets,
        root,
    };
    let files = (0..shape.files)
        .map(|file| {
            entry(
                format!("dir{}/{file}.txt", file / 3),
                &grammar,
                &dictionary,
                file,
            )
        })
        .collect();
    Sample {
        header: header("random"),
        files,
        dictionary,
        grammar,
    }
}

fn random_dictionary(random: &mut Random, tokens: u32) -> Dictionary {
    let mut words: Vec<(Vec<u8>, bool)> = Vec::new();
    let mut gaps: Vec<Vec<u8>> = Vec::new();
    for _ in 0..tokens {
        let length = 1 + random.skewed(12);
        let alphabet: &[u8] = match random.below(6) {
            0 => b"0123456789",
            1 => b"ABCDabcd",
            2 => b"\xe3\x81\x82\x84\x86\xff\x00",
            3 => b" \n.,;-",
            _ => b"etaoinshr",
        };
        let bytes: Vec<u8> = (0..length)
            .map(|_| alphabet[random.below(alphabet.len() as u64) as usize])
            .collect();
        if alphabet[0] == b' ' {
            gaps.push(bytes)
        } else {
            words.push((bytes, random.below(2) == 0))
        }
    }
    words.sort_by_cached_key(|(word, spaced)| (word.to_ascii_lowercase(), word.clone(), *spaced));
    words.dedup();
    gaps.sort();
    gaps.dedup();
    let words = words
        .into_iter()
        .map(|(word, spaced)| {
            if spaced {
                [b" ", &word[..]].concat()
            } else {
                word
            }
        })
        .collect();
    dictionary_of(words, gaps)
}

/// A dictionary of these word tokens and these gap tokens.
pub fn dictionary_of(words: Vec<Vec<u8>>, gaps: Vec<Vec<u8>>) -> Dictionary {
    let word_tokens = words.len() as u32;
    let mut offsets = vec![0];
    let mut bytes = Vec::new();
    for token in words.iter().chain(&gaps) {
        bytes.extend_from_slice(token);
        offsets.push(bytes.len() as u64);
    }
    Dictionary::new(offsets, bytes, word_tokens, Vec::new())
}

/// The file table's entry for a file of the grammar.
pub fn entry(name: String, grammar: &Grammar, dictionary: &Dictionary, file: u32) -> FileEntry {
    let mut content = Vec::new();
    let mut words = 0;
    let mut stack: Vec<u32> = grammar.root_of(file).iter().rev().copied().collect();
    while let Some(symbol) = stack.pop() {
        if symbol < grammar.terminal_count {
            content.extend_from_slice(dictionary.token(symbol));
            words += u64::from(symbol < dictionary.word_tokens());
        } else {
            stack.extend(grammar.body(symbol - grammar.terminal_count).iter().rev());
        }
    }
    FileEntry {
        name,
        bytes: content.len() as u64,
        words,
        crc32: crc32fast::hash(&content),
        first_byte: 0,
        first_word: 0,
        last_part: true,
    }
}

/// A header for corpus `corpus`.
pub fn header(corpus: &str) -> SegmentHeader {
    SegmentHeader {
        corpus: corpus.to_owned(),
        settings: CorpusSettings::default(),
        segment_id: 7,
        unicode_version: (16, 0, 0),
        publication: 5,
        publication_index: 1,
        publication_last: true,
    }
}

/// The bytes of a sample's segment file.
pub fn write(sample: &Sample) -> Vec<u8> {
    let backend = MemoryBackend::new();
    let path = Path::new("7.seg");
    SegmentWriter::write(
        &backend,
        path,
        &sample.header,
        &sample.files,
        &sample.dictionary,
        &sample.grammar,
    )
    .unwrap();
    backend.read(path).unwrap().to_vec()
}

/// Opens the bytes of a segment file.
pub fn open(bytes: Vec<u8>) -> zipfdb_storage::Result<SegmentReader> {
    SegmentReader::from_bytes(Path::new("7.seg"), Bytes::from(bytes))
}

/// Decodes everything.
pub fn read(bytes: Vec<u8>) -> zipfdb_storage::Result<Sample> {
    let reader = open(bytes)?;
    reader.totals()?;
    Ok(Sample {
        header: reader.header().clone(),
        files: reader.files()?.to_vec(),
        dictionary: (*reader.dictionary()?).clone(),
        grammar: (*reader.grammar()?).clone(),
    })
}
