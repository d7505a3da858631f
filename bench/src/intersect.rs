//! Suite `intersect`: lists of blocks of text, their codecs, and conjunctive queries on them, as in Ao et al., PVLDB 2011.
//!
//! An id is a block of some words of a corpus, so that there are enough ids, or a file. Ids are in natural order, sorted by
//! what blocks have in common, or shuffled. Tables 1, 2, 3 and 7 are those of the paper. Every method answers the same
//! queries, and answers are compared before times are taken. What decodes is in `zipfdb_kernels::postings`, what
//! searches in `zipfdb_bench_kernels`, also on a device, which `device` measures.

mod conjunctions;
mod device;

use std::collections::HashMap;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use rayon::prelude::*;
use zipfdb_bench_kernels::{
    ListIndex, SafeRange, SearchMethod, decode_shared_lists, encode_shared_lists, intersect,
    intersect_plain,
};
use zipfdb_kernels::postings::{
    PostingsCodec, PostingsList, choose_codec, decode_ids, encode_counts, encode_ids,
};

use crate::corpus::Corpus;
use crate::engines::{self, Engine};
use crate::report::{MEGABYTE, MeasuredCorpus, Report, Table};
use crate::tokenize::thread_seconds;
use crate::{Options, Result};

/// Lists that are drawn: of the r-th a share of `DRAWN_SHARE / r` of all ids is expected.
const DRAWN_LISTS: u32 = 4096;
const DRAWN_SHARE: f64 = 0.6;

/// The order of files, and of blocks of text in which queries on a device are asked.
const FILES: &str = "files, in order of path";
const NATURAL: &str = "blocks, natural order";

/// Queries of each number of words, in per mill (section 6.1): 2 to 6 words.
const QUERY_SHARES: [(usize, usize); 5] = [(2, 161), (3, 245), (4, 228), (5, 148), (6, 82)];

/// What the suite takes.
#[derive(Args)]
pub struct IntersectOptions {
    #[command(flatten)]
    common: Options,
    /// Queries, one a line, perhaps behind a number and a colon. Words that no list has are left out.
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Number of synthetic queries, whose words are drawn by how often they occur.
    #[arg(long, default_value_t = 5000, value_name = "N")]
    synthetic: usize,
    /// Blocks that a corpus is cut into, at least, where it has as many words.
    #[arg(long, default_value_t = 1 << 20, value_name = "N")]
    blocks: usize,
    /// Words of a block at least.
    #[arg(long, default_value_t = 8, value_name = "N")]
    block_words: usize,
    /// Adds lists drawn at random from this many ids, as a shuffled collection has them: a universe larger than that of any corpus.
    #[arg(long, value_name = "IDS")]
    drawn: Option<u32>,
    /// Queries with tags, one a line as JSON: those whose tag is an intersection are asked of whole engines.
    #[arg(long, value_name = "FILE")]
    tagged: Option<PathBuf>,
    /// Files that a corpus is cut into, about, at ends of lines, to be asked of whole engines; 0 for none.
    #[arg(long, default_value_t = 1 << 17, value_name = "N")]
    pieces: usize,
    /// Only these tables: contraction, codecs, searches, device, conjunctions.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    tables: Vec<String>,
}

/// The lists of the words of a corpus.
struct Lists {
    universe: u32,
    /// `[words + 1]` into `ids` and `counts`.
    offsets: Vec<u32>,
    ids: Vec<u32>,
    /// How often a word occurs in each.
    counts: Vec<u32>,
    words: HashMap<Vec<u8>, u32>,
}

