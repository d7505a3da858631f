//! Blocks of an index of words: for some words that follow each other the files that have each, with counts.
//!
//! Invariant: a block that was packed gives every list back; any other bytes give an error or some lists whose files ascend below
//! the number of files. Files are identified by their numbers in the segment, words by their first tokens.
//!
//! A block is, for each word, the distance of its token from the one before (a varint; 0 for the first), the number of its files
//! (a varint), and then, if that is less than [`SHORT_LIST`], distances of files less one and counts less one as varints; else the
//! codec, the sizes of both parts (varints), files as the codec has them, counts as [`encode_counts`] has them.

use crate::numbers::varints;
use crate::postings::{
    MalformedPostings, PostingsCodec, PostingsList, SEEK_RATIO, choose_codec, decode_counts,
    decode_ids, encode_counts, encode_ids, keep_common,
};

/// Lists of fewer files are stored without a codec.
const SHORT_LIST: usize = 8;

/// Bytes that are no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedBlock(pub &'static str);

impl From<MalformedPostings> for MalformedBlock {
    fn from(_: MalformedPostings) -> MalformedBlock {
        MalformedBlock("a list is not as its codec writes it")
    }
}

/// A file and how often a word occurs there.
pub type FileCount = (u32, u32);

/// Appends a block. Lists ascend by token, their files by number, below `files`; counts are not 0. Without a codec each list has
/// the one that suits it.
pub fn pack_lists<'a>(
    lists: impl Iterator<Item = (u32, &'a [FileCount])>,
    files: u32,
    codec: Option<PostingsCodec>,
    bytes: &mut Vec<u8>,
) {
    let mut previous = None;
    let (mut ids, mut counts, mut part) = (Vec::new(), Vec::new(), Vec::new());
    for (token, list) in lists {
        varints::put(bytes, u64::from(token - previous.unwrap_or(token)));
        previous = Some(token);
        varints::put(bytes, list.len() as u64);
        if list.len() < SHORT_LIST {
            let mut next = 0;
            for &(file, _) in list {
                varints::put(bytes, u64::from(file - next));
                next = file + 1;
            }
            let counts = list.iter().map(|&(_, count)| u64::from(count - 1));
            counts.for_each(|count| varints::put(bytes, count));
            continue;
        }
        ids.clear();
        ids.extend(list.iter().map(|&(file, _)| file));
        counts.clear();
        counts.extend(list.iter().map(|&(_, count)| count));
        let codec = codec.unwrap_or_else(|| choose_codec(&ids, files));
        bytes.push(codec as u8);
        part.clear();
        encode_ids(codec, &ids, files, &mut part);
        let size = part.len();
        encode_counts(&counts, &mut part);
        varints::put(bytes, size as u64);
        varints::put(bytes, (part.len() - size) as u64);
        bytes.extend_from_slice(&part);
    }
}

/// The lists of a block one after the other.
pub struct PackedLists<'a> {
    rest: &'a [u8],
    files: u32,
    /// The token before; none at the beginning.
    token: Option<u32>,
    first: u32,
}

/// A list that is not decoded yet.
#[derive(Clone, Copy, Debug)]
pub struct PackedList<'a> {
    /// The word's first token.
    pub token: u32,
    count: usize,
    files: u32,
    coding: ListCoding<'a>,
}

#[derive(Clone, Copy, Debug)]
enum ListCoding<'a> {
    /// Files, then counts.
    Short(&'a [u8]),
    Coded {
        codec: PostingsCodec,
        ids: &'a [u8],
        counts: &'a [u8],
    },
}

