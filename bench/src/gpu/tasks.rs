//! Part `tasks`: the tasks on all words, on the grammar over words.
//!
//! Its tables have for each task: device time on resident data, time with copies of grammar and result, the CPU twin with one
//! and all threads, plain words on the device, and the most device memory in use beside the grammar. Results are equal. Plain words have their n-grams in 64 bits; where these do not fit they are sorted by some words at a time.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_bench_kernels::{baseline, row_tops};
use zipfdb_kernels::gpu::{
    self, DeviceWords, FileUses, Gpu, GpuError, Traversal, TraversalCosts, file_word_counts,
    file_word_counts_bottom_up, word_file_counts, words_by_count,
};
use zipfdb_kernels::{
    CountTable, FileCounting, FileOrder, GAP, GrammarView, NgramCounts, NgramFiles, Parameters,
    WordGrammar, WordUses, construct,
};

use super::arrays::Arrays;
use crate::Result;
use crate::report::Table;

const RUNS: usize = 7;
const WARM_UPS: usize = 2;

/// Bytes for windows.
const MEMORY: usize = 16 << 30;

static GO: AtomicBool = AtomicBool::new(false);

/// The median time on the device, in milliseconds, and the last result.
fn timed<T>(
    gpu: &Gpu,
    run: impl Fn() -> std::result::Result<T, GpuError>,
) -> std::result::Result<(f64, T), GpuError> {
    let mut times = Vec::new();
    let mut last = None;
    for turn in 0..WARM_UPS + RUNS {
        drop(last.take());
        let (result, nanoseconds) = gpu.timed(&run)?;
        if turn >= WARM_UPS {
            times.push(nanoseconds as f64 / 1e6);
        }
        last = Some(result);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[RUNS / 2], last.expect("some runs")))
}

/// The best wall time of a few runs, in milliseconds, and the last result.
fn clocked<T>(runs: usize, run: impl Fn() -> T) -> (f64, T) {
    let mut best = f64::INFINITY;
    let mut last = None;
    for _ in 0..runs {
        drop(last.take());
        let begin = Instant::now();
        last = Some(run());
        best = best.min(begin.elapsed().as_secs_f64() * 1e3);
    }
    (best, last.expect("some runs"))
}

struct Corpus<'a> {
    gpu: &'a Gpu,
    view: GrammarView<'a>,
    words: &'a DeviceWords,
    one: rayon::ThreadPool,
}

impl Corpus<'_> {
    /// One row of a table. `run` gives what `fetch` copies to the host; `twin` is the CPU's, which must be equal.
    fn task<T, H: PartialEq + Send>(
        &self,
        table: &mut Table,
        name: &str,
        run: impl Fn(&DeviceWords) -> std::result::Result<T, GpuError>,
        fetch: impl Fn(&T) -> std::result::Result<H, GpuError>,
        twin: impl Fn() -> H + Sync + Send,
        plain: impl Fn() -> std::result::Result<(), GpuError>,
    ) -> Result<()> {
        let gpu = self.gpu;
        let resident = gpu.memory_used();
        gpu.take_memory_used_max();
        let (kernel, result) = timed(gpu, || run(self.words))?;
        let most = gpu.take_memory_used_max() - resident;
        let found = fetch(&result)?;
        drop(result);
        let (whole, _) = clocked(3, || {
            let words = DeviceWords::upload(gpu, self.view)?;
            fetch(&run(&words)?)
        });
        // The scan has keys of 32 bits, which many small files exceed.
        let scan = match timed(gpu, plain) {
            Ok((scan, ())) => scan,
            Err(GpuError::Limit { .. }) => f64::NAN,
            Err(error) => return Err(error.into()),
        };
        let (all, expected) = clocked(3, &twin);
        let (single, _) = self.one.install(|| clocked(1, &twin));
        if found != expected {
            return Err(format!("{name}: a device and the CPU differ").into());
        }
        table.row(name, [kernel, whole, single, all, scan, most as f64 / 1e6]);
        Ok(())
    }
}

fn joined(parts: Vec<NgramCounts>) -> NgramCounts {
    let (words, counts): (Vec<_>, Vec<_>) = parts
        .into_iter()
        .map(|part| (part.words, part.counts))
        .unzip();
    NgramCounts {
        words: words.concat(),
        counts: counts.concat(),
    }
}

fn joined_files(parts: Vec<NgramFiles>) -> NgramFiles {
    let (mut words, mut files) = (Vec::new(), CountTable::of_rows(Vec::new()));
    for part in parts {
        let before = files.entries.len();
        words.extend(part.words);
        let table = part.files.into_table();
        let ends = table.offsets[1..].iter();
        files.offsets.extend(ends.map(|end| before + end));
        files.entries.extend(table.entries);
    }
    NgramFiles {
        words,
        files: files.into(),
    }
}

