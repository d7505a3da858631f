//! Suite `records`: many small texts with metadata, in, at rest and asked.
//!
//! Every step is a process of its own. Answers that SQLite can give too are compared, and the suite fails where two differ. Files
//! are made of a corpus and a seed, in sizes of `--scale`.

mod fts5;
mod made;
mod ours;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::compressors::Compressor;
use crate::corpus::Corpus;
use crate::engines;
use crate::report::{Cell, MEGABYTE, MeasuredCorpus, Report, Table, milliseconds};
use crate::search::timed::Asked;
use crate::{Options, Result};
use made::Made;

/// What the suite takes beside the options of all.
#[derive(Args)]
pub struct RecordsOptions {
    #[command(flatten)]
    options: Options,
    /// Only these workloads.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    workloads: Vec<Workload>,
    /// Sizes of all workloads over the full ones: 0.001 makes posts of 1 MB.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    scale: f64,
    /// The word that is counted: in lower case, of letters of ASCII.
    #[arg(long, default_value = "security", value_name = "WORD")]
    word: String,
    /// A directory that gets a copy of the made files.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Leaves out xz and zstd -19, which take minutes a GB.
    #[arg(long)]
    without_compressors: bool,
    /// Seconds after which no more questions of a kind are asked of an engine.
    #[arg(long, default_value_t = 30.0, value_name = "S")]
    budget: f64,
    /// Where everything that is made begins.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// Records of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// A million JSON lines of 1 kB.
    Posts,
    /// Ten million JSON lines of 200 B.
    Short,
    /// 230 MB of access log, a record a line.
    Log,
    /// 50,000 small files.
    Files,
    /// The same as tar.zst.
    Archive,
}

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Task {
    /// COPY of the file.
    Copy,
    /// COPY of the same texts as one file of plain text.
    Plain,
    /// Records through the API.
    Append,
    Ask,
    Fts5,
    Fts5Ask,
}

/// One step.
#[derive(Args)]
pub struct Job {
    #[arg(long)]
    task: Task,
    #[arg(long)]
    workload: Workload,
    /// A file of records, or a directory.
    #[arg(long)]
    source: PathBuf,
    /// Where the database is, or an empty directory.
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    word: String,
    #[arg(long)]
    threads: usize,
    #[arg(long)]
    runs: usize,
    #[arg(long)]
    budget: f64,
    #[arg(long)]
    seed: u64,
}

/// What a step took.
#[derive(Serialize, Deserialize)]
struct Outcome {
    seconds: f64,
    memory_max: u64,
    /// Bytes of all segments, or of all files of the database.
    size: u64,
    /// Bytes of sections of all segments.
    parts: Vec<(String, u64)>,
    asked: Vec<Asked>,
}

impl Outcome {
    fn find(&self, name: &str) -> Option<&Asked> {
        self.asked.iter().find(|one| one.name == name)
    }
}

/// Files of a workload: what is imported, and its texts alone in one file.
struct Sources {
    records: PathBuf,
    plain: PathBuf,
    made: Made,
}

impl Workload {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Bytes at scale 1.
    fn bytes(self) -> f64 {
        match self {
            Workload::Posts => 1e9,
            Workload::Short => 2e9,
            Workload::Log => 230e6,
            Workload::Files | Workload::Archive => 100e6,
        }
    }

