//! BM25: scores of files for words, and bounds of the scores of many files.
//!
//! The formula is that of tantivy and, but for a constant factor `k1 + 1`, of Lucene 8 and later. Both of them round the length of
//! a file to one of 256 values; here lengths are exact, so scores differ a little where files have more than 40 words. Invariant: in
//! floating point too, a score never falls when the count of the word rises or the length of the file falls, so the score of the
//! largest count and the smallest length of some files bounds the scores of all of them.

use crate::measures::names::MeasureError;

/// The parameters of BM25.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bm25 {
    k1: f64,
    b: f64,
}

/// What a collection of files has in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CollectionSize {
    /// Files, with those that have no word.
    pub files: u64,
    /// Words of all files.
    pub words: u64,
}

/// The scores of one word in one collection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bm25Word {
    /// The score that a file approaches with ever more occurrences.
    limit: f64,
    /// What weighs against the count in a file of no words, and what each word of the file adds to it.
    base: f64,
    slope: f64,
}

impl Default for Bm25 {
    /// `k1 = 1.2` and `b = 0.75`, as Lucene and tantivy.
    fn default() -> Bm25 {
        Bm25 { k1: 1.2, b: 0.75 }
    }
}

impl Bm25 {
    /// The parameters `k1`, how much the second and further occurrences add, and `b`, how much long files are held against.
    ///
    /// # Errors
    ///
    /// A `k1` below zero or above 1000, a `b` outside of 0 to 1.
    pub fn new(k1: f64, b: f64) -> Result<Bm25, MeasureError> {
        let out_of_range = |what, value: f64, range| {
            Err(MeasureError::OutOfRange {
                what,
                value: value.to_string(),
                range,
            })
        };
        if !(0.0..=1000.0).contains(&k1) {
            return out_of_range("`k1`", k1, "between 0 and 1000");
        }
        if !(0.0..=1.0).contains(&b) {
            return out_of_range("`b`", b, "between 0 and 1");
        }
        Ok(Bm25 { k1, b })
    }

    /// The scores of a word that stands in `files_with_word` files of the collection, times `boost`,
    /// which is not negative.
    pub fn word(self, collection: CollectionSize, files_with_word: u64, boost: f64) -> Bm25Word {
        let CollectionSize { files, words } = collection;
        let rarity = inverse_file_frequency(files, files_with_word);
        let words_per_file = words as f64 / files as f64;
        let slope = if words_per_file > 0.0 {
            self.k1 * self.b / words_per_file
        } else {
            0.0
        };
        Bm25Word {
            limit: boost * rarity * (1.0 + self.k1),
            base: self.k1 * (1.0 - self.b),
            slope,
        }
    }
}

/// `ln(1 + (N - n + 1/2) / (n + 1/2))` for a word that stands in `n` of `N` files; always above zero.
pub fn inverse_file_frequency(files: u64, files_with_word: u64) -> f64 {
    let with = files_with_word as f64 + 0.5;
    let without = files.saturating_sub(files_with_word) as f64 + 0.5;
    (without / with).ln_1p()
}

impl Bm25Word {
    /// The score of a file of `length` words with `count` occurrences of the word.
    pub fn score(self, count: u64, length: u64) -> f64 {
        if count == 0 {
            return 0.0;
        }
        let norm = self.base + self.slope * length as f64;
        // Each operation is monotone after rounding too, which `count / (count + norm)` is not.
        self.limit / (1.0 + norm / count as f64)
    }

