//! Counts, searches and extracts in batches.
//!
//! In   structures of a grammar on the device; words by their terminals, files, ranges of bytes
//! Out  counts; offsets of occurrences, ascending for each query; bytes
//! Work see `lookups.cu`; a search takes as many steps as the grammar has levels, each in time of its candidates
//!
//! The invariant: answers are those of [`count_in_file`](crate::count_in_file),
//! [`locate_in_file`](crate::locate_in_file) and [`extract`](crate::lookup::extract).

use crate::WordTerminals;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives::{scan, sort_keys};
use crate::lookup::structures_gpu::DeviceStructures;

/// Candidates that a block goes through.
const TILE: usize = 2048;

/// Bytes that a thread extracts.
const CHUNK: usize = 32;

/// Items that a search has room for between two steps at first, beside two for each query and one for each result.
const ITEMS_MIN: usize = 1 << 10;

/// Occurrences that a batch finds at most: counters of a search are u32.
const RESULTS_MAX: u64 = 1 << 30;

pub(crate) static SOURCE: Source = Source {
    name: "lookups.cu",
    text: include_str!("lookups.cu"),
    headers: &[],
    constants: &[
        ("LOOKUP_THREADS", THREADS as u64),
        ("LOOKUP_TILE", TILE as u64),
        ("LOOKUP_CHUNK", CHUNK as u64),
    ],
};

/// A word and a file, below the grammar's number of files.
#[derive(Clone, Copy, Debug)]
pub struct WordQuery {
    /// The word.
    pub word: WordTerminals,
    /// The file.
    pub file: u32,
}

/// Some bytes of a file; past its end there are none.
#[derive(Clone, Copy, Debug)]
pub struct Extract {
    /// The file, below the grammar's number of files.
    pub file: u32,
    /// The first byte, counted from the start of the file.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
}

/// Words and files on the device.
#[derive(Debug)]
pub struct DeviceQueries {
    firsts: Buffer<u32>,
    spaceds: Buffer<u32>,
    ends: Buffer<u32>,
    files: Buffer<u32>,
}

/// Where words occur.
#[derive(Debug, PartialEq, Eq)]
pub struct SearchResults {
    /// `[queries + 1]`: the occurrences of query q are `offsets[starts[q]..starts[q + 1]]`.
    pub starts: Vec<u64>,
    /// Byte offsets from the start of the file; ascending for each query.
    pub offsets: Vec<u64>,
}

/// What a step of a search goes on with.
struct Frontier {
    queries: Buffer<u32>,
    symbols: Buffer<u32>,
    offsets: Buffer<u64>,
}

impl Frontier {
    fn new(gpu: &Gpu, count: usize) -> Result<Frontier, GpuError> {
        Ok(Frontier {
            queries: gpu.allocate(count)?,
            symbols: gpu.allocate(count)?,
            offsets: gpu.allocate(count)?,
        })
    }
}

impl DeviceQueries {
    /// Copies some queries.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn upload(gpu: &Gpu, queries: &[WordQuery]) -> Result<DeviceQueries, GpuError> {
        let column = |get: fn(&WordQuery) -> u32| {
            gpu.upload_each(queries.len(), |query| get(&queries[query]))
        };
        Ok(DeviceQueries {
            firsts: column(|query| query.word.first)?,
            spaceds: column(|query| query.word.spaced)?,
            ends: column(|query| query.word.end)?,
            files: column(|query| query.file)?,
        })
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl DeviceStructures {
    /// How often each word occurs in its file.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn count(&self, gpu: &Gpu, queries: &DeviceQueries) -> Result<Buffer<u64>, GpuError> {
        let counts = gpu.allocate(queries.len())?;
        gpu.launch(
            SOURCE
                .kernel("count_kernel")
                .moving(queries.len() * (3 * 4 + 8)),
            Launch::each(queries.len()),
            arguments! {
                firsts: &queries.firsts,
                ends: &queries.ends,
                files: &queries.files,
                count: queries.len(),
                keys: &self.weights.keys,
                weights: &self.weights.weights,
                mask: self.weights.keys.len() - 1,
                counts,
            },
        )?;
        Ok(counts)
    }

