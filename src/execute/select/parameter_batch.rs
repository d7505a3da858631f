//! Look-ups of many parameter sets, answered together where a device takes them, and intersections of lists everywhere.
//!
//! Invariant: the known answers are those that the scan of a set would look up in the same snapshot. A set with a question of
//! another kind is answered alone.

use std::sync::Arc;

use zipfdb_sql::query::{FilesColumn, Query, Relation, Source, WordsColumn};
use zipfdb_sql::substr_range;

use super::context::{Context, KnownLookups};
use super::scan::{ScanColumn, ScanRequest, request};
use crate::answer::CorpusReader;
use crate::answer::LookupCache;
use crate::answer::access_path::Run;
use crate::answer::lookups_cost;
use crate::expression::ColumnFilter;
use crate::handles::session::Session;
use crate::{Result, Value};

/// The most sets that are answered together.
pub(super) const SETS_MAX: usize = 1 << 14;

/// The least number of sets for which batching pays.
const SETS_MIN: usize = 16;

/// Known answers take at most this part of the query's memory: 1/`MEMORY_SHARE`.
const MEMORY_SHARE: usize = 4;

/// Bytes of a known occurrence.
const OCCURRENCE_BYTES: u64 = size_of::<u64>() as u64;

/// The questions of sets: names of files, and words or ranges.
#[derive(Default)]
struct Questions {
    counts: Vec<(String, Vec<u8>)>,
    searches: Vec<(String, Vec<u8>)>,
    extracts: Vec<(String, u64, u64)>,
    /// For each set the number of questions of each kind so far.
    ends: Vec<[usize; 3]>,
}

/// Answers the look-ups of the first queries of one statement, up to the memory limit; the first query has number
/// `context.binding`. None if no device takes them.
///
/// # Errors
/// If a corpus is gone or damaged, a demanded device fails, a constant pattern is not valid, or the query must end.
pub(super) fn batch(
    session: &Arc<Session>,
    queries: &[Query],
    context: &Context,
) -> Result<Option<KnownLookups>> {
    if queries.first().and_then(intersection_of).is_some() {
        return batch_intersections(session, queries, context);
    }
    let devices = &session.shared().runtime.devices;
    let Some(corpus) = queries.first().and_then(corpus_of) else {
        return Ok(None);
    };
    let on_cpu = lookups_cost(queries.len() as u64, devices.threads());
    if queries.len() < SETS_MIN || !devices.may_take(on_cpu) {
        return Ok(None);
    }
    let reader = session.reader(corpus, &context.interrupt)?;
    let mut questions = Questions::default();
    for (number, query) in (context.binding..).zip(queries) {
        if let [block] = &query.blocks[..]
            && let Source::Relation(relation) = &block.source
            && corpus_of(query) == Some(corpus)
        {
            questions.add(
                &reader,
                &request(block, relation, number, &context.interrupt, &context.values)?.request,
            );
        }
        let Questions {
            counts,
            searches,
            extracts,
            ends,
        } = &mut questions;
        ends.push([counts.len(), searches.len(), extracts.len()]);
    }
    let all = questions.ends.last().map_or(0, |ends| ends.iter().sum());
    if all < SETS_MIN || !reader.view().stored().takes_lookups(all as u64) {
        return Ok(None);
    }
    let view = reader.view();
    let interrupt = &context.interrupt;
    let occurrences = interrupt.watch(reader.pool(), |stop| {
        view.count_many(&questions.searches, Run::until(stop))
    })?;
    let memory = context.memory / MEMORY_SHARE;
    // Sizes are below 2^64.
    let sets = questions.keep(&occurrences, memory as u64);
    let Questions {
        counts,
        searches,
        extracts,
        ..
    } = questions;
    let (counted, found, extracted) = interrupt.watch(reader.pool(), |stop| {
        let run = Run::until(stop);
        let counted = view.count_many(&counts, run)?;
        let found = view.search_many(&searches, run)?;
        Ok((counted, found, view.extract_many(&extracts, run)?))
    })?;
    let known = LookupCache::new(
        view,
        (counted, counts),
        (found, searches),
        (extracted, extracts),
    );
    Ok(Some(KnownLookups {
        corpus: corpus.to_owned(),
        reader: reader.knowing(known),
        sets,
    }))
}

