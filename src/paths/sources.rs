//! The files that a path means: a file, a directory with all that is below it, or a glob.
//!
//! Only directories are read here, the names of files that COPY wrote under other ones (`renamed.rs`), and a byte of files that
//! claim to be empty. The invariant: names are UTF-8 with `/` between directories, sorted, and no two are equal; bytes that are
//! not UTF-8 are escaped (`path_text.rs` of the storage crate). A path that cannot become a file of a corpus is reported with its
//! reason, never silently left out.

use crate::overlay::check_name;
use crate::paths::encodings::{Decoding, MARK_SIZE_MAX, TextEncoding};
use crate::paths::unpacked::UnpackedText;
use crate::paths::{database_around, is_database, meant, renamed, streams};
use crate::runtime::interrupt::check;
use crate::{Error, Result};
use glob::{MatchOptions, Pattern, PatternError};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use zipfdb_sql::quote;
use zipfdb_storage::{IoReason, MetadataColumn, PathText};

/// A file to copy into a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in the corpus.
    pub name: String,
    /// Its path; texts that were unpacked from one file share it.
    pub path: Arc<Path>,
    /// Its size when it was listed, or [`SIZE_UNKNOWN`].
    pub bytes: u64,
    /// Its identity, to detect that another file has taken its place; none where the system has none.
    pub(crate) identity: Option<SourceIdentity>,
    /// Its decoding, if it has one that is known before it is read.
    pub(crate) decoding: Option<Decoding>,
    /// Its text, if it was unpacked from the file at the path.
    pub(crate) unpacked: Option<UnpackedText>,
}

/// The identity of a file: its device, its number, and when it was created, as numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceIdentity {
    device: u64,
    number: u64,
    created: Option<SystemTime>,
}

impl SourceIdentity {
    #[cfg(unix)]
    pub(crate) fn of(metadata: &fs::Metadata) -> Option<SourceIdentity> {
        use std::os::unix::fs::MetadataExt;
        Some(SourceIdentity {
            device: metadata.dev(),
            number: metadata.ino(),
            created: metadata.created().ok(),
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_metadata: &fs::Metadata) -> Option<SourceIdentity> {
        None
    }
}

/// The size of a file that is read to its end, wherever that is: of pipes, devices, and files as in `/proc` that hold more than
/// their size of 0 says.
pub const SIZE_UNKNOWN: u64 = u64::MAX;

/// The treatment of files that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Copy nothing.
    #[default]
    Stop,
    /// Leave them out and report them.
    Skip,
}

/// The treatment of files whose names the corpus has already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Copy nothing.
    #[default]
    Stop,
    /// Leave the files of the corpus as they are.
    Skip,
    /// Put the new files in their place. The segments that hold them are written again, and the report counts all files in them.
    Replace,
}

/// A path that cannot be copied into a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The path; of a member of an archive `archive/member`.
    pub path: PathBuf,
    /// The line that cannot be read, from 1; 0 if all of the file is meant.
    pub line: u64,
    /// The byte of the line, from 1; 0 if it is unknown.
    pub column: u64,
    /// The reason.
    pub reason: String,
}

impl Unreadable {
    /// A path of which nothing can be copied.
    pub(crate) fn whole(path: PathBuf, reason: impl Into<String>) -> Unreadable {
        Unreadable {
            path,
            line: 0,
            column: 0,
            reason: reason.into(),
        }
    }

    /// The reason with the place in the file before it.
    pub(crate) fn placed_reason(&self) -> String {
        match (self.line, self.column) {
            (0, _) => self.reason.clone(),
            (line, 0) => format!("line {line}: {}", self.reason),
            (line, column) => format!("line {line}, column {column}: {}", self.reason),
        }
    }
}

/// The files that a path means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The files, by name.
    pub sources: Vec<Source>,
    /// Paths that cannot be copied, by path.
    pub unreadable: Vec<Unreadable>,
    /// The encoding of the files.
    pub encoding: TextEncoding,
    /// By number: the column that takes a field of records, if there is one.
    pub(crate) fields: Vec<Option<MetadataColumn>>,
}

/// The name of the text of standard input.
const STANDARD_INPUT_NAME: &str = "stdin";

