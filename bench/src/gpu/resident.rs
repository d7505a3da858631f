//! Times of tasks and batches on a device that already has the grammar and the questions, for suite `tadoc`.
//!
//! Answers stay on the device. That they are right is what part `tasks` and part `lookups` check.

use zipfdb_kernels::FileOrder;
use zipfdb_kernels::gpu::{
    self, DeviceInserts, DeviceQueries, DeviceWords, Extract, FileUses, Gpu, GpuError, WordQuery,
    devices, file_word_counts, word_file_counts, words_by_count,
};
use zipfdb_kernels::{APPEND, Insert};

use super::arrays::Arrays;
use super::kernels::{Batches, Work};
use crate::Result;

const RUNS: usize = 5;

/// Bytes for windows of n-grams.
const MEMORY: usize = 16 << 30;

/// Words of the n-grams that are counted.
const N: usize = 3;

/// Bytes of an edit, and of a short and a long extract.
const EDIT_BYTES: u64 = 64;
const EXTRACTS: [(&str, u64); 2] = [("extract 64 B, batch", 64), ("extract 4 KiB, batch", 4096)];

/// Batches, with files and words by number.
pub struct Asked {
    /// File and word to count.
    pub counts: Vec<(usize, usize)>,
    /// File and word to search.
    pub searches: Vec<(usize, usize)>,
    /// File and offset, for extracts and inserts.
    pub places: Vec<(usize, u64)>,
    /// File and offset, for inserts each of which sees those before.
    pub moved: Vec<(usize, u64)>,
}

/// Seconds of each task, and of a question of each kind of batch, by the names of suite `tadoc`; none where there is no device.
pub fn resident(arrays: &Arrays, asked: &Asked) -> Result<Option<Vec<(&'static str, f64)>>> {
    let Ok([gpu, ..]) = devices() else {
        return Ok(None);
    };
    let work = Work::new(gpu, &arrays.tokens, &arrays.file_offsets, arrays)?;
    let mut times = tasks(gpu, &work, arrays)?;
    times.extend(batches(gpu, &work, arrays, asked)?);
    Ok(Some(times))
}

fn tasks(gpu: &Gpu, work: &Work<'_>, arrays: &Arrays) -> Result<Vec<(&'static str, f64)>> {
    let words = &DeviceWords::upload(gpu, work.word_view())?;
    let uses = &FileUses::new(gpu, words)?;
    let counts = &gpu::weights(gpu, words)?;
    // A segment has fewer tokens than a u32 counts, and fewer words than tokens.
    let (word_count, most) = (arrays.words.len() as u32, arrays.tokens.len() as u32);
    let order = FileOrder::Count;
    Ok(vec![
        (
            "word count",
            measure(gpu, || gpu::weights(gpu, words).map(drop))?,
        ),
        (
            "sort",
            measure(gpu, || {
                let counts = gpu::weights(gpu, words)?;
                words_by_count(gpu, &counts, word_count, most).map(drop)
            })?,
        ),
        (
            "inverted index",
            measure(gpu, || word_file_counts(gpu, words, uses).map(drop))?,
        ),
        (
            "term vector",
            measure(gpu, || file_word_counts(gpu, words, uses).map(drop))?,
        ),
        (
            "sequence count",
            measure(gpu, || {
                gpu::ngram_counts(gpu, words, counts, N, MEMORY).map(drop)
            })?,
        ),
        (
            "ranked inverted index",
            measure(gpu, || {
                gpu::ngram_file_counts(gpu, words, counts, uses, N, order, MEMORY).map(drop)
            })?,
        ),
    ])
}

fn batches(
    gpu: &Gpu,
    work: &Work<'_>,
    arrays: &Arrays,
    asked: &Asked,
) -> Result<Vec<(&'static str, f64)>> {
    let drawn = Batches::new(gpu, work, arrays)?;
    let structures = &drawn.structures(gpu, work)?;
    let queries = |asked: &[(usize, usize)]| {
        // Files are numbered by u32.
        let query = |&(file, word): &(usize, usize)| WordQuery {
            word: arrays.words[word],
            file: file as u32,
        };
        let queries: Vec<WordQuery> = asked.iter().map(query).collect();
        DeviceQueries::upload(gpu, &queries)
    };
    let each = |seconds: f64, asked: usize| seconds / asked.max(1) as f64;
    let (counts, searches) = (&queries(&asked.counts)?, &queries(&asked.searches)?);
    let mut times = vec![
        (
            "count, batch",
            each(
                measure(gpu, || structures.count(gpu, counts).map(drop))?,
                asked.counts.len(),
            ),
        ),
        (
            "search, batch",
            each(
                measure(gpu, || structures.search(gpu, searches).map(drop))?,
                asked.searches.len(),
            ),
        ),
    ];
    for (name, length) in EXTRACTS {
        let extract = |&(file, offset): &(usize, u64)| Extract {
            file: file as u32,
            offset,
            length,
        };
        let extracts: Vec<Extract> = asked.places.iter().map(extract).collect();
        let seconds = measure(gpu, || structures.extract(gpu, &extracts).map(drop))?;
        times.push((name, each(seconds, extracts.len())));
    }
    let ends: Vec<(usize, u64)> = asked
        .places
        .iter()
        .map(|&(file, _)| (file, APPEND))
        .collect();
    for (name, places) in [("insert, in sequence", &asked.moved), ("append", &ends)] {
        let insert = |&(file, offset): &(usize, u64)| Insert {
            file: file as u32,
            offset,
            length: EDIT_BYTES,
        };
        let inserts: Vec<Insert> = places.iter().map(insert).collect();
        let uploaded = DeviceInserts::upload(gpu, &drawn.sizes, &inserts)?;
        let seconds = measure(gpu, || uploaded.place(gpu).map(drop))?;
        times.push((name, each(seconds, inserts.len())));
    }
    Ok(times)
}

/// Seconds of the device, the median of some runs after an untimed one.
fn measure(
    gpu: &Gpu,
    mut run: impl FnMut() -> std::result::Result<(), GpuError>,
) -> std::result::Result<f64, GpuError> {
    let mut times = Vec::new();
    for turn in 0..=RUNS {
        let ((), nanoseconds) = gpu.timed(&mut run)?;
        if turn > 0 {
            times.push(nanoseconds as f64 / 1e9);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}
