//! The prompt: reads statements over several lines, runs them, knows the dot commands.
//!
//! Invariant: an error ends a statement, never the prompt. Rows go to standard output, all else to standard error. What
//! edits and remembers lines is behind [`Lines`], so that the loop runs without a terminal.

mod command;
mod terminal;

use std::io::Write;

use zipfdb::{Pending, Position, SqlError, StatementStream, StatementText};

use crate::error::Error;
use crate::message;
use crate::session::Session;
use command::Command;
pub use terminal::Terminal;

/// Where lines come from.
pub trait Lines {
    /// The next line, without its line end.
    fn read(&mut self, prompt: &'static str) -> Result<Line, Error>;

    /// Keeps an entry for later sessions.
    fn remember(&mut self, entry: &str);
}

/// What reading a line gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line.
    Text(String),
    /// Ctrl-C: forget what was typed.
    Interrupted,
    /// Ctrl-D, or nothing more to read.
    End,
}

/// Reads and runs until the user leaves or the output is gone.
pub fn run<W: Write>(session: &mut Session<W>, lines: &mut dyn Lines) -> Result<(), Error> {
    let mut repl = Repl {
        session,
        statements: StatementStream::new(),
        entry: String::new(),
        timer: true,
    };
    loop {
        match lines.read(prompt(repl.statements.pending()))? {
            Line::End => return Ok(()),
            Line::Interrupted => repl.forget(),
            Line::Text(line) => {
                if repl.line(&line, lines)? == Next::Quit {
                    return Ok(());
                }
            }
        }
    }
}

/// Shows what the line to come continues. All are of one length, so that lines stay aligned.
fn prompt(pending: Pending) -> &'static str {
    match pending {
        Pending::Nothing => "zipf> ",
        Pending::Statement => " ...> ",
        Pending::Text => "  '.> ",
        Pending::Name => "  \".> ",
        Pending::Comment => " /*.> ",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Quit,
}

struct Repl<'a, W> {
    session: &'a mut Session<W>,
    statements: StatementStream,
    /// The lines typed since the last complete statement.
    entry: String,
    timer: bool,
}

