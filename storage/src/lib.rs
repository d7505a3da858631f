//! What is on disk, and how it survives a crash.

mod backend;

pub use backend::{Backend, BackendFile, Bytes, FileBackend, MemoryBackend, ReadOnlyBackend};
