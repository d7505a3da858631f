//! Batches of conjunctive queries on lists that stay on the device (Ao et al. 4 and appendix C).
//!
//! The invariant: answers are those of `postings::intersect_plain` on the same lists, whichever method searches. Lists are
//! copied once; a batch copies which lists its queries name, and its answers back, while the kernels of another batch run.
//! Intersection is element-wise: a thread has a candidate, an id of the shortest list of its query, and looks it up in the
//! other lists. Unions and differences are answered the same way.

use super::device::{Buffer, Gpu, arguments};
use super::driver::{Argument, Source, THREADS};
use super::error::GpuError;
use super::primitives;
use super::query_batches::{
    BatchAnswers, BatchQueries, QueryIds, answer_batches, batches_of, shortest_first, survivors_of,
};
use crate::postings::{HashOffsets, SafeRange};

/// Ids that share a local line.
const LOCAL_IDS: usize = 1024;

/// Parts of the universe that merge-find splits lists into, at most.
const PARTS: u32 = 256;

pub(crate) static SOURCE: Source = Source {
    name: "intersect.cu",
    text: include_str!("intersect.cu"),
    constants: &[
        ("INTERSECT_THREADS", THREADS as u64),
        ("INTERSECT_LOCAL_IDS", LOCAL_IDS as u64),
        ("INTERSECT_PARTS", PARTS as u64),
    ],
};

/// How a device looks a candidate up; `flags_kernel` knows a method by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ListSearch {
    /// Binary search of the whole list (4.2).
    Binary,
    /// Interpolation search (4.3).
    Interpolation,
    /// Binary search of a line's safe range (4.3).
    Line,
    /// As `Line`, with a line for each 1,024 ids (4.3).
    LocalLines,
    /// Binary search of a hash bucket, whose size the lists were copied with (4.4).
    Hash,
    /// Binary search of a part of the universe, at whose borders all lists are split first (appendix C).
    MergeFind,
}

impl ListSearch {
    /// All of them.
    pub const ALL: [ListSearch; 6] = [
        ListSearch::Binary,
        ListSearch::Interpolation,
        ListSearch::Line,
        ListSearch::LocalLines,
        ListSearch::Hash,
        ListSearch::MergeFind,
    ];
}

/// `PlainList` of `intersect.cu`: six numbers of 32 bits, two a word, the first of them low, and four of a line.
type ListWords = [u64; 7];

/// Where a list lies, and what is kept of it.
fn list_words(numbers: [u32; 6], line: [f64; 4]) -> ListWords {
    let pair = |k: usize| u64::from(numbers[2 * k]) | u64::from(numbers[2 * k + 1]) << 32;
    let [base, inverse, left, right] = line.map(f64::to_bits);
    [pair(0), pair(1), pair(2), base, inverse, left, right]
}

fn line_numbers(range: SafeRange) -> [f64; 4] {
    [range.base, range.inverse, range.left, range.right]
}

/// Lists in device memory, with what searches keep of them.
#[derive(Debug)]
pub struct DeviceLists {
    /// `[lists]`.
    counts: Vec<u32>,
    universe: u32,
    ids: Buffer<u32>,
    lists: Buffer<ListWords>,
    hash_offsets: Buffer<u32>,
    local_lines: Buffer<[f64; 4]>,
}

/// A set operation on the lists of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Intersection,
    Difference,
    Union,
}

