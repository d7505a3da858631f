//! Queries on lists of a device, answered in batches on two queues (Ao et al., PVLDB 4(8), 2011, 4.1).
//!
//! The invariant: answers are in the order of the queries, whatever the batches. A batch is as many queries as have a threshold
//! of candidates together; which lists they name is copied, and the answers of the batch before come back, while its kernels
//! run. What a list is, and how candidates are looked up, is not known here.

use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Argument, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives;

pub(crate) static SOURCE: Source = Source {
    name: "query_batches.cu",
    text: include_str!("query_batches.cu"),
    headers: &[],
    constants: &[("QUERY_BATCHES_THREADS", THREADS as u64)],
};

/// Candidates of a batch at most, unless one query has more: places are 32 bits wide.
const CANDIDATES_MAX: usize = 1 << 30;

/// What queries found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryIds {
    /// `[queries + 1]`: those of query q are `ids[offsets[q]..offsets[q + 1]]`.
    pub offsets: Vec<usize>,
    /// Ascending for each query.
    pub ids: Vec<u32>,
}

/// The lists of each query, each once, the shortest first.
pub fn shortest_first(queries: &[Vec<u32>], count: impl Fn(u32) -> u32) -> Vec<Vec<u32>> {
    let by_length = |query: &Vec<u32>| {
        let mut query = query.clone();
        query.sort_by_key(|&list| (count(list), list));
        query.dedup();
        query
    };
    queries.iter().map(by_length).collect()
}

/// Queries that are answered together: until `threshold` candidates have come together.
pub fn batches_of(
    queries: &[Vec<u32>],
    threshold: usize,
    candidates: impl Fn(&[u32]) -> usize,
) -> Vec<&[Vec<u32>]> {
    let mut batches = Vec::new();
    let (mut begin, mut items) = (0, 0);
    for (end, query) in (1..).zip(queries) {
        items += candidates(query);
        if items >= threshold.min(CANDIDATES_MAX) || end == queries.len() {
            batches.push(&queries[begin..end]);
            (begin, items) = (end, 0);
        }
    }
    batches
}

/// The queries of a batch, as they are copied.
pub struct BatchQueries {
    /// Query offsets, item offsets and entries, one behind the other.
    numbers: Buffer<u32>,
    /// How many there are.
    pub queries: u32,
    /// Lists of all queries.
    pub entries: u32,
    /// Candidates of all queries.
    pub items: u32,
    item_offsets_first: usize,
    entries_first: usize,
}

impl BatchQueries {
    /// Copies which lists queries name, and the candidates of each query, or of each of its lists.
    pub fn upload(
        gpu: &Gpu,
        queries: &[Vec<u32>],
        candidates: impl Iterator<Item = usize>,
    ) -> Result<BatchQueries, GpuError> {
        let mut numbers = vec![0];
        let mut entries = 0;
        for query in queries {
            entries += query.len();
            numbers.push(entries as u32); // each has a candidate or a place in a list of queries
        }
        let item_offsets_first = numbers.len();
        numbers.push(0);
        let mut items = 0;
        for count in candidates {
            items += count;
            numbers.push(u32::try_from(items).expect("a batch has fewer than 2^32 candidates"));
        }
        let entries_first = numbers.len();
        numbers.extend(queries.iter().flatten());
        Ok(BatchQueries {
            numbers: gpu.upload(&numbers)?,
            queries: queries.len() as u32,
            entries: entries as u32,
            items: items as u32, // checked above
            item_offsets_first,
            entries_first,
        })
    }

    /// `[queries + 1]`, into the entries.
    pub fn query_offsets(&self) -> Argument<'_> {
        self.numbers.at(0)
    }

    /// `[owners + 1]`: the candidates before those of each owner, a query or an entry.
    pub fn item_offsets(&self) -> Argument<'_> {
        self.numbers.at(self.item_offsets_first)
    }

    /// `[entries]`: the lists of all queries.
    pub fn entries(&self) -> Argument<'_> {
        self.numbers.at(self.entries_first)
    }
}

