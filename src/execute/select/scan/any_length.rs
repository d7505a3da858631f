//! The scans of `phrase()`, `next_words()`, `longest_matches()`, `attribute()`, `overlap()` and `duplicates()`: words of any length.
//!
//! Invariant: rows come in the order of the answer, most frequent or largest first, or by the place in the text. The question is
//! asked when the first row is; offsets of a phrase and repeated passages are read some at a time.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_sql::query::{
    AttributeColumn, DuplicatesColumn, LongestMatchesColumn, NextWordsColumn, OverlapColumn,
    PhraseColumn, Relation,
};
use zipfdb_storage::Tokenizer;

use super::super::context::Context;
use super::super::explain::{Answered, Describe, Description};
use super::super::row::{BatchRest, Operator, RowCollector};
use super::boundary::{Scan, ScanColumn, ScanRequest, passes};
use crate::answer::{CorpusReader, LongestMatch, PhrasePlace, RepeatedPassages};
use crate::batch::{Batch, text_or_blob};
use crate::expression::from_count;
use crate::runtime::interrupt::Interrupt;
use crate::tokenize::word_ranges;
use crate::{Result, Value};

pub(super) struct AnyLengthScan {
    reader: CorpusReader,
    tokenizer: Tokenizer,
    request: ScanRequest,
    found: AnyLengthAnswer,
    interrupt: Interrupt,
    description: Arc<Answered>,
}

/// The answer.
enum AnyLengthAnswer {
    Nothing,
    Rows(BatchRest),
    Passages(Box<RepeatedPassages>),
    Places {
        places: std::vec::IntoIter<PhrasePlace>,
        /// The words of the phrase.
        words: usize,
    },
}

/// A row of the relation.
type RelationRow = Vec<Value>;

/// The words of a text, and their bytes in it.
struct TextWords {
    words: Vec<Vec<u8>>,
    ranges: Vec<Range<usize>>,
}

impl AnyLengthScan {
    pub(super) fn new(
        reader: CorpusReader,
        tokenizer: Tokenizer,
        request: ScanRequest,
        context: &Context,
    ) -> AnyLengthScan {
        let (name, detail) = match &request.relation {
            Relation::NextWords { context, .. } => {
                ("next words", format!("behind {} bytes", context.len()))
            }
            Relation::Phrase { text, .. } => ("phrase", format!("of {} bytes", text.len())),
            Relation::LongestMatches { text, .. } => {
                ("longest matches", format!("of {} bytes", text.len()))
            }
            Relation::Attribute {
                text, words_min, ..
            } => {
                let detail = format!("of {} bytes, {words_min} words or more", text.len());
                ("attribute", detail)
            }
            Relation::Overlap { text, n, .. } => {
                ("overlap", format!("of {} bytes, {n} words", text.len()))
            }
            Relation::Duplicates { words_min, .. } => {
                ("duplicates", format!("{words_min} words or more"))
            }
            _ => ("scan", String::new()),
        };
        let description = || Description::new(name, detail, None);
        AnyLengthScan {
            description: Answered::new(context.is_explained, description),
            reader,
            tokenizer,
            request,
            found: AnyLengthAnswer::Nothing,
            interrupt: context.interrupt.clone(),
        }
    }

