//! The words around the edits of a file.
//!
//! A *region* is a stretch of the stored text whose words an edit may have changed, with its current words. The invariant:
//! outside of the regions the words of the file are the stored ones, and each region begins and ends with at least
//! [`CONTEXT_WORDS`] words that are the same on both sides (or where the file does). So any n-gram lies in one region or outside
//! of what changed, and the change of a count is the region's current words minus its stored ones.
//!
//! A region begins and ends where the bytes around show that a word ends or starts ([`tokenize::word_edge`]), so text outside of
//! it is not tokenized again. Work and memory grow with the edits, not with the file, unless it has no such place for long
//! stretches.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rayon::prelude::*;
use zipfdb_kernels::NGRAM_WORDS_MAX;
use zipfdb_sql::shorten;
use zipfdb_storage::Tokenizer;

use super::pieces::{Piece, Pieces};
use crate::merge::sum_equal;
use crate::tokenize::{self, Interner, Sink, WordEdge, has_glued_space, word_edge};
use crate::{Error, Result};

/// A stored file.
pub(crate) trait StoredText: Sync {
    /// Its name, for errors.
    fn name(&self) -> &str;
    /// The tokenizer of the corpus.
    fn tokenizer(&self) -> Tokenizer;
    /// Its size in bytes.
    fn bytes(&self) -> u64;
    /// The number of its words.
    fn words(&self) -> u64;
    /// A range of its bytes.
    fn extract(&self, range: Range<u64>) -> Result<Vec<u8>>;
    /// The number of its words that begin before a byte.
    fn words_before(&self, offset: u64) -> Result<u64>;
    /// A number for a word, the same for every text with the same [`StoredText::numbering`].
    fn number(&self, word: &[u8]) -> Result<u32>;
    /// The identity of the numbering of words.
    fn numbering(&self) -> u64;
    /// Checked at each part of the work; an error ends it.
    fn go_on(&self) -> Result<()>;
}

/// A region has at least this many unchanged words at either end.
const CONTEXT_WORDS: usize = NGRAM_WORDS_MAX - 1;

/// The longest UTF-8 character in bytes: characters at this distance from an edit are unchanged.
pub(crate) const CHARACTER_BYTES: usize = 4;

/// Bytes on either side of an edit that are read first.
const REACH_BYTES: u64 = 128;

/// A word of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionWord {
    /// Its number, see [`StoredText::number`].
    pub(crate) word: u32,
    /// The offset of its first own byte in the region's text.
    pub(crate) offset: u32,
}

/// A stretch of a file around edits.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    /// The stored bytes that it replaces.
    pub(crate) stored_bytes: Range<u64>,
    /// The stored words that it replaces, by their places in the stored file.
    pub(crate) stored_words: Range<u64>,
    /// Its bytes in the file's current text.
    pub(crate) bytes: Range<u64>,
    /// Its words in the file's current text.
    pub(crate) words: Range<u64>,
    pub(crate) text: Arc<RegionText>,
}

/// The words of a region, independent of its place in the file.
#[derive(Debug)]
pub(crate) struct RegionText {
    /// Its current words.
    pub(crate) words: Vec<RegionWord>,
    /// Its stored words.
    pub(crate) stored: Vec<RegionWord>,
    /// The number of equal words at the start of both, and of the rest at their ends.
    pub(crate) same_front: usize,
    pub(crate) same_back: usize,
    /// Its current size in bytes.
    bytes: u64,
    /// The number of words of the stored file before it.
    words_before: u64,
    /// The texts inserted in it.
    inserts: Vec<Insert>,
}

/// The place of a word in the regions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RegionPlace {
    word: u32,
    /// The number of the region among those of the file.
    pub(crate) region: u32,
    /// The number of the word among the region's current ones.
    pub(crate) index: u32,
}