    /// Where each word occurs in its file: `[queries + 1]` offsets of results, and the results.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When queries times bytes do not fit into 64 bits.
    pub fn search(
        &self,
        gpu: &Gpu,
        queries: &DeviceQueries,
    ) -> Result<(Buffer<u64>, Buffer<u64>), GpuError> {
        let counts = self.count(gpu, queries)?;
        let starts: Buffer<u64> = scan(gpu, &counts)?;
        let results = gpu.item(&starts, queries.len())?;
        if results > RESULTS_MAX {
            return Err(GpuError::Limit {
                what: "results of a batch",
                items: results,
                limit: RESULTS_MAX,
            });
        }
        // Less than 2^31.
        let results = results as usize;
        let mut items_max = ITEMS_MIN + 2 * queries.len() + results;
        let offset_bits = 64
            - self
                .file_starts
                .last()
                .map_or(0, |end| end.leading_zeros())
                .min(63);
        let query_bits = usize::BITS - queries.len().leading_zeros();
        assert!(
            offset_bits + query_bits <= 64,
            "a batch of too many queries"
        );
        loop {
            if let Some(found) =
                self.search_within(gpu, queries, results, items_max, offset_bits)?
            {
                let found = sort_keys(gpu, found, 0..offset_bits + query_bits)?;
                gpu.launch(
                    SOURCE.kernel("search_strip_kernel").moving(results * 2 * 8),
                    gpu.looping(results),
                    arguments! { results: &found, result_count: results, offset_bits },
                )?;
                return Ok((starts, found));
            }
            items_max *= 4;
        }
    }

    /// The results in any order, with their queries above `offset_bits`; `None` if there are more than `items_max` items
    /// between two steps.
    fn search_within(
        &self,
        gpu: &Gpu,
        queries: &DeviceQueries,
        results: usize,
        items_max: usize,
        offset_bits: u32,
    ) -> Result<Option<Buffer<u64>>, GpuError> {
        let (grammar, parents) = (&self.grammar, &self.parents);
        let found = gpu.allocate::<u64>(results)?;
        if results == 0 {
            return Ok(Some(found));
        }
        // Memory of items is bounded by what u32 counts.
        let limit = u32::try_from(items_max).unwrap_or(u32::MAX);
        let results_max = u32::try_from(results).unwrap_or(u32::MAX);
        let mut items = Frontier::new(gpu, items_max)?;
        let mut next = Frontier::new(gpu, items_max)?;
        // Items of the next step, results.
        let state = gpu.zeroed::<u32>(2)?;
        gpu.launch(
            SOURCE
                .kernel("search_begin_kernel")
                .moving(queries.len() * 4 * 4),
            Launch::each(queries.len()),
            arguments! {
                firsts: &queries.firsts,
                spaceds: &queries.spaceds,
                ends: &queries.ends,
                files: &queries.files,
                count: queries.len(),
                place_offsets: &parents.offsets,
                position_offsets: &parents.root_offsets,
                root_offsets: &grammar.root_offsets,
                queries: &items.queries,
                symbols: &items.symbols,
                offsets: &items.offsets,
                item_count: state.at(0),
            },
        )?;
        let mut count = gpu.item(&state, 0)? as usize;
        while count > 0 {
            let sizes = gpu.allocate::<u32>(count)?;
            gpu.launch(
                SOURCE
                    .kernel("search_sizes_kernel")
                    .moving(count * (2 * 4 + 8)),
                Launch::each(count),
                arguments! {
                    queries: &items.queries,
                    symbols: &items.symbols,
                    count,
                    files: &queries.files,
                    rule_offsets: &grammar.rule_offsets,
                    terminal_count: grammar.terminal_count,
                    place_offsets: &parents.offsets,
                    positions: &parents.root_positions,
                    position_offsets: &parents.root_offsets,
                    root_offsets: &grammar.root_offsets,
                    sizes,
                },
            )?;
            let candidates: Buffer<u64> = scan(gpu, &sizes)?;
            let candidate_count = gpu.item(&candidates, count)? as usize;
            gpu.fill_items(&state, 0, 1, 0)?;
            gpu.launch(
                SOURCE.kernel("search_step_kernel"),
                Launch::tiles(candidate_count, TILE),
                arguments! {
                    queries: &items.queries,
                    symbols: &items.symbols,
                    offsets: &items.offsets,
                    candidates,
                    item_count: count,
                    firsts: &queries.firsts,
                    spaceds: &queries.spaceds,
                    ends: &queries.ends,
                    files: &queries.files,
                    rule_offsets: &grammar.rule_offsets,
                    body_symbols: &grammar.symbols,
                    terminal_count: grammar.terminal_count,
                    root: &grammar.root,
                    root_offsets: &grammar.root_offsets,
                    body_starts: &self.body_starts,
                    root_starts: &self.root_starts,
                    signatures: &self.signatures,
                    place_offsets: &parents.offsets,
                    places: &parents.places,
                    body_rules: &parents.body_rules,
                    position_offsets: &parents.root_offsets,
                    positions: &parents.root_positions,
                    keys: &self.weights.keys,
                    weights: &self.weights.weights,
                    mask: self.weights.keys.len() - 1,
                    queries_out: &next.queries,
                    symbols_out: &next.symbols,
                    offsets_out: &next.offsets,
                    items_out: state.at(0),
                    items_max: limit,
                    results: &found,
                    result_count: state.at(1),
                    results_max,
                    offset_bits,
                },
            )?;
            let counts = gpu.download(&state)?;
            count = counts[0] as usize;
            if count > items_max {
                return Ok(None);
            }
            std::mem::swap(&mut items, &mut next);
        }
        Ok(Some(found))
    }

