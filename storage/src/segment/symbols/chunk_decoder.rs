//! Decoding chunks of the root on single threads, again and again, in the form that suits the processor.
//!
//! Invariant: a chunk gives what [`super::lanes::decode_in_turn`] gives.

use super::lanes::{ActionLookup, ChunkModel, ChunkWork, decode_in_turn};
#[cfg(target_arch = "x86_64")]
use super::wide_lanes::{TableNumbers, decode_wide_in_turn};
use crate::segment::coding::{DecodeError, NoMemory};

/// A model with all that is made of it before the first chunk.
pub struct ChunkDecoder<'a> {
    model: &'a ChunkModel,
    actions: &'a ActionLookup,
    /// None if the processor has no such vectors.
    #[cfg(target_arch = "x86_64")]
    numbers: Option<TableNumbers>,
}

impl<'a> ChunkDecoder<'a> {
    /// A decoder of the root, whose action tables are given.
    pub fn new(
        model: &'a ChunkModel,
        actions: &'a ActionLookup,
    ) -> Result<ChunkDecoder<'a>, NoMemory> {
        Ok(ChunkDecoder {
            model,
            actions,
            #[cfg(target_arch = "x86_64")]
            numbers: TableNumbers::if_supported(model)?,
        })
    }

    /// Decodes chunks on this thread.
    pub fn decode(&self, work: Vec<ChunkWork<'_>>) -> Result<(), DecodeError> {
        #[cfg(target_arch = "x86_64")]
        if let Some(numbers) = &self.numbers {
            return decode_wide_in_turn(work, self.model, self.actions, numbers);
        }
        decode_in_turn::<false>(work, self.model, self.actions)
    }
}
