//! Part `construct`: tokens on the device to a grammar there, with pruning and numbering.
//!
//! Prints milliseconds of the device, GB/s of text, whether the grammar is the CPU's, how long one thread and all threads
//! of the CPU take, and then the time of each step, for which the host waits after each.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::gpu::{self, Gpu, Step};
use zipfdb_kernels::{Constructed, Parameters};

use super::arrays::Arrays;
use crate::Result;

const WARM_UPS: usize = 2;
const RUNS: usize = 7;

/// Builds the grammar of a corpus.
pub fn run(gpu: &Gpu, arrays: &Arrays) -> Result<()> {
    println!(
        "{:16} {:>10} {:>8} {:>6} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>8}",
        "corpus",
        "tokens",
        "ms",
        "GB/s",
        "rules",
        "symbols",
        "rounds",
        "equal",
        "CPU 1 ms",
        "CPU all",
        "MiB"
    );
    let corpus = Corpus {
        name: &arrays.name,
        tokens: &arrays.tokens,
        file_offsets: &arrays.file_offsets,
        terminal_count: arrays.terminal_count(),
        text_bytes: arrays.text_bytes,
    };
    corpus.time(gpu)
}

struct Corpus<'a> {
    name: &'a str,
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

    fn time(&self, device: &Gpu) -> Result<()> {
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
        let equal = if grammar == expected { "yes" } else { "NO" };
        println!(
            "{:16} {:10} {:8.3} {:6.2} {:9} {:9} {:6} {:>9} {:9.0} {:9.0} {:8}",
            self.name,
            self.tokens.len(),
            nanoseconds / 1e6,
            self.text_bytes as f64 / nanoseconds,
            grammar.rule_offsets.len() - 1,
            grammar.symbols.len() + grammar.root.len(),
            grammar.rounds,
            equal,
            one,
            all,
            memory >> 20
        );

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
        let mut sums: HashMap<Step, f64> = HashMap::new();
        let mut order = Vec::new();
        for &(step, time) in &steps {
            if !sums.contains_key(&step) {
                order.push(step);
            }
            *sums.entry(step).or_default() += time;
        }
        let line: Vec<String> = order
            .iter()
            .map(|step| format!("{step:?} {:.3}", sums[step]))
            .collect();
        println!("    {}", line.join(", "));
        for step in [Step::Select, Step::Name, Step::Replace, Step::Number] {
            let rounds = steps.iter().filter(|&&(of, _)| of == step);
            let rounds: Vec<String> = rounds.map(|(_, time)| format!("{time:.2}")).collect();
            println!("    {step:?} by round: {}", rounds.join(" "));
        }
        Ok(())
    }
}
