//! Files of a database that are damaged, swapped, lost, or older than the others.
//!
//! The invariant: a reader, a writer and `repair` each show what was there, or say that something is wrong. Only what a
//! killed process has left may be less without a word, where the damage looks exactly like a commit that was cut short.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use zipfdb::Durability;
use zipfdb_storage::{FileBackend, read_log};

use crate::campaign::{Campaign, Outcome, Trial, copy_anew, ensure};
use crate::child::{Ended, Running, command, run, unhex};
use zipfdb_test_model::{Change, Edit, State, random_edits};
use zipfdb_test_support::harness::{Random, contents, copy_directory, scratch};

/// A kind of file, whether a path is of it, and how many of a hundred trials damage it.
type Kind = (&'static str, fn(&str) -> bool, u64);

const KINDS: [Kind; 7] = [
    ("log", |name| name.starts_with("log/"), 35),
    ("segment", |name| name.ends_with(".seg"), 15),
    ("manifest", |name| name.starts_with("MANIFEST"), 10),
    ("catalog", |name| name.starts_with("catalog/"), 15),
    ("marker", |name| name.ends_with(".corpus"), 10),
    ("tombstone", |name| name.ends_with(".dropped"), 10),
    ("lock", |name| name == "LOCK" || name == "RESERVE", 5),
];

/// Databases to damage; half of them were closed, the others left by a process that ended.
const VARIANTS: u64 = 6;

/// Corpora by name.
type Corpora = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// A database before it is damaged.
struct Base {
    folder: tempfile::TempDir,
    is_closed: bool,
    latest: Corpora,
    /// After each change of the last process.
    states: Vec<Corpora>,
    files: BTreeMap<String, Vec<u8>>,
    /// The same at earlier moments.
    older: Vec<BTreeMap<String, Vec<u8>>>,
}

pub fn attack(campaign: &mut Campaign) {
    let bases: Vec<Base> = (0..VARIANTS).map(Base::build).collect();
    for (kind, is_of, percent) in KINDS {
        if !bases
            .iter()
            .any(|base| base.files.keys().any(|name| is_of(name)))
        {
            campaign.skip(kind, "there is no such file");
            continue;
        }
        campaign.run(kind, campaign.share(percent), |trial| {
            let mut random = trial.random();
            let base = &bases[random.below(bases.len())];
            damage(trial, base, &mut random, is_of)
        });
    }
}

/// What each process of a variant does. The last but one corpus is made in place of one that was dropped with edits in
/// the log.
pub fn script(variant: u64) -> [Vec<Change>; 3] {
    let mut random = Random::new(variant);
    let append = |file: &str, text: &str| Edit::Append(vec![(file.into(), text.into())]);
    let commit = |corpus, edit| Change::Commit(Durability::Full, vec![(corpus, edit)]);
    let long = "the cat sat on the mat and the dog sat on the cat ".repeat(6);
    let copied = ["a", "b", "c"].map(|name| (name.to_owned(), format!("{name} {long}").into()));
    let mut state = State::new();
    let mut later = |state: &mut State, count| {
        let mut changes = Vec::new();
        for _ in 0..count {
            let durability = [Durability::Full, Durability::Normal][random.below(2)];
            let change = Change::Commit(durability, random_edits(&mut random, state));
            change.apply(state);
            changes.push(change);
        }
        changes
    };
    let first = vec![
        Change::Create("plain"),
        Change::Copy("plain", copied.into()),
        Change::Create("Other"),
        commit("Other", append("x", "the cat and the dog")),
        Change::Recompress("Other"),
    ];
    first.iter().for_each(|change| change.apply(&mut state));
    let mut second = later(&mut state, 3);
    let others = [
        commit("plain", append("d", "a cat ")),
        commit("Other", append("y", "a dog ")),
        Change::Drop("Other"),
        Change::Create("Other"),
    ];
    others.iter().for_each(|change| change.apply(&mut state));
    second.extend(others);
    second.extend(later(&mut state, 3));
    let third = later(&mut state, 6);
    [first, second, third]
}

impl Base {
    fn build(variant: u64) -> Base {
        let folder = scratch();
        let path = folder.path().join("d.zdb");
        let is_closed = variant.is_multiple_of(2);
        let mut state = State::new();
        let (mut older, mut states) = (Vec::new(), Vec::new());
        for (process, changes) in script(variant).into_iter().enumerate() {
            let (variant, number) = (variant.to_string(), process.to_string());
            let how = if process == 2 && !is_closed {
                "leave"
            } else {
                "close"
            };
            let ended = run(&[
                "build",
                &variant,
                &number,
                how,
                folder.path().to_str().unwrap(),
            ]);
            ended.is_clean().unwrap();
            states.clear();
            states.push(named(&state));
            for change in &changes {
                change.apply(&mut state);
                states.push(named(&state));
            }
            older.push(read(&path));
        }
        let files = older.pop().unwrap();
        let base = Base {
            folder,
            is_closed,
            latest: named(&state),
            states,
            files,
            older,
        };
        let view = View::of(&examine("read", &path)).unwrap();
        assert_eq!(view.corpora, base.latest);
        base
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("d.zdb")
    }

    /// Whether what is behind byte `to` of the newest log is no whole commit, and nothing says that there should be one.
    fn looks_cut_short(&self, name: &str, to: u64) -> bool {
        let newest = self.files.keys().rfind(|name| name.ends_with(".log"));
        if self.is_closed || newest.is_none_or(|newest| newest != name) {
            return false;
        }
        let mut last = (0, 0, 0);
        let count = |position: zipfdb_storage::LogPosition, _: zipfdb_storage::LogRecord<'_>| {
            if position.file > last.0 {
                last = (position.file, 0, 0);
            }
            if position.offset > last.2 {
                last = (last.0, last.2, position.offset);
            }
        };
        read_log(&FileBackend, &self.path().join("log"), count).unwrap();
        to > last.1
    }
}

