//! Part `lookups`: counts, searches, extracts and inserts in batches of 100,000.
//!
//! Each word is as likely; its file is that of one of its places. The table has for each batch: device time, time with copies,
//! time of one thread, from a part of the batch, and of all. Answers are equal.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{
    DeviceGrammar, DeviceInserts, DeviceQueries, DeviceStructures, Extract, Gpu, GpuError,
    SearchResults, Terminals, WordQuery,
};
use zipfdb_kernels::{
    APPEND, Content, FileCounting, GrammarView, Insert, Lengths, Parameters, Parents, Signatures,
    Structures, SymbolText, WordGrammar, construct, count_in_file, extract, locate_in_file,
    place_inserts, word_file_counts,
};

use super::arrays::Arrays;
use crate::Result;
use crate::report::{Cell, Table};

pub const QUERIES: usize = 100_000;
const RUNS: usize = 5;

/// Times batches on a corpus.
pub fn run(gpu: &Gpu, arrays: &Arrays) -> Result<Table> {
    let (tokens, file_offsets) = (&arrays.tokens, &arrays.file_offsets);
    let (words, word_of) = (&arrays.words, &arrays.word_of);
    let (offsets, bytes) = (&arrays.offsets, &arrays.bytes);
    let terminals = arrays.terminal_count();

    let mut numbers = Numbers(1);
    let queries = draw_queries(arrays, &mut numbers);
    let grammar = construct(
        tokens.clone(),
        file_offsets,
        terminals,
        &Parameters::default(),
        &mut |_| (),
    );
    let view = GrammarView {
        terminal_count: terminals,
        rule_offsets: &grammar.rule_offsets,
        symbols: &grammar.symbols,
        level_offsets: &grammar.level_offsets,
        root_offsets: &grammar.root_offsets,
        root: &grammar.root,
    };
    let token = |terminal: u32| arrays.token(terminal);

    // Structures: the CPU's, with all threads and with one, and the device's.
    let build = || {
        let begin = Instant::now();
        let lengths = Lengths::new(view, |t| token(t).len() as u64);
        let signatures = Signatures::new(view, |t| word_of[t as usize]);
        let parents = Parents::new(view);
        let text = SymbolText::new(view, &lengths, token);
        (lengths, signatures, parents, text, begin.elapsed())
    };
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let single = one.install(build).4;
    let (lengths, signatures, parents, text, all) = build();
    let known = Terminals {
        offsets,
        bytes,
        signatures: &signatures.bits[..terminals as usize],
    };
    let mut times = Vec::new();
    let mut structures = None;
    let used = gpu.memory_used();
    for _ in 0..RUNS {
        drop(structures.take());
        let uploaded = DeviceGrammar::upload(gpu, view)?;
        gpu.synchronize()?;
        let (built, time) = gpu.timed(|| DeviceStructures::new(gpu, uploaded, known))?;
        structures = Some(built);
        times.push(time);
    }
    let device = structures.ok_or("no runs")?;
    let titles = ["kernels", "with copies", "CPU 1", "CPU all", "MB"];
    let mut table = Table::new("batches of 100,000, ms", titles);
    let cells = [
        Cell::from(median(&mut times)),
        Cell::Empty,
        Cell::from(single.as_secs_f64() * 1e3),
        Cell::from(all.as_secs_f64() * 1e3),
        Cell::from((gpu.memory_used() - used) as f64 / 1e6),
    ];
    table.row("structures, built once", cells);

    let structures = Structures {
        view,
        lengths: &lengths,
        signatures: &signatures,
        parents: Some(&parents),
    };
    let file_tokens =
        |file: u32| u64::from(file_offsets[file as usize + 1] - file_offsets[file as usize]);
    let count = |query: &WordQuery| {
        let terminals = query.word.first..query.word.end;
        let tokens = file_tokens(query.file);
        count_in_file(
            view,
            Some(&parents),
            &signatures,
            terminals,
            query.file,
            tokens,
        )
    };
    let uploaded = DeviceQueries::upload(gpu, &queries)?;
    let kernel = measure(gpu, || device.count(gpu, &uploaded).map(drop))?;
    let (whole, found) =
        fastest(|| gpu.download(&device.count(gpu, &DeviceQueries::upload(gpu, &queries)?)?))?;
    // One thread answers a part of the batch.
    let part = QUERIES / 50;
    // As a database that has counted for a while: a look-up in the inverted index.
    let word_count = words.len() as u32;
    let word_grammar = WordGrammar::new(view, word_of, word_count);
    let counting = FileCounting::Words;
    let index = word_file_counts(word_grammar.view(), counting, &AtomicBool::new(false))?;
    let look_up = |query: &WordQuery| {
        let files = index.row(word_of[query.word.first as usize] as usize);
        let found = files.binary_search_by_key(&query.file, |&(file, _)| file);
        found.map_or(0, |at| u64::from(files[at].1))
    };
    report(
        &mut table,
        "count, index",
        kernel,
        whole,
        &queries,
        QUERIES,
        &look_up,
        |index, count| found[index] == count,
    )?;
    report(
        &mut table,
        "count",
        kernel,
        whole,
        &queries,
        part,
        &count,
        |index, count| found[index] == count,
    )?;

    let kernel = measure(gpu, || device.search(gpu, &uploaded).map(drop))?;
    let (whole, found) = fastest(|| {
        let uploaded = DeviceQueries::upload(gpu, &queries)?;
        SearchResults::download(gpu, &device.search(gpu, &uploaded)?)
    })?;
    let search = |query: &WordQuery| {
        locate_in_file(structures, query.word, query.file, file_tokens(query.file))
    };
    report(
        &mut table,
        "search",
        kernel,
        whole,
        &queries,
        part,
        &search,
        |index, offsets| found.get(index) == offsets,
    )?;
    drop(found);

    let content = Content {
        view,
        lengths: &lengths,
        text: &text,
    };
    for length in [64, 4096] {
        let extracts = draw_extracts(&lengths.file_starts, length, &mut numbers);
        let kernel = measure(gpu, || device.extract(gpu, &extracts).map(drop))?;
        let (whole, found) = fastest(|| device.extract(gpu, &extracts)?.download(gpu))?;
        let take = |query: &Extract| extract(content, query.file, query.offset, query.length);
        let name = format!("extract {length}");
        report(
            &mut table,
            &name,
            kernel,
            whole,
            &extracts,
            part,
            &take,
            |index, bytes| found.get(index) == bytes,
        )?;
    }
    edits(gpu, &lengths, &mut numbers, &mut table)?;
    Ok(table)
}

