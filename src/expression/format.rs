//! `format(pattern, ...)`, also called `printf`: SQLite's conversions (printf.html).
//!
//! Invariant: a missing argument counts as NULL, and a conversion that SQLite does not know ends the text, as there. Widths and
//! precisions count bytes, and with the flag `!` characters.

use super::convert::{to_bytes, to_integer, to_real};
use super::text::PART;
use crate::batch::text_or_blob;
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

const WHAT: &str = "the result of format";

/// `format(pattern, arguments...)`.
///
/// # Errors
/// If it is too long, or the statement must end.
pub(super) fn format(
    pattern: &Value,
    arguments: &[&Value],
    memory: &ValueMemory,
    pace: &mut Pace,
) -> Result<Value> {
    let Some(pattern) = to_bytes(pattern) else {
        return Ok(Value::Null);
    };
    let mut output = Output {
        bytes: Vec::new(),
        memory,
        pace,
    };
    let mut arguments = arguments.iter().copied();
    let mut rest = &*pattern;
    while let Some(at) = memchr::memchr(b'%', rest) {
        output.push(&rest[..at])?;
        rest = &rest[at + 1..];
        if rest.is_empty() {
            output.push(b"%")?;
            break;
        }
        let (conversion, taken) = Conversion::read(rest, &mut arguments);
        output.pace.work(taken)?;
        rest = &rest[taken..];
        if !conversion.write(&mut arguments, &mut output)? {
            return Ok(text_or_blob(output.bytes));
        }
    }
    output.push(rest)?;
    Ok(text_or_blob(output.bytes))
}

/// The text so far.
struct Output<'a> {
    bytes: Vec<u8>,
    memory: &'a ValueMemory,
    pace: &'a mut Pace,
}

impl Output<'_> {
    /// Reserves room for `more` bytes.
    fn grow(&mut self, more: usize) -> Result<()> {
        let length = self.bytes.len().saturating_add(more);
        self.memory.check(WHAT, length as u64)?;
        self.pace.work(more)
    }

    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.grow(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn repeat(&mut self, bytes: &[u8], times: usize) -> Result<()> {
        self.grow(bytes.len().saturating_mul(times))?;
        let mut left = times;
        while left > 0 {
            let part = left.min(PART);
            self.pace.work(part.saturating_mul(bytes.len()))?;
            for _ in 0..part {
                self.bytes.extend_from_slice(bytes);
            }
            left -= part;
        }
        Ok(())
    }

    /// A field of `width`, filled with spaces.
    fn field(&mut self, field: &[u8], width: usize, is_left: bool) -> Result<()> {
        let spaces = width.saturating_sub(field.len());
        if !is_left {
            self.repeat(b" ", spaces)?;
        }
        self.push(field)?;
        if is_left {
            self.repeat(b" ", spaces)?;
        }
        Ok(())
    }
}

/// The characters between `%` and its letter, and the letter.
#[derive(Default)]
struct Conversion {
    is_left: bool,
    /// `+` or a space before numbers that are not negative.
    sign: Option<u8>,
    is_alternate: bool,
    in_characters: bool,
    has_zeros: bool,
    has_commas: bool,
    width: usize,
    precision: Option<usize>,
    letter: u8,
}

