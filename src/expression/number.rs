//! Numbers and their texts, by SQLite's rules: which prefix of a text is a number, and how a number is written.
//!
//! Invariant: no function makes a NaN. Reals are written with 15 significant digits, always with a point or an exponent. The
//! callers decide which operand becomes a number.

use crate::Value;

/// The number that a text begins with, and whether the text is only that number and spaces around it.
///
/// An integer that 64 bits cannot hold is a real. A text that begins with no number is 0.
pub(crate) fn number_prefix(text: &[u8]) -> (Value, bool) {
    let Prefix {
        number,
        is_real,
        is_whole,
    } = scan(text);
    if number.is_empty() {
        return (Value::Integer(0), false);
    }
    let value = match number.parse::<i64>() {
        Ok(integer) if !is_real => Value::Integer(integer),
        _ => Value::Real(number.parse().unwrap_or(0.0)),
    };
    (value, is_whole)
}

/// The real that a text begins with.
pub(crate) fn real_prefix(text: &[u8]) -> f64 {
    scan(text).number.parse().unwrap_or(0.0)
}

/// The integer that a text begins with; the nearest one if 64 bits cannot hold it.
pub(crate) fn integer_prefix(text: &[u8]) -> i64 {
    let text = text.trim_spaces_before();
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let mut value = 0i64;
    for digit in digits.iter().take_while(|byte| byte.is_ascii_digit()) {
        let digit = i64::from(digit - b'0');
        let digit = if negative { -digit } else { digit };
        value = value.saturating_mul(10).saturating_add(digit);
    }
    value
}

/// The beginning of a text as a number.
struct Prefix<'a> {
    /// Sign, digits, point and exponent, as `parse` takes them; empty if there is no digit.
    number: &'a str,
    /// Whether it has a point or an exponent.
    is_real: bool,
    /// Whether only spaces follow.
    is_whole: bool,
}

fn scan(text: &[u8]) -> Prefix<'_> {
    let text = text.trim_spaces_before();
    let digits_from = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let whole_digits = digits_from(sign);
    let mut end = sign + whole_digits;
    let mut digits = whole_digits;
    let mut is_real = false;
    if text.get(end) == Some(&b'.') {
        let fraction = digits_from(end + 1);
        digits += fraction;
        end += 1 + fraction;
        is_real = true;
    }
    if digits == 0 {
        return Prefix {
            number: "",
            is_real: false,
            is_whole: false,
        };
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits_from(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
            is_real = true;
        }
    }
    Prefix {
        number: std::str::from_utf8(&text[..end]).unwrap_or_default(),
        is_real,
        is_whole: text[end..].iter().all(|&byte| is_space(byte)),
    }
}

/// Whether SQLite skips the byte around numbers.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

trait TrimSpaces {
    fn trim_spaces_before(&self) -> &[u8];
}

impl TrimSpaces for [u8] {
    fn trim_spaces_before(&self) -> &[u8] {
        let spaces = self.iter().take_while(|&&byte| is_space(byte)).count();
        &self[spaces..]
    }
}

/// A real as text: `%!.15g` of SQLite's printf.
pub(crate) fn real_to_text(real: f64) -> String {
    const DIGITS: usize = 15;
    if !real.is_finite() {
        return infinity(real).to_owned();
    }
    let (digits, exponent) = significant_digits(real, DIGITS);
    write_digits(real.is_sign_negative() && real != 0.0, &digits, exponent)
}

/// A real as text that reads back as the same real: 15 digits if they are enough, else the least number of digits.
pub(crate) fn real_to_literal(real: f64) -> String {
    if !real.is_finite() {
        return if real.is_sign_negative() {
            "-9.0e+999".to_owned()
        } else {
            "9.0e+999".to_owned()
        };
    }
    let text = real_to_text(real);
    if text.parse() == Ok(real) {
        return text;
    }
    let (digits, exponent) = split_exponential(&format!("{:e}", real.abs()));
    write_digits(real.is_sign_negative(), &digits, exponent)
}

fn infinity(real: f64) -> &'static str {
    if real.is_sign_negative() {
        "-Inf"
    } else {
        "Inf"
    }
}

/// Digits without trailing zeros, the first before the point, and the exponent, in the layout of `%g`.
fn write_digits(negative: bool, digits: &str, exponent: i32) -> String {
    let sign = if negative { "-" } else { "" };
    // Below 5 and 16 by the conditions of the arms, so the casts keep the values.
    match exponent {
        -4..0 => {
            let zeros = "0".repeat((-exponent - 1) as usize);
            format!("{sign}0.{zeros}{digits}")
        }
        0..15 => {
            let whole = exponent as usize + 1;
            if digits.len() <= whole {
                let zeros = "0".repeat(whole - digits.len());
                format!("{sign}{digits}{zeros}.0")
            } else {
                format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
            }
        }
        _ => {
            let fraction = if digits.len() > 1 { &digits[1..] } else { "0" };
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            let exponent = exponent.unsigned_abs();
            format!(
                "{sign}{}.{fraction}e{exponent_sign}{exponent:02}",
                &digits[..1]
            )
        }
    }
}

