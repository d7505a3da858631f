//! The host programs that are attacked, and how their parent starts them.
//!
//! A child embeds the library as any program would and tells what it does, a line each, on standard output. Its hook for
//! panics ends it at once with a line `panic: ...`, so a panic that the library catches without a word to the hook's
//! owner is the only one that goes unnoticed; a build with `panic = "abort"` notices those too.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use zipfdb::{CopyOptions, Database, Durability, InterruptHandle, NoProgress, repair};

use crate::campaign::Outcome;
use crate::{damage, hostile, limits, timeouts};
use zipfdb_test_model::killed::{
    change_until_killed, change_until_refused, commit_until_killed, commit_until_refused,
    random_changes, read_until_over,
};
use zipfdb_test_model::{self, Change, Edit, State, Texts, check_counts, observe};

/// How long a process that shares a database keeps its lock.
const LOCK_KEPT: Duration = Duration::from_millis(1);

/// No child works for so long.
const LIMIT: Duration = Duration::from_secs(120);

/// Starts a child.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .arg("child")
        .args(arguments)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// How a child ended.
pub struct Ended {
    pub status: ExitStatus,
    pub output: String,
    /// Lines on standard error that are failures: panics, and messages of allocators and loaders.
    pub complaints: String,
    pub is_late: bool,
}

impl Ended {
    /// Lines that begin with a word, without it.
    pub fn lines<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        let rest = move |line: &'a str| line.strip_prefix(word)?.strip_prefix(' ');
        self.output.lines().filter_map(rest)
    }

    pub fn has(&self, line: &str) -> bool {
        self.output.lines().any(|other| other == line)
    }

    /// Whether it ended as programs do.
    pub fn is_clean(&self) -> Outcome {
        if self.is_late {
            return Err(format!("it does not end: {}", self.output));
        }
        let complaints = self.complaints.trim();
        match (self.status.signal(), self.status.success()) {
            (Some(signal), _) => Err(format!("signal {signal}: {complaints}")),
            (None, false) => Err(format!("{}: {complaints}", self.status)),
            (None, true) if !complaints.is_empty() => Err(format!("it says: {complaints}")),
            (None, true) => Ok(()),
        }
    }

    /// Whether Rust ended it for want of memory: its allocator, or a thread that got no stack for signals.
    pub fn is_out_of_memory(&self) -> bool {
        let reasons = [
            "memory allocation of ",
            "failed to allocate an alternative stack",
        ];
        let says = |reason: &&str| self.complaints.contains(*reason);
        self.status.signal() == Some(6) && reasons.iter().any(says)
    }
}

/// A child that runs, and what reads its output.
pub struct Running {
    pub child: Child,
    seen: Arc<Mutex<Vec<u8>>>,
    output: mpsc::Receiver<String>,
    complaints: mpsc::Receiver<String>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let seen = Arc::<Mutex<Vec<u8>>>::default();
        let output = reader(child.stdout.take().unwrap(), seen.clone());
        let complaints = reader(child.stderr.take().unwrap(), Arc::default());
        Running {
            child,
            seen,
            output,
            complaints,
        }
    }

    /// Starts a child that reads the database until [`Running::end_reader`].
    pub fn reader(kind: &str, path: &Path) -> Running {
        let mut reader = command(&[kind, path.to_str().unwrap()]);
        reader.stdin(Stdio::piped());
        Running::start(reader)
    }

    /// Ends a reader, which must not have failed.
    pub fn end_reader(mut self) -> Outcome<Ended> {
        drop(self.child.stdin.take());
        let ended = self.end();
        ended
            .is_clean()
            .map_err(|problem| format!("reader: {problem}"))?;
        Ok(ended)
    }

    /// Its output so far.
    pub fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Waits for its end, but not for ever.
    pub fn end(self) -> Ended {
        self.end_within(LIMIT)
    }

    pub fn end_within(mut self, limit: Duration) -> Ended {
        let output = self.output.recv_timeout(limit);
        let is_late = output.is_err();
        if is_late {
            let _ = self.child.kill();
        }
        Ended {
            status: self.child.wait().unwrap(),
            output: output.unwrap_or_default(),
            complaints: self.complaints.recv().unwrap_or_default(),
            is_late,
        }
    }
}

