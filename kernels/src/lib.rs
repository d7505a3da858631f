//! Data-parallel grammar algorithms on plain slices.
//!
//! Every module is one algorithm on a [`GrammarView`]: plain slices in, plain
//! slices out, integers only, so that results never depend on threads and a
//! device kernel can be its bit-identical twin. Parallel parts run on the
//! current rayon pool. Nothing here knows files on disk, SQL or text encodings.

mod extract;
mod grammar_view;
mod lengths;
mod locate;
mod occurrences;
mod symbol_slots;
#[cfg(test)]
mod test_grammars;
mod weights;

pub use extract::{TokenText, expand_file, extract};
pub use grammar_view::GrammarView;
pub use lengths::{Lengths, SAMPLE_SYMBOLS, expansion_sums};
pub use locate::{WordTerminals, locate, locate_in_file};
pub use occurrences::{Parents, count_in_file};
pub use weights::{file_weights, weights};
