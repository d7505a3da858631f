//! The deviance of an observed count from an expected one, and the tail of the hypergeometric distribution.
//!
//! Both G2 statistics are sums of deviances, and so is the logarithm of a binomial probability (C. Loader, "Fast and accurate
//! computation of binomial probabilities", 2000). Invariant: no function subtracts large logarithms from each other, so results
//! are exact to about 14 digits in corpora of any size.

use std::f64::consts::{LN_10, TAU};

/// `x ln(x / m) + m - x` for `x` observed and `m` expected, never negative. `difference` is `x - m`, which the caller may know
/// more exactly than the rounded difference of the two.
pub(crate) fn deviance(observed: f64, expected: f64, difference: f64) -> f64 {
    if observed == 0.0 {
        return expected;
    }
    let sum = observed + expected;
    if difference.abs() >= 0.1 * sum {
        return observed * (observed / expected).ln() - difference;
    }
    // With v = d / (x + m), ln(x / m) is 2 (v + v^3/3 + v^5/5 + ...), and what is left after the first term is small.
    let ratio = difference / sum;
    let square = ratio * ratio;
    let mut total = difference * ratio;
    let mut term = 2.0 * observed * ratio;
    let mut odd = 1.0;
    loop {
        term *= square;
        odd += 2.0;
        let next = total + term / odd;
        if next == total {
            return total;
        }
        total = next;
    }
}

/// `-log10 P(X >= x)` where X is the number of marked items among `drawn` of `size` items of which `marked` are marked.
///
/// Takes time in proportion to the standard deviation of X. The caller makes sure that `marked` and `drawn` are at most `size`
/// and `x` is at most both.
pub(crate) fn upper_tail_strength(x: u64, marked: u64, drawn: u64, size: u64) -> f64 {
    let least = marked.saturating_sub(size - drawn);
    if x <= least {
        return 0.0;
    }
    let (marked, drawn, size) = (marked as f64, drawn as f64, size as f64);
    // Unmarked items that are not drawn when none of the marked ones is; negative if some must be.
    let rest = size - marked - drawn;
    let x = x as f64;
    if x > marked * drawn / size {
        let tail = relative_tail(|step| {
            let k = x + step;
            (marked - k) * (drawn - k) / ((k + 1.0) * (rest + k + 1.0))
        });
        -(log_hypergeometric(x, marked, drawn, size) + tail.ln()) / LN_10
    } else {
        let below = x - 1.0;
        let tail = relative_tail(|step| {
            let k = below - step;
            k * (rest + k) / ((marked - k + 1.0) * (drawn - k + 1.0))
        });
        let lower = log_hypergeometric(below, marked, drawn, size).exp() * tail;
        -(-lower.min(1.0)).ln_1p() / LN_10
    }
}

/// The sum of a tail of probabilities over its first one; `ratio(i)` is the quotient of the probabilities `i + 1` and `i`, and
/// becomes smaller with each `i` until it is zero.
fn relative_tail(ratio: impl Fn(f64) -> f64) -> f64 {
    let mut sum = 1.0;
    let mut term = 1.0;
    let mut step = 0.0;
    loop {
        let quotient = ratio(step);
        term *= quotient;
        sum += term;
        // All that follows is at most a geometric series.
        if quotient < 1.0 && term <= f64::EPSILON * 0.01 * sum * (1.0 - quotient) {
            return sum;
        }
        step += 1.0;
    }
}

/// The logarithm of P(X = x), as a quotient of three binomial probabilities whose parameter is the share of items drawn.
fn log_hypergeometric(x: f64, marked: f64, drawn: f64, size: f64) -> f64 {
    let share = drawn / size;
    let rest = (size - drawn) / size;
    log_binomial(x, marked, share, rest) + log_binomial(drawn - x, size - marked, share, rest)
        - log_binomial(drawn, size, share, rest)
}

/// The logarithm of the probability of `x` successes in `n` trials, each with probability `p`; `q` is `1 - p`.
fn log_binomial(x: f64, n: f64, p: f64, q: f64) -> f64 {
    if x == 0.0 {
        return if n == 0.0 { 0.0 } else { n * (-p).ln_1p() };
    }
    if x == n {
        return n * p.ln();
    }
    let failures = n - x;
    stirling_error(n)
        - stirling_error(x)
        - stirling_error(failures)
        - deviance(x, n * p, x - n * p)
        - deviance(failures, n * q, failures - n * q)
        + 0.5 * (n / (TAU * x * failures)).ln()
}

