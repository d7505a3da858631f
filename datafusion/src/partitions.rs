//! Partitions of a scan of words: ranges of files with about as many words each, and parts of files that are larger than that.
//!
//! Invariant: ranges are in order of the names of files and of positions, and together have every word once. A range has whole
//! files or a part of one.

use std::mem;
use std::ops::Range;

use datafusion::common::exec_err;
use datafusion::error::Result;
use zipfdb::{Reader, Value};

use crate::relation::failed;
use crate::statement::quoted_text;

/// A range of words.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WordRange {
    /// Words of all files from a name on and before another one; none for the first and behind the last.
    Files(Option<String>, Option<String>),
    /// Words of one file, by their positions.
    Positions(String, Range<u64>),
}

impl WordRange {
    fn condition(&self) -> String {
        match self {
            WordRange::Files(from, until) => {
                let from = from
                    .as_deref()
                    .map(|file| format!("\"file\" >= {}", quoted_text(file)));
                let until = until
                    .as_deref()
                    .map(|file| format!("\"file\" < {}", quoted_text(file)));
                let conditions: Vec<String> = from.into_iter().chain(until).collect();
                conditions.join(" AND ")
            }
            WordRange::Positions(file, positions) => format!(
                "\"file\" = {} AND \"position\" >= {} AND \"position\" < {}",
                quoted_text(file),
                positions.start,
                positions.end
            ),
        }
    }
}

/// Conditions on `file` and `position`, one for each of about `ranges` ranges, or fewer if no file may be cut; `sql` asks for the
/// words of each file, in order of their names.
///
/// # Errors
/// If ZipfDB cannot read how many words each file has.
pub(crate) fn partitions(
    reader: &Reader,
    sql: &str,
    ranges: usize,
    cuts_files: bool,
) -> Result<Vec<String>> {
    let fail = |error| failed(sql, error);
    let mut files = Vec::new();
    for row in reader.query(sql, ()).map_err(fail)? {
        let values: [Value; 2] = match row.map_err(fail)?.into_values().try_into() {
            Ok(values) => values,
            Err(values) => return exec_err!("{sql}: {} columns in place of 2", values.len()),
        };
        let [file, Value::Integer(words)] = values else {
            return exec_err!("{sql}: no number of words");
        };
        // SQL cannot say every name.
        let file = match file {
            Value::Text(file) if !file.contains('\0') => Some(file),
            _ => None,
        };
        files.push((file, u64::try_from(words).unwrap_or(0)));
    }
    let ranges = even(files, ranges, cuts_files);
    Ok(ranges.iter().map(WordRange::condition).collect())
}

/// About `ranges` ranges of about as many words; a file whose name is unknown is cut from no other one.
fn even(files: Vec<(Option<String>, u64)>, ranges: usize, cuts_files: bool) -> Vec<WordRange> {
    let all: u64 = files.iter().map(|(_, words)| words).sum();
    // A million files of 2^32 words fit.
    let share = (all / ranges.max(1) as u64).max(1);
    let (mut found, mut from, mut held) = (Vec::new(), None, 0);
    // Whether a part of a file came last, so that the next range has to begin with a name.
    let mut is_behind_part = false;
    let mut files = files.into_iter().peekable();
    while let Some((file, words)) = files.next() {
        let parts = (words + share / 2) / share;
        let next = files.peek();
        // What comes behind parts begins with the name of the next file.
        let is_cut = cuts_files && parts > 1 && next.is_none_or(|(name, _)| name.is_some());
        let Some(name) = file else {
            held += words;
            continue;
        };
        if (is_cut && held > 0) || held >= share {
            found.push(WordRange::Files(mem::take(&mut from), Some(name.clone())));
            (from, held) = (Some(name.clone()), 0);
        }
        if is_behind_part {
            from = Some(name.clone());
        }
        is_behind_part = is_cut;
        if !is_cut {
            held += words;
            continue;
        }
        let cut = |part: u64| (u128::from(words) * u128::from(part) / u128::from(parts)) as u64;
        let cuts = (0..parts).map(|part| cut(part)..cut(part + 1));
        found.extend(cuts.map(|positions| WordRange::Positions(name.clone(), positions)));
    }
    if !is_behind_part {
        found.push(WordRange::Files(from, None));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_even_and_parts_of_large_files() {
        let cut = |words: &[u64], ranges, cuts_files| {
            let files = words.iter().enumerate();
            let files = files.map(|(file, words)| (Some(file.to_string()), *words));
            let ranges = even(files.collect(), ranges, cuts_files);
            let conditions: Vec<String> = ranges.iter().map(WordRange::condition).collect();
            conditions
                .join(" | ")
                .replace('"', "")
                .replace("position", "p")
        };
        let even = |words: &[u64], ranges| cut(words, ranges, true);
        assert_eq!(even(&[5, 5, 5, 5], 2), "file < '2' | file >= '2'");
        assert_eq!(
            even(&[5, 5, 5, 5], 4),
            "file < '1' | file >= '1' AND file < '2' | file >= '2' AND file < '3' | file >= '3'"
        );
        assert_eq!(
            even(&[90, 1, 1], 2),
            "file = '0' AND p >= 0 AND p < 45 | file = '0' AND p >= 45 AND p < 90 | file >= '1'"
        );
        assert_eq!(
            even(&[1, 1, 90], 2),
            "file < '2' | file = '2' AND p >= 0 AND p < 45 | file = '2' AND p >= 45 AND p < 90"
        );
        assert_eq!(
            even(&[0, 0, 9], 3),
            "file = '2' AND p >= 0 AND p < 3 | file = '2' AND p >= 3 AND p < 6 | file = '2' AND p >= 6 AND p < 9"
        );
        assert_eq!(even(&[], 3), "");
        assert_eq!(even(&[5, 5], 1), "");
        assert_eq!(cut(&[90, 1, 1], 2, false), "file < '1' | file >= '1'");
        assert_eq!(cut(&[90], 2, false), "");
    }

    #[test]
    fn ranges_begin_with_names_that_sql_can_say() {
        let ranges = even(
            vec![(Some("a".into()), 5), (None, 5), (Some("c".into()), 5)],
            3,
            true,
        );
        let c = Some("c".to_owned());
        assert_eq!(
            ranges,
            [WordRange::Files(None, c.clone()), WordRange::Files(c, None)]
        );
        // The end of the parts is unknown.
        assert_eq!(
            even(vec![(Some("a".into()), 9), (None, 1)], 3, true),
            [WordRange::Files(None, None)]
        );
    }
}