/// All regions of a file.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    /// Ascending; they do not overlap.
    pub(crate) regions: Vec<Region>,
    /// The changes of counts against the stored file; ascending by word, without zeros.
    pub(crate) changes: Vec<(u32, i64)>,
    /// The current size of the file in bytes and in words.
    pub(crate) bytes: u64,
    pub(crate) word_count: u64,
    /// For each place of an insert, ascending, the stored bytes around it that are in its region.
    reaches: Vec<(u64, Range<u64>)>,
    /// The identity of the numbering of words.
    pub(super) numbering: u64,
    /// The places of each word, by word, once searches have paid for the index.
    places: OnceLock<Vec<RegionPlace>>,
    /// The number of searches so far.
    searches: AtomicU32,
}

/// An index of the words costs about the time of this many searches without it.
const SEARCHES_WITHOUT_INDEX: u32 = 20;

/// Text inserted at one place of the stored text.
#[derive(Debug)]
struct Insert {
    at: u64,
    texts: Vec<Bytes>,
}

impl Insert {
    /// Whether it inserts the very same texts at the same place.
    fn is_same(&self, other: &Insert) -> bool {
        let place = |text: &Bytes| (text.as_ptr(), text.len());
        self.at == other.at && (self.texts.iter().map(place)).eq(other.texts.iter().map(place))
    }
}

impl Regions {
    /// Finds the regions of a text that rests on `stored`. Regions that are also in `before`, of an earlier text on the same
    /// `stored`, are taken from there.
    ///
    /// Work: O(inserted bytes), and a few extracts for each place of an insert that is not in `before`.
    ///
    /// # Errors
    /// If the segment of the file is damaged, a region has 4 GiB or more, or `stored` ends the work.
    pub(crate) fn new(
        pieces: &Pieces,
        stored: &dyn StoredText,
        before: Option<&Regions>,
    ) -> Result<Regions> {
        let inserts = inserts(pieces);
        let known = before.map_or(&[][..], |before| &before.reaches);
        let reaches: Vec<(u64, Range<u64>)> = (inserts.par_iter().with_min_len(TASK_INSERTS))
            .map(|insert| {
                stored.go_on()?;
                let found = known.binary_search_by_key(&insert.at, |&(at, _)| at);
                let reach = match found {
                    Ok(found) => known[found].1.clone(),
                    Err(_) => reach(insert.at, stored)?,
                };
                Ok((insert.at, reach))
            })
            .collect::<Result<_>>()?;

        // Inserts whose reaches meet share a region.
        let mut groups: Vec<(Range<u64>, Vec<Insert>)> = Vec::new();
        for (insert, (_, reach)) in inserts.into_iter().zip(&reaches) {
            match groups.last_mut() {
                Some((range, group)) if reach.start < range.end => {
                    range.end = range.end.max(reach.end);
                    group.push(insert);
                }
                _ => groups.push((reach.clone(), vec![insert])),
            }
        }
        let known = before.map_or(&[][..], |before| &before.regions);
        let texts = groups.into_par_iter().with_min_len(TASK_INSERTS);
        let texts: Vec<(Range<u64>, Arc<RegionText>)> = texts
            .map(|(range, inserts)| {
                stored.go_on()?;
                let found =
                    known.binary_search_by_key(&range.start, |region| region.stored_bytes.start);
                let same = found.ok().map(|found| &known[found]).filter(|region| {
                    let pairs = region.text.inserts.iter().zip(&inserts);
                    region.stored_bytes == range
                        && region.text.inserts.len() == inserts.len()
                        && pairs.into_iter().all(|(left, right)| left.is_same(right))
                });
                let text = match same {
                    Some(region) => region.text.clone(),
                    None => Arc::new(RegionText::new(&range, inserts, stored)?),
                };
                Ok((range, text))
            })
            .collect::<Result<_>>()?;

        let mut found = Regions {
            bytes: pieces.bytes(),
            word_count: stored.words(),
            reaches,
            numbering: stored.numbering(),
            ..Regions::default()
        };
        // The distance in bytes and words between stored and current text, before the current region.
        let (mut bytes_more, mut words_more) = (0u64, 0i64);
        for (range, text) in texts {
            let first_byte = range.start + bytes_more;
            bytes_more += text.bytes - (range.end - range.start);
            let first_word = text.words_before.wrapping_add_signed(words_more);
            // Lengths are below 2^63.
            words_more += text.words.len() as i64 - text.stored.len() as i64;
            found.regions.push(Region {
                stored_words: text.words_before..text.words_before + text.stored.len() as u64,
                bytes: first_byte..first_byte + text.bytes,
                words: first_word..first_word + text.words.len() as u64,
                stored_bytes: range,
                text,
            });
        }
        found.word_count = found.word_count.wrapping_add_signed(words_more);
        found.count_changes(stored)?;
        Ok(found)
    }

