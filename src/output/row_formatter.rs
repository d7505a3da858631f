//! Rows of one answer in one format: the text before, between and behind the fields.
//!
//! Invariant: a row has the same form alone and in a batch. `field` formats values.

use std::io;
use std::sync::Arc;

use super::dictionary_fields::DictionaryFields;
use super::field::{write_bytes, write_integer, write_number, write_text, write_value};
use super::text_buffer::{RowSink, TextBuffer};
use crate::Value;
use crate::batch::{Batch, BatchColumn};
use zipfdb_sql::plan::RowFormat;

/// Rows in one format.
#[derive(Debug)]
pub(super) struct RowFormatter {
    format: RowFormat,
    /// The text before all rows.
    head: Vec<u8>,
    /// The text before the value of each column.
    before: Vec<Vec<u8>>,
}

/// For each column its dictionary, once a batch had enough rows.
#[derive(Debug, Clone, Default)]
pub(super) struct ColumnDictionaries(Vec<Option<Arc<DictionaryFields>>>);

impl RowFormatter {
    /// A formatter for columns of these names.
    pub(super) fn new(format: RowFormat, names: &[String]) -> RowFormatter {
        let name_text = |name: &str| {
            let mut sink = RowSink::default();
            write_text(name, format, &mut sink).expect("a buffer takes all");
            sink.buffer.bytes().to_vec()
        };
        let before = names.iter().enumerate().map(|(index, name)| match format {
            RowFormat::Csv | RowFormat::Tsv if index == 0 => Vec::new(),
            RowFormat::Csv => b",".to_vec(),
            RowFormat::Tsv => b"\t".to_vec(),
            RowFormat::Json | RowFormat::JsonLines => {
                let opening = if index == 0 { b"{" } else { b"," };
                [&opening[..], &name_text(name), b":"].concat()
            }
        });
        let before: Vec<Vec<u8>> = before.collect();
        let fields = before.iter().zip(names);
        let fields = fields.flat_map(|(before, name)| [before.clone(), name_text(name)]);
        let head = match format {
            RowFormat::Csv | RowFormat::Tsv => fields.chain([b"\n".to_vec()]).flatten().collect(),
            RowFormat::Json => b"[\n".to_vec(),
            RowFormat::JsonLines => Vec::new(),
        };
        RowFormatter {
            format,
            head,
            before,
        }
    }

    /// The number of columns.
    pub(super) fn columns(&self) -> usize {
        self.before.len()
    }

    /// The text behind all rows, or in place of them if there are none.
    pub(super) fn tail(&self, has_rows: bool) -> &[u8] {
        match (self.format, has_rows) {
            (RowFormat::Json, false) => b"[]\n",
            (RowFormat::Json, true) => b"\n]\n",
            (_, false) => &self.head,
            (_, true) => b"",
        }
    }

    /// Scans the dictionaries of a batch that are not known yet.
    pub(super) fn know(&self, batch: &Batch, dictionaries: &mut ColumnDictionaries) {
        let ColumnDictionaries(known) = dictionaries;
        known.resize_with(batch.columns().len(), || None);
        for (known, column) in known.iter_mut().zip(batch.columns()) {
            if known.is_none() {
                *known = DictionaryFields::of(column, self.format).map(Arc::new);
            }
        }
    }

    /// Appends a row; `is_first` if there are none before it.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn write_row(
        &self,
        values: &[Value],
        is_first: bool,
        sink: &mut RowSink<'_>,
    ) -> io::Result<()> {
        self.begin_row(is_first, &mut sink.buffer);
        for (before, value) in self.before.iter().zip(values) {
            sink.buffer.text(before);
            write_value(value, self.format, sink)?;
        }
        self.end_row(sink)
    }

    /// Appends all rows of a batch; `is_first` if there are none before them.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn write_batch(
        &self,
        batch: &Batch,
        ColumnDictionaries(dictionaries): &ColumnDictionaries,
        is_first: bool,
        sink: &mut RowSink<'_>,
    ) -> io::Result<()> {
        let format = self.format;
        let columns = batch.columns().iter().zip(dictionaries);
        let fields = columns.zip(&self.before).map(|((column, known), before)| {
            let known = known.as_deref();
            let texts = known.and_then(|known| Some((known, known.texts(column)?)));
            (before, column, texts)
        });
        let fields: Vec<_> = fields.collect();
        // A text of a dictionary that was not scanned, or that is not plain.
        let mut text = Vec::new();
        for row in 0..batch.len() {
            self.begin_row(is_first && row == 0, &mut sink.buffer);
            for (before, column, texts) in &fields {
                sink.buffer.text(before);
                match column {
                    BatchColumn::Integers(integers) => {
                        write_integer(integers[row], &mut sink.buffer);
                    }
                    BatchColumn::Reals(reals) => write_number(reals[row], format, &mut sink.buffer),
                    BatchColumn::Texts(texts) => write_bytes(texts.get(row), format, sink)?,
                    BatchColumn::Values(values) => write_value(&values[row], format, sink)?,
                    BatchColumn::Words { .. } | BatchColumn::Ngrams { .. } => {
                        let is_written = texts.is_some_and(|(known, (texts, n))| {
                            known.write(&texts[row * n..(row + 1) * n], &mut sink.buffer)
                        });
                        if !is_written {
                            text.clear();
                            column.write_text(row, &mut text);
                            write_bytes(&text, format, sink)?;
                        }
                    }
                }
            }
            self.end_row(sink)?;
        }
        Ok(())
    }

    fn begin_row(&self, is_first: bool, buffer: &mut TextBuffer) {
        if is_first {
            buffer.text(&self.head);
        } else if self.format == RowFormat::Json {
            buffer.text(b",\n");
        }
    }

    fn end_row(&self, sink: &mut RowSink<'_>) -> io::Result<()> {
        sink.text(match self.format {
            RowFormat::Csv | RowFormat::Tsv => b"\n",
            RowFormat::JsonLines => b"}\n",
            RowFormat::Json => b"}",
        })
    }
}
