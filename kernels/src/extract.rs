//! Bytes of a file by offset, and whole files.
//!
//! In   a grammar, its lengths, the text of its tokens; a file, an offset and a length
//! Out  the bytes offset..offset + length of the file, cut at its end
//! Work a search among the file's samples, then one body search per level down to the first byte;
//!      after that O(bytes): a loop over one explicit stack
//!
//! A whole file is a series of pieces, each found by its offset, so memory is
//! bounded by a few pieces however long a rule's expansion is, and pieces are
//! expanded in parallel. Within a piece, a long rule that occurred before is
//! copied from where it was written.

use std::io::{self, Write};

use rayon::prelude::*;

use crate::{GrammarView, Lengths};

/// The text of all tokens.
#[derive(Clone, Copy, Debug)]
pub struct TokenText<'a> {
    /// `[terminals + 1]`: token `t` is `bytes[offsets[t]..offsets[t + 1]]`.
    pub offsets: &'a [u64],
    /// The tokens, one after the other.
    pub bytes: &'a [u8],
}

/// Tokens up to this length are copied as one block of this many bytes.
const BLOCK_BYTES: usize = 16;

/// Bytes of a file that one task expands at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// A rule is worth remembering if copying beats expanding by far.
const COPY_BYTES_MIN: u64 = 64;

/// The bytes `offset..offset + length` of `file`, fewer or none past its end.
///
/// `terminal_bytes` must hold the lengths of `text`'s tokens.
pub fn extract(
    view: GrammarView<'_>,
    lengths: &Lengths,
    terminal_bytes: &[u32],
    text: TokenText<'_>,
    file: u32,
    offset: u64,
    length: u64,
) -> Vec<u8> {
    let start = lengths.file_bytes[file as usize];
    let size = lengths.file_bytes[file as usize + 1] - start;
    let length = length.min(size.saturating_sub(offset));
    if length == 0 {
        return Vec::new();
    }
    let source = Source {
        view,
        lengths,
        terminal_bytes,
        text,
    };
    let mut piece = Piece::default();
    source.expand_piece(file, start + offset, length, None, &mut piece);
    piece.bytes.truncate(length as usize);
    piece.bytes
}

/// Writes the bytes of `file` to `target`, in order.
///
/// Large files are expanded in parallel, a bounded number of pieces of 1 MiB at
/// a time.
///
/// # Errors
///
/// Those of `target`; nothing more is written after the first.
pub fn expand_file(
    view: GrammarView<'_>,
    lengths: &Lengths,
    terminal_bytes: &[u32],
    text: TokenText<'_>,
    file: u32,
    target: &mut dyn Write,
) -> io::Result<()> {
    let source = Source {
        view,
        lengths,
        terminal_bytes,
        text,
    };
    let start = lengths.file_bytes[file as usize];
    let end = lengths.file_bytes[file as usize + 1];
    let pieces = (end - start).div_ceil(PIECE_BYTES);
    let tasks = pieces.min(rayon::current_num_threads() as u64);
    // The record of rules is as large as the grammar: not for small files.
    let remembered = if pieces > 2 { view.rules() } else { 0 };
    let mut workers: Vec<(Piece, Vec<u64>)> = (0..tasks)
        .map(|_| (Piece::default(), vec![0; remembered]))
        .collect();
    let mut at = start;
    while at < end {
        let fill = |(index, (piece, seen)): (usize, &mut (Piece, Vec<u64>))| {
            let from = at + index as u64 * PIECE_BYTES;
            let length = PIECE_BYTES.min(end.saturating_sub(from));
            piece.length = 0;
            if length > 0 {
                let seen = (!seen.is_empty()).then_some(&mut seen[..]);
                source.expand_piece(file, from, length, seen, piece);
            }
        };
        if tasks == 1 {
            workers.iter_mut().enumerate().for_each(fill);
        } else {
            workers.par_iter_mut().enumerate().for_each(fill);
        }
        for (piece, _) in &workers {
            target.write_all(&piece.bytes[..piece.length])?;
        }
        at += tasks * PIECE_BYTES;
    }
    Ok(())
}

/// An expanded part of a file; kept to be filled again.
#[derive(Default)]
struct Piece {
    /// The bytes, and some more: room for whole blocks.
    bytes: Vec<u8>,
    length: usize,
    /// Body symbols still to expand, outermost first: ranges of `symbols`.
    stack: Vec<(u32, u32)>,
}