/// Any word, in the file of one of its places, each as likely.
pub fn draw_queries(arrays: &Arrays, numbers: &mut Numbers) -> Vec<WordQuery> {
    let Arrays {
        tokens,
        file_offsets,
        words,
        word_of,
        ..
    } = arrays;
    let mut places = vec![(0u32, 0usize); words.len()];
    for (at, &token) in tokens.iter().enumerate() {
        if let Some((seen, place)) = places.get_mut(word_of[token as usize] as usize) {
            *seen += 1;
            if numbers.below(u64::from(*seen)) == 0 {
                *place = at;
            }
        }
    }
    let mut draw = || {
        let word = numbers.below(words.len() as u64) as usize;
        let at = places[word].1;
        let file = file_offsets.partition_point(|&offset| offset as usize <= at) - 1;
        WordQuery {
            word: words[word],
            file: file as u32,
        }
    };
    (0..QUERIES).map(|_| draw()).collect()
}

/// Some bytes of files, from anywhere on.
pub fn draw_extracts(starts: &[u64], length: u64, numbers: &mut Numbers) -> Vec<Extract> {
    let mut draw = || {
        let at = numbers.below(*starts.last().unwrap_or(&1));
        let file = starts.partition_point(|&start| start <= at) - 1;
        Extract {
            file: file as u32,
            offset: at - starts[file],
            length,
        }
    };
    (0..QUERIES).map(|_| draw()).collect()
}