    /// Answers the question.
    fn find(&self) -> Result<AnyLengthAnswer> {
        let tokenizer = self.tokenizer;
        let cut = |text: &[u8]| TextWords::of(tokenizer, text);
        let description = self.description.clone();
        let rows: Vec<RelationRow> = match &self.request.relation {
            Relation::NextWords {
                context, backoff, ..
            } => {
                let (context, backoff) = (cut(context).words, *backoff);
                let next = self.reader.ask(&self.interrupt, move |view, stop| {
                    view.next_word_shares(&context, backoff, description.until(stop))
                })?;
                let of_context = from_count(next.context_words as u64);
                let rows = next.words.into_iter().map(|next| {
                    let value = |column: &NextWordsColumn| match column {
                        NextWordsColumn::Word => text_or_blob(next.word.clone()),
                        NextWordsColumn::Count => from_count(next.count),
                        NextWordsColumn::Probability => Value::Real(next.probability),
                        NextWordsColumn::ContextWords => of_context.clone(),
                    };
                    NextWordsColumn::ALL.iter().map(value).collect()
                });
                rows.collect()
            }
            Relation::Phrase { text, .. } => return self.find_phrase(cut(text).words),
            Relation::LongestMatches { text, .. } => {
                let words = cut(text);
                let found = self.matches(&words, 1)?.into_iter().map(|found| {
                    let (start, end) = words.span(&found);
                    let value = |column: &LongestMatchesColumn| match column {
                        LongestMatchesColumn::Position => from_count(found.position as u64),
                        LongestMatchesColumn::Words => from_count(found.words as u64),
                        LongestMatchesColumn::Count => from_count(found.count),
                        LongestMatchesColumn::File => Value::Text(found.file.clone()),
                        LongestMatchesColumn::Offset => from_count(found.offset),
                        LongestMatchesColumn::Text => text_or_blob(text[start..end].to_vec()),
                    };
                    LongestMatchesColumn::ALL.iter().map(value).collect()
                });
                found.collect()
            }
            Relation::Attribute {
                text, words_min, ..
            } => {
                let words = cut(text);
                let words_min = usize::try_from(*words_min).unwrap_or(usize::MAX);
                let found = self.matches(&words, words_min)?.into_iter().map(|found| {
                    let (start, end) = words.span(&found);
                    let value = |column: &AttributeColumn| match column {
                        AttributeColumn::Position => from_count(found.position as u64),
                        AttributeColumn::Words => from_count(found.words as u64),
                        AttributeColumn::TextOffset => from_count(start as u64),
                        AttributeColumn::TextLength => from_count((end - start) as u64),
                        AttributeColumn::Count => from_count(found.count),
                        AttributeColumn::File => Value::Text(found.file.clone()),
                        AttributeColumn::Offset => from_count(found.offset),
                    };
                    AttributeColumn::ALL.iter().map(value).collect()
                });
                found.collect()
            }
            Relation::Overlap { text, n, .. } => {
                let (words, n) = (cut(text).words, usize::try_from(*n).unwrap_or(usize::MAX));
                let found = self.reader.ask(&self.interrupt, move |view, stop| {
                    view.text_overlap(&words, n, description.until(stop))
                })?;
                let share = match found.words {
                    0 => Value::Null,
                    _ => Value::Real(found.share()),
                };
                let longest = |value: fn(&LongestMatch) -> Value, none: Value| {
                    found.longest.as_ref().map_or(none, value)
                };
                let value = |column: &OverlapColumn| match column {
                    OverlapColumn::Words => from_count(found.words as u64),
                    OverlapColumn::Covered => from_count(found.covered as u64),
                    OverlapColumn::Share => share.clone(),
                    OverlapColumn::Longest => {
                        longest(|found| from_count(found.words as u64), from_count(0))
                    }
                    OverlapColumn::Position => {
                        longest(|found| from_count(found.position as u64), Value::Null)
                    }
                    OverlapColumn::Count => longest(|found| from_count(found.count), from_count(0)),
                    OverlapColumn::File => {
                        longest(|found| Value::Text(found.file.clone()), Value::Null)
                    }
                    OverlapColumn::Offset => longest(|found| from_count(found.offset), Value::Null),
                };
                vec![OverlapColumn::ALL.iter().map(value).collect()]
            }
            Relation::Duplicates { words_min, .. } => {
                // No file has 2^32 words that repeat.
                let words_min = u32::try_from(*words_min).unwrap_or(u32::MAX);
                let repeats = self.reader.ask(&self.interrupt, move |view, stop| {
                    view.repeats(words_min, description.until(stop))
                })?;
                let passages = RepeatedPassages::new(self.reader.view().clone(), repeats);
                return Ok(AnyLengthAnswer::Passages(Box::new(passages)));
            }
            _ => Vec::new(),
        };
        let mut collected = RowCollector::default();
        for row in rows {
            self.push(&mut collected, &row)?;
        }
        Ok(AnyLengthAnswer::Rows(BatchRest::of(collected.finish())))
    }

    /// Finds the places of a phrase, or only their number if no more is wanted.
    fn find_phrase(&self, text: Vec<Vec<u8>>) -> Result<AnyLengthAnswer> {
        let (words, description) = (text.len(), self.description.clone());
        if self.request.columns.is_empty() && self.request.filters.is_empty() {
            let count = self.reader.ask(&self.interrupt, move |view, stop| {
                view.count_of_phrase(&text, description.until(stop))
            })?;
            let counted = (count > 0).then(|| Batch::new(Vec::new(), 1, Some(vec![count])));
            return Ok(AnyLengthAnswer::Rows(BatchRest::of(counted)));
        }
        let places = self.reader.ask(&self.interrupt, move |view, stop| {
            view.places_of_phrase(&text, description.until(stop))
        })?;
        Ok(AnyLengthAnswer::Places {
            places: places.into_iter(),
            words,
        })
    }

