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

/// A directory with `texts/a.txt` and `texts/b.txt`, and in `c.zdb` a database with the corpus `c` of both.
fn directory_with_database() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let texts = directory.path().join("texts");
    std::fs::create_dir(&texts).unwrap();
    std::fs::write(texts.join("a.txt"), "to be, or not to be\n").unwrap();
    std::fs::write(texts.join("b.txt"), "to \"do\"\tis to be").unwrap();
    let sql = "CREATE CORPUS c; COPY c FROM 'texts'";
    assert_eq!(
        run(zipf().current_dir(&directory).args(["c.zdb", "-c", sql])).rows(),
        ""
    );
    directory
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
