//! The text of a file as pieces: ranges of the stored file, and inserted text.
//!
//! The invariant: the text is the pieces one after the other; stored pieces ascend and are together the whole stored text, as
//! only whole files are ever deleted; no piece is empty. A clone shares leaves, and a change copies one leaf.

use std::iter;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

/// A stretch of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes of the stored file.
    Stored(Range<u64>),
    /// Inserted bytes.
    Inserted(Bytes),
}

/// Pieces of a leaf; a full leaf is split in two.
const LEAF_PIECES_MAX: usize = 16;

/// A text in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    /// The end of each leaf, in bytes of text.
    ends: Vec<u64>,
    leaves: Vec<Arc<Vec<Piece>>>,
    bytes: u64,
}

impl Piece {
    /// The size in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Piece::Stored(range) => range.end - range.start,
            Piece::Inserted(text) => text.len() as u64,
        }
    }

    /// The bytes before `at` and those from it on; `at` lies inside.
    fn split(&self, at: u64) -> (Piece, Piece) {
        match self {
            Piece::Stored(range) => {
                let middle = range.start + at;
                (
                    Piece::Stored(range.start..middle),
                    Piece::Stored(middle..range.end),
                )
            }
            // Less than the length, which is a usize.
            Piece::Inserted(text) => (
                Piece::Inserted(text.slice(..at as usize)),
                Piece::Inserted(text.slice(at as usize..)),
            ),
        }
    }

    /// A range of the bytes.
    fn slice(&self, range: Range<u64>) -> Piece {
        match self {
            Piece::Stored(stored) => {
                Piece::Stored(stored.start + range.start..stored.start + range.end)
            }
            // Within the length, which is a usize.
            Piece::Inserted(text) => {
                Piece::Inserted(text.slice(range.start as usize..range.end as usize))
            }
        }
    }
}

impl Pieces {
    /// The text of a stored file.
    pub(crate) fn stored(bytes: u64) -> Pieces {
        let mut pieces = Pieces::default();
        if bytes > 0 {
            pieces.ends.push(bytes);
            pieces.leaves.push(Arc::new(vec![Piece::Stored(0..bytes)]));
            pieces.bytes = bytes;
        }
        pieces
    }

    /// The size of the text in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Inserts `text` before byte `at`, at most [`Pieces::bytes`].
    ///
    /// Work: one addition for each leaf from there on, and a copy of a leaf that is shared.
    pub(crate) fn insert(&mut self, at: u64, text: Bytes) {
        debug_assert!(at <= self.bytes);
        if text.is_empty() {
            return;
        }
        let size = text.len() as u64;
        let piece = Piece::Inserted(text);
        if self.leaves.is_empty() {
            self.leaves.push(Arc::new(Vec::new()));
            self.ends.push(0);
        }
        // Texts grow at their end more often than anywhere else.
        let leaf = if at == self.bytes {
            self.leaves.len() - 1
        } else {
            self.ends.partition_point(|&end| end < at)
        };
        let mut before = self.start(leaf);
        let pieces = Arc::make_mut(&mut self.leaves[leaf]);
        let mut place = 0;
        if at == self.bytes {
            (place, before) = (pieces.len(), at);
        }
        while place < pieces.len() && at >= before + pieces[place].len() {
            before += pieces[place].len();
            place += 1;
        }
        if at > before {
            let (front, back) = pieces[place].split(at - before);
            pieces.splice(place..=place, [front, piece, back]);
        } else {
            pieces.insert(place, piece);
        }
        self.ends[leaf..].iter_mut().for_each(|end| *end += size);
        self.bytes += size;
        if pieces.len() > LEAF_PIECES_MAX {
            // A text that grows at its end leaves full leaves behind.
            let keep = if leaf + 1 == self.leaves.len() && at + size == self.bytes {
                LEAF_PIECES_MAX
            } else {
                LEAF_PIECES_MAX / 2
            };
            let pieces = Arc::make_mut(&mut self.leaves[leaf]);
            let split = pieces.split_off(keep);
            let moved: u64 = split.iter().map(Piece::len).sum();
            self.leaves.insert(leaf + 1, Arc::new(split));
            self.ends.insert(leaf, self.ends[leaf] - moved);
        }
    }

