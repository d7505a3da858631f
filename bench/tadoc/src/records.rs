//! Inserts and appends: a log of records, read together with the grammar until all is compressed anew (TPDS 2023).
//!
//! The invariant: the pieces of a file, one after the other, are its text. A piece is a stretch of the file as it was
//! compressed or of the log. Pieces lie in chunks of bounded length, so that an edit moves few of them. Counts and searches do
//! not see edits.

use crate::lookups::Lookups;

/// Pieces of a chunk at most.
const CHUNK_PIECES_MAX: usize = 256;

/// Edits of a corpus.
pub struct Records<'a> {
    lookups: &'a Lookups<'a>,
    /// The texts of all records.
    log: Vec<u8>,
    files: Vec<Pieces>,
}

#[derive(Clone, Copy)]
struct Piece {
    start: u64,
    length: u64,
    /// Whether it is a stretch of the log.
    is_record: bool,
}

/// A file.
struct Pieces {
    chunks: Vec<Chunk>,
}

#[derive(Default)]
struct Chunk {
    /// Bytes of all its pieces.
    length: u64,
    pieces: Vec<Piece>,
}

impl<'a> Records<'a> {
    /// No edits yet.
    pub fn new(lookups: &'a Lookups<'a>, files: usize) -> Records<'a> {
        let whole = |file| Pieces {
            chunks: vec![Chunk {
                length: lookups.file_size(file),
                pieces: vec![Piece {
                    start: 0,
                    length: lookups.file_size(file),
                    is_record: false,
                }],
            }],
        };
        Records {
            lookups,
            log: Vec::new(),
            files: (0..files).map(whole).collect(),
        }
    }

    /// Inserts a text before a byte of a file, or at its end.
    pub fn insert(&mut self, file: usize, offset: u64, text: &[u8]) {
        let record = Piece {
            start: self.log.len() as u64,
            length: text.len() as u64,
            is_record: true,
        };
        self.log.extend_from_slice(text);
        self.files[file].insert(offset, record);
    }

    /// Inserts texts before bytes of files as they are before all of them. Texts for one offset keep their order.
    pub fn insert_in_batch(&mut self, inserts: &[(usize, u64, &[u8])]) {
        let mut order: Vec<usize> = (0..inserts.len()).collect();
        order.sort_by_key(|&insert| (inserts[insert].0, inserts[insert].1));
        // From the end, so that offsets hold.
        for insert in order.into_iter().rev() {
            let (file, offset, text) = inserts[insert];
            self.insert(file, offset, text);
        }
    }

    /// Appends a text to a file.
    pub fn append(&mut self, file: usize, text: &[u8]) {
        self.insert(file, u64::MAX, text);
    }

    /// `length` bytes of a file from `offset` on, or all up to its end.
    pub fn extract(&self, file: usize, offset: u64, length: u64) -> Vec<u8> {
        let mut text = Vec::new();
        let (mut skipped, mut missing) = (offset, length);
        for chunk in &self.files[file].chunks {
            if skipped >= chunk.length {
                skipped -= chunk.length;
                continue;
            }
            for piece in &chunk.pieces {
                if missing == 0 {
                    return text;
                }
                if skipped >= piece.length {
                    skipped -= piece.length;
                    continue;
                }
                let start = piece.start + skipped;
                let length = missing.min(piece.length - skipped);
                if piece.is_record {
                    // The log is in memory.
                    text.extend_from_slice(&self.log[start as usize..(start + length) as usize]);
                } else {
                    self.lookups.extract_into(file, start, length, &mut text);
                }
                (skipped, missing) = (0, missing - length);
            }
        }
        text
    }
}

impl Pieces {
    fn insert(&mut self, mut offset: u64, record: Piece) {
        let mut at = 0;
        while offset > self.chunks[at].length && at + 1 < self.chunks.len() {
            offset -= self.chunks[at].length;
            at += 1;
        }
        let chunk = &mut self.chunks[at];
        chunk.length += record.length;
        let mut index = 0;
        while index < chunk.pieces.len() && offset >= chunk.pieces[index].length {
            offset -= chunk.pieces[index].length;
            index += 1;
        }
        if offset == 0 || index == chunk.pieces.len() {
            chunk.pieces.insert(index, record);
        } else {
            let whole = chunk.pieces[index];
            let (before, after) = (
                Piece {
                    length: offset,
                    ..whole
                },
                Piece {
                    start: whole.start + offset,
                    length: whole.length - offset,
                    ..whole
                },
            );
            chunk.pieces.splice(index..=index, [before, record, after]);
        }
        if chunk.pieces.len() > CHUNK_PIECES_MAX {
            let pieces = chunk.pieces.split_off(CHUNK_PIECES_MAX / 2);
            let length = pieces.iter().map(|piece| piece.length).sum();
            chunk.length -= length;
            self.chunks.insert(at + 1, Chunk { length, pieces });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::Grammar;
    use crate::test_texts::{DICTIONARY, Random, files, plain};

    /// Applies edits to a corpus of one or more files and compares texts, and random extracts of them.
    fn compare(records: &Records<'_>, texts: &[Vec<u8>], random: &mut Random) {
        for (file, text) in texts.iter().enumerate() {
            assert_eq!(records.extract(file, 0, u64::MAX), *text);
            let offset = random.below(text.len() as u32 + 2) as usize;
            let rest = &text[offset.min(text.len())..];
            assert_eq!(
                records.extract(file, offset as u64, 9),
                rest[..rest.len().min(9)]
            );
        }
    }

    #[test]
    fn texts_are_edited_as_plain_ones() {
        let mut random = Random(4);
        for (turn, (tokens, file_offsets)) in files().into_iter().enumerate() {
            let grammar = Grammar::new(&tokens, &file_offsets, 20);
            let lookups = Lookups::new(&grammar, DICTIONARY);
            let mut texts = plain(&tokens, &file_offsets);
            if texts.is_empty() {
                continue;
            }
            let mut records = Records::new(&lookups, texts.len());
            // Now and then more than a chunk has pieces.
            let edits = if turn % 40 == 0 { 1_000 } else { 10 };
            for edit in 0..edits {
                let file = random.below(texts.len() as u32) as usize;
                let text = [b'A' + (edit % 26) as u8].repeat(random.below(4) as usize);
                if random.below(3) == 0 {
                    records.append(file, &text);
                    texts[file].extend(text);
                } else {
                    let offset = random.below(texts[file].len() as u32 + 1) as usize;
                    records.insert(file, offset as u64, &text);
                    texts[file].splice(offset..offset, text);
                }
            }
            compare(&records, &texts, &mut random);
            let inserts: Vec<(usize, u64, &[u8])> = (0..edits)
                .map(|_| {
                    let file = random.below(texts.len() as u32) as usize;
                    let offset = random.below(texts[file].len() as u32 + 1);
                    (
                        file,
                        u64::from(offset),
                        &b"0123456789"[random.below(9) as usize..],
                    )
                })
                .collect();
            records.insert_in_batch(&inserts);
            for (file, text) in texts.iter_mut().enumerate() {
                let mut edited = Vec::new();
                for offset in 0..=text.len() {
                    let here = inserts
                        .iter()
                        .filter(|insert| (insert.0, insert.1) == (file, offset as u64));
                    here.for_each(|insert| edited.extend_from_slice(insert.2));
                    edited.extend(text.get(offset));
                }
                *text = edited;
            }
            compare(&records, &texts, &mut random);
        }
    }
}
