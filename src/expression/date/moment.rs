//! `DateMoment`: a moment as milliseconds, and as year, month, day and time.
//!
//! A moment is a number of milliseconds since noon in Greenwich on November 24, 4714 B.C., or a date and a time, or both; one is
//! computed from the other when needed. Invariant: where both are known they mean the same, but a day may lie behind the end of
//! its month until it is computed again.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::expression::number::number_prefix;
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// Milliseconds of a day.
pub(super) const DAY: i64 = 86_400_000;

/// January 1, 1970, in milliseconds.
pub(super) const EPOCH: i64 = 210_866_760_000_000;

/// The last millisecond of the year 9999.
pub(super) const LAST: i64 = 464_269_060_799_999;

/// A moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DateMoment {
    /// Milliseconds, if they are known.
    pub(super) julian: Option<i64>,
    /// Year, month, day, if they are known.
    pub(super) date: Option<(i64, i64, i64)>,
    /// Hour, minute, second, if they are known.
    pub(super) time: Option<(i64, i64, f64)>,
    /// Minutes east of Greenwich that `time` counts from.
    pub(super) zone: i64,
    /// A number whose meaning depends on a modifier.
    pub(super) number: Option<f64>,
    /// The number of days by which the day lies behind the end of its month.
    pub(super) excess_days: i64,
    /// Whether seconds are shown with their fraction.
    pub(super) has_fraction: bool,
    /// Whether it is outside of all years.
    pub(super) is_invalid: bool,
}

