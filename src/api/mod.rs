//! The interface for programs: databases and statements, and the methods of corpora that run as statements do.
//!
//! Invariant: thin. Everything is done below, by `execute` and what that rests on.

mod corpus;
pub(crate) mod database;
pub(crate) mod params;
pub(crate) mod reader;
pub(crate) mod repair;
pub(crate) mod statement;
pub(crate) mod transaction;
