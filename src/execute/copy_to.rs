//! COPY ... TO: writes the files of a corpus below a directory.
//!
//! Nothing that exists is overwritten, no file is left that is not complete, and no name and no symbolic link leads out of
//! the directory, or into a database: names come from a file that may have been tampered with. A file whose name cannot
//! be a path is written all the same, with its name beside it (`renamed.rs`).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::api::corpus::Corpus;
use crate::execute::below::{Below, NewFile};
use crate::paths::renamed;
use crate::runtime::interrupt::{Interrupt, check};
use crate::{Error, Progress, Result, paths};

impl Corpus {
    /// Writes every file, byte for byte, below `directory`, which is created if
    /// needed. Returns how many were written.
    ///
    /// # Errors
    /// If a file of that name exists already, or cannot be written. Files
    /// written before stay.
    pub fn copy_to(&self, directory: impl AsRef<Path>, progress: &dyn Progress) -> Result<u64> {
        copy_to(
            self,
            directory.as_ref(),
            progress,
            &self.shared().runtime.interrupt(),
        )
    }
}

/// Writes all files and returns how many there are.
pub(crate) fn copy_to(
    corpus: &Corpus,
    directory: &Path,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<u64> {
    let shared = corpus.shared();
    let snapshot = corpus.snapshot_until(interrupt)?;
    let files = snapshot.files();
    progress.begin("write", files.iter().map(|file| file.bytes).sum());
    interrupt.check()?;
    paths::refuse_database(directory, shared.directory().as_deref())?;
    let renamed = renamed::not_paths(files.iter().map(|file| &*file.name));
    let below = Below::open(directory).map_err(io_error("create", directory))?;
    snapshot.prepare_content(interrupt)?;
    let written: Result<()> = interrupt.watch(snapshot.pool(), |stop| {
        let target = ExportDirectory {
            directory,
            below: &below,
            stop,
        };
        files.par_iter().enumerate().try_for_each(|(index, file)| {
            let content = |writer: &mut dyn Write| snapshot.write_file(index, writer);
            if renamed.contains(&index) {
                let [path, name_path] = renamed::targets(index);
                let written = target.write(&path, content)?;
                let name = |writer: &mut dyn Write| Ok(writer.write_all(file.name.as_bytes()));
                if let Err(error) = target.write(&name_path, name) {
                    // What matters is why it has no name.
                    let _ = written.remove();
                    return Err(error);
                }
            } else {
                target.write(&file.name, content)?;
            }
            progress.advance(file.bytes);
            Ok(())
        })
    });
    written?;
    progress.end();
    Ok(files.len() as u64)
}

/// Where files go.
struct ExportDirectory<'a> {
    /// As it was given, for messages.
    directory: &'a Path,
    below: &'a Below,
    stop: &'a AtomicBool,
}

impl ExportDirectory<'_> {
    /// Writes a file of a name that is a path. An error leaves none.
    fn write(
        &self,
        path: &str,
        content: impl FnOnce(&mut dyn Write) -> Result<io::Result<()>>,
    ) -> Result<NewFile> {
        check(self.stop)?;
        let whole = self.directory.join(path);
        let mut created = self
            .below
            .create(path)
            .map_err(io_error("create", &whole))?;
        let target = Stoppable {
            target: &mut created.file,
            stop: self.stop,
        };
        let mut writer = BufWriter::with_capacity(1 << 18, target);
        let written = content(&mut writer)
            .and_then(|written| written.map_err(io_error("write", &whole)))
            .and_then(|()| writer.flush().map_err(io_error("write", &whole)));
        // Nothing is to be written again when the writer is dropped.
        drop(writer.into_parts());
        match written {
            Ok(()) => Ok(created),
            Err(error) => {
                // What matters is why it is not complete.
                let _ = created.remove();
                check(self.stop).and(Err(error))
            }
        }
    }
}

/// A file that cannot be written any more once a flag is set.
struct Stoppable<'a> {
    target: &'a mut File,
    stop: &'a AtomicBool,
}

impl Write for Stoppable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check(self.stop).map_err(io::Error::other)?;
        self.target.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io {
        action,
        path,
        source,
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{CopyOptions, CorpusSettings, Database, NoProgress};

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
        let snapshot = copy.snapshot().unwrap();
        let found: BTreeMap<String, Vec<u8>> = (snapshot.files().iter())
            .map(|file| {
                let text = snapshot.extract(&file.name, 0, u64::MAX).unwrap();
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
        // A link to the directory itself is the user's own.
        fs::create_dir(folder.path().join("real")).unwrap();
        symlink("real", &out).unwrap();
        corpus.copy_to(&out, &NoProgress).unwrap();
        assert_eq!(fs::read(folder.path().join("real/sub/a")).unwrap(), b"text");
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
