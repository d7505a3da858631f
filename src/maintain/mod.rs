//! What makes segments: imports, recompression, in the background too, and repair.

pub(crate) mod background;
pub(crate) mod device_coder;
pub(crate) mod failures;
pub(crate) mod indexes;
pub(crate) mod ingest;
pub(crate) mod recompress;
pub(crate) mod repair;
pub(crate) mod replace;
pub(crate) mod throttle;