/// The most symbolic links to directories that one listing follows: links that cross can make a few directories look like an
/// endless tree.
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
/// below the components before the first that holds one of `*?[` and does not exist. A path that exists is never a glob, and a path
/// that does not may be written as messages show it ([`meant`]). Directories that
/// match a glob are not entered unless `**` says so. Symbolic links are followed. Directories of databases, `database`
/// and others, are passed over: their files are not texts, and change while they are read. A pipe or device is listed if
/// it is the path itself. Files that COPY wrote to a directory under other names have their own again.
///
/// # Errors
/// [`Error::Io`] if there is nothing at the path, [`Error::Invalid`] for a path into a database, a malformed glob or one
/// that matches nothing, [`Error::Interrupted`] once `stop` is set.
pub fn list_sources(path: &Path, database: Option<&Path>, stop: &AtomicBool) -> Result<Listing> {
    let mut walk = Walk {
        database: database.and_then(|path| fs::canonicalize(path).ok()),
        ..Walk::default()
    };
    let path = &*meant(path);
    if streams::is_standard(path) {
        walk.listing.sources.push(Source {
            name: STANDARD_INPUT_NAME.to_owned(),
            path: path.into(),
            bytes: SIZE_UNKNOWN,
            identity: None,
            decoding: None,
            unpacked: None,
        });
        return Ok(walk.listing);
    }
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            refuse_database(path, database)?;
            walk.directories.push(ListedDirectory::top(path)?);
            walk.run(&NameFilter::All, stop)?;
            walk.listing.restore_names(path);
        }
        Ok(metadata) => {
            refuse_database(path, database)?;
            let name = path.file_name().unwrap_or(path.as_os_str());
            match name_of_part(name) {
                Some(name) if streams::is_stream(metadata.file_type()) => {
                    walk.listing.sources.push(Source {
                        name: name.into_owned(),
                        path: path.into(),
                        bytes: SIZE_UNKNOWN,
                        identity: None,
                        decoding: None,
                        unpacked: None,
                    });
                }
                Some(name) => walk.file(name.into_owned(), path.to_owned(), &metadata),
                None => walk.refuse(path.to_owned(), NOT_UTF8),
            }
        }
        Err(error) if is_absent(path, &error) && is_glob(path.as_os_str()) => {
            let (top, filter) = NameFilter::glob(path)?;
            let top = meant(&top).into_owned();
            refuse_database(&top, database)?;
            walk.directories.push(ListedDirectory::top(&top)?);
            walk.run(&filter, stop)?;
            if walk.listing.sources.is_empty() && walk.listing.unreadable.is_empty() {
                return Err(invalid_glob(path, "no file matches"));
            }
        }
        Err(error) => return Err(cannot_open(path, error)),
    }
    let mut listing = walk.listing;
    listing.sort_by_name();
    listing
        .unreadable
        .sort_unstable_by(|left, right| left.path.cmp(&right.path));
    Ok(listing)
}

impl Listing {
    /// Refuses a listing with unreadable files.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if there are some.
    pub(crate) fn check_readable(&self) -> Result<()> {
        match self.unreadable.split_first() {
            None => Ok(()),
            Some((first, others)) => Err(Error::Unreadable {
                path: first.path.clone(),
                reason: first.placed_reason(),
                more: others.len(),
            }),
        }
    }

    /// Sets the encoding of the files, and finds out how each is decoded. A file that can be read only once shows that when it is
    /// read.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once `stop` is set.
    pub(crate) fn read_in(mut self, encoding: TextEncoding, stop: &AtomicBool) -> Result<Listing> {
        self.encoding = encoding;
        if encoding == TextEncoding::BYTES {
            return Ok(self);
        }
        let sources = std::mem::take(&mut self.sources);
        for mut source in sources {
            check(stop)?;
            // A file that cannot be opened is an error when it is read.
            if source.bytes != SIZE_UNKNOWN
                && source.unpacked.is_none()
                && let Ok(beginning) = beginning(&source.path)
            {
                match encoding.decoding(&beginning) {
                    Ok(decoding) => source.decoding = decoding,
                    Err(reason) => {
                        let path = source.path.to_path_buf();
                        (self.unreadable).push(Unreadable::whole(path, reason));
                        continue;
                    }
                }
            }
            self.sources.push(source);
        }
        self.unreadable
            .sort_by(|left, right| left.path.cmp(&right.path));
        Ok(self)
    }

