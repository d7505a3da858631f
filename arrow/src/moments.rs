//! Dates and moments: as numbers in Arrow, as texts in SQL.
//!
//! Invariant: a text that was made of a number is read as the same number. Years are 0000 to 9999, as in SQL.

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime};

/// Days since 1970-01-01 of `YYYY-MM-DD`.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(date.to_epoch_days())
}

/// Microseconds since 1970-01-01 00:00:00 of `YYYY-MM-DD HH:MM:SS`, perhaps with a fraction.
pub(crate) fn parse_timestamp(text: &str) -> Option<i64> {
    let moment = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").ok()?;
    Some(moment.and_utc().timestamp_micros())
}

/// `YYYY-MM-DD` of a number of days since 1970-01-01.
pub(crate) fn date_text(days: i64) -> Option<String> {
    let date = NaiveDate::from_epoch_days(i32::try_from(days).ok()?)?;
    is_in_range(date).then(|| date.format("%Y-%m-%d").to_string())
}

/// `YYYY-MM-DD HH:MM:SS` of a number of nanoseconds since 1970-01-01 00:00:00, with a fraction where there is one; none if it has more
/// digits than microseconds have.
pub(crate) fn timestamp_text(nanoseconds: i128) -> Option<String> {
    const SECOND: i128 = 1_000_000_000;
    let seconds = i64::try_from(nanoseconds.div_euclid(SECOND)).ok()?;
    // Less than a second.
    let fraction = nanoseconds.rem_euclid(SECOND) as u32;
    let moment = DateTime::from_timestamp(seconds, fraction)?.naive_utc();
    if !is_in_range(moment.date()) || !fraction.is_multiple_of(1_000) {
        return None;
    }
    let mut text = moment.format("%Y-%m-%d %H:%M:%S").to_string();
    if fraction > 0 {
        text.push_str(format!(".{:06}", fraction / 1_000).trim_end_matches('0'));
    }
    Some(text)
}

fn is_in_range(date: NaiveDate) -> bool {
    (0..=9999).contains(&date.year())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_stand_for_the_numbers_that_they_were_made_of() {
        for days in [-719_528, -1, 0, 1, 19_000, 2_932_896] {
            let text = date_text(days).unwrap();
            assert_eq!(text.len(), 10);
            assert_eq!(parse_date(&text), i32::try_from(days).ok(), "{text}");
        }
        for microseconds in [
            -62_167_219_200_000_000,
            -1,
            0,
            1,
            1_500_000,
            253_402_300_799_999_999,
        ] {
            let text = timestamp_text(i128::from(microseconds) * 1_000).unwrap();
            assert_eq!(parse_timestamp(&text), Some(microseconds), "{text}");
        }
        assert_eq!(
            timestamp_text(2_500_000_000).unwrap(),
            "1970-01-01 00:00:02.5"
        );
    }

    #[test]
    fn what_sql_has_no_text_for_is_none() {
        assert_eq!(date_text(-719_529), None);
        assert_eq!(date_text(2_932_897), None);
        assert_eq!(date_text(i64::MAX), None);
        assert_eq!(timestamp_text(1), None);
        assert_eq!(timestamp_text(i128::MAX), None);
    }
}
