//! ADBC: the interface by which programs of many languages read Arrow from databases.
//!
//! Invariant: one database of ADBC is one open ZipfDB database, a connection is a session of it, and answers are streams of batches.
//! `adbc_ffi` makes C functions of the traits that are implemented here, and keeps panics inside.

mod connection;
mod driver;
mod info;
mod objects;
mod session;
mod statement;
mod status;

adbc_ffi::export_driver!(AdbcZipfdbInit, driver::ZipfDriver);
