//! Part `kernels`: every kernel that construction, tasks and look-ups of a corpus launch.
//!
//! The tables have for each stage and kernel: launches and microseconds of a pass, the longest launch, and, where the wrapper says what
//! a launch must read and write at least, the bytes, the speed and its part of what a copy of large arrays moves a second on an
//! H200: arrays that are gone through, not what is looked up in others. Kernels have none whose work is not known before
//! it is done: those that follow bodies or lists (`ends`, `windows`, `lengths`, `row_lengths`, `level_words`, `copy_texts`,
//! `extract`, `merge`, `word_rows`, `small_levels`, `rank`, `sort_tile`, `measure_level`), search (`search_step`), fill hash
//! tables (`level_weights`), or write the rows or names that they find (`window_rows`, `run_firsts`, `run_entries`, `name`,
//! `number`, `add_over`); nor of `row_bounds` and `level_offset`, a few numbers each. Events around a launch take about 2 us, which short ones seem to take longer. `scripts/gpu-profile.sh` has the same from
//! hardware counters, and why a kernel is slow.

use std::sync::atomic::AtomicBool;

use zipfdb_bench_kernels::{KernelTime, Profile, row_tops};
use zipfdb_kernels::gpu::{
    self, DeviceGrammar, DeviceInserts, DeviceQueries, DeviceStructures, DeviceWords, Extract,
    FileUses, Gpu, GpuError, Terminals, WordQuery, file_word_counts, word_file_counts,
    words_by_count,
};
use zipfdb_kernels::{
    Constructed, FileOrder, GrammarView, Insert, Parameters, Signatures, WordGrammar,
};

use super::arrays::Arrays;
use super::lookups::{Numbers, draw_extracts, draw_inserts, draw_queries};
use crate::Result;
use crate::report::{Cell, Table};

/// What a copy of large arrays reads and writes, in bytes a nanosecond.
const COPY_SPEED: f64 = 4_300.0;

/// Passes whose times are printed, on average.
const PASSES: u64 = 5;

/// Bytes for windows of n-grams.
const MEMORY: usize = 16 << 30;

type Outcome<T> = std::result::Result<T, GpuError>;

/// Launches the kernels of a stage.
type Stage<'a> = &'a dyn Fn(&Gpu) -> Outcome<()>;

/// Profiles a corpus; with `once` a single pass without tables, for other profilers.
pub fn run(gpu: &Gpu, arrays: &Arrays, once: bool) -> Result<Vec<Table>> {
    let work = Work::new(gpu, &arrays.tokens, &arrays.file_offsets, arrays)?;
    let batches = Batches::new(gpu, &work, arrays)?;
    let stages: [(&str, Stage<'_>); 3] = [
        ("construction", &|gpu| work.construct(gpu)),
        ("tasks", &|gpu| work.tasks(gpu)),
        ("look-ups", &|gpu| batches.run(gpu, &work)),
    ];
    if once {
        for (_, stage) in stages {
            stage(gpu)?;
        }
        gpu.synchronize()?;
        return Ok(Vec::new());
    }
    let mut tables = Vec::new();
    let (profiled, profile) = Profile::of(gpu);
    for (name, stage) in stages {
        // Compiles what is not compiled yet, and takes memory.
        stage(&profiled)?;
        profile.take()?;
        for _ in 0..PASSES {
            stage(&profiled)?;
        }
        tables.push(table(name, &profile.take()?));
    }
    Ok(tables)
}

/// The kernels of a stage, which come in order of their time.
fn table(stage: &str, kernels: &[KernelTime]) -> Table {
    let titles = ["launches", "us", "most us", "MB", "GB/s", "% of a copy"];
    let mut table = Table::new(format!("kernels of {stage}"), titles).detail();
    let passes = PASSES as f64;
    for kernel in kernels {
        let time = kernel.nanoseconds as f64;
        let bytes = kernel.bytes.map(|bytes| bytes as f64);
        // Bytes a nanosecond are GB/s.
        let speed = bytes.map(|bytes| bytes / time);
        let cells = [
            Cell::from(kernel.launches as f64 / passes),
            Cell::from(time / passes / 1e3),
            Cell::from(kernel.nanoseconds_max as f64 / 1e3),
            Cell::from(bytes.map(|bytes| bytes / passes / 1e6)),
            Cell::from(speed),
            Cell::from(speed.map(|speed| speed / COPY_SPEED * 100.0)),
        ];
        table.row(format!("{} ({})", kernel.name, kernel.source), cells);
    }
    table
}

/// A corpus on the host, with its grammars.
pub struct Work<'a> {
    tokens: &'a [u32],
    file_offsets: &'a [u32],
    terminals: u32,
    grammar: Constructed,
    words: WordGrammar,
}

