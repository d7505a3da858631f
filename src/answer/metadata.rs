//! Metadata of the files of a corpus.
//!
//! Invariant: a column has a value or NULL for each file of its view. Stored values are in the cache of the corpus; a view with
//! edits has columns of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_storage::{ColumnValues, MetadataColumn, MetadataValue, SegmentColumn};

use super::access_path::Run;
use super::corpus_view::CorpusView;
use super::file_column::{FileColumn, FileColumnBuilder, FileColumnValues};
use super::stored_view::{Kept, StoredCorpus, StoredView};
use crate::Result;
use crate::runtime::interrupt::check;

/// The stored columns of a corpus, by number.
type StoredColumns = HashMap<u32, Arc<FileColumn>>;

impl StoredView {
    /// All stored columns.
    fn stored_columns(&self, stop: &AtomicBool) -> Result<Arc<StoredColumns>> {
        let bytes = |columns: &StoredColumns| columns.values().map(|column| column.bytes()).sum();
        let run = Run::to_the_end();
        self.kept(Kept::Metadata, run, bytes, || self.read_columns(stop))
    }
}

impl StoredCorpus {
    fn read_columns(&self, stop: &AtomicBool) -> Result<StoredColumns> {
        let segments = self.segments.iter().map(|segment| segment.metadata());
        let segments: Vec<Vec<SegmentColumn>> = segments.collect::<Result<_>>()?;
        let files = self.index.files().len();
        let mut columns: HashMap<u32, FileColumnBuilder> = HashMap::new();
        for SegmentColumn { column, .. } in segments.iter().flatten() {
            let known = columns.entry(column.id);
            let known = known.or_insert_with(|| FileColumnBuilder::new(column.kind, files));
            if known.kind != column.kind {
                let segment =
                    (segments.iter()).position(|all| all.iter().any(|of| of.column == *column));
                let reason = format!(
                    "column \"{}\" has another type in other segments",
                    column.name
                );
                return Err(self.segments[segment.unwrap_or(0)].inconsistent(reason));
            }
        }
        for (id, builder) in &mut columns {
            let mut sources: Vec<Option<TextSource<'_>>> = (segments.iter())
                .map(|all| all.iter().find(|of| of.column.id == *id))
                .map(|column| column.map(TextSource::new))
                .collect();
            for file in 0..files {
                check(stop)?;
                // All parts of a file have its values.
                let part = self.index.parts(file)[0];
                match &mut sources[part.segment as usize] {
                    Some(source) => source.push(part.file as usize, builder),
                    None => builder.push_null(),
                }
            }
        }
        let columns = columns.into_iter();
        Ok(columns
            .map(|(id, builder)| (id, Arc::new(builder.finish())))
            .collect())
    }
}

/// A column of a segment whose texts are numbered anew.
struct TextSource<'a> {
    column: &'a SegmentColumn,
    /// The new number of each text or, of dates and moments, of each value.
    texts: Vec<Option<u32>>,
    moments: HashMap<i64, u32>,
}

impl<'a> TextSource<'a> {
    fn new(column: &'a SegmentColumn) -> TextSource<'a> {
        let texts = match &column.values {
            ColumnValues::Texts { texts, .. } => vec![None; texts.len()],
            _ => Vec::new(),
        };
        TextSource {
            column,
            texts,
            moments: HashMap::new(),
        }
    }

    fn push(&mut self, file: usize, builder: &mut FileColumnBuilder) {
        let column = self.column;
        if column
            .present
            .as_ref()
            .is_some_and(|present| !present[file])
        {
            return builder.push_null();
        }
        match &column.values {
            ColumnValues::Texts { numbers, texts } => {
                let text = numbers[file] as usize;
                let number = match self.texts[text] {
                    Some(number) => number,
                    None => *self.texts[text].insert(builder.number_of(texts[text].to_string())),
                };
                builder.push_number(number);
            }
            ColumnValues::Integers(values) if builder.is_of_texts() => {
                match self.moments.get(&values[file]) {
                    Some(&number) => builder.push_number(number),
                    None => {
                        builder.push(&MetadataValue::Integer(values[file]));
                        if let Some(&number) = builder.numbers.last() {
                            self.moments.insert(values[file], number);
                        }
                    }
                }
            }
            _ => builder.push(&column.value(file)),
        }
    }
}

impl CorpusView {
    /// The values of a column of the files of this view.
    ///
    /// # Errors
    /// If a segment is damaged, or `stop` is set.
    pub(crate) fn metadata(
        &self,
        column: &MetadataColumn,
        stop: &AtomicBool,
    ) -> Result<Arc<FileColumn>> {
        let stored = self.stored().stored_columns(stop)?;
        let stored = stored.get(&column.id);
        if self.overlay().is_empty()
            && let Some(stored) = stored
        {
            return Ok(stored.clone());
        }
        if let Some(known) = self.edited_metadata.lock().get(&column.id) {
            return Ok(known.clone());
        }
        let made = self.make_column(column, stored.map(|stored| &**stored), stop)?;
        let mut known = self.edited_metadata.lock();
        Ok(known
            .entry(column.id)
            .or_insert_with(|| Arc::new(made))
            .clone())
    }

    fn make_column(
        &self,
        column: &MetadataColumn,
        stored: Option<&FileColumn>,
        stop: &AtomicBool,
    ) -> Result<FileColumn> {
        let files = self.files();
        let mut builder = FileColumnBuilder::new(column.kind, files.len());
        let texts = stored.map_or(0, |stored| match &stored.values {
            FileColumnValues::Texts { texts, .. } => texts.len(),
            _ => 0,
        });
        let mut known = vec![None; texts];
        // Both in order of name.
        let mut edits = self.overlay().metadata().peekable();
        for (number, file) in files.iter().enumerate() {
            check(stop)?;
            while edits.next_if(|(name, _)| ***name < *file.name).is_some() {}
            let edit = edits.peek().filter(|(name, _)| ***name == *file.name);
            let edit = edit.map(|(_, edit)| edit);
            if let Some(value) = edit.and_then(|edit| edit.value(column.id)) {
                builder.push(value);
                continue;
            }
            let rests_on_stored = edit.is_none_or(|edit| edit.rests_on_stored);
            let place = self.stored_place(number).filter(|_| rests_on_stored);
            match (stored, place) {
                (Some(stored), Some(place)) => builder.push_from(stored, place, &mut known),
                _ => builder.push_null(),
            }
        }
        Ok(builder.finish())
    }

    /// The stored file with the name of a file, though its text may be another one.
    fn stored_place(&self, file: usize) -> Option<usize> {
        match (self.pending(), self.resolve(file).0) {
            (_, Some(stored)) => Some(stored),
            (None, None) => None,
            (Some(_), None) => self.stored().find_file(&self.files()[file].name),
        }
    }
}
