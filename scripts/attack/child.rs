//! The host programs that are attacked, and how their parent starts them.
//!
//! A child embeds the library as any program would and prints what it does, a line each, on standard output. Its hook for
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

use zipfdb::{Database, Durability};

use crate::campaign::Outcome;
use zipfdb_test_model::{self, Change, Edit, State, Texts};

/// How long a process that shares a database keeps its lock.
pub const LOCK_KEPT: Duration = Duration::from_millis(1);

/// Time after which a child counts as hanging.
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
pub fn report_line(line: &str) {
    let line = line.replace(['\n', '\r'], " ") + "\n";
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// Opens a database of this process alone.
pub fn open(path: &Path) -> zipfdb::Result<Database> {
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

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let pair = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(pair).collect()
}
