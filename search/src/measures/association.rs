//! Measures of association between a node and a collocate, as functions of counts.
//!
//! With `O` for observed and `E` for expected counts, and `w` for the words of the window, the table of a pair is
//!
//! |  | collocate | other words | sum |
//! |---|---|---|---|
//! | in a window | `O11 = pairs` | `O12` | `R1 = w node` |
//! | elsewhere | `O21` | `O22` | `R2` |
//! | sum | `C1 = collocate` | `C2` | `N = size` |
//!
//! and `Eij = Ri Cj / N`. Invariant: a measure is a finite number or none; none wherever its formula divides by zero or takes the
//! logarithm of zero, and wherever a cell that it needs would be negative. Measures do not know how pairs are counted.

use std::fmt;
use std::str::FromStr;

use crate::measures::deviance::{deviance, upper_tail_strength};
use crate::measures::names::{MeasureError, distinct, find, find_all, first_name};

/// The counts of a node and a collocate.
///
/// `pairs` counts places of the collocate in windows around the node. With `window = w`, the words left and right together, a
/// window is expected to hold `w` times the share of the collocate (KorAP, cwb-ccc). With `window = 1` there is no such factor
/// (Sketch Engine). The same formulas serve both: `R1` is `window * node`. A caller that knows the words in all windows exactly,
/// each counted once, gives them as `node` with `window = 1` (UCS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Contingency {
    /// Times that the collocate stands in a window around the node.
    pub pairs: u64,
    /// Occurrences of the node.
    pub node: u64,
    /// Occurrences of the collocate.
    pub collocate: u64,
    /// Words of the corpus.
    pub size: u64,
    /// The factor of the window.
    pub window: u64,
}

/// A measure of association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AssociationMeasure {
    /// T-score, `(O11 - E11) / sqrt(O11)`. Church, Gale, Hanks and Hindle 1991.
    TScore,
    /// Z-score, `(O11 - E11) / sqrt(E11)`. Berry-Rogghe 1973, Dennis 1965.
    ZScore,
    /// Pointwise mutual information, `log2(O11 / E11)`. Church and Hanks 1990.
    MutualInformation,
    /// `log2(O11^2 / E11)`. Daille 1994.
    MutualInformation2,
    /// `log2(O11^3 / E11)`. Daille 1994.
    MutualInformation3,
    /// `log2(O11 / E11) / -log2(O11 / N)`, from -1, never together, which is the limit, to 1, only together. Bouma 2009.
    NormalizedMutualInformation,
    /// Log-likelihood, `2 sum Oij ln(Oij / Eij)`, where a cell of zero adds zero. Dunning 1993.
    G2,
    /// Pearson's statistic without correction, `sum (Oij - Eij)^2 / Eij`.
    ChiSquared,
    /// `14 + log2(2 O11 / (R1 + C1))`. Rychly 2008.
    LogDice,
    /// `2 O11 / (R1 + C1)`. Dice 1945.
    Dice,
    /// `min(O11 / R1, O11 / C1)`. Pedersen and Bruce 1996.
    MinSensitivity,
    /// `log2(O11 / E11) ln(O11 + 1)`. Kilgarriff and Rychly, Sketch Engine.
    MutualInformationLogFrequency,
    /// `100 O11 / R1`. Sketch Engine.
    RelativeFrequency,
    /// `P(node | collocate) - P(node | other word)`, `O11 / C1 - O12 / C2`. Gries 2013.
    DeltaP12,
    /// `P(collocate | node) - P(collocate | elsewhere)`, `O11 / R1 - O21 / R2`. Gries 2013.
    DeltaP21,
    /// `log2((O11 / R1) / (O21 / R2))` with 0.5 for an O11 or O21 of zero. Hardie 2014.
    LogRatio,
    /// `(O11 O22) / (O12 O21)`. Evert 2005.
    OddsRatio,
    /// `O11 / (O11 + O12 + O21)`.
    Jaccard,
    /// `O11 (ln O11 - ln E11 - 1)`, zero for an O11 of zero. Quasthoff and Wolff 2002, in the form of Evert 2005.
    PoissonStirling,
    /// Fisher's exact test for attraction, `-log10 P(X >= O11)` of the hypergeometric distribution. Pedersen 1996.
    Fisher,
}

