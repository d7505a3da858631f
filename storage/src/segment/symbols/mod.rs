//! Bodies and root to bytes and back: the model of what symbol comes next.
//!
//! A symbol is coded in two steps. First its *class*, which says how its expansion begins, under a *context* that the
//! symbols before it make; classes and contexts are learned by grouping tokens that keep the same company. Then which
//! symbol of the class: one met lately in the same chunk (by how many of the class ago), or a new one by its
//! *frequency class* and its rank among the equally frequent. `FORMAT.md` has the details and the order of bytes.
//!
//! Invariant: reader and writer derive every context from the same decoded symbols, and a chunk depends on nothing but
//! the model and lower levels, so chunks of a level decode in parallel.

mod chunk_decoder;
mod chunks;
mod classes;
mod coder;
mod contexts;
mod cpu_coder;
mod decode;
mod encode;
mod history;
mod lanes;
mod learn;
mod model;
mod rank_table;
mod runs;
mod shape;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod wide;
#[cfg(target_arch = "x86_64")]
mod wide_lanes;

pub use classes::Ends;
pub use coder::{ChunkOffsets, EventCounts, NeighbourCount, SymbolCoder, SymbolLimits};
pub use contexts::Contexts;
pub use decode::{Bodies, Coded, Counts, Part, decode, decode_rules};
pub use encode::EncodedGrammar;
