//! Measures of the vocabulary: richness, concentration, growth, and the laws of Zipf and Heaps.
//!
//! With `N` words, `V` of them different, and `V_i` different words that occur `i` times. Invariant: a measure is a finite number or
//! none; sums of counts are exact.

use std::collections::BTreeMap;

/// How many words occur how often: `V_i` for each `i`.
///
/// Takes memory for each different count, not for each word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrequencySpectrum {
    words_by_count: BTreeMap<u64, u64>,
}

impl FrequencySpectrum {
    /// The spectrum of the counts of all words. Counts of zero are not counted.
    pub fn from_counts(counts: impl IntoIterator<Item = u64>) -> FrequencySpectrum {
        let mut spectrum = FrequencySpectrum::default();
        for count in counts {
            spectrum.add(count, 1);
        }
        spectrum
    }

    /// Adds `words` different words that occur `count` times each.
    pub fn add(&mut self, count: u64, words: u64) {
        if count > 0 && words > 0 {
            *self.words_by_count.entry(count).or_default() += words;
        }
    }

    /// Pairs of a count and the number of words that have it, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.words_by_count
            .iter()
            .map(|(count, words)| (*count, *words))
    }

    /// Words, `N`.
    pub fn tokens(&self) -> u128 {
        self.sum(u128::from)
    }

    /// Different words, `V`.
    pub fn types(&self) -> u128 {
        self.sum(|_| 1)
    }

    /// Words that occur this often: hapax legomena for 1, dis legomena for 2.
    pub fn words_that_occur(&self, count: u64) -> u64 {
        self.words_by_count.get(&count).copied().unwrap_or(0)
    }

    /// `V / N`, from nearly 0 to 1. It falls with the size of the text.
    pub fn type_token_ratio(&self) -> Option<f64> {
        self.per_token(self.types() as f64)
    }

    /// Shannon's entropy of a word in bits, from 0 to `log2 V`.
    pub fn entropy(&self) -> Option<f64> {
        let tokens = self.tokens() as f64;
        let information: f64 = self
            .iter()
            .map(|(count, words)| words as f64 * count as f64 * (tokens / count as f64).log2())
            .sum();
        self.per_token(information)
    }

    /// Yule's characteristic K, `10^4 (sum i^2 V_i - N) / N^2`. Nearly independent of the size of the text; small for a rich
    /// vocabulary. Yule 1944.
    pub fn yule_k(&self) -> Option<f64> {
        let tokens = self.tokens();
        let repeats = self.squares() - tokens;
        (tokens > 0).then(|| 1e4 * repeats as f64 / (tokens as f64 * tokens as f64))
    }

    /// Simpson's probability that two words of the text are the same, `sum i (i - 1) V_i / (N (N - 1))`, from 0 to 1.
    /// Simpson 1949.
    pub fn simpson(&self) -> Option<f64> {
        let tokens = self.tokens();
        let repeats = self.squares() - tokens;
        (tokens > 1).then(|| repeats as f64 / (tokens as f64 * (tokens as f64 - 1.0)))
    }

    /// The line through the logarithms of ranks and counts: counts are about `factor * rank^exponent`, with an exponent near
    /// -1 by Zipf's law. Words of equal counts have successive ranks. Takes time in proportion to the different words.
    pub fn zipf(&self) -> Option<PowerLaw> {
        let counts = self
            .iter()
            .rev()
            .flat_map(|(count, words)| (0..words).map(move |_| count));
        PowerLaw::fit((1_u64..).zip(counts))
    }

    fn sum(&self, of_count: impl Fn(u64) -> u128) -> u128 {
        self.iter()
            .map(|(count, words)| of_count(count) * u128::from(words))
            .sum()
    }

    /// `sum i^2 V_i`, which is at most the square of 64 bits of tokens.
    fn squares(&self) -> u128 {
        self.sum(|count| u128::from(count) * u128::from(count))
    }

    fn per_token(&self, value: f64) -> Option<f64> {
        let tokens = self.tokens();
        (tokens > 0).then(|| value / tokens as f64)
    }
}

