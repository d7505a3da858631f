//! Counts of occurrences, corrected by edits.
//!
//! The invariant: a corrected count is never below 0. Edits remove only stored occurrences, so a negative count is a
//! contradiction between a segment and the edits on it, and an error.

use zipfdb_sql::quote;

use crate::{Error, Result};

/// `count` occurrences of `subject` with the `change` that edits made.
///
/// # Errors
/// If edits take more occurrences away than there are.
pub(crate) fn changed(count: u64, change: i64, subject: impl FnOnce() -> String) -> Result<u64> {
    count
        .checked_add_signed(change)
        .ok_or_else(|| Error::Contradiction {
            subject: subject(),
            stored: count,
            taken: change.unsigned_abs(),
        })
}

/// As [`changed`], for a count in one file.
///
/// # Errors
/// That of [`changed`], and if there are more than 4294967295 occurrences.
pub(crate) fn changed_in_file(
    count: u32,
    change: i64,
    subject: impl Fn() -> String,
) -> Result<u32> {
    let count = changed(count.into(), change, &subject)?;
    u32::try_from(count).map_err(|_| Error::Invalid {
        subject: subject(),
        reason: "it occurs more than 4294967295 times in one file".into(),
    })
}

/// How an error names a word.
pub(crate) fn word_subject(word: &[u8]) -> String {
    format!("the word {}", quote(word))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_count_below_zero_is_an_error_that_says_what_contradicts() {
        let subject = || word_subject(b"cat");
        assert_eq!(changed(3, -3, subject).unwrap(), 0);
        assert_eq!(changed_in_file(3, 2, subject).unwrap(), 5);
        let expected = "the word \"cat\": edits take away 4 occurrences and there are 3; \
                        hint: CHECK says which segments of a corpus are damaged";
        let error = changed(3, -4, subject).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let error = changed_in_file(3, -4, subject).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_count_that_does_not_fit_is_an_error_of_its_own() {
        let error = changed_in_file(u32::MAX, 1, || word_subject(b"cat")).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
}
