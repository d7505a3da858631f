//! Steps that change a database, a model of what they do, and a way to see what is there.
//!
//! Shared by the tests of this folder. The invariant they check: a database that is opened after anything bad shows
//! the model after the last step that returned, or after the one that was interrupted.

#![allow(dead_code, unused_imports, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use zipfdb_storage::{
    Backend, CorpusSettings, Dictionary, Durability, Edit, Error, FileEntry, Grammar, IndexKind,
    IndexRecord, LogPosition, LogRecord, OpenOptions, Result, Segment, SegmentWriter, Store,
    TextParts, Tokenizer,
};

pub use harness::{Random, child, child_argument, contents, copy_directory, scratch, start_child};

pub use zipfdb_test_support::{faulty, harness, power_cut};

/// Corpora and the names of their files, sorted.
pub type State = BTreeMap<String, Vec<String>>;

pub const CREATE: OpenOptions = OpenOptions {
    read_only: false,
    create: true,
};

pub const WRITE: OpenOptions = OpenOptions {
    read_only: false,
    create: false,
};

pub const READ: OpenOptions = OpenOptions {
    read_only: true,
    create: false,
};

#[derive(Clone, Debug)]
pub enum Step {
    Create(&'static str),
    /// Larger segments from now on, for a corpus that has none yet.
    Resize(&'static str),
    /// One segment a file.
    Publish(&'static str, Vec<String>),
    /// A publication that is dropped after writing one segment.
    Abandon(&'static str),
    Drop(&'static str),
    /// Dropped while a handle of each segment is held.
    DropHeld(&'static str),
    /// A commit to the log: names of files to add, or with `-` before to delete.
    Commit(Durability, Vec<(&'static str, Vec<String>)>),
    /// Log and segments to new segments.
    Recompress(&'static str),
    /// Recompressed while a handle of each segment is held.
    RecompressHeld(&'static str),
    /// An index is created if there is none, and built for all segments.
    Index(&'static str),
    DropIndex(&'static str),
}

/// The content of index files.
const INDEX_CONTENT: &[u8] = b"an index";

fn index_of(store: &Store, corpus: &str) -> Result<IndexRecord> {
    Ok(IndexRecord {
        name: format!("of_{corpus}"),
        corpus: store.corpus(corpus)?.id,
        kind: IndexKind::Postings,
        codec: 0,
        unit: 0,
        is_reordered: false,
    })
}

/// A size that few commits fill.
const LOG_FILE_SIZE: u64 = 200;

impl Step {
    pub fn publish(corpus: &'static str, files: &[&str]) -> Step {
        Step::Publish(
            corpus,
            files.iter().map(|name| (*name).to_owned()).collect(),
        )
    }

    pub fn commit(durability: Durability, edits: &[(&'static str, &[&str])]) -> Step {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let edits = edits.iter().map(|(corpus, names)| (*corpus, owned(names)));
        Step::Commit(durability, edits.collect())
    }

    /// Whether its effect is durable once it is done and then the process is killed, or the power goes
    /// off.
    pub fn survives(&self, power_cut: bool) -> bool {
        match self {
            Step::Commit(durability, _) => match durability {
                Durability::Full => true,
                Durability::Normal => !power_cut,
                Durability::Off => false,
            },
            Step::Abandon(_) => false,
            _ => true,
        }
    }

    pub fn perform(&self, store: &Store) -> Result<()> {
        match self {
            Step::Create(name) => store.create_corpus(name, settings(name)).map(drop),
            Step::Resize(name) => store.set_segment_size(name, RESIZED),
            Step::Publish(name, files) => {
                let mut publication = store.begin_publication(name)?;
                for (index, file) in files.iter().enumerate() {
                    let (header, path) =
                        publication.next_segment((16, 0, 0), index + 1 == files.len())?;
                    write_segment(store.backend(), &path, &header, file)?;
                }
                publication.commit()
            }
            Step::Abandon(name) => {
                let mut publication = store.begin_publication(name)?;
                let (header, path) = publication.next_segment((16, 0, 0), false)?;
                write_segment(store.backend(), &path, &header, "abandoned")
            }
            Step::Drop(name) => store.drop_corpus(name),
            Step::DropHeld(name) => {
                let (_, held) = store.open_corpus(name)?;
                store.drop_corpus(name)?;
                verify(&held)
            }
            Step::Commit(durability, edits) => {
                store.set_log_file_size(LOG_FILE_SIZE);
                let mut records = Vec::new();
                for (name, edits) in edits {
                    let corpus = store.corpus(name)?.id;
                    let deleted = edits.iter().filter_map(|name| name.strip_prefix('-'));
                    records.push(LogRecord::delete(corpus, deleted)?);
                    let added = edits.iter().filter(|name| !name.starts_with('-'));
                    let rows = added.map(|name| (name.as_str(), None, name.as_bytes()));
                    records.push(LogRecord::insert(corpus, rows)?);
                }
                store.append_commit(&records, *durability).map(drop)
            }
            Step::Recompress(name) => recompress(store, name).map(drop),
            Step::RecompressHeld(name) => verify(&recompress(store, name)?),
            Step::Index(name) => {
                let record = index_of(store, name)?;
                match store.create_index(record.clone()) {
                    Err(Error::IndexExists { .. }) => {}
                    created => created?,
                }
                let (_, segments) = store.open_corpus(name)?;
                segments.iter().try_for_each(|segment| {
                    segment.write_index(&record, |writer| {
                        writer.write(INDEX_CONTENT)?;
                        writer.end_section();
                        Ok::<_, Error>(())
                    })
                })
            }
            Step::DropIndex(name) => match store.drop_index(&index_of(store, name)?.name) {
                // An earlier attempt dropped it, and then failed.
                Err(Error::NoSuchIndex { .. }) => Ok(()),
                dropped => dropped,
            },
        }
    }

    /// The model.
    pub fn apply(&self, state: &mut State) {
        match self {
            Step::Create(name) => drop(state.insert((*name).to_owned(), Vec::new())),
            Step::Resize(name) => state.get_mut(*name).unwrap().push(RESIZED.to_string()),
            Step::Publish(name, files) => state.get_mut(*name).unwrap().extend(files.clone()),
            Step::Commit(_, edits) => {
                for (name, edits) in edits {
                    let files = state.get_mut(*name).unwrap();
                    for edit in edits {
                        match edit.strip_prefix('-') {
                            Some(deleted) => files.retain(|file| file != deleted),
                            None => files.push(edit.clone()),
                        }
                    }
                }
            }
            Step::Abandon(_)
            | Step::Recompress(_)
            | Step::RecompressHeld(_)
            | Step::Index(_)
            | Step::DropIndex(_) => {}
            Step::Drop(name) | Step::DropHeld(name) => drop(state.remove(*name)),
        }
        state.values_mut().for_each(|files| files.sort());
    }
}

/// Reads segments. A read that fails is no failure of the step, which is done: it is tried again.
fn verify(segments: &[Arc<Segment>]) -> Result<()> {
    (segments.iter()).try_for_each(|segment| match segment.verify() {
        Err(Error::Io { .. }) => segment.verify(),
        verified => verified,
    })
}

/// Recompresses a corpus; returns its old segments.
fn recompress(store: &Store, name: &str) -> Result<Vec<Arc<Segment>>> {
    let merged = store.log_position();
    let (record, segments) = store.open_corpus(name)?;
    let files = files(store, record.id, &segments)?;
    let mut publication = store.begin_recompression(name, &record.segments, merged)?;
    for (index, file) in files.iter().enumerate() {
        let (header, path) = publication.next_segment((16, 0, 0), index + 1 == files.len())?;
        write_segment(store.backend(), &path, &header, file)?;
    }
    publication.commit()?;
    Ok(segments)
}

/// The files of a corpus: those in its segments, and what the log says of it.
fn files(store: &Store, corpus: u64, segments: &[Arc<Segment>]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for segment in segments {
        names.extend(segment.files()?.iter().map(|file| file.name.clone()));
    }
    store.replay(LogPosition::START, |_, record| {
        if record.corpus() == corpus {
            for edit in record.edits() {
                match edit {
                    Edit::Insert { file, text, .. } => {
                        assert_eq!(file.as_bytes(), text);
                        names.push(file.to_owned());
                    }
                    Edit::Delete { file } => names.retain(|name| name != file),
                    Edit::Replace { .. } | Edit::Set { .. } => panic!("no step does"),
                }
            }
        }
        Ok::<_, Error>(())
    })?;
    Ok(names)
}

/// Settings that differ between corpora, so that it shows if they get lost.
pub fn settings(name: &str) -> CorpusSettings {
    CorpusSettings {
        tokenizer: Tokenizer::ALL[name.len() % 3],
        segment_size: 1000 + name.len() as u64,
        ..CorpusSettings::default()
    }
}

/// The segment size of corpora that are resized; in a `State` it stands before the files.
const RESIZED: u64 = 5000;

/// A segment with one file that holds one word, the file's name. Of files whose name has an even number it is packed text.
pub fn write_segment(
    backend: &dyn Backend,
    path: &Path,
    header: &zipfdb_storage::SegmentHeader,
    file: &str,
) -> Result<()> {
    let entry = FileEntry {
        name: file.to_owned(),
        bytes: file.len() as u64,
        words: 1,
        crc32: crc32fast::hash(file.as_bytes()),
        first_byte: 0,
        first_word: 0,
        last_part: true,
    };
    if file.ends_with(['2', '4']) {
        let parts = TextParts {
            header,
            files: &[entry],
            tokens: 1,
            // Not packed: the store does not look into it.
            text: &[&file.as_bytes()[..1], &file.as_bytes()[1..]],
            metadata: &[],
        };
        return SegmentWriter::write_text(backend, path, parts).map(drop);
    }
    let dictionary = Dictionary::new(
        vec![0, file.len() as u64],
        file.as_bytes().to_vec(),
        1,
        Vec::new(),
    );
    let grammar = Grammar {
        terminal_count: 1,
        rule_offsets: vec![0],
        symbols: vec![],
        level_offsets: vec![0],
        root_offsets: vec![0, 1],
        root: vec![0],
    };
    SegmentWriter::write(backend, path, header, &[entry], &dictionary, &grammar).map(drop)
}

/// Every kind of step, the interesting pairs next to each other.
pub fn steps() -> Vec<Step> {
    vec![
        Step::Create("a"),
        Step::publish("a", &["a1", "a2"]),
        Step::Create("empty"),
        Step::Create("bb"),
        Step::Resize("bb"),
        Step::Abandon("bb"),
        Step::publish("bb", &["b1"]),
        Step::Index("a"),
        Step::publish("a", &["a3"]),
        Step::Index("a"),
        Step::Drop("bb"),
        Step::Create("bb"),
        Step::publish("bb", &["b2", "b3", "b4"]),
        Step::Drop("empty"),
        Step::Index("bb"),
        Step::DropHeld("a"),
        Step::DropIndex("bb"),
        Step::publish("bb", &["b5"]),
    ]
}

/// Commits of every durability among steps of other kinds, some to several corpora, over many log files.
pub fn log_steps() -> Vec<Step> {
    use Durability::{Full, Normal, Off};
    vec![
        Step::Create("a"),
        Step::commit(Full, &[("a", &["a1", "a2"])]),
        Step::publish("a", &["a3"]),
        Step::commit(Normal, &[("a", &["-a3", "a4"])]),
        Step::commit(Off, &[("a", &["a5"])]),
        Step::Create("bb"),
        Step::commit(Off, &[("bb", &["b1"]), ("a", &["a6", "-a1"])]),
        Step::Recompress("a"),
        Step::commit(Full, &[("bb", &["b2", "-b1"]), ("a", &["a7"])]),
        Step::publish("bb", &["b3", "b4"]),
        Step::commit(Off, &[("bb", &["-b3"])]),
        Step::commit(Normal, &[("a", &["a8"])]),
        Step::RecompressHeld("bb"),
        Step::commit(Off, &[("bb", &["b5"])]),
        Step::Recompress("bb"),
        Step::commit(Normal, &[("bb", &["b6"]), ("a", &["-a8"])]),
        Step::DropHeld("bb"),
        Step::Create("bb"),
        Step::commit(Full, &[("bb", &["b7"])]),
        Step::commit(Off, &[("a", &["-a2", "-a4", "-a5", "-a6", "-a7"])]),
        Step::Recompress("a"),
        Step::commit(Normal, &[("bb", &["b8"]), ("a", &["a9"])]),
    ]
}

/// The model before and after each of `steps`.
pub fn states(steps: &[Step]) -> Vec<State> {
    let mut states = vec![State::new()];
    for step in steps {
        let mut state = states.last().unwrap().clone();
        step.apply(&mut state);
        states.push(state);
    }
    states
}

/// A database with all of `steps` done, closed.
pub fn build(path: &Path, steps: &[Step]) {
    let store = Store::open(path, CREATE).unwrap();
    for step in steps {
        step.perform(&store).unwrap();
    }
}

/// What a database holds, having read and verified all of it.
pub fn observe(store: &Store) -> State {
    let mut state = State::new();
    for record in store.corpora() {
        let mut settings = settings(&record.name);
        let resized = record.settings.segment_size == RESIZED;
        if resized {
            settings.segment_size = RESIZED;
        }
        assert_eq!(record.settings, settings);
        let (_, segments) = store.open_corpus(&record.name).unwrap();
        verify(&segments).unwrap();
        check_indexes(store, record.id, &segments);
        let mut names = files(store, record.id, &segments).unwrap();
        if resized {
            names.push(RESIZED.to_string());
        }
        names.sort();
        let other = state.insert(record.name, names);
        assert_eq!(other, None, "two corpora of one name");
    }
    state
}

/// An index may lack files, but those that are there are whole.
fn check_indexes(store: &Store, corpus: u64, segments: &[Arc<Segment>]) {
    let records = store.indexes().unwrap();
    for record in records.iter().filter(|record| record.corpus == corpus) {
        for segment in segments {
            if let Some(reader) = segment.index(record).unwrap() {
                assert_eq!(&*reader.section(0).unwrap(), INDEX_CONTENT);
            }
        }
    }
}

/// Opens for reading and for writing, which must agree, and then once more, which must have nothing to say but what stands
/// behind the end of a log.
pub fn reopen(path: &Path) -> State {
    let read = Store::open(path, READ).map(|store| observe(&store));
    let store = Store::open(path, CREATE).unwrap();
    let state = observe(&store);
    if let Ok(read) = read {
        assert_eq!(read, state, "read-only and writer differ");
    }
    drop(store);
    let store = Store::open(path, WRITE).unwrap();
    let mut warnings = store.warnings();
    warnings.retain(|warning| !warning.contains("not known to have been durable"));
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(observe(&store), state);
    for name in std::fs::read_dir(path.join("segments")).unwrap() {
        let name = name.unwrap().file_name().into_string().unwrap();
        if let Some((segment, "idx")) = name
            .split_once(".of_")
            .and_then(|(segment, index)| Some((segment, index.split_once('.')?.1)))
        {
            let segment = path.join(format!("segments/{segment}.seg"));
            assert!(segment.exists(), "{name} was left behind");
            continue;
        }
        // A tombstone stays as long as the log has records of the corpus.
        assert!(
            name.ends_with(".seg") || name.ends_with(".corpus") || name.ends_with(".dropped"),
            "{name} was left behind"
        );
    }
    state
}
