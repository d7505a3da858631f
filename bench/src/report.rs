//! What every suite prints and writes: a Markdown table for people, JSON for programs.
//!
//! A table has a column a corpus, or is about one corpus. The JSON says where, when and with what the numbers were made.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::{Options, Result};

/// Bytes in the MB of all tables.
pub const MEGABYTE: f64 = 1e6;

/// A Markdown table that grows by rows.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column titles; the first column holds the rows' names.
    pub fn new(titles: impl IntoIterator<Item = String>) -> Table {
        Table {
            rows: vec![titles.into_iter().collect()],
        }
    }

    /// Adds a row.
    pub fn row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        let mut row = vec![name.to_owned()];
        row.extend(cells);
        self.rows.push(row);
    }

    /// Prints it to standard output, padded so that it can be read as it is, notes after it.
    pub fn print(&self, notes: &[String]) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(String::len)
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).max(3)).collect();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::from("|");
            let mut rule = String::from("|");
            for (column, width) in widths.iter().copied().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                if column == 0 {
                    line += &format!(" {cell:<width$} |");
                    rule += &format!("-{}-|", "-".repeat(width));
                } else {
                    line += &format!(" {cell:>width$} |");
                    rule += &format!("-{}:|", "-".repeat(width));
                }
            }
            println!("{line}");
            if index == 0 {
                println!("{rule}");
            }
        }
        println!();
        print_notes(notes);
    }
}

/// Prints what a reader must know, a line each.
pub fn print_notes(notes: &[String]) {
    for note in notes {
        println!("- {note}");
    }
}

/// Prints the heading of the table of one corpus.
pub fn heading(corpus: &str, bytes: u64, files: usize) {
    let size = bytes as f64 / MEGABYTE;
    let plural = if files == 1 { "" } else { "s" };
    println!("### {corpus}: {size:.1} MB in {files} file{plural}\n");
}

/// Seconds as milliseconds with about three digits.
pub fn milliseconds(seconds: f64) -> String {
    digits(seconds * 1e3)
}

/// A number with about three digits.
pub fn digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// One suite's numbers with all that is needed to make them again.
#[derive(Serialize)]
struct Report<'a, T> {
    suite: &'a str,
    command: String,
    date: String,
    machine: Machine,
    versions: Vec<(String, String)>,
    threads: usize,
    notes: &'a [String],
    results: &'a [T],
}

#[derive(Serialize)]
struct Machine {
    cpu: String,
    cores: usize,
    memory_bytes: u64,
    system: String,
}

/// Writes the JSON of a suite and prints its path to standard error.
pub fn write_json<T: Serialize>(
    suite: &str,
    options: &Options,
    notes: &[String],
    results: &[T],
) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let report = Report {
        suite,
        command: command(),
        date: utc(now),
        machine: machine(),
        versions: versions(),
        threads: options.threads,
        notes,
        results,
    };
    let path = match &options.json {
        Some(path) => path.clone(),
        None => default_path(suite, now)?,
    };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut text = serde_json::to_string_pretty(&report)?;
    text.push('\n');
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("numbers: {}", path.display());
    Ok(())
}

/// `bench/SUITE-DATE.json` in the directory that the build is in.
fn default_path(suite: &str, now: Duration) -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let build = program
        .ancestors()
        .nth(2)
        .ok_or("this program lies in no build directory; hint: give --json FILE")?;
    Ok(build
        .join("bench")
        .join(format!("{suite}-{}.json", utc(now).replace(':', ""))))
}

/// The command to type, with paths as they were given.
fn command() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!(
        "cargo run --release -p zipfdb-bench -- {}",
        arguments.join(" ")
    )
}

fn machine() -> Machine {
    let value = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap_or_default();
        line.trim_start_matches([' ', '\t', ':']).to_owned()
    };
    let kibibytes: u64 = value("/proc/meminfo", "MemTotal")
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .unwrap_or(0);
    Machine {
        cpu: value("/proc/cpuinfo", "model name"),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: kibibytes * 1024,
        system: fs::read_to_string("/proc/version")
            .unwrap_or_default()
            .trim()
            .to_owned(),
    }
}

/// Versions of everything compared, as this program was built with.
fn versions() -> Vec<(String, String)> {
    const COMPARED: [&str; 12] = [
        "zipfdb",
        "libsqlite3-sys",
        "rusqlite",
        "tantivy",
        "flate2",
        "libz-sys",
        "lz4_flex",
        "snap",
        "zlib-rs",
        "zstd-sys",
        "liblzma-sys",
        "unicode-segmentation",
    ];
    let lock = include_str!("../../Cargo.lock");
    let quoted = |line: Option<&str>| {
        line.and_then(|line| line.split('"').nth(1))
            .unwrap_or_default()
            .to_owned()
    };
    let mut versions = Vec::new();
    let mut lines = lock.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("name = ") {
            let name = quoted(Some(line));
            let version = quoted(lines.next());
            if COMPARED.contains(&name.as_str()) {
                versions.push((name, version));
            }
        }
    }
    versions.push(("sqlite".to_owned(), rusqlite::version().to_owned()));
    if let Ok(output) = Command::new("rustc").arg("--version").output() {
        versions.push((
            "rustc".to_owned(),
            String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        ));
    }
    versions
}

/// Seconds since 1970 as `2026-01-31T12:00:00Z`.
fn utc(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let mut days = seconds / 86_400;
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= if leap(year) { 366 } else { 365 } {
        days -= if leap(year) { 366 } else { 365 };
        year += 1;
    }
    let mut month = 1;
    for length in [
        31,
        if leap(year) { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!(
        "{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z",
        days + 1
    )
}
