//! The spelling model of a dictionary section: which byte follows which, and the tables for everything else.

use super::context::Context;
use crate::segment::coding::adaptive::{Bit, BitDecoder, BitEncoder, BitTree, Coder};
use crate::segment::coding::cluster::{Groups, Rows, count_pairs, pair_key};
use crate::segment::coding::rans::{self, Share};
use crate::segment::coding::tables::{Lookup, SYMBOLS_MAX, Tables};
use crate::segment::coding::{DecodeError, Fault, NoMemory};
use rayon::prelude::*;

/// Shared lengths below this are one symbol, this and above have eight bits more.
pub const SHARED_ESCAPE: usize = 62;
/// The folded word is the one before.
pub const SHARED_SAME: usize = 63;
/// Tables of shared lengths: by the shared length of the entry before.
pub const SHARED_ROWS: usize = 24;
/// Spacing and capitals, together.
pub const HEADS: usize = 12;
/// Tables for the case of a letter.
pub const CASE_BIT_ROWS: usize = 4;

const SHARED_SYMBOLS: usize = 64;
const HEAD_ROWS: usize = 2 * HEADS;

/// Most bytes that the model is learned from.
const SAMPLE: usize = 1 << 20;

/// A pair of bytes that was seen this often is put into a group of its own accord.
const OWN_COUNT: u64 = 6;

/// One thing written of an entry.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A symbol under a row of a table.
    Symbol {
        /// Which tables.
        table: Table,
        /// Which of them.
        row: u8,
        /// The symbol.
        symbol: u8,
    },
    /// A byte of the folded word; none is its end.
    Byte {
        /// What it is predicted from.
        context: Context,
        /// The byte.
        byte: Option<u8>,
    },
    /// Eight bits.
    Raw(u8),
}

/// Tables with fixed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Shared lengths.
    Shared,
    /// Spacing and capitals.
    Head,
    /// Cases of letters.
    CaseBit,
}

impl Table {
    const ALL: [Table; 3] = [Table::Shared, Table::Head, Table::CaseBit];

    /// Rows and symbols.
    fn size(self) -> (usize, usize) {
        match self {
            Table::Shared => (SHARED_ROWS, SHARED_SYMBOLS),
            Table::Head => (HEAD_ROWS, HEADS),
            Table::CaseBit => (CASE_BIT_ROWS, 2),
        }
    }
}

// All numbers are below 256: shared lengths are cut at SHARED_SAME, rows and heads are constants.
impl Event {
    /// A shared length.
    pub fn shared(row: usize, shared: usize) -> Event {
        Event::Symbol {
            table: Table::Shared,
            row: row as u8,
            symbol: shared as u8,
        }
    }

    /// Spacing and capitals.
    pub fn head(row: usize, head: usize) -> Event {
        Event::Symbol {
            table: Table::Head,
            row: row as u8,
            symbol: head as u8,
        }
    }

    /// Whether a letter is a capital.
    pub fn case_bit(row: usize, capital: bool) -> Event {
        Event::Symbol {
            table: Table::CaseBit,
            row: row as u8,
            symbol: u8::from(capital),
        }
    }

    /// A byte of the folded word.
    pub fn byte(context: Context, byte: u8) -> Event {
        Event::Byte {
            context,
            byte: Some(byte),
        }
    }

    /// The end of the folded word.
    pub fn end(context: Context) -> Event {
        Event::Byte {
            context,
            byte: None,
        }
    }

    /// Eight bits.
    pub fn raw(value: usize) -> Event {
        Event::Raw(value as u8)
    }
}

/// Which bytes occur, which contexts go together, and all tables.
pub struct Spelling {
    alphabet: Alphabet,
    /// Group of each context, see [`Alphabet::context`].
    groups: Vec<u8>,
    group_bits: u32,
    bytes: Tables,
    /// In the order of [`Table::ALL`].
    tables: [Tables; 3],
}

/// The bytes that occur, numbered from 1; 0 is "none": the end of a word, or nothing there.
struct Alphabet {
    number: [u8; 256],
    bytes: Vec<u8>,
}

impl Alphabet {
    fn new(used: impl Fn(u8) -> bool) -> Alphabet {
        let bytes: Vec<u8> = (0..=255).filter(|&byte| used(byte)).collect();
        let mut number = [0; 256];
        for (index, &byte) in bytes.iter().enumerate() {
            number[usize::from(byte)] = (index + 1) as u8; // folded words have at most 230 different bytes
        }
        Alphabet { number, bytes }
    }

    /// Bytes and "none".
    fn symbols(&self) -> usize {
        self.bytes.len() + 1
    }

