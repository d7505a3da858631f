//! Which files a path means: a file, a directory with all that is below it, or a glob.
//!
//! Nothing is opened here but directories. The invariant: names are UTF-8 with `/` between directories, sorted, and no
//! two are equal. What cannot become a file of a corpus is reported with its reason, never silently left out.

use crate::interrupt::check;
use crate::{Error, Result};
use glob::{MatchOptions, Pattern};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

/// A file to copy into a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in the corpus.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its size when it was listed.
    pub bytes: u64,
}

/// A path that cannot be copied into a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Where it is.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// What a path means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The files, by name.
    pub sources: Vec<Source>,
    /// What else was there, by path.
    pub unreadable: Vec<Unreadable>,
}

/// Most symbolic links to directories that one listing follows: links that cross can make a few directories look like
/// an endless tree.
const LINKS_MAX: usize = 1 << 16;

/// `*` and `?` match within one name; letter case counts, a leading dot does not.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Lists the files that `path` means.
///
/// A file is named by its last component, files of a directory by their path below it, files of a glob by their path
/// below the components before the first that holds one of `*?[`. A path that exists is never a glob. Directories that
/// match a glob are not entered unless `**` says so. Symbolic links are followed. The directory `database` is passed
/// over: its files change while they are read.
///
/// # Errors
/// [`Error::Io`] if there is nothing at the path, [`Error::Invalid`] for a malformed glob or one that matches nothing,
/// [`Error::Interrupted`] once `stop` is set.
pub fn list_sources(path: &Path, database: Option<&Path>, stop: &AtomicBool) -> Result<Listing> {
    let mut walk = Walk {
        database: database.and_then(|path| fs::canonicalize(path).ok()),
        ..Walk::default()
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            walk.directories.push(Directory::top(path)?);
            walk.run(&Filter::All, stop)?;
        }
        Ok(metadata) => {
            let name = path.file_name().unwrap_or(path.as_os_str());
            match name.to_str() {
                Some(name) => walk.file(name.to_owned(), path.to_owned(), &metadata),
                None => walk.refuse(path.to_owned(), NOT_UTF8),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_glob(path.as_os_str()) => {
            let (top, filter) = Filter::glob(path)?;
            walk.directories.push(Directory::top(&top)?);
            walk.run(&filter, stop)?;
            if walk.listing.sources.is_empty() && walk.listing.unreadable.is_empty() {
                return Err(invalid_glob(path, "no file matches"));
            }
        }
        Err(error) => return Err(cannot_open(path, error)),
    }
    let mut listing = walk.listing;
    listing
        .sources
        .sort_unstable_by(|left, right| left.name.cmp(&right.name));
    listing
        .unreadable
        .sort_unstable_by(|left, right| left.path.cmp(&right.path));
    Ok(listing)
}

const NOT_UTF8: &str = "its name is not UTF-8";

fn is_glob(component: &OsStr) -> bool {
    component
        .as_encoded_bytes()
        .iter()
        .any(|byte| b"*?[".contains(byte))
}

fn invalid_glob(path: &Path, reason: impl Into<String>) -> Error {
    Error::Invalid {
        subject: path.display().to_string(),
        reason: reason.into(),
    }
}

fn cannot_open(path: &Path, source: io::Error) -> Error {
    Error::Io {
        action: "open",
        path: path.to_owned(),
        source,
    }
}

/// Which names below the top directory are wanted.
enum Filter {
    All,
    /// One pattern for each component, up to and without the first that is `**`, and the pattern for the whole.
    Glob {
        components: Vec<Pattern>,
        /// Whether there is a `**` after `components`.
        any_depth: bool,
        whole: Pattern,
    },
}

impl Filter {
    /// The top directory of a glob and what is wanted below it.
    fn glob(path: &Path) -> Result<(PathBuf, Filter)> {
        let parts: Vec<Component> = path.components().collect();
        let fixed = parts
            .iter()
            .position(|part| is_glob(part.as_os_str()))
            .unwrap_or(parts.len());
        let top: PathBuf = parts[..fixed].iter().collect();
        let top = if fixed == 0 { PathBuf::from(".") } else { top };
        let rest: Vec<&str> = parts[fixed..]
            .iter()
            .map(|part| part.as_os_str().to_str())
            .collect::<Option<_>>()
            .ok_or_else(|| invalid_glob(path, "a glob must be UTF-8"))?;
        let pattern =
            |part: &str| Pattern::new(part).map_err(|error| invalid_glob(path, error.to_string()));
        let any_depth = rest.contains(&"**");
        let components = rest
            .iter()
            .take_while(|part| **part != "**")
            .map(|part| pattern(part))
            .collect::<Result<_>>()?;
        let whole = pattern(&rest.join("/"))?;
        Ok((
            top,
            Filter::Glob {
                components,
                any_depth,
                whole,
            },
        ))
    }

    fn wants_file(&self, name: &str) -> bool {
        match self {
            Filter::All => true,
            Filter::Glob { whole, .. } => whole.matches_with(name, MATCHING),
        }
    }

    /// Whether files below a directory may be wanted whose name, without those of its parents, is `last`.
    fn wants_directory(&self, depth: usize, last: &str) -> bool {
        match self {
            Filter::All => true,
            Filter::Glob {
                components,
                any_depth,
                ..
            } => match components.get(depth) {
                Some(component) => {
                    (*any_depth || depth + 1 < components.len())
                        && component.matches_with(last, MATCHING)
                }
                None => *any_depth,
            },
        }
    }
}

/// A directory that is still to be listed.
struct Directory {
    path: PathBuf,
    /// What the names of its files start with.
    prefix: String,
    depth: usize,
    /// It and its parents without symbolic links.
    real: Rc<RealPath>,
}

struct RealPath {
    path: PathBuf,
    parent: Option<Rc<RealPath>>,
}

impl Directory {
    fn top(path: &Path) -> Result<Directory> {
        let real = fs::canonicalize(path).map_err(|error| cannot_open(path, error))?;
        Ok(Directory {
            path: path.to_owned(),
            prefix: String::new(),
            depth: 0,
            real: Rc::new(RealPath {
                path: real,
                parent: None,
            }),
        })
    }

    fn is_below(&self, real: &Path) -> bool {
        let mut parent = Some(&self.real);
        while let Some(directory) = parent {
            if directory.path == real {
                return true;
            }
            parent = directory.parent.as_ref();
        }
        false
    }
}

#[derive(Default)]
struct Walk {
    /// Without symbolic links.
    database: Option<PathBuf>,
    listing: Listing,
    directories: Vec<Directory>,
    links: usize,
}

impl Walk {
    fn run(&mut self, filter: &Filter, stop: &AtomicBool) -> Result<()> {
        while let Some(directory) = self.directories.pop() {
            let entries = match fs::read_dir(&directory.path) {
                Ok(entries) => entries,
                Err(error) => {
                    self.refuse(directory.path, error.to_string());
                    continue;
                }
            };
            for entry in entries {
                check(stop)?;
                match entry {
                    Ok(entry) => self.entry(&directory, &entry, filter),
                    Err(error) => self.refuse(directory.path.clone(), error.to_string()),
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, directory: &Directory, entry: &fs::DirEntry, filter: &Filter) {
        let path = entry.path();
        let last = entry.file_name();
        let Some(last) = last.to_str() else {
            return self.refuse(path, NOT_UTF8);
        };
        let name = format!("{}{last}", directory.prefix);
        let wants_file = filter.wants_file(&name);
        let wants_directory = filter.wants_directory(directory.depth, last);
        if !wants_file && !wants_directory {
            return;
        }
        // Follows links.
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => return self.refuse(path, error.to_string()),
        };
        if !metadata.is_dir() {
            if wants_file {
                self.file(name, path, &metadata);
            }
            return;
        }
        if !wants_directory {
            return;
        }
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let real = if is_link {
            self.links += 1;
            if self.links > LINKS_MAX {
                return self.refuse(path, "too many symbolic links to directories");
            }
            match fs::canonicalize(&path) {
                Ok(real) if directory.is_below(&real) => {
                    return self.refuse(path, "a symbolic link to a directory that it is in");
                }
                Ok(real) => real,
                Err(error) => return self.refuse(path, error.to_string()),
            }
        } else {
            directory.real.path.join(last)
        };
        if self.database.as_ref() == Some(&real) {
            return;
        }
        self.directories.push(Directory {
            path,
            prefix: format!("{name}/"),
            depth: directory.depth + 1,
            real: Rc::new(RealPath {
                path: real,
                parent: Some(Rc::clone(&directory.real)),
            }),
        });
    }

    fn file(&mut self, name: String, path: PathBuf, metadata: &fs::Metadata) {
        if metadata.is_file() {
            let bytes = metadata.len();
            self.listing.sources.push(Source { name, path, bytes });
        } else {
            self.refuse(path, "not a regular file");
        }
    }

    fn refuse(&mut self, path: PathBuf, reason: impl Into<String>) {
        let reason = reason.into();
        self.listing.unreadable.push(Unreadable { path, reason });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::interrupt::NEVER;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use tempfile::TempDir;

    fn tree(files: &[&str]) -> TempDir {
        let top = TempDir::new().unwrap();
        for name in files {
            let path = top.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, name).unwrap();
        }
        top
    }

    fn names(path: &Path) -> Vec<String> {
        let listing = list_sources(path, None, &NEVER).unwrap();
        assert_eq!(listing.unreadable, []);
        let names = listing.sources.into_iter().map(|source| {
            let content = fs::read_to_string(&source.path).unwrap();
            assert_eq!(source.bytes, content.len() as u64);
            assert!(content.ends_with(&source.name));
            source.name
        });
        names.collect()
    }

    fn refused(path: &Path) -> Vec<(String, String)> {
        let listing = list_sources(path, None, &NEVER).unwrap();
        let refused = listing.unreadable.into_iter().map(|unreadable| {
            let last = unreadable.path.file_name().unwrap();
            (last.to_string_lossy().into_owned(), unreadable.reason)
        });
        refused.collect()
    }

    #[test]
    fn a_file_is_named_by_its_last_component() {
        let top = tree(&["a/b.txt"]);
        assert_eq!(names(&top.path().join("a/b.txt")), ["b.txt"]);
    }

    #[test]
    fn files_of_a_directory_are_named_by_their_path_below_it_and_sorted() {
        let top = tree(&["a/z", "a.b", "a/b/c", "B", ".hidden", "a-b/x"]);
        assert_eq!(
            names(top.path()),
            [".hidden", "B", "a-b/x", "a.b", "a/b/c", "a/z"]
        );
        assert_eq!(names(&top.path().join("a")), ["b/c", "z"]);
    }

    #[test]
    fn files_of_a_glob_are_named_by_their_path_below_its_fixed_part() {
        let top = tree(&["a/x.txt", "a/y.md", "a/b/z.txt", "b/x.txt", "b/c/d/e.txt"]);
        let glob = |glob: &str| names(&top.path().join(glob));
        assert_eq!(glob("a/*.txt"), ["x.txt"]);
        assert_eq!(glob("a/*"), ["x.txt", "y.md"]);
        assert_eq!(glob("*/x.txt"), ["a/x.txt", "b/x.txt"]);
        assert_eq!(glob("b/**/*.txt"), ["c/d/e.txt", "x.txt"]);
        assert_eq!(glob("b/**"), ["c/d/e.txt", "x.txt"]);
        assert_eq!(glob("[b]/?/d/*"), ["b/c/d/e.txt"]);
    }

    #[test]
    fn the_directory_of_the_database_is_passed_over() {
        let top = tree(&["a/x", "db.zdb/segments/1.seg", "db.zdb.txt"]);
        let database = top.path().join("a/../db.zdb");
        symlink(top.path().join("db.zdb"), top.path().join("a/link")).unwrap();
        for path in [top.path().to_owned(), top.path().join("**/*")] {
            let listing = list_sources(&path, Some(&database), &NEVER).unwrap();
            let names: Vec<_> = listing.sources.iter().map(|source| &source.name).collect();
            assert_eq!(names, ["a/x", "db.zdb.txt"]);
            assert_eq!(listing.unreadable, []);
        }
    }

    #[test]
    fn a_path_that_exists_is_not_a_glob() {
        let top = tree(&["[a]", "a"]);
        assert_eq!(names(&top.path().join("[a]")), ["[a]"]);
    }

    #[test]
    fn a_glob_without_files_and_a_missing_path_are_errors() {
        let top = tree(&["a"]);
        let error = list_sources(&top.path().join("*.txt"), None, &NEVER).unwrap_err();
        assert!(error.to_string().ends_with("*.txt: no file matches"));
        let error = list_sources(&top.path().join("["), None, &NEVER).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }));
        let error = list_sources(&top.path().join("b"), None, &NEVER).unwrap_err();
        assert!(error.to_string().starts_with("cannot open "));
        assert_eq!(names(&top.path().join("a")), ["a"]);
    }

    #[test]
    fn links_are_followed_but_not_in_circles() {
        let top = tree(&["a/b/c", "d"]);
        symlink("../..", top.path().join("a/b/up")).unwrap();
        symlink(".", top.path().join("a/self")).unwrap();
        symlink("a", top.path().join("again")).unwrap();
        symlink("nowhere", top.path().join("broken")).unwrap();
        symlink("d", top.path().join("e")).unwrap();
        let listing = list_sources(top.path(), None, &NEVER).unwrap();
        let names: Vec<&str> = listing
            .sources
            .iter()
            .map(|source| source.name.as_str())
            .collect();
        assert_eq!(names, ["a/b/c", "again/b/c", "d", "e"]);
        let circle = "a symbolic link to a directory that it is in";
        let refused = refused(top.path());
        assert_eq!(refused.len(), 5);
        for (name, reason) in refused {
            match &name[..] {
                "up" | "self" => assert_eq!(reason, circle),
                _ => assert!(reason.contains("No such file"), "{name} {reason}"),
            }
        }
    }

    #[test]
    fn what_is_not_a_file_with_a_utf8_name_is_reported() {
        let top = tree(&["a"]);
        fs::write(top.path().join(OsStr::from_bytes(b"b\xff")), "").unwrap();
        let _socket = UnixListener::bind(top.path().join("socket")).unwrap();
        let listing = list_sources(top.path(), None, &NEVER).unwrap();
        assert_eq!(listing.sources.len(), 1);
        assert_eq!(
            refused(top.path()),
            [
                ("b\u{fffd}".to_owned(), NOT_UTF8.to_owned()),
                ("socket".to_owned(), "not a regular file".to_owned()),
            ]
        );
    }
}