    /// Makes its files in a folder.
    fn make(self, corpus: &Corpus, records: &RecordsOptions, folder: &Path) -> Result<Sources> {
        // Sizes are far below 2^53.
        let bytes = (self.bytes() * records.scale) as u64;
        let plain = folder.join("plain.txt");
        let mut sources = Sources {
            records: folder.join("records.jsonl"),
            plain: plain.clone(),
            made: Made::default(),
        };
        match self {
            Workload::Posts => {
                sources.made =
                    made::json_lines(corpus, &sources.records, 800, bytes, records.seed)?;
            }
            Workload::Short => {
                sources.made =
                    made::json_lines(corpus, &sources.records, 110, bytes, records.seed)?;
            }
            Workload::Log => {
                sources.records = folder.join("access.log");
                sources.plain = sources.records.clone();
                sources.made = made::access_log(&sources.records, bytes, records.seed)?;
                return Ok(sources);
            }
            Workload::Files | Workload::Archive => {
                let lines = folder.join("files.jsonl");
                sources.made = made::json_lines(corpus, &lines, 2_000, bytes, records.seed)?;
                sources.records = match self {
                    Workload::Files => folder.join("files"),
                    _ => folder.join("files.tar.zst"),
                };
                write_files(&lines, &sources.records)?;
                sources.made.bytes = sources.made.text_bytes;
                write_texts(&lines, &plain)?;
                fs::remove_file(lines)?;
                return Ok(sources);
            }
        }
        write_texts(&sources.records, &plain)?;
        Ok(sources)
    }
}

/// The texts of JSON lines, joined in their order.
fn write_texts(lines: &Path, target: &Path) -> Result<()> {
    use std::io::Write;
    let mut out = std::io::BufWriter::new(File::create(target)?);
    ours::for_each_record(Workload::Posts, lines, |text, _| {
        Ok(out.write_all(text.as_bytes())?)
    })?;
    Ok(out.flush()?)
}

/// The texts of JSON lines as files of a directory, a hundred in each, or of a tar.zst.
fn write_files(lines: &Path, target: &Path) -> Result<()> {
    let is_archive = target.extension().is_some();
    let mut number = 0u64;
    let mut archive = if is_archive {
        let packed = zstd::Encoder::new(File::create(target)?, 3)?;
        Some(tar::Builder::new(packed))
    } else {
        None
    };
    ours::for_each_record(Workload::Posts, lines, |text, _| {
        let name = format!("{:04}/{number:07}.txt", number / 100);
        number += 1;
        match &mut archive {
            Some(archive) => {
                let mut header = tar::Header::new_ustar();
                header.set_size(text.len() as u64);
                header.set_mode(0o644);
                header.set_cksum();
                archive.append_data(&mut header, name, text.as_bytes())?;
            }
            None => {
                let path = target.join(name);
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                fs::write(path, text)?;
            }
        }
        Ok(())
    })?;
    if let Some(archive) = archive {
        archive.into_inner()?.finish()?;
    }
    Ok(())
}

impl RecordsOptions {
    fn wants(&self, workload: Workload) -> bool {
        self.workloads.is_empty() || self.workloads.contains(&workload)
    }

    fn child(
        &self,
        task: Task,
        workload: Workload,
        source: &Path,
        directory: &Path,
    ) -> Result<Outcome> {
        let name = task.to_possible_value();
        let name = name.map_or_else(String::new, |value| value.get_name().to_owned());
        eprintln!("{}: {name}", workload.name());
        fs::create_dir_all(directory)?;
        let (workload, options) = (workload.name(), &self.options);
        let numbers = [
            options.threads.to_string(),
            options.runs.max(1).to_string(),
            self.budget.to_string(),
            self.seed.to_string(),
        ];
        let arguments = [
            ("--task", name.as_ref()),
            ("--workload", workload.as_ref()),
            ("--source", source.as_os_str()),
            ("--directory", directory.as_os_str()),
            ("--word", self.word.as_ref()),
            ("--threads", numbers[0].as_ref()),
            ("--runs", numbers[1].as_ref()),
            ("--budget", numbers[2].as_ref()),
            ("--seed", numbers[3].as_ref()),
        ];
        engines::run_self("records-child", &arguments)
    }
}