fn named(state: &State) -> Corpora {
    let corpora = state.iter();
    corpora
        .map(|(name, texts)| ((*name).to_owned(), texts.clone()))
        .collect()
}

/// All files, by their names within the database.
fn read(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = contents(path)
        .into_iter()
        .filter(|(file, _)| file.is_file());
    let files = files.map(|(file, bytes)| {
        let name = file.strip_prefix(path).unwrap();
        (name.to_str().unwrap().to_owned(), bytes)
    });
    files.collect()
}

/// Opens a database in a child, for reading or writing.
pub fn examine(mode: &str, path: &Path) -> Ended {
    Running::start(command(&["examine", mode, path.to_str().unwrap()])).end()
}

/// What a child saw of a database.
pub struct View {
    corpora: Corpora,
    reported: Vec<String>,
}

impl View {
    pub fn of(ended: &Ended) -> Outcome<View> {
        ended.is_clean()?;
        let mut corpora = Corpora::new();
        let text = |hex: &str| String::from_utf8(unhex(hex).unwrap()).unwrap();
        for name in ended.lines("corpus") {
            corpora.insert(text(name), BTreeMap::new());
        }
        for line in ended.lines("file") {
            let [corpus, file, content] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(format!("a strange line: {line}"));
            };
            let files = corpora.get_mut(&text(corpus)).unwrap();
            files.insert(text(file), unhex(content).unwrap());
        }
        let reported = ["error", "warning", "problem", "lost"]
            .into_iter()
            .flat_map(|word| {
                let lines = ended.lines(word);
                lines.map(move |line| format!("{word} {line}"))
            });
        Ok(View {
            corpora,
            reported: reported.collect(),
        })
    }

    pub fn is(&self, state: &State) -> bool {
        self.corpora == named(state)
    }

    pub fn reported(&self) -> &[String] {
        &self.reported
    }

    /// Whether it is right, or says that it is not.
    fn judge(&self, reader: &str, base: &Base, may_be_less: bool) -> Outcome<&'static str> {
        if self.corpora == base.latest {
            Ok("right")
        } else if !self.reported.is_empty() {
            Ok("reported")
        } else if may_be_less && base.states.contains(&self.corpora) {
            Ok("cut short")
        } else {
            let sizes = |corpora: &Corpora| -> Vec<String> {
                let texts = corpora.iter().flat_map(|(corpus, files)| {
                    files
                        .iter()
                        .map(move |(file, text)| format!("{corpus}/{file}:{}", text.len()))
                });
                texts.collect()
            };
            let (found, expected) = (sizes(&self.corpora), sizes(&base.latest));
            Err(format!(
                "{reader}: silently {found:?} instead of {expected:?}"
            ))
        }
    }
}

