//! Lines edited on the terminal, with completion, colours and a history file.
//!
//! Invariant: without a usable history file the prompt works all the same, only without memory; without colour nothing is
//! shown that was not typed. A line that is not UTF-8 is read to its end, so that no part of it is taken for another line.

use std::borrow::Cow;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Behavior, CompletionType, Config, Context, Editor, Helper};
use zipfdb::Database;

use super::complete::{self, Completion};
use super::scan::{Kind, scan};
use super::{Line, Lines};
use crate::command::Command;
use crate::error::Error;
use crate::message;
use crate::vocabulary::{KEYWORDS, STATEMENTS};

const HISTORY_ENTRIES: usize = 1_000;
/// Characters of a word from which on the rest of it is suggested.
const HINT_CHARACTERS: usize = 2;

const KEYWORD_STYLE: &str = "1;34";
const TEXT_STYLE: &str = "32";
const FAINT_STYLE: &str = "2";

/// The terminal with line editing.
pub struct Terminal {
    editor: Editor<Assistant, FileHistory>,
    history: Option<PathBuf>,
}

impl Terminal {
    /// Takes the terminal and reads the history file. Completion knows the names in `database`.
    pub fn new(database: Database) -> Result<Terminal, Error> {
        let failed = Error::of_terminal;
        let config = Config::builder()
            .max_history_size(HISTORY_ENTRIES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(failed)?
            .completion_type(CompletionType::List)
            // Standard output may be a file, which takes rows but no prompts.
            .behavior(if is_stdio() {
                Behavior::Stdio
            } else {
                Behavior::PreferTerm
            })
            .build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(Assistant {
            database,
            entry: String::new(),
            colour: message::colour(),
        }));
        let history = history_path(&|name| std::env::var_os(name).map(PathBuf::from));
        if let Some(path) = &history {
            // The first session has none to load.
            let _ = editor.load_history(path);
        }
        Ok(Terminal { editor, history })
    }
}

/// Whether lines are edited on standard input and output.
fn is_stdio() -> bool {
    io::stdout().is_terminal()
}

/// Completion, hints and highlighting of the line that is edited.
struct Assistant {
    database: Database,
    /// The lines of the statement before the one that is edited.
    entry: String,
    colour: bool,
}

impl Assistant {
    fn completion(&self, line: &str, at: usize) -> Completion {
        let corpora = self.database.corpora();
        if self.entry.is_empty() && Command::is_command(line) {
            return complete::command(line, at, &corpora);
        }
        let text = format!("{}{line}", self.entry);
        let before = self.entry.len();
        let Completion { start, candidates } = complete::statement(&text, before + at, &corpora);
        // A text that began on a line above cannot be replaced from there.
        match start.checked_sub(before) {
            Some(start) => Completion { start, candidates },
            None => Completion {
                start: at,
                candidates: Vec::new(),
            },
        }
    }

    /// A line with keywords, texts and comments in colour.
    fn paint(&self, line: &str) -> String {
        let text = format!("{}{line}", self.entry);
        let before = self.entry.len();
        let mut painted = String::new();
        let mut at = before;
        for token in scan(&text).iter().filter(|token| token.end > before) {
            let start = token.start.max(before);
            let piece = &text[start..token.end];
            painted.push_str(&text[at..start]);
            match token.kind {
                Kind::Word if is_keyword(piece) => {
                    painted.push_str(&message::paint(piece, KEYWORD_STYLE, true));
                }
                Kind::Text { .. } => painted.push_str(&message::paint(piece, TEXT_STYLE, true)),
                Kind::Comment => painted.push_str(&message::paint(piece, FAINT_STYLE, true)),
                _ => painted.push_str(piece),
            }
            at = token.end;
        }
        painted.push_str(&text[at..]);
        painted
    }
}

fn is_keyword(word: &str) -> bool {
    let mut words = STATEMENTS
        .iter()
        .chain(KEYWORDS)
        .flat_map(|entry| entry.split(' '));
    words.any(|keyword| keyword.eq_ignore_ascii_case(word))
}

impl Helper for Assistant {}

impl Validator for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let Completion { start, candidates } = self.completion(line, at);
        let pair = |candidate: String| Pair {
            display: candidate.clone(),
            replacement: candidate,
        };
        Ok((start, candidates.into_iter().map(pair).collect()))
    }
}

impl Hinter for Assistant {
    type Hint = String;

