//! Edits that are not merged into segments yet.
//!
//! The invariant: an overlay holds the current text of every file that it names; all other files are as stored. A batch of edits
//! applies whole or, with an error, not at all. An overlay is persistent: a clone is cheap and never changes, so a snapshot holds
//! one.
//!
//! [`pieces`] handles texts as bytes and costs what an edit changes; [`regions`] finds the words around edits when a query first
//! needs them. Neither writes anything: the record log makes edits durable.

pub(crate) mod changed_count;
pub(crate) mod edits;
mod metadata;
mod pieces;
mod regions;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use imbl::OrdMap;
use zipfdb_sql::quote;
use zipfdb_storage::MetadataValue;

use crate::{Error, Result};

pub(crate) use metadata::FileMetadata;
pub(crate) use pieces::{Piece, Pieces};
pub(crate) use regions::{
    CHARACTER_BYTES, Region, RegionPlace, RegionWord, Regions, StoredText, add_up,
};

/// Edits of a corpus that are made together. Each row sees the text before all of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EditBatch {
    /// Texts to insert. Equal offsets keep the order of rows.
    Insert(Vec<Insertion>),
    /// Files that get a new text, or are created; the last row of a name counts.
    Replace(Vec<(Arc<str>, Bytes)>),
    /// Files to delete.
    Delete(Vec<Arc<str>>),
    /// Values of files, by the numbers of columns; the last row of a name and column counts.
    Set(Vec<FileValues>),
}

/// Values of a file, by the numbers of columns.
pub(crate) type FileValues = (Arc<str>, Vec<(u32, MetadataValue)>);

/// A text to insert into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Insertion {
    pub(crate) file: Arc<str>,
    /// The byte to insert before; none for the end of the file, which is then created if it is missing.
    pub(crate) offset: Option<u64>,
    pub(crate) text: Bytes,
}

/// What edits need of the stored files.
pub(crate) trait StoredFiles {
    /// The size of a file; none if it is not stored.
    fn bytes(&self, file: &str) -> Option<u64>;

    /// The error for a missing file.
    fn no_such_file(&self, file: &str) -> Error;
}

/// The state of a file that is not as stored.
#[derive(Clone, Debug)]
pub(crate) enum FileState {
    /// Stored, and deleted since.
    Deleted,
    /// With another text than the stored one, if there is one.
    Edited(Arc<EditedFile>),
}

/// A file and its edits.
#[derive(Debug)]
pub(crate) struct EditedFile {
    /// Whether the text rests on the stored one; else all of it is new.
    pub(crate) is_stored: bool,
    pub(crate) pieces: Pieces,
    /// The words around the edits, once a query needed them.
    regions: OnceLock<Arc<Regions>>,
    /// The words around the edits of an earlier state, most of which are the same.
    earlier: Option<Arc<Regions>>,
}

/// The edits of a corpus.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    files: OrdMap<Arc<str>, FileState>,
    /// The files whose metadata is not as stored.
    metadata: OrdMap<Arc<str>, Arc<FileMetadata>>,
    pending_bytes: u64,
    /// The segments that the edits rest on, ascending.
    base: Arc<[u64]>,
}

/// The memory of an edit beside its text, about.
const EDIT_BYTES: u64 = 64;

impl EditBatch {
    /// The files that it names; a name may come several times.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<str>> {
        let (inserted, replaced, deleted, set) = match self {
            EditBatch::Insert(rows) => (&rows[..], &[][..], &[][..], &[][..]),
            EditBatch::Replace(rows) => (&[][..], &rows[..], &[][..], &[][..]),
            EditBatch::Delete(files) => (&[][..], &[][..], &files[..], &[][..]),
            EditBatch::Set(rows) => (&[][..], &[][..], &[][..], &rows[..]),
        };
        let inserted = inserted.iter().map(|row| &row.file);
        let replaced = replaced.iter().map(|(file, _)| file);
        let set = set.iter().map(|(file, _)| file);
        inserted.chain(replaced).chain(deleted).chain(set)
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.files().next().is_none()
    }
}

impl Clone for EditedFile {
    /// A copy to be edited: what was derived is kept as that of an earlier state.
    fn clone(&self) -> EditedFile {
        EditedFile {
            is_stored: self.is_stored,
            pieces: self.pieces.clone(),
            regions: OnceLock::new(),
            earlier: self.regions.get().or(self.earlier.as_ref()).cloned(),
        }
    }
}

impl EditedFile {
    /// A new file without text.
    pub(crate) fn empty() -> EditedFile {
        EditedFile::new(false, Pieces::default())
    }

    /// A file as it is stored.
    pub(crate) fn stored(bytes: u64) -> EditedFile {
        EditedFile::new(true, Pieces::stored(bytes))
    }

    fn new(is_stored: bool, pieces: Pieces) -> EditedFile {
        EditedFile {
            is_stored,
            pieces,
            regions: OnceLock::new(),
            earlier: None,
        }
    }

