//! Indexes of a store: their names, and the files beside segments.
//!
//! Invariant: an index file has its name once it is complete, and is removed no later than the open after its segment or its index
//! went. No answer rests on one: without it the segment answers. So nothing here poisons the store.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::backend::TemporaryFile;
use crate::error::{IoReason, io_error};
use crate::index_file::{IndexHeader, IndexReader, IndexWriter};
use crate::indexes::{self, IndexRecord, check_name};
use crate::path_text::PathText;
use crate::store::Store;
use crate::store::directory::temporary;
use crate::store::shared::{Segment, Shared};
use crate::{Error, Result};

impl Store {
    /// All indexes of corpora that exist, by name, as they are on disk now.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn indexes(&self) -> Result<Vec<IndexRecord>> {
        let mut records = indexes::read(&*self.shared.backend, self.shared.path())?;
        let visible = self.shared.visible.lock();
        records.retain(|record| visible.corpora.contains_key(&record.corpus));
        drop(visible);
        records.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(records)
    }

    /// Notes an index, of which no segment has a file yet. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::IndexExists`]; [`Error::Invalid`] for a name that cannot be; [`Error::Corrupt`], [`Error::ReadOnly`],
    /// [`Error::Full`], [`Error::Poisoned`], [`Error::Io`].
    pub fn create_index(&self, record: IndexRecord) -> Result<()> {
        check_name(&record.name)?;
        let _writer = self.shared.writer()?;
        self.shared.require_space()?;
        let mut records = self.indexes()?;
        if let Some(existing) = records.iter().find(|known| known.answers_to(&record.name)) {
            return Err(Error::IndexExists {
                index: existing.name.clone(),
            });
        }
        records.push(record);
        indexes::write(&*self.shared.backend, self.shared.path(), &records)
    }

    /// Drops an index with its files. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`], [`Error::Corrupt`], [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Io`].
    pub fn drop_index(&self, name: &str) -> Result<()> {
        let shared = &self.shared;
        let _writer = shared.writer()?;
        let mut records = self.indexes()?;
        let place = records.iter().position(|record| record.answers_to(name));
        let place = place.ok_or_else(|| Error::NoSuchIndex {
            index: name.to_owned(),
        })?;
        let record = records.remove(place);
        indexes::write(&*shared.backend, shared.path(), &records)?;
        let name = record.name.to_ascii_lowercase();
        let listing = shared.directory.list(&*shared.backend)?;
        for (segment, _) in listing.indexes.iter().filter(|(_, index)| *index == name) {
            shared.remove_index(*segment, &name);
        }
        Ok(())
    }
}

impl Shared {
    /// Removes an index file. What fails is left to the next open.
    fn remove_index(&self, segment: u64, name: &str) {
        let path = self.directory.index(segment, name);
        match self.backend.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("{}: cannot remove: {}", PathText(&path), IoReason(&error));
            }
            _ => {}
        }
    }

    /// Removes the index files of segments that are gone.
    pub(super) fn remove_indexes(&self, segments: &[u64]) {
        // Without indexes there are no files.
        let records = indexes::read(&*self.backend, self.path());
        for record in records.unwrap_or_default() {
            for &segment in segments {
                self.remove_index(segment, &record.name);
            }
        }
    }
}

impl Segment {
    /// The file of an index of this segment; none if it has not been built.
    ///
    /// # Errors
    /// Those of [`IndexReader::open`], and [`Error::Corrupt`] if it is the file of another segment or index.
    pub fn index(&self, record: &IndexRecord) -> Result<Option<IndexReader>> {
        let Some(shared) = self.shared() else {
            return Ok(None);
        };
        let path = shared.directory.index(self.id(), &record.name);
        let reader = match IndexReader::open(&*shared.backend, &path) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            opened => opened?,
        };
        let header = reader.header();
        if header.record == *record && header.segment == (self.id(), self.fingerprint()) {
            Ok(Some(reader))
        } else {
            Err(reader.corrupt("it is of another segment or index"))
        }
    }

    /// Writes the file of an index of this segment, in place of one that is there, with the sections that `write` writes. Durable
    /// when it returns; an error leaves what was there.
    ///
    /// # Errors
    /// Those of `write`; [`Error::NoSuchIndex`] if the index was dropped meanwhile; [`Error::Full`], [`Error::ReadOnly`],
    /// [`Error::Poisoned`], [`Error::Io`].
    pub fn write_index<E: From<Error>>(
        &self,
        record: &IndexRecord,
        write: impl FnOnce(&mut IndexWriter) -> Result<(), E>,
    ) -> Result<(), E> {
        let shared = self.shared().ok_or_else(|| Error::NoSuchIndex {
            index: record.name.clone(),
        })?;
        shared.check_writable()?;
        shared.require_space()?;
        let begin = Instant::now();
        let target = shared.directory.index(self.id(), &record.name);
        let source = temporary(&target);
        let backend = &*shared.backend;
        let _ = backend.remove(&source); // left by one that failed
        let written = IndexWriter::create(backend, &source).map_err(E::from);
        let written = written.and_then(|mut writer| {
            write(&mut writer)?;
            Ok(writer.finish(&self.index_header(record, begin))?)
        });
        let placed = written.and_then(|()| {
            // The index cannot be dropped meanwhile.
            let _writer = shared.writer()?;
            let records = indexes::read(backend, shared.path())?;
            if !records.contains(record) {
                return Err(E::from(Error::NoSuchIndex {
                    index: record.name.clone(),
                }));
            }
            backend
                .rename(&source, &target)
                .map_err(io_error(&target, "rename"))?;
            Ok(shared.directory.sync(backend)?)
        });
        if placed.is_err() {
            let _ = backend.remove(&source);
        }
        placed
    }

    /// Writes an index of this segment to an empty temporary file, with the sections that `write` writes. The store does not know it:
    /// it is gone when the reader is dropped, if the file has no name.
    ///
    /// # Errors
    /// Those of `write`, and [`Error::Io`].
    pub fn write_temporary_index<E: From<Error>>(
        &self,
        file: File,
        record: &IndexRecord,
        write: impl FnOnce(&mut IndexWriter) -> Result<(), E>,
    ) -> Result<IndexReader, E> {
        let path = Path::new("a temporary index");
        let begin = Instant::now();
        let written = file.try_clone().map_err(io_error(path, "create"))?;
        let mut writer = IndexWriter::new(Box::new(TemporaryFile(written)), path)?;
        write(&mut writer)?;
        writer.finish(&self.index_header(record, begin))?;
        let file = TemporaryFile::reader(file).map_err(io_error(path, "read"))?;
        Ok(IndexReader::of(file, path)?)
    }

    /// The header of an index of this segment that was begun at `begin`.
    fn index_header(&self, record: &IndexRecord, begin: Instant) -> IndexHeader {
        IndexHeader {
            record: record.clone(),
            segment: (self.id(), self.fingerprint()),
            // 500 years.
            build_time: begin.elapsed().as_nanos() as u64,
        }
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.lock().upgrade()
    }
}
