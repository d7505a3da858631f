//! Keyness: how far the frequency of a word in a corpus differs from that in a reference, as functions of four counts.
//!
//! With `a` occurrences in `c` words of the target and `b` in `d` words of the reference. Invariant: a measure is a finite number
//! or none, and none wherever its formula divides by zero. G2 and chi2 are negative for a word that is rarer in the target.

use std::fmt;
use std::str::FromStr;

use crate::measures::association::{half_for_zero, ratio};
use crate::measures::deviance::deviance;
use crate::measures::names::{MeasureError, distinct, find, find_all, first_name};

/// The counts of a word in two corpora. A word occurs at most as often as a corpus has words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeynessCounts {
    /// Occurrences in the target.
    pub target: u64,
    /// Words of the target.
    pub target_size: u64,
    /// Occurrences in the reference.
    pub reference: u64,
    /// Words of the reference.
    pub reference_size: u64,
}

/// A measure of keyness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeynessMeasure {
    /// `(p1 + n) / (p2 + n)` of the frequencies per million. Kilgarriff 2009.
    SimpleMaths,
    /// `2 (a ln(a / E1) + b ln(b / E2))` with the sign of the difference; `E1 = c (a + b) / (c + d)`. Rayson and Garside 2000.
    G2,
    /// Pearson's statistic of the four cells with Yates' correction, with the sign of the difference.
    ChiSquared,
    /// `100 (p1 - p2) / (p1 + p2)`, from -100 to 100. Hofland and Johansson 1982.
    Din,
    /// `100 (p1 - p2) / p2`. Gabrielatos and Marchi 2011.
    PercentDifference,
    /// `log2(p1 / p2)` with 0.5 for a count of zero. Hardie 2014.
    LogRatio,
    /// `abs(G2) - ln(c + d)`. Wilson 2013.
    Bic,
    /// `(a / (c - a)) / (b / (d - b))`. Pojanapunya and Todd 2016.
    OddsRatio,
}

use KeynessMeasure::*;

/// Every name of every measure; the first of a measure's names is the one it is shown by.
const NAMES: &[(&str, KeynessMeasure)] = &[
    ("simple_maths", SimpleMaths),
    ("g2", G2),
    ("ll", G2),
    ("log_likelihood", G2),
    ("chi2", ChiSquared),
    ("din", Din),
    ("percent_diff", PercentDifference),
    ("log_ratio", LogRatio),
    ("bic", Bic),
    ("odds_ratio", OddsRatio),
];

const KIND: &str = "measure of keyness";

/// What simple maths adds to both frequencies per million, unless another number is given.
pub const SIMPLE_MATHS_SMOOTHING: f64 = 1.0;

impl KeynessMeasure {
    /// Every measure, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = KeynessMeasure> {
        distinct(NAMES)
    }

    /// The name of the measure, and of its column.
    pub fn name(self) -> &'static str {
        first_name(NAMES, self)
    }

    /// The measures of a list of names such as `g2,log_ratio`, in its order.
    ///
    /// # Errors
    ///
    /// A name that is not known, or a measure that stands twice.
    pub fn parse_list(text: &str) -> Result<Vec<KeynessMeasure>, MeasureError> {
        find_all(KIND, text, NAMES)
    }

    /// The value for these counts, or none where it is not defined. `smoothing` is the `n` of simple maths, which prefers frequent
    /// words the larger it is; the other measures do not use it.
    pub fn value(self, counts: &KeynessCounts, smoothing: f64) -> Option<f64> {
        let cells = Cells::new(counts)?;
        let [target, reference] = cells.rates();
        let value = match self {
            SimpleMaths => ratio(1e6 * target + smoothing, 1e6 * reference + smoothing)?,
            G2 => cells.signed(cells.g2()),
            ChiSquared => cells.signed(cells.chi_squared()?),
            Din => 100.0 * ratio(target - reference, target + reference)?,
            PercentDifference => 100.0 * ratio(target - reference, reference)?,
            LogRatio => cells.log_ratio(),
            Bic => cells.g2() - (cells.sizes[0] + cells.sizes[1]).ln(),
            OddsRatio => cells.odds_ratio()?,
        };
        value.is_finite().then_some(value)
    }
}

