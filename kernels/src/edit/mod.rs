//! Inserts into texts: where each lies when others are made before it.

pub(crate) mod splices;
pub(crate) mod splices_gpu;
