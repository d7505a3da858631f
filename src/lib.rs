//! An embeddable database for text that stays compressed while it is queried.

#![forbid(unsafe_code)]

#[allow(dead_code, unused_imports, reason = "nothing calls it yet")]
mod tokenize;