#[derive(Clone, Copy)]
struct Source<'a> {
    view: GrammarView<'a>,
    lengths: &'a Lengths,
    terminal_bytes: &'a [u32],
    text: TokenText<'a>,
}

impl Source<'_> {
    /// Expands `length` bytes of `file` from `start`, a byte of the segment,
    /// into `piece.bytes`. All of them must lie in the file.
    ///
    /// `seen` holds for each rule where it was last written in full by this
    /// worker, as a byte of the segment plus one; entries that do not lie in
    /// this piece are ignored.
    fn expand_piece(
        &self,
        file: u32,
        start: u64,
        length: u64,
        mut seen: Option<&mut [u64]>,
        piece: &mut Piece,
    ) {
        let Source { view, lengths, .. } = *self;
        let (rule_offsets, symbols) = (view.rule_offsets, view.symbols);
        // Fits: the caller wants that many bytes in memory.
        let size = length as usize;
        piece.length = size;
        piece.bytes.resize(size + BLOCK_BYTES, 0);
        let bytes = &mut piece.bytes[..size + BLOCK_BYTES];
        let stack = &mut piece.stack;
        stack.clear();

        let (mut position, mut skip) = lengths.find_in_root(view, self.terminal_bytes, file, start);
        let mut symbol = view.root[position];
        while let Some(rule) = view.rule(symbol) {
            let (index, inside) = lengths.find_in_body(view, self.terminal_bytes, rule, skip);
            let body = view.body_range(rule);
            symbol = symbols[body.start + index];
            // Positions in `symbols` are u32, as offsets are.
            stack.push(((body.start + index + 1) as u32, body.end as u32));
            skip = inside;
        }
        let mut written = self.put_end(symbol, skip as usize, bytes);

        let (mut cursor, mut end) = stack.pop().unwrap_or((0, 0));
        while written < size {
            let symbol = if cursor < end {
                cursor += 1;
                symbols[cursor as usize - 1]
            } else if let Some(frame) = stack.pop() {
                (cursor, end) = frame;
                continue;
            } else {
                position += 1;
                view.root[position]
            };
            let Some(rule) = view.rule(symbol) else {
                written += self.put(symbol, bytes, written);
                continue;
            };
            if let Some(seen) = seen.as_deref_mut() {
                let rule_bytes = lengths.rule_bytes[rule as usize];
                if rule_bytes >= COPY_BYTES_MIN && rule_bytes <= (size - written) as u64 {
                    let last = &mut seen[rule as usize];
                    let here = start + written as u64 + 1;
                    if *last > start && *last < here {
                        let from = (*last - start) as usize - 1;
                        let count = rule_bytes as usize;
                        bytes.copy_within(from..from + count, written);
                        written += count;
                        continue;
                    }
                    *last = here;
                }
            }
            if cursor < end {
                stack.push((cursor, end));
            }
            cursor = rule_offsets[rule as usize];
            end = rule_offsets[rule as usize + 1];
        }
    }

    /// Writes a token from its byte `skip` on to the front of `bytes`; returns
    /// how many bytes of it there are, some of which may not fit.
    fn put_end(&self, terminal: u32, skip: usize, bytes: &mut [u8]) -> usize {
        let from = self.text.offsets[terminal as usize] as usize + skip;
        let to = self.text.offsets[terminal as usize + 1] as usize;
        let fits = (to - from).min(bytes.len());
        bytes[..fits].copy_from_slice(&self.text.bytes[from..from + fits]);
        to - from
    }

    /// Writes a token at `at`; returns its length, some of which may not fit.
    #[inline(always)]
    fn put(&self, terminal: u32, bytes: &mut [u8], at: usize) -> usize {
        let from = self.text.offsets[terminal as usize] as usize;
        let count = self.text.offsets[terminal as usize + 1] as usize - from;
        if count <= BLOCK_BYTES {
            let source = self.text.bytes.get(from..from + BLOCK_BYTES);
            let target = bytes.get_mut(at..at + BLOCK_BYTES);
            if let (Some(source), Some(target)) = (source, target) {
                target.copy_from_slice(source);
                return count;
            }
        }
        let fits = count.min(bytes.len() - at);
        bytes[at..at + fits].copy_from_slice(&self.text.bytes[from..from + fits]);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_grammars::{self, Numbers, TestGrammar, in_pools};

    struct Fixture<'a> {
        grammar: &'a TestGrammar,
        terminal_bytes: Vec<u32>,
        lengths: Lengths,
    }

    impl<'a> Fixture<'a> {
        fn new(grammar: &'a TestGrammar) -> Self {
            let terminal_bytes = grammar.terminal_bytes();
            let lengths = Lengths::new(grammar.view(), &terminal_bytes, grammar.word_terminals);
            Fixture {
                grammar,
                terminal_bytes,
                lengths,
            }
        }

        fn extract(&self, file: u32, offset: u64, length: u64) -> Vec<u8> {
            let grammar = self.grammar;
            let (view, text) = (grammar.view(), grammar.text());
            let sizes = &self.terminal_bytes;
            extract(view, &self.lengths, sizes, text, file, offset, length)
        }

        fn expand_file(&self, file: u32) -> Vec<u8> {
            let (view, text) = (self.grammar.view(), self.grammar.text());
            let mut target = Vec::new();
            let sizes = &self.terminal_bytes;
            expand_file(view, &self.lengths, sizes, text, file, &mut target)
                .expect("a Vec takes all bytes");
            target
        }
    }

    fn naive(content: &[u8], offset: u64, length: u64) -> &[u8] {
        let from = content.len().min(offset as usize);
        let to = content
            .len()
            .min(offset.saturating_add(length).min(1 << 60) as usize);
        &content[from..to]
    }

    #[test]
    fn all_ranges_of_all_small_grammars_are_those_of_the_expansion() {
        for grammar in test_grammars::all_small() {
            let fixture = Fixture::new(&grammar);
            for file in 0..2 {
                let content = grammar.content(file);
                let size = content.len() as u64;
                // Long files repeat what short ones show.
                for offset in (0..size + 2).step_by(1 + content.len() / 12) {
                    for length in (0..size + 2 - offset).step_by(1 + content.len() / 12) {
                        assert_eq!(
                            fixture.extract(file, offset, length),
                            naive(&content, offset, length)
                        );
                    }
                }
                assert_eq!(fixture.expand_file(file), content);
            }
        }
    }

    #[test]
    fn ranges_of_random_and_extreme_grammars_are_those_of_the_expansion() {
        let extreme = [
            test_grammars::deep_chain(500),
            test_grammars::long_body(20_000),
            test_grammars::runs(12),
        ];
        let mut numbers = Numbers::new(1);
        for grammar in test_grammars::random_many(100).chain(extreme) {
            let fixture = Fixture::new(&grammar);
            for file in 0..grammar.view().files() as u32 {
                let content = grammar.content(file);
                assert_eq!(fixture.expand_file(file), content);
                for _ in 0..100 {
                    let offset = numbers.below(content.len() as u64 + 3);
                    let length =
                        numbers.below([3, 70, content.len() as u64 + 3][offset as usize % 3]);
                    assert_eq!(
                        fixture.extract(file, offset, length),
                        naive(&content, offset, length)
                    );
                }
                assert_eq!(fixture.extract(file, 0, u64::MAX), content);
                assert!(fixture.extract(file, u64::MAX, u64::MAX).is_empty());
            }
        }
    }

    #[test]
    fn files_of_many_pieces_are_the_same_for_1_2_and_16_threads() {
        for grammar in [
            test_grammars::runs(22),
            test_grammars::long_body(1_000_000),
            test_grammars::repeated_text(40),
        ] {
            let fixture = Fixture::new(&grammar);
            for file in 0..2 {
                let content = in_pools(|| fixture.expand_file(file));
                assert!(content == grammar.content(file));
            }
        }
    }

    #[test]
    fn the_first_error_of_the_target_ends_the_expansion() {
        struct Full(u32);
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                self.0 += 1;
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let grammar = test_grammars::runs(22);
        let fixture = Fixture::new(&grammar);
        let mut target = Full(0);
        let error = expand_file(
            grammar.view(),
            &fixture.lengths,
            &fixture.terminal_bytes,
            grammar.text(),
            0,
            &mut target,
        );
        assert_eq!(error.map_err(|e| e.kind()), Err(io::ErrorKind::StorageFull));
        assert_eq!(target.0, 1);
    }
}
