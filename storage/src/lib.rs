//! What is on disk, and how it survives a crash.
