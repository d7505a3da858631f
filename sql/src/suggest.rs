//! Hints for misspelt names.
//!
//! Invariant: a suggestion is one of the candidates, and close enough that it is more often right than wrong. Work is
//! bounded: names too long to be misspelt are not compared.

use strsim::damerau_levenshtein;

use crate::error::{Hint, quote, shorten};

/// Names longer than this get no suggestion.
const SUGGEST_BYTES_MAX: usize = 64;

/// Candidates to compare with at most.
const COMPARED_MAX: usize = 10_000;

/// Candidates that are listed at most, and the bytes of all their names.
const LISTED_MAX: usize = 16;
const LISTED_BYTES_MAX: usize = 400;

/// The candidate that `name` was most likely meant to be.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if name.len() > SUGGEST_BYTES_MAX {
        return None;
    }
    let folded = name.to_lowercase();
    let allowed = match folded.chars().count() {
        0 => return None,
        1..=5 => 1,
        6..=8 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        .take(COMPARED_MAX)
        .filter(|candidate| candidate.len() <= SUGGEST_BYTES_MAX)
        .map(|candidate| {
            (
                damerau_levenshtein(&folded, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, candidate)| {
            *distance <= allowed && *distance < candidate.chars().count()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean "x"?`, else the list of all candidates after `listed` if there are few, else nothing.
pub(crate) fn did_you_mean(name: &str, candidates: &[&str], listed: &str) -> Hint {
    let bytes: usize = candidates.iter().map(|candidate| candidate.len()).sum();
    if let Some(candidate) = nearest(name, candidates.iter().copied()) {
        Hint::new(format!("did you mean {}?", quote(candidate)))
    } else if (1..=LISTED_MAX).contains(&candidates.len()) && bytes <= LISTED_BYTES_MAX {
        let shown: Vec<String> = candidates.iter().map(shorten).collect();
        Hint::new(format!("{listed} {}", shown.join(", ")))
    } else {
        Hint::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slip_is_forgiven_and_more_in_long_names() {
        let names = ["word", "file", "offset", "term_vectors"];
        for (written, meant) in [
            ("wrod", Some("word")),
            ("FILES", Some("file")),
            ("ofset", Some("offset")),
            ("ofsets", Some("offset")),
            ("termvectrs", Some("term_vectors")),
            ("from", None),
            ("wire", None),
            ("w", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, names), meant, "{written}");
        }
    }

    #[test]
    fn a_name_that_resembles_nothing_gets_a_short_list() {
        let hint =
            |candidates: &[&str]| did_you_mean("zebra", candidates, "corpora are").to_string();
        assert_eq!(hint(&["a", "b"]), "; hint: corpora are a, b");
        assert_eq!(hint(&["a"; 100]), "");
        assert_eq!(hint(&["a".repeat(LISTED_BYTES_MAX + 1).as_str()]), "");
        assert_eq!(hint(&[]), "");
    }
}
