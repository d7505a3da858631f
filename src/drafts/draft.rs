//! Chunks to the drafts of segments.
//!
//! Chunks come in order of file names; this module decides where one segment ends and the next one starts. The invariant: that
//! depends on the files and the limits alone, because chunks do and no other input is used.

use crate::tokenize::{Interner, LocalDictionary, tokenize};
use rayon::prelude::*;
use std::collections::VecDeque;
use zipfdb_kernels::gpu::CutText;
use zipfdb_storage::Tokenizer;

/// The limits at which a segment is full.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of text.
    pub bytes: u64,
    /// Tokens: what the memory of grammar construction grows with.
    pub tokens: usize,
    /// Dictionary entries, counted once for every chunk they are in.
    pub entries: usize,
    /// Size of those entries.
    pub entry_bytes: usize,
}

/// A file, or a stretch of one, in tokens.
#[derive(Clone, Debug)]
pub struct FileStretch {
    /// The file.
    pub source: usize,
    /// Size of the whole file.
    pub source_bytes: u64,
    /// The start of the stretch in the file.
    pub first_byte: u64,
    /// Whether the file ends with it.
    pub is_last: bool,
    /// Size of the text.
    pub bytes: u64,
    /// The number of tokens; an estimate for text that is kept.
    pub tokens: usize,
    /// The number of word tokens among them.
    pub words: u64,
    /// The checksum of the text.
    pub crc32: crc32fast::Hasher,
}

/// The form of the content of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentForm {
    /// Tokens, numbered chunk by chunk.
    Tokens,
    /// The text and its cuts, for a device to number the tokens.
    Cut,
    /// The text, whose words are only counted.
    Text,
}

/// A chunk of text after reading.
pub(crate) struct DraftChunk {
    /// The stretches of files in it, in order.
    pub(crate) pieces: Vec<FileStretch>,
    /// The content of all pieces, one after the other.
    pub(crate) content: ChunkContent,
}

/// The content of a chunk.
pub(crate) enum ChunkContent {
    Tokens {
        ids: Vec<u32>,
        /// The tokens of the ids.
        dictionary: LocalDictionary,
    },
    Cut {
        text: Vec<u8>,
        /// The cuts of all tokens.
        cuts: Vec<u16>,
    },
    Text(Vec<u8>),
}

impl ChunkContent {
    /// The tokens of an interner, which is empty afterwards.
    pub(super) fn taken(interner: &mut Interner) -> ChunkContent {
        let (mut ids, dictionary) = interner.take();
        ids.shrink_to_fit();
        ChunkContent::Tokens { ids, dictionary }
    }
}

impl DraftChunk {
    /// Splits the chunk before piece `piece`, which is not the first.
    fn split_off(&mut self, piece: usize) -> DraftChunk {
        let pieces = self.pieces.split_off(piece);
        // The bytes are in memory.
        let (tokens, bytes) = (self.tokens(), self.bytes() as usize);
        let content = match &mut self.content {
            ChunkContent::Tokens { ids, dictionary } => {
                let mut cut_ids = ids.split_off(tokens);
                let cut_dictionary = dictionary.select(&mut cut_ids);
                *dictionary = dictionary.select(ids);
                ChunkContent::Tokens {
                    ids: cut_ids,
                    dictionary: cut_dictionary,
                }
            }
            ChunkContent::Cut { text, cuts } => ChunkContent::Cut {
                text: text.split_off(bytes),
                cuts: cuts.split_off(tokens),
            },
            ChunkContent::Text(text) => ChunkContent::Text(text.split_off(bytes)),
        };
        DraftChunk { pieces, content }
    }

    /// The number of its tokens.
    fn tokens(&self) -> usize {
        self.pieces.iter().map(|piece| piece.tokens).sum()
    }

    /// The size of its text.
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    fn is_cut(&self) -> bool {
        matches!(self.content, ChunkContent::Cut { .. })
    }

    /// Numbers its tokens, if they were left to a device.
    fn intern(&mut self, tokenizer: Tokenizer) {
        if let ChunkContent::Cut { text, .. } = &self.content {
            self.content = interned(tokenizer, text, &self.pieces);
        }
    }

