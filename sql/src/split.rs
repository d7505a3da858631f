//! `StatementStream`: text that arrives in pieces, cut into statements at each `;`.
//!
//! Invariant: it cuts where `lex` would find a `;`, whatever the pieces; a `;` in quotes or a comment is not one. Each
//! byte is examined once, and no more than one statement of the largest size is kept. It finds no other errors: what
//! lies between two `;` may be nonsense.

use crate::error::{Error, Hint, Place, Position, Result};
use crate::lex::is_space;
use crate::limits;

/// One statement's text without its `;`, and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementText {
    /// The text, from its first token on.
    pub text: String,
    /// Position of the text's first character within everything that was fed.
    pub start: Position,
}

/// What the end of the text so far is in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// Nothing: a new statement may begin.
    Nothing,
    /// A statement that lacks its `;`.
    Statement,
    /// A `'text'`.
    Text,
    /// A `"name"`.
    Name,
    /// A `/* comment */`.
    Comment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    Text,
    Name,
    /// After a `-` that may begin a comment.
    Dash,
    /// After a `/` that may begin a comment.
    Slash,
    LineComment,
    BlockComment {
        depth: u32,
        previous: Previous,
    },
}

/// The character before, within a block comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Previous {
    Slash,
    Star,
    Other,
}

/// Cuts text that arrives in pieces into statements.
///
/// ```
/// use zipfdb_sql::{Pending, StatementStream};
///
/// let mut stream = StatementStream::new();
/// stream.feed("CHECK a; SELECT ';");
/// assert_eq!(stream.next_statement().unwrap()?.text, "CHECK a");
/// assert!(stream.next_statement().is_none());
/// assert_eq!(stream.pending(), Pending::Text);
/// stream.feed("'");
/// assert_eq!(stream.finish().unwrap()?.text, "SELECT ';'");
/// # Ok::<(), zipfdb_sql::Error>(())
/// ```
#[derive(Debug)]
pub struct StatementStream {
    /// Text that was fed and not scanned yet begins at `scanned`.
    fed: String,
    scanned: usize,
    /// The statement so far: scanned text from its first token on.
    statement: String,
    /// Where `statement` begins; none before its first token.
    start: Option<Position>,
    /// Position of `fed[scanned]`.
    position: Position,
    /// Position of the character before, for `State::Dash` and `State::Slash`.
    previous: Position,
    state: State,
    /// The statement grew too long and its text is not kept.
    overlong: bool,
}

impl Default for StatementStream {
    fn default() -> StatementStream {
        StatementStream {
            fed: String::new(),
            scanned: 0,
            statement: String::new(),
            start: None,
            position: Position::START,
            previous: Position::START,
            state: State::Plain,
            overlong: false,
        }
    }
}

impl StatementStream {
    /// A stream without text.
    pub fn new() -> StatementStream {
        StatementStream::default()
    }

    /// Adds text. Linear in the text.
    pub fn feed(&mut self, text: &str) {
        self.fed.drain(..self.scanned);
        self.scanned = 0;
        self.fed.push_str(text);
    }

    /// The next statement that its `;` has completed, or none until more text is fed.
    ///
    /// Statements without a token (only comments) are passed over. One that exceeds the size limit is an error; the
    /// stream goes on behind it.
    pub fn next_statement(&mut self) -> Option<Result<StatementText>> {
        while let Some(character) = self.fed[self.scanned..].chars().next() {
            let ends = self.step(character);
            self.previous = self.position;
            self.position.advance(character);
            self.scanned += character.len_utf8();
            if ends && let Some(statement) = self.take() {
                return Some(statement);
            }
        }
        None
    }

    /// The statement at the end that lacks its `;`, or none. Afterwards the stream is at the beginning of a statement.
    ///
    /// Call it when all statements were taken and no more text will come.
    pub fn finish(&mut self) -> Option<Result<StatementText>> {
        if let Some(statement) = self.next_statement() {
            return Some(statement);
        }
        match self.state {
            State::Dash => self.keep('-', self.previous),
            State::Slash => self.keep('/', self.previous),
            // An unclosed comment is an error of the parser, unless there is no statement it could belong to.
            _ => {}
        }
        self.state = State::Plain;
        self.take()
    }

