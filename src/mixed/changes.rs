//! The occurrences that the edits of a batch add and remove.
//!
//! The invariant, for every queried word: occurrences after operation i = occurrences before the batch + changes up to i. Between
//! two questions only the text around the insertions between them is tokenized, with and without these, up to bytes that show
//! that a word ends or starts there.

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;
use zipfdb_storage::Tokenizer;

use super::operation::Operation;
use super::splices::{ByteSource, StretchPart, Stretches, Version};
use crate::Result;
use crate::bisect::gallop;
use crate::merge::sum_equal;
use crate::overlay::CHARACTER_BYTES;
use crate::tokenize::{self, Sink, has_glued_space, word_edge};

/// Bytes on either side of inserted text that are read first.
pub(super) const AROUND_BYTES: u64 = 64;

/// The words that operations after the first edit of a file ask for.
#[derive(Default)]
pub(super) struct AskedWords<'a> {
    numbers: HashMap<&'a [u8], u32>,
    /// For each operation on the file from the first edit on, the number of the word that it asks for, if it does.
    asked: Vec<u32>,
    /// The number of operations before these.
    first: usize,
}

impl<'a> AskedWords<'a> {
    /// The words of the operations on one file.
    pub(super) fn new(indexes: &[usize], operations: &[Operation<'a>]) -> AskedWords<'a> {
        let is_edit = |&index: &usize| operations[index].is_edit();
        let Some(first) = indexes.iter().position(is_edit) else {
            return AskedWords::default();
        };
        let mut numbers = HashMap::with_capacity((indexes.len() - first) / 2);
        let asked = indexes[first..]
            .iter()
            .map(|&index| match operations[index] {
                Operation::Count { word, .. } | Operation::Search { word, .. } => {
                    // There are fewer words than operations.
                    let next = numbers.len() as u32;
                    *numbers.entry(word).or_insert(next)
                }
                _ => 0,
            });
        AskedWords {
            asked: asked.collect(),
            numbers,
            first,
        }
    }

    /// The word that an operation asks for, by its place among those on the file; none if no edit is before it.
    pub(super) fn asked(&self, operation: usize) -> Option<u32> {
        let place = operation.checked_sub(self.first)?;
        self.asked.get(place).copied()
    }
}

/// An occurrence of a word that an edit added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Change {
    word: u32,
    /// The place of its first byte in the last text.
    place: u64,
    /// The number of edits after which it is there, or is not.
    edits: u32,
    more: i32,
}

/// All changes of a file.
#[derive(Default)]
pub(super) struct Changes {
    /// Sorted by word, place and version.
    changes: Vec<Change>,
    /// For each change, by word and version, the version and how much more often the word occurs from then on.
    sums: Vec<(u32, i64)>,
    /// `[words + 1]`: where the changes of each word begin, up to the last word that has some.
    starts: Vec<u32>,
}

/// Computes the changes around the edits of a file, in order of the edits.
pub(super) struct ChangeCollector<'a, R> {
    tokenizer: Tokenizer,
    words: &'a AskedWords<'a>,
    /// Reads a part of the text.
    read: R,
    /// Stretches that edits have added since the last comparison, and the number of edits at that comparison.
    pub(super) fresh: Vec<u32>,
    compared_edits: usize,
    /// The bytes read since then, and where each part of a text begins in them.
    bytes: Vec<u8>,
    parts: Vec<TextPart>,
    ranges: Vec<Range<u64>>,
    grown: Vec<Text>,
    waiting: Waiting,
    changes: Vec<Change>,
}

/// Texts that wait to be tokenized together.
#[derive(Default)]
struct Waiting {
    /// Texts as they are and as they were before, each with a line feed behind it, which no word crosses.
    bytes: Vec<u8>,
    /// The start of each part of a text, and its place in the last text.
    parts: Vec<(usize, u64)>,
    pairs: Vec<Pair>,
}

/// A text as it is and as it was before.
struct Pair {
    /// The ends of the two.
    now_end: usize,
    before_end: usize,
    edits: u32,
}

/// Text is tokenized in chunks of this many bytes.
const WAITING_BYTES: usize = 16 << 10;

