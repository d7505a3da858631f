//! Part `overlap`: a corpus larger than a device's memory, whose segments are copied one by one, while the device works with
//! the one before, and not.
//!
//! A segment stands for many, none of which stays; the memory limit has room for two. The work is an inverted index and
//! sequences of three words, with copies of the results.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use zipfdb_kernels::gpu::{
    self, ComingGrammar, DeviceGrammar, DeviceWords, FileUses, Gpu, GpuError, word_file_counts,
};

use super::arrays::Arrays;
use super::kernels::Work;
use crate::Result;
use crate::report::{Cell, Table};

/// Segments that are worked with, one after the other.
const SEGMENTS: usize = 12;

const RUNS: usize = 3;

/// Bytes for windows.
const MEMORY: usize = 1 << 30;

/// Times many segments like this one with copies beside the work, and before it.
pub fn run(device: &Gpu, arrays: &Arrays) -> Result<Table> {
    let work = Work::new(device, &arrays.tokens, &arrays.file_offsets, arrays)?;
    let view = work.word_view();
    // What one segment takes, and the grammar of the next.
    let gpu = device.with_memory_limit(device.memory_limit());
    answer(&gpu, DeviceGrammar::upload(&gpu, view)?, true)?;
    let used = gpu.take_memory_used_max();
    let grammar = DeviceGrammar::upload(&gpu, view)?.bytes();
    // Freed memory also serves slightly smaller requests.
    let limit = (used + grammar) * 4 / 3;
    let gpu = device.with_memory_limit(limit);
    let copied = |gpu: &Gpu| {
        let grammar = DeviceGrammar::upload(gpu, view)?;
        gpu.synchronize()?;
        Ok::<_, GpuError>(grammar)
    };
    let one_by_one = |counts: bool| {
        for _ in 0..SEGMENTS {
            answer(&gpu, copied(&gpu)?, counts)?;
        }
        Ok::<_, GpuError>(())
    };
    let overlapped = |counts: bool| {
        let never: Arc<AtomicBool> = Arc::default();
        let mut next = Some(copied(&gpu)?);
        for segment in 1..=SEGMENTS {
            let Some(grammar) = next.take() else { break };
            let coming = if segment < SEGMENTS {
                Some(ComingGrammar::begin(&gpu, view)?)
            } else {
                None
            };
            let (done, coming) = thread::scope(|scope| {
                let copy = scope.spawn(|| {
                    let mut coming = coming?;
                    Some(coming.copy(view, &never).map(|()| coming))
                });
                let done = answer(&gpu, grammar, counts);
                (done, copy.join().ok().flatten())
            });
            done?;
            if let Some(coming) = coming {
                next = coming?.arrive(&gpu)?;
            }
        }
        Ok(())
    };
    let copies = best(|| (0..SEGMENTS).try_for_each(|_| copied(&gpu).map(drop)))?;
    let mut table = Table::new(
        format!("{SEGMENTS} segments in less memory, ms"),
        ["copies before the work", "beside it"],
    );
    table.row("copies alone", [Cell::from(copies)]);
    for (name, counts) in [("inverted index", false), ("sequence count, n = 3", true)] {
        table.row(
            name,
            [best(|| one_by_one(counts))?, best(|| overlapped(counts))?],
        );
    }
    Ok(table)
}

/// Answers one question of a segment, and copies the answer to the host.
fn answer(gpu: &Gpu, grammar: DeviceGrammar, is_ngrams: bool) -> std::result::Result<(), GpuError> {
    let words = DeviceWords::new(gpu, grammar)?;
    if is_ngrams {
        let counts = gpu::weights(gpu, &words)?;
        let mut take = |part: gpu::DeviceNgrams, _| part.download(gpu).map(drop);
        return gpu::each_ngram_counts(gpu, &words, &counts, 3, MEMORY, &mut take);
    }
    let uses = FileUses::new(gpu, &words)?;
    word_file_counts(gpu, &words, &uses)?
        .download(gpu)
        .map(drop)
}

/// The best of some runs after a first one, in milliseconds.
fn best(run: impl Fn() -> std::result::Result<(), GpuError>) -> Result<f64> {
    run()?;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let begin = Instant::now();
        run()?;
        best = best.min(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}
