//! Random changes of a database, a model of what they do, and a way to see what is there.
//!
//! The invariant: a change does to a [`State`] what it does to a database. Words are found by the simplest rule that
//! all tokenizers agree with, runs of letters, so texts hold nothing but letters, spaces and line feeds.

#![allow(missing_docs, clippy::unwrap_used, clippy::missing_panics_doc)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use zipfdb::ingest::{CopyOptions, NoProgress};

use zipfdb::mixed::Operation;

use zipfdb::{
    Corpus, CorpusSettings, Database, Durability, Result, Snapshot, Tokenizer, Transaction,
};

use zipfdb_test_support::harness::Random;

pub mod killed;
pub mod targets;

/// Files and their texts.
pub type Texts = BTreeMap<String, Vec<u8>>;

/// Corpora and their files.
pub type State = BTreeMap<&'static str, Texts>;

pub const CORPORA: [&str; 2] = ["plain", "Other"];

/// Small enough for many segments and many recompressions.
pub fn settings(corpus: &str) -> CorpusSettings {
    CorpusSettings {
        tokenizer: Tokenizer::ALL[corpus.len() % 3],
        segment_size: 500,
        recompress_threshold: 700,
        ..CorpusSettings::default()
    }
}

/// Makes a random edit of one of `files` files, with a text: of a corpus and of its texts.
pub fn edit_at_random(
    random: &mut Random,
    corpus: &Corpus,
    texts: &mut Texts,
    files: usize,
    text: Vec<u8>,
) {
    let name = format!("d/{}", random.below(files));
    let size = texts.get(&name).map(Vec::len);
    match (random.below(10), size) {
        (0, Some(_)) => {
            corpus.delete_many(&[&name]).unwrap();
            texts.remove(&name);
        }
        (1, _) => {
            corpus.replace_many(&[(&name, &text)]).unwrap();
            texts.insert(name, text);
        }
        (2..8, Some(size)) => {
            let at = random.below(size + 1);
            corpus.insert_many(&[(&name, at as u64, &text)]).unwrap();
            texts.get_mut(&name).unwrap().splice(at..at, text);
        }
        _ => {
            corpus.append_many(&[(&name, &text)]).unwrap();
            texts.entry(name).or_default().extend(text);
        }
    }
}

/// An edit of a corpus, by one call.
#[derive(Clone, Debug)]
pub enum Edit {
    Append(Vec<(String, Vec<u8>)>),
    /// Offsets are those before the call.
    Insert(Vec<(String, u64, Vec<u8>)>),
    Replace(Vec<(String, Vec<u8>)>),
    Delete(Vec<String>),
    /// A question, an append and an insertion at the start of a file, which the question after it sees.
    Mixed(String, Vec<u8>),
}