/// Measures, compares, prints and writes.
pub fn run(records: &RecordsOptions) -> Result<()> {
    let mut report = Report::new("records", &records.options.output)?;
    for path in &records.options.corpus {
        let corpus = Corpus::open(path)?;
        let workloads = Workload::value_variants().iter().copied();
        for workload in workloads.filter(|&workload| records.wants(workload)) {
            let scratch = engines::database_directory(&records.options)?;
            let sources = workload.make(&corpus, records, scratch.path())?;
            if let Some(folder) = records
                .keep
                .as_deref()
                .filter(|_| sources.records.is_file())
            {
                fs::create_dir_all(folder)?;
                let name = sources
                    .records
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy();
                let name = name.replace("records.", &format!("{}.", workload.name()));
                fs::copy(&sources.records, folder.join(name))?;
            }
            let tables = measure(workload, &sources, records, scratch.path())?;
            report.add_measured(MeasuredCorpus {
                name: format!("{} of {}", workload.name(), corpus.name),
                bytes: sources.made.bytes,
                files: usize::try_from(sources.made.records)?,
                is_utf8: true,
                tables,
            })?;
        }
    }
    report.finish(notes(records))
}

/// The tables of a workload.
fn measure(
    workload: Workload,
    sources: &Sources,
    records: &RecordsOptions,
    scratch: &Path,
) -> Result<Vec<Table>> {
    let child = |task, source: &Path, folder: &str| {
        records.child(task, workload, source, &scratch.join(folder))
    };
    let has_columns = matches!(workload, Workload::Posts | Workload::Short | Workload::Log);
    let mut imports = vec![
        (
            "plain text, COPY",
            child(Task::Plain, &sources.plain, "plain")?,
        ),
        ("ZipfDB, COPY", child(Task::Copy, &sources.records, "copy")?),
    ];
    let mut folder = "copy";
    if has_columns {
        folder = "append";
        imports.push((
            "ZipfDB, append_records",
            child(Task::Append, &sources.records, folder)?,
        ));
    }
    fs::remove_dir_all(scratch.join("plain"))?;
    let mut answers = vec![("ZipfDB", child(Task::Ask, &sources.records, folder)?)];
    if has_columns && records.options.wants("fts5") {
        imports.push(("SQLite FTS5", child(Task::Fts5, &sources.records, "fts5")?));
        answers.push((
            "SQLite FTS5",
            child(Task::Fts5Ask, &sources.records, "fts5")?,
        ));
        compare(&answers)?;
    }
    let mut compressed = Vec::new();
    if !records.without_compressors {
        let whole = Corpus::open(match workload {
            Workload::Files | Workload::Archive => &sources.plain,
            _ => &sources.records,
        })?;
        for compressor in [Compressor::Zstd19Long, Compressor::Xz6] {
            if records.options.wants(compressor.name()) {
                compressed.push((compressor, compressor.size(&whole)?));
            }
        }
    }
    Ok(vec![
        table_of_imports(&sources.made, &imports, &compressed),
        table_of_questions(&answers),
    ])
}

/// # Errors
/// If numbers that do not depend on what a word is differ.
fn compare(answers: &[(&str, Outcome)]) -> Result<()> {
    const SAME: [&str; 3] = ["records by year", "errors by hour", "bytes by status"];
    let [(_, ours), (_, theirs)] = answers else {
        return Ok(());
    };
    for name in SAME {
        if let (Some(our), Some(their)) = (ours.find(name), theirs.find(name))
            && our.answer != their.answer
        {
            return Err(format!(
                "{name}: {} of ZipfDB, {} of SQLite",
                our.answer, their.answer
            )
            .into());
        }
    }
    Ok(())
}

