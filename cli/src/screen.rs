//! The output of rows: standard output, and at the prompt a pager for results that are longer than the screen.
//!
//! Invariant: a result that fits is written as it is; of one that does not, at most a screen is kept before the pager
//! gets it. A pager that cannot be started or that its reader leaves is no failure of the statement.

use std::fmt;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use zipfdb::storage::IoReason;

/// The pager if `PAGER` is not set: lines are not wrapped, colours stay, the text stays on the screen.
const PAGER: &[&str] = &["less", "-SRFX"];

/// Bytes of text that start a pager, even without many lines.
const HELD_BYTES: usize = 1 << 20;

/// Lines of the screen that a result leaves to the prompt and the time.
const LINES_LEFT: usize = 3;

/// Standard output, of which every failed write is an error.
#[cfg(unix)]
pub fn standard_output() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    // A handle of the standard library takes a descriptor that is not open for writing for one that takes all.
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Standard output.
#[cfg(not(unix))]
pub fn standard_output() -> io::Result<io::Stdout> {
    Ok(io::stdout())
}

/// Takes the rows of one result after the other.
pub trait Output: Write {
    /// Ends a result. Returns how long the reader held the writer up.
    fn end(&mut self) -> io::Result<Duration> {
        self.flush()?;
        Ok(Duration::ZERO)
    }

    /// Whether a pager may be used, if there is one.
    fn pager(&mut self) -> Option<&mut bool> {
        None
    }
}

impl<W: Write> Output for io::BufWriter<W> {}

#[cfg(test)]
impl Output for Vec<u8> {}

/// The reader left the pager before the end.
#[derive(Debug)]
pub struct PagerLeft;

impl fmt::Display for PagerLeft {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the pager was left")
    }
}

impl std::error::Error for PagerLeft {}

impl PagerLeft {
    /// Whether this is why writing failed.
    pub fn is_cause(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<PagerLeft>())
    }
}

/// A terminal that pages what is longer than it.
pub struct Screen<W> {
    terminal: W,
    /// The command and its arguments; empty for none.
    pager: Vec<String>,
    is_enabled: bool,
    height: fn() -> Option<u16>,
    state: ScreenState,
    waited: Duration,
}

enum ScreenState {
    /// The beginning of a result, and how many lines it has.
    Held { text: Vec<u8>, lines: usize },
    /// The rest of a result that no pager shows.
    Direct,
    /// A pager shows the result.
    Paged { pager: Child },
}

const EMPTY: ScreenState = ScreenState::Held {
    text: Vec::new(),
    lines: 0,
};

impl<W: Write> Screen<W> {
    /// Writes to `terminal`, which has `height` lines. `pager` is the value of `PAGER`, if it is set.
    pub fn new(terminal: W, pager: Option<&str>, height: fn() -> Option<u16>) -> Screen<W> {
        let pager: Vec<String> = match pager {
            Some(command) => command.split_whitespace().map(String::from).collect(),
            None => PAGER.iter().copied().map(String::from).collect(),
        };
        Screen {
            terminal,
            // `cat` is how people say that they want none.
            pager: if pager == ["cat"] { Vec::new() } else { pager },
            is_enabled: true,
            height,
            state: EMPTY,
            waited: Duration::ZERO,
        }
    }

    /// Starts the pager, or goes on without one.
    fn open(&mut self) -> ScreenState {
        let begun = Instant::now();
        let Some((program, arguments)) = self.pager.split_first().filter(|_| self.is_enabled)
        else {
            return ScreenState::Direct;
        };
        if (self.height)().is_none() || self.terminal.flush().is_err() {
            return ScreenState::Direct;
        }
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped());
        // Otherwise less shows the lines of tables as bytes where the locale is not set.
        if std::env::var_os("LESSCHARSET").is_none() {
            command.env("LESSCHARSET", "utf-8");
        }
        let started = command.spawn();
        self.waited += begun.elapsed();
        match started {
            Ok(pager) => ScreenState::Paged { pager },
            Err(error) => {
                if self.pager != PAGER {
                    tracing::warn!("cannot start the pager `{program}`: {}", IoReason(&error));
                }
                // Trying again and again would not help.
                self.is_enabled = false;
                ScreenState::Direct
            }
        }
    }
}

