//! Static probability tables: from counts, to bytes and back, and in the form the bulk coder wants.
//!
//! Counts are rounded to two bits after their leading one before anything uses them, so that a table costs a few bits
//! an entry; writer and reader make the same shares from the same rounded counts.

use super::adaptive::{Bit, BitDecoder, Coder, Number};
use super::rans::{PROBABILITY_BITS, Share};
use super::{DecodeError, Fault, NoMemory, filled};
use std::ops::Range;

/// Most symbols of a table.
pub const SYMBOLS_MAX: usize = 256;

const SLOTS: usize = 1 << PROBABILITY_BITS;

/// Rows of rounded counts, one table a row, all over the same symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    symbols: usize,
    /// `[rows * symbols]`: rounded counts as steps, see [`count_of`].
    steps: Vec<u8>,
}

/// The count that step `step` stands for: 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ...
fn count_of(step: u8) -> u32 {
    match step {
        0..4 => u32::from(step),
        _ => (4 + u32::from(step & 3)) << ((step >> 2) - 1),
    }
}

/// The step whose count is nearest to `count`, the lower one in a tie; never 0 for a count that is not 0.
fn step_of(count: u32) -> u8 {
    if count < 4 {
        return count as u8;
    }
    let count = count.min(COUNT_MAX);
    let shift = count.ilog2() - 2;
    // Below 4 * 29.
    let step = (4 * (shift + 1) + (count >> shift) - 4) as u8;
    if count_of(step + 1) - count < count - count_of(step) {
        step + 1
    } else {
        step
    }
}

/// Larger counts are taken as this.
const COUNT_MAX: u32 = 7 << 27;

/// Steps stay below this: one more than the step of the largest count.
const STEP_END: u8 = 4 * 28 + 3 + 2;

impl Tables {
    /// Rounds `counts`, one row of `symbols` after the other.
    pub fn from_counts(symbols: usize, counts: &[u32]) -> Tables {
        debug_assert!(symbols <= SYMBOLS_MAX && counts.len().is_multiple_of(symbols.max(1)));
        Tables {
            symbols,
            steps: counts.iter().map(|&count| step_of(count)).collect(),
        }
    }

    /// Writes the tables. `parent(row)` names an earlier row that row `row` is expected to resemble.
    pub fn write(
        &self,
        coder: &mut super::adaptive::BitEncoder,
        parent: impl Fn(usize) -> Option<usize>,
    ) {
        let mut model = TableModel::default();
        let mut steps = self.steps.clone();
        for row in 0..self.rows() {
            model.code_row(coder, &mut steps, self.symbols, row, parent(row));
        }
    }

    /// Reads `rows` tables over `symbols` symbols that [`Tables::write`] wrote with the same `parent`.
    ///
    /// The caller bounds `rows * symbols`.
    pub fn read(
        coder: &mut BitDecoder<'_>,
        rows: usize,
        symbols: usize,
        parent: impl Fn(usize) -> Option<usize>,
    ) -> Result<Tables, DecodeError> {
        let mut model = TableModel::default();
        let mut steps = filled(0, rows * symbols)?;
        for row in 0..rows {
            model.code_row(coder, &mut steps, symbols, row, parent(row));
            if coder.is_overrun() {
                return Err(Fault("the tables are cut off").into());
            }
        }
        Ok(Tables { symbols, steps })
    }

    fn rows(&self) -> usize {
        self.steps.len() / self.symbols.max(1)
    }

    /// The shares of all symbols, row after row. A row without counts has empty shares.
    pub fn shares(&self) -> Vec<Share> {
        let mut shares = Vec::with_capacity(self.steps.len());
        let mut frequencies = Vec::with_capacity(self.symbols);
        for row in self.steps.chunks_exact(self.symbols.max(1)) {
            normalise(row, &mut frequencies);
            shares.extend(shares_of(&frequencies));
        }
        shares
    }