    /// What the text so far leaves open, for a prompt. Call it after `next_statement` gave none.
    pub fn pending(&self) -> Pending {
        match self.state {
            State::Text => Pending::Text,
            State::Name => Pending::Name,
            State::BlockComment { .. } => Pending::Comment,
            State::Dash | State::Slash => Pending::Statement,
            State::Plain | State::LineComment if self.start.is_some() => Pending::Statement,
            State::Plain | State::LineComment => Pending::Nothing,
        }
    }

    /// Forgets the statement that was begun and all text that was not taken yet, as after Ctrl-C in a prompt.
    pub fn discard(&mut self) {
        for character in self.fed[self.scanned..].chars() {
            self.position.advance(character);
        }
        self.fed.clear();
        self.scanned = 0;
        self.statement.clear();
        self.start = None;
        self.state = State::Plain;
        self.overlong = false;
    }

    /// Position of the next character to be read.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Scans one character; true when it is the `;` that ends a statement.
    fn step(&mut self, character: char) -> bool {
        match self.state {
            State::Dash if character == '-' => {
                self.enter_comment('-', '-', State::LineComment);
                return false;
            }
            State::Slash if character == '*' => {
                let state = State::BlockComment {
                    depth: 1,
                    previous: Previous::Other,
                };
                self.enter_comment('/', '*', state);
                return false;
            }
            State::Dash | State::Slash => {
                self.keep(
                    if self.state == State::Dash { '-' } else { '/' },
                    self.previous,
                );
                self.state = State::Plain;
            }
            _ => {}
        }
        match self.state {
            State::Plain => match character {
                ';' => return true,
                '-' => self.state = State::Dash,
                '/' => self.state = State::Slash,
                c if is_space(c) => self.keep_inside(c),
                c => {
                    self.state = match c {
                        '\'' => State::Text,
                        '"' => State::Name,
                        _ => State::Plain,
                    };
                    self.keep(c, self.position);
                }
            },
            // A doubled quote leaves the quotes and enters them again.
            State::Text | State::Name => {
                let quote = if self.state == State::Text { '\'' } else { '"' };
                if character == quote {
                    self.state = State::Plain;
                }
                self.keep(character, self.position);
            }
            State::LineComment => {
                if character == '\n' {
                    self.state = State::Plain;
                }
                self.keep_inside(character);
            }
            State::BlockComment { depth, previous } => {
                self.state = match (previous, character) {
                    (Previous::Star, '/') if depth == 1 => State::Plain,
                    (Previous::Star, '/') => State::BlockComment {
                        depth: depth - 1,
                        previous: Previous::Other,
                    },
                    (Previous::Slash, '*') => State::BlockComment {
                        depth: depth.saturating_add(1),
                        previous: Previous::Other,
                    },
                    (_, character) => State::BlockComment {
                        depth,
                        previous: match character {
                            '/' => Previous::Slash,
                            '*' => Previous::Star,
                            _ => Previous::Other,
                        },
                    },
                };
                self.keep_inside(character);
            }
            State::Dash | State::Slash => unreachable!("settled above"),
        }
        false
    }

    fn enter_comment(&mut self, first: char, second: char, state: State) {
        self.keep_inside(first);
        self.keep_inside(second);
        self.state = state;
    }

    /// Keeps a character of a token.
    fn keep(&mut self, character: char, position: Position) {
        self.start.get_or_insert(position);
        self.keep_inside(character);
    }

    /// Keeps a character unless it stands before the statement's first token.
    fn keep_inside(&mut self, character: char) {
        if self.start.is_none() || self.overlong {
            return;
        }
        self.statement.push(character);
        if self.statement.len() > limits::STATEMENT_BYTES_MAX {
            self.overlong = true;
            self.statement = String::new();
        }
    }

