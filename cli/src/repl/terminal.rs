//! Lines edited on the terminal, with a history file.
//!
//! Invariant: without a usable history file the prompt works all the same, only without memory.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::{Behavior, Config, DefaultEditor};

use super::{Line, Lines};
use crate::error::Error;

const HISTORY_ENTRIES: usize = 1_000;

/// The terminal with line editing.
pub struct Terminal {
    editor: DefaultEditor,
    history: Option<PathBuf>,
}

impl Terminal {
    /// Takes the terminal and reads the history file.
    pub fn new() -> Result<Terminal, Error> {
        let failed = |source| Error::Terminal { source };
        let config = Config::builder()
            .max_history_size(HISTORY_ENTRIES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(failed)?
            // Standard output may be a file, which takes rows but no prompts.
            .behavior(if io::stdout().is_terminal() {
                Behavior::Stdio
            } else {
                Behavior::PreferTerm
            })
            .build();
        let mut editor = DefaultEditor::with_config(config).map_err(failed)?;
        let history = history_path(&|name| std::env::var_os(name).map(PathBuf::from));
        if let Some(path) = &history {
            // The first session has none to load.
            let _ = editor.load_history(path);
        }
        Ok(Terminal { editor, history })
    }
}

impl Lines for Terminal {
    fn read(&mut self, prompt: &'static str) -> Result<Line, Error> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Line::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(source) => Err(Error::Terminal { source }),
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
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/home/u"));
        assert_eq!(
            history_path(&home),
            Some("/home/u/.local/state/zipf/history".into())
        );
        let state = |name: &str| {
            Some(PathBuf::from(if name == "XDG_STATE_HOME" {
                "/state"
            } else {
                "/home/u"
            }))
        };
        assert_eq!(history_path(&state), Some("/state/zipf/history".into()));
        // The XDG specification: a relative path is invalid and ignored.
        let relative = |name: &str| {
            Some(PathBuf::from(if name == "HOME" {
                "/home/u"
            } else {
                "state"
            }))
        };
        assert_eq!(
            history_path(&relative),
            Some("/home/u/.local/state/zipf/history".into())
        );
        assert_eq!(history_path(&|_| None), None);
    }
}
