//! Signals: what is left of work that they end, and how the program ends.
//!
//! A signal comes when the program is seen to be in the middle: it has taken what was written to a pipe, and waits for more, or has
//! a statement that does not end.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::outputs::names;
use super::{
    DEADLINE, IMPORT, SLOW, directory_with_database, directory_with_long_file, make_pipe, run, zipf,
};

/// The signals that ask a program to end.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Bytes that are more than a pipe holds: once they are written, the other end has read.
const MUCH: usize = 1 << 20;

fn send(child: &Child, signal: Signal) {
    let process = i32::try_from(child.id()).unwrap();
    kill(Pid::from_raw(process), signal).unwrap();
}

/// Starts the program in a directory; it reads the pipe `pipe` there, whose other end is returned.
fn start_reading(directory: &Path, arguments: &[&str]) -> (Child, File) {
    let pipe = directory.join("pipe");
    if !pipe.exists() {
        make_pipe(&pipe);
    }
    let child = started(zipf().current_dir(directory).args(arguments));
    // Returns when the program has opened the pipe.
    (child, File::options().write(true).open(pipe).unwrap())
}

fn started(command: &mut Command) -> Child {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    child.spawn().unwrap()
}

/// Text that does not repeat itself much.
fn text(size: usize) -> Vec<u8> {
    let words = (0u64..).map(|number| format!("w{} ", number.wrapping_mul(0x9e37_79b9) % 65_537));
    words.flat_map(String::into_bytes).take(size).collect()
}

/// The file in a directory that the program has open for writing and that has no name of its own: its path as the system shows it.
fn unnamed_file(child: &Child, directory: &Path) -> PathBuf {
    let directory = fs::canonicalize(directory).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < DEADLINE {
        let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
        let links = open.filter_map(|link| fs::read_link(link.ok()?.path()).ok());
        let is_unnamed = |path: &PathBuf| {
            let name = path.to_string_lossy();
            path.parent() == Some(&*directory)
                && (name.ends_with(" (deleted)") || name.contains("/.zipfdb-"))
        };
        if let Some(found) = links.into_iter().find(is_unnamed) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no file is open in {}", directory.display());
}

#[test]
fn packing_and_unpacking_that_a_signal_ends_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("text"), text(2 * MUCH)).unwrap();
    let pack = ["pack", "text", "packed", "--codec", "byte", "--level", "1"];
    assert_eq!(run(zipf().current_dir(directory).args(pack)).code, Some(0));
    make_pipe(&directory.join("pipe"));
    let before = names(directory);
    let packed = fs::read(directory.join("packed")).unwrap();
    let pack = ["pack", "pipe", "out", "--codec", "byte", "--level", "1"];
    for (arguments, input) in [
        (&pack[..], text(MUCH)),
        (
            &["unpack", "pipe", "out"],
            packed[..packed.len() / 2].to_vec(),
        ),
    ] {
        for signal in SIGNALS {
            let (mut child, mut pipe) = start_reading(directory, arguments);
            pipe.write_all(&input).unwrap();
            send(&child, signal);
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(signal as i32), "{arguments:?}");
            assert_eq!(names(directory), before, "{arguments:?} {signal}");
        }
        let (mut child, mut pipe) = start_reading(directory, arguments);
        pipe.write_all(&input).unwrap();
        let open = unnamed_file(&child, directory);
        send(&child, Signal::SIGKILL);
        child.wait().unwrap();
        if open.to_string_lossy().ends_with(" (deleted)") {
            assert_eq!(names(directory), before, "{arguments:?}");
        }
    }
}

