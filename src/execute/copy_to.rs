//! COPY ... TO: writes the files of a corpus below a directory.
//!
//! Nothing that exists is overwritten: a file with the right bytes counts as written, any other is an error. Each file gets its
//! name when it is complete, and an error or interrupt removes what was written; the next COPY completes what a killed process
//! has left. No name and no symbolic link leads out of the directory, or into a database: names come from a file that may have
//! been tampered with. A file whose name cannot be a path is written too, with its name beside it (`renamed.rs`).

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_storage::PathText;

use crate::answer::CorpusReader;
use crate::error::io_error;
use crate::execute::sandboxed_dir::Below;
use crate::handles::corpus::Corpus;
use crate::ingest::Progress;
use crate::paths::renamed;
use crate::runtime::interrupt::{Interrupt, check};
use crate::{Error, Result, paths};

/// Bytes of a file that are written at a time.
const BUFFER_BYTES: usize = 1 << 18;

/// Writes all files and returns how many there are.
pub(crate) fn copy_to(
    corpus: &Corpus,
    directory: &Path,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<u64> {
    let shared = corpus.shared();
    let reader = corpus.reader(interrupt)?;
    let files = reader.view().files();
    progress.begin("write", files.iter().map(|file| file.bytes).sum());
    interrupt.check()?;
    paths::refuse_database(directory, shared.directory().as_deref())?;
    let below = Below::open(directory).map_err(io_error("create", directory))?;
    let written = write_files(&reader, directory, &below, progress, interrupt);
    if let Err(error) = written.and_then(|()| interrupt.check()) {
        if let Err(left) = below.undo() {
            let directory = PathText(directory);
            tracing::warn!("{directory}: not all that was written could be removed: {left}");
        }
        return Err(error);
    }
    progress.end();
    Ok(files.len() as u64)
}

fn write_files(
    reader: &CorpusReader,
    directory: &Path,
    below: &Below,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<()> {
    let files = reader.view().files();
    let renamed = renamed::not_paths(files.iter().map(|file| &*file.name));
    reader.prepare_content(interrupt)?;
    interrupt.watch(reader.pool(), |stop| {
        let target = ExportDirectory {
            directory,
            below,
            stop,
        };
        files.par_iter().enumerate().try_for_each(|(index, file)| {
            let content = |writer: &mut dyn Write| reader.view().write_file(index, writer);
            if renamed.contains(&index) {
                let [path, name_path] = renamed::targets(index);
                target.write(&path, content)?;
                let name = |writer: &mut dyn Write| Ok(writer.write_all(file.name.as_bytes()));
                target.write(&name_path, name)?;
            } else {
                target.write(&file.name, content)?;
            }
            progress.advance(file.bytes);
            Ok(())
        })
    })
}

/// The directory that files are written to.
struct ExportDirectory<'a> {
    /// The path from the statement, for messages.
    directory: &'a Path,
    below: &'a Below,
    stop: &'a AtomicBool,
}

impl ExportDirectory<'_> {
    /// Writes a file of a name that is a path, or checks that it exists.
    fn write(
        &self,
        path: &str,
        content: impl Fn(&mut dyn Write) -> Result<io::Result<()>>,
    ) -> Result<()> {
        let whole = self.directory.join(path);
        let create = io_error("create", &whole);
        let place = self.below.place(path).map_err(&create)?;
        loop {
            check(self.stop)?;
            if let Some(file) = place.open_file().map_err(&create)? {
                return self.compare(&whole, file, content);
            }
            let new = place.new_file().map_err(&create)?;
            self.fill(&whole, new.file(), &content)?;
            match place.publish(new) {
                // Another process was first.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                published => return published.map_err(create),
            }
        }
    }

    /// Passes content on to a writer, until it must stop.
    fn fill(
        &self,
        whole: &Path,
        target: impl Write,
        content: impl Fn(&mut dyn Write) -> Result<io::Result<()>>,
    ) -> Result<()> {
        let target = Stoppable {
            target,
            stop: self.stop,
        };
        let mut writer = BufWriter::with_capacity(BUFFER_BYTES, target);
        let written = content(&mut writer)
            .and_then(|written| written.map_err(io_error("write", whole)))
            .and_then(|()| writer.flush().map_err(io_error("write", whole)));
        // The buffer must not be written again when the writer is dropped.
        drop(writer.into_parts());
        // The reason to stop matters more than the failed write.
        written.or_else(|error| check(self.stop).and(Err(error)))
    }

    /// Checks that a file has the content, or fails.
    fn compare(
        &self,
        whole: &Path,
        file: File,
        content: impl Fn(&mut dyn Write) -> Result<io::Result<()>>,
    ) -> Result<()> {
        let mut comparison = Comparison {
            file,
            buffer: Vec::new(),
            is_same: true,
        };
        let compared = self.fill(whole, &mut comparison, content);
        if comparison.is_same {
            compared?;
            let rest = comparison.file.read(&mut [0]);
            if rest.map_err(io_error("read", whole))? == 0 {
                return Ok(());
            }
        }
        Err(Error::Invalid {
            subject: PathText(whole).to_string(),
            reason: "it exists and differs from the file of the corpus; hint: remove it, or choose another directory"
                .into(),
        })
    }
}