    fn count_changes(&mut self, stored: &dyn StoredText) -> Result<()> {
        let mut changes: Vec<(u32, i64)> = Vec::new();
        let mut summed = 0;
        // Numbers alone are sorted several times as fast as pairs.
        let (mut now, mut before) = (Vec::new(), Vec::new());
        for region in &self.regions {
            let text = &region.text;
            let words = text.changed(&text.words).chunks(SORTED_WORDS_MAX);
            let stored_words = text.changed(&text.stored).chunks(SORTED_WORDS_MAX);
            let sides =
                (words.map(|words| (words, 1))).chain(stored_words.map(|words| (words, -1)));
            for (words, sign) in sides {
                let sorted = if sign > 0 { &mut now } else { &mut before };
                sorted.extend(words.iter().map(|word| word.word));
                if sorted.len() < SORTED_WORDS_MAX {
                    continue;
                }
                stored.go_on()?;
                push_runs(&mut changes, sorted, sign);
                // Most words come many times.
                if changes.len() > 2 * summed + CHANGES_MIN {
                    add_up(&mut changes);
                    summed = changes.len();
                }
            }
        }
        push_runs(&mut changes, &mut now, 1);
        push_runs(&mut changes, &mut before, -1);
        add_up(&mut changes);
        changes.shrink_to_fit();
        self.changes = changes;
        Ok(())
    }

    /// The places of a word in the regions, ascending.
    ///
    /// The first searches scan all words; later ones use an index, which then pays.
    pub(crate) fn places_of(&self, word: u32) -> Cow<'_, [RegionPlace]> {
        if self.searches.fetch_add(1, Ordering::Relaxed) < SEARCHES_WITHOUT_INDEX {
            let places = self.all_places().filter(|place| place.word == word);
            return Cow::Owned(places.collect());
        }
        let places = self.places.get_or_init(|| {
            let mut places: Vec<RegionPlace> = self.all_places().collect();
            places.sort_unstable();
            places
        });
        let from = places.partition_point(|place| place.word < word);
        let count = places[from..].partition_point(|place| place.word == word);
        Cow::Borrowed(&places[from..from + count])
    }

    /// The places of all words, ascending.
    fn all_places(&self) -> impl Iterator<Item = RegionPlace> {
        // A region has less than 4 GiB, and 2^32 regions would not fit into memory.
        let regions = (0..).zip(&self.regions);
        regions.flat_map(|(region, found)| {
            let words = (0..).zip(&found.text.words);
            words.map(move |(index, place)| RegionPlace {
                word: place.word,
                region,
                index,
            })
        })
    }

    /// The current offset of a stored byte that lies in no region; `next` is the first region behind it.
    pub(crate) fn moved_byte(&self, offset: u64, next: usize) -> u64 {
        match next.checked_sub(1) {
            None => offset,
            Some(last) => {
                let last = &self.regions[last];
                offset - last.stored_bytes.end + last.bytes.end
            }
        }
    }

    /// The current number of a stored word that lies in no region; `next` is the first region behind it.
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

impl Region {
    /// The stored words that are no longer what they were, by their places; empty where words were only inserted, none if all are
    /// the same.
    pub(crate) fn changed_words(&self) -> Option<Range<u64>> {
        let text = &self.text;
        (!text.is_same()).then(|| {
            let start = self.stored_words.start + text.same_front as u64;
            start..self.stored_words.end - text.same_back as u64
        })
    }
}