    fn number(&self, byte: Option<u8>) -> usize {
        byte.map_or(0, |byte| usize::from(self.number[usize::from(byte)]))
    }

    /// Contexts: two kinds, near, far.
    fn context(&self, context: Context) -> usize {
        self.numbered(NumberedContext {
            first: context.first,
            near: self.number(context.near),
            far: self.number(context.far),
        })
    }

    #[inline(always)]
    fn numbered(&self, context: NumberedContext) -> usize {
        let symbols = self.symbols();
        (usize::from(context.first) * symbols + context.near) * symbols + context.far
    }

    fn contexts(&self) -> usize {
        2 * self.symbols() * self.symbols()
    }
}

/// What the events of all blocks say without groups of contexts.
struct FixedCounts {
    /// Which bytes occur.
    used: [bool; 256],
    /// By table: how often each symbol occurs in each row.
    fixed: [Vec<u32>; 3],
    /// How many events are bytes.
    bytes: usize,
}

impl FixedCounts {
    fn none() -> FixedCounts {
        FixedCounts {
            used: [false; 256],
            fixed: Table::ALL.map(|table| vec![0; table.size().0 * table.size().1]),
            bytes: 0,
        }
    }

    fn of(blocks: &[Vec<Event>]) -> FixedCounts {
        let counted = in_parts(blocks).fold(FixedCounts::none, |mut counts, events| {
            for event in events {
                counts.count(event);
            }
            counts
        });
        let added = counted.reduce_with(|left, right| {
            let mut rights = right.fixed.into_iter();
            FixedCounts {
                used: std::array::from_fn(|byte| left.used[byte] || right.used[byte]),
                fixed: (left.fixed).map(|table| added(table, rights.next().unwrap_or_default())),
                bytes: left.bytes + right.bytes,
            }
        });
        added.unwrap_or_else(FixedCounts::none)
    }

    fn count(&mut self, event: &Event) {
        match *event {
            Event::Symbol { table, row, symbol } => {
                let place = usize::from(row) * table.size().1 + usize::from(symbol);
                self.fixed[table as usize][place] += 1;
            }
            Event::Byte { byte, .. } => {
                self.bytes += 1;
                if let Some(byte) = byte {
                    self.used[usize::from(byte)] = true;
                }
            }
            Event::Raw(_) => {}
        }
    }
}

/// Blocks in few parts, of which each has counts of its own.
fn in_parts(blocks: &[Vec<Event>]) -> impl ParallelIterator<Item = &Vec<Event>> {
    let part = blocks.len().div_ceil(rayon::current_num_threads());
    blocks.par_iter().with_min_len(part.max(1))
}

/// Sums of as many counts.
fn added(mut left: Vec<u32>, right: Vec<u32>) -> Vec<u32> {
    (left.iter_mut().zip(right)).for_each(|(left, right)| *left += right);
    left
}

impl Spelling {
    /// Learns from the events of all blocks.
    pub fn learn(blocks: &[Vec<Event>]) -> Spelling {
        let FixedCounts { used, fixed, bytes } = FixedCounts::of(blocks);
        let alphabet = Alphabet::new(|byte| used[usize::from(byte)]);
        let group_bits = (bytes / 2048).clamp(1, 128).ilog2();
        let groups = group_contexts(
            blocks,
            &alphabet,
            bytes.div_ceil(SAMPLE).max(1),
            1 << group_bits,
        );
        let none = || vec![0u32; alphabet.symbols() << group_bits];
        let counts = in_parts(blocks).fold(none, |mut counts, events| {
            for event in events {
                if let Event::Byte { context, byte } = *event {
                    let group = usize::from(groups[alphabet.context(context)]);
                    counts[group * alphabet.symbols() + alphabet.number(byte)] += 1;
                }
            }
            counts
        });
        let counts = counts.reduce_with(added).unwrap_or_else(none);
        let bytes = Tables::from_counts(alphabet.symbols(), &counts);
        let mut tables = Table::ALL
            .into_iter()
            .zip(fixed)
            .map(|(table, counts)| Tables::from_counts(table.size().1, &counts));
        let known = "one for each table";
        let tables = [(); 3].map(|()| tables.next().expect(known));
        Spelling {
            alphabet,
            groups,
            group_bits,
            bytes,
            tables,
        }
    }

