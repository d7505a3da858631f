//! The question of a scan of words or n-grams: columns, conditions by what decides them, and the corpus question that these make.
//!
//! A word is an n-gram of one word here. Invariant: every condition is in exactly one of three places: decided once for each file
//! (`asked.files`), once for each word or n-gram (`text_filters`), or for each occurrence (`passes_place`).

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use zipfdb_kernels::FileOrder;

use super::super::context::Context;
use super::boundary::{
    OrderKey, Properties, RequestedColumn, RowOrder, ScanColumn, ScanRequest, passes,
};
use super::ngram_marks::NgramWordMarks;
use super::selection::{WantedWords, WordSelection, bytes_of, files_that_pass, places};
use crate::answer::{
    CorpusReader, CorpusView, FEW_WORDS, Granularity, MergedOrder, PlaceConditions, PlaceSet,
    Question, ShownParts, TextSet,
};
use crate::batch::text_or_blob;
use crate::expression::{ColumnFilter, from_count};
use crate::runtime::interrupt::Interrupt;
use crate::runtime::prefetch::Prefetch;
use crate::{Result, Value};

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

/// A corpus question with the columns and conditions of SQL.
pub(super) struct ScanSpec {
    pub(super) reader: CorpusReader,
    pub(super) context: Context,
    pub(super) asked: Question,
    /// The columns of the relation, by index.
    schema: Vec<SequenceColumn>,
    /// The index of the column of words or n-grams.
    text: usize,
    /// The columns of rows.
    pub(super) columns: Vec<SequenceColumn>,
    /// Conditions on words and their lengths, or on n-grams.
    pub(super) text_filters: Arc<[ColumnFilter]>,
    /// The marks of words for the conditions on n-grams.
    ngram_marks: OnceLock<Option<NgramWordMarks>>,
    /// Conditions on `position` or `offset`.
    place_filters: Vec<ColumnFilter>,
}

/// An occurrence of a word or n-gram.
pub(super) struct SequencePlace<'a> {
    pub(super) words: &'a [u32],
    pub(super) file: u32,
    pub(super) position: u64,
    /// None if it is computed only where it is needed.
    pub(super) offset: Option<u64>,
}

impl ScanSpec {
    /// Sorts conditions by what decides them. `schema` are the columns of the relation.
    pub(super) fn new(
        reader: CorpusReader,
        n: usize,
        schema: Vec<SequenceColumn>,
        request: ScanRequest,
        context: &Context,
    ) -> Result<ScanSpec> {
        let column_of = |requested: &RequestedColumn| match requested.column {
            ScanColumn::Column(column) => schema.get(column).copied(),
            ScanColumn::Substr { .. } | ScanColumn::Excerpt(_) => None,
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
        let granularity = if is_by_place || !place_filters.is_empty() || !request.merge {
            Granularity::Occurrence
        } else {
            merged_granularity(&columns)
        };
        let index_of = |wanted| schema.iter().position(|&column| column == wanted);
        let text = index_of(SequenceColumn::Word).or(index_of(SequenceColumn::Ngram));
        let text = text.expect("words and n-grams have a column of texts");
        let (position, offset) = (SequenceColumn::Position, SequenceColumn::Offset);
        let by_text = columns.iter().position(|column| column.is_text());
        let by_text = by_text.map(RowOrder::ascending);
        let shows_text =
            |column: &SequenceColumn| column.is_text() || *column == SequenceColumn::Length;
        let asked = Question {
            n,
            granularity,
            files: files_that_pass(reader.view(), &file_filters, request.files.as_deref())?,
            texts: texts_that_pass(&schema, text, &text_filters)?,
            places: PlaceSet {
                ranges: places(&place_filters, index_of(position), index_of(offset)),
                conditions: place_conditions(&schema, &place_filters),
            },
            shown: ShownParts {
                texts: columns.iter().any(shows_text),
                positions: columns.contains(&position),
                offsets: columns.contains(&offset),
            },
            limit: request.limit,
            top: request.top,
            wanted_order: merged_order(granularity, by_text, &request.wanted_order),
        };
        Ok(ScanSpec {
            reader,
            context: context.clone(),
            asked,
            columns,
            text_filters: text_filters.into(),
            ngram_marks: OnceLock::new(),
            place_filters,
            text,
            schema,
        })
    }

    /// The bytes in which the words of a file at wanted positions begin.
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
        let (first, last) = (
            self.asked.places.ranges.positions.start(),
            self.asked.places.ranges.positions.end(),
        );
        Ok(begin_of(*first)?..begin_of(last.saturating_add(1))?)
    }

