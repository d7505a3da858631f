//! The words around the edits of a file.
//!
//! A *region* is a stretch of the stored text whose words an edit may have changed, with what it says now. The invariant:
//! outside of the regions the words of the file are those that are stored, and each region begins and ends with at least
//! [`CONTEXT_WORDS`] words that are the same on both sides (or where the file does). So any n-gram lies in one region or
//! outside of what changed, and what an edit does to counts is: count the region's words now, take off its stored ones.
//!
//! A region begins and ends where the bytes around show that every tokenizer ends or starts a word
//! ([`tokenize::is_word_edge`]), so nothing outside of it has to be tokenized again. Work and memory grow with the edits,
//! not with the file, unless it has no such place for long stretches.

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;
use zipfdb_kernels::NGRAM_WORDS_MAX;
use zipfdb_storage::Tokenizer;

use super::pieces::{Piece, Pieces};
use crate::tokenize::{self, Sink, has_glued_space, is_word_edge};
use crate::{Error, Result};

/// A file as it is stored.
pub(crate) trait StoredText: Sync {
    /// Its name, for errors.
    fn name(&self) -> &str;
    /// How words are told.
    fn tokenizer(&self) -> Tokenizer;
    /// Its size.
    fn bytes(&self) -> u64;
    /// How many words it has.
    fn words(&self) -> u64;
    /// Some of its bytes.
    fn extract(&self, range: Range<u64>) -> Result<Vec<u8>>;
    /// How many of its words begin before a byte.
    fn words_before(&self, offset: u64) -> Result<u64>;
    /// The number of a word among those of all stored files.
    fn find(&self, word: &[u8]) -> Result<Option<u32>>;
    /// Compares two words as dictionaries do.
    fn compare(&self, left: &[u8], right: &[u8]) -> std::cmp::Ordering;
}

/// At least so many words at either end of a region are as they were.
const CONTEXT_WORDS: usize = NGRAM_WORDS_MAX - 1;

/// An edit leaves characters alone that are so many bytes away.
const CHARACTER_BYTES: usize = 4;

/// So much text on either side of an edit is looked at first.
const REACH_BYTES: u64 = 128;

/// A word of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionWord {
    /// Its number in [`Regions::dictionary`].
    pub(crate) word: u32,
    /// The offset of its first own byte in the region's text.
    pub(crate) offset: u32,
}

/// A stretch of a file around edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// The stored bytes it stands for.
    pub(crate) stored_bytes: Range<u64>,
    /// The stored words it stands for, by their numbers in the stored file.
    pub(crate) stored_words: Range<u64>,
    /// The bytes of the file's text that it is now.
    pub(crate) bytes: Range<u64>,
    /// The words of the file that it is now.
    pub(crate) words: Range<u64>,
    /// Where its words lie in [`Regions::words`], and its stored ones in [`Regions::stored`].
    pub(crate) at: usize,
    pub(crate) stored_at: usize,
}

/// All regions of a file.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    /// Ascending; they do not overlap.
    pub(crate) regions: Vec<Region>,
    /// The words of the regions as they are now.
    pub(crate) words: Vec<RegionWord>,
    /// The words of the regions as they are stored.
    pub(crate) stored: Vec<RegionWord>,
    /// The distinct words of both, in dictionary order.
    pub(crate) dictionary: Vec<Box<[u8]>>,
    /// For each of them its number among the words of all stored files, if it is one.
    pub(crate) stored_numbers: Vec<Option<u32>>,
    /// How much more or less often words occur than in the stored file; ascending, without those where nothing changed.
    pub(crate) changes: Vec<(u32, i64)>,
    /// How many bytes and words the file has now.
    pub(crate) bytes: u64,
    pub(crate) word_count: u64,
}

/// Text inserted at one place of the stored text.
struct Insert {
    at: u64,
    text: Vec<u8>,
}

