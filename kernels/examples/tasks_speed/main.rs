//! Times the tasks on the grammar against a straight scan: `tasks_speed PATH...`, each a file
//! or a directory of text. `RAYON_NUM_THREADS` sets the threads of both, `TASKS` picks the tasks
//! whose names contain it.
//!
//! Answers are compared; each time is the shortest of some runs in turns.

mod corpus;
mod scan;

use std::error::Error;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::{
    CountTable, FileLists, FileOrder, Lengths, NgramCounts, NgramFiles, RuleEnds, WordUses,
    file_word_counts, inverted_index, ngram_count, ngram_counts, ngram_file_counts,
    ngram_positions, weights,
};

use crate::corpus::Corpus;
use crate::scan::Scan;

/// Runs of each task.
const RUNS: usize = 5;

/// Phrases of each length.
const PHRASES: usize = 400;

/// Words of an n-gram.
const NGRAM_WORDS: usize = 3;

static GO: AtomicBool = AtomicBool::new(false);

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        run(&path)?;
    }
    Ok(())
}

fn run(path: &str) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let corpus = Corpus::read(path)?;
    let read = begin.elapsed();
    let scan = Scan {
        words: &corpus.words,
        file_offsets: &corpus.file_offsets,
        word_count: corpus.word_count,
    };
    let (view, kept) = (corpus.grammar.view(), corpus.grammar.weights());
    let begin = Instant::now();
    let uses = WordUses::new(view);
    println!(
        "{path}: {} bytes, {} files, {} words, {} different; read in {:.1} s\n\
         grammar: {} rules of {} symbols, root {}, {} levels; {:.1} MB, made in {:.1} ms; uses \
         {:.1} MB, made in {:.1} ms; word ids {:.1} MB",
        corpus.bytes,
        view.files(),
        corpus.words.len(),
        corpus.word_count,
        read.as_secs_f64(),
        view.rules(),
        view.symbols.len(),
        view.root.len(),
        view.levels(),
        corpus.grammar.bytes() as f64 / 1e6,
        corpus.grammar_time.as_secs_f64() * 1e3,
        uses.bytes() as f64 / 1e6,
        begin.elapsed().as_secs_f64() * 1e3,
        size_of_val(&corpus.words[..]) as f64 / 1e6,
    );
    println!("| task | scan ms | grammar ms | ratio | result MB |\n|---|---|---|---|---|");
    let words = corpus.word_count as usize;
    let traversed = || -> Vec<u32> {
        let weights = weights(view, 0..view.root.len(), u64::from(u32::MAX));
        // A corpus has fewer words than a u32 counts.
        weights[..words].iter().map(|&n| n as u32).collect()
    };
    let counts = || kept[..words].to_vec();
    compare(
        "word count, weights not kept",
        || scan.word_counts(),
        traversed,
    );
    compare("word count", || scan.word_counts(), counts);
    let scanned = || sort_by_count(scan.word_counts());
    compare("sort", scanned, || sort_by_count(counts()));
    let gathered = || inverted_index(view, &uses, &GO).expect("not stopped");
    compare("inverted index", || scan.inverted_index(), gathered);
    let gathered = || file_word_counts(view, &uses, &GO).expect("not stopped");
    compare("term vector", || scan.file_word_counts(), gathered);

    phrases(&corpus, &uses);

    let n = NGRAM_WORDS;
    let scan_counts = scan.word_counts();
    let scanned = || scan.ngram_counts(&scan_counts, n);
    let counted = || ngram_counts(view, kept, n, usize::MAX, &GO);
    compare(
        "sequence count",
        || Parts(scanned().expect("not stopped")),
        || Parts(counted().expect("not stopped")),
    );
    let scan_uses = WordUses::new(scan.view());
    let scanned = || scan.ngram_files(&scan_counts, &scan_uses, n);
    let order = FileOrder::Count;
    let counted = || ngram_file_counts(view, kept, &uses, n, order, usize::MAX, &GO);
    compare(
        "ranked inverted index",
        || Parts(scanned().expect("not stopped")),
        || Parts(counted().expect("not stopped")),
    );
    Ok(())
}

