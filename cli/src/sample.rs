//! The text that `zipf demo` builds its database from: speeches that the program carries, packed.
//!
//! Invariant: [`speeches`] are exactly the files of `cli/sample/speeches`, in order of name. Their origin
//! is documented in `cli/sample/README.md`. Nothing here reads a file at run time.

use std::io::Read;

use lzma_rust2::XzReader;

/// One file of the sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speech {
    /// The file's name, `1961-Kennedy-1.txt`.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// The speeches, as the build packs them.
const PACK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/speeches.xz"));

/// All files of the sample in order of name.
pub fn speeches() -> Vec<Speech> {
    let mut unpacked = String::new();
    XzReader::new(PACK, false)
        .read_to_string(&mut unpacked)
        .expect("the build has packed texts");
    let (names, mut rest) = unpacked
        .split_once("\n\n")
        .expect("an empty line ends the names");
    let speeches = names.lines().map(|line| {
        let (name, size) = line.split_once('\t').expect("a tab ends a name");
        let (text, after) = rest.split_at(size.parse().expect("a size is a number"));
        rest = after;
        Speech {
            name: name.to_owned(),
            text: text.to_owned(),
        }
    });
    speeches.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn speeches_are_the_files_of_the_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sample/speeches");
        let mut files: Vec<Speech> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                Speech {
                    name: entry.file_name().into_string().unwrap(),
                    text: std::fs::read_to_string(entry.path()).unwrap(),
                }
            })
            .collect();
        files.sort_by(|left, right| left.name.cmp(&right.name));
        assert!(files == speeches());
    }

    #[test]
    fn the_sample_is_at_most_four_megabytes() {
        let bytes: usize = speeches().iter().map(|speech| speech.text.len()).sum();
        assert_eq!(bytes, 3_930_161);
        assert!(PACK.len() < bytes / 4);
    }
}
