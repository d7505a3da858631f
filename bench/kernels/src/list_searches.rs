//! Searching lists that are not compressed, in all ways of Ao et al. 4.2 to 4.4, appendix C, and some of today.
//!
//! The invariant: all methods give the same answer, the ascending ids that all lists have. They differ in what they keep of a
//! list, a [`ListIndex`], and in how they look a candidate up in it. Lists are taken by length, the shortest first.

use zipfdb_kernels::postings::HashOffsets;
use zipfdb_kernels::postings::building_blocks::{count_below, keep_common, keep_merged};

/// How a candidate is looked up in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SearchMethod {
    /// Binary search of the whole list (4.2).
    Binary,
    /// Interpolation search: few steps where ids are spread evenly, in the worst case a step for each id (4.3).
    Interpolation,
    /// Binary search where a least-squares line says that an id can be (4.3).
    Line,
    /// As `Line`, with a line for each 1,024 ids: the local safe range, an ablation (4.3).
    LocalLines,
    /// Binary search of the bucket of an id, of at most 32 ids on average (4.4).
    Hash16,
    /// As `Hash16`, with buckets twice as large.
    Hash32,
    /// Steps that double, from the last id that was found (Bentley and Yao, 1976).
    Galloping,
    /// Galloping over stretches of ids, of which the last few are compared as vectors (Lemire et al., 2016).
    Vectors,
    /// Both lists from the front, without a branch that depends on ids.
    Merge,
    /// A bit for each id of the universe.
    BitSet,
    /// A list with express lanes of every 8th, 64th, ... id: the baseline of the paper (appendix F).
    SkipList,
}

impl SearchMethod {
    /// All of them.
    pub const ALL: [SearchMethod; 11] = [
        SearchMethod::Binary,
        SearchMethod::Interpolation,
        SearchMethod::Line,
        SearchMethod::LocalLines,
        SearchMethod::Hash16,
        SearchMethod::Hash32,
        SearchMethod::Galloping,
        SearchMethod::Vectors,
        SearchMethod::Merge,
        SearchMethod::BitSet,
        SearchMethod::SkipList,
    ];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            SearchMethod::Binary => "bs",
            SearchMethod::Interpolation => "is",
            SearchMethod::Line => "lr",
            SearchMethod::LocalLines => "local_lr",
            SearchMethod::Hash16 => "hs16",
            SearchMethod::Hash32 => "hs32",
            SearchMethod::Galloping => "gallop",
            SearchMethod::Vectors => "vectors",
            SearchMethod::Merge => "merge",
            SearchMethod::BitSet => "bits",
            SearchMethod::SkipList => "skip",
        }
    }
}

/// Ids that share a line of `LocalLines`.
pub(crate) const LOCAL_IDS: usize = 1024;

/// Ids between two of the next lane of a skip list.
const SKIP: usize = 8;

/// A line through a list and how far ids are from it: an id at index i is near `(id - base) * inverse`.
///
/// Computed in `f64`, which holds ids and indices exactly; one is added to either distance for what multiplying rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SafeRange {
    /// The id at index 0 by the line.
    pub base: f64,
    /// Indices an id.
    pub inverse: f64,
    /// How much the line is above an index at most.
    pub left: f64,
    /// How much it is below at most.
    pub right: f64,
}

impl SafeRange {
    /// The least-squares line of ascending ids (4.3, 1 to 4); R squared of the fit beside it.
    pub fn fit(ids: &[u32]) -> (SafeRange, f64) {
        let n = ids.len() as f64;
        let mean_index = (n - 1.0) / 2.0;
        let mean_id = ids.iter().map(|&id| f64::from(id)).sum::<f64>() / n.max(1.0);
        let (mut products, mut squares, mut id_squares) = (0.0, 0.0, 0.0);
        for (index, &id) in ids.iter().enumerate() {
            let (x, y) = (index as f64 - mean_index, f64::from(id) - mean_id);
            products += x * y;
            squares += x * x;
            id_squares += y * y;
        }
        if squares == 0.0 {
            let range = SafeRange {
                base: mean_id,
                inverse: 1.0,
                left: 0.0,
                right: 0.0,
            };
            return (range, 1.0);
        }
        // Ids ascend by 1 at least, so the slope is 1 at least.
        let slope = products / squares;
        let mut range = SafeRange {
            base: mean_id - slope * mean_index,
            inverse: squares / products,
            left: 0.0,
            right: 0.0,
        };
        for (index, &id) in ids.iter().enumerate() {
            let above = range.near(id) - index as f64;
            range.left = range.left.max(above);
            range.right = range.right.max(-above);
        }
        range.left += 1.0;
        range.right += 1.0;
        (range, products * products / (squares * id_squares))
    }

    #[inline(always)]
    fn near(&self, id: u32) -> f64 {
        (f64::from(id) - self.base) * self.inverse
    }

    /// The indices that an id can have, first and end, of `count`.
    #[inline(always)]
    pub fn of(&self, id: u32, count: usize) -> (usize, usize) {
        let near = self.near(id);
        // Casts saturate, so that what is before the list is 0.
        let first = (near - self.left).floor() as usize;
        let end = (near + self.right).ceil().max(-1.0) + 1.0;
        let end = (end as usize).min(count);
        (first.min(end), end)
    }
}