/// Counts and locates phrases of the text itself, taken at even distances.
fn phrases(corpus: &Corpus, uses: &WordUses) {
    let view = corpus.grammar.view();
    let (ends, lengths) = (RuleEnds::new(view), Lengths::new(view, |_| 1));
    for n in [2, 3, 5] {
        let step = corpus.words.len() / PHRASES + 1;
        let phrases = corpus.words.windows(n).step_by(step);
        let (mut counting, mut locating) = (Vec::new(), Vec::new());
        for phrase in phrases {
            let begin = Instant::now();
            let weights = corpus.grammar.weights();
            let count = ngram_count(view, uses, &ends, weights, phrase, &GO);
            counting.push(begin.elapsed().as_secs_f64() * 1e6);
            let begin = Instant::now();
            let positions = ngram_positions(view, uses, &ends, &lengths, phrase, &GO);
            locating.push(begin.elapsed().as_secs_f64() * 1e6);
            let positions = positions.map(|positions| positions.len() as u64);
            assert_eq!(positions, count);
        }
        counting.sort_by(f64::total_cmp);
        locating.sort_by(f64::total_cmp);
        let (middle, most) = (counting.len() / 2, counting.len() * 9 / 10);
        println!(
            "phrases of {n} words: count {:.1} us, 9 of 10 under {:.1}, locate {:.1} us, 9 of 10 under {:.1}",
            counting[middle], counting[most], locating[middle], locating[most]
        );
    }
}

/// Words with their counts, the most frequent first, then by word.
fn sort_by_count(counts: Vec<u32>) -> Vec<(u32, u32)> {
    let words = (0..).zip(counts).filter(|&(_, count)| count > 0);
    let mut words: Vec<(u32, u32)> = words.collect();
    words.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    words
}

fn compare<T: Answer>(task: &str, scan: impl Fn() -> T, grammar: impl Fn() -> T) {
    if std::env::var("TASKS").is_ok_and(|only| !task.contains(&only)) {
        return;
    }
    let time = |run: &dyn Fn() -> T, shortest: &mut f64| {
        let begin = Instant::now();
        let answer = run();
        *shortest = shortest.min(begin.elapsed().as_secs_f64() * 1e3);
        answer
    };
    let (mut scanned, mut gathered) = (f64::MAX, f64::MAX);
    let mut bytes = 0;
    for run in 0..RUNS {
        let expected = time(&scan, &mut scanned);
        let found = time(&grammar, &mut gathered);
        if run == 0 {
            assert!(expected.same(&found), "{task}: answers differ");
            bytes = found.bytes();
        }
    }
    println!(
        "| {task} | {scanned:.2} | {gathered:.2} | {:.2} | {:.1} |",
        scanned / gathered,
        bytes as f64 / 1e6
    );
}

/// What a task answers.
trait Answer {
    fn same(&self, other: &Self) -> bool;
    fn bytes(&self) -> usize;
}

impl<T: PartialEq> Answer for Vec<T> {
    fn same(&self, other: &Self) -> bool {
        self == other
    }
    fn bytes(&self) -> usize {
        size_of_val(&self[..])
    }
}

impl Answer for FileLists {
    fn same(&self, other: &Self) -> bool {
        self == other
    }
    fn bytes(&self) -> usize {
        self.files.bytes() + self.offsets.bytes()
    }
}

impl Answer for CountTable {
    fn same(&self, other: &Self) -> bool {
        self == other
    }
    fn bytes(&self) -> usize {
        self.entries.bytes() + self.offsets.bytes()
    }
}

/// An answer in parts, which may be cut elsewhere.
struct Parts<T>(Vec<T>);

impl Answer for Parts<NgramCounts> {
    fn same(&self, other: &Self) -> bool {
        let words = |of: &Self| -> Vec<u32> { of.0.iter().flat_map(|p| p.words.clone()).collect() };
        let counts =
            |of: &Self| -> Vec<u32> { of.0.iter().flat_map(|p| p.counts.clone()).collect() };
        words(self) == words(other) && counts(self) == counts(other)
    }
    fn bytes(&self) -> usize {
        let part = |part: &NgramCounts| part.words.bytes() + part.counts.bytes();
        self.0.iter().map(part).sum()
    }
}

impl Answer for Parts<NgramFiles> {
    fn same(&self, other: &Self) -> bool {
        let words = |of: &Self| -> Vec<u32> { of.0.iter().flat_map(|p| p.words.clone()).collect() };
        let rows = |of: &Self| -> Vec<(usize, u32, u32)> {
            let tables = of.0.iter().map(|part| &part.files);
            let rows = tables.flat_map(|table| (0..table.rows()).map(|row| table.row(row)));
            let numbered = rows.enumerate();
            let flat = numbered.flat_map(|(row, r)| r.iter().map(move |&(f, n)| (row, f, n)));
            flat.collect()
        };
        words(self) == words(other) && rows(self) == rows(other)
    }
    fn bytes(&self) -> usize {
        let part = |part: &NgramFiles| part.words.bytes() + part.files.bytes();
        self.0.iter().map(part).sum()
    }
}
