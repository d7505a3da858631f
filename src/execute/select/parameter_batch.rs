//! Look-ups of many parameter sets, answered together where a device takes them, and intersections of lists everywhere.
//!
//! Invariant: the known answers are those that the scan of a set would look up in the same snapshot. A set with a question of
//! another kind is answered alone.

use std::sync::Arc;

use zipfdb_sql::query::{FilesColumn, Query, Relation, Source};
use zipfdb_sql::substr_range;

use super::context::{Context, KnownLookups};
use super::scan::{self, ScanColumn, ScanRequest, request};
use crate::answer::access_path::Run;
use crate::answer::{CorpusReader, LookupCache, Lookups, lookups_cost};
use crate::expression::ColumnFilter;
use crate::handles::session::Session;
use crate::{Result, Value};

/// The most sets that are answered together.
pub(super) const SETS_MAX: usize = 1 << 14;

/// The least number of sets for which batching pays.
const SETS_MIN: usize = 16;

/// Known answers take at most this part of the query's memory: 1/`MEMORY_SHARE`.
const MEMORY_SHARE: usize = 4;

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
    let mut lookups = Lookups::default();
    for (number, query) in (context.binding..).zip(queries) {
        if let [block] = &query.blocks[..]
            && let Source::Relation(relation) = &block.source
            && corpus_of(query) == Some(corpus)
        {
            let asked = request(block, relation, number, &context.interrupt, &context.values)?;
            match relation {
                Relation::Files { .. } => extracts(&mut lookups, &reader, &asked.request),
                _ => scan::lookups(&mut lookups, &reader, asked.request, context)?,
            }
        }
        lookups.end_question();
    }
    let all = lookups.len();
    if all < SETS_MIN || !reader.view().stored().takes_lookups(all as u64) {
        return Ok(None);
    }
    let view = reader.view();
    // Sizes are below 2^64.
    let memory = (context.memory / MEMORY_SHARE) as u64;
    let (sets, known) = (context.interrupt).watch(reader.pool(), |stop| {
        let run = Run::until(stop);
        let sets = lookups.keep(view, memory, run)?;
        Ok((sets, lookups.answer(view, run)?))
    })?;
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

/// Adds the ranges of bytes that a scan of named files reads.
fn extracts(lookups: &mut Lookups, reader: &CorpusReader, request: &ScanRequest) {
    let mut filters = request.filters.iter();
    let names = filters.find(|filter| filter.column() == FilesColumn::File as usize);
    let names = names.and_then(ColumnFilter::values).unwrap_or_default();
    let files = names.iter().filter_map(|name| match name {
        Value::Text(name) => reader.view().find_file(name),
        _ => None,
    });
    for file in files {
        let bytes = reader.view().files()[file].bytes;
        for requested in &request.columns {
            if let ScanColumn::Substr { start, length } = requested.column {
                lookups.add_extract(file, substr_range(start, length, bytes));
            }
        }
    }
}
