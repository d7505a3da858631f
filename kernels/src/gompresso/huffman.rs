//! Huffman codes of limited length, and bits.
//!
//! The invariant: codes are canonical, so that their lengths are all that is stored: of two codes the shorter is less, of
//! equally long ones that of the lower symbol. Code words are written with their first bit lowest, as in DEFLATE, so that the next
//! bits of a stream are the index of a table. Lengths come from package-merge, which is optimal for a limit.

use super::error::BlockFault;
use super::format::CODE_BITS_MAX;

/// The nibbles of stored code lengths above those that are lengths.
const REPEAT: u8 = 13;
const ZEROS: u8 = 14;
const MANY_ZEROS: u8 = 15;

/// Shortest runs of a repeated length, and of zeros that have a nibble more.
const RUN_MIN: usize = 3;
const MANY_ZEROS_MIN: usize = RUN_MIN + 16;

/// The code length of each symbol by how often it occurs, 0 for those that do not; at most `limit` bits, where 2 to the power of the
/// limit is at least the number of symbols.
pub(super) fn code_lengths(counts: &[u32], limit: u8) -> Vec<u8> {
    let mut lengths = vec![0; counts.len()];
    // Symbols that occur, the rarest first.
    let mut used: Vec<usize> = (0..counts.len())
        .filter(|&symbol| counts[symbol] > 0)
        .collect();
    if let [only] = used[..] {
        lengths[only] = 1;
        return lengths;
    }
    used.sort_by_key(|&symbol| counts[symbol]);
    // Level by level, the coins of the symbols merged with the packages of two of the level below: weights, and the symbol of
    // a coin. What a package is made of are the first two, the next two, and so on, of the level below.
    let coins = || {
        used.iter()
            .map(|&symbol| (u64::from(counts[symbol]), Some(symbol)))
    };
    let mut levels: Vec<Vec<(u64, Option<usize>)>> = vec![coins().collect()];
    for level in 1..usize::from(limit) {
        let below = &levels[level - 1];
        let packages = below.chunks_exact(2).map(|two| (two[0].0 + two[1].0, None));
        let mut merged: Vec<_> = coins().chain(packages).collect();
        merged.sort_by_key(|&(weight, _)| weight);
        levels.push(merged);
    }
    // The cheapest packages of the highest level are taken; each of them takes two of the level below.
    let mut taken = 2 * used.len().saturating_sub(1);
    for level in levels.iter().rev() {
        let mut packages = 0;
        for (_, coin) in &level[..taken] {
            match coin {
                Some(symbol) => lengths[*symbol] += 1,
                None => packages += 1,
            }
        }
        taken = 2 * packages;
    }
    lengths
}

/// The code word of each symbol, its first bit lowest.
pub(super) fn code_words(lengths: &[u8]) -> Vec<u16> {
    let mut next = first_codes(lengths);
    let word = |&length: &u8| {
        let code = next[usize::from(length)];
        next[usize::from(length)] += 1;
        match length {
            0 => 0,
            // The upper bits of 16: at most 12.
            length => (code as u16).reverse_bits() >> (16 - length),
        }
    };
    lengths.iter().map(word).collect()
}

/// The first code of each length, as a number whose first bit is highest.
fn first_codes(lengths: &[u8]) -> [u32; CODE_BITS_MAX as usize + 1] {
    let mut counts = [0u32; CODE_BITS_MAX as usize + 1];
    for &length in lengths {
        counts[usize::from(length)] += 1;
    }
    counts[0] = 0;
    let mut first = [0u32; CODE_BITS_MAX as usize + 1];
    for length in 1..first.len() {
        first[length] = (first[length - 1] + counts[length - 1]) << 1;
    }
    first
}

/// Calls `fill` with each code word, its length and its symbol.
///
/// # Errors
///
/// [`BlockFault::CodeLengths`] if lengths are above `limit`, at most [`CODE_BITS_MAX`], or no prefix code has them.
pub(super) fn for_each_code(
    lengths: &[u8],
    limit: u8,
    mut fill: impl FnMut(usize, u8, usize),
) -> Result<(), BlockFault> {
    let mut room = 1i64 << limit;
    for &length in lengths.iter().filter(|&&length| length > 0) {
        if length > limit {
            return Err(BlockFault::CodeLengths);
        }
        room -= 1 << (limit - length);
    }
    if room < 0 {
        return Err(BlockFault::CodeLengths);
    }
    for (symbol, (&length, word)) in lengths.iter().zip(code_words(lengths)).enumerate() {
        if length > 0 {
            fill(word.into(), length, symbol);
        }
    }
    Ok(())
}

