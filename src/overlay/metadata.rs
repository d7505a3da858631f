//! Metadata of files that was set or went since it was stored.
//!
//! Invariant: a file that was deleted has nothing of what it had before, though one of its name may be made again. Values are kept
//! by the numbers of columns; whether the corpus still has such a column is not known here.

use std::sync::Arc;

use zipfdb_storage::MetadataValue;

use super::{EDIT_BYTES, FileValues, Overlay, StoredFiles, at_row};
use crate::Result;

/// The metadata of a file, where it is not as stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileMetadata {
    /// Whether columns that are not named here are as stored; else they are NULL.
    pub(crate) rests_on_stored: bool,
    /// In order of the numbers of columns.
    values: Vec<(u32, MetadataValue)>,
}

impl FileMetadata {
    /// The value of a column, if it was set.
    pub(crate) fn value(&self, column: u32) -> Option<&MetadataValue> {
        let place = (self.values).binary_search_by_key(&column, |(number, _)| *number);
        place.ok().map(|place| &self.values[place].1)
    }

    fn set(&mut self, column: u32, value: MetadataValue) {
        match (self.values).binary_search_by_key(&column, |(number, _)| *number) {
            Ok(place) => self.values[place].1 = value,
            Err(place) => self.values.insert(place, (column, value)),
        }
    }
}

impl Overlay {
    /// The files whose metadata is not as stored, in order of name.
    pub(crate) fn metadata(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<FileMetadata>)> {
        self.metadata.iter()
    }

    /// The names of files whose text or metadata is not as stored.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let of_texts = self.files.keys().map(|name| &**name);
        let of_metadata = self.metadata.keys().map(|name| &**name);
        of_texts.chain(of_metadata.filter(|name| !self.files.contains_key(*name)))
    }

    /// Sets values of files, each of which must be there.
    pub(super) fn set(
        &mut self,
        rows: &[FileValues],
        stored: &dyn StoredFiles,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        for (row, (name, values)) in rows.iter().enumerate() {
            go_on()?;
            if !self.has(name, stored) {
                return Err(at_row(row, stored.no_such_file(name)));
            }
            let known = self
                .metadata
                .get(name)
                .map(|known| FileMetadata::clone(known));
            let mut metadata = known.unwrap_or(FileMetadata {
                rests_on_stored: true,
                values: Vec::new(),
            });
            for (column, value) in values {
                self.pending_bytes += value.size() as u64;
                metadata.set(*column, value.clone());
            }
            self.pending_bytes += EDIT_BYTES;
            self.metadata.insert(name.clone(), Arc::new(metadata));
        }
        Ok(())
    }

    /// Forgets what a file had that is deleted.
    pub(super) fn forget_metadata(&mut self, name: &Arc<str>, is_stored: bool) {
        if is_stored {
            let nothing = FileMetadata {
                rests_on_stored: false,
                values: Vec::new(),
            };
            self.metadata.insert(name.clone(), Arc::new(nothing));
        } else {
            self.metadata.remove(name);
        }
    }
}
