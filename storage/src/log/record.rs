//! Records: the edits of one statement to one corpus, and their bytes.
//!
//! Invariant: a [`LogRecord`] that exists is well-formed, so going through its edits cannot fail: one that is made from
//! edits is so by construction, one that is read is checked as a whole before. What an edit does to a text is not known
//! here.

use std::borrow::Cow;

use crate::log::values::{encode_values, read_values};
use crate::metadata::MetadataValue;
use crate::segment::{Fault, reserved, varint};
use crate::{Error, Result};

/// Most bytes that one record takes. A commit may have many.
pub const RECORD_SIZE_MAX: usize = 1 << 30;

/// What the edits of a record do. The numbers are those on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EditKind {
    Insert = 1,
    Delete = 2,
    Replace = 3,
    Set = 6,
}

impl EditKind {
    pub(crate) fn from_disk(number: u8) -> Option<EditKind> {
        let kinds = [
            EditKind::Insert,
            EditKind::Delete,
            EditKind::Replace,
            EditKind::Set,
        ];
        kinds.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A change to one file of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Puts text into a file.
    Insert {
        /// The name of the file.
        file: &'a str,
        /// Before which byte of the text that the file had before the record, or none: at its end.
        offset: Option<u64>,
        /// What to put there.
        text: &'a [u8],
    },
    /// Removes a file.
    Delete {
        /// The name of the file.
        file: &'a str,
    },
    /// Gives a file a new text, whether it exists or not.
    Replace {
        /// The name of the file.
        file: &'a str,
        /// All of its new text.
        text: &'a [u8],
    },
    /// Gives a file values in some columns.
    Set {
        /// The name of the file.
        file: &'a str,
        /// The values.
        values: SetValues<'a>,
    },
}

/// Values of columns by the numbers of these, as a record has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetValues<'a>(&'a [u8]);

impl SetValues<'_> {
    /// The values, with the numbers of their columns.
    pub fn to_vec(self) -> Vec<(u32, MetadataValue)> {
        let mut values = Vec::new();
        read_values(&mut &*self.0, |column, value| {
            values.push((column, value.into()))
        })
        .expect("a record was checked before it existed");
        values
    }
}

/// Edits of one kind to one corpus, as one statement makes them: either encoded to be appended to the log, or in a view
/// of the log while it is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord<'a> {
    corpus: u64,
    kind: EditKind,
    payload: Cow<'a, [u8]>,
}

impl LogRecord<'static> {
    /// Inserts into files of the corpus with number `corpus`: name, offset or end, text.
    ///
    /// Costs one copy of the bytes. Rows of one file that follow one another share its name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it takes more than [`RECORD_SIZE_MAX`] bytes, or for an offset of 2^64 - 1;
    /// [`Error::NoMemory`].
    pub fn insert<'e>(
        corpus: u64,
        rows: impl IntoIterator<Item = (&'e str, Option<u64>, &'e [u8]), IntoIter: Clone>,
    ) -> Result<LogRecord<'static>> {
        let edit = |(file, offset, text)| Edit::Insert { file, offset, text };
        encode(corpus, EditKind::Insert, rows.into_iter().map(edit))
    }

    /// Deletes files.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it takes more than [`RECORD_SIZE_MAX`] bytes; [`Error::NoMemory`].
    pub fn delete<'e>(
        corpus: u64,
        files: impl IntoIterator<Item = &'e str, IntoIter: Clone>,
    ) -> Result<LogRecord<'static>> {
        let edit = |file| Edit::Delete { file };
        encode(corpus, EditKind::Delete, files.into_iter().map(edit))
    }

    /// Replaces the text of files: name, text.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it takes more than [`RECORD_SIZE_MAX`] bytes; [`Error::NoMemory`].
    pub fn replace<'e>(
        corpus: u64,
        rows: impl IntoIterator<Item = (&'e str, &'e [u8]), IntoIter: Clone>,
    ) -> Result<LogRecord<'static>> {
        let edit = |(file, text)| Edit::Replace { file, text };
        encode(corpus, EditKind::Replace, rows.into_iter().map(edit))
    }

    /// Gives files values in columns: name, and values by the numbers of columns.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it takes more than [`RECORD_SIZE_MAX`] bytes; [`Error::NoMemory`].
    pub fn set<'e>(
        corpus: u64,
        rows: impl IntoIterator<Item = (&'e str, &'e [(u32, MetadataValue)])>,
    ) -> Result<LogRecord<'static>> {
        let (mut names, mut coded, mut ends) = (Vec::new(), Vec::new(), vec![0]);
        for (file, values) in rows {
            names.push(file);
            encode_values(values, &mut coded);
            ends.push(coded.len());
        }
        let edits = names
            .iter()
            .zip(ends.windows(2))
            .map(|(&file, ends)| Edit::Set {
                file,
                values: SetValues(&coded[ends[0]..ends[1]]),
            });
        encode(corpus, EditKind::Set, edits)
    }
}

