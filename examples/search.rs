//! A search on the command line: a loop that reads words and shows where they follow each other.
//!
//! `cargo run --example search` reads lines from standard input: one word, or several that must stand side by side. The end of
//! the input ends it.

mod output;

use std::error::Error;
use std::io::{self, BufRead, Write};

use zipfdb::ingest::CopyOptions;
use zipfdb::{CorpusSettings, Database, Snapshot};

const SPEECHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cli/sample/speeches");
/// Files and places that are shown of each search.
const SHOWN_MAX: usize = 5;
/// Bytes of text around a place.
const CONTEXT_BYTES: u64 = 30;

fn main() -> Result<(), Box<dyn Error>> {
    output::run(answer)
}

fn answer(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let db = Database::in_memory()?;
    let corpus = db.create_corpus("speeches", CorpusSettings::default())?;
    corpus.copy_from(SPEECHES, &CopyOptions::default())?;
    // It answers from memory once its segments are decoded, and never changes.
    let snapshot = corpus.snapshot()?;

    writeln!(out, "words to search for, a line each:")?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match search(&snapshot, &words) {
            Ok(places) => out.write_all(places.as_bytes())?,
            // Nine words are too many: the loop goes on.
            Err(error) => writeln!(out, "{error}")?,
        }
    }
    Ok(())
}

/// Lines that show where words stand.
fn search(snapshot: &Snapshot, words: &[&str]) -> zipfdb::Result<String> {
    let found = match words {
        [] => return Ok(String::new()),
        [word] => snapshot.search(word)?,
        words => snapshot.phrase_search(words)?,
    };
    let places: usize = found.iter().map(|(_, offsets)| offsets.len()).sum();
    let mut lines = format!("{places} places in {} files\n", found.len());
    for (file, offsets) in found.iter().take(SHOWN_MAX) {
        // Decompresses no more than the bytes that are shown need.
        let begin = offsets[0].saturating_sub(CONTEXT_BYTES);
        let text = snapshot.extract(file, begin, 3 * CONTEXT_BYTES)?;
        let text = String::from_utf8_lossy(&text).replace(['\n', '\r'], " ");
        lines += &format!("    {file}, byte {}: ...{text}...\n", offsets[0]);
    }
    Ok(lines)
}