    /// The form for decoding of some rows, which are numbered from 0. In a row without counts every slot means symbol 0.
    ///
    /// # Panics
    /// If there are more than `SYMBOLS` symbols, or `SYMBOLS` is no power of two.
    pub fn lookup<const SYMBOLS: usize>(
        &self,
        rows: Range<usize>,
    ) -> Result<Lookup<SYMBOLS>, NoMemory> {
        assert!(self.symbols <= SYMBOLS && SYMBOLS.is_power_of_two());
        let symbols = self.symbols.max(1);
        let mut lookup = Lookup {
            rows: filled(Row::default(), rows.len())?,
        };
        let mut frequencies = Vec::with_capacity(symbols);
        let steps = &self.steps[rows.start * self.symbols..rows.end * self.symbols];
        for (row, steps) in lookup.rows.iter_mut().zip(steps.chunks_exact(symbols)) {
            normalise(steps, &mut frequencies);
            let possible = (shares_of(&frequencies).enumerate())
                .filter(|(_, share)| share.frequency() > 0)
                .map(|(symbol, share)| SymbolShare::new(symbol, share));
            for (entry, possible) in row.entries.iter_mut().zip(possible) {
                *entry = possible;
            }
            let mut guessed = 0;
            for (window, guess) in row.guesses.iter_mut().enumerate() {
                while !row.entries[guessed].reaches((window * WINDOW) as u32) {
                    guessed += 1;
                }
                *guess = guessed as u8; // below SYMBOLS_MAX
            }
        }
        Ok(lookup)
    }

    /// The form for decoding of all rows.
    pub fn lookup_all<const SYMBOLS: usize>(&self) -> Result<Lookup<SYMBOLS>, NoMemory> {
        self.lookup(0..self.rows())
    }
}

/// Slots that share a guess. Most windows are within one symbol; smaller ones would take more of the cache.
pub const WINDOW: usize = 8;

/// Guesses of a row.
pub const WINDOWS: usize = SLOTS / WINDOW;

/// A symbol that is possible with its share.
#[derive(Clone, Copy, Debug)]
struct SymbolShare(u32);

impl SymbolShare {
    /// `start | last << 12 | symbol << 24`: the first and the last slot, and a symbol below [`SYMBOLS_MAX`].
    fn new(symbol: usize, share: Share) -> SymbolShare {
        let last = share.start() + share.frequency() - 1;
        SymbolShare(share.start() | last << 12 | (symbol as u32) << 24)
    }

    #[inline(always)]
    fn share(self) -> Share {
        let (start, last) = (self.0 & 0xfff, self.0 >> 12 & 0xfff);
        // Symbols have a slot at least.
        Share::new(start, last.wrapping_sub(start) + 1)
    }

    #[inline(always)]
    fn symbol(self) -> usize {
        (self.0 >> 24) as usize
    }

    /// Whether a slot that is not before the share is in it.
    #[inline(always)]
    fn reaches(self, slot: u32) -> bool {
        slot <= self.0 >> 12 & 0xfff
    }
}

/// Tables ready for decoding: a guess for every window of slots, then the symbols that start in it.
pub struct Lookup<const SYMBOLS: usize> {
    rows: Vec<Row<SYMBOLS>>,
}

/// A table, laid out as [`LookupTable`] says.
#[derive(Clone)]
#[repr(C)]
struct Row<const SYMBOLS: usize> {
    /// Which entry holds the first slot of each window.
    guesses: [u8; WINDOWS],
    /// The symbols that are possible; the share of the last of them ends after all slots.
    entries: [SymbolShare; SYMBOLS],
}

impl<const SYMBOLS: usize> Default for Row<SYMBOLS> {
    /// Every slot means symbol 0.
    fn default() -> Row<SYMBOLS> {
        Row {
            guesses: [0; WINDOWS],
            entries: [SymbolShare::new(0, Share::new(0, SLOTS as u32)); SYMBOLS],
        }
    }
}

impl<const SYMBOLS: usize> Lookup<SYMBOLS> {
    /// The next symbol of a block under table `row`.
    #[inline(always)]
    pub fn symbol(&self, decoder: &mut super::rans::Decoder<'_>, row: usize) -> usize {
        let row = &self.rows[row];
        let slot = decoder.slot();
        let mut place = usize::from(row.guesses[slot / WINDOW % WINDOWS]);
        let mut entry = row.entries[place % SYMBOLS];
        while !entry.reaches(slot as u32) {
            place += 1;
            entry = row.entries[place % SYMBOLS];
        }
        decoder.advance(entry.share());
        entry.symbol()
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.rows[..])
    }

    /// Its rows, for a decoder that loads from them by itself.
    #[cfg(target_arch = "x86_64")]
    pub fn table(&self) -> LookupTable<'_, SYMBOLS> {
        LookupTable { rows: &self.rows }
    }
}

