//! Random samples of hits that are the same on every machine, for any number of threads and any order of work.
//!
//! Every hit has a number, its place in the order of files and positions, and a key: output `number + 1` of the generator
//! SplitMix64 whose seed is its first output for the seed of the sample. A sample of k hits is the k smallest keys; a sample of p
//! percent is all keys below that share of 2^64. Invariant: a sample depends on the seed and the numbers alone. Different numbers
//! have different keys, because SplitMix64 permutes the numbers of 64 bits, and a smaller sample of the same seed is part of a
//! larger one.

use std::collections::BinaryHeap;
use std::str::FromStr;

use crate::measures::names::MeasureError;

/// What SplitMix64 adds to its state for each output.
const SPLIT_MIX_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output of SplitMix64 for a state that has been stepped (Steele, Lea and Flood 2014).
fn split_mix(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The key of the hit with this number, from 0.
pub fn sample_key(seed: u64, number: u64) -> u64 {
    let start = split_mix(seed.wrapping_add(SPLIT_MIX_STEP));
    let steps = number.wrapping_add(1);
    split_mix(start.wrapping_add(steps.wrapping_mul(SPLIT_MIX_STEP)))
}

/// How large a sample is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampleSize {
    /// This number of hits, or all if there are fewer.
    Count(u64),
    /// This share of the hits in percent, on average.
    Percent(f64),
}

impl FromStr for SampleSize {
    type Err = MeasureError;

    /// `100` or `5%`.
    fn from_str(text: &str) -> Result<SampleSize, MeasureError> {
        let text = text.trim();
        let size = match text.strip_suffix('%') {
            Some(percent) => percent
                .trim_end()
                .parse()
                .ok()
                .filter(|percent| (0.0..=100.0).contains(percent))
                .map(SampleSize::Percent),
            None => text.parse().ok().map(SampleSize::Count),
        };
        size.ok_or_else(|| {
            MeasureError::malformed(
                "size of a sample",
                text,
                "write a number of hits, or a percentage from `0%` to `100%`",
            )
        })
    }
}

/// A sample of a number of hits, from a stream of their numbers in any order.
///
/// Takes 16 bytes for each hit of the sample, and time in proportion to the logarithm of the sample for each hit.
#[derive(Debug, Clone)]
pub struct CountSample {
    seed: u64,
    size: u64,
    /// Keys and numbers of the sample so far, the largest key on top.
    kept: BinaryHeap<(u64, u64)>,
}

impl CountSample {
    /// An empty sample of at most `size` hits.
    pub fn new(seed: u64, size: u64) -> CountSample {
        CountSample {
            seed,
            size,
            kept: BinaryHeap::new(),
        }
    }

    /// Offers the hit with this number. Each number is offered once.
    pub fn add(&mut self, number: u64) {
        self.add_with_key(sample_key(self.seed, number), number);
    }

    fn add_with_key(&mut self, key: u64, number: u64) {
        if (self.kept.len() as u64) < self.size {
            self.kept.push((key, number));
        } else if let Some(mut largest) = self.kept.peek_mut()
            && (key, number) < *largest
        {
            *largest = (key, number);
        }
    }

    /// Offers the hits of another sample of the same seed and size, of other numbers.
    pub fn merge(&mut self, other: CountSample) {
        for (key, number) in other.kept {
            self.add_with_key(key, number);
        }
    }