    /// Bytes of files: for each query where its bytes begin and how many there are, and all bytes.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn extract(&self, gpu: &Gpu, queries: &[Extract]) -> Result<Extracted, GpuError> {
        let mut chunks = Vec::with_capacity(queries.len() + 1);
        let mut starts = Vec::with_capacity(queries.len());
        let mut sizes = Vec::with_capacity(queries.len());
        let mut chunk = 0u64;
        for query in queries {
            let file = query.file as usize;
            let (start, end) = (self.file_starts[file], self.file_starts[file + 1]);
            let size = query.length.min((end - start).saturating_sub(query.offset));
            starts.push(start.saturating_add(query.offset));
            sizes.push(size);
            chunks.push(chunk);
            chunk += size.div_ceil(CHUNK as u64);
        }
        chunks.push(chunk);
        let files: Vec<u32> = queries.iter().map(|query| query.file).collect();
        let (files, starts) = (gpu.upload(&files)?, gpu.upload(&starts)?);
        let (device_sizes, device_chunks) = (gpu.upload(&sizes)?, gpu.upload(&chunks)?);
        let bytes = gpu.allocate::<u8>(chunk as usize * CHUNK)?;
        let grammar = &self.grammar;
        gpu.launch(
            SOURCE.kernel("extract_kernel"),
            Launch::each(chunk as usize),
            arguments! {
                files,
                starts,
                sizes: &device_sizes,
                chunk_offsets: &device_chunks,
                count: queries.len(),
                rule_offsets: &grammar.rule_offsets,
                symbols: &grammar.symbols,
                terminal_count: grammar.terminal_count,
                root: &grammar.root,
                root_offsets: &grammar.root_offsets,
                body_starts: &self.body_starts,
                root_starts: &self.root_starts,
                text_offsets: &self.text_offsets,
                texts: &self.texts,
                out: &bytes,
            },
        )?;
        Ok(Extracted {
            chunks,
            sizes,
            bytes,
        })
    }
}

/// Extracted bytes, on the device.
#[derive(Debug)]
pub struct Extracted {
    chunks: Vec<u64>,
    sizes: Vec<u64>,
    bytes: Buffer<u8>,
}

impl Extracted {
    /// Copies everything to the host.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn download(&self, gpu: &Gpu) -> Result<ExtractedBytes, GpuError> {
        Ok(ExtractedBytes {
            chunks: self.chunks.clone(),
            sizes: self.sizes.clone(),
            bytes: gpu.download(&self.bytes)?,
        })
    }
}

/// Extracted bytes.
#[derive(Debug)]
pub struct ExtractedBytes {
    chunks: Vec<u64>,
    sizes: Vec<u64>,
    bytes: Vec<u8>,
}