    fn take(&mut self) -> Option<Result<StatementText>> {
        let text = std::mem::take(&mut self.statement);
        let overlong = std::mem::take(&mut self.overlong);
        let start = self.start.take()?;
        Some(if overlong {
            Err(Error::TooLarge {
                at: Place::new("", start, 0),
                what: "the statement's size in bytes",
                limit: limits::STATEMENT_BYTES_MAX as u64,
                hint: Hint::NONE,
            })
        } else {
            Ok(StatementText { text, start })
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_prompt_knows_what_is_open() {
        let mut stream = StatementStream::new();
        for (piece, pending) in [
            ("", Pending::Nothing),
            ("  -- a comment\n", Pending::Nothing),
            ("/* a", Pending::Comment),
            (" comment */\n", Pending::Nothing),
            ("SELECT", Pending::Statement),
            (" -- it's", Pending::Statement),
            ("\n 'it", Pending::Text),
            ("'", Pending::Statement),
            ("' /* \"", Pending::Text),
            ("' \"a;b", Pending::Name),
            ("\" /", Pending::Statement),
            ("* /* ", Pending::Comment),
            ("*/ ;", Pending::Comment),
            ("*/", Pending::Statement),
        ] {
            stream.feed(piece);
            assert!(stream.next_statement().is_none());
            assert_eq!(stream.pending(), pending, "{piece}");
        }
        stream.feed(";");
        assert!(stream.next_statement().is_some());
        assert_eq!(stream.pending(), Pending::Nothing);
        assert!(stream.finish().is_none());
    }

    #[test]
    fn discarding_begins_a_new_statement_but_keeps_counting() {
        let mut stream = StatementStream::new();
        stream.feed("SELECT 'open\n");
        assert!(stream.next_statement().is_none());
        stream.feed("never read;\n");
        stream.discard();
        assert_eq!(stream.pending(), Pending::Nothing);
        stream.feed("CHECK c;");
        let statement = stream.next_statement().unwrap().unwrap();
        assert_eq!(statement.text, "CHECK c");
        assert_eq!((statement.start.line, statement.start.column), (3, 1));
    }

    #[test]
    fn an_overlong_statement_is_an_error_and_the_next_is_not() {
        let mut stream = StatementStream::new();
        let piece = "SELECT 'x', ".repeat(1000);
        for _ in 0..1500 {
            stream.feed(&piece);
            assert!(stream.next_statement().is_none());
            assert!(stream.statement.len() <= limits::STATEMENT_BYTES_MAX);
        }
        stream.feed("1; CHECK c;");
        assert!(matches!(
            stream.next_statement(),
            Some(Err(Error::TooLarge { .. }))
        ));
        assert_eq!(stream.next_statement().unwrap().unwrap().text, "CHECK c");
    }

    #[test]
    fn the_largest_statement_is_not_too_large() {
        let text = format!("'{}'", "x".repeat(limits::STATEMENT_BYTES_MAX - 2));
        let mut stream = StatementStream::new();
        stream.feed(&text);
        assert_eq!(stream.finish().unwrap().unwrap().text, text);
        stream.feed(&text);
        stream.feed("y");
        assert!(stream.finish().unwrap().is_err());
    }

    #[test]
    fn what_remains_at_the_end_is_a_statement_unless_it_is_a_comment() {
        for (text, rest) in [
            ("CHECK a; ", None),
            ("CHECK a; -- b", None),
            ("CHECK a; /* b", None),
            ("CHECK a; -", Some("-")),
            ("CHECK a; /", Some("/")),
            ("CHECK a; b -", Some("b -")),
            ("CHECK a; b --", Some("b --")),
            ("CHECK a; 'b", Some("'b")),
        ] {
            let mut stream = StatementStream::new();
            stream.feed(text);
            assert!(stream.next_statement().is_some());
            let found = stream.finish().map(|statement| statement.unwrap().text);
            assert_eq!(found.as_deref(), rest, "{text}");
        }
    }
}
