//! Dates and times in texts and numbers: `date`, `time`, `datetime`, `julianday`, `unixepoch` and `strftime`, as in SQLite
//! (lang_datefunc.html); `year`, `month`, `day` and `date_trunc`.
//!
//! Invariant: arguments that are no date, or outside of the years -4713 to 9999, give NULL. There are no time zones except
//! offsets: `localtime` and `utc` are refused. Formats and modifiers may be as long as other values: results made of them are
//! counted, and the work polls.

mod modifier;
mod moment;

use std::borrow::Cow;

use zipfdb_sql::query::Function;
use zipfdb_sql::shorten;

use self::modifier::apply;
use self::moment::{DAY, DateMoment, EPOCH, LAST};
use super::convert::to_bytes;
use crate::batch::text_or_blob;
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::{Error, Result, Value};

/// The value of `function(arguments)`; NULL for arguments that are no date.
///
/// # Errors
/// If a modifier asks for a time zone, the value is too long or the statement must end.
pub(super) fn call(
    function: Function,
    arguments: &[&Value],
    memory: &ValueMemory,
    pace: &mut Pace,
) -> Result<Value> {
    let (pattern, arguments) = match (function, arguments.split_first()) {
        (Function::Strftime | Function::DateTrunc, Some((pattern, rest))) => {
            match to_bytes(pattern) {
                Some(pattern) => (pattern, rest),
                None => return Ok(Value::Null),
            }
        }
        _ => (Cow::default(), arguments),
    };
    let Some(mut moment) = moment(arguments, memory)? else {
        return Ok(Value::Null);
    };
    let julian = moment.milliseconds();
    Ok(match function {
        // Below 2^49, so the casts keep the values.
        Function::JulianDay => Value::Real(julian as f64 / DAY as f64),
        Function::UnixEpoch if moment.has_fraction => Value::Real((julian - EPOCH) as f64 / 1000.0),
        Function::UnixEpoch => Value::Integer((julian / 1000) - EPOCH / 1000),
        Function::Year => Value::Integer(moment.civil_date().0),
        Function::Month => Value::Integer(moment.civil_date().1),
        Function::Day => Value::Integer(moment.civil_date().2),
        Function::DateTrunc => Value::Text(truncated(&pattern, moment, julian)?),
        Function::Date => Value::Text(moment.date_text()),
        Function::Time => Value::Text(moment.time_text()),
        Function::DateTime => Value::Text(format!("{} {}", moment.date_text(), moment.time_text())),
        _ => {
            let formatted = moment.formatted(&pattern, memory, pace)?;
            formatted.map_or(Value::Null, text_or_blob)
        }
    })
}

/// The beginning of the part of time that has a moment: a date, or of parts of days a date and a time.
///
/// # Errors
/// If there is no such part.
fn truncated(part: &[u8], mut moment: DateMoment, julian: i64) -> Result<String> {
    let (year, month, day) = moment.civil_date();
    let (hour, minute, second) = moment.civil_time();
    let date = |month: i64, day: i64| format!("{year:04}-{month:02}-{day:02}");
    Ok(match part.to_ascii_lowercase().as_slice() {
        b"year" => date(1, 1),
        b"quarter" => date((month - 1) / 3 * 3 + 1, 1),
        b"month" => date(month, 1),
        b"week" => {
            // Julian day 0 is a Monday, and days begin at noon.
            let days = (julian + DAY / 2) / DAY % 7;
            let mut monday = DateMoment {
                julian: Some(julian - days * DAY),
                ..DateMoment::default()
            };
            monday.date_text()
        }
        b"day" => date(month, day),
        b"hour" => format!("{} {hour:02}:00:00", date(month, day)),
        b"minute" => format!("{} {hour:02}:{minute:02}:00", date(month, day)),
        // Below 60.
        b"second" => format!(
            "{} {hour:02}:{minute:02}:{:02}",
            date(month, day),
            second as u8
        ),
        _ => {
            return Err(Error::Invalid {
                subject: format!("the part '{}' of date_trunc", shorten(part)),
                reason: "there is none; hint: parts are year, quarter, month, week, day, hour, minute and second".into(),
            });
        }
    })
}

/// The moment of the arguments: a date, a time or a number, and modifiers.
fn moment(arguments: &[&Value], memory: &ValueMemory) -> Result<Option<DateMoment>> {
    let Some((first, modifiers)) = arguments.split_first() else {
        return Ok(Some(DateMoment::now()));
    };
    let parsed = match first {
        Value::Integer(integer) => Some(DateMoment::of_number(*integer as f64)),
        Value::Real(real) => Some(DateMoment::of_number(*real)),
        other => to_bytes(other).and_then(|text| DateMoment::parse(&text)),
    };
    let Some(mut moment) = parsed else {
        return Ok(None);
    };
    for (index, modifier) in modifiers.iter().enumerate() {
        let Some(written) = to_bytes(modifier) else {
            return Ok(None);
        };
        let mut text = memory.buffer("a modifier", written.len() as u64)?;
        text.extend_from_slice(&written);
        text.make_ascii_lowercase();
        if matches!(&*text, b"localtime" | b"utc") {
            return Err(Error::Invalid {
                subject: format!("the modifier '{}'", shorten(&text)),
                reason:
                    "there are no time zones; hint: an offset such as '+01:00' changes the time"
                        .into(),
            });
        }
        if !apply(&mut moment, &text, index == 0) {
            return Ok(None);
        }
    }
    let julian = moment.milliseconds();
    if modifiers.is_empty() && moment.date.is_some_and(|(.., day)| day > 28) {
        // A day behind the end of its month is one of the next.
        moment.forget_parts();
    }
    Ok((!moment.is_invalid && (0..=LAST).contains(&julian)).then_some(moment))
}