/// A list, and what a method keeps of it.
#[derive(Clone, Debug)]
pub struct ListIndex<'a> {
    ids: &'a [u32],
    kept: SearchAids,
}

#[derive(Clone, Debug)]
enum SearchAids {
    Nothing,
    Interpolation,
    Galloping,
    Vectors,
    Merge,
    Line(SafeRange),
    LocalLines(Vec<SafeRange>),
    Hash(HashOffsets),
    BitSet(Vec<u64>),
    /// Lanes, the widest steps last.
    SkipList(Vec<Vec<u32>>),
}

impl<'a> ListIndex<'a> {
    /// What a method keeps of a list of ascending ids below a universe.
    pub fn new(method: SearchMethod, ids: &'a [u32], universe: u32) -> ListIndex<'a> {
        let hash = |bucket| SearchAids::Hash(HashOffsets::new(ids, universe, bucket));
        let kept = match method {
            SearchMethod::Binary => SearchAids::Nothing,
            SearchMethod::Interpolation => SearchAids::Interpolation,
            SearchMethod::Line => SearchAids::Line(SafeRange::fit(ids).0),
            SearchMethod::LocalLines => {
                let lines = ids.chunks(LOCAL_IDS).map(|part| SafeRange::fit(part).0);
                SearchAids::LocalLines(lines.collect())
            }
            SearchMethod::Hash16 => hash(16),
            SearchMethod::Hash32 => hash(32),
            SearchMethod::Galloping => SearchAids::Galloping,
            SearchMethod::Vectors => SearchAids::Vectors,
            SearchMethod::Merge => SearchAids::Merge,
            SearchMethod::BitSet => {
                let mut words = vec![0; (universe as usize).div_ceil(64)];
                (ids.iter()).for_each(|&id| words[id as usize / 64] |= 1 << (id % 64));
                SearchAids::BitSet(words)
            }
            SearchMethod::SkipList => {
                let mut lanes: Vec<Vec<u32>> = Vec::new();
                let mut below = ids;
                while below.len() > SKIP {
                    lanes.push(below.iter().copied().step_by(SKIP).collect());
                    below = &lanes[lanes.len() - 1];
                }
                SearchAids::SkipList(lanes)
            }
        };
        ListIndex { ids, kept }
    }

    /// The ids.
    pub fn ids(&self) -> &'a [u32] {
        self.ids
    }

    /// Bytes that are kept beside the ids.
    pub fn bytes(&self) -> usize {
        match &self.kept {
            SearchAids::Nothing
            | SearchAids::Interpolation
            | SearchAids::Galloping
            | SearchAids::Vectors
            | SearchAids::Merge => 0,
            SearchAids::Line(_) => size_of::<SafeRange>(),
            SearchAids::LocalLines(lines) => size_of_val(&lines[..]),
            SearchAids::Hash(hash) => size_of_val(&hash.offsets[..]),
            SearchAids::BitSet(words) => size_of_val(&words[..]),
            SearchAids::SkipList(lanes) => lanes.iter().map(|lane| size_of_val(&lane[..])).sum(),
        }
    }

    /// Moves the candidates, which ascend, that the list has to the front; how many there are.
    fn keep(&self, candidates: &mut [u32]) -> usize {
        let ids = self.ids;
        let among =
            |(first, end): (usize, usize), id: u32| ids[first..end].binary_search(&id).is_ok();
        match &self.kept {
            SearchAids::Nothing => keep_if(candidates, |id| ids.binary_search(&id).is_ok()),
            SearchAids::Interpolation => keep_if(candidates, |id| interpolate(ids, id)),
            SearchAids::Line(range) => keep_if(candidates, |id| among(range.of(id, ids.len()), id)),
            SearchAids::LocalLines(lines) => keep_if(candidates, |id| {
                let parts = ids.len().div_ceil(LOCAL_IDS);
                let part = count_parts(ids, parts, id);
                let Some(part) = part.checked_sub(1) else {
                    return false;
                };
                let own = &ids[part * LOCAL_IDS..ids.len().min((part + 1) * LOCAL_IDS)];
                let (first, end) = lines[part].of(id, own.len());
                own[first..end].binary_search(&id).is_ok()
            }),
            SearchAids::Hash(hash) => keep_if(candidates, |id| among(hash.of(id), id)),
            SearchAids::Galloping => {
                let mut passed = 0;
                keep_if(candidates, |id| {
                    passed += count_below(&ids[passed..], id);
                    ids.get(passed) == Some(&id)
                })
            }
            SearchAids::Vectors => keep_common(candidates, ids),
            SearchAids::Merge => keep_merged(candidates, ids, |&id| id),
            SearchAids::BitSet(words) => keep_if(candidates, |id| {
                let word = words.get(id as usize / 64).copied().unwrap_or(0);
                word >> (id % 64) & 1 == 1
            }),
            SearchAids::SkipList(lanes) => keep_if(candidates, |id| skip(ids, lanes, id)),
        }
    }
}

