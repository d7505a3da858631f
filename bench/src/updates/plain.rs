//! Edits of plain files, without an engine: the naive way, and what a sync costs.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::{COMMITS, EDIT_BYTES, Edits, Figure, Unit, per_second};
use crate::Result;
use crate::corpus::Corpus;

pub fn run(corpus: &Corpus, edits: &Edits, directory: &Path) -> Result<Vec<Figure>> {
    let mut texts = texts(corpus)?;
    let mut touched = vec![false; texts.len()];
    let in_memory = per_second(edits.inserts.len(), || {
        for insert in &edits.inserts {
            // A file in memory has a usize of bytes.
            let at = insert.moved as usize;
            texts[insert.file].splice(at..at, insert.text.iter().copied());
            touched[insert.file] = true;
        }
        Ok(())
    })?;
    let folder = directory.join("plain");
    fs::create_dir(&folder)?;
    let written = per_second(edits.inserts.len(), || {
        for (number, text) in texts.iter().enumerate().filter(|(file, _)| touched[*file]) {
            let mut file = File::create(folder.join(number.to_string()))?;
            file.write_all(text)?;
            file.sync_data()?;
        }
        Ok(())
    })?;
    let mut log = File::create(folder.join("log"))?;
    let syncs = per_second(COMMITS, || {
        for _ in 0..COMMITS {
            log.write_all(&[b'x'; EDIT_BYTES])?;
            log.sync_data()?;
        }
        Ok(())
    })?;
    fs::remove_dir_all(&folder)?;
    let both = 1.0 / (1.0 / in_memory + 1.0 / written);
    let figure = |name, value| Figure {
        name,
        engine: "plain",
        unit: Unit::PerSecond,
        value,
    };
    Ok(vec![
        figure("inserts in sequence, in memory only", in_memory),
        figure("inserts in sequence", both),
        figure("commits of one row", syncs),
    ])
}

/// The text of every file.
pub fn texts(corpus: &Corpus) -> Result<Vec<Vec<u8>>> {
    let files = corpus.files.iter();
    files.map(|file| Ok(fs::read(&file.path)?)).collect()
}
