//! Dispersion: how evenly the hits of a query are spread over the parts of a corpus, or over its positions.
//!
//! For parts of sizes `n_i` with `v_i` hits, `f = sum v_i`, `N = sum n_i`, `s_i = n_i / N` and rates `r_i = v_i / n_i`; for distances
//! `d_i` between hits. Both are computed in one pass and in constant memory, some 100 bytes: `f` and `N` are given before, as
//! counting costs less than finding places. Invariant: a measure is a finite number or none; nothing is defined for a query without hits.
//! A part has at least one word: empty files are not parts.

/// What is known of a corpus and a query before its parts are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartTotals {
    /// Parts with at least one word.
    pub parts: u64,
    /// Words of all parts.
    pub size: u64,
    /// Words of the smallest part.
    pub smallest: u64,
    /// Hits in all parts.
    pub hits: u64,
}

/// Measures by parts, computed from a stream of the parts that have hits.
#[derive(Debug, Clone)]
pub struct PartDispersion {
    totals: PartTotals,
    /// Parts with hits, so far.
    range: u64,
    /// Their words.
    visited: u64,
    deviation: f64,
    divergence: f64,
    roots: f64,
    /// Mean of the rates, and the sum of the squares of their differences from it (Welford).
    mean: f64,
    squares: f64,
    rates: f64,
    /// Sum of `r log2 r`.
    rate_information: f64,
}

/// The measures by parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartMeasures {
    /// Parts.
    pub parts: u64,
    /// Hits.
    pub hits: u64,
    /// Parts with hits. Keniston 1920.
    pub range: u64,
    /// Deviation of proportions, `1/2 sum |v_i / f - s_i|`, from 0, even, to nearly 1. Gries 2008.
    pub dp: Option<f64>,
    /// `DP / (1 - min s_i)`, from 0 to 1; none for one part. Lijffijt and Gries 2012.
    pub dp_norm: Option<f64>,
    /// `1 - (sd / mean of r_i) / sqrt(k - 1)` for k parts with the deviation of a population, from 0 to 1, even; none for one
    /// part. Juilland and Chang-Rodriguez 1964.
    pub juilland_d: Option<f64>,
    /// Entropy of `r_i / sum r` divided by `log2 k`, from 0 to 1, even; none for one part. Carroll 1970.
    pub carroll_d2: Option<f64>,
    /// `(sum sqrt(s_i v_i))^2 / f`, from the least `s_i` to 1, even. Rosengren 1971.
    pub rosengren_s: Option<f64>,
    /// `sum (v_i / f) log2((v_i / f) / s_i)`, from 0, even. Gries 2020.
    pub kl_divergence: Option<f64>,
}

impl PartDispersion {
    /// Nothing visited yet.
    pub fn new(totals: PartTotals) -> PartDispersion {
        PartDispersion {
            totals,
            range: 0,
            visited: 0,
            deviation: 0.0,
            divergence: 0.0,
            roots: 0.0,
            mean: 0.0,
            squares: 0.0,
            rates: 0.0,
            rate_information: 0.0,
        }
    }

    /// Visits a part. Parts without hits may be left out; every part with hits comes once, in any order.
    pub fn add(&mut self, size: u64, hits: u64) {
        if size == 0 || hits == 0 {
            return;
        }
        self.range += 1;
        self.visited += size;
        let hits = hits as f64;
        let share = size as f64 / self.totals.size as f64;
        let share_of_hits = hits / self.totals.hits as f64;
        self.deviation += (share_of_hits - share).abs();
        self.divergence += share_of_hits * (share_of_hits / share).log2();
        self.roots += (share * hits).sqrt();
        let rate = hits / size as f64;
        let difference = rate - self.mean;
        self.mean += difference / self.range as f64;
        self.squares += difference * (rate - self.mean);
        self.rates += rate;
        self.rate_information += rate * rate.log2();
    }

    /// Adds the parts that another one visited, all of them different ones.
    pub fn join(&mut self, other: &PartDispersion) {
        let (ours, theirs) = (self.range as f64, other.range as f64);
        let all = ours + theirs;
        if other.range > 0 {
            // Chan, Golub and LeVeque 1983.
            let difference = other.mean - self.mean;
            self.mean += difference * theirs / all;
            self.squares += other.squares + difference * difference * ours * theirs / all;
        }
        self.range += other.range;
        self.visited += other.visited;
        self.deviation += other.deviation;
        self.divergence += other.divergence;
        self.roots += other.roots;
        self.rates += other.rates;
        self.rate_information += other.rate_information;
    }