    /// Whether the words around the edits are known with the numbers of this numbering.
    pub(crate) fn has_regions(&self, numbering: u64) -> bool {
        let regions = self.regions.get();
        regions.is_some_and(|regions| regions.numbering == numbering)
    }

    /// The words around the edits, computed from those of an earlier state of the file where known.
    ///
    /// Views of the same segments may number words differently: regions of another numbering are not used.
    pub(crate) fn regions(&self, stored: &dyn StoredText) -> Result<Arc<Regions>> {
        let is_usable = |regions: &&Arc<Regions>| regions.numbering == stored.numbering();
        if let Some(regions) = self.regions.get().filter(is_usable) {
            return Ok(regions.clone());
        }
        let earlier = self.earlier.as_ref().filter(is_usable);
        let found = Regions::new(&self.pieces, stored, earlier.map(|earlier| &**earlier))?;
        let found = Arc::new(found);
        let _ = self.regions.set(found.clone()); // another thread may have been first
        Ok(found)
    }
}

impl Overlay {
    /// Whether every file is as stored.
    pub(crate) fn is_empty(&self) -> bool {
        !self.edits_texts() && self.metadata.is_empty()
    }

    /// Whether the text of a file is not as stored.
    pub(crate) fn edits_texts(&self) -> bool {
        !self.files.is_empty()
    }

    /// An overlay without edits on these segments, which ascend.
    pub(crate) fn new(base: Arc<[u64]>) -> Overlay {
        Overlay {
            base,
            ..Overlay::default()
        }
    }

    /// Whether the edits, if there are any, rest on these segments, which ascend. On others words have other numbers.
    pub(crate) fn rests_on(&self, segments: &[u64]) -> bool {
        self.is_empty() || *self.base == *segments
    }

    /// Whether it is a clone of the other.
    pub(crate) fn is_same(&self, other: &Overlay) -> bool {
        (self.is_empty() && other.is_empty())
            || (self.files.ptr_eq(&other.files) && self.metadata.ptr_eq(&other.metadata))
    }

    /// The number of files whose text is not as stored.
    pub(crate) fn edited_files(&self) -> usize {
        self.files.len()
    }

    /// The files whose text is not as stored, in order of name.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Arc<str>, &FileState)> {
        self.files.iter()
    }

    /// The state of a file; none if it is as stored.
    pub(crate) fn file(&self, name: &str) -> Option<&FileState> {
        self.files.get(name)
    }

    /// Replaces the states of files with edits made elsewhere: `rows` rows with `bytes` bytes of text.
    pub(crate) fn put(
        &mut self,
        files: impl Iterator<Item = (Arc<str>, EditedFile)>,
        rows: u64,
        bytes: u64,
    ) {
        for (name, file) in files {
            self.files.insert(name, FileState::Edited(Arc::new(file)));
        }
        self.pending_bytes += bytes + rows * EDIT_BYTES;
    }

    /// The approximate bytes pending: bytes inserted and deleted, and the memory of the edits.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// Applies a batch; `go_on` is checked at each row.
    ///
    /// # Errors
    /// If a row names a missing file or a place outside its file, and those of `go_on`; nothing has changed then.
    pub(crate) fn apply(
        &mut self,
        batch: &EditBatch,
        stored: &dyn StoredFiles,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut edited = self.clone();
        match batch {
            EditBatch::Insert(rows) => edited.insert(rows, stored, go_on)?,
            EditBatch::Replace(rows) => edited.replace(rows, stored, go_on)?,
            EditBatch::Delete(files) => edited.delete(files, stored, go_on)?,
            EditBatch::Set(rows) => edited.set(rows, stored, go_on)?,
        }
        *self = edited;
        Ok(())
    }

    fn insert(
        &mut self,
        rows: &[Insertion],
        stored: &dyn StoredFiles,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let (ranges, by_file) = rows_by_file(rows.iter().map(|row| &*row.file));
        for range in ranges.windows(2) {
            let of_file = &by_file[range[0]..range[1]];
            let name = &rows[of_file[0]].file;
            let known = self.to_edit(name, stored);
            if known.is_none() && rows[of_file[0]].offset.is_none() {
                check_name(name).map_err(|error| at_row(of_file[0], error))?;
            }
            let is_there = known.is_some();
            let mut file = known.unwrap_or_else(EditedFile::empty);
            let before = file.pieces.bytes();
            let mut places = Vec::with_capacity(of_file.len());
            for &row in of_file {
                go_on()?;
                let offset = match rows[row].offset {
                    Some(_) if !is_there => return Err(at_row(row, stored.no_such_file(name))),
                    Some(offset) if offset > before => {
                        return Err(Error::Invalid {
                            subject: format!("row {}", row + 1),
                            reason: format!(
                                "offset {offset} is past the end of file {}, which has {before} bytes",
                                quote(&**name)
                            ),
                        });
                    }
                    Some(offset) => offset,
                    None => before,
                };
                self.pending_bytes += rows[row].text.len() as u64 + EDIT_BYTES;
                places.push((offset, row));
            }
            places.sort_unstable();
            match places[..] {
                [(offset, row)] => file.pieces.insert(offset, rows[row].text.clone()),
                _ => {
                    let texts = places.iter();
                    let texts = texts.map(|&(offset, row)| (offset, rows[row].text.clone()));
                    file.pieces.insert_many(texts.collect());
                }
            }
            self.files
                .insert(name.clone(), FileState::Edited(Arc::new(file)));
        }
        Ok(())
    }

    /// Whether a file is there.
    pub(crate) fn has(&self, name: &str, stored: &dyn StoredFiles) -> bool {
        match self.files.get(name) {
            Some(FileState::Deleted) => false,
            Some(FileState::Edited(_)) => true,
            None => stored.bytes(name).is_some(),
        }
    }

    /// A copy of a file to be changed; none if the file is missing.
    fn to_edit(&self, name: &str, stored: &dyn StoredFiles) -> Option<EditedFile> {
        match self.files.get(name) {
            Some(FileState::Deleted) => None,
            Some(FileState::Edited(file)) => Some(EditedFile::clone(file)),
            None => {
                let bytes = stored.bytes(name)?;
                Some(EditedFile::stored(bytes))
            }
        }
    }

    fn replace(
        &mut self,
        rows: &[(Arc<str>, Bytes)],
        stored: &dyn StoredFiles,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        for (row, (name, text)) in rows.iter().enumerate() {
            go_on()?;
            check_name(name).map_err(|error| at_row(row, error))?;
            self.pending_bytes += stored.bytes(name).unwrap_or(0) + text.len() as u64 + EDIT_BYTES;
            let mut pieces = Pieces::default();
            pieces.insert(0, text.clone());
            let file = EditedFile::new(false, pieces);
            self.files
                .insert(name.clone(), FileState::Edited(Arc::new(file)));
        }
        Ok(())
    }

    fn delete(
        &mut self,
        files: &[Arc<str>],
        stored: &dyn StoredFiles,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        for (row, name) in files.iter().enumerate() {
            go_on()?;
            if !self.has(name, stored) {
                return Err(at_row(row, stored.no_such_file(name)));
            }
            match stored.bytes(name) {
                Some(bytes) => {
                    self.pending_bytes += bytes + EDIT_BYTES;
                    self.files.insert(name.clone(), FileState::Deleted);
                    self.forget_metadata(name, true);
                }
                None => {
                    self.files.remove(name);
                    self.forget_metadata(name, false);
                }
            }
        }
        Ok(())
    }
}

