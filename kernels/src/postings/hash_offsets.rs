//! The leading bits of ids as a hash: where the ids of each bucket of a list begin (Ao et al. 4.4).
//!
//! The invariant: ids ascend, so the ids of a bucket lie side by side, and an id is in its bucket or not in the list.

/// Where the ids with the same leading bits begin (4.4).
#[derive(Clone, Debug)]
pub struct HashOffsets {
    /// Low bits of an id, which its bucket leaves open.
    pub shift: u32,
    /// Offset of each bucket, and the number of ids.
    pub offsets: Vec<u32>,
}

impl HashOffsets {
    /// Buckets of about `bucket` ids: the least m with n / b <= 2^m leading bits, of those that ids of the universe have.
    pub fn new(ids: &[u32], universe: u32, bucket: usize) -> HashOffsets {
        let id_bits = u32::BITS - universe.saturating_sub(1).leading_zeros();
        let leading = ids.len().div_ceil(bucket).next_power_of_two();
        let shift = id_bits - leading.trailing_zeros().min(id_bits);
        let hash = |id: u32| id.checked_shr(shift).unwrap_or(0);
        let mut offsets = Vec::new();
        for (index, &id) in (0..).zip(ids) {
            while offsets.len() <= hash(id) as usize {
                offsets.push(index);
            }
        }
        // Ids are below 2^32 and ascend, so that there are not more.
        offsets.push(ids.len() as u32);
        HashOffsets { shift, offsets }
    }

    /// The indices of an id's bucket; none if there is no such bucket.
    #[inline(always)]
    pub fn of(&self, id: u32) -> (usize, usize) {
        let hash = id.checked_shr(self.shift).unwrap_or(0) as usize;
        match self.offsets.get(hash..hash + 2) {
            Some(bounds) => (bounds[0] as usize, bounds[1] as usize),
            None => (0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::pairs::mix;

    #[test]
    fn a_bucket_holds_every_id_of_it() {
        for universe in [64, 65, 4096, 1 << 20, u32::MAX] {
            for count in [1, 2, 16, 17, 32] {
                let ids = (0..count).map(|n| (mix(n) % u64::from(universe)) as u32);
                let mut ids: Vec<u32> = ids.collect();
                ids.sort_unstable();
                ids.dedup();
                for bucket in [16, 32, 128, 256] {
                    let hash = HashOffsets::new(&ids, universe, bucket);
                    for (index, &id) in ids.iter().enumerate() {
                        let (first, end) = hash.of(id);
                        assert!((first..end).contains(&index));
                    }
                    hash.of(u32::MAX);
                }
            }
        }
        // The largest id of a universe that is a power of two.
        let ids: Vec<u32> = (0..4096).collect();
        assert_eq!(HashOffsets::new(&ids, 4096, 16).of(4095), (4080, 4096));
    }
}
