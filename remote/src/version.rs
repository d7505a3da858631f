//! A version of a database: which files it has and in which objects they lie. Bytes: `remote/FORMAT.md`.
//!
//! Invariant: a version that was read is one that was published, whole and unchanged.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

/// The version of the format.
const FORMAT: u32 = 1;

/// Which version of which database something is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishedVersion {
    /// From 1, each one more than the one before.
    pub number: u64,
    /// The name of the publication that made it: no other version, of any database, has the same.
    pub publication: String,
}

/// A version of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    format: u32,
    /// From 1, each one more than the one before.
    pub(crate) number: u64,
    /// The version whose files these are: this one, or the one before that it repeats.
    pub(crate) content: u64,
    /// The name of the publication that made it, unique to this version.
    pub(crate) publication: String,
    /// Ascending by path.
    pub(crate) files: Vec<VersionFile>,
}

/// A file of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VersionFile {
    /// In the directory of the database, with `/` between names.
    pub(crate) path: String,
    /// Bytes of its content.
    pub(crate) size: u64,
    /// SHA-256 of its content, in hexadecimal digits.
    pub(crate) sha256: String,
    /// The name of the object that holds it.
    pub(crate) object: String,
    /// CRC32 of the checksums behind the content.
    pub(crate) sums_crc32: u32,
}

impl Version {
    pub(crate) fn new(number: u64, publication: String, files: Vec<VersionFile>) -> Version {
        Version {
            format: FORMAT,
            number,
            content: number,
            publication,
            files,
        }
    }

    /// The same files as the next version.
    pub(crate) fn repeated(self, publication: String) -> Version {
        Version {
            number: self.number + 1,
            publication,
            ..self
        }
    }

    /// The content of its object.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("numbers and texts are JSON");
        let crc = crc32fast::hash(&bytes);
        bytes.extend(format!("\n{crc:08x}\n").bytes());
        bytes
    }

    /// What an object of this number holds.
    ///
    /// # Errors
    /// The fault.
    pub(crate) fn decode(number: u64, bytes: &[u8]) -> Result<Version, String> {
        /// A line break, eight digits, a line break.
        const TAIL_SIZE: usize = 10;
        let text = bytes.split_last_chunk::<TAIL_SIZE>();
        let (content, tail) = text.ok_or("the version is too short")?;
        if tail[..] != *format!("\n{:08x}\n", crc32fast::hash(content)).as_bytes() {
            return Err("the version has a wrong checksum".into());
        }
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let head: Head = serde_json::from_slice(content).map_err(|error| error.to_string())?;
        if head.format != FORMAT {
            return Err(format!(
                "the version has format {}, this program reads {FORMAT}; hint: a later release wrote it",
                head.format
            ));
        }
        let version: Version =
            serde_json::from_slice(content).map_err(|error| error.to_string())?;
        let paths = version.files.iter().map(|file| &file.path);
        if version.number != number
            || version.content > number
            || !paths.clone().all(|path| is_plain(path))
            || !paths.is_sorted_by(|left, right| left < right)
            || !version.files.iter().all(|file| is_name(&file.object))
        {
            return Err("the version makes no sense".into());
        }
        Ok(version)
    }
}

/// Whether a path stays in the directory it is relative to.
fn is_plain(path: &str) -> bool {
    let mut components = Path::new(path).components();
    !path.is_empty() && components.all(|component| matches!(component, Component::Normal(_)))
}

/// Whether a text can be the name of an object, which is part of names of files too.
fn is_name(object: &str) -> bool {
    let mut bytes = object.bytes();
    !object.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn version(path: &str, object: &str) -> Version {
        let file = VersionFile {
            path: path.into(),
            size: 5,
            sha256: "00".into(),
            object: object.into(),
            sums_crc32: 7,
        };
        Version::new(3, "p".into(), vec![file])
    }

    #[test]
    fn what_is_encoded_is_decoded_and_damage_is_reported() {
        let bytes = version("segments/1.seg", "a-1").encode();
        assert_eq!(
            Version::decode(3, &bytes).unwrap(),
            version("segments/1.seg", "a-1")
        );
        assert!(Version::decode(4, &bytes).is_err());
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert!(Version::decode(3, &damaged).is_err(), "{place}");
            assert!(Version::decode(3, &bytes[..place]).is_err(), "{place}");
        }
    }

    #[test]
    fn names_that_leave_their_directory_are_refused() {
        for path in ["../a", "/a", "a/../b", ""] {
            let bytes = version(path, "a").encode();
            assert!(Version::decode(3, &bytes).is_err(), "{path}");
        }
        for object in ["../a", "a/b", ".", ""] {
            let bytes = version("a", object).encode();
            assert!(Version::decode(3, &bytes).is_err(), "{object}");
        }
    }
}
