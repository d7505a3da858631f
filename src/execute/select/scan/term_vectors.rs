//! The scan of `term_vectors('corpus', k)`: the most frequent words of each file, from its counts on the grammar.
//!
//! Invariant: rows come in order of file, then rank. Files are counted one at a time, unless all are wanted and their words fit
//! into memory.

use std::cmp::Reverse;
use std::mem;
use std::sync::Arc;

use zipfdb_sql::query::TermVectorsColumn;

use super::super::context::Context;
use super::super::explain::{Answered, Describe, Description};
use super::super::row::{LateError, Operator};
use super::boundary::{Properties, RowOrder, Scan, ScanColumn, ScanRequest, passes};
use super::selection::files_that_pass;
use super::word_tables::LARGE;
use crate::answer::{CorpusReader, TermVectorMethod, plan_term_vectors};
use crate::batch::text_or_blob;
use crate::batch::{Batch, BatchColumn, TextDictionary};
use crate::expression::{ColumnFilter, from_count, integer_of_count};
use crate::runtime::interrupt::Interrupt;
use crate::{Result, Value};

pub(super) struct TermVectorsScan {
    reader: CorpusReader,
    k: u64,
    columns: Vec<TermVectorsColumn>,
    /// Conditions on other columns than the file.
    filters: Vec<ColumnFilter>,
    files: std::vec::IntoIter<u32>,
    /// The words of all files, most frequent first, if all are counted together; none before they are.
    rows: Option<Vec<Vec<(u32, u32)>>>,
    /// The current file and its words, most frequent first.
    current: u32,
    words: std::iter::Enumerate<std::vec::IntoIter<(u32, u64)>>,
    late: LateError,
    interrupt: Interrupt,
    description: Arc<Answered>,
}

impl TermVectorsScan {
    pub(super) fn new(
        reader: CorpusReader,
        k: u64,
        request: ScanRequest,
        context: &Context,
    ) -> Result<TermVectorsScan> {
        let file = TermVectorsColumn::File as usize;
        let (of_files, filters) =
            (request.filters.into_iter()).partition::<Vec<_>, _>(|filter| filter.column() == file);
        let files = files_that_pass(reader.view(), &of_files, request.files.as_deref())?;
        let view = reader.view();
        let words = files.words(view);
        let plan = plan_term_vectors(view, &files, limit_of(k), context.plan_settings())?;
        let method = *plan.method();
        let counts_all = method == TermVectorMethod::Table;
        let is_large = method == TermVectorMethod::FileByFile;
        let columns = request.columns.iter();
        let columns = columns.filter_map(|requested| match requested.column {
            ScanColumn::Column(column) => TermVectorsColumn::ALL.get(column).copied(),
            ScanColumn::Substr { .. } | ScanColumn::Excerpt(_) => None,
        });
        let rows = (files.len() as u64).saturating_mul(k).min(words);
        let description = || {
            let detail = format!("{k} words of each of {} files", files.len());
            Description {
                lines: plan.lines(is_large.then_some(LARGE)),
                ..Description::new("term vectors", detail, Some(rows))
            }
        };
        Ok(TermVectorsScan {
            k,
            columns: columns.collect(),
            filters,
            files: files.numbers().to_vec().into_iter(),
            rows: counts_all.then(Vec::new),
            current: 0,
            words: Vec::new().into_iter().enumerate(),
            late: LateError::default(),
            interrupt: context.interrupt.clone(),
            description: Answered::new(context.is_explained, description),
            reader,
        })
    }

