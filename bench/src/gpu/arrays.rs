//! A corpus as arrays of numbers: what kernels take.
//!
//! The tokens are those that a database stores, read from its segments.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zipfdb::ingest::CopyOptions;
use zipfdb::{CorpusSettings, Database};
use zipfdb_kernels::{GAP, GrammarView, WordTerminals};
use zipfdb_storage::{FileBackend, SegmentReader};

use crate::Result;

/// One segment.
pub struct Arrays {
    pub name: String,
    /// Bytes of text.
    pub text_bytes: u64,
    /// All files' terminals.
    pub tokens: Vec<u32>,
    /// Names of the files.
    pub files: Vec<String>,
    /// `[files + 1]` into `tokens`.
    pub file_offsets: Vec<u32>,
    /// `[terminals + 1]` into `bytes`.
    pub offsets: Vec<u64>,
    /// The terminals' texts.
    pub bytes: Vec<u8>,
    /// The terminals of each word.
    pub words: Vec<WordTerminals>,
    /// `[terminals]`: the number of each terminal's word, or [`GAP`].
    pub word_of: Vec<u32>,
}

impl Arrays {
    /// The segments of a database, or of one that is made of text.
    pub fn of_corpus(path: &Path) -> Result<Vec<Arrays>> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if is_database(path) {
            return segments(&name, path);
        }
        let scratch = Scratch::of_corpus(path)?;
        segments(&name, &scratch.database)
    }

    /// Number of terminals.
    pub fn terminal_count(&self) -> u32 {
        // Terminals are u32, and there is one offset more.
        (self.offsets.len() - 1) as u32
    }

    /// The text of a terminal.
    pub fn token(&self, terminal: u32) -> &[u8] {
        let at = terminal as usize;
        &self.bytes[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }
}

/// A database that may be changed; it goes when this is dropped.
pub struct Scratch {
    pub database: PathBuf,
    _folder: TempDir,
}

impl Scratch {
    /// A copy of a database, or one that is made of text.
    pub fn of_corpus(path: &Path) -> Result<Scratch> {
        let folder = tempfile::tempdir()?;
        let directory = folder.path().join("corpus.zdb");
        if is_database(path) {
            copy_folder(path, &directory)?;
        } else {
            let database = Database::open(&directory)?;
            let corpus = database.create_corpus("c", CorpusSettings::default())?;
            corpus.copy_from(path, &CopyOptions::default())?;
        }
        Ok(Scratch {
            database: directory,
            _folder: folder,
        })
    }
}

fn is_database(path: &Path) -> bool {
    path.join("segments").is_dir()
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The segment files of a database.
pub fn segment_paths(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory.join("segments"))? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("seg")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn segments(name: &str, directory: &Path) -> Result<Vec<Arrays>> {
    let found = segment_paths(directory)?;
    let segments = found.iter().map(|path| {
        let number = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = match found.len() {
            1 => name.to_owned(),
            _ => format!("{name}/{number}"),
        };
        segment(name, path)
    });
    segments.collect()
}

fn segment(name: String, path: &Path) -> Result<Arrays> {
    let reader = SegmentReader::open(&FileBackend, path)?;
    let (grammar, dictionary) = (reader.grammar()?, reader.dictionary()?);
    let view = GrammarView {
        terminal_count: grammar.terminal_count,
        rule_offsets: &grammar.rule_offsets,
        symbols: &grammar.symbols,
        level_offsets: &grammar.level_offsets,
        root_offsets: &grammar.root_offsets,
        root: &grammar.root,
    };
    let (mut tokens, mut file_offsets) = (Vec::new(), vec![0]);
    for file in 0..view.files() as u32 {
        view.for_each_terminal(view.root_range(file), |terminal| tokens.push(terminal));
        file_offsets.push(u32::try_from(tokens.len())?);
    }
    let mut words: Vec<WordTerminals> = Vec::new();
    let mut word_of = vec![GAP; dictionary.len() as usize];
    for terminal in 0..dictionary.word_tokens() {
        let is_same = terminal > 0 && dictionary.word(terminal) == dictionary.word(terminal - 1);
        if !is_same {
            words.push(WordTerminals {
                first: terminal,
                spaced: terminal,
                end: terminal,
            });
        }
        word_of[terminal as usize] = words.len() as u32 - 1;
        if let Some(word) = words.last_mut() {
            // Those without a space come first.
            word.spaced += u32::from(!dictionary.has_glued_space(terminal));
            word.end = terminal + 1;
        }
    }
    let files = reader.files()?;
    Ok(Arrays {
        name,
        text_bytes: files.iter().map(|file| file.bytes).sum(),
        files: files.iter().map(|file| file.name.clone()).collect(),
        tokens,
        file_offsets,
        offsets: dictionary.offsets().to_vec(),
        bytes: dictionary.bytes().to_vec(),
        words,
        word_of,
    })
}
