//! The prompt: reads statements over several lines, runs them, knows the dot commands.
//!
//! Invariant: an error ends a statement, never the prompt, and so do bytes that are not UTF-8. Rows go to standard output, all else to standard error. What
//! edits and remembers lines is behind [`Lines`], so that the loop runs without a terminal.

mod complete;
mod scan;
mod terminal;

use std::io::{self, IsTerminal};

use zipfdb::sql::{Pending, Position, SqlError, StatementStream, StatementText};

use crate::arguments::Source;
use crate::caret;
use crate::command::Command;
use crate::command::action::{Step, act};
use crate::error::Error;
use crate::message::{self, counted};
use crate::screen::Output;
use crate::script::{Script, ScriptEnd};
use crate::session::{Outcome, Session, terminal_width};
pub use terminal::Terminal;

/// Where lines come from.
pub trait Lines {
    /// The next line, without its line end. It continues `entry`, which is empty at the beginning of a statement.
    fn read(&mut self, prompt: &'static str, entry: &str) -> Result<Line, Error>;

    /// Keeps an entry for later sessions.
    fn remember(&mut self, entry: &str);
}

/// What reading a line gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line.
    Text(String),
    /// A line that is not UTF-8.
    NotUtf8,
    /// Ctrl-C: forget what was typed.
    Interrupted,
    /// Ctrl-D, or nothing more to read.
    End,
}

/// The message about a line that is not UTF-8.
const NOT_UTF8: &str = "the line is not UTF-8, so neither it nor what it continues was run; hint: have the terminal send UTF-8, or write \
     other bytes as X'...'";

/// Reads and runs until the user leaves or the output is gone.
pub fn run<W: Output>(session: &mut Session<W>, lines: &mut dyn Lines) -> Result<(), Error> {
    let mut repl = Repl {
        session,
        statements: StatementStream::new(),
        entry: String::new(),
    };
    loop {
        repl.session.check()?;
        let is_in_transaction = repl.session.database().is_in_transaction();
        let prompt = prompt(repl.statements.pending(), is_in_transaction);
        match lines.read(prompt, &repl.entry)? {
            Line::End => return Ok(()),
            Line::Interrupted => repl.forget(),
            Line::NotUtf8 => {
                let problem = NOT_UTF8.to_owned();
                message::error(&Error::Command { problem });
                // Without the line the rest could mean something else.
                repl.forget();
            }
            Line::Text(line) => {
                if repl.line(&line, lines)? == Next::Quit {
                    return Ok(());
                }
            }
        }
    }
}

/// Shows what the line to come continues, with a star in a transaction. All of either kind are of one length, so that lines
/// stay aligned.
fn prompt(pending: Pending, is_in_transaction: bool) -> &'static str {
    match (pending, is_in_transaction) {
        (Pending::Nothing, false) => "zipf> ",
        (Pending::Statement, false) => " ...> ",
        (Pending::Text, false) => "  '.> ",
        (Pending::Name, false) => "  \".> ",
        (Pending::Comment, false) => " /*.> ",
        (Pending::Nothing, true) => "zipf*> ",
        (Pending::Statement, true) => " ...*> ",
        (Pending::Text, true) => "  '.*> ",
        (Pending::Name, true) => "  \".*> ",
        (Pending::Comment, true) => " /*.*> ",
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
}