use AssociationMeasure::*;

/// Every name of every measure; the first of a measure's names is the one it is shown by.
const NAMES: &[(&str, AssociationMeasure)] = &[
    ("t", TScore),
    ("z", ZScore),
    ("mi", MutualInformation),
    ("mi2", MutualInformation2),
    ("mi3", MutualInformation3),
    ("npmi", NormalizedMutualInformation),
    ("g2", G2),
    ("ll", G2),
    ("log_likelihood", G2),
    ("chi2", ChiSquared),
    ("logdice", LogDice),
    ("dice", Dice),
    ("min_sensitivity", MinSensitivity),
    ("mi_log_f", MutualInformationLogFrequency),
    ("relative", RelativeFrequency),
    ("delta_p12", DeltaP12),
    ("delta_p21", DeltaP21),
    ("log_ratio", LogRatio),
    ("odds_ratio", OddsRatio),
    ("jaccard", Jaccard),
    ("poisson_stirling", PoissonStirling),
    ("fisher", Fisher),
];

const KIND: &str = "measure of association";

impl AssociationMeasure {
    /// Every measure, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = AssociationMeasure> {
        distinct(NAMES)
    }

    /// The name of the measure, and of its column.
    pub fn name(self) -> &'static str {
        first_name(NAMES, self)
    }

    /// The measures of a list of names such as `logdice,g2,mi`, in its order.
    ///
    /// # Errors
    ///
    /// A name that is not known, or a measure that stands twice.
    pub fn parse_list(text: &str) -> Result<Vec<AssociationMeasure>, MeasureError> {
        find_all(KIND, text, NAMES)
    }

    /// The value for these counts, or none where it is not defined.
    ///
    /// Takes constant time, but `Fisher` takes time in proportion to the standard deviation of the count of pairs.
    pub fn value(self, counts: &Contingency) -> Option<f64> {
        let margins = Margins::new(counts)?;
        let Margins {
            observed,
            expected,
            windows,
            collocate,
            size,
        } = margins;
        let information = |power: f64| log2(observed).map(|log| power * log - expected.log2());
        let value = match self {
            TScore => ratio(observed - expected, observed.sqrt())?,
            ZScore => ratio(observed - expected, expected.sqrt())?,
            MutualInformation => information(1.0)?,
            MutualInformation2 => information(2.0)?,
            MutualInformation3 => information(3.0)?,
            NormalizedMutualInformation if observed == 0.0 => -1.0,
            NormalizedMutualInformation => ratio(information(1.0)?, -(observed / size).log2())?,
            G2 => Table::new(counts, &margins)?.g2(),
            ChiSquared => Table::new(counts, &margins)?.chi_squared()?,
            LogDice => 14.0 + log2(2.0 * observed / (windows + collocate))?,
            Dice => 2.0 * observed / (windows + collocate),
            MinSensitivity => observed / windows.max(collocate),
            MutualInformationLogFrequency => information(1.0)? * observed.ln_1p(),
            RelativeFrequency => 100.0 * observed / windows,
            DeltaP12 => Table::new(counts, &margins)?.delta_p12()?,
            DeltaP21 => Table::new(counts, &margins)?.delta_p21()?,
            LogRatio => Table::new(counts, &margins)?.log_ratio()?,
            OddsRatio => Table::new(counts, &margins)?.odds_ratio()?,
            Jaccard => Table::new(counts, &margins)?.jaccard(),
            PoissonStirling if observed == 0.0 => 0.0,
            PoissonStirling => observed * ((observed / expected).ln() - 1.0),
            Fisher => {
                Table::new(counts, &margins)?;
                let windows = counts.node.checked_mul(counts.window)?;
                upper_tail_strength(counts.pairs, windows, counts.collocate, counts.size)
            }
        };
        value.is_finite().then_some(value)
    }
}

impl FromStr for AssociationMeasure {
    type Err = MeasureError;

    fn from_str(name: &str) -> Result<AssociationMeasure, MeasureError> {
        find(KIND, name, NAMES)
    }
}