#[derive(Clone, Debug)]
pub enum Change {
    Create(&'static str),
    Drop(&'static str),
    Commit(Durability, Vec<(&'static str, Edit)>),
    /// Edits that are taken back.
    Rollback(Vec<(&'static str, Edit)>),
    /// COPY FROM of files that are not there yet.
    Copy(&'static str, Vec<(String, Vec<u8>)>),
    Recompress(&'static str),
}

impl Change {
    /// One that is possible in `state`.
    pub fn random(random: &mut Random, state: &State) -> Change {
        let corpus = CORPORA[random.below(CORPORA.len())];
        if !state.contains_key(corpus) {
            return Change::Create(corpus);
        }
        match random.below(24) {
            0 => Change::Drop(corpus),
            1 | 2 => Change::Recompress(corpus),
            3..6 => Change::Copy(corpus, new_files(random, &state[corpus])),
            6 => Change::Rollback(random_edits(random, state)),
            _ => {
                use Durability::{Full, Normal, Off};
                let durability = [Full, Normal, Off][random.below(3)];
                Change::Commit(durability, random_edits(random, state))
            }
        }
    }

    /// Whether its effect is durable once it is done and then the process is killed, or the power goes
    /// off.
    pub fn survives(&self, power_cut: bool) -> bool {
        match self {
            Change::Commit(Durability::Full, _) => true,
            Change::Commit(Durability::Normal, _) => !power_cut,
            Change::Commit(Durability::Off, _) | Change::Rollback(_) => false,
            // Where nothing is pending it does nothing, whatever others wait for.
            Change::Recompress(_) => false,
            _ => true,
        }
    }

    /// The model.
    pub fn apply(&self, state: &mut State) {
        match self {
            Change::Create(corpus) => drop(state.insert(corpus, Texts::new())),
            Change::Drop(corpus) => drop(state.remove(corpus)),
            Change::Commit(_, edits) => {
                for (corpus, edit) in edits {
                    edit.apply(state.get_mut(corpus).unwrap());
                }
            }
            Change::Copy(corpus, files) => state.get_mut(corpus).unwrap().extend(files.clone()),
            Change::Rollback(_) | Change::Recompress(_) => {}
        }
    }

    /// Does it. Files to import are written below `scratch`.
    pub fn perform(&self, database: &Database, scratch: &Path) -> Result<()> {
        match self {
            Change::Create(corpus) => {
                let settings = settings(corpus);
                database.create_corpus(corpus, settings).map(drop)
            }
            Change::Drop(corpus) => database.drop_corpus(corpus),
            Change::Commit(durability, edits) => {
                let mut transaction = database.begin()?;
                transaction.set_durability(*durability);
                for (corpus, edit) in edits {
                    edit.perform(&mut transaction, corpus)?;
                }
                transaction.commit()
            }
            Change::Rollback(edits) => {
                let mut transaction = database.begin()?;
                for (corpus, edit) in edits {
                    edit.perform(&mut transaction, corpus)?;
                }
                transaction.rollback();
                Ok(())
            }
            Change::Copy(corpus, files) => {
                let import = scratch.join("import");
                let _ = fs::remove_dir_all(&import);
                fs::create_dir(&import).unwrap();
                for (name, text) in files {
                    fs::write(import.join(name), text).unwrap();
                }
                let corpus = database.corpus(corpus)?;
                corpus.copy_from(&import, &CopyOptions::default()).map(drop)
            }
            Change::Recompress(corpus) => {
                let corpus = database.corpus(corpus)?;
                corpus.recompress(&NoProgress).map(drop)
            }
        }
    }
}

impl Edit {
    /// The model.
    pub fn apply(&self, texts: &mut Texts) {
        match self {
            Edit::Append(rows) => {
                for (file, text) in rows {
                    texts.entry(file.clone()).or_default().extend(text);
                }
            }
            Edit::Insert(rows) => {
                let mut rows: Vec<_> = rows.iter().collect();
                rows.sort_by_key(|(_, offset, _)| *offset);
                // From the last one on: the offsets of the others do not move, and equal ones keep their order.
                for (file, offset, text) in rows.into_iter().rev() {
                    let at = *offset as usize;
                    let bytes = text.iter().copied();
                    texts.get_mut(file).unwrap().splice(at..at, bytes);
                }
            }
            Edit::Replace(rows) => texts.extend(rows.clone()),
            Edit::Delete(files) => files.iter().for_each(|file| drop(texts.remove(file))),
            Edit::Mixed(file, text) => {
                let old = texts.entry(file.clone()).or_default();
                *old = [&text[..], old, text].concat();
            }
        }
    }

    /// Does it.
    pub fn perform(&self, transaction: &mut Transaction, corpus: &str) -> Result<()> {
        match self {
            Edit::Append(rows) => transaction.append_many(corpus, rows),
            Edit::Insert(rows) => transaction.insert_many(corpus, rows),
            Edit::Replace(rows) => transaction.replace_many(corpus, rows),
            Edit::Delete(files) => transaction.delete_many(corpus, files),
            Edit::Mixed(file, text) => {
                let length = text.len() as u64;
                let (offset, word) = (0, b"cat");
                let operations = [
                    Operation::Append { file, text },
                    Operation::Count { file, word },
                    Operation::Insert { file, offset, text },
                    Operation::Extract {
                        file,
                        offset,
                        length,
                    },
                ];
                let answers = transaction.mixed_many(corpus, &operations)?;
                assert_eq!(answers[3], zipfdb::mixed::Answer::Bytes(text.clone()));
                Ok(())
            }
        }
    }
}

fn name(random: &mut Random) -> String {
    format!("f{}", random.below(8))
}

/// Some letters and spaces; words may grow together where texts meet.
fn text(random: &mut Random) -> Vec<u8> {
    const PARTS: [&str; 8] = ["the ", "cat ", "sat", " on ", "mat\n", "a", "  ", "dog "];
    let count = random.below(24);
    let parts = (0..count).map(|_| PARTS[random.below(PARTS.len())]);
    parts.collect::<String>().into_bytes()
}

fn new_files(random: &mut Random, texts: &Texts) -> Vec<(String, Vec<u8>)> {
    let mut files: BTreeMap<_, _> = (0..1 + random.below(3))
        .map(|_| (name(random), text(random)))
        .filter(|(name, _)| !texts.contains_key(name))
        .collect();
    let free = (0..).map(|number| format!("g{number}"));
    let free = free
        .into_iter()
        .find(|name| !texts.contains_key(name))
        .unwrap();
    // Some span several segments.
    let repeated = [1, 1, 1, 1, 1, 1, 1, 400][random.below(8)];
    files.insert(free, text(random).repeat(repeated));
    files.into_iter().collect()
}

/// Edits of a transaction, each possible after those before.
pub fn random_edits(random: &mut Random, state: &State) -> Vec<(&'static str, Edit)> {
    let mut state = state.clone();
    let corpora: Vec<&'static str> = state.keys().copied().collect();
    let mut edits = Vec::new();
    for _ in 0..1 + random.below(3) {
        let corpus = corpora[random.below(corpora.len())];
        let texts = state.get_mut(corpus).unwrap();
        let edit = random_edit(random, texts);
        edit.apply(texts);
        edits.push((corpus, edit));
    }
    edits
}

fn random_edit(random: &mut Random, texts: &Texts) -> Edit {
    let count = 1 + random.below(3);
    let known: Vec<&String> = texts.keys().collect();
    match random.below(8) {
        0 if !known.is_empty() => Edit::Delete(vec![known[random.below(known.len())].clone()]),
        1 => {
            let rows: BTreeMap<_, _> = (0..count).map(|_| (name(random), text(random))).collect();
            Edit::Replace(rows.into_iter().collect())
        }
        2 => Edit::Mixed(name(random), text(random)),
        3..6 if !known.is_empty() => {
            let row = |_| {
                let file = known[random.below(known.len())];
                let offset = random.below(texts[file].len() + 1) as u64;
                (file.clone(), offset, text(random))
            };
            Edit::Insert((0..count).map(row).collect())
        }
        _ => Edit::Append((0..count).map(|_| (name(random), text(random))).collect()),
    }
}

/// The states that may be found after `done` of `changes`: after the last one that is there for good, after any later
/// one, or after the one that was cut short.
pub fn possible(before: &State, changes: &[Change], done: usize, power_cut: bool) -> Vec<State> {
    let mut state = before.clone();
    let mut possible = vec![state.clone()];
    for (number, change) in changes.iter().take(done + 1).enumerate() {
        if number < done && change.survives(power_cut) {
            possible.clear();
        }
        change.apply(&mut state);
        possible.push(state.clone());
    }
    possible
}

/// All texts of a database, read file by file.
pub fn observe(database: &Database) -> Result<State> {
    let mut state = State::new();
    for corpus in database.corpora() {
        let texts = texts_of(&database.corpus(&corpus)?.snapshot()?)?;
        let name = CORPORA.into_iter().find(|name| *name == corpus).unwrap();
        state.insert(name, texts);
    }
    Ok(state)
}

/// All texts of a snapshot, read file by file.
pub fn texts_of(snapshot: &Snapshot) -> Result<Texts> {
    let mut texts = Texts::new();
    for file in snapshot.files() {
        let text = snapshot.extract(&file.name, 0, u64::MAX)?;
        assert_eq!(text.len() as u64, file.bytes, "{}", file.name);
        texts.insert(file.name.to_string(), text);
    }
    Ok(texts)
}

/// Words of a text with their offsets.
fn words(text: &[u8]) -> Vec<(usize, &[u8])> {
    let runs = text.split(|byte| !byte.is_ascii_alphabetic());
    // The parts lie in the text, in order.
    let mut at = 0;
    let mut words = Vec::new();
    for run in runs {
        if !run.is_empty() {
            words.push((at, run));
        }
        at += run.len() + 1;
    }
    words
}

/// Checks texts, counts, places and n-grams against what the texts say.
pub fn check(database: &Database, state: &State) {
    assert_eq!(&observe(database).unwrap(), state);
    for (corpus, texts) in state {
        let corpus = database.corpus(corpus).unwrap();
        check_counts(&corpus.snapshot().unwrap(), texts).unwrap();
        for check in corpus.check(&NoProgress).unwrap() {
            assert_eq!(check.problem, None);
        }
    }
}

/// Checks counts, places and n-grams; an error is one of the database.
pub fn check_counts(snapshot: &Snapshot, texts: &Texts) -> Result<()> {
    let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let mut pairs: BTreeMap<Vec<Vec<u8>>, u64> = BTreeMap::new();
    let mut cats = Vec::new();
    for (file, text) in texts {
        let words = words(text);
        for (_, word) in &words {
            *counts.entry(word.to_vec()).or_default() += 1;
        }
        for pair in words.windows(2) {
            let pair = pair.iter().map(|(_, word)| word.to_vec()).collect();
            *pairs.entry(pair).or_default() += 1;
        }
        let places = words.iter().filter(|(_, word)| word == b"cat");
        let places: Vec<u64> = places.map(|(at, _)| *at as u64).collect();
        let found = snapshot.search_in(file, "cat")?;
        assert_eq!(found, places, "{file}: {}", text.escape_ascii());
        assert_eq!(snapshot.count_in(file, "cat")?, places.len() as u64);
        if !places.is_empty() {
            cats.push((file.clone(), places));
        }
    }
    assert_eq!(snapshot.search("cat")?, cats);
    assert_eq!(snapshot.total_words(), counts.values().sum::<u64>());
    assert!(snapshot.words()?.to_vec().into_iter().eq(counts));
    let found = snapshot.ngrams(2)?;
    let found = found.iter().map(|(ngram, count)| {
        let words: Vec<Vec<u8>> = ngram.words().map(<[u8]>::to_vec).collect();
        (words, count)
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), pairs);
    Ok(())
}
