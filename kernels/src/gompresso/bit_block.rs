//! Bit blocks: sequences in two Huffman codes, in sub-blocks that decode alone.
//!
//! The invariant: decoding writes no more sequences and literals than the block's entry and its sub-blocks say, and a sub-block
//! takes exactly its bits. What sequences mean is not looked at.
//!
//! Sitaridi et al., ICPP 2016, section III-1; the layout is in `storage/FORMAT.md`.

use super::error::BlockFault;
use super::format::{LITERALS_MAX, MATCH_MAX, PackSequence, Record};
use super::huffman::{
    BitSink, bits_at, code_lengths, code_words, for_each_code, read_code_lengths,
    write_code_lengths,
};
use super::symbols::{
    DISTANCE_SYMBOLS, LENGTHS_BEGIN, NO_MATCH, TEXT_SYMBOLS, distance_base, distance_extra_bits,
    distance_symbol, length_base, length_extra_bits, length_symbol,
};

/// Bytes before the code lengths: their size, and the widths of the fields of the table of sub-blocks.
pub const HEAD_SIZE: usize = 4;

/// The widest field of bits: 64 sequences of 255 literals and a reference, of codes of 12 bits and more bits.
pub const BITS_WIDTH_MAX: u32 = 18;

/// The widest field of how many literals there are: 64 sequences of 255.
pub const LITERALS_WIDTH_MAX: u32 = 14;

const _: () = {
    assert!(64 * LITERALS_MAX < 1 << LITERALS_WIDTH_MAX);
    assert!(64 * ((LITERALS_MAX + 2) * 12 + 5 + 14) < 1 << BITS_WIDTH_MAX);
};

/// Bits of the index of the table of text symbols, whatever the limit of codes.
const TEXT_TABLE_BITS: u32 = 12;

/// What a text symbol is, in an entry of its table.
const BITS_SHIFT: u32 = 0;
const KIND_SHIFT: u32 = 5;
const EXTRA_SHIFT: u32 = 8;
const VALUE_SHIFT: u32 = 16;
const KIND_MASK: u32 = 7;
const BITS_MASK: u32 = 31;

/// Kinds: one or two literals, then these. No code word has an entry of 0.
const ONE_LITERAL: u32 = 1;
const TWO_LITERALS: u32 = 2;
const LENGTH: u32 = 3;
const NO_LENGTH: u32 = 4;

/// Codes sequences; `literals` are all their literal strings.
pub(super) fn encode(
    records: &[Record],
    literals: &[u8],
    sub_block: u8,
    code_bits: u8,
    bytes: &mut Vec<u8>,
) {
    let mut text_counts = [0u32; TEXT_SYMBOLS];
    let mut distance_counts = [0u32; DISTANCE_SYMBOLS];
    for &literal in literals {
        text_counts[usize::from(literal)] += 1;
    }
    for &record in records {
        let sequence = PackSequence::from_record(record);
        if sequence.length == 0 {
            text_counts[NO_MATCH] += 1;
        } else {
            text_counts[length_symbol(sequence.length)] += 1;
            distance_counts[distance_symbol(sequence.distance)] += 1;
        }
    }
    let mut lengths = code_lengths(&text_counts, code_bits);
    lengths.extend(code_lengths(&distance_counts, code_bits));
    let (text_lengths, distance_lengths) = lengths.split_at(TEXT_SYMBOLS);
    let (text_words, distance_words) = (code_words(text_lengths), code_words(distance_lengths));

    let mut sink = BitSink::default();
    let mut sub_blocks = Vec::new();
    let mut rest = literals;
    for sub_block in records.chunks(sub_block.into()) {
        let (begin, before) = (sink.len(), rest.len());
        for &record in sub_block {
            let sequence = PackSequence::from_record(record);
            let (string, after) = rest.split_at(sequence.literals);
            rest = after;
            let mut put = |symbol: usize| {
                sink.put(text_words[symbol].into(), text_lengths[symbol].into());
            };
            string.iter().for_each(|&literal| put(literal.into()));
            if sequence.length == 0 {
                put(NO_MATCH);
                continue;
            }
            let symbol = length_symbol(sequence.length);
            put(symbol);
            // Differences are below 2^14.
            let more = (sequence.length - length_base(symbol)) as u32;
            sink.put(more, length_extra_bits(symbol));
            let symbol = distance_symbol(sequence.distance);
            sink.put(
                distance_words[symbol].into(),
                distance_lengths[symbol].into(),
            );
            let more = (sequence.distance - distance_base(symbol)) as u32;
            sink.put(more, distance_extra_bits(symbol));
        }
        // Within the widths of the fields.
        sub_blocks.push(((sink.len() - begin) as u32, (before - rest.len()) as u32));
    }
    let width = |most: Option<u32>| u32::BITS - most.unwrap_or(0).leading_zeros();
    let bits_width = width(sub_blocks.iter().map(|&(bits, _)| bits).max());
    let literals_width = width(sub_blocks.iter().map(|&(_, literals)| literals).max());

    let begin = bytes.len();
    bytes.extend([0, 0, bits_width as u8, literals_width as u8]);
    write_code_lengths(&lengths, bytes);
    // Code lengths take less than 2^16 bytes.
    let size = (bytes.len() - begin - HEAD_SIZE) as u16;
    bytes[begin..begin + 2].copy_from_slice(&size.to_le_bytes());
    bytes.resize(begin + (bytes.len() - begin).next_multiple_of(4), 0);
    let mut table = BitSink::default();
    for (bits, literals) in sub_blocks {
        table.put(bits, bits_width);
        table.put(literals, literals_width);
    }
    table.finish(bytes);
    sink.finish(bytes);
}

