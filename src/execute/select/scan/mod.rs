//! The boundary between operators and what reads a relation.
//!
//! A block says what it needs of its relation in a `ScanRequest`; a `Scan` answers with rows of exactly the columns that were
//! asked for. Invariant: a scan gives the rows that pass all column filters, each as often as it occurs in the relation, in any
//! order and with equal rows merged or not, unless its `Properties` promise more.

pub(super) mod boundary;
mod catalog;
mod counted;
mod files;
mod files_with;
mod large_ngrams;
mod ngram_cursor;
mod ngram_marks;
mod ngram_matcher;
mod ngram_rows;
mod ngrams;
mod nothing;
mod occurrences;
mod odd_ngrams;
mod ordered_ngrams;
mod plan;
mod question;
#[cfg(test)]
mod reference;
mod request;
mod rows;
mod selection;
mod term_vectors;
#[cfg(test)]
mod tests;
mod text_rows;
mod top;
mod word_tables;
mod words;

use std::sync::Arc;

use zipfdb_sql::query::Relation;

use super::context::Context;
use crate::Result;
use crate::api::session::Session;

pub(crate) use boundary::{Fetch, OrderKey, Properties, Scan, ScanColumn, ScanRequest};
pub(crate) use nothing::Nothing;
pub(super) use request::{Sourced, request, row_order};

/// Starts the scan of a relation.
pub(super) fn open(
    session: &Arc<Session>,
    request: ScanRequest,
    context: &Context,
) -> Result<Box<dyn Scan>> {
    Ok(match &request.relation {
        Relation::Files { corpus } => {
            let snapshot = context.snapshot(session, corpus)?;
            Box::new(files::FilesScan::new(snapshot, request, context)?)
        }
        Relation::Corpora => Box::new(catalog::corpora(session, request, context)?),
        Relation::Segments { corpus } => {
            let corpus = session.corpus(corpus)?;
            Box::new(catalog::segments(&corpus, request, context)?)
        }
        Relation::Indexes { corpus } => {
            let snapshot = context.snapshot(session, corpus)?;
            let records = session.shared().core().indexes_of_name(corpus);
            Box::new(catalog::indexes(&snapshot, records, request, context)?)
        }
        Relation::FilesWith { corpus, words } => {
            let (snapshot, words) = (context.snapshot(session, corpus)?, words.clone());
            Box::new(files_with::FilesWithScan::new(
                snapshot, words, request, context,
            )?)
        }
        Relation::Caches { corpus } => {
            let snapshot = context.snapshot(session, corpus)?;
            Box::new(catalog::caches(&snapshot, request, context)?)
        }
        Relation::Devices => Box::new(catalog::devices(session, request, context)?),
        Relation::Settings => Box::new(catalog::settings(request, context)?),
        Relation::Words { corpus } => {
            let snapshot = context.snapshot(session, corpus)?;
            Box::new(words::scan(snapshot, request, context)?)
        }
        Relation::TermVectors { corpus, k } => {
            let (snapshot, k) = (context.snapshot(session, corpus)?, *k);
            Box::new(term_vectors::TermVectorsScan::new(
                snapshot, k, request, context,
            )?)
        }
        Relation::Ngrams { corpus, n } => {
            let (snapshot, n) = (context.snapshot(session, corpus)?, *n);
            Box::new(ngrams::scan(snapshot, n, request, context)?)
        }
    })
}