impl fmt::Display for AssociationMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What every measure needs; all but `observed` above zero.
struct Margins {
    observed: f64,
    expected: f64,
    windows: f64,
    collocate: f64,
    size: f64,
}

impl Margins {
    fn new(counts: &Contingency) -> Option<Margins> {
        let windows = counts.window as f64 * counts.node as f64;
        let collocate = counts.collocate as f64;
        let size = counts.size as f64;
        let expected = windows * collocate / size;
        (expected > 0.0 && expected.is_finite()).then_some(Margins {
            observed: counts.pairs as f64,
            expected,
            windows,
            collocate,
            size,
        })
    }
}

/// The four cells, none negative, and the sums of rows and columns.
struct Table {
    cells: [[f64; 2]; 2],
    rows: [f64; 2],
    columns: [f64; 2],
    size: f64,
    /// `O11 - E11`, by which each cell differs from what is expected in it, up or down.
    difference: f64,
}

impl Table {
    fn new(counts: &Contingency, margins: &Margins) -> Option<Table> {
        let windows = u128::from(counts.window) * u128::from(counts.node);
        let [pairs, collocate, size] =
            [counts.pairs, counts.collocate, counts.size].map(u128::from);
        let first_row = windows.checked_sub(pairs)?;
        let first_column = collocate.checked_sub(pairs)?;
        let others = size.checked_sub(windows)?.checked_sub(first_column)?;
        Some(Table {
            cells: [
                [pairs as f64, first_row as f64],
                [first_column as f64, others as f64],
            ],
            rows: [windows as f64, (size - windows) as f64],
            columns: [collocate as f64, (size - collocate) as f64],
            size: margins.size,
            difference: margins.observed - margins.expected,
        })
    }

    fn g2(&self) -> f64 {
        let mut sum = 0.0;
        for (row, cells) in self.cells.iter().enumerate() {
            for (column, observed) in cells.iter().enumerate() {
                let expected = self.rows[row] * self.columns[column] / self.size;
                let sign = if row == column { 1.0 } else { -1.0 };
                sum += deviance(*observed, expected, sign * self.difference);
            }
        }
        2.0 * sum
    }

    /// All four cells differ by the same amount, so the sum is `d^2 sum 1 / Eij`, which is `d^2 N^3 / (R1 R2 C1 C2)`.
    fn chi_squared(&self) -> Option<f64> {
        let shares = [self.rows[1], self.columns[1]].map(|sum| sum / self.size);
        let expected = self.rows[0] * self.columns[0] / self.size;
        ratio(
            self.difference * self.difference,
            expected * shares[0] * shares[1],
        )
    }

    fn delta_p12(&self) -> Option<f64> {
        let [[pairs, others], _] = self.cells;
        Some(pairs / self.columns[0] - ratio(others, self.columns[1])?)
    }

    fn delta_p21(&self) -> Option<f64> {
        let [[pairs, _], [elsewhere, _]] = self.cells;
        Some(pairs / self.rows[0] - ratio(elsewhere, self.rows[1])?)
    }

    fn log_ratio(&self) -> Option<f64> {
        let [[pairs, _], [elsewhere, _]] = self.cells;
        let inside = half_for_zero(pairs) / self.rows[0];
        let outside = ratio(half_for_zero(elsewhere), self.rows[1])?;
        Some((inside / outside).log2())
    }

    fn odds_ratio(&self) -> Option<f64> {
        let [[pairs, first_row], [first_column, others]] = self.cells;
        ratio(pairs * others, first_row * first_column)
    }

    fn jaccard(&self) -> f64 {
        let [[pairs, first_row], [first_column, _]] = self.cells;
        pairs / (pairs + first_row + first_column)
    }
}

/// The count that stands for zero in a log ratio (Hardie 2014).
pub(crate) fn half_for_zero(count: f64) -> f64 {
    if count == 0.0 { 0.5 } else { count }
}

/// `numerator / denominator`, or none for a denominator of zero.
pub(crate) fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    (denominator != 0.0).then(|| numerator / denominator)
}

