//! Messages of errors: each says what is wrong with what, in words of ours or of the operating system.
//!
//! Invariant: the table names every kind of mistake that a host program or a user can make with paths, files and values. A
//! message that changes changes here.

#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use zipfdb::ingest::{CopyOptions, NoProgress};
use zipfdb::pack::{PackCodec, PackOptions, pack_file, unpack_file};
use zipfdb::repair::repair;
use zipfdb::storage::PathText;
use zipfdb::{CorpusSettings, Database, InterruptHandle, Value};

type Answer = Result<(), zipfdb::Error>;

/// A folder with a database `a.zdb`, whose corpus `c` has the files `a.txt` and `b.txt`, and with things that are none.
struct Folder {
    top: TempDir,
    database: Option<Database>,
}

impl Folder {
    fn new() -> Folder {
        let top = TempDir::new().unwrap();
        let path = |name: &str| top.path().join(name);
        for (name, content) in [
            ("texts/a.txt", &b"the cat"[..]),
            ("texts/b.txt", b"the dog"),
            ("file", b"text"),
            ("stuff/notes.txt", b"mine"),
            ("latin/x.txt", b"ab\xff"),
            ("twice/a.txt", b"another"),
            ("unfinished.zdb/REPAIR", b"/old/na\xefme.zdb"),
        ] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), content).unwrap();
        }
        for directory in ["empty", "links", "pipes"] {
            fs::create_dir(path(directory)).unwrap();
        }
        symlink("loop", path("loop")).unwrap();
        symlink("nowhere", path("links/dangling")).unwrap();
        for pipe in ["pipe", "pipes/pipe"] {
            let mode = Mode::from_raw_mode(0o600);
            mknodat(CWD, path(pipe), FileType::Fifo, mode, 0).unwrap();
        }
        let database = Database::open(path("a.zdb")).unwrap();
        let corpus = database
            .create_corpus("c", CorpusSettings::default())
            .unwrap();
        let options = CopyOptions::default();
        corpus.copy_from(path("texts"), &options).unwrap();
        Folder {
            top,
            database: Some(database),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(OsStr::new(name))
    }

    /// A name that is not UTF-8, in this folder.
    fn strange(&self) -> PathBuf {
        self.top.path().join(OsStr::from_bytes(b"na\xefme"))
    }

    fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    /// Runs SQL, in which `DIR` is the folder.
    fn sql(&self, sql: &str) -> Answer {
        let folder = self.top.path().to_str().unwrap();
        let mut rows = self.database().query(&sql.replace("DIR", folder), ())?;
        rows.try_for_each(|row| row.map(drop))
    }

    fn copy_from(&self, path: &Path) -> Answer {
        let corpus = self.database().corpus("c")?;
        corpus.copy_from(path, &CopyOptions::default()).map(drop)
    }

    fn open(&self, name: &str) -> Answer {
        Database::open(self.path(name)).map(drop)
    }

    fn open_existing(&self, path: &Path) -> Answer {
        Database::options().create(false).open(path).map(drop)
    }

    /// Opens the database again after a change to its files.
    fn reopen_after(&mut self, change: impl FnOnce(&Path)) -> Answer {
        self.database = None;
        let path = self.path("a.zdb");
        change(&path);
        let database = Database::open(&path)?;
        let mut rows = database.query("SELECT word FROM c", ())?;
        rows.try_for_each(|row| row.map(drop))
    }

    fn segment(&self) -> PathBuf {
        let mut files = fs::read_dir(self.path("a.zdb/segments")).unwrap();
        let is_segment = |path: &PathBuf| path.extension() == Some(OsStr::new("seg"));
        files
            .find_map(|file| Some(file.unwrap().path()).filter(is_segment))
            .unwrap()
    }
}

/// A mistake, and its message.
struct Case {
    mistake: fn(&mut Folder) -> Answer,
    message: &'static str,
}

/// Characters of a name that no file system takes.
const LONG: usize = 300;

const fn case(mistake: fn(&mut Folder) -> Answer, message: &'static str) -> Case {
    Case { mistake, message }
}

