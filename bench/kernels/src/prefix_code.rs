//! Canonical Huffman codes of symbols by how often they occur.
//!
//! The invariant: lengths alone make the code, and lengths that no encoder wrote are refused, so that every code that is read
//! stands for a symbol or is an error.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zipfdb_kernels::postings::MalformedPostings;
use zipfdb_kernels::postings::building_blocks::{BitInput, BitWriter, read_bits};

/// Bits of a code at most: a longer one needs more symbols than lists can have.
const LENGTH_MAX: usize = 48;

/// Bits of a length in a header, and symbols of a run of length 0 at most.
const LENGTH_BITS: u32 = 6;

/// Lengths of the codes of symbols, 0 for those that do not occur.
pub(super) fn lengths(counts: &[u32]) -> Vec<u8> {
    // Nodes by weight: leaves first, then pairs of nodes.
    let mut parents = vec![usize::MAX; counts.len()];
    let leaves = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> = leaves
        .map(|(symbol, &count)| Reverse((u64::from(count), symbol)))
        .collect();
    if heap.len() == 1 {
        return counts.iter().map(|&count| u8::from(count > 0)).collect();
    }
    while let (Some(Reverse((a, left))), Some(Reverse((b, right)))) = (heap.pop(), heap.pop()) {
        let node = parents.len();
        parents.push(usize::MAX);
        parents[left] = node;
        parents[right] = node;
        if heap.is_empty() {
            break;
        }
        heap.push(Reverse((a + b, node)));
    }
    // Parents come behind their nodes.
    let mut depths = vec![0u8; parents.len()];
    for node in (0..parents.len()).rev() {
        if let Some(&depth) = depths.get(parents[node]) {
            depths[node] = depth + 1;
        }
    }
    depths.truncate(counts.len());
    depths
}

/// Writes lengths, with runs of symbols that do not occur.
pub(super) fn put_lengths(lengths: &[u8], writer: &mut BitWriter<'_>) {
    for run in lengths.chunk_by(|a, b| *a == 0 && *b == 0) {
        writer.put(run[0].into(), LENGTH_BITS);
        if run[0] == 0 {
            writer.put_number(run.len() as u64);
        }
    }
}

/// Codes by symbol, and how to read them.
#[derive(Clone, Debug)]
pub(super) struct PrefixCode {
    lengths: Vec<u8>,
    /// Symbols by length, then number.
    symbols: Vec<u32>,
    /// Symbols of each length.
    counts: [u32; LENGTH_MAX + 1],
}

impl PrefixCode {
    /// The code of these lengths, if there is one.
    pub(super) fn new(lengths: Vec<u8>) -> Result<PrefixCode, MalformedPostings> {
        let mut counts = [0; LENGTH_MAX + 1];
        for &length in &lengths {
            *counts
                .get_mut(usize::from(length))
                .ok_or(MalformedPostings)? += 1;
        }
        counts[0] = 0;
        // What codes take of all codes of the largest length.
        let taken = (1..)
            .zip(&counts[1..])
            .try_fold(0u64, |taken, (length, &count)| {
                taken.checked_add(u64::from(count) << (LENGTH_MAX - length))
            });
        if taken.is_none_or(|taken| taken > 1 << LENGTH_MAX) {
            return Err(MalformedPostings);
        }
        let used = (0..).zip(&lengths).filter(|&(_, &length)| length > 0);
        let mut symbols: Vec<u32> = used.map(|(symbol, _)| symbol).collect();
        symbols.sort_by_key(|&symbol| lengths[symbol as usize]);
        Ok(PrefixCode {
            lengths,
            symbols,
            counts,
        })
    }

    /// Reads the lengths of all symbols.
    pub(super) fn read(
        symbols: usize,
        input: &mut BitInput<'_>,
    ) -> Result<PrefixCode, MalformedPostings> {
        let mut lengths = Vec::new();
        while lengths.len() < symbols {
            let length = input.read(LENGTH_BITS) as u8; // 6 bits
            let run = match length {
                0 => input.number()?,
                _ => 1,
            };
            input.check_end()?;
            let run = usize::try_from(run).map_err(|_| MalformedPostings)?;
            if run == 0 || run > symbols - lengths.len() {
                return Err(MalformedPostings);
            }
            lengths.resize(lengths.len() + run, length);
        }
        PrefixCode::new(lengths)
    }

    /// Codes by symbol, the first bit highest.
    pub(super) fn codes(&self) -> Vec<u64> {
        let mut codes = vec![0; self.lengths.len()];
        let (mut code, mut last) = (0, 0);
        for &symbol in &self.symbols {
            let length = self.lengths[symbol as usize];
            code <<= length - last;
            codes[symbol as usize] = code;
            code += 1;
            last = length;
        }
        codes
    }

    /// Writes a symbol by what `codes` gave.
    pub(super) fn put(&self, codes: &[u64], symbol: u32, writer: &mut BitWriter<'_>) {
        let code = codes[symbol as usize];
        for bit in (0..self.lengths[symbol as usize]).rev() {
            writer.put(code >> bit & 1, 1);
        }
    }

    /// Reads a symbol.
    #[inline]
    pub(super) fn symbol(&self, input: &mut BitInput<'_>) -> Result<u32, MalformedPostings> {
        let bits = read_bits(input.bytes, input.at, LENGTH_MAX as u32);
        let (mut code, mut first, mut index) = (0u64, 0u64, 0usize);
        for length in 1..=LENGTH_MAX {
            code |= bits >> (length - 1) & 1;
            let count = u64::from(self.counts[length]);
            if code < first + count {
                input.at += length;
                return Ok(self.symbols[index + (code - first) as usize]);
            }
            index += count as usize;
            first = (first + count) << 1;
            code <<= 1;
        }
        Err(MalformedPostings)
    }
}