fn table_of_imports(
    made: &Made,
    imports: &[(&str, Outcome)],
    compressed: &[(Compressor, u64)],
) -> Table {
    let columns = [
        "MB/s",
        "MB",
        "of zstd -19",
        "of xz -6",
        "peak MB",
        "file table, B a record",
        "metadata, B a record",
    ];
    let mut table = Table::new("import", columns);
    let of = |compressor: Compressor| {
        let mut found = compressed.iter();
        let found = found.find(|(other, _)| other.name() == compressor.name());
        found.map(|(_, size)| *size as f64)
    };
    let ratios = |size: u64| {
        [Compressor::Zstd19Long, Compressor::Xz6]
            .map(|compressor| Cell::from(of(compressor).map(|other| size as f64 / other)))
    };
    for (title, outcome) in imports {
        let [zstd, xz] = ratios(outcome.size);
        let part = |name: &str| {
            let mut parts = outcome.parts.iter();
            let found = parts.find(|(part, _)| part == name);
            Cell::from(found.map(|(_, size)| *size as f64 / made.records as f64))
        };
        // Plain text is the texts alone in one file.
        let is_plain = title.starts_with("plain");
        let bytes = if is_plain {
            made.text_bytes
        } else {
            made.bytes
        };
        let (files, metadata) = if is_plain {
            (Cell::Empty, Cell::Empty)
        } else {
            (part("files"), part("metadata"))
        };
        table.row(
            *title,
            [
                Cell::from(bytes as f64 / MEGABYTE / outcome.seconds),
                Cell::from(outcome.size as f64 / MEGABYTE),
                zstd,
                xz,
                Cell::from(outcome.memory_max as f64 / MEGABYTE),
                files,
                metadata,
            ],
        );
    }
    for (compressor, size) in compressed {
        let [zstd, xz] = ratios(*size);
        let mut cells = vec![Cell::Empty, Cell::from(*size as f64 / MEGABYTE), zstd, xz];
        cells.resize(columns.len(), Cell::Empty);
        table.row(compressor.title(), cells);
    }
    table
}

fn table_of_questions(answers: &[(&str, Outcome)]) -> Table {
    let columns = answers
        .iter()
        .flat_map(|(title, _)| [format!("{title}, first"), format!("{title}, warm")]);
    let mut table = Table::new("ms", columns.collect::<Vec<String>>());
    let Some((_, ours)) = answers.first() else {
        return table;
    };
    for one in &ours.asked {
        let cells = answers.iter().flat_map(|(_, outcome)| {
            outcome.find(&one.name).map_or([Cell::Empty; 2], |found| {
                [
                    milliseconds(found.first),
                    Cell::from(found.warm().map(|seconds| seconds * 1e3)),
                ]
            })
        });
        let name = match one.name.as_str() {
            "look-up by name" => format!("{} look-ups by name", ours::lookups()),
            name => name.to_owned(),
        };
        table.row(name, cells.collect::<Vec<Cell>>());
    }
    let peak = answers.iter().flat_map(|(_, outcome)| {
        [
            Cell::from(outcome.memory_max as f64 / MEGABYTE),
            Cell::Empty,
        ]
    });
    table.row("peak MB of all", peak.collect::<Vec<Cell>>());
    table
}

/// The child's side: does the step and prints the outcome.
pub fn run_child(job: &Job) -> Result<()> {
    let outcome = match job.task {
        Task::Copy | Task::Plain | Task::Append => ours::import(job)?,
        Task::Ask => ours::ask(job)?,
        Task::Fts5 => fts5::import(job)?,
        Task::Fts5Ask => fts5::ask(job)?,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

fn notes(records: &RecordsOptions) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Scale {}, seed {}, {} threads. MB/s are of the file that is imported: JSON lines, the log, the texts of files; of plain text those of its \
             texts, which are one file. Imports end with a durable database that can be queried, without recompression in the background; records of \
             the API come in transactions of 20,000 and are recompressed at the end. Ratios are to compressors over the same file, one thread.",
            records.scale, records.seed, records.options.threads
        ),
        format!(
            "Questions are asked in a process of its own of the database by the API, or by COPY where there are no columns; `first snapshot` reads \
             the file tables; the word is `{}`.",
            records.word
        ),
    ];
    if records.options.wants("fts5") {
        notes.push(fts5::configuration());
    }
    notes
}
