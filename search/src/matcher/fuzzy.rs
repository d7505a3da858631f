//! Texts a few edits away.

use super::characters::characters;

/// Largest number of edits.
const EDITS_MAX: usize = 2;

/// Cells of a row of the table of distances: others are larger than [`EDITS_MAX`].
const BAND: usize = 2 * EDITS_MAX + 1;

/// A distance that is too large.
const FAR: u8 = EDITS_MAX as u8 + 1;

/// A text and the number of edits that another one may be away.
///
/// An edit inserts, deletes or substitutes a character or swaps two neighbours; no part of the text is edited twice (optimal string
/// alignment).
#[derive(Debug, Clone)]
pub(super) struct Fuzzy {
    text: Vec<u32>,
    edits: u8,
}

impl Fuzzy {
    /// More than two edits count as two.
    pub(super) fn new(text: &[u8], edits: u8) -> Self {
        Self {
            text: characters(text).collect(),
            edits: edits.min(EDITS_MAX as u8),
        }
    }

    /// Whether a text is near enough. Linear, and over after a few characters for most texts.
    pub(super) fn matches(&self, other: &[u8]) -> bool {
        // A row of the table has the distances of a prefix of `other`, `row` characters long, to the prefixes of `text` of about its
        // length: cell `i` to that of `row + i - EDITS_MAX` characters.
        let mut last = [FAR; BAND];
        let mut current: [u8; BAND] = std::array::from_fn(|cell| {
            cell.checked_sub(EDITS_MAX)
                .map_or(FAR, |length| length as u8)
        });
        let mut before = None;
        let mut rows = 0;
        for (row, character) in characters(other).enumerate() {
            rows = row + 1;
            let mut next = [FAR; BAND];
            let mut least = FAR;
            for cell in 0..BAND {
                let Some(length) = (rows + cell).checked_sub(EDITS_MAX) else {
                    continue;
                };
                if length > self.text.len() {
                    break;
                }
                let mut distance = current.get(cell + 1).map_or(FAR, |inserted| inserted + 1);
                if length > 0 {
                    let wanted = self.text[length - 1];
                    distance = distance.min(current[cell] + u8::from(wanted != character));
                    if cell > 0 {
                        distance = distance.min(next[cell - 1] + 1);
                    }
                    if length > 1 && before == Some(wanted) && self.text[length - 2] == character {
                        distance = distance.min(last[cell] + 1);
                    }
                }
                next[cell] = distance.min(FAR);
                least = least.min(distance);
            }
            // A swap goes on from the row before this one, at the cost of an edit.
            if least > self.edits && current.iter().all(|&distance| distance >= self.edits) {
                return false;
            }
            last = current;
            current = next;
            before = Some(character);
        }
        (self.text.len() + EDITS_MAX)
            .checked_sub(rows)
            .and_then(|cell| current.get(cell))
            .is_some_and(|&distance| distance <= self.edits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The table of distances in full.
    fn distance(a: &[u32], b: &[u32]) -> usize {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                table[i][j] = if i == 0 || j == 0 {
                    i + j
                } else {
                    let replaced = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let least = replaced.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1);
                    if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        least.min(table[i - 2][j - 2] + 1)
                    } else {
                        least
                    }
                };
            }
        }
        table[a.len()][b.len()]
    }

    #[test]
    fn edits_are_of_characters_and_swaps_are_one() {
        let is_near =
            |text: &str, edits, other: &[u8]| Fuzzy::new(text.as_bytes(), edits).matches(other);
        assert!(is_near("search", 1, b"serach"));
        assert!(is_near("na\u{ef}ve", 1, b"naive"));
        assert!(is_near("a", 1, b"\xff"));
        assert!(!is_near("a", 1, b"\xff\xfe"));
        assert!(is_near("", 2, b"ab"));
        assert!(!is_near("", 2, b"abc"));
        assert!(!is_near("ca", 2, b"abc"), "no part is edited twice");
    }

    fn distance_of(a: &str, b: &str) -> usize {
        let of = |text: &str| characters(text.as_bytes()).collect::<Vec<_>>();
        distance(&of(a), &of(b))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn matches_agree_with_the_whole_table(a in "[abc]{0,9}", b in "[abc]{0,9}") {
            for edits in 0..=2 {
                prop_assert_eq!(
                    Fuzzy::new(a.as_bytes(), edits).matches(b.as_bytes()),
                    distance_of(&a, &b) <= usize::from(edits)
                );
            }
        }
    }
}