/// Stores code lengths: a nibble each, runs in two or three, the low nibble of a byte first.
pub(super) fn write_code_lengths(lengths: &[u8], bytes: &mut Vec<u8>) {
    let mut nibbles = Vec::new();
    let mut at = 0;
    while at < lengths.len() {
        let length = lengths[at];
        let run = lengths[at..]
            .iter()
            .take_while(|&&next| next == length)
            .count();
        // Nibbles are below 16: runs are cut to what they hold.
        match (length, run) {
            (0, MANY_ZEROS_MIN..) => {
                let run = run.min(MANY_ZEROS_MIN + 255);
                let more = run - MANY_ZEROS_MIN;
                nibbles.extend([MANY_ZEROS, (more & 15) as u8, (more >> 4) as u8]);
                at += run;
            }
            (0, RUN_MIN..) => {
                nibbles.extend([ZEROS, (run - RUN_MIN) as u8]);
                at += run;
            }
            _ => {
                nibbles.push(length);
                at += 1;
                let repeats = (run - 1).min(RUN_MIN + 15);
                if length > 0 && repeats >= RUN_MIN {
                    nibbles.extend([REPEAT, (repeats - RUN_MIN) as u8]);
                    at += repeats;
                }
            }
        }
    }
    let byte = |pair: &[u8]| pair[0] | pair.get(1).unwrap_or(&0) << 4;
    bytes.extend(nibbles.chunks(2).map(byte));
}

/// Reads as many code lengths as there is room for, and says how many bytes they took.
///
/// # Errors
///
/// [`BlockFault::CodeLengths`] if there are others.
pub(super) fn read_code_lengths(bytes: &[u8], lengths: &mut [u8]) -> Result<usize, BlockFault> {
    let mut taken = 0;
    let mut nibble = || {
        let byte = bytes.get(taken / 2).ok_or(BlockFault::CodeLengths)?;
        let nibble = byte >> (4 * (taken % 2)) & 15;
        taken += 1;
        Ok(nibble)
    };
    let mut at = 0;
    while at < lengths.len() {
        let (value, run) = match nibble()? {
            REPEAT => {
                let before = at.checked_sub(1).ok_or(BlockFault::CodeLengths)?;
                (lengths[before], RUN_MIN + usize::from(nibble()?))
            }
            ZEROS => (0, RUN_MIN + usize::from(nibble()?)),
            MANY_ZEROS => (0, MANY_ZEROS_MIN + usize::from(nibble()? | nibble()? << 4)),
            length => (length, 1),
        };
        let run = lengths.get_mut(at..at + run);
        let run = run.ok_or(BlockFault::CodeLengths)?;
        run.fill(value);
        at += run.len();
    }
    Ok(taken.div_ceil(2))
}

/// Bits that are written, the first lowest.
#[derive(Default)]
pub(super) struct BitSink {
    bytes: Vec<u8>,
    pending: u64,
    /// Bits of `pending`, below 32 between calls.
    count: u32,
}

impl BitSink {
    /// Writes the low `count` bits of `value`, at most 32; the others are 0.
    #[inline]
    pub(super) fn put(&mut self, value: u32, count: u32) {
        self.pending |= u64::from(value) << self.count;
        self.count += count;
        if self.count >= 32 {
            // Its low half.
            self.bytes.extend((self.pending as u32).to_le_bytes());
            self.pending >>= 32;
            self.count -= 32;
        }
    }

    /// How many bits were written.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64 * 8 + u64::from(self.count)
    }

    /// Appends all to some bytes, filled up with 0 bits to words of 4 bytes.
    pub(super) fn finish(mut self, bytes: &mut Vec<u8>) {
        if self.count > 0 {
            // Its low half.
            self.bytes.extend((self.pending as u32).to_le_bytes());
        }
        bytes.append(&mut self.bytes);
    }
}

/// Reads at most 56 bits of a stream from a bit on; 0 beyond its end.
#[inline(always)]
pub(super) fn bits_at(bytes: &[u8], bit: u64) -> u64 {
    // Streams are in memory.
    let at = (bit / 8) as usize;
    let word = match bytes.get(at..at + 8) {
        Some(word) => u64::from_le_bytes(word.try_into().expect("it has 8 bytes")),
        None => last_bits(bytes, at),
    };
    word >> (bit % 8)
}

