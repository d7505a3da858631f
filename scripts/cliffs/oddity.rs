//! The oddities: databases of the same text, each with one thing that plain text lacks.
//!
//! Invariant: every oddity adds to the plain text or changes a few bytes of it, so that what it costs more is not the work of more text.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zipfdb::{Database, Value};

use crate::Result;

/// Files by name.
type Texts = Vec<(String, Vec<u8>)>;

/// One thing that plain text lacks.
pub struct Oddity {
    pub name: &'static str,
    /// Changes files before they are imported.
    texts: fn(&mut Texts),
    /// How many segments the files are imported to.
    segments: usize,
    /// Changes that stay pending.
    pending: fn(&Database) -> Result<()>,
    /// Changes to the directory of the closed database.
    closed: fn(&Path) -> Result<()>,
}

const NOTHING: Oddity = Oddity {
    name: "plain",
    texts: |_| {},
    segments: 1,
    pending: |_| Ok(()),
    closed: |_| Ok(()),
};

/// The file that has the oddity of a text.
const ODD_FILE: &str = "odd.txt";

pub const ODDITIES: &[Oddity] = &[
    NOTHING,
    Oddity {
        name: "a word with a space",
        texts: |texts| append(texts, "\nof the \u{fb9} and the \u{fb9}\n".as_bytes()),
        ..NOTHING
    },
    Oddity {
        name: "bytes that are not UTF-8",
        texts: |texts| append(texts, b"\nof the \xff\xfe caf\xe9 word\n"),
        ..NOTHING
    },
    Oddity {
        name: "control bytes",
        texts: |texts| append(texts, b"\nof\0 the \x1b[0m \x07word\n"),
        ..NOTHING
    },
    Oddity {
        name: "a word of 1 MB",
        texts: |texts| append(texts, &b"x".repeat(1_000_000)),
        ..NOTHING
    },
    Oddity {
        name: "an empty file",
        texts: |texts| texts.push(("empty.txt".to_owned(), Vec::new())),
        ..NOTHING
    },
    Oddity {
        name: "a pending append",
        pending: |database| {
            edit(
                database,
                "INSERT INTO c (file, content) VALUES (?1, ' one more line')",
            )
        },
        ..NOTHING
    },
    Oddity {
        name: "a pending insert",
        pending: |database| {
            edit(
                database,
                "INSERT INTO c (file, offset, content) VALUES (?1, 3, 'some text ')",
            )
        },
        ..NOTHING
    },
    Oddity {
        name: "a pending new file",
        pending: |database| {
            database.execute_batch(
                "INSERT INTO c (file, content) VALUES ('new.txt', 'of the new file')",
            )?;
            Ok(())
        },
        ..NOTHING
    },
    Oddity {
        name: "a pending delete",
        pending: |database| edit(database, "DELETE FROM c WHERE file = ?1"),
        ..NOTHING
    },
    Oddity {
        name: "a file under another name",
        pending: |database| {
            let session = database.session();
            session.execute_batch("BEGIN")?;
            session.execute_batch("INSERT INTO c (file, content) SELECT 'other.txt', CAST(content AS TEXT) FROM files('c') WHERE file = 'odd.txt'")?;
            session.execute_batch("DELETE FROM c WHERE file = 'odd.txt'")?;
            session.execute_batch("COMMIT")?;
            Ok(())
        },
        ..NOTHING
    },
    Oddity {
        name: "2 segments",
        segments: 2,
        ..NOTHING
    },
    Oddity {
        name: "20 segments",
        segments: 20,
        ..NOTHING
    },
    Oddity {
        name: "2 segments, an index of one",
        segments: 2,
        pending: |database| {
            database.execute_batch("CREATE INDEX by_word ON c USING postings")?;
            Ok(())
        },
        closed: remove_an_index,
        ..NOTHING
    },
];

/// A database with an oddity; its directory goes when this is dropped.
pub struct Prepared {
    folder: TempDir,
}

impl Prepared {
    /// A corpus of the text in `folder`, or of a small one.
    pub fn new(oddity: &Oddity, folder: Option<&Path>, threads: usize) -> Result<Prepared> {
        let mut texts = match folder {
            Some(folder) => read(folder)?,
            None => small(),
        };
        texts.push((
            ODD_FILE.to_owned(),
            b"of the odd file, a line of text".to_vec(),
        ));
        (oddity.texts)(&mut texts);
        let prepared = Prepared {
            folder: tempfile::tempdir()?,
        };
        let database = Database::options().threads(threads).open(prepared.path())?;
        database.execute_batch("SET recompress_threads = 0")?;
        database.execute_batch("CREATE CORPUS c")?;
        for (number, part) in texts
            .chunks(texts.len().div_ceil(oddity.segments))
            .enumerate()
        {
            let source = prepared.folder.path().join(format!("part{number}"));
            for (name, text) in part {
                let path = source.join(name);
                fs::create_dir_all(path.parent().expect("it is below the source"))?;
                fs::write(path, text)?;
            }
            let sql = format!("COPY c FROM '{}'", source.display());
            database.execute_batch(&sql)?;
            fs::remove_dir_all(source)?;
        }
        (oddity.pending)(&database)?;
        drop(database);
        (oddity.closed)(&prepared.path())?;
        Ok(prepared)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("c.zdb")
    }

    /// The database, of which nothing is decoded yet. It is only read: nothing is merged or built in the background.
    pub fn open(&self, threads: usize) -> Result<Database> {
        Ok(Database::options()
            .threads(threads)
            .read_only(true)
            .open(self.path())?)
    }
}

/// All files below a folder by their paths from there.
fn read(folder: &Path) -> Result<Texts> {
    let (mut texts, mut waiting) = (Texts::new(), vec![folder.to_path_buf()]);
    while let Some(current) = waiting.pop() {
        for entry in fs::read_dir(&current)? {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                texts.push((name, fs::read(&path)?));
            }
        }
    }
    texts.sort();
    Ok(texts)
}

/// Some files that have much in common, and enough of them that access paths differ in cost.
fn small() -> Texts {
    let file = |number: usize| {
        let lines = (0..60).map(|line| {
            let (a, b) = (number * 7 + line, (number + line) % 23);
            format!("of the {b} words in line {line} of the file, the {a} and the {b} are of the same kind\n")
        });
        (
            format!("f{number:02}.txt"),
            lines.collect::<String>().into_bytes(),
        )
    };
    (0..40).map(file).collect()
}

fn append(texts: &mut Texts, more: &[u8]) {
    let (_, text) = texts.last_mut().expect("there is a file");
    text.extend_from_slice(more);
}

/// Edits the first file.
fn edit(database: &Database, sql: &str) -> Result<()> {
    let mut files = database.query("SELECT file FROM files('c') ORDER BY file LIMIT 1", ())?;
    let row = files.next().expect("there is a file")?;
    let file: Value = row.values()[0].clone();
    drop(files);
    for row in database.query(sql, &[file])? {
        row?;
    }
    Ok(())
}

/// Removes the file of an index of one segment.
fn remove_an_index(database: &Path) -> Result<()> {
    let mut indexes: Vec<PathBuf> = fs::read_dir(database.join("segments"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    indexes.retain(|path| path.extension().is_some_and(|extension| extension == "idx"));
    indexes.sort();
    fs::remove_file(indexes.first().ok_or("there is no index file")?)?;
    Ok(())
}
