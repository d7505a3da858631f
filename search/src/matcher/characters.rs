//! Texts as numbers of characters: a byte that is not UTF-8 counts as a character of its own.

/// What is added to a byte that is not UTF-8, so that it equals no character.
const INVALID: u32 = 0x11_0000;

/// The characters of `text`.
pub(super) fn characters(text: &[u8]) -> impl Iterator<Item = u32> + Clone {
    text.utf8_chunks().flat_map(|chunk| {
        let invalid = chunk.invalid().iter();
        (chunk.valid().chars().map(u32::from)).chain(invalid.map(|&byte| INVALID + u32::from(byte)))
    })
}
