//! Part `construct`: tokens on the device to a grammar there, with pruning and numbering.
//!
//! Its tables have milliseconds of the device, GB/s of text, how long one thread and all threads of the CPU take, and the time
//! of each step, for which the host waits after each. The grammar is the CPU's.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::gpu::{self, Gpu, Step};
use zipfdb_kernels::{Constructed, Parameters};

use super::arrays::Arrays;
use crate::Result;
use crate::report::Table;

const WARM_UPS: usize = 2;
const RUNS: usize = 7;

/// Builds the grammar of a corpus.
pub fn run(gpu: &Gpu, arrays: &Arrays) -> Result<[Table; 2]> {
    let corpus = Corpus {
        tokens: &arrays.tokens,
        file_offsets: &arrays.file_offsets,
        terminal_count: arrays.terminal_count(),
        text_bytes: arrays.text_bytes,
    };
    corpus.time(gpu)
}

struct Corpus<'a> {
    tokens: &'a [u32],
    file_offsets: &'a [u32],
    terminal_count: u32,
    text_bytes: u64,
}

impl Corpus<'_> {
    fn twin(&self, threads: usize) -> Result<(Constructed, f64)> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()?;
        let tokens = self.tokens.to_vec();
        let begin = Instant::now();
        let parameters = Parameters::default();
        let grammar = pool.install(|| {
            zipfdb_kernels::construct(
                tokens,
                self.file_offsets,
                self.terminal_count,
                &parameters,
                &mut |_| {},
            )
        });
        Ok((grammar, begin.elapsed().as_secs_f64() * 1e3))
    }

    fn time(&self, device: &Gpu) -> Result<[Table; 2]> {
        let tokens = device.upload(self.tokens)?;
        let file_offsets = device.upload(self.file_offsets)?;
        let stop = AtomicBool::new(false);
        let construct = |on_step: &mut dyn FnMut(Step)| {
            gpu::construct_resident(
                device,
                &tokens,
                &file_offsets,
                self.terminal_count,
                &Parameters::default(),
                on_step,
                &stop,
            )
        };
        device.take_memory_used_max();
        let grammar = construct(&mut |_| {})?.download(device)?;
        let memory = device.take_memory_used_max();
        let mut times = Vec::new();
        for run in 0..WARM_UPS + RUNS {
            let (_, nanoseconds) = device.timed(|| construct(&mut |_| {}))?;
            if run >= WARM_UPS {
                times.push(nanoseconds);
            }
        }
        times.sort_unstable();
        let nanoseconds = times[RUNS / 2] as f64;
        let (expected, all) = self.twin(0)?;
        let (_, one) = self.twin(1)?;
        if grammar != expected {
            return Err("a device and the CPU build different grammars".into());
        }
        let titles = [
            "kernels", "CPU 1", "CPU all", "GB/s", "MB", "tokens", "rules", "symbols", "rounds",
        ];
        let mut table = Table::new("construction, ms", titles);
        let cells = [
            nanoseconds / 1e6,
            one,
            all,
            self.text_bytes as f64 / nanoseconds,
            memory as f64 / 1e6,
            self.tokens.len() as f64,
            (grammar.rule_offsets.len() - 1) as f64,
            (grammar.symbols.len() + grammar.root.len()) as f64,
            grammar.rounds as f64,
        ];
        table.row("grammar", cells);

        // The host waits for each step, so that these add up to more than the time above.
        let mut steps: Vec<(Step, f64)> = Vec::new();
        let mut last: Option<(Step, Instant)> = None;
        let grammar = construct(&mut |step| {
            // What fails here fails again below.
            let _ = device.synchronize();
            let now = Instant::now();
            if let Some((step, begin)) = last.replace((step, now)) {
                steps.push((step, (now - begin).as_secs_f64() * 1e3));
            }
        })?;
        device.synchronize()?;
        drop(grammar);
        if let Some((step, begin)) = last {
            steps.push((step, begin.elapsed().as_secs_f64() * 1e3));
        }
        let mut sums: HashMap<Step, (f64, u32)> = HashMap::new();
        let mut order = Vec::new();
        for &(step, time) in &steps {
            if !sums.contains_key(&step) {
                order.push(step);
            }
            let (sum, times) = sums.entry(step).or_default();
            *sum += time;
            *times += 1;
        }
        let mut of_steps = Table::new("steps of construction", ["ms", "times"]).detail();
        for step in order {
            let (sum, times) = sums[&step];
            of_steps.row(format!("{step:?}"), [sum, f64::from(times)]);
        }
        Ok([table, of_steps])
    }
}