/// `y = factor * x^exponent`, fitted by least squares to the logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerLaw {
    /// The value at 1.
    pub factor: f64,
    /// The slope of the line of logarithms.
    pub exponent: f64,
    /// The share of the variance of `ln y` that the line explains; 1 if there is none.
    pub r_squared: f64,
}

impl PowerLaw {
    /// The law of these points. Points with a zero are left out; none for points of fewer than two different x.
    ///
    /// Means and squares are updated point by point, so large numbers of points lose no digits.
    pub fn fit(points: impl IntoIterator<Item = (u64, u64)>) -> Option<PowerLaw> {
        let mut n = 0.0;
        let (mut mean_x, mut mean_y) = (0.0, 0.0);
        let (mut squares_x, mut squares_y, mut products) = (0.0, 0.0, 0.0);
        for (x, y) in points {
            if x == 0 || y == 0 {
                continue;
            }
            let (x, y) = ((x as f64).ln(), (y as f64).ln());
            n += 1.0;
            let from_mean_x = x - mean_x;
            let from_mean_y = y - mean_y;
            mean_x += from_mean_x / n;
            mean_y += from_mean_y / n;
            squares_x += from_mean_x * (x - mean_x);
            squares_y += from_mean_y * (y - mean_y);
            products += from_mean_x * (y - mean_y);
        }
        if squares_x <= 0.0 {
            return None;
        }
        let exponent = products / squares_x;
        let r_squared = if squares_y > 0.0 {
            (exponent * products / squares_y).min(1.0)
        } else {
            1.0
        };
        Some(PowerLaw {
            factor: (mean_y - exponent * mean_x).exp(),
            exponent,
            r_squared,
        })
    }
}

/// The vocabulary after the first words of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GrowthPoint {
    /// Words read.
    pub tokens: u64,
    /// Different words among them.
    pub types: u64,
    /// Words that occurred once among them.
    pub hapaxes: u64,
}

/// The growth of the vocabulary over a text, at every `step` words and at its end.
///
/// Takes memory for each point.
#[derive(Debug, Clone)]
pub struct VocabularyGrowth {
    step: u64,
    now: GrowthPoint,
    points: Vec<GrowthPoint>,
}

impl VocabularyGrowth {
    /// No word read; a point at every `step` words, and at every word for a step of zero.
    pub fn new(step: u64) -> VocabularyGrowth {
        VocabularyGrowth {
            step: step.max(1),
            now: GrowthPoint {
                tokens: 0,
                types: 0,
                hapaxes: 0,
            },
            points: Vec::new(),
        }
    }

    /// Reads the next word, which occurred `earlier` times before.
    pub fn add(&mut self, earlier: u64) {
        self.now.tokens += 1;
        match earlier {
            0 => {
                self.now.types += 1;
                self.now.hapaxes += 1;
            }
            1 => self.now.hapaxes -= 1,
            _ => {}
        }
        if self.now.tokens.is_multiple_of(self.step) {
            self.points.push(self.now);
        }
    }

    /// The points. The law of Heaps is `PowerLaw::fit` of their tokens and types: types are about `factor * tokens^exponent`.
    pub fn finish(mut self) -> Vec<GrowthPoint> {
        if !self.now.tokens.is_multiple_of(self.step) {
            self.points.push(self.now);
        }
        self.points
    }
}

/// The mean type/token ratio of successive segments of equal size, which does not depend on the size of the text (Johnson 1944).
///
/// Takes eight bytes for each word of the dictionary.
#[derive(Debug, Clone)]
pub struct StandardizedTypeRatio {
    segment: u64,
    /// The last segment that each word occurred in, from 1.
    last_segments: Vec<u64>,
    segments: u64,
    tokens: u64,
    types: u64,
    /// Different words of all full segments.
    types_of_segments: u128,
}