    /// The start of a leaf, in bytes of text.
    fn start(&self, leaf: usize) -> u64 {
        leaf.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Inserts many texts, each before a byte of the present text; places ascend, and texts for one place keep their order.
    ///
    /// Work: O(leaves + texts), and a copy of each leaf that gets texts and is shared.
    pub(crate) fn insert_many(&mut self, texts: Vec<(u64, Bytes)>) {
        debug_assert!(texts.is_sorted_by_key(|(at, _)| at));
        let leaves = mem::take(&mut self.leaves);
        let ends = mem::take(&mut self.ends);
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        let mut texts = texts.peekable();
        let mut before = 0;
        for (leaf, end) in leaves.into_iter().zip(ends) {
            match texts.peek() {
                Some(&(at, _)) if at <= end => {
                    let of_leaf = iter::from_fn(|| texts.next_if(|&(at, _)| at <= end));
                    let merged = merged(Arc::unwrap_or_clone(leaf), before, of_leaf);
                    self.push_leaves(merged, end == self.bytes);
                }
                _ => self.push_leaf(leaf, end - before),
            }
            before = end;
        }
        // The text had no pieces.
        let rest: Vec<Piece> = texts.map(|(_, text)| Piece::Inserted(text)).collect();
        if !rest.is_empty() {
            self.push_leaves(rest, true);
        }
        self.bytes = self.ends.last().copied().unwrap_or(0);
    }

    fn push_leaf(&mut self, leaf: Arc<Vec<Piece>>, size: u64) {
        self.ends.push(self.start(self.leaves.len()) + size);
        self.leaves.push(leaf);
    }

    /// Appends leaves. The last leaves of a text are full but for one: the text grows at its end.
    fn push_leaves(&mut self, pieces: Vec<Piece>, is_last: bool) {
        let parts = pieces.len().div_ceil(LEAF_PIECES_MAX);
        let of_part = if is_last {
            LEAF_PIECES_MAX
        } else {
            pieces.len().div_ceil(parts)
        };
        let size = |pieces: &[Piece]| pieces.iter().map(Piece::len).sum();
        if parts == 1 {
            let size = size(&pieces);
            return self.push_leaf(Arc::new(pieces), size);
        }
        let mut pieces = pieces.into_iter();
        for _ in 0..parts {
            let part: Vec<Piece> = pieces.by_ref().take(of_part).collect();
            let size = size(&part);
            self.push_leaf(Arc::new(part), size);
        }
    }

    /// All pieces, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.leaves.iter().flat_map(|leaf| leaf.iter())
    }

    /// The pieces of a range, cut where it begins and ends; the range may go beyond the end of the text.
    pub(crate) fn slice(&self, range: Range<u64>) -> Vec<Piece> {
        let mut found = Vec::new();
        let end = range.end.min(self.bytes);
        if range.start >= end {
            return found;
        }
        let first = self.ends.partition_point(|&end| end <= range.start);
        let mut before = self.start(first);
        for piece in self.leaves[first..].iter().flat_map(|leaf| leaf.iter()) {
            let after = before + piece.len();
            if after > range.start {
                let from = range.start.saturating_sub(before);
                found.push(piece.slice(from..end.min(after) - before));
            }
            if after >= end {
                break;
            }
            before = after;
        }
        found
    }
}