impl Lists {
    /// Lists of units of words: a unit is `unit` words, or a file.
    fn of(texts: &[Vec<u8>], unit: Option<usize>) -> Lists {
        let mut words: HashMap<Vec<u8>, u32> = HashMap::new();
        let mut places: Vec<(u32, u32)> = Vec::new();
        let mut universe = 0;
        for text in texts {
            let mut within = 0;
            for word in text.split(|byte| !byte.is_ascii_alphanumeric() && *byte < 0x80) {
                if word.is_empty() {
                    continue;
                }
                if Some(within) == unit {
                    universe += 1;
                    within = 0;
                }
                within += 1;
                let next = words.len() as u32; // fewer than words, which fit into memory
                let word = word.to_ascii_lowercase();
                places.push((*words.entry(word).or_insert(next), universe));
            }
            universe += 1;
        }
        places.par_sort_unstable();
        let (mut offsets, mut ids, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for same in places.chunk_by(|a, b| a == b) {
            let (word, id) = same[0];
            if offsets.len() as u32 == word {
                offsets.push(ids.len() as u32);
            }
            ids.push(id);
            counts.push(same.len() as u32);
        }
        offsets.push(ids.len() as u32);
        Lists {
            universe,
            offsets,
            ids,
            counts,
            words,
        }
    }

    /// Lists whose lengths follow Zipf's law and whose ids are drawn, each list for itself.
    fn drawn(universe: u32) -> Lists {
        let draw = |word: u32| -> Vec<u32> {
            let share = DRAWN_SHARE / f64::from(word + 1);
            // Gaps between ids that are drawn with one probability are geometric.
            let scale = (1.0 - share).ln();
            let (mut ids, mut next, mut state) = (Vec::new(), 0.0, u64::from(word) << 32);
            loop {
                state += 1;
                let uniform = ((mix(state) >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
                next += (uniform.ln() / scale).floor();
                if next >= f64::from(universe) {
                    return ids;
                }
                ids.push(next as u32); // below the universe
                next += 1.0;
            }
        };
        let lists: Vec<Vec<u32>> = (0..DRAWN_LISTS).into_par_iter().map(draw).collect();
        let mut offsets = vec![0];
        let mut end = 0;
        for list in &lists {
            end += list.len() as u32; // about six times the universe
            offsets.push(end);
        }
        Lists {
            universe,
            offsets,
            counts: Vec::new(),
            words: HashMap::new(),
            ids: lists.concat(),
        }
    }

    fn range(&self, word: u32) -> std::ops::Range<usize> {
        self.offsets[word as usize] as usize..self.offsets[word as usize + 1] as usize
    }

    fn list(&self, word: u32) -> &[u32] {
        &self.ids[self.range(word)]
    }

    fn len(&self) -> u32 {
        self.offsets.len() as u32 - 1
    }

    /// The same lists with other ids.
    fn renumbered(&self, number: &[u32]) -> Lists {
        let mut ids: Vec<u32> = self.ids.iter().map(|&id| number[id as usize]).collect();
        for bounds in self.offsets.windows(2) {
            ids[bounds[0] as usize..bounds[1] as usize].sort_unstable();
        }
        Lists {
            ids,
            offsets: self.offsets.clone(),
            counts: self.counts.clone(),
            words: HashMap::new(),
            universe: self.universe,
        }
    }

    /// New ids at random.
    fn shuffled(&self) -> Lists {
        let mut by_key: Vec<(u64, u32)> =
            (0..self.universe).map(|id| (mix(id.into()), id)).collect();
        by_key.sort_unstable();
        self.renumbered(&inverse(by_key))
    }

    /// New ids by the least hash of the words of each, so that what has words in common is near (min-wise hashing). Words that
    /// are frequent everywhere do not count.
    fn similar(&self) -> Lists {
        let mut keys = vec![(u64::MAX, u64::MAX); self.universe as usize];
        for word in 0..self.len() {
            let list = self.list(word);
            if list.len() > self.universe as usize / 100 || list.len() < 2 {
                continue;
            }
            let (first, second) = (mix(word.into()), mix(!u64::from(word)));
            for &id in list {
                let key = &mut keys[id as usize];
                *key = (key.0.min(first), key.1.min(second));
            }
        }
        let mut by_key: Vec<((u64, u64), u32)> = keys.into_iter().zip(0..).collect();
        by_key.sort_unstable();
        self.renumbered(&inverse(by_key))
    }
}

/// The place of each id in an order.
fn inverse<K>(order: Vec<(K, u32)>) -> Vec<u32> {
    let mut number = vec![0; order.len()];
    for (place, (_, id)) in (0..).zip(order) {
        number[id as usize] = place;
    }
    number
}

/// The finaliser of splitmix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Measures, prints and writes.
pub fn run(options: &IntersectOptions) -> Result<()> {
    let common = &options.common;
    let runs = common.runs.max(1);
    let mut report = Report::new("intersect", &common.output)?;
    for path in &common.corpus {
        let corpus = Corpus::open(path)?;
        let files = corpus.files.iter().map(|file| fs::read(&file.path));
        let texts: Vec<Vec<u8>> = files.collect::<std::io::Result<_>>()?;
        let mut suite = Suite {
            corpus: &corpus.name,
            text_size: corpus.size(),
            options,
            runs,
            tables: Vec::new(),
        };
        if suite.wants("conjunctions") {
            suite.conjunctions(&corpus, &texts)?;
        }
        let of_lists = ["contraction", "codecs", "searches", "device"];
        if !of_lists.iter().any(|table| suite.wants(table)) {
            report.add(&corpus, suite.tables)?;
            continue;
        }
        let by_file = Lists::of(&texts, None);
        if suite.wants("codecs") {
            suite.codecs(FILES, &by_file)?;
        }
        let block = (by_file
            .counts
            .iter()
            .map(|&count| count as usize)
            .sum::<usize>()
            / options.blocks.max(1))
        .max(options.block_words);
        drop(by_file);
        let natural = Lists::of(&texts, Some(block));
        drop(texts);
        let queries = suite.queries(&natural)?;
        for (order, lists) in [
            (NATURAL, None),
            ("blocks, similar order", Some(natural.similar())),
            ("blocks, shuffled", Some(natural.shuffled())),
        ] {
            let lists = lists.as_ref().unwrap_or(&natural);
            if suite.wants("codecs") {
                suite.codecs(order, lists)?;
            }
            suite.of_queries(order, lists, &queries)?;
        }
        report.add(&corpus, suite.tables)?;
    }
    if let Some(universe) = options.drawn {
        let lists = Lists::drawn(universe);
        let mut suite = Suite {
            corpus: "drawn",
            text_size: 0,
            options,
            runs,
            tables: Vec::new(),
        };
        let queries = suite.synthetic(&lists);
        suite.of_queries("drawn ids", &lists, &queries)?;
        report.add_measured(MeasuredCorpus {
            name: "drawn".to_owned(),
            bytes: lists.ids.len() as u64 * 4,
            files: DRAWN_LISTS as usize,
            is_utf8: true,
            tables: suite.tables,
        })?;
    }
    report.finish(vec![
        format!("Median of {runs} runs; times of one thread are those that it ran."),
        "Conjunctions: median and 99th percentile of queries on one thread, warm; batches: the mean. Tags and web queries are \
         those of the files that were given, drawn ones have words of postings."
            .to_owned(),
        format!(
            "{}: {}",
            Engine::Tantivy.title(),
            engines::tantivy::configuration_of_words()
        ),
        format!("{}: {}", Engine::Fts5.title(), engines::fts5::configuration_of_words()),
    ])
}

/// What is measured on one corpus.
struct Suite<'a> {
    corpus: &'a str,
    text_size: u64,
    options: &'a IntersectOptions,
    runs: usize,
    tables: Vec<Table>,
}

impl Suite<'_> {
    fn wants(&self, table: &str) -> bool {
        let tables = &self.options.tables;
        tables.is_empty() || tables.iter().any(|wanted| wanted == table)
    }

    /// The tables that are about lists in one order, and queries on them.
    fn of_queries(&mut self, order: &str, lists: &Lists, queries: &[Vec<u32>]) -> Result<()> {
        if self.wants("contraction") {
            self.contraction(order, lists);
        }
        if self.wants("searches") {
            self.searches(order, lists, queries);
        }
        if self.wants("device") {
            self.device(order, lists, queries)?;
        }
        Ok(())
    }

    /// Table 1: contraction ratio and R squared, by length.
    fn contraction(&mut self, order: &str, lists: &Lists) {
        let titles = ["lists", "contraction ratio", "R squared"];
        let mut table = Table::new(format!("contraction, {order}"), titles).detail();
        for (least, end) in [
            (1_000, 10_000),
            (10_000, 100_000),
            (100_000, 200_000),
            (200_000, 400_000),
            (400_000, usize::MAX),
        ] {
            let of_length = (0..lists.len()).map(|word| lists.list(word));
            let of_length = of_length.filter(|ids| (least..end).contains(&ids.len()));
            let fits = of_length.map(|ids| {
                let (range, squared) = SafeRange::fit(ids);
                ((range.left + range.right) / ids.len() as f64, squared)
            });
            let fits: Vec<(f64, f64)> = fits.collect();
            let mean = |of: fn(&(f64, f64)) -> f64| {
                fits.iter().map(of).sum::<f64>() / fits.len().max(1) as f64
            };
            let numbers = [fits.len() as f64, mean(|fit| fit.0), mean(|fit| fit.1)];
            table.row(format!("{least} ids or more"), numbers);
        }
        self.tables.push(table);
    }

    /// Table 2: bits an id and compression ratio of each codec, and ns an id to decode all lists.
    fn codecs(&mut self, order: &str, lists: &Lists) -> Result<()> {
        let titles = [
            "MB",
            "% of text",
            "bits an id",
            "ratio",
            "ns an id",
            "ns in long lists",
        ];
        let mut table = Table::new(format!("codecs, {order}"), titles);
        // Sizes of lists of blocks show what order does, and are no part of a database.
        table.is_detail = order != FILES;
        let ids = lists.ids.len() as f64;
        let text = self.text_size as f64;
        let names = PostingsCodec::ALL.map(|codec| (codec.name(), Some(codec)));
        for (name, codec) in names.into_iter().chain([("auto", None)]) {
            let mut bytes = Vec::new();
            let mut encoded = Vec::new();
            for word in 0..lists.len() {
                let list = lists.list(word);
                let codec = codec.unwrap_or_else(|| choose_codec(list, lists.universe));
                let begin = bytes.len();
                encode_ids(codec, list, lists.universe, &mut bytes);
                encoded.push((codec, begin..bytes.len(), list.len()));
            }
            let mut decoded = Vec::with_capacity(lists.ids.len());
            let mut nanoseconds_of = |least: usize| -> f64 {
                let wanted = || encoded.iter().filter(|(_, _, count)| *count >= least);
                let total: usize = wanted().map(|(_, _, count)| count).sum();
                let seconds = thread_median(self.runs, || {
                    decoded.clear();
                    for (codec, range, count) in wanted() {
                        let bytes = &bytes[range.clone()];
                        decode_ids(*codec, bytes, *count, lists.universe, &mut decoded)
                            .expect("was encoded");
                    }
                    black_box(&decoded);
                });
                // Not a number where there is none.
                if total > 0 {
                    seconds * 1e9 / total as f64
                } else {
                    f64::NAN
                }
            };
            let long = nanoseconds_of(1024);
            let all = nanoseconds_of(0);
            if decoded != lists.ids {
                return Err(format!("{name} decodes other ids").into());
            }
            let size = bytes.len() as f64;
            let numbers = [
                size / MEGABYTE,
                size / text * 100.0,
                size * 8.0 / ids,
                ids * 4.0 / size,
                all,
                long,
            ];
            table.row(name, numbers);
        }
        let mut bytes = Vec::new();
        encode_shared_lists(&lists.offsets, &lists.ids, &mut bytes);
        let mut decoded = Vec::new();
        let seconds = thread_median(self.runs, || {
            decoded.clear();
            let (offsets, universe) = (&lists.offsets, lists.universe);
            decode_shared_lists(&bytes, offsets, universe, &mut decoded).expect("was encoded");
        });
        if decoded != lists.ids {
            return Err("shared lists decode other ids".into());
        }
        let shared = bytes.len() as f64;
        bytes.clear();
        for word in 0..lists.len() {
            encode_counts(&lists.counts[lists.range(word)], &mut bytes);
        }
        let size = bytes.len() as f64;
        for (name, size, nanoseconds) in [
            ("shared lists", shared, seconds * 1e9 / ids),
            ("counts", size, f64::NAN),
        ] {
            let numbers = [
                size / MEGABYTE,
                size / text * 100.0,
                size * 8.0 / ids,
                ids * 4.0 / size,
                nanoseconds,
                nanoseconds,
            ];
            table.row(name, numbers);
        }
        self.tables.push(table);
        Ok(())
    }

    /// Queries of words that have lists, of two words at least.
    fn queries(&self, lists: &Lists) -> Result<Vec<Vec<u32>>> {
        let mut queries = self.read_queries(lists)?;
        queries.extend(self.synthetic(lists));
        for query in &mut queries {
            query.sort_unstable();
            query.dedup();
        }
        queries.retain(|query| query.len() > 1);
        Ok(queries)
    }

    /// The words of queries in a file that have lists.
    fn read_queries(&self, lists: &Lists) -> Result<Vec<Vec<u32>>> {
        let mut queries = Vec::new();
        if let Some(path) = &self.options.queries {
            for line in String::from_utf8_lossy(&fs::read(path)?).lines() {
                let text = line.split_once(':').map_or(line, |(_, text)| text);
                let words = text.split(|character: char| !character.is_alphanumeric());
                let found = words.filter_map(|word| {
                    lists
                        .words
                        .get(word.to_ascii_lowercase().as_bytes())
                        .copied()
                });
                queries.push(found.collect::<Vec<u32>>());
            }
        }
        Ok(queries)
    }

    /// Queries of distinct words that are drawn by how often they occur.
    fn synthetic(&self, lists: &Lists) -> Vec<Vec<u32>> {
        let mut queries = Vec::new();
        let shares: usize = QUERY_SHARES.iter().map(|(_, share)| share).sum();
        let mut state = 0;
        let mut below = |end: usize| {
            state += 1;
            (mix(state) % end as u64) as usize
        };
        for _ in 0..self.options.synthetic {
            let mut drawn = below(shares);
            let mut lengths = QUERY_SHARES.iter();
            let length = lengths.find(|&&(_, share)| {
                let is_it = drawn < share;
                drawn = drawn.wrapping_sub(share);
                is_it
            });
            let length = length.map_or(2, |&(length, _)| length);
            // Words of an occurrence are drawn, so that frequent words are frequent.
            let words = (0..length).map(|_| {
                let at = below(lists.ids.len()) as u32;
                lists.offsets.partition_point(|&offset| offset <= at) as u32 - 1
            });
            let mut words: Vec<u32> = words.collect();
            words.sort_unstable();
            words.dedup();
            if words.len() > 1 {
                queries.push(words);
            }
        }
        queries
    }

    /// Tables 3 and 7: queries a second of each method and codec, on one thread and all.
    fn searches(&mut self, order: &str, lists: &Lists, queries: &[Vec<u32>]) {
        let titles = [
            "queries/s",
            "on all threads",
            "to skip lists",
            "bytes an id beside",
        ];
        let mut table = Table::new(format!("searches, {order}"), titles).detail();
        let mut words: Vec<u32> = queries.concat();
        words.sort_unstable();
        words.dedup();
        let place = |word: u32| words.binary_search(&word).expect("a word of a query");
        let ids: usize = words.iter().map(|&word| lists.list(word).len()).sum();
        let mut expected = None;
        let mut baseline = f64::NAN;
        let mut skip_first = SearchMethod::ALL;
        skip_first.rotate_right(1);
        for method in skip_first {
            let index = |&word: &u32| ListIndex::new(method, lists.list(word), lists.universe);
            // A bit set for each word would take too much.
            if method == SearchMethod::BitSet {
                continue;
            }
            let indices: Vec<ListIndex<'_>> = words.par_iter().map(index).collect();
            let answer = |query: &Vec<u32>| {
                let lists: Vec<&ListIndex<'_>> =
                    query.iter().map(|&word| &indices[place(word)]).collect();
                let mut output = Vec::new();
                intersect_plain(&lists, &mut output);
                output.len() as u64
            };
            let beside = indices.iter().map(ListIndex::bytes).sum::<usize>() as f64 / ids as f64;
            let (one, all) = self.rates(queries, &mut expected, answer);
            if method == SearchMethod::SkipList {
                baseline = one;
            }
            table.row(method.name(), [one, all, one / baseline, beside]);
        }
        for codec in PostingsCodec::ALL {
            let encode = |&word: &u32| {
                let mut bytes = Vec::new();
                encode_ids(codec, lists.list(word), lists.universe, &mut bytes);
                bytes
            };
            let encoded: Vec<Vec<u8>> = words.par_iter().map(encode).collect();
            let opened: Vec<PostingsList<'_>> = (encoded.iter().zip(&words))
                .map(|(bytes, &word)| {
                    let count = lists.list(word).len();
                    PostingsList::new(codec, bytes, count, lists.universe).expect("was encoded")
                })
                .collect();
            let answer = |query: &Vec<u32>| {
                let lists: Vec<PostingsList<'_>> =
                    query.iter().map(|&word| opened[place(word)]).collect();
                let mut output = Vec::new();
                intersect(&lists, &mut output);
                output.len() as u64
            };
            let (one, all) = self.rates(queries, &mut expected, answer);
            table.row(codec.name(), [one, all, one / baseline, 0.0]);
        }
        self.tables.push(table);
    }

    /// Queries a second on one thread and on all; every way must find as many ids as the first.
    fn rates(
        &self,
        queries: &[Vec<u32>],
        expected: &mut Option<u64>,
        answer: impl Fn(&Vec<u32>) -> u64 + Sync,
    ) -> (f64, f64) {
        let count = queries.len() as f64;
        let mut found = 0;
        let one = thread_median(self.runs, || found = queries.iter().map(&answer).sum());
        assert_eq!(*expected.get_or_insert(found), found, "answers differ");
        let all = median(self.runs, || {
            black_box(queries.par_iter().map(&answer).sum::<u64>());
        });
        (count / one, count / all)
    }
}

/// Seconds of the median run.
fn median(runs: usize, run: impl FnMut()) -> f64 {
    median_by(runs, run, |start| start.elapsed().as_secs_f64())
}

/// Seconds that this thread ran in the median run, so that other work on the machine does not count. A run is repeated until it
/// takes a fifth of a second: the system counts in ticks of some milliseconds.
fn thread_median(runs: usize, mut run: impl FnMut()) -> f64 {
    const SECONDS_MIN: f64 = 0.2;
    let start = Instant::now();
    run();
    // At least once; the cast saturates.
    let repeats = (SECONDS_MIN / start.elapsed().as_secs_f64())
        .ceil()
        .max(1.0) as usize;
    let repeated = || (0..repeats).for_each(|_| run());
    median_by(runs, repeated, thread_seconds) / repeats as f64
}

fn median_by(runs: usize, mut run: impl FnMut(), clock: impl Fn(Instant) -> f64) -> f64 {
    let start = Instant::now();
    let mut seconds: Vec<f64> = (0..runs)
        .map(|_| {
            let before = clock(start);
            run();
            clock(start) - before
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[runs / 2]
}