impl FromStr for KeynessMeasure {
    type Err = MeasureError;

    fn from_str(name: &str) -> Result<KeynessMeasure, MeasureError> {
        find(KIND, name, NAMES)
    }
}

impl fmt::Display for KeynessMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The probability of a value at least this large, of a variable with chi-squared distribution and one degree of freedom.
///
/// The p value of G2 and chi2; their sign does not matter. Exact to 13 digits or more down to 10^-308, below that 0.
pub fn chi_squared_p(statistic: f64) -> f64 {
    libm::erfc((statistic.abs() / 2.0).sqrt())
}

/// Bonferroni's correction of the p value of one of `tests` tests, for example one for each word of the vocabulary.
pub fn bonferroni(p: f64, tests: u64) -> f64 {
    (p * tests as f64).min(1.0)
}

/// The counts as numbers; sizes above zero and counts not above them.
struct Cells {
    counts: [f64; 2],
    sizes: [f64; 2],
    /// Words that are not the word.
    others: [f64; 2],
}

impl Cells {
    fn new(counts: &KeynessCounts) -> Option<Cells> {
        let KeynessCounts {
            target,
            target_size,
            reference,
            reference_size,
        } = *counts;
        let others = [
            target_size.checked_sub(target)?,
            reference_size.checked_sub(reference)?,
        ];
        let as_numbers = |pair: [u64; 2]| pair.map(|count| count as f64);
        (target_size > 0 && reference_size > 0).then(|| Cells {
            counts: as_numbers([target, reference]),
            sizes: as_numbers([target_size, reference_size]),
            others: as_numbers(others),
        })
    }

    /// The share of the word in each corpus.
    fn rates(&self) -> [f64; 2] {
        [
            self.counts[0] / self.sizes[0],
            self.counts[1] / self.sizes[1],
        ]
    }

    /// Minus the statistic for a word that is rarer in the target.
    fn signed(&self, statistic: f64) -> f64 {
        let [target, reference] = self.rates();
        if target < reference {
            -statistic
        } else {
            statistic
        }
    }

    /// What is expected in the target and the reference of `total` items.
    fn expected(&self, total: f64) -> [f64; 2] {
        let size = self.sizes[0] + self.sizes[1];
        self.sizes.map(|part| part * (total / size))
    }

    /// What is observed in the target beyond what is expected there, which is what is missing in the reference.
    fn difference(&self) -> f64 {
        let [a, b] = self.counts;
        let [c, d] = self.sizes;
        (a * d - b * c) / (c + d)
    }

    fn g2(&self) -> f64 {
        let expected = self.expected(self.counts[0] + self.counts[1]);
        let difference = self.difference();
        2.0 * (deviance(self.counts[0], expected[0], difference)
            + deviance(self.counts[1], expected[1], -difference))
    }

    /// Each cell differs from what is expected by the same amount, from which the correction takes a half, but no more than all.
    fn chi_squared(&self) -> Option<f64> {
        let corrected = (self.difference().abs() - 0.5).max(0.0);
        let with = self.expected(self.counts[0] + self.counts[1]);
        let without = self.expected(self.others[0] + self.others[1]);
        let mut sum = 0.0;
        for expected in with.into_iter().chain(without) {
            sum += ratio(corrected * corrected, expected)?;
        }
        Some(sum)
    }

    fn log_ratio(&self) -> f64 {
        let [target, reference] = [0, 1].map(|i| half_for_zero(self.counts[i]) / self.sizes[i]);
        (target / reference).log2()
    }

