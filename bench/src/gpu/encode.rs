//! Part `encode`: grammars of segments encoded, counted and coded by the CPU's threads or by a device.
//!
//! Compares the bytes; the table has the fastest run of each, and what a device's steps take in that, by the host's clock. What is
//! left is the host's: it chooses the model, and codes it.

use std::borrow::Cow;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use zipfdb::internal::DeviceCoder;
use zipfdb_kernels::gpu::Gpu;
use zipfdb_storage::symbol_coder::{
    Contexts, Ends, EventCounts, NeighbourCount, Share, SymbolCoder,
};
use zipfdb_storage::{Dictionary, EncodedGrammar, FileBackend, Grammar, SegmentReader};

use super::arrays::{Scratch, segment_paths};
use crate::Result;
use crate::report::Table;

const RUNS: usize = 5;

/// What a device is asked for, in order.
pub const STEPS: [&str; 6] = [
    "copy and find",
    "frequencies",
    "neighbours",
    "pasts",
    "events",
    "blocks",
];

/// Times encoding of the segments of a corpus.
pub fn run(path: &Path, gpu: &Gpu) -> Result<Table> {
    let scratch = Scratch::of_corpus(path)?;
    let titles = ["CPU", "device", "the host, of that"]
        .into_iter()
        .chain(STEPS);
    let mut table = Table::new("encoding, ms", titles);
    for (number, path) in segment_paths(&scratch.database)?.into_iter().enumerate() {
        let reader = SegmentReader::open(&FileBackend, &path)?;
        let (grammar, dictionary) = (reader.grammar()?, reader.dictionary()?);
        let expected = EncodedGrammar::new(&grammar, &dictionary);
        let mut on_cpu = f64::INFINITY;
        for _ in 0..RUNS {
            let begin = Instant::now();
            black_box(EncodedGrammar::new(&grammar, &dictionary));
            on_cpu = on_cpu.min(milliseconds(begin));
        }
        let mut on_device = f64::INFINITY;
        let mut best = [0.0; STEPS.len()];
        for _ in 0..=RUNS {
            let mut steps = [0.0; STEPS.len()];
            let begin = Instant::now();
            let encoded = timed_encoding(gpu, &grammar, &dictionary, &mut steps)?;
            let time = milliseconds(begin);
            if encoded != expected {
                return Err("a device and the CPU encode differently".into());
            }
            if time < on_device {
                (on_device, best) = (time, steps);
            }
        }
        let host = on_device - best.iter().sum::<f64>();
        let cells = [on_cpu, on_device, host].into_iter().chain(best);
        table.row(format!("segment {number}"), cells);
    }
    Ok(table)
}

/// Encodes a grammar on a device, and writes down how long its steps take, in milliseconds.
pub fn timed_encoding(
    gpu: &Gpu,
    grammar: &Grammar,
    dictionary: &Dictionary,
    steps: &mut [f64; STEPS.len()],
) -> zipfdb::Result<EncodedGrammar> {
    EncodedGrammar::with(grammar, dictionary, |chunks| {
        let begin = Instant::now();
        let coder = DeviceCoder::new(gpu, grammar, chunks)?;
        gpu.synchronize()?;
        steps[0] = milliseconds(begin);
        Ok(TimedCoder { coder, steps })
    })
}

fn milliseconds(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

/// A device's coder that writes down how long its steps take, in milliseconds.
struct TimedCoder<'a> {
    coder: DeviceCoder,
    steps: &'a mut [f64; STEPS.len()],
}

impl SymbolCoder for TimedCoder<'_> {
    type Error = zipfdb::Error;

    fn frequencies(&mut self) -> zipfdb::Result<Vec<u8>> {
        let begin = Instant::now();
        let found = self.coder.frequencies();
        self.steps[1] = milliseconds(begin);
        found
    }

    fn neighbours(
        &mut self,
        lefts: &[u32],
        rights: &[u32],
        items: usize,
        step: usize,
    ) -> zipfdb::Result<Vec<NeighbourCount>> {
        let begin = Instant::now();
        let found = self.coder.neighbours(lefts, rights, items, step);
        self.steps[2] = milliseconds(begin);
        found
    }

    fn past_counts(
        &mut self,
        ends: &[Ends],
        classes: usize,
        step: usize,
    ) -> zipfdb::Result<Vec<u32>> {
        let begin = Instant::now();
        let found = self.coder.past_counts(ends, classes, step);
        self.steps[3] = milliseconds(begin);
        found
    }

    fn event_counts(&mut self, contexts: &Contexts) -> zipfdb::Result<EventCounts> {
        let begin = Instant::now();
        let found = self.coder.event_counts(contexts);
        self.steps[4] = milliseconds(begin);
        found
    }

    fn blocks(
        &mut self,
        classes: &[Share],
        actions: &[Share],
    ) -> zipfdb::Result<Vec<Cow<'_, [u8]>>> {
        let begin = Instant::now();
        let found = self.coder.blocks(classes, actions);
        self.steps[5] = milliseconds(begin);
        found
    }
}
