//! Ascending candidates looked up in a list of ascending ids by comparing vectors.
//!
//! The invariant: what is kept are the candidates that the list has, in order. The list is cut into stretches, which are galloped
//! over by their last ids; within a stretch halves are chosen without a branch, down to so few ids that all are compared with the
//! candidate. So a candidate costs little more than the branches that go on to the next stretch. Source: Lemire, Boytsov, Kurz,
//! "SIMD Compression and the Intersection of Sorted Integers", 2016, section 5; stretches grow with the ratio of the lengths, and
//! vectors are made by the compiler.

/// Ids that are compared at once.
const COMPARED: usize = 16;

/// Moves the candidates that a list has to the front; how many there are.
pub fn keep_common(candidates: &mut [u32], ids: &[u32]) -> usize {
    keep_by_ratio::<COMPARED, u32>(candidates, ids, |&id| id)
}

/// Moves the candidates that a list has, in which something stands beside each id, to the front; how many there are.
///
/// Ids that do not lie side by side make no vectors: stretches are halved down to one.
pub(crate) fn keep_common_pairs<T>(candidates: &mut [u32], pairs: &[(u32, T)]) -> usize {
    keep_by_ratio::<1, (u32, T)>(candidates, pairs, |&(id, _)| id)
}

/// Stretches of some candidates: there is a branch for each shorter one that is passed, and longer ones are halved more often.
fn keep_by_ratio<const COMPARED: usize, T>(
    candidates: &mut [u32],
    list: &[T],
    key: impl Fn(&T) -> u32,
) -> usize {
    let ratio = list.len() / candidates.len().max(1);
    match list.len() {
        1024.. if ratio >= 64 => keep_by_stretches::<1024, COMPARED, T>(candidates, list, key),
        256.. if ratio >= 16 => keep_by_stretches::<256, COMPARED, T>(candidates, list, key),
        64.. => keep_by_stretches::<64, COMPARED, T>(candidates, list, key),
        _ => keep_merged(candidates, list, key),
    }
}

/// Of a list of at least `STRETCH` ids. Both numbers are powers of two.
fn keep_by_stretches<const STRETCH: usize, const COMPARED: usize, T>(
    candidates: &mut [u32],
    list: &[T],
    key: impl Fn(&T) -> u32,
) -> usize {
    let stretches = list.len().div_ceil(STRETCH);
    // The last stretch begins within the one before, so that all are full.
    let end_of = |stretch: usize| list.len().min((stretch + 1) * STRETCH);
    let is_before = |stretch: usize, id: u32| key(&list[end_of(stretch) - 1]) < id;
    let (mut stretch, mut kept) = (0, 0);
    for k in 0..candidates.len() {
        let id = candidates[k];
        if is_before(stretch, id) {
            let (mut low, mut step) = (stretch + 1, 1);
            while low + step <= stretches && is_before(low + step - 1, id) {
                low += step;
                step *= 2;
            }
            let mut rest = stretches.min(low + step - 1) - low;
            while rest > 0 {
                let half = rest.div_ceil(2);
                low += half * usize::from(is_before(low + half - 1, id));
                rest -= half;
            }
            if low == stretches {
                break;
            }
            stretch = low;
        }
        let end = end_of(stretch);
        let own = &list[end - STRETCH..end];
        let (mut begin, mut rest) = (0, STRETCH);
        while rest > COMPARED {
            rest /= 2;
            begin += rest * usize::from(key(&own[begin + rest - 1]) < id);
        }
        let compared = own[begin..begin + COMPARED].iter();
        candidates[kept] = id;
        kept += usize::from(compared.fold(false, |has, other| has | (key(other) == id)));
    }
    kept
}

/// From the front of both: no branch depends on ids but the one that ends.
pub fn keep_merged<T>(candidates: &mut [u32], list: &[T], key: impl Fn(&T) -> u32) -> usize {
    let (mut k, mut i, mut kept) = (0, 0, 0);
    while k < candidates.len() && i < list.len() {
        let (candidate, id) = (candidates[k], key(&list[i]));
        candidates[kept] = candidate;
        kept += usize::from(candidate == id);
        k += usize::from(candidate <= id);
        i += usize::from(id <= candidate);
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Ids below a universe, of which about a share is there: few ids and many, scattered and in runs.
    fn ids() -> impl Strategy<Value = Vec<u32>> {
        let scattered = prop::collection::btree_set(0u32..6000, 0..40);
        let runs = prop::collection::vec((0u32..6000, 1u32..900, 1u32..5), 0..5);
        let top = prop::collection::btree_set(u32::MAX - 3..=u32::MAX, 0..3);
        (scattered, runs, top).prop_map(|(mut ids, runs, top)| {
            for (begin, count, step) in runs {
                ids.extend((0..count).map(|i| begin + i * step));
            }
            ids.extend(top);
            ids.into_iter().collect()
        })
    }

    /// What each way keeps of candidates.
    fn kept(candidates: &[u32], ids: &[u32]) -> Vec<Vec<u32>> {
        type Way = Box<dyn Fn(&mut [u32]) -> usize>;
        let pairs: Vec<(u32, u8)> = ids.iter().map(|&id| (id, 0)).collect();
        let (own, owned) = (ids.to_vec(), pairs.clone());
        let mut ways: Vec<Way> = vec![
            Box::new(move |candidates| keep_common(candidates, &own)),
            Box::new(move |candidates| keep_common_pairs(candidates, &owned)),
        ];
        macro_rules! stretches {
            ($($stretch:literal $compared:literal),*) => {$(
                if ids.len() >= $stretch {
                    let own = ids.to_vec();
                    ways.push(Box::new(move |candidates| {
                        keep_by_stretches::<$stretch, $compared, u32>(candidates, &own, |&id| id)
                    }));
                }
            )*};
        }
        stretches!(1 1, 2 1, 8 8, 16 16, 32 4, 64 16, 256 16, 1024 16, 1024 1);
        let own = ids.to_vec();
        ways.push(Box::new(move |candidates| {
            keep_merged(candidates, &own, |&id| id)
        }));
        let all = ways.iter().map(|way| {
            let mut candidates = candidates.to_vec();
            let count = way(&mut candidates);
            candidates.truncate(count);
            candidates
        });
        all.collect()
    }

    fn check(candidates: &[u32], ids: &[u32]) {
        let set: BTreeSet<u32> = ids.iter().copied().collect();
        let expected: Vec<u32> = candidates
            .iter()
            .copied()
            .filter(|id| set.contains(id))
            .collect();
        for found in kept(candidates, ids) {
            assert_eq!(found, expected);
        }
    }

    proptest! {
        #[test]
        fn every_stretch_keeps_what_a_set_has(left in ids(), right in ids()) {
            check(&left, &right);
            let some: Vec<u32> = right.iter().copied().step_by(7).collect();
            check(&some, &right);
            check(&right, &some);
        }
    }

    #[test]
    fn lists_that_end_at_the_edge_of_a_stretch_lose_no_id() {
        for count in [
            0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 2048, 2049,
        ] {
            let ids: Vec<u32> = (0..count).map(|i| 1 + 2 * i).collect();
            let edges: Vec<u32> = ids
                .iter()
                .copied()
                .filter(|id| (id / 2 + 1) % 16 < 3)
                .collect();
            let all: Vec<u32> = (0..2 * count + 3).collect();
            for candidates in [&ids[..], &edges, &all, &[]] {
                check(candidates, &ids);
            }
        }
    }
}
