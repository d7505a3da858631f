//! Segment files that are wrong under right checksums: an error or a sound grammar, and no more memory than the size
//! of the file allows.
//!
//! Checksums detect damage, not malice, so decoders must not trust what they let through. And sound ones that the system has
//! no memory for: an error as well. An allocator counts and refuses, which makes this a test binary of its own, whose tests
//! take turns.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicIsize, AtomicUsize};

use zipfdb_storage::{Error, Grammar};
use zipfdb_test_support::samples::{self, Random, Sample, Shape};

/// The system's allocator, counting what is allocated, which refuses one large allocation on request.
struct Counting;

/// Smallest allocation that may be refused, in bytes.
const LARGE_SIZE: usize = 100 << 10;

/// Number of large allocations before the one that is refused.
static LEFT: AtomicIsize = AtomicIsize::new(isize::MAX);

static TURN: Mutex<()> = Mutex::new(());

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: both methods do as the system's allocator does, or as one does that has no memory, and keep a count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGE_SIZE && LEFT.fetch_sub(1, Relaxed) == 0 {
            return std::ptr::null_mut();
        }
        let allocated = ALLOCATED.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(allocated, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes of tables that do not grow with a file.
const TABLES_SIZE: usize = 256 << 10;

/// Decoded bytes that one stored byte may stand for.
const EXPANSION_MAX: usize = 64;

const SECTIONS: usize = 8;
const EXTENT_SIZE: usize = 8 + 4;
const MAGIC_SIZE: usize = 8;
const HEAD_SIZE: usize = MAGIC_SIZE + 4;

fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | usize::from(byte))
}

/// Where each section lies, as storage/FORMAT.md says; the footer is the last.
fn sections(file: &[u8]) -> Vec<std::ops::Range<usize>> {
    let tail = file.len() - MAGIC_SIZE - 8;
    let footer = tail - number(&file[tail..tail + 4]);
    let mut start = HEAD_SIZE;
    let mut ranges: Vec<_> = (0..SECTIONS)
        .map(|section| {
            let extent = tail - (SECTIONS - section) * EXTENT_SIZE;
            let size = number(&file[extent..extent + 8]);
            start += size;
            start - size..start
        })
        .collect();
    assert_eq!(start, footer);
    ranges.push(footer..tail);
    ranges
}

/// Makes all checksums right.
fn seal(file: &mut [u8], sections: &[std::ops::Range<usize>]) {
    let tail = sections[SECTIONS].end;
    for (section, range) in sections[..SECTIONS].iter().enumerate() {
        let crc32 = crc32fast::hash(&file[range.clone()]);
        let extent = tail - (SECTIONS - section) * EXTENT_SIZE + 8;
        file[extent..extent + 4].copy_from_slice(&crc32.to_le_bytes());
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&file[MAGIC_SIZE..HEAD_SIZE]);
    hasher.update(&file[sections[SECTIONS].clone()]);
    file[tail + 4..tail + 8].copy_from_slice(&hasher.finalize().to_le_bytes());
}

fn wrong(file: &[u8], sections: &[std::ops::Range<usize>], random: &mut Random) -> Vec<u8> {
    let mut file = file.to_vec();
    // The extents stay, at the end of the footer: other tests cut sections short.
    let index = random.below(sections.len() as u64) as usize;
    let mut range = sections[index].clone();
    if index == SECTIONS {
        range.end -= SECTIONS * EXTENT_SIZE;
    }
    if range.is_empty() {
        return file;
    }
    for _ in 0..=random.below(3) {
        let at = range.start + random.below(range.len() as u64) as usize;
        let end = range.end.min(at + 1 + random.skewed(16) as usize);
        match random.below(4) {
            0 => file[at] ^= 1 << random.below(8),
            1 => file[at..end].fill(0xff),
            2 => file[at..end].fill(0),
            _ => file[at..end].fill_with(|| random.draw() as u8),
        }
    }
    seal(&mut file, sections);
    file
}

