//! The symbols that a chunk met lately, class by class.
//!
//! Text repeats itself nearby: a rare name or phrase just used is likely again. A symbol is found by how many symbols
//! of its class came after it, which the class' context has already narrowed down.

/// Symbols that the history of a class holds.
pub const HISTORY: usize = 64;

/// Actions that say how far back the symbol lies: 1, 2, 3..5, 5..9, ..., 33..65.
pub const REPEATS: usize = 7;

/// Levels of how full the history of a class is, which predicts how likely a repeat is.
pub const FILLS: usize = 4;

/// The history of one chunk.
pub struct History {
    /// Ring buffers, one a class.
    rings: Vec<[u32; HISTORY]>,
    /// How many symbols each class has met.
    met: Vec<u32>,
}

impl History {
    /// An empty history of `classes` classes.
    pub fn new(classes: usize) -> History {
        History {
            rings: vec![[0; HISTORY]; classes],
            met: vec![0; classes],
        }
    }

    /// How full the history of `class` is, below [`FILLS`].
    #[inline(always)]
    pub fn fill(&self, class: usize) -> usize {
        fill_of(self.met[class])
    }

    /// The symbol of `class` met `distance` ago; anything if that is out of reach.
    #[inline(always)]
    pub fn symbol(&self, class: usize, distance: u32) -> u32 {
        self.rings[class][self.met[class].wrapping_sub(1).wrapping_sub(distance) as usize % HISTORY]
    }

    /// How long ago `symbol` of `class` was met last.
    pub fn find(&self, class: usize, symbol: u32) -> Option<u32> {
        (0..self.met[class].min(HISTORY as u32))
            .find(|&distance| self.symbol(class, distance) == symbol)
    }

    /// Remembers `symbol` of `class`.
    #[inline(always)]
    pub fn push(&mut self, class: usize, symbol: u32) {
        let met = &mut self.met[class];
        self.rings[class][*met as usize % HISTORY] = symbol;
        *met = met.wrapping_add(1);
    }
}

/// The level, below [`FILLS`], of the history of a class that has met `met` symbols.
pub const fn fill_of(met: u32) -> usize {
    let logarithm = (met / 16 + 1).ilog2() as usize;
    if logarithm < FILLS {
        logarithm
    } else {
        FILLS - 1
    }
}

/// The action for a distance, the number of raw bits that give the exact distance, and
/// those bits.
pub fn split_distance(distance: u32) -> (usize, u32, u32) {
    let width = u32::BITS - distance.leading_zeros();
    let bits = width.saturating_sub(1);
    (width as usize, bits, distance & ((1 << bits) - 1))
}

/// How many raw bits follow a repeat action, and what they are added to.
#[inline(always)]
pub fn distance_bits(action: usize) -> (u32, u32) {
    let bits = (action as u32).saturating_sub(1);
    (bits, if action == 0 { 0 } else { 1 << bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_found_at_its_distance_until_it_falls_out() {
        let mut history = History::new(2);
        assert_eq!(history.find(0, 0), None);
        for symbol in 0..100 {
            history.push(1, symbol);
        }
        assert_eq!(history.find(1, 99), Some(0));
        assert_eq!(history.find(1, 36), Some(63));
        assert_eq!(history.find(1, 35), None);
        assert_eq!((history.fill(0), history.fill(1)), (0, 2));
    }

    #[test]
    fn every_distance_is_an_action_and_bits() {
        for distance in 0..HISTORY as u32 {
            let (action, bits, raw) = split_distance(distance);
            assert!(action < REPEATS);
            assert_eq!(distance_bits(action), (bits, distance - raw));
        }
    }
}
