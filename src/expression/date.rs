//! Dates and times in texts and numbers: `date`, `time`, `datetime`, `julianday`, `unixepoch` and `strftime`, as SQLite has them
//! (lang_datefunc.html).
//!
//! Invariant: what is no date, or outside of the years -4713 to 9999, gives NULL. There are no time zones but offsets: `localtime` and
//! `utc` are refused.

mod modifier;
mod moment;

use zipfdb_sql::query::Function;

use self::modifier::apply;
use self::moment::{DAY, DateMoment, EPOCH, LAST};
use super::convert::to_bytes;
use crate::{Error, Result, Value};

/// The value of `function(arguments)`; NULL for what is no date.
///
/// # Errors
/// If a modifier asks for a time zone.
pub(super) fn call(function: Function, arguments: &[&Value]) -> Result<Value> {
    let (pattern, arguments) = match (function, arguments.split_first()) {
        (Function::Strftime, Some((pattern, rest))) => match to_bytes(pattern) {
            Some(pattern) => (pattern.into_owned(), rest),
            None => return Ok(Value::Null),
        },
        _ => (Vec::new(), arguments),
    };
    let Some(mut moment) = moment(arguments)? else {
        return Ok(Value::Null);
    };
    let julian = moment.milliseconds();
    Ok(match function {
        // Below 2^49, so the casts keep the values.
        Function::JulianDay => Value::Real(julian as f64 / DAY as f64),
        Function::UnixEpoch if moment.has_fraction => Value::Real((julian - EPOCH) as f64 / 1000.0),
        Function::UnixEpoch => Value::Integer((julian / 1000) - EPOCH / 1000),
        Function::Date => Value::Text(moment.date_text()),
        Function::Time => Value::Text(moment.time_text()),
        Function::DateTime => Value::Text(format!("{} {}", moment.date_text(), moment.time_text())),
        _ => moment.formatted(&pattern).map_or(Value::Null, Value::Text),
    })
}

/// What arguments say: a date, a time or a number, and modifiers.
fn moment(arguments: &[&Value]) -> Result<Option<DateMoment>> {
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
        let Some(text) = to_bytes(modifier) else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
        if matches!(&*text, "localtime" | "utc") {
            return Err(Error::Invalid {
                subject: format!("the modifier '{text}'"),
                reason:
                    "there are no time zones; hint: an offset such as '+01:00' changes the time"
                        .into(),
            });
        }
        if !apply(&mut moment, text.as_bytes(), index == 0) {
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
