//! The cursor of n-grams that are counted, with their counts or their files.
//!
//! N-grams come in pieces, in the order of their rows. Invariant: threads of the pool make the rows of pieces ahead, and rows
//! come in the order of pieces.

use std::sync::Arc;

use super::ngram_matcher::NgramMatcher;
use super::rows::{NgramRows, RowCursor, RowPiece, SequenceRows};
use super::scan_spec::ScanSpec;
use crate::Result;
use crate::runtime::prefetch::Prefetch;

/// Appends the rows of a piece that pass.
pub(super) type MakeRows =
    Box<dyn FnOnce(&mut NgramMatcher<'_>, &mut NgramRows) -> Result<()> + Send>;

/// Returns the next piece; none at the end.
type NgramPieces = Box<dyn FnMut() -> Result<Option<MakeRows>> + Send>;

/// Returns the rows of pieces.
pub(super) struct NgramCursor {
    question: Arc<ScanSpec>,
    pieces: NgramPieces,
    ahead: Prefetch<NgramRows>,
    /// Rows that were made and not returned.
    made: std::vec::IntoIter<SequenceRows>,
    piece: RowPiece,
}

impl NgramCursor {
    pub(super) fn boxed(
        question: &Arc<ScanSpec>,
        ahead: Prefetch<NgramRows>,
        pieces: impl FnMut() -> Result<Option<MakeRows>> + Send + 'static,
    ) -> Box<dyn RowCursor> {
        Box::new(NgramCursor {
            question: question.clone(),
            pieces: Box::new(pieces),
            ahead,
            made: Vec::new().into_iter(),
            piece: RowPiece::default(),
        })
    }
}

impl RowCursor for NgramCursor {
    fn advance(&mut self, question: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        while !self.ahead.is_full()
            && let Some(make) = (self.pieces)()?
        {
            let question = self.question.clone();
            self.ahead.begin(move || {
                let mut made = NgramRows::new();
                make(&mut NgramMatcher::new(&question), &mut made)?;
                Ok(made)
            });
        }
        if !self.piece.left().is_empty() {
            self.piece
                .give(question.asked.n, self.piece.left().end, rows);
        } else if let Some(piece) = self.made.next() {
            self.piece = RowPiece::new(piece);
        } else {
            self.piece = RowPiece::default();
            let made = self.ahead.next()?;
            let has_more = made.is_some();
            self.made = made.map_or_else(Default::default, NgramRows::into_batches);
            return Ok(has_more);
        }
        Ok(true)
    }
}