#[cold]
fn last_bits(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The least bits that a code with this limit takes, by trying all sorted lengths.
    fn least_bits(counts: &[u32], limit: u8) -> u64 {
        fn search(counts: &[u32], limit: u8, shortest: u8, room: i64) -> Option<u64> {
            let Some((&count, rest)) = counts.split_first() else {
                return Some(0);
            };
            (shortest..=limit)
                .filter_map(|length| {
                    let room = room - (1 << (limit - length));
                    let more = (room >= 0).then(|| search(rest, limit, length, room))??;
                    Some(u64::from(count) * u64::from(length) + more)
                })
                .min()
        }
        let mut sorted: Vec<u32> = counts.iter().copied().filter(|&count| count > 0).collect();
        sorted.sort_unstable_by(|left, right| right.cmp(left));
        search(&sorted, limit, 1, 1 << limit).expect("there is a code")
    }

    proptest! {
        #[test]
        fn lengths_are_optimal_for_their_limit(
            counts in prop::collection::vec(0u32..1000, 1..8),
            limit in 3u8..6,
        ) {
            let lengths = code_lengths(&counts, limit);
            let bits = counts.iter().zip(&lengths).map(|(&count, &length)| {
                u64::from(count) * u64::from(length)
            });
            prop_assert_eq!(bits.sum::<u64>(), least_bits(&counts, limit));
            prop_assert!(for_each_code(&lengths, limit, |_, _, _| ()).is_ok());
        }

        #[test]
        fn stored_code_lengths_are_read(
            runs in prop::collection::vec((0u8..=12, 1usize..300), 1..20),
        ) {
            let lengths: Vec<u8> = runs.iter().flat_map(|&(length, run)| vec![length; run]).collect();
            let mut bytes = Vec::new();
            write_code_lengths(&lengths, &mut bytes);
            let mut read = vec![0; lengths.len()];
            prop_assert_eq!(read_code_lengths(&bytes, &mut read), Ok(bytes.len()));
            prop_assert_eq!(read, lengths);
        }

        #[test]
        fn any_bytes_are_code_lengths_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut lengths = [0; 317];
            if read_code_lengths(&bytes, &mut lengths).is_ok() {
                let _ = for_each_code(&lengths, 12, |word, length, _| assert!(word < 1 << length));
            }
        }
    }

    #[test]
    fn lengths_of_skewed_counts_keep_to_the_limit() {
        let mut counts: Vec<u32> = (0..30).map(|power| 1 << power).collect();
        counts.resize(285, 1);
        for limit in 9..=12 {
            let lengths = code_lengths(&counts, limit);
            assert!(lengths.iter().all(|length| (1..=limit).contains(length)));
            assert!(for_each_code(&lengths, limit, |_, _, _| ()).is_ok());
        }
        assert_eq!(code_lengths(&[0, 0, 5, 0], 9), [0, 0, 1, 0]);
        assert_eq!(code_lengths(&[0, 0], 9), [0, 0]);
    }

    #[test]
    fn no_code_has_too_many_short_words() {
        let fill = |_, _, _| ();
        let fault = Err(BlockFault::CodeLengths);
        assert_eq!(for_each_code(&[1, 1, 9], 9, fill), fault);
        assert_eq!(for_each_code(&[10], 9, fill), fault);
        assert_eq!(for_each_code(&[1, 2], 9, fill), Ok(()));
    }

    #[test]
    fn bits_are_read_as_they_were_written() {
        let mut sink = BitSink::default();
        let items: Vec<(u32, u32)> = (0..200u32)
            .map(|i| (i * 77 % (1 << (i % 13)), i % 13))
            .collect();
        items
            .iter()
            .for_each(|&(value, count)| sink.put(value, count));
        let len = sink.len();
        let mut bytes = Vec::new();
        sink.finish(&mut bytes);
        assert_eq!(bytes.len() as u64, len.div_ceil(32) * 4);
        let mut at = 0;
        for (value, count) in items {
            assert_eq!(bits_at(&bytes, at) & ((1 << count) - 1), value.into());
            at += u64::from(count);
        }
        assert_eq!(bits_at(&bytes, 1 << 40), 0);
    }
}
