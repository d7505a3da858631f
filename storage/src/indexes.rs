//! The indexes of a database by name: one small file that says which there are.
//!
//! Invariant: `INDEXES` is replaced as a whole, by a rename, so it holds all indexes of one moment. Without it there are none.
//! An index file counts only if this file names it. Bytes: `storage/FORMAT.md`. What an index holds is not known here.

use std::path::Path;

use crate::backend::Backend;
use crate::replace::RecordFile;
use crate::{Error, Result};

/// The name of the file in a database directory.
pub(crate) const FILE_NAME: &str = "INDEXES";

const FILE: RecordFile = RecordFile {
    name: FILE_NAME,
    magic: b"ZIPFIXS\x02",
    part: "indexes",
};

/// Bytes of an index' name at most: it is part of a file name.
const NAME_SIZE_MAX: usize = 64;

/// The kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IndexKind {
    /// For each word its files with counts.
    Postings = 1,
    /// For each word where it occurs.
    Occurrences = 2,
    /// All words in the order of what follows them.
    Suffixes = 3,
    /// All n-grams in order, each once.
    Ngrams = 4,
}

impl IndexKind {
    /// All kinds, in the order of their numbers on disk.
    pub const ALL: [IndexKind; 4] = [
        IndexKind::Postings,
        IndexKind::Occurrences,
        IndexKind::Suffixes,
        IndexKind::Ngrams,
    ];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Postings => "postings",
            IndexKind::Occurrences => "occurrences",
            IndexKind::Suffixes => "suffixes",
            IndexKind::Ngrams => "ngrams",
        }
    }

    fn from_disk(number: u8) -> Option<IndexKind> {
        let mut kinds = IndexKind::ALL.into_iter();
        kinds.find(|kind| *kind as u8 == number)
    }
}

/// An index of a corpus, as it was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRecord {
    /// The name, which no other index of the database has in any case.
    pub name: String,
    /// The number of the corpus.
    pub corpus: u64,
    /// What it is made of.
    pub kind: IndexKind,
    /// How its lists are coded, by a number that the caller knows; 0 where there is no choice.
    pub codec: u8,
    /// Words of a block that lists are of; 0 for lists of files.
    pub unit: u32,
    /// Whether files are numbered by what they have in common.
    pub is_reordered: bool,
}

/// The newest version of records: since the second they have units and orders.
pub(crate) const RECORD_VERSION: u8 = 2;

impl IndexRecord {
    /// Whether `name` means this index: ASCII letters match in either case.
    pub fn answers_to(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.corpus.to_le_bytes());
        // Names were checked to be short.
        bytes.extend([self.kind as u8, self.codec, self.name.len() as u8]);
        bytes.extend(self.name.as_bytes());
        bytes.extend(self.unit.to_le_bytes());
        bytes.push(u8::from(self.is_reordered));
    }

    /// Takes a record of some version from the beginning of `rest`.
    pub(crate) fn decode(version: u8, rest: &mut &[u8]) -> Option<IndexRecord> {
        let (corpus, behind) = rest.split_first_chunk::<8>()?;
        let (&[kind, codec, size], behind) = behind.split_first_chunk::<3>()?;
        let (name, behind) = behind.split_at_checked(usize::from(size))?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        check_name(&name).ok()?;
        let (unit, is_reordered, behind) = match (version, behind) {
            (1, behind) => (0, false, behind),
            (_, [a, b, c, d, order @ (0 | 1), behind @ ..]) => {
                (u32::from_le_bytes([*a, *b, *c, *d]), *order == 1, behind)
            }
            _ => return None,
        };
        *rest = behind;
        Some(IndexRecord {
            name,
            corpus: u64::from_le_bytes(*corpus),
            kind: IndexKind::from_disk(kind)?,
            codec,
            unit,
            is_reordered,
        })
    }
}

/// Refuses names that an index cannot have: 1 to 64 ASCII letters, digits and `_`.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if (1..=NAME_SIZE_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        Ok(())
    } else {
        Err(Error::Invalid {
            what: "index name",
            fault: "it is not 1 to 64 ASCII letters, digits and `_`",
        })
    }
}

/// Reads the indexes of the database in the directory `database`.
pub(crate) fn read(backend: &dyn Backend, database: &Path) -> Result<Vec<IndexRecord>> {
    FILE.read(backend, database, |version, mut rest| {
        let mut records = Vec::new();
        while !rest.is_empty() {
            records.push(IndexRecord::decode(version, &mut rest)?);
        }
        Some(records)
    })
}

/// Replaces the indexes of the database in the directory `database`. Durable when it returns; an error leaves those before or
/// these.
pub(crate) fn write(backend: &dyn Backend, database: &Path, records: &[IndexRecord]) -> Result<()> {
    FILE.write(backend, database, |bytes| {
        records.iter().for_each(|record| record.encode(bytes));
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::backend::MemoryBackend;
    use crate::replace::replace_file;

    fn record(name: &str, kind: IndexKind) -> IndexRecord {
        IndexRecord {
            name: name.to_owned(),
            corpus: 7,
            kind,
            codec: 3,
            unit: 4_096,
            is_reordered: kind == IndexKind::Suffixes,
        }
    }

    #[test]
    fn records_of_the_first_version_are_read() {
        let backend = MemoryBackend::new();
        let database = Path::new("a.zdb");
        backend.create_directory(database).unwrap();
        let mut bytes = b"ZIPFIXS\x01".to_vec();
        bytes.extend(7u64.to_le_bytes());
        bytes.extend([1, 3, 1, b'a']);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        replace_file(&backend, database, FILE.name, &bytes).unwrap();
        let expected = IndexRecord {
            unit: 0,
            ..record("a", IndexKind::Postings)
        };
        assert_eq!(read(&backend, database).unwrap(), [expected]);
    }

    #[test]
    fn indexes_are_read_back_and_every_cut_and_flipped_bit_is_damage() {
        let backend = MemoryBackend::new();
        let database = Path::new("a.zdb");
        backend.create_directory(database).unwrap();
        assert_eq!(read(&backend, database).unwrap(), []);
        let names = ["a", "by_word", "c", "d_4"];
        let records = names.into_iter().zip(IndexKind::ALL);
        let records: Vec<IndexRecord> = records.map(|(name, kind)| record(name, kind)).collect();
        write(&backend, database, &records).unwrap();
        assert_eq!(read(&backend, database).unwrap(), records);
        let path = database.join(FILE.name);
        let bytes = backend.read(&path).unwrap().to_vec();
        let mut changed: Vec<Vec<u8>> = (0..bytes.len()).map(|end| bytes[..end].to_vec()).collect();
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            changed.push(flipped);
        }
        for bytes in changed {
            replace_file(&backend, database, FILE.name, &bytes).unwrap();
            let found = read(&backend, database);
            assert!(matches!(found, Err(Error::Corrupt { .. })));
        }
        write(&backend, database, &records[1..2]).unwrap();
        assert_eq!(read(&backend, database).unwrap(), records[1..2]);
    }

    #[test]
    fn names_of_indexes_are_names_of_files() {
        for name in ["a", "by_word", "X1", &"x".repeat(64)] {
            check_name(name).unwrap();
        }
        for name in ["", "a b", "a/b", "..", "a.b", "\u{e9}", &"x".repeat(65)] {
            check_name(name).unwrap_err();
        }
        assert!(record("By_Word", IndexKind::Postings).answers_to("by_word"));
    }
}