/// Reads all of it. The peak of the memory it took.
fn memory_to_read(file: Vec<u8>) -> (usize, bool) {
    let before = ALLOCATED.load(Relaxed);
    PEAK.store(before, Relaxed);
    let read = samples::read(file);
    let peak = PEAK.load(Relaxed) - before;
    if let Ok(Sample { grammar, .. }) = &read {
        assert!(grammar.clone().check().is_ok());
    }
    (peak, read.is_ok())
}

#[test]
fn wrong_sections_under_right_checksums_are_errors_within_bounded_memory() {
    let _turn = TURN.lock().unwrap();
    let shapes = [(40, 3, 12, 120), (0, 0, 0, 0), (300, 5, 60, 3000)];
    for (seed, (tokens, levels, rules_per_level, root_symbols)) in (1..).zip(shapes) {
        let sample = samples::random(Shape {
            seed,
            tokens,
            levels,
            rules_per_level,
            files: 3,
            root_symbols,
            body_max: 6,
        });
        let file = samples::write(&sample);
        let sections = sections(&file);
        let mut sealed = file.clone();
        seal(&mut sealed, &sections);
        assert_eq!(sealed, file);
        let mut random = Random(seed);
        let (mut refused, mut highest) = (0, 0);
        for round in 0..1500 {
            let (peak, is_read) = memory_to_read(wrong(&file, &sections, &mut random));
            refused += usize::from(!is_read);
            highest = highest.max(peak);
            let most = TABLES_SIZE + 2 * EXPANSION_MAX * file.len();
            assert!(
                peak <= most,
                "seed {seed}, round {round}: {peak} bytes, at most {most}"
            );
        }
        println!(
            "seed {seed}: {} bytes, {refused} refused, {highest} bytes at most",
            file.len()
        );
    }
}

/// As many tokens, rules and symbols of the root, and files enough that whatever grows with one of them is a large allocation.
fn large_sample() -> Sample {
    const FILES: u32 = LARGE_SIZE as u32 / 20 + 1;
    const COUNT: u32 = FILES * 20;
    let words = (0..COUNT).map(|number| format!("w{number:06}").into_bytes());
    let dictionary = samples::dictionary_of(words.collect(), Vec::new());
    let grammar = Grammar {
        terminal_count: COUNT,
        rule_offsets: (0..=COUNT).map(|rule| 2 * rule).collect(),
        symbols: (0..2 * COUNT).map(|place| place / 2).collect(),
        level_offsets: vec![0, COUNT],
        root_offsets: (0..=FILES).map(|file| file * 20).collect(),
        // Each word occurs twice: totals are small enough to be stored.
        root: (COUNT..2 * COUNT).collect(),
    };
    let grammar = grammar.check().unwrap();
    let file = |file| samples::entry(format!("{file:06}"), &grammar, &dictionary, file);
    Sample {
        header: samples::header("large"),
        files: (0..FILES).map(file).collect(),
        dictionary,
        grammar,
    }
}

#[test]
fn sections_that_the_system_has_no_memory_for_are_errors() {
    let _turn = TURN.lock().unwrap();
    let file = samples::write(&large_sample());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
    pool.build().unwrap().install(|| {
        let mut refused = 0;
        loop {
            let reader = samples::open(file.clone()).unwrap();
            LEFT.store(refused, Relaxed);
            let read = reader
                .files()
                .and_then(|_| reader.totals())
                .and_then(|_| reader.bodies())
                .and_then(|bodies| reader.root_of(&bodies, 0))
                .and_then(|_| reader.grammar());
            LEFT.store(isize::MAX, Relaxed);
            match read {
                Ok(_) => break,
                Err(error) => {
                    assert!(matches!(error, Error::NoMemory { .. }), "{error}");
                    assert!(error.to_string().contains("7.seg; hint: "), "{error}");
                }
            }
            refused += 1;
        }
        assert!(
            refused >= 20,
            "{refused} allocations are too few to believe"
        );
    });
}
