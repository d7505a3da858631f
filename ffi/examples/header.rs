//! Writes the C header: `cargo run --example header -- zipfdb.h`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(target) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: header FILE");
        return ExitCode::FAILURE;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    match cbindgen::generate(root) {
        Ok(header) => {
            header.write_to_file(&target);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("header: {error}");
            ExitCode::FAILURE
        }
    }
}
