//! What a scan of words or n-grams is asked: columns, conditions by what decides them, and what rows tell apart.
//!
//! A word is an n-gram of one word here. Invariant: every condition is in exactly one of three places: decided once for each
//! file (`files`), once for each word or n-gram (`text_filters`), or for each occurrence (`passes_place`).

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use zipfdb_kernels::FileOrder;

use super::super::context::Context;
use super::boundary::{
    OrderKey, Properties, RequestedColumn, RowOrder, ScanColumn, ScanRequest, passes,
};
use super::ngram_marks::NgramWordMarks;
use super::selection::{FileSelection, WordSelection, places};
use crate::answer::CorpusReader;
use crate::answer::{CorpusView, PlaceRanges, Top};
use crate::expression::{ColumnFilter, from_count, text_or_blob};
use crate::runtime::ahead::WorkAhead;
use crate::runtime::interrupt::Interrupt;
use crate::{Result, Value};

/// What rows tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// One row for all.
    All,
    File,
    /// A word or n-gram.
    Word,
    FileWord,
    /// Every occurrence is a row.
    Occurrence,
}

/// A column of words or n-grams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequenceColumn {
    File,
    Word,
    Ngram,
    /// Bytes of the word.
    Length,
    Position,
    Offset,
}

impl SequenceColumn {
    fn is_text(self) -> bool {
        matches!(self, SequenceColumn::Word | SequenceColumn::Ngram)
    }

    fn is_place(self) -> bool {
        matches!(self, SequenceColumn::Position | SequenceColumn::Offset)
    }
}

/// What is asked.
pub(super) struct ScanQuestion {
    pub(super) reader: CorpusReader,
    pub(super) context: Context,
    /// Words of an n-gram; 1 for words.
    pub(super) n: usize,
    /// The columns of the relation, by index.
    schema: Vec<SequenceColumn>,
    /// Which of them are words or n-grams.
    text: usize,
    /// The columns of rows.
    pub(super) columns: Vec<SequenceColumn>,
    pub(super) grain: Grain,
    pub(super) files: FileSelection,
    /// Conditions on words and their lengths, or on n-grams.
    pub(super) text_filters: Arc<[ColumnFilter]>,
    /// What words say of those on n-grams.
    ngram_marks: OnceLock<Option<NgramWordMarks>>,
    /// Conditions on `position` or `offset`.
    place_filters: Vec<ColumnFilter>,
    /// Where these can be true.
    pub(super) places: PlaceRanges,
    /// How many rows are used at most.
    pub(super) limit: Option<u64>,
    /// Which merged rows are used, if not all.
    pub(super) top: Option<Top>,
    /// In which order rows are wanted, if it is one that merged rows can come in.
    pub(super) wanted_order: Option<MergedOrder>,
}

/// An order of merged rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergedOrder {
    /// By word or n-gram, whose files come in this order.
    Text(FileOrder),
    /// By how often words or n-grams occur, whose files rows do not tell, and if `by_text` then by these.
    Count { descending: bool, by_text: bool },
}

impl MergedOrder {
    /// The order of files where rows come by word or n-gram.
    pub(super) fn of_text(self) -> Option<FileOrder> {
        match self {
            MergedOrder::Text(of_files) => Some(of_files),
            MergedOrder::Count { .. } => None,
        }
    }
}

/// An occurrence of a word or n-gram.
pub(super) struct SequencePlace<'a> {
    pub(super) words: &'a [u32],
    pub(super) file: u32,
    pub(super) position: u64,
    /// None if it is worked out only where it is asked for.
    pub(super) offset: Option<u64>,
}