impl<'a> PackedLists<'a> {
    /// The lists of a block whose first word has the token `first`; `files`: how many files the segment has.
    pub fn new(block: &'a [u8], first: u32, files: u32) -> PackedLists<'a> {
        PackedLists {
            rest: block,
            files,
            token: None,
            first,
        }
    }

    /// The next list; none at the end.
    ///
    /// # Errors
    /// If the bytes are not a block.
    pub fn next_list(&mut self) -> Result<Option<PackedList<'a>>, MalformedBlock> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let distance = take(&mut self.rest)?;
        let token = match self.token {
            None if distance == 0 => self.first,
            Some(token) if distance > 0 => {
                let token = u64::from(token).checked_add(distance);
                let token = token.and_then(|token| u32::try_from(token).ok());
                token.ok_or(MalformedBlock("tokens of words do not fit"))?
            }
            _ => return Err(MalformedBlock("tokens of words do not ascend")),
        };
        self.token = Some(token);
        let count = take(&mut self.rest)?;
        if count > u64::from(self.files) {
            return Err(MalformedBlock("a word has more files than there are"));
        }
        let count = count as usize; // at most the number of files
        let coding = if count < SHORT_LIST {
            let begin = self.rest;
            for _ in 0..2 * count {
                take(&mut self.rest)?;
            }
            ListCoding::Short(&begin[..begin.len() - self.rest.len()])
        } else {
            let (&codec, rest) = (self.rest.split_first()).ok_or(CUT_OFF)?;
            self.rest = rest;
            let codec = PostingsCodec::from_number(codec);
            let codec = codec.ok_or(MalformedBlock("there is no such codec"))?;
            let (ids, counts) = (take(&mut self.rest)?, take(&mut self.rest)?);
            let mut part = |size: u64| {
                let size = usize::try_from(size).map_err(|_| CUT_OFF)?;
                let (part, rest) = self.rest.split_at_checked(size).ok_or(CUT_OFF)?;
                self.rest = rest;
                Ok::<_, MalformedBlock>(part)
            };
            ListCoding::Coded {
                codec,
                ids: part(ids)?,
                counts: part(counts)?,
            }
        };
        Ok(Some(PackedList {
            token,
            count,
            files: self.files,
            coding,
        }))
    }

    /// The list of the word with this first token; none if the block does not have it.
    ///
    /// # Errors
    /// If the bytes before it are not a block.
    pub fn find(mut self, token: u32) -> Result<Option<PackedList<'a>>, MalformedBlock> {
        while let Some(list) = self.next_list()? {
            if list.token >= token {
                return Ok(Some(list).filter(|list| list.token == token));
            }
        }
        Ok(None)
    }
}

impl PackedList<'_> {
    /// How many files it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has no file.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The files, ascending.
    ///
    /// # Errors
    /// If the bytes are not a list.
    pub fn ids(&self) -> Result<Vec<u32>, MalformedBlock> {
        let mut ids = Vec::with_capacity(self.count);
        match self.coding {
            ListCoding::Coded {
                codec, ids: bytes, ..
            } => decode_ids(codec, bytes, self.count, self.files, &mut ids)?,
            ListCoding::Short(mut bytes) => {
                let mut next = 0u64;
                for _ in 0..self.count {
                    let file = next.saturating_add(take(&mut bytes)?);
                    if file >= u64::from(self.files) {
                        return Err(MalformedBlock("a file does not exist"));
                    }
                    ids.push(file as u32);
                    next = file + 1;
                }
            }
        }
        Ok(ids)
    }

    /// Keeps those of some ascending files that the list has. A list that has many more is sought, not decoded.
    ///
    /// # Errors
    /// If the bytes are not a list.
    pub fn retain_common(&self, files: &mut Vec<u32>) -> Result<(), MalformedBlock> {
        match self.coding {
            ListCoding::Coded { codec, ids, .. } if self.count / SEEK_RATIO > files.len() => {
                let list = PostingsList::new(codec, ids, self.count, self.files)?;
                let mut cursor = list.cursor();
                let mut at = cursor.next();
                files.retain(|&file| {
                    if at.is_some_and(|id| id < file) {
                        at = cursor.seek(file);
                    }
                    at == Some(file)
                });
            }
            _ => {
                let kept = keep_common(files, &self.ids()?);
                files.truncate(kept);
            }
        }
        Ok(())
    }

    /// How often the word occurs in each of its files.
    ///
    /// # Errors
    /// If the bytes are not a list.
    pub fn counts(&self) -> Result<Vec<u32>, MalformedBlock> {
        let mut counts = Vec::with_capacity(self.count);
        match self.coding {
            ListCoding::Coded { counts: bytes, .. } => {
                decode_counts(bytes, self.count, &mut counts)?;
            }
            ListCoding::Short(mut bytes) => {
                for _ in 0..self.count {
                    take(&mut bytes)?;
                }
                for _ in 0..self.count {
                    let count = u32::try_from(take(&mut bytes)?.saturating_add(1));
                    counts.push(count.map_err(|_| MalformedBlock("a count is too large"))?);
                }
            }
        }
        Ok(counts)
    }
}

