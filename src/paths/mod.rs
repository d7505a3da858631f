//! Paths from users: as the system sees them, what they mean, and whether they lead into a database.
//!
//! Invariant: this module creates nothing and opens no file. A result holds until directories or links are moved;
//! `execute/below.rs` writes below a directory that others can write to.

pub(crate) mod encodings;
pub(crate) mod formats;
pub(crate) mod renamed;
pub(crate) mod sources;
pub(crate) mod streams;
pub(crate) mod unpacked;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The most symbolic links of a path that are followed, as in Linux.
const LINKS_MAX: usize = 40;

/// The path that a user means: the one that is written, or the one that messages show so, if only that exists.
pub(crate) fn meant(path: &Path) -> Cow<'_, Path> {
    let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
    match unescaped(path) {
        Some(other) if !exists(path) && exists(&other) => Cow::Owned(other),
        _ => Cow::Borrowed(path),
    }
}

/// The path that messages show like this one; none if that is the path itself.
#[cfg(unix)]
fn unescaped(path: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let text = path.to_str()?;
    let parts: Vec<Cow<'_, [u8]>> = text.split('/').map(zipfdb_storage::restored).collect();
    let bytes = parts.join(&b'/');
    (bytes != text.as_bytes()).then(|| OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn unescaped(_path: &Path) -> Option<PathBuf> {
    None
}

/// The name in a corpus of a path that an archive has, part by part as of paths on disk.
#[cfg(feature = "formats")]
pub(crate) fn name_of_bytes(path: &[u8]) -> String {
    let parts: Vec<Cow<'_, str>> = (path.split(|&byte| byte == b'/'))
        .map(zipfdb_storage::escaped)
        .collect();
    parts.join("/")
}

/// The path that a name in a corpus stands for; `name_of_bytes` of it is the name.
#[cfg(feature = "formats")]
pub(crate) fn bytes_of_name(name: &str) -> Vec<u8> {
    let parts: Vec<Cow<'_, [u8]>> = name.split('/').map(zipfdb_storage::restored).collect();
    parts.join(&b'/')
}

/// A path without symbolic links, `.` and `..`. Components that do not exist stay as they are.
pub(crate) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let parts = |path: &Path| -> Vec<OsString> {
        let parts = path.components().rev();
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut rest = parts(&std::path::absolute(path)?);
    let mut resolved = PathBuf::new();
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == "." {
            continue;
        }
        if part == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(&part); // the root replaces everything before
        match fs::symlink_metadata(&next) {
            Ok(metadata) if metadata.is_symlink() => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(io::Error::other("too many symbolic links"));
                }
                rest.extend(parts(&fs::read_link(&next)?));
            }
            Ok(_) => resolved = next,
            Err(error) if is_missing(&error) => resolved = next,
            Err(error) => return Err(error),
        }
    }
    Ok(resolved)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The database that a path leads into, `own` or another one: the directory itself, or one above the path.
pub(crate) fn database_around(path: &Path, own: Option<&Path>) -> io::Result<Option<PathBuf>> {
    let path = resolve(path)?;
    let own = own.and_then(identity);
    let is_own = |directory: &Path| own.is_some() && identity(directory) == own;
    let mut above = path.ancestors();
    let found = above.find(|directory| is_own(directory) || is_database(directory));
    Ok(found.map(Path::to_owned))
}

/// Whether a path, which need not exist, is that of a directory or leads into it, in whatever form both are written.
pub(crate) fn leads_into(path: &Path, directory: &Path) -> io::Result<bool> {
    let path = resolve(path)?;
    let directory = identity(directory);
    let mut above = path.ancestors();
    Ok(directory.is_some() && above.any(|above| identity(above) == directory))
}

/// Refuses a path into a database for files that are not the database's own.
///
/// # Errors
/// [`Error::Invalid`] if it leads into one, `own` or another; [`Error::Io`] if the path cannot be resolved.
pub(crate) fn refuse_database(path: &Path, own: Option<&Path>) -> Result<()> {
    let found = database_around(path, own).map_err(|source| Error::Io {
        action: "open",
        path: path.to_path_buf(),
        source,
    });
    match found? {
        None => Ok(()),
        Some(database) => Err(Error::Invalid {
            subject: path.display().to_string(),
            reason: format!(
                "it is inside the database {}, where only the database writes; hint: choose a path outside of it",
                database.display()
            ),
        }),
    }
}