/// Inserts of 64 bytes: anywhere, and at the ends of the same files.
pub fn draw_inserts(starts: &[u64], numbers: &mut Numbers) -> (Vec<Insert>, Vec<Insert>) {
    let places = draw_extracts(starts, 64, numbers);
    let inserts = places.iter().map(|place| Insert {
        file: place.file,
        offset: place.offset,
        length: place.length,
    });
    let inserts: Vec<Insert> = inserts.collect();
    let ends = inserts.iter().map(|&insert| Insert {
        offset: APPEND,
        ..insert
    });
    (inserts.clone(), ends.collect())
}

/// Inserts of 64 bytes: the places of their texts.
fn edits(gpu: &Gpu, lengths: &Lengths, numbers: &mut Numbers, table: &mut Table) -> Result<()> {
    let starts = &lengths.file_starts;
    let sizes: Vec<u64> = starts.windows(2).map(|range| range[1] - range[0]).collect();
    let (random, ends) = draw_inserts(starts, numbers);
    for (name, inserts) in [("insert", &random), ("append", &ends)] {
        let uploaded = DeviceInserts::upload(gpu, &sizes, inserts)?;
        let kernel = measure(gpu, || uploaded.place(gpu).map(drop))?;
        let (whole, placed) = fastest(|| {
            let placed = DeviceInserts::upload(gpu, &sizes, inserts)?.place(gpu)?;
            placed.download(gpu)
        })?;
        let begin = Instant::now();
        let expected = place_inserts(&sizes, inserts);
        let single = begin.elapsed().as_secs_f64() * 1e3;
        if placed != expected {
            return Err(format!("{name}: a device and the CPU differ").into());
        }
        table.row(name, [kernel, whole, single]);
    }
    Ok(())
}

fn median(times: &mut [u64]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1e6
}

/// Milliseconds of everything, the fastest of some runs, and the result of the last.
fn fastest<T>(
    run: impl Fn() -> std::result::Result<T, GpuError>,
) -> std::result::Result<(f64, T), GpuError> {
    let timed = || {
        let begin = Instant::now();
        let result = run()?;
        Ok((begin.elapsed().as_secs_f64() * 1e3, result))
    };
    let (mut fastest, mut last) = timed()?;
    for _ in 1..RUNS {
        drop(last);
        let (time, result) = timed()?;
        fastest = fastest.min(time);
        last = result;
    }
    Ok((fastest, last))
}

/// Milliseconds of the device.
fn measure(
    gpu: &Gpu,
    mut run: impl FnMut() -> std::result::Result<(), GpuError>,
) -> std::result::Result<f64, GpuError> {
    let mut times = Vec::new();
    for turn in 0..RUNS + 1 {
        let ((), time) = gpu.timed(&mut run)?;
        if turn > 0 {
            times.push(time);
        }
    }
    Ok(median(&mut times))
}

/// Answers the first `part` queries with one thread and all of them with all, and adds a row. All answers must be right.
#[expect(
    clippy::too_many_arguments,
    reason = "times, queries, and two ways to answer"
)]
fn report<Q: Sync, A: Send>(
    table: &mut Table,
    name: &str,
    kernel: f64,
    whole: f64,
    queries: &[Q],
    part: usize,
    answer: &(impl Fn(&Q) -> A + Sync),
    equals: impl Fn(usize, A) -> bool + Sync,
) -> Result<()> {
    let begin = Instant::now();
    for query in &queries[..part] {
        std::hint::black_box(answer(query));
    }
    let single = begin.elapsed().as_secs_f64() * 1e3 * (queries.len() as f64 / part as f64);
    let begin = Instant::now();
    let answers = queries.par_iter().enumerate();
    let is_right = answers
        .map(|(index, query)| equals(index, answer(query)))
        .reduce(|| true, |left, right| left & right);
    let all = begin.elapsed().as_secs_f64() * 1e3;
    if !is_right {
        return Err(format!("{name}: a device and the CPU differ").into());
    }
    table.row(name, [kernel, whole, single, all]);
    Ok(())
}

/// splitmix64.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }
}