impl RegionText {
    fn new(
        range: &Range<u64>,
        inserts: Vec<Insert>,
        stored: &dyn StoredText,
    ) -> Result<RegionText> {
        let before = stored.extract(range.clone())?;
        let now = spliced(&before, range.start, &inserts);
        if u32::try_from(now.len()).is_err() {
            return Err(Error::Invalid {
                subject: shorten(stored.name()),
                reason: "4 GiB or more of it are pending; hint: RECOMPRESS the corpus".into(),
            });
        }
        let words_before = match range.start {
            0 => 0,
            start => stored.words_before(start)?,
        };
        let (words, stored_words) = (words_of(&now, stored)?, words_of(&before, stored)?);
        let bytes = now.len() as u64;
        drop(now);
        let same = |pair: &(&RegionWord, &RegionWord)| pair.0.word == pair.1.word;
        let pairs = words.iter().zip(&stored_words);
        let same_front = pairs.take_while(same).count();
        let rest = words.len().min(stored_words.len()) - same_front;
        let pairs = words.iter().rev().zip(stored_words.iter().rev());
        let same_back = pairs.take(rest).take_while(same).count();
        Ok(RegionText {
            words,
            stored: stored_words,
            same_front,
            same_back,
            bytes,
            words_before,
            inserts,
        })
    }

    /// The region's words, current or stored, without the equal ones at its start and end.
    fn changed<'a>(&self, words: &'a [RegionWord]) -> &'a [RegionWord] {
        &words[self.same_front..words.len() - self.same_back]
    }

    /// Whether all words are the same.
    pub(crate) fn is_same(&self) -> bool {
        self.words.len() == self.stored.len() && self.same_front == self.words.len()
    }
}

/// Sorts changes of counts by word, adds up those of each word and drops zeros.
pub(crate) fn add_up(changes: &mut Vec<(u32, i64)>) {
    changes.par_sort_unstable();
    sum_equal(
        changes,
        |left, right| left.0 == right.0,
        |kept, next| kept.1 += next.1,
    );
    changes.retain(|&(_, change)| change != 0);
}

/// The least number of changes that are added up at once.
const CHANGES_MIN: usize = 1 << 20;

/// The number of words that are sorted at once.
const SORTED_WORDS_MAX: usize = if cfg!(test) { 1 << 6 } else { 1 << 20 };

/// Appends for each distinct word the number of its occurrences times `sign`, and empties `words`.
fn push_runs(changes: &mut Vec<(u32, i64)>, words: &mut Vec<u32>, sign: i64) {
    words.sort_unstable();
    let runs = words.chunk_by(|left, right| left == right);
    // Lengths are below 2^63.
    changes.extend(runs.map(|run| (run[0], sign * run.len() as i64)));
    words.clear();
}

/// The least number of inserts in a task.
const TASK_INSERTS: usize = 64;

/// The inserted texts by place, in order.
fn inserts(pieces: &Pieces) -> Vec<Insert> {
    let mut inserts: Vec<Insert> = Vec::new();
    let mut at = 0;
    for piece in pieces.iter() {
        match piece {
            Piece::Stored(range) => at = range.end,
            Piece::Inserted(text) => match inserts.last_mut() {
                Some(insert) if insert.at == at => insert.texts.push(text.clone()),
                _ => inserts.push(Insert {
                    at,
                    texts: vec![text.clone()],
                }),
            },
        }
    }
    inserts
}

/// `before`, which stands at `start` of the stored text, with the inserts in it.
fn spliced<'a>(before: &[u8], start: u64, inserts: &'a [Insert]) -> Cow<'a, [u8]> {
    if let ([], [Insert { texts, .. }]) = (before, inserts)
        && let [only] = &texts[..]
    {
        return Cow::Borrowed(only);
    }
    let texts = inserts.iter().flat_map(|insert| &insert.texts);
    let more: usize = texts.map(Bytes::len).sum();
    let mut now = Vec::with_capacity(before.len() + more);
    let mut done = 0;
    for insert in inserts {
        // Within `before`, which lies in memory.
        let at = (insert.at - start) as usize;
        now.extend_from_slice(&before[done..at]);
        for text in &insert.texts {
            now.extend_from_slice(text);
        }
        done = at;
    }
    now.extend_from_slice(&before[done..]);
    Cow::Owned(now)
}

