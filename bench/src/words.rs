//! Text as word ids: what a program has that tokenizes once and keeps all words in memory.
//!
//! The invariant: words are those of ZipfDB's tokenizer `unicode` (UAX #29 segments with an alphanumeric character), and
//! ids are in dictionary order, by case-folded word and then word. It knows no tasks.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::ops::Range;

use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use unicode_segmentation::UnicodeSegmentation;

use crate::Result;
use crate::corpus::Corpus;

/// Files are cut at the first line end behind this number of bytes, so that threads share the work on a large one.
const PIECE_SIZE: usize = 1 << 20;

/// Whole lines of a file, as they are or compressed.
pub struct Piece {
    /// Number of the file in its corpus.
    file: usize,
    bytes: Vec<u8>,
    /// Bytes of text, if `bytes` are compressed.
    text_size: Option<usize>,
}

/// Reads all files of a corpus.
pub fn read_pieces(corpus: &Corpus) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for (file, source) in corpus.files.iter().enumerate() {
        let text = fs::read(&source.path)?;
        let mut rest = &text[..];
        while !rest.is_empty() {
            let behind = rest.get(PIECE_SIZE..).unwrap_or_default();
            let line_end = behind.iter().position(|&byte| byte == b'\n');
            let (piece, next) =
                rest.split_at(line_end.map_or(rest.len(), |at| PIECE_SIZE + at + 1));
            pieces.push(Piece {
                file,
                bytes: piece.to_vec(),
                text_size: None,
            });
            rest = next;
        }
    }
    Ok(pieces)
}

/// Compresses each piece for itself with `zstd -3`.
pub fn compress(pieces: Vec<Piece>) -> Result<Vec<Piece>> {
    let compress = |piece: Piece| {
        Ok(Piece {
            text_size: Some(piece.bytes.len()),
            bytes: zstd::bulk::compress(&piece.bytes, 3)?,
            ..piece
        })
    };
    pieces.into_par_iter().map(compress).collect()
}

/// Bytes that pieces have.
pub fn size(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.bytes.len() as u64).sum()
}

impl Piece {
    fn text(&self) -> Result<Cow<'_, [u8]>> {
        Ok(match self.text_size {
            None => Cow::Borrowed(&self.bytes),
            Some(size) => {
                let mut text = Vec::with_capacity(size);
                zstd::Decoder::new(&self.bytes[..])?.read_to_end(&mut text)?;
                Cow::Owned(text)
            }
        })
    }
}

/// All words of a corpus.
pub struct Words {
    /// The bytes of each word, by its id.
    pub dictionary: Vec<Vec<u8>>,
    /// The words of all files, one after the other.
    pub words: Vec<u32>,
    /// `[files + 1]` into `words`.
    pub file_offsets: Vec<u32>,
}

/// A share of the pieces with ids of its own.
#[derive(Default)]
struct Share {
    ids: HashMap<Vec<u8>, u32, FxBuildHasher>,
    words: Vec<u32>,
    /// Files in order, each with the number of its words.
    files: Vec<(usize, u32)>,
}

impl Share {
    fn new(pieces: &[Piece]) -> Result<Share> {
        let mut share = Share::default();
        for piece in pieces {
            let text = piece.text()?;
            let before = share.words.len();
            for_each_word(&text, |range| {
                let word = &text[range];
                // A corpus has fewer different words than a u32 counts, and so has a piece words.
                let next = share.ids.len() as u32;
                let id = match share.ids.get(word) {
                    Some(&id) => id,
                    None => *share.ids.entry(word.to_vec()).or_insert(next),
                };
                share.words.push(id);
            });
            share
                .files
                .push((piece.file, (share.words.len() - before) as u32));
        }
        Ok(share)
    }
}

impl Words {
    /// Tokenizes `pieces` of `files` files on the current threads.
    pub fn new(pieces: &[Piece], files: usize) -> Result<Words> {
        let shares = shares(pieces).into_par_iter().map(Share::new);
        let shares = shares.collect::<Result<Vec<Share>>>()?;
        let mut dictionary: Vec<&Vec<u8>> =
            shares.iter().flat_map(|share| share.ids.keys()).collect();
        dictionary.par_sort_by_cached_key(|word| (folded(word), *word));
        dictionary.dedup();
        let ids: HashMap<&Vec<u8>, u32, FxBuildHasher> =
            dictionary.iter().copied().zip(0..).collect();
        let words = shares.par_iter().map(|share| {
            let mut id_of = vec![0; share.ids.len()];
            for (word, &id) in &share.ids {
                id_of[id as usize] = ids[word];
            }
            share.words.iter().map(|&id| id_of[id as usize]).collect()
        });
        let words = words.collect::<Vec<Vec<u32>>>().concat();
        u32::try_from(words.len()).map_err(|_| "more words than 32 bits count")?;
        let mut file_offsets = vec![0; files + 1];
        for &(file, count) in shares.iter().flat_map(|share| &share.files) {
            file_offsets[file + 1] += count;
        }
        for file in 0..files {
            file_offsets[file + 1] += file_offsets[file];
        }
        let dictionary = dictionary.into_iter().cloned().collect();
        Ok(Words {
            dictionary,
            words,
            file_offsets,
        })
    }

    /// The words of a file.
    pub fn file(&self, file: usize) -> &[u32] {
        &self.words[self.file_offsets[file] as usize..self.file_offsets[file + 1] as usize]
    }

    /// The file that a word of `words` belongs to.
    pub fn file_of(&self, index: usize) -> usize {
        self.file_offsets
            .partition_point(|&offset| offset as usize <= index)
            - 1
    }

    /// For each word its place in order of bytes.
    pub fn byte_ranks(&self) -> Vec<u32> {
        let mut order: Vec<usize> = (0..self.dictionary.len()).collect();
        order.par_sort_unstable_by_key(|&word| &self.dictionary[word]);
        let mut ranks = vec![0; order.len()];
        for (rank, word) in (0..).zip(order) {
            ranks[word] = rank;
        }
        ranks
    }
}

/// As many runs of pieces as there are threads, of about equal size.
fn shares(pieces: &[Piece]) -> Vec<&[Piece]> {
    let count = rayon::current_num_threads() as u64;
    let share_size = size(pieces).div_ceil(count).max(1);
    let (mut shares, mut start, mut filled) = (Vec::new(), 0, 0);
    for (index, piece) in pieces.iter().enumerate() {
        filled += piece.bytes.len() as u64;
        if filled >= share_size {
            shares.push(&pieces[start..=index]);
            (start, filled) = (index + 1, 0);
        }
    }
    shares.push(&pieces[start..]);
    shares
}

/// Gives the places of all words of a text in order.
pub fn for_each_word(text: &[u8], mut take: impl FnMut(Range<usize>)) {
    let mut base = 0;
    for chunk in text.utf8_chunks() {
        // No word crosses a line end, and lines of ASCII are cut by a faster way.
        for line in chunk.valid().split_inclusive('\n') {
            for (offset, word) in line.unicode_word_indices() {
                take(base + offset..base + offset + word.len());
            }
            base += line.len();
        }
        base += chunk.invalid().len();
    }
}

fn folded(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_lowercase()
}