impl DeviceLists {
    /// Copies lists: list i is `ids[offsets[i]..offsets[i + 1]]`, which ascend below the universe. Hash buckets have about
    /// `bucket` ids.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When offsets do not rise from 0 to the number of ids.
    pub fn new(
        gpu: &Gpu,
        offsets: &[u32],
        ids: &[u32],
        universe: u32,
        bucket: usize,
    ) -> Result<DeviceLists, GpuError> {
        assert!(
            offsets.first() == Some(&0) && offsets.is_sorted(),
            "offsets"
        );
        assert!(offsets[offsets.len() - 1] as usize == ids.len(), "offsets");
        let (mut lists, mut hash_offsets, mut local_lines) = (Vec::new(), Vec::new(), Vec::new());
        for bounds in offsets.windows(2) {
            let own = &ids[bounds[0] as usize..bounds[1] as usize];
            let hash = HashOffsets::new(own, universe, bucket);
            // First, count, hash_first, buckets, shift, local_first; there are fewer hash offsets than ids and lists, twice.
            let numbers = [
                bounds[0],
                bounds[1] - bounds[0],
                hash_offsets.len() as u32,
                hash.offsets.len() as u32 - 1,
                hash.shift,
                local_lines.len() as u32,
            ];
            lists.push(list_words(numbers, line_numbers(SafeRange::fit(own).0)));
            hash_offsets.extend(hash.offsets);
            let parts = own.chunks(LOCAL_IDS);
            local_lines.extend(parts.map(|part| line_numbers(SafeRange::fit(part).0)));
        }
        Ok(DeviceLists {
            counts: offsets
                .windows(2)
                .map(|bounds| bounds[1] - bounds[0])
                .collect(),
            universe,
            ids: gpu.upload(ids)?,
            lists: gpu.upload(&lists)?,
            hash_offsets: gpu.upload(&hash_offsets)?,
            local_lines: gpu.upload(&local_lines)?,
        })
    }

    /// Bytes of device memory that a search uses.
    pub fn bytes(&self, search: ListSearch) -> usize {
        let beside = match search {
            ListSearch::LocalLines => self.local_lines.len() * size_of::<[f64; 4]>(),
            ListSearch::Hash => self.hash_offsets.len() * size_of::<u32>(),
            _ => 0,
        };
        self.ids.len() * size_of::<u32>() + self.lists.len() * size_of::<ListWords>() + beside
    }

    /// The ids that all lists of a query have, for queries that name lists by number. Queries are answered together until
    /// `threshold` candidates have come together, the computational threshold of the paper. A query without lists finds
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When there is no such list.
    pub fn intersect(
        &self,
        gpu: &Gpu,
        queries: &[Vec<u32>],
        search: ListSearch,
        threshold: usize,
    ) -> Result<QueryIds, GpuError> {
        let queries = shortest_first(queries, |list| self.counts[list as usize]);
        self.answer(gpu, &queries, Operation::Intersection, search, threshold)
    }

    /// The ids of the first list of a query that none of its others has; as [`DeviceLists::intersect`].
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When there is no such list.
    pub fn difference(
        &self,
        gpu: &Gpu,
        queries: &[Vec<u32>],
        search: ListSearch,
        threshold: usize,
    ) -> Result<QueryIds, GpuError> {
        self.answer(gpu, queries, Operation::Difference, search, threshold)
    }

    /// The ids that any list of a query has; as [`DeviceLists::intersect`]. All ids are candidates.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When there is no such list.
    pub fn union(
        &self,
        gpu: &Gpu,
        queries: &[Vec<u32>],
        threshold: usize,
    ) -> Result<QueryIds, GpuError> {
        self.answer(
            gpu,
            queries,
            Operation::Union,
            ListSearch::Binary,
            threshold,
        )
    }

    /// Candidates of a query.
    fn candidates(&self, query: &[u32], operation: Operation) -> usize {
        let counts = query
            .iter()
            .map(|&list| self.counts[list as usize] as usize);
        match operation {
            Operation::Union => counts.sum(),
            Operation::Intersection | Operation::Difference => counts.take(1).sum(),
        }
    }

    fn answer(
        &self,
        gpu: &Gpu,
        queries: &[Vec<u32>],
        operation: Operation,
        search: ListSearch,
        threshold: usize,
    ) -> Result<QueryIds, GpuError> {
        let batches = batches_of(queries, threshold, |query| {
            self.candidates(query, operation)
        });
        answer_batches(
            gpu,
            &batches,
            |gpu, queries| self.upload(gpu, queries, operation),
            |gpu, batch| self.start(gpu, batch, operation, search),
        )
    }

