//! Batches of conjunctive queries on lists that stay on the device (Ao et al., PVLDB 4(8), 2011, 4.1 and 4.4).
//!
//! The invariant: answers are the ids that all lists of a query have, ascending. Lists are copied once; a batch copies which
//! lists its queries name, and its answers back, while the kernels of another batch run. Intersection is element-wise: a thread
//! has a candidate, an id of the shortest list of its query, and looks it up in a hash bucket of the other lists.

use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Header, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::postings::HashOffsets;
use crate::postings::query_batches_gpu::{
    BatchAnswers, BatchQueries, QueryIds, answer_batches, batches_of, shortest_first, survivors_of,
};

/// What kernels that search lists include.
pub const LIST_SEARCH_HEADER: Header = ("list_search.cuh", include_str!("list_search.cuh"));

pub(crate) static SOURCE: Source = Source {
    name: "intersect.cu",
    text: include_str!("intersect.cu"),
    headers: &[LIST_SEARCH_HEADER],
    constants: &[("INTERSECT_THREADS", THREADS as u64)],
};

/// `PlainList` of `list_search.cuh`: first, count, hash_first, buckets, shift.
pub type PlainListNumbers = [u32; 5];

/// Lists in device memory, with their hash buckets.
#[derive(Debug)]
pub struct DeviceLists {
    /// `[lists]`.
    counts: Vec<u32>,
    ids: Buffer<u32>,
    lists: Buffer<PlainListNumbers>,
    hash_offsets: Buffer<u32>,
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
        let (mut counts, mut lists, mut hash_offsets) = (Vec::new(), Vec::new(), Vec::new());
        for bounds in offsets.windows(2) {
            let own = &ids[bounds[0] as usize..bounds[1] as usize];
            let hash = HashOffsets::new(own, universe, bucket);
            // The number of hash offsets is below twice that of ids and lists.
            let (hash_first, buckets) = (hash_offsets.len() as u32, hash.offsets.len() as u32 - 1);
            let count = bounds[1] - bounds[0];
            counts.push(count);
            lists.push([bounds[0], count, hash_first, buckets, hash.shift]);
            hash_offsets.extend(hash.offsets);
        }
        Ok(DeviceLists {
            counts,
            ids: gpu.upload(ids)?,
            lists: gpu.upload(&lists)?,
            hash_offsets: gpu.upload(&hash_offsets)?,
        })
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        let numbers = self.ids.len() + self.hash_offsets.len();
        numbers * size_of::<u32>() + self.lists.len() * size_of::<PlainListNumbers>()
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
        threshold: usize,
    ) -> Result<QueryIds, GpuError> {
        let queries = shortest_first(queries, |list| self.counts[list as usize]);
        self.answer(gpu, &queries, threshold, |gpu, batch, flags| {
            let arguments = arguments! {
                ids: &self.ids,
                lists: &self.lists,
                hash_offsets: &self.hash_offsets,
                entries: batch.entries(),
                query_offsets: batch.query_offsets(),
                item_offsets: batch.item_offsets(),
                queries: batch.queries,
                items: batch.items,
                flags,
            };
            gpu.launch_looping(SOURCE.kernel("hash_flags_kernel"), flags.len(), arguments)
        })
    }

    /// The ids of the first list of each query that stay: `flag` starts what writes 1 for each candidate that does.
    ///
    /// # Errors
    ///
    /// [`GpuError`], also of `flag`.
    ///
    /// # Panics
    ///
    /// When there is no such list.
    #[doc(hidden)]
    pub fn answer(
        &self,
        gpu: &Gpu,
        queries: &[Vec<u32>],
        threshold: usize,
        flag: impl Fn(&Gpu, &BatchQueries, &Buffer<u32>) -> Result<(), GpuError>,
    ) -> Result<QueryIds, GpuError> {
        let candidates = |query: &[u32]| {
            let first = query.first();
            first.map_or(0, |&list| self.counts[list as usize] as usize)
        };
        let batches = batches_of(queries, threshold, candidates);
        answer_batches(
            gpu,
            &batches,
            |gpu, queries| {
                BatchQueries::upload(gpu, queries, queries.iter().map(|query| candidates(query)))
            },
            |gpu, batch| {
                let flags = gpu.allocate::<u32>(batch.items as usize)?;
                flag(gpu, &batch, &flags)?;
                self.survivors(gpu, batch, &flags)
            },
        )
    }

    /// Starts what makes answers of flags.
    fn survivors(
        &self,
        gpu: &Gpu,
        batch: BatchQueries,
        flags: &Buffer<u32>,
    ) -> Result<BatchAnswers, GpuError> {
        survivors_of(gpu, batch, flags, |batch, places, survivors| {
            let arguments = arguments! {
                ids: &self.ids,
                lists: &self.lists,
                entries: batch.entries(),
                query_offsets: batch.query_offsets(),
                item_offsets: batch.item_offsets(),
                queries: batch.queries,
                items: batch.items,
                places,
                survivors,
            };
            gpu.launch_looping(SOURCE.kernel("survivors_kernel"), flags.len(), arguments)
        })
    }

    /// How many ids each list has.
    #[doc(hidden)]
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// All ids, and where lists lie among them.
    #[doc(hidden)]
    pub fn arrays(&self) -> (&Buffer<u32>, &Buffer<PlainListNumbers>) {
        (&self.ids, &self.lists)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::gpu::test_devices::{Numbers, on_devices};

    #[test]
    fn answers_of_batches_are_those_of_sets() {
        on_devices(|gpu| {
            for universe in [64, 3000] {
                let mut numbers = Numbers::new(universe.into());
                let (offsets, ids) = numbers.lists(universe);
                let device = DeviceLists::new(gpu, &offsets, &ids, universe, 16)?;
                let queries: Vec<Vec<u32>> =
                    (0..25).map(|query| numbers.below(query % 6, 30)).collect();
                let set = |list: &u32| -> BTreeSet<u32> {
                    let (first, end) = (offsets[*list as usize], offsets[*list as usize + 1]);
                    ids[first as usize..end as usize].iter().copied().collect()
                };
                let mut expected = QueryIds {
                    offsets: vec![0],
                    ids: Vec::new(),
                };
                for query in &queries {
                    let common = query.iter().map(set).reduce(|all, other| &all & &other);
                    expected.ids.extend(common.unwrap_or_default());
                    expected.offsets.push(expected.ids.len());
                }
                for threshold in [200, usize::MAX] {
                    let found = device.intersect(gpu, &queries, threshold)?;
                    assert!(found == expected, "{universe}, {threshold}");
                }
                assert_eq!(device.intersect(gpu, &[], 1)?.offsets, [0]);
            }
            Ok(())
        });
    }
}
