//! Suite `gpu`: kernels on a CUDA device against their twins on the CPU and against plain arrays on the device.
//!
//! A corpus comes as text, or as a database that has it, which is a tenth of the size where a device is far away. Its
//! grammar is built anew from its tokens, once, by the CPU. Every part compares answers before it prints times.

mod arrays;
mod construct;
mod costs;
mod devices;
mod encode;
mod ingest;
mod kernels;
mod lookups;
mod mixed;
mod overlap;
mod primitives;
mod resident;
mod tasks;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use zipfdb_kernels::gpu::{Gpu, devices};
use zipfdb_storage::{FileBackend, SegmentReader};

use self::arrays::{Scratch, segment_paths};
use crate::Result;
use crate::report::{MeasuredCorpus, Output, Report};
pub use arrays::Arrays;
pub use costs::CONSTANTS;
pub use resident::{Asked, resident};

/// What the suite takes.
#[derive(Args)]
pub struct GpuOptions {
    /// A corpus: a file, a directory with all files below it, or a database. May be given several times.
    #[arg(long, num_args = 1.., value_name = "PATH")]
    corpus: Vec<PathBuf>,
    /// Only these parts.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    parts: Vec<Part>,
    #[command(flatten)]
    output: Output,
    /// Which CUDA device.
    #[arg(long, default_value_t = 0, value_name = "N")]
    device: usize,
    /// Items that primitives are timed with.
    #[arg(long, default_value_t = 1 << 26, value_name = "N")]
    items: u64,
    /// Part `kernels` does everything once and measures nothing: for other profilers.
    #[arg(long)]
    once: bool,
}

/// A part of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Scan, radix sort and the like, against the speed of a copy.
    Primitives,
    /// Tokens to a grammar.
    Construct,
    /// The tasks on all words.
    Tasks,
    /// Batches of look-ups and of inserts.
    Lookups,
    /// Batches of look-ups and edits in any order, through the database.
    Mixed,
    /// Grammars to sections of a segment file, by the CPU and by the device.
    Encode,
    /// Files to a durable segment, by stage, with construction on the device and without.
    Ingest,
    /// Segments that do not fit into memory together: copies beside work, and before it.
    Overlap,
    /// Several segments on one device, and on all.
    Devices,
    /// Every kernel that these launch: time, and bytes that it must move.
    Kernels,
}

/// Runs the suite.
pub fn run(options: &GpuOptions) -> Result<()> {
    let devices = devices().map_err(|absence| absence.to_string())?;
    let gpu: &Gpu = (devices.get(options.device))
        .ok_or_else(|| format!("no device {}: there are {}", options.device, devices.len()))?;
    let wants = |part| options.parts.is_empty() || options.parts.contains(&part);
    let mut report = Report::new("gpu", &options.output)?;
    if wants(Part::Primitives) {
        report.add_measured(MeasuredCorpus {
            name: "random numbers".to_owned(),
            bytes: options.items * 8,
            files: 1,
            is_utf8: true,
            tables: vec![primitives::run(gpu, options.items)?.detail()],
        })?;
    }
    for path in &options.corpus {
        let segments = Arrays::of_corpus(path)?;
        let mut measured: Vec<MeasuredCorpus> = Vec::new();
        for arrays in &segments {
            eprintln!("{}: {} tokens", arrays.name, arrays.tokens.len());
            let mut tables = Vec::new();
            if wants(Part::Construct) {
                tables.extend(construct::run(gpu, arrays)?);
            }
            if wants(Part::Tasks) {
                tables.extend(tasks::run(gpu, arrays)?);
            }
            if wants(Part::Lookups) {
                tables.push(lookups::run(gpu, arrays)?);
            }
            if wants(Part::Kernels) {
                tables.extend(kernels::run(gpu, arrays, options.once)?);
            }
            if wants(Part::Overlap) {
                tables.push(overlap::run(gpu, arrays)?.detail());
            }
            let is_utf8 = |terminal| std::str::from_utf8(arrays.token(terminal)).is_ok();
            measured.push(MeasuredCorpus {
                name: arrays.name.clone(),
                bytes: arrays.text_bytes,
                files: arrays.files.len(),
                is_utf8: (0..arrays.terminal_count()).all(is_utf8),
                tables,
            });
        }
        let mut whole = Vec::new();
        if wants(Part::Mixed) {
            whole.push(mixed::run(path, options.device, &segments)?);
        }
        if wants(Part::Devices) {
            whole.push(devices::run(path, options.device, &segments)?.detail());
        }
        if wants(Part::Encode) {
            whole.push(encode::run(path, gpu)?.detail());
        }
        if wants(Part::Ingest) {
            whole.extend(ingest::run(path, gpu, options.device, &segments)?);
        }
        if let [only] = &mut measured[..] {
            only.tables.append(&mut whole);
        } else if !whole.is_empty() {
            measured.push(MeasuredCorpus {
                name: path
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                bytes: measured.iter().map(|segment| segment.bytes).sum(),
                files: measured.iter().map(|segment| segment.files).sum(),
                is_utf8: measured.iter().all(|segment| segment.is_utf8),
                tables: whole,
            });
        }
        for one in measured {
            report.add_measured(one)?;
        }
    }
    report.finish(vec![
        "Every part compares its answers with those of the CPU and fails where they differ. Kernels: what the device works on \
         resident data; whole, with copies: from and to the host's memory."
            .to_owned(),
    ])
}

/// The constants of device work on each segment of a corpus, in order of [`CONSTANTS`]; none where there is no device.
pub fn costs(path: &Path) -> Result<Vec<[f64; CONSTANTS.len()]>> {
    let Ok([gpu, ..]) = devices() else {
        return Ok(Vec::new());
    };
    let scratch = Scratch::of_corpus(path)?;
    let segments = Arrays::of_corpus(&scratch.database)?;
    let paths = segment_paths(&scratch.database)?;
    let costs = segments.iter().zip(paths).map(|(arrays, path)| {
        let segment = SegmentReader::open(&FileBackend, &path)?;
        costs::costs(gpu, arrays, &segment)
    });
    costs.collect()
}