fn page(pager: &mut Child, text: &[u8]) -> io::Result<()> {
    match pager.stdin.as_mut().map(|stdin| stdin.write_all(text)) {
        Some(Ok(())) => Ok(()),
        _ => Err(io::Error::other(PagerLeft)),
    }
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if let ScreenState::Held { text, lines } = &mut self.state {
            text.extend_from_slice(buffer);
            *lines += buffer.iter().filter(|byte| **byte == b'\n').count();
            let height = (self.height)().map_or(0, usize::from);
            if *lines + LINES_LEFT <= height && text.len() <= HELD_BYTES {
                return Ok(buffer.len());
            }
            let text = std::mem::take(text);
            self.state = self.open();
            self.write_all(&text)?;
            return Ok(buffer.len());
        }
        match &mut self.state {
            ScreenState::Paged { pager } => {
                let begun = Instant::now();
                let written = page(pager, buffer);
                self.waited += begun.elapsed();
                written.map(|()| buffer.len())
            }
            _ => self.terminal.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            ScreenState::Held { .. } => Ok(()),
            ScreenState::Direct => self.terminal.flush(),
            ScreenState::Paged { pager } => pager.stdin.as_mut().map_or(Ok(()), Write::flush),
        }
    }
}

impl<W: Write> Output for Screen<W> {
    fn end(&mut self) -> io::Result<Duration> {
        match std::mem::replace(&mut self.state, EMPTY) {
            ScreenState::Held { text, .. } => self.terminal.write_all(&text)?,
            ScreenState::Direct => {}
            ScreenState::Paged { mut pager } => {
                let begun = Instant::now();
                drop(pager.stdin.take());
                pager.wait()?;
                self.waited += begun.elapsed();
            }
        }
        self.terminal.flush()?;
        Ok(std::mem::take(&mut self.waited))
    }

    fn pager(&mut self) -> Option<&mut bool> {
        (!self.pager.is_empty()).then_some(&mut self.is_enabled)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_result_that_fits_is_written_at_its_end() {
        let mut screen = Screen::new(Vec::new(), Some("no-such-program"), || Some(6));
        screen.write_all(b"1\n2\n3\n").unwrap();
        assert!(screen.terminal.is_empty());
        screen.end().unwrap();
        assert_eq!(screen.terminal, b"1\n2\n3\n");
    }

    #[test]
    fn without_a_pager_long_results_are_written_all_the_same() {
        for pager in ["no-such-program", "", "cat"] {
            let mut screen = Screen::new(Vec::new(), Some(pager), || Some(6));
            screen.write_all(b"1\n2\n3\n4\n").unwrap();
            screen.write_all(b"5\n").unwrap();
            assert_eq!(screen.terminal, b"1\n2\n3\n4\n5\n", "{pager}");
            screen.end().unwrap();
        }
    }

    #[test]
    #[cfg(unix)]
    fn what_is_longer_than_the_screen_goes_to_the_pager() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("paged");
        let pager = format!("cp /dev/stdin {}", target.display());
        let mut screen = Screen::new(Vec::new(), Some(&pager), || Some(6));
        for line in ["1\n", "2\n", "3\n", "4\n", "5\n"] {
            screen.write_all(line.as_bytes()).unwrap();
        }
        screen.end().unwrap();
        assert!(screen.terminal.is_empty());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "1\n2\n3\n4\n5\n");

        std::fs::remove_file(&target).unwrap();
        *screen.pager().unwrap() = false;
        screen.write_all(b"1\n2\n3\n4\n5\n").unwrap();
        screen.end().unwrap();
        assert_eq!(screen.terminal, b"1\n2\n3\n4\n5\n");
        assert!(!target.exists());
    }

    #[test]
    #[cfg(unix)]
    fn leaving_the_pager_is_distinguished_from_an_output_that_is_gone() {
        let mut screen = Screen::new(Vec::new(), Some("true"), || Some(6));
        let line = [b'\n'; 4096];
        // A pipe takes some before it notices.
        let error = (0..10_000)
            .find_map(|_| screen.write_all(&line).err())
            .unwrap();
        assert!(PagerLeft::is_cause(&error));
        screen.end().unwrap();
    }
}
