//! Names and the text of paths as messages show them.
//!
//! Invariant: what is shown takes some hundred bytes at most and is cut between characters. Names that a caller hands in and paths that
//! the system refuses have no other bound.

/// A name or path: of a long one both ends, because the last names say most.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_BYTES_MAX: usize = 240;
    const FIRST_BYTES: usize = 60;
    const LAST_BYTES: usize = 120;
    if text.len() <= SHOWN_BYTES_MAX {
        return text.to_owned();
    }
    let first = text.floor_char_boundary(FIRST_BYTES);
    let last = text.ceil_char_boundary(text.len() - LAST_BYTES);
    let (first_part, last_part) = (&text[..first], &text[last..]);
    format!(
        "{first_part}... ({} more bytes) ...{last_part}",
        last - first
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_shows_both_of_its_ends() {
        let short = "/data/texts/a.txt";
        assert_eq!(shown(short), short);
        for before in 0..4 {
            let x = "x".repeat(before);
            let path = format!("/{x}{}/last.txt", "\u{4e9c}".repeat(1_000));
            let short = shown(&path);
            assert!(
                short.starts_with('/') && short.ends_with("/last.txt"),
                "{short}"
            );
            assert!(
                short.contains(" more bytes) ...") && short.len() < 240,
                "{short}"
            );
        }
    }
}