    /// Gives files that were written under other names below `top` their own names again.
    fn restore_names(&mut self, top: &Path) {
        let all: HashSet<String> = (self.sources.iter())
            .map(|source| source.name.clone())
            .filter(|name| name.starts_with(renamed::DIRECTORY))
            .collect();
        let mut names = HashSet::new();
        let mut refused = Vec::new();
        self.sources.retain_mut(|source| {
            let Some(name) = renamed::name_of(&source.name).filter(|name| all.contains(name))
            else {
                return true;
            };
            let path = top.join(&name);
            names.insert(name);
            match renamed::read_name(&path) {
                Ok(own) => {
                    source.name = own;
                    true
                }
                Err(error) => {
                    let (path, error) = (PathText(&path), IoReason(&error));
                    let reason = format!("its name in {path} cannot be used: {error}");
                    let path = source.path.to_path_buf();
                    refused.push(Unreadable::whole(path, reason));
                    false
                }
            }
        });
        self.sources.retain(|source| !names.contains(&source.name));
        self.unreadable.append(&mut refused);
    }

    /// Puts the files in order of name, and keeps one of those that have the same name.
    pub(crate) fn sort_by_name(&mut self) {
        self.sources
            .sort_by(|left, right| (&left.name, &left.path).cmp(&(&right.name, &right.path)));
        self.refuse_equal_names();
    }

    fn refuse_equal_names(&mut self) {
        let unreadable = &mut self.unreadable;
        self.sources.dedup_by(|second, first| {
            let is_equal = second.name == first.name;
            if is_equal {
                let reason = format!(
                    "it has the name {}, as {} has",
                    quote(&first.name),
                    PathText(&first.path)
                );
                let path = second.path.to_path_buf();
                unreadable.push(Unreadable::whole(path, reason));
            }
            is_equal
        });
    }
}

/// Refuses to read the files of a database.
fn refuse_database(path: &Path, own: Option<&Path>) -> Result<()> {
    match database_around(path, own).map_err(|error| cannot_open(path, error))? {
        None => Ok(()),
        Some(database) => Err(Error::Invalid {
            subject: PathText(path).to_string(),
            reason: format!(
                "it belongs to the database {}; hint: open that, and write its texts out with COPY ... TO",
                PathText(&database)
            ),
        }),
    }
}

const NOT_UTF8: &str = "its name is not Unicode";

/// The name of a part of a path in a corpus. Where paths are not bytes, those that are not Unicode have none.
fn name_of_part(part: &OsStr) -> Option<Cow<'_, str>> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Some(zipfdb_storage::escaped(part.as_bytes()))
    }
    #[cfg(not(unix))]
    {
        part.to_str().map(Cow::Borrowed)
    }
}

fn is_glob(component: &OsStr) -> bool {
    component
        .as_encoded_bytes()
        .iter()
        .any(|byte| b"*?[".contains(byte))
}

/// Whether no file is at a path, not even a symbolic link; `error` is that of reading it.
fn is_absent(path: &Path, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err()
}

fn invalid_glob(path: &Path, reason: impl Into<String>) -> Error {
    Error::Invalid {
        subject: PathText(path).to_string(),
        reason: reason.into(),
    }
}

/// The error for a path that does not exist and is no glob.
fn no_glob(path: &Path, error: &PatternError) -> Error {
    let fault = match error.msg {
        "invalid range pattern" => "a `[` that no `]` ends",
        "recursive wildcards must form a single path component" => {
            "`**` beside other characters of a name"
        }
        _ => "more than two `*` side by side",
    };
    invalid_glob(
        path,
        format!("there is no such file, and as a glob it has {fault}"),
    )
}

fn cannot_open(path: &Path, source: io::Error) -> Error {
    Error::Io {
        action: "open",
        path: path.to_owned(),
        source,
    }
}

/// The wanted names below the top directory.
enum NameFilter {
    All,
    Glob(Vec<GlobPart>),
}

/// A component of a glob.
enum GlobPart {
    /// One component that matches.
    One(Pattern),
    /// `**`: any number of components, or none.
    AnyDepth,
}