/// Reads to the end what then is received; `seen` has what has come so far.
fn reader(
    mut source: impl Read + Send + 'static,
    seen: Arc<Mutex<Vec<u8>>>,
) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(size @ 1..) = source.read(&mut chunk) {
            seen.lock().unwrap().extend(&chunk[..size]);
        }
        let _ = sender.send(String::from_utf8_lossy(&seen.lock().unwrap()).into_owned());
    });
    receiver
}

/// Runs a child to its end.
pub fn run(arguments: &[&str]) -> Ended {
    Running::start(command(arguments)).end()
}

/// A number for a state or the texts of a corpus, the same in parent and child.
pub fn fingerprint(state: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// In one piece, so that a kill leaves whole lines.
pub fn tell(line: &str) {
    let line = line.replace(['\n', '\r'], " ") + "\n";
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// The host program.
pub fn main(arguments: &[String]) {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string().replace('\n', " ");
        let _ = writeln!(std::io::stderr(), "panic: {text}");
        std::process::abort();
    }));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["changes", seed, folder] => {
            let database = open(&Path::new(folder).join("d.zdb")).unwrap();
            change_until_killed(&database, seed.parse().unwrap(), Path::new(folder), tell);
        }
        ["shared-changes", seed, folder] => {
            let database = share(&Path::new(folder).join("d.zdb")).unwrap();
            change_until_killed(&database, seed.parse().unwrap(), Path::new(folder), tell);
        }
        ["committers", path] => {
            let database = open(Path::new(path)).unwrap();
            commit_until_killed(&database, 0, Duration::ZERO, tell);
        }
        ["shared-committers", path, process] => {
            let database = share(Path::new(path)).unwrap();
            let process = process.parse().unwrap();
            commit_until_killed(&database, process, 2 * LOCK_KEPT, tell);
        }
        ["changes-beside", way, seed, folder] => {
            let folder = Path::new(folder);
            let is_shared = way == "shared";
            let open = if is_shared { share } else { open };
            match open(&folder.join("d.zdb")) {
                Ok(database) => {
                    let seed = seed.parse().unwrap();
                    change_until_refused(&database, is_shared, seed, folder, tell);
                }
                Err(error) => tell(&format!("refused {error}")),
            }
        }
        ["committers-beside", way, path, process] => {
            let is_shared = way == "shared";
            let open = if is_shared { share } else { open };
            let pause = if is_shared {
                2 * LOCK_KEPT
            } else {
                Duration::ZERO
            };
            match open(Path::new(path)) {
                Ok(database) => {
                    commit_until_refused(&database, process.parse().unwrap(), pause, tell);
                }
                Err(error) => tell(&format!("refused {error}")),
            }
        }
        ["reader-beside", path] => {
            let told = until_told();
            // It must not make one at a path whose database was removed.
            let options = Database::options().threads(2).shared(true).create(false);
            match options.open(path) {
                Ok(database) => {
                    let is_over = || told.try_recv() == Err(mpsc::TryRecvError::Disconnected);
                    read_until_over(&database, is_over, fingerprint, tell);
                }
                Err(error) => tell(&format!("error {error}")),
            }
        }
        ["one", what, folder] => one(what, Path::new(folder)),
        ["reader", path] => read_until_told(Path::new(path)),
        ["examine", mode, path] => examine(mode, Path::new(path)),
        ["repair", source, target] => run_repair(Path::new(source), Path::new(target)),
        ["scenario", seed, count, folder, how] => {
            let (seed, count) = (seed.parse().unwrap(), count.parse().unwrap());
            scenario(seed, count, Path::new(folder), how);
        }
        ["limited", resource, value, seed, count, folder] => {
            let resource = match resource {
                "memory" => Resource::As,
                _ => Resource::Nofile,
            };
            let value: u64 = value.parse().unwrap();
            let limit = Rlimit {
                current: Some(value),
                maximum: Some(value),
            };
            setrlimit(resource, limit).unwrap();
            let (seed, count) = (seed.parse().unwrap(), count.parse().unwrap());
            scenario(seed, count, Path::new(folder), "close");
            limits::queries(Path::new(folder));
        }
        ["build", variant, process, how, folder] => {
            let changes =
                &damage::script(variant.parse().unwrap())[process.parse::<usize>().unwrap()];
            let folder = Path::new(folder);
            let database = open(&folder.join("d.zdb")).unwrap();
            for change in changes {
                change.perform(&database, folder).unwrap();
            }
            if how == "leave" {
                std::process::exit(0);
            }
        }
        ["room", what, folder] => make_room(what, Path::new(folder)),
        ["hostile", number] => hostile::run(number.parse().unwrap()),
        ["timeouts", group, folder] => timeouts::run(group, Path::new(folder)),
        _ => panic!("{arguments:?}"),
    }
}

