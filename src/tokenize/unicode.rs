//! The `unicode` tokenizer: words are UAX #29 segments that hold an alphanumeric character.
//!
//! In ASCII the rules come down to masks: letters, digits and underscores join, and one of `' . :` between two letters or `' . ,
//! ;` between two digits joins too. Around any other character, the stretch from a boundary before it to a boundary after it that
//! no character in between can change goes to `unicode_segmentation`, whose words these are on any text. Bytes that are not UTF-8
//! end a word.
//!
//! UAX #29 glues marks to white space before them, so where such a mark is alphabetic a word starts with spaces of its own. No
//! other space is ever glued to its front, since spaces join.

use super::block::{BLOCK_BYTES, Block, MaskRuns, low_bits};
use super::cutter::{Cutter, Sink};
use unicode_segmentation::UnicodeSegmentation;

/// Whether an ASCII byte may join the characters around it without being part of a word by itself.
#[inline(always)]
fn is_middle(byte: u8) -> bool {
    matches!(byte, b'\'' | b'.' | b':' | b',' | b';')
}

/// Whether an ASCII byte is a letter, a digit or an underscore.
#[inline(always)]
fn is_core(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether `byte` is an ASCII byte that never joins anything before it, whatever follows.
#[inline(always)]
pub fn is_other(byte: u8) -> bool {
    byte < 0x80 && !is_core(byte) && !is_middle(byte)
}

/// Whether two adjacent bytes of an ASCII text have a boundary between them, whatever is around them. Spaces join, and so do the
/// two bytes of a line break, which are in no word.
pub fn has_boundary(text: &[u8]) -> bool {
    let is_boundary = |pair: &[u8]| {
        let is_middles = is_middle(pair[0]) && is_middle(pair[1]);
        let has_other = is_other(pair[0]) || is_other(pair[1]);
        pair.is_ascii() && pair != b"  " && (is_middles || has_other)
    };
    text.windows(2).any(is_boundary)
}

/// Passes the words of the cutter's text to it.
pub fn words<S: Sink>(cutter: &mut Cutter<'_, S>) {
    let text = cutter.text;
    let mut base = 0;
    // The last bit of each mask of the block before.
    let mut letter_before = 0;
    let mut digit_before = 0;
    let mut runs = MaskRuns::default();
    while base < text.len() {
        let block = Block::load(text, base);
        let next = text.get(base + BLOCK_BYTES).copied().unwrap_or(0);
        let foreign = block.mask(|byte| byte >= 0x80);
        let letter = block.mask(|byte| (byte | 0x20).wrapping_sub(b'a') < 26);
        let digit = block.mask(|byte| byte.wrapping_sub(b'0') < 10);
        let low_line = block.mask(|byte| byte == b'_');
        let core = letter | digit | low_line;
        let middle = block.mask(is_middle);
        let mut joined = core;
        if middle != 0 {
            let quote_or_stop = block.mask(|byte| byte == b'\'' || byte == b'.');
            let colon = block.mask(|byte| byte == b':');
            let letters = (letter << 1 | letter_before)
                & (letter >> 1 | u64::from(next.is_ascii_alphabetic()) << (BLOCK_BYTES - 1));
            let digits = (digit << 1 | digit_before)
                & (digit >> 1 | u64::from(next.is_ascii_digit()) << (BLOCK_BYTES - 1));
            joined |= letters & (quote_or_stop | colon) | digits & middle & !colon;
        }
        letter_before = letter >> (BLOCK_BYTES - 1);
        digit_before = digit >> (BLOCK_BYTES - 1);

        if S::COUNTS_ONLY && foreign == 0 && next < 0x80 && low_line == 0 {
            // Only runs of this block can have letters or digits.
            let is_word = |start, end| is_ascii_word(text, start, end);
            cutter.sink.more_words(runs.count(joined, base, is_word));
            base += BLOCK_BYTES;
            continue;
        }
        if foreign == 0 && next < 0x80 {
            runs.push(joined, base, |start, end| ascii_word(cutter, start, end));
            base += BLOCK_BYTES;
            continue;
        }

        // A run is a word unless it touches the foreign character, itself or with a byte between that may join.
        let foreign = base + foreign.trailing_zeros() as usize;
        let settled_end = match foreign.checked_sub(1) {
            Some(last) if is_middle(text[last]) => last,
            _ => foreign,
        };
        let mut stretch_start = foreign.saturating_sub(1);
        while stretch_start > 0 && text[stretch_start - 1..=stretch_start] == *b"  " {
            stretch_start -= 1; // spaces join, and the foreign character may join them
        }
        runs.push(joined & low_bits(foreign - base), base, |start, end| {
            if end < settled_end {
                ascii_word(cutter, start, end);
            } else {
                stretch_start = start;
            }
        });
        if let Some(start) = runs.take_open() {
            stretch_start = start;
        }
        base = stretch_end(text, foreign);
        if S::COUNTS_ONLY {
            // A counting sink gets no gaps, so the cursor skips them here.
            cutter.cursor = cutter.cursor.max(stretch_start);
        }
        foreign_words(cutter, stretch_start, base);
        (letter_before, digit_before) = (0, 0);
    }
    if let Some(start) = runs.take_open() {
        ascii_word(cutter, start, text.len());
    }
}

/// Whether the space that a word token starts with is the word's own, because it carries a mark.
pub fn owns_its_space(token: &[u8]) -> bool {
    match token {
        [b' ', next, ..] if *next >= 0x80 || *next == b' ' => {
            let text = str::from_utf8(token).expect("words are cut from valid UTF-8");
            text.unicode_word_indices()
                .next()
                .is_some_and(|(start, _)| start == 0)
        }
        _ => false,
    }
}

/// Passes the run `text[start..end]` of joined ASCII bytes to the cutter if it is a word.
#[inline(always)]
fn ascii_word<S: Sink>(cutter: &mut Cutter<'_, S>, start: usize, end: usize) {
    if !is_ascii_word(cutter.text, start, end) {
        return;
    }
    if S::COUNTS_ONLY {
        cutter.sink.more_words(1)
    } else {
        cutter.word(start, end)
    }
}

/// Whether a run of joined ASCII bytes is a word.
#[inline(always)]
fn is_ascii_word(text: &[u8], start: usize, end: usize) -> bool {
    // Only a letter or a digit joins characters other than an underscore.
    text[start] != b'_' || text[start..end].iter().any(u8::is_ascii_alphanumeric)
}

/// The first place after the character at `foreign` where text can be cut in any context: before an ASCII byte that joins nothing
/// and behind another ASCII byte, but not between two spaces, which join.
fn stretch_end(text: &[u8], foreign: usize) -> usize {
    text[foreign..]
        .windows(2)
        .position(|pair| pair[0] < 0x80 && is_other(pair[1]) && pair != b"  ")
        .map_or(text.len(), |position| foreign + position + 1)
}

/// Passes the words of `text[start..end]` to the cutter by the full rules.
#[cold]
fn foreign_words(cutter: &mut Cutter<'_, impl Sink>, start: usize, end: usize) {
    let mut base = start;
    for chunk in cutter.text[start..end].utf8_chunks() {
        for (offset, word) in chunk.valid().unicode_word_indices() {
            cutter.word(base + offset, base + offset + word.len());
        }
        base += chunk.valid().len() + chunk.invalid().len();
    }
}