impl NameFilter {
    /// The top directory of a glob and the wanted names below it.
    fn glob(path: &Path) -> Result<(PathBuf, NameFilter)> {
        let parts: Vec<Component> = path.components().collect();
        let mut top = PathBuf::new();
        // A component that exists is no glob.
        let is_fixed = |part: &&Component| {
            let next = top.join(part);
            let is_fixed = !is_glob(part.as_os_str()) || fs::symlink_metadata(meant(&next)).is_ok();
            if is_fixed {
                top = next;
            }
            is_fixed
        };
        let fixed = parts.iter().take_while(is_fixed).count();
        let top = if fixed == 0 { PathBuf::from(".") } else { top };
        let rest: Vec<&str> = parts[fixed..]
            .iter()
            .map(|part| part.as_os_str().to_str())
            .collect::<Option<_>>()
            .ok_or_else(|| invalid_glob(path, "a glob must be UTF-8"))?;
        let pattern = |part: &str| Pattern::new(part).map_err(|error| no_glob(path, &error));
        let mut parts = Vec::new();
        for part in rest {
            match (part, parts.last()) {
                ("**", Some(GlobPart::AnyDepth)) => {}
                ("**", _) => parts.push(GlobPart::AnyDepth),
                _ => parts.push(GlobPart::One(pattern(part)?)),
            }
        }
        if let Some(GlobPart::AnyDepth) = parts.last() {
            // A file has a name.
            parts.push(GlobPart::One(pattern("*")?));
        }
        Ok((top, NameFilter::Glob(parts)))
    }

    /// Whether a file is wanted. Takes time in proportion to its name times the parts of the glob.
    fn wants_file(&self, name: &str) -> bool {
        let parts = match self {
            NameFilter::All => return true,
            NameFilter::Glob(parts) => parts,
        };
        // Whether the components so far are matched by the parts before each, and by all.
        let mut matched = vec![false; parts.len() + 1];
        matched[0] = true;
        for component in name.split('/') {
            let mut next = vec![false; parts.len() + 1];
            for (index, part) in parts.iter().enumerate() {
                // `**` may match none.
                let before = index.checked_sub(1).map(|before| &parts[before]);
                let is_here = matched[index]
                    || matches!(before, Some(GlobPart::AnyDepth)) && matched[index - 1];
                match part {
                    _ if !is_here => {}
                    GlobPart::AnyDepth => next[index] = true,
                    GlobPart::One(pattern) => {
                        next[index + 1] |= pattern.matches_with(component, MATCHING);
                    }
                }
            }
            matched = next;
        }
        matched[parts.len()]
    }

    /// Whether files may be wanted below a directory whose name, without those of its parents, is `last`.
    fn wants_directory(&self, depth: usize, last: &str) -> bool {
        match self {
            NameFilter::All => true,
            NameFilter::Glob(parts) => {
                let is_any_depth = |part: &GlobPart| matches!(part, GlobPart::AnyDepth);
                if parts.iter().take(depth + 1).any(is_any_depth) {
                    return true;
                }
                match parts.get(depth) {
                    Some(GlobPart::One(pattern)) => {
                        depth + 1 < parts.len() && pattern.matches_with(last, MATCHING)
                    }
                    _ => false,
                }
            }
        }
    }
}

/// A directory that is still to be listed.
struct ListedDirectory {
    path: PathBuf,
    /// The beginning of the names of its files.
    prefix: String,
    depth: usize,
    /// The directory and its parents without symbolic links.
    real: Rc<RealPath>,
}

struct RealPath {
    path: PathBuf,
    parent: Option<Rc<RealPath>>,
}