impl<W: Output> Repl<'_, W> {
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
        let text = statement.as_ref().map(|statement| statement.text.clone());
        let text = text.unwrap_or_default();
        match self.session.run(statement, None) {
            Ok(outcome) => self.show_time(outcome),
            Err(error @ (Error::Output { .. } | Error::Signal)) => return Err(error),
            Err(error) => complain(&error, &text),
        }
        Ok(())
    }

    /// Runs a statement that a command stands for.
    fn run(&mut self, text: String) -> Result<(), Error> {
        self.statement(Ok(StatementText {
            text,
            start: Position::START,
        }))
    }

    fn show_time(&self, outcome: Outcome) {
        // Times are for people; a log of messages is easier to compare without them.
        if self.session.timer && io::stderr().is_terminal() {
            let time = message::time(outcome.time);
            message::note(&match outcome.rows {
                Some(rows) => format!("{} in {time}", counted(rows, "row")),
                None => format!("done in {time}"),
            });
        }
    }

    fn command(&mut self, line: &str) -> Result<Next, Error> {
        let step = match act(self.session, line) {
            Ok(Step::Read(path)) => {
                let script = Script::open(&Source::File(path));
                script
                    .and_then(|script| script.run(self.session))
                    .map(|end| match end {
                        ScriptEnd::Read => Step::Done(None),
                        ScriptEnd::Quit => Step::Quit,
                    })
            }
            step => step,
        };
        match step {
            Ok(Step::Run(text)) => self.run(text)?,
            Ok(Step::Done(Some(outcome))) => self.show_time(outcome),
            Ok(Step::Done(None) | Step::Read(_)) => {}
            Ok(Step::Quit) => return Ok(Next::Quit),
            Err(error @ (Error::Output { .. } | Error::Signal)) => return Err(error),
            Err(error) => complain(&error, ""),
        }
        Ok(Next::Continue)
    }
}

