//! The boundary between operators and the readers of relations.
//!
//! A block states its needs in a `ScanRequest`; a `Scan` returns rows of exactly the requested columns. Invariant: a scan returns
//! the rows that pass all column filters, each with its multiplicity in the relation, in any order and with equal rows merged or
//! not, unless its `Properties` promise more.

mod any_length;
pub(super) mod boundary;
mod catalog;
mod counted;
mod files;
mod files_with;
mod joined_ngrams;
mod large_ngrams;
mod metadata;
mod ngram_cursor;
mod ngram_marks;
mod ngram_matcher;
mod ngram_rows;
mod ngrams;
mod nothing;
mod occurrences;
mod odd_ngrams;
mod ordered_ngrams;
mod ranked;
#[cfg(test)]
mod reference;
mod request;
mod rows;
mod scan_spec;
mod search;
mod selection;
mod term_vectors;
#[cfg(test)]
mod tests;
mod text_rows;
mod text_spans;
mod top;
mod word_tables;
mod words;

use std::sync::Arc;

use zipfdb_sql::query::Relation;
use zipfdb_sql::search_call::SearchFunction;

use super::context::Context;
use crate::Result;
use crate::handles::session::Session;

pub(crate) use boundary::{Fetch, OrderKey, Properties, Scan, ScanColumn, ScanRequest};
pub(crate) use nothing::Nothing;
pub(super) use request::{Sourced, request, row_order};
pub(super) use words::lookups;

/// Starts the scan of a relation.
pub(super) fn open(
    session: &Arc<Session>,
    request: ScanRequest,
    context: &Context,
) -> Result<Box<dyn Scan>> {
    metadata::open(session, request, context, |request| {
        open_plain(session, request, context)
    })
}

/// Starts the scan of a relation without metadata.
fn open_plain(
    session: &Arc<Session>,
    request: ScanRequest,
    context: &Context,
) -> Result<Box<dyn Scan>> {
    Ok(match &request.relation {
        Relation::Files { corpus } => {
            let reader = context.reader(session, corpus)?;
            Box::new(files::FilesScan::new(reader, request, context)?)
        }
        Relation::Corpora => Box::new(catalog::corpora(session, request, context)?),
        Relation::Segments { corpus } => {
            let corpus = session.corpus(corpus)?;
            Box::new(catalog::segments(&corpus, request, context)?)
        }
        Relation::Indexes { corpus } => {
            let reader = context.reader(session, corpus)?;
            let records = session.shared().core().indexes_of_name(corpus);
            Box::new(catalog::indexes(&reader, records, request, context)?)
        }
        Relation::FilesWith { corpus, words } => {
            let (reader, words) = (context.reader(session, corpus)?, words.clone());
            Box::new(files_with::FilesWithScan::new(
                reader, words, request, context,
            )?)
        }
        Relation::Grep {
            corpus,
            regex,
            flags,
        } => {
            let reader = context.reader(session, corpus)?;
            let expression = text_spans::GrepExpression::new(regex, flags, context)?;
            Box::new(text_spans::TextSpansScan::matches(
                reader, expression, request, context,
            )?)
        }
        Relation::Lines { corpus } => {
            let reader = context.reader(session, corpus)?;
            Box::new(text_spans::TextSpansScan::lines(reader, request, context)?)
        }
        Relation::Caches { corpus } => {
            let reader = context.reader(session, corpus)?;
            Box::new(catalog::caches(&reader, request, context)?)
        }
        Relation::Search(call) => {
            let call = call.clone();
            let reader = context.reader(session, &call.corpus)?;
            let reference = (call.reference.as_ref())
                .map(|corpus| context.reader(session, corpus))
                .transpose()?;
            let settings = session.corpus(&call.corpus)?.settings()?;
            if call.function == SearchFunction::Search {
                let tokenizer = settings.tokenizer;
                let scan = ranked::RankedScan::new(reader, tokenizer, &call, request, context)?;
                return Ok(Box::new(scan));
            }
            let declared = settings.metadata.columns().to_vec();
            Box::new(search::SearchScan::new(
                reader, reference, declared, call, request, context,
            )?)
        }
        Relation::Devices => Box::new(catalog::devices(session, request, context)?),
        Relation::Rejects => Box::new(catalog::rejects(session, request, context)?),
        Relation::Settings => Box::new(catalog::settings(request, context)?),
        Relation::NextWords { corpus, .. }
        | Relation::Phrase { corpus, .. }
        | Relation::LongestMatches { corpus, .. }
        | Relation::Attribute { corpus, .. }
        | Relation::Overlap { corpus, .. }
        | Relation::Duplicates { corpus, .. } => {
            let tokenizer = session.corpus(corpus)?.settings()?.tokenizer;
            let reader = context.reader(session, corpus)?;
            Box::new(any_length::AnyLengthScan::new(
                reader, tokenizer, request, context,
            ))
        }
        Relation::Words { corpus } => {
            let reader = context.reader(session, corpus)?;
            Box::new(words::scan(reader, request, context)?)
        }
        Relation::TermVectors { corpus, k } => {
            let (reader, k) = (context.reader(session, corpus)?, *k);
            Box::new(term_vectors::TermVectorsScan::new(
                reader, k, request, context,
            )?)
        }
        Relation::Ngrams { corpus, n } => {
            let (reader, n) = (context.reader(session, corpus)?, *n);
            Box::new(ngrams::scan(reader, n, request, context)?)
        }
    })
}