impl<'a> Work<'a> {
    /// Builds the grammars of some tokens of a corpus.
    pub fn new(
        gpu: &Gpu,
        tokens: &'a [u32],
        file_offsets: &'a [u32],
        arrays: &Arrays,
    ) -> Result<Work<'a>> {
        let terminals = arrays.terminal_count();
        let go = AtomicBool::new(false);
        let parameters = Parameters::default();
        let grammar = gpu::construct(
            gpu,
            tokens,
            file_offsets,
            terminals,
            &parameters,
            &mut |_| {},
            &go,
        )?
        .download(gpu)?;
        // Words are fewer than terminals.
        let word_count = arrays.words.len() as u32;
        let words = WordGrammar::new(view(&grammar, terminals), &arrays.word_of, word_count);
        Ok(Work {
            tokens,
            file_offsets,
            terminals,
            grammar,
            words,
        })
    }

    /// The grammar over tokens.
    pub fn view(&self) -> GrammarView<'_> {
        view(&self.grammar, self.terminals)
    }

    /// The grammar over words.
    pub fn word_view(&self) -> GrammarView<'_> {
        self.words.view()
    }

    /// Builds the grammar from tokens.
    pub fn construct(&self, gpu: &Gpu) -> Outcome<()> {
        let tokens = gpu.upload(self.tokens)?;
        let file_offsets = gpu.upload(self.file_offsets)?;
        let parameters = Parameters::default();
        gpu::construct_resident(
            gpu,
            &tokens,
            &file_offsets,
            self.terminals,
            &parameters,
            &mut |_| {},
            &AtomicBool::new(false),
        )
        .map(drop)
    }

    fn tasks(&self, gpu: &Gpu) -> Outcome<()> {
        let view = self.word_view();
        let words = DeviceWords::upload(gpu, view)?;
        let counts = gpu::weights(gpu, &words)?;
        let most = self.tokens.len() as u32;
        words_by_count(gpu, &counts, view.terminal_count, most)?;
        let uses = FileUses::new(gpu, &words)?;
        word_file_counts(gpu, &words, &uses)?;
        row_tops(gpu, &file_word_counts(gpu, &words, &uses)?, 10, None)?;
        gpu::ngram_counts(gpu, &words, &counts, 3, MEMORY)?;
        let order = FileOrder::Count;
        gpu::ngram_file_counts(gpu, &words, &counts, &uses, 3, order, MEMORY).map(drop)
    }
}

fn view(grammar: &Constructed, terminals: u32) -> GrammarView<'_> {
    GrammarView {
        terminal_count: terminals,
        rule_offsets: &grammar.rule_offsets,
        symbols: &grammar.symbols,
        level_offsets: &grammar.level_offsets,
        root_offsets: &grammar.root_offsets,
        root: &grammar.root,
    }
}

/// Batches of look-ups of a corpus, with what the host gives to structures.
pub struct Batches<'a> {
    arrays: &'a Arrays,
    signatures: Vec<u32>,
    /// Counts and searches.
    pub queries: Vec<WordQuery>,
    /// 64 bytes each.
    pub extracts: Vec<Extract>,
    long_extracts: Vec<Extract>,
    /// Bytes of each file.
    pub sizes: Vec<u64>,
    /// Inserts of 64 bytes, anywhere.
    pub inserts: Vec<Insert>,
    appends: Vec<Insert>,
}

impl<'a> Batches<'a> {
    /// Draws batches.
    pub fn new(gpu: &Gpu, work: &Work<'_>, arrays: &'a Arrays) -> Result<Batches<'a>> {
        let bits = Signatures::new(work.view(), |terminal| arrays.word_of[terminal as usize]).bits;
        let signatures = bits[..arrays.terminal_count() as usize].to_vec();
        let mut numbers = Numbers(1);
        let mut batches = Batches {
            arrays,
            signatures,
            queries: draw_queries(arrays, &mut numbers),
            extracts: Vec::new(),
            long_extracts: Vec::new(),
            sizes: Vec::new(),
            inserts: Vec::new(),
            appends: Vec::new(),
        };
        let structures = batches.structures(gpu, work)?;
        let starts = structures.file_starts;
        batches.sizes = starts.windows(2).map(|range| range[1] - range[0]).collect();
        batches.extracts = draw_extracts(&starts, 64, &mut numbers);
        batches.long_extracts = draw_extracts(&starts, 4096, &mut numbers);
        (batches.inserts, batches.appends) = draw_inserts(&starts, &mut numbers);
        Ok(batches)
    }

    /// Copies the grammar to the device and derives what look-ups need.
    pub fn structures(&self, gpu: &Gpu, work: &Work<'_>) -> Outcome<DeviceStructures> {
        let known = Terminals {
            offsets: &self.arrays.offsets,
            bytes: &self.arrays.bytes,
            signatures: &self.signatures,
        };
        DeviceStructures::new(gpu, DeviceGrammar::upload(gpu, work.view())?, known)
    }

    fn run(&self, gpu: &Gpu, work: &Work<'_>) -> Outcome<()> {
        let structures = self.structures(gpu, work)?;
        let queries = DeviceQueries::upload(gpu, &self.queries)?;
        structures.count(gpu, &queries)?;
        structures.search(gpu, &queries)?;
        structures.extract(gpu, &self.extracts)?;
        structures.extract(gpu, &self.long_extracts)?;
        for inserts in [&self.inserts, &self.appends] {
            // Inserts that do not fit are an answer too.
            DeviceInserts::upload(gpu, &self.sizes, inserts)?.place(gpu)?;
        }
        Ok(())
    }
}