/// Says what went wrong: for a statement that was typed with the place in it, on lines of their own.
fn complain(error: &Error, statement: &str) {
    let Error::Statement { source, .. } = error else {
        return message::error(error);
    };
    match &**source {
        zipfdb::Error::Interrupted => message::note("interrupted"),
        zipfdb::Error::Sql(sql) if !statement.is_empty() => {
            let place = caret::excerpt(statement, sql.position(), terminal_width());
            let text = sql.to_string();
            let what = text
                .strip_prefix(&format!("{}: ", sql.position()))
                .unwrap_or(&text);
            let hint = sql.hint();
            let what = hint
                .and_then(|hint| what.strip_suffix(hint)?.strip_suffix("; hint: "))
                .unwrap_or(what);
            message::typed(&place, what, hint);
        }
        _ => message::error(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command;
    use crate::output::Format;
    use zipfdb::Database;
    use zipfdb::output::RowFormat;

    /// Lines from a list, and what was shown and remembered meanwhile.
    struct Scripted {
        lines: std::vec::IntoIter<Line>,
        prompts: Vec<&'static str>,
        entries: Vec<String>,
    }

    impl Lines for Scripted {
        fn read(&mut self, prompt: &'static str, _entry: &str) -> Result<Line, Error> {
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
            Format::Rows(RowFormat::Csv),
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
    fn a_line_that_is_not_utf8_is_refused_with_what_it_continues() {
        let mut all = text(&[
            "CREATE CORPUS a; CREATE CORPUS b; BEGIN; INSERT INTO a (file, content) VALUES ('f', 'x');",
            "DELETE FROM a",
        ]);
        all.push(Line::NotUtf8);
        all.extend(text(&[";", "COMMIT; SELECT word FROM a;"]));
        let (lines, rows) = run_lines(all);
        assert_eq!(rows, "word\nx\n");
        assert_eq!(
            lines.prompts,
            [
                "zipf> ", "zipf*> ", " ...*> ", "zipf*> ", "zipf*> ", "zipf> "
            ]
        );
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
    fn files_go_in_and_out_by_commands() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("a b.txt"), "to be or not").unwrap();
        let shown = |name: &str| command::quoted(path(name).to_str().unwrap());
        let (_, rows) = run_lines(text(&[
            &format!(".import {} new", shown("a b.txt")),
            // What cannot be read leaves no corpus behind.
            &format!(".import {} other", shown("missing")),
            &format!(".export new {}", shown("out")),
            &format!(
                ".export {} SELECT word FROM new WHERE position < 2 ORDER BY position;",
                shown("two words.csv")
            ),
            "SELECT corpus, words FROM corpora();",
        ]));
        assert_eq!(rows, "corpus,words\nnew,4\n");
        let written = std::fs::read_to_string(path("out").join("a b.txt"));
        assert_eq!(written.unwrap(), "to be or not");
        let written = std::fs::read_to_string(path("two words.csv"));
        assert_eq!(written.unwrap(), "word\nto\nbe\n");
    }

    #[test]
    fn a_file_is_read_up_to_its_first_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.sql");
        std::fs::write(&path, "CREATE CORPUS a;\nnonsense;\nCREATE CORPUS b;").unwrap();
        let read = format!(".read {}", command::quoted(path.to_str().unwrap()));
        let (lines, rows) = run_lines(text(&[&read, ".read no.sql", LIST]));
        assert_eq!(rows, "corpus\na\n");
        assert_eq!(lines.entries[0], read);
    }

    #[test]
    fn the_schema_is_sql_that_creates_the_corpora() {
        let (_, rows) = run_lines(text(&[
            "CREATE CORPUS \"b c\" WITH (segment_size = '64MiB'); CREATE CORPUS a;",
            ".schema a",
            ".schema none",
            ".schema",
        ]));
        let a = "CREATE CORPUS a WITH (tokenizer = 'unicode', segment_size = '1GiB');\n";
        let b = "CREATE CORPUS \"b c\" WITH (tokenizer = 'unicode', segment_size = '64MiB');\n";
        let columns = "\
--   file      TEXT
--   word      TEXT
--   position  INTEGER
--   offset    INTEGER
--   length    INTEGER
";
        assert_eq!(rows, format!("{a}{columns}{a}{columns}\n{b}{columns}"));
    }

    #[test]
    fn the_tree_of_explain_has_no_borders() {
        let (_, rows) = run_lines(text(&[
            "CREATE CORPUS a;",
            ".mode table",
            "explain SELECT word, COUNT(*) FROM a GROUP BY word ORDER BY 2;",
        ]));
        assert!(rows.lines().count() > 1, "{rows}");
        assert!(
            rows.is_ascii() && rows.lines().any(|line| line.starts_with("  ")),
            "{rows}"
        );
    }

    #[test]
    fn a_dot_inside_a_statement_is_no_command() {
        let (lines, _) = run_lines(text(&["SELECT", ".quit", ";", "quit"]));
        assert_eq!(lines.prompts, ["zipf> ", " ...> ", " ...> ", "zipf> "]);
    }

    #[test]
    fn the_prompt_shows_a_transaction() {
        let (lines, _) = run_lines(text(&[
            "CREATE CORPUS a; BEGIN;",
            "DELETE FROM",
            "a;",
            "COMMIT;",
        ]));
        assert_eq!(
            lines.prompts,
            ["zipf> ", "zipf*> ", " ...*> ", "zipf*> ", "zipf> "]
        );
    }

    #[test]
    fn parameters_are_kept_between_statements() {
        let (_, rows) = run_lines(text(&[
            ".parameter set word 'b'",
            ".parameter set n 7",
            "SELECT :word AS w, :n + 1 AS n;",
            ".parameter clear word",
            "SELECT :n AS n;",
            "SELECT :word;",
        ]));
        assert_eq!(rows, "w,n\nb,8\nn\n7\n");
    }

    #[test]
    fn an_output_that_is_gone_ends_the_prompt() {
        struct Gone;
        impl io::Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        impl Output for Gone {}
        let mut session = Session::new(
            Database::in_memory().unwrap(),
            Gone,
            Format::Rows(RowFormat::Csv),
            || None,
        );
        let lines = text(&[LIST, LIST]);
        let mut lines = Scripted {
            lines: lines.into_iter(),
            prompts: Vec::new(),
            entries: Vec::new(),
        };
        let error = run(&mut session, &mut lines).unwrap_err();
        assert!(error.is_reader_gone());
        assert_eq!(lines.prompts.len(), 1);
    }
}
