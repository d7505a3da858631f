//! Partitions of a scan: ranges of files with about as many words each.
//!
//! Invariant: ranges are in order of the names of files, part no file, and together have all of them.

use datafusion::common::exec_err;
use datafusion::error::Result;
use zipfdb::{Database, Value};

use crate::relation::failed;
use crate::statement::quoted_text;

/// The first file of each range but the first one; fewer if single files are larger than a range.
///
/// # Errors
/// If ZipfDB cannot read how many rows each file has, which `sql` asks for.
fn bounds(database: &Database, sql: &str, ranges: usize) -> Result<Vec<String>> {
    let fail = |error| failed(sql, error);
    let mut files = Vec::new();
    for row in database.query(sql).map_err(fail)? {
        let values: [Value; 2] = match row.map_err(fail)?.into_values().try_into() {
            Ok(values) => values,
            Err(values) => return exec_err!("{sql}: {} columns in place of 2", values.len()),
        };
        match values {
            [Value::Text(file), Value::Integer(rows)] => {
                files.push((Some(file), u64::try_from(rows).unwrap_or(0)));
            }
            // No range begins with a name that SQL cannot say.
            [_, Value::Integer(rows)] => files.push((None, u64::try_from(rows).unwrap_or(0))),
            _ => return exec_err!("{sql}: no number of rows"),
        }
    }
    Ok(even(files, ranges))
}

fn even(files: Vec<(Option<String>, u64)>, ranges: usize) -> Vec<String> {
    let all: u64 = files.iter().map(|(_, rows)| rows).sum();
    let (mut bounds, mut before) = (Vec::new(), 0);
    for (file, rows) in files {
        let wanted = u128::from(all) * (bounds.len() as u128 + 1) / ranges.max(1) as u128;
        let is_bound = before > 0 && u128::from(before) >= wanted && bounds.len() + 1 < ranges;
        if let Some(file) = file.filter(|file| is_bound && !file.contains('\0')) {
            bounds.push(file);
        }
        before += rows;
    }
    bounds
}

/// Conditions on `file`, one for each range.
///
/// # Errors
/// As [`bounds`].
pub(crate) fn partitions(database: &Database, sql: &str, ranges: usize) -> Result<Vec<String>> {
    let bounds = bounds(database, sql, ranges)?;
    let bounds: Vec<String> = bounds.iter().map(|file| quoted_text(file)).collect();
    let parts = (0..=bounds.len()).map(|part| {
        let from = part.checked_sub(1).map(|before| &bounds[before]);
        let from = from.map(|file| format!("\"file\" >= {file}"));
        let until = bounds.get(part).map(|file| format!("\"file\" < {file}"));
        let conditions: Vec<String> = from.into_iter().chain(until).collect();
        conditions.join(" AND ")
    });
    Ok(parts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_even_and_none_is_empty() {
        let files = |rows: &[u64]| {
            let files = rows.iter().enumerate();
            let files = files.map(|(file, rows)| (Some(file.to_string()), *rows));
            files.collect::<Vec<_>>()
        };
        assert_eq!(even(files(&[5, 5, 5, 5]), 2), ["2"]);
        assert_eq!(even(files(&[5, 5, 5, 5]), 4), ["1", "2", "3"]);
        assert_eq!(even(files(&[90, 1, 1]), 3), ["1", "2"]);
        assert_eq!(even(files(&[0, 0, 9]), 3), Vec::<String>::new());
        assert!(even(files(&[]), 3).is_empty());
        assert!(even(files(&[5, 5]), 1).is_empty());
        let unsaid = vec![(Some("a".into()), 5), (None, 5), (Some("c".into()), 5)];
        assert_eq!(even(unsaid, 3), ["c"]);
    }
}
