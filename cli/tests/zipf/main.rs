//! The binary `zipf` from outside: arguments, standard streams, exit codes.
//!
//! Invariant: no test depends on how long anything takes; a deadline only turns a hang into a failure. What SQL answers
//! is tested in the database crate, formats and line handling beside their code.
#![allow(clippy::unwrap_used)]

mod demo;
mod formats;
mod grep;
mod one_shot;
#[cfg(target_os = "linux")]
mod outputs;
mod packing;
#[cfg(unix)]
mod prompt;
mod search;
#[cfg(target_os = "linux")]
mod signals;
mod streaming;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Time after which a hanging program fails its test.
const DEADLINE: Duration = Duration::from_secs(120);

/// The program, with an environment that is the same everywhere.
fn zipf() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipf"));
    command
        .env_remove("ZIPF_LOG")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    command
}

/// Runs to the end.
fn run(command: &mut Command) -> Ended {
    Ended::new(command.output().unwrap())
}

/// Runs to the end with `input` on standard input.
fn run_with_input(command: &mut Command, input: &[u8]) -> Ended {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    Ended::new(child.wait_with_output().unwrap())
}

/// What a run left behind.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    rows: String,
    messages: String,
}

impl Ended {
    fn new(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            rows: String::from_utf8(output.stdout).unwrap(),
            messages: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The rows of a run that went well and said nothing.
    #[track_caller]
    fn rows(&self) -> &str {
        assert_eq!(
            (self.code, self.messages.as_str()),
            (Some(0), ""),
            "{self:?}"
        );
        &self.rows
    }
}

/// A directory with texts of these names, and in `c.zdb` a database with the corpus `c` of them.
fn directory_of<N: AsRef<Path>, T: AsRef<[u8]>>(
    texts: impl IntoIterator<Item = (N, T)>,
) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("texts");
    std::fs::create_dir(&folder).unwrap();
    for (name, text) in texts {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let sql = "CREATE CORPUS c; COPY c FROM 'texts'";
    let made = run(zipf().current_dir(&directory).args(["c.zdb", "-c", sql]));
    assert_eq!(made.rows(), "");
    directory
}

/// A directory with three texts, of which `b.txt` is given, and a database of them.
fn directory_of_three(b: &str) -> tempfile::TempDir {
    directory_of([
        ("a.txt", "one\nto be, or not to be\nthree\nfour\nTo do\n"),
        ("b.txt", b),
        ("c.txt", "\n\nnothing\n"),
    ])
}

/// A directory with `texts/a.txt` and `texts/b.txt`, and in `c.zdb` a database with the corpus `c` of both.
fn directory_with_database() -> tempfile::TempDir {
    directory_of([
        ("a.txt", "to be, or not to be\n"),
        ("b.txt", "to \"do\"\tis to be"),
    ])
}

/// A directory with `long.txt`, which has 200,000 words.
fn directory_with_long_file() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("long.txt"), "a ".repeat(200_000)).unwrap();
    directory
}

/// Imports the long text.
const IMPORT: &str = "CREATE CORPUS c; COPY c FROM 'long.txt'";

/// A statement on it that runs until it is interrupted: a long text for each word.
const SLOW: &str = "SELECT MAX(length(replace(replace(replace(replace(replace('x' || position, 'x', 'xxxxxxxxxx'), \
    'x', 'xxxxxxxxxx'), 'x', 'xxxxxxxxxx'), 'x', 'xxxxxxxxxx'), 'x', 'xxxxxxxxxx'))) AS slow FROM c";

/// Makes a named pipe.
#[cfg(unix)]
fn make_pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn is_database(path: &Path) -> bool {
    path.join("catalog").is_dir()
}
