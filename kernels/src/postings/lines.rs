//! Lines through the points (index, id) of a list, in whole numbers (Ao et al. 4.3 and 5.2).
//!
//! The invariant: the value of a line at an index is the same on every device, since it is `base + (slope * index >>
//! fraction)` in 64 bits. Floating point only chooses the slope. The paper's constant and its least residual are one number
//! here, the base, so that all residuals are at least 0.

/// Bits of a slope behind the point, for a whole list: an error of half a unit of the last place moves the end of a list of
/// 2^24 ids by a half.
pub const LIST_FRACTION: u32 = 24;

/// Bits of a slope behind the point, for some hundred ids.
pub const SEGMENT_FRACTION: u32 = 10;

/// A line below all ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) base: i64,
    pub(super) slope: u64,
}

impl Line {
    /// The least-squares slope, and the base that leaves a residual of 0 at least.
    pub(super) fn fit(ids: &[u32], fraction: u32) -> Line {
        let n = ids.len() as f64;
        let mean_index = (n - 1.0) / 2.0;
        let mean_id = ids.iter().map(|&id| f64::from(id)).sum::<f64>() / n;
        let (mut products, mut squares) = (0.0, 0.0);
        for (index, &id) in ids.iter().enumerate() {
            let from_mean = index as f64 - mean_index;
            products += from_mean * (f64::from(id) - mean_id);
            squares += from_mean * from_mean;
        }
        let slope = if squares > 0.0 {
            products / squares * (1u64 << fraction) as f64
        } else {
            0.0
        };
        let mut line = Line {
            base: 0,
            // Ids ascend, so it is positive; casts saturate.
            slope: slope.round() as u64,
        };
        let above = (ids.iter().enumerate()).map(|(index, &id)| line.residual(index, id, fraction));
        line.base = above.min().unwrap_or(0);
        line
    }

    /// The id at an index less the residual.
    #[inline(always)]
    pub(super) fn at(&self, index: usize, fraction: u32) -> i64 {
        self.base + (self.slope.wrapping_mul(index as u64) >> fraction) as i64
    }

    /// What an id is above the line.
    pub(super) fn residual(&self, index: usize, id: u32, fraction: u32) -> i64 {
        i64::from(id) - self.at(index, fraction)
    }

    /// Where an id can lie in a list whose residuals are `residual_max` at most: the indices `first..end`, clamped to `count`.
    pub(super) fn range(
        &self,
        id: u32,
        residual_max: u64,
        count: usize,
        fraction: u32,
    ) -> (usize, usize) {
        let above = i64::from(id).saturating_sub(self.base);
        if above < 0 {
            return (0, 0);
        }
        let Some(slope) = std::num::NonZeroU64::new(self.slope) else {
            return (0, count);
        };
        // slope * index >> fraction is at least above - residual_max and at most above.
        let least = (above as u64).saturating_sub(residual_max);
        let first = (u128::from(least) << fraction).div_ceil(u128::from(slope.get()));
        let end = ((u128::from(above as u64) + 1) << fraction).div_ceil(u128::from(slope.get()));
        let clamp = |index: u128| index.min(count as u128) as usize;
        (clamp(first), clamp(end))
    }
}

/// A signed number as an unsigned one, small if it is near 0.
pub(super) fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// What `zigzag` was given.
#[inline(always)]
pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::pairs::mix;

    #[test]
    fn residuals_are_at_least_0_and_the_range_holds_every_id() {
        for fraction in [LIST_FRACTION, SEGMENT_FRACTION] {
            for count in [1, 2, 3, 64, 255, 256, 1000] {
                for bits in 0..20 {
                    let mut id = 0;
                    let mut ids = Vec::new();
                    for i in 0..count {
                        ids.push(id);
                        id += 1 + (mix(i) & ((1 << bits) - 1)) as u32;
                    }
                    *ids.last_mut().expect("not empty") += 1 << 31;
                    let line = Line::fit(&ids, fraction);
                    let places = || ids.iter().copied().enumerate();
                    let residuals = places().map(|(i, id)| line.residual(i, id, fraction));
                    assert_eq!(residuals.clone().min(), Some(0));
                    let most = residuals.max().expect("not empty") as u64;
                    for (index, id) in places() {
                        let (first, end) = line.range(id, most, ids.len(), fraction);
                        assert!((first..end).contains(&index));
                    }
                }
            }
        }
    }

    #[test]
    fn zigzag_is_undone() {
        for number in [0, 1, -1, 2, -2, i64::from(u32::MAX), -(1 << 40)] {
            assert_eq!(unzigzag(zigzag(number)), number);
        }
        assert_eq!(zigzag(-1), 1);
    }
}
