//! The plain scan of words, n-grams and term vectors: every file is expanded and cut into words again.
//!
//! The scan is slow and evidently right, so scans of the grammar are tested against it. Invariant: rows come file by file in
//! order of name, words in order of position, term vectors in order of rank.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use zipfdb_sql::query::{NgramsColumn, Relation, TermVectorsColumn, WordsColumn};
use zipfdb_storage::Tokenizer;

use super::super::context::Context;
use super::super::explain::{Describe, Description};
use super::super::row::{Operator, RowCollector};
use super::boundary::{Scan, ScanColumn, ScanRequest, passes};
use crate::answer::CorpusReader;
use crate::batch::Batch;
use crate::batch::text_or_blob;
use crate::expression::from_count;
use crate::handles::corpus::Corpus;
use crate::runtime::interrupt::Interrupt;
use crate::tokenize::{Sink, has_glued_space, tokenize};
use crate::{Result, Value};

pub(super) struct ReferenceScan {
    reader: CorpusReader,
    tokenizer: Tokenizer,
    request: ScanRequest,
    /// The next file, by index.
    file: usize,
    /// Rows of the file before it.
    rows: VecDeque<Vec<Value>>,
    interrupt: Interrupt,
    description: Arc<Description>,
}

impl ReferenceScan {
    pub(super) fn new(
        corpus: &Corpus,
        request: ScanRequest,
        context: &Context,
    ) -> Result<ReferenceScan> {
        let reader = corpus.reader(&context.interrupt)?;
        let words = reader.view().files().iter().map(|file| file.words).sum();
        let description = Description::new("words", "every file expanded".to_owned(), Some(words));
        Ok(ReferenceScan {
            reader,
            tokenizer: corpus.settings()?.tokenizer,
            request,
            file: 0,
            rows: VecDeque::new(),
            interrupt: context.interrupt.clone(),
            description: Arc::new(description),
        })
    }

    /// Makes the rows of a file.
    fn read(&mut self, index: usize) -> Result<()> {
        let file = &self.reader.view().files()[index];
        let content = self.reader.extract(index, 0, file.bytes, &self.interrupt)?;
        let mut words = Words {
            tokenizer: self.tokenizer,
            found: Vec::new(),
        };
        tokenize(self.tokenizer, &content, &mut words);
        let words: Vec<(usize, &[u8])> = words
            .found
            .iter()
            .map(|&(start, end)| (start, &content[start..end]))
            .collect();
        let name = Value::Text(file.name.clone());
        let mut pace = self.interrupt.pace();
        match &self.request.relation {
            Relation::Ngrams { n, .. } => {
                // Between 1 and 8.
                for (position, ngram) in words.windows(*n as usize).enumerate() {
                    pace.step()?;
                    let texts: Vec<&[u8]> = ngram.iter().map(|word| word.1).collect();
                    let text = text_or_blob(texts.join(&b' '));
                    push(
                        &mut self.rows,
                        &self.request,
                        |column| match NgramsColumn::ALL.get(column) {
                            Some(NgramsColumn::Ngram) => text.clone(),
                            Some(NgramsColumn::File) => name.clone(),
                            Some(NgramsColumn::Position) => from_count(position as u64),
                            Some(NgramsColumn::Offset) => from_count(ngram[0].0 as u64),
                            None => Value::Null,
                        },
                    )?;
                }
            }
            Relation::TermVectors { k, .. } => {
                let mut counts: BTreeMap<&[u8], u64> = BTreeMap::new();
                for (_, word) in words {
                    *counts.entry(word).or_default() += 1;
                }
                let mut ranked: Vec<(&[u8], u64)> = counts.into_iter().collect();
                // Stable, so words of equal counts stay in order.
                ranked.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
                ranked.truncate(usize::try_from(*k).unwrap_or(usize::MAX));
                for (index, (word, count)) in ranked.into_iter().enumerate() {
                    push(
                        &mut self.rows,
                        &self.request,
                        |column| match TermVectorsColumn::ALL.get(column) {
                            Some(TermVectorsColumn::File) => name.clone(),
                            Some(TermVectorsColumn::Word) => text_or_blob(word.to_vec()),
                            Some(TermVectorsColumn::Count) => from_count(count),
                            Some(TermVectorsColumn::Rank) => from_count(index as u64 + 1),
                            None => Value::Null,
                        },
                    )?;
                }
            }
            _ => {
                for (position, (offset, word)) in words.into_iter().enumerate() {
                    pace.step()?;
                    push(
                        &mut self.rows,
                        &self.request,
                        |column| match WordsColumn::ALL.get(column) {
                            Some(WordsColumn::File) => name.clone(),
                            Some(WordsColumn::Word) => text_or_blob(word.to_vec()),
                            Some(WordsColumn::Position) => from_count(position as u64),
                            Some(WordsColumn::Offset) => from_count(offset as u64),
                            Some(WordsColumn::Length) => from_count(word.len() as u64),
                            None => Value::Null,
                        },
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// Adds a row if it passes the filters.
fn push(
    rows: &mut VecDeque<Vec<Value>>,
    request: &ScanRequest,
    value: impl Fn(usize) -> Value,
) -> Result<()> {
    if passes(&request.filters, &value)? {
        let columns = request.columns.iter();
        let values = columns.map(|requested| match requested.column {
            ScanColumn::Column(column) => value(column),
            ScanColumn::Substr { .. } | ScanColumn::Excerpt(_) => Value::Null,
        });
        rows.push_back(values.collect());
    }
    Ok(())
}

impl Operator for ReferenceScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        while self.rows.is_empty() && self.file < self.reader.view().files().len() {
            self.interrupt.check()?;
            self.read(self.file)?;
            self.file += 1;
        }
        let mut rows = RowCollector::default();
        while !rows.is_full(rows_max)
            && let Some(row) = self.rows.pop_front()
        {
            rows.push(row);
        }
        Ok(rows.finish())
    }
}

impl Scan for ReferenceScan {
    fn description(&self) -> Arc<dyn Describe> {
        self.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}

/// Collects the places of the words of a text.
struct Words {
    tokenizer: Tokenizer,
    found: Vec<(usize, usize)>,
}

impl Sink for Words {
    fn word(&mut self, text: &[u8], start: usize, end: usize) {
        let glued = has_glued_space(self.tokenizer, &text[start..end]);
        self.found.push((start + usize::from(glued), end));
    }

    fn gap(&mut self, _: &[u8], _: usize, _: usize) {}
}