/// The identity of a directory, whatever path leads to it.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// Whether a directory holds a database.
pub(crate) fn is_database(directory: &Path) -> bool {
    const FILES: [&str; 3] = ["MANIFEST", "catalog/db", "LOCK"];
    directory.join("segments").is_dir() && FILES.iter().any(|file| directory.join(file).is_file())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_that_messages_show_is_meant_if_there_is_no_other() {
        use std::os::unix::ffi::OsStrExt;
        let top = tempfile::tempdir().unwrap();
        let strange = top
            .path()
            .join(std::ffi::OsStr::from_bytes(b"d\xe9/na\xefme"));
        fs::create_dir_all(&strange).unwrap();
        let shown = PathBuf::from(zipfdb_storage::PathText(&strange).to_string());
        assert!(shown.ends_with("d\\xe9/na\\xefme"));
        assert_eq!(meant(&shown), strange);
        assert_eq!(meant(&strange), strange);
        let absent = top.path().join("d\\xe9/absent");
        assert_eq!(meant(&absent), absent);
        fs::create_dir_all(&shown).unwrap();
        assert_eq!(meant(&shown), shown);
        let literal = PathBuf::from(zipfdb_storage::PathText(&shown).to_string());
        assert!(literal.ends_with("d\\x5cxe9/na\\x5cxefme"));
        assert_eq!(meant(&literal), shown);
    }

    #[test]
    fn links_are_followed_to_what_is_not_there_yet() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        symlink("a/b/../new", top.join("relative")).unwrap();
        symlink(top.join("a"), top.join("absolute")).unwrap();
        symlink("circle", top.join("circle")).unwrap();
        let resolved = |path: &str| resolve(&top.join(path)).unwrap();
        assert_eq!(resolved("relative"), top.join("a/new"));
        assert_eq!(resolved("relative/x/./../y"), top.join("a/new/y"));
        assert_eq!(resolved("absolute/b/../c"), top.join("a/c"));
        assert_eq!(resolved("none/../a"), top.join("a"));
        assert!(resolve(&top.join("circle/x")).is_err());
        assert!(resolve(Path::new("")).is_err());
    }

    #[test]
    fn a_path_into_a_database_is_recognized_however_it_is_written() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        for directory in ["own/x", "other/segments", "other/catalog", "texts/segments"] {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        fs::write(top.join("other/catalog/db"), "").unwrap();
        symlink("own", top.join("link")).unwrap();
        let around = |path: &str| {
            let found = database_around(&top.join(path), Some(&top.join("texts/../own"))).unwrap();
            found.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        };
        for path in [
            "own",
            "own/new",
            "own/x/y/z",
            "link",
            "link/x",
            "texts/../own/x",
        ] {
            assert_eq!(around(path).as_deref(), Some("own"), "{path}");
        }
        for path in ["other", "other/segments/1.seg", "other/none"] {
            assert_eq!(around(path).as_deref(), Some("other"), "{path}");
        }
        for path in ["texts/segments/1", "owner", "own/../x"] {
            assert_eq!(around(path), None, "{path}");
        }
    }

    #[test]
    fn a_path_leads_into_a_directory_by_whatever_name() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir_all(top.join("ab")).unwrap();
        symlink("a/b", top.join("link")).unwrap();
        symlink("a", top.join("of_a")).unwrap();
        let leads = |path: &str, directory: &str| {
            leads_into(&top.join(path), &top.join(directory)).unwrap()
        };
        for path in [
            "a",
            "a/",
            "a/new/x",
            "link",
            "link/new",
            "of_a/b",
            "ab/../a/x",
        ] {
            assert!(leads(path, "a"), "{path}");
            assert!(leads(path, "of_a"), "{path}");
        }
        for path in ["ab", "b", "a/../b", "."] {
            assert!(!leads(path, "a"), "{path}");
        }
        assert!(leads("link/x", "a/b"));
        assert!(!leads("a", "none"));
    }
}