/// A batch whose kernels were started.
pub struct BatchAnswers {
    survivors: Buffer<u32>,
    result_offsets: Buffer<u32>,
    /// What kernels read until they are done.
    _inputs: (BatchQueries, Buffer<u32>),
}

impl BatchAnswers {
    /// `places` are those of candidates among survivors.
    pub fn new(
        survivors: Buffer<u32>,
        result_offsets: Buffer<u32>,
        batch: BatchQueries,
        places: Buffer<u32>,
    ) -> BatchAnswers {
        BatchAnswers {
            survivors,
            result_offsets,
            _inputs: (batch, places),
        }
    }

    /// Copies the answers behind those of batches before.
    fn collect(self, gpu: &Gpu, found: &mut QueryIds) -> Result<(), GpuError> {
        let offsets = gpu.download(&self.result_offsets)?;
        let begin = found.ids.len();
        let count = offsets[offsets.len() - 1] as usize;
        found.ids.resize(begin + count, 0);
        gpu.download_from(&self.survivors, 0, &mut found.ids[begin..])?;
        let offsets = offsets[1..].iter();
        (found.offsets).extend(offsets.map(|&offset| begin + offset as usize));
        Ok(())
    }
}

/// Starts what makes answers of flags, 1 for each candidate that stays: `write` fills survivors, by the place of each.
pub fn survivors_of(
    gpu: &Gpu,
    batch: BatchQueries,
    flags: &Buffer<u32>,
    write: impl FnOnce(&BatchQueries, &Buffer<u32>, &Buffer<u32>) -> Result<(), GpuError>,
) -> Result<BatchAnswers, GpuError> {
    let places = primitives::scan::<u32, u32>(gpu, flags)?;
    // Not more than candidates: how many is not waited for.
    let survivors = gpu.allocate::<u32>(batch.items as usize)?;
    write(&batch, &places, &survivors)?;
    let offsets = batch.queries as usize + 1;
    let result_offsets = gpu.allocate::<u32>(offsets)?;
    let arguments = arguments! {
        item_offsets: batch.item_offsets(),
        queries: batch.queries,
        places,
        result_offsets,
    };
    gpu.launch_looping(SOURCE.kernel("result_offsets_kernel"), offsets, arguments)?;
    Ok(BatchAnswers::new(survivors, result_offsets, batch, places))
}

/// Answers batches: `upload` copies the queries of one, `start` starts its kernels.
pub fn answer_batches(
    gpu: &Gpu,
    batches: &[&[Vec<u32>]],
    upload: impl Fn(&Gpu, &[Vec<u32>]) -> Result<BatchQueries, GpuError>,
    start: impl Fn(&Gpu, BatchQueries) -> Result<BatchAnswers, GpuError>,
) -> Result<QueryIds, GpuError> {
    // Memory of its own: kernels of this queue may still use what was freed here. The numbers of two batches are few.
    let beside = gpu.beside()?.with_memory_limit(gpu.memory_limit());
    let mut found = QueryIds {
        offsets: vec![0],
        ids: Vec::new(),
    };
    let upload = |batch: Option<&&[Vec<u32>]>| {
        let upload = batch.map(|queries| upload(&beside, queries));
        upload.transpose()
    };
    let mut coming = upload(batches.first())?;
    let mut before: Option<BatchAnswers> = None;
    for k in 0..batches.len() {
        gpu.follow(&beside)?;
        let batch = coming.take().expect("the batch was copied");
        let answers = start(gpu, batch)?;
        // Both while this batch is worked on.
        if let Some(before) = before.take() {
            before.collect(&beside, &mut found)?;
        }
        coming = upload(batches.get(k + 1))?;
        beside.follow(gpu)?;
        before = Some(answers);
    }
    if let Some(before) = before {
        before.collect(&beside, &mut found)?;
    }
    gpu.follow(&beside)?;
    Ok(found)
}