impl ExtractedBytes {
    /// What a query asked for.
    ///
    /// # Panics
    ///
    /// When there is no such query.
    pub fn get(&self, query: usize) -> &[u8] {
        let first = self.chunks[query] as usize * CHUNK;
        &self.bytes[first..first + self.sizes[query] as usize]
    }
}

impl SearchResults {
    /// Copies results to the host.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn download(
        gpu: &Gpu,
        (starts, offsets): &(Buffer<u64>, Buffer<u64>),
    ) -> Result<SearchResults, GpuError> {
        Ok(SearchResults {
            starts: gpu.download(starts)?,
            offsets: gpu.download(offsets)?,
        })
    }

    /// The occurrences of a query.
    ///
    /// # Panics
    ///
    /// When there is no such query.
    pub fn get(&self, query: usize) -> &[u64] {
        &self.offsets[self.starts[query] as usize..self.starts[query + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_devices::{Numbers, on_devices};
    use crate::grammar::test_grammars::{self, TestGrammar};
    use crate::lookup::structures_gpu::tests::structures;

    fn check(gpu: &Gpu, grammar: &TestGrammar) -> Result<(), GpuError> {
        let structures = structures(gpu, grammar)?;
        let files = grammar.view().files() as u32;
        let mut queries = Vec::new();
        for word in grammar.words() {
            queries.extend((0..files).map(|file| WordQuery { word, file }));
        }
        // A word that is not in the dictionary.
        let none = WordTerminals {
            first: 0,
            spaced: 0,
            end: 0,
        };
        queries.extend((0..files).map(|file| WordQuery { word: none, file }));
        let uploaded = DeviceQueries::upload(gpu, &queries)?;
        let counts = gpu.download(&structures.count(gpu, &uploaded)?)?;
        let found = SearchResults::download(gpu, &structures.search(gpu, &uploaded)?)?;
        for (index, query) in queries.iter().enumerate() {
            let expected = if query.word.first == query.word.end {
                Vec::new()
            } else {
                grammar.offsets(query.file, query.word)
            };
            assert_eq!(
                counts[index],
                expected.len() as u64,
                "{query:?} {grammar:?}"
            );
            assert_eq!(found.get(index), expected, "{query:?} {grammar:?}");
        }
        let mut numbers = Numbers::new(7);
        let mut queries = Vec::new();
        for file in 0..files {
            let size = grammar.content(file).len() as u32;
            let edges = [
                (0, u64::from(size)),
                (0, 0),
                (u64::from(size), 5),
                (u64::MAX, 1),
            ];
            let random = (0..6).map(|_| {
                let range = numbers.below(2, size + 2);
                (u64::from(range[0]), u64::from(range[1]))
            });
            let all: Vec<(u64, u64)> = edges.into_iter().chain(random).collect();
            queries.extend(all.into_iter().map(|(offset, length)| Extract {
                file,
                offset,
                length,
            }));
        }
        let extracted = structures.extract(gpu, &queries)?.download(gpu)?;
        for (index, query) in queries.iter().enumerate() {
            let content = grammar.content(query.file);
            let from = query.offset.min(content.len() as u64) as usize;
            let to = query
                .offset
                .saturating_add(query.length)
                .min(content.len() as u64) as usize;
            let expected = &content[from..to.max(from)];
            assert_eq!(extracted.get(index), expected, "{query:?} {grammar:?}");
        }
        Ok(())
    }

    #[test]
    fn look_ups_equal_those_in_the_text_of_small_grammars() {
        on_devices(|gpu| {
            let mut small = test_grammars::all_small().step_by(1_009);
            small.try_for_each(|grammar| check(gpu, &grammar))
        });
    }

    #[test]
    fn look_ups_equal_those_in_the_text_of_random_and_extreme_grammars() {
        on_devices(|gpu| {
            test_grammars::random_many(12).try_for_each(|grammar| check(gpu, &grammar))?;
            check(gpu, &test_grammars::deep_chain(100))?;
            check(gpu, &test_grammars::long_body(5_000))?;
            check(gpu, &test_grammars::many_files(100))?;
            check(gpu, &test_grammars::runs(12))
        });
    }
}
