//! Handles of an open database, and what these share: corpora, snapshots, sessions, transactions and rows.
//!
//! Invariant: thin. What takes long or thought is below; statements are executed above.

pub(crate) mod corpus;
pub(crate) mod memory_share;
pub(crate) mod opened;
pub(crate) mod parsed;
pub(crate) mod rows;
pub(crate) mod session;
pub(crate) mod shared;
pub(crate) mod snapshot;
pub(crate) mod transaction;
