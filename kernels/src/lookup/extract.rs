//! Bytes of a file by offset, and whole files.
//!
//! In   a grammar, its lengths in bytes, the text of its symbols; a file, an offset, a length
//! Out  the bytes offset..offset + length of the file, cut at its end
//! Work a search among the file's samples, then one body search per level down to the first byte;
//!      after that O(bytes): a loop over one explicit stack
//!
//! A whole file is a series of pieces, each found by its offset, so memory is
//! bounded by a few pieces however long a rule's expansion is, and pieces are
//! expanded in parallel. What makes it fast is not to go down: a rule of up to
//! 32 bytes, as most tokens, is copied as one block of fixed size, a block of symbols is looked
//! up before the first is copied, and within a piece a long rule that was
//! written before is copied from there.

use std::io::{self, Write};
use std::ops::Range;

use rayon::prelude::*;

use crate::grammar::grammar_view::AHEAD_SYMBOLS;
use crate::{GrammarView, Lengths};

/// Rules up to this length are kept, and copied as one block of this many bytes.
const BLOCK_BYTES: usize = 32;

/// Bytes of a file that one task expands at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// A rule is worth remembering if copying beats expanding by far.
const COPY_BYTES_MIN: u64 = 64;

/// Rules of one parallel task.
const TASK_RULES: usize = 1 << 12;

/// The text of all tokens and the expansions of all rules of up to 32 bytes,
/// ready to be copied: on prose a tenth of the text.
#[derive(Debug, PartialEq, Eq)]
pub struct SymbolText {
    /// `[symbols + 1]` into `bytes`; empty ranges for longer rules.
    pub offsets: Vec<u32>,
    /// The texts, one after the other, and one block of zeros.
    pub bytes: Vec<u8>,
}

impl SymbolText {
    /// Size of the arrays.
    pub fn memory(&self) -> usize {
        size_of_val(&self.offsets[..]) + self.bytes.len()
    }

    /// Collects all tokens, `token(t)` being that of terminal `t`, and expands
    /// all short rules.
    ///
    /// Work: O(bytes), from below, parallel over the rules of a level. Memory:
    /// the tokens, and at most 36 bytes a rule.
    ///
    /// # Panics
    ///
    /// If `lengths` are not those of the tokens, or these have 4 GiB or more.
    pub fn new<'a>(
        view: GrammarView<'_>,
        lengths: &Lengths,
        token: impl Fn(u32) -> &'a [u8],
    ) -> SymbolText {
        let terminals = view.terminal_count as usize;
        let (token_lengths, rule_lengths) = lengths.symbols.split_at(terminals);
        let mut offsets = Vec::with_capacity(view.symbol_count() + 1);
        offsets.push(0u32);
        let mut end = 0u32;
        for &length in token_lengths {
            let length = u32::try_from(length).ok();
            end = length
                .and_then(|length| end.checked_add(length))
                .expect("all tokens together have less than 4 GiB");
            offsets.push(end);
        }
        for &length in rule_lengths {
            // Past what a u32 counts rules are left out. The rules of a body
            // come before it and are no longer, so they are in if it is.
            if length <= BLOCK_BYTES as u64 {
                end = end.checked_add(length as u32).unwrap_or(end);
            }
            offsets.push(end);
        }
        let range = |symbol: usize| offsets[symbol] as usize..offsets[symbol + 1] as usize;
        let mut bytes = vec![0u8; end as usize + BLOCK_BYTES];
        for terminal in 0..view.terminal_count {
            bytes[range(terminal as usize)].copy_from_slice(token(terminal));
        }
        for level in 0..view.levels() {
            let rules = view.level_rules(level);
            let start = offsets[terminals + rules.start] as usize;
            let (lower, mut rest) = bytes.split_at_mut(start);
            let lower = &*lower;
            let write = |(rules, mut target): (Range<usize>, &mut [u8])| {
                for rule in rules {
                    if range(terminals + rule).is_empty() {
                        continue;
                    }
                    // Rules are u32.
                    for &symbol in view.body(rule as u32) {
                        let text = &lower[range(symbol as usize)];
                        let (front, behind) = target.split_at_mut(text.len());
                        front.copy_from_slice(text);
                        target = behind;
                    }
                }
            };
            let mut tasks = Vec::new();
            for from in rules.clone().step_by(TASK_RULES) {
                let to = rules.end.min(from + TASK_RULES);
                let size = offsets[terminals + to] - offsets[terminals + from];
                let (target, behind) = rest.split_at_mut(size as usize);
                tasks.push((from..to, target));
                rest = behind;
            }
            if tasks.len() <= 1 {
                tasks.into_iter().for_each(write);
            } else {
                tasks.into_par_iter().for_each(write);
            }
        }
        SymbolText { offsets, bytes }
    }

    /// Where the text of `symbol` lies; empty for a long rule.
    #[inline(always)]
    fn range(&self, symbol: u32) -> (usize, usize) {
        let symbol = symbol as usize;
        (
            self.offsets[symbol] as usize,
            self.offsets[symbol + 1] as usize,
        )
    }
}

