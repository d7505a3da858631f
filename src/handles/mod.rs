//! Handles of an open database, and what they share: corpora, snapshots, sessions, transactions and rows.
//!
//! Invariant: thin. Long work and algorithms are in the modules below; statements are executed above.

mod any_length;
pub(crate) mod corpus;
pub(crate) mod memory_share;
pub(crate) mod opened;
pub(crate) mod queries;
pub(crate) mod record;
pub(crate) mod row;
pub(crate) mod rows;
pub(crate) mod session;
pub(crate) mod shared;
pub(crate) mod snapshot;
pub(crate) mod statement_cache;
pub(crate) mod transaction;
