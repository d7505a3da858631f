//! Names of files that cannot be paths below a directory, and how COPY writes and reads such files.
//!
//! Any text without NUL can be the name of a file in a corpus whose parts between `/` are not empty, `.` or `..`: also
//! one with a part that is too long for a file system, or `a` beside `a/b`; damaged or foreign segments may hold any
//! UTF-8. Such a file is written as `zipfdb-names/N.content`, and its name, nothing else, as `zipfdb-names/N.name`.
//!
//! Invariant: files written below a directory and read from it again have their names. Names that can be paths are paths; those
//! in the directory `zipfdb-names` itself are not, so no two files collide.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path};

use zipfdb_storage::restored;

use crate::overlay::check_name;

/// The directory, at the top of what is written, of files whose names cannot be paths.
pub(crate) const DIRECTORY: &str = "zipfdb-names";

/// The extension of the content of such a file.
const CONTENT: &str = ".content";

/// The extension of its name.
const NAME: &str = ".name";

/// The longest part of a path; no file system in use takes longer ones.
const PART_SIZE_MAX: usize = 255;

/// The longest path: with the directory above, it stays under the limits of systems.
const PATH_SIZE_MAX: usize = 2048;

/// The names of files that cannot be paths, by their place among all.
pub(crate) fn not_paths<'a>(names: impl Iterator<Item = &'a str> + Clone) -> HashSet<usize> {
    let mut directories = HashSet::new();
    for name in names.clone().filter(|name| is_path(name)) {
        // From the longest prefix on: with it come all others.
        for (end, _) in name.rmatch_indices('/') {
            if !directories.insert(&name[..end]) {
                break;
            }
        }
    }
    let renamed = names
        .enumerate()
        .filter(|(_, name)| !is_path(name) || directories.contains(name));
    renamed.map(|(place, _)| place).collect()
}

/// The paths of content and name of the file at a place.
pub(crate) fn targets(place: usize) -> [String; 2] {
    [CONTENT, NAME].map(|end| format!("{DIRECTORY}/{}{end}", place + 1))
}

/// Whether a name can be a path, if no other file needs it as a directory.
fn is_path(name: &str) -> bool {
    let is_part = |part: &str| {
        let mut components = Path::new(part).components();
        let normal = components.next() == Some(Component::Normal(part.as_ref()));
        normal
            && components.next().is_none()
            && restored(part).len() <= PART_SIZE_MAX
            && !part.contains('\0')
    };
    let mut parts = name.split('/');
    let separators = name.matches('/').count();
    let size = (parts.clone()).fold(separators, |size, part| size + restored(part).len());
    size <= PATH_SIZE_MAX
        && parts.clone().all(is_part)
        && (parts.next()).is_none_or(|first| !first.eq_ignore_ascii_case(DIRECTORY))
}

/// The path of the file with the name, below the directory that is read, if `content` is the content of a renamed file.
pub(crate) fn name_of(content: &str) -> Option<String> {
    let number = content.strip_prefix(DIRECTORY)?.strip_prefix('/')?;
    let number = number.strip_suffix(CONTENT)?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("{DIRECTORY}/{number}{NAME}"))
}

/// Reads a name.
pub(crate) fn read_name(path: &Path) -> io::Result<String> {
    let mut name = Vec::new();
    let size_max = crate::overlay::NAME_BYTES_MAX as u64 + 1;
    File::open(path)?.take(size_max).read_to_end(&mut name)?;
    let name = String::from_utf8(name).map_err(|_| io::Error::other("it is not UTF-8"))?;
    check_name(&name).map_err(io::Error::other)?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_path_can_have_are_recognized() {
        let long = "x".repeat(PART_SIZE_MAX);
        let too_long = format!("a/{long}y");
        let deep = "deep/".repeat(PATH_SIZE_MAX / 5) + "file";
        let names = [
            ("a/b.txt", true),
            ("a", false),
            ("a.b", true),
            ("a/b", true),
            (&long, true),
            (&too_long, false),
            (&deep, false),
            ("", false),
            ("..", false),
            ("x/../y", false),
            ("x/./y", false),
            ("x//y", false),
            ("x/", false),
            ("/x", false),
            ("x\0", false),
            ("zipfdb-names/1.name", false),
            ("ZIPFDB-names", false),
            ("x/zipfdb-names", true),
        ];
        let found = not_paths(names.iter().map(|(name, _)| *name));
        for (place, (name, is_path)) in names.iter().enumerate() {
            assert_eq!(found.contains(&place), !is_path, "{name:?}");
        }
    }

    #[test]
    fn the_content_of_a_renamed_file_leads_to_its_name() {
        let [content, name] = targets(6);
        assert_eq!(content, "zipfdb-names/7.content");
        assert_eq!(name_of(&content), Some(name));
        for other in [
            "7.content",
            "zipfdb-names/.content",
            "zipfdb-names/a.content",
        ] {
            assert_eq!(name_of(other), None, "{other}");
        }
    }
}