impl Conversion {
    /// Reads a conversion, and returns its length in bytes.
    fn read<'v>(
        text: &[u8],
        arguments: &mut impl Iterator<Item = &'v Value>,
    ) -> (Conversion, usize) {
        let mut read = Conversion::default();
        let mut at = 0;
        let byte = |at: usize| text.get(at).copied().unwrap_or(0);
        loop {
            match byte(at) {
                b'-' => read.is_left = true,
                b'+' => read.sign = Some(b'+'),
                b' ' => read.sign = Some(b' '),
                b'#' => read.is_alternate = true,
                b'!' => read.in_characters = true,
                b'0' => read.has_zeros = true,
                b',' => read.has_commas = true,
                _ => break,
            }
            at += 1;
        }
        if byte(at) == b'*' {
            at += 1;
            let width = star(arguments);
            read.is_left |= width < 0;
            read.width = size(width.unsigned_abs());
        } else {
            (read.width, at) = digits(text, at);
        }
        if byte(at) == b'.' {
            at += 1;
            if byte(at) == b'*' {
                at += 1;
                read.precision = Some(size(star(arguments).unsigned_abs()));
            } else {
                let (precision, end) = digits(text, at);
                read.precision = Some(precision);
                at = end;
            }
        }
        // Length modifiers of C integers have no meaning here.
        while byte(at) == b'l' {
            at += 1;
        }
        read.letter = byte(at);
        (read, (at + 1).min(text.len()))
    }

    /// Writes the next argument. Returns whether the text continues.
    fn write<'v>(
        &self,
        arguments: &mut impl Iterator<Item = &'v Value>,
        output: &mut Output<'_>,
    ) -> Result<bool> {
        let mut next = || arguments.next().unwrap_or(&Value::Null);
        match self.letter {
            b'%' => output.field(b"%", self.width, self.is_left)?,
            b'd' | b'i' | b'r' => self.integer(to_integer(next()), output)?,
            b'u' => self.digits_of(to_integer(next()).cast_unsigned(), None, output)?,
            b'o' | b'x' | b'X' | b'p' => self.radix(to_integer(next()).cast_unsigned(), output)?,
            b'f' | b'e' | b'E' | b'g' | b'G' => self.real(to_real(next()), output)?,
            b's' | b'z' => {
                let text = to_bytes(next()).unwrap_or_default();
                self.text(self.cut(&text), output)?;
            }
            b'c' => self.character(next(), output)?,
            b'q' | b'Q' | b'w' => self.quoted(next(), output)?,
            b'n' => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn integer(&self, integer: i64, output: &mut Output<'_>) -> Result<()> {
        let sign = if integer < 0 { Some(b'-') } else { self.sign };
        self.digits_of(integer.unsigned_abs(), sign, output)
    }

    fn digits_of(&self, number: u64, sign: Option<u8>, output: &mut Output<'_>) -> Result<()> {
        let mut digits = self.padded(number.to_string().into_bytes(), sign, output)?;
        if self.has_commas && self.letter != b'r' {
            digits = with_commas(&digits, output.pace)?;
        }
        if self.letter == b'r' {
            let suffix: &[u8] = match (number % 10, number / 10 % 10) {
                (1, tens) if tens != 1 => b"st",
                (2, tens) if tens != 1 => b"nd",
                (3, tens) if tens != 1 => b"rd",
                _ => b"th",
            };
            digits.extend_from_slice(suffix);
        }
        self.signed(sign, digits, output)
    }

    fn signed(&self, sign: Option<u8>, digits: Vec<u8>, output: &mut Output<'_>) -> Result<()> {
        let mut field: Vec<u8> = sign.into_iter().collect();
        field.extend(digits);
        output.field(&field, self.width, self.is_left)
    }

    /// Digits, padded with zeros to the precision or, with the flag `0`, the width.
    fn padded(
        &self,
        digits: Vec<u8>,
        sign: Option<u8>,
        output: &mut Output<'_>,
    ) -> Result<Vec<u8>> {
        let mut wanted = self.precision.unwrap_or(0);
        if self.has_zeros {
            wanted = wanted.max(self.width.saturating_sub(usize::from(sign.is_some())));
        }
        let zeros = wanted.saturating_sub(digits.len());
        output.grow(zeros)?;
        let mut padded = vec![b'0'; zeros];
        padded.extend(digits);
        Ok(padded)
    }

    fn radix(&self, number: u64, output: &mut Output<'_>) -> Result<()> {
        let (digits, prefix) = match self.letter {
            b'o' => (format!("{number:o}"), "0"),
            b'X' => (format!("{number:X}"), "0X"),
            _ => (format!("{number:x}"), "0x"),
        };
        let mut field = Vec::new();
        if self.is_alternate && number != 0 && self.letter != b'p' {
            field.extend_from_slice(prefix.as_bytes());
        }
        field.extend(self.padded(digits.into_bytes(), None, output)?);
        output.field(&field, self.width, self.is_left)
    }

    fn real(&self, real: f64, output: &mut Output<'_>) -> Result<()> {
        /// Significant digits of a real; zeros follow.
        const DIGITS: i64 = 16;
        const DIGITS_MORE: i64 = 19;
        let sign = if real < 0.0 { Some(b'-') } else { self.sign };
        let real = real.abs();
        if real.is_infinite() {
            return self.signed(sign, b"Inf".to_vec(), output);
        }
        let mut precision = self.precision.unwrap_or(6);
        output.grow(precision)?;
        output.pace.work(EXACT)?;
        let is_general = matches!(self.letter, b'g' | b'G');
        if is_general {
            precision = precision.saturating_sub(1);
        }
        let is_fixed = self.letter == b'f';
        let digits_max = if self.in_characters {
            DIGITS_MORE
        } else {
            DIGITS
        };
        let exact = Decimal::exact(real);
        // Precisions are below 2^31, exponents small.
        let count = precision as i64 + 1 + if is_fixed { exact.exponent.into() } else { 0 };
        let Decimal {
            digits,
            mut exponent,
        } = exact.rounded(count.min(digits_max));
        let mut in_exponents = !is_fixed;
        let mut drops_zeros = self.in_characters;
        if is_general {
            drops_zeros = !self.is_alternate;
            // Compared as wide integers: a precision can be large.
            in_exponents = exponent < -4 || i64::from(exponent) > precision as i64;
            if !in_exponents {
                precision = usize::try_from(precision as i64 - i64::from(exponent)).unwrap_or(0);
            }
        }
        let shown_exponent = exponent;
        if in_exponents {
            exponent = 0;
        }
        let mut field = Vec::new();
        let mut rest = digits.into_iter();
        if exponent < 0 {
            field.push(b'0');
        } else {
            let whole: Vec<u8> = (0..=exponent)
                .map(|_| rest.next().unwrap_or(b'0'))
                .collect();
            if self.has_commas {
                field.extend(with_commas(&whole, output.pace)?)
            } else {
                field.extend(whole)
            }
        }
        let has_point = precision > 0 || self.is_alternate || self.in_characters;
        if has_point {
            field.push(b'.');
        }
        let zeros = usize::try_from(-1 - exponent).unwrap_or(0).min(precision);
        output.grow(precision)?;
        let length = field.len() + precision;
        field.resize(field.len() + zeros, b'0');
        field.extend(rest.take(precision - zeros));
        field.resize(length, b'0');
        if drops_zeros && has_point {
            while field.last() == Some(&b'0') {
                field.pop();
            }
            if field.last() == Some(&b'.') {
                if self.in_characters {
                    field.push(b'0');
                } else {
                    field.pop();
                }
            }
        }
        if in_exponents {
            let letter = self.letter.is_ascii_uppercase();
            field.push(if letter { b'E' } else { b'e' });
            field.push(if shown_exponent < 0 { b'-' } else { b'+' });
            let magnitude = format!("{:02}", shown_exponent.unsigned_abs());
            field.extend_from_slice(magnitude.as_bytes());
        }
        if self.has_zeros && !self.is_left {
            let length = field.len() + usize::from(sign.is_some());
            let zeros = self.width.saturating_sub(length);
            output.grow(zeros)?;
            field.splice(0..0, std::iter::repeat_n(b'0', zeros));
        }
        self.signed(sign, field, output)
    }

    /// The beginning of a text that the precision allows.
    fn cut<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let Some(precision) = self.precision else {
            return text;
        };
        if !self.in_characters {
            return &text[..precision.min(text.len())];
        }
        let mut starts = (0..text.len()).filter(|&at| !continues(text[at]));
        &text[..starts.nth(precision).unwrap_or(text.len())]
    }

    fn text(&self, text: &[u8], output: &mut Output<'_>) -> Result<()> {
        let mut width = self.width;
        if self.in_characters {
            width = width.saturating_add(text.iter().filter(|byte| continues(**byte)).count());
        }
        output.field(text, width, self.is_left)
    }

    /// The first character of a text, repeated by the precision.
    fn character(&self, value: &Value, output: &mut Output<'_>) -> Result<()> {
        let text = to_bytes(value).unwrap_or_default();
        let end = (1..text.len().min(4)).find(|&at| !continues(text[at]));
        let first = match text.first() {
            None => b"\0",
            Some(byte) if *byte >= 0xc0 => &text[..end.unwrap_or(text.len().min(4))],
            Some(_) => &text[..1],
        };
        let times = self.precision.unwrap_or(1).max(1);
        let spaces = self.width.saturating_sub(times);
        if !self.is_left {
            output.repeat(b" ", spaces)?;
        }
        output.repeat(first, times)?;
        if self.is_left {
            output.repeat(b" ", spaces)?;
        }
        Ok(())
    }

    /// Text with its quotes doubled, `%Q` with quotes around it.
    fn quoted(&self, value: &Value, output: &mut Output<'_>) -> Result<()> {
        let quote = if self.letter == b'w' { b'"' } else { b'\'' };
        let Some(text) = to_bytes(value) else {
            let null: &[u8] = if self.letter == b'Q' {
                b"NULL"
            } else {
                b"(NULL)"
            };
            return self.text(self.cut(null), output);
        };
        let text = self.cut(&text);
        let has_quotes = self.letter == b'Q';
        let mut quoted = Vec::new();
        output.grow(text.len().saturating_mul(2).saturating_add(2))?;
        quoted.extend(has_quotes.then_some(quote));
        for part in text.chunks(PART) {
            output.pace.work(part.len())?;
            for &byte in part {
                quoted.push(byte);
                quoted.extend((byte == quote).then_some(quote));
            }
        }
        quoted.extend(has_quotes.then_some(quote));
        self.text(&quoted, output)
    }
}