/// The rows of a [`Lookup`] as bytes: of each [`WINDOWS`] guesses of a byte, then `SYMBOLS` entries of four, `start | last << 12 |
/// symbol << 24`: the first and the last slot of a symbol.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct LookupTable<'a, const SYMBOLS: usize> {
    rows: &'a [Row<SYMBOLS>],
}

#[cfg(target_arch = "x86_64")]
impl<const SYMBOLS: usize> LookupTable<'_, SYMBOLS> {
    /// Bytes of a row.
    pub const ROW_SIZE: usize = size_of::<Row<SYMBOLS>>();

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *const u8 {
        self.rows.as_ptr().cast()
    }
}

const _: () = assert!(size_of::<Row<64>>() == WINDOWS + 64 * 4);

/// The shares of symbols that are so frequent.
fn shares_of(frequencies: &[u32]) -> impl Iterator<Item = Share> {
    let mut end = 0;
    frequencies.iter().map(move |&frequency| {
        end += frequency;
        Share::new(end - frequency, frequency)
    })
}

/// Shares `1 << PROBABILITY_BITS` out in proportion to the counts of `steps`; at least 1 for each that is not 0.
fn normalise(steps: &[u8], frequencies: &mut Vec<u32>) {
    frequencies.clear();
    let total: u64 = steps.iter().map(|&step| u64::from(count_of(step))).sum();
    if total == 0 {
        frequencies.resize(steps.len(), 0);
        return;
    }
    frequencies.extend(steps.iter().map(|&step| {
        let scaled = (u64::from(count_of(step)) * SLOTS as u64 * 2 + total) / (2 * total);
        // At most SLOTS.
        (scaled as u32).max(u32::from(step > 0))
    }));
    // What rounding left over or took too much goes to or comes from the largest, where it weighs least.
    let mut excess = frequencies.iter().sum::<u32>() as i32 - SLOTS as i32;
    while excess != 0 {
        let largest = frequencies
            .iter_mut()
            .rev()
            .max_by_key(|frequency| **frequency)
            .expect("there is a count");
        let most = (*largest / 8).max(1) as i32;
        let change = excess.clamp(-most, most);
        *largest = (*largest as i32 - change) as u32;
        excess -= change;
    }
}

/// What the small coder has learned about tables.
struct TableModel {
    empty: Bit,
    total: Number,
    zero: [Bit; TableModel::CONTEXTS],
    same: [Bit; TableModel::CONTEXTS],
    above: [Bit; TableModel::CONTEXTS],
    distance: [[Bit; TableModel::DISTANCES]; 2],
}

impl Default for TableModel {
    fn default() -> TableModel {
        TableModel {
            empty: Bit::default(),
            total: Number::default(),
            zero: [Bit::default(); TableModel::CONTEXTS],
            same: [Bit::default(); TableModel::CONTEXTS],
            above: [Bit::default(); TableModel::CONTEXTS],
            distance: [[Bit::default(); TableModel::DISTANCES]; 2],
        }
    }
}

impl TableModel {
    /// Expected counts by magnitude, then steps before in the same row by magnitude.
    const CONTEXTS: usize = 40 + 16;
    const DISTANCES: usize = 16;

    /// Writes row `row` of `steps`, or reads it into there.
    fn code_row(
        &mut self,
        coder: &mut impl Coder,
        steps: &mut [u8],
        symbols: usize,
        row: usize,
        parent: Option<usize>,
    ) {
        let (before, rest) = steps.split_at_mut(row * symbols);
        let own = &mut rest[..symbols];
        let parent = parent.map(|parent| &before[parent * symbols..][..symbols]);
        let sum = |row: &[u8]| {
            row.iter()
                .map(|&step| u64::from(count_of(step)))
                .sum::<u64>()
        };
        let total = sum(own);
        if coder.bit(&mut self.empty, total == 0) {
            return;
        }
        let total_step = step_of(u32::try_from(total).unwrap_or(COUNT_MAX));
        let total_step = self
            .total
            .code(coder, u32::from(total_step))
            .min(u32::from(STEP_END) - 1) as u8;
        let total = u64::from(count_of(total_step));
        let parent_total = parent.map_or(0, sum).max(1);
        let mut last = 0;
        for (symbol, step) in own.iter_mut().enumerate() {
            let (context, base) = match parent {
                Some(parent) => {
                    // In sixteenths; both factors fit 38 bits in all.
                    let expected =
                        u64::from(count_of(parent[symbol])) * total / parent_total.div_ceil(16);
                    let base = step_of(u32::try_from(expected / 16).unwrap_or(COUNT_MAX)).max(1);
                    ((64 - expected.leading_zeros() as usize).min(39), base)
                }
                None => (40 + usize::from(last / 4).min(15), u8::max(last, 1)),
            };
            *step = self.code_step(coder, *step, context, base);
            last = *step;
        }
    }

