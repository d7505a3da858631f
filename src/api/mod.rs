//! What a host program holds: a database, its corpora, snapshots of them, transactions and statements, and what these share.
//!
//! Invariant: thin handles. What takes long or thought is below, in modules that know no handle but these.

pub(crate) mod core;
pub(crate) mod corpus;
pub(crate) mod database;
pub(crate) mod memory_share;
pub(crate) mod opened;
pub(crate) mod parsed;
pub(crate) mod rows;
pub(crate) mod session;
pub(crate) mod shared;
pub(crate) mod snapshot;
pub(crate) mod statement;
pub(crate) mod transaction;
