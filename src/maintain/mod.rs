//! Makes segments: imports and recompression, also in the background.

pub(crate) mod background;
pub(crate) mod device_coder;
pub(crate) mod indexes;
pub(crate) mod ingest;
pub(crate) mod recompress;
pub(crate) mod replace;
pub(crate) mod source_values;
pub(crate) mod throttle;