/// Times all tasks on a corpus.
pub fn run(gpu: &Gpu, arrays: &Arrays) -> Result<[Table; 2]> {
    let (tokens, file_offsets) = (&arrays.tokens, &arrays.file_offsets);
    let (terminals, word_of) = (arrays.terminal_count(), &arrays.word_of);
    // Words are fewer than terminals.
    let word_count = arrays.words.len() as u32;

    // The words without a grammar.
    let mut plain_words = Vec::new();
    let mut plain_offsets = vec![0u32];
    for file in file_offsets.windows(2) {
        let Range { start, end } = file[0] as usize..file[1] as usize;
        let words = tokens[start..end].iter().map(|&t| word_of[t as usize]);
        plain_words.extend(words.filter(|&word| word != GAP));
        plain_offsets.push(plain_words.len() as u32);
    }
    let token_count = tokens.len();
    let parameters = Parameters::default();
    let begin = Instant::now();
    let grammar = construct(
        tokens.clone(),
        file_offsets,
        terminals,
        &parameters,
        &mut |_| (),
    );
    let built = begin.elapsed().as_secs_f64() * 1e3;
    let tokens_view = GrammarView {
        terminal_count: terminals,
        rule_offsets: &grammar.rule_offsets,
        symbols: &grammar.symbols,
        level_offsets: &grammar.level_offsets,
        root_offsets: &grammar.root_offsets,
        root: &grammar.root,
    };
    let begin = Instant::now();
    let word_grammar = WordGrammar::new(tokens_view, word_of, word_count);
    let reduced = begin.elapsed().as_secs_f64() * 1e3;
    let view = word_grammar.view();
    let twin_weights = word_grammar.weights();
    let (uses_time, uses) = clocked(1, || WordUses::new(view));
    eprintln!(
        "{}: {token_count} tokens, {} words of {word_count}, {} files; {} rules, {} body and {} root symbols, {} levels",
        arrays.name,
        plain_words.len(),
        view.files(),
        view.rules(),
        view.symbols.len(),
        view.root.len(),
        view.levels(),
    );
    let sizes: Vec<usize> = (0..view.levels())
        .map(|level| {
            let rules = view.level_rules(level);
            (view.rule_offsets[rules.end] - view.rule_offsets[rules.start]) as usize
        })
        .collect();
    eprintln!("   body symbols by level: {sizes:?}");
    eprintln!(
        "   CPU: construct {built:.0} ms, word grammar {reduced:.1} ms, uses {uses_time:.1} ms"
    );

    let used = gpu.memory_used();
    let (upload, words) = clocked(2, || -> std::result::Result<_, GpuError> {
        let words = DeviceWords::upload(gpu, view)?;
        gpu.synchronize()?;
        Ok(words)
    });
    let words = words?;
    let used_by_words = gpu.memory_used() - used;
    let (uses_build, device_uses) = timed(gpu, || FileUses::new(gpu, &words))?;
    let used_by_uses = gpu.memory_used() - used - used_by_words;
    let plain = baseline::PlainWords::upload(gpu, &plain_words, &plain_offsets, word_count)?;
    eprintln!(
        "   device: {:?} body and root symbols with {} levels inlined; grammar {:.1} MB uploaded in {upload:.2} ms, uses {:.1} MB built in {uses_build:.3} ms, plain words {:.1} MB",
        words.sizes(),
        view.levels() - words.levels(),
        used_by_words as f64 / 1e6,
        used_by_uses as f64 / 1e6,
        plain_words.len() as f64 * 4.0 / 1e6,
    );
    eprintln!(
        "   {:?} is estimated to be cheaper for counts by file: {:?}",
        Traversal::cheaper(gpu, &words)?,
        TraversalCosts::new(gpu, &words)?
    );
    let bench = Corpus {
        gpu,
        view,
        words: &words,
        one: rayon::ThreadPoolBuilder::new().num_threads(1).build()?,
    };
    let titles = ["kernels", "whole", "CPU 1", "CPU all", "scan", "MB"];
    let mut table = Table::new("tasks, ms", titles);
    let mut variants = Table::new("tasks otherwise, ms", titles).detail();
    let all = 0..view.root.len();
    let total = plain_words.len() as u64;
    let count_words = |words: &DeviceWords| gpu::weights(gpu, words);
    let twin_count = || -> Vec<u32> {
        let weights = zipfdb_kernels::weights(view, all.clone(), total);
        weights.into_iter().map(|weight| weight as u32).collect()
    };
    let of_words = |weights: Vec<u32>| weights[..word_count as usize].to_vec();
    bench.task(
        &mut table,
        "word count",
        count_words,
        |weights| Ok(of_words(gpu.download(weights)?)),
        || of_words(twin_count()),
        || baseline::histogram(gpu, &plain).map(drop),
    )?;
    bench.task(
        &mut variants,
        "word count, plain atomics",
        count_words,
        |weights| Ok(of_words(gpu.download(weights)?)),
        || of_words(twin_count()),
        || baseline::plain_histogram(gpu, &plain).map(drop),
    )?;
    bench.task(
        &mut table,
        "sort",
        |words| words_by_count(gpu, &count_words(words)?, word_count, total as u32),
        |(words, counts)| Ok((gpu.download(words)?, gpu.download(counts)?)),
        || {
            use rayon::prelude::*;
            let counts = twin_count();
            let mut order: Vec<u32> = (0..word_count).collect();
            order.par_sort_by_key(|&word| std::cmp::Reverse(counts[word as usize]));
            let counts = order.iter().map(|&word| counts[word as usize]).collect();
            (order, counts)
        },
        || {
            let counts = baseline::histogram(gpu, &plain)?;
            words_by_count(gpu, &counts, word_count, total as u32).map(drop)
        },
    )?;
    let counting = FileCounting::of(view, &of_words(twin_count()));
    let inverted = || zipfdb_kernels::word_file_counts(view, counting, &GO).ok();
    let scan_inverted = || baseline::counts_by_file(gpu, &plain, false).map(drop);
    bench.task(
        &mut table,
        "inverted index",
        |words| word_file_counts(gpu, words, &FileUses::new(gpu, words)?),
        |table| table.download(gpu).map(Some),
        inverted,
        scan_inverted,
    )?;
    bench.task(
        &mut variants,
        "inverted index, uses kept",
        |words| word_file_counts(gpu, words, &device_uses),
        |table| table.download(gpu).map(Some),
        inverted,
        scan_inverted,
    )?;
    let vectors = || zipfdb_kernels::file_word_counts(view, counting, &GO).ok();
    let scan_vectors = || baseline::counts_by_file(gpu, &plain, true).map(drop);
    bench.task(
        &mut table,
        "term vector",
        |words| file_word_counts(gpu, words, &FileUses::new(gpu, words)?),
        |table| table.download(gpu).map(Some),
        vectors,
        scan_vectors,
    )?;
    bench.task(
        &mut variants,
        "term vector, uses kept",
        |words| file_word_counts(gpu, words, &device_uses),
        |table| table.download(gpu).map(Some),
        vectors,
        scan_vectors,
    )?;
    bench.task(
        &mut variants,
        "term vector, top 10",
        |words| row_tops(gpu, &file_word_counts(gpu, words, &device_uses)?, 10, None),
        |table| table.download(gpu).map(Some),
        || vectors().map(|table| CountTable::of_rows(table.top(10, |word| word))),
        scan_vectors,
    )?;
    if let Err(error) = bench.task(
        &mut variants,
        "term vector, bottom-up",
        |words| file_word_counts_bottom_up(gpu, words),
        |table| table.download(gpu).map(Some),
        vectors,
        scan_vectors,
    ) {
        eprintln!("term vector, bottom-up: {error}");
    }
    let counted = gpu::weights(gpu, &words)?;
    for n in [3, 2, 5] {
        let table = if n == 3 { &mut table } else { &mut variants };
        bench.task(
            table,
            &format!("sequence count, n = {n}"),
            |words| {
                let counts = count_words(words)?;
                gpu::ngram_counts(gpu, words, &counts, n, MEMORY)
            },
            |parts| {
                let parts: std::result::Result<_, GpuError> =
                    parts.iter().map(|part| part.download(gpu)).collect();
                Ok(Some(joined(parts?)))
            },
            || {
                zipfdb_kernels::ngram_counts(view, twin_weights, n, MEMORY, &GO)
                    .ok()
                    .map(joined)
            },
            || baseline::ngram_counts(gpu, &plain, n).map(drop),
        )?;
        let order = FileOrder::Count;
        bench.task(
            table,
            &format!("ranked inverted, n = {n}"),
            |words| gpu::ngram_file_counts(gpu, words, &counted, &device_uses, n, order, MEMORY),
            |parts| {
                let parts: std::result::Result<_, GpuError> =
                    parts.iter().map(|part| part.download(gpu)).collect();
                Ok(Some(joined_files(parts?)))
            },
            || {
                let parts = zipfdb_kernels::ngram_file_counts(
                    view,
                    twin_weights,
                    &uses,
                    n,
                    order,
                    MEMORY,
                    &GO,
                );
                parts.ok().map(joined_files)
            },
            || baseline::ngram_file_counts(gpu, &plain, n).map(drop),
        )?;
    }
    Ok([table, variants])
}