impl<'a, R: FnMut(&StretchPart, &mut Vec<u8>) -> Result<()>> ChangeCollector<'a, R> {
    /// Starts from a file after `edits` edits.
    pub(super) fn new(
        tokenizer: Tokenizer,
        words: &'a AskedWords<'a>,
        edits: usize,
        read: R,
    ) -> ChangeCollector<'a, R> {
        ChangeCollector {
            tokenizer,
            words,
            read,
            fresh: Vec::new(),
            compared_edits: edits,
            bytes: Vec::new(),
            parts: Vec::new(),
            ranges: Vec::new(),
            grown: Vec::new(),
            waiting: Waiting::default(),
            changes: Vec::new(),
        }
    }

    /// Computes the changes since the last comparison.
    ///
    /// # Errors
    /// If the segment of the file is damaged.
    pub(super) fn compare(&mut self, moment: &Version<'_>) -> Result<()> {
        if !self.fresh.is_empty() {
            self.read_around(moment)?;
        }
        self.compared_edits = moment.edits();
        Ok(())
    }

    /// All changes so far.
    pub(super) fn changes(mut self) -> Vec<Change> {
        self.compare_waiting();
        self.changes
    }

    fn read_around(&mut self, moment: &Version<'_>) -> Result<()> {
        self.bytes.clear();
        self.parts.clear();
        self.fresh.sort_unstable();
        // Stretches near to each other share a range.
        let mut ranges = std::mem::take(&mut self.ranges);
        for range in self.fresh.drain(..).map(|index| moment.range(index)) {
            match ranges.last_mut() {
                Some(last) if range.start < last.end + 2 * AROUND_BYTES => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        // A range that was widened may overlap the one before.
        let mut grown = std::mem::take(&mut self.grown);
        for range in ranges.drain(..) {
            let mut text = self.around(range, moment)?;
            let start = text.range.start;
            while let Some(last) = grown.pop_if(|last| start < last.range.end) {
                let start = last.range.start.min(text.range.start);
                text = self.text(start..last.range.end.max(text.range.end), moment)?;
            }
            grown.push(text);
        }
        for text in grown.drain(..) {
            // Edits of a batch are fewer than 2^31.
            self.waiting.push(
                &text,
                &self.bytes,
                &self.parts,
                self.compared_edits,
                moment.edits() as u32,
            );
            if self.waiting.bytes.len() >= WAITING_BYTES {
                self.compare_waiting();
            }
        }
        (self.ranges, self.grown) = (ranges, grown);
        Ok(())
    }

    fn compare_waiting(&mut self) {
        let waiting = &mut self.waiting;
        if waiting.pairs.is_empty() {
            return;
        }
        let mut found = WordDifference {
            tokenizer: self.tokenizer,
            words: self.words,
            waiting,
            pair: 0,
            part: 0,
            now: Vec::new(),
            before: Vec::new(),
            changes: &mut self.changes,
        };
        tokenize::tokenize(self.tokenizer, &waiting.bytes, &mut found);
        found.compare();
        waiting.bytes.clear();
        waiting.parts.clear();
        waiting.pairs.clear();
    }

    /// Reads inserted bytes with those around them, up to word boundaries on both sides.
    fn around(&mut self, range: Range<u64>, moment: &Version<'_>) -> Result<Text> {
        let size = moment.bytes();
        let (mut before, mut behind) = (AROUND_BYTES, AROUND_BYTES);
        loop {
            let from = range.start.saturating_sub(before);
            let to = size.min(range.end.saturating_add(behind));
            let mut text = self.text(from..to, moment)?;
            let bytes = &self.bytes[text.bytes.clone()];
            // The range is in memory.
            let inside = (range.start - from) as usize..(range.end - from) as usize;
            let start = edge_before(self.tokenizer, &bytes[..inside.start], from == 0);
            let end = edge_after(self.tokenizer, &bytes[inside.end..], to == size);
            let start = start.or((from == 0).then_some(0));
            let end = end.or((to == size).then_some(bytes.len() - inside.end));
            if let (Some(start), Some(end)) = (start, end) {
                text.narrow(start..inside.end + end, &self.parts);
                return Ok(text);
            }
            // No word boundary yet: read four times as much on that side.
            before = if start.is_none() { 4 * before } else { before };
            behind = if end.is_none() { 4 * behind } else { behind };
        }
    }

    fn text(&mut self, range: Range<u64>, moment: &Version<'_>) -> Result<Text> {
        let (first_byte, first_part) = (self.bytes.len(), self.parts.len());
        for part in moment.parts(range.clone()) {
            let edit = match part.source {
                ByteSource::Edit(edit, _) => Some(edit),
                ByteSource::Base(_) => None,
            };
            self.parts.push(TextPart {
                start: self.bytes.len(),
                place: part.place,
                edit,
            });
            (self.read)(&part, &mut self.bytes)?;
        }
        Ok(Text {
            bytes: first_byte..self.bytes.len(),
            parts: first_part..self.parts.len(),
            range,
        })
    }
}

/// Bytes of the text of a version.
struct Text {
    /// Their range in the bytes that were read, and the parts that they are of.
    bytes: Range<usize>,
    parts: Range<usize>,
    /// Their range in the text.
    range: Range<u64>,
}

/// Bytes of a text that are adjacent in the last text.
struct TextPart {
    /// Their start in the bytes that were read.
    start: usize,
    /// Its place in the last text.
    place: u64,
    /// The edit of the batch that inserted them, if one did.
    edit: Option<usize>,
}

impl Text {
    /// Narrows the text to some of its bytes.
    fn narrow(&mut self, range: Range<usize>, parts: &[TextPart]) {
        self.range.start += range.start as u64;
        self.range.end = self.range.start + range.len() as u64;
        self.bytes = self.bytes.start + range.start..self.bytes.start + range.end;
        let of_text = &parts[self.parts.clone()];
        let first = of_text.partition_point(|part| part.start <= self.bytes.start);
        let end = of_text.partition_point(|part| part.start < self.bytes.end);
        let first = first.saturating_sub(1).min(end);
        self.parts = self.parts.start + first..self.parts.start + end;
    }
}

impl Waiting {
    /// Queues a text window twice: after `edits` edits and after `edits_before` edits.
    fn push(
        &mut self,
        text: &Text,
        bytes: &[u8],
        parts: &[TextPart],
        edits_before: usize,
        edits: u32,
    ) {
        let parts = &parts[text.parts.clone()];
        let starts = parts.iter().map(|part| part.start).skip(1);
        let ends = starts.chain([text.bytes.end]);
        let parts = parts.iter().zip(ends);
        let [now_end, before_end] = [usize::MAX, edits_before].map(|made| {
            for (part, end) in parts.clone() {
                if part.edit.is_none_or(|edit| edit < made) {
                    let start = part.start.max(text.bytes.start);
                    let place = part.place + (start - part.start) as u64;
                    self.parts.push((self.bytes.len(), place));
                    self.bytes.extend_from_slice(&bytes[start..end]);
                }
            }
            self.bytes.push(b'\n');
            self.bytes.len()
        });
        self.pairs.push(Pair {
            now_end,
            before_end,
            edits,
        });
    }
}

/// Compares the words of texts as they are and as they were before.
struct WordDifference<'a> {
    tokenizer: Tokenizer,
    words: &'a AskedWords<'a>,
    waiting: &'a Waiting,
    /// The pair whose words are being read.
    pair: usize,
    part: usize,
    /// The words of the pair in either text, each with its place in the last text.
    now: Vec<(u64, Range<usize>)>,
    before: Vec<(u64, Range<usize>)>,
    changes: &'a mut Vec<Change>,
}

