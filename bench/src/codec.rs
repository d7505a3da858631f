//! Suite `codec`: packed text in blocks for warps (`zipfdb_kernels::gompresso`) against general compressors on all threads.
//!
//! All files of a corpus are one text in memory. Times are medians of runs over memory that was written before; every text that
//! is unpacked is compared. Other compressors get the text in blocks of 2 MB, which threads take from a common queue.

use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use clap::Args;
use rayon::{ThreadPool, ThreadPoolBuilder};
use zipfdb_bench_kernels::DevicePacked;
use zipfdb_kernels::gompresso::{
    Elimination, PackCodec, PackOptions, PackedReader, ReferenceRounds, References, pack,
};
use zipfdb_kernels::gpu::{Gpu, devices};

use crate::corpus::Corpus;
use crate::report::{Cell, MEGABYTE, MeasuredCorpus, Report, Table};
use crate::{Options, Result};

/// Bytes of a block of the other compressors.
const BLOCK_BYTES: usize = 2 << 20;

/// The orders of references, as the paper calls them.
const ORDERS: [(&str, References); 3] = [
    ("SC", References::Sequential),
    ("MRR", References::Rounds),
    ("DE", References::Direct),
];

/// The codecs, with and without references that need others of their group.
const CODECS: [(&str, PackCodec, Elimination); 6] = [
    ("Byte", PackCodec::Byte, Elimination::Off),
    ("Byte, DE", PackCodec::Byte, Elimination::References),
    (
        "Byte, DE of the paper",
        PackCodec::Byte,
        Elimination::BeforeGroup,
    ),
    ("Bit", PackCodec::Bit, Elimination::Off),
    ("Bit, DE", PackCodec::Bit, Elimination::References),
    (
        "Bit, DE of the paper",
        PackCodec::Bit,
        Elimination::BeforeGroup,
    ),
];

/// What the suite takes beside the options of all.
#[derive(Args)]
pub struct CodecOptions {
    #[command(flatten)]
    options: Options,
    /// Bytes of each corpus at most.
    #[arg(long, default_value_t = 64 << 20, value_name = "N")]
    bytes: u64,
    /// Leave out sizes of sub-blocks, blocks, windows and codes.
    #[arg(long)]
    no_ablations: bool,
}

/// A way to pack a corpus, measured.
struct Measured {
    text_bytes: usize,
    packed_bytes: usize,
    /// Seconds on all threads.
    pack: f64,
    /// Seconds of each run of each way to unpack.
    unpack: Vec<Vec<f64>>,
    rounds: ReferenceRounds,
}

impl Measured {
    /// The ratio, and MB/s to pack and to unpack.
    fn cells(&self) -> Vec<Cell> {
        let rate = |seconds: f64| self.text_bytes as f64 / MEGABYTE / seconds;
        let unpack = self.unpack.iter();
        let unpack = unpack.map(|runs| Cell::of_runs(runs.iter().map(|&run| rate(run))));
        [self.ratio(), Cell::from(rate(self.pack))]
            .into_iter()
            .chain(unpack)
            .collect()
    }

    fn ratio(&self) -> Cell {
        Cell::from(self.text_bytes as f64 / self.packed_bytes as f64)
    }

    /// Rounds of a group whose references are resolved in rounds: on average, and at most.
    fn round_cells(&self) -> [Cell; 2] {
        let ReferenceRounds {
            rounds,
            groups,
            rounds_max,
            ..
        } = self.rounds;
        [
            Cell::from(rounds as f64 / groups.max(1) as f64),
            Cell::from(f64::from(rounds_max)),
        ]
    }
}

/// What all measurements share.
struct Suite<'a> {
    corpus: &'a str,
    text: &'a [u8],
    runs: usize,
    threads: usize,
    /// Pools of one thread, and of all threads.
    pools: &'a [ThreadPool; 2],
}

