//! Numbers in little memory: sets as bits, ascending numbers packed, numbers of varying size, and where ranges begin.

pub(crate) mod bits;
pub(crate) mod high_bits;
pub(crate) mod offsets;
pub(crate) mod packed_numbers;
pub(crate) mod symbol_slots;
pub(crate) mod varints;