fn open(path: &Path) -> zipfdb::Result<Database> {
    Database::options().threads(2).open(path)
}

/// Opens a database to which other processes write too, and gives the lock back soon.
pub fn share(path: &Path) -> zipfdb::Result<Database> {
    let options = Database::options().threads(2).shared(true);
    options.lock_kept(LOCK_KEPT).open(path)
}

/// Files for one large COPY.
pub fn import() -> Texts {
    let text = |number: usize| {
        let word = format!(
            "dog{} ",
            "abcdefghij".as_bytes()[number % 10].escape_ascii()
        );
        let text = format!("the cat sat on {word} and {word}\n").repeat(1 + number % 8);
        (format!("i{number}"), text.into_bytes())
    };
    (0..40).map(text).collect()
}

/// What is there before a single statement: segments in one corpus, another that goes, and edits of both.
pub fn prepare(path: &Path) -> State {
    let folder = path.parent().unwrap();
    let mut state = State::new();
    let database = Database::options().threads(1).open(path).unwrap();
    let many = |prefix: &str| -> Vec<_> {
        let files = import().into_iter();
        files
            .map(|(name, text)| (format!("{prefix}{name}"), text))
            .collect()
    };
    let edits = |corpus: &'static str, from: usize| {
        let row = |number| (format!("a{}i{number}", &corpus[..1]), 3, b"a cat ".to_vec());
        let edit = Edit::Insert((from..from + 10).map(row).collect());
        Change::Commit(Durability::Full, vec![(corpus, edit)])
    };
    for corpus in zipfdb_test_model::CORPORA {
        let settings = zipfdb::CorpusSettings {
            // Nothing begins by itself.
            recompress_threshold: 1 << 20,
            ..zipfdb_test_model::settings(corpus)
        };
        database.create_corpus(corpus, settings).unwrap();
        state.insert(corpus, Texts::new());
        let prefix = format!("a{}", &corpus[..1]);
        for change in [
            Change::Copy(corpus, many(&prefix)),
            edits(corpus, 0),
            edits(corpus, 20),
        ] {
            change.perform(&database, folder).unwrap();
            change.apply(&mut state);
        }
    }
    state
}

/// The change that a kind of statement makes to what [`prepare`] has made.
pub fn change_of(what: &str) -> Change {
    match what {
        "copy" => Change::Copy("plain", import().into_iter().collect()),
        "drop" => Change::Drop("Other"),
        "recompress" => Change::Recompress("plain"),
        _ => {
            let rows = import().into_iter();
            Change::Commit(
                Durability::Full,
                vec![("plain", Edit::Replace(rows.collect()))],
            )
        }
    }
}

/// A single statement on a database that was prepared.
fn one(what: &str, folder: &Path) {
    let path = folder.join("d.zdb");
    if what == "repair" {
        tell("open");
        run_repair(&path, &folder.join("repaired.zdb"));
        return;
    }
    let database = open(&path).unwrap();
    let change = change_of(what);
    let import = folder.join("files");
    if let Change::Copy(_, files) = &change {
        let _ = std::fs::create_dir(&import);
        for (name, text) in files {
            std::fs::write(import.join(name), text).unwrap();
        }
    }
    tell("open");
    match &change {
        Change::Copy(corpus, _) => {
            let corpus = database.corpus(corpus).unwrap();
            corpus.copy_from(&import, &CopyOptions::default()).unwrap();
        }
        change => change.perform(&database, folder).unwrap(),
    }
    tell("done");
}

/// Statements that need little room or make some, on a database that was prepared.
fn make_room(what: &str, folder: &Path) {
    let path = folder.join("d.zdb");
    if what == "prepare" {
        prepare(&path);
        // Hundreds of segments of some bytes each would take a block of the disk each.
        let database = open(&path).unwrap();
        let larger = "ALTER CORPUS plain SET (segment_size = '1MiB')";
        database.execute(larger).unwrap();
        return;
    }
    let database = match open(&path) {
        Ok(database) => database,
        Err(error) => return tell(&format!("error {error}")),
    };
    let result = match what {
        "drop" => database.drop_corpus("Other"),
        "delete" => database
            .corpus("plain")
            .and_then(|corpus| corpus.delete_many(&["api1"])),
        _ => {
            let corpus = database.corpus("plain");
            corpus.and_then(|corpus| corpus.recompress(&NoProgress).map(drop))
        }
    };
    match result {
        Ok(()) => tell("done"),
        Err(error) => tell(&format!("error {error}")),
    }
}