/// The decimal digits of `|real|`, rounded half up to `count`, without trailing zeros, and the exponent of the first.
fn significant_digits(real: f64, count: usize) -> (String, i32) {
    let real = real.abs();
    let exponential = format!("{real:.*e}", count - 1);
    // Rust rounds ties to even, SQLite up. A tie shows as a 5 with zeros behind it.
    let (longer, exponent) = split_digits(&format!("{real:.*e}", count + 5));
    if longer[count..].starts_with("50000") && longer[count + 1..].bytes().all(|b| b == b'0') {
        // The longest expansion of a real has fewer digits.
        let (exact, _) = split_digits(&format!("{real:.1100e}"));
        if exact[count + 1..].bytes().all(|byte| byte == b'0') {
            return round_up(&exact[..count], exponent);
        }
    }
    split_exponential(&exponential)
}

/// Adds one to the last digit.
fn round_up(digits: &str, exponent: i32) -> (String, i32) {
    let kept = digits.trim_end_matches('9');
    match kept.as_bytes().last() {
        None => ("1".to_owned(), exponent + 1),
        // Not a 9, so the sum is a digit.
        Some(&last) => (
            format!("{}{}", &kept[..kept.len() - 1], char::from(last + 1)),
            exponent,
        ),
    }
}

/// `d.ddde-x` as its digits and exponent.
fn split_digits(exponential: &str) -> (String, i32) {
    let (digits, exponent) = exponential.split_once('e').unwrap_or((exponential, "0"));
    (digits.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// As `split_digits`, without trailing zeros.
fn split_exponential(exponential: &str) -> (String, i32) {
    let (digits, exponent) = split_digits(exponential);
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        ("0".to_owned(), 0)
    } else {
        (kept.to_owned(), exponent)
    }
}

/// `round(real, digits)`: half away from zero, by the shortest decimal number that reads as the real.
///
/// So 2.675 becomes 2.68, although the real is a little less than its decimal number; SQLite's rounding means the same.
pub(crate) fn round(real: f64, digits: i64) -> f64 {
    /// From here on a real has no fraction.
    const WHOLE: f64 = 4_503_599_627_370_496.0;
    const DIGITS_MAX: i64 = 30;
    if !(-WHOLE..=WHOLE).contains(&real) {
        return real;
    }
    // 0 to 30.
    let digits = digits.clamp(0, DIGITS_MAX) as usize;
    if digits == 0 {
        // In range after the test above, so the cast only drops the fraction.
        return (real + if real < 0.0 { -0.5 } else { 0.5 }) as i64 as f64;
    }
    let text = real.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let Some(next) = fraction.as_bytes().get(digits) else {
        return real;
    };
    let kept = &fraction[..digits];
    let rounded = if *next >= b'5' {
        let (raised, _) = round_up(&format!("0{whole}{kept}"), 0);
        let zeros = "0".repeat(1 + whole.len() + kept.len() - raised.len());
        format!("{raised}{zeros}e-{digits}").parse()
    } else {
        format!("{whole}.{kept}").parse()
    };
    rounded.unwrap_or(real.abs()).copysign(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reals_are_written_as_sqlite_writes_them() {
        for (real, text) in [
            (0.0, "0.0"),
            (-0.0, "0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (0.1 + 0.2, "0.3"),
            (1e14, "100000000000000.0"),
            (1e15, "1.0e+15"),
            (123_456_789_012_345_680.0, "1.23456789012346e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1.0e-05"),
            (1e100, "1.0e+100"),
            (100_000_000_000_000.5, "100000000000001.0"),
            (f64::INFINITY, "Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (5e-324, "4.94065645841247e-324"),
        ] {
            assert_eq!(real_to_text(real), text);
        }
        assert_eq!(real_to_literal(0.1 + 0.2), "0.30000000000000004");
    }

    #[test]
    fn a_tie_rounds_away_from_zero() {
        assert_eq!(round(0.125, 2), 0.13);
        assert_eq!(round(-0.125, 2), -0.13);
        assert_eq!(round(2.5, 0), 3.0);
        assert_eq!(round(9.5, 0), 10.0);
        assert_eq!(round(99.875, 2), 99.88);
        assert_eq!(round(9.96875, 4), 9.9688);
        assert_eq!(round(2.675, 2), 2.68);
        assert_eq!(round(0.05, 1), 0.1);
        assert_eq!(round(1e-7, 3), 0.0);
    }
}