const CUT_OFF: MalformedBlock =
    MalformedBlock("a block of lists is cut off, or a number in it is too long");

fn take(rest: &mut &[u8]) -> Result<u64, MalformedBlock> {
    varints::take(rest).ok_or(CUT_OFF)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// Lists by token, of files below 500.
    fn lists() -> impl Strategy<Value = Vec<(u32, Vec<FileCount>)>> {
        let list = prop::collection::btree_map(0u32..500, 1u32..2000, 0..200);
        let lists = prop::collection::btree_map(0u32..10_000, list, 0..30);
        lists.prop_map(|lists| {
            let lists = lists.into_iter();
            lists
                .map(|(token, list)| (token, list.into_iter().collect()))
                .collect()
        })
    }

    fn packed(lists: &[(u32, Vec<FileCount>)], codec: Option<PostingsCodec>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let given = lists.iter().map(|(token, list)| (*token, &list[..]));
        pack_lists(given, 500, codec, &mut bytes);
        bytes
    }

    fn read(bytes: &[u8], first: u32) -> Result<Vec<(u32, Vec<FileCount>)>, MalformedBlock> {
        let mut lists = PackedLists::new(bytes, first, 500);
        let mut found = Vec::new();
        while let Some(list) = lists.next_list()? {
            let (ids, counts) = (list.ids()?, list.counts()?);
            found.push((list.token, ids.into_iter().zip(counts).collect()));
        }
        Ok(found)
    }

    proptest! {
        #[test]
        fn lists_come_back_from_every_codec(lists in lists()) {
            let first = lists.first().map_or(0, |(token, _)| *token);
            let codecs = PostingsCodec::ALL.into_iter().map(Some);
            for codec in codecs.chain([None]) {
                let bytes = packed(&lists, codec);
                prop_assert_eq!(&read(&bytes, first).unwrap(), &lists);
                for (token, list) in &lists {
                    let found = PackedLists::new(&bytes, first, 500).find(*token).unwrap();
                    let found = found.unwrap();
                    prop_assert_eq!(found.len(), list.len());
                    for step in [1, 7, 400] {
                        let files = (0..500).step_by(step);
                        let has = |file: &u32| list.iter().any(|(found, _)| found == file);
                        let expected: Vec<u32> = files.clone().filter(has).collect();
                        let mut common: Vec<u32> = files.collect();
                        found.retain_common(&mut common).unwrap();
                        prop_assert_eq!(common, expected);
                    }
                }
                prop_assert!(PackedLists::new(&bytes, first, 500).find(20_000).unwrap().is_none());
            }
        }

        #[test]
        fn bytes_that_are_changed_give_an_error_or_lists(
            lists in lists(),
            at in any::<prop::sample::Index>(),
            flip in 1u8..,
        ) {
            let mut bytes = packed(&lists, None);
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
                for end in [bytes.len(), at] {
                    for (_, list) in read(&bytes[..end], 0).into_iter().flatten() {
                        prop_assert!(list.is_sorted_by(|left, right| left.0 < right.0));
                        prop_assert!(list.iter().all(|&(file, _)| file < 500));
                    }
                }
            }
        }
    }
}
