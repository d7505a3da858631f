//! Boundaries of units, which are bits of letters.

use crate::algebra::Unit;

/// Bits of a letter.
pub(super) const BITS_MAX: usize = 64;

/// A boundary of units at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Boundary {
    /// The unit. Units without words have no boundaries.
    pub unit: Unit,
    /// Whether one ends here, else one starts.
    pub is_end: bool,
}