const CASES: &[Case] = &[
    // Opening.
    case(
        |folder| folder.open_existing(&folder.path("none.zdb")),
        "DIR/none.zdb: there is no database",
    ),
    case(
        |folder| folder.open_existing(&folder.path("empty")),
        "DIR/empty: there is no database",
    ),
    case(
        |folder| folder.open_existing(&folder.strange()),
        "DIR/na\\xefme: there is no database",
    ),
    case(
        |folder| {
            let options = Database::options().read_only(true);
            options.open(folder.path("none.zdb")).map(drop)
        },
        "DIR/none.zdb: there is no database",
    ),
    case(
        |folder| folder.open("none/x.zdb"),
        "DIR/none: cannot open: No such file or directory",
    ),
    case(
        |folder| folder.open("stuff"),
        "DIR/stuff: this directory holds other files and no database; hint: give the directory of a database, or one that does not exist yet",
    ),
    case(
        |folder| folder.open("file"),
        "DIR/file: cannot open: Not a directory (os error 20)",
    ),
    case(
        |folder| folder.open("file/x.zdb"),
        "DIR/file/x.zdb: cannot open: Not a directory (os error 20)",
    ),
    case(
        |folder| folder.open("loop"),
        "cannot open DIR/loop: too many symbolic links",
    ),
    case(
        |folder| folder.open("pipe"),
        "DIR/pipe: cannot open: Not a directory (os error 20)",
    ),
    case(
        |folder| folder.open(&"x".repeat(LONG)),
        "cannot open DIR/LONG: File name too long (os error 36)",
    ),
    case(
        |folder| folder.open("a.zdb"),
        "DIR/a.zdb: database is open for writing in this process already; hint: share the one that is open, or open read-only",
    ),
    case(
        |folder| folder.open("unfinished.zdb"),
        "DIR/unfinished.zdb: a repair did not finish writing this database; hint: run `zipf repair /old/na\\xefme.zdb DIR/unfinished.zdb` again, it starts over",
    ),
    case(
        |folder| {
            let options = Database::options().threads(10_000);
            options.open(folder.path("x.zdb")).map(drop)
        },
        "threads: 10000 are too many; hint: at most 4096 can be started",
    ),
    // Damage.
    case(
        |folder| folder.reopen_after(|path| fs::remove_dir_all(path.join("segments")).unwrap()),
        "DIR/a.zdb: corrupt database directory: its `segments` directory is missing",
    ),
    case(
        |folder| {
            let segment = folder.segment();
            folder.reopen_after(|_| fs::write(segment, "torn").unwrap())
        },
        "DIR/a.zdb/segments/00000003.seg: corrupt frame: it is cut off or not a segment file",
    ),
    case(
        |folder| {
            let segment = folder.segment();
            folder.reopen_after(|_| fs::remove_file(segment).unwrap())
        },
        "DIR/a.zdb/segments/00000003.seg: cannot open: No such file or directory (os error 2)",
    ),
    case(
        |folder| {
            folder.sql("INSERT INTO c (file, content) VALUES ('d', 'one'), ('e', 'two')")?;
            folder.reopen_after(|path| {
                let log = fs::read_dir(path.join("log")).unwrap().next().unwrap();
                let log = log.unwrap().path();
                let mut bytes = fs::read(&log).unwrap();
                bytes.truncate(bytes.len() / 2);
                fs::write(log, bytes).unwrap();
            })
        },
        "DIR/a.zdb/log/0000000000000001.log: corrupt record log at byte 52: the file is too short; hint: `zipf repair` saves what can be read in a new database",
    ),
    // Corpora and files.
    case(
        |folder| folder.database().corpus("x").map(drop),
        "no such corpus `x`",
    ),
    case(
        |folder| {
            let options = Database::options().shared(true);
            let database = options.open(folder.path("none.zdb"))?;
            database.corpus("x").map(drop)
        },
        "no such corpus `x`; hint: there is no database at DIR/none.zdb yet, the first change makes it",
    ),
    case(
        |folder| {
            let options = Database::options().shared(true);
            let database = options.open(folder.path("none.zdb"))?;
            database.query("SELECT word FROM x", ()).map(drop)
        },
        "1:18: no such corpus \"x\"; hint: there is no database at DIR/none.zdb yet; `CREATE CORPUS name` makes it",
    ),
    case(
        |folder| {
            let snapshot = folder.database().corpus("c")?.snapshot()?;
            snapshot.extract("a.tx", 0, 1).map(drop)
        },
        "no such file \"a.tx\" in corpus \"c\"; hint: did you mean \"a.txt\"?",
    ),
    // COPY ... FROM.
    case(
        |folder| folder.sql("COPY c FROM 'DIR/none'"),
        "cannot open DIR/none: No such file or directory (os error 2)",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/none/x'"),
        "cannot open DIR/none/x: No such file or directory (os error 2)",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/file/x'"),
        "cannot open DIR/file/x: Not a directory (os error 20)",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/loop'"),
        "cannot open DIR/loop: Too many levels of symbolic links (os error 40)",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/*.none'"),
        "DIR/*.none: no file matches",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/none/*'"),
        "cannot open DIR/none: No such file or directory (os error 2)",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/report[1.txt'"),
        "DIR/report[1.txt: there is no such file, and as a glob it has a `[` that no `]` ends",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/a**'"),
        "DIR/a**: there is no such file, and as a glob it has `**` beside other characters of a name",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/***'"),
        "DIR/***: there is no such file, and as a glob it has more than two `*` side by side",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/links'"),
        "DIR/links/dangling: No such file or directory (os error 2); hint: nothing was copied, WITH (on_error = 'skip') leaves unreadable files out",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/pipes'"),
        "DIR/pipes/pipe: not a regular file; hint: nothing was copied, WITH (on_error = 'skip') leaves unreadable files out",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/twice'"),
        "corpus \"c\" already has a file \"a.txt\" (DIR/twice/a.txt); hint: nothing was copied, WITH (on_conflict = 'skip') leaves files that are there as they are, 'replace' replaces them",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/a.zdb/segments'"),
        "DIR/a.zdb/segments: it belongs to the database DIR/a.zdb; hint: open that, and write its texts out with COPY ... TO",
    ),
    case(
        |folder| folder.sql("COPY c FROM 'DIR/latin' WITH (encoding = 'utf-8')"),
        "DIR/latin/x.txt: not UTF-8 at byte 2; hint: nothing was copied, WITH (on_error = 'skip') leaves unreadable files out",
    ),
    case(
        |folder| folder.copy_from(&folder.strange()),
        "cannot open DIR/na\\xefme: No such file or directory (os error 2)",
    ),
    case(
        |folder| folder.sql("COPY c FROM ''"),
        "1:13: the path is empty",
    ),
    case(
        |folder| {
            let path = [Value::from("a\0b")];
            let rows = folder.database().query("COPY c FROM ?", &path);
            rows.map(drop)
        },
        "1:13: the path has a NUL character, which no path has",
    ),
    // COPY ... TO.
    case(
        |folder| folder.sql("COPY c TO 'DIR/file'"),
        "cannot create DIR/file: Not a directory (os error 20)",
    ),
    case(
        |folder| folder.sql("COPY c TO 'DIR/twice'"),
        "DIR/twice/a.txt: it exists and differs from the file of the corpus; hint: remove it, or choose another directory",
    ),
    case(
        |folder| folder.sql("COPY c TO 'DIR/a.zdb/x'"),
        "DIR/a.zdb/x: it is inside the database DIR/a.zdb, where only the database writes; hint: choose a path outside of it",
    ),
    case(
        |folder| folder.sql("COPY (SELECT 1) TO 'DIR/texts' WITH (format = 'csv')"),
        "cannot create DIR/texts: Is a directory",
    ),
    case(
        |folder| folder.sql("COPY (SELECT 1) TO 'DIR/none/x.csv'"),
        "cannot create DIR/none/x.csv: No such file or directory (os error 2)",
    ),
    case(
        |folder| folder.sql("COPY (SELECT 1) TO 'DIR/file/x.csv'"),
        "cannot create DIR/file/x.csv: Not a directory (os error 20)",
    ),
    // Values.
    case(
        |folder| folder.sql("INSERT INTO c (file, offset, content) VALUES ('a.txt', 'x', 'y')"),
        "1:56: offset must be INTEGER, but 'x' is TEXT",
    ),
    case(
        |folder| folder.sql("INSERT INTO c (file, offset, content) VALUES ('a.txt', -1, 'y')"),
        "1:56: offset must be at least 0, found -1; hint: offsets are bytes from the beginning of the file",
    ),
    case(
        |folder| folder.sql("INSERT INTO c (file, offset, content) VALUES ('a.txt', 99, 'y')"),
        "row 1: offset 99 is past the end of file \"a.txt\", which has 7 bytes",
    ),
    case(
        |folder| folder.sql("INSERT INTO c (file, content) VALUES ('a.txt', NULL)"),
        "1:48: content must be TEXT or BLOB, but NULL is NULL",
    ),
    case(
        |folder| folder.sql("INSERT INTO c (file, content) VALUES ('a.txt', 'x'), (7, 'y')"),
        "1:55: file must be TEXT, but 7 is INTEGER",
    ),
    case(
        |folder| folder.sql("INSERT INTO c (file, content) VALUES ('../x', 'y')"),
        "row 1: file name \"../x\": it is no relative path; hint: parts stand between single `/`, none is `.` or `..`",
    ),
    case(
        |folder| {
            folder.sql("INSERT INTO c (file, offset, content) VALUES ('a.txt', 'x' || 1, 'y')")
        },
        "row 1: offset: TEXT stands where INTEGER is expected; hint: an offset is a number of bytes, from 0",
    ),
    case(
        |folder| folder.sql("INSERT INTO c (file, content) VALUES (1 + 1, 'y')"),
        "row 1: file: INTEGER stands where TEXT is expected; hint: CAST(x AS TEXT) makes it one",
    ),
    case(
        |folder| folder.sql("INSERT INTO c (file, content) VALUES ('a.txt', 1.5 * 2)"),
        "row 1: content: REAL stands where TEXT or BLOB is expected",
    ),
    case(
        |folder| folder.sql("INSERT INTO c (file, content) SELECT file, NULL FROM files('c')"),
        "row 1: content: NULL stands where TEXT or BLOB is expected",
    ),
    // Packed files and repairs.
    case(
        |folder| {
            let (source, target) = (folder.path("none"), folder.path("out"));
            let options = PackOptions::new(PackCodec::Byte);
            pack_file(
                source,
                target,
                &options,
                &NoProgress,
                &InterruptHandle::new(),
            )
            .map(drop)
        },
        "cannot open DIR/none: No such file or directory (os error 2)",
    ),
    case(
        |folder| {
            unpack_file(
                folder.path("file"),
                folder.path("out"),
                &NoProgress,
                &InterruptHandle::new(),
            )
            .map(drop)
        },
        "DIR/file: not packed text: the first bytes are not those of the format",
    ),
    case(
        |folder| {
            unpack_file(
                folder.path("texts"),
                folder.path("out"),
                &NoProgress,
                &InterruptHandle::new(),
            )
            .map(drop)
        },
        "cannot open DIR/texts: Is a directory",
    ),
    case(
        |folder| {
            repair(
                folder.path("none"),
                folder.path("out"),
                &NoProgress,
                &InterruptHandle::new(),
            )
            .map(drop)
        },
        "DIR/none: there is no database",
    ),
    case(
        |folder| {
            repair(
                folder.path("stuff"),
                folder.path("out"),
                &NoProgress,
                &InterruptHandle::new(),
            )
            .map(drop)
        },
        "DIR/stuff: this directory holds other files and no database; hint: give the directory of a database, or one that does not exist yet",
    ),
    case(
        |folder| {
            repair(
                folder.path("a.zdb"),
                folder.path("stuff"),
                &NoProgress,
                &InterruptHandle::new(),
            )
            .map(drop)
        },
        "DIR/stuff: it exists; hint: name a directory for the repaired database that does not",
    ),
];

#[test]
fn messages_say_what_is_wrong_with_what() {
    let mut wrong = Vec::new();
    let long = "x".repeat(LONG);
    for (number, Case { mistake, message }) in CASES.iter().enumerate() {
        let mut folder = Folder::new();
        let top = folder.top.path().to_str().unwrap().to_owned();
        let error = mistake(&mut folder).expect_err(message);
        let said = error.to_string();
        for foreign in ["entity", "Os {", "\u{fffd}", "\\xfffd", "near position"] {
            assert!(!said.contains(foreign), "{said}");
        }
        assert!(!said.ends_with('.'), "{said}");
        assert!(!said.starts_with(char::is_uppercase), "{said}");
        let mut before_number = said.split(" (os error ").skip(1);
        let is_alone = |_: &str| said.contains(": (os error ");
        assert!(!before_number.any(is_alone), "{said}");
        let long_path = PathText(&folder.path(&long)).to_string();
        let said = said.replace(&long_path, "DIR/LONG").replace(&top, "DIR");
        if said != *message {
            wrong.push(format!("{number}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_path_of_a_message_can_be_given_to_copy() {
    let folder = Folder::new();
    let strange = folder.strange();
    let message = folder.copy_from(&strange).unwrap_err().to_string();
    let shown = message
        .strip_prefix("cannot open ")
        .and_then(|rest| rest.split_once(": "))
        .unwrap()
        .0;
    assert_eq!(shown, PathText(&strange).to_string());
    fs::write(&strange, "found").unwrap();
    folder.sql(&format!("COPY c FROM '{shown}'")).unwrap();
    let snapshot = folder.database().corpus("c").unwrap().snapshot().unwrap();
    assert_eq!(snapshot.extract("na\\xefme", 0, 99).unwrap(), b"found");
}