/// The pieces of a leaf that begins at byte `start`, with texts inserted.
fn merged(pieces: Vec<Piece>, start: u64, texts: impl Iterator<Item = (u64, Bytes)>) -> Vec<Piece> {
    let mut texts = texts.peekable();
    let mut merged = Vec::with_capacity(2 * pieces.len());
    let mut before = start;
    for mut piece in pieces {
        let end = before + piece.len();
        while let Some((at, text)) = texts.next_if(|&(at, _)| at < end) {
            if at > before {
                let (front, back) = piece.split(at - before);
                merged.push(front);
                (piece, before) = (back, at);
            }
            merged.push(Piece::Inserted(text));
        }
        merged.push(piece);
        before = end;
    }
    merged.extend(texts.map(|(_, text)| Piece::Inserted(text)));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text, given the stored one.
    fn text_of(pieces: impl Iterator<Item = Piece>, stored: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Stored(range) => {
                    text.extend_from_slice(&stored[range.start as usize..range.end as usize]);
                }
                Piece::Inserted(bytes) => text.extend_from_slice(&bytes),
            }
        }
        text
    }

    #[test]
    fn pieces_are_the_text_after_any_insertions() {
        let mut state = 7u64;
        let mut below = |limit: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % limit
        };
        for stored in [&b""[..], b"a", b"the cat sat on the mat"] {
            let mut pieces = Pieces::stored(stored.len() as u64);
            let mut text = stored.to_vec();
            for step in 0..1500 {
                let at = match below(4) {
                    0 => text.len(),
                    _ => below(text.len() + 1),
                };
                let inserted: Vec<u8> = (0..below(4)).map(|_| b'A' + below(26) as u8).collect();
                text.splice(at..at, inserted.iter().copied());
                let older = pieces.clone();
                pieces.insert(at as u64, Bytes::from(inserted));
                assert_eq!(pieces.bytes(), text.len() as u64);
                if step % 50 == 0 {
                    assert_eq!(text_of(pieces.iter().cloned(), stored), text);
                    let from = below(text.len() + 1);
                    let to = from + below(40);
                    let part = pieces.slice(from as u64..to as u64);
                    assert!(part.iter().all(|piece| piece.len() > 0));
                    let expected = &text[from..to.min(text.len())];
                    assert_eq!(text_of(part.into_iter(), stored), expected);
                    assert!(older.bytes() <= pieces.bytes());
                }
            }
            let mut next = 0;
            for piece in pieces.iter() {
                if let Piece::Stored(range) = piece {
                    assert_eq!(range.start, next);
                    next = range.end;
                }
            }
            assert_eq!(next, stored.len() as u64);
            assert!(
                pieces
                    .leaves
                    .iter()
                    .all(|leaf| leaf.len() <= LEAF_PIECES_MAX)
            );
        }
    }

    #[test]
    fn many_texts_are_inserted_as_one_after_the_other() {
        let mut state = 3u64;
        let mut below = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % limit
        };
        for stored in [0, 1, 22] {
            let mut pieces = Pieces::stored(stored);
            let mut expected = pieces.clone();
            for round in 0..40 {
                let mut texts: Vec<(u64, Bytes)> = (0..below(300))
                    .map(|number| {
                        let at = match round % 3 {
                            0 => pieces.bytes(),
                            _ => below(pieces.bytes() + 1),
                        };
                        let text = number.to_string().repeat(below(3) as usize);
                        (at, Bytes::from(text))
                    })
                    .collect();
                texts.sort_by_key(|&(at, _)| at);
                for (at, text) in texts.iter().rev() {
                    expected.insert(*at, text.clone());
                }
                let older = pieces.clone();
                let old_text = text_of(older.iter().cloned(), &[b'.'; 22]);
                pieces.insert_many(texts);
                assert_eq!(pieces.bytes(), expected.bytes());
                assert!(pieces.iter().eq(expected.iter()));
                assert_eq!(text_of(older.iter().cloned(), &[b'.'; 22]), old_text);
                let mut sum = 0;
                for (leaf, &end) in pieces.leaves.iter().zip(&pieces.ends) {
                    assert!(!leaf.is_empty() && leaf.len() <= LEAF_PIECES_MAX);
                    sum += leaf.iter().map(Piece::len).sum::<u64>();
                    assert_eq!(sum, end);
                }
            }
        }
    }

    #[test]
    fn a_clone_keeps_the_text_it_was_made_of() {
        let mut pieces = Pieces::stored(4);
        pieces.insert(2, Bytes::from_static(b"xx"));
        let before = pieces.clone();
        pieces.insert(3, Bytes::from_static(b"yy"));
        assert_eq!(text_of(before.iter().cloned(), b"abcd"), b"abxxcd");
        assert_eq!(text_of(pieces.iter().cloned(), b"abcd"), b"abxyyxcd");
    }
}