impl ScanQuestion {
    /// Sorts conditions by what decides them. `schema` are the columns of the relation.
    pub(super) fn new(
        reader: CorpusReader,
        n: usize,
        schema: Vec<SequenceColumn>,
        request: ScanRequest,
        context: &Context,
    ) -> Result<ScanQuestion> {
        let column_of = |requested: &RequestedColumn| match requested.column {
            ScanColumn::Column(column) => schema.get(column).copied(),
            ScanColumn::Substr { .. } => None,
        };
        let columns: Vec<SequenceColumn> = request.columns.iter().filter_map(column_of).collect();
        let (mut file_filters, mut text_filters, mut place_filters) = Default::default();
        for filter in request.filters {
            let filters: &mut Vec<ColumnFilter> = match schema[filter.column()] {
                SequenceColumn::File => &mut file_filters,
                SequenceColumn::Position | SequenceColumn::Offset => &mut place_filters,
                _ => &mut text_filters,
            };
            filters.push(filter);
        }
        let is_by_place = columns.iter().any(|column| column.is_place());
        let grain = if is_by_place || !place_filters.is_empty() || !request.merge {
            Grain::Occurrence
        } else {
            merged_grain(&columns)
        };
        let index_of = |wanted| schema.iter().position(|&column| column == wanted);
        let text = index_of(SequenceColumn::Word).or(index_of(SequenceColumn::Ngram));
        let (position, offset) = (SequenceColumn::Position, SequenceColumn::Offset);
        let places = places(&place_filters, index_of(position), index_of(offset));
        let by_text = columns.iter().position(|column| column.is_text());
        let by_text = by_text.map(RowOrder::ascending);
        Ok(ScanQuestion {
            files: FileSelection::new(&reader, &file_filters)?,
            reader,
            context: context.clone(),
            n,
            columns,
            grain,
            text_filters: text_filters.into(),
            ngram_marks: OnceLock::new(),
            places,
            place_filters,
            limit: request.limit,
            top: request.top,
            wanted_order: merged_order(grain, by_text, &request.wanted_order),
            text: text.expect("words and n-grams have a column of texts"),
            schema,
        })
    }

    /// Whether rows or conditions on places use a column.
    pub(super) fn uses(&self, column: SequenceColumn) -> bool {
        let filtered = self.place_filters.iter().map(ColumnFilter::column);
        let mut filtered = filtered.map(|filtered| self.schema[filtered]);
        self.columns.contains(&column) || filtered.any(|filtered| filtered == column)
    }

    /// Whether rows tell words or n-grams, or their lengths.
    pub(super) fn tells_texts(&self) -> bool {
        let tells = |&column: &SequenceColumn| column.is_text() || column == SequenceColumn::Length;
        self.columns.iter().any(tells)
    }

    /// Whether all occurrences that conditions on files and texts leave are rows.
    pub(super) fn has_all_places(&self) -> bool {
        self.place_filters.is_empty()
    }

    /// Whether all occurrences between two positions in their files are rows, wherever their bytes are.
    pub(super) fn has_all_in_positions(&self) -> bool {
        let is_range = |filter: &ColumnFilter| {
            let is_position = self.schema[filter.column()] == SequenceColumn::Position;
            is_position && filter.integers().is_exact
        };
        self.place_filters.iter().all(is_range)
    }

    /// Whether rows are all occurrences between two positions in their files, which they do not tell.
    pub(super) fn is_cut_by_positions(&self) -> bool {
        !self.has_all_places()
            && self.has_all_in_positions()
            && !self.columns.contains(&SequenceColumn::Position)
    }

    /// Whether the positions of words that are looked up are needed.
    pub(super) fn looks_up_positions(&self) -> bool {
        self.uses(SequenceColumn::Position) && !self.is_cut_by_positions()
    }

    /// The bytes in which the words of a file begin that stand at the positions that are wanted.
    pub(super) fn wanted_bytes(&self, file: u32) -> Result<Range<u64>> {
        let words = self.view().files()[file as usize].words;
        let begin_of = |position: u64| match position {
            0 => Ok(0),
            // Behind the last word.
            _ if position >= words => Ok(u64::MAX),
            _ => self.offset(&SequencePlace {
                words: &[],
                file,
                position,
                offset: None,
            }),
        };
        let (first, last) = (self.places.positions.start(), self.places.positions.end());
        Ok(begin_of(*first)?..begin_of(last.saturating_add(1))?)
    }