/// The parts of a Bit block.
struct BitParts<'a> {
    /// By text symbol, then by distance symbol.
    code_lengths: [u8; TEXT_SYMBOLS + DISTANCE_SYMBOLS],
    bits_width: u32,
    literals_width: u32,
    table: &'a [u8],
    stream: &'a [u8],
}

impl<'a> BitParts<'a> {
    /// Finds the parts of a block; `sequences`: how many it has.
    fn of(bytes: &'a [u8], sequences: usize, sub_block: u8) -> Result<BitParts<'a>, BlockFault> {
        let Some((&[low, high, bits_width, literals_width], codes)) = bytes.split_first_chunk()
        else {
            return Err(BlockFault::Bytes);
        };
        let size = usize::from(u16::from_le_bytes([low, high]));
        let codes = codes.get(..size).ok_or(BlockFault::Bytes)?;
        let mut code_lengths = [0; TEXT_SYMBOLS + DISTANCE_SYMBOLS];
        if read_code_lengths(codes, &mut code_lengths)? != size {
            return Err(BlockFault::CodeLengths);
        }
        let (bits_width, literals_width) = (u32::from(bits_width), u32::from(literals_width));
        if bits_width > BITS_WIDTH_MAX || literals_width > LITERALS_WIDTH_MAX {
            return Err(BlockFault::Bits);
        }
        let sub_blocks = sequences.div_ceil(sub_block.into());
        let table_bits = sub_blocks as u64 * u64::from(bits_width + literals_width);
        let table_begin = (HEAD_SIZE + size).next_multiple_of(4);
        // In memory, or refused next.
        let stream_begin = table_begin + table_bits.div_ceil(32) as usize * 4;
        let stream = bytes.get(stream_begin..).ok_or(BlockFault::Bytes)?;
        Ok(BitParts {
            code_lengths,
            bits_width,
            literals_width,
            table: &bytes[table_begin..stream_begin],
            stream,
        })
    }

    /// Bits and literals of a sub-block.
    fn sub_block(&self, index: usize) -> (u32, u32) {
        let width = self.bits_width + self.literals_width;
        let fields = bits_at(self.table, index as u64 * u64::from(width));
        let field = |shift: u32, width: u32| (fields >> shift) as u32 & ((1 << width) - 1);
        (
            field(0, self.bits_width),
            field(self.bits_width, self.literals_width),
        )
    }
}

/// Tables and sequences of the block that is decoded, kept for the next one.
#[derive(Default)]
pub(super) struct BitDecoder {
    text_table: Vec<u32>,
    distance_table: Vec<u32>,
    pub(super) records: Vec<Record>,
    pub(super) literals: Vec<u8>,
}

impl BitDecoder {
    /// Decodes a block of `text_len` bytes of text to records and literals.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        sequences: usize,
        text_len: usize,
        sub_block: u8,
        code_bits: u8,
    ) -> Result<(), BlockFault> {
        let parts = BitParts::of(bytes, sequences, sub_block)?;
        self.make_tables(&parts.code_lengths, code_bits)?;
        self.records.clear();
        self.records.resize(sequences, [0; 4]);
        let mut begin = 0u64;
        // Literals of the block, which are text.
        let mut used = 0;
        self.literals.resize(text_len + LITERAL_SLACK, 0);
        for (index, records) in self.records.chunks_mut(sub_block.into()).enumerate() {
            let (bits, literals) = parts.sub_block(index);
            let end = used + literals as usize;
            if end > text_len {
                return Err(BlockFault::Lengths);
            }
            let found = decode_sub_block(
                &self.text_table,
                &self.distance_table,
                parts.stream,
                begin,
                records,
                &mut self.literals[used..end + LITERAL_SLACK],
            )?;
            if found != begin + u64::from(bits) {
                return Err(BlockFault::Bits);
            }
            begin = found;
            used = end;
        }
        self.literals.truncate(used);
        if begin.div_ceil(32) * 4 == parts.stream.len() as u64 {
            Ok(())
        } else {
            Err(BlockFault::Bytes)
        }
    }