/// Compares written bytes with those of a file.
struct Comparison {
    file: File,
    buffer: Vec<u8>,
    /// Whether the file has all bytes so far.
    is_same: bool,
}

impl Write for &mut Comparison {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.resize(bytes.len(), 0);
        match self.file.read_exact(&mut self.buffer) {
            Ok(()) => self.is_same = self.buffer == bytes,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.is_same = false,
            Err(error) => return Err(error),
        }
        if self.is_same {
            Ok(bytes.len())
        } else {
            Err(io::ErrorKind::AlreadyExists.into())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file whose writes fail once a flag is set.
struct Stoppable<'a, W> {
    target: W,
    stop: &'a AtomicBool,
}

impl<W: Write> Write for Stoppable<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check(self.stop).map_err(io::Error::other)?;
        self.target.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;
    use crate::ingest::{CopyOptions, NoProgress};
    use crate::{CorpusSettings, Database, InterruptHandle};

    fn database(path: &Path) -> Database {
        let database = Database::options().threads(2).open(path).unwrap();
        database
            .create_corpus("c", CorpusSettings::default())
            .unwrap();
        database
    }

    fn insert(database: &Database, files: &[(&str, &str)]) {
        let corpus = database.corpus("c").unwrap();
        corpus.append_many(files).unwrap();
    }

