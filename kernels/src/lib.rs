//! Data-parallel grammar algorithms on plain slices.