/// Measures, prints and writes.
pub fn run(codec_options: &CodecOptions) -> Result<()> {
    let options = &codec_options.options;
    let runs = options.runs.max(1);
    let threads = options.threads.max(1);
    let pool = |threads| ThreadPoolBuilder::new().num_threads(threads).build();
    let pools = [pool(1)?, pool(threads)?];
    let mut notes = vec![
        format!("Medians of {runs} runs, MB/s of text: on 1 thread, on {threads}."),
        "DE: no reference needs another of its group; of the paper: all sources end before the group.".to_owned(),
    ];
    let found = devices();
    let gpu = match found {
        Ok(devices) => {
            let facts = devices[0].facts();
            notes.push(format!(
                "Device: {} ({}). nvCOMP is measured by bench/src/gpu/nvcomp.cu.",
                facts.model, facts.name
            ));
            Some(&devices[0])
        }
        Err(absence) => {
            notes.push(format!("No device: {absence}."));
            None
        }
    };
    let mut report = Report::new("codec", &options.output)?;
    for path in &options.corpus {
        let corpus = Corpus::open(path)?;
        let mut text = Vec::new();
        corpus
            .reader()
            .take(codec_options.bytes)
            .read_to_end(&mut text)?;
        let suite = Suite {
            corpus: &corpus.name,
            text: &text,
            runs,
            threads,
            pools: &pools,
        };
        let mut tables = vec![suite.codecs()?, suite.others()?];
        if !codec_options.no_ablations {
            tables.push(suite.ablations()?.detail());
        }
        if let Some(gpu) = gpu {
            tables.extend(suite.device(gpu)?);
        }
        report.add_measured(MeasuredCorpus {
            name: corpus.name.clone(),
            bytes: text.len() as u64,
            files: corpus.files.len(),
            is_utf8: corpus.is_utf8()?,
            tables,
        })?;
    }
    report.finish(notes)
}

