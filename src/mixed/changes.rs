//! Which words the edits of a batch make and unmake.
//!
//! The invariant: a word that somebody asks for is in a text at a moment as often at a place as it was before the batch, plus
//! the changes there up to that moment. Between two questions the words are told only around what was inserted between them,
//! with and without it, up to bytes that show that every tokenizer ends or starts a word there.

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;
use zipfdb_storage::Tokenizer;

use super::Operation;
use super::stretches::{Moment, Part, Source, Stretches};
use crate::Result;
use crate::overlay::CHARACTER_BYTES;
use crate::tokenize::{self, Sink, has_glued_space, is_word_edge};

/// So much text on either side of what was inserted is looked at first.
pub(super) const AROUND_BYTES: u64 = 64;

/// The words that a file is asked for, each with its number.
pub(super) type Words<'a> = HashMap<&'a [u8], u32>;

/// The words that operations on a file ask for.
pub(super) fn words<'a>(indexes: &[usize], operations: &[Operation<'a>]) -> Words<'a> {
    let mut words = Words::new();
    for &index in indexes {
        if let Operation::Count { word, .. } | Operation::Search { word, .. } = operations[index] {
            // Fewer than operations.
            let next = words.len() as u32;
            words.entry(word).or_insert(next);
        }
    }
    words
}

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
        // Those near to each other are looked at together.
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(fresh.len());
        for range in fresh.iter().map(|&index| moment.range(index)) {
            match ranges.last_mut() {
                Some(last) if range.start < last.end + 2 * AROUND_BYTES => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        // Ranges that had to grow may have met others.
        let mut grown: Vec<Text> = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut text = self.around(range, moment)?;
            let start = text.range.start;
            while let Some(last) = grown.pop_if(|last| start < last.range.end) {
                let start = last.range.start.min(text.range.start);
                text = self.text(start..last.range.end.max(text.range.end), moment)?;
            }
            grown.push(text);
        }
        for text in grown {
            self.compare(text, moment);
        }
        fresh.clear();
        self.fresh = fresh;
        self.told = moment.edits();
        Ok(())
    }

    /// Inserted bytes with those around them that make whole words with them.
    fn around(&mut self, range: Range<u64>, moment: &Moment<'_>) -> Result<Text> {
        let size = moment.bytes();
        let (mut before, mut behind) = (AROUND_BYTES, AROUND_BYTES);
        loop {
            let from = range.start.saturating_sub(before);
            let to = size.min(range.end.saturating_add(behind));
            let mut text = self.text(from..to, moment)?;
            // It is in memory.
            let inside = (range.start - from) as usize..(range.end - from) as usize;
            let start = edge_before(&text.bytes[..inside.start], from == 0);
            let end = edge_after(&text.bytes[inside.end..], to == size);
            let start = start.or((from == 0).then_some(0));
            let end = end.or((to == size).then_some(text.bytes.len() - inside.end));
            if let (Some(start), Some(end)) = (start, end) {
                text.narrow(start..inside.end + end);
                return Ok(text);
            }
            // Whoever has no edge has not begun or ended either.
            before = if start.is_none() { 4 * before } else { before };
            behind = if end.is_none() { 4 * behind } else { behind };
        }
    }

    fn text(&mut self, range: Range<u64>, moment: &Moment<'_>) -> Result<Text> {
        let mut text = Text {
            // It is to be in memory.
            bytes: Vec::with_capacity((range.end - range.start) as usize),
            parts: Vec::new(),
            range: range.clone(),
        };
        for part in moment.parts(range) {
            let edit = match part.source {
                Source::Edit(edit, _) => Some(edit),
                Source::Base(_) => None,
            };
            text.parts.push((text.bytes.len(), part.place, edit));
            (self.read)(&part, &mut text.bytes)?;
        }
        Ok(text)
    }

    /// Tells the words of a text, and those of the same without what came since the last time.
    fn compare(&mut self, now: Text, moment: &Moment<'_>) {
        let mut before = Text {
            bytes: Vec::with_capacity(now.bytes.len()),
            parts: Vec::with_capacity(now.parts.len()),
            range: now.range.clone(),
        };
        for (index, &(start, place, edit)) in now.parts.iter().enumerate() {
            if edit.is_none_or(|edit| edit < self.told) {
                let end = now
                    .parts
                    .get(index + 1)
                    .map_or(now.bytes.len(), |next| next.0);
                before.parts.push((before.bytes.len(), place, edit));
                before.bytes.extend_from_slice(&now.bytes[start..end]);
            }
        }
        for (text, more) in [(&now, 1), (&before, -1)] {
            let mut found = Found {
                tokenizer: self.tokenizer,
                words: self.words,
                parts: &text.parts,
                // Edits of a batch are fewer than 2^31.
                edits: moment.edits() as u32,
                more,
                changes: &mut self.changes,
            };
            tokenize::tokenize(self.tokenizer, &text.bytes, &mut found);
        }
    }
}

/// Some bytes of the text at a moment.
struct Text {
    bytes: Vec<u8>,
    /// Where each part begins, its place in the last text, and the edit that inserted it.
    parts: Vec<(usize, u64, Option<usize>)>,
    /// Where they are.
    range: Range<u64>,
}

impl Text {
    /// Keeps some of the bytes.
    fn narrow(&mut self, range: Range<usize>) {
        let first = self
            .parts
            .partition_point(|&(start, ..)| start <= range.start);
        self.parts.drain(..first.saturating_sub(1));
        self.parts.retain(|&(start, ..)| start < range.end);
        for (start, place, _) in &mut self.parts {
            *place += range.start.saturating_sub(*start) as u64;
            *start = start.saturating_sub(range.start);
        }
        self.bytes.truncate(range.end);
        self.bytes.drain(..range.start);
        self.range.start += range.start as u64;
        self.range.end = self.range.start + self.bytes.len() as u64;
    }
}

/// Keeps the words that are asked for.
struct Found<'a> {
    tokenizer: Tokenizer,
    words: &'a Words<'a>,
    parts: &'a [(usize, u64, Option<usize>)],
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
        let part = self.parts.partition_point(|&(from, ..)| from <= start) - 1;
        let (from, place, _) = self.parts[part];
        self.changes.push(Change {
            word,
            place: place + (start - from) as u64,
            edits: self.edits,
            more: self.more,
        });
    }

    fn gap(&mut self, _: &[u8], _: usize, _: usize) {}
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
        changes.par_sort_unstable_by_key(|change| (change.word, change.place, change.edits));
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
        sums.par_sort_unstable();
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
