//! Errors that come behind the rows before them.
//!
//! Invariant: an error is given once, and no row that was made before it is lost.

use super::Batch;
use crate::{Error, Result};

/// An error that waits until the rows before it are out.
#[derive(Debug, Default)]
pub(crate) struct LateError(Option<Error>);

impl LateError {
    /// # Errors
    /// The one that waits.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), Err)
    }

    /// What was made until `ended`, whose error waits if there are rows before it.
    ///
    /// # Errors
    /// That of `ended`, if there are none.
    pub(crate) fn after(
        &mut self,
        made: Option<Batch>,
        ended: Result<()>,
    ) -> Result<Option<Batch>> {
        match (&made, ended) {
            (None, Err(error)) => return Err(error),
            (_, ended) => self.0 = ended.err(),
        }
        Ok(made)
    }
}
