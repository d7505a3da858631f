//! Simple case folding: one character for one, the same in every language.
//!
//! The only definition of folding: dictionaries, collations and queries use it. Words that fold to the same bytes are neighbours in
//! a dictionary. The invariant: folding twice is folding once. Bytes that are not UTF-8 fold to themselves. Nothing is normalized
//! and no character becomes two.

use crate::fold_table::FOLDS;

/// The simple case folding of one character.
#[inline]
pub fn fold_character(character: char) -> char {
    if character.is_ascii() {
        return character.to_ascii_lowercase();
    }
    let code = u32::from(character);
    let index = FOLDS.partition_point(|fold| fold.1 < code);
    match FOLDS.get(index) {
        Some(&(first, _, step, delta)) if first <= code && (code - first).is_multiple_of(step) => {
            char::from_u32(code.wrapping_add_signed(delta)).expect("the table holds characters")
        }
        _ => character,
    }
}

/// Appends the simple case folding of `text` to `folded`.
#[inline]
pub fn fold(text: &[u8], folded: &mut Vec<u8>) {
    if text.is_ascii() {
        folded.extend(text.iter().map(u8::to_ascii_lowercase));
        return;
    }
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let character = fold_character(character).encode_utf8(&mut buffer);
            folded.extend_from_slice(character.as_bytes());
        }
        folded.extend_from_slice(chunk.invalid());
    }
}

/// Whether `text` certainly folds to itself; false for some texts that do.
#[inline]
pub fn is_folded(text: &[u8]) -> bool {
    text.iter()
        .all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &[u8]) -> Vec<u8> {
        let mut folded = Vec::new();
        fold(text, &mut folded);
        folded
    }

    /// The one character that `characters` has, if it is one.
    fn single(mut characters: impl Iterator<Item = char>) -> Option<char> {
        characters.next().filter(|_| characters.next().is_none())
    }

    #[test]
    fn examples_of_the_standard_fold_as_it_says() {
        assert_eq!(folded(b"The CAT_9"), b"the cat_9");
        for (upper, lower) in [
            ("\u{c9}COLE", "\u{e9}cole"),
            ("\u{1e9e}", "\u{df}"),
            ("\u{3a3}\u{3c2}", "\u{3c3}\u{3c3}"),
            ("\u{212a}", "k"),
            ("\u{17f}", "s"),
            ("\u{130}\u{131}", "\u{130}\u{131}"),
            ("\u{1f88}", "\u{1f80}"),
            ("\u{ab70}", "\u{13a0}"),
            ("\u{10400}", "\u{10428}"),
            ("\u{16ea0}", "\u{16ebb}"),
        ] {
            assert_eq!(folded(upper.as_bytes()), lower.as_bytes());
        }
        assert_eq!(folded(b"A\xffB\xc3"), b"a\xffb\xc3");
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(FOLDS.iter().all(|fold| fold.0 <= fold.1 && fold.2 > 0));
        assert!(FOLDS.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    #[test]
    fn folding_agrees_with_the_cases_of_the_standard_library() {
        // CaseFolding.txt gives these only Turkic or multi-character foldings, or folds Cherokee to capitals.
        let is_exception = |character: char| {
            matches!(character, '\u{130}' | '\u{131}')
                || matches!(u32::from(character), 0x13a0..=0x13fd | 0xab70..=0xabbf)
        };
        let mut folding = 0;
        for character in '\0'..=char::MAX {
            let folded = fold_character(character);
            assert_eq!(fold_character(folded), folded, "{character:?}");
            assert!(
                !is_folded(character.encode_utf8(&mut [0; 4]).as_bytes()) || folded == character
            );
            folding += u32::from(folded != character);
            if is_exception(character) {
                continue;
            }
            if let Some(lower) = single(character.to_lowercase()) {
                assert_eq!(fold_character(lower), folded, "{character:?}");
            }
            if let Some(upper) = single(character.to_uppercase()) {
                assert_eq!(fold_character(upper), folded, "{character:?}");
            }
            if folded != character {
                let same = [folded.to_lowercase().next(), folded.to_uppercase().next()];
                let upper = character.to_uppercase().next();
                let related = single(character.to_lowercase()) == Some(folded)
                    || same.contains(&Some(character))
                    || same.contains(&upper);
                assert!(related, "{character:?}");
            }
        }
        assert_eq!(folding, 1_512);
    }
}
