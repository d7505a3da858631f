//! Texts to drafts of segments: texts are read, cut into chunks, and tokenized or kept, on all threads.
//!
//! Invariant: drafts are a function of texts, settings and limits. Segments are made elsewhere.

mod cut;
mod draft;
mod each;
mod fill;
mod numbered;
mod read;
mod texts;

pub(crate) use cut::sorted_tokens;
pub(crate) use draft::{ChunkContent, ContentForm, Draft, Limits};
pub(crate) use each::each_text;
pub(crate) use fill::Filling;
pub(crate) use numbered::{DraftFiles, SegmentTokens, numbered};
pub(crate) use texts::{HeldTexts, OpenText, RangedText, SourceTexts, Texts};
