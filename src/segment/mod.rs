//! One segment, decoded as far as it was asked for, and what was built of it to answer more.

mod edge_words;
pub(crate) mod kept_ngrams;
mod one_file;
mod segment_view;
mod spent;
pub(crate) mod word_order;

pub(crate) use edge_words::edge_words;
pub(crate) use segment_view::{SegmentView, Unit};