    /// Whether all words or n-grams of files are wanted.
    pub(super) fn has_all_texts(&self) -> bool {
        self.text_filters.is_empty()
    }

    /// Whether each file of several is wanted, so that a table of all files answers.
    pub(super) fn has_table_of_files(&self) -> bool {
        self.files.is_all() && self.files.len() > 1
    }

    /// The only words or n-grams that can pass, if they are known before the dictionary is.
    pub(super) fn values(&self) -> Option<&[Value]> {
        WordSelection::values(&self.text_filters, self.text)
    }

    /// The value of a column of the relation for a word.
    fn word_value(column: SequenceColumn, word: &[u8]) -> Value {
        match column {
            SequenceColumn::Length => from_count(word.len() as u64),
            _ => text_or_blob(word.to_vec()),
        }
    }

    /// Whether a word passes.
    pub(super) fn passes_word(&self, word: &[u8]) -> Result<bool> {
        let value = |column: usize| ScanQuestion::word_value(self.schema[column], word);
        passes(&self.text_filters, value)
    }

    /// The numbers of the words that pass, ascending; none for all.
    pub(super) fn words(&self) -> Result<Option<Vec<u32>>> {
        let schema = self.schema.clone();
        let value =
            move |word: &[u8], column: usize| ScanQuestion::word_value(schema[column], word);
        let (reader, filters) = (&self.reader, &self.text_filters);
        WordSelection::numbers(reader, filters, self.text, value, self.interrupt())
    }

    /// What words say of the conditions on n-grams, once that was prepared.
    pub(super) fn ngram_marks(&self) -> Option<&NgramWordMarks> {
        self.ngram_marks.get().and_then(Option::as_ref)
    }

    /// Looks at all words with the conditions on n-grams.
    pub(super) fn prepare_ngram_marks(&self) -> Result<()> {
        if !self.has_all_texts() {
            let (filters, n) = (self.text_filters.clone(), self.n);
            let marks = self.ask(move |view, _| NgramWordMarks::new(view, &filters, n))?;
            // Prepared once, before threads decide n-grams.
            drop(self.ngram_marks.set(marks));
        }
        Ok(())
    }

    /// Whether an n-gram with a text passes.
    pub(super) fn passes_text(&self, text: &[u8]) -> Result<bool> {
        passes(&self.text_filters, |_| text_or_blob(text.to_vec()))
    }