/// `ln n!` without Stirling's approximation `(n + 1/2) ln n - n + ln sqrt(2 pi)`, for an `n` above zero.
fn stirling_error(n: f64) -> f64 {
    if n <= 15.0 {
        // 15! is exact in 53 bits.
        let factorial: f64 = (1..=n as u32).map(f64::from).product();
        return factorial.ln() - (n + 0.5) * n.ln() + n - 0.5 * TAU.ln();
    }
    let square = n * n;
    let terms = [
        1.0 / 12.0,
        1.0 / 360.0,
        1.0 / 1260.0,
        1.0 / 1680.0,
        1.0 / 1188.0,
    ];
    terms
        .iter()
        .rev()
        .fold(0.0, |sum, term| term - sum / square)
        / n
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observed, expected, and the deviance.
    const DEVIANCES: [(f64, f64, f64); 7] = [
        (1.0, 2.0, 0.306_852_819_440_054_7),
        (100.0, 101.0, 0.004_966_914_683_191_715),
        (1e9 + 1.0, 1e9, 4.999_999_998_333_334e-10),
        (1e9, 1e9 + 30_000.0, 0.449_991_000_202_495_14),
        (1000.0, 1100.0, 4.689_820_195_675_14),
        (1000.0, 1300.0, 37.635_735_532_508_948),
        (5.0, 50.0, 33.487_074_535_029_77),
    ];

    /// x, marked, drawn, size, and -log10 of the tail by mpmath 1.3 with 60 digits.
    const TAILS: [((u64, u64, u64, u64), f64); 10] = [
        ((8, 15_828, 4_675, 14_307_668), 0.818_812_035_592_615_2),
        ((2, 15_334, 2, 191_998), 2.195_308_552_983_274),
        ((52, 15_334, 658, 191_998), 0.257_735_434_106_754_8),
        ((65, 15_334, 1_013, 191_998), 0.011_160_902_672_674_483),
        ((1_189, 168_329, 2_157, 19_720_567), 1_822.509_171_229_786_8),
        (
            (32, 42_588_690, 2_165, 21_304_641_202),
            16.952_987_699_403_763,
        ),
        ((5_610, 174_548, 7_867, 10_409_868), 7_969.960_662_515_139),
        (
            (100_000, 1_000_000, 500_000, 1_000_000_000),
            193_743.819_087_508_71,
        ),
        ((499, 1_000, 1_000, 2_000), 0.256_991_133_598_035_93),
        ((520, 1_000, 1_000, 2_000), 1.391_955_269_898_96),
    ];

    fn assert_near(found: f64, expected: f64, relative: f64) {
        let difference = (found - expected).abs();
        assert!(
            difference <= relative * expected.abs(),
            "{found} {expected}"
        );
    }

    #[test]
    fn deviance_keeps_its_digits_near_zero() {
        // x ln(x / m) + m - x by mpmath 1.3 with 50 digits.
        for (observed, expected, value) in DEVIANCES {
            assert_near(
                deviance(observed, expected, observed - expected),
                value,
                1e-14,
            );
        }
        assert_eq!(deviance(0.0, 3.5, -3.5), 3.5);
        assert_eq!(deviance(0.0, 0.0, 0.0), 0.0);
        assert_eq!(deviance(7.0, 7.0, 0.0), 0.0);
    }

    #[test]
    fn the_tail_of_the_hypergeometric_distribution_is_exact() {
        for ((x, marked, drawn, size), strength) in TAILS {
            assert_near(upper_tail_strength(x, marked, drawn, size), strength, 1e-12);
        }
    }

    #[test]
    fn a_tail_that_holds_everything_has_no_strength() {
        assert_eq!(upper_tail_strength(0, 10, 10, 100), 0.0);
        assert_eq!(upper_tail_strength(5, 10, 5, 10), 0.0);
        assert_eq!(upper_tail_strength(0, 0, 0, 0), 0.0);
    }

    #[test]
    fn tails_of_small_populations_equal_their_sums() {
        let choose = |n: u64, k: u64| -> f64 {
            if k > n {
                return 0.0;
            }
            (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
        };
        for size in 1..=12 {
            for marked in 0..=size {
                for drawn in 0..=size {
                    for x in 0..=marked.min(drawn) {
                        let tail: f64 = (x..=marked.min(drawn))
                            .map(|k| choose(marked, k) * choose(size - marked, drawn - k))
                            .sum::<f64>()
                            / choose(size, drawn);
                        let found = upper_tail_strength(x, marked, drawn, size);
                        let difference = (found + tail.log10()).abs();
                        assert!(
                            difference < 1e-13,
                            "{x} {marked} {drawn} {size}: {difference}"
                        );
                    }
                }
            }
        }
    }
}