    fn code_step(&mut self, coder: &mut impl Coder, step: u8, context: usize, base: u8) -> u8 {
        if coder.bit(&mut self.zero[context], step == 0) {
            return 0;
        }
        if coder.bit(&mut self.same[context], step == base) {
            return base;
        }
        let above = base == 1 || coder.bit(&mut self.above[context], step > base);
        let most = if above { STEP_END - 1 - base } else { base - 1 };
        let own = step.abs_diff(base);
        let mut distance = 1;
        while distance < most {
            let model = &mut self.distance[usize::from(above)]
                [usize::from(distance - 1).min(Self::DISTANCES - 1)];
            if !coder.bit(model, distance < own) {
                break;
            }
            distance += 1;
        }
        if above {
            // A file that was made up may ask for more than the largest step.
            (base + distance).min(STEP_END - 1)
        } else {
            base - distance
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::adaptive::BitEncoder;
    use super::*;

    #[test]
    fn rounding_a_count_is_near_and_stable() {
        for count in (0..3000).chain([1 << 20, (1 << 20) + 77_777, COUNT_MAX, u32::MAX]) {
            let step = step_of(count);
            assert!(step < STEP_END);
            let rounded = count_of(step);
            assert_eq!(step_of(rounded), step);
            let count = count.min(COUNT_MAX);
            assert!(rounded.abs_diff(count) <= count / 8, "{count} {rounded}");
        }
    }

    #[test]
    fn tables_come_back_and_their_shares_fill_the_range() {
        for symbols in [1, 2, 37, 256] {
            let counts: Vec<u32> = (0..symbols * 9)
                .map(|index| {
                    let row = index / symbols;
                    let noise = (index as u32).wrapping_mul(2_654_435_761) >> 7;
                    match row {
                        0 => 0,
                        1 => 1,
                        2 => noise % 3,
                        3 => noise,
                        _ => (noise % 100) / (1 + (index % symbols) as u32),
                    }
                })
                .collect();
            let tables = Tables::from_counts(symbols, &counts);
            let parent = |row: usize| (row >= 4).then(|| row - 1);
            let mut encoder = BitEncoder::default();
            tables.write(&mut encoder, parent);
            let bytes = encoder.finish();
            let mut decoder = BitDecoder::new(&bytes);
            let read = Tables::read(&mut decoder, 9, symbols, parent).unwrap();
            decoder.finish().unwrap();
            assert_eq!(read, tables);
            for (shares, counts) in tables.shares().chunks(symbols).zip(counts.chunks(symbols)) {
                let sum: u32 = shares.iter().map(|share| share.frequency()).sum();
                assert_eq!(
                    sum,
                    if counts.iter().any(|&count| count > 0) {
                        SLOTS as u32
                    } else {
                        0
                    }
                );
                for (share, &count) in shares.iter().zip(counts) {
                    assert_eq!(share.frequency() > 0, count > 0);
                }
            }
        }
    }

    #[test]
    fn random_bytes_make_tables_or_a_fault() {
        for seed in 0..300u32 {
            let bytes: Vec<u8> = (0..40u32)
                .map(|index| ((index + seed * 41).wrapping_mul(2_654_435_761) >> 13) as u8)
                .collect();
            let mut decoder = BitDecoder::new(&bytes);
            if let Ok(tables) = Tables::read(&mut decoder, 5, 20, |row| row.checked_sub(1)) {
                assert!(
                    tables
                        .shares()
                        .iter()
                        .all(|share| share.frequency() <= SLOTS as u32)
                );
            }
        }
    }

    #[test]
    fn no_step_is_above_the_largest() {
        let made_up = Tables {
            symbols: 4,
            steps: vec![STEP_END - 1, STEP_END, STEP_END, STEP_END],
        };
        let mut encoder = BitEncoder::default();
        made_up.write(&mut encoder, |_| None);
        let bytes = encoder.finish();
        let read = Tables::read(&mut BitDecoder::new(&bytes), 1, 4, |_| None).unwrap();
        assert!(read.steps.iter().all(|&step| step < STEP_END));
    }
}
