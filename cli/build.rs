//! Packs the speeches of `zipf demo`, which the program carries.
//!
//! Invariant: the pack has every file of `sample/speeches`, in order of name. It is an xz stream of a line for each, its
//! name, a tab and its size in bytes, an empty line, and all texts one after the other.
//!
//! Asks the linker to keep one of functions that are the same code, as instances of generic ones for types alike are.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use lzma_rust2::{XzOptions, XzWriter};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=sample/speeches");
    if folds_functions() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir("sample/speeches")? {
        paths.push(entry?.path());
    }
    paths.sort();
    let (mut names, mut texts) = (String::new(), Vec::new());
    for path in paths {
        let text = fs::read(&path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        names.push_str(&format!("{name}\t{}\n", text.len()));
        texts.extend(text);
    }
    names.push('\n');
    let folder = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let file = File::create(Path::new(&folder).join("speeches.xz"))?;
    let mut pack = XzWriter::new(file, XzOptions::with_preset(6))?;
    pack.write_all(names.as_bytes())?;
    pack.write_all(&texts)?;
    pack.finish()?.sync_all()
}

/// Whether the linker is one that can: LLVM's, which Rust brings and uses on this target. Only the release is worth the time.
fn folds_functions() -> bool {
    let variable = |name| env::var(name).unwrap_or_default();
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    let is_own_choice = flags.contains("link") || !variable("RUSTC_LINKER").is_empty();
    variable("TARGET") == "x86_64-unknown-linux-gnu"
        && variable("PROFILE") == "release"
        && !is_own_choice
}