fn log2(value: f64) -> Option<f64> {
    (value > 0.0).then(|| value.log2())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table without the factor of the window.
    fn table(pairs: u64, node: u64, collocate: u64, size: u64) -> Contingency {
        Contingency {
            pairs,
            node,
            collocate,
            size,
            window: 1,
        }
    }

    /// A table from its four cells, as Wordless' tests have it.
    fn cells(o11: u64, o12: u64, o21: u64, o22: u64) -> Contingency {
        table(o11, o11 + o12, o11 + o21, o11 + o12 + o21 + o22)
    }

    fn assert_value(
        measure: AssociationMeasure,
        counts: &Contingency,
        expected: f64,
        tolerance: f64,
    ) {
        let found = measure.value(counts).expect("defined");
        let difference = (found - expected).abs();
        assert!(
            difference <= tolerance,
            "{measure} of {counts:?}: {found}, not {expected}"
        );
    }

    /// Value of the paper that is named, to the digits that it prints; collected by Wordless in `tests/tests_measures`.
    #[test]
    fn values_are_those_of_the_papers() {
        // Gries 2013, p. 144: "of course".
        let of_course = cells(5_610, 168_938, 2_257, 10_233_063);
        assert_value(DeltaP21, &of_course, 0.032, 0.0005);
        assert_value(DeltaP12, &of_course, 0.697, 0.0005);
        // Smadja, McKeown and Hatzivassiloglou 1996, p. 13; the size does not matter.
        assert_value(Dice, &table(130, 3_121, 143, 1_000_000), 0.08, 0.005);
        // Pedersen and Bruce 1996, p. 12.
        let minimum = cells(17, 240, 1_001, 1_298_742);
        assert_value(MinSensitivity, &minimum, 0.016_699, 5e-7);
        assert_value(MinSensitivity, &cells(10, 0, 0, 90), 1.0, 0.0);
        assert_value(MinSensitivity, &cells(0, 10, 10, 80), 0.0, 0.0);
        // Church and Hanks 1990, p. 24.
        let doctors = cells(8, 1_097, 36, 15_000_000 - 1_105 - 44 + 8);
        assert_value(MutualInformation, &doctors, 11.3, 0.05);
        // Bouma 2009, p. 36.
        assert_value(
            NormalizedMutualInformation,
            &cells(10, 0, 0, 90),
            1.0,
            1e-15,
        );
        assert_value(NormalizedMutualInformation, &cells(1, 9, 9, 81), 0.0, 1e-15);
        assert_value(
            NormalizedMutualInformation,
            &cells(0, 10, 10, 80),
            -1.0,
            0.0,
        );
        // Dunning 1993, pp. 72 and 73.
        assert_value(G2, &cells(10, 0, 3, 31_764), 167.23, 0.005);
        assert_value(ChiSquared, &cells(3, 0, 0, 31_774), 31_777.0, 0.5);
        // Manning and Schuetze 1999, p. 164.
        let new_companies = cells(8, 15_820, 4_667, 14_307_668 - 15_828 - 4_675 + 8);
        assert_value(TScore, &new_companies, 0.999_932, 5e-7);
        // Pojanapunya and Todd 2016, p. 154.
        let keyness = cells(16_217, 2_796_938 - 16_217, 735, 2_087_946 - 735);
        assert_value(OddsRatio, &keyness, 16.6, 0.05);
        // Evert 2005, p. 54: observed is expected.
        assert_value(MutualInformation, &cells(1, 9, 9, 81), 0.0, 1e-15);
        // Hardie 2014: equal rates.
        let equal = cells(1, 1_000_000 - 1, 1, 1_000_000 - 1);
        assert_value(LogRatio, &equal, 0.0, 1e-15);
        // Pedersen 1996, p. 10: p = 0.986 to the right.
        assert_value(Fisher, &cells(1, 3, 3, 1), -(0.986_f64.log10()), 0.0003);
    }

    /// Rows 1, 2, 5, 13, 27, 58 and 64 of `tests/ucs-gold-100.ds` of pandas-association-measures, made with UCS/Perl: O11, R1, C1,
    /// N; Dice, -log10 p of Fisher, Jaccard, log10 of MI, MI2, MI3, minimum sensitivity; Poisson-Stirling in log10, chi2 with
    /// sign, G2 with sign, log10 of the odds ratio, t, z.
    const UCS: &str = "
        1 15334 2 191998
          0.000130412102243088 0.8143084918729303 6.521030322791e-05 0.796611250194937 0.796611250194937 0.796611250194937 6.52145558888744e-05
          0.362316768291686 4.80398096104896 2.4487567246743 1.06151846545363 0.840269169470515 2.10244214695804
        7 15334 120 191998
          0.00090591432638799 0.06938119984937125 0.000453162426361106 -0.136441960174449 0.708656079839807 1.55375411985406 0.000456501891222121
          -3.99515509454391 -0.757555937349874 -0.829802488929075 -0.146567379083828 -0.976603439999581 -0.834636300973578
        2 15334 5 191998
          0.000260773192515809 1.2660687275743098 0.000130403599139336 0.699701237186881 1.00073123285086 1.30176122851484 0.000130429111777749
          0.530813510567258 6.97326860448976 3.87912640510113 0.885450614819354 1.1318466787932 2.53301767020394
        2 15334 2 191998
          0.000260824204486176 2.195308552983274 0.000130429111777749 1.09764124585892 1.3986712415229 1.69970123718688 0.000130429111777749
          1.32669352791133 23.0423686302777 10.1098895166663 inf 1.30126680894114 4.60454769045057
        52 15334 658 191998
          0.00650325162581291 0.25773543410675437 0.00326223337515684 -0.00458130412023773 1.71142203951456 3.42742538314936 0.00339115690622147
          -22.8215408732214 -0.00631039542005377 -0.00633058968211841 -0.00499371186920616 -0.0764714189412685 -0.0760691382927798
        24 15334 208 191998
          0.00308840561060353 1.352050036092179 0.0015465910555484 0.159789152607763 1.54000039431937 2.92021163603098 0.00156514934133299
          -6.58812790309173 3.57478828386225 3.17737069833462 0.177113723099924 1.50806788366853 1.8126563111747
        39 15334 729 191998
          0.00485587997260786 0.0009726473023629531 0.00243384922616076 -0.174021675432557 1.41704293159394 3.00810753862044 0.0025433676796661
          -23.7243301360965 -6.92319482032565 -7.76111139318464 -0.186885459096022 -3.07796539453285 -2.51914342910853
    ";

    #[test]
    fn values_are_those_of_ucs() {
        let decades = std::f64::consts::LOG2_10;
        let numbers: Vec<f64> = UCS
            .split_whitespace()
            .map(|number| number.parse().expect("a number"))
            .collect();
        let (rows, rest) = numbers.as_chunks::<17>();
        assert_eq!((rows.len(), rest.len()), (7, 0));
        for row in rows {
            let [pairs, node, collocate, size, values @ ..] = *row;
            let counts = [pairs, node, collocate, size].map(|count| count as u64);
            let counts = table(counts[0], counts[1], counts[2], counts[3]);
            let [
                dice,
                fisher,
                jaccard,
                mi,
                mi2,
                mi3,
                sensitivity,
                poisson,
                chi2,
                g2,
                odds,
                t,
                z,
            ] = values;
            for (measure, expected) in [
                (Dice, dice),
                (Jaccard, jaccard),
                (MutualInformation, mi * decades),
                (MutualInformation2, mi2 * decades),
                (MutualInformation3, mi3 * decades),
                (MinSensitivity, sensitivity),
                (PoissonStirling, poisson * std::f64::consts::LN_10),
                (ChiSquared, chi2.abs()),
                (TScore, t),
                (ZScore, z),
            ] {
                assert_value(measure, &counts, expected, 2e-13 * expected.abs().max(1.0));
            }
            // UCS subtracts large logarithms from each other and loses digits: of G2 of the first row, 2.4487567246896 by mpmath,
            // and of the tail of the second, 0.069381199848371.
            assert_value(G2, &counts, g2.abs(), 5e-11);
            assert_value(Fisher, &counts, fisher, 2e-12);
            let found = OddsRatio.value(&counts).map(f64::log10);
            if odds.is_infinite() {
                assert_eq!(found, None);
            } else {
                assert!((found.expect("defined") - odds).abs() < 1e-12, "{found:?}");
            }
        }
    }

    /// RKorAPClient, `tests/testthat/test-association-score-functions.R`, with a window of 10. What is expected is rounded there to
    /// 4.327907, which moves the sixth digit of MI, and G2 loses digits: 8.664478376055359 without pairs, by mpmath.
    #[test]
    fn values_with_a_window_are_those_of_korap() {
        let counts = Contingency {
            pairs: 32,
            node: 4_258_869,
            collocate: 2_165,
            size: 21_304_641_202,
            window: 10,
        };
        assert_value(G2, &counts, 73.053_47, 5e-6);
        assert_value(MutualInformation, &counts, 2.886_331, 1e-6);
        assert_value(MutualInformation2, &counts, 7.886_331, 1e-6);
        assert_value(MutualInformation3, &counts, 12.886_331, 1e-6);
        assert_value(LogDice, &counts, -5.344_04, 5e-6);
        // Not of KorAP: by mpmath.
        assert_value(Fisher, &counts, 16.952_987_699_403_76, 1e-12);
        let none = Contingency { pairs: 0, ..counts };
        assert_value(G2, &none, 8.664_477, 2e-6);
        for measure in [
            MutualInformation,
            MutualInformation2,
            MutualInformation3,
            LogDice,
        ] {
            assert_eq!(measure.value(&none), None, "{measure}");
        }
    }

    /// pandas-association-measures: `tests/test_measures.py` and rows of `tests/data/log-ratio-gold.tsv`, made in R.
    #[test]
    fn log_ratios_are_those_of_hardie() {
        assert_value(LogRatio, &table(10, 10, 10, 100), 7.491_853, 5e-7);
        for (pairs, collocate, expected) in [
            (1_189, 2_157, 7.156_575_955_874_566),
            (15, 18, 9.181_834_288_290_867),
            (1_187, 14_608, 3.360_805_862_606_756_7),
        ] {
            let counts = table(pairs, 168_329, collocate, 19_720_567);
            assert_value(LogRatio, &counts, expected, 1e-13);
        }
        // Nothing in the windows counts as a half.
        let value = (0.5_f64 / 10.0 / (10.0 / 90.0)).log2();
        assert_value(LogRatio, &table(0, 10, 10, 100), value, 1e-15);
    }

    /// pandas-association-measures, `tests/test_measures.py`: ten pairs of two words that stand only together.
    #[test]
    fn values_of_a_perfect_pair() {
        let counts = table(10, 10, 10, 100);
        assert_value(TScore, &counts, 2.846_049_894_151_541, 1e-15);
        assert_value(ZScore, &counts, 9.0, 1e-15);
        assert_value(G2, &counts, 65.016_595, 5e-7);
        assert_value(Dice, &counts, 1.0, 0.0);
        assert_value(LogDice, &counts, 14.0, 0.0);
        assert_value(Jaccard, &counts, 1.0, 0.0);
        assert_value(NormalizedMutualInformation, &counts, 1.0, 1e-15);
        assert_value(RelativeFrequency, &counts, 100.0, 0.0);
        let information = 10_f64.log2() * 11_f64.ln();
        assert_value(MutualInformationLogFrequency, &counts, information, 1e-14);
        assert_value(DeltaP12, &counts, 1.0, 0.0);
        assert_value(DeltaP21, &counts, 1.0, 0.0);
        assert_eq!(OddsRatio.value(&counts), None);
    }

    #[test]
    fn both_forms_of_g2_agree() {
        let entropy = |t: f64| if t == 0.0 { 0.0 } else { t * t.ln() };
        for (pairs, node, collocate, size) in [
            (1, 2, 3, 10),
            (7, 15_334, 120, 191_998),
            (10, 10, 13, 31_777),
        ] {
            let [ab, a, b, n] = [pairs, node, collocate, size].map(|count: u64| count as f64);
            let expected = 2.0
                * (entropy(ab)
                    + entropy(a - ab)
                    + entropy(b - ab)
                    + entropy(n)
                    + entropy(n + ab - a - b)
                    - entropy(a)
                    - entropy(b)
                    - entropy(n - a)
                    - entropy(n - b));
            assert_value(G2, &table(pairs, node, collocate, size), expected, 1e-8);
        }
    }

    #[test]
    fn empty_counts_have_no_value() {
        for counts in [
            table(0, 0, 0, 0),
            table(0, 0, 5, 10),
            table(0, 5, 0, 10),
            table(1, 1, 1, 0),
            Contingency {
                window: 0,
                ..table(1, 2, 2, 10)
            },
        ] {
            for measure in AssociationMeasure::all() {
                assert_eq!(measure.value(&counts), None, "{measure} {counts:?}");
            }
        }
    }

    #[test]
    fn no_pairs_have_the_limit_or_no_value() {
        let counts = table(0, 10, 20, 100);
        let values: Vec<(&str, Option<f64>)> = AssociationMeasure::all()
            .map(|measure| (measure.name(), measure.value(&counts)))
            .filter(|(_, value)| value.is_none_or(|value| value == 0.0 || value == -1.0))
            .collect();
        assert_eq!(
            values,
            [
                ("t", None),
                ("mi", None),
                ("mi2", None),
                ("mi3", None),
                ("npmi", Some(-1.0)),
                ("logdice", None),
                ("dice", Some(0.0)),
                ("min_sensitivity", Some(0.0)),
                ("mi_log_f", None),
                ("relative", Some(0.0)),
                ("odds_ratio", Some(0.0)),
                ("jaccard", Some(0.0)),
                ("poisson_stirling", Some(0.0)),
                ("fisher", Some(0.0)),
            ]
        );
    }

    #[test]
    fn measures_of_the_whole_table_need_cells_that_are_not_negative() {
        // More pairs than the collocate has occurrences, as each may stand in two windows; then more than all windows hold;
        // then windows of more words than the corpus.
        for counts in [
            Contingency {
                window: 10,
                ..table(9, 10, 8, 1_000)
            },
            table(11, 10, 50, 1_000),
            Contingency {
                window: 10,
                ..table(2, 101, 8, 1_000)
            },
        ] {
            for measure in AssociationMeasure::all() {
                let needs_table = [
                    "g2",
                    "chi2",
                    "delta_p12",
                    "delta_p21",
                    "log_ratio",
                    "odds_ratio",
                    "jaccard",
                    "fisher",
                ];
                let is_none = measure.value(&counts).is_none();
                assert_eq!(is_none, needs_table.contains(&measure.name()), "{measure}");
            }
        }
    }

    #[test]
    fn extreme_counts_give_finite_values_or_none() {
        let numbers = [0, 1, 2, 1 << 32, u64::MAX - 1, u64::MAX];
        for pairs in [0, 1, u64::MAX] {
            for node in numbers {
                for collocate in numbers {
                    for size in numbers {
                        for window in [1, 10, u64::MAX] {
                            let counts = Contingency {
                                pairs,
                                node,
                                collocate,
                                size,
                                window,
                            };
                            for measure in AssociationMeasure::all() {
                                // A tail around 10^19 pairs takes as many steps as a standard deviation of 10^9.
                                if measure != Fisher {
                                    let value = measure.value(&counts);
                                    assert!(value.is_none_or(f64::is_finite));
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn names_are_read_and_shown() {
        for measure in AssociationMeasure::all() {
            assert_eq!(measure.name().parse(), Ok(measure));
        }
        assert_eq!(AssociationMeasure::all().count(), 20);
        for alias in ["ll", "log_likelihood", "G2"] {
            assert_eq!(alias.parse(), Ok(G2));
        }
        assert_eq!(
            AssociationMeasure::parse_list("logDice, g2,mi"),
            Ok(vec![LogDice, G2, MutualInformation])
        );
        let error = AssociationMeasure::parse_list("mi,delta_p").expect_err("unknown");
        assert!(
            error.to_string().starts_with(
                "no such measure of association `delta_p`; hint: did you mean `delta_p12`? known are t, z, mi, "
            ),
            "{error}"
        );
    }
}