    /// Copies which lists queries name.
    fn upload(
        &self,
        gpu: &Gpu,
        queries: &[Vec<u32>],
        operation: Operation,
    ) -> Result<BatchQueries, GpuError> {
        let count = |&list: &u32| self.counts[list as usize] as usize;
        match operation {
            Operation::Union => {
                BatchQueries::upload(gpu, queries, queries.iter().flatten().map(count))
            }
            Operation::Intersection | Operation::Difference => {
                let candidates = |query: &Vec<u32>| self.candidates(query, operation);
                BatchQueries::upload(gpu, queries, queries.iter().map(candidates))
            }
        }
    }

    /// Starts the kernels of a batch.
    fn start(
        &self,
        gpu: &Gpu,
        batch: BatchQueries,
        operation: Operation,
        search: ListSearch,
    ) -> Result<BatchAnswers, GpuError> {
        if operation == Operation::Union {
            return self.start_union(gpu, batch);
        }
        let (queries, items) = (batch.queries, batch.items);
        let id_bits = u32::BITS - self.universe.saturating_sub(1).leading_zeros();
        let part_shift = id_bits.saturating_sub(PARTS.trailing_zeros());
        let splits = match search {
            ListSearch::MergeFind => {
                let count = batch.entries as usize * (PARTS as usize + 1);
                let splits = gpu.allocate::<u32>(count)?;
                let arguments = arguments![
                    &self.ids,
                    &self.lists,
                    batch.entries(),
                    batch.entries,
                    part_shift,
                    &splits
                ];
                gpu.launch_looping(SOURCE.kernel("split_lists_kernel"), count, arguments)?;
                Some(splits)
            }
            _ => None,
        };
        let flags = gpu.allocate::<u32>(items as usize)?;
        let method = search as u32;
        let is_difference = u32::from(operation == Operation::Difference);
        let arguments = arguments![
            &self.ids,
            &self.lists,
            &self.hash_offsets,
            &self.local_lines,
            batch.entries(),
            batch.query_offsets(),
            batch.item_offsets(),
            queries,
            items,
            is_difference,
            splits.as_ref().map_or(Argument::NONE, Argument::from),
            part_shift,
            method,
            &flags
        ];
        let kernel = SOURCE.kernel("flags_kernel").made_for(method);
        gpu.launch_looping(kernel, items as usize, arguments)?;
        survivors_of(gpu, batch, &flags, |batch, places, survivors| {
            let arguments = arguments![
                &self.ids,
                &self.lists,
                batch.entries(),
                batch.query_offsets(),
                batch.item_offsets(),
                queries,
                items,
                places,
                survivors
            ];
            gpu.launch_looping(SOURCE.kernel("survivors_kernel"), items as usize, arguments)
        })
    }