/// Disconnected when standard input ends.
fn until_told() -> mpsc::Receiver<()> {
    let (sender, told) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(sender);
    });
    told
}

/// Opens a database for reading again and again until standard input ends, and tells what it sees each time.
fn read_until_told(path: &Path) {
    let told = until_told();
    loop {
        let options = Database::options().threads(1).read_only(true);
        match options.open(path) {
            Ok(database) => {
                let state = observe(&database).unwrap();
                for (corpus, texts) in &state {
                    let corpus = database.corpus(corpus).unwrap();
                    check_counts(&corpus.snapshot().unwrap(), texts).unwrap();
                }
                for warning in database.warnings() {
                    tell(&format!("warning {warning}"));
                }
                tell(&format!("saw {}", fingerprint(&state)));
            }
            Err(error) => tell(&format!("error {error}")),
        }
        if told.try_recv() == Err(mpsc::TryRecvError::Disconnected) {
            return;
        }
    }
}

/// Opens a database, and tells all that is in it and all that is wrong with it.
fn examine(mode: &str, path: &Path) {
    let options = Database::options().threads(1).create(mode == "create");
    let database = match options.read_only(mode == "read").open(path) {
        Ok(database) => database,
        Err(error) => return tell(&format!("error {error}")),
    };
    for name in database.corpora() {
        let hex_name = hex(name.as_bytes());
        let corpus = database.corpus(&name).unwrap();
        match corpus.check(&NoProgress) {
            Ok(checks) => {
                for problem in checks.iter().filter_map(|check| check.problem.as_ref()) {
                    tell(&format!("problem {problem}"));
                }
            }
            Err(error) => tell(&format!("problem {error}")),
        }
        let snapshot = match corpus.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) => {
                tell(&format!("error {error}"));
                continue;
            }
        };
        tell(&format!("corpus {hex_name}"));
        let mut texts = Texts::new();
        let mut is_whole = true;
        for file in snapshot.files() {
            let name = hex(file.name.as_bytes());
            match snapshot.extract(&file.name, 0, u64::MAX) {
                Ok(text) => {
                    tell(&format!("file {hex_name} {name} {}", hex(&text)));
                    texts.insert(file.name.to_string(), text);
                }
                Err(error) => {
                    is_whole = false;
                    tell(&format!("error {error}"));
                }
            }
        }
        if is_whole && let Err(error) = check_counts(&snapshot, &texts) {
            tell(&format!("error {error}"));
        }
    }
    for warning in database.warnings() {
        tell(&format!("warning {warning}"));
    }
}

/// Repairs a database, and tells what it says.
fn run_repair(source: &Path, target: &Path) {
    match repair(source, target, &NoProgress, &InterruptHandle::new()) {
        Ok(report) => {
            report
                .lost
                .iter()
                .for_each(|line| tell(&format!("lost {line}")));
            report
                .notes
                .iter()
                .for_each(|line| tell(&format!("note {line}")));
            tell("done");
        }
        Err(error) => tell(&format!("error {error}")),
    }
}

/// Makes changes, each twice if it fails once, and tells how they go. Then the database is closed, or left open.
fn scenario(seed: u64, count: usize, folder: &Path, how: &str) {
    let database = match open(&folder.join("d.zdb")) {
        Ok(database) => database,
        Err(error) => return tell(&format!("error {error}")),
    };
    tell("open");
    let mut state = State::new();
    for change in random_changes(seed, count) {
        let mut result = change.perform(&database, folder);
        if let Err(error) = result {
            tell(&format!("error {error}"));
            // What fails changes nothing.
            match observe(&database) {
                Ok(found) => assert_eq!(found, state, "{change:?}"),
                Err(error) => tell(&format!("error {error}")),
            }
            result = change.perform(&database, folder);
        }
        if let Err(error) = result {
            tell(&format!("error {error}"));
            tell("refused");
            break;
        }
        change.apply(&mut state);
        tell("done");
    }
    match how {
        // As a kill would leave it, at a moment when nothing is going on.
        "leave" => std::process::exit(0),
        _ => drop(database),
    }
    tell("closed");
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let pair = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(pair).collect()
}