    /// The number and the size of its dictionary entries.
    fn entries(&self) -> (usize, usize) {
        match &self.content {
            ChunkContent::Tokens { dictionary, .. } => (dictionary.len(), dictionary.size()),
            // Unknown for cut text: its tokens are numbered before the limit could matter.
            ChunkContent::Cut { .. } | ChunkContent::Text(_) => (0, 0),
        }
    }
}

/// Numbers the tokens of the text of some pieces.
pub(super) fn interned(tokenizer: Tokenizer, text: &[u8], pieces: &[FileStretch]) -> ChunkContent {
    let mut interner = Interner::new();
    let mut rest = text;
    for piece in pieces {
        // The text is in memory.
        let (text, after) = rest.split_at(piece.bytes as usize);
        tokenize(tokenizer, text, &mut interner);
        rest = after;
    }
    ChunkContent::taken(&mut interner)
}

/// The content of a new segment.
#[derive(Default)]
pub struct Draft {
    /// No chunk is without pieces.
    pub chunks: Vec<DraftChunk>,
    bytes: u64,
    tokens: usize,
    entries: usize,
    entry_bytes: usize,
}

impl Draft {
    fn push(&mut self, chunk: DraftChunk) {
        self.bytes += chunk.bytes();
        self.tokens += chunk.tokens();
        let (entries, entry_bytes) = chunk.entries();
        self.entries += entries;
        self.entry_bytes += entry_bytes;
        self.chunks.push(chunk);
    }

    /// The text with its cuts, if all chunks are cut.
    pub(crate) fn cut_texts(&self) -> Option<Vec<CutText<'_>>> {
        let chunks = self.chunks.iter().map(|chunk| match &chunk.content {
            ChunkContent::Cut { text, cuts } => Some(CutText { text, cuts }),
            ChunkContent::Tokens { .. } | ChunkContent::Text(_) => None,
        });
        chunks.collect()
    }

    /// Numbers the tokens that were left to a device. Parallel on the current pool.
    pub(crate) fn intern(&mut self, tokenizer: Tokenizer) {
        let chunks = self.chunks.par_iter_mut();
        chunks.for_each(|chunk| chunk.intern(tokenizer));
    }

    /// The number of whole chunks, and of pieces of the chunk after them, before the file that the draft ends with.
    fn last_file_start(&self) -> (usize, usize) {
        let mut start = (0, 0);
        for (index, chunk) in self.chunks.iter().enumerate() {
            for (piece_index, piece) in chunk.pieces.iter().enumerate() {
                if piece.first_byte == 0 {
                    start = (index, piece_index);
                }
            }
        }
        start
    }
}

/// Cuts the sequence of chunks into drafts.
pub struct Drafts {
    limits: Limits,
    tokenizer: Tokenizer,
    current: Draft,
    full: VecDeque<Draft>,
}

impl Drafts {
    /// No drafts yet.
    pub fn new(limits: Limits, tokenizer: Tokenizer) -> Drafts {
        Drafts {
            limits,
            tokenizer,
            current: Draft::default(),
            full: VecDeque::new(),
        }
    }

    /// Takes the next chunk. Returns whether tokens had to be numbered that were left to a device.
    pub fn push(&mut self, mut chunk: DraftChunk) -> bool {
        // A draft has no more entries than tokens, of no more bytes than its text.
        let may_be_full = self.current.tokens + chunk.tokens() > self.limits.entries
            || self.current.bytes + chunk.bytes() > self.limits.entry_bytes as u64;
        let is_numbered = may_be_full && chunk.is_cut();
        if is_numbered {
            for mut chunk in std::mem::take(&mut self.current).chunks {
                chunk.intern(self.tokenizer);
                self.current.push(chunk);
            }
            chunk.intern(self.tokenizer);
        }
        while !chunk.pieces.is_empty() {
            let fitting = self.fitting(&chunk);
            if fitting == chunk.pieces.len() {
                self.current.push(chunk);
                break;
            }
            if fitting > 0 {
                let rest = chunk.split_off(fitting);
                self.current.push(chunk);
                chunk = rest;
            }
            self.close(&chunk.pieces[0]);
        }
        is_numbered
    }

    /// Whether a complete draft can be taken.
    pub fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// The next draft and whether it is the last; `None` if no draft is complete or, once there are `no_more` chunks,
    /// if there is none.
    pub fn pop(&mut self, no_more: bool) -> Option<(Draft, bool)> {
        if let Some(draft) = self.full.pop_front() {
            return Some((draft, false));
        }
        if !no_more || self.current.chunks.is_empty() {
            return None;
        }
        Some((std::mem::take(&mut self.current), true))
    }

