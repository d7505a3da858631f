//! A text as all revisions of one page: each is the one before it with a small edit, as in the collection `einstein`.
//!
//! The invariant: a text depends on its size and the seed alone.

use crate::edited_copies::Random;

/// Bytes of the first revision, about.
const PAGE_BYTES: usize = 8 << 10;

/// Bytes of the largest revision, about; then sentences are left out more often than added.
const PAGE_BYTES_MAX: usize = 128 << 10;

/// Words that the page is made of.
const VOCABULARY: u64 = 20_000;

/// Words of a sentence: the least, and by how many there may be more.
const SENTENCE_WORDS: (u64, u64) = (4, 20);

/// One edit in REVERTS takes back the one before it.
const REVERTS: u64 = 5;

/// Consecutive revisions of a page, until their bytes reach the size.
pub fn text(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut sentences: Vec<String> = Vec::new();
    let mut size = 0;
    while size < PAGE_BYTES {
        let next = sentence(&mut random);
        size += next.len() + 1;
        sentences.push(next);
    }
    let mut text = Vec::with_capacity(bytes + 2 * PAGE_BYTES_MAX);
    let mut before = sentences.clone();
    while text.len() < bytes {
        let start = text.len();
        for (number, sentence) in sentences.iter().enumerate() {
            text.extend_from_slice(sentence.as_bytes());
            // A paragraph has eight sentences.
            text.push(if number % 8 == 7 { b'\n' } else { b' ' });
        }
        text.push(b'\n');
        let last = sentences.clone();
        if random.below(REVERTS) == 0 {
            sentences = before;
        } else {
            edit(&mut sentences, text.len() - start, &mut random);
        }
        before = last;
    }
    text.truncate(bytes);
    text
}

/// Adds a sentence, leaves one out, or replaces a word of one.
fn edit(sentences: &mut Vec<String>, size: usize, random: &mut Random) {
    let at = random.below(sentences.len() as u64) as usize;
    let kinds = if size < PAGE_BYTES_MAX { 6 } else { 9 };
    match random.below(kinds) {
        0 | 1 => sentences.insert(at, sentence(random)),
        2..=4 => {
            let mut words: Vec<String> = sentences[at].split(' ').map(str::to_owned).collect();
            let word_at = random.below(words.len() as u64) as usize;
            words[word_at] = word(random);
            sentences[at] = words.join(" ");
        }
        _ if sentences.len() > 1 => {
            sentences.remove(at);
        }
        _ => {}
    }
}

fn sentence(random: &mut Random) -> String {
    let count = SENTENCE_WORDS.0 + random.below(SENTENCE_WORDS.1);
    let words: Vec<String> = (0..count).map(|_| word(random)).collect();
    words.join(" ") + "."
}

/// A word of letters, of which small numbers are more frequent.
fn word(random: &mut Random) -> String {
    let limit = random.below(VOCABULARY) + 1;
    let mut number = random.below(limit);
    let mut word = String::new();
    loop {
        // A letter is below 26.
        word.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
        if number == 0 {
            return word;
        }
    }
}