impl<'a> LogRecord<'a> {
    /// Takes what stands in the log, once it was checked.
    pub(crate) fn from_checked(corpus: u64, kind: EditKind, payload: &'a [u8]) -> LogRecord<'a> {
        LogRecord {
            corpus,
            kind,
            payload: Cow::Borrowed(payload),
        }
    }

    /// Whether all it does is to remove files.
    pub(crate) fn only_deletes(&self) -> bool {
        (self.edits()).all(|edit| matches!(edit, Edit::Delete { .. }))
    }

    pub(crate) fn kind(&self) -> EditKind {
        self.kind
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The number of its corpus, see [`crate::CorpusRecord::id`].
    pub fn corpus(&self) -> u64 {
        self.corpus
    }

    /// The edits in their order. Allocates nothing.
    pub fn edits(&self) -> Edits<'_> {
        Edits::new(self.kind, &self.payload)
    }

    /// Bytes that its edits take in the log.
    pub fn size(&self) -> usize {
        self.payload.len()
    }
}

/// The edits of a record in their order, from [`LogRecord::edits`].
#[derive(Clone, Debug)]
pub struct Edits<'a> {
    kind: EditKind,
    rest: &'a [u8],
    left: u32,
    /// The file of the edit before.
    file: Option<&'a str>,
}

impl<'a> Edits<'a> {
    fn new(kind: EditKind, payload: &'a [u8]) -> Edits<'a> {
        let (count, rest) = payload.split_first_chunk().unwrap_or((&[0; 4], &[]));
        Edits {
            kind,
            rest,
            left: u32::from_le_bytes(*count),
            file: None,
        }
    }

    /// Goes through a payload that may be anything.
    pub(crate) fn check(kind: EditKind, payload: &[u8]) -> std::result::Result<(), Fault> {
        if payload.len() < 4 {
            return Err(Fault("it has no number of edits"));
        }
        let mut edits = Edits::new(kind, payload);
        while edits.left > 0 {
            edits.read()?;
        }
        if !edits.rest.is_empty() {
            return Err(Fault("bytes follow its last edit"));
        }
        Ok(())
    }

    fn read(&mut self) -> std::result::Result<Edit<'a>, Fault> {
        self.left -= 1;
        let file = match varint::read(&mut self.rest)? {
            0 => self.file.ok_or(Fault("its first edit has no file"))?,
            size => {
                let name = take(&mut self.rest, size - 1)?;
                std::str::from_utf8(name).map_err(|_| Fault("the name of a file is not UTF-8"))?
            }
        };
        self.file = Some(file);
        Ok(match self.kind {
            EditKind::Insert => Edit::Insert {
                file,
                offset: varint::read(&mut self.rest)?.checked_sub(1),
                text: self.text()?,
            },
            EditKind::Delete => Edit::Delete { file },
            EditKind::Replace => Edit::Replace {
                file,
                text: self.text()?,
            },
            EditKind::Set => {
                let before = self.rest;
                read_values(&mut self.rest, |_, _| {})?;
                let size = before.len() - self.rest.len();
                let values = SetValues(&before[..size]);
                Edit::Set { file, values }
            }
        })
    }

    fn text(&mut self) -> std::result::Result<&'a [u8], Fault> {
        let size = varint::read(&mut self.rest)?;
        take(&mut self.rest, size)
    }
}

impl<'a> Iterator for Edits<'a> {
    type Item = Edit<'a>;