impl WordDifference<'_> {
    /// Appends the differences between the words of a pair, and goes on to the next pair.
    fn compare(&mut self) {
        let text = |word: &Range<usize>| &self.waiting.bytes[word.clone()];
        let (mut now, mut before) = (
            self.now.drain(..).peekable(),
            self.before.drain(..).peekable(),
        );
        loop {
            let more = match (now.peek(), before.peek()) {
                (None, None) => break,
                (Some(_), None) => 1,
                (None, Some(_)) => -1,
                (Some((place, word)), Some((place_before, word_before))) => {
                    if place == place_before && text(word) == text(word_before) {
                        now.next();
                        before.next();
                        continue;
                    }
                    if place <= place_before { 1 } else { -1 }
                }
            };
            let next = if more > 0 { now.next() } else { before.next() };
            let Some((place, word)) = next else { break };
            if let Some(&word) = self.words.numbers.get(text(&word)) {
                self.changes.push(Change {
                    word,
                    place,
                    edits: self.waiting.pairs[self.pair].edits,
                    more,
                });
            }
        }
        self.pair += 1;
    }
}

impl Sink for WordDifference<'_> {
    fn word(&mut self, text: &[u8], start: usize, end: usize) {
        let start = start + usize::from(has_glued_space(self.tokenizer, &text[start..end]));
        while self.waiting.pairs[self.pair].before_end <= start {
            self.compare();
        }
        let parts = &self.waiting.parts;
        while parts.get(self.part + 1).is_some_and(|part| part.0 <= start) {
            self.part += 1;
        }
        let (from, place) = parts[self.part];
        let words = if start < self.waiting.pairs[self.pair].now_end {
            &mut self.now
        } else {
            &mut self.before
        };
        words.push((place + (start - from) as u64, start..end));
    }

    fn gap(&mut self, _: &[u8], _: usize, _: usize) {}
}