    /// Writes the model.
    pub fn write(&self, coder: &mut BitEncoder) {
        let mut same = Bit::default();
        for byte in 0..=255u8 {
            coder.bit(&mut same, self.alphabet.number[usize::from(byte)] > 0);
        }
        coder.raw(self.group_bits, 3);
        code_groups(coder, &self.alphabet, self.group_bits, Some(&self.groups));
        self.bytes.write(coder, byte_parent);
        for tables in &self.tables {
            tables.write(coder, fixed_parent);
        }
    }

    /// Reads the model.
    pub fn read(coder: &mut BitDecoder<'_>) -> Result<Spelling, DecodeError> {
        let mut same = Bit::default();
        let mut used = [false; 256];
        for used in &mut used {
            *used = coder.bit(&mut same);
        }
        if used[usize::from(b'A')..=usize::from(b'Z')].contains(&true) {
            return Err(Fault("a folded word has a capital").into());
        }
        let alphabet = Alphabet::new(|byte| used[usize::from(byte)]);
        let group_bits = coder.raw(3);
        let groups = code_groups(coder, &alphabet, group_bits, None);
        let bytes = Tables::read(coder, 1 << group_bits, alphabet.symbols(), byte_parent)?;
        let mut read =
            |table: Table| Tables::read(coder, table.size().0, table.size().1, fixed_parent);
        let tables = [
            read(Table::Shared)?,
            read(Table::Head)?,
            read(Table::CaseBit)?,
        ];
        Ok(Spelling {
            alphabet,
            groups,
            group_bits,
            bytes,
            tables,
        })
    }

    /// The form for encoding.
    pub fn shares(&self) -> Shares<'_> {
        Shares {
            spelling: self,
            bytes: self.bytes.shares(),
            tables: [0, 1, 2].map(|table| self.tables[table].shares()),
        }
    }

    /// The form for decoding.
    pub fn lookups(self) -> Result<Lookups, NoMemory> {
        let lookup = |table: usize| self.tables[table].lookup_all();
        Ok(Lookups {
            bytes: self.bytes.lookup_all()?,
            tables: [lookup(0)?, lookup(1)?, lookup(2)?],
            spelling: self,
        })
    }
}

fn byte_parent(row: usize) -> Option<usize> {
    row.checked_sub(1)
}

fn fixed_parent(row: usize) -> Option<usize> {
    row.checked_sub(1)
}

/// Groups contexts that are followed by the same bytes. Contexts seen rarely go together by kind and near byte.
fn group_contexts(
    blocks: &[Vec<Event>],
    alphabet: &Alphabet,
    step: usize,
    groups: usize,
) -> Vec<u8> {
    let symbols = alphabet.symbols() as u32; // at most 256
    let mut pairs: Vec<u64> = blocks
        .par_iter()
        .step_by(step)
        .flat_map_iter(|events| {
            events.iter().filter_map(|event| match *event {
                // Contexts are below 2 * 256 * 256.
                Event::Byte { context, byte } => Some(pair_key(
                    alphabet.context(context) as u32,
                    alphabet.number(byte) as u32,
                )),
                _ => None,
            })
        })
        .collect();
    pairs.par_sort_unstable();
    let mut pairs = count_pairs(&pairs);
    let all = Rows::from_sorted_counts(alphabet.contexts(), &pairs, |&pair| pair);
    // Rows to group: each frequent context, then what is left of each kind and near byte.
    let own: Vec<bool> = (0..all.len())
        .map(|context| all.total(context) >= OWN_COUNT)
        .collect();
    let mut row_of = vec![0u32; all.len()];
    let mut rows = 0;
    for (row, _) in row_of.iter_mut().zip(&own).filter(|(_, own)| **own) {
        *row = rows;
        rows += 1;
    }
    for (context, row) in row_of
        .iter_mut()
        .enumerate()
        .filter(|(context, _)| !own[*context])
    {
        *row = rows + context as u32 / symbols; // below 2 * 256
    }
    for (context, _, _) in &mut pairs {
        *context = row_of[*context as usize];
    }
    pairs.par_sort_unstable();
    pairs.dedup_by(|next, (row, column, count)| {
        let is_same = (next.0, next.1) == (*row, *column);
        *count += if is_same { next.2 } else { 0 };
        is_same
    });
    let rows = Rows::from_sorted_counts((rows + 2 * symbols) as usize, &pairs, |&pair| pair);
    let mut grouping = Groups::seeded(&rows, groups);
    for _ in 0..4 {
        grouping.improve(&rows, |symbol| symbol as u8, alphabet.symbols()); // below 256
    }
    row_of
        .into_iter()
        .map(|row| grouping.of[row as usize])
        .collect()
}