    /// The number of pieces that fit into the current draft; at least one if the draft is empty.
    fn fitting(&self, chunk: &DraftChunk) -> usize {
        let (current, limits) = (&self.current, &self.limits);
        let (entries, entry_bytes) = chunk.entries();
        if !current.chunks.is_empty()
            && (current.entries + entries > limits.entries
                || current.entry_bytes + entry_bytes > limits.entry_bytes)
        {
            return 0;
        }
        let (mut bytes, mut tokens) = (current.bytes, current.tokens);
        for (index, piece) in chunk.pieces.iter().enumerate() {
            // A file that fits into a segment is not split between two; a larger one is split in any case.
            let needed = match piece.first_byte {
                0 if piece.source_bytes <= limits.bytes => piece.source_bytes,
                _ => piece.bytes,
            };
            tokens += piece.tokens;
            let is_first = index == 0 && current.chunks.is_empty();
            if !is_first && (bytes + needed > limits.bytes || tokens > limits.tokens) {
                return index;
            }
            bytes += piece.bytes;
        }
        chunk.pieces.len()
    }

    /// Completes the current draft, which `next` does not fit into.
    fn close(&mut self, next: &FileStretch) {
        let mut draft = std::mem::take(&mut self.current);
        let continues = next.first_byte > 0;
        if continues && next.source_bytes <= self.limits.bytes {
            // The file has too many tokens here, but may fit into a segment of its own.
            let (chunks, pieces) = draft.last_file_start();
            if (chunks, pieces) != (0, 0) {
                let mut moved = draft.chunks.split_off(chunks);
                if pieces > 0 {
                    let rest = moved[0].split_off(pieces);
                    draft.chunks.push(std::mem::replace(&mut moved[0], rest));
                }
                for chunk in moved {
                    self.current.push(chunk);
                }
            }
        }
        self.full.push_back(draft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zipfdb_storage::Tokenizer;

    const LIMITS: Limits = Limits {
        bytes: 10,
        tokens: 1000,
        entries: 1000,
        entry_bytes: 1000,
    };

    /// Chunks of files given by the texts of their pieces, one piece of a chunk after the other.
    fn chunks(chunks: &[&[(usize, &str)]], files: &[&str]) -> Vec<DraftChunk> {
        let mut read = vec![0; files.len()];
        let mut interner = Interner::new();
        let mut make = |pieces: &[(usize, &str)]| {
            let mut made = Vec::new();
            for &(source, text) in pieces {
                let (tokens, words) = (interner.tokens(), interner.words());
                tokenize(Tokenizer::Unicode, text.as_bytes(), &mut interner);
                let first_byte = read[source];
                read[source] += text.len() as u64;
                made.push(FileStretch {
                    source,
                    source_bytes: files[source].len() as u64,
                    first_byte,
                    is_last: read[source] == files[source].len() as u64,
                    bytes: text.len() as u64,
                    tokens: interner.tokens() - tokens,
                    words: interner.words() - words,
                    crc32: crc32fast::Hasher::new(),
                });
            }
            let (ids, dictionary) = interner.take();
            DraftChunk {
                pieces: made,
                content: ChunkContent::Tokens { ids, dictionary },
            }
        };
        chunks.iter().map(|pieces| make(pieces)).collect()
    }

    /// The texts of the pieces of each draft.
    fn drafts(limits: Limits, chunks: Vec<DraftChunk>) -> Vec<Vec<String>> {
        let mut drafts = Drafts::new(limits, Tokenizer::Unicode);
        for chunk in chunks {
            drafts.push(chunk);
        }
        let mut found = Vec::new();
        while let Some((draft, is_last)) = drafts.pop(true) {
            let mut texts = Vec::new();
            for chunk in &draft.chunks {
                let ChunkContent::Tokens { ids, dictionary } = &chunk.content else {
                    panic!("tokens were asked for");
                };
                let mut ids = &ids[..];
                assert!((0..dictionary.len() as u32).all(|id| ids.contains(&id)));
                for piece in &chunk.pieces {
                    let (these, rest) = ids.split_at(piece.tokens);
                    let text = these.iter().map(|&id| dictionary.token(id));
                    texts.push(String::from_utf8_lossy(&text.collect::<Vec<_>>().concat()).into());
                    ids = rest;
                }
            }
            found.push(texts);
            assert_eq!(
                is_last,
                !drafts.has_full() && drafts.current.chunks.is_empty()
            );
        }
        found
    }

    #[test]
    fn segments_are_cut_at_file_boundaries() {
        let files = ["one", "two two", "three", "", "four"];
        let one_chunk = chunks(
            &[&[
                (0, "one"),
                (1, "two two"),
                (2, "three"),
                (3, ""),
                (4, "four"),
            ]],
            &files,
        );
        let expected = [vec!["one", "two two"], vec!["three", "", "four"]];
        assert_eq!(drafts(LIMITS, one_chunk), expected);
        let many_chunks = chunks(
            &[
                &[(0, "one")],
                &[(1, "two"), (1, " two")],
                &[(2, "three"), (3, "")],
                &[(4, "four")],
            ],
            &files,
        );
        let texts: Vec<String> = drafts(LIMITS, many_chunks)
            .iter()
            .map(|draft| draft.concat())
            .collect();
        assert_eq!(texts, ["onetwo two", "threefour"]);
    }

    #[test]
    fn a_file_larger_than_a_segment_is_cut_between_chunks() {
        let files = ["a", "one two three four five", "b"];
        let chunks = chunks(
            &[
                &[(0, "a")],
                &[(1, "one")],
                &[(1, " two")],
                &[(1, " three")],
                &[(1, " four")],
                &[(1, " five")],
                &[(2, "b")],
            ],
            &files,
        );
        assert_eq!(
            drafts(LIMITS, chunks),
            [
                vec!["a", "one", " two"],
                vec![" three"],
                vec![" four", " five"],
                vec!["b"],
            ]
        );
    }

    #[test]
    fn a_file_that_fits_is_not_begun_where_it_does_not() {
        let files = ["aaaaaa", "one two"];
        let chunks = chunks(&[&[(0, "aaaaaa")], &[(1, "one")], &[(1, " two")]], &files);
        assert_eq!(
            drafts(LIMITS, chunks),
            [vec!["aaaaaa"], vec!["one", " two"]]
        );
    }

    #[test]
    fn too_many_tokens_end_a_segment_before_the_file_or_within_it() {
        let limits = Limits {
            bytes: 100,
            tokens: 3,
            ..LIMITS
        };
        let files = ["a", "b c", "b c d e f g", "h"];
        let chunks = chunks(
            &[
                &[(0, "a"), (1, "b")],
                &[(1, " c")],
                &[(2, "b")],
                &[(2, " c"), (2, " d")],
                &[(2, " e f g")],
                &[(3, "h")],
            ],
            &files,
        );
        assert_eq!(
            drafts(limits, chunks),
            [
                vec!["a", "b", " c"],
                vec!["b", " c", " d"],
                vec![" e f g"],
                vec!["h"],
            ]
        );
    }

    #[test]
    fn a_begun_file_moves_to_the_next_segment() {
        let limits = Limits {
            bytes: 100,
            tokens: 3,
            ..LIMITS
        };
        let files = ["a a", "b c d", "e"];
        let chunks = chunks(
            &[&[(0, "a a"), (1, "b")], &[(1, " c d")], &[(2, "e")]],
            &files,
        );
        assert_eq!(
            drafts(limits, chunks),
            [vec!["a a"], vec!["b", " c d"], vec!["e"]]
        );
    }

    #[test]
    fn too_large_a_dictionary_ends_a_segment() {
        let limits = Limits {
            entries: 3,
            ..LIMITS
        };
        let files = ["a b", "c", "d", "e f g h"];
        let chunks = chunks(
            &[&[(0, "a b")], &[(1, "c")], &[(2, "d")], &[(3, "e f g h")]],
            &files,
        );
        assert_eq!(
            drafts(limits, chunks),
            [vec!["a b", "c"], vec!["d"], vec!["e f g h"]]
        );
    }

    #[test]
    fn no_chunks_make_no_draft() {
        assert_eq!(drafts(LIMITS, chunks(&[], &[])), Vec::<Vec<String>>::new());
    }
}
