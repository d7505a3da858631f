//! Which words the edits of a batch make and unmake.
//!
//! The invariant: a word that somebody asks for is in a text at a moment as often at a place as it was before the batch, plus
//! the changes there up to that moment. Between two questions the words are told only around what was inserted between them,
//! with and without it, up to bytes that show that every tokenizer ends or starts a word there.

use std::collections::HashMap;
use std::ops::Range;

use zipfdb_storage::Tokenizer;

use super::stretches::{Moment, Part, Source, Stretches};
use crate::Result;
use crate::overlay::{CHARACTER_BYTES, grow};
use crate::tokenize::{self, Sink, has_glued_space, is_word_edge};

/// So much text on either side of what was inserted is looked at first.
pub(super) const AROUND_BYTES: u64 = 64;

/// The words that a file is asked for, each with its number.
pub(super) type Words<'a> = HashMap<&'a [u8], u32>;

/// A word comes to be somewhere, or is there no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Change {
    word: u32,
    /// Of its first byte in the last text.
    place: u64,
    /// Once so many edits are made.
    edits: u32,
    more: i32,
}

/// All changes of a file.
#[derive(Default)]
pub(super) struct Changes {
    /// By word, place and moment.
    changes: Vec<Change>,
    /// By word and moment how much more often the word occurs from then on.
    sums: Vec<(u32, u32, i64)>,
}

/// Tells the words around the edits of a file as they are made.
pub(super) struct Teller<'a, R> {
    pub(super) tokenizer: Tokenizer,
    pub(super) words: &'a Words<'a>,
    /// Reads a part of the text.
    pub(super) read: R,
    /// Stretches that came since words were told last, and how many edits there were then.
    pub(super) fresh: Vec<u32>,
    pub(super) told: usize,
    pub(super) changes: Vec<Change>,
}

impl<R: FnMut(&Part, &mut Vec<u8>) -> Result<()>> Teller<'_, R> {
    /// Tells what changed since the last time.
    ///
    /// # Errors
    /// If the segment of the file is damaged.
    pub(super) fn tell(&mut self, moment: &Moment<'_>) -> Result<()> {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.sort_unstable();
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(fresh.len());
        join(
            &mut ranges,
            fresh.iter().map(|&index| moment.range(index)),
            2 * AROUND_BYTES,
        );
        let mut around = Vec::with_capacity(ranges.len());
        for range in ranges {
            around.push(self.around(range, moment)?);
        }
        let mut ranges = Vec::with_capacity(around.len());
        join(&mut ranges, around.into_iter(), 0);
        for range in ranges {
            self.compare(range, moment)?;
        }
        fresh.clear();
        self.fresh = fresh;
        self.told = moment.edits();
        Ok(())
    }

    /// The bytes around inserted ones that make whole words with them.
    fn around(&mut self, range: Range<u64>, moment: &Moment<'_>) -> Result<Range<u64>> {
        let start = grow(AROUND_BYTES, range.start, |bytes| {
            let from = range.start - bytes;
            let text = self.text(from..range.start, moment)?;
            let edge = edge_before(&text, from == 0).map(|edge| from + edge as u64);
            Ok(edge.or((from == 0).then_some(0)))
        })?;
        let size = moment.bytes();
        let end = grow(AROUND_BYTES, size - range.end, |bytes| {
            let to = range.end + bytes;
            let text = self.text(range.end..to, moment)?;
            let edge = edge_after(&text, to == size).map(|edge| range.end + edge as u64);
            Ok(edge.or((to == size).then_some(size)))
        })?;
        Ok(start..end)
    }

    fn text(&mut self, range: Range<u64>, moment: &Moment<'_>) -> Result<Vec<u8>> {
        // It is to be in memory.
        let mut text = Vec::with_capacity((range.end - range.start) as usize);
        for part in moment.parts(range) {
            (self.read)(&part, &mut text)?;
        }
        Ok(text)
    }

    /// Tells the words of some bytes, and those of the same without what came since the last time.
    fn compare(&mut self, range: Range<u64>, moment: &Moment<'_>) -> Result<()> {
        let (mut now, mut before) = (Part::text(), Part::text());
        for part in moment.parts(range) {
            let start = now.bytes.len();
            now.starts.push((start, part.place));
            (self.read)(&part, &mut now.bytes)?;
            if !matches!(part.source, Source::Edit(edit, _) if edit >= self.told) {
                before.starts.push((before.bytes.len(), part.place));
                before.bytes.extend_from_slice(&now.bytes[start..]);
            }
        }
        for (text, more) in [(&now, 1), (&before, -1)] {
            let mut found = Found {
                tokenizer: self.tokenizer,
                words: self.words,
                starts: &text.starts,
                // Edits of a batch are fewer than 2^31.
                edits: moment.edits() as u32,
                more,
                changes: &mut self.changes,
            };
            tokenize::tokenize(self.tokenizer, &text.bytes, &mut found);
        }
        Ok(())
    }
}

/// A text in parts.
struct Text {
    bytes: Vec<u8>,
    /// Where each part begins, and its place.
    starts: Vec<(usize, u64)>,
}