    /// Ids that no list before their own has, sorted by query and id. Waits for how many there are.
    fn start_union(&self, gpu: &Gpu, batch: BatchQueries) -> Result<BatchAnswers, GpuError> {
        let (queries, entries, items) = (batch.queries, batch.entries, batch.items);
        let flags = gpu.allocate::<u32>(items as usize)?;
        let arguments = arguments![
            &self.ids,
            &self.lists,
            batch.entries(),
            batch.query_offsets(),
            batch.item_offsets(),
            queries,
            entries,
            items,
            &flags
        ];
        gpu.launch_looping(
            SOURCE.kernel("first_uses_kernel"),
            items as usize,
            arguments,
        )?;
        let places = primitives::scan::<u32, u32>(gpu, &flags)?;
        let count = gpu.item(&places, items as usize)?;
        let keys = gpu.allocate::<u64>(count as usize)?;
        let arguments = arguments![
            &self.ids,
            &self.lists,
            batch.entries(),
            batch.query_offsets(),
            batch.item_offsets(),
            queries,
            entries,
            items,
            &places,
            &keys
        ];
        gpu.launch_looping(
            SOURCE.kernel("union_keys_kernel"),
            items as usize,
            arguments,
        )?;
        let query_bits = u32::BITS - queries.leading_zeros();
        let keys = primitives::sort_keys(gpu, keys, 0..u32::BITS + query_bits)?;
        let survivors = gpu.allocate::<u32>(count as usize)?;
        let arguments = arguments![&keys, count, &survivors];
        gpu.launch_looping(SOURCE.kernel("union_ids_kernel"), count as usize, arguments)?;
        let result_offsets = gpu.allocate::<u32>(queries as usize + 1)?;
        let arguments = arguments![
            batch.query_offsets(),
            batch.item_offsets(),
            queries,
            &places,
            &result_offsets
        ];
        let kernel = SOURCE.kernel("union_offsets_kernel");
        gpu.launch_looping(kernel, queries as usize + 1, arguments)?;
        Ok(BatchAnswers::new(survivors, result_offsets, batch, places))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::gpu::test_devices::{Numbers, on_devices};

    type Combine = dyn Fn(&BTreeSet<u32>, &BTreeSet<u32>) -> BTreeSet<u32>;

    /// Lists of many lengths, one of them empty and one of all ids.
    fn lists(universe: u32, numbers: &mut Numbers) -> (Vec<u32>, Vec<u32>) {
        let (mut offsets, mut ids) = (vec![0], Vec::new());
        for list in 0..30usize {
            let count = [0, 1, 2, 15, 16, 17, 100, 300, 1500, 4000][list % 10];
            let own: BTreeSet<u32> = match list {
                29 => (0..universe).collect(),
                _ => numbers.below(count, universe).into_iter().collect(),
            };
            ids.extend(own);
            offsets.push(ids.len() as u32);
        }
        (offsets, ids)
    }

    #[test]
    fn answers_of_batches_are_those_of_sets() {
        on_devices(|gpu| {
            for universe in [64, 3000] {
                let mut numbers = Numbers::new(universe.into());
                let (offsets, ids) = lists(universe, &mut numbers);
                let device = DeviceLists::new(gpu, &offsets, &ids, universe, 16)?;
                let queries: Vec<Vec<u32>> =
                    (0..25).map(|query| numbers.below(query % 6, 30)).collect();
                let set = |list: &u32| -> BTreeSet<u32> {
                    let (first, end) = (offsets[*list as usize], offsets[*list as usize + 1]);
                    ids[first as usize..end as usize].iter().copied().collect()
                };
                let expected = |combine: &Combine| {
                    let mut found = QueryIds {
                        offsets: vec![0],
                        ids: Vec::new(),
                    };
                    for query in &queries {
                        let sets = query.iter().map(set);
                        let all = sets.reduce(|all, other| combine(&all, &other));
                        found.ids.extend(all.unwrap_or_default());
                        found.offsets.push(found.ids.len());
                    }
                    found
                };
                let common = expected(&|a, b| a & b);
                let rest = expected(&|a, b| a - b);
                for threshold in [200, usize::MAX] {
                    for search in ListSearch::ALL {
                        let about = format!("{search:?}, {universe}, {threshold}");
                        let found = device.intersect(gpu, &queries, search, threshold)?;
                        assert!(found == common, "{about}");
                        let found = device.difference(gpu, &queries, search, threshold)?;
                        assert!(found == rest, "{about}");
                    }
                    let found = device.union(gpu, &queries, threshold)?;
                    assert!(found == expected(&|a, b| a | b));
                }
                let nothing = device.intersect(gpu, &[], ListSearch::Hash, 1)?;
                assert_eq!(nothing.offsets, [0]);
            }
            Ok(())
        });
    }
}