impl Suite<'_> {
    /// Both codecs: sizes, and speeds of all orders.
    fn codecs(&self) -> Result<Table> {
        let titles = [
            "ratio",
            "pack",
            "SC",
            "SC all",
            "MRR",
            "MRR all",
            "DE",
            "DE all",
            "rounds",
            "most rounds",
        ];
        let mut table = Table::new("MB/s of ours", titles);
        for (name, codec, elimination) in CODECS {
            let options = PackOptions {
                elimination,
                ..PackOptions::new(codec)
            };
            let measured = self.measure(name, &options, &ORDERS)?;
            let mut cells = measured.cells();
            cells.extend(measured.round_cells());
            table.row(name, cells);
        }
        Ok(table)
    }

    /// Sizes of what the format leaves open, each alone, with and without elimination.
    fn ablations(&self) -> Result<Table> {
        let titles = ["ratio", "ratio DE", "SC", "SC all", "rounds", "most rounds"];
        let mut table = Table::new("MB/s by size", titles);
        let (byte, bit) = (
            PackOptions::new(PackCodec::Byte),
            PackOptions::new(PackCodec::Bit),
        );
        let mut cases = Vec::new();
        for sub_block in [8, 16, 32, 64] {
            cases.push((
                format!("Bit, sub-blocks of {sub_block}"),
                PackOptions { sub_block, ..bit },
            ));
        }
        for code_bits in 9..=12 {
            cases.push((
                format!("Bit, codes of {code_bits} bits"),
                PackOptions { code_bits, ..bit },
            ));
        }
        for (codec, options) in [("Byte", byte), ("Bit", bit)] {
            for block_size in (16..=20).map(|bits| 1 << bits) {
                let name = format!("{codec}, blocks of {} KiB", block_size >> 10);
                cases.push((
                    name,
                    PackOptions {
                        block_size,
                        ..options
                    },
                ));
            }
            for window in (13..=16).map(|bits| 1 << bits) {
                let name = format!("{codec}, windows of {} KiB", window >> 10);
                cases.push((name, PackOptions { window, ..options }));
            }
        }
        for (name, options) in cases {
            let measured = self.measure(&name, &options, &ORDERS[..2])?;
            let direct = PackOptions {
                elimination: Elimination::References,
                ..options
            };
            let direct = self.measure(&format!("{name}, DE"), &direct, &[])?;
            let mut cells = vec![measured.ratio(), direct.ratio()];
            cells.extend(&measured.cells()[2..4]);
            cells.extend(measured.round_cells());
            table.row(name, cells);
        }
        Ok(table)
    }

    /// Packs, and unpacks in some orders on one thread and on all.
    fn measure(
        &self,
        name: &str,
        options: &PackOptions,
        orders: &[(&str, References)],
    ) -> Result<Measured> {
        let stop = AtomicBool::new(false);
        let all = &self.pools[1];
        let begun = Instant::now();
        let packed = all.install(|| pack(self.text, options, &stop))?;
        let pack = begun.elapsed().as_secs_f64();
        let reader = PackedReader::open(&packed)?;
        let mut text = vec![1; self.text.len()];
        let (mut unpack, mut rounds) = (Vec::new(), ReferenceRounds::default());
        for &(_, order) in orders {
            for pool in self.pools {
                let mut found = Ok(ReferenceRounds::default());
                let seconds = times(self.runs, || {
                    found = pool.install(|| reader.unpack_to(&mut text, order, &stop));
                });
                let found = found?;
                if order == References::Rounds {
                    rounds = found;
                }
                self.compare(name, &text)?;
                unpack.push(seconds);
            }
        }
        Ok(Measured {
            text_bytes: self.text.len(),
            packed_bytes: packed.len(),
            pack,
            unpack,
            rounds,
        })
    }

    fn compare(&self, name: &str, text: &[u8]) -> Result<()> {
        if text == self.text {
            Ok(())
        } else {
            Err(format!("{}: {name} gives another text", self.corpus).into())
        }
    }

    /// The other compressors.
    fn others(&self) -> Result<Table> {
        let mut table = Table::new("MB/s", ["ratio", "pack", "unpack", "unpack all"]);
        for other in OtherCompressor::ALL {
            let begun = Instant::now();
            let blocks = self.text.chunks(BLOCK_BYTES).collect();
            let packed = in_queue(self.threads, blocks, |text| other.pack(text))?;
            let pack = begun.elapsed().as_secs_f64();
            let mut text = vec![1; self.text.len()];
            let mut unpack = Vec::new();
            for threads in [1, self.threads] {
                let mut found = Ok(Vec::new());
                let seconds = times(self.runs, || {
                    let blocks = packed.iter().zip(text.chunks_mut(BLOCK_BYTES)).collect();
                    found = in_queue(threads, blocks, |(packed, text): (&Vec<u8>, &mut [u8])| {
                        other.unpack(packed, text)
                    });
                });
                found?;
                self.compare(other.name(), &text)?;
                unpack.push(seconds);
            }
            let measured = Measured {
                text_bytes: self.text.len(),
                packed_bytes: packed.iter().map(Vec::len).sum(),
                pack,
                unpack,
                rounds: ReferenceRounds::default(),
            };
            table.row(other.name(), measured.cells());
        }
        Ok(table)
    }

    /// Unpacks on a device: with both copies, with that of the packed text, without any.
    fn device(&self, gpu: &Gpu) -> Result<[Table; 2]> {
        let stop = AtomicBool::new(false);
        let [small, large] = [1 << 16, 1 << 18].map(|block_size| -> Result<Table> {
            let title = format!("GB/s on the device, blocks of {} KiB", block_size >> 10);
            let mut table = Table::new(title, ["ratio", "In/Out", "In", "No PCIe"]);
            for (name, codec, elimination) in CODECS {
                let options = PackOptions {
                    elimination,
                    block_size,
                    ..PackOptions::new(codec)
                };
                let packed = self.pools[1].install(|| pack(self.text, &options, &stop))?;
                let reader = PackedReader::open(&packed)?;
                let resident = DevicePacked::upload(gpu, &reader)?;
                let is_direct = elimination != Elimination::Off;
                // Where no reference needs another all orders but the first are the same.
                let orders = &ORDERS[if is_direct { 2 } else { 0 }..if is_direct { 3 } else { 2 }];
                for &(way, order) in orders {
                    let mut text = vec![1; self.text.len()];
                    // Compiles and allocates.
                    gpu.download_from(&resident.unpack(gpu, order)?, 0, &mut text)?;
                    self.compare(name, &text)?;
                    let both = try_times(self.runs, || {
                        let packed = DevicePacked::upload(gpu, &reader)?;
                        gpu.download_from(&packed.unpack(gpu, order)?, 0, &mut text)?;
                        Ok(())
                    })?;
                    let upload = try_times(self.runs, || {
                        let packed = DevicePacked::upload(gpu, &reader)?;
                        packed.unpack(gpu, order)?;
                        Ok(gpu.synchronize()?)
                    })?;
                    let none = try_times(self.runs, || {
                        resident.unpack(gpu, order)?;
                        Ok(gpu.synchronize()?)
                    })?;
                    let ratio = self.text.len() as f64 / packed.len() as f64;
                    let rates = [both, upload, none].map(|runs| {
                        Cell::of_runs(runs.iter().map(|run| self.text.len() as f64 / 1e9 / run))
                    });
                    let cells = [Cell::from(ratio)].into_iter().chain(rates);
                    table.row(format!("{name}, {way}"), cells);
                }
            }
            Ok(table)
        });
        Ok([small?, large?.detail()])
    }
}