impl Regions {
    /// Finds the regions of a text that rests on `stored`.
    ///
    /// Work: O(inserted bytes), and for each place of an insert a few extracts.
    ///
    /// # Errors
    /// If the segment of the file is damaged, or a region has 4 GiB or more.
    pub(crate) fn new(pieces: &Pieces, stored: &dyn StoredText) -> Result<Regions> {
        let inserts = inserts(pieces);
        let reaches: Vec<Range<u64>> = (inserts.par_iter().with_min_len(TASK_INSERTS))
            .map(|insert| reach(insert.at, stored))
            .collect::<Result<_>>()?;
        let mut found = Regions {
            bytes: pieces.bytes(),
            ..Regions::default()
        };
        let mut interner = HashMap::new();
        let mut next = 0;
        // How many bytes and words were inserted before, less those that went.
        let (mut bytes_more, mut words_more) = (0u64, 0i64);
        while next < inserts.len() {
            let mut range = reaches[next].clone();
            let first = next;
            next += 1;
            while next < inserts.len() && reaches[next].start < range.end {
                range.end = range.end.max(reaches[next].end);
                next += 1;
            }
            let before = stored.extract(range.clone())?;
            let now = spliced(&before, range.start, &inserts[first..next]);
            if u32::try_from(now.len()).is_err() {
                return Err(Error::Invalid {
                    subject: stored.name().to_owned(),
                    reason: "4 GiB or more of it are pending; hint: RECOMPRESS the corpus".into(),
                });
            }
            let (at, stored_at) = (found.words.len(), found.stored.len());
            let tokenizer = stored.tokenizer();
            collect(tokenizer, &before, &mut interner, &mut found.stored);
            collect(tokenizer, &now, &mut interner, &mut found.words);
            let stored_first = match range.start {
                0 => 0,
                start => stored.words_before(start)?,
            };
            let stored_count = (found.stored.len() - stored_at) as u64;
            let count = (found.words.len() - at) as u64;
            // Words are counted by u64, and there are fewer than 2^63.
            let first_word = stored_first.wrapping_add_signed(words_more);
            let first_byte = range.start + bytes_more;
            found.regions.push(Region {
                stored_words: stored_first..stored_first + stored_count,
                bytes: first_byte..first_byte + now.len() as u64,
                words: first_word..first_word + count,
                at,
                stored_at,
                stored_bytes: range,
            });
            bytes_more += (now.len() - before.len()) as u64;
            words_more += count as i64 - stored_count as i64;
        }
        found.word_count = stored.words().wrapping_add_signed(words_more);
        found.sort_words(interner, stored)?;
        Ok(found)
    }

    /// Numbers the words in dictionary order, and counts them.
    fn sort_words(
        &mut self,
        interner: HashMap<Box<[u8]>, u32>,
        stored: &dyn StoredText,
    ) -> Result<()> {
        let mut words: Vec<(Box<[u8]>, u32)> = interner.into_iter().collect();
        words.sort_unstable_by(|(left, _), (right, _)| stored.compare(left, right));
        let mut numbers = vec![0; words.len()];
        for (number, (_, first)) in (0..).zip(&words) {
            numbers[*first as usize] = number;
        }
        let mut changes: Vec<(u32, i64)> = (0..words.len() as u32).map(|word| (word, 0)).collect();
        for (list, sign) in [(&mut self.words, 1), (&mut self.stored, -1)] {
            for word in list {
                word.word = numbers[word.word as usize];
                changes[word.word as usize].1 += sign;
            }
        }
        changes.retain(|&(_, change)| change != 0);
        self.changes = changes;
        self.dictionary = words.into_iter().map(|(word, _)| word).collect();
        let numbers = self.dictionary.iter().map(|word| stored.find(word));
        self.stored_numbers = numbers.collect::<Result<_>>()?;
        Ok(())
    }

    /// The words of a region as they are now.
    pub(crate) fn words_of(&self, region: &Region) -> &[RegionWord] {
        let count = region.words.end - region.words.start;
        // As many as lie in memory.
        &self.words[region.at..region.at + count as usize]
    }

    /// The words of a region as they are stored.
    pub(crate) fn stored_words_of(&self, region: &Region) -> &[RegionWord] {
        let count = region.stored_words.end - region.stored_words.start;
        &self.stored[region.stored_at..region.stored_at + count as usize]
    }

    /// The place among the words of a region where they begin to differ from the stored ones, and how many at its end are
    /// the same again.
    pub(crate) fn unchanged(&self, region: &Region) -> (usize, usize) {
        let (now, before) = (self.words_of(region), self.stored_words_of(region));
        let same = |pair: &(&RegionWord, &RegionWord)| pair.0.word == pair.1.word;
        let front = now.iter().zip(before).take_while(same).count();
        let rest = now.len().min(before.len()) - front;
        let (now, before) = (now.iter().rev(), before.iter().rev());
        let back = now.zip(before).take(rest).take_while(same).count();
        (front, back)
    }

    /// The place in the text of a stored byte that lies in no region, the first of which behind it is `next`.
    pub(crate) fn moved_byte(&self, offset: u64, next: usize) -> u64 {
        match next.checked_sub(1) {
            None => offset,
            Some(last) => {
                let last = &self.regions[last];
                offset - last.stored_bytes.end + last.bytes.end
            }
        }
    }

    /// The number in the text of a stored word that lies in no region, the first of which behind it is `next`.
    pub(crate) fn moved_word(&self, position: u64, next: usize) -> u64 {
        match next.checked_sub(1) {
            None => position,
            Some(last) => {
                let last = &self.regions[last];
                position - last.stored_words.end + last.words.end
            }
        }
    }
}

/// Inserts that one task looks around at least.
const TASK_INSERTS: usize = 64;

/// What was inserted where, in order; texts that follow each other are one.
fn inserts(pieces: &Pieces) -> Vec<Insert> {
    let mut inserts: Vec<Insert> = Vec::new();
    let mut at = 0;
    let mut is_open = false;
    for piece in pieces.iter() {
        match piece {
            Piece::Stored(range) => {
                at = range.end;
                is_open = false;
            }
            Piece::Inserted(text) => {
                if !is_open {
                    inserts.push(Insert {
                        at,
                        text: Vec::new(),
                    });
                    is_open = true;
                }
                let insert = inserts.last_mut().expect("one was just pushed");
                insert.text.extend_from_slice(text);
            }
        }
    }
    inserts
}

