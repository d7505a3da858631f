//! A hash table that numbers symbols in the order they first appear.
//!
//! The sparse kernels reach a few thousand of millions of symbols; an array by
//! symbol would cost more to clear than they take. Slots are dense and count
//! from 0, so whatever belongs to a symbol lies in a plain array by slot.
//! It is not a general map: keys are `u32`, nothing is ever removed.

/// No symbol and no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Symbols with dense slots `0..len`.
pub(crate) struct SymbolSlots {
    /// `symbol << 32 | slot`, or all ones if empty. The size is a power of two
    /// and at least twice the number of symbols.
    entries: Vec<u64>,
    /// 64 less the binary logarithm of the size.
    shift: u32,
    len: u32,
}

const EMPTY: u64 = u64::MAX;
const ENTRIES_MIN_LOG: u32 = 6;

impl SymbolSlots {
    pub(crate) fn new() -> Self {
        SymbolSlots {
            entries: vec![EMPTY; 1 << ENTRIES_MIN_LOG],
            shift: 64 - ENTRIES_MIN_LOG,
            len: 0,
        }
    }

    /// Where the probe for `symbol` starts: the product's high bits.
    #[inline]
    fn home(&self, symbol: u32) -> usize {
        (u64::from(symbol).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The slot of `symbol`, or [`NONE`].
    #[inline]
    pub(crate) fn find(&self, symbol: u32) -> u32 {
        let mask = self.entries.len() - 1;
        let mut at = self.home(symbol);
        loop {
            let entry = self.entries[at & mask];
            if entry == EMPTY {
                return NONE;
            }
            if (entry >> 32) as u32 == symbol {
                return entry as u32;
            }
            at += 1;
        }
    }

    /// The slot of `symbol`, a new one if it has none; true if it is new.
    #[inline]
    pub(crate) fn find_or_add(&mut self, symbol: u32) -> (u32, bool) {
        let mask = self.entries.len() - 1;
        let mut at = self.home(symbol);
        loop {
            let entry = self.entries[at & mask];
            if entry == EMPTY {
                break;
            }
            if (entry >> 32) as u32 == symbol {
                return (entry as u32, false);
            }
            at += 1;
        }
        let slot = self.len;
        self.entries[at & mask] = u64::from(symbol) << 32 | u64::from(slot);
        self.len += 1;
        if self.len as usize * 2 > self.entries.len() {
            self.grow();
        }
        (slot, true)
    }

    fn grow(&mut self) {
        let size = self.entries.len() * 4;
        let entries = std::mem::replace(&mut self.entries, vec![EMPTY; size]);
        self.shift -= 2;
        let mask = size - 1;
        for entry in entries {
            if entry != EMPTY {
                let mut at = self.home((entry >> 32) as u32);
                while self.entries[at & mask] != EMPTY {
                    at += 1;
                }
                self.entries[at & mask] = entry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_count_symbols_in_order_of_first_appearance() {
        let mut slots = SymbolSlots::new();
        let mut seen: Vec<u32> = Vec::new();
        for i in 0..20_000u32 {
            let symbol = i.wrapping_mul(2_654_435_761) % 5_003;
            let (slot, new) = slots.find_or_add(symbol);
            assert_eq!(new, slot as usize == seen.len());
            if new {
                seen.push(symbol);
            }
            assert_eq!(seen[slot as usize], symbol);
        }
        for (slot, &symbol) in seen.iter().enumerate() {
            assert_eq!(slots.find(symbol), slot as u32);
        }
        assert_eq!(slots.find(5_003), NONE);
    }
}