    fn make_tables(&mut self, lengths: &[u8], code_bits: u8) -> Result<(), BlockFault> {
        let (text_lengths, distance_lengths) = lengths.split_at(TEXT_SYMBOLS);
        let table = &mut self.text_table;
        table.clear();
        table.resize(1 << TEXT_TABLE_BITS, 0);
        for_each_code(text_lengths, code_bits, |word, length, symbol| {
            // Symbols, lengths and bits are small.
            let (kind, extra, value) = match symbol {
                NO_MATCH => (NO_LENGTH, 0, 0),
                LENGTHS_BEGIN.. => (
                    LENGTH,
                    length_extra_bits(symbol),
                    length_base(symbol) as u32,
                ),
                literal => (ONE_LITERAL, 0, literal as u32),
            };
            let entry = value << VALUE_SHIFT
                | extra << EXTRA_SHIFT
                | kind << KIND_SHIFT
                | u32::from(length) << BITS_SHIFT;
            for entry_at in (word..1 << TEXT_TABLE_BITS).step_by(1 << length) {
                table[entry_at] = entry;
            }
        })?;
        // Where a second literal follows within the index, an entry stands for both. From the last one on: the second one is of a
        // lower index, or of index 0 itself.
        for index in (0..table.len()).rev() {
            let first = table[index];
            if first >> KIND_SHIFT & KIND_MASK != ONE_LITERAL {
                continue;
            }
            let bits = first & BITS_MASK;
            let second = table[index >> bits];
            let both = bits + (second & BITS_MASK);
            if second >> KIND_SHIFT & KIND_MASK == ONE_LITERAL && both <= TEXT_TABLE_BITS {
                let value = first >> VALUE_SHIFT | second >> VALUE_SHIFT << 8;
                table[index] = value << VALUE_SHIFT | TWO_LITERALS << KIND_SHIFT | both;
            }
        }
        let table = &mut self.distance_table;
        table.clear();
        table.resize(1 << code_bits, 0);
        for_each_code(distance_lengths, code_bits, |word, length, symbol| {
            let entry = (distance_base(symbol) as u32 - 1) << VALUE_SHIFT
                | distance_extra_bits(symbol) << EXTRA_SHIFT
                | u32::from(length);
            for entry_at in (word..1 << code_bits).step_by(1 << length) {
                table[entry_at] = entry;
            }
        })
    }
}

/// Bytes behind the literals of a sub-block that may be written: a table's entry has up to two.
const LITERAL_SLACK: usize = 2;

/// Decodes a sub-block, whose stream begins at bit `at`; where it ends. Fills all records, and all literals but the slack.
#[inline(always)]
fn decode_sub_block(
    text_table: &[u32],
    distance_table: &[u32],
    stream: &[u8],
    mut at: u64,
    records: &mut [Record],
    literals: &mut [u8],
) -> Result<u64, BlockFault> {
    let text_table = text_table.first_chunk::<{ 1 << TEXT_TABLE_BITS }>();
    let text_table = text_table.expect("the table is made");
    let distance_mask = distance_table.len() as u64 - 1;
    let mut used = 0;
    for record in records {
        let begin = used;
        let (length, distance) = loop {
            // 56 bits are enough for three entries, or for one and a reference: 12 and 5, 12 and 14.
            let mut word = bits_at(stream, at);
            let entry = text_table[(word & 0xfff) as usize];
            let bits = entry & BITS_MASK;
            word >>= bits;
            at += u64::from(bits);
            match entry >> KIND_SHIFT & KIND_MASK {
                kind @ (ONE_LITERAL | TWO_LITERALS) => {
                    let to = literals.get_mut(used..used + 2).ok_or(BlockFault::Bits)?;
                    to.copy_from_slice(&((entry >> VALUE_SHIFT) as u16).to_le_bytes());
                    used += kind as usize;
                }
                LENGTH => {
                    let extra = entry >> EXTRA_SHIFT & 0xff;
                    let length = (entry >> VALUE_SHIFT) + low_bits(word, extra);
                    word >>= extra;
                    let entry = distance_table[(word & distance_mask) as usize];
                    let bits = entry & BITS_MASK;
                    if bits == 0 {
                        return Err(BlockFault::Bits);
                    }
                    word >>= bits;
                    let more = entry >> EXTRA_SHIFT & 0xff;
                    let distance = (entry >> VALUE_SHIFT) + low_bits(word, more);
                    at += u64::from(extra + bits + more);
                    // Both are at most as large as their fields: symbols are.
                    break (length as usize, distance as usize + 1);
                }
                NO_LENGTH => break (0, 1),
                _ => return Err(BlockFault::Bits),
            }
        };
        let count = used - begin;
        if count > LITERALS_MAX || length > MATCH_MAX {
            return Err(BlockFault::Lengths);
        }
        *record = PackSequence {
            literals: count,
            length,
            distance,
        }
        .to_record();
    }
    if used + LITERAL_SLACK == literals.len() {
        Ok(at)
    } else {
        Err(BlockFault::Bits)
    }
}

#[inline(always)]
fn low_bits(word: u64, count: u32) -> u32 {
    // Few bits.
    (word & ((1 << count) - 1)) as u32
}
