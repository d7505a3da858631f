//! Times grammar construction on the first CUDA device: `gpu_construct FOLDER...`.
//!
//! A folder holds `tokens.u32`, `file_offsets.u32`, arrays of little-endian
//! words, and `text_bytes`, the size of the text as a decimal number. Prints a
//! line for each: milliseconds of the device, GB/s of text, whether the grammar
//! is the CPU's, and how long one thread and all threads of the CPU take; then
//! the time of each step, for which the host waits after each. Environment:
//! `NO_TWIN` leaves the CPU out, `ONCE` builds twice and times nothing, which
//! is for profilers.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::gpu::{self, Gpu, Step};
use zipfdb_kernels::{Constructed, Parameters};

const WARM_UPS: usize = 2;
const RUNS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let device = gpu::devices().map_err(|absence| absence.to_string())?[0].clone();
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
    let no_twin = std::env::var_os("NO_TWIN").is_some();
    for folder in std::env::args().skip(1) {
        let corpus = Corpus::read(Path::new(&folder))?;
        corpus.time(&device, no_twin)?;
    }
    Ok(())
}

struct Corpus {
    name: String,
    tokens: Vec<u32>,
    file_offsets: Vec<u32>,
    terminal_count: u32,
    text_bytes: u64,
}

impl Corpus {
    fn read(folder: &Path) -> Result<Corpus, Box<dyn Error>> {
        let words = |name: &str| -> Result<Vec<u32>, Box<dyn Error>> {
            let bytes = std::fs::read(folder.join(name))?;
            let (words, _) = bytes.as_chunks::<4>();
            Ok(words.iter().map(|&word| u32::from_le_bytes(word)).collect())
        };
        let tokens = words("tokens.u32")?;
        let text_bytes = std::fs::read_to_string(folder.join("text_bytes"))?;
        Ok(Corpus {
            name: folder
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            terminal_count: tokens.iter().max().map_or(0, |most| most + 1),
            file_offsets: words("file_offsets.u32")?,
            tokens,
            text_bytes: text_bytes.trim().parse()?,
        })
    }

    fn twin(&self, threads: usize) -> Result<(Constructed, f64), Box<dyn Error>> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()?;
        let tokens = self.tokens.clone();
        let begin = Instant::now();
        let parameters = Parameters::default();
        let grammar = pool.install(|| {
            zipfdb_kernels::construct(
                tokens,
                &self.file_offsets,
                self.terminal_count,
                &parameters,
                &mut |_| {},
            )
        });
        Ok((grammar, begin.elapsed().as_secs_f64() * 1e3))
    }

    fn time(&self, device: &Gpu, no_twin: bool) -> Result<(), Box<dyn Error>> {
        let tokens = device.upload(&self.tokens)?;
        let file_offsets = device.upload(&self.file_offsets)?;
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
        if std::env::var_os("ONCE").is_some() {
            construct(&mut |_| {})?;
            return Ok(device.synchronize()?);
        }
        let mut times = Vec::new();
        for run in 0..WARM_UPS + RUNS {
            let (_, nanoseconds) = device.timed(|| construct(&mut |_| {}))?;
            if run >= WARM_UPS {
                times.push(nanoseconds);
            }
        }
        times.sort_unstable();
        let nanoseconds = times[RUNS / 2] as f64;
        let (mut equal, mut one, mut all) = ("-", 0.0, 0.0);
        if !no_twin {
            let (expected, all_time) = self.twin(0)?;
            let (_, one_time) = self.twin(1)?;
            (one, all) = (one_time, all_time);
            equal = if grammar == expected { "yes" } else { "NO" };
        }
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
