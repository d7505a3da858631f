//! Dates and moments as ISO 8601 writes them, in UTC: the texts that DATE and TIMESTAMP have in SQL.
//!
//! Invariant: years are 0000 to 9999, so texts are in order of time, and one that was read is written the same way again but for
//! its zone, its `T` and zeros at the end of a fraction.

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Days since 1970-01-01 of a date in the Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so the leap day is the last of its year; eras are 400 years.
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// The days since 1970-01-01 of `YYYY-MM-DD`; none if there is no such day.
pub fn parse_date(text: &str) -> Option<i64> {
    let mut digits = Digits(text.as_bytes());
    let days = date(&mut digits)?;
    digits.0.is_empty().then_some(days)
}

/// `YYYY-MM-DD` of a number of days since 1970-01-01; none outside of the years 0000 to 9999.
pub fn date_text(days: i64) -> Option<String> {
    // No day of those years is farther away.
    let days = Some(days).filter(|days| (-800_000..3_000_000).contains(days))?;
    let (year, month, day) = civil(days);
    (0..=9999)
        .contains(&year)
        .then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// The microseconds since 1970-01-01 00:00:00 of a date, perhaps with a time (`HH:MM`, `HH:MM:SS`, `HH:MM:SS.fraction`) behind a
/// space or `T`, and a zone (`Z`, `+HH:MM`) behind that; none if there is no such moment.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    let mut digits = Digits(text.as_bytes());
    let days = date(&mut digits)?;
    let mut moment = days * DAY;
    if digits.take(b' ') || digits.take(b'T') || digits.take(b't') {
        let (hour, minute) = hour_and_minute(&mut digits, 23)?;
        let (mut second, mut fraction) = (0, 0);
        if digits.take(b':') {
            second = digits.number(2, 59)?;
            if digits.take(b'.') {
                fraction = digits.fraction()?;
            }
        }
        moment += ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction;
        let _ = digits.take(b' ');
        let zone = if digits.take(b'Z') || digits.take(b'z') {
            0
        } else if digits.take(b'+') {
            zone(&mut digits)?
        } else if digits.take(b'-') {
            -zone(&mut digits)?
        } else {
            0
        };
        moment -= zone * 60_000_000;
    }
    let is_shown = digits.0.is_empty() && timestamp_text(moment).is_some();
    is_shown.then_some(moment)
}

/// `YYYY-MM-DD HH:MM:SS` of a number of microseconds since 1970-01-01 00:00:00, with as many digits behind the second as it
/// needs; none outside of the years 0000 to 9999.
pub fn timestamp_text(moment: i64) -> Option<String> {
    let mut text = date_text(moment.div_euclid(DAY))?;
    let rest = moment.rem_euclid(DAY);
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    text.push_str(&format!(" {hour:02}:{minute:02}:{second:02}"));
    if fraction > 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    Some(text)
}

fn date(digits: &mut Digits<'_>) -> Option<i64> {
    let year = digits.number(4, 9999)?;
    digits.expect(b'-')?;
    let month = digits.number(2, 12)?;
    digits.expect(b'-')?;
    let day = digits.number(2, 31)?;
    let days = (month > 0 && day > 0).then(|| days_of(year, month, day))?;
    // A day behind the end of its month is one of the next.
    (civil(days) == (year, month, day)).then_some(days)
}

fn hour_and_minute(digits: &mut Digits<'_>, hour_max: i64) -> Option<(i64, i64)> {
    let hour = digits.number(2, hour_max)?;
    digits.expect(b':')?;
    Some((hour, digits.number(2, 59)?))
}

/// Minutes east of Greenwich.
fn zone(digits: &mut Digits<'_>) -> Option<i64> {
    let (hour, minute) = hour_and_minute(digits, 14)?;
    Some(hour * 60 + minute)
}

/// The rest of a text, from which numbers are taken.
struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    fn take(&mut self, byte: u8) -> bool {
        let rest = self.0.strip_prefix(&[byte]);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    /// A number of exactly `count` digits that is at most `most`.
    fn number(&mut self, count: usize, most: i64) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let is_number = digits.iter().all(u8::is_ascii_digit);
        let number = digits.iter().fold(0, |number, digit| {
            number * 10 + i64::from(digit.wrapping_sub(b'0'))
        });
        self.0 = rest;
        (is_number && number <= most).then_some(number)
    }

    /// Digits behind the second as microseconds; more than six are cut.
    fn fraction(&mut self) -> Option<i64> {
        let digits = self
            .0
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let (fraction, rest) = self.0.split_at(digits);
        self.0 = rest;
        let digits = fraction.iter().copied().chain(std::iter::repeat(b'0'));
        let number = digits
            .take(6)
            .fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        (!fraction.is_empty()).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_is_read_as_it_is_written() {
        let (first, last) = (parse_date("0000-01-01"), parse_date("9999-12-31"));
        assert_eq!((first, last), (Some(-719_528), Some(2_932_896)));
        let mut before = String::new();
        for day in -719_528..=2_932_896 {
            let text = date_text(day).expect("a day of these years");
            assert_eq!(parse_date(&text), Some(day));
            assert!(before < text);
            before = text;
        }
        assert_eq!(date_text(-719_529), None);
        assert_eq!(date_text(2_932_897), None);
        assert_eq!(date_text(i64::MIN), None);
        assert_eq!(date_text(0).as_deref(), Some("1970-01-01"));
    }

    #[test]
    fn what_is_no_day_is_refused() {
        for text in [
            "",
            "2020",
            "2020-1-31",
            "2020-02-30",
            "2019-02-29",
            "2020-00-01",
            "2020-13-01",
            "2020-01-00",
            "2020-01-31 ",
            "-020-01-01",
            "2020-01-31T00:00",
            "20200131",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
        assert!(parse_date("2020-02-29").is_some());
    }

    #[test]
    fn moments_are_read_in_several_forms_and_written_in_one() {
        for (text, written) in [
            ("2020-01-31", "2020-01-31 00:00:00"),
            ("2020-01-31 12:30", "2020-01-31 12:30:00"),
            ("2020-01-31T12:30:05Z", "2020-01-31 12:30:05"),
            ("2020-01-31T00:30:05+01:00", "2020-01-30 23:30:05"),
            ("1969-12-31 23:59:59.5", "1969-12-31 23:59:59.5"),
            (
                "2020-01-31 12:30:05.1234567 -02:30",
                "2020-01-31 15:00:05.123456",
            ),
        ] {
            let moment = parse_timestamp(text);
            assert_eq!(
                moment.and_then(timestamp_text).as_deref(),
                Some(written),
                "{text}"
            );
            assert_eq!(parse_timestamp(written), moment);
        }
        for text in [
            "2020-01-31 ",
            "2020-01-31 24:00",
            "2020-01-31 12",
            "2020-01-31 12:30:05.",
            "2020-01-31 12:30:05 x",
            "0000-01-01T00:00+01:00",
            "now",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
