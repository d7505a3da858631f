//! Modifiers of moments: `+1 day`, `start of month`, `weekday 0` and so on.
//!
//! Invariant: a text that is no modifier, or one that does not fit the moment before it, is refused.

use super::moment::{DAY, DateMoment, Digits, EPOCH};
use crate::Value;
use crate::expression::convert::to_real;
use crate::expression::number::number_prefix;

/// Applies a modifier in lower case. Returns whether it is one. `is_first` if no modifier precedes it.
pub(super) fn apply(moment: &mut DateMoment, text: &[u8], is_first: bool) -> bool {
    match text {
        b"auto" => is_first && automatic(moment),
        b"julianday" => is_first && moment.julian.is_some() && moment.number.take().is_some(),
        b"unixepoch" => is_first && unix_epoch(moment),
        b"ceiling" => {
            moment.milliseconds();
            moment.forget_parts();
            moment.excess_days = 0;
            true
        }
        b"floor" => {
            let julian = moment.milliseconds() - moment.excess_days * DAY;
            moment.julian = Some(julian);
            moment.forget_parts();
            true
        }
        b"subsec" | b"subsecond" => {
            moment.has_fraction = true;
            true
        }
        b"start of month" | b"start of year" | b"start of day" => start_of(moment, &text[9..]),
        [b'+' | b'-' | b'0'..=b'9', ..] => shift(moment, text),
        _ => match text.strip_prefix(b"weekday ") {
            Some(day) => weekday(moment, day),
            None => false,
        },
    }
}

/// A number is seconds since 1970 if it is no Julian day.
fn automatic(moment: &mut DateMoment) -> bool {
    if moment.julian.is_none()
        && let Some(number) = moment.number
        && (-210_866_760_000.0..=253_402_300_799.0).contains(&number)
    {
        set_unix_epoch(moment, number);
    }
    if moment.julian.is_some() {
        moment.number = None;
    }
    true
}

fn unix_epoch(moment: &mut DateMoment) -> bool {
    let Some(number) = moment.number else {
        return false;
    };
    let milliseconds = number * 1000.0 + EPOCH as f64;
    if !(0.0..464_269_060_800_000.0).contains(&milliseconds) {
        return false;
    }
    set_unix_epoch(moment, number);
    true
}

fn set_unix_epoch(moment: &mut DateMoment, number: f64) {
    moment.forget_parts();
    // Below 2^49 by the tests of the callers.
    moment.julian = Some((number * 1000.0 + EPOCH as f64 + 0.5) as i64);
    moment.number = None;
}

fn start_of(moment: &mut DateMoment, unit: &[u8]) -> bool {
    if moment.julian.is_none() && moment.date.is_none() && moment.time.is_none() {
        return false;
    }
    let (year, month, day) = moment.civil_date();
    moment.date = Some(match unit {
        b"month" => (year, month, 1),
        b"year" => (year, 1, 1),
        _ => (year, month, day),
    });
    moment.time = Some((0, 0, 0.0));
    moment.zone = 0;
    moment.number = None;
    moment.julian = None;
    true
}

/// Moves to the next day that is this day of the week, from 0 for Sunday.
fn weekday(moment: &mut DateMoment, day: &[u8]) -> bool {
    let (number, is_whole) = number_prefix(day);
    let number = to_real(&number);
    if !is_whole || !(0.0..7.0).contains(&number) || number.fract() != 0.0 {
        return false;
    }
    moment.civil_date();
    moment.civil_time();
    moment.zone = 0;
    moment.julian = None;
    let julian = moment.milliseconds();
    // 0 to 6.
    let wanted = number as i64;
    let mut today = ((julian + 129_600_000) / DAY) % 7;
    if today > wanted {
        today -= 7;
    }
    moment.julian = Some(julian + (wanted - today) * DAY);
    moment.forget_parts();
    true
}

