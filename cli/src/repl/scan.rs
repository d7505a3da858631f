//! What has been typed, cut into tokens: for completion and colours, which work on statements that are not finished.
//!
//! Invariant: the tokens cover all of the text but its spaces, in order, whatever the text. What they mean is decided by
//! the database; here it only matters where a word, a text or a comment ends.

/// A piece of SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it begins, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// How many parentheses are open around it.
    pub depth: usize,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or a bare name.
    Word,
    /// Anything that begins with a digit.
    Number,
    /// `'text'`
    Text {
        /// Whether it has its second quote.
        is_closed: bool,
    },
    /// `"name"`
    Name {
        /// Whether it has its second quote.
        is_closed: bool,
    },
    /// A comment of either kind.
    Comment,
    /// Any other character.
    Symbol,
}

/// Cuts a text into tokens.
pub fn scan(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut depth: usize = 0;
    let mut start = 0;
    while let Some(first) = text[start..].chars().next() {
        let rest = &text[start..];
        if first.is_whitespace() {
            start += first.len_utf8();
            continue;
        }
        let (kind, length) = match first {
            '\'' => {
                let (is_closed, length) = quoted(rest, '\'');
                (Kind::Text { is_closed }, length)
            }
            '"' => {
                let (is_closed, length) = quoted(rest, '"');
                (Kind::Name { is_closed }, length)
            }
            '-' if rest.starts_with("--") => (Kind::Comment, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => (Kind::Comment, block_comment(rest)),
            _ if is_in_word(first) => {
                let length = rest.find(|next| !is_in_word(next)).unwrap_or(rest.len());
                let kind = if first.is_ascii_digit() {
                    Kind::Number
                } else {
                    Kind::Word
                };
                (kind, length)
            }
            _ => (Kind::Symbol, first.len_utf8()),
        };
        if first == ')' {
            depth = depth.saturating_sub(1);
        }
        let end = start + length;
        tokens.push(Token {
            kind,
            start,
            end,
            depth,
        });
        if first == '(' {
            depth += 1;
        }
        start = end;
    }
    tokens
}

fn is_in_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Whether a quote at the beginning of `text` is closed, and its length with the quotes.
fn quoted(text: &str, quote: char) -> (bool, usize) {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != quote {
            continue;
        }
        match characters.peek() {
            Some((_, next)) if *next == quote => {
                characters.next();
            }
            _ => return (true, at + 1),
        }
    }
    (false, text.len())
}

/// The length of a comment that may hold others.
fn block_comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => depth += 1,
            Some(b"*/") => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<(&str, usize)> {
        let tokens = scan(text);
        let piece = |token: &Token| (&text[token.start..token.end], token.depth);
        tokens.iter().map(piece).collect()
    }

    #[test]
    fn statements_are_cut_into_tokens() {
        assert_eq!(
            pieces("SELECT f('it''s', 12) -- x\n/* a /* b */ */ \"n\";"),
            [
                ("SELECT", 0),
                ("f", 0),
                ("(", 0),
                ("'it''s'", 1),
                (",", 1),
                ("12", 1),
                (")", 0),
                ("-- x", 0),
                ("/* a /* b */ */", 0),
                ("\"n\"", 0),
                (";", 0),
            ]
        );
    }

    #[test]
    fn what_is_not_closed_reaches_to_the_end() {
        for (text, kind) in [
            ("'a; b''", Kind::Text { is_closed: false }),
            ("\"a; b", Kind::Name { is_closed: false }),
            ("/* a */* */ /*", Kind::Symbol),
            ("/* /* */ b", Kind::Comment),
        ] {
            let tokens = scan(text);
            if kind != Kind::Symbol {
                assert_eq!(tokens.len(), 1, "{text}");
                assert_eq!(
                    (tokens[0].kind, tokens[0].end),
                    (kind, text.len()),
                    "{text}"
                );
            }
        }
        assert_eq!(scan(")))\u{e9}").len(), 4);
    }
}
