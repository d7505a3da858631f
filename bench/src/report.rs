//! What every suite prints and writes: tables, printed corpus by corpus, and the JSON that RESULTS.md is made of.
//!
//! The JSON says where, when and with what the numbers were made. Tables and their layout are in `zipfdb_bench_report`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
pub use zipfdb_bench_report::{Cell, MeasuredCorpus, Table};
use zipfdb_bench_report::{Envelope, Machine, compare, markdown, render, sections};
use zipfdb_kernels::gpu::devices;

use crate::Result;
use crate::corpus::Corpus;

/// Bytes in the MB of all tables.
pub const MEGABYTE: f64 = 1e6;

/// Lines that a section of RESULTS.md should have at most.
const SECTION_LINES_MAX: usize = 40;

/// Options that do not change what is measured, so that the recorded command leaves them out, with their values.
const LOCAL_OPTIONS: [&str; 3] = ["--json", "--commit", "--directory"];

/// Where a suite writes, and what it says about its build.
#[derive(Args)]
pub struct Output {
    /// Where the JSON goes; by default beside the build, in target/bench.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The commit that this program was built from; by default ZIPFDB_COMMIT, else that of the current directory, if any.
    #[arg(long, value_name = "ID")]
    commit: Option<String>,
}

/// What `zipfdb-bench report` takes.
#[derive(Args)]
pub struct ReportOptions {
    /// The folder with the JSON of suites, the text about them, and introduction.md.
    #[arg(long, default_value = "bench/results", value_name = "DIR")]
    results: PathBuf,
    /// The file that is written.
    #[arg(long, default_value = "bench/RESULTS.md", value_name = "FILE")]
    out: PathBuf,
    /// Writes nothing, and fails if the file is not what the folder gives.
    #[arg(long)]
    check: bool,
    /// Writes nothing, and prints what has changed since the runs in another folder.
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    against: Option<PathBuf>,
}

/// Makes RESULTS.md, checks it, or compares two folders.
pub fn run(options: &ReportOptions) -> Result<()> {
    let found = sections(&options.results)?;
    if found.is_empty() {
        let folder = options.results.display();
        return Err(format!(
            "{folder}: no JSON of a suite; hint: run one with `--json {folder}/SUITE.json`"
        )
        .into());
    }
    if let Some(before) = &options.against {
        print!("{}", compare(&sections(before)?, &found));
        return Ok(());
    }
    for section in &found {
        let lines = section.markdown().lines().count();
        if lines > SECTION_LINES_MAX {
            eprintln!(
                "{}: {lines} lines, more than {SECTION_LINES_MAX}",
                section.name
            );
        }
    }
    let text = render(&options.results, &found)?;
    if !options.check {
        return Ok(fs::write(&options.out, text)?);
    }
    if fs::read_to_string(&options.out)? != text {
        return Err(format!(
            "{}: not what {} gives; hint: zipfdb-bench report",
            options.out.display(),
            options.results.display()
        )
        .into());
    }
    Ok(())
}

/// A suite's run: prints what is added, and writes all of it at the end.
pub struct Report {
    envelope: Envelope,
    json: Option<PathBuf>,
}

impl Report {
    /// A run that has measured nothing yet.
    pub fn new(suite: &str, output: &Output) -> Result<Report> {
        Ok(Report {
            envelope: Envelope {
                suite: suite.to_owned(),
                command: command(),
                date: utc(SystemTime::now().duration_since(UNIX_EPOCH)?),
                commit: commit(output),
                machine: machine(),
                versions: versions(),
                corpora: Vec::new(),
                notes: Vec::new(),
            },
            json: output.json.clone(),
        })
    }

    /// Adds the tables of a corpus.
    pub fn add(&mut self, corpus: &Corpus, tables: Vec<Table>) -> Result<()> {
        self.add_measured(MeasuredCorpus {
            name: corpus.name.clone(),
            bytes: corpus.size(),
            files: corpus.files.len(),
            is_utf8: corpus.is_utf8()?,
            tables,
        })
    }

    /// Adds the tables of something that is no corpus on disk.
    pub fn add_measured(&mut self, corpus: MeasuredCorpus) -> Result<()> {
        println!("### {}\n", corpus.title());
        for table in corpus.tables.iter().filter(|table| !table.rows.is_empty()) {
            println!("{}", markdown(&[("", table)]));
        }
        if !corpus.is_utf8 {
            println!("Not all of it is UTF-8: SQLite FTS5 and tantivy got other bytes replaced.\n");
        }
        self.envelope.corpora.push(corpus);
        // A run that is ended early leaves the corpora that it has measured.
        if let Some(path) = &self.json {
            self.envelope.write(path)?;
        }
        Ok(())
    }

    /// Prints the notes, writes the JSON and prints its path to standard error.
    pub fn finish(mut self, notes: Vec<String>) -> Result<()> {
        for note in &notes {
            println!("- {note}");
        }
        self.envelope.notes = notes;
        let path = match self.json {
            Some(path) => path,
            None => default_path(&self.envelope)?,
        };
        self.envelope.write(&path)?;
        eprintln!("numbers: {}", path.display());
        Ok(())
    }
}

/// `bench/SUITE-DATE.json` in the directory that the build is in.
fn default_path(envelope: &Envelope) -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let build = program
        .ancestors()
        .nth(2)
        .ok_or("this program lies in no build directory; hint: give --json FILE")?;
    let (suite, date) = (&envelope.suite, envelope.date.replace(':', ""));
    Ok(build.join("bench").join(format!("{suite}-{date}.json")))
}

/// The command to type: corpora are those of the tables, other files are named.
fn command() -> String {
    let mut command = "cargo run --release -p zipfdb-bench --".to_owned();
    let mut option = String::new();
    for argument in std::env::args().skip(1) {
        if argument.starts_with("--") {
            option = argument.split('=').next().unwrap_or_default().to_owned();
            if option == "--corpus" {
                command += " --corpus PATH...";
            }
        }
        let is_corpus = option == "--corpus";
        if !is_corpus && !LOCAL_OPTIONS.contains(&&*option) {
            let path = Path::new(&argument);
            let name = path.file_name().filter(|_| path.exists());
            let name = name.map_or(argument.as_str().into(), |name| name.to_string_lossy());
            command.push(' ');
            command += &name;
        }
    }
    command
}

fn commit(output: &Output) -> Option<String> {
    let given = output
        .commit
        .clone()
        .or_else(|| std::env::var("ZIPFDB_COMMIT").ok());
    given.or_else(|| {
        let arguments = ["describe", "--always", "--dirty", "--exclude=*"];
        let output = Command::new("git").args(arguments).output().ok()?;
        let id = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        Some(id).filter(|id| !id.is_empty())
    })
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
    let driver = value("/proc/driver/nvidia/version", "NVRM version");
    let driver = driver
        .split_whitespace()
        .find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()))
        .map_or(String::new(), |version| format!(" (driver {version})"));
    let models = devices().into_iter().flatten();
    let release = value("/proc/sys/kernel/osrelease", "");
    Machine {
        cpu: value("/proc/cpuinfo", "model name"),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory: kibibytes * 1024,
        gpus: models
            .map(|gpu| format!("{}{driver}", gpu.facts().model))
            .collect(),
        system: format!("Linux {}", release.trim()),
    }
}

/// Seconds as the milliseconds of a cell.
pub fn milliseconds(seconds: f64) -> Cell {
    Cell::from(seconds * 1e3)
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
