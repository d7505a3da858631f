//! The texts that a batch inserts.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use rayon::prelude::*;

use super::operation::Operation;

/// The texts that operations insert, in memory of their own.
pub(super) struct InsertedTexts {
    /// Texts of [`PART_OPERATIONS`] each, one after the other.
    parts: Vec<Bytes>,
    /// For each part the end of the text of each operation.
    ends: Vec<Vec<usize>>,
}

/// Operations whose texts are in one part.
const PART_OPERATIONS: usize = 1024;

impl InsertedTexts {
    pub(super) fn new(operations: &[Operation<'_>]) -> InsertedTexts {
        let of_parts = operations.par_chunks(PART_OPERATIONS).map(|operations| {
            let texts = operations.iter().map(Operation::text);
            let mut part = BytesMut::with_capacity(texts.map(<[u8]>::len).sum());
            let mut ends = Vec::with_capacity(operations.len());
            for operation in operations {
                part.extend_from_slice(operation.text());
                ends.push(part.len());
            }
            (part.freeze(), ends)
        });
        let (parts, ends) = of_parts.unzip();
        InsertedTexts { parts, ends }
    }

    fn part(&self, operation: usize) -> (&Bytes, usize) {
        let (part, place) = (operation / PART_OPERATIONS, operation % PART_OPERATIONS);
        let ends = &self.ends[part];
        (
            &self.parts[part],
            place.checked_sub(1).map_or(0, |before| ends[before]),
        )
    }

    /// A range of the text of an operation.
    pub(super) fn get(&self, operation: usize, range: Range<usize>) -> &[u8] {
        let (part, start) = self.part(operation);
        &part[start + range.start..start + range.end]
    }

    /// A range of the text of an operation, which shares the memory of its part.
    pub(super) fn slice(&self, operation: usize, range: Range<usize>) -> Bytes {
        let (part, start) = self.part(operation);
        part.slice(start + range.start..start + range.end)
    }
}