    /// The numbers of the sample, ascending.
    pub fn finish(self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.kept.into_iter().map(|(_, number)| number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// A sample of a share of hits, decided for each hit alone, without memory.
///
/// Of n hits, p percent are kept on average, with a standard deviation of `sqrt(n p (1 - p))`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PercentSample {
    seed: u64,
    /// The keys below this are kept; at most 2^64.
    limit: u128,
}

impl PercentSample {
    /// A sample of `percent` of 100 hits; a number outside of 0 to 100 counts as the nearest one in it.
    pub fn new(seed: u64, percent: f64) -> PercentSample {
        let share = (percent / 100.0).clamp(0.0, 1.0);
        // Exact: a number of 53 bits times a power of two, not above 2^64.
        let limit = (share * 2_f64.powi(64)) as u128;
        PercentSample { seed, limit }
    }

    /// The hit with this number is in the sample.
    pub fn contains(self, number: u64) -> bool {
        u128::from(sample_key(self.seed, number)) < self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(seed: u64, size: u64, numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut sample = CountSample::new(seed, size);
        numbers.into_iter().for_each(|number| sample.add(number));
        sample.finish()
    }

    /// The reference outputs of SplitMix64 for the seeds 0 and 1234567.
    #[test]
    fn the_generator_is_split_mix() {
        assert_eq!(split_mix(SPLIT_MIX_STEP), 0xE220_A839_7B1D_CDAF);
        let mut state = 1_234_567_u64;
        for expected in [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ] {
            state = state.wrapping_add(SPLIT_MIX_STEP);
            assert_eq!(split_mix(state), expected);
        }
    }

    /// By an implementation in Python. Samples that users have seen stay the same in all versions.
    #[test]
    fn samples_of_a_seed_never_change() {
        assert_eq!(sample_key(42, 0), 0x57E1_FABA_6510_7204);
        assert_eq!(sample(42, 5, 0..1000), [204, 267, 670, 728, 896]);
    }

    #[test]
    fn a_sample_larger_than_the_hits_is_all_of_them() {
        assert_eq!(sample(7, 100, 0..10), (0..10).collect::<Vec<_>>());
        assert_eq!(sample(7, u64::MAX, 0..10), (0..10).collect::<Vec<_>>());
        assert!(sample(7, 0, 0..10).is_empty());
    }

    #[test]
    fn every_hit_is_about_equally_often_in_a_sample() {
        let mut counts = [0_u32; 20];
        for seed in 0..10_000 {
            for number in sample(seed, 5, 0..20) {
                counts[number as usize] += 1;
            }
        }
        // Expected 2500, standard deviation 43.
        assert!(
            counts.iter().all(|count| (2_300..2_700).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn percentages_are_met_on_average() {
        for (percent, expected) in [(0.0, 0), (5.0, 5_000), (50.0, 50_000), (100.0, 100_000)] {
            let sample = PercentSample::new(1, percent);
            let kept = (0..100_000)
                .filter(|number| sample.contains(*number))
                .count();
            // Five standard deviations of 50 % are 790.
            assert!(kept.abs_diff(expected) < 800, "{percent}: {kept}");
        }
        for (percent, is_in) in [(100.0, true), (1e9, true), (0.0, false), (f64::NAN, false)] {
            let sample = PercentSample::new(1, percent);
            assert!((0..1000).all(|number| sample.contains(number) == is_in));
        }
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!("100".parse(), Ok(SampleSize::Count(100)));
        assert_eq!(" 2.5 % ".parse(), Ok(SampleSize::Percent(2.5)));
        for text in ["", "%", "-1", "1.5", "101%", "-1%", "nan%", "many"] {
            let error = text.parse::<SampleSize>().expect_err(text);
            assert_eq!(
                error.to_string(),
                format!(
                    "`{text}` is no size of a sample; hint: write a number of hits, or a percentage from `0%` to `100%`"
                )
            );
        }
    }

    proptest! {
        #[test]
        fn order_and_threads_do_not_matter(
            seed: u64,
            size in 0_u64..50,
            numbers in proptest::collection::btree_set(0_u64..1000, 0..200).prop_map(Vec::from_iter).prop_shuffle(),
            cut in 0.0..1.0_f64,
        ) {
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            let expected = sample(seed, size, sorted);
            let (left, right) = numbers.split_at((cut * numbers.len() as f64) as usize);
            let mut merged = CountSample::new(seed, size);
            left.iter().for_each(|number| merged.add(*number));
            let mut other = CountSample::new(seed, size);
            right.iter().for_each(|number| other.add(*number));
            merged.merge(other);
            prop_assert_eq!(merged.finish(), expected);
        }

        #[test]
        fn a_smaller_sample_is_part_of_a_larger_one(seed: u64, small in 0_u64..30, more in 0_u64..30) {
            let large = sample(seed, small + more, 0..100);
            for number in sample(seed, small, 0..100) {
                prop_assert!(large.contains(&number));
            }
        }
    }
}