    /// The `k` most frequent words of a file, with counts.
    fn count(&mut self, file: u32) -> Result<Vec<(u32, u64)>> {
        let (k, description) = (self.k, self.description.clone());
        let size = usize::try_from(k).unwrap_or(usize::MAX);
        let Some(rows) = &mut self.rows else {
            let mut counts = self.reader.ask(&self.interrupt, move |view, stop| {
                view.totals_of(file as usize, description.until(stop))
            })?;
            let ranks = self.reader.view().byte_ranks();
            let order = |&(word, count): &(u32, u64)| (Reverse(count), ranks[word as usize]);
            if size < counts.len() && size > 0 {
                counts.select_nth_unstable_by_key(size - 1, order);
            }
            counts.truncate(size);
            counts.sort_unstable_by_key(order);
            return Ok(counts);
        };
        if rows.is_empty() {
            *rows = self.reader.ask(&self.interrupt, move |view, stop| {
                let table = view.frequent_words(limit_of(k), description.until(stop))?;
                let ranks = view.byte_ranks();
                Ok(table.top(size, |word| ranks[word as usize]))
            })?;
        }
        let row = mem::take(&mut rows[file as usize]).into_iter();
        Ok(row.map(|(word, count)| (word, count.into())).collect())
    }
}

/// The number of words of a file that are needed.
fn limit_of(k: u64) -> u32 {
    u32::try_from(k).unwrap_or(u32::MAX)
}

impl TermVectorsScan {
    /// The value of a column in the row of the current file with this index.
    fn value(&self, column: TermVectorsColumn, (index, (word, count)): RankedWord) -> Value {
        match column {
            TermVectorsColumn::File => Value::Text(
                self.reader.view().files()[self.current as usize]
                    .name
                    .clone(),
            ),
            TermVectorsColumn::Word => text_or_blob(self.reader.view().word(word).to_vec()),
            TermVectorsColumn::Count => from_count(count),
            TermVectorsColumn::Rank => from_count(index as u64 + 1),
        }
    }

    /// Appends the next rows.
    fn collect(&mut self, rows_max: usize, rows: &mut TermVectorRows) -> Result<()> {
        while rows.files.len() < rows_max.max(1) {
            let Some(ranked) = self.words.next() else {
                let Some(file) = self.files.next() else {
                    return Ok(());
                };
                self.interrupt.check()?;
                self.current = file;
                self.words = self.count(file)?.into_iter().enumerate();
                continue;
            };
            if passes(&self.filters, |column| {
                self.value(TermVectorsColumn::ALL[column], ranked)
            })? {
                let (index, (word, count)) = ranked;
                rows.files.push(self.current);
                rows.words.push(word);
                rows.counts.push(integer_of_count(count));
                rows.ranks.push(integer_of_count(index as u64 + 1));
            }
        }
        Ok(())
    }

    /// The batch of some rows; none if there are none.
    fn batch(&self, rows: TermVectorRows) -> Option<Batch> {
        let (view, count) = (self.reader.view(), rows.files.len());
        let columns = self.columns.iter().map(|column| match column {
            TermVectorsColumn::File => BatchColumn::Words {
                indices: rows.files.clone(),
                dictionary: TextDictionary::files(view),
            },
            TermVectorsColumn::Word => BatchColumn::Words {
                indices: rows.words.clone(),
                dictionary: TextDictionary::words(view),
            },
            TermVectorsColumn::Count => BatchColumn::Integers(rows.counts.clone()),
            TermVectorsColumn::Rank => BatchColumn::Integers(rows.ranks.clone()),
        });
        (count > 0).then(|| Batch::new(columns.collect(), count, None))
    }
}

/// A word of a file with its count, by index in the file's vector.
type RankedWord = (usize, (u32, u64));

/// The rows of a batch in the making, by column.
#[derive(Default)]
struct TermVectorRows {
    files: Vec<u32>,
    words: Vec<u32>,
    counts: Vec<i64>,
    ranks: Vec<i64>,
}

impl Operator for TermVectorsScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        let mut rows = TermVectorRows::default();
        let ended = self.collect(rows_max, &mut rows);
        let batch = self.batch(rows);
        self.late.after(batch, ended)
    }
}

impl Scan for TermVectorsScan {
    fn properties(&self) -> Properties {
        let place = |wanted| self.columns.iter().position(|&column| column == wanted);
        let order = [TermVectorsColumn::File, TermVectorsColumn::Rank].map(place);
        let is_unique = order.iter().all(Option::is_some);
        let order = order
            .into_iter()
            .map_while(|column| column.map(RowOrder::ascending));
        Properties {
            order: order.collect(),
            is_unique,
        }
    }

    fn description(&self) -> Arc<dyn Describe> {
        self.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}
