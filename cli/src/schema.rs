//! `.schema`: the statement that creates a corpus, and its columns.
//!
//! Invariant: what is shown is SQL that creates an empty corpus with the same settings; columns stand in comments. Settings for
//! which the default is rarely changed are shown where they differ from it.

use zipfdb::{Corpus, CorpusSettings, Result};

use crate::vocabulary::{WORDS, name, text};

/// Describes a corpus.
///
/// # Errors
/// If the corpus has been dropped.
pub fn describe(corpus: &Corpus) -> Result<String> {
    let (settings, default) = (corpus.settings()?, CorpusSettings::default());
    let columns = settings.metadata.columns().iter();
    let columns = columns.map(|column| format!("{} {}", name(&column.name), column.kind.name()));
    let columns: Vec<String> = columns.collect();
    let declared = match &columns[..] {
        [] => String::new(),
        columns => format!(" ({})", columns.join(", ")),
    };
    let mut page = format!(
        "CREATE CORPUS {}{declared} WITH (tokenizer = {}, segment_size = {}",
        name(corpus.name()),
        text(settings.tokenizer.name()),
        text(&size(settings.segment_size))
    );
    if settings.recompress_threshold != default.recompress_threshold {
        let threshold = text(&size(settings.recompress_threshold));
        page.push_str(&format!(", recompress_threshold = {threshold}"));
    }
    if settings.ingest != default.ingest {
        page.push_str(&format!(", ingest = {}", text(settings.ingest.name())));
    }
    page.push_str(");\n");
    for (name, kind) in WORDS {
        page.push_str(&format!("--   {name:<9} {kind}\n"));
    }
    for column in settings.metadata.columns() {
        page.push_str(&format!("--   {:<9} {}\n", column.name, column.kind.name()));
    }
    Ok(page)
}

/// Bytes as options take them.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units
        .into_iter()
        .find(|(bits, _)| bytes > 0 && bytes.trailing_zeros() >= *bits);
    match unit {
        Some((bits, name)) => format!("{}{name}", bytes >> bits),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use zipfdb::Database;

    #[test]
    fn the_statement_creates_the_same_corpus() {
        for (columns, more) in [
            ("", ""),
            ("", ", recompress_threshold = '1MiB'"),
            (
                " (\"from\" TEXT, day DATE, is_read BOOLEAN)",
                ", recompress_threshold = '96MiB', ingest = 'fast'",
            ),
            ("", ", ingest = 'auto'"),
        ] {
            let statement = format!(
                "CREATE CORPUS \"my mail\"{columns} WITH (tokenizer = 'whitespace', segment_size = '96KiB'{more});"
            );
            let database = Database::in_memory().unwrap();
            database.execute_batch(&statement).unwrap();
            let corpus = database.corpus("my mail").unwrap();
            let page = describe(&corpus).unwrap();
            assert_eq!(page.lines().next(), Some(&statement[..]));

            let other = Database::in_memory().unwrap();
            other.execute_batch(&page).unwrap();
            let copy = other.corpus("my mail").unwrap();
            assert_eq!(copy.settings().unwrap(), corpus.settings().unwrap());
        }
    }

    #[test]
    fn sizes_have_the_largest_unit_that_divides_them() {
        assert_eq!(size(1 << 30), "1GiB");
        assert_eq!(size(65 << 10), "65KiB");
        assert_eq!(size(100_001), "100001B");
    }
}