impl DateMoment {
    pub(super) fn now() -> DateMoment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let milliseconds = since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0));
        DateMoment {
            julian: Some(EPOCH + milliseconds),
            ..DateMoment::default()
        }
    }

    /// A Julian day, unless a modifier gives the number another meaning.
    pub(super) fn of_number(number: f64) -> DateMoment {
        let is_day = (0.0..5_373_484.5).contains(&number);
        DateMoment {
            number: Some(number),
            // Below 2^49 by the test above.
            julian: is_day.then_some((number * DAY as f64 + 0.5) as i64),
            ..DateMoment::default()
        }
    }

    pub(super) fn parse(text: &[u8]) -> Option<DateMoment> {
        let end = text.iter().position(|&byte| byte == 0);
        let text = &text[..end.unwrap_or(text.len())];
        if let Some(mut moment) =
            DateMoment::parse_date(text).or_else(|| DateMoment::parse_time(text))
        {
            if moment.time.is_some_and(|(hour, ..)| hour == 24) {
                // The next day begins.
                moment.milliseconds();
                moment.excess_days = 0;
            }
            return Some(moment);
        }
        if text.eq_ignore_ascii_case(b"now") {
            return Some(DateMoment::now());
        }
        if text.eq_ignore_ascii_case(b"subsec") || text.eq_ignore_ascii_case(b"subsecond") {
            return Some(DateMoment {
                has_fraction: true,
                ..DateMoment::now()
            });
        }
        match number_prefix(text) {
            (Value::Integer(integer), true) => Some(DateMoment::of_number(integer as f64)),
            (Value::Real(real), true) => Some(DateMoment::of_number(real)),
            _ => None,
        }
    }

    /// `YYYY-MM-DD`, perhaps with a time behind it.
    fn parse_date(text: &[u8]) -> Option<DateMoment> {
        let (is_negative, rest) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut digits = Digits(rest);
        let year = digits.take(4, 0..=14_712)?;
        digits.byte(b'-')?;
        let month = digits.take(2, 1..=12)?;
        digits.byte(b'-')?;
        let day = digits.take(2, 1..=31)?;
        let mut rest = digits.0;
        while let [b'T' | b' ' | b'\t'..=b'\r', behind @ ..] = rest {
            rest = behind;
        }
        let mut moment = match rest {
            [] => DateMoment::default(),
            time => DateMoment::parse_time(time)?,
        };
        moment.date = Some((if is_negative { -year } else { year }, month, day));
        moment.count_excess();
        if moment.zone != 0 {
            moment.milliseconds();
        }
        Some(moment)
    }

    /// `HH:MM`, `HH:MM:SS`, `HH:MM:SS.SSS`, perhaps with an offset behind it.
    pub(super) fn parse_time(text: &[u8]) -> Option<DateMoment> {
        let mut digits = Digits(text);
        let hour = digits.take(2, 0..=24)?;
        digits.byte(b':')?;
        let minute = digits.take(2, 0..=59)?;
        let mut second = 0.0;
        if digits.byte(b':').is_some() {
            second = digits.take(2, 0..=59)? as f64;
            if let [b'.', b'0'..=b'9', ..] = digits.0 {
                let fraction = &digits.0[1..];
                let count = fraction.iter().take_while(|byte| byte.is_ascii_digit());
                let count = count.count();
                let (mut number, mut scale) = (0.0, 1.0);
                for digit in &fraction[..count] {
                    number = number * 10.0 + f64::from(digit - b'0');
                    scale *= 10.0;
                }
                second += (number / scale).min(0.999);
                digits.0 = &fraction[count..];
            }
        }
        Some(DateMoment {
            time: Some((hour, minute, second)),
            zone: parse_zone(digits.0)?,
            ..DateMoment::default()
        })
    }

    /// The moment in milliseconds.
    pub(super) fn milliseconds(&mut self) -> i64 {
        if let Some(julian) = self.julian {
            return julian;
        }
        let (mut year, mut month, day) = self.date.unwrap_or((2000, 1, 1));
        if !(-4713..=9999).contains(&year) || self.number.is_some() {
            self.is_invalid = true;
            return 0;
        }
        if month <= 2 {
            year -= 1;
            month += 12;
        }
        let century = (year + 4800) / 100;
        let leap = 38 - century + century / 4;
        let by_year = 36525 * (year + 4716) / 100;
        let by_month = 306_001 * (month + 1) / 10_000;
        // Half a day less than the sum: days begin at noon.
        let mut julian = (by_year + by_month + day + leap - 1525) * DAY + DAY / 2;
        if let Some((hour, minute, second)) = self.time {
            // Below 60,000.
            julian += hour * 3_600_000 + minute * 60_000 + (second * 1000.0 + 0.5) as i64;
            if self.zone != 0 || hour == 24 {
                julian -= self.zone * 60_000;
                self.forget_parts();
            }
        }
        self.julian = Some(julian);
        julian
    }

    /// Drops date and time, which are computed again when needed.
    pub(super) fn forget_parts(&mut self) {
        self.date = None;
        self.time = None;
        self.zone = 0;
    }

    pub(super) fn civil_date(&mut self) -> (i64, i64, i64) {
        if let Some(date) = self.date {
            return date;
        }
        let date = match self.julian {
            None => (2000, 1, 1),
            Some(julian) if !(0..=LAST).contains(&julian) => {
                self.is_invalid = true;
                (2000, 1, 1)
            }
            Some(julian) => {
                // All numbers are below 2^31, where these casts drop fractions only.
                let days = (julian + DAY / 2) / DAY;
                let alpha = ((days as f64 + 32_044.75) / 36_524.25) as i64 - 52;
                let a = days + 1 + alpha - ((alpha + 100) / 4) + 25;
                let b = a + 1524;
                let c = ((b as f64 - 122.1) / 365.25) as i64;
                let d = 36525 * (c & 32767) / 100;
                let e = ((b - d) as f64 / 30.6001) as i64;
                let day = b - d - (30.6001 * e as f64) as i64;
                let month = if e < 14 { e - 1 } else { e - 13 };
                (if month > 2 { c - 4716 } else { c - 4715 }, month, day)
            }
        };
        self.date = Some(date);
        date
    }

    pub(super) fn civil_time(&mut self) -> (i64, i64, f64) {
        if let Some(time) = self.time {
            return time;
        }
        let milliseconds = (self.milliseconds() + DAY / 2).rem_euclid(DAY);
        let minutes = milliseconds / 60_000;
        let second = (milliseconds % 60_000) as f64 / 1000.0;
        let time = (minutes / 60, minutes % 60, second);
        self.number = None;
        self.time = Some(time);
        time
    }

    /// Counts the days by which the day lies behind the end of its month.
    pub(super) fn count_excess(&mut self) {
        let Some((year, month, day)) = self.date else {
            return;
        };
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 if is_leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        self.excess_days = (day - days).max(0);
    }

    pub(super) fn date_text(&mut self) -> String {
        let (year, month, day) = self.civil_date();
        let sign = if year < 0 { "-" } else { "" };
        format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
    }

    pub(super) fn time_text(&mut self) -> String {
        let (hour, minute, second) = self.civil_time();
        if self.has_fraction {
            // Whole milliseconds, not rounded up to the next minute.
            let milliseconds = (second * 1000.0 + 0.5) as i64;
            let (second, rest) = (milliseconds / 1000, milliseconds % 1000);
            return format!("{hour:02}:{minute:02}:{second:02}.{rest:03}");
        }
        // Below 60.
        format!("{hour:02}:{minute:02}:{:02}", second as i64)
    }

    /// The day of the week, from 0 for Monday.
    fn days_after_monday(&mut self) -> i64 {
        ((self.milliseconds() + DAY / 2) / DAY) % 7
    }

    /// The day of the year, from 0.
    fn day_of_year(&mut self) -> i64 {
        let (year, ..) = self.civil_date();
        let mut first = DateMoment {
            date: Some((year, 1, 1)),
            time: Some(self.civil_time()),
            ..DateMoment::default()
        };
        (self.milliseconds() - first.milliseconds() + DAY / 2) / DAY
    }

    /// The moment in the form of `pattern`; none if the pattern has an unknown conversion.
    ///
    /// # Errors
    /// If it is too long, or the statement must end.
    pub(super) fn formatted(
        &mut self,
        pattern: &[u8],
        memory: &ValueMemory,
        pace: &mut Pace,
    ) -> Result<Option<Vec<u8>>> {
        const WHAT: &str = "the result of strftime";
        let (mut text, mut part) = (Vec::new(), String::new());
        let mut rest = pattern;
        while let Some(at) = memchr::memchr(b'%', rest) {
            memory.check(WHAT, (text.len() + at) as u64)?;
            text.extend_from_slice(&rest[..at]);
            part.clear();
            let letter = rest.get(at + 1);
            if letter
                .and_then(|&letter| self.convert(letter, &mut part))
                .is_none()
            {
                return Ok(None);
            }
            // A conversion takes as long as some hundred bytes.
            pace.work(at + (1 << 9))?;
            text.extend_from_slice(part.as_bytes());
            rest = &rest[at + 2..];
        }
        memory.check(WHAT, (text.len() + rest.len()) as u64)?;
        text.extend_from_slice(rest);
        Ok(Some(text))
    }

    /// Appends the text of a conversion of a pattern; none if it is unknown.
    fn convert(&mut self, letter: u8, text: &mut String) -> Option<()> {
        use std::fmt::Write;

        let (year, month, day) = self.civil_date();
        let (hour, minute, second) = self.civil_time();
        let half = if hour % 12 == 0 { 12 } else { hour % 12 };
        let written = match letter {
            b'd' => write!(text, "{day:02}"),
            b'e' => write!(text, "{day:2}"),
            b'f' => write!(text, "{:06.3}", second.min(59.999)),
            b'F' => text.write_str(&self.date_text()),
            b'g' => write!(text, "{:02}", self.week_year() % 100),
            b'G' => write!(text, "{:04}", self.week_year()),
            b'H' => write!(text, "{hour:02}"),
            b'I' => write!(text, "{half:02}"),
            b'j' => write!(text, "{:03}", self.day_of_year() + 1),
            b'J' => {
                let days = self.milliseconds() as f64 / DAY as f64;
                text.write_str(&short(days))
            }
            b'k' => write!(text, "{hour:2}"),
            b'l' => write!(text, "{half:2}"),
            b'm' => write!(text, "{month:02}"),
            b'M' => write!(text, "{minute:02}"),
            b'p' => text.write_str(if hour >= 12 { "PM" } else { "AM" }),
            b'P' => text.write_str(if hour >= 12 { "pm" } else { "am" }),
            b'R' => write!(text, "{hour:02}:{minute:02}"),
            b's' if self.has_fraction => {
                let seconds = (self.milliseconds() - EPOCH) as f64 / 1000.0;
                write!(text, "{seconds:.3}")
            }
            b's' => write!(text, "{}", self.milliseconds() / 1000 - EPOCH / 1000),
            // Below 60, here and next.
            b'S' => write!(text, "{:02}", second as i64),
            b'T' => write!(text, "{hour:02}:{minute:02}:{:02}", second as i64),
            b'u' => write!(text, "{}", self.days_after_monday() + 1),
            b'U' => {
                let after_sunday = (self.days_after_monday() + 1) % 7;
                write!(text, "{:02}", (self.day_of_year() + 7 - after_sunday) / 7)
            }
            b'V' => {
                let mut thursday = self.thursday();
                write!(text, "{:02}", thursday.day_of_year() / 7 + 1)
            }
            b'w' => write!(text, "{}", (self.days_after_monday() + 1) % 7),
            b'W' => {
                let after_monday = self.days_after_monday();
                write!(text, "{:02}", (self.day_of_year() + 7 - after_monday) / 7)
            }
            b'Y' => {
                let sign = if year < 0 { "-" } else { "" };
                write!(text, "{sign}{:04}", year.abs())
            }
            b'%' => text.write_char('%'),
            _ => return None,
        };
        written.ok()
    }

    /// The Thursday of its week, whose year is that of the week.
    fn thursday(&mut self) -> DateMoment {
        let julian = self.milliseconds() + (3 - self.days_after_monday()) * DAY;
        DateMoment {
            julian: Some(julian),
            ..DateMoment::default()
        }
    }

    fn week_year(&mut self) -> i64 {
        self.thursday().civil_date().0
    }
}