fn damage(trial: &Trial, base: &Base, random: &mut Random, is_of: fn(&str) -> bool) -> Outcome {
    let (path, copy) = (trial.path("d.zdb"), trial.path("copy.zdb"));
    let target = trial.path("repaired.zdb");
    let names: Vec<&String> = base.files.keys().filter(|name| is_of(name)).collect();
    if names.is_empty() {
        trial.passed("no such file");
        return Ok(());
    }
    copy_anew(&base.path(), &path);
    let name = names[random.below(names.len())];
    let bytes = &base.files[name];
    let file = path.join(name);
    let at = random.below(bytes.len() + 1);
    let to = at + random.below(bytes.len() - at + 1);
    let mut damaged = bytes.clone();
    // Up to which byte something is wrong, and how.
    let (end, how) = match random.below(9) {
        0 | 1 if !bytes.is_empty() => {
            let at = at.min(bytes.len() - 1);
            damaged[at] ^= 1 << random.below(8);
            (at, "flip")
        }
        2 => {
            damaged[at..to].fill(0);
            (to, "zero")
        }
        3 => {
            damaged[at..].fill(0);
            (bytes.len(), "zero to the end")
        }
        4 => {
            damaged.truncate(if random.below(4) == 0 { at.min(40) } else { at });
            (bytes.len(), "truncate")
        }
        5 => {
            let other = names[random.below(names.len())];
            damaged.clone_from(&base.files[other]);
            fs::write(path.join(other), bytes).unwrap();
            (bytes.len(), "swap")
        }
        6 => (bytes.len(), "delete"),
        7 => match base.older[random.below(base.older.len())].get(name) {
            Some(old) => {
                damaged.clone_from(old);
                (bytes.len(), "old")
            }
            None => (bytes.len(), "delete"),
        },
        _ => {
            damaged.splice(at..at, [7; 13]);
            (bytes.len(), "insert")
        }
    };
    fs::write(&file, &damaged).unwrap();
    if how == "delete" {
        fs::remove_file(&file).unwrap();
    }
    let state = if base.is_closed { "closed" } else { "killed" };
    let context = format!(
        "{state} database, {how} {name} {at}..{to} of {}",
        bytes.len()
    );
    // What was overwritten by its own bytes is not damaged, and a file that is gone does not look like one cut short.
    let may_be_less = how != "delete" && how != "swap" && base.looks_cut_short(name, end as u64);
    let mut outcome = "right";
    let mut judged = |reader: &str, ended: &Ended| -> Outcome<&'static str> {
        let view = View::of(ended).map_err(|problem| format!("{context}: {reader}: {problem}"))?;
        let found = view
            .judge(reader, base, may_be_less)
            .map_err(|problem| format!("{context}: {problem}"))?;
        if found != "right" && outcome != "reported" {
            outcome = found;
        }
        Ok(found)
    };
    judged("reader", &examine("read", &path))?;
    copy_directory(&path, &copy);
    judged("writer", &examine("write", &copy))?;
    // A fault that was reported once and is still there must be reported again.
    judged("reader after a writer", &examine("read", &copy))?;
    repaired(&path, &target, base, may_be_less)
        .map_err(|problem| format!("{context}: {problem}"))?;
    trial.passed(outcome);
    Ok(())
}

/// `repair` saves all, or says what is lost, and does not touch what it reads.
fn repaired(path: &Path, target: &Path, base: &Base, may_be_less: bool) -> Outcome {
    let before = contents(path);
    let ended = run(&["repair", path.to_str().unwrap(), target.to_str().unwrap()]);
    let reported = View::of(&ended)
        .map_err(|problem| format!("repair: {problem}"))?
        .reported;
    ensure(contents(path) == before, || {
        "repair has written to its source".to_owned()
    })?;
    if !ended.has("done") {
        return ensure(!reported.is_empty(), || "repair says nothing".to_owned());
    }
    let view =
        View::of(&examine("read", target)).map_err(|problem| format!("repaired: {problem}"))?;
    ensure(view.reported.is_empty(), || {
        format!("repaired: {:?}", view.reported)
    })?;
    let view = View { reported, ..view };
    view.judge("repair", base, may_be_less).map(drop)
}
