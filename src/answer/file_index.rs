//! The files of a corpus and the places of their parts.
//!
//! The invariant: files stand in order of name, and the parts of a file follow each other without gap from its first byte to its
//! last. It holds names and places, never content.

use std::hash::{BuildHasher, RandomState};

use zipfdb_storage::FileEntry;

/// A file of a corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSummary {
    /// Its name: the path it was imported from, relative, with `/`.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The number of its words.
    pub words: u64,
}

/// The place of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its segment, by its place in the corpus.
    pub(crate) segment: u32,
    /// Its number in the segment.
    pub(crate) file: u32,
    /// The byte of its file where it begins.
    pub(crate) first_byte: u64,
    pub(crate) bytes: u64,
}

/// A part that does not fit the others of its file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// The part's segment, by its place in the corpus.
    pub(crate) segment: u32,
    pub(crate) reason: String,
}

/// All files of a corpus; a file is named by its place in order of name.
#[derive(Debug)]
pub(crate) struct FileIndex {
    files: Vec<FileSummary>,
    /// The number of words of all files.
    words: u64,
    /// `[files + 1]`: the parts of each file in `parts`.
    part_offsets: Vec<u32>,
    parts: Vec<Part>,
    /// Files of several parts, ascending.
    cut: Vec<u32>,
    /// For each segment the files that its parts belong to.
    files_of: Vec<Vec<u32>>,
    /// A hash table of files by name: a power of two, at most half full.
    slots: Vec<u32>,
    hasher: RandomState,
}

const EMPTY: u32 = u32::MAX;

impl FileIndex {
    /// Sorts the files of all segments. Work: O(files), times the logarithm of
    /// the number of segments that are not in order of name.
    pub(crate) fn new(segments: &[&[FileEntry]]) -> Result<FileIndex, Misfit> {
        let mut entries: Vec<(u32, u32, &FileEntry)> = Vec::new();
        for (segment, files) in (0..).zip(segments) {
            entries.extend(
                (0..)
                    .zip(*files)
                    .map(|(file, entry)| (segment, file, entry)),
            );
        }
        // Stable, so quick on what is in order already.
        entries.sort_by(|(_, _, left), (_, _, right)| {
            (&left.name, left.first_byte).cmp(&(&right.name, right.first_byte))
        });

        let mut index = FileIndex {
            files: Vec::new(),
            words: 0,
            part_offsets: vec![0],
            parts: Vec::with_capacity(entries.len()),
            cut: Vec::new(),
            files_of: (segments.iter())
                .map(|files| vec![EMPTY; files.len()])
                .collect(),
            slots: Vec::new(),
            hasher: RandomState::new(),
        };
        for same_name in entries.chunk_by(|left, right| left.2.name == right.2.name) {
            let mut file = FileSummary {
                name: same_name[0].2.name.clone(),
                bytes: 0,
                words: 0,
            };
            for (place, &(segment, number, entry)) in same_name.iter().enumerate() {
                let fits = entry.first_byte == file.bytes
                    && entry.first_word == file.words
                    && entry.last_part == (place + 1 == same_name.len());
                let bytes = file.bytes.checked_add(entry.bytes);
                let words = file.words.checked_add(entry.words);
                let (true, Some(bytes), Some(words)) = (fits, bytes, words) else {
                    let name = &entry.name;
                    return Err(Misfit {
                        segment,
                        reason: format!("a part of file \"{name}\" is missing or twice there"),
                    });
                };
                // A u32 counts files whose names fit into memory.
                index.files_of[segment as usize][number as usize] = index.files.len() as u32;
                index.parts.push(Part {
                    segment,
                    file: number,
                    first_byte: file.bytes,
                    bytes: entry.bytes,
                });
                (file.bytes, file.words) = (bytes, words);
            }
            if same_name.len() > 1 {
                index.cut.push(index.files.len() as u32);
            }
            index.words += file.words;
            index.files.push(file);
            index.part_offsets.push(index.parts.len() as u32);
        }

        index.slots = vec![EMPTY; (index.files.len() * 2).next_power_of_two()];
        for file in 0..index.files.len() {
            let mut at = index.home(&index.files[file].name);
            while index.slots[at] != EMPTY {
                at = (at + 1) & (index.slots.len() - 1);
            }
            index.slots[at] = file as u32;
        }
        Ok(index)
    }