    /// Reads the next places of a phrase.
    fn read_places(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let view = self.reader.view().clone();
        let requested = self.request.columns.iter().map(|column| column.column);
        let filtered = self.request.filters.iter();
        let mut columns =
            requested.chain(filtered.map(|filter| ScanColumn::Column(filter.column())));
        let of_span = [PhraseColumn::Offset, PhraseColumn::Length].map(|column| column as usize);
        let reads_span = columns.any(
            |column| matches!(column, ScanColumn::Column(column) if of_span.contains(&column)),
        );
        let mut rows = RowCollector::default();
        while !rows.is_full(rows_max) {
            self.interrupt.check()?;
            let AnyLengthAnswer::Places { places, words } = &mut self.found else {
                break;
            };
            let taken: Vec<PhrasePlace> = places.take(PLACES_MAX.min(rows_max)).collect();
            if taken.is_empty() {
                break;
            }
            let words = *words;
            let span = |place: &PhrasePlace| {
                if reads_span {
                    view.span(place.file, place.position, words)
                } else {
                    Ok((0, 0))
                }
            };
            let spans = || taken.par_iter().map(span).collect::<Result<Vec<_>>>();
            let spans = self.reader.pool().install(spans)?;
            for (place, (offset, length)) in taken.iter().zip(spans) {
                let value = |column: &PhraseColumn| match column {
                    PhraseColumn::File => {
                        Value::Text(view.files()[place.file as usize].name.clone())
                    }
                    PhraseColumn::Position => from_count(place.position),
                    PhraseColumn::Offset => from_count(offset),
                    PhraseColumn::Length => from_count(length),
                };
                let row: RelationRow = PhraseColumn::ALL.iter().map(value).collect();
                self.push(&mut rows, &row)?;
            }
        }
        Ok(rows.finish())
    }

    fn matches(&self, text: &TextWords, words_min: usize) -> Result<Vec<LongestMatch>> {
        let (words, description) = (text.words.clone(), self.description.clone());
        self.reader.ask(&self.interrupt, move |view, stop| {
            view.text_matches(&words, words_min, description.until(stop))
        })
    }

    /// Appends a row that passes the filters.
    fn push(&self, rows: &mut RowCollector, row: &RelationRow) -> Result<()> {
        let value = |column: usize| row.get(column).cloned().unwrap_or(Value::Null);
        if passes(&self.request.filters, value)? {
            let columns = self.request.columns.iter();
            rows.push(columns.map(|requested| match requested.column {
                ScanColumn::Column(column) => value(column),
                ScanColumn::Substr { .. } | ScanColumn::Excerpt(_) => Value::Null,
            }));
        }
        Ok(())
    }

    /// Reads the next passages.
    fn read(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let mut rows = RowCollector::default();
        while !rows.is_full(rows_max.min(PASSAGES_MAX)) {
            self.interrupt.check()?;
            let AnyLengthAnswer::Passages(passages) = &mut self.found else {
                break;
            };
            let pool = self.reader.pool();
            let Some(passage) = pool.install(|| passages.next()) else {
                break;
            };
            let passage = passage?;
            let value = |column: &DuplicatesColumn| match column {
                DuplicatesColumn::Words => from_count(passage.words),
                DuplicatesColumn::Count => from_count(passage.count),
                DuplicatesColumn::Files => from_count(passage.files),
                DuplicatesColumn::File => Value::Text(passage.file.clone()),
                DuplicatesColumn::Position => from_count(passage.position),
                DuplicatesColumn::Offset => from_count(passage.offset),
                DuplicatesColumn::Length => from_count(passage.length),
            };
            let row: RelationRow = DuplicatesColumn::ALL.iter().map(value).collect();
            self.push(&mut rows, &row)?;
        }
        Ok(rows.finish())
    }
}

/// Passages that are read at a time.
const PASSAGES_MAX: usize = 1 << 10;

/// Places whose offsets are read at a time.
const PLACES_MAX: usize = 1 << 10;

impl Operator for AnyLengthScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        if let AnyLengthAnswer::Nothing = self.found {
            self.found = self.find()?;
        }
        match &mut self.found {
            AnyLengthAnswer::Rows(rows) => Ok(rows.take(rows_max)),
            AnyLengthAnswer::Places { .. } => self.read_places(rows_max),
            _ => self.read(rows_max),
        }
    }
}

impl Scan for AnyLengthScan {
    fn description(&self) -> Arc<dyn Describe> {
        self.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}

impl TextWords {
    fn of(tokenizer: Tokenizer, text: &[u8]) -> TextWords {
        let ranges = word_ranges(tokenizer, text);
        TextWords {
            words: (ranges.iter().cloned().map(|range| text[range].to_vec())).collect(),
            ranges,
        }
    }

    /// The bytes of a match.
    fn span(&self, found: &LongestMatch) -> (usize, usize) {
        let last = found.position + found.words - 1;
        (self.ranges[found.position].start, self.ranges[last].end)
    }
}
