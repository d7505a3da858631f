//! Quotes texts of the user in messages.
//!
//! Invariant: what is shown of a text takes at most the bytes asked for and a note of what is left out; it is cut between
//! characters and holds no control character. The time this takes depends on what is shown, not on the text.

use std::fmt::Write;

/// Bytes that a message shows of one text.
pub const SHOWN_BYTES_MAX: usize = 200;

/// The text in double quotes, as [`shorten`] shows it.
pub fn quote(text: &(impl AsRef<[u8]> + ?Sized)) -> String {
    format!("\"{}\"", shorten(text))
}

/// The beginning of the text, escaped where it cannot be printed, and how many bytes follow.
pub fn shorten(text: &(impl AsRef<[u8]> + ?Sized)) -> String {
    shorten_to(text, SHOWN_BYTES_MAX)
}

/// As [`shorten`], with this many bytes of the text.
pub(crate) fn shorten_to(text: &(impl AsRef<[u8]> + ?Sized), bytes_max: usize) -> String {
    /// Bytes of a character at most.
    const CHARACTER_BYTES_MAX: usize = 4;
    let text = text.as_ref();
    // The last character of this may be cut off; it begins behind all that is shown.
    let looked_at = &text[..text.len().min(bytes_max + CHARACTER_BYTES_MAX)];
    let mut shown = String::new();
    let mut taken = 0;
    for chunk in looked_at.utf8_chunks() {
        for character in chunk.valid().chars() {
            let before = shown.len();
            if character.is_control() {
                shown.extend(character.escape_default());
            } else {
                shown.push(character);
            }
            if shown.len() > bytes_max {
                shown.truncate(before);
                return with_rest(shown, text.len() - taken);
            }
            taken += character.len_utf8();
        }
        for byte in chunk.invalid() {
            let escaped = format!("\\x{byte:02x}");
            if shown.len() + escaped.len() > bytes_max {
                return with_rest(shown, text.len() - taken);
            }
            shown.push_str(&escaped);
            taken += 1;
        }
    }
    match text.len() - taken {
        0 => shown,
        left => with_rest(shown, left),
    }
}

fn with_rest(mut shown: String, bytes: usize) -> String {
    let s = if bytes == 1 { "" } else { "s" };
    let _ = write!(shown, "... ({} more byte{s})", grouped(bytes as u64));
    shown
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_shown_as_it_is() {
        assert_eq!(quote(""), "\"\"");
        assert_eq!(quote(r"\w{1000}"), r#""\w{1000}""#);
        let longest = "a".repeat(SHOWN_BYTES_MAX);
        assert_eq!(shorten(&longest), longest);
    }

    #[test]
    fn a_long_text_is_cut_and_what_is_left_out_is_counted() {
        let shown = shorten(&"a".repeat(1_200_000));
        assert_eq!(
            shown,
            format!("{}... (1,199,800 more bytes)", "a".repeat(SHOWN_BYTES_MAX))
        );
        assert_eq!(shorten_to("abcd", 3), "abc... (1 more byte)");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        for before in 0..4 {
            let text = "a".repeat(SHOWN_BYTES_MAX - before) + "\u{1f600}\u{1f600}";
            let shown = shorten(&text);
            assert!(
                shown.starts_with(&text[..SHOWN_BYTES_MAX - before]),
                "{shown}"
            );
            assert!(shown.ends_with("... (8 more bytes)"), "{shown}");
        }
    }

    #[test]
    fn what_cannot_be_printed_is_escaped_and_counts_as_it_is_shown() {
        assert_eq!(shorten(b"a\n\x1b\xff\xc3b"), r"a\n\u{1b}\xff\xc3b");
        let shown = shorten(&"\u{1b}".repeat(1_000));
        assert!(shown.len() < SHOWN_BYTES_MAX + 30, "{shown}");
        let shown = shorten(&[0xff; 1_000]);
        assert!(shown.len() < SHOWN_BYTES_MAX + 30, "{shown}");
        assert!(shown.ends_with("... (950 more bytes)"), "{shown}");
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(3_930_161), "3,930,161");
    }
}