    /// The only words or n-grams that can pass, if they are known before the dictionary is.
    pub(super) fn values(&self) -> Option<&[Value]> {
        WordSelection::values(&self.text_filters, self.text)
    }

    /// The numbers of the words that pass, ascending; none for all.
    pub(super) fn words(&self) -> Result<Option<Vec<u32>>> {
        let schema = self.schema.clone();
        let value = move |word: &[u8], column: usize| word_value(schema[column], word);
        let (reader, filters) = (&self.reader, &self.text_filters);
        WordSelection::numbers(reader, filters, self.text, value, self.interrupt())
    }

    /// The words that pass.
    pub(super) fn wanted_words(&self) -> Result<WantedWords> {
        WantedWords::new(self.view(), self.words()?)
    }

    /// The marks of words for the conditions on n-grams, once they were prepared.
    pub(super) fn ngram_marks(&self) -> Option<&NgramWordMarks> {
        self.ngram_marks.get().and_then(Option::as_ref)
    }

    /// Marks all words for the conditions on n-grams.
    pub(super) fn prepare_ngram_marks(&self) -> Result<()> {
        if !self.asked.texts.is_all() {
            let (filters, n) = (self.text_filters.clone(), self.asked.n);
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
            None if view.has_offsets_now(file as usize) => view.offset_of_word(file, position),
            None => self.ask(move |view, _| view.offset_of_word(file, position)),
        }
    }

    /// Whether the relation has words, and not n-grams of one word.
    fn is_of_words(&self) -> bool {
        self.schema[self.text] == SequenceColumn::Word
    }

    /// The promises of a scan whose merged rows come in an order, or in their own.
    pub(super) fn properties(&self, merged: Option<MergedOrder>) -> Properties {
        let place = |wanted| self.columns.iter().position(|&column| column == wanted);
        let file = place(SequenceColumn::File);
        let text = place(self.schema[self.text]);
        let position = place(SequenceColumn::Position).or(place(SequenceColumn::Offset));
        let [by_file, by_word, by_position] =
            [file, text, position].map(|column| column.map(RowOrder::ascending));
        let has_one_file = self.asked.files.len() <= 1;
        let order = match (self.asked.granularity, merged) {
            (Granularity::All, _) => Vec::new(),
            (Granularity::File, _) => vec![by_file],
            (
                Granularity::Word | Granularity::FileWord,
                Some(MergedOrder::Text(FileOrder::File)),
            ) => {
                vec![by_word, by_file]
            }
            (
                Granularity::Word | Granularity::FileWord,
                Some(MergedOrder::Text(FileOrder::Count)),
            ) => {
                vec![by_word, Some(RowOrder::MOST_OFTEN), by_file]
            }
            (
                Granularity::Word | Granularity::FileWord,
                Some(MergedOrder::Count {
                    descending,
                    by_text,
                }),
            ) => vec![
                Some(RowOrder::by_times(descending)),
                by_word.filter(|_| by_text),
            ],
            // N-grams come in order of their words' numbers, which no query can ask for.
            (Granularity::Word | Granularity::FileWord, None) if self.is_of_words() => {
                vec![by_file]
            }
            (Granularity::Word | Granularity::FileWord, None) => Vec::new(),
            // With one file, places alone are in order.
            (Granularity::Occurrence, _)
                if self.is_of_words() && has_one_file && file.is_none() =>
            {
                vec![by_position]
            }
            (Granularity::Occurrence, _) => vec![by_file, by_position],
        };
        // Words of some files are returned file by file.
        let is_by_file = self.is_of_words() && !self.asked.files.is_all() && !has_one_file;
        let is_unique = match self.asked.granularity {
            Granularity::All => true,
            Granularity::File => file.is_some(),
            Granularity::Word => text.is_some() && !is_by_file,
            Granularity::FileWord => file.is_some() && text.is_some(),
            Granularity::Occurrence => false,
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

    /// A queue of work for threads of the pool; nothing is begun.
    pub(super) fn work_ahead<A: Send + 'static>(&self) -> Prefetch<A> {
        Prefetch::new(&self.context.pool, self.interrupt())
    }

    /// Runs a question on the threads of the database.
    pub(super) fn ask<A: Send + 'static>(
        &self,
        work: impl FnOnce(&CorpusView, &Arc<AtomicBool>) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        self.reader.ask(self.interrupt(), work)
    }
}