impl ListedDirectory {
    fn top(path: &Path) -> Result<ListedDirectory> {
        let real = fs::canonicalize(path).map_err(|error| cannot_open(path, error))?;
        Ok(ListedDirectory {
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

/// The first bytes of a file, enough for every byte order mark.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(MARK_SIZE_MAX as u64)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a file that claims to be empty is not. A file that cannot be opened is an error when it is read.
fn has_bytes(path: &Path) -> bool {
    match streams::open_to_read(path).and_then(|mut file| file.read(&mut [0])) {
        Ok(read) => read > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

#[derive(Default)]
struct Walk {
    /// Without symbolic links.
    database: Option<PathBuf>,
    listing: Listing,
    directories: Vec<ListedDirectory>,
    links: usize,
}

impl Walk {
    fn run(&mut self, filter: &NameFilter, stop: &AtomicBool) -> Result<()> {
        while let Some(directory) = self.directories.pop() {
            let entries = match fs::read_dir(&directory.path) {
                Ok(entries) => entries,
                Err(error) => {
                    self.refuse(directory.path, IoReason(&error).to_string());
                    continue;
                }
            };
            for entry in entries {
                check(stop)?;
                match entry {
                    Ok(entry) => self.entry(&directory, &entry, filter),
                    Err(error) => {
                        self.refuse(directory.path.clone(), IoReason(&error).to_string());
                    }
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, directory: &ListedDirectory, entry: &fs::DirEntry, filter: &NameFilter) {
        let path = entry.path();
        let file_name = entry.file_name();
        let Some(last) = name_of_part(&file_name) else {
            return self.refuse(path, NOT_UTF8);
        };
        let name = format!("{}{last}", directory.prefix);
        let wants_file = filter.wants_file(&name);
        let wants_directory = filter.wants_directory(directory.depth, &last);
        if !wants_file && !wants_directory {
            return;
        }
        // Follows links.
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => return self.refuse(path, IoReason(&error).to_string()),
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
                Err(error) => return self.refuse(path, IoReason(&error).to_string()),
            }
        } else {
            directory.real.path.join(&file_name)
        };
        if self.database.as_ref() == Some(&real) {
            return;
        }
        if is_database(&real) {
            tracing::warn!("{} is a database: passed over", PathText(&path));
            return;
        }
        self.directories.push(ListedDirectory {
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
        if let Err(fault) = check_name(&name) {
            self.refuse(path, fault.to_string());
        } else if metadata.is_file() {
            let bytes = match metadata.len() {
                0 if has_bytes(&path) => SIZE_UNKNOWN,
                bytes => bytes,
            };
            self.listing.sources.push(Source {
                name,
                path: path.into(),
                bytes,
                identity: SourceIdentity::of(metadata),
                decoding: None,
                unpacked: None,
            });
        } else {
            self.refuse(path, "not a regular file");
        }
    }

    fn refuse(&mut self, path: PathBuf, reason: impl Into<String>) {
        (self.listing.unreadable).push(Unreadable::whole(path, reason));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::runtime::interrupt::NEVER;
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
        fs::create_dir(top.path().join("[e]")).unwrap();
        fs::write(top.path().join("[e]/y.txt"), "y.txt").unwrap();
        let glob = |glob: &str| names(&top.path().join(glob));
        assert_eq!(glob("[e]/*.txt"), ["y.txt"]);
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
    fn what_belongs_to_a_database_is_refused_and_other_databases_are_passed_over() {
        let files = [
            "a/x",
            "a/other/segments/1.seg",
            "a/other/LOCK",
            "own/segments/1.seg",
        ];
        let top = tree(&files);
        let own = top.path().join("own");
        symlink("own", top.path().join("link")).unwrap();
        for path in [
            "own",
            "link",
            "own/segments/1.seg",
            "own/*/*",
            "a/other",
            "a/other/LOCK",
        ] {
            let error = list_sources(&top.path().join(path), Some(&own), &NEVER).unwrap_err();
            assert!(
                error.to_string().contains("belongs to the database"),
                "{error}"
            );
        }
        for path in ["a", "a/**"] {
            assert_eq!(names(&top.path().join(path)), ["x"]);
        }
    }

    #[test]
    fn a_file_that_holds_more_than_its_size_says_is_read_to_its_end() {
        let top = tree(&["a"]);
        fs::write(top.path().join("empty"), "").unwrap();
        let listing = list_sources(top.path(), None, &NEVER).unwrap();
        let sizes: Vec<u64> = listing.sources.iter().map(|source| source.bytes).collect();
        assert_eq!(sizes, [1, 0]);
        if cfg!(target_os = "linux") {
            let listing = list_sources(Path::new("/proc/self/status"), None, &NEVER).unwrap();
            assert_eq!(listing.sources[0].bytes, SIZE_UNKNOWN);
        }
    }

    #[test]
    fn files_have_the_names_that_are_kept_beside_them() {
        let top = tree(&["a", "zipfdb-names/7.content", "zipfdb-names/8.content"]);
        let write = |path: &str, content: &[u8]| {
            fs::write(top.path().join("zipfdb-names").join(path), content).unwrap();
        };
        write("7.name", b"dup/\n");
        write("9.name", b"alone");
        write("x.content", b"");
        let listing = || list_sources(top.path(), None, &NEVER).unwrap();
        let names = |listing: &Listing| -> Vec<String> {
            let names = listing.sources.iter().map(|source| source.name.clone());
            names.collect()
        };
        let literal = [
            "zipfdb-names/8.content",
            "zipfdb-names/9.name",
            "zipfdb-names/x.content",
        ];
        let found = listing();
        assert_eq!(found.unreadable, []);
        assert_eq!(names(&found), [&["a", "dup/\n"][..], &literal].concat());
        for name in [
            &b"../x"[..],
            b"",
            b"/x",
            b"\xff",
            b"x\0",
            b"a",
            &[b'x'; 5000],
        ] {
            write("7.name", name);
            let found = listing();
            assert_eq!(found.unreadable.len(), 1, "{}", name.escape_ascii());
            assert_eq!(names(&found), [&["a"][..], &literal].concat());
        }
    }

    #[test]
    fn a_glob_matches_in_time_in_proportion_to_the_name() {
        let filter = |glob: &str| NameFilter::glob(Path::new(glob)).unwrap().1;
        // The number of ways to match is that of choosing 30 letters of 250.
        let many = filter(&format!("**/{}b/x", "*a".repeat(30)));
        let letters = "a".repeat(250);
        assert!(!many.wants_file(&format!("q/{letters}/y")));
        assert!(many.wants_file(&format!("q/{letters}b/x")));
        let depths = filter(&format!("{}x", "**/a/".repeat(30)));
        assert!(!depths.wants_file(&format!("{}y", "a/".repeat(250))));
        assert!(depths.wants_file(&format!("{}x", "a/".repeat(250))));
        for (glob, name, expected) in [
            ("*/**", "a", false),
            ("*/**", "a/b", true),
            ("*/**", "a/b/c", true),
            ("**", "a", true),
            ("**/x", "x", true),
            ("**/**/x", "x", true),
            ("?/**/x", "a/x", true),
            ("?/**/**", "a/x", true),
            ("?/**/**", "a", false),
            ("**/*", "x/y", true),
            ("*", "x/y", false),
            ("[!a]*", "b", true),
            ("**/b/*", "b/b/b", true),
        ] {
            assert_eq!(filter(glob).wants_file(name), expected, "{glob} {name}");
        }
    }

    #[test]
    fn a_path_that_exists_is_not_a_glob() {
        let top = tree(&["[a]", "a", "report[1.txt"]);
        assert_eq!(names(&top.path().join("[a]")), ["[a]"]);
        assert_eq!(names(&top.path().join("report[1.txt")), ["report[1.txt"]);
        symlink("nowhere", top.path().join("link[1].txt")).unwrap();
        let error = list_sources(&top.path().join("link[1].txt"), None, &NEVER).unwrap_err();
        assert!(error.to_string().starts_with("cannot open "), "{error}");
    }

    #[test]
    fn a_glob_without_files_and_a_missing_path_are_errors() {
        let top = tree(&["a"]);
        let error = list_sources(&top.path().join("*.txt"), None, &NEVER).unwrap_err();
        assert!(error.to_string().ends_with("*.txt: no file matches"));
        for (glob, fault) in [
            ("report[1.txt", "a `[` that no `]` ends"),
            ("a**/x", "`**` beside other characters of a name"),
            ("***", "more than two `*` side by side"),
        ] {
            let path = top.path().join(glob);
            let error = list_sources(&path, None, &NEVER).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "{}: there is no such file, and as a glob it has {fault}",
                    path.display()
                )
            );
        }
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
    fn what_is_not_a_file_is_reported() {
        let top = tree(&["a"]);
        let _socket = UnixListener::bind(top.path().join("socket")).unwrap();
        let listing = list_sources(top.path(), None, &NEVER).unwrap();
        assert_eq!(listing.sources.len(), 1);
        assert_eq!(
            refused(top.path()),
            [("socket".to_owned(), "not a regular file".to_owned())]
        );
    }

    #[test]
    fn names_that_are_not_utf8_are_escaped() {
        let top = tree(&["a"]);
        let directory = top.path().join(OsStr::from_bytes(b"d\xe9"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(OsStr::from_bytes(b"b\xff")), "").unwrap();
        fs::write(directory.join("x\\xff"), "").unwrap();
        let listing = list_sources(top.path(), None, &NEVER).unwrap();
        assert_eq!(listing.unreadable, []);
        let names: Vec<&str> = (listing.sources.iter())
            .map(|source| source.name.as_str())
            .collect();
        assert_eq!(names, ["a", "d\\xe9/b\\xff", "d\\xe9/x\\x5cxff"]);
        // A path as messages show it, a glob below it, and a glob that matches it.
        for path in ["d\\xe9/b\\xff", "d\\xe9/b*", "d*/b*"] {
            let found = list_sources(&top.path().join(path), None, &NEVER).unwrap();
            assert_eq!(found.sources.len(), 1, "{path}");
        }
        assert_eq!(
            list_sources(&top.path().join("d\\xe9"), None, &NEVER)
                .unwrap()
                .sources
                .len(),
            2
        );
    }
}