/// `+N units`, `+HH:MM:SS`, `+YYYY-MM-DD`, `+YYYY-MM-DD HH:MM:SS`.
fn shift(moment: &mut DateMoment, text: &[u8]) -> bool {
    let is_year = |at: usize| {
        let digits = text[1..at].iter().all(u8::is_ascii_digit);
        (at == 5 || at == 6) && digits
    };
    let end = (1..text.len()).find(|&at| match text[at] {
        b':' | b' ' | b'\t'..=b'\r' => true,
        b'-' => is_year(at),
        _ => false,
    });
    let end = end.unwrap_or(text.len());
    let (number, true) = number_prefix(&text[..end]) else {
        return false;
    };
    match text.get(end) {
        Some(b'-') => shift_by_date(moment, text, end),
        Some(b':') => shift_by_time(moment, text, text[0] == b'-'),
        _ => shift_by_unit(moment, &number, text[end..].trim_ascii_start()),
    }
}

fn shift_by_date(moment: &mut DateMoment, text: &[u8], end: usize) -> bool {
    let is_negative = match text[0] {
        b'-' => true,
        b'+' => false,
        _ => return false,
    };
    let mut digits = Digits(&text[1..]);
    let parts = digits.take(end - 1, 0..=14_712).zip({
        let month = digits.byte(b'-').and_then(|()| digits.take(2, 0..=11));
        month.zip(digits.byte(b'-').and_then(|()| digits.take(2, 0..=30)))
    });
    let Some((years, (months, days))) = parts else {
        return false;
    };
    let rest = digits.0;
    let sign = if is_negative { -1 } else { 1 };
    add_months(moment, sign * (years * 12 + months));
    let julian = moment.milliseconds() + sign * days * DAY;
    moment.julian = Some(julian);
    moment.forget_parts();
    match rest {
        [] => true,
        [b' ' | b'\t'..=b'\r', time @ ..] => shift_by_time(moment, time, is_negative),
        _ => false,
    }
}

fn shift_by_time(moment: &mut DateMoment, text: &[u8], is_negative: bool) -> bool {
    let time = match text {
        [b'0'..=b'9', ..] => text,
        [_, time @ ..] => time,
        [] => return false,
    };
    let Some(mut shift) = DateMoment::parse_time(time) else {
        return false;
    };
    let milliseconds = (shift.milliseconds() - DAY / 2).rem_euclid(DAY);
    let julian = moment.milliseconds();
    moment.forget_parts();
    moment.julian = Some(if is_negative {
        julian - milliseconds
    } else {
        julian + milliseconds
    });
    true
}

fn shift_by_unit(moment: &mut DateMoment, number: &Value, unit: &[u8]) -> bool {
    /// The units, each with the largest allowed number of them and its seconds.
    const UNITS: [(&[u8], f64, f64); 6] = [
        (b"second", 4.6427e+14, 1.0),
        (b"minute", 7.7379e+12, 60.0),
        (b"hour", 1.2897e+11, 3600.0),
        (b"day", 5_373_485.0, 86_400.0),
        (b"month", 176_546.0, 30.0 * 86_400.0),
        (b"year", 14_713.0, 365.0 * 86_400.0),
    ];
    let unit = unit.strip_suffix(b"s").unwrap_or(unit);
    let mut count = to_real(number);
    let known = UNITS.iter().find(|(name, ..)| *name == unit);
    let Some((name, _, seconds)) = known.filter(|(_, most, _)| count.abs() < *most) else {
        return false;
    };
    let half = if count < 0.0 { -0.5 } else { 0.5 };
    moment.milliseconds();
    moment.excess_days = 0;
    let months = match *name {
        b"month" => 1,
        b"year" => 12,
        _ => 0,
    };
    if months > 0 {
        // Below 2^18.
        add_months(moment, count.trunc() as i64 * months);
        count = count.fract();
    }
    // Saturates far outside of all years.
    let milliseconds = (count * 1000.0 * seconds + half) as i64;
    let julian = moment.milliseconds();
    moment.julian = Some(julian.saturating_add(milliseconds));
    moment.forget_parts();
    true
}

/// Adds months; a day that the month does not have is one of the next.
fn add_months(moment: &mut DateMoment, months: i64) {
    let (year, month, day) = moment.civil_date();
    moment.civil_time();
    let months = year * 12 + (month - 1) + months;
    moment.date = Some((months.div_euclid(12), months.rem_euclid(12) + 1, day));
    moment.count_excess();
    moment.zone = 0;
    moment.julian = None;
}