    /// The measures of all parts.
    pub fn finish(self) -> PartMeasures {
        let PartTotals {
            parts, size, hits, ..
        } = self.totals;
        let has_hits = self.range > 0 && hits > 0;
        // Exactly the share of the parts without hits, each of which deviates by its own share.
        let without_hits = size.saturating_sub(self.visited) as f64 / size as f64;
        let dp = 0.5 * (self.deviation + without_hits);
        let smallest = self.totals.smallest as f64 / size as f64;
        let defined = |value: f64| (has_hits && value.is_finite()).then_some(value);
        let of_several = |value: f64| defined(value).filter(|_| parts > 1);
        PartMeasures {
            parts,
            hits,
            range: self.range,
            dp: defined(dp),
            dp_norm: of_several(dp / (1.0 - smallest)),
            juilland_d: of_several(self.juilland_d()),
            carroll_d2: of_several(self.carroll_d2()),
            rosengren_s: defined(self.roots * self.roots / hits as f64),
            // Rounding may leave less than zero where all shares are equal.
            kl_divergence: defined(self.divergence.max(0.0)),
        }
    }

    fn juilland_d(&self) -> f64 {
        let visited = self.range as f64;
        let parts = self.totals.parts as f64;
        // Parts without hits join with a mean of zero.
        let mean = self.mean * visited / parts;
        let squares = self.squares + self.mean * self.mean * visited * (parts - visited) / parts;
        let variation = (squares / parts).sqrt() / mean;
        (1.0 - variation / (parts - 1.0).sqrt()).max(0.0)
    }

    /// The entropy of rates divided by their sum S, `log2 S - (sum r log2 r) / S`.
    fn carroll_d2(&self) -> f64 {
        let entropy = self.rates.log2() - self.rate_information / self.rates;
        (entropy / (self.totals.parts as f64).log2()).clamp(0.0, 1.0)
    }
}

impl PartMeasures {
    /// Usage coefficient U, `f D`. Juilland and Chang-Rodriguez 1964.
    pub fn juilland_u(&self) -> Option<f64> {
        Some(self.hits as f64 * self.juilland_d?)
    }

    /// Usage coefficient Um, `f D2 + (1 - D2) f / k`. Carroll 1970.
    pub fn carroll_um(&self) -> Option<f64> {
        let hits = self.hits as f64;
        let evenness = self.carroll_d2?;
        Some(hits * evenness + (1.0 - evenness) * hits / self.parts as f64)
    }

    /// Adjusted frequency KF, `f S`. Rosengren 1971.
    pub fn rosengren_kf(&self) -> Option<f64> {
        Some(self.hits as f64 * self.rosengren_s?)
    }

    /// Adjusted frequency FM, `f range / k`. Engwall 1974.
    pub fn engwall_fm(&self) -> Option<f64> {
        (self.parts > 0).then(|| self.hits as f64 * self.range as f64 / self.parts as f64)
    }
}

/// Measures by positions, computed from the ascending positions of hits in the whole corpus.
#[derive(Debug, Clone)]
pub struct PositionDispersion {
    size: f64,
    hits: f64,
    words: u64,
    seen: u64,
    first: u64,
    last: u64,
    reduced: f64,
    information: f64,
    squares: f64,
}

/// The measures by positions, all none for a query without hits.
///
/// Distances are cyclic: the distance of the first hit is that from the last one around the end of the corpus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PositionMeasures {
    /// Average reduced frequency, `1 / v sum min(d_i, v)` with `v = N / f`, from 1, one cluster, to f, even. Savicky and
    /// Hlavacova 2002.
    pub arf: Option<f64>,
    /// Average logarithmic distance, `1 / N sum d_i log10 d_i`. Savicky and Hlavacova 2002.
    pub ald: Option<f64>,
    /// Average waiting time, `(1 + 1 / N sum d_i^2) / 2`. Savicky and Hlavacova 2002.
    pub awt: Option<f64>,
    /// The frequency that ALD stands for, `N 10^-ALD`.
    pub f_ald: Option<f64>,
    /// The frequency that AWT stands for, `N / (2 AWT - 1)`.
    pub f_awt: Option<f64>,
}

impl PositionDispersion {
    /// No hit visited yet, of `hits` in a corpus of `size` words.
    pub fn new(size: u64, hits: u64) -> PositionDispersion {
        PositionDispersion {
            size: size as f64,
            hits: hits as f64,
            words: size,
            seen: 0,
            first: 0,
            last: 0,
            reduced: 0.0,
            information: 0.0,
            squares: 0.0,
        }
    }