/// Intersects the lists of all sets at once, on all threads or a device. As [`batch`], for queries of `files_with`.
fn batch_intersections(
    session: &Arc<Session>,
    queries: &[Query],
    context: &Context,
) -> Result<Option<KnownLookups>> {
    let Some((corpus, _)) = queries.first().and_then(intersection_of) else {
        return Ok(None);
    };
    let reader = session.reader(corpus, &context.interrupt)?;
    // The result of a set has at most all files.
    let bytes = reader.view().files().len().max(1) * size_of::<usize>();
    let sets = (context.memory / MEMORY_SHARE / bytes).min(queries.len());
    let words = queries[..sets].iter().map_while(intersection_of);
    let words = words.take_while(|(of, _)| *of == corpus);
    let words: Vec<&[Vec<u8>]> = words.map(|(_, words)| words).collect();
    if words.len() < SETS_MIN {
        return Ok(None);
    }
    let view = reader.view();
    let found = (context.interrupt).watch(reader.pool(), |stop| {
        view.files_of_all(&words, Run::until(stop))
    })?;
    let known = LookupCache {
        files_with: (words.iter().map(|words| words.to_vec()))
            .zip(found)
            .collect(),
        ..LookupCache::default()
    };
    Ok(Some(KnownLookups {
        corpus: corpus.to_owned(),
        sets: words.len() as u64,
        reader: reader.knowing(known),
    }))
}

/// The corpus and the words of a query of one block that reads `files_with`.
fn intersection_of(query: &Query) -> Option<(&str, &[Vec<u8>])> {
    match &query.blocks[..] {
        [block] => match &block.source {
            Source::Relation(Relation::FilesWith { corpus, words }) => Some((corpus, words)),
            _ => None,
        },
        _ => None,
    }
}

/// The corpus whose words or files a query of one block reads.
fn corpus_of(query: &Query) -> Option<&str> {
    let [block] = &query.blocks[..] else {
        return None;
    };
    match &block.source {
        Source::Relation(Relation::Words { corpus } | Relation::Files { corpus }) => Some(corpus),
        _ => None,
    }
}

impl Questions {
    /// Keeps the questions of the first sets whose answers take at most `memory` bytes, and returns the number of these sets. If
    /// even those of the first set take more, it has none: its rows are made one by one.
    fn keep(&mut self, occurrences: &[u64], memory: u64) -> u64 {
        let mut bytes = 0u64;
        let mut before = [0; 3];
        let fits = |ends: &&[usize; 3]| {
            let found = occurrences[before[1]..ends[1]].iter().sum::<u64>();
            let extracts = self.extracts[before[2]..ends[2]].iter();
            let extracted = extracts.map(|(.., length)| length).sum::<u64>();
            bytes = bytes.saturating_add(found.saturating_mul(OCCURRENCE_BYTES));
            bytes = bytes.saturating_add(extracted);
            before = **ends;
            bytes <= memory
        };
        let sets = self.ends.iter().take_while(fits).count();
        let last = sets.checked_sub(1).map(|last| self.ends[last]);
        let [counts, searches, extracts] = last.unwrap_or_default();
        self.counts.truncate(counts);
        self.searches.truncate(searches);
        self.extracts.truncate(extracts);
        sets.max(1) as u64
    }

    /// Adds the look-ups of a scan, if names and words define them.
    fn add(&mut self, reader: &CorpusReader, request: &ScanRequest) {
        let values = |column: usize| {
            let mut filters = request.filters.iter();
            let found = filters.find(|filter| filter.column() == column);
            found.and_then(ColumnFilter::values)
        };
        // Both relations have names of files first.
        let Some(names) = values(WordsColumn::File as usize) else {
            return;
        };
        let files = reader.view().files();
        let names = names.iter().filter_map(|name| match name {
            Value::Text(name) => Some(&files[reader.view().find_file(name)?]),
            _ => None,
        });
        let columns = request.columns.iter();
        if matches!(request.relation, Relation::Files { .. }) {
            let ranges = columns.filter_map(|requested| match requested.column {
                ScanColumn::Substr { start, length } => Some((start, length)),
                ScanColumn::Column(_) => None,
            });
            let ranges: Vec<_> = ranges.collect();
            for file in names {
                for &(start, length) in &ranges {
                    let range = substr_range(start, length, file.bytes);
                    let length = range.end - range.start;
                    self.extracts.push((file.name.clone(), range.start, length));
                }
            }
            return;
        }
        let Some(words) = values(WordsColumn::Word as usize) else {
            return;
        };
        let is_place = |column: usize| {
            let places = [WordsColumn::Position as usize, WordsColumn::Offset as usize];
            places.contains(&column)
        };
        let mut columns = columns.map(|requested| requested.column);
        let asks_place = !request.merge
            || columns.any(|column| matches!(column, ScanColumn::Column(c) if is_place(c)))
            || request
                .filters
                .iter()
                .any(|filter| is_place(filter.column()));
        let questions = if asks_place {
            &mut self.searches
        } else {
            &mut self.counts
        };
        for file in names {
            for word in words {
                let word = match word {
                    Value::Text(text) => text.as_bytes().to_vec(),
                    Value::Blob(bytes) => bytes.clone(),
                    Value::Null | Value::Integer(_) | Value::Real(_) => continue,
                };
                questions.push((file.name.clone(), word));
            }
        }
    }
}

/// Names of files come first in both relations.
const _: () = assert!(WordsColumn::File as usize == FilesColumn::File as usize);