/// The word edge nearest to an edit at the end of `text`; `is_start` if `text` begins the file.
fn edge_before(tokenizer: Tokenizer, text: &[u8], is_start: bool) -> Option<usize> {
    // A character that begins before `text` is not complete here.
    let first = if is_start { 1 } else { CHARACTER_BYTES };
    let last = text.len().checked_sub(CHARACTER_BYTES)?;
    let is_edge = |&at: &usize| word_edge(tokenizer, text, at).is_some();
    (first..=last).rev().find(is_edge)
}

/// The word edge nearest to an edit at the start of `text`; `is_end` if `text` ends the file.
fn edge_after(tokenizer: Tokenizer, text: &[u8], is_end: bool) -> Option<usize> {
    let behind = if is_end { 1 } else { CHARACTER_BYTES };
    let last = text.len().checked_sub(behind)?;
    let is_edge = |&at: &usize| word_edge(tokenizer, text, at).is_some();
    (CHARACTER_BYTES..=last).find(is_edge)
}

impl Changes {
    /// Sorts and merges changes, which come in any order.
    pub(super) fn new(mut changes: Vec<Change>) -> Changes {
        let key = |change: &Change| (change.word, change.place, change.edits);
        changes.par_sort_unstable_by_key(key);
        sum_equal(
            &mut changes,
            |left, right| key(left) == key(right),
            |kept, next| kept.more += next.more,
        );
        changes.retain(|change| change.more != 0);
        let steps = changes.iter();
        let mut sums: Vec<(u32, i64)> = steps
            .map(|change| (change.edits, i64::from(change.more)))
            .collect();
        let mut starts = vec![0];
        let mut from = 0;
        for of_word in changes.chunk_by(|left, right| left.word == right.word) {
            // A word's number is less than the number of words in memory.
            starts.resize(of_word[0].word as usize + 1, from as u32);
            let to = from + of_word.len();
            let sums = &mut sums[from..to];
            sums.sort_unstable();
            for index in 1..sums.len() {
                sums[index].1 += sums[index - 1].1;
            }
            from = to;
        }
        starts.push(from as u32);
        Changes {
            changes,
            sums,
            starts,
        }
    }

    /// The range of the changes of a word.
    fn range(&self, word: u32) -> Range<usize> {
        match self.starts.get(word as usize..word as usize + 2) {
            Some(&[from, to]) => from as usize..to as usize,
            _ => 0..0,
        }
    }

    /// The change of a word's count by the first `edits` edits of the batch.
    pub(super) fn more(&self, word: u32, edits: usize) -> i64 {
        let sums = &self.sums[self.range(word)];
        let count = sums.partition_point(|&(at, _)| at as usize <= edits);
        count.checked_sub(1).map_or(0, |last| sums[last].1)
    }

    /// The offsets of a word in a version, ascending, given its `offsets` before the batch.
    pub(super) fn moved(
        &self,
        word: u32,
        offsets: &[u64],
        stretches: &Stretches,
        moment: &Version<'_>,
    ) -> Vec<u64> {
        let changes = &self.changes[self.range(word)];
        // Each change adds one offset at most.
        let mut moved = Vec::with_capacity(offsets.len() + changes.len());
        let mut rest = offsets;
        for changes in changes.chunk_by(|left, right| left.place == right.place) {
            let (base, is_of_base) = stretches.base_of_place(changes[0].place);
            let before = gallop(rest.len(), |index| rest[index] < base);
            let (before, behind) = rest.split_at(before);
            moment.append_offsets(before, &mut moved);
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
        moment.append_offsets(rest, &mut moved);
        moved
    }
}