    fn next(&mut self) -> Option<Edit<'a>> {
        if self.left == 0 {
            return None;
        }
        Some(self.read().expect("a record was checked before it existed"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Edits<'_> {}

/// Bytes of the sizes and the offset of an edit, about, for which room is reserved.
const EDIT_HEAD_SIZE: usize = 8;

fn take<'a>(input: &mut &'a [u8], size: u64) -> std::result::Result<&'a [u8], Fault> {
    let size = usize::try_from(size).map_err(|_| Fault("an edit is cut off"))?;
    varint::take(input, size)
}

fn encode<'e>(
    corpus: u64,
    kind: EditKind,
    edits: impl Iterator<Item = Edit<'e>> + Clone,
) -> Result<LogRecord<'static>> {
    let invalid = |fault| Error::Invalid {
        what: "record",
        fault,
    };
    // Memory for large texts is taken once, and no more of it than they take.
    let size = |edit| match edit {
        Edit::Insert { file, text, .. } | Edit::Replace { file, text } => file.len() + text.len(),
        Edit::Delete { file } => file.len(),
        Edit::Set { file, values } => file.len() + values.0.len(),
    };
    let sizes = edits.clone().map(|edit| size(edit) + EDIT_HEAD_SIZE);
    let size = (4 + sizes.sum::<usize>()).min(RECORD_SIZE_MAX);
    let mut payload = reserved(size).map_err(|error| error.of("a record"))?;
    payload.extend([0; 4]);
    let mut count = 0_u32; // an edit takes a byte, so the limit on bytes keeps it from running over
    let mut last = None;
    for edit in edits {
        let (Edit::Insert { file, .. }
        | Edit::Delete { file }
        | Edit::Replace { file, .. }
        | Edit::Set { file, .. }) = edit;
        if last == Some(file) {
            varint::write(&mut payload, 0);
        } else {
            varint::write(&mut payload, file.len() as u64 + 1);
            payload.extend_from_slice(file.as_bytes());
            last = Some(file);
        }
        if let Edit::Insert { offset, .. } = edit {
            let number = match offset {
                None => Some(0),
                Some(offset) => offset.checked_add(1),
            };
            varint::write(
                &mut payload,
                number.ok_or_else(|| invalid("an offset is too large"))?,
            );
        }
        if let Edit::Insert { text, .. } | Edit::Replace { text, .. } = edit {
            if text.len() > RECORD_SIZE_MAX {
                return Err(invalid("it is larger than 1 GiB"));
            }
            varint::write(&mut payload, text.len() as u64);
            payload.extend_from_slice(text);
        }
        if let Edit::Set { values, .. } = edit {
            payload.extend_from_slice(values.0);
        }
        count += 1;
        if payload.len() > RECORD_SIZE_MAX {
            return Err(invalid("it is larger than 1 GiB"));
        }
    }
    payload[..4].copy_from_slice(&count.to_le_bytes());
    Ok(LogRecord {
        corpus,
        kind,
        payload: Cow::Owned(payload),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn records() -> [LogRecord<'static>; 5] {
        let rows: [(&str, Option<u64>, &[u8]); 4] = [
            ("a", None, b"x"),
            ("a", Some(0), b""),
            ("", Some(u64::MAX - 1), &[0xff; 300]),
            ("\u{e4}/b", Some(7), b"\0"),
        ];
        [
            LogRecord::insert(1, rows).unwrap(),
            LogRecord::delete(u64::MAX, ["a", "a", "b"]).unwrap(),
            LogRecord::replace(2, [("a", &b"new"[..]), ("b", b"")]).unwrap(),
            LogRecord::delete(3, []).unwrap(),
            LogRecord::set(4, [("a", &values()[..]), ("a", &[]), ("b", &values()[1..])]).unwrap(),
        ]
    }

    fn values() -> [(u32, MetadataValue); 3] {
        [
            (0, MetadataValue::Text("x".into())),
            (7, MetadataValue::Null),
            (300, MetadataValue::Integer(-5)),
        ]
    }

    #[test]
    fn edits_come_back_in_their_order() {
        let [insert, delete, replace, nothing, set] = records();
        let found: Vec<_> = (set.edits())
            .map(|edit| match edit {
                Edit::Set { file, values } => (file, values.to_vec()),
                other => panic!("{other:?}"),
            })
            .collect();
        let all = values().to_vec();
        let expected = [
            ("a", all.clone()),
            ("a", Vec::new()),
            ("b", all[1..].to_vec()),
        ];
        assert_eq!(found, expected);
        let edits: Vec<Edit<'_>> = insert.edits().collect();
        assert_eq!(edits.len(), 4);
        assert_eq!(
            edits[1],
            Edit::Insert {
                file: "a",
                offset: Some(0),
                text: b""
            }
        );
        assert_eq!(
            edits[3],
            Edit::Insert {
                file: "\u{e4}/b",
                offset: Some(7),
                text: b"\0"
            }
        );
        let files: Vec<Edit<'_>> = delete.edits().collect();
        assert_eq!(
            files,
            ["a", "a", "b"].map(|file| Edit::Delete { file }).to_vec()
        );
        assert_eq!(
            replace.edits().next(),
            Some(Edit::Replace {
                file: "a",
                text: b"new"
            })
        );
        assert_eq!(nothing.edits().len(), 0);
        assert_eq!(delete.corpus(), u64::MAX);
    }

    #[test]
    fn a_payload_that_is_cut_or_longer_is_refused_and_none_is_trusted() {
        for record in records() {
            let mut payload = record.payload().to_vec();
            Edits::check(record.kind(), &payload).unwrap();
            for size in 0..payload.len() {
                assert!(Edits::check(record.kind(), &payload[..size]).is_err());
            }
            for at in 0..payload.len() {
                let mut changed = payload.clone();
                changed[at] ^= 0x81;
                if Edits::check(record.kind(), &changed).is_ok() {
                    let record = LogRecord::from_checked(1, record.kind(), &changed);
                    assert_eq!(record.edits().count(), record.edits().len());
                }
            }
            payload.push(0);
            assert!(Edits::check(record.kind(), &payload).is_err());
        }
    }

    #[test]
    fn what_does_not_fit_a_record_is_refused() {
        let offset = LogRecord::insert(1, [("a", Some(u64::MAX), &b""[..])]);
        assert!(matches!(offset, Err(Error::Invalid { .. })));
        let large = vec![0; RECORD_SIZE_MAX + 1];
        let error = LogRecord::replace(1, [("a", &large[..])]).unwrap_err();
        assert_eq!(error.to_string(), "invalid record: it is larger than 1 GiB");
    }
}