    /// Whether an occurrence passes the conditions on places.
    pub(super) fn passes_place(&self, place: &SequencePlace<'_>) -> Result<bool> {
        for filter in &self.place_filters {
            let value = match self.schema[filter.column()] {
                SequenceColumn::Position => place.position,
                _ => self.offset(place)?,
            };
            if !filter.matches(&from_count(value))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The byte where an occurrence begins.
    pub(super) fn offset(&self, place: &SequencePlace<'_>) -> Result<u64> {
        let (file, position, view) = (place.file, place.position, self.view());
        match place.offset {
            Some(offset) => Ok(offset),
            None if view.can_tell_offsets_now(file as usize) => view.offset_of_word(file, position),
            None => self.ask(move |view, _| view.offset_of_word(file, position)),
        }
    }

    /// Whether these are words, and not n-grams of one word.
    fn is_of_words(&self) -> bool {
        self.schema[self.text] == SequenceColumn::Word
    }

    /// What a scan promises whose merged rows come in an order, or in their own.
    pub(super) fn properties(&self, merged: Option<MergedOrder>) -> Properties {
        let place = |wanted| self.columns.iter().position(|&column| column == wanted);
        let file = place(SequenceColumn::File);
        let text = place(self.schema[self.text]);
        let position = place(SequenceColumn::Position).or(place(SequenceColumn::Offset));
        let [by_file, by_word, by_position] =
            [file, text, position].map(|column| column.map(RowOrder::ascending));
        let has_one_file = self.files.len() <= 1;
        let order = match (self.grain, merged) {
            (Grain::All, _) => Vec::new(),
            (Grain::File, _) => vec![by_file],
            (Grain::Word | Grain::FileWord, Some(MergedOrder::Text(FileOrder::File))) => {
                vec![by_word, by_file]
            }
            (Grain::Word | Grain::FileWord, Some(MergedOrder::Text(FileOrder::Count))) => {
                vec![by_word, Some(RowOrder::MOST_OFTEN), by_file]
            }
            (
                Grain::Word | Grain::FileWord,
                Some(MergedOrder::Count {
                    descending,
                    by_text,
                }),
            ) => vec![
                Some(RowOrder::by_times(descending)),
                by_word.filter(|_| by_text),
            ],
            // N-grams come in order of their words' numbers, which is none that a query can ask for.
            (Grain::Word | Grain::FileWord, None) if self.is_of_words() => vec![by_file],
            (Grain::Word | Grain::FileWord, None) => Vec::new(),
            // With one file, places alone are in order.
            (Grain::Occurrence, _) if self.is_of_words() && has_one_file && file.is_none() => {
                vec![by_position]
            }
            (Grain::Occurrence, _) => vec![by_file, by_position],
        };
        // Words of some files are given file by file.
        let is_by_file = self.is_of_words() && !self.files.is_all() && !has_one_file;
        let is_unique = match self.grain {
            Grain::All => true,
            Grain::File => file.is_some(),
            Grain::Word => text.is_some() && !is_by_file,
            Grain::FileWord => file.is_some() && text.is_some(),
            Grain::Occurrence => false,
        };
        Properties {
            order: order.into_iter().map_while(|order| order).collect(),
            is_unique,
        }
    }

    pub(super) fn view(&self) -> &Arc<CorpusView> {
        self.reader.view()
    }

    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.context.interrupt
    }

    /// Work that threads of the pool do before it is asked for; nothing is begun.
    pub(super) fn work_ahead<A: Send + 'static>(&self) -> WorkAhead<A> {
        WorkAhead::new(&self.context.pool, self.interrupt())
    }

    /// Whether what is at hand may answer in place of a plan: no strategy is forced, no device is demanded, and EXPLAIN does not ask.
    pub(super) fn is_free(&self) -> bool {
        let is_forced = self.context.settings.strategy.is_some();
        !is_forced && !self.context.is_explained && !self.view().stored().devices().are_demanded()
    }

    /// Asks the files something, on the threads of the database.
    pub(super) fn ask<A: Send + 'static>(
        &self,
        work: impl FnOnce(&CorpusView, &Arc<AtomicBool>) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        self.reader.ask(self.interrupt(), work)
    }
}

/// The order of merged rows that begins as the wanted one, if there is one; `by_text` is the order of words or n-grams.
fn merged_order(
    grain: Grain,
    by_text: Option<RowOrder>,
    wanted: &[RowOrder],
) -> Option<MergedOrder> {
    match *wanted {
        [first, ..] if Some(first) == by_text => {
            let by_count = grain == Grain::FileWord && wanted.get(1) == Some(&RowOrder::MOST_OFTEN);
            Some(MergedOrder::Text(match by_count {
                true => FileOrder::Count,
                false => FileOrder::File,
            }))
        }
        [first, ref others @ ..] if first.key == OrderKey::Times && grain == Grain::Word => {
            Some(MergedOrder::Count {
                descending: first.descending,
                by_text: others.first().is_some_and(|&next| Some(next) == by_text),
            })
        }
        _ => None,
    }
}

/// What merged rows of some columns tell apart.
fn merged_grain(columns: &[SequenceColumn]) -> Grain {
    let has_file = columns.contains(&SequenceColumn::File);
    let has_text = columns.iter().any(|&column| column != SequenceColumn::File);
    match (has_file, has_text) {
        (false, false) => Grain::All,
        (true, false) => Grain::File,
        (false, true) => Grain::Word,
        (true, true) => Grain::FileWord,
    }
}
