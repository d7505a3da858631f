//! Text for a terminal.
//!
//! Invariant: what [`visible`] gives is safe to print on one.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` with everything that could move the cursor, change the terminal or reorder what is shown made visible as an
/// escape (`\n`, `\x1b`, `\u{202e}`).
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_active) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            _ if !is_active(character) => safe.push(character),
            _ if character.is_ascii() => {
                write!(safe, "\\x{:02x}", u32::from(character))
                    .expect("writing to a String cannot fail");
            }
            _ => safe.extend(character.escape_unicode()),
        }
    }
    Cow::Owned(safe)
}

/// Control characters (C0, DEL, C1), line and paragraph separators, and the marks that override the direction of text.
fn is_active(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}'
            | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn no_control_or_direction_character_stays() {
        let all: String = (0..=0x2100).filter_map(char::from_u32).collect();
        let safe = visible(&all);
        assert!(!safe.chars().any(is_active));
        assert_eq!(
            visible("a\u{1b}]0;x\u{7}\u{9b}\u{202e}\n"),
            "a\\x1b]0;x\\x07\\u{9b}\\u{202e}\\n"
        );
    }

    #[test]
    fn harmless_text_stays_as_it_is() {
        assert!(matches!(
            visible("caf\u{e9} \\ \u{1f600}"),
            Cow::Borrowed(_)
        ));
    }
}