/// The order of merged rows that begins as the wanted one, if there is one; `by_text` is the order of words or n-grams.
fn merged_order(
    granularity: Granularity,
    by_text: Option<RowOrder>,
    wanted: &[RowOrder],
) -> Option<MergedOrder> {
    match *wanted {
        [first, ..] if Some(first) == by_text => {
            let by_count = granularity == Granularity::FileWord
                && wanted.get(1) == Some(&RowOrder::MOST_OFTEN);
            Some(MergedOrder::Text(if by_count {
                FileOrder::Count
            } else {
                FileOrder::File
            }))
        }
        [first, ref others @ ..]
            if first.key == OrderKey::Times && granularity == Granularity::Word =>
        {
            Some(MergedOrder::Count {
                descending: first.descending,
                by_text: others.first().is_some_and(|&next| Some(next) == by_text),
            })
        }
        _ => None,
    }
}

/// The granularity of merged rows with some columns.
fn merged_granularity(columns: &[SequenceColumn]) -> Granularity {
    let has_file = columns.contains(&SequenceColumn::File);
    let has_text = columns.iter().any(|&column| column != SequenceColumn::File);
    match (has_file, has_text) {
        (false, false) => Granularity::All,
        (true, false) => Granularity::File,
        (false, true) => Granularity::Word,
        (true, true) => Granularity::FileWord,
    }
}

/// The value of a column of the relation for a word.
fn word_value(column: SequenceColumn, word: &[u8]) -> Value {
    match column {
        SequenceColumn::Length => from_count(word.len() as u64),
        _ => text_or_blob(word.to_vec()),
    }
}

/// The words or n-grams that pass conditions, as far as that is known before the dictionary is. `text` is their column.
fn texts_that_pass(
    schema: &[SequenceColumn],
    text: usize,
    filters: &[ColumnFilter],
) -> Result<TextSet> {
    if filters.is_empty() {
        return Ok(TextSet::All);
    }
    let Some(values) = WordSelection::values(filters, text) else {
        return Ok(TextSet::Conditional);
    };
    let count = values.len() as u64;
    if schema[text] != SequenceColumn::Word || values.len() > FEW_WORDS {
        return Ok(TextSet::Named { count, few: None });
    }
    let mut few: Vec<Vec<u8>> = Vec::new();
    for word in values.iter().filter_map(bytes_of) {
        if passes(filters, |column| word_value(schema[column], word))? {
            few.push(word.to_vec());
        }
    }
    few.sort_unstable();
    few.dedup();
    Ok(TextSet::Named {
        count,
        few: Some(few),
    })
}

/// The kind of conditions on places.
fn place_conditions(schema: &[SequenceColumn], filters: &[ColumnFilter]) -> PlaceConditions {
    let is_position = |filter: &ColumnFilter| schema[filter.column()] == SequenceColumn::Position;
    let is_range = |filter: &ColumnFilter| is_position(filter) && filter.integers().is_exact;
    if filters.is_empty() {
        PlaceConditions::None
    } else if filters.iter().all(is_range) {
        PlaceConditions::PositionRange
    } else {
        PlaceConditions::Any {
            positions: filters.iter().any(is_position),
        }
    }
}