/// `before`, which stands at `start` of the stored text, with the inserts in it.
fn spliced(before: &[u8], start: u64, inserts: &[Insert]) -> Vec<u8> {
    let more: usize = inserts.iter().map(|insert| insert.text.len()).sum();
    let mut now = Vec::with_capacity(before.len() + more);
    let mut done = 0;
    for insert in inserts {
        // Within `before`, which lies in memory.
        let at = (insert.at - start) as usize;
        now.extend_from_slice(&before[done..at]);
        now.extend_from_slice(&insert.text);
        done = at;
    }
    now.extend_from_slice(&before[done..]);
    now
}

/// The stored bytes around an insert that make its region.
fn reach(at: u64, stored: &dyn StoredText) -> Result<Range<u64>> {
    let end = stored.bytes();
    let start = grow(at, |bytes| {
        let from = at.saturating_sub(bytes);
        let text = stored.extract(from..at)?;
        let edge = edge_before(&text, from == 0);
        Ok(match edge {
            Some(edge) => Some(from + edge as u64),
            None if from == 0 => Some(0),
            None => None,
        })
    })?;
    let stop = grow(end - at, |bytes| {
        let to = end.min(at.saturating_add(bytes));
        let text = stored.extract(at..to)?;
        let edge = edge_after(&text, to == end);
        Ok(match edge {
            Some(edge) => Some(at + edge as u64),
            None if to == end => Some(end),
            None => None,
        })
    })?;
    Ok(start..stop)
}

/// Tries larger and larger stretches, of at most `bytes_max`, until `find` finds.
fn grow(bytes_max: u64, mut find: impl FnMut(u64) -> Result<Option<u64>>) -> Result<u64> {
    let mut bytes = REACH_BYTES;
    loop {
        if let Some(found) = find(bytes.min(bytes_max))? {
            return Ok(found);
        }
        bytes = bytes.saturating_mul(4);
    }
}

/// Where a region may begin whose edit is at the end of `text`; `is_start` if `text` begins the file.
fn edge_before(text: &[u8], is_start: bool) -> Option<usize> {
    // A character that begins before `text` is not seen whole.
    let first = if is_start { 1 } else { CHARACTER_BYTES };
    let last = text.len().checked_sub(CHARACTER_BYTES)?;
    let edges = (first..=last).rev().filter(|&at| is_word_edge(text, at));
    enough_words(edges.map(|at| (at, text[at - 1] == b'\n')))
}

/// Where a region may end whose edit is at the start of `text`; `is_end` if `text` ends the file.
fn edge_after(text: &[u8], is_end: bool) -> Option<usize> {
    let behind = if is_end { 1 } else { CHARACTER_BYTES };
    let last = text.len().checked_sub(behind)?;
    let edges = (CHARACTER_BYTES..=last).filter(|&at| is_word_edge(text, at));
    enough_words(edges.map(|at| (at, text[at - 1] == b'\n')))
}

/// The first edge that has [`CONTEXT_WORDS`] words between itself and the first one. Edges stand before the start of a word,
/// if they are told to, or behind the end of one; no word goes over an edge.
fn enough_words(edges: impl Iterator<Item = (usize, bool)>) -> Option<usize> {
    // Going either way, an edge of one kind has a word on this side, one of the other kind on the far side.
    let (mut starts, mut ends) = (0, 0);
    for (edge, starts_word) in edges {
        if starts.max(ends) > CONTEXT_WORDS {
            return Some(edge);
        }
        match starts_word {
            true => starts += 1,
            false => ends += 1,
        }
    }
    None
}

/// Appends the words of a text, numbered as they are first met.
fn collect(
    tokenizer: Tokenizer,
    text: &[u8],
    interner: &mut HashMap<Box<[u8]>, u32>,
    words: &mut Vec<RegionWord>,
) {
    struct Collect<'a> {
        tokenizer: Tokenizer,
        interner: &'a mut HashMap<Box<[u8]>, u32>,
        words: &'a mut Vec<RegionWord>,
    }
    impl Sink for Collect<'_> {
        fn word(&mut self, text: &[u8], start: usize, end: usize) {
            let start = start + usize::from(has_glued_space(self.tokenizer, &text[start..end]));
            let word = &text[start..end];
            let number = match self.interner.get(word) {
                Some(&number) => number,
                None => {
                    // Fewer words than bytes of a region.
                    let number = self.interner.len() as u32;
                    self.interner.insert(word.into(), number);
                    number
                }
            };
            self.words.push(RegionWord {
                word: number,
                // Regions have less than 4 GiB.
                offset: start as u32,
            });
        }

        fn gap(&mut self, _: &[u8], _: usize, _: usize) {}
    }
    tokenize::tokenize(
        tokenizer,
        text,
        &mut Collect {
            tokenizer,
            interner,
            words,
        },
    );
}
