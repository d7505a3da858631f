//! Drafts to file tables, and to tokens numbered by one dictionary.

use rayon::prelude::*;
use zipfdb_kernels::give_back_free_memory;
use zipfdb_storage::{Dictionary, FileEntry, Tokenizer};

use super::draft::{ChunkContent, Draft};
use super::texts::Texts;
use crate::tokenize::{LocalDictionary, merge};
use crate::{Error, Result};

/// The tokens of a segment, numbered by its dictionary.
pub(crate) struct SegmentTokens {
    pub(crate) files: Vec<FileEntry>,
    /// `[files + 1]` into `tokens`.
    pub(crate) file_offsets: Vec<u32>,
    pub(crate) dictionary: Dictionary,
    pub(crate) tokens: Vec<u32>,
}

impl Default for SegmentTokens {
    fn default() -> SegmentTokens {
        SegmentTokens {
            files: Vec::new(),
            file_offsets: vec![0],
            dictionary: Dictionary::default(),
            tokens: Vec::new(),
        }
    }
}

/// Merges the dictionaries of a draft's chunks, and numbers the tokens of all its files by the result. `buffer` makes an empty
/// vector for a number of tokens; none if there is no memory.
pub(crate) fn numbered(
    tokenizer: Tokenizer,
    draft: Draft,
    buffer: impl FnOnce(usize) -> Option<Vec<u32>>,
) -> Result<(Dictionary, Vec<u32>)> {
    let mut locals: Vec<LocalDictionary> = Vec::with_capacity(draft.chunks.len());
    let mut chunks: Vec<Vec<u32>> = Vec::with_capacity(draft.chunks.len());
    for chunk in draft.chunks {
        if let ChunkContent::Tokens { ids, dictionary } = chunk.content {
            locals.push(dictionary);
            chunks.push(ids);
        }
    }
    let merged = merge(tokenizer, &locals);
    drop(locals);
    let count = chunks.iter().map(Vec::len).sum();
    let mut tokens = buffer(count).ok_or_else(|| Error::NoMemory {
        what: "the tokens of a segment".into(),
        bytes: (count * size_of::<u32>()) as u64,
    })?;
    tokens.resize(count, 0);
    let mut ranges = Vec::with_capacity(chunks.len());
    let mut rest = &mut tokens[..];
    for chunk in &chunks {
        let (range, after) = rest.split_at_mut(chunk.len());
        ranges.push(range);
        rest = after;
    }
    ranges
        .into_par_iter()
        .zip(chunks)
        .zip(merged.ids)
        .for_each(|((range, chunk), ids)| {
            for (token, id) in range.iter_mut().zip(chunk) {
                *token = ids[id as usize];
            }
        });
    // Chunks were many small arrays; the large arrays that follow cannot reuse their memory unless it is returned.
    give_back_free_memory();
    Ok((merged.dictionary, tokens))
}

/// Makes the file entries of one draft after the other.
pub(crate) struct DraftFiles<'a> {
    texts: &'a dyn Texts,
    /// Words of a file that continues in the next draft.
    words_before: u64,
}

impl<'a> DraftFiles<'a> {
    /// No drafts yet.
    pub(crate) fn new(texts: &'a dyn Texts) -> DraftFiles<'a> {
        DraftFiles {
            texts,
            words_before: 0,
        }
    }

    /// The files of a draft, and `[files + 1]` where their tokens start.
    pub(crate) fn entries(&mut self, draft: &Draft) -> (Vec<FileEntry>, Vec<u32>) {
        let mut entries = Vec::new();
        let mut token_offsets = vec![0];
        let mut tokens = 0;
        let pieces = draft.chunks.iter().flat_map(|chunk| &chunk.pieces);
        let mut pieces = pieces.peekable();
        while let Some(first) = pieces.next() {
            let mut file = first.clone();
            while let Some(next) = pieces.next_if(|next| next.source == file.source) {
                file.bytes += next.bytes;
                file.tokens += next.tokens;
                file.words += next.words;
                file.is_last = next.is_last;
                file.crc32.combine(&next.crc32);
            }
            if file.first_byte == 0 {
                self.words_before = 0;
            }
            entries.push(FileEntry {
                name: self.texts.name(file.source).to_owned(),
                bytes: file.bytes,
                words: file.words,
                crc32: file.crc32.finalize(),
                first_byte: file.first_byte,
                first_word: self.words_before,
                last_part: file.is_last,
            });
            self.words_before += file.words;
            tokens += file.tokens;
            // Construction checks that the tokens are fewer than 2^31.
            token_offsets.push(tokens as u32);
        }
        (entries, token_offsets)
    }
}