/// Writes the group of each context, or reads them.
///
/// For each kind and near byte, the group that most contexts have, then where others differ.
fn code_groups(
    coder: &mut impl Coder,
    alphabet: &Alphabet,
    bits: u32,
    known: Option<&[u8]>,
) -> Vec<u8> {
    let mut groups = Vec::with_capacity(alphabet.contexts());
    let mut usual_tree = BitTree::new(bits);
    let mut tree = BitTree::new(bits);
    let mut differs = [Bit::default(); 3];
    for near in 0..2 * alphabet.symbols() {
        let known = known.map(|known| &known[near * alphabet.symbols()..][..alphabet.symbols()]);
        let usual = known.map_or(0, most_frequent);
        let usual = usual_tree.code(coder, u32::from(usual)) as u8; // at most 7 bits
        let mut state = 2;
        for far in 0..alphabet.symbols() {
            let own = known.map_or(usual, |known| known[far]);
            let different = coder.bit(&mut differs[state], own != usual);
            state = usize::from(different);
            groups.push(if different {
                tree.code(coder, u32::from(own)) as u8
            } else {
                usual
            }); // at most 7 bits
        }
    }
    groups
}

fn most_frequent(values: &[u8]) -> u8 {
    let mut counts = [0u32; 256];
    values
        .iter()
        .for_each(|&value| counts[usize::from(value)] += 1);
    // The first of the most frequent.
    (0..=255u8)
        .rev()
        .max_by_key(|&value| counts[usize::from(value)])
        .unwrap_or(0)
}

/// A model in the form for encoding.
pub struct Shares<'a> {
    spelling: &'a Spelling,
    bytes: Vec<Share>,
    tables: [Vec<Share>; 3],
}

impl Shares<'_> {
    /// Pushes an event.
    pub fn push(&self, encoder: &mut rans::Encoder, event: &Event) {
        match *event {
            Event::Symbol { table, row, symbol } => {
                encoder.push(
                    self.tables[table as usize]
                        [usize::from(row) * table.size().1 + usize::from(symbol)],
                );
            }
            Event::Byte { context, byte } => {
                let alphabet = &self.spelling.alphabet;
                let group = usize::from(self.spelling.groups[alphabet.context(context)]);
                encoder.push(self.bytes[group * alphabet.symbols() + alphabet.number(byte)]);
            }
            Event::Raw(value) => encoder.push_raw(u32::from(value), 8),
        }
    }
}

/// A model in the form for decoding.
pub struct Lookups {
    spelling: Spelling,
    bytes: Lookup<SYMBOLS_MAX>,
    tables: [Lookup<SHARED_SYMBOLS>; 3],
}

impl Lookups {
    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        let tables = self.tables.iter().map(Lookup::bytes).sum::<usize>();
        self.bytes.bytes() + tables + size_of_val(&self.spelling.groups[..])
    }

    /// A shared length, cut at [`SHARED_ESCAPE`], or [`SHARED_SAME`].
    pub fn shared(&self, decoder: &mut rans::Decoder<'_>, row: usize) -> usize {
        self.tables[Table::Shared as usize].symbol(decoder, row)
    }

    /// Spacing and capitals, below [`HEADS`].
    pub fn head(&self, decoder: &mut rans::Decoder<'_>, row: usize) -> usize {
        self.tables[Table::Head as usize].symbol(decoder, row)
    }

    /// Whether a letter is a capital.
    pub fn case_bit(&self, decoder: &mut rans::Decoder<'_>, row: usize) -> bool {
        self.tables[Table::CaseBit as usize].symbol(decoder, row) == 1
    }

    /// The context of the first byte of a folded word that is not shared: after `far`, in the place of `near`.
    pub fn first_context(&self, near: Option<u8>, far: Option<u8>) -> NumberedContext {
        let alphabet = &self.spelling.alphabet;
        NumberedContext {
            first: true,
            near: alphabet.number(near),
            far: alphabet.number(far),
        }
    }

    /// The next byte of a folded word, unless it ends, and the context after it.
    #[inline(always)]
    pub fn byte(
        &self,
        decoder: &mut rans::Decoder<'_>,
        context: &mut NumberedContext,
    ) -> Option<u8> {
        let alphabet = &self.spelling.alphabet;
        let group = usize::from(self.spelling.groups[alphabet.numbered(*context)]);
        let number = self.bytes.symbol(decoder, group);
        *context = NumberedContext {
            far: if context.first {
                context.far
            } else {
                context.near
            },
            near: number,
            first: false,
        };
        number.checked_sub(1).map(|index| alphabet.bytes[index])
    }
}

/// A [`Context`] in numbers of the alphabet.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberedContext {
    first: bool,
    near: usize,
    far: usize,
}
