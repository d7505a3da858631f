//! Intersection, union and difference of encoded lists.
//!
//! The invariant: answers are ascending ids, appended. The shortest list is decoded, and the others are sought in order of
//! their lengths, so that blocks without a candidate are not decoded. Nothing here knows how lists are encoded.

use zipfdb_kernels::postings::building_blocks::{SEEK_RATIO, keep_common};
use zipfdb_kernels::postings::{PostingsCursor, PostingsList};

/// Appends the ids that all lists have; nothing if there are no lists.
pub fn intersect(lists: &[PostingsList<'_>], output: &mut Vec<u32>) {
    let mut lists: Vec<&PostingsList<'_>> = lists.iter().collect();
    lists.sort_by_key(|list| list.len());
    let Some((shortest, others)) = lists.split_first() else {
        return;
    };
    let begin = output.len();
    shortest.append(output);
    for list in others {
        if output.len() == begin {
            return;
        }
        let is_long = list.len() / SEEK_RATIO > output.len() - begin;
        let kept = if is_long {
            keep_sought(&mut output[begin..], list.cursor())
        } else {
            let mut ids = Vec::new();
            list.append(&mut ids);
            keep_common(&mut output[begin..], &ids)
        };
        output.truncate(begin + kept);
    }
}

/// How many ids all lists have.
pub fn intersect_count(lists: &[PostingsList<'_>]) -> usize {
    if let [list] = lists {
        return list.len();
    }
    let mut ids = Vec::new();
    intersect(lists, &mut ids);
    ids.len()
}

/// Moves the candidates that a list has to the front; how many there are.
fn keep_sought(candidates: &mut [u32], mut cursor: PostingsCursor<'_>) -> usize {
    let mut kept = 0;
    let mut found = cursor.seek(0);
    for k in 0..candidates.len() {
        let id = candidates[k];
        if found.is_some_and(|found| found < id) {
            found = cursor.seek(id);
        }
        match found {
            None => break,
            Some(found) => {
                candidates[kept] = id;
                kept += usize::from(found == id);
            }
        }
    }
    kept
}

/// Appends the ids that any list has.
pub fn union(lists: &[PostingsList<'_>], output: &mut Vec<u32>) {
    let begin = output.len();
    let mut lists: Vec<&PostingsList<'_>> = lists.iter().collect();
    lists.sort_by_key(|list| list.len());
    let universe = lists.iter().map(|list| list.universe()).max().unwrap_or(0);
    let total: usize = lists.iter().map(|list| list.len()).sum();
    // A bit set of the universe is read faster than many ids are merged.
    if lists.len() > 2 && total > universe as usize / 32 {
        let mut bits = vec![0u64; (universe as usize).div_ceil(64)];
        for list in lists {
            let mut ids = Vec::new();
            list.append(&mut ids);
            ids.iter()
                .for_each(|&id| bits[id as usize / 64] |= 1 << (id % 64));
        }
        for (first, word) in (0u32..).step_by(64).zip(bits) {
            let ids = (0..64).filter(|bit| word >> bit & 1 == 1);
            output.extend(ids.map(|bit| first + bit));
        }
        return;
    }
    let (mut merged, mut ids) = (Vec::new(), Vec::new());
    for list in lists {
        ids.clear();
        list.append(&mut ids);
        merged.clear();
        merge(&output[begin..], &ids, &mut merged);
        output.truncate(begin);
        output.extend_from_slice(&merged);
    }
}

/// Appends the ids that either has.
fn merge(left: &[u32], right: &[u32], merged: &mut Vec<u32>) {
    merged.reserve(left.len() + right.len());
    let (mut l, mut r) = (0, 0);
    while l < left.len() && r < right.len() {
        let (a, b) = (left[l], right[r]);
        merged.push(a.min(b));
        l += usize::from(a <= b);
        r += usize::from(b <= a);
    }
    merged.extend_from_slice(&left[l..]);
    merged.extend_from_slice(&right[r..]);
}

/// Appends the ids of a list that none of the others has.
pub fn difference(list: &PostingsList<'_>, others: &[PostingsList<'_>], output: &mut Vec<u32>) {
    let begin = output.len();
    list.append(output);
    for other in others {
        let mut cursor = other.cursor();
        let mut found = cursor.seek(0);
        let mut kept = begin;
        for k in begin..output.len() {
            let id = output[k];
            if found.is_some_and(|found| found < id) {
                found = cursor.seek(id);
            }
            output[kept] = id;
            kept += usize::from(found != Some(id));
        }
        output.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use zipfdb_kernels::gpu::test_devices::mix;
    use zipfdb_kernels::postings::{PostingsCodec, encode_ids};

    use super::*;

    fn encoded(codec: PostingsCodec, ids: &[u32], universe: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_ids(codec, ids, universe, &mut bytes);
        bytes
    }

    /// Some lists over one universe.
    fn several() -> impl Strategy<Value = (Vec<Vec<u32>>, u32)> {
        let count = prop_oneof![0..30usize, 0..1500usize];
        let list = (1..400u32, any::<u64>(), count);
        prop::collection::vec(list, 1..5).prop_map(|lists| {
            let universe = 3000;
            let ids = lists.into_iter().map(|(gap, seed, count)| {
                let mut ids = BTreeSet::new();
                for i in 0..count as u64 {
                    ids.insert((mix(i ^ seed) % 3000) as u32 / gap.min(4) * gap.min(4));
                }
                ids.into_iter().collect()
            });
            (ids.collect(), universe)
        })
    }

    proptest! {
        #[test]
        fn set_operations_are_those_of_sets((lists, universe) in several(), first in 0..11usize) {
            let codecs = PostingsCodec::ALL.into_iter().cycle().skip(first);
            let bytes: Vec<(PostingsCodec, Vec<u8>)> = (codecs.zip(&lists))
                .map(|(codec, ids)| (codec, encoded(codec, ids, universe)))
                .collect();
            let opened: Vec<PostingsList<'_>> = (bytes.iter().zip(&lists))
                .map(|((codec, bytes), ids)| PostingsList::new(*codec, bytes, ids.len(), universe).unwrap())
                .collect();
            let sets: Vec<BTreeSet<u32>> = lists.iter().map(|ids| ids.iter().copied().collect()).collect();
            let fold = |combine: fn(&BTreeSet<u32>, &BTreeSet<u32>) -> BTreeSet<u32>| {
                let all = sets.iter().skip(1).fold(sets[0].clone(), |all, set| combine(&all, set));
                all.into_iter().collect::<Vec<u32>>()
            };
            let mut ids = Vec::new();
            intersect(&opened, &mut ids);
            let common = fold(|a, b| a & b);
            prop_assert_eq!(&ids, &common);
            prop_assert_eq!(intersect_count(&opened), common.len());
            ids.clear();
            union(&opened, &mut ids);
            prop_assert_eq!(&ids, &fold(|a, b| a | b));
            ids.clear();
            difference(&opened[0], &opened[1..], &mut ids);
            prop_assert_eq!(&ids, &fold(|a, b| a - b));
        }
    }
}
