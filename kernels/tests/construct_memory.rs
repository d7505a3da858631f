//! How much memory grammar construction takes, measured by an allocator that counts.
//!
//! A test binary of its own with one test, since the allocator is global.
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use zipfdb_kernels::{Parameters, construct};

/// The system's allocator, counting what is allocated.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: both methods do as the system's allocator does, and keep a count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
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

/// Bytes a token at the peak, the tokens themselves included.
fn bytes_a_token(threads: usize, tokens: Vec<u32>) -> f64 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.unwrap();
    let length = tokens.len();
    let terminal_count = 1 + tokens.iter().max().unwrap();
    let file_offsets = [0, length as u32];
    let before = ALLOCATED.load(Relaxed) - 4 * length;
    PEAK.store(ALLOCATED.load(Relaxed), Relaxed);
    let parameters = Parameters::default();
    pool.install(|| {
        construct(
            tokens,
            &file_offsets,
            terminal_count,
            &parameters,
            &mut |_| {},
        );
    });
    (PEAK.load(Relaxed) - before) as f64 / length as f64
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[test]
fn construction_takes_at_most_25_bytes_a_token() {
    let length = 2_000_000;
    let random = |end: u64| (0..length).map(move |i| (mix(i) % end) as u32);
    let all = || (0..length as u32).collect::<Vec<_>>();
    let twice = || {
        (0..length as u32)
            .map(|i| i % (length as u32 / 2))
            .collect::<Vec<_>>()
    };
    // Rare tokens of a large dictionary among frequent ones.
    let text = || {
        let end = |i| mix(i + length) % 100_000 + 1;
        (0..length)
            .map(|i| (mix(i) % end(i)) as u32)
            .collect::<Vec<_>>()
    };
    for threads in [2, 16] {
        for (name, tokens) in [
            ("text", text()),
            ("binary", random(2).collect()),
            ("thousand", random(1000).collect()),
            ("million", random(1_000_000).collect()),
            ("all different", all()),
            ("twice", twice()),
            ("run", vec![0; length as usize]),
            ("period 2", (0..length as u32).map(|i| i % 2).collect()),
            ("period 3", (0..length as u32).map(|i| i % 3).collect()),
            ("period 5", (0..length as u32).map(|i| i % 5).collect()),
        ] {
            let bytes = bytes_a_token(threads, tokens);
            println!("{threads} threads, {name}: {bytes:.1} bytes a token");
            assert!(
                bytes <= 25.0,
                "{threads} threads, {name}: {bytes:.1} bytes a token"
            );
        }
    }
}