/// Words of a segment, as in WordSmith Tools.
pub const STANDARD_SEGMENT: u64 = 1000;

impl StandardizedTypeRatio {
    /// No word read, in segments of `segment` words, at least one.
    pub fn new(segment: u64) -> StandardizedTypeRatio {
        StandardizedTypeRatio {
            segment: segment.max(1),
            last_segments: Vec::new(),
            segments: 0,
            tokens: 0,
            types: 0,
            types_of_segments: 0,
        }
    }

    /// Reads the next word, by its number in a dictionary.
    pub fn add(&mut self, word: u32) {
        let index = word as usize;
        if index >= self.last_segments.len() {
            self.last_segments.resize(index + 1, 0);
        }
        let current = self.segments + 1;
        if self.last_segments[index] != current {
            self.last_segments[index] = current;
            self.types += 1;
        }
        self.tokens += 1;
        if self.tokens == self.segment {
            self.segments = current;
            self.types_of_segments += u128::from(self.types);
            self.tokens = 0;
            self.types = 0;
        }
    }

    /// The mean of all full segments; none if there is none. Words after the last full segment do not count.
    pub fn finish(self) -> Option<f64> {
        let words = self.segments as f64 * self.segment as f64;
        (self.segments > 0).then(|| self.types_of_segments as f64 / words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn assert_near(found: Option<f64>, expected: f64, within: f64) {
        let found = found.expect("defined");
        assert!(
            (found - expected).abs() <= within,
            "{found}, not {expected}"
        );
    }

    /// The text of 225 words of Popescu 2009, p. 26.
    fn popescu() -> FrequencySpectrum {
        let mut spectrum = FrequencySpectrum::default();
        for (count, words) in [
            (11, 1),
            (9, 2),
            (7, 1),
            (6, 2),
            (5, 2),
            (4, 7),
            (3, 6),
            (2, 18),
            (1, 85),
        ] {
            spectrum.add(count, words);
        }
        spectrum
    }

    /// Values of Popescu 2009, pp. 170 and 176, collected by Wordless in `tests/tests_measures`.
    #[test]
    fn entropy_is_that_of_popescu() {
        let spectrum = popescu();
        assert_eq!((spectrum.tokens(), spectrum.types()), (225, 124));
        assert_eq!(spectrum.words_that_occur(1), 85);
        assert_eq!(spectrum.words_that_occur(2), 18);
        assert_near(spectrum.entropy(), 6.5270, 0.000_05);
        // The repeat rate 0.0153 is the sum of the squared shares.
        let repeat_rate = spectrum.yule_k().expect("defined") / 1e4 + 1.0 / 225.0;
        assert_near(Some(repeat_rate), 0.0153, 0.000_05);
    }

    /// A sentence of five tokens twenty times, as in Wordless' tests.
    #[test]
    fn values_are_those_of_wordless() {
        let spectrum = FrequencySpectrum::from_counts([20; 5]);
        assert_near(spectrum.type_token_ratio(), 0.05, 0.0);
        assert_near(
            spectrum.yule_k(),
            10_000.0 * (5.0 * 400.0 - 100.0) / 10_000.0,
            1e-12,
        );
        assert_near(
            spectrum.simpson(),
            (5.0 * 400.0 - 100.0) / (100.0 * 99.0),
            1e-15,
        );
        let mut ratio = StandardizedTypeRatio::new(100);
        (0..101).for_each(|i| ratio.add(if i < 100 { i % 5 } else { 5 }));
        assert_near(ratio.finish(), 0.05, 0.0);
        let mut ratio = StandardizedTypeRatio::new(STANDARD_SEGMENT);
        (0..101).for_each(|i| ratio.add(i % 5));
        assert_eq!(ratio.finish(), None);
    }

    /// quanteda.textstats, `tests/testthat/test-textstat_lexdiv.R`.
    #[test]
    fn values_are_those_of_quanteda() {
        let fruit = [0, 1, 0, 1, 2, 2, 0, 1];
        for (segment, expected) in [
            (2, (1.0 + 1.0 + 0.5 + 1.0) / 4.0),
            (3, 2.0 / 3.0),
            (4, (0.5 + 0.75) / 2.0),
            (8, 3.0 / 8.0),
        ] {
            let mut ratio = StandardizedTypeRatio::new(segment);
            fruit.iter().for_each(|word| ratio.add(*word));
            assert_near(ratio.finish(), expected, 1e-15);
        }
        assert_near(
            FrequencySpectrum::from_counts([4, 4]).type_token_ratio(),
            0.25,
            0.0,
        );
    }

    #[test]
    fn the_empty_text_has_no_values() {
        let spectrum = FrequencySpectrum::from_counts([0, 0]);
        assert_eq!(spectrum, FrequencySpectrum::default());
        for value in [
            spectrum.type_token_ratio(),
            spectrum.entropy(),
            spectrum.yule_k(),
            spectrum.simpson(),
        ] {
            assert_eq!(value, None);
        }
        assert_eq!(spectrum.zipf(), None);
        assert_eq!(FrequencySpectrum::from_counts([1]).simpson(), None);
        assert!(VocabularyGrowth::new(10).finish().is_empty());
    }

    #[test]
    fn one_word_has_no_entropy() {
        let spectrum = FrequencySpectrum::from_counts([7]);
        assert_near(spectrum.entropy(), 0.0, 0.0);
        assert_near(spectrum.simpson(), 1.0, 0.0);
    }

    #[test]
    fn exact_laws_are_found() {
        let square = PowerLaw::fit((1..100).map(|x| (x, 3 * x * x))).expect("defined");
        assert_near(Some(square.factor), 3.0, 1e-12);
        assert_near(Some(square.exponent), 2.0, 1e-13);
        assert_near(Some(square.r_squared), 1.0, 1e-13);
        let zipf = FrequencySpectrum::from_counts((1..=12).map(|rank| 27_720 / rank)).zipf();
        let zipf = zipf.expect("defined");
        assert_near(Some(zipf.exponent), -1.0, 1e-13);
        assert_near(Some(zipf.factor), 27_720.0, 1e-7);
        let flat = PowerLaw::fit([(1, 5), (2, 5), (0, 9), (9, 0)]).expect("defined");
        assert_near(Some(flat.exponent), 0.0, 0.0);
        assert_near(Some(flat.r_squared), 1.0, 0.0);
        assert_eq!(PowerLaw::fit([(4, 1), (4, 2)]), None);
    }

    /// `lm(log(y) ~ log(x))`, by hand: x has logarithms 0, 1, 2 and y has 1, 3, 2 times ln 2.
    #[test]
    fn lines_are_least_squares() {
        let law = PowerLaw::fit([(1, 2), (2, 8), (4, 4)]).expect("defined");
        assert_near(Some(law.exponent), 0.5, 1e-14);
        assert_near(Some(law.factor.log2()), 1.5, 1e-14);
        assert_near(Some(law.r_squared), 0.25, 1e-14);
    }

    #[test]
    fn growth_is_that_of_a_recount() {
        let text: Vec<u64> = (0..500).map(|i: u64| (i * i) % 97).collect();
        let mut growth = VocabularyGrowth::new(64);
        let mut counts = HashMap::new();
        for word in &text {
            let count: &mut u64 = counts.entry(*word).or_default();
            growth.add(*count);
            *count += 1;
        }
        let points = growth.finish();
        assert_eq!(points.len(), 8);
        for point in points {
            let mut counts: HashMap<u64, u64> = HashMap::new();
            for word in &text[..point.tokens as usize] {
                *counts.entry(*word).or_default() += 1;
            }
            let spectrum = FrequencySpectrum::from_counts(counts.into_values());
            assert_eq!(spectrum.tokens(), u128::from(point.tokens));
            assert_eq!(spectrum.types(), u128::from(point.types));
            assert_eq!(spectrum.words_that_occur(1), point.hapaxes);
        }
    }
}
