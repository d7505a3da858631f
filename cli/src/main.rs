//! The command line of ZipfDB.

fn main() {}
