//! The header and the libraries, as compilers of C and C++ see them.
//!
//! Needs a C compiler, as the build of the crate does; others are used where they are installed.

#![allow(clippy::unwrap_used)]

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Compilers with the options under which they must be silent, and whether they must be there.
const COMPILERS: [(&str, &[&str], bool); 5] = [
    ("cc", &["-std=c11", "-Wall", "-Wextra", "-Werror"], true),
    ("gcc", &["-std=c99", "-Wall", "-Wextra", "-Werror"], false),
    (
        "gcc",
        &["-std=c11", "-g", "-fsanitize=address,undefined"],
        false,
    ),
    ("clang", &["-std=c11", "-Wall", "-Wextra", "-Werror"], false),
    (
        "g++",
        &["-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror"],
        false,
    ),
];

#[test]
fn programs_call_every_function() {
    let folder = tempfile::tempdir().unwrap();
    let header = folder.path().join("zipfdb.h");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    cbindgen::generate(root).unwrap().write_to_file(&header);
    let called = fs::read_to_string(root.join("tests/c/api.c")).unwrap();
    for name in functions(&fs::read_to_string(&header).unwrap()) {
        assert!(
            called.contains(&format!("{name}(")),
            "tests/c/api.c does not call {name}"
        );
    }
    // As an installation has it.
    let library = folder.path();
    for name in ["libzipfdb.so", "libzipfdb.so.0"] {
        fs::copy(built().join("libzipfdb_c.so"), library.join(name)).unwrap();
    }
    for (number, (compiler, options, is_needed)) in COMPILERS.into_iter().enumerate() {
        if !is_needed && !is_installed(compiler) {
            println!("skipped: no {compiler}");
            continue;
        }
        let program = folder.path().join(format!("program{number}"));
        let mut command = Command::new(compiler);
        command
            .args(options)
            .arg("-I")
            .arg(folder.path())
            .arg("-I")
            .arg(root.join("tests/c"));
        command.arg(root.join("tests/c/api.c")).args(["-x", "none"]);
        command.arg("-o").arg(&program).arg("-L").arg(library);
        command.args(["-lzipfdb", "-lm", "-ldl", "-lpthread"]);
        let compiled = command.output().unwrap();
        assert!(
            compiled.status.success(),
            "{compiler} {options:?}: {}",
            text(&compiled)
        );
        let database = folder.path().join(format!("{number}.zdb"));
        run(
            &program,
            &[database.as_os_str()],
            library,
            &format!("{compiler} {options:?}"),
        );
    }
}

fn run(program: &Path, arguments: &[&OsStr], library: &Path, what: &str) {
    let ran = Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", library)
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{what}: {} {}",
        ran.status,
        text(&ran)
    );
}

/// The names of all functions of a header.
fn functions(header: &str) -> Vec<&str> {
    let mut names = header
        .split(|character: char| {
            !character.is_alphanumeric() && character != '_' && character != '('
        })
        .filter_map(|word| word.split_once('('))
        .map(|(name, _)| name.trim_start_matches('*'))
        .filter(|name| name.starts_with("zipfdb_"))
        .collect::<Vec<_>>();
    names.dedup();
    assert!(names.len() > 40, "{names:?}");
    names
}

/// Where Cargo has put the libraries of this build: beside the folder of this test.
fn built() -> PathBuf {
    let test = env::current_exe().unwrap();
    test.parent().unwrap().to_path_buf()
}

fn is_installed(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