#[inline(always)]
fn keep_if(candidates: &mut [u32], mut has: impl FnMut(u32) -> bool) -> usize {
    let mut kept = 0;
    for k in 0..candidates.len() {
        let id = candidates[k];
        candidates[kept] = id;
        kept += usize::from(has(id));
    }
    kept
}

/// How many parts begin with an id or less.
fn count_parts(ids: &[u32], parts: usize, id: u32) -> usize {
    let (mut low, mut high) = (0, parts);
    while low < high {
        let middle = low + (high - low) / 2;
        if ids[middle * LOCAL_IDS] <= id {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Interpolation search: whether ids have one.
fn interpolate(ids: &[u32], id: u32) -> bool {
    let (mut low, mut end) = (0, ids.len());
    while low < end {
        let (first, last) = (ids[low], ids[end - 1]);
        if id < first || id > last {
            return false;
        }
        let span = u64::from(last - first).max(1);
        let along = u64::from(id - first) * (end - 1 - low) as u64 / span;
        let place = low + along as usize; // at most end - 1
        match ids[place].cmp(&id) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => low = place + 1,
            std::cmp::Ordering::Greater => end = place,
        }
    }
    false
}

/// Whether ids have one, by their lanes.
fn skip(ids: &[u32], lanes: &[Vec<u32>], id: u32) -> bool {
    let mut first = 0;
    let lanes = lanes.iter().rev().map(Vec::as_slice);
    for lane in lanes.chain([ids]) {
        let steps = lane[first..]
            .iter()
            .take_while(|&&other| other <= id)
            .count();
        let Some(last) = (first + steps).checked_sub(1) else {
            return false;
        };
        if lane[last] == id {
            return true;
        }
        first = last * SKIP;
    }
    false
}

/// Appends the ids that all lists have; nothing if there are no lists.
pub fn intersect_plain(lists: &[&ListIndex<'_>], output: &mut Vec<u32>) {
    let mut lists = lists.to_vec();
    lists.sort_by_key(|list| list.ids.len());
    let Some((shortest, others)) = lists.split_first() else {
        return;
    };
    let begin = output.len();
    output.extend_from_slice(shortest.ids);
    for list in others {
        let kept = list.keep(&mut output[begin..]);
        output.truncate(begin + kept);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zipfdb_kernels::gpu::test_devices::mix;

    use super::*;

    fn list(count: usize, universe: u32, seed: u64) -> Vec<u32> {
        let mut ids = BTreeSet::new();
        let mut state = seed << 40;
        while ids.len() < count {
            state += 1;
            // Some lists are bent.
            let id = (mix(state) % u64::from(universe)) as u32;
            ids.insert(match seed % 3 {
                0 => (u64::from(id) * u64::from(id) / u64::from(universe)) as u32,
                _ => id,
            });
        }
        ids.into_iter().collect()
    }

    #[test]
    fn all_methods_give_the_same_answer() {
        for universe in [64, 100, 4096, 1 << 20, u32::MAX] {
            for counts in [
                vec![],
                vec![0],
                vec![3],
                vec![0, 5],
                vec![1, 1],
                vec![9, 40],
                vec![40, 40, 30],
                vec![30, 2000, 1500],
                vec![1000, 3000, 2999, 4000],
            ] {
                if counts.iter().any(|&count| count as u32 > universe / 2) {
                    continue;
                }
                let seeds = (1..).zip(counts);
                let lists: Vec<Vec<u32>> = seeds
                    .map(|(seed, count)| list(count, universe, seed + u64::from(universe % 5)))
                    .collect();
                let expected: Vec<u32> = match lists.split_first() {
                    None => Vec::new(),
                    Some((first, others)) => (first.iter().copied())
                        .filter(|id| others.iter().all(|ids| ids.contains(id)))
                        .collect(),
                };
                for method in SearchMethod::ALL {
                    if method == SearchMethod::BitSet && universe > 1 << 20 {
                        continue;
                    }
                    let indices = lists
                        .iter()
                        .map(|ids| ListIndex::new(method, ids, universe));
                    let indices: Vec<ListIndex<'_>> = indices.collect();
                    let mut found = Vec::new();
                    intersect_plain(&indices.iter().collect::<Vec<_>>(), &mut found);
                    assert_eq!(found, expected, "{method:?}");
                }
            }
        }
    }

    #[test]
    fn the_safe_range_holds_every_id() {
        for universe in [64, 65, 4096, 1 << 20, u32::MAX] {
            for count in [1, 2, 16, 17, 32] {
                let ids = list(count, universe, count as u64);
                let (range, _) = SafeRange::fit(&ids);
                for (index, &id) in ids.iter().enumerate() {
                    let (first, end) = range.of(id, ids.len());
                    assert!((first..end).contains(&index));
                }
                range.of(u32::MAX, ids.len());
            }
        }
    }

    #[test]
    fn a_line_of_ids_in_step_is_exact() {
        let ids: Vec<u32> = (0..1000).map(|i| 7 + i * 3).collect();
        let (range, squared) = SafeRange::fit(&ids);
        assert!(squared > 0.999_999);
        assert!(range.left + range.right < 2.1);
    }
}