#[test]
fn rows_that_a_signal_ends_leave_the_file_as_it_was() {
    let directory = directory_with_long_file();
    let directory = directory.path();
    let import = ["c.zdb", "-c", IMPORT];
    assert_eq!(run(zipf().current_dir(directory).args(import)).rows(), "");
    fs::create_dir(directory.join("out")).unwrap();
    fs::write(directory.join("out/there.csv"), "before").unwrap();
    for name in ["there.csv", "new.csv"] {
        for signal in SIGNALS.into_iter().chain([Signal::SIGKILL]) {
            let copy = format!("COPY ({SLOW}) TO 'out/{name}'");
            let mut child =
                started(
                    zipf()
                        .current_dir(directory)
                        .args(["c.zdb", "--readonly", "-c", &copy]),
                );
            let open = unnamed_file(&child, &directory.join("out"));
            send(&child, signal);
            assert_eq!(child.wait().unwrap().signal(), Some(signal as i32));
            if signal != Signal::SIGKILL || open.to_string_lossy().ends_with(" (deleted)") {
                assert_eq!(names(&directory.join("out")), ["there.csv"], "{signal}");
            }
            assert_eq!(
                fs::read(directory.join("out/there.csv")).unwrap(),
                b"before"
            );
        }
    }
}

#[test]
fn an_import_that_a_signal_ends_leaves_nothing() {
    let directory = directory_with_database();
    let directory = directory.path();
    let create = [
        "c.zdb",
        "-c",
        "CREATE CORPUS d WITH (segment_size = '64KiB')",
    ];
    assert_eq!(run(zipf().current_dir(directory).args(create)).rows(), "");
    let segments = directory.join("c.zdb/segments");
    let before = names(&segments);
    for sql in ["COPY d FROM 'pipe'", ".import pipe e"] {
        for signal in SIGNALS {
            let (mut child, mut pipe) = start_reading(directory, &["c.zdb", "-c", sql]);
            pipe.write_all(&text(MUCH)).unwrap();
            send(&child, signal);
            let mut messages = String::new();
            let stderr = child.stderr.as_mut().unwrap();
            stderr.read_to_string(&mut messages).unwrap();
            assert_eq!(messages, "error: interrupted\n");
            assert_eq!(child.wait().unwrap().signal(), Some(signal as i32));
            let left = names(&segments).into_iter();
            let left: Vec<String> = left.filter(|name| !before.contains(name)).collect();
            assert!(
                left.iter().all(|name| name.ends_with(".dropped")),
                "{left:?}"
            );
        }
    }
    let sql = "SELECT corpus, files FROM corpora() ORDER BY corpus";
    let ended = run(zipf().current_dir(directory).args(["c.zdb", "-c", sql]));
    assert_eq!(ended.rows(), "corpus,files\nc,2\nd,0\n");
}

#[test]
fn a_signal_ends_what_waits_or_prints_at_once() {
    let directory = directory_with_long_file();
    let import = ["c.zdb", "-c", IMPORT];
    let command = &mut zipf();
    assert_eq!(run(command.current_dir(&directory).args(import)).rows(), "");
    for signal in SIGNALS {
        // The program waits for the next statement.
        let mut child = started(zipf().stdin(Stdio::piped()));
        let mut input = child.stdin.take().unwrap();
        write!(input, "SELECT 1 AS one;").unwrap();
        input.flush().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(output.next().unwrap().unwrap(), "one");
        assert_eq!(output.next().unwrap().unwrap(), "1");
        send(&child, signal);
        assert_eq!(child.wait().unwrap().signal(), Some(signal as i32));

        // The program waits for the reader of its rows.
        let rows = ["c.zdb", "--readonly", "-c", "SELECT word, offset FROM c"];
        let mut child = started(zipf().current_dir(&directory).args(rows));
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut [0; 100]).unwrap();
        send(&child, signal);
        assert_eq!(child.wait().unwrap().signal(), Some(signal as i32));
    }
}

#[test]
fn a_signal_that_is_ignored_from_the_start_stays_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    make_pipe(&pipe);
    let mut shell = Command::new("sh");
    let script = "trap '' HUP INT; exec \"$0\" pack pipe out --codec byte --level 1";
    shell.args(["-c", script]).arg(zipf().get_program());
    let mut child = started(shell.current_dir(&directory));
    let mut pipe = File::options().write(true).open(pipe).unwrap();
    pipe.write_all(&text(MUCH)).unwrap();
    send(&child, Signal::SIGHUP);
    send(&child, Signal::SIGINT);
    pipe.write_all(&text(MUCH)).unwrap();
    drop(pipe);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(names(directory.path()), ["out", "pipe"]);
}