    /// The rest of a word that can only be one. Not without colour, for it would look like something typed.
    fn hint(&self, line: &str, at: usize, _context: &Context<'_>) -> Option<String> {
        if !self.colour || at < line.len() {
            return None;
        }
        let Completion { start, candidates } = self.completion(line, at);
        let typed = line.get(start..at)?;
        match candidates.as_slice() {
            [only] if typed.chars().count() >= HINT_CHARACTERS => only
                .strip_prefix(typed)
                .filter(|rest| !rest.is_empty())
                .map(String::from),
            _ => None,
        }
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _at: usize) -> Cow<'l, str> {
        if self.colour {
            Cow::Owned(self.paint(line))
        } else {
            Cow::Borrowed(line)
        }
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(message::paint(hint, FAINT_STYLE, self.colour))
    }

    fn highlight_char(&self, _line: &str, _at: usize, kind: CmdKind) -> bool {
        self.colour && kind != CmdKind::MoveCursor
    }
}

impl Lines for Terminal {
    fn read(&mut self, prompt: &'static str, entry: &str) -> Result<Line, Error> {
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.entry.clear();
            if !entry.is_empty() {
                assistant.entry.push_str(entry);
                assistant.entry.push('\n');
            }
        }
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Line::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                typed::discard();
                Ok(Line::NotUtf8)
            }
            Err(source) => Err(Error::of_terminal(source)),
        }
    }

    fn remember(&mut self, entry: &str) {
        // History is a convenience: failing to write it must not stop the work.
        let _ = self.editor.add_history_entry(entry);
        if let Some(path) = &self.history {
            if let Some(folder) = path.parent() {
                let _ = fs::create_dir_all(folder);
            }
            let _ = self.editor.append_history(path);
        }
    }
}

/// What was typed and not read.
#[cfg(unix)]
mod typed {
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

    /// The sequence that a terminal sends behind pasted text.
    const PASTE_END: &[u8] = b"\x1b[201~";

    /// Terminals whose lines the system reads: all of one has been read when it is seen to be wrong.
    const WITHOUT_EDITING: [&str; 3] = ["dumb", "cons25", "emacs"];

    /// Input that comes later than this was typed after the line.
    const PAUSE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 300_000_000,
    };

    /// Reads the rest of a line that is being typed or pasted: up to the end of what was pasted, or a pause. What cannot be read
    /// stays.
    pub(super) fn discard() {
        let kind = std::env::var("TERM").unwrap_or_default();
        if WITHOUT_EDITING.contains(&kind.as_str()) {
            return;
        }
        // As the editor chooses.
        let _ = match File::options().read(true).open("/dev/tty") {
            Ok(terminal) if !super::is_stdio() => discard_of(terminal.as_fd()),
            _ => discard_of(io::stdin().as_fd()),
        };
    }

    fn discard_of(terminal: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let before = tcgetattr(terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(terminal, OptionalActions::Now, &raw)?;
        let read = read_rest(terminal);
        tcsetattr(terminal, OptionalActions::Now, &before)?;
        read
    }

    fn read_rest(terminal: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let mut buffer = [0; 4096];
        // The end of what was read, for a mark that comes in two pieces.
        let mut tail = Vec::new();
        while poll(
            &mut [PollFd::from_borrowed_fd(terminal, PollFlags::IN)],
            Some(&PAUSE),
        )? > 0
        {
            let read = rustix::io::read(terminal, &mut buffer)?;
            tail.extend_from_slice(&buffer[..read]);
            let is_end = tail.windows(PASTE_END.len()).any(|mark| mark == PASTE_END);
            if read == 0 || is_end {
                break;
            }
            tail.drain(..tail.len().saturating_sub(PASTE_END.len() - 1));
        }
        Ok(())
    }
}

#[cfg(not(unix))]
mod typed {
    /// The system hands out what is typed as text.
    pub(super) fn discard() {}
}

/// The history file, in the user's state directory: `$XDG_STATE_HOME`, `%LOCALAPPDATA%` or `~/.local/state`.
fn history_path(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("LOCALAPPDATA"))
        .or_else(|| absolute("HOME").map(|home| home.join(".local").join("state")))?;
    Some(state.join("zipf").join("history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn the_history_is_in_the_state_directory() {
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/u"));
        assert_eq!(
            history_path(&home),
            Some("/u/.local/state/zipf/history".into())
        );
        let state = |name: &str| {
            Some(PathBuf::from(if name == "XDG_STATE_HOME" {
                "/state"
            } else {
                "/u"
            }))
        };
        assert_eq!(history_path(&state), Some("/state/zipf/history".into()));
        // The XDG specification: a relative path is invalid and ignored.
        let relative =
            |name: &str| Some(PathBuf::from(if name == "HOME" { "/u" } else { "state" }));
        assert_eq!(
            history_path(&relative),
            Some("/u/.local/state/zipf/history".into())
        );
        assert_eq!(history_path(&|_| None), None);
    }
}
