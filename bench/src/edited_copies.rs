//! Edited copies of texts: as alike as versions of one text are, and no two the same.
//!
//! The invariant: a copy depends on the text and the seed alone. It knows no corpus and no file.

/// One line in LINES is left out, and one comes twice.
const LINES: u64 = 64;

/// One word in WORDS is replaced by one of the last words, and one in WORDS of these is new.
const WORDS: u64 = 64;

/// The last words that one is drawn of.
const RECENT_WORDS: usize = 1024;

/// Numbers that look random: a linear congruential generator, whose high bits count.
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

/// A copy of a text in which words are replaced, and lines left out or repeated.
pub fn edited(text: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut copy = Vec::with_capacity(text.len() + text.len() / 16);
    let mut recent: Vec<&[u8]> = Vec::with_capacity(RECENT_WORDS);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let times = match random.below(LINES) {
            0 => 0,
            1 => 2,
            _ => 1,
        };
        for _ in 0..times {
            let is_alike = |left: &u8, right: &u8| {
                left.is_ascii_alphanumeric() && right.is_ascii_alphanumeric()
            };
            for word in line.chunk_by(is_alike) {
                if !word[0].is_ascii_alphanumeric() {
                    copy.extend_from_slice(word);
                    continue;
                }
                if random.below(WORDS) > 0 {
                    copy.extend_from_slice(word);
                } else if random.below(WORDS) > 0 && !recent.is_empty() {
                    let other = random.below(recent.len() as u64) as usize;
                    copy.extend_from_slice(recent[other]);
                } else {
                    copy.extend_from_slice(format!("w{:x}", random.below(1 << 30)).as_bytes());
                }
                if recent.len() < RECENT_WORDS {
                    recent.push(word)
                } else {
                    recent[random.below(RECENT_WORDS as u64) as usize] = word;
                }
            }
        }
    }
    copy
}