/// The structures of one segment that extracting reads.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// The grammar.
    pub view: GrammarView<'a>,
    /// Its lengths in bytes.
    pub lengths: &'a Lengths,
    /// The text of its tokens and short rules.
    pub text: &'a SymbolText,
}

/// The bytes `offset..offset + length` of `file`, fewer or none past its end.
pub fn extract(content: Content<'_>, file: u32, offset: u64, length: u64) -> Vec<u8> {
    let range = content.lengths.file_range(file);
    let length = length.min((range.end - range.start).saturating_sub(offset));
    if length == 0 {
        return Vec::new();
    }
    let mut piece = Piece::default();
    content.expand_piece(file, range.start + offset, length, None, &mut piece);
    piece.bytes.truncate(piece.length);
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
pub fn expand_file(content: Content<'_>, file: u32, target: &mut dyn Write) -> io::Result<()> {
    let range = content.lengths.file_range(file);
    let pieces = (range.end - range.start).div_ceil(PIECE_BYTES);
    let tasks = pieces.min(rayon::current_num_threads() as u64);
    // The record of rules is as large as the grammar: not for small files.
    let remembered = if pieces > 2 { content.view.rules() } else { 0 };
    let mut workers: Vec<(Piece, Vec<u64>)> = (0..tasks)
        .map(|_| (Piece::default(), vec![0; remembered]))
        .collect();
    let mut at = range.start;
    while at < range.end {
        let fill = |(index, (piece, seen)): (usize, &mut (Piece, Vec<u64>))| {
            let from = at + index as u64 * PIECE_BYTES;
            let length = PIECE_BYTES.min(range.end.saturating_sub(from));
            piece.length = 0;
            if length > 0 {
                let seen = (!seen.is_empty()).then_some(&mut seen[..]);
                content.expand_piece(file, from, length, seen, piece);
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
    /// What is still to expand, outermost first: first a range of the root, then
    /// ranges of body symbols.
    stack: Vec<(usize, usize)>,
}

impl Content<'_> {
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
        let Content { view, lengths, .. } = *self;
        // Fits: the caller wants that many bytes in memory.
        let size = length as usize;
        piece.length = size;
        piece.bytes.resize(size + BLOCK_BYTES, 0);
        let bytes = &mut piece.bytes[..];
        let stack = &mut piece.stack;
        stack.clear();

        // Down to the first byte.
        let (position, mut skip) = lengths.find_in_root(view, file, start);
        let mut symbol = view.root[position];
        stack.push((position + 1, view.root_range(file).end));
        let text = loop {
            let (from, to) = self.text.range(symbol);
            if from < to {
                break &self.text.bytes[from..to];
            }
            let rule = view.rule(symbol).expect("tokens have text");
            let (index, inside) = lengths.find_in_body(view, rule, skip);
            let body = view.body_range(rule);
            symbol = view.symbols[body.start + index];
            stack.push((body.start + index + 1, body.end));
            skip = inside;
        };
        // Less than the text's length, so it fits.
        let mut written = put(&text[skip as usize..], bytes, 0);

        let mut ranges = [(0, 0); AHEAD_SYMBOLS];
        'frames: while written < size {
            let (cursor, end) = stack.pop().expect("the file goes on, so does its root");
            let symbols = if stack.is_empty() {
                &view.root[cursor..end]
            } else {
                &view.symbols[cursor..end]
            };
            // Looking up much more than is wanted would cost more than it saves.
            let wanted = (size - written) / (BLOCK_BYTES / 4) + 1;
            let block = &symbols[..symbols.len().min(wanted).min(AHEAD_SYMBOLS)];
            for (range, &symbol) in ranges.iter_mut().zip(block) {
                *range = self.text.range(symbol);
            }
            let ranges = &ranges[..block.len()];
            let touched = (ranges.iter()).fold(0, |touched, &(from, _)| {
                touched ^ self.text.bytes.get(from).unwrap_or(&0)
            });
            // Reading is all: the value does not matter.
            std::hint::black_box(touched);

            for (index, (&symbol, &(from, to))) in block.iter().zip(ranges).enumerate() {
                if written >= size {
                    break 'frames;
                }
                if from < to {
                    let source = self.text.bytes.get(from..from + BLOCK_BYTES);
                    let target = bytes.get_mut(written..written + BLOCK_BYTES);
                    match (source, target) {
                        (Some(source), Some(target)) if to - from <= BLOCK_BYTES => {
                            target.copy_from_slice(source);
                            written += to - from;
                        }
                        _ => written += put(&self.text.bytes[from..to], bytes, written),
                    }
                    continue;
                }
                // Empty, and then its body is empty too, or a long rule.
                let rule = view.rule(symbol).expect("tokens have text");
                if let Some(seen) = seen.as_deref_mut() {
                    let length = lengths.symbols[symbol as usize];
                    if length >= COPY_BYTES_MIN && length <= (size - written) as u64 {
                        let last = &mut seen[rule as usize];
                        let here = start + written as u64 + 1;
                        if *last > start && *last < here {
                            let from = (*last - start) as usize - 1;
                            let count = length as usize;
                            bytes.copy_within(from..from + count, written);
                            written += count;
                            continue;
                        }
                        *last = here;
                    }
                }
                stack.push((cursor + index + 1, end));
                let body = view.body_range(rule);
                stack.push((body.start, body.end));
                continue 'frames;
            }
            // Ended frames stay off the stack, except for the root: it says where
            // the others begin.
            if cursor + block.len() < end || stack.is_empty() {
                stack.push((cursor + block.len(), end));
            }
        }
    }
}

/// Writes `text` at `at`; returns its length, some of which may not fit.
fn put(text: &[u8], bytes: &mut [u8], at: usize) -> usize {
    let fits = text.len().min(bytes.len() - at);
    bytes[at..at + fits].copy_from_slice(&text[..fits]);
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, Numbers, TestGrammar, in_pools};

    struct Fixture<'a> {
        grammar: &'a TestGrammar,
        lengths: Lengths,
        text: SymbolText,
    }

    impl<'a> Fixture<'a> {
        fn new(grammar: &'a TestGrammar) -> Self {
            let lengths = grammar.lengths();
            let text = grammar.symbol_text();
            Fixture {
                grammar,
                lengths,
                text,
            }
        }

        fn content(&self) -> Content<'_> {
            Content {
                view: self.grammar.view(),
                lengths: &self.lengths,
                text: &self.text,
            }
        }

        fn extract(&self, file: u32, offset: u64, length: u64) -> Vec<u8> {
            extract(self.content(), file, offset, length)
        }

        fn expand_file(&self, file: u32) -> Vec<u8> {
            let mut target = Vec::new();
            expand_file(self.content(), file, &mut target).expect("a Vec takes all bytes");
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
        let error = expand_file(fixture.content(), 0, &mut target);
        assert_eq!(error.map_err(|e| e.kind()), Err(io::ErrorKind::StorageFull));
        assert_eq!(target.0, 1);
    }

    #[test]
    fn tokens_and_short_rules_are_kept_whole_and_long_rules_not_at_all() {
        for grammar in test_grammars::random_many(50) {
            let kept = in_pools(|| grammar.symbol_text());
            for symbol in 0..grammar.view().symbol_count() as u32 {
                let text: Vec<u8> = (grammar.expand_symbols(&[symbol]).iter())
                    .flat_map(|&t| grammar.tokens[t as usize].iter().copied())
                    .collect();
                let (from, to) = kept.range(symbol);
                let whole = text.len() <= 32 || grammar.view().rule(symbol).is_none();
                let expected = if whole { &text[..] } else { &[] };
                assert_eq!(&kept.bytes[from..to], expected);
            }
        }
    }
}
