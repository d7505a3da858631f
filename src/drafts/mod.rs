//! Texts to drafts of segments: texts are read, cut into chunks, and tokenized or kept, on all threads.
//!
//! Invariant: drafts are a function of texts, settings and limits. Segments are made elsewhere.

mod device_tokens;
mod draft;
mod each;
mod pipeline;
mod read;
mod texts;
mod token_numbering;

pub(crate) use device_tokens::sorted_tokens;
pub(crate) use draft::{ChunkContent, ContentForm, Draft, Limits};
pub(crate) use each::each_text;
pub(crate) use pipeline::Filling;
pub(crate) use texts::{HeldTexts, OpenText, RangedText, SourceTexts, Texts};
pub(crate) use token_numbering::{DraftFiles, SegmentTokens, numbered};
