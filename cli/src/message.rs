//! The messages on standard error: errors with their place in the SQL, warnings, notes.
//!
//! Invariant: a message is readable without colour, and colour is used only on a terminal that wants it (`NO_COLOR`
//! unset). Nothing that comes from files or from the user reaches the terminal as a control character. A standard error
//! that cannot be written to is not an error. Rows never come here.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use crate::error::Error;
use crate::output::visible;

/// Bold red.
const ERROR_STYLE: &str = "1;31";

/// Bold cyan.
const NOTICE_STYLE: &str = "1;36";

/// The styles of names of files, numbers and matches on standard output.
pub const FILE_STYLE: &str = "35";
pub const NUMBER_STYLE: &str = "32";
pub const MATCH_STYLE: &str = "1;31";

/// True if standard error may be coloured.
pub fn colour() -> bool {
    is_coloured(&io::stderr())
}

/// True if what is written there may be coloured.
pub fn is_coloured(stream: &impl IsTerminal) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stream.is_terminal()
        && !is_set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Says what went wrong, with the line of SQL or of a query and a caret if the place is known.
pub fn error(error: &Error) {
    if let Error::Query {
        excerpt,
        problem,
        hint,
    } = error
    {
        return typed(excerpt, problem, hint.as_deref());
    }
    say(&render(error, colour()));
}

/// Shows what the database traces as the other messages are shown: `warning: what happened`. Fields other than the message are for
/// programs and not shown.
pub struct TraceFormat;

impl<S, N> FormatEvent<S, N> for TraceFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let colour = writer.has_ansi_escapes();
        let level = match *event.metadata().level() {
            Level::ERROR => paint("error", ERROR_STYLE, colour),
            Level::WARN => paint("warning", "1;33", colour),
            level => level.to_string().to_lowercase(),
        };
        let mut message = TracedMessage::default();
        event.record(&mut message);
        writeln!(writer, "{level}: {}", visible(&message.0))
    }
}

/// The message of a traced event.
#[derive(Default)]
struct TracedMessage(String);

impl Visit for TracedMessage {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Says what is no error and worth a word.
pub fn notice(text: &str) {
    let label = paint("notice", NOTICE_STYLE, colour());
    say(&format!("{label}: {}\n", visible(text)));
}

/// Says something as it is.
pub fn note(text: &str) {
    say(&format!("{text}\n"));
}

/// A time as people read it: `0.42 ms`, `12 ms`, `3.21 s`.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        _ if seconds < 0.001 => format!("{:.0} us", seconds * 1e6),
        _ if seconds < 0.1 => format!("{:.1} ms", seconds * 1e3),
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

/// A number with its digits in groups of three: `3,930,161`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 row`, `1,234 rows`.
pub fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(number))
}

/// What went wrong with a statement or a query that was typed, below `excerpt`, the place in it.
pub fn typed(excerpt: &str, what: &str, hint: Option<&str>) {
    let colour = colour();
    let mut text = format!(
        "{excerpt}{}: {}\n",
        paint("error", ERROR_STYLE, colour),
        visible(what)
    );
    if let Some(hint) = hint {
        text.push_str(&format!(
            "{}: {}\n",
            paint("hint", NOTICE_STYLE, colour),
            visible(hint)
        ));
    }
    say(&text);
}

fn say(text: &str) {
    // An error of standard error cannot be reported.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn render(error: &Error, colour: bool) -> String {
    let text = error.to_string();
    let mut text = format!(
        "{}: {}\n",
        paint("error", ERROR_STYLE, colour),
        visible(&text)
    );
    if let Some(excerpt) = error.excerpt() {
        for line in excerpt.lines() {
            text.push_str("  | ");
            text.push_str(&visible(line));
            text.push('\n');
        }
    }
    text
}

/// `text` in an ANSI style, if `colour` is wanted.
pub fn paint(text: &str, style: &str, colour: bool) -> String {
    if colour {
        format!("\u{1b}[{style}m{text}\u{1b}[0m")
    } else {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_figures_or_less() {
        let shown = |microseconds| time(Duration::from_micros(microseconds));
        assert_eq!(shown(0), "0 us");
        assert_eq!(shown(420), "420 us");
        assert_eq!(shown(1_234), "1.2 ms");
        assert_eq!(shown(123_400), "123 ms");
        assert_eq!(shown(3_214_000), "3.21 s");
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(3_930_161), "3,930,161");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(1_234, "row"), "1,234 rows");
    }

    #[test]
    fn no_control_character_of_a_name_is_shown() {
        let path = "x\u{1b}[2J\n.zdb".into();
        let error = Error::DemoExists {
            path,
            is_database: false,
        };
        let shown = render(&error, false);
        assert!(
            shown.starts_with("error: `x\\x1b[2J\\n.zdb` exists; hint: "),
            "{shown}"
        );
        assert_eq!(shown.matches(char::is_control).count(), 1);
    }

    #[test]
    fn a_trace_is_its_message_without_control_characters() {
        use std::sync::{Arc, Mutex, PoisonError};
        #[derive(Clone, Default)]
        struct Shown(Arc<Mutex<Vec<u8>>>);
        impl Write for Shown {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                shown.write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let shown = Shown::default();
        let writer = shown.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .event_format(TraceFormat)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(database = "rdb", "skipped {}", "a\u{1b}[2J\nb");
        });
        let bytes = shown
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        assert_eq!(
            String::from_utf8_lossy(&bytes),
            "warning: skipped a\\x1b[2J\\nb\n"
        );
    }

    #[test]
    fn colour_only_adds_escapes() {
        assert_eq!(paint("error", "1;31", false), "error");
        assert_eq!(paint("error", "1;31", true), "\u{1b}[1;31merror\u{1b}[0m");
    }
}
