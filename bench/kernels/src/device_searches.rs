//! Batches of set operations on lists that stay on a device, by ways to search that no database uses (Ao et al. 4 and
//! appendix C).
//!
//! The invariant: answers are those of [`intersect_plain`](crate::intersect_plain) on the same lists, whichever method searches.
//! Lists and batches are those of [`DeviceLists`], whose own way is the hash bucket. Unions and differences are answered the same
//! way.

use zipfdb_kernels::gpu::building_blocks::{
    Argument, BatchAnswers, BatchQueries, LIST_SEARCH_HEADER, PlainListNumbers, Source, THREADS,
    answer_batches, arguments, batches_of, shortest_first,
};
use zipfdb_kernels::gpu::{Buffer, DeviceLists, Gpu, GpuError, QueryIds, primitives};

use crate::LINES_HEADER;
use crate::list_searches::{LOCAL_IDS, SafeRange};

/// Parts of the universe that merge-find splits lists into, at most.
const PARTS: u32 = 256;

pub(crate) static SOURCE: Source = Source {
    name: "device_searches.cu",
    text: include_str!("device_searches.cu"),
    headers: &[LIST_SEARCH_HEADER, LINES_HEADER],
    constants: &[
        ("SEARCHES_THREADS", THREADS as u64),
        ("SEARCHES_LOCAL_IDS", LOCAL_IDS as u64),
        ("SEARCHES_PARTS", PARTS as u64),
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
    /// Binary search of a part of the universe, at whose borders all lists are split first (appendix C).
    MergeFind,
}

impl ListSearch {
    /// All of them.
    pub const ALL: [ListSearch; 5] = [
        ListSearch::Binary,
        ListSearch::Interpolation,
        ListSearch::Line,
        ListSearch::LocalLines,
        ListSearch::MergeFind,
    ];
}

/// `Line` of `lines.cuh`.
type LineNumbers = [f64; 4];

fn line_numbers(ids: &[u32]) -> LineNumbers {
    let range = SafeRange::fit(ids).0;
    [range.base, range.inverse, range.left, range.right]
}

/// Lists in device memory, with what searches keep of them.
#[derive(Debug)]
pub struct SearchedLists {
    lists: DeviceLists,
    universe: u32,
    lines: Buffer<LineNumbers>,
    local_firsts: Buffer<u32>,
    local_lines: Buffer<LineNumbers>,
}

impl SearchedLists {
    /// Copies lists: list i is `ids[offsets[i]..offsets[i + 1]]`, which ascend below the universe.
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
    ) -> Result<SearchedLists, GpuError> {
        // One bucket a list: nothing here examines it.
        let lists = DeviceLists::new(gpu, offsets, ids, universe, usize::MAX)?;
        let (mut lines, mut local_firsts, mut local_lines) = (Vec::new(), Vec::new(), Vec::new());
        for bounds in offsets.windows(2) {
            let own = &ids[bounds[0] as usize..bounds[1] as usize];
            lines.push(line_numbers(own));
            // The number of lines is below that of ids.
            local_firsts.push(local_lines.len() as u32);
            local_lines.extend(own.chunks(LOCAL_IDS).map(line_numbers));
        }
        Ok(SearchedLists {
            lists,
            universe,
            lines: gpu.upload(&lines)?,
            local_firsts: gpu.upload(&local_firsts)?,
            local_lines: gpu.upload(&local_lines)?,
        })
    }

    /// Bytes of device memory that a search uses.
    pub fn bytes(&self, search: ListSearch) -> usize {
        let (ids, lists) = self.lists.arrays();
        let lines = match search {
            ListSearch::Line => self.lines.len(),
            ListSearch::LocalLines => self.local_lines.len(),
            ListSearch::Binary | ListSearch::Interpolation | ListSearch::MergeFind => 0,
        };
        ids.len() * size_of::<u32>()
            + lists.len() * size_of::<PlainListNumbers>()
            + lines * size_of::<LineNumbers>()
    }

    /// The ids that all lists of a query have; as [`DeviceLists::intersect`].
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
        let counts = self.lists.counts();
        let queries = shortest_first(queries, |list| counts[list as usize]);
        let flag = |gpu: &Gpu, batch: &BatchQueries, flags: &Buffer<u32>| {
            self.flag(gpu, batch, false, search, flags)
        };
        self.lists.answer(gpu, &queries, threshold, flag)
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
        let flag = |gpu: &Gpu, batch: &BatchQueries, flags: &Buffer<u32>| {
            self.flag(gpu, batch, true, search, flags)
        };
        self.lists.answer(gpu, queries, threshold, flag)
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
        let count = |&list: &u32| self.lists.counts()[list as usize] as usize;
        let batches = batches_of(queries, threshold, |query| query.iter().map(count).sum());
        answer_batches(
            gpu,
            &batches,
            |gpu, queries| BatchQueries::upload(gpu, queries, queries.iter().flatten().map(count)),
            |gpu, batch| self.start_union(gpu, batch),
        )
    }

    /// Starts what flags the candidates that stay.
    fn flag(
        &self,
        gpu: &Gpu,
        batch: &BatchQueries,
        is_difference: bool,
        search: ListSearch,
        flags: &Buffer<u32>,
    ) -> Result<(), GpuError> {
        let (ids, lists) = self.lists.arrays();
        let id_bits = u32::BITS - self.universe.saturating_sub(1).leading_zeros();
        let part_shift = id_bits.saturating_sub(PARTS.trailing_zeros());
        let splits = if search == ListSearch::MergeFind {
            let count = batch.entries as usize * (PARTS as usize + 1);
            let splits = gpu.allocate::<u32>(count)?;
            let arguments = arguments! {
                ids,
                lists,
                entries: batch.entries(),
                entry_count: batch.entries,
                part_shift,
                splits,
            };
            gpu.launch_looping(SOURCE.kernel("split_lists_kernel"), count, arguments)?;
            Some(splits)
        } else {
            None
        };
        let method = search as u32;
        let arguments = arguments! {
            ids,
            lists,
            lines: &self.lines,
            local_firsts: &self.local_firsts,
            local_lines: &self.local_lines,
            entries: batch.entries(),
            query_offsets: batch.query_offsets(),
            item_offsets: batch.item_offsets(),
            queries: batch.queries,
            items: batch.items,
            is_difference: u32::from(is_difference),
            splits: splits.as_ref().map_or(Argument::NONE, Argument::from),
            part_shift,
            method,
            flags,
        };
        let kernel = SOURCE.kernel("flags_kernel").made_for(method);
        gpu.launch_looping(kernel, flags.len(), arguments)
    }

    /// Ids that no list before their own has, sorted by query and id. Waits for how many there are.
    fn start_union(&self, gpu: &Gpu, batch: BatchQueries) -> Result<BatchAnswers, GpuError> {
        let (ids, lists) = self.lists.arrays();
        let (queries, entries, items) = (batch.queries, batch.entries, batch.items);
        let flags = gpu.allocate::<u32>(items as usize)?;
        let arguments = arguments! {
            ids,
            lists,
            entries: batch.entries(),
            query_offsets: batch.query_offsets(),
            item_offsets: batch.item_offsets(),
            queries,
            entry_count: entries,
            items,
            flags,
        };
        gpu.launch_looping(
            SOURCE.kernel("first_uses_kernel"),
            items as usize,
            arguments,
        )?;
        let places = primitives::scan::<u32, u32>(gpu, &flags)?;
        let count = gpu.item(&places, items as usize)?;
        let keys = gpu.allocate::<u64>(count as usize)?;
        let arguments = arguments! {
            ids,
            lists,
            entries: batch.entries(),
            query_offsets: batch.query_offsets(),
            item_offsets: batch.item_offsets(),
            queries,
            entry_count: entries,
            items,
            places,
            keys,
        };
        gpu.launch_looping(
            SOURCE.kernel("union_keys_kernel"),
            items as usize,
            arguments,
        )?;
        let query_bits = u32::BITS - queries.leading_zeros();
        let keys = primitives::sort_keys(gpu, keys, 0..u32::BITS + query_bits)?;
        let survivors = gpu.allocate::<u32>(count as usize)?;
        let arguments = arguments! { keys, count, survivors };
        gpu.launch_looping(SOURCE.kernel("union_ids_kernel"), count as usize, arguments)?;
        let result_offsets = gpu.allocate::<u32>(queries as usize + 1)?;
        let arguments = arguments! {
            query_offsets: batch.query_offsets(),
            item_offsets: batch.item_offsets(),
            queries,
            places,
            result_offsets,
        };
        let kernel = SOURCE.kernel("union_offsets_kernel");
        gpu.launch_looping(kernel, queries as usize + 1, arguments)?;
        Ok(BatchAnswers::new(survivors, result_offsets, batch, places))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zipfdb_kernels::gpu::test_devices::{Numbers, on_devices};

    use super::*;

    type Combine = dyn Fn(&BTreeSet<u32>, &BTreeSet<u32>) -> BTreeSet<u32>;

    #[test]
    fn answers_of_batches_are_those_of_sets() {
        on_devices(|gpu| {
            for universe in [64, 3000] {
                let mut numbers = Numbers::new(universe.into());
                let (offsets, ids) = numbers.lists(universe);
                let device = SearchedLists::new(gpu, &offsets, &ids, universe)?;
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
            }
            Ok(())
        });
    }
}