/// A width or precision that is an argument.
fn star<'v>(arguments: &mut impl Iterator<Item = &'v Value>) -> i64 {
    // SQLite takes 32 bits.
    let number = arguments.next().map_or(0, to_integer) as i32;
    if number == i32::MIN { 0 } else { number.into() }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The number at a byte, and its end.
fn digits(text: &[u8], mut at: usize) -> (usize, usize) {
    let mut number = 0usize;
    while let Some(digit) = text.get(at).filter(|byte| byte.is_ascii_digit()) {
        number = (number
            .saturating_mul(10)
            .saturating_add(usize::from(digit - b'0')))
        .min(1 << 31);
        at += 1;
    }
    (number, at)
}

fn continues(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

fn with_commas(digits: &[u8], pace: &mut Pace) -> Result<Vec<u8>> {
    let mut written = Vec::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.iter().enumerate() {
        pace.work(1)?;
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            written.push(b',');
        }
        written.push(*digit);
    }
    Ok(written)
}

/// A real as digits, the first before the point, times a power of ten.
struct Decimal {
    digits: Vec<u8>,
    exponent: i32,
}

/// More digits than any real has behind its point.
const EXACT: usize = 1100;

impl Decimal {
    fn exact(real: f64) -> Decimal {
        let text = format!("{real:.EXACT$e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits = digits.replace('.', "");
        Decimal {
            digits: digits.trim_end_matches('0').as_bytes().to_vec(),
            exponent: exponent.parse().unwrap_or(0),
        }
    }

    /// Rounded half up to `count` digits, which may be zero or negative.
    fn rounded(mut self, count: i64) -> Decimal {
        let Ok(count) = usize::try_from(count) else {
            return Decimal {
                digits: Vec::new(),
                exponent: 0,
            };
        };
        let rounds_up = self.digits.get(count).is_some_and(|digit| *digit >= b'5');
        self.digits.truncate(count);
        if rounds_up {
            match self.digits.iter().rposition(|digit| *digit != b'9') {
                Some(last) => {
                    self.digits[last] += 1;
                    self.digits[last + 1..].fill(b'0');
                }
                None => {
                    self.digits.fill(b'0');
                    self.digits.insert(0, b'1');
                    self.exponent += 1;
                }
            }
        }
        if self.digits.is_empty() {
            self.exponent = 0;
        }
        self
    }
}