/// 16 digits, without zeros behind the last.
fn short(real: f64) -> String {
    let text = format!("{real:.15e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: usize = exponent.parse().unwrap_or(0);
    let fixed = format!("{real:.*}", 15usize.saturating_sub(exponent));
    if digits.contains('.') && fixed.contains('.') {
        fixed.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        fixed
    }
}

/// `+HH:MM`, `-HH:MM`, `Z` or nothing, in minutes; none for anything else.
fn parse_zone(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    let (sign, rest) = match text {
        [] => return Some(0),
        [b'Z' | b'z', rest @ ..] => return rest.trim_ascii().is_empty().then_some(0),
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        _ => return None,
    };
    let mut digits = Digits(rest);
    let hours = digits.take(2, 0..=14)?;
    digits.byte(b':')?;
    let minutes = digits.take(2, 0..=59)?;
    let is_end = digits.0.trim_ascii().is_empty();
    is_end.then_some(sign * (minutes + hours * 60))
}

/// The rest of a text.
pub(super) struct Digits<'a>(pub(super) &'a [u8]);

impl Digits<'_> {
    /// A number of exactly `count` digits, within bounds.
    pub(super) fn take(
        &mut self,
        count: usize,
        bounds: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let mut number = 0;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return None;
            }
            number = number * 10 + i64::from(digit - b'0');
        }
        self.0 = rest;
        bounds.contains(&number).then_some(number)
    }

    pub(super) fn byte(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }
}