    fn home(&self, name: &str) -> usize {
        // The table's size is a power of two.
        self.hasher.hash_one(name) as usize & (self.slots.len() - 1)
    }

    /// All files, in order of name.
    pub(crate) fn files(&self) -> &[FileSummary] {
        &self.files
    }

    /// The number of words of all files.
    pub(crate) fn words(&self) -> u64 {
        self.words
    }

    /// The place of the file called `name`. Work: about one comparison.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let mut at = self.home(name);
        while self.slots[at] != EMPTY {
            let file = self.slots[at] as usize;
            if self.files[file].name == name {
                return Some(file);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// The parts of a file, in order; at least one.
    pub(crate) fn parts(&self, file: usize) -> &[Part] {
        let range = self.part_offsets[file] as usize..self.part_offsets[file + 1] as usize;
        &self.parts[range]
    }

    /// The files that have several parts, ascending.
    pub(crate) fn cut(&self) -> &[u32] {
        &self.cut
    }

    /// The file that entry `number` of a segment's file table is a part of.
    pub(crate) fn file_of(&self, segment: u32, number: u32) -> usize {
        self.files_of[segment as usize][number as usize] as usize
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entry(name: &str, first_byte: u64, bytes: u64, last_part: bool) -> FileEntry {
        FileEntry {
            name: name.to_owned(),
            bytes,
            words: bytes / 2,
            crc32: 0,
            first_byte,
            first_word: first_byte / 2,
            last_part,
        }
    }

    #[test]
    fn files_stand_in_order_of_name_across_segments_and_are_found_by_name() {
        let first = [entry("b", 0, 4, true), entry("d", 0, 6, false)];
        let second = [entry("d", 6, 2, false)];
        let third = [entry("d", 8, 2, true), entry("e", 0, 0, true)];
        let fourth = [entry("a", 0, 8, true), entry("c", 0, 2, true)];
        let index = FileIndex::new(&[&first, &second, &third, &[], &fourth]).unwrap();
        assert_eq!(index.files().len(), 5);
        for (file, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            assert_eq!(index.find(name), Some(file));
            assert_eq!(index.files()[file].name, name);
        }
        assert_eq!(index.find("f"), None);
        let parts = index.parts(3).iter();
        let starts: Vec<u64> = parts.map(|part| part.first_byte).collect();
        assert_eq!(starts, [0, 6, 8]);
        assert_eq!(index.cut(), [3]);
        assert_eq!((index.files()[3].bytes, index.files()[3].words), (10, 5));
        assert_eq!(index.file_of(2, 0), 3);
        assert_eq!(index.file_of(4, 1), 2);
    }

    #[test]
    fn no_files_are_an_index_too() {
        let index = FileIndex::new(&[]).unwrap();
        assert!(index.files().is_empty());
        assert_eq!(index.find("a"), None);
    }

    #[test]
    fn parts_that_do_not_make_one_file_are_a_misfit() {
        let broken = [
            vec![entry("a", 0, 4, false)],
            vec![entry("a", 4, 4, true)],
            vec![entry("a", 0, 4, true), entry("a", 4, 4, true)],
            vec![entry("a", 0, 4, false), entry("a", 6, 4, true)],
            vec![entry("a", 0, 4, true), entry("a", 0, 4, true)],
            vec![
                entry("a", 0, u64::MAX - 1, false),
                entry("a", u64::MAX - 1, 4, true),
            ],
        ];
        for files in broken {
            let misfit = FileIndex::new(&[&[], &files]).unwrap_err();
            assert_eq!(misfit.segment, 1);
            assert!(misfit.reason.contains("\"a\""));
        }
    }
}