    fn odds_ratio(&self) -> Option<f64> {
        ratio(
            self.counts[0] * self.others[1],
            self.others[0] * self.counts[1],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(target: u64, target_size: u64, reference: u64, reference_size: u64) -> KeynessCounts {
        KeynessCounts {
            target,
            target_size,
            reference,
            reference_size,
        }
    }

    fn value(measure: KeynessMeasure, counts: &KeynessCounts) -> Option<f64> {
        measure.value(counts, SIMPLE_MATHS_SMOOTHING)
    }

    fn assert_value(measure: KeynessMeasure, counts: &KeynessCounts, expected: f64, within: f64) {
        let found = value(measure, counts).expect("defined");
        assert!(
            (found - expected).abs() <= within,
            "{measure} of {counts:?}: {found}, not {expected}"
        );
    }

    /// Value of the paper that is named, to the digits that it prints; collected by Wordless in `tests/tests_measures`.
    #[test]
    fn values_are_those_of_the_papers() {
        // Kilgarriff 2009.
        let simple = counts(35, 35 + 112_289_776, 263, 263 + 1_559_716_979);
        assert_value(SimpleMaths, &simple, 1.1224, 0.000_05);
        // Hofland and Johansson 1982, p. 471, without the factor of 100.
        assert_value(Din, &counts(18, 1_000_000, 35, 1_000_000), -32.0, 0.5);
        // Gabrielatos and Marchi 2011, slide 18.
        let percent = counts(206_523, 959_641, 178_174, 1_562_358);
        assert_value(PercentDifference, &percent, 88.7, 0.05);
        // Pojanapunya and Todd 2016, p. 154.
        let odds = counts(16_217, 2_796_938, 735, 2_087_946);
        assert_value(OddsRatio, &odds, 16.6, 0.05);
        // Hardie 2014.
        assert_value(
            LogRatio,
            &counts(1, 1_000_000, 1, 1_000_000),
            0.0,
            f64::EPSILON,
        );
        // Pedersen 1996, p. 10, with Yates' correction; p = 0.48.
        let tea = counts(1, 4, 3, 4);
        assert_value(ChiSquared, &tea, -0.5, 1e-15);
        assert!((chi_squared_p(-0.5) - 0.48).abs() < 0.005);
        // The example of Lancaster's log-likelihood calculator, to the digits that it shows.
        assert_value(G2, &counts(52, 50_000, 57, 75_000), 2.65, 0.005);
    }

    /// quanteda.textstats, `tests/testthat/test-textstat_keyness.R`: its documents d1 and d2, `chisq.test` with correction and the
    /// two-cell form of its G2 by mpmath 1.3.
    #[test]
    fn values_are_those_of_r() {
        let b = counts(7, 10, 2, 9);
        assert_value(ChiSquared, &b, 2.632_438_271_604_938, 1e-14);
        assert_value(G2, &b, 2.440_100_430_696_63, 1e-14);
        // A difference of less than a half counts as none, as in R and SciPy; the plain formula would give 0.1851.
        assert_value(ChiSquared, &counts(3, 17, 2, 12), 0.0, 0.0);
    }

    #[test]
    fn g2_and_chi2_have_the_sign_of_the_difference() {
        for measure in [G2, ChiSquared] {
            let more = value(measure, &counts(9, 33, 3, 36)).expect("defined");
            assert!(more > 0.0, "{measure}");
            assert_value(measure, &counts(3, 36, 9, 33), -more, 1e-14);
            assert_value(measure, &counts(3, 33, 3, 33), 0.0, 0.0);
        }
    }

    #[test]
    fn bic_subtracts_the_logarithm_of_all_words() {
        let table = counts(206_523, 959_641, 178_174, 1_562_358);
        let g2 = value(G2, &table).expect("defined");
        assert_value(Bic, &table, g2 - 2_521_999_f64.ln(), 1e-9);
        assert_value(Bic, &counts(0, 50, 0, 50), -(100_f64.ln()), 1e-15);
    }

    #[test]
    fn g2_keeps_its_digits_in_large_corpora() {
        // By mpmath 1.3 with 50 digits.
        let table = counts(1_000_000_100, 20_000_000_000, 1_000_000_000, 20_000_000_000);
        assert_value(G2, &table, 4.999_999_750_000_015e-6, 1e-16);
    }

    #[test]
    fn log_ratio_takes_a_half_for_zero() {
        assert_value(LogRatio, &counts(0, 100, 8, 100), -4.0, 1e-15);
        assert_value(LogRatio, &counts(8, 100, 0, 100), 4.0, 1e-15);
        assert_value(LogRatio, &counts(0, 100, 0, 100), 0.0, 1e-15);
    }

    #[test]
    fn what_divides_by_zero_has_no_value() {
        let none = counts(0, 100, 0, 100);
        let new = counts(5, 100, 0, 100);
        for (measure, of_none, of_new) in [
            (SimpleMaths, Some(1.0), Some(50_001.0)),
            (ChiSquared, None, value(ChiSquared, &new)),
            (Din, None, Some(100.0)),
            (PercentDifference, None, None),
            (OddsRatio, None, None),
        ] {
            assert_eq!(value(measure, &none), of_none, "{measure}");
            assert_eq!(value(measure, &new), of_new, "{measure}");
        }
        assert_eq!(SimpleMaths.value(&none, 0.0), None);
        assert_eq!(value(G2, &none), Some(0.0));
        for empty in [
            counts(0, 0, 1, 10),
            counts(1, 10, 0, 0),
            counts(11, 10, 0, 10),
        ] {
            for measure in KeynessMeasure::all() {
                assert_eq!(value(measure, &empty), None, "{measure}");
            }
        }
    }

    #[test]
    fn extreme_counts_give_finite_values_or_none() {
        let numbers = [0, 1, 1 << 40, u64::MAX];
        for target in numbers {
            for target_size in numbers {
                for reference in numbers {
                    for reference_size in numbers {
                        let table = counts(target, target_size, reference, reference_size);
                        for measure in KeynessMeasure::all() {
                            assert!(value(measure, &table).is_none_or(f64::is_finite));
                        }
                    }
                }
            }
        }
    }

    /// By mpmath 1.3 with 50 digits; the second and third are the 5 % and 0.1 % points of every table of the distribution.
    #[test]
    fn p_values_are_exact_far_out() {
        for (statistic, p) in [
            (0.0, 1.0),
            (0.01, 0.920_344_325_445_942),
            (1.0, 0.317_310_507_862_914_1),
            (3.841_458_820_694_124, 0.05),
            (10.827_566_170_662_733, 0.001),
            (100.0, 1.523_970_604_832_105e-23),
            (1000.0, 1.795_832_784_800_726_2e-219),
        ] {
            let found = chi_squared_p(statistic);
            assert!((found - p).abs() <= 1e-13 * p, "{statistic}: {found}");
        }
        assert_eq!(chi_squared_p(1e6), 0.0);
    }

    #[test]
    fn bonferroni_is_at_most_one() {
        assert_eq!(bonferroni(0.25, 2), 0.5);
        assert_eq!(bonferroni(0.01, 1_000_000), 1.0);
    }

    #[test]
    fn names_are_read_and_shown() {
        for measure in KeynessMeasure::all() {
            assert_eq!(measure.name().parse(), Ok(measure));
        }
        assert_eq!(KeynessMeasure::parse_list("ll,din"), Ok(vec![G2, Din]));
        let error = "logratio".parse::<KeynessMeasure>().expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "no such measure of keyness `logratio`; hint: did you mean `log_ratio`? known are simple_maths, g2, ll, \
             log_likelihood, chi2, din, percent_diff, log_ratio, bic, odds_ratio"
        );
    }
}