/// Cache of names by pointer: log2 of its slots, and the multiplier of its hash.
const NAME_SLOT_BITS: u32 = 12;
const NAME_SLOT_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Rows by the names of their files: where the rows of each file begin, and the end; and the rows. Files come in order of their
/// first rows, so that an error names the first wrong row, and the rows of each ascend.
pub(crate) fn rows_by_file<'a>(names: impl Iterator<Item = &'a str>) -> (Vec<usize>, Vec<usize>) {
    // Rows of one file mostly share the memory of its name: a table by pointer saves most look-ups by bytes.
    let mut by_place: Vec<(&str, usize)> = vec![("", 0); 1 << NAME_SLOT_BITS];
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    let mut starts = vec![0];
    let files: Vec<usize> = names
        .map(|name| {
            let slot = (name.as_ptr() as u64).wrapping_mul(NAME_SLOT_FACTOR);
            // The top `NAME_SLOT_BITS` bits.
            let known = &mut by_place[(slot >> (u64::BITS - NAME_SLOT_BITS)) as usize];
            if name.is_empty() || !std::ptr::eq(known.0, name) {
                let next = by_name.len();
                *known = (name, *by_name.entry(name).or_insert(next));
            }
            let file = known.1;
            if file + 1 == starts.len() {
                starts.push(0);
            }
            starts[file + 1] += 1;
            file
        })
        .collect();
    for file in 1..starts.len() {
        starts[file] += starts[file - 1];
    }
    let mut next = starts.clone();
    let mut by_file = vec![0; files.len()];
    for (row, file) in files.into_iter().enumerate() {
        by_file[next[file]] = row;
        next[file] += 1;
    }
    (starts, by_file)
}

/// Longest name of a file.
pub(crate) const NAME_BYTES_MAX: usize = 4096;

/// A name that COPY can write again: relative, with `/` between parts none of which is empty, `.` or `..`.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    let fault = if name.len() > NAME_BYTES_MAX {
        format!(
            "it has {} bytes, at most {NAME_BYTES_MAX} can be",
            name.len()
        )
    } else if name.contains('\0') {
        "it has a NUL".to_owned()
    } else if !name.split('/').all(is_part) {
        "it is no relative path; hint: parts stand between single `/`, none is `.` or `..`"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Invalid {
        subject: format!("file name {}", quote(name)),
        reason: fault,
    })
}

/// An error with the number of its row.
pub(crate) fn at_row(row: usize, error: Error) -> Error {
    Error::Invalid {
        subject: format!("row {}", row + 1),
        reason: error.to_string(),
    }
}