    /// Visits the next hit. A hit at the position of the one before it has a distance of zero and adds nothing.
    pub fn add(&mut self, position: u64) {
        if self.seen == 0 {
            self.first = position;
        } else {
            self.add_distance(position.saturating_sub(self.last));
        }
        self.seen += 1;
        self.last = position;
    }

    /// Adds the hits that another one visited, all of them behind those of this one.
    pub fn join(&mut self, later: PositionDispersion) {
        if later.seen == 0 {
            return;
        }
        if self.seen == 0 {
            *self = later;
            return;
        }
        self.add_distance(later.first.saturating_sub(self.last));
        self.seen += later.seen;
        self.last = later.last;
        self.reduced += later.reduced;
        self.information += later.information;
        self.squares += later.squares;
    }

    fn add_distance(&mut self, distance: u64) {
        if distance > 0 {
            let distance = distance as f64;
            self.reduced += distance.min(self.size / self.hits);
            self.information += distance * distance.log10();
            self.squares += distance * distance;
        }
    }

    /// The measures of all hits.
    pub fn finish(mut self) -> PositionMeasures {
        let is_defined = self.seen > 0 && self.size > 0.0 && self.hits > 0.0;
        self.add_distance((self.words.saturating_add(self.first)).saturating_sub(self.last));
        let defined = |value: f64| (is_defined && value.is_finite()).then_some(value);
        let ald = self.information / self.size;
        let waiting = self.squares / self.size;
        PositionMeasures {
            arf: defined(self.reduced * self.hits / self.size),
            ald: defined(ald),
            awt: defined((1.0 + waiting) / 2.0),
            f_ald: defined(self.size * 10_f64.powf(-ald)),
            f_awt: defined(self.size / waiting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures(sizes: &[u64], hits: &[u64]) -> PartMeasures {
        assert_eq!(sizes.len(), hits.len());
        let mut dispersion = PartDispersion::new(PartTotals {
            parts: sizes.len() as u64,
            size: sizes.iter().sum(),
            smallest: sizes.iter().copied().min().unwrap_or(0),
            hits: hits.iter().sum(),
        });
        for (size, hits) in sizes.iter().zip(hits) {
            dispersion.add(*size, *hits);
        }
        dispersion.finish()
    }

    /// Of parts of equal size.
    fn equal(hits: &[u64]) -> PartMeasures {
        measures(&vec![10; hits.len()], hits)
    }

    fn assert_near(found: Option<f64>, expected: f64, within: f64) {
        let found = found.expect("defined");
        assert!(
            (found - expected).abs() <= within,
            "{found}, not {expected}"
        );
    }

    #[test]
    fn what_is_visited_apart_and_joined_is_as_what_is_visited_together() {
        let (sizes, hits) = ([7, 10, 3, 25, 4, 1], [2, 0, 3, 5, 1, 1]);
        let totals = PartTotals {
            parts: 6,
            size: 50,
            smallest: 1,
            hits: 12,
        };
        let places = [0, 3, 4, 17, 18, 19, 21, 30, 31, 40, 44, 49];
        let by_parts = measures(&sizes, &hits);
        let mut by_places = PositionDispersion::new(50, 12);
        places.iter().for_each(|&place| by_places.add(place));
        let by_places = by_places.finish();
        for cut in 0..=6 {
            let mut halves = [PartDispersion::new(totals), PartDispersion::new(totals)];
            for (part, (&size, &hits)) in sizes.iter().zip(&hits).enumerate() {
                halves[usize::from(part >= cut)].add(size, hits);
            }
            let [mut first, second] = halves;
            first.join(&second);
            let joined = first.finish();
            assert_eq!((joined.range, joined.hits), (by_parts.range, by_parts.hits));
            let values = |found: &PartMeasures| {
                let PartMeasures {
                    dp,
                    dp_norm,
                    juilland_d,
                    ..
                } = *found;
                let PartMeasures {
                    carroll_d2,
                    rosengren_s,
                    kl_divergence,
                    ..
                } = *found;
                [
                    dp,
                    dp_norm,
                    juilland_d,
                    carroll_d2,
                    rosengren_s,
                    kl_divergence,
                ]
            };
            for (found, expected) in values(&joined).into_iter().zip(values(&by_parts)) {
                assert_near(found, expected.expect("defined"), 1e-12);
            }
            let mut halves = [
                PositionDispersion::new(50, 12),
                PositionDispersion::new(50, 12),
            ];
            for (index, &place) in places.iter().enumerate() {
                halves[usize::from(index >= 2 * cut)].add(place);
            }
            let [mut first, second] = halves;
            first.join(second);
            let joined = first.finish();
            assert_near(joined.arf, by_places.arf.expect("defined"), 1e-12);
            assert_near(joined.ald, by_places.ald.expect("defined"), 1e-12);
            assert_near(joined.awt, by_places.awt.expect("defined"), 1e-12);
        }
    }

    /// Values of the paper that is named, to the digits that it prints; collected by Wordless in `tests/tests_measures`.
    #[test]
    fn values_are_those_of_the_papers() {
        // Carroll 1970, pp. 13 and 14.
        assert_near(equal(&[2, 1, 1, 1, 0]).carroll_d2, 0.8277, 0.000_05);
        assert_near(equal(&[0, 4, 3, 2, 1]).juilland_d, 0.6464, 0.000_05);
        assert_near(equal(&[2, 1, 1, 1, 0]).carroll_um(), 4.31, 0.005);
        assert_near(equal(&[0, 4, 3, 2, 1]).juilland_u(), 6.46, 0.005);
        // Gries 2008, pp. 407 to 416, and Lijffijt and Gries 2012, p. 148.
        assert_near(equal(&[1, 2, 3, 4, 5]).rosengren_s, 0.937, 0.0005);
        assert_near(equal(&[3, 3, 3]).dp, 0.0, 1e-15);
        assert_near(equal(&[2, 1, 0]).dp_norm, 0.5, 1e-15);
        assert_near(equal(&[1, 2, 3, 4, 5]).carroll_um(), 14.108, 0.0005);
        assert_near(equal(&[1, 2, 3, 4, 5]).rosengren_kf(), 14.053, 0.0005);
        assert_near(equal(&[1, 2, 3, 4, 5]).engwall_fm(), 15.0, 0.0);
        // Engwall 1974, p. 122.
        assert_near(equal(&[4, 2, 1, 1, 0]).carroll_um(), 6.424, 0.0005);
        assert_near(equal(&[4, 2, 1, 1, 0]).juilland_u(), 4.609, 0.0005);
        assert_near(equal(&[4, 2, 1, 1, 0]).rosengren_kf(), 5.863, 0.0005);
        assert_near(equal(&[4, 2, 1, 1, 0]).engwall_fm(), 6.4, 1e-15);
        // Rosengren 1971, pp. 115 and 117.
        assert_near(equal(&[2, 2, 2, 2, 2]).juilland_u(), 10.0, 1e-14);
        assert_near(equal(&[2, 2, 2, 2, 1]).rosengren_kf(), 8.86, 0.005);
    }

    /// The lemma ALLEMAND in ten parts (Lyne 1985, pp. 85 and 299), and its measures in the README of the R package tlda. It
    /// prints `1 - DP` and `1 / (1 + KLD)`.
    #[test]
    fn values_of_parts_of_different_sizes_are_those_of_tlda() {
        let sizes = [
            8143, 8058, 8271, 8125, 7959, 7941, 8146, 8001, 8003, 7930_u64,
        ];
        let found = measures(&sizes, &[2, 0, 1, 1, 3, 0, 3, 0, 0, 0]);
        assert_eq!((found.range, found.parts), (5, 10));
        assert_near(found.juilland_d, 0.603_879_7, 5e-8);
        assert_near(found.carroll_d2, 0.652_144_4, 5e-8);
        assert_near(found.rosengren_s, 0.476_365_2, 5e-8);
        assert_near(found.dp.map(|dp| 1.0 - dp), 0.500_929_5, 5e-8);
        let divergence = found.kl_divergence.expect("defined");
        assert_near(Some(1.0 / (1.0 + divergence)), 0.466_507_8, 5e-8);
    }

    /// The text of Gries 2008, pp. 406 and 410, and its values for "a", as in Wordless' tests.
    #[test]
    fn values_by_position_are_those_of_gries() {
        let text = "b a m n i b e u p k b a s a t b e w q n b c a g a b e s t a b a g h a b e a a t b a h a a b e a x a";
        let places: Vec<u64> = (0..)
            .zip(text.split(' '))
            .filter(|(_, word)| *word == "a")
            .map(|(position, _)| position)
            .collect();
        let mut dispersion = PositionDispersion::new(50, places.len() as u64);
        for position in places {
            dispersion.add(position);
        }
        let found = dispersion.finish();
        assert_near(found.arf, 10.8, 0.05);
        assert_near(found.ald, 0.628, 0.0005);
        assert_near(found.awt, 3.18, 1e-15);
        assert_near(found.f_ald, 11.764, 0.0005);
        assert_near(found.f_awt, 9.328, 0.0005);
    }

    #[test]
    fn even_and_clustered_positions_are_the_ends_of_arf() {
        let arf = |positions: &mut dyn Iterator<Item = u64>, hits| {
            let mut dispersion = PositionDispersion::new(1000, hits);
            positions.for_each(|position| dispersion.add(position));
            dispersion.finish().arf
        };
        assert_near(arf(&mut (0..1000).step_by(10), 100), 100.0, 1e-12);
        assert_near(arf(&mut (0..100), 100), 99.0 * 100.0 / 1000.0 + 1.0, 1e-12);
        assert_near(arf(&mut std::iter::once(777), 1), 1.0, 1e-15);
    }

    #[test]
    fn without_hits_nothing_is_defined() {
        let found = equal(&[0, 0, 0, 0]);
        assert_eq!(found.range, 0);
        for value in [
            found.dp,
            found.dp_norm,
            found.juilland_d,
            found.carroll_d2,
            found.rosengren_s,
            found.kl_divergence,
            found.juilland_u(),
        ] {
            assert_eq!(value, None);
        }
        for dispersion in [
            PositionDispersion::new(50, 0),
            PositionDispersion::new(0, 0),
        ] {
            let found = dispersion.finish();
            assert_eq!((found.arf, found.ald, found.awt), (None, None, None));
        }
    }

    #[test]
    fn one_part_has_no_evenness() {
        let found = equal(&[7]);
        assert_near(found.dp, 0.0, 0.0);
        assert_near(found.rosengren_s, 1.0, 1e-15);
        assert_near(found.kl_divergence, 0.0, 0.0);
        assert_eq!(
            (found.dp_norm, found.juilland_d, found.carroll_d2),
            (None, None, None)
        );
    }

    #[test]
    fn hits_in_one_of_many_parts_are_least_even() {
        let found = equal(&[0, 0, 9, 0]);
        assert_near(found.dp, 0.75, 1e-15);
        assert_near(found.dp_norm, 1.0, 1e-15);
        assert_near(found.juilland_d, 0.0, 1e-15);
        assert_near(found.carroll_d2, 0.0, 0.0);
        assert_near(found.rosengren_s, 0.25, 1e-15);
        assert_near(found.kl_divergence, 2.0, 1e-15);
    }

    proptest::proptest! {
        #[test]
        fn one_pass_over_parts_with_hits_equals_the_definitions(
            parts in proptest::collection::vec((1_u64..1000, proptest::option::of(0_u64..50)), 2..40),
        ) {
            let sizes: Vec<u64> = parts.iter().map(|part| part.0).collect();
            let hits: Vec<u64> = parts.iter().map(|part| part.1.unwrap_or(0)).collect();
            let found = measures(&sizes, &hits);
            let size = sizes.iter().sum::<u64>() as f64;
            let total = hits.iter().sum::<u64>() as f64;
            if total > 0.0 {
                let k = sizes.len() as f64;
                let shares: Vec<f64> = sizes.iter().map(|size_of| *size_of as f64 / size).collect();
                let of_hits: Vec<f64> = hits.iter().map(|hits| *hits as f64 / total).collect();
                let pairs = || shares.iter().zip(&of_hits);
                let rates: Vec<f64> = sizes.iter().zip(&hits).map(|(n, v)| *v as f64 / *n as f64).collect();
                let mean = rates.iter().sum::<f64>() / k;
                let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / k;
                let entropy: f64 = rates
                    .iter()
                    .filter(|rate| **rate > 0.0)
                    .map(|rate| rate / (mean * k))
                    .map(|share| -share * share.log2())
                    .sum();
                let dp = 0.5 * pairs().map(|(s, h)| (h - s).abs()).sum::<f64>();
                let least = shares.iter().copied().fold(1.0, f64::min);
                assert_near(found.dp, dp, 1e-12);
                assert_near(found.dp_norm, dp / (1.0 - least), 1e-12);
                assert_near(found.juilland_d, (1.0 - variance.sqrt() / mean / (k - 1.0).sqrt()).max(0.0), 1e-7);
                assert_near(found.carroll_d2, entropy / k.log2(), 1e-12);
                assert_near(found.rosengren_s, pairs().map(|(s, h)| (s * h).sqrt()).sum::<f64>().powi(2), 1e-12);
                let divergence: f64 = pairs().filter(|(_, h)| **h > 0.0).map(|(s, h)| h * (h / s).log2()).sum();
                assert_near(found.kl_divergence, divergence, 1e-12);
            }
        }
    }
}