/// The stored bytes around an insert that make its region.
fn reach(at: u64, stored: &dyn StoredText) -> Result<Range<u64>> {
    let end = stored.bytes();
    let start = grow(at, |bytes| {
        let from = at.saturating_sub(bytes);
        let text = stored.extract(from..at)?;
        let edge = edge_before(stored.tokenizer(), &text, from == 0);
        Ok(match edge {
            Some(edge) => Some(from + edge as u64),
            None if from == 0 => Some(0),
            None => None,
        })
    })?;
    let stop = grow(end - at, |bytes| {
        let to = end.min(at.saturating_add(bytes));
        let text = stored.extract(at..to)?;
        let edge = edge_after(stored.tokenizer(), &text, to == end);
        Ok(match edge {
            Some(edge) => Some(at + edge as u64),
            None if to == end => Some(end),
            None => None,
        })
    })?;
    Ok(start..stop)
}

/// Tries larger and larger stretches, of at most `bytes_max`, until `find` returns a place.
fn grow(bytes_max: u64, mut find: impl FnMut(u64) -> Result<Option<u64>>) -> Result<u64> {
    let mut bytes = REACH_BYTES;
    loop {
        if let Some(found) = find(bytes.min(bytes_max))? {
            return Ok(found);
        }
        bytes = bytes.saturating_mul(4);
    }
}

/// The start of a region whose edit is at the end of `text`; `is_start` if `text` begins the file.
fn edge_before(tokenizer: Tokenizer, text: &[u8], is_start: bool) -> Option<usize> {
    // A character that begins before `text` is not complete here.
    let first = if is_start { 1 } else { CHARACTER_BYTES };
    let last = text.len().checked_sub(CHARACTER_BYTES)?;
    let edge = |at| Some((at, word_edge(tokenizer, text, at)?));
    enough_words((first..=last).rev().filter_map(edge))
}

/// The end of a region whose edit is at the start of `text`; `is_end` if `text` ends the file.
fn edge_after(tokenizer: Tokenizer, text: &[u8], is_end: bool) -> Option<usize> {
    let behind = if is_end { 1 } else { CHARACTER_BYTES };
    let last = text.len().checked_sub(behind)?;
    let edge = |at| Some((at, word_edge(tokenizer, text, at)?));
    enough_words((CHARACTER_BYTES..=last).filter_map(edge))
}

/// The first edge that has [`CONTEXT_WORDS`] words between itself and the first one. No word crosses an edge.
fn enough_words(edges: impl Iterator<Item = (usize, WordEdge)>) -> Option<usize> {
    // Going either way, an edge of one kind has a word on this side, one of the other kind on the far side.
    let (mut starts, mut ends) = (0, 0);
    for (at, edge) in edges {
        if starts.max(ends) > CONTEXT_WORDS {
            return Some(at);
        }
        starts += usize::from(edge != WordEdge::End);
        ends += usize::from(edge != WordEdge::Start);
    }
    None
}

/// Texts from this size on repeat most words: each distinct word is looked up once.
const LARGE_BYTES: usize = 1 << 15;

/// The words of a text.
fn words_of(text: &[u8], stored: &dyn StoredText) -> Result<Vec<RegionWord>> {
    if text.len() >= LARGE_BYTES {
        return words_of_large(text, stored);
    }
    struct Collect<'a> {
        stored: &'a dyn StoredText,
        words: Result<Vec<RegionWord>>,
    }
    impl Sink for Collect<'_> {
        fn word(&mut self, text: &[u8], start: usize, end: usize) {
            let Ok(words) = &mut self.words else {
                return;
            };
            let is_glued = has_glued_space(self.stored.tokenizer(), &text[start..end]);
            let start = start + usize::from(is_glued);
            match self.stored.number(&text[start..end]) {
                Ok(word) => words.push(RegionWord {
                    word,
                    // Regions have less than 4 GiB.
                    offset: start as u32,
                }),
                Err(error) => self.words = Err(error),
            }
        }

        fn gap(&mut self, _: &[u8], _: usize, _: usize) {}
    }
    let mut collect = Collect {
        stored,
        words: Ok(Vec::new()),
    };
    tokenize::tokenize(stored.tokenizer(), text, &mut collect);
    collect.words
}