    #[test]
    fn any_names_come_back_from_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder.path().join("own.zdb"));
        let long = "x".repeat(300);
        let deep = "deep/".repeat(800) + "file";
        let names = [
            "dup",
            "dup/inner",
            "dup/inner/most",
            "a%2Fb",
            "line\nbreak \\ \u{e4}",
            "zipfdb-names",
            "zipfdb-names/1.name",
            "zipfdb-names/1.content",
            "zipfdb-names/other",
            ".hidden",
            &long,
            &format!("{long}/{long}"),
            &deep,
        ];
        let texts: Vec<(&str, &str)> = names.iter().map(|name| (*name, *name)).collect();
        insert(&database, &texts);
        let out = folder.path().join("out");
        let corpus = database.corpus("c").unwrap();
        let written = corpus.copy_to(&out, &NoProgress).unwrap();
        assert_eq!(written, names.len() as u64);
        assert_eq!(
            fs::read(out.join("dup/inner/most")).unwrap(),
            b"dup/inner/most"
        );
        assert_eq!(fs::read(out.join("a%2Fb")).unwrap(), b"a%2Fb");

        let copy = database
            .create_corpus("copy", CorpusSettings::default())
            .unwrap();
        copy.copy_from(&out, &CopyOptions::default()).unwrap();
        let reader = copy.snapshot().unwrap();
        let found: BTreeMap<String, Vec<u8>> = (reader.view().files().iter())
            .map(|file| {
                let text = reader.extract(&file.name, 0, u64::MAX).unwrap();
                (file.name.to_string(), text)
            })
            .collect();
        let expected = names.map(|name| (name.to_owned(), name.as_bytes().to_vec()));
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn a_link_below_the_directory_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder.path().join("own.zdb"));
        insert(&database, &[("sub/a", "text"), ("b", "text")]);
        let corpus = database.corpus("c").unwrap();
        let (out, elsewhere) = (folder.path().join("out"), folder.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        for link in ["sub", "b"] {
            fs::create_dir(&out).unwrap();
            symlink(elsewhere.join(link), out.join(link)).unwrap();
            fs::create_dir_all(elsewhere.join("sub")).unwrap();
            let error = corpus.copy_to(&out, &NoProgress).unwrap_err().to_string();
            assert!(error.contains("is a symbolic link"), "{error}");
            assert_eq!(fs::read_dir(elsewhere.join("sub")).unwrap().count(), 0);
            assert!(!elsewhere.join("b").exists());
            fs::remove_dir_all(&out).unwrap();
        }
        // A link to the directory itself belongs to the user.
        fs::create_dir(folder.path().join("real")).unwrap();
        symlink("real", &out).unwrap();
        corpus.copy_to(&out, &NoProgress).unwrap();
        assert_eq!(fs::read(folder.path().join("real/sub/a")).unwrap(), b"text");
    }

    /// All files below a directory, with their content.
    fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut tree = BTreeMap::new();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                tree.extend(self::tree(&path));
            } else {
                let content = fs::read(&path).unwrap();
                tree.insert(path, content);
            }
        }
        tree
    }

    /// Interrupts the statement at its first progress.
    struct Interrupting(InterruptHandle);

    impl Progress for Interrupting {
        fn begin(&self, _: &str, _: u64) {}

        fn advance(&self, _: u64) {
            self.0.interrupt();
        }

        fn end(&self) {}
    }

    #[test]
    fn what_is_interrupted_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder.path().join("own.zdb"));
        insert(
            &database,
            &[
                ("a", "text"),
                ("b/c/d", "text"),
                ("b/e", "text"),
                ("..f/g", "text"),
            ],
        );
        let corpus = database.corpus("c").unwrap();
        let out = folder.path().join("out");
        let interrupting = || Interrupting(database.interrupt_handle());
        let error = corpus.copy_to(out.join("of/new"), &interrupting());
        assert!(matches!(error, Err(Error::Interrupted)));
        assert!(!out.exists());

        fs::create_dir_all(out.join("b")).unwrap();
        fs::write(out.join("b/other"), "other").unwrap();
        let before = tree(&out);
        let error = corpus.copy_to(&out, &interrupting());
        assert!(matches!(error, Err(Error::Interrupted)));
        assert_eq!(tree(&out), before);
        corpus.copy_to(&out, &NoProgress).unwrap();
        assert_eq!(tree(&out).len(), 5);
        // Files that existed before do not belong to the interrupted statement.
        let whole = tree(&out);
        assert!(corpus.copy_to(&out, &interrupting()).is_err());
        assert_eq!(tree(&out), whole);
    }

    #[test]
    fn files_that_are_there_with_the_same_bytes_count_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder.path().join("own.zdb"));
        let long = "some words ".repeat(100_000);
        let too_long = "x".repeat(300);
        insert(
            &database,
            &[
                ("a", "text"),
                ("b/c", &long),
                ("empty", ""),
                (&too_long, "renamed"),
            ],
        );
        let corpus = database.corpus("c").unwrap();
        let out = folder.path().join("out");
        assert_eq!(corpus.copy_to(&out, &NoProgress).unwrap(), 4);
        let whole = tree(&out);
        assert_eq!(corpus.copy_to(&out, &NoProgress).unwrap(), 4);
        assert_eq!(tree(&out), whole);
        // The state that a killed process leaves.
        fs::remove_file(out.join("b/c")).unwrap();
        fs::remove_file(out.join("a")).unwrap();
        assert_eq!(corpus.copy_to(&out, &NoProgress).unwrap(), 4);
        assert_eq!(tree(&out), whole);
    }

    #[test]
    fn nothing_that_differs_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder.path().join("own.zdb"));
        let long = "some words ".repeat(100_000);
        insert(&database, &[("a", &long), ("b", "text"), ("c/d", "text")]);
        let corpus = database.corpus("c").unwrap();
        let out = folder.path().join("out");
        let mut other = long.clone().into_bytes();
        *other.last_mut().unwrap() = b'x';
        for content in [
            &b""[..],
            b"other",
            &long.as_bytes()[1..],
            &long.as_bytes()[..long.len() - 1],
            &[long.as_bytes(), b"x"].concat(),
            &other,
        ] {
            fs::create_dir(&out).unwrap();
            fs::write(out.join("a"), content).unwrap();
            let error = corpus.copy_to(&out, &NoProgress).unwrap_err().to_string();
            assert!(error.contains("out/a: it exists and differs"), "{error}");
            assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
            assert_eq!(fs::read(out.join("a")).unwrap(), content);
            fs::remove_dir_all(&out).unwrap();
        }
        for name in ["b", "c"] {
            fs::create_dir(&out).unwrap();
            // A pipe without a writer must not block.
            let pipe = out.join(name);
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
            let error = corpus.copy_to(&out, &NoProgress).unwrap_err().to_string();
            assert!(error.starts_with("cannot create "), "{error}");
            assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
            fs::remove_dir_all(&out).unwrap();
        }
    }

    #[test]
    fn nothing_is_written_into_a_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.zdb");
        let database = database(&path);
        insert(&database, &[("a", "text")]);
        symlink("own.zdb", folder.path().join("link")).unwrap();
        let corpus = database.corpus("c").unwrap();
        for target in [
            "own.zdb",
            "own.zdb/new/x",
            "link",
            "link/segments",
            "no/../own.zdb/x",
        ] {
            let target = folder.path().join(target);
            let error = corpus
                .copy_to(&target, &NoProgress)
                .unwrap_err()
                .to_string();
            assert!(error.contains("inside the database"), "{error}");
        }
        assert!(!path.join("new").exists() && !path.join("a").exists());
    }
}
