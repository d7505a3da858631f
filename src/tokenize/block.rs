//! Sixty-four bytes of text as bit masks: bit i is about byte i.
//!
//! The class of ASCII characters of each byte of a block is found with compares, which the compiler turns into vector
//! instructions. Bytes that are not ASCII are in no class. Words are not known here.

use zipfdb_kernels::high_bits;

/// The bytes of a block: one for each bit of a mask.
pub const BLOCK_BYTES: usize = 64;

/// A block of text, padded with NUL behind the end of the text.
pub struct Block([u8; BLOCK_BYTES]);

impl Block {
    /// The block of `text` from `base`.
    #[inline(always)]
    pub fn load(text: &[u8], base: usize) -> Block {
        match text[base..].first_chunk() {
            Some(block) => Block(*block),
            None => {
                let mut block = [0; BLOCK_BYTES];
                block[..text.len() - base].copy_from_slice(&text[base..]);
                Block(block)
            }
        }
    }

    /// The bytes that `belongs` is true for.
    #[inline(always)]
    pub fn mask(&self, belongs: impl Fn(u8) -> bool) -> u64 {
        // A loop without calls, which is always compiled in place; an iterator, or `map` of a large array, may not be.
        let (mut flags, mut byte) = ([0; BLOCK_BYTES], 0);
        while byte < BLOCK_BYTES {
            flags[byte] = u8::from(belongs(self.0[byte])).wrapping_neg();
            byte += 1;
        }
        high_bits(&flags)
    }
}

/// Joins the set bits of consecutive masks to runs.
#[derive(Default)]
pub struct MaskRuns {
    /// 1 while a run reaches the end of the last mask.
    open: u64,
    /// The start of the open run.
    start: usize,
}

impl MaskRuns {
    /// Takes the mask of the block at `base`; hands the start and end of every run that ends in it to `run`.
    #[inline(always)]
    pub fn push(&mut self, mask: u64, base: usize, mut run: impl FnMut(usize, usize)) {
        let before = mask << 1 | self.open;
        let mut starts = mask & !before;
        let mut ends = before & !mask;
        if self.open != 0 && ends != 0 {
            run(self.start, base + ends.trailing_zeros() as usize);
            ends &= ends - 1;
        }
        while ends != 0 {
            let start = base + starts.trailing_zeros() as usize;
            run(start, base + ends.trailing_zeros() as usize);
            starts &= starts - 1;
            ends &= ends - 1;
        }
        if starts != 0 {
            self.start = base + starts.trailing_zeros() as usize;
        }
        self.open = mask >> (BLOCK_BYTES - 1);
    }

    /// As `push`, but counts the runs that end in the mask; a run that began before it must pass `is_counted`.
    #[inline(always)]
    pub fn count(
        &mut self,
        mask: u64,
        base: usize,
        is_counted: impl FnOnce(usize, usize) -> bool,
    ) -> u64 {
        let before = mask << 1 | self.open;
        let starts = mask & !before;
        let ends = before & !mask;
        let mut count = u64::from(ends.count_ones());
        if self.open != 0
            && ends != 0
            && !is_counted(self.start, base + ends.trailing_zeros() as usize)
        {
            count -= 1;
        }
        if starts != 0 {
            // The start of the last run, used if it is open at the end.
            self.start = base + starts.ilog2() as usize;
        }
        self.open = mask >> (BLOCK_BYTES - 1);
        count
    }

    /// The start of the run that reaches the end of the last mask, if one does; the run is closed afterwards.
    pub fn take_open(&mut self) -> Option<usize> {
        let open = self.open != 0;
        self.open = 0;
        open.then_some(self.start)
    }
}

/// The bits below `count`, which is at most 64.
#[inline(always)]
pub fn low_bits(count: usize) -> u64 {
    if count < BLOCK_BYTES {
        (1 << count) - 1
    } else {
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined_across_masks() {
        let mut runs = MaskRuns::default();
        let mut found = Vec::new();
        for (index, mask) in [0b0110, 1 << 63, u64::MAX, 0b1011, 0, 1 << 63]
            .into_iter()
            .enumerate()
        {
            runs.push(mask, index * 64, |start, end| found.push((start, end)));
        }
        assert_eq!(found, [(1, 3), (127, 194), (195, 196)]);
        assert_eq!(runs.take_open(), Some(383));
        assert_eq!(runs.take_open(), None);
    }

    #[test]
    fn runs_are_counted_as_they_are_joined() {
        let (mut joined, mut counted) = (MaskRuns::default(), MaskRuns::default());
        let mut state = 1u64;
        for base in (0..64_000).step_by(64) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let mask = match state >> 61 {
                0 => 0,
                1 => u64::MAX,
                2 => state | state << 7,
                _ => state & state >> 9,
            };
            let is_counted = |start: usize, end: usize| !(start + end).is_multiple_of(3);
            let (mut expected, mut first) = (0, joined.open != 0);
            joined.push(mask, base, |start, end| {
                expected += u64::from(!std::mem::take(&mut first) || is_counted(start, end));
            });
            assert_eq!(counted.count(mask, base, is_counted), expected, "{base}");
        }
        assert_eq!(counted.take_open(), joined.take_open());
    }

    #[test]
    fn a_mask_has_one_bit_a_byte_in_order() {
        let text: Vec<u8> = (0..=255).collect();
        for base in [0, 1, 100, 192, 200, 255] {
            let mask = Block::load(&text, base).mask(|byte| byte % 3 == 1);
            for bit in 0..64 {
                let byte = text.get(base + bit).copied().unwrap_or(0);
                assert_eq!(mask >> bit & 1 == 1, byte % 3 == 1, "{base} {bit}");
            }
        }
        assert_eq!(low_bits(0), 0);
        assert_eq!(low_bits(3), 7);
        assert_eq!(low_bits(64), u64::MAX);
    }
}
