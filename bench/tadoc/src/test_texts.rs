//! Random small texts that tests share: of few tokens, with runs and with repeated stretches.
//!
//! They are the same in every run.

use crate::lookups::{Dictionary, WordTerminals};

/// SplitMix64 (Steele, Lea and Flood 2014).
pub struct Random(pub u64);

impl Random {
    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed % u64::from(end)) as u32
    }
}

/// A text of about `length` tokens below `tokens`.
pub fn text(random: &mut Random, length: usize, tokens: u32) -> Vec<u32> {
    let mut text: Vec<u32> = Vec::new();
    while text.len() < length {
        let token = random.below(tokens);
        match random.below(4) {
            0 => text.extend(vec![token; 1 + random.below(6) as usize]),
            1 if !text.is_empty() => {
                let from = random.below(text.len() as u32) as usize;
                let size = 1 + random.below(12) as usize;
                text.extend_from_within(from..text.len().min(from + size));
            }
            _ => text.push(token),
        }
    }
    text
}

/// Texts of all shapes.
pub fn texts() -> Vec<Vec<u32>> {
    let mut random = Random(1);
    let mut texts = vec![Vec::new()];
    for length in [1, 2, 3, 4, 5, 8, 13, 50, 300] {
        for tokens in [1, 2, 3, 5, 20] {
            for _ in 0..40 {
                texts.push(text(&mut random, length, tokens));
            }
        }
    }
    // All short texts of two tokens.
    for bits in 0..1 << 12 {
        texts.push((0..12).map(|at| bits >> at & 1).collect());
    }
    texts
}

/// Corpora of a few files, some empty, with tokens below 20: all tokens, and where files begin and end.
pub fn files() -> Vec<(Vec<u32>, Vec<u32>)> {
    let mut random = Random(2);
    let mut corpora = vec![(Vec::new(), vec![0]), (Vec::new(), vec![0, 0])];
    for _ in 0..200 {
        let (mut tokens, mut offsets) = (Vec::new(), vec![0]);
        let (length, kinds) = (random.below(60) as usize, 1 + random.below(20));
        for _ in 0..1 + random.below(9) {
            tokens.extend(text(&mut random, length, kinds));
            if random.below(2) == 0 {
                tokens.extend_from_within(0..tokens.len() / 2);
            }
            offsets.push(tokens.len() as u32);
            if random.below(5) == 0 {
                offsets.push(tokens.len() as u32);
            }
        }
        corpora.push((tokens, offsets));
    }
    corpora
}

/// Texts of 20 terminals: words a to h, each without and with a space before it, and four gaps.
const TEXTS: &[u8] = b"a ab bc cd de ef fg gh h.,;;\n";

/// The dictionary of [`files`].
pub const DICTIONARY: Dictionary<'static> = Dictionary {
    offsets: &[
        0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19, 21, 22, 24, 25, 26, 28, 29,
    ],
    bytes: TEXTS,
    words: &[
        WordTerminals::of(0),
        WordTerminals::of(2),
        WordTerminals::of(4),
        WordTerminals::of(6),
        WordTerminals::of(8),
        WordTerminals::of(10),
        WordTerminals::of(12),
        WordTerminals::of(14),
    ],
};

impl WordTerminals {
    /// A terminal without a space and the next with one.
    const fn of(first: u32) -> WordTerminals {
        WordTerminals {
            first,
            spaced: first + 1,
            end: first + 2,
        }
    }
}

/// The text of each file.
pub fn plain(tokens: &[u32], file_offsets: &[u32]) -> Vec<Vec<u8>> {
    let text = |&token: &u32| {
        let range = DICTIONARY.offsets[token as usize]..DICTIONARY.offsets[token as usize + 1];
        &TEXTS[range.start as usize..range.end as usize]
    };
    let file = |range: &[u32]| {
        tokens[range[0] as usize..range[1] as usize]
            .iter()
            .flat_map(text)
            .copied()
            .collect()
    };
    file_offsets.windows(2).map(file).collect()
}