/// As [`words_of`], with each distinct word of a piece looked up once, and pieces in parallel.
fn words_of_large(text: &[u8], stored: &dyn StoredText) -> Result<Vec<RegionWord>> {
    let tokenizer = stored.tokenizer();
    let mut pieces = Vec::with_capacity(text.len() / PIECE_BYTES + 1);
    let mut start = 0;
    while start < text.len() {
        stored.go_on()?;
        let end = start + part_of(tokenizer, &text[start..], PIECE_BYTES);
        pieces.push(start..end);
        start = end;
    }
    let words = (pieces.into_par_iter()).map(|piece| words_of_piece(text, piece, stored));
    let mut words = words.collect::<Result<Vec<Vec<RegionWord>>>>()?;
    match &mut words[..] {
        [only] => Ok(std::mem::take(only)),
        _ => Ok(words.concat()),
    }
}

/// The words of a piece of a text that begins and ends between words.
fn words_of_piece(
    text: &[u8],
    piece: Range<usize>,
    stored: &dyn StoredText,
) -> Result<Vec<RegionWord>> {
    let tokenizer = stored.tokenizer();
    // An interner takes less than 2 GiB.
    let mut interner = Interner::new();
    let mut end = piece.start;
    while end < piece.end {
        stored.go_on()?;
        let rest = &text[end..piece.end];
        let part = part_of(tokenizer, rest, PART_BYTES);
        tokenize::tokenize(tokenizer, &rest[..part], &mut interner);
        end += part;
    }
    let (tokens, dictionary) = interner.take();
    // Fewer tokens than bytes.
    let known: Vec<Option<(u32, u32)>> = (0..dictionary.len() as u32)
        .map(|id| {
            let token = dictionary.token(id);
            if id.is_multiple_of(LOOKUPS) {
                stored.go_on()?;
            }
            if !dictionary.is_word(id) {
                return Ok(None);
            }
            let space = usize::from(has_glued_space(tokenizer, token));
            let number = stored.number(&token[space..])?;
            Ok(Some((number, space as u32)))
        })
        .collect::<Result<_>>()?;
    let is_word = |token: &&u32| known[**token as usize].is_some();
    let mut words = Vec::with_capacity(tokens.iter().filter(is_word).count());
    // Regions have less than 4 GiB.
    let mut offset = piece.start as u32;
    for token in tokens {
        if let Some((word, space)) = known[token as usize] {
            words.push(RegionWord {
                word,
                offset: offset + space,
            });
        }
        offset += dictionary.token(token).len() as u32;
    }
    Ok(words)
}

/// The length of the next part of a text: at most `bytes`, or as far as a cut is found.
fn part_of(tokenizer: Tokenizer, text: &[u8], bytes: usize) -> usize {
    for bytes in [bytes, SEARCHED_BYTES] {
        if text.len() <= bytes {
            return text.len();
        }
        if let Some(end) = tokenize::chunk_end(tokenizer, &text[..bytes]) {
            return end;
        }
    }
    text.len().min(UNCUT_BYTES_MAX)
}

/// A text without a place to cut grows up to this size and is then cut anywhere.
const UNCUT_BYTES_MAX: usize = 1 << 30;

/// Bytes of a text that are searched for a place to cut.
const SEARCHED_BYTES: usize = 64 << 20;

/// Bytes of a piece of a large text, and of the parts in which a piece is tokenized. Tests use small pieces.
const PIECE_BYTES: usize = if cfg!(test) { 1 << 13 } else { 4 << 20 };
const PART_BYTES: usize = 1 << 20;

/// Words that are looked up between two checks for interruption.
const LOOKUPS: u32 = 1 << 12;