/// A general compressor of blocks.
#[derive(Clone, Copy)]
enum OtherCompressor {
    Zlib6,
    Lz4,
    Snappy,
    Zstd3,
}

impl OtherCompressor {
    const ALL: [OtherCompressor; 4] = [
        OtherCompressor::Zlib6,
        OtherCompressor::Lz4,
        OtherCompressor::Snappy,
        OtherCompressor::Zstd3,
    ];

    fn name(self) -> &'static str {
        match self {
            OtherCompressor::Zlib6 => "zlib -6",
            OtherCompressor::Lz4 => "LZ4",
            OtherCompressor::Snappy => "Snappy",
            OtherCompressor::Zstd3 => "Zstd -3",
        }
    }

    fn pack(self, text: &[u8]) -> Result<Vec<u8>> {
        Ok(match self {
            OtherCompressor::Zlib6 => {
                let config = zlib_rs::DeflateConfig::new(6);
                let mut bytes = vec![0; zlib_rs::compress_bound(text.len())];
                let (packed, code) = zlib_rs::compress_slice(&mut bytes, text, config);
                zlib_ok(code)?;
                packed.to_vec()
            }
            OtherCompressor::Lz4 => lz4_flex::block::compress(text),
            OtherCompressor::Snappy => snap::raw::Encoder::new().compress_vec(text)?,
            OtherCompressor::Zstd3 => zstd::bulk::compress(text, 3)?,
        })
    }

    /// Unpacks to a block of the right size.
    fn unpack(self, packed: &[u8], text: &mut [u8]) -> Result<()> {
        match self {
            OtherCompressor::Zlib6 => {
                let config = zlib_rs::InflateConfig::default();
                zlib_ok(zlib_rs::decompress_slice(text, packed, config).1)?;
            }
            OtherCompressor::Lz4 => drop(lz4_flex::block::decompress_into(packed, text)?),
            OtherCompressor::Snappy => drop(snap::raw::Decoder::new().decompress(packed, text)?),
            OtherCompressor::Zstd3 => drop(zstd::bulk::decompress_to_buffer(packed, text)?),
        }
        Ok(())
    }
}

fn zlib_ok(code: zlib_rs::ReturnCode) -> Result<()> {
    match code {
        zlib_rs::ReturnCode::Ok => Ok(()),
        other => Err(format!("zlib: {other:?}").into()),
    }
}

/// Calls a function with each block, on some threads, which take blocks from a common queue.
fn in_queue<B: Send, T: Send>(
    threads: usize,
    blocks: Vec<B>,
    work: impl Fn(B) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let queue: Vec<Mutex<Option<B>>> = blocks
        .into_iter()
        .map(|block| Mutex::new(Some(block)))
        .collect();
    let done: Vec<Mutex<Option<Result<T>>>> = queue.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(block) = queue.get(index) else {
                        return;
                    };
                    let block = block.lock().map_or(None, |mut block| block.take());
                    let result = block.map(&work);
                    if let Ok(mut done) = done[index].lock() {
                        *done = result;
                    }
                }
            });
        }
    });
    let results = done
        .into_iter()
        .map(|done| done.into_inner().ok().flatten());
    results
        .map(|result| result.ok_or("a thread has failed")?)
        .collect()
}

/// Seconds of each run.
fn times(runs: usize, mut run: impl FnMut()) -> Vec<f64> {
    let timed = |_| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_secs_f64()
    };
    (0..runs).map(timed).collect()
}

/// The same of what can fail.
fn try_times(runs: usize, mut run: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let mut failed = None;
    let seconds = times(runs, || failed = failed.take().or(run().err()));
    failed.map_or(Ok(seconds), Err)
}
