//! `Texts`: texts of an answer, in one handle.

use crate::pointers::free;
use crate::text::Text;

/// Texts. They are freed by `zipfdb_texts_free`.
pub struct Texts {
    /// Owns the bytes that `views` lead to.
    _texts: Vec<Vec<u8>>,
    views: Vec<Text>,
}

impl Texts {
    pub(crate) fn of(texts: Vec<Vec<u8>>) -> Texts {
        let views = texts.iter().map(|text| Text::of(text)).collect();
        Texts {
            _texts: texts,
            views,
        }
    }
}

/// The number of texts.
///
/// # Safety
/// `texts` are texts that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_texts_count(texts: *const Texts) -> usize {
    // SAFETY: by the contract of the function.
    unsafe { texts.as_ref() }.map_or(0, |texts| texts.views.len())
}

/// A text, numbered from 0, which lives as long as the texts; NULL bytes if there is none.
///
/// # Safety
/// `texts` are texts that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_texts_get(texts: *const Texts, number: usize) -> Text {
    // SAFETY: by the contract of the function.
    let text = unsafe { texts.as_ref() }.and_then(|texts| texts.views.get(number));
    text.copied().unwrap_or(Text::NONE)
}

/// Frees texts.
///
/// # Safety
/// `texts` is NULL or texts that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_texts_free(texts: *mut Texts) {
    // SAFETY: by the contract of the function.
    unsafe { free(texts) }
}
