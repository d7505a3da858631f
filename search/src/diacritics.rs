//! Texts without diacritics: canonical decomposition, without combining marks, composed again.
//!
//! Invariant: removing twice is removing once. Composition joins what had no marks, the letters of Hangul, so a syllable stays one
//! character. Bytes that are not UTF-8 stay. Letters that do not decompose, such as U+00F8, stay too.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// `text` without combining marks. Linear; does not copy ASCII.
pub fn without_diacritics(text: &[u8]) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::new();
    let mut bytes = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        plain.clear();
        let letters = chunk.valid().nfd().filter(|&c| !is_combining_mark(c));
        plain.extend(letters.nfc());
        bytes.extend_from_slice(plain.as_bytes());
        bytes.extend_from_slice(chunk.invalid());
    }
    Cow::Owned(bytes)
}

#[cfg(test)]
mod tests {
    use super::without_diacritics;

    #[test]
    fn marks_go_and_letters_stay() {
        for (text, plain) in [
            ("caf\u{e9}", "cafe"),
            ("cafe\u{301}", "cafe"),
            ("\u{1ea4}\u{130}", "AI"),
            ("\u{f8}\u{df}", "\u{f8}\u{df}"),
            ("\u{d55c}", "\u{d55c}"),
            ("\u{1f88}", "\u{391}"),
            ("\u{301}", ""),
        ] {
            assert_eq!(*without_diacritics(text.as_bytes()), *plain.as_bytes());
        }
        assert_eq!(*without_diacritics(b"\xe9\xc3\xa9\xff"), *b"\xe9e\xff");
    }

    #[test]
    fn removing_twice_is_removing_once() {
        for character in '\0'..=char::MAX {
            let mut buffer = [0; 4];
            let once = without_diacritics(character.encode_utf8(&mut buffer).as_bytes());
            assert_eq!(without_diacritics(&once), once, "{character:?}");
        }
    }
}