impl<W: Write> Repl<'_, W> {
    fn line(&mut self, line: &str, lines: &mut dyn Lines) -> Result<Next, Error> {
        if self.entry.is_empty() {
            if line.trim().is_empty() {
                return Ok(Next::Continue);
            }
            if Command::is_command(line) {
                lines.remember(line.trim());
                return self.command(line);
            }
        } else {
            self.entry.push('\n');
        }
        self.entry.push_str(line);
        self.statements.feed(line);
        self.statements.feed("\n");
        while let Some(statement) = self.statements.next_statement() {
            self.statement(statement)?;
        }
        if self.statements.pending() == Pending::Nothing {
            lines.remember(&self.entry);
            self.forget();
        }
        Ok(Next::Continue)
    }

    fn forget(&mut self) {
        self.entry.clear();
        // Not `discard`, whose positions go on: errors count lines from the beginning of an entry.
        self.statements = StatementStream::new();
    }

    /// Runs a statement. Only an output that is gone is an error here.
    fn statement(&mut self, statement: Result<StatementText, SqlError>) -> Result<(), Error> {
        match self.session.run(statement, None) {
            Ok(outcome) if self.timer => {
                let time = message::time(outcome.time);
                match outcome.rows {
                    Some(1) => message::note(&format!("1 row, {time}")),
                    Some(rows) => message::note(&format!("{rows} rows, {time}")),
                    None => message::note(&time),
                }
            }
            Ok(_) => {}
            Err(error @ Error::Output { .. }) => return Err(error),
            Err(error) => message::error(&error),
        }
        Ok(())
    }

    fn command(&mut self, line: &str) -> Result<Next, Error> {
        match Command::parse(line) {
            Ok(Command::Help) => message::note(&command::help()),
            Ok(Command::Corpora) => {
                let text = "SELECT * FROM corpora()".to_string();
                self.statement(Ok(StatementText {
                    text,
                    start: Position::START,
                }))?;
            }
            Ok(Command::Mode(Some(format))) => self.session.format = format,
            Ok(Command::Mode(None)) => message::note(self.session.format.name()),
            Ok(Command::Timer(Some(timer))) => self.timer = timer,
            Ok(Command::Timer(None)) => message::note(if self.timer { "on" } else { "off" }),
            Ok(Command::Quit) => return Ok(Next::Quit),
            Err(problem) => message::complaint(&problem),
        }
        Ok(Next::Continue)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::output::Format;
    use zipfdb::Database;

    /// Lines from a list, and what was shown and remembered meanwhile.
    struct Scripted {
        lines: std::vec::IntoIter<Line>,
        prompts: Vec<&'static str>,
        entries: Vec<String>,
    }

    impl Lines for Scripted {
        fn read(&mut self, prompt: &'static str) -> Result<Line, Error> {
            self.prompts.push(prompt);
            Ok(self.lines.next().unwrap_or(Line::End))
        }

        fn remember(&mut self, entry: &str) {
            self.entries.push(entry.to_string());
        }
    }

    fn run_lines(lines: Vec<Line>) -> (Scripted, String) {
        let mut session = Session::new(
            Database::in_memory().unwrap(),
            Vec::new(),
            Format::Csv,
            || None,
        );
        let mut lines = Scripted {
            lines: lines.into_iter(),
            prompts: Vec::new(),
            entries: Vec::new(),
        };
        run(&mut session, &mut lines).unwrap();
        let rows = String::from_utf8(session.into_output()).unwrap();
        (lines, rows)
    }

    fn text(lines: &[&str]) -> Vec<Line> {
        lines
            .iter()
            .map(|line| Line::Text(line.to_string()))
            .collect()
    }

    const LIST: &str = "SELECT corpus FROM corpora() ORDER BY corpus;";

    #[test]
    fn a_statement_goes_on_until_its_semicolon() {
        let (lines, rows) = run_lines(text(&[
            "",
            "CREATE",
            "",
            "CORPUS a -- ; not here",
            "/* nor ; here",
            "*/; CREATE CORPUS b; SELECT corpus",
            "FROM corpora() WHERE corpus = 'x;",
            "'; SELECT corpus FROM corpora() ORDER BY corpus;",
        ]));
        assert_eq!(rows, "corpus\ncorpus\na\nb\n");
        let prompts = [
            "zipf> ", "zipf> ", " ...> ", " ...> ", " ...> ", " /*.> ", " ...> ", "  '.> ",
            "zipf> ",
        ];
        assert_eq!(lines.prompts, prompts);
        assert_eq!(lines.entries.len(), 1);
        assert!(lines.entries[0].starts_with("CREATE\n\nCORPUS a -- ; not here\n/* nor"));
    }

    #[test]
    fn interrupting_forgets_the_entry() {
        let mut all = text(&["CREATE CORPUS a;", "CREATE CORPUS b"]);
        all.push(Line::Interrupted);
        all.extend(text(&[LIST]));
        let (lines, rows) = run_lines(all);
        assert_eq!(rows, "corpus\na\n");
        assert_eq!(
            lines.prompts,
            ["zipf> ", "zipf> ", " ...> ", "zipf> ", "zipf> "]
        );
        assert_eq!(lines.entries, ["CREATE CORPUS a;", LIST]);
    }

    #[test]
    fn an_error_ends_its_statement_only() {
        let (_, rows) = run_lines(text(&[
            "CREATE CORPUS a; nonsense; CREATE CORPUS b;",
            "more;",
            LIST,
        ]));
        assert_eq!(rows, "corpus\na\nb\n");
    }

    #[test]
    fn commands_act_at_once() {
        let (lines, rows) = run_lines(text(&[
            "CREATE CORPUS a;",
            ".timer off",
            ".mode jsonl",
            LIST,
            ".mode nothing",
            ".mode csv",
            ".corpora",
            ".quit",
            "DROP CORPUS a;",
        ]));
        let (first, corpora) = rows.split_once('\n').unwrap();
        assert_eq!(first, "{\"corpus\":\"a\"}");
        assert!(
            corpora.starts_with("corpus,") && corpora.contains("\na,"),
            "{corpora}"
        );
        assert_eq!(lines.prompts.len(), 8);
    }

    #[test]
    fn a_dot_inside_a_statement_is_no_command() {
        let (lines, _) = run_lines(text(&["SELECT", ".quit", ";", "quit"]));
        assert_eq!(lines.prompts, ["zipf> ", " ...> ", " ...> ", "zipf> "]);
    }

    #[test]
    fn an_output_that_is_gone_ends_the_prompt() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut session = Session::new(Database::in_memory().unwrap(), Gone, Format::Csv, || None);
        let lines = text(&[LIST, LIST]);
        let mut lines = Scripted {
            lines: lines.into_iter(),
            prompts: Vec::new(),
            entries: Vec::new(),
        };
        let error = run(&mut session, &mut lines).unwrap_err();
        assert!(error.is_broken_pipe());
        assert_eq!(lines.prompts.len(), 1);
    }
}