    /// A bound of the scores of files that have at most `count_max` occurrences of the word and at least `length_min` words.
    pub fn bound(self, count_max: u64, length_min: u64) -> f64 {
        self.score(count_max, length_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collection(files: u64, words: u64) -> CollectionSize {
        CollectionSize { files, words }
    }

    fn assert_near(found: f64, expected: f64, within: f64) {
        assert!(
            (found - expected).abs() <= within,
            "{found}, not {expected}"
        );
    }

    /// tantivy, `src/query/bm25.rs`, `test_idf`.
    #[test]
    fn rarity_is_that_of_tantivy() {
        assert_near(inverse_file_frequency(2, 1), std::f64::consts::LN_2, 5e-8);
    }

    /// An explanation by Elasticsearch 6: one of five files, of 4 words where the average is 5.4, in 32 bits.
    #[test]
    fn scores_are_those_of_elasticsearch() {
        assert_near(inverse_file_frequency(5, 1), 1.386_294_4, 5e-8);
        let word = Bm25::default().word(collection(5, 27), 1, 1.0);
        assert_near(word.score(1, 4), 1.550_77, 5e-6);
    }

    /// Explanations by Lucene 9 in the tests of searcharray (`test_similarity.py`), which leave out `k1 + 1`. Lengths up to 40 are
    /// exact there too, and so is 44.
    #[test]
    fn scores_are_those_of_lucene() {
        for (count, files_with_word, length, average, files, expected) in [
            (2, 14, 4, 2.732_268_6, 8_516, 3.524_82),
            (1, 5, 35, 50.580_456, 8_514, 3.819_924_6),
            (2, 7, 44, 50.580_456, 8_514, 4.563_661_6),
        ] {
            let words = (average * files as f64).round() as u64;
            let word = Bm25::default().word(collection(files, words), files_with_word, 1.0 / 2.2);
            assert_near(word.score(count, length), expected, 2e-6);
        }
    }

    #[test]
    fn edges_are_finite() {
        for (files, words) in [(0, 0), (1, 0), (u64::MAX, u64::MAX)] {
            for parameters in [Bm25::default(), Bm25 { k1: 0.0, b: 1.0 }] {
                let word = parameters.word(collection(files, words), files, 1.0);
                for count in [0, 1, u64::MAX] {
                    for length in [0, 1, u64::MAX] {
                        let score = word.score(count, length);
                        assert!(score.is_finite() && score >= 0.0, "{score}");
                        assert_eq!(score == 0.0, count == 0);
                    }
                }
            }
        }
    }

    #[test]
    fn parameters_have_ranges() {
        assert_eq!(Bm25::new(1.2, 0.75), Ok(Bm25::default()));
        for (k1, b, message) in [
            (-1.0, 0.5, "`k1` is -1; hint: it must be between 0 and 1000"),
            (
                f64::NAN,
                0.5,
                "`k1` is NaN; hint: it must be between 0 and 1000",
            ),
            (1.0, 1.5, "`b` is 1.5; hint: it must be between 0 and 1"),
        ] {
            let error = Bm25::new(k1, b).expect_err(message);
            assert_eq!(error.to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn no_score_is_above_its_bound(
            k1 in 0.0..3.0_f64,
            b in 0.0..=1.0_f64,
            average in 1_u64..500,
            with in 1_u64..1000,
            files in proptest::collection::vec((1_u64..200, 1_u64..1000), 1..64),
        ) {
            let word = Bm25 { k1, b }.word(collection(1000, 1000 * average), with, 1.0);
            let count_max = files.iter().map(|file| file.0).max().unwrap_or(0);
            let length_min = files.iter().map(|file| file.1).min().unwrap_or(0);
            let bound = word.bound(count_max, length_min);
            for (count, length) in files {
                prop_assert!(word.score(count, length) <= bound);
            }
        }

        #[test]
        fn scores_rise_with_counts_and_fall_with_lengths(
            k1 in 0.0..3.0_f64,
            b in 0.0..=1.0_f64,
            words in 1_u64..1_000_000,
            count in 1_u64..1_000_000,
            length in 1_u64..1_000_000,
        ) {
            let word = Bm25 { k1, b }.word(collection(1000, words), 17, 1.0);
            prop_assert!(word.score(count, length) <= word.score(count + 1, length));
            prop_assert!(word.score(count, length + 1) <= word.score(count, length));
        }
    }
}