impl Part {
    fn text() -> Text {
        Text {
            bytes: Vec::new(),
            starts: Vec::new(),
        }
    }
}

/// Keeps the words that are asked for.
struct Found<'a> {
    tokenizer: Tokenizer,
    words: &'a Words<'a>,
    starts: &'a [(usize, u64)],
    edits: u32,
    more: i32,
    changes: &'a mut Vec<Change>,
}

impl Sink for Found<'_> {
    fn word(&mut self, text: &[u8], start: usize, end: usize) {
        let start = start + usize::from(has_glued_space(self.tokenizer, &text[start..end]));
        let Some(&word) = self.words.get(&text[start..end]) else {
            return;
        };
        // Words ascend.
        let part = self.starts.partition_point(|&(from, _)| from <= start) - 1;
        let (from, place) = self.starts[part];
        self.changes.push(Change {
            word,
            place: place + (start - from) as u64,
            edits: self.edits,
            more: self.more,
        });
    }

    fn gap(&mut self, _: &[u8], _: usize, _: usize) {}
}

/// Ranges that ascend, those at most so far from each other as one.
fn join(joined: &mut Vec<Range<u64>>, ranges: impl Iterator<Item = Range<u64>>, far: u64) {
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start < last.end + far => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
}

/// Where a word may begin or end nearest to an edit at the end of `text`; `is_start` if `text` begins the file.
fn edge_before(text: &[u8], is_start: bool) -> Option<usize> {
    // A character that begins before `text` is not seen whole.
    let first = if is_start { 1 } else { CHARACTER_BYTES };
    let last = text.len().checked_sub(CHARACTER_BYTES)?;
    (first..=last).rev().find(|&at| is_word_edge(text, at))
}

/// Where a word may begin or end nearest to an edit at the start of `text`; `is_end` if `text` ends the file.
fn edge_after(text: &[u8], is_end: bool) -> Option<usize> {
    let behind = if is_end { 1 } else { CHARACTER_BYTES };
    let last = text.len().checked_sub(behind)?;
    (CHARACTER_BYTES..=last).find(|&at| is_word_edge(text, at))
}

impl Changes {
    /// Those that were told, in any order.
    pub(super) fn new(mut changes: Vec<Change>) -> Changes {
        changes.sort_unstable_by_key(|change| (change.word, change.place, change.edits));
        changes.dedup_by(|next, kept| {
            let key = |change: &Change| (change.word, change.place, change.edits);
            let is_same = key(next) == key(kept);
            if is_same {
                kept.more += next.more;
            }
            is_same
        });
        changes.retain(|change| change.more != 0);
        let steps = changes.iter();
        let mut sums: Vec<(u32, u32, i64)> = steps
            .map(|change| (change.word, change.edits, i64::from(change.more)))
            .collect();
        sums.sort_unstable();
        for index in 1..sums.len() {
            if sums[index - 1].0 == sums[index].0 {
                sums[index].2 += sums[index - 1].2;
            }
        }
        Changes { changes, sums }
    }

    /// How much more often a word occurs after so many edits than before the batch.
    pub(super) fn more(&self, word: u32, edits: usize) -> i64 {
        let is_made = |&(other, at, _): &(u32, u32, i64)| (other, at as usize) <= (word, edits);
        let count = self.sums.partition_point(is_made);
        match count.checked_sub(1).map(|last| self.sums[last]) {
            Some((other, _, sum)) if other == word => sum,
            _ => 0,
        }
    }

    /// Where a word stands at a moment, ascending, that stood at `offsets` before the batch.
    pub(super) fn moved(
        &self,
        word: u32,
        mut offsets: Vec<u64>,
        stretches: &Stretches,
        moment: &Moment<'_>,
    ) -> Vec<u64> {
        let from = self.changes.partition_point(|change| change.word < word);
        let count = self.changes[from..].partition_point(|change| change.word == word);
        let changes = &self.changes[from..from + count];
        if changes.is_empty() {
            for offset in &mut offsets {
                *offset = moment.offset(*offset);
            }
            return offsets;
        }
        let mut moved = Vec::with_capacity(offsets.len());
        let mut rest = &offsets[..];
        for changes in changes.chunk_by(|left, right| left.place == right.place) {
            let (base, is_of_base) = stretches.base_of_place(changes[0].place);
            let (before, behind) = rest.split_at(rest.partition_point(|&offset| offset < base));
            moved.extend(before.iter().map(|&offset| moment.offset(offset)));
            rest = behind;
            let was_there = is_of_base && rest.first() == Some(&base);
            if was_there {
                rest = &rest[1..];
            }
            let made = changes.iter();
            let made = made.take_while(|change| change.edits as usize <= moment.edits());
            let more: i32 = made.map(|change| change.more).sum();
            if i32::from(was_there) + more > 0 {
                moved.push(moment.offset_of_place(changes[0].place));
            }
        }
        moved.extend(rest.iter().map(|&offset| moment.offset(offset)));
        moved
    }
}
